//! Collectives on the CPU device, among ranks that are threads: every function, dtype and reduction, at sizes from 0 to
//! 2^20, in place and out of place; ranks that never come, that leave and that abort; calls that do not agree; graphs;
//! groups; bad input. `comm_library.rs` has the same calls over doubles of RCCL and NCCL, `comm_devices.rs` on GPUs.
#![cfg(feature = "cpu")]
use candle_rocm_sys::{Buffer, Comm, CommId, CommOp, DType, Device, Error, Layout, Status, UnaryOp, comm_group, sys};
use candle_rocm_sys_tests::call;
use candle_rocm_sys_tests::support::collectives::*;
use candle_rocm_sys_tests::support::{self, Guarded};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

fn on_cpu<T: Send>(size: usize, timeout: Option<Duration>, body: impl Fn(&Comm) -> T + Sync) -> Vec<T> {
    on_ranks(&names("cpu:32", size), timeout, body)
}

// ---- every collective

/// All collectives of all dtypes with these counts, on a thread for each rank.
fn on_threads(device: &str, size: usize, counts: &[usize], ops: &[CommOp]) {
    on_ranks(&names(device, size), PATIENCE, |comm| everything(std::slice::from_ref(comm), counts, ops));
}

#[test]
fn small_counts() {
    for size in [1, 2, 3, 8] {
        for device in ["cpu:32", "cpu:64"] {
            on_threads(device, size, &[0, 1, 17, 1023], &OPS);
        }
    }
}

#[test]
fn all_ranks_in_one_thread() {
    for size in [2, 5] {
        in_one_thread(&names("cpu:32", size), |comms| everything(comms, &[0, 1, 17, 1023], &OPS));
    }
}

/// What `comm_devices` compares on the device.
#[test]
fn contents_are_compared() {
    let device = support::open("cpu:32").expect("a device");
    let of = |byte: u8| {
        let fill = |buffer: &Buffer, at: usize| buffer.range(at..at + 999)?.write(&[&[7; 998][..], &[byte]].concat());
        Guarded::filled(&device, 999, fill).expect("memory")
    };
    assert_eq!(of(7).equals(&of(7)), Ok(()));
    assert!(of(7).equals(&of(8)).is_err());
    let beyond = |buffer: &Buffer, at: usize| buffer.range(at..at + 1000)?.write(&[7u8; 1000]);
    let spoilt = Guarded::filled(&device, 999, beyond).expect("memory");
    assert!(spoilt.equals(&of(7)).is_err());
}

#[test]
fn a_million_elements_among_two() {
    on_threads("cpu:32", 2, &[1 << 20], &[CommOp::Sum]);
}

#[test]
fn a_million_elements_among_three_and_eight() {
    on_threads("cpu:64", 3, &[(1 << 20) / 3], &[CommOp::Sum]);
    on_threads("cpu:32", 8, &[(1 << 20) / 8], &[CommOp::Sum]);
}

/// Sums of floats in the order of the ranks, in f32 or f64, rounded once. So they are the same in every run.
#[test]
fn sums_are_in_the_order_of_the_ranks() {
    let count = 1000;
    let number = |rank: usize, i: usize| {
        let bits = (rank as u64 * 1_000_003 + i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((bits >> 40) as f64 / (1 << 24) as f64 - 0.5) * 2f64.powi((bits % 9) as i32 - 4)
    };
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64, DType::F8E4M3] {
        for size in [3, 8] {
            let sources: Vec<Vec<u8>> =
                (0..size).map(|r| (0..count).flat_map(|i| encode(dtype, number(r, i))).collect()).collect();
            let bytes = dtype.size();
            let at = |r: usize, i: usize| decode(dtype, &sources[r][i * bytes..(i + 1) * bytes]);
            let sum = |i: usize| {
                if dtype == DType::F64 {
                    (1..size).fold(at(0, i), |sum, r| sum + at(r, i))
                } else {
                    (1..size).fold(at(0, i) as f32, |sum, r| sum + at(r, i) as f32).into()
                }
            };
            let expected: Vec<u8> = (0..count).flat_map(|i| encode(dtype, sum(i))).collect();
            on_cpu(size, PATIENCE, |comm| {
                let buffer = memory(comm, &sources[comm.rank()]);
                let view = buffer.view();
                call!(crk_comm_all_reduce(comm.raw(), dtype, CommOp::Sum, constant(view), view, count));
                let case = Case { dtype, op: CommOp::Sum, count, in_place: true, on_gpu: false };
                expect(&buffer, &expected, case, "all_reduce");
            });
        }
    }
}

#[test]
fn extreme_numbers() {
    let sums = |dtype: DType, op: CommOp, values: [f64; 2]| {
        on_cpu(2, PATIENCE, |comm| {
            let buffer = memory(comm, &encode(dtype, values[comm.rank()]));
            let view = buffer.view();
            call!(crk_comm_all_reduce(comm.raw(), dtype, op, constant(view), view, 1));
            decode(dtype, &buffer.read().expect("no stray write"))
        })[1]
    };
    assert_eq!(sums(DType::I32, CommOp::Sum, [2147483647.0, 1.0]), -2147483648.0);
    assert_eq!(sums(DType::I32, CommOp::Avg, [-5.0, 2.0]), -1.0);
    assert_eq!(sums(DType::I32, CommOp::Min, [-5.0, 2.0]), -5.0);
    assert_eq!(sums(DType::U32, CommOp::Max, [4294967295.0, 2.0]), 4294967295.0);
    assert_eq!(sums(DType::U32, CommOp::Sum, [4294967295.0, 2.0]), 1.0);
    assert_eq!(sums(DType::U8, CommOp::Avg, [200.0, 100.0]), 22.0);
    assert_eq!(sums(DType::I64, CommOp::Prod, [-3.0, 5.0]), -15.0);
    assert_eq!(sums(DType::F8E4M3, CommOp::Sum, [448.0, 448.0]), 448.0);
    assert_eq!(sums(DType::F8E4M3, CommOp::Avg, [448.0, 448.0]), 448.0);
    assert_eq!(sums(DType::F16, CommOp::Sum, [65504.0, 65504.0]), f64::INFINITY);
    assert_eq!(sums(DType::F16, CommOp::Sum, [2f64.powi(-24), 2f64.powi(-24)]), 2f64.powi(-23));
    assert_eq!(sums(DType::BF16, CommOp::Max, [f64::NAN, 3.0]), 3.0);
    assert_eq!(sums(DType::F32, CommOp::Min, [f64::NEG_INFINITY, 3.0]), f64::NEG_INFINITY);
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64, DType::F8E4M3] {
        assert!(sums(dtype, CommOp::Sum, [f64::NAN, 3.0]).is_nan(), "{dtype:?}");
        assert!(sums(dtype, CommOp::Prod, [1.0, f64::NAN]).is_nan(), "{dtype:?}");
    }
}

// ---- ranks that are lost

/// The device works as before.
fn works(device: &Device) {
    let src = device.upload(&[1f32, -2.0]).expect("memory");
    let dst = device.alloc(8).expect("memory");
    let layout = Layout::contiguous(&[2]).expect("a layout");
    device.unary(UnaryOp::Neg, DType::F32, &layout, &src, &dst).expect("a launch");
    assert_eq!(dst.download::<f32>().expect("a copy"), [-1.0, 2.0]);
    device.synchronize().expect("no failure");
}

#[test]
fn a_rank_that_is_never_created() {
    let device = support::open("cpu:32").expect("a device");
    let id = device.comm_id().expect("an id");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for rank in [0, 2] {
            scope.spawn(move || {
                let device = support::open("cpu:32").expect("a device");
                let told = refused(
                    Comm::new(&device, &id, rank, 3, short(300)).map(drop),
                    Status::PeerLost,
                    &["crk_comm_create: "],
                );
                assert!(
                    told.contains("not all of the 3 ranks came within 300 ms") || told.contains("has ended"),
                    "{told}"
                );
                works(&device);
            });
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(20));
    // The name is free again.
    on_ids(&device, &id, 2);
}

/// Creates ranks with an id and uses them.
fn on_ids(device: &Device, id: &CommId, size: usize) {
    let comms: Vec<_> = (0..size)
        .map(|rank| Comm::start(&device.new_stream().expect("a handle"), id, rank, size, PATIENCE).expect("a rank"))
        .collect();
    assert!(comms.iter().all(|comm| comm.is_ready().expect("no failure")));
}

#[test]
fn a_rank_that_never_calls() {
    let begin = Instant::now();
    let barrier = Barrier::new(3);
    on_cpu(3, short(2000), |comm| {
        assert_eq!(add_ones(comm).expect("all call"), 3.0);
        barrier.wait();
        if comm.rank() != 1 {
            let words = ["crk_comm_all_reduce: rank ", " waited 2000 ms for rank(s) 1 in crk_comm_all_reduce"];
            refused(add_ones(comm), Status::PeerLost, &words);
            refused(
                add_ones(comm),
                Status::PeerLost,
                &["crk_comm_all_reduce: the communicator has ended: ", "rank(s) 1"],
            );
            refused(comm.is_ready(), Status::PeerLost, &["crk_comm_query: the communicator has ended"]);
            refused(comm.wait(PATIENCE), Status::PeerLost, &["crk_comm_wait: the communicator has ended"]);
            comm.abort().expect("it has ended already");
        }
        barrier.wait();
        if comm.rank() == 1 {
            refused(add_ones(comm), Status::PeerLost, &["waited 2000 ms for rank(s) 1"]);
        }
        works(comm.device());
    });
    assert!(begin.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_message_that_nobody_sends() {
    let late = Barrier::new(2);
    on_cpu(2, short(1500), |comm| {
        let buffer = comm.device().upload(&[7u8; 5]).expect("memory");
        if comm.rank() == 0 {
            let received = comm.recv(DType::U8, &buffer, 5, 1);
            refused(received, Status::PeerLost, &["crk_comm_recv: ", "for rank(s) 1 in crk_comm_recv"]);
            assert_eq!(buffer.download::<u8>().expect("a copy"), [7; 5]);
            late.wait();
        } else {
            late.wait();
            refused(comm.is_ready(), Status::PeerLost, &["crk_comm_query: ", "rank 0 waited 1500 ms"]);
        }
    });
}

/// The others need not wait for the timeout.
#[test]
fn a_rank_that_leaves() {
    let begin = Instant::now();
    let added = Barrier::new(3);
    on_cpu(3, PATIENCE, |comm| {
        assert_eq!(add_ones(comm).expect("all call"), 3.0);
        added.wait();
        if comm.rank() != 2 {
            refused(add_ones(comm), Status::PeerLost, &["2 (which has left)"]);
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(30));
}

/// A rank may go when its own work is done. The others still wait for theirs.
#[test]
fn a_rank_that_is_done_first() {
    for _ in 0..50 {
        on_cpu(3, PATIENCE, |_| ());
        on_cpu(3, PATIENCE, |comm| {
            assert_eq!(add_ones(comm).expect("all call"), 3.0);
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
            if comm.rank() != 2 {
                comm.wait(PATIENCE).expect("the work is done");
                assert!(comm.is_ready().expect("an answer"));
            }
        });
    }
}

#[test]
fn abort_ends_a_waiting_call() {
    let begin = Instant::now();
    let aborted = Barrier::new(2);
    on_cpu(2, None, |comm| {
        if comm.rank() == 0 {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| add_ones(comm));
                std::thread::sleep(Duration::from_millis(200));
                comm.abort().expect("an end");
                aborted.wait();
                refused(waiting.join().expect("no panic"), Status::PeerLost, &["rank 0 has ended the communicator"]);
            });
            refused(
                add_ones(comm),
                Status::PeerLost,
                &["the communicator has ended: crk_comm_abort was called on rank 0"],
            );
        } else {
            aborted.wait();
            refused(add_ones(comm), Status::PeerLost, &["rank 0 has ended the communicator"]);
        }
        works(comm.device());
    });
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn calls_that_do_not_agree() {
    type Call = fn(&Comm, &candle_rocm_sys::Buffer) -> Result<(), Error>;
    let add: Call = |comm, buffer| comm.all_reduce_in_place(DType::F32, CommOp::Sum, buffer, 4);
    let others: [(Call, &[&str]); 6] = [
        (|c, b| c.all_reduce_in_place(DType::F32, CommOp::Sum, b, 3), &["count is 4", "but 3 in crk_comm_all_reduce"]),
        (|c, b| c.all_reduce_in_place(DType::I32, CommOp::Sum, b, 4), &["dtype is f32", "but i32"]),
        (|c, b| c.all_reduce_in_place(DType::F32, CommOp::Max, b, 4), &["op is 0", "but 2"]),
        (|c, b| c.reduce(DType::F32, CommOp::Sum, b, None, 4, 0), &["rank 1 called crk_comm_reduce"]),
        (|c, b| c.broadcast(DType::F32, None, b, 4, 0), &["rank 1 called crk_comm_broadcast"]),
        (
            |c, b| {
                let dst = c.device().alloc(32)?;
                c.all_gather(DType::F32, b, &dst, 4)
            },
            &["rank 1 called crk_comm_all_gather"],
        ),
    ];
    for (other, words) in others {
        on_cpu(2, PATIENCE, |comm| {
            let buffer = comm.device().upload(&[1f32; 4]).expect("memory");
            let called = if comm.rank() == 0 { add(comm, &buffer) } else { other(comm, &buffer) };
            refused(called, Status::InvalidArgument, words);
            works(comm.device());
        });
    }
    on_cpu(2, PATIENCE, |comm| {
        let buffer = comm.device().upload(&[1f32; 4]).expect("memory");
        let src = comm.device().upload(&[1f32; 4]).expect("memory");
        let dst = (comm.rank() == 1).then(|| (&buffer).into());
        comm.reduce(DType::F32, CommOp::Sum, &src, dst, 4, 1).expect("the same root");
        let called =
            if comm.rank() == 0 { comm.send(DType::F32, &buffer, 4, 1) } else { comm.recv(DType::F32, &buffer, 3, 0) };
        refused(
            called,
            Status::InvalidArgument,
            &["count is 4 in crk_comm_send of rank 0, but 3 in crk_comm_recv of rank 1"],
        );
    });
    on_cpu(2, PATIENCE, |comm| {
        let [src, dst] = [1f32, 0.0].map(|value| comm.device().upload(&[value; 4]).expect("memory"));
        let called = comm.reduce(DType::F32, CommOp::Sum, &src, Some((&dst).into()), 4, comm.rank());
        refused(called, Status::InvalidArgument, &["root is 0 in crk_comm_reduce of rank 0, but 1 in that of rank 1"]);
    });
}

// ---- creation

#[test]
fn ids_and_places() {
    let device = support::open("cpu:32").expect("a device");
    let id = device.comm_id().expect("an id");
    assert_ne!(id.bytes, device.comm_id().expect("another").bytes);
    assert_eq!(CommId::from_bytes(&id.bytes).expect("128 bytes").bytes, id.bytes);
    refused(CommId::from_bytes(&[0; 5]).map(drop), Status::InvalidArgument, &["5 bytes"]);
    assert_eq!(device.comm_library().expect("always there"), ("threads", 0));

    let first = Comm::start(&device, &id, 0, 2, PATIENCE).expect("a rank");
    assert!(!first.is_ready().expect("no failure"));
    refused(add_ones(&first), Status::NotReady, &["crk_comm_all_reduce: not all ranks are there yet"]);
    let again = device.new_stream().expect("a handle");
    let taken = Comm::start(&again, &id, 0, 2, PATIENCE).map(drop);
    refused(taken, Status::InvalidArgument, &["crk_comm_create_async: rank 0 of this id exists already"]);
    let other = Comm::new(&again, &id, 1, 3, PATIENCE).map(drop);
    refused(other, Status::InvalidArgument, &["crk_comm_create: size is 3, but another rank of this id gave 2"]);
    let foreign = CommId::default();
    let refusal = Comm::new(&again, &foreign, 0, 1, PATIENCE).map(drop);
    refused(refusal, Status::InvalidArgument, &["crk_comm_create: id is not of a CPU device"]);
    let second = Comm::start(&again, &id, 1, 2, PATIENCE).expect("a rank");
    assert!(first.is_ready().expect("no failure") && second.is_ready().expect("no failure"));

    // A rank that is not created in time.
    let id = device.comm_id().expect("an id");
    let lonely = Comm::start(&device, &id, 0, 2, short(100)).expect("a rank");
    std::thread::sleep(Duration::from_millis(200));
    refused(lonely.is_ready(), Status::PeerLost, &["crk_comm_query: not all of the 2 ranks came within 100 ms"]);
    let id = device.comm_id().expect("an id");
    let lonely = Comm::start(&device, &id, 0, 2, PATIENCE).expect("a rank");
    refused(lonely.wait(short(100)), Status::PeerLost, &["crk_comm_wait: not all of the 2 ranks came within 100 ms"]);
}

#[test]
fn two_communicators_on_one_handle() {
    let device = support::open("cpu:32").expect("a device");
    let ids = [device.comm_id().expect("an id"), device.comm_id().expect("an id")];
    std::thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || {
                let device = support::open("cpu:32").expect("a device");
                let first = Comm::new(&device, &ids[0], rank, 2, PATIENCE).expect("a communicator");
                let second = Comm::new(&device, &ids[1], 1 - rank, 2, PATIENCE).expect("a communicator");
                let buffers = [rank as f32, 10.0].map(|value| device.upload(&[value; 3]).expect("memory"));
                // SAFETY: everything lives until the group has ended.
                unsafe {
                    comm_group(|| {
                        first.all_reduce_in_place(DType::F32, CommOp::Sum, &buffers[0], 3)?;
                        second.all_reduce_in_place(DType::F32, CommOp::Sum, &buffers[1], 3)
                    })
                }
                .expect("a group");
                assert_eq!(buffers[0].download::<f32>().expect("a copy"), [1.0; 3]);
                assert_eq!(buffers[1].download::<f32>().expect("a copy"), [20.0; 3]);
            });
        }
    });
}

// ---- groups

/// A sum, a residual and a norm in one call, and what it refuses.
#[test]
fn norms_of_sums() {
    on_cpu(3, PATIENCE, |comm| {
        let device = comm.device();
        let (rows, cols) = (2, 6);
        let upload = |values: &[f32]| device.upload(values).expect("memory");
        let x = upload(&[comm.rank() as f32 + 1.0; 12]);
        let (residual, alpha) = (upload(&[2.0; 12]), upload(&[0.5; 6]));
        let [sum, dst] = [0; 2].map(|_| device.alloc(48).expect("memory"));
        let call =
            |dtype, (rows, cols)| comm.add_rms_norm(dtype, (rows, cols), &x, &residual, &alpha, (&sum, &dst), 0.0);
        call(DType::F32, (rows, cols)).expect("a norm");
        assert_eq!(sum.download::<f32>().expect("a copy"), [8.0; 12]);
        assert_eq!(dst.download::<f32>().expect("a copy"), [0.5; 12]);
        call(DType::F32, (0, cols)).expect("nothing to do");
        refused(call(DType::F64, (1, 1)), Status::Unsupported, &["crk_comm_add_rms_norm: dtype is f64"]);
        refused(call(DType::F32, (3, cols)), Status::OutOfBounds, &["crk_comm_add_rms_norm: ", "x"]);
        refused(call(DType::F32, (1, 7)), Status::OutOfBounds, &["crk_comm_add_rms_norm: ", "alpha"]);
        let shared = comm.add_rms_norm(DType::F32, (rows, cols), &x, &residual, &alpha, (&sum, &sum), 0.0);
        refused(shared, Status::InvalidArgument, &["crk_comm_add_rms_norm: ", "dst", "sum"]);
        let shared = comm.add_rms_norm(DType::F32, (rows, cols), &x, &residual, &alpha, (&residual, &dst), 0.0);
        refused(shared, Status::InvalidArgument, &["crk_comm_add_rms_norm: ", "sum", "residual"]);
        let shared = comm.add_rms_norm(DType::F32, (rows, cols), &x, &x, &alpha, (&sum, &dst), 0.0);
        refused(shared, Status::InvalidArgument, &["crk_comm_add_rms_norm: ", "residual", "x"]);
        // SAFETY: the memory outlives the group.
        let grouped = unsafe { comm_group(|| call(DType::F32, (rows, cols))) };
        refused(grouped, Status::InvalidArgument, &["crk_comm_add_rms_norm: the calling thread has a group"]);
    });
}

/// Collectives in the stream of another handle; the two streams are ordered by events.
#[test]
fn collectives_beside_other_work() {
    on_cpu(2, PATIENCE, |comm| {
        let device = comm.device();
        let side = support::open("cpu:32").expect("a handle");
        let buffer = device.upload(&[1f32; 100]).expect("memory");
        let mark = device.event().expect("an event");
        mark.record(device).expect("a mark");
        side.wait(&mark).expect("an order");
        // SAFETY: `side` has waited for `buffer`, and `device` waits for the sum below.
        unsafe { comm.run_beside(Some(&side)) }.expect("a handle of the device");
        comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 100).expect("a sum");
        mark.record(&side).expect("a mark");
        device.wait(&mark).expect("an order");
        assert_eq!(buffer.download::<f32>().expect("a copy"), [2.0; 100]);
        // The wait is for the last collective, wherever it runs.
        comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 100).expect("a sum");
        // SAFETY: the communicator is waited for.
        unsafe { comm.run_beside(None) }.expect("the own handle");
        comm.wait(PATIENCE).expect("the sum");
        assert_eq!(buffer.download::<f32>().expect("a copy"), [4.0; 100]);
        assert_eq!(add_ones(comm).expect("a sum"), 2.0);
        // SAFETY: `side` is idle.
        unsafe { comm.run_beside(Some(&side)) }.expect("a handle of the device");
        assert_eq!(add_ones(comm).expect("a sum"), 2.0);
        // SAFETY: as above.
        unsafe { comm.run_beside(None) }.expect("the own handle");
        // A captured stream does not wait for the one before.
        let ones = device.upload(&[1f32; 4]).expect("memory");
        let sum = || comm.all_reduce_in_place(DType::F32, CommOp::Sum, &ones, 4);
        let (graph, ()) = device.capture(sum).expect("a graph");
        // SAFETY: the buffer and the communicator are alive.
        unsafe { graph.launch() }.expect("a replay");
        comm.wait(PATIENCE).expect("the replay");
        assert_eq!(ones.download::<f32>().expect("a copy"), [2.0; 4]);
        drop(graph);
        // Nor does a captured stream beside.
        // SAFETY: both streams are idle.
        unsafe { comm.run_beside(Some(&side)) }.expect("a handle of the device");
        let (graph, ()) = side.capture(sum).expect("a graph");
        // SAFETY: as above.
        unsafe { comm.run_beside(None) }.expect("the own handle");
        // SAFETY: the buffer and the communicator are alive.
        unsafe { graph.launch() }.expect("a replay");
        side.synchronize().expect("the replay");
        assert_eq!(ones.download::<f32>().expect("a copy"), [4.0; 4]);
        drop(graph);
        let other = support::open("cpu:64").expect("another device");
        // SAFETY: it is refused.
        let refusal = unsafe { comm.run_beside(Some(&other)) };
        refused(refusal, Status::InvalidArgument, &["crk_comm_run_beside: side is a handle on another device"]);
    });
}

/// The calls of one group run in both streams of a handle, and each follows the communicator's last collective.
#[test]
fn a_group_beside_other_work() {
    let device = support::open("cpu:32").expect("a device");
    let side = device.new_stream().expect("a handle");
    let comm_of = |device: &Device| {
        let id = device.comm_id().expect("an id");
        Comm::new(device, &id, 0, 1, short(20_000)).expect("a communicator")
    };
    let (comm, other) = (comm_of(&device), comm_of(&side));
    let buffers = [&device, &side, &device].map(|handle| handle.upload(&[3f32; 8]).expect("memory"));
    device.synchronize().expect("the uploads");
    let sum = |comm: &Comm, buffer: &_| comm.all_reduce_in_place(DType::F32, CommOp::Sum, buffer, 8);
    // SAFETY: both streams are idle, and everything lives until the group has ended.
    unsafe {
        comm.run_beside(Some(&side)).expect("a handle of the device");
        sum(&comm, &buffers[0]).expect("a sum");
        comm.run_beside(None).expect("the own handle");
        comm_group(|| {
            sum(&comm, &buffers[0])?;
            sum(&other, &buffers[1])?;
            comm.run_beside(Some(&side))?;
            sum(&comm, &buffers[2])
        })
        .expect("a group");
        comm.run_beside(None).expect("the own handle");
    }
    side.synchronize().expect("the group");
    for buffer in &buffers {
        assert_eq!(buffer.download::<f32>().expect("a copy"), [3.0; 8]);
    }
}

/// While a launch waits behind a collective, a rank on another stream of the GPU gets memory, and can come.
#[test]
fn memory_while_a_launch_waits() {
    let device = support::open("cpu:32").expect("a device");
    let other = device.new_stream().expect("a handle");
    let id = device.comm_id().expect("an id");
    let ranks: Vec<_> = [&device, &other]
        .into_iter()
        .enumerate()
        .map(|(rank, handle)| Comm::start(handle, &id, rank, 2, short(20_000)).expect("a rank"))
        .collect();
    assert!(ranks.iter().all(|comm| comm.is_ready().expect("no failure")));
    let buffers = [&device, &other].map(|handle| handle.upload(&[1f32; 16]).expect("memory"));
    let (from, to) = (device.upload(&[2f32; 16]).expect("memory"), device.alloc(64).expect("memory"));
    device.set_replay(true).expect("a handle that may replay");
    let layout = Layout::contiguous(&[16]).expect("a layout");
    let launch = || device.unary(UnaryOp::Neg, DType::F32, &layout, &from, &to);
    launch().expect("a launch");
    drop(device.alloc(3 << 20).expect("memory")); // other handles look whether this block is idle
    std::thread::scope(|scope| {
        let sum = |rank: usize| ranks[rank].all_reduce_in_place(DType::F32, CommOp::Sum, &buffers[rank], 16);
        let waiting = scope.spawn(move || sum(0));
        std::thread::sleep(Duration::from_millis(50));
        let launched = scope.spawn(launch);
        std::thread::sleep(Duration::from_millis(50));
        let memory = other.alloc(3 << 20).expect("memory");
        sum(1).expect("the ranks meet");
        waiting.join().expect("no panic").expect("the ranks meet");
        launched.join().expect("no panic").expect("a launch");
        drop(memory);
    });
    assert_eq!(buffers[0].download::<f32>().expect("a copy"), [2.0; 16]);
    assert_eq!(to.download::<f32>().expect("a copy"), [-2.0; 16]);
}

/// One thread has all ranks: each collective is a group.
#[test]
fn one_thread_with_several_ranks() {
    let device = support::open("cpu:64").expect("a device");
    for size in [1, 2, 11] {
        let id = device.comm_id().expect("an id");
        let handles: Vec<_> = (0..size).map(|_| device.new_stream().expect("a handle")).collect();
        let comms: Vec<_> =
            (0..size).map(|r| Comm::start(&handles[r], &id, r, size, PATIENCE).expect("a rank")).collect();
        assert!(comms.iter().all(|comm| comm.is_ready().expect("no failure")));
        let buffers: Vec<_> = handles.iter().map(|h| h.upload(&[1i64, 2, 3]).expect("memory")).collect();
        let gathered: Vec<_> = handles.iter().map(|h| h.alloc(24 * size).expect("memory")).collect();
        // SAFETY: everything lives until the group has ended.
        unsafe {
            comm_group(|| {
                comm_group(|| {
                    comms
                        .iter()
                        .zip(&buffers)
                        .try_for_each(|(comm, buffer)| comm.all_reduce_in_place(DType::I64, CommOp::Sum, buffer, 3))
                })?;
                for (comm, buffer) in comms.iter().zip(&gathered) {
                    let mine = buffer.range(comm.rank() * 24..(comm.rank() + 1) * 24)?;
                    mine.write(&[comm.rank() as i64; 3])?;
                    comm.all_gather(DType::I64, mine, buffer, 3)?;
                }
                Ok(())
            })
        }
        .expect("a group");
        let all: Vec<i64> = (0..size as i64).flat_map(|rank| [rank; 3]).collect();
        for (sums, all_of_one) in buffers.iter().zip(&gathered) {
            assert_eq!(sums.download::<i64>().expect("a copy"), [1, 2, 3].map(|v| v * size as i64));
            assert_eq!(all_of_one.download::<i64>().expect("a copy"), all);
        }
    }
}

/// A group that fails in one communicator does not wait for the ranks of the others.
#[test]
fn a_group_fails_at_once() {
    let device = support::open("cpu:32").expect("a device");
    let ids = [device.comm_id().expect("an id"), device.comm_id().expect("an id")];
    let done = Barrier::new(2);
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let done = &done;
            scope.spawn(move || {
                let device = support::open("cpu:32").expect("a device");
                let comms = ids.map(|id| Comm::new(&device, &id, rank, 2, PATIENCE).expect("a communicator"));
                let buffer = device.upload(&[1f32; 8]).expect("memory");
                let begin = Instant::now();
                let sum = |comm: &Comm, count| comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, count);
                // SAFETY: everything lives until the group has ended.
                let called = unsafe {
                    comm_group(|| {
                        if rank == 0 {
                            sum(&comms[0], 4)?;
                            sum(&comms[1], 4)
                        } else {
                            sum(&comms[0], 3)
                        }
                    })
                };
                let waited = begin.elapsed();
                done.wait();
                refused(called, Status::InvalidArgument, &["count is 4"]);
                assert!(waited < Duration::from_secs(30));
            });
        }
    });
}

/// A group on two captured handles: each graph has the calls of its own handle.
#[test]
fn a_group_of_two_captures() {
    let device = support::open("cpu:32").expect("a device");
    let id = device.comm_id().expect("an id");
    let handles = [0; 2].map(|_| device.new_stream().expect("a handle"));
    let comms = [0, 1].map(|rank| Comm::start(&handles[rank], &id, rank, 2, PATIENCE).expect("a rank"));
    assert!(comms.iter().all(|comm| comm.is_ready().expect("no failure")));
    let buffers = handles.each_ref().map(|handle| handle.upload(&[1f32; 4]).expect("memory"));
    let sums = || {
        // SAFETY: everything lives longer than the graphs.
        unsafe {
            comm_group(|| {
                comms
                    .iter()
                    .zip(&buffers)
                    .try_for_each(|(comm, buffer)| comm.all_reduce_in_place(DType::F32, CommOp::Sum, buffer, 4))
            })
        }
    };
    let (first, (second, ())) = handles[0].capture(|| handles[1].capture(sums)).expect("two graphs");
    std::thread::scope(|scope| {
        for graph in [&first, &second] {
            // SAFETY: the buffers and the communicators are alive.
            scope.spawn(|| unsafe { graph.launch() }.expect("a replay"));
        }
    });
    for buffer in &buffers {
        assert_eq!(buffer.download::<f32>().expect("a copy"), [2.0; 4]);
    }
}

#[test]
fn groups_without_calls_and_with_refused_ones() {
    // SAFETY: takes no arguments.
    assert_eq!(unsafe { sys::crk_comm_group_end() }, Status::InvalidArgument);
    assert!(
        support::last_error().contains("crk_comm_group_end: this thread has no group"),
        "{}",
        support::last_error()
    );
    call!(crk_comm_group_begin());
    call!(crk_comm_group_end());
    on_cpu(2, PATIENCE, |comm| {
        let buffer = comm.device().upload(&[1f32; 4]).expect("memory");
        // SAFETY: everything lives until the group has ended.
        let done = unsafe {
            comm_group(|| {
                comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 4)?;
                comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 5)
            })
        };
        refused(done, Status::OutOfBounds, &["count 5"]);
        assert_eq!(buffer.download::<f32>().expect("a copy"), [2.0; 4]);
    });
}

#[test]
fn messages_keep_their_order() {
    on_cpu(2, PATIENCE, |comm| {
        let device = comm.device();
        let numbers: Vec<_> = (0..20u8).map(|n| device.upload(&[n; 9]).expect("memory")).collect();
        let (me, other) = (comm.rank(), 1 - comm.rank());
        // SAFETY: everything lives until the group has ended.
        unsafe {
            comm_group(|| {
                numbers.iter().try_for_each(|number| {
                    if me == 0 {
                        comm.send(DType::U8, number, 9, other)
                    } else {
                        comm.recv(DType::U8, number, 9, other)
                    }
                })
            })
        }
        .expect("a group");
        // To itself.
        let (src, dst) = (device.upload(&[me as u32; 2]).expect("memory"), device.alloc(8).expect("memory"));
        // SAFETY: as above.
        unsafe {
            comm_group(|| {
                comm.recv(DType::U32, &dst, 2, me)?;
                comm.send(DType::U32, &src, 2, me)
            })
        }
        .expect("a group");
        assert_eq!(dst.download::<u32>().expect("a copy"), [me as u32; 2]);
        for (n, number) in numbers.iter().enumerate() {
            assert_eq!(number.download::<u8>().expect("a copy"), [n as u8; 9]);
        }
    });
}

// ---- streams, graphs, other threads

#[test]
fn graphs_replay_collectives() {
    replays(&names("cpu:64", 3), PATIENCE);
    replays(&names("cpu:32", 1), None);
    on_cpu(3, PATIENCE, |comm| {
        let device = comm.device();
        let buffer = device.upload(&[1f32; 100]).expect("memory");
        let gathered = device.alloc(1200).expect("memory");
        let layout = Layout::contiguous(&[100]).expect("a layout");
        let work = || {
            comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 100)?;
            device.affine(DType::F32, &layout, &buffer, &buffer, 1.0, 1.0)?;
            // SAFETY: all of it lives longer than the graph.
            unsafe { comm_group(|| comm.all_gather(DType::F32, &buffer, &gathered, 100)) }
        };
        let (graph, ()) = device.capture(work).expect("a graph");
        assert_eq!(buffer.download::<f32>().expect("a copy"), [1.0; 100]);
        let mut expected = 1.0;
        for _ in 0..3 {
            // SAFETY: buffers and communicator are alive.
            unsafe { graph.launch() }.expect("a replay");
            expected = expected * 3.0 + 1.0;
            comm.wait(PATIENCE).expect("the work is done");
            assert_eq!(gathered.download::<f32>().expect("a copy"), [expected; 300]);
        }
        refused(device.capture(|| comm.wait(PATIENCE)).map(drop), Status::Capture, &["crk_comm_wait"]);
        let id = CommId::default();
        let created = device.capture(|| Comm::new(device, &id, 0, 1, PATIENCE).map(drop)).map(drop);
        refused(created, Status::Capture, &["crk_comm_create"]);
    });
}

/// A replay that waits for a lost rank ends with the same error.
#[test]
fn a_replay_without_a_rank() {
    let late = Barrier::new(2);
    on_cpu(2, short(1500), |comm| {
        let buffer = comm.device().upload(&[1f32; 8]).expect("memory");
        let work = || comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 8);
        let (graph, ()) = comm.device().capture(work).expect("a graph");
        if comm.rank() == 0 {
            // SAFETY: buffer and communicator are alive.
            refused(unsafe { graph.launch() }, Status::PeerLost, &["waited 1500 ms for rank(s) 1"]);
            works(comm.device());
        }
        late.wait();
    });
}

/// While a rank waits in a collective, other threads allocate, free, copy and mark events on its device. An event on
/// its own handle is not done before the collective is.
#[test]
fn other_threads_work_meanwhile() {
    let inside = Barrier::new(2);
    let finished = Mutex::new(false);
    on_cpu(2, PATIENCE, |comm| {
        let buffer = comm.device().upload(&[1f32; 16]).expect("memory");
        if comm.rank() == 0 {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let done = comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 16);
                    *finished.lock().expect("no panic") = true;
                    done
                });
                let other = support::open("cpu:32").expect("a device");
                let event = comm.device().event().expect("an event");
                let begin = Instant::now();
                loop {
                    event.record(comm.device()).expect("a mark");
                    if !event.is_done().expect("no failure") {
                        break;
                    }
                    assert!(begin.elapsed() < Duration::from_secs(60), "the event does not wait for the collective");
                    std::thread::sleep(Duration::from_millis(5));
                }
                for bytes in [1 << 10, 1 << 22, 1 << 26] {
                    drop(other.alloc(bytes).expect("memory"));
                    drop(comm.device().alloc(bytes).expect("memory of the waiting handle"));
                }
                works(&other);
                other.memory_stats().expect("figures");
                assert!(!*finished.lock().expect("no panic"), "the collective did not wait");
                inside.wait();
                waiting.join().expect("no panic").expect("the collective ends");
                event.synchronize().expect("no failure");
                assert!(event.is_done().expect("no failure"));
            });
        } else {
            inside.wait();
            comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 16).expect("a collective");
        }
        assert_eq!(buffer.download::<f32>().expect("a copy"), [2.0; 16]);
    });
}

/// A collective that meets another thread's capture is done or recorded, and never refused.
#[test]
fn collectives_while_another_thread_captures() {
    on_cpu(1, PATIENCE, |comm| {
        let device = comm.device();
        let buffer = device.upload(&[1f32; 8]).expect("memory");
        let end = Instant::now() + Duration::from_secs(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while Instant::now() < end {
                    let (graph, ()) = device.capture(|| Ok::<_, Error>(())).expect("a graph");
                    // SAFETY: the memory of what was recorded, and the communicator, live.
                    unsafe { graph.launch() }.expect("a replay");
                }
            });
            while Instant::now() < end {
                comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 8).expect("done or recorded");
            }
        });
        assert_eq!(buffer.download::<f32>().expect("a copy"), [1.0; 8]);
    });
}

/// The calls of a group that meets another thread's capture are done together, or recorded together.
#[test]
fn groups_while_another_thread_captures() {
    on_cpu(1, PATIENCE, |comm| {
        let device = comm.device();
        let src = device.upload(&[1f32]).expect("memory");
        const CALLS: usize = 256;
        let zeros = vec![0f32; CALLS];
        let results = device.upload(&zeros).expect("memory");
        let end = Instant::now() + Duration::from_secs(2);
        let replayed = std::sync::Mutex::new(()); /* held while there is a graph that has not run */
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while Instant::now() < end {
                    let _guard = replayed.lock().expect("no panic");
                    let (graph, ()) = device.capture(|| Ok::<_, Error>(())).expect("a graph");
                    // SAFETY: the memory of what was recorded, and the communicator, live.
                    unsafe { graph.launch() }.expect("a replay");
                }
            });
            while Instant::now() < end {
                // SAFETY: the memory outlives the group.
                let group = unsafe {
                    comm_group(|| {
                        (0..CALLS).try_for_each(|i| {
                            comm.all_reduce(DType::F32, CommOp::Sum, &src, results.range(4 * i..4 * i + 4)?, 1)
                        })
                    })
                };
                group.expect("a group");
                let _guard = replayed.lock().expect("no panic");
                let done: f32 = results.download::<f32>().expect("a copy").iter().sum();
                assert_eq!(done, CALLS as f32, "calls that were neither done nor recorded");
                results.write(&zeros).expect("a copy");
            }
        });
    });
}

/// Two threads of each rank call at the same time; calls of a communicator follow each other.
#[test]
fn threads_share_a_communicator() {
    on_cpu(2, PATIENCE, |comm| {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        assert_eq!(add_ones(comm).expect("a collective"), 2.0);
                    }
                });
            }
        });
    });
}

// ---- bad input

#[test]
fn bad_arguments_are_named() {
    let device = support::open("cpu:32").expect("a device");
    let id = device.comm_id().expect("an id");
    let comm = Comm::new(&device, &id, 0, 1, PATIENCE).expect("a communicator");
    let raw = comm.raw();
    let buffer = device.alloc(64).expect("memory");
    let (view, other) = (buffer.raw_view(), device.alloc(64).expect("memory"));
    let dst = other.raw_view();
    let none = std::ptr::null_mut();
    let short_view = sys::crk_view_t { bytes: 15, ..view };
    let null_view = sys::crk_view_t { ptr: none, bytes: 64 };
    let odd = sys::crk_view_t { ptr: view.ptr.wrapping_byte_add(1), bytes: 63 };
    let (f32, sum) = (DType::F32, CommOp::Sum);
    let (bad_dtype, bad_op) = (sys::crk_dtype(77), sys::crk_comm_op(9));
    let (mut made, mut name, mut version, mut number) = (std::ptr::null_mut(), std::ptr::null(), 0, 0);
    let mut fresh = CommId::default();
    #[track_caller]
    fn told(status: Status, expected: Status, words: &str) {
        assert_eq!(status, expected, "{}", support::last_error());
        assert!(support::last_error().contains(words), "no {words:?} in {:?}", support::last_error());
    }
    use Status as S;
    let d = device.raw();
    // SAFETY: each call has one bad argument, which is refused before it is used.
    unsafe {
        told(
            sys::crk_comm_library(none.cast(), &mut name, &mut version),
            S::InvalidArgument,
            "crk_comm_library: device is NULL",
        );
        told(
            sys::crk_comm_library(d, std::ptr::null_mut(), &mut version),
            S::InvalidArgument,
            "crk_comm_library: name is NULL",
        );
        told(
            sys::crk_comm_library(d, &mut name, std::ptr::null_mut()),
            S::InvalidArgument,
            "crk_comm_library: version is NULL",
        );
        told(
            sys::crk_comm_id_create(none.cast(), &mut fresh),
            S::InvalidArgument,
            "crk_comm_id_create: device is NULL",
        );
        told(sys::crk_comm_id_create(d, std::ptr::null_mut()), S::InvalidArgument, "crk_comm_id_create: id is NULL");
        for create in [sys::crk_comm_create as unsafe extern "C" fn(_, _, _, _, _, _) -> _, sys::crk_comm_create_async]
        {
            told(create(none.cast(), &id, 0, 1, 1, &mut made), S::InvalidArgument, ": device is NULL");
            told(create(d, std::ptr::null(), 0, 1, 1, &mut made), S::InvalidArgument, ": id is NULL");
            told(create(d, &id, 0, 1, 1, std::ptr::null_mut()), S::InvalidArgument, ": comm is NULL");
            told(
                create(d, &id, 0, 0, 1, &mut made),
                S::InvalidArgument,
                ": size is 0; it must be from 1 to 2147483647",
            );
            told(create(d, &id, 0, u32::MAX, 1, &mut made), S::InvalidArgument, ": size is 4294967295");
            told(
                create(d, &id, 3, 3, 1, &mut made),
                S::InvalidArgument,
                ": rank is 3; it must be below size, which is 3",
            );
            told(create(d, &id, 0, 1, 0, &mut made), S::InvalidArgument, ": timeout_ms is 0");
        }
        told(sys::crk_comm_query(none.cast()), S::InvalidArgument, "crk_comm_query: self is NULL");
        told(sys::crk_comm_abort(none.cast()), S::InvalidArgument, "crk_comm_abort: self is NULL");
        told(sys::crk_comm_wait(none.cast(), 1), S::InvalidArgument, "crk_comm_wait: self is NULL");
        told(sys::crk_comm_rank(none.cast(), &mut number), S::InvalidArgument, "crk_comm_rank: self is NULL");
        told(sys::crk_comm_rank(raw, std::ptr::null_mut()), S::InvalidArgument, "crk_comm_rank: rank is NULL");
        told(sys::crk_comm_size(none.cast(), &mut number), S::InvalidArgument, "crk_comm_size: self is NULL");
        told(sys::crk_comm_size(raw, std::ptr::null_mut()), S::InvalidArgument, "crk_comm_size: size is NULL");
        told(sys::crk_comm_query(d.cast()), S::InvalidArgument, "is no live handle of this kind");
        sys::crk_comm_destroy(none.cast());

        let src = constant(view);
        type Call<'a> = &'a dyn Fn(sys::crk_comm_t, DType, sys::crk_const_view_t, sys::crk_view_t, usize) -> Status;
        let calls: [(&str, Call); 6] = [
            ("crk_comm_all_reduce", &|c, t, src, dst, n| sys::crk_comm_all_reduce(c, t, sum, src, dst, n)),
            ("crk_comm_reduce", &|c, t, src, dst, n| sys::crk_comm_reduce(c, t, sum, src, dst, n, 0)),
            ("crk_comm_broadcast", &|c, t, src, dst, n| sys::crk_comm_broadcast(c, t, src, dst, n, 0)),
            ("crk_comm_all_gather", &|c, t, src, dst, n| sys::crk_comm_all_gather(c, t, src, dst, n)),
            ("crk_comm_reduce_scatter", &|c, t, src, dst, n| sys::crk_comm_reduce_scatter(c, t, sum, src, dst, n)),
            ("crk_comm_all_to_all", &|c, t, src, dst, n| sys::crk_comm_all_to_all(c, t, src, dst, n)),
        ];
        for (name, call) in calls {
            let refused = |status, expected, words: &str| told(status, expected, &format!("{name}: {words}"));
            told(call(raw, f32, src, dst, 4), S::Ok, "");
            told(call(raw, f32, src, dst, 0), S::Ok, "");
            told(call(raw, f32, src, part(view, 1, 4), 1), S::Ok, "");
            refused(call(none.cast(), f32, src, dst, 4), S::InvalidArgument, "self is NULL");
            refused(call(raw, bad_dtype, src, dst, 4), S::InvalidArgument, "dtype 77 is unknown");
            let words = "count 4, for 1 part(s), of f32 does not fit src, which has 15 bytes";
            refused(call(raw, f32, constant(short_view), dst, 4), S::OutOfBounds, words);
            refused(call(raw, f32, constant(null_view), dst, 4), S::InvalidArgument, "src.ptr is NULL");
            refused(call(raw, f32, constant(odd), dst, 4), S::InvalidArgument, "src.ptr 0x");
            let words = "count 4, for 1 part(s), of f32 does not fit dst, which has 15 bytes";
            refused(call(raw, f32, src, short_view, 4), S::OutOfBounds, words);
            refused(call(raw, f32, src, null_view, 4), S::InvalidArgument, "dst.ptr is NULL");
            refused(call(raw, f32, src, odd, 4), S::InvalidArgument, "dst.ptr 0x");
            refused(call(raw, f32, src, dst, usize::MAX), S::OutOfBounds, &format!("count {}", usize::MAX));
            let shifted = sys::crk_view_t { bytes: 32, ..part(view, 1, 4) };
            refused(call(raw, f32, src, shifted, 4), S::InvalidArgument, "src overlaps dst");
        }
        told(
            sys::crk_comm_all_to_all(raw, f32, src, view, 4),
            S::InvalidArgument,
            "crk_comm_all_to_all: src overlaps dst; they must not share memory",
        );
        told(
            sys::crk_comm_all_reduce(raw, f32, bad_op, src, dst, 4),
            S::InvalidArgument,
            "crk_comm_all_reduce: op 9 is unknown",
        );
        told(
            sys::crk_comm_reduce(raw, f32, bad_op, src, dst, 4, 0),
            S::InvalidArgument,
            "crk_comm_reduce: op 9 is unknown",
        );
        told(
            sys::crk_comm_reduce_scatter(raw, f32, bad_op, src, dst, 4),
            S::InvalidArgument,
            "crk_comm_reduce_scatter: op 9 is unknown",
        );
        told(
            sys::crk_comm_all_reduce(raw, DType::I16, sum, src, dst, 4),
            S::Unsupported,
            "crk_comm_all_reduce: dtype i16 cannot be reduced",
        );
        told(
            sys::crk_comm_reduce(raw, f32, sum, src, dst, 4, 1),
            S::InvalidArgument,
            "crk_comm_reduce: root is 1; it must be below the number of ranks, which is 1",
        );
        told(sys::crk_comm_broadcast(raw, f32, src, dst, 4, 7), S::InvalidArgument, "crk_comm_broadcast: root is 7");
        told(sys::crk_comm_send(none.cast(), f32, src, 4, 0), S::InvalidArgument, "crk_comm_send: self is NULL");
        told(sys::crk_comm_send(raw, bad_dtype, src, 4, 0), S::InvalidArgument, "crk_comm_send: dtype 77");
        told(
            sys::crk_comm_send(raw, f32, src, 4, 1),
            S::InvalidArgument,
            "crk_comm_send: peer is 1; it must be below the number of ranks, which is 1",
        );
        told(sys::crk_comm_send(raw, f32, src, 4, 0), S::InvalidArgument, "crk_comm_send: peer is 0, the rank itself");
        told(sys::crk_comm_recv(none.cast(), f32, dst, 4, 0), S::InvalidArgument, "crk_comm_recv: self is NULL");
        told(sys::crk_comm_recv(raw, bad_dtype, dst, 4, 0), S::InvalidArgument, "crk_comm_recv: dtype 77");
        told(sys::crk_comm_recv(raw, f32, dst, 4, 3), S::InvalidArgument, "crk_comm_recv: peer is 3");
        told(sys::crk_comm_recv(raw, f32, dst, 4, 0), S::InvalidArgument, "crk_comm_recv: peer is 0, the rank itself");
        assert_eq!(sys::crk_comm_group_begin(), S::Ok);
        told(sys::crk_comm_send(raw, f32, constant(short_view), 4, 0), S::OutOfBounds, "does not fit src");
        told(sys::crk_comm_recv(raw, f32, short_view, 4, 0), S::OutOfBounds, "does not fit dst");
        assert_eq!(sys::crk_comm_group_end(), S::Ok);
    }
    // A buffer of another handle.
    let foreign = device.new_stream().expect("a handle").alloc(64).expect("memory");
    refused(
        comm.all_reduce_in_place(f32, sum, &foreign, 4),
        S::InvalidArgument,
        &["crk_comm_all_reduce: src belongs to another handle"],
    );
    assert!(comm.is_ready().expect("no bad argument has ended it"));
}

/// Views of parts are checked with the number of ranks.
#[test]
fn parts_must_fit() {
    on_cpu(3, PATIENCE, |comm| {
        let (whole, one) = (comm.device().alloc(3 * 16).expect("memory"), comm.device().alloc(16).expect("memory"));
        let short = whole.range(0..47).expect("a part");
        let words = ["count 4, for 3 part(s), of f32 does not fit dst, which has 47 bytes"];
        refused(comm.all_gather(DType::F32, &one, short, 4), Status::OutOfBounds, &words);
        refused(comm.all_to_all(DType::F32, &whole, short, 4), Status::OutOfBounds, &words);
        let words = ["for 3 part(s), of f32 does not fit src, which has 47 bytes"];
        refused(comm.reduce_scatter(DType::F32, CommOp::Sum, short, &one, 4), Status::OutOfBounds, &words);
        let wrong = (comm.rank() + 1) % 3;
        let part = whole.range(wrong * 16..wrong * 16 + 16).expect("a part");
        let words = ["crk_comm_all_gather: src overlaps dst and begins ", "or begin "];
        refused(comm.all_gather(DType::F32, part, &whole, 4), Status::InvalidArgument, &words);
        let words = ["crk_comm_reduce_scatter: src overlaps dst and begins -"];
        let scattered = comm.reduce_scatter(DType::F32, CommOp::Sum, &whole, part, 4);
        refused(scattered, Status::InvalidArgument, if wrong > 0 { &words } else { &[] });
    });
}

#[test]
fn what_may_cross_threads() {
    fn both<T: Send + Sync>() {}
    both::<Comm>();
    both::<CommId>();
}
