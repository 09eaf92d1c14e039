//! Times every element-wise family on a device, beside the device's own copy speed and, on an NVIDIA GPU, beside
//! candle-kernels' own kernel of the same op, all in one run.
//!
//! `cargo bench --bench elementwise -- [options] [words that a case's name must contain]`, see [`USAGE`]; the device is
//! `CANDLE_ROCM_DEVICE`'s or the best one. How to read the figures: docs/benchmarks.md.
mod cases;
mod chart;
#[path = "../tests/support/cases.rs"]
mod shapes;

use candle_rocm_sys::{Arg, Backend, Buffer, DType, Device, DeviceInfo, Function, Launch, Status, sys};
use cases::{Case, FILL_VALUE, Op, Prepared, Size};
use shapes::{Rng, Shape};
use std::fmt::Write as _;
use std::process::ExitCode;

const USAGE: &str = "options:
  --sizes LIST     elements of a case, such as 2^28,2^26,odd:2^28 (the default on a GPU; 2^22,odd:2^22 on the CPU)
  --reps N         timed repetitions (30)
  --json FILE      a JSON line a row
  --roofline FILE  an SVG chart of the first size
  --note TEXT      goes into the JSON, for the commit
  --by-name        the second time of a row is that of this crate's own kernel by Candle's name, at Candle's geometry
environment:
  CANDLE_ROCM_DEVICE   the device, such as cuda:0
  CANDLE_KERNELS_PTX   a folder with affine.ptx to unary.ptx, compiled from candle-kernels: timed and compared too";

struct Options {
    sizes: Option<Vec<Size>>,
    reps: usize,
    json: Option<String>,
    chart: Option<String>,
    note: String,
    by_name: bool,
    words: Vec<String>,
}

fn size_of_text(text: &str) -> Option<Size> {
    let (text, odd) = text.strip_prefix("odd:").map_or((text, false), |rest| (rest, true));
    let elements = match text.split_once('^') {
        Some((base, exponent)) => base.parse::<usize>().ok()?.checked_pow(exponent.parse().ok()?)?,
        None => text.parse().ok()?,
    };
    (elements > 0).then_some(Size { elements, odd })
}

fn options() -> Result<Options> {
    let mut options = Options {
        sizes: None,
        reps: 30,
        json: None,
        chart: None,
        note: String::new(),
        by_name: false,
        words: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--bench" => {} // cargo's
            "--sizes" => {
                let list = value()?;
                let sizes: Option<Vec<Size>> = list.split(',').map(size_of_text).collect();
                options.sizes = Some(sizes.ok_or_else(|| format!("{list} is no list of sizes"))?);
            }
            "--reps" => options.reps = value()?.parse().ok().filter(|reps| *reps > 0).ok_or("--reps wants a number")?,
            "--json" => options.json = Some(value()?),
            "--roofline" => options.chart = Some(value()?),
            "--note" => options.note = value()?,
            "--by-name" => options.by_name = true,
            word if !word.starts_with('-') => options.words.push(word.to_string()),
            other => return Err(format!("{other} is no option").into()),
        }
    }
    Ok(options)
}

/* ------------------------------------------------------------------------------------------------------------------
 * Time
 * ------------------------------------------------------------------------------------------------------------------ */

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn check(status: Status) -> Result<()> {
    if status == Status::CRK_OK {
        return Ok(());
    }
    // SAFETY: never NULL, valid until the thread's next failure.
    let sentence = unsafe { std::ffi::CStr::from_ptr(sys::crk_last_error()) };
    Err(format!("{}: {}", status.name(), sentence.to_string_lossy()).into())
}

/// Measures stretches of the device's stream.
struct Clock<'a> {
    device: &'a Device,
    start: sys::crk_event_t,
    end: sys::crk_event_t,
    reps: usize,
}

/// Launches shorter than this are timed in a queue of [`QUEUED`]: a launch costs microseconds of its own.
const SHORT: f64 = 200e-6;
const QUEUED: usize = 20;

/// Seconds of one launch: the median, and the tenth and ninetieth part in a hundred of the repetitions.
#[derive(Clone, Copy)]
struct Time {
    median: f64,
    low: f64,
    high: f64,
}

impl Time {
    /// Half the distance of the tenths, in parts of the median.
    fn spread(self) -> f64 {
        (self.high - self.low) / 2.0 / self.median
    }
}

impl<'a> Clock<'a> {
    fn new(device: &'a Device, reps: usize) -> Result<Clock<'a>> {
        let (mut start, mut end) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a live handle; both are written on success.
        unsafe {
            check(sys::crk_event_create(device.raw(), &mut start))?;
            check(sys::crk_event_create(device.raw(), &mut end))?;
        }
        Ok(Clock { device, start, end, reps })
    }

    /// Seconds a launch, of `count` in a queue.
    fn once(&self, count: usize, launch: &mut dyn FnMut(usize) -> Result<()>) -> Result<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: live events of a live handle.
        unsafe { check(sys::crk_event_record(self.start, self.device.raw()))? };
        for i in 0..count {
            launch(i)?;
        }
        // SAFETY: as above.
        unsafe {
            check(sys::crk_event_record(self.end, self.device.raw()))?;
            check(sys::crk_event_synchronize(self.end))?;
            check(sys::crk_event_elapsed(self.start, self.end, &mut milliseconds))?;
        }
        Ok(f64::from(milliseconds) * 1e-3 / count as f64)
    }

    /// `launch(i)` puts one launch into the stream; `i` lets it walk over several sets of buffers.
    fn time(&self, mut launch: impl FnMut(usize) -> Result<()>) -> Result<Time> {
        for i in 0..self.reps.min(3) {
            launch(i)?;
        }
        self.device.synchronize()?;
        let count = if self.once(1, &mut launch)? < SHORT { QUEUED } else { 1 };
        let mut turn = 0;
        let mut times = Vec::with_capacity(self.reps);
        for _ in 0..self.reps {
            times.push(self.once(count, &mut |i| launch(turn + i))?);
            turn += count;
        }
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
        Ok(Time { median: at(0.5), low: at(0.1), high: at(0.9) })
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`; the handle outlives them.
        unsafe {
            sys::crk_event_destroy(self.start);
            sys::crk_event_destroy(self.end);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Buffers
 * ------------------------------------------------------------------------------------------------------------------ */

/// All buffers of a case are walked over in sets, until they are more than any cache holds.
const BEYOND_CACHES: usize = 1 << 30;
const MOST_SETS: usize = 16;

struct Set {
    sources: Vec<Buffer>,
    dst: Buffer,
}

/// Numbers of a fixed seed; the cycle's length is a prime, so that rows differ. Floats are within -8 to 8, ids 0 and 1.
fn pattern(dtype: DType, ids: bool, seed: u64) -> Vec<u8> {
    const CYCLE: usize = 1_048_583;
    let mut random = Rng(seed);
    let mut bytes = Vec::with_capacity(CYCLE * dtype.size());
    for _ in 0..CYCLE {
        let float = random.unit() as f32 * 16.0 - 8.0;
        match dtype {
            DType::CRK_DTYPE_F32 => bytes.extend(float.to_ne_bytes()),
            DType::CRK_DTYPE_F16 => bytes.extend(half::f16::from_f32(float).to_ne_bytes()),
            DType::CRK_DTYPE_BF16 => bytes.extend(half::bf16::from_f32(float).to_ne_bytes()),
            _ if ids => bytes.extend(&(random.next() & 1).to_le_bytes()[..dtype.size()]),
            _ => bytes.extend(&random.next().to_le_bytes()[..dtype.size()]),
        }
    }
    bytes
}

/// A buffer of `bytes` filled with `pattern` again and again, by copies within the device.
fn repeated(device: &Device, pattern: &[u8], bytes: usize) -> Result<Buffer> {
    let buffer = device.alloc(bytes)?;
    let mut filled = pattern.len().min(bytes);
    buffer.write(&pattern[..filled])?;
    while filled < bytes {
        let more = filled.min(bytes - filled);
        let view = |offset: usize| sys::crk_view_t {
            ptr: buffer.as_ptr().cast::<u8>().wrapping_add(offset).cast(),
            bytes: bytes - offset,
        };
        // SAFETY: both within the buffer, and apart.
        unsafe { check(sys::crk_copy(device.raw(), view(filled), view(0), more))? };
        filled += more;
    }
    Ok(buffer)
}

fn clear(device: &Device, buffer: &Buffer) -> Result<()> {
    // SAFETY: the whole of a live buffer.
    unsafe { check(sys::crk_memset(device.raw(), buffer.raw_view(), 0xa5, buffer.bytes())) }
}

impl Set {
    fn new(device: &Device, case: &Case, seed: u64) -> Result<Set> {
        let source = |(i, source): (usize, &cases::Source)| {
            let ids = case.op == Op::Where && i == 0;
            repeated(device, &pattern(source.dtype, ids, seed + i as u64), case.source_bytes(i))
        };
        let sources = case.sources.iter().enumerate().map(source).collect::<Result<_>>()?;
        let dst = device.alloc(case.dst_bytes())?;
        clear(device, &dst)?;
        Ok(Set { sources, dst })
    }

    fn launch(&self, device: &Device, prepared: &Prepared<'_>) -> Result<()> {
        let mut views = [self.dst.raw_view(); 3];
        for (view, source) in views.iter_mut().zip(&self.sources) {
            *view = source.raw_view();
        }
        // SAFETY: a live handle and its own buffers.
        check(unsafe { prepared.launch(device.raw(), &views[..self.sources.len()], self.dst.raw_view()) })
    }
}

fn sets(device: &Device, case: &Case, beyond: usize) -> Result<Vec<Set>> {
    let one: usize = (0..case.sources.len()).map(|i| case.source_bytes(i)).sum::<usize>() + case.dst_bytes();
    let count = beyond.div_ceil(one.max(1)).clamp(1, MOST_SETS);
    (0..count).map(|i| Set::new(device, case, 251 * (i as u64 + 1))).collect()
}

/* ------------------------------------------------------------------------------------------------------------------
 * Candle's kernels
 * ------------------------------------------------------------------------------------------------------------------ */

/// Whose kernels a row is timed beside.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    Nobody,
    /// candle-kernels', loaded from PTX.
    Candle,
    /// This crate's by Candle's names.
    ByName,
}

impl Other {
    fn module(self, stem: &str) -> String {
        if self == Other::Candle { format!("candle_{stem}") } else { stem.to_string() }
    }

    /// How tables and charts call it.
    fn label(self) -> &'static str {
        if self == Other::ByName { "by name" } else { "candle" }
    }
}

const CANDLE_MODULES: [&str; 6] = ["affine", "binary", "cast", "fill", "ternary", "unary"];

/// Loads `<module>.ptx` of a folder as the module "candle_<module>".
fn load_candle(device: &Device, folder: &str) -> Result<()> {
    for module in CANDLE_MODULES {
        let path = format!("{folder}/{module}.ptx");
        let mut ptx = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        ptx.push(0);
        // SAFETY: the caller named the folder; its kernels run as they are.
        unsafe { device.load_module(&Other::Candle.module(module), &ptx) }
            .map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

/// An argument of Candle's kernel: a source, the destination, the layout's numbers, or a value.
enum CandleArg {
    Source(usize),
    Dst,
    Info,
    U64(usize),
    U32(usize),
    Bits(u64, u32),
}

/// A number as the bits of a dtype, as candle-core's `from_f64` makes them.
fn bits(value: f64, dtype: DType) -> CandleArg {
    let bits = match dtype {
        DType::CRK_DTYPE_F32 => u64::from((value as f32).to_bits()),
        DType::CRK_DTYPE_F16 => u64::from(half::f16::from_f64(value).to_bits()),
        DType::CRK_DTYPE_BF16 => u64::from(half::bf16::from_f64(value).to_bits()),
        _ => value as u64,
    };
    CandleArg::Bits(bits, dtype.size() as u32)
}

/// The same op by the kernel of Candle's name, called as candle-core calls it.
struct Candle<'a> {
    case: &'a Case,
    function: Function,
    args: Vec<CandleArg>,
    info: Option<Buffer>,
}

impl<'a> Candle<'a> {
    fn new(device: &Device, case: &'a Case, other: Other) -> Result<Candle<'a>> {
        use CandleArg::{Bits, Dst, Info, Source, U32, U64};
        let dtype = case.dtype();
        let (t, to) = (dtype.name().unwrap_or("?"), case.dst_dtype.name().unwrap_or("?"));
        let head = || vec![U64(case.numel()), U64(case.dims.len()), Info];
        let value = || Bits(FILL_VALUE & (u64::MAX >> (64 - 8 * dtype.size())), dtype.size() as u32);
        let with = |more: Vec<CandleArg>| head().into_iter().chain(more).collect::<Vec<_>>();
        let (module, kernel, args) = match case.op {
            Op::Unary(root) => ("unary", format!("{root}_{t}"), with(vec![Source(0), Dst])),
            Op::CopyStrided => ("unary", format!("ucopy_{t}"), with(vec![Source(0), Dst])),
            Op::UnaryParam(root, param) => {
                ("unary", format!("{root}_{t}"), with(vec![bits(param, dtype), Source(0), Dst]))
            }
            Op::Affine(mul, add) => {
                ("affine", format!("affine_{t}"), with(vec![Source(0), Dst, bits(mul, dtype), bits(add, dtype)]))
            }
            Op::Binary(root) | Op::Cmp(root) => {
                ("binary", format!("{root}_{t}"), with(vec![Source(0), Source(1), Dst]))
            }
            Op::Cast => ("cast", format!("cast_{t}_{to}"), with(vec![Source(0), Dst])),
            Op::Where => {
                let ids = case.sources[0].dtype.name().unwrap_or("?");
                ("ternary", format!("where_{ids}_{t}"), with(vec![Source(0), Source(1), Source(2), Dst]))
            }
            Op::Fill => ("fill", format!("fill_{t}"), vec![Dst, value(), U64(case.numel())]),
            Op::ConstSet => ("fill", format!("const_set_{t}"), with(vec![value(), Dst])),
            Op::Copy2d => {
                let strides = [U32(case.sources[0].shape.strides[0]), U32(case.dst.strides[0])];
                let sizes = [U32(case.dims[0]), U32(case.dims[1])];
                let args = [Source(0), Dst].into_iter().chain(sizes).chain(strides).collect();
                ("fill", format!("copy2d_{t}"), args)
            }
        };
        let function = device.function_named(&other.module(module), &kernel)?;
        let strides = || case.sources.iter().map(|source| &source.shape.strides);
        let plain = Shape::contiguous(&case.dims).strides;
        let all_plain = strides().all(|strides| *strides == plain) && case.dst.strides == plain;
        // where_* reads its numbers even when all is contiguous.
        let info = (!all_plain || case.op == Op::Where).then(|| {
            let mut numbers: Vec<u64> = case.dims.iter().map(|dim| *dim as u64).collect();
            for strides in strides() {
                numbers.extend(strides.iter().map(|stride| *stride as u64));
            }
            if case.sources.is_empty() {
                numbers.extend(case.dst.strides.iter().map(|stride| *stride as u64));
            }
            device.upload(&numbers)
        });
        Ok(Candle { case, function, args, info: info.transpose()? })
    }

    fn launch(&self, sources: &[Buffer], dst: &Buffer) -> Result<()> {
        let arg = |arg: &CandleArg| match *arg {
            CandleArg::Source(i) => {
                let source = &self.case.sources[i];
                let bytes = source.shape.offset * source.dtype.size();
                Arg::ptr(sources[i].as_ptr().cast::<u8>().wrapping_add(bytes).cast_const().cast())
            }
            CandleArg::Dst => Arg::ptr(dst.as_ptr()),
            CandleArg::Info => Arg::ptr(self.info.as_ref().map_or(std::ptr::null(), |info| info.as_ptr().cast_const())),
            CandleArg::U64(value) => Arg::from(value),
            CandleArg::U32(value) => Arg::from(value as u32),
            CandleArg::Bits(bits, bytes) => Arg::bits(bits, bytes),
        };
        let args: Vec<Arg<'_>> = self.args.iter().map(arg).collect();
        // SAFETY: Candle's arguments for this case; the buffers are as long as the case says.
        unsafe { self.function.launch(Launch::for_num_elems(self.case.numel() as u32), &args)? };
        Ok(())
    }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Are the results the same?
 * ------------------------------------------------------------------------------------------------------------------ */

/// How far two results are apart.
#[derive(Clone, Copy, PartialEq)]
enum Apart {
    Same,
    Ulp(u64),
    /// At this element, where the bits had to be the same.
    Wrong(usize),
}

impl std::fmt::Display for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Apart::Same => write!(f, "same bits"),
            Apart::Ulp(ulp) => write!(f, "{ulp} ulp"),
            Apart::Wrong(at) => write!(f, "DIFFER at {at}"),
        }
    }
}

/// A float's bits as a number that counts up with it.
fn ordered(bits: u64, width: u32) -> i64 {
    let sign = 1u64 << (width - 1);
    if bits & sign != 0 { -((bits & (sign - 1)) as i64) } else { bits as i64 }
}

fn is_nan(bits: u64, dtype: DType) -> bool {
    match dtype {
        DType::CRK_DTYPE_F32 => f32::from_bits(bits as u32).is_nan(),
        DType::CRK_DTYPE_F16 => half::f16::from_bits(bits as u16).is_nan(),
        DType::CRK_DTYPE_BF16 => half::bf16::from_bits(bits as u16).is_nan(),
        _ => false,
    }
}

/// Compares up to 64 pieces of 1 MiB, evenly spread and with both ends among them.
fn compare(device: &Device, case: &Case, ours: &Buffer, theirs: &Buffer) -> Result<Apart> {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 64;
    let width = case.dst_dtype.size();
    let exact = !matches!(case.op, Op::Unary(root) | Op::UnaryParam(root, _) if root != "ucopy");
    let bytes = ours.bytes();
    let last = bytes.saturating_sub(PIECE).div_ceil(width) * width;
    let count = bytes.div_ceil(PIECE).min(PIECES);
    let mut apart = Apart::Same;
    for piece in 0..count {
        let offset = if count > 1 { last / width * piece / (count - 1) * width } else { 0 };
        let length = PIECE.min(bytes - offset);
        let read = |buffer: &Buffer| -> Result<Vec<u8>> {
            let mut host = vec![0u8; length];
            let ptr = buffer.as_ptr().cast::<u8>().wrapping_add(offset).cast();
            // SAFETY: `length` bytes from `offset` on are within the buffer, and `host` has room for them.
            unsafe {
                let view = sys::crk_view_t { ptr, bytes: length };
                check(sys::crk_copy_to_host(device.raw(), host.as_mut_ptr().cast(), view, length))?;
            }
            Ok(host)
        };
        let (a, b) = (read(ours)?, read(theirs)?);
        if a == b {
            continue;
        }
        for (i, (a, b)) in a.chunks_exact(width).zip(b.chunks_exact(width)).enumerate() {
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            let (a, b) = (number(a), number(b));
            if a == b || (is_nan(a, case.dst_dtype) && is_nan(b, case.dst_dtype)) {
                continue;
            }
            if exact || is_nan(a, case.dst_dtype) != is_nan(b, case.dst_dtype) {
                return Ok(Apart::Wrong(offset / width + i));
            }
            let bits = 8 * width as u32;
            let ulp = ordered(a, bits).abs_diff(ordered(b, bits));
            apart = match apart {
                Apart::Ulp(most) => Apart::Ulp(most.max(ulp)),
                _ => Apart::Ulp(ulp),
            };
        }
    }
    Ok(apart)
}

/* ------------------------------------------------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------------------------------------------------ */

struct Row {
    name: String,
    dims: Vec<usize>,
    bytes: usize,
    ours: Time,
    theirs: Option<(Time, Apart)>,
}

impl Row {
    fn measure(device: &Device, clock: &Clock<'_>, case: &Case, other: Other, beyond: usize) -> Result<Row> {
        let sets = sets(device, case, beyond)?;
        let prepared: Prepared<'_> = case.prepare()?;
        let ours = clock.time(|i| {
            let set = &sets[i % sets.len()];
            set.launch(device, &prepared)
        })?;
        let theirs = (other != Other::Nobody).then(|| -> Result<(Time, Apart)> {
            let candle = Candle::new(device, case, other)?;
            let second = device.alloc(case.dst_bytes())?;
            let time = clock.time(|i| {
                let set = &sets[i % sets.len()];
                candle.launch(&set.sources, &set.dst)
            })?;
            clear(device, &sets[0].dst)?;
            clear(device, &second)?;
            sets[0].launch(device, &prepared)?;
            candle.launch(&sets[0].sources, &second)?;
            Ok((time, compare(device, case, &sets[0].dst, &second)?))
        });
        let (dims, bytes) = (case.dims.clone(), case.moved_bytes());
        Ok(Row { name: case.name.clone(), dims, bytes, ours, theirs: theirs.transpose()? })
    }

    fn speed(&self, time: Time) -> f64 {
        self.bytes as f64 / time.median
    }

    fn dims_text(&self) -> String {
        if let [dim] = self.dims[..] {
            return dim.to_string();
        }
        self.dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
    }

    fn print(&self, copy_speed: f64) {
        let share = |time: Time| self.speed(time) / copy_speed;
        print!(
            "{:<36} {:>17} {:>10.2} {:>5.1} {:>8.1} {:>6.3}",
            self.name,
            self.dims_text(),
            self.ours.median * 1e6,
            self.ours.spread() * 100.0,
            self.speed(self.ours) * 1e-9,
            share(self.ours)
        );
        if let Some((time, apart)) = self.theirs {
            let ratio = time.median / self.ours.median;
            print!(" {:>10.2} {:>6.3} {:>6.2}  {apart}", time.median * 1e6, share(time), ratio);
        }
        println!();
    }

    fn json(&self, copy_speed: f64) -> String {
        let mut line = format!(
            r#"{{"op":"{}","dims":{:?},"bytes":{},"us":{:.3},"us_p10":{:.3},"us_p90":{:.3},"gb_s":{:.2},"of_copy":{:.4}"#,
            self.name,
            self.dims,
            self.bytes,
            self.ours.median * 1e6,
            self.ours.low * 1e6,
            self.ours.high * 1e6,
            self.speed(self.ours) * 1e-9,
            self.speed(self.ours) / copy_speed
        );
        if let Some((time, apart)) = self.theirs {
            let _ = write!(
                line,
                r#","other_us":{:.3},"other_of_copy":{:.4},"times":{:.3},"results":"{apart}""#,
                time.median * 1e6,
                self.speed(time) / copy_speed,
                time.median / self.ours.median
            );
        }
        line + "}\n"
    }
}

/// Bytes a second that the device's own copy reads and writes together.
fn copy_speed(device: &Device, clock: &Clock<'_>, bytes: usize, beyond: usize) -> Result<f64> {
    let count = beyond.div_ceil(2 * bytes).clamp(1, MOST_SETS);
    let pattern = pattern(DType::CRK_DTYPE_F32, false, 7);
    let pairs: Vec<(Buffer, Buffer)> = (0..count)
        .map(|_| Ok((repeated(device, &pattern, bytes)?, repeated(device, &pattern, bytes)?)))
        .collect::<Result<_>>()?;
    let time = clock.time(|i| Ok(device.copy(&pairs[i % count].1, &pairs[i % count].0)?))?;
    Ok(2.0 * bytes as f64 / time.median)
}

/// Text within a JSON string.
fn escaped(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .flat_map(|c| if matches!(c, '"' | '\\') { vec!['\\', c] } else { vec![c] })
        .collect()
}

fn run(options: &Options) -> Result<bool> {
    let device = Device::open_best()?;
    let info: DeviceInfo = device.info()?;
    let on_cpu = info.backend == Backend::CRK_BACKEND_CPU;
    let other = match std::env::var("CANDLE_KERNELS_PTX").ok().filter(|folder| !folder.is_empty()) {
        _ if options.by_name => Other::ByName,
        Some(folder) => load_candle(&device, &folder).map(|()| Other::Candle)?,
        None => Other::Nobody,
    };
    let size = |elements: usize, odd: bool| Size { elements, odd };
    let sizes = options.sizes.clone().unwrap_or_else(|| {
        if on_cpu {
            vec![size(1 << 22, false), size(1 << 22, true)]
        } else {
            vec![size(1 << 28, false), size(1 << 26, false), size(1 << 28, true)]
        }
    });
    /* One repetition is for trying the code, on an emulator say: one set will do. */
    let beyond = match (options.reps, on_cpu) {
        (1, _) => 1,
        (_, true) => BEYOND_CACHES / 4,
        (_, false) => BEYOND_CACHES,
    };
    let clock = Clock::new(&device, options.reps)?;
    let largest = sizes.iter().map(|size| size.elements).max().unwrap_or(1) * 4;
    let copy_speed = copy_speed(&device, &clock, largest, beyond)?;

    println!(
        "{} ({}, wave {}, {} compute units), its own copy: {:.1} GB/s",
        info.name(),
        info.architecture(),
        info.wave_size,
        info.compute_units,
        copy_speed * 1e-9
    );
    let mut json = format!(
        "{{\"device\":\"{}\",\"architecture\":\"{}\",\"runtime\":{},\"version\":\"{}\",\"copy_gb_s\":{:.2},\"reps\":{},\"other\":\"{}\",\"note\":\"{}\"}}\n",
        escaped(info.name()),
        info.architecture(),
        info.runtime_version,
        env!("CARGO_PKG_VERSION"),
        copy_speed * 1e-9,
        options.reps,
        if other == Other::Nobody { "" } else { other.label() },
        escaped(&options.note)
    );
    let wanted = |case: &Case| options.words.is_empty() || options.words.iter().any(|word| case.name.contains(word));
    let mut bars = Vec::new();
    let mut right = true;
    for (i, size) in sizes.iter().enumerate() {
        println!();
        print!("{:<36} {:>17} {:>10} {:>5} {:>8} {:>6}", "case", "dims", "us", "+-%", "GB/s", "copies");
        match other {
            Other::Nobody => println!(),
            _ => println!(" {:>10} {:>6} {:>6}  results", format!("{} us", other.label()), "copies", "times"),
        }
        for case in cases::elementwise(*size).iter().filter(|case| wanted(case)) {
            let row = match Row::measure(&device, &clock, case, other, beyond) {
                Ok(row) => row,
                Err(error) => {
                    println!("{:<36} FAILED: {error}", case.name);
                    right = false;
                    continue;
                }
            };
            row.print(copy_speed);
            json += &row.json(copy_speed);
            right &= !matches!(row.theirs, Some((_, Apart::Wrong(_))));
            if i == 0 {
                let share = |time| row.speed(time) / copy_speed;
                bars.push(chart::Bar {
                    label: row.name.clone(),
                    ours: share(row.ours),
                    theirs: row.theirs.map(|(time, _)| share(time)),
                });
            }
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, json).map_err(|error| format!("{file}: {error}"))?;
    }
    if let Some(file) = &options.chart {
        let title = format!("{}: share of its own copy speed, {:.0} GB/s", info.name(), copy_speed * 1e-9);
        std::fs::write(file, chart::svg(&title, other.label(), &bars)).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(right)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
