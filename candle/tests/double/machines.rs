//! Machines that lack something, such as a GPU or kernels for it, each in a process of its own: the error says what to
//! do. Also calls that fail, and a machine with two GPUs.
use candle_core::rocm_backend::kernels::{Buffer, UNARY};
use candle_core::rocm_backend::rccl::{AllReduce, Comm, Id};
use candle_core::rocm_backend::{RocmDevice, WrapErr};
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_tests::double::{calls, fail};
use candle_rocm_tests::says;
use std::sync::Arc;

#[path = "../../../tests/support/alone.rs"]
mod alone;

pub fn without_a_gpu() -> Result<()> {
    alone::alone("without_a_gpu", &[("HIP_DOUBLE_DEVICES", "0")], || {
        says!(Device::new_rocm(0), "CRK_NO_DEVICE", "0 device(s)", "CANDLE_ROCM_DEVICE=cpu:32");
        assert_eq!(RocmDevice::count().expect("a number"), 0);
    });
    Ok(())
}

/// An op on the device.
fn exp() -> Result<Tensor> {
    Tensor::zeros(4, DType::F32, &Device::new_rocm(0)?)?.exp()
}

pub fn with_a_gpu_of_another_architecture() -> Result<()> {
    alone::alone("with_a_gpu_of_another_architecture", &[("HIP_DOUBLE_ARCH", "gfx90a:sramecc+:xnack-")], || {
        says!(
            exp(),
            "CRK_WRONG_ARCHITECTURE",
            "gfx1100",
            "needs code for gfx90a",
            "build with CANDLE_ROCM_ARCHS=gfx90a"
        );
    });
    Ok(())
}

pub fn with_a_build_that_has_no_kernels() -> Result<()> {
    if UNARY.hsaco().is_empty() {
        alone::alone("with_a_build_that_has_no_kernels", &[("CANDLE_ROCM_HSACO_DIR", "")], || {
            says!(exp(), "CRK_NO_RUNTIME", "this build has no kernels", "the crate's feature 'rocm'");
        });
    }
    Ok(())
}

/// An event that is not recorded says nothing about the part of a file that is being sent. The next file is read into
/// other pinned memory.
pub fn with_an_event_that_fails() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let rocm = device.as_rocm_device()?;
    let bytes = 9 << 20;
    let read = |value: u8| rocm.read(bytes, &mut std::io::repeat(value));
    let whole = |buffer: Buffer| buffer.download::<u8>().w();
    let made = |wanted: &str| calls().iter().any(|(call, _)| call == wanted);
    assert!(whole(read(1)?)? == vec![1; bytes]);
    calls();
    fail(c"hipEventRecord", 1, 1);
    says!(read(2), "hipEventRecord");
    assert!(made("hipHostFree"), "the pinned memory is kept");
    assert!(whole(read(3)?)? == vec![3; bytes]);
    assert!(made("hipHostMalloc"), "no other pinned memory");
    Ok(())
}

/// An event that fails in a reduction beside other work is an error of that reduction alone.
pub fn with_a_reduction_whose_event_fails() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let rocm = device.as_rocm_device()?;
    let sum = AllReduce::new(Arc::new(Comm::from_rank(rocm, 0, 1, Id::of(rocm)?)?));
    let mut failed = 0;
    for nth in 1..=6 {
        let reduced = |value: f32| sum.start(Tensor::full(value, 1000, &device)?)?.wait()?.to_vec1::<f32>();
        fail(c"hipEventRecord", nth, 1);
        failed += reduced(1.).is_err() as u32;
        fail(c"hipEventRecord", 1, 0);
        assert_eq!(reduced(2.)?, [2.; 1000]);
    }
    assert!((2..6).contains(&failed), "{failed} failures");
    Ok(())
}

unsafe extern "C" {
    fn alarm(seconds: u32) -> u32;
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

/// A process that forks off lacks the threads that prepare the device, and ends all the same.
pub fn with_a_fork() -> Result<()> {
    alone::alone("with_a_fork", &[], || {
        exp().expect("a device");
        let mut status = -1;
        // SAFETY: the new process only exits, or else is killed after a minute.
        unsafe {
            let child = fork();
            if child == 0 {
                alarm(60);
                std::process::exit(0);
            }
            assert_eq!(waitpid(child, &mut status, 0), child);
        }
        assert_eq!(status, 0, "the new process failed or was killed");
    });
    Ok(())
}

/// A convolution with columns of 539 MiB, which must not be made at once.
pub fn with_little_memory() -> Result<()> {
    alone::alone("with_little_memory", &[("HIP_DOUBLE_MEMORY", &(450 << 20).to_string())], || {
        let ones = |dims: [usize; 4]| Tensor::ones(&dims, DType::F64, &Device::new_rocm(0)?);
        let sums = ones([1, 8, 610, 1200]).and_then(|x| x.conv2d(&ones([2, 8, 7, 7])?, 0, 2, 2, 1));
        let sums = sums.and_then(|x| x.flatten_all()).expect("columns piece by piece");
        assert_eq!(sums.dims(), [2 * 299 * 594]);
        for of in [Tensor::min_all, Tensor::max_all] {
            assert_eq!(of(&sums).and_then(|x| x.to_scalar::<f64>()).expect("a number"), 392.0);
        }
    });
    Ok(())
}

/// A tensor goes to another GPU and back in the streams of both: the host does not wait.
pub fn with_two_gpus() -> Result<()> {
    alone::alone("with_two_gpus", &[("HIP_DOUBLE_DEVICES", "2")], || {
        let [a, b] = [0, 1].map(|ordinal| Device::new_rocm(ordinal).expect("two devices"));
        let there_and_back = |x: &Tensor| (x + 1.0)?.to_device(&b)?.affine(2.0, 0.0)?.to_device(&a);
        let x = Tensor::arange(0f32, 1000f32, &a).expect("a tensor");
        there_and_back(&x).expect("a first round");
        calls();
        let y = there_and_back(&x).expect("a second round");
        let made = calls();
        let copies: usize = made.iter().filter(|(call, _)| call == "hipMemcpyPeerAsync").map(|(_, count)| count).sum();
        assert_eq!(copies, 2, "{made:?}");
        assert!(!made.iter().any(|(call, _)| call.contains("Synchronize")), "{made:?}");
        let values = y.to_vec1::<f32>().expect("values");
        assert!(values.iter().enumerate().all(|(i, value)| *value == 2.0 * (i as f32 + 1.0)), "{:?}", &values[..4]);
    });
    Ok(())
}
