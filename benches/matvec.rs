//! Times `crk_mul_mat_vec_q8_1`, rows of quantized weights times columns of activations in q8_1 blocks, beside this crate's kernel by
//! Candle's name at Candle's geometry.
//!
//! `cargo bench --bench matvec -- [--rows N] [--k N] [--columns N] [FORMAT...]`; the device is `CANDLE_ROCM_DEVICE`'s or the best one.
//! With `--once` each product is launched once and nothing is timed: for what counts instructions, or traces.
use candle_rocm_sys::{Arg, Backend, Buffer, DType, Device, Launch, sys};
use std::ffi::CString;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FORMATS: [&str; 10] = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"];
const REPS: usize = 20;
/// Launches in a queue: a launch costs microseconds of its own.
const QUEUED: usize = 20;
/// Bytes of weights that are walked over in turn on a GPU, so that no cache holds them.
const FOOTPRINT: usize = 1 << 30;

struct Options {
    rows: usize,
    k: usize,
    columns: usize,
    once: bool,
    formats: Vec<String>,
}

fn options(on_cpu: bool) -> Result<Options> {
    let mut options = Options { rows: 14336, k: 4096, columns: 1, once: false, formats: vec![] };
    if on_cpu {
        options.rows = 64;
    }
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        let mut number = || -> Result<usize> { Ok(args.next().ok_or(format!("{arg} wants a number"))?.parse()?) };
        match arg.as_str() {
            "--rows" => options.rows = number()?,
            "--k" => options.k = number()?,
            "--columns" => options.columns = number()?,
            "--once" => options.once = true,
            name if FORMATS.contains(&name) => options.formats.push(name.to_owned()),
            other => return Err(format!("{other}: neither an option nor a format").into()),
        }
    }
    if options.formats.is_empty() {
        options.formats = FORMATS.map(str::to_owned).to_vec();
    }
    Ok(options)
}

/// A product: weights as often as fill the footprint.
struct Case {
    quant: sys::crk_quant_t,
    weight_bytes: usize,
    weights: Vec<Buffer>,
    x: Buffer,
    dst: Buffer,
}

/// Bytes below 60: as f16, all are small finite numbers.
fn bytes(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % 60) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

impl Case {
    fn new(device: &Device, name: &str, options: &Options, footprint: usize) -> Result<Case> {
        let (text, mut quant) = (CString::new(name)?, sys::crk_quant_t(0));
        // SAFETY: a string and a place for the result.
        let status = unsafe { sys::crk_quant_from_name(text.as_ptr(), &mut quant) };
        if status != sys::crk_status_t::CRK_OK {
            return Err(format!("{name}: {}", status.name()).into());
        }
        // SAFETY: functions of a value.
        let (elements, block) = unsafe { (sys::crk_quant_block_elements(quant), sys::crk_quant_block_bytes(quant)) };
        let weight_bytes = options.rows * options.k / elements * block;
        let image = bytes(weight_bytes);
        let sets = (footprint / weight_bytes.max(1)).max(1);
        Ok(Case {
            quant,
            weight_bytes,
            weights: (0..sets).map(|_| device.upload(&image)).collect::<std::result::Result<_, _>>()?,
            x: device.upload(&bytes(options.columns * options.k / 32 * 36))?,
            dst: device.alloc(options.rows * options.columns * 4)?,
        })
    }

    fn launch(&self, device: &Device, options: &Options, set: usize) -> Result<()> {
        let Options { rows, k, columns, .. } = *options;
        let weights = &self.weights[set % self.weights.len()];
        let (x, dst) = ((&self.x, k / 32), (&self.dst, rows));
        Ok(device.mul_mat_vec_q8_1(self.quant, DType::CRK_DTYPE_F32, (rows, k), columns, weights, x, dst)?)
    }

    /// Seconds of one launch of Candle's.
    fn by_name(&self, device: &Device, name: &str, options: &Options) -> Result<f64> {
        let Options { rows, k, columns, .. } = *options;
        let function = device.function_named("quantized", &format!("mul_mat_vec_{name}_q8_1_cuda{columns}"))?;
        let grid = [if columns == 1 { rows } else { rows.div_ceil(2) } as u32, 1, 1];
        let launch = Launch { grid, block: [32, if columns <= 4 { 4 } else { 2 }, 1], shared_bytes: 0 };
        let number = |x: usize| Arg::from(x as u32);
        time(device, |set| {
            let weights = &self.weights[set % self.weights.len()];
            let args = [
                weights.into(),
                (&self.x).into(),
                (&self.dst).into(),
                number(k),
                number(rows),
                number(k),
                number(rows),
            ];
            // SAFETY: the arguments and the geometry of mul_mat_vec_*.
            Ok(unsafe { function.launch(launch, &args) }?)
        })
    }
}

/// Seconds of one launch, the median; launches are counted.
fn time(device: &Device, mut launch: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut launched = 0;
    let mut queue = |count: usize| -> Result<f64> {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..count {
            launch(launched)?;
            launched += 1;
        }
        device.synchronize()?;
        Ok(start.elapsed().as_secs_f64() / count as f64)
    };
    queue(1)?;
    let count = if queue(1)? < 1e-2 { QUEUED } else { 1 };
    let reps = if count == 1 { 3 } else { REPS };
    let mut times = (0..reps).map(|_| queue(count)).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn main() -> Result<()> {
    let device = Device::open_best()?;
    let info = device.info()?;
    let on_cpu = info.backend == Backend::CRK_BACKEND_CPU;
    let options = options(on_cpu)?;
    println!(
        "{} ({}): {} rows of {}, {} columns",
        info.name(),
        info.architecture(),
        options.rows,
        options.k,
        options.columns
    );
    let footprint = if on_cpu || options.once { 0 } else { FOOTPRINT };
    if !options.once {
        println!("{:<6} {:>10} {:>10} {:>14} {:>7}", "format", "us", "GB/s", "by name, us", "ratio");
    }
    for name in &options.formats {
        let case = Case::new(&device, name, &options, footprint)?;
        if options.once {
            eprintln!("{name}: {} lines of 128 bytes of weights", case.weight_bytes as f64 / 128.0);
            case.launch(&device, &options, 0)?;
            device.synchronize()?;
            continue;
        }
        let ours = time(&device, |set| case.launch(&device, &options, set))?;
        let theirs = case.by_name(&device, name, &options)?;
        let rate = case.weight_bytes as f64 / ours / 1e9;
        println!("{name:<6} {:>10.1} {rate:>10.0} {:>14.1} {:>7.2}", ours * 1e6, theirs * 1e6, theirs / ours);
    }
    Ok(())
}
