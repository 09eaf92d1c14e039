//! Matrix products, convolutions, pooling, upsampling.
use super::{FLOATS, INTEGERS, Ops, one, pair};
use candle_core::{D, DType, Device, Result, Tensor};

/// Integers whose sums do not overflow here; u8's do, which Candle's CPU device takes for a mistake.
const WIDE: &[DType] = &[DType::U32, DType::I64];

/// What `op` makes of the tensors: on the CPU, where Candle has no products of integers, by way of f32, which has these exactly.
fn in_floats(x: &Tensor, w: &Tensor, op: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    if !x.device().is_cpu() || !x.dtype().is_int() {
        return op(x, w);
    }
    op(&x.to_dtype(DType::F32)?, &w.to_dtype(DType::F32)?)?.to_dtype(x.dtype())
}

pub fn add(ops: &mut Ops) {
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
    ops.add("conv1d", &[FLOATS, WIDE], |round| {
        let (b, c_in, c_out, groups) = (1 + round.numbers.below(3), 4, 6, 1 + round.numbers.below(2));
        let (length, k) = (12 + round.numbers.below(20), 1 + round.numbers.below(4));
        let (padding, stride, dilation) =
            (round.numbers.below(3), 1 + round.numbers.below(3), 1 + round.numbers.below(2));
        let (x, w) = (round.view(&[b, c_in, length])?, round.view(&[c_out, c_in / groups, k])?);
        Ok((pair(&x, &w, |x, w| in_floats(x, w, |x, w| x.conv1d(w, padding, stride, dilation, groups)))?, 4.0, 64.0))
    });
    ops.add("conv2d", &[FLOATS, WIDE], |round| {
        let (b, c_in, c_out, groups) = (1 + round.numbers.below(2), 4, 6, 1 + round.numbers.below(2));
        let (h, w, k) = (6 + round.numbers.below(9), 6 + round.numbers.below(9), 1 + round.numbers.below(3));
        let (padding, stride, dilation) =
            (round.numbers.below(3), 1 + round.numbers.below(3), 1 + round.numbers.below(2));
        let (x, w) = (round.view(&[b, c_in, h, w])?, round.view(&[c_out, c_in / groups, k, k])?);
        Ok((pair(&x, &w, |x, w| in_floats(x, w, |x, w| x.conv2d(w, padding, stride, dilation, groups)))?, 4.0, 128.0))
    });
    ops.add("conv_transpose1d", &[FLOATS], |round| {
        let (length, k, stride) = (1 + round.numbers.below(9), 1 + round.numbers.below(4), 1 + round.numbers.below(3));
        // Half of what there is at the most: with one element and stride 1 that is the kernel's.
        let (padding, output_padding) = (round.numbers.below(1 + k / 2), round.numbers.below(stride));
        let (x, w) = (round.view(&[2, 4, length])?, round.view(&[4, 3, k])?);
        // Batch by batch on the CPU, whose way over columns is wrong from the second on.
        let batch = |x: &Tensor, w: &Tensor| x.conv_transpose1d(w, padding, output_padding, stride, 1, 1);
        let op = |x: &Tensor, w: &Tensor| match x.device() {
            Device::Cpu => Tensor::cat(&[batch(&x.narrow(0, 0, 1)?, w)?, batch(&x.narrow(0, 1, 1)?, w)?], 0),
            _ => batch(x, w),
        };
        Ok((pair(&x, &w, op)?, 8.0, 64.0))
    });
    ops.add("conv_transpose2d", &[FLOATS, WIDE], |round| {
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
