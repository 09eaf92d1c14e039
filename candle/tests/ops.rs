//! Every op on every dtype: a ROCm device beside Candle's CPU device, on random views.
use candle_core::{D, DType, Device, Result, Tensor};
use candle_rocm_tests::{Both, Numbers};
use libtest_mimic::{Arguments, Failed, Trial};

const FLOATS: &[DType] = &[DType::BF16, DType::F16, DType::F32, DType::F64];
const INTEGERS: &[DType] = &[DType::U8, DType::U32, DType::I64];
const SHORT: &[DType] = &[DType::I16, DType::I32];
const F8: &[DType] = &[DType::F8E4M3];
/// Seeds of a trial.
const ROUNDS: u64 = 12;

/// Half a unit in the last place of a number of the dtype, relative to it.
fn half_ulp(dtype: DType) -> f64 {
    match dtype {
        DType::F8E4M3 => 2f64.powi(-4),
        DType::BF16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        DType::F32 => 2f64.powi(-24),
        DType::F64 => 2f64.powi(-53),
        _ => 0.0,
    }
}

/// What a round of a trial has to work with.
struct Round {
    numbers: Numbers,
    dtype: DType,
    device: Device,
}

impl Round {
    fn dims(&mut self, rank: usize) -> Vec<usize> {
        const SIZES: [usize; 8] = [1, 2, 3, 5, 7, 16, 33, 64];
        (0..rank).map(|_| SIZES[self.numbers.below(if rank > 3 { 5 } else { SIZES.len() })]).collect()
    }

    /// Dims of rank 0 to 6.
    fn any_dims(&mut self) -> Vec<usize> {
        let rank = self.numbers.below(7);
        self.dims(rank)
    }

    fn view(&mut self, dims: &[usize]) -> Result<Both> {
        Both::view(&mut self.numbers, dims, self.dtype, &self.device)
    }

    fn view_of(&mut self, dims: &[usize], dtype: DType) -> Result<Both> {
        Both::view(&mut self.numbers, dims, dtype, &self.device)
    }

    /// A contiguous tensor that begins within its storage.
    fn rows(&mut self, dims: &[usize]) -> Result<Both> {
        let mut stored = dims.to_vec();
        stored[0] += 2;
        let first = dims[0];
        Both::numbers(&mut self.numbers, &stored, self.dtype, &self.device)?.map(|x| x.narrow(0, 1, first))
    }

    /// Dims of rank 9 to 12.
    fn many_dims(&mut self) -> Vec<usize> {
        let rank = 9 + self.numbers.below(4);
        (0..rank).map(|_| [1, 2, 2, 2, 2, 3][self.numbers.below(6)]).collect()
    }

    /// A view of so many dims: turned, so that they can be joined to fewer, or in any order, so that mostly they cannot; with a start
    /// offset and, at times, a dim that is broadcast.
    fn many(&mut self, dims: &[usize]) -> Result<Both> {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if self.numbers.below(2) == 0 {
            order.rotate_left(self.numbers.below(dims.len()));
        } else {
            order.reverse();
            order.swap(self.numbers.below(dims.len()), self.numbers.below(dims.len()));
        }
        let repeated = (self.numbers.below(3) == 0).then(|| self.numbers.below(dims.len()));
        let mut stored: Vec<usize> = order.iter().map(|&i| if repeated == Some(i) { 1 } else { dims[i] }).collect();
        stored[0] += 1;
        let mut places = vec![0; dims.len()];
        for (place, &i) in order.iter().enumerate() {
            places[i] = place;
        }
        Both::numbers(&mut self.numbers, &stored, self.dtype, &self.device)?
            .map(|x| x.narrow(0, 1, stored[0] - 1)?.permute(places.as_slice())?.broadcast_as(dims))
    }

    /// Ids below `end`, contiguous.
    fn ids(&mut self, dims: &[usize], end: usize, dtype: DType) -> Result<Both> {
        let count = dims.iter().product();
        let values: Vec<u32> = (0..count).map(|_| self.numbers.below(end) as u32).collect();
        Both::of(Tensor::from_vec(values, dims, &Device::Cpu)?.to_dtype(dtype)?, &self.device)
    }
}

/// What `op` makes of the tensors on the ROCm device, and what the CPU makes of contiguous copies of them. There floats of 16 and of 8
/// bits go through f32 and are rounded once, as on the device: Candle's CPU rounds every step of a sum, has no products of bf16, and
/// recurses without end in some ops of F8E4M3; and its convolutions and bilinear upsampling take some views for contiguous.
fn apply<const N: usize>(inputs: [&Both; N], op: impl Fn([&Tensor; N]) -> Result<Tensor>) -> Result<Both> {
    let rocm = op(inputs.map(|x| &x.rocm))?;
    let narrow = |x: &Both| matches!(x.cpu.dtype(), DType::BF16 | DType::F16 | DType::F8E4M3);
    let mut copies = Vec::with_capacity(N);
    for x in inputs {
        let copy = x.cpu.force_contiguous()?;
        copies.push(if narrow(x) { copy.to_dtype(DType::F32)? } else { copy });
    }
    let cpu = op(std::array::from_fn(|i| &copies[i]))?;
    let cpu = if inputs.into_iter().any(narrow) { cpu.to_dtype(rocm.dtype())? } else { cpu };
    Ok(Both { cpu, rocm })
}

fn one(a: &Both, op: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Both> {
    apply([a], |[a]| op(a))
}

fn pair(a: &Both, b: &Both, op: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Both> {
    apply([a, b], |[a, b]| op(a, b))
}

fn three(a: &Both, b: &Both, c: &Both, op: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>) -> Result<Both> {
    apply([a, b, c], |[a, b, c]| op(a, b, c))
}

/// A result, how many half units in the last place of its dtype it may be away, and what to add to its magnitude for that.
type Outcome = Result<(Both, f64, f64)>;
type Op = fn(&mut Round) -> Outcome;

struct Ops {
    trials: Vec<Trial>,
    device: Device,
}

impl Ops {
    fn add(&mut self, name: &str, dtypes: &[&[DType]], op: Op) {
        for &dtype in dtypes.iter().copied().flatten() {
            let device = self.device.clone();
            let run = move || {
                for seed in 0..ROUNDS {
                    let mut round = Round { numbers: Numbers::new(seed), dtype, device: device.clone() };
                    let outcome = op(&mut round).and_then(|(both, half_ulps, floor)| {
                        both.difference(half_ulps * half_ulp(both.cpu.dtype()), floor)
                    });
                    match outcome {
                        Ok(None) => {}
                        Ok(Some(difference)) => return Err(Failed::from(format!("seed {seed}: {difference}"))),
                        Err(error) => return Err(Failed::from(format!("seed {seed}: {error}"))),
                    }
                }
                Ok(())
            };
            self.trials.push(Trial::test(format!("ops/{name}_{}", dtype.as_str()), run));
        }
    }
}

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

fn elementwise(ops: &mut Ops) {
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

fn reductions(ops: &mut Ops) {
    macro_rules! reduce {
        ($dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
            $(ops.add($name, $dtypes, |round| {
                let rank = 1 + round.numbers.below(4);
                let (dims, dim) = (round.dims(rank), round.numbers.below(rank));
                let op: fn(&Tensor, usize) -> Result<Tensor> = $op;
                Ok((one(&round.view(&dims)?, |x| op(x, dim))?, $half_ulps, 8.0))
            });)*
        };
    }
    reduce! { &[FLOATS, INTEGERS], 0.0,
        "min": |x, dim| x.min(dim),
        "max": |x, dim| x.max_keepdim(dim),
        "argmin": |x, dim| x.argmin(dim),
        "argmax": |x, dim| x.argmax(dim),
    }
    // Not of u8, whose sums overflow on the CPU.
    reduce! { &[FLOATS, &[DType::U32, DType::I64]], 16.0,
        "sum": |x, dim| x.sum(dim),
        "mean": |x, dim| x.to_dtype(if x.dtype().is_int() { DType::F32 } else { x.dtype() })?.mean_keepdim(dim),
    }
    ops.add("sum_all", &[FLOATS, &[DType::U32, DType::I64]], |round| {
        let dims = round.any_dims();
        Ok((one(&round.view(&dims)?, |x| x.sum_all())?, 64.0, 64.0))
    });
    ops.add("sum_two_dims", &[FLOATS, &[DType::U32, DType::I64]], |round| {
        let dims = round.dims(4);
        let two = [(0, 1), (0, 3), (1, 2), (3, 2)][round.numbers.below(4)];
        Ok((one(&round.view(&dims)?, |x| x.sum(two))?, 16.0, 8.0))
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
                Ok((three(&x, &a, &b, op)?, $half_ulps, 1.0))
            });)*
        };
    }
    rows! { FLOATS_ONCE, 16.0, "softmax": |x, _, _| candle_nn::ops::softmax_last_dim(x), }
    rows! { &[&[DType::BF16, DType::F16, DType::F32]], 32.0,
        "rms_norm": |x, a, _| candle_nn::ops::rms_norm(x, a, 1e-5),
        "layer_norm": |x, a, b| candle_nn::ops::layer_norm(x, a, b, 1e-1),
    }
    ops.add("arg_sort", &[FLOATS, INTEGERS], |round| {
        let rank = 1 + round.numbers.below(3);
        let dims = round.dims(rank);
        let ascending = round.numbers.below(2) == 0;
        // Of equal elements either order is right, so the elements are compared.
        let sorted = |x: &Tensor| x.gather(&x.arg_sort_last_dim(ascending)?, D::Minus1);
        Ok((one(&round.view(&dims)?, |x| sorted(&x.contiguous()?))?, 0.0, 0.0))
    });
    macro_rules! rope {
        ($($name:literal $thd:literal: $op:path,)*) => {
            $(ops.add($name, &[FLOATS], |round| {
                let (b, h, t, d) = (1 + round.numbers.below(3), 1 + round.numbers.below(4), 1 + round.numbers.below(9), 32);
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
const FLOATS_ONCE: &[&[DType]] = &[FLOATS];

fn indexing(ops: &mut Ops) {
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

fn products(ops: &mut Ops) {
    ops.add("matmul", &[FLOATS], |round| {
        let (rank, mut dims) = (2 + round.numbers.below(3), round.dims(5));
        let (m, n, k) = (dims.pop(), dims.pop(), 1 + round.numbers.below(70));
        let (m, n, batch) = (m.unwrap_or(1), n.unwrap_or(1), dims[..rank - 2].to_vec());
        let (lhs, rhs) = ([batch.as_slice(), &[m, k]].concat(), [batch.as_slice(), &[k, n]].concat());
        let (a, b) = (round.rows(&lhs)?, round.rows(&[batch.as_slice(), &[n, k]].concat())?);
        let transposed = round.numbers.below(2) == 0;
        let b = if transposed { b.map(|b| b.transpose(D::Minus1, D::Minus2))? } else { round.rows(&rhs)? };
        Ok((pair(&a, &b, |a, b| a.matmul(b))?, 4.0, 4.0 * k as f64))
    });
    ops.add("conv1d", &[FLOATS], |round| {
        let (b, c_in, c_out, groups) = (1 + round.numbers.below(3), 4, 6, 1 + round.numbers.below(2));
        let (length, k) = (12 + round.numbers.below(20), 1 + round.numbers.below(4));
        let (padding, stride, dilation) =
            (round.numbers.below(3), 1 + round.numbers.below(3), 1 + round.numbers.below(2));
        let (x, w) = (round.view(&[b, c_in, length])?, round.view(&[c_out, c_in / groups, k])?);
        Ok((pair(&x, &w, |x, w| x.conv1d(w, padding, stride, dilation, groups))?, 4.0, 64.0))
    });
    ops.add("conv2d", &[FLOATS], |round| {
        let (b, c_in, c_out, groups) = (1 + round.numbers.below(2), 4, 6, 1 + round.numbers.below(2));
        let (h, w, k) = (6 + round.numbers.below(9), 6 + round.numbers.below(9), 1 + round.numbers.below(3));
        let (padding, stride, dilation) =
            (round.numbers.below(3), 1 + round.numbers.below(3), 1 + round.numbers.below(2));
        let (x, w) = (round.view(&[b, c_in, h, w])?, round.view(&[c_out, c_in / groups, k, k])?);
        Ok((pair(&x, &w, |x, w| x.conv2d(w, padding, stride, dilation, groups))?, 4.0, 128.0))
    });
    ops.add("conv_transpose1d", &[FLOATS], |round| {
        let (length, k, stride) = (3 + round.numbers.below(9), 1 + round.numbers.below(4), 1 + round.numbers.below(3));
        let (padding, output_padding) = (round.numbers.below(k), round.numbers.below(stride));
        let (x, w) = (round.view(&[2, 4, length])?, round.view(&[4, 3, k])?);
        // Batch by batch on the CPU, whose way over columns is wrong from the second on.
        let batch = |x: &Tensor, w: &Tensor| x.conv_transpose1d(w, padding, output_padding, stride, 1, 1);
        let op = |x: &Tensor, w: &Tensor| match x.device() {
            Device::Cpu => Tensor::cat(&[batch(&x.narrow(0, 0, 1)?, w)?, batch(&x.narrow(0, 1, 1)?, w)?], 0),
            _ => batch(x, w),
        };
        Ok((pair(&x, &w, op)?, 8.0, 64.0))
    });
    ops.add("conv_transpose2d", &[FLOATS], |round| {
        let (h, w, k, stride) = (3 + round.numbers.below(5), 4, 1 + round.numbers.below(3), 1 + round.numbers.below(3));
        let (padding, output_padding) = (round.numbers.below(k), round.numbers.below(stride));
        let (x, w) = (round.view(&[2, 4, h, w])?, round.view(&[4, 3, k, k])?);
        Ok((pair(&x, &w, |x, w| x.conv_transpose2d(w, padding, output_padding, stride, 1))?, 8.0, 128.0))
    });
    ops.add("max_pool2d", &[FLOATS, INTEGERS], |round| {
        let window = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        let stride = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        Ok((one(&round.view(&[2, 3, 9, 7])?, |x| x.max_pool2d_with_stride(window, stride))?, 0.0, 0.0))
    });
    ops.add("avg_pool2d", &[FLOATS], |round| {
        let window = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        let stride = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        Ok((one(&round.view(&[2, 3, 9, 7])?, |x| x.avg_pool2d_with_stride(window, stride))?, 8.0, 2.0))
    });
    ops.add("upsample_nearest1d", &[FLOATS, INTEGERS], |round| {
        let size = 1 + round.numbers.below(30);
        Ok((one(&round.view(&[2, 3, 9])?, |x| x.upsample_nearest1d(size))?, 0.0, 0.0))
    });
    ops.add("upsample_nearest2d", &[FLOATS, INTEGERS], |round| {
        let (h, w) = (1 + round.numbers.below(20), 1 + round.numbers.below(20));
        Ok((one(&round.view(&[2, 3, 9, 7])?, |x| x.upsample_nearest2d(h, w))?, 0.0, 0.0))
    });
    ops.add("upsample_bilinear2d", &[FLOATS], |round| {
        let (h, w, corners) = (1 + round.numbers.below(20), 1 + round.numbers.below(20), round.numbers.below(2) == 0);
        Ok((one(&round.view(&[2, 3, 9, 7])?, |x| x.upsample_bilinear2d(h, w, corners))?, 16.0, 2.0))
    });
}

/// Tensors of more dims than launchers take.
fn ranks(ops: &mut Ops) {
    const SOME: &[&[DType]] = &[&[DType::F32, DType::BF16]];
    macro_rules! map {
        ($dtypes:expr, $half_ulps:expr, $($name:literal: $op:expr,)*) => {
            $(ops.add(concat!("many_dims/", $name), $dtypes, |round| {
                let dims = round.many_dims();
                let (x, dim) = (round.many(&dims)?, round.numbers.below(dims.len()));
                let op: fn(&Tensor, usize) -> Result<Tensor> = $op;
                Ok((one(&x, |x| op(x, dim))?, $half_ulps, 8.0))
            });)*
        };
    }
    map! { &[FLOATS, F8, INTEGERS, SHORT], 0.0,
        "contiguous": |x, _| x.force_contiguous(),
        "cat": |x, dim| Tensor::cat(&[x, x], dim),
        "transposed": |x, dim| x.transpose(0, dim)?.contiguous(),
    }
    map! { SOME, 4.0,
        "exp": |x, _| x.exp(),
        "sigmoid": |x, _| candle_nn::ops::sigmoid(x),
        "affine": |x, _| x.affine(2.0, 3.0),
        "elu": |x, _| x.elu(0.5),
        "to_dtype": |x, _| x.to_dtype(DType::F64),
        "max": |x, dim| x.max(dim),
        "argmin": |x, dim| x.argmin_keepdim(dim),
        "sum": |x, dim| x.sum(dim),
        "sum_all": |x, _| x.sum_all(),
        "softmax": |x, _| candle_nn::ops::softmax_last_dim(&x.contiguous()?),
        "sort": |x, _| Ok(x.contiguous()?.sort_last_dim(true)?.0),
        "ones_in_place": |x, dim| {
            let x = x.force_contiguous()?;
            let turned: Vec<usize> = (0..x.rank()).rev().collect();
            x.permute(turned.as_slice())?.narrow(dim, 0, 1)?.one_set()?;
            Ok(x)
        },
    }
    ops.add("many_dims/sum_of_several", SOME, |round| {
        let dims = round.many_dims();
        let several: Vec<usize> = (0..dims.len()).filter(|_| round.numbers.below(2) == 0).collect();
        Ok((one(&round.many(&dims)?, |x| x.sum(several.as_slice()))?, 8.0, 64.0))
    });
    macro_rules! zip {
        ($half_ulps:expr, $($name:literal: $op:expr,)*) => {
            $(ops.add(concat!("many_dims/", $name), SOME, |round| {
                let dims = round.many_dims();
                let (a, b) = (round.many(&dims)?, round.many(&dims)?);
                let op: fn(&Tensor, &Tensor) -> Result<Tensor> = $op;
                // Candle's CPU device panics at more than 8 dims.
                let op = |a: &Tensor, b: &Tensor| match a.device() {
                    Device::Cpu => op(&a.flatten_all()?, &b.flatten_all()?)?.reshape(dims.as_slice()),
                    _ => op(a, b),
                };
                Ok((pair(&a, &b, op)?, $half_ulps, 0.25))
            });)*
        };
    }
    zip! { 1.0,
        "add": |a, b| a.add(b),
        "maximum": |a, b| a.maximum(b),
        "lt": |a, b| a.lt(b),
        "where": |a, b| a.gt(b)?.where_cond(a, b),
    }
    ops.add("many_dims/matmul", &[FLOATS], |round| {
        let mut batch = round.many_dims();
        batch.truncate(batch.len() - 2);
        let (m, n, k) = (1 + round.numbers.below(5), 1 + round.numbers.below(5), 1 + round.numbers.below(9));
        let (a, b) = (round.many(&[&batch[..], &[m, k]].concat())?, round.many(&[&batch[..], &[k, n]].concat())?);
        // Candle's CPU device takes no such batches.
        let matmul = |a: &Tensor, b: &Tensor| match a.device() {
            Device::Cpu => {
                a.reshape(((), m, k))?.matmul(&b.reshape(((), k, n))?)?.reshape([&batch[..], &[m, n]].concat())
            }
            _ => a.matmul(b),
        };
        Ok((pair(&a, &b, matmul)?, 4.0, 4.0 * k as f64))
    });
    ops.add("many_dims/index_select", SOME, |round| {
        let dims = round.many_dims();
        let dim = round.numbers.below(dims.len());
        let (x, ids) = (round.many(&dims)?, round.ids(&[5], dims[dim], DType::U32)?);
        Ok((pair(&x, &ids, |x, ids| x.index_select(ids, dim))?, 0.0, 0.0))
    });
    ops.add("many_dims/index_add", SOME, |round| {
        let mut dims = round.many_dims();
        let dim = round.numbers.below(dims.len());
        let (x, ids) = (round.many(&dims)?, round.ids(&[4], dims[dim], DType::U32)?);
        dims[dim] = 4;
        let src = round.rows(&dims)?;
        Ok((three(&x, &ids, &src, |x, ids, src| x.index_add(ids, src, dim))?, 4.0, 1.0))
    });
    macro_rules! by_ids {
        ($($name:literal: $op:expr,)*) => {
            $(ops.add(concat!("many_dims/", $name), SOME, |round| {
                let dims = round.many_dims();
                let dim = round.numbers.below(dims.len());
                let mut places = dims.clone();
                places[dim] = 4;
                let (x, src) = (round.many(&dims)?, round.rows(&places)?);
                let ids = round.ids(&places, dims[dim], DType::U32)?;
                let op: fn(&Tensor, &Tensor, &Tensor, usize) -> Result<Tensor> = $op;
                Ok((three(&x, &ids, &src, |x, ids, src| op(x, ids, src, dim))?, 4.0, 1.0))
            });)*
        };
    }
    by_ids! {
        "gather": |x, ids, _, dim| x.gather(ids, dim),
        "scatter": |x, ids, src, dim| x.scatter(ids, src, dim),
        "scatter_add": |x, ids, src, dim| x.scatter_add(ids, src, dim),
    }
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Threads would share one stream.
    arguments.test_threads.get_or_insert(1);
    let device = match Device::new_rocm(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("there is no device: {error}");
            std::process::exit(1);
        }
    };
    let mut ops = Ops { trials: Vec::new(), device };
    elementwise(&mut ops);
    reductions(&mut ops);
    indexing(&mut ops);
    products(&mut ops);
    ranks(&mut ops);
    libtest_mimic::run(&arguments, ops.trials).exit();
}
