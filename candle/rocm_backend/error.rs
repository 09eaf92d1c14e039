//! Errors: those of `candle-rocm-sys`, whose sentences name the launcher, the argument and the value, and a few of this layer's.
use crate::{DType, Layout};

/// Why something failed on a ROCm device.
#[derive(thiserror::Error, Debug)]
pub enum RocmError {
    /// What `candle-rocm-sys` says; its status tells out of memory, a missing runtime or a missing architecture apart.
    #[error(transparent)]
    Kernels(#[from] candle_rocm_sys::Error),

    /// The dtype is one that this op has no kernel for.
    #[error("unsupported dtype {dtype:?} for {op}")]
    UnsupportedDtype {
        /// The dtype.
        dtype: DType,
        /// The op.
        op: &'static str,
    },

    /// An argument is of a dtype that does not go with the op's others.
    #[error("{op}: {argument} is of {got:?}, not of {expected:?}")]
    WrongDtype {
        /// The op.
        op: &'static str,
        /// The argument, as the launcher's contract calls it.
        argument: &'static str,
        /// What it must be of.
        expected: DType,
        /// What it is of.
        got: DType,
    },

    /// An argument must be contiguous.
    #[error("{op}: {argument} is not contiguous, its dims are {:?} and its strides {:?}", layout.dims(), layout.stride())]
    NotContiguous {
        /// The op.
        op: &'static str,
        /// The argument, as the launcher's contract calls it.
        argument: &'static str,
        /// How it lies.
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

/// Turns the result of a call of `candle-rocm-sys` into Candle's.
pub trait WrapErr<O> {
    /// The value, or Candle's error.
    fn w(self) -> crate::Result<O>;
}

impl<O, E: Into<RocmError>> WrapErr<O> for std::result::Result<O, E> {
    fn w(self) -> crate::Result<O> {
        self.map_err(|error| error.into().into())
    }
}
