//! The sample's kernels: what the bundles hold, and what they compute on a HIP device.
use candle_rocm_build_sample::{RMS, SCALE, load, rms, scale};
use candle_rocm_sys::{Backend, Device};
use libtest_mimic::{Arguments, Failed, Trial};

/// Every architecture of CANDLE_ROCM_ARCHS is in both bundles, with an ELF.
fn bundles_hold_every_architecture() -> Result<(), Failed> {
    let archs = std::env::var("CANDLE_ROCM_ARCHS").expect("ignored without it");
    for bundle in [RMS, SCALE] {
        assert!(bundle.starts_with(b"__CLANG_OFFLOAD_BUNDLE__"));
        for arch in archs.split(',') {
            let entry = format!("hipv4-amdgcn-amd-amdhsa--{arch}");
            assert!(bundle.windows(entry.len()).any(|part| part == entry.as_bytes()), "no {entry}");
        }
        assert_eq!(bundle.chunks(4096).filter(|page| page.starts_with(b"\x7fELF")).count(), archs.split(',').count());
    }
    Ok(())
}

/// f16 of small integers, and back.
fn f16(x: u16) -> u16 {
    if x == 0 { 0 } else { ((x.ilog2() + 15) << 10) as u16 | (x << (10 - x.ilog2())) & 0x3ff }
}
fn f32_of(code: u16) -> f32 {
    let magnitude = f32::from_bits(u32::from(code & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    if code & 0x8000 != 0 { -magnitude } else { magnitude }
}

fn kernels_run(device: &Device) -> Result<(), Failed> {
    load(device)?;
    let columns = 130;
    let values: Vec<u16> = (0..3 * columns as u16).map(|i| i * 7 % 23).collect();
    let src = device.upload(&values.iter().map(|&v| f16(v)).collect::<Vec<_>>())?;
    let got = rms(device, &src, columns)?.download::<u16>()?;
    for (row, got) in values.chunks(columns).zip(got.chunks(columns)) {
        let mean = row.iter().map(|&v| f32::from(v).powi(2)).sum::<f32>() / columns as f32;
        for (&v, &code) in row.iter().zip(got) {
            let expected = f32::from(v) / mean.sqrt();
            assert!((f32_of(code) - expected).abs() <= expected / 1024.0, "{} is not {expected}", f32_of(code));
        }
    }
    let x = device.upload(&[1f32, -2.0, 0.5])?;
    scale(device, &x)?;
    assert_eq!(x.download::<f32>()?, [3.0, -6.0, 1.5]);
    Ok(())
}

fn main() {
    let built = !RMS.is_empty();
    // With a word such as `generic`, the build chooses the architectures.
    let names_archs = std::env::var("CANDLE_ROCM_ARCHS").is_ok_and(|archs| archs.starts_with("gfx"));
    let device = Device::open(Backend::Hip, 0).ok().filter(|_| built);
    let bundles = Trial::test("bundles_hold_every_architecture", bundles_hold_every_architecture);
    let has_device = device.is_some();
    let run = move || kernels_run(&device.expect("ignored without a device"));
    let trials = vec![
        bundles.with_ignored_flag(!(built && names_archs)),
        Trial::test("runs::kernels_run", run).with_ignored_flag(!has_device),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
