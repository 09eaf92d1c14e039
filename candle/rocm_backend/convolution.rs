//! Convolutions. The library's launcher convolves f16 and bf16 on matrix cores, without columns in memory, and integers
//! and f8 window by window. For f32 and f64 the windows of the images become columns, and the kernel is multiplied by
//! them.
use super::layout::Operand;
use super::{RocmStorage, WrapErr, elements};
use crate::backend::BackendStorage;
use crate::{DType, Layout, Result};
use candle_rocm_sys::Conv;
use std::ops::Range;

/// The largest size of a convolution's columns in bytes. Larger columns are made and multiplied in pieces of about this
/// size, which is enough work to keep any GPU busy.
const MOST_COLUMN_BYTES: usize = 256 << 20;

/// Images (batch, c, ..) with a kernel (outputs, c, ..). They have one dim behind the channels, or two.
pub(super) struct Convolution<'a> {
    op: &'static str,
    images: Operand<'a>,
    kernel: Operand<'a>,
    conv: Conv,
    batch: usize,
    outputs: usize,
    /// The number of elements in a window, over all channels.
    taps: usize,
    /// The number of windows along each dim of an image.
    windows: Vec<usize>,
}

/// The kernel as a matrix (outputs, taps).
struct KernelMatrix<'a> {
    convolution: &'a Convolution<'a>,
    /// Set if the given kernel is not contiguous.
    packed: Option<RocmStorage>,
}

/// The columns of some images, of dims (images, taps, windows).
struct Columns<'a> {
    storage: &'a RocmStorage,
    layout: Layout,
}

/// The rows of an image that some rows of windows cover. They are convolved as images of their own, with padding above
/// even where the real image goes on.
struct Band {
    rows: Range<usize>,
    /// The number of rows of windows before the wanted ones. They read the padding above, and are left out.
    skipped: usize,
}

impl<'a> Convolution<'a> {
    /// Fails if the dtypes differ, or if a window does not fit.
    pub fn new(op: &'static str, images: Operand<'a>, kernel: Operand<'a>, conv: Conv) -> Result<Self> {
        kernel.storage.expect_dtype(images.storage.dtype(), op, "kernel")?;
        let (image, kernel_dims) = (images.layout.dims(), kernel.layout.dims());
        let along = |(size, window): (&usize, &usize)| conv.size(*size, *window).w();
        Ok(Self {
            windows: image[2..].iter().zip(&kernel_dims[2..]).map(along).collect::<Result<_>>()?,
            batch: image[0],
            outputs: kernel_dims[0],
            taps: elements(&kernel_dims[1..]),
            op,
            images,
            kernel,
            conv,
        })
    }

    /// The result, of dims (batch, outputs, windows).
    pub fn run(&self) -> Result<RocmStorage> {
        if !matches!(self.dtype(), DType::F32 | DType::F64) {
            return self.launch();
        }
        let matrix = self.kernel_matrix()?;
        if let Some(columns) = self.images_as_columns() {
            return matrix.multiply(&columns, self.batch, self.window_count());
        }
        if self.image_column_bytes().saturating_mul(self.batch) <= MOST_COLUMN_BYTES {
            return self.at_once(&matrix);
        }
        self.in_pieces(&matrix)
    }

    fn dtype(&self) -> DType {
        self.images.storage.dtype()
    }

    /// The number of windows of an image.
    fn window_count(&self) -> usize {
        elements(&self.windows)
    }

    fn image_column_bytes(&self) -> usize {
        elements(&[self.window_count(), self.taps, self.dtype().size_in_bytes()])
    }

    /// By the launcher of convolutions.
    fn launch(&self) -> Result<RocmStorage> {
        let gives = (elements(&[self.batch, self.outputs, self.window_count()]), self.dtype());
        let is_signal = self.windows.len() == 1;
        RocmStorage::compute(self.op, [self.images, self.kernel], gives, |device, dtype, [src, kernel], dst| {
            if is_signal {
                device.conv1d(dtype, src, kernel, dst, self.conv)
            } else {
                device.conv2d(dtype, src, kernel, dst, self.conv)
            }
        })
    }

    fn kernel_matrix(&self) -> Result<KernelMatrix<'_>> {
        let Operand { storage, layout } = self.kernel;
        let packed = if layout.is_contiguous() { None } else { Some(storage.packed(layout)?) };
        Ok(KernelMatrix { convolution: self, packed })
    }

    /// For a kernel of size 1 with stride 1 the images themselves are the columns. Products are fast only if the rows
    /// of the images start at multiples of 16 bytes; otherwise this is None.
    fn images_as_columns(&self) -> Option<Columns<'a>> {
        let Operand { storage, layout } = self.images;
        let windows = self.window_count();
        let is_pointwise = self.kernel.layout.dims()[2..].iter().all(|size| *size == 1)
            && (self.conv.stride, self.conv.padding) == (1, 0);
        let row_bytes = elements(&[windows, self.dtype().size_in_bytes()]);
        let is_fast = row_bytes.checked_next_multiple_of(16) == Some(row_bytes);
        (is_pointwise && is_fast && layout.is_contiguous()).then(|| {
            let dims = (self.batch, self.taps, windows);
            Columns { storage, layout: Layout::contiguous_with_offset(dims, layout.start_offset()) }
        })
    }

    /// The windows of images, as a matrix of dims (images, windows, taps).
    fn columns_of(&self, images: &Layout, windows: usize) -> Result<RocmStorage> {
        let count = elements(&[images.dims()[0], windows, self.taps]);
        self.images.storage.map_to(images, count, self.op, |device, dtype, (l, src), dst| {
            match self.kernel.layout.dims()[2..] {
                [width] => device.im2col1d(dtype, l, src, dst, width, self.conv),
                [height, width] => device.im2col(dtype, l, src, dst, (height, width), self.conv),
                _ => unreachable!("images have one dim behind the channels, or two"),
            }
        })
    }

    /// All columns, and one product.
    fn at_once(&self, matrix: &KernelMatrix<'_>) -> Result<RocmStorage> {
        let windows = self.window_count();
        let storage = self.columns_of(self.images.layout, windows)?;
        let layout = Layout::contiguous((self.batch, windows, self.taps)).transpose(1, 2)?;
        matrix.multiply(&Columns { storage: &storage, layout }, self.batch, windows)
    }

    /// Columns and products piece by piece. A piece is a number of whole images, or a number of rows of windows of one
    /// image.
    fn in_pieces(&self, matrix: &KernelMatrix<'_>) -> Result<RocmStorage> {
        let count = elements(&[self.batch, self.outputs, self.window_count()]);
        let mut dst = self.images.storage.device().empty_of(count, self.dtype())?;
        let down = self.windows[0];
        let images = (MOST_COLUMN_BYTES / self.image_column_bytes()).clamp(1, self.batch);
        let rows = (MOST_COLUMN_BYTES / (self.image_column_bytes() / down)).clamp(1, down);
        for first in (0..self.batch).step_by(images) {
            for row in (0..down).step_by(rows) {
                let images = first..self.batch.min(first + images);
                self.piece(matrix, images, row..down.min(row + rows), &mut dst)?;
            }
        }
        Ok(dst)
    }

    /// The rows of windows `rows` of the images `images`, written to their place in `dst`.
    fn piece(
        &self,
        matrix: &KernelMatrix<'_>,
        images: Range<usize>,
        rows: Range<usize>,
        dst: &mut RocmStorage,
    ) -> Result<()> {
        let (all, across) = (self.window_count(), self.window_count() / self.windows[0]);
        let band = self.band(&rows);
        let part = self.images.layout.narrow(0, images.start, images.len())?;
        let part = part.narrow(2, band.rows.start, band.rows.len())?;
        let made = self.conv.size(band.rows.len(), self.kernel.layout.dims()[2]).w()? * across;
        let windows = rows.len() * across;

        let storage = self.columns_of(&part, made)?;
        let dims = (images.len(), self.taps, windows).into();
        let strides = vec![made * self.taps, 1, self.taps];
        let layout = Layout::new(dims, strides, band.skipped * across * self.taps);
        let product = matrix.multiply(&Columns { storage: &storage, layout }, images.len(), windows)?;

        let place = images.start * self.outputs * all + rows.start * across;
        product.copy2d(dst, images.len() * self.outputs, windows, windows, all, 0, place)
    }

    fn band(&self, rows: &Range<usize>) -> Band {
        let Conv { stride, padding, dilation, .. } = self.conv;
        let (height, window) = (self.images.layout.dims()[2], self.kernel.layout.dims()[2]);
        let span = (window - 1) * dilation + 1;
        let top = (rows.start * stride).saturating_sub(padding).min(height - 1) / stride * stride;
        let bottom = ((rows.end - 1) * stride + span).saturating_sub(padding).clamp(top + 1, height);
        Band { rows: top..bottom, skipped: rows.start - top / stride }
    }
}

impl KernelMatrix<'_> {
    /// The product with the columns of `images` images with `windows` windows each, of dims (images, outputs, windows).
    fn multiply(&self, columns: &Columns<'_>, images: usize, windows: usize) -> Result<RocmStorage> {
        let Convolution { kernel, outputs, taps, .. } = self.convolution;
        let (storage, offset) = match &self.packed {
            Some(packed) => (packed, 0),
            None => (kernel.storage, kernel.layout.start_offset()),
        };
        let layout = Layout::new((images, *outputs, *taps).into(), vec![0, *taps, 1], offset);
        storage.matmul(columns.storage, (images, *outputs, windows, *taps), &layout, &columns.layout)
    }
}
