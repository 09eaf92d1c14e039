//! Communicators: sums, gathers and messages among ranks, each with a device of its own.
use crate::error::check;
use crate::launchers::Argument;
use crate::{CommId, CommOp, DType, Device, Error, Event, Result, Status, View, sys};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One rank of a communicator: `crk_comm_t`. On GPUs RCCL or NCCL does the work; on the CPU device this crate does, for
/// ranks that are threads of one process. The contracts are the comments of `include/candle_rocm/comm.h`.
///
/// The work runs in the stream of the device handle. Buffers belong to that handle. Dropping waits for the work that
/// the handle has, for at most the communicator's timeout. On a GPU it may also wait without a bound for graphs
/// that have collectives of the communicator. So drop these graphs first, after a failure too.
pub struct Comm {
    raw: sys::crk_comm_t,
    // These keep handles open: the communicator must be destroyed first.
    device: Device,
    sides: Mutex<Vec<Device>>,
}

// SAFETY: the C header allows calls on a communicator from any thread.
unsafe impl Send for Comm {}
// SAFETY: as above; one thread at a time is inside, by a lock of the C core.
unsafe impl Sync for Comm {}

/// The body of a collective's method, as `launch!` in launchers/mod.rs is that of a launcher's.
macro_rules! collective {
    ($self:ident.$collective:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: a live communicator, and views of buffers of its handle; the C core checks their sizes.
        check(unsafe {
            sys::$collective($self.raw, $(Argument::raw(
                $argument, &$self.device, stringify!($collective), stringify!($argument)
            )?),*)
        })
    };
}

/// A timeout for C: none waits without a bound. Part of a millisecond counts as a whole one.
fn milliseconds(timeout: Option<Duration>) -> u32 {
    let bound = sys::CRK_COMM_FOREVER;
    timeout.map_or(bound, |timeout| {
        u32::try_from(timeout.as_nanos().div_ceil(1_000_000)).map_or(bound - 1, |ms| ms.min(bound - 1))
    })
}

type Create = unsafe extern "C" fn(sys::crk_device_t, *const CommId, u32, u32, u32, *mut sys::crk_comm_t) -> Status;

impl Device {
    /// A new id, for one communicator on devices such as this one. One rank calls this and sends the bytes to the
    /// others.
    pub fn comm_id(&self) -> Result<CommId> {
        let mut id = CommId::default();
        // SAFETY: a live handle; `id` is written on success.
        check(unsafe { sys::crk_comm_id_create(self.raw(), &mut id) })?;
        Ok(id)
    }

    /// The library of this device's collectives, with its version: `("NCCL", 22304)`. Fails with `CRK_NO_RUNTIME` where
    /// there is none.
    pub fn comm_library(&self) -> Result<(&'static str, i32)> {
        let (mut name, mut version) = (std::ptr::null(), 0);
        // SAFETY: a live handle; both are written on success, and the name is static text.
        check(unsafe { sys::crk_comm_library(self.raw(), &mut name, &mut version) })?;
        // SAFETY: as above.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        Ok((name.to_str().unwrap_or("?"), version))
    }
}

impl Comm {
    /// Creates rank `rank` of `size` and waits for the others, for at most `timeout`: `crk_comm_create`. No timeout
    /// waits without a bound.
    pub fn new(device: &Device, id: &CommId, rank: usize, size: usize, timeout: Option<Duration>) -> Result<Comm> {
        Comm::create(sys::crk_comm_create, device, id, [rank, size], timeout)
    }

    /// The same without waiting for the other ranks: [`Comm::is_ready`] tells when they are there.
    pub fn start(device: &Device, id: &CommId, rank: usize, size: usize, timeout: Option<Duration>) -> Result<Comm> {
        Comm::create(sys::crk_comm_create_async, device, id, [rank, size], timeout)
    }

    fn create(create: Create, device: &Device, id: &CommId, place: [usize; 2], time: Option<Duration>) -> Result<Comm> {
        let mut raw = std::ptr::null_mut();
        let [rank, size] = place.map(number);
        // SAFETY: a live handle; `raw` is written on success.
        check(unsafe { create(device.raw(), id, rank, size, milliseconds(time), &mut raw) })?;
        Ok(Comm { raw, device: device.clone(), sides: Mutex::default() })
    }

    /// The device handle of this rank.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        let mut rank = 0;
        // SAFETY: a live communicator, which always has a rank.
        unsafe { sys::crk_comm_rank(self.raw, &mut rank) };
        rank as usize
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        let mut size = 0;
        // SAFETY: a live communicator, which always has a size.
        unsafe { sys::crk_comm_size(self.raw, &mut size) };
        size as usize
    }

    /// Whether all ranks are there and no collective is being started. Fails where the communicator has ended.
    pub fn is_ready(&self) -> Result<bool> {
        // SAFETY: a live communicator.
        let status = unsafe { sys::crk_comm_query(self.raw) };
        if status == Status::NotReady {
            return Ok(false);
        }
        check(status).map(|()| true)
    }

    /// Waits for the work of the device handle, and looks for failures of other ranks meanwhile. Fails with
    /// `CRK_PEER_LOST`, with the communicator ended, where the time is over.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        // SAFETY: a live communicator.
        self.device.reporting(|| check(unsafe { sys::crk_comm_wait(self.raw, milliseconds(timeout)) }))
    }

    /// The same for the work that came before `event` was recorded; later work may be under way: `crk_comm_wait_event`.
    pub fn wait_event(&self, event: &Event, timeout: Option<Duration>) -> Result<()> {
        // SAFETY: a live communicator and a live event.
        self.device
            .reporting(|| check(unsafe { sys::crk_comm_wait_event(self.raw, event.raw(), milliseconds(timeout)) }))
    }

    /// Ends the communicator on this rank, also while another thread waits in a call of it.
    pub fn abort(&self) -> Result<()> {
        // SAFETY: a live communicator.
        check(unsafe { sys::crk_comm_abort(self.raw) })
    }

    /// Runs this thread's later collectives in the stream of `side`, another handle of the same device such as one of
    /// [`Device::new_stream`]: `crk_comm_run_beside`. None means the own handle again.
    ///
    /// # Safety
    /// The caller orders the two streams: a collective after the work that makes what it reads, and whatever uses or
    /// frees its memory after the collective.
    pub unsafe fn run_beside(&self, side: Option<&Device>) -> Result<()> {
        if let Some(side) = side {
            let mut sides = self.sides.lock().unwrap_or_else(PoisonError::into_inner);
            if !sides.iter().any(|known| known.same_handle(side)) {
                sides.push(side.clone());
            }
        }
        // SAFETY: a live communicator; a handle that lives as long as it, or none.
        check(unsafe { sys::crk_comm_run_beside(self.raw, side.map_or(std::ptr::null_mut(), Device::raw)) })
    }

    /// The C communicator, for calls of [`sys`]. It stays this object's.
    pub fn raw(&self) -> sys::crk_comm_t {
        self.raw
    }

    /// `dst = op` over all ranks of `src`.
    pub fn all_reduce<'a>(
        &self,
        dtype: DType,
        op: CommOp,
        src: impl Into<View<'a>>,
        dst: impl Into<View<'a>>,
        count: usize,
    ) -> Result<()> {
        collective!(self.crk_comm_all_reduce(dtype, op, src, dst, count))
    }

    /// The same, in place.
    pub fn all_reduce_in_place<'a>(
        &self,
        dtype: DType,
        op: CommOp,
        buffer: impl Into<View<'a>>,
        count: usize,
    ) -> Result<()> {
        let view = buffer.into();
        self.all_reduce(dtype, op, view, view, count)
    }

    /// `sum = residual + x` of all ranks, and `dst` is the RMS norm of it: `crk_comm_add_rms_norm`. `x` is undefined
    /// afterwards.
    #[allow(clippy::too_many_arguments)]
    pub fn add_rms_norm<'a>(
        &self,
        dtype: DType,
        (rows, cols): (usize, usize),
        x: impl Into<View<'a>>,
        residual: impl Into<View<'a>>,
        alpha: impl Into<View<'a>>,
        (sum, dst): (impl Into<View<'a>>, impl Into<View<'a>>),
        eps: f32,
    ) -> Result<()> {
        collective!(self.crk_comm_add_rms_norm(dtype, rows, cols, x, residual, alpha, sum, dst, eps))
    }

    /// `dst = op` over all ranks of `src`, on rank `root`; the others give no `dst`.
    pub fn reduce<'a>(
        &self,
        dtype: DType,
        op: CommOp,
        src: impl Into<View<'a>>,
        dst: Option<View<'a>>,
        count: usize,
        root: usize,
    ) -> Result<()> {
        collective!(self.crk_comm_reduce(dtype, op, src, dst, count, number(root)))
    }

    /// `dst = src` of rank `root`; the others give no `src`.
    pub fn broadcast<'a>(
        &self,
        dtype: DType,
        src: Option<View<'a>>,
        dst: impl Into<View<'a>>,
        count: usize,
        root: usize,
    ) -> Result<()> {
        collective!(self.crk_comm_broadcast(dtype, src, dst, count, number(root)))
    }

    /// `dst` = the `src` of all ranks, one after the other; `count` is that of one.
    pub fn all_gather<'a>(
        &self,
        dtype: DType,
        src: impl Into<View<'a>>,
        dst: impl Into<View<'a>>,
        count: usize,
    ) -> Result<()> {
        collective!(self.crk_comm_all_gather(dtype, src, dst, count))
    }

    /// `dst = op` over all ranks of this rank's part of `src`; `count` is that of one part.
    pub fn reduce_scatter<'a>(
        &self,
        dtype: DType,
        op: CommOp,
        src: impl Into<View<'a>>,
        dst: impl Into<View<'a>>,
        count: usize,
    ) -> Result<()> {
        collective!(self.crk_comm_reduce_scatter(dtype, op, src, dst, count))
    }

    /// Sends part r of `src` to rank r, and receives part r of `dst` from it; `count` is that of one part.
    pub fn all_to_all<'a>(
        &self,
        dtype: DType,
        src: impl Into<View<'a>>,
        dst: impl Into<View<'a>>,
        count: usize,
    ) -> Result<()> {
        collective!(self.crk_comm_all_to_all(dtype, src, dst, count))
    }

    /// Sends `count` elements to rank `peer`.
    pub fn send<'a>(&self, dtype: DType, src: impl Into<View<'a>>, count: usize, peer: usize) -> Result<()> {
        collective!(self.crk_comm_send(dtype, src, count, number(peer)))
    }

    /// Receives `count` elements from rank `peer`.
    pub fn recv<'a>(&self, dtype: DType, dst: impl Into<View<'a>>, count: usize, peer: usize) -> Result<()> {
        collective!(self.crk_comm_recv(dtype, dst, count, number(peer)))
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        // SAFETY: made by crk_comm_create or crk_comm_create_async, and destroyed once.
        unsafe { sys::crk_comm_destroy(self.raw) }
    }
}

/// A number for C, which refuses the greatest one.
fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Starts together the collectives that `body` calls, of one or several communicators. All communicators and buffers in
/// these calls must outlive the group, so keep them outside `body`. Where `body` fails its error is returned, and what
/// it has called until then is started too.
///
/// # Safety
/// The communicators and buffers of the calls live until this function returns.
pub unsafe fn comm_group<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    /// Ends the group, also if the body panics.
    struct Group;
    impl Group {
        fn end(self) -> Result<()> {
            std::mem::forget(self);
            // SAFETY: the caller's promise: what the calls use is alive.
            check(unsafe { sys::crk_comm_group_end() })
        }
    }
    impl Drop for Group {
        fn drop(&mut self) {
            // SAFETY: as above. A failure has nowhere to go while a panic unwinds.
            let _ = unsafe { sys::crk_comm_group_end() };
        }
    }
    // SAFETY: takes no arguments.
    check(unsafe { sys::crk_comm_group_begin() })?;
    let group = Group;
    let done = body();
    let ended = group.end();
    let value = done?;
    ended?;
    Ok(value)
}

impl CommId {
    /// The id that another rank has sent. Fails for another number of bytes than 128.
    pub fn from_bytes(bytes: &[u8]) -> Result<CommId> {
        let refused =
            |_| Error::new(Status::InvalidArgument, format!("CommId::from_bytes: {} bytes, not 128", bytes.len()));
        Ok(CommId { bytes: bytes.try_into().map_err(refused)? })
    }
}
