//! Quantized weights: dequantized, multiplied by vectors, multiplied by matrices.
use super::agreement::Agreement;
use super::by_name::{Argument, Kernel};
use super::{Call, Case, F32, Roof, Size, Source, U8, U32, Values};
use candle_rocm_sys::{Result, sys};
use std::ffi::CString;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Dequantizes to f32.
    Dequantize(Format, usize),
    /// Multiplies by activations in q8_1 blocks.
    MatVec(Format, Product),
    /// Multiplies by activations in f32, which are quantized first.
    MatMat(Format, Product),
    /// Multiplies one column by each of this many experts' matrices; each expert is used once.
    Experts(Format, Product, usize),
}

/// A product of `rows` rows of `k` weights and `columns` columns of activations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    rows: usize,
    k: usize,
    columns: usize,
}

/// A format, and Candle's launch geometry for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Format {
    name: &'static str,
    /// The threads per block of dequantize_block_*, and the unit in which its third argument counts elements; 0 if it
    /// has no third argument.
    threads: usize,
    counts: usize,
    /// The columns and rows of a tile of mul_mat_*.
    tile: (usize, usize),
}

const FORMATS: [Format; 10] = [
    format("q4_0", 32, 32, (64, 128)),
    format("q4_1", 32, 32, (64, 128)),
    format("q5_0", 256, 1, (128, 64)),
    format("q5_1", 256, 1, (128, 64)),
    format("q8_0", 32, 32, (128, 64)),
    format("q2_K", 64, 0, (64, 128)),
    format("q3_K", 64, 0, (128, 128)),
    format("q4_K", 32, 0, (64, 128)),
    format("q5_K", 64, 0, (64, 128)),
    format("q6_K", 64, 0, (64, 64)),
];

const fn format(name: &'static str, threads: usize, counts: usize, tile: (usize, usize)) -> Format {
    Format { name, threads, counts, tile }
}

impl Format {
    fn quant(self) -> sys::crk_quant_t {
        let (name, mut quant) = (CString::new(self.name).expect("no NUL"), sys::crk_quant_t(0));
        // SAFETY: a string and a place for the result.
        let status = unsafe { sys::crk_quant_from_name(name.as_ptr(), &mut quant) };
        assert_eq!(status, sys::crk_status_t::CRK_OK, "no format {}", self.name);
        quant
    }

    fn bytes(self, elements: usize) -> usize {
        let quant = self.quant();
        // SAFETY: these functions only compute values.
        unsafe { elements / sys::crk_quant_block_elements(quant) * sys::crk_quant_block_bytes(quant) }
    }

    fn blocks(self, elements: usize) -> Source {
        Source::plain(U8, &[self.bytes(elements)]).of(Values::Blocks)
    }
}

/// The bytes of a q8_1 block of 32 elements.
const Q8_1: usize = 36;

impl Op {
    pub(super) fn call<'a>(self) -> Result<Call<'a>> {
        // SAFETY, for each call: the caller of [`super::Prepared::launch`] promises valid memory.
        Ok(match self {
            Op::Dequantize(format, numel) => {
                let quant = format.quant();
                Box::new(move |device, x, dst| unsafe { sys::crk_dequantize(device, quant, F32, numel, x[0], dst) })
            }
            Op::MatVec(format, Product { rows, k, columns }) => {
                let quant = format.quant();
                Box::new(move |device, x, dst| unsafe {
                    sys::crk_mul_mat_vec_q8_1(device, quant, F32, rows, k, columns, x[0], x[1], k / 32, dst, rows)
                })
            }
            Op::MatMat(format, Product { rows, k, columns }) => {
                let quant = format.quant();
                Box::new(move |device, x, dst| unsafe {
                    sys::crk_mul_mat(device, quant, F32, rows, k, columns, x[0], x[1], dst)
                })
            }
            Op::Experts(format, Product { rows, k, .. }, n) => {
                let quant = format.quant();
                Box::new(move |device, x, dst| unsafe {
                    sys::crk_indexed_moe(device, quant, F32, n, rows, k, 1, n, 1, x[0], x[1], x[2], dst)
                })
            }
        })
    }

    pub(super) fn by_name(self) -> Option<Vec<Kernel>> {
        use Argument::{Dst, Scratch, Source, U32};
        Some(match self {
            Op::Dequantize(format, numel) => {
                let count = (format.counts > 0).then(|| U32(numel / format.counts));
                let args = [Source(0), Dst].into_iter().chain(count).collect();
                let per_block = if format.threads == 256 { 512 } else { 256 };
                let name = format!("dequantize_block_{}_f32", format.name);
                vec![Kernel::with("quantized", name, [numel.div_ceil(per_block), 1, 1], [format.threads, 1, 1], args)]
            }
            Op::MatVec(format, Product { rows, k, columns }) => {
                let grid = [if columns == 1 { rows } else { rows.div_ceil(2) }, 1, 1];
                let block = [32, if columns <= 4 { 4 } else { 2 }, 1];
                let args = vec![Source(0), Source(1), Dst, U32(k), U32(rows), U32(k), U32(rows)];
                let name = format!("mul_mat_vec_{}_q8_1_cuda{columns}", format.name);
                vec![Kernel::with("quantized", name, grid, block, args)]
            }
            Op::MatMat(format, Product { rows, k, columns }) => {
                let (quantize, padded) = quantize(k, columns);
                let (x, y) = format.tile;
                let args = vec![Source(0), Scratch, Dst, U32(k), U32(rows), U32(columns), U32(padded), U32(rows)];
                let (grid, name) = ([rows.div_ceil(y), columns.div_ceil(x), 1], format!("mul_mat_{}", format.name));
                vec![quantize, Kernel::with("quantized", name, grid, [32, 4, 1], args)]
            }
            Op::Experts(format, Product { rows, k, .. }, n) => {
                let (quantize, padded) = quantize(k, 1);
                let sizes = [U32(rows), U32(k), U32(1), U32(n), U32(padded), U32(1)];
                let args = [&[Source(0), Scratch, Source(2), Dst], &sizes[..]].concat();
                let name = format!("indexed_moe_forward_{}_q8_1", format.name.to_lowercase().replace('_', ""));
                vec![quantize, Kernel::with("quantized", name, [rows, 1, n], [32, 4, 1], args)]
            }
        })
    }
}

/// Quantizes source 1, `columns` columns of `k` numbers, to q8_1 in scratch memory. Also returns the elements per
/// column there.
fn quantize(k: usize, columns: usize) -> (Kernel, usize) {
    use Argument::{Scratch, Source, U32};
    let padded = k.next_multiple_of(512);
    let args = vec![Source(1), Scratch, U32(k), U32(padded)];
    let (grid, block) = ([padded.div_ceil(256), columns, 1], [256, 1, 1]);
    let mut kernel = Kernel::with("quantized", "quantize_q8_1".into(), grid, block, args);
    kernel.scratch = columns * padded / 32 * Q8_1;
    (kernel, padded)
}

/// All cases at a size. 2^28 elements give 14336 rows of 4096; fewer elements give fewer rows.
pub fn cases(size: Size) -> Vec<Case> {
    let k = if size.elements < 1 << 20 { 256 } else { 4096 - 256 * usize::from(size.odd) };
    let rows = size.dim((14336 * (size.elements >> 8) / (1 << 20)).max(9));
    let mut cases = Vec::new();
    let case = |name: &str, format: Format, dims: &[usize], op: Op, x: &[Source], dst: &[usize]| {
        let sources = [&[format.blocks(dims[0] * dims[1])], x].concat();
        let mut case = Case::new(format!("{name} {}", format.name), super::Op::Quantized(op), sources, F32, dst);
        case.dims = dims.to_vec();
        case
    };
    for format in FORMATS {
        cases.push(case("dequantize", format, &[rows, k], Op::Dequantize(format, rows * k), &[], &[rows * k]));
    }
    let usual =
        ["q4_0", "q8_0", "q4_K", "q6_K"].map(|name| FORMATS.into_iter().find(|f| f.name == name).expect("a format"));
    /* Candle's kernels for several columns take rows in pairs. With an odd number of rows they write beyond the last
     * row. */
    for (name, columns, rows, k, formats) in [
        ("mat-vec", 1, rows, k, &FORMATS[..]),
        ("mat-vec, long rows,", 1, rows / 4, k * 4, &usual),
        ("mat-vec, 4 columns,", 4, rows / 2 * 2, k, &FORMATS[..1]),
        ("mat-vec, 8 columns,", 8, rows / 2 * 2, k, &FORMATS[..1]),
    ] {
        for format in formats {
            let x = Source::plain(U8, &[columns * k / 32 * Q8_1]).of(Values::Blocks);
            let product = Product { rows, k, columns };
            let mut case = case(name, *format, &[rows, k], Op::MatVec(*format, product), &[x], &[columns, rows]);
            case.roof = Roof::Reads;
            cases.push(case.within(Agreement::Share(1e-6)));
        }
    }
    /* Candle's kernel for q8_0 uses another stride between experts. */
    for format in &usual[2..] {
        const EXPERTS: usize = 8;
        let product = Product { rows: rows.div_ceil(EXPERTS), k, columns: 1 };
        let dims = [EXPERTS * product.rows, k];
        let x = [Source::plain(F32, &[k]), Source::plain(U32, &[EXPERTS]).of(Values::Counted)];
        let op = Op::Experts(*format, product, EXPERTS);
        let mut case = case("mat-vec of 8 experts,", *format, &dims, op, &x, &[EXPERTS, product.rows]);
        case.roof = Roof::Reads;
        cases.push(case.within(Agreement::Share(1e-5)));
    }
    let many = size.dim(if size.elements < 1 << 20 { 16 } else { 512 });
    for (name, columns, formats) in [("mat-mat", many, &FORMATS[..]), ("mat-mat, few columns,", size.dim(16), &usual)] {
        for format in formats {
            let x = Source::plain(F32, &[columns, k]);
            let product = Product { rows, k, columns };
            let op = Op::MatMat(*format, product);
            let mut case = case(name, *format, &[rows, k, columns], op, &[x], &[columns, rows]);
            case.roof = Roof::Operations(2 * rows * k * columns);
            cases.push(case.within(Agreement::Share(2e-2)));
        }
    }
    cases
}
