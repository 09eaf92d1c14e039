//! The collectives of `rccl`, with its types and as custom ops.
use crate::launch::{self, Patience, Rank};
use crate::{OfRanks, Test};
use anyhow::{Context, Result};
use candle_core::rocm_backend::rccl::{
    self, AllGather, AllReduce, Broadcast, Comm, DEFAULT_TIMEOUT, Id, ReduceOp, ReduceScatter,
};
use candle_core::rocm_backend::{RocmDevice, RocmSlice};
use candle_core::{DType, Device, Tensor};
use candle_rocm_tests::says;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, &[usize], OfRanks)] = &[
    ("ops_on_tensors", &[1, 2, 3], ops_on_tensors),
    ("calls_of_nccl", &[1, 2, 3], calls_of_nccl),
    ("sums_beside_other_work", &[1, 2, 3], sums_beside_other_work),
    ("sums_with_a_norm", &[1, 2, 3], sums_with_a_norm),
    ("refusals", &[1, 2], refusals),
    ("a_loop_of_ops_that_free_their_sources", &[2], a_loop_of_ops_that_free_their_sources),
    ("the_error_is_that_of_the_rank_that_failed", &[3], the_error_is_that_of_the_rank_that_failed),
];

pub const ON_CPU: &[(&str, Test)] = &[
    ("a_rank_that_never_comes", a_rank_that_never_comes),
    ("a_rank_that_never_calls", a_rank_that_never_calls),
    ("a_rank_that_leaves", a_rank_that_leaves),
    ("devices_by_their_numbers", devices_by_their_numbers),
    ("ranks_that_are_threads", crate::models::ranks_that_are_threads),
];

/// Runs `body` as each rank, on a thread for each, with a communicator even for one rank.
fn on_ranks(size: usize, body: impl Fn(&Arc<Comm>, &Device) -> Result<()> + Sync) -> Result<()> {
    let act = |rank: Rank| {
        let comm = match &rank.comm {
            Some(comm) => comm.clone(),
            None => {
                let device = rank.device.as_rocm_device()?;
                Arc::new(Comm::from_rank(device, 0, 1, Id::of(device)?)?)
            }
        };
        assert_eq!((comm.rank(), comm.world_size()), (rank.number, size));
        body(&comm, &rank.device)
    };
    launch::threads(size, Patience { timeout: DEFAULT_TIMEOUT, bounded: true }, &act)
}

/// Reads a tensor as a program must: the communicator waits before.
fn read(comm: &Comm, x: &Tensor) -> Result<Vec<f64>> {
    comm.wait()?;
    Ok(x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
}

fn ops_on_tensors(size: usize) -> Result<()> {
    on_ranks(size, |comm, device| {
        let (rank, last) = (comm.rank(), size - 1);
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::U32, DType::I64, DType::U8] {
            // Rank r has r + 1, 2 (r + 1), ...: small numbers that every dtype holds.
            let of = |rank: usize, i: usize| ((rank + 1) * (i + 1)) as f64;
            let values: Vec<u8> = (0..6 * size).map(|i| of(rank, i) as u8).collect();
            let x = Tensor::from_vec(values, (2 * size, 3), device)?.to_dtype(dtype)?;
            let sum = |i: usize| (0..size).map(|r| of(r, i)).sum::<f64>();
            let sums: Vec<f64> = (0..6 * size).map(sum).collect();

            let y = x.apply_op1_no_bwd(&AllReduce::new(comm.clone()))?;
            assert_eq!((y.dims(), y.dtype()), (x.dims(), dtype));
            assert_eq!(read(comm, &y)?, sums, "{dtype:?}");
            let y = x.apply_op1_no_bwd(&AllReduce::with_op(comm.clone(), ReduceOp::Max))?;
            assert_eq!(read(comm, &y)?, (0..6 * size).map(|i| of(last, i)).collect::<Vec<_>>());

            // A view with a start offset that is contiguous, and one that is not.
            let y = x.narrow(0, 1, 1)?.apply_op1_no_bwd(&AllReduce::new(comm.clone()))?;
            assert_eq!(read(comm, &y)?, sums[3..6]);
            let y = x.t()?.apply_op1_no_bwd(&AllReduce::new(comm.clone()))?;
            assert_eq!(y.dims(), [3, 2 * size]);
            assert_eq!(read(comm, &y.t()?.contiguous()?)?, sums);

            let y = x.apply_op1_no_bwd(&AllGather::new(comm.clone()))?;
            assert_eq!(y.dims(), [2 * size * size, 3]);
            assert_eq!(
                read(comm, &y)?,
                (0..6 * size * size).map(|i| of(i / (6 * size), i % (6 * size))).collect::<Vec<_>>()
            );
            let y = x.apply_op1_no_bwd(&ReduceScatter::new(comm.clone()))?;
            assert_eq!(y.dims(), [2, 3]);
            assert_eq!(read(comm, &y)?, sums[6 * rank..6 * rank + 6]);

            let y = x.copy()?;
            y.inplace_op1(&AllReduce::new(comm.clone()))?;
            assert_eq!(read(comm, &y)?, sums);
            let y = x.copy()?;
            y.inplace_op1(&Broadcast::new(comm.clone(), last))?;
            assert_eq!(read(comm, &y)?, (0..6 * size).map(|i| of(last, i)).collect::<Vec<_>>());
        }
        let none = Tensor::zeros((0, 3), DType::F32, device)?;
        assert_eq!(none.apply_op1_no_bwd(&AllReduce::new(comm.clone()))?.dims(), [0, 3]);
        let scalar = Tensor::new(2f32, device)?;
        assert_eq!(read(comm, &scalar.apply_op1_no_bwd(&AllGather::new(comm.clone()))?)?, vec![2.0; size]);
        Ok(())
    })
}

fn sums_beside_other_work(size: usize) -> Result<()> {
    on_ranks(size, |comm, device| {
        let op = AllReduce::new(comm.clone());
        let sum = (size * (size + 1) / 2) as f64;
        for dtype in [DType::F32, DType::BF16] {
            let ones = || Tensor::ones(300, dtype, device);
            let first = op.start((ones()? * (comm.rank() + 1) as f64)?)?;
            let second = op.start((ones()? * (comm.rank() + 1) as f64)?)?;
            let meanwhile = (ones()? * 3.)?;
            assert_eq!(read(comm, &(second.wait()? + &meanwhile)?)?, [sum + 3.; 300]);
            assert_eq!(read(comm, &(first.wait()? + 1.)?)?, [sum + 1.; 300]);
            // A sum that nobody waits for, and one in the device's own stream behind it.
            drop(op.start(ones()?)?);
            let x = ones()?;
            x.inplace_op1(&op)?;
            assert_eq!(read(comm, &x)?, [size as f64; 300]);
            says!(op.start(Tensor::ones((3, 4), dtype, device)?.t()?), "all_reduce", "dst is not contiguous");
        }
        Ok(())
    })
}

fn sums_with_a_norm(size: usize) -> Result<()> {
    on_ranks(size, |comm, device| {
        let op = AllReduce::new(comm.clone());
        let of = |first: usize, dims: &[usize]| -> Result<Tensor> {
            let count = dims.iter().product();
            let values: Vec<f32> = (0..count).map(|i| ((i * 7 + first * 3) % 11) as f32 - 5.).collect();
            Ok(Tensor::from_vec(values, dims, device)?)
        };
        for dims in [[1, 1, 64], [1, 3, 10], [2, 2, 7], [1, 40, 2048]] {
            let parts = (0..size).map(|rank| of(rank, &dims)).collect::<Result<Vec<_>>>()?;
            let (residual, weight) = (of(20, &dims)?, of(21, &dims[2..])?);
            let total = parts.iter().try_fold(residual.clone(), |sum, part| sum + part)?;
            let norm = candle_nn::ops::rms_norm(&total, &weight, 1e-5)?;
            let (sum, normed) = op.add_rms_norm(of(comm.rank(), &dims)?, &residual, &weight, 1e-5)?;
            assert_eq!((sum.dims(), normed.dims()), (&dims[..], &dims[..]));
            assert_eq!(read(comm, &sum)?, read(comm, &total)?);
            for (found, expected) in read(comm, &normed)?.into_iter().zip(read(comm, &norm)?) {
                assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.), "{dims:?}: {found} {expected}");
            }
        }
        let (x, other) = (of(0, &[2, 8])?, of(0, &[3, 8])?);
        let weight = of(0, &[8])?;
        says!(op.add_rms_norm(x.clone(), &other, &weight, 1e-5), "add_rms_norm", "[3, 8]");
        says!(op.add_rms_norm(x.clone(), &x, &of(0, &[4])?, 1e-5), "add_rms_norm", "[2, 8]", "4");
        says!(op.add_rms_norm(x.clone(), &x, &weight.to_dtype(DType::F16)?, 1e-5), "add_rms_norm", "weight");
        let most = AllReduce::with_op(comm.clone(), ReduceOp::Max);
        says!(most.add_rms_norm(x.clone(), &x, &weight, 1e-5), "add_rms_norm", "Max");
        Ok(())
    })
}

/// The calls of a program for NCCL, with slices.
fn calls_of_nccl(size: usize) -> Result<()> {
    on_ranks(size, |comm, device| {
        let (rank, device) = (comm.rank(), device.as_rocm_device()?);
        let mine = |i: usize| (10 * rank + i) as f32;
        let src = device.clone_htod(&(0..2 * size).map(mine).collect::<Vec<_>>())?;
        let read = |slice: &RocmSlice<f32>| -> Result<Vec<f32>> {
            comm.wait()?;
            Ok(device.clone_dtoh(slice)?)
        };
        let of = |rank: usize, i: usize| (10 * rank + i) as f32;
        let sum = |i: usize| (0..size).map(|r| of(r, i)).sum::<f32>();
        let sums: Vec<f32> = (0..2 * size).map(sum).collect();

        let mut dst = device.alloc_zeros::<f32>(2 * size)?;
        comm.all_reduce(&src, &mut dst, &ReduceOp::Sum)?;
        assert_eq!(read(&dst)?, sums);
        comm.all_reduce(&src, &mut dst, &ReduceOp::Avg)?;
        assert_eq!(read(&dst)?, sums.iter().map(|sum| sum / size as f32).collect::<Vec<_>>());
        comm.all_reduce(&src, &mut dst, &ReduceOp::Min)?;
        assert_eq!(read(&dst)?, (0..2 * size).map(|i| of(0, i)).collect::<Vec<_>>());
        let mut own = src.try_clone()?;
        comm.all_reduce_in_place(&mut own, &ReduceOp::Sum)?;
        assert_eq!(read(&own)?, sums);
        comm.reduce(&src, (rank == 0).then_some(&mut dst), &ReduceOp::Sum, 0)?;
        if rank == 0 {
            assert_eq!(read(&dst)?, sums);
        }
        let last = size as i32 - 1;
        comm.broadcast((rank as i32 == last).then_some(&src), &mut dst, last)?;
        assert_eq!(read(&dst)?, (0..2 * size).map(|i| of(size - 1, i)).collect::<Vec<_>>());
        let mut own = src.try_clone()?;
        comm.broadcast_in_place(&mut own, 0)?;
        assert_eq!(read(&own)?, (0..2 * size).map(|i| of(0, i)).collect::<Vec<_>>());
        comm.all_gather(&src.slice(2 * size - 2..), &mut dst)?;
        assert_eq!(read(&dst)?, (0..2 * size).map(|i| of(i / 2, 2 * size - 2 + i % 2)).collect::<Vec<_>>());
        let mut part = device.alloc_zeros::<f32>(2)?;
        comm.reduce_scatter(&src, &mut part, &ReduceOp::Sum)?;
        assert_eq!(read(&part)?, sums[2 * rank..2 * rank + 2]);

        let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
        // SAFETY: the memory and the communicator outlive the group.
        unsafe {
            rccl::group(|| {
                comm.send(&src.slice(0..2), next as i32)?;
                comm.recv(&mut part, previous as i32)
            })?;
        }
        assert_eq!(read(&part)?, [of(previous, 0), of(previous, 1)]);
        // An error of the body is that of the group.
        // SAFETY: as above.
        says!(unsafe { rccl::group(|| -> candle_core::Result<()> { candle_core::bail!("enough") }) }, "enough");
        comm.wait()?;

        let id = Id::new()?;
        assert_eq!(Id::uninit(*id.internal()).bytes(), id.bytes());
        assert_eq!(Id::from_bytes(*id.bytes()).internal(), id.internal());
        Ok(())
    })
}

fn refusals(size: usize) -> Result<()> {
    on_ranks(size, |comm, device| {
        let sum = AllReduce::new(comm.clone());
        let matrix = Tensor::zeros((2, 3), DType::F32, device)?;
        says!(matrix.t()?.inplace_op1(&sum), "all_reduce", "dst is not contiguous");
        says!(Tensor::zeros(3, DType::F32, &Device::Cpu)?.apply_op1_no_bwd(&sum), "all_reduce", "cpu device");
        says!(Tensor::zeros(3, DType::I16, device)?.apply_op1_no_bwd(&sum), "i16");
        let other = Device::Rocm(launch::open(comm.rank())?);
        let elsewhere = Tensor::zeros(3, DType::F32, &other)?;
        says!(elsewhere.apply_op1_no_bwd(&sum), "all_reduce", "make both with one device");
        if size > 1 {
            let odd = Tensor::zeros(3, DType::F32, device)?;
            says!(odd.apply_op1_no_bwd(&ReduceScatter::new(comm.clone())), "[3]", "no multiple of 2");
        }
        let rocm = device.as_rocm_device()?;
        let (three, mut four) = (rocm.alloc_zeros::<f32>(3)?, rocm.alloc_zeros::<f32>(4)?);
        says!(comm.all_reduce(&three, &mut four, &ReduceOp::Sum), "all_reduce", "3 elements are needed, and 4");
        says!(comm.all_gather(&three, &mut four), "all_gather", &format!("{} elements are needed", 3 * size));
        says!(comm.broadcast(Some(&three), &mut three.try_clone()?, -1), "root");
        let id = Id::of(rocm)?;
        says!(Comm::from_rank(rocm, size, size, id), "rank");
        says!(Comm::with_timeout(rocm, 0, 1, id, Some(Duration::ZERO)), "timeout");
        // A call that is refused has done nothing.
        assert_eq!(read(comm, &matrix.ones_like()?.apply_op1_no_bwd(&sum)?)?, vec![size as f64; 6]);
        Ok(())
    })
}

/// Memory goes back to the device behind the collective that reads it.
fn a_loop_of_ops_that_free_their_sources(size: usize) -> Result<()> {
    on_ranks(size, |comm, device| {
        let sum = AllReduce::new(comm.clone());
        let mut x = Tensor::ones(1000, DType::F32, device)?;
        for _ in 0..20 {
            x = ((x * 2.0)?.apply_op1_no_bwd(&sum)? / (2.0 * size as f64))?;
            drop(Tensor::full(7f32, 1000, device)?);
        }
        assert_eq!(read(comm, &x)?, vec![1.0; 1000]);
        Ok(())
    })
}

fn the_error_is_that_of_the_rank_that_failed(size: usize) -> Result<()> {
    let act = |rank: Rank| {
        if rank.number == 1 {
            anyhow::bail!("its own reason");
        }
        let comm = rank.comm.context("a communicator")?;
        let x = Tensor::ones(8, DType::F32, &rank.device)?;
        x.inplace_op1(&AllReduce::new(comm.clone()))?;
        Ok(comm.wait()?)
    };
    // On GPUs, ranks that wait without a bound find out by a launcher only.
    let is_on_cpu = RocmDevice::replaced_by().is_some_and(|name| name.starts_with("cpu"));
    for bounded in [false, true].into_iter().filter(|bounded| is_on_cpu || *bounded) {
        let patience = Patience { timeout: Duration::from_secs(20), bounded };
        let error = launch::threads(size, patience, &act).expect_err("a rank has failed");
        assert_eq!(format!("{error:#}"), "rank 1: its own reason");
    }
    Ok(())
}

/// A busy machine connects two threads in less.
const SHORT: Option<Duration> = Some(Duration::from_secs(3));

fn a_rank_that_never_comes() -> Result<()> {
    let (device, begin) = (launch::open(0)?, Instant::now());
    says!(Comm::with_timeout(&device, 0, 2, Id::of(&device)?, Some(Duration::from_millis(300))), "300 ms");
    assert!(begin.elapsed() < Duration::from_secs(20));
    Ok(())
}

/// Two ranks, which first add once. Then rank 0 does `first`, and rank 1 does `second` with its communicator.
fn two(first: impl Fn(&Arc<Comm>) -> Result<()> + Sync, second: fn(Arc<Comm>)) -> Result<()> {
    let (id, both) = (Id::new()?, &Barrier::new(2));
    let rank = move |number| -> Result<Arc<Comm>> {
        let comm = Arc::new(Comm::with_timeout(launch::open(number)?, number, 2, id, SHORT)?);
        let added = adds(&comm);
        both.wait();
        added?;
        Ok(comm)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || rank(1).map(second));
        first(&rank(0)?)?;
        other.join().expect("no panic")
    })
}

fn adds(comm: &Arc<Comm>) -> candle_core::Result<()> {
    let x = Tensor::ones(8, DType::F32, &Device::Rocm(comm.device().clone()))?;
    x.inplace_op1(&AllReduce::new(comm.clone()))?;
    comm.wait()
}

fn a_rank_that_never_calls() -> Result<()> {
    let first = |comm: &Arc<Comm>| {
        says!(adds(comm), "3000 ms");
        // The communicator has ended, and the device works.
        says!(adds(comm), "crk_comm_all_reduce");
        let device = Device::Rocm(comm.device().clone());
        device.synchronize()?;
        assert_eq!(Tensor::ones(2, DType::F32, &device)?.to_vec1::<f32>()?, [1.0, 1.0]);
        Ok(())
    };
    two(first, |comm| {
        std::thread::sleep(Duration::from_secs(5));
        drop(comm);
    })
}

fn a_rank_that_leaves() -> Result<()> {
    let begin = Instant::now();
    let first = |comm: &Arc<Comm>| {
        says!(adds(comm), "crk_comm");
        Ok(())
    };
    two(first, drop)?;
    two(first, |comm| comm.abort().expect("an abort"))?;
    assert!(begin.elapsed() < Duration::from_secs(20));
    Ok(())
}

/// `Device::new_rocm(rank)` gives each rank a device of its own, as a GPU's program opens them.
fn devices_by_their_numbers() -> Result<()> {
    let id = Id::new()?;
    std::thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| {
            scope.spawn(move || -> Result<Vec<f32>> {
                let device = Device::new_rocm(rank)?;
                let comm = Arc::new(Comm::from_rank(device.as_rocm_device()?.clone(), rank, 2, id)?);
                let x = Tensor::full(1f32 + rank as f32, 3, &device)?;
                let y = x.apply_op1_no_bwd(&AllReduce::new(comm.clone()))?;
                comm.wait()?;
                Ok(y.to_vec1()?)
            })
        });
        for rank in ranks {
            assert_eq!(rank.join().expect("no panic")?, [3.0; 3]);
        }
        Ok(())
    })
}
