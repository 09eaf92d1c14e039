//! Ops by the roots of Candle's kernel names, as in [`crate::UnaryOp::from_root`].
use crate::sys;

macro_rules! from_root {
    ($($op:ident $roots:ident $example:literal,)*) => {
        $(impl sys::$op {
            #[doc = concat!("The op of a kernel root of Candle's, such as `\"", $example, "\"`.")]
            pub const fn from_root(root: &str) -> Option<Self> {
                match position(&sys::$roots, root) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }
        })*
    };
}
from_root! {
    crk_unary_op CRK_UNARY_ROOTS "uexp",
    crk_binary_op CRK_BINARY_ROOTS "badd",
    crk_cmp_op CRK_CMP_ROOTS "eq",
    crk_reduce_op CRK_REDUCE_ROOTS "fast_sum",
}

const fn position(roots: &[&str], root: &str) -> Option<u32> {
    let mut i = 0;
    while i < roots.len() {
        if is_same(roots[i].as_bytes(), root.as_bytes()) {
            return Some(i as u32);
        }
        i += 1;
    }
    None
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
