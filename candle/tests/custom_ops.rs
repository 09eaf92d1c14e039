//! A program's own ops: with launchers, and with kernels by name.
use candle_core::backend::BackendStorage;
use candle_core::rocm_backend::kernels::{self, Arg, Backend, Launch};
use candle_core::rocm_backend::{RocmFunc, RocmStorage, WrapErr, kernel_name, layout_of};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, InplaceOp1, InplaceOp2};
use candle_core::{Layout, Result, Shape, Storage, Tensor};
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
