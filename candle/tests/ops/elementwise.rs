//! Ops on elements, and copies.
use super::{F8, FLOATS, INTEGERS, Ops, SHORT, one, pair, three};
use candle_core::{D, Result, Tensor};
use candle_rocm_tests::Both;

macro_rules! unary {
    ($ops:ident, $dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
        $($ops.add($name, $dtypes, |round| {
            let dims = round.any_dims();
            let (x, op): (_, fn(&Tensor) -> Result<Tensor>) = (round.view(&dims)?, $op);
            Ok((one(&x, op)?, $half_ulps, 0.25))
        });)*
    };
}

macro_rules! binary {
    ($ops:ident, $dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
        $($ops.add($name, $dtypes, |round| {
            let dims = round.any_dims();
            let (a, b) = (round.view(&dims)?, round.view(&dims)?);
            let op: fn(&Tensor, &Tensor) -> Result<Tensor> = $op;
            Ok((pair(&a, &b, op)?, $half_ulps, 0.25))
        });)*
    };
}

pub fn add(ops: &mut Ops) {
    // Exact, in every dtype that has them.
    unary! { ops, &[FLOATS, F8, INTEGERS], 0.0,
        "abs": |x| x.abs(),
        "relu": |x| x.relu(),
        "sign": |x| x.sign(),
        "ceil": |x| x.ceil(),
        "floor": |x| x.floor(),
        "round": |x| x.round(),
    }
    unary! { ops, &[FLOATS, F8, INTEGERS, SHORT], 0.0,
        "contiguous": |x| x.contiguous(),
        "force_contiguous": |x| x.force_contiguous(),
        "zeros_like": |x| x.zeros_like(),
        "ones_like": |x| x.ones_like(),
        "cat": |x| Tensor::cat(&[&x.unsqueeze(0)?, &x.unsqueeze(0)?], 0),
        "stack_last": |x| Tensor::stack(&[x, x], D::Minus1),
    }
    unary! { ops, &[FLOATS, F8], 2.0,
        "neg": |x| x.neg(),
        "sqr": |x| x.sqr(),
        "exp": |x| x.exp(),
        "sin": |x| x.sin(),
        "cos": |x| x.cos(),
        "tanh": |x| x.tanh(),
        "sqrt": |x| x.abs()?.sqrt(),
        "log": |x| (x.abs()? + 0.25)?.log(),
        "recip": |x| (x.abs()? + 0.25)?.recip(),
    }
    unary! { ops, &[FLOATS], 8.0,
        "erf": |x| x.erf(),
        "gelu": |x| x.gelu(),
        "gelu_erf": |x| x.gelu_erf(),
        "silu": |x| x.silu(),
        "sigmoid": candle_nn::ops::sigmoid,
        "elu": |x| x.elu(0.5),
        "powf": |x| (x.abs()? + 0.25)?.powf(1.75),
    }
    unary! { ops, &[FLOATS, F8, INTEGERS], 1.0, "affine": |x| x.affine(2.0, 3.0), }
    binary! { ops, &[FLOATS, F8, INTEGERS], 1.0,
        "add": |a, b| a.add(b),
        "mul": |a, b| a.mul(b),
        "maximum": |a, b| a.maximum(b),
        "minimum": |a, b| a.minimum(b),
    }
    binary! { ops, &[FLOATS, F8], 1.0,
        "sub": |a, b| a.sub(b),
        "div": |a, b| a.div(&(b.abs()? + 0.25)?),
    }
    binary! { ops, &[FLOATS, F8, INTEGERS, SHORT], 0.0,
        "eq": |a, b| a.eq(b),
        "ne": |a, b| a.ne(b),
        "lt": |a, b| a.lt(b),
        "le": |a, b| a.le(b),
        "gt": |a, b| a.gt(b),
        "ge": |a, b| a.ge(b),
    }
    ops.add("to_dtype", &[FLOATS, F8, INTEGERS], |round| {
        let targets = [FLOATS, F8, INTEGERS].concat();
        let (dims, to) = (round.any_dims(), targets[round.numbers.below(targets.len())]);
        // Negative numbers to unsigned dtypes are where Candle's two backends differ from each other.
        Ok((one(&round.view(&dims)?, |x| x.abs()?.to_dtype(to))?, 0.0, 0.0))
    });
    ops.add("where_cond", &[FLOATS, F8, INTEGERS], |round| {
        let (dims, condition) = (round.any_dims(), INTEGERS[round.numbers.below(3)]);
        let ids = round.view_of(&dims, condition)?;
        let (a, b) = (round.view(&dims)?, round.view(&dims)?);
        Ok((three(&ids, &a, &b, |ids, a, b| ids.where_cond(a, b))?, 0.0, 0.0))
    });
    ops.add("slice_set", &[FLOATS, F8, INTEGERS, SHORT], |round| {
        let rank = 1 + round.numbers.below(3);
        let dims = round.dims(rank);
        let dim = round.numbers.below(rank);
        let mut larger = dims.clone();
        larger[dim] += 3;
        let (dst, src) = (Both::numbers(&mut round.numbers, &larger, round.dtype, &round.device)?, round.rows(&dims)?);
        let set = |dst: &Tensor, src: &Tensor| -> Result<Tensor> {
            dst.slice_set(&src.contiguous()?, dim, 2)?;
            Ok(dst.clone())
        };
        Ok((pair(&dst, &src, set)?, 0.0, 0.0))
    });
}
