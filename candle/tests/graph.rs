//! Typical steps of a model. After the first step they allocate no driver memory, and they can be captured.
use candle_core::rocm_backend::RocmDevice;
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_tests::says;
use candle_rocm_tests::steps::{DIM, Layer, chain};

fn device() -> Result<(Device, RocmDevice)> {
    // A device with its own stream: nothing else may use it during a capture.
    let device = Device::new_rocm_with_stream(0)?;
    let rocm = device.as_rocm_device()?.clone();
    Ok((device, rocm))
}

fn driver_allocations(rocm: &RocmDevice) -> Result<u64> {
    Ok(rocm.handle().memory_stats()?.driver_allocations)
}

/// Runs `step` a few times and checks that only the first run asks the driver for memory. Then captures it and compares
/// the results.
fn steady(rocm: &RocmDevice, x: &Tensor, result: &Tensor, step: impl Fn() -> Result<Tensor>) -> Result<()> {
    let into_result = || result.slice_set(&step()?.contiguous()?, 0, 0);
    into_result()?;
    let after_first = driver_allocations(rocm)?;
    for _ in 0..5 {
        into_result()?;
    }
    assert_eq!(driver_allocations(rocm)?, after_first);
    let (graph, ()) = rocm.handle().capture(into_result)?;
    assert_eq!(driver_allocations(rocm)?, after_first);
    let expected = result.force_contiguous()?.flatten_all()?.to_vec1::<f32>()?;
    for _ in 0..3 {
        result.zero_set()?;
        // SAFETY: the tensors that the graph reads and writes are alive.
        unsafe { graph.launch()? };
        assert_eq!(result.flatten_all()?.to_vec1::<f32>()?, expected);
    }
    // The graph reads the current contents of its input.
    x.slice_set(&x.affine(0.5, 0.25)?, 0, 0)?;
    let changed = step()?.flatten_all()?.to_vec1::<f32>()?;
    // SAFETY: as above.
    unsafe { graph.launch()? };
    assert_eq!(result.flatten_all()?.to_vec1::<f32>()?, changed);
    assert_ne!(changed, expected);
    Ok(())
}

#[test]
fn an_elementwise_chain_is_steady_and_can_be_captured() -> Result<()> {
    let (device, rocm) = device()?;
    let (x, row) = (Tensor::randn(0f32, 1., (65, 33), &device)?, Tensor::randn(0f32, 1., 33, &device)?);
    let result = Tensor::zeros((65, 33), DType::F32, &device)?;
    steady(&rocm, &x, &result, || chain(&x, &row))
}

#[test]
fn a_decode_step_is_steady_and_can_be_captured() -> Result<()> {
    let (device, rocm) = device()?;
    let layers = [Layer::new(&device)?, Layer::new(&device)?];
    let x = Tensor::randn(0f32, 1., (1, DIM), &device)?;
    let result = Tensor::zeros((1, DIM), DType::F32, &device)?;
    steady(&rocm, &x, &result, || layers.iter().try_fold(x.clone(), |x, layer| layer.step(&x)))
}

#[test]
fn a_number_of_the_hosts_is_a_constant_of_the_graph() -> Result<()> {
    let (device, rocm) = device()?;
    let result = Tensor::zeros((2, 3), DType::F16, &device)?;
    let step = || {
        let number = Tensor::new(2.5f32, &device)?.to_dtype(DType::F16)?.broadcast_as((2, 3))?;
        result.slice_set(&number.contiguous()?, 0, 0)
    };
    step()?;
    result.zero_set()?;
    let (graph, ()) = rocm.handle().capture(step)?;
    // SAFETY: the tensor that the graph writes is alive.
    unsafe { graph.launch()? };
    assert_eq!(result.to_dtype(DType::F32)?.to_vec2::<f32>()?, [[2.5; 3]; 2]);
    Ok(())
}

#[test]
fn what_fails_in_a_capture_ends_it() -> Result<()> {
    let (device, rocm) = device()?;
    let x = Tensor::ones(4, DType::F32, &device)?;
    // A copy to the host cannot wait for recorded work. Other mistakes inside a capture also fail.
    says!(rocm.handle().capture(|| x.to_vec1::<f32>()).map(drop), "CRK_CAPTURE");
    says!(rocm.handle().capture(|| x.matmul(&x)).map(drop), "shape mismatch");
    let panicked =
        std::panic::catch_unwind(|| rocm.handle().capture(|| -> Result<()> { panic!("on purpose") }).map(drop));
    assert!(panicked.is_err());
    assert_eq!(x.affine(2.0, 1.0)?.to_vec1::<f32>()?, [3.0; 4]);
    let (graph, y) = rocm.handle().capture(|| x.affine(2.0, 0.0))?;
    // SAFETY: the tensors that the graph reads and writes are alive.
    unsafe { graph.launch()? };
    assert_eq!(y.to_vec1::<f32>()?, [2.0; 4]);
    Ok(())
}

#[test]
fn random_numbers_go_on_in_a_replay() -> Result<()> {
    let (device, rocm) = device()?;
    let result = Tensor::zeros(1000, DType::F32, &device)?;
    let draw = || result.slice_set(&Tensor::randn(0f32, 1., 1000, &device)?, 0, 0);
    device.set_seed(5)?;
    let mut drawn = Vec::new();
    for _ in 0..3 {
        draw()?;
        drawn.push(result.to_vec1::<f32>()?);
    }
    let (graph, ()) = rocm.handle().capture(draw)?;
    device.set_seed(5)?;
    for expected in drawn {
        // SAFETY: the tensors that the graph reads and writes are alive.
        unsafe { graph.launch()? };
        assert_eq!(result.to_vec1::<f32>()?, expected);
    }
    Ok(())
}
