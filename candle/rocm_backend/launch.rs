//! Launches of kernels, argument by argument, as cudarc makes them.
use super::slice::{DeviceRepr, DeviceSlice, RocmSlice, RocmView, RocmViewMut};
use candle_rocm_sys::{Arg, Buffer, Function, Launch, Params, Result};

/// A kernel, and how to launch it: [`candle_rocm_sys::Function`].
#[derive(Clone)]
pub struct RocmFunc(Function);

impl From<Function> for RocmFunc {
    fn from(function: Function) -> Self {
        Self(function)
    }
}

impl std::ops::Deref for RocmFunc {
    type Target = Function;

    fn deref(&self) -> &Function {
        &self.0
    }
}

impl RocmFunc {
    /// A launch, to which arguments are added one by one.
    pub fn builder(&self) -> LaunchArgs<'_> {
        LaunchArgs { function: &self.0, args: Vec::new() }
    }
}

/// The geometry of a launch, with the names of cudarc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks along x, y and z.
    pub grid_dim: (u32, u32, u32),
    /// Threads of a block along x, y and z.
    pub block_dim: (u32, u32, u32),
    /// Bytes of dynamic shared memory per block.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// One thread per element, in blocks of 1024.
    pub fn for_num_elems(count: u32) -> Self {
        Self { grid_dim: (count.div_ceil(1024), 1, 1), block_dim: (1024, 1, 1), shared_mem_bytes: 0 }
    }
}

impl From<LaunchConfig> for Launch {
    fn from(config: LaunchConfig) -> Launch {
        Launch { grid: config.grid_dim.into(), block: config.block_dim.into(), shared_bytes: config.shared_mem_bytes }
    }
}

/// What a kernel takes as an argument: numbers and structs by value, device memory by its address.
pub trait KernelArg {
    /// The argument.
    fn as_arg(&self) -> Arg<'_>;
}

impl<T: DeviceRepr> KernelArg for T {
    fn as_arg(&self) -> Arg<'_> {
        Arg::value(self)
    }
}

macro_rules! address_args {
    ($($t:ty),*) => {
        $(impl<T> KernelArg for $t {
            fn as_arg(&self) -> Arg<'_> {
                Arg::ptr(self.device_ptr().cast_const().cast())
            }
        })*
    };
}
address_args!(RocmSlice<T>, RocmView<'_, T>, RocmViewMut<'_, T>);

/// An address on the device, or NULL.
impl<T> KernelArg for *const T {
    fn as_arg(&self) -> Arg<'_> {
        Arg::ptr(self.cast())
    }
}

/// An address on the device, or NULL.
impl<T> KernelArg for *mut T {
    fn as_arg(&self) -> Arg<'_> {
        Arg::ptr(self.cast_const().cast())
    }
}

impl KernelArg for Buffer {
    fn as_arg(&self) -> Arg<'_> {
        self.into()
    }
}

impl KernelArg for Params {
    fn as_arg(&self) -> Arg<'_> {
        self.into()
    }
}

/// A launch under construction. Arguments are borrowed until it is dropped.
pub struct LaunchArgs<'a> {
    function: &'a Function,
    args: Vec<Arg<'a>>,
}

impl<'a> LaunchArgs<'a> {
    /// Adds the kernel's next argument.
    pub fn arg<A: KernelArg>(&mut self, arg: &'a A) -> &mut Self {
        self.args.push(arg.as_arg());
        self
    }

    /// Runs the kernel on the device's stream. The number and the sizes of the arguments are checked against the
    /// kernel's signature. A grid of 0 blocks launches nothing.
    ///
    /// # Safety
    /// The arguments are those that the kernel expects, and their memory is large enough for it.
    pub unsafe fn launch(&mut self, config: impl Into<Launch>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.function.launch(config.into(), &self.args) }
    }
}

/// Adds values to a launch: `rocm_builder_arg!(builder, 1u32, eps)`. CUDA's macro is `builder_arg`.
#[macro_export]
macro_rules! rocm_builder_arg {
    ($builder:ident, $($arg:expr),* $(,)?) => {
        $(
            let __arg = $arg;
            $builder.arg(&__arg);
        )*
    };
}
