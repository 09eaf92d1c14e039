//! The work of one rank: loads its part of the model, reads the prompt, continues the text. Rank 0 prints.
use crate::config::{self, Split};
use crate::launch::Rank;
use crate::model::Llama;
use crate::options::{Options, Source};
use crate::weights::{Files, Random, Weights};
use anyhow::{Context, Result, anyhow, bail};
use candle_core::rocm_backend::kernels::{Event, HostBuffer};
use candle_core::rocm_backend::rccl::Broadcast;
use candle_core::{DType, Storage, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use candle_transformers::models::llama::{Config, LlamaEosToks};
use std::io::Write;
use std::time::Instant;
use tokenizers::Tokenizer;

/// The configuration of the model that the options name.
pub fn config(options: &Options) -> Result<Config> {
    match &options.source {
        Source::Folder(folder) => config::read(&folder.join("config.json")),
        Source::Random(shape) => Ok(shape.config()),
    }
}

/// Does the work of `rank`. Returns the generated tokens.
pub fn run(options: &Options, config: &Config, rank: &Rank, output: &mut dyn Write) -> Result<Vec<u32>> {
    let (start, says) = (Instant::now(), rank.number == 0);
    let split = Split::new(config, rank.number, rank.size)?;
    if says {
        describe(rank)?;
    }
    let context = options.context.min(config.max_position_embeddings);
    let mut model = load(options, config, split, rank, context)?;
    wait(rank)?;
    if says {
        let bytes = rank.device.as_rocm_device()?.handle().memory_stats()?.live_bytes as f64 / 1e6;
        eprintln!("loaded in {:.1} s; rank 0 has {bytes:.1} MB on its device", start.elapsed().as_secs_f64());
    }
    let (tokenizer, prompt) = prompt(options, config)?;
    if prompt.is_empty() || prompt.len() > context {
        bail!("the prompt has {} tokens; 1 to {context} fit (--context)", prompt.len());
    }
    let mut next = Next::new(options, rank, &model)?;
    if matches!(options.source, Source::Random(_)) {
        // Kernels and connections are loaded and made on their first use, which is not measured.
        for tokens in [&prompt[..], &prompt[..1]] {
            next.choose(&model.forward(&Tensor::new(tokens, &rank.device)?)?)?;
            next.read()?;
            if model.length() == context {
                break;
            }
        }
        model.clear();
        next = Next::new(options, rank, &model)?;
    }

    let mut stream = tokenizer.as_ref().map(|tokenizer| tokenizer.decode_stream(true));
    let mut begin = Instant::now();
    let mut token = next.choose(&model.forward(&Tensor::new(&prompt[..], &rank.device)?)?)?;
    let mut number = next.read()?;
    let reading = begin.elapsed().as_secs_f64();
    begin = Instant::now();
    let (mut tokens, mut chosen) = (Vec::new(), 1);
    while !is_end(config, number) {
        // The device has its next steps before the host waits for this one. They are in vain behind the end of a text.
        while next.unread() < STEPS_AHEAD && chosen < options.tokens && model.length() < context {
            token = next.choose(&model.forward(&token)?)?;
            chosen += 1;
        }
        tokens.push(number);
        if let Some(stream) = stream.as_mut().filter(|_| says) {
            if let Some(text) = stream.step(number).map_err(|error| anyhow!("token {number}: {error}"))? {
                output.write_all(text.as_bytes())?;
                output.flush()?;
            }
        }
        if next.unread() == 0 {
            break;
        }
        number = next.read()?;
    }
    let generating = begin.elapsed().as_secs_f64();
    // Steps behind the end of the text may be under way. What kernels have reported is an error here.
    wait(rank)?;
    if says {
        if stream.is_some() {
            writeln!(output)?;
        }
        // Reading the prompt gave the first token.
        let steps = next.read - 1;
        eprint!("prompt: {} tokens, {:.1} tokens/s", prompt.len(), prompt.len() as f64 / reading.max(1e-9));
        eprintln!("; generated: {} tokens, {:.1} tokens/s", tokens.len(), steps as f64 / generating.max(1e-9));
    }
    Ok(tokens)
}

fn describe(rank: &Rank) -> Result<()> {
    let handle = rank.device.as_rocm_device()?.handle();
    let info = handle.info()?;
    let ranks = match rank.comm {
        Some(_) => format!("{} ranks, {}", rank.size, library(handle.comm_library()?)),
        None => "1 rank".into(),
    };
    eprintln!("{} ({}): {ranks}", info.name(), info.architecture());
    Ok(())
}

/// A library and its version, of which a CPU device has none: 22304 is 2.23.4.
fn library((name, version): (&str, i32)) -> String {
    match version {
        0 => name.into(),
        _ => format!("{name} {}.{}.{}", version / 10000, version / 100 % 100, version % 100),
    }
}

fn load(options: &Options, config: &Config, split: Split, rank: &Rank, context: usize) -> Result<Llama> {
    let weights: Box<dyn Weights> = match &options.source {
        Source::Folder(folder) => Box::new(Files::open(folder, &split, options.dtype, &rank.device)?),
        Source::Random(shape) => Box::new(Random {
            device: rank.device.clone(),
            dtype: options.dtype,
            rank: split.rank,
            size: split.size,
            pieces: shape.kv_heads,
            has_output: !shape.tied,
        }),
    };
    let mut model = Llama::load(&*weights, config, split, rank.comm.as_ref(), (context, options.dtype, &rank.device))?;
    model.set_halves_from(options.halves_from);
    Ok(model)
}

/// The tokens of the prompt; random ones if the weights are random.
fn prompt(options: &Options, config: &Config) -> Result<(Option<Tokenizer>, Vec<u32>)> {
    match &options.source {
        Source::Folder(folder) => {
            let path = folder.join("tokenizer.json");
            let failed = |error| anyhow!("{error}");
            let tokenizer = Tokenizer::from_file(&path).map_err(failed).with_context(|| path.display().to_string())?;
            let tokens = tokenizer.encode(&options.prompt[..], true).map_err(failed)?.get_ids().to_vec();
            Ok((Some(tokenizer), tokens))
        }
        Source::Random(_) => {
            let token = |i: usize| ((i * 7919 + 13) % config.vocab_size) as u32;
            Ok((None, (0..options.prompt_tokens).map(token).collect()))
        }
    }
}

fn is_end(config: &Config, token: u32) -> bool {
    match &config.eos_token_id {
        Some(LlamaEosToks::Single(end)) => token == *end,
        Some(LlamaEosToks::Multiple(ends)) => ends.contains(&token),
        None => false,
    }
}

/// Waits for this rank's work, and fails if another rank is lost.
fn wait(rank: &Rank) -> Result<()> {
    match &rank.comm {
        Some(comm) => comm.wait_for(Some(rank.timeout))?,
        None => rank.device.synchronize()?,
    }
    Ok(())
}

/// The device has as many steps before the host reads a token. With two it waits for the host only where that samples.
const STEPS_AHEAD: usize = 2;

/// Chooses tokens. Every rank takes the highest of logits that are the same on all ranks. Else rank 0 chooses, so that
/// all ranks have the same tokens whatever the last bits of their logits.
struct Next<'a> {
    rank: &'a Rank,
    sampler: LogitsProcessor,
    takes_highest: bool,
    asks_rank_0: bool,
    copies: Vec<Copied>,
    chosen: usize,
    read: usize,
}

/// A token on its way to the host.
struct Copied {
    number: HostBuffer,
    done: Event,
}

impl<'a> Next<'a> {
    fn new(options: &Options, rank: &'a Rank, model: &Llama) -> Result<Self> {
        let sampling = options.sampling();
        let takes_highest = matches!(sampling, Sampling::ArgMax);
        let handle = rank.device.as_rocm_device()?.handle();
        let copied = |_| Ok(Copied { number: handle.alloc_host(size_of::<u32>())?, done: handle.event()? });
        Ok(Next {
            rank,
            takes_highest,
            asks_rank_0: rank.comm.is_some() && !(takes_highest && model.has_same_logits()),
            sampler: LogitsProcessor::from_sampling(options.seed, sampling),
            copies: (0..STEPS_AHEAD).map(copied).collect::<Result<_>>()?,
            chosen: 0,
            read: 0,
        })
    }

    /// How many tokens are chosen and not read; at most [`STEPS_AHEAD`].
    fn unread(&self) -> usize {
        self.chosen - self.read
    }

    /// The next token by its logits, a vector. It is a vector of one u32 on the device. The host waits only to sample.
    fn choose(&mut self, logits: &Tensor) -> Result<Tensor> {
        let Rank { number, device, comm, .. } = self.rank;
        let token = if self.asks_rank_0 && *number != 0 {
            Tensor::zeros(1, DType::U32, device)?
        } else if self.takes_highest {
            logits.argmax_keepdim(0)?
        } else {
            if comm.is_some() {
                wait(self.rank)?;
            }
            Tensor::new(&[self.sampler.sample(logits)?], device)?
        };
        if let Some(comm) = comm.as_ref().filter(|_| self.asks_rank_0) {
            token.inplace_op1(&Broadcast::new(comm.clone(), 0))?;
        }
        let copied = &self.copies[self.chosen % STEPS_AHEAD];
        match &*token.storage_and_layout().0 {
            // SAFETY: nobody reads the number before `read` has waited for `done`.
            Storage::Rocm(storage) => unsafe { storage.buffer().read_async(&copied.number) }?,
            _ => bail!("the token is not on a ROCm device"),
        }
        copied.done.record(device.as_rocm_device()?.handle())?;
        self.chosen += 1;
        Ok(token)
    }

    /// The first token that was not read yet. Waits for it, and fails if another rank is lost.
    fn read(&mut self) -> Result<u32> {
        let copied = &self.copies[self.read % STEPS_AHEAD];
        match &self.rank.comm {
            Some(comm) => comm.wait_for_event(&copied.done, Some(self.rank.timeout))?,
            None => copied.done.synchronize()?,
        }
        self.read += 1;
        Ok(copied.number.as_slice()[0])
    }
}

impl Drop for Next<'_> {
    /// The numbers' memory is freed behind all work, without a bound in time. So that work ends here, or its
    /// communicator does.
    fn drop(&mut self) {
        let _ = wait(self.rank);
    }
}
