//! Reductions, and ops on rows.
use super::{ALL, FLOATS, Ops, one, three, wrapping};
use candle_core::{D, DType, Device, Result, Tensor};

pub fn add(ops: &mut Ops) {
    macro_rules! reduce {
        ($dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
            $(ops.add($name, $dtypes, |round| {
                let rank = 1 + round.numbers.below(4);
                let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
                let op: fn(&Tensor, usize) -> Result<Tensor> = $op;
                Ok((one(&round.view(&dims)?, |x| op(x, dim))?, $half_ulps, 0.0))
            });)*
        };
    }
    // Sums are exact too: the elements are multiples of a quarter, so no step rounds.
    reduce! { ALL, 0.0,
        "min": |x, dim| x.min(dim),
        "max": |x, dim| x.max_keepdim(dim),
        "argmin": |x, dim| x.argmin(dim),
        "argmax": |x, dim| x.argmax(dim),
        "sum": |x, dim| wrapping([x], |[x]| x.sum(dim)),
    }
    // One device rounds the sum, the factor and their product; the other rounds only the result.
    reduce! { ALL, 4.0,
        "mean": |x, dim| x.to_dtype(if x.dtype().is_int() { DType::F32 } else { x.dtype() })?.mean_keepdim(dim),
    }
    ops.add("sum_all", ALL, |round| {
        let dims = round.any_dims();
        Ok((one(&round.view(&dims)?, |x| wrapping([x], |[x]| x.sum_all()))?, 0.0, 0.0))
    });
    ops.add("sum_two_dims", ALL, |round| {
        let dims = round.dims(4);
        let two = [(0, 1), (0, 3), (1, 2), (3, 2)][round.numbers.below(4)];
        Ok((one(&round.view(&dims)?, |x| wrapping([x], |[x]| x.sum(two)))?, 0.0, 0.0))
    });
    macro_rules! rows {
        ($dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
            $(ops.add($name, $dtypes, |round| {
                let rank = 1 + round.numbers.below(3);
                let dims = round.dims(rank);
                let x = round.rows(&dims)?;
                let last = &dims[rank - 1..];
                let (a, b) = (round.rows(last)?, round.rows(last)?);
                let op: fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor> = $op;
                Ok((three(&x, &a, &b, op)?, round.rounded_once($half_ulps), 0.25))
            });)*
        };
    }
    rows! { &[FLOATS], 8.0, "softmax": |x, _, _| candle_nn::ops::softmax_last_dim(x), }
    // In steps on the CPU, where Candle lacks this op for f64.
    rows! { &[FLOATS], 32.0,
        "rms_norm": |x, a, _| match x.device() {
            Device::Cpu => candle_nn::ops::rms_norm_slow(x, a, 1e-5),
            _ => candle_nn::ops::rms_norm(x, a, 1e-5),
        },
        "layer_norm": |x, a, b| match x.device() {
            Device::Cpu => candle_nn::ops::layer_norm_slow(x, a, b, 1e-1),
            _ => candle_nn::ops::layer_norm(x, a, b, 1e-1),
        },
    }
    ops.add("arg_sort", ALL, |round| {
        let rank = 1 + round.numbers.below(3);
        let dims = round.dims(rank);
        let ascending = round.numbers.below(2) == 0;
        // Equal elements may come in either order, so the sorted elements are compared.
        let sorted = |x: &Tensor| x.gather(&x.arg_sort_last_dim(ascending)?, D::Minus1);
        Ok((one(&round.view(&dims)?, |x| sorted(&x.contiguous()?))?, 0.0, 0.0))
    });
    macro_rules! rope {
        ($($name:literal $thd:literal: $op:path,)*) => {
            $(ops.add($name, &[FLOATS], |round| {
                let (b, h) = (1 + round.numbers.below(3), 1 + round.numbers.below(4));
                let (t, d) = (1 + round.numbers.below(9), 32);
                let x = round.rows(&if $thd { [b, t, h, d] } else { [b, h, t, d] })?;
                let (cos, sin) = (round.rows(&[t, d / 2])?, round.rows(&[t, d / 2])?);
                Ok((three(&x, &cos, &sin, $op)?, 3.0, 4.0))
            });)*
        };
    }
    rope! {
        "rope" false: candle_nn::rotary_emb::rope,
        "rope_i" false: candle_nn::rotary_emb::rope_i,
        "rope_thd" true: candle_nn::rotary_emb::rope_thd,
    }
}
