//! The caching allocator, copies, pinned memory, second handles and events.
use candle_rocm_sys_tests::support;

use candle_rocm_sys::{Buffer, Device, Error, MemoryStats, Status, sys};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use support::{open, targets};

const MIB: usize = 1 << 20;

macro_rules! works {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: live arguments.
        support::succeeded(unsafe { sys::$function($($argument),*) }).unwrap_or_else(|problem| panic!("{problem}"))
    };
}

fn stats(device: &Device) -> MemoryStats {
    device.memory_stats().expect("figures")
}

fn alloc(device: &Device, bytes: usize) -> *mut c_void {
    let mut ptr = null_mut();
    works!(crk_alloc(device.raw(), bytes, &mut ptr));
    assert!(!ptr.is_null());
    assert_eq!(ptr as usize % 256, 0, "{bytes} bytes at {ptr:p}");
    ptr
}

fn free(device: &Device, ptr: *mut c_void) {
    works!(crk_free(device.raw(), ptr));
}

/// Handles on one GPU share its cache, so the tests here take turns. Each begins with an empty one.
fn fresh(body: impl Fn(&Device)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let limit = device.info().expect("figures").memory_bytes as usize / 2;
        works!(crk_memory_set_cache_limit(device.raw(), limit));
        works!(crk_memory_trim(device.raw()));
        body(&device);
    }
}

#[test]
fn a_freed_block_is_given_out_again() {
    fresh(|device| {
        let first = alloc(device, 5000);
        free(device, first);
        let calls = stats(device).driver_allocations;
        for _ in 0..100 {
            let again = alloc(device, 5000);
            assert_eq!(again, first);
            free(device, again);
        }
        let after = stats(device);
        assert_eq!(after.driver_allocations, calls, "the driver was asked again");
        assert_eq!((after.live_bytes, after.live_allocations), (0, 0));
        assert!(after.cached_bytes >= 5000);
    });
}

#[test]
fn live_blocks_are_apart() {
    fresh(|device| {
        let sizes = [1, 255, 256, 257, 4096, 100_000, 3, 1 << 20];
        let mut blocks: Vec<(usize, usize)> =
            sizes.iter().map(|&bytes| (alloc(device, bytes) as usize, bytes)).collect();
        let now = stats(device);
        assert_eq!(now.live_allocations, sizes.len() as u64);
        assert!(now.live_bytes >= sizes.iter().sum::<usize>() as u64);
        blocks.sort_unstable();
        for pair in blocks.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "two blocks overlap: {pair:?}");
        }
        for (at, _) in blocks {
            free(device, at as *mut c_void);
        }
        assert_eq!(stats(device).live_bytes, 0);
    });
}

/// Whole segments go back to the driver. Blocks from 32 MiB on have one each here; small ones share theirs.
#[test]
fn the_cache_keeps_to_its_bound() {
    fresh(|device| {
        let bound = 100 * MIB;
        works!(crk_memory_set_cache_limit(device.raw(), bound));
        let blocks: Vec<_> = (0..8).map(|_| alloc(device, 32 * MIB)).collect();
        for block in blocks {
            free(device, block);
            device.synchronize().expect("all done");
            assert!(stats(device).cached_bytes <= bound as u64);
        }
        assert!(stats(device).cached_bytes > 0, "a bound is not a ban");
        works!(crk_memory_trim(device.raw()));
        assert_eq!((stats(device).cached_bytes, stats(device).driver_bytes), (0, 0));
        works!(crk_memory_set_cache_limit(device.raw(), 0));
        let calls = stats(device).driver_allocations;
        for _ in 0..3 {
            let block = alloc(device, 100_000);
            free(device, block);
            device.synchronize().expect("all done");
        }
        assert_eq!(stats(device).cached_bytes, 0);
        assert_eq!(stats(device).driver_allocations, calls + 3);
    });
}

/// The cached memory of an idle stream is available to the other streams on its GPU.
#[test]
fn an_idle_handle_lends_its_cache() {
    fresh(|device| {
        let other = device.new_stream().expect("a second handle");
        works!(crk_memory_set_cache_limit(device.raw(), 64 * MIB));
        let held: Vec<_> = (0..4).map(|_| other.alloc(16 * MIB).expect("memory")).collect();
        held.iter().for_each(|buffer| buffer.fill_bytes(1).expect("work"));
        drop(held);
        let calls = stats(device).driver_allocations;
        for value in 0..100 {
            let buffer = device.alloc(16 * MIB).expect("memory");
            buffer.fill_bytes(value).expect("work");
        }
        let made = stats(device).driver_allocations - calls;
        assert!(made <= 1, "{made} allocations by the driver for 100 pairs");
        other.synchronize().expect("all done");
        device.synchronize().expect("all done");
        assert!(stats(device).cached_bytes <= 64 << 20);
    });
}

/// Small allocations do not break up a large cached block.
#[test]
fn small_blocks_leave_large_ones_whole() {
    fresh(|device| {
        free(device, alloc(device, 256 * MIB));
        let calls = stats(device).driver_allocations;
        let small = alloc(device, 512);
        let large = alloc(device, 256 * MIB);
        assert_eq!(stats(device).driver_allocations, calls + 1, "only the small block needs the driver");
        free(device, small);
        free(device, large);
    });
}

/// Another handle's trim does not give back the memory that a handle has reserved for its capture.
#[test]
fn a_reserve_outlives_others_trims() {
    fresh(|device| {
        let other = device.new_stream().expect("a second handle");
        works!(crk_memory_reserve(device.raw(), 3 * MIB));
        works!(crk_memory_trim(other.raw()));
        works!(crk_graph_begin(device.raw()));
        works!(crk_memory_trim(other.raw()));
        let block = alloc(device, 3 * MIB);
        let mut graph = null_mut();
        works!(crk_graph_end(device.raw(), &mut graph));
        free(device, block);
        // SAFETY: made above; the last call on it.
        unsafe { sys::crk_graph_destroy(graph) }
    });
}

#[test]
fn what_graphs_keep_comes_back() {
    fresh(|device| {
        works!(crk_memory_reserve(device.raw(), MIB));
        let mut graphs = [null_mut(); 2];
        for graph in &mut graphs {
            works!(crk_graph_begin(device.raw()));
            let block = alloc(device, MIB);
            free(device, block);
            works!(crk_graph_end(device.raw(), graph));
            works!(crk_memory_reserve(device.raw(), MIB));
        }
        let kept = stats(device);
        assert!(kept.retired_bytes >= 2 * MIB as u64 && kept.live_bytes == 0);
        // SAFETY: made above; the last calls on them.
        graphs.into_iter().for_each(|graph| unsafe { sys::crk_graph_destroy(graph) });
        assert_eq!(stats(device).retired_bytes, 0);
        works!(crk_memory_trim(device.raw()));
        assert_eq!(stats(device).driver_bytes, 0);
    });
}

/// Memory that one handle freed goes to another only after the work that uses it is done.
#[test]
fn a_block_waits_for_the_stream_that_freed_it() {
    fresh(|device| {
        let other = device.new_stream().expect("a second handle");
        let results: Vec<_> = (0..40u8)
            .map(|round| {
                let (source, result) = (device.alloc(MIB).expect("memory"), device.alloc(MIB).expect("memory"));
                source.fill_bytes(round).expect("work");
                device.copy(&result, &source).expect("a copy");
                drop(source); // perhaps before the copy is done
                other.alloc(MIB).expect("memory").fill_bytes(0xee).expect("work");
                result
            })
            .collect();
        for (round, result) in results.iter().enumerate() {
            assert!(result.download::<u8>().expect("a copy").iter().all(|b| usize::from(*b) == round), "round {round}");
        }
    });
}

// Where the work ends before the check, as on the CPU device, the next four tests check less.

/// Another handle, and memory of the first one whose filling takes long. Segments have the sizes of their blocks.
fn pair(device: &Device) -> (Device, Buffer) {
    works!(crk_memory_set_cache_limit(device.raw(), 160 * MIB));
    (device.new_stream().expect("a second handle"), device.alloc(32 * MIB).expect("memory"))
}

/// A little less than 24 MiB: a build with a sanitizer needs room behind a block.
const BLOCK: usize = 24 * MIB - 8192;

/// Neighbours of the size `BLOCK`.
fn neighbours<const N: usize>(device: &Device) -> [*mut c_void; N] {
    free(device, alloc(device, N * 24 * MIB));
    let blocks = [0; N].map(|_| alloc(device, BLOCK));
    assert!(blocks.windows(2).all(|pair| (BLOCK..=24 * MIB).contains(&(pair[1] as usize - pair[0] as usize))));
    blocks
}

/// A fence vouches for what was freed before it, not for a neighbour that was freed after it and joined.
#[test]
fn a_fence_is_not_for_what_was_freed_after_it() {
    fresh(|device| {
        let (other, work) = pair(device);
        let [a, b] = neighbours(device);
        let (first, last) = (device.event().expect("an event"), device.event().expect("an event"));
        (0..4).for_each(|_| work.fill_bytes(1).expect("work"));
        first.record(device).expect("a mark");
        free(device, a);
        let held = alloc(&other, BLOCK); // marks the place in the stream
        (0..40).for_each(|_| work.fill_bytes(2).expect("work"));
        last.record(device).expect("a mark");
        free(device, b);
        first.synchronize().expect("reached");
        let taken = alloc(&other, 2 * BLOCK);
        if !last.is_done().expect("an answer") {
            assert_ne!(taken, a);
        }
        free(&other, held);
        free(&other, taken);
    });
}

/// The rest of a block that is cut was freed when the block was.
#[test]
fn the_rest_of_a_block_waits_too() {
    fresh(|device| {
        let (other, work) = pair(device);
        let [c, live] = neighbours(device);
        let a = alloc(device, 2 * BLOCK);
        let (first, last) = (device.event().expect("an event"), device.event().expect("an event"));
        (0..4).for_each(|_| work.fill_bytes(1).expect("work"));
        first.record(device).expect("a mark");
        free(device, c);
        let held = alloc(&other, BLOCK); // marks the place in the stream
        (0..40).for_each(|_| work.fill_bytes(2).expect("work"));
        last.record(device).expect("a mark");
        free(device, a);
        let own = [0; 2].map(|_| alloc(device, BLOCK)); // c, and one half of a
        first.synchronize().expect("reached");
        let taken = alloc(&other, BLOCK);
        if !last.is_done().expect("an answer") {
            assert!(!(a as usize..a as usize + 2 * BLOCK).contains(&(taken as usize)));
        }
        free(device, live);
        own.into_iter().for_each(|block| free(device, block));
        free(&other, held);
        free(&other, taken);
    });
}

/// A block whose left neighbour is idle still belongs to the stream that freed it.
#[test]
fn an_idle_neighbour_makes_no_block_idle() {
    fresh(|device| {
        let (other, work) = pair(device);
        let [a, b, c] = neighbours(device);
        let d = alloc(device, 20 * MIB);
        free(device, a);
        free(device, d);
        device.synchronize().expect("all done");
        let held = alloc(&other, 20 * MIB);
        assert_eq!(held, d, "both are idle now");
        let last = device.event().expect("an event");
        (0..40).for_each(|_| work.fill_bytes(2).expect("work"));
        last.record(device).expect("a mark");
        free(device, b);
        let taken = alloc(&other, 2 * BLOCK);
        if !last.is_done().expect("an answer") {
            assert_ne!(taken, a);
        }
        free(device, c);
        free(&other, held);
        free(&other, taken);
    });
}

/// A small block comes out of no large one that another stream still uses.
#[test]
fn small_blocks_wait_for_other_streams_too() {
    fresh(|device| {
        let (other, work) = pair(device);
        let a = alloc(device, 8 * MIB);
        let last = device.event().expect("an event");
        (0..40).for_each(|_| work.fill_bytes(2).expect("work"));
        last.record(device).expect("a mark");
        free(device, a);
        let taken = alloc(&other, 512);
        if !last.is_done().expect("an answer") {
            assert!(!(a as usize..a as usize + 8 * MIB).contains(&(taken as usize)));
        }
        free(&other, taken);
    });
}

/// The ratio of the driver's memory to the live memory, both at their largest.
fn overhead(device: &Device) -> f64 {
    let now = stats(device);
    now.driver_bytes as f64 / now.peak_live_bytes as f64
}

/// A cache of keys and values that grows: each step copies each of 64 tensors into one that is a row longer.
#[test]
fn growing_tensors_leave_no_holes() {
    fresh(|device| {
        let mut tensors: Vec<_> = (0..64).map(|_| alloc(device, 16 * 4096)).collect();
        for tokens in (17..700).step_by(3) {
            for tensor in &mut tensors {
                let longer = alloc(device, tokens * 4096);
                free(device, *tensor);
                *tensor = longer;
            }
        }
        assert!(overhead(device) <= 1.5, "{} bytes from the driver for each that was live", overhead(device));
        tensors.into_iter().for_each(|tensor| free(device, tensor));
    });
}

/// A convolutional network: tensors of every size, a window's matrix beside each, weights that stay.
#[test]
fn tensors_of_all_sizes_share_their_memory() {
    fresh(|device| {
        let weights: Vec<_> = (1..50).map(|i| alloc(device, i * 97_000)).collect();
        for _ in 0..3 {
            let mut previous = alloc(device, 10 * MIB);
            for layer in 0..50 {
                let (bytes, columns) = (MIB * (50 - layer) / 4 + 12_345, MIB * (50 - layer));
                let matrix = alloc(device, columns);
                let next = alloc(device, bytes);
                free(device, matrix);
                free(device, previous);
                previous = next;
            }
            free(device, previous);
        }
        assert!(overhead(device) <= 1.2, "{} bytes from the driver for each that was live", overhead(device));
        weights.into_iter().for_each(|weight| free(device, weight));
        works!(crk_memory_trim(device.raw()));
        assert_eq!(stats(device).driver_bytes, 0);
    });
}

/// A network that narrows and widens again, as diffusion models do. The results of each stage of the first half stay
/// live until the second half has used them.
#[test]
fn a_network_that_narrows_and_widens_fits_closely() {
    fresh(|device| {
        let weights: Vec<_> = (1..200).map(|i| alloc(device, i * 41_000)).collect();
        let layer = |bytes: usize| {
            let columns = alloc(device, bytes * 9);
            let made = alloc(device, bytes);
            free(device, columns);
            let normed = alloc(device, 2 * bytes);
            free(device, made);
            let made = alloc(device, bytes);
            free(device, normed);
            made
        };
        for _ in 0..2 {
            let sizes = [20, 20, 13, 9, 9, 5, 3, 1].map(|parts: usize| parts * MIB + parts * 12_345);
            let kept = sizes.map(layer);
            for (kept, bytes) in kept.into_iter().zip(sizes).rev() {
                let joined = alloc(device, 2 * bytes);
                free(device, kept);
                let made = layer(bytes);
                free(device, joined);
                free(device, made);
            }
        }
        assert!(overhead(device) <= 1.15, "{} bytes from the driver for each that was live", overhead(device));
        weights.into_iter().for_each(|weight| free(device, weight));
    });
}

/// A large segment may replace empty ones, but two sizes used in turn must not replace each other's segments forever.
#[test]
fn two_sizes_in_turn_come_to_rest() {
    fresh(|device| {
        let turns = || {
            for _ in 0..8 {
                free(device, alloc(device, 600 * MIB));
                free(device, alloc(device, 17 * MIB));
                device.synchronize().expect("all done");
            }
            stats(device).driver_allocations
        };
        assert_eq!(turns(), turns(), "allocations by the driver after eight turns and after sixteen");
    });
}

/// Memory that was needed only to load a model goes back to the driver soon; what a prompt needed, after more and more
/// tokens.
#[test]
fn what_no_call_uses_goes_back() {
    fresh(|device| {
        let weights = alloc(device, 400 * MIB);
        for (kept, turns) in [(3, 9), (14, 34), (62, 130), (254, 514)] {
            let used = alloc(device, 40 * MIB);
            let before = stats(device).driver_bytes;
            free(device, alloc(device, 300 * MIB));
            free(device, used);
            for turn in 0..turns {
                free(device, alloc(device, 40 * MIB));
                device.synchronize().expect("all done");
                if turn < kept {
                    assert!(stats(device).driver_bytes >= before + 300 * MIB as u64, "turn {turn}");
                }
            }
            let calls = stats(device).driver_allocations;
            free(device, alloc(device, 40 * MIB));
            assert_eq!(stats(device).driver_allocations, calls, "what every turn uses stays");
            assert_eq!(stats(device).driver_bytes, before);
        }
        free(device, weights);
    });
}

/// A small block comes out of a huge one where nothing else is left: in a capture, what is reserved.
#[test]
fn a_reserve_serves_what_is_far_smaller() {
    fresh(|device| {
        works!(crk_memory_reserve(device.raw(), 1024 * MIB));
        works!(crk_graph_begin(device.raw()));
        let block = alloc(device, 8 * MIB);
        let mut graph = null_mut();
        works!(crk_graph_end(device.raw(), &mut graph));
        free(device, block);
        // SAFETY: made above; the last call on it.
        unsafe { sys::crk_graph_destroy(graph) }
    });
}

/// A small allocation before the capture does not take what is reserved for a large one in it.
#[test]
fn a_reserve_waits_for_its_allocation() {
    fresh(|device| {
        works!(crk_memory_reserve(device.raw(), 64 * MIB));
        let small = alloc(device, 4096);
        works!(crk_graph_begin(device.raw()));
        let block = alloc(device, 64 * MIB);
        let mut graph = null_mut();
        works!(crk_graph_end(device.raw(), &mut graph));
        free(device, block);
        free(device, small);
        // SAFETY: made above; the last call on it.
        unsafe { sys::crk_graph_destroy(graph) }
    });
}

#[test]
fn a_reserve_serves_without_the_driver() {
    fresh(|device| {
        works!(crk_memory_reserve(device.raw(), 70_000));
        works!(crk_memory_reserve(device.raw(), 70_000));
        let calls = stats(device).driver_allocations;
        let (a, b) = (alloc(device, 70_000), alloc(device, 70_000));
        assert_ne!(a, b);
        assert_eq!(stats(device).driver_allocations, calls);
        free(device, a);
        free(device, b);
    });
}

/// A freed buffer's block can hold new data at once. Work that was queued before still reads the old data.
#[test]
fn reuse_is_in_stream_order() {
    fresh(|device| {
        let numbers: Vec<u32> = (0..100_000).collect();
        let results: Vec<_> = (0..20u32)
            .map(|round| {
                let shifted: Vec<u32> = numbers.iter().map(|n| n + round).collect();
                let source = device.upload(&shifted).expect("memory");
                let result = device.alloc(source.bytes()).expect("memory");
                device.copy(&result, &source).expect("a copy");
                result // and frees the source, perhaps before the copy is done
            })
            .collect();
        for (round, result) in results.iter().enumerate() {
            let got = result.download::<u32>().expect("a copy");
            assert!(got.iter().zip(&numbers).all(|(g, n)| *g == n + round as u32), "round {round}");
        }
    });
}

#[test]
fn pinned_and_asynchronous_copies() {
    fresh(|device| {
        let count = 50_000usize;
        let (mut from, mut to) = (null_mut(), null_mut());
        works!(crk_host_alloc(device.raw(), count * 4, &mut from));
        works!(crk_host_alloc(device.raw(), count * 4, &mut to));
        // SAFETY: `count` numbers of host memory that nothing else uses yet.
        let source = unsafe { std::slice::from_raw_parts_mut(from.cast::<u32>(), count) };
        for (i, number) in source.iter_mut().enumerate() {
            *number = i as u32 * 3;
        }
        let (a, b) = (device.alloc(count * 4).expect("memory"), device.alloc(count * 4).expect("memory"));
        works!(crk_copy_to_device_async(device.raw(), a.raw_view(), from, count * 4));
        works!(crk_copy(device.raw(), b.raw_view(), a.raw_view().into(), count * 4));
        works!(crk_copy_to_host_async(device.raw(), to, b.raw_view().into(), count * 4));
        device.synchronize().expect("all done");
        // SAFETY: written by the copy that is done.
        let result = unsafe { std::slice::from_raw_parts(to.cast::<u32>(), count) };
        assert!(result.iter().enumerate().all(|(i, number)| *number == i as u32 * 3));
        works!(crk_host_free(device.raw(), from));
        works!(crk_host_free(device.raw(), to));
    });
}

#[test]
fn memset_sets_just_its_bytes() {
    fresh(|device| {
        for (offset, bytes) in [(0, 1), (1, 7), (3, 100), (16, 64), (0, 200), (5, 0)] {
            let buffer = device.upload(&[0u8; 200]).expect("memory");
            let part =
                sys::crk_view_t { ptr: buffer.as_ptr().cast::<u8>().wrapping_add(offset).cast(), bytes: 200 - offset };
            works!(crk_memset(device.raw(), part, 0xee, bytes));
            let expected: Vec<u8> =
                (0..200).map(|i| if i >= offset && i < offset + bytes { 0xee } else { 0 }).collect();
            assert_eq!(buffer.download::<u8>().expect("a copy"), expected);
        }
    });
}

#[test]
fn copies_between_devices() {
    for from in targets() {
        for to in targets() {
            let (from, to) = (open(&from.name).expect("a device"), open(&to.name).expect("a device"));
            let numbers: Vec<u64> = (0..10_000).map(|i| i * 7).collect();
            let (source, target) = (from.upload(&numbers).expect("memory"), to.alloc(80_000).expect("memory"));
            works!(crk_copy_between(to.raw(), target.raw_view(), from.raw(), source.raw_view().into(), 80_000));
            assert_eq!(target.download::<u64>().expect("a copy"), numbers);
        }
    }
}

/// Two handles on one device, ordered by an event; and the event's own questions.
#[test]
fn two_handles_and_an_event() {
    fresh(|device| {
        let other = device.new_stream().expect("a second handle");
        let (mut ready, mut done) = (null_mut(), null_mut());
        works!(crk_event_create(device.raw(), &mut ready));
        works!(crk_event_create(device.raw(), &mut done));
        let n = 1 << 20;
        let source = device.upload(&vec![5u8; n]).expect("memory");
        let result = other.alloc(n).expect("memory");
        for value in 0..10u8 {
            works!(crk_memset(device.raw(), source.raw_view(), value, n));
            works!(crk_event_record(ready, device.raw()));
            works!(crk_device_wait(other.raw(), ready));
            works!(crk_copy(other.raw(), result.raw_view(), source.raw_view().into(), n));
            works!(crk_event_record(done, other.raw()));
            works!(crk_device_wait(device.raw(), done));
        }
        works!(crk_event_synchronize(done));
        works!(crk_event_query(done));
        let mut milliseconds = -1.0;
        works!(crk_event_elapsed(ready, done, &mut milliseconds));
        assert!((0.0..60_000.0).contains(&milliseconds), "{milliseconds} ms");
        assert!(result.download::<u8>().expect("a copy").iter().all(|byte| *byte == 9));
        // SAFETY: created above; the last calls on them.
        unsafe {
            sys::crk_event_destroy(ready);
            sys::crk_event_destroy(done);
        }
    });
}

#[test]
fn handles_close_in_any_order() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let second = device.new_stream().expect("a second handle");
        let third = second.new_stream().expect("a third handle");
        let function = second.function_named("unary", "uneg_f32").expect("a kernel");
        let buffer = third.upload(&[1f32, 2.0]).expect("memory");
        drop(second);
        drop(device);
        assert_eq!(buffer.download::<f32>().expect("a copy"), [1.0, 2.0]);
        drop(third);
        assert_eq!(buffer.download::<f32>().expect("the buffer holds its handle open"), [1.0, 2.0]);
        drop(function);
    }
}

#[test]
fn what_the_device_says_of_itself() {
    for target in targets() {
        let info = target.device.info().expect("figures");
        assert!(matches!(info.wave_size, 32 | 64));
        assert!(info.compute_units > 0 && info.max_block_threads >= 1024 && info.shared_bytes >= 16 << 10);
        assert!(!info.name().is_empty() && !info.architecture().is_empty());
        assert!(!info.architecture().contains(':'), "{} has feature suffixes", info.architecture());
        let (free, total) = target.device.memory().expect("figures");
        assert!(free <= total && total as u64 >= info.memory_bytes / 2, "{free} of {total} bytes");
        let mut stream = null_mut();
        works!(crk_device_stream(target.device.raw(), &mut stream));
        if let Some(width) = target.name.strip_prefix("cpu:") {
            assert_eq!(info.wave_size.to_string(), width);
            assert_eq!((info.pci_domain, info.pci_bus, info.pci_device), (0, 0, 0));
            // SAFETY: the call fails before it uses the stream.
            let refused = unsafe { target.device.on_stream(null_mut()) }.expect_err("the CPU has no such streams");
            assert_eq!(refused.status(), Status::Unsupported, "{refused}");
        }
    }
}

/// Events and pinned memory of the safe layer.
#[test]
fn events_and_pinned_memory_of_the_safe_layer() {
    fresh(|device| {
        let other = device.new_stream().expect("a second handle");
        let (start, end) = (device.event().expect("an event"), device.event().expect("an event"));
        assert!(start.is_done().expect("nothing was recorded"));
        let unrecorded = end.milliseconds_since(&start).expect_err("nothing was recorded");
        assert_eq!(unrecorded.status(), Status::InvalidArgument, "{unrecorded}");
        let mut source = device.alloc_host(4096).expect("pinned memory");
        let result = device.alloc_host(4096).expect("pinned memory");
        assert_eq!(source.as_slice::<u64>(), [0; 512]);
        for (index, value) in source.as_mut_slice::<u32>().iter_mut().enumerate() {
            *value = index as u32 * 3;
        }
        let buffer = device.alloc(4096).expect("memory");
        start.record(device).expect("a mark");
        // SAFETY: both are of this handle, and nobody touches them until the event is reached.
        unsafe {
            buffer.write_async(&source).expect("a copy");
            buffer.read_async(&result).expect("a copy back");
        }
        end.record(device).expect("a mark");
        other.wait(&end).expect("the other handle waits");
        end.synchronize().expect("the mark is reached");
        assert!(end.is_done().expect("it tells"));
        assert!(end.milliseconds_since(&start).expect("both are reached") >= 0.0);
        assert_eq!(result.as_slice::<u32>(), source.as_slice::<u32>());
        let small = device.alloc(64).expect("memory");
        // SAFETY: the call fails.
        let refused = unsafe { small.write_async(&source) }.expect_err("4096 bytes into 64");
        assert_eq!(refused.status(), Status::OutOfBounds, "{refused}");
        let empty = device.alloc_host(0).expect("no memory");
        assert!(empty.as_ptr().is_null() && empty.as_slice::<u64>().is_empty());
    });
}

#[test]
fn reserved_memory_serves_a_capture() {
    fresh(|device| {
        device.reserve(MIB).expect("memory");
        let before = stats(device).driver_allocations;
        let recorded = device.capture(|| {
            let buffer = device.alloc(MIB)?;
            buffer.fill_bytes(7)?;
            Ok::<_, Error>(buffer)
        });
        let (graph, buffer) = recorded.expect("a graph");
        // SAFETY: the graph's memory is its own.
        unsafe { graph.launch() }.expect("it runs");
        assert!(buffer.download::<u8>().expect("a copy back").iter().all(|byte| *byte == 7));
        assert_eq!(stats(device).driver_allocations, before, "the capture took what was reserved");
    });
}
