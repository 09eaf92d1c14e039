//! Eight threads on one device load, launch and allocate. Also checks which types may cross threads.
use candle_rocm_sys_tests::support;

use candle_rocm_sys::{
    ALL_IDS, Arg, Buffer, DType, Device, Error, Function, Launch, Layout, Module, Params, Status, UnaryOp, sys,
};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{open, targets};

const THREADS: usize = 8;

#[test]
fn what_may_cross_threads() {
    fn both<T: Send + Sync>() {}
    both::<Device>();
    both::<Buffer>();
    both::<Function>();
    both::<Params>();
    both::<Error>();
    both::<Module>();
    both::<Layout>();
}

/// Runs `body` in eight threads that begin together.
fn together(body: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, body) = (&barrier, &body);
            scope.spawn(move || {
                barrier.wait();
                body(thread);
            });
        }
    });
}

fn negate_by_name(device: &Device, thread: usize, count: usize) {
    let values: Vec<f32> = (0..count).map(|i| (thread * count + i) as f32).collect();
    let (src, dst) = (device.upload(&values).expect("memory"), device.alloc(count * 4).expect("memory"));
    let function = device.function_named("unary", "uneg_f32").expect("a kernel");
    let args = [count.into(), 1usize.into(), Arg::ptr(std::ptr::null()), (&src).into(), (&dst).into()];
    // SAFETY: the arguments of Candle's unary kernels, in buffers of `count` elements.
    unsafe { function.launch_on(device, Launch::for_num_elems(count as u32), &args) }.expect("a launch");
    let expected: Vec<f32> = values.iter().map(|v| -v).collect();
    assert_eq!(dst.download::<f32>().expect("a copy"), expected);
}

/// All threads use the same handle, before any kernel is loaded.
#[test]
fn one_handle_for_all() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        together(|thread| {
            for round in 0..20 {
                negate_by_name(&device, thread, 100 + 37 * round);
            }
        });
    }
}

/// Each thread has a handle of its own on one device. They share modules, and use different kernels and the same ones
/// at once.
#[test]
fn a_handle_for_each() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        together(|thread| {
            let mine = device.new_stream().expect("a handle");
            let kernels = ["uneg_f32", "usqr_f32", "uabs_i64", "ucopy_u8"];
            for round in 0..20 {
                let kernel = kernels[(thread + round) % kernels.len()];
                mine.function_named("unary", kernel).unwrap_or_else(|error| panic!("{kernel}: {error}"));
                negate_by_name(&mine, thread, 64 + round);
            }
        });
    }
}

/// Launchers find their kernels without a lock from the second call on. Here the first uses of all families race.
#[test]
fn launchers_at_once() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        together(|thread| {
            let n = 1000 + thread;
            let l = Layout::contiguous(&[n]).expect("a layout");
            let transposed = Layout::strided(&[4, n / 4], &[1, 4], 0).expect("a layout");
            let f32 = sys::crk_dtype::CRK_DTYPE_F32;
            let values: Vec<f32> = (0..n).map(|i| i as f32 - 500.0).collect();
            let a = device.upload(&values).expect("memory");
            let b = device.alloc(n * 4).expect("memory");
            for _ in 0..10 {
                device.binary(sys::crk_binary_op::CRK_BINARY_ADD, f32, (&l, &a), (&l, &a), &b).expect("add");
                device.affine(f32, &l, &b, &b, 0.5, 1.0).expect("affine");
                let expected: Vec<f32> = values.iter().map(|v| v + 1.0).collect();
                assert_eq!(b.download::<f32>().expect("a copy"), expected);
                device.unary(sys::crk_unary_op::CRK_UNARY_RELU, f32, &transposed, &a, &b).expect("relu");
                device.fill(f32, &b, n, 3f32).expect("fill");
                assert!(b.download::<f32>().expect("a copy").iter().all(|v| *v == 3.0));
            }
        });
    }
}

/// All threads acquire and release parameters for kernels by name at once.
#[test]
fn parameters_at_once() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        together(|thread| {
            for round in 1..200 {
                let layout = Layout::strided(&[2, 3], &[1, 2 + (thread + round) % 50], 0).expect("a layout");
                let params = device.params(&layout).expect("parameters");
                assert!(!params.as_ptr().is_null());
            }
        });
        device.synchronize().expect("all done");
    }
}

/// Whole devices are opened and closed at once.
#[test]
fn opening_and_closing() {
    for target in targets() {
        together(|thread| {
            for round in 0..5 {
                let device = open(&target.name).expect("a device");
                let id = ALL_IDS[(thread + round) % ALL_IDS.len()];
                assert!(device.function_named(id.module().name(), "no_such_kernel").is_err());
                negate_by_name(&device, thread, 10);
            }
        });
    }
}

/// One thread uploads and downloads while another captures. A copy succeeds and has moved its bytes, or is refused. One
/// that was recorded would leave other bytes.
#[test]
fn copies_while_another_thread_captures() {
    const N: usize = 1 << 18;
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let (n, layout) = (1024, Layout::contiguous(&[N]).expect("a layout"));
        let work = device.upload(&vec![0f32; N]).expect("memory");
        let square = || device.unary(UnaryOp::Sqr, DType::F32, &layout, &work, &work);
        square().expect("a kernel is loaded");
        let other = device.upload(&vec![0u32; n]).expect("memory");
        let end = Instant::now() + Duration::from_secs(2);
        let is_moved = |copied: Result<(), Error>| match copied {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.status(), Status::Capture, "{error}");
                std::thread::sleep(Duration::from_micros(200));
                false
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while Instant::now() < end {
                    square().expect("work before the capture");
                    drop(device.capture(|| (0..300).try_for_each(|_| square())).expect("a graph"));
                }
            });
            let mut number = 0;
            while Instant::now() < end {
                number += 1;
                let sent = vec![number; n];
                if !is_moved(other.write(&sent)) {
                    continue;
                }
                let mut back = vec![!0; n];
                if is_moved(other.range(0..4 * n).expect("the whole").read(&mut back)) {
                    assert!(back == sent, "round {number}: {} came back", back[0]);
                }
            }
        });
    }
}

/// A capture waits for the copy that is under way. It does not wait for copies that another thread begins later. The
/// end of a graph waits in the same way.
#[test]
fn a_capture_goes_before_later_copies() {
    const BYTES: usize = 128 << 20; /* so that a copy lasts longer than a thread waits for its turn */
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let buffer = device.upload(&vec![1u8; BYTES]).expect("memory");
        let (copies, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let most = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = vec![0u8; BYTES];
                while !is_over.load(Relaxed) {
                    if buffer.range(0..BYTES).expect("the whole").read(&mut bytes).is_ok() {
                        copies.fetch_add(1, Relaxed);
                    }
                }
            });
            let passed = |_| {
                while copies.load(Relaxed) == 0 {
                    std::thread::yield_now();
                }
                copies.store(0, Relaxed);
                let captured = device.capture(|| Ok::<_, Error>(())).map(drop); // a graph that goes waits as well
                captured.map(|()| copies.load(Relaxed))
            };
            let most: Result<Vec<_>, _> = (0..6).map(passed).collect();
            is_over.store(true, Relaxed);
            most.expect("graphs").into_iter().max()
        });
        assert!(most <= Some(6), "{}: {most:?} copies went before a capture", target.name);
    }
}
