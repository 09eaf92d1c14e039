//! The whole program, and the mistakes of its users.
use crate::files::{Folder, Vocabulary, write, write_as};
use crate::options::{HELP, Options};
use crate::run::run;
use crate::texts::{CHATML, INST};
use anyhow::Result;
use candle_core::Device;
use candle_core::quantized::GgmlDType;
use candle_rocm_tests::device;
use candle_transformers::generation::Sampling;
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::Path;

fn options(arguments: &[&str]) -> Result<Options> {
    let arguments = arguments.iter().map(OsString::from);
    Ok(Options::parse(lexopt::Parser::from_args(arguments))?.expect("no help was wanted"))
}

fn answer(model: &Path, arguments: &[&str], input: &str, device: &Device) -> Result<String> {
    let path = model.to_str().expect("a path of Unicode");
    let options = options(&[&[path, "--tokens", "8"], arguments].concat())?;
    let mut output = Vec::new();
    run(&options, device, &mut input.as_bytes(), &mut output)?;
    Ok(String::from_utf8(output)?)
}

/// The one line that the program prints if it fails.
fn error(model: &Path) -> String {
    let error = answer(model, &["--prompt", "x"], "", &device()).expect_err("an error");
    let text = format!("{error:#}");
    // With this variable, Candle adds a backtrace.
    assert!(!text.contains('\n') || std::env::var_os("RUST_BACKTRACE").is_some(), "{text}");
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn lines_are_a_conversation() -> Result<()> {
    let folder = Folder::new("lines");
    let path = folder.join("model.gguf");
    let greedy = ["--temperature", "0"];
    for (name, template, vocabulary) in [
        ("llama", Some(INST), Vocabulary::scored()),
        // Not qwen3: on Candle's CPU device, its prompts do not see the tokens that it generated.
        ("qwen2", Some(CHATML), Vocabulary::byte_level(Some("qwen2"))),
        ("phi2", None, Vocabulary::byte_level(None)),
    ] {
        // Products of f32 are so exact that both devices choose the same tokens.
        write_as(&path, name, &Vocabulary { template, ..vocabulary }, GgmlDType::F32)?;
        let output = answer(&path, &greedy, "hello\n\nGrüße\r\nbye", &device())?;
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), 3, "{name}: {output}");
        assert!(lines.iter().all(|line| line.len() == 8), "{name}: {output}");
        assert_eq!(output, answer(&path, &greedy, "hello\n\nGrüße\r\nbye", &Device::Cpu)?, "{name}");
        // A prompt is a conversation of one message.
        let prompt = answer(&path, &["--temperature", "0", "--prompt", "hello"], "not read", &device())?;
        assert_eq!(prompt.lines().collect::<Vec<_>>(), lines[..1], "{name}");
    }
    Ok(())
}

/// A line that is not UTF-8, and a message for which the context is too small, are left out. The conversation goes on.
#[test]
fn lines_without_an_answer_are_left_out() -> Result<()> {
    let folder = Folder::new("left-out");
    let path = folder.join("model.gguf");
    write_as(&path, "llama", &Vocabulary { template: Some(INST), ..Vocabulary::scored() }, GgmlDType::F32)?;
    let options = options(&[path.to_str().expect("a path of Unicode"), "--tokens", "4", "--temperature", "0"])?;
    let answers = |lines: &[&[u8]]| -> Result<(String, String)> {
        let mut output = Vec::new();
        let end = run(&options, &device(), &mut lines.concat().as_slice(), &mut output);
        Ok((String::from_utf8(output)?, end.map_or_else(|error| error.to_string(), |()| "answered".to_owned())))
    };
    let long = [&[b'x'; 5000][..], b"\n"].concat();
    let (expected, end) = answers(&[b"hello\n", b"bye\n"])?;
    assert_eq!(end, "answered");
    let (found, end) = answers(&[b"\xff\n", b"hello\n", b"gr\xfc\xdfe\n", &long, b"bye"])?;
    assert_eq!(found, expected);
    // Somebody who types has read the errors.
    assert_eq!(end, if std::io::stdin().is_terminal() { "answered" } else { "3 messages have no answer" });
    assert!(options.context < 5000 && expected.lines().count() == 2, "{expected}");
    Ok(())
}

#[test]
fn a_seed_repeats_the_samples() -> Result<()> {
    let folder = Folder::new("seed");
    let path = folder.join("model.gguf");
    write(&path, "llama", &Vocabulary::byte_level(None))?;
    let sample = |arguments: &[&str]| answer(&path, &[&["--prompt", "hello"], arguments].concat(), "", &device());
    let warm = ["--temperature", "3"];
    let seeds: Vec<String> =
        ["1", "2", "3"].iter().map(|seed| sample(&[&warm[..], &["--seed", seed]].concat())).collect::<Result<_>>()?;
    assert_eq!(seeds[0], sample(&["--temperature", "3", "--seed", "1"])?);
    assert!(seeds[0] != seeds[1] || seeds[0] != seeds[2]);
    // Among one token there is no choice.
    let greedy = sample(&["--temperature", "0"])?;
    assert_eq!(greedy, sample(&["--temperature", "3", "--top-k", "1"])?);
    assert_eq!(greedy, sample(&["--temperature", "3", "--top-p", "1e-9"])?);
    Ok(())
}

#[test]
fn wrong_files_are_refused() -> Result<()> {
    let folder = Folder::new("wrong");
    let path = folder.join("model.gguf");
    let shown = path.display();
    assert!(error(&path).starts_with(&format!("cannot open {shown}: ")));
    fs::write(&path, "not a model")?;
    assert!(error(&path).starts_with(&format!("{shown} is no GGUF file, or it is cut short: unknown magic")));
    assert!(error(&folder.join("")).contains("is no GGUF file"));

    write(&path, "llama", &Vocabulary::byte_level(None))?;
    let whole = fs::read(&path)?;
    for length in [whole.len() - 100, whole.len() * 3 / 4] {
        fs::write(&path, &whole[..length])?;
        let line = error(&path);
        assert!(line.starts_with(&format!("{shown} is cut short: it has {length} bytes, and the tensor ")), "{line}");
    }
    for length in [0, 3, 20, 1000] {
        fs::write(&path, &whole[..length])?;
        let line = error(&path);
        assert!(line.starts_with(&format!("{shown} is no GGUF file, or it is cut short: ")), "{line}");
    }

    // A tensor with more elements than a number counts.
    let name = b"token_embd.weight";
    let at = whole.windows(name.len()).position(|text| text == name).expect("the tensor") + name.len();
    let mut crafted = whole.clone();
    assert_eq!(crafted[at..at + 4], 2u32.to_le_bytes());
    for dim in 0..2 {
        crafted[at + 4 + 8 * dim..][..8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    }
    fs::write(&path, &crafted)?;
    let line = error(&path);
    assert!(line.contains("the tensor token_embd.weight has the shape [1099511627776, 1099511627776]"), "{line}");

    write(&path, "mamba", &Vocabulary::byte_level(None))?;
    assert_eq!(
        error(&path),
        format!(
            "{shown}: the architecture mamba is not known; known are llama, qwen2, qwen3, qwen3moe, gemma3, glm4, \
             lfm2, phi2, phi3, smollm3"
        )
    );
    write(&path, "qwen3", &Vocabulary { template: Some("{{ raise_exception('no') }}"), ..Vocabulary::scored() })?;
    assert!(error(&path).starts_with("the file's chat template fails: "));
    Ok(())
}

#[test]
fn options_are_checked() -> Result<()> {
    let given = options(&["m.gguf", "--top-k", "5", "--temperature=0.5", "--top-p", "0.9", "--seed", "7"])?;
    assert_eq!(given.sampling(), Sampling::TopKThenTopP { k: 5, p: 0.9, temperature: 0.5 });
    assert!(HELP.lines().all(|line| line.len() <= 120));
    assert_eq!((given.device, options(&["m.gguf", "--device", "1"])?.device), (0, 1));
    assert_eq!((given.model.to_str(), given.seed, given.tokens), (Some("m.gguf"), 7, 512));
    assert_eq!(options(&["--temperature", "0", "m.gguf"])?.sampling(), Sampling::ArgMax);
    assert!(Options::parse(lexopt::Parser::from_args(["--help"]))?.is_none());
    for wrong in [
        &["--seed", "1"][..],
        &["m.gguf", "other.gguf"],
        &["m.gguf", "--tokens", "0"],
        &["m.gguf", "--device", "hip:1"],
        &["m.gguf", "--tokens", "many"],
        &["m.gguf", "--temperature", "nan"],
        &["m.gguf", "--temperature", "-1"],
        &["m.gguf", "--top-k", "0"],
        &["m.gguf", "--top-p", "1.5"],
        &["m.gguf", "--unknown"],
    ] {
        assert!(options(wrong).is_err(), "{wrong:?}");
    }
    Ok(())
}
