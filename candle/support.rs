//! Code that the tests and the examples share: numbers that are the same everywhere, and views of tensors on two
//! devices.
use candle_core::rocm_backend::RocmDevice;
use candle_core::{DType, Device, Result, Tensor};

#[cfg(target_os = "linux")]
pub mod double;
pub mod steps;

/// The device of the tests: the first GPU, or with the feature `rocm-backend` the device that `CANDLE_ROCM_DEVICE`
/// names.
pub fn device() -> Device {
    Device::new_rocm(0).unwrap_or_else(|error| panic!("there is no device: {error}"))
}

/// Opens the device of an example and prints what it is. If it replaces the GPU, a line on standard error says so.
pub fn open_gpu() -> Result<Device> {
    let (gpu, description) = gpu(0)?;
    println!("{gpu:?}\n{description}");
    Ok(gpu)
}

/// Opens the device of this ordinal for an example, and describes it. If it replaces the GPU, a line on standard error
/// says so. If there is none, the diagnosis goes there.
pub fn gpu(ordinal: usize) -> Result<(Device, String)> {
    let gpu = Device::new_rocm(ordinal).inspect_err(|_| eprintln!("{}", candle_rocm_sys::diagnose()))?;
    if let Some(name) = RocmDevice::replaced_by() {
        eprintln!("CANDLE_ROCM_DEVICE={name} replaces the GPU");
    }
    let info = gpu.as_rocm_device()?.handle().info()?;
    let (name, architecture) = (info.name(), info.architecture());
    let waves = info.wave_size;
    Ok((gpu, format!("{name} ({architecture}): {} compute units, waves of {waves}", info.compute_units)))
}

/// Reads the one option of an example, `--NAME N`; `about` says what the program does. None after the help, which goes
/// to standard output.
pub fn number_option(name: &str, about: &str, default: usize) -> std::result::Result<Option<usize>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_env();
    let path = std::path::PathBuf::from(parser.bin_name().unwrap_or_default());
    let program = path.file_name().unwrap_or_default().to_string_lossy();
    let usage = format!("usage: {program} [--{name} N]");
    let mut number = default;
    while let Some(argument) = parser.next()? {
        match argument {
            Long(option) if option == name => number = parser.value()?.parse()?,
            Short('h') | Long("help") => {
                println!("{about}\n\n{usage}\n\n  --{name} N  {default} if left out\n  --help  this text\n");
                println!("CANDLE_ROCM_DEVICE=cpu:32 runs it without a GPU (feature rocm-backend).");
                return Ok(None);
            }
            other => return Err(format!("{}; {usage}", other.unexpected()).into()),
        }
    }
    Ok(Some(number))
}

/// A random number generator with a seed, so that a failed test can be repeated (Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", 2014).
pub struct Numbers(u64);

impl Numbers {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// A number from -1 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// The message of an error. Panics if the result is no error.
#[track_caller]
pub fn refused<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("this should have been refused"),
        Err(error) => error.to_string(),
    }
}

/// Checks that a result is an error and that its message contains these parts.
#[macro_export]
macro_rules! says {
    ($result:expr, $($part:expr),+) => {
        let sentence = $crate::refused($result);
        $(assert!(sentence.contains($part), "{sentence:?} does not say {:?}", $part);)+
    };
}

/// The same tensor on Candle's CPU device and on a ROCm device.
#[derive(Clone)]
pub struct Both {
    /// On the CPU.
    pub cpu: Tensor,
    /// On the ROCm device.
    pub rocm: Tensor,
}

impl Both {
    /// A tensor on the CPU, and a copy of it on `device`.
    pub fn of(cpu: Tensor, device: &Device) -> Result<Both> {
        Ok(Both { rocm: cpu.to_device(device)?, cpu })
    }

    /// The results of `op` on each.
    pub fn map(&self, op: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Both> {
        Ok(Both { cpu: op(&self.cpu)?, rocm: op(&self.rocm)? })
    }

    /// A contiguous tensor of small numbers that every dtype can represent: quarters from -2 to 2. For unsigned dtypes
    /// they are the magnitudes, and for integers four times as large.
    pub fn numbers(numbers: &mut Numbers, dims: &[usize], dtype: DType, device: &Device) -> Result<Both> {
        let scale = if dtype.is_int() { 1.0 } else { 0.25 };
        let unsigned = matches!(dtype, DType::U8 | DType::U32);
        let count = dims.iter().product();
        let value = |_| {
            let value = numbers.below(17) as f32 - 8.0;
            scale * if unsigned { value.abs() } else { value }
        };
        let values: Vec<f32> = (0..count).map(value).collect();
        Both::of(Tensor::from_vec(values, dims, &Device::Cpu)?.to_dtype(dtype)?, device)
    }

    /// A view with dims `dims` of a larger tensor: with a start offset, gaps, and dims that are swapped or broadcast.
    pub fn view(numbers: &mut Numbers, dims: &[usize], dtype: DType, device: &Device) -> Result<Both> {
        if dims.is_empty() {
            return Both::numbers(numbers, &[5], dtype, device)?.map(|x| x.narrow(0, 3, 1)?.reshape(()));
        }
        // The order of the dims in memory, the gaps around each, and the broadcast dims.
        let mut order: Vec<usize> = (0..dims.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, numbers.below(i + 1));
        }
        let around: Vec<(usize, usize)> = dims.iter().map(|_| (numbers.below(3), numbers.below(2))).collect();
        let broadcast: Vec<bool> = dims.iter().map(|_| numbers.below(5) == 0).collect();
        let stored: Vec<usize> =
            order.iter().map(|&i| around[i].0 + around[i].1 + if broadcast[i] { 1 } else { dims[i] }).collect();
        let mut places = vec![0; dims.len()];
        for (place, &i) in order.iter().enumerate() {
            places[i] = place;
        }
        Both::numbers(numbers, &stored, dtype, device)?.map(|x| {
            let mut x = x.permute(places.as_slice())?;
            for (i, &dim) in dims.iter().enumerate() {
                x = x.narrow(i, around[i].0, if broadcast[i] { 1 } else { dim })?;
            }
            x.broadcast_as(dims)
        })
    }

    /// Describes the difference of the two, if there is any. Each element may differ by `bound` times the sum of its
    /// magnitude and `floor`. NaN must match NaN, and an infinity the same one.
    pub fn difference(&self, bound: f64, floor: f64) -> Result<Option<String>> {
        if self.cpu.dims() != self.rocm.dims() || self.cpu.dtype() != self.rocm.dtype() {
            let (cpu, rocm) = (&self.cpu, &self.rocm);
            return Ok(Some(format!(
                "{:?} {:?}, on the cpu {:?} {:?}",
                rocm.dims(),
                rocm.dtype(),
                cpu.dims(),
                cpu.dtype()
            )));
        }
        // On the CPU, Candle's F8E4M3 converts to f32, but recurses without end when it converts to f64.
        let first = if self.cpu.dtype() == DType::F8E4M3 { DType::F32 } else { DType::F64 };
        let flat = |x: &Tensor| {
            x.to_device(&Device::Cpu)?.to_dtype(first)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()
        };
        let (cpu, rocm) = (flat(&self.cpu)?, flat(&self.rocm)?);
        let differs = |(a, b): (&f64, &f64)| {
            let is_near = a.is_finite() && (a - b).abs() <= bound * (a.abs() + floor);
            !(a == b || a.is_nan() && b.is_nan() || is_near)
        };
        let Some(at) = cpu.iter().zip(&rocm).position(differs) else { return Ok(None) };
        Ok(Some(format!("element {at} of {:?} is {}, on the cpu {}", self.cpu.dims(), rocm[at], cpu[at])))
    }
}
