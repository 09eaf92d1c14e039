//! Tensors of more than 2^32 bytes; those of u8 have more than 2^32 elements. Only a small part is written, and on a
//! CPU only that part uses memory.
use super::{Ops, Round, one, pair, wrapping};
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_tests::Both;

const SOME: &[&[DType]] = &[&[DType::U8, DType::BF16, DType::F32]];
/// The dims of a tensor: 2 rows of 8 parts, 5 GiB in all.
const PARTS: (usize, usize) = (2, 8);
/// The number of elements that are written, at the beginning of each part.
const COUNT: usize = 3;

/// A tensor (2, 8, elements of a part). Its parts begin with the numbers of a small tensor (2, 8, 3).
struct Big {
    whole: Tensor,
    small: Both,
    part: usize,
}

impl Big {
    fn new(round: &mut Round) -> Result<Big> {
        let part = (5 << 30) / (PARTS.0 * PARTS.1) / round.dtype.size_in_bytes();
        // SAFETY: all bit patterns are numbers, and no trial depends on the elements that are not written.
        let whole = unsafe { Tensor::empty((PARTS.0, PARTS.1, part), round.dtype, &round.device)? };
        let small = Both::numbers(&mut round.numbers, &[PARTS.0, PARTS.1, COUNT], round.dtype, &round.device)?;
        whole.slice_set(&small.rocm, 2, 0)?;
        Ok(Big { whole, small, part })
    }

    /// The written numbers, which are far apart in memory.
    fn view(&self) -> Result<Both> {
        Ok(Both { cpu: self.small.cpu.clone(), rocm: self.whole.narrow(2, 0, COUNT)? })
    }

    /// Both tensors as one row, and ids of some of the numbers in each.
    fn row(&self, round: &mut Round, count: usize) -> Result<(Both, Both)> {
        let places: Vec<usize> = (0..count).map(|_| round.numbers.below(PARTS.0 * PARTS.1 * COUNT)).collect();
        let ids = |part| Tensor::from_iter(places.iter().map(|i| (i / COUNT * part + i % COUNT) as i64), &Device::Cpu);
        let row = Both { cpu: self.small.cpu.flatten_all()?, rocm: self.whole.flatten_all()? };
        Ok((row, Both { cpu: ids(COUNT)?, rocm: ids(self.part)?.to_device(&round.device)? }))
    }
}

pub fn add(ops: &mut Ops) {
    macro_rules! map {
        ($dtypes:expr, $($name:literal: $op:expr,)*) => {
            $(ops.compare(concat!("big/", $name), $dtypes, 1, |round| {
                let op: fn(&Tensor) -> Result<Tensor> = $op;
                Ok((one(&Big::new(round)?.view()?, op)?, 0.0, 0.0))
            });)*
        };
    }
    map! { SOME,
        "contiguous": |x| x.force_contiguous(),
        "transposed": |x| x.transpose(0, 2)?.force_contiguous(),
        "cat": |x| Tensor::cat(&[x, x], 1),
        "to_dtype": |x| x.to_dtype(DType::F64),
        "affine": |x| x.affine(2.0, 3.0),
        "add": |x| x.narrow(1, 0, 4)? + x.narrow(1, 4, 4)?,
        "lt": |x| x.narrow(1, 0, 4)?.lt(&x.narrow(1, 4, 4)?),
        "where": |x| x.eq(&x.zeros_like()?)?.where_cond(x, &x.ones_like()?),
        "sum": |x| x.sum((0, 2)),
        "max": |x| x.max(1),
        "argmin": |x| x.argmin(1),
        // Only the last part, which is contiguous.
        "affine_of_last": |x| x.narrow(0, 1, 1)?.narrow(1, 7, 1)?.affine(2.0, 3.0),
        "arg_sort_of_last": |x| x.narrow(0, 1, 1)?.narrow(1, 7, 1)?.arg_sort_last_dim(false),
        "const_set": |x| {
            x.narrow(0, 1, 1)?.narrow(1, 3, 4)?.one_set()?;
            x.force_contiguous()
        },
    }
    map! { &[&[DType::BF16, DType::F32]], "matmul": |x| x.matmul(&x.transpose(1, 2)?), }

    // Windows that are as far apart as the parts, in images of one row.
    macro_rules! windows {
        ($($name:literal: $op:expr,)*) => {
            $(ops.compare(concat!("big/", $name), SOME, 1, |round| {
                let big = Big::new(round)?;
                let op: fn(&Tensor, usize) -> Result<Tensor> = $op;
                let row = |x: &Tensor| x.reshape((1, 1, 1, ()));
                let (small, whole) = (row(&big.small.cpu)?, row(&big.whole)?);
                Ok((Both { cpu: op(&small, COUNT)?, rocm: op(&whole, big.part)? }, 0.0, 0.0))
            });)*
        };
    }
    windows! {
        "max_pool2d": |x, part| x.max_pool2d_with_stride((1, 2), (1, part)),
        "upsample_nearest2d": |x, _| x.upsample_nearest2d(2, PARTS.0 * PARTS.1),
        "conv1d": |x, part| {
            let w = Tensor::ones((3, 1, 2), x.dtype(), x.device())?;
            wrapping([&x.squeeze(0)?, &w], |[x, w]| x.conv1d(w, 0, part, 1, 1))
        },
    }

    ops.compare("big/index_select", SOME, 1, |round| {
        let (x, ids) = Big::new(round)?.row(round, 9)?;
        Ok((pair(&x, &ids, |x, ids| x.index_select(ids, 0))?, 0.0, 0.0))
    });
    ops.compare("big/gather", SOME, 1, |round| {
        let (x, ids) = Big::new(round)?.row(round, 9)?;
        Ok((pair(&x, &ids, |x, ids| x.gather(ids, 0))?, 0.0, 0.0))
    });
    macro_rules! in_place {
        ($($op:ident)*) => {
            $(ops.compare(concat!("big/", stringify!($op)), SOME, 1, |round| {
                let big = Big::new(round)?;
                let ((x, ids), src) = (big.row(round, 9)?, round.rows(&[9])?);
                x.cpu.$op(&ids.cpu, &src.cpu, 0)?;
                x.rocm.$op(&ids.rocm, &src.rocm, 0)?;
                Ok((big.view()?.map(|x| x.force_contiguous())?, 0.0, 0.0))
            });)*
        };
    }
    in_place! { scatter_set scatter_add_set }

    // Dims of 2^33, whose lower 32 bits are 0.
    macro_rules! broadcast {
        ($($name:literal $op:ident $ids:expr,)*) => {
            $(ops.compare(concat!("big/", $name), SOME, 1, |round| {
                let x = round.view(&[1, 5])?;
                let ids = Tensor::from_vec(vec![1i64 << 32, (1 << 33) - 1, 7], $ids, &Device::Cpu)?;
                let rocm = x.rocm.broadcast_as((1 << 33, 5))?.$op(&ids.to_device(&round.device)?, 0)?;
                let cpu = x.cpu.broadcast_as((3, 5))?.narrow(1, 0, rocm.dim(1)?)?;
                Ok((Both { cpu, rocm }, 0.0, 0.0))
            });)*
        };
    }
    broadcast! {
        "index_select_of_broadcast" index_select 3,
        "gather_of_broadcast" gather (3, 1),
    }
}
