//! Errors: those of `candle-rocm-sys` and a few of this layer. A message about an argument names the op or its
//! launcher, the argument, and the value if a value is wrong.
use crate::{DType, Layout};

/// The reason for a failure on a ROCm device.
#[derive(thiserror::Error, Debug)]
pub enum RocmError {
    /// An error of `candle-rocm-sys`. Its status tells apart out of memory, a missing library and a missing
    /// architecture.
    #[error(transparent)]
    Kernels(#[from] candle_rocm_sys::Error),

    /// There is no GPU, or no runtime for it.
    #[error(
        "{0}\n`candle_core::rocm_backend::kernels::diagnose()` tells what is missing. Without an AMD GPU, the feature \
         rocm-backend and CANDLE_ROCM_DEVICE=cpu:32 run the same kernels on the CPU"
    )]
    NoGpu(candle_rocm_sys::Error),

    /// The op has no kernel for this dtype.
    #[error("unsupported dtype {dtype:?} for {op}")]
    UnsupportedDtype {
        /// The dtype.
        dtype: DType,
        /// The op.
        op: &'static str,
    },

    /// The argument's dtype does not fit the other arguments of the op.
    #[error("{op}: {argument} is of {got:?}, not of {expected:?}")]
    WrongDtype {
        /// The op.
        op: &'static str,
        /// The argument's name in the launcher's contract.
        argument: &'static str,
        /// The required dtype.
        expected: DType,
        /// The dtype that the argument has.
        got: DType,
    },

    /// An argument must be contiguous.
    #[error(
        "{op}: {argument} is not contiguous, its dims are {:?} and its strides {:?}",
        layout.dims(),
        layout.stride()
    )]
    NotContiguous {
        /// The op.
        op: &'static str,
        /// The argument's name in the launcher's contract.
        argument: &'static str,
        /// The argument's layout.
        layout: Layout,
    },
}

impl From<RocmError> for crate::Error {
    fn from(error: RocmError) -> Self {
        crate::Error::Rocm(Box::new(error)).bt()
    }
}

impl From<candle_rocm_sys::Error> for crate::Error {
    fn from(error: candle_rocm_sys::Error) -> Self {
        RocmError::from(error).into()
    }
}

/// Turns a result of `candle-rocm-sys` into a result of Candle.
pub trait WrapErr<O> {
    /// The value, or the error as Candle's error.
    fn w(self) -> crate::Result<O>;
}

impl<O, E: Into<RocmError>> WrapErr<O> for std::result::Result<O, E> {
    fn w(self) -> crate::Result<O> {
        self.map_err(|error| error.into().into())
    }
}
