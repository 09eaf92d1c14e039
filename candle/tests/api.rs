//! Candle's features around the ops, with a ROCm device: names and places, files, training, layers, quantized tensors.
use candle_core::op::BackpropOp;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor, gguf_file};
use candle_core::rocm_backend::{self, RocmDevice, RocmStorage};
use candle_core::safetensors::Load;
use candle_core::{CpuStorage, CustomOp1, DType, Device, DeviceLocation, IndexOp, Layout, Module, ModuleT, Result};
use candle_core::{Shape, Storage, Tensor, Var, npy, safetensors};
use candle_nn::{Optimizer, RNN, VarBuilder, VarMap};
use candle_rocm_tests::{Both, Numbers, device, says};
use std::collections::HashMap;
use std::path::PathBuf;

const DTYPES: [DType; 10] = [
    DType::U8,
    DType::U32,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
];

/// A folder for one test, in cargo's folder for temporary files. Dropping it removes the folder and its files. Cargo's
/// folder is created if the program was built on another machine.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Result<Folder> {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A file that cannot be removed does not fail the test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn same(both: Result<Both>, bound: f64) {
    let difference = both.and_then(|both| both.difference(bound, 1.0)).expect("on both devices");
    assert_eq!(difference, None);
}

#[test]
fn a_device_says_what_and_where_it_is() -> Result<()> {
    let device = device();
    assert!(device.is_rocm() && !device.is_cuda() && !device.is_cpu() && !device.is_metal());
    // The number that its own backend has for it: 1 for cpu:64.
    let gpu_id = device.as_rocm_device()?.handle().info()?.ordinal as usize;
    assert_eq!(device.location(), DeviceLocation::Rocm { gpu_id });
    assert!(candle_core::utils::rocm_is_available() && Device::rocm_if_available(0)?.is_rocm());
    assert!(device.supports_bf16());
    assert_eq!(device.bf16_default_to_f32(), DType::BF16);
    assert!(device.same_device(&device.clone()) && !device.same_device(&Device::Cpu));
    says!(Device::Cpu.as_rocm_device(), "expected a rocm device, got cpu");
    says!(device.as_cuda_device(), "expected a cuda device, got Rocm");
    let x = Tensor::new(&[[1f32, 2.], [3., 4.]], &device)?;
    assert_eq!(x.to_string(), format!("[[1., 2.],\n [3., 4.]]\nTensor[[2, 2], f32, rocm:{gpu_id}]"));
    assert_eq!(format!("{:?}", x.i(0)?), format!("Tensor[1, 2; f32, rocm:{gpu_id}]"));
    Ok(())
}

#[test]
fn a_buffer_becomes_a_tensor_and_is_one() -> Result<()> {
    let device = device();
    let rocm = device.as_rocm_device()?;
    let buffer = rocm.handle().upload(&[1f32, 2., 3., 4., 5., 6.])?;
    let address = buffer.as_ptr();
    let storage = Storage::Rocm(RocmStorage::new(buffer, DType::F32, rocm.clone()));
    let x = Tensor::from_storage(storage, (2, 3), BackpropOp::none(), false);
    assert_eq!(x.t()?.to_vec2::<f32>()?, [[1., 4.], [2., 5.], [3., 6.]]);
    let (storage, _) = x.storage_and_layout();
    let Storage::Rocm(storage) = &*storage else { panic!("not a rocm storage") };
    assert_eq!(storage.buffer().as_ptr(), address);
    Ok(())
}

#[test]
fn a_handle_of_the_programs_own_becomes_a_device() -> Result<()> {
    let handle = device().as_rocm_device()?.handle().new_stream()?;
    let rocm = RocmDevice::from_handle(handle.clone())?;
    assert!(rocm.handle().same_handle(&handle));
    let device = Device::Rocm(rocm);
    let gpu_id = handle.info()?.ordinal as usize;
    assert_eq!(device.location(), DeviceLocation::Rocm { gpu_id });
    device.set_seed(1)?;
    let x = Tensor::rand(0f32, 1., 100, &device)?;
    device.set_seed(1)?;
    assert_eq!(Tensor::rand(0f32, 1., 100, &device)?.to_vec1::<f32>()?, x.to_vec1::<f32>()?);
    Ok(())
}

#[test]
fn what_a_program_allows_of_products_is_kept() {
    assert!(!rocm_backend::gemm_reduced_precision_f16());
    rocm_backend::set_gemm_reduced_precision_f16(true);
    assert!(rocm_backend::gemm_reduced_precision_f16() && !rocm_backend::gemm_reduced_precision_bf16());
    rocm_backend::set_gemm_reduced_precision_f16(false);
    assert!(!rocm_backend::gemm_reduced_precision_f32());
    rocm_backend::set_gemm_reduced_precision_f32(true);
    assert!(rocm_backend::gemm_reduced_precision_f32() && rocm_backend::kernels::Device::is_tf32_allowed());
    rocm_backend::set_gemm_reduced_precision_f32(false);
    assert!(!rocm_backend::kernels::Device::is_tf32_allowed());
}

#[test]
fn tensors_of_every_dtype_go_to_files_and_come_back() -> Result<()> {
    let (device, mut numbers) = (device(), Numbers::new(1));
    let folder = Folder::new("tensors_of_every_dtype")?;
    let (path, mut saved, mut expected) = (folder.file("dtypes.safetensors"), HashMap::new(), HashMap::new());
    for dtype in DTYPES {
        // Every other element of a larger tensor. Only the view is saved.
        let both = Both::numbers(&mut numbers, &[3, 5, 2], dtype, &device)?.map(|x| x.i((.., .., 1)))?;
        saved.insert(dtype.as_str(), both.rocm);
        expected.insert(dtype.as_str(), both.cpu);
    }
    safetensors::save(&saved, &path)?;
    let loaded = safetensors::load(&path, &device)?;
    // SAFETY: nothing else writes the file.
    let mapped = unsafe { safetensors::MmapedSafetensors::new(&path)? };
    for dtype in DTYPES {
        let name = dtype.as_str();
        assert!(loaded[name].device().same_device(&device));
        same(Ok(Both { cpu: expected[name].clone(), rocm: loaded[name].clone() }), 0.0);
        same(Ok(Both { cpu: expected[name].clone(), rocm: mapped.get(name)?.load(&device)? }), 0.0);
    }

    let path = folder.file("x.npy");
    saved["f32"].write_npy(&path)?;
    let loaded = Tensor::read_npy(&path)?.to_device(&device)?;
    same(Ok(Both { cpu: expected["f32"].clone(), rocm: loaded }), 0.0);
    let path = folder.file("x.npz");
    Tensor::write_npz(&[("a", &saved["i64"])], &path)?;
    let loaded = npy::NpzTensors::new(&path)?.get("a")?.expect("the tensor").to_device(&device)?;
    same(Ok(Both { cpu: expected["i64"].clone(), rocm: loaded }), 0.0);
    Ok(())
}

#[test]
fn dtypes_that_are_only_carried_keep_their_bytes() -> Result<()> {
    let device = device();
    let bytes: Vec<u8> = (0..24).collect();
    for dtype in [DType::F6E2M3, DType::F6E3M2, DType::F4, DType::F8E8M0] {
        let x = Tensor::from_raw_buffer(&bytes, dtype, &[24], &device)?;
        assert_eq!(x.dtype(), dtype);
        let cpu = x.to_device(&Device::new_rocm_with_stream(0)?)?.to_device(&Device::Cpu)?;
        let (storage, _) = cpu.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { panic!("not on the cpu") };
        match storage {
            CpuStorage::F6E2M3(x) | CpuStorage::F6E3M2(x) | CpuStorage::F4(x) | CpuStorage::F8E8M0(x) => {
                assert_eq!(*x, bytes);
            }
            _ => panic!("another dtype"),
        }
        says!(x.exp(), "unsupported dtype", "exp");
        says!(x.to_dtype(DType::F32), "unsupported dtype", "to_dtype");
    }
    Ok(())
}

#[test]
fn variables_live_on_the_device_and_are_trained_there() -> Result<()> {
    let (device, mut numbers) = (device(), Numbers::new(2));
    let x = Both::numbers(&mut numbers, &[16, 4], DType::F32, &device)?;
    let y = x.map(|x| x.sum_keepdim(1)?.affine(0.5, 1.0))?;
    let first = Both::numbers(&mut numbers, &[1, 4], DType::F32, &device)?;
    let trained = |x: &Tensor, y: &Tensor, first: &Tensor| -> Result<Tensor> {
        let (w, b) = (Var::from_tensor(first)?, Var::zeros(1, DType::F32, x.device())?);
        let linear = candle_nn::Linear::new(w.as_tensor().clone(), Some(b.as_tensor().clone()));
        let vars = vec![w.clone(), b.clone()];
        let mut adam = candle_nn::AdamW::new_lr(vars.clone(), 0.05)?;
        let mut sgd = candle_nn::SGD::new(vars, 0.01)?;
        for _ in 0..5 {
            adam.backward_step(&candle_nn::loss::mse(&linear.forward(x)?, y)?)?;
            sgd.backward_step(&candle_nn::loss::mse(&linear.forward(x)?, y)?)?;
        }
        Tensor::cat(&[&w.flatten_all()?, b.as_tensor()], 0)
    };
    let cpu = trained(&x.cpu, &y.cpu, &first.cpu)?;
    let rocm = trained(&x.rocm, &y.rocm, &first.rocm)?;
    same(Ok(Both { cpu, rocm }), 1e-5);
    Ok(())
}

#[test]
fn variables_are_saved_and_loaded() -> Result<()> {
    let folder = Folder::new("variables")?;
    let (device, path) = (device(), folder.file("variables.safetensors"));
    let varmap = VarMap::new();
    let builder = VarBuilder::from_varmap(&varmap, DType::F32, &device);
    let linear = candle_nn::linear(4, 3, builder.pp("linear"))?;
    varmap.save(&path)?;
    let mut other = VarMap::new();
    let loaded = candle_nn::linear(4, 3, VarBuilder::from_varmap(&other, DType::F32, &device).pp("linear"))?;
    other.load(&path)?;
    assert_eq!(loaded.weight().to_vec2::<f32>()?, linear.weight().to_vec2::<f32>()?);
    // SAFETY: nothing else writes the file.
    let builder = unsafe { VarBuilder::from_mmaped_safetensors(&[&path], DType::BF16, &device)? };
    let mapped = builder.get((3, 4), "linear.weight")?;
    assert!(mapped.device().is_rocm() && mapped.dtype() == DType::BF16);
    same(Ok(Both { cpu: linear.weight().to_device(&Device::Cpu)?.to_dtype(DType::BF16)?, rocm: mapped }), 0.0);
    Ok(())
}

/// Weights on both devices, which layers take by name.
struct Weights {
    cpu: HashMap<String, Tensor>,
    rocm: HashMap<String, Tensor>,
}

impl Weights {
    fn new(device: &Device, shapes: &[(&str, &[usize])]) -> Result<Weights> {
        let mut numbers = Numbers::new(3);
        let mut weights = Weights { cpu: HashMap::new(), rocm: HashMap::new() };
        for (name, dims) in shapes {
            let both = Both::numbers(&mut numbers, dims, DType::F32, device)?.map(|x| x.abs()? + 0.125)?;
            weights.cpu.insert((*name).into(), both.cpu);
            weights.rocm.insert((*name).into(), both.rocm);
        }
        Ok(weights)
    }

    /// Applies a layer, built from the weights by name, to `x` on both devices.
    fn layer(&self, x: &Both, layer: impl Fn(VarBuilder, &Tensor) -> Result<Tensor>) -> Result<Both> {
        let builder =
            |tensors: &HashMap<_, _>, x: &Tensor| VarBuilder::from_tensors(tensors.clone(), DType::F32, x.device());
        Ok(Both {
            cpu: layer(builder(&self.cpu, &x.cpu), &x.cpu)?,
            rocm: layer(builder(&self.rocm, &x.rocm), &x.rocm)?,
        })
    }
}

#[test]
fn layers_are_as_on_the_cpu() -> Result<()> {
    let (device, mut numbers) = (device(), Numbers::new(4));
    let x = Both::numbers(&mut numbers, &[2, 4, 6, 6], DType::F32, &device)?;
    let w = Weights::new(&device, &[("weight", &[4]), ("bias", &[4]), ("running_mean", &[4]), ("running_var", &[4])])?;
    same(w.layer(&x, |vb, x| candle_nn::batch_norm(4, 1e-5, vb)?.forward_t(x, true)), 1e-4);
    same(w.layer(&x, |vb, x| candle_nn::batch_norm(4, 1e-5, vb)?.forward_t(x, false)), 1e-5);
    same(w.layer(&x, |vb, x| candle_nn::group_norm(2, 4, 1e-5, vb)?.forward(x)), 1e-4);
    same(w.layer(&x, |vb, x| candle_nn::prelu(Some(4), vb)?.forward(x)), 0.0);
    let w = Weights::new(&device, &[("weight", &[5, 4, 3, 3]), ("bias", &[5])])?;
    same(w.layer(&x, |vb, x| candle_nn::conv2d(4, 5, 3, Default::default(), vb)?.forward(x)), 1e-5);
    let w = Weights::new(&device, &[("weight", &[4, 5, 3, 3]), ("bias", &[5])])?;
    same(w.layer(&x, |vb, x| candle_nn::conv_transpose2d(4, 5, 3, Default::default(), vb)?.forward(x)), 1e-5);

    let x = Both::numbers(&mut numbers, &[2, 5, 4], DType::F32, &device)?;
    let gates = |n: usize| -> Result<Weights> {
        let dims: &[usize] = &[n * 3];
        let square: &[usize] = &[n * 3, 3];
        let names =
            [("weight_ih_l0", &[n * 3, 4][..]), ("weight_hh_l0", square), ("bias_ih_l0", dims), ("bias_hh_l0", dims)];
        Weights::new(&device, &names)
    };
    let rnn = |vb: VarBuilder, x: &Tensor| {
        let lstm = candle_nn::lstm(4, 3, Default::default(), vb)?;
        lstm.states_to_tensor(&lstm.seq(x)?)
    };
    same(gates(4)?.layer(&x, rnn), 1e-5);
    let rnn = |vb: VarBuilder, x: &Tensor| {
        let gru = candle_nn::gru(4, 3, Default::default(), vb)?;
        gru.states_to_tensor(&gru.seq(x)?)
    };
    same(gates(3)?.layer(&x, rnn), 1e-5);
    let w = Weights::new(&device, &[("weight", &[9, 4])])?;
    let ids = Both::of(Tensor::new(&[[0u32, 8, 3], [7, 7, 1]], &Device::Cpu)?, &device)?;
    same(w.layer(&ids, |vb, ids| candle_nn::embedding(9, 4, vb)?.forward(ids)), 0.0);
    Ok(())
}

#[test]
fn functions_of_candle_nn_are_as_on_the_cpu() -> Result<()> {
    use candle_nn::{loss, ops};
    let (device, mut numbers) = (device(), Numbers::new(5));
    let x = Both::numbers(&mut numbers, &[3, 4, 6, 8], DType::F32, &device)?;
    let functions: &[fn(&Tensor) -> Result<Tensor>] = &[
        |x| ops::log_softmax(x, 1),
        |x| ops::swiglu(x),
        |x| ops::hard_sigmoid(x),
        |x| ops::mish(x),
        |x| ops::leaky_relu(x, 0.1),
        |x| ops::selu(x, 1.5, 1.0),
        |x| ops::pixel_shuffle(x, 2),
        |x| ops::pixel_unshuffle(x, 2),
        |x| ops::replication_pad2d(x, 1),
        |x| loss::mse(x, &x.zeros_like()?),
        |x| loss::huber(x, &x.zeros_like()?, 0.5),
        |x| loss::binary_cross_entropy_with_logit(x, &x.ge(0.0)?.to_dtype(DType::F32)?),
        |x| loss::cross_entropy(&x.flatten_to(2)?, &x.flatten_to(2)?.argmax(1)?),
        |x| x.cumsum(3),
        |x| x.var(1),
        |x| x.log_sum_exp(3),
        |x| x.pad_with_same(2, 1, 2),
        |x| x.roll(3, 3),
        |x| x.flip(&[1, 3]),
        |x| x.interpolate2d(12, 4),
        |x| Ok(x.sort_last_dim(false)?.0),
    ];
    for (i, function) in functions.iter().enumerate() {
        let difference = x.map(function)?.difference(1e-5, 1.0)?;
        assert_eq!(difference, None, "function {i}");
    }
    let kept = ops::dropout(&Tensor::ones(10_000, DType::F32, &device)?, 0.25)?;
    let mean = kept.mean_all()?.to_scalar::<f32>()?;
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
    Ok(())
}

#[test]
fn caches_of_keys_grow_as_on_the_cpu() -> Result<()> {
    let (device, mut numbers) = (device(), Numbers::new(6));
    let steps: Vec<Both> = (0..5)
        .map(|i| Both::numbers(&mut numbers, &[1, 2, 1 + i % 2, 4], DType::F32, &device))
        .collect::<Result<_>>()?;
    let (cpu, rocm): (Vec<_>, Vec<_>) = steps.into_iter().map(|step| (step.cpu, step.rocm)).unzip();
    let kv = |steps: &[Tensor]| {
        let mut cache = candle_nn::kv_cache::KvCache::new(2, 4);
        steps.iter().try_for_each(|x| cache.append(x, x).map(drop))?;
        Tensor::cat(&[cache.k()?.expect("keys"), cache.v()?.expect("values")], 0)
    };
    same(Ok(Both { cpu: kv(&cpu)?, rocm: kv(&rocm)? }), 0.0);
    let rotating = |steps: &[Tensor]| {
        let mut cache = candle_nn::kv_cache::RotatingKvCache::new(2, 3);
        steps.iter().try_for_each(|x| cache.append(x, x).map(drop))?;
        cache.k()?.expect("keys").contiguous()
    };
    same(Ok(Both { cpu: rotating(&cpu)?, rocm: rotating(&rocm)? }), 0.0);
    Ok(())
}

/// The square, with its own gradient.
struct Square;

impl CustomOp1 for Square {
    fn name(&self) -> &'static str {
        "square"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        candle_core::bail!("this op has no version for the cpu")
    }

    fn rocm_fwd(&self, x: &RocmStorage, l: &Layout) -> Result<(RocmStorage, Shape)> {
        use candle_core::backend::BackendStorage;
        Ok((x.powf(l, 2.0)?, l.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some((x * 2.0)?.mul(grad)?))
    }
}

#[test]
fn a_custom_op_has_its_gradient() -> Result<()> {
    let x = Var::new(&[1f32, -2., 3.], &device())?;
    let y = x.apply_op1(Square)?;
    assert_eq!(y.to_vec1::<f32>()?, [1., 4., 9.]);
    assert_eq!(y.sum_all()?.backward()?.get(&x).expect("a gradient").to_vec1::<f32>()?, [2., -4., 6.]);
    Ok(())
}

#[test]
fn quantized_tensors_are_made_of_the_same_blocks() -> Result<()> {
    let (device, mut numbers) = (device(), Numbers::new(7));
    let x = Both::numbers(&mut numbers, &[3, 512], DType::F32, &device)?;
    let importance: Vec<f32> = (0..512).map(|i| 1.0 + (i % 7) as f32).collect();
    for format in [GgmlDType::F16, GgmlDType::Q4_0, GgmlDType::Q8_0, GgmlDType::Q2K, GgmlDType::Q6K, GgmlDType::Q8K] {
        let cpu = QTensor::quantize(&x.cpu, format)?;
        for there in [QTensor::quantize(&x.rocm, format)?, QTensor::quantize_onto(&x.cpu, format, &device)?] {
            assert!(there.device().is_rocm());
            assert_eq!(there.data()?, cpu.data()?, "{format:?}");
            assert_eq!(there.storage_size_in_bytes(), cpu.storage_size_in_bytes());
            assert!(!there.device_ptr()?.is_null());
            same(Ok(Both { cpu: cpu.dequantize(&Device::Cpu)?, rocm: there.dequantize(&device)? }), 1e-6);
        }
    }
    // A quantized view has its own rows, wherever it begins and ends in its storage.
    let view = x.map(|x| x.narrow(0, 1, 1))?;
    let rows = QTensor::quantize(&view.cpu.force_contiguous()?, GgmlDType::Q4K)?;
    for of_view in
        [QTensor::quantize(&view.rocm, GgmlDType::Q4K)?, QTensor::quantize_onto(&view.cpu, GgmlDType::Q4K, &device)?]
    {
        assert_eq!(of_view.data()?, rows.data()?);
    }
    let rows = QTensor::quantize_imatrix(&view.cpu.force_contiguous()?, &importance, GgmlDType::Q4K)?;
    for of_view in [
        QTensor::quantize_imatrix(&view.rocm, &importance, GgmlDType::Q4K)?,
        QTensor::quantize_imatrix_onto(&view.cpu, &importance, GgmlDType::Q4K, &device)?,
    ] {
        assert_eq!(of_view.data()?, rows.data()?);
    }
    for format in [GgmlDType::Q4K, GgmlDType::Q6K] {
        let cpu = QTensor::quantize_imatrix(&x.cpu, &importance, format)?;
        assert_eq!(QTensor::quantize_imatrix(&x.rocm, &importance, format)?.data()?, cpu.data()?);
        let onto = QTensor::quantize_imatrix_onto(&x.cpu, &importance, format, &device)?;
        assert_eq!(onto.data()?, cpu.data()?);
    }
    Ok(())
}

#[test]
fn quantized_products_can_be_made_in_floats() -> Result<()> {
    let (device, mut numbers) = (device(), Numbers::new(8));
    let w = Both::numbers(&mut numbers, &[5, 256], DType::F32, &device)?;
    let weights = QMatMul::from_qtensor(QTensor::quantize_onto(&w.cpu, GgmlDType::Q8_0, &device)?)?;
    let exact = weights.dequantize_f16()?.to_dtype(DType::F32)?.to_device(&Device::Cpu)?;
    for rows in [1, 3, 20] {
        let x = Both::numbers(&mut numbers, &[rows, 256], DType::F32, &device)?;
        let cpu = x.cpu.matmul(&exact.t()?)?;
        let through_f16 = weights.forward_via_f16(&x.rocm)?;
        same(Ok(Both { cpu: cpu.clone(), rocm: through_f16 }), 0.02);
        candle_core::quantized::rocm::set_force_dmmv(true);
        let forced = weights.forward(&x.rocm);
        candle_core::quantized::rocm::set_force_dmmv(false);
        same(Ok(Both { cpu, rocm: forced? }), 1e-3);
    }
    Ok(())
}

/// Tensors of a GGUF file, shorter and longer than the two parts of pinned memory that they go through, and with a part
/// that is not whole.
#[test]
fn gguf_files_are_read() -> Result<()> {
    let device = device();
    let tensor = |rows: usize, dtype| QTensor::quantize(&Tensor::randn(0f32, 1., (rows, 1024), &Device::Cpu)?, dtype);
    let made = [
        ("short", tensor(3, GgmlDType::Q4_0)?),
        ("floats", tensor(5000, GgmlDType::F32)?),
        ("halves", tensor(1, GgmlDType::BF16)?),
        ("long", tensor(8195, GgmlDType::Q8_0)?),
        ("none", QTensor::quantize(&Tensor::zeros((0, 256), DType::F32, &Device::Cpu)?, GgmlDType::Q4K)?),
    ];
    let mut file = std::io::Cursor::new(Vec::new());
    let tensors: Vec<_> = made.iter().map(|(name, tensor)| (*name, tensor)).collect();
    gguf_file::write(&mut file, &[], &tensors)?;
    file.set_position(0);
    let content = gguf_file::Content::read(&mut file)?;
    let threads: Vec<_> = (0..2).map(|_| (file.clone(), device.clone())).collect();
    std::thread::scope(|scope| {
        for (mut file, device) in threads {
            let (content, made) = (&content, &made);
            scope.spawn(move || {
                for (name, expected) in made {
                    let read = content.tensor(&mut file, name, &device).expect("a tensor");
                    assert_eq!((read.dtype(), read.shape()), (expected.dtype(), expected.shape()));
                    assert!(read.data().expect("bytes") == expected.data().expect("bytes"), "{name}");
                }
            });
        }
    });
    // A file that ends in a tensor, and one that cannot be read.
    let mut bytes = file.into_inner();
    bytes.truncate(bytes.len() / 2);
    let mut short = std::io::Cursor::new(bytes);
    assert!(content.tensor(&mut short, "long", &device).is_err());
    struct Broken(u64);
    impl std::io::Seek for Broken {
        fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
            Ok(self.0)
        }
    }
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is broken"))
        }
    }
    says!(content.tensor(&mut Broken(1 << 30), "long", &device), "the disk is broken");
    let mut file = std::io::Cursor::new(Vec::new());
    gguf_file::write(&mut file, &[], &tensors)?;
    let read = content.tensor(&mut file, "long", &device)?;
    assert!(read.data()? == made[3].1.data()?, "after a failure");
    Ok(())
}
