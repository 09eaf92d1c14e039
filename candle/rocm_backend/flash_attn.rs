//! Flash attention on ROCm devices: a part of candle-flash-attn. Its ops call `crk_attention`, which also takes f32,
//! values with heads of another size than the keys', and blocks of any size in a paged cache.
use super::{FlashAttn, FlashAttnVarLen};
use candle::rocm_backend::kernels::{Attention, Starts};
use candle::rocm_backend::{AttentionOperands, RocmStorage, WrapErr, side_tensor};
use candle::{DType, Layout, Result, Shape, Tensor, backend::BackendStorage, bail};

/// A tensor of a custom op.
type Operand<'a> = (&'a RocmStorage, &'a Layout);

/// The cache of blocks of a [`FlashAttnVarLen`], and its ranges of tokens that see each other.
#[derive(Default)]
pub struct Pages<'a> {
    pub block_table: Option<&'a Tensor>,
    pub block: Option<usize>,
    pub prefixes: Option<&'a Tensor>,
}

/// The layout (batch, heads, tokens, d) of a tensor (batch, tokens, heads, d), or (tokens, heads, d) with a batch of 1.
fn heads_first(layout: &Layout) -> Result<Layout> {
    let (mut dims, mut strides) = (layout.dims().to_vec(), layout.stride().to_vec());
    if dims.len() == 3 {
        dims.insert(0, 1);
        strides.insert(0, 0);
    }
    Layout::new(Shape::from(dims), strides, layout.start_offset()).transpose(1, 2)
}

fn check_dtype(tensor: &Tensor, allowed: &[DType], op: &str, argument: &str) -> Result<()> {
    if !allowed.contains(&tensor.dtype()) {
        bail!("{op}: {argument} is of {:?}, not of {allowed:?}", tensor.dtype())
    }
    Ok(())
}

/// ALiBi's slopes as (sequences, heads).
fn slopes_of(slopes: &Option<Tensor>, sequences: usize, heads: usize, op: &'static str) -> Result<Option<Tensor>> {
    let Some(slopes) = slopes else { return Ok(None) };
    check_dtype(slopes, &[DType::F32], op, "alibi_slopes")?;
    if slopes.dims() != [heads] {
        bail!("{op}: alibi_slopes has the shape {:?}, not ({heads},)", slopes.shape())
    }
    slopes.broadcast_as((sequences, heads)).map(Some)
}

/// Limits above the number of keys are none.
fn window(limit: Option<usize>, keys: usize) -> Option<usize> {
    limit.filter(|limit| *limit <= keys)
}

/// The result's shape: that of the queries, with heads of the values' size.
fn result_shape(q: &Layout, v: &Layout) -> Result<Shape> {
    let mut dims = q.dims().to_vec();
    if let (Some(d), Some(dv)) = (dims.last_mut(), v.dims().last()) {
        *d = *dv;
    }
    Ok(Shape::from(dims))
}

impl FlashAttn {
    /// Attention of tensors (batch, tokens, heads, d).
    pub(super) fn on_rocm(&self, q: Operand, k: Operand, v: Operand) -> Result<(RocmStorage, Shape)> {
        let op = "flash-attn";
        let (batch, _, heads, _) = q.1.shape().dims4()?;
        let (keys, _) = (k.1.shape().dims4()?.1, v.1.shape().dims4()?);
        let shape = result_shape(q.1, v.1)?;
        let (q_l, k_l, v_l) = (heads_first(q.1)?, heads_first(k.1)?, heads_first(v.1)?);
        let dst_l = heads_first(&Layout::contiguous(&shape))?;
        let operands = AttentionOperands::new(op, (q.0, &q_l), (k.0, &k_l), (v.0, &v_l), &dst_l)?;

        let slopes = slopes_of(&self.alibi_slopes, batch, heads, op)?;
        let slopes = slopes.as_ref().map(|slopes| side_tensor(slopes, op, "alibi_slopes")).transpose()?;
        let call = Attention {
            softcap: self.softcap,
            left: window(self.window_size_left, keys),
            right: window(self.window_size_right, keys),
            slopes: slopes.as_ref().map(|side| side.strided()).transpose()?,
            ..operands.call(self.softmax_scale)
        };
        q.0.device().handle().attention(&call).w()?;
        Ok((operands.into_result(), shape))
    }
}

impl FlashAttnVarLen {
    /// Attention of tensors (tokens, heads, d), which hold the tokens of all sequences. Keys and values may be in a
    /// cache (blocks, block, heads, d).
    pub(super) fn on_rocm(&self, q: Operand, k: Operand, v: Operand) -> Result<(RocmStorage, Shape)> {
        let op = "flash-attn-varlen";
        let (_, heads, _) = q.1.shape().dims3()?;
        let pages = self.pages();
        if pages.block_table.is_some() {
            let (_, block, _, _) = k.1.shape().dims4()?;
            v.1.shape().dims4()?;
            if pages.block != Some(block) {
                bail!("{op}: page_block_size is {:?}, and k has blocks of {block} keys", pages.block)
            }
        } else {
            k.1.shape().dims3()?;
            v.1.shape().dims3()?;
        }
        let shape = result_shape(q.1, v.1)?;
        let (q_l, k_l, v_l) = (heads_first(q.1)?, heads_first(k.1)?, heads_first(v.1)?);
        let dst_l = heads_first(&Layout::contiguous(&shape))?;
        let operands = AttentionOperands::new(op, (q.0, &q_l), (k.0, &k_l), (v.0, &v_l), &dst_l)?;

        let (starts_q, starts_k) = (self.seqlens_q.dims1()?, self.seqlens_k.dims1()?);
        if starts_q < 2 || starts_q != starts_k {
            bail!("{op}: seqlens_q has {starts_q} numbers and seqlens_k {starts_k}, not one more than sequences each")
        }
        check_dtype(&self.seqlens_q, &[DType::U32], op, "seqlens_q")?;
        check_dtype(&self.seqlens_k, &[DType::U32], op, "seqlens_k")?;
        let sequences = starts_q - 1;
        let slopes = slopes_of(&self.alibi_slopes, sequences, heads, op)?;
        if let Some(table) = pages.block_table {
            // Numbers of blocks are below 2^31, where both dtypes agree.
            check_dtype(table, &[DType::U32, DType::I32], op, "block_table")?;
        }
        let prefixes = match pages.prefixes {
            None => None,
            Some(ranges) => {
                check_dtype(ranges, &[DType::I32], op, "mm_prefix_ranges")?;
                Some(ranges.contiguous()?).filter(|ranges| ranges.elem_count() > 0)
            }
        };

        let slopes = slopes.as_ref().map(|slopes| side_tensor(slopes, op, "alibi_slopes")).transpose()?;
        let table = pages.block_table.map(|table| side_tensor(table, op, "block_table")).transpose()?;
        let prefixes = prefixes.as_ref().map(|ranges| side_tensor(ranges, op, "mm_prefix_ranges")).transpose()?;
        let seqlens_q = side_tensor(&self.seqlens_q, op, "seqlens_q")?;
        let seqlens_k = side_tensor(&self.seqlens_k, op, "seqlens_k")?;
        let (seqlens_q, seqlens_k) = (seqlens_q.view()?, seqlens_k.view()?);
        let table = table.as_ref().map(|side| side.strided()).transpose()?;
        // SAFETY: what the tensors hold is the caller's promise, as it is on CUDA devices.
        let starts =
            unsafe { Starts::new(sequences, seqlens_q, seqlens_k, self.max_seqlen_q, self.max_seqlen_k, table) };
        let call = Attention {
            softcap: self.softcap,
            left: window(self.window_size_left, self.max_seqlen_k),
            right: window(self.window_size_right, self.max_seqlen_k),
            slopes: slopes.as_ref().map(|side| side.strided()).transpose()?,
            starts: Some(starts),
            prefixes: prefixes.as_ref().map(|side| side.strided()).transpose()?,
            ..operands.call(self.softmax_scale)
        };
        q.0.device().handle().attention(&call).w()?;
        Ok((operands.into_result(), shape))
    }
}
