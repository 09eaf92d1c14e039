//! The launchers as methods of [`crate::Device`], one file per family. Their buffers belong to one handle. The
//! contracts are those of the C headers in `include/candle_rocm/launchers/`.

use crate::{Device, Result, View, sys};

/// The body of a launcher's method: `launch!(self.crk_affine(dtype, layout, src, dst, mul, add))` calls the launcher of
/// [`crate::sys`] on this handle and turns its status into a `Result`.
///
/// [`Argument`] makes views of buffers, and refuses a buffer of another handle by the name that it has here. So give it
/// the name of the launcher's contract. Pass layouts as references, and dtypes, ops and numbers as they are. For
/// anything else (a raw pointer, a view made by hand) the family must make the call sound and explain it in a SAFETY
/// comment. The `mod` lines below follow the macro, so that every family can use it.
macro_rules! launch {
    ($self:ident.$launcher:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: a live handle, views of its buffers and live layouts; the launcher checks the memory that they reach.
        crate::error::check(unsafe {
            crate::sys::$launcher($self.raw(), $(crate::launchers::Argument::raw(
                $argument, $self, stringify!($launcher), stringify!($argument)
            )?),*)
        })
    };
}

/// The same for a launcher whose kernel reports ids out of range.
macro_rules! launch_reporting {
    ($self:ident.$launcher:ident($($argument:expr),* $(,)?)) => {
        $self.reporting(|| launch!($self.$launcher($($argument),*)))
    };
}

/// An argument of `launch!`, and the type `Raw` that the launcher takes.
pub(crate) trait Argument<Raw> {
    /// What the launcher gets. `place` is how the call writes the argument, such as `lhs.1` for `lhs`.
    fn raw(self, device: &Device, launcher: &str, place: &str) -> Result<Raw>;
}

impl<T> Argument<T> for T {
    fn raw(self, _: &Device, _: &str, _: &str) -> Result<T> {
        Ok(self)
    }
}

/// Implements [`Argument`] for views that a launcher writes, and for views that it only reads. None is an absent view.
macro_rules! views {
    ($($raw:ident)*) => {
        $(
            impl<'a, V: Into<View<'a>>> Argument<sys::$raw> for V {
                fn raw(self, device: &Device, launcher: &str, place: &str) -> Result<sys::$raw> {
                    device.view(launcher, name(place), self)
                }
            }

            impl<'a, V: Into<View<'a>>> Argument<sys::$raw> for Option<V> {
                fn raw(self, device: &Device, launcher: &str, place: &str) -> Result<sys::$raw> {
                    device.optional(launcher, name(place), self.map(V::into))
                }
            }
        )*
    };
}
views!(crk_view_t crk_const_view_t);

/// The first name of a place.
fn name(place: &str) -> &str {
    place.split('.').next().unwrap_or(place)
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
