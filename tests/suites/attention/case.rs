//! A call with its numbers: operands on the device, the launch, and the check of all that it may have written.
use super::exact::{self, Numbers, Row, admits, is_in_window};
use super::plan::{self, Filling, Plan, Way};
use crate::support::cases::{Rng, Shape};
use crate::support::number::{F16, F32, I32, Type, U8, U32};
use crate::support::property::{Operand, Outcome};
use crate::support::{Target, succeeded};
use candle_rocm_sys::{Device, Layout, sys};
use std::ptr::{from_ref, null, null_mut};

/// The byte that fills dst and lse before a call.
const UNTOUCHED: u8 = 0xcd;
/// Tokens and entries of a block table that belong to no sequence.
const SPARE: usize = 2;

/// A tensor on the device with its layout, and its numbers in memory order.
pub struct Tensor {
    pub operand: Operand,
    layout: Layout,
    numbers: Vec<f32>,
}

impl Tensor {
    fn new(target: &Target, rng: &mut Rng, t: Type, shape: Shape, data: Vec<u8>) -> Tensor {
        let numbers = (0..data.len() / t.bytes).map(|i| t.float(t.get(&data, i)) as f32).collect();
        let operand = Operand::new(target, rng, t, shape, data);
        Tensor { layout: operand.layout(), operand, numbers }
    }

    /// Where a row begins, for q, k, v and dst.
    fn at(&self, [batch, head, token]: [usize; 3]) -> usize {
        let shape = &self.operand.shape;
        shape.offset + batch * shape.strides[0] + head * shape.strides[1] + token * shape.strides[2]
    }

    fn row(&self, at: [usize; 3]) -> &[f32] {
        &self.numbers[self.at(at)..][..self.operand.shape.dims[3]]
    }

    fn view(&self) -> sys::crk_const_view_t {
        self.operand.memory.view().into()
    }
}

pub struct Case {
    pub plan: Plan,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dst: Tensor,
    slopes: Option<Tensor>,
    mask: Option<Tensor>,
    /// Of the queries and of the keys.
    starts: Option<[Operand; 2]>,
    block_table: Option<Tensor>,
    prefixes: Option<Tensor>,
    ranges: Vec<Vec<(i64, i64)>>,
    lse: Option<Operand>,
    /// Whether the device may take a subnormal f16 for 0.
    flushes: bool,
    /// The most queries and keys that the call names.
    pub most: (usize, usize),
}

/// Starts of sequences with these lengths, from `first` on.
fn starts_of(lengths: impl Iterator<Item = usize>, first: usize) -> Vec<usize> {
    let mut starts = vec![first];
    for length in lengths {
        starts.push(starts.last().unwrap_or(&0) + length);
    }
    starts
}

fn words(values: &[usize]) -> Vec<u8> {
    values.iter().flat_map(|value| (*value as u32).to_le_bytes()).collect()
}

/// A tensor of random numbers. All memory between its elements is NaN.
fn fill(rng: &mut Rng, t: Type, shape: &Shape, reach: f64, special: bool) -> Vec<u8> {
    let mut data = vec![0; shape.reach() * t.bytes];
    let nan = t.round_bits(f64::NAN);
    (0..shape.reach()).for_each(|i| t.put(&mut data, i, nan));
    let columns = shape.dims[3].max(1);
    for row in shape.indices().chunks(columns) {
        for at in row {
            t.put(&mut data, *at, t.round_bits((rng.unit() * 2.0 - 1.0) * reach));
        }
        if special && rng.one_in(12) {
            let value = rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
            t.put(&mut data, row[rng.below(columns)], t.round_bits(value));
        }
    }
    data
}

/// Fills q, k or v for `Filling::Faint`: the scores are the first columns of the keys, and that of key `top` is 0.
fn make_faint(rng: &mut Rng, t: Type, shape: &Shape, data: &mut [u8], top: usize, of: Faint) {
    let (tokens, columns) = (shape.dims[2], shape.dims[3].max(1));
    for (row, indices) in shape.indices().chunks(columns).enumerate() {
        let is_top = row % tokens == top;
        for (column, &at) in indices.iter().enumerate() {
            let value = match of {
                Faint::Query if column == 0 => 1.0,
                Faint::Key(depth) if column == 0 && !is_top => -depth - rng.unit() * 4.0,
                Faint::Value if !is_top => (rng.unit() * 2.0 - 1.0) * 60_000.0,
                _ => 0.0,
            };
            t.put(data, at, t.round_bits(value));
        }
    }
}

#[derive(Clone, Copy)]
enum Faint {
    Query,
    Key(f64),
    Value,
}

impl Case {
    pub fn new(target: &Target, rng: &mut Rng, plan: Plan) -> Case {
        let (heads, sequences, t) = (plan.heads(), plan.lengths.len(), plan.t);
        let (mut most_queries, mut most_keys) = (plan.most_queries(), plan.most_keys());
        if plan.way != Way::Batch {
            // A call may name more than there are.
            most_queries = (most_queries + rng.pick(&[0, 0, 3, 130])).max(1);
            most_keys += rng.pick(&[0, 0, 7, 70]);
        }
        // Starts may begin after the first token, and tokens may be left at the end; not without a sequence.
        let first = [0, 0, rng.below(SPARE)][rng.below(3)];
        let spare = if sequences == 0 { 0 } else { first + SPARE };
        let tokens = |of: fn(&(usize, usize)) -> usize| plan.lengths.iter().map(of).sum::<usize>() + spare;
        let (q_dims, k_dims) = match plan.way {
            Way::Batch => ([sequences, most_queries], [sequences, most_keys]),
            Way::Starts => ([1, tokens(|l| l.0)], [1, tokens(|l| l.1)]),
            Way::Blocks(block) => ([1, tokens(|l| l.0)], [plan.blocks(block) + SPARE, block]),
        };
        let special = plan.filling == Filling::Special;
        let spread = rng.pick(&[1.0, 2.0, 2.0, 8.0]);
        let (top, depth) = match plan.filling {
            Filling::Faint => (rng.below(most_keys.max(1)), rng.pick(&[13.0, 15.0, 17.0])),
            _ => (0, 0.0),
        };
        let mut source = |dims: [usize; 2], heads, columns, reach, special, faint| {
            let shape = plan::tensor(rng, [dims[0], heads, dims[1], columns], true);
            let mut data = fill(rng, t, &shape, reach, special);
            if plan.filling == Filling::Faint {
                make_faint(rng, t, &shape, &mut data, top, faint);
            }
            Tensor::new(target, rng, t, shape, data)
        };
        let q = source(q_dims, heads, plan.d, spread, special, Faint::Query);
        let k = source(k_dims, plan.kv_heads, plan.d, 1.0, special, Faint::Key(depth));
        let v = source(k_dims, plan.kv_heads, plan.dv, 1.0, special && plan.hides_nothing(), Faint::Value);
        let dst_shape = plan::tensor(rng, [q_dims[0], heads, q_dims[1], plan.dv], false);
        let data = vec![UNTOUCHED; dst_shape.reach() * t.bytes];
        let dst = Tensor::new(target, rng, t, dst_shape, data);
        let lse = plan.lse.then(|| {
            let shape = Shape::contiguous(&[q_dims[0] * heads * q_dims[1]]);
            let data = vec![UNTOUCHED; shape.numel() * 4];
            Operand::new(target, rng, F32, shape, data)
        });
        let slopes = plan.slopes.then(|| {
            let mut shape = Shape::contiguous(&[sequences, heads, 1, 1]);
            shape.strides[0] = if rng.one_in(2) { 0 } else { heads + 1 };
            let data = fill(rng, F32, &shape, 0.5, false);
            shape.dims.truncate(2);
            shape.strides.truncate(2);
            Tensor::new(target, rng, F32, shape, data)
        });
        let mask = plan.mask.map(|t| {
            let shape = plan::mask(rng, [sequences, heads, most_queries, most_keys]);
            let mut data = vec![0xff; shape.reach() * t.bytes];
            let indices = shape.indices();
            for row in indices.chunks(most_keys.max(1)) {
                // Some rows hide every key, some none.
                let hidden = rng.pick(&[0, 0, 2, 2, 2, 1]);
                for &at in row {
                    let hides = hidden == 1 || hidden == 2 && rng.one_in(3);
                    let value = match t {
                        U8 => {
                            if hides {
                                0
                            } else {
                                rng.pick(&[1, 1, 255])
                            }
                        }
                        _ if hides => t.round_bits(f64::NEG_INFINITY),
                        _ => t.round_bits(rng.unit() * 4.0 - 2.0),
                    };
                    t.put(&mut data, at, value);
                }
            }
            Tensor::new(target, rng, t, shape, data)
        });
        let starts = (plan.way != Way::Batch).then(|| {
            [(0, first), (1, first)].map(|(of, first)| {
                let lengths = plan.lengths.iter().map(|l| if of == 0 { l.0 } else { l.1 });
                let starts = words(&starts_of(lengths, first));
                Operand::new(target, rng, U32, Shape::contiguous(&[sequences + 1]), starts)
            })
        });
        let block_table = match plan.way {
            Way::Blocks(block) => Some(Case::block_table(target, rng, &plan, block, most_keys)),
            _ => None,
        };
        let ranges: Vec<Vec<(i64, i64)>> = plan
            .lengths
            .iter()
            .map(|l| {
                let range = |_| (rng.below(l.1 + 2) as i64 - 1, rng.below(l.1 + 2) as i64);
                (0..plan.prefixes).map(range).collect()
            })
            .collect();
        let prefixes = (plan.prefixes > 0).then(|| {
            let shape = Shape::contiguous(&[sequences, plan.prefixes, 2]);
            let data = ranges.iter().flatten().flat_map(|&(begin, end)| [begin, end]);
            let data: Vec<u8> = data.flat_map(|number| (number as i32).to_le_bytes()).collect();
            Tensor::new(target, rng, I32, shape, data)
        });
        let most = (most_queries, most_keys);
        let flushes = t == F16 && target.device.info().is_ok_and(|info| info.architecture() == "gfx90a");
        let mut case =
            Case { plan, q, k, v, dst, slopes, mask, starts, block_table, prefixes, ranges, lse, flushes, most };
        if rng.one_in(2) {
            case.spoil_hidden_keys();
        }
        case
    }

    /// The blocks of each sequence, in any order. Entries that no sequence needs name no block.
    fn block_table(target: &Target, rng: &mut Rng, plan: &Plan, block: usize, most_keys: usize) -> Tensor {
        let sequences = plan.lengths.len();
        let columns = most_keys.div_ceil(block) + rng.below(SPARE + 1);
        let mut blocks: Vec<usize> = (0..plan.blocks(block) + SPARE).collect();
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, rng.below(i + 1));
        }
        let pitch = columns + rng.pick(&[0, 3]);
        let mut table = vec![u32::MAX as usize; sequences * pitch];
        for (sequence, (_, keys)) in plan.lengths.iter().enumerate() {
            for entry in 0..keys.div_ceil(block) {
                table[sequence * pitch + entry] = blocks.pop().unwrap_or(0);
            }
        }
        let shape = Shape { dims: vec![sequences, columns], strides: vec![pitch, 1], offset: 0 };
        Tensor::new(target, rng, U32, shape, words(&table))
    }

    /// Makes the keys that no query sees NaN, and their values large, unless some of them are also those of another key
    /// or head.
    fn spoil_hidden_keys(&mut self) {
        let plan = &self.plan;
        let shared = [&self.k, &self.v].iter().any(|t| t.operand.shape.strides.contains(&0));
        if shared {
            return;
        }
        let mut hidden = Vec::new();
        for (sequence, &(queries, keys)) in plan.lengths.iter().enumerate() {
            for kv_head in 0..plan.kv_heads {
                let heads = kv_head * plan.group..(kv_head + 1) * plan.group;
                for key in 0..keys {
                    let sees = |query: usize| {
                        let place = query as i64 + keys as i64 - queries as i64;
                        is_in_window(plan, &self.ranges[sequence], place, key)
                            && heads.clone().any(|head| self.mask(sequence, head, query, key).is_some())
                    };
                    if !(0..queries).any(sees) {
                        hidden.push(self.key_at(sequence, kv_head, key));
                    }
                }
            }
        }
        for (tensor, number) in [(&mut self.k, f64::NAN), (&mut self.v, 30_000.0)] {
            let (t, columns) = (tensor.operand.t, tensor.operand.shape.dims[3]);
            let bits = t.round_bits(number);
            for at in &hidden {
                let first = tensor.at(*at);
                tensor.numbers[first..first + columns].fill(t.float(bits) as f32);
                (first..first + columns).for_each(|at| t.put(&mut tensor.operand.data, at, bits));
            }
            tensor.operand.memory.write(&tensor.operand.data).expect("a copy");
        }
    }

    /// Batch (or block), head and token (or row of the block) of a key.
    fn key_at(&self, sequence: usize, kv_head: usize, key: usize) -> [usize; 3] {
        match (self.plan.way, &self.block_table, &self.starts) {
            (Way::Blocks(block), Some(table), _) => {
                let entry = sequence * table.operand.shape.strides[0] + key / block;
                [U32.get(&table.operand.data, entry) as usize, kv_head, key % block]
            }
            (_, _, Some(starts)) => [0, kv_head, U32.get(&starts[1].data, sequence) as usize + key],
            _ => [sequence, kv_head, key],
        }
    }

    fn query_at(&self, sequence: usize, head: usize, query: usize) -> [usize; 3] {
        match &self.starts {
            Some(starts) => [0, head, U32.get(&starts[0].data, sequence) as usize + query],
            None => [sequence, head, query],
        }
    }

    /// The call, as C takes it. It borrows this case.
    pub fn raw(&self) -> sys::crk_attention {
        let none = sys::crk_view_t { ptr: null_mut(), bytes: 0 };
        let layout_of = |tensor: &Option<Tensor>| tensor.as_ref().map_or(null(), |tensor| from_ref(&tensor.layout));
        let view_of = |tensor: &Option<Tensor>| tensor.as_ref().map_or(none.into(), Tensor::view);
        let plan = &self.plan;
        let mut raw = sys::crk_attention {
            struct_bytes: size_of::<sys::crk_attention>(),
            dtype: plan.t.dtype,
            q_layout: &self.q.layout,
            q: self.q.view(),
            k_layout: &self.k.layout,
            k: self.k.view(),
            v_layout: &self.v.layout,
            v: self.v.view(),
            dst_layout: &self.dst.layout,
            dst: self.dst.operand.memory.view(),
            scale: plan.scale,
            softcap: plan.softcap,
            causal: plan.causal,
            left: plan.left.unwrap_or(usize::MAX),
            right: plan.right.unwrap_or(usize::MAX),
            slopes_layout: layout_of(&self.slopes),
            slopes: view_of(&self.slopes),
            mask_layout: layout_of(&self.mask),
            mask_dtype: plan.mask.unwrap_or(plan.t).dtype,
            mask: view_of(&self.mask),
            sequences: 0,
            q_starts: none.into(),
            k_starts: none.into(),
            max_queries: 0,
            max_keys: 0,
            block_table_layout: layout_of(&self.block_table),
            block_table: view_of(&self.block_table),
            prefixes_layout: layout_of(&self.prefixes),
            prefixes: view_of(&self.prefixes),
            lse: self.lse.as_ref().map_or(none, |lse| lse.memory.view()),
            columns: none,
        };
        if let Some(starts) = &self.starts {
            raw.sequences = plan.lengths.len();
            (raw.max_queries, raw.max_keys) = self.most;
            raw.q_starts = starts[0].memory.view().into();
            raw.k_starts = starts[1].memory.view().into();
        }
        raw
    }

    pub fn launch(&self, device: &Device) -> Outcome {
        // SAFETY: live arguments; the starts and the block table are right.
        succeeded(unsafe { sys::crk_attention(device.raw(), &self.raw()) })
    }

    /// Gives the sequences other lengths, which are not longer than those of the call. For calls with starts.
    pub fn change_lengths(&mut self, device: &Device, lengths: &[(usize, usize)]) -> Outcome {
        self.plan.lengths = lengths.to_vec();
        let Some(starts) = &mut self.starts else { return Err("the case has no starts".into()) };
        for (of, starts) in starts.iter_mut().enumerate() {
            starts.data = words(&starts_of(lengths.iter().map(|l| if of == 0 { l.0 } else { l.1 }), 0));
            write(device, starts)?;
        }
        self.clear(device)
    }

    /// Fills dst and lse anew, so that a later check sees what a later call wrote.
    pub fn clear(&self, device: &Device) -> Outcome {
        write(device, &self.dst.operand)?;
        self.lse.as_ref().map_or(Ok(()), |lse| write(device, lse))
    }

    /// The bytes of dst and of lse.
    pub fn results(&self) -> Result<Vec<Vec<u8>>, String> {
        let read = |operand: &Operand| operand.memory.read().map_err(|problem| format!("a destination: {problem}"));
        [Some(&self.dst.operand), self.lse.as_ref()].into_iter().flatten().map(read).collect()
    }

    /// Results with the rows of the first two queries exchanged in dst.
    pub fn with_rows_exchanged(&self, results: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut exchanged = results.to_vec();
        let [first, second] = [0, 1].map(|query| self.dst.at(self.query_at(0, 0, query)) * self.plan.t.bytes);
        let bytes = self.plan.dv * self.plan.t.bytes;
        exchanged[0][first..first + bytes].copy_from_slice(&results[0][second..second + bytes]);
        exchanged[0][second..second + bytes].copy_from_slice(&results[0][first..first + bytes]);
        exchanged
    }

    /// Compares dst and lse with the exact result. All bytes beside it, and all sources, must be as before.
    pub fn check(&self) -> Outcome {
        let results = self.results()?;
        self.check_results(&results, 0.0)?;
        let starts = self.starts.iter().flatten();
        let tensors = [&self.slopes, &self.mask, &self.block_table, &self.prefixes].into_iter().flatten();
        let sources = [&self.q, &self.k, &self.v].into_iter().chain(tensors).map(|tensor| &tensor.operand);
        sources.chain(starts).try_for_each(Operand::unchanged)
    }

    /// The same for results in host memory, moved by `off` times their bound.
    pub fn check_results(&self, results: &[Vec<u8>], off: f64) -> Outcome {
        let (plan, t) = (&self.plan, self.plan.t);
        let mut is_written = vec![false; results[0].len() / t.bytes];
        let mut is_lse_written = vec![false; results.get(1).map_or(0, |lse| lse.len() / 4)];
        for (sequence, &(queries, _)) in plan.lengths.iter().enumerate() {
            for (head, query) in (0..plan.heads()).flat_map(|head| (0..queries).map(move |query| (head, query))) {
                let place = self.query_at(sequence, head, query);
                let row = exact::row(plan, self, sequence, head, query);
                self.check_row(&row, place, results, off).map_err(|problem| {
                    let [q, k, v, dst] = [&self.q, &self.k, &self.v, &self.dst].map(|tensor| &tensor.operand.shape);
                    let layouts = format!("q {q:?} k {k:?} v {v:?} dst {dst:?}");
                    format!("{problem}; sequence {sequence}, head {head}, query {query}; {plan:?}; {layouts}")
                })?;
                let at = self.dst.at(place);
                is_written[at..at + plan.dv].fill(true);
                if let Some(is) = is_lse_written.get_mut(self.lse_at(place)) {
                    *is = true;
                }
            }
        }
        let all = [(&is_written, t.bytes), (&is_lse_written, 4)];
        for (result, (is_written, size)) in results.iter().zip(all) {
            let mut elements = result.chunks(size).zip(is_written);
            if elements.any(|(bytes, is)| !is && bytes.iter().any(|byte| *byte != UNTOUCHED)) {
                return Err(format!("memory beside the result was written; {plan:?} dst {:?}", self.dst.operand.shape));
            }
        }
        Ok(())
    }

    fn lse_at(&self, [batch, head, token]: [usize; 3]) -> usize {
        let dims = &self.dst.operand.shape.dims;
        (batch * dims[1] + head) * dims[2] + token
    }

    fn check_row(&self, row: &Row, place: [usize; 3], results: &[Vec<u8>], off: f64) -> Outcome {
        let t = self.plan.t;
        for (i, (exact, slack)) in row.dst.iter().zip(&row.slack).enumerate() {
            let bits = t.get(&results[0], self.dst.at(place) + i);
            if !admits(t.float(bits) + off * slack, *exact, *slack, row.is_undefined) {
                return Err(format!("column {i}: {}, expected {exact:e} within {slack:e}", t.show(bits)));
            }
        }
        let Some(lse) = results.get(1) else { return Ok(()) };
        let (got, exact, slack) = (F32.float(F32.get(lse, self.lse_at(place))), row.lse, row.lse_slack);
        if got == exact && off == 0.0 || admits(got + off * slack, exact, slack, row.is_undefined) {
            return Ok(());
        }
        Err(format!("lse {got:e}, expected {exact:e} within {slack:e}"))
    }

    pub fn run(&self, device: &Device) -> Outcome {
        self.launch(device)?;
        self.check()
    }
}

fn write(device: &Device, operand: &Operand) -> Outcome {
    let (view, data) = (operand.memory.view(), &operand.data);
    // SAFETY: live arguments; the view is as long as the data.
    succeeded(unsafe { sys::crk_copy_to_device(device.raw(), view, data.as_ptr().cast(), data.len()) })
}

impl Numbers for Case {
    fn q(&self, sequence: usize, head: usize, query: usize) -> &[f32] {
        self.q.row(self.query_at(sequence, head, query))
    }

    fn k(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32] {
        self.k.row(self.key_at(sequence, kv_head, key))
    }

    fn v(&self, sequence: usize, kv_head: usize, key: usize) -> &[f32] {
        self.v.row(self.key_at(sequence, kv_head, key))
    }

    fn mask(&self, sequence: usize, head: usize, query: usize, key: usize) -> Option<f64> {
        let Some(mask) = &self.mask else { return Some(0.0) };
        let (shape, t) = (&mask.operand.shape, mask.operand.t);
        let place = [sequence, head, query, key];
        let at = shape.offset + place.iter().zip(&shape.strides).map(|(i, stride)| i * stride).sum::<usize>();
        let number = f64::from(mask.numbers[at]);
        if t == U8 { (number != 0.0).then_some(0.0) } else { Some(number) }
    }

    fn has_equal_values(&self) -> bool {
        self.v.operand.shape.strides[2] == 0
    }

    fn flushes(&self) -> bool {
        self.flushes
    }

    fn slope(&self, sequence: usize, head: usize) -> f64 {
        let Some(slopes) = &self.slopes else { return 0.0 };
        let strides = &slopes.operand.shape.strides;
        slopes.numbers[sequence * strides[0] + head * strides[1]].into()
    }

    fn prefixes(&self, sequence: usize) -> &[(i64, i64)] {
        &self.ranges[sequence]
    }
}
