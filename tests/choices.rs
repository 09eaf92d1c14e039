//! The kernel and the number of blocks that a launcher chooses for a shape and a layout: the launches that reach the
//! double of libamdhip64. It simulates 16 compute units of a gfx1100 unless a test says otherwise. Other tests check
//! what the kernels compute.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::sys::{
    crk_binary_op_t as Binary, crk_cmp_op_t as Cmp, crk_quant_t as Quant, crk_reduce_op_t as Reduce,
    crk_unary_op_t as Unary,
};
use candle_rocm_sys::{
    Attention, Backend, Buffer, Conv, DType, Device, GateOp, HeadWeights, Layout, Result, RopeKind, Strided, View, sys,
};

#[path = "../build/architectures.rs"]
mod architectures;
use candle_rocm_sys_tests::support::hip_double;
use hip_double::{Controls, alone};

/// A device, and zeroed buffers that are larger than any case needs.
struct On {
    device: Device,
    a: Buffer,
    b: Buffer,
    dst: Buffer,
}

/// A call, and the kernels that it launches: the name, and the number of blocks if the launcher chooses it.
type Case = (&'static str, fn(&On) -> Result<()>, &'static [&'static str]);

const F16: DType = DType::F16;
const F32: DType = DType::F32;
const U8: DType = DType::U8;
const U32: DType = DType::U32;
const I32: DType = DType::I32;

fn plain(dims: &[usize]) -> Layout {
    Layout::contiguous(dims).expect("a layout")
}

fn strided(dims: &[usize], strides: &[usize]) -> Layout {
    Layout::strided(dims, strides, 0).expect("a layout")
}

fn check(cases: &[Case]) {
    let device = Device::open(Backend::Hip, 0).expect("the double's GPU");
    let zeros = || device.upload(&vec![0u8; 4 << 20]).expect("device memory");
    let on = On { a: zeros(), b: zeros(), dst: zeros(), device: device.clone() };
    let controls = Controls::get();
    let mut wrong = Vec::new();
    for (what, call, kernels) in cases {
        controls.launches();
        call(&on).unwrap_or_else(|error| panic!("{what}: {error}"));
        let launched = controls.launches();
        let is = |(launched, kernel): (&String, &&str)| {
            launched == kernel || launched.split_once(' ').is_some_and(|(name, _)| name == *kernel)
        };
        if launched.len() != kernels.len() || !launched.iter().zip(*kernels).all(is) {
            wrong.push(format!("{what}: launched {launched:?}, expected {kernels:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn over_the_double(test: &str, body: fn()) {
    over_the_double_of(test, "gfx1100", body);
}

fn over_the_double_of(test: &str, architecture: &str, body: fn()) {
    with_wgp_mode(test, architecture, "1", body);
}

/// 8 units of four SIMDs: compute units of GCN and CDNA, or pairs of RDNA's, which HIP counts as one in WGP mode "1".
fn with_wgp_mode(test: &str, architecture: &str, wgp_mode: &str, body: fn()) {
    let units = if architectures::find(architecture).expect("a line").simd.units == 4 { "8" } else { "16" };
    let environment =
        [("HIP_DOUBLE_COMPUTE_UNITS", units), ("GPU_ENABLE_WGP_MODE", wgp_mode), ("CANDLE_ROCM_BLAS", "0")];
    alone(test, architecture, 6, &environment, body);
}

fn unary(on: &On, dtype: DType, layout: &Layout) -> Result<()> {
    on.device.unary(Unary::Abs, dtype, layout, &on.a, &on.dst)
}

fn add(on: &On, lhs: &Layout, rhs: &Layout) -> Result<()> {
    on.device.binary(Binary::Add, F16, (lhs, &on.a), (rhs, &on.b), &on.dst)
}

#[test]
fn element_wise() {
    over_the_double("element_wise", || {
        check(&[
            ("unary, contiguous", |on| unary(on, F32, &plain(&[6, 7])), &["uabs_f32_vec"]),
            ("unary, from element 1", |on| unary(on, F32, &Layout::strided(&[40], &[1], 1)?), &["uabs_f32_vec"]),
            ("unary, dims of 1", |on| unary(on, F32, &strided(&[4, 1, 5], &[5, 99, 1])), &["uabs_f32_vec"]),
            ("unary, transposed", |on| unary(on, F32, &strided(&[64, 64], &[1, 64])), &["uabs_f32_nd"]),
            ("unary, every second", |on| unary(on, F32, &strided(&[64], &[2])), &["uabs_f32_nd"]),
            ("unary, broadcast", |on| unary(on, F32, &strided(&[64, 64], &[0, 1])), &["uabs_f32_nd"]),
            ("unary, identity", |on| unary(on, U8, &plain(&[64])), &["ucopy_b8_vec"]),
            ("unary, 0", |on| on.device.unary(Unary::Erf, I32, &plain(&[64]), &on.a, &on.dst), &["fill_b32_vec"]),
            (
                "unary with a parameter",
                |on| on.device.unary_param(Unary::Elu, F32, &plain(&[64]), &on.a, &on.dst, 1.0),
                &["uelu_f32_vec"],
            ),
            (
                "unary with a parameter, transposed",
                |on| on.device.unary_param(Unary::Elu, F32, &strided(&[8, 8], &[1, 8]), &on.a, &on.dst, 1.0),
                &["uelu_f32_nd"],
            ),
            ("affine", |on| on.device.affine(F16, &plain(&[64]), &on.a, &on.dst, 2.0, 1.0), &["affine_f16_vec"]),
            (
                "affine, transposed",
                |on| on.device.affine(F16, &strided(&[8, 8], &[1, 8]), &on.a, &on.dst, 2.0, 1.0),
                &["affine_f16_nd"],
            ),
            ("cast", |on| on.device.cast(F32, F16, &plain(&[64]), &on.a, &on.dst), &["cast_f32_f16_vec"]),
            (
                "cast, transposed",
                |on| on.device.cast(F32, F16, &strided(&[8, 8], &[1, 8]), &on.a, &on.dst),
                &["cast_f32_f16_nd"],
            ),
            ("cast to itself", |on| on.device.cast(F16, F16, &plain(&[64]), &on.a, &on.dst), &["ucopy_b16_vec"]),
            ("binary, contiguous", |on| add(on, &plain(&[8, 64]), &plain(&[8, 64])), &["badd_f16_vec"]),
            ("binary, row", |on| add(on, &plain(&[8, 64]), &strided(&[8, 64], &[0, 1])), &["badd_f16_nd"]),
            (
                "binary, row of many",
                |on| add(on, &plain(&[16384, 64]), &strided(&[16384, 64], &[0, 1])),
                &["badd_f16_row"],
            ),
            (
                "binary, row of not so many",
                |on| add(on, &plain(&[16368, 64]), &strided(&[16368, 64], &[0, 1])),
                &["badd_f16_nd"],
            ),
            (
                "binary, many of a row",
                |on| add(on, &strided(&[4, 4096, 64], &[0, 0, 1]), &plain(&[4, 4096, 64])),
                &["badd_f16_row"],
            ),
            (
                "binary, row that is not aligned",
                |on| add(on, &plain(&[16384, 64]), &Layout::strided(&[16384, 64], &[0, 1], 1)?),
                &["badd_f16_nd"],
            ),
            (
                "binary, row of no whole packs",
                |on| add(on, &plain(&[16384, 63]), &strided(&[16384, 63], &[0, 1])),
                &["badd_f16_nd"],
            ),
            ("binary, column", |on| add(on, &plain(&[8, 64]), &strided(&[8, 64], &[1, 0])), &["badd_f16_nd"]),
            ("binary, scalar", |on| add(on, &plain(&[8, 64]), &strided(&[8, 64], &[0, 0])), &["badd_f16_nd"]),
            ("binary, transposed", |on| add(on, &strided(&[64, 64], &[1, 64]), &plain(&[64, 64])), &["badd_f16_nd"]),
            (
                "cmp",
                |on| on.device.cmp(Cmp::Lt, F16, (&plain(&[64]), &on.a), (&plain(&[64]), &on.b), &on.dst),
                &["lt_f16_vec"],
            ),
            (
                "cmp, scalar",
                |on| on.device.cmp(Cmp::Lt, F16, (&plain(&[64]), &on.a), (&strided(&[64], &[0]), &on.b), &on.dst),
                &["lt_f16_nd"],
            ),
            ("where", |on| choose(on, U32, &[8, 64], &plain(&[8, 64])), &["where_b32_b16_vec"]),
            ("where, row", |on| choose(on, U32, &[8, 64], &strided(&[8, 64], &[0, 1])), &["where_b32_b16_nd"]),
            (
                "where, row of many",
                |on| choose(on, U8, &[16384, 64], &strided(&[16384, 64], &[0, 1])),
                &["where_b8_b16_row"],
            ),
            (
                "where, row of many by words",
                |on| choose(on, U32, &[16384, 64], &strided(&[16384, 64], &[0, 1])),
                &["where_b32_b16_nd"],
            ),
        ]);
    });
}

fn choose(on: &On, ids: DType, dims: &[usize], on_true: &Layout) -> Result<()> {
    let all = plain(dims);
    on.device.where_cond(ids, F16, (&all, &on.a), (on_true, &on.b), (&all, &on.b), &on.dst)
}

fn copy(on: &On, dtype: DType, layout: &Layout) -> Result<()> {
    on.device.copy_strided(dtype, layout, &on.a, &on.dst, 0)
}

#[test]
fn copies() {
    over_the_double("copies", || {
        check(&[
            ("contiguous", |on| copy(on, F32, &plain(&[64, 64])), &["ucopy_b32_vec"]),
            ("transposed", |on| copy(on, F32, &strided(&[64, 64], &[1, 64])), &["ucopy_b32_tile"]),
            ("transposed, of 16 rows", |on| copy(on, U8, &strided(&[64, 16], &[1, 64])), &["ucopy_b8_tile"]),
            ("transposed, of 15 rows", |on| copy(on, U8, &strided(&[64, 15], &[1, 64])), &["ucopy_b8_nd"]),
            ("transposed matrices", |on| copy(on, F16, &strided(&[3, 64, 64], &[4096, 1, 64])), &["ucopy_b16_tile"]),
            ("heads swapped", |on| copy(on, F16, &strided(&[2, 16, 8, 64], &[8192, 64, 1024, 1])), &["ucopy_b16_nd"]),
            ("rows with gaps", |on| copy(on, F32, &strided(&[8, 64], &[65, 1])), &["ucopy_b32_nd"]),
            ("a row many times", |on| copy(on, F32, &strided(&[8, 64], &[0, 1])), &["ucopy_b32_nd"]),
            (
                "unary copy, transposed",
                |on| on.device.unary(Unary::Copy, F32, &strided(&[64, 64], &[1, 64]), &on.a, &on.dst),
                &["ucopy_b32_tile"],
            ),
            (
                "cast to itself, transposed",
                |on| on.device.cast(F32, F32, &strided(&[64, 64], &[1, 64]), &on.a, &on.dst),
                &["ucopy_b32_tile"],
            ),
            ("fill", |on| on.device.fill(F32, &on.dst, 64, 1f32), &["fill_b32_vec"]),
            ("const_set", |on| on.device.const_set(F32, &plain(&[8, 64]), &on.dst, 1f32), &["fill_b32_vec"]),
            (
                "const_set, rows with gaps",
                |on| on.device.const_set(F32, &strided(&[8, 64], &[65, 1]), &on.dst, 1f32),
                &["const_set_b32_nd"],
            ),
            ("copy2d", |on| on.device.copy2d(F16, (8, 64), (&on.a, 70, 0), (&on.dst, 80, 0)), &["copy2d_b16_nd"]),
        ]);
    });
}

fn sum(on: &On, dims: &[usize], reduced: &[usize]) -> Result<()> {
    on.device.reduce(Reduce::Sum, F32, &plain(dims), &on.a, reduced, &on.dst)
}

#[test]
fn reductions() {
    over_the_double("reductions", || {
        check(&[
            ("rows of 4", |on| sum(on, &[4096, 4], &[1]), &["fast_sum_f32_even 16"]),
            ("rows of 32", |on| sum(on, &[4096, 32], &[1]), &["fast_sum_f32_even 16"]),
            ("rows of 1024, 32 lanes each", |on| sum(on, &[256, 1024], &[1]), &["fast_sum_f32_even 32"]),
            ("rows of 1024, a block each", |on| sum(on, &[8, 1024], &[1]), &["fast_sum_f32_even 8"]),
            ("rows of 4096", |on| sum(on, &[64, 4096], &[1]), &["fast_sum_f32_even 64"]),
            ("rows of 3", |on| sum(on, &[4096, 3], &[1]), &["fast_sum_f32_dense 8"]),
            ("rows of 255", |on| sum(on, &[256, 255], &[1]), &["fast_sum_f32_dense 32"]),
            ("rows of 257", |on| sum(on, &[256, 257], &[1]), &["fast_sum_f32_rows 32"]),
            ("all", |on| sum(on, &[512, 1024], &[0, 1]), &["fast_sum_f32_rows 64", "fast_sum_f32_join"]),
            ("all of few", |on| sum(on, &[64, 64], &[0, 1]), &["fast_sum_f32_even 1"]),
            ("columns", |on| sum(on, &[16, 4096], &[0]), &["fast_sum_f32_columns"]),
            ("columns, long", |on| sum(on, &[4096, 64], &[0]), &["fast_sum_f32_columns 16", "fast_sum_f32_join"]),
            ("columns, odd", |on| sum(on, &[16, 4095], &[0]), &["fast_sum_f32_strided"]),
            ("columns, odd and long", |on| sum(on, &[4096, 63], &[0]), &["fast_sum_f32_strided", "fast_sum_f32_join"]),
            ("nothing reduced", |on| sum(on, &[64, 64], &[]), &["fast_sum_f32_columns"]),
            ("no elements", |on| sum(on, &[64, 0], &[1]), &["fill_b32_vec"]),
            (
                "rows from element 1",
                |on| {
                    let layout = Layout::strided(&[256, 64], &[64, 1], 1)?;
                    on.device.reduce(Reduce::Max, F32, &layout, &on.a, &[1], &on.dst)
                },
                &["fast_max_f32_dense"],
            ),
            (
                "positions",
                |on| on.device.reduce(Reduce::Argmax, F16, &plain(&[64, 4096]), &on.a, &[1], &on.dst),
                &["fast_argmax_f16_even"],
            ),
        ]);
    });
}

fn softmax(on: &On, columns: usize) -> Result<()> {
    on.device.softmax(F32, &plain(&[8, columns]), &on.a, &on.dst)
}

fn layer_norm(on: &On, columns: usize) -> Result<()> {
    on.device.layer_norm(F16, &plain(&[8, columns]), &on.a, Some((&on.b).into()), None, &on.dst, 1e-5)
}

fn batch_norm(on: &On, dims: &[usize]) -> Result<()> {
    on.device.batch_norm(F32, &plain(dims), &on.a, (&on.b, &on.b), (None, None), &on.dst, 1e-5)
}

fn group_norm(on: &On, dims: &[usize], silu: bool) -> Result<()> {
    on.device.group_norm(F16, &plain(dims), (2, silu), &on.a, (Some((&on.b).into()), None), &on.dst, 1e-5)
}

#[test]
fn norms() {
    over_the_double("norms", || {
        check(&[
            ("softmax of 4", |on| softmax(on, 4), &["softmax_f32_even1"]),
            ("softmax of 128", |on| softmax(on, 128), &["softmax_f32_even1"]),
            ("softmax of 127", |on| softmax(on, 127), &["softmax_f32_rows1"]),
            ("softmax of 132", |on| softmax(on, 132), &["softmax_f32_even"]),
            ("softmax of 4096", |on| softmax(on, 4096), &["softmax_f32_even"]),
            ("softmax of 4095", |on| softmax(on, 4095), &["softmax_f32_rows"]),
            ("softmax of 4100", |on| softmax(on, 4100), &["softmax_f32_even_wide"]),
            ("softmax of 8191", |on| softmax(on, 8191), &["softmax_f32_wide"]),
            ("softmax of 8192", |on| softmax(on, 8192), &["softmax_f32_even_wide"]),
            ("softmax of 8196", |on| softmax(on, 8196), &["softmax_f32_long"]),
            (
                "softmax from element 1",
                |on| on.device.softmax(F32, &Layout::strided(&[8, 64], &[64, 1], 1)?, &on.a, &on.dst),
                &["softmax_f32_rows1"],
            ),
            (
                "rms_norm",
                |on| on.device.rms_norm(F16, &plain(&[17, 1024]), &on.a, Some((&on.b).into()), &on.dst, 1e-5),
                &["rmsnorm_f16_even"],
            ),
            (
                "rms_norm, alpha from element 1",
                |on| on.device.rms_norm(F16, &plain(&[17, 1024]), &on.a, Some(on.b.range(2..2050)?), &on.dst, 1e-5),
                &["rmsnorm_f16_rows"],
            ),
            ("rms_norm of a sum", |on| add_norm(on, 0), &["add_rmsnorm_f16_even"]),
            ("rms_norm of a sum, residual from element 1", |on| add_norm(on, 2), &["badd_f16_vec", "rmsnorm_f16_even"]),
            ("rms_norm of a norm's sum", |on| norm_add_norm(on, 0), &["norm_add_rmsnorm_f16_even"]),
            (
                "rms_norm of a norm's sum, its alpha from element 1",
                |on| norm_add_norm(on, 2),
                &["rmsnorm_f16_rows", "badd_f16_vec", "rmsnorm_f16_even"],
            ),
            (
                "rms_norm of a row per unit",
                |on| on.device.rms_norm(F16, &plain(&[8, 1024]), &on.a, Some((&on.b).into()), &on.dst, 1e-5),
                &["rmsnorm_f16_even_few 8"],
            ),
            ("layer_norm of 1023", |on| layer_norm(on, 1023), &["layernorm_f16_rows"]),
            ("layer_norm of 1016", |on| layer_norm(on, 1016), &["layernorm_f16_even"]),
            ("layer_norm of 1024", |on| layer_norm(on, 1024), &["layernorm_f16_whole"]),
            ("layer_norm of 8", |on| layer_norm(on, 8), &["layernorm_f16_whole1"]),
            ("layer_norm of 24", |on| layer_norm(on, 24), &["layernorm_f16_even1"]),
            ("layer_norm of 8200", |on| layer_norm(on, 8200), &["layernorm_f16_even_wide"]),
            ("layer_norm of 16384", |on| layer_norm(on, 16384), &["layernorm_f16_whole_wide"]),
            ("batch_norm of 14 x 14", |on| batch_norm(on, &[2, 8, 14, 14]), &["batchnorm_f32_even 4"]),
            // 32 threads per row of 128 packs, each of which loads four.
            ("batch_norm of many", |on| batch_norm(on, &[16, 100, 512]), &["batchnorm_f32_even 200"]),
            ("batch_norm of 7 x 7", |on| batch_norm(on, &[2, 8, 7, 7]), &["batchnorm_f32_any 1"]),
            ("batch_norm of one element", |on| batch_norm(on, &[2, 300]), &["batchnorm_f32_any 3"]),
            // A block per group where groups are short.
            ("group_norm", |on| group_norm(on, &[3, 8, 4, 8], false), &["groupstats_f16 6", "groupnorm_f16_even"]),
            ("group_norm, odd", |on| group_norm(on, &[3, 8, 5, 5], false), &["groupstats_f16 6", "groupnorm_f16_any"]),
            (
                "silu of group_norm",
                |on| group_norm(on, &[3, 8, 64], true),
                &["groupstats_f16 6", "groupnorm_f16_even_silu"],
            ),
            // Groups of 32 768 packs: parts of at least 512.
            (
                "group_norm of many",
                |on| group_norm(on, &[1, 8, 256, 256], true),
                &["groupstats_f16 64", "groupstats_f16_join 2", "groupnorm_f16_even_silu"],
            ),
        ]);
    });
}

fn add_norm(on: &On, from: usize) -> Result<()> {
    let residual = on.b.range(from..from + 17 * 2048)?;
    let sum = on.device.alloc(17 * 2048)?;
    on.device.add_rms_norm(F16, (17, 1024), &on.a, Some((residual, &sum)), None, &on.dst, None, 1e-5)
}

fn norm_add_norm(on: &On, from: usize) -> Result<()> {
    let (x_alpha, residual) = (on.b.range(from..from + 2048)?, View::from(&on.b));
    let (sum, x) = (on.device.alloc(17 * 2048)?, (&on.a, Some(x_alpha)));
    on.device.norm_add_rms_norm(F16, (17, 1024), x, (residual, &sum), None, &on.dst, None, 1e-5)
}

fn rotate(on: &On, from: usize) -> Result<()> {
    let (x, angles) = (plain(&[1, 2, 4, 64]), Layout::strided(&[4, 32], &[32, 1], from)?);
    let kind = sys::crk_rope_kind_t::CRK_ROPE_KIND_ROPE;
    on.device.rope(kind, F16, (&x, &on.a), (&angles, &on.b), (&angles, &on.b), &on.dst)
}

fn rotate_all(on: &On, from: usize) -> Result<()> {
    let (x, angles) = (plain(&[1, 2, 4, 64]), Layout::strided(&[4, 32], &[32, 1], from)?);
    let parts: Vec<_> = (0..3).map(|_| on.device.alloc(1024)).collect::<Result<_>>()?;
    let rows = [0, 1, 2].map(|i| (Strided::from((&x, &on.a)), Strided::from((&x, &parts[i]))));
    let kind = sys::crk_rope_kind_t::CRK_ROPE_KIND_ROPE;
    on.device.rope_qkv(kind, F16, rows, (&angles, &on.b).into(), (&angles, &on.b).into())
}

/// Rotary embeddings take packs of 16 bytes only where all addresses allow it.
#[test]
fn rotations() {
    over_the_double("rotations", || {
        check(&[
            ("packs", |on| rotate(on, 0), &["rope_f16_heads1"]),
            ("angles from element 1", |on| rotate(on, 1), &["rope_f16_pair"]),
            ("three tensors", |on| rotate_all(on, 0), &["rope_qkv_f16_vec"]),
            ("three tensors, angles from element 1", |on| rotate_all(on, 1), &["rope_qkv_f16_pair"]),
        ]);
    });
}

fn select(on: &On, src: &Layout, dim: usize) -> Result<()> {
    on.device.index_select(F32, (src, &on.a), (U32, &plain(&[5]), &on.b), dim, &on.dst)
}

/// Scatters along the dim before the last `after` elements.
fn scatter(on: &On, ids: usize, after: usize) -> Result<()> {
    let (few, many) = (plain(&[4, ids, after]), plain(&[4, 100, after]));
    on.device.scatter(F32, (U32, &few, &on.a), (&few, &on.b), 1, (&many, &on.dst))
}

#[test]
fn indexing() {
    over_the_double("indexing", || {
        check(&[
            ("rows of 64", |on| select(on, &plain(&[9, 64]), 0), &["index_select_b32_rows"]),
            ("rows of 3", |on| select(on, &plain(&[9, 3]), 0), &["index_select_b32_pieces"]),
            ("rows with gaps", |on| select(on, &strided(&[9, 64], &[68, 1]), 0), &["index_select_b32_rows"]),
            ("rows with odd gaps", |on| select(on, &strided(&[9, 64], &[65, 1]), 0), &["index_select_b32_pieces"]),
            (
                "rows from element 1",
                |on| select(on, &Layout::strided(&[9, 64], &[64, 1], 1)?, 0),
                &["index_select_b32_pieces"],
            ),
            (
                "matrices with odd gaps",
                |on| select(on, &strided(&[2, 9, 64], &[577, 64, 1]), 1),
                &["index_select_b32_pieces"],
            ),
            ("elements", |on| select(on, &plain(&[9, 64]), 1), &["index_select_b32_pieces"]),
            ("transposed", |on| select(on, &strided(&[9, 64], &[1, 9]), 0), &["gather_b32_nd"]),
            (
                "gather",
                |on| on.device.gather(F32, (&plain(&[9, 64]), &on.a), (U32, &plain(&[5, 64]), &on.b), 0, &on.dst),
                &["gather_b32_nd"],
            ),
            ("scatter, few of the last dim", |on| scatter(on, 64, 1), &["scatter_b32_columns"]),
            ("scatter, many of the last dim", |on| scatter(on, 65, 1), &["scatter_b32_ranges"]),
            ("scatter, some of another dim", |on| scatter(on, 64, 2), &["scatter_b32_columns"]),
            ("scatter, many of another dim", |on| scatter(on, 65, 2), &["scatter_b32_shared"]),
            ("scatter, many of many columns", |on| scatter(on, 65, 2600), &["scatter_b32_columns"]),
            (
                "scatter_add",
                |on| {
                    let (few, many) = (plain(&[5, 8]), plain(&[9, 8]));
                    on.device.scatter_add(F16, (U32, &few, &on.a), (&few, &on.b), 0, (&many, &on.dst))
                },
                &["scatter_add_f16_columns"],
            ),
            (
                "index_add",
                |on| {
                    let (few, many) = (plain(&[5, 8]), plain(&[9, 8]));
                    on.device.index_add(F16, (U32, &plain(&[5]), &on.a), (&few, &on.b), 0, (&many, &on.dst))
                },
                &["index_add_f16_ranges"],
            ),
        ]);
    });
}

/// A product with 40 rows of 512 quantized weights.
fn multiply(on: &On, columns: usize) -> Result<()> {
    on.device.mul_mat(Quant::Q4_K, F32, (40, 512), columns, &on.a, &on.b, &on.dst)
}

fn multiply_rows(on: &On, rows: usize, columns: usize) -> Result<()> {
    on.device.mul_mat(Quant::Q2_K, F16, (rows, 256), columns, &on.a, &on.b, &on.dst)
}

#[test]
fn quantized() {
    over_the_double("quantized", || {
        check(&[
            (
                "dequantize",
                |on| on.device.dequantize(Quant::Q4_0, F16, 4096, &on.a, &on.dst),
                &["dequantize_q4_0_f16_flat"],
            ),
            (
                "get_rows",
                |on| on.device.get_rows(Quant::Q6_K, (5, 256, &on.a), (3, &on.b), &on.dst),
                &["get_rows_q6_K_rows"],
            ),
            (
                "dequantize_mul_mat_vec",
                |on| on.device.dequantize_mul_mat_vec(Quant::Q8_0, F32, (5, 64, &on.a), &on.b, &on.dst),
                &["dequantize_mul_mat_vec_q8_0_f32_rows"],
            ),
            ("1 column", |on| multiply(on, 1), &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_K_x1"]),
            ("2 columns", |on| multiply(on, 2), &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_K_x2"]),
            ("3 columns", |on| multiply(on, 3), &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_K_x4"]),
            ("4 columns", |on| multiply(on, 4), &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_K_x4"]),
            ("5 columns", |on| multiply(on, 5), &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_K_x8"]),
            ("8 columns", |on| multiply(on, 8), &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_K_x8"]),
            (
                "a column in q8_1",
                |on| {
                    let (shape, x, dst) = ((40, 512), (&on.b, 16), (&on.dst, 40));
                    on.device.mul_mat_vec_q8_1(Quant::Q5_1, F16, shape, 1, &on.a, x, dst)
                },
                &["mul_mat_vec_q5_1_x1"],
            ),
            (
                "a group",
                |on| {
                    let products = [(40, &on.a, &on.dst, None)];
                    on.device.mul_mat_vec_grouped(Quant::Q5_1, F16, 512, 1, &products, (&on.b, 16))
                },
                &["mul_mat_vec_q5_1_x1"],
            ),
            ("a gate", |on| gate_blocks(on, 256, false), &["gate_mat_vec_q4_K"]),
            ("a gate of short rows, quantized", |on| gate_blocks(on, 768, true), &["gate_mat_vec_q4_K"]),
            (
                "a gate of long rows, quantized",
                |on| gate_blocks(on, 1024, true),
                &["gate_mat_vec_q4_K", "quantize_q8_1_f32_rows"],
            ),
            ("heads, halves of a head in pairs", |on| make_heads(on, RopeKind::Rope), &["rope_mat_vec_q4_K"]),
            ("heads, neighbours in pairs", |on| make_heads(on, RopeKind::RopeI), &["rope_i_mat_vec_q4_K"]),
            ("9 columns", |on| multiply(on, 9), &["quantize_mmq_DS4_f32", "mul_mat_q4_K_64x16_tiles"]),
            (
                "9 columns, long rows",
                |on| on.device.mul_mat(Quant::Q4_K, F16, (40, 2048), 9, &on.a, &on.b, &on.dst),
                &["quantize_mmq_DS4_f16", "mul_mat_q4_K_64x16_tiles", "matmul_f16_parts"],
            ),
            (
                "9 columns, rows of two parts that are not equal",
                |on| on.device.mul_mat(Quant::Q4_K, F16, (40, 768), 9, &on.a, &on.b, &on.dst),
                &["quantize_mmq_DS4_f16", "mul_mat_q4_K_64x16_tiles", "matmul_f16_parts"],
            ),
            ("16 columns", |on| multiply_rows(on, 300, 16), &["quantize_mmq_D2S6_f16", "mul_mat_q2_K_64x16_tiles"]),
            ("17 columns", |on| multiply_rows(on, 300, 17), &["quantize_mmq_D2S6_f16", "mul_mat_q2_K_64x32_tiles"]),
            ("40 columns", |on| multiply_rows(on, 130, 40), &["quantize_mmq_D2S6_f16", "mul_mat_q2_K_64x32_tiles"]),
            ("65 columns", |on| multiply_rows(on, 400, 65), &["quantize_mmq_D2S6_f16", "mul_mat_q2_K_128x64_tiles"]),
            ("129 columns", |on| multiply_rows(on, 300, 129), &["quantize_mmq_D2S6_f16", "mul_mat_q2_K_128x64_tiles"]),
            ("130 columns", |on| multiply_rows(on, 400, 130), &["quantize_mmq_D2S6_f16", "mul_mat_q2_K_128x128_tiles"]),
        ]);
    });
}

/// With waves of 64 lanes there are no kernels for wide tiles.
#[test]
fn tiles_of_wide_waves() {
    over_the_double_of("tiles_of_wide_waves", "gfx942", || {
        check(&[(
            "130 columns",
            |on| multiply_rows(on, 400, 130),
            &["quantize_mmq_D2S6_f16", "mul_mat_q2_K_128x64_tiles"],
        )]);
    });
}

/// A product with this many rows and columns. 8192 rows are more than 8 compute units take at once. The number of
/// blocks then depends on the architecture's registers and on the shared memory that the code object states.
fn multiply_many(on: &On, quant: Quant, (rows, columns): (usize, usize)) -> Result<()> {
    on.device.mul_mat(quant, F32, (rows, 64), columns, &on.a, &on.b, &on.dst)
}

#[test]
fn blocks_of_many_rows() {
    over_the_double_of("blocks_of_many_rows", "gfx942", || {
        check(&[
            (
                "1 column, eight blocks a unit",
                |on| multiply_many(on, Quant::Q4_0, (8192, 1)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x1 64"],
            ),
            (
                "2 columns",
                |on| multiply_many(on, Quant::Q4_0, (8192, 2)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x2 64"],
            ),
            (
                "4 columns",
                |on| multiply_many(on, Quant::Q4_0, (8192, 4)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x4 40"],
            ),
            (
                "shared memory for six",
                |on| multiply_many(on, Quant::Q8_0, (8192, 1)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q8_0_x1 48"],
            ),
            (
                "28 rows, not 26 or 27, a block",
                |on| multiply_many(on, Quant::Q4_0, (1700, 1)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x1 61"],
            ),
            (
                "20 a block would leave too few",
                |on| multiply_many(on, Quant::Q4_0, (1100, 1)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x1 64"],
            ),
            (
                "20 a block leave just enough",
                |on| multiply_many(on, Quant::Q4_0, (1120, 1)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x1 56"],
            ),
            (
                "two columns are not dealt so",
                |on| multiply_many(on, Quant::Q4_0, (1700, 2)),
                &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x2 64"],
            ),
            ("40 rows", |on| multiply(on, 1), &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_K_x1 2"]),
        ]);
    });
}

/// `topk` products for as many tokens. There is one expert.
fn mix(on: &On, rows: usize, k: usize, topk: usize) -> Result<()> {
    let (device, x, ids, dst) = (on.device.raw(), on.b.raw_view(), on.a.raw_view(), on.dst.raw_view());
    let quant = Quant::Q4_0;
    // SAFETY: live memory, more than is asked for.
    let status = unsafe {
        sys::crk_indexed_moe(device, quant, F32, 1, rows, k, 1, topk, 1, ids.into(), x.into(), ids.into(), dst)
    };
    assert_eq!(status, sys::crk_status_t::CRK_OK);
    Ok(())
}

#[test]
fn mixtures() {
    over_the_double_of("mixtures", "gfx942", || {
        check(&[
            ("8 products share a GPU", |on| mix(on, 2048, 32, 8), &["quantize_q8_1_f32_rows", "moe_vec_q4_0_1 64"]),
            ("28 rows a block", |on| mix(on, 1700, 32, 1), &["quantize_q8_1_f32_rows", "moe_vec_q4_0_1 61"]),
            ("10 do not divide it", |on| mix(on, 2048, 32, 10), &["quantize_q8_1_f32_rows", "moe_vec_q4_0_1 60"]),
        ]);
    });
}

#[test]
fn mixtures_of_many() {
    over_the_double_of("mixtures_of_many", "gfx942", || {
        check(&[
            ("more than it holds", |on| mix(on, 2048, 32, 100), &["quantize_q8_1_f32_rows", "moe_vec_q4_0_1 100"]),
            ("more than a grid", |on| mix(on, 1, 32, 65536), &["quantize_q8_1_f32_rows", "moe_vec_q4_0_4"]),
            ("of nothing", |on| mix(on, 5, 0, 2), &["moe_vec_q4_0_4"]),
        ]);
    });
}

#[test]
fn blocks_of_few_registers() {
    over_the_double_of("blocks_of_few_registers", "gfx908", || {
        check(&[(
            "1 column",
            |on| multiply_many(on, Quant::Q4_0, (8192, 1)),
            &["quantize_q8_1_f32_rows", "mul_mat_vec_q4_0_x1 32"],
        )]);
    });
}

/// A product of m x k and k x n.
fn product(on: &On, (m, k, n): (usize, usize, usize)) -> Result<()> {
    on.device.matmul(F32, (&plain(&[m, k]), &on.a), (&plain(&[k, n]), &on.b), &on.dst)
}

/// A product with a right matrix that is contiguous along k.
fn by_transposed(on: &On, (m, k, n): (usize, usize, usize)) -> Result<()> {
    on.device.matmul(F32, (&plain(&[m, k]), &on.a), (&strided(&[k, n], &[1, k]), &on.b), &on.dst)
}

/// A row times weights of 100 rows and more, one after another in memory.
/// A gate of 64 rows of k elements. With `quantizes`, the launcher also quantizes its result.
fn gate_blocks(on: &On, k: usize, quantizes: bool) -> Result<()> {
    let blocks = on.device.alloc(4096)?;
    on.device.mul_mat_vec_gate(
        GateOp::Silu,
        Quant::Q4_K,
        F32,
        (64, k),
        1,
        [&on.a, &on.a],
        &on.b,
        &on.dst,
        quantizes.then_some(&blocks),
    )
}

/// Two heads of 64 elements, with weights of 256 columns.
fn make_heads(on: &On, kind: RopeKind) -> Result<()> {
    on.device.mul_mat_vec_rope(Quant::Q4_K, kind, (64, 256), &[heads(on, None)], &on.b, [&on.b, &on.b].map(View::from))
}

fn make_dense_heads(on: &On, k: usize) -> Result<()> {
    let layout = plain(&[128, k]);
    let parts = [heads(on, Some(&layout))];
    on.device.matmul_rope(F16, RopeKind::Rope, (64, k), &on.b, &parts, [&on.b, &on.b].map(View::from))
}

fn heads<'a>(on: &'a On, layout: Option<&'a Layout>) -> HeadWeights<'a> {
    let (weights, dst) = ((&on.a).into(), ((&on.dst).into(), 64));
    HeadWeights { heads: 2, layout, weights, bias: None, dst, rotates: true }
}

fn multiply_weights(on: &On, k: usize, rows: &[usize]) -> Result<()> {
    let layouts: Vec<Layout> = rows.iter().map(|&n| plain(&[n, k])).collect();
    let mut weights = Vec::new();
    for (i, layout) in layouts.iter().enumerate() {
        let dst = on.dst.range(4096 * i..4096 * (i + 1))?;
        weights.push((Strided { layout, view: (&on.b).into() }, dst, None));
    }
    on.device.matmul_grouped(F16, k, &on.a, &weights)
}

fn multiply_gate(on: &On, dtype: DType, k: usize) -> Result<()> {
    let layout = plain(&[400, k]);
    let weights = Strided { layout: &layout, view: (&on.b).into() };
    on.device.matmul_gate(sys::crk_gate_op_t::CRK_GATE_SILU, dtype, k, &on.a, weights, weights, &on.dst)
}

/// Attention of 65 f16 queries and keys, or of other numbers, in 4 heads of 2, twice.
struct Attending<'a> {
    on: &'a On,
    dtype: DType,
    queries: usize,
    keys: usize,
    d: usize,
    dv: usize,
}

impl<'a> Attending<'a> {
    fn of(on: &'a On, dtype: DType, tokens: usize, d: usize, dv: usize) -> Attending<'a> {
        Attending { on, dtype, queries: tokens, keys: tokens, d, dv }
    }

    fn run(&self, what: &str) -> Result<()> {
        let Attending { on, queries, keys, d, dv, .. } = *self;
        let (q, k, v) = (plain(&[2, 4, queries, d]), plain(&[2, 2, keys, d]), plain(&[2, 2, keys, dv]));
        let rows = [queries * 4 * dv, dv, 4 * dv, 1];
        let dst = if what == "columns" { strided(&[2, 4, queries, dv], &rows) } else { plain(&[2, 4, queries, dv]) };
        let columns = on.device.alloc(Device::columns_bytes(2 * queries, 4 * dv))?;
        let (heads, mask) = (plain(&[2, 4]), strided(&[2, 4, queries, keys], &[0, 0, keys, 1]));
        let ranges = plain(&[2, 1, 2]);
        let call = Attention::new(self.dtype, (&q, &on.a), (&k, &on.a), (&v, &on.a), (&dst, &on.dst), 0.5);
        on.device.attention(&match what {
            "a window" => Attention { causal: true, left: Some(3), ..call },
            "a cap" => Attention { softcap: Some(20.0), ..call },
            "a negative scale" => Attention { scale: -0.5, ..call },
            "a scale of 0" => Attention { scale: 0.0, ..call },
            "slopes" => Attention { slopes: Some((&heads, &on.b).into()), ..call },
            "a mask" => Attention { mask: Some((U8, (&mask, &on.b).into())), ..call },
            "prefixes" => Attention { prefixes: Some((&ranges, &on.b).into()), ..call },
            "columns" => Attention { columns: Some((&columns).into()), ..call },
            _ => call,
        })
    }
}

fn attend(on: &On, dtype: DType, tokens: usize, d: usize, dv: usize) -> Result<()> {
    Attending::of(on, dtype, tokens, d, dv).run("")
}

fn attend_few(on: &On, queries: usize, keys: usize, what: &str) -> Result<()> {
    Attending { queries, ..Attending::of(on, F16, keys, 64, 64) }.run(what)
}

fn attend_with(on: &On, what: &str) -> Result<()> {
    Attending::of(on, F16, 65, 64, 64).run(what)
}

#[test]
fn attention() {
    over_the_double("attention", || {
        check(&[
            ("as many keys", |on| attend(on, F16, 300, 64, 64), &["attention_f16_64_tiles 24"]),
            ("no tokens", |on| attend(on, F16, 0, 64, 64), &[]),
            (
                "no keys",
                |on| Attending { keys: 0, ..Attending::of(on, F16, 300, 64, 64) }.run(""),
                &["attention_f16_64_tiles 24"],
            ),
            ("a query", |on| attend_few(on, 1, 300, ""), &["attention_f16_64_split 8"]),
            ("a query of 256 keys", |on| attend_few(on, 1, 256, ""), &["attention_f16_64_split 4"]),
            ("a query of no keys", |on| attend_few(on, 1, 0, ""), &["attention_f16_64_split 4"]),
            (
                "a query, a cap",
                |on| attend_few(on, 1, 300, "a cap"),
                &["attention_f16_64_split_general 8", "attention_f16_combine 8"],
            ),
            ("a query, columns", |on| attend_few(on, 1, 300, "columns"), &["attention_f16_64_split 8"]),
            (
                "a query, columns of 72",
                |on| Attending { queries: 1, ..Attending::of(on, F16, 300, 64, 72) }.run("columns"),
                &["attention_f16_96_split 8", "quantize_q8_1_f16_rows 2"],
            ),
            ("8 queries", |on| attend_few(on, 8, 300, ""), &["attention_f16_64_split 16"]),
            ("9 queries", |on| attend_few(on, 9, 300, ""), &["attention_f16_64_tiles64 8"]),
            (
                "9 queries of many keys",
                |on| attend_few(on, 9, 1500, ""),
                &["attention_f16_64_tiles64 16", "attention_f16_combine 72"],
            ),
            ("128 queries", |on| attend(on, F32, 128, 8, 8), &["attention_f32_64_tiles64 16"]),
            ("300 queries", |on| attend(on, F32, 300, 8, 8), &["attention_f32_64_tiles 24"]),
            ("d of 72", |on| attend(on, F16, 65, 72, 64), &["attention_f16_96_tiles64 16"]),
            ("dv of 72", |on| attend(on, F16, 65, 64, 72), &["attention_f16_96_tiles64 16"]),
            ("128 columns", |on| attend(on, DType::BF16, 65, 128, 128), &["attention_bf16_128_tiles64 16"]),
            ("136 columns", |on| attend(on, F16, 65, 136, 128), &["attention_f16_192_tiles64 16"]),
            ("200 columns", |on| attend(on, F16, 65, 200, 200), &["attention_f16_256_tiles64 16"]),
            ("264 columns", |on| attend(on, F16, 64, 264, 8), &["attention_f16_512_tiles 8"]),
            ("200 columns, f32", |on| attend(on, F32, 65, 200, 200), &["attention_f32_256_tiles 8"]),
            ("200 columns, 300 queries", |on| attend(on, F16, 300, 200, 200), &["attention_f16_256_tiles 24"]),
            ("a query of 257 keys", |on| attend_few(on, 1, 257, ""), &["attention_f16_64_split 8"]),
            (
                "a query of many keys, f32",
                |on| Attending { queries: 1, ..Attending::of(on, F32, 4000, 64, 64) }.run(""),
                &["attention_f32_64_split 8"],
            ),
            ("a window", |on| attend_with(on, "a window"), &["attention_f16_64_tiles64 16"]),
            ("a cap", |on| attend_with(on, "a cap"), &["attention_f16_64_tiles64_general 16"]),
            ("a negative scale", |on| attend_with(on, "a negative scale"), &["attention_f16_64_tiles64_general 16"]),
            ("a scale of 0", |on| attend_with(on, "a scale of 0"), &["attention_f16_64_tiles64_general 16"]),
            ("slopes", |on| attend_with(on, "slopes"), &["attention_f16_64_tiles64_general 16"]),
            ("a mask", |on| attend_with(on, "a mask"), &["attention_f16_64_tiles64_general 16"]),
            ("prefixes", |on| attend_with(on, "prefixes"), &["attention_f16_64_tiles64_general 16"]),
        ]);
    });
}

/// A wave of 64 lanes has too few registers for the sums of 128 wide queries.
#[test]
fn attention_of_wide_waves() {
    over_the_double_of("attention_of_wide_waves", "gfx942", || {
        check(&[
            ("128 columns", |on| attend(on, F16, 300, 128, 128), &["attention_f16_128_tiles 24"]),
            ("136 columns", |on| attend(on, F16, 300, 136, 128), &["attention_f16_192_tiles64 40"]),
            ("256 columns", |on| attend(on, DType::BF16, 300, 8, 256), &["attention_bf16_256_tiles64 40"]),
            ("256 columns, f32", |on| attend(on, F32, 300, 256, 256), &["attention_f32_256_tiles 24"]),
            ("264 columns", |on| attend(on, F16, 300, 264, 8), &["attention_f16_512_tiles 40"]),
        ]);
    });
}

#[test]
fn products() {
    over_the_double("products", || {
        check(&[
            ("a row", |on| product(on, (1, 64, 64)), &["matmul_f32_columns_vec"]),
            ("a row, k along memory", |on| by_transposed(on, (1, 64, 64)), &["matmul_f32_rows_vec"]),
            ("a row, long k", |on| by_transposed(on, (1, 256, 64)), &["matmul_f32_wide_vec"]),
            ("a row, no whole pieces of k", |on| by_transposed(on, (1, 257, 64)), &["matmul_f32_rows_vec"]),
            ("a column", |on| product(on, (64, 64, 1)), &["matmul_f32_rows_vec"]),
            ("a column, long k", |on| product(on, (64, 256, 1)), &["matmul_f32_wide_vec"]),
            ("a row, three matrices", |on| multiply_weights(on, 512, &[100, 20, 20]), &["matmul_f16_wide_vec"]),
            (
                "a row, two matrices, no whole pieces of k",
                |on| multiply_weights(on, 244, &[100, 20]),
                &["matmul_f16_rows_vec", "matmul_f16_rows_vec"],
            ),
            ("a row, two matrices with short rows", |on| multiply_weights(on, 8, &[100, 20]), &["matmul_f16_wide_vec"]),
            ("a row, a matrix with short rows", |on| multiply_weights(on, 248, &[100]), &["matmul_f16_rows_vec"]),
            (
                "a row, a matrix with rows of a piece per lane",
                |on| multiply_weights(on, 256, &[100]),
                &["matmul_f16_wide_vec"],
            ),
            ("a row, a gate", |on| multiply_gate(on, F16, 512), &["matmul_gate_silu_f16"]),
            ("a row, heads", |on| make_dense_heads(on, 512), &["matmul_f16_wide_rope"]),
            (
                "a row, heads, no whole pieces of k",
                |on| make_dense_heads(on, 244),
                &["matmul_f16_rows_vec", "rope_qkv_f16_vec"],
            ),
            (
                "a row, a gate in f64",
                |on| multiply_gate(on, DType::F64, 512),
                &["matmul_f64_wide_vec", "matmul_f64_wide_vec", "gate_silu_f64_vec"],
            ),
            ("few rows", |on| product(on, (16, 64, 512)), &["matmul_f32_16x64_tiles"]),
            ("few columns", |on| product(on, (512, 64, 16)), &["matmul_f32_16x64_tiles"]),
            ("small", |on| product(on, (32, 64, 64)), &["matmul_f32_32x32_tiles"]),
            ("small, long k", |on| product(on, (32, 4096, 32)), &["matmul_f32_32x32_tiles", "matmul_f32_parts"]),
            ("medium", |on| product(on, (200, 32, 200)), &["matmul_f32_64x64_tiles"]),
            ("large", |on| product(on, (400, 16, 400)), &["matmul_f32_128x128_tiles"]),
            ("large, but few tiles", |on| product(on, (130, 16, 130)), &["matmul_f32_64x64_tiles"]),
        ]);
    });
}

/// A convolution of (b, c, h, w) images with `outputs` windows of `window`, padded by half of it.
fn convolve(on: &On, dtype: DType, [b, c, h, w]: [usize; 4], outputs: usize, window: usize, last: bool) -> Result<()> {
    let layout = |[b, c, h, w]: [usize; 4]| {
        let dims = [b, c, h, w];
        if last { strided(&dims, &[h * w * c, 1, w * c, c]) } else { plain(&dims) }
    };
    let conv = Conv { padding: window / 2, ..Conv::default() };
    let (images, kernel) = (layout([b, c, h, w]), layout([outputs, c, window, window]));
    on.device.conv2d(dtype, (&images, &on.a), (&kernel, &on.b), &on.dst, conv)
}

/// A convolution with a window for each of the channels.
fn depthwise(on: &On, channels: usize, size: usize, window: usize, stride: usize) -> Result<()> {
    let conv = Conv { padding: window / 2, stride, ..Conv::default() };
    convolve_groups(on, channels, [1, channels, size, size], channels, conv)
}

/// A convolution in groups: 3 x 3 if it is padded, else 1 x 1.
fn convolve_groups(on: &On, groups: usize, [b, c, h, w]: [usize; 4], outputs: usize, conv: Conv) -> Result<()> {
    let window = 2 * conv.padding + 1;
    let (images, kernel) = (plain(&[b, c, h, w]), plain(&[outputs, c / groups, window, window]));
    on.device.conv2d(F16, (&images, &on.a), (&kernel, &on.b), &on.dst, Conv { groups, ..conv })
}

/// A transposed convolution of (1, channels, size, size) images with stride 2.
fn convolve_transposed(on: &On, channels: usize, size: usize, window: usize, padding: usize) -> Result<()> {
    let conv = Conv { stride: 2, padding, ..Conv::default() };
    let (images, kernel) = (plain(&[1, channels, size, size]), plain(&[channels, 64, window, window]));
    on.device.conv_transpose2d(F16, (&images, &on.a), (&kernel, &on.b), &on.dst, conv)
}

#[test]
fn convolutions() {
    over_the_double("convolutions", || {
        check(&[
            (
                "16 pairs of channels",
                |on| convolve(on, F16, [1, 2, 16, 16], 8, 3, false),
                &["conv_b16_pixels", "conv_f16_64x64_cores 4"],
            ),
            ("few channels in f32", |on| convolve(on, F32, [1, 3, 16, 16], 20, 3, false), &["conv_f32_direct"]),
            (
                "f32",
                |on| convolve(on, F32, [1, 64, 8, 8], 64, 3, false),
                &["im2col_b32_tile", "matmul_f32_32x32_tiles", "matmul_f32_parts"],
            ),
            ("1 x 1 in f32", |on| convolve(on, F32, [2, 64, 8, 8], 64, 1, false), &["matmul_f32_32x32_tiles"]),
            // A block computes 64 runs of four rows.
            ("depthwise", |on| depthwise(on, 6, 65, 3, 1), &["conv_f16_depthwise_3x3_stride1 108"]),
            ("depthwise with stride 2", |on| depthwise(on, 6, 16, 7, 2), &["conv_f16_depthwise_7x7_stride2 6"]),
            ("depthwise of another size", |on| depthwise(on, 6, 16, 11, 1), &["conv_f16_groups 6"]),
            (
                "groups",
                |on| convolve_groups(on, 4, [1, 64, 16, 16], 64, Conv { padding: 1, ..Conv::default() }),
                &["conv_b16_pixels", "conv_f16_16x128_cores 8"],
            ),
            ("15 pairs", |on| convolve(on, F16, [1, 3, 16, 16], 5, 3, false), &["conv_f16_direct"]),
            ("16 pairs, a window of 2 x 2", |on| convolve(on, F16, [1, 2, 16, 16], 8, 2, false), &["conv_f16_direct"]),
            ("16 pairs in f32", |on| convolve(on, F32, [1, 2, 16, 16], 8, 3, false), &["conv_f32_direct"]),
            (
                "16 outputs of a channel",
                |on| convolve_groups(on, 2, [1, 2, 16, 16], 32, Conv { padding: 1, ..Conv::default() }),
                &["conv_f16_depthwise_3x3_stride1 32"],
            ),
            (
                "groups of 4 channels",
                |on| convolve_groups(on, 32, [1, 128, 16, 16], 128, Conv { padding: 1, ..Conv::default() }),
                &["conv_b16_pixels", "conv_f16_16x128_cores 64"],
            ),
            (
                "groups of 1 x 1",
                |on| convolve_groups(on, 4, [1, 64, 16, 16], 64, Conv::default()),
                &["matmul_f16_16x64_tiles 16"],
            ),
            (
                "large",
                |on| convolve(on, F16, [1, 16, 64, 64], 128, 3, false),
                &["conv_b16_pixels", "conv_f16_128x128_cores 32"],
            ),
            ("channels last", |on| convolve(on, F16, [1, 16, 64, 64], 128, 3, true), &["conv_f16_128x128_cores 32"]),
            (
                "channels last, no whole pieces",
                |on| convolve(on, F16, [1, 12, 64, 64], 128, 3, true),
                &["conv_b16_pixels", "conv_f16_128x128_cores 32"],
            ),
            (
                "a tall tile per unit",
                |on| convolve(on, F16, [1, 16, 4, 128], 320, 3, true),
                &["conv_f16_160x128_cores 8"],
            ),
            (
                "a tall tile per unit, transposed",
                |on| {
                    let (images, kernel) = (plain(&[1, 16, 4, 126]), plain(&[16, 320, 1, 3]));
                    let operands = ((&images, &on.a), (&kernel, &on.b));
                    on.device.conv_transpose2d(F16, operands.0, operands.1, &on.dst, Conv::default())
                },
                &["conv_b16_pixels", "conv_transpose_f16_128x64_cores 24"],
            ),
            ("medium", |on| convolve(on, F16, [1, 16, 64, 64], 64, 3, true), &["conv_f16_64x64_cores 64"]),
            (
                "few channels of dst",
                |on| convolve(on, F16, [1, 16, 64, 64], 16, 3, true),
                &["conv_f16_16x128_cores 32"],
            ),
            ("a few more", |on| convolve(on, F16, [1, 16, 64, 64], 17, 3, true), &["conv_f16_64x64_cores 64"]),
            (
                "few outputs",
                |on| convolve(on, F16, [1, 512, 8, 8], 64, 3, true),
                &["conv_f16_64x64_cores 8", "matmul_f16_parts"],
            ),
            ("1 x 1", |on| convolve(on, F16, [2, 64, 8, 8], 64, 1, false), &["matmul_f16_32x32_tiles"]),
            ("1 x 1, channels last", |on| convolve(on, F16, [2, 64, 8, 8], 64, 1, true), &["matmul_f16_32x32_tiles"]),
            (
                "1 x 1, rows that are not aligned",
                |on| convolve(on, F16, [1, 64, 7, 9], 64, 1, false),
                &["conv_b16_pixels", "conv_f16_64x64_cores 1"],
            ),
            (
                "transposed, four phases",
                |on| convolve_transposed(on, 16, 8, 2, 0),
                &["conv_b16_pixels", "conv_transpose_f16_64x64_cores 4"],
            ),
            (
                "transposed, one output",
                |on| convolve_transposed(on, 16, 1, 1, 0),
                &["conv_b16_pixels", "conv_transpose_f16_64x64_cores 1"],
            ),
            (
                "transposed, fewer outputs than the stride",
                |on| convolve_transposed(on, 16, 2, 1, 1),
                &["conv_transpose_f16_direct"],
            ),
        ]);
    });
}

#[test]
fn convolutions_on_float_cores() {
    over_the_double_of("convolutions_on_float_cores", "gfx942", || {
        check(&[
            ("few channels", |on| convolve(on, F32, [1, 3, 16, 16], 20, 3, false), &["conv_f32_direct"]),
            (
                "f32",
                |on| convolve(on, F32, [1, 64, 8, 8], 64, 3, false),
                &["conv_b32_pixels", "conv_f32_64x64_cores 2", "matmul_f32_parts"],
            ),
            ("channels last", |on| convolve(on, F32, [1, 16, 64, 64], 128, 3, true), &["conv_f32_128x128_cores 32"]),
            (
                "a tall tile per unit",
                |on| convolve(on, F32, [1, 16, 8, 128], 320, 3, true),
                &["conv_f32_128x128_cores 24"],
            ),
            (
                "f64",
                |on| convolve(on, DType::F64, [1, 64, 8, 8], 64, 3, false),
                &["im2col_b64_tile", "matmul_f64_32x32_tiles", "matmul_f64_parts"],
            ),
        ]);
    });
}

/// A call, the kernel that it launches, and the number of blocks on each of GRID_ARCHITECTURES.
type Grid = (fn(&On) -> Result<()>, &'static str, [u32; GRID_ARCHITECTURES.len()]);
const GRID_ARCHITECTURES: [&str; 5] = ["gfx1100", "gfx1201", "gfx1030", "gfx90a", "gfx942"];

/// For each launcher that cuts its work by the device's size: a shape for which 8 units choose another grid than 16.
const GRIDS: &[Grid] = &[
    (|on| sum(on, &[512, 2048], &[0, 1]), "fast_sum_f32_rows", [64; 5]),
    (|on| sum(on, &[1024, 32], &[1]), "fast_sum_f32_even", [8; 5]),
    (|on| sum(on, &[72, 1024], &[1]), "fast_sum_f32_even", [9; 5]),
    (
        |on| on.device.rms_norm(F16, &plain(&[400, 2048]), &on.a, Some((&on.b).into()), &on.dst, 1e-5),
        "rmsnorm_f16_even",
        [200, 200, 200, 100, 100], // several rows per block, with 128 threads or 256
    ),
    (|on| add(on, &plain(&[16384, 64]), &strided(&[16384, 64], &[0, 1])), "badd_f16_row", [32; 5]),
    (
        |on| {
            let (ids, src, dst) = (plain(&[16384]), plain(&[16384, 64]), plain(&[4096, 64]));
            on.device.index_add(F32, (U32, &ids, &on.a), (&src, &on.b), 0, (&dst, &on.dst))
        },
        "index_add_f32_ranges",
        [128; 5],
    ),
    (
        |on| {
            let (x, angles) = (plain(&[1, 2, 512, 64]), plain(&[512, 32]));
            let kind = sys::crk_rope_kind_t::CRK_ROPE_KIND_ROPE;
            on.device.rope(kind, F16, (&x, &on.a), (&angles, &on.b), (&angles, &on.b), &on.dst)
        },
        "rope_f16_heads2",
        [8; 5],
    ),
    (
        |on| {
            let (x, angles) = (plain(&[1, 4, 256, 64]), plain(&[256, 32]));
            let kind = sys::crk_rope_kind_t::CRK_ROPE_KIND_ROPE_I;
            on.device.rope(kind, F32, (&x, &on.a), (&angles, &on.b), (&angles, &on.b), &on.dst)
        },
        "rope_i_f32_heads4",
        [8; 5],
    ),
    (|on| on.device.get_rows(Quant::Q8_0, (8, 4096, &on.a), (40, &on.b), &on.dst), "get_rows_q8_0_rows", [40; 5]),
    (|on| on.device.argsort(F32, &plain(&[512, 64]), &on.a, true, &on.dst, None), "argsort_many_f32", [16; 5]),
    (|on| product(on, (400, 16, 250)), "matmul_f32_128x128_tiles", [8; 5]),
    (|on| product(on, (32, 4096, 32)), "matmul_f32_32x32_tiles", [8; 5]),
    (|on| by_transposed(on, (1, 4097, 100)), "matmul_f32_rows_vec", [25; 5]),
    (|on| by_transposed(on, (1, 4096, 100)), "matmul_f32_wide_vec", [25, 25, 25, 50, 50]),
    (|on| multiply_weights(on, 1024, &[700, 100, 101]), "matmul_f16_wide_vec", [226; 5]),
    (|on| multiply_gate(on, F16, 4096), "matmul_gate_silu_f16", [80, 80, 58, 100, 100]),
    (|on| multiply_rows(on, 256, 65), "mul_mat_q2_K_128x64_tiles", [4; 5]),
    // Limited by registers. An architecture has 1536, 1024 or 512 per lane; a wave of 32 lanes takes 128 or 192, and
    // one of 64 half of that.
    (|on| multiply_many(on, Quant::Q4_0, (8192, 1)), "mul_mat_vec_q4_0_x1", [79, 79, 64, 64, 64]),
    (|on| multiply_many(on, Quant::Q4_0, (8192, 4)), "mul_mat_vec_q4_0_x4", [64, 64, 40, 40, 40]),
    (|on| mix(on, 2048, 32, 8), "moe_vec_q4_0_1", [80, 80, 64, 64, 64]),
    // Limited by shared memory: 9728 bytes per block, of 128 KiB or 64 KiB.
    (|on| multiply_many(on, Quant::Q8_0, (8192, 1)), "mul_mat_vec_q8_0_x1", [79, 79, 64, 48, 48]),
];

/// Checks GRIDS on the architecture with this index.
fn check_grids(architecture: usize) {
    let device = Device::open(Backend::Hip, 0).expect("the double's GPU");
    let zeros = || device.upload(&vec![0u8; 4 << 20]).expect("device memory");
    let on = On { a: zeros(), b: zeros(), dst: zeros(), device: device.clone() };
    let controls = Controls::get();
    let mut wrong = Vec::new();
    for (call, kernel, blocks) in GRIDS {
        controls.launches();
        call(&on).unwrap_or_else(|error| panic!("{kernel}: {error}"));
        let (launched, expected) = (controls.launches(), format!("{kernel} {}", blocks[architecture]));
        if !launched.contains(&expected) {
            wrong.push(format!("launched {launched:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! grids {
    ($($test:ident: $architecture:literal, $wgp_mode:literal;)*) => {$(
        #[test]
        fn $test() {
            let architecture = GRID_ARCHITECTURES[$architecture];
            with_wgp_mode(stringify!($test), architecture, $wgp_mode, || check_grids($architecture));
        }
    )*};
}

// RDNA's grids are the same whether HIP counts workgroup processors or compute units.
grids! {
    grids_of_gfx1100: 0, "1";
    grids_of_gfx1100_by_compute_units: 0, "0";
    grids_of_gfx1201: 1, "1";
    grids_of_gfx1201_by_compute_units: 1, "0";
    grids_of_gfx1030: 2, "1";
    grids_of_gfx1030_by_compute_units: 2, "0";
    grids_of_gfx90a: 3, "1";
    grids_of_gfx942: 4, "1";
}
