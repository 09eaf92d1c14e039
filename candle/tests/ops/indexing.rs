//! Ops that read or write at the places that ids name.
use super::{FLOATS, INTEGERS, Ops, Outcome, Round, pair, three};
use candle_core::{DType, Device, Tensor};

/// Elements by ids that do not lead to all of the other dims.
pub(super) fn gather_of_more(round: &mut Round, places: &[usize]) -> Outcome {
    let dim = round.numbers.below(places.len());
    let other = (dim + 1 + round.numbers.below(places.len() - 1)) % places.len();
    let mut dims = places.to_vec();
    dims[other] += 2;
    let (x, ids) = (round.rows(&dims)?, round.ids(places, dims[dim], DType::U32)?);
    // Candle's CPU device counts rows by the ids' dims.
    let gather = |x: &Tensor, ids: &Tensor| match x.device() {
        Device::Cpu => x.narrow(other, 0, places[other])?.contiguous()?.gather(ids, dim),
        _ => x.gather(ids, dim),
    };
    Ok((pair(&x, &ids, gather)?, 0.0, 0.0))
}

pub fn add(ops: &mut Ops) {
    ops.add("index_select", &[FLOATS, INTEGERS], |round| {
        let rank = 1 + round.numbers.below(4);
        let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
        let (count, ids_dtype) = (round.numbers.below(9), INTEGERS[round.numbers.below(3)]);
        let (x, ids) = (round.view(&dims)?, round.ids(&[count], dims[dim], ids_dtype)?);
        Ok((pair(&x, &ids, |x, ids| x.contiguous()?.index_select(ids, dim))?, 0.0, 0.0))
    });
    ops.add("gather", &[FLOATS, INTEGERS], |round| {
        let rank = 1 + round.numbers.below(4);
        let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
        let mut places = dims.clone();
        places[dim] = 1 + round.numbers.below(9);
        let ids_dtype = INTEGERS[round.numbers.below(3)];
        let (x, ids) = (round.rows(&dims)?, round.ids(&places, dims[dim], ids_dtype)?);
        Ok((pair(&x, &ids, |x, ids| x.gather(ids, dim))?, 0.0, 0.0))
    });
    ops.add("gather_of_more", &[FLOATS, INTEGERS], |round| {
        let rank = 2 + round.numbers.below(3);
        let places = round.dims(rank);
        gather_of_more(round, &places)
    });
    macro_rules! scatter {
        ($($name:literal: $op:ident,)*) => {
            $(ops.add($name, &[FLOATS, INTEGERS], |round| {
                let rank = 1 + round.numbers.below(3);
                let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
                let mut places = dims.clone();
                places[dim] = 1 + round.numbers.below(9);
                let ids = round.ids(&places, dims[dim], DType::U32)?;
                let (x, src) = (round.rows(&dims)?, round.rows(&places)?);
                Ok((three(&x, &ids, &src, |x, ids, src| x.contiguous()?.$op(ids, src, dim))?, 1.0, 1.0))
            });)*
        };
    }
    scatter! { "scatter": scatter, "scatter_add": scatter_add, }
    ops.add("index_add", &[FLOATS, INTEGERS], |round| {
        let rank = 1 + round.numbers.below(3);
        let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
        let mut rows = dims.clone();
        rows[dim] = 1 + round.numbers.below(9);
        let ids = round.ids(&[rows[dim]], dims[dim], DType::U32)?;
        // The sum begins with a view that has a start offset, which the CUDA backend gets wrong.
        let (x, src) = (round.view(&dims)?, round.rows(&rows)?);
        Ok((three(&x, &ids, &src, |x, ids, src| x.index_add(ids, src, dim))?, 1.0, 1.0))
    });
}
