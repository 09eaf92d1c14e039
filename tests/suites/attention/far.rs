//! Calls with more elements, or more blocks, than 32 bits count.
use super::exact::{self, Numbers, admits};
use super::plan::Plan;
use crate::support::cases::{Rng, Shape};
use crate::support::number::{F16, Type};
use crate::support::property::{Outcome, layout};
use crate::support::{Target, succeeded};
use candle_rocm_sys::{Buffer, sys};
use std::ptr::null_mut;

/// Memory that is mostly never touched.
trait Memory: Sized {
    fn new(target: &Target, bytes: usize) -> Result<Self, String>;
    fn view(&self) -> sys::crk_view_t;
    fn write(&self, at: usize, bytes: &[u8]) -> Outcome;
    fn read(&self, at: usize, bytes: &mut [u8]) -> Outcome;
}

#[cfg(unix)]
impl Memory for crate::support::sparse::Sparse {
    fn new(_: &Target, bytes: usize) -> Result<Self, String> {
        crate::support::sparse::Sparse::new(bytes)
    }
    fn view(&self) -> sys::crk_view_t {
        self.view()
    }
    fn write(&self, at: usize, bytes: &[u8]) -> Outcome {
        // SAFETY: within the mapping; the device is the CPU, so its memory is ours.
        unsafe { self.at.add(at).copy_from(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
    fn read(&self, at: usize, bytes: &mut [u8]) -> Outcome {
        // SAFETY: as above.
        unsafe { bytes.as_mut_ptr().copy_from(self.at.add(at), bytes.len()) };
        Ok(())
    }
}

impl Memory for Buffer {
    fn new(target: &Target, bytes: usize) -> Result<Self, String> {
        target.device.alloc(bytes).map_err(|error| error.to_string())
    }
    fn view(&self) -> sys::crk_view_t {
        self.raw_view()
    }
    fn write(&self, at: usize, bytes: &[u8]) -> Outcome {
        let part = self.range(at..at + bytes.len()).and_then(|part| part.write(bytes));
        part.map_err(|error| error.to_string())
    }
    fn read(&self, at: usize, bytes: &mut [u8]) -> Outcome {
        let part = self.range(at..at + bytes.len()).and_then(|part| part.read(bytes));
        part.map_err(|error| error.to_string())
    }
}

const T: Type = F16;

/// A tensor with numbers in its rows only.
struct Tensor<M> {
    shape: Shape,
    memory: M,
    /// In the layout's order.
    numbers: Vec<f32>,
}

impl<M: Memory> Tensor<M> {
    fn new(target: &Target, rng: &mut Rng, shape: Shape) -> Result<Tensor<M>, String> {
        let memory = M::new(target, shape.reach() * T.bytes)?;
        let columns = shape.dims[3];
        let mut numbers = Vec::new();
        for row in shape.indices().chunks(columns) {
            let mut bytes = vec![0; columns * T.bytes];
            for i in 0..columns {
                let bits = T.round_bits(rng.unit() * 2.0 - 1.0);
                T.put(&mut bytes, i, bits);
                numbers.push(T.float(bits) as f32);
            }
            memory.write(row[0] * T.bytes, &bytes)?;
        }
        Ok(Tensor { shape, memory, numbers })
    }

    fn row(&self, batch: usize, head: usize, token: usize) -> &[f32] {
        let dims = &self.shape.dims;
        &self.numbers[((batch * dims[1] + head) * dims[2] + token) * dims[3]..][..dims[3]]
    }
}

struct Far<M> {
    q: Tensor<M>,
    k: Tensor<M>,
    v: Tensor<M>,
}

impl<M: Memory> Numbers for Far<M> {
    fn q(&self, sequence: usize, head: usize, query: usize) -> &[f32] {
        self.q.row(sequence, head, query)
    }
    fn k(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32] {
        self.k.row(sequence, kv_head, key)
    }
    fn v(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32] {
        self.v.row(sequence, kv_head, key)
    }
    fn mask(&self, _: usize, _: usize, _: usize, _: usize) -> Option<f64> {
        Some(0.0)
    }
    fn slope(&self, _: usize, _: usize) -> f64 {
        0.0
    }
    fn prefixes(&self, _: usize) -> &[(i64, i64)] {
        &[]
    }
}

/// Attention with dim `far` of each tensor's memory so many elements apart; `far` is that of q, k, v and dst.
fn far_call<M: Memory>(target: &Target, lengths: (usize, usize), far: [Option<usize>; 4], apart: usize) -> Outcome {
    let mut rng = Rng(far.iter().flatten().sum::<usize>() as u64);
    let plan = Plan::plain(T, (2, 2), (24, 16), &[lengths; 2]);
    let shape = |dims: [usize; 4], far: Option<usize>| {
        let mut shape = Shape::contiguous(&dims);
        if let Some(far) = far {
            shape.strides[far] = apart;
        }
        shape
    };
    let (queries, keys) = lengths;
    let numbers = Far::<M> {
        q: Tensor::new(target, &mut rng, shape([2, 4, queries, 24], far[0]))?,
        k: Tensor::new(target, &mut rng, shape([2, 2, keys, 24], far[1]))?,
        v: Tensor::new(target, &mut rng, shape([2, 2, keys, 16], far[2]))?,
    };
    let dst = Tensor::<M>::new(target, &mut rng, shape([2, 4, queries, 16], far[3]))?;
    let layouts = [&numbers.q, &numbers.k, &numbers.v, &dst].map(|tensor| layout(&tensor.shape));
    let call = sys::crk_attention {
        struct_bytes: size_of::<sys::crk_attention>(),
        dtype: T.dtype,
        q_layout: &layouts[0],
        q: numbers.q.memory.view().into(),
        k_layout: &layouts[1],
        k: numbers.k.memory.view().into(),
        v_layout: &layouts[2],
        v: numbers.v.memory.view().into(),
        dst_layout: &layouts[3],
        dst: dst.memory.view(),
        scale: plan.scale,
        left: usize::MAX,
        right: usize::MAX,
        ..sys::crk_attention::default()
    };
    // SAFETY: live arguments.
    succeeded(unsafe { sys::crk_attention(target.device.raw(), &call) })?;
    for (at, first) in dst.shape.indices().chunks(16).enumerate() {
        let (sequence, head, query) = (at / queries / 4, at / queries % 4, at % queries);
        let mut bytes = vec![0; 16 * T.bytes];
        dst.memory.read(first[0] * T.bytes, &mut bytes)?;
        let row = exact::row(&plan, &numbers, sequence, head, query);
        for i in 0..16 {
            let got = T.float(T.get(&bytes, i));
            if !admits(got, row.dst[i], row.slack[i], false) {
                let (expected, slack) = (row.dst[i], row.slack[i]);
                return Err(format!(
                    "far {far:?}, row {at}, column {i}: {got:e}, expected {expected:e} within {slack:e}"
                ));
            }
        }
    }
    Ok(())
}

/// Sequences, heads and rows of each tensor that are more than 2^32 elements apart.
#[cfg(unix)]
pub fn far_apart(target: &Target) -> Outcome {
    use crate::support::sparse::Sparse;
    for far in 0..3 {
        for tensor in 0..4 {
            let mut fars = [None; 4];
            fars[tensor] = Some(far);
            far_call::<Sparse>(target, (3, 40), fars, (1 << 32) + 8)?;
        }
    }
    far_call::<Sparse>(target, (1, 70), [None, Some(2), Some(1), None], (1 << 32) + 8)
}

/// Keys that are more than 2^31 elements after the first one, and sequences for more blocks than a grid has.
pub fn big(target: &Target) -> Outcome {
    far_call::<Buffer>(target, (2, 3), [None, Some(2), None, None], (1 << 30) + 8)?;
    far_call::<Buffer>(target, (1, 3), [None, None, Some(0), None], (1 << 31) + 8)?;
    many_sequences(target)
}

/// Only the first and the last sequence have tokens. Values are 1 and 2, and so are the results.
fn many_sequences(target: &Target) -> Outcome {
    let text = |error: candle_rocm_sys::Error| error.to_string();
    let (sequences, one) = ((1usize << 24) + 9, 0x3c00u16);
    let device = &target.device;
    let mut starts = vec![1u32; sequences + 1];
    (starts[0], starts[sequences]) = (0, 2);
    let starts = device.upload(&starts).map_err(text)?;
    let (q, dst) = (device.upload(&[one; 16]).map_err(text)?, device.upload(&[0u16; 16]).map_err(text)?);
    let v: Vec<u16> = [[one; 8], [0x4000; 8]].concat();
    let v = device.upload(&v).map_err(text)?;
    let rows = layout(&Shape::contiguous(&[1, 1, 2, 8]));
    let call = sys::crk_attention {
        struct_bytes: size_of::<sys::crk_attention>(),
        dtype: T.dtype,
        q_layout: &rows,
        q: q.raw_view().into(),
        k_layout: &rows,
        k: q.raw_view().into(),
        v_layout: &rows,
        v: v.raw_view().into(),
        dst_layout: &rows,
        dst: dst.raw_view(),
        scale: 1.0,
        left: usize::MAX,
        right: usize::MAX,
        sequences,
        q_starts: starts.raw_view().into(),
        k_starts: starts.raw_view().into(),
        max_queries: 1,
        max_keys: 1,
        lse: sys::crk_view_t { ptr: null_mut(), bytes: 0 },
        ..sys::crk_attention::default()
    };
    // SAFETY: live arguments.
    succeeded(unsafe { sys::crk_attention(device.raw(), &call) })?;
    let got = dst.download::<u16>().map_err(text)?;
    let expected: Vec<u16> = [[one; 8], [0x4000; 8]].concat();
    if got == expected { Ok(()) } else { Err(format!("the first and the last sequence: {got:x?}")) }
}
