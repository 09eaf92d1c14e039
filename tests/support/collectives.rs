//! All collectives with their expected results: every function, dtype and reduction, in place and out of place, with
//! guard bytes. `tests/comm.rs` runs them on the CPU device, `tests/comm_devices.rs` on GPUs.
use crate::support::cases::Rng;
use crate::support::number::{TYPES, Type};
use crate::support::{self, Guarded};
use candle_rocm_sys::{Backend, Buffer, Comm, CommOp, DType, Error, Status, sys};
use std::time::Duration;

pub const OPS: [CommOp; 5] = [CommOp::Sum, CommOp::Prod, CommOp::Max, CommOp::Min, CommOp::Avg];
pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

pub fn short(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds))
}

/// Names of devices, one for each rank.
pub fn names(device: &str, size: usize) -> Vec<String> {
    vec![device.to_owned(); size]
}

/// Runs `body` on a thread for each rank, with a handle and a communicator of its own. Returns the results in order.
pub fn on_ranks<T: Send>(devices: &[String], timeout: Option<Duration>, body: impl Fn(&Comm) -> T + Sync) -> Vec<T> {
    let id = support::open(&devices[0]).expect("a device").comm_id().expect("an id");
    let body = &body;
    std::thread::scope(|scope| {
        let rank = |(rank, name): (usize, &String)| {
            let name = name.clone();
            scope.spawn(move || {
                let device = support::open(&name).expect("a device");
                let comm = Comm::new(&device, &id, rank, devices.len(), timeout).expect("a communicator");
                assert_eq!((comm.rank(), comm.size()), (rank, devices.len()));
                body(&comm)
            })
        };
        let threads: Vec<_> = devices.iter().enumerate().map(rank).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Runs `body` with all ranks, which this thread has.
pub fn in_one_thread(devices: &[String], body: impl Fn(&[Comm])) {
    let id = support::open(&devices[0]).expect("a device").comm_id().expect("an id");
    let start = |(rank, name): (usize, &String)| {
        let device = support::open(name).expect("a device");
        Comm::start(&device, &id, rank, devices.len(), PATIENCE).expect("a communicator")
    };
    let comms: Vec<Comm> = devices.iter().enumerate().map(start).collect();
    while !comms.iter().all(|comm| comm.is_ready().expect("no failure")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    body(&comms);
}

#[track_caller]
pub fn refused<T>(result: Result<T, Error>, status: Status, words: &[&str]) -> String {
    let error = result.err().expect("must fail");
    assert_eq!(error.status(), status, "{error}");
    for word in words {
        assert!(error.message().contains(word), "no {word:?} in {:?}", error.message());
    }
    error.message().to_owned()
}

// ---- values

fn type_of(dtype: DType) -> Type {
    *TYPES.iter().find(|t| t.dtype == dtype).expect("a dtype")
}

pub fn encode(dtype: DType, value: f64) -> Vec<u8> {
    let t = type_of(dtype);
    let mut bytes = vec![0; t.bytes];
    t.put(&mut bytes, 0, if t.is_float() { t.round_bits(value) } else { t.wrap(value as i128) });
    bytes
}

pub fn decode(dtype: DType, bytes: &[u8]) -> f64 {
    let t = type_of(dtype);
    t.float(t.get(bytes, 0))
}

/// The values of a rank repeat after so many elements.
const PERIOD: usize = 251;

/// Element `i` of a rank's source. Small integers: their sums and products are exact in every float dtype. Any two
/// ranks have different ones.
fn value(dtype: DType, rank: usize, i: usize) -> f64 {
    let number = Rng((rank * PERIOD + i) as u64).below(4) as f64;
    if type_of(dtype).is_float() || dtype == DType::I32 || dtype == DType::I64 {
        [1.0, -1.0, 2.0, 1.0][number as usize]
    } else {
        number
    }
}

/// Bytes in runs. A run repeats its period until it has so many bytes.
struct Contents(Vec<(Vec<u8>, usize)>);

impl Contents {
    fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes).sum()
    }
    fn garbage(bytes: usize) -> Contents {
        Contents(vec![(vec![GARBAGE; 4096], bytes)])
    }
    fn then(mut self, mut next: Contents) -> Contents {
        self.0.append(&mut next.0);
        self
    }
    fn expanded(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes());
        for (period, bytes) in &self.0 {
            let end = all.len() + bytes;
            while all.len() < end {
                all.extend_from_slice(&period[..period.len().min(end - all.len())]);
            }
        }
        all
    }
    /// Writes them to a buffer from `at` on, by copies on its device.
    fn write(&self, buffer: &Buffer, mut at: usize) -> Result<(), Error> {
        for (period, bytes) in &self.0 {
            let seed = Contents(vec![(period.clone(), (period.len() << 12).min(*bytes))]).expanded();
            buffer.range(at..at + seed.len())?.write(&seed)?;
            let mut done = seed.len();
            while done < *bytes {
                let more = done.min(bytes - done);
                buffer.device().copy(buffer.range(at + done..at + done + more)?, buffer.range(at..at + more)?)?;
                done += more;
            }
            at += bytes;
        }
        Ok(())
    }
}

/// `count` elements from `first` on, of a sequence that repeats.
fn tiled(dtype: DType, first: usize, count: usize, at: impl Fn(usize) -> f64) -> Contents {
    let period = (0..PERIOD).flat_map(|i| encode(dtype, at((first + i) % PERIOD))).collect();
    Contents(vec![(period, count * dtype.size())])
}

fn source(dtype: DType, rank: usize, first: usize, count: usize) -> Contents {
    tiled(dtype, first, count, |i| value(dtype, rank, i))
}

/// The reduction of element `i`, with integers that wrap.
fn reduced(dtype: DType, op: CommOp, ranks: usize, i: usize) -> f64 {
    let values = (0..ranks).map(|rank| value(dtype, rank, i));
    if type_of(dtype).is_float() {
        return match op {
            CommOp::Sum => values.sum(),
            CommOp::Prod => values.product(),
            CommOp::Max => values.fold(f64::NEG_INFINITY, f64::max),
            CommOp::Min => values.fold(f64::INFINITY, f64::min),
            _ if dtype == DType::F64 => values.sum::<f64>() / ranks as f64,
            _ => (values.sum::<f64>() as f32 / ranks as f32).into(),
        };
    }
    let values = values.map(|value| value as i64);
    let wrapped = |value: i64| if dtype == DType::U8 { i64::from(value as u8) } else { value };
    (match op {
        CommOp::Sum => values.sum(),
        CommOp::Prod => values.product(),
        CommOp::Max => values.max().unwrap(),
        CommOp::Min => values.min().unwrap(),
        _ => wrapped(values.sum::<i64>()) / ranks as i64,
    }) as f64
}

fn result(dtype: DType, op: CommOp, ranks: usize, first: usize, count: usize) -> Contents {
    tiled(dtype, first, count, |i| reduced(dtype, op, ranks, i))
}

// ---- every collective

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub dtype: DType,
    pub op: CommOp,
    pub count: usize,
    pub in_place: bool,
    pub on_gpu: bool,
}

/// Compares a guarded buffer with the expected bytes. A GPU may round an average at another step.
pub fn expect(buffer: &Guarded, expected: &[u8], case: Case, what: &str) {
    let got = buffer.read().unwrap_or_else(|error| panic!("{what} {case:?}: {error}"));
    if got == expected {
        return;
    }
    let size = case.dtype.size();
    for (i, (got, expected)) in got.chunks(size).zip(expected.chunks(size)).enumerate() {
        let (a, b) = (decode(case.dtype, got), decode(case.dtype, expected));
        let close =
            case.on_gpu && case.op == CommOp::Avg && type_of(case.dtype).is_float() && (a - b).abs() <= b.abs() / 8.0;
        assert!(close || got == expected, "{what} {case:?}: element {i} is {a}, not {b}");
    }
    assert_eq!(got.len(), expected.len(), "{what} {case:?}");
}

pub fn constant(view: sys::crk_view_t) -> sys::crk_const_view_t {
    view.into()
}

/// Calls one collective of C and checks its status.
#[macro_export]
macro_rules! call {
    ($function:ident($($argument:expr),*)) => {
        // SAFETY: a live communicator, and views of live buffers of its handle.
        support::succeeded(unsafe { sys::$function($($argument),*) }).expect(stringify!($function))
    };
}

const GARBAGE: u8 = 0x5b;

pub fn memory(comm: &Comm, bytes: &[u8]) -> Guarded {
    Guarded::new(comm.device(), bytes, 0).expect("memory")
}

/// More bytes than this are made and compared on the device.
const ON_HOST: usize = 64 << 20;

fn holding(comm: &Comm, contents: &Contents) -> Guarded {
    if contents.bytes() <= ON_HOST {
        return memory(comm, &contents.expanded());
    }
    let write = |buffer: &Buffer, at: usize| contents.write(buffer, at);
    Guarded::filled(comm.device(), contents.bytes(), write).expect("memory")
}

fn expect_contents(comm: &Comm, buffer: &Guarded, contents: &Contents, case: Case, what: &str) {
    if contents.bytes() <= ON_HOST {
        return expect(buffer, &contents.expanded(), case, what);
    }
    buffer.equals(&holding(comm, contents)).unwrap_or_else(|error| panic!("{what} {case:?}: {error}"));
}

fn destination(comm: &Comm, bytes: usize) -> Guarded {
    holding(comm, &Contents::garbage(bytes))
}

pub fn part(whole: sys::crk_view_t, index: usize, bytes: usize) -> sys::crk_view_t {
    sys::crk_view_t { ptr: whole.ptr.wrapping_byte_add(index * bytes), bytes }
}

/// Calls a collective for each of these ranks, in a group if they are several. `prepare` makes a rank's memory, and
/// `check` looks at it after all calls.
fn each<M>(comms: &[Comm], prepare: impl Fn(&Comm) -> M, call: impl Fn(&Comm, &M), check: impl Fn(&Comm, &M)) {
    let memory: Vec<M> = comms.iter().map(prepare).collect();
    let ranks = || comms.iter().zip(&memory);
    if comms.len() > 1 {
        call!(crk_comm_group_begin());
    }
    ranks().for_each(|(comm, memory)| call(comm, memory));
    if comms.len() > 1 {
        call!(crk_comm_group_end());
    }
    ranks().for_each(|(comm, memory)| check(comm, memory));
}

/// A source, and a destination of its size.
fn pair(comm: &Comm, source: &Contents) -> [Guarded; 2] {
    [holding(comm, source), destination(comm, source.bytes())]
}

fn reductions(comms: &[Comm], case: Case) {
    let Case { dtype, op, count, in_place, .. } = case;
    let (ranks, bytes) = (comms[0].size(), count * dtype.size());
    let whole = result(dtype, op, ranks, 0, count);
    let of_rank = |comm: &Comm| pair(comm, &source(dtype, comm.rank(), 0, count));
    let to = usize::from(!in_place);

    each(
        comms,
        of_rank,
        |comm, m| call!(crk_comm_all_reduce(comm.raw(), dtype, op, constant(m[0].view()), m[to].view(), count)),
        |comm, m| expect_contents(comm, &m[to], &whole, case, "all_reduce"),
    );

    for root in [0, ranks - 1] {
        let empty = sys::crk_view_t { ptr: std::ptr::null_mut(), bytes: 0 };
        each(
            comms,
            of_rank,
            |comm, m| {
                let given = if comm.rank() == root { m[to].view() } else { empty };
                call!(crk_comm_reduce(comm.raw(), dtype, op, constant(m[0].view()), given, count, root as u32));
            },
            |comm, m| {
                if comm.rank() == root {
                    expect_contents(comm, &m[to], &whole, case, "reduce");
                } else {
                    expect_contents(comm, &m[0], &source(dtype, comm.rank(), 0, count), case, "reduce's source");
                    expect_contents(comm, &m[1], &Contents::garbage(bytes), case, "reduce's unused destination");
                }
            },
        );
    }

    each(
        comms,
        |comm| [holding(comm, &source(dtype, comm.rank(), 0, ranks * count)), destination(comm, bytes)],
        |comm, m| {
            let dst = if in_place { part(m[0].view(), comm.rank(), bytes) } else { m[1].view() };
            call!(crk_comm_reduce_scatter(comm.raw(), dtype, op, constant(m[0].view()), dst, count));
        },
        |comm, m| {
            let rank = comm.rank();
            let mine = result(dtype, op, ranks, rank * count, count);
            if in_place {
                let before = source(dtype, rank, 0, rank * count);
                let all = before.then(mine).then(source(dtype, rank, (rank + 1) * count, (ranks - rank - 1) * count));
                expect_contents(comm, &m[0], &all, case, "reduce_scatter");
            } else {
                expect_contents(comm, &m[1], &mine, case, "reduce_scatter");
            }
        },
    );
}

fn moves(comms: &[Comm], case: Case) {
    let Case { dtype, count, in_place, .. } = case;
    let (ranks, bytes) = (comms[0].size(), count * dtype.size());
    let of = |rank: usize| source(dtype, rank, 0, count);
    let to = usize::from(!in_place);

    for root in [0, ranks - 1] {
        let empty = sys::crk_const_view_t { ptr: std::ptr::null(), bytes: 0 };
        each(
            comms,
            |comm| pair(comm, &of(comm.rank())),
            |comm, m| {
                let given = if comm.rank() == root { constant(m[0].view()) } else { empty };
                call!(crk_comm_broadcast(comm.raw(), dtype, given, m[to].view(), count, root as u32));
            },
            |comm, m| expect_contents(comm, &m[to], &of(root), case, "broadcast"),
        );
    }

    let all = (0..ranks).map(of).fold(Contents(vec![]), Contents::then);
    each(
        comms,
        |comm| {
            let (rank, mine) = (comm.rank(), of(comm.rank()));
            let after = Contents::garbage((ranks - rank - 1) * bytes);
            let prepared = Contents::garbage(rank * bytes).then(of(rank)).then(after);
            [holding(comm, &mine), holding(comm, &prepared)]
        },
        |comm, m| {
            let from = if in_place { part(m[1].view(), comm.rank(), bytes) } else { m[0].view() };
            call!(crk_comm_all_gather(comm.raw(), dtype, constant(from), m[1].view(), count));
        },
        |comm, m| expect_contents(comm, &m[1], &all, case, "all_gather"),
    );

    each(
        comms,
        |comm| pair(comm, &source(dtype, comm.rank(), 0, ranks * count)),
        |comm, m| call!(crk_comm_all_to_all(comm.raw(), dtype, constant(m[0].view()), m[1].view(), count)),
        |comm, m| {
            let mine = (0..ranks).map(|r| source(dtype, r, comm.rank() * count, count));
            let mine = mine.fold(Contents(vec![]), Contents::then);
            expect_contents(comm, &m[1], &mine, case, "all_to_all");
        },
    );

    // Around the ring, both ways at once.
    let beside = |comm: &Comm| [(comm.rank() + 1) % ranks, (comm.rank() + ranks - 1) % ranks];
    each(
        comms,
        |comm| [holding(comm, &of(comm.rank())), destination(comm, bytes), destination(comm, bytes)],
        |comm, [src, left, right]| {
            let [next, previous] = beside(comm).map(|rank| rank as u32);
            call!(crk_comm_group_begin());
            call!(crk_comm_send(comm.raw(), dtype, constant(src.view()), count, next));
            call!(crk_comm_send(comm.raw(), dtype, constant(src.view()), count, previous));
            call!(crk_comm_recv(comm.raw(), dtype, left.view(), count, previous));
            call!(crk_comm_recv(comm.raw(), dtype, right.view(), count, next));
            call!(crk_comm_group_end());
        },
        |comm, [_, left, right]| {
            let [next, previous] = beside(comm);
            expect_contents(comm, left, &of(previous), case, "recv");
            expect_contents(comm, right, &of(next), case, "recv");
        },
    );

    // From the first to the last, without a group of the rank.
    if ranks > 1 {
        each(
            comms,
            |comm| pair(comm, &of(comm.rank())),
            |comm, m| match comm.rank() {
                0 => call!(crk_comm_send(comm.raw(), dtype, constant(m[0].view()), count, (ranks - 1) as u32)),
                rank if rank == ranks - 1 => call!(crk_comm_recv(comm.raw(), dtype, m[1].view(), count, 0)),
                _ => {}
            },
            |comm, m| {
                if comm.rank() == ranks - 1 {
                    expect_contents(comm, &m[1], &of(0), case, "recv from the first");
                }
            },
        );
    }
}

/// All collectives of all dtypes with these counts, by the ranks that this thread has.
pub fn everything(comms: &[Comm], counts: &[usize], ops: &[CommOp]) {
    for dtype in TYPES.iter().map(|t| t.dtype) {
        for &count in counts {
            for in_place in [false, true] {
                collectives(comms, dtype, count, ops, in_place);
            }
        }
    }
    end(comms);
}

/// All collectives of all dtypes, each of so many bytes for a rank; in place for every second dtype.
pub fn large(comms: &[Comm], bytes: usize) {
    for (i, t) in TYPES.iter().enumerate() {
        collectives(comms, t.dtype, bytes / t.bytes, &[CommOp::Sum], i % 2 == 1);
    }
    end(comms);
}

fn collectives(comms: &[Comm], dtype: DType, count: usize, ops: &[CommOp], in_place: bool) {
    let on_gpu = comms[0].device().info().expect("a device").backend != Backend::Cpu;
    let case = |op| Case { dtype, op, count, in_place, on_gpu };
    moves(comms, case(CommOp::Sum));
    for &op in ops.iter().filter(|_| dtype != DType::I16) {
        reductions(comms, case(op));
    }
}

fn end(comms: &[Comm]) {
    for comm in comms {
        comm.wait(PATIENCE).expect("the work is done");
        assert!(comm.is_ready().expect("no failure"));
    }
}

/// Adds 1.0 of every rank.
pub fn add_ones(comm: &Comm) -> Result<f32, Error> {
    add_ones_within(comm, PATIENCE)
}

pub fn add_ones_within(comm: &Comm, timeout: Option<Duration>) -> Result<f32, Error> {
    let buffer = comm.device().upload(&[1f32; 64])?;
    comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 64)?;
    comm.wait(timeout)?;
    Ok(buffer.download::<f32>()?[63])
}

/// Graphs of collectives alone.
pub fn replays(devices: &[String], timeout: Option<Duration>) {
    let size = devices.len();
    on_ranks(devices, timeout, |comm| {
        assert_eq!(add_ones(comm).expect("all call"), size as f32);
        let buffer = comm.device().upload(&[1f32; 5000]).expect("memory");
        let gathered = comm.device().alloc(20000 * size).expect("memory");
        let work = || {
            comm.all_reduce_in_place(DType::F32, CommOp::Sum, &buffer, 5000)?;
            comm.all_gather(DType::F32, &buffer, &gathered, 5000)
        };
        let (graph, ()) = comm.device().capture(work).expect("a graph");
        for round in 1..=3 {
            // SAFETY: buffers and communicator are alive.
            unsafe { graph.launch() }.expect("a replay");
            comm.wait(PATIENCE).expect("the work is done");
            let sum = (size as f32).powi(round);
            assert_eq!(gathered.download::<f32>().expect("a copy"), vec![sum; 5000 * size]);
        }
    });
}

/// `crk_comm_add_rms_norm` beside plain loops.
pub fn norm_of_sums(comm: &Comm, rows: usize, cols: usize) {
    let (device, count) = (comm.device(), rows * cols);
    let value = |rank: usize, i: usize| ((7 * i + 3 * rank) % 11) as f32 - 5.0;
    let upload = |rank: usize, count: usize| -> Buffer {
        device.upload(&(0..count).map(|i| value(rank, i)).collect::<Vec<_>>()).expect("memory")
    };
    let (x, residual, alpha) = (upload(comm.rank(), count), upload(90, count), upload(91, cols));
    let [sum, dst] = [0; 2].map(|_| device.alloc(4 * count).expect("memory"));
    comm.add_rms_norm(DType::F32, (rows, cols), &x, &residual, &alpha, (&sum, &dst), 1e-5).expect("a norm");
    comm.wait(PATIENCE).expect("the norm");
    let [sums, norms] = [&sum, &dst].map(|buffer| buffer.download::<f32>().expect("a copy"));
    for row in 0..rows {
        let at = |i: usize| (0..comm.size()).map(|rank| value(rank, i)).sum::<f32>() + value(90, i);
        let mean = (0..cols).map(|col| at(row * cols + col).powi(2)).sum::<f32>() / cols as f32;
        for i in row * cols..(row + 1) * cols {
            let norm = at(i) / (mean + 1e-5).sqrt() * value(91, i % cols);
            assert_eq!(sums[i], at(i), "{rows} x {cols}");
            assert!((norms[i] - norm).abs() <= 1e-5 * norm.abs().max(1.0), "{rows} x {cols}: {} {norm}", norms[i]);
        }
    }
}
