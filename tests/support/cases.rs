//! The case table: the sizes and layouts that element-wise ops are tested with. Plain data, shared by tests and
//! benches.
/// A small generator of pseudo-random numbers (splitmix64): the same seed gives the same case everywhere.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    #[allow(clippy::should_implement_trait)] // an endless sequence, read by many functions at once
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Uniformly distributed from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A layout: element (i0, i1, ...) is at offset + i0 * strides[0] + ...
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    pub offset: usize,
}

impl Shape {
    pub fn contiguous(dims: &[usize]) -> Shape {
        let mut strides = vec![1; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i] * dims[i].max(1);
        }
        Shape { dims: dims.to_vec(), strides, offset: 0 }
    }

    pub fn numel(&self) -> usize {
        self.dims.iter().product()
    }

    /// The number of elements of the smallest buffer that holds the layout.
    pub fn reach(&self) -> usize {
        if self.numel() == 0 {
            return self.offset;
        }
        1 + self.offset + self.dims.iter().zip(&self.strides).map(|(d, s)| (d - 1) * s).sum::<usize>()
    }

    /// The position of each element, in order.
    pub fn indices(&self) -> Vec<usize> {
        let mut indices = vec![self.offset; self.numel().min(1)];
        for (&dim, &stride) in self.dims.iter().zip(&self.strides) {
            indices = indices.iter().flat_map(|base| (0..dim).map(move |i| base + i * stride)).collect();
        }
        indices
    }

    /// The same elements with dims in another order.
    pub fn permuted(&self, order: &[usize]) -> Shape {
        Shape {
            dims: order.iter().map(|&i| self.dims[i]).collect(),
            strides: order.iter().map(|&i| self.strides[i]).collect(),
            offset: self.offset,
        }
    }
}

/// Element counts around every width that a kernel may work in: `vector` elements at once, 256 threads, 1024 threads.
pub fn sizes(vector: usize) -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 3, 5];
    for width in [vector, 2 * vector, 32, 64, 256, 1024] {
        sizes.extend([width - 1, width, width + 1]);
    }
    // Primes below and above a block of vectors.
    sizes.extend([1021, 4099, 256 * vector + 13]);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Random dims of a rank: some of size 1, some of the vector width, at most `limit` elements.
pub fn random_dims(rng: &mut Rng, rank: usize, vector: usize, limit: usize) -> Vec<usize> {
    let mut dims = vec![1; rank];
    let mut left = limit;
    let mut places: Vec<usize> = (0..rank).collect();
    while !places.is_empty() && left > 1 {
        let place = places.swap_remove(rng.below(places.len()));
        let dim = rng.pick(&[1, 2, 3, 4, 5, 7, vector, vector + 1, 2 * vector, 4 * vector, 31]);
        dims[place] = dim.min(left);
        left /= dims[place];
    }
    if rank > 0 && rng.one_in(24) {
        let place = rng.below(rank);
        dims[place] = 0;
    }
    dims
}

/// A random layout of `dims`: permuted, stepped, padded, broadcast, offset. Elements may share a position.
pub fn random_layout(rng: &mut Rng, dims: &[usize], vector: usize) -> Shape {
    let mut shape = Shape::contiguous(dims);
    if rng.one_in(5) {
        shape.offset = rng.pick(&[0, 1, vector, 3]);
        return shape;
    }
    distinct_strides(rng, &mut shape, vector);
    for stride in &mut shape.strides {
        if rng.one_in(4) {
            *stride = 0;
        }
    }
    shape
}

/// A random layout of `dims` for a destination. No two elements share a position.
pub fn random_destination(rng: &mut Rng, dims: &[usize], vector: usize) -> Shape {
    let mut shape = Shape::contiguous(dims);
    distinct_strides(rng, &mut shape, vector);
    shape
}

fn distinct_strides(rng: &mut Rng, shape: &mut Shape, vector: usize) {
    let mut order: Vec<usize> = (0..shape.dims.len()).collect();
    if !rng.one_in(3) {
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
    }
    let mut stride = if rng.one_in(3) { rng.pick(&[2, 3, vector]) } else { 1 };
    for &i in order.iter().rev() {
        shape.strides[i] = stride;
        stride *= shape.dims[i].max(1);
        stride += match rng.below(8) {
            0 => 1,
            1 => vector,
            _ => 0,
        };
    }
    shape.offset = rng.pick(&[0, 0, 1, vector, vector + 1]);
}

/// A named layout for examples and benches: the layouts that models use most.
pub struct Common {
    pub name: &'static str,
    /// The layouts of the two operands.
    pub lhs: Shape,
    pub rhs: Shape,
}

/// The usual layouts of a tensor of heads with `n` elements in all. `n` is a multiple of 4096.
pub fn common(n: usize) -> Vec<Common> {
    let rows = n / 1024;
    let flat = Shape::contiguous(&[rows, 1024]);
    let heads = Shape::contiguous(&[rows / 4, 4, 16, 64]);
    vec![
        Common { name: "contiguous", lhs: flat.clone(), rhs: flat.clone() },
        Common { name: "row-broadcast", lhs: flat.clone(), rhs: Shape { strides: vec![0, 1], ..flat.clone() } },
        Common { name: "column-broadcast", lhs: flat.clone(), rhs: Shape { strides: vec![1, 0], ..flat.clone() } },
        Common {
            name: "heads-swapped",
            lhs: heads.permuted(&[0, 2, 1, 3]),
            rhs: Shape::contiguous(&[rows / 4, 16, 4, 64]),
        },
        Common { name: "transposed", lhs: flat.permuted(&[1, 0]), rhs: Shape::contiguous(&[1024, rows]) },
    ]
}
