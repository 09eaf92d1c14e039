//! Indexing: the launchers and the kernels by name, against plain Rust. The cases have ids at both ends of the dim and
//! outside it, the sentinel, every id type, sizes around blocks, pieces and lists of ids, layouts and offsets. Guard
//! bytes surround every buffer.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N`
//! runs only that one.

use crate::support::cases::{Rng, Shape, random_layout};
use crate::support::number::{BF16, F8, F32, I64, TYPES, Type, U8, U32};
use crate::support::property::{Operand, Outcome, each_case, layout};
use crate::support::reference::{self, Expected};
use crate::support::{Body, Target, add_trial, last_error, open, succeeded};
use candle_rocm_sys::{Arg, Buffer, Launch, Layout, Status, sys};
use libtest_mimic::Trial;
use std::ptr::{null, null_mut};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    IndexSelect,
    Gather,
    Scatter,
    ScatterAdd,
    IndexAdd,
}
use Op::*;

const OPS: &[Op] = &[IndexSelect, Gather, Scatter, ScatterAdd, IndexAdd];

impl Op {
    fn name(self) -> &'static str {
        match self {
            IndexSelect => "index_select",
            Gather => "gather",
            Scatter => "scatter",
            ScatterAdd => "scatter_add",
            IndexAdd => "index_add",
        }
    }

    /// The name as it appears in kernel names.
    fn root(self) -> &'static str {
        match self {
            IndexSelect => "is",
            Gather => "gather",
            Scatter => "s",
            ScatterAdd => "sa",
            IndexAdd => "ia",
        }
    }

    /// Whether one id holds for all elements at a position of the dim.
    fn ids_are_a_row(self) -> bool {
        matches!(self, IndexSelect | IndexAdd)
    }

    /// Whether ids select where to write.
    fn updates(self) -> bool {
        matches!(self, Scatter | ScatterAdd | IndexAdd)
    }
}

/// (left, ids, size of the dim that the ids select from, right).
type Sizes = (usize, usize, usize, usize);

/// Sizes around pieces of 16 bytes, waves, blocks of 256, lists of 1024 ids (1020 for waves of 64 lanes), and tiles of
/// columns.
const SIZES: &[Sizes] = &[
    (1, 1, 1, 1),
    (1, 5, 7, 16),
    (3, 4, 9, 17),
    (2, 6, 5, 33),
    (1, 3, 300, 130),
    (2, 0, 5, 8),
    (1, 65, 3, 1),
    (3, 130, 40, 1),
    (1, 130, 40, 37),
    (1, 1021, 50, 1),
    (1, 1025, 90, 2),
    (2, 1100, 33, 3),
    (1, 2051, 600, 1),
    (1, 7, 4, 1030),
    (2, 3, 2, 2080),
    (4, 31, 64, 8),
    (1, 257, 31, 4),
    (70, 2, 3, 5),
    (0, 4, 5, 6),
];

/// Dims with `numel` elements in all; there may be none.
fn split(rng: &mut Rng, numel: usize) -> Vec<usize> {
    match rng.below(4) {
        0 if numel == 1 => vec![],
        1 if numel % 2 == 0 => vec![2, numel / 2],
        2 => vec![1, numel],
        _ => vec![numel],
    }
}

/// The ids of a case. All may include the sentinel.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ids {
    Inside,
    Outside,
}

fn sentinel(t: Type) -> i128 {
    t.range().1
}

/// One id. Both ends of the dim and the sentinel are more frequent than by chance.
fn id(rng: &mut Rng, t: Type, size: usize, ids: Ids) -> u64 {
    let (least, greatest) = t.range();
    let inside = (size as i128).min(greatest);
    if ids == Ids::Outside && rng.one_in(4) {
        // -1 is the sentinel of an unsigned type, and a size beyond the type's range becomes the sentinel.
        let outside = [inside, inside + 1, greatest - 1, -1, least];
        let outside = t.wrap(rng.pick(&outside).min(greatest));
        if !is_position(t, outside, size) {
            return outside;
        }
    }
    match rng.below(8) {
        0 => t.wrap(sentinel(t)),
        _ if inside == 0 => t.wrap(sentinel(t)),
        1 => 0,
        2 => t.wrap(inside - 1),
        _ => t.wrap(rng.below(inside as usize) as i128),
    }
}

fn is_position(t: Type, bits: u64, size: usize) -> bool {
    let id = t.int(bits);
    id != sentinel(t) && (0..size as i128).contains(&id)
}

/// The arguments of one call, and the expected contents of `dst`.
struct Case {
    op: Op,
    dim: usize,
    ids: Operand,
    src: Operand,
    dst: Operand,
    expected: Vec<u64>,
    /// Ids that must be reported.
    outside: Vec<i128>,
}

/// If `contiguous`, all operands are, as kernels by name require.
fn case(
    target: &Target,
    rng: &mut Rng,
    op: Op,
    (it, t): (Type, Type),
    sizes: Sizes,
    kind: Ids,
    contiguous: bool,
) -> Case {
    let (left, count, size, right) = sizes;
    let (before, after) = (split(rng, left), split(rng, right));
    let dim = before.len();
    let with = |n: usize| [before.as_slice(), &[n], &after].concat();
    let (short, long) = (with(count), with(size));
    let offset = |rng: &mut Rng, dims: &[usize]| Shape {
        offset: if contiguous { 0 } else { rng.pick(&[0, 0, 1, 3, 16]) },
        ..Shape::contiguous(dims)
    };
    let any = |rng: &mut Rng, dims: &[usize]| match contiguous || rng.one_in(2) {
        true => offset(rng, dims),
        false => random_layout(rng, dims, 16 / t.bytes),
    };
    let mut ids_dims = if op.ids_are_a_row() { vec![count] } else { short.clone() };
    if op == Gather && !contiguous && rng.one_in(3) {
        for (d, n) in ids_dims.iter_mut().enumerate() {
            if d != dim && *n > 1 {
                *n -= rng.below(2);
            }
        }
    }
    let ids_shape = if op == Scatter || op == ScatterAdd { offset(rng, &ids_dims) } else { any(rng, &ids_dims) };
    let mut data = vec![0; ids_shape.reach() * it.bytes];
    for i in 0..ids_shape.reach() {
        it.put(&mut data, i, id(rng, it, size, kind));
    }
    let ids = Operand::new(target, rng, it, ids_shape, data);
    let src_shape = if op.updates() { offset(rng, &short) } else { any(rng, &long) };
    let src = Operand::random(target, rng, t, src_shape);
    let dst = if op.updates() {
        let shape = offset(rng, &long);
        Operand::random(target, rng, t, shape)
    } else {
        Operand::destination(target, rng, t, if op == Gather { &ids_dims } else { &short })
    };
    let (expected, outside) = reference(op, dim, &ids, &src, &dst, size);
    Case { op, dim, ids, src, dst, expected, outside }
}

/// The definition, element by element. Returns dst and the ids out of range.
fn reference(op: Op, dim: usize, ids: &Operand, src: &Operand, dst: &Operand, size: usize) -> (Vec<u64>, Vec<i128>) {
    let t = src.t;
    let mut out: Vec<u64> = (0..dst.shape.reach()).map(|i| t.get(&dst.data, i)).collect();
    let mut outside = Vec::new();
    // Walks over the elements of dst, or of src for updates. The order of the coordinates is the order in which an
    // element is updated.
    let walked = if op.updates() { &src.shape } else { &dst.shape };
    let place = |shape: &Shape, at: &[usize]| {
        shape.offset + at.iter().zip(&shape.strides).map(|(i, stride)| i * stride).sum::<usize>()
    };
    let mut at = vec![0; walked.dims.len()];
    for _ in 0..walked.numel() {
        let id_at = if op.ids_are_a_row() { place(&ids.shape, &[at[dim]]) } else { place(&ids.shape, &at) };
        let bits = ids.t.get(&ids.data, id_at);
        let mut other = at.clone();
        let valid = is_position(ids.t, bits, size);
        if valid {
            other[dim] = ids.t.int(bits) as usize;
        } else if ids.t.int(bits) != sentinel(ids.t) {
            outside.push(ids.t.int(bits));
            outside.dedup();
        }
        if op.updates() {
            if valid {
                let term = t.get(&src.data, place(&src.shape, &at));
                let to = &mut out[place(&dst.shape, &other)];
                *to = if op == Scatter { term } else { reference::binary("badd", t, *to, term).bits };
            }
        } else {
            out[place(&dst.shape, &at)] = if valid { t.get(&src.data, place(&src.shape, &other)) } else { 0 };
        }
        for d in (0..at.len()).rev() {
            at[d] += 1;
            if at[d] < walked.dims[d] {
                break;
            }
            at[d] = 0;
        }
    }
    (out, outside)
}

impl Case {
    fn call(&self, device: sys::crk_device_t) -> Status {
        let (it, t) = (self.ids.t.dtype, self.src.t.dtype);
        let (ids_layout, src_layout, dst_layout) = (self.ids.layout(), self.src.layout(), self.dst.layout());
        let (ids, src, dst) = (self.ids.memory.view(), self.src.memory.view(), self.dst.memory.view());
        let update = match self.op {
            // SAFETY: live arguments; so below.
            IndexSelect => unsafe {
                return sys::crk_index_select(
                    device,
                    it,
                    t,
                    &src_layout,
                    src.into(),
                    &ids_layout,
                    ids.into(),
                    self.dim,
                    dst,
                );
            },
            Gather => unsafe {
                return sys::crk_gather(device, it, t, &src_layout, src.into(), &ids_layout, ids.into(), self.dim, dst);
            },
            Scatter => sys::crk_scatter,
            ScatterAdd => sys::crk_scatter_add,
            IndexAdd => sys::crk_index_add,
        };
        // SAFETY: as above.
        unsafe { update(device, it, t, &ids_layout, ids.into(), &src_layout, src.into(), self.dim, &dst_layout, dst) }
    }

    fn check(&self) -> Outcome {
        let t = self.dst.t;
        let got = self.dst.memory.read().map_err(|problem| format!("dst: {problem}"))?;
        for (i, &bits) in self.expected.iter().enumerate() {
            let found = t.get(&got, i);
            let adds = matches!(self.op, ScatterAdd | IndexAdd);
            if found != bits && !(adds && Expected::exactly(bits).admits(t, found)) {
                return Err(format!("element {i} is {}, expected {}", t.show(found), t.show(bits)));
            }
        }
        self.src.unchanged()?;
        self.ids.unchanged()
    }

    fn describe(&self, problem: String) -> String {
        let shape = |o: &Operand| format!("{:?}", o.shape);
        let (ids, src, dst) = (shape(&self.ids), shape(&self.src), shape(&self.dst));
        format!("dim {}, ids {ids}, src {src}, dst {dst}: {problem}", self.dim)
    }
}

/// The launcher with valid ids and the sentinel.
fn inside(target: &Target, name: &str, op: Op, it: Type, t: Type) -> Outcome {
    each_case(target, "indexing", name, SIZES.len(), |rng, index| {
        let case = case(target, rng, op, (it, t), SIZES[index], Ids::Inside, false);
        succeeded(case.call(target.device.raw())).and_then(|()| case.check()).map_err(|problem| case.describe(problem))
    })
}

/// Checks that the handle's next synchronisation reports one of `outside` with the launcher's name, and that the one
/// after reports nothing.
fn check_report(device: &candle_rocm_sys::Device, op: Op, outside: &[i128]) -> Outcome {
    let report = device.synchronize();
    if !outside.is_empty() {
        match report {
            Err(error) if error.status() == Status::OutOfRange => {
                let text = error.to_string();
                // A report contains the low 56 bits of the id.
                let said =
                    |id: &i128| text.contains(&format!("crk_{}: ids has {}, ", op.name(), (*id as i64) << 8 >> 8));
                if !outside.iter().any(said) {
                    return Err(format!("{text:?} names none of {outside:?}"));
                }
            }
            other => return Err(format!("{other:?} for ids out of range")),
        }
    } else {
        report.map_err(|error| error.to_string())?;
    }
    device.synchronize().map_err(|error| format!("reported again: {error}"))
}

/// Ids out of range: nothing out of bounds is touched, there is one report, and the handle remains usable.
fn outside(target: &Target, name: &str, op: Op, it: Type) -> Outcome {
    // A handle of its own: another trial's synchronisation of a shared handle could take the report.
    let own = Target { name: target.name.clone(), device: open(&target.name).map_err(|error| error.to_string())? };
    let all = [F32, U8, I64, F8];
    each_case(&own, "indexing", name, SIZES.len() + 2, |rng, index| {
        // In the last two cases the dim that the ids select from is empty.
        let sizes = SIZES.get(index).copied().unwrap_or_else(|| (2, 70 * (index - SIZES.len()) + 3, 0, 4));
        let case = case(&own, rng, op, (it, all[index % all.len()]), sizes, Ids::Outside, false);
        succeeded(case.call(own.device.raw()))
            .and_then(|()| check_report(&own.device, op, &case.outside))
            .and_then(|()| case.check())
            .map_err(|problem| case.describe(problem))
    })
}

/// Gathers from a source larger than a cache, in strips of columns. The last strip may be narrower.
fn strips(target: &Target, name: &str, t: Type) -> Outcome {
    let (count, size, right) = (1500, 6000, 384 / t.bytes);
    each_case(target, "indexing", name, 4, |rng, index| {
        let case = case(target, rng, Gather, (U32, t), (1, count, size, right), Ids::Inside, index % 2 == 0);
        succeeded(case.call(target.device.raw())).and_then(|()| case.check()).map_err(|problem| case.describe(problem))
    })
}

/// Candle's kernels, with Candle's arguments and geometry. All operands are contiguous except the ids of index_select,
/// which have dims and strides.
fn by_name(target: &Target, name: &str, op: Op, it: Type, t: Type) -> Outcome {
    const FEW: &[Sizes] = &[(3, 6, 9, 5), (1, 1, 1, 1), (2, 40, 7, 33), (5, 3, 300, 70), (1, 1030, 12, 2)];
    each_case(target, "indexing", name, FEW.len(), |rng, index| {
        let kind = if index % 2 == 0 { Ids::Inside } else { Ids::Outside };
        let mut case = case(target, rng, op, (it, t), FEW[index], kind, true);
        if op == IndexSelect && rng.one_in(2) {
            // Ids with a stride of 3.
            let shape = Shape { dims: case.ids.shape.dims.clone(), strides: vec![3], offset: 0 };
            let mut data = vec![0; shape.reach() * it.bytes];
            (0..shape.reach()).for_each(|i| it.put(&mut data, i, id(rng, it, FEW[index].2, kind)));
            case.ids = Operand::new(target, rng, it, shape, data);
            case.expected = reference(op, case.dim, &case.ids, &case.src, &case.dst, FEW[index].2).0;
        }
        let (left, count, size, right) = FEW[index];
        let spelling = ["f8e4m3", "f8_e4m3", "fp8_e4m3"][index % 3];
        let kernel = format!("{}_{}_{}", op.root(), it.name, t.name).replace("f8e4m3", spelling);
        let function = target.device.function_named("indexing", &kernel).map_err(|error| error.to_string())?;
        let [ids, src, dst] = [&case.ids, &case.src, &case.dst].map(|o| Arg::ptr(o.memory.ptr()));
        let numbers: Vec<u64> = case.ids.shape.dims.iter().chain(&case.ids.shape.strides).map(|n| *n as u64).collect();
        let info = target.device.upload(&numbers).map_err(|error| error.to_string())?;
        let numel = left * count * right;
        let [l, s, n, r] = [left, size, count, right].map(Arg::from);
        let args = match op {
            IndexSelect => vec![numel.into(), 1usize.into(), (&info).into(), ids, src, dst, l, s, n, r],
            Gather => vec![numel.into(), ids, src, dst, l, s, n, r],
            IndexAdd => vec![ids, n, src, dst, l, Arg::from(count), s, r],
            _ => vec![ids, src, dst, l, n, s, r],
        };
        let threads = if op.updates() { left * right } else { numel };
        // SAFETY: the arguments of Candle's kernels.
        unsafe { function.launch(Launch::for_num_elems(threads as u32), &args) }
            .map_err(|error| error.to_string())
            .and_then(|()| case.check())
            .map_err(|problem| case.describe(problem))
    })
}

/// A call is recorded and then replayed with other ids and elements. A replay also reports ids out of range.
fn graph(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let own = Target { name: target.name.clone(), device };
    for (index, &op) in OPS.iter().enumerate() {
        let mut rng = Rng(index as u64);
        let sizes = (2, 70, 9, if op == Scatter || op == IndexAdd { 1 } else { 24 });
        let first = case(&own, &mut rng, op, (U32, F32), sizes, Ids::Inside, true);
        succeeded(first.call(own.device.raw()))?;
        first.check()?;
        // SAFETY: live handles and arguments, here and below.
        succeeded(unsafe { sys::crk_graph_begin(own.device.raw()) })?;
        let recorded = succeeded(first.call(own.device.raw()));
        let mut graph = null_mut();
        succeeded(unsafe { sys::crk_graph_end(own.device.raw(), &mut graph) })?;
        recorded?;
        let outcome = [Ids::Inside, Ids::Outside].into_iter().try_for_each(|kind| {
            let next = case(&own, &mut rng, op, (U32, F32), sizes, kind, true);
            // Operands of the same dims. Their contents are copied to the memory that the graph uses.
            for (to, from) in [(&first.ids, &next.ids), (&first.src, &next.src), (&first.dst, &next.dst)] {
                let bytes = from.data.len();
                succeeded(unsafe {
                    sys::crk_copy_to_device(own.device.raw(), to.memory.view(), from.data.as_ptr().cast(), bytes)
                })?;
            }
            succeeded(unsafe { sys::crk_graph_launch(graph) })?;
            check_report(&own.device, op, &next.outside)?;
            let got = first.dst.memory.read()?;
            let wrong =
                (0..next.expected.len()).find(|i| !Expected::exactly(next.expected[*i]).admits(F32, F32.get(&got, *i)));
            wrong.map_or(Ok(()), |i| Err(format!("{op:?}, {kind:?}: element {i} of a replay is wrong")))
        });
        // SAFETY: the last call on it.
        unsafe { sys::crk_graph_destroy(graph) };
        outcome?;
    }
    Ok(())
}

/// More updates of one element than a list holds. The sum depends on their order.
fn order_of_sums(target: &Target) -> Outcome {
    let mut rng = Rng(5);
    let adds = [(IndexAdd, 1), (IndexAdd, 6), (IndexAdd, 1100), (ScatterAdd, 1), (ScatterAdd, 3), (ScatterAdd, 37)];
    for (op, right) in adds.into_iter().chain([(Scatter, 37)]) {
        let count = if right > 100 { 300 } else { 5000 };
        let mut case = case(target, &mut rng, op, (U8, F32), (1, count, 3, right), Ids::Inside, true);
        let terms: Vec<f32> = (0..count * right).map(|i| [1e8, 1.0, -1e8, 0.37][i % 4] * (1 + i % 7) as f32).collect();
        let data: Vec<u8> = terms.iter().flat_map(|x| x.to_le_bytes()).collect();
        case.src = Operand::new(target, &mut rng, F32, case.src.shape.clone(), data);
        case.expected = reference(op, case.dim, &case.ids, &case.src, &case.dst, 3).0;
        succeeded(case.call(target.device.raw())).and_then(|()| case.check()).map_err(|p| case.describe(p))?;
    }
    Ok(())
}

/// Bad values for every argument of every launcher.
fn bad_input(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let buffer = || device.upload(&[0u8; 256]).map_err(|error| error.to_string());
    let (a, b, c): (Buffer, Buffer, Buffer) = (buffer()?, buffer()?, buffer()?);
    let (ids, src, dst) = (a.raw_view(), b.raw_view(), c.raw_view());
    let strided = |dims: &[usize], strides: &[usize], offset| {
        Layout::strided(dims, strides, offset).map_err(|error| error.to_string())
    };
    let cut = |view: sys::crk_view_t, bytes| sys::crk_view_t { bytes, ..view };
    let at = |view: sys::crk_view_t, bytes: usize| sys::crk_view_t {
        ptr: view.ptr.cast::<u8>().wrapping_add(bytes).cast(),
        bytes: view.bytes - bytes,
    };
    let nowhere = sys::crk_view_t { ptr: null_mut(), bytes: 256 };
    let (invalid, bounds) = (Status::InvalidArgument, Status::OutOfBounds);
    for &op in OPS {
        // The arguments of a valid call. Each test changes one of them.
        #[derive(Clone, Copy)]
        struct Arguments {
            device: sys::crk_device_t,
            ids_dtype: sys::crk_dtype,
            dtype: sys::crk_dtype,
            ids_layout: *const Layout,
            ids: sys::crk_view_t,
            src_layout: *const Layout,
            src: sys::crk_view_t,
            dim: usize,
            dst_layout: *const Layout,
            dst: sys::crk_view_t,
        }
        let ids_dims: &[usize] = if op.ids_are_a_row() { &[4] } else { &[3, 4] };
        let (src_dims, dst_dims) = if op.updates() { ([3, 4], [3, 5]) } else { ([3, 5], [3, 4]) };
        let ids_layout = layout(&Shape::contiguous(ids_dims));
        let (src_layout, dst_layout) = (layout(&Shape::contiguous(&src_dims)), layout(&Shape::contiguous(&dst_dims)));
        let good = Arguments {
            device: device.raw(),
            ids_dtype: U32.dtype,
            dtype: F32.dtype,
            ids_layout: &ids_layout,
            ids,
            src_layout: &src_layout,
            src,
            dim: 1,
            dst_layout: &dst_layout,
            dst,
        };
        let call = |x: Arguments| {
            let update = match op {
                // SAFETY: bad arguments are refused before they are used; the others are live. So below.
                IndexSelect => unsafe {
                    return sys::crk_index_select(
                        x.device,
                        x.ids_dtype,
                        x.dtype,
                        x.src_layout,
                        x.src.into(),
                        x.ids_layout,
                        x.ids.into(),
                        x.dim,
                        x.dst,
                    );
                },
                Gather => unsafe {
                    return sys::crk_gather(
                        x.device,
                        x.ids_dtype,
                        x.dtype,
                        x.src_layout,
                        x.src.into(),
                        x.ids_layout,
                        x.ids.into(),
                        x.dim,
                        x.dst,
                    );
                },
                Scatter => sys::crk_scatter,
                ScatterAdd => sys::crk_scatter_add,
                IndexAdd => sys::crk_index_add,
            };
            // SAFETY: as above.
            unsafe {
                update(
                    x.device,
                    x.ids_dtype,
                    x.dtype,
                    x.ids_layout,
                    x.ids.into(),
                    x.src_layout,
                    x.src.into(),
                    x.dim,
                    x.dst_layout,
                    x.dst,
                )
            }
        };
        let refuses = |status: Status, word: &str, arguments: Arguments| {
            let (got, sentence) = (call(arguments), last_error());
            if got == status && sentence.starts_with(&format!("crk_{}: ", op.name())) && sentence.contains(word) {
                return Ok(());
            }
            Err(format!("{op:?}, {word}: {} {sentence:?}, expected {}", got.name(), status.name()))
        };
        let mut high = src_layout;
        high.rank = 9;
        let far = strided(&src_dims, &[src_dims[1], 1], 60)?;
        let far_ids = layout(&Shape { offset: 62, ..Shape::contiguous(ids_dims) });
        let scalar = strided(&[], &[], 0)?;
        let overflowing = strided(&src_dims, &[usize::MAX / 2, 3], 0)?;
        let more_ids = layout(&Shape::contiguous(&[4, 5][..ids_dims.len()]));
        let other_ids = layout(&Shape::contiguous(&[4, 4, 1]));
        refuses(invalid, "self is NULL", Arguments { device: null_mut(), ..good })?;
        for dtype in [sys::crk_dtype(10), sys::crk_dtype(u32::MAX)] {
            refuses(invalid, " dtype", Arguments { dtype, ..good })?;
            refuses(invalid, "ids_dtype", Arguments { ids_dtype: dtype, ..good })?;
        }
        for t in TYPES.iter().filter(|t| t.is_float()) {
            refuses(Status::Unsupported, t.name, Arguments { ids_dtype: t.dtype, ..good })?;
        }
        refuses(invalid, "src_layout is NULL", Arguments { src_layout: null(), ..good })?;
        refuses(invalid, "ids_layout is NULL", Arguments { ids_layout: null(), ..good })?;
        refuses(invalid, "src_layout.rank is 9", Arguments { src_layout: &high, ..good })?;
        refuses(invalid, "ids_layout.rank is 9", Arguments { ids_layout: &high, ..good })?;
        refuses(invalid, "src_layout", Arguments { src_layout: &overflowing, ..good })?;
        refuses(invalid, "rank", Arguments { src_layout: &scalar, ..good })?;
        refuses(invalid, "ids_layout.rank is 3", Arguments { ids_layout: &other_ids, ..good })?;
        refuses(invalid, "dim is 2", Arguments { dim: 2, ..good })?;
        refuses(invalid, "dim is 18446744073709551615", Arguments { dim: usize::MAX, ..good })?;
        if op != IndexSelect {
            let word = if op == IndexAdd { "ids_layout.dims[0] is 5" } else { "ids_layout.dims[0] is 4" };
            let five = layout(&Shape::contiguous(&[5]));
            let ids_layout = if op == IndexAdd { &five } else { &more_ids };
            refuses(invalid, word, Arguments { ids_layout, ..good })?;
        }
        refuses(bounds, "src", Arguments { src_layout: &far, ..good })?;
        refuses(bounds, "ids", Arguments { ids_layout: &far_ids, ..good })?;
        refuses(bounds, "src", Arguments { src: cut(src, 47), ..good })?;
        refuses(bounds, "ids", Arguments { ids: cut(ids, 15), ..good })?;
        refuses(bounds, "dst", Arguments { dst: cut(dst, 47), ..good })?;
        for (word, arguments) in [
            ("src.ptr", Arguments { src: nowhere, ..good }),
            ("ids.ptr", Arguments { ids: nowhere, ..good }),
            ("dst.ptr", Arguments { dst: nowhere, ..good }),
            ("src.ptr", Arguments { src: at(src, 2), ..good }),
            ("ids.ptr", Arguments { ids: at(ids, 1), ..good }),
            ("dst.ptr", Arguments { dst: at(dst, 3), ..good }),
            ("dst overlaps src", Arguments { dst: src, ..good }),
            ("dst overlaps src", Arguments { dst: at(src, 44), ..good }),
            ("dst overlaps ids", Arguments { dst: ids, ..good }),
        ] {
            refuses(invalid, word, arguments)?;
        }
        if op.updates() {
            let turned = strided(&dst_dims, &[1, dst_dims[0]], 0)?;
            let turned_src = strided(&src_dims, &[1, src_dims[0]], 0)?;
            let taller = layout(&Shape::contiguous(&[4, 5]));
            let far = strided(&dst_dims, &[dst_dims[1], 1], 60)?;
            refuses(invalid, "dst_layout is NULL", Arguments { dst_layout: null(), ..good })?;
            refuses(invalid, "dst_layout.rank is 9", Arguments { dst_layout: &high, ..good })?;
            refuses(invalid, "dst_layout.rank is 0", Arguments { dst_layout: &scalar, ..good })?;
            refuses(invalid, "dst_layout is not contiguous", Arguments { dst_layout: &turned, ..good })?;
            refuses(invalid, "src_layout is not contiguous", Arguments { src_layout: &turned_src, ..good })?;
            refuses(invalid, "dst_layout.dims[0] is 4", Arguments { dst_layout: &taller, ..good })?;
            refuses(bounds, "dst", Arguments { dst_layout: &far, ..good })?;
        }
        device.synchronize().map_err(|error| error.to_string())?;
        for buffer in [&a, &b, &c] {
            if buffer.download::<u8>().map_err(|error| error.to_string())?.iter().any(|byte| *byte != 0) {
                return Err("a refused call wrote".into());
            }
        }
        // The unchanged call succeeds. Adjacent memory does not count as overlap.
        succeeded(call(Arguments { dst: at(src, 64), ..good }))?;
    }
    Ok(())
}

/// The methods of Device, on a small matrix.
fn methods(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = &target.device;
    let flat = |dims: &[usize]| Layout::contiguous(dims).map_err(error);
    let table = device.upload(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).map_err(error)?;
    let ids = device.upload(&[2u32, 0]).map_err(error)?;
    let all = device.upload(&[1i64, 0, 2, i64::MAX]).map_err(error)?;
    let src = device.upload(&[10f32, 20.0, 30.0, 40.0]).map_err(error)?;
    let (rows, few, square) = (flat(&[3, 2])?, flat(&[2])?, flat(&[2, 2])?);
    let out = device.alloc(16).map_err(error)?;
    let see = |buffer: &Buffer, expected: &[f32]| {
        let got = buffer.download::<f32>().map_err(error)?;
        if got == expected { Ok(()) } else { Err(format!("{got:?}, expected {expected:?}")) }
    };
    device.index_select(F32.dtype, (&rows, &table), (U32.dtype, &few, &ids), 0, &out).map_err(error)?;
    see(&out, &[5.0, 6.0, 1.0, 2.0])?;
    device.gather(F32.dtype, (&rows, &table), (I64.dtype, &square, &all), 0, &out).map_err(error)?;
    see(&out, &[3.0, 2.0, 5.0, 0.0])?;
    device.index_add(F32.dtype, (U32.dtype, &few, &ids), (&square, &src), 0, (&rows, &table)).map_err(error)?;
    see(&table, &[31.0, 42.0, 3.0, 4.0, 15.0, 26.0])?;
    device.scatter_add(F32.dtype, (I64.dtype, &square, &all), (&square, &src), 0, (&rows, &table)).map_err(error)?;
    see(&table, &[31.0, 62.0, 13.0, 4.0, 45.0, 26.0])?;
    device.scatter(F32.dtype, (I64.dtype, &square, &all), (&square, &src), 0, (&rows, &table)).map_err(error)?;
    see(&table, &[31.0, 20.0, 10.0, 4.0, 30.0, 26.0])
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "indexing", target, name, body);
        for &op in OPS {
            for &it in TYPES.iter().filter(|t| !t.is_float()) {
                for &t in TYPES {
                    let name = |kind: &str| format!("{kind}/{}_{}_{}", op.name(), it.name, t.name);
                    add(name("inside"), Box::new(move |target, name| inside(target, name, op, it, t)));
                    add(name("by_name"), Box::new(move |target, name| by_name(target, name, op, it, t)));
                }
                let name = format!("outside/{}_{}", op.name(), it.name);
                add(name, Box::new(move |target, name| outside(target, name, op, it)));
            }
        }
        for t in [U8, BF16, F32, I64] {
            add(format!("strips/gather_{}", t.name), Box::new(move |target, name| strips(target, name, t)));
        }
        add("graph".into(), Box::new(move |target, _| graph(target)));
        add("order_of_sums".into(), Box::new(move |target, _| order_of_sums(target)));
        add("methods".into(), Box::new(move |target, _| methods(target)));
        add("bad_input".into(), Box::new(move |target, _| bad_input(target)));
    }
    trials
}
