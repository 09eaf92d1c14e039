//! The tokenizer of a GGUF file: from text to tokens with the crate tokenizers, and from each token to its bytes.
//!
//! candle-core's `TokenizerFromGguf` reads vocabularies of the kind `gpt2` only. It splits text as GPT-2 does, with a
//! space before it, for all names of `tokenizer.ggml.pre` that it does not know; `llama-bpe` is one. So this is apart.
use crate::metadata::{Metadata, needed};
use anyhow::{Result, anyhow, bail};
use std::collections::{HashMap, HashSet};
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::{NFC, Prepend, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

/// How the names of `tokenizer.ggml.pre` split text before the merges.
struct Pre {
    names: &'static [&'static str],
    /// Each pattern splits what the ones before it left.
    patterns: &'static [&'static str],
    /// Whether a word of the vocabulary is a token without merges.
    whole_words: bool,
    /// Whether texts begin with the token bos if the file does not say.
    bos: bool,
    /// Whether letters and their accents are joined first.
    composes: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const fn pre(names: &'static [&'static str], patterns: &'static [&'static str]) -> Pre {
    Pre { names, patterns, whole_words: false, bos: false, composes: false }
}

/// The splits that are known. The first one is that of files that name none.
const PRES: &[Pre] = &[
    pre(&["default", "gpt-2", "phi-2"], &[GPT2]),
    Pre { whole_words: true, bos: true, ..pre(&["llama-bpe", "llama3", "llama-v3", "lfm2", "falcon3"], &[LLAMA3]) },
    pre(&["smaug-bpe", "dbrx", "glm4", "chatglm-bpe"], &[LLAMA3]),
    Pre { composes: true, ..pre(&["qwen2", "deepseek-r1-qwen"], &[QWEN2]) },
    pre(&["smollm", "starcoder"], &[r"\p{N}", GPT2]),
    Pre { whole_words: true, bos: true, ..pre(&["tekken"], &[TEKKEN]) },
    pre(&["gpt-4o"], &[GPT4O]),
];

/// Tokens that end an answer, by their texts. Files often name only one of several.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|user|>",
];

/// A token, as it is in a text.
struct Piece {
    bytes: Vec<u8>,
    kind: Kind,
}

/// The kinds of `tokenizer.ggml.token_type`, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

impl Kind {
    fn of(number: u32) -> Kind {
        use Kind::*;
        [Unknown, Control, UserDefined, Unused, Byte].into_iter().find(|&kind| kind as u32 == number).unwrap_or(Normal)
    }
}

pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    pieces: Vec<Piece>,
    /// The token that every text begins with.
    bos: Option<u32>,
    ends: HashSet<u32>,
    /// Whether text gets a space before it.
    space_before: bool,
    /// The texts of the tokens bos and eos, or empty.
    pub bos_text: String,
    pub eos_text: String,
}

impl Tokenizer {
    pub fn read(metadata: &Metadata) -> Result<Tokenizer> {
        let model = needed(metadata.text("tokenizer.ggml.model")?, "tokenizer.ggml.model")?;
        let texts = needed(metadata.texts("tokenizer.ggml.tokens")?, "tokenizer.ggml.tokens")?;
        let kinds = metadata.numbers("tokenizer.ggml.token_type")?.unwrap_or_default();
        let kinds: Vec<Kind> =
            (0..texts.len()).map(|id| kinds.get(id).map_or(Kind::Normal, |&n| Kind::of(n))).collect();
        // The format's own ids, if a file of the kind `llama` does not name them.
        let is_spm = model == "llama";
        let default = |id: u32| is_spm.then_some(id);
        let number = |name: &str| metadata.number(&format!("tokenizer.ggml.{name}_token_id"));
        let unk = number("unknown")?.or(default(0));
        let bos = number("bos")?.or(default(1));
        let eos = number("eos")?.or(default(2));
        let text = |id: Option<u32>| id.and_then(|id| texts.get(id as usize)).cloned().unwrap_or_default();

        let (inner, bos_is_added, space_before) = match model.as_str() {
            "gpt2" => {
                let (inner, bos) = byte_level(metadata, &texts)?;
                (inner, bos, false)
            }
            "llama" => {
                let space = metadata.boolean("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
                (scored(metadata, &texts, &kinds, text(unk), space)?, true, space)
            }
            other => bail!("the tokenizer {other} is not known; known are gpt2 and llama"),
        };
        let adds_bos = metadata.boolean("tokenizer.ggml.add_bos_token")?.unwrap_or(bos_is_added);

        let mut ends: HashSet<u32> = eos.into_iter().collect();
        ends.extend([number("eot")?, number("eom")?].into_iter().flatten());
        ends.extend((0..texts.len()).filter(|&id| ENDS.contains(&texts[id].as_str())).map(|id| id as u32));
        let (bos_text, eos_text) = (text(bos), text(eos));
        let chars = byte_chars();
        let pieces = texts
            .into_iter()
            .zip(&kinds)
            .map(|(text, &kind)| Piece { bytes: bytes(text, kind, is_spm, &chars), kind })
            .collect();
        let mut tokenizer =
            Tokenizer { inner, pieces, bos: bos.filter(|_| adds_bos), ends, space_before, bos_text, eos_text };
        tokenizer.add_special()?;
        Ok(tokenizer)
    }

    /// Makes texts of special tokens be found before anything is split.
    fn add_special(&mut self) -> Result<()> {
        let mut added = Vec::new();
        for (id, piece) in self.pieces.iter().enumerate() {
            let is_special = matches!(piece.kind, Kind::Control | Kind::UserDefined | Kind::Unknown);
            let text = String::from_utf8_lossy(&piece.bytes);
            // A text that the vocabulary has twice would be added under the other id.
            if is_special && !text.is_empty() && self.inner.token_to_id(&text) == Some(id as u32) {
                added.push(AddedToken::from(text, true));
            }
        }
        self.inner.add_special_tokens(added).map_err(wrap)?;
        Ok(())
    }

    /// The tokens of a text. It begins with the token bos if the model wants that and the text has none.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = self.tokens(text)?;
        match self.bos {
            Some(bos) if tokens.first() != Some(&bos) => tokens.insert(0, bos),
            _ => {}
        }
        Ok(tokens)
    }

    /// The tokens of a text that follows another one. None if they differ from those inside of one text.
    pub fn encode_after(&self, text: &str) -> Result<Option<Vec<u32>>> {
        let tokens = self.tokens(text)?;
        let is_normal = tokens.first().is_none_or(|&id| self.piece(id).is_none_or(|piece| piece.kind == Kind::Normal));
        Ok(Some(tokens).filter(|_| !(self.space_before && is_normal)))
    }

    fn tokens(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.inner.encode_fast(text, false).map_err(wrap)?.get_ids().to_vec())
    }

    fn piece(&self, id: u32) -> Option<&Piece> {
        self.pieces.get(id as usize)
    }

    /// The bytes of a token. Ids outside of the vocabulary have none.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.piece(id).map_or(&[], |piece| &piece.bytes)
    }

    /// Whether a reader sees the token. Control tokens are hidden.
    pub fn is_shown(&self, id: u32) -> bool {
        self.piece(id).is_some_and(|piece| !matches!(piece.kind, Kind::Control | Kind::Unknown | Kind::Unused))
    }

    pub fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    /// A reader of tokens that begin a text.
    pub fn stream(&self) -> Stream<'_> {
        Stream { tokenizer: self, pending: Vec::new(), skips_space: self.space_before }
    }
}

/// Makes text of tokens, one after the other.
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    /// The beginning of a character.
    pending: Vec<u8>,
    /// Whether the next byte is left out if it is a space: the one that the tokenizer adds before a text.
    skips_space: bool,
}

impl Stream<'_> {
    /// The characters that the token completes.
    pub fn push(&mut self, id: u32) -> String {
        if !self.tokenizer.is_shown(id) {
            return String::new();
        }
        let mut bytes = self.tokenizer.bytes(id);
        if self.skips_space && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            self.skips_space = false;
        }
        self.pending.extend(bytes);
        let mut text = String::new();
        let mut rest = 0;
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text += chunk.valid();
            let is_last = chunks.peek().is_none();
            match std::str::from_utf8(chunk.invalid()) {
                Ok(_) => {}
                // More bytes may complete the character.
                Err(error) if is_last && error.error_len().is_none() => rest = chunk.invalid().len(),
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        self.pending.drain(..self.pending.len() - rest);
        text
    }

    /// What is left at the end.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// A tokenizer of the kind `gpt2`, and whether its texts begin with bos: bytes written as characters, and merges.
fn byte_level(metadata: &Metadata, texts: &[String]) -> Result<(tokenizers::Tokenizer, bool)> {
    let name = metadata.text("tokenizer.ggml.pre")?.unwrap_or_else(|| PRES[0].names[0].to_owned());
    let Some(pre) = PRES.iter().find(|pre| pre.names.contains(&name.as_str())) else {
        let known: Vec<&str> = PRES.iter().flat_map(|pre| pre.names).copied().collect();
        bail!("the tokenizer.ggml.pre {name} is not known; known are {}", known.join(", "));
    };
    let merges = needed(metadata.texts("tokenizer.ggml.merges")?, "tokenizer.ggml.merges")?;
    let vocabulary = vocabulary(texts);
    let merges = merges
        .iter()
        .map(|merge| {
            let (a, b) = merge.split_once(' ').ok_or_else(|| anyhow!("the merge {merge:?} has no two parts"))?;
            if !vocabulary.contains_key(&format!("{a}{b}")) {
                bail!("the merge {merge:?} gives no token of the vocabulary");
            }
            Ok((a.to_owned(), b.to_owned()))
        })
        .collect::<Result<Merges>>()?;
    let bpe = BPE::builder().vocab_and_merges(vocabulary, merges).ignore_merges(pre.whole_words);
    let mut tokenizer = tokenizers::Tokenizer::new(bpe.build().map_err(wrap)?);
    let mut splits: Vec<PreTokenizerWrapper> = Vec::new();
    for pattern in pre.patterns {
        let pattern = SplitPattern::Regex((*pattern).to_owned());
        splits.push(Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(wrap)?.into());
    }
    splits.push(ByteLevel::new(false, true, false).into());
    tokenizer.with_pre_tokenizer(Some(Sequence::new(splits)));
    if pre.composes {
        tokenizer.with_normalizer(Some(NFC)).map_err(wrap)?;
    }
    Ok((tokenizer, pre.bos))
}

/// A tokenizer of the kind `llama`, as SentencePiece makes them. Spaces are `▁`, and bytes without a token are
/// `<0x0A>`. Neighbours are merged first that give the token with the highest score.
fn scored(
    metadata: &Metadata,
    texts: &[String],
    kinds: &[Kind],
    unk: String,
    space: bool,
) -> Result<tokenizers::Tokenizer> {
    let scores = needed(metadata.floats("tokenizer.ggml.scores")?, "tokenizer.ggml.scores")?;
    if scores.len() != texts.len() {
        bail!("the file has {} tokens and {} scores of tokens", texts.len(), scores.len());
    }
    let normal = |id: &usize| kinds[*id] == Kind::Normal;
    let ids: HashMap<&str, usize> = (0..texts.len()).filter(normal).map(|id| (texts[id].as_str(), id)).collect();
    let mut order: Vec<usize> = (0..texts.len()).filter(normal).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let mut merges = Merges::new();
    for id in order {
        let text = texts[id].as_str();
        for (at, _) in text.char_indices().skip(1) {
            let (a, b) = text.split_at(at);
            if ids.contains_key(a) && ids.contains_key(b) {
                merges.push((a.to_owned(), b.to_owned()));
            }
        }
    }
    let mut bpe = BPE::builder().vocab_and_merges(vocabulary(texts), merges).byte_fallback(true).fuse_unk(true);
    if !unk.is_empty() {
        bpe = bpe.unk_token(unk);
    }
    let mut tokenizer = tokenizers::Tokenizer::new(bpe.build().map_err(wrap)?);
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    if space {
        normalizers.push(Prepend::new("▁".into()).into());
    }
    normalizers.push(Replace::new(" ", "▁").map_err(wrap)?.into());
    tokenizer.with_normalizer(Some(Normalizers::new(normalizers))).map_err(wrap)?;
    Ok(tokenizer)
}

fn vocabulary(texts: &[String]) -> Vocab {
    texts.iter().enumerate().map(|(id, text)| (text.clone(), id as u32)).collect()
}

/// The bytes that a token stands for.
fn bytes(text: String, kind: Kind, is_spm: bool, chars: &HashMap<char, u8>) -> Vec<u8> {
    if !matches!(kind, Kind::Normal | Kind::Byte) {
        return text.into_bytes();
    }
    if is_spm {
        let byte = text.strip_prefix("<0x").and_then(|text| text.strip_suffix('>'));
        return match byte.and_then(|byte| u8::from_str_radix(byte, 16).ok()) {
            Some(byte) if kind == Kind::Byte => vec![byte],
            _ => text.replace('▁', " ").into_bytes(),
        };
    }
    let bytes: Option<Vec<u8>> = text.chars().map(|char| chars.get(&char).copied()).collect();
    bytes.unwrap_or_else(|| text.into_bytes())
}

/// The byte of each character of a vocabulary of the kind `gpt2`. Bytes that are no visible characters of Latin-1 have
/// the characters from 256 on.
pub fn byte_chars() -> HashMap<char, u8> {
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let hidden = (0..=255).filter(|&byte| !is_visible(byte)).zip('\u{100}'..).map(|(byte, char)| (char, byte));
    (0..=255).filter(|&byte| is_visible(byte)).map(|byte| (char::from(byte), byte)).chain(hidden).collect()
}

fn wrap(error: tokenizers::Error) -> anyhow::Error {
    anyhow!("the file's tokenizer: {error}")
}
