//! Candle's kernels on AMD GPUs: the Rust side of `include/candle_rocm.h`.
//!
//! - [`sys`] is the whole C API, as bindgen gives it. Its contracts are the header's comments.
//! - [`AFFINE`] to [`UNARY`] are the kernel modules, named as in `candle-kernels`.
//! - [`Device`], [`Buffer`], [`Function`], [`Params`], [`Graph`] and [`Layout`] are a thin safe layer over the calls that
//!   Candle's backend makes. What is not here (events, pinned memory) is in [`sys`].
//!
//! ```no_run
//! use candle_rocm_sys::{Device, Layout, sys};
//!
//! # fn main() -> candle_rocm_sys::Result<()> {
//! let device = Device::open_best()?;
//! let src = device.upload(&[1f32, 2.0, 3.0])?;
//! let dst = device.alloc(src.bytes())?;
//! let layout = Layout::contiguous(&[3])?;
//! device.unary(sys::crk_unary_op::CRK_UNARY_SQR, sys::crk_dtype::CRK_DTYPE_F32, &layout, &src, &dst)?;
//! assert_eq!(dst.download::<f32>()?, [1.0, 4.0, 9.0]);
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

// The C core calls zstd; nothing of Rust's does.
extern crate zstd_sys as _;

mod buffer;
mod device;
mod error;
pub mod ffi;
mod function;
mod graph;
mod launchers;
mod layout;
mod ops;

pub use buffer::{Buffer, Params, Pod, View};
pub use device::Device;
pub use error::{Error, Result};
pub use function::{Arg, Function, Launch};
pub use graph::Graph;
pub use launchers::{Conv, Routes};

/// The C API, as bindgen gives it. The contracts are the comments of `include/candle_rocm.h`.
#[allow(missing_docs, non_camel_case_types, clippy::all, clippy::undocumented_unsafe_blocks)]
#[rustfmt::skip]
pub mod sys {
    #[cfg(not(feature = "bindgen"))]
    include!("bindings.rs");
    #[cfg(feature = "bindgen")]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

/// Why a call failed, as a kind: `Status::CRK_OUT_OF_MEMORY`, ...
pub type Status = sys::crk_status_t;
/// An element type: `DType::CRK_DTYPE_BF16`, ...
pub type DType = sys::crk_dtype_t;
/// Which driver runs a device: `Backend::CRK_BACKEND_HIP`, ...
pub type Backend = sys::crk_backend_t;
/// What a device is.
pub type DeviceInfo = sys::crk_device_info_t;
/// How a tensor lies in a buffer.
pub type Layout = sys::crk_layout_t;

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// A kernel module: `kernels/<name>.hip`, compiled.
#[derive(Clone, Copy)]
pub struct Module {
    index: usize,
    name: &'static str,
}

impl Module {
    /// The module's place in [`MODULES`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// The module's name, as [`Device::function`] takes it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The code objects of every architecture this crate was built for, as one offload bundle; empty without the feature
    /// `rocm`. The first call decompresses it, which devices do not need, and it is kept until the process ends.
    ///
    /// Panics where there is no memory for it.
    pub fn hsaco(&self) -> &'static [u8] {
        let mut image = sys::crk_image_t { data: std::ptr::null(), bytes: 0 };
        // SAFETY: the library gives the name of each of its modules; `image` is written on success.
        let status =
            unsafe { sys::crk_module_image(sys::crk_module_name(self.index), Backend::CRK_BACKEND_HIP, &mut image) };
        match error::check(status) {
            // SAFETY: the bytes are there until the process ends, and nothing writes to them.
            Ok(()) => unsafe { std::slice::from_raw_parts(image.data.cast(), image.bytes) },
            Err(error) if error.status() == Status::CRK_NO_RUNTIME => &[],
            Err(error) => panic!("{error}"),
        }
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("index", &self.index).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Names the modules; the order is that of `csrc/modules.h`, which a test holds it to.
macro_rules! modules {
    (candle { $($id:ident $constant:ident $stem:ident,)* } launchers { $($own:ident $own_stem:ident,)* }) => {
        /// Which of Candle's kernel modules.
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Id {
            $(#[doc = concat!("`kernels/", stringify!($stem), ".hip`")] $id,)*
        }

        /// Every module of Candle's, in order.
        pub const ALL_IDS: [Id; [$(stringify!($stem)),*].len()] = [$(Id::$id),*];

        /// Every module, in order: Candle's, then those that only launchers use.
        pub const MODULES: [Module; [$(stringify!($stem),)* $(stringify!($own_stem)),*].len()] =
            [$($constant,)* $($own),*];

        $(
            #[doc = concat!("The module of `kernels/", stringify!($stem), ".hip`.")]
            pub const $constant: Module =
                Module { index: Id::$id as usize, name: stringify!($stem) };
        )*

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Own { $($own),* }
        $(
            #[doc = concat!("The module of `kernels/", stringify!($own_stem), ".hip`.")]
            pub const $own: Module =
                Module { index: ALL_IDS.len() + Own::$own as usize, name: stringify!($own_stem) };
        )*

        impl Id {
            /// The module itself.
            pub const fn module(self) -> Module {
                match self {
                    $(Id::$id => $constant,)*
                }
            }
        }
    };
}

modules! {
    candle {
        Affine AFFINE affine,
        Binary BINARY binary,
        Cast CAST cast,
        Conv CONV conv,
        Fill FILL fill,
        Indexing INDEXING indexing,
        Quantized QUANTIZED quantized,
        Reduce REDUCE reduce,
        Sort SORT sort,
        Ternary TERNARY ternary,
        Unary UNARY unary,
    }
    launchers {
        QUANTIZED_VEC quantized_vec,
        QUANTIZED_MAT quantized_mat,
        MOE moe,
        MATMUL matmul,
        RANDOM random,
    }
}
