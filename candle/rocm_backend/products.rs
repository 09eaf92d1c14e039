//! Products of one input with several layers, and what models make of them at once: gates, and heads that are rotated
//! and go to caches. The layers may be rows of one matrix ([`parts`]).
use super::{gate_of, rope_grow};
use crate::Activation;
use candle::quantized::{QMatMul, QTensor};
use candle::{D, DType, Module, Result, Tensor};
use std::ops::Range;

#[cfg(feature = "_rocm")]
use super::{gate_op, takes};
#[cfg(feature = "_rocm")]
use candle::{
    Storage,
    op::BackpropOp,
    quantized::rocm::{QRocmStorage, QRows},
    rocm_backend::{Caches, Heads, RocmStorage, kernels},
};

/// The matrix by which a layer multiplies, and the bias that it adds to the products.
pub enum Weights<'a> {
    /// Rows of a matrix.
    Quantized(&'a QTensor, Range<usize>, Option<&'a Tensor>),
    /// (n, k), for a product with the transposed weights.
    Dense(&'a Tensor, Option<&'a Tensor>),
    /// The layer does something else, or has weights of another kind.
    Other,
}

/// A layer that multiplies by a matrix.
pub trait Product: Module {
    fn weights(&self) -> Weights<'_>;

    /// The layer of which this is a part, and its rows there.
    fn whole(&self) -> Option<(&dyn Product, Range<usize>)> {
        None
    }
}

/// The rows of a layer's matrix; None if the layer does not tell them.
fn rows_of(layer: &dyn Product) -> Option<usize> {
    match layer.weights() {
        Weights::Quantized(_, rows, _) => Some(rows.len()),
        Weights::Dense(weights, _) => weights.dims().first().copied(),
        Weights::Other => None,
    }
}

impl Product for QMatMul {
    fn weights(&self) -> Weights<'_> {
        match self {
            QMatMul::QTensor(weights) => {
                Weights::Quantized(weights, 0..weights.shape().dims().first().copied().unwrap_or(0), None)
            }
            _ => Weights::Other,
        }
    }
}

impl Product for crate::Linear {
    fn weights(&self) -> Weights<'_> {
        Weights::Dense(self.weight(), self.bias())
    }
}

/// A layer and what is added to its products.
pub struct Biased<'a>(pub &'a dyn Product, pub &'a Tensor);

impl Module for Biased<'_> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)?.broadcast_add(self.1)
    }
}

impl Product for Biased<'_> {
    fn weights(&self) -> Weights<'_> {
        match self.0.weights() {
            Weights::Quantized(weights, rows, None) => Weights::Quantized(weights, rows, Some(self.1)),
            Weights::Dense(weights, None) => Weights::Dense(weights, Some(self.1)),
            _ => Weights::Other,
        }
    }
}

/// Some rows of a layer's matrix, as a layer. [`parts`] makes them.
pub struct Rows<'a> {
    whole: &'a dyn Product,
    rows: Range<usize>,
    /// These rows of dense weights, and what is added to their products.
    weights: Option<Tensor>,
    bias: Option<Tensor>,
}

impl Module for Rows<'_> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.whole.forward(x)?.narrow(D::Minus1, self.rows.start, self.rows.len())
    }
}

impl Product for Rows<'_> {
    fn weights(&self) -> Weights<'_> {
        match (self.whole.weights(), &self.weights) {
            (Weights::Quantized(weights, whole, _), _) => {
                let rows = whole.start + self.rows.start..whole.start + self.rows.end;
                Weights::Quantized(weights, rows, self.bias.as_ref())
            }
            (_, Some(weights)) => Weights::Dense(weights, self.bias.as_ref()),
            _ => Weights::Other,
        }
    }

    fn whole(&self) -> Option<(&dyn Product, Range<usize>)> {
        Some((self.whole, self.rows.clone()))
    }
}

/// Cuts a layer's matrix, and its bias, into layers of so many rows each, one after the other. Fails if the matrix has
/// fewer rows. Where no kernel takes the parts, [`products`] of them is one product of the whole layer.
pub fn parts<const N: usize>(layer: &dyn Product, counts: [usize; N]) -> Result<[Rows<'_>; N]> {
    let mut end = 0usize;
    let ranges = counts.map(|count| {
        let start = end;
        end = end.saturating_add(count);
        start..end
    });
    if let Some(rows) = rows_of(layer).filter(|rows| end > *rows) {
        candle::bail!("parts: counts is {counts:?}, {end} rows, and the layer has {rows}")
    }
    let (weights, bias) = match layer.weights() {
        Weights::Quantized(_, _, bias) => (None, bias),
        Weights::Dense(weights, bias) => (Some(weights), bias),
        Weights::Other => (None, None),
    };
    let part = |rows: Range<usize>| {
        let of = |t: &Tensor| t.narrow(0, rows.start, rows.len());
        Ok(Rows { whole: layer, weights: weights.map(of).transpose()?, bias: bias.map(of).transpose()?, rows })
    };
    one_per_layer(ranges.into_iter().map(part).collect::<Result<Vec<_>>>()?)
}

/// If all layers are parts of one layer: that layer, and the rows of each part. None otherwise.
fn common<'a>(layers: &[&'a dyn Product]) -> Option<(&'a dyn Product, Vec<Range<usize>>)> {
    let parts = layers.iter().map(|layer| layer.whole()).collect::<Option<Vec<_>>>()?;
    let (whole, _) = *parts.first()?;
    let same = parts.iter().all(|(other, _)| std::ptr::addr_eq(*other, whole));
    same.then(|| (whole, parts.into_iter().map(|(_, rows)| rows).collect()))
}

/// Quantized weights on a ROCm device, and the bias that their products get, if there is one.
#[cfg(feature = "_rocm")]
type QuantizedOn<'a> = (QRows<'a>, Option<&'a Tensor>);

/// Whether the kernels add this to rows of `n` products of `x`.
#[cfg(feature = "_rocm")]
fn adds(bias: Option<&Tensor>, n: usize, x: &Tensor) -> bool {
    bias.is_none_or(|bias| bias.dims() == [n] && bias.is_contiguous() && takes(&[x, bias]))
}

/// The quantized weights of layers that are on the ROCm device of `x`; none if a layer has others.
#[cfg(feature = "_rocm")]
fn quantized<'a, const N: usize>(layers: [&'a dyn Product; N], x: &Tensor) -> Option<Vec<QuantizedOn<'a>>> {
    let on = |layer: &&'a dyn Product| match layer.weights() {
        Weights::Quantized(weights, rows, bias)
            if adds(bias, rows.len(), x) && (bias.is_none() || x.dtype() == DType::F32) =>
        {
            Some((weights.rocm_storage().ok()?.rows(weights.shape(), rows).ok()?, bias))
        }
        _ => None,
    };
    if !x.device().is_rocm() || x.track_op() {
        return None;
    }
    layers.iter().map(on).collect()
}

/// The weights of layers that multiply a single row: matrices of the row's length, dtype and device.
#[cfg(feature = "_rocm")]
pub(super) fn of_a_row<'a, const N: usize>(
    layers: [&'a dyn Product; N],
    x: &Tensor,
) -> Option<Vec<(&'a Tensor, Option<&'a Tensor>)>> {
    let k = x.dims().last().copied()?;
    let of = |layer: &&'a dyn Product| match layer.weights() {
        Weights::Dense(weights, bias)
            if weights.rank() == 2
                && weights.dims()[1] == k
                && takes(&[x, weights])
                && adds(bias, weights.dims()[0], x) =>
        {
            Some((weights, bias))
        }
        _ => None,
    };
    if k == 0 || x.elem_count() != k || !x.is_contiguous() {
        return None;
    }
    layers.iter().map(of).collect()
}

/// The biases as the launchers take them, while `guards` hold their storages.
#[cfg(feature = "_rocm")]
fn biases_of<'a, S: std::ops::Deref<Target = Storage>>(
    guards: &'a [Option<(S, &candle::Layout)>],
) -> Result<Vec<Option<kernels::View<'a>>>> {
    let view = |(storage, layout): &'a (S, &candle::Layout)| {
        RocmStorage::of(storage, "products", "a bias")?.contiguous(layout, "products", "a bias")
    };
    guards.iter().map(|guard| guard.as_ref().map(view).transpose()).collect()
}

/// A tensor like `x`, but with rows of `n` elements.
#[cfg(feature = "_rocm")]
fn with_rows(storage: RocmStorage, x: &Tensor, n: usize) -> Tensor {
    let mut dims = x.dims().to_vec();
    dims.pop();
    dims.push(n);
    Tensor::from_storage(Storage::Rocm(storage), dims, BackpropOp::none(), false)
}

/// The products of one input with several layers. An example is the layers of queries, keys and values.
pub fn products<const N: usize>(layers: [&dyn Product; N], x: &Tensor) -> Result<[Tensor; N]> {
    match launched(layers, x)? {
        Some(done) => Ok(done),
        None => forwarded(layers, x),
    }
}

/// [`products`] by the layers' own ops: parts of one layer are one product.
fn forwarded<const N: usize>(layers: [&dyn Product; N], x: &Tensor) -> Result<[Tensor; N]> {
    let results = match common(&layers) {
        Some((whole, parts)) => {
            let all = whole.forward(x)?;
            parts.into_iter().map(|rows| all.narrow(D::Minus1, rows.start, rows.len())).collect::<Result<Vec<_>>>()?
        }
        None => layers.iter().map(|layer| layer.forward(x)).collect::<Result<Vec<_>>>()?,
    };
    one_per_layer(results)
}

/// [`products`] where a kernel makes them for all layers at once.
fn launched<const N: usize>(layers: [&dyn Product; N], x: &Tensor) -> Result<Option<[Tensor; N]>> {
    #[cfg(feature = "_rocm")]
    if let Some(weights) = quantized(layers, x) {
        let (storage, layout) = x.storage_and_layout();
        let x_s = RocmStorage::of(&storage, "products", "x")?;
        let guards: Vec<_> = weights.iter().map(|(_, bias)| bias.map(|bias| bias.storage_and_layout())).collect();
        let biases = biases_of(&guards)?;
        let matrices: Vec<_> = weights.iter().map(|(matrix, _)| *matrix).collect();
        if let Some(results) = QRocmStorage::products(&matrices, &biases, x_s, layout, x.dtype())? {
            let rows = matrices.iter().map(QRows::count);
            let tensors: Vec<_> = results.into_iter().zip(rows).map(|(its, n)| with_rows(its, x, n)).collect();
            return one_per_layer(tensors).map(Some);
        }
    }
    #[cfg(feature = "_rocm")]
    if let (true, Some(weights)) = (N > 0 && N <= kernels::sys::CRK_MOST_GROUPED as usize, of_a_row(layers, x)) {
        let (storage, layout) = x.storage_and_layout();
        let guards: Vec<_> = weights.iter().map(|(weights, _)| weights.storage_and_layout()).collect();
        let operands = guards
            .iter()
            .map(|(storage, layout)| Ok((RocmStorage::of(storage, "products", "weights")?, *layout)))
            .collect::<Result<Vec<_>>>()?;
        let its_guards: Vec<_> = weights.iter().map(|(_, bias)| bias.map(|bias| bias.storage_and_layout())).collect();
        let biases = biases_of(&its_guards)?;
        let results = RocmStorage::of(&storage, "products", "x")?.row_products(layout, &operands, &biases)?;
        let rows = weights.iter().map(|(weights, _)| weights.dims()[0]);
        let tensors: Vec<_> = results.into_iter().zip(rows).map(|(its, n)| with_rows(its, x, n)).collect();
        return one_per_layer(tensors).map(Some);
    }
    let _ = (layers, x);
    Ok(None)
}

/// The results as an array. Fails unless there is one per layer.
fn one_per_layer<T, const N: usize>(results: Vec<T>) -> Result<[T; N]> {
    results.try_into().map_err(|_| candle::Error::Msg("products: a result is missing".into()))
}

/// The product of a layer with `x` as `dtype`. A quantized layer takes a few tokens' halves as f32 without a cast.
pub fn product_of(layer: &dyn Product, x: &Tensor, dtype: DType) -> Result<Tensor> {
    #[cfg(feature = "_rocm")]
    if let (DType::F32, Some([(weights, None)])) = (dtype, quantized([layer], x).as_deref()) {
        let (storage, layout) = x.storage_and_layout();
        let x_s = RocmStorage::of(&storage, "product_of", "x")?;
        if let Some(results) = QRocmStorage::products(&[*weights], &[None], x_s, layout, dtype)? {
            return results
                .into_iter()
                .next()
                .map(|its| with_rows(its, x, weights.count()))
                .ok_or_else(|| candle::Error::Msg("product_of: the result is missing".into()));
        }
    }
    layer.forward(&x.to_dtype(dtype)?)
}

/// `activation(x * gate) * (x * up)` of a feed-forward layer. The last product of the layer takes it.
pub fn gate_products(activation: Activation, [gate, up]: [&dyn Product; 2], x: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "_rocm")]
    if let (Some(op), Some([(gate, None), (up, None)])) = (gate_op(activation), quantized([gate, up], x).as_deref()) {
        let (storage, layout) = x.storage_and_layout();
        let x_s = RocmStorage::of(&storage, "gate_products", "x")?;
        if let Some(gated) = QRocmStorage::gate(op, [*gate, *up], x_s, layout)? {
            return Ok(with_rows(gated, x, gate.count()));
        }
    }
    #[cfg(feature = "_rocm")]
    if let (Some(op), Some([(gate, None), (up, None)])) = (gate_op(activation), of_a_row([gate, up], x).as_deref()) {
        if gate.dims() == up.dims() {
            let ((x_s, x_l), (g, g_l)) = (x.storage_and_layout(), gate.storage_and_layout());
            let (u, u_l) = up.storage_and_layout();
            let of = |storage| RocmStorage::of(storage, "gate_products", "weights");
            let gated =
                RocmStorage::of(&x_s, "gate_products", "x")?.row_gate(op, x_l, (of(&g)?, g_l), (of(&u)?, u_l))?;
            return Ok(with_rows(gated, x, gate.dims()[0]));
        }
    }
    let for_products = matches!(gate.weights(), Weights::Quantized(..));
    let [gate, up] = products([gate, up], x)?;
    gate_of(activation, gate, up, for_products)
}

/// [`gate_products`] of one layer. The first half of its rows is the gate's, the other half is up's.
pub fn gate_halves(activation: Activation, layer: &dyn Product, x: &Tensor) -> Result<Tensor> {
    if let Some(rows) = rows_of(layer) {
        let [gate, up] = parts(layer, [rows / 2; 2])?;
        return gate_products(activation, [&gate, &up], x);
    }
    let both = layer.forward(x)?;
    let rows = both.dim(D::Minus1)? / 2;
    gate_of(activation, both.narrow(D::Minus1, 0, rows)?, both.narrow(D::Minus1, rows, rows)?, false)
}

/// [`products`] of queries, keys and values of `x` (batch, tokens, k), cut into heads: (batch, heads, tokens, d).
pub fn products_of_heads(layers: [&dyn Product; 3], x: &Tensor, [heads, kv_heads]: [usize; 2]) -> Result<[Tensor; 3]> {
    let (batch, tokens, _) = x.dims3()?;
    let [q, k, v] = match launched(layers, x)? {
        Some(done) => done,
        None => match heads_of_a_product(layers, x, [heads, kv_heads, kv_heads])? {
            Some(done) => return Ok(done),
            None => forwarded(layers, x)?,
        },
    };
    let split = |t: Tensor, heads: usize| t.reshape((batch, tokens, heads, ()))?.transpose(1, 2);
    Ok([split(q, heads)?, split(k, kv_heads)?, split(v, kv_heads)?])
}

/// The same of parts of one layer: views of its product, which is cut into heads as a whole. None of other layers.
fn heads_of_a_product(layers: [&dyn Product; 3], x: &Tensor, counts: [usize; 3]) -> Result<Option<[Tensor; 3]>> {
    let Some((whole, parts)) = common(&layers) else { return Ok(None) };
    let d = parts[0].len() / counts[0].max(1);
    let are_heads = d > 0
        && rows_of(whole).is_some_and(|rows| rows % d == 0)
        && parts.iter().zip(counts).all(|(rows, heads)| rows.start % d == 0 && rows.len() == heads * d);
    if !are_heads {
        return Ok(None);
    }
    let (batch, tokens, _) = x.dims3()?;
    let all = whole.forward(x)?.reshape((batch, tokens, (), d))?;
    let views = parts.iter().map(|rows| all.narrow(2, rows.start / d, rows.len() / d)?.transpose(1, 2));
    one_per_layer(views.collect::<Result<Vec<_>>>()?).map(Some)
}

/// The queries, keys and values of `x` (batch, tokens, k) by three layers, cut into heads, and [`rope_grow`] of them.
/// There are as many heads of values as of keys. For one token, a ROCm device needs one launch per format of the
/// weights.
pub fn products_rope_grow(
    layers: [&dyn Product; 3],
    x: &Tensor,
    heads: [usize; 2],
    angles: [&Tensor; 2],
    interleaved: bool,
    cache: Option<(&Tensor, &Tensor)>,
) -> Result<[Tensor; 3]> {
    #[cfg(feature = "_rocm")]
    if let Some(done) = heads_of_a_token(layers, x, heads, angles, interleaved, Caches::Growing(cache))? {
        return Ok(done);
    }
    let [q, k, v] = products_of_heads(layers, x, heads)?;
    rope_grow([&q, &k, &v], angles, interleaved, cache)
}

/// [`products_rope_grow`] with the angles of all places: the new tokens have those from `offset` on.
pub fn products_rope_grow_at(
    layers: [&dyn Product; 3],
    x: &Tensor,
    heads: [usize; 2],
    [cos, sin]: [&Tensor; 2],
    offset: usize,
    interleaved: bool,
    cache: &Option<(Tensor, Tensor)>,
) -> Result<[Tensor; 3]> {
    let tokens = x.dim(1)?;
    let (cos, sin) = (cos.narrow(0, offset, tokens)?, sin.narrow(0, offset, tokens)?);
    let cache = cache.as_ref().map(|(keys, values)| (keys, values));
    products_rope_grow(layers, x, heads, [&cos, &sin], interleaved, cache)
}

/// [`products_rope_grow`] for one token and caches that have memory. A ROCm device writes the keys and values to
/// `slots`, which are rows of the caches. Returns the queries; None where there is no launch for all this.
pub(crate) fn products_rope_into(
    layers: [&dyn Product; 3],
    x: &Tensor,
    heads: [usize; 2],
    angles: [&Tensor; 2],
    slots: Option<(Tensor, Tensor)>,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "_rocm")]
    if let Some((keys, values)) = &slots {
        let done = heads_of_a_token(layers, x, heads, angles, false, Caches::Slots(keys, values))?;
        return Ok(done.map(|[q, _, _]| q));
    }
    let _ = (layers, x, heads, angles, slots);
    Ok(None)
}

#[cfg(feature = "_rocm")]
fn heads_of_a_token(
    layers: [&dyn Product; 3],
    x: &Tensor,
    [heads, kv_heads]: [usize; 2],
    angles: [&Tensor; 2],
    interleaved: bool,
    cache: Caches<'_>,
) -> Result<Option<[Tensor; 3]>> {
    let counts = [heads, kv_heads, kv_heads];
    let heads = |rows: [usize; 3]| {
        let d = rows[0].checked_div(counts[0])?;
        let fit = rows.iter().zip(counts).all(|(rows, heads)| heads.checked_mul(d) == Some(*rows));
        fit.then_some(Heads { counts, d, interleaved, angles, cache })
    };
    if x.rank() != 3 || x.dims()[..2] != [1, 1] {
        return Ok(None);
    }
    if let Some([q, k, v]) = quantized(layers, x).as_deref() {
        let Some(heads) = heads([q, k, v].map(|(rows, _)| rows.count())) else { return Ok(None) };
        let guards: Vec<_> = [q, k, v].iter().map(|(_, bias)| bias.map(|bias| bias.storage_and_layout())).collect();
        let biases = biases_of(&guards)?;
        return QRocmStorage::heads([q.0, k.0, v.0], [biases[0], biases[1], biases[2]], x, &heads);
    }
    if let Some([q, k, v]) = of_a_row(layers, x).as_deref() {
        let Some(heads) = heads([q, k, v].map(|(weights, _)| weights.dims()[0])) else { return Ok(None) };
        let guards = [q, k, v].map(|(weights, _)| weights.storage_and_layout());
        let of = |i: usize| Ok::<_, candle::Error>((RocmStorage::of(&guards[i].0, "heads", "weights")?, guards[i].1));
        let biases: Vec<_> = [q, k, v].iter().map(|(_, bias)| bias.map(|bias| bias.storage_and_layout())).collect();
        let biases = biases_of(&biases)?;
        return RocmStorage::row_heads(x, [of(0)?, of(1)?, of(2)?], [biases[0], biases[1], biases[2]], &heads);
    }
    Ok(None)
}
