//! Ops that read or write at positions that ids select.
use super::{ALL, INTEGERS, Ops, Outcome, Round, directly, pair};
use candle_core::{DType, Device, Tensor};

/// Gathers with ids that do not cover all of the other dims.
pub(super) fn gather_of_more(round: &mut Round, places: &[usize]) -> Outcome {
    let dim = round.numbers.below(places.len());
    let other = (dim + 1 + round.numbers.below(places.len() - 1)) % places.len();
    let mut dims = places.to_vec();
    dims[other] += 2;
    let (x, ids) = (round.rows(&dims)?, round.ids(places, dims[dim], DType::U32)?);
    // Candle's CPU device computes row positions from the dims of the ids.
    let gather = |x: &Tensor, ids: &Tensor| match x.device() {
        Device::Cpu => x.narrow(other, 0, places[other])?.contiguous()?.gather(ids, dim),
        _ => x.gather(ids, dim),
    };
    Ok((pair(&x, &ids, gather)?, 0.0, 0.0))
}

pub fn add(ops: &mut Ops) {
    for &ids_dtype in INTEGERS {
        let name = |op: &str| format!("{op}_by_{}_of", ids_dtype.as_str());
        ops.add(&name("index_select"), ALL, move |round| {
            let rank = 1 + round.numbers.below(4);
            let (dims, dim, count) = (round.dims(rank), round.numbers.below(rank), round.numbers.below(9));
            let (x, ids) = (round.view(&dims)?, round.ids(&[count], dims[dim], ids_dtype)?);
            Ok((pair(&x, &ids, |x, ids| x.contiguous()?.index_select(ids, dim))?, 0.0, 0.0))
        });
        ops.add(&name("gather"), ALL, move |round| {
            let rank = 1 + round.numbers.below(4);
            let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
            let mut places = dims.clone();
            places[dim] = 1 + round.numbers.below(9);
            let (x, ids) = (round.rows(&dims)?, round.ids(&places, dims[dim], ids_dtype)?);
            Ok((pair(&x, &ids, |x, ids| x.gather(ids, dim))?, 0.0, 0.0))
        });
        macro_rules! scatter {
            ($($op:ident)*) => {
                $(ops.add(&name(stringify!($op)), ALL, move |round| {
                    let rank = 1 + round.numbers.below(3);
                    let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
                    let mut places = dims.clone();
                    places[dim] = 1 + round.numbers.below(9);
                    let ids = round.ids(&places, dims[dim], ids_dtype)?;
                    let (x, src) = (round.rows(&dims)?, round.rows(&places)?);
                    // Every addition is rounded, on the CPU too.
                    let both = directly([&x, &ids, &src], |[x, ids, src]| x.contiguous()?.$op(ids, src, dim))?;
                    Ok((both, 0.0, 0.0))
                });)*
            };
        }
        scatter! { scatter scatter_add }
        ops.add(&name("index_add"), ALL, move |round| {
            let rank = 1 + round.numbers.below(3);
            let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
            let mut rows = dims.clone();
            rows[dim] = 1 + round.numbers.below(9);
            let ids = round.ids(&[rows[dim]], dims[dim], ids_dtype)?;
            // The sum starts from a view with a start offset, which the CUDA backend handles wrongly.
            let (x, src) = (round.view(&dims)?, round.rows(&rows)?);
            Ok((directly([&x, &ids, &src], |[x, ids, src]| x.index_add(ids, src, dim))?, 0.0, 0.0))
        });
    }
    ops.add("gather_of_more", ALL, |round| {
        let rank = 2 + round.numbers.below(3);
        let places = round.dims(rank);
        gather_of_more(round, &places)
    });
}
