//! Launches every row of the tables of counts (docs/benchmarks.md) once, by its launcher. Run it under a tool that
//! counts instructions or memory lines, or that records traces.
//!
//! `cargo bench -p candle-rocm --bench counted -- [--device NAME] [WORD...]` runs the rows with names that contain a
//! WORD. Before each launch a line on standard error names the row and the number of 128-byte lines that it must move.
use candle_rocm::{Result, program};
use candle_rocm_sys::{Buffer, Conv, DType, Device, Layout, Pod, RopeKind, Strided, sys};
use std::ffi::CString;
use std::process::ExitCode;

const F16: DType = DType::F16;
const F32: DType = DType::F32;
const U8: DType = DType::U8;
const U32: DType = DType::U32;

/// The elements of a row of the table: few enough for an emulator.
const N: usize = 1 << 16;
/// More elements for two kinds of launchers: those whose threads take several rows, and those that read one parameter
/// for many elements. This is enough for every compute unit.
const MANY: usize = 1 << 20;
const MANY_MORE: usize = 1 << 25;
/// Rows of 256 elements.
const BROADCAST: usize = 1 << 14;
/// Rows and columns of the quantized weights: the few that Candle's kernels were counted with, and as many as a model
/// has.
const FEW_WEIGHTS: (usize, usize) = (64, 4096);
const WEIGHTS: (usize, usize) = (14336, 4096);
/// Rows and columns of the quantized weights that are multiplied with many columns.
const TILED_WEIGHTS: (usize, usize) = (1024, 4096);
const FORMATS: [&str; 10] = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"];

/// Runs the selected rows.
struct Rows {
    device: Device,
    words: Vec<String>,
}

impl Rows {
    /// Runs a row. `launch` gets a source and a destination. The source's bytes are below 60, which gives small finite
    /// numbers in every dtype and block.
    fn row<L>(&self, name: &str, (src_bytes, dst_bytes): (usize, usize), bytes: usize, launch: L) -> Result<()>
    where
        L: FnOnce(&Device, &Buffer, &Buffer) -> candle_rocm_sys::Result<()>,
    {
        if !self.words.is_empty() && !self.words.iter().any(|word| name.contains(word.as_str())) {
            return Ok(());
        }
        let src = self.upload(&(0..src_bytes).map(|i| (i * 37 % 60) as u8).collect::<Vec<_>>())?;
        let dst = self.device.alloc(dst_bytes)?;
        self.device.synchronize()?;
        eprintln!("{name}: {} lines of 128 bytes", bytes as f64 / 128.0);
        launch(&self.device, &src, &dst)?;
        Ok(self.device.synchronize()?)
    }

    fn upload<T: Pod>(&self, elements: &[T]) -> Result<Buffer> {
        Ok(self.device.upload(elements)?)
    }

    fn elementwise(&self) -> Result<()> {
        use sys::{crk_binary_op as B, crk_unary_op as U};
        let flat = Layout::contiguous(&[N])?;
        for (name, dtype, bytes) in [("silu f32", F32, 4 * N), ("silu f16", F16, 2 * N)] {
            self.row(name, (bytes, bytes), 2 * bytes, |device, src, dst| {
                device.unary(U::Silu, dtype, &flat, src, dst)
            })?;
        }
        self.row("add f16", (2 * N, 2 * N), 6 * N, |device, src, dst| {
            let other = device.alloc(2 * N)?;
            device.binary(B::Add, F16, (&flat, src), (&flat, &other), dst)
        })?;

        let heads = Layout::strided(&[4, 8, 32, 64], &[N / 4, 64, 8 * 64, 1], 0)?;
        let transposed = Layout::strided(&[256, 256], &[1, 256], 0)?;
        for (name, layout) in [("copy f32, 4-D, heads swapped", heads), ("copy f32, transposed", transposed)] {
            self.row(name, (4 * N, 4 * N), 8 * N, |device, src, dst| device.copy_strided(F32, &layout, src, dst, 0))?;
        }

        let swapped = Layout::strided(&[4, 8, 32, 64], &[N / 4, 64, 8 * 64, 1], 0)?;
        self.row("copy f16, 4-D, heads swapped", (2 * N, 2 * N), 4 * N, |device, src, dst| {
            device.copy_strided(F16, &swapped, src, dst, 0)
        })?;

        for (name, from, to) in [("cast f32 f16", F32, F16), ("cast f16 f32", F16, F32), ("cast u8 f32", U8, F32)] {
            let bytes = (N * from.size(), N * to.size());
            self.row(name, bytes, bytes.0 + bytes.1, |device, src, dst| device.cast(from, to, &flat, src, dst))?;
        }

        for (name, dtype) in [("gate silu f16", F16), ("gate silu f32", F32)] {
            let bytes = N * dtype.size();
            self.row(name, (bytes, bytes), 3 * bytes, |device, src, dst| {
                let up = device.alloc(bytes)?;
                device.gate(sys::crk_gate_op_t::CRK_GATE_SILU, dtype, (&flat, src), (&flat, &up), dst)
            })?;
        }

        // 8 heads of 128, which share a token's angles.
        let tokens = MANY / 1024;
        let (heads, angles) = (Layout::contiguous(&[1, 8, tokens, 128])?, Layout::contiguous(&[tokens, 64])?);
        for (name, kind, dtype) in [
            ("rope f32, interleaved", RopeKind::RopeI, F32),
            ("rope f16, interleaved", RopeKind::RopeI, F16),
            ("rope f16", RopeKind::Rope, F16),
        ] {
            let (bytes, its) = (MANY * dtype.size(), tokens * 64 * dtype.size());
            self.row(name, (bytes, bytes), 2 * bytes + 2 * its, |device, src, dst| {
                let (cos, sin) = (device.alloc(its)?, device.alloc(its)?);
                device.rope(kind, dtype, (&heads, src), (&angles, &cos), (&angles, &sin), dst)
            })?;
        }

        let (rows, row) = (Layout::contiguous(&[BROADCAST, 256])?, Layout::strided(&[BROADCAST, 256], &[0, 1], 0)?);
        let bytes = 4 * BROADCAST * 256;
        self.row("add f32, row broadcast", (bytes, bytes), 2 * bytes, |device, src, dst| {
            let other = device.alloc(4 * 256)?;
            device.binary(B::Add, F32, (&rows, src), (&row, &other), dst)
        })
    }

    fn along_rows(&self) -> Result<()> {
        use sys::crk_reduce_op as R;
        for (name, op, dtype, columns, n) in [
            ("sum of rows of 4096, f32", R::Sum, F32, 4096, N),
            ("sum of rows of 4096, f16", R::Sum, F16, 4096, N),
            ("max of rows of 32, f32", R::Max, F32, 32, MANY),
        ] {
            let (layout, bytes) = (Layout::contiguous(&[n / columns, columns])?, n * dtype.size());
            self.row(name, (bytes, bytes / columns), bytes, |device, src, dst| {
                device.reduce(op, dtype, &layout, src, &[1], dst)
            })?;
        }
        let rows = Layout::contiguous(&[N / 1024, 1024])?;
        self.row("softmax f16, rows of 1024", (2 * N, 2 * N), 4 * N, |device, src, dst| {
            device.softmax(F16, &rows, src, dst)
        })?;
        let (rows, bytes) = (Layout::contiguous(&[MANY_MORE / 4096, 4096])?, 2 * MANY_MORE);
        self.row("rmsnorm f16, rows of 4096", (bytes, bytes), 2 * bytes, |device, src, dst| {
            let alpha = device.alloc(2 * 4096)?;
            device.rms_norm(F16, &rows, src, Some((&alpha).into()), dst, 1e-5)
        })
    }

    fn gathered(&self) -> Result<()> {
        let (rows, columns) = (128, 1024);
        let count = N / columns;
        let ids: Vec<u32> = (0..count).map(|i| (i * 37 % rows) as u32).collect();
        let ids = self.upload(&ids)?;
        let (src, places) = (Layout::contiguous(&[rows, columns])?, Layout::contiguous(&[count])?);
        self.row("index_select f16, rows of 1024", (2 * rows * columns, 2 * N), 4 * N, |device, from, dst| {
            device.index_select(F16, (&src, from), (U32, &places, &ids), 0, dst)
        })?;

        let (channels, side) = (8, 32);
        let image = Layout::contiguous(&[1, channels, side, side])?;
        let src_bytes = 4 * channels * side * side;
        let c = Conv { padding: 1, ..Conv::default() };
        self.row("im2col 3x3, f32", (src_bytes, 9 * src_bytes), 10 * src_bytes, |device, src, dst| {
            device.im2col(F32, &image, src, dst, (3, 3), c)
        })
    }

    /// 3 x 3 windows over images of 16 x 16 with channels last: products without a copy.
    fn convolutions(&self) -> Result<()> {
        let (c, outputs, side) = (320, 128, 16);
        let last = |n: usize, side: usize| Layout::strided(&[n, c, side, side], &[side * side * c, 1, side * c, c], 0);
        let (images, kernel) = (last(4, side)?, last(outputs, 3)?);
        let conv = Conv { padding: 1, ..Conv::default() };
        for (name, dtype) in [("f16", F16), ("f32", F32)] {
            let sizes = [4 * c * side * side, outputs * c * 9, 4 * outputs * side * side].map(|n| n * dtype.size());
            self.row(&format!("conv2d 3x3, {name}"), (sizes[0], sizes[2]), sizes.iter().sum(), |device, src, dst| {
                let weights = device.alloc(sizes[1])?;
                device.conv2d(dtype, (&images, src), (&kernel, &weights), dst, conv)
            })?;
        }
        Ok(())
    }

    /// A row times transposed weights of 2048 rows of 4096, also as a gate of twice 1024 rows.
    fn products(&self) -> Result<()> {
        let (n, k) = (2048, 4096);
        let (lhs, rhs) = (Layout::contiguous(&[1, k])?, Layout::strided(&[k, n], &[1, k], 0)?);
        let half = [Layout::contiguous(&[n / 2, k])?, Layout::strided(&[n / 2, k], &[k, 1], n / 2 * k)?];
        for (name, dtype) in [("bf16", DType::BF16), ("f16", F16), ("f32", F32)] {
            let bytes = n * k * dtype.size();
            let x = self.upload(&vec![0u8; k * dtype.size()])?;
            let shape = (bytes, n * dtype.size());
            self.row(&format!("a row times weights, {name}"), shape, bytes, |device, weights, dst| {
                device.matmul(dtype, (&lhs, &x), (&rhs, weights), dst)
            })?;
            self.row(&format!("a row, gate and up, {name}"), shape, bytes, |device, weights, dst| {
                let [gate, up] = half.each_ref().map(|layout| Strided { layout, view: weights.into() });
                device.matmul_gate(sys::crk_gate_op_t::CRK_GATE_SILU, dtype, k, &x, gate, up, dst)
            })?;
        }
        Ok(())
    }

    fn quantized(&self) -> Result<()> {
        let quant = |name: &str| -> Result<(sys::crk_quant_t, usize)> {
            let (text, mut quant) = (CString::new(name)?, sys::crk_quant_t(0));
            // SAFETY: a string and a place for the result.
            unsafe { sys::crk_quant_from_name(text.as_ptr(), &mut quant) };
            // SAFETY: these functions only compute values.
            let (elements, block) =
                unsafe { (sys::crk_quant_block_elements(quant), sys::crk_quant_block_bytes(quant)) };
            Ok((quant, block * 256 / elements))
        };
        let (q4_0, per_256) = quant("q4_0")?;
        let bytes = N / 256 * per_256;
        self.row("dequantize q4_0, f32", (bytes, 4 * N), bytes + 4 * N, |device, src, dst| {
            device.dequantize(q4_0, F32, N, src, dst)
        })?;
        // The last two are as in small models, and in experts.
        let shapes = [
            (FEW_WEIGHTS, ""),
            (WEIGHTS, ", 14336 rows"),
            ((14336, 2048), ", 14336 rows of 2048"),
            ((14336, 1024), ", 14336 rows of 1024"),
        ];
        for (shape, suffix) in shapes {
            let (rows, k) = shape;
            for name in FORMATS {
                let (quant, per_256) = quant(name)?;
                let bytes = rows * k / 256 * per_256;
                let x = self.upload(&vec![1u8; k / 32 * 36])?;
                self.row(&format!("mat-vec {name}{suffix}"), (bytes, 4 * rows), bytes, |device, weights, dst| {
                    device.mul_mat_vec_q8_1(quant, F32, shape, 1, weights, (&x, k / 32), (dst, rows))
                })?;
            }
        }
        let (rows, k) = TILED_WEIGHTS;
        for columns in [4, 8, 16, 512] {
            let x = self.upload(&(0..k * columns).map(|i| (i % 37) as f32).collect::<Vec<_>>())?;
            for name in FORMATS {
                let (quant, per_256) = quant(name)?;
                let bytes = rows * k / 256 * per_256;
                let name = format!("{name} times {columns} columns");
                self.row(&name, (bytes, 4 * rows * columns), bytes, |device, weights, dst| {
                    device.mul_mat(quant, F32, (rows, k), columns, weights, &x, dst)
                })?;
            }
        }
        Ok(())
    }
}

const HELP: &str = "\
Launches every row of the tables of counts once, for a tool that counts instructions or records traces.

usage: cargo bench -p candle-rocm --bench counted -- [--device NAME] [WORD...]

  WORD           only the rows with one of these words in their names
  --device NAME  the device to run on
  --help         this text
";

#[derive(Default)]
struct Options {
    device: Option<String>,
    words: Vec<String>,
    help: bool,
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => {} // cargo's
            Long("device") => options.device = Some(parser.value()?.string()?),
            Short('h') | Long("help") => options.help = true,
            Value(word) => options.words.push(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

fn run() -> Result<()> {
    let options = options().map_err(|error| format!("{error}\n\n{HELP}"))?;
    if options.help {
        println!("{HELP}\n{}", program::DEVICE_HELP);
        return Ok(());
    }
    let rows = Rows { device: program::open(options.device.as_deref())?, words: options.words };
    rows.elementwise()?;
    rows.along_rows()?;
    rows.gathered()?;
    rows.convolutions()?;
    rows.products()?;
    rows.quantized()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
