//! The launcher of rotary embeddings, against plain Rust, bit by bit. The cases have the three kinds, heads and tokens
//! around a thread's share, angles for all batches or for each, more tokens of angles than needed, offsets, misaligned
//! views, and results in place. Guard bytes surround every buffer. Further tests cover bad arguments, capture, and a
//! tensor of more than 2^32 elements.
//!
//! A trial is a kind and a dtype on a device: `rope/cpu:32/rope_i_f16`.

use crate::support::cases::{Rng, Shape};
use crate::support::number::{BF16, F8, F16, F32, F64, I64, Type};
use crate::support::property::{Operand, Outcome, check, each_case, layout};
use crate::support::reference::{self, Expected};
use crate::support::{Target, last_error, open, succeeded};
use candle_rocm_sys::{Layout, Status, sys};
use libtest_mimic::{Failed, Trial};
use std::ffi::CString;
use std::ptr::null_mut;

const FLOATS: [Type; 4] = [BF16, F16, F32, F64];
const ROOTS: [&str; 3] = ["rope", "rope_i", "rope_thd"];
type Kind = sys::crk_rope_kind;

/// Batch, heads, tokens, d.
const SIZES: &[[usize; 4]] = &[
    [1, 1, 1, 2],
    [2, 3, 5, 8],
    [1, 4, 7, 16],
    [2, 2, 3, 6],
    [3, 5, 2, 64],
    [2, 8, 4, 128],
    [1, 3, 33, 10],
    [2, 4, 31, 80],
    [1, 32, 1, 128],
    [2, 1, 65, 32],
    [1, 2, 3, 0],
    [0, 2, 3, 8],
    [2, 3, 0, 8],
    [1, 7, 9, 256],
    [4, 4, 16, 4],
];

fn kind(root: &str) -> Result<Kind, String> {
    let text = CString::new(root).map_err(|error| error.to_string())?;
    let mut kind = sys::crk_rope_kind(77);
    // SAFETY: a string and a place for the answer.
    succeeded(unsafe { sys::crk_rope_kind_from_root(text.as_ptr(), &mut kind) })?;
    Ok(kind)
}

/// An operand of ordinary numbers, sometimes with an infinity, a NaN or a zero.
fn operand(target: &Target, rng: &mut Rng, t: Type, dims: &[usize], offset: usize, reach: f64) -> Operand {
    let mut shape = Shape::contiguous(dims);
    shape.offset = offset;
    let mut data = vec![0; (offset + shape.numel()) * t.bytes];
    for i in 0..offset + shape.numel() {
        let ordinary = (rng.unit() * 2.0 - 1.0) * reach;
        let x = if rng.one_in(40) { rng.pick(&[f64::INFINITY, f64::NAN, 0.0, -0.0, 1e-7, 60000.0]) } else { ordinary };
        t.put(&mut data, i, t.round_bits(x));
    }
    Operand::new(target, rng, t, shape, data)
}

/// fma(a, c, -round(b s)) and fma(a, s, round(b c)), each rounded once.
fn turned(t: Type, a: u64, b: u64, c: u64, s: u64) -> (u64, u64) {
    let sign = 1u64 << (t.bits() - 1);
    let product = |x, y| reference::binary("bmul", t, x, y).bits;
    let first = reference::affine(t, a, c, product(b, s) ^ sign);
    (first.bits, reference::affine(t, a, s, product(b, c)).bits)
}

/// The result for every element, in the order of `src`.
fn expected(
    root: &str,
    t: Type,
    [batch, heads, tokens, d]: [usize; 4],
    src: &Operand,
    angles: [&Operand; 2],
) -> Vec<Expected> {
    let x = src.elements();
    let of_angles = angles.map(Operand::elements);
    let mut result = vec![Expected::exactly(0); x.len()];
    let half = d / 2;
    for b in 0..batch {
        for h in 0..heads {
            for token in 0..tokens {
                let row = if root == "rope_thd" {
                    (b * tokens + token) * heads + h
                } else {
                    (b * heads + h) * tokens + token
                };
                for pair in 0..half {
                    let angle = [0, 1].map(|i| {
                        let dims = &angles[i].shape.dims;
                        let table = if dims.len() == 3 { b * dims[1] * half } else { 0 };
                        of_angles[i][table + token * half + pair]
                    });
                    let (i, j) = if root == "rope_i" { (2 * pair, 2 * pair + 1) } else { (pair, pair + half) };
                    let (i, j) = (row * d + i, row * d + j);
                    let (first, second) = turned(t, x[i], x[j], angle[0], angle[1]);
                    result[i] = Expected::exactly(first);
                    result[j] = Expected::exactly(second);
                }
            }
        }
    }
    result
}

fn dims(root: &str, [batch, heads, tokens, d]: [usize; 4]) -> [usize; 4] {
    if root == "rope_thd" { [batch, tokens, heads, d] } else { [batch, heads, tokens, d] }
}

fn property(target: &Target, name: &str, root: &str, t: Type) -> Outcome {
    let kind = kind(root)?;
    each_case(target, "rope", name, 3 * SIZES.len(), |rng, index| {
        let size = SIZES[index % SIZES.len()];
        let in_place = rng.one_in(4);
        let offset = if in_place { 0 } else { rng.pick(&[0, 0, 1, 8]) };
        let src = operand(target, rng, t, &dims(root, size), offset, 8.0);
        let dst = Operand::destination(target, rng, t, &dims(root, size));
        let to = if in_place { &src } else { &dst };
        let mut angles = || {
            let rows = size[2] + rng.pick(&[0, 0, 1, 5]);
            let dims = if rng.one_in(2) { vec![rows, size[3] / 2] } else { vec![size[0], rows, size[3] / 2] };
            let offset = rng.pick(&[0, 0, 3]);
            operand(target, rng, t, &dims, offset, 1.0)
        };
        let (cos, sin) = (angles(), angles());
        let (l, c, s) = (src.layout(), cos.layout(), sin.layout());
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_rope(
                target.device.raw(),
                kind,
                t.dtype,
                &l,
                src.memory.view().into(),
                &c,
                cos.memory.view().into(),
                &s,
                sin.memory.view().into(),
                to.memory.view(),
            )
        })?;
        let expected = expected(root, t, size, &src, [&cos, &sin]);
        check(to, &expected, &[&src]).map_err(|problem| format!("{size:?}: {problem}"))?;
        cos.unchanged()?;
        sin.unchanged()
    })
}

/// Enough heads and threads that each thread takes four heads.
fn many_heads(target: &Target, root: &str, t: Type) -> Outcome {
    let info = target.device.info().map_err(|error| error.to_string())?;
    // For every compute unit one block of 256 threads, where a thread takes 16 bytes of pairs from each of four heads.
    let tokens = info.compute_units as usize * 256 / 64 * (16 / t.bytes) + 1;
    let size = [2, 4, tokens, 64];
    let mut rng = Rng(7);
    let src = operand(target, &mut rng, t, &dims(root, size), 0, 8.0);
    let dst = loop {
        let dst = Operand::destination(target, &mut rng, t, &dims(root, size));
        if dst.memory.ptr() as usize % 16 == 0 {
            break dst;
        }
    };
    let cos = operand(target, &mut rng, t, &[tokens, 32], 0, 1.0);
    let sin = operand(target, &mut rng, t, &[2, tokens, 32], 0, 1.0);
    let (l, c, s) = (src.layout(), cos.layout(), sin.layout());
    // SAFETY: live arguments.
    succeeded(unsafe {
        sys::crk_rope(
            target.device.raw(),
            kind(root)?,
            t.dtype,
            &l,
            src.memory.view().into(),
            &c,
            cos.memory.view().into(),
            &s,
            sin.memory.view().into(),
            dst.memory.view(),
        )
    })?;
    check(&dst, &expected(root, t, size, &src, [&cos, &sin]), &[&src])
}

/// The arguments of a call. Each test spoils one of them.
#[derive(Clone, Copy)]
struct Call {
    device: sys::crk_device_t,
    kind: Kind,
    dtype: sys::crk_dtype,
    layouts: [*const Layout; 3],
    views: [sys::crk_view_t; 4],
}

impl Call {
    fn make(self) -> Status {
        let [src, cos, sin, dst] = self.views;
        let [l, c, s] = self.layouts;
        // SAFETY: the launcher refuses arguments that are not live.
        unsafe { sys::crk_rope(self.device, self.kind, self.dtype, l, src.into(), c, cos.into(), s, sin.into(), dst) }
    }

    fn refused(self, status: Status, word: &str) -> Outcome {
        let got = self.make();
        let sentence = last_error();
        if got == status && sentence.starts_with("crk_rope: ") && sentence.contains(word) {
            return Ok(());
        }
        Err(format!("{word}: {} {sentence:?}, expected {}", got.name(), status.name()))
    }
}

fn refused(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let buffer = || target.device.upload(&[0u8; 512]).map_err(error);
    let buffers = [buffer()?, buffer()?, buffer()?, buffer()?];
    let views = [0, 1, 2, 3].map(|i: usize| buffers[i].raw_view());
    let dense = |dims: &[usize]| Layout::contiguous(dims).map_err(error);
    let (l, cs) = (dense(&[2, 3, 4, 4])?, dense(&[4, 2])?);
    let good = Call { device: target.device.raw(), kind: Kind::Rope, dtype: F32.dtype, layouts: [&l, &cs, &cs], views };
    let invalid = Status::InvalidArgument;
    let outside = Status::OutOfBounds;
    succeeded(good.make())?;
    static ZEROS: [u64; 512] = [0; 512];
    Call { device: null_mut(), ..good }.refused(invalid, "self is NULL")?;
    Call { device: ZEROS.as_ptr() as sys::crk_device_t, ..good }.refused(invalid, "self is no live")?;
    Call { kind: sys::crk_rope_kind(3), ..good }.refused(invalid, "kind 3")?;
    Call { dtype: sys::crk_dtype(77), ..good }.refused(invalid, "dtype 77")?;
    for t in [I64, F8] {
        Call { dtype: t.dtype, ..good }.refused(Status::Unsupported, t.name)?;
    }
    let with_layout = |i: usize, layout: *const Layout| {
        let mut call = good;
        call.layouts[i] = layout;
        call
    };
    let with_view = |i: usize, ptr: *mut std::ffi::c_void, bytes: usize| {
        let mut call = good;
        call.views[i] = sys::crk_view_t { ptr, bytes };
        call
    };
    for (i, name) in ["src_layout", "cos_layout", "sin_layout"].into_iter().enumerate() {
        with_layout(i, std::ptr::null()).refused(invalid, &format!("{name} is NULL"))?;
        let mut high = l;
        high.rank = 9;
        with_layout(i, &high).refused(invalid, &format!("{name}.rank is 9"))?;
        let flat = dense(&[8])?;
        with_layout(i, &flat).refused(invalid, &format!("{name}.rank is 1"))?;
        let far = if i == 0 {
            Layout::strided(&[2, 3, 4, 4], &[48, 16, 4, 1], 60)
        } else {
            Layout::strided(&[4, 2], &[2, 1], 125)
        };
        let far = far.map_err(error)?;
        with_layout(i, &far).refused(outside, &name[..3])?;
    }
    let swapped = Layout::strided(&[2, 3, 4, 4], &[48, 4, 12, 1], 0).map_err(error)?;
    with_layout(0, &swapped).refused(invalid, "src_layout is not contiguous")?;
    let odd = dense(&[2, 3, 4, 3])?;
    with_layout(0, &odd).refused(invalid, "src_layout.dims[3] is 3, not even")?;
    for (i, name) in ["cos_layout", "sin_layout"].into_iter().enumerate() {
        let short = dense(&[3, 2])?;
        with_layout(i + 1, &short).refused(invalid, &format!("{name}.dims[0] is 3"))?;
        let wide = dense(&[4, 4])?;
        with_layout(i + 1, &wide).refused(invalid, &format!("{name}.dims[1] is 4"))?;
        let batches = dense(&[3, 4, 2])?;
        with_layout(i + 1, &batches).refused(invalid, &format!("{name}.dims[0] is 3"))?;
        let short = dense(&[2, 3, 2])?;
        with_layout(i + 1, &short).refused(invalid, &format!("{name}.dims[1] is 3"))?;
        let steps = Layout::strided(&[4, 2], &[4, 1], 0).map_err(error)?;
        with_layout(i + 1, &steps).refused(invalid, &format!("{name} is not contiguous"))?;
        let deep = dense(&[1, 2, 4, 2])?;
        with_layout(i + 1, &deep).refused(invalid, &format!("{name}.rank is 4"))?;
    }
    for (i, name) in ["src", "cos", "sin", "dst"].into_iter().enumerate() {
        let small = if i == 1 || i == 2 { 31 } else { 383 };
        with_view(i, views[i].ptr, small).refused(outside, name)?;
        with_view(i, null_mut(), 512).refused(invalid, &format!("{name}.ptr is NULL"))?;
        let off = views[i].ptr.cast::<u8>().wrapping_add(2).cast();
        with_view(i, off, 508).refused(invalid, &format!("{name}.ptr"))?;
    }
    for (i, name) in ["src", "cos", "sin"].into_iter().enumerate() {
        let mut call = with_view(3, views[i].ptr.cast::<u8>().wrapping_add(4).cast(), 508);
        if i > 0 {
            call = with_view(3, views[i].ptr, 512);
        }
        call.refused(invalid, &format!("dst overlaps {name}"))?;
    }
    let mut op = sys::crk_rope_kind(77);
    for (root, word) in [(std::ptr::null(), "root is NULL"), (c"rope_x".as_ptr(), "rope_x")] {
        // SAFETY: NULL and a string.
        let got = unsafe { sys::crk_rope_kind_from_root(root, &mut op) };
        if got != invalid || !last_error().contains(word) || op != sys::crk_rope_kind(77) {
            return Err(format!("{word}: {} {:?}", got.name(), last_error()));
        }
    }
    // SAFETY: a string.
    let got = unsafe { sys::crk_rope_kind_from_root(c"rope".as_ptr(), null_mut()) };
    if got != invalid { Err(format!("a NULL for the answer: {}", got.name())) } else { Ok(()) }
}

/// Recorded and replayed with other data.
fn captured(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = open(&target.name).map_err(error)?;
    let (l, cs) = (Layout::contiguous(&[1, 2, 3, 4]).map_err(error)?, Layout::contiguous(&[3, 2]).map_err(error)?);
    let (src, dst) = (device.upload(&[1f32; 24]).map_err(error)?, device.alloc(96).map_err(error)?);
    let (cos, sin) = (device.upload(&[0.5f32; 6]).map_err(error)?, device.upload(&[0.25f32; 6]).map_err(error)?);
    let call = Call {
        device: device.raw(),
        kind: Kind::RopeThd,
        dtype: F32.dtype,
        layouts: [&l, &cs, &cs],
        views: [&src, &cos, &sin, &dst].map(|buffer| buffer.raw_view()),
    };
    // (1, 2, 3, 4) is (batch, tokens, heads, d): 2 tokens of 3 heads.
    succeeded(call.make())?;
    let mut graph = null_mut();
    // SAFETY: live arguments; so below.
    succeeded(unsafe { sys::crk_graph_begin(device.raw()) })?;
    succeeded(call.make())?;
    succeeded(unsafe { sys::crk_graph_end(device.raw(), &mut graph) })?;
    src.write(&[2f32; 24]).map_err(error)?;
    let outcome = succeeded(unsafe { sys::crk_graph_launch(graph) });
    let got = dst.download::<f32>().map_err(error);
    unsafe { sys::crk_graph_destroy(graph) };
    outcome?;
    let expected: Vec<f32> =
        (0..24).map(|i| if i % 4 < 2 { 2.0 * 0.5 - 2.0 * 0.25 } else { 2.0 * 0.25 + 2.0 * 0.5 }).collect();
    let got = got?;
    if got == expected { Ok(()) } else { Err(format!("the replay gave {got:?}")) }
}

/// More than 2^32 elements. cos and sin are such that (a, b) becomes (-b, a).
fn big(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let (heads, tokens, d) = (3, (1usize << 24) + 5, 128);
    let numel = heads * tokens * d;
    let (src, cos, sin) = (
        target.device.alloc(numel * 2).map_err(error)?,
        target.device.alloc(tokens * d).map_err(error)?,
        target.device.alloc(tokens * d).map_err(error)?,
    );
    let one = 0x3c00u16;
    target.device.fill(F16.dtype, &src, numel, one).map_err(error)?;
    target.device.fill(F16.dtype, &cos, tokens * d / 2, 0u16).map_err(error)?;
    target.device.fill(F16.dtype, &sin, tokens * d / 2, one).map_err(error)?;
    let l = Layout::contiguous(&[1, heads, tokens, d]).map_err(error)?;
    let c = layout(&Shape::contiguous(&[tokens, d / 2]));
    target.device.rope(Kind::Rope, F16.dtype, (&l, &src), (&c, &cos), (&c, &sin), &src).map_err(error)?;
    let got = src.download::<u16>().map_err(error)?;
    let wrong = got.iter().enumerate().find(|(i, x)| **x != if i % d < d / 2 { one | 0x8000 } else { one });
    wrong.map_or(Ok(()), |(i, x)| Err(format!("element {i} is {x:#x}")))
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Box<dyn FnOnce(&str) -> Outcome + Send>| {
            let trial = format!("rope/{}/{name}", target.name);
            trials.push(Trial::test(trial, move || body(&name).map_err(Failed::from)));
        };
        for root in ROOTS {
            for t in FLOATS {
                add(format!("{root}_{}", t.name), Box::new(move |name| property(target, name, root, t)));
                add(format!("many_heads/{root}_{}", t.name), Box::new(move |_| many_heads(target, root, t)));
            }
        }
        add("captured".into(), Box::new(move |_| captured(target)));
        add("refused".into(), Box::new(move |_| refused(target)));
        if std::env::var_os("CANDLE_ROCM_BIG").is_some() {
            add("big".into(), Box::new(move |_| big(target)));
        }
    }
    trials
}
