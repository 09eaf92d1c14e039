//! A tour of the crate. It opens the best device, runs ops of each of Candle's eleven modules on contiguous,
//! broadcast and transposed data, checks each result against plain Rust and prints a table.
//!
//! Run it with `cargo run --example tour`; with `-- --help` it tells its options. The exit status is 1 if a
//! result differs and 2 if something fails.
#[path = "support/program.rs"]
mod program;

use candle_rocm_sys::{
    AFFINE, Arg, Backend, BinaryOp, Buffer, CmpOp, Conv, DType, Device, Launch, Layout, Pod, PoolOp, Quant, ReduceOp,
    Result, RopeKind, Routes, UnaryOp,
};
use half::{bf16, f16};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The columns of the tensors; the number of rows follows from the size.
const COLS: usize = 64;

const HELP: &str = "\
Runs an op of every kernel family, checks each result against plain Rust, and prints what a call took.

usage: tour [--device NAME] [ELEMENTS]

  --device NAME  the device to run on
  ELEMENTS       the elements of a tensor; as many as the device fills in a moment, if left out
  --help         this text
";

#[derive(Default)]
struct Options {
    device: Option<String>,
    elements: Option<usize>,
    help: bool,
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("device") => options.device = Some(parser.value()?.string()?),
            Value(text) if options.elements.is_none() => options.elements = Some(text.parse()?),
            Short('h') | Long("help") => options.help = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if options.help {
        println!("{HELP}\n{}", program::DEVICE_HELP);
        return ExitCode::SUCCESS;
    }
    let result = program::open(options.device.as_deref())
        .and_then(|device| tour(device, options.elements).map_err(|error| error.to_string()));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn tour(device: Device, elements: Option<usize>) -> Result<bool> {
    let start = Instant::now();
    let info = device.info()?;
    println!("{}", program::describe(&info));
    if let Some(remark) = program::remark(&info) {
        println!("{remark}");
    }
    let n = match elements {
        Some(elements) => elements.max(64 * COLS) / (64 * COLS) * (64 * COLS),
        None => comfortable_size(&device)?,
    };
    println!("{n} elements, {} rows of {COLS}\n", n / COLS);
    println!("{:<28} {:<12} {:<34} {:>8} {:>8}  result", "op", "dtype", "shape", "ms", "GB/s");
    let mut tour = Tour { device, n, rows: n / COLS, all_ok: true };
    tour.affine()?;
    tour.binary()?;
    tour.cast()?;
    tour.conv()?;
    tour.fill()?;
    tour.indexing()?;
    tour.quantized()?;
    tour.norm()?;
    tour.reduce()?;
    tour.sort()?;
    tour.ternary()?;
    tour.unary()?;
    println!(
        "\n{}; it took {:.1} s",
        if tour.all_ok { "every result is as plain Rust has it" } else { "NOT every result is right" },
        start.elapsed().as_secs_f64()
    );
    Ok(tour.all_ok)
}

/// As many elements as the device fills in a moment: few on an emulated device, more than the caches hold on a GPU.
fn comfortable_size(device: &Device) -> Result<usize> {
    let most = if device.info()?.backend == Backend::Cpu { 1 << 20 } else { 1 << 24 };
    let mut n = 64 * COLS;
    while n < most {
        let buffer = device.alloc(n * 4)?;
        device.fill(DType::F32, &buffer, n, 0f32)?;
        device.synchronize()?;
        let start = Instant::now();
        device.fill(DType::F32, &buffer, n, 1f32)?;
        device.synchronize()?;
        if start.elapsed() > Duration::from_millis(20) {
            break;
        }
        n *= 4;
    }
    Ok(n.min(most))
}

/// Numbers like a tensor's: a slow wave with a fast one added, from about -3.5 to 3.5. No two rows are alike.
fn signal(n: usize) -> Vec<f32> {
    (0..n).map(|i| 3.0 * (i as f32 * 0.0137).sin() + 0.5 * ((i * 7919) % 1000) as f32 / 1000.0).collect()
}

/// a * b + c, rounded once. `f32::mul_add` is the C library's function, and that of mingw-w64 has errors.
///
/// The product is exact in f64. The sum is rounded to odd: an inexact sum gets an odd last bit. Then the conversion to
/// f32 rounds as if there had been no rounding before.
fn fused(a: f32, b: f32, c: f32) -> f32 {
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    let part = sum - product;
    let error = (product - (sum - part)) + (addend - part);
    let bits = sum.to_bits();
    let apart = (error < 0.0) != (sum < 0.0);
    let inexact = error != 0.0 && bits & 1 == 0;
    f64::from_bits(if inexact { if apart { bits - 1 } else { bits + 1 } } else { bits }) as f32
}

/// The first element that differs, if any.
fn first_difference<T: Copy + PartialEq + std::fmt::Debug>(
    got: &[T],
    expected: impl Fn(usize) -> T,
    close: impl Fn(T, T) -> bool,
) -> Option<String> {
    let at = (0..got.len()).find(|&i| got[i] != expected(i) && !close(got[i], expected(i)))?;
    Some(format!("[{at}] is {:?}, expected {:?}", got[at], expected(at)))
}

/// Accepts only equal elements.
fn exactly<T>(_: T, _: T) -> bool {
    false
}

/// A bound for results of exp and tanh, which may differ in the last bits.
fn nearly(got: f32, expected: f32) -> bool {
    (got - expected).abs() <= 2e-6 * (1.0 + expected.abs())
}

struct Tour {
    device: Device,
    n: usize,
    rows: usize,
    all_ok: bool,
}

impl Tour {
    fn flat(&self) -> Result<Layout> {
        Layout::contiguous(&[self.rows, COLS])
    }

    /// The same memory read by columns.
    fn transposed(&self) -> Result<Layout> {
        Layout::strided(&[COLS, self.rows], &[1, COLS], 0)
    }

    /// The position of element `i` of the transposed tensor.
    fn at_transposed(&self, i: usize) -> usize {
        i % self.rows * COLS + i / self.rows
    }

    /// One row of COLS elements, broadcast to every row.
    fn row_for_all(&self) -> Result<Layout> {
        Layout::strided(&[self.rows, COLS], &[0, 1], 0)
    }

    /// Runs an op, times it, checks the contents of `dst` and prints the line. `bytes` counts each byte read or written
    /// once.
    fn show<T: Pod>(
        &mut self,
        name: (&str, &str, &str),
        bytes: usize,
        dst: &Buffer,
        run: impl Fn(&Device) -> Result<()>,
        check: impl Fn(&[T]) -> Option<String>,
    ) -> Result<()> {
        run(&self.device)?;
        let difference = check(&dst.download::<T>()?);
        let times = (0..5).map(|_| {
            let start = Instant::now();
            run(&self.device)?;
            self.device.synchronize()?;
            Ok(start.elapsed())
        });
        let mut times = times.collect::<Result<Vec<_>>>()?;
        times.sort_unstable();
        let seconds = times[times.len() / 2].as_secs_f64();
        let speed = bytes as f64 / seconds / 1e9;
        self.all_ok &= difference.is_none();
        let (op, dtype, shape) = name;
        println!(
            "{op:<28} {dtype:<12} {shape:<34} {:>8.3} {speed:>8.1}  {}",
            seconds * 1e3,
            difference.as_deref().unwrap_or("ok")
        );
        Ok(())
    }

    fn affine(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let (src, dst) = (self.device.upload(&x)?, self.device.alloc(n * 4)?);
        let l = self.flat()?;
        self.show(
            ("affine", "f32", "contiguous"),
            n * 8,
            &dst,
            |d| d.affine(DType::F32, &l, &src, &dst, 1.5, -0.25),
            |got: &[f32]| first_difference(got, |i| fused(x[i], 1.5, -0.25), exactly),
        )?;
        // The same op with Candle's kernel of this name, with Candle's arguments and geometry.
        let function = self.device.function(&AFFINE, "affine_f32")?;
        self.show(
            ("affine_f32, by name", "f32", "contiguous"),
            n * 8,
            &dst,
            |_| {
                let none = Arg::ptr(std::ptr::null());
                let args = [n.into(), 1usize.into(), none, (&src).into(), (&dst).into(), 2f32.into(), 1f32.into()];
                // SAFETY: these are the kernel's arguments, and both buffers have n elements.
                unsafe { function.launch(Launch::for_num_elems(n as u32), &args) }
            },
            |got: &[f32]| first_difference(got, |i| fused(x[i], 2.0, 1.0), exactly),
        )
    }

    fn binary(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let src = self.device.upload(&x)?;
        let (dst, bytes) = (self.device.alloc(n * 4)?, self.device.alloc(n)?);
        let (flat, row, turned) = (self.flat()?, self.row_for_all()?, self.transposed()?);
        self.show(
            ("add", "f32", "contiguous"),
            n * 8,
            &dst,
            |d| d.binary(BinaryOp::Add, DType::F32, (&flat, &src), (&flat, &src), &dst),
            |got: &[f32]| first_difference(got, |i| x[i] + x[i], exactly),
        )?;
        self.show(
            ("mul", "f32", "a row broadcast to all rows"),
            n * 8,
            &dst,
            |d| d.binary(BinaryOp::Mul, DType::F32, (&flat, &src), (&row, &src), &dst),
            |got: &[f32]| first_difference(got, |i| x[i] * x[i % COLS], exactly),
        )?;
        let (columns, other) = (Layout::contiguous(&[COLS, self.rows])?, self.device.upload(&x)?);
        let at = |i| self.at_transposed(i);
        let places: Vec<usize> = (0..n).map(at).collect();
        self.show(
            ("lt", "f32 to u8", "transposed and contiguous"),
            n * 9,
            &bytes,
            |d| d.cmp(CmpOp::Lt, DType::F32, (&turned, &src), (&columns, &other), &bytes),
            |got: &[u8]| first_difference(got, |i| (x[places[i]] < x[i]).into(), exactly),
        )
    }

    fn cast(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let src = self.device.upload(&x)?;
        let (halves, bytes) = (self.device.alloc(n * 2)?, self.device.alloc(n / 2)?);
        let flat = self.flat()?;
        let cast = |d: &Device, to: DType, l: &Layout, dst: &Buffer| d.cast(DType::F32, to, l, &src, dst);
        self.show(
            ("cast", "f32 to f16", "contiguous"),
            n * 6,
            &halves,
            |d| cast(d, DType::F16, &flat, &halves),
            |got: &[u16]| first_difference(got, |i| f16::from_f32(x[i]).to_bits(), exactly),
        )?;
        let every_other = Layout::strided(&[self.rows, COLS / 2], &[COLS, 2], 0)?;
        self.show(
            ("cast", "f32 to u8", "every other column"),
            n * 2 + n / 2,
            &bytes,
            |d| cast(d, DType::U8, &every_other, &bytes),
            |got: &[u8]| first_difference(got, |i| x[2 * i] as u8, exactly),
        )
    }

    fn conv(&mut self) -> Result<()> {
        const SIDE: usize = 64;
        let (n, x) = (self.n, signal(self.n));
        let weights: Vec<f32> = (0..9).map(|i| i as f32 / 8.0 - 0.5).collect();
        let (src, kernel) = (self.device.upload(&x)?, self.device.upload(&weights)?);
        let (dst, smaller) = (self.device.alloc(n * 4)?, self.device.alloc(n)?);
        let images = Layout::contiguous(&[n / (SIDE * SIDE), 1, SIDE, SIDE])?;
        let window = Layout::contiguous(&[1, 1, 3, 3])?;
        let padded = Conv { padding: 1, ..Conv::default() };
        let convolved = |i: usize| {
            let (image, row, column) = (i / (SIDE * SIDE) * SIDE * SIDE, i / SIDE % SIDE, i % SIDE);
            // The order of summation that crk_conv2d promises: over the window's columns, and in each over its rows.
            (0..9).fold(0f32, |sum, k| {
                let (y, left) = (row + k % 3, column + k / 3);
                let inside = (1..=SIDE).contains(&y) && (1..=SIDE).contains(&left);
                if inside { fused(x[image + (y - 1) * SIDE + left - 1], weights[k % 3 * 3 + k / 3], sum) } else { sum }
            })
        };
        self.show(
            ("conv2d", "f32", "3 x 3, images of 64 x 64"),
            n * 8,
            &dst,
            |d| d.conv2d(DType::F32, (&images, &src), (&window, &kernel), &dst, padded),
            |got: &[f32]| first_difference(got, convolved, exactly),
        )?;
        let greatest = |i: usize| {
            let at = i / (SIDE / 2) * 2 * SIDE + i % (SIDE / 2) * 2;
            x[at].max(x[at + 1]).max(x[at + SIDE]).max(x[at + SIDE + 1])
        };
        self.show(
            ("max_pool2d", "f32", "2 x 2, images of 64 x 64"),
            n * 5,
            &smaller,
            |d| d.pool2d((PoolOp::Max, DType::F32), &images, &src, &smaller, (2, 2), (2, 2)),
            |got: &[f32]| first_difference(got, greatest, exactly),
        )
    }

    fn fill(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let (src, dst) = (self.device.upload(&x)?, self.device.alloc(n * 4)?);
        self.show(
            ("fill", "f32", "contiguous"),
            n * 4,
            &dst,
            |d| d.fill(DType::F32, &dst, n, 2.5f32),
            |got: &[f32]| first_difference(got, |_| 2.5, exactly),
        )?;
        let column = Layout::strided(&[self.rows], &[COLS], 3)?;
        self.show(
            ("const_set", "f32", "a column"),
            n / COLS * 4,
            &dst,
            |d| d.const_set(DType::F32, &column, &dst, -1f32),
            |got: &[f32]| first_difference(got, |i| if i % COLS == 3 { -1.0 } else { 2.5 }, exactly),
        )?;
        let left = self.device.alloc(n * 2)?;
        let rows = self.rows;
        self.show(
            ("copy2d", "f32", "the left half of each row"),
            n * 4,
            &left,
            |d| d.copy2d(DType::F32, (rows, COLS / 2), (&src, COLS, 0), (&left, COLS / 2, 0)),
            |got: &[f32]| first_difference(got, |i| x[i / (COLS / 2) * COLS + i % (COLS / 2)], exactly),
        )
    }

    fn reduce(&mut self) -> Result<()> {
        let (n, rows, x) = (self.n, self.rows, signal(self.n));
        let (src, flat) = (self.device.upload(&x)?, self.flat()?);
        let (sums, places) = (self.device.alloc(COLS * 4)?, self.device.alloc(rows * 4)?);
        let columns: Vec<f32> =
            (0..COLS).map(|c| (0..rows).map(|r| f64::from(x[r * COLS + c])).sum::<f64>() as f32).collect();
        let magnitude: f32 = (0..rows).map(|r| x[r * COLS].abs()).sum();
        self.show(
            ("sum", "f32", "each column"),
            n * 4,
            &sums,
            |d| d.reduce(ReduceOp::Sum, DType::F32, &flat, &src, &[0], &sums),
            |got: &[f32]| first_difference(got, |i| columns[i], |g, e| (g - e).abs() <= 1e-5 * (1.0 + magnitude)),
        )?;
        let first_largest =
            |row: &[f32]| (0..COLS).rev().max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0) as u32;
        let largest: Vec<u32> = x.chunks(COLS).map(first_largest).collect();
        self.show(
            ("argmax", "f32 to u32", "each row"),
            n * 4,
            &places,
            |d| d.reduce(ReduceOp::Argmax, DType::F32, &flat, &src, &[1], &places),
            |got: &[u32]| first_difference(got, |i| largest[i], exactly),
        )
    }

    /// Selects rows of a table by ids, as an embedding does. Then adds rows; several may go to one destination.
    fn indexing(&mut self) -> Result<()> {
        let (n, rows, x) = (self.n, self.rows, signal(self.n));
        let ids: Vec<u32> = (0..rows).map(|i| (i * 7919 % rows) as u32 / 2).collect();
        let (src, dst, places) = (self.device.upload(&x)?, self.device.alloc(n * 4)?, self.device.upload(&ids)?);
        let (flat, row) = (self.flat()?, Layout::contiguous(&[rows])?);
        self.show(
            ("index_select", "u32, f32", "rows of a table"),
            n * 8,
            &dst,
            |d| d.index_select(DType::F32, (&flat, &src), (DType::U32, &row, &places), 0, &dst),
            |got: &[f32]| first_difference(got, |i| x[ids[i / COLS] as usize * COLS + i % COLS], exactly),
        )?;
        let mut sums = vec![0f32; n];
        for (from, to) in ids.iter().enumerate() {
            (0..COLS).for_each(|c| sums[*to as usize * COLS + c] += x[from * COLS + c]);
        }
        self.show(
            ("index_add", "u32, f32", "rows, two to a sum, after a fill"),
            n * 16,
            &dst,
            |d| {
                d.fill(DType::F32, &dst, n, 0f32)?;
                d.index_add(DType::F32, (DType::U32, &row, &places), (&flat, &src), 0, (&flat, &dst))
            },
            |got: &[f32]| first_difference(got, |i| sums[i], exactly),
        )
    }

    /// Weights of 4 bits: blocks of 32 codes with a scale, made here and multiplied by a vector.
    fn quantized(&mut self) -> Result<()> {
        const BLOCK: usize = 18;
        let (k, rows) = (32 * COLS, self.n / (32 * COLS));
        let scale = |block: usize| f16::from_f32(0.01 + (block % 7) as f32 / 64.0);
        // Elements below 16 of a block are the low halves of its bytes, elements from 16 on the high halves.
        let code = |element: usize| ((element * 7919 + element / 32) % 16) as u8;
        let weights: Vec<u8> = (0..rows * COLS)
            .flat_map(|block| {
                let codes = (0..16).map(move |i| code(32 * block + i) | code(32 * block + i + 16) << 4);
                scale(block).to_bits().to_le_bytes().into_iter().chain(codes)
            })
            .collect();
        let x = signal(k);
        let expected: Vec<f32> = (0..rows)
            .map(|row| {
                let weight = |i: usize| scale(row * COLS + i / 32).to_f64() * (f64::from(code(row * k + i)) - 8.0);
                (0..k).map(|i| weight(i) * f64::from(x[i])).sum::<f64>() as f32
            })
            .collect();
        let (src, y, dst) = (self.device.upload(&weights)?, self.device.upload(&x)?, self.device.alloc(rows * 4)?);
        self.show(
            ("dequantize_mul_mat_vec", "q4_0, f32", "rows of 2048 times a vector"),
            rows * COLS * BLOCK + k * 4 + rows * 4,
            &dst,
            |d| d.dequantize_mul_mat_vec(Quant::Q4_0, DType::F32, (rows, k, &src), &y, &dst),
            |got: &[f32]| first_difference(got, |i| expected[i], |a, b| (a - b).abs() <= 2e-3),
        )?;
        // Integer products round activations to 8 bits: each may be off by half a step of the largest of its 32.
        let shape = (rows, k);
        self.show(
            ("mul_mat_vec", "q4_0, f32", "the same in integers"),
            rows * COLS * BLOCK + k * 4 + rows * 4,
            &dst,
            |d| d.mul_mat_vec(Quant::Q4_0, DType::F32, shape, 1, &src, &y, &dst),
            |got: &[f32]| first_difference(got, |i| expected[i], |a, b| (a - b).abs() <= 2.0),
        )?;
        // The same rows as experts. Each expert has one token, and all tokens use the same row of activations.
        let experts = 2;
        let list = self.device.upload(&(0..experts as i32).collect::<Vec<_>>())?;
        self.show(
            ("moe_gguf", "q4_0, f32", "tokens of a mixture of experts"),
            rows * COLS * BLOCK + k * 4 + rows * 4,
            &dst,
            |d| {
                let routes = Routes {
                    tokens: experts,
                    topk: experts,
                    sorted_token_ids: (&list).into(),
                    expert_ids: (&list).into(),
                    topk_weights: None,
                };
                let shape = (experts, rows / experts, k);
                d.moe_gguf(Quant::Q4_0, DType::F32, shape, routes, &src, &y, &dst)
            },
            |got: &[f32]| first_difference(got, |i| expected[i], |a, b| (a - b).abs() <= 2.0),
        )
    }

    fn norm(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let (src, dst) = (self.device.upload(&x)?, self.device.alloc(n * 4)?);
        let flat = self.flat()?;
        let row = |i: usize| &x[i / COLS * COLS..][..COLS];
        let softmax: Vec<f32> = (0..n / COLS)
            .flat_map(|r| {
                let (row, most) = (row(r * COLS), row(r * COLS).iter().copied().fold(f32::NEG_INFINITY, f32::max));
                let power = |v: &f32| f64::from(*v - most).exp();
                let sum: f64 = row.iter().map(power).sum();
                row.iter().map(move |v| (power(v) / sum) as f32).collect::<Vec<_>>()
            })
            .collect();
        self.show(
            ("softmax", "f32", "rows of the last dim"),
            n * 8,
            &dst,
            |d| d.softmax(DType::F32, &flat, &src, &dst),
            |got: &[f32]| first_difference(got, |i| softmax[i], nearly),
        )?;
        // Heads of COLS elements: (1, heads, tokens, COLS) with 64 tokens, and one angle per token and pair.
        let (tokens, half) = (64, COLS / 2);
        let angle: Vec<f32> =
            (0..tokens * half).map(|i| (i / half) as f32 * 0.1f32.powi((i % half) as i32 / 8)).collect();
        let (cos, sin): (Vec<f32>, Vec<f32>) = angle.iter().map(|a| (a.cos(), a.sin())).unzip();
        let (c, s) = (self.device.upload(&cos)?, self.device.upload(&sin)?);
        let (heads, table) =
            (Layout::contiguous(&[1, n / COLS / tokens, tokens, COLS])?, Layout::contiguous(&[tokens, half])?);
        self.show(
            ("rope", "f32", "heads of 64 tokens"),
            n * 8,
            &dst,
            |d| d.rope(RopeKind::Rope, DType::F32, (&heads, &src), (&table, &c), (&table, &s), &dst),
            |got: &[f32]| {
                let turned = |i: usize| {
                    let (j, at) = (i % COLS % half, i / COLS % tokens * half + i % COLS % half);
                    let (a, b) = (row(i)[j], row(i)[j + half]);
                    if i % COLS < half { fused(a, cos[at], -(b * sin[at])) } else { fused(a, sin[at], b * cos[at]) }
                };
                first_difference(got, turned, exactly)
            },
        )
    }

    fn sort(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let (src, dst) = (self.device.upload(&x)?, self.device.alloc(n * 4)?);
        let flat = self.flat()?;
        let mut expected: Vec<u32> = (0..n).map(|i| (i % COLS) as u32).collect();
        for (indices, row) in expected.chunks_mut(COLS).zip(x.chunks(COLS)) {
            indices.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]));
        }
        self.show(
            ("argsort", "f32", "each row, descending"),
            n * 8,
            &dst,
            |d| d.argsort(DType::F32, &flat, &src, false, &dst, None),
            |got: &[u32]| first_difference(got, |i| expected[i], exactly),
        )
    }

    fn ternary(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let mask: Vec<u8> = (0..n).map(|i| (i % COLS <= i / COLS % COLS).into()).collect();
        let (src, ids, dst) = (self.device.upload(&x)?, self.device.upload(&mask)?, self.device.alloc(n * 4)?);
        let lowest = self.device.upload(&[f32::NEG_INFINITY])?;
        let flat = self.flat()?;
        let scalar = Layout::strided(&[self.rows, COLS], &[0, 0], 0)?;
        self.show(
            ("where", "u8, f32", "a causal mask, else broadcast"),
            n * 9,
            &dst,
            |d| d.where_cond(DType::U8, DType::F32, (&flat, &ids), (&flat, &src), (&scalar, &lowest), &dst),
            |got: &[f32]| first_difference(got, |i| if mask[i] != 0 { x[i] } else { f32::NEG_INFINITY }, exactly),
        )
    }

    fn unary(&mut self) -> Result<()> {
        let (n, x) = (self.n, signal(self.n));
        let (src, dst) = (self.device.upload(&x)?, self.device.alloc(n * 4)?);
        let (flat, turned) = (self.flat()?, self.transposed()?);
        self.show(
            ("gelu", "f32", "contiguous"),
            n * 8,
            &dst,
            |d| d.unary(UnaryOp::Gelu, DType::F32, &flat, &src, &dst),
            |got: &[f32]| {
                let gelu = |v: f64| 0.5 * v * (1.0 + (0.797_884_560_802_865_4 * (v + 0.044_715 * v * v * v)).tanh());
                first_difference(got, |i| gelu(x[i].into()) as f32, nearly)
            },
        )?;
        let narrow: Vec<u16> = x.iter().map(|v| bf16::from_f32(*v).to_bits()).collect();
        let (b, out) = (self.device.upload(&narrow)?, self.device.alloc(n * 2)?);
        self.show(
            ("silu", "bf16", "contiguous"),
            n * 4,
            &out,
            |d| d.unary(UnaryOp::Silu, DType::BF16, &flat, &b, &out),
            |got: &[u16]| {
                let silu = |v: f32| bf16::from_f32(v / (1.0 + (-v).exp())).to_bits();
                first_difference(got, |i| silu(bf16::from_bits(narrow[i]).to_f32()), |a, b| a.abs_diff(b) <= 1)
            },
        )?;
        let places: Vec<usize> = (0..n).map(|i| self.at_transposed(i)).collect();
        self.show(
            ("copy_strided", "f32", "transposed"),
            n * 8,
            &dst,
            |d| d.copy_strided(DType::F32, &turned, &src, &dst, 0),
            |got: &[f32]| first_difference(got, |i| x[places[i]], exactly),
        )?;
        // From [batch, heads, tokens, width] to [batch, tokens, heads, width], as in attention.
        let (batch, heads, width) = (self.rows / 16, 4, COLS);
        let swapped = Layout::strided(&[batch, 4, heads, width], &[16 * COLS, COLS, 4 * COLS, 1], 0)?;
        self.show(
            ("neg", "f32", "4-D, heads and tokens swapped"),
            n * 8,
            &dst,
            |d| d.unary(UnaryOp::Neg, DType::F32, &swapped, &src, &dst),
            |got: &[f32]| {
                let from = |i: usize| {
                    let (b, t, h, w) = (i / (16 * COLS), i / (4 * COLS) % 4, i / COLS % 4, i % COLS);
                    b * 16 * COLS + h * 4 * COLS + t * COLS + w
                };
                first_difference(got, |i| -x[from(i)], exactly)
            },
        )
    }
}
