//! A program with kernels of its own.
use candle_rocm_sys::{Buffer, Device, Launch, Result};

/// The bundles that `build.rs` made; empty in a build without kernels.
pub const RMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rms.hsaco"));
/// The same for `kernels/scale.hip`.
pub const SCALE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scale.hsaco"));

/// The program's modules on a device.
pub fn load(device: &Device) -> Result<()> {
    // SAFETY: the code of this program.
    unsafe { device.load_module("rms", RMS).and_then(|()| device.load_module("scale", SCALE)) }
}

/// Each row of `columns` f16 divided by its root mean square.
pub fn rms(device: &Device, src: &Buffer, columns: usize) -> Result<Buffer> {
    let dst = device.alloc(src.bytes())?;
    let rows = (src.bytes() / 2 / columns) as u32;
    let launch = Launch { grid: [rows, 1, 1], block: [96, 1, 1], shared_bytes: 0 };
    let args = [src.into(), (&dst).into(), (columns as i32).into(), 1e-6f32.into()];
    // SAFETY: the kernel's arguments; both buffers have `rows` rows.
    unsafe { device.function_named("rms", "rms_f16")?.launch(launch, &args)? };
    Ok(dst)
}

/// Multiplies f32 numbers by the factor that `build.rs` names.
pub fn scale(device: &Device, x: &Buffer) -> Result<()> {
    let count = (x.bytes() / 4) as u32;
    // SAFETY: the kernel's arguments.
    unsafe { device.function_named("scale", "scale")?.launch(Launch::for_num_elems(count), &[x.into(), count.into()]) }
}
