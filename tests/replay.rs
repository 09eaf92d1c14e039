//! Launches that repeat, given to the driver as graphs (csrc/replay.h): a handle that replays beside one that does not.
//! Each test is a process of its own, in which `CANDLE_ROCM_REPLAY` is set while handles are opened.
use candle_rocm_sys_tests::support;

use candle_rocm_sys::{Arg, Backend, BinaryOp, Buffer, DType, Device, Event, Function, Graph, Launch};
use candle_rocm_sys::{Layout, Result, UnaryOp};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::cases::Rng;
use support::{Target, alone_on_targets, cpu_module, open, targets};

const F32: DType = DType::F32;

/// Runs `body` for each device, in a process that ends if it hangs.
fn each(test: &str, body: impl Fn(&'static Target)) {
    alone_on_targets(test, &[("CANDLE_ROCM_SYNC", "")], || {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(900));
            eprintln!("the test hangs");
            std::process::abort();
        });
        targets().iter().for_each(&body);
    });
}

/// A handle whose launches are replayed or not, and so are those of its clones until the next call.
fn opened(target: &Target, replay: &str) -> Device {
    std::env::set_var("CANDLE_ROCM_REPLAY", replay);
    open(&target.name).expect("a device")
}

// ---- steps whose results are known

/// Launch `i` of a round reads buffer `i` and writes the next one. Other rounds have other numbers and other grids. The
/// kernels are the same in each round, and no two parts of a step have the same.
struct Ring {
    device: Device,
    buffers: Vec<Buffer>,
    model: Vec<Vec<f32>>,
}

impl Ring {
    const ELEMENTS: usize = 9000;

    fn new(device: &Device, seed: usize) -> Result<Ring> {
        let model: Vec<Vec<f32>> =
            (0..5).map(|k| (0..Self::ELEMENTS).map(|i| ((i + seed) % (61 + k)) as f32).collect()).collect();
        let buffers = model.iter().map(|values| device.upload(values)).collect::<Result<_>>()?;
        Ok(Ring { device: device.clone(), buffers, model })
    }

    /// The number of elements of a launch, and the number that it adds.
    fn numbers(i: usize, round: usize) -> (usize, f32) {
        (100 + (i * 37 + round * 1999) % (Self::ELEMENTS - 100), (i + 3 * round) as f32)
    }

    fn kind(i: usize) -> usize {
        (i * 40503) >> 8 & 3
    }

    fn give(&self, i: usize, round: usize) -> Result<()> {
        let (src, dst) = (&self.buffers[i % 5], &self.buffers[(i + 1) % 5]);
        let (n, add) = Self::numbers(i, round);
        let layout = Layout::contiguous(&[n])?;
        match Self::kind(i) {
            2 => self.device.unary(UnaryOp::Neg, F32, &layout, src, dst),
            // In place: a launch that runs twice is seen.
            3 => self.device.affine(F32, &layout, dst, dst, 0.5, add.into()),
            _ => self.device.affine(F32, &layout, src, dst, 0.5, add.into()),
        }
    }

    fn compute(&mut self, i: usize, round: usize) {
        let (n, add) = Self::numbers(i, round);
        for j in 0..n {
            let (from, to) = (self.model[i % 5][j], self.model[(i + 1) % 5][j]);
            self.model[(i + 1) % 5][j] = match Self::kind(i) {
                2 => -from,
                3 => to.mul_add(0.5, add),
                _ => from.mul_add(0.5, add),
            };
        }
    }

    fn launch(&mut self, i: usize, round: usize) -> Result<()> {
        self.give(i, round)?;
        self.compute(i, round);
        Ok(())
    }

    /// Gives all launches first, since they are kept for a short time only.
    fn step(&mut self, length: usize, round: usize) -> Result<()> {
        (0..length).try_for_each(|i| self.give(i, round))?;
        (0..length).for_each(|i| self.compute(i, round));
        Ok(())
    }

    #[track_caller]
    fn check(&self, what: &str) {
        for (k, (buffer, model)) in self.buffers.iter().zip(&self.model).enumerate() {
            let got = buffer.download::<f32>().expect("a copy");
            if let Some(at) = (0..Self::ELEMENTS).find(|&at| got[at].to_bits() != model[at].to_bits()) {
                panic!("{what}: buffer {k}, element {at} is {}, expected {}", got[at], model[at]);
            }
        }
    }
}

/// How many launches of a step are replayed once it has graphs: chains of at most 8, 16, 32 and 64 launches, those
/// of one and two launches not.
fn replayed(length: usize) -> u64 {
    let (mut left, mut most, mut count) = (length, 8, 0);
    while left > 0 {
        let chain = left.min(most);
        count += if chain < 3 { 0 } else { chain };
        left -= chain;
        most = (2 * most).min(64);
    }
    count as u64
}

/// On a busy machine a launch may be kept for too long, and is then not replayed. So not every round has the right
/// number, but some must.
#[test]
fn steps_that_repeat_are_replayed() {
    each("steps_that_repeat_are_replayed", |target| {
        for length in [1, 2, 3, 7, 8, 9, 10, 11, 24, 40, 100, 200, 313] {
            let device = opened(target, "1");
            let mut ring = Ring::new(&device, length).expect("memory");
            let count = || device.replays().expect("a count");
            let mut right = 0;
            for round in 0.. {
                let before = count();
                ring.step(length, round).expect("launches");
                ring.check(&format!("{}: step of {length}, round {round}", target.name));
                let grown = count() - before;
                assert!(round > 1 || grown == 0, "{grown} of {length} were replayed in round {round}");
                assert!(grown <= length as u64, "{grown} of {length} were replayed");
                right += u32::from(round > 1 && grown == replayed(length));
                if right == 4 {
                    break;
                }
                assert!(round < 1000, "{}: {grown} of {length} were replayed, not {}", target.name, replayed(length));
            }
        }
    });
}

/// The later parts of this step have the same kernels, and are yet told from each other.
#[test]
fn parts_with_the_same_kernels_are_replayed() {
    each("parts_with_the_same_kernels_are_replayed", |target| {
        const STEP: usize = 248; // of chains of 8, 16, 32 and three times 64 launches
        let device = opened(target, "1");
        let buffers: Vec<_> = (0..STEP).map(|_| device.upload(&[0f32; 64]).expect("memory")).collect();
        let layout = Layout::contiguous(&[64]).expect("a layout");
        let mut most = 0;
        for round in 1..100 {
            let before = device.replays().expect("a count");
            for (i, buffer) in buffers.iter().enumerate() {
                let launched = match i {
                    0..8 => device.fill(F32, buffer, 64, (i * round) as f32),
                    _ => device.affine(F32, &layout, buffer, buffer, 1.0, i as f64),
                };
                launched.expect("a launch");
            }
            for (i, buffer) in buffers.iter().enumerate() {
                let got = buffer.download::<f32>().expect("a copy");
                assert_eq!(got, [(i * round) as f32; 64], "{}: buffer {i}, round {round}", target.name);
            }
            most = most.max(device.replays().expect("a count") - before);
            if most == STEP as u64 {
                return;
            }
        }
        panic!("{}: at most {most} of {STEP} were replayed", target.name);
    });
}

/// Two steps that take turns follow each other as one does.
#[test]
fn steps_that_take_turns_are_replayed() {
    each("steps_that_take_turns_are_replayed", |target| {
        let device = opened(target, "1");
        let mut ring = Ring::new(&device, 1).expect("memory");
        for round in 0..300 {
            let before = device.replays().expect("a count");
            let length = [20, 5][round % 2];
            ring.step(length, round).expect("launches");
            device.synchronize().expect("all done");
            if round % 16 == 15 {
                ring.check("turns");
            }
            if round > 10 && device.replays().expect("a count") - before == replayed(length) {
                return;
            }
        }
        panic!("{}: no step was replayed", target.name);
    });
}

#[test]
fn only_handles_that_shall_replay_do() {
    each("only_handles_that_shall_replay_do", |target| {
        let is_cuda = target.device.info().expect("properties").backend == Backend::Cuda;
        let of = |device: &Device| {
            let mut ring = Ring::new(device, 3).expect("memory");
            for round in 0..50 {
                ring.step(8, round).expect("launches");
                device.synchronize().expect("all done");
            }
            ring.check("a handle");
            device.replays().expect("a count")
        };
        assert_eq!(of(&opened(target, "0")), 0);
        assert!(of(&opened(target, "1")) > 0, "{}", target.name);
        std::env::remove_var("CANDLE_ROCM_REPLAY");
        assert_eq!(of(&open(&target.name).expect("a device")) > 0, is_cuda, "{}", target.name);
        // A handle whose stream was asked for launches at once from then on. Its clones are handles of their own.
        let device = opened(target, "1");
        assert!(of(&device) > 0);
        let mut ring = Ring::new(&device, 3).expect("memory");
        (0..4).for_each(|round| ring.step(8, round).and_then(|()| device.synchronize()).expect("launches"));
        ring.step(5, 4).expect("launches; the handle keeps some");
        let clone = device.new_stream().expect("a handle");
        device.stream().expect("its stream");
        let before = device.replays().expect("a count");
        ring.check("kept launches");
        assert_eq!(of(&device), before);
        assert!(of(&clone) > 0);
        // Each operation is waited for.
        std::env::set_var("CANDLE_ROCM_SYNC", "1");
        assert_eq!(of(&opened(target, "1")), 0);
        std::env::remove_var("CANDLE_ROCM_SYNC");
    });
}

/// A kept launch begins without a further call. The CPU device's memory can be read by the host.
#[test]
fn a_kept_launch_begins_by_itself() {
    each("a_kept_launch_begins_by_itself", |target| {
        if target.device.info().expect("properties").backend != Backend::Cpu {
            return;
        }
        let device = opened(target, "1");
        let mut was_kept = false;
        for attempt in 0..50 {
            let mut ring = Ring::new(&device, attempt).expect("memory");
            (0..4).for_each(|round| ring.step(7, round).and_then(|()| device.synchronize()).expect("launches"));
            std::thread::sleep(Duration::from_millis([0, 130][attempt % 2])); // the keeper sleeps after 100 ms
            let before = ring.model[3][0];
            ring.step(3, 1000 + attempt).expect("launches");
            let (address, expected) = (ring.buffers[3].as_ptr().cast::<f32>(), ring.model[3][0]);
            assert_ne!(before, expected);
            // SAFETY: memory of the CPU device, which lives until the end of the round.
            let now = || unsafe { address.read_volatile() };
            let begin = Instant::now();
            let is_kept = now() == before;
            was_kept = was_kept || is_kept;
            while now() != expected {
                assert!(begin.elapsed() < Duration::from_secs(20), "{}: a kept launch never began", target.name);
                std::thread::sleep(Duration::from_micros(100));
            }
            (3..7).for_each(|i| ring.launch(i, 7).expect("launches"));
            ring.check("after a kept launch");
        }
        assert!(was_kept, "{}: no launch was kept", target.name);
    });
}

/// Handles are closed while other threads empty the cache, for which they look at all handles.
#[test]
fn handles_close_while_other_threads_trim() {
    each("handles_close_while_other_threads_trim", |target| {
        let other = opened(target, "1");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_done.load(Relaxed) {
                        other.trim_memory().expect("an empty cache");
                    }
                });
            }
            for _ in 0..2000 {
                drop(other.new_stream().expect("a handle"));
            }
            is_done.store(true, Relaxed);
        });
    });
}

/// Memory is freed while launches that use it are kept. A sanitizer would report a kept launch that comes later.
#[test]
fn what_kept_launches_use_is_freed() {
    each("what_kept_launches_use_is_freed", |target| {
        let device = opened(target, "1");
        let layout = Layout::contiguous(&[1000]).expect("a layout");
        let results = [(); 7].map(|()| device.upload(&[1f32; 1000]).expect("memory"));
        for round in 0..12 {
            let scratch = [(); 7].map(|()| device.alloc(4000).expect("memory"));
            for (i, (result, scratch)) in results.iter().zip(&scratch).enumerate() {
                let number = (round * 10 + i) as f64;
                device.affine(F32, &layout, result, scratch, 0.0, number).expect("a launch");
                device.unary(UnaryOp::Neg, F32, &layout, scratch, result).expect("a launch");
            }
            drop(scratch); // some launches are still kept
            for (i, result) in results.iter().enumerate() {
                let expected = -((round * 10 + i) as f32);
                assert_eq!(result.download::<f32>().expect("a copy"), [expected; 1000], "round {round}, result {i}");
            }
        }
        assert!(device.replays().expect("a count") > 0, "{}: no launch was replayed", target.name);
    });
}

/// More sequences than a handle remembers, each three times.
#[test]
fn many_sequences() {
    each("many_sequences", |target| {
        let device = opened(target, "1");
        let mut replays = 0;
        for number in 0..400 {
            let mut ring = Ring::new(&device, number).expect("memory");
            for round in 0..3 {
                let before = device.replays().expect("a count");
                for place in 0..6 {
                    // Other launches in between make the sequence that of the number.
                    if number >> place & 1 == 1 {
                        let n = (number + place) % Ring::ELEMENTS;
                        let value = (number + round) as f32;
                        device.fill(F32, &ring.buffers[place % 5], n, value).expect("a launch");
                        ring.model[place % 5][..n].fill(value);
                    }
                    if number >> 6 & (1 << (place % 3)) == 0 {
                        ring.launch(place, round).expect("a launch");
                    } else {
                        let n = 1 + (number * 7 + place) % Ring::ELEMENTS;
                        let layout = Layout::contiguous(&[n]).expect("a layout");
                        let (src, dst) = (&ring.buffers[place % 5], &ring.buffers[(place + 2) % 5]);
                        device.unary(UnaryOp::Neg, F32, &layout, src, dst).expect("a launch");
                        for j in 0..n {
                            ring.model[(place + 2) % 5][j] = -ring.model[place % 5][j];
                        }
                    }
                }
                ring.check(&format!("{}: sequence {number}, round {round}", target.name));
                replays += device.replays().expect("a count") - before;
            }
        }
        assert!(replays > 400, "{}: {replays} launches were replayed", target.name);
    });
}

// ---- modules of the user's, wide arguments

#[repr(C)]
#[derive(Clone, Copy)]
struct Wide([u32; 250]);

#[test]
fn wide_arguments_of_a_users_module() {
    each("wide_arguments_of_a_users_module", |target| {
        if target.device.info().expect("properties").backend != Backend::Cpu {
            return;
        }
        let device = opened(target, "1");
        // SAFETY: compiled from the project's own source.
        unsafe { device.load_module("probe", cpu_module::probe().expect("a module")) }.expect("it loads");
        let kernel = device.function_named("probe", "probe_wide").expect("a kernel");
        let buffers: Vec<_> = (0..150).map(|_| device.upload(&[0u32; 1024]).expect("memory")).collect();
        for round in 0..20u32 {
            buffers.iter().for_each(|buffer| buffer.fill_bytes(0).expect("a memset"));
            let number = round / 2; // every other round differs by its grids alone
            for (i, buffer) in buffers.iter().enumerate() {
                let mut wide = Wide(std::array::from_fn(|at| at as u32 * 3));
                wide.0[(7 * i + number as usize) % 250] = 1000 * i as u32 + number;
                let blocks = 1 + (i as u32 + round) % 4;
                let args = [Arg::value(&wide), (1 + i as u32 * number).into(), buffer.into()];
                let launch = Launch { grid: [blocks, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
                // SAFETY: the kernel's arguments; the buffer has a number for each thread.
                unsafe { kernel.launch(launch, &args) }.expect("a launch");
            }
            for (i, buffer) in buffers.iter().enumerate() {
                let mut wide: Vec<u32> = (0..250).map(|at| at * 3).collect();
                wide[(7 * i + number as usize) % 250] = 1000 * i as u32 + number;
                let got = buffer.download::<u32>().expect("a copy");
                let threads = 256 * (1 + (i + round as usize) % 4);
                for at in 0..1024 {
                    let expected = if at < threads { wide[at % 250] + 1 + i as u32 * number } else { 0 };
                    assert_eq!(got[at], expected, "launch {i}, round {round}, thread {at}");
                }
            }
        }
        assert!(device.replays().expect("a count") > 0, "{}", target.name);
    });
}

// ---- threads

fn together(threads: usize, body: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, body) = (&barrier, &body);
            scope.spawn(move || {
                barrier.wait();
                body(thread);
            });
        }
    });
}

#[test]
fn threads_with_one_handle() {
    each("threads_with_one_handle", |target| {
        for threads in [2, 8] {
            let device = opened(target, "1");
            together(threads, |thread| {
                let mut ring = Ring::new(&device, thread).expect("memory");
                for round in 0..60 {
                    ring.step(3 + 5 * (round % 7 / 6) + thread % 3, round).expect("launches");
                    if round % 5 == 4 {
                        ring.check(&format!("{}: thread {thread} of {threads}, round {round}", target.name));
                    }
                }
                ring.check("a thread's end");
            });
        }
    });
}

/// Threads take turns on one handle. The launches of a turn run before those of the next turn.
#[test]
fn threads_that_take_turns() {
    each("threads_that_take_turns", |target| {
        let device = opened(target, "1");
        let ring = std::sync::Mutex::new(Ring::new(&device, 5).expect("memory"));
        together(3, |thread| {
            for round in 0..100 {
                let mut ring = ring.lock().expect("no panic");
                ring.step(2 + thread, round).expect("launches");
                if round % 10 == thread {
                    ring.check(&format!("{}: thread {thread}, round {round}", target.name));
                }
            }
        });
        ring.into_inner().expect("no panic").check("the end");
    });
}

/// The thread that looks for kept launches begins and ends with them. Handles are closed with launches that are kept.
#[test]
fn handles_open_and_close_in_many_threads() {
    each("handles_open_and_close_in_many_threads", |target| {
        std::env::set_var("CANDLE_ROCM_REPLAY", "1");
        for pause in [0, 3] {
            together(8, |thread| {
                for round in 0..12 {
                    let device = open(&target.name).expect("a device");
                    let mut ring = Ring::new(&device, thread).expect("memory");
                    for turn in 0..3 {
                        ring.step(6, turn).expect("launches");
                        ring.check(&format!("{}: thread {thread}, round {round}", target.name));
                    }
                    ring.step(4, 9).expect("launches");
                    std::thread::sleep(Duration::from_millis(pause));
                }
            });
        }
        // One at a time: each is the first and the last.
        for round in 0..60 {
            let device = open(&target.name).expect("a device");
            let mut ring = Ring::new(&device, round).expect("memory");
            (0..3).for_each(|turn| ring.step(6, turn).and_then(|()| device.synchronize()).expect("launches"));
            ring.step(4, 9).expect("launches");
            if round % 3 == 0 {
                ring.check("one handle at a time");
            }
        }
    });
}

/// The child of a fork has no thread that looks for kept launches. It can close the handle all the same.
#[cfg(unix)]
#[test]
fn a_forked_process_ends() {
    extern "C" {
        fn fork() -> i32;
        fn _exit(code: i32) -> !;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    }
    each("a_forked_process_ends", |target| {
        if target.device.info().expect("properties").backend != Backend::Cpu {
            return;
        }
        let device = opened(target, "1");
        let mut ring = Ring::new(&device, 1).expect("memory");
        (0..4).for_each(|round| ring.step(7, round).and_then(|()| device.synchronize()).expect("launches"));
        std::thread::sleep(Duration::from_millis(200)); // no other thread holds a lock any more
        // SAFETY: the child drops the only handle that replays, and ends.
        let child = unsafe { fork() };
        if child == 0 {
            drop((ring, device));
            // SAFETY: ends the child.
            unsafe { _exit(7) }
        }
        let mut status = -1;
        // SAFETY: a child of this process; `status` is written.
        assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
        assert_eq!(status >> 8, 7);
        ring.step(7, 5).expect("launches");
        ring.check("the parent");
    });
}

/// One thread repeats a step while another one captures. Each launch runs once, now or with the graph.
#[test]
fn launches_while_another_thread_captures() {
    each("launches_while_another_thread_captures", |target| {
        let device = opened(target, "1");
        let layout = Layout::contiguous(&[64]).expect("a layout");
        let counter = device.upload(&[0f32; 64]).expect("memory");
        let work = device.upload(&[0f32; 64]).expect("memory");
        let add = |to: &Buffer| device.affine(F32, &layout, to, to, 1.0, 1.0);
        add(&work).expect("a kernel is loaded");
        let is_over = AtomicBool::new(false);
        let launched = std::thread::scope(|scope| {
            let launcher = scope.spawn(|| {
                let mut launched = 0;
                while !is_over.load(Relaxed) {
                    for _ in 0..5 {
                        add(&counter).expect("a launch, which the capture may record");
                        launched += 1;
                    }
                    if launched % 1000 == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                }
                launched
            });
            for _ in 0..300 {
                let captured = device.capture(|| (0..3).try_for_each(|_| add(&work)));
                let (graph, ()) = captured.expect("a capture that nothing spoils");
                // SAFETY: the graph's memory lives. The graph runs once what the other thread's launches recorded.
                unsafe { graph.launch() }.expect("it runs");
            }
            is_over.store(true, Relaxed);
            launcher.join().expect("no panic")
        });
        let count = counter.download::<f32>().expect("a copy")[0];
        assert_eq!(count, launched as f32, "{}", target.name);
        assert_eq!(work.download::<f32>().expect("a copy")[0], 901.0);
    });
}

// ---- any sequence

const BUFFERS: usize = 5;
const ELEMENTS: usize = 1500;

/// One use of a handle. `a`, `b` and `to` are numbers of buffers, `to` another one than the other two.
#[derive(Debug, Clone, Copy)]
struct Use {
    what: What,
    a: usize,
    b: usize,
    to: usize,
    n: usize,
    x: f32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Affine,
    InPlace,
    Add,
    Relu,
    Turned,
    Fill,
    ByName,
    WithParams,
    /// Uses of the stream.
    Copy,
    Write,
    Set,
    Read,
    Synchronize,
    Mark,
    Follow,
    Capture,
    Again,
    /// Not a use of the stream.
    Renew,
    Sleep,
}
use What::*;

const LAUNCHES: [What; 8] = [Affine, InPlace, Add, Relu, Turned, Fill, ByName, WithParams];
const OTHERS: [What; 11] = [Copy, Write, Set, Read, Synchronize, Mark, Follow, Capture, Again, Renew, Sleep];

fn a_use(rng: &mut Rng, what: What) -> Use {
    let to = rng.below(BUFFERS);
    let other = |rng: &mut Rng| (to + 1 + rng.below(BUFFERS - 1)) % BUFFERS;
    let (a, b) = (other(rng), other(rng));
    Use { what, a, b, to, n: 4 * (1 + rng.below(ELEMENTS / 4)), x: rng.below(100) as f32 * 0.125 }
}

/// A step: mostly launches, with as few kernels as a model's layers have.
fn template(rng: &mut Rng) -> Vec<Use> {
    let kernels: Vec<What> = (0..1 + rng.below(3)).map(|_| rng.pick(&LAUNCHES)).collect();
    let rare = rng.pick(&[5, 12, 1000]);
    let length = 1 + rng.below(rng.clone().pick(&[6, 20, 90]));
    let what = |rng: &mut Rng| if rng.one_in(rare) { rng.pick(&OTHERS) } else { rng.pick(&kernels) };
    (0..length).map(|_| what(rng)).collect::<Vec<_>>().into_iter().map(|what| a_use(rng, what)).collect()
}

/// The step with other arguments in some places, and sometimes with other work.
fn varied(rng: &mut Rng, template: &[Use]) -> Vec<Use> {
    let mut step = template.to_vec();
    for one in &mut step {
        if rng.one_in(2) {
            *one = a_use(rng, one.what);
        }
    }
    match rng.below(12) {
        0 => step.truncate(rng.below(step.len() + 1)),
        1 => step.insert(rng.below(step.len() + 1), {
            let what = rng.pick(&LAUNCHES);
            a_use(rng, what)
        }),
        2 => step.insert(rng.below(step.len() + 1), {
            let what = rng.pick(&OTHERS);
            a_use(rng, what)
        }),
        3 => step.extend((0..3).map(|_| {
            let what = rng.pick(&LAUNCHES);
            a_use(rng, what)
        })),
        4 => drop(step.remove(rng.below(step.len()))),
        _ => {}
    }
    step
}

/// A handle with its buffers, and the uses that a trial makes of them.
struct Machine {
    device: Device,
    other: Device,
    buffers: Vec<Buffer>,
    by_name: Function,
    with_params: Function,
    mark: Event,
    graphs: Vec<Graph>,
    /// What was read.
    log: Vec<Vec<u32>>,
}

impl Machine {
    fn new(device: Device) -> Result<Machine> {
        let values: Vec<f32> = (0..ELEMENTS).map(|i| i as f32 * 0.25 - 100.0).collect();
        let mut machine = Machine {
            other: device.new_stream()?,
            buffers: (0..BUFFERS).map(|_| device.upload(&values)).collect::<Result<_>>()?,
            by_name: device.function_named("fill", "fill_f32")?,
            with_params: device.function_named("affine", "affine_f32")?,
            mark: device.event()?,
            graphs: Vec::new(),
            log: Vec::new(),
            device,
        };
        // A capture can load no kernel.
        for what in LAUNCHES {
            machine.run(&Use { what, a: 0, b: 0, to: 1, n: 8, x: 1.0 })?;
        }
        Ok(machine)
    }

    fn launch(&self, one: &Use) -> Result<()> {
        let Use { n, x, .. } = *one;
        let (device, a, b, to) = (&self.device, &self.buffers[one.a], &self.buffers[one.b], &self.buffers[one.to]);
        let flat = Layout::contiguous(&[n])?;
        let turned = Layout::strided(&[4, n / 4], &[1, 4], 0)?;
        match one.what {
            Affine => device.affine(F32, &flat, a, to, 0.5, x.into()),
            // A launch that runs twice is seen.
            InPlace => device.affine(F32, &flat, to, to, 0.75, x.into()),
            Add => device.binary(BinaryOp::Add, F32, (&flat, a), (&flat, b), to),
            Relu => device.unary(UnaryOp::Relu, F32, &flat, a, to),
            Turned => device.unary(UnaryOp::Abs, F32, &turned, a, to),
            Fill => device.fill(F32, to, n, x),
            // SAFETY: the arguments of Candle's fill and affine kernels, with memory for `n` elements.
            ByName => unsafe { self.by_name.launch(Launch::for_num_elems(n as u32), &[to.into(), x.into(), n.into()]) },
            WithParams => {
                let params = device.params(&turned)?;
                let args = [n.into(), 2usize.into(), (&params).into(), a.into(), to.into(), x.into(), 0.5f32.into()];
                // SAFETY: as above.
                unsafe { self.with_params.launch(Launch::for_num_elems(n as u32), &args) }
            }
            other => unreachable!("{other:?}"),
        }
    }

    /// The other handle works on this one's memory, between marks.
    fn follow(&self, one: &Use) -> Result<()> {
        self.mark.record(&self.device)?;
        self.other.wait(&self.mark)?;
        let (a, to) = (&self.buffers[one.a], &self.buffers[one.to]);
        for turn in 0..4 {
            let none = Arg::ptr(std::ptr::null());
            let add = one.x + turn as f32;
            let args = [one.n.into(), 1usize.into(), none, a.into(), to.into(), 0.25f32.into(), add.into()];
            // SAFETY: the arguments of Candle's affine kernels; the marks order the streams.
            unsafe { self.with_params.launch_on(&self.other, Launch::for_num_elems(one.n as u32), &args)? };
        }
        let mark = self.other.event()?;
        mark.record(&self.other)?;
        self.device.wait(&mark)
    }

    fn run(&mut self, one: &Use) -> Result<()> {
        let bytes = 4 * one.n;
        match one.what {
            Copy => {
                let (to, from) = (self.buffers[one.to].range(0..bytes)?, self.buffers[one.a].range(0..bytes)?);
                self.device.copy(to, from)
            }
            Write => self.buffers[one.to].range(0..bytes)?.write(&vec![one.x; one.n]),
            Set => self.buffers[one.to].fill_bytes(one.b as u8 * 16),
            Read => {
                self.log.push(self.buffers[one.a].download()?);
                Ok(())
            }
            Synchronize => self.device.synchronize(),
            Mark => {
                self.mark.record(&self.device)?;
                while one.b % 2 == 0 && !self.mark.is_done()? {}
                Ok(())
            }
            Follow => self.follow(one),
            Capture => {
                let uses = LAUNCHES[..7].iter().cycle().take(one.b + 3).map(|&what| Use { what, ..*one });
                let (graph, ()) = self.device.capture(|| uses.into_iter().try_for_each(|one| self.launch(&one)))?;
                // SAFETY: graphs are dropped before the memory is.
                unsafe { graph.launch() }?;
                self.graphs.push(graph);
                Ok(())
            }
            // SAFETY: as above.
            Again => self.graphs.iter().rev().take(1 + one.b % 2).try_for_each(|graph| unsafe { graph.launch() }),
            Renew => {
                self.graphs.clear();
                self.buffers[one.to] = self.device.alloc(4 * ELEMENTS)?;
                self.device.fill(F32, &self.buffers[one.to], ELEMENTS, one.x)
            }
            Sleep => {
                std::thread::sleep(Duration::from_millis(one.b as u64));
                Ok(())
            }
            _ => self.launch(one),
        }
    }

    fn end(mut self) -> Result<Vec<Vec<u32>>> {
        for buffer in &self.buffers {
            self.log.push(buffer.download()?);
        }
        Ok(self.log)
    }
}

/// Random steps, repeated and varied, have the same bits as on a handle that launches at once.
#[test]
fn any_sequence_has_the_same_bits() {
    each("any_sequence_has_the_same_bits", |target| {
        let only: Option<usize> = std::env::var("CANDLE_ROCM_CASE").ok().map(|text| text.parse().expect("a number"));
        let mut replays = 0;
        for case in (0..120).filter(|case| only.is_none_or(|only| only == *case)) {
            let mut rng = Rng(support::property::seed("any_sequence", case));
            let templates: Vec<_> = (0..1 + rng.below(3)).map(|_| template(&mut rng)).collect();
            let mut steps = Vec::new();
            for _ in 0..14 {
                let chosen = if rng.one_in(3) { rng.below(templates.len()) } else { 0 };
                steps.push(varied(&mut rng, &templates[chosen]));
                if rng.one_in(2) {
                    let what = rng.pick(&[Read, Synchronize, Mark, Copy]);
                    steps.push(vec![a_use(&mut rng, what)]);
                }
            }
            let run = |replay: &str| {
                let device = opened(target, replay);
                let mut machine = Machine::new(device.clone()).expect("memory");
                for (at, one) in steps.iter().flatten().enumerate() {
                    machine.run(one).unwrap_or_else(|error| panic!("case {case}, use {at} {one:?}: {error}"));
                }
                let log = machine.end().expect("copies");
                (log, device.replays().expect("a count"))
            };
            let ((kept, count), (plain, none)) = (run("1"), run("0"));
            assert_eq!(none, 0);
            replays += count;
            assert_eq!(kept.len(), plain.len());
            for (at, (kept, plain)) in kept.iter().zip(&plain).enumerate() {
                let differs = kept.iter().zip(plain).position(|(kept, plain)| kept != plain);
                assert_eq!(differs, None, "{}: CANDLE_ROCM_CASE={case}, copy {at} differs: {steps:?}", target.name);
            }
        }
        println!("{}: {replays} launches replayed", target.name);
        assert!(only.is_some() || replays > 2000, "{}: {replays} launches were replayed", target.name);
    });
}

// ---- calls of the runtime that fail

#[cfg(all(target_os = "linux", feature = "cpu"))]
mod failures {
    use super::*;
    use candle_rocm_sys::Status;
    use support::hip_double::{Controls, alone};

    fn on_double(test: &str, body: impl FnOnce(&Controls)) {
        alone(&format!("failures::{test}"), "gfx1100", 6, &[("CANDLE_ROCM_REPLAY", "1")], || {
            let controls = Controls::get();
            let census = controls.census();
            body(&controls);
            assert_eq!(controls.census(), census, "something is left");
        });
    }

    fn opened() -> Device {
        Device::open(Backend::Hip, 0).expect("the double opens")
    }

    fn rounds(ring: &mut Ring, rounds: std::ops::Range<usize>) {
        for round in rounds {
            ring.step(8, round).expect("launches");
            ring.check(&format!("round {round}"));
        }
    }

    /// Where no graph can be made, launches are given one by one, and no one is told.
    #[test]
    fn graphs_that_cannot_be_made() {
        on_double("graphs_that_cannot_be_made", |controls| {
            let calls = [
                ("hipGraphCreate", 1),
                ("hipGraphAddKernelNode", 1),
                ("hipGraphAddKernelNode", 8),
                ("hipGraphInstantiate", 1),
                ("hipGraphExecKernelNodeSetParams", 1),
                ("hipGraphExecKernelNodeSetParams", 5),
            ];
            for (call, nth) in calls {
                let device = opened();
                let mut ring = Ring::new(&device, 1).expect("memory");
                controls.fail(call, nth, 999);
                let before = controls.calls(call);
                rounds(&mut ring, 0..6);
                assert_eq!(controls.calls(call) - before, nth as i64, "{call} is not tried again");
                assert_eq!((device.replays().expect("a count"), controls.last_error()), (0, 0), "{call}");
                assert_eq!((controls.alive("graphs"), controls.alive("nodes")), (0, 0), "{call}");
                device.synchronize().expect("no failure is left");
            }
        });
    }

    /// A graph that cannot be launched is an error of that call. Its launches are lost, later ones are not.
    #[test]
    fn graphs_that_cannot_be_launched() {
        on_double("graphs_that_cannot_be_launched", |controls| {
            let device = opened();
            let mut ring = Ring::new(&device, 1).expect("memory");
            rounds(&mut ring, 0..4);
            let replays = device.replays().expect("a count");
            assert!(replays > 0);
            let model = ring.model.clone();
            controls.fail("hipGraphLaunch", 1, 719);
            let error = ring.step(8, 4).expect_err("the last launch fails");
            assert_eq!(error.status(), Status::Device, "{error}");
            assert!(error.message().contains("hipGraphLaunch answers 719"), "{error}");
            assert_eq!(controls.last_error(), 0);
            assert_eq!(device.replays().expect("a count"), replays, "these launches did not run");
            ring.model = model;
            ring.check("after the failure");
            rounds(&mut ring, 5..9);
            device.synchronize().expect("it is told once");
        });
    }

    /// Launches that were kept and then given one by one, because the stream is used or because another one follows.
    #[test]
    fn kept_launches_that_fail() {
        on_double("kept_launches_that_fail", |controls| {
            for by_other_launch in [false, true] {
                let device = opened();
                let mut ring = Ring::new(&device, 1).expect("memory");
                let other = device.upload(&[7f32; 16]).expect("memory");
                rounds(&mut ring, 0..4);
                let layout = Layout::contiguous(&[16]).expect("a layout");
                device.unary(UnaryOp::Relu, F32, &layout, &other, &other).expect("its kernel is loaded");
                rounds(&mut ring, 4..8);
                controls.fail("hipModuleLaunchKernel", 1, 719);
                let model = ring.model[1].clone();
                ring.step(1, 9).expect("a launch that is kept");
                let told = if by_other_launch {
                    device.unary(UnaryOp::Relu, F32, &layout, &other, &other)
                } else {
                    other.fill_bytes(0).and_then(|()| device.synchronize())
                };
                // A slow machine may have given the launch already; then the next synchronisation tells.
                let error = told.and_then(|()| device.synchronize()).expect_err("the kept launch failed");
                assert_eq!(error.status(), Status::Device, "{error}");
                assert!(error.message().contains("hipModuleLaunchKernel"), "{error}");
                assert!(error.message().contains("answers 719"), "{error}");
                device.synchronize().expect("it is told once");
                ring.model[1] = model;
                ring.check("after the failure");
                rounds(&mut ring, 10..14);
            }
        });
    }

    /// The thread that begins kept launches hands its failures on.
    #[test]
    fn kept_launches_that_fail_by_themselves() {
        on_double("kept_launches_that_fail_by_themselves", |controls| {
            let device = opened();
            let mut ring = Ring::new(&device, 1).expect("memory");
            rounds(&mut ring, 0..4);
            controls.fail("hipModuleLaunchKernel", 1, 719);
            let before = controls.calls("hipModuleLaunchKernel");
            let model = ring.model[1].clone();
            ring.step(1, 9).expect("a launch that is kept");
            while controls.calls("hipModuleLaunchKernel") == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            let error = device.synchronize().expect_err("the kept launch failed");
            assert_eq!(error.status(), Status::Device, "{error}");
            assert!(error.message().contains("hipModuleLaunchKernel"), "{error}");
            // SAFETY: reads the thread's own number.
            assert_eq!(unsafe { candle_rocm_sys::sys::crk_last_device_error() }, 719);
            device.synchronize().expect("it is told once");
            ring.model[1] = model;
            ring.check("after the failure");
        });
    }

    /// ROCm keeps the arguments that updates have replaced. So a graph is made anew after 1024 updates.
    #[test]
    fn graphs_with_many_updates() {
        on_double("graphs_with_many_updates", |controls| {
            let device = opened();
            let mut ring = Ring::new(&device, 1).expect("memory");
            let (updates, made) =
                (|| controls.calls("hipGraphExecKernelNodeSetParams"), || controls.calls("hipGraphInstantiate"));
            let mut round = 0;
            while updates() < 2500 {
                rounds(&mut ring, round..round + 1);
                round += 1;
                assert!(round < 5000, "{} updates", updates());
                assert!(controls.alive("executables") <= 8, "{} graphs", controls.alive("executables"));
            }
            assert!((3..=20).contains(&made()), "{} graphs", made());
            device.synchronize().expect("all done");
        });
    }

    /// Old graphs make room, and a closed handle leaves none.
    #[test]
    fn graphs_are_few() {
        on_double("graphs_are_few", |controls| {
            let device = opened();
            let layout = Layout::contiguous(&[16]).expect("a layout");
            let buffer = device.upload(&[1f32; 16]).expect("memory");
            let mut most = 0;
            for number in 0..300 {
                for _ in 0..3 {
                    for place in 0..8 {
                        let op = [UnaryOp::Relu, UnaryOp::Abs, UnaryOp::Sqr][number / 3usize.pow(place) % 3];
                        device.unary(op, F32, &layout, &buffer, &buffer).expect("a launch");
                    }
                    device.synchronize().expect("all done");
                }
                most = most.max(controls.alive("executables"));
            }
            assert!((100..=128).contains(&most), "{most} graphs at once");
            assert_eq!(controls.alive("graphs"), controls.alive("executables"));
            assert_eq!(buffer.download::<f32>().expect("a copy"), [1f32; 16]);
        });
    }
}
