//! Collectives over doubles of RCCL and NCCL (tests/double/nccl_double.c): which library is taken and which calls of
//! it are made, versions from 2.17 to 2.28, libraries without newer calls, each call failing in turn, lost ranks,
//! timeouts, aborts, graphs. Two and three simulated GPUs add numbers. `comm.rs` has the CPU device.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::{
    Backend, Buffer, Comm, CommId, CommOp, DType, Device, Error, Layout, Status, UnaryOp, comm_group, sys,
};
use candle_rocm_sys_tests::support::{collectives::norm_of_sums, double, hip_double, paths::SCRATCH};
use hip_double::{Controls, alone};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));
const F32: DType = DType::F32;
const SUM: CommOp = CommOp::Sum;

/// Calls of the library that every communicator needs.
const REQUIRED: [&str; 14] = [
    "ncclGetVersion",
    "ncclGetUniqueId",
    "ncclCommInitRank",
    "ncclCommDestroy",
    "ncclCommAbort",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclAllReduce",
    "ncclReduce",
    "ncclBroadcast",
    "ncclAllGather",
    "ncclReduceScatter",
    "ncclSend",
    "ncclRecv",
];

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("a path in UTF-8")
}

fn short(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds))
}

/// Runs `body` in a process with three GPUs and the double of RCCL.
fn with_rccl(test: &str, body: fn()) {
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_DEVICES", "3")], body);
}

fn open(ordinal: usize) -> Device {
    Device::open(Backend::Hip, ordinal as i32).expect("a device")
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, status: Status, words: &[&str]) -> Error {
    let error = result.err().expect("must fail");
    assert_eq!(error.status(), status, "{error}");
    for word in words {
        assert!(error.message().contains(word), "no {word:?} in {:?}", error.message());
    }
    error
}

/// Runs `body` on a thread for each rank, each with a GPU of its own.
fn on_ranks(size: usize, timeout: Option<Duration>, body: impl Fn(&Comm) + Sync) {
    let id = open(0).comm_id().expect("an id");
    let body = &body;
    std::thread::scope(|scope| {
        for rank in 0..size {
            scope.spawn(move || {
                let device = open(rank);
                body(&Comm::new(&device, &id, rank, size, timeout).expect("a communicator"));
            });
        }
    });
}

/// A communicator of one rank.
fn single(device: &Device, timeout: Option<Duration>) -> Result<Comm, Error> {
    Comm::new(device, &device.comm_id()?, 0, 1, timeout)
}

fn add_ones(comm: &Comm) -> Result<f32, Error> {
    let buffer = comm.device().upload(&[1f32; 8])?;
    comm.all_reduce_in_place(F32, SUM, &buffer, 8)?;
    comm.wait(PATIENCE)?;
    Ok(buffer.download::<f32>()?[7])
}

/// The device works as before.
fn works(device: &Device) {
    let src = device.upload(&[1f32, -2.0]).expect("memory");
    let dst = device.alloc(8).expect("memory");
    device.unary(UnaryOp::Neg, F32, &Layout::contiguous(&[2]).expect("a layout"), &src, &dst).expect("a launch");
    assert_eq!(dst.download::<f32>().expect("a copy"), [-1.0, 2.0]);
    device.synchronize().expect("no failure");
}

fn floats(buffer: &Buffer) -> Vec<f32> {
    buffer.download::<f32>().expect("a copy")
}

/// Each collective once, among several ranks. Stops at the first failure.
fn all_collectives(comm: &Comm) -> Result<(), Error> {
    let (rank, size, device) = (comm.rank(), comm.size(), comm.device());
    let mine: Vec<f32> = (0..3 * size).map(|i| (10 * rank + i) as f32).collect();
    let at = |r: usize, i: usize| (10 * r + i) as f32;
    let sum = |i: usize| (0..size).map(|r| at(r, i)).sum::<f32>();
    let src = device.upload(&mine)?;
    let dst = device.upload(&vec![0f32; 3 * size])?;

    comm.all_reduce(F32, SUM, &src, &dst, 3 * size)?;
    assert_eq!(floats(&dst), (0..3 * size).map(sum).collect::<Vec<_>>());
    comm.reduce(F32, CommOp::Max, &src, (rank == 0).then(|| (&dst).into()), 3, 0)?;
    if rank == 0 {
        assert_eq!(floats(&dst)[..3], [0, 1, 2].map(|i| at(size - 1, i)));
    }
    comm.broadcast(F32, (rank == size - 1).then(|| (&src).into()), &dst, 3, size - 1)?;
    assert_eq!(floats(&dst)[..3], [0, 1, 2].map(|i| at(size - 1, i)));
    comm.all_gather(F32, src.range(0..12)?, &dst, 3)?;
    assert_eq!(floats(&dst), (0..3 * size).map(|i| at(i / 3, i % 3)).collect::<Vec<_>>());
    comm.reduce_scatter(F32, SUM, &src, dst.range(0..12)?, 3)?;
    assert_eq!(floats(&dst)[..3], [0, 1, 2].map(|i| sum(3 * rank + i)));
    comm.all_to_all(F32, &src, &dst, 3)?;
    assert_eq!(floats(&dst), (0..3 * size).map(|i| at(i / 3, 3 * rank + i % 3)).collect::<Vec<_>>());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    // SAFETY: the buffers and the communicator outlive the group.
    unsafe {
        comm_group(|| {
            comm.send(F32, &src, 3, next)?;
            comm.recv(F32, &dst, 3, previous)
        })
    }?;
    assert_eq!(floats(&dst)[..3], [0, 1, 2].map(|i| at(previous, i)));
    comm.wait(PATIENCE)
}

/// Runs `body` as `with_rccl` does. The GPUs have memory that other GPUs write.
fn with_peer_memory(test: &str, architecture: &str, body: fn()) {
    let settings = [("HIP_DOUBLE_DEVICES", "3"), ("HIP_DOUBLE_FINE_GRAINED", "1")];
    alone(test, architecture, 6, &settings, body);
}

/// Small sums of halves and floats run a kernel of our own, others the library.
#[test]
fn small_sums_need_no_library() {
    with_peer_memory("small_sums_need_no_library", "gfx1100", || {
        for size in [2usize, 3] {
            on_ranks(size, PATIENCE, |comm| {
                let (rank, device) = (comm.rank(), comm.device());
                for count in [1usize, 3, 1023, 1024, 1025, 32768, 32769, 5] {
                    let mine: Vec<f32> = (0..count).map(|i| (i % 1000) as f32 + (1000 * rank) as f32).collect();
                    let expected: Vec<f32> =
                        (0..count).map(|i| (0..size).map(|r| (i % 1000) as f32 + (1000 * r) as f32).sum()).collect();
                    let (src, dst) = (device.upload(&mine).expect("memory"), device.alloc(4 * count).expect("memory"));
                    comm.all_reduce(F32, SUM, &src, &dst, count).expect("a sum");
                    comm.wait(PATIENCE).expect("the sum");
                    assert_eq!(floats(&dst), expected, "{count} elements of {size} ranks");
                }
                all_collectives(comm).expect("all collectives");
                // The last two are rows of odd bytes and rows that are too long for one launch.
                for (rows, cols) in [(3, 64), (1, 4096), (0, 5), (2, 33), (1, 5000)] {
                    norm_of_sums(comm, rows, cols);
                }
            });
            let launched = Controls::get().launches();
            assert!(launched.iter().any(|line| line == "one_shot_sum_f32 64"), "{launched:?}");
            assert!(launched.iter().any(|line| line == "one_shot_norm_f32_1 3"), "{launched:?}");
            assert!(launched.iter().any(|line| line == "one_shot_norm_f32_2 1"), "{launched:?}");
        }
    });
}

/// Runs sums of three ranks that do not all reach each other's memory: the library does them.
fn by_the_library(test: &str, cause: (&'static str, &'static str)) {
    let settings = [("HIP_DOUBLE_DEVICES", "3"), ("HIP_DOUBLE_FINE_GRAINED", "1"), cause];
    alone(test, "gfx1100", 6, &settings, || {
        on_ranks(3, PATIENCE, |comm| assert_eq!(add_ones(comm).expect("a sum"), 3.0));
        let controls = Controls::get();
        let (own, theirs) = (controls.launches(), controls.collectives());
        assert!(own.iter().all(|line| !line.starts_with("one_shot")), "{own:?}");
        assert_eq!(theirs.iter().filter(|line| line.starts_with("ncclAllReduce")).count(), 3, "{theirs:?}");
    });
}

#[test]
fn one_rank_without_memory_for_peers() {
    by_the_library("one_rank_without_memory_for_peers", ("HIP_DOUBLE_FAIL", "hipExtMallocWithFlags:2=2"));
}

#[test]
fn ordinary_memory_in_place_of_fine_grained_memory() {
    by_the_library("ordinary_memory_in_place_of_fine_grained_memory", ("HIP_DOUBLE_FINE_GRAINED", "0"));
}

#[test]
fn a_runtime_that_does_not_know_fine_grained_memory() {
    by_the_library("a_runtime_that_does_not_know_fine_grained_memory", ("HIP_DOUBLE_FINE_GRAINED", "-1"));
}

/// Before CDNA 2 the bytes of a copy may arrive after the store that tells of them.
#[test]
fn gpus_without_ordered_copies() {
    with_peer_memory("gpus_without_ordered_copies", "gfx1100", || {
        on_ranks(2, PATIENCE, |comm| {
            for count in [1000, 1_000_000] {
                let ones = comm.device().upload(&vec![1f32; count]).expect("memory");
                comm.all_reduce_in_place(F32, SUM, &ones, count).expect("a sum");
                comm.wait(PATIENCE).expect("the sum");
                assert!(floats(&ones).iter().all(|sum| *sum == 2.0));
            }
            norm_of_sums(comm, 20, 4096);
        });
        let controls = Controls::get();
        let launches = controls.launches();
        assert!(launches.iter().any(|line| line.starts_with("one_shot")), "{launches:?}");
        let is_ordered = |line: &String| line == "meet 1" || line.starts_with("marked");
        assert!(!launches.iter().any(is_ordered), "{launches:?}");
        assert_eq!(controls.collectives().iter().filter(|line| line.starts_with("ncclAllReduce")).count(), 2 * 2);
    });
}

#[test]
fn gpus_that_do_not_reach_each_other() {
    by_the_library("gpus_that_do_not_reach_each_other", ("HIP_DOUBLE_PEERS", "0"));
}

#[test]
fn a_variable_that_says_so() {
    by_the_library("a_variable_that_says_so", ("CANDLE_ROCM_COMM_PEERS", "0"));
}

/// An abort ends a kernel that waits for another rank.
#[test]
fn a_small_sum_that_one_rank_never_calls() {
    with_peer_memory("a_small_sum_that_one_rank_never_calls", "gfx1100", || {
        on_ranks(2, None, |comm| {
            assert_eq!(add_ones(comm).expect("all call"), 2.0);
            if comm.rank() == 1 {
                return;
            }
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(300));
                    comm.abort().expect("an end");
                });
                // The double runs the kernel within the call.
                refused(add_ones(comm), Status::PeerLost, &["crk_comm_abort was called on rank 0"]);
                works(comm.device());
            });
        });
    });
}

/// A group of calls of several communicators: each has one, so it is a sum of our own on all ranks.
#[test]
fn small_sums_in_groups() {
    with_peer_memory("small_sums_in_groups", "gfx1100", || {
        let ids = [0; 2].map(|_| open(0).comm_id().expect("an id"));
        let ids = &ids;
        std::thread::scope(|scope| {
            for rank in 0..2 {
                scope.spawn(move || {
                    let device = open(rank);
                    let comms = ids.each_ref().map(|id| Comm::new(&device, id, rank, 2, PATIENCE).expect("a rank"));
                    let sums = [0; 2].map(|_| device.upload(&[1f32; 8]).expect("memory"));
                    let both = || -> Result<(), Error> {
                        comms[0].all_reduce_in_place(F32, SUM, &sums[0], 8)?;
                        comms[1].all_reduce_in_place(F32, SUM, &sums[1], 8)
                    };
                    if rank == 0 {
                        // SAFETY: the buffers and the communicators outlive the group.
                        unsafe { comm_group(both) }.expect("a group");
                    } else {
                        both().expect("calls one by one");
                    }
                    for comm in &comms {
                        comm.wait(PATIENCE).expect("the sums");
                    }
                    assert_eq!(sums.each_ref().map(|sum| floats(sum)[7]), [2.0, 2.0]);
                });
            }
        });
        let controls = Controls::get();
        let own = controls.launches();
        assert_eq!(own.iter().filter(|line| *line == "one_shot_sum_f32 1").count(), 4, "{own:?}");
        assert!(controls.collectives().iter().all(|line| !line.starts_with("ncclAllReduce")));
    });
}

/// Sums of two ranks are launches of our own. Beside other work they are copies and launches, from a MiB on.
#[test]
fn large_sums_of_two() {
    with_peer_memory("large_sums_of_two", "gfx90a", || {
        let (few, piece, more) = (40_001, 2_000_001, 5_000_001);
        on_ranks(2, PATIENCE, |comm| {
            let (rank, device) = (comm.rank(), comm.device());
            let side = open(rank);
            let rounds = [(few, false), (more, true), (more, true), (more, false), (few, true), (piece, true)];
            for (round, (count, beside)) in rounds.into_iter().enumerate() {
                let mine: Vec<f32> = (0..count).map(|i| (i % 1000 + 1000 * rank + round) as f32).collect();
                let src = device.upload(&mine).expect("memory");
                let other = device.alloc(4 * count).expect("memory");
                let dst = if round == 0 { &other } else { &src };
                device.synchronize().expect("an upload");
                // SAFETY: the streams are idle before and after the call, and `side` outlives it.
                unsafe { comm.run_beside(beside.then_some(&side)) }.expect("a handle of the same device");
                comm.all_reduce(F32, SUM, &src, dst, count).expect("a sum");
                comm.wait(PATIENCE).expect("the sum");
                let sums = floats(dst);
                let wrong = (0..count).find(|&i| sums[i] != (2 * (i % 1000) + 1000 + 2 * round) as f32);
                assert_eq!(wrong, None, "round {round}");
            }
            // SAFETY: the communicator's own handle.
            unsafe { comm.run_beside(None) }.expect("the own handle");
            // The last three are rows of eight parts, rows that are no whole packs, and short rows.
            for (rows, cols) in [(70, 4096), (5000, 512), (3, 8192), (9, 16384), (33, 1025), (1000, 64)] {
                norm_of_sums(comm, rows, cols);
            }
        });
        let controls = Controls::get();
        let launches = controls.launches();
        let count = |wanted: &str| launches.iter().filter(|line| *line == wanted).count();
        assert_eq!(count("meet 1"), 2 * (3 + 3 + 1), "three pieces in each of two rounds beside, then one");
        assert_eq!(count("marked_sum_f32 20"), 2);
        assert_eq!([count("marked_sum_f32 2048"), count("marked_sum_f32 394")], [2, 2], "two launches");
        assert_eq!([count("marked_norm_f32 70"), count("marked_norm_f32 3")], [2, 2]);
        let sums = ["72", "17", "32"].map(|parts| count(&format!("marked_sum_f32 {parts}")));
        assert_eq!(sums, [2; 3], "a sum, then a norm");
        assert_eq!([count("marked_norm_f32 2048"), count("marked_norm_f32 904")], [4, 2], "three launches");
        let by_the_library = controls.collectives();
        assert_eq!(by_the_library.iter().filter(|line| line.starts_with("ncclAllReduce")).count(), 2);
    });
}

#[test]
fn three_gpus_add_and_gather() {
    with_rccl("three_gpus_add_and_gather", || {
        assert_eq!(open(0).comm_library().expect("a library"), ("RCCL", 22800));
        for size in 1..=3 {
            on_ranks(size, PATIENCE, |comm| all_collectives(comm).expect("no failure"));
            // Without a timeout the library itself waits.
            on_ranks(size, None, |comm| all_collectives(comm).expect("no failure"));
        }
        let controls = Controls::get();
        assert_eq!((controls.calls("ncclCommInitRankConfig"), controls.calls("ncclCommInitRank")), (6, 6));
        assert_eq!((controls.calls("ncclCommDestroy"), controls.calls("ncclCommFinalize")), (12, 6));
        assert_eq!((controls.communicators(), controls.calls("ncclCommAbort")), (0, 0));
    });
}

#[test]
fn integers_and_doubles() {
    with_rccl("integers_and_doubles", || {
        on_ranks(3, PATIENCE, |comm| {
            let value = comm.rank() as u8 + 2;
            macro_rules! reduce {
                ($dtype:ident, $t:ty) => {
                    for (op, expected) in
                        [(SUM, 9), (CommOp::Prod, 24), (CommOp::Max, 4), (CommOp::Min, 2), (CommOp::Avg, 3)]
                    {
                        let buffer = comm.device().upload(&[<$t>::from(value); 5]).expect("memory");
                        comm.all_reduce_in_place(DType::$dtype, op, &buffer, 5).expect("a collective");
                        assert_eq!(buffer.download::<$t>().expect("a copy"), [<$t>::from(expected as u8); 5]);
                    }
                };
            }
            reduce!(U8, u8);
            reduce!(U32, u32);
            reduce!(I32, i32);
            reduce!(I64, i64);
            reduce!(F32, f32);
            reduce!(F64, f64);
        });
    });
}

/// The numbers of the library's dtypes. What it has not is moved as bytes.
#[test]
fn dtypes_by_number() {
    let test = "dtypes_by_number";
    if double::is_alone(test) {
        let version: i32 = std::env::var("NCCL_DOUBLE_VERSION").expect("set").parse().expect("a number");
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, PATIENCE).expect("a communicator");
        let (src, dst) = (device.alloc(256).expect("memory"), device.alloc(256).expect("memory"));
        controls.collectives();
        let numbers = [
            (DType::U8, 1),
            (DType::I32, 2),
            (DType::U32, 3),
            (DType::I64, 4),
            (DType::F16, 6),
            (DType::F32, 7),
            (DType::F64, 8),
            (DType::BF16, 9),
        ];
        for (dtype, number) in numbers {
            comm.all_reduce(dtype, CommOp::Avg, &src, &dst, 4).expect("a collective");
            comm.all_gather(dtype, &src, &dst, 4).expect("a collective");
            let expected = [
                format!("ncclAllReduce rank=0 count=4 type={number} op=4 peer=0"),
                format!("ncclAllGather rank=0 count=4 type={number} op=0 peer=0"),
            ];
            assert_eq!(controls.collectives(), expected, "{dtype:?}");
        }
        comm.broadcast(DType::I16, Some((&src).into()), &dst, 4, 0).expect("a collective");
        comm.all_to_all(DType::F8E4M3, &src, &dst, 4).expect("a collective");
        let expected = [
            "ncclBroadcast rank=0 count=8 type=1 op=0 peer=0".to_owned(),
            "ncclSend rank=0 count=4 type=1 op=0 peer=0".to_owned(),
            "ncclRecv rank=0 count=4 type=1 op=0 peer=0".to_owned(),
        ];
        assert_eq!(controls.collectives(), expected);
        let words = ["crk_comm_all_reduce: dtype i16 cannot be reduced"];
        refused(comm.all_reduce(DType::I16, SUM, &src, &dst, 4), Status::Unsupported, &words);
        let reduced = comm.reduce_scatter(DType::F8E4M3, SUM, &src, &dst, 4);
        if version >= 22400 {
            reduced.expect("a collective");
            assert_eq!(controls.collectives(), ["ncclReduceScatter rank=0 count=4 type=10 op=0 peer=0"]);
        } else {
            let words = ["crk_comm_reduce_scatter: dtype f8e4m3 is reduced by version 2.24", &version.to_string()];
            refused(reduced, Status::Unsupported, &words);
        }
        assert_eq!(add_ones(&comm).expect("still usable"), 1.0);
        return;
    }
    for version in ["21803", "22005", "22105", "22203", "22304", "22403", "22606", "22703", "22803"] {
        alone(test, "gfx1100", 6, &[("NCCL_DOUBLE_VERSION", version)], || unreachable!());
    }
}

/// RCCL has another format of 8-bit floats on gfx942.
#[test]
fn f8_on_gfx942() {
    alone("f8_on_gfx942", "gfx942", 6, &[], || {
        let device = open(0);
        let comm = single(&device, PATIENCE).expect("a communicator");
        let (src, dst) = (device.upload(&[0x38u8; 4]).expect("memory"), device.alloc(4).expect("memory"));
        let words = ["dtype f8e4m3 cannot be reduced on gfx942"];
        refused(comm.all_reduce(DType::F8E4M3, SUM, &src, &dst, 4), Status::Unsupported, &words);
        comm.all_gather(DType::F8E4M3, &src, &dst, 4).expect("it is only moved");
        assert_eq!(dst.download::<u8>().expect("a copy"), [0x38; 4]);
    });
}

#[test]
fn a_library_that_is_too_old() {
    alone("a_library_that_is_too_old", "gfx1100", 6, &[("NCCL_DOUBLE_VERSION", "21705")], || {
        let device = open(0);
        let words =
            ["crk_comm_id_create: CANDLE_ROCM_RCCL_LIBRARY names", "version 21705 (2.18, number 21800, or later"];
        refused(device.comm_id(), Status::NoRuntime, &words);
        refused(device.comm_library(), Status::NoRuntime, &["crk_comm_library: "]);
        works(&device);
    });
}

#[test]
fn a_library_that_is_missing() {
    let test = "a_library_that_is_missing";
    let body = || {
        let device = open(0);
        let named = std::env::var("CANDLE_ROCM_RCCL_LIBRARY").is_ok_and(|name| !name.is_empty());
        let words: &[&str] = if named {
            &["CANDLE_ROCM_RCCL_LIBRARY names /nowhere/librccl.so.1, which cannot be used for RCCL: "]
        } else {
            &[
                "no RCCL: no librccl.so of any version in ROCM_PATH",
                "; install ROCm's package rccl, put its folder on LD_LIBRARY_PATH, or name the file in \
                 CANDLE_ROCM_RCCL_LIBRARY",
            ]
        };
        refused(device.comm_id(), Status::NoRuntime, &[&["crk_comm_id_create: "], words].concat());
        let created = Comm::new(&device, &CommId::default(), 0, 1, PATIENCE).map(drop);
        refused(created, Status::NoRuntime, &[&["crk_comm_create: "], words].concat());
        works(&device);
    };
    if double::is_alone(test) {
        return body();
    }
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_RCCL_LIBRARY", "/nowhere/librccl.so.1")], body);
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_RCCL_LIBRARY", ""), ("LD_LIBRARY_PATH", "")], body);
}

#[test]
fn a_library_of_another_runtime() {
    let other = text(hip_double::without(&["hipGraphLaunch"]));
    alone("a_library_of_another_runtime", "gfx1100", 6, &[("CANDLE_ROCM_RCCL_LIBRARY", &other)], || {
        let words = ["is linked to another HIP runtime than the one in use"];
        refused(open(0).comm_id(), Status::NoRuntime, &words);
    });
}

/// The double without some calls, for a process of its own.
fn alone_without(test: &str, calls: &[&str], body: fn()) {
    let library = text(hip_double::without(calls));
    let extra = [
        ("CANDLE_ROCM_RCCL_LIBRARY", library.as_str()),
        ("CANDLE_ROCM_HIP_LIBRARY", library.as_str()),
        ("TEST_MISSING", calls[0]),
        ("HIP_DOUBLE_DEVICES", "2"),
        ("NCCL_DOUBLE_VERSION", "21803"),
    ];
    alone(test, "gfx1100", 6, &extra, body);
}

#[test]
fn a_library_that_lacks_a_call() {
    let test = "a_library_that_lacks_a_call";
    let body = || {
        let missing = std::env::var("TEST_MISSING").expect("set");
        let words = [format!("{missing} is missing in "), "/libamdhip64-without-".into()];
        refused(open(0).comm_id(), Status::NoRuntime, &words.each_ref().map(String::as_str));
    };
    if double::is_alone(test) {
        return body();
    }
    for call in REQUIRED {
        alone_without(test, &[call], body);
    }
}

/// Without newer calls the rest works; the library then waits without a bound.
#[test]
fn a_library_without_newer_calls() {
    let test = "a_library_without_newer_calls";
    let body = || {
        let missing = std::env::var("TEST_MISSING").expect("set");
        on_ranks(2, PATIENCE, |comm| {
            all_collectives(comm).expect("no failure");
            assert!(comm.is_ready().expect("no failure"));
        });
        let device = open(0);
        let id = device.comm_id().expect("an id");
        let started = Comm::start(&device, &id, 0, 1, PATIENCE);
        if missing == "ncclCommFinalize" {
            let comm = started.expect("a communicator");
            comm.wait(PATIENCE).expect("ready");
            assert_eq!(add_ones(&comm).expect("no failure"), 1.0);
        } else {
            let words = [
                format!("crk_comm_create_async: {missing} is missing in "),
                "version 21803; install a later RCCL, or use crk_comm_create".into(),
            ];
            refused(started.map(drop), Status::Unsupported, &words.each_ref().map(String::as_str));
            assert!(Controls::get().calls("ncclCommInitRank") >= 2);
        }
        assert_eq!(Controls::get().communicators(), 0);
    };
    if double::is_alone(test) {
        return body();
    }
    for call in ["ncclCommInitRankConfig", "ncclCommGetAsyncError", "ncclCommFinalize"] {
        alone_without(test, &[call], body);
    }
    let all = ["ncclCommInitRankConfig", "ncclCommGetAsyncError", "ncclCommFinalize", "ncclGetLastError"];
    alone_without(test, &all, body);
}

// ---- failures

/// Each call fails once. The sentence names it; the device works on, and no communicator is left.
#[test]
fn every_call_fails_in_turn() {
    with_rccl("every_call_fails_in_turn", || {
        let controls = Controls::get();
        let device = open(0);
        let work = |timeout| {
            let comm = single(&device, timeout)?;
            all_collectives(&comm)
        };
        work(PATIENCE).expect("no failure");
        let config = ["ncclCommInitRankConfig", "ncclCommGetAsyncError"];
        let calls = REQUIRED.iter().skip(1).chain(&config);
        for call in calls.filter(|call| !["ncclCommDestroy", "ncclCommAbort", "ncclCommInitRank"].contains(call)) {
            for timeout in [PATIENCE, None] {
                if timeout.is_none() && *call == "ncclCommInitRankConfig" {
                    continue;
                }
                controls.fail(call, 1, 3);
                let words = [&format!("{call} of RCCL answers 3 (internal error): the double's last words")[..]];
                let error = refused(work(timeout), Status::Device, &words);
                assert_eq!(error.device_code(), 3);
                assert!(error.message().starts_with("crk_comm_"), "{error}");
                assert_eq!(controls.communicators(), 0, "{call}");
                works(&device);
                work(timeout).expect("no failure any more");
            }
        }
        controls.fail("ncclCommInitRank", 1, 2);
        let words = ["crk_comm_create: ncclCommInitRank of RCCL answers 2 (unhandled system error)"];
        refused(work(None), Status::Device, &words);
        // A failure that has no name, and that of another rank.
        controls.fail("ncclAllReduce", 1, 77);
        refused(work(PATIENCE), Status::Device, &["crk_comm_all_reduce: ncclAllReduce of RCCL answers 77 (no name)"]);
        controls.fail("ncclAllReduce", 1, 6);
        refused(work(PATIENCE), Status::PeerLost, &["ncclAllReduce of RCCL answers 6 (remote process exited)"]);
        assert_eq!(controls.communicators(), 0);
        // Failures at the end have nowhere to go. What the library kept then is the library's.
        for call in ["ncclCommFinalize", "ncclCommDestroy"] {
            controls.fail(call, 1, 3);
            work(PATIENCE).expect("no failure before");
            works(&device);
        }
    });
}

#[test]
fn a_failure_ends_the_communicator() {
    with_rccl("a_failure_ends_the_communicator", || {
        let (controls, device) = (Controls::get(), open(0));
        for (state, status) in [(6, Status::PeerLost), (1, Status::Device)] {
            let comm = single(&device, PATIENCE).expect("a communicator");
            assert_eq!(add_ones(&comm).expect("no failure"), 1.0);
            let aborts = controls.calls("ncclCommAbort");
            controls.fail("ncclState", 0, state);
            let words = ["crk_comm_wait: the communicator of RCCL answers "];
            let first = refused(comm.wait(PATIENCE), status, &words);
            controls.fail("ncclState", 0, 0);
            assert_eq!(controls.calls("ncclCommAbort"), aborts + 1);
            let kept = first.message();
            let words = ["the communicator has ended: ", kept];
            assert_eq!(refused(add_ones(&comm), status, &words).device_code(), if state == 1 { 1 } else { 0 });
            refused(comm.is_ready(), status, &words);
            refused(comm.wait(PATIENCE), status, &words);
            comm.abort().expect("it has ended already");
            works(&device);
            drop(comm);
            assert_eq!((controls.calls("ncclCommAbort"), controls.communicators()), (aborts + 1, 0));
        }
        // While a collective is started.
        let comm = single(&device, PATIENCE).expect("a communicator");
        controls.fail("ncclState", 1, 6);
        refused(add_ones(&comm), Status::PeerLost, &["crk_comm_all_reduce: the communicator of RCCL answers 6"]);
        works(&device);
    });
}

/// The GPU waits for a rank that does not come: the work in the stream is not done before the abort.
#[test]
fn a_lost_rank_ends_in_an_error() {
    with_rccl("a_lost_rank_ends_in_an_error", || {
        let (controls, device) = (Controls::get(), open(0));
        for timeout in [PATIENCE, None] {
            let comm = single(&device, timeout).expect("a communicator");
            let (begin, aborts) = (Instant::now(), controls.calls("ncclCommAbort"));
            controls.fail("ncclLost", 0, 1);
            let buffer = device.upload(&[1f32; 8]).expect("memory");
            comm.all_reduce_in_place(F32, SUM, &buffer, 8).expect("it is started");
            controls.fail("hipEventQuery", 0, 600);
            let words = ["crk_comm_wait: the work of rank 0 was not done within 300 ms; another rank may be lost"];
            refused(comm.wait(short(300)), Status::PeerLost, &words);
            controls.fail("hipEventQuery", 0, 0);
            controls.fail("ncclLost", 0, 0);
            assert!(begin.elapsed() >= Duration::from_millis(300) && begin.elapsed() < Duration::from_secs(20));
            assert_eq!((controls.calls("ncclCommAbort"), controls.communicators()), (aborts + 1, 0));
            refused(add_ones(&comm), Status::PeerLost, &["the communicator has ended: ", "another rank may be lost"]);
            works(&device);
        }
    });
}

/// The wait is for an event that the program has recorded: it marks nothing itself. It ends in an error like the wait
/// for all work.
#[test]
fn waits_for_an_event() {
    with_rccl("waits_for_an_event", || {
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, PATIENCE).expect("a communicator");
        let (buffer, event) = (device.upload(&[1f32; 8]).expect("memory"), device.event().expect("an event"));
        comm.wait_event(&event, PATIENCE).expect("nothing is recorded");
        comm.all_reduce_in_place(F32, SUM, &buffer, 8).expect("a sum");
        event.record(&device).expect("a mark");
        let records = controls.calls("hipEventRecord");
        comm.wait_event(&event, PATIENCE).expect("the sum");
        assert_eq!(controls.calls("hipEventRecord"), records);
        device
            .capture(|| {
                let words = ["crk_comm_wait_event: "];
                refused(comm.wait_event(&event, PATIENCE), Status::Capture, &words);
                Ok::<_, Error>(())
            })
            .expect("a capture");
        event.record(&device).expect("a mark");
        controls.fail("hipEventQuery", 0, 600);
        let words = ["crk_comm_wait_event: the work of rank 0 was not done within 300 ms; another rank may be lost"];
        refused(comm.wait_event(&event, short(300)), Status::PeerLost, &words);
        controls.fail("hipEventQuery", 0, 0);
        refused(comm.wait_event(&event, PATIENCE), Status::PeerLost, &["the communicator has ended: "]);
        works(&device);
    });
}

/// Another thread aborts a communicator without a timeout. The double ends the process if a call then still uses it.
#[test]
fn an_abort_meets_a_thread_that_polls() {
    with_rccl("an_abort_meets_a_thread_that_polls", || {
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, None).expect("a communicator");
        controls.fail("hipEventQuery", 0, 600);
        controls.fail("ncclCommGetAsyncError", 0, -50);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| comm.wait(None));
            std::thread::sleep(Duration::from_millis(120));
            comm.abort().expect("an end");
            let words = ["crk_comm_wait: the communicator has ended: crk_comm_abort was called on rank 0"];
            refused(waiting.join().expect("no panic"), Status::PeerLost, &words);
        });
        controls.fail("hipEventQuery", 0, 0);
        assert_eq!(controls.communicators(), 0);
        works(&device);
    });
}

/// The same, where the thread waits in the library: in a call alone, and in a group.
#[test]
fn an_abort_meets_a_thread_in_the_library() {
    with_rccl("an_abort_meets_a_thread_in_the_library", || {
        for groups in [false, true] {
            on_ranks(2, None, |comm| {
                if comm.rank() == 1 {
                    return;
                }
                let [src, dst] = [0; 2].map(|_| comm.device().upload(&[1f32; 8]).expect("memory"));
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| match groups {
                        true => comm.all_to_all(F32, &src, &dst, 4),
                        false => comm.all_reduce(F32, SUM, &src, &dst, 8),
                    });
                    std::thread::sleep(Duration::from_millis(200));
                    comm.abort().expect("an end");
                    let words = [": the communicator has ended: crk_comm_abort was called on rank 0"];
                    refused(waiting.join().expect("no panic"), Status::PeerLost, &words);
                });
                works(comm.device());
            });
        }
        assert_eq!(Controls::get().communicators(), 0);
    });
}

/// The same, where the thread is still building the group.
#[test]
fn an_abort_meets_a_thread_that_builds_a_group() {
    with_rccl("an_abort_meets_a_thread_that_builds_a_group", || {
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, None).expect("a communicator");
        let buffer = device.upload(&[1f32; 8]).expect("memory");
        controls.fail("ncclAllReduce", 2, -500);
        std::thread::scope(|scope| {
            // SAFETY: the buffer and the communicator outlive the group.
            let building = scope.spawn(|| unsafe {
                comm_group(|| (0..2).try_for_each(|_| comm.all_reduce_in_place(F32, SUM, &buffer, 8)))
            });
            while controls.calls("ncclAllReduce") < 2 {
                std::thread::yield_now();
            }
            comm.abort().expect("an end");
            let words = ["crk_comm_all_reduce: the communicator has ended: crk_comm_abort was called on rank 0"];
            refused(building.join().expect("no panic"), Status::PeerLost, &words);
        });
        assert_eq!(controls.communicators(), 0);
        works(&device);
    });
}

/// A collective could not wait for the last one, which ran in another stream. The next attempt waits again.
#[test]
fn a_failed_wait_for_another_stream_is_repeated() {
    with_rccl("a_failed_wait_for_another_stream_is_repeated", || {
        let (controls, device) = (Controls::get(), open(0));
        let (comm, side) = (single(&device, PATIENCE).expect("a communicator"), device.new_stream().expect("a handle"));
        let [ones, sums, dst] = [1f32, 0.0, 0.0].map(|value| device.upload(&[value; 8]).expect("memory"));
        device.synchronize().expect("the uploads");
        // SAFETY: `side` outlives the communicator's work in it.
        unsafe { comm.run_beside(Some(&side)) }.expect("a handle of the same device");
        comm.all_reduce_in_place(F32, SUM, &ones, 8).expect("a collective");
        // SAFETY: live handles of one device and memory of its.
        let copied = unsafe { sys::crk_copy(side.raw(), sums.raw_view(), ones.raw_view().into(), 32) };
        assert_eq!(copied, Status::Ok);
        // SAFETY: the communicator's own handle.
        unsafe { comm.run_beside(None) }.expect("the own handle");
        for call in ["hipEventRecord", "hipStreamWaitEvent"] {
            controls.fail(call, 1, 999);
            refused(comm.all_reduce(F32, SUM, &sums, &dst, 8), Status::Device, &[call, "999"]);
        }
        comm.all_reduce(F32, SUM, &sums, &dst, 8).expect("a collective");
        comm.wait(PATIENCE).expect("the work is done");
        assert_eq!(floats(&dst), [1.0; 8], "the collective came before the work of the other stream");
    });
}

/// The stream fails meanwhile.
#[test]
fn a_failing_stream_ends_the_wait() {
    with_rccl("a_failing_stream_ends_the_wait", || {
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, PATIENCE).expect("a communicator");
        controls.fail("hipEventQuery", 1, 719);
        let error = refused(comm.wait(PATIENCE), Status::Device, &["hipEventQuery", "719"]);
        assert_eq!(error.device_code(), 719);
        refused(add_ones(&comm), Status::Device, &["the communicator has ended: ", "719"]);
        works(&device);
    });
}

#[test]
fn a_library_that_does_not_start_the_work() {
    with_rccl("a_library_that_does_not_start_the_work", || {
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, short(300)).expect("a communicator");
        controls.fail("ncclStuck", 0, 1);
        let words = ["crk_comm_all_reduce: RCCL had not started the work within 300 ms; another rank may be lost"];
        refused(add_ones(&comm), Status::PeerLost, &words);
        works(&device);
        drop(comm);
        // Another thread aborts the call.
        controls.fail("ncclStuck", 0, 0);
        let comm = single(&device, PATIENCE).expect("a communicator");
        controls.fail("ncclStuck", 0, 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| add_ones(&comm));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!comm.is_ready().expect("no failure"));
            comm.abort().expect("an end");
            let words = ["the communicator has ended: crk_comm_abort was called on rank 0"];
            refused(waiting.join().expect("no panic"), Status::PeerLost, &words);
        });
        controls.fail("ncclStuck", 0, 0);
        works(&device);
        drop(comm);
        // The end takes no longer than the timeout either.
        let comm = single(&device, short(200)).expect("a communicator");
        assert_eq!(add_ones(&comm).expect("no failure"), 1.0);
        controls.fail("ncclStuck", 0, 1);
        let (begin, aborts) = (Instant::now(), controls.calls("ncclCommAbort"));
        drop(comm);
        assert!(begin.elapsed() < Duration::from_secs(10));
        assert_eq!((controls.calls("ncclCommAbort"), controls.communicators()), (aborts + 1, 0));
    });
}

#[test]
fn a_rank_that_is_never_created() {
    with_rccl("a_rank_that_is_never_created", || {
        let device = open(0);
        let id = device.comm_id().expect("an id");
        let words = ["crk_comm_create: not all of the 2 ranks came within 200 ms"];
        refused(Comm::new(&device, &id, 1, 2, short(200)).map(drop), Status::PeerLost, &words);
        assert_eq!(Controls::get().communicators(), 0);
        let id = device.comm_id().expect("an id");
        let comm = Comm::start(&device, &id, 1, 2, short(200)).expect("it begins");
        assert!(!comm.is_ready().expect("no failure"));
        refused(add_ones(&comm), Status::NotReady, &["crk_comm_all_reduce: not all ranks are there yet"]);
        let words = ["crk_comm_wait: not all of the 2 ranks came within "];
        refused(comm.wait(short(100)), Status::PeerLost, &words);
        assert_eq!(Controls::get().communicators(), 0);
        works(&device);
    });
}

// ---- groups, graphs

#[test]
fn one_thread_with_three_gpus() {
    with_rccl("one_thread_with_three_gpus", || {
        let controls = Controls::get();
        let devices: Vec<_> = (0..3).map(open).collect();
        let id = devices[0].comm_id().expect("an id");
        let comms: Vec<_> = (0..3).map(|r| Comm::start(&devices[r], &id, r, 3, PATIENCE).expect("a rank")).collect();
        comms.iter().for_each(|comm| comm.wait(PATIENCE).expect("all are there"));
        let buffers: Vec<_> = devices.iter().map(|device| device.upload(&[1f32; 4]).expect("memory")).collect();
        for round in 1..4 {
            let groups = controls.calls("ncclGroupStart");
            // SAFETY: everything lives until the group has ended.
            unsafe {
                comm_group(|| {
                    let mut pairs = comms.iter().zip(&buffers);
                    pairs.try_for_each(|(comm, buffer)| comm.all_reduce_in_place(F32, SUM, buffer, 4))
                })
            }
            .expect("a group");
            assert_eq!(controls.calls("ncclGroupStart"), groups + 1);
            for (comm, buffer) in comms.iter().zip(&buffers) {
                comm.wait(PATIENCE).expect("the work is done");
                assert_eq!(floats(buffer), [3f32.powi(round); 4]);
            }
        }
        // A failure ends all communicators of the group.
        controls.fail("ncclGroupEnd", 1, 3);
        // SAFETY: as above.
        let done = unsafe {
            comm_group(|| {
                comms[0].all_reduce_in_place(F32, SUM, &buffers[0], 4)?;
                comms[1].all_reduce_in_place(F32, SUM, &buffers[1], 4)
            })
        };
        refused(done, Status::Device, &["crk_comm_all_reduce: ncclGroupEnd of RCCL answers 3"]);
        refused(comms[0].is_ready(), Status::Device, &["ncclGroupEnd of RCCL answers 3"]);
        refused(comms[1].is_ready(), Status::Device, &["ncclGroupEnd of RCCL answers 3"]);
        assert!(comms[2].is_ready().expect("it was not in the group"));
        devices.iter().for_each(works);
    });
}

#[test]
fn communicators_that_cannot_be_in_one_group() {
    with_rccl("communicators_that_cannot_be_in_one_group", || {
        let (one, other) = (open(0), open(1));
        let comms = [single(&one, PATIENCE), single(&other, None)].map(|comm| comm.expect("a communicator"));
        let buffers = [&one, &other].map(|device| device.upload(&[1f32; 4]).expect("memory"));
        // SAFETY: everything lives until the group has ended.
        let done = unsafe {
            comm_group(|| {
                comms[0].all_reduce_in_place(F32, SUM, &buffers[0], 4)?;
                comms[1].all_reduce_in_place(F32, SUM, &buffers[1], 4)
            })
        };
        let words = ["with a timeout and without one (CRK_COMM_FOREVER) cannot be in the same group"];
        refused(done, Status::InvalidArgument, &words);
        comms.iter().for_each(|comm| assert_eq!(add_ones(comm).expect("it goes on"), 1.0));
    });
}

#[test]
fn a_capture_records_collectives() {
    with_rccl("a_capture_records_collectives", || {
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, PATIENCE).expect("a communicator");
        let buffer = device.upload(&[1f32; 4]).expect("memory");
        controls.collectives();
        let work = || {
            comm.all_reduce_in_place(F32, SUM, &buffer, 4)?;
            // SAFETY: the buffer and the communicator outlive the group.
            unsafe { comm_group(|| comm.all_reduce_in_place(F32, CommOp::Max, &buffer, 4)) }
        };
        let (graph, ()) = device.capture(work).expect("a graph");
        let expected = [0, 2].map(|op| format!("ncclAllReduce rank=0 count=4 type=7 op={op} peer=0"));
        assert_eq!(controls.collectives(), expected);
        refused(device.capture(|| comm.wait(PATIENCE)).map(drop), Status::Capture, &["crk_comm_wait"]);
        drop(graph);
        assert_eq!(add_ones(&comm).expect("no failure"), 1.0);
    });
}

/// The library keeps a communicator until the graphs with its collectives are destroyed. A failure is told before.
#[test]
fn an_end_does_not_wait_for_graphs() {
    let settings = [("HIP_DOUBLE_DEVICES", "3"), ("NCCL_DOUBLE_KEEPS", "1")];
    alone("an_end_does_not_wait_for_graphs", "gfx1100", 6, &settings, || {
        let (controls, device) = (Controls::get(), open(0));
        let ends: [fn(Comm); 3] = [
            |comm| {
                let controls = Controls::get();
                controls.fail("hipEventQuery", 0, 600);
                let words = ["crk_comm_wait: the work of rank 0 was not done within 300 ms; another rank may be lost"];
                refused(comm.wait(short(300)), Status::PeerLost, &words);
                controls.fail("hipEventQuery", 0, 0);
            },
            |comm| comm.abort().expect("an end"),
            |comm| {
                let lost = Controls::get();
                lost.fail("ncclState", 1, 6);
                refused(comm.is_ready(), Status::PeerLost, &["the communicator of RCCL answers 6"]);
            },
        ];
        for timeout in [PATIENCE, None] {
            for end in ends {
                let comm = single(&device, timeout).expect("a communicator");
                let buffer = device.upload(&[1f32; 4]).expect("memory");
                let work = || comm.all_reduce_in_place(F32, SUM, &buffer, 4);
                let (graph, ()) = device.capture(work).expect("a graph");
                let begin = Instant::now();
                end(comm);
                assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
                works(&device);
                assert_eq!(controls.communicators(), 1, "the library waits for the graph");
                drop(graph);
                while controls.communicators() > 0 {
                    assert!(begin.elapsed() < Duration::from_secs(15), "the library's part does not end");
                    std::thread::yield_now();
                }
            }
        }
    });
}

/// Each collective waits for its own work and returns its failure.
#[test]
fn synchronous_handles() {
    alone("synchronous_handles", "gfx1100", 6, &[("CANDLE_ROCM_SYNC", "1")], || {
        let (controls, device) = (Controls::get(), open(0));
        let comm = single(&device, short(300)).expect("a communicator");
        let buffer = device.upload(&[1f32; 4]).expect("memory");
        let before = device.operations().expect("a number");
        comm.all_reduce_in_place(F32, SUM, &buffer, 4).expect("a collective");
        assert_eq!(device.operations().expect("a number"), before + 1);
        controls.fail("hipEventQuery", 0, 600);
        let words = ["crk_comm_all_reduce: the work of rank 0 was not done within 300 ms"];
        refused(comm.all_reduce_in_place(F32, SUM, &buffer, 4), Status::PeerLost, &words);
        controls.fail("hipEventQuery", 0, 0);
        works(&device);
    });
}

// ---- NCCL

/// Runs `body` in a process with the doubles of libcuda and NCCL.
fn with_nccl(test: &str, fail: &str, body: fn()) {
    let (cuda, nccl) = (format!("{SCRATCH}/libcuda_{test}.so"), format!("{SCRATCH}/libnccl_{test}.so"));
    if !double::is_alone(test) {
        double::compile("cuda_double.c", &[], &cuda);
        double::compile("nccl_double.c", &["-DNCCL_DOUBLE_ALONE"], &nccl);
    }
    let extra = [
        ("CANDLE_ROCM_CUDA_LIBRARY", cuda.as_str()),
        ("CANDLE_ROCM_NCCL_LIBRARY", nccl.as_str()),
        ("NCCL_DOUBLE_FAIL", fail),
        ("NCCL_DOUBLE_VERSION", "22304"),
    ];
    double::alone(test, &extra, body);
}

#[test]
fn nccl_on_cuda_devices() {
    with_nccl("nccl_on_cuda_devices", "", || {
        let device = Device::open(Backend::Cuda, 0).expect("the double opens");
        assert_eq!(device.comm_library().expect("a library"), ("NCCL", 22304));
        let id = device.comm_id().expect("an id");
        std::thread::scope(|scope| {
            for rank in 0..2 {
                scope.spawn(move || {
                    let device = Device::open(Backend::Cuda, 0).expect("the double opens");
                    let comm = Comm::new(&device, &id, rank, 2, PATIENCE).expect("a communicator");
                    all_collectives(&comm).expect("no failure");
                });
            }
        });
    });
}

#[test]
fn nccl_that_fails() {
    with_nccl("nccl_that_fails", "ncclAllGather=5", || {
        let device = Device::open(Backend::Cuda, 0).expect("the double opens");
        let comm = single(&device, PATIENCE).expect("a communicator");
        assert_eq!(add_ones(&comm).expect("no failure"), 1.0);
        let (src, dst) = (device.alloc(16).expect("memory"), device.alloc(16).expect("memory"));
        let words = ["crk_comm_all_gather: ncclAllGather of NCCL answers 5 (invalid usage): the double's last words"];
        assert_eq!(refused(comm.all_gather(F32, &src, &dst, 4), Status::Device, &words).device_code(), 5);
        refused(add_ones(&comm), Status::Device, &["the communicator has ended: ", "ncclAllGather"]);
    });
}

#[test]
fn nccl_that_is_missing() {
    let test = "nccl_that_is_missing";
    let cuda = format!("{SCRATCH}/libcuda_{test}.so");
    if !double::is_alone(test) {
        double::compile("cuda_double.c", &[], &cuda);
    }
    let extra = [
        ("CANDLE_ROCM_CUDA_LIBRARY", cuda.as_str()),
        ("CANDLE_ROCM_NCCL_LIBRARY", ""),
        ("LD_LIBRARY_PATH", ""),
        ("CUDA_HOME", ""),
        ("CUDA_PATH", ""),
    ];
    double::alone(test, &extra, || {
        let device = Device::open(Backend::Cuda, 0).expect("the double opens");
        let words = [
            "crk_comm_id_create: no NCCL: no libnccl.so of any version in CUDA_HOME",
            "; install NCCL (Debian, Ubuntu: libnccl2; Python: nvidia-nccl-cu13), put its folder on LD_LIBRARY_PATH, \
             or name the file in CANDLE_ROCM_NCCL_LIBRARY",
        ];
        refused(device.comm_id(), Status::NoRuntime, &words);
    });
}
