//! The options of the command line.
use anyhow::{Context, Result, anyhow, bail};
use candle_transformers::generation::Sampling;
use lexopt::prelude::*;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

pub const HELP: &str = "\
Talks with a language model in a GGUF file on a ROCm device.

usage: chat MODEL.gguf [OPTIONS]

  --device N         the GPU's number, 0 if left out
  --prompt TEXT      answers TEXT and ends; without it, every line of standard input is one message (Ctrl-D ends)
  --tokens N         the most tokens of an answer, 512 if left out
  --context N        the most tokens of a conversation, 4096 if left out; llama and phi2 have at most 4096
  --temperature T    0 takes the most probable token always; 0.8 if left out
  --top-k K          samples among the K most probable tokens
  --top-p P          samples among the most probable tokens whose probabilities add up to P
  --seed S           the seed of sampling, 299792458 if left out
  --help             this text

CANDLE_ROCM_DEVICE=cpu:32 runs it without a GPU (feature rocm-backend).
";

pub struct Options {
    pub model: PathBuf,
    /// The ordinal of the device.
    pub device: usize,
    pub prompt: Option<String>,
    /// The most tokens of an answer.
    pub tokens: usize,
    /// The most tokens of a conversation.
    pub context: usize,
    pub temperature: f64,
    pub top_k: Option<usize>,
    pub top_p: Option<f64>,
    pub seed: u64,
}

impl Options {
    /// None if the help is wanted.
    pub fn parse(mut parser: lexopt::Parser) -> Result<Option<Options>> {
        let mut options = Options {
            model: PathBuf::new(),
            device: 0,
            prompt: None,
            tokens: 512,
            context: 4096,
            temperature: 0.8,
            top_k: None,
            top_p: None,
            seed: 299792458,
        };
        let mut model = None;
        while let Some(argument) = parser.next()? {
            match argument {
                Value(path) if model.is_none() => model = Some(path.into()),
                Long("device") => options.device = number("device", &mut parser)?,
                Long("prompt") => options.prompt = Some(parser.value()?.string()?),
                Long("tokens") => options.tokens = number("tokens", &mut parser)?,
                Long("context") => options.context = number("context", &mut parser)?,
                Long("temperature") => options.temperature = number("temperature", &mut parser)?,
                Long("top-k") => options.top_k = Some(number("top-k", &mut parser)?),
                Long("top-p") => options.top_p = Some(number("top-p", &mut parser)?),
                Long("seed") => options.seed = number("seed", &mut parser)?,
                Short('h') | Long("help") => return Ok(None),
                other => return Err(other.unexpected()).context("chat MODEL.gguf [OPTIONS]; --help lists the options"),
            }
        }
        options.model = model.context("no model is named; usage: chat MODEL.gguf [OPTIONS]")?;
        options.check()?;
        Ok(Some(options))
    }

    fn check(&self) -> Result<()> {
        if self.tokens == 0 || self.context == 0 {
            bail!("--tokens and --context are at least 1");
        }
        // A comparison with NaN is false.
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            bail!("--temperature {}: 0 or more", self.temperature);
        }
        if self.top_k == Some(0) {
            bail!("--top-k 0: at least 1");
        }
        match self.top_p {
            Some(p) if !(p > 0.0 && p <= 1.0) => bail!("--top-p {p}: more than 0, at most 1"),
            _ => Ok(()),
        }
    }

    pub fn sampling(&self) -> Sampling {
        let temperature = self.temperature;
        match (self.top_k, self.top_p) {
            _ if temperature < 1e-7 => Sampling::ArgMax,
            (None, None) => Sampling::All { temperature },
            (Some(k), None) => Sampling::TopK { k, temperature },
            (None, Some(p)) => Sampling::TopP { p, temperature },
            (Some(k), Some(p)) => Sampling::TopKThenTopP { k, p, temperature },
        }
    }
}

fn number<T: FromStr<Err: Display>>(option: &str, parser: &mut lexopt::Parser) -> Result<T> {
    let text = parser.value()?.string()?;
    text.parse().map_err(|error| anyhow!("--{option} {text}: {error}"))
}
