//! Fused attention against the header's formula in f64. The cases have random shapes, layouts, offsets and misaligned
//! views, shared heads, windows, masks, slopes, caps, prefixes, sequences of different lengths, caches of blocks, NaN
//! and infinities, and from 0 to 70000 keys. All memory beside a tensor's elements is NaN, and so are keys that no
//! query sees. Guard bytes surround every buffer. Further tests cover bad arguments, capture, threads, and the bound.
//!
//! A trial is a device, a family of cases and a dtype: `attention/cpu:32/windows_f16`.
mod case;
mod columns;
mod exact;
mod far;
mod plan;
mod refused;
mod timed;

use crate::support::cases::Rng;
use crate::support::number::{BF16, F16, F32, Type, U8};
use crate::support::property::{Outcome, each_case};
use crate::support::{Body, Target, add_trial, open, succeeded};
use candle_rocm_sys::{Attention, Layout, Starts, sys};
use case::Case;
use exact::Numbers;
use libtest_mimic::Trial;
use plan::{Filling, Plan, Way};
use std::ptr::null_mut;
pub use timed::timed;

const FLOATS: [Type; 3] = [BF16, F16, F32];
/// Widths of heads around those of the kernels.
const COLUMNS: &[usize] = &[8, 16, 24, 40, 64, 72, 96, 104, 128, 136, 192, 256];
/// Numbers of tokens around those of tiles.
const TOKENS: &[usize] = &[1, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 127, 128, 129, 200];

/// The widths of heads: mostly the same for keys and values.
fn widths_of_heads(rng: &mut Rng) -> (usize, usize) {
    let d = rng.pick(COLUMNS);
    (d, if rng.one_in(3) { rng.pick(COLUMNS) } else { d })
}

/// Kv heads, and heads for each.
fn heads(rng: &mut Rng) -> (usize, usize) {
    (rng.pick(&[1, 1, 2, 3]), rng.pick(&[1, 1, 2, 3, 4, 5, 7, 8]))
}

/// A batch of a size whose reference is fast.
fn batch(rng: &mut Rng, t: Type, most: usize) -> Plan {
    loop {
        let (heads, columns) = (heads(rng), widths_of_heads(rng));
        let lengths = vec![(rng.pick(TOKENS), rng.pick(TOKENS)); rng.pick(&[1, 1, 2, 3])];
        let mut plan = Plan::plain(t, heads, columns, &lengths);
        plan.lse = rng.one_in(2);
        let work = lengths.len() * plan.heads() * lengths[0].0 * lengths[0].1 * (columns.0 + columns.1);
        if work <= most {
            return plan;
        }
    }
}

/// Sequences of different lengths, some of 0 and 1, one after the other or in blocks.
fn of_sequences(rng: &mut Rng, t: Type, blocks: bool) -> Plan {
    let (d, dv) = widths_of_heads(rng);
    let mut length = || rng.pick(&[0, 0, 1, 1, 2, 5, 16, 33, 64, 70, 130]);
    let mut lengths: Vec<(usize, usize)> = (0..4).map(|_| (length(), length())).collect();
    lengths.truncate(rng.pick(&[1, 3, 4]));
    let mut plan = Plan::plain(t, (rng.pick(&[1, 2]), rng.pick(&[1, 2, 4])), (d, dv), &lengths);
    plan.lse = rng.one_in(2);
    plan.way = if blocks { Way::Blocks(rng.pick(&[1, 16, 48, 256])) } else { Way::Starts };
    plan
}

fn plain(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 20, |rng, _| {
        let plan = batch(rng, t, 3_000_000);
        Case::new(target, rng, plan).run(&target.device)
    })
}

fn windows(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 20, |rng, _| {
        let plan = batch(rng, t, 3_000_000).with_window(rng);
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// What needs the general kernels, with windows and without.
fn general(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 24, |rng, index| {
        let plan = batch(rng, t, 2_000_000).with_scores(rng);
        let plan = if index % 2 == 0 { plan.with_window(rng) } else { plan };
        Case::new(target, rng, plan).run(&target.device)
    })
}

fn starts(target: &Target, name: &str, t: Type, blocks: bool) -> Outcome {
    each_case(target, "attention", name, 18, |rng, index| {
        let mut plan = of_sequences(rng, t, blocks);
        if index % 2 == 0 {
            plan = plan.with_window(rng);
        }
        if index % 3 == 0 {
            plan = plan.with_scores(rng);
        }
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// Few queries, whose keys are shared out: with everything that other families have.
fn few(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 24, |rng, index| {
        let (d, dv) = widths_of_heads(rng);
        let keys = [1, 5, 63, 64, 65, 129, 200, 500, 777];
        let way = [Way::Batch, Way::Starts, Way::Blocks(rng.pick(&[1, 16, 48, 256]))][index % 3];
        let count = rng.pick(&[1, 1, 2, 3]);
        let mut lengths: Vec<(usize, usize)> =
            (0..count).map(|_| (rng.pick(&[1, 1, 1, 2, 4]), rng.pick(&keys))).collect();
        if way == Way::Batch {
            let first = lengths[0];
            lengths.fill(first);
        }
        let mut plan = Plan::plain(t, (rng.pick(&[1, 2]), rng.pick(&[1, 2, 4, 5, 8])), (d, dv), &lengths);
        (plan.way, plan.lse) = (way, rng.one_in(2));
        plan = if rng.one_in(3) { plan.with_window(rng) } else { plan };
        plan = if rng.one_in(3) { plan.with_scores(rng) } else { plan };
        plan.filling = if rng.one_in(6) { Filling::Special } else { Filling::Reals };
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// As many blocks as the device's units, around one and two per unit: small tiles, and blocks that share a unit.
fn blocks_of_units(target: &Target, name: &str, t: Type) -> Outcome {
    let units = target.device.info().map_err(|error| error.to_string())?.compute_units as usize;
    each_case(target, "attention", name, 12, |rng, index| {
        let blocks = [units, units + 1, 3 * units / 2, 2 * units, 2 * units + 1, 5 * units][index % 6];
        let (rows, tiles) = (rng.pick(&[64, 128]), rng.pick(&[1, 2, 3]));
        let queries = tiles * rows - rng.pick(&[0, 1, 17, rows - 1]);
        let heads = (rng.pick(&[1, 2]), rng.pick(&[1, 1, 2]));
        let lengths = vec![(queries, rng.pick(&[1, 33, 70])); blocks.div_ceil(tiles * heads.0 * heads.1).max(1)];
        let d = rng.pick(&[8, 16, 72, 104]);
        let mut plan = Plan::plain(t, heads, (d, 8), &lengths);
        plan = if index % 2 == 0 { Plan { causal: true, ..plan } } else { plan.with_window(rng) };
        plan = if rng.one_in(6) { plan.with_scores(rng) } else { plan };
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// More queries than in decoding behind many keys, which are shared out too.
fn behind_many(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 10, |rng, index| {
        let d = rng.pick(&[16, 64, 104, 136]);
        let way = [Way::Batch, Way::Starts, Way::Blocks(rng.pick(&[16, 48]))][index % 3];
        let mut lengths = vec![(rng.pick(&[17, 40, 64, 65, 130]), rng.pick(&[520, 777, 1000, 1300]))];
        if way != Way::Batch {
            lengths.extend([(0, 5), (17, 0), (33, 520)]);
        }
        let heads = rng.pick(&[(1, 1), (1, 2), (2, 1)]);
        let mut plan = Plan::plain(t, heads, (d, rng.pick(&[8, d])), &lengths);
        (plan.causal, plan.lse, plan.way) = (rng.one_in(2), true, way);
        plan = if index % 4 == 1 { plan.with_window(rng) } else { plan };
        plan = if index % 4 == 2 { plan.with_scores(rng) } else { plan };
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// A prompt takes no memory, and no other call with more queries than a quarter of its keys.
fn no_scratch(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 4, |rng, index| {
        let d = [64, 128, 264, 64][index];
        let (heads, lengths) = if index < 3 { ((2, 4), (65 + 64 * index, 300)) } else { ((1, 1), (200, 600)) };
        let plan = Plan::plain(t, heads, (d, d), &[lengths]);
        // The peak of a handle of its own is that of this call.
        let device = open(&target.name).map_err(|error| error.to_string())?;
        let own = Target { name: target.name.clone(), device };
        let case = Case::new(&own, rng, Plan { causal: true, lse: true, ..plan });
        let stats = || own.device.memory_stats().map_err(|error| error.to_string());
        let before = stats()?;
        case.launch(&own.device)?;
        let after = stats()?;
        if (after.live_bytes, after.peak_live_bytes) == (before.live_bytes, before.live_bytes) {
            Ok(())
        } else {
            Err(format!("{before:?} became {after:?}"))
        }
    })
}

/// NaN and infinities.
fn special(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 20, |rng, index| {
        let mut plan = batch(rng, t, 500_000);
        plan.filling = Filling::Special;
        plan = if index % 2 == 0 { plan.with_window(rng) } else { plan };
        plan = if index % 3 == 0 { plan.with_scores(rng) } else { plan };
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// Weights so far below the largest one that halves lose most of their bits, with values that make up for it.
fn faint(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 12, |rng, index| {
        let lengths = [(1, 40), (1, 300), (3, 65), (70, 2), (40, 33), (65, 400)][index % 6];
        let (d, dv) = (rng.pick(&[8, 64, 128]), rng.pick(&[8, 64, 128]));
        let mut plan = Plan::plain(t, (1, 2), (d, dv), &[lengths]);
        (plan.filling, plan.scale, plan.lse) = (Filling::Faint, 1.0, rng.one_in(2));
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// Every width of the kernels up to its end, and the largest heads.
fn widths(target: &Target, name: &str, t: Type) -> Outcome {
    let widths = [8, 64, 72, 96, 104, 128, 136, 192, 200, 256, 264, 504, 512];
    each_case(target, "attention", name, 2 * widths.len(), |rng, index| {
        let d = widths[index / 2];
        let dv = if index % 2 == 0 { d } else { rng.pick(&widths) };
        let lengths = [(rng.pick(&[1, 5, 17, 65]), rng.pick(&[1, 31, 65, 130]))];
        Case::new(target, rng, Plan::plain(t, (1, 2), (d, dv), &lengths)).run(&target.device)
    })
}

/// Few queries and many keys: heads, d, queries and keys, whether the call is causal.
type Long = ((usize, usize), usize, (usize, usize), bool);
const LONG: &[Long] = &[
    ((1, 1), 64, (1, 70_000), false),
    ((1, 2), 8, (1, 70_000), true),
    ((1, 2), 8, (1, 9_001), true),
    ((2, 2), 128, (1, 1024), false),
    ((1, 3), 40, (5, 701), true),
    ((1, 1), 64, (300, 1_000), false),
    ((1, 1), 8, (1_200, 1_200), true),
];

fn long(target: &Target, name: &str, t: Type, (heads, d, lengths, causal): Long) -> Outcome {
    each_case(target, "attention", name, 1, |rng, _| {
        let plan = Plan::plain(t, heads, (d, d), &[lengths]);
        Case::new(target, rng, Plan { causal, lse: true, ..plan }).run(&target.device)
    })
}

/// No sequences, no queries, no heads, no keys.
fn nothing(target: &Target, name: &str, t: Type) -> Outcome {
    type Heads = (usize, usize);
    let shapes: [(Heads, &[(usize, usize)]); 5] = [
        ((1, 2), &[]),
        ((2, 1), &[(0, 5), (0, 5)]),
        ((0, 1), &[(3, 5)]),
        ((1, 2), &[(3, 0), (3, 0)]),
        ((2, 2), &[(0, 0)]),
    ];
    each_case(target, "attention", name, 2 * shapes.len(), |rng, index| {
        let (heads, lengths) = shapes[index / 2];
        let mut plan = Plan::plain(t, heads, (16, 24), lengths);
        plan.lse = true;
        plan.way = if index % 2 == 0 { Way::Batch } else { Way::Starts };
        Case::new(target, rng, plan).run(&target.device)
    })
}

/// The same bits in every run.
fn repeated(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 4, |rng, index| {
        let lengths = [[(65, 130)], [(1, 900)], [(3, 300)], [(1, 64)]][index];
        let case = Case::new(target, rng, Plan::plain(t, (2, 2), (64, 64), &lengths));
        case.launch(&target.device)?;
        let first = case.results()?;
        case.clear(&target.device)?;
        case.launch(&target.device)?;
        if case.results()? == first { Ok(()) } else { Err(format!("two runs differ; {:?}", case.plan)) }
    })
}

/// The checks above refuse a result that is off by three times its bound, two rows in each other's place, and a row
/// without its last key.
fn bound(target: &Target, name: &str, t: Type) -> Outcome {
    each_case(target, "attention", name, 6, |rng, index| {
        let is_plain = index % 2 == 0;
        let plan = if is_plain {
            Plan::plain(t, (1, 2), (64, 64), &[(17, 300)])
        } else {
            batch(rng, t, 500_000).with_scores(rng)
        };
        let mut case = Case::new(target, rng, Plan { lse: true, ..plan });
        case.launch(&target.device)?;
        let results = case.results()?;
        case.check_results(&results, 0.0)?;
        let refuses = |case: &Case, results: &[Vec<u8>], off: f64, what: &str| match case.check_results(results, off) {
            Ok(()) => Err(format!("the check takes {what}; {:?}", case.plan)),
            Err(_) => Ok(()),
        };
        for off in [3.0, -3.0] {
            refuses(&case, &results, off, "results that are off by three bounds")?;
        }
        let exchanged = case.with_rows_exchanged(&results);
        // Where all queries, keys or values are the same, so are the rows.
        if !is_plain || exchanged == results || case.has_equal_values() {
            return Ok(());
        }
        refuses(&case, &exchanged, 0.0, "two rows in each other's place")?;
        // In bf16 the roundings of 300 weights may be as large as one of them.
        if t == BF16 {
            return Ok(());
        }
        case.plan.lengths[0].1 -= 1;
        refuses(&case, &results[..1], 0.0, "rows without their last key")
    })
}

/// Recorded with the longest sequences, and replayed with others, none of them longer.
fn captured(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let own = Target { name: target.name.clone(), device };
    // Trials that run at the same time may use up the cache of freed memory.
    // SAFETY: a live handle.
    succeeded(unsafe { sys::crk_memory_reserve(own.device.raw(), 16 << 20) })?;
    for (index, way) in [Way::Starts, Way::Blocks(16), Way::Starts, Way::Blocks(48)].into_iter().enumerate() {
        let mut rng = Rng(index as u64);
        let prompts = [
            [(70, 90), (33, 40), (1, 64)],
            [(1, 90), (33, 0), (0, 1)],
            [(0, 0), (1, 1), (1, 17)],
            [(5, 7), (20, 40), (1, 64)],
        ];
        let decoded = [[(1, 700); 3], [(1, 1), (1, 700), (0, 5)], [(1, 64), (1, 65), (1, 511)], [(1, 700); 3]];
        let behind = [
            [(40, 1300), (17, 90), (1, 64)],
            [(17, 0), (5, 90), (0, 1)],
            [(40, 1200), (0, 0), (1, 1)],
            [(2, 30), (17, 40), (1, 64)],
        ];
        let (heads, [longest, others @ ..]) =
            [((2, 2), prompts), ((2, 2), prompts), ((2, 2), decoded), ((1, 1), behind)][index];
        let mut plan = Plan::plain(FLOATS[index % 3], heads, (64, 64), &longest);
        (plan.way, plan.causal, plan.lse) = (way, true, true);
        let mut case = Case::new(&own, &mut rng, plan);
        case.run(&own.device)?;
        let mut graph = null_mut();
        // SAFETY: live arguments; so below.
        succeeded(unsafe { sys::crk_graph_begin(own.device.raw()) })?;
        let recorded = case.launch(&own.device);
        succeeded(unsafe { sys::crk_graph_end(own.device.raw(), &mut graph) })?;
        let outcome = recorded.and_then(|()| {
            for lengths in others {
                case.change_lengths(&own.device, &lengths)?;
                succeeded(unsafe { sys::crk_graph_launch(graph) })?;
                case.check()?;
            }
            Ok(())
        });
        unsafe { sys::crk_graph_destroy(graph) };
        outcome.map_err(|problem| format!("{way:?}: {problem}"))?;
    }
    Ok(())
}

/// Eight threads, with one handle for all or one handle each. Blocks of decoding count themselves (csrc/tickets.h), so
/// decodings that run at the same time must not share the counters.
fn at_once(target: &Target) -> Outcome {
    let device = open(&target.name).map_err(|error| error.to_string())?;
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let device = &device;
                scope.spawn(move || {
                    let device = if thread % 2 == 0 {
                        device.clone()
                    } else {
                        device.new_stream().map_err(|error| error.to_string())?
                    };
                    let own = Target { name: target.name.clone(), device };
                    let mut rng = Rng(thread);
                    for _ in 0..3 {
                        let t = rng.pick(&FLOATS);
                        let plan = batch(&mut rng, t, 200_000);
                        Case::new(&own, &mut rng, plan).run(&own.device)?;
                    }
                    let decoding = Plan::plain(FLOATS[thread as usize / 2 % 3], (2, 2), (64, 64), &[(1, 900)]);
                    let case = Case::new(&own, &mut rng, decoding);
                    for _ in 0..10 {
                        case.clear(&own.device)?;
                        case.run(&own.device)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    outcomes.into_iter().collect()
}

/// The safe layer passes its arguments on, and refuses a buffer of another handle.
fn safe_layer(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let device = &target.device;
    // Two queries and three keys of 8 columns. The first query sees the keys 0 and 1, with equal scores.
    let zeros = device.upload(&[0f32; 24]).map_err(error)?;
    let values: Vec<f32> = [[1f32; 8], [3.0; 8], [8.0; 8]].concat();
    let values = device.upload(&values).map_err(error)?;
    let (dst, lse) = (device.alloc(64).map_err(error)?, device.alloc(8).map_err(error)?);
    let of = |tokens: usize| Layout::contiguous(&[1, 1, tokens, 8]).map_err(error);
    let (q, k) = (of(2)?, of(3)?);
    let plain = Attention::new(F32.dtype, (&q, &zeros), (&k, &zeros), (&k, &values), (&q, &dst), 1.0);
    let rows = |first: f32, second: f32| [[first; 8], [second; 8]].concat();
    let is = |what: &str, call: &Attention, expected: Vec<f32>| {
        device.attention(call).map_err(error)?;
        let got = dst.download::<f32>().map_err(error)?;
        if got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5) {
            Ok(())
        } else {
            Err(format!("{what}: {got:?}"))
        }
    };
    is("plain", &plain, rows(4.0, 4.0))?;
    is("causal", &Attention { causal: true, lse: Some((&lse).into()), ..plain }, rows(2.0, 4.0))?;
    let lse = lse.download::<f32>().map_err(error)?;
    if (lse[0] - 2f32.ln()).abs() > 1e-5 || (lse[1] - 3f32.ln()).abs() > 1e-5 {
        return Err(format!("lse: {lse:?}"));
    }
    is("left and right", &Attention { left: Some(1), right: Some(0), ..plain }, rows(2.0, 5.5))?;
    let mask = device.upload(&[1u8, 0, 0, 0, 1, 1]).map_err(error)?;
    let layout = Layout::contiguous(&[1, 1, 2, 3]).map_err(error)?;
    is("a mask", &Attention { mask: Some((U8.dtype, (&layout, &mask).into())), ..plain }, rows(1.0, 5.5))?;
    let ln2 = device.upload(&[2f32.ln()]).map_err(error)?;
    let one = Layout::contiguous(&[1, 1]).map_err(error)?;
    let slopes = Some((&one, &ln2).into());
    // Weights 1/2, 1, 1/2 and 1/4, 1/2, 1.
    is("slopes", &Attention { slopes, ..plain }, rows((0.5 + 3.0 + 4.0) / 2.0, (0.25 + 1.5 + 8.0) / 1.75))?;
    is("a cap", &Attention { softcap: Some(1.0), slopes: None, ..plain }, rows(4.0, 4.0))?;
    let range = device.upload(&[1i32, 3]).map_err(error)?;
    let ranges = Layout::contiguous(&[1, 1, 2]).map_err(error)?;
    let prefixes = Some((&ranges, &range).into());
    is("prefixes", &Attention { prefixes, causal: true, ..plain }, rows(4.0, 4.0))?;
    let (of_q, of_k) = (device.upload(&[0u32, 1, 2]).map_err(error)?, device.upload(&[0u32, 1, 3]).map_err(error)?);
    // SAFETY: the starts fit the tensors.
    let starts = Some(unsafe { Starts::new(2, &of_q, &of_k, 1, 2, None) });
    is("starts", &Attention { starts, ..plain }, rows(1.0, 5.5))?;
    let blocks = Layout::contiguous(&[3, 1, 1, 8]).map_err(error)?;
    let table = device.upload(&[2u32, 0, 0, 1]).map_err(error)?;
    let table_layout = Layout::contiguous(&[2, 2]).map_err(error)?;
    let table = Some((&table_layout, &table).into());
    // SAFETY: as above; the table has numbers of blocks.
    let starts = Some(unsafe { Starts::new(2, &of_q, &of_k, 1, 2, table) });
    let cached = Attention { k: (&blocks, &zeros).into(), v: (&blocks, &values).into(), starts, ..plain };
    is("blocks", &cached, rows(8.0, 2.0))?;
    let other = open(&target.name).map_err(error)?;
    let foreign = other.alloc(64).map_err(error)?;
    match device.attention(&Attention { dst: (&q, &foreign).into(), ..plain }) {
        Err(error) if error.message().starts_with("crk_attention: dst belongs to another handle") => Ok(()),
        outcome => Err(format!("a buffer of another handle: {outcome:?}")),
    }
}

/// The trials of this suite.
pub fn trials(targets: &'static [Target]) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for target in targets {
        let mut add = |name: String, body: Body| add_trial(&mut trials, "attention", target, name, body);
        for t in FLOATS {
            type Cases = fn(&Target, &str, Type) -> Outcome;
            let all: [(&str, Cases); 17] = [
                ("plain", plain),
                ("windows", windows),
                ("general", general),
                ("starts", |target, name, t| starts(target, name, t, false)),
                ("blocks", |target, name, t| starts(target, name, t, true)),
                ("few", few),
                ("blocks_of_units", blocks_of_units),
                ("behind_many", behind_many),
                ("no_scratch", no_scratch),
                ("special", special),
                ("faint", faint),
                ("widths", widths),
                ("nothing", nothing),
                ("repeated", repeated),
                ("bound", bound),
                ("columns", columns::columns),
                ("columns_across_heads", columns::across_heads),
            ];
            for (what, cases) in all {
                add(format!("{what}_{}", t.name), Box::new(move |target, name| cases(target, name, t)));
            }
            for &shape in LONG {
                let (_, _, (queries, keys), _) = shape;
                let name = format!("long_{queries}x{keys}_{}", t.name);
                add(name, Box::new(move |target, name| long(target, name, t, shape)));
            }
        }
        #[cfg(unix)]
        if target.name.starts_with("cpu") {
            add("far_apart".into(), Box::new(|target, _| far::far_apart(target)));
        }
        if std::env::var_os("CANDLE_ROCM_BIG").is_some_and(|value| value == "1") {
            add("big".into(), Box::new(|target, _| far::big(target)));
        }
        add("captured".into(), Box::new(|target, _| captured(target)));
        add("at_once".into(), Box::new(|target, _| at_once(target)));
        add("safe_layer".into(), Box::new(|target, _| safe_layer(target)));
        add("refused".into(), Box::new(|target, _| refused::refused(target)));
        add("columns_refused".into(), Box::new(|target, _| columns::refused(target)));
    }
    trials
}
