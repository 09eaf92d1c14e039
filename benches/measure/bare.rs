//! Kernels that only move bytes. They give the limits for cases that read much and write little, or the reverse. They
//! are compiled on the device when first used.
use super::buffers::{BEYOND_CACHES, CYCLE, MOST_SETS, repeated};
use super::clock::Clock;
use crate::Result;
use crate::cases::{U32, Values};
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
extern "C" __global__ void spreads(const words *from, words *to, unsigned times) {
  const unsigned long long block = blockIdx.x;
  words x = from[block * blockDim.x + threadIdx.x];
  to += block * blockDim.x * times + threadIdx.x;
  for (unsigned i = 0; i < times; i++, x.a += i, to += blockDim.x) *to = x;
}
extern "C" __global__ void joins(const words *from, const words *other, words *to) {
  const unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  const words x = from[i], y = other[i];
  to[i] = {x.a ^ y.a, x.b ^ y.b, x.c ^ y.c, x.d ^ y.d};
}
"#;

/// The threads of a block, and the bytes that a thread moves at a time.
const THREADS: usize = 256;
const PIECE: usize = 16;

pub struct Bare<'a> {
    device: &'a Device,
    reads: Function,
    spreads: Function,
    joins: Function,
    word: Buffer,
}

impl<'a> Bare<'a> {
    /// Returns `None` if the device has no compiler.
    pub fn new(device: &'a Device) -> Option<Bare<'a>> {
        device.compile_module("bare", SOURCE, &[]).ok()?;
        let [reads, spreads, joins] =
            ["reads", "spreads", "joins"].map(|name| device.function_named("bare", name).ok());
        Some(Bare { device, reads: reads?, spreads: spreads?, joins: joins?, word: device.alloc(4).ok()? })
    }

    /// The speed of a launch that reads `bytes`, in bytes per second. Launches take turns over more memory than any
    /// cache holds.
    pub fn reading(&self, clock: &Clock<'_>, bytes: usize, compute_units: u32) -> Result<f64> {
        let bytes = bytes / PIECE * PIECE;
        let count = BEYOND_CACHES.div_ceil(bytes.max(PIECE)).clamp(1, MOST_SETS);
        let pattern = Values::Any.bytes(U32, CYCLE, 11);
        let places = (0..count).map(|_| repeated(self.device, &pattern, bytes)).collect::<Result<Vec<_>>>()?;
        let launch = Launch { grid: [compute_units * 8, 1, 1], block: [THREADS as u32, 1, 1], shared_bytes: 0 };
        let time = clock.time(|i| {
            let args = [(&places[i % count]).into(), (&self.word).into(), Arg::from((bytes / PIECE) as u64)];
            // SAFETY: this is the kernel above, and the buffer is long enough.
            Ok(unsafe { self.reads.launch(launch, &args) }?)
        })?;
        Ok(bytes as f64 / time.median)
    }

    /// The speed of a launch that reads about `read` bytes and writes about `written`, each byte several times. In
    /// bytes per second, reads and writes together.
    pub fn spreading(&self, clock: &Clock<'_>, read: usize, written: usize) -> Result<f64> {
        let times = (written + read / 2) / read;
        let blocks = (written / (THREADS * PIECE * times)).max(1);
        self.moving(clock, &self.spreads, blocks, &[1, times], Some(times as u32))
    }

    /// The speed of a launch that writes about `written` bytes and reads two bytes for each. In bytes per second, reads
    /// and writes together.
    pub fn joining(&self, clock: &Clock<'_>, written: usize) -> Result<f64> {
        let blocks = (written / (THREADS * PIECE)).max(1);
        self.moving(clock, &self.joins, blocks, &[1, 1, 1], None)
    }

    /// The speed of a launch over buffers in bytes per second. A thread has `pieces` pieces in each buffer. Launches
    /// take turns over more memory than any cache holds. `last` is an additional argument after the buffers.
    fn moving(
        &self,
        clock: &Clock<'_>,
        kernel: &Function,
        blocks: usize,
        pieces: &[usize],
        last: Option<u32>,
    ) -> Result<f64> {
        let one = blocks * THREADS * PIECE;
        let bytes = one * pieces.iter().sum::<usize>();
        let count = BEYOND_CACHES.div_ceil(bytes).clamp(1, MOST_SETS);
        let pattern = Values::Any.bytes(U32, CYCLE, 11);
        let place = |_| pieces.iter().map(|pieces| repeated(self.device, &pattern, one * pieces)).collect();
        let places = (0..count).map(place).collect::<Result<Vec<Vec<Buffer>>>>()?;
        let launch = Launch { grid: [u32::try_from(blocks)?, 1, 1], block: [THREADS as u32, 1, 1], shared_bytes: 0 };
        let time = clock.time(|i| {
            let args: Vec<Arg<'_>> = places[i % count].iter().map(Arg::from).chain(last.map(Arg::from)).collect();
            // SAFETY: this is one of the kernels above, and the buffers are long enough.
            Ok(unsafe { kernel.launch(launch, &args) }?)
        })?;
        Ok(bytes as f64 / time.median)
    }
}
