//! Matrix products, convolutions, pooling, upsampling.
use super::{ALL, FLOATS, Ops, Round, one, pair, wrapping};
use candle_core::{D, DType, Device, Tensor};

/// Groups of `c_in` channels: one, two, or one for each channel. The output channels too, which they divide.
fn groups(round: &mut Round, c_in: usize) -> (usize, usize) {
    match round.numbers.below(3) {
        0 => (1, 6),
        1 => (2, 6),
        _ => (c_in, 2 * c_in),
    }
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
        Ok((pair(&a, &b, |a, b| a.matmul(b))?, 0.0, 0.0))
    });
    ops.add("conv1d", ALL, |round| {
        // 16 channels and 6: f16 and bf16 are products.
        let (b, c_in) = (1 + round.numbers.below(3), 4 + 12 * round.numbers.below(2));
        let (groups, c_out) = groups(round, c_in);
        let (length, k) = (12 + round.numbers.below(20), 1 + round.numbers.below(4));
        let (padding, stride, dilation) =
            (round.numbers.below(3), 1 + round.numbers.below(3), 1 + round.numbers.below(2));
        let (x, w) = (round.view(&[b, c_in, length])?, round.view(&[c_out, c_in / groups, k])?);
        let op = |[x, w]: [&Tensor; 2]| x.conv1d(w, padding, stride, dilation, groups);
        Ok((pair(&x, &w, |x, w| wrapping([x, w], op))?, 0.0, 0.0))
    });
    ops.add("conv2d", ALL, |round| {
        let (b, c_in) = (1 + round.numbers.below(2), 4 + 12 * round.numbers.below(2));
        let (groups, c_out) = groups(round, c_in);
        let (h, w, k) = (6 + round.numbers.below(9), 6 + round.numbers.below(9), 1 + round.numbers.below(3));
        let (padding, stride, dilation) =
            (round.numbers.below(3), 1 + round.numbers.below(3), 1 + round.numbers.below(2));
        let (x, w) = (round.view(&[b, c_in, h, w])?, round.view(&[c_out, c_in / groups, k, k])?);
        let op = |[x, w]: [&Tensor; 2]| x.conv2d(w, padding, stride, dilation, groups);
        Ok((pair(&x, &w, |x, w| wrapping([x, w], op))?, 0.0, 0.0))
    });
    // Columns of more than 256 MiB. They are made for two of three images at a time, or for some rows of one image.
    ops.compare("conv2d/images", &[&[DType::F64]], 1, |round| {
        let (x, w) = (round.view(&[3, 8, 190, 190])?, round.view(&[2, 8, 7, 7])?);
        Ok((pair(&x, &w, |x, w| x.conv2d(w, 3, 1, 1, 1))?, 0.0, 0.0))
    });
    ops.compare("conv2d/rows", &[&[DType::F64]], 1, |round| {
        let (x, w) = (round.view(&[1, 8, 610, 600])?, round.view(&[2, 8, 7, 7])?);
        Ok((pair(&x, &w, |x, w| x.conv2d(w, 3, 2, 2, 1))?, 0.0, 0.0))
    });
    ops.add("conv_transpose1d", ALL, |round| {
        let (length, k, stride) = (1 + round.numbers.below(9), 1 + round.numbers.below(4), 1 + round.numbers.below(3));
        // At most half of the largest valid padding, which for one element and stride 1 depends on the kernel's size.
        let (padding, output_padding) = (round.numbers.below(1 + k / 2), round.numbers.below(stride));
        // 16 channels: f16 and bf16 are products.
        let (c_in, dilation) = (4 + 12 * round.numbers.below(2), 1 + round.numbers.below(2));
        let groups = groups(round, c_in).0;
        let (x, w) = (round.view(&[2, c_in, length])?, round.view(&[c_in, 8, k])?);
        // One batch at a time on the CPU, which computes all batches but the first wrongly when it uses columns.
        let batch = |x: &Tensor, w: &Tensor| x.conv_transpose1d(w, padding, output_padding, stride, dilation, groups);
        let op = |[x, w]: [&Tensor; 2]| match x.device() {
            Device::Cpu => Tensor::cat(&[batch(&x.narrow(0, 0, 1)?, w)?, batch(&x.narrow(0, 1, 1)?, w)?], 0),
            _ => batch(x, w),
        };
        Ok((pair(&x, &w, |x, w| wrapping([x, w], op))?, 0.0, 0.0))
    });
    ops.add("conv_transpose2d", ALL, |round| {
        let (h, w, k, stride) = (3 + round.numbers.below(5), 4, 1 + round.numbers.below(3), 1 + round.numbers.below(3));
        let (padding, output_padding) = (round.numbers.below(k), round.numbers.below(stride));
        let (c_in, dilation) = (4 + 12 * round.numbers.below(2), 1 + round.numbers.below(2));
        let (x, w) = (round.view(&[2, c_in, h, w])?, round.view(&[c_in, 6, k, k])?);
        let op = |[x, w]: [&Tensor; 2]| x.conv_transpose2d(w, padding, output_padding, stride, dilation);
        Ok((pair(&x, &w, |x, w| wrapping([x, w], op))?, 0.0, 0.0))
    });
    ops.add("max_pool2d", ALL, |round| {
        let window = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        let stride = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        Ok((one(&round.view(&[2, 3, 9, 7])?, |x| x.max_pool2d_with_stride(window, stride))?, 0.0, 0.0))
    });
    ops.add("avg_pool2d", ALL, |round| {
        let window = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        let stride = (1 + round.numbers.below(3), 1 + round.numbers.below(3));
        let pool = |x: &Tensor| x.avg_pool2d_with_stride(window, stride);
        // CUDA's kernels of u8 and u32 truncate the average, and so do these. The CPU's factor, 1 over the window's
        // size, is already 0.
        let op = |x: &Tensor| match (x.device(), x.dtype()) {
            (Device::Cpu, dtype @ (DType::U8 | DType::U32)) => pool(&x.to_dtype(DType::F32)?)?.to_dtype(dtype),
            _ => pool(x),
        };
        Ok((one(&round.view(&[2, 3, 9, 7])?, op)?, round.rounded_once(2.0), 0.0))
    });
    ops.add("upsample_nearest1d", ALL, |round| {
        let size = 1 + round.numbers.below(30);
        Ok((one(&round.view(&[2, 3, 9])?, |x| x.upsample_nearest1d(size))?, 0.0, 0.0))
    });
    ops.add("upsample_nearest2d", ALL, |round| {
        let (h, w) = (1 + round.numbers.below(20), 1 + round.numbers.below(20));
        Ok((one(&round.view(&[2, 3, 9, 7])?, |x| x.upsample_nearest2d(h, w))?, 0.0, 0.0))
    });
    // Integers are truncated, so their sizes and factors are chosen such that every step is exact.
    ops.add("upsample_bilinear2d", ALL, |round| {
        let (corners, exact) = (round.numbers.below(2) == 0, round.dtype.is_int());
        let (x, last) = (round.view(&[2, 3, 9, 7])?, usize::from(corners));
        let mut to = |size: usize| match round.numbers.below(20) {
            twice if exact => ((size - last) << (twice % 3)) + last,
            any => any + 1,
        };
        let (h, w) = (to(9), to(7));
        Ok((one(&x, |x| x.upsample_bilinear2d(h, w, corners))?, round.rounded_once(16.0), 2.0))
    });
    ops.add("upsample_bilinear2d_with_scale", ALL, |round| {
        let exact = round.dtype.is_int();
        let (x, corners) = (round.view(&[2, 3, 9, 7])?, !exact && round.numbers.below(2) == 0);
        let mut factor = || match round.numbers.below(20) as f64 {
            twice if exact => (twice / 5.0).floor().exp2() / 2.0,
            any => 0.3 + any / 7.0,
        };
        let (h, w) = (factor(), factor());
        Ok((one(&x, |x| x.upsample_bilinear2d_with_scale(h, w, corners))?, round.rounded_once(16.0), 2.0))
    });
}
