//! Tests the results of what benches/ops times: every case of its table (benches/cases), with the same call, at a size
//! of whole vectors and at odd sizes. Guard bytes surround every buffer and fill the gaps of destinations.
//! Element-wise cases and layers of image models are compared with plain Rust, and attention with its formula. The
//! others are compared with the kernels of Candle's names, as in the bench; golden.rs tests those kernels.
//!
//! A trial is a case at a size on a device: `timed/cpu:32/4096/affine f32`. Each also proves that it could have failed:
//! it spoils a random element of the result, and the same comparison must then fail.

use crate::cases::agreement::{Agreement, Apart, NEARBY, apart};
use crate::cases::by_name::ByName;
use crate::cases::elementwise::{FILL_VALUE, Op};
use crate::cases::{self, Case, Size, images};
use crate::suites::norm::numbers;
use crate::suites::{batch_norm, group_norm};
use crate::support::cases::Rng;
use crate::support::number::{TYPES, Type};
use crate::support::property::{Operand, Outcome, check, each_case, value, values};
use crate::support::reference::{self, Expected};
use crate::support::windows;
use crate::support::{Guarded, Target, succeeded};
use candle_rocm_sys::{DType, sys};
use libtest_mimic::{Failed, Trial};

/// With a power of two, every dim is one too. Odd dims are no multiple of a vector.
const SIZES: &[Size] = &[
    Size { elements: 1 << 12, odd: false },
    Size { elements: 1 << 12, odd: true },
    Size { elements: 1 << 7, odd: true },
];

fn type_of(dtype: DType) -> Type {
    *TYPES.iter().find(|t| t.dtype == dtype).expect("a dtype of the table")
}

/// The operands of a case. For where_*, half of the ids are 0.
fn sources(target: &Target, rng: &mut Rng, case: &Case, op: Op) -> Vec<Operand> {
    let source = |(i, source): (usize, &cases::Source)| {
        let (t, shape) = (type_of(source.dtype), source.shape.clone());
        if op != Op::Where || i > 0 {
            return Operand::random(target, rng, t, shape);
        }
        let mut data = vec![0; shape.reach() * t.bytes];
        for index in 0..shape.reach() {
            let id = if rng.one_in(2) { 0 } else { value(rng, t) };
            t.put(&mut data, index, id);
        }
        Operand::new(target, rng, t, shape, data)
    };
    case.sources.iter().enumerate().map(source).collect()
}

/// The expected elements of the destination, in the order of its layout.
fn expected(case: &Case, op: Op, sources: &[Operand]) -> Vec<Expected> {
    let (t, to) = (type_of(case.dtype()), type_of(case.dst_dtype));
    let elements: Vec<Vec<u64>> = sources.iter().map(Operand::elements).collect();
    let unary = |root: &str, param: f64, x: u64| {
        let param = t.float(t.converted(param));
        reference::unary(root, t, x, param).expect("an op that there is")
    };
    let one = |i: usize| {
        let x = |operand: usize| elements[operand][i];
        match op {
            Op::Unary(root) => unary(root, 1.0, x(0)),
            Op::UnaryParam(root, param) => unary(root, param, x(0)),
            Op::Affine(mul, add) => reference::affine(t, x(0), t.converted(mul), t.converted(add)),
            Op::Binary(root) => reference::binary(root, t, x(0), x(1)),
            Op::Cmp(root) => Expected::exactly(reference::cmp(root, t, x(0), x(1)).into()),
            Op::Cast => reference::cast(t, to, x(0)),
            Op::Where => Expected::moved(if x(0) != 0 { x(1) } else { x(2) }),
            Op::Fill | Op::ConstSet => Expected::moved(FILL_VALUE & (u64::MAX >> (64 - to.bits()))),
            Op::Copy2d | Op::CopyStrided => Expected::moved(x(0)),
        }
    };
    (0..case.numel()).map(one).collect()
}

/// The operands of a case, with the values that the bench gives them.
fn sources_of_bench(target: &Target, rng: &mut Rng, case: &Case) -> Vec<Operand> {
    let source = |(i, source): (usize, &cases::Source)| {
        let (t, shape) = (type_of(source.dtype), source.shape.clone());
        let data = source.values.bytes(source.dtype, shape.reach(), 1 + i as u64);
        if source.values != cases::Values::Blocks {
            return Operand::new(target, rng, t, shape, data);
        }
        // Blocks need an alignment that single bytes do not have.
        let memory = Guarded::new(&target.device, &data, 0).expect("device memory");
        Operand { t, shape, data, memory }
    };
    case.sources.iter().enumerate().map(source).collect()
}

/// The results of norms and of depthwise convolutions.
fn expected_images(case: &Case, op: images::Op, sources: &[Operand]) -> Vec<Expected> {
    let (t, dims) = (type_of(case.dst_dtype), &case.dims);
    let of = |i: usize| numbers(&sources[i]);
    let inner = dims[2] * dims[3];
    match op {
        images::Op::GroupNorm { groups, silu } => {
            let (weight, bias) = (of(1), of(2));
            let norm = group_norm::Case { groups, silu, eps: images::EPS, weight: Some(&weight), bias: Some(&bias) };
            group_norm::reference(t, &of(0), dims[1], inner, &norm)
        }
        images::Op::BatchNorm => {
            let (mean, var, weight, bias) = (of(1), of(2), of(3), of(4));
            let (weight, bias) = (Some(&weight[..]), Some(&bias[..]));
            let norm = batch_norm::Channels { mean: &mean, var: &var, weight, bias, eps: images::EPS };
            batch_norm::reference(t, &of(0), inner, &norm)
        }
        images::Op::Depthwise { window, stride } => {
            let [src, kernel] = [0, 1].map(|i| sources[i].elements());
            let values = windows::Values { dims, bits: &src };
            let weights = windows::Values { dims: &case.sources[1].shape.dims, bits: &kernel };
            let slide = windows::Slide { stride, padding: window / 2, ..windows::FLAT };
            let out = (case.dst.dims[2], case.dst.dims[3]);
            windows::convolve(t, (false, dims[1]), (&values, &weights), (slide, slide), out)
        }
    }
}

/// Compares a case with plain Rust.
fn prove(
    target: &Target,
    rng: &mut Rng,
    case: &Case,
    sources: &[Operand],
    expected: impl Fn(&[Operand]) -> Vec<Expected>,
) -> Outcome {
    let to = type_of(case.dst_dtype);
    let before = values(rng, to, case.dst.reach());
    let dst = Operand::new(target, rng, to, case.dst.clone(), before);
    let views: Vec<sys::crk_const_view_t> = sources.iter().map(|source| source.memory.view().into()).collect();
    let prepared = case.prepare().map_err(|error| error.to_string())?;
    // SAFETY: a live handle and its own memory.
    succeeded(unsafe { prepared.launch(target.device.raw(), &views, dst.memory.view()) })?;

    let mut whole: Vec<_> = (0..dst.shape.reach()).map(|i| Expected::moved(to.get(&dst.data, i))).collect();
    let places = dst.shape.indices();
    for (place, expected) in places.iter().zip(expected(sources)) {
        whole[*place] = expected;
    }
    // A failure prints the inputs, if they have the same order as the output.
    let inputs: Vec<&Operand> = sources.iter().filter(|_| whole.len() == case.numel()).collect();
    check(&dst, &whole, &inputs)?;
    for source in sources {
        source.unchanged()?;
    }

    let place = rng.below(whole.len());
    if !whole[place].anything {
        // The highest bit below the sign. Changing it exceeds every bound.
        let mut wrong = dst.memory.read()?;
        let turned = to.get(&wrong, place) ^ 1 << (to.bits() - 2);
        to.put(&mut wrong, place, turned);
        let wrong = Operand::new(target, rng, to, case.dst.clone(), wrong);
        if check(&wrong, &whole, &[]).is_ok() {
            return Err(format!("element {place} was spoilt, and nobody saw it"));
        }
    }
    Ok(())
}

/// Compares the launcher with the kernel of Candle's name.
fn beside(target: &Target, rng: &mut Rng, case: &Case) -> Outcome {
    let text = |error: candle_rocm_sys::Error| error.to_string();
    let sources = sources_of_bench(target, rng, case);
    let views: Vec<sys::crk_const_view_t> = sources.iter().map(|source| source.memory.view().into()).collect();
    let to = type_of(case.dst_dtype);
    let mut dst = || Operand::new(target, rng, to, case.dst.clone(), vec![0; case.dst_bytes()]);
    let (ours, theirs) = (dst(), dst());
    let prepared = case.prepare().map_err(text)?;
    let kernels = ByName::new(&target.device, case, "").map_err(text)?.ok_or("Candle has no such kernel")?;
    // SAFETY: a live handle and its own memory.
    unsafe {
        succeeded(prepared.launch(target.device.raw(), &views, ours.memory.view()))?;
        kernels.launch(&views, theirs.memory.view()).map_err(text)?;
    }
    let (mut ours, theirs) = (ours.memory.read()?, theirs.memory.read()?);
    for source in &sources {
        source.unchanged()?;
    }
    if let Apart::Wrong(at) = apart(case, &ours, &theirs) {
        return Err(format!("element {at} is {:#x}, by name {:#x}", to.get(&ours, at), to.get(&theirs, at)));
    }
    // Spoils a random element by little more than the case allows.
    let at = rng.below(case.numel());
    let bits = to.get(&ours, at);
    let nearby = at / NEARBY * NEARBY..(at / NEARBY * NEARBY + NEARBY).min(case.numel());
    let largest = nearby.map(|i| to.float(to.get(&theirs, i)).abs()).fold(0.0, f64::max);
    let spoilt = match case.agreement {
        Agreement::Bits => bits ^ 1,
        Agreement::Ulps(most) => to.get(&theirs, at) + most + 1,
        Agreement::Share(most) => to.round_bits(to.float(bits) + 3.0 * most * largest),
    };
    to.put(&mut ours, at, spoilt);
    match apart(case, &ours, &theirs) {
        Apart::Wrong(_) => Ok(()),
        _ => Err(format!("element {at} was {bits:#x}, is {spoilt:#x}, and nobody saw it")),
    }
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in targets {
        for size in SIZES {
            for case in cases::all(*size) {
                let odd = if size.odd { "odd:" } else { "" };
                let name = format!("{odd}{}/{}", size.elements, case.name);
                trials.push(Trial::test(format!("timed/{}/{name}", target.name), move || {
                    let trial = |rng: &mut Rng, _| match case.op {
                        cases::Op::Elementwise(op) => {
                            let sources = sources(target, rng, &case, op);
                            prove(target, rng, &case, &sources, |sources| expected(&case, op, sources))
                        }
                        cases::Op::Images(op) => {
                            let sources = sources_of_bench(target, rng, &case);
                            prove(target, rng, &case, &sources, |sources| expected_images(&case, op, sources))
                        }
                        cases::Op::Attention(op) => super::attention::timed(target, rng, &case, op),
                        _ => beside(target, rng, &case),
                    };
                    each_case(target, "timed", &name, 1, trial).map_err(Failed::from)
                }));
            }
        }
    }
    trials
}
