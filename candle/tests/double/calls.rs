//! The HIP calls that ops make after their first use: one launch each, without allocations and copies. The double
//! counts the calls.
use crate::config::{self, Split};
use crate::model::Llama;
use crate::weights::Random;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use candle_nn::{Activation, BatchNorm, GroupNorm, Linear, ModuleT, RmsNorm, fused};
use candle_rocm_tests::double::{Calls, calls};
use candle_rocm_tests::steps::{DIM, Layer, chain};
use std::cell::RefCell;

/// The calls of an op or a step that has run before.
fn calls_of<T>(step: impl Fn() -> Result<T>) -> Result<Calls> {
    step()?;
    step()?;
    calls();
    step()?;
    Ok(calls())
}

fn launches(count: usize) -> (String, usize) {
    ("hipModuleLaunchKernel".into(), count)
}

type Op = fn(&Tensor) -> Result<Tensor>;

/// Ops on a tensor (4, 6, 8), each with its number of launches.
const OPS: &[(&str, usize, Op)] = &[
    ("unary", 1, |x| x.exp()),
    ("unary of a view", 1, |x| x.t()?.exp()),
    ("affine", 1, |x| x.affine(2.0, 3.0)),
    ("powf", 1, |x| x.powf(2.0)),
    ("binary", 1, |x| x + x),
    ("binary, broadcast", 1, |x| x.broadcast_mul(&x.narrow(1, 2, 1)?)),
    ("comparison", 1, |x| x.lt(x)),
    ("comparison and where", 2, |x| x.lt(x)?.where_cond(x, x)),
    ("to_dtype", 1, |x| x.to_dtype(DType::BF16)),
    ("contiguous", 1, |x| x.t()?.contiguous()),
    ("cat", 2, |x| Tensor::cat(&[x, x], 0)),
    ("sum", 1, |x| x.sum(1)),
    ("max", 1, |x| x.max(D::Minus1)),
    ("argmax", 1, |x| x.argmax(0)),
    ("softmax", 1, |x| candle_nn::ops::softmax_last_dim(x)),
    ("attention", 1, |x| {
        candle_nn::ops::sdpa(&x.unsqueeze(0)?, &x.unsqueeze(0)?, &x.unsqueeze(0)?, None, true, 0.3, 1.0)
    }),
    ("gate", 1, |x| fused::gate(Activation::Silu, x, x)),
    ("sum and norm", 1, |x| Ok(fused::add_rms_norm(x, x, &x.get(0)?.get(0)?, 1e-5)?.1)),
    ("norm, sum and norm", 1, |x| {
        let weight = x.get(0)?.get(0)?;
        let norm = fused::Norm { weight: &weight, eps: 1e-5 };
        Ok(fused::norm_add_rms_norm(x, x, [norm; 2], false)?.expect("one launch").1)
    }),
    ("choice of experts", 1, |x| Ok(fused::route(&x.get(0)?, 2, true)?.weights)),
    ("choice of experts by a layer", 1, |x| {
        let layer = candle_nn::Linear::new(x.get(0)?, None);
        Ok(fused::route_of(&layer, &x.get(1)?.narrow(0, 2, 1)?, 2, true)?.weights)
    }),
    ("rotary embeddings and a cache's begin", 1, |x| {
        let (qkv, angles) = (x.unsqueeze(0)?, x.flatten_all()?.narrow(0, 0, 24)?.reshape((6, 4))?);
        let [q, ..] = fused::rope_grow([&qkv, &qkv, &qkv], [&angles, &angles], false, None)?;
        Ok(q)
    }),
    ("sort", 1, |x| x.arg_sort_last_dim(true)),
    ("matmul", 1, |x| x.matmul(&x.t()?)),
    ("conv2d", 1, |x| x.unsqueeze(0)?.conv2d(&x.unsqueeze(0)?, 0, 1, 1, 1)),
    ("conv2d, many channels", 2, |x| {
        let kernel = x.flatten_all()?.narrow(0, 0, 128)?.reshape((16, 4, 2, 1))?;
        x.unsqueeze(0)?.conv2d(&kernel, 0, 1, 1, 1)
    }),
    ("conv2d, 1 x 1", 1, |x| {
        let kernel = x.flatten_all()?.narrow(0, 0, 64)?.reshape((16, 4, 1, 1))?;
        x.unsqueeze(0)?.conv2d(&kernel, 0, 1, 1, 1)
    }),
    ("conv2d, depthwise", 1, |x| {
        let kernel = x.flatten_all()?.narrow(0, 0, 16)?.reshape((4, 1, 2, 2))?;
        x.unsqueeze(0)?.conv2d(&kernel, 0, 1, 1, 4)
    }),
    ("conv1d, depthwise", 1, |x| {
        let kernel = x.flatten_all()?.narrow(0, 0, 18)?.reshape((6, 1, 3))?;
        x.conv1d(&kernel, 1, 1, 1, 6)
    }),
    ("conv_transpose1d, depthwise", 1, |x| {
        let kernel = x.flatten_all()?.narrow(0, 0, 24)?.reshape((6, 1, 4))?;
        x.conv_transpose1d(&kernel, 0, 0, 2, 1, 6)
    }),
    ("avg_pool2d", 1, |x| x.unsqueeze(0)?.avg_pool2d(2)),
    ("rand", 1, |x| x.rand_like(0.0, 1.0)),
    ("a number", 1, |x| Tensor::new(1f32, x.device())),
];

pub fn each_op_is_its_launches() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let x = Tensor::rand(0f32, 1., (4, 6, 8), &device)?;
    for (name, count, op) in OPS {
        assert_eq!(calls_of(|| op(&x))?, [launches(*count)], "{name}");
    }
    Ok(())
}

pub fn an_elementwise_chain_is_its_launches() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let (x, row) = (Tensor::randn(0f32, 1., (65, 33), &device)?, Tensor::randn(0f32, 1., 33, &device)?);
    assert_eq!(calls_of(|| chain(&x, &row))?, [launches(8)]);
    Ok(())
}

/// A batch norm that does not train: one launch, or four and those for the parameters where gradients are tracked.
pub fn a_batch_norm_is_one_launch() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let of = || Tensor::rand(0.5f32, 1., 6, &device);
    let (affine, plain) =
        (BatchNorm::new(6, of()?, of()?, of()?, of()?, 1e-5)?, BatchNorm::new_no_bias(6, of()?, of()?, 1e-5)?);
    let x = Tensor::rand(0f32, 1., (4, 6, 7, 7), &device)?;
    for norm in [&affine, &plain] {
        assert_eq!(calls_of(|| norm.forward_t(&x, false))?, [launches(1)]);
    }
    let tracked = Var::from_tensor(&x)?;
    assert_eq!(calls_of(|| affine.forward_t(&tracked, false))?, [launches(4 + 2)]);
    Ok(())
}

/// A group norm takes two launches, also with silu. Where gradients are tracked it takes those of twelve ops.
pub fn a_group_norm_is_two_launches() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let of = || Tensor::rand(0.5f32, 1., 6, &device);
    let norm = GroupNorm::new(of()?, of()?, 6, 2, 1e-5)?;
    let x = Tensor::rand(0f32, 1., (4, 6, 7, 7), &device)?;
    assert_eq!(calls_of(|| norm.forward(&x))?, [launches(2)]);
    assert_eq!(calls_of(|| norm.forward_silu(&x))?, [launches(2)]);
    let tracked = Var::from_tensor(&x)?;
    assert_eq!(calls_of(|| norm.forward_silu(&tracked))?, [launches(11 + 1)]);
    Ok(())
}

pub fn a_decode_step_is_its_launches() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let layers = [Layer::new(&device)?, Layer::new(&device)?];
    let table = Tensor::randn(0f32, 1., (32, DIM), &device)?;
    // The token's id is an argument of a launch.
    let step = || {
        let x = table.index_select(&Tensor::new(&[7u32], &device)?, 0)?;
        layers.iter().try_fold(x, |x, layer| layer.step(&x))
    };
    assert_eq!(calls_of(step)?, [launches(2 + 2 * 19)]);
    Ok(())
}

/// A token of the example llama_parallel: seven launches for each layer, to which many ranks add two all-reduces.
pub fn a_step_of_the_parallel_llama_is_its_launches() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let config = config::shape("tiny").expect("a shape").config();
    for dtype in [DType::F32, DType::BF16] {
        let weights = Random { device: device.clone(), dtype, rank: 0, size: 1, pieces: 1, has_output: true };
        let split = Split::new(&config, 0, 1).expect("one rank");
        let llama = Llama::load(&weights, &config, split, None, (64, dtype, &device)).expect("a model");
        let llama = RefCell::new(llama);
        let step = || {
            let logits = llama.borrow_mut().forward(&Tensor::new(&[7u32], &device)?);
            Ok(logits.expect("logits"))
        };
        // The id, the embedding, the norm, the output layer.
        assert_eq!(calls_of(step)?, [launches(4 + 2 * 7)]);
    }
    Ok(())
}

/// Three products of one tensor quantize it once; a norm or a gate in front of them does it in its own launch.
pub fn activations_are_quantized_once() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let weights = QTensor::quantize(&Tensor::randn(0f32, 1., (32, DIM), &device)?, GgmlDType::Q4K)?;
    let weights = QMatMul::from_qtensor(weights)?;
    let (x, scale) = (Tensor::randn(0f32, 1., (1, DIM), &device)?, Tensor::ones(DIM, DType::F32, &device)?);
    let products = |x: &Tensor| (0..3).try_for_each(|_| weights.forward(x).map(drop));
    assert_eq!(calls_of(|| products(&x.exp()?))?, [launches(1 + 1 + 3)]);
    assert_eq!(calls_of(|| products(&fused::rms_norm_for_products(&x, &scale, 1e-5)?))?, [launches(1 + 3)]);
    assert_eq!(calls_of(|| products(&fused::add_rms_norm_for_products(&x, &x, &scale, 1e-5)?.1))?, [launches(1 + 3)]);
    let norm = fused::Norm { weight: &scale, eps: 1e-5 };
    let normed = |for_products: bool| {
        let done = fused::norm_add_rms_norm(&x, &x, [norm; 2], for_products)?;
        Result::Ok(done.expect("one launch").1)
    };
    assert_eq!(calls_of(|| products(&normed(true)?))?, [launches(1 + 3)]);
    assert_eq!(calls_of(|| products(&normed(false)?))?, [launches(1 + 1 + 3)]);
    Ok(())
}

/// A layer that norms what it adds: its branch gets the norm in the launch of the sum and of the next norm. It does in
/// a launch of its own where the next norm has another epsilon.
pub fn a_branch_is_normed_in_the_launch_of_the_next_norm() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let (trunk, x) = (Tensor::randn(0f32, 1., (1, 3, DIM), &device)?, Tensor::randn(0f32, 1., (1, 3, DIM), &device)?);
    let weight = Tensor::ones(DIM, DType::F32, &device)?;
    let first = RmsNorm::new(weight.clone(), 1e-5);
    for (eps, count) in [(1e-5, 1), (1e-6, 2)] {
        let next = RmsNorm::new(weight.clone(), eps);
        let step = || {
            let input = fused::Input::of_norm(trunk.clone(), x.clone(), first.parameters(), |x| first.forward(x))?;
            let (forward, forward_sum) =
                (|x: &Tensor| next.forward(x), |x: &_, residual: &_| next.forward_sum(x, residual));
            input.narrow(1, 2, 1)?.normed(next.parameters(), false, forward, forward_sum)
        };
        assert_eq!(calls_of(step)?, [launches(count)]);
    }
    Ok(())
}

/// Products of one input are one launch for weights of one format. A gate is another, which also quantizes its result.
pub fn products_of_one_input_are_one_launch() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let layer = |format| {
        let weights = QTensor::quantize(&Tensor::randn(0f32, 1., (DIM, DIM), &device)?, format)?;
        QMatMul::from_qtensor(weights)
    };
    let (a, b) = (layer(GgmlDType::Q4K)?, layer(GgmlDType::Q6K)?);
    let x = Tensor::randn(0f32, 1., (1, DIM), &device)?;
    assert_eq!(calls_of(|| fused::products([&a, &a, &a], &x.exp()?))?, [launches(1 + 1 + 1)]);
    assert_eq!(calls_of(|| fused::products([&a, &a, &b], &x.exp()?))?, [launches(1 + 1 + 2)]);
    let (angles, token) = (Tensor::randn(0f32, 1., (1, DIM / 4), &device)?, x.unsqueeze(0)?);
    for (layers, count) in [([&a, &a, &a], 1), ([&a, &a, &b], 2)] {
        let layers = layers.map(|layer| layer as &dyn fused::Product);
        let heads = || fused::products_rope_grow(layers, &token.exp()?, [2, 2], [&angles, &angles], true, None);
        assert_eq!(calls_of(heads)?, [launches(1 + 1 + count)]);
    }
    let quarter = angles.narrow(1, 0, DIM / 16)?;
    let half = x.to_dtype(DType::BF16)?;
    assert_eq!(calls_of(|| fused::product_of(&a, &half.exp()?, DType::F32))?, [launches(1 + 1 + 1)]);
    let silu = Activation::Silu;
    assert_eq!(calls_of(|| fused::gate_products(silu, [&a, &a], &x.exp()?))?, [launches(1 + 1 + 1)]);
    assert_eq!(calls_of(|| a.forward(&fused::gate_products(silu, [&a, &a], &x.exp()?)?))?, [launches(1 + 1 + 1 + 1)]);
    // Parts of one matrix. A prompt, and weights without a kernel, are one product of the whole.
    let parts = fused::parts(&a, [DIM / 2, DIM / 4, DIM / 4])?;
    let layers = [&parts[0], &parts[1], &parts[2]].map(|part| part as &dyn fused::Product);
    assert_eq!(calls_of(|| fused::products(layers, &x.exp()?))?, [launches(1 + 1 + 1)]);
    let heads = || fused::products_rope_grow(layers, &token.exp()?, [4, 2], [&quarter, &quarter], true, None);
    assert_eq!(calls_of(heads)?, [launches(1 + 1 + 1)]);
    assert_eq!(calls_of(|| fused::gate_halves(silu, &a, &x.exp()?))?, [launches(1 + 1 + 1)]);
    let dense = Linear::new(Tensor::randn(0f32, 1., (DIM, DIM), &device)?, None);
    assert_eq!(calls_of(|| fused::gate_halves(silu, &dense, &x))?, [launches(1)]);
    let parts = fused::parts(&dense, [DIM / 2, DIM / 4, DIM / 4])?;
    let layers = [&parts[0], &parts[1], &parts[2]].map(|part| part as &dyn fused::Product);
    assert_eq!(calls_of(|| fused::products(layers, &x))?, [launches(1)]);
    let prompt = Tensor::randn(0f32, 1., (1, 3, DIM), &device)?;
    let whole = calls_of(|| dense.forward(&prompt))?;
    assert_eq!(calls_of(|| fused::products(layers, &prompt))?, whole);
    // Its heads are views, which are rotated without a copy.
    let angles = Tensor::randn(0f32, 1., (3, DIM / 16), &device)?;
    let views = || {
        let all = dense.forward(&prompt)?.reshape((1, 3, 8, DIM / 8))?;
        let part = |first, heads| all.narrow(2, first, heads)?.transpose(1, 2);
        fused::rope_grow([&part(0, 4)?, &part(4, 2)?, &part(6, 2)?], [&angles, &angles], true, None)
    };
    let heads = || fused::products_rope_grow(layers, &prompt, [4, 2], [&angles, &angles], true, None);
    assert_eq!(calls_of(heads)?, calls_of(views)?);
    Ok(())
}

/// A cache with room grows by a copy of the new rows alone, or by the launch that rotates them.
pub fn a_cache_grows_in_place() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let row = Tensor::randn(0f32, 1., (1, 2, 1, 8), &device)?;
    let cache = RefCell::new(row.clone());
    let append = || {
        let grown = fused::grow(&[&*cache.borrow(), &row], 2)?;
        cache.replace(grown);
        Ok(())
    };
    assert_eq!(calls_of(append)?, [launches(1)]);
    let angles = Tensor::randn(0f32, 1., (1, 4), &device)?;
    let kept = RefCell::new(None);
    let rotate = || {
        let [_, k, v] = {
            let kept = kept.borrow();
            let kept = kept.as_ref().map(|(k, v): &(Tensor, Tensor)| (k, v));
            fused::rope_grow([&row, &row, &row], [&angles, &angles], false, kept)?
        };
        kept.replace(Some((k, v)));
        Ok(())
    };
    assert_eq!(calls_of(rotate)?, [launches(1)]);
    Ok(())
}
