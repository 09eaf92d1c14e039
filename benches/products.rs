//! The time of dense matrix products and of convolutions on a device. A product is `crk_matmul` with x (m, k) and the
//! transpose of weights (n, k). A graph has 20 calls, where the device has graphs. Up to 16 weights take turns, so that
//! only small ones stay in a cache; a convolution has one. The last columns are PyTorch's time of the same calls on the
//! same GPU, and its ratio to ours. Both are timed in turn, because a GPU's speed changes with its state.
//!
//! `CANDLE_ROCM_DEVICE=hip:0 cargo bench -p candle-rocm --features rocm --bench products [-- bf16 1x4096x4096]`
use candle_rocm::cases::Values;
use candle_rocm::measure::buffers::{CYCLE, repeated};
use candle_rocm::measure::torch::Conversation;
use candle_rocm::measure::{Clock, Time};
use candle_rocm::{Result, number_of_text, program};
use candle_rocm_sys::{Backend, Buffer, Conv, DType, Device, Layout};
use std::fmt;
use std::process::{Command, ExitCode};

const HELP: &str = "\
Times dense matrix products, of the library that computes them or of this crate's own kernels, and convolutions.

usage: cargo bench -p candle-rocm --bench products -- [OPTION...] [DTYPE...] [MxNxK...] [BxCxSxOxW[xG]...]

  DTYPE           f16, bf16, f32 or f64; bf16 and f16 if left out
  MxNxK           a product, such as 16x14336x4096; a list of common ones if left out
  BxCxSxOxW       a convolution of B images of C channels and S x S pixels to O channels, by windows of W x W pixels,
                  where W is odd: 2x320x64x320x3. xG: in G groups
  --last          images and weights of convolutions have their channels last in memory
  --device NAME   the device to run on
  --reps N        timed repetitions of each turn (20)
  --torch PYTHON  also times PyTorch, by this Python, in six turns with ours
  --help          this text

  CANDLE_ROCM_BLAS=0 times this crate's own kernels only.
";

#[derive(Debug, Clone, Copy)]
enum Product {
    /// m, n, k
    Matrices([usize; 3]),
    Convolution {
        images: usize,
        channels: usize,
        side: usize,
        filters: usize,
        window: usize,
        groups: usize,
    },
}

impl Product {
    fn of_text(text: &str) -> Option<Product> {
        let sides = text.split('x').map(number_of_text).collect::<Option<Vec<_>>>()?;
        match sides[..] {
            _ if sides.contains(&0) => None,
            [m, n, k] => Some(Product::Matrices([m, n, k])),
            [images, channels, side, filters, window] if window % 2 == 1 => {
                Some(Product::Convolution { images, channels, side, filters, window, groups: 1 })
            }
            [images, channels, side, filters, window, groups]
                if window % 2 == 1 && channels % groups == 0 && filters % groups == 0 =>
            {
                Some(Product::Convolution { images, channels, side, filters, window, groups })
            }
            _ => None,
        }
    }

    /// As a product of matrices; a convolution as one whose rows are its pixels.
    fn sides(self) -> [usize; 3] {
        match self {
            Product::Matrices(sides) => sides,
            Product::Convolution { images, channels, side, filters, window, groups } => {
                [images * side * side, filters, channels / groups * window * window]
            }
        }
    }

    /// The elements that it must read and write.
    fn elements(self) -> usize {
        let [m, n, k] = self.sides();
        let read = match self {
            Product::Matrices(_) => m * k,
            Product::Convolution { channels, .. } => m * channels,
        };
        read + n * k + m * n
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Product::Matrices([m, n, k]) => write!(f, "{m} x {n} x {k}"),
            Product::Convolution { images, channels, side, filters, window, groups } => {
                write!(f, "{images} x {channels} x {side} x {side} to {filters}, {window} x {window}")?;
                if *groups > 1 { write!(f, ", {groups} groups") } else { Ok(()) }
            }
        }
    }
}

/// Decoding, a few tokens, prompts, products with a short side, and with more rows than a cache has.
const PRODUCTS: [[usize; 3]; 13] = [
    [1, 4096, 4096],
    [1, 14336, 4096],
    [1, 4096, 14336],
    [1, 32000, 512],
    [1, 128256, 2048],
    [16, 14336, 4096],
    [64, 14336, 4096],
    [512, 14336, 4096],
    [2048, 14336, 4096],
    [4096, 4096, 4096],
    [4096, 4096, 64],
    [16384, 64, 4096],
    [500, 4104, 4104],
];

/// The bytes of all weights that take turns, and the most of them.
const WEIGHT_BYTES: usize = 256 << 20;
const MOST_WEIGHTS: usize = 16;
const CALLS: usize = 20;
/// PyTorch's and ours, one after the other.
const TURNS: usize = 6;

struct Options {
    device: Option<String>,
    reps: usize,
    torch: Option<String>,
    dtypes: Vec<DType>,
    products: Vec<Product>,
    channels_last: bool,
}

/// None after the help.
fn options() -> std::result::Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options =
        Options { device: None, reps: 20, torch: None, dtypes: Vec::new(), products: Vec::new(), channels_last: false };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => {} // cargo's
            Long("device") => options.device = Some(parser.value()?.string()?),
            Long("reps") => options.reps = parser.value()?.parse::<usize>()?.max(1),
            Long("last") => options.channels_last = true,
            Long("torch") => options.torch = Some(parser.value()?.string()?),
            Value(word) => {
                let word = word.string()?;
                let dtypes = [DType::F16, DType::BF16, DType::F32, DType::F64];
                match dtypes.into_iter().find(|dtype| dtype.name() == Some(word.as_str())) {
                    Some(dtype) => options.dtypes.push(dtype),
                    None => options.products.push(
                        Product::of_text(&word).ok_or_else(|| format!("{word} is neither a dtype nor a product"))?,
                    ),
                }
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(None);
            }
            other => return Err(other.unexpected()),
        }
    }
    if options.dtypes.is_empty() {
        options.dtypes = vec![DType::BF16, DType::F16];
    }
    if options.products.is_empty() {
        options.products = PRODUCTS.map(Product::Matrices).to_vec();
    }
    Ok(Some(options))
}

/// How many weights take turns.
fn weights_of([_, n, k]: [usize; 3], dtype: DType) -> usize {
    WEIGHT_BYTES.div_ceil(n * k * dtype.size()).clamp(1, MOST_WEIGHTS)
}

fn data(device: &Device, dtype: DType, elements: usize, seed: u64) -> Result<Buffer> {
    let pattern = Values::Any.bytes(dtype, CYCLE.min(elements), seed);
    repeated(device, &pattern, elements * dtype.size())
}

/// The layout of (a, b, c, d), with the numbers along b last in memory if `last`.
fn image_layout([a, b, c, d]: [usize; 4], last: bool) -> Result<Layout> {
    let strides = if last { [b * c * d, 1, d * b, b] } else { [b * c * d, c * d, d, 1] };
    Ok(Layout::strided(&[a, b, c, d], &strides, 0)?)
}

fn time(
    device: &Device,
    clock: &Clock<'_>,
    dtype: DType,
    product: Product,
    options: &Options,
    torch: Option<&mut Torch>,
) -> Result<Times> {
    let [m, n, _] = product.sides();
    let dst = device.alloc(m * n * dtype.size())?;
    match product {
        Product::Matrices([m, n, k]) => {
            let x = data(device, dtype, m * k, 1)?;
            let weights = (0..weights_of([m, n, k], dtype))
                .map(|i| data(device, dtype, n * k, 2 + i as u64))
                .collect::<Result<Vec<_>>>()?;
            let (left, right) = (Layout::contiguous(&[m, k])?, Layout::strided(&[k, n], &[1, k], 0)?);
            time_calls(device, clock, torch, |i| {
                device.matmul(dtype, (&left, &x), (&right, &weights[i % weights.len()]), &dst)
            })
        }
        Product::Convolution { images, channels, side, filters, window, groups } => {
            let x = data(device, dtype, images * channels * side * side, 1)?;
            let weights = data(device, dtype, filters * (channels / groups) * window * window, 2)?;
            let image = image_layout([images, channels, side, side], options.channels_last)?;
            let kernel = image_layout([filters, channels / groups, window, window], options.channels_last)?;
            let how = Conv { padding: window / 2, groups, ..Conv::default() };
            time_calls(device, clock, torch, |_| device.conv2d(dtype, (&image, &x), (&kernel, &weights), &dst, how))
        }
    }
}

/// Seconds of a call, and PyTorch's time over ours. Medians of the turns.
struct Times {
    own: f64,
    torch: Option<(f64, f64)>,
}

fn median(samples: impl Iterator<Item = f64>) -> f64 {
    Time::of(samples.collect()).median
}

/// The time of a call, in a graph of CALLS calls if the device has graphs, in turn with PyTorch's.
fn time_calls(
    device: &Device,
    clock: &Clock<'_>,
    torch: Option<&mut Torch>,
    call: impl Fn(usize) -> candle_rocm_sys::Result<()>,
) -> Result<Times> {
    call(0)?; // opens the library
    device.synchronize()?;
    if device.info()?.backend == Backend::Cpu {
        return Ok(Times { own: clock.time(|i| Ok(call(i)?))?.median, torch: None });
    }
    let (graph, ()) = device.capture(|| (0..CALLS).try_for_each(call))?;
    // SAFETY: the buffers outlive the graph.
    let own = || -> Result<f64> { Ok(clock.time(|_| Ok(unsafe { graph.launch() }?))?.median / CALLS as f64) };
    let Some(torch) = torch else {
        return Ok(Times { own: own()?, torch: None });
    };
    let mut turns = Vec::with_capacity(TURNS);
    for turn in 0..TURNS {
        // A GPU is slower behind other work, when it is warm: each side comes first as often.
        turns.push(if turn % 2 == 0 {
            (torch.time()?, own()?)
        } else {
            let own = own()?;
            (torch.time()?, own)
        });
    }
    Ok(Times {
        own: median(turns.iter().map(|turn| turn.1)),
        torch: Some((median(turns.iter().map(|turn| turn.0)), median(turns.iter().map(|turn| turn.0 / turn.1)))),
    })
}

/// A child process, products_torch.py. It times PyTorch while this process waits.
struct Torch(Conversation);

impl Torch {
    fn start(python: &str, options: &Options) -> Result<Torch> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/measure/products_torch.py");
        Conversation::start(Command::new(python).args([script, &CALLS.to_string(), &options.reps.to_string()]))
            .map(Torch)
    }

    /// Makes the tensors and the graph of a product, in place of those before.
    fn make(&mut self, dtype: DType, product: Product, channels_last: bool) -> Result<()> {
        let name = dtype.name().unwrap_or("?");
        let words = match product {
            Product::Matrices([m, n, k]) => {
                format!("{name},{m},{n},{k},{}", weights_of([m, n, k], dtype))
            }
            Product::Convolution { images, channels, side, filters, window, groups } => {
                format!("{name},{images},{channels},{side},{filters},{window},{groups},{}", u8::from(channels_last))
            }
        };
        match self.0.ask(&words)?.as_str() {
            "made" => Ok(()),
            answer => Err(format!("PyTorch answers {answer:?}").into()),
        }
    }

    /// The seconds of a call of the last product made.
    fn time(&mut self) -> Result<f64> {
        self.0.ask_seconds("time")
    }
}

fn run(options: &Options) -> Result<()> {
    let mut torch = options.torch.as_ref().map(|python| Torch::start(python, options)).transpose()?;
    let device = program::open(options.device.as_deref())?;
    let (info, clock) = (device.info()?, Clock::new(&device, options.reps)?);
    println!("{} ({}), {}\n", info.name(), info.architecture(), device.blas()?);
    println!("| dtype | product | us | Tflop/s | TB/s | PyTorch, us | PyTorch / ours |");
    println!("|---|---|---|---|---|---|---|");
    for &dtype in &options.dtypes {
        for &product in &options.products {
            if let Some(torch) = &mut torch {
                torch.make(dtype, product, options.channels_last)?;
            }
            let Times { own: seconds, torch } = time(&device, &clock, dtype, product, options, torch.as_mut())?;
            let flops = product.sides().iter().fold(2.0, |all, &side| all * side as f64) / seconds * 1e-12;
            let moved = (product.elements() * dtype.size()) as f64 / seconds * 1e-12;
            let torch = torch.map_or("- | -".into(), |(time, ratio)| format!("{:.1} | {ratio:.2}", time * 1e6));
            let name = dtype.name().unwrap_or("?");
            println!("| {name} | {product} | {:.1} | {flops:.1} | {moved:.2} | {torch} |", seconds * 1e6);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match options() {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(options)) => match run(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
