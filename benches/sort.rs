//! Times `crk_argsort` beside Candle's bitonic network by its name: this crate's kernels, or candle-kernels' own where
//! `CANDLE_KERNELS_PTX` names a folder with a sort.ptx made from them. Both sort the same random rows.
//!
//! `cargo bench --bench sort`; the device is `CANDLE_ROCM_DEVICE`'s or the best one.
use candle_rocm_sys::{Arg, Backend, Buffer, DType, Device, Launch, Layout, sys};
use std::time::Instant;

use sys::crk_dtype as D;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const REPS: usize = 20;
/// Launches in a queue: a launch costs microseconds of its own.
const QUEUED: usize = 10;

struct Case {
    dtype: DType,
    rows: usize,
    columns: usize,
    values: bool,
}

/// The rows of the two goals first; what a sampler sorts, one row of a vocabulary; narrow rows; other widths of keys.
fn cases(scale: usize) -> Vec<Case> {
    let case = |dtype, rows: usize, columns, values| Case { dtype, rows: (rows / scale).max(1), columns, values };
    vec![
        case(D::CRK_DTYPE_F32, 16384, 1024, false),
        case(D::CRK_DTYPE_F32, 2048, 8192, false),
        case(D::CRK_DTYPE_F32, 16384, 1024, true),
        case(D::CRK_DTYPE_F32, 1, 32000, false),
        case(D::CRK_DTYPE_F32, 1, 131072, false),
        case(D::CRK_DTYPE_F32, 128, 131072, false),
        case(D::CRK_DTYPE_F32, 1 << 20, 16, false),
        case(D::CRK_DTYPE_F32, 1 << 18, 64, false),
        case(D::CRK_DTYPE_F32, 16, 1000, false),
        case(D::CRK_DTYPE_F16, 16384, 1024, false),
        case(D::CRK_DTYPE_BF16, 2048, 8192, false),
        case(D::CRK_DTYPE_I64, 16384, 1024, false),
        case(D::CRK_DTYPE_U8, 16384, 1024, false),
    ]
}

/// Seconds of one launch, the median.
fn time(device: &Device, mut launch: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut queue = |count: usize| -> Result<f64> {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..count {
            launch()?;
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

/// Numbers of a dtype between 0 and 2, from a fixed seed: bits below one and a half exponents of its floats.
fn data(device: &Device, dtype: DType, count: usize) -> Result<Buffer> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let bytes = dtype.size();
    let limit = match dtype {
        D::CRK_DTYPE_F32 => 0x4000_0000,
        D::CRK_DTYPE_F16 | D::CRK_DTYPE_BF16 => 0x4000,
        _ => u64::MAX >> (64 - 8 * bytes as u32),
    };
    let mut image = vec![0u8; count * bytes];
    for element in image.chunks_exact_mut(bytes) {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        element.copy_from_slice(&(((state >> 11) ^ (state >> 31)) % limit).to_le_bytes()[..bytes]);
    }
    Ok(device.upload(&image)?)
}

/// Candle's launch of a network: a block a row.
fn by_name(device: &Device, module: &str, case: &Case, src: &Buffer, dst: &Buffer) -> Result<Option<f64>> {
    let padded = case.columns.next_power_of_two() as u32;
    if padded * 4 > 48 << 10 {
        return Ok(None);
    }
    let name = case.dtype.name().ok_or("a dtype")?;
    let function = device.function_named(module, &format!("asort_asc_{name}"))?;
    let launch = Launch { grid: [case.rows as u32, 1, 1], block: [padded.min(1024), 1, 1], shared_bytes: 4 * padded };
    let args = [src.into(), dst.into(), Arg::from(case.columns as u32), Arg::from(padded)];
    // SAFETY: the arguments and the geometry of asort_asc_*.
    Ok(Some(time(device, || Ok(unsafe { function.launch(launch, &args) }?))?))
}

fn main() -> Result<()> {
    let device = Device::open_best()?;
    let info = device.info()?;
    let other = match std::env::var("CANDLE_KERNELS_PTX") {
        Ok(folder) => {
            let mut ptx = std::fs::read(format!("{folder}/sort.ptx"))?;
            ptx.push(0);
            // SAFETY: the caller named the folder; its kernels run as they are.
            unsafe { device.load_module("candle_sort", &ptx) }?;
            "candle_sort"
        }
        Err(_) => "sort",
    };
    println!("{} ({}); beside: {other}\n", info.name(), info.architecture());
    println!(
        "{:<5} {:>8} x {:<7} {:<7} {:>10} {:>10} {:>10} {:>7}",
        "dtype", "rows", "columns", "", "us", "M/s", "beside, us", "ratio"
    );
    let scale = if info.backend == Backend::CRK_BACKEND_CPU { 1024 } else { 1 };
    for case in cases(scale) {
        let numel = case.rows * case.columns;
        let src = data(&device, case.dtype, numel)?;
        let (dst, values) = (device.alloc(numel * 4)?, device.alloc(numel * case.dtype.size())?);
        let layout = Layout::contiguous(&[case.rows, case.columns])?;
        let values = case.values.then_some(&values);
        let ours = time(&device, || Ok(device.argsort(case.dtype, &layout, &src, true, &dst, values)?))?;
        let theirs = by_name(&device, other, &case, &src, &dst)?;
        let beside =
            theirs.map_or(["-".into(), "-".into()], |t| [format!("{:.1}", t * 1e6), format!("{:.2}", t / ours)]);
        println!(
            "{:<5} {:>8} x {:<7} {:<7} {:>10.1} {:>10.0} {:>10} {:>7}",
            case.dtype.name().unwrap_or("?"),
            case.rows,
            case.columns,
            if case.values { "values" } else { "" },
            ours * 1e6,
            numel as f64 / ours / 1e6,
            beside[0],
            beside[1],
        );
    }
    Ok(())
}
