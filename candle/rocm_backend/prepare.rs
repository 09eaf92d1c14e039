//! Devices load their kernels and the BLAS libraries in threads of their own, while the program loads its model.
use candle_rocm_sys::{Backend, Device};
use std::ffi::c_int;
use std::process::id;
use std::sync::{Mutex, Once};
use std::thread::{Builder, JoinHandle};

/// The threads, each with the process that started it: a process that forks off has none of its parent's threads.
static THREADS: Mutex<Vec<(u32, JoinHandle<()>)>> = Mutex::new(Vec::new());

extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

/// Begins to prepare a GPU. What fails here fails again in the call that needs it, which returns the error.
pub(super) fn begin(handle: &Device) {
    static AT_EXIT: Once = Once::new();
    if !handle.info().is_ok_and(|info| info.backend != Backend::Cpu as _) {
        return;
    }
    let own = handle.clone();
    let thread = Builder::new().name("candle-rocm-prepare".into()).spawn(move || drop(own.prepare()));
    if let Ok(thread) = thread {
        // SAFETY: the function is there as long as the program. The runtime's own work at exit comes after it, because
        // the runtime was opened before.
        AT_EXIT.call_once(|| {
            let _ = unsafe { atexit(at_exit) };
        });
        THREADS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((id(), thread));
    }
}

/// A runtime that shuts down while a thread is inside of it would crash the program.
extern "C" fn at_exit() {
    finish_preparing();
}

/// Waits for the threads that load kernels and BLAS libraries for devices, as the synchronisation of a device does. A
/// program need not call this: a call that needs one of these waits for it. It is for measurements.
pub fn finish_preparing() {
    let mut threads = THREADS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (process, thread) in threads.drain(..) {
        if process == id() {
            let _ = thread.join();
        } else {
            // Joining or detaching a thread of another process would abort this one.
            std::mem::forget(thread);
        }
    }
}
