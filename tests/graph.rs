//! Capture and replay of graphs.
use candle_rocm_sys_tests::support;

use candle_rocm_sys::{Arg, Device, Error, Launch, Layout, sys};
use std::ptr::null_mut;
use support::{open, targets};

const F32: sys::crk_dtype = sys::crk_dtype::CRK_DTYPE_F32;

macro_rules! works {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: live arguments.
        support::succeeded(unsafe { sys::$function($($argument),*) }).unwrap_or_else(|problem| panic!("{problem}"))
    };
}

struct Graph(sys::crk_graph_t);

impl Graph {
    /// Records the work of `body`.
    fn of(device: &Device, body: impl FnOnce()) -> Graph {
        works!(crk_graph_begin(device.raw()));
        body();
        let mut graph = null_mut();
        works!(crk_graph_end(device.raw(), &mut graph));
        Graph(graph)
    }

    fn launch(&self) {
        works!(crk_graph_launch(self.0));
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by crk_graph_end; the last call on it.
        unsafe { sys::crk_graph_destroy(self.0) }
    }
}

fn fresh(body: impl Fn(&Device)) {
    for target in targets() {
        body(&open(&target.name).expect("a device"));
    }
}

fn live(device: &Device) -> (u64, u64) {
    let stats = device.memory_stats().expect("figures");
    (stats.live_bytes, stats.live_allocations)
}

#[test]
fn recorded_work_runs_when_it_is_launched() {
    fresh(|device| {
        let n = 1000;
        let layout = Layout::contiguous(&[n]).expect("a layout");
        let a = device.upload(&vec![1f32; n]).expect("memory");
        let b = device.upload(&vec![7f32; n]).expect("memory");
        let sqr = || device.unary(sys::crk_unary_op::CRK_UNARY_SQR, F32, &layout, &b, &b).expect("sqr");
        // The first use of a kernel loads it, so it comes before the capture.
        sqr();
        device.affine(F32, &layout, &a, &a, 1.0, 0.0).expect("affine");
        b.write(&vec![7f32; n]).expect("a copy");
        let graph = Graph::of(device, || {
            device.affine(F32, &layout, &a, &b, 2.0, 1.0).expect("affine");
            sqr();
        });
        assert!(b.download::<f32>().expect("a copy").iter().all(|v| *v == 7.0), "a capture ran what it recorded");
        for value in [1f32, 2.0, -3.0] {
            a.write(&vec![value; n]).expect("a copy");
            graph.launch();
            let expected = (2.0 * value + 1.0) * (2.0 * value + 1.0);
            assert!(b.download::<f32>().expect("a copy").iter().all(|v| *v == expected));
        }
    });
}

#[test]
fn work_that_panics_ends_its_capture() {
    fresh(|device| {
        let x = device.upload(&[1f32; 4]).expect("memory");
        let work = || -> candle_rocm_sys::Result<()> { panic!("on purpose") };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| device.capture(work).map(drop)));
        assert!(result.is_err());
        assert_eq!(x.download::<f32>().expect("a copy, which a capture would refuse"), [1f32; 4]);
        let (_graph, ()) = device.capture(|| x.fill_bytes(0)).expect("another capture");
    });
}

/// The element-wise launchers, contiguous and strided, are recorded and replayed. The scalars are those at the time of
/// the capture.
#[test]
fn element_wise_launchers_can_be_captured() {
    fresh(|device| {
        let flat = Layout::contiguous(&[4, 6]).expect("a layout");
        let turned = Layout::strided(&[4, 6], &[1, 4], 0).expect("a layout");
        let u8 = sys::crk_dtype::CRK_DTYPE_U8;
        let source: Vec<f32> = (0..24).map(|i| i as f32 - 12.0).collect();
        let a = device.upload(&source).expect("memory");
        let ids = device.upload(&(0..24).map(|i| (i % 3 == 0) as u8).collect::<Vec<_>>()).expect("memory");
        let out: Vec<_> = (0..20).map(|_| device.upload(&[0f32; 24]).expect("memory")).collect();
        let all = |factor: f32| {
            for (i, layout) in [&flat, &turned].into_iter().enumerate() {
                let o = &out[i * 10..];
                device.unary(sys::crk_unary_op::CRK_UNARY_ABS, F32, layout, &a, &o[0]).expect("unary");
                device
                    .unary_param(sys::crk_unary_op::CRK_UNARY_ELU, F32, layout, &a, &o[1], factor.into())
                    .expect("elu");
                device.affine(F32, layout, &a, &o[2], factor.into(), 1.0).expect("affine");
                device
                    .binary(sys::crk_binary_op::CRK_BINARY_MUL, F32, (layout, &a), (&flat, &a), &o[3])
                    .expect("binary");
                device.cmp(sys::crk_cmp_op::CRK_CMP_LT, F32, (layout, &a), (&flat, &a), &o[4]).expect("cmp");
                device
                    .cast(
                        F32,
                        sys::crk_dtype::CRK_DTYPE_I64,
                        &Layout::strided(&[12], &[1 + i], 0).expect("a layout"),
                        &a,
                        &o[5],
                    )
                    .expect("cast");
                device.where_cond(u8, F32, (layout, &ids), (&flat, &a), (layout, &a), &o[6]).expect("where");
                device.fill(F32, &o[7], 10, factor).expect("fill");
                device
                    .const_set(F32, &Layout::strided(&[5], &[2], 11).expect("a layout"), &o[7], factor)
                    .expect("const_set");
                device.copy2d(F32, (3, 4), (&a, 6, i), (&o[8], 5, 0)).expect("copy2d");
                device.copy_strided(F32, layout, &a, &o[9], 0).expect("copy_strided");
            }
        };
        all(0.5);
        let expected: Vec<_> = out.iter().map(|o| o.download::<u8>().expect("a copy")).collect();
        for o in &out {
            o.write(&[0f32; 24]).expect("a copy");
        }
        let graph = Graph::of(device, || all(0.5));
        for _ in 0..2 {
            graph.launch();
        }
        for (index, (o, expected)) in out.iter().zip(&expected).enumerate() {
            assert_eq!(&o.download::<u8>().expect("a copy"), expected, "output {index}");
        }
    });
}

/// A kernel by name with a layout from the cache of parameters. In a capture the copy of the parameters is part of the
/// graph. The graph's parameters stay the same, however the cache is used afterwards.
#[test]
fn parameters_are_part_of_the_graph() {
    fresh(|device| {
        let function = device.function_named("unary", "ucopy_f32").expect("a kernel");
        let source: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let (a, b) = (device.upload(&source).expect("memory"), device.upload(&[9f32; 6]).expect("memory"));
        let turned = Layout::strided(&[3, 2], &[1, 3], 0).expect("a layout");
        let copy = || {
            let info = device.params(&turned).expect("parameters");
            let args = [6usize.into(), 2usize.into(), (&info).into(), (&a).into(), (&b).into()];
            // SAFETY: the arguments of Candle's unary kernels.
            unsafe { function.launch(Launch::for_num_elems(6), &args) }.expect("a launch");
        };
        let graph = Graph::of(device, copy);
        for stride in 5..300 {
            let other = Layout::strided(&[3, 2], &[1, stride], 0).expect("a layout");
            drop(device.params(&other).expect("parameters"));
        }
        for _ in 0..3 {
            b.write(&[9f32; 6]).expect("a copy");
            graph.launch();
            assert_eq!(b.download::<f32>().expect("a copy"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        }
    });
}

/// A graph holds the parameters that were in the cache before its capture, and gives them back.
#[test]
fn parameters_from_before_a_capture_are_held() {
    const COUNT: usize = 40;
    fresh(|device| {
        let function = device.function_named("unary", "ucopy_f32").expect("a kernel");
        let source: Vec<f32> = (0..2000).map(|i| i as f32).collect();
        let a = device.upload(&source).expect("memory");
        let results: Vec<_> = (0..COUNT).map(|_| device.alloc(24).expect("memory")).collect();
        for turn in 0..14 {
            let turned = |i: usize| Layout::strided(&[3, 2], &[1, 4 + turn * COUNT + i], 0).expect("a layout");
            let copies = || {
                for (i, b) in results.iter().enumerate() {
                    let info = device.params(&turned(i)).expect("parameters");
                    let args = [6usize.into(), 2usize.into(), (&info).into(), (&a).into(), b.into()];
                    // SAFETY: the arguments of Candle's unary kernels.
                    unsafe { function.launch(Launch::for_num_elems(6), &args) }.expect("a launch");
                }
                Ok::<_, Error>(())
            };
            copies().expect("parameters in the cache");
            let (graph, ()) = device.capture(copies).expect("a graph");
            for stride in 1000..1512 {
                let other = Layout::strided(&[3, 2], &[1, stride], 0).expect("a layout");
                drop(device.params(&other).expect("parameters"));
            }
            // SAFETY: the buffers are alive.
            unsafe { graph.launch() }.expect("a replay");
            for (i, b) in results.iter().enumerate() {
                let s = (4 + turn * COUNT + i) as f32;
                assert_eq!(b.download::<f32>().expect("a copy"), [0.0, s, 1.0, 1.0 + s, 2.0, 2.0 + s], "layout {i}");
            }
        }
    });
}

/// Each parameter block is uploaded once per capture, however often it is used. The cache has 512 entries.
#[test]
fn parameters_are_copied_once_a_capture() {
    fresh(|device| {
        let turned = Layout::strided(&[3, 2], &[1, 3], 0).expect("a layout");
        let graph = Graph::of(device, || {
            (0..600).for_each(|_| drop(device.params(&turned).expect("parameters")));
        });
        (5..516).for_each(|stride| {
            let other = Layout::strided(&[3, 2], &[1, stride], 0).expect("a layout");
            drop(device.params(&other).expect("parameters"));
        });
        graph.launch();
    });
}

/// Memory allocated and freed inside a capture belongs to the graph until it is destroyed.
#[test]
fn memory_of_a_capture_stays_reserved() {
    fresh(|device| {
        let before = live(device);
        let n = 3000;
        let layout = Layout::contiguous(&[n]).expect("a layout");
        let a = device.upload(&vec![3f32; n]).expect("memory");
        let b = device.upload(&vec![0f32; n]).expect("memory");
        device.affine(F32, &layout, &a, &b, 1.0, 0.0).expect("affine");
        works!(crk_memory_reserve(device.raw(), n * 4));
        let mut inside = null_mut();
        let graph = Graph::of(device, || {
            let scratch = device.alloc(n * 4).expect("memory from the reserve");
            inside = scratch.as_ptr();
            device.affine(F32, &layout, &a, &scratch, 2.0, 0.0).expect("affine");
            device.affine(F32, &layout, &scratch, &b, 1.0, 1.0).expect("affine");
        });
        // Other allocations cannot get the scratch memory while the graph lives.
        let others: Vec<_> = (0..4).map(|_| device.upload(&vec![99f32; n]).expect("memory")).collect();
        assert!(others.iter().all(|other| other.as_ptr() != inside));
        graph.launch();
        assert!(b.download::<f32>().expect("a copy").iter().all(|v| *v == 7.0));
        assert!(others.iter().all(|other| other.download::<f32>().expect("a copy").iter().all(|v| *v == 99.0)));
        drop(graph);
        drop((a, b, others));
        assert_eq!(live(device), before, "memory was lost");
    });
}

/// A block that two graphs use stays reserved until both are destroyed.
#[test]
fn memory_of_two_graphs_waits_for_both() {
    fresh(|device| {
        let bytes = 3 << 20;
        let view = |ptr| sys::crk_view_t { ptr, bytes };
        works!(crk_memory_reserve(device.raw(), bytes));
        let mut shared = null_mut();
        let first = Graph::of(device, || works!(crk_alloc(device.raw(), bytes, &mut shared)));
        let second = Graph::of(device, || {
            works!(crk_memset(device.raw(), view(shared), 0x55, bytes));
            works!(crk_free(device.raw(), shared));
        });
        drop(first);
        let others: Vec<_> = (0..4).map(|_| device.upload(&vec![9u8; bytes]).expect("memory")).collect();
        assert!(others.iter().all(|other| other.as_ptr() != shared), "memory of a graph that lives was given out");
        second.launch();
        assert!(others.iter().all(|other| other.download::<u8>().expect("a copy").iter().all(|byte| *byte == 9)));
    });
}

/// Another thread frees memory of a capture: before its end, at it, or after it. In each case the graph keeps the
/// memory.
#[test]
fn memory_that_another_thread_frees_stays_the_graphs() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    const TURNS: usize = 3000;
    fresh(|device| {
        let bytes = 4096;
        works!(crk_memory_reserve(device.raw(), bytes));
        // The memory that the other thread must free; 0 after it has done so.
        let handed = AtomicUsize::new(0);
        let wait = |until: &dyn Fn(usize) -> bool| {
            while !until(handed.load(SeqCst)) {
                std::hint::spin_loop();
            }
        };
        let mut given_out = None;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..TURNS {
                    wait(&|address| address != 0);
                    (0..turn % 256).for_each(|_| std::hint::spin_loop());
                    works!(crk_free(device.raw(), handed.load(SeqCst) as *mut _));
                    handed.store(0, SeqCst);
                }
            });
            for turn in 0..TURNS {
                let (mut inside, mut graph) = (null_mut(), null_mut());
                works!(crk_graph_begin(device.raw()));
                works!(crk_alloc(device.raw(), bytes, &mut inside));
                handed.store(inside as usize, SeqCst);
                works!(crk_graph_end(device.raw(), &mut graph));
                let graph = Graph(graph);
                wait(&|address| address == 0);
                let (a, b) = (device.alloc(bytes).expect("memory"), device.alloc(bytes).expect("memory"));
                if a.as_ptr() == inside || b.as_ptr() == inside {
                    given_out = Some(turn);
                }
                drop(graph);
            }
        });
        assert_eq!(given_out, None, "in that turn the memory of a graph was given out");
    });
}

/// Events recorded before a capture are done, and querying them does not spoil the capture.
#[test]
fn events_of_before_spoil_no_capture() {
    fresh(|device| {
        let other = device.new_stream().expect("a second handle");
        let buffer = device.upload(&[1u8; 64]).expect("memory");
        let [mut start, mut end] = [null_mut(); 2];
        works!(crk_event_create(device.raw(), &mut start));
        works!(crk_event_create(device.raw(), &mut end));
        works!(crk_event_record(start, device.raw()));
        buffer.fill_bytes(2).expect("work");
        works!(crk_event_record(end, device.raw()));
        let graph = Graph::of(device, || {
            works!(crk_event_query(end));
            works!(crk_event_synchronize(start));
            works!(crk_device_wait(other.raw(), end));
            let mut milliseconds = -1.0;
            works!(crk_event_elapsed(start, end, &mut milliseconds));
            assert!(milliseconds >= 0.0);
            buffer.fill_bytes(3).expect("recorded work");
            // Another handle's allocation queries the events of memory that this handle freed before the capture.
            drop(other.alloc(64).expect("memory"));
        });
        assert!(buffer.download::<u8>().expect("a copy").iter().all(|byte| *byte == 2));
        graph.launch();
        works!(crk_event_record(end, device.raw()));
        works!(crk_event_synchronize(end));
        assert!(buffer.download::<u8>().expect("a copy").iter().all(|byte| *byte == 3));
        // SAFETY: created above; the last calls on them.
        unsafe {
            sys::crk_event_destroy(start);
            sys::crk_event_destroy(end);
        }
    });
}

#[test]
fn a_graph_of_nothing_runs() {
    fresh(|device| {
        let graph = Graph::of(device, || {});
        graph.launch();
        device.synchronize().expect("all done");
    });
}

/// Copies and memset are recorded in a graph.
#[test]
fn copies_are_recorded() {
    fresh(|device| {
        let (a, b) = (device.upload(&[1u8; 100]).expect("memory"), device.upload(&[2u8; 100]).expect("memory"));
        let graph = Graph::of(device, || {
            device.copy(&b, &a).expect("a copy");
            works!(crk_memset(device.raw(), a.raw_view(), 5, 50));
        });
        assert_eq!(b.download::<u8>().expect("a copy"), [2; 100]);
        graph.launch();
        graph.launch();
        let b = b.download::<u8>().expect("a copy");
        assert!(b[..50].iter().all(|v| *v == 5) && b[50..].iter().all(|v| *v == 1));
    });
}

/// The arguments of a launch by name are copied when it is recorded.
#[test]
fn arguments_are_copied() {
    fresh(|device| {
        let function = device.function_named("fill", "fill_u32").expect("a kernel");
        let buffer = device.upload(&[0u32; 8]).expect("memory");
        let graph = Graph::of(device, || {
            for value in [1u32, 2, 3] {
                let args = [Arg::from(&buffer), value.into(), 8usize.into()];
                // SAFETY: the arguments of Candle's fill kernels.
                unsafe { function.launch(Launch::for_num_elems(8), &args) }.expect("a launch");
            }
        });
        graph.launch();
        assert_eq!(buffer.download::<u32>().expect("a copy"), [3; 8]);
    });
}
