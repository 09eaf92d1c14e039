//! CUDA source on AMD GPUs: the programs of tests/port, compiled with kernels/cuda_port and run.
//!
//! A trial that compiles needs a HIP compiler with HIP's headers in HIPCC. A trial that runs needs a HIP device: it
//! compiles for that device by HIPCC, or by hipRTC with CANDLE_ROCM_PORT_RTC=1. Without these, trials are ignored.
use candle_rocm_sys::{Arg, Backend, Device, Function, Launch};
use candle_rocm_sys_tests::support::compiler::scratch;
use candle_rocm_sys_tests::support::paths::PROJECT;
use half::{bf16, f16};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../build/program.rs"]
mod program;

fn port(name: &str) -> PathBuf {
    Path::new(PROJECT).join("tests/port").join(name)
}

/// Compiles a source of tests/port for an architecture by the compiler in HIPCC. The error is the compiler's log.
fn compile(source: &str, arch: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let hipcc = std::env::var_os("HIPCC").expect("trials that compile are ignored without it");
    let flags = program::flags(&Path::new(PROJECT).join("kernels"), arch, true);
    let output = scratch(&format!("port-{}-{arch}", source.replace('/', "-"))).join("code.hsaco");
    let result = Command::new(hipcc)
        .args(flags)
        .args(options)
        .arg("-c")
        .arg(port(source))
        .arg("-o")
        .arg(&output)
        .output()
        .expect("HIPCC runs");
    if !result.status.success() {
        return Err(String::from_utf8_lossy(&result.stderr).into_owned());
    }
    Ok(std::fs::read(output).expect("the code object"))
}

/// Each line of a refused source that says `// error: TEXT` is named in the log with that text.
fn is_refused(source: &str) -> Result<(), Failed> {
    let name = format!("refused/{source}");
    let text = std::fs::read_to_string(port(&name)).expect("the source");
    let warp: &[&str] = if text.starts_with("// warp 64") { &["-DCRK_CUDA_WARP=64"] } else { &[] };
    let Err(log) = compile(&name, "gfx90a", warp) else { return Err(format!("{name} compiles").into()) };
    let expected = text.lines().enumerate().filter_map(|(i, line)| Some((i + 1, line.split_once("// error: ")?.1)));
    for (line, sentence) in expected {
        let found = log.lines().any(|told| told.contains(&format!("{source}:{line}:")) && told.contains(sentence));
        if !found {
            return Err(format!("{source}:{line}: '{sentence}' is not in:\n{log}").into());
        }
    }
    Ok(())
}

/// A kernel of a source of tests/port, on the device.
fn kernel(device: &Device, source: &str, name: &str, options: &[&str]) -> Function {
    if device.function_named(source, name).is_err() {
        if std::env::var_os("CANDLE_ROCM_PORT_RTC").is_some() {
            let text = std::fs::read_to_string(port(source)).expect("the source");
            device.compile_cuda_module(source, &text, options).expect("hipRTC compiles it");
        } else {
            let info = device.info().expect("the device's properties");
            let code = compile(source, info.architecture(), options).unwrap_or_else(|log| panic!("{log}"));
            // SAFETY: the code of a program of this test.
            unsafe { device.load_module(source, &code) }.expect("it loads");
        }
    }
    device.function_named(source, name).expect("the kernel")
}

fn check<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], expected: &[T]) -> Result<(), Failed> {
    match (0..expected.len().max(got.len())).find(|&i| got.get(i) != expected.get(i)) {
        None => Ok(()),
        Some(i) => Err(format!("{what}: element {i} is {:?}, not {:?}", got.get(i), expected.get(i)).into()),
    }
}

/// What the rows of warp.cu are, with warps of 32 lanes.
fn warp_rows(v: &[i32]) -> Vec<(&'static str, Vec<u32>)> {
    type Lane<'a> = (usize, &'a [i32], usize);
    type Row = Box<dyn Fn(Lane) -> i64>;
    let ballot = |warp: &[i32], mask: u32, holds: &dyn Fn(i32) -> bool| -> u32 {
        warp.iter().enumerate().map(|(i, &v)| u32::from(holds(v)) << i).sum::<u32>() & mask
    };
    let odd = |v: i32| v & 1 != 0;
    let all = u32::MAX;
    let odd_in_block = v.iter().filter(|&&v| odd(v)).count();
    let rows: Vec<(&'static str, Row)> = vec![
        ("shfl 5", Box::new(|(_, w, _)| w[5].into())),
        ("shfl lane + 3", Box::new(|(l, w, _)| w[(l + 3) % 32].into())),
        ("shfl 9 of 8", Box::new(|(l, w, _)| w[l / 8 * 8 + 1].into())),
        ("up 2", Box::new(|(l, w, _)| w[if l >= 2 { l - 2 } else { l }].into())),
        ("up 3 of 16", Box::new(|(l, w, _)| w[if l % 16 >= 3 { l - 3 } else { l }].into())),
        ("down 7", Box::new(|(l, w, _)| w[if l + 7 < 32 { l + 7 } else { l }].into())),
        ("down 1 of 4", Box::new(|(l, w, _)| w[if l % 4 < 3 { l + 1 } else { l }].into())),
        ("xor 16", Box::new(|(l, w, _)| w[l ^ 16].into())),
        ("xor 5 of 8", Box::new(|(l, w, _)| w[l ^ 5].into())),
        ("xor 16 of 8", Box::new(|(l, w, _)| w[if l < 16 { l } else { l ^ 16 }].into())),
        ("ballot", Box::new(move |(_, w, _)| ballot(w, all, &odd).into())),
        ("ballot of 16", Box::new(move |(_, w, _)| ballot(w, 0xffff, &odd).into())),
        ("any", Box::new(|(_, w, _)| w.contains(&7).into())),
        ("all", Box::new(|(_, w, _)| w.iter().all(|&v| v < 90).into())),
        ("match", Box::new(move |(l, w, _)| ballot(w, all, &|v| v & 3 == w[l] & 3).into())),
        ("sum", Box::new(|(_, w, _)| w.iter().sum::<i32>().into())),
        ("largest", Box::new(|(_, w, _)| (*w.iter().max().expect("a lane")).into())),
        ("active", Box::new(|_| 32)),
        ("down 1, double", Box::new(|(l, w, _)| w[(l + 1).min(31)].into())),
        ("xor 1, short", Box::new(|(l, w, _)| w[l ^ 1].into())),
        ("count of the block", Box::new(move |_| odd_in_block as i64)),
        (
            "one warp alone",
            Box::new(move |(_, w, warp)| {
                let other = |v: i32| v & 2 != 0;
                if warp % 2 == 1 { i64::from(w[1]) + i64::from(ballot(w, all, &other)) } else { 0 }
            }),
        ),
        (
            "half a warp alone",
            Box::new(move |(l, w, _)| match l < 16 {
                true => i64::from(w[l ^ 1]) + i64::from(ballot(w, 0xffff, &odd)),
                false => ballot(w, 0xffff_0000, &|v| v & 4 != 0).into(),
            }),
        ),
        ("warpSize", Box::new(|_| 32)),
    ];
    let lanes = || v.chunks(32).enumerate().flat_map(|(warp, w)| (0..w.len()).map(move |lane| (lane, w, warp)));
    rows.iter().map(|(name, row)| (*name, lanes().map(|lane| row(lane) as u32).collect())).collect()
}

/// Blocks of three warps, so that the second half of a wave of 64 lanes is missing once.
fn warps_of_32_lanes(device: &Device) -> Result<(), Failed> {
    let values: Vec<i32> = (0..96).map(|i| i * 37 % 101 - (i % 2)).collect();
    let rows = warp_rows(&values);
    let (src, dst) = (device.upload(&values)?, device.alloc(rows.len() * values.len() * 4)?);
    let launch = Launch { grid: [1, 1, 1], block: [96, 1, 1], shared_bytes: 0 };
    // SAFETY: the kernel's arguments; `dst` has every row.
    unsafe { kernel(device, "warp.cu", "warps", &[]).launch(launch, &[(&src).into(), (&dst).into()])? };
    let got = dst.download::<u32>()?;
    rows.iter().zip(got.chunks(96)).try_for_each(|((name, expected), got)| check(name, got, expected))
}

/// The rows of narrow.cu by a type of the crate half; `round` rounds to it once.
fn narrow_rows(values: &[f32], round: fn(f64) -> f64) -> Vec<(&'static str, Vec<f32>)> {
    let n = values.len() / 2;
    let rounded: Vec<f64> = values.iter().map(|&v| round(v.into())).collect();
    let (a, b) = rounded.split_at(n);
    let row = |f: &dyn Fn(f64, f64) -> f64| (0..n).map(|i| f(a[i], b[i]) as f32).collect();
    vec![
        ("a", row(&|a, _| a)),
        ("a + b", row(&|a, b| round(a + b))),
        ("a - b", row(&|a, b| round(a - b))),
        ("a * b", row(&|a, b| round(a * b))),
        ("a / b", row(&|a, b| round(a / b))),
        ("fma(a, b, a)", row(&|a, b| round(a * b + a))),
        ("fma(a, b, b) of a pair", row(&|a, b| round(a * b + b))),
        ("b + b of a pair", row(&|_, b| round(b + b))),
        ("max", row(&|a, b| a.max(b))),
        ("abs", row(&|a, _| a.abs())),
        ("a < b", row(&|a, b| f64::from(u8::from(a < b)))),
        ("a == a", row(&|_, _| 1.0)),
        ("sqrt", row(&|a, _| round(a.abs().sqrt()))),
        ("a mixture with float", row(&|a, b| a * 2.0 + b)),
        ("a += b", row(&|a, b| round(a + b))),
        ("xor 1", (0..n).map(|i| a[i ^ 1] as f32).collect()),
    ]
}

fn narrow_floats(device: &Device) -> Result<(), Failed> {
    let values: Vec<f32> = (0..128).map(|i| ((i * 29 + 7) % 61) as f32 * 0.37 - 9.25).collect();
    let f16_once: fn(f64) -> f64 = |x| f16::from_f64(x).to_f64();
    let bf16_once: fn(f64) -> f64 = |x| bf16::from_f64(x).to_f64();
    let half_of_32 = [f16::from_f32(32.0).to_bits(), bf16::from_f32(32.0).to_bits()];
    for ((name, round), sum_of_all) in [("rows_f16", f16_once), ("rows_bf16", bf16_once)].into_iter().zip(half_of_32) {
        let rows = narrow_rows(&values, round);
        let (src, sum) = (device.upload(&values)?, device.upload(&[0u16; 2])?);
        let dst = device.alloc(rows.len() * 64 * 4)?;
        let launch = Launch { grid: [1, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
        // SAFETY: the kernel's arguments; `dst` has every row.
        let args = [(&src).into(), (&dst).into(), Arg::buffer(&sum, 0)];
        unsafe { kernel(device, "narrow.cu", name, &[]).launch(launch, &args)? };
        let got = dst.download::<f32>()?;
        for ((row, expected), got) in rows.iter().zip(got.chunks(64)) {
            check(&format!("{name}: {row}"), got, expected)?;
        }
        check(&format!("{name}: the sum"), &sum.download::<u16>()?, &[sum_of_all, 0])?;
    }
    Ok(())
}

fn sums_of_blocks(device: &Device) -> Result<(), Failed> {
    let (threads, blocks) = (160, 2);
    let values: Vec<i32> = (0..threads * blocks).map(|i| (i * 53 % 97) as i32).collect();
    let (src, dst) = (device.upload(&values)?, device.alloc(values.len() * 20)?);
    let launch = Launch { grid: [blocks as u32, 1, 1], block: [threads as u32, 1, 1], shared_bytes: 32 * 4 };
    let args = [(&src).into(), (&dst).into(), (values.len() as i32).into()];
    // SAFETY: the kernel's arguments; `dst` has five numbers per thread.
    unsafe { kernel(device, "groups.cu", "sums", &[]).launch(launch, &args)? };
    let expected: Vec<i32> = (0..values.len())
        .flat_map(|i| {
            let sum = values[i / threads * threads..][..threads].iter().sum();
            let most = *values[i / 4 * 4..][..4].iter().max().expect("four");
            // A tile of a tile of 32 lanes is one of its 8.
            let four = (most * 32 + (i % threads % 32 / 4) as i32) * 32 + 8;
            // Only the lowest byte of `v` is not 0; its factor is 3.
            let dot = values[i] * 3 + i as i32;
            let warp = &values[i / 32 * 32..][..32];
            let thirds = |of: &[i32]| of.iter().filter(|&&v| v % 3 == 0).count() as i32;
            let members = if values[i] % 3 == 0 { thirds(warp) * 100 + thirds(&warp[..i % 32]) } else { 0 };
            [sum, sum, four, dot, members + 1]
        })
        .collect();
    check("sums", &dst.download::<i32>()?, &expected)
}

/// Barriers that count the threads of a block, after some have returned. Thread 0 and one whole wave are among them.
fn counts_without_returned_threads(device: &Device) -> Result<(), Failed> {
    let values: Vec<i32> = (0..224).map(|i| (i * 41 + 5) % 89).collect();
    let returns = |i: &usize| i % 37 == 0 || i / 64 == 1;
    let live: Vec<i32> = (0..values.len()).filter(|i| !returns(i)).map(|i| values[i]).collect();
    let count = |holds: &dyn Fn(i32) -> bool| live.iter().filter(|&&v| holds(v)).count() as i32;
    let same = count(&|v| v == values[0]);
    let row = [count(&|v| v & 1 != 0), count(&|v| v & 2 != 0), i32::from(same != 0), i32::from(same == 0)];
    let expected: Vec<i32> = (0..values.len()).flat_map(|i| if returns(&i) { [-1; 4] } else { row }).collect();
    let (src, dst) = (device.upload(&values)?, device.upload(&vec![-1i32; 4 * values.len()])?);
    let launch = Launch { grid: [1, 1, 1], block: [values.len() as u32, 1, 1], shared_bytes: 0 };
    // SAFETY: the kernel's arguments; `dst` has four numbers per thread.
    unsafe { kernel(device, "blocks.cu", "counts", &[]).launch(launch, &[(&src).into(), (&dst).into()])? };
    check("counts", &dst.download::<i32>()?, &expected)
}

/// Blocks that wait for the data of the block before them, which a GPU starts earlier. The sum of seven types' values,
/// of which one has four elements and one has two.
fn data_of_other_blocks(device: &Device) -> Result<(), Failed> {
    let (threads, blocks) = (96, 5);
    let values: Vec<i32> = (0..threads).map(|i| i as i32 * 7 % 103 - 50).collect();
    let (src, flags) = (device.upload(&values)?, device.upload(&vec![0i32; blocks])?);
    let (rows, dst) = (device.alloc(blocks * threads * 7 * 16)?, device.alloc(blocks * threads * 4)?);
    let launch = Launch { grid: [blocks as u32, 1, 1], block: [threads as u32, 1, 1], shared_bytes: 0 };
    let args = [(&src).into(), (&rows).into(), (&flags).into(), (&dst).into()];
    // SAFETY: the kernel's arguments; `rows` has 16 bytes per value, `flags` one number per block.
    unsafe { kernel(device, "blocks.cu", "relay", &[]).launch(launch, &args)? };
    let expected: Vec<i32> =
        (0..blocks as i32).flat_map(|block| values.iter().map(move |v| (v + block) * 11)).collect();
    check("relay", &dst.download::<i32>()?, &expected)
}

/// Warps that are whole waves, where those have 64 lanes. Elsewhere the option is refused.
fn warps_of_64_lanes(device: &Device) -> Result<(), Failed> {
    let option = ["-DCRK_CUDA_WARP=64"];
    if device.info()?.wave_size != 64 {
        let text = std::fs::read_to_string(port("wide.cu")).expect("the source");
        let log = match std::env::var_os("CANDLE_ROCM_PORT_RTC") {
            Some(_) => device.compile_cuda_module("wide", &text, &option).map_err(|error| error.to_string()),
            None => compile("wide.cu", device.info()?.architecture(), &option).map(drop),
        };
        let log = log.expect_err("waves of 32 lanes");
        assert!(log.contains("CRK_CUDA_WARP is 64, and this GPU's waves have 32 lanes"), "{log}");
        return Ok(());
    }
    let values: Vec<i32> = (0..128).map(|i| i * 31 % 57).collect();
    let (src, dst) = (device.upload(&values)?, device.alloc(values.len() * 16)?);
    let launch = Launch { grid: [1, 1, 1], block: [128, 1, 1], shared_bytes: 0 };
    // SAFETY: the kernel's arguments; `dst` has two numbers per thread.
    unsafe { kernel(device, "wide.cu", "wide", &option).launch(launch, &[(&src).into(), (&dst).into()])? };
    let of_wave = |wave: &[i32]| {
        let odd = wave.iter().enumerate().map(|(i, v)| ((v & 1) as u64) << i).sum::<u64>();
        [wave.iter().sum::<i32>() as u64, odd].repeat(64)
    };
    check("wide", &dst.download::<u64>()?, &values.chunks(64).flat_map(of_wave).collect::<Vec<_>>())
}

fn main() {
    let has_compiler = std::env::var_os("HIPCC").is_some();
    let mut trials = Vec::new();
    for source in ["names.cu", "warp.cu", "narrow.cu", "groups.cu", "blocks.cu"] {
        for arch in ["gfx90a", "gfx1030", "gfx1100"] {
            let run = move || compile(source, arch, &[]).map(drop).map_err(Failed::from);
            trials.push(Trial::test(format!("compiles::{source}::{arch}"), run).with_ignored_flag(!has_compiler));
        }
    }
    for source in ["asm.cu", "mask.cu", "lane.cu", "grid.cu", "header.cu"] {
        let run = move || is_refused(source);
        trials.push(Trial::test(format!("refused::{source}"), run).with_ignored_flag(!has_compiler));
    }
    let device = Device::open(Backend::Hip, 0).ok();
    let runs = device.is_some() && (has_compiler || std::env::var_os("CANDLE_ROCM_PORT_RTC").is_some());
    type Run = fn(&Device) -> Result<(), Failed>;
    let all: [(&str, Run); 6] = [
        ("warps", warps_of_32_lanes),
        ("wide_warps", warps_of_64_lanes),
        ("narrow_floats", narrow_floats),
        ("sums", sums_of_blocks),
        ("counts", counts_without_returned_threads),
        ("relay", data_of_other_blocks),
    ];
    for (name, run) in all {
        let device = device.clone();
        let run = move || run(&device.expect("runs are ignored without a device"));
        trials.push(Trial::test(format!("runs::{name}"), run).with_ignored_flag(!runs));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
