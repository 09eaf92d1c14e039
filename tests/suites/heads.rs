//! Heads of a token: products with quantized and with dense weights, and their rotary embeddings, beside the launchers
//! that do the two one after another. The bits are the same. Guard bytes surround every buffer, and the elements
//! between the heads of a cache stay as they are.
//!
//! A trial is a launcher or a kernel, a kind of pairs and a dtype on a device: `heads/cpu:32/quantized_rope`.

use super::fused::{NONE, blocks_for, equal, part, unchanged};
use super::matmul_wide::{THREADS, WideMatrix, WideProduct, divide, launch_with};
use crate::support::cases::{Rng, Shape};
use crate::support::divisor::Divisor;
use crate::support::number::{BF16, F16, F32, F64, I64, Type, U8};
use crate::support::product::{activations, blocks, formats, row_length};
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::quantized::quant;
use crate::support::{Body, Target, add_trial, refused_with, succeeded};
use candle_rocm_sys::{Layout, Quant, RopeKind, Status, sys};
use libtest_mimic::Trial;
use std::ptr::null;

const FLOATS: [Type; 4] = [BF16, F16, F32, F64];
const KINDS: [(RopeKind, &str); 2] = [(RopeKind::Rope, "rope"), (RopeKind::RopeI, "rope_i")];

/// The heads of queries, keys or values.
struct Part {
    heads: usize,
    stride: usize,
    rotates: bool,
    weights: Operand,
    layout: Layout,
    bias: Option<Operand>,
    dst: Operand,
    expected: Operand,
}

impl Part {
    /// `dst` has gaps between the heads in some cases. Both destinations begin with the same bytes.
    fn new(target: &Target, rng: &mut Rng, t: Type, d: usize, heads: usize, weights: Operand) -> Part {
        let stride = d + rng.pick(&[0, 0, 3, d]);
        let length = if heads == 0 { 0 } else { (heads - 1) * stride + d };
        let dst = Operand::destination(target, rng, t, &[length]);
        let expected = Operand::new(target, rng, t, dst.shape.clone(), dst.data.clone());
        let bias = rng.one_in(3).then(|| {
            let data = activations(rng, t, heads * d);
            Operand::new(target, rng, t, Shape::contiguous(&[heads * d]), data)
        });
        let layout = weights.layout();
        Part { heads, stride, rotates: !rng.one_in(3), weights, layout, bias, dst, expected }
    }

    fn bias(&self) -> sys::crk_const_view_t {
        self.bias.as_ref().map_or(NONE, |bias| bias.memory.view()).into()
    }

    fn call(&self, layout: *const Layout) -> sys::crk_head_weights_t {
        sys::crk_head_weights_t {
            heads: self.heads,
            layout,
            weights: self.weights.memory.view().into(),
            bias: self.bias(),
            dst: self.dst.memory.view(),
            head_stride: self.stride,
            rotates: self.rotates,
        }
    }

    /// Rotates or copies the products to `expected`.
    fn rotate(&self, target: &Target, kind: RopeKind, products: &Operand, angles: &Angles) -> Outcome {
        if self.heads == 0 {
            return Ok(());
        }
        let (t, d) = (products.t, 2 * angles.cos.shape.dims[0]);
        let error = |error: candle_rocm_sys::Error| error.to_string();
        let src = Layout::contiguous(&[1, self.heads, 1, d]).map_err(error)?;
        let dst = Layout::strided(&[1, self.heads, 1, d], &[0, self.stride, 0, 1], 0).map_err(error)?;
        let empty = Layout::contiguous(&[1, 0, 1, d]).map_err(error)?;
        let row = Layout::contiguous(&[1, d / 2]).map_err(error)?;
        let (from, to) = (products.memory.view().into(), self.expected.memory.view());
        let rows = |layouts: (&Layout, &Layout)| sys::crk_rope_rows_t {
            src_layout: layouts.0,
            src: from,
            dst_layout: layouts.1,
            dst: to,
        };
        let mut list = [0; 3].map(|_| rows((&empty, &empty)));
        list[if self.rotates { 0 } else { 2 }] = rows((&src, &dst));
        let (c, s) = angles.views();
        // SAFETY: live arguments.
        succeeded(unsafe { sys::crk_rope_qkv(target.device.raw(), kind, t.dtype, list.as_ptr(), &row, c, &row, s) })
    }

    fn check(&self) -> Outcome {
        equal("dst", &self.dst, &self.expected)?;
        self.bias.iter().chain([&self.weights]).try_for_each(Operand::unchanged)
    }
}

struct Angles {
    cos: Operand,
    sin: Operand,
}

impl Angles {
    fn new(target: &Target, rng: &mut Rng, t: Type, half: usize) -> Angles {
        let mut one = || {
            let data = activations(rng, t, half);
            Operand::new(target, rng, t, Shape::contiguous(&[half]), data)
        };
        Angles { cos: one(), sin: one() }
    }

    fn views(&self) -> (sys::crk_const_view_t, sys::crk_const_view_t) {
        (self.cos.memory.view().into(), self.sin.memory.view().into())
    }
}

/// Elements of a head, and the most heads that a case has with them.
fn head(rng: &mut Rng) -> (usize, usize) {
    rng.pick(&[(2, 40), (6, 9), (16, 9), (64, 5), (74, 3), (80, 3), (128, 3), (192, 2), (256, 2)])
}

fn products(target: &Target, t: Type, count: usize) -> Operand {
    Operand::aligned(target, t, Shape::contiguous(&[count]), vec![0xcd; count * t.bytes])
}

/// One to three matrices of one format. Some have no heads.
fn quantized(target: &Target, name: &str, kind: RopeKind) -> Outcome {
    let all: Vec<_> = formats().collect();
    each_case(target, "heads", name, 4 * all.len(), |rng, index| {
        let format = all[index % all.len()];
        let (k, (d, most)) = (row_length(rng), head(rng));
        let data = activations(rng, F32, k);
        let numbers = Operand::aligned(target, F32, Shape::contiguous(&[k]), data);
        let x = blocks_for(target, 1, k);
        let (device, q) = (target.device.raw(), quant(format));
        let (from, to) = (numbers.memory.view().into(), x.memory.view());
        // SAFETY: live arguments; so below.
        succeeded(unsafe { sys::crk_quantize_columns(device, F32.dtype, 1, k, from, to) })?;
        let before = x.memory.read()?;
        let parts: Vec<Part> = (0..1 + rng.below(3))
            .map(|_| {
                let heads = if rng.one_in(8) { 0 } else { 1 + rng.below(most) };
                let bytes = blocks(rng, format, heads * d * k / format.elements);
                let (shape, words) = (Shape::contiguous(&[bytes.len()]), rng.below(2));
                // Two bytes before the blocks, in some cases: their beginning is then not aligned to 16.
                let shifted = Shape { offset: 2 * words, ..shape };
                let weights = Operand::aligned(target, U8, shifted, [vec![0; 2 * words], bytes].concat());
                Part::new(target, rng, F32, d, heads, weights)
            })
            .collect();
        let angles = Angles::new(target, rng, F32, d / 2);
        let (view, (c, s)) = (x.memory.view().into(), angles.views());
        let weights = |one: &Part| -> sys::crk_const_view_t {
            let view = one.weights.memory.view();
            part(view, one.weights.shape.offset, view.bytes - one.weights.shape.offset).into()
        };
        let list: Vec<_> =
            parts.iter().map(|one| sys::crk_head_weights_t { weights: weights(one), ..one.call(null()) }).collect();
        succeeded(unsafe { sys::crk_mul_mat_vec_rope(device, q, kind, d, k, list.as_ptr(), list.len(), view, c, s) })?;
        for one in &parts {
            let apart = products(target, F32, one.heads * d);
            let product = sys::crk_grouped_product_t {
                rows: one.heads * d,
                weights: weights(one),
                dst: apart.memory.view(),
                dst_stride: one.heads * d,
                bias: one.bias(),
            };
            succeeded(unsafe { sys::crk_mul_mat_vec_grouped(device, q, F32.dtype, k, 1, &product, 1, view, k / 32) })?;
            one.rotate(target, kind, &apart, &angles)?;
            one.check().map_err(|problem| format!("{}, {} heads of {d}, k {k}: {problem}", format.name, one.heads))?;
        }
        if x.memory.read()? != before {
            return Err("x has changed".into());
        }
        unchanged(&[&angles.cos, &angles.sin])
    })
}

/// A case has one to three dense matrices, whose rows may have gaps. The kernel does not take all cases. Some rows or
/// views are not aligned, some matrices are contiguous along their columns, some rows have no elements.
fn dense(target: &Target, name: &str, kind: RopeKind, t: Type) -> Outcome {
    each_case(target, "heads", name, 40, |rng, _| {
        let (piece, (d, most)) = (16 / t.bytes, head(rng));
        let odd = if rng.one_in(8) { 1 } else { 0 };
        let k = if rng.one_in(16) { 0 } else { rng.pick(&[64, 65, 129, 300, 512]) * piece + odd };
        let turned = rng.one_in(8);
        let data = activations(rng, t, k);
        let x = Operand::aligned(target, t, Shape::contiguous(&[k]), data);
        let parts: Vec<Part> = (0..1 + rng.below(3))
            .map(|_| {
                let heads = if rng.one_in(8) { 0 } else { 1 + rng.below(most) };
                let stride = k.next_multiple_of(piece) + rng.pick(&[0, 0, 0, piece, 1]);
                let strides = if turned { vec![1, heads * d] } else { vec![stride, 1] };
                let shape = Shape { dims: vec![heads * d, k], strides, offset: rng.pick(&[0, 0, piece]) };
                let data = activations(rng, t, shape.reach());
                let weights = Operand::aligned(target, t, shape, data);
                Part::new(target, rng, t, d, heads, weights)
            })
            .collect();
        let angles = Angles::new(target, rng, t, d / 2);
        let (device, view, (c, s)) = (target.device.raw(), x.memory.view().into(), angles.views());
        let list: Vec<_> = parts.iter().map(|one| one.call(&one.layout)).collect();
        // SAFETY: live arguments; so below.
        succeeded(unsafe { sys::crk_matmul_rope(device, t.dtype, kind, d, k, view, list.as_ptr(), list.len(), c, s) })?;
        let apart: Vec<_> = parts.iter().map(|one| products(target, t, one.heads * d)).collect();
        let matrices: Vec<_> = parts
            .iter()
            .zip(&apart)
            .map(|(one, apart)| sys::crk_matmul_weights_t {
                layout: &one.layout,
                weights: one.weights.memory.view().into(),
                dst: apart.memory.view(),
                bias: one.bias(),
            })
            .collect();
        succeeded(unsafe { sys::crk_matmul_grouped(device, t.dtype, k, view, matrices.as_ptr(), matrices.len()) })?;
        for (one, apart) in parts.iter().zip(&apart) {
            one.rotate(target, kind, apart, &angles)?;
            one.check().map_err(|problem| format!("{} heads of {d}, k {k}: {problem}", one.heads))?;
        }
        unchanged(&[&x, &angles.cos, &angles.sin])
    })
}

// ---- the kernel for dense weights by name ----

/// The structs of kernels/call/rope_call.h and matmul_call.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct RopeHeads {
    cos: u64,
    sin: u64,
    strides: [u64; 3],
    half: Divisor,
    rotates: u32,
    interleaved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct WideRope {
    product: WideProduct,
    heads: RopeHeads,
}

fn by_name(target: &Target, name: &str, kind: RopeKind, t: Type) -> Outcome {
    each_case(target, "heads", name, 24, |rng, _| {
        let (piece, (d, most)) = (16 / t.bytes, head(rng));
        let k = rng.pick(&[64, 65, 129, 300]) * piece;
        let data = activations(rng, t, k);
        let x = Operand::aligned(target, t, Shape::contiguous(&[k]), data);
        let parts: Vec<Part> = (0..1 + rng.below(3))
            .map(|_| {
                let heads = 1 + rng.below(most);
                let data = activations(rng, t, heads * d * k);
                let weights = Operand::aligned(target, t, Shape::contiguous(&[heads * d, k]), data);
                Part::new(target, rng, t, d, heads, weights)
            })
            .collect();
        let angles = Angles::new(target, rng, t, d / 2);
        let apart: Vec<_> = parts.iter().map(|one| products(target, t, one.heads * d)).collect();
        let mut product = WideProduct { x: x.memory.ptr() as u64, k: k as u64, ..WideProduct::default() };
        for (matrix, (one, apart)) in product.matrix.iter_mut().zip(parts.iter().zip(&apart)) {
            *matrix = WideMatrix {
                first: one.weights.memory.ptr() as u64,
                dst: apart.memory.ptr() as u64,
                bias: one.bias.as_ref().map_or(0, |bias| bias.memory.ptr() as u64),
                rows: (one.heads * d) as u64,
                row_stride: k as u64,
            };
        }
        let threads = rng.pick(THREADS);
        // Both kernels get the same chunk: the order of the sums depends on it.
        let plain = divide(&mut Rng(rng.0), t, threads, product, (parts.len(), 1), |_| true);
        launch_with(target, &format!("matmul_{}_wide_vec", t.name), &plain, &plain)?;
        for (matrix, one) in product.matrix.iter_mut().zip(&parts) {
            matrix.rows /= 2;
            matrix.dst = one.dst.memory.ptr() as u64;
        }
        let interleaved = kind == RopeKind::RopeI;
        let fits = |pairs: u32| interleaved || (d / 2) % pairs as usize == 0;
        let product = divide(&mut Rng(rng.0), t, threads, product, (parts.len(), 2), fits);
        let mut heads = RopeHeads {
            cos: angles.cos.memory.ptr() as u64,
            sin: angles.sin.memory.ptr() as u64,
            strides: [0; 3],
            half: Divisor::new(d / 2, false),
            rotates: 0,
            interleaved: interleaved.into(),
        };
        for (i, one) in parts.iter().enumerate() {
            heads.strides[i] = one.stride as u64;
            heads.rotates |= u32::from(one.rotates) << i;
        }
        launch_with(target, &format!("matmul_{}_wide_rope", t.name), &product, &WideRope { product, heads })?;
        for (one, apart) in parts.iter().zip(&apart) {
            one.rotate(target, kind, apart, &angles)?;
            one.check().map_err(|problem| {
                format!("{} heads of {d}, k {k}, {threads} threads, {} pairs: {problem}", one.heads, product.block_rows)
            })?;
        }
        unchanged(&[&x, &angles.cos, &angles.sin])
    })
}

fn refused(target: &Target) -> Outcome {
    use Status as S;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = target.device.raw();
    let all = [0; 6].map(|_| target.device.upload(&[0u8; 4096]).map_err(error));
    let mut views = Vec::new();
    for buffer in &all {
        views.push(buffer.as_ref().map_err(Clone::clone)?.raw_view());
    }
    let [w, x, c, s, a, b] = views[..] else { return Err("six buffers".into()) };
    let layout = |dims: &[usize]| Layout::contiguous(dims).map_err(error);
    let (square, narrow, few) = (layout(&[32, 32])?, layout(&[32, 31])?, layout(&[20, 32])?);
    let (rope, q8, f32_) = (RopeKind::Rope, Quant::Q8_0, F32.dtype);
    // Two heads of 16 elements.
    let good = sys::crk_head_weights_t {
        heads: 2,
        layout: &square,
        weights: w.into(),
        bias: sys::crk_const_view_t::default(),
        dst: a,
        head_stride: 16,
        rotates: true,
    };
    let second = sys::crk_head_weights_t { dst: b, bias: part(x, 3072, 128).into(), ..good };
    let (invalid, small) = (S::InvalidArgument, S::OutOfBounds);
    let with = |dst| sys::crk_head_weights_t { dst, ..good };
    let biased = |bias: sys::crk_view_t| sys::crk_head_weights_t { bias: bias.into(), ..good };
    // What both launchers check alike.
    let bad = [
        ("parts[0].dst", small, with(part(a, 0, 127))),
        ("parts[0].dst overlaps x", invalid, with(x)),
        ("parts[0].dst overlaps cos", invalid, with(c)),
        ("parts[0].dst overlaps sin", invalid, with(s)),
        ("parts[0].dst overlaps parts[0].weights", invalid, with(w)),
        ("parts[0].dst overlaps parts[1].bias", invalid, with(part(x, 3072, 128))),
        ("parts[1].dst overlaps parts[0].dst", invalid, with(b)),
        ("parts[0].head_stride is 15", invalid, sys::crk_head_weights_t { head_stride: 15, ..good }),
        ("parts[0].dst", small, sys::crk_head_weights_t { head_stride: 2000, ..good }),
        ("parts[0].bias", small, biased(part(s, 512, 127))),
        ("parts[0].dst overlaps parts[0].bias", invalid, biased(part(a, 64, 128))),
    ];
    // SAFETY: the launchers refuse arguments that are not live; the views are of live buffers.
    unsafe {
        let where_ = "crk_mul_mat_vec_rope";
        let vec = |kind, d, k, list: &[sys::crk_head_weights_t], count, x: sys::crk_view_t, c: sys::crk_view_t| {
            sys::crk_mul_mat_vec_rope(device, q8, kind, d, k, list.as_ptr(), count, x.into(), c.into(), s.into())
        };
        succeeded(vec(rope, 16, 32, &[good, second], 2, x, c))?;
        for (word, status, first) in &bad {
            refused_with(where_, word, *status, vec(rope, 16, 32, &[*first, second], 2, x, c))?;
        }
        refused_with(where_, "kind 2", invalid, vec(RopeKind::RopeThd, 16, 32, &[good], 1, x, c))?;
        refused_with(where_, "d is 15", invalid, vec(rope, 15, 32, &[good], 1, x, c))?;
        refused_with(where_, "d is 0", invalid, vec(rope, 0, 32, &[good], 1, x, c))?;
        refused_with(where_, "k is 48", invalid, vec(rope, 16, 48, &[good], 1, x, c))?;
        refused_with(where_, "k is 0", invalid, vec(rope, 16, 0, &[good], 1, x, c))?;
        refused_with(where_, "count is 0", invalid, vec(rope, 16, 32, &[good], 0, x, c))?;
        refused_with(where_, "count is 4", invalid, vec(rope, 16, 32, &[good], 4, x, c))?;
        refused_with(where_, "x", small, vec(rope, 16, 32, &[good], 1, part(x, 0, 35), c))?;
        refused_with(where_, "cos", small, vec(rope, 16, 32, &[good], 1, x, part(c, 0, 31)))?;
        let short = sys::crk_head_weights_t { weights: part(w, 0, 1087).into(), ..good };
        refused_with(where_, "parts[0].weights", small, vec(rope, 16, 32, &[short], 1, x, c))?;
        let many = sys::crk_head_weights_t { heads: 1 << 28, ..good };
        refused_with(where_, "parts[0].heads is", invalid, vec(rope, 16, 32, &[many], 1, x, c))?;
        let none = sys::crk_mul_mat_vec_rope(device, q8, rope, 16, 32, null(), 1, x.into(), c.into(), s.into());
        refused_with(where_, "parts is NULL", invalid, none)?;
        succeeded(vec(rope, 16, 32, &[sys::crk_head_weights_t { heads: 0, dst: NONE, ..good }], 1, x, c))?;
        let where_ = "crk_matmul_rope";
        let mul = |t, kind, d, k, list: &[sys::crk_head_weights_t], count, x: sys::crk_view_t, c: sys::crk_view_t| {
            sys::crk_matmul_rope(device, t, kind, d, k, x.into(), list.as_ptr(), count, c.into(), s.into())
        };
        succeeded(mul(f32_, rope, 16, 32, &[good, second], 2, x, c))?;
        for (word, status, first) in &bad {
            refused_with(where_, word, *status, mul(f32_, rope, 16, 32, &[*first, second], 2, x, c))?;
        }
        refused_with(where_, "i64", S::Unsupported, mul(I64.dtype, rope, 16, 32, &[good], 1, x, c))?;
        refused_with(where_, "kind 2", invalid, mul(f32_, RopeKind::RopeThd, 16, 32, &[good], 1, x, c))?;
        refused_with(where_, "d is 15", invalid, mul(f32_, rope, 15, 32, &[good], 1, x, c))?;
        refused_with(where_, "count is 0", invalid, mul(f32_, rope, 16, 32, &[good], 0, x, c))?;
        refused_with(where_, "count is 4", invalid, mul(f32_, rope, 16, 32, &[good], 4, x, c))?;
        refused_with(where_, "x", small, mul(f32_, rope, 16, 32, &[good], 1, part(x, 0, 127), c))?;
        refused_with(where_, "cos", small, mul(f32_, rope, 16, 32, &[good], 1, x, part(c, 0, 31)))?;
        let other = |layout: &Layout| [sys::crk_head_weights_t { layout, ..good }];
        refused_with(where_, "but k is 32", invalid, mul(f32_, rope, 16, 32, &other(&narrow), 1, x, c))?;
        refused_with(where_, "parts[0].layout.dims[0] is 20", invalid, mul(f32_, rope, 16, 32, &other(&few), 1, x, c))?;
        let no_layout = sys::crk_head_weights_t { layout: null(), ..good };
        refused_with(where_, "parts[0].layout is NULL", invalid, mul(f32_, rope, 16, 32, &[no_layout], 1, x, c))?;
        let short = sys::crk_head_weights_t { weights: part(w, 0, 4095).into(), ..good };
        refused_with(where_, "parts[0].weights", small, mul(f32_, rope, 16, 32, &[short], 1, x, c))?;
        let none = sys::crk_matmul_rope(device, f32_, rope, 16, 32, x.into(), null(), 1, c.into(), s.into());
        refused_with(where_, "parts is NULL", invalid, none)?;
    }
    Ok(())
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "heads", target, name, body);
        for (kind, text) in KINDS {
            add(format!("quantized_{text}"), Box::new(move |target, name| quantized(target, name, kind)));
            for t in FLOATS {
                let body = move |target: &'static Target, name: &str| dense(target, name, kind, t);
                add(format!("dense_{text}_{}", t.name), Box::new(body));
                let body = move |target: &'static Target, name: &str| by_name(target, name, kind, t);
                add(format!("by_name_{text}_{}", t.name), Box::new(body));
            }
        }
        add("refused".into(), Box::new(|target, _| refused(target)));
    }
    trials
}
