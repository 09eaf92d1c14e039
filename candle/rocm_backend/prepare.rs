//! Devices load their kernels and the BLAS libraries in threads of their own, while the program loads its model.
use candle_rocm_sys::{Backend, Device};
use std::ffi::c_int;
use std::process::id;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread::{Builder, JoinHandle};

/// The threads of one process. A process that forks off has none of its parent's threads, and a lock that one of them
/// held stays locked there. So it gets a list of its own.
struct Threads {
    process: u32,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

/// The list that was made last. It is never freed.
static THREADS: AtomicPtr<Threads> = AtomicPtr::new(std::ptr::null_mut());

extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

/// This process's list, if there is one.
fn threads() -> Option<&'static Threads> {
    // SAFETY: null, or a list that is never freed.
    let threads = unsafe { THREADS.load(Ordering::Acquire).as_ref() };
    threads.filter(|threads| threads.process == id())
}

/// This process's list. Who makes it also asks for the call at exit.
fn threads_or_new() -> &'static Threads {
    loop {
        let old = THREADS.load(Ordering::Acquire);
        if let Some(threads) = threads() {
            return threads;
        }
        let new = Box::into_raw(Box::new(Threads { process: id(), handles: Mutex::default() }));
        if THREADS.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // SAFETY: the function is there as long as the program. The runtime's own work at exit comes after it,
            // because the runtime was opened before.
            let _ = unsafe { atexit(at_exit) };
        } else {
            // SAFETY: no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Begins to prepare a GPU. What fails here fails again in the call that needs it, which returns the error.
pub(super) fn begin(handle: &Device) {
    if !handle.info().is_ok_and(|info| info.backend != Backend::Cpu as _) {
        return;
    }
    let own = handle.clone();
    let thread = Builder::new().name("candle-rocm-prepare".into()).spawn(move || drop(own.prepare()));
    if let Ok(thread) = thread {
        threads_or_new().handles.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(thread);
    }
}

/// A runtime that shuts down while a thread is inside of it would crash the program.
extern "C" fn at_exit() {
    finish_preparing();
}

/// Waits for the threads that load kernels and BLAS libraries for devices, as the synchronisation of a device does. A
/// program need not call this: a call that needs one of these waits for it. It is for measurements.
pub fn finish_preparing() {
    let Some(threads) = threads() else { return };
    for thread in threads.handles.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).drain(..) {
        let _ = thread.join();
    }
}
