//! A kernel that only reads: the roof of what reads much and writes little. Compiled for the device when it is asked for.
use super::Result;
use super::buffers::{BEYOND_CACHES, CYCLE, MOST_SETS, repeated};
use super::cases::{U32, Values};
use super::clock::Clock;
use candle_rocm_sys::{Arg, Buffer, Device, Function, Launch};

const SOURCE: &str = r#"
struct alignas(16) words { unsigned a, b, c, d; };
extern "C" __global__ void reads(const words *from, unsigned *to, unsigned long long count) {
  const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (; i + 3 * step < count; i += 4 * step) {
    const words p = from[i], q = from[i + step], r = from[i + 2 * step], s = from[i + 3 * step];
    sum += (p.a ^ p.b ^ p.c ^ p.d) + (q.a ^ q.b ^ q.c ^ q.d) + (r.a ^ r.b ^ r.c ^ r.d) + (s.a ^ s.b ^ s.c ^ s.d);
  }
  for (; i < count; i += step) {
    const words p = from[i];
    sum += p.a ^ p.b ^ p.c ^ p.d;
  }
  if (sum == 0x12345678u) *to = sum;
}
"#;

pub struct Reads<'a> {
    device: &'a Device,
    function: Function,
    word: Buffer,
}

impl<'a> Reads<'a> {
    /// None where the device has no compiler.
    pub fn new(device: &'a Device) -> Option<Reads<'a>> {
        device.compile_module("reads", SOURCE, &[]).ok()?;
        let function = device.function_named("reads", "reads").ok()?;
        Some(Reads { device, function, word: device.alloc(4).ok()? })
    }

    /// Bytes a second of one launch that reads `bytes`, in turn from as many places as no cache holds.
    pub fn speed(&self, clock: &Clock<'_>, bytes: usize, compute_units: u32) -> Result<f64> {
        let bytes = bytes / 16 * 16;
        let count = BEYOND_CACHES.div_ceil(bytes.max(16)).clamp(1, MOST_SETS);
        let pattern = Values::Any.bytes(U32, CYCLE, 11);
        let places = (0..count).map(|_| repeated(self.device, &pattern, bytes)).collect::<Result<Vec<_>>>()?;
        let launch = Launch { grid: [compute_units * 8, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
        let time = clock.time(|i| {
            let args = [(&places[i % count]).into(), (&self.word).into(), Arg::from((bytes / 16) as u64)];
            // SAFETY: the kernel above; the buffer has as many bytes.
            Ok(unsafe { self.function.launch(launch, &args) }?)
        })?;
        Ok(bytes as f64 / time.median)
    }
}
