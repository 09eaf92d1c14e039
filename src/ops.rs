//! Ops by the roots of Candle's kernel names.
use crate::error::check;
use crate::{Error, Result, Status, sys};
use std::ffi::c_char;

macro_rules! from_root {
    ($($op:ident $lookup:ident $example:literal,)*) => {
        $(impl sys::$op {
            #[doc = concat!("The op of a root of Candle's kernel names, such as `\"", $example, "\"`.")]
            pub fn from_root(root: &str) -> Result<Self> {
                let (mut op, root) = (Self(0), Root::new(root)?);
                // SAFETY: the root ends with a NUL; `op` is written on success.
                check(unsafe { sys::$lookup(root.0.as_ptr(), &mut op) })?;
                Ok(op)
            }
        })*
    };
}
from_root! {
    crk_unary_op crk_unary_op_from_root "uexp",
    crk_binary_op crk_binary_op_from_root "badd",
    crk_cmp_op crk_cmp_op_from_root "eq",
    crk_reduce_op crk_reduce_op_from_root "fast_sum",
}

/// A root as C takes it, without an allocation.
struct Root([c_char; 32]);

impl Root {
    fn new(root: &str) -> Result<Root> {
        let mut text = [0; 32];
        if root.len() >= text.len() {
            return Err(Error::new(Status::CRK_INVALID_ARGUMENT, format!("there is no op of the root {root:?}")));
        }
        for (to, from) in text.iter_mut().zip(root.bytes()) {
            *to = from as c_char;
        }
        Ok(Root(text))
    }
}
