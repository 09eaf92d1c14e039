//! The shape and the options of a call, without its numbers.
use crate::support::cases::{Rng, Shape};
use crate::support::number::{F32, Type, U8};

/// How sequences lie in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    /// All sequences have the same lengths.
    Batch,
    /// One after the other.
    Starts,
    /// The keys are in blocks of so many.
    Blocks(usize),
}

/// The contents of q, k and v.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Filling {
    Reals,
    /// Reals, and in some rows a NaN or an infinity.
    Special,
    /// One key has almost all of the weight, and zeros as values. The other keys have faint weights and large values.
    Faint,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub t: Type,
    pub kv_heads: usize,
    /// Heads per kv head.
    pub group: usize,
    pub d: usize,
    pub dv: usize,
    /// Queries and keys of each sequence.
    pub lengths: Vec<(usize, usize)>,
    pub way: Way,
    pub scale: f32,
    pub softcap: f32,
    pub causal: bool,
    pub left: Option<usize>,
    pub right: Option<usize>,
    pub slopes: bool,
    pub mask: Option<Type>,
    /// Ranges per sequence.
    pub prefixes: usize,
    pub lse: bool,
    pub filling: Filling,
}

impl Plan {
    /// A call with nothing optional.
    pub fn plain(t: Type, heads: (usize, usize), (d, dv): (usize, usize), lengths: &[(usize, usize)]) -> Plan {
        Plan {
            t,
            kv_heads: heads.0,
            group: heads.1,
            d,
            dv,
            lengths: lengths.to_vec(),
            way: Way::Batch,
            scale: 1.0 / (d as f32).sqrt(),
            softcap: 0.0,
            causal: false,
            left: None,
            right: None,
            slopes: false,
            mask: None,
            prefixes: 0,
            lse: false,
            filling: Filling::Reals,
        }
    }

    pub fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    pub fn most_queries(&self) -> usize {
        self.lengths.iter().map(|l| l.0).max().unwrap_or(0)
    }

    pub fn most_keys(&self) -> usize {
        self.lengths.iter().map(|l| l.1).max().unwrap_or(0)
    }

    /// The blocks of the cache that each sequence needs.
    pub fn blocks(&self, block: usize) -> usize {
        self.lengths.iter().map(|l| l.1.div_ceil(block)).sum()
    }

    /// Whether every query sees every key.
    pub fn hides_nothing(&self) -> bool {
        !self.causal && self.left.is_none() && self.right.is_none() && self.mask != Some(U8)
    }

    /// Chooses a window, and sometimes an unusual scale.
    pub fn with_window(mut self, rng: &mut Rng) -> Plan {
        self.scale = rng.pick(&[self.scale, self.scale, self.scale, -self.scale, 0.0, 1.0]);
        let mut side = || [None, Some(rng.pick(&[0, 1, 7, 33, 64, 200]))][rng.below(2)];
        (self.left, self.right) = (side(), side());
        self.causal = rng.one_in(2);
        self
    }

    /// Chooses what needs the general kernels, at least one thing.
    pub fn with_scores(mut self, rng: &mut Rng) -> Plan {
        while self.softcap == 0.0 && !self.slopes && self.mask.is_none() && self.prefixes == 0 {
            self.softcap = rng.pick(&[0.0, 0.0, 3.5, 50.0]);
            self.slopes = rng.one_in(3);
            self.mask = rng.pick(&[None, None, Some(self.t), Some(F32), Some(U8)]);
            self.prefixes = rng.pick(&[0, 0, 0, 1, 3]);
        }
        self
    }
}

/// A layout of q, k, v or dst: any order of the outer dims, gaps, an offset; with `broadcast`, sometimes the same
/// numbers for all indices of a dim.
pub fn tensor(rng: &mut Rng, dims: [usize; 4], broadcast: bool) -> Shape {
    let order = rng.pick(&[[0, 1, 2], [0, 2, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0]]);
    let mut strides = vec![1; 4];
    let mut stride = dims[3] + rng.pick(&[0, 0, 0, 8, 16, 1, 3]);
    for &dim in order.iter().rev() {
        strides[dim] = stride;
        stride = stride * dims[dim].max(1) + rng.pick(&[0, 0, 0, 8, 5]);
    }
    if broadcast && rng.one_in(8) {
        strides[rng.below(3)] = 0;
    }
    Shape { dims: dims.to_vec(), strides, offset: rng.pick(&[0, 0, 0, 8, 1, 13]) }
}

/// A layout of a mask: any strides, often the same numbers for all sequences, heads or queries.
pub fn mask(rng: &mut Rng, dims: [usize; 4]) -> Shape {
    let mut strides = vec![0; 4];
    let order = rng.pick(&[[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 3, 2], [3, 1, 0, 2]]);
    let mut stride = rng.pick(&[1, 1, 1, 2]);
    for &dim in order.iter().rev() {
        if rng.one_in([2, 2, 5, 9][dim]) {
            continue;
        }
        strides[dim] = stride;
        stride = stride * dims[dim].max(1) + rng.pick(&[0, 0, 3]);
    }
    Shape { dims: dims.to_vec(), strides, offset: rng.pick(&[0, 0, 1, 8]) }
}
