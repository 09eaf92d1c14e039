//! The CUDA driver with a double of libcuda: how it loads, what it refuses, and its messages. The golden tests check
//! results on a real GPU.
#![cfg(unix)]
use candle_rocm_sys::{Arg, Backend, Device, Launch, Status, sys};
use candle_rocm_sys_tests::support::paths::SCRATCH;
use std::ffi::{CStr, CString};

use candle_rocm_sys_tests::support::double as double_support;
use double_support::{compile, is_alone};

/// The double, compiled with `defines` for one test. The test's own process finds it compiled.
fn double(test: &str, defines: &[&str]) -> String {
    let library = format!("{SCRATCH}/libcuda_{test}.so");
    if !is_alone(test) {
        compile("cuda_double.c", defines, &library);
    }
    library
}

/// Runs `body` in a process of its own, with `library` as libcuda. `fail` lists the double's failures.
fn alone(test: &str, library: String, fail: &str, body: fn()) {
    double_support::alone(test, &[("CANDLE_ROCM_CUDA_LIBRARY", &library), ("CUDA_DOUBLE_FAIL", fail)], body);
}

fn open() -> candle_rocm_sys::Result<Device> {
    Device::open(Backend::Cuda, 0)
}

#[track_caller]
fn refused<T>(result: candle_rocm_sys::Result<T>, status: Status, words: &[&str]) {
    let error = result.err().expect("must fail");
    assert_eq!(error.status(), status, "{error}");
    for word in words {
        assert!(error.message().contains(word), "no {word:?} in {:?}", error.message());
    }
}

fn last_error() -> String {
    // SAFETY: never NULL, valid until the thread's next failure.
    unsafe { CStr::from_ptr(sys::crk_last_error()) }.to_string_lossy().into_owned()
}

const PTX: &[u8] = b".version 8.0\n.target sm_90\n.address_size 64\n\0";

#[test]
fn a_missing_library_is_named() {
    alone("a_missing_library_is_named", "/nowhere/libcuda.so.1".into(), "", || {
        refused(open(), Status::NoRuntime, &["CANDLE_ROCM_CUDA_LIBRARY", "/nowhere/libcuda.so.1"]);
        // A failed search is repeated, and fails again.
        refused(open(), Status::NoRuntime, &["/nowhere/libcuda.so.1"]);
    });
}

#[test]
fn a_missing_symbol_is_named() {
    let test = "a_missing_symbol_is_named";
    alone(test, double(test, &["-DWITHOUT_GRAPHS"]), "", || {
        refused(open(), Status::NoRuntime, &["cuGraphLaunch", "CUDA 11.4"]);
        refused(open(), Status::NoRuntime, &["cuGraphLaunch"]);
    });
}

#[test]
fn a_machine_without_a_gpu_has_no_device() {
    let test = "a_machine_without_a_gpu_has_no_device";
    alone(test, double(test, &[]), "cuInit=100", || {
        let mut count = -1;
        // SAFETY: `count` is written.
        let status = unsafe { sys::crk_device_count(Backend::Cuda, &mut count) };
        assert_eq!((status, count), (Status::Ok, 0));
        refused(open(), Status::NoDevice, &["ordinal 0"]);
    });
}

#[test]
fn a_driver_that_fails_says_what() {
    let test = "a_driver_that_fails_says_what";
    alone(test, double(test, &[]), "cuInit=803", || {
        refused(open(), Status::Device, &["cuInit(0) answers 803 (CUDA_ERROR_803)"]);
    });
}

#[test]
fn calls_that_fail_are_told() {
    let test = "calls_that_fail_are_told";
    let rules = "cuStreamSynchronize=999,cuEventQuery=600,cuMemsetD8Async=700";
    alone(test, double(test, &[]), rules, || {
        let device = open().expect("the double opens");
        let sentence = "cuMemAlloc(1099511627776 bytes) answers 2 (CUDA_ERROR_2)";
        refused(device.alloc(1 << 40), Status::OutOfMemory, &[sentence]);
        let sentence = "cuStreamSynchronize() answers 999 (an error without a name)";
        refused(device.synchronize(), Status::Device, &[sentence]);
        let buffer = device.alloc(64).expect("a little memory");
        // SAFETY: a live handle, its own memory and event.
        unsafe {
            assert_eq!(sys::crk_memset(device.raw(), buffer.raw_view(), 0, 64), Status::Device);
            assert_eq!(sys::crk_last_device_error(), 700);
            assert!(last_error().contains("cuMemsetD8Async(64 bytes) answers 700"), "{}", last_error());
            let mut event = std::ptr::null_mut();
            assert_eq!(sys::crk_event_create(device.raw(), &mut event), Status::Ok);
            assert_eq!(sys::crk_event_record(event, device.raw()), Status::Ok);
            assert_eq!(sys::crk_event_query(event), Status::NotReady);
            sys::crk_event_destroy(event);
        }
    });
}

#[test]
fn a_capture_that_fails_is_over() {
    let test = "a_capture_that_fails_is_over";
    alone(test, double(test, &[]), "cuStreamEndCapture=901", || {
        let device = open().expect("the double opens");
        let mut graph = std::ptr::null_mut();
        // SAFETY: a live handle.
        unsafe {
            assert_eq!(sys::crk_graph_begin(device.raw()), Status::Ok);
            assert_eq!(sys::crk_graph_end(device.raw(), &mut graph), Status::Capture);
            assert!(last_error().contains("cuStreamEndCapture() answers 901"), "{}", last_error());
        }
        device.synchronize().expect("nothing is captured any more");
    });
}

fn copy_through_kernel(device: &Device) {
    // SAFETY: the double's one kernel, with its arguments.
    unsafe {
        device.load_module("mine", PTX).expect("PTX loads");
        let function = device.function_named("mine", "copy").expect("the kernel is there");
        let src = device.upload(&[1u8, 2, 3, 4]).expect("memory");
        let dst = device.upload(&[0u8; 4]).expect("memory");
        let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
        function.launch(launch, &[4usize.into(), (&src).into(), (&dst).into()]).expect("it runs");
        assert_eq!(dst.download::<u8>().expect("a copy back"), [1, 2, 3, 4]);

        let too_large = Launch { block: [1024, 1, 1], ..launch };
        let args: [Arg<'_>; 3] = [4usize.into(), (&src).into(), (&dst).into()];
        refused(function.launch(too_large, &args), Status::InvalidArgument, &["512"]);
        refused(device.function_named("mine", "other"), Status::NotFound, &["other"]);
    }
}

#[test]
fn a_kernel_runs() {
    let test = "a_kernel_runs";
    alone(test, double(test, &[]), "", || {
        let device = open().expect("the double opens");
        let info = device.info().expect("it tells what it is");
        assert_eq!((info.name(), info.architecture()), ("double 0", "sm_90"));
        assert_eq!((info.wave_size, info.compute_units, info.max_block_threads), (32, 132, 1024));
        assert_eq!((info.runtime_version, info.shared_bytes, info.memory_bytes), (12080, 232_448, 1 << 30));
        assert_eq!((info.simd_units, info.unit_threads, info.unit_shared_bytes), (528, 2048, 233_472));
        assert_eq!(info.max_grid_threads, 0x7fff_ffff * 1024);
        assert_eq!((info.pci_domain, info.pci_bus, info.pci_device), (1, 0x41, 2));
        assert_eq!((info.max_block, info.max_grid), ([1024, 1024, 64], [0x7fff_ffff, 65535, 65535]));
        assert_eq!(info.target(), "sm_90");
        copy_through_kernel(&device);

        let function = device.function_named("mine", "copy").expect("known by now");
        let (a, b) = (device.upload(&[7u8; 16]).expect("memory"), device.alloc(16).expect("memory"));
        let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
        // SAFETY: the double's kernel with its arguments, then with wrong ones, which are refused.
        unsafe {
            let mut count = 0;
            let mut params: [sys::crk_param_t; 4] = std::mem::zeroed();
            let status = sys::crk_function_params(function.raw(), &mut count, params.as_mut_ptr(), 4);
            assert_eq!((status, count), (Status::Ok, 3));
            assert!(params[..3].iter().all(|param| param.bytes == 8));
            let short: [Arg<'_>; 2] = [16usize.into(), (&a).into()];
            refused(function.launch(launch, &short), Status::InvalidArgument, &["copy"]);
            let narrow: [Arg<'_>; 3] = [16u32.into(), (&a).into(), (&b).into()];
            refused(function.launch(launch, &narrow), Status::InvalidArgument, &["copy"]);
            // NVIDIA's limits: a block is less deep than wide, and a grid less high and deep.
            let args: [Arg<'_>; 3] = [16usize.into(), (&a).into(), (&b).into()];
            for (grid, block, word) in [
                ([1, 1, 1], [1, 1, 65], "block.z is 65 threads, the most on double 0 is 64"),
                ([1, 65536, 1], [32, 1, 1], "grid.y is 65536 blocks, the most on double 0 is 65535"),
                ([1, 1, 65536], [32, 1, 1], "grid.z is 65536 blocks"),
            ] {
                let launch = Launch { grid, block, ..launch };
                refused(function.launch(launch, &args), Status::InvalidArgument, &[word]);
            }
            function.launch(Launch { block: [1, 1, 64], ..launch }, &args).expect("as deep as may be");

            // During a capture, launches are recorded. They run when the graph is launched.
            sys::crk_memset(device.raw(), b.raw_view(), 0, 16);
            assert_eq!(sys::crk_graph_begin(device.raw()), Status::Ok);
            function.launch(launch, &[16usize.into(), (&a).into(), (&b).into()]).expect("it is recorded");
            let mut graph = std::ptr::null_mut();
            assert_eq!(sys::crk_graph_end(device.raw(), &mut graph), Status::Ok);
            assert_eq!(b.download::<u8>().expect("a copy back"), [0; 16]);
            assert_eq!(sys::crk_graph_launch(graph), Status::Ok);
            assert_eq!(b.download::<u8>().expect("a copy back"), [7; 16]);
            sys::crk_graph_destroy(graph);

            // Two handles, and an event between them.
            let other = device.new_stream().expect("a second stream");
            let (mut start, mut end, mut elapsed) = (std::ptr::null_mut(), std::ptr::null_mut(), 0.0);
            assert_eq!(sys::crk_event_create(device.raw(), &mut start), Status::Ok);
            assert_eq!(sys::crk_event_create(device.raw(), &mut end), Status::Ok);
            assert_eq!(sys::crk_event_record(start, device.raw()), Status::Ok);
            assert_eq!(sys::crk_device_wait(other.raw(), start), Status::Ok);
            assert_eq!(sys::crk_event_record(end, device.raw()), Status::Ok);
            assert_eq!(sys::crk_event_synchronize(end), Status::Ok);
            assert_eq!(sys::crk_event_elapsed(start, end, &mut elapsed), Status::Ok);
            assert_eq!(elapsed, 1.5);
            sys::crk_event_destroy(start);
            sys::crk_event_destroy(end);
        }
    });
}

#[test]
fn a_driver_before_12_4_cannot_tell_parameters() {
    let test = "a_driver_before_12_4_cannot_tell_parameters";
    alone(test, double(test, &["-DWITHOUT_PARAM_INFO"]), "", || {
        let device = open().expect("the double opens");
        copy_through_kernel(&device);
        let function = device.function_named("mine", "copy").expect("known by now");
        let mut count = 0;
        // SAFETY: a live function, room for 0.
        let status = unsafe { sys::crk_function_params(function.raw(), &mut count, std::ptr::null_mut(), 0) };
        assert_eq!(status, Status::Unsupported);
    });
}

/// The launches that the handle gave in graphs, in eight rounds of six copies. Each round moves other bytes to another
/// place. Every second kernel begins early.
fn rounds_of_copies(device: &Device) -> u64 {
    // SAFETY: the double's kernels.
    unsafe { device.load_module("mine", PTX).expect("PTX loads") };
    let functions = ["copy", "early"].map(|name| device.function_named("mine", name).expect("the kernel is there"));
    let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
    let sources: Vec<_> = (0..8).map(|i| device.upload(&[10 * i as u8 + 1; 16]).expect("memory")).collect();
    for round in 0..8 {
        let targets: Vec<_> = (0..6).map(|_| device.upload(&[0u8; 16]).expect("memory")).collect();
        for (i, target) in targets.iter().enumerate() {
            let bytes = 1 + (round + i) % 16;
            let args: [Arg<'_>; 3] = [bytes.into(), (&sources[(round + i) % 8]).into(), target.into()];
            // SAFETY: the double's kernel, with its arguments.
            unsafe { functions[(i + 1) % 2].launch(launch, &args) }.expect("it runs");
        }
        for (i, target) in targets.iter().enumerate() {
            let bytes = 1 + (round + i) % 16;
            let mut expected = [0; 16];
            expected[..bytes].fill(10 * ((round + i) % 8) as u8 + 1);
            assert_eq!(target.download::<u8>().expect("a copy"), expected, "round {round}, copy {i}");
        }
    }
    device.replays().expect("a count")
}

#[test]
fn launches_that_repeat_are_given_in_graphs() {
    let test = "launches_that_repeat_are_given_in_graphs";
    // Three rounds until there is a graph.
    alone(test, double(test, &[]), "", || assert_eq!(rounds_of_copies(&open().expect("the double opens")), 5 * 6));
}

#[test]
fn only_kernels_that_wait_begin_early() {
    let test = "only_kernels_that_wait_begin_early";
    alone(test, double(test, &[]), "cuLaunchKernelEx=1", || {
        let device = open().expect("the double opens");
        // SAFETY: the double's kernels.
        unsafe { device.load_module("mine", PTX).expect("PTX loads") };
        let (source, target) = (device.upload(&[7u8; 16]).expect("memory"), device.upload(&[0u8; 16]).expect("memory"));
        let args: [Arg<'_>; 3] = [16usize.into(), (&source).into(), (&target).into()];
        let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared_bytes: 0 };
        // SAFETY: the double's kernels, with their arguments.
        let run = |name| unsafe { device.function_named("mine", name)?.launch(launch, &args) };
        run("copy").expect("it runs");
        refused(run("early"), Status::Device, &["cuLaunchKernelEx(", "grid 1 x 1 x 1"]);
    });
}

#[test]
fn an_edge_that_fails_costs_the_graph_alone() {
    let test = "an_edge_that_fails_costs_the_graph_alone";
    let fail = "cuGraphAddDependencies_v2=1";
    alone(test, double(test, &[]), fail, || assert_eq!(rounds_of_copies(&open().expect("the double opens")), 0));
}

#[test]
fn before_12_3_no_kernel_begins_early() {
    let test = "before_12_3_no_kernel_begins_early";
    let library = double(test, &["-DWITHOUT_EARLY"]);
    alone(test, library, "", || assert_eq!(rounds_of_copies(&open().expect("the double opens")), 5 * 6));
}

#[test]
fn without_calls_for_chains_launches_are_given_one_by_one() {
    let test = "without_calls_for_chains_launches_are_given_one_by_one";
    let library = double(test, &["-DWITHOUT_CHAINS"]);
    alone(test, library, "", || assert_eq!(rounds_of_copies(&open().expect("the double opens")), 0));
}

#[test]
fn an_update_that_fails_costs_the_graph_alone() {
    let test = "an_update_that_fails_costs_the_graph_alone";
    let fail = "cuGraphExecKernelNodeSetParams=1";
    alone(test, double(test, &[]), fail, || assert_eq!(rounds_of_copies(&open().expect("the double opens")), 0));
}

/// An ELF header for `machine`, followed by `sections` section headers, each for the whole file.
fn elf(machine: u16, sections: u16) -> Vec<u8> {
    let total = 64 + 64 * usize::from(sections);
    let mut bytes = vec![0; total];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[40..48].copy_from_slice(&64u64.to_le_bytes());
    bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
    bytes[60..62].copy_from_slice(&sections.to_le_bytes());
    for section in bytes[64..].chunks_exact_mut(64) {
        section[4] = 1;
        section[32..40].copy_from_slice(&(total as u64).to_le_bytes());
    }
    bytes
}

fn fatbin(content: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x50\xed\x55\xba\x01\x00\x10\x00".to_vec();
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(content);
    bytes
}

fn packed(image: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; zstd_safe::compress_bound(image.len())];
    let bytes = zstd_safe::compress(&mut frame[..], image, 1).expect("a frame");
    frame.truncate(bytes);
    frame
}

#[test]
fn images_are_read_before_the_driver_sees_them() {
    let test = "images_are_read_before_the_driver_sees_them";
    alone(test, double(test, &[]), "", || {
        let device = open().expect("the double opens");
        // SAFETY: none of these images is run.
        let load = |name: &str, image: &[u8]| unsafe { device.load_module(name, image) };
        let invalid = Status::InvalidImage;

        load("elf", &elf(190, 2)).expect("a whole cubin");
        refused(load("x", &elf(224, 2)), invalid, &["module x", "machine 224"]);
        for bytes in [4, 20, 63, 64, 130, 191] {
            refused(load("x", &elf(190, 2)[..bytes]), invalid, &["module x"]);
        }
        let mut beyond = elf(190, 2);
        beyond[64 + 24] = 1; // the section begins one byte later, so it ends beyond the file
        refused(load("x", &beyond), invalid, &["section 0", "truncated"]);
        beyond[64 + 24..64 + 32].copy_from_slice(&u64::MAX.to_le_bytes());
        refused(load("x", &beyond), invalid, &["section 0"]);
        let mut segment = elf(190, 1);
        segment[32..40].copy_from_slice(&64u64.to_le_bytes()); // the bytes of the section's header
        segment[54..58].copy_from_slice(&[56, 0, 1, 0]);
        load("segment", &segment).expect("a segment of the whole file");
        segment[64 + 32] += 1; // the number of bytes is at the same place in both headers
        refused(load("x", &segment), invalid, &["segment 0", "truncated"]);
        segment[54] = 55;
        refused(load("x", &segment), invalid, &["headers"]);

        let whole = fatbin(b"code");
        load("fatbin", &whole).expect("a whole fatbin");
        for bytes in 4..whole.len() {
            refused(load("x", &whole[..bytes]), invalid, &["module x"]);
        }
        refused(load("x", &fatbin(b"")), invalid, &["empty"]);
        refused(load("x", &fatbin(b"W")), Status::WrongArchitecture, &["module x", "sm_90", "209"]);

        // The form that build.rs embeds.
        let packed = packed(&whole);
        load("packed", &packed).expect("a packed fatbin");
        for bytes in 4..packed.len() {
            refused(load("x", &packed[..bytes]), invalid, &["module x", "cut off"]);
        }

        refused(load("x", b"\x50\xed\x55"), invalid, &["module x"]);
        refused(load("x", &PTX[..PTX.len() - 1]), invalid, &["NUL"]);
        refused(load("x", b"no code at all\0"), invalid, &[".version"]);
        let newer = b".version 8.8\n.target sm_100\n\0";
        refused(load("x", newer), Status::WrongArchitecture, &["sm_100", "sm_90"]);
        refused(load("x", b".version 8.0\n.target sm_90\nnonsense\0"), invalid, &["218", "ptxas says", "nonsense"]);

        // The image may have any alignment.
        let mut shifted = vec![0u8; whole.len() + 8];
        for (i, name) in ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"].into_iter().enumerate() {
            shifted[i..i + whole.len()].copy_from_slice(&whole);
            load(name, &shifted[i..i + whole.len()]).expect("a whole fatbin");
        }
        // A name can be used once; a refused image does not use it up.
        load("x", PTX).expect("x is still free");
        refused(load("x", PTX), Status::InvalidArgument, &["x"]);
        let name = CString::new("y").expect("no NUL");
        // SAFETY: as above; a length of 0 means that nothing is read.
        let status = unsafe { sys::crk_module_load(device.raw(), name.as_ptr(), PTX.as_ptr().cast(), 0) };
        assert_ne!(status, Status::Ok);
    });
}
