//! A program's own ops: with launchers, and with kernels by name.
use candle_core::backend::BackendStorage;
use candle_core::rocm_backend::kernels::{self, Arg, Backend, Launch};
use candle_core::rocm_backend::{DeviceRepr, DeviceSlice, LaunchConfig, RocmDevice, RocmSlice, RocmStorageSlice};
use candle_core::rocm_backend::{Map1, Map1Any, Map2, Map2Any, Map2InPlace, Map3, ValidAsZeroBits};
use candle_core::rocm_backend::{RocmFunc, RocmStorage, WrapErr, kernel_name, layout_of};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, InplaceOp1, InplaceOp2};
use candle_core::{Layout, Result, Shape, Storage, Tensor, WithDType, rocm_builder_arg};
use candle_rocm_tests::{device, says};

const F32: kernels::DType = kernels::DType::F32;

fn only_on_the_device<T>() -> Result<T> {
    candle_core::bail!("this op has no version for the cpu")
}

/// `-x`, with the kernel of Candle's name and Candle's arguments.
struct Negate;

impl CustomOp1 for Negate {
    fn name(&self) -> &'static str {
        "negate"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        only_on_the_device()
    }

    fn rocm_fwd(&self, x: &RocmStorage, l: &Layout) -> Result<(RocmStorage, Shape)> {
        let (device, count) = (x.device(), l.shape().elem_count());
        let function = device.get_or_load_func(&kernel_name::<f32>("uneg"), &kernels::UNARY)?;
        let params = device.handle().params(&layout_of(l)?).w()?;
        let dst = device.handle().alloc(count * 4).w()?;
        let src = Arg::buffer(x.buffer(), l.start_offset() * 4);
        let args = [count.into(), l.dims().len().into(), (&params).into(), src, (&dst).into()];
        // SAFETY: these are the arguments of an element-wise kernel, and both buffers have this many elements.
        unsafe { function.launch(Launch::for_num_elems(count as u32), &args).w()? };
        Ok((RocmStorage::new(dst, DType::F32, device.clone()), l.shape().clone()))
    }
}

/// `max(a, b)`, and the maximum of three tensors, with a launcher.
struct Greatest;

impl Greatest {
    fn of_two(a: (&RocmStorage, &Layout), b: (&RocmStorage, &Layout)) -> Result<RocmStorage> {
        let (device, op) = (a.0.device(), kernels::BinaryOp::Maximum);
        let dst = device.handle().alloc(a.1.shape().elem_count() * 4).w()?;
        let (lhs, rhs) = (layout_of(a.1)?, layout_of(b.1)?);
        device.handle().binary(op, F32, (&lhs, a.0.buffer()), (&rhs, b.0.buffer()), &dst).w()?;
        Ok(RocmStorage::new(dst, DType::F32, device.clone()))
    }
}

impl CustomOp2 for Greatest {
    fn name(&self) -> &'static str {
        "greatest"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        only_on_the_device()
    }

    fn rocm_fwd(&self, a: &RocmStorage, al: &Layout, b: &RocmStorage, bl: &Layout) -> Result<(RocmStorage, Shape)> {
        Ok((Greatest::of_two((a, al), (b, bl))?, al.shape().clone()))
    }
}

impl CustomOp3 for Greatest {
    fn name(&self) -> &'static str {
        "greatest"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        only_on_the_device()
    }

    fn rocm_fwd(
        &self,
        a: &RocmStorage,
        al: &Layout,
        b: &RocmStorage,
        bl: &Layout,
        c: &RocmStorage,
        cl: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let two = Greatest::of_two((a, al), (b, bl))?;
        Ok((Greatest::of_two((&two, &Layout::contiguous(al.shape())), (c, cl))?, al.shape().clone()))
    }
}

impl InplaceOp1 for Negate {
    fn name(&self) -> &'static str {
        "negate"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        only_on_the_device()
    }

    fn rocm_fwd(&self, x: &mut RocmStorage, l: &Layout) -> Result<()> {
        let (op, l) = (kernels::UnaryOp::Neg, layout_of(l)?);
        x.device().handle().unary(op, F32, &l, x.buffer(), x.buffer()).w()
    }
}

/// Replaces a tensor's values with those of another.
struct Become;

impl InplaceOp2 for Become {
    fn name(&self) -> &'static str {
        "become"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<()> {
        only_on_the_device()
    }

    fn rocm_fwd(&self, x: &mut RocmStorage, l: &Layout, y: &RocmStorage, yl: &Layout) -> Result<()> {
        x.device().handle().copy_strided(F32, &layout_of(yl)?, y.buffer(), x.buffer(), l.start_offset()).w()
    }
}

#[test]
fn ops_with_one_to_three_sources_run_on_the_device() -> Result<()> {
    let device = device();
    let x = Tensor::new(&[[1f32, -2., 3.], [-4., 5., -6.]], &device)?;
    let view = x.t()?.narrow(0, 1, 2)?;
    assert_eq!(view.apply_op1_no_bwd(&Negate)?.to_vec2::<f32>()?, [[2., -5.], [-3., 6.]]);
    let (y, z) = (x.neg()?, Tensor::full(2.5f32, (2, 3), &device)?);
    assert_eq!(x.apply_op2_no_bwd(&y, &Greatest)?.to_vec2::<f32>()?, [[1., 2., 3.], [4., 5., 6.]]);
    assert_eq!(x.apply_op3_no_bwd(&y, &z, &Greatest)?.to_vec2::<f32>()?, [[2.5, 2.5, 3.], [4., 5., 6.]]);
    Ok(())
}

/// `-x` with a kernel of the program's own, which takes the arguments of Candle's.
fn negated(x: &Tensor, kernel: &RocmFunc) -> Result<Vec<f32>> {
    let (storage, layout) = x.storage_and_layout();
    let Storage::Rocm(storage) = &*storage else { panic!("not a rocm storage") };
    let count = layout.shape().elem_count();
    let dst = storage.device().handle().alloc(count * 4).w()?;
    let args = [count.into(), 1usize.into(), Arg::ptr(std::ptr::null()), storage.buffer().into(), (&dst).into()];
    // SAFETY: these are the arguments of an element-wise kernel, and both buffers have this many elements.
    unsafe { kernel.launch(Launch::for_num_elems(count as u32), &args).w()? };
    dst.download().w()
}

/// The kernel that the next tests load. The double of libhiprtc reads the comment in it.
const SOURCE: &str = r#"
// kernels unary
extern "C" __global__ void uneg_f32(size_t count, size_t, const size_t *, const float *src, float *dst) {
  const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    dst[i] = -src[i];
  }
}
"#;

#[test]
fn source_of_a_programs_own_is_compiled_once() -> Result<()> {
    let device = device();
    let (rocm, x) = (device.as_rocm_device()?, Tensor::new(&[1f32, -2., 3.], &device)?);
    let kernel = match rocm.get_or_load_custom_func("uneg_f32", "of_source", SOURCE) {
        Ok(kernel) => kernel,
        Err(error) => {
            // With the double there is a compiler, and on a machine with all of ROCm. There is none for the CPU.
            assert!(std::env::var_os("HIP_DOUBLE_ARCH").is_none(), "{error}");
            let (sentence, has_gpu) = (error.to_string(), rocm.handle().info()?.backend != Backend::Cpu);
            let expected = if has_gpu { "CRK_NO_RUNTIME" } else { "CRK_UNSUPPORTED" };
            assert!(sentence.contains(expected), "{sentence}");
            return Ok(());
        }
    };
    assert_eq!(negated(&x, &kernel)?, [-1., 2., -3.]);
    let hip = rocm.get_or_load_custom_hip_func("uneg_f32", "of_hip", SOURCE)?;
    assert_eq!(negated(&x, &hip)?, [-1., 2., -3.]);
    // The source is not read again.
    let again = rocm.get_or_load_custom_func("uneg_f32", "of_source", "#error")?;
    assert_eq!(negated(&x, &again)?, [-1., 2., -3.]);
    says!(
        rocm.get_or_load_custom_func("unge_f32", "of_source", SOURCE).map(drop),
        "module 'of_source' has no kernel 'unge_f32'",
        "was loaded before"
    );
    says!(rocm.get_or_load_custom_func("uneg_f32", "broken", "#error").map(drop), "CRK_INVALID_IMAGE", "error");
    Ok(())
}

/// CUDA source of a program's own: `x + sin(alpha x)^2 / alpha` in three dtypes.
const SNAKE: &str = r#"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

template <typename T>
__device__ void snake(const T *x, const T *alpha, T *dst, uint32_t n) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const float a = alpha[i], s = sinf(a * (float)x[i]);
    dst[i] = (T)((float)x[i] + s * s / a);
  }
}
#define KERNEL(name, T) \
  extern "C" __global__ void name(const T *x, const T *alpha, T *dst, uint32_t n) { snake<T>(x, alpha, dst, n); }
KERNEL(snake_f32, float)
KERNEL(snake_f16, __half)
KERNEL(snake_bf16, __nv_bfloat16)
"#;

/// The op of docs/porting.md.
struct Snake;

impl CustomOp2 for Snake {
    fn name(&self) -> &'static str {
        "snake"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        only_on_the_device()
    }

    fn rocm_fwd(
        &self,
        s_x: &RocmStorage,
        l_x: &Layout,
        s_a: &RocmStorage,
        l_a: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let dev = s_x.device();
        let n = l_x.shape().elem_count();
        let (Some((xo1, xo2)), Some((ao1, ao2))) = (l_x.contiguous_offsets(), l_a.contiguous_offsets()) else {
            candle_core::bail!("snake: x and alpha must be contiguous")
        };
        let func = dev.get_or_load_custom_func(&format!("snake_{}", s_x.dtype().as_str()), "snake", SNAKE)?;
        let cfg =
            LaunchConfig { grid_dim: (n.div_ceil(256) as u32, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        let n_u32 = n as u32;
        macro_rules! launch {
            ($x:ident, $alpha:ident, $t:ty) => {{
                let (x, alpha) = ($x.slice(xo1..xo2), $alpha.slice(ao1..ao2));
                // SAFETY: the kernel writes every element.
                let dst = unsafe { dev.alloc::<$t>(n)? };
                let mut builder = func.builder();
                builder.arg(&x);
                builder.arg(&alpha);
                builder.arg(&dst);
                builder.arg(&n_u32);
                // SAFETY: these are the kernel's arguments; all three have `n` elements.
                unsafe { builder.launch(cfg) }.w()?;
                RocmStorage::wrap_slice(dst, dev.clone())
            }};
        }
        let dst = match (s_x.slice()?, s_a.slice()?) {
            (RocmStorageSlice::BF16(x), RocmStorageSlice::BF16(alpha)) => launch!(x, alpha, half::bf16),
            (RocmStorageSlice::F16(x), RocmStorageSlice::F16(alpha)) => launch!(x, alpha, half::f16),
            (RocmStorageSlice::F32(x), RocmStorageSlice::F32(alpha)) => launch!(x, alpha, f32),
            _ => candle_core::bail!("snake: unsupported or mismatched dtypes"),
        };
        Ok((dst, l_x.shape().clone()))
    }
}

/// Where there is hipRTC itself: its double makes no code of this source.
#[test]
fn cuda_source_of_a_programs_own_runs() -> Result<()> {
    let device = device();
    let values: Vec<f32> = (0..600).map(|i| i as f32 / 64. - 4.).collect();
    for (dtype, bound) in [(DType::F32, 1e-5), (DType::F16, 1e-2), (DType::BF16, 5e-2)] {
        let x = Tensor::new(values.as_slice(), &device)?.to_dtype(dtype)?;
        let alpha = ((x.ones_like()? * 1.5)? - 0.25)?;
        let got = match x.apply_op2_no_bwd(&alpha, &Snake) {
            Ok(got) => got.to_dtype(DType::F32)?.to_vec1::<f32>()?,
            Err(error) => {
                let (sentence, backend) = (error.to_string(), device.as_rocm_device()?.handle().info()?.backend);
                let expected = match backend {
                    Backend::Cpu => ["CRK_UNSUPPORTED", "has no compiler for the CUDA source of module 'snake'"],
                    _ if std::env::var_os("HIP_DOUBLE_ARCH").is_some() => {
                        ["CRK_INVALID_IMAGE", "produced no code of module 'snake'"]
                    }
                    _ => ["CRK_NO_RUNTIME", "crk_module_compile"],
                };
                assert!(expected.iter().all(|part| sentence.contains(part)), "{sentence}");
                return Ok(());
            }
        };
        for (got, x) in got.iter().zip(x.to_dtype(DType::F32)?.to_vec1::<f32>()?) {
            let expected = x + (1.25 * x).sin().powi(2) / 1.25;
            assert!((got - expected).abs() <= bound * (1. + expected.abs()), "{dtype:?}: snake({x}) is {got}");
        }
    }
    Ok(())
}

/// Code for the device, if there is any: from the double, for an emulator, or from this build.
fn code_object(device: &kernels::Device) -> Result<Option<Vec<u8>>> {
    if device.info()?.backend != Backend::Hip {
        return Ok(None);
    }
    Ok(Some(match std::env::var_os("CANDLE_ROCM_HSACO_DIR") {
        Some(folder) => std::fs::read(std::path::Path::new(&folder).join("unary.hsaco"))?,
        None => kernels::UNARY.hsaco().to_vec(),
    }))
}

#[test]
fn a_ready_code_object_is_loaded_once() -> Result<()> {
    let device = device();
    let (rocm, x) = (device.as_rocm_device()?, Tensor::new(&[1f32, -2., 3.], &device)?);
    // SAFETY: this is the code of the library's own kernels; bytes that are no code are refused.
    let load = |kernel: &str, code: &[u8]| unsafe { rocm.get_or_load_code_object(kernel, "of_code", code) };
    let Some(code) = code_object(rocm.handle())? else {
        says!(load("uneg_f32", b"no code").map(drop), "CRK_INVALID_IMAGE");
        return Ok(());
    };
    assert_eq!(negated(&x, &load("uneg_f32", &code)?)?, [-1., 2., -3.]);
    assert_eq!(negated(&x, &load("uneg_f32", b"")?)?, [-1., 2., -3.]);
    says!(load("unge_f32", &code).map(drop), "module 'of_code' has no kernel 'unge_f32'", "was loaded before");
    Ok(())
}

#[test]
fn ops_in_place_change_the_tensor() -> Result<()> {
    let x = Tensor::new(&[1f32, -2., 3.], &device())?;
    x.inplace_op1(&Negate)?;
    assert_eq!(x.to_vec1::<f32>()?, [-1., 2., -3.]);
    x.inplace_op2(&Tensor::new(&[7f32, 8., 9.], x.device())?, &Become)?;
    assert_eq!(x.to_vec1::<f32>()?, [7., 8., 9.]);
    Ok(())
}

#[test]
fn an_op_without_a_version_for_the_device_is_an_error() -> Result<()> {
    struct Nothing;
    impl CustomOp1 for Nothing {
        fn name(&self) -> &'static str {
            "nothing"
        }
        fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
            only_on_the_device()
        }
    }
    let error = Tensor::zeros(3, DType::F32, &device())?.apply_op1_no_bwd(&Nothing).expect_err("no version");
    assert!(error.to_string().contains("no rocm implementation for nothing"), "{error}");
    Ok(())
}

/// Candle's own element-wise kernel of this name, launched as `cuda_backend`'s `Map1` ops launch theirs.
struct Unary(&'static str);

impl Map1 for Unary {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src: &RocmSlice<T>,
        dev: &RocmDevice,
        layout: &Layout,
    ) -> Result<RocmSlice<T>> {
        let (shape, dims) = (layout.shape(), layout.dims());
        let el_count = shape.elem_count();
        let cfg = LaunchConfig::for_num_elems(el_count as u32);
        let ds = dev.params_from_layout(layout)?;
        let src = src.slice(layout.start_offset()..);
        let func = dev.get_or_load_func(&kernel_name::<T>(self.0), &kernels::UNARY)?;
        // SAFETY: the kernel writes every element.
        let out = unsafe { dev.alloc::<T>(el_count)? };
        let mut builder = func.builder();
        rocm_builder_arg!(builder, el_count, dims.len());
        builder.arg(&ds).arg(&src).arg(&out);
        // SAFETY: these are the arguments of an element-wise kernel; `out` has room for the layout's elements.
        unsafe { builder.launch(cfg) }.w()?;
        Ok(out)
    }
}

impl CustomOp1 for Unary {
    fn name(&self) -> &'static str {
        self.0
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        only_on_the_device()
    }

    fn rocm_fwd(&self, x: &RocmStorage, l: &Layout) -> Result<(RocmStorage, Shape)> {
        Ok((Map1::map(self, x, x.device(), l)?, l.shape().clone()))
    }
}

/// `a + b`, and what else takes two or three sources.
struct Add;

impl Add {
    fn launch<T: WithDType + DeviceRepr, D: DeviceRepr>(
        kernel: &str,
        (a, b): (&RocmSlice<T>, &RocmSlice<T>),
        dst: &impl DeviceSlice<D>,
        dev: &RocmDevice,
    ) -> Result<()> {
        let func = dev.get_or_load_func(&kernel_name::<T>(kernel), &kernels::BINARY)?;
        let (count, ds) = (a.len(), std::ptr::null::<usize>());
        let dst = dst.device_ptr();
        let mut builder = func.builder();
        builder.arg(&count).arg(&1usize).arg(&ds).arg(a).arg(b).arg(&dst);
        // SAFETY: these are the arguments of an element-wise kernel; all three have `count` elements.
        unsafe { builder.launch(LaunchConfig::for_num_elems(count as u32)) }.w()
    }
}

impl Map2 for Add {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        a: &RocmSlice<T>,
        _: &Layout,
        b: &RocmSlice<T>,
        _: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmSlice<T>> {
        let dst = dev.alloc_zeros::<T>(a.len())?;
        Add::launch("badd", (a, b), &dst, dev)?;
        Ok(dst)
    }
}

impl Map3 for Add {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        a: &RocmSlice<T>,
        al: &Layout,
        b: &RocmSlice<T>,
        bl: &Layout,
        c: &RocmSlice<T>,
        cl: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmSlice<T>> {
        let two = Map2::f(self, a, al, b, bl, dev)?;
        Map2::f(self, &two, al, c, cl, dev)
    }
}

impl Map2InPlace for Add {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        dst: &mut RocmSlice<T>,
        _: &Layout,
        src: &RocmSlice<T>,
        _: &Layout,
        dev: &RocmDevice,
    ) -> Result<()> {
        let before = dst.try_clone()?;
        Add::launch("badd", (&before, src), dst, dev)
    }
}

/// Whether elements are equal.
impl Map2Any for Add {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        a: &RocmSlice<T>,
        _: &Layout,
        b: &RocmSlice<T>,
        _: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmStorage> {
        let dst = dev.alloc_zeros::<u8>(a.len())?;
        Add::launch("eq", (a, b), &dst, dev)?;
        Ok(RocmStorage::wrap_slice(dst, dev.clone()))
    }
}

/// A copy, wrapped by the caller.
impl Map1Any for Add {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits, W: Fn(RocmSlice<T>) -> RocmStorage>(
        &self,
        src: &RocmSlice<T>,
        _: &RocmDevice,
        _: &Layout,
        wrap: W,
    ) -> Result<RocmStorage> {
        Ok(wrap(src.try_clone()?))
    }
}

/// The storage of these numbers on a device, and their contiguous layout.
fn stored(values: &[f32], dtype: DType, device: &candle_core::Device) -> Result<(RocmStorage, Layout)> {
    let x = Tensor::new(values, device)?.to_dtype(dtype)?;
    let (storage, layout) = x.storage_and_layout();
    let Storage::Rocm(storage) = &*storage else { panic!("not a rocm storage") };
    Ok((storage.try_clone(layout)?, layout.clone()))
}

fn numbers_of(storage: &RocmStorage) -> Result<Vec<f32>> {
    let cpu = storage.to_cpu_storage()?;
    let all = Layout::contiguous(storage.buffer().bytes() / storage.dtype().size_in_bytes());
    let f32s = candle_core::CpuStorage::to_dtype(&cpu, &all, DType::F32)?;
    Ok(f32s.as_slice::<f32>()?.to_vec())
}

#[test]
fn ops_of_the_cuda_backends_form_run_on_every_dtype() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let x = Tensor::new(&[[1f32, -2., 3.], [-4., 5., -6.]], &device)?.to_dtype(dtype)?;
        let view = x.t()?.narrow(0, 1, 2)?;
        let negated = view.apply_op1_no_bwd(&Unary("uneg"))?.to_dtype(DType::F32)?;
        assert_eq!(negated.to_vec2::<f32>()?, [[2., -5.], [-3., 6.]], "{dtype:?}");
    }
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::U8, DType::U32, DType::I64] {
        let (a, l) = stored(&[1., 2., 3.], dtype, &device)?;
        let ((b, _), dev) = (stored(&[5., 2., 7.], dtype, &device)?, a.device().clone());
        assert_eq!(numbers_of(&Map2::map(&Add, &a, &l, &b, &l, &dev)?)?, [6., 4., 10.], "{dtype:?}");
        assert_eq!(numbers_of(&Map3::map(&Add, &a, &l, &b, &l, &b, &l, &dev)?)?, [11., 6., 17.], "{dtype:?}");
        let equal = Map2Any::map(&Add, &a, &l, &b, &l, &dev)?;
        assert_eq!((equal.dtype(), numbers_of(&equal)?), (DType::U8, vec![0., 1., 0.]), "{dtype:?}");
        let copy = Map1Any::map(&Add, &a, &dev, &l)?;
        assert_eq!((copy.dtype(), numbers_of(&copy)?), (dtype, vec![1., 2., 3.]), "{dtype:?}");
        let mut changed = copy;
        Map2InPlace::map(&Add, &mut changed, &l, &b, &l, &dev)?;
        assert_eq!(numbers_of(&changed)?, [6., 4., 10.], "{dtype:?}");
    }
    // Storages of two dtypes, and a dtype without kernels.
    let ((a, l), (b, _)) = (stored(&[1.], DType::F32, &device)?, stored(&[1.], DType::F16, &device)?);
    says!(Map2::map(&Add, &a, &l, &b, &l, a.device()).map(drop), "as_slice: storage is of F16, not of F32");
    let f4 = device.as_rocm_device()?.storage_from_bytes(&[0], DType::F4)?;
    says!(Map1::map(&Unary("uneg"), &f4, f4.device(), &l).map(drop), "unsupported dtype F4 for Map1");
    Ok(())
}

#[test]
fn typed_memory_is_copied_and_divided() -> Result<()> {
    let device = device();
    let rocm = device.as_rocm_device()?;
    let mut a = rocm.clone_htod(&[1u32, 2, 3, 4])?;
    assert_eq!((a.len(), a.num_bytes(), a.is_empty()), (4, 16, false));
    assert_eq!(rocm.clone_dtoh(&a.slice(1..3))?, [2, 3]);
    assert_eq!(rocm.clone_dtoh(&a.slice(1..).slice(..=1))?, [2, 3]);
    assert_eq!(a.slice(2..).device_ptr(), a.device_ptr().wrapping_add(2));
    rocm.memcpy_htod(&vec![9u32, 8], &mut a.slice_mut(2..))?;
    rocm.memcpy_dtod(&a.slice(..2), &mut a.try_clone()?.slice_mut(2..))?;
    assert_eq!(rocm.clone_dtoh(&a)?, [1, 2, 9, 8]);
    let mut b = rocm.alloc_zeros::<u32>(4)?;
    rocm.memcpy_dtod(&a.slice(2..), &mut b.slice_mut(1..).slice_mut(1..))?;
    let mut host = [7u32; 5];
    rocm.memcpy_dtoh(&b, &mut host)?;
    assert_eq!(host, [0, 0, 9, 8, 7]);
    // u64 and f16 have no storage and no Pod, or only one of these.
    assert_eq!(rocm.clone_dtoh(&rocm.clone_htod(&[u64::MAX])?)?, [u64::MAX]);
    assert_eq!(rocm.clone_dtoh(&rocm.alloc_zeros::<half::f16>(0)?)?, []);
    // What does not fit is refused.
    assert!(a.try_slice(3..5).is_none() && a.try_slice(2..usize::MAX).is_none() && a.try_slice_mut(..5).is_none());
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = a.try_slice(3..2);
    assert!(reversed.is_none());
    says!(rocm.memcpy_htod(&[0u32; 5], &mut a), "CRK_OUT_OF_BOUNDS");
    says!(rocm.memcpy_dtod(&a, &mut b.slice_mut(1..)), "CRK_OUT_OF_BOUNDS");
    says!(rocm.memcpy_dtoh(&a, &mut [0u32; 3]), "src has 4 elements, and dst has room for 3");
    // SAFETY: nothing reads the memory.
    says!(unsafe { rocm.alloc::<f64>(usize::MAX) }.map(drop), "CRK_OUT_OF_MEMORY");
    Ok(())
}

#[test]
fn a_storage_has_slices_of_its_dtype() -> Result<()> {
    let device = device();
    let rocm = device.as_rocm_device()?;
    let mut storage = RocmStorage::wrap_slice(rocm.clone_htod(&[1f32, 2.])?, rocm.clone());
    assert_eq!(storage.dtype(), DType::F32);
    assert_eq!(rocm.clone_dtoh(storage.as_slice::<f32>()?)?, [1., 2.]);
    rocm.memcpy_htod(&[5f32], &mut storage.as_slice_mut::<f32>()?.slice_mut(1..))?;
    let RocmStorageSlice::F32(slice) = storage.slice()? else { panic!("not f32") };
    assert_eq!(rocm.clone_dtoh(slice)?, [1., 5.]);
    says!(storage.as_slice::<half::f16>().map(drop), "as_slice: storage is of F32, not of F16");
    says!(storage.as_slice_mut::<u32>().map(drop), "as_slice_mut: storage is of F32, not of U32");
    Ok(())
}

#[test]
#[should_panic(expected = "3..5 is not within the 4 elements")]
fn a_range_out_of_a_slice_panics_as_in_rust() {
    let device = device();
    let slice = device.as_rocm_device().expect("a device").alloc_zeros::<u8>(4).expect("memory");
    slice.slice(3..5);
}
