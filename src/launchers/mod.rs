//! The launchers as methods of [`crate::Device`], one file per family. Their buffers belong to one handle. The
//! contracts are those of the C headers in `include/candle_rocm/launchers/`.

/// The body of a launcher's method: `launch!(self.crk_affine(dtype, layout, self.view(src)?, self.view(dst)?, mul,
/// add))` calls the launcher of [`crate::sys`] on this handle and turns its status into a `Result`.
///
/// Pass each [`crate::Buffer`] as `self.view(buffer)?`, which refuses a buffer of another handle. Pass layouts as
/// references, and dtypes, ops and numbers as they are. For anything else (a raw pointer, a view made by hand) the
/// family must make the call sound and explain it in a SAFETY comment. The `mod` lines below follow the macro, so that
/// every family can use it.
macro_rules! launch {
    ($self:ident.$launcher:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: a live handle, views of its buffers and live layouts; the launcher checks the memory that they reach.
        crate::error::check(unsafe { crate::sys::$launcher($self.raw(), $($argument),*) })
    };
}

/// The same for a launcher whose kernel reports ids out of range.
macro_rules! launch_reporting {
    ($self:ident.$launcher:ident($($argument:expr),* $(,)?)) => {
        $self.reporting(|| launch!($self.$launcher($($argument),*)))
    };
}

mod attention;
mod conv;
mod elementwise;
mod indexing;
mod matmat;
mod matmul;
mod matvec;
mod moe;
mod norm;
mod quantized;
mod random;
mod reduce;
mod rope;
mod sort;

pub use attention::{Attention, Starts, Strided};
pub use conv::Conv;
pub use moe::Routes;
pub use rope::HeadWeights;
