//! Launchers and kernels by name, against plain Rust (support/reference.rs): random layouts, sizes around every vector
//! and block width, misaligned views, results in place. Guard bytes surround every buffer.
//!
//! A trial is an op and a dtype on a device: `properties/cpu:32/unary/uexp_f32`. Its cases are the same in every run. A
//! failure names the case, and `CANDLE_ROCM_CASE=N` runs only that one. `CANDLE_ROCM_BIG=1` adds trials that need
//! gigabytes.

use crate::support::cases::{Rng, Shape, random_destination, random_dims, random_layout, sizes};
use crate::support::number::{BF16, F16, F32, TYPES, Type, U8, U32};
use crate::support::property::{Operand, Outcome, check, each_case, layout, value, values};
use crate::support::reference::{self, Expected};
#[cfg(unix)]
use crate::support::sparse::Sparse;
use crate::support::{Target, succeeded};
use candle_rocm_sys::{Arg, Launch, Layout, sys};
use libtest_mimic::{Failed, Trial};
use std::ffi::CString;

const PARAMS: &[f64] = &[1.0, 0.5, 2.0, -1.5, 3.0, 0.0, -0.25];

/// The layout of the operands of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Contiguous,
    Random,
    InPlace,
}

/// One case. The trial's name and the case's number determine everything in it.
struct Case<'a> {
    target: &'a Target,
    rng: Rng,
    how: How,
    dims: Vec<usize>,
    vector: usize,
}

/// The number of elements of the narrowest type in 16 bytes.
fn vector_of(types: &[Type]) -> usize {
    16 / types.iter().map(|t| t.bytes).min().unwrap_or(1)
}

/// Runs the cases of a trial. `in_place` tells whether the op can work in place with these types.
fn cases(
    target: &Target,
    name: &str,
    vector: usize,
    random: usize,
    in_place: bool,
    body: impl Fn(&mut Case) -> Outcome,
) -> Outcome {
    // For kernels by name, Candle's block of 1024 matters and the vector width does not.
    let sizes = if name.starts_with("by_name/") { vec![0, 1, 31, 1023, 1024, 1025, 2049] } else { sizes(vector) };
    let inside = if in_place { vec![17, vector * 3, 1025] } else { vec![] };
    each_case(target, "properties", name, sizes.len() + random + inside.len(), |rng, index| {
        let mut rng = rng.clone();
        let (how, dims) = match index.checked_sub(sizes.len()) {
            None => (How::Contiguous, vec![sizes[index]]),
            Some(i) if i < random => (How::Random, random_dims(&mut rng, i % 9, vector, 3000)),
            Some(i) => (How::InPlace, vec![inside[i - random]]),
        };
        let mut case = Case { target, rng, how, dims, vector };
        body(&mut case).map_err(|problem| format!("{:?}, dims {:?}: {problem}", case.how, case.dims))
    })
}

impl Case<'_> {
    fn device(&self) -> sys::crk_device_t {
        self.target.device.raw()
    }

    /// A source with the case's dims.
    fn source(&mut self, t: Type) -> Operand {
        let shape = match self.how {
            How::Random => random_layout(&mut self.rng, &self.dims, self.vector),
            _ => Shape::contiguous(&self.dims),
        };
        let data = values(&mut self.rng, t, shape.reach());
        self.operand(t, shape, data)
    }

    fn operand(&mut self, t: Type, shape: Shape, data: Vec<u8>) -> Operand {
        Operand::new(self.target, &mut self.rng, t, shape, data)
    }

    /// A contiguous destination with the case's dims, filled with other bytes.
    fn destination(&mut self, t: Type) -> Operand {
        let shape = Shape::contiguous(&self.dims);
        let data = vec![0xcd; shape.numel() * t.bytes];
        self.operand(t, shape, data)
    }
}

/// The op of a kernel root, from the header's own lookup.
macro_rules! op {
    ($lookup:ident, $kind:ident, $root:expr) => {{
        let root = CString::new($root).expect("a root");
        let mut op = sys::$kind(u32::MAX);
        // SAFETY: a string and a place for the answer.
        succeeded(unsafe { sys::$lookup(root.as_ptr(), &mut op) })?;
        op
    }};
}

/// The kernel roots in one of the header's lists. An op that is added there is tested here.
fn roots(list: &str) -> Vec<&'static str> {
    let header = include_str!("../../include/candle_rocm/launchers/elementwise.h");
    let (_, list) = header.split_once(&format!("#define {list}(XX)")).expect("the list is in the header");
    let lines = list.lines().skip(1).take_while(|line| line.trim_start().starts_with("XX("));
    let roots: Vec<_> = lines.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(roots.len() > 1, "no ops in the header");
    roots
}

fn has_param(root: &str) -> bool {
    matches!(root, "uelu" | "upowf")
}

fn unary(target: &Target, name: &str, root: &'static str, t: Type) -> Outcome {
    let op = op!(crk_unary_op_from_root, crk_unary_op, root);
    if reference::unary(root, t, 0, 1.0).is_none() {
        return unsupported(target, |device, layout, view| {
            // SAFETY: live arguments.
            unsafe {
                if has_param(root) {
                    sys::crk_unary_param(device, op, t.dtype, layout, view.into(), view, 1.0)
                } else {
                    sys::crk_unary(device, op, t.dtype, layout, view.into(), view)
                }
            }
        });
    }
    cases(target, name, vector_of(&[t]), 36, true, |case| {
        let src = case.source(t);
        let dst = case.destination(t);
        let to = if case.how == How::InPlace { &src } else { &dst };
        let param = t.float(t.converted(case.rng.pick(PARAMS)));
        let (device, layout, from, into) = (case.device(), src.layout(), src.memory.view(), to.memory.view());
        // SAFETY: live arguments.
        succeeded(unsafe {
            if has_param(root) {
                sys::crk_unary_param(device, op, t.dtype, &layout, from.into(), into, param)
            } else {
                sys::crk_unary(device, op, t.dtype, &layout, from.into(), into)
            }
        })?;
        let expected: Vec<_> = src.elements().iter().filter_map(|x| reference::unary(root, t, *x, param)).collect();
        check(to, &expected, &[&src])
    })
}

/// Every number of a 16-bit type, contiguous. Kernels may use shorter formulas for these types if the results are the
/// same for every number.
fn unary_of_all(target: &Target, root: &'static str, t: Type) -> Outcome {
    let op = op!(crk_unary_op_from_root, crk_unary_op, root);
    let codes: Vec<u16> = (0..=u16::MAX).collect();
    let device = &target.device;
    let src = device.upload(&codes).map_err(|error| error.to_string())?;
    let dst = device.alloc(src.bytes()).map_err(|error| error.to_string())?;
    let layout = Layout::contiguous(&[codes.len()]).map_err(|error| error.to_string())?;
    device.unary(op, t.dtype, &layout, &src, &dst).map_err(|error| error.to_string())?;
    let results = dst.download::<u16>().map_err(|error| error.to_string())?;
    for (code, got) in codes.into_iter().zip(results) {
        let expected = reference::unary(root, t, code.into(), 0.0).expect("a kernel of floats");
        if !expected.admits(t, got.into()) {
            return Err(format!("{root}_{} of {code:#06x} gave {got:#06x}, expected {:#06x}", t.name, expected.bits));
        }
    }
    Ok(())
}

/// Checks that a combination without a kernel is refused as unsupported.
fn unsupported(
    target: &Target,
    call: impl Fn(sys::crk_device_t, &Layout, sys::crk_view_t) -> sys::crk_status_t,
) -> Outcome {
    let memory = target.device.alloc(64).map_err(|error| error.to_string())?;
    let layout = Layout::contiguous(&[4]).map_err(|error| error.to_string())?;
    match call(target.device.raw(), &layout, memory.raw_view()) {
        sys::crk_status::CRK_UNSUPPORTED => Ok(()),
        status => Err(format!("{} for an op and dtype without a kernel", status.name())),
    }
}

fn affine(target: &Target, name: &str, t: Type) -> Outcome {
    cases(target, name, vector_of(&[t]), 36, true, |case| {
        let src = case.source(t);
        let dst = case.destination(t);
        let to = if case.how == How::InPlace { &src } else { &dst };
        let (mul, add) = (case.rng.pick(PARAMS), case.rng.pick(&[0.0, 1.0, -2.5, 100.0, 1e9]));
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_affine(case.device(), t.dtype, &src.layout(), src.memory.view().into(), to.memory.view(), mul, add)
        })?;
        let (mul, add) = (t.converted(mul), t.converted(add));
        let expected: Vec<_> = src.elements().iter().map(|x| reference::affine(t, *x, mul, add)).collect();
        check(to, &expected, &[&src])
    })
}

/// The op rounds once. The cases would show a second rounding: sums that nearly cancel, sums at or near half a unit in
/// the last place, subnormal sums, and random bits.
fn fused(target: &Target, name: &str) -> Outcome {
    let t = F32;
    each_case(target, "properties", name, 60, |rng, index| {
        let scale = |rng: &mut Rng, least: usize, count: usize| ((least + rng.below(count)) as u32) << 23;
        let (mut mul, mut add) = (rng.next() as u32, rng.next() as u32);
        match index % 4 {
            0 => {}
            1 => (mul, add) = (mul & 0x807f_f000 | scale(rng, 120, 16), add & 0x8000_0003 | scale(rng, 95, 60)),
            2 => (mul, add) = (mul & 0x807f_ffff | scale(rng, 60, 10), add & 0x80ff_ffff),
            _ => (mul, add) = (mul & 0xff80_0000, add & 0xfff0_0000),
        }
        let (mul, add) = (f32::from_bits(mul), f32::from_bits(add));
        let mut data = vec![0; 2048 * t.bytes];
        for i in 0..2048 {
            let any = rng.next() as u32;
            let near = (-add / mul).to_bits().wrapping_add(rng.below(5) as u32).wrapping_sub(2);
            // The last place of the product is a quarter to four times half of the sum's.
            let tie = (add.abs() * 2f32.powi(rng.below(5) as i32 - 26) / mul).to_bits() & 0xff80_0000;
            let short = any & 0x807f_f000 | scale(rng, 110, 30);
            t.put(&mut data, i, rng.pick(&[any, near, tie, short]).into());
        }
        let src = Operand::new(target, rng, t, Shape::contiguous(&[2048]), data);
        let dst = Operand::destination(target, rng, t, &[2048]);
        let (from, to) = (src.memory.view(), dst.memory.view());
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_affine(target.device.raw(), t.dtype, &src.layout(), from.into(), to, mul.into(), add.into())
        })?;
        let once = |x: u64| Expected::exactly(f32::from_bits(x as u32).mul_add(mul, add).to_bits().into());
        let expected: Vec<_> = src.elements().into_iter().map(once).collect();
        check(&dst, &expected, &[&src]).map_err(|problem| format!("times {mul:e}, plus {add:e}: {problem}"))
    })
}

fn binary(target: &Target, name: &str, root: &'static str, t: Type) -> Outcome {
    let op = op!(crk_binary_op_from_root, crk_binary_op, root);
    cases(target, name, vector_of(&[t]), 45, true, |case| {
        let (lhs, rhs) = (case.source(t), case.source(t));
        let dst = case.destination(t);
        let to = match case.how {
            How::InPlace => {
                if case.rng.one_in(2) {
                    &lhs
                } else {
                    &rhs
                }
            }
            _ => &dst,
        };
        binary_into(case.device(), (op, root), [&lhs, &rhs], to)
    })
}

fn binary_into(
    device: sys::crk_device_t,
    (op, root): (sys::crk_binary_op_t, &str),
    [lhs, rhs]: [&Operand; 2],
    to: &Operand,
) -> Outcome {
    let (t, l, r) = (lhs.t, lhs.memory.view(), rhs.memory.view());
    // SAFETY: live arguments.
    succeeded(unsafe {
        sys::crk_binary(device, op, t.dtype, &lhs.layout(), l.into(), &rhs.layout(), r.into(), to.memory.view())
    })?;
    let expected: Vec<_> =
        lhs.elements().iter().zip(rhs.elements()).map(|(l, r)| reference::binary(root, t, *l, r)).collect();
    check(to, &expected, &[lhs, rhs])
}

/// One operand or both are transposed. They are walked in strips; the last strip may be narrower. There may be several
/// matrices. The destination may be aligned to packs or not.
fn transposed_operand(target: &Target, name: &str, t: Type) -> Outcome {
    let op = op!(crk_binary_op_from_root, crk_binary_op, "badd");
    let all: [&[usize]; 6] = [&[40, 64], &[3, 37, 70], &[16, 33], &[2, 5, 2, 160], &[70, 96], &[7, 1, 129]];
    each_case(target, "properties", name, 3 * all.len(), |rng, index| {
        let dims = all[index % all.len()];
        let plain = Shape { offset: rng.pick(&[0, 16, 3]), ..Shape::contiguous(dims) };
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.swap(dims.len() - 1, if dims.len() == 3 && dims[1] == 1 { 0 } else { dims.len() - 2 });
        let turned = Shape::contiguous(&order.iter().map(|&i| dims[i]).collect::<Vec<_>>()).permuted(&order);
        let shapes = [[&plain, &turned], [&turned, &plain], [&turned, &turned]][index / all.len()];
        let [lhs, rhs] = shapes.map(|shape| {
            let data = values(rng, t, shape.reach());
            Operand::new(target, rng, t, shape.clone(), data)
        });
        let dst = Operand::destination(target, rng, t, dims);
        binary_into(target.device.raw(), (op, "badd"), [&lhs, &rhs], &dst)
    })
}

/// Matrices combined with one row that all their rows share. There are so many rows that a thread takes several, and
/// the last threads fewer. The operands have the types `of`, the destination the type `t`, and `data` makes an
/// operand's data. All are aligned, as the kernels require, except in a last case. `f` gets the number of the case,
/// which is the index of the shared row's operand.
fn shared_rows(
    target: &Target,
    name: &str,
    (of, t): (&[Type], Type),
    data: impl Fn(&mut Rng, usize, usize) -> Vec<u8>,
    f: impl Fn(usize, &[Operand], &Operand) -> Outcome,
) -> Outcome {
    let units = target.device.info().map_err(|error| error.to_string())?.compute_units as usize;
    each_case(target, "properties", name, 4, |rng, index| {
        let mut rng = rng.clone();
        let packs = [1, 3, 7, 2][index];
        let dims = [16 * (1024 * units).div_ceil(packs) - rng.below(16), packs * vector_of(&[of, &[t]].concat())];
        let mut operands = Vec::new();
        for (k, &its) in of.iter().enumerate() {
            let offset = if index < 3 { 16 / its.bytes * rng.below(3) } else { rng.below(5) };
            let row = Shape { dims: dims.to_vec(), strides: vec![0, 1], offset };
            let shape = if k == index % of.len() { row } else { Shape::contiguous(&dims) };
            let data = data(&mut rng, k, shape.reach());
            operands.push(match index {
                0..3 => Operand::aligned(target, its, shape, data),
                _ => Operand::new(target, &mut rng, its, shape, data),
            });
        }
        let dst = match index {
            0..3 => {
                let shape = Shape::contiguous(&dims);
                let data = vec![0xcd; shape.numel() * t.bytes];
                Operand::aligned(target, t, shape, data)
            }
            _ => Operand::destination(target, &mut rng, t, &dims),
        };
        f(index, &operands, &dst)
    })
}

fn shared_row(target: &Target, name: &str, root: &'static str, t: Type) -> Outcome {
    let op = op!(crk_binary_op_from_root, crk_binary_op, root);
    let data = |rng: &mut Rng, _, count| values(rng, t, count);
    shared_rows(target, name, (&[t, t], t), data, |index, operands, dst| {
        let [lhs, rhs] = operands else { unreachable!("two operands") };
        // In place, if the shared row is the left operand.
        let to = if index == 2 { rhs } else { dst };
        binary_into(target.device.raw(), (op, root), [lhs, rhs], to)
    })
}

fn cmp(target: &Target, name: &str, root: &'static str, t: Type) -> Outcome {
    let op = op!(crk_cmp_op_from_root, crk_cmp_op, root);
    cases(target, name, vector_of(&[t, U8]), 36, t == U8, |case| {
        let (lhs, rhs) = (case.source(t), case.source(t));
        let dst = case.destination(U8);
        let to = if case.how == How::InPlace { &lhs } else { &dst };
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_cmp(
                case.device(),
                op,
                t.dtype,
                &lhs.layout(),
                lhs.memory.view().into(),
                &rhs.layout(),
                rhs.memory.view().into(),
                to.memory.view(),
            )
        })?;
        let expected: Vec<_> = lhs
            .elements()
            .iter()
            .zip(rhs.elements())
            .map(|(l, r)| Expected::exactly(reference::cmp(root, t, *l, r).into()))
            .collect();
        check(to, &expected, &[&lhs, &rhs])
    })
}

fn cast(target: &Target, name: &str, from: Type, to: Type) -> Outcome {
    cases(target, name, vector_of(&[from, to]), 36, from.bytes == to.bytes, |case| {
        let src = case.source(from);
        let dst = case.destination(to);
        let place = if case.how == How::InPlace { &src.memory } else { &dst.memory };
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_cast(case.device(), from.dtype, to.dtype, &src.layout(), src.memory.view().into(), place.view())
        })?;
        let expected: Vec<_> = src.elements().iter().map(|x| reference::cast(from, to, *x)).collect();
        if case.how == How::InPlace {
            let got = src.memory.read()?;
            let wrong = expected.iter().enumerate().find(|(i, e)| !e.admits(to, to.get(&got, *i)));
            return wrong.map_or(Ok(()), |(i, e)| {
                Err(format!("element {i}: got {}, expected {}", to.show(to.get(&got, i)), to.show(e.bits)))
            });
        }
        check(&dst, &expected, &[&src])
    })
}

fn where_cond(target: &Target, name: &str, ids: Type, t: Type) -> Outcome {
    cases(target, name, vector_of(&[ids, t]), 45, true, |case| {
        let Operand { shape, data, .. } = case.source(ids);
        let data = half_false(&mut case.rng, ids, data);
        let i = case.operand(ids, shape, data);
        let (a, b, dst) = (case.source(t), case.source(t), case.destination(t));
        let to = match case.how {
            How::InPlace => {
                if case.rng.one_in(2) {
                    &a
                } else {
                    &b
                }
            }
            _ => &dst,
        };
        where_into(case.device(), [&i, &a, &b], to)
    })
}

fn where_into(device: sys::crk_device_t, [i, a, b]: [&Operand; 3], to: &Operand) -> Outcome {
    // SAFETY: live arguments.
    succeeded(unsafe {
        sys::crk_where(
            device,
            i.t.dtype,
            a.t.dtype,
            &i.layout(),
            i.memory.view().into(),
            &a.layout(),
            a.memory.view().into(),
            &b.layout(),
            b.memory.view().into(),
            to.memory.view(),
        )
    })?;
    check(to, &chosen(i, a, b), &[i, a, b])
}

fn half_false(rng: &mut Rng, ids: Type, mut data: Vec<u8>) -> Vec<u8> {
    for index in 0..data.len() / ids.bytes {
        if rng.one_in(2) {
            ids.put(&mut data, index, 0);
        }
    }
    data
}

fn where_row(target: &Target, name: &str, ids: Type, t: Type) -> Outcome {
    let data = |rng: &mut Rng, k, count| match k {
        0 => {
            let data = values(rng, ids, count);
            half_false(rng, ids, data)
        }
        _ => values(rng, t, count),
    };
    shared_rows(target, name, (&[ids, t, t], t), data, |index, operands, dst| {
        let [i, a, b] = operands else { unreachable!("three operands") };
        // In place, if the shared row is the last operand.
        let to = if index == 2 { a } else { dst };
        where_into(target.device.raw(), [i, a, b], to)
    })
}

fn chosen(ids: &Operand, on_true: &Operand, on_false: &Operand) -> Vec<Expected> {
    let pairs = on_true.elements().into_iter().zip(on_false.elements());
    ids.elements().into_iter().zip(pairs).map(|(i, (a, b))| Expected::moved(if i != 0 { a } else { b })).collect()
}

fn fill(target: &Target, name: &str, t: Type) -> Outcome {
    cases(target, name, vector_of(&[t]), 12, false, |case| {
        let dst = case.destination(t);
        let bits = value(&mut case.rng, t);
        let numel = dst.shape.numel();
        // SAFETY: live arguments; a little-endian value begins at its lowest byte.
        succeeded(unsafe {
            sys::crk_fill(case.device(), t.dtype, dst.memory.view(), numel, bits.to_le_bytes().as_ptr().cast())
        })?;
        check(&dst, &vec![Expected::moved(bits); numel], &[])
    })
}

fn const_set(target: &Target, name: &str, t: Type) -> Outcome {
    cases(target, name, vector_of(&[t]), 45, false, |case| {
        let shape = match case.how {
            How::Random => random_destination(&mut case.rng, &case.dims, case.vector),
            _ => Shape::contiguous(&case.dims),
        };
        let data = values(&mut case.rng, t, shape.reach());
        let dst = case.operand(t, shape, data);
        let bits = value(&mut case.rng, t);
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_const_set(
                case.device(),
                t.dtype,
                &dst.layout(),
                dst.memory.view(),
                bits.to_le_bytes().as_ptr().cast(),
            )
        })?;
        let mut expected: Vec<_> = (0..dst.shape.reach()).map(|i| Expected::moved(t.get(&dst.data, i))).collect();
        for index in dst.shape.indices() {
            expected[index] = Expected::moved(bits);
        }
        check(&dst, &expected, &[]).map_err(|problem| format!("{:?}: {problem}", dst.shape))
    })
}

fn copy2d(target: &Target, name: &str, t: Type) -> Outcome {
    cases(target, name, vector_of(&[t]), 60, false, |case| {
        let (vector, how) = (case.vector, case.how);
        let widths = [1, 2, 3, vector - 1, vector, vector + 1, 4 * vector, 33, 255, 256, 257];
        let (rows, cols) = match how {
            How::Contiguous => (1, case.dims[0]),
            _ => (case.rng.pick(&[0, 1, 2, 3, 7, 16]), case.rng.pick(&widths)),
        };
        let mut pad = || case.rng.pick(&[0, 0, 1, vector, 5]);
        let (src_stride, dst_stride, src_offset, dst_offset) = (cols + pad(), cols + pad(), pad(), pad());
        let src_stride = if how == How::Random && case.rng.one_in(6) { 0 } else { src_stride };
        let shape = |stride, offset| Shape { dims: vec![rows, cols], strides: vec![stride, 1], offset };
        let (from, to) = (shape(src_stride, src_offset), shape(dst_stride, dst_offset));
        let data = values(&mut case.rng, t, from.reach());
        let src = case.operand(t, from, data);
        let data = values(&mut case.rng, t, to.reach());
        let dst = case.operand(t, to, data);
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_copy2d(
                case.device(),
                t.dtype,
                rows,
                cols,
                src.memory.view().into(),
                src_stride,
                src_offset,
                dst.memory.view(),
                dst_stride,
                dst_offset,
            )
        })?;
        let mut expected: Vec<_> = (0..dst.shape.reach()).map(|i| Expected::moved(t.get(&dst.data, i))).collect();
        for (index, bits) in dst.shape.indices().into_iter().zip(src.elements()) {
            expected[index] = Expected::moved(bits);
        }
        check(&dst, &expected, &[]).map_err(|problem| format!("{:?} to {:?}: {problem}", src.shape, dst.shape))?;
        src.unchanged()
    })
}

fn copy_strided(target: &Target, name: &str, t: Type) -> Outcome {
    cases(target, name, vector_of(&[t]), 60, false, |case| {
        let src = case.source(t);
        let dst_offset = case.rng.pick(&[0, 1, case.vector, 3]);
        let data = values(&mut case.rng, t, dst_offset + src.shape.numel());
        let dst = case.operand(t, Shape::contiguous(&[data.len() / t.bytes]), data);
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_copy_strided(
                case.device(),
                t.dtype,
                &src.layout(),
                src.memory.view().into(),
                dst.memory.view(),
                dst_offset,
            )
        })?;
        let kept = (0..dst_offset).map(|i| Expected::moved(t.get(&dst.data, i)));
        let expected: Vec<_> = kept.chain(src.elements().into_iter().map(Expected::moved)).collect();
        check(&dst, &expected, &[]).map_err(|problem| format!("{:?} to {dst_offset}: {problem}", src.shape))?;
        src.unchanged()
    })
}

/// Copies through tiles: two of several dims change places. Sizes are around a tile's edges, and rows begin anywhere.
fn transposed(target: &Target, name: &str, t: Type) -> Outcome {
    let edge = if t.bytes == 8 { 32 } else { 64 } * if t.bytes == 1 { 2 } else { 1 };
    let sizes = [15, 16, 17, 31, 48, edge - 1, edge, edge + 1, edge + 16, 2 * edge, 2 * edge + 5];
    each_case(target, "properties", name, 40, |rng, _| {
        let (rows, columns) = (rng.pick(&sizes), rng.pick(&sizes));
        let others = [rng.pick(&[1, 1, 2, 3]), rng.pick(&[1, 1, 2])];
        let order = rng.pick(&[[0, 1, 3, 2], [0, 3, 1, 2], [3, 0, 1, 2], [1, 3, 0, 2], [0, 3, 2, 1]]);
        let mut before = Shape::contiguous(&[others[0], others[1], rows, columns]);
        if rng.one_in(3) {
            let padding = rng.pick(&[1, 16]);
            before.strides =
                vec![others[1] * rows * (columns + padding), rows * (columns + padding), columns + padding, 1];
        }
        before.offset = rng.pick(&[0, 0, 1, 16]);
        let shape = before.permuted(&order);
        let src = Operand::random(target, rng, t, shape.clone());
        let dst = Operand::destination(target, rng, t, &shape.dims);
        let (from, to) = (src.memory.view(), dst.memory.view());
        // SAFETY: live arguments.
        succeeded(unsafe { sys::crk_copy_strided(target.device.raw(), t.dtype, &src.layout(), from.into(), to, 0) })?;
        let got = dst.memory.read()?;
        let expected = src.elements();
        match (0..expected.len()).find(|&i| t.get(&got, i) != expected[i]) {
            Some(i) => Err(format!("element {i} of {shape:?} is wrong")),
            None => src.unchanged(),
        }
    })
}

// ---- by name ----

/// A kernel name with one of the spellings of f8.
fn spelt(name: &str, which: usize) -> String {
    name.replace("f8e4m3", ["f8e4m3", "f8_e4m3", "fp8_e4m3"][which % 3])
}

/// Dims and strides on the device, as a kernel by name reads them. Dropping it releases them.
struct Info {
    device: sys::crk_device_t,
    params: sys::crk_params_t,
}

impl Info {
    /// The params of a layout from crk_params_from_layout; NULL if it is contiguous.
    fn of(case: &Case, shape: &Shape) -> Result<Info, String> {
        let mut params = sys::crk_params_t::default();
        // SAFETY: live arguments.
        succeeded(unsafe { sys::crk_params_from_layout(case.device(), &layout(shape), &mut params) })?;
        Ok(Info { device: case.device(), params })
    }

    /// The dims, and the strides of several operands.
    fn of_all(case: &Case, shapes: &[&Shape]) -> Result<Info, String> {
        let numbers = shapes[0].dims.iter().chain(shapes.iter().flat_map(|s| &s.strides));
        let numbers: Vec<u64> = numbers.map(|n| *n as u64).collect();
        let mut params = sys::crk_params_t::default();
        // SAFETY: live arguments.
        succeeded(unsafe { sys::crk_params_acquire(case.device(), numbers.as_ptr(), numbers.len(), &mut params) })?;
        Ok(Info { device: case.device(), params })
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: acquired from this device and released once.
        unsafe { sys::crk_params_release(self.device, self.params) }
    }
}

impl Case<'_> {
    /// Launches a kernel with Candle's geometry.
    fn launch(&self, module: &str, kernel: &str, numel: usize, args: &[Arg]) -> Outcome {
        let function = self.target.device.function_named(module, kernel).map_err(|error| error.to_string())?;
        // SAFETY: the callers pass the arguments that the kernel takes.
        unsafe { function.launch(Launch::for_num_elems(numel as u32), args) }
            .map_err(|error| format!("{kernel}: {error}"))
    }

    fn numel(&self) -> usize {
        self.dims.iter().product()
    }
}

/// A source as a kernel by name takes it: the pointer includes the offset.
fn start(operand: &Operand) -> Arg<'static> {
    Arg::ptr(operand.memory.ptr().cast::<u8>().wrapping_add(operand.shape.offset * operand.t.bytes).cast())
}

fn unary_by_name(target: &Target, name: &str, root: &'static str, t: Type) -> Outcome {
    if reference::unary(root, t, 0, 1.0).is_none() {
        let kernel = format!("{root}_{}", t.name);
        return match target.device.function_named("unary", &kernel) {
            Err(error) if error.status() == sys::crk_status::CRK_NOT_FOUND => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err(format!("{kernel} exists, and nothing says what it computes")),
        };
    }
    cases(target, name, vector_of(&[t]), 9, true, |case| {
        let kernel = spelt(&format!("{root}_{}", t.name), case.rng.below(3));
        let (src, dst) = (case.source(t), case.destination(t));
        let info = Info::of(case, &src.shape)?;
        let param = t.float(t.converted(case.rng.pick(PARAMS)));
        let (to, from) =
            if case.how == How::InPlace { (&src, Arg::ptr(std::ptr::null())) } else { (&dst, start(&src)) };
        let mut args = vec![case.numel().into(), case.dims.len().into(), Arg::ptr(info.params.ptr)];
        if has_param(root) {
            args.push(Arg::bits(t.round_bits(param), t.bytes as u32));
        }
        args.extend([from, Arg::ptr(to.memory.ptr())]);
        case.launch("unary", &kernel, case.numel(), &args)?;
        let expected: Vec<_> = src.elements().iter().filter_map(|x| reference::unary(root, t, *x, param)).collect();
        check(to, &expected, &[&src])
    })
}

fn affine_by_name(target: &Target, name: &str, t: Type) -> Outcome {
    cases(target, name, vector_of(&[t]), 9, true, |case| {
        let kernel = spelt(&format!("affine_{}", t.name), case.rng.below(3));
        let (src, dst) = (case.source(t), case.destination(t));
        let info = Info::of(case, &src.shape)?;
        let (mul, add) = (t.converted(case.rng.pick(PARAMS)), t.converted(case.rng.pick(&[0.0, 1.0, -2.5])));
        let (to, from) =
            if case.how == How::InPlace { (&src, Arg::ptr(std::ptr::null())) } else { (&dst, start(&src)) };
        let number = |bits| Arg::bits(bits, t.bytes as u32);
        let args = [
            case.numel().into(),
            case.dims.len().into(),
            Arg::ptr(info.params.ptr),
            from,
            Arg::ptr(to.memory.ptr()),
            number(mul),
            number(add),
        ];
        case.launch("affine", &kernel, case.numel(), &args)?;
        let expected: Vec<_> = src.elements().iter().map(|x| reference::affine(t, *x, mul, add)).collect();
        check(to, &expected, &[&src])
    })
}

fn binary_by_name(target: &Target, name: &str, root: &'static str, t: Type) -> Outcome {
    let is_cmp = !root.starts_with('b');
    let out = if is_cmp { U8 } else { t };
    cases(target, name, vector_of(&[t, out]), 9, false, |case| {
        let kernel = spelt(&format!("{root}_{}", t.name), case.rng.below(3));
        let (lhs, rhs, dst) = (case.source(t), case.source(t), case.destination(out));
        let info = Info::of_all(case, &[&lhs.shape, &rhs.shape])?;
        // A null pointer means that both are contiguous.
        let null = case.how == How::Contiguous && case.rng.one_in(2);
        let info_ptr = if null { std::ptr::null() } else { info.params.ptr };
        let args = [
            case.numel().into(),
            case.dims.len().into(),
            Arg::ptr(info_ptr),
            start(&lhs),
            start(&rhs),
            Arg::ptr(dst.memory.ptr()),
        ];
        case.launch("binary", &kernel, case.numel(), &args)?;
        let pairs = lhs.elements().into_iter().zip(rhs.elements());
        let expected: Vec<_> = pairs
            .map(|(l, r)| match is_cmp {
                true => Expected::exactly(reference::cmp(root, t, l, r).into()),
                false => reference::binary(root, t, l, r),
            })
            .collect();
        check(&dst, &expected, &[&lhs, &rhs])
    })
}

fn cast_by_name(target: &Target, name: &str, from: Type, to: Type) -> Outcome {
    cases(target, name, vector_of(&[from, to]), 9, false, |case| {
        let kernel = spelt(&format!("cast_{}_{}", from.name, to.name), case.rng.below(3));
        let (src, dst) = (case.source(from), case.destination(to));
        let info = Info::of(case, &src.shape)?;
        let args = [
            case.numel().into(),
            case.dims.len().into(),
            Arg::ptr(info.params.ptr),
            start(&src),
            Arg::ptr(dst.memory.ptr()),
        ];
        case.launch("cast", &kernel, case.numel(), &args)?;
        let expected: Vec<_> = src.elements().iter().map(|x| reference::cast(from, to, *x)).collect();
        check(&dst, &expected, &[&src])
    })
}

fn where_by_name(target: &Target, name: &str, ids: Type, t: Type) -> Outcome {
    cases(target, name, vector_of(&[ids, t]), 9, false, |case| {
        let kernel = spelt(&format!("where_{}_{}", ids.name, t.name), case.rng.below(3));
        let (i, a, b, dst) = (case.source(ids), case.source(t), case.source(t), case.destination(t));
        let info = Info::of_all(case, &[&i.shape, &a.shape, &b.shape])?;
        let args = [
            case.numel().into(),
            case.dims.len().into(),
            Arg::ptr(info.params.ptr),
            start(&i),
            start(&a),
            start(&b),
            Arg::ptr(dst.memory.ptr()),
        ];
        case.launch("ternary", &kernel, case.numel(), &args)?;
        check(&dst, &chosen(&i, &a, &b), &[&i, &a, &b])
    })
}

fn fill_by_name(target: &Target, name: &str, t: Type) -> Outcome {
    cases(target, name, vector_of(&[t]), 6, false, |case| {
        let which = case.rng.below(3);
        let bits = value(&mut case.rng, t);
        let number = Arg::bits(bits, t.bytes as u32);
        let dst = case.destination(t);
        let numel = case.numel();
        case.launch(
            "fill",
            &spelt(&format!("fill_{}", t.name), which),
            numel,
            &[Arg::ptr(dst.memory.ptr()), number, numel.into()],
        )?;
        check(&dst, &vec![Expected::moved(bits); numel], &[])?;

        let shape = match case.how {
            How::Random => random_destination(&mut case.rng, &case.dims, case.vector),
            _ => Shape::contiguous(&case.dims),
        };
        let data = values(&mut case.rng, t, shape.reach());
        let dst = case.operand(t, shape, data);
        let info = Info::of(case, &dst.shape)?;
        let args = [numel.into(), case.dims.len().into(), Arg::ptr(info.params.ptr), number, start(&dst)];
        case.launch("fill", &spelt(&format!("const_set_{}", t.name), which), numel, &args)?;
        let mut expected: Vec<_> = (0..dst.shape.reach()).map(|i| Expected::moved(t.get(&dst.data, i))).collect();
        for index in dst.shape.indices() {
            expected[index] = Expected::moved(bits);
        }
        check(&dst, &expected, &[])?;

        let (rows, cols) = (case.rng.pick(&[1usize, 3, 8]), case.rng.pick(&[1usize, 7, 32, 33]));
        let (src_stride, dst_stride) = (cols + case.rng.below(3), cols + case.rng.below(3));
        let of = |stride| Shape { dims: vec![rows, cols], strides: vec![stride, 1], offset: 0 };
        let data = values(&mut case.rng, t, of(src_stride).reach());
        let src = case.operand(t, of(src_stride), data);
        let data = values(&mut case.rng, t, of(dst_stride).reach());
        let dst = case.operand(t, of(dst_stride), data);
        let u32s = [rows, cols, src_stride, dst_stride].map(|n| Arg::from(n as u32));
        let args = [&[Arg::ptr(src.memory.ptr()), Arg::ptr(dst.memory.ptr())], u32s.as_slice()].concat();
        case.launch("fill", &spelt(&format!("copy2d_{}", t.name), which), rows * cols, &args)?;
        let mut expected: Vec<_> = (0..dst.shape.reach()).map(|i| Expected::moved(t.get(&dst.data, i))).collect();
        for (index, bits) in dst.shape.indices().into_iter().zip(src.elements()) {
            expected[index] = Expected::moved(bits);
        }
        check(&dst, &expected, &[])
    })
}

// ---- far apart ----

/// Elements more than 2^32 apart, in a source and in a destination. This takes the path with 64-bit indices.
#[cfg(unix)]
fn far_apart(target: &Target, t: Type) -> Outcome {
    let stride = (1usize << 32) + 24;
    let shape = Shape { dims: vec![2, 3, 16], strides: vec![stride, 40, 1], offset: 5 };
    let far = Sparse::new(shape.reach() * t.bytes)?;
    let device = target.device.raw();
    // Small growing numbers, in every type. The maximum of an element and the one at its place in the first row is then
    // the element itself.
    let expected: Vec<u64> = (0..shape.numel() as u64).map(|i| i + 1).collect();
    // SAFETY: within the mapping; the device is the CPU, so its memory is ours.
    let at = |index: usize| unsafe { std::slice::from_raw_parts_mut(far.at.add(index * t.bytes), t.bytes) };
    for (index, value) in shape.indices().into_iter().zip(&expected) {
        t.put(at(index), 0, *value);
    }
    let near = target.device.alloc(shape.numel() * t.bytes).map_err(|error| error.to_string())?;
    let near_holds = |expected: &[u64]| {
        let bytes = near.download::<u8>().map_err(|error| error.to_string())?;
        let got: Vec<u64> = (0..expected.len()).map(|i| t.get(&bytes, i)).collect();
        if got == expected { Ok(()) } else { Err(format!("got {got:?}, expected {expected:?}")) }
    };
    // SAFETY: live arguments; so below.
    succeeded(unsafe {
        sys::crk_copy_strided(device, t.dtype, &layout(&shape), far.view().into(), near.raw_view(), 0)
    })?;
    near_holds(&expected)?;
    let other = Shape { strides: vec![0, 40, 1], ..shape.clone() };
    let (l, r) = (layout(&shape), layout(&other));
    // SAFETY: as above.
    succeeded(unsafe {
        sys::crk_binary(
            device,
            sys::crk_binary_op::CRK_BINARY_MAXIMUM,
            t.dtype,
            &l,
            far.view().into(),
            &r,
            far.view().into(),
            near.raw_view(),
        )
    })?;
    near_holds(&expected)?;
    // SAFETY: as above.
    succeeded(unsafe { sys::crk_const_set(device, t.dtype, &l, far.view(), 7u64.to_le_bytes().as_ptr().cast()) })?;
    succeeded(unsafe { sys::crk_device_synchronize(device) })?;
    let first_missed = shape.indices().into_iter().find(|index| t.get(at(*index), 0) != 7);
    if let Some(index) = first_missed {
        return Err(format!("crk_const_set missed element {index}"));
    }
    succeeded(unsafe {
        sys::crk_copy2d(device, t.dtype, 2, 16, far.view().into(), stride, 5, near.raw_view(), 16, 0)
    })?;
    near_holds(&[7; 32])
}

/// More than 2^31 elements, from one broadcast element.
fn big(target: &Target) -> Outcome {
    let numel = (1usize << 31) + 4099;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let src = target.device.upload(&[7u8, 1, 2, 3]).map_err(error)?;
    let dst = target.device.alloc(numel).map_err(error)?;
    let flat = Layout::strided(&[numel], &[0], 1).map_err(error)?;
    target.device.copy_strided(U8.dtype, &flat, &src, &dst, 0).map_err(error)?;
    let all = |expected: u8| {
        let wrong = dst.download::<u8>().map_err(error)?.iter().position(|b| *b != expected);
        wrong.map_or(Ok(()), |at| Err(format!("element {at} is not {expected}")))
    };
    all(1)?;
    let square = Layout::strided(&[numel], &[1], 0).map_err(error)?;
    target.device.affine(U8.dtype, &square, &dst, &dst, 3.0, 2.0).map_err(error)?;
    all(5)
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    let (unary_roots, binary_roots, cmp_roots) =
        (roots("CRK_UNARY_MAP"), roots("CRK_BINARY_MAP"), roots("CRK_CMP_MAP"));
    for target in targets {
        let mut add = |name: String, body: Box<dyn FnOnce(&str) -> Outcome + Send>| {
            let trial = format!("properties/{}/{name}", target.name);
            trials.push(Trial::test(trial, move || body(&name).map_err(Failed::from)));
        };
        for &t in TYPES {
            for &root in &unary_roots {
                add(format!("unary/{root}_{}", t.name), Box::new(move |name| unary(target, name, root, t)));
                add(format!("by_name/{root}_{}", t.name), Box::new(move |name| unary_by_name(target, name, root, t)));
            }
            if t == BF16 || t == F16 {
                for &root in unary_roots.iter().filter(|root| !has_param(root)) {
                    add(format!("unary/all_{root}_{}", t.name), Box::new(move |_| unary_of_all(target, root, t)));
                }
            }
            for &root in &binary_roots {
                add(format!("binary/{root}_{}", t.name), Box::new(move |name| binary(target, name, root, t)));
                add(format!("by_name/{root}_{}", t.name), Box::new(move |name| binary_by_name(target, name, root, t)));
                if t.is_float() {
                    add(format!("row/{root}_{}", t.name), Box::new(move |name| shared_row(target, name, root, t)));
                }
            }
            for &root in &cmp_roots {
                add(format!("binary/{root}_{}", t.name), Box::new(move |name| cmp(target, name, root, t)));
                add(format!("by_name/{root}_{}", t.name), Box::new(move |name| binary_by_name(target, name, root, t)));
            }
            for &to in TYPES {
                add(format!("cast/cast_{}_{}", t.name, to.name), Box::new(move |name| cast(target, name, t, to)));
                add(
                    format!("by_name/cast_{}_{}", t.name, to.name),
                    Box::new(move |name| cast_by_name(target, name, t, to)),
                );
            }
            for &ids in TYPES.iter().filter(|ids| !ids.is_float()) {
                let kernel = format!("where_{}_{}", ids.name, t.name);
                add(format!("ternary/{kernel}"), Box::new(move |name| where_cond(target, name, ids, t)));
                // The kernels for a shared row depend on the element's size only, so one type per size is enough.
                if [U8, U32].contains(&ids) && ["u8", "bf16", "f32", "f64"].contains(&t.name) {
                    add(format!("row/{kernel}"), Box::new(move |name| where_row(target, name, ids, t)));
                }
                add(format!("by_name/{kernel}"), Box::new(move |name| where_by_name(target, name, ids, t)));
            }
            add(format!("strips/badd_{}", t.name), Box::new(move |name| transposed_operand(target, name, t)));
            add(format!("affine/affine_{}", t.name), Box::new(move |name| affine(target, name, t)));
            add(format!("by_name/affine_{}", t.name), Box::new(move |name| affine_by_name(target, name, t)));
            add(format!("fill/fill_{}", t.name), Box::new(move |name| fill(target, name, t)));
            add(format!("fill/const_set_{}", t.name), Box::new(move |name| const_set(target, name, t)));
            add(format!("fill/copy2d_{}", t.name), Box::new(move |name| copy2d(target, name, t)));
            add(format!("by_name/fill_{}", t.name), Box::new(move |name| fill_by_name(target, name, t)));
            add(format!("unary/transposed_{}", t.name), Box::new(move |name| transposed(target, name, t)));
            add(format!("unary/copy_strided_{}", t.name), Box::new(move |name| copy_strided(target, name, t)));
            #[cfg(unix)]
            if target.name.starts_with("cpu:") {
                add(format!("wide/far_apart_{}", t.name), Box::new(move |_| far_apart(target, t)));
            }
        }
        add("affine/fused_f32".into(), Box::new(move |name| fused(target, name)));
        if std::env::var_os("CANDLE_ROCM_BIG").is_some() {
            add("wide/big".into(), Box::new(move |_| big(target)));
        }
    }
    trials
}
