//! Answers of small models on the ROCm device beside those of Candle's CPU device.
use crate::files::{CONTEXT, Folder, Vocabulary, write};
use crate::metadata::Metadata;
use crate::model::{ARCHITECTURES, Model, Opened};
use crate::session::Session;
use crate::tokenizer::Tokenizer;
use anyhow::{Context, Result, ensure};
use candle_core::{Device, Tensor};
use candle_rocm_tests::device;
use candle_transformers::generation::{LogitsProcessor, Sampling};
use std::path::Path;

fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.iter().map(|architecture| architecture.name)
}

/// Tokenizers of the kinds that models of this architecture have.
fn vocabularies(architecture: &str) -> Vec<Vocabulary> {
    let byte_level = || Vocabulary::byte_level(Some("qwen2"));
    match architecture {
        "llama" => vec![Vocabulary::scored(), byte_level()],
        "gemma3" | "phi3" => vec![Vocabulary::scored()],
        _ => vec![byte_level()],
    }
}

fn session(path: &Path, device: &Device) -> Result<Session> {
    let opened = Opened::open(path, 4096)?;
    let tokenizer = Tokenizer::read(&Metadata(&opened.content.metadata))?;
    Ok(Session::new(tokenizer, opened.load(device)?, LogitsProcessor::from_sampling(0, Sampling::ArgMax)))
}

const PROMPT: &str = "Say hello, ü!";

#[test]
fn answers_are_those_of_the_cpu() -> Result<()> {
    let folder = Folder::new("answers");
    let path = folder.join("model.gguf");
    // Candle's CPU device has no mixtures of experts from GGUF files.
    for name in architectures().filter(|&name| name != "qwen3moe") {
        for vocabulary in vocabularies(name) {
            write(&path, name, &vocabulary)?;
            let answer = |device: &Device| -> Result<Vec<u32>> {
                let mut output = Vec::new();
                let answer = session(&path, device)?.answer(PROMPT, 12, &mut output)?;
                assert_eq!(answer.text.as_bytes(), output);
                assert_eq!(answer.tokens.len(), 12);
                // The model does not repeat one token only.
                assert!(answer.tokens.iter().any(|token| *token != answer.tokens[0]), "{name}: {}", answer.text);
                Ok(answer.tokens)
            };
            let (rocm, cpu) = (answer(&device())?, answer(&Device::Cpu)?);
            compare(&path, &rocm, &cpu).with_context(|| format!("{name} {}", vocabulary.model))?;
        }
    }
    Ok(())
}

/// Checks that two answers are the same, or that they part where two tokens are about equally probable. The devices
/// round the activations of quantized products in different ways.
fn compare(path: &Path, rocm: &[u32], cpu: &[u32]) -> Result<()> {
    let Some(at) = (0..cpu.len()).find(|&at| rocm[at] != cpu[at]) else { return Ok(()) };
    let Session { tokenizer, .. } = session(path, &Device::Cpu)?;
    let tokens = [tokenizer.encode(PROMPT)?.as_slice(), &cpu[..at]].concat();
    let logits = logits(&mut Opened::open(path, 4096)?.load(&Device::Cpu)?, &tokens, 0)?;
    let gap = logits[cpu[at] as usize] - logits[rocm[at] as usize];
    ensure!(gap <= 0.03 * logits[cpu[at] as usize].abs(), "token {at} is {}, on the cpu {}: {gap}", rocm[at], cpu[at]);
    Ok(())
}

fn logits(model: &mut Model, tokens: &[u32], at: usize) -> Result<Vec<f32>> {
    let logits: Tensor = model.forward(tokens, at)?;
    Ok(logits.to_vec1()?)
}

/// The largest difference, relative to the largest magnitude.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    // NaN must not pass.
    let larger = |most: f32, value: f32| if value > most || value.is_nan() { value } else { most };
    let most = |values: &mut dyn Iterator<Item = f32>| values.map(f32::abs).fold(0f32, larger);
    most(&mut a.iter().zip(b).map(|(a, b)| a - b)) / most(&mut a.iter().copied())
}

/// What the table of architectures says about their caches.
#[test]
fn caches_continue_and_restart() -> Result<()> {
    let folder = Folder::new("caches");
    let path = folder.join("model.gguf");
    let tokens: Vec<u32> = (0..24).map(|at| at * 37 % 251).collect();
    for name in architectures() {
        write(&path, name, &Vocabulary::byte_level(None))?;
        let mut model = Opened::open(&path, 4096)?.load(&device())?;
        let whole = logits(&mut model, &tokens, 0)?;
        assert_eq!(whole, logits(&mut model, &tokens, 0)?, "{name} starts anew");
        if model.architecture.continues {
            // A prompt, an answer of two tokens, and the next prompt.
            for (from, to) in [(0, 10), (10, 11), (11, 12)] {
                logits(&mut model, &tokens[from..to], from)?;
            }
            let far = difference(&whole, &logits(&mut model, &tokens[12..], 12)?);
            assert!(far <= 0.03, "{name}: {far}");
        }
        let far = difference(
            &whole,
            &logits(&mut model, &tokens[..23], 0).and_then(|_| logits(&mut model, &tokens[23..], 23))?,
        );
        assert!(far <= 0.03, "{name}, one token: {far}");
    }
    Ok(())
}

#[test]
fn a_conversation_goes_on_in_the_cache() -> Result<()> {
    let folder = Folder::new("cache");
    let path = folder.join("model.gguf");
    for (name, continues) in [("llama", true), ("qwen3", true), ("gemma3", false)] {
        write(&path, name, &Vocabulary::byte_level(Some("qwen2")))?;
        let mut session = session(&path, &device())?;
        let first = session.answer("<|im_start|>hello", 8, &mut Vec::new())?;
        assert_eq!((first.reused, first.read), (0, 2), "{name}");
        // The last token has not been read yet.
        let text = format!("<|im_start|>hello{}<|im_end|>", first.text);
        let second = session.answer(&text, 8, &mut Vec::new())?;
        assert_eq!((second.reused, second.read), if continues { (9, 2) } else { (0, second.read) }, "{name}");
        // Another history is read from its beginning.
        let third = session.answer("<|im_start|>hello", 8, &mut Vec::new())?;
        assert_eq!((third.reused, third.tokens), (0, first.tokens), "{name}");
    }
    Ok(())
}

#[test]
fn an_answer_ends() -> Result<()> {
    let folder = Folder::new("ends");
    let path = folder.join("model.gguf");
    let mut vocabulary = Vocabulary::byte_level(Some("qwen2"));
    write(&path, "llama", &vocabulary)?;
    let long = session(&path, &device())?.answer("hello", CONTEXT, &mut Vec::new())?;
    // The context has room for the prompt and for the answer without its last token.
    assert_eq!((long.is_full, long.tokens.len()), (true, CONTEXT - long.read + 1));
    // With one of the tokens as the end, the answer ends before it.
    vocabulary.eos = long.tokens[20];
    let at = long.tokens.iter().position(|&token| token == vocabulary.eos).expect("it is there");
    write(&path, "llama", &vocabulary)?;
    let mut session = session(&path, &device())?;
    let short = session.answer("hello", CONTEXT, &mut Vec::new())?;
    assert_eq!((short.is_full, short.tokens.as_slice()), (false, &long.tokens[..at]));
    let error = session.answer(&"x ".repeat(CONTEXT), 1, &mut Vec::new()).err().expect("an error").to_string();
    assert_eq!(error, format!("the conversation has {} tokens, and at most {CONTEXT} fit (--context)", 2 * CONTEXT));
    Ok(())
}
