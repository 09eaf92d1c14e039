//! The weights of one rank: its parts of safetensors files, or random numbers.
use crate::config::Split;
use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use candle_nn::var_builder::{Shard, ShardedSafeTensors, ShardedVarBuilder};
use std::path::{Path, PathBuf};

/// Where a model takes its tensors from.
pub trait Weights {
    /// A tensor of dims `dims`, or this rank's part of it along the dim `split`.
    fn get(&self, name: &str, dims: &[usize], split: Option<usize>) -> Result<Tensor>;

    fn has(&self, name: &str) -> bool;
}

/// Files that are mapped, not read: ranks of one host share the pages, and each copies its own parts to its device.
pub struct Files {
    tensors: ShardedVarBuilder<'static>,
    rank: usize,
    size: usize,
}

impl Files {
    pub fn open(folder: &Path, split: &Split, dtype: DType, device: &Device) -> Result<Files> {
        let paths = files(folder)?;
        // SAFETY: the files must not be written while the program runs, as for every program that maps a model.
        let tensors = unsafe { ShardedSafeTensors::var_builder(&paths, dtype, device) };
        let tensors = tensors.with_context(|| format!("the safetensors of {}", folder.display()))?;
        Ok(Files { tensors, rank: split.rank, size: split.size })
    }
}

/// The files of a model: those that the index names, or the only one.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let index = folder.join("model.safetensors.index.json");
    if !index.exists() {
        let file = folder.join("model.safetensors");
        if !file.exists() {
            bail!("{} has no model.safetensors and no model.safetensors.index.json", folder.display());
        }
        return Ok(vec![file]);
    }
    let of = || index.display().to_string();
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&index).with_context(of)?).with_context(of)?;
    let map = json["weight_map"].as_object().with_context(|| format!("{}: no weight_map", index.display()))?;
    let mut names: Vec<&str> = map.values().filter_map(|name| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

impl Weights for Files {
    fn get(&self, name: &str, dims: &[usize], split: Option<usize>) -> Result<Tensor> {
        let shard = match split {
            Some(dim) => Shard { dim, rank: self.rank, world_size: self.size },
            None => Shard::default(),
        };
        let tensor = self.tensors.get_with_hints(dims, name, shard)?;
        let mut expected = dims.to_vec();
        if let Some(dim) = split {
            expected[dim] /= self.size;
        }
        if tensor.dims() != expected {
            bail!("{name}: the part of rank {} has dims {:?}, not {expected:?}", self.rank, tensor.dims());
        }
        Ok(tensor)
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.contains_tensor(name)
    }
}

/// Random weights, made on the device. Each tensor consists of pieces whose numbers come from its name and the piece's
/// number alone, so that any number of ranks has the same model.
pub struct Random {
    pub device: Device,
    pub dtype: DType,
    pub rank: usize,
    pub size: usize,
    /// The number of pieces of a tensor divides this. Every number of ranks does too.
    pub pieces: usize,
    pub has_output: bool,
}

impl Random {
    fn piece(&self, name: &str, piece: usize, dims: &[usize], (middle, spread): (f32, f32)) -> Result<Tensor> {
        // FNV-1a.
        let bytes = name.bytes().chain((piece as u64).to_le_bytes());
        let hash = bytes
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        self.device.set_seed(hash)?;
        Ok(Tensor::randn(middle, spread, dims, &self.device)?.to_dtype(self.dtype)?)
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Weights for Random {
    fn get(&self, name: &str, dims: &[usize], split: Option<usize>) -> Result<Tensor> {
        let dim = split.unwrap_or(0);
        let numbers = match dims {
            [_] => (1.0, 0.1),
            // Products keep the magnitude of values. An embedding is no product.
            [_, columns] if !name.contains("embed") => (0.0, (*columns as f32).sqrt().recip()),
            _ => (0.0, 1.0),
        };
        let pieces = common_divisor(dims[dim], self.pieces);
        let mut of_piece = dims.to_vec();
        of_piece[dim] /= pieces;
        let wanted = match split {
            Some(_) if !pieces.is_multiple_of(self.size) => bail!("{name}: {pieces} pieces for {} ranks", self.size),
            Some(_) => pieces / self.size * self.rank..pieces / self.size * (self.rank + 1),
            None => 0..pieces,
        };
        let parts = wanted.map(|piece| self.piece(name, piece, &of_piece, numbers)).collect::<Result<Vec<_>>>()?;
        Ok(Tensor::cat(&parts, dim)?)
    }

    fn has(&self, name: &str) -> bool {
        name != "lm_head.weight" || self.has_output
    }
}
