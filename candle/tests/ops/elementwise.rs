//! Element-wise ops, and copies.
use super::{ALL, F8, FLOATS, INTEGERS, Ops, one, pair, three, wrapping};
use candle_core::{D, DType, Result, Tensor};
use candle_rocm_tests::Both;

macro_rules! unary {
    ($ops:ident, $dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
        $($ops.add($name, $dtypes, |round| {
            let dims = round.any_dims();
            let (x, op): (_, fn(&Tensor) -> Result<Tensor>) = (round.view(&dims)?, $op);
            // For 16 bits every step of a formula is rounded; for 8 bits only the result.
            let half_ulps = if round.dtype == DType::F8E4M3 { round.rounded_once($half_ulps) } else { $half_ulps };
            Ok((one(&x, op)?, half_ulps, 0.25))
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
    // These are exact in every dtype that supports them.
    unary! { ops, ALL, 0.0,
        "abs": |x| x.abs(),
        "relu": |x| x.relu(),
        "sign": |x| x.sign(),
        "ceil": |x| x.ceil(),
        "floor": |x| x.floor(),
        "round": |x| x.round(),
        "copy": |x| x.copy(),
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
    // Integers give zeros, as on the CPU.
    unary! { ops, ALL, 8.0,
        "erf": |x| x.erf(),
        "gelu": |x| x.gelu(),
        "gelu_erf": |x| x.gelu_erf(),
        "silu": |x| x.silu(),
    }
    unary! { ops, &[FLOATS, F8], 8.0,
        "sigmoid": candle_nn::ops::sigmoid,
        "elu": |x| x.elu(0.5),
        "powf": |x| (x.abs()? + 0.25)?.powf(1.75),
    }
    unary! { ops, ALL, 1.0, "affine": |x| x.affine(2.0, 3.0), }
    binary! { ops, ALL, 1.0,
        "add": |a, b| a.add(b),
        "sub": |a, b| wrapping([a, b], |[a, b]| a.sub(b)),
        "mul": |a, b| a.mul(b),
        "div": |a, b| a.div(&(b.abs()? + 1.25)?),
        "maximum": |a, b| a.maximum(b),
        "minimum": |a, b| a.minimum(b),
    }
    binary! { ops, ALL, 0.0,
        "eq": |a, b| a.eq(b),
        "ne": |a, b| a.ne(b),
        "lt": |a, b| a.lt(b),
        "le": |a, b| a.le(b),
        "gt": |a, b| a.gt(b),
        "ge": |a, b| a.ge(b),
    }
    for to in ALL.concat() {
        ops.add(&format!("to_{}_of", to.as_str()), ALL, move |round| {
            let dims = round.any_dims();
            Ok((one(&round.view(&dims)?, |x| x.to_dtype(to))?, 0.0, 0.0))
        });
    }
    for &condition in INTEGERS {
        ops.add(&format!("where_{}_of", condition.as_str()), ALL, move |round| {
            let dims = round.any_dims();
            let ids = round.view_of(&dims, condition)?;
            let (a, b) = (round.view(&dims)?, round.view(&dims)?);
            Ok((three(&ids, &a, &b, |ids, a, b| ids.where_cond(a, b))?, 0.0, 0.0))
        });
    }
    ops.add("const_set", ALL, |round| {
        let rank = 1 + round.numbers.below(4);
        let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
        let first = round.numbers.below(dims[dim]);
        let count = 1 + round.numbers.below(dims[dim] - first);
        let set = |x: &Tensor| -> Result<Tensor> {
            let x = x.force_contiguous()?;
            x.narrow(dim, first, count)?.transpose(0, rank - 1)?.one_set()?;
            Ok(x)
        };
        Ok((one(&round.view(&dims)?, set)?, 0.0, 0.0))
    });
    ops.add("slice_set", ALL, |round| {
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
