//! The time of collectives between all devices of a backend, one thread per device. Calls of up to 16 MiB are timed in
//! a graph of 20, where the device has graphs; larger ones one by one.
//!
//! `CANDLE_ROCM_DEVICE=hip:0 cargo bench -p candle-rocm --features rocm --bench collectives [-- --most 2^24]`
use candle_rocm::number_of_text;
use candle_rocm_sys::{Backend, Buffer, Comm, CommId, CommOp, DType, Device, Result};
use std::process::ExitCode;
use std::sync::Barrier;

const HELP: &str = "\
Times collectives between all devices of the backend that CANDLE_ROCM_DEVICE names (CPU: two ranks on one device).

usage: cargo bench -p candle-rocm --bench collectives -- [--most BYTES]

  --most N  the largest size, in bytes; 2^30 on a GPU, 2^20 on the CPU
  --help    this text
";

const SIZES: [usize; 5] = [8 << 10, 64 << 10, 1 << 20, 16 << 20, 1 << 30];
const MOST_IN_A_GRAPH: usize = 16 << 20;
const CALLS: usize = 20;
const REPS: usize = 20;

/// A collective, and the bytes that pass a link for each of `bytes`, as NCCL's tests count them ("bus bandwidth").
struct Op {
    name: &'static str,
    share: fn(f64) -> f64,
    call: fn(&Comm, &Buffer, &Buffer, usize) -> Result<()>,
}

/// `bytes` is the size of the first buffer; with all_gather, that of one rank.
const OPS: [Op; 4] = [
    Op {
        name: "all_reduce",
        share: |n| 2.0 * (n - 1.0) / n,
        call: |comm, x, _, count| comm.all_reduce_in_place(DType::BF16, CommOp::Sum, x, count),
    },
    Op { name: "all_gather", share: |n| n - 1.0, call: |comm, x, y, count| comm.all_gather(DType::BF16, x, y, count) },
    Op {
        name: "reduce_scatter",
        share: |n| (n - 1.0) / n,
        call: |comm, x, y, count| comm.reduce_scatter(DType::BF16, CommOp::Sum, x, y, count / comm.size()),
    },
    Op {
        name: "broadcast",
        share: |_| 1.0,
        call: |comm, x, _, count| comm.broadcast(DType::BF16, (comm.rank() == 0).then(|| x.into()), x, count, 0),
    },
];

/// Seconds of a call, the median of repetitions that all ranks begin together.
fn time(device: &Device, start: &Barrier, calls: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begin, end) = (device.event()?, device.event()?);
    let mut times = Vec::new();
    for _ in 0..REPS {
        device.synchronize()?;
        start.wait();
        begin.record(device)?;
        run()?;
        end.record(device)?;
        end.synchronize()?;
        times.push(f64::from(end.milliseconds_since(&begin)?) * 1e-3 / calls as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[REPS / 2])
}

/// What one rank does. Rank 0 prints.
fn rank(backend: Backend, id: &CommId, place: [usize; 2], most: usize, start: &Barrier) -> Result<()> {
    let [rank, ranks] = place;
    let is_gpu = backend != Backend::Cpu;
    let device = Device::open(backend, if is_gpu { rank as i32 } else { 0 })?;
    let comm = Comm::new(&device, id, rank, ranks, None)?;
    if rank == 0 {
        let (library, version) = device.comm_library()?;
        println!("{} x {} ({library} {version})\n", ranks, device.info()?.name());
        println!("| collective, bf16 | bytes | us | bus bandwidth, GB/s |\n|---|---|---|---|");
    }
    for op in &OPS {
        for bytes in SIZES.into_iter().filter(|bytes| *bytes <= most) {
            let (x, y) = (device.alloc(bytes)?, device.alloc(bytes * ranks)?);
            x.fill_bytes(0)?;
            let call = || (op.call)(&comm, &x, &y, bytes / 2);
            for _ in 0..5 {
                call()?;
            }
            device.synchronize()?;
            let seconds = if is_gpu && bytes <= MOST_IN_A_GRAPH {
                start.wait();
                let (graph, ()) = device.capture(|| (0..CALLS).try_for_each(|_| call()))?;
                start.wait();
                // SAFETY: the buffers and the communicator live until the graph is dropped.
                time(&device, start, CALLS, || unsafe { graph.launch() })?
            } else {
                time(&device, start, 1, call)?
            };
            if rank == 0 {
                let bandwidth = bytes as f64 * (op.share)(ranks as f64) / seconds / 1e9;
                println!("| {} | {bytes} | {:.1} | {bandwidth:.1} |", op.name, seconds * 1e6);
            }
            device.synchronize()?;
        }
    }
    Ok(())
}

fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
    use lexopt::prelude::*;
    let mut most = None;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => {} // cargo's
            Long("most") => {
                let text = parser.value()?.string()?;
                most = Some(number_of_text(&text).ok_or_else(|| format!("--most {text}: not a number"))?);
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let first = Device::open_best()?;
    let backend = first.info()?.backend;
    let is_gpu = backend != Backend::Cpu;
    let ranks = if is_gpu { Device::count(backend)? } else { 2 };
    if ranks < 2 {
        return Err("collectives need two devices; this machine has one".into());
    }
    let most = most.unwrap_or(if is_gpu { 1 << 30 } else { 1 << 20 });
    let (id, start) = (first.comm_id()?, Barrier::new(ranks));
    std::thread::scope(|scope| {
        for n in 0..ranks {
            let (id, start) = (&id, &start);
            scope.spawn(move || {
                if let Err(error) = rank(backend, id, [n, ranks], most, start) {
                    // The other ranks would wait for this one at the barrier.
                    eprintln!("rank {n}: {error}");
                    std::process::exit(1);
                }
            });
        }
    });
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
