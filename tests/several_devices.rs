//! Several GPUs in one process, with a double of libamdhip64 (tests/double): copies and waits between them without the
//! host, and the access that the driver asks for. The double does a stream's work only when somebody waits for it, so
//! work that is not ordered gives wrong results.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys::{Backend, Buffer, DType, Device, Event, Layout, Status, sys};
use candle_rocm_sys_tests::support::hip_double::{self, Controls, alone};
use std::ffi::CStr;

const TWO: (&str, &str) = ("HIP_DOUBLE_DEVICES", "2");
const COUNT: usize = 10_000;
const BYTES: usize = COUNT * 4;

fn two() -> [Device; 2] {
    [0, 1].map(|ordinal| Device::open(Backend::Hip, ordinal).expect("two devices"))
}

/// `dst = src + 1` in the handle's stream.
fn add_one(device: &Device, src: &Buffer, dst: &Buffer) {
    let layout = Layout::contiguous(&[COUNT]).expect("a layout");
    device.affine(DType::F32, &layout, src, dst, 1.0, 1.0).expect("a launch");
}

fn copy(to: &Device, dst: &Buffer, from: &Device, src: &Buffer) -> Result<(), (Status, String)> {
    // SAFETY: live handles and memory of theirs. The sentence is never NULL, and stays until the next failure.
    unsafe {
        match sys::crk_copy_between(to.raw(), dst.raw_view(), from.raw(), src.raw_view().into(), BYTES) {
            Status::Ok => Ok(()),
            status => Err((status, CStr::from_ptr(sys::crk_last_error()).to_string_lossy().into_owned())),
        }
    }
}

fn host_waits() -> i64 {
    let calls = ["hipStreamSynchronize", "hipEventSynchronize", "hipDeviceSynchronize"];
    calls.iter().map(|call| Controls::get().calls(call)).sum()
}

fn ramp(from: f32) -> Vec<f32> {
    (0..COUNT).map(|i| from + i as f32).collect()
}

#[track_caller]
fn holds(buffer: &Buffer, first: f32) {
    let values = buffer.download::<f32>().expect("a copy");
    assert!(values == ramp(first), "{} values from {first} were expected: {:?}, ...", COUNT, &values[..4]);
}

#[test]
fn copies_are_ordered_without_the_host() {
    alone("copies_are_ordered_without_the_host", "gfx1100", 6, &[TWO], || {
        let [a, b] = two();
        assert!(a.peer_access(&b).expect("an answer") && b.peer_access(&a).expect("an answer"));
        assert!(a.peer_access(&a).expect("an answer"));
        let buffers = |device: &Device| [0; 3].map(|_| device.upload(&ramp(0.0)).expect("memory"));
        let ([x, y, z], [p, q, r]) = (buffers(&a), buffers(&b));
        let before = host_waits();
        for _ in 0..20 {
            add_one(&a, &x, &y);
            copy(&b, &p, &a, &y).expect("a copy"); // behind the kernel of `a`
            add_one(&a, &z, &y); // behind the copy
            add_one(&b, &p, &q); // behind the copy
            copy(&a, &x, &b, &q).expect("a copy back");
            add_one(&b, &r, &q); // behind the copy back
        }
        assert_eq!(host_waits(), before, "the host waited");
        for (buffer, first) in [(&x, 40.0), (&p, 39.0), (&y, 1.0), (&q, 1.0)] {
            holds(buffer, first);
        }
        for call in ["hipDeviceCanAccessPeer", "hipDeviceEnablePeerAccess"] {
            assert_eq!(Controls::get().calls(call), 2, "{call}: once in each direction");
        }
        // The source may change as soon as the call has returned: here before anything waits for `b`.
        copy(&b, &p, &a, &y).expect("a copy");
        add_one(&a, &x, &y);
        a.synchronize().expect("a wait");
        holds(&p, 1.0);
        // It may also go.
        let source = a.upload(&ramp(5.0)).expect("memory");
        let copied = b.copy_from(&source).expect("a copy");
        drop(source);
        drop(a);
        holds(&copied, 5.0);
    });
}

#[test]
fn an_event_of_another_device_is_waited_for() {
    alone("an_event_of_another_device_is_waited_for", "gfx90a:sramecc+:xnack-", 6, &[TWO], || {
        let [a, b] = two();
        let cpu = Device::open(Backend::Cpu, 1).expect("the CPU");
        let (x, y) = (a.upload(&ramp(1.0)).expect("memory"), a.upload(&ramp(0.0)).expect("memory"));
        let result = b.alloc(BYTES).expect("memory");
        let mark = a.event().expect("an event");
        b.wait(&mark).expect("nothing was recorded");
        let before = host_waits();
        add_one(&a, &x, &y);
        mark.record(&a).expect("a mark");
        b.wait(&mark).expect("a wait");
        // With peer access, work of `b` may read memory of `a`.
        assert!(b.peer_access(&a).expect("an answer"));
        // SAFETY: live handles; the double reads all its memory from every device.
        let copied = unsafe { sys::crk_copy(b.raw(), result.raw_view(), y.raw_view().into(), BYTES) };
        assert_eq!(copied, Status::Ok);
        assert_eq!(host_waits(), before, "the host waited");
        holds(&result, 2.0);
        // Another backend's: the host waits.
        add_one(&a, &y, &x);
        mark.record(&a).expect("a mark");
        cpu.wait(&mark).expect("a wait");
        assert!(mark.is_done().expect("an answer"));
        assert!(!cpu.peer_access(&a).expect("an answer") && !a.peer_access(&cpu).expect("an answer"));
    });
}

/// Copies work without peer access, and the driver is not asked again for what it has refused.
#[test]
fn without_peer_access_copies_work() {
    let test = "without_peer_access_copies_work";
    alone(test, "gfx1100", 6, &[TWO, ("HIP_DOUBLE_PEERS", "0")], || {
        let [a, b] = two();
        assert!(!a.peer_access(&b).expect("an answer"));
        for _ in 0..3 {
            let copied = a.copy_from(&b.upload(&ramp(2.0)).expect("memory")).expect("a copy");
            holds(&copied, 2.0);
        }
        assert_eq!(Controls::get().calls("hipDeviceCanAccessPeer"), 1);
        assert_eq!(Controls::get().calls("hipDeviceEnablePeerAccess"), 0);
    });
}

#[test]
fn a_runtime_without_the_calls_has_no_peer_access() {
    let test = "a_runtime_without_the_calls_has_no_peer_access";
    let is_inner = std::env::var("CANDLE_ROCM_TEST_INNER").is_ok();
    let calls = ["hipDeviceCanAccessPeer", "hipDeviceEnablePeerAccess"];
    let library = if is_inner { "".into() } else { hip_double::without(&calls) };
    let extra = [TWO, ("CANDLE_ROCM_HIP_LIBRARY", library.to_str().expect("UTF-8")), ("CANDLE_ROCM_TEST_INNER", "1")];
    alone(test, "gfx1100", 6, &extra, || {
        let [a, b] = two();
        assert!(!a.peer_access(&b).expect("an answer"));
        let copied = a.copy_from(&b.upload(&ramp(2.0)).expect("memory")).expect("a copy");
        holds(&copied, 2.0);
    });
    if !is_inner {
        std::fs::remove_file(library).expect("a file of this test's");
    }
}

#[test]
fn failures_are_told_and_nothing_is_lost() {
    alone("failures_are_told_and_nothing_is_lost", "gfx1100", 6, &[TWO], || {
        let controls = Controls::get();
        let [a, b] = two();
        let (x, y) = (a.upload(&ramp(3.0)).expect("memory"), b.upload(&ramp(0.0)).expect("memory"));
        for call in ["hipDeviceCanAccessPeer", "hipDeviceEnablePeerAccess"] {
            controls.fail(call, 1, 999);
            let error = b.peer_access(&a).expect_err("must fail");
            assert_eq!(error.status(), Status::Device, "{error}");
            for word in [call, "device 1", "peer 0", "answers 999"] {
                assert!(error.message().contains(word), "'{word}' is not in: {error}");
            }
            // A copy goes on without it.
            controls.fail(call, 1, 999);
            copy(&b, &y, &a, &x).expect("a copy without the access");
        }
        assert!(b.peer_access(&a).expect("asked again"));
        // A second opening of the GPU asks too, and has the access already.
        let again = Device::open(Backend::Hip, 1).expect("a device");
        assert!(again.peer_access(&a).expect("an answer"));
        assert_eq!(controls.last_error(), 0, "the runtime still remembers");

        let census = controls.census();
        for (call, times) in [("hipEventRecord", 2), ("hipStreamWaitEvent", 2), ("hipMemcpyPeerAsync", 1)] {
            for nth in 1..=times {
                controls.fail(call, nth, 999);
                let (status, sentence) = copy(&b, &y, &a, &x).expect_err("must fail");
                assert_eq!(status, Status::Device, "{sentence}");
                assert!(sentence.contains(call), "'{call}' is not in: {sentence}");
                controls.fail(call, 1, 0);
                copy(&b, &y, &a, &x).expect("a copy after the failure");
            }
        }
        let fresh = a.new_stream().expect("a handle");
        let z = fresh.upload(&ramp(4.0)).expect("memory");
        controls.fail("hipEventCreateWithFlags", 1, 999);
        let (_, sentence) = copy(&b, &y, &fresh, &z).expect_err("must fail");
        assert!(sentence.contains("hipEventCreateWithFlags"), "{sentence}");
        copy(&b, &y, &fresh, &z).expect("a copy after the failure");
        holds(&y, 4.0);
        drop((z, fresh));
        assert_eq!(controls.census(), census, "something leaks");
    });
}

#[test]
fn a_captured_handle_is_refused() {
    alone("a_captured_handle_is_refused", "gfx1100", 6, &[TWO], || {
        let [a, b] = two();
        let (x, y) = (a.upload(&ramp(3.0)).expect("memory"), b.upload(&ramp(0.0)).expect("memory"));
        copy(&b, &y, &a, &x).expect("a copy");
        for captured in [&a, &b] {
            let mut graph = std::ptr::null_mut();
            // SAFETY: a live handle; `graph` is written on success.
            unsafe {
                assert_eq!(sys::crk_graph_begin(captured.raw()), Status::Ok);
                assert_eq!(copy(&b, &y, &a, &x).expect_err("must fail").0, Status::Capture);
                assert_eq!(copy(&a, &x, &b, &y).expect_err("must fail").0, Status::Capture);
                assert_eq!(sys::crk_graph_end(captured.raw(), &mut graph), Status::Ok);
                sys::crk_graph_destroy(graph);
            }
        }
        copy(&a, &x, &b, &y).expect("a copy");
        holds(&x, 3.0);
    });
}

/// Each thread has buffers of its own; all threads use the same two handles, in both directions.
#[test]
fn many_threads_copy_between_two_handles() {
    alone("many_threads_copy_between_two_handles", "gfx1100", 6, &[TWO], || {
        let devices = &two();
        std::thread::scope(|scope| {
            for turn in 0..8 {
                scope.spawn(move || {
                    let (a, b) = (&devices[turn % 2], &devices[(turn + 1) % 2]);
                    for round in 0..25 {
                        let values = ramp((turn * 100 + round) as f32);
                        let there = b.copy_from(&a.upload(&values).expect("memory")).expect("a copy");
                        let back = a.copy_from(&there).expect("a copy back");
                        drop(there);
                        assert!(back.download::<f32>().expect("a copy") == values);
                    }
                });
            }
        });
    });
}

/// A handle is closed. Calls about events of its stream wait until the stream is gone: the double ends the process if
/// they come while it is being destroyed.
#[test]
fn events_outlive_their_streams() {
    alone("events_outlive_their_streams", "gfx1100", 6, &[], || {
        let (controls, a) = (Controls::get(), Device::open(Backend::Hip, 0).expect("a device"));
        let calls: [fn(&Device, Event, &Event); 5] = [
            |_, mark, _| drop(mark),
            |a, mark, _| mark.record(a).expect("a mark"),
            |_, mark, other| _ = other.milliseconds_since(&mark).expect("a time"),
            |_, mark, other| _ = mark.milliseconds_since(other).expect("a time"),
            |_, mark, _| assert!(mark.is_done().expect("an answer")),
        ];
        for call in calls {
            let [mark, other] = [0; 2].map(|_| a.event().expect("an event"));
            let closing = a.new_stream().expect("a handle");
            mark.record(&closing).expect("a mark");
            other.record(&a).expect("a mark");
            controls.fail("hipStreamDestroy", 1, -300);
            let before = controls.calls("hipStreamDestroy");
            std::thread::scope(|scope| {
                scope.spawn(|| drop(closing));
                while controls.calls("hipStreamDestroy") == before {
                    std::thread::yield_now();
                }
                call(&a, mark, &other);
            });
        }
    });
}

/// With CANDLE_ROCM_SYNC each copy is waited for.
#[test]
fn synchronous_handles_wait() {
    alone("synchronous_handles_wait", "gfx1100", 6, &[TWO, ("CANDLE_ROCM_SYNC", "1")], || {
        let [a, b] = two();
        let x = a.upload(&ramp(3.0)).expect("memory");
        let before = host_waits();
        let y = b.copy_from(&x).expect("a copy");
        assert!(host_waits() > before);
        holds(&y, 3.0);
    });
}

/// On real GPUs, which `CANDLE_ROCM_COMM_DEVICES` names with commas: copies from each to the next, in order.
#[test]
#[ignore = "needs devices, named in CANDLE_ROCM_COMM_DEVICES"]
fn real_devices() {
    let names = std::env::var("CANDLE_ROCM_COMM_DEVICES").expect("CANDLE_ROCM_COMM_DEVICES, such as hip:0,hip:1");
    let devices: Vec<_> = names.split(',').map(|name| Device::open_named(name).expect("a device")).collect();
    assert!(devices.len() > 1, "{names}: two devices or more");
    let buffers = |device: &Device| [0; 3].map(|_| device.upload(&ramp(0.0)).expect("memory"));
    let all: Vec<_> = devices.iter().map(buffers).collect();
    for (i, device) in devices.iter().enumerate() {
        let next = (i + 1) % devices.len();
        let has_access = device.peer_access(&devices[next]).expect("an answer");
        println!("{}: peer access to {}: {has_access}", names, devices[next].info().expect("a description").name());
    }
    // Each round adds 1 on every device. Nothing waits for the host; what a device copied from changes at once.
    for _ in 0..200 {
        for (i, device) in devices.iter().enumerate() {
            let next = (i + 1) % devices.len();
            let [x, y, other] = &all[i];
            add_one(device, x, y);
            copy(&devices[next], &all[next][0], device, y).expect("a copy");
            add_one(device, other, y);
        }
    }
    holds(&all[0][0], 200.0 * devices.len() as f32);
    // An event of one device holds up the other.
    let mark = devices[0].event().expect("an event");
    let [x, y, _] = &all[0];
    add_one(&devices[0], x, y);
    mark.record(&devices[0]).expect("a mark");
    devices[1].wait(&mark).expect("a wait");
    devices[1].synchronize().expect("the work is done");
    assert!(mark.is_done().expect("an answer"));
    holds(y, 200.0 * devices.len() as f32 + 1.0);
}
