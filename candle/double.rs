//! The calls that reach the double of libamdhip64 (tests/double of the folder above), for tests that count them.
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Calls in order, each with the number of times that it was made in a row.
pub type Calls = Vec<(String, usize)>;

/// The address of a function of the double.
fn function(name: &CStr) -> *mut c_void {
    let path = std::env::var_os("CANDLE_ROCM_HIP_LIBRARY").expect("the double's path");
    let path = CString::new(path.into_vec()).expect("no NUL in a path");
    // SAFETY: the library is already open, and 2 is RTLD_NOW; both texts end with a NUL.
    let function = unsafe { dlsym(dlopen(path.as_ptr(), 2), name.as_ptr()) };
    assert!(!function.is_null(), "{path:?} is not the double");
    function
}

/// Makes the `nth` call of `call` from now on (1 is the next) fail with HIP's error `code`. A code of 0 ends this.
pub fn fail(call: &CStr, nth: u64, code: i32) {
    // SAFETY: hip_double_fail has this type.
    let fail: extern "C" fn(*const c_char, u64, c_int) -> c_int =
        unsafe { std::mem::transmute(function(c"hip_double_fail")) };
    assert_eq!(fail(call.as_ptr(), nth, code), 0, "{call:?}");
}

/// What the double tells by its function `name`: a text with a line for each thing since the last time.
fn told(name: &CStr) -> String {
    let mut text = vec![0u8; 1 << 16];
    // SAFETY: the functions have this type, and write a text that ends with a NUL.
    let text = unsafe {
        let tell: extern "C" fn(*mut c_char, usize) = std::mem::transmute(function(name));
        tell(text.as_mut_ptr().cast(), text.len());
        CStr::from_ptr(text.as_ptr().cast())
    };
    text.to_string_lossy().into_owned()
}

/// The kernels that were launched since the last time this was called, each with its number of blocks.
pub fn launches() -> String {
    told(c"hip_double_launches")
}

/// The calls since the last time this was called.
pub fn calls() -> Calls {
    candle_core::rocm_backend::finish_preparing();
    let mut calls = Calls::new();
    for name in told(c"hip_double_trace").lines() {
        match calls.last_mut() {
            Some((last, count)) if last == name => *count += 1,
            _ => calls.push((name.to_owned(), 1)),
        }
    }
    calls
}
