//! Mixtures of experts: the launchers against their definitions in plain Rust. The cases have lists in sorted and other
//! orders, experts with no token or with all, ids out of range, and sizes around every tile's edge. Guard bytes
//! surround every buffer.
//!
//! `cargo test --test suites -- FILTER` runs some of the tests. A failure names its case, and `CANDLE_ROCM_CASE=N` runs
//! only that one.

mod orders;

use crate::support;
use crate::support::cases::Rng;
use crate::support::number::{BF16, F16, F32, Type};
use crate::support::product::formats;
use crate::support::property::{Outcome, each_case};
use crate::support::quantized::{Activations, Dot, FORMATS, Format, dot, half, quant, with_sums_of_codes};
use crate::support::{Body, Guarded, Target, add_trial, last_error, open, succeeded};
use candle_rocm_sys::{Status, sys};
use libtest_mimic::Trial;
use std::ptr::null_mut;

const NONE: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };
const UNTOUCHED: u8 = 0xcd;

/// The form of the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Weights {
    Blocks(Format),
    Numbers,
}

/// The kind of product.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Gguf,
    Prefill,
    Gemm,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Gguf => "crk_moe_gguf",
            Way::Prefill => "crk_moe_gguf_prefill",
            Way::Gemm => "crk_moe_gemm",
        }
    }
}

/// The arguments of one of the three products.
#[derive(Clone, Copy)]
struct Call {
    way: Way,
    quant: sys::crk_quant_t,
    dtype: sys::crk_dtype_t,
    experts: usize,
    rows: usize,
    k: usize,
    tokens: usize,
    topk: usize,
    weights: sys::crk_view_t,
    x: sys::crk_view_t,
    sorted: sys::crk_view_t,
    ids: sys::crk_view_t,
    scales: sys::crk_view_t,
    dst: sys::crk_view_t,
    counts: sys::crk_view_t,
    offsets: sys::crk_view_t,
}

impl Call {
    fn make(&self, device: sys::crk_device_t) -> Status {
        let c = *self;
        // SAFETY: the views are of live memory, or of none, which the functions refuse.
        unsafe {
            let gguf = match c.way {
                Way::Gguf => sys::crk_moe_gguf,
                Way::Prefill => sys::crk_moe_gguf_prefill,
                Way::Gemm => {
                    return sys::crk_moe_gemm(
                        device,
                        c.dtype,
                        c.experts,
                        c.rows,
                        c.k,
                        c.tokens,
                        c.topk,
                        c.weights.into(),
                        c.x.into(),
                        c.sorted.into(),
                        c.ids.into(),
                        c.scales.into(),
                        c.dst,
                        c.counts,
                        c.offsets,
                    );
                }
            };
            gguf(
                device,
                c.quant,
                c.dtype,
                c.experts,
                c.rows,
                c.k,
                c.tokens,
                c.topk,
                c.weights.into(),
                c.x.into(),
                c.sorted.into(),
                c.ids.into(),
                c.scales.into(),
                c.dst,
            )
        }
    }
}

fn words(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn integers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Blocks of random bytes with ordinary scales.
fn blocks(rng: &mut Rng, format: Format, count: usize) -> Vec<u8> {
    let halves: &[usize] = match format.name {
        "q4_1" | "q5_1" | "q4_K" | "q5_K" => &[0, 2],
        "q2_K" => &[80, 82],
        "q3_K" => &[108],
        "q6_K" => &[208],
        _ => &[0],
    };
    let mut bytes: Vec<u8> = (0..count * format.bytes).map(|_| rng.next() as u8).collect();
    for block in bytes.chunks_exact_mut(format.bytes) {
        for &at in halves {
            let scale = if rng.one_in(9) { 6e-8 } else { (rng.unit() - 0.5) * 0.05 };
            F16.put(&mut block[at..], 0, F16.round_bits(scale));
        }
    }
    bytes
}

/// Numbers of a type. For f16, some are subnormal.
fn numbers(rng: &mut Rng, t: Type, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count * t.bytes];
    let tiny = rng.one_in(3);
    for i in 0..count {
        let x = rng.unit() * 2.0 - 0.9;
        t.put(&mut bytes, i, t.round_bits(if tiny && rng.one_in(2) { x * 5e-5 } else { x }));
    }
    bytes
}

fn f16(x: f64) -> f64 {
    F16.float(F16.round_bits(x))
}

/// Element `i` of a block in the rounding that the header states for a prefill.
fn prefill_number(format: Format, block: &[u8], i: usize, t: Type) -> f64 {
    let element = format.element(block, i);
    let (scale, code, minimum) = (f64::from(element.scale), f64::from(element.code), f64::from(element.minimum));
    let value = match format.name {
        "q4_K" | "q5_K" => f16(f16(scale) * code - f16(minimum)),
        "q3_K" => f16(f16(scale) * code),
        "q2_K" => f16(f64::from(half(block, 80)) * f64::from(block[i / 16] & 15) * code - f16(minimum)),
        "q6_K" => f16(f64::from(half(block, 208)) * f16(f64::from(block[192 + i / 16] as i8) * code)),
        _ => f64::from(element.value()),
    };
    t.float(t.round_bits(value))
}

const LEAST_NORMAL_F16: f64 = 1.0 / (1 << 14) as f64;

/// Whether the device may take a subnormal f16 for 0: the matrix cores of gfx90a do.
fn flushes(target: &Target, t: Type) -> bool {
    let info = target.device.info().expect("a live device");
    t == F16 && info.architecture() == "gfx90a"
}

/// A mixture on the device, and its operands on the host.
struct Problem {
    call: Call,
    weights_are: Weights,
    t: Type,
    /// The dtype of dst.
    to: Type,
    weights: Vec<u8>,
    x: Vec<u8>,
    sorted: Vec<i32>,
    ids: Vec<i32>,
    scales: Vec<u8>,
    /// The weights as numbers, if they are multiplied as such.
    values: Vec<f64>,
    /// Whether the device may take a subnormal f16 for 0, in products of numbers.
    flushes: bool,
    /// The activations as the device quantized them.
    q8_1: Vec<u8>,
    memory: [Guarded; 5],
    dst: Guarded,
    counts: [Guarded; 2],
}

#[derive(Clone, Copy)]
struct Sizes {
    experts: usize,
    rows: usize,
    k: usize,
    tokens: usize,
    topk: usize,
    scaled: bool,
}

impl Problem {
    fn new(
        target: &Target,
        rng: &mut Rng,
        way: Way,
        weights_are: Weights,
        t: Type,
        s: Sizes,
        ids: Vec<i32>,
    ) -> Problem {
        let Sizes { experts, rows, k, tokens, topk, scaled } = s;
        let weights = match weights_are {
            Weights::Blocks(format) => blocks(rng, format, experts * rows * k / format.elements),
            Weights::Numbers => numbers(rng, t, experts * rows * k),
        };
        let values = match weights_are {
            _ if way == Way::Gguf => Vec::new(),
            Weights::Blocks(format) => weights
                .chunks_exact(format.bytes)
                .flat_map(|block| (0..format.elements).map(move |i| prefill_number(format, block, i, t)))
                .collect(),
            Weights::Numbers => (0..experts * rows * k).map(|i| t.float(t.get(&weights, i))).collect(),
        };
        let inputs = if scaled { tokens } else { tokens / topk };
        let x = numbers(rng, t, inputs * k);
        // The tokens in random order.
        let mut sorted: Vec<i32> = (0..tokens as i32).collect();
        for i in (1..tokens).rev() {
            sorted.swap(i, rng.below(i + 1));
        }
        let mut scales = vec![0; tokens * 4];
        for i in 0..tokens {
            F32.put(&mut scales, i, F32.round_bits(rng.unit() * 2.0 - 0.5));
        }
        let place = |rng: &mut Rng, bytes: &[u8], unit: usize| {
            let off = if rng.one_in(3) { unit * rng.below(16 / unit) } else { 0 };
            Guarded::new(&target.device, bytes, off).expect("device memory")
        };
        let to = if way == Way::Gemm { t } else { F32 };
        let memory = [
            place(rng, &weights, 2),
            place(rng, &x, t.bytes),
            place(rng, &words(&sorted), 4),
            place(rng, &words(&ids), 4),
            place(rng, &scales, 4),
        ];
        let dst = place(rng, &vec![UNTOUCHED; tokens * rows * to.bytes], to.bytes);
        let counts = [experts, experts + 1].map(|n| place(rng, &vec![UNTOUCHED; n * 4], 4));
        let padded = k.next_multiple_of(512);
        let q8 = Guarded::new(&target.device, &vec![0; inputs * padded / 32 * 36], 0).expect("device memory");
        // SAFETY: live arguments.
        let status = unsafe {
            sys::crk_quantize_q8_1(target.device.raw(), t.dtype, inputs, k, memory[1].view().into(), q8.view())
        };
        succeeded(status).expect("quantized activations");
        let call = Call {
            way,
            quant: if let Weights::Blocks(format) = weights_are { quant(format) } else { sys::crk_quant_t(0) },
            dtype: t.dtype,
            experts,
            rows,
            k,
            tokens,
            topk,
            weights: memory[0].view(),
            x: memory[1].view(),
            sorted: memory[2].view(),
            ids: memory[3].view(),
            scales: if scaled { memory[4].view() } else { NONE },
            dst: dst.view(),
            counts: counts[0].view(),
            offsets: counts[1].view(),
        };
        let q8_1 = with_sums_of_codes(q8.read().expect("quantized activations"));
        let flushes = flushes(target, t);
        Problem {
            call,
            weights_are,
            t,
            to,
            weights,
            x,
            sorted,
            ids,
            scales,
            values,
            flushes,
            q8_1,
            memory,
            dst,
            counts,
        }
    }

    /// Changes the token id at a position of the list.
    fn set_token(&mut self, target: &Target, at: usize, token: i32) {
        self.sorted[at] = token;
        self.memory[2] = Guarded::new(&target.device, &words(&self.sorted), 4).expect("device memory");
        self.call.sorted = self.memory[2].view();
    }

    /// Row `row` of the experts' weights times the x of a token, scaled, and the largest error of subnormal numbers.
    fn expected(&self, row: usize, token: usize) -> (Dot, f64) {
        let k = self.call.k;
        let scaled = !self.call.scales.ptr.is_null();
        let input = if scaled { token } else { token / self.call.topk };
        let mut flushed = 0.0;
        let mut result = match (self.weights_are, self.call.way) {
            (Weights::Blocks(format), Way::Gguf) => {
                let (bytes, column) = (format.row_bytes(k), k.next_multiple_of(512) / 32 * 36);
                let x = &self.q8_1[input * column..][..column];
                dot(format, &self.weights[row * bytes..][..bytes], Activations::Q8(x))
            }
            _ => {
                let mut sum = Dot::default();
                for (i, weight) in self.values[row * k..][..k].iter().enumerate() {
                    let x = self.t.float(self.t.get(&self.x, input * k + i));
                    sum.add(weight * x);
                    if self.flushes && weight.abs().min(x.abs()) < LEAST_NORMAL_F16 {
                        flushed += (weight * x).abs();
                    }
                }
                sum
            }
        };
        if scaled {
            let scale = F32.float(F32.get(&self.scales, token));
            result.value *= scale;
            result.magnitude *= scale.abs();
            flushed *= scale.abs();
        }
        (result, flushed)
    }

    /// Compares dst, and checks that nothing else has changed.
    fn check(&self) -> Outcome {
        let Call { rows, tokens, experts, .. } = self.call;
        let got = self.dst.read().map_err(|problem| format!("dst: {problem}"))?;
        let mut written = vec![false; tokens];
        for (m, (&token, &expert)) in self.sorted.iter().zip(&self.ids).enumerate() {
            if !(0..tokens as i64).contains(&token.into()) || !(0..experts as i64).contains(&expert.into()) {
                continue;
            }
            let (token, expert) = (token as usize, expert as usize);
            written[token] = true;
            for row in 0..rows {
                let got = self.to.float(self.to.get(&got, token * rows + row));
                let (expected, flushed) = self.expected(expert * rows + row, token);
                let spacing = match self.to.bytes {
                    4 => expected.value.abs() * 1.2e-7,
                    _ if self.to == F16 => (expected.value.abs() * 2f64.powi(-10)).max(2f64.powi(-24)),
                    _ => expected.value.abs() * 2f64.powi(-7),
                };
                let bound = expected.magnitude * 1e-5 + spacing + flushed + 1e-37;
                // A NaN is outside every bound.
                let within = (got - expected.value).abs() <= bound;
                if !within {
                    let what = format!("position {m}, token {token} of expert {expert}, row {row}");
                    return Err(format!("{what}: got {got}, expected {} within {bound:e}", expected.value));
                }
            }
        }
        let bytes = rows * self.to.bytes;
        if let Some(token) =
            (0..tokens).find(|&token| !written[token] && got[token * bytes..][..bytes].iter().any(|b| *b != UNTOUCHED))
        {
            return Err(format!("token {token} was written, which is in no list"));
        }
        let before = [&self.weights, &self.x, &words(&self.sorted), &words(&self.ids), &self.scales];
        for (memory, before) in self.memory.iter().zip(before) {
            if memory.read()? != *before {
                return Err("a source changed".into());
            }
        }
        Ok(())
    }

    /// Checks the counts and their running sums.
    fn check_counts(&self) -> Outcome {
        let of = |e: usize| self.ids.iter().filter(|id| **id as usize == e && **id >= 0).count() as i32;
        let counts: Vec<i32> = (0..self.call.experts).map(of).collect();
        let mut offsets = vec![0];
        offsets.extend(counts.iter().scan(0, |sum, n| {
            *sum += n;
            Some(*sum)
        }));
        let got = [integers(&self.counts[0].read()?), integers(&self.counts[1].read()?)];
        if got == [counts.clone(), offsets.clone()] {
            Ok(())
        } else {
            Err(format!("counts {got:?}, expected {counts:?}, {offsets:?}"))
        }
    }
}

/// Checks that one synchronisation reports an id out of range with the argument's name, and the next reports nothing.
fn check_report(target: &Target, name: &str, bad: &[i64]) -> Outcome {
    // SAFETY: a live handle, here and below.
    let status = unsafe { sys::crk_device_synchronize(target.device.raw()) };
    if bad.is_empty() {
        return succeeded(status);
    }
    let told = bad.iter().any(|id| last_error().contains(&format!("{name} has {id},")));
    if status != Status::OutOfRange || !told {
        return Err(format!("{name}, {bad:?}: {}, {}", status.name(), last_error()));
    }
    succeeded(unsafe { sys::crk_device_synchronize(target.device.raw()) }).map_err(|again| format!("again: {again}"))
}

/// The experts of `tokens` tokens: sorted, all the same, in random order, or with ids out of range.
fn expert_ids(rng: &mut Rng, kind: usize, experts: usize, tokens: usize) -> Vec<i32> {
    let one = rng.below(experts) as i32;
    let mut ids: Vec<i32> = (0..tokens).map(|_| rng.below(experts) as i32).collect();
    match kind {
        0 | 3 => ids.sort(),
        1 => ids = vec![one; tokens],
        _ => {}
    }
    if kind == 3 {
        // Ids out of range in the middle. The other results must still be right.
        for _ in 0..1 + tokens / 9 {
            ids[rng.below(tokens)] = rng.pick(&[-1, experts as i32, i32::MAX, i32::MIN]);
        }
    }
    ids
}

fn own_handle(target: &Target) -> Result<Target, String> {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    Ok(Target { name: target.name.clone(), device })
}

fn product(target: &Target, name: &str, way: Way, weights_are: Weights, types: &[Type]) -> Outcome {
    const TOKENS: &[usize] = &[1, 2, 7, 8, 9, 15, 16, 17, 33, 40, 63, 64, 65, 130];
    // A handle of its own, because it reports ids.
    let target = &own_handle(target)?;
    each_case(target, "moe", name, 16, |rng, index| {
        let (kind, t) = (index % 4, types[index / 4 % types.len()]);
        let experts = rng.pick(&[1, 2, 5, 9]);
        // The last cases are larger.
        let mut tokens = if index < 14 { rng.pick(TOKENS) } else { 150 * (index - 13) };
        let rows = if tokens > 40 && way == Way::Gguf {
            rng.pick(&[1, 3, 6])
        } else if tokens > 40 {
            rng.pick(&[1, 3, 65])
        } else {
            rng.pick(&[1, 2, 3, 16, 63, 64, 65, 130])
        };
        let k = match weights_are {
            Weights::Numbers => 8 * rng.pick(&[1, 2, 7, 8, 9, 16, 17, 33]),
            Weights::Blocks(format) if format.elements == 32 => 32 * rng.pick(&[1, 2, 3, 4, 5, 33, 65, 129]),
            Weights::Blocks(_) => 256 * rng.pick(&[1, 2, 3, 9, 17]),
        };
        let (scaled, topk) = (rng.one_in(2), rng.pick(&[1, 2, 3, 8]));
        if !scaled {
            tokens = tokens.next_multiple_of(topk);
        }
        let ids = expert_ids(rng, kind, experts, tokens);
        let s = Sizes { experts, rows, k, tokens, topk, scaled };
        let mut problem = Problem::new(target, rng, way, weights_are, t, s, ids);
        let mut name = format!("{}: expert_ids", way.name());
        let experts = experts as i64;
        let mut bad: Vec<i64> =
            problem.ids.iter().map(|id| i64::from(*id)).filter(|id| !(0..experts).contains(id)).collect();
        if kind == 2 && tokens > 2 {
            let token = rng.pick(&[-1, tokens as i32, i32::MAX]);
            problem.set_token(target, rng.below(tokens), token);
            bad = vec![token.into()];
            name = format!("{}: sorted_token_ids", way.name());
        }
        if way == Way::Gemm && index == 5 {
            (problem.call.counts, problem.call.offsets) = (NONE, NONE);
        }
        succeeded(problem.call.make(target.device.raw()))?;
        check_report(target, &name, &bad)
            .and_then(|()| problem.check())
            .and_then(|()| if way == Way::Gemm && index != 5 { problem.check_counts() } else { Ok(()) })
            .map_err(|error| {
                format!(
                    "{experts} experts of {rows} x {k}, {tokens} tokens, topk {topk}, {scaled}, {}: {error}",
                    t.name
                )
            })
    })
}

/// The product returns the weights themselves, bit by bit: token i of an expert is 1 at element i and 0 elsewhere.
fn identity(target: &Target, name: &str, format: Format) -> Outcome {
    each_case(target, "moe", name, 4, |rng, index| {
        let (t, k, rows) = ([F16, BF16][index % 2], format.elements, [3, 70][index / 2]);
        let s = Sizes { experts: 1, rows, k, tokens: k, topk: 1, scaled: false };
        let mut problem = Problem::new(target, rng, Way::Prefill, Weights::Blocks(format), t, s, vec![0; k]);
        let mut x = vec![0; k * k * t.bytes];
        for i in 0..k {
            t.put(&mut x, i * k + i, t.round_bits(1.0));
        }
        problem.memory[1] = Guarded::new(&target.device, &x, 0).expect("device memory");
        problem.call.x = problem.memory[1].view();
        succeeded(problem.call.make(target.device.raw()))?;
        let got = problem.dst.read().map_err(|problem| format!("dst: {problem}"))?;
        for (i, row) in (0..k).flat_map(|i| (0..rows).map(move |row| (i, row))) {
            let (got, expected) = (F32.float(F32.get(&got, i * rows + row)), problem.values[row * k + i]);
            let is_flushed = problem.flushes && got == 0.0 && expected.abs() < LEAST_NORMAL_F16;
            if got != expected && !is_flushed {
                return Err(format!("{}, row {row}, element {i}: got {got:e}, expected {expected:e}", t.name));
            }
        }
        Ok(())
    })
}

/// Checks the order of tokens against its definition.
fn align(target: &Target, name: &str) -> Outcome {
    let target = &own_handle(target)?;
    each_case(target, "moe", name, 24, |rng, index| {
        let experts = rng.pick(&[1, 2, 8, 60, 255, 2049, 5000]);
        let experts = if index == 0 { 0 } else { experts };
        let count = if index == 1 { 0 } else { rng.pick(&[1, 2, 31, 64, 255, 1023, 1024, 1025, 3001]) };
        let block = rng.pick(&[1, 2, 3, 16, 64, 100]);
        let (kind, none) = (index % 4, experts as i32);
        let ids: Vec<i32> = (0..count)
            .map(|_| match kind {
                0 => none - 1,
                1 if rng.one_in(5) => rng.pick(&[-1, none, i32::MAX, i32::MIN]),
                _ => rng.below(experts.max(1)) as i32 % experts.clamp(1, 7) as i32,
            })
            .collect();
        let valid = |id: i32| id >= 0 && id < none;
        let bad: Vec<i64> = ids.iter().filter(|id| !valid(**id)).map(|id| i64::from(*id)).collect();
        let (mut sorted, mut expert_ids, mut cumsum) = (vec![], vec![], vec![]);
        for e in 0..experts as i32 {
            sorted.extend((0..count as i32).filter(|m| ids[*m as usize] == e));
            cumsum.push(sorted.len() as i32);
            sorted.resize(sorted.len().next_multiple_of(block), count as i32);
            expert_ids.resize(sorted.len() / block, e);
        }
        let total = sorted.len();
        cumsum.push(total as i32);
        // Sometimes there is too little room. Then nothing beyond it is written.
        let short = kind == 2 && total > 1;
        let padded = if short { total - 1 - rng.below(total / 2) } else { total + rng.below(3 * block) };
        sorted.resize(padded, count as i32);
        expert_ids.resize(padded.div_ceil(block), -1);
        let space = |n: usize| Guarded::new(&target.device, &vec![UNTOUCHED; n * 4], 4).expect("device memory");
        let topk_ids = Guarded::new(&target.device, &words(&ids), 4).expect("device memory");
        let out = [padded, padded.div_ceil(block), 1, experts + 1].map(space);
        let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| out[i].view());
        let raw = target.device.raw();
        // SAFETY: live arguments.
        succeeded(unsafe {
            sys::crk_moe_align(raw, experts, block, count, padded, topk_ids.view().into(), a, b, c, d)
        })?;
        let label = format!("{experts} experts, {count} tokens, blocks of {block}, room for {padded}");
        if short && bad.is_empty() {
            check_report(target, "crk_moe_align: num_tokens_post_pad", &[total as i64])
        } else {
            check_report(target, "crk_moe_align: topk_ids", &bad)
        }
        .map_err(|error| format!("{label}: {error}"))?;
        for (what, memory, expected) in [
            ("sorted_token_ids", &out[0], &sorted),
            ("expert_ids", &out[1], &expert_ids),
            ("num_tokens_post_pad", &out[2], &vec![total as i32]),
            ("cumsum", &out[3], &cumsum),
        ] {
            let got = integers(&memory.read().map_err(|problem| format!("{label}, {what}: {problem}"))?);
            if let Some(i) = (0..expected.len()).find(|&i| got[i] != expected[i]) {
                return Err(format!("{label}, {what}[{i}]: got {}, expected {}", got[i], expected[i]));
            }
        }
        if topk_ids.read()? == words(&ids) { Ok(()) } else { Err("a source changed".into()) }
    })
}

/// Recorded once and replayed with other lists. The graph owns the scratch memory.
fn graph(target: &Target) -> Outcome {
    let target = &own_handle(target)?;
    let (mut rng, device) = (Rng(11), target.device.raw());
    let format = Format::named("q5_K").expect("a format");
    for (way, weights_are, t) in [
        (Way::Gguf, Weights::Blocks(format), F32),
        (Way::Prefill, Weights::Blocks(format), F16),
        (Way::Gemm, Weights::Numbers, BF16),
    ] {
        let s = Sizes { experts: 3, rows: 5, k: 256, tokens: 12, topk: 2, scaled: false };
        let ids = expert_ids(&mut rng, 0, 3, 12);
        let mut problem = Problem::new(target, &mut rng, way, weights_are, t, s, ids);
        // SAFETY: live arguments, here and below; the graph is destroyed once.
        succeeded(problem.call.make(device))?;
        succeeded(unsafe { sys::crk_graph_begin(device) })?;
        let recorded = succeeded(problem.call.make(device));
        let mut graph = null_mut();
        succeeded(unsafe { sys::crk_graph_end(device, &mut graph) })?;
        let outcome = recorded.and_then(|()| {
            for kind in [0, 1, 2] {
                problem.ids = expert_ids(&mut rng, kind, 3, 12);
                let ids = words(&problem.ids);
                let blank = vec![UNTOUCHED; problem.dst.view().bytes];
                for (view, bytes) in [(problem.call.ids, &ids), (problem.call.dst, &blank)] {
                    succeeded(unsafe { sys::crk_copy_to_device(device, view, bytes.as_ptr().cast(), bytes.len()) })?;
                }
                succeeded(unsafe { sys::crk_graph_launch(graph) })?;
                problem.check().map_err(|problem| format!("{}: {problem}", way.name()))?;
            }
            Ok(())
        });
        unsafe { sys::crk_graph_destroy(graph) };
        outcome?;
    }
    Ok(())
}

fn off(view: sys::crk_view_t, by: usize) -> sys::crk_view_t {
    sys::crk_view_t { ptr: view.ptr.cast::<u8>().wrapping_add(by).cast(), bytes: view.bytes - by }
}
fn short(view: sys::crk_view_t) -> sys::crk_view_t {
    sys::crk_view_t { bytes: view.bytes - 1, ..view }
}
fn null(view: sys::crk_view_t) -> sys::crk_view_t {
    sys::crk_view_t { ptr: null_mut(), ..view }
}

const INVALID: Status = Status::InvalidArgument;
const BOUNDS: Status = Status::OutOfBounds;
const UNSUPPORTED: Status = Status::Unsupported;

fn refused(function: &str, what: &str, got: Status, expected: Status, text: &str) -> Outcome {
    if got == expected && last_error().starts_with(&format!("{function}: ")) && last_error().contains(text) {
        return Ok(());
    }
    Err(format!("{function}, {what}: {} ({}), expected {}, {text}", got.name(), last_error(), expected.name()))
}

/// Bad values for every argument of the products.
fn refuses(target: &Target) -> Outcome {
    let mut rng = Rng(5);
    let format = Format::named("q4_0").expect("a format");
    let device = target.device.raw();
    for (way, weights_are, t) in [
        (Way::Gguf, Weights::Blocks(format), F32),
        (Way::Prefill, Weights::Blocks(format), F16),
        (Way::Gemm, Weights::Numbers, F16),
    ] {
        let s = Sizes { experts: 2, rows: 4, k: 64, tokens: 6, topk: 2, scaled: true };
        let problem = Problem::new(target, &mut rng, way, weights_are, t, s, vec![0, 0, 0, 1, 1, 1]);
        let good = problem.call;
        // Aligned neither to 2 bytes nor to 4.
        let odd = |view: sys::crk_view_t| sys::crk_view_t { bytes: view.bytes + 64, ..off(view, 1) };
        let no_type = sys::crk_dtype(10);
        let f64 = support::number::F64.dtype;
        let huge = 1usize << 31;
        let mut cases = vec![
            (INVALID, "dtype 10", Call { dtype: no_type, ..good }),
            (UNSUPPORTED, "f64", Call { dtype: f64, ..good }),
            (INVALID, "k is 65", Call { k: 65, ..good }),
            (INVALID, "experts is", Call { experts: huge, ..good }),
            (INVALID, "rows is", Call { rows: huge, ..good }),
            (INVALID, "k is", Call { k: huge, ..good }),
            (INVALID, "tokens is", Call { tokens: huge, ..good }),
            (INVALID, "topk is", Call { topk: huge, ..good }),
            (INVALID, "tokens is 6", Call { topk: 4, scales: NONE, ..good }),
            (INVALID, "topk, 0", Call { topk: 0, scales: NONE, ..good }),
            (BOUNDS, "weights", Call { experts: 3, ..good }),
            (BOUNDS, "weights", Call { weights: short(good.weights), ..good }),
            (BOUNDS, "x", Call { x: short(good.x), ..good }),
            (BOUNDS, "sorted_token_ids", Call { sorted: short(good.sorted), ..good }),
            (BOUNDS, "expert_ids", Call { ids: short(good.ids), ..good }),
            (BOUNDS, "topk_weights", Call { scales: short(good.scales), ..good }),
            (BOUNDS, "dst", Call { dst: short(good.dst), ..good }),
            (INVALID, "weights", Call { weights: null(good.weights), ..good }),
            (INVALID, "x.ptr", Call { x: null(good.x), ..good }),
            (INVALID, "sorted_token_ids", Call { sorted: null(good.sorted), ..good }),
            (INVALID, "expert_ids", Call { ids: null(good.ids), ..good }),
            (INVALID, "topk_weights.ptr", Call { scales: null(good.scales), ..good }),
            (INVALID, "dst", Call { dst: null(good.dst), ..good }),
            (INVALID, "weights", Call { weights: odd(good.weights), ..good }),
            (INVALID, "x", Call { x: odd(good.x), ..good }),
            (INVALID, "sorted_token_ids", Call { sorted: odd(good.sorted), ..good }),
            (INVALID, "expert_ids", Call { ids: odd(good.ids), ..good }),
            (INVALID, "topk_weights", Call { scales: odd(good.scales), ..good }),
            (INVALID, "dst", Call { dst: odd(good.dst), ..good }),
        ];
        // dst overlaps each of the other arguments.
        for (name, other) in [
            ("weights", good.weights),
            ("x", good.x),
            ("sorted_token_ids", good.sorted),
            ("expert_ids", good.ids),
            ("topk_weights", good.scales),
        ] {
            let dst = sys::crk_view_t { ptr: other.ptr, bytes: good.dst.bytes };
            cases.push((INVALID, name, Call { dst, ..good }));
        }
        if way == Way::Gemm {
            cases.extend([
                (UNSUPPORTED, "f32", Call { dtype: F32.dtype, ..good }),
                (INVALID, "k is 68", Call { k: 68, ..good }),
                (BOUNDS, "expert_counts", Call { counts: short(good.counts), ..good }),
                (BOUNDS, "expert_offsets", Call { offsets: short(good.offsets), ..good }),
                (INVALID, "expert_counts.ptr", Call { counts: null(good.counts), ..good }),
                (INVALID, "expert_offsets.ptr", Call { offsets: null(good.offsets), ..good }),
                (INVALID, "expert_counts", Call { counts: odd(good.counts), ..good }),
                (INVALID, "expert_offsets", Call { offsets: odd(good.offsets), ..good }),
                (INVALID, "expert_counts overlaps expert_ids", Call { counts: good.ids, ..good }),
                (INVALID, "expert_offsets overlaps x", Call { offsets: good.x, ..good }),
                (INVALID, "overlaps dst", Call { offsets: good.dst, ..good }),
                (INVALID, "expert_counts overlaps expert_offsets", Call { counts: good.offsets, ..good }),
            ]);
        } else {
            cases.extend([
                (INVALID, "quant 9", Call { quant: sys::crk_quant_t(9), ..good }),
                (UNSUPPORTED, "q8_K", Call { quant: quant(FORMATS[10]), k: 256, ..good }),
                (INVALID, "k is 96", Call { quant: quant(FORMATS[7]), k: 96, ..good }),
            ]);
        }
        if way == Way::Prefill {
            cases.push((UNSUPPORTED, "f32", Call { dtype: F32.dtype, ..good }));
        }
        refused(way.name(), "no handle", good.make(null_mut()), INVALID, "self")?;
        for (i, (status, text, call)) in cases.iter().enumerate() {
            refused(way.name(), &format!("case {i}"), call.make(device), *status, text)?;
        }
        // Calls with nothing to do succeed, and the refused calls have written nothing.
        for call in [Call { tokens: 0, ..good }, Call { rows: 0, ..good }] {
            let call = Call { weights: NONE, x: NONE, sorted: NONE, scales: NONE, dst: NONE, topk: 1, ..call };
            let call = Call { ids: NONE, counts: NONE, offsets: NONE, ..call };
            let ids = if call.tokens == 0 || way != Way::Gemm { NONE } else { good.ids };
            succeeded(Call { ids, ..call }.make(device)).map_err(|e| format!("{}, empty: {e}", way.name()))?;
        }
        if problem.dst.read()?.iter().any(|byte| *byte != UNTOUCHED) {
            return Err(format!("{}: a refused call wrote", way.name()));
        }
        // With k = 0 the result is zeros. Then the unchanged call is made.
        succeeded(Call { k: 0, ..good }.make(device))?;
        let zeros = problem.dst.read()?;
        if (0..s.tokens * s.rows).any(|i| problem.to.float(problem.to.get(&zeros, i)) != 0.0) {
            return Err(format!("{}: a sum of nothing is not 0", way.name()));
        }
        succeeded(good.make(device))?;
        problem.check()?;
    }
    Ok(())
}

/// Bad values for every argument of crk_moe_align.
fn align_refuses(target: &Target) -> Outcome {
    let device = target.device.raw();
    let memory: Vec<Guarded> =
        [5, 8, 4, 1, 4].iter().map(|n| Guarded::new(&target.device, &vec![0; n * 4], 0).expect("memory")).collect();
    let v: Vec<sys::crk_view_t> = memory.iter().map(Guarded::view).collect();
    let names = ["topk_ids", "sorted_token_ids", "expert_ids", "num_tokens_post_pad", "cumsum"];
    let call = |device, (experts, block, count, padded): (usize, usize, usize, usize), v: &[sys::crk_view_t]| {
        // SAFETY: the views are of live memory, or of none, which the function refuses.
        unsafe { sys::crk_moe_align(device, experts, block, count, padded, v[0].into(), v[1], v[2], v[3], v[4]) }
    };
    let good = (3, 2, 5, 8);
    let refused = |what: &str, got, expected, text: &str| refused("crk_moe_align", what, got, expected, text);
    refused("no handle", call(null_mut(), good, &v), INVALID, "self")?;
    let huge = 1usize << 31;
    for (sizes, status, text) in [
        ((huge, 2, 5, 8), INVALID, "experts"),
        ((3, huge, 5, 8), INVALID, "block_size"),
        ((3, 0, 5, 8), INVALID, "block_size is 0"),
        ((3, 2, huge, 8), INVALID, "count"),
        ((3, 2, 5, huge), INVALID, "padded"),
        ((3, huge - 1, 5, 8), INVALID, "beyond"),
        ((3, 2, 5, huge - 1), INVALID, "beyond"),
        ((4, 2, 5, 8), BOUNDS, "cumsum"),
        ((3, 2, 6, 8), BOUNDS, "topk_ids"),
        ((3, 2, 5, 9), BOUNDS, "sorted_token_ids"),
        ((3, 1, 5, 8), BOUNDS, "expert_ids"),
    ] {
        refused(&format!("{sizes:?}"), call(device, sizes, &v), status, text)?;
    }
    for (i, name) in names.iter().enumerate() {
        let with = |view: sys::crk_view_t| {
            let mut views = v.clone();
            views[i] = view;
            views
        };
        refused(name, call(device, good, &with(short(v[i]))), BOUNDS, name)?;
        refused(name, call(device, good, &with(null(v[i]))), INVALID, name)?;
        let odd = sys::crk_view_t { bytes: v[i].bytes, ..off(v[i], 2) };
        refused(name, call(device, good, &with(odd)), INVALID, name)?;
        for (j, other) in names.iter().enumerate() {
            let over = sys::crk_view_t { bytes: v[i].bytes, ..v[j] };
            if i != j {
                let text = if i > j { format!("{name} overlaps {other}") } else { format!("{other} overlaps {name}") };
                refused(name, call(device, good, &with(over)), INVALID, &text)?;
            }
        }
    }
    if memory.iter().any(|memory| memory.read().map_or(true, |bytes| bytes.iter().any(|byte| *byte != 0))) {
        return Err("a refused call wrote".into());
    }
    succeeded(call(device, good, &v))?;
    // SAFETY: a live handle.
    succeeded(unsafe { sys::crk_device_synchronize(device) })
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "moe", target, name, body);
        for format in formats() {
            let blocks = Weights::Blocks(format);
            add(
                format!("gguf_{}", format.name),
                Box::new(move |target, name| product(target, name, Way::Gguf, blocks, &[F32, F16, BF16])),
            );
            add(
                format!("prefill_{}", format.name),
                Box::new(move |target, name| product(target, name, Way::Prefill, blocks, &[F16, BF16])),
            );
            add(format!("identity_{}", format.name), Box::new(move |target, name| identity(target, name, format)));
        }
        for t in [F16, BF16] {
            let gemm =
                move |target: &'static Target, name: &str| product(target, name, Way::Gemm, Weights::Numbers, &[t]);
            add(format!("gemm_{}", t.name), Box::new(gemm));
        }
        orders::trials(&mut add);
        add("align".into(), Box::new(align));
        add("graph".into(), Box::new(|target, _| graph(target)));
        add("refuses".into(), Box::new(|target, _| refuses(target)));
        add("align_refuses".into(), Box::new(|target, _| align_refuses(target)));
    }
    trials
}
