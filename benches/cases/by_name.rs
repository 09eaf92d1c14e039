//! The kernels of Candle's names, called as candle-core calls them. They may be candle-kernels' own or this crate's.
use super::Case;
use crate::shapes::Shape;
use candle_rocm_sys::{Arg, Buffer, DType, Device, Function, Launch, Result, sys};
use std::ffi::c_void;

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A source, starting at its first element.
    Source(usize),
    Dst,
    /// Dims and strides in device memory; NULL if there are none.
    Numbers,
    /// Scratch memory that one kernel fills for the next.
    Scratch,
    U64(usize),
    U32(usize),
    F32(f32),
    F64(f64),
    Bits(u64, u32),
}

/// One launch.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub module: &'static str,
    pub name: String,
    pub launch: Launch,
    pub args: Vec<Argument>,
    pub numbers: Vec<usize>,
    /// The size of [`Argument::Scratch`] in bytes.
    pub scratch: usize,
}

impl Kernel {
    /// One thread per element of `numel`.
    pub fn of_elements(module: &'static str, name: String, numel: usize, args: Vec<Argument>) -> Kernel {
        let launch = Launch::for_num_elems(numel as u32);
        Kernel { module, name, launch, args, numbers: Vec::new(), scratch: 0 }
    }

    pub fn with(
        module: &'static str,
        name: String,
        grid: [usize; 3],
        block: [usize; 3],
        args: Vec<Argument>,
    ) -> Kernel {
        let dims = |dims: [usize; 3]| dims.map(|dim| dim as u32);
        let launch = Launch { grid: dims(grid), block: dims(block), shared_bytes: 0 };
        Kernel { module, name, launch, args, numbers: Vec::new(), scratch: 0 }
    }

    pub fn numbers(self, numbers: Vec<usize>) -> Kernel {
        Kernel { numbers, ..self }
    }
}

/// Dims, then strides, as Candle's kernels read a layout.
pub fn layout_numbers(shape: &Shape) -> Vec<usize> {
    [&shape.dims[..], &shape.strides[..]].concat()
}

/// A number as bits of a dtype, converted as candle-core's `from_f64` does.
pub fn bits(value: f64, dtype: DType) -> Argument {
    let bits = match dtype {
        DType::F32 => u64::from((value as f32).to_bits()),
        DType::F16 => u64::from(half::f16::from_f64(value).to_bits()),
        DType::BF16 => u64::from(half::bf16::from_f64(value).to_bits()),
        _ => value as u64,
    };
    Argument::Bits(bits, dtype.size() as u32)
}

/// The kernels of a case, loaded, with their numbers in device memory.
pub struct ByName<'a> {
    case: &'a Case,
    kernels: Vec<(Kernel, Function, Option<Buffer>)>,
    scratch: Option<Buffer>,
}

impl<'a> ByName<'a> {
    /// Returns `None` if Candle has no kernel for the case. `prefix` is prepended to the names of modules.
    pub fn new(device: &Device, case: &'a Case, prefix: &str) -> Result<Option<ByName<'a>>> {
        let Some(kernels) = case.by_name() else { return Ok(None) };
        let scratch = kernels.iter().map(|kernel| kernel.scratch).max().filter(|bytes| *bytes > 0);
        let ready = |kernel: Kernel| {
            let function = device.function_named(&format!("{prefix}{}", kernel.module), &kernel.name)?;
            let numbers: Vec<u64> = kernel.numbers.iter().map(|number| *number as u64).collect();
            let numbers = (!numbers.is_empty()).then(|| device.upload(&numbers)).transpose()?;
            Ok((kernel, function, numbers))
        };
        Ok(Some(ByName {
            case,
            kernels: kernels.into_iter().map(ready).collect::<Result<_>>()?,
            scratch: scratch.map(|bytes| device.alloc(bytes)).transpose()?,
        }))
    }

    /// # Safety
    /// The views are memory of the device, as long as the case says.
    pub unsafe fn launch(&self, sources: &[sys::crk_const_view_t], dst: sys::crk_view_t) -> Result<()> {
        for (kernel, function, numbers) in &self.kernels {
            let of = |buffer: &Option<Buffer>| buffer.as_ref().map_or(std::ptr::null(), |b| b.as_ptr().cast_const());
            let arg = |arg: &Argument| match *arg {
                Argument::Source(i) => {
                    let source = &self.case.sources[i];
                    let first = source.shape.offset * source.dtype.size();
                    Arg::ptr(sources[i].ptr.cast::<u8>().wrapping_add(first).cast::<c_void>())
                }
                Argument::Dst => Arg::ptr(dst.ptr.cast_const()),
                Argument::Numbers => Arg::ptr(of(numbers)),
                Argument::Scratch => Arg::ptr(of(&self.scratch)),
                Argument::U64(value) => Arg::from(value),
                Argument::U32(value) => Arg::from(value as u32),
                Argument::F32(value) => Arg::from(value),
                Argument::F64(value) => Arg::from(value),
                Argument::Bits(bits, bytes) => Arg::bits(bits, bytes),
            };
            let args: Vec<Arg<'_>> = kernel.args.iter().map(arg).collect();
            // SAFETY: these are Candle's arguments for this case; the caller promises that the memory is valid.
            unsafe { function.launch(kernel.launch, &args)? };
        }
        Ok(())
    }
}
