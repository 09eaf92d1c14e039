//! `columns`: the result as activations of quantized products, with the bits of `crk_quantize_columns`.
use crate::support::cases::{Rng, Shape};
use crate::support::number::{F32, Type, U32};
use crate::support::property::{Operand, Outcome, each_case};
use crate::support::{Target, last_error, succeeded};
use candle_rocm_sys::{Layout, Status, sys};
use std::ptr::{from_ref, null_mut};

/// Bytes of a block of 32 codes.
const BLOCK: usize = 36;

struct Case {
    layouts: [Layout; 4],
    q: Operand,
    k: Operand,
    v: Operand,
    dst: Operand,
    columns: Operand,
    tokens: usize,
    row: usize,
    scale: f32,
}

/// Batch, queries and keys; kv heads, and heads for each; d and dv.
struct Sizes([usize; 3], [usize; 2], [usize; 2]);

fn of(dims: [usize; 4]) -> Layout {
    Layout::contiguous(&dims).expect("a layout")
}

/// (batch, heads, tokens, columns) in memory of (batch, tokens, heads, columns).
fn by_tokens([batch, heads, tokens, columns]: [usize; 4]) -> Layout {
    let strides = [tokens * heads * columns, columns, heads * columns, 1];
    Layout::strided(&[batch, heads, tokens, columns], &strides, 0).expect("a layout")
}

impl Case {
    fn new(target: &Target, rng: &mut Rng, t: Type, sizes: Sizes) -> Case {
        let Sizes([batch, queries, keys], [kv_heads, group], [d, dv]) = sizes;
        let heads = kv_heads * group;
        let dims = [[batch, heads, queries, d], [batch, kv_heads, keys, d], [batch, kv_heads, keys, dv]];
        let [q, k, v] = dims.map(|dims| {
            let count = dims.iter().product::<usize>();
            let mut data = vec![0; count * t.bytes];
            (0..count).for_each(|i| t.put(&mut data, i, t.round_bits(rng.unit() * 4.0 - 2.0)));
            Operand::new(target, rng, t, Shape::contiguous(&dims), data)
        });
        let dst = Operand::destination(target, rng, t, &[batch, queries, heads, dv]);
        let columns = Operand::destination(target, rng, U32, &[batch * queries * heads * dv / 32 * BLOCK / 4]);
        let layouts = [of(dims[0]), of(dims[1]), of(dims[2]), by_tokens([batch, heads, queries, dv])];
        Case { layouts, q, k, v, dst, columns, tokens: batch * queries, row: heads * dv, scale: 0.25 }
    }

    fn call(&self) -> sys::crk_attention {
        let mut call = sys::crk_attention {
            struct_bytes: size_of::<sys::crk_attention>(),
            dtype: self.dst.t.dtype,
            q: self.q.memory.view().into(),
            k: self.k.memory.view().into(),
            v: self.v.memory.view().into(),
            dst: self.dst.memory.view(),
            scale: self.scale,
            left: usize::MAX,
            right: usize::MAX,
            columns: self.columns.memory.view(),
            // SAFETY: numbers, and pointers that may be NULL.
            ..unsafe { std::mem::zeroed() }
        };
        [call.q_layout, call.k_layout, call.v_layout, call.dst_layout] = self.layouts.each_ref().map(from_ref);
        call
    }

    fn run(&self, target: &Target) -> Outcome {
        let device = &target.device;
        // SAFETY: a live handle, live buffers and layouts; so below.
        succeeded(unsafe { sys::crk_attention(device.raw(), &self.call()) })?;
        let (dst, columns) = (self.dst.memory.read()?, self.columns.memory.read()?);
        succeeded(unsafe {
            let (x, to) = (self.dst.memory.view().into(), self.columns.memory.view());
            sys::crk_quantize_columns(device.raw(), self.dst.t.dtype, self.tokens, self.row, x, to)
        })?;
        let expected = self.columns.memory.read()?;
        if let Some(at) = (0..columns.len()).find(|&at| columns[at] != expected[at]) {
            let (got, wanted) = (columns[at], expected[at]);
            return Err(format!("byte {at} of columns is {got}, not {wanted}: {:?}", self.layouts));
        }
        // The result is that of a call without columns.
        succeeded(unsafe { sys::crk_attention(device.raw(), &sys::crk_attention { columns: NONE, ..self.call() }) })?;
        if self.dst.memory.read()? != dst {
            return Err(format!("dst differs without columns: {:?}", self.layouts));
        }
        [&self.q, &self.k, &self.v].into_iter().try_for_each(Operand::unchanged)
    }
}

const NONE: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };

/// Few queries, and many; plain kernels, and general ones.
pub fn columns(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 20, |rng, index| {
        let queries = if index % 4 == 3 { 40 } else { rng.pick(&[1, 1, 1, 2, 3]) };
        let keys = rng.pick(&[0, 1, 5, 64, 200, 777, if queries == 1 { 3000 } else { 100 }]);
        let columns = [rng.pick(&[16, 64, 128]), rng.pick(&[32, 64, 96, 128, 128, 160, 256, 512])];
        let heads = [rng.pick(&[1, 2, 4]), rng.pick(&[1, 4, 8])];
        let mut case = Case::new(target, rng, t, Sizes([1 + index % 2, queries, keys], heads, columns));
        case.scale = if index % 5 == 4 { -0.25 } else { 0.25 };
        case.run(target)
    })
}

/// Blocks that reach into the next head.
pub fn across_heads(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 6, |rng, index| {
        let sizes = Sizes([1, 1 + index % 2, 70], [1 + index % 2, 4], [64, [8, 16, 40][index % 3]]);
        Case::new(target, rng, t, sizes).run(target)
    })
}

/// Calls that cannot have columns.
pub fn refused(target: &Target) -> Outcome {
    let mut rng = Rng(1);
    let case = Case::new(target, &mut rng, F32, Sizes([2, 2, 5], [1, 2], [16, 32]));
    let is_refused = |what: &str, status: Status, word: &str, change: &dyn Fn(&mut sys::crk_attention)| {
        let mut call = case.call();
        change(&mut call);
        // SAFETY: as above; a refused call uses no memory.
        let got = unsafe { sys::crk_attention(target.device.raw(), &call) };
        let sentence = last_error();
        if got == status && sentence.contains(word) {
            Ok(())
        } else {
            Err(format!("{what}: {}: {sentence}", got.name()))
        }
    };
    let invalid = Status::InvalidArgument;
    let dims = |at: usize| case.layouts[at].dims;
    let [batch, heads, queries, dv] = [0, 1, 2, 3].map(|dim| dims(3)[dim]);
    let by_heads = of([batch, heads, queries, dv]);
    is_refused("dst by heads", invalid, "dst_layout.strides", &|c| c.dst_layout = &by_heads)?;
    let small = |c: &mut sys::crk_attention| c.columns.bytes -= 1;
    is_refused("a small view", Status::OutOfBounds, "columns", &small)?;
    is_refused("a view that is not aligned", invalid, "columns", &|c| {
        c.columns.ptr = c.columns.ptr.cast::<u8>().wrapping_add(1).cast();
    })?;
    is_refused("columns over dst", invalid, "columns overlaps dst", &|c| c.columns.ptr = c.dst.ptr)?;
    is_refused("columns over q", invalid, "columns overlaps q", &|c| c.columns.ptr = c.q.ptr.cast_mut())?;
    let (narrow_v, narrow) = (of([dims(2)[0], dims(2)[1], dims(2)[2], 8]), by_tokens([batch, heads, queries, 8]));
    is_refused("part of a block", invalid, "a multiple of 32", &|c| (c.v_layout, c.dst_layout) = (&narrow_v, &narrow))
}
