//! Small copies between host and device, which go through pinned memory of the handle (csrc/staging.h).
use candle_rocm_sys_tests::support;

use candle_rocm_sys::{Buffer, Device};
use support::{open, targets};

/// The largest copy that is staged, and the room for uploads.
const MOST: usize = 64 << 10;
const ROOM: usize = 4 * MOST;

/// Bytes that tell the uploads of a test apart.
fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 + seed * 97 + i / 251) as u8).collect()
}

/// Copies pattern `seed` to the device, and spoils the source at once.
fn send(device: &Device, seed: usize, bytes: usize) -> Buffer {
    let buffer = device.alloc(bytes).expect("memory");
    let mut source = pattern(seed, bytes);
    buffer.write(&source).expect("a copy");
    source.fill(0xee);
    std::hint::black_box(&source);
    buffer
}

#[track_caller]
fn holds(buffer: &Buffer, seed: usize) {
    let values = buffer.download::<u8>().expect("a copy");
    assert!(values == pattern(seed, buffer.bytes()), "{} bytes of upload {seed} are others", buffer.bytes());
}

#[test]
fn uploads_keep_their_bytes() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let sizes = [1, 3, 4, 63, 64, 65, 4096, MOST - 1, MOST, MOST + 1, ROOM, ROOM + 7];
        // Twice the room, so that it is full in between, at different places.
        let sent: Vec<Buffer> =
            (0..8 * sizes.len()).map(|seed| send(&device, seed, sizes[seed % sizes.len()])).collect();
        for (seed, buffer) in sent.iter().enumerate() {
            holds(buffer, seed);
        }
    }
}

#[test]
fn threads_share_the_memory_of_a_handle() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let device = &device;
                scope.spawn(move || {
                    for round in 0..50 {
                        let seed = thread * 1000 + round;
                        let buffer = send(device, seed, 1 + seed * 37 % MOST);
                        holds(&buffer, seed);
                    }
                });
            }
        });
    }
}

/// The double of libamdhip64 does a stream's work only when somebody waits for it. So an upload that did not keep its
/// bytes would copy the spoilt ones.
#[cfg(all(target_os = "linux", feature = "cpu"))]
mod over_the_double {
    use super::*;
    use candle_rocm_sys::{Backend, Status, View};
    use support::hip_double::{Controls, alone};

    fn host_waits() -> i64 {
        let calls = ["hipStreamSynchronize", "hipEventSynchronize", "hipDeviceSynchronize"];
        calls.iter().map(|call| Controls::get().calls(call)).sum()
    }

    fn device() -> Device {
        Device::open(Backend::Hip, 0).expect("the double opens")
    }

    #[test]
    fn small_uploads_do_not_wait() {
        alone("over_the_double::small_uploads_do_not_wait", "gfx1100", 6, &[], || {
            let device = device();
            holds(&send(&device, 0, 4), 0);
            let waits = host_waits();
            let small: Vec<Buffer> = (0..100).map(|seed| send(&device, seed, 4)).collect();
            assert_eq!(host_waits(), waits, "a small upload waits");
            let large = send(&device, 100, MOST + 1);
            assert_eq!(host_waits(), waits + 1, "a large upload waits once");
            for (seed, buffer) in small.iter().chain([&large]).enumerate() {
                holds(buffer, seed);
            }
            // Four of these fill the room, whatever is in it.
            let waits = host_waits();
            let full: Vec<Buffer> = (0..40).map(|seed| send(&device, seed, MOST)).collect();
            assert!((host_waits() - waits - 10).abs() <= 1, "{} waits for 40 uploads", host_waits() - waits);
            let waits = host_waits();
            for (seed, buffer) in full.iter().enumerate() {
                holds(buffer, seed);
            }
            assert_eq!(host_waits(), waits + 40, "a small download waits once");
        });
    }

    #[test]
    fn a_failed_wait_leaves_the_destination() {
        alone("over_the_double::a_failed_wait_leaves_the_destination", "gfx1100", 6, &[], || {
            let device = device();
            holds(&send(&device, 1, 8), 1);
            let (buffer, mut values) = (send(&device, 2, 8), [7u8; 8]);
            Controls::get().fail("hipStreamSynchronize", 1, 999);
            let error = View::from(&buffer).read(&mut values).expect_err("must fail");
            assert_eq!((error.status(), values), (Status::Device, [7; 8]), "{error}");
            holds(&buffer, 2);
        });
    }

    #[test]
    fn copies_go_without_pinned_memory() {
        alone("over_the_double::copies_go_without_pinned_memory", "gfx1100", 6, &[], || {
            let controls = Controls::get();
            // 2: hipErrorOutOfMemory, in every call.
            controls.fail("hipHostMalloc", 0, 2);
            let device = device();
            let sent: Vec<Buffer> = (0..10).map(|seed| send(&device, seed, 1000)).collect();
            let asked = controls.calls("hipHostMalloc");
            for (seed, buffer) in sent.iter().enumerate() {
                holds(buffer, seed);
            }
            assert_eq!(controls.calls("hipHostMalloc"), asked, "the driver is asked again and again");
            controls.fail("hipHostMalloc", 1, 0);
        });
    }

    #[test]
    fn a_failure_of_pinned_memory_is_told() {
        alone("over_the_double::a_failure_of_pinned_memory_is_told", "gfx1100", 6, &[], || {
            let (controls, device) = (Controls::get(), device());
            let buffer = device.alloc(4).expect("memory");
            for _ in 0..2 {
                controls.fail("hipHostMalloc", 1, 999);
                let error = buffer.write(&[1u8; 4]).expect_err("must fail");
                assert_eq!(error.status(), Status::Device, "{error}");
                assert!(error.message().contains("hipHostMalloc"), "{error}");
                controls.fail("hipHostMalloc", 1, 999);
                assert!(buffer.download::<u8>().expect_err("must fail").message().contains("hipHostMalloc"));
            }
            controls.fail("hipHostMalloc", 1, 0);
            buffer.write(&[7u8; 4]).expect("a copy");
            assert_eq!(buffer.download::<u8>().expect("a copy"), [7; 4]);
        });
    }
}
