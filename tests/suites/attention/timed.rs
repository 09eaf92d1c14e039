//! The bench's cases.
use super::exact::{self, Numbers, admits};
use super::plan::Plan;
use crate::cases::attention::{K, Op, Q, V};
use crate::cases::{Case, Source};
use crate::support::cases::Rng;
use crate::support::number::{TYPES, Type};
use crate::support::property::{Operand, Outcome};
use crate::support::{Target, succeeded};
use candle_rocm_sys::sys;

/// The sources' numbers, which lie contiguously.
struct Sources<'a> {
    dims: [&'a [usize]; 3],
    numbers: [Vec<f32>; 3],
}

impl Sources<'_> {
    fn row(&self, source: usize, batch: usize, head: usize, token: usize) -> &[f32] {
        let dims = self.dims[source];
        &self.numbers[source][((batch * dims[1] + head) * dims[2] + token) * dims[3]..][..dims[3]]
    }
}

impl Numbers for Sources<'_> {
    fn q(&self, sequence: usize, head: usize, query: usize) -> &[f32] {
        self.row(Q, sequence, head, query)
    }
    fn k(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32] {
        self.row(K, sequence, kv_head, key)
    }
    fn v(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32] {
        self.row(V, sequence, kv_head, key)
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

/// Compares a case of the bench with the formula. The same check must refuse a spoilt element.
pub fn timed(target: &Target, rng: &mut Rng, case: &Case, op: Op) -> Outcome {
    let t: Type = *TYPES.iter().find(|t| t.dtype == case.dst_dtype).ok_or("a dtype of the table")?;
    let operand = |(i, source): (usize, &Source)| {
        let data = source.values.bytes(source.dtype, source.shape.reach(), 1 + i as u64);
        Operand::new(target, rng, t, source.shape.clone(), data)
    };
    let sources: Vec<Operand> = case.sources.iter().enumerate().map(operand).collect();
    let dst = Operand::new(target, rng, t, case.dst.clone(), vec![0xcd; case.dst_bytes()]);
    let views: Vec<sys::crk_const_view_t> = sources.iter().map(|source| source.memory.view().into()).collect();
    let prepared = case.prepare().map_err(|error| error.to_string())?;
    // SAFETY: a live handle and its own memory.
    succeeded(unsafe { prepared.launch(target.device.raw(), &views, dst.memory.view()) })?;
    let mut got = dst.memory.read()?;
    sources.iter().try_for_each(Operand::unchanged)?;
    let of = |i: usize| sources[i].elements().iter().map(|bits| t.float(*bits) as f32).collect();
    let dims = [0, 1, 2].map(|i| &case.sources[i].shape.dims[..]);
    let numbers = Sources { dims, numbers: [of(0), of(1), of(2)] };
    let (q, k) = (dims[Q], dims[K]);
    let mut plan = Plan::plain(t, (k[1], q[1] / k[1]), (q[3], q[3]), &vec![(q[2], k[2]); q[0]]);
    (plan.causal, plan.scale) = (op.is_causal(), op.scale());
    let check = |at: usize, got: &[u8]| {
        let (sequence, head, query) = (at / q[2] / q[1], at / q[2] % q[1], at % q[2]);
        let row = exact::row(&plan, &numbers, sequence, head, query);
        for i in 0..q[3] {
            let bits = t.get(got, at * q[3] + i);
            if !admits(t.float(bits), row.dst[i], row.slack[i], false) {
                return Err(format!("row {at}, column {i}: {}, expected {:e}", t.show(bits), row.dst[i]));
            }
        }
        Ok(())
    };
    let rows = q[0] * q[1] * q[2];
    (0..rows).try_for_each(|at| check(at, &got))?;
    let at = rng.below(case.numel());
    let turned = t.get(&got, at) ^ 1 << (t.bits() - 2);
    t.put(&mut got, at, turned);
    if check(at / q[3], &got).is_ok() {
        return Err(format!("element {at} was spoilt, and nobody saw it"));
    }
    Ok(())
}
