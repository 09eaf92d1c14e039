//! A Llama of random q4_0 weights, by this crate's launchers alone.
use crate::Result;
use crate::measure::buffers::repeated;
use crate::shapes::Rng;
use candle_rocm_sys::{BinaryOp, Buffer, DType, Device, Layout, Quant, RopeKind, UnaryOp, View};
use serde::Serialize;

const F32: DType = DType::F32;
const WEIGHTS: Quant = Quant::Q4_0;
/// Elements and bytes of a q4_0 block.
const BLOCK: (usize, usize) = (32, 18);
const EPS: f32 = 1e-5;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Size {
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub ffn: usize,
    pub vocabulary: usize,
}

impl Size {
    /// The width of a head.
    fn width(&self) -> usize {
        self.hidden / self.heads
    }

    /// The bytes of all weights that a step reads.
    pub fn weight_bytes(&self) -> usize {
        let layer =
            2 * self.hidden * self.hidden + 2 * self.hidden * self.kv_heads * self.width() + 3 * self.hidden * self.ffn;
        (self.layers * layer + self.vocabulary * self.hidden) / BLOCK.0 * BLOCK.1
    }
}

/// A matrix of `rows` rows of `k` weights.
struct Matrix {
    rows: usize,
    k: usize,
    weights: Buffer,
}

struct Layer {
    before_attention: Buffer,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    joined: Matrix,
    before_ffn: Buffer,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
    /// (room, kv heads, width)
    keys: Buffer,
    values: Buffer,
}

pub struct Model {
    device: Device,
    size: Size,
    room: usize,
    embedding: Matrix,
    layers: Vec<Layer>,
    before_output: Buffer,
    output: Matrix,
    cos: Buffer,
    sin: Buffer,
}

/// Blocks whose rows have products of about the activations' size.
fn blocks(random: &mut Rng, count: usize, k: usize) -> Vec<u8> {
    // The standard deviation of a code is 4.6.
    let scale = 1.0 / (4.6 * (k as f64).sqrt());
    let mut bytes = Vec::with_capacity(count * BLOCK.1);
    for _ in 0..count {
        bytes.extend(half::f16::from_f64(scale * (0.5 + random.unit())).to_le_bytes());
        bytes.extend(random.next().to_le_bytes());
        bytes.extend(random.next().to_le_bytes());
    }
    bytes
}

impl Model {
    /// A model that holds `room` tokens. The same seed gives the same weights on any device.
    pub fn new(device: &Device, size: Size, room: usize, seed: u64) -> Result<Model> {
        // A prime number of different blocks, so that rows differ.
        const DIFFERENT: usize = 65537;
        let mut random = Rng(seed);
        let mut matrix = |rows: usize, k: usize| -> Result<Matrix> {
            let count = rows * k / BLOCK.0;
            let pattern = blocks(&mut random, count.min(DIFFERENT), k);
            Ok(Matrix { rows, k, weights: repeated(device, &pattern, count * BLOCK.1)? })
        };
        let ones = || -> Result<Buffer> { Ok(device.upload(&vec![1f32; size.hidden])?) };
        let (hidden, narrow) = (size.hidden, size.kv_heads * size.width());
        let layers = (0..size.layers).map(|_| {
            Ok(Layer {
                before_attention: ones()?,
                query: matrix(hidden, hidden)?,
                key: matrix(narrow, hidden)?,
                value: matrix(narrow, hidden)?,
                joined: matrix(hidden, hidden)?,
                before_ffn: ones()?,
                gate: matrix(size.ffn, hidden)?,
                up: matrix(size.ffn, hidden)?,
                down: matrix(hidden, size.ffn)?,
                keys: device.alloc(room * narrow * 4)?,
                values: device.alloc(room * narrow * 4)?,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        let angle = |i: usize| {
            let (token, pair) = (i / (size.width() / 2), i % (size.width() / 2));
            token as f64 * 10000f64.powf(-2.0 * pair as f64 / size.width() as f64)
        };
        let table = |of: fn(f64) -> f64| -> Result<Buffer> {
            let table: Vec<f32> = (0..room * size.width() / 2).map(|i| of(angle(i)) as f32).collect();
            Ok(device.upload(&table)?)
        };
        Ok(Model {
            device: device.clone(),
            size,
            room,
            embedding: matrix(size.vocabulary, hidden)?,
            layers,
            before_output: ones()?,
            output: matrix(size.vocabulary, hidden)?,
            cos: table(f64::cos)?,
            sin: table(f64::sin)?,
        })
    }

    fn floats(&self, count: usize) -> Result<Buffer> {
        Ok(self.device.alloc(count * 4)?)
    }

    /// `tokens` rows of `x` times the matrix.
    fn product<'a>(&self, matrix: &Matrix, x: impl Into<View<'a>>, tokens: usize) -> Result<Buffer> {
        let to = self.floats(tokens * matrix.rows)?;
        self.device.mul_mat(WEIGHTS, F32, (matrix.rows, matrix.k), tokens, &matrix.weights, x, &to)?;
        Ok(to)
    }

    fn norm(&self, x: &Buffer, tokens: usize, weights: &Buffer) -> Result<Buffer> {
        let (rows, to) = (Layout::contiguous(&[tokens, self.size.hidden])?, self.floats(tokens * self.size.hidden)?);
        self.device.rms_norm(F32, &rows, x, Some(weights.into()), &to, EPS)?;
        Ok(to)
    }

    /// One step of `tokens` tokens, u32 in `ids`, after `past` tokens whose keys and values the model has. Returns the
    /// logits of the last token.
    pub fn step(&self, ids: &Buffer, tokens: usize, past: usize) -> Result<Buffer> {
        if past + tokens > self.room {
            return Err(format!("{past} + {tokens} tokens, but room for {}", self.room).into());
        }
        let hidden = self.size.hidden;
        let x = self.floats(tokens * hidden)?;
        let table = (self.embedding.rows, hidden, &self.embedding.weights);
        self.device.get_rows(WEIGHTS, table, (tokens, ids), &x)?;
        let rows = Layout::contiguous(&[tokens, hidden])?;
        let mask = (tokens > 1).then(|| self.mask(tokens, past)).transpose()?;
        for layer in &self.layers {
            let attention = self.attention(layer, &x, (tokens, past), mask.as_ref())?;
            self.device.binary(BinaryOp::Add, F32, (&rows, &x), (&rows, &attention), &x)?;
            let ffn = self.ffn(layer, &x, tokens)?;
            self.device.binary(BinaryOp::Add, F32, (&rows, &x), (&rows, &ffn), &x)?;
        }
        let normed = self.norm(&x, tokens, &self.before_output)?;
        self.product(&self.output, normed.range((tokens - 1) * hidden * 4..tokens * hidden * 4)?, 1)
    }

    /// 0 for tokens that a token sees, minus infinity for later ones.
    fn mask(&self, tokens: usize, past: usize) -> Result<Buffer> {
        let seen = |i: usize, j: usize| if j <= past + i { 0f32 } else { f32::NEG_INFINITY };
        let all = (0..tokens).flat_map(|i| (0..past + tokens).map(move |j| seen(i, j)));
        Ok(self.device.upload(&all.collect::<Vec<_>>())?)
    }

    fn attention(
        &self,
        layer: &Layer,
        x: &Buffer,
        (tokens, past): (usize, usize),
        mask: Option<&Buffer>,
    ) -> Result<Buffer> {
        let Size { heads, kv_heads, .. } = self.size;
        let (width, all) = (self.size.width(), past + tokens);
        let (narrow, device) = (kv_heads * width, &self.device);
        let normed = self.norm(x, tokens, &layer.before_attention)?;
        let [query, key, value] =
            [&layer.query, &layer.key, &layer.value].map(|matrix| self.product(matrix, &normed, tokens));
        let (query, key, value) = (query?, key?, value?);

        let angles = Layout::strided(&[tokens, width / 2], &[width / 2, 1], past * width / 2)?;
        let (cos, sin) = ((&angles, &self.cos), (&angles, &self.sin));
        let turn = |x: &Buffer, heads: usize| -> Result<Buffer> {
            let (layout, to) = (Layout::contiguous(&[1, tokens, heads, width])?, self.floats(tokens * heads * width)?);
            device.rope(RopeKind::RopeThd, F32, (&layout, x), cos, sin, &to)?;
            Ok(to)
        };
        let (turned, turned_key) = (turn(&query, heads)?, turn(&key, kv_heads)?);
        let turned = self.swapped(&turned, (tokens, heads))?;
        for (new, kept) in [(&turned_key, &layer.keys), (&value, &layer.values)] {
            let count = tokens * narrow;
            device.copy2d(F32, (1, count), (new, count, 0), (kept, count, past * narrow))?;
        }

        // The query heads that share keys are rows of one matrix.
        let rows = heads / kv_heads * tokens;
        let scores = self.floats(heads * tokens * all)?;
        let keys = Layout::strided(&[kv_heads, width, all], &[width, 1, narrow], 0)?;
        device.matmul(F32, (&Layout::contiguous(&[kv_heads, rows, width])?, &turned), (&keys, &layer.keys), &scores)?;
        let whole = Layout::contiguous(&[heads, tokens, all])?;
        device.affine(F32, &whole, &scores, &scores, 1.0 / (width as f64).sqrt(), 0.0)?;
        if let Some(mask) = mask {
            let each_head = Layout::strided(&[heads, tokens, all], &[0, all, 1], 0)?;
            device.binary(BinaryOp::Add, F32, (&whole, &scores), (&each_head, mask), &scores)?;
        }
        let shares = self.floats(heads * tokens * all)?;
        device.softmax(F32, &whole, &scores, &shares)?;
        let mixed = self.floats(heads * tokens * width)?;
        let values = Layout::strided(&[kv_heads, all, width], &[width, narrow, 1], 0)?;
        let shares_of = Layout::contiguous(&[kv_heads, rows, all])?;
        device.matmul(F32, (&shares_of, &shares), (&values, &layer.values), &mixed)?;
        self.product(&layer.joined, &self.swapped(&mixed, (heads, tokens))?, tokens)
    }

    /// (first, second, width) as (second, first, width).
    fn swapped(&self, x: &Buffer, (first, second): (usize, usize)) -> Result<Buffer> {
        let width = self.size.width();
        let to = self.floats(first * second * width)?;
        let layout = Layout::strided(&[second, first, width], &[width, second * width, 1], 0)?;
        self.device.copy_strided(F32, &layout, x, &to, 0)?;
        Ok(to)
    }

    fn ffn(&self, layer: &Layer, x: &Buffer, tokens: usize) -> Result<Buffer> {
        let normed = self.norm(x, tokens, &layer.before_ffn)?;
        let (gate, up) = (self.product(&layer.gate, &normed, tokens)?, self.product(&layer.up, &normed, tokens)?);
        let flat = Layout::contiguous(&[tokens * self.size.ffn])?;
        self.device.unary(UnaryOp::Silu, F32, &flat, &gate, &gate)?;
        self.device.binary(BinaryOp::Mul, F32, (&flat, &gate), (&flat, &up), &gate)?;
        self.product(&layer.down, &gate, tokens)
    }
}
