//! `crk_divisor_t` of kernels/call/sliding.h, which kernels by name take.

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Divisor {
    size: u64,
    mul: u64,
    shift: u32,
    unused: u32,
}

impl Divisor {
    pub fn new(size: usize, wide: bool) -> Divisor {
        let shift = size.next_power_of_two().trailing_zeros();
        let rest = (1u128 << shift) - size as u128;
        let mul = (rest << if wide { 64 } else { 32 }) / size as u128 + 1;
        Divisor { size: size as u64, mul: mul as u64, shift, unused: 0 }
    }
}
