//! Typical mistakes of users. Each gives a Candle error that says what is wrong, and nothing leaks.
use candle_core::backend::BackendStorage;
use candle_core::quantized::rocm::QRocmStorage;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::rocm_backend::{RocmDevice, WrapErr, kernels::GateOp};
use candle_core::{DType, Device, IndexOp, Layout, Module, Result, Storage, Tensor};
use candle_rocm_tests::{Numbers, device, refused, says};

#[path = "../../tests/support/alone.rs"]
mod alone;

fn live(device: &Device) -> (u64, u64) {
    let stats = device.as_rocm_device().and_then(|rocm| Ok(rocm.handle().memory_stats()?)).expect("figures");
    (stats.live_bytes, stats.live_allocations)
}

#[test]
fn tensors_of_two_devices_are_not_mixed() -> Result<()> {
    let (here, there) = (Tensor::zeros(3, DType::F32, &device())?, Tensor::zeros(3, DType::F32, &Device::Cpu)?);
    says!(here.add(&there), "device mismatch", "Rocm", "Cpu");
    says!(here.matmul(&there), "matmul");
    let weights = |device: &Device| -> Result<QMatMul> {
        let weights = Tensor::zeros((4, 32), DType::F32, device)?;
        QMatMul::from_qtensor(QTensor::quantize(&weights, GgmlDType::Q4_0)?)
    };
    let (x, x_there) =
        (Tensor::zeros((2, 32), DType::F32, here.device())?, Tensor::zeros((2, 32), DType::F32, there.device())?);
    says!(weights(there.device())?.forward(&x), "the weights are on Cpu", "x on Rocm");
    says!(weights(here.device())?.forward(&x_there), "the weights are on Rocm", "x on Cpu");
    Ok(())
}

#[test]
fn a_stream_of_its_own_takes_tensors_by_a_copy() -> Result<()> {
    let (first, second) = (device(), Device::new_rocm_with_stream(0)?);
    let x = Tensor::new(&[1f32, 2., 3.], &first)?;
    let y = Tensor::new(&[4f32, 5., 6.], &second)?;
    says!(x.add(&y), "crk_binary: rhs belongs to another handle (stream)", "copy it first");
    let (table, ids) = (x.reshape((3, 1))?, Tensor::new(&[0u32, 2], &second)?);
    says!(table.index_select(&ids, 0), "crk_index_select: ids belongs to another handle");
    says!(candle_nn::ops::rms_norm(&table, &y.narrow(0, 0, 1)?, 1e-5), "crk_rms_norm: alpha belongs to another handle");
    assert_eq!(x.to_device(&second)?.add(&y)?.to_vec1::<f32>()?, [5., 7., 9.]);
    Ok(())
}

#[test]
fn dtypes_and_shapes_are_checked() -> Result<()> {
    let device = device();
    let (x, y) = (Tensor::zeros((2, 3), DType::F32, &device)?, Tensor::zeros((2, 3), DType::F64, &device)?);
    says!(x.add(&y), "dtype mismatch", "F32", "F64");
    says!(x.matmul(&x), "shape mismatch");
    says!(x.const_set(1u32.into()), "const_set", "F32", "U32");
    let ints = Tensor::zeros((2, 3), DType::U32, &device)?;
    says!(ints.exp(), "u32");
    says!(ints.matmul(&ints.t()?), "u32");
    let (storage, _) = x.storage_and_layout();
    let Storage::Rocm(storage) = &*storage else { panic!("not a rocm storage") };
    let flat = Layout::contiguous(6);
    says!(storage.matmul(storage, (1, 1, 1, 6), &flat, &flat), "matmul: lhs has the dims [6]");
    let (scalar, silu) = (Layout::contiguous(()), GateOp::Silu);
    says!(storage.row_products(&flat, &[(storage, &flat)], &[]), "row_products: 1 weights, and 0 biases");
    says!(storage.row_products(&flat, &[(storage, &scalar)], &[None]), "rank", "expected: 2, got: 0");
    says!(storage.row_gate(silu, &flat, (storage, &scalar), (storage, &scalar)), "rank", "expected: 2, got: 0");
    says!(storage.batch_norm(&flat, [(storage, &flat); 2], None, 1e-5), "batch_norm: x has the dims [6]");
    says!(storage.group_norm(&flat, (1, false), [(storage, &flat); 2], 1e-5), "group_norm: x has the dims [6]");
    let (across, taller) = (Layout::contiguous((3, 2)).transpose(0, 1)?, Layout::contiguous((3, 2)));
    let (two, rows) = ((storage, &Layout::contiguous(2)), Layout::contiguous((2, 3)));
    says!(storage.batch_norm(&across, [two; 2], None, 1e-5), "batch_norm", "x", "contiguous");
    says!(storage.group_norm(&across, (1, false), [two; 2], 1e-5), "group_norm", "x", "contiguous");
    for for_products in [false, true] {
        says!(
            storage.gate(silu, &rows, (storage, &taller), for_products),
            "shape mismatch in gate",
            "[2, 3]",
            "[3, 2]"
        );
    }
    let (residual, alpha) = (Some(((storage, &taller), None)), (storage, &Layout::contiguous(3)));
    says!(storage.add_rms_norm(&rows, residual, alpha, 1e-5, false), "shape mismatch in add_rms_norm");
    let weights = QRocmStorage::zeros(device.as_rocm_device()?, 64, GgmlDType::Q4_0)?;
    let products = QRocmStorage::products(&[weights.rows(&(2, 32).into(), 0..2)?], &[], storage, &flat, DType::F32);
    says!(products, "products: 1 weights, and 0 biases");
    says!(weights.rows(&(2, 32).into(), 1..3), "rows: rows is 1..3, and the matrix has 2");
    says!(candle_nn::ops::softmax_last_dim(&x.t()?), "contiguous");
    Ok(())
}

#[test]
fn arguments_are_named_as_the_launchers_contracts_name_them() -> Result<()> {
    use candle_nn::{ops, rotary_emb};
    let device = device();
    let zeros = |dims: &[usize], dtype| Tensor::zeros(dims, dtype, &device);
    let (x, row, other) = (zeros(&[2, 4], DType::F32)?, zeros(&[4], DType::F32)?, zeros(&[4], DType::F64)?);
    let spread = zeros(&[4, 2], DType::F32)?.narrow(1, 0, 1)?.squeeze(1)?;
    says!(ops::rms_norm(&x, &other, 1e-5), "rms_norm: alpha is of F64, not of F32");
    says!(ops::rms_norm(&x, &spread, 1e-5), "rms_norm: alpha is not contiguous", "[4]", "[2]");
    says!(ops::layer_norm(&x, &other, &row, 1e-5), "layer_norm: alpha is of F64, not of F32");
    says!(ops::layer_norm(&x, &row, &other, 1e-5), "layer_norm: beta is of F64, not of F32");
    says!(ops::layer_norm(&x, &row, &spread, 1e-5), "layer_norm: beta is not contiguous");
    let (x, angle) = (zeros(&[1, 1, 2, 4], DType::F32)?, zeros(&[2, 2], DType::F32)?);
    says!(rotary_emb::rope(&x, &angle.to_dtype(DType::F16)?, &angle), "rope: cos is of F16, not of F32");
    says!(rotary_emb::rope(&x, &angle, &angle.to_dtype(DType::F16)?), "rope: sin is of F16, not of F32");
    Ok(())
}

#[test]
fn windows_that_do_not_fit_are_refused() -> Result<()> {
    let device = device();
    // Floats go through matrix products; integers are summed window by window.
    for dtype in [DType::F32, DType::U8] {
        let zeros = |dims: &[usize]| Tensor::zeros(dims, dtype, &device);
        let (x, k, large) = (zeros(&[1, 1, 3])?, zeros(&[1, 1, 2])?, zeros(&[1, 1, 5])?);
        let conv = |k: &Tensor, padding, stride, dilation| x.conv1d(k, padding, stride, dilation, 1);
        assert_eq!(conv(&large, 1, 1, 1)?.dims(), [1, 1, 1]);
        says!(conv(&large, 0, 1, 1), "window is 5", "has 3");
        says!(conv(&k, 0, 1, 3), "window is 2", "dilation 3", "has 3");
        says!(conv(&k, 0, 0, 1), "stride is 0");
        says!(conv(&k, 0, 1, 0), "dilation is 0");
        says!(conv(&zeros(&[1, 1, 0])?, 0, 1, 1), "window is 0");
        let conv = |k: &Tensor, padding, stride| x.conv_transpose1d(k, padding, 0, stride, 1, 1);
        assert_eq!(conv(&k, 1, 1)?.dims(), [1, 1, 2]);
        says!(conv(&k, 3, 1), "padding is 3", "4 elements");
        says!(conv(&k, 0, 0), "stride is 0");
        says!(zeros(&[1, 1, 0])?.conv_transpose1d(&k, 0, 0, 1, 1, 1), "size is 0");

        let (x, k, large) = (zeros(&[1, 1, 3, 4])?, zeros(&[1, 1, 2, 2])?, zeros(&[1, 1, 1, 5])?);
        says!(x.conv2d(&large, 0, 1, 1, 1), "window is 5", "has 4");
        says!(x.conv2d(&large.t()?, 0, 1, 1, 1), "window is 5", "has 3");
        says!(x.conv2d(&k, 0, 0, 1, 1), "stride is 0");
        says!(x.conv_transpose2d(&k, 4, 0, 1, 1), "padding is 4");
        says!(x.conv_transpose2d(&k, 0, 0, 0, 1), "stride is 0");
        says!(zeros(&[1, 1, 3, 0])?.conv_transpose2d(&k, 0, 0, 1, 1), "size is 0");
        says!(x.max_pool2d_with_stride(2, 0), "stride (0, 0)");
        says!(x.avg_pool2d_with_stride((2, 2), (1, 0)), "stride (1, 0)");
        says!(x.max_pool2d(5), "(5, 5)", "3,4");
    }
    Ok(())
}

#[test]
fn more_elements_than_can_be_counted_are_out_of_memory() -> Result<()> {
    let (device, many) = (Device::new_rocm_with_stream(0)?, 1usize << 40);
    says!(Tensor::zeros((many, many), DType::F32, &device), "CRK_OUT_OF_MEMORY");
    says!(Tensor::rand(0f32, 1., (many, many), &device), "CRK_OUT_OF_MEMORY");
    assert_eq!(Tensor::zeros((many, 0, many), DType::F32, &device)?.dims(), [many, 0, many]);
    let x = Tensor::zeros((1, 1, 2, 2), DType::F32, &device)?;
    says!(x.upsample_nearest2d(many, many), "CRK_OUT_OF_MEMORY");
    says!(x.upsample_bilinear2d(many, many, false), "CRK_OUT_OF_MEMORY");
    says!(x.squeeze(0)?.upsample_nearest1d(usize::MAX), "CRK_OUT_OF_MEMORY");
    let k = Tensor::zeros((1, 1, 1, 1), DType::U8, &device)?;
    says!(x.to_dtype(DType::U8)?.conv2d(&k, many << 20, 1, 1, 1), "CRK_OUT_OF_MEMORY");
    says!(x.to_dtype(DType::U8)?.conv_transpose2d(&k, 0, 0, many << 20, 1), "CRK_OUT_OF_MEMORY");
    says!(x.conv2d(&x, many << 20, 1, 1, 1), "CRK_OUT_OF_MEMORY");
    let rocm = device.as_rocm_device()?;
    says!(QRocmStorage::zeros(rocm, usize::MAX, GgmlDType::F16), "CRK_OUT_OF_MEMORY");
    // Candle checks a product's size itself. A program's own op may not.
    let wide = Tensor::zeros((1, 1), DType::F32, &device)?.broadcast_as((many, 1))?;
    let (storage, column) = wide.storage_and_layout();
    let Storage::Rocm(storage) = &*storage else { panic!("not a rocm storage") };
    let row = column.transpose(0, 1)?;
    says!(storage.matmul(storage, (1, many, many, 1), column, &row), "CRK_OUT_OF_MEMORY");
    Ok(())
}

#[test]
fn tensors_of_many_dims_may_be_empty_and_are_written_where_contiguous() -> Result<()> {
    let device = device();
    let turned: Vec<usize> = (0..9).rev().collect();
    let empty =
        Tensor::zeros(&[2usize, 2, 2, 2, 0, 2, 2, 2, 2][..], DType::F32, &device)?.permute(turned.as_slice())?;
    assert_eq!((empty.exp()? + &empty)?.elem_count(), 0);
    assert_eq!(empty.sum_all()?.to_scalar::<f32>()?, 0.0);
    // Sums over several dims round once, so an intermediate sum may exceed the range of f16.
    let mut large = vec![0f32; 512];
    for (i, value) in [(0, 40000.0), (1, -40000.0), (256, 40000.0), (257, -40000.0)] {
        large[i] = value;
    }
    let large = Tensor::from_vec(large, &[2usize; 9][..], &device)?.to_dtype(DType::F16)?;
    assert_eq!(large.sum_all()?.to_dtype(DType::F32)?.to_scalar::<f32>()?, 0.0);
    let x = Tensor::zeros(&[2usize; 9][..], DType::F32, &device)?;
    let (ids, src) = (x.to_dtype(DType::U32)?, x.ones_like()?);
    x.scatter_set(&ids, &src, 3)?;
    assert_eq!(x.sum_all()?.to_scalar::<f32>()?, 256.0);
    says!(x.permute(turned.as_slice())?.scatter_set(&ids, &src, 3), "scatter", "contiguous");
    Ok(())
}

#[test]
fn memory_that_is_not_there_is_an_error() -> Result<()> {
    // A device with its own stream: the memory figures belong to a handle, and other tests use the shared one.
    let device = Device::new_rocm_with_stream(0)?;
    let before = live(&device);
    says!(Tensor::zeros(1usize << 50, DType::F32, &device), "CRK_OUT_OF_MEMORY");
    says!(Tensor::zeros(1usize << 62, DType::F32, &device), "CRK_OUT_OF_MEMORY");
    assert_eq!(live(&device), before);
    // The device remains usable.
    assert_eq!(Tensor::ones(4, DType::F32, &device)?.sum_all()?.to_scalar::<f32>()?, 4.0);
    Ok(())
}

#[test]
fn an_id_out_of_range_is_told_at_the_next_synchronisation() -> Result<()> {
    // A device with its own stream, so that no other test's synchronisation takes the report.
    let device = Device::new_rocm_with_stream(0)?;
    let table = Tensor::arange(0f32, 12., &device)?.reshape((4, 3))?;
    let ids = Tensor::new(&[0u32, 7], &device)?;
    let rows = table.index_select(&ids, 0)?;
    says!(device.synchronize(), "CRK_OUT_OF_RANGE", "index_select", "7");
    assert_eq!(rows.to_vec2::<f32>()?, [[0., 1., 2.], [0., 0., 0.]]);
    device.synchronize()
}

#[test]
fn an_id_out_of_range_is_told_to_the_device_that_met_it() -> Result<()> {
    // Two models of a program, on devices that share a stream.
    let (mine, other) = (Device::new_rocm(0)?, Device::new_rocm(0)?);
    let lookup = |device: &Device, id: u32| {
        Tensor::arange(0f32, 12., device)?.reshape((4, 3))?.index_select(&Tensor::new(&[0u32, id], device)?, 0)
    };
    let (wrong, right) = (lookup(&mine, 7)?, lookup(&other, 2)?);
    other.synchronize()?;
    assert_eq!(right.to_vec2::<f32>()?, [[0., 1., 2.], [6., 7., 8.]]);
    says!(wrong.to_vec2::<f32>(), "CRK_OUT_OF_RANGE", "crk_index_select: ids has 7,", "earlier operation: number");
    assert_eq!(wrong.to_vec2::<f32>()?, [[0., 1., 2.], [0., 0., 0.]]);
    mine.synchronize()
}

#[test]
fn with_sync_the_op_itself_fails() {
    alone::alone("with_sync_the_op_itself_fails", &[("CANDLE_ROCM_SYNC", "1")], || {
        std::env::set_var("CANDLE_ROCM_DEVICE", "cpu:64");
        let device = device();
        let table = Tensor::arange(0f32, 12., &device).and_then(|x| x.reshape((4, 3))).expect("a table");
        let ids = Tensor::new(&[0u32, 9], &device).expect("ids");
        says!(table.index_select(&ids, 0), "CRK_OUT_OF_RANGE", "ids has 9,", "of the handle");
        says!(table.embedding(&ids), "CRK_OUT_OF_RANGE", "ids has 9,");
        device.synchronize().expect("both errors are told");
    });
}

#[test]
fn a_machine_without_the_runtime_is_told_what_to_do() {
    alone::alone(
        "a_machine_without_the_runtime_is_told_what_to_do",
        &[("CANDLE_ROCM_HIP_LIBRARY", "/nowhere/libamdhip64.so")],
        || {
            says!(Device::new_rocm(0), "CRK_NO_RUNTIME", "/nowhere/libamdhip64.so", "CANDLE_ROCM_DEVICE=cpu:32");
            assert_eq!(RocmDevice::count().expect("a number"), 0);
        },
    );
}

#[test]
fn a_device_that_is_not_there_is_an_error() -> Result<()> {
    let device = Device::new_rocm(99);
    if RocmDevice::replaced_by().is_some() {
        // The named device replaces any device that a program asks for.
        assert_eq!(Tensor::ones(2, DType::F32, &device?)?.to_vec1::<f32>()?, [1.0, 1.0]);
    } else {
        says!(device, "CRK_NO_");
    }
    Ok(())
}

#[test]
fn quantized_products_refuse_what_does_not_fit() -> Result<()> {
    let device = device();
    let weights = Tensor::ones((4, 256), DType::F32, &device)?;
    let weights = QMatMul::from_qtensor(QTensor::quantize(&weights, GgmlDType::Q4K)?)?;
    says!(weights.forward(&Tensor::zeros((2, 128), DType::F32, &device)?), "256", "128");
    says!(weights.forward(&Tensor::zeros((2, 256), DType::U32, &device)?), "U32");
    Ok(())
}

#[test]
fn sources_of_the_users_own_are_errors_where_they_cannot_be_compiled() -> Result<()> {
    let device = device();
    let rocm = device.as_rocm_device()?;
    let sentence = refused(rocm.get_or_load_custom_func("f", "not_hip", "this is no HIP"));
    assert!(sentence.starts_with("CRK_"), "{sentence}");
    // SAFETY: the bytes are refused before anything runs.
    says!(unsafe { rocm.get_or_load_code_object("f", "not_elf", b"no code object") }, "CRK_INVALID_IMAGE");
    Ok(())
}

/// One of many ops, chosen by `numbers`.
fn some_op(numbers: &mut Numbers, x: &Tensor) -> Result<Tensor> {
    let image = || x.narrow(1, 0, 32)?.reshape((1, 1, 9, 32));
    let blocks = || QTensor::quantize(&x.narrow(1, 0, 32)?, GgmlDType::Q8_0);
    match numbers.below(27) {
        0 => x.exp()?.narrow(0, 1, 2),
        1 => x.t()?.contiguous(),
        2 => x.add(x),
        3 => x.broadcast_mul(&x.narrow(0, 0, 1)?),
        4 => x.sum_keepdim(0),
        5 => x.matmul(&x.t()?),
        6 => x.to_dtype(DType::F16)?.to_dtype(DType::F32),
        7 => candle_nn::ops::softmax_last_dim(x),
        8 => x.arg_sort_last_dim(true),
        9 => image()?.conv2d(&image()?.narrow(3, 0, 3)?.narrow(2, 0, 3)?, 1, 1, 1, 1),
        10 => image()?.conv_transpose2d(&image()?.narrow(3, 4, 2)?, 0, 0, 2, 1),
        11 => image()?.max_pool2d(2)?.upsample_nearest2d(7, 5),
        12 => image()?.upsample_bilinear2d(5, 9, false),
        13 => QMatMul::from_qtensor(blocks()?)?.forward(&x.narrow(1, 1, 32)?.contiguous()?),
        14 => blocks()?.dequantize(x.device()),
        15 => x.index_select(&x.arg_sort_last_dim(true)?.i(0)?.clamp(0u32, 8u32)?, 0),
        16 => x.gather(&x.arg_sort_last_dim(false)?, 1),
        17 => x.scatter_add(&x.arg_sort_last_dim(false)?, x, 1),
        18 => x.index_add(&Tensor::new(&[3u32, 3], x.device())?, &x.narrow(0, 0, 2)?, 0),
        19 => x.argmax(0),
        20 => x.sum_all()?.broadcast_add(&x.max(1)?),
        21 => x.rand_like(0.0, 1.0)?.add(&x.randn_like(0.0, 1.0)?),
        22 => Tensor::cat(&[x, &x.narrow(1, 3, 4)?], 1),
        23 => Tensor::new(x.to_vec2::<f32>()?, x.device()),
        24 => x.to_device(&Device::new_rocm_with_stream(0)?)?.to_device(x.device()),
        25 => candle_nn::ops::rms_norm(x, &x.i(0)?, 1e-5),
        // This call fails on purpose: an error must release everything that it allocated.
        _ => x.narrow(0, 0, 1)?.matmul(&x.narrow(0, 0, 1)?),
    }
}

#[test]
fn ten_thousand_ops_end_with_the_memory_they_began_with() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let x = Tensor::randn(0f32, 1., (9, 33), &device)?;
    let mut numbers = Numbers::new(1);
    let before = live(&device);
    let mut failed = 0;
    for _ in 0..10_000 {
        failed += usize::from(some_op(&mut numbers, &x).is_err());
    }
    assert!((1..600).contains(&failed), "{failed} ops failed");
    assert_eq!(live(&device), before);
    Ok(())
}

#[test]
fn eight_threads_use_one_device() -> Result<()> {
    let device = device();
    let x = Tensor::arange(0f32, 1000., &device)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|i| {
                let (x, expected) = (&x, (0..1000).map(|v| v as f32 + i as f32).sum::<f32>());
                scope.spawn(move || -> Result<()> {
                    for _ in 0..20 {
                        let sum = (x + f64::from(i))?.sum_all()?.to_scalar::<f32>()?;
                        assert!((sum - expected).abs() <= 1.0, "{sum} is not {expected}");
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread"))
    })
}

/// A reader that loads to the same device from a thread and waits for it, as one that unpacks a file may.
struct Loading(RocmDevice);

impl std::io::Read for Loading {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let device = self.0.clone();
        let inner = std::thread::spawn(move || device.read(5, &mut std::io::repeat(3)).and_then(|x| x.download().w()));
        let inner: Vec<u8> = inner.join().expect("a thread").map_err(std::io::Error::other)?;
        bytes.fill(inner.iter().sum());
        Ok(bytes.len())
    }
}

#[test]
fn a_reader_may_load_to_the_device() -> Result<()> {
    let device = device().as_rocm_device()?.clone();
    let (done, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let bytes = |device: &RocmDevice| device.read(7, &mut Loading(device.clone()))?.download::<u8>().w();
        // Without and with pinned memory that is there already.
        let _ = done.send([bytes(&device), bytes(&device)]);
    });
    let outcome = outcome.recv_timeout(std::time::Duration::from_secs(60)).expect("a reader that waits for itself");
    for bytes in outcome {
        assert_eq!(bytes?, [15; 7]);
    }
    Ok(())
}

#[test]
fn random_numbers_follow_the_seed() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let draw = |shape: &[usize]| -> Result<Vec<f32>> {
        let (u, n) = (Tensor::rand(-1f32, 1., shape, &device)?, Tensor::randn(2f32, 3., shape, &device)?);
        Tensor::cat(&[u, n], 0)?.flatten_all()?.to_vec1()
    };
    device.set_seed(7)?;
    assert_eq!(device.get_current_seed()?, 7);
    let (first, second) = (draw(&[1001])?, draw(&[1001])?);
    assert_ne!(first, second);
    device.set_seed(7)?;
    assert_eq!(draw(&[1001])?, first);
    assert!(first[..1001].iter().all(|u| (-1.0..1.0).contains(u)));
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let x = Tensor::zeros(10_000, dtype, &device)?.rand_like(0., 1.)?;
        let mean = x.to_dtype(DType::F32)?.mean_all()?.to_scalar::<f32>()?;
        assert!((mean - 0.5).abs() < 0.02, "{dtype:?}: {mean}");
    }
    Ok(())
}

/// What is missing comes first, then the way out; both for a device that the environment names.
#[test]
fn without_a_gpu() {
    let environment = [("CANDLE_ROCM_DEVICE", "hip:0"), ("CANDLE_ROCM_HIP_LIBRARY", "/nowhere/libamdhip64.so")];
    alone::alone("without_a_gpu", &environment, || {
        let error = Device::new_rocm(0).expect_err("no runtime").to_string();
        let cause = error.find("/nowhere/libamdhip64.so").expect("the cause");
        let advice = error.find("diagnose()").expect("the advice");
        assert!(cause < advice, "{error}");
        assert_eq!(error.matches("/nowhere/libamdhip64.so, named by").count(), 1, "{error}");
    });
}
