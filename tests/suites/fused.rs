//! The launchers that do several ops in one launch: gates, the norm of a sum, activations that several products share,
//! and the choice of experts. All but the last have the bits of the ops that they stand for. Guard bytes surround every
//! buffer.
//!
//! A trial is an op and a dtype on a device: `fused/cpu:32/gate_silu_f16`.

use crate::support::cases::{Rng, Shape, random_dims, random_layout};
use crate::support::number::{BF16, F16, F32, F64, I64, Type};
use crate::support::product::{activations, blocks, formats, row_length};
use crate::support::property::{Operand, Outcome, each_case, values};
use crate::support::quantized::quant;
use crate::support::{Target, add_trial, last_error, open, refused_with, succeeded};
use candle_rocm_sys::{BinaryOp, Buffer, GateOp, Layout, Status, UnaryOp, graph_epoch, sys};
use libtest_mimic::Trial;
use std::ptr::null_mut;

const FLOATS: [Type; 4] = [BF16, F16, F32, F64];
const ACTIVATIONS: [Type; 3] = [F32, F16, BF16];
const U32: Type = crate::support::number::U32;
pub(super) const NONE: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };

const GATES: [(GateOp, UnaryOp, &str); 5] = [
    (GateOp::Silu, UnaryOp::Silu, "silu"),
    (GateOp::Gelu, UnaryOp::Gelu, "gelu"),
    (GateOp::GeluErf, UnaryOp::GeluErf, "gelu_erf"),
    (GateOp::Relu, UnaryOp::Relu, "relu"),
    (GateOp::Sigmoid, UnaryOp::Sigmoid, "sigmoid"),
];

/// How far a gate may be from its two ops, in units in the last place. A CPU's compiler computes several activations at
/// once in one of them and one in the other.
const GATE_UNITS: u64 = 2;

/// Checks that two destinations are equal to the bit; every NaN equals every other.
pub(super) fn equal(what: &str, got: &Operand, expected: &Operand) -> Outcome {
    within(what, got, expected, 0)
}

/// Checks that two destinations are at most `units` units in the last place apart.
fn within(what: &str, got: &Operand, expected: &Operand, units: u64) -> Outcome {
    let (got_bytes, expected_bytes) = (got.memory.read()?, expected.memory.read()?);
    for i in 0..got.shape.numel() {
        let (a, b) = (got.t.get(&got_bytes, i), got.t.get(&expected_bytes, i));
        let close = || got.t.ulps(a, b).is_some_and(|ulps| ulps <= units);
        if a != b && !(got.t.is_nan(a) && got.t.is_nan(b)) && !close() {
            return Err(format!("{what}: element {i} is {}, not {}", got.t.show(a), got.t.show(b)));
        }
    }
    Ok(())
}

/// The same for quantized activations.
fn equal_blocks(got: &Operand, expected: &Operand) -> Outcome {
    let (got, expected) = (got.memory.read()?, expected.memory.read()?);
    match got.iter().zip(&expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!("byte {} of block {} is {}, not {}", at % 36, at / 36, got[at], expected[at])),
    }
}

pub(super) fn unchanged(sources: &[&Operand]) -> Outcome {
    sources.iter().try_for_each(|source| source.unchanged())
}

/// An aligned destination for `count` rows of `k` activations as blocks.
pub(super) fn blocks_for(target: &Target, count: usize, k: usize) -> Operand {
    let shape = Shape::contiguous(&[count * k / 32 * 9]);
    let data = vec![0xcd; shape.numel() * 4];
    Operand::aligned(target, U32, shape, data)
}

/// Gates of any layouts, beside the activation and the product.
fn gate(target: &Target, name: &str, (op, unary, _): (GateOp, UnaryOp, &str), t: Type) -> Outcome {
    each_case(target, "fused", name, 60, |rng, index| {
        let vector = 16 / t.bytes;
        let dims = match index % 3 {
            0 => vec![1 + rng.below(5 * vector)],
            1 => vec![3, 64 * vector + rng.below(3)],
            _ => {
                let rank = rng.below(9);
                random_dims(rng, rank, vector, 400)
            }
        };
        let shapes = [0, 1].map(|_| match index % 3 {
            2 => random_layout(rng, &dims, vector),
            _ => Shape::contiguous(&dims),
        });
        let [g, u] = shapes.map(|shape| Operand::random(target, rng, t, shape));
        let dst = Operand::destination(target, rng, t, &dims);
        let (activated, expected) = (Operand::destination(target, rng, t, &dims), dst.shape.clone());
        let expected = Operand::new(target, rng, t, expected, dst.data.clone());
        let (g_l, u_l) = (g.layout(), u.layout());
        let (flat, device) = (activated.layout(), target.device.raw());
        // SAFETY: live arguments; so below.
        unsafe {
            let (gate, up) = (g.memory.view().into(), u.memory.view().into());
            succeeded(sys::crk_gate(device, op, t.dtype, &g_l, gate, &u_l, up, dst.memory.view()))?;
            succeeded(sys::crk_unary(device, unary, t.dtype, &g_l, gate, activated.memory.view()))?;
            let (lhs, to) = (activated.memory.view().into(), expected.memory.view());
            succeeded(sys::crk_binary(device, BinaryOp::Mul, t.dtype, &flat, lhs, &u_l, up, to))?;
        }
        within("dst", &dst, &expected, GATE_UNITS).map_err(|problem| format!("{dims:?}: {problem}"))?;
        unchanged(&[&g, &u])
    })
}

/// A gate and its activations, beside [`gate`] and crk_quantize_columns.
fn gate_columns(target: &Target, name: &str, (op, ..): (GateOp, UnaryOp, &str), t: Type) -> Outcome {
    each_case(target, "fused", name, 24, |rng, index| {
        let (count, k) = (1 + rng.below(9), 32 * [1, 3, 8, 9, 60, 128][index % 6]);
        let dims = [count, k];
        let source = |rng: &mut Rng| {
            let data = activations(rng, t, count * k);
            Operand::new(target, rng, t, Shape::contiguous(&dims), data)
        };
        let (g, u) = (source(rng), source(rng));
        let (dst, expected) =
            (Operand::destination(target, rng, t, &dims), Operand::destination(target, rng, t, &dims));
        let (made, from) = (blocks_for(target, count, k), blocks_for(target, count, k));
        let (layout, device) = (g.layout(), target.device.raw());
        // SAFETY: live arguments.
        unsafe {
            let (gate, up) = (g.memory.view().into(), u.memory.view().into());
            let (to, beside) = (dst.memory.view(), made.memory.view());
            succeeded(sys::crk_gate_columns(device, op, t.dtype, count, k, gate, up, to, beside))?;
            succeeded(sys::crk_gate(device, op, t.dtype, &layout, gate, &layout, up, expected.memory.view()))?;
            let x = dst.memory.view().into();
            succeeded(sys::crk_quantize_columns(device, t.dtype, count, k, x, from.memory.view()))?;
        }
        within("dst", &dst, &expected, GATE_UNITS)?;
        equal_blocks(&made, &from)?;
        unchanged(&[&g, &u])
    })
}

/// Products of activations that were quantized beforehand, beside products that quantize them.
fn shared_columns(target: &Target, name: &str, t: Type) -> Outcome {
    let all: Vec<_> = formats().collect();
    each_case(target, "fused", name, 2 * all.len(), |rng, index| {
        let format = all[index % all.len()];
        let (rows, columns, k) = (1 + rng.below(70), 1 + rng.below(8), 256 * (1 + rng.below(3)));
        let data = activations(rng, t, columns * k);
        let x = Operand::new(target, rng, t, Shape::contiguous(&[columns, k]), data);
        let bytes = blocks(rng, format, rows * k / format.elements);
        let weights = target.device.upload(&bytes).map_err(|error| error.to_string())?;
        let q8_1 = blocks_for(target, columns, k);
        let destination = |rng: &mut Rng| Operand::destination(target, rng, t, &[columns, rows]);
        let (dst, expected) = (destination(rng), destination(rng));
        // SAFETY: live arguments.
        unsafe {
            let (device, w, view) = (target.device.raw(), weights.raw_view().into(), x.memory.view().into());
            let to = expected.memory.view();
            succeeded(sys::crk_mul_mat_vec(device, quant(format), t.dtype, rows, k, columns, w, view, to))?;
            succeeded(sys::crk_quantize_columns(device, t.dtype, columns, k, view, q8_1.memory.view()))?;
            let (from, to) = (q8_1.memory.view().into(), dst.memory.view());
            succeeded(sys::crk_mul_mat_vec_q8_1(
                device,
                quant(format),
                t.dtype,
                rows,
                k,
                columns,
                w,
                from,
                k / 32,
                to,
                rows,
            ))?;
        }
        equal(format.name, &dst, &expected)?;
        unchanged(&[&x])
    })
}

/// Up to three matrices in one product, beside a product for each. Some matrices have no rows, some a bias, and
/// some rows no elements.
fn grouped(target: &Target, name: &str, t: Type) -> Outcome {
    let all: Vec<_> = formats().collect();
    each_case(target, "fused", name, 2 * all.len(), |rng, index| {
        let format = all[index % all.len()];
        let (count, columns) = (1 + rng.below(3), 1 + rng.below(8));
        let k = if rng.one_in(8) { 0 } else { row_length(rng) };
        let data = activations(rng, t, columns * k);
        let x = Operand::new(target, rng, t, Shape::contiguous(&[columns, k]), data);
        let q8_1 = blocks_for(target, columns, k);
        let device = target.device.raw();
        if k > 0 {
            let (from, to) = (x.memory.view().into(), q8_1.memory.view());
            // SAFETY: live arguments.
            succeeded(unsafe { sys::crk_quantize_columns(device, t.dtype, columns, k, from, to) })?;
        }
        let from = q8_1.memory.view().into();
        let (mut weights, mut pairs, mut list, mut biases) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let rows = if rng.one_in(6) { 0 } else { 1 + rng.below(90) };
            let stride = rows + rng.below(3);
            // Two bytes before the blocks, in some cases: their beginning is then not aligned to 16.
            let (ahead, bytes) = (2 * rng.below(2), blocks(rng, format, rows * k / format.elements));
            let padded = [vec![0; ahead], bytes].concat();
            let buffer = target.device.upload(&padded).map_err(|error| error.to_string())?;
            let whole = buffer.raw_view();
            // SAFETY: `ahead` is inside the buffer, or at its end.
            let view = sys::crk_view_t { ptr: unsafe { whole.ptr.byte_add(ahead) }, bytes: whole.bytes - ahead };
            let destination = |rng: &mut Rng| Operand::destination(target, rng, t, &[columns, stride]);
            let (dst, expected) = (destination(rng), destination(rng));
            // Both begin with the same bytes, because the launcher keeps the bytes between the columns.
            let mut expected = Operand::new(target, rng, t, expected.shape.clone(), dst.data.clone());
            let alone = |dtype, to| {
                let (q, w) = (quant(format), view.into());
                // SAFETY: live arguments.
                succeeded(unsafe {
                    sys::crk_mul_mat_vec_q8_1(device, q, dtype, rows, k, columns, w, from, k / 32, to, stride)
                })
            };
            let bias = if rng.one_in(2) { Some(activations(rng, F32, rows)) } else { None };
            match &bias {
                None => alone(t.dtype, expected.memory.view())?,
                Some(bias) => {
                    let sums = Operand::destination(target, rng, F32, &[columns, stride]);
                    alone(F32.dtype, sums.memory.view())?;
                    let (sums, mut data) = (sums.memory.read()?, dst.data.clone());
                    for at in (0..columns).flat_map(|c| (0..rows).map(move |i| c * stride + i)) {
                        let (sum, more) = (F32.get(&sums, at), F32.get(bias, at % stride));
                        let sum = F32.float(sum) as f32 + F32.float(more) as f32;
                        t.put(&mut data, at, t.round_bits(sum.into()));
                    }
                    expected = Operand::new(target, rng, t, expected.shape.clone(), data);
                }
            }
            let bias = bias.map(|data| Operand::new(target, rng, F32, Shape::contiguous(&[rows]), data));
            list.push(sys::crk_grouped_product_t {
                rows,
                weights: view.into(),
                dst: dst.memory.view(),
                dst_stride: stride,
                bias: bias.as_ref().map_or(Default::default(), |bias| bias.memory.view().into()),
            });
            biases.extend(bias);
            weights.push(buffer);
            pairs.push((dst, expected));
        }
        // SAFETY: live arguments.
        unsafe {
            let (products, q) = (list.as_ptr(), quant(format));
            succeeded(sys::crk_mul_mat_vec_grouped(device, q, t.dtype, k, columns, products, count, from, k / 32))?;
        }
        for (i, (dst, expected)) in pairs.iter().enumerate() {
            equal(&format!("{} {i}", format.name), dst, expected)?;
        }
        biases.iter().try_for_each(Operand::unchanged)?;
        unchanged(&[&x])
    })
}

/// The products and the gate of a feed-forward layer, beside both products, [`gate`] and crk_quantize_columns. One
/// column of f32 with silu or gelu is one kernel; `op` goes through all others too.
fn mat_vec_gate(target: &Target, name: &str, (op, ..): (GateOp, UnaryOp, &str), t: Type) -> Outcome {
    let all: Vec<_> = formats().collect();
    each_case(target, "fused", name, 2 * all.len(), |rng, index| {
        let format = all[index % all.len()];
        let columns = if rng.one_in(4) { 1 + rng.below(8) } else { 1 };
        let k = row_length(rng);
        let quantizes = rng.one_in(2);
        let rows = match rng.below(3) {
            0 => 32 * (1 + rng.below(if k > 768 { 8 } else { 40 })),
            _ if quantizes => 32 * (1 + rng.below(3)),
            _ => 1 + rng.below(150),
        };
        let data = activations(rng, t, columns * k);
        let x = Operand::new(target, rng, t, Shape::contiguous(&[columns, k]), data);
        let q8_1 = blocks_for(target, columns, k);
        let mut matrix = |ahead: usize| -> Result<_, String> {
            let bytes = [vec![0; ahead], blocks(rng, format, rows * k / format.elements)].concat();
            let buffer = target.device.upload(&bytes).map_err(|error| error.to_string())?;
            let whole = buffer.raw_view();
            // SAFETY: `ahead` is inside the buffer.
            let view = sys::crk_view_t { ptr: unsafe { whole.ptr.byte_add(ahead) }, bytes: whole.bytes - ahead };
            Ok((buffer, view))
        };
        let (gate, up) = (matrix(2 * (index % 2))?, matrix(2 * (index / 2 % 2))?);
        let dims = [columns, rows];
        let destination = |rng: &mut Rng| Operand::destination(target, rng, t, &dims);
        let (dst, expected) = (destination(rng), destination(rng));
        let (g, u) = (destination(rng), destination(rng));
        let (made, other) = (blocks_for(target, columns, rows / 32 * 32), blocks_for(target, columns, rows / 32 * 32));
        let (layout, device, q) = (g.layout(), target.device.raw(), quant(format));
        // SAFETY: live arguments.
        unsafe {
            let (from, to) = (x.memory.view().into(), q8_1.memory.view());
            succeeded(sys::crk_quantize_columns(device, t.dtype, columns, k, from, to))?;
            let from: sys::crk_const_view_t = q8_1.memory.view().into();
            let to = dst.memory.view();
            let (w, v) = (gate.1.into(), up.1.into());
            let beside = if quantizes { made.memory.view() } else { NONE };
            succeeded(sys::crk_mul_mat_vec_gate(device, op, q, t.dtype, rows, k, columns, w, v, from, to, beside))?;
            for (weights, to) in [(w, &g), (v, &u)] {
                let to = to.memory.view();
                let stride = k / 32;
                succeeded(sys::crk_mul_mat_vec_q8_1(
                    device, q, t.dtype, rows, k, columns, weights, from, stride, to, rows,
                ))?;
            }
            let (g, u) = (g.memory.view().into(), u.memory.view().into());
            succeeded(sys::crk_gate(device, op, t.dtype, &layout, g, &layout, u, expected.memory.view()))?;
            if quantizes {
                let made_of = dst.memory.view().into();
                succeeded(sys::crk_quantize_columns(device, t.dtype, columns, rows, made_of, other.memory.view()))?;
            }
        }
        within(format.name, &dst, &expected, GATE_UNITS)?;
        if quantizes {
            equal_blocks(&made, &other)?;
        }
        unchanged(&[&x])
    })
}

/// Mixtures of activations that were quantized beforehand, beside mixtures that quantize them.
fn shared_experts(target: &Target, name: &str) -> Outcome {
    let all: Vec<_> = formats().collect();
    each_case(target, "fused", name, 3 * all.len(), |rng, index| {
        let format = all[index % all.len()];
        let (experts, rows, k, topk) = (1 + rng.below(6), 1 + rng.below(40), row_length(rng), 1 + rng.below(4));
        let inputs = 1 + rng.below(9);
        let (scaled, count) = (rng.one_in(2), inputs * topk);
        let x_rows = if scaled { count } else { inputs };
        let data = activations(rng, F32, x_rows * k);
        let x = Operand::new(target, rng, F32, Shape::contiguous(&[x_rows, k]), data);
        let bytes = blocks(rng, format, experts * rows * k / format.elements);
        let weights = target.device.upload(&bytes).map_err(|error| error.to_string())?;
        let mut chosen: Vec<(u32, u32)> = (0..count as u32).map(|m| (rng.below(experts) as u32, m)).collect();
        chosen.sort_unstable();
        let words = |rng: &mut Rng, words: Vec<u32>| {
            let data = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Operand::new(target, rng, U32, Shape::contiguous(&[count]), data)
        };
        let tokens = words(rng, chosen.iter().map(|(_, m)| *m).collect());
        let of = words(rng, chosen.iter().map(|(expert, _)| *expert).collect());
        let scales = words(rng, (0..count).map(|i| (i as f32 * 0.25 - 1.0).to_bits()).collect());
        let q8_1 = blocks_for(target, x_rows, k);
        let destination = |rng: &mut Rng| Operand::destination(target, rng, F32, &[count, rows]);
        let (dst, expected) = (destination(rng), destination(rng));
        // SAFETY: live arguments.
        unsafe {
            let (device, quant, w) = (target.device.raw(), quant(format), weights.raw_view().into());
            let (view, t, o) = (x.memory.view().into(), tokens.memory.view().into(), of.memory.view().into());
            let s = if scaled { scales.memory.view() } else { NONE };
            let to = expected.memory.view();
            succeeded(sys::crk_moe_gguf(
                device,
                quant,
                F32.dtype,
                experts,
                rows,
                k,
                count,
                topk,
                w,
                view,
                t,
                o,
                s.into(),
                to,
            ))?;
            succeeded(sys::crk_quantize_columns(device, F32.dtype, x_rows, k, view, q8_1.memory.view()))?;
            let (columns, to) = (q8_1.memory.view().into(), dst.memory.view());
            let status =
                sys::crk_moe_gguf_columns(device, quant, experts, rows, k, count, topk, w, columns, t, o, s.into(), to);
            succeeded(status)?;
            let short = part(q8_1.memory.view(), 0, x_rows * k / 32 * 36 - 1).into();
            let to = dst.memory.view();
            let status =
                sys::crk_moe_gguf_columns(device, quant, experts, rows, k, count, topk, w, short, t, o, s.into(), to);
            if status != Status::OutOfBounds || !last_error().starts_with("crk_moe_gguf_columns: ") {
                return Err(format!("blocks that are too short: {}, {}", status.name(), last_error()));
            }
        }
        equal(format.name, &dst, &expected)?;
        unchanged(&[&x, &tokens, &of])
    })
}

/// The sum of a token's results, beside the results. It is made twice: the counters of the blocks are 0 again.
fn expert_sums(target: &Target, name: &str) -> Outcome {
    let all: Vec<_> = formats().collect();
    each_case(target, "fused", name, 3 * all.len(), |rng, index| {
        let format = all[index % all.len()];
        let k = row_length(rng);
        let (topk, rows) =
            if k > 768 { (1 + rng.below(5), 1 + rng.below(70)) } else { (1 + rng.below(20), 1 + rng.below(300)) };
        let experts = topk + rng.below(6);
        let data = activations(rng, F32, topk * k);
        let x = Operand::new(target, rng, F32, Shape::contiguous(&[topk, k]), data);
        let bytes = blocks(rng, format, experts * rows * k / format.elements);
        let weights = target.device.upload(&bytes).map_err(|error| error.to_string())?;
        let mut chosen: Vec<(u32, u32)> = (0..topk as u32).map(|m| (rng.below(experts) as u32, m)).collect();
        chosen.sort_unstable();
        let words = |rng: &mut Rng, words: Vec<u32>| {
            let data = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Operand::new(target, rng, U32, Shape::contiguous(&[topk]), data)
        };
        let tokens = words(rng, chosen.iter().map(|(_, m)| *m).collect());
        let of = words(rng, chosen.iter().map(|(expert, _)| *expert).collect());
        let scales = words(rng, (0..topk).map(|i| (i as f32 * 0.25 - 1.0).to_bits()).collect());
        let q8_1 = blocks_for(target, topk, k);
        let each = Operand::destination(target, rng, F32, &[topk, rows]);
        let dst = Operand::destination(target, rng, F32, &[rows]);
        let (device, quant, w) = (target.device.raw(), quant(format), weights.raw_view().into());
        let (t, o, s) = (tokens.memory.view().into(), of.memory.view().into(), scales.memory.view().into());
        let columns = q8_1.memory.view();
        let sum = |topk, k, x: sys::crk_view_t, to| {
            // SAFETY: live arguments.
            unsafe { sys::crk_moe_gguf_sum(device, quant, experts, rows, k, topk, w, x.into(), t, o, s, to) }
        };
        let to = dst.memory.view();
        // SAFETY: live arguments.
        unsafe {
            let view = x.memory.view().into();
            succeeded(sys::crk_quantize_columns(device, F32.dtype, topk, k, view, columns))?;
            let (columns, to) = (columns.into(), each.memory.view());
            let status =
                sys::crk_moe_gguf_columns(device, quant, experts, rows, k, topk, topk, w, columns, t, o, s, to);
            succeeded(status)?;
        }
        succeeded(sum(topk, k, columns, to))?;
        succeeded(sum(topk, k, columns, to))?;
        let floats = |x: &Operand| -> Result<Vec<f32>, String> {
            let bytes = x.memory.read()?;
            Ok((0..x.shape.numel()).map(|i| f32::from_bits(F32.get(&bytes, i) as u32)).collect())
        };
        let results = floats(&each)?;
        for (row, got) in floats(&dst)?.into_iter().enumerate() {
            let wanted = (0..topk).fold(0f32, |sum, i| sum + results[i * rows + row]);
            if got != wanted && !(got.is_nan() && wanted.is_nan()) {
                return Err(format!("{}: row {row} of {rows} is {got}, not {wanted}", format.name));
            }
        }
        for (status, expected) in [
            (sum(0, k, columns, to), Status::InvalidArgument),
            (sum(65536, k, columns, to), Status::InvalidArgument),
            (sum(topk, 0, columns, to), Status::InvalidArgument),
            (sum(topk, k, part(columns, 0, topk * k / 32 * 36 - 1), to), Status::OutOfBounds),
            (sum(topk, k, columns, part(to, 0, 4 * rows - 1)), Status::OutOfBounds),
            (
                sum(topk, k, to, to),
                if to.bytes < columns.bytes { Status::OutOfBounds } else { Status::InvalidArgument },
            ),
        ] {
            if status != expected || !last_error().starts_with("crk_moe_gguf_sum: ") {
                return Err(format!("{} in place of {}: {}", status.name(), expected.name(), last_error()));
            }
        }
        unchanged(&[&x, &tokens, &of, &scales])
    })
}

/// The gates of tokens' experts, beside both products and their gate. With more experts than tokens it is one kernel.
fn expert_gates(target: &Target, name: &str, (op, ..): (GateOp, UnaryOp, &str)) -> Outcome {
    let all: Vec<_> = formats().collect();
    each_case(target, "fused", name, 2 * all.len(), |rng, index| {
        let format = all[index % all.len()];
        let quantizes = rng.one_in(2);
        let rows = if quantizes { 32 * (1 + rng.below(6)) } else { 1 + rng.below(70) };
        let k = row_length(rng);
        let (experts, topk) = (1 + rng.below(if k > 768 { 4 } else { 12 }), 1 + rng.below(4));
        let inputs = 1 + rng.below(4);
        let count = inputs * topk;
        let data = activations(rng, F32, inputs * k);
        let x = Operand::new(target, rng, F32, Shape::contiguous(&[inputs, k]), data);
        let mut matrix = || {
            let bytes = blocks(rng, format, experts * rows * k / format.elements);
            target.device.upload(&bytes).map_err(|error| error.to_string())
        };
        let (gate, up) = (matrix()?, matrix()?);
        let mut chosen: Vec<(u32, u32)> = (0..count as u32).map(|m| (rng.below(experts) as u32, m)).collect();
        chosen.sort_unstable();
        let words = |rng: &mut Rng, words: Vec<u32>| {
            let data = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Operand::new(target, rng, U32, Shape::contiguous(&[count]), data)
        };
        let tokens = words(rng, chosen.iter().map(|(_, m)| *m).collect());
        let of = words(rng, chosen.iter().map(|(expert, _)| *expert).collect());
        let q8_1 = blocks_for(target, inputs, k);
        let destination = |rng: &mut Rng| Operand::destination(target, rng, F32, &[count, rows]);
        let (dst, expected, g, u) = (destination(rng), destination(rng), destination(rng), destination(rng));
        let whole = rows / 32 * 32;
        let (made, other) = (blocks_for(target, count, whole), blocks_for(target, count, whole));
        let (device, q, layout) = (target.device.raw(), quant(format), g.layout());
        // SAFETY: live arguments.
        unsafe {
            let (from, to) = (x.memory.view().into(), q8_1.memory.view());
            succeeded(sys::crk_quantize_columns(device, F32.dtype, inputs, k, from, to))?;
            let (from, t, o) = (q8_1.memory.view().into(), tokens.memory.view().into(), of.memory.view().into());
            let (w, v) = (gate.raw_view().into(), up.raw_view().into());
            for (weights, to) in [(w, &g), (v, &u)] {
                let (to, none) = (to.memory.view(), NONE.into());
                let status =
                    sys::crk_moe_gguf_columns(device, q, experts, rows, k, count, topk, weights, from, t, o, none, to);
                succeeded(status)?;
            }
            let (to, beside) = (dst.memory.view(), if quantizes { made.memory.view() } else { NONE });
            succeeded(sys::crk_moe_gguf_gate(
                device, op, q, experts, rows, k, count, topk, w, v, from, t, o, to, beside,
            ))?;
            let (g, u) = (g.memory.view().into(), u.memory.view().into());
            succeeded(sys::crk_gate(device, op, F32.dtype, &layout, g, &layout, u, expected.memory.view()))?;
            if quantizes {
                let from = dst.memory.view().into();
                succeeded(sys::crk_quantize_columns(device, F32.dtype, count, rows, from, other.memory.view()))?;
                let short = part(made.memory.view(), 0, count * rows / 32 * 36 - 1);
                let (from, to) = (q8_1.memory.view().into(), dst.memory.view());
                let status =
                    sys::crk_moe_gguf_gate(device, op, q, experts, rows, k, count, topk, w, v, from, t, o, to, short);
                if status != Status::OutOfBounds || !last_error().contains("do not fit blocks") {
                    return Err(format!("blocks that are too short: {}, {}", status.name(), last_error()));
                }
                let apart =
                    sys::crk_moe_gguf_gate(device, op, q, experts, rows, k, count, topk, w, v, from, t, o, to, to);
                if apart != Status::InvalidArgument || !last_error().contains("blocks overlaps dst") {
                    return Err(format!("blocks that are dst: {}, {}", apart.name(), last_error()));
                }
            }
        }
        within(format.name, &dst, &expected, GATE_UNITS)?;
        if quantizes {
            equal_blocks(&made, &other)?;
        }
        unchanged(&[&x, &tokens, &of])
    })
}

/// Rows and columns: whole packs and not, of every kernel, and longer than a block holds.
const NORM_SIZES: &[(usize, usize)] = &[
    (0, 32),
    (1, 32),
    (3, 64),
    (9, 96),
    (70, 128),
    (8, 256),
    (2, 1024),
    (1, 4096),
    (3, 2048),
    (2, 8192),
    (1, 16384),
    (3, 7),
    (5, 33),
    (2, 1000),
    (1, 40000),
    // On the CPU device a block has several of these, one after the other.
    (40, 1028),
    (300, 64),
];

/// The norm of a sum beside its steps: with and without a residual, alpha and activations. If `normed`, the first
/// summand is a norm.
fn add_norm(target: &Target, name: &str, t: Type, normed: bool) -> Outcome {
    each_case(target, "fused", name, 4 * NORM_SIZES.len(), |rng, index| {
        let (rows, cols) = NORM_SIZES[index % NORM_SIZES.len()];
        let dims = [rows, cols];
        let source = |rng: &mut Rng, dims: &[usize]| {
            let shape = Shape::contiguous(dims);
            let data = activations(rng, t, shape.numel());
            // Most are aligned, as tensors are.
            if rng.one_in(4) {
                Operand::new(target, rng, t, shape, data)
            } else {
                Operand::aligned(target, t, shape, data)
            }
        };
        let (x, alpha) = (source(rng, &dims), source(rng, &[cols]));
        let x_alpha = (normed && !rng.one_in(4)).then(|| source(rng, &[cols]));
        let residual = (normed || !rng.one_in(3)).then(|| source(rng, &dims));
        let with_alpha = !rng.one_in(4);
        let with_columns = t != F64 && cols % 32 == 0 && rng.one_in(2);
        let destination = |rng: &mut Rng| {
            if rng.one_in(4) {
                Operand::destination(target, rng, t, &dims)
            } else {
                Operand::aligned(target, t, Shape::contiguous(&dims), vec![0xcd; rows * cols * t.bytes])
            }
        };
        // The order of a norm's sums depends on the alignment, so the steps write to memory that is aligned alike.
        let mut twin = Rng(rng.0);
        let (sum, dst, sum_e, dst_e) =
            (destination(rng), destination(rng), destination(&mut twin), destination(&mut twin));
        let (made, from) = if with_columns {
            (blocks_for(target, rows, cols), blocks_for(target, rows, cols))
        } else {
            (blocks_for(target, 0, 32), blocks_for(target, 0, 32))
        };
        let (layout, device, eps) = (x.layout(), target.device.raw(), 1e-5);
        let optional = |wanted: bool, operand: &Operand| if wanted { operand.memory.view() } else { NONE };
        let alpha_view = optional(with_alpha, &alpha).into();
        // SAFETY: live arguments.
        unsafe {
            let (r, s) = match &residual {
                Some(residual) => (residual.memory.view(), sum.memory.view()),
                None => (NONE, NONE),
            };
            let (view, to, columns) = (x.memory.view().into(), dst.memory.view(), optional(with_columns, &made));
            let of_x = x_alpha.as_ref().map_or(NONE, |x_alpha| x_alpha.memory.view()).into();
            let (a, r) = (alpha_view, r.into());
            succeeded(if normed {
                sys::crk_norm_add_rms_norm(device, t.dtype, rows, cols, view, of_x, r, a, s, to, columns, eps)
            } else {
                sys::crk_add_rms_norm(device, t.dtype, rows, cols, view, r, a, s, to, columns, eps)
            })?;
            let (mut summand, sum) = (view, sum_e.memory.view());
            if normed {
                succeeded(sys::crk_rms_norm(device, t.dtype, &layout, summand, of_x, sum, eps))?;
                summand = sum.into();
            }
            if residual.is_some() {
                succeeded(sys::crk_binary(device, BinaryOp::Add, t.dtype, &layout, summand, &layout, r, sum))?;
                summand = sum.into();
            }
            let to = dst_e.memory.view();
            succeeded(sys::crk_rms_norm(device, t.dtype, &layout, summand, alpha_view, to, eps))?;
            if with_columns && rows > 0 {
                let columns = from.memory.view();
                succeeded(sys::crk_quantize_columns(device, t.dtype, rows, cols, to.into(), columns))?;
            }
        }
        let problem = |problem: String| format!("{dims:?}: {problem}");
        equal("sum", &sum, &sum_e).map_err(problem)?;
        equal("dst", &dst, &dst_e).map_err(problem)?;
        equal_blocks(&made, &from).map_err(problem)?;
        unchanged(&[&x, &alpha])?;
        x_alpha.iter().try_for_each(Operand::unchanged)?;
        residual.iter().try_for_each(Operand::unchanged)
    })
}

/// Rotated queries and keys and copied values, in any layouts, beside crk_rope of contiguous copies.
fn rope_qkv(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "fused", name, 48, |rng, index| {
        let interleaved = index % 2 == 1;
        let kind = if interleaved { sys::crk_rope_kind(1) } else { sys::crk_rope_kind(0) };
        let (batch, tokens) = (1 + rng.below(3), [1, 1, 2, 7, 33][rng.below(5)]);
        let d = [2, 6, 8, 16, 32, 64, 128, 80][index % 8];
        let whole = rng.one_in(3);
        let dims = |heads: usize| [batch, heads, tokens, d];
        // The last dim is contiguous; the others are in any order, with gaps of whole rows or not.
        let shape = |rng: &mut Rng, heads: usize| {
            let dims = dims(heads);
            let mut shape = Shape::contiguous(&dims);
            if !whole {
                let gap = rng.pick(&[0, 0, d, 1]);
                let mut stride = d + gap;
                let order = rng.pick(&[[2, 1, 0], [1, 2, 0], [0, 1, 2]]);
                for dim in order {
                    shape.strides[dim] = stride;
                    stride *= dims[dim];
                    stride += rng.pick(&[0, 0, d, 3]);
                }
                shape.offset = rng.pick(&[0, 0, d, 16, 5]);
            }
            shape
        };
        let heads = [1 + rng.below(4), 1 + rng.below(2), 1 + rng.below(2)];
        let sources = heads.map(|heads| {
            let shape = shape(rng, heads);
            Operand::random(target, rng, t, shape)
        });
        let results = heads.map(|heads| {
            let shape = shape(rng, heads);
            let data = vec![0xcd; shape.reach() * t.bytes];
            Operand::new(target, rng, t, shape, data)
        });
        let per_batch = rng.one_in(3);
        let angles = [0, 1].map(|_| {
            let dims: &[usize] = if per_batch { &[batch, tokens + 2, d / 2] } else { &[tokens + 2, d / 2] };
            Operand::random(target, rng, t, Shape::contiguous(dims))
        });
        let (from, to) = (sources.each_ref().map(Operand::layout), results.each_ref().map(Operand::layout));
        let rows = [0, 1, 2].map(|i| sys::crk_rope_rows_t {
            src_layout: &from[i],
            src: sources[i].memory.view().into(),
            dst_layout: &to[i],
            dst: results[i].memory.view(),
        });
        let (cos_l, sin_l, device) = (angles[0].layout(), angles[1].layout(), target.device.raw());
        let (cos, sin) = (angles[0].memory.view().into(), angles[1].memory.view().into());
        // SAFETY: live arguments; so below.
        succeeded(unsafe { sys::crk_rope_qkv(device, kind, t.dtype, rows.as_ptr(), &cos_l, cos, &sin_l, sin) })?;
        for i in 0..3 {
            let expected: Vec<u64> = if i < 2 {
                let mut data = vec![0; sources[i].shape.numel() * t.bytes];
                for (at, bits) in sources[i].elements().into_iter().enumerate() {
                    t.put(&mut data, at, bits);
                }
                let flat = Operand::new(target, rng, t, Shape::contiguous(&dims(heads[i])), data);
                let dst = Operand::destination(target, rng, t, &dims(heads[i]));
                let (layout, view, to) = (flat.layout(), flat.memory.view().into(), dst.memory.view());
                succeeded(unsafe {
                    sys::crk_rope(device, kind, t.dtype, &layout, view, &cos_l, cos, &sin_l, sin, to)
                })?;
                let bytes = dst.memory.read()?;
                (0..dst.shape.numel()).map(|at| t.get(&bytes, at)).collect()
            } else {
                sources[i].elements()
            };
            let bytes = results[i].memory.read()?;
            let mut untouched = bytes.clone();
            for (at, (place, wanted)) in results[i].shape.indices().into_iter().zip(expected).enumerate() {
                let got = t.get(&bytes, place);
                if got != wanted && !(t.is_nan(got) && t.is_nan(wanted)) {
                    let (got, wanted) = (t.show(got), t.show(wanted));
                    return Err(format!("part {i}, {:?}: element {at} is {got}, not {wanted}", results[i].shape));
                }
                untouched[place * t.bytes..][..t.bytes].fill(0xcd);
            }
            if untouched.iter().any(|byte| *byte != 0xcd) {
                return Err(format!("part {i}, {:?}: an element between the rows was written", results[i].shape));
            }
            sources[i].unchanged()?;
        }
        unchanged(&[&angles[0], &angles[1]])
    })
}

/// Norms of heads, casts and rotations together, beside crk_rms_norm, crk_cast and crk_rope. Strides are whole packs of
/// 16 bytes, in any order and with gaps.
fn norm_rope_qkv(target: &Target, name: &str, (s, t): (Type, Type)) -> Outcome {
    each_case(target, "fused", name, 32, |rng, index| {
        let kind = sys::crk_rope_kind(0);
        let (batch, tokens) = (1 + rng.below(2), [1, 1, 2, 5, 33][rng.below(5)]);
        let d = (32 << (index % 5)) / s.bytes;
        let dims = |heads: usize| [batch, heads, tokens, d];
        let shape = |rng: &mut Rng, heads: usize| {
            let dims = dims(heads);
            let mut shape = Shape::contiguous(&dims);
            let mut stride = d + rng.pick(&[0, 0, 16]);
            for dim in rng.pick(&[[2, 1, 0], [1, 2, 0], [0, 1, 2]]) {
                shape.strides[dim] = stride;
                stride = stride * dims[dim] + rng.pick(&[0, 0, 16]);
            }
            shape.offset = rng.pick(&[0, 0, 16]);
            shape
        };
        let random = |rng: &mut Rng, t: Type, shape: Shape| {
            let data = values(rng, t, shape.reach());
            Operand::aligned(target, t, shape, data)
        };
        let heads = [1 + rng.below(4), 1 + rng.below(2), 1 + rng.below(2)];
        let sources = heads.map(|heads| {
            let shape = shape(rng, heads);
            random(rng, s, shape)
        });
        let results = heads.map(|heads| {
            let shape = shape(rng, heads);
            let data = vec![0xcd; shape.reach() * t.bytes];
            Operand::aligned(target, t, shape, data)
        });
        let alphas = [0, 1].map(|_| random(rng, s, Shape::contiguous(&[d])));
        let angles = [0, 1].map(|_| random(rng, t, Shape::contiguous(&[tokens + 2, d / 2])));
        let (from, to) = (sources.each_ref().map(Operand::layout), results.each_ref().map(Operand::layout));
        let rows = [0, 1, 2].map(|i| sys::crk_rope_rows_t {
            src_layout: &from[i],
            src: sources[i].memory.view().into(),
            dst_layout: &to[i],
            dst: results[i].memory.view(),
        });
        let (cos_l, sin_l, device) = (angles[0].layout(), angles[1].layout(), target.device.raw());
        let (cos, sin) = (angles[0].memory.view().into(), angles[1].memory.view().into());
        let [q_alpha, k_alpha] = alphas.each_ref().map(|alpha| sys::crk_const_view_t::from(alpha.memory.view()));
        let (list, eps) = (rows.as_ptr(), 1e-5);
        // SAFETY: live arguments; so below.
        succeeded(unsafe {
            sys::crk_norm_rope_qkv(device, s.dtype, t.dtype, list, q_alpha, k_alpha, eps, &cos_l, cos, &sin_l, sin)
        })?;
        for i in 0..3 {
            let shape = Shape::contiguous(&dims(heads[i]));
            let mut data = vec![0; shape.numel() * s.bytes];
            for (at, bits) in sources[i].elements().into_iter().enumerate() {
                s.put(&mut data, at, bits);
            }
            let flat = Operand::aligned(target, s, shape.clone(), data);
            let empty = |t: Type| Operand::aligned(target, t, shape.clone(), vec![0; shape.numel() * t.bytes]);
            let (normed, cast, rotated) = (empty(s), empty(t), empty(t));
            let layout = flat.layout();
            let from = |of: &Operand| sys::crk_const_view_t::from(of.memory.view());
            unsafe {
                let last = if i < 2 {
                    let (alpha, to) = ([q_alpha, k_alpha][i], normed.memory.view());
                    succeeded(sys::crk_rms_norm(device, s.dtype, &layout, from(&flat), alpha, to, eps))?;
                    &normed
                } else {
                    &flat
                };
                succeeded(sys::crk_cast(device, s.dtype, t.dtype, &layout, from(last), cast.memory.view()))?;
                let to = rotated.memory.view();
                succeeded(sys::crk_rope(device, kind, t.dtype, &layout, from(&cast), &cos_l, cos, &sin_l, sin, to))?;
            }
            let expected = if i < 2 { rotated.memory.read()? } else { cast.memory.read()? };
            let bytes = results[i].memory.read()?;
            let mut untouched = bytes.clone();
            for (at, place) in results[i].shape.indices().into_iter().enumerate() {
                let (got, wanted) = (t.get(&bytes, place), t.get(&expected, at));
                if got != wanted && !(t.is_nan(got) && t.is_nan(wanted)) {
                    let (got, wanted) = (t.show(got), t.show(wanted));
                    return Err(format!("part {i}, {:?}: element {at} is {got}, not {wanted}", results[i].shape));
                }
                untouched[place * t.bytes..][..t.bytes].fill(0xcd);
            }
            if untouched.iter().any(|byte| *byte != 0xcd) {
                return Err(format!("part {i}, {:?}: an element between the rows was written", results[i].shape));
            }
            sources[i].unchanged()?;
        }
        unchanged(&[&angles[0], &angles[1], &alphas[0], &alphas[1]])
    })
}

/// Experts, tokens and topk: one block and many, lists that one block sorts and longer ones.
const ROUTES: &[(usize, usize, usize)] = &[
    (128, 1, 8),
    (128, 32, 8),
    (128, 33, 8),
    (60, 7, 4),
    (64, 300, 6),
    (8, 2, 2),
    (1, 5, 1),
    (32, 3, 32),
    (256, 9, 8),
    (512, 40, 10),
    (129, 1, 1),
    (16, 0, 2),
];

fn route(target: &Target, name: &str) -> Outcome {
    each_case(target, "fused", name, 3 * ROUTES.len(), |rng, index| {
        let (experts, tokens, topk) = ROUTES[index % ROUTES.len()];
        let normalise = rng.one_in(2);
        // Logits of few values: many are equal.
        let few = rng.one_in(3);
        let logits: Vec<f32> = (0..tokens * experts)
            .map(|_| if few { rng.below(4) as f32 } else { (rng.unit() * 12.0 - 6.0) as f32 })
            .collect();
        let data: Vec<u8> = logits.iter().flat_map(|x| x.to_le_bytes()).collect();
        let src = Operand::new(target, rng, F32, Shape::contiguous(&[tokens, experts]), data);
        let count = tokens * topk;
        let weights = Operand::destination(target, rng, F32, &[count]);
        let [ids, sorted, of] = [0; 3].map(|_| Operand::destination(target, rng, U32, &[count]));
        let lists = rng.one_in(4);
        let view = |operand: &Operand| if lists { NONE } else { operand.memory.view() };
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_moe_route(
                target.device.raw(),
                experts,
                tokens,
                topk,
                normalise,
                src.memory.view().into(),
                weights.memory.view(),
                ids.memory.view(),
                view(&sorted),
                view(&of),
            )
        })?;
        let words = |operand: &Operand| -> Result<Vec<u32>, String> {
            let bytes = operand.memory.read()?;
            Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect())
        };
        let (got_weights, got_ids) = (words(&weights)?, words(&ids)?);
        for token in 0..tokens {
            let row = &logits[token * experts..][..experts];
            let mut order: Vec<usize> = (0..experts).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
            let largest = f64::from(row[order[0]]);
            let sum: f64 = row.iter().map(|x| (f64::from(*x) - largest).exp()).sum();
            let p = |i: usize| (f64::from(row[i]) - largest).exp() / sum;
            let total: f64 = if normalise { order[..topk].iter().map(|&i| p(i)).sum() } else { 1.0 };
            for (j, &wanted) in order[..topk].iter().enumerate() {
                let at = token * topk + j;
                // Different logits may have the same probability once it is rounded.
                let id = got_ids[at] as usize;
                if id != wanted && (few || (row[id] - row[wanted]).abs() > 1e-6) {
                    return Err(format!("token {token}: expert {j} is {id}, not {wanted}"));
                }
                let (weight, expected) = (f64::from(f32::from_bits(got_weights[at])), p(wanted) / total);
                if (weight - expected).abs() > 1e-5 * expected {
                    return Err(format!("token {token}: weight {j} is {weight}, not {expected}"));
                }
            }
        }
        if !lists {
            let mut order: Vec<u32> = (0..count as u32).collect();
            order.sort_by_key(|&m| got_ids[m as usize]);
            let experts: Vec<u32> = order.iter().map(|&m| got_ids[m as usize]).collect();
            if words(&sorted)? != order || words(&of)? != experts {
                return Err(format!("{count} results are not in the order of their experts"));
            }
        }
        src.unchanged()
    })
}

/// Checks eight experts of 64, each there once, and weights of NaN.
fn experts_of_nan(of: &Buffer, weights: &Buffer) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let mut chosen = of.download::<u32>().map_err(error)?;
    chosen.dedup();
    if chosen.len() != 8 || chosen[7] >= 64 {
        return Err(format!("the experts are {chosen:?}"));
    }
    let weights = weights.download::<f32>().map_err(error)?;
    if weights.iter().all(|weight| weight.is_nan()) { Ok(()) } else { Err(format!("the weights are {weights:?}")) }
}

/// A token whose logits have a NaN gets experts that exist, each once, and weights of NaN.
fn route_of_nan(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let mut logits = [1f32; 64];
    logits[3] = f32::NAN;
    let (device, src) = (&target.device, target.device.upload(&logits).map_err(error)?);
    let [weights, ids, sorted, of] = [0; 4].map(|_| device.alloc(32));
    let (weights, ids) = (weights.map_err(error)?, ids.map_err(error)?);
    let (sorted, of) = (sorted.map_err(error)?, of.map_err(error)?);
    device.moe_route((64, 1, 8), true, &src, (&weights, &ids), Some((&sorted, &of))).map_err(error)?;
    experts_of_nan(&of, &weights)
}

/// Experts, the length of a row and topk: one block and many, each of the kernels, rows that no kernel takes at once.
const ROUTERS: &[(usize, usize, usize)] = &[
    (128, 2048, 8),
    (128, 2056, 1),
    (1, 8, 1),
    (7, 2048, 7),
    (7, 33, 2),
    (512, 8, 32),
    (512, 2048, 8),
    (127, 4096, 8),
    (255, 1032, 32),
    (511, 96, 10),
    (60, 6152, 4),
    (128, 1, 8),
    (16, 0, 2),
];

/// The operands of a router. Sums of its products are exact in any order, and only a rounding of them in halves is not.
struct Router {
    t: Type,
    sizes: (usize, usize, usize),
    normalise: bool,
    has_lists: bool,
    x: Operand,
    weights: Operand,
    /// topk_weights, topk_ids, sorted_token_ids, expert_ids.
    results: [Operand; 4],
}

impl Router {
    fn new(target: &Target, rng: &mut Rng, t: Type, sizes: (usize, usize, usize), is_aligned: bool) -> Router {
        let (experts, k, topk) = sizes;
        let operand = |rng: &mut Rng, dims: &[usize]| {
            let (shape, data) = (Shape::contiguous(dims), Router::numbers(rng, t, dims.iter().product()));
            if is_aligned {
                Operand::aligned(target, t, shape, data)
            } else {
                Operand::new(target, rng, t, shape, data)
            }
        };
        let (x, weights) = (operand(rng, &[k]), operand(rng, &[experts, k]));
        let results = [F32, U32, U32, U32].map(|t| Operand::destination(target, rng, t, &[topk]));
        Router { t, sizes, normalise: rng.one_in(2), has_lists: !rng.one_in(4), x, weights, results }
    }

    fn numbers(rng: &mut Rng, t: Type, count: usize) -> Vec<u8> {
        let mut data = vec![0; count * t.bytes];
        for i in 0..count {
            t.put(&mut data, i, t.round_bits((rng.below(9) as f64 - 4.0) / 16.0));
        }
        data
    }

    /// The views of the results.
    fn views(&self) -> [sys::crk_view_t; 4] {
        let view = |i: usize| if i < 2 || self.has_lists { self.results[i].memory.view() } else { NONE };
        [0, 1, 2, 3].map(view)
    }

    /// Clears the results.
    fn clear(&self, device: sys::crk_device_t) -> Outcome {
        self.results.iter().try_for_each(|result| {
            let (view, data) = (result.memory.view(), &result.data);
            // SAFETY: live arguments.
            succeeded(unsafe { sys::crk_copy_to_device(device, view, data.as_ptr().cast(), data.len()) })
        })
    }

    fn launch(&self, device: sys::crk_device_t) -> Outcome {
        let ((experts, k, topk), [w, ids, sorted, of]) = (self.sizes, self.views());
        let (weights, x) = (self.weights.memory.view().into(), self.x.memory.view().into());
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_moe_router(device, self.t.dtype, experts, k, topk, self.normalise, weights, x, w, ids, sorted, of)
        })
    }

    fn read(&self) -> Result<Vec<Vec<u8>>, String> {
        let results = self.results.iter().map(|result| result.memory.read()).collect();
        unchanged(&[&self.x, &self.weights])?;
        results
    }

    /// What the launches of the parts give.
    fn expected(&self, target: &Target) -> Result<Vec<Vec<u8>>, String> {
        let ((experts, k, topk), [w, ids, sorted, of]) = (self.sizes, self.views());
        let device = target.device.raw();
        let error = |error: candle_rocm_sys::Error| error.to_string();
        let row = Layout::contiguous(&[1, k]).map_err(error)?;
        let columns = Layout::strided(&[k, experts], &[1, k], 0).map_err(error)?;
        let all = Shape::contiguous(&[experts]);
        let product = Operand::aligned(target, self.t, all.clone(), vec![0; experts * self.t.bytes]);
        let logits = Operand::aligned(target, F32, all, vec![0; experts * 4]);
        let (weights, x) = (self.weights.memory.view().into(), self.x.memory.view().into());
        let (product, layout, logits) = (product.memory.view(), product.layout(), logits.memory.view());
        self.clear(device)?;
        // SAFETY: live arguments.
        unsafe {
            succeeded(sys::crk_matmul(device, self.t.dtype, &row, x, &columns, weights, product))?;
            succeeded(sys::crk_cast(device, self.t.dtype, F32.dtype, &layout, product.into(), logits))?;
            succeeded(sys::crk_moe_route(device, experts, 1, topk, self.normalise, logits.into(), w, ids, sorted, of))?;
        }
        self.read()
    }
}

fn router(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "fused", name, 3 * ROUTERS.len(), |rng, index| {
        let sizes = ROUTERS[index % ROUTERS.len()];
        let router = Router::new(target, rng, t, sizes, index < ROUTERS.len());
        let expected = router.expected(target)?;
        for turn in 0..3 {
            router.clear(target.device.raw())?;
            router.launch(target.device.raw())?;
            if router.read()? != expected {
                return Err(format!("{sizes:?}, launch {turn}: {:?}, not {expected:?}", router.read()?));
            }
        }
        Ok(())
    })
}

/// Recorded once and replayed with other tokens.
fn router_captured(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let own = Target { name: target.name.clone(), device };
    let (device, error) = (own.device.raw(), |error: candle_rocm_sys::Error| error.to_string());
    // SAFETY: a live handle.
    succeeded(unsafe { sys::crk_memory_reserve(device, 1 << 20) })?;
    let mut rng = Rng(5);
    for (t, sizes) in [(F32, (128, 2048, 8)), (BF16, (33, 64, 4)), (F16, (512, 512, 32)), (F16, (40, 7, 3))] {
        let mut router = Router::new(&own, &mut rng, t, sizes, true);
        router.launch(device)?;
        let (graph, recorded) = own.device.capture(|| Ok(router.launch(device))).map_err(error)?;
        recorded?;
        for _ in 0..4 {
            router.x.data = Router::numbers(&mut rng, t, sizes.1);
            let (view, data) = (router.x.memory.view(), &router.x.data);
            // SAFETY: live arguments; the graph's memory is alive.
            succeeded(unsafe { sys::crk_copy_to_device(device, view, data.as_ptr().cast(), data.len()) })?;
            let expected = router.expected(&own)?;
            router.clear(device)?;
            unsafe { graph.launch() }.map_err(error)?;
            if router.read()? != expected {
                return Err(format!("{} {sizes:?}: {:?}, not {expected:?}", t.name, router.read()?));
            }
        }
    }
    Ok(())
}

/// A NaN among the weights: experts that exist, each once, and weights of NaN.
fn router_of_nan(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let mut matrix = [1f32; 64 * 32];
    matrix[3 * 32 + 5] = f32::NAN;
    let device = &target.device;
    let (matrix, x) = (device.upload(&matrix).map_err(error)?, device.upload(&[1f32; 32]).map_err(error)?);
    let [weights, ids, sorted, of] = [0; 4].map(|_| device.alloc(32));
    let (weights, ids) = (weights.map_err(error)?, ids.map_err(error)?);
    let (sorted, of) = (sorted.map_err(error)?, of.map_err(error)?);
    let (results, lists) = ((&weights, &ids), Some((&sorted, &of)));
    device.moe_router(F32.dtype, (64, 32, 8), true, &matrix, &x, results, lists).map_err(error)?;
    experts_of_nan(&of, &weights)
}

/// The epoch changes with each capture and each launch of a graph, and with nothing else.
fn epoch(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let buffer = device.upload(&[0u8; 64]).map_err(error)?;
    let before = graph_epoch();
    let (graph, ()) = device.capture(|| buffer.fill_bytes(1)).map_err(error)?;
    let captured = graph_epoch();
    // SAFETY: the buffer is alive.
    unsafe { graph.launch() }.map_err(error)?;
    let launched = graph_epoch();
    // Other trials may run graphs at the same time.
    if before < captured && captured < launched { Ok(()) } else { Err(format!("{before}, {captured}, {launched}")) }
}

/// A view without memory that says it has some: not the absence of an optional view.
fn null_of(bytes: usize) -> sys::crk_view_t {
    sys::crk_view_t { ptr: null_mut(), bytes }
}

/// A view that begins `offset` bytes later and has `bytes` bytes.
pub(super) fn part(view: sys::crk_view_t, offset: usize, bytes: usize) -> sys::crk_view_t {
    sys::crk_view_t { ptr: view.ptr.cast::<u8>().wrapping_add(offset).cast(), bytes }
}

/// Bad values for every argument: checks the status and the argument's name in the sentence.
fn refused(target: &Target) -> Outcome {
    use Status as S;
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = target.device.raw();
    let buffer = || target.device.upload(&[0u8; 1024]).map_err(error);
    let (x, y, d, s, b) = (buffer()?, buffer()?, buffer()?, buffer()?, buffer()?);
    let [x, y, d, s, b] = [&x, &y, &d, &s, &b].map(candle_rocm_sys::Buffer::raw_view);
    let (good, f32_, f64_) = (Layout::contiguous(&[2, 32]).map_err(error)?, F32.dtype, F64.dtype);
    let (invalid, small) = (S::InvalidArgument, S::OutOfBounds);
    let silu = GateOp::Silu;
    // SAFETY: the launchers refuse arguments that are not live; the views are of live buffers.
    unsafe {
        let gate = |op, t, gate: sys::crk_view_t, up: sys::crk_view_t, dst| {
            sys::crk_gate(device, op, t, &good, gate.into(), &good, up.into(), dst)
        };
        refused_with("crk_gate", "op 9", invalid, gate(sys::crk_gate_op(9), f32_, x, y, d))?;
        refused_with("crk_gate", "i64", S::Unsupported, gate(silu, I64.dtype, x, y, d))?;
        refused_with("crk_gate", "gate", small, gate(silu, f32_, part(x, 0, 255), y, d))?;
        refused_with("crk_gate", "up", small, gate(silu, f32_, x, part(y, 0, 255), d))?;
        refused_with("crk_gate", "dst", small, gate(silu, f32_, x, y, part(d, 0, 255)))?;
        let columns = |op, t, k, gate: sys::crk_view_t, up: sys::crk_view_t, dst, blocks| {
            sys::crk_gate_columns(device, op, t, 2, k, gate.into(), up.into(), dst, blocks)
        };
        let where_ = "crk_gate_columns";
        refused_with(where_, "op 9", invalid, columns(sys::crk_gate_op(9), f32_, 32, x, y, d, b))?;
        refused_with(where_, "f64", S::Unsupported, columns(silu, f64_, 32, x, y, d, b))?;
        refused_with(where_, "k is 33", invalid, columns(silu, f32_, 33, x, y, d, b))?;
        refused_with(where_, "gate", small, columns(silu, f32_, 32, part(x, 0, 255), y, d, b))?;
        refused_with(where_, "up", small, columns(silu, f32_, 32, x, part(y, 0, 255), d, b))?;
        refused_with(where_, "dst", small, columns(silu, f32_, 32, x, y, part(d, 0, 255), b))?;
        refused_with(where_, "blocks", small, columns(silu, f32_, 32, x, y, d, part(b, 0, 71)))?;
        refused_with(where_, "blocks", invalid, columns(silu, f32_, 32, x, y, d, part(b, 2, 100)))?;
        refused_with(where_, "dst overlaps gate", invalid, columns(silu, f32_, 32, x, y, x, b))?;
        refused_with(where_, "dst overlaps up", invalid, columns(silu, f32_, 32, x, y, y, b))?;
        refused_with(where_, "blocks overlaps gate", invalid, columns(silu, f32_, 32, x, y, d, x))?;
        refused_with(where_, "blocks overlaps up", invalid, columns(silu, f32_, 32, x, y, d, y))?;
        refused_with(where_, "blocks overlaps dst", invalid, columns(silu, f32_, 32, x, y, d, d))?;
        let products = |count, k, columns, weights: sys::crk_view_t, dst: sys::crk_view_t, x: sys::crk_view_t| {
            let one = |weights: sys::crk_view_t, dst| {
                let weights = weights.into();
                sys::crk_grouped_product_t { rows: 2, weights, dst, dst_stride: 2, bias: Default::default() }
            };
            let list =
                [one(part(y, 0, 512), part(s, 0, 64)), one(weights, dst), one(part(y, 512, 512), part(s, 64, 64))];
            let q = candle_rocm_sys::Quant::Q4_0;
            sys::crk_mul_mat_vec_grouped(device, q, f32_, k, columns, list.as_ptr(), count, x.into(), k / 32)
        };
        let where_ = "crk_mul_mat_vec_grouped";
        succeeded(products(3, 32, 1, y, d, x))?;
        refused_with(where_, "count is 4", invalid, products(4, 32, 1, y, d, x))?;
        refused_with(where_, "columns is 9", invalid, products(2, 32, 9, y, d, x))?;
        refused_with(where_, "k is 33", invalid, products(2, 33, 1, y, d, x))?;
        refused_with(where_, "products[1].weights", small, products(2, 32, 1, part(y, 0, 35), d, x))?;
        refused_with(where_, "products[1].dst", small, products(2, 32, 1, y, part(d, 0, 7), x))?;
        refused_with(where_, "x", small, products(2, 32, 1, y, d, part(x, 0, 35)))?;
        refused_with(where_, "products[1].dst overlaps x", invalid, products(2, 32, 1, y, x, x))?;
        refused_with(where_, "products[0].dst overlaps products[1].weights", invalid, products(2, 32, 1, s, d, x))?;
        refused_with(where_, "products[1].dst overlaps products[0].dst", invalid, products(2, 32, 1, y, s, x))?;
        let biased = |k, bias: sys::crk_view_t| {
            let (q, weights, bias) = (candle_rocm_sys::Quant::Q4_0, part(y, 0, 512).into(), bias.into());
            let one = sys::crk_grouped_product_t { rows: 2, weights, dst: part(d, 0, 8), dst_stride: 2, bias };
            sys::crk_mul_mat_vec_grouped(device, q, f32_, k, 1, &one, 1, x.into(), 1)
        };
        succeeded(biased(32, part(s, 0, 8)))?;
        refused_with(where_, "products[0].bias", small, biased(32, part(s, 0, 7)))?;
        refused_with(where_, "products[0].bias.ptr is NULL", invalid, biased(32, null_of(8)))?;
        refused_with(where_, "products[0].dst overlaps products[0].bias", invalid, biased(32, part(d, 4, 8)))?;
        let null = std::ptr::null();
        let q = candle_rocm_sys::Quant::Q4_0;
        let none = sys::crk_mul_mat_vec_grouped(device, q, f32_, 32, 1, null, 1, x.into(), 1);
        refused_with(where_, "products is NULL", invalid, none)?;
        succeeded(sys::crk_mul_mat_vec_grouped(device, q, f32_, 32, 1, null, 0, x.into(), 1))?;
        let gated = |op, k, rows, gate: sys::crk_view_t, up: sys::crk_view_t, x: sys::crk_view_t, dst, blocks| {
            let (gate, up, x) = (gate.into(), up.into(), x.into());
            sys::crk_mul_mat_vec_gate(device, op, q, f32_, rows, k, 1, gate, up, x, dst, blocks)
        };
        let where_ = "crk_mul_mat_vec_gate";
        let t = part(s, 0, 512);
        succeeded(gated(silu, 32, 32, x, y, t, d, b))?;
        refused_with(where_, "op 9", invalid, gated(sys::crk_gate_op(9), 32, 32, x, y, t, d, b))?;
        refused_with(where_, "k is 48", invalid, gated(silu, 48, 32, x, y, t, d, b))?;
        refused_with(where_, "rows is 31", invalid, gated(silu, 32, 31, x, y, t, d, b))?;
        refused_with(where_, "gate", small, gated(silu, 32, 32, part(x, 0, 575), y, t, d, b))?;
        refused_with(where_, "up", small, gated(silu, 32, 32, x, part(y, 0, 575), t, d, b))?;
        refused_with(where_, "x", small, gated(silu, 32, 32, x, y, part(s, 0, 35), d, b))?;
        refused_with(where_, "dst", small, gated(silu, 32, 32, x, y, t, part(d, 0, 127), b))?;
        refused_with(where_, "blocks", small, gated(silu, 32, 32, x, y, t, d, part(b, 0, 35)))?;
        refused_with(where_, "dst overlaps gate", invalid, gated(silu, 32, 32, x, y, t, x, b))?;
        refused_with(where_, "dst overlaps up", invalid, gated(silu, 32, 32, x, y, t, y, b))?;
        refused_with(where_, "dst overlaps x", invalid, gated(silu, 32, 32, x, y, t, s, b))?;
        refused_with(where_, "blocks overlaps dst", invalid, gated(silu, 32, 32, x, y, t, d, d))?;
        refused_with(where_, "blocks overlaps up", invalid, gated(silu, 32, 32, x, y, t, d, y))?;
        let quantize = |t, k, x: sys::crk_view_t, dst| sys::crk_quantize_columns(device, t, 2, k, x.into(), dst);
        let where_ = "crk_quantize_columns";
        refused_with(where_, "f64", S::Unsupported, quantize(f64_, 32, x, d))?;
        refused_with(where_, "k is 48", invalid, quantize(f32_, 48, x, d))?;
        refused_with(where_, "x", small, quantize(f32_, 32, part(x, 0, 255), d))?;
        refused_with(where_, "dst", small, quantize(f32_, 32, x, part(d, 0, 71)))?;
        refused_with(where_, "dst overlaps x", invalid, quantize(f32_, 32, x, x))?;
        let norm = |t, cols, x: sys::crk_view_t, r: sys::crk_view_t, a: sys::crk_view_t, s, d, b| {
            sys::crk_add_rms_norm(device, t, 2, cols, x.into(), r.into(), a.into(), s, d, b, 1e-5)
        };
        let where_ = "crk_add_rms_norm";
        let a = part(b, 512, 128);
        let q = part(b, 0, 256);
        refused_with(where_, "i64", S::Unsupported, norm(I64.dtype, 32, x, y, a, s, d, NONE))?;
        refused_with(where_, "f64", S::Unsupported, norm(f64_, 32, x, y, part(x, 768, 256), s, d, q))?;
        refused_with(where_, "sum.ptr", invalid, norm(f32_, 32, x, y, a, NONE, d, q))?;
        refused_with(where_, "residual.ptr", invalid, norm(f32_, 32, x, NONE, a, s, d, q))?;
        refused_with(where_, "cols is 20", invalid, norm(f32_, 20, x, y, a, s, d, q))?;
        refused_with(where_, "x", small, norm(f32_, 32, part(x, 0, 255), y, a, s, d, q))?;
        refused_with(where_, "residual", small, norm(f32_, 32, x, part(y, 0, 255), a, s, d, q))?;
        refused_with(where_, "alpha", small, norm(f32_, 32, x, y, part(a, 0, 127), s, d, q))?;
        refused_with(where_, "sum", small, norm(f32_, 32, x, y, a, part(s, 0, 255), d, q))?;
        refused_with(where_, "dst", small, norm(f32_, 32, x, y, a, s, part(d, 0, 255), q))?;
        refused_with(where_, "columns", small, norm(f32_, 32, x, y, a, s, d, part(q, 0, 71)))?;
        refused_with(where_, "sum overlaps x", invalid, norm(f32_, 32, x, y, a, x, d, q))?;
        refused_with(where_, "sum overlaps residual", invalid, norm(f32_, 32, x, y, a, y, d, q))?;
        refused_with(where_, "sum overlaps alpha", invalid, norm(f32_, 32, x, y, a, part(b, 384, 256), d, q))?;
        refused_with(where_, "dst overlaps sum", invalid, norm(f32_, 32, x, y, a, s, s, q))?;
        refused_with(where_, "dst overlaps x", invalid, norm(f32_, 32, x, y, a, s, x, q))?;
        refused_with(where_, "columns overlaps dst", invalid, norm(f32_, 32, x, y, a, s, d, d))?;
        refused_with(where_, "columns overlaps sum", invalid, norm(f32_, 32, x, y, a, s, d, s))?;
        refused_with(where_, "alpha.ptr is NULL", invalid, norm(f32_, 32, x, y, null_of(128), s, d, q))?;
        refused_with(where_, "residual.ptr is NULL", invalid, norm(f32_, 32, x, null_of(256), a, null_of(256), d, q))?;
        refused_with(where_, "columns.ptr is NULL", invalid, norm(f32_, 32, x, y, a, s, d, null_of(72)))?;
        let both = |x: sys::crk_view_t, e: sys::crk_view_t, r: sys::crk_view_t, s, d, b| {
            let (x, e, r, a) = (x.into(), e.into(), r.into(), a.into());
            sys::crk_norm_add_rms_norm(device, f32_, 2, 32, x, e, r, a, s, d, b, 1e-5)
        };
        let where_ = "crk_norm_add_rms_norm";
        let e = part(b, 640, 128);
        refused_with(where_, "residual.ptr is NULL", invalid, both(x, e, NONE, NONE, d, q))?;
        refused_with(where_, "x", small, both(part(x, 0, 255), e, y, s, d, q))?;
        refused_with(where_, "x_alpha", small, both(x, part(e, 0, 127), y, s, d, q))?;
        refused_with(where_, "x_alpha.ptr is NULL", invalid, both(x, null_of(128), y, s, d, q))?;
        refused_with(where_, "sum overlaps x_alpha", invalid, both(x, e, y, part(b, 640, 256), d, q))?;
        refused_with(where_, "dst overlaps x_alpha", invalid, both(x, e, y, s, part(b, 704, 256), q))?;
        refused_with(where_, "columns overlaps x_alpha", invalid, both(x, e, y, s, d, part(b, 640, 256)))?;
        let route = |experts, topk, x: sys::crk_view_t, w, ids, sorted, of| {
            sys::crk_moe_route(device, experts, 2, topk, true, x.into(), w, ids, sorted, of)
        };
        let where_ = "crk_moe_route";
        refused_with(where_, "experts is 513", S::Unsupported, route(513, 2, x, y, d, s, b))?;
        refused_with(where_, "topk is 33", S::Unsupported, route(64, 33, x, y, d, s, b))?;
        refused_with(where_, "topk is 9", invalid, route(8, 9, x, y, d, s, b))?;
        refused_with(where_, "logits", small, route(8, 2, part(x, 0, 63), y, d, s, b))?;
        refused_with(where_, "topk_weights", small, route(8, 2, x, part(y, 0, 15), d, s, b))?;
        refused_with(where_, "topk_ids", small, route(8, 2, x, y, part(d, 0, 15), s, b))?;
        refused_with(where_, "sorted_token_ids", small, route(8, 2, x, y, d, part(s, 0, 15), b))?;
        refused_with(where_, "expert_ids", small, route(8, 2, x, y, d, s, part(b, 0, 15)))?;
        refused_with(where_, "expert_ids.ptr", invalid, route(8, 2, x, y, d, s, NONE))?;
        refused_with(where_, "sorted_token_ids.ptr is NULL", invalid, route(8, 2, x, y, d, null_of(16), null_of(16)))?;
        refused_with(where_, "topk_ids overlaps logits", invalid, route(8, 2, x, y, x, s, b))?;
        refused_with(where_, "topk_ids overlaps topk_weights", invalid, route(8, 2, x, y, y, s, b))?;
        refused_with(where_, "expert_ids overlaps sorted_token_ids", invalid, route(8, 2, x, y, d, s, s))?;
        let router = |t, (experts, k, topk), weights: sys::crk_view_t, x: sys::crk_view_t, (w, ids), (sorted, of)| {
            sys::crk_moe_router(device, t, experts, k, topk, true, weights.into(), x.into(), w, ids, sorted, of)
        };
        let (where_, sizes, to, lists, row) = ("crk_moe_router", (8, 32, 4), (d, b), (NONE, NONE), part(y, 0, 128));
        let (room, own) = (part(y, 512, 16), part(y, 512, 256));
        refused_with(where_, "f64", S::Unsupported, router(f64_, sizes, x, row, to, lists))?;
        refused_with(where_, "experts is 513", S::Unsupported, router(f32_, (513, 2, 4), x, row, to, lists))?;
        refused_with(where_, "topk is 33", S::Unsupported, router(f32_, (64, 2, 33), x, row, to, lists))?;
        refused_with(where_, "topk is 9", invalid, router(f32_, (8, 32, 9), x, row, to, lists))?;
        refused_with(where_, "k is", invalid, router(f32_, (8, 1 << 31, 4), x, row, to, lists))?;
        refused_with(where_, "weights", small, router(f32_, sizes, part(x, 0, 1023), row, to, lists))?;
        refused_with(where_, "x", small, router(f32_, sizes, x, part(y, 0, 127), to, lists))?;
        refused_with(where_, "topk_weights", small, router(f32_, sizes, x, row, (part(d, 0, 15), b), lists))?;
        refused_with(where_, "topk_ids", small, router(f32_, sizes, x, row, (d, part(b, 0, 15)), lists))?;
        refused_with(where_, "sorted_token_ids", small, router(f32_, sizes, x, row, to, (part(s, 0, 15), own)))?;
        refused_with(where_, "expert_ids", small, router(f32_, sizes, x, row, to, (s, part(own, 0, 15))))?;
        refused_with(where_, "expert_ids.ptr", invalid, router(f32_, sizes, x, row, to, (s, NONE)))?;
        refused_with(where_, "topk_weights overlaps weights", invalid, router(f32_, sizes, x, row, (x, b), lists))?;
        refused_with(where_, "topk_ids overlaps x", invalid, router(f32_, sizes, x, row, (d, row), lists))?;
        refused_with(where_, "topk_ids overlaps topk_weights", invalid, router(f32_, sizes, x, row, (d, d), lists))?;
        refused_with(where_, "expert_ids overlaps sorted", invalid, router(f32_, sizes, x, row, to, (room, room)))?;
        let rows = Layout::contiguous(&[1, 2, 2, 8]).map_err(error)?;
        let (other, turned) = (Layout::contiguous(&[1, 2, 3, 8]), Layout::strided(&[1, 2, 2, 8], &[32, 16, 1, 2], 0));
        let (other, turned) = (other.map_err(error)?, turned.map_err(error)?);
        let table = Layout::contiguous(&[2, 4]).map_err(error)?;
        let narrow = Layout::contiguous(&[2, 3]).map_err(error)?;
        let rope = |kind, t, q: (&Layout, sys::crk_view_t, sys::crk_view_t), k: (&Layout, usize), angles: &Layout| {
            let row = |src_layout, src: sys::crk_view_t, dst_layout, dst| sys::crk_rope_rows_t {
                src_layout,
                src: src.into(),
                dst_layout,
                dst,
            };
            let rest = part(s, 512, 256);
            let list = [
                row(q.0, q.1, &rows, q.2),
                row(&rows, part(x, 256, 128), k.0, part(s, 0, k.1)),
                row(&rows, part(x, 384, 128), &rows, rest),
            ];
            let (c, n) = (part(y, 0, 32).into(), part(y, 32, 32).into());
            sys::crk_rope_qkv(device, sys::crk_rope_kind(kind), t, list.as_ptr(), angles, c, angles, n)
        };
        let where_ = "crk_rope_qkv";
        let k = (&rows, 256);
        succeeded(rope(0, f32_, (&rows, x, d), k, &table))?;
        refused_with(where_, "kind 2", invalid, rope(2, f32_, (&rows, x, d), k, &table))?;
        refused_with(where_, "i64", S::Unsupported, rope(0, I64.dtype, (&rows, x, d), k, &table))?;
        refused_with(where_, "rows[0].src", small, rope(0, f32_, (&rows, part(x, 0, 127), d), k, &table))?;
        refused_with(where_, "rows[0].dst", small, rope(0, f32_, (&rows, x, part(d, 0, 127)), k, &table))?;
        refused_with(where_, "rows[0].dst_layout.dims[2]", invalid, rope(0, f32_, (&other, x, d), k, &table))?;
        refused_with(where_, "rows[0].src_layout.strides[3]", invalid, rope(0, f32_, (&turned, x, d), k, &table))?;
        refused_with(where_, "rows[1].dst", small, rope(0, f32_, (&rows, x, d), (&rows, 127), &table))?;
        refused_with(
            where_,
            "rows[1].dst_layout.dims[2]",
            invalid,
            rope(0, f32_, (&rows, x, d), (&other, 256), &table),
        )?;
        let shared = Layout::strided(&[1, 2, 2, 8], &[32, 16, 0, 1], 0).map_err(error)?;
        let word = "rows[1].dst_layout.strides[2] is 0; elements of rows[1].dst would share memory";
        refused_with(where_, word, invalid, rope(0, f32_, (&rows, x, d), (&shared, 256), &table))?;
        let near = Layout::strided(&[1, 2, 2, 8], &[0, 15, 8, 1], 0).map_err(error)?;
        let word = "rows[1].dst_layout.strides[1] is 15; elements of rows[1].dst would share memory";
        refused_with(where_, word, invalid, rope(0, f32_, (&rows, x, d), (&near, 256), &table))?;
        let apart = Layout::strided(&[1, 2, 2, 8], &[0, 8, 20, 1], 0).map_err(error)?;
        succeeded(rope(0, f32_, (&rows, x, d), (&apart, 256), &table))?;
        refused_with(where_, "cos_layout.dims[1]", invalid, rope(0, f32_, (&rows, x, d), k, &narrow))?;
        refused_with(where_, "rows[0].dst overlaps rows[0].src", invalid, rope(0, f32_, (&rows, x, x), k, &table))?;
        refused_with(where_, "rows[0].dst overlaps cos", invalid, rope(0, f32_, (&rows, x, y), k, &table))?;
        refused_with(where_, "rows[1].dst overlaps rows[0].dst", invalid, rope(0, f32_, (&rows, x, s), k, &table))?;
        let null = std::ptr::null();
        let (c, n) = (y.into(), y.into());
        let kind = sys::crk_rope_kind(0);
        refused_with(
            where_,
            "rows is NULL",
            invalid,
            sys::crk_rope_qkv(device, kind, f32_, null, &table, c, &table, n),
        )?;
        let alphas = (part(y, 128, 32), part(y, 160, 32));
        let norm_rope = |from, t, src: (&Layout, sys::crk_view_t), q_alpha: sys::crk_view_t, dst| {
            let row = |src_layout, src: sys::crk_view_t, dst| sys::crk_rope_rows_t {
                src_layout,
                src: src.into(),
                dst_layout: &rows,
                dst,
            };
            let list = [
                row(src.0, src.1, dst),
                row(&rows, part(x, 256, 128), part(s, 0, 256)),
                row(&rows, part(x, 384, 128), part(s, 512, 256)),
            ];
            let (c, n) = (part(y, 0, 32).into(), part(y, 32, 32).into());
            let k_alpha = alphas.1.into();
            let list = list.as_ptr();
            sys::crk_norm_rope_qkv(device, from, t, list, q_alpha.into(), k_alpha, 1e-5, &table, c, &table, n)
        };
        let where_ = "crk_norm_rope_qkv";
        let (f16_, bf16_, src) = (F16.dtype, BF16.dtype, (&rows, x));
        succeeded(norm_rope(f32_, f32_, src, alphas.0, d))?;
        refused_with(where_, "f64", S::Unsupported, norm_rope(f64_, f64_, src, alphas.0, d))?;
        refused_with(where_, "from f16 to f32", S::Unsupported, norm_rope(f16_, f32_, src, alphas.0, d))?;
        refused_with(where_, "from bf16 to f16", S::Unsupported, norm_rope(bf16_, f16_, src, alphas.0, d))?;
        refused_with(where_, "rows of 16 bytes", S::Unsupported, norm_rope(f16_, f16_, src, alphas.0, d))?;
        refused_with(where_, "q_alpha", small, norm_rope(f32_, f32_, src, part(y, 128, 31), d))?;
        refused_with(where_, "multiple of 16", S::Unsupported, norm_rope(f32_, f32_, src, part(y, 132, 32), d))?;
        refused_with(where_, "not of 16", S::Unsupported, norm_rope(f32_, f32_, src, alphas.0, part(d, 8, 256)))?;
        refused_with(where_, "rows[0].dst overlaps q_alpha", invalid, norm_rope(f32_, f32_, src, part(d, 0, 32), d))?;
        // Nothing to do: unused arguments are not checked.
        succeeded(sys::crk_moe_route(device, 8, 0, 2, true, NONE.into(), NONE, NONE, NONE, NONE))?;
        succeeded(router(f32_, (8, 32, 0), NONE, NONE, (NONE, NONE), lists))?;
        succeeded(sys::crk_quantize_columns(device, f32_, 0, 32, NONE.into(), NONE))?;
    }
    Ok(())
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: crate::support::Body| add_trial(&mut trials, "fused", target, name, body);
        for kind in GATES {
            for t in FLOATS {
                add(format!("gate_{}_{}", kind.2, t.name), Box::new(move |target, name| gate(target, name, kind, t)));
            }
            for t in ACTIVATIONS {
                let body = move |target: &'static Target, name: &str| gate_columns(target, name, kind, t);
                add(format!("gate_columns_{}_{}", kind.2, t.name), Box::new(body));
            }
        }
        for kind in GATES {
            let body = move |target: &'static Target, name: &str| mat_vec_gate(target, name, kind, F32);
            add(format!("mat_vec_gate_{}_f32", kind.2), Box::new(body));
            let body = move |target: &'static Target, name: &str| expert_gates(target, name, kind);
            add(format!("expert_gates_{}", kind.2), Box::new(body));
        }
        for t in ACTIVATIONS {
            add(format!("grouped_{}", t.name), Box::new(move |target, name| grouped(target, name, t)));
        }
        for t in [F16, BF16] {
            let body = move |target: &'static Target, name: &str| mat_vec_gate(target, name, GATES[0], t);
            add(format!("mat_vec_gate_silu_{}", t.name), Box::new(body));
        }
        for t in FLOATS {
            add(format!("add_rms_norm_{}", t.name), Box::new(move |target, name| add_norm(target, name, t, false)));
            add(format!("norm_add_rms_norm_{}", t.name), Box::new(move |target, name| add_norm(target, name, t, true)));
        }
        for t in FLOATS {
            add(format!("rope_qkv_{}", t.name), Box::new(move |target, name| rope_qkv(target, name, t)));
        }
        for (s, t) in [(F32, F32), (F32, F16), (F32, BF16), (F16, F16), (BF16, BF16)] {
            let body = move |target: &'static Target, name: &str| norm_rope_qkv(target, name, (s, t));
            add(format!("norm_rope_qkv_{}_{}", s.name, t.name), Box::new(body));
        }
        for t in ACTIVATIONS {
            add(format!("columns_{}", t.name), Box::new(move |target, name| shared_columns(target, name, t)));
        }
        add("experts".into(), Box::new(shared_experts));
        add("expert_sums".into(), Box::new(expert_sums));
        add("route".into(), Box::new(route));
        add("route_of_nan".into(), Box::new(|target, _| route_of_nan(target)));
        for t in ACTIVATIONS {
            add(format!("router_{}", t.name), Box::new(move |target, name| router(target, name, t)));
        }
        add("router_captured".into(), Box::new(|target, _| router_captured(target)));
        add("router_of_nan".into(), Box::new(|target, _| router_of_nan(target)));
        add("epoch".into(), Box::new(|target, _| epoch(target)));
        add("refused".into(), Box::new(|target, _| refused(target)));
    }
    trials
}
