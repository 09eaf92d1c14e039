//! Errors: a status of the C core with its sentence.
use crate::{Status, sys};
use std::ffi::CStr;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    status: Status,
    device_code: i32,
    message: String,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the Rust layer.
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Error { status, device_code: 0, message: message.into() }
    }

    /// The kind of failure.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The driver's own error number, where the status is `CRK_DEVICE`; else 0.
    pub fn device_code(&self) -> i32 {
        self.device_code
    }

    /// The sentence: the function, the argument, its value, and the driver's answer.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status.name(), self.message)
    }
}

impl std::error::Error for Error {}

/// Turns a status into a result. A failure takes the thread's sentence with it.
pub(crate) fn check(status: Status) -> Result<()> {
    if status == Status::Ok {
        return Ok(());
    }
    // SAFETY: both read the calling thread's record. The pointer is never NULL, and valid until the next failure.
    let (message, code) = unsafe { (CStr::from_ptr(sys::crk_last_error()), sys::crk_last_device_error()) };
    let device_code = if status == Status::Device { code } else { 0 };
    Err(Error { status, device_code, message: message.to_string_lossy().into_owned() })
}

impl sys::crk_status {
    /// The status' name, such as `"CRK_OUT_OF_MEMORY"`.
    pub fn name(self) -> &'static str {
        // SAFETY: takes any value; the text is static.
        unsafe { static_text(sys::crk_status_name(self)) }.unwrap_or("CRK_UNKNOWN")
    }
}

impl sys::crk_dtype {
    /// Candle's name, such as `"bf16"`; None for a value that is no dtype.
    pub fn name(self) -> Option<&'static str> {
        // SAFETY: takes any value; the text is static.
        unsafe { static_text(sys::crk_dtype_name(self)) }
    }

    /// Bytes of an element; 0 for a value that is no dtype.
    pub fn size(self) -> usize {
        // SAFETY: takes any value.
        unsafe { sys::crk_dtype_size(self) }
    }
}

/// # Safety
/// `text` is NULL or a static NUL-terminated string.
pub(crate) unsafe fn static_text(text: *const std::ffi::c_char) -> Option<&'static str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}
