//! The HIP driver with a double of libamdhip64 (tests/double): how it loads, what it refuses, its messages, and that
//! nothing leaks. Kernels run in their builds for the CPU. The golden tests check results at large.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::{AFFINE, Arg, Backend, DType, Device, Error, Launch, Layout, Status, UNARY, sys};
use candle_rocm_sys_tests::support::paths::{PROJECT, SCRATCH};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use candle_rocm_sys_tests::support::hip_double;
use hip_double::{Controls, alone, calls_in};

const MI250: &str = "gfx90a:sramecc+:xnack-";

fn open() -> candle_rocm_sys::Result<Device> {
    Device::open(Backend::Hip, 0)
}

#[track_caller]
fn refused<T>(result: candle_rocm_sys::Result<T>, status: Status, words: &[&str]) {
    let error = result.err().expect("must fail");
    assert_eq!(error.status(), status, "{error}");
    for word in words {
        assert!(error.message().contains(word), "'{word}' is not in: {error}");
    }
    assert_eq!(Controls::get().last_error(), 0, "the runtime still remembers: {error}");
}

/// A status and its sentence as the safe layer has them.
fn check(status: Status) -> Result<(), (Status, String)> {
    if status == Status::Ok {
        return Ok(());
    }
    // SAFETY: never NULL, valid until the thread's next failure.
    Err((status, unsafe { CStr::from_ptr(sys::crk_last_error()) }.to_string_lossy().into_owned()))
}

fn told(error: Error) -> (Status, String) {
    (error.status(), error.message().to_owned())
}

/// `uneg_f32` by name on `values`: Candle's arguments, Candle's geometry.
fn negate(device: &Device, values: &[f32]) -> candle_rocm_sys::Result<Vec<f32>> {
    let function = device.function(&UNARY, "uneg_f32")?;
    let (src, dst) = (device.upload(values)?, device.alloc(values.len() * 4)?);
    let args: [Arg<'_>; 5] =
        [values.len().into(), 1usize.into(), Arg::ptr(std::ptr::null()), (&src).into(), (&dst).into()];
    // SAFETY: the kernel's arguments; the buffers hold as many elements.
    unsafe { function.launch(Launch::for_num_elems(values.len() as u32), &args)? };
    dst.download()
}

/// Four rounds of the same four launches, with other arguments in each. A handle that replays gives the last two in
/// graphs.
fn repeat(device: &Device) -> candle_rocm_sys::Result<()> {
    const N: usize = 300;
    let layout = Layout::contiguous(&[N])?;
    for round in 0..4 {
        let (a, b) = (device.upload(&[1f32; N])?, device.alloc(N * 4)?);
        for i in 0..4 {
            let (src, dst) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
            device.affine(DType::F32, &layout, src, dst, 2.0, f64::from(round + i))?;
        }
        let expected = (0..4).fold(1.0, |value, i| 2.0 * value + (round + i) as f32);
        assert_eq!(a.download::<f32>()?, [expected; N]);
    }
    Ok(())
}

fn works(device: &Device) {
    let values: Vec<f32> = (0..5000).map(|i| i as f32 - 17.0).collect();
    let expected: Vec<f32> = values.iter().map(|v| -v).collect();
    assert_eq!(negate(device, &values).expect("a kernel runs"), expected);
}

// ---- loading

#[test]
fn a_library_that_is_not_there_is_named() {
    let test = "a_library_that_is_not_there_is_named";
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_HIP_LIBRARY", "/nowhere/libamdhip64.so")], || {
        for _ in 0..2 {
            let error = open().expect_err("must fail");
            assert_eq!(error.status(), Status::NoRuntime, "{error}");
            for word in ["CANDLE_ROCM_HIP_LIBRARY", "/nowhere/libamdhip64.so"] {
                assert!(error.message().contains(word), "'{word}' is not in: {error}");
            }
        }
        // The next attempt finds it.
        std::env::set_var("CANDLE_ROCM_HIP_LIBRARY", hip_double::build());
        works(&open().expect("it is there now"));
        // Where no name is given, all the usual ones are tried; once loaded, nothing is looked for again.
        std::env::set_var("CANDLE_ROCM_HIP_LIBRARY", "");
        works(&open().expect("it was loaded before"));
    });
}

#[test]
fn without_any_library_every_place_is_told() {
    let test = "without_any_library_every_place_is_told";
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_HIP_LIBRARY", "")], || {
        let Err(error) = open() else { return }; // a machine with ROCm
        if error.status() == Status::NoRuntime {
            for place in ["libamdhip64.so", "ROCM_PATH", "HIP_PATH", "LD_LIBRARY_PATH", "/opt/rocm*", "there is none"] {
                assert!(error.message().contains(place), "'{place}' is not in: {error}");
            }
        }
    });
}

#[test]
fn a_file_that_is_no_library_is_told() {
    let test = "a_file_that_is_no_library_is_told";
    let source = &format!("{PROJECT}/csrc/driver/hip/hip.c");
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_HIP_LIBRARY", source)], || {
        let error = open().expect_err("must fail");
        assert_eq!(error.status(), Status::NoRuntime, "{error}");
        assert!(error.message().contains("driver/hip/hip.c"), "{error}");
    });
}

#[test]
fn every_call_that_is_needed_is_named_where_it_is_missing() {
    let test = "every_call_that_is_needed_is_named_where_it_is_missing";
    alone(test, "gfx1100", 6, &[], || {
        let needed = calls_in("CRK_HIP_REQUIRED_MAP");
        assert!(needed.len() > 20 && needed.contains(&"hipModuleLaunchKernel".to_owned()), "{needed:?}");
        let sets = needed.iter().map(|call| vec![call.as_str()]);
        for calls in sets.chain([vec!["hipGetDevicePropertiesR0600", "hipGetDeviceProperties"]]) {
            let library = hip_double::without(&calls);
            std::env::set_var("CANDLE_ROCM_HIP_LIBRARY", &library);
            let error = open().expect_err("must fail");
            std::fs::remove_file(&library).expect("a file of this test's");
            assert_eq!(error.status(), Status::NoRuntime, "{error}");
            for word in calls.iter().copied().chain([library.to_str().expect("UTF-8")]) {
                assert!(error.message().contains(word), "'{word}' is not in: {error}");
            }
        }
        std::env::set_var("CANDLE_ROCM_HIP_LIBRARY", hip_double::build());
        works(&open().expect("a whole library"));
    });
}

#[test]
fn without_a_call_that_is_optional_the_rest_works() {
    let test = "without_a_call_that_is_optional_the_rest_works";
    const CALL: &str = "CANDLE_ROCM_TEST_CALL";
    let body = || {
        let missing = std::env::var(CALL).expect("which call");
        let device = open().expect("the rest is there");
        works(&device);
        let d = device.raw();
        let buffer = device.upload(&[1f32; 64]).expect("memory");
        let other = device.new_stream().expect("a stream");
        // SAFETY: live handles, this test's own memory and events.
        let outcomes = unsafe {
            let (mut start, mut end, mut ms) = (std::ptr::null_mut(), std::ptr::null_mut(), -1f32);
            for event in [&mut start, &mut end] {
                check(sys::crk_event_create(d, event)).expect("an event");
                check(sys::crk_event_record(*event, d)).expect("a mark");
                check(sys::crk_event_synchronize(*event)).expect("the mark is reached");
            }
            let elapsed = check(sys::crk_event_elapsed(start, end, &mut ms));
            assert_eq!(elapsed.is_ok(), ms >= 0.0);
            sys::crk_event_destroy(start);
            sys::crk_event_destroy(end);
            let to = other.alloc(256).expect("memory");
            let peer = check(sys::crk_copy_between(other.raw(), to.raw_view(), d, buffer.raw_view().into(), 256));
            let mut graph = std::ptr::null_mut();
            let capture = check(sys::crk_graph_begin(d)).and_then(|()| check(sys::crk_graph_end(d, &mut graph)));
            sys::crk_graph_destroy(graph);
            let name = device.alloc(1 << 50).map(|_| ()).map_err(told);
            [("hipEventElapsedTime", elapsed), ("hipMemcpyPeerAsync", peer), ("graphs", capture), ("name", name)]
        };
        repeat(&device).expect("the same launches again and again");
        let makes_chains = missing.contains("Graph");
        assert_eq!(device.replays().expect("a count") == 0, makes_chains, "without {missing}");
        for (what, outcome) in outcomes {
            let captures = missing.contains("Capture")
                || (missing.contains("Graph") && !missing.contains("Node") && missing != "hipGraphCreate");
            let concerned = what == missing || (what == "graphs" && captures);
            match outcome {
                Err((status, sentence)) if what == "name" => {
                    assert_eq!(status, Status::OutOfMemory, "{sentence}");
                    let name =
                        if missing == "hipGetErrorName" { "answers 2 (no name)" } else { "(hipErrorOutOfMemory)" };
                    assert!(sentence.contains(name), "{sentence}");
                }
                Err((status, sentence)) => {
                    assert!(concerned, "without {missing}, {what}: {sentence}");
                    assert_eq!(status, Status::Unsupported, "{sentence}");
                    assert!(sentence.contains(&missing), "'{missing}' is not in: {sentence}");
                }
                Ok(()) => assert!(!concerned, "{what} worked without {missing}"),
            }
        }
        works(&device);
    };
    let mut calls = calls_in("CRK_HIP_OPTIONAL_MAP");
    calls.push("hipGetErrorName".into());
    assert_eq!(calls.len(), 21, "{calls:?}");
    for call in &calls {
        let library = if std::env::var(CALL).is_ok() { "".into() } else { hip_double::without(&[call]) };
        let library_name = library.to_str().expect("UTF-8");
        let extra = [("CANDLE_ROCM_HIP_LIBRARY", library_name), ("CANDLE_ROCM_REPLAY", "1"), (CALL, call)];
        alone(test, "gfx1100", 6, &extra, body);
        if std::env::var(CALL).is_ok() {
            return;
        }
        std::fs::remove_file(library).expect("a file of this test's");
    }
}

// ---- devices

#[test]
fn a_machine_without_a_gpu_has_no_device() {
    let test = "a_machine_without_a_gpu_has_no_device";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_DEVICES", "0")], || {
        let mut count = -1;
        // SAFETY: `count` is written.
        let status = unsafe { sys::crk_device_count(Backend::Hip, &mut count) };
        assert_eq!((status, count), (Status::Ok, 0));
        refused(open(), Status::NoDevice, &["ordinal 0", "0 device"]);
        let best = Device::open_best().expect("the CPU is always there").info().expect("it tells").backend;
        assert_ne!(best, Backend::Hip);
    });
}

/// The properties that the double's device reports, with HIP 5, 6 and 7.
fn shape(major: u32, architecture: &str, wave_size: u32) {
    let device = open().expect("the double opens");
    let info = device.info().expect("it tells what it is");
    assert_eq!((info.name(), info.architecture(), info.wave_size), ("Test double 0", architecture, wave_size));
    // HIP counts the double's 12 compute units of RDNA in pairs.
    let pairs = if wave_size == 32 { 2 } else { 1 };
    assert_eq!((info.compute_units, info.max_block_threads, info.shared_bytes), (12 / pairs, 1024, 65536));
    assert_eq!(units(&device), (12 / pairs, 48 / pairs, 2048, u64::from(pairs) << 16));
    assert_eq!((info.memory_bytes, info.max_grid_threads), (4 << 30, u32::MAX.into()));
    assert_eq!((info.max_block, info.max_grid), ([1024; 3], [i32::MAX as u32; 3]));
    assert_eq!(info.target(), std::env::var("HIP_DOUBLE_ARCH").expect("the double's").as_str());
    assert_eq!((info.runtime_version / 10_000_000, info.backend, info.ordinal), (major, Backend::Hip, 0));
    assert_eq!((info.pci_domain, info.pci_bus, info.pci_device), (1, 0xc1, 0x1f));
    let controls = Controls::get();
    assert_eq!(controls.calls("hipGetDeviceProperties") > 0, major == 5, "HIP 6 has a new call for the new struct");
    let (mut free, mut total) = (0, 0);
    // SAFETY: a live handle; both are written.
    unsafe { assert_eq!(sys::crk_device_memory(device.raw(), &mut free, &mut total), Status::Ok) };
    assert!(total == 4 << 30 && free <= total, "{free} of {total}");
    works(&device);
    let best = Device::open_best().expect("a device").info().expect("it tells").backend;
    assert_eq!(best, Backend::Hip, "a GPU is better than none");
}

/// Units as HIP counts them, SIMD units, threads and shared memory of a unit.
fn units(device: &Device) -> (u32, u32, u32, u64) {
    let info = device.info().expect("it tells what it is");
    (info.compute_units, info.simd_units, info.unit_threads, info.unit_shared_bytes)
}

fn caches() -> u64 {
    open().expect("a device").info().expect("it tells what it is").l2_caches
}

#[test]
fn no_pci_address_where_the_runtime_does_not_tell() {
    let fails = [("HIP_DOUBLE_FAIL", "hipDeviceGetPCIBusId:0=101")];
    alone("no_pci_address_where_the_runtime_does_not_tell", "gfx1100", 6, &fails, || {
        let info = open().expect("a device").info().expect("it tells what it is");
        assert_eq!((info.pci_domain, info.pci_bus, info.pci_device), (0, 0, 0));
        assert_eq!(Controls::get().last_error(), 0, "the runtime still remembers");
    });
}

#[test]
fn a_cache_per_accelerator_die() {
    alone("a_cache_per_accelerator_die", "gfx942", 7, &[("HIP_DOUBLE_XCCS", "8")], || assert_eq!(caches(), 8));
}

#[test]
fn one_cache_where_the_runtime_counts_none() {
    alone("one_cache_where_the_runtime_counts_none", "gfx942", 7, &[("HIP_DOUBLE_XCCS", "0")], || {
        assert_eq!(caches(), 1)
    });
}

#[test]
fn one_cache_where_the_runtime_does_not_tell() {
    alone("one_cache_where_the_runtime_does_not_tell", "gfx942", 6, &[], || {
        assert_eq!(caches(), 1);
        works(&open().expect("a device"));
    });
}

#[test]
fn compute_units_of_rdna_one_by_one() {
    let test = "compute_units_of_rdna_one_by_one";
    alone(test, "gfx1100", 6, &[("GPU_ENABLE_WGP_MODE", "0")], || {
        assert_eq!(units(&open().expect("a device")), (12, 24, 1024, 64 << 10));
    });
}

#[test]
fn units_of_20_waves() {
    alone("units_of_20_waves", "gfx1010", 6, &[], || {
        assert_eq!(units(&open().expect("a device")), (6, 24, 2560, 128 << 10));
    });
}

#[test]
fn units_of_an_architecture_without_a_line() {
    let test = "units_of_an_architecture_without_a_line";
    // The folder of code objects is for another architecture.
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_ARCH", "gfx1399")], || {
        assert_eq!(units(&open().expect("a device")), (12, 48, 1024, 64 << 10));
    });
}

#[test]
fn hip_5_is_understood() {
    alone("hip_5_is_understood", MI250, 5, &[], || shape(5, "gfx90a", 64));
}

#[test]
fn hip_6_is_understood() {
    alone("hip_6_is_understood", "gfx1100", 6, &[], || shape(6, "gfx1100", 32));
}

#[test]
fn hip_7_is_understood() {
    alone("hip_7_is_understood", "gfx942:sramecc+:xnack-", 7, &[], || shape(7, "gfx942", 64));
}

#[test]
fn an_architecture_of_nobodys_is_refused() {
    let test = "an_architecture_of_nobodys_is_refused";
    // The folder of code objects is for another architecture; the device is never opened.
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_ARCH", "sm_90")], || {
        refused(open(), Status::Device, &["hipGetDevicePropertiesR0600", "sm_90"]);
    });
}

#[test]
fn each_device_is_bound_when_it_is_used() {
    let test = "each_device_is_bound_when_it_is_used";
    alone(test, "gfx1201", 6, &[("HIP_DOUBLE_DEVICES", "2")], || {
        let devices = [0, 1].map(|ordinal| Device::open(Backend::Hip, ordinal).expect("two devices"));
        refused(Device::open(Backend::Hip, 2), Status::NoDevice, &["ordinal 2"]);
        let controls = Controls::get();
        for _ in 0..3 {
            devices.iter().for_each(works); // the double refuses a launch with another device current
        }
        let before = controls.calls("hipSetDevice");
        works(&devices[1]);
        works(&devices[1]);
        assert_eq!(controls.device(), 1, "the header says that the device stays bound");
        assert_eq!(controls.calls("hipSetDevice"), before, "the device was bound already");
        // Other code of the process changes the current device, and there is an error.
        controls.set_device(0);
        works(&devices[1]);
        assert_eq!(controls.calls("hipSetDevice"), before + 2);
        controls.set_device(0);
        controls.fail("hipSetDevice", 1, 999);
        refused(devices[1].alloc(12 << 20).map(|_| ()), Status::Device, &["hipSetDevice(1)", "answers 999"]);
        std::thread::scope(|scope| {
            for turn in 0..8 {
                let devices = &devices;
                scope.spawn(move || (0..20).for_each(|i| works(&devices[(turn + i) % 2])));
            }
        });
        let from = devices[0].upload(&[1.5f32, 2.5]).expect("memory");
        let to = devices[1].alloc(8).expect("memory");
        // SAFETY: live handles and memory.
        let status = unsafe {
            sys::crk_copy_between(devices[1].raw(), to.raw_view(), devices[0].raw(), from.raw_view().into(), 8)
        };
        check(status).expect("a copy from device to device");
        assert_eq!(to.download::<f32>().expect("a copy back"), [1.5, 2.5]);
    });
}

/// Kernels report ids by atomic operations on the word, which the host reads while they may run.
#[test]
fn the_word_for_ids_out_of_range_is_coherent() {
    alone("the_word_for_ids_out_of_range_is_coherent", "gfx90a", 6, &[], || {
        let device = open().expect("the double opens");
        let kinds = || ["host allocations", "coherent host allocations"].map(|kind| Controls::get().alive(kind));
        assert_eq!(kinds(), [0, 0]);
        let (mut pinned, mut graph) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: live handles; results are written.
        unsafe {
            check(sys::crk_host_alloc(device.raw(), 64, &mut pinned)).expect("memory");
            assert_eq!(kinds(), [1, 0], "copies need none");
            check(sys::crk_graph_begin(device.raw())).expect("a capture, before which the word is made");
            check(sys::crk_graph_end(device.raw(), &mut graph)).expect("its end");
            sys::crk_graph_destroy(graph);
            assert_eq!(kinds()[1], 1);
            check(sys::crk_host_free(device.raw(), pinned)).expect("it was its own");
        }
        drop(device);
        assert_eq!(kinds(), [0, 0]);
    });
}

// ---- failures

struct Event(sys::crk_event_t);

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: an event of crk_event_create's, or NULL.
        unsafe { sys::crk_event_destroy(self.0) }
    }
}

struct Graph(sys::crk_graph_t);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: a graph of crk_graph_end's, or NULL.
        unsafe { sys::crk_graph_destroy(self.0) }
    }
}

/// Uses nearly every call of the driver once, and stops at the first failure.
fn tour() -> Result<(), (Status, String)> {
    let device = open().map_err(told)?;
    let other = device.new_stream().map_err(told)?;
    let d = device.raw();
    let src = device.upload(&[1f32, -2.0, 3.0, -4.0, 5.0, -6.0]).map_err(told)?;
    let dst = device.alloc(24).map_err(told)?;
    // SAFETY: live handles, memory of theirs that is large enough, results that are written.
    unsafe {
        let mut pinned = std::ptr::null_mut();
        check(sys::crk_host_alloc(d, 64, &mut pinned))?;
        let copied = check(sys::crk_copy_to_host_async(d, pinned, src.raw_view().into(), 24))
            .and_then(|()| check(sys::crk_memset(d, dst.raw_view(), 0, 24)))
            .and_then(|()| check(sys::crk_copy_to_device_async(d, dst.raw_view(), pinned, 24)))
            .and_then(|()| check(sys::crk_device_synchronize(d)));
        let freed = check(sys::crk_host_free(d, pinned));
        if freed.is_err() {
            sys::crk_host_free(d, pinned); // waits for the stream first, and that may have failed
        }
        copied.and(freed)?;
        assert_eq!(dst.download::<f32>().map_err(told)?, [1.0, -2.0, 3.0, -4.0, 5.0, -6.0]);

        let (mut start, mut end) = (Event(std::ptr::null_mut()), Event(std::ptr::null_mut()));
        check(sys::crk_event_create(d, &mut start.0))?;
        check(sys::crk_event_create(d, &mut end.0))?;
        check(sys::crk_event_record(start.0, d))?;
        check(sys::crk_memset(d, dst.raw_view(), 0, 24))?;
        check(sys::crk_event_record(end.0, d))?;
        if let Err(error) = check(sys::crk_event_query(end.0)) {
            if error.0 != Status::NotReady {
                return Err(error);
            }
        }
        check(sys::crk_device_wait(other.raw(), end.0))?;
        check(sys::crk_event_synchronize(end.0))?;
        let mut ms = 0f32;
        check(sys::crk_event_elapsed(start.0, end.0, &mut ms))?;

        let transposed = Layout::strided(&[3, 2], &[1, 3], 0).map_err(told)?;
        let params = device.params(&transposed).map_err(told)?;
        let function = device.function(&AFFINE, "affine_f32").map_err(told)?;
        let (numel, rank) = (6usize.into(), 2usize.into());
        let args: [Arg<'_>; 7] =
            [numel, rank, (&params).into(), (&src).into(), (&dst).into(), 2f32.into(), 1f32.into()];
        function.launch(Launch::for_num_elems(6), &args).map_err(told)?;
        assert_eq!(dst.download::<f32>().map_err(told)?, [3.0, -7.0, -3.0, 11.0, 7.0, -11.0]);
        let to = other.alloc(24).map_err(told)?;
        check(sys::crk_copy_between(other.raw(), to.raw_view(), d, dst.raw_view().into(), 24))?;
        assert_eq!(to.download::<f32>().map_err(told)?, [3.0, -7.0, -3.0, 11.0, 7.0, -11.0]);

        check(sys::crk_graph_begin(d))?;
        let line = Layout::contiguous(&[6]).map_err(told)?;
        let recorded = device.unary(sys::crk_unary_op::CRK_UNARY_NEG, DType::F32, &line, &src, &dst);
        let mut graph = Graph(std::ptr::null_mut());
        let ended = check(sys::crk_graph_end(d, &mut graph.0));
        recorded.map_err(told)?;
        ended?;
        assert_eq!(dst.download::<f32>().map_err(told)?[0], 3.0, "a capture runs nothing");
        check(sys::crk_graph_launch(graph.0))?;
        assert_eq!(dst.download::<f32>().map_err(told)?, [-1.0, 2.0, -3.0, 4.0, -5.0, 6.0]);
        drop(graph);
        repeat(&device).map_err(told)?;
        let (mut free, mut total) = (0, 0);
        check(sys::crk_device_memory(d, &mut free, &mut total))?;
        check(sys::crk_memory_trim(d))?;
    }
    Ok(())
}

/// A tour on a thread of its own, which has bound no device yet.
fn fresh_tour() -> Result<(), (Status, String)> {
    std::thread::spawn(tour).join().expect("no panic")
}

#[test]
fn every_call_that_fails_is_told_and_nothing_is_lost() {
    let test = "every_call_that_fails_is_told_and_nothing_is_lost";
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_REPLAY", "0")], || every_call_fails(&[]));
}

/// As above, with launches in graphs. Where no graph can be made or updated, they are launched one by one.
#[test]
fn every_call_that_fails_while_launches_are_replayed() {
    let test = "every_call_that_fails_while_launches_are_replayed";
    let quiet = [
        "hipRuntimeGetVersion",
        "hipGraphCreate",
        "hipGraphAddKernelNode",
        "hipGraphInstantiate",
        "hipGraphExecKernelNodeSetParams",
    ];
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_REPLAY", "1")], move || every_call_fails(&quiet));
}

/// Before HIP 6.2 a graph is freed while it runs, so launches are given one by one.
#[test]
fn launches_are_replayed_from_hip_6_2_on() {
    for version in [5, 6, 7] {
        alone("launches_are_replayed_from_hip_6_2_on", "gfx1100", version, &[("CANDLE_ROCM_REPLAY", "1")], || {
            let device = open().expect("a device");
            repeat(&device).expect("the same launches again and again");
            let is_old = std::env::var("HIP_DOUBLE_VERSION").is_ok_and(|version| version == "5");
            assert_eq!(device.replays().expect("a count") == 0, is_old);
        });
    }
}

/// Lets each call of a tour fail. Failures of the calls `quiet` need not be told.
fn every_call_fails(quiet: &[&str]) {
    let controls = Controls::get();
    // Calls that happen only once, while the device is still unknown. Each is tried again after a failure.
    for (call, times) in [
        ("hipGetDeviceCount", 1),
        ("hipGetDevicePropertiesR0600", 1),
        ("hipDeviceGetAttribute", 10),
        ("hipRuntimeGetVersion", 1),
    ] {
        for nth in 1..=times {
            controls.fail(call, nth, 999);
            refused(open(), Status::Device, &[call, "answers 999 (hipErrorUnknown)"]);
        }
    }
    let nothing = controls.census();
    fresh_tour().expect("the tour of itself");
    assert_eq!(controls.census(), nothing, "a tour leaks");

    // For the caller, a call that releases something cannot fail. If it fails in the double, the object stays.
    let release = [
        "hipFree",
        "hipHostFree",
        "hipStreamDestroy",
        "hipEventDestroy",
        "hipModuleUnload",
        "hipGraphDestroy",
        "hipGraphExecDestroy",
    ];
    let mut failures = 0;
    let calls = [calls_in("CRK_HIP_REQUIRED_MAP"), calls_in("CRK_HIP_OPTIONAL_MAP")].concat();
    for call in calls.iter().filter(|call| !["hipGetLastError", "hipGetDevice"].contains(&call.as_str())) {
        for nth in 1.. {
            let (before, census) = (controls.calls(call), controls.census());
            controls.fail(call, nth, 999);
            let outcome = fresh_tour();
            controls.fail(call, 1, 0);
            let made = controls.calls(call) - before;
            if made < nth as i64 {
                outcome.unwrap_or_else(|error| panic!("{call} did not fail, and yet: {error:?}"));
                break;
            }
            let released = release.contains(&call.as_str());
            match outcome {
                Err((status, sentence)) => {
                    assert_eq!(status, Status::Device, "{call} {nth}: {sentence}");
                    assert!(sentence.contains(call.as_str()), "{call} {nth}: {sentence}");
                    assert!(sentence.contains("answers 999 (hipErrorUnknown)"), "{call} {nth}: {sentence}");
                }
                // Closing a handle or destroying a graph also waits, but cannot report a failure.
                Ok(()) => {
                    let silent = released || call == "hipStreamSynchronize" || quiet.contains(&call.as_str());
                    assert!(silent, "{call} {nth} failed and nobody was told")
                }
            }
            if !released {
                assert_eq!(controls.census(), census, "{call} {nth} failed and something leaks");
            }
            failures += 1;
            fresh_tour().unwrap_or_else(|error| panic!("after {call} {nth} failed: {error:?}"));
        }
    }
    println!("{failures} calls failed");
    assert!(failures > 50, "only {failures} calls failed");
}

#[test]
fn answers_have_their_status() {
    alone("answers_have_their_status", "gfx1100", 6, &[], || {
        let controls = Controls::get();
        let device = open().expect("the double opens");
        // The first attempt is a segment. If there is no room for it, the second is the block alone.
        controls.fail("hipMalloc", 0, 2);
        let sentence = "hipMalloc(4096 bytes) answers 2 (hipErrorOutOfMemory)";
        refused(device.alloc(4096), Status::OutOfMemory, &[sentence]);
        controls.fail("hipMalloc", 1, 0);
        controls.fail("hipMalloc", 1, 1);
        refused(device.alloc(4096), Status::Device, &["hipMalloc(2097152 bytes) answers 1 (hipErrorInvalidValue)"]);
        // SAFETY: reads the thread's own number.
        assert_eq!(unsafe { sys::crk_last_device_error() }, 1);
        for (code, status) in [
            (200, Status::InvalidImage),
            (209, Status::WrongArchitecture),
            (218, Status::InvalidImage),
            (2, Status::OutOfMemory),
            (999, Status::Device),
        ] {
            controls.fail("hipModuleLoadData", 1, code);
            let answer = format!("answers {code}");
            refused(
                device.function(&AFFINE, "affine_f32"),
                status,
                &["affine", "hipModuleLoadData", "gfx1100", &answer],
            );
        }
        controls.fail("hipModuleGetFunction", 1, 500);
        refused(device.function(&AFFINE, "affine_f32"), Status::NotFound, &["affine_f32"]);
        device.function(&AFFINE, "affine_f32").expect("there all the same");
        refused(device.function(&AFFINE, "affine_q8"), Status::NotFound, &["affine_q8"]);
        works(&device);
    });
}

/// A full cache of parameters asks the device which copy is done. If the device has failed, the error says so.
#[test]
fn a_failed_device_is_no_full_cache_of_parameters() {
    alone("a_failed_device_is_no_full_cache_of_parameters", "gfx1100", 6, &[], || {
        const SLOTS: usize = 512;
        let device = open().expect("the double opens");
        let controls = Controls::get();
        let params = |n: usize| device.params(&Layout::strided(&[2, 3], &[1, n], 0).expect("a layout"));
        for n in 0..SLOTS {
            params(n + 2).expect("a slot");
        }
        controls.fail("hipEventQuery", 0, 719);
        refused(params(SLOTS + 2).map(drop), Status::Device, &["hipEventQuery answers 719"]);
        controls.fail("hipEventQuery", 0, 600); // which is no failure: the copies are not done
        controls.fail("hipEventSynchronize", 0, 719);
        refused(params(SLOTS + 2).map(drop), Status::Device, &["hipEventSynchronize answers 719"]);
        controls.fail("hipEventSynchronize", 0, 0);
        params(SLOTS + 2).expect("the slot of the oldest copy");
        controls.fail("hipEventQuery", 0, 0);
        let held: Vec<_> = (0..SLOTS).map(|n| params(n + 2).expect("a slot")).collect();
        refused(params(SLOTS + 2).map(drop), Status::OutOfMemory, &["all 512 entries of the cache are held"]);
        drop(held);
        works(&device);
    });
}

/// While other threads use the device, too.
#[test]
fn preparing_loads_every_module_once() {
    alone("preparing_loads_every_module_once", "gfx1100", 6, &[], || {
        let controls = Controls::get();
        let census = controls.census();
        let device = open().expect("the double opens");
        controls.fail("hipModuleLoadData", 1, 2);
        refused(device.prepare(), Status::OutOfMemory, &["affine", "hipModuleLoadData"]);
        std::thread::scope(|scope| {
            scope.spawn(|| device.prepare().expect("all modules"));
            scope.spawn(|| works(&device));
        });
        // SAFETY: needs nothing.
        let modules = unsafe { sys::crk_module_count() } as i64;
        assert_eq!(controls.calls("hipModuleLoadData"), 1 + modules);
        device.prepare().expect("once more");
        works(&device);
        assert_eq!(controls.calls("hipModuleLoadData"), 1 + modules);
        drop(device);
        assert_eq!(controls.census(), census);
    });
}

#[test]
fn preparing_says_what_lacks() {
    let empty = format!("{SCRATCH}/no_code");
    std::fs::create_dir_all(&empty).expect("a folder");
    alone("preparing_says_what_lacks", "gfx1100", 6, &[("CANDLE_ROCM_HSACO_DIR", &empty)], || {
        let device = open().expect("the double opens");
        refused(
            device.prepare(),
            Status::NoRuntime,
            &["crk_device_prepare", "CANDLE_ROCM_HSACO_DIR=", "no readable file affine.hsaco"],
        );
        // SAFETY: NULL is not a handle, which the call refuses.
        assert_eq!(unsafe { sys::crk_device_prepare(std::ptr::null_mut()) }, Status::InvalidArgument);
    });
    for name in ["cpu:32", "cpu:64"] {
        let device = Device::open_named(name).expect("a CPU device");
        device.prepare().expect("its kernels are linked in");
    }
}

#[test]
fn memory_that_runs_out_is_taken_from_the_cache() {
    let test = "memory_that_runs_out_is_taken_from_the_cache";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_MEMORY", "67108864")], || {
        const MIB: usize = 1 << 20;
        let device = open().expect("the double opens");
        // A second stream, and a second opening of the GPU.
        let (other, third) = (device.new_stream().expect("a stream"), open().expect("the double opens"));
        // SAFETY: a live handle.
        unsafe { assert_eq!(sys::crk_memory_set_cache_limit(device.raw(), 64 * MIB), Status::Ok) };
        let kept = device.upload(&[7u8; 1000]).expect("a little memory");
        drop([device.alloc(16 * MIB).expect("memory"), device.alloc(16 * MIB).expect("memory")]);
        drop(other.alloc(12 * MIB).expect("memory"));
        drop(third.alloc(12 * MIB).expect("memory"));
        let controls = Controls::get();
        let held = controls.alive("allocations");
        let large = device.alloc(56 * MIB).expect("all handles' caches make room");
        assert!(controls.alive("allocations") < held);
        refused(device.alloc(60 * MIB), Status::OutOfMemory, &["hipMalloc(", "hipErrorOutOfMemory"]);
        refused(device.alloc(usize::MAX / 2), Status::OutOfMemory, &["bytes"]);
        drop(large);
        assert_eq!(kept.download::<u8>().expect("untouched"), [7u8; 1000]);
        works(&device);
    });
}

/// A reservation that does not fit leaves the earlier one as it was. An allocation that needs the memory takes it.
#[test]
fn memory_that_runs_out_stays_reserved() {
    alone("memory_that_runs_out_stays_reserved", "gfx1100", 6, &[("HIP_DOUBLE_MEMORY", "67108864")], || {
        const MIB: usize = 1 << 20;
        let device = open().expect("the double opens");
        // SAFETY: a live handle, here and below.
        let reserve = |bytes| unsafe { sys::crk_memory_reserve(device.raw(), bytes) };
        assert_eq!(reserve(40 * MIB), Status::Ok);
        assert_eq!(reserve(40 * MIB), Status::OutOfMemory);
        let controls = Controls::get();
        let calls = controls.calls("hipMalloc");
        drop(device.alloc(40 * MIB).expect("what is reserved"));
        assert_eq!(controls.calls("hipMalloc"), calls);
        assert_eq!(reserve(40 * MIB), Status::Ok);
        drop(device.alloc(50 * MIB).expect("in place of what is reserved"));
    });
}

/// A huge block that is in part live serves small allocations, when the driver has nothing left.
#[test]
fn memory_that_runs_out_is_cut_from_huge_blocks() {
    let test = "memory_that_runs_out_is_cut_from_huge_blocks";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_MEMORY", "1342177280")], || {
        const MIB: usize = 1 << 20;
        let device = open().expect("the double opens");
        // SAFETY: a live handle.
        unsafe { assert_eq!(sys::crk_memory_set_cache_limit(device.raw(), 1200 * MIB), Status::Ok) };
        drop(device.alloc(1024 * MIB).expect("most of the memory"));
        let kept = device.alloc(100 * MIB).expect("a part of that");
        let small = |i| device.alloc(16 * MIB).unwrap_or_else(|error| panic!("block {i}: {error}"));
        drop((kept, (0..30).map(small).collect::<Vec<_>>()));
    });
}

/// After a shortage, an allocation waits for memory that other handles have freed in segments still in use.
#[test]
fn memory_that_runs_out_is_waited_for() {
    let test = "memory_that_runs_out_is_waited_for";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_MEMORY", "67108864")], || {
        const MIB: usize = 1 << 20;
        let device = open().expect("the double opens");
        let other = device.new_stream().expect("a stream");
        // SAFETY: a live handle.
        unsafe { assert_eq!(sys::crk_memory_set_cache_limit(device.raw(), 64 * MIB), Status::Ok) };
        drop(device.alloc(60 * MIB).expect("most of the memory"));
        let kept = device.alloc(2 * MIB).expect("a part of that");
        let buffer = device.alloc(50 * MIB).expect("another part");
        buffer.fill_bytes(7).expect("work");
        Controls::get().fail("hipEventQuery", 0, 600); // which takes long
        drop(buffer);
        other.alloc(50 * MIB).expect("what the first handle is done with");
        drop(kept);
    });
}

/// One handle's shortage takes the memory that others have cached. For that it waits for their streams, but not while
/// they are captured.
#[test]
fn memory_that_runs_out_spoils_no_capture() {
    let test = "memory_that_runs_out_spoils_no_capture";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_MEMORY", "67108864")], || {
        const MIB: usize = 1 << 20;
        let device = open().expect("the double opens");
        let other = device.new_stream().expect("a stream");
        // SAFETY: a live handle.
        unsafe { assert_eq!(sys::crk_memory_set_cache_limit(device.raw(), 64 * MIB), Status::Ok) };
        let buffer = device.alloc(40 * MIB).expect("memory");
        buffer.fill_bytes(7).expect("work that is not done yet");
        drop(buffer);
        let controls = Controls::get();
        let (asked, waited) = (controls.calls("hipMalloc"), controls.calls("hipEventSynchronize"));
        controls.fail("hipEventQuery", 0, 600);
        controls.fail("hipEventSynchronize", 1, -200);
        std::thread::scope(|scope| {
            scope.spawn(|| other.alloc(40 * MIB).expect("what the first handle had cached"));
            // Its first attempt has failed, and it is about to wait for the first handle's work.
            while controls.calls("hipEventSynchronize") == waited {
                std::thread::yield_now();
            }
            assert_eq!(controls.calls("hipMalloc"), asked + 1);
            let mut graph = std::ptr::null_mut();
            // SAFETY: a live handle; the graph is destroyed.
            unsafe {
                assert_eq!(sys::crk_graph_begin(device.raw()), Status::Ok);
                std::thread::sleep(std::time::Duration::from_millis(300));
                assert_eq!(sys::crk_graph_end(device.raw(), &mut graph), Status::Ok, "the capture is spoilt");
                sys::crk_graph_destroy(graph);
            }
        });
        works(&device);
    });
}

/// Above its bound the cache gives memory back without a wait: at a call that finds all streams of the GPU idle.
#[test]
fn memory_beyond_the_bound_waits_for_nothing() {
    let test = "memory_beyond_the_bound_waits_for_nothing";
    alone(test, "gfx1100", 6, &[], || {
        const MIB: usize = 1 << 20;
        let device = open().expect("the double opens");
        let other = device.new_stream().expect("a stream");
        // SAFETY: a live handle.
        unsafe { assert_eq!(sys::crk_memory_set_cache_limit(device.raw(), 8 * MIB), Status::Ok) };
        let buffers: Vec<_> = (0..4).map(|_| device.alloc(16 * MIB).expect("memory")).collect();
        let busy = other.alloc(64).expect("memory");
        let controls = Controls::get();
        let waits = ["hipStreamSynchronize", "hipEventSynchronize", "hipFree"];
        let count = || waits.map(|call| controls.calls(call));
        let before = count();
        busy.fill_bytes(1).expect("work");
        controls.fail("hipEventQuery", 0, 600); // which takes long
        drop(buffers);
        assert_eq!(count(), before, "a free has waited for another stream's work");
        controls.fail("hipEventQuery", 0, 0);
        device.synchronize().expect("all done");
        other.synchronize().expect("all done");
        assert!(device.memory_stats().expect("figures").cached_bytes <= 8 << 20);
    });
}

/// A handle that waits for memory does not delay calls on another GPU.
#[test]
fn one_gpu_does_not_wait_for_another() {
    let test = "one_gpu_does_not_wait_for_another";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_DEVICES", "2")], || {
        let [first, second] = [0, 1].map(|ordinal| Device::open(Backend::Hip, ordinal).expect("two devices"));
        drop(first.alloc(16 << 20).expect("memory"));
        let controls = Controls::get();
        let waited = controls.calls("hipEventSynchronize");
        controls.fail("hipEventSynchronize", 1, -2000);
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                first.trim_memory().expect("all done");
                is_done.store(true, std::sync::atomic::Ordering::SeqCst);
            });
            while controls.calls("hipEventSynchronize") == waited {
                std::thread::yield_now();
            }
            works(&second);
            let stream = second.stream().expect("a stream");
            // SAFETY: 0 rows, so that no memory is read.
            unsafe { sys::crk_launch_mmvq_gguf_quantize_q8_1_f32(stream, stream, 0, 0, 0, stream) };
            second.trim_memory().expect("all done");
            assert!(!is_done.load(std::sync::atomic::Ordering::SeqCst), "the second GPU waited for the first");
        });
    });
}

/// Parameters and the word for faults come from the driver. If its memory has run out, they come from the cache.
#[test]
fn the_librarys_own_memory_comes_out_of_the_cache() {
    let test = "the_librarys_own_memory_comes_out_of_the_cache";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_MEMORY", "67108864")], || {
        let device = open().expect("the double opens");
        // SAFETY: a live handle.
        unsafe { assert_eq!(sys::crk_memory_set_cache_limit(device.raw(), 64 << 20), Status::Ok) };
        drop(device.alloc(64 << 20).expect("all memory there is"));
        let turned = candle_rocm_sys::Layout::strided(&[3, 2], &[1, 3], 0).expect("a layout");
        device.params(&turned).expect("parameters");
    });
}

// ---- captures

/// Direct calls of HIP, as other code of a program makes them.
struct Hip;

impl Hip {
    fn symbol(name: &CStr) -> *mut c_void {
        extern "C" {
            fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
            fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        }
        let path = CString::new(std::env::var("CANDLE_ROCM_HIP_LIBRARY").expect("the double")).expect("no NUL");
        // SAFETY: the library is loaded; it is opened again and never closed.
        let symbol = unsafe { dlsym(dlopen(path.as_ptr(), 2), name.as_ptr()) };
        assert!(!symbol.is_null(), "no {name:?}");
        symbol
    }

    /// Calls that spoil a capture, by name: on a stream, or in general.
    fn call(name: &CStr, stream: *mut c_void) -> c_int {
        let mut out = [std::ptr::null_mut::<c_void>(); 2];
        // SAFETY: each call has the type that it is given here; results are written into `out`.
        unsafe {
            match name.to_str().expect("ASCII") {
                "hipStreamSynchronize" => {
                    std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_void) -> c_int>(Hip::symbol(name))(stream)
                }
                "hipDeviceSynchronize" => {
                    std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(Hip::symbol(name))()
                }
                "hipMemcpy" => {
                    type Copy = extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int;
                    let from = 1u64;
                    let to = out.as_mut_ptr().cast();
                    std::mem::transmute::<*mut c_void, Copy>(Hip::symbol(name))(to, (&raw const from).cast(), 8, 0)
                }
                "hipMalloc" => {
                    type Malloc = extern "C" fn(*mut *mut c_void, usize) -> c_int;
                    std::mem::transmute::<*mut c_void, Malloc>(Hip::symbol(name))(out.as_mut_ptr(), 64)
                }
                other => panic!("{other}"),
            }
        }
    }

    /// A stream of the caller.
    fn stream() -> *mut c_void {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the call has this type.
        unsafe {
            let create: extern "C" fn(*mut *mut c_void, u32) -> c_int =
                std::mem::transmute(Hip::symbol(c"hipStreamCreateWithFlags"));
            assert_eq!(create(&mut stream, 1), 0);
        }
        stream
    }

    fn memset(dst: *mut c_void, value: c_int, bytes: usize, stream: *mut c_void) -> c_int {
        // SAFETY: the call has this type; the double checks that the memory is allocated.
        unsafe {
            let set: extern "C" fn(*mut c_void, c_int, usize, *mut c_void) -> c_int =
                std::mem::transmute(Hip::symbol(c"hipMemsetAsync"));
            set(dst, value, bytes, stream)
        }
    }

    fn begin(stream: *mut c_void, mode: c_int) -> c_int {
        // SAFETY: the call has this type.
        unsafe {
            let begin: extern "C" fn(*mut c_void, c_int) -> c_int =
                std::mem::transmute(Hip::symbol(c"hipStreamBeginCapture"));
            begin(stream, mode)
        }
    }

    fn end(stream: *mut c_void) -> c_int {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the calls have these types.
        unsafe {
            let end: extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int =
                std::mem::transmute(Hip::symbol(c"hipStreamEndCapture"));
            let destroy: extern "C" fn(*mut c_void) -> c_int = std::mem::transmute(Hip::symbol(c"hipGraphDestroy"));
            let code = end(stream, &mut graph);
            if code == 0 {
                assert_eq!(destroy(graph), 0);
            }
            code
        }
    }
}

fn stream_of(device: &Device) -> *mut c_void {
    let mut stream = std::ptr::null_mut();
    // SAFETY: a live handle.
    unsafe { assert_eq!(sys::crk_device_stream(device.raw(), &mut stream), Status::Ok) };
    stream
}

#[test]
fn the_double_refuses_what_hip_refuses_in_a_capture() {
    let test = "the_double_refuses_what_hip_refuses_in_a_capture";
    alone(test, "gfx1100", 6, &[], || {
        let device = open().expect("the double opens");
        let stream = stream_of(&device);
        const RELAXED: c_int = 2;
        for mode in 0..=RELAXED {
            for (name, code) in [
                (c"hipStreamSynchronize", 900),
                (c"hipDeviceSynchronize", 900),
                (c"hipMemcpy", 906),
                (c"hipMalloc", if mode == RELAXED { 0 } else { 900 }),
            ] {
                assert_eq!(Hip::begin(stream, mode), 0);
                assert_eq!(Hip::call(name, stream), code, "{name:?} in mode {mode}");
                let end = Hip::end(stream);
                assert_eq!(end, if code == 0 { 0 } else { 901 }, "{name:?} in mode {mode}");
                if code != 0 {
                    let error = device.fill(DType::U8, &device.alloc(16).expect("memory"), 16, 0u8).unwrap_err();
                    assert_eq!(error.device_code(), 901, "a spoilt stream stays spoilt: {error}");
                    assert_eq!((Hip::begin(stream, mode), Hip::end(stream)), (0, 0), "a new capture mends it");
                }
            }
        }
        // During a thread-local capture another thread may allocate; during a global one it may not.
        for (mode, code) in [(0, 900), (1, 0), (RELAXED, 0)] {
            assert_eq!(Hip::begin(stream, mode), 0);
            assert_eq!(
                std::thread::spawn(|| Hip::call(c"hipMalloc", std::ptr::null_mut())).join().expect("no panic"),
                code
            );
            assert_eq!(Hip::end(stream), if code == 0 { 0 } else { 901 });
            if code != 0 {
                assert_eq!((Hip::begin(stream, mode), Hip::end(stream)), (0, 0));
            }
        }
        Controls::get().last_error();
        works(&device);
    });
}

#[test]
fn a_spoilt_capture_ends_and_leaves_the_handle_usable() {
    let test = "a_spoilt_capture_ends_and_leaves_the_handle_usable";
    alone(test, "gfx1100", 6, &[], || {
        let device = open().expect("the double opens");
        let controls = Controls::get();
        let dst = device.alloc(64).expect("memory");
        device.fill(DType::U8, &dst, 64, 1u8).expect("a kernel runs");
        let mut graph = Graph(std::ptr::null_mut());
        // SAFETY: a live handle. The first capture creates objects that the later ones use.
        unsafe {
            check(sys::crk_graph_begin(device.raw())).expect("a capture begins");
            check(sys::crk_graph_end(device.raw(), &mut graph.0)).expect("and ends");
        }
        drop(graph);
        assert_eq!(dst.download::<u8>().expect("it downloads"), [1; 64]);
        let census = controls.census();
        for name in [c"hipStreamSynchronize", c"hipDeviceSynchronize", c"hipMemcpy"] {
            // SAFETY: a live handle.
            unsafe {
                check(sys::crk_graph_begin(device.raw())).expect("a capture begins");
                device.fill(DType::U8, &dst, 64, 2u8).expect("it records");
                assert_ne!(Hip::call(name, stream_of(&device)), 0);
                refused(device.fill(DType::U8, &dst, 64, 3u8), Status::Device, &["hipModuleLaunchKernel", "901"]);
                let mut graph = std::ptr::null_mut();
                let (status, sentence) = check(sys::crk_graph_end(device.raw(), &mut graph)).unwrap_err();
                assert_eq!(status, Status::Device, "{sentence}");
                assert!(sentence.contains("hipStreamEndCapture answers 901"), "{sentence}");
                assert!(graph.is_null());
            }
            assert_eq!(controls.census(), census, "{name:?}");
            assert_eq!(dst.download::<u8>().expect("usable"), [1; 64], "what was recorded did not run");
        }
        works(&device);
    });
}

#[test]
fn a_capture_does_not_mind_what_other_handles_do() {
    let test = "a_capture_does_not_mind_what_other_handles_do";
    alone(test, MI250, 5, &[], || {
        let device = open().expect("the double opens");
        let dst = device.alloc(64).expect("memory");
        device.fill(DType::U8, &dst, 64, 1u8).expect("a kernel runs");
        // SAFETY: live handles.
        unsafe {
            check(sys::crk_graph_begin(device.raw())).expect("a capture begins");
            device.fill(DType::U8, &dst, 64, 2u8).expect("it records");
            // The same thread allocates, loads a module, copies, waits, frees; all on another handle.
            let other = device.new_stream().expect("a stream");
            works(&other);
            check(sys::crk_memory_trim(other.raw())).expect("memory goes back");
            drop(other);
            device.function(&AFFINE, "affine_f32").expect("a module is loaded during the capture");
            let mut graph = std::ptr::null_mut();
            check(sys::crk_graph_end(device.raw(), &mut graph)).expect("the capture ends well");
            let graph = Graph(graph);
            assert_eq!(dst.download::<u8>().expect("a copy back"), [1; 64]);
            check(sys::crk_graph_launch(graph.0)).expect("it runs");
            assert_eq!(dst.download::<u8>().expect("a copy back"), [2; 64]);
            // A handle that is closed in the middle of a capture leaves nothing.
            let census = Controls::get().census();
            let third = device.new_stream().expect("a stream");
            let held = third.upload(&[1u8; 64]).expect("memory");
            check(sys::crk_graph_begin(third.raw())).expect("a capture begins");
            third.fill(DType::U8, &held, 64, 3u8).expect("it records");
            drop((held, third));
            assert_eq!(Controls::get().census(), census);
        }
    });
}

/// A capture begins while another thread copies: it waits for the copy, which is not recorded, and whose wait does not
/// spoil it.
#[test]
fn a_capture_waits_for_copies() {
    alone("a_capture_waits_for_copies", "gfx1100", 6, &[], || {
        let device = open().expect("the double opens");
        let controls = Controls::get();
        let buffer = device.upload(&[7u8; 64]).expect("memory");
        drop(device.capture(|| device.fill(DType::U8, &buffer, 64, 1u8)).expect("a kernel is loaded"));
        let copies = || controls.calls("hipMemcpyAsync");
        for pass in 0..4 {
            let before = copies();
            // The copy has passed its checks, and takes long. In the odd passes its wait does. The last two upload.
            let (slow, waits) = ("hipStreamSynchronize", pass % 2 == 1);
            controls.fail(if waits { slow } else { "hipMemcpyAsync" }, 1, -200);
            std::thread::scope(|scope| {
                let copied = scope.spawn(|| match pass < 2 {
                    true => buffer.download::<u8>().map(|bytes| assert_eq!(bytes, [7; 64])),
                    false => buffer.write(&[7u8; 64]),
                });
                while copies() == before {
                    std::thread::yield_now();
                }
                let recorded = device.capture(|| device.fill(DType::U8, &buffer, 64, 1u8));
                drop(recorded.expect("the capture is not spoilt"));
                copied.join().expect("no panic").expect("a copy");
            });
        }
        assert_eq!(buffer.download::<u8>().expect("a copy"), [7; 64]);
        works(&device);
    });
}

/// While one thread begins a capture, another gives the handle work and frees its memory. No other handle gets that
/// memory before the work is done.
#[test]
fn memory_freed_as_a_capture_begins_stays_the_handles() {
    alone("memory_freed_as_a_capture_begins_stays_the_handles", "gfx1100", 6, &[], || {
        const MIB: usize = 1 << 20;
        let device = open().expect("the double opens");
        let other = device.new_stream().expect("a stream");
        let controls = Controls::get();
        for trims in [false, true] {
            let buffer = device.alloc(40 * MIB).expect("memory");
            let (begun, freed) = (controls.calls("hipStreamBeginCapture"), buffer.as_ptr());
            controls.fail("hipStreamBeginCapture", 1, -300);
            let mut graph = Graph(std::ptr::null_mut());
            std::thread::scope(|scope| {
                // SAFETY: live handles, here and below.
                let begins = scope.spawn(|| unsafe { check(sys::crk_graph_begin(device.raw())) });
                while controls.calls("hipStreamBeginCapture") == begun {
                    std::thread::yield_now();
                }
                buffer.fill_bytes(7).expect("work that the capture does not record");
                drop(buffer);
                begins.join().expect("no panic").expect("a capture begins");
            });
            if trims {
                // SAFETY: as above.
                unsafe { check(sys::crk_memory_trim(other.raw())) }.expect("what is idle goes back");
            }
            let taken = other.alloc(40 * MIB).expect("memory");
            assert_ne!(taken.as_ptr(), freed, "the first handle's work may still write to it");
            // SAFETY: as above.
            unsafe { check(sys::crk_graph_end(device.raw(), &mut graph.0)) }.expect("the capture ends well");
            drop((graph, taken));
            device.synchronize().expect("the work is done");
        }
        works(&device);
    });
}

// ---- streams of the caller

#[test]
fn a_handle_works_in_the_callers_stream() {
    alone("a_handle_works_in_the_callers_stream", "gfx1100", 6, &[], || {
        let (device, controls) = (open().expect("the double opens"), Controls::get());
        let stream = Hip::stream();
        let streams = controls.alive("streams");
        // SAFETY: the stream belongs to the only GPU, and lives until the process ends.
        let clone = |stream| unsafe { device.on_stream(stream) };
        let handle = clone(stream).expect("a handle");
        assert_eq!((handle.stream().expect("its stream"), controls.alive("streams")), (stream, streams));
        works(&handle);
        // The caller's work runs between the handle's calls.
        let (dst, copy) = (handle.alloc(64).expect("memory"), handle.alloc(64).expect("memory"));
        handle.fill(DType::U8, &dst, 64, 1u8).expect("a kernel runs");
        assert_eq!(Hip::memset(dst.as_ptr(), 2, 64, stream), 0);
        handle.copy(&copy, &dst).expect("a copy");
        handle.fill(DType::U8, &dst, 64, 3u8).expect("a kernel runs");
        assert_eq!(copy.download::<u8>().expect("a copy back"), [2; 64]);
        assert_eq!(dst.download::<u8>().expect("a copy back"), [3; 64]);
        // An event of the handle covers the caller's work.
        let event = handle.event().expect("an event");
        assert_eq!(Hip::memset(dst.as_ptr(), 4, 64, stream), 0);
        event.record(&handle).expect("a mark");
        device.wait(&event).expect("the other handle waits");
        event.synchronize().expect("the mark is reached");
        assert_eq!(dst.download::<u8>().expect("a copy back"), [4; 64]);
        // A capture records the work of both.
        let (graph, ()) = handle
            .capture(|| {
                handle.fill(DType::U8, &dst, 64, 5u8)?;
                assert_eq!(Hip::memset(dst.as_ptr(), 6, 32, stream), 0);
                Ok::<_, Error>(())
            })
            .expect("a graph");
        assert_eq!(dst.download::<u8>().expect("a copy back"), [4; 64], "a capture runs nothing");
        // SAFETY: `dst` is still allocated.
        unsafe { graph.launch() }.expect("it runs");
        assert_eq!(dst.download::<u8>().expect("a copy back"), [[6u8; 32], [5; 32]].concat());
        // One handle per stream; no stream that differs by thread.
        let name = "crk_device_clone_on_stream";
        refused(clone(stream), Status::InvalidArgument, &[name, "a live handle"]);
        refused(clone(device.stream().expect("its stream")), Status::InvalidArgument, &[name, "a live handle"]);
        refused(clone(2 as *mut c_void), Status::InvalidArgument, &[name, "per thread"]);
        drop((graph, event, dst, copy, handle));
        assert_eq!(controls.alive("streams"), streams, "the stream stays the caller's");
        assert_eq!(Hip::call(c"hipStreamSynchronize", stream), 0);
        works(&clone(stream).expect("a handle on the same stream again"));
        works(&device);
    });
}

/// The caller's own work in the stream must come after launches that were given before it, so none is kept.
#[test]
fn in_the_callers_stream_no_launch_is_kept() {
    let test = "in_the_callers_stream_no_launch_is_kept";
    alone(test, "gfx1100", 6, &[("CANDLE_ROCM_REPLAY", "1")], || {
        let device = open().expect("the double opens");
        repeat(&device).expect("launches");
        assert!(device.replays().expect("a count") > 0);
        let stream = Hip::stream();
        // SAFETY: the stream belongs to the only GPU, and lives until the process ends.
        let handle = unsafe { device.on_stream(stream) }.expect("a handle");
        repeat(&handle).expect("launches");
        assert_eq!(handle.replays().expect("a count"), 0);
        // A handle's own stream becomes the caller's when he asks for it.
        let (buffer, layout) = (device.alloc(64).expect("memory"), Layout::contiguous(&[16]).expect("a layout"));
        let fill = |value: f32| device.fill(DType::F32, &buffer, 16, value).expect("a launch");
        for _ in 0..3 {
            (0..4).for_each(|value| fill(value as f32));
            device.synchronize().expect("all done");
        }
        (0..3).for_each(|value| fill(value as f32));
        let own = device.stream().expect("its stream");
        assert_eq!(Hip::memset(buffer.as_ptr(), 0, 64, own), 0);
        assert_eq!(buffer.download::<f32>().expect("a copy"), [0.0; 16]);
        fill(4.0);
        assert_eq!(Hip::memset(buffer.as_ptr(), 0, 32, own), 0);
        assert_eq!(buffer.download::<f32>().expect("a copy"), [[0f32; 8], [4.0; 8]].concat());
        device.affine(DType::F32, &layout, &buffer, &buffer, 1.0, 0.0).expect("a launch");
    });
}

// ---- launches

#[test]
fn a_launcher_makes_one_call() {
    alone("a_launcher_makes_one_call", "gfx1100", 6, &[], || {
        let device = open().expect("the double opens");
        let (src, dst) = (device.upload(&[1f32; 4096]).expect("memory"), device.alloc(4096 * 4).expect("memory"));
        let layouts = [Layout::contiguous(&[4096]), Layout::strided(&[4, 8, 16, 8], &[8, 512, 32, 1], 0)];
        for layout in layouts.map(|layout| layout.expect("a layout")) {
            let run = || device.unary(sys::crk_unary_op::CRK_UNARY_EXP, DType::F32, &layout, &src, &dst);
            run().expect("it runs"); // loads the module
            Controls::get().trace();
            run().expect("it runs");
            assert_eq!(Controls::get().trace(), ["hipModuleLaunchKernel"]);
        }
        let state = device.random_state(1).expect("a generator");
        let draw = || device.random_normal(DType::F32, &dst, 4096, 0.0, 1.0, &state);
        draw().expect("it runs");
        Controls::get().trace();
        draw().expect("it runs");
        assert_eq!(Controls::get().trace(), ["hipModuleLaunchKernel"]);
    });
}

#[test]
fn arguments_are_checked_against_the_code_object() {
    let test = "arguments_are_checked_against_the_code_object";
    alone(test, "gfx1030", 6, &[], || {
        let device = open().expect("the double opens");
        let function = device.function(&AFFINE, "affine_f64").expect("the kernel is there");
        // SAFETY: results are written; wrong arguments are refused before anything runs.
        unsafe {
            let mut count = 0;
            let mut params: [sys::crk_param_t; 16] = std::mem::zeroed();
            check(sys::crk_function_params(function.raw(), &mut count, params.as_mut_ptr(), 16)).expect("it is known");
            let told: Vec<_> = params[..count].iter().map(|param| (param.bytes, param.is_pointer)).collect();
            let expected = [(8, false), (8, false), (8, true), (8, true), (8, true), (8, false), (8, false)];
            assert_eq!(told, expected, "no hidden argument among them");
            let buffer = device.alloc(64).expect("memory");
            let null = Arg::ptr(std::ptr::null());
            let b: Arg<'_> = (&buffer).into();
            let launch = Launch::for_num_elems(4);
            let narrow = [4usize.into(), 1usize.into(), null, b, b, 2f32.into(), 1f64.into()];
            refused(function.launch(launch, &narrow), Status::InvalidArgument, &["affine_f64"]);
            let swapped = [4usize.into(), 1usize.into(), null, b, 2f64.into(), b, 1f64.into()];
            refused(function.launch(launch, &swapped), Status::InvalidArgument, &["affine_f64"]);
            refused(function.launch(launch, &swapped[..6]), Status::InvalidArgument, &["affine_f64"]);
            let right = [4usize.into(), 1usize.into(), null, b, b, 2f64.into(), 1f64.into()];
            let wide = Launch { grid: [1 << 22, 1, 1], ..launch };
            refused(function.launch(wide, &right), Status::InvalidArgument, &["affine_f64"]);
            let deep = Launch { shared_bytes: 65537, ..launch };
            refused(function.launch(deep, &right), Status::InvalidArgument, &["affine_f64"]);
            // Each dim has bounds of its own.
            for (dims, words) in [
                ([1, 1 << 31, 1], ["grid.y is 2147483648", "the most on Test double 0 is 2147483647"]),
                ([1, 1, 1 << 31], ["grid.z is 2147483648", "the most on Test double 0 is 2147483647"]),
            ] {
                let high = Launch { grid: dims, block: [1, 1, 1], ..launch };
                refused(function.launch(high, &right), Status::InvalidArgument, &words);
            }
            for (dims, word) in [([1, 1025, 1], "block.y is 1025"), ([1, 1, 1025], "block.z is 1025")] {
                let thick = Launch { block: dims, ..launch };
                refused(function.launch(thick, &right), Status::InvalidArgument, &[word, "is 1024"]);
            }
            function.launch(launch, &right).expect("it runs");
            device.synchronize().expect("it ran");
            // One with shared memory of its own, 9728 bytes by the double's code objects.
            let staged = device.function_named("quantized_vec", "mul_mat_vec_q8_0_x1").expect("a kernel");
            let more = Launch { block: [256, 1, 1], shared_bytes: 65536 - 9728 + 1, ..launch };
            refused(staged.launch(more, &[]), Status::InvalidArgument, &["shared_bytes is 55809", "9728", "65536"]);
        }
    });
}

// ---- code objects

/// An offload bundle of the entries, as clang writes it.
fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut head = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    head.extend((entries.len() as u64).to_le_bytes());
    let table: usize = entries.iter().map(|(name, _)| 24 + name.len()).sum();
    let mut at = (head.len() + table).next_multiple_of(4096);
    let mut data = Vec::new();
    for (name, code) in entries {
        head.extend([at as u64, code.len() as u64, name.len() as u64].iter().flat_map(|number| number.to_le_bytes()));
        head.extend(name.as_bytes());
        data.push((at, *code));
        at = (at + code.len()).next_multiple_of(4096);
    }
    for (at, code) in data {
        head.resize(at, 0);
        head.extend(code);
    }
    head
}

fn load(device: &Device, name: &str, image: &[u8]) -> candle_rocm_sys::Result<()> {
    // SAFETY: the image has no machine code; the double runs the host's kernels.
    unsafe { device.load_module(name, image) }
}

const HOST: (&str, &[u8]) = ("host-x86_64-unknown-linux-gnu-", &[]);

#[test]
fn code_objects_are_checked_before_the_runtime_sees_them() {
    let test = "code_objects_are_checked_before_the_runtime_sees_them";
    alone(test, MI250, 6, &[], || {
        let device = open().expect("the double opens");
        let controls = Controls::get();
        let object = |architecture: &str| controls.code_object("affine", architecture).expect("a code object");
        let mine = object(MI250);
        let loads = controls.calls("hipModuleLoadData");
        let wrong =
            |name, image: &[u8], words: &[&str]| refused(load(&device, name, image), Status::WrongArchitecture, words);
        let invalid =
            |name, image: &[u8], words: &[&str]| refused(load(&device, name, image), Status::InvalidImage, words);

        wrong("other", &object("gfx1100"), &["module other", "is for gfx1100", MI250, "needs code for gfx90a"]);
        wrong("features", &object("gfx90a:xnack+"), &["gfx90a:xnack+", MI250]);
        wrong("features", &object("gfx90a:sramecc-:xnack-"), &["gfx90a:sramecc-:xnack-", MI250]);
        wrong("generic", &object("gfx9-generic"), &["gfx9-generic"]);
        let (rdna, cdna) = (object("gfx1100"), object("gfx942"));
        let entries =
            [HOST, ("hipv4-amdgcn-amd-amdhsa--gfx1100", &rdna[..]), ("hipv4-amdgcn-amd-amdhsa--gfx942", &cdna[..])];
        wrong("bundle", &bundle(&entries), &["offload bundle is for gfx1100, gfx942", "needs code for gfx90a"]);
        wrong("host", &bundle(&[HOST]), &["is for no GPU"]);
        // The list of targets has room for 400 bytes, with ", ..." and a NUL at its end.
        let gpu = |target: &str| format!("hipv4-amdgcn-amd-amdhsa--{target}");
        for (length, is_told) in [(385, true), (386, false), (387, false)] {
            let long = format!("gfx{}", "0".repeat(length - 3));
            let names = [gpu("gfx1100"), gpu(&long), gpu("gfx942")];
            let list = if is_told { format!("gfx1100, {long}, ...;") } else { "gfx1100, ...;".to_owned() };
            wrong("long", &bundle(&names.each_ref().map(|name| (&name[..], &rdna[..]))), &[&format!("is for {list}")]);
        }

        invalid("empty", &[], &["empty"]);
        invalid("text", b"__kernel void f() {}", &["text"]);
        invalid("zeros", &[0; 4096], &["unknown kind"]);
        invalid("packed", b"CCOB\x02\x00\x01\x00 and so on", &["cut off in its header"]);
        invalid("program", &std::fs::read("/proc/self/exe").expect("this program"), &["not for an AMD GPU"]);
        let mut unlinked = mine.clone();
        unlinked[16] = 1;
        invalid("unlinked", &unlinked, &["object file before linking"]);
        let lie = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx90a", b"no ELF at all")]);
        invalid("lie", &lie, &["entry for this device is text"]);
        let lie = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx90a", &rdna)]);
        wrong("lie", &lie, &["the code object is for gfx1100"]);
        for bytes in [1, 3, 4, 20, 63, 64, 119, 120, 200, mine.len() / 2, mine.len() - 1] {
            invalid("short", &mine[..bytes], &["module short"]);
        }
        assert_eq!(controls.calls("hipModuleLoadData"), loads, "the runtime saw something of it");

        let census = controls.census();
        load(&device, "plain", &mine).expect("a plain ELF");
        load(&device, "any", &object("gfx90a")).expect("code for any setting of the features");
        let any = object("gfx90a");
        let exact = controls.code_object("unary", MI250).expect("a code object");
        let both = bundle(&[
            HOST,
            ("hipv4-amdgcn-amd-amdhsa--gfx90a", &any),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", &exact),
            ("hipv4-amdgcn-amd-amdhsa--gfx1100", &rdna),
        ]);
        load(&device, "both", &both).expect("a bundle");
        device.function_named("both", "uneg_f32").expect("the entry that names the features");
        refused(device.function_named("both", "affine_f32"), Status::NotFound, &["affine_f32"]);
        load(&device, "old", &bundle(&[("hip-amdgcn-amd-amdhsa-gfx90a", &any)])).expect("an old compiler's bundle");
        device.function_named("old", "affine_f32").expect("its kernel");
        for name in ["plain", "affine"] {
            refused(load(&device, name, &mine), Status::InvalidArgument, &[name]);
        }
        drop(device);
        assert_eq!(controls.alive("modules"), census.iter().find(|(kind, _)| *kind == "modules").expect("modules").1);
    });
}

/// A compressed bundle as clang writes it; `claimed` is the size of the bundle that its header gives.
fn compressed(version: u16, method: u16, content: &[u8], claimed: u64) -> Vec<u8> {
    let mut packed = vec![0; zstd_safe::compress_bound(content.len())];
    let bytes = zstd_safe::compress(&mut packed[..], content, 3).expect("a frame");
    packed.truncate(bytes);
    let mut image = [b"CCOB", &version.to_le_bytes()[..], &method.to_le_bytes()].concat();
    let size_bytes = if version == 3 { 8 } else { 4 };
    let head = image.len() + size_bytes * if version == 1 { 1 } else { 2 } + 8;
    if version > 1 {
        image.extend(&((head + packed.len()) as u64).to_le_bytes()[..size_bytes]);
    }
    image.extend(&claimed.to_le_bytes()[..size_bytes]);
    image.extend([0x5a; 8]); // of a hash
    image.extend(packed);
    image
}

#[test]
fn compressed_bundles_are_decompressed() {
    let test = "compressed_bundles_are_decompressed";
    alone(test, MI250, 7, &[], || {
        let device = open().expect("the double opens");
        let controls = Controls::get();
        let object = |architecture: &str| controls.code_object("unary", architecture).expect("a code object");
        let (mine, rdna) = (object("gfx90a"), object("gfx1100"));
        let plain =
            bundle(&[HOST, ("hipv4-amdgcn-amd-amdhsa--gfx1100", &rdna), ("hipv4-amdgcn-amd-amdhsa--gfx90a", &mine)]);
        let size = plain.len() as u64;
        for version in 1..=3 {
            let image = compressed(version, 1, &plain, size);
            assert!(image.len() < plain.len() / 2, "{} of {size} bytes", image.len());
            let name = format!("version{version}");
            load(&device, &name, &image).unwrap_or_else(|error| panic!("version {version}: {error}"));
            let function = device.function_named(&name, "uneg_f32").expect("the entry for this GPU");
            let (src, dst) = (device.upload(&[1f32, -2.0]).expect("memory"), device.alloc(8).expect("memory"));
            let args = [2usize.into(), 1usize.into(), Arg::ptr(std::ptr::null()), (&src).into(), (&dst).into()];
            // SAFETY: the kernel's arguments; the buffers hold as many elements.
            unsafe { function.launch(Launch::for_num_elems(2), &args) }.expect("it runs");
            assert_eq!(dst.download::<f32>().expect("a copy"), [-1.0, 2.0]);
            // If the header gives the size, bytes after the bundle are ignored.
            if version > 1 {
                load(&device, &format!("{name}more"), &[&image[..], &[0xff; 64]].concat()).expect("a whole bundle");
            }
        }
        let loads = controls.calls("hipModuleLoadData");
        let invalid = |image: &[u8], words: &[&str]| {
            refused(load(&device, "bad", image), Status::InvalidImage, &[&["module bad"], words].concat())
        };
        let remedy = "--no-offload-compress";
        invalid(&compressed(2, 0, &plain, size), &["by zlib, not by zstd", remedy]);
        invalid(&compressed(2, 7, &plain, size), &["an unknown method", remedy]);
        invalid(&compressed(4, 1, &plain, size), &["version 4", remedy]);
        for version in 1..=3 {
            let image = compressed(version, 1, &plain, size);
            for bytes in [4, 5, 7, 8, 12, 19, 23, 31, image.len() / 2, image.len() - 1] {
                invalid(&image[..bytes], &["compressed offload bundle is"]);
            }
            for lie in [0, 1, size - 1, size + 1, u64::from(u32::MAX)] {
                invalid(&compressed(version, 1, &plain, lie), &["damaged"]);
            }
            let mut damaged = image.clone();
            damaged[[20, 24, 32][usize::from(version) - 1]] ^= 0x55; // of zstd's magic
            invalid(&damaged, &["damaged", "ZSTD_decompress"]);
        }
        invalid(&compressed(3, 1, &plain, u64::MAX), &["18446744073709551615"]);
        invalid(&compressed(3, 1, b"__kernel void f() {}", 20), &["20 bytes that are text"]);
        let twice = compressed(3, 1, &plain, size);
        invalid(&compressed(3, 1, &twice, twice.len() as u64), &["inside another one"]);
        let other = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx1100", &rdna)]);
        let other = load(&device, "bad", &compressed(3, 1, &other, other.len() as u64));
        refused(other, Status::WrongArchitecture, &["the offload bundle is for gfx1100"]);
        assert_eq!(controls.calls("hipModuleLoadData"), loads, "the runtime saw something of it");
    });
}

#[test]
fn generic_code_serves_its_family() {
    let test = "generic_code_serves_its_family";
    alone(test, "gfx1151", 7, &[], || {
        let device = open().expect("the double opens");
        let object = |arch: &str| Controls::get().code_object("affine", arch).expect("a code object");
        load(&device, "generic", &object("gfx11-generic")).expect("its family's code");
        let words = ["gfx12-generic", "needs code for gfx1151 or gfx11-generic"];
        refused(load(&device, "foreign", &object("gfx12-generic")), Status::WrongArchitecture, &words);
        let unary = Controls::get().code_object("unary", "gfx1151").expect("a code object");
        let both = bundle(&[
            ("hipv4-amdgcn-amd-amdhsa--gfx11-generic", &object("gfx11-generic")),
            ("hipv4-amdgcn-amd-amdhsa--gfx1151", &unary),
        ]);
        load(&device, "both", &both).expect("a bundle");
        device.function_named("both", "uneg_f32").expect("code for the GPU itself is better than generic code");
    });
}

/// HIP's runtime loads code for generic targets from ROCm 6.4 on. What an older one answers to them does not matter.
#[test]
fn an_older_runtime_that_refuses_generic_code() {
    let test = "an_older_runtime_that_refuses_generic_code";
    alone(test, "gfx1151", 5, &[("HIP_DOUBLE_FAIL", "hipModuleLoadData:0=200")], || {
        let device = open().expect("the double opens");
        let object = |arch: &str| Controls::get().code_object("affine", arch).expect("a code object");
        let words = [
            "module generic: hipModuleLoadData on a gfx1151",
            "the code is for gfx11-generic, which needs ROCm 6.4 or later, and this HIP runtime has version 5.2",
            "update ROCm, or take code for gfx1151",
        ];
        refused(load(&device, "generic", &object("gfx11-generic")), Status::WrongArchitecture, &words);
        refused(load(&device, "own", &object("gfx1151")), Status::InvalidImage, &["module own"]);
    });
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Kernel {
    name: *const c_char,
    params: *const sys::crk_param_t,
    param_count: usize,
    max_threads: u32,
}

extern "C" {
    fn crk_priv_code_object_find(
        module: *const c_char,
        architecture: *const c_char,
        data: *const c_void,
        bytes: usize,
        elf: *mut sys::crk_image_t,
    ) -> Status;
    fn crk_priv_bundle_decompress(
        module: *const c_char,
        data: *const c_void,
        bytes: usize,
        bundle: *mut sys::crk_image_t,
    ) -> Status;
    fn crk_priv_code_kernels_create(module: *const c_char, elf: sys::crk_image_t, kernels: *mut *mut c_void) -> Status;
    fn crk_priv_code_kernels_destroy(kernels: *mut c_void);
    fn crk_priv_code_kernels_find(kernels: *const c_void, name: *const c_char) -> *const Kernel;
    fn mmap(at: *mut c_void, bytes: usize, access: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn mprotect(at: *mut c_void, bytes: usize, access: c_int) -> c_int;
}

/// Memory with an inaccessible page behind it. Reading a byte beyond its end faults.
struct Cliff {
    end: *mut u8,
    capacity: usize,
}

impl Cliff {
    fn new(bytes: usize) -> Cliff {
        const PAGE: usize = 65536; // a multiple of any page's size
        let capacity = bytes.next_multiple_of(PAGE);
        // SAFETY: private memory of its own; the last part of it is closed.
        unsafe {
            let base = mmap(std::ptr::null_mut(), capacity + PAGE, 3, 0x22, -1, 0);
            assert_ne!(base as isize, -1, "no memory");
            let end = base.cast::<u8>().add(capacity);
            assert_eq!(mprotect(end.cast(), PAGE, 0), 0);
            Cliff { end, capacity }
        }
    }

    /// Puts `bytes` so that they end where nothing can be read.
    fn put(&self, bytes: &[u8]) -> *mut u8 {
        assert!(bytes.len() <= self.capacity);
        // SAFETY: inside this memory.
        unsafe {
            let start = self.end.sub(bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            start
        }
    }
}

/// Reads an image as the driver does before the runtime sees it. True where it is taken.
fn read(start: *const u8, bytes: usize, kernel: &CStr) -> bool {
    let mut bundle = sys::crk_image_t { data: std::ptr::null(), bytes: 0 };
    // SAFETY: `bytes` bytes are there; what was made is freed.
    unsafe {
        let status = crk_priv_bundle_decompress(c"fuzz".as_ptr(), start.cast(), bytes, &mut bundle);
        if status != Status::Ok {
            assert_eq!(status, Status::InvalidImage);
            return false;
        }
        let taken = read_plain(bundle.data.cast(), bundle.bytes, kernel);
        if bundle.data != start.cast() {
            crk_priv_aligned_free(bundle.data.cast_mut());
        }
        taken
    }
}

fn read_plain(start: *const u8, bytes: usize, kernel: &CStr) -> bool {
    // SAFETY: `bytes` bytes are there; results are written; what was created is destroyed.
    unsafe {
        let mut elf = sys::crk_image_t { data: std::ptr::null(), bytes: 0 };
        let architecture = c"gfx90a:sramecc+:xnack-".as_ptr();
        let status = crk_priv_code_object_find(c"fuzz".as_ptr(), architecture, start.cast(), bytes, &mut elf);
        if status != Status::Ok {
            assert!(matches!(status, Status::InvalidImage | Status::WrongArchitecture), "{status:?}");
            return false;
        }
        assert!(elf.data as usize >= start as usize && elf.data as usize + elf.bytes <= start as usize + bytes);
        let mut kernels = std::ptr::null_mut();
        if crk_priv_code_kernels_create(c"fuzz".as_ptr(), elf, &mut kernels) != Status::Ok {
            return false;
        }
        if !kernels.is_null() {
            if let Some(kernel) = crk_priv_code_kernels_find(kernels, kernel.as_ptr()).as_ref() {
                assert!(!CStr::from_ptr(kernel.name).is_empty());
                let params = std::slice::from_raw_parts(kernel.params, kernel.param_count);
                std::hint::black_box(params.iter().map(|param| param.bytes as u64).sum::<u64>());
            }
        }
        crk_priv_code_kernels_destroy(kernels);
        true
    }
}

/// A code object for `MI250`, and a bundle of it and another.
fn images() -> [Vec<u8>; 2] {
    let fill = Controls::of_build().code_object("fill", MI250).expect("a code object");
    let rdna = Controls::of_build().code_object("affine", "gfx1100").expect("a code object");
    let both =
        bundle(&[HOST, ("hipv4-amdgcn-amd-amdhsa--gfx1100", &rdna[..]), ("hipv4-amdgcn-amd-amdhsa--gfx90a", &fill)]);
    [fill, both]
}

/// Reads the image cut off, with single bits wrong in its first and last `bits` bytes, and with several bytes wrong.
/// The image lies right before memory that cannot be read.
fn leaves_no_bytes_of(image: &[u8], bits: usize) {
    let kernel = c"fill_f32";
    let cliff = Cliff::new(image.len());
    let start = cliff.put(image);
    assert!(read(start, image.len(), kernel), "the image itself is right");
    // Cut off anywhere: all of the head, then a sample.
    for bytes in (0..image.len()).filter(|&bytes| bytes < 8192 || bytes % 61 == 0 || bytes + 4096 > image.len()) {
        let taken = read(cliff.put(&image[..bytes]), bytes, kernel);
        assert!(!taken, "{bytes} of {} bytes are taken for whole", image.len());
    }
    let start = cliff.put(image);
    for at in (0..bits.min(image.len())).chain(image.len() - bits.min(1024)..image.len()) {
        for bit in 0..8 {
            // SAFETY: inside the image, which is this test's own.
            unsafe { *start.add(at) ^= 1 << bit };
            read(start, image.len(), kernel);
            // SAFETY: as above.
            unsafe { *start.add(at) ^= 1 << bit };
        }
    }
    // Several bytes wrong, with the numbers that break sums and loops.
    let mut seed = 0x243f_6a88_85a3_08d3u64;
    let mut random = move |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % bound as u64) as usize
    };
    for _ in 0..20_000 {
        let mut broken = image.to_vec();
        for _ in 0..1 + random(4) {
            let at = if random(2) == 0 { random(broken.len()) } else { random(512) };
            let value = [0, 0xff, 0x7f, 0x80, 0xdd, 0xdf, 0xc6, 0xdb][random(8)];
            broken[at..].iter_mut().take(1 + random(8)).for_each(|byte| *byte = value);
        }
        let bytes = broken.len() - if random(4) == 0 { random(broken.len()) } else { 0 };
        read(cliff.put(&broken[..bytes]), bytes, kernel);
    }
}

#[test]
fn no_code_object_makes_the_reader_leave_its_bytes() {
    leaves_no_bytes_of(&images()[0], 16384);
}

/// Bits are wrong in the bundle's table: the code objects in it are read as one alone is.
#[test]
fn no_bundle_makes_the_reader_leave_its_bytes() {
    leaves_no_bytes_of(&images()[1], 4096);
}

#[test]
fn no_compressed_bundle_makes_the_reader_leave_its_bytes() {
    let [_, both] = images();
    leaves_no_bytes_of(&compressed(3, 1, &both, both.len() as u64), 64);
}

// ---- packed code objects

/// A bundle as build.rs embeds it: a frame of its table, and one of each entry with its padding.
fn packed(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut image = bundle(entries);
    image.resize(image.len().next_multiple_of(4096), 0);
    let mut sizes: Vec<usize> = entries.iter().map(|(_, code)| code.len().next_multiple_of(4096)).collect();
    sizes.insert(0, image.len() - sizes.iter().sum::<usize>());
    let mut rest = &image[..];
    let frames = sizes.into_iter().filter(|&bytes| bytes > 0).flat_map(|bytes| {
        let (part, after) = rest.split_at(bytes);
        rest = after;
        let mut context = zstd_safe::CCtx::create();
        context.set_parameter(zstd_safe::CParameter::ChecksumFlag(true)).expect("a checksum");
        let mut frame = vec![0; zstd_safe::compress_bound(part.len())];
        let bytes = context.compress2(&mut frame[..], part).expect("a frame");
        frame.truncate(bytes);
        frame
    });
    frames.collect()
}

/// A folder with a packed bundle for every module. Each has code for `architecture` and for another one.
fn packed_folder(test: &str, architecture: &str) -> String {
    let folder = std::path::Path::new(SCRATCH).join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    let (mine, other) = (format!("hipv4-amdgcn-amd-amdhsa--{architecture}"), "hipv4-amdgcn-amd-amdhsa--gfx1030");
    for module in hip_double::modules() {
        let object = |architecture| Controls::of_build().code_object(module, architecture).expect("a code object");
        let image = packed(&[HOST, (other, &object("gfx1030")), (&mine, &object(architecture))]);
        std::fs::write(folder.join(format!("{module}.hsaco")), image).expect("a file");
    }
    folder.to_str().expect("UTF-8").to_owned()
}

#[test]
fn packed_modules_are_loaded_on_two_devices_at_once() {
    let test = "packed_modules_are_loaded_on_two_devices_at_once";
    let folder = packed_folder(test, MI250);
    let extra = [("CANDLE_ROCM_HSACO_DIR", &*folder), ("HIP_DOUBLE_DEVICES", "2")];
    alone(test, MI250, 6, &extra, || {
        let controls = Controls::get();
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for ordinal in 0..2 {
                let begin = &begin;
                scope.spawn(move || {
                    let device = Device::open(Backend::Hip, ordinal).expect("the double opens");
                    begin.wait();
                    for (module, kernel) in [("affine", "affine_f32"), ("fill", "fill_f32"), ("cast", "cast_f32_f16")] {
                        device.function_named(module, kernel).expect("its kernel");
                    }
                    begin.wait();
                    works(&device);
                });
            }
        });
        assert_eq!(controls.calls("hipModuleLoadData"), 2 * 4, "each module once per device");
    });
}

#[test]
fn packed_code_for_other_gpus_is_refused() {
    let test = "packed_code_for_other_gpus_is_refused";
    alone(test, MI250, 6, &[("CANDLE_ROCM_HSACO_DIR", &packed_folder(test, "gfx1100"))], || {
        let error = negate(&open().expect("the double opens"), &[1.0]).expect_err("code for other GPUs");
        assert_eq!(error.status(), Status::WrongArchitecture, "{error}");
        for words in ["module unary: the offload bundle is for gfx1030, gfx1100", "CANDLE_ROCM_ARCHS=gfx90a"] {
            assert!(error.message().contains(words), "'{words}' is not in: {error}");
        }
    });
}

extern "C" {
    fn crk_priv_unpack(
        module: *const c_char,
        data: *const c_void,
        bytes: usize,
        image: *mut sys::crk_image_t,
    ) -> Status;
    fn crk_priv_unpack_elf(
        module: *const c_char,
        architecture: *const c_char,
        data: *const c_void,
        bytes: usize,
        elf: *mut sys::crk_image_t,
    ) -> Status;
    fn crk_priv_aligned_free(ptr: *mut c_void);
}

/// Unpacks a packed image: all of it or, if `architecture` is given, the ELF for it.
fn unpack(architecture: Option<&CStr>, start: *const u8, bytes: usize) -> Result<Vec<u8>, (Status, String)> {
    let mut image = sys::crk_image_t { data: std::ptr::null(), bytes: 0 };
    // SAFETY: `bytes` bytes are there; the image is written on success, and freed once.
    unsafe {
        check(match architecture {
            None => crk_priv_unpack(c"fuzz".as_ptr(), start.cast(), bytes, &mut image),
            Some(name) => crk_priv_unpack_elf(c"fuzz".as_ptr(), name.as_ptr(), start.cast(), bytes, &mut image),
        })?;
        let copy = std::slice::from_raw_parts(image.data.cast(), image.bytes).to_vec();
        crk_priv_aligned_free(image.data.cast_mut());
        Ok(copy)
    }
}

/// However an image is cut off or damaged, unpacking never returns other bytes than were packed.
#[test]
fn damaged_packed_images_are_refused() {
    let object = |architecture| Controls::of_build().code_object("fill", architecture).expect("a code object");
    let (mine, rdna) = (object(MI250), object("gfx1100"));
    let entries = [HOST, ("hipv4-amdgcn-amd-amdhsa--gfx1100", &rdna[..]), ("hipv4-amdgcn-amd-amdhsa--gfx90a", &mine)];
    let mut whole = bundle(&entries);
    whole.resize(whole.len().next_multiple_of(4096), 0);
    let image = packed(&entries);
    let cliff = Cliff::new(image.len());
    let mut ends = 0;
    for (architecture, expected) in [(None, &whole), (Some(c"gfx90a:sramecc+:xnack-"), &mine)] {
        let start = cliff.put(&image);
        assert!(unpack(architecture, start, image.len()).as_ref() == Ok(expected), "the image itself is right");
        let refuses = |what: &str, start: *const u8, bytes: usize| match unpack(architecture, start, bytes) {
            // The bit may be one that does not matter, such as the flag for a checksum.
            Ok(image) => assert!(image == *expected, "{what}: other bytes than were packed"),
            Err((status, message)) => {
                // The size of a whole image has no bound, so running out of memory is a valid answer.
                let is_memory = architecture.is_none() && status == Status::OutOfMemory;
                assert!(status == Status::InvalidImage || is_memory, "{what}: {status:?}: {message}");
                assert!(message.contains("module fuzz: "), "{what}: {message}");
            }
        };
        for bytes in 1..image.len() {
            let start = cliff.put(&image[..bytes]);
            if architecture.is_none() && unpack(None, start, bytes).is_ok_and(|part| whole.starts_with(&part)) {
                ends += 1; // whole frames
                continue;
            }
            assert!(unpack(architecture, start, bytes).is_err(), "{bytes} of {} bytes are taken", image.len());
            refuses(&format!("cut off after {bytes} bytes"), start, bytes);
        }
        let start = cliff.put(&image);
        for at in 0..image.len() {
            for bit in 0..8 {
                // SAFETY: inside the image, which is this test's own.
                unsafe { *start.add(at) ^= 1 << bit };
                refuses(&format!("bit {bit} of byte {at}"), start, image.len());
                // SAFETY: as above.
                unsafe { *start.add(at) ^= 1 << bit };
            }
        }
    }
    assert_eq!(ends, 2, "the table's frame and the first entry's");
    // The contents are checked too.
    for (name, code, words) in [
        ("hipv4-amdgcn-amd-amdhsa--gfx90a", &b"no ELF at all"[..], "text"),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a", &rdna, "is for gfx1100"),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a", &whole, "not an ELF file"),
        ("hipv4-amdgcn-amd-amdhsa--gfx942", &mine, "needs code for gfx90a"),
    ] {
        let image = packed(&[(name, code)]);
        let error = unpack(Some(c"gfx90a:sramecc+:xnack-"), image.as_ptr(), image.len()).expect_err("must fail");
        assert!(error.1.contains(words), "'{words}' is not in: {}", error.1);
    }
}

// ---- the double itself

#[test]
fn an_instant_double_does_nothing() {
    let test = "an_instant_double_does_nothing";
    alone(test, "gfx1100", 6, &[("HIP_DOUBLE_INSTANT", "1")], || {
        let device = open().expect("the double opens");
        let dst = device.alloc(1 << 20).expect("memory");
        device.fill(DType::U8, &dst, 1 << 20, 1u8).expect("it returns");
        device.synchronize().expect("it returns");
        assert_eq!(Controls::get().calls("hipModuleLaunchKernel"), 0, "not even counted");
    });
}

/// Many compute units cut a long row into many parts of whole vectors. No part begins beyond the row, where other
/// elements are.
#[test]
fn a_row_in_parts_of_three_hundred_compute_units() {
    let units = [("HIP_DOUBLE_COMPUTE_UNITS", "304")];
    alone("a_row_in_parts_of_three_hundred_compute_units", "gfx942", 6, &units, || {
        let device = open().expect("a device");
        assert_eq!(device.info().expect("figures").compute_units, 304);
        let numel = 8_388_609usize;
        let src = device.upload(&vec![1f32; numel + 16384]).expect("memory");
        let dst = device.alloc(4).expect("memory");
        let layout = Layout::contiguous(&[numel]).expect("a layout");
        let sum = sys::crk_reduce_op_t::CRK_REDUCE_SUM;
        device.reduce(sum, DType::F32, &layout, &src, &[0], &dst).expect("a sum");
        assert_eq!(dst.download::<f32>().expect("the sum"), [numel as f32]);
    });
}
