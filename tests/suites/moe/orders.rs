//! The order of the lists changes no bit of a mixture's results: trials of the suite `moe`. Up to 8192 tokens.
use super::{Problem, Sizes, UNTOUCHED, Way, Weights, expert_ids, own_handle, words};
use crate::support::number::{BF16, F16, F32, Type};
use crate::support::property::{Outcome, each_case};
use crate::support::quantized::Format;
use crate::support::{Guarded, Target, succeeded};

/// Experts, rows, k and tokens.
const SIZES: [[usize; 4]; 3] = [[2, 3, 256, 5], [5, 64, 512, 40], [3, 65, 256, 130]];
const MANY_TOKENS: [usize; 4] = [4, 2, 256, 8192];

/// Positions of the lists: as the problem has them, by expert, by expert from the last on, and by token.
fn orders(ids: &[i32], sorted: &[i32]) -> [Vec<usize>; 4] {
    let given: Vec<usize> = (0..ids.len()).collect();
    let mut by_expert = given.clone();
    by_expert.sort_by_key(|m| ids[*m]);
    let mut by_token = given.clone();
    by_token.sort_by_key(|m| sorted[*m]);
    let last_first = by_expert.iter().rev().copied().collect();
    [given, by_expert, last_first, by_token]
}

fn one_order(target: &Target, problem: &mut Problem, order: &[usize]) -> Result<Vec<u8>, String> {
    let [sorted, ids] = [&problem.sorted, &problem.ids].map(|list| {
        let list: Vec<i32> = order.iter().map(|m| list[*m]).collect();
        Guarded::new(&target.device, &words(&list), 4).expect("device memory")
    });
    (problem.call.sorted, problem.call.ids) = (sorted.view(), ids.view());
    let bytes = problem.call.dst.bytes;
    problem.dst.write(&vec![UNTOUCHED; bytes]).map_err(|error| error.to_string())?;
    succeeded(problem.call.make(target.device.raw()))?;
    problem.dst.read()
}

/// Each size without scales and with them, and many tokens without.
fn orders_of(target: &Target, name: &str, way: Way, weights_are: Weights, types: &[Type]) -> Outcome {
    let target = &own_handle(target)?;
    each_case(target, "moe", name, SIZES.len() * 2 + 1, |rng, index| {
        let [experts, rows, k, tokens] = *SIZES.get(index / 2).unwrap_or(&MANY_TOKENS);
        let (t, scaled) = (types[index % types.len()], index % 2 == 1);
        let s = Sizes { experts, rows, k, tokens, topk: 1, scaled };
        let ids = expert_ids(rng, 2, experts, tokens); // in random order
        let mut problem = Problem::new(target, rng, way, weights_are, t, s, ids);
        let orders = orders(&problem.ids, &problem.sorted);
        let first = one_order(target, &mut problem, &orders[0])?;
        for (i, order) in orders.iter().enumerate().skip(1) {
            let got = one_order(target, &mut problem, order)?;
            if let Some(at) = got.iter().zip(&first).position(|(a, b)| a != b) {
                let (token, row) = (at / problem.to.bytes / rows, at / problem.to.bytes % rows);
                let what = format!("{experts} experts of {rows} x {k}, {tokens} tokens, scaled: {scaled}, {}", t.name);
                return Err(format!("{what}: in order {i} token {token}, row {row} has other bits"));
            }
        }
        if first.iter().all(|byte| *byte == UNTOUCHED) { Err("nothing was written".into()) } else { Ok(()) }
    })
}

/// The trials, by name.
pub fn trials(mut add: impl FnMut(String, super::Body)) {
    let blocks = |name: &str| Weights::Blocks(Format::named(name).expect("a format"));
    let mut trial = |name: &str, way: Way, weights_are: Weights, types: &'static [Type]| {
        let body = move |target: &'static Target, name: &str| orders_of(target, name, way, weights_are, types);
        add(format!("orders/{name}"), Box::new(body));
    };
    trial("gguf_q8_0", Way::Gguf, blocks("q8_0"), &[F32, F16, BF16]);
    trial("gguf_q4_K", Way::Gguf, blocks("q4_K"), &[F32, F16, BF16]);
    trial("prefill_q4_K", Way::Prefill, blocks("q4_K"), &[F16, BF16]);
    trial("gemm", Way::Gemm, Weights::Numbers, &[F16, BF16]);
}
