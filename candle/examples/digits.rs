//! Trains a small convolutional network on digits that the program draws, on a ROCm device and on Candle's CPU device
//! side by side. Both get the same digits and the same first weights, so the two losses must stay close.
//!
//! Run it with `cargo run --release --example digits [-- --steps N]`. `CANDLE_ROCM_DEVICE=cpu:32` runs it without a
//! GPU. The program fails if the losses diverge or the network has not learnt to read.
use anyhow::{Result, bail};
use candle_core as candle;

use candle::{D, DType, Device, Module, Tensor, Var};
use candle_nn::{AdamW, Conv2d, Conv2dConfig, Linear, Optimizer, loss};
use candle_rocm_tests::{Numbers, number_option, open_gpu};
use std::time::{Duration, Instant};

const STEPS: usize = 80;
const BATCH: usize = 32;
const HELD_OUT: usize = 500;
const LEARNING_RATE: f64 = 5e-3;

/// The sides of a picture.
const SIDE: usize = 16;
/// The channels of the two convolutions, and the width of the hidden layer.
const CHANNELS: (usize, usize) = (8, 16);
const HIDDEN: usize = 64;
/// The numbers per picture after the second convolution. The pool halves the sides, and the convolution removes a
/// border.
const FLAT: usize = CHANNELS.1 * (SIDE / 2 - 2) * (SIDE / 2 - 2);

/// The largest difference of the two losses in each of the first [`STRICT`] steps, relative to the CPU's loss.
///
/// Both devices compute in f32 but sum in different orders. That makes a difference of about 1e-6 of a loss. Later the
/// last bit of an activation may decide which of two is a pool's maximum, or its side of 0. Then a whole gradient
/// differs, and training multiplies the difference by ten every ten steps, on any two machines. Weights changed by 2e-6
/// made a difference of 2e-5 in ten steps. A learning rate that is 1 % too large makes 4e-3 at the second step.
const LOSS_BOUND: f64 = 1e-4;
const STRICT: usize = 10;
/// The largest difference of the mean losses of all steps. Trainings that diverge still learn alike: the most was 4e-3,
/// with weights changed as above.
const MEAN_BOUND: f64 = 0.02;
/// The accuracy that [`STEPS`] steps must reach. Guessing gives 0.1.
const ACCURACY_BOUND: f64 = 0.8;

fn main() -> Result<()> {
    let purpose = "Trains a small convolutional network on a ROCm device and on Candle's CPU device side by side.";
    let Some(steps) = number_option("steps", purpose, STEPS)? else { return Ok(()) };
    let gpu = open_gpu()?;
    println!();

    // The program has its own generator, so that both devices get the same numbers and a run can be repeated anywhere.
    let mut random = Numbers::new(75);
    let weights = Weights::draw(&mut random)?;
    let mut on_gpu = Trainer::new(&weights, &gpu)?;
    let mut on_cpu = Trainer::new(&weights, &Device::Cpu)?;
    let held_out = Digits::draw(HELD_OUT, &mut random);
    let untrained = on_gpu.net.accuracy(&held_out, &gpu)?;

    println!("step   loss rocm    loss cpu  difference     rocm      cpu");
    let (mut worst, mut gpu_sum, mut cpu_sum) = (0f64, 0f64, 0f64);
    let (mut gpu_times, mut cpu_times) = (Vec::new(), Vec::new());
    for step in 1..=steps {
        let digits = Digits::draw(BATCH, &mut random);
        let (gpu_loss, gpu_time) = on_gpu.step(&digits)?;
        let (cpu_loss, cpu_time) = on_cpu.step(&digits)?;
        let difference = relative(gpu_loss, cpu_loss);
        if step <= STRICT {
            // A NaN is outside the bound.
            let within = difference <= LOSS_BOUND;
            if !within {
                bail!(
                    "step {step}: the losses {gpu_loss} (rocm) and {cpu_loss} (cpu) differ by more than {LOSS_BOUND:e}"
                );
            }
            worst = worst.max(difference);
        }
        gpu_sum += gpu_loss;
        cpu_sum += cpu_loss;
        gpu_times.push(gpu_time);
        cpu_times.push(cpu_time);
        if step == 1 || step % 5 == 0 || step == steps {
            println!(
                "{step:4}  {gpu_loss:10.6}  {cpu_loss:10.6}    {difference:8.1e}  {:>7}  {:>7}",
                milliseconds(gpu_time),
                milliseconds(cpu_time)
            );
        }
    }

    let (gpu_accuracy, cpu_accuracy) =
        (on_gpu.net.accuracy(&held_out, &gpu)?, on_cpu.net.accuracy(&held_out, &Device::Cpu)?);
    let mean = relative(gpu_sum, cpu_sum);
    println!("\nlargest difference of the losses of {STRICT} steps: {worst:.1e}; allowed: {LOSS_BOUND:e}");
    println!("difference of the mean losses: {mean:.1e}; allowed: {MEAN_BOUND:e}");
    println!(
        "a step, median: {} rocm, {} cpu",
        milliseconds(median(&mut gpu_times)),
        milliseconds(median(&mut cpu_times))
    );
    println!(
        "of {HELD_OUT} digits not seen in training, right: {:.1} % rocm, {:.1} % cpu; before training {:.1} %",
        100.0 * gpu_accuracy,
        100.0 * cpu_accuracy,
        100.0 * untrained
    );
    let within = mean <= MEAN_BOUND;
    if steps > 0 && !within {
        bail!("the mean losses of the two trainings differ by more than {MEAN_BOUND}");
    }
    if steps >= STEPS && gpu_accuracy.min(cpu_accuracy) < ACCURACY_BOUND {
        bail!("the network has not learnt to read: {:.0} % are expected", 100.0 * ACCURACY_BOUND);
    }
    Ok(())
}

fn relative(value: f64, to: f64) -> f64 {
    (value - to).abs() / to.abs()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", 1e3 * time.as_secs_f64())
}

/// The network's first weights on the CPU, in the order of [`Net::new`].
struct Weights(Vec<Tensor>);

impl Weights {
    fn draw(random: &mut Numbers) -> Result<Self> {
        let shapes: [(&[usize], &[usize]); 4] = [
            (&[CHANNELS.0, 1, 3, 3], &[CHANNELS.0]),
            (&[CHANNELS.1, CHANNELS.0, 3, 3], &[CHANNELS.1]),
            (&[HIDDEN, FLAT], &[HIDDEN]),
            (&[10, HIDDEN], &[10]),
        ];
        let mut tensors = Vec::new();
        for (weight, bias) in shapes {
            // Kaiming's bound: the variance stays the same through a layer and its relu.
            let inputs: usize = weight[1..].iter().product();
            let bound = (6.0 / inputs as f32).sqrt();
            let values: Vec<f32> = (0..weight.iter().product::<usize>()).map(|_| bound * random.unit()).collect();
            tensors.push(Tensor::from_vec(values, weight, &Device::Cpu)?);
            tensors.push(Tensor::zeros(bias, DType::F32, &Device::Cpu)?);
        }
        Ok(Self(tensors))
    }
}

struct Net {
    convolutions: [Conv2d; 2],
    linears: [Linear; 2],
}

impl Net {
    /// Makes the layers from variables in the order of [`Weights`]. They share storage, so that the optimizer's steps
    /// change the layers.
    fn new(vars: &[Var]) -> Result<Self> {
        let [w1, b1, w2, b2, w3, b3, w4, b4] = vars else { bail!("{} variables for a net of 8", vars.len()) };
        let tensor = |var: &Var| var.as_tensor().clone();
        let bordered = Conv2dConfig { padding: 1, ..Default::default() };
        Ok(Self {
            convolutions: [
                Conv2d::new(tensor(w1), Some(tensor(b1)), bordered),
                Conv2d::new(tensor(w2), Some(tensor(b2)), Conv2dConfig::default()),
            ],
            linears: [Linear::new(tensor(w3), Some(tensor(b3))), Linear::new(tensor(w4), Some(tensor(b4)))],
        })
    }

    /// Maps pictures (batch, 1, side, side) to scores (batch, 10).
    fn forward(&self, pictures: &Tensor) -> Result<Tensor> {
        let x = self.convolutions[0].forward(pictures)?.relu()?.max_pool2d(2)?;
        let x = self.convolutions[1].forward(&x)?.relu()?.flatten_from(1)?;
        Ok(self.linears[1].forward(&self.linears[0].forward(&x)?.relu()?)?)
    }

    /// The share of digits with the highest score at the right label.
    fn accuracy(&self, digits: &Digits, device: &Device) -> Result<f64> {
        let (pictures, labels) = digits.to(device)?;
        let right = self.forward(&pictures)?.argmax(D::Minus1)?.eq(&labels)?;
        let count = right.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
        Ok(f64::from(count) / digits.labels.len() as f64)
    }
}

/// A copy of the network on a device, and its optimizer.
struct Trainer {
    device: Device,
    net: Net,
    optimizer: AdamW,
}

impl Trainer {
    fn new(weights: &Weights, device: &Device) -> Result<Self> {
        let vars = weights
            .0
            .iter()
            .map(|tensor| Var::from_tensor(&tensor.to_device(device)?))
            .collect::<candle::Result<Vec<_>>>()?;
        Ok(Self { device: device.clone(), net: Net::new(&vars)?, optimizer: AdamW::new_lr(vars, LEARNING_RATE)? })
    }

    /// One step of training. Returns the loss before it, and the time from the upload of the digits until the device
    /// has finished.
    fn step(&mut self, digits: &Digits) -> Result<(f64, Duration)> {
        let start = Instant::now();
        let (pictures, labels) = digits.to(&self.device)?;
        let loss = loss::cross_entropy(&self.net.forward(&pictures)?, &labels)?;
        self.optimizer.backward_step(&loss)?;
        self.device.synchronize()?;
        let time = start.elapsed();
        Ok((f64::from(loss.to_scalar::<f32>()?), time))
    }
}

/// Pictures of digits, and the label of each.
struct Digits {
    pixels: Vec<f32>,
    labels: Vec<u32>,
}

impl Digits {
    fn draw(count: usize, random: &mut Numbers) -> Self {
        let mut digits = Self { pixels: Vec::with_capacity(count * SIDE * SIDE), labels: Vec::with_capacity(count) };
        for _ in 0..count {
            let label = random.below(10);
            digits.labels.push(label as u32);
            digits.pixels.extend(picture(label, random));
        }
        digits
    }

    fn to(&self, device: &Device) -> Result<(Tensor, Tensor)> {
        let pictures = Tensor::from_slice(&self.pixels, (self.labels.len(), 1, SIDE, SIDE), device)?;
        Ok((pictures, Tensor::new(&self.labels[..], device)?))
    }
}

/// A digit of seven segments near the middle, with random size, thickness and brightness, and with noise everywhere.
fn picture(digit: usize, random: &mut Numbers) -> [f32; SIDE * SIDE] {
    /// The segments of each digit. From bit 0: top, upper right, lower right, bottom, lower left, upper left, middle.
    const SEGMENTS: [u8; 10] = [0x3f, 0x06, 0x5b, 0x4f, 0x66, 0x6d, 0x7d, 0x07, 0x7f, 0x6f];
    let thick = 1 + random.below(2);
    let (width, half) = (5 + random.below(3), 4 + random.below(2));
    let height = 2 * half + thick;
    let (left, top) = ((SIDE - width) / 2 - 2 + random.below(5), (SIDE - height) / 2 - 1 + random.below(3));
    let (right, middle, bottom) = (left + width - thick, top + half, top + 2 * half);
    // Left edge, upper edge, width, height.
    let bars = [
        (left, top, width, thick),
        (right, top, thick, half + thick),
        (right, middle, thick, half + thick),
        (left, bottom, width, thick),
        (left, middle, thick, half + thick),
        (left, top, thick, half + thick),
        (left, middle, width, thick),
    ];
    let ink = 0.8 + 0.2 * random.unit();
    let mut pixels = [0f32; SIDE * SIDE];
    for (bit, (x, y, w, h)) in bars.into_iter().enumerate() {
        if SEGMENTS[digit] >> bit & 1 == 1 {
            for row in pixels.chunks_mut(SIDE).skip(y).take(h) {
                row[x..x + w].fill(ink);
            }
        }
    }
    pixels.map(|pixel| pixel + 0.2 * random.unit())
}
