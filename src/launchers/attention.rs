//! Fused attention. The contract is in `include/candle_rocm/launchers/attention.h`.
use crate::error::check;
use crate::{DType, Device, Layout, Result, View, sys};
use std::ptr::null;

/// A tensor of any layout, for arguments of [`Device::attention`].
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a> {
    /// How it lies in `view`.
    pub layout: &'a Layout,
    /// Its memory.
    pub view: View<'a>,
}

/// Sequences of different lengths, whose tokens follow each other: sequence `s` has the tokens from `starts[s]` to
/// before `starts[s + 1]`.
#[derive(Debug, Clone, Copy)]
pub struct Starts<'a> {
    sequences: usize,
    queries: View<'a>,
    keys: View<'a>,
    max_queries: usize,
    max_keys: usize,
    block_table: Option<Strided<'a>>,
}

impl<'a> Starts<'a> {
    /// The starts of the queries and of the keys, each one more than `sequences`, of u32. No sequence has more than
    /// `max_queries` queries and `max_keys` keys. With a block table (sequences, blocks) of u32, the keys and values
    /// are a cache of blocks.
    ///
    /// # Safety
    /// When the device runs the call, the starts do not fall and do not go beyond the tokens, the lengths are not more
    /// than the most, and the block table has numbers of blocks. The kernels do not check this.
    pub unsafe fn new(
        sequences: usize,
        queries: impl Into<View<'a>>,
        keys: impl Into<View<'a>>,
        max_queries: usize,
        max_keys: usize,
        block_table: Option<Strided<'a>>,
    ) -> Starts<'a> {
        Starts { sequences, queries: queries.into(), keys: keys.into(), max_queries, max_keys, block_table }
    }
}

/// The arguments of [`Device::attention`]. [`Attention::new`] leaves out all that is optional:
/// `Attention { causal: true, ..Attention::new(..) }`.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// The dtype of `q`, `k`, `v` and `dst`: f32, f16 or bf16.
    pub dtype: DType,
    /// The queries: (batch, heads, queries, d).
    pub q: Strided<'a>,
    /// The keys: (batch, kv heads, keys, d), or a cache of blocks: (blocks, kv heads, block, d).
    pub k: Strided<'a>,
    /// The values: as the keys, with dv elements in a row.
    pub v: Strided<'a>,
    /// The result: (batch, heads, queries, dv). It is written.
    pub dst: Strided<'a>,
    /// The factor of the scores.
    pub scale: f32,
    /// A score `s` becomes `softcap * tanh(s / softcap)`.
    pub softcap: Option<f32>,
    /// No query sees a key after its own place.
    pub causal: bool,
    /// The keys that a query sees before its own place; all if `None`.
    pub left: Option<usize>,
    /// The keys that a query sees after its own place; all if `None`.
    pub right: Option<usize>,
    /// f32: ALiBi's slopes (sequences, heads).
    pub slopes: Option<Strided<'a>>,
    /// A mask (sequences, heads, queries, keys) and its dtype: `dtype` or f32 is added to the scores, a 0 of u8 hides
    /// the key.
    pub mask: Option<(DType, Strided<'a>)>,
    /// Sequences of different lengths.
    pub starts: Option<Starts<'a>>,
    /// i32: ranges within which all queries see all keys, (sequences, ranges, 2).
    pub prefixes: Option<Strided<'a>>,
    /// f32: where to write the logarithm of the sum of weights of each query.
    pub lse: Option<View<'a>>,
    /// Where to write the result as activations of quantized products, `columns_bytes` of its tokens.
    pub columns: Option<View<'a>>,
}

impl<'a> Attention<'a> {
    /// `softmax(scale * q * k^T) * v`.
    pub fn new(
        dtype: DType,
        q: (&'a Layout, impl Into<View<'a>>),
        k: (&'a Layout, impl Into<View<'a>>),
        v: (&'a Layout, impl Into<View<'a>>),
        dst: (&'a Layout, impl Into<View<'a>>),
        scale: f32,
    ) -> Attention<'a> {
        Attention {
            dtype,
            q: q.into(),
            k: k.into(),
            v: v.into(),
            dst: dst.into(),
            scale,
            softcap: None,
            causal: false,
            left: None,
            right: None,
            slopes: None,
            mask: None,
            starts: None,
            prefixes: None,
            lse: None,
            columns: None,
        }
    }
}

impl<'a, V: Into<View<'a>>> From<(&'a Layout, V)> for Strided<'a> {
    fn from((layout, view): (&'a Layout, V)) -> Strided<'a> {
        Strided { layout, view: view.into() }
    }
}

impl Device {
    /// Fused attention, `softmax(scale * q * k^T) * v` and its variants: `crk_attention`.
    pub fn attention(&self, call: &Attention) -> Result<()> {
        const NAME: &str = "crk_attention";
        let layout_of = |tensor: &Option<Strided>| tensor.map_or(null(), |tensor| std::ptr::from_ref(tensor.layout));
        let of = |argument, view: View<'_>| self.view(NAME, argument, view);
        let optional = |argument, view: Option<View<'_>>| self.optional(NAME, argument, view);
        let optional_of = |argument, tensor: &Option<Strided>| optional(argument, tensor.map(|tensor| tensor.view));
        let (mask_dtype, mask) = call.mask.unzip();
        let starts = &call.starts;
        let block_table = starts.and_then(|starts| starts.block_table);
        let raw = sys::crk_attention {
            struct_bytes: size_of::<sys::crk_attention>(),
            dtype: call.dtype,
            q_layout: call.q.layout,
            q: of("q", call.q.view)?,
            k_layout: call.k.layout,
            k: of("k", call.k.view)?,
            v_layout: call.v.layout,
            v: of("v", call.v.view)?,
            dst_layout: call.dst.layout,
            dst: self.view(NAME, "dst", call.dst.view)?,
            scale: call.scale,
            softcap: call.softcap.unwrap_or(0.0),
            causal: call.causal,
            left: call.left.unwrap_or(usize::MAX),
            right: call.right.unwrap_or(usize::MAX),
            slopes_layout: layout_of(&call.slopes),
            slopes: optional_of("slopes", &call.slopes)?,
            mask_layout: layout_of(&mask),
            mask_dtype: mask_dtype.unwrap_or(call.dtype),
            mask: optional_of("mask", &mask)?,
            sequences: starts.map_or(0, |starts| starts.sequences),
            q_starts: optional("q_starts", starts.map(|starts| starts.queries))?,
            k_starts: optional("k_starts", starts.map(|starts| starts.keys))?,
            max_queries: starts.map_or(0, |starts| starts.max_queries),
            max_keys: starts.map_or(0, |starts| starts.max_keys),
            block_table_layout: layout_of(&block_table),
            block_table: optional_of("block_table", &block_table)?,
            prefixes_layout: layout_of(&call.prefixes),
            prefixes: optional_of("prefixes", &call.prefixes)?,
            lse: self.optional(NAME, "lse", call.lse)?,
            columns: self.optional(NAME, "columns", call.columns)?,
        };
        // SAFETY: a live handle, views of its buffers and live layouts. The launcher checks the memory that they reach,
        // and Starts::new has a promise about the rest.
        check(unsafe { sys::crk_attention(self.raw(), &raw) })
    }
}
