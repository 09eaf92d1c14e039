//! Reads the files of golden cases, see tests/golden/README.md.
use super::number::Type;
use super::quantized::Given;
use super::{Guarded, Target};
use crate::support::paths::PROJECT;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The tensors of a module's file.
pub struct Data {
    bytes: Vec<u8>,
    /// The range of each tensor in `bytes`.
    tensors: HashMap<String, (usize, usize)>,
}

impl Data {
    pub fn tensor(&self, name: &str) -> Result<&[u8], String> {
        let (begin, end) = self.tensors.get(name).ok_or_else(|| format!("the file has no tensor {name}"))?;
        Ok(&self.bytes[*begin..*end])
    }
}

/// The folder of the golden files: the one that the environment names, else the crate's, else the one below the current
/// folder.
pub fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("CANDLE_ROCM_GOLDEN") {
        return folder.into();
    }
    let crates = Path::new(PROJECT).join("tests/golden");
    if crates.is_dir() { crates } else { "tests/golden".into() }
}

/// Reads a safetensors file and returns its tensors and its cases.
pub fn read(path: &PathBuf) -> Result<(Data, Vec<Value>), String> {
    let fail = |what: &str| format!("{}: {what}", path.display());
    let bytes = std::fs::read(path).map_err(|error| fail(&error.to_string()))?;
    let length = bytes.first_chunk::<8>().ok_or_else(|| fail("too short"))?;
    let start = 8 + u64::from_le_bytes(*length) as usize;
    let header = bytes.get(8..start).ok_or_else(|| fail("the header is cut off"))?;
    let header: Value = serde_json::from_slice(header).map_err(|error| fail(&error.to_string()))?;
    let cases = header["__metadata__"]["cases"].as_str().ok_or_else(|| fail("no cases"))?;
    let cases = serde_json::from_str(cases).map_err(|error| fail(&error.to_string()))?;
    let mut tensors = HashMap::new();
    for (name, tensor) in header.as_object().into_iter().flatten().filter(|(name, _)| *name != "__metadata__") {
        let offset = |i: usize| tensor["data_offsets"][i].as_u64().map(|offset| start + offset as usize);
        let (begin, end) = offset(0).zip(offset(1)).ok_or_else(|| fail("a tensor without offsets"))?;
        if begin > end || end > bytes.len() {
            return Err(fail("a tensor beyond the end"));
        }
        tensors.insert(name.clone(), (begin, end));
    }
    Ok((Data { bytes, tensors }, cases))
}

/// One argument of a launch, on the device.
pub enum Argument {
    Scalar {
        bits: u64,
        bytes: u32,
    },
    Null,
    /// Scratch memory.
    Scratch(Guarded),
    Buffer {
        memory: Guarded,
        before: Vec<u8>,
        t: Option<Type>,
        expect: Option<String>,
    },
}

impl Argument {
    pub fn given(&self) -> Given<'_> {
        match self {
            Argument::Scalar { bits, .. } => Given::Scalar(*bits),
            Argument::Null | Argument::Scratch(_) => Given::Scalar(0),
            Argument::Buffer { before, .. } => Given::Bytes(before),
        }
    }
}

fn hex(value: &Value) -> Result<u64, String> {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).ok_or("no hexadecimal number")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

fn size_of_type(name: &str) -> Result<usize, String> {
    match Type::named(name) {
        Some(t) => Ok(t.bytes),
        None if name == "u64" => Ok(8),
        None if matches!(name, "bytes" | "bool") => Ok(1),
        None => Err(format!("unknown type {name}")),
    }
}

pub fn prepare(target: &Target, data: &Data, arg: &Value) -> Result<Argument, String> {
    if arg["null"] == true {
        return Ok(Argument::Null);
    }
    if let Some(bytes) = arg["scratch"].as_u64() {
        let memory = Guarded::new(&target.device, &vec![0xee; bytes as usize], 0).map_err(|error| error.to_string())?;
        return Ok(Argument::Scratch(memory));
    }
    if let Some(name) = arg["scalar"].as_str() {
        return Ok(Argument::Scalar { bits: hex(&arg["bits"])?, bytes: size_of_type(name)? as u32 });
    }
    let name = arg["buffer"].as_str().ok_or("an argument of no known form")?;
    let bytes = arg["len"].as_u64().ok_or("a buffer without a length")? as usize * size_of_type(name)?;
    let before = match arg["init"].as_str() {
        Some(tensor) => data.tensor(tensor)?.to_vec(),
        None => vec![hex(&arg["fill"])? as u8; bytes],
    };
    if before.len() != bytes {
        return Err(format!("a buffer of {bytes} bytes from a tensor of {}", before.len()));
    }
    let memory = Guarded::new(&target.device, &before, 0).map_err(|error| error.to_string())?;
    let expect = arg["expect"].as_str().map(str::to_owned);
    Ok(Argument::Buffer { memory, before, t: Type::named(name), expect })
}
