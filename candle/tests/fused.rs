//! The functions of candle_nn::fused on a ROCm device, beside the ops that they stand for; caches that grow in place;
//! and activations that are quantized once.
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::rocm_backend::{self, Caches, RocmStorage, RocmStorageSlice, WrapErr};
use candle_core::{D, DType, Device, Layout, Module, Result, Tensor, Var};
use candle_nn::{
    Activation, BatchNorm, ModuleT, RmsNorm, VarBuilder, VarMap,
    fused::{self, Scores},
    kv_cache::{ConcatKvCache, KvCache, RotatingKvCache},
};
use candle_rocm_tests::{device, says};
use candle_transformers::{
    models::{gemma3, mistral, phi3},
    quantized_nn,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

fn random(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::randn(0f32, 1., shape, device)?.to_dtype(dtype)
}

fn values(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

#[track_caller]
fn equal(a: &Tensor, b: &Tensor) -> Result<()> {
    assert_eq!(a.dims(), b.dims());
    assert_eq!(values(a)?, values(b)?);
    Ok(())
}

/// Gates are within two units in the last place of their two ops.
#[track_caller]
fn close(a: &Tensor, b: &Tensor) -> Result<()> {
    let unit = match a.dtype() {
        DType::F32 => 2f64.powi(-23),
        DType::F16 => 2f64.powi(-10),
        _ => 2f64.powi(-7),
    };
    let (a, b) = (values(a)?, values(b)?);
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() <= 2.0 * unit * b.abs(), "{a} is not {b}");
    }
    Ok(())
}

/// Sums of products in another order, which are rounded to the dtype, and what a gate makes of two such sums.
#[track_caller]
fn near(a: &Tensor, b: &Tensor) -> Result<()> {
    let unit = match a.dtype() {
        DType::F64 | DType::F32 => 2f64.powi(-16),
        DType::F16 => 2f64.powi(-9),
        _ => 2f64.powi(-6),
    };
    let most = values(b)?.into_iter().filter(|b| b.is_finite()).fold(0f64, |most, b| most.max(b.abs()));
    assert_eq!((a.dims(), a.dtype()), (b.dims(), b.dtype()));
    for (a, b) in values(a)?.iter().zip(&values(b)?) {
        assert!(a == b || (a - b).abs() <= unit * (b.abs() + most / 8.0), "{a} is not {b}");
    }
    Ok(())
}

#[test]
fn gates() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let (gate, up) = (random(&[3, 64], dtype, &device)?, random(&[3, 64], dtype, &device)?);
        for activation in [
            Activation::Silu,
            Activation::Gelu,
            Activation::NewGelu,
            Activation::Relu,
            Activation::Sigmoid,
            Activation::Relu2,
            Activation::Swish,
        ] {
            let expected = (gate.apply(&activation)? * &up)?;
            close(&fused::gate(activation, &gate, &up)?, &expected)?;
            // Halves of one tensor, as a fused product of both gives them.
            let both = Tensor::cat(&[&gate, &up], 1)?;
            let (a, b) = (both.narrow(1, 0, 64)?, both.narrow(1, 64, 64)?);
            close(&fused::gate(activation, &a, &b)?, &expected)?;
        }
    }
    // A dtype that products do not take, and one without fused kernels.
    for dtype in [DType::F64, DType::F8E4M3] {
        let (gate, up) = (random(&[3, 64], dtype, &device)?, random(&[3, 64], dtype, &device)?);
        equal(&fused::gate(Activation::Silu, &gate, &up)?, &(gate.silu()? * &up)?)?;
    }
    let x = random(&[2, 3], DType::F32, &device)?;
    assert!(fused::gate(Activation::Silu, &x, &x.t()?).is_err());
    Ok(())
}

/// Layers with one input: products of several matrices, and gates, beside a product for each matrix. Weights have one
/// format or two, inputs few rows or many, and dtypes with quantized kernels or without.
#[test]
fn layers_of_one_input() -> Result<()> {
    let device = device();
    let (k, n) = (256, [64, 32, 96]);
    let layer = |n: usize, dtype: GgmlDType| {
        let weights = QTensor::quantize(&random(&[n, k], DType::F32, &device)?, dtype)?;
        QMatMul::from_qtensor(weights)
    };
    for formats in [
        [GgmlDType::Q4K, GgmlDType::Q4K, GgmlDType::Q4K],
        [GgmlDType::Q4K, GgmlDType::Q8_0, GgmlDType::Q4K],
        [GgmlDType::Q4_0, GgmlDType::Q8K, GgmlDType::F16],
    ] {
        let layers: Vec<_> = n.iter().zip(formats).map(|(n, dtype)| layer(*n, dtype)).collect::<Result<_>>()?;
        let ([first, second], [up, other]) =
            ([layer(64, formats[0])?, layer(64, formats[0])?], [layer(64, formats[0])?, layer(64, formats[1])?]);
        for (shape, dtype) in [
            (vec![1, 1, k], DType::F32),
            (vec![3, k], DType::F32),
            (vec![2, 20, k], DType::F32),
            (vec![1, k], DType::F16),
            (vec![0, k], DType::F32),
        ] {
            let x = random(&shape, dtype, &device)?;
            if formats[1] == GgmlDType::Q8K && dtype != DType::F32 {
                continue;
            }
            let results = fused::products([&layers[0], &layers[1], &layers[2]], &x)?;
            for (layer, result) in layers.iter().zip(&results) {
                equal(result, &layer.forward(&x)?)?;
            }
            for (layer, as_dtype) in layers.iter().flat_map(|layer| [DType::F32, DType::BF16].map(|to| (layer, to))) {
                if formats[1] != GgmlDType::Q8K || as_dtype == DType::F32 {
                    equal(&fused::product_of(layer, &x, as_dtype)?, &layer.forward(&x.to_dtype(as_dtype)?)?)?;
                }
            }
            let biases = n.map(|n| random(&[n], dtype, &device));
            let [b0, b1, b2] = [&biases[0], &biases[1], &biases[2]].map(|bias| bias.as_ref().expect("a tensor"));
            let biased = [(0, b0), (1, b1), (2, b2)].map(|(i, bias)| fused::Biased(&layers[i], bias));
            let results = fused::products([&biased[0], &biased[1], &biased[2]], &x)?;
            for (layer, result) in biased.iter().zip(&results) {
                equal(result, &layer.forward(&x)?)?;
            }
            for activation in [Activation::Silu, Activation::NewGelu, Activation::Relu, Activation::Relu2] {
                for (gate, up) in [(&first, &second), (&up, &other)] {
                    let gated = fused::gate_products(activation, [gate, up], &x)?;
                    let expected = (gate.forward(&x)?.apply(&activation)? * up.forward(&x)?)?;
                    close(&gated, &expected)?;
                    // The columns that came with it, and the columns of a copy.
                    let down = QTensor::quantize(&random(&[32, 64], DType::F32, &device)?, GgmlDType::Q4_0)?;
                    let down = QMatMul::from_qtensor(down)?;
                    equal(&down.forward(&gated)?, &down.forward(&gated.copy()?)?)?;
                }
            }
        }
    }
    // Dense layers: one row and several, rows that one kernel takes and others, and a bias.
    for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
        for (k, rows) in [(1024, 1), (64, 1), (1024, 2), (520, 1)] {
            let dense =
                |n: usize| Ok::<_, candle_core::Error>(candle_nn::Linear::new(random(&[n, k], dtype, &device)?, None));
            let (a, b, c) = (dense(32)?, dense(8)?, dense(8)?);
            let x = random(&[1, rows, k], dtype, &device)?;
            let biased = candle_nn::Linear::new(a.weight().clone(), Some(random(&[32], dtype, &device)?));
            for layers in [[&a, &b, &c], [&biased, &b, &c]] {
                let results = fused::products(layers.map(|layer| layer as &dyn fused::Product), &x)?;
                for (layer, result) in layers.iter().zip(&results) {
                    near(result, &layer.forward(&x)?)?;
                }
            }
            for activation in [Activation::Silu, Activation::NewGelu, Activation::Relu2] {
                let gated = fused::gate_products(activation, [&b, &c], &x)?;
                near(&gated, &(b.forward(&x)?.apply(&activation)? * c.forward(&x)?)?)?;
            }
        }
    }
    // Inputs that do not fit.
    let dense = candle_nn::Linear::new(random(&[8, 4], DType::F32, &device)?, None);
    let x = random(&[3, 4], DType::F32, &device)?;
    let [a, b] = fused::products([&dense, &dense], &x)?;
    equal(&a, &b)?;
    equal(&a, &dense.forward(&x)?)?;
    equal(&fused::product_of(&dense, &x.to_dtype(DType::F64)?, DType::F32)?, &dense.forward(&x)?)?;
    let q = layer(64, GgmlDType::Q4K)?;
    assert!(fused::products([&q, &q], &x).is_err());
    assert!(fused::gate_products(Activation::Silu, [&q, &q], &x).is_err());
    Ok(())
}

/// Parts of one matrix beside layers that have only these rows, for one input. Products that other kernels make of the
/// whole are near, the others have `same_bits`.
fn parts_beside_layers(
    whole: &dyn fused::Product,
    counts: [usize; 3],
    layers: [&dyn fused::Product; 3],
    x: &Tensor,
    same_bits: bool,
) -> Result<()> {
    let compare = if same_bits { equal } else { near };
    let [a, b, c] = fused::parts(whole, counts)?;
    let results = fused::products([&a, &b, &c], x)?;
    for ((result, part), layer) in results.iter().zip([&a, &b, &c]).zip(layers) {
        compare(result, &layer.forward(x)?)?;
        compare(&fused::products([part], x)?[0], &layer.forward(x)?)?;
        compare(&fused::product_of(part, x, x.dtype())?, &layer.forward(x)?)?;
        near(&part.forward(x)?, &layer.forward(x)?)?;
    }
    // Parts of a part, parts of two layers, and parts beside a layer.
    let [_, d] = fused::parts(&c, [counts[2] - 32, 32])?;
    let [e] = fused::parts(layers[2], counts[2..].try_into().expect("one"))?;
    let [from_d, from_e, from_layer] = fused::products([&d, &e, layers[0]], x)?;
    let of_c = layers[2].forward(x)?;
    compare(&from_d, &of_c.narrow(D::Minus1, counts[2] - 32, 32)?)?;
    compare(&from_e, &of_c)?;
    compare(&from_layer, &layers[0].forward(x)?)?;
    Ok(())
}

/// A layer of these rows of the weights, quantized, and of the bias.
fn quantized_rows(
    (weights, bias): (&Tensor, Option<&Tensor>),
    rows: std::ops::Range<usize>,
    format: GgmlDType,
) -> Result<quantized_nn::Linear> {
    let weights = QTensor::quantize(&weights.narrow(0, rows.start, rows.len())?.contiguous()?, format)?;
    let bias = bias.map(|bias| bias.narrow(0, rows.start, rows.len())).transpose()?;
    quantized_nn::Linear::from_arc(Arc::new(weights), bias)
}

/// Parts of quantized and of dense matrices, with and without biases. Rows of some formats begin at odd multiples of
/// two bytes; one format has no products; few kernels take some of the rows. Inputs have few rows, and many.
#[test]
fn parts_of_one_matrix() -> Result<()> {
    let device = device();
    let counts = [65, 32, 33];
    let part = |i: usize| counts[..i].iter().sum::<usize>()..counts[..=i].iter().sum();
    for (format, k, has_bits) in [
        (GgmlDType::Q4K, 256, true),
        (GgmlDType::Q6K, 256, true),
        (GgmlDType::Q4_0, 32, true),
        (GgmlDType::Q8_0, 96, true),
        (GgmlDType::F16, 64, false),
    ] {
        let (weights, bias) = (random(&[130, k], DType::F32, &device)?, random(&[130], DType::F32, &device)?);
        for bias in [None, Some(&bias)] {
            let layer = |rows| quantized_rows((&weights, bias), rows, format);
            let (whole, a, b, c) = (layer(0..130)?, layer(part(0))?, layer(part(1))?, layer(part(2))?);
            for shape in [&[1, 1, k][..], &[3, k], &[2, 20, k], &[0, k]] {
                let x = random(shape, DType::F32, &device)?;
                let same_bits = has_bits && x.elem_count() <= 8 * k;
                parts_beside_layers(&whole, counts, [&a, &b, &c], &x, same_bits)?;
            }
        }
    }
    for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
        for k in [520, 33] {
            let (weights, bias) = (random(&[130, k], dtype, &device)?, random(&[130], dtype, &device)?);
            for bias in [None, Some(&bias)] {
                let layer = |rows: std::ops::Range<usize>| {
                    let bias = bias.map(|bias| bias.narrow(0, rows.start, rows.len())).transpose()?;
                    let weights = weights.narrow(0, rows.start, rows.len())?;
                    Result::Ok(candle_nn::Linear::new(weights, bias))
                };
                let (whole, a, b, c) = (layer(0..130)?, layer(part(0))?, layer(part(1))?, layer(part(2))?);
                for shape in [&[1, 1, k][..], &[3, k]] {
                    parts_beside_layers(&whole, counts, [&a, &b, &c], &random(shape, dtype, &device)?, false)?;
                }
            }
        }
    }
    Ok(())
}

/// Gates of two parts and of the halves of a layer, beside those of two layers. The rows of up begin where those of the
/// gate end.
#[test]
fn gates_of_one_matrix() -> Result<()> {
    let device = device();
    let (k, n) = (256, 64);
    let weights = random(&[2 * n, k], DType::F32, &device)?;
    let bias = random(&[2 * n], DType::F32, &device)?;
    let [silu, relu2] = [Activation::Silu, Activation::Relu2];
    for (bias, format) in [None, Some(&bias)].into_iter().flat_map(|bias| {
        [(bias, GgmlDType::Q4K), (bias, GgmlDType::Q6K), (bias, GgmlDType::Q8_0), (bias, GgmlDType::F16)]
    }) {
        let layer = |rows| quantized_rows((&weights, bias), rows, format);
        let (whole, gate, up) = (layer(0..2 * n)?, layer(0..n)?, layer(n..2 * n)?);
        for (shape, activation) in [(&[1, k][..], silu), (&[1, 1, k], relu2), (&[5, k], silu), (&[2, 20, k], silu)] {
            let x = random(shape, DType::F32, &device)?;
            let expected = fused::gate_products(activation, [&gate, &up], &x)?;
            let compare = if format != GgmlDType::F16 && x.elem_count() <= 8 * k { equal } else { near };
            let halves = fused::parts(&whole, [n, n])?;
            compare(&fused::gate_products(activation, [&halves[0], &halves[1]], &x)?, &expected)?;
            compare(&fused::gate_halves(activation, &whole, &x)?, &expected)?;
        }
    }
    for (bias, dtype) in [(None, DType::F32), (None, DType::BF16), (None, DType::F64), (Some(&bias), DType::F16)] {
        let (weights, bias) = (weights.to_dtype(dtype)?, bias.map(|bias| bias.to_dtype(dtype)).transpose()?);
        let layer = |first: usize, n: usize| {
            let bias = bias.as_ref().map(|bias| bias.narrow(0, first, n)).transpose()?;
            Result::Ok(candle_nn::Linear::new(weights.narrow(0, first, n)?, bias))
        };
        let (whole, gate, up) = (layer(0, 2 * n)?, layer(0, n)?, layer(n, n)?);
        for shape in [&[1, 1, k][..], &[2, 3, k]] {
            let x = random(shape, dtype, &device)?;
            let expected = fused::gate_products(silu, [&gate, &up], &x)?;
            near(&fused::gate_halves(silu, &whole, &x)?, &expected)?;
        }
    }
    Ok(())
}

/// A layer that counts its products, and does not tell its weights.
struct Counted {
    layer: candle_nn::Linear,
    products: std::cell::Cell<usize>,
}

impl Module for Counted {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.products.set(self.products.get() + 1);
        self.layer.forward(x)
    }
}

impl fused::Product for Counted {
    fn weights(&self) -> fused::Weights<'_> {
        fused::Weights::Other
    }
}

/// On Candle's CPU device, and for layers without a kernel, parts are one product of the whole. Parts that a layer does
/// not have are refused.
#[test]
fn parts_of_one_product() -> Result<()> {
    for device in [device(), Device::Cpu] {
        let weights = random(&[48, 32], DType::F32, &device)?;
        let dense = candle_nn::Linear::new(weights.clone(), Some(random(&[48], DType::F32, &device)?));
        let x = random(&[2, 3, 32], DType::F32, &device)?;
        let all = dense.forward(&x)?;
        let counted = Counted { layer: dense, products: 0.into() };
        let part = |first: usize, n: usize| all.narrow(D::Minus1, first, n);
        let [a, b, c] = fused::parts(&counted, [16, 24, 8])?;
        let [from_a, from_b, from_c] = fused::products([&a, &b, &c], &x)?;
        assert_eq!(counted.products.get(), 1);
        equal(&from_a, &part(0, 16)?)?;
        equal(&from_b, &part(16, 24)?)?;
        equal(&from_c, &part(40, 8)?)?;
        let expected = (part(0, 24)?.apply(&Activation::Silu)? * part(24, 24)?)?;
        close(&fused::gate_halves(Activation::Silu, &counted, &x)?, &expected)?;
        let [gate, up] = fused::parts(&counted, [24, 24])?;
        close(&fused::gate_products(Activation::Silu, [&gate, &up], &x)?, &expected)?;
        assert_eq!(counted.products.get(), 3);
        close(&fused::gate_halves(Activation::Silu, &counted.layer, &x)?, &expected)?;
        // Where the whole is unknown, the product tells its end.
        let [_, beyond] = fused::parts(&counted, [16, 33])?;
        assert!(beyond.forward(&x).is_err() && fused::products([&beyond], &x).is_err());

        let quantized = QMatMul::from_qtensor(QTensor::quantize(&weights, GgmlDType::Q4_0)?)?;
        let layers: [&dyn fused::Product; 2] = [&counted.layer, &quantized];
        for layer in layers {
            let error = |counts| fused::parts(layer, counts).err().map(|error| error.to_string()).unwrap_or_default();
            let beyond = error([16, 24, 9]);
            assert!(beyond.starts_with("parts: counts is [16, 24, 9], 49 rows, and the layer has 48"), "{beyond}");
            assert!(error([usize::MAX, 2, 0]).starts_with("parts: counts is") && error([16, 24, 0]).is_empty());
        }
    }
    Ok(())
}

/// Phi-3 on this device beside Candle's CPU device: heads that rotate as a whole, and in part; angles with scales; an
/// odd number of heads. A prompt, and tokens behind it.
#[test]
fn phi3_rotates() -> Result<()> {
    let factors = |count: usize, by: f32| (0..count).map(|i| 1.0 + i as f32 / by).collect::<Vec<_>>();
    // Other factors from the sixth place on.
    let scaled = |count: usize| {
        serde_json::json!({
            "original_max_position_embeddings": 5,
            "rope_scaling":
                { "type": "longrope", "short_factor": factors(count, 4.0), "long_factor": factors(count, 2.0) },
        })
    };
    let plain = || serde_json::json!({});
    let odd = serde_json::json!({ "hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 1 });
    for (partial, more) in
        [(None, plain()), (Some(0.5), plain()), (None, scaled(8)), (Some(0.25), scaled(2)), (None, odd)]
    {
        let mut fields = fields();
        fields["partial_rotary_factor"] = partial.into();
        fields.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        let config: phi3::Config = serde_json::from_value(fields).map_err(candle_core::Error::wrap)?;
        let map = VarMap::new();
        drop(phi3::Model::new(&config, VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu))?);
        let weights = map.data().lock().unwrap().clone();
        let logits = |device: &Device| -> Result<Vec<Tensor>> {
            let weight = |weight: &Var| weight.as_tensor().detach().to_device(device);
            let tensors = weights.iter().map(|(name, of)| Ok((name.clone(), weight(of)?))).collect::<Result<_>>()?;
            let mut model = phi3::Model::new(&config, VarBuilder::from_tensors(tensors, DType::F32, device))?;
            let ids = Tensor::new(&[[1u32, 7, 3, 9, 5, 2, 8]], device)?;
            let step = |(at, count)| model.forward(&ids.narrow(1, at, count)?.contiguous()?, at);
            [(0, 4), (4, 1), (5, 1), (6, 1)].into_iter().map(step).collect()
        };
        for (found, expected) in logits(&device())?.iter().zip(&logits(&Device::Cpu)?) {
            near(found, expected)?;
        }
    }
    Ok(())
}

/// A program that has borrowed a tensor's memory may write to it between two products. The second one reads the new
/// elements.
#[test]
fn memory_that_a_program_writes() -> Result<()> {
    let device = device();
    let weights = QTensor::quantize(&random(&[32, 64], DType::F32, &device)?, GgmlDType::Q4_0)?;
    let layer = QMatMul::from_qtensor(weights)?;
    let numbers: Vec<f32> = (0..64).map(|i| i as f32 / 8. - 3.).collect();
    let expected = layer.forward(&Tensor::from_slice(&numbers, (1, 64), &device)?)?;
    type Write = fn(&RocmStorage, &Layout, &[f32]) -> Result<()>;
    let writes: [Write; 4] = [
        |x, _, numbers| x.buffer().write(numbers).w(),
        |x, layout, numbers| x.contiguous(layout, "test", "x")?.write(numbers).w(),
        |x, _, numbers| x.as_slice::<f32>()?.buffer().write(numbers).w(),
        |x, _, numbers| match x.slice()? {
            RocmStorageSlice::F32(x) => x.buffer().write(numbers).w(),
            other => panic!("{other:?} is not of f32"),
        },
    ];
    for write in writes {
        let x = random(&[1, 64], DType::F32, &device)?;
        layer.forward(&x)?;
        {
            let (storage, layout) = x.storage_and_layout();
            write(RocmStorage::of(&storage, "test", "x")?, layout, &numbers)?;
        }
        equal(&layer.forward(&x)?, &expected)?;
    }
    // Borrowed before the first product.
    let x = random(&[1, 64], DType::F32, &device)?;
    let (storage, _) = x.storage_and_layout();
    let borrowed = RocmStorage::of(&storage, "test", "x")?.buffer();
    layer.forward(&x)?;
    borrowed.write(&numbers).w()?;
    equal(&layer.forward(&x)?, &expected)
}

#[test]
fn sums_with_norms() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for cols in [7, 64, 96] {
            let shape = [2, 3, cols];
            let (x, residual) = (random(&shape, dtype, &device)?, random(&shape, dtype, &device)?);
            let weight = random(&[cols], dtype, &device)?;
            let sum = (&x + &residual)?;
            let normed = candle_nn::ops::rms_norm(&sum, &weight, 1e-5)?;
            for run in [fused::add_rms_norm, fused::add_rms_norm_for_products] {
                let (got_sum, got_normed) = run(&x, &residual, &weight, 1e-5)?;
                equal(&got_sum, &sum)?;
                equal(&got_normed, &normed)?;
            }
            equal(&fused::rms_norm_for_products(&sum, &weight, 1e-5)?, &normed)?;
            // Views that are not contiguous take the separate ops.
            let turned = x.transpose(0, 1)?;
            let (got, _) = fused::add_rms_norm(&turned, &residual.transpose(0, 1)?, &weight, 1e-5)?;
            equal(&got, &sum.transpose(0, 1)?)?;
        }
    }
    Ok(())
}

/// A norm, the sum of it and a residual, and the norm of that sum, beside the three ops. Views, and tensors for which
/// they are separate ops.
#[test]
fn sums_of_norms_with_norms() -> Result<()> {
    let device = device();
    let layer = QTensor::quantize(&random(&[32, 96], DType::F32, &device)?, GgmlDType::Q8_0)?;
    let layer = QMatMul::from_qtensor(layer)?;
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for cols in [7, 64, 96] {
            let shape = [2, 3, cols];
            let (x, residual) = (random(&shape, dtype, &device)?, random(&shape, dtype, &device)?);
            let (first, second) = (random(&[cols], dtype, &device)?, random(&[cols], dtype, &device)?);
            let norms = |eps: [f64; 2]| {
                [fused::Norm { weight: &first, eps: eps[0] }, fused::Norm { weight: &second, eps: eps[1] }]
            };
            let both = norms([1e-5; 2]);
            let (x_part, residual_part) = (x.narrow(0, 1, 1)?, residual.narrow(0, 1, 1)?);
            for (x, residual) in [(&x, &residual), (&x_part, &residual_part)] {
                let sum = (candle_nn::ops::rms_norm(x, &first, 1e-5)? + residual)?;
                let normed = candle_nn::ops::rms_norm(&sum, &second, 1e-5)?;
                for for_products in [false, true] {
                    let done = fused::norm_add_rms_norm(x, residual, both, for_products)?;
                    let (got_sum, got_normed) = done.expect("one launch");
                    equal(&got_sum, &sum)?;
                    equal(&got_normed, &normed)?;
                    if cols == 96 && dtype == DType::F32 {
                        equal(&layer.forward(&got_normed)?, &layer.forward(&normed)?)?;
                    }
                }
            }
            let is_separate = |x: &Tensor, residual: &Tensor, norms: [fused::Norm<'_>; 2]| {
                Result::Ok(fused::norm_add_rms_norm(x, residual, norms, true)?.is_none())
            };
            assert!(is_separate(&x, &residual, norms([1e-5, 1e-6]))?);
            assert!(is_separate(&x.transpose(0, 1)?, &residual.transpose(0, 1)?, both)?);
            assert!(is_separate(&x, &residual_part, both)?);
            let other = if dtype == DType::F32 { DType::F16 } else { DType::F32 };
            assert!(is_separate(&x, &residual.to_dtype(other)?, both)?);
            let tracked = |t: &Tensor| Result::Ok(Var::from_tensor(t)?.into_inner());
            assert!(is_separate(&tracked(&x)?, &residual, both)? && is_separate(&x, &tracked(&residual)?, both)?);
            for other in [tracked(&first)?, first.to_dtype(other)?, random(&[cols + 1], dtype, &device)?] {
                let other = fused::Norm { weight: &other, eps: 1e-5 };
                assert!(is_separate(&x, &residual, [other, both[1]])? && is_separate(&x, &residual, [both[0], other])?);
            }
            let [x, residual, weight] = [&x, &residual, &first].map(|t| t.to_device(&Device::Cpu));
            let (x, residual, weight) = (x?, residual?, weight?);
            assert!(is_separate(&x, &residual, [fused::Norm { weight: &weight, eps: 1e-5 }; 2])?);
        }
    }
    Ok(())
}

/// Batch norms with given statistics, beside Candle's CPU device in f32: one op rounds once.
#[test]
fn batch_norms() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let unit = match dtype {
            DType::F64 | DType::F32 => 2f64.powi(-20),
            DType::F16 => 2f64.powi(-10),
            _ => 2f64.powi(-7),
        };
        for dims in [&[2, 6][..], &[0, 6, 4], &[3, 6, 7], &[2, 6, 7, 7], &[2, 6, 8, 8], &[1, 6, 2, 1, 3, 1, 2, 1, 2, 1]]
        {
            let parameter = || random(&[6], dtype, &Device::Cpu);
            let (mean, var, weight, bias) = (parameter()?, parameter()?.sqr()?, parameter()?, parameter()?);
            let whole = random(&[&[dims[0] + 1], &dims[1..]].concat(), dtype, &Device::Cpu)?;
            // A view that is contiguous, or one that is not.
            let view = |x: &Tensor, is_contiguous: bool| {
                let (x, last) = (x.narrow(0, 1, dims[0])?, dims.len() - 1);
                if is_contiguous { Ok(x) } else { x.transpose(0, last)?.contiguous()?.transpose(0, last) }
            };
            for (affine, is_contiguous) in [(true, true), (false, true), (true, false)] {
                let norm = |on: &Device, dtype: DType| {
                    let to = |t: &Tensor| t.to_device(on)?.to_dtype(dtype);
                    let (mean, var) = (to(&mean)?, to(&var)?);
                    if affine {
                        BatchNorm::new(6, mean, var, to(&weight)?, to(&bias)?, 1e-3)
                    } else {
                        BatchNorm::new_no_bias(6, mean, var, 1e-3)
                    }
                };
                let x = view(&whole.to_device(&device)?, is_contiguous)?;
                let got = norm(&device, dtype)?.forward_t(&x, false)?;
                let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                // Candle's CPU device takes eight dims at most.
                let x = view(&whole.to_dtype(wide)?, true)?.flatten_from(dims.len().min(3) - 1)?;
                let expected = norm(&Device::Cpu, wide)?.forward_t(&x, false)?;
                assert_eq!((got.dims(), got.dtype()), (dims, dtype));
                // The ops that stand for it round four times.
                let steps = if is_contiguous { 1.0 } else { 8.0 };
                for (a, b) in values(&got)?.iter().zip(&values(&expected)?) {
                    assert!((a - b).abs() <= steps * unit * (b.abs() + 4.0), "{dtype:?}, {dims:?}: {a} is not {b}");
                }
            }
        }
    }
    // Tensors that are tracked have gradients.
    let x = candle_core::Var::from_tensor(&random(&[2, 3, 4], DType::F32, &device)?)?;
    let of = |value: f64| Tensor::full(value as f32, 3, &device);
    let norm = BatchNorm::new(3, of(0.5)?, of(4.0)?, of(3.0)?, of(1.0)?, 0.0)?;
    let y = norm.forward_t(&x, false)?;
    let gradient = y.sum_all()?.backward()?;
    let gradient = values(gradient.get(&x).expect("a gradient"))?;
    assert!(gradient.iter().all(|g| (g - 1.5).abs() < 1e-6), "{gradient:?}");
    // Shapes and dtypes that do not fit.
    assert!(norm.forward_t(&random(&[2, 4, 3], DType::F32, &device)?, false).is_err());
    assert!(norm.forward_t(&random(&[2, 3, 4], DType::F16, &device)?, false).is_err());
    assert!(norm.forward_t(&random(&[3], DType::F32, &device)?, false).is_err());
    Ok(())
}

/// Group norms, beside Candle's CPU device in f32: one op rounds once.
#[test]
fn group_norms() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let unit = match dtype {
            DType::F64 | DType::F32 => 2f64.powi(-18),
            DType::F16 => 2f64.powi(-9),
            _ => 2f64.powi(-6),
        };
        for (groups, dims) in [(3, &[2, 6, 1][..]), (2, &[3, 6, 7]), (6, &[2, 6, 7, 7]), (1, &[2, 6, 64, 64])] {
            let (weight, bias) = (random(&[6], dtype, &Device::Cpu)?, random(&[6], dtype, &Device::Cpu)?);
            let whole = random(&[&[dims[0] + 1], &dims[1..]].concat(), dtype, &Device::Cpu)?;
            let norm = |on: &Device, dtype: DType| {
                let to = |t: &Tensor| t.to_device(on)?.to_dtype(dtype);
                candle_nn::GroupNorm::new(to(&weight)?, to(&bias)?, 6, groups, 1e-3)
            };
            let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let x = whole.to_device(&device)?.narrow(0, 1, dims[0])?;
            let expected = norm(&Device::Cpu, wide)?.forward(&whole.to_dtype(wide)?.narrow(0, 1, dims[0])?)?;
            let with_silu = candle_nn::ops::silu(&expected)?;
            let norm = norm(&device, dtype)?;
            for (got, expected) in [(norm.forward(&x)?, expected), (norm.forward_silu(&x)?, with_silu)] {
                assert_eq!((got.dims(), got.dtype()), (dims, dtype));
                for (a, b) in values(&got)?.iter().zip(&values(&expected)?) {
                    assert!((a - b).abs() <= unit * (b.abs() + 4.0), "{dtype:?}, {groups} of {dims:?}: {a} is not {b}");
                }
            }
        }
    }
    // Tensors that are tracked have gradients. Those of a group add up to 0, since the mean is taken off.
    let x = candle_core::Var::from_tensor(&random(&[2, 4, 5], DType::F32, &device)?)?;
    let ones = Tensor::ones(4, DType::F32, &device)?;
    let norm = candle_nn::GroupNorm::new(ones.clone(), ones.zeros_like()?, 4, 2, 1e-5)?;
    let factors = random(&[2, 4, 5], DType::F32, &device)?;
    let gradients = (norm.forward(&x)? * factors)?.sum_all()?.backward()?;
    let gradient = gradients.get(&x).expect("a gradient").reshape((4, 10))?;
    assert!(values(&gradient.abs()?.sum(1)?)?.iter().all(|sum| *sum > 1e-2));
    assert!(values(&gradient.sum(1)?)?.iter().all(|sum| sum.abs() < 1e-5));
    // Inputs that do not fit are refused as on Candle's CPU device, with silu too.
    for (dims, dtype) in [(&[2, 6, 5][..], DType::F32), (&[2, 4], DType::F32), (&[2, 4, 5], DType::F16)] {
        let x = random(dims, dtype, &device)?;
        assert!(norm.forward(&x).is_err(), "{dims:?}");
        assert!(norm.forward_silu(&x).is_err(), "{dims:?} with silu");
    }
    // A view that is not contiguous takes several ops.
    let x = random(&[2, 5, 4], DType::F32, &device)?;
    let (view, whole) = (x.transpose(1, 2)?, x.transpose(1, 2)?.contiguous()?);
    for (a, b) in values(&norm.forward_silu(&view)?)?.iter().zip(&values(&norm.forward_silu(&whole)?)?) {
        assert!((a - b).abs() <= 1e-5, "{a} is not {b}");
    }
    Ok(())
}

/// All groups of a convolution are one call. Its results are those of the groups one by one, and tracked tensors have
/// gradients, as on Candle's CPU device.
#[test]
fn groups_of_convolutions() -> Result<()> {
    let device = device();
    let parts = |x: &Tensor, w: &Tensor, groups: usize, op: &dyn Fn(&Tensor, &Tensor) -> Result<Tensor>| {
        let results = x.chunk(groups, 1)?.iter().zip(w.chunk(groups, 0)?).map(|(x, w)| op(x, &w)).collect::<Vec<_>>();
        Tensor::cat(&results.into_iter().collect::<Result<Vec<_>>>()?, 1)
    };
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::U32] {
        // Depthwise, and groups that are products.
        for (groups, c_in, c_out) in [(6, 1, 1), (6, 1, 2), (2, 3, 4), (2, 16, 8)] {
            let of = |dims: &[usize]| (random(dims, DType::F32, &device)? * 8.)?.abs()?.to_dtype(dtype);
            let (x, w) = (of(&[2, groups * c_in, 8, 9])?, of(&[groups * c_out, c_in, 3, 3])?);
            let one = |x: &Tensor, w: &Tensor| x.conv2d(w, 1, 1, 1, 1);
            near(&x.conv2d(&w, 1, 1, 1, groups)?, &parts(&x, &w, groups, &one)?)?;
            let (x, w) = (x.flatten_from(2)?, w.flatten_from(2)?);
            let one = |x: &Tensor, w: &Tensor| x.conv1d(w, 2, 3, 2, 1);
            near(&x.conv1d(&w, 2, 3, 2, groups)?, &parts(&x, &w, groups, &one)?)?;
            let w = of(&[groups * c_in, c_out, 5])?;
            let one = |x: &Tensor, w: &Tensor| x.conv_transpose1d(w, 1, 1, 2, 1, 1);
            near(&x.conv_transpose1d(&w, 1, 1, 2, 1, groups)?, &parts(&x, &w, groups, &one)?)?;
        }
    }
    let (x, w) = (random(&[2, 6, 7, 7], DType::F32, &device)?, random(&[6, 2, 3, 3], DType::F32, &device)?);
    let gradients = |device: &Device| {
        let (x, w) = (Var::from_tensor(&x.to_device(device)?)?, Var::from_tensor(&w.to_device(device)?)?);
        let gradients = x.conv2d(&w, 1, 1, 1, 3)?.sqr()?.sum_all()?.backward()?;
        let of = |t: &Var| gradients.get(t).expect("a gradient").to_device(&Device::Cpu);
        Ok::<_, candle_core::Error>([of(&x)?, of(&w)?])
    };
    for (a, b) in gradients(&device)?.iter().zip(&gradients(&Device::Cpu)?) {
        near(a, b)?;
    }
    // Channels that the groups do not divide.
    let (x, w) = (random(&[1, 6, 9], DType::F32, &device)?, random(&[4, 2, 3], DType::F32, &device)?);
    says!(x.conv1d(&w, 0, 1, 1, 3), "groups is 3", "kernel_layout.dims[0], 4");
    // No channels: an error, as on Candle's CPU device.
    let (x, w) = (x.narrow(1, 0, 0)?, random(&[0, 3, 2], DType::F32, &device)?);
    assert!(x.conv_transpose1d(&w, 0, 0, 1, 1, 2).is_err());
    Ok(())
}

#[test]
fn choice_of_experts() -> Result<()> {
    let device = device();
    for (tokens, experts, topk, normalise) in
        [(1, 64, 8, true), (5, 16, 2, false), (40, 128, 8, true), (3, 600, 4, true)]
    {
        let logits = random(&[tokens, experts], DType::F32, &device)?;
        let p = candle_nn::ops::softmax_last_dim(&logits)?;
        let ids = p.arg_sort_last_dim(false)?.narrow(D::Minus1, 0, topk)?.contiguous()?;
        let mut weights = p.gather(&ids, D::Minus1)?;
        if normalise {
            weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
        }
        let (sorted, order) = ids.flatten_all()?.sort_last_dim(true)?;
        let routes = fused::route(&logits, topk, normalise)?;
        let (got, weights) = (values(&routes.weights)?, values(&weights)?);
        assert!(got.iter().zip(&weights).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?} are not {weights:?}");
        equal(&routes.experts, &sorted)?;
        equal(&routes.tokens, &order)?;
    }
    Ok(())
}

#[test]
fn choice_of_experts_by_a_layer() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
        // Tokens, experts, the length of a row, topk; one token in one launch, where there are kernels and no bias.
        for (tokens, experts, k, topk) in [(1, 128, 256, 8), (1, 7, 33, 3), (4, 16, 64, 2), (1, 600, 16, 4)] {
            // Multiples of 1/16, whose sums round in no order; random ones have experts with almost equal logits.
            let numbers = |dims: &[usize]| (random(dims, DType::F32, &device)? * 16.0)?.round()? / 16.0;
            let x = numbers(&[tokens, k])?.to_dtype(dtype)?;
            let weights = numbers(&[experts, k])?.to_dtype(dtype)?;
            let bias = numbers(&[experts])?.to_dtype(dtype)?;
            for bias in [None, Some(bias)] {
                let layer = candle_nn::Linear::new(weights.clone(), bias);
                let routes = fused::route_of(&layer, &x, topk, true)?;
                let expected = fused::route(&layer.forward(&x)?, topk, true)?;
                assert_eq!(routes.weights.dims(), expected.weights.dims());
                let (got, weights) = (values(&routes.weights)?, values(&expected.weights)?);
                assert!(got.iter().zip(&weights).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?} are not {weights:?}");
                equal(&routes.experts, &expected.experts)?;
                equal(&routes.tokens, &expected.tokens)?;
            }
        }
    }
    Ok(())
}

/// candle-nn's own cache returns contiguous tensors, which other ops need.
#[test]
fn appended_keys_are_contiguous() -> Result<()> {
    let device = device();
    let mut cache = ConcatKvCache::new(2);
    let of = |tokens: usize| random(&[2, 3, tokens, 8], DType::F32, &device);
    let (first, next) = (of(5)?, of(1)?);
    cache.append(&first, &first)?;
    let (k, v) = cache.append(&next, &next)?;
    equal(&k, &Tensor::cat(&[&first, &next], 2)?)?;
    assert!(k.is_contiguous() && v.is_contiguous());
    let angles = random(&[6, 4], DType::F32, &device)?;
    candle_nn::rotary_emb::rope(&k, &angles, &angles)?;
    Tensor::zeros((2, 3, 9, 8), DType::F32, &device)?.slice_set(&k, 2, 0)
}

/// More pairs than one launch counts are left to the ops. Nothing is allocated.
#[test]
fn pairs_that_are_too_many() -> Result<()> {
    let device = device();
    let rows = random(&[1, 1, 1, 4], DType::F32, &device)?.broadcast_as((1 << 20, 1 << 10, 1, 4))?;
    let angles = random(&[1, 2], DType::F32, &device)?;
    for cache in [Caches::Growing(None), Caches::Apart] {
        assert!(rocm_backend::rope_grow([&rows; 3], [&angles; 2], false, cache)?.is_none());
    }
    Ok(())
}

/// A cache equals `cat` after every append, its older states stay as they were, and only one append takes the room.
#[test]
fn caches_grow() -> Result<()> {
    let device = device();
    for (dim, dims) in [(0, vec![3, 5]), (1, vec![2, 3, 4]), (2, vec![2, 3, 5, 8]), (2, vec![1, 1, 300, 2])] {
        let first = random(&dims, DType::F32, &device)?;
        let (mut cache, mut expected) = (first.clone(), first);
        let mut states = Vec::new();
        for count in [1, 1, 3, 1, 260, 1, 1] {
            let mut shape = dims.clone();
            shape[dim] = count;
            let rows = random(&shape, DType::F32, &device)?;
            states.push((cache.clone(), expected.clone()));
            cache = fused::grow(&[&cache, &rows], dim)?;
            expected = Tensor::cat(&[&expected, &rows], dim)?;
            equal(&cache, &expected)?;
        }
        // Another continuation of every state: the room behind it is taken, so it gets memory of its own.
        let mut shape = dims.clone();
        shape[dim] = 2;
        let rows = random(&shape, DType::F32, &device)?;
        for (state, expected) in &states {
            equal(state, expected)?;
            equal(&fused::grow(&[state, &rows], dim)?, &Tensor::cat(&[expected, &rows], dim)?)?;
        }
        equal(&cache, &expected)?;
        // A part of the cache is no cache with room.
        let part = cache.narrow(dim, 1, 2)?;
        equal(&fused::grow(&[&part, &rows], dim)?, &Tensor::cat(&[&part, &rows], dim)?)?;
    }
    let x = random(&[2, 3], DType::F32, &device)?;
    assert!(fused::grow(&[&x, &random(&[2, 2], DType::F32, &device)?], 0).is_err());
    Ok(())
}

/// Keys and values.
type Pair = (Tensor, Tensor);

/// Two rows of a cache of four, taken for four rows of a cache of other rows: the room is not theirs.
#[test]
fn room_of_other_rows() -> Result<()> {
    let device = device();
    let (rows, row) = (random(&[3, 2], DType::F32, &device)?, random(&[1, 2], DType::F32, &device)?);
    let cache = fused::grow(&[&rows, &row], 0)?;
    let other = cache.narrow(0, 0, 2)?.flatten_all()?;
    let grown = fused::grow(&[&other, &Tensor::new(&[99f32], &device)?], 0)?;
    assert_eq!(values(&grown)?[4], 99.);
    equal(&fused::grow(&[&cache, &row], 0)?, &Tensor::cat(&[&rows, &row, &row], 0)?)?;
    equal(&cache, &Tensor::cat(&[&rows, &row], 0)?)
}

#[test]
fn rotated_caches_grow() -> Result<()> {
    let device = device();
    for (dtype, d) in [(DType::F32, 8), (DType::F16, 16), (DType::BF16, 6)] {
        for interleaved in [false, true] {
            let rope = if interleaved { candle_nn::rotary_emb::rope_i } else { candle_nn::rotary_emb::rope };
            let (cos, sin) = (random(&[400, d / 2], dtype, &device)?, random(&[400, d / 2], dtype, &device)?);
            let (mut cache, mut expected): (Option<Pair>, Option<Pair>) = (None, None);
            let mut at = 0;
            for count in [5, 1, 1, 300, 1] {
                // As a model has them: (batch, tokens, heads, d), transposed.
                let part = |heads: usize| random(&[2, count, heads, d], dtype, &device)?.transpose(1, 2);
                let (q, k, v) = (part(4)?, part(2)?, part(2)?);
                let (c, s) = (cos.narrow(0, at, count)?, sin.narrow(0, at, count)?);
                let angles = [&cos, &sin];
                let [rotated, keys, values] = fused::rope_grow_at([&q, &k, &v], angles, at, interleaved, &cache)?;
                equal(&rotated, &rope(&q.contiguous()?, &c, &s)?)?;
                let k = rope(&k.contiguous()?, &c, &s)?;
                let (all_k, all_v) = match &expected {
                    None => (k, v.contiguous()?),
                    Some((keys, values)) => (Tensor::cat(&[keys, &k], 2)?, Tensor::cat(&[values, &v], 2)?),
                };
                equal(&keys, &all_k)?;
                equal(&values, &all_v)?;
                (cache, expected) = (Some((keys, values)), Some((all_k, all_v)));
                at += count;
            }
        }
    }
    Ok(())
}

/// Elements of a head, and the heads of queries and of keys.
const HEAD: usize = 32;
const HEADS: [usize; 2] = [4, 2];

/// The heads of `x` by three layers, and the caches that they follow, beside the steps: products, and `rope_grow` of
/// the heads.
fn heads_of(
    layers: [&dyn fused::Product; 3],
    x: &Tensor,
    (angles, at, interleaved): ([&Tensor; 2], usize, bool),
    cache: &Option<Pair>,
) -> Result<[Tensor; 3]> {
    let heads = fused::products_rope_grow_at(layers, x, HEADS, angles, at, interleaved, cache)?;
    let (batch, tokens, _) = x.dims3()?;
    let [q, k, v] = fused::products(layers, x)?;
    let split = |t: &Tensor, heads: usize| t.reshape((batch, tokens, heads, HEAD))?.transpose(1, 2);
    let new = [&split(&q, HEADS[0])?, &split(&k, HEADS[1])?, &split(&v, HEADS[1])?];
    // A copy of the caches has no room of its own, so that the two do not meet.
    let copy = cache.as_ref().map(|(k, v)| Result::Ok((k.copy()?, v.copy()?))).transpose()?;
    let expected = fused::rope_grow_at(new, angles, at, interleaved, &copy)?;
    for (got, expected) in heads.iter().zip(&expected) {
        equal(got, expected)?;
    }
    Ok(heads)
}

/// Tokens, a few at a time. Two continuations of one cache do not disturb each other.
fn heads_of_tokens(layers: [&dyn fused::Product; 3], dtype: DType, batch: usize, interleaved: bool) -> Result<()> {
    let device = device();
    let (cos, sin) = (random(&[400, HEAD / 2], dtype, &device)?, random(&[400, HEAD / 2], dtype, &device)?);
    let mut cache: Option<Pair> = None;
    let mut at = 0;
    for count in [1, 1, 5, 1, 300, 1, 1] {
        let (x, other) = (random(&[batch, count, 256], dtype, &device)?, random(&[batch, count, 256], dtype, &device)?);
        let place = ([&cos, &sin], at, interleaved);
        let [_, keys, values] = heads_of(layers, &x, place, &cache)?;
        let (keys_before, values_before) = (keys.copy()?, values.copy()?);
        heads_of(layers, &other, place, &cache)?;
        equal(&keys, &keys_before)?;
        equal(&values, &values_before)?;
        cache = Some((keys, values));
        at += count;
    }
    // A cache that is a part of a tensor.
    let whole = random(&[batch, 3, 9, HEAD], dtype, &device)?;
    let part = whole.narrow(1, 1, 2)?.narrow(2, 2, 7)?;
    let x = random(&[batch, 1, 256], dtype, &device)?;
    heads_of(layers, &x, ([&cos, &sin], 7, interleaved), &Some((part.clone(), part)))?;
    Ok(())
}

/// One token and more, one text and two; quantized layers of one format and of two, dense layers of every dtype, layers
/// with biases, layers that are rows of one matrix.
#[test]
fn heads_of_products() -> Result<()> {
    let (device, k, n) = (device(), 256, [128, 64, 64]);
    for interleaved in [false, true] {
        for formats in [[GgmlDType::Q4K; 3], [GgmlDType::Q4K, GgmlDType::Q4K, GgmlDType::Q6K], [GgmlDType::F16; 3]] {
            let layer = |i: usize| {
                let weights = QTensor::quantize(&random(&[n[i], k], DType::F32, &device)?, formats[i])?;
                QMatMul::from_qtensor(weights)
            };
            let (q, k, v) = (layer(0)?, layer(1)?, layer(2)?);
            for batch in [1, 2] {
                heads_of_tokens([&q, &k, &v], DType::F32, batch, interleaved)?;
            }
            let bias = |n: usize| random(&[n], DType::F32, &device);
            let biases = (bias(128)?, bias(64)?);
            let (q, v) = (fused::Biased(&q, &biases.0), fused::Biased(&v, &biases.1));
            heads_of_tokens([&q, &k, &v], DType::F32, 1, interleaved)?;
            let (weights, bias) = (random(&[256, 256], DType::F32, &device)?, bias(256)?);
            for bias in [None, Some(&bias)] {
                let whole = quantized_rows((&weights, bias), 0..256, formats[2])?;
                let [q, k, v] = fused::parts(&whole, n)?;
                heads_of_tokens([&q, &k, &v], DType::F32, 1, interleaved)?;
            }
        }
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            let all = random(&[256, k], dtype, &device)?;
            let layer = |first: usize, n: usize, bias: bool| {
                let bias = if bias { Some(random(&[n], dtype, &device)?) } else { None };
                Result::Ok(candle_nn::Linear::new(all.narrow(0, first, n)?, bias))
            };
            let (q, k, v) = (layer(0, 128, true)?, layer(128, 64, false)?, layer(192, 64, true)?);
            heads_of_tokens([&q, &k, &v], dtype, 1, interleaved)?;
            let whole = layer(0, 256, interleaved)?;
            let [q, k, v] = fused::parts(&whole, n)?;
            heads_of_tokens([&q, &k, &v], dtype, 1, interleaved)?;
        }
    }
    // Heads that the layers do not have, angles and caches of another dtype, a cache of other heads.
    let layer = candle_nn::Linear::new(random(&[64, k], DType::F32, &device)?, None);
    let x = random(&[1, 1, k], DType::F32, &device)?;
    let refused = |heads, angles: DType, cache: Option<&Tensor>| -> Result<bool> {
        let angles = random(&[1, 16], angles, &device)?;
        let layers = [&layer as &dyn fused::Product; 3];
        let cache = cache.map(|cache| (cache, cache));
        Ok(fused::products_rope_grow(layers, &x, heads, [&angles, &angles], false, cache).is_err())
    };
    assert!(refused([3, 2], DType::F32, None)? && refused([2, 3], DType::F32, None)?);
    assert!(refused([2, 2], DType::F16, None)? && !refused([2, 2], DType::F32, None)?);
    let (halves, heads) =
        (random(&[1, 2, 3, HEAD], DType::F16, &device)?, random(&[1, 3, 3, HEAD], DType::F32, &device)?);
    assert!(refused([2, 2], DType::F32, Some(&halves))? && refused([2, 2], DType::F32, Some(&heads))?);
    Ok(())
}

/// Attention with a mask and with fewer heads of keys, beside the ops on repeated heads: batches, masks of the dtype,
/// of f32 and of u8, capped scores, tensors without a kernel. Without a mask, causal functions hide later keys.
#[test]
fn attention_with_masks() -> Result<()> {
    let device = device();
    for (dtype, d, heads) in
        [(DType::F32, 32, 2), (DType::BF16, 64, 4), (DType::F16, 16, 1), (DType::F64, 16, 2), (DType::F32, 520, 2)]
    {
        let of = |heads: usize, tokens: usize| random(&[2, heads, tokens, d], dtype, &device);
        let (q, k, v) = (of(4, 3)?, of(heads, 5)?, of(heads, 5)?);
        let hidden =
            Tensor::new(&[[0f32, -1e4, 0., 0., -1e4], [0., 0., -1e4, 0., 0.], [-1e4, 0., 0., 0., 0.]], &device)?;
        let later = Tensor::new(&[[0f64, 0., 0., -1e4, -1e4], [0., 0., 0., 0., -1e4], [0.; 5]], &device)?;
        let outside = [[-1e4f64, 0., 0., -1e4, -1e4], [-1e4, -1e4, 0., 0., -1e4], [-1e4, -1e4, -1e4, 0., 0.]];
        let outside = Tensor::new(&outside, &device)?;
        let masks = [None, Some(hidden.to_dtype(dtype)?), Some(hidden.broadcast_as((2, 1, 3, 5))?.to_dtype(dtype)?)];
        for (mask, cap) in masks.iter().flat_map(|mask| [(mask, None), (mask, Some(0.5))]) {
            let all = |x: &Tensor| {
                let parts = (0..heads).map(|h| x.narrow(1, h, 1)).collect::<Result<Vec<_>>>()?;
                let parts: Vec<_> = parts.iter().flat_map(|part| vec![part; 4 / heads]).collect();
                Tensor::cat(&parts, 1)?.to_dtype(DType::F64)
            };
            let scores = (q.to_dtype(DType::F64)?.matmul(&all(&k)?.t()?)? * 0.125)?;
            let scores = match cap {
                Some(cap) => ((scores / cap)?.tanh()? * cap)?,
                None => scores,
            };
            let expected = |mask: Option<&Tensor>| -> Result<Tensor> {
                let scores = match mask {
                    Some(mask) => scores.broadcast_add(&mask.to_dtype(DType::F64)?)?,
                    None => scores.clone(),
                };
                let e = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
                let p = e.broadcast_div(&e.sum_keepdim(D::Minus1)?)?;
                p.matmul(&all(&v)?)?.to_dtype(dtype)
            };
            let mask = mask.as_ref();
            let causal = expected(mask.or(Some(&later)))?;
            let (k, v) = (fused::repeat_heads(k.clone(), 4 / heads)?, fused::repeat_heads(v.clone(), 4 / heads)?);
            let scores = |window| Scores { scale: 0.125, cap, window };
            near(&fused::causal_attention(&q, &k, &v, mask, scores(None))?, &causal)?;
            near(&fused::causal_attention(&q, &k, &v, mask, scores(Some(4)))?, &causal)?;
            let windowed = expected(mask.or(Some(&outside)))?;
            near(&fused::causal_attention(&q, &k, &v, mask, scores(Some(1)))?, &windowed)?;
            if mask.is_none() {
                near(&fused::attention(&q, &k, &v, true, scores(Some(1)))?, &windowed)?;
                near(&fused::attention_for_products(&q, &k, &v, true, scores(Some(1)))?, &windowed)?;
            }
            if cap.is_none() {
                near(&fused::causal_attention(&q, &k, &v, mask, 0.125)?, &causal)?;
                near(&fused::masked_attention(&q, &k, &v, mask, 0.125)?, &expected(mask)?)?;
            }
            let last = q.narrow(2, 2, 1)?;
            let whole = fused::masked_attention(&last, &k, &v, None, 0.125)?;
            near(&fused::causal_attention(&last, &k, &v, None, 0.125)?, &whole)?;
            let windowed = Scores { scale: 0.125, cap: None, window: Some(1) };
            near(&fused::causal_attention(&last, &k, &v, None, windowed)?, &whole)?;
        }
        if dtype != DType::F64 {
            let seen = hidden.ge(0f32)?;
            let results = [hidden.to_dtype(dtype)?, hidden.clone(), seen].map(|mask| {
                let (k, v) = (fused::repeat_heads(k.clone(), 4 / heads)?, fused::repeat_heads(v.clone(), 4 / heads)?);
                fused::masked_attention(&q, &k, &v, Some(&mask), 0.125)
            });
            if d <= 512 || dtype == DType::F32 {
                let [a, b, c] = results;
                let b = b?;
                near(&a?, &b)?;
                near(&c?, &b)?;
            }
        }
    }
    Ok(())
}

/// On Candle's CPU device, with a batch, and with keys and values of the layout that models have: heads of a token side
/// by side.
#[test]
fn attention_on_the_cpu() -> Result<()> {
    let of = |heads: usize| random(&[2, 3, heads, 8], DType::F32, &Device::Cpu)?.transpose(1, 2);
    for heads in [4, 2] {
        let (q, k, v) = (of(4)?.contiguous()?, of(heads)?, of(heads)?);
        let whole = |x: &Tensor| {
            let parts = (0..4).map(|h| x.narrow(1, h * heads / 4, 1)).collect::<Result<Vec<_>>>()?;
            Tensor::cat(&parts, 1)?.contiguous()
        };
        let p = candle_nn::ops::softmax_last_dim(&(q.contiguous()?.matmul(&whole(&k)?.t()?)? * 0.5)?)?;
        equal(&fused::masked_attention(&q, &k, &v, None, 0.5)?, &p.matmul(&whole(&v)?)?)?;
    }
    Ok(())
}

/// Keys without a gradient behind a rotation, and values with one: a model with trained weights has both.
#[test]
fn attention_of_tracked_values() -> Result<()> {
    let device = device();
    let (q, k) = (random(&[2, 4, 5, 16], DType::F32, &device)?, random(&[2, 2, 5, 16], DType::F32, &device)?);
    let values = Var::from_tensor(&random(&[2, 2, 5, 16], DType::F32, &device)?)?;
    let v = values.as_tensor();
    assert!(!fused::has_attention(&q, &k, v) && fused::has_attention(&q, &k, &v.detach()));
    let expected = fused::masked_attention(&q, &k, &v.detach(), None, 0.25)?;
    let heads = |x: &Tensor| fused::repeat_heads(x.clone(), 2);
    let got = fused::masked_attention(&q, &heads(&k)?, &heads(v)?, None, 0.25)?;
    near(&got, &expected)?;
    let gradients = got.sum_all()?.backward()?;
    assert_eq!(gradients.get(v).map(|gradient| gradient.dims()), Some(v.dims()));
    Ok(())
}

/// The configuration of a small mistral or phi3.
fn fields() -> serde_json::Value {
    serde_json::json!({
        "vocab_size": 32, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "head_dim": null, "num_key_value_heads": 2, "hidden_act": "silu",
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "sliding_window": null,
        "use_flash_attn": false,
    })
}

fn gemma3_fields() -> serde_json::Value {
    serde_json::json!({
        "vocab_size": 32, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "head_dim": 16, "num_key_value_heads": 1, "hidden_activation": "gelu_pytorch_tanh", "attention_bias": false,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "rope_local_base_freq": 10_000.0,
        "query_pre_attn_scalar": 16, "sliding_window": 32, "sliding_window_pattern": 2,
    })
}

/// A model whose weights are variables. Its logits are those of the same weights without gradients. The variables
/// with gradients are those of Candle's CPU device.
#[test]
fn a_model_with_variables() -> Result<()> {
    let config: mistral::Config = serde_json::from_value(fields()).map_err(candle_core::Error::wrap)?;
    let with_gradients = |device: &Device| -> Result<BTreeSet<String>> {
        let variables = VarMap::new();
        let mut model = mistral::Model::new(&config, VarBuilder::from_varmap(&variables, DType::F32, device))?;
        let all = variables.data().lock().unwrap().clone();
        let tensors = all.iter().map(|(name, variable)| (name.clone(), variable.as_tensor().detach())).collect();
        let mut plain = mistral::Model::new(&config, VarBuilder::from_tensors(tensors, DType::F32, device))?;
        let ids = Tensor::new(&[[1u32, 2, 3, 4, 5], [6, 7, 8, 9, 10]], device)?;
        let logits = model.forward(&ids, 0)?;
        near(&logits, &plain.forward(&ids, 0)?)?;
        let gradients = logits.sqr()?.sum_all()?.backward()?;
        let has_gradient = |variable: &Var| gradients.get(variable.as_tensor()).is_some();
        Ok(all.into_iter().filter(|(_, variable)| has_gradient(variable)).map(|(name, _)| name).collect())
    };
    let found = with_gradients(&device())?;
    assert!(found.contains("model.embed_tokens.weight"), "{found:?}");
    assert_eq!(found, with_gradients(&Device::Cpu)?);
    Ok(())
}

/// Mistral with embeddings and no mask: all tokens see each other, as on Candle's CPU device.
#[test]
fn embeddings_without_a_mask() -> Result<()> {
    let map = VarMap::new();
    let config = serde_json::from_value(fields()).map_err(candle_core::Error::wrap)?;
    drop(mistral::Model::new(&config, VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu))?);
    let weights = map.data().lock().unwrap().clone();
    let xs = random(&[2, 5, 64], DType::F32, &Device::Cpu)?;
    let logits = |device: &Device| -> Result<[Tensor; 2]> {
        let weight = |weight: &Var| weight.as_tensor().detach().to_device(device);
        let tensors = weights.iter().map(|(name, of)| Ok((name.clone(), weight(of)?))).collect::<Result<_>>()?;
        let mut model = mistral::Model::new(&config, VarBuilder::from_tensors(tensors, DType::F32, device))?;
        let xs = xs.to_device(device)?;
        let first = model.forward_embeds(&xs, None, 0)?;
        Ok([first, model.forward_embeds(&xs, None, 5)?])
    };
    for (found, expected) in logits(&device())?.iter().zip(&logits(&Device::Cpu)?) {
        near(found, expected)?;
    }
    Ok(())
}

/// The weights of norms, or of the final norm alone, are the only variables of these models. The gradients are those of
/// Candle's CPU device. The final norm has a gradient too: its input is the last tokens of a batch.
#[test]
fn models_with_variables_in_norms() -> Result<()> {
    type Run = Box<dyn FnMut(&Tensor) -> Result<Tensor>>;
    type Build = fn(VarBuilder<'_>) -> Result<Run>;
    let builds: [Build; 3] = [
        |weights| {
            let config = serde_json::from_value(fields()).map_err(candle_core::Error::wrap)?;
            let mut model = mistral::Model::new(&config, weights)?;
            Ok(Box::new(move |ids| model.forward(ids, 0)))
        },
        |weights| {
            let config = serde_json::from_value(fields()).map_err(candle_core::Error::wrap)?;
            let mut model = phi3::Model::new(&config, weights)?;
            Ok(Box::new(move |ids| model.forward(ids, 0)))
        },
        |weights| {
            let config = serde_json::from_value(gemma3_fields()).map_err(candle_core::Error::wrap)?;
            let mut model = gemma3::Model::new(false, &config, weights)?;
            Ok(Box::new(move |ids| model.forward(ids, 0)))
        },
    ];
    let all = "norm";
    for (build, variables) in builds.into_iter().flat_map(|build| [(build, all), (build, "model.norm.weight")]) {
        let map = VarMap::new();
        drop(build(VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu))?);
        let weights = map.data().lock().unwrap().clone();
        let gradients = |device: &Device| -> Result<BTreeMap<String, Vec<f64>>> {
            let (mut tensors, mut norms) = (HashMap::new(), Vec::new());
            for (name, weight) in &weights {
                let mut weight = weight.as_tensor().detach().to_device(device)?;
                if name.contains(variables) {
                    weight = Var::from_tensor(&weight)?.into_inner();
                    norms.push((name.clone(), weight.clone()));
                }
                tensors.insert(name.clone(), weight);
            }
            let mut run = build(VarBuilder::from_tensors(tensors, DType::F32, device))?;
            let ids = Tensor::new(&[[1u32, 2, 3, 4, 5], [6, 7, 8, 9, 10]], device)?;
            let gradients = run(&ids)?.sqr()?.sum_all()?.backward()?;
            let gradient = |(name, weight)| Some(values(gradients.get(&weight)?).map(|values| (name, values)));
            norms.into_iter().filter_map(gradient).collect()
        };
        let (found, expected) = (gradients(&device())?, gradients(&Device::Cpu)?);
        assert!(expected.contains_key("model.norm.weight"), "{expected:?}");
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (name, expected) in &expected {
            let most = expected.iter().fold(0f64, |most, g| most.max(g.abs()));
            for (a, b) in found[name].iter().zip(expected) {
                assert!((a - b).abs() <= 1e-4 * most, "{name}: {a} is not {b}");
            }
        }
    }
    Ok(())
}

/// The last tokens of a batch. Only a ROCm device takes parts of what it will add, and of what it will norm before.
#[test]
fn parts_of_inputs() -> Result<()> {
    let device = device();
    for (tracked, is_normed) in [(false, false), (false, true), (true, false), (true, true)] {
        for device in [&device, &Device::Cpu] {
            let part = |i: f64| (random(&[2, 3, 4], DType::F32, device)? + i)?.detach().contiguous();
            let (mut trunk, x, weight) = (part(0.)?, part(1.)?, random(&[4], DType::F32, device)?);
            if tracked {
                trunk = Var::from_tensor(&trunk)?.into_inner();
            }
            let norm = fused::Norm { weight: &weight, eps: 1e-5 };
            let rms_norm = |x: &Tensor| candle_nn::ops::rms_norm(x, &weight, 1e-5);
            let branch = if is_normed { rms_norm(&x)? } else { x.clone() };
            let expected = (&branch + &trunk)?.narrow(1, 2, 1)?;
            let input =
                if is_normed { fused::Input::of_norm(trunk, x, norm, rms_norm)? } else { fused::Input::new(trunk, x) };
            let is_added = Cell::new(false);
            let forward = |sum: &Tensor| {
                is_added.set(true);
                Ok(sum.clone())
            };
            let forward_sum = |x: &Tensor, residual: &Tensor| Ok(((x + residual)?, x.clone()));
            let (sum, _) = input.narrow(1, 2, 1)?.normed(norm, false, forward, forward_sum)?;
            equal(&sum, &expected)?;
            assert_eq!(is_added.get(), device.is_cpu() || tracked);
            assert_eq!(sum.is_contiguous(), !is_added.get());
        }
    }
    Ok(())
}

/// The norm of a branch is left to the norm of the sum, also of a part. It is an op of its own where that norm has
/// another epsilon, or weights that are tracked.
#[test]
fn inputs_of_norms() -> Result<()> {
    let device = device();
    let (trunk, x) = (random(&[1, 3, 64], DType::F32, &device)?, random(&[1, 3, 64], DType::F32, &device)?);
    let (first, second) = (random(&[64], DType::F32, &device)?, random(&[64], DType::F32, &device)?);
    let branch = candle_nn::ops::rms_norm(&x, &first, 1e-5)?;
    let sum = (&branch + &trunk)?;
    let no_norm = |_: &Tensor| -> Result<Tensor> { panic!("a norm of its own") };
    let no_sum = |_: &Tensor, _: &Tensor| -> Result<(Tensor, Tensor)> { panic!("a sum of its own") };
    let first_norm = fused::Norm { weight: &first, eps: 1e-5 };
    let input = || fused::Input::of_norm(trunk.clone(), x.clone(), first_norm, no_norm);
    let norm = fused::Norm { weight: &second, eps: 1e-5 };
    for (input, sum) in [(input()?, sum.clone()), (input()?.narrow(1, 2, 1)?, sum.narrow(1, 2, 1)?)] {
        let (got, normed) = input.normed(norm, true, no_norm, no_sum)?;
        equal(&got, &sum)?;
        equal(&normed, &candle_nn::ops::rms_norm(&sum, &second, 1e-5)?)?;
    }
    let tracked = Var::from_tensor(&second)?.into_inner();
    for norm in [fused::Norm { weight: &second, eps: 1e-6 }, fused::Norm { weight: &tracked, eps: 1e-5 }] {
        let forward_sum = |got: &Tensor, residual: &Tensor| {
            equal(got, &branch)?;
            equal(residual, &trunk)?;
            fused::add_rms_norm(got, residual, norm.weight, norm.eps)
        };
        let (got, normed) = input()?.normed(norm, true, no_norm, forward_sum)?;
        equal(&got, &sum)?;
        equal(&normed, &candle_nn::ops::rms_norm(&sum, norm.weight, norm.eps as f32)?)?;
    }
    // The norm is made at once on other devices, of tensors that are tracked, and of views that are not contiguous.
    let [cpu_trunk, cpu_x, cpu_first] = [&trunk, &x, &first].map(|t| t.to_device(&Device::Cpu));
    let turned = random(&[1, 64, 3], DType::F32, &device)?.transpose(1, 2)?;
    for (trunk, x, weight) in [
        (cpu_trunk?, cpu_x?, cpu_first?),
        (trunk.clone(), Var::from_tensor(&x)?.into_inner(), first.clone()),
        (trunk.clone(), x.clone(), Var::from_tensor(&first)?.into_inner()),
        (trunk.clone(), turned, first.clone()),
    ] {
        let norm = fused::Norm { weight: &weight, eps: 1e-5 };
        let input = fused::Input::of_norm(trunk, x.clone(), norm, |x| x * 2.0)?;
        let forward_sum = |branch: &Tensor, trunk: &Tensor| Ok((branch.clone(), trunk.clone()));
        equal(&input.normed(norm, false, no_norm, forward_sum)?.0, &(&x * 2.0)?)?;
    }
    // The last tokens of a batch: the weights of the next norm have the gradient of Candle's CPU device.
    let batch = [random(&[2, 3, 64], DType::F32, &Device::Cpu)?, random(&[2, 3, 64], DType::F32, &Device::Cpu)?];
    let gradient = |device: &Device| {
        let [trunk, x, first, second] = [&batch[0], &batch[1], &first, &second].map(|t| t.to_device(device));
        let weight = Var::from_tensor(&second?)?;
        let (first, next) = (RmsNorm::new(first?, 1e-5), RmsNorm::new(weight.as_tensor().clone(), 1e-5));
        let input = fused::Input::of_norm(trunk?, x?, first.parameters(), |x| first.forward(x))?.narrow(1, 2, 1)?;
        let forward_sum = |x: &Tensor, residual: &Tensor| next.forward_sum(x, residual);
        let (_, normed) = input.normed(next.parameters(), false, |x| next.forward(x), forward_sum)?;
        Result::Ok(normed.sqr()?.sum_all()?.backward()?.get(&weight).expect("a gradient").clone())
    };
    near(&gradient(&device)?, &gradient(&Device::Cpu)?)?;
    Ok(())
}

/// Heads that lie side by side, beside the ops on one head after the other, with and without a mask; and tensors for
/// which the models have to do the ops.
#[test]
fn attention_of_heads() -> Result<()> {
    let device = device();
    let of = |tokens: usize, heads: usize, d: usize, dtype| random(&[2, tokens, heads * d], dtype, &device);
    let cases =
        [(DType::F32, 2, 32), (DType::F16, 3, 64), (DType::BF16, 1, 512), (DType::F16, 2, 20), (DType::F32, 1, 8)];
    for (dtype, heads, d) in cases {
        let (q, k, v) = (of(5, heads, d, dtype)?, of(7, heads, d, dtype)?, of(7, heads, d, dtype)?);
        let hidden = Tensor::new(&[[0f32, 0., -1e4, 0., 0., -1e4, 0.]], &device)?.broadcast_as((5, 7))?;
        // As BERT makes it; in one text all keys are hidden.
        let least = f32::MIN / 2.;
        let least = Tensor::new(&[[0f32, 0., 0., 0., 0., least, least], [least; 7]], &device)?;
        let mut masks = vec![None, Some(hidden.to_dtype(dtype)?), Some(hidden.contiguous()?)];
        if dtype != DType::F16 {
            masks.push(Some(least.reshape((2, 1, 1, 7))?.to_dtype(dtype)?));
        }
        for mask in masks {
            let found = fused::attention_of_heads(&q, &k, &v, heads, mask.as_ref(), 0.25)?.expect("a ROCm device");
            assert!(found.is_contiguous());
            let apart = |x: &Tensor| x.reshape((2, (), heads, d))?.transpose(1, 2)?.contiguous();
            let of_apart = fused::try_attention(&apart(&q)?, &apart(&k)?, &apart(&v)?, mask.as_ref(), 0.25)?;
            equal(&of_apart.expect("a ROCm device").transpose(1, 2)?.flatten_from(2)?, &found)?;
            let mut expected = Vec::new();
            for head in 0..heads {
                let of_head = |x: &Tensor| x.narrow(2, head * d, d)?.contiguous()?.to_dtype(DType::F64);
                let scores = (of_head(&q)?.matmul(&of_head(&k)?.t()?)? * 0.25)?;
                let scores = match &mask {
                    Some(mask) => scores.unsqueeze(1)?.broadcast_add(&mask.to_dtype(DType::F64)?)?.squeeze(1)?,
                    None => scores,
                };
                let e = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
                let p = e.broadcast_div(&e.sum_keepdim(D::Minus1)?)?;
                expected.push(p.matmul(&of_head(&v)?)?);
            }
            near(&found, &Tensor::cat(&expected, 2)?.to_dtype(dtype)?)?;
        }
    }
    let none = |q: &Tensor, k: &Tensor, v: &Tensor, heads| fused::attention_of_heads(q, k, v, heads, None, 0.25);
    let wide = of(5, 1, 320, DType::F32)?;
    assert!(none(&wide, &wide, &wide, 0)?.is_none());
    assert!(none(&wide, &wide, &wide, 1)?.is_none());
    let (double, q) = (of(5, 2, 32, DType::F64)?, of(5, 2, 32, DType::F32)?);
    assert!(none(&double, &double, &double, 2)?.is_none());
    assert!(none(&q, &double, &q, 2)?.is_none());
    let tracked = candle_core::Var::from_tensor(&q)?;
    assert!(none(&q, &q, tracked.as_tensor(), 2)?.is_none());
    // The least number hides a key, also where it hides all of them.
    let least = Tensor::new(&[[0f32, 0., 0., 0., f32::MIN], [f32::MIN; 5]], &device)?.reshape((2, 1, 1, 5))?;
    let found = fused::attention_of_heads(&q, &q, &q, 2, Some(&least), 0.25)?.expect("a ROCm device");
    let of_four = |x: &Tensor| x.narrow(0, 0, 1)?.narrow(1, 0, 4);
    let expected = fused::attention_of_heads(&of_four(&q)?, &of_four(&q)?, &of_four(&q)?, 2, None, 0.25)?;
    near(&of_four(&found)?, &expected.expect("a ROCm device"))?;
    assert_eq!(found.narrow(0, 1, 1)?.abs()?.max_all()?.to_scalar::<f32>()?, 0.);
    // A mask for batch and heads as one dim, as marian's scores have them.
    let mask = random(&[4, 5, 5], DType::F32, &device)?;
    assert!(fused::attention_of_heads(&q, &q, &q, 2, Some(&mask), 0.25)?.is_none());
    assert!(fused::attention_of_heads(&q, &q, &q, 2, Some(&mask.narrow(0, 0, 2)?), 0.25)?.is_some());
    let on_cpu = q.to_device(&Device::Cpu)?;
    assert!(none(&on_cpu, &on_cpu, &on_cpu, 2)?.is_none());
    Ok(())
}

/// The products of queries, keys and values, and then attention.
#[test]
fn self_attention() -> Result<()> {
    let device = device();
    for (dtype, tokens) in [(DType::F32, 5), (DType::F16, 1), (DType::BF16, 9)] {
        let x = random(&[2, tokens, 48], dtype, &device)?;
        let layer = || -> Result<_> {
            let (weight, bias) = (random(&[64, 48], dtype, &device)?, random(&[64], dtype, &device)?);
            Ok(candle_nn::Linear::new((weight * 0.2)?, Some(bias)))
        };
        let layers = [layer()?, layer()?, layer()?];
        let found = fused::self_attention([&layers[0], &layers[1], &layers[2]], &x, 4, None, 0.25)?;
        let [q, k, v] = fused::products([&layers[0], &layers[1], &layers[2]], &x)?;
        let expected = fused::attention_of_heads(&q, &k, &v, 4, None, 0.25)?.expect("a ROCm device");
        equal(&found.expect("a ROCm device"), &expected)?;

        let on_cpu = |x: &Tensor| x.to_device(&Device::Cpu);
        let [q, k, v] = [0, 1, 2].map(|i| {
            let bias = layers[i].bias().map(on_cpu).transpose();
            Ok::<_, candle_core::Error>(candle_nn::Linear::new(on_cpu(layers[i].weight())?, bias?))
        });
        assert!(fused::self_attention([&q?, &k?, &v?], &on_cpu(&x)?, 4, None, 0.25)?.is_none());
    }
    Ok(())
}

/// Attention that hides later keys, with as many and with fewer heads of keys, beside `sdpa`: another order in memory.
#[test]
fn causal_attention() -> Result<()> {
    let device = device();
    for (dtype, d, heads) in [(DType::F32, 32, 4), (DType::F16, 64, 2), (DType::BF16, 20, 1)] {
        let of = |heads: usize, tokens: usize| random(&[2, heads, tokens, d], dtype, &device);
        let (q, k, v) = (of(4, 3)?, of(heads, 5)?, of(heads, 5)?);
        for causal in [false, true] {
            let found = fused::attention(&q, &k, &v, causal, 0.25)?;
            equal(&found, &candle_nn::ops::sdpa(&q, &k, &v, None, causal, 0.25, 1.0)?)?;
            assert!(found.transpose(1, 2)?.is_contiguous());
        }
    }
    // Tensors without a kernel, and Candle's CPU device: the ops.
    let seen = Tensor::new(&[[1u8, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1; 5]], &Device::Cpu)?;
    for (dtype, dv) in [(DType::F64, 32), (DType::F32, 520)] {
        let of = |heads: usize, tokens: usize, d: usize| random(&[2, heads, tokens, d], dtype, &device);
        let (q, k, v) = (of(4, 3, 32)?, of(2, 5, 32)?, of(2, 5, dv)?);
        let wide = [&q, &k, &v].map(|t| t.to_device(&Device::Cpu)?.to_dtype(DType::F64));
        let [wide_q, wide_k, wide_v] = [&wide[0], &wide[1], &wide[2]].map(|t| t.as_ref().expect("a tensor"));
        for causal in [false, true] {
            let mask = causal.then_some(&seen);
            let expected = fused::masked_attention(wide_q, wide_k, wide_v, mask, 0.25)?;
            near(&fused::attention(&q, &k, &v, causal, 0.25)?, &expected.to_dtype(dtype)?)?;
            equal(&fused::attention(wide_q, wide_k, wide_v, causal, 0.25)?, &expected)?;
            let by_tokens = wide_q.transpose(1, 2)?.contiguous()?.transpose(1, 2)?;
            equal(&fused::attention(&by_tokens, wide_k, wide_v, causal, 0.25)?, &expected)?;
        }
        if dv > 512 {
            let got = fused::masked_attention(&q, &k, &v, Some(&seen.to_device(&device)?), 0.25)?;
            near(&got, &fused::attention(&q, &k, &v, true, 0.25)?)?;
        }
    }
    // Values that are tracked have gradients. Keys of another dtype are refused.
    let of = |tokens: usize| random(&[1, 2, tokens, 8], DType::F32, &device);
    let v = candle_core::Var::from_tensor(&of(5)?)?;
    let sum = fused::attention(&of(3)?, &of(5)?, &v, true, 0.25)?.sum_all()?;
    assert!(sum.backward()?.get(&v).is_some());
    let (q, k) = (of(3)?, of(5)?);
    assert!(fused::attention(&q, &k.to_dtype(DType::F16)?, &k, true, 0.25).is_err());
    Ok(())
}

/// Without a dim of heads, attention is the same error as on Candle's CPU device.
#[test]
fn attention_without_heads() -> Result<()> {
    let scores = fused::Scores { scale: 0.25, cap: None, window: Some(1) };
    for dims in [&[3usize, 8][..], &[2, 3, 8], &[1, 2, 2, 3, 8], &[8]] {
        let refusal = |device: &Device| {
            let x = random(dims, DType::F32, device)?;
            assert!(!fused::has_attention(&x, &x, &x));
            let refused = fused::causal_attention(&x, &x, &x, None, scores).expect_err("no heads");
            Ok::<_, candle_core::Error>(refused.to_string())
        };
        assert_eq!(refusal(&device())?, refusal(&Device::Cpu)?);
    }
    Ok(())
}

#[test]
fn masks_that_are_needed() {
    let device = device();
    for (tokens, window, needed) in [(1, Some(0), false), (2, None, false), (6, Some(6), false), (7, Some(6), true)] {
        assert_eq!(fused::needs_mask(tokens, window, &device), needed, "{tokens}, {window:?}");
        assert_eq!(fused::needs_mask(tokens, window, &Device::Cpu), tokens > 1, "{tokens}, {window:?}");
    }
}

/// The tokens that top-k and top-p sampling keep, beside a sort of all probabilities on the host.
#[test]
fn likeliest_tokens() -> Result<()> {
    let device = device();
    let logits = (Tensor::randn(0f32, 3., 5000, &device)? + 0.)?;
    let flat = Tensor::zeros(5000, DType::F32, &device)?;
    let ranked = |logits: &Tensor, temperature: f64| -> Result<Vec<(f32, u32)>> {
        let p = candle_nn::ops::softmax_last_dim(&(logits / temperature)?)?.to_vec1::<f32>()?;
        let mut ranked: Vec<_> = p.into_iter().zip(0..).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(ranked)
    };
    for (logits, temperature, k, p) in [
        (&logits, 1.0, Some(40), None),
        (&logits, 0.7, None, Some(0.8)),
        (&logits, 0.7, Some(200), Some(0.5)),
        (&logits, 1.3, Some(3), Some(0.999999)),
        // More tokens than are downloaded at first.
        (&flat, 1.0, None, Some(0.9)),
        (&flat, 1.0, None, Some(0.99999994)),
    ] {
        let mut kept = ranked(logits, temperature)?;
        kept.truncate(k.unwrap_or(5000));
        if let Some(p) = p {
            let mut sum = 0f32;
            let count = kept.iter().position(|(probability, _)| {
                let is_enough = sum >= p;
                sum += probability;
                is_enough
            });
            kept.truncate(count.unwrap_or(kept.len()));
        }
        kept.sort_by_key(|(_, token)| *token);
        let found = fused::likeliest(logits, temperature, k, p)?.expect("a ROCm device");
        assert_eq!(found.tokens, kept.iter().map(|(_, token)| *token).collect::<Vec<_>>());
        assert_eq!(found.probabilities, kept.iter().map(|(probability, _)| *probability).collect::<Vec<_>>());
    }
    let none = |logits: &Tensor, k, p| Ok::<_, candle_core::Error>(fused::likeliest(logits, 1.0, k, p)?.is_none());
    assert!(none(&logits, None, None)? && none(&logits, Some(5000), Some(1.0))? && none(&logits, Some(0), None)?);
    assert!(none(&logits, None, Some(0.0))?);
    assert!(none(&logits.to_device(&Device::Cpu)?, Some(40), None)?);
    assert!(none(&logits.to_dtype(DType::F16)?, Some(40), None)?);
    Ok(())
}

/// Tokens that are drawn by sums, beside the probabilities on the host. A number in the middle of a token's part gives
/// the token.
#[test]
fn drawn_tokens() -> Result<()> {
    let device = device();
    for count in [1, 7, 256, 257, 5000] {
        // No token at some places, also at both ends.
        let logits: Vec<f32> = (0..count)
            .map(|i| if count > 1 && i % 5 == 0 { f32::NEG_INFINITY } else { ((i * 37) % 11) as f32 / 2. })
            .collect();
        let logits = Tensor::new(logits, &device)?;
        let probabilities = candle_nn::ops::softmax_last_dim(&(&logits / 0.7)?)?.to_vec1::<f32>()?;
        let mut before = 0f64;
        for (token, probability) in probabilities.iter().enumerate() {
            let middle = before + f64::from(*probability) / 2.;
            before += f64::from(*probability);
            if *probability > 0. && (token < 8 || token % 97 == 0 || token + 3 > count) {
                let found = fused::draw(&logits, 0.7, |sum| {
                    assert!((sum - 1.).abs() < 1e-5, "{count} tokens: the sum is {sum}");
                    Ok(middle as f32)
                })?;
                assert_eq!(found, Some(token as u32), "{count} tokens");
            }
        }
        let last = probabilities.iter().rposition(|probability| *probability > 0.).expect("a token");
        let found = fused::draw(&logits, 0.7, Ok)?;
        assert_eq!(found, Some(last as u32), "a number that is the sum, of {count} tokens");
    }
    let ones = Tensor::ones(9, DType::F32, &device)?;
    let none = |logits: &Tensor| Ok::<_, candle_core::Error>(fused::draw(logits, 1.0, Ok)?.is_none());
    assert!(none(&ones.to_device(&Device::Cpu)?)? && none(&ones.to_dtype(DType::F16)?)?);
    assert!(none(&ones.reshape((3, 3))?)? && none(&ones.narrow(0, 0, 0)?)?);
    assert!(none(&(&ones * f64::NAN)?)?, "probabilities that are no numbers");
    says!(fused::draw(&ones, 1.0, |_| candle_core::bail!("no number")), "no number");
    Ok(())
}

#[test]
fn norms_that_round_once() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let x = random(&[2, 3, 4, 32], dtype, &device)?.transpose(1, 2)?;
        let weight = random(&[32], dtype, &device)?;
        let expected = |x: &Tensor| {
            let wide = x.to_dtype(DType::F64)?;
            let scale = ((wide.sqr()?.mean_keepdim(D::Minus1)? + 1e-6)?.sqrt()?).recip()?;
            wide.broadcast_mul(&scale)?.broadcast_mul(&weight.to_dtype(DType::F64)?)?.to_dtype(dtype)
        };
        near(&fused::rms_norm_once(&x, &weight, 1e-6)?.expect("a ROCm device"), &expected(&x)?)?;
        let residual = random(&[2, 4, 3, 32], dtype, &device)?;
        let (sum, normed) = fused::add_rms_norm_once(&x, &residual, &weight, 1e-6)?.expect("a ROCm device");
        equal(&sum, &(&x + &residual)?)?;
        near(&normed, &expected(&sum)?)?;
    }
    let var = candle_core::Var::from_tensor(&random(&[2, 8], DType::F32, &device)?)?;
    let weight = random(&[8], DType::F32, &device)?;
    assert!(fused::rms_norm_once(var.as_tensor(), &weight, 1e-6)?.is_none());
    let x = random(&[2, 8], DType::F32, &device)?;
    assert!(fused::add_rms_norm_once(&x, var.as_tensor(), &weight, 1e-6)?.is_none());
    Ok(())
}

/// Queries and keys with normalised heads, beside the norm, the casts and `rope_grow`, token by token. Rows are of a
/// length that has a kernel, or not; a cache may have another dtype.
#[test]
fn normed_caches_grow() -> Result<()> {
    let device = device();
    for (from, to, d) in [
        (DType::F32, DType::F32, 64),
        (DType::F32, DType::BF16, 128),
        (DType::F32, DType::F16, 24),
        (DType::F16, DType::F16, 64),
        (DType::BF16, DType::BF16, 16),
        (DType::F16, DType::F32, 32),
        (DType::F64, DType::F64, 16),
    ] {
        let weights = [random(&[d], from, &device)?, random(&[d], from, &device)?];
        let norms = weights.each_ref().map(|weight| fused::Norm { weight, eps: 1e-6 });
        let (mut cache, mut expected) = (None::<(Tensor, Tensor)>, None::<(Tensor, Tensor)>);
        for tokens in [5, 1, 1, 2] {
            let rows = |heads: usize| random(&[1, tokens, heads, d], from, &device)?.transpose(1, 2);
            let (q, k, v) = (rows(4)?, rows(2)?, rows(2)?);
            let given = [q.clone(), k.clone(), v.clone()];
            let angles = [random(&[tokens, d / 2], to, &device)?, random(&[tokens, d / 2], to, &device)?];
            let angles = angles.each_ref();
            let kept = cache.as_ref().map(|(k, v)| (k, v));
            let [new_q, keys, values] = fused::norm_rope_grow([&q, &k, &v], norms, angles, kept)?;
            let normed =
                |x: &Tensor, i: usize| candle_nn::ops::rms_norm(&x.contiguous()?, &weights[i], 1e-6)?.to_dtype(to);
            let (q, k, v) = (normed(&q, 0)?, normed(&k, 1)?, v.to_dtype(to)?);
            let kept = expected.as_ref().map(|(k, v)| (k, v));
            let [wanted, its_keys, its_values] = fused::rope_grow([&q, &k, &v], angles, false, kept)?;
            equal(&new_q, &wanted)?;
            // Of the new tokens alone, for other caches.
            let alone = [fused::norm_rope_qkv([&given[0], &given[1], &given[2]], norms, angles)?];
            let rotated = fused::rope_qkv([&q, &k, &v], angles, false)?;
            let first = its_keys.dims()[2] - tokens;
            for [new_q, new_k, new_v] in alone.iter().chain([&rotated]) {
                assert!(new_q.is_contiguous() && new_k.is_contiguous() && new_v.is_contiguous());
                equal(new_q, &wanted)?;
                equal(new_k, &its_keys.narrow(2, first, tokens)?)?;
                equal(new_v, &its_values.narrow(2, first, tokens)?)?;
            }
            equal(&keys, &its_keys)?;
            equal(&values, &its_values)?;
            (cache, expected) = (Some((keys, values)), Some((its_keys, its_values)));
        }
    }
    Ok(())
}

/// `append_rotated` of caches that have memory, beside `append`: rows that fit, rows that a rotating cache splits, and
/// more rows than it has.
#[test]
fn rotated_rows_go_to_caches() -> Result<()> {
    let (device, batch, d) = (device(), 2, 64);
    for (dtype, has_norms) in [(DType::F32, true), (DType::BF16, true), (DType::F16, false), (DType::F64, true)] {
        let weights = [random(&[d], dtype, &device)?, random(&[d], dtype, &device)?];
        let norms = has_norms.then(|| weights.each_ref().map(|weight| fused::Norm { weight, eps: 1e-6 }));
        let mut whole = [KvCache::new(2, 16), KvCache::new(2, 16)];
        let mut rotating = [RotatingKvCache::new(2, 6), RotatingKvCache::new(2, 6)];
        for tokens in [4, 1, 1, 1, 3, 2, 7, 1, 5, 1, 1] {
            let rows = |heads: usize| random(&[batch, tokens, heads, d], dtype, &device)?.transpose(1, 2);
            let (q, k, v) = (rows(4)?, rows(2)?, rows(2)?);
            let qkv = [&q, &k, &v];
            let angles = [random(&[tokens, d / 2], dtype, &device)?, random(&[tokens, d / 2], dtype, &device)?];
            let angles = angles.each_ref();
            let [wanted, new_k, new_v] = match norms {
                Some(norms) => fused::norm_rope_qkv(qkv, norms, angles)?,
                None => fused::rope_qkv(qkv, angles, false)?,
            };
            macro_rules! compare {
                ($caches:ident) => {
                    let [got, keys, values] = $caches[0].append_rotated(qkv, norms, angles)?;
                    let (its_keys, its_values) = $caches[1].append(&new_k, &new_v)?;
                    equal(&got, &wanted)?;
                    equal(&keys, &its_keys)?;
                    equal(&values, &its_values)?;
                };
            }
            compare!(whole);
            compare!(rotating);
        }
    }
    Ok(())
}

/// `append_products` beside its steps, for tokens one by one and several at once, until the caches are full. The layers
/// are parts of a quantized matrix, and of a dense one.
#[test]
fn products_go_to_caches() -> Result<()> {
    let (device, k, counts) = (device(), 256, [HEADS[0] * HEAD, HEADS[1] * HEAD, HEADS[1] * HEAD]);
    for (dtype, batch) in [(DType::F32, 1), (DType::F16, 1), (DType::BF16, 1), (DType::F64, 1), (DType::F32, 2)] {
        let weights = random(&[counts.iter().sum(), k], dtype, &device)?;
        let dense = candle_nn::Linear::new(weights.clone(), None);
        let quantized = QMatMul::from_qtensor(QTensor::quantize(&weights.to_dtype(DType::F32)?, GgmlDType::Q4K)?)?;
        let layers: [&dyn fused::Product; 2] = [&dense, &quantized];
        for layer in layers.into_iter().take(if dtype == DType::F64 { 1 } else { 2 }) {
            let [q, k_part, v] = fused::parts(layer, counts)?;
            let parts = [&q as &dyn fused::Product, &k_part, &v];
            let mut whole = [KvCache::new(2, 16), KvCache::new(2, 16)];
            let mut rotating = [RotatingKvCache::new(2, 6), RotatingKvCache::new(2, 6)];
            for tokens in [1, 1, 4, 1, 1, 3, 1, 7, 1, 1] {
                let x = random(&[batch, tokens, k], dtype, &device)?;
                let angles =
                    [random(&[tokens, HEAD / 2], dtype, &device)?, random(&[tokens, HEAD / 2], dtype, &device)?];
                let angles = angles.each_ref();
                let [new_q, new_k, new_v] = fused::products_of_heads(parts, &x, HEADS)?;
                macro_rules! compare {
                    ($caches:ident) => {
                        let got = $caches[0].append_products(parts, &x, HEADS, angles)?;
                        let expected = $caches[1].append_rotated([&new_q, &new_k, &new_v], None, angles)?;
                        for (got, expected) in got.iter().zip(&expected) {
                            equal(got, expected)?;
                        }
                    };
                }
                compare!(whole);
                compare!(rotating);
            }
            // A token in the memory of the cache itself.
            if batch == 1 {
                let cached = |cache: &KvCache| {
                    cache.k()?.expect("keys").narrow(1, 0, 1)?.narrow(2, 0, k / HEAD)?.reshape((1, 1, k))
                };
                let (own, copy) = (cached(&whole[0])?, cached(&whole[1])?.copy()?);
                let angles = [random(&[1, HEAD / 2], dtype, &device)?, random(&[1, HEAD / 2], dtype, &device)?];
                let angles = angles.each_ref();
                let [new_q, new_k, new_v] = fused::products_of_heads(parts, &copy, HEADS)?;
                let got = whole[0].append_products(parts, &own, HEADS, angles)?;
                let expected = whole[1].append_rotated([&new_q, &new_k, &new_v], None, angles)?;
                for (got, expected) in got.iter().zip(&expected) {
                    equal(got, expected)?;
                }
            }
        }
    }
    Ok(())
}

/// Products after each way to write to a tensor see its new numbers.
#[test]
fn kept_activations_follow_their_tensor() -> Result<()> {
    let device = device();
    let weights = random(&[33, 256], DType::F32, &device)?;
    let weights = QMatMul::from_qtensor(QTensor::quantize(&weights, GgmlDType::Q4K)?)?;
    let fresh = |x: &Tensor| weights.forward(&x.copy()?);
    let x = random(&[2, 256], DType::F32, &device)?;
    equal(&weights.forward(&x)?, &fresh(&x)?)?;
    x.slice_set(&random(&[1, 256], DType::F32, &device)?, 0, 1)?;
    equal(&weights.forward(&x)?, &fresh(&x)?)?;
    x.zero_set()?;
    equal(&weights.forward(&x)?, &fresh(&x)?)?;
    let ids = Tensor::zeros((2, 256), DType::U32, &device)?;
    x.scatter_set(&ids, &random(&[2, 256], DType::F32, &device)?, 1)?;
    equal(&weights.forward(&x)?, &fresh(&x)?)?;
    // Parts of one tensor, one after the other.
    let x = random(&[4, 256], DType::F32, &device)?;
    for first in [0, 1, 3, 0] {
        let part = x.narrow(0, first, 1)?;
        equal(&weights.forward(&part)?, &fresh(&part)?)?;
    }
    Ok(())
}
