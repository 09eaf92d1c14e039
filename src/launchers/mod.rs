//! The launchers on buffers of one handle, a file a family. The contracts are the header's.

/// The body of a launcher's method: `launch!(self.crk_affine(dtype, layout, self.view(src)?, self.view(dst)?, mul, add))`
/// calls the launcher of [`crate::sys`] on this handle with these arguments and turns its status into a `Result`. It is in scope in
/// every family's file, as their `mod` lines follow it. Every [`crate::Buffer`] is passed as `self.view(buffer)?`, which refuses one of another
/// handle; layouts, as references; dtypes, ops and numbers as they are. What has no such form (a raw pointer, a view made by
/// hand) is for the family to make sound, and to say why in a SAFETY comment.
macro_rules! launch {
    ($self:ident.$launcher:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: a live handle, views of its buffers and live layouts; the launcher checks what they reach.
        crate::error::check(unsafe { crate::sys::$launcher($self.raw(), $($argument),*) })
    };
}

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

pub use conv::Conv;
pub use moe::Routes;
