//! Tensors with more dims than launchers accept.
use super::{ALL, FLOATS, Ops, ROUNDS, one, pair, three};
use candle_core::{DType, Device, Result, Tensor};

pub fn add(ops: &mut Ops) {
    const SOME: &[&[DType]] = &[&[DType::F32, DType::BF16]];
    macro_rules! map {
        ($dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
            $(ops.compare(concat!("many_dims/", $name), $dtypes, ROUNDS, |round| {
                let dims = round.many_dims();
                let (x, dim) = (round.many(&dims)?, round.numbers.below(dims.len()));
                let op: fn(&Tensor, usize) -> Result<Tensor> = $op;
                Ok((one(&x, |x| op(x, dim))?, $half_ulps, 0.25))
            });)*
        };
    }
    map! { ALL, 0.0,
        "contiguous": |x, _| x.force_contiguous(),
        "cat": |x, dim| Tensor::cat(&[x, x], dim),
        "transposed": |x, dim| x.transpose(0, dim)?.contiguous(),
    }
    map! { SOME, 8.0,
        "exp": |x, _| x.exp(),
        "sigmoid": |x, _| candle_nn::ops::sigmoid(x),
        "elu": |x, _| x.elu(0.5),
        "softmax": |x, _| candle_nn::ops::softmax_last_dim(&x.contiguous()?),
    }
    map! { SOME, 0.0,
        "affine": |x, _| x.affine(2.0, 3.0),
        "to_dtype": |x, _| x.to_dtype(DType::F64),
        "max": |x, dim| x.max(dim),
        "argmin": |x, dim| x.argmin_keepdim(dim),
        "sum": |x, dim| x.sum(dim),
        "sum_all": |x, _| x.sum_all(),
        "sort": |x, _| Ok(x.contiguous()?.sort_last_dim(true)?.0),
        "ones_in_place": |x, dim| {
            let x = x.force_contiguous()?;
            let turned: Vec<usize> = (0..x.rank()).rev().collect();
            x.permute(turned.as_slice())?.narrow(dim, 0, 1)?.one_set()?;
            Ok(x)
        },
    }
    ops.compare("many_dims/sum_of_several", SOME, ROUNDS, |round| {
        let dims = round.many_dims();
        let several: Vec<usize> = (0..dims.len()).filter(|_| round.numbers.below(2) == 0).collect();
        Ok((one(&round.many(&dims)?, |x| x.sum(several.as_slice()))?, 0.0, 0.0))
    });
    macro_rules! zip {
        ($($name:literal: $op:expr,)*) => {
            $(ops.compare(concat!("many_dims/", $name), SOME, ROUNDS, |round| {
                let dims = round.many_dims();
                let (a, b) = (round.many(&dims)?, round.many(&dims)?);
                let op: fn(&Tensor, &Tensor) -> Result<Tensor> = $op;
                // Candle's CPU device panics at more than 8 dims.
                let op = |a: &Tensor, b: &Tensor| match a.device() {
                    Device::Cpu => op(&a.flatten_all()?, &b.flatten_all()?)?.reshape(dims.as_slice()),
                    _ => op(a, b),
                };
                Ok((pair(&a, &b, op)?, 0.0, 0.0))
            });)*
        };
    }
    zip! {
        "add": |a, b| a.add(b),
        "maximum": |a, b| a.maximum(b),
        "lt": |a, b| a.lt(b),
        "where": |a, b| a.gt(b)?.where_cond(a, b),
    }
    ops.compare("many_dims/matmul", &[FLOATS], ROUNDS, |round| {
        let mut batch = round.many_dims();
        batch.truncate(batch.len() - 2);
        let (m, n, k) = (1 + round.numbers.below(5), 1 + round.numbers.below(5), 1 + round.numbers.below(9));
        let (a, b) = (round.many(&[&batch[..], &[m, k]].concat())?, round.many(&[&batch[..], &[k, n]].concat())?);
        // Candle's CPU device does not support such batches.
        let matmul = |a: &Tensor, b: &Tensor| match a.device() {
            Device::Cpu => {
                a.reshape(((), m, k))?.matmul(&b.reshape(((), k, n))?)?.reshape([&batch[..], &[m, n]].concat())
            }
            _ => a.matmul(b),
        };
        Ok((pair(&a, &b, matmul)?, 0.0, 0.0))
    });
    ops.compare("many_dims/index_select", SOME, ROUNDS, |round| {
        let dims = round.many_dims();
        let dim = round.numbers.below(dims.len());
        let (x, ids) = (round.many(&dims)?, round.ids(&[5], dims[dim], DType::U32)?);
        Ok((pair(&x, &ids, |x, ids| x.index_select(ids, dim))?, 0.0, 0.0))
    });
    ops.compare("many_dims/index_add", SOME, ROUNDS, |round| {
        let mut dims = round.many_dims();
        let dim = round.numbers.below(dims.len());
        let (x, ids) = (round.many(&dims)?, round.ids(&[4], dims[dim], DType::U32)?);
        dims[dim] = 4;
        let src = round.rows(&dims)?;
        Ok((three(&x, &ids, &src, |x, ids, src| x.index_add(ids, src, dim))?, 0.0, 0.0))
    });
    ops.compare("many_dims/gather_of_more", SOME, ROUNDS, |round| {
        let places = round.many_dims();
        super::indexing::gather_of_more(round, &places)
    });
    macro_rules! by_ids {
        ($($name:literal: $op:expr,)*) => {
            $(ops.compare(concat!("many_dims/", $name), SOME, ROUNDS, |round| {
                let dims = round.many_dims();
                let dim = round.numbers.below(dims.len());
                let mut places = dims.clone();
                places[dim] = 4;
                let (x, src) = (round.many(&dims)?, round.rows(&places)?);
                let ids = round.ids(&places, dims[dim], DType::U32)?;
                let op: fn(&Tensor, &Tensor, &Tensor, usize) -> Result<Tensor> = $op;
                Ok((three(&x, &ids, &src, |x, ids, src| op(x, ids, src, dim))?, 0.0, 0.0))
            });)*
        };
    }
    by_ids! {
        "gather": |x, ids, _, dim| x.gather(ids, dim),
        "scatter": |x, ids, src, dim| x.scatter(ids, src, dim),
        "scatter_add": |x, ids, src, dim| x.scatter_add(ids, src, dim),
    }
}
