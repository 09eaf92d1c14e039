//! Mixtures of experts. The contracts are in `include/candle_rocm/launchers/moe.h`.
use crate::{Buffer, DType, Device, GateOp, Quant, Result, View};

/// The expert of each token, in the order of the lists, and the scale of its result.
#[derive(Debug, Clone, Copy)]
pub struct Routes<'a> {
    /// The number of tokens.
    pub tokens: usize,
    /// The number of tokens that share a row of `x`, where `topk_weights` is `None`.
    pub topk: usize,
    /// i32: the tokens.
    pub sorted_token_ids: View<'a>,
    /// i32: the expert of each token.
    pub expert_ids: View<'a>,
    /// f32: the scale of each token.
    pub topk_weights: Option<View<'a>>,
}

impl Device {
    /// The `topk` experts of each of `tokens` tokens by their logits, f32: `crk_moe_route`. `lists` are
    /// sorted_token_ids and expert_ids.
    pub fn moe_route<'a>(
        &self,
        (experts, tokens, topk): (usize, usize, usize),
        normalise: bool,
        logits: impl Into<View<'a>>,
        (topk_weights, topk_ids): (&Buffer, &Buffer),
        lists: Option<(&Buffer, &Buffer)>,
    ) -> Result<()> {
        let (sorted_token_ids, expert_ids) = lists.unzip();
        launch!(self.crk_moe_route(
            experts,
            tokens,
            topk,
            normalise,
            logits,
            topk_weights,
            topk_ids,
            sorted_token_ids,
            expert_ids
        ))
    }

    /// The same of one token `x` with the logits `weights * x`, both of `dtype`: `crk_moe_router`.
    #[allow(clippy::too_many_arguments)]
    pub fn moe_router<'a>(
        &self,
        dtype: DType,
        (experts, k, topk): (usize, usize, usize),
        normalise: bool,
        weights: impl Into<View<'a>>,
        x: impl Into<View<'a>>,
        (topk_weights, topk_ids): (&Buffer, &Buffer),
        lists: Option<(&Buffer, &Buffer)>,
    ) -> Result<()> {
        let (sorted_token_ids, expert_ids) = lists.unzip();
        launch!(self.crk_moe_router(
            dtype,
            experts,
            k,
            topk,
            normalise,
            weights,
            x,
            topk_weights,
            topk_ids,
            sorted_token_ids,
            expert_ids
        ))
    }

    /// Quantized weights of the tokens' experts times activations in 8 bits: `crk_moe_gguf`. `x` has `dtype`, `dst` is
    /// f32.
    #[allow(clippy::too_many_arguments)]
    pub fn moe_gguf<'a>(
        &self,
        quant: Quant,
        dtype: DType,
        (experts, rows, k): (usize, usize, usize),
        routes: Routes,
        weights: &Buffer,
        x: impl Into<View<'a>>,
        dst: &Buffer,
    ) -> Result<()> {
        let Routes { tokens, topk, sorted_token_ids, expert_ids, topk_weights } = routes;
        launch_reporting!(self.crk_moe_gguf(
            quant,
            dtype,
            experts,
            rows,
            k,
            tokens,
            topk,
            weights,
            x,
            sorted_token_ids,
            expert_ids,
            topk_weights,
            dst
        ))
    }

    /// The same for activations that are quantized already: `crk_moe_gguf_columns`.
    pub fn moe_gguf_columns(
        &self,
        quant: Quant,
        (experts, rows, k): (usize, usize, usize),
        routes: Routes,
        weights: &Buffer,
        x: &Buffer,
        dst: &Buffer,
    ) -> Result<()> {
        let Routes { tokens, topk, sorted_token_ids, expert_ids, topk_weights } = routes;
        launch_reporting!(self.crk_moe_gguf_columns(
            quant,
            experts,
            rows,
            k,
            tokens,
            topk,
            weights,
            x,
            sorted_token_ids,
            expert_ids,
            topk_weights,
            dst
        ))
    }

    /// The sum of one token's results: `crk_moe_gguf_sum`.
    pub fn moe_gguf_sum(
        &self,
        quant: Quant,
        (experts, rows, k): (usize, usize, usize),
        routes: Routes,
        weights: &Buffer,
        x: &Buffer,
        dst: &Buffer,
    ) -> Result<()> {
        let Routes { topk, sorted_token_ids, expert_ids, topk_weights, .. } = routes;
        launch_reporting!(self.crk_moe_gguf_sum(
            quant,
            experts,
            rows,
            k,
            topk,
            weights,
            x,
            sorted_token_ids,
            expert_ids,
            topk_weights,
            dst
        ))
    }

    /// The gates of the tokens' experts, also quantized if there are `blocks`: `crk_moe_gguf_gate`. Routes have no
    /// weights.
    #[allow(clippy::too_many_arguments)]
    pub fn moe_gguf_gate(
        &self,
        op: GateOp,
        quant: Quant,
        (experts, rows, k): (usize, usize, usize),
        routes: Routes,
        [gate, up]: [&Buffer; 2],
        x: &Buffer,
        dst: &Buffer,
        blocks: Option<&Buffer>,
    ) -> Result<()> {
        let Routes { tokens, topk, sorted_token_ids, expert_ids, .. } = routes;
        launch_reporting!(self.crk_moe_gguf_gate(
            op,
            quant,
            experts,
            rows,
            k,
            tokens,
            topk,
            gate,
            up,
            x,
            sorted_token_ids,
            expert_ids,
            dst,
            blocks
        ))
    }

    /// Quantized weights of the tokens' experts, as numbers of `dtype`, times activations of `dtype`:
    /// `crk_moe_gguf_prefill`. `dst` is f32.
    #[allow(clippy::too_many_arguments)]
    pub fn moe_gguf_prefill<'a>(
        &self,
        quant: Quant,
        dtype: DType,
        (experts, rows, k): (usize, usize, usize),
        routes: Routes,
        weights: &Buffer,
        x: impl Into<View<'a>>,
        dst: &Buffer,
    ) -> Result<()> {
        let Routes { tokens, topk, sorted_token_ids, expert_ids, topk_weights } = routes;
        launch_reporting!(self.crk_moe_gguf_prefill(
            quant,
            dtype,
            experts,
            rows,
            k,
            tokens,
            topk,
            weights,
            x,
            sorted_token_ids,
            expert_ids,
            topk_weights,
            dst
        ))
    }

    /// Weights of the tokens' experts times activations, all of `dtype`: `crk_moe_gemm`. `counts` takes the number of
    /// tokens of each expert, and the sum of the numbers before it.
    #[allow(clippy::too_many_arguments)]
    pub fn moe_gemm<'a>(
        &self,
        dtype: DType,
        (experts, rows, k): (usize, usize, usize),
        routes: Routes,
        weights: impl Into<View<'a>>,
        x: impl Into<View<'a>>,
        dst: &Buffer,
        counts: Option<(&Buffer, &Buffer)>,
    ) -> Result<()> {
        let Routes { tokens, topk, sorted_token_ids, expert_ids, topk_weights } = routes;
        let (expert_counts, expert_offsets) = counts.unzip();
        launch_reporting!(self.crk_moe_gemm(
            dtype,
            experts,
            rows,
            k,
            tokens,
            topk,
            weights,
            x,
            sorted_token_ids,
            expert_ids,
            topk_weights,
            dst,
            expert_counts,
            expert_offsets
        ))
    }

    /// Groups tokens by expert, in blocks: `crk_moe_align`. `(count, padded)` are the number of ids and the number of
    /// entries that the outputs have room for. All buffers are i32.
    #[allow(clippy::too_many_arguments)]
    pub fn moe_align(
        &self,
        experts: usize,
        block_size: usize,
        (count, padded): (usize, usize),
        topk_ids: &Buffer,
        sorted_token_ids: &Buffer,
        expert_ids: &Buffer,
        num_tokens_post_pad: &Buffer,
        cumsum: &Buffer,
    ) -> Result<()> {
        launch_reporting!(self.crk_moe_align(
            experts,
            block_size,
            count,
            padded,
            topk_ids,
            sorted_token_ids,
            expert_ids,
            num_tokens_post_pad,
            cumsum
        ))
    }

    /// For each id, the weights of its expert times its activations: `crk_indexed_moe`.
    #[allow(clippy::too_many_arguments)]
    pub fn indexed_moe<'a>(
        &self,
        quant: Quant,
        dtype: DType,
        (experts, rows, k): (usize, usize, usize),
        (batch, topk, inputs): (usize, usize, usize),
        weights: &Buffer,
        x: impl Into<View<'a>>,
        ids: impl Into<View<'a>>,
        dst: &Buffer,
    ) -> Result<()> {
        launch_reporting!(
            self.crk_indexed_moe(quant, dtype, experts, rows, k, batch, topk, inputs, weights, x, ids, dst)
        )
    }
}
