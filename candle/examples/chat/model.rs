//! The architectures, and how a file is read.
use crate::metadata::{Metadata, needed};
use anyhow::{Context, Result, anyhow, bail};
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{DType, Device, Tensor};
use candle_transformers::models::*;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Maps tokens (1, n) that follow so many others to the logits (1, vocabulary) of the next one.
type Decoder = Box<dyn FnMut(&Tensor, usize) -> candle_core::Result<Tensor>>;

/// A kind of model that candle-transformers has.
pub struct Architecture {
    /// The field `general.architecture`.
    pub name: &'static str,
    load: fn(Source) -> candle_core::Result<Decoder>,
    /// The most tokens of a conversation, if the code has a limit.
    most_tokens: Option<usize>,
    /// Whether several tokens may follow others in one call. Otherwise a conversation is read anew for every answer.
    pub continues: bool,
    /// Whether a call for the position 0 forgets all tokens. Otherwise the file is read again.
    restarts: bool,
}

const USUAL: Architecture = Architecture {
    name: "",
    load: |_| candle_core::bail!("no model"),
    most_tokens: None,
    continues: true,
    restarts: true,
};

/// Loads a model whose cache begins anew at the position 0.
macro_rules! from_gguf {
    ($model:ty $(, $argument:expr)*) => {
        |mut source| {
            let mut model = <$model>::from_gguf(source.content, &mut source.reader, &source.device $(, $argument)*)?;
            Ok(Box::new(move |tokens, at| model.forward(tokens, at)))
        }
    };
}

/// The architectures that are known.
pub const ARCHITECTURES: &[Architecture] = &[
    // Also Mistral and SmolLM2, and Mixtral with a tensor per expert.
    Architecture {
        name: "llama",
        load: from_gguf!(quantized_llama::ModelWeights),
        most_tokens: Some(quantized_llama::MAX_SEQ_LEN),
        ..USUAL
    },
    Architecture { name: "qwen2", load: from_gguf!(quantized_qwen2::ModelWeights), ..USUAL },
    Architecture {
        name: "qwen3",
        load: |mut source| {
            let mut model =
                quantized_qwen3::ModelWeights::from_gguf(source.content, &mut source.reader, &source.device)?;
            Ok(Box::new(move |tokens, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                model.forward(tokens, at)
            }))
        },
        ..USUAL
    },
    Architecture {
        name: "qwen3moe",
        load: |mut source| {
            // The kernels for prompts compute in bf16.
            let dtype = if source.device.is_cpu() { DType::F32 } else { DType::BF16 };
            let device = &source.device;
            let mut model =
                quantized_qwen3_moe::GGUFQWenMoE::from_gguf(source.content, &mut source.reader, device, dtype)?;
            Ok(Box::new(move |tokens, at| model.forward(tokens, at)))
        },
        restarts: false,
        ..USUAL
    },
    // Its mask for several tokens hides those in the cache.
    Architecture { name: "gemma3", load: from_gguf!(quantized_gemma3::ModelWeights), continues: false, ..USUAL },
    Architecture { name: "glm4", load: from_gguf!(quantized_glm4::ModelWeights, DType::F32), ..USUAL },
    // Its convolutions take no state for several tokens.
    Architecture { name: "lfm2", load: from_gguf!(quantized_lfm2::ModelWeights), continues: false, ..USUAL },
    Architecture {
        name: "phi2",
        load: from_gguf!(quantized_phi::ModelWeights),
        most_tokens: Some(quantized_phi::MAX_SEQ_LEN),
        ..USUAL
    },
    Architecture {
        name: "phi3",
        load: |mut source| {
            let mut model =
                quantized_phi3::ModelWeights::from_gguf(false, source.content, &mut source.reader, &source.device)?;
            Ok(Box::new(move |tokens, at| model.forward(tokens, at)))
        },
        ..USUAL
    },
    Architecture {
        name: "smollm3",
        load: |source| {
            // It opens the file by itself, so the bar of progress stands still.
            let mut model =
                smol::quantized_smollm3::QuantizedModelForCausalLM::from_gguf(&source.path, &source.device, false)?;
            Ok(Box::new(move |tokens, at| {
                if at == 0 {
                    model.clear_kv_cache();
                }
                model.forward(tokens, at)
            }))
        },
        ..USUAL
    },
];

/// An open file, and the device of its tensors.
struct Source {
    content: Content,
    reader: Counted,
    path: PathBuf,
    device: Device,
}

/// A file whose fields have been read.
pub struct Opened {
    pub content: Content,
    pub architecture: &'static Architecture,
    /// The most tokens of a conversation.
    pub context: usize,
    /// The bytes of all tensors.
    pub bytes: u64,
    file: File,
    path: PathBuf,
}

impl Opened {
    /// Reads the fields of a file and checks that all tensors are in it. `context` is the most tokens to allow.
    pub fn open(path: &Path, context: usize) -> Result<Opened> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let length = file.metadata().with_context(|| format!("cannot read {name}"))?.len();
        let mut content = Content::read(&mut BufReader::new(&file))
            .map_err(|error| anyhow!("{name} is no GGUF file, or it is cut short: {error}"))?;
        let bytes = check(&content, length).with_context(|| format!("{name} is cut short"))?;

        let metadata = Metadata(&content.metadata);
        let kind = needed(metadata.text("general.architecture")?, "general.architecture")?;
        let Some(architecture) = ARCHITECTURES.iter().find(|architecture| architecture.name == kind) else {
            let known: Vec<&str> = ARCHITECTURES.iter().map(|architecture| architecture.name).collect();
            bail!("{name}: the architecture {kind} is not known; known are {}", known.join(", "));
        };
        let field = format!("{kind}.context_length");
        let most = metadata.number(&field)?.map_or(usize::MAX, |most| most as usize);
        let context = context.min(most).min(architecture.most_tokens.unwrap_or(usize::MAX));
        // Some models make tables, or caches, of this length.
        content.metadata.insert(field, Value::U32(u32::try_from(context).unwrap_or(u32::MAX)));
        Ok(Opened { content, architecture, context, bytes, file, path: path.to_owned() })
    }

    /// Reads the tensors onto the device. A bar on standard error shows the progress if that is a terminal.
    pub fn load(self, device: &Device) -> Result<Model> {
        let style = ProgressStyle::with_template("loading [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}")
            .context("the bar's template")?;
        let bar = ProgressBar::new(self.bytes).with_style(style);
        let reader = Counted { inner: BufReader::new(self.file), bar: bar.clone() };
        let source = Source { content: self.content, reader, path: self.path.clone(), device: device.clone() };
        let decoder = (self.architecture.load)(source);
        bar.finish_and_clear();
        let decoder = decoder.map_err(|error| anyhow!("cannot load {}: {error}", self.path.display()))?;
        device.synchronize()?;
        Ok(Model {
            architecture: self.architecture,
            context: self.context,
            device: device.clone(),
            path: self.path,
            decoder,
            is_used: false,
        })
    }
}

/// The bytes of all tensors. An error names a tensor that goes on behind the end of the file.
fn check(content: &Content, length: u64) -> Result<u64> {
    let mut sum = 0u64;
    for (name, tensor) in &content.tensor_infos {
        let count = tensor.shape.dims().iter().try_fold(1usize, |count, dim| count.checked_mul(*dim));
        let bytes =
            count.and_then(|count| (count / tensor.ggml_dtype.block_size()).checked_mul(tensor.ggml_dtype.type_size()));
        let Some(bytes) = bytes else {
            bail!("it has {length} bytes, and the tensor {name} has the shape {:?}", tensor.shape.dims());
        };
        let bytes = bytes as u64;
        let end = content.tensor_data_offset.saturating_add(tensor.offset).saturating_add(bytes);
        if end > length {
            bail!("it has {length} bytes, and the tensor {name} ends at {end}");
        }
        sum = bytes.saturating_add(sum);
    }
    Ok(sum)
}

/// A reader that shows how much has been read.
struct Counted {
    inner: BufReader<File>,
    bar: ProgressBar,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // In pieces, so that the bar moves within large tensors.
        let end = buffer.len().min(1 << 24);
        let count = self.inner.read(&mut buffer[..end])?;
        // Some models read a tensor twice.
        self.bar.set_position((self.bar.position() + count as u64).min(self.bar.length().unwrap_or(0)));
        Ok(count)
    }
}

impl Seek for Counted {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.inner.seek(position)
    }
}

/// A model on its device.
pub struct Model {
    pub architecture: &'static Architecture,
    /// The most tokens of a conversation.
    pub context: usize,
    device: Device,
    path: PathBuf,
    decoder: Decoder,
    is_used: bool,
}

impl Model {
    /// Reads tokens that follow `at` others; 0 forgets all tokens. Returns the logits (vocabulary) of the next one.
    pub fn forward(&mut self, tokens: &[u32], at: usize) -> Result<Tensor> {
        if at == 0 && self.is_used && !self.architecture.restarts {
            // Two copies may not fit.
            self.decoder = Box::new(|_, _| candle_core::bail!("no model"));
            *self = Opened::open(&self.path, self.context)?.load(&self.device)?;
        }
        self.is_used = true;
        let tokens = Tensor::new(tokens, &self.device)?.unsqueeze(0)?;
        let logits = (self.decoder)(&tokens, at)?;
        let count = logits.dim(candle_core::D::Minus1)?;
        Ok(logits.reshape(((), count))?.get(0)?.to_dtype(DType::F32)?)
    }

    pub fn synchronize(&self) -> Result<()> {
        Ok(self.device.synchronize()?)
    }
}
