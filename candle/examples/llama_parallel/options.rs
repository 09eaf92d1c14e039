//! The options of the command line.
use crate::config::{self, Shape};
use crate::model::HALVES_FROM;
use anyhow::{Context, Result, bail};
use candle_core::DType;
use candle_transformers::generation::Sampling;
use lexopt::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

pub const HELP: &str = "\
Continues a text with a Llama whose layers are split among many ROCm devices.

usage: llama_parallel FOLDER [OPTIONS]          config.json, tokenizer.json and safetensors, as Hugging Face has them
       llama_parallel --random SHAPE [OPTIONS]  weights made on the devices, to measure speed: tiny, 1b, 3b, 8b, 70b

  --ranks N          starts N processes on this host, one for each GPU; 1 if left out. Under torchrun, mpirun or srun
                     leave it out: their variables say which rank this process is
  --prompt TEXT      the text to continue
  --prompt-tokens N  with --random: the number of tokens of the prompt, 128 if left out
  --tokens N         the most tokens to generate, 128 if left out
  --context N        the most tokens of prompt and text, 4096 if left out
  --halves-from N    ranks read a prompt in two halves if it has N tokens for each of them, 1536 if left out: one half
                     is added among the ranks while the other half is computed
  --dtype D          bf16 if left out; f16, f32
  --temperature T    0 takes the most probable token always; 0 if left out
  --top-p P          samples among the most probable tokens whose probabilities add up to P
  --seed S           the seed of sampling, 299792458 if left out
  --timeout SECONDS  how long a rank waits for the others, 300 if left out
  --bounded          the timeout is also for the connection that the ranks make at first. Each collective of a GPU then
                     starts in a thread of its own, which is slow. Without it, a rank that is lost while the ranks
                     connect leaves the others waiting until whoever started them ends them
  --help             this text

CANDLE_ROCM_DEVICE=cpu:32 runs it without a GPU, with a thread for each rank (feature rocm-backend).
";

/// Where the weights come from.
#[derive(Debug, Clone)]
pub enum Source {
    Folder(PathBuf),
    Random(&'static Shape),
}

#[derive(Debug, Clone)]
pub struct Options {
    pub source: Source,
    /// The number of ranks. If it is left out, a launcher says it, else there is one rank.
    pub ranks: Option<usize>,
    pub prompt: String,
    /// The length of a prompt of random tokens.
    pub prompt_tokens: usize,
    /// The most tokens to generate.
    pub tokens: usize,
    /// The most tokens of prompt and text.
    pub context: usize,
    /// The least tokens of a prompt, for each rank, that ranks read in two halves.
    pub halves_from: usize,
    pub dtype: DType,
    pub temperature: f64,
    pub top_p: Option<f64>,
    pub seed: u64,
    pub timeout: Duration,
    /// Whether creating the communicator and starting a collective have the timeout too.
    pub bounded: bool,
}

/// The longest timeout. A clock can always add it.
const MOST_PATIENCE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Options {
    /// The options of a source, with everything else as if it were left out.
    pub fn of(source: Source) -> Options {
        Options {
            source,
            ranks: None,
            prompt: "My favourite theorem is ".into(),
            prompt_tokens: 128,
            tokens: 128,
            context: 4096,
            halves_from: HALVES_FROM,
            dtype: DType::BF16,
            temperature: 0.0,
            top_p: None,
            seed: 299792458,
            timeout: Duration::from_secs(300),
            bounded: false,
        }
    }

    /// None if the help is wanted.
    pub fn parse(mut parser: lexopt::Parser) -> Result<Option<Options>> {
        let mut options = Options::of(Source::Folder(PathBuf::new()));
        let (mut folder, mut shape) = (None, None);
        while let Some(argument) = parser.next()? {
            match argument {
                Value(path) if folder.is_none() => folder = Some(PathBuf::from(path)),
                Long("random") => shape = Some(config::shape(&parser.value()?.string()?)?),
                Long("ranks") => options.ranks = Some(parser.value()?.parse()?),
                Long("prompt") => options.prompt = parser.value()?.string()?,
                Long("prompt-tokens") => options.prompt_tokens = parser.value()?.parse()?,
                Long("tokens") => options.tokens = parser.value()?.parse()?,
                Long("context") => options.context = parser.value()?.parse()?,
                Long("halves-from") => options.halves_from = parser.value()?.parse()?,
                Long("dtype") => options.dtype = dtype(&parser.value()?.string()?)?,
                Long("temperature") => options.temperature = parser.value()?.parse()?,
                Long("top-p") => options.top_p = Some(parser.value()?.parse()?),
                Long("seed") => options.seed = parser.value()?.parse()?,
                Long("timeout") => options.timeout = Duration::from_secs(parser.value()?.parse()?),
                Long("bounded") => options.bounded = true,
                Short('h') | Long("help") => return Ok(None),
                other => return Err(other.unexpected()).context("--help lists the options"),
            }
        }
        options.source = match (folder, shape) {
            (Some(folder), None) => Source::Folder(folder),
            (None, Some(shape)) => Source::Random(shape),
            (Some(_), Some(_)) => bail!("a folder is named, and --random too; give one of them"),
            (None, None) => bail!("no model is named; usage: llama_parallel FOLDER, or --random SHAPE"),
        };
        options.check()?;
        Ok(Some(options))
    }

    fn check(&self) -> Result<()> {
        let at_least_1 = [
            ("ranks", self.ranks.unwrap_or(1)),
            ("prompt-tokens", self.prompt_tokens),
            ("tokens", self.tokens),
            ("context", self.context),
            ("timeout", self.timeout.as_secs() as usize),
        ];
        for (name, value) in at_least_1 {
            if value == 0 {
                bail!("--{name} 0: at least 1");
            }
        }
        if self.timeout > MOST_PATIENCE {
            bail!("--timeout {}: at most {}, which is a year", self.timeout.as_secs(), MOST_PATIENCE.as_secs());
        }
        // A comparison with NaN is false.
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            bail!("--temperature {}: 0 or more", self.temperature);
        }
        match self.top_p {
            Some(p) if !(p > 0.0 && p <= 1.0) => bail!("--top-p {p}: more than 0, at most 1"),
            _ => Ok(()),
        }
    }

    pub fn sampling(&self) -> Sampling {
        let temperature = self.temperature;
        match self.top_p {
            _ if temperature < 1e-7 => Sampling::ArgMax,
            None => Sampling::All { temperature },
            Some(p) => Sampling::TopP { p, temperature },
        }
    }
}

fn dtype(name: &str) -> Result<DType> {
    Ok(match name {
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        "f32" => DType::F32,
        other => bail!("--dtype {other}: bf16, f16 or f32"),
    })
}
