//! Collectives on GPUs, such as two of one host: in a thread for each rank, in one thread and in a process for each.
//! Sizes go from 0 elements to 1 GiB for a rank. Graphs are replayed, and ranks are lost.
//!
//! `CANDLE_ROCM_COMM_DEVICES=cuda:0,cuda:1 cargo test --test comm_devices -- --ignored` names the devices.
use candle_rocm_sys::{Comm, CommId, CommOp, DType, Status};
use candle_rocm_sys_tests::support;
use candle_rocm_sys_tests::support::collectives::*;
use std::process::{Child, Command};
use std::slice::from_ref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const COUNTS: [usize; 5] = [0, 1, 17, 1023, 1 << 20];
/// Rows and columns: rows in one launch of few lines, in one and three of marked parts (two ranks), and short ones.
const ROWS: [(usize, usize); 5] = [(3, 4096), (70, 4096), (3000, 4096), (20, 8192), (500, 64)];

fn norms(comm: &Comm) {
    ROWS.into_iter().for_each(|(rows, cols)| norm_of_sums(comm, rows, cols));
}

/// The largest size, in bytes for a rank. `CANDLE_ROCM_COMM_BYTES` names another one.
fn large_bytes() -> usize {
    std::env::var("CANDLE_ROCM_COMM_BYTES").map_or(1 << 30, |bytes| bytes.parse().expect("CANDLE_ROCM_COMM_BYTES"))
}

/// The devices, and a lock: tests that share GPUs run one after another.
fn devices() -> (Vec<String>, MutexGuard<'static, ()>) {
    static ONE_TEST: Mutex<()> = Mutex::new(());
    let one = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    let named = std::env::var("CANDLE_ROCM_COMM_DEVICES").expect("CANDLE_ROCM_COMM_DEVICES=cuda:0,cuda:1, for example");
    let devices: Vec<String> = named.split(',').map(str::to_owned).collect();
    let (library, version) = support::open(&devices[0]).expect("a device").comm_library().expect("a library");
    println!("{named}: {library} {version}");
    (devices, one)
}

#[test]
#[ignore = "the devices are named by CANDLE_ROCM_COMM_DEVICES"]
fn a_thread_for_each() {
    let (devices, _one) = devices();
    on_ranks(&devices, PATIENCE, |comm| {
        everything(from_ref(comm), &COUNTS, &OPS);
        large(from_ref(comm), large_bytes());
        norms(comm);
    });
    on_ranks(&devices, None, |comm| everything(from_ref(comm), &[1, 1023], &[CommOp::Sum]));
    replays(&devices, PATIENCE);
    replays(&devices, None);
    reads_while_a_rank_waits(&devices);
}

#[test]
#[ignore = "the devices are named by CANDLE_ROCM_COMM_DEVICES"]
fn one_thread_for_all() {
    let (devices, _one) = devices();
    in_one_thread(&devices, |comms| {
        everything(comms, &COUNTS, &OPS);
        large(comms, large_bytes());
    });
}

/// A rank's number and the id of its communicator, in the environment of its process.
const PLACE: &str = "CANDLE_ROCM_COMM_PLACE";

/// The first process makes the id, and starts one for each rank.
#[test]
#[ignore = "the devices are named by CANDLE_ROCM_COMM_DEVICES"]
fn a_process_for_each() {
    let (devices, _one) = devices();
    if let Ok(place) = std::env::var(PLACE) {
        let (rank, id) = place.split_once(' ').expect("a rank and an id");
        let (rank, id): (usize, _) = (rank.parse().expect("a rank"), read_id(id));
        let device = support::open(&devices[rank]).expect("a device");
        let comm = Comm::new(&device, &id, rank, devices.len(), PATIENCE).expect("a communicator");
        everything(from_ref(&comm), &COUNTS, &OPS);
        large(from_ref(&comm), large_bytes());
        norms(&comm);
        return;
    }
    let id = support::open(&devices[0]).expect("a device").comm_id().expect("an id");
    let start = |rank: usize| -> Child {
        Command::new(std::env::current_exe().expect("this test's path"))
            .args(["--ignored", "--exact", "a_process_for_each"])
            .env(PLACE, format!("{rank} {}", written_id(&id)))
            .spawn()
            .expect("a process")
    };
    let ranks: Vec<Child> = (0..devices.len()).map(start).collect();
    let ends: Vec<_> = ranks.into_iter().map(|mut rank| rank.wait().expect("an end")).collect();
    assert!(ends.iter().all(|end| end.success()), "{ends:?}");
}

fn written_id(id: &CommId) -> String {
    id.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_id(text: &str) -> CommId {
    let byte = |i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("a byte");
    CommId { bytes: std::array::from_fn(byte) }
}

#[test]
#[ignore = "the devices are named by CANDLE_ROCM_COMM_DEVICES"]
fn a_lost_rank() {
    let (devices, _one) = devices();
    for timeout in [PATIENCE, None] {
        on_ranks(&devices, timeout, |comm| {
            assert_eq!(add_ones(comm).expect("all call"), devices.len() as f32);
            if comm.rank() + 1 == devices.len() {
                std::thread::sleep(Duration::from_secs(4));
                comm.abort().expect("an end");
            } else {
                let waited = add_ones_within(comm, short(1500));
                refused(waited, Status::PeerLost, &["crk_comm_wait: "]);
                refused(add_ones(comm), Status::PeerLost, &["the communicator has ended: "]);
                let buffer = comm.device().upload(&[5u8; 1000]).expect("memory");
                assert_eq!(buffer.download::<u8>().expect("a copy"), [5; 1000]);
            }
        });
    }
}

/// Rank 0 reads the results of a step while its GPU waits for another rank in the next one.
fn reads_while_a_rank_waits(devices: &[String]) {
    let is_read = std::sync::Barrier::new(devices.len());
    on_ranks(devices, None, |comm| {
        let (device, size) = (comm.device(), devices.len() as f32);
        assert_eq!(add_ones(comm).expect("all call"), size);
        let [first, second] = [0; 2].map(|_| device.upload(&[1f32; 8]).expect("memory"));
        let host = device.alloc_host(32).expect("memory");
        let event = device.event().expect("an event");
        comm.all_reduce_in_place(DType::F32, CommOp::Sum, &first, 8).expect("a sum");
        // SAFETY: nobody reads it before the wait for the event.
        unsafe { first.read_async(&host) }.expect("a copy");
        event.record(device).expect("a mark");
        if comm.rank() != 0 {
            is_read.wait();
        }
        comm.all_reduce_in_place(DType::F32, CommOp::Sum, &second, 8).expect("a sum");
        if comm.rank() == 0 {
            let waited = comm.wait_event(&event, PATIENCE);
            let sums = host.as_slice::<f32>().to_vec();
            is_read.wait(); // also where the wait has failed: the others wait here
            waited.expect("the first sum");
            assert_eq!(sums, [size; 8]);
        }
        comm.wait(PATIENCE).expect("the second sum");
        assert_eq!(second.download::<f32>().expect("a copy"), [size; 8]);
    });
}
