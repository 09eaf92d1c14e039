//! Fused attention: prompts, and single queries with a cache of keys.
use super::{BF16, Call, Case, F16, Layouts, Roof, Size, Source, text};

use candle_rocm_sys::{DType, sys};

/// Sizes of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Op {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    d: usize,
    causal: bool,
}

/// The numbers of the sources: the keys come first, since the time to read them is a limit of single queries.
pub const K: usize = 0;
pub const V: usize = 1;
pub const Q: usize = 2;

impl Op {
    pub(super) fn call<'a>(self, case: &'a Case, layouts: Layouts) -> Call<'a> {
        let dtype = case.dtype();
        Box::new(move |device, x, dst| {
            let ((q_layout, q), (k_layout, k), (v_layout, v)) = (layouts.at(Q, x), layouts.at(K, x), layouts.at(V, x));
            let call = sys::crk_attention {
                struct_bytes: size_of::<sys::crk_attention>(),
                dtype,
                q_layout,
                q,
                k_layout,
                k,
                v_layout,
                v,
                dst_layout: &layouts.dst,
                dst,
                scale: self.scale(),
                causal: self.causal,
                left: usize::MAX,
                right: usize::MAX,
                ..sys::crk_attention::default()
            };
            // SAFETY: the caller of [`super::Prepared::launch`] promises valid memory; the layouts are live.
            unsafe { sys::crk_attention(device, &call) }
        })
    }

    /// PyTorch's: 1 / sqrt(d).
    pub fn scale(self) -> f32 {
        1.0 / (self.d as f32).sqrt()
    }

    pub fn is_causal(self) -> bool {
        self.causal
    }
}

/// (batch, heads, kv heads, tokens, d, causal) of prompts.
const PROMPTS: &[(&str, DType, [usize; 5], bool)] = &[
    ("8192 tokens", BF16, [1, 32, 8, 8192, 128], true),
    ("2048 tokens", BF16, [1, 32, 8, 2048, 128], true),
    ("512 tokens", BF16, [1, 32, 8, 512, 128], true),
    ("2048 tokens, not causal", BF16, [4, 32, 32, 2048, 128], false),
    ("512 tokens, not causal, d 64", F16, [16, 16, 16, 512, 64], false),
    ("4096 tokens, d 64", BF16, [4, 16, 16, 4096, 64], true),
    ("4096 tokens, d 256", BF16, [2, 16, 8, 4096, 256], true),
    ("4096 tokens, not causal, d 40", F16, [2, 8, 8, 4096, 40], false),
    ("2048 tokens, d 96", BF16, [4, 32, 8, 2048, 96], true),
];

/// The same of single queries.
const QUERIES: &[(&str, [usize; 5])] = &[
    ("512 keys", [1, 32, 8, 512, 128]),
    ("4096 keys", [1, 32, 8, 4096, 128]),
    ("32768 keys", [1, 32, 8, 32768, 128]),
    ("131072 keys", [1, 32, 8, 131_072, 128]),
    ("4096 keys of 16 sequences", [16, 32, 8, 4096, 128]),
    ("4096 keys of as many heads", [1, 32, 32, 4096, 128]),
    ("8192 keys, d 256", [1, 16, 8, 8192, 256]),
    ("4096 keys, d 64", [1, 32, 8, 4096, 64]),
];

fn case(name: String, dtype: DType, op: Op) -> Case {
    let Op { batch, heads, kv_heads, queries, keys, d, causal } = op;
    let cache = Source::plain(dtype, &[batch, kv_heads, keys, d]);
    let q = Source::plain(dtype, &[batch, heads, queries, d]);
    let name = format!("{name}, {}", text(dtype));
    let dst = [batch, heads, queries, d];
    let mut case = Case::new(name, super::Op::Attention(op), vec![cache.clone(), cache, q], dtype, &dst);
    case.dims = vec![batch, heads, kv_heads, queries, keys, d];
    let options = if causal { "is_causal=True, enable_gqa=True" } else { "enable_gqa=True" };
    case.torch(format!("torch.nn.functional.scaled_dot_product_attention(x[{Q}], x[{K}], x[{V}], {options})"))
}

/// All cases at a size. The named numbers of tokens are those of 2^28 elements; the work falls with the elements.
pub fn cases(size: Size) -> Vec<Case> {
    let share = (size.elements as f64 / (1u64 << 28) as f64).min(1.0);
    let of = |tokens: usize, share: f64| size.dim(((tokens as f64 * share) as usize).max(2));
    let mut cases = Vec::new();
    for &(name, dtype, [batch, heads, kv_heads, tokens, d], causal) in PROMPTS {
        let tokens = of(tokens, share.sqrt());
        let op = Op { batch, heads, kv_heads, queries: tokens, keys: tokens, d, causal };
        let mut prompt = case(format!("attention of {name}"), dtype, op);
        let seen = if causal { tokens * (tokens + 1) / 2 } else { tokens * tokens };
        prompt.roof = Roof::Operations(4 * batch * heads * seen * d);
        cases.push(prompt);
    }
    for &(name, [batch, heads, kv_heads, keys, d]) in QUERIES {
        let op = Op { batch, heads, kv_heads, queries: 1, keys: of(keys, share), d, causal: false };
        let mut query = case(format!("attention of a query, {name}"), BF16, op);
        query.roof = Roof::Reads;
        cases.push(query);
    }
    cases
}
