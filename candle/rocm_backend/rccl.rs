//! Collectives among the devices of many ranks, under the names of `cudarc::nccl::safe`.
//!
//! Each rank has a device of its own and a [`Comm`]. RCCL does the work on AMD GPUs. On the CPU devices that replace
//! them candle-rocm-sys does it, among the threads of one process. docs/many-gpus.md of candle-rocm-sys says what RCCL
//! needs, and how a program for NCCL is ported.
//!
//! The work of a collective runs in the stream of the rank's device, like a launch: memory that is freed after the call
//! is reused behind it. A rank that is lost ends in an error of [`Comm::wait`]. Call it before values are read:
//! `Device::synchronize`, and copies to the host, know nothing of other ranks and would wait for ever.
use super::{DeviceSlice, DeviceSliceMut, RocmDType, RocmDevice, RocmStorage, WrapErr, dtype_of, kernels};
use crate::backend::BackendStorage;
use crate::op::BackpropOp;
use crate::{CpuStorage, CustomOp1, InplaceOp1, Layout, Result, Shape, Storage, Tensor};
use std::borrow::Borrow;
use std::ffi::c_char;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The timeout of [`Comm::from_rank`].
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

const ID_BYTES: usize = kernels::sys::CRK_COMM_ID_BYTES as usize;

/// A reduction. For integers `Avg` rounds towards 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
    /// The sum divided by the number of ranks.
    Avg,
}

impl From<ReduceOp> for kernels::CommOp {
    fn from(op: ReduceOp) -> Self {
        match op {
            ReduceOp::Sum => Self::Sum,
            ReduceOp::Prod => Self::Prod,
            ReduceOp::Max => Self::Max,
            ReduceOp::Min => Self::Min,
            ReduceOp::Avg => Self::Avg,
        }
    }
}

/// The name of one communicator. Rank 0 makes it, and the program sends its 128 bytes to the other ranks.
#[derive(Clone, Copy)]
pub struct Id(kernels::CommId);

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Id({:02x?}..)", &self.0.bytes[..8])
    }
}

impl Id {
    /// A new id. On GPUs it keeps a thread in this process, which must live until all ranks have their [`Comm`]. It
    /// opens device 0 if this process has no device yet; [`Id::of`] takes one.
    pub fn new() -> Result<Self> {
        Ok(Self(super::device::any()?.comm_id().w()?))
    }

    /// A new id for devices such as this one.
    pub fn of(device: &RocmDevice) -> Result<Self> {
        Ok(Self(device.handle().comm_id().w()?))
    }

    /// The id that another rank has sent.
    pub fn uninit(internal: [c_char; ID_BYTES]) -> Self {
        Self::from_bytes(internal.map(|byte| byte as u8))
    }

    /// The bytes to send, as C's characters.
    pub fn internal(&self) -> &[c_char; ID_BYTES] {
        // SAFETY: an array of as many bytes, for which every value is one.
        unsafe { &*std::ptr::from_ref(&self.0.bytes).cast() }
    }

    /// As [`Id::uninit`].
    pub fn from_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(kernels::CommId { bytes })
    }

    /// The bytes to send.
    pub fn bytes(&self) -> &[u8; ID_BYTES] {
        &self.0.bytes
    }
}

/// One rank of a communicator. All ranks make the same calls in the same order. Dropping it waits for the work of the
/// device, for at most the timeout.
pub struct Comm {
    comm: kernels::Comm,
    device: RocmDevice,
    timeout: Option<Duration>,
    /// What [`AllReduce::start`] runs on; made when it is first used.
    side: OnceLock<kernels::Device>,
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Comm(rank {} of {}, {:?})", self.rank(), self.world_size(), self.device)
    }
}

/// A view of typed memory, for a collective.
fn part<'a, T: 'a>(slice: &'a impl DeviceSlice<T>) -> Result<kernels::View<'a>> {
    slice.as_view().raw()
}

/// A rank as C takes it.
fn rank_of(name: &str, rank: i32) -> Result<usize> {
    usize::try_from(rank).map_err(|_| crate::Error::Msg(format!("{name} is {rank}; ranks are numbered from 0")))
}

impl Comm {
    /// Creates rank `rank` of `world_size` and waits for the others, for at most [`DEFAULT_TIMEOUT`].
    pub fn from_rank(device: impl Borrow<RocmDevice>, rank: usize, world_size: usize, id: Id) -> Result<Self> {
        Self::with_timeout(device, rank, world_size, id, Some(DEFAULT_TIMEOUT))
    }

    /// The same with another timeout. It also bounds [`Comm::wait`], the connection that the first collective makes,
    /// and the drop. `None` waits without a bound, and starts each collective some tens of microseconds earlier.
    pub fn with_timeout(
        device: impl Borrow<RocmDevice>,
        rank: usize,
        world_size: usize,
        id: Id,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let device = device.borrow().clone();
        let comm = kernels::Comm::new(device.handle(), &id.0, rank, world_size, timeout).w()?;
        Ok(Self { comm, device, timeout, side: OnceLock::new() })
    }

    /// Another handle of this rank's device.
    fn side(&self) -> Result<&kernels::Device> {
        if let Some(side) = self.side.get() {
            return Ok(side);
        }
        let side = self.device.handle().new_stream().w()?;
        Ok(self.side.get_or_init(|| side))
    }

    /// Waits on the host for a reduction of `tensor` beside the device's work, which nothing else waits for. If that
    /// fails, the reduction may go on: the tensor's memory is never given back.
    fn finish(&self, tensor: &Tensor) {
        if self.wait().is_err() {
            std::mem::forget(tensor.clone());
        }
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// The number of ranks.
    pub fn world_size(&self) -> usize {
        self.comm.size()
    }

    /// The device of this rank. Tensors of collectives are on it.
    pub fn device(&self) -> &RocmDevice {
        &self.device
    }

    /// The communicator of candle-rocm-sys, which has all-to-all, and takes bytes with a dtype.
    pub fn handle(&self) -> &kernels::Comm {
        &self.comm
    }

    /// Waits for the work of the device, for at most the communicator's timeout. Fails, with the communicator ended,
    /// where another rank failed or did not come in time.
    pub fn wait(&self) -> Result<()> {
        self.wait_for(self.timeout)
    }

    /// The same with another timeout.
    pub fn wait_for(&self, timeout: Option<Duration>) -> Result<()> {
        self.comm.wait(timeout).w()
    }

    /// The same for the work that came before `event` was recorded in the device's stream. Later work may be under way.
    pub fn wait_for_event(&self, event: &kernels::Event, timeout: Option<Duration>) -> Result<()> {
        self.comm.wait_event(event, timeout).w()
    }

    /// Ends the communicator on this rank, also while another thread waits in a call of it.
    pub fn abort(&self) -> Result<()> {
        self.comm.abort().w()
    }

    /// `dst = op` over all ranks of `src`.
    pub fn all_reduce<S: DeviceSlice<T>, R: DeviceSliceMut<T>, T: RocmDType>(
        &self,
        src: &S,
        dst: &mut R,
        op: &ReduceOp,
    ) -> Result<()> {
        self.same_length("all_reduce", src.len(), dst.len())?;
        let dtype = dtype_of(T::DTYPE, "all_reduce")?;
        self.comm.all_reduce(dtype, (*op).into(), part(src)?, part(dst)?, src.len()).w()
    }

    /// The same, in place.
    pub fn all_reduce_in_place<R: DeviceSliceMut<T>, T: RocmDType>(&self, buffer: &mut R, op: &ReduceOp) -> Result<()> {
        let dtype = dtype_of(T::DTYPE, "all_reduce")?;
        self.comm.all_reduce_in_place(dtype, (*op).into(), part(buffer)?, buffer.len()).w()
    }

    /// `dst = op` over all ranks of `src`, on rank `root`. Other ranks need no `dst`.
    pub fn reduce<S: DeviceSlice<T>, R: DeviceSliceMut<T>, T: RocmDType>(
        &self,
        src: &S,
        dst: Option<&mut R>,
        op: &ReduceOp,
        root: i32,
    ) -> Result<()> {
        if let Some(dst) = &dst {
            self.same_length("reduce", src.len(), dst.len())?;
        }
        let dst = dst.map(|dst| part(dst)).transpose()?;
        let dtype = dtype_of(T::DTYPE, "reduce")?;
        self.comm.reduce(dtype, (*op).into(), part(src)?, dst, src.len(), rank_of("root", root)?).w()
    }

    /// `dst = src` of rank `root`. Other ranks need no `src`.
    pub fn broadcast<S: DeviceSlice<T>, R: DeviceSliceMut<T>, T: RocmDType>(
        &self,
        src: Option<&S>,
        dst: &mut R,
        root: i32,
    ) -> Result<()> {
        if let Some(src) = src {
            self.same_length("broadcast", src.len(), dst.len())?;
        }
        let src = src.map(|src| part(src)).transpose()?;
        self.comm.broadcast(dtype_of(T::DTYPE, "broadcast")?, src, part(dst)?, dst.len(), rank_of("root", root)?).w()
    }

    /// The same, in place.
    pub fn broadcast_in_place<R: DeviceSliceMut<T>, T: RocmDType>(&self, buffer: &mut R, root: i32) -> Result<()> {
        let view = part(buffer)?;
        self.comm
            .broadcast(dtype_of(T::DTYPE, "broadcast")?, Some(view), view, buffer.len(), rank_of("root", root)?)
            .w()
    }

    /// `dst` = the `src` of all ranks, one after the other.
    pub fn all_gather<S: DeviceSlice<T>, R: DeviceSliceMut<T>, T: RocmDType>(
        &self,
        src: &S,
        dst: &mut R,
    ) -> Result<()> {
        self.same_length("all_gather", src.len().saturating_mul(self.world_size()), dst.len())?;
        self.comm.all_gather(dtype_of(T::DTYPE, "all_gather")?, part(src)?, part(dst)?, src.len()).w()
    }

    /// `dst = op` over all ranks of this rank's part of `src`, the parts being in the order of the ranks.
    pub fn reduce_scatter<S: DeviceSlice<T>, R: DeviceSliceMut<T>, T: RocmDType>(
        &self,
        src: &S,
        dst: &mut R,
        op: &ReduceOp,
    ) -> Result<()> {
        self.same_length("reduce_scatter", dst.len().saturating_mul(self.world_size()), src.len())?;
        let dtype = dtype_of(T::DTYPE, "reduce_scatter")?;
        self.comm.reduce_scatter(dtype, (*op).into(), part(src)?, part(dst)?, dst.len()).w()
    }

    /// Sends to rank `peer`, which receives as many elements.
    pub fn send<S: DeviceSlice<T>, T: RocmDType>(&self, data: &S, peer: i32) -> Result<()> {
        self.comm.send(dtype_of(T::DTYPE, "send")?, part(data)?, data.len(), rank_of("peer", peer)?).w()
    }

    /// Receives from rank `peer`.
    pub fn recv<R: DeviceSliceMut<T>, T: RocmDType>(&self, buffer: &mut R, peer: i32) -> Result<()> {
        self.comm.recv(dtype_of(T::DTYPE, "recv")?, part(buffer)?, buffer.len(), rank_of("peer", peer)?).w()
    }

    fn same_length(&self, op: &str, needed: usize, there: usize) -> Result<()> {
        if needed == there {
            return Ok(());
        }
        crate::bail!("{op} of {} ranks: {needed} elements are needed, and {there} are there", self.world_size())
    }

    /// Fails for a tensor that is on another device than the communicator.
    fn expect(&self, storage: &RocmStorage, op: &str) -> Result<()> {
        if self.comm.device().same_handle(storage.device().handle()) {
            return Ok(());
        }
        crate::bail!(
            "{op}: the tensor is on {:?}, and the communicator was made with {:?}; make both with one device",
            storage.device(),
            self.device
        )
    }
}

/// Starts together the collectives that `body` calls. Messages in both directions between two ranks need a group.
///
/// # Safety
/// The communicators and the memory of the calls live until this function returns.
pub unsafe fn group<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut done = None;
    // SAFETY: the caller promises it.
    let started = unsafe {
        kernels::comm_group(|| {
            done = Some(body());
            Ok(())
        })
    };
    match done {
        Some(Err(error)) => Err(error),
        Some(Ok(value)) => started.w().map(|()| value),
        None => crate::bail!("group: {:?}", started.err()),
    }
}

fn not_on_the_cpu<T>(op: &str) -> Result<T> {
    crate::bail!("{op}: the tensor is on Candle's cpu device, and collectives are for rocm devices")
}

/// Custom ops with one source. A source that is not contiguous is copied first.
macro_rules! custom_op {
    ($type:ident $name:literal ($self:ident, $storage:ident, $view:ident, $shape:ident) $body:block) => {
        impl CustomOp1 for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
                not_on_the_cpu($name)
            }

            fn rocm_fwd(&$self, storage: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
                $self.comm.expect(storage, $name)?;
                let ($shape, packed) = (layout.shape(), (!layout.is_contiguous()).then(|| storage.packed(layout)));
                let packed = packed.transpose()?;
                let own = Layout::contiguous($shape);
                let ($storage, layout) = packed.as_ref().map_or((storage, layout), |packed| (packed, &own));
                let $view = $storage.range(layout, $name, "src")?;
                $body
            }
        }
    };
}

/// In-place ops. The tensor must be contiguous.
macro_rules! inplace_op {
    ($type:ident $name:literal ($self:ident, $dtype:ident, $view:ident, $count:ident) $body:expr) => {
        impl InplaceOp1 for $type {
            fn name(&self) -> &'static str {
                $name
            }

            fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
                not_on_the_cpu($name)
            }

            fn rocm_fwd(&$self, storage: &mut RocmStorage, layout: &Layout) -> Result<()> {
                $self.comm.expect(storage, $name)?;
                let $view = storage.range(layout, $name, "dst")?;
                let ($dtype, $count) = (dtype_of(storage.dtype(), $name)?, layout.shape().elem_count());
                $body.w()
            }
        }
    };
}

/// The reduction over all ranks of a tensor: `x.apply_op1_no_bwd(&op)`, or `x.inplace_op1(&op)`.
#[derive(Clone, Debug)]
pub struct AllReduce {
    comm: Arc<Comm>,
    op: ReduceOp,
}

impl AllReduce {
    /// The sum.
    pub fn new(comm: Arc<Comm>) -> Self {
        Self::with_op(comm, ReduceOp::Sum)
    }

    /// Another reduction.
    pub fn with_op(comm: Arc<Comm>, op: ReduceOp) -> Self {
        Self { comm, op }
    }
}

/// A reduction in place that runs beside later work of the device. Dropping it does what [`Pending::wait`] does.
pub struct Pending {
    tensor: Tensor,
    comm: Arc<Comm>,
    done: Option<kernels::Event>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("tensor", &self.tensor).finish_non_exhaustive()
    }
}

impl Pending {
    /// The reduced tensor. Later work of the device waits for it; the host does not.
    pub fn wait(mut self) -> Result<Tensor> {
        self.order()?;
        Ok(self.tensor.clone())
    }

    fn order(&mut self) -> Result<()> {
        let Some(done) = self.done.take() else { return Ok(()) };
        self.comm.device.handle().wait(&done).w().inspect_err(|_| self.comm.finish(&self.tensor))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // A drop cannot report a failure.
        let _ = self.order();
    }
}

impl AllReduce {
    /// The sum over all ranks of `x`, plus `residual`, and the RMS norm of that: both results. For few elements it is
    /// one launch, and among two GPUs a launch for each 16 MiB. It uses the memory of `x`, which nothing else may use
    /// any more. All tensors are contiguous.
    pub fn add_rms_norm(&self, x: Tensor, residual: &Tensor, weight: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
        let op = "all_reduce_add_rms_norm";
        let [(x_s, x_l), (residual_s, residual_l), (weight_s, weight_l)] =
            [&x, residual, weight].map(Tensor::storage_and_layout);
        let (x_s, residual) = (RocmStorage::of(&x_s, op, "x")?, RocmStorage::of(&residual_s, op, "residual")?);
        let weight = RocmStorage::of(&weight_s, op, "weight")?;
        for storage in [x_s, residual, weight] {
            self.comm.expect(storage, op)?;
        }
        if !matches!(self.op, ReduceOp::Sum) || residual_l.dims() != x_l.dims() {
            crate::bail!("{op}: {:?} of {:?} and {:?}", self.op, x_l.dims(), residual_l.dims())
        }
        residual.expect_dtype(x_s.dtype(), op, "residual")?;
        weight.expect_dtype(x_s.dtype(), op, "weight")?;
        let (dtype, count) = (dtype_of(x_s.dtype(), op)?, x_l.shape().elem_count());
        let cols = weight_l.shape().elem_count();
        if x_l.dims().last() != Some(&cols) {
            crate::bail!("{op}: rows of {:?}, and a weight of {cols}", x_l.dims())
        }
        let empty = || x_s.device().empty(x_l.shape(), x_s.dtype());
        let (sum, normed) = (empty()?, empty()?);
        self.comm
            .comm
            .add_rms_norm(
                dtype,
                (count.checked_div(cols).unwrap_or(0), cols),
                x_s.range(x_l, op, "x")?,
                residual.range(residual_l, op, "residual")?,
                weight.range(weight_l, op, "weight")?,
                (sum.memory(), normed.memory()),
                eps as f32,
            )
            .w()?;
        let of = |storage| Tensor::from_storage(Storage::Rocm(storage), x_l.shape(), BackpropOp::none(), false);
        Ok((of(sum), of(normed)))
    }

    /// Reduces a contiguous tensor in place, in a stream of its own. Work that is given to the device before
    /// [`Pending::wait`] runs meanwhile; it must not use the tensor. It must not replay a graph with collectives of
    /// this communicator either.
    pub fn start(&self, tensor: Tensor) -> Result<Pending> {
        let device = self.comm.device.handle();
        let side = self.comm.side()?;
        let mark = device.event().w()?;
        mark.record(device).w()?;
        side.wait(&mark).w()?;
        // SAFETY: `side` waits for all work so far, and the device for `done`, before the tensor is used or freed. If
        // either cannot be arranged, `finish` waits on the host.
        unsafe { self.comm.comm.run_beside(Some(side)) }.w()?;
        let reduced = tensor.inplace_op1(self);
        // SAFETY: as above.
        let left = unsafe { self.comm.comm.run_beside(None) }.w();
        mark.record(side).w().inspect_err(|_| self.comm.finish(&tensor))?;
        let pending = Pending { tensor, comm: self.comm.clone(), done: Some(mark) };
        reduced.and(left).map(|()| pending)
    }
}

custom_op! { AllReduce "all_reduce" (self, storage, view, shape) {
    let (count, dst) = (shape.elem_count(), storage.device().empty(shape, storage.dtype())?);
    let dtype = dtype_of(storage.dtype(), "all_reduce")?;
    self.comm.comm.all_reduce(dtype, self.op.into(), view, dst.memory(), count).w()?;
    Ok((dst, shape.clone()))
} }

inplace_op! { AllReduce "all_reduce" (self, dtype, view, count)
    self.comm.comm.all_reduce_in_place(dtype, self.op.into(), view, count)
}

/// The tensors of all ranks, joined along their first dim.
#[derive(Clone, Debug)]
pub struct AllGather {
    comm: Arc<Comm>,
}

impl AllGather {
    /// The op of a communicator.
    pub fn new(comm: Arc<Comm>) -> Self {
        Self { comm }
    }
}

custom_op! { AllGather "all_gather" (self, storage, view, shape) {
    let mut dims = shape.dims().to_vec();
    match dims.first_mut() {
        Some(first) => *first *= self.comm.world_size(),
        None => dims.push(self.comm.world_size()),
    }
    let whole = Shape::from(dims);
    let (count, dst) = (shape.elem_count(), storage.device().empty(&whole, storage.dtype())?);
    self.comm.comm.all_gather(dtype_of(storage.dtype(), "all_gather")?, view, dst.memory(), count).w()?;
    Ok((dst, whole))
} }

/// This rank's part of the reduction of a tensor. The parts are even ones along the first dim.
#[derive(Clone, Debug)]
pub struct ReduceScatter {
    comm: Arc<Comm>,
    op: ReduceOp,
}

impl ReduceScatter {
    /// The sum.
    pub fn new(comm: Arc<Comm>) -> Self {
        Self::with_op(comm, ReduceOp::Sum)
    }

    /// Another reduction.
    pub fn with_op(comm: Arc<Comm>, op: ReduceOp) -> Self {
        Self { comm, op }
    }
}

custom_op! { ReduceScatter "reduce_scatter" (self, storage, view, shape) {
    let (mut dims, size) = (shape.dims().to_vec(), self.comm.world_size());
    match dims.first_mut() {
        Some(first) if *first % size == 0 => *first /= size,
        _ => crate::bail!("reduce_scatter: the first dim of {:?} is no multiple of {size}, the number of ranks", dims),
    }
    let part = Shape::from(dims);
    let (count, dst) = (part.elem_count(), storage.device().empty(&part, storage.dtype())?);
    let dtype = dtype_of(storage.dtype(), "reduce_scatter")?;
    self.comm.comm.reduce_scatter(dtype, self.op.into(), view, dst.memory(), count).w()?;
    Ok((dst, part))
} }

/// Gives every rank the values of rank `root`: `x.inplace_op1(&op)`.
#[derive(Clone, Debug)]
pub struct Broadcast {
    comm: Arc<Comm>,
    root: usize,
}

impl Broadcast {
    /// The op of a communicator.
    pub fn new(comm: Arc<Comm>, root: usize) -> Self {
        Self { comm, root }
    }
}

inplace_op! { Broadcast "broadcast" (self, dtype, view, count)
    self.comm.comm.broadcast(dtype, Some(view), view, count, self.root)
}
