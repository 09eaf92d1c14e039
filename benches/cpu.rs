//! Times contiguous element-wise launchers on the CPU device, beside the loops that one would write for them in Rust,
//! on one thread.
//!
//! `cargo bench -p candle-rocm --bench cpu -- [--check] [--elements LIST] [WORD...]` runs the rows with a WORD in their
//! names. With `taskset -c 0` the device has only one core, as the loops have. With `--check` a row that misses the
//! goal of docs/benchmarks.md fails the run. That page also explains the figures.
use candle_rocm::Result;
use candle_rocm::measure::Time;
use candle_rocm_sys::{Buffer, DType, Device, Layout, sys};
use half::{bf16, f16};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

/// The goal: the device's time may be this many times the loop's.
const GOAL: f64 = 3.0;
/// The samples of each side, taken in turns.
const SAMPLES: usize = 31;
/// A sample has as many calls as the loop makes in this time.
const SAMPLE_SECONDS: f64 = 500e-6;

/// An element type of the loops and of the device.
trait Element: Copy + Default + PartialOrd + 'static {
    const DTYPE: DType;
    fn from_small(value: f64) -> Self;
    fn wide(self) -> f64;
}

macro_rules! elements {
    ($($t:ty, $dtype:ident, $from:expr, $wide:expr;)*) => {
        $(impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            fn from_small(value: f64) -> $t {
                let from: fn(f64) -> $t = $from;
                from(value)
            }
            fn wide(self) -> f64 {
                let wide: fn($t) -> f64 = $wide;
                wide(self)
            }
        })*
    };
}
elements! {
    f32, CRK_DTYPE_F32, |x| x as f32, f64::from;
    f64, CRK_DTYPE_F64, |x| x, |x| x;
    f16, CRK_DTYPE_F16, f16::from_f64, f16::to_f64;
    bf16, CRK_DTYPE_BF16, bf16::from_f64, bf16::to_f64;
    u8, CRK_DTYPE_U8, |x| x.abs() as u8, f64::from;
    u32, CRK_DTYPE_U32, |x| x.abs() as u32, f64::from;
    i64, CRK_DTYPE_I64, |x| x as i64, |x| x as f64;
}

/// The options, and the results.
struct Bench {
    device: Device,
    layout: Layout,
    elements: usize,
    words: Vec<String>,
    worst: f64,
    right: bool,
}

impl Bench {
    /// Numbers from -16 to 16, never 0, in a cycle with a prime length.
    fn source<T: Element>(&self, seed: usize) -> Result<(Vec<T>, Buffer)> {
        let value = |i: usize| ((i + seed * 67) * 37 % 251) as f64 / 8.0 - 15.7;
        let host: Vec<T> = (0..self.elements).map(|i| T::from_small(value(i))).collect();
        // SAFETY: numbers without padding, read as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(host.as_ptr().cast::<u8>(), size_of_val(&host[..])) };
        let buffer = self.device.upload(bytes)?;
        Ok((host, buffer))
    }

    /// Measures one row. `plain` fills a slice as `launch` fills a buffer.
    fn row<D: Element>(
        &mut self,
        name: &str,
        plain: impl Fn(&mut [D]),
        launch: impl Fn(&Device, &Layout, &Buffer) -> candle_rocm_sys::Result<()>,
    ) -> Result<()> {
        let mut expected = vec![D::default(); self.elements];
        let dst = self.device.alloc(size_of_val(&expected[..]))?;
        let mut loops = |count: usize| {
            let start = Instant::now();
            for _ in 0..count {
                plain(black_box(&mut expected));
            }
            start.elapsed().as_secs_f64() / count as f64
        };
        let launches = |count: usize| -> Result<f64> {
            let start = Instant::now();
            for _ in 0..count {
                launch(&self.device, &self.layout, &dst)?;
            }
            self.device.synchronize()?;
            Ok(start.elapsed().as_secs_f64() / count as f64)
        };
        launches(1)?;
        loops(1);
        let count = ((SAMPLE_SECONDS / loops(1)) as usize).max(1);
        let (mut plain_times, mut device_times) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            plain_times.push(loops(count));
            device_times.push(launches(count)?);
        }
        let [plain_time, device_time] = [plain_times, device_times].map(|times| Time::of(times).median);
        // SAFETY: the launcher wrote numbers of this type.
        let got: Vec<D> = unsafe { dst.download_as()? };
        let far = |(got, expected): (&D, &D)| {
            let (got, expected) = (got.wide(), expected.wide());
            !(got == expected || (got - expected).abs() <= 0.02 * expected.abs().max(1.0))
        };
        let wrong = got.iter().zip(&expected).position(far);
        let ratio = device_time / plain_time;
        self.worst = self.worst.max(ratio);
        self.right &= wrong.is_none();
        let ns = |seconds: f64| seconds * 1e9 / self.elements as f64;
        let mark = match wrong {
            Some(i) => format!("  WRONG: element {i} is {}, not {}", got[i].wide(), expected[i].wide()),
            None if ratio > GOAL => "  over".into(),
            None => String::new(),
        };
        println!("{name:<20} {:>10.3} {:>10.3} {ratio:>6.2}{mark}", ns(plain_time), ns(device_time));
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    fn one<T: Element, D: Element>(
        &mut self,
        name: &str,
        op: impl Fn(T) -> D,
        launch: impl Fn(&Device, &Layout, &Buffer, &Buffer) -> candle_rocm_sys::Result<()>,
    ) -> Result<()> {
        if !self.wants(name) {
            return Ok(());
        }
        let (x, src) = self.source::<T>(0)?;
        let plain = |dst: &mut [D]| dst.iter_mut().zip(&x).for_each(|(dst, x)| *dst = op(*x));
        self.row(name, plain, |device, layout, dst| launch(device, layout, &src, dst))
    }

    fn unary<T: Element>(&mut self, root: &str, op: impl Fn(T) -> T) -> Result<()> {
        let code = sys::crk_unary_op_t::from_root(root).ok_or("no root of the header's")?;
        self.one(&format!("{} {}", &root[1..], text(T::DTYPE)), op, |device, layout, src, dst| {
            device.unary(code, T::DTYPE, layout, src, dst)
        })
    }

    fn cast<T: Element, D: Element>(&mut self, op: impl Fn(T) -> D) -> Result<()> {
        let name = format!("cast {} {}", text(T::DTYPE), text(D::DTYPE));
        self.one(&name, op, |device, layout, src, dst| device.cast(T::DTYPE, D::DTYPE, layout, src, dst))
    }

    fn affine<T: Element>(&mut self, op: impl Fn(T, T, T) -> T) -> Result<()> {
        let (mul, add) = black_box((T::from_small(2.0), T::from_small(1.0)));
        self.one(
            &format!("affine {}", text(T::DTYPE)),
            |x| op(x, mul, add),
            |device, layout, src, dst| device.affine(T::DTYPE, layout, src, dst, 2.0, 1.0),
        )
    }

    fn two<T: Element, D: Element>(
        &mut self,
        name: &str,
        op: impl Fn(T, T) -> D,
        launch: impl Fn(&Device, (&Layout, &Buffer), (&Layout, &Buffer), &Buffer) -> candle_rocm_sys::Result<()>,
    ) -> Result<()> {
        if !self.wants(name) {
            return Ok(());
        }
        let ((x, lhs), (y, rhs)) = (self.source::<T>(0)?, self.source::<T>(1)?);
        let plain = |dst: &mut [D]| dst.iter_mut().zip(&x).zip(&y).for_each(|((dst, x), y)| *dst = op(*x, *y));
        self.row(name, plain, |device, layout, dst| launch(device, (layout, &lhs), (layout, &rhs), dst))
    }

    fn binary<T: Element>(&mut self, root: &str, op: impl Fn(T, T) -> T) -> Result<()> {
        let code = sys::crk_binary_op_t::from_root(root).ok_or("no root of the header's")?;
        self.two(&format!("{} {}", &root[1..], text(T::DTYPE)), op, |device, lhs, rhs, dst| {
            device.binary(code, T::DTYPE, lhs, rhs, dst)
        })
    }

    fn compare<T: Element>(&mut self) -> Result<()> {
        let code = sys::crk_cmp_op_t::CRK_CMP_LT;
        self.two(
            &format!("lt {}", text(T::DTYPE)),
            |x: T, y: T| u8::from(x < y),
            |device, lhs, rhs, dst| device.cmp(code, T::DTYPE, lhs, rhs, dst),
        )
    }

    fn choose<I: Element, T: Element>(&mut self) -> Result<()> {
        let name = format!("where {} {}", text(I::DTYPE), text(T::DTYPE));
        if !self.wants(&name) {
            return Ok(());
        }
        let zero = I::default();
        let ((i, ids), (x, on_true), (y, on_false)) =
            (self.source::<I>(0)?, self.source::<T>(1)?, self.source::<T>(2)?);
        let plain = |dst: &mut [T]| {
            let sources = i.iter().zip(&x).zip(&y);
            dst.iter_mut().zip(sources).for_each(|(dst, ((i, x), y))| *dst = if *i != zero { *x } else { *y });
        };
        self.row(&name, plain, |device, layout, dst| {
            let (ids, on_true, on_false) = ((layout, &ids), (layout, &on_true), (layout, &on_false));
            device.where_cond(I::DTYPE, T::DTYPE, ids, on_true, on_false, dst)
        })
    }

    fn rows(&mut self) -> Result<()> {
        /* f16 and bf16 are computed in f32, as the crate `half` does. */
        macro_rules! floats {
            ($($t:ident $wide:ident $to:expr, $from:expr;)*) => {
                $({
                    let (to, from): (fn($t) -> $wide, fn($wide) -> $t) = ($to, $from);
                    self.unary::<$t>("uneg", |x| -x)?;
                    self.unary::<$t>("usqr", |x| x * x)?;
                    self.unary::<$t>("uabs", |x| from(to(x).abs()))?;
                    self.unary::<$t>("ufloor", |x| from(to(x).floor()))?;
                    self.unary::<$t>("urelu", |x| if x > $t::default() { x } else { $t::default() })?;
                    self.unary::<$t>("uexp", |x| from(to(x).exp()))?;
                    self.unary::<$t>("utanh", |x| from(to(x).tanh()))?;
                    self.unary::<$t>("usilu", |x| from(to(x) / (1.0 + (-to(x)).exp())))?;
                    self.unary::<$t>("ugelu", |x| {
                        let x = to(x);
                        from(0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()))
                    })?;
                    self.binary::<$t>("bmaximum", |x, y| from(to(x).max(to(y))))?;
                })*
            };
        }
        floats! {
            f32 f32 |x| x, |x| x;
            f64 f64 |x| x, |x| x;
            f16 f32 f16::to_f32, f16::from_f32;
            bf16 f32 bf16::to_f32, bf16::from_f32;
        }
        self.unary::<i64>("uabs", i64::wrapping_abs)?;
        self.unary::<i64>("urelu", |x| x.max(0))?;
        self.unary::<u8>("ucopy", |x| x)?;
        self.unary::<u32>("ucopy", |x| x)?;
        self.unary::<i64>("ucopy", |x| x)?;

        macro_rules! arithmetic {
            ($($t:ident)*) => {
                $(self.affine::<$t>(|x, mul, add| x * mul + add)?;
                self.binary::<$t>("badd", |x, y| x + y)?;
                self.binary::<$t>("bmul", |x, y| x * y)?;
                self.binary::<$t>("bdiv", |x, y| x / y)?;)*
            };
        }
        macro_rules! wrapping {
            ($($t:ident)*) => {
                $(self.affine::<$t>(|x, mul, add| x.wrapping_mul(mul).wrapping_add(add))?;
                self.binary::<$t>("badd", $t::wrapping_add)?;
                self.binary::<$t>("bmul", $t::wrapping_mul)?;
                self.binary::<$t>("bdiv", |x, y| if y == 0 { !0 } else { x.wrapping_div(y) })?;
                self.binary::<$t>("bmaximum", |x, y| x.max(y))?;)*
            };
        }
        arithmetic! { f32 f64 f16 bf16 }
        wrapping! { u8 u32 i64 }
        macro_rules! each {
            ($($t:ident)*) => {
                $(self.compare::<$t>()?;
                self.choose::<u8, $t>()?;
                self.choose::<u32, $t>()?;)*
            };
        }
        each! { f32 f64 f16 bf16 u8 u32 i64 }

        self.cast(f16::from_f32)?;
        self.cast(f16::to_f32)?;
        self.cast(bf16::from_f32)?;
        self.cast(bf16::to_f32)?;
        macro_rules! casts {
            ($($from:ident $to:ident,)*) => { $(self.cast(|x: $from| x as $to)?;)* };
        }
        casts! {
            f32 f64, f64 f32, f32 u8, u8 f32, f32 u32, u32 f32, f32 i64, i64 f32, f64 i64, u8 u32, u32 u8, u32 i64,
            i64 u32,
        }
        self.cast(|x: u8| f16::from_f32(x.into()))?;
        self.cast(|x: f16| x.to_f32() as u8)?;
        self.cast(|x: i64| bf16::from_f32(x as f32))
    }
}

fn text(dtype: DType) -> &'static str {
    dtype.name().expect("a dtype of the header's")
}

const HELP: &str = "\
Times element-wise launchers on the CPU device beside plain loops in Rust.

usage: cargo bench -p candle-rocm --bench cpu -- [--check] [--elements LIST] [--device NAME] [WORD...]

  WORD             only the rows with one of these words in their names
  --check          a row that misses the goal of docs/benchmarks.md fails the run
  --elements LIST  the elements of a tensor, such as 16384,4194304 (the default)
  --device NAME    another device than cpu:32, or than that of CANDLE_ROCM_DEVICE: cpu:64, hip:0
  --help           this text
";

struct Options {
    device: Option<String>,
    check: bool,
    sizes: Vec<usize>,
    words: Vec<String>,
    help: bool,
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options =
        Options { device: None, check: false, sizes: vec![1 << 14, 1 << 22], words: Vec::new(), help: false };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => {} // cargo's
            Long("check") => options.check = true,
            Long("device") => options.device = Some(parser.value()?.string()?),
            Long("elements") => {
                let list = parser.value()?.string()?;
                let sizes = list.split(',').map(|text| text.parse().ok()).collect::<Option<_>>();
                options.sizes = sizes.ok_or_else(|| format!("{list} is no list of numbers"))?;
            }
            Short('h') | Long("help") => options.help = true,
            Value(word) => options.words.push(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

fn run() -> Result<bool> {
    let options = options().map_err(|error| format!("{error}\n\n{HELP}"))?;
    if options.help {
        print!("{HELP}");
        return Ok(true);
    }
    let Options { check, sizes, words, .. } = options;
    let variable = std::env::var_os("CANDLE_ROCM_DEVICE").filter(|name| !name.is_empty());
    let device = match (&options.device, variable) {
        (Some(name), _) => Device::open_named(name)?,
        (None, Some(_)) => Device::open_best()?,
        (None, None) => Device::open_named("cpu:32")?,
    };
    println!("{}, {} cores; nanoseconds an element", device.info()?.name(), std::thread::available_parallelism()?);
    let (mut worst, mut right) = (0f64, true);
    for elements in sizes {
        let layout = Layout::contiguous(&[elements])?;
        println!("\n{:<20} {:>10} {:>10} {:>6}", format!("{elements} elements"), "plain loop", "device", "times");
        let mut bench =
            Bench { device: device.clone(), layout, elements, words: words.clone(), worst: 0.0, right: true };
        bench.rows()?;
        worst = worst.max(bench.worst);
        right &= bench.right;
    }
    println!("\nslowest: {worst:.2} times a plain loop, goal {GOAL}");
    Ok(right && (worst <= GOAL || !check))
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
