//! Starts the ranks: processes of this program for GPUs, threads for a CPU device, or what a launcher started. Gives
//! each its device and its communicator.
use crate::options::Options;
use crate::place::Place;
use crate::rendezvous;
use anyhow::{Context, Result, bail};
use candle_core::Device;
use candle_core::backend::BackendDevice;
use candle_core::rocm_backend::kernels::{self, Backend};
use candle_core::rocm_backend::rccl::{Comm, Id};
use candle_core::rocm_backend::{RocmDevice, WrapErr};
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Set for processes that this program started. Their standard input is a pipe that ends when the first process does.
const CHILD: &str = "LLAMA_PARALLEL_CHILD";

/// One rank at work.
pub struct Rank {
    pub number: usize,
    pub size: usize,
    pub device: Device,
    /// None for a single rank.
    pub comm: Option<Arc<Comm>>,
    /// How long this rank waits for the others.
    pub timeout: Duration,
}

/// How long ranks wait for each other.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    pub timeout: Duration,
    /// Whether creating the communicator and starting a collective have the timeout too.
    pub bounded: bool,
}

impl From<&Options> for Patience {
    fn from(options: &Options) -> Patience {
        Patience { timeout: options.timeout, bounded: options.bounded }
    }
}

impl Rank {
    /// The communicator comes before anything that may fail: if a rank fails, the others then know at once.
    pub fn new(number: usize, size: usize, device: RocmDevice, id: Option<Id>, patience: Patience) -> Result<Rank> {
        let timeout = patience.bounded.then_some(patience.timeout);
        let join = |id| Comm::with_timeout(&device, number, size, id, timeout);
        let comm = id.map(join).transpose().with_context(|| format!("rank {number} of {size}"))?.map(Arc::new);
        Ok(Rank { number, size, device: Device::Rocm(device), comm, timeout: patience.timeout })
    }
}

/// Runs `body` as each rank that this process is to be, after `check` has accepted the number of ranks.
pub fn launch(
    options: &Options,
    check: impl Fn(usize) -> Result<()>,
    body: &(dyn Fn(Rank) -> Result<()> + Sync),
) -> Result<()> {
    launch_at(Place::read(|name| std::env::var(name).ok(), options.ranks)?, options, check, body)
}

/// The same for the place that a launcher has given this process.
pub fn launch_at(
    place: Option<Place>,
    options: &Options,
    check: impl Fn(usize) -> Result<()>,
    body: &(dyn Fn(Rank) -> Result<()> + Sync),
) -> Result<()> {
    if let Some(place) = place {
        check(place.size)?;
        if std::env::var_os(CHILD).is_some() {
            end_with_parent();
        }
        return act(join(&place, options.into())?, body);
    }
    let size = options.ranks.unwrap_or(1);
    check(size)?;
    if size == 1 {
        body(Rank::new(0, 1, open(0)?, None, options.into())?)
    } else if on_cpu() {
        threads(size, options.into(), body)
    } else {
        processes(size)
    }
}

/// Runs `body` as one rank. If it fails, its communicator ends at once, and does not wait for work that others hold up.
fn act(rank: Rank, body: &(dyn Fn(Rank) -> Result<()> + Sync)) -> Result<()> {
    let comm = rank.comm.clone();
    let done = body(rank);
    if let (Err(_), Some(comm)) = (&done, comm) {
        // The first error counts.
        let _ = comm.abort();
    }
    done
}

/// Whether ranks are threads: the CPU device connects those of one process only.
fn on_cpu() -> bool {
    RocmDevice::replaced_by().is_some_and(|name| name.starts_with("cpu"))
}

/// The device of the rank with number `local` on this host. If `CANDLE_ROCM_DEVICE` names a GPU, it is that of rank 0,
/// and the others follow it; a rank that a launcher started and that sees one GPU takes that. On a CPU device each rank
/// has a handle of its own.
pub fn open(local: usize) -> Result<RocmDevice> {
    let Some(name) = RocmDevice::replaced_by() else {
        return Ok(RocmDevice::new(gpu(0, local, RocmDevice::count()?)?)?);
    };
    let name = match name.split_once(':') {
        Some((kind @ ("hip" | "cuda"), first)) => {
            let first = first.parse().with_context(|| format!("CANDLE_ROCM_DEVICE is {name}"))?;
            let backend = if kind == "hip" { Backend::Hip } else { Backend::Cuda };
            // The processes that --ranks starts see the same GPUs.
            let is_child = std::env::var_os(CHILD).is_some();
            let count = if is_child { usize::MAX } else { kernels::Device::count(backend).unwrap_or(0) };
            format!("{kind}:{}", gpu(first, local, count)?)
        }
        _ => name,
    };
    Ok(RocmDevice::from_handle(kernels::Device::open_named(&name).w()?)?)
}

/// The number of a rank's GPU among `count` GPUs, if `first` is that of rank 0.
pub fn gpu(first: usize, local: usize, count: usize) -> Result<usize> {
    let number = first + local;
    match count {
        // A launcher may show each rank its own GPU only. If there is none, opening it says why.
        0 | 1 => Ok(first),
        _ if number < count => Ok(number),
        _ => bail!("rank {local} of this host has no GPU: it takes number {number}, and there are {count}"),
    }
}

/// The rank that the environment names.
fn join(place: &Place, patience: Patience) -> Result<Rank> {
    let timeout = patience.timeout;
    if place.size == 1 {
        return Rank::new(0, 1, open(place.local)?, None, patience);
    }
    if on_cpu() {
        bail!("on a CPU device the ranks are threads of one process: --ranks {}, and no launcher", place.size);
    }
    let device = open(place.local)?;
    let id = if place.rank == 0 {
        let listener = rendezvous::listen(&place.host, place.port)?;
        let id = Id::of(&device)?;
        rendezvous::serve(&listener, place.size, id.bytes(), timeout)?;
        id
    } else {
        Id::from_bytes(rendezvous::ask(&place.host, place.port, place.rank, place.size, timeout)?)
    };
    Rank::new(place.rank, place.size, device, Some(id), patience)
}

/// The ranks that have ended, and the error of the first that failed.
#[derive(Default)]
struct Ended {
    state: Mutex<(usize, Option<anyhow::Error>)>,
    changed: Condvar,
}

impl Ended {
    fn state(&self) -> MutexGuard<'_, (usize, Option<anyhow::Error>)> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait_for(&self, ranks: usize) {
        let state = self.changed.wait_while(self.state(), |state| state.0 < ranks);
        drop(state);
    }
}

/// Counts a rank as ended, also if it panics.
struct Counted<'a>(&'a Ended);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.state().0 += 1;
        self.0.changed.notify_all();
    }
}

/// Runs the ranks as threads. Fails with the error of the rank that failed first.
///
/// A rank that is done keeps its communicator until the others are, which may still ask it whether all is well. One
/// that fails ends it at once.
pub fn threads(size: usize, patience: Patience, body: &(dyn Fn(Rank) -> Result<()> + Sync)) -> Result<()> {
    let id = Id::of(&open(0)?)?;
    let ended = Ended::default();
    std::thread::scope(|scope| {
        for rank in 0..size {
            let ended = &ended;
            scope.spawn(move || {
                let counted = Counted(ended);
                let made = open(rank).and_then(|device| Rank::new(rank, size, device, Some(id), patience));
                let comm = made.as_ref().ok().and_then(|rank| rank.comm.clone());
                match made.and_then(body) {
                    Ok(()) => {
                        drop(counted);
                        ended.wait_for(size);
                    }
                    // Noted before the communicator ends, and before others fail for it.
                    Err(error) => {
                        ended.state().1.get_or_insert_with(|| error.context(format!("rank {rank}")));
                        comm.iter().for_each(|comm| drop(comm.abort()));
                    }
                }
            });
        }
    });
    ended.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).1.map_or(Ok(()), Err)
}

/// Runs the ranks as processes of this program, with its arguments.
fn processes(size: usize) -> Result<()> {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.context("there is no free port")?.port();
    let program = std::env::current_exe().context("this program's file")?;
    let mut ranks = Processes::default();
    for rank in 0..size {
        let place = Place { rank, size, local: rank, host: "127.0.0.1".into(), port };
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).envs(place.variables()).env(CHILD, "1");
        ranks.start(command)?;
    }
    ranks.wait()
}

/// Processes that end together: if one fails, or this object is dropped, the others are ended.
#[derive(Default)]
pub struct Processes(Vec<(usize, Child)>);

impl Processes {
    /// Starts the next rank.
    pub fn start(&mut self, mut command: Command) -> Result<()> {
        let rank = self.0.last().map_or(0, |(rank, _)| rank + 1);
        let child = command.stdin(Stdio::piped()).spawn();
        self.0.push((rank, child.with_context(|| format!("rank {rank} does not start"))?));
        Ok(())
    }

    /// Waits until all have ended. Fails at the first one that fails.
    pub fn wait(mut self) -> Result<()> {
        while !self.0.is_empty() {
            let mut at = 0;
            while let Some((rank, child)) = self.0.get_mut(at) {
                let (rank, status) = (*rank, child.try_wait().context("a rank cannot be waited for")?);
                match status {
                    None => at += 1,
                    Some(status) => {
                        self.0.remove(at);
                        if !status.success() {
                            bail!("rank {rank} has ended ({status}); the other ranks are ended too");
                        }
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ends this process when the one that started it has ended.
fn end_with_parent() {
    std::thread::spawn(|| {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|count| count > 0) {}
        eprintln!("error: the process that started this rank has ended");
        // A driver that waits for the GPU may hold up an orderly end.
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(5));
            std::process::abort();
        });
        std::process::exit(1);
    });
}
