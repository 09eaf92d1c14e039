//! Bad input for every argument of every public function. Each call returns the right status and a sentence that begins
//! with the function and names the argument. Out-pointers stay unchanged, and nothing is lost or leaked.
use candle_rocm_sys_tests::support;

use candle_rocm_sys::{Buffer, Device, Layout, Status, sys};
use candle_rocm_sys_tests::support::paths::VERSION;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use support::{Target, last_error, open, targets};

use sys::crk_dtype as D;

/// Calls a function and checks that the status is `$status` and the sentence `function: ...` contains `$word`. For an
/// error of the driver, the sentence begins with the driver's call.
macro_rules! refuses {
    ($status:ident, $word:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the library refuses the bad argument before it uses it; the others are live.
        let status = unsafe { sys::$function($($argument),*) };
        let (sentence, function, word) = (last_error(), stringify!($function), $word);
        assert_eq!(status, Status::$status, "{function}, {word}: {} {sentence}", status.name());
        let from_driver = status == Status::OutOfMemory;
        assert!(sentence.starts_with(function) || from_driver, "{function}, {word}: the sentence is {sentence:?}");
        assert!(sentence.contains(word), "{function}, {word}: the sentence is {sentence:?}");
    }};
}

macro_rules! works {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: live arguments.
        support::succeeded(unsafe { sys::$function($($argument),*) }).unwrap_or_else(|problem| panic!("{problem}"))
    };
}

/// The common setup of most tests: a device, a few buffers, a layout of 2 x 3.
struct Bench {
    name: &'static str,
    device: Device,
    a: Buffer,
    b: Buffer,
    c: Buffer,
    layout: Layout,
}

impl Bench {
    fn new(target: &'static Target) -> Bench {
        let device = open(&target.name).expect("a device");
        let buffer = || device.upload(&[0u8; 256]).expect("memory");
        let (a, b, c) = (buffer(), buffer(), buffer());
        let layout = Layout::contiguous(&[2, 3]).expect("a layout");
        Bench { name: &target.name, device, a, b, c, layout }
    }

    fn raw(&self) -> sys::crk_device_t {
        self.device.raw()
    }

    fn views(&self) -> [sys::crk_view_t; 3] {
        [self.a.raw_view(), self.b.raw_view(), self.c.raw_view()]
    }
}

fn on_each_target(body: impl Fn(&Bench)) {
    for target in targets() {
        let bench = Bench::new(target);
        let stats = |device: &Device| {
            let stats = device.memory_stats().expect("figures");
            (stats.live_bytes, stats.live_allocations)
        };
        let before = stats(&bench.device);
        body(&bench);
        bench.device.synchronize().expect("the device still works");
        assert_eq!(stats(&bench.device), before, "{}: memory was lost", target.name);
        let zeros = [&bench.a, &bench.b, &bench.c].map(|b| b.download::<u8>().expect("a copy"));
        assert!(zeros.iter().flatten().all(|byte| *byte == 0), "{}: a refused call wrote", target.name);
    }
}

/// Bytes that are not a handle.
fn no_handle() -> *mut c_void {
    static ZEROS: [u64; 512] = [0; 512];
    ZEROS.as_ptr() as *mut c_void
}

fn view(ptr: *mut c_void, bytes: usize) -> sys::crk_view_t {
    sys::crk_view_t { ptr, bytes }
}

/// Ranges that share one byte overlap, and neighbours do not. Positions that u32 cannot hold are refused.
#[test]
fn extremes_of_checks() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let (bytes, ids) = (device.upload(&[1u8; 64]).expect("memory"), device.upload(&[0u32; 4]).expect("memory"));
        let at = |from: usize, count: usize| sys::crk_view_t {
            ptr: bytes.as_ptr().cast::<u8>().wrapping_add(from).cast(),
            bytes: count,
        };
        let (raw, sum, u8, dims) = (device.raw(), sys::crk_reduce_op_t::Sum, D::CRK_DTYPE_U8, [0]);
        let [one, four] = [1, 4].map(|count| Layout::contiguous(&[count]).expect("a layout"));
        for (to, from) in [(8, 5), (8, 8)] {
            let (src, dst) = (at(from, 4).into(), at(to, 1));
            refuses!(InvalidArgument, "overlap", crk_reduce(raw, sum, u8, &four, src, dims.as_ptr(), 1, dst));
        }
        let (src, places, dst) = (at(8, 1).into(), ids.raw_view().into(), at(5, 4));
        let u32 = D::CRK_DTYPE_U32;
        refuses!(InvalidArgument, "overlap", crk_index_select(raw, u32, u8, &one, src, &four, places, 0, dst));
        works!(crk_reduce(raw, sum, u8, &four, at(4, 4).into(), dims.as_ptr(), 1, at(8, 1)));
        let far = Layout::strided(&[1 << 17, 1 << 16], &[0, 0], 0).expect("a layout");
        let (argmax, f32, src, both) = (sys::crk_reduce_op_t::Argmax, D::CRK_DTYPE_F32, at(0, 4).into(), [0, 1]);
        let dst = ids.raw_view();
        refuses!(Unsupported, "crk_reduce", crk_reduce(raw, argmax, f32, &far, src, both.as_ptr(), 2, dst));
    }
}

#[test]
fn status_and_dtype_lookups() {
    assert_eq!(Status::OutOfMemory.name(), "CRK_OUT_OF_MEMORY");
    assert_eq!(sys::crk_status(4711).name(), "CRK_UNKNOWN");
    // SAFETY: any value may be asked for.
    let message = unsafe { sys::crk_status_message(sys::crk_status(4711)) };
    assert!(!message.is_null());
    assert_eq!(sys::crk_dtype(4711).name(), None);
    assert_eq!(sys::crk_dtype(4711).size(), 0);
    let mut dtype = D::I64;
    refuses!(CRK_INVALID_ARGUMENT, "name is NULL", crk_dtype_from_name(null(), &mut dtype));
    refuses!(CRK_INVALID_ARGUMENT, "f31", crk_dtype_from_name(c"f31".as_ptr(), &mut dtype));
    refuses!(CRK_INVALID_ARGUMENT, "dtype is NULL", crk_dtype_from_name(c"f32".as_ptr(), null_mut()));
    assert_eq!(dtype, D::I64);
    for name in [c"f8e4m3", c"f8_e4m3", c"fp8_e4m3"] {
        works!(crk_dtype_from_name(name.as_ptr(), &mut dtype));
        assert_eq!(dtype, D::F8E4M3);
    }
}

#[test]
fn op_lookups() {
    macro_rules! lookup {
        ($function:ident, $kind:ident, $good:expr) => {{
            let mut op = sys::$kind(77);
            refuses!(CRK_INVALID_ARGUMENT, "root is NULL", $function(null(), &mut op));
            refuses!(CRK_INVALID_ARGUMENT, "unknown", $function(c"unknown".as_ptr(), &mut op));
            refuses!(CRK_INVALID_ARGUMENT, "op is NULL", $function($good.as_ptr(), null_mut()));
            assert_eq!(op, sys::$kind(77));
            works!($function($good.as_ptr(), &mut op));
        }};
    }
    lookup!(crk_unary_op_from_root, crk_unary_op, c"uexp");
    lookup!(crk_binary_op_from_root, crk_binary_op, c"badd");
    lookup!(crk_cmp_op_from_root, crk_cmp_op, c"eq");
    lookup!(crk_reduce_op_from_root, crk_reduce_op, c"fast_max");
    lookup!(crk_rope_kind_from_root, crk_rope_kind, c"rope_i");
    lookup!(crk_pool_op_from_root, crk_pool_op, c"max_pool2d");
}

#[test]
fn devices() {
    let mut device = no_handle().cast();
    let mut count = -7;
    refuses!(CRK_INVALID_ARGUMENT, "count is NULL", crk_device_count(sys::crk_backend::CRK_BACKEND_CPU, null_mut()));
    refuses!(CRK_INVALID_ARGUMENT, "backend 77", crk_device_count(sys::crk_backend(77), &mut count));
    refuses!(CRK_INVALID_ARGUMENT, "device is NULL", crk_device_open(sys::crk_backend::CRK_BACKEND_CPU, 0, null_mut()));
    refuses!(CRK_INVALID_ARGUMENT, "backend 77", crk_device_open(sys::crk_backend(77), 0, &mut device));
    let (name, mut backend) = (c"cpu".as_ptr(), sys::crk_backend(0));
    refuses!(CRK_INVALID_ARGUMENT, "name is NULL", crk_device_from_name(null(), &mut backend, &mut count));
    refuses!(CRK_INVALID_ARGUMENT, "backend is NULL", crk_device_from_name(name, null_mut(), &mut count));
    refuses!(CRK_INVALID_ARGUMENT, "ordinal is NULL", crk_device_from_name(name, &mut backend, null_mut()));
    refuses!(CRK_INVALID_ARGUMENT, "visit is NULL", crk_diagnose(None, null_mut()));
    assert_eq!((device.cast(), count), (no_handle(), -7), "an out-pointer was written on failure");

    for target in targets() {
        let info = target.device.info().expect("the device's figures");
        works!(crk_device_count(info.backend, &mut count));
        refuses!(CRK_NO_DEVICE, "ordinal", crk_device_open(info.backend, count, &mut device));
        refuses!(CRK_NO_DEVICE, "ordinal", crk_device_open(info.backend, -1, &mut device));
        assert_eq!(device.cast(), no_handle());
    }
    // SAFETY: NULL does nothing.
    unsafe {
        sys::crk_device_close(null_mut());
        sys::crk_event_destroy(null_mut());
        sys::crk_graph_destroy(null_mut());
        sys::crk_reports_destroy(null_mut(), 1);
    }
}

/// A backend without a runtime on this machine says so and names what it looked for.
#[test]
fn missing_runtimes() {
    targets();
    for backend in [sys::crk_backend::CRK_BACKEND_HIP, sys::crk_backend::CRK_BACKEND_CUDA] {
        let mut count = -7;
        // SAFETY: live arguments.
        let status = unsafe { sys::crk_device_count(backend, &mut count) };
        match status {
            Status::Ok => assert!(count >= 0),
            Status::NoRuntime => {
                assert!(!last_error().is_empty());
                assert_eq!(count, -7);
                let mut device = null_mut();
                // SAFETY: live arguments.
                assert_eq!(unsafe { sys::crk_device_open(backend, 0, &mut device) }, Status::NoRuntime);
                assert!(device.is_null());
            }
            status => panic!("{}: {}", status.name(), last_error()),
        }
    }
}

/// The environment variable decides what CRK_BACKEND_AUTO opens. The test runs in a process of its own, because threads
/// share the environment.
#[test]
fn environment_names_the_device() {
    const ME: &str = "environment_names_the_device";
    if std::env::var_os("CRK_TEST_CHILD").is_some() {
        match Device::open_best() {
            Ok(device) => {
                println!("<{} {}>", device.info().expect("figures").name(), device.info().expect("figures").wave_size)
            }
            Err(error) => println!("<{error}>"),
        }
        return;
    }
    targets();
    let open_with = |name: &str| {
        let output = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", ME, "--nocapture"])
            .env("CANDLE_ROCM_DEVICE", name)
            .env("CRK_TEST_CHILD", "1")
            .output()
            .expect("this program again");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_once('<')
            .and_then(|(_, rest)| rest.split_once('>'))
            .map_or(text.clone(), |(inside, _)| inside.to_owned())
    };
    for bad in ["nonsense", "cpux", "cpu:", "cpu:48", "hip:x", "hip:-1", "tpu:0", "cpu:32 "] {
        let answer = open_with(bad);
        assert!(answer.starts_with("CRK_INVALID_ARGUMENT") && answer.contains("CANDLE_ROCM_DEVICE"), "{bad}: {answer}");
        assert!(answer.contains(bad), "{bad}: {answer}");
    }
    if targets().iter().any(|target| target.name.starts_with("cpu")) {
        assert!(open_with("cpu:32").ends_with(" 32"), "{}", open_with("cpu:32"));
        assert!(open_with("cpu:64").ends_with(" 64"));
        assert!(open_with("CPU").ends_with(" 32"));
        assert!(open_with("").contains(' '), "an empty variable is as none");
    }
}

/// Every function that takes a handle gets NULL, and something that is not a handle.
#[test]
fn handles() {
    on_each_target(|bench| {
        let [a, b, c] = bench.views();
        let l = &bench.layout;
        let one = [1u8; 8];
        let value = one.as_ptr().cast::<c_void>();
        let (f32, u8) = (D::F32, D::U8);
        let (uop, bop, cop) = (sys::crk_unary_op(1), sys::crk_binary_op(0), sys::crk_cmp_op(0));
        let dim = sys::crk_dim3_t { x: 1, y: 1, z: 1 };
        let mut device = null_mut();
        let mut event = null_mut();
        let mut ptr = null_mut();
        let mut bytes = [0u8; 8];
        let host = bytes.as_mut_ptr().cast::<c_void>();
        let (mut n, mut m) = (0, 0);
        let mut milliseconds = 0.0;
        let mut params = sys::crk_params_t::default();
        for (handle, problem) in [(null_mut(), "is NULL"), (no_handle(), "is no live handle")] {
            let d: sys::crk_device_t = handle.cast();
            let e: sys::crk_event_t = handle.cast();
            let self_ = &format!("self {problem}") as &str;
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_clone(d, &mut device));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_info(d, &mut sys::crk_device_info_t::default()));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_memory(d, &mut n, &mut m));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_stream(d, &mut ptr));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_synchronize(d));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_operations(d, &mut 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_replays(d, &mut 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_set_replay(d, true));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_reports_create(d, &mut 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_wait(d, null_mut()));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_device_peer_access(d, bench.raw(), &mut false));
            refuses!(
                CRK_INVALID_ARGUMENT,
                &format!("peer {problem}"),
                crk_device_peer_access(bench.raw(), d, &mut false)
            );
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_alloc(d, 16, &mut ptr));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_free(d, a.ptr));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_memory_reserve(d, 16));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_memory_set_cache_limit(d, 16));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_memory_trim(d));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_memory_stats(d, &mut sys::crk_memory_stats_t::default()));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_host_alloc(d, 16, &mut ptr));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_host_free(d, host));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_copy_to_device(d, a, value, 8));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_copy_to_host(d, host, a.into(), 8));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_copy_to_device_async(d, a, value, 8));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_copy_to_host_async(d, host, a.into(), 8));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_copy(d, a, b.into(), 8));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_memset(d, a, 1, 8));
            let dst = &format!("dst_device {problem}") as &str;
            refuses!(CRK_INVALID_ARGUMENT, dst, crk_copy_between(d, a, bench.raw(), b.into(), 8));
            let src = &format!("src_device {problem}") as &str;
            refuses!(CRK_INVALID_ARGUMENT, src, crk_copy_between(bench.raw(), a, d, b.into(), 8));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_event_create(d, &mut event));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_event_record(e, bench.raw()));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_event_query(e));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_event_synchronize(e));
            let start = &format!("start {problem}") as &str;
            refuses!(CRK_INVALID_ARGUMENT, start, crk_event_elapsed(e, e, &mut milliseconds));
            refuses!(CRK_INVALID_ARGUMENT, &format!("event {problem}"), crk_device_wait(bench.raw(), e));
            refuses!(
                CRK_INVALID_ARGUMENT,
                self_,
                crk_function_get(d, c"unary".as_ptr(), c"uneg_f32".as_ptr(), &mut null_mut())
            );
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_module_load(d, c"mine".as_ptr(), value, 8));
            let source = c"source".as_ptr();
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_module_compile(d, c"mine".as_ptr(), source, null(), 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_module_compile_cuda(d, c"mine".as_ptr(), source, null(), 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_function_params(handle.cast(), &mut n, null_mut(), 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_launch(d, null_mut(), dim, dim, 0, null(), 0));
            let function = &format!("function {problem}") as &str;
            refuses!(CRK_INVALID_ARGUMENT, function, crk_launch(bench.raw(), handle.cast(), dim, dim, 0, null(), 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_params_acquire(d, &1, 1, &mut params));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_params_from_layout(d, l, &mut params));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_graph_begin(d));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_graph_end(d, &mut null_mut()));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_graph_launch(handle.cast()));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_unary(d, uop, f32, l, a.into(), b));
            refuses!(
                CRK_INVALID_ARGUMENT,
                self_,
                crk_unary_param(d, sys::crk_unary_op::CRK_UNARY_ELU, f32, l, a.into(), b, 1.0)
            );
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_affine(d, f32, l, a.into(), b, 1.0, 1.0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_binary(d, bop, f32, l, a.into(), l, b.into(), c));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_cmp(d, cop, f32, l, a.into(), l, b.into(), c));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_cast(d, f32, u8, l, a.into(), b));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_where(d, u8, f32, l, a.into(), l, b.into(), l, b.into(), c));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_fill(d, f32, a, 4, value));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_const_set(d, f32, l, a, value));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_copy2d(d, f32, 2, 2, a.into(), 2, 0, b, 2, 0));
            refuses!(CRK_INVALID_ARGUMENT, self_, crk_copy_strided(d, f32, l, a.into(), b, 0));
            // SAFETY: these functions ignore what is not a live handle.
            unsafe {
                sys::crk_device_close(d);
                sys::crk_event_destroy(e);
                sys::crk_graph_destroy(handle.cast());
                sys::crk_params_release(d, params);
            }
        }
        // A handle of another kind.
        works!(crk_event_create(bench.raw(), &mut event));
        refuses!(CRK_INVALID_ARGUMENT, "self is no live handle", crk_device_synchronize(event.cast()));
        refuses!(CRK_INVALID_ARGUMENT, "self is no live handle", crk_event_query(bench.raw().cast()));
        // SAFETY: created above; the last call on it.
        unsafe { sys::crk_event_destroy(event) };
    });
}

#[test]
fn out_pointers() {
    on_each_target(|bench| {
        let d = bench.raw();
        let (mut n, mut event) = (0, null_mut());
        refuses!(CRK_INVALID_ARGUMENT, "device is NULL", crk_device_clone(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "info is NULL", crk_device_info(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "free_bytes is NULL", crk_device_memory(d, null_mut(), &mut n));
        refuses!(CRK_INVALID_ARGUMENT, "total_bytes is NULL", crk_device_memory(d, &mut n, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "stream is NULL", crk_device_stream(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "count is NULL", crk_device_operations(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "launches is NULL", crk_device_replays(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "reports is NULL", crk_reports_create(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "ptr is NULL", crk_alloc(d, 16, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "ptr is NULL", crk_host_alloc(d, 16, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "stats is NULL", crk_memory_stats(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "event is NULL", crk_event_create(d, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "params is NULL", crk_params_acquire(d, &1, 1, null_mut()));
        refuses!(CRK_INVALID_ARGUMENT, "params is NULL", crk_params_from_layout(d, &bench.layout, null_mut()));
        works!(crk_event_create(d, &mut event));
        works!(crk_event_record(event, d));
        refuses!(CRK_INVALID_ARGUMENT, "milliseconds is NULL", crk_event_elapsed(event, event, null_mut()));
        // SAFETY: created above; the last call on it.
        unsafe { sys::crk_event_destroy(event) };
    });
}

#[test]
fn memory() {
    on_each_target(|bench| {
        let d = bench.raw();
        let mut ptr = no_handle();
        for bytes in [usize::MAX, usize::MAX - 255, 1 << 60] {
            refuses!(CRK_OUT_OF_MEMORY, "bytes", crk_alloc(d, bytes, &mut ptr));
            refuses!(CRK_OUT_OF_MEMORY, "bytes", crk_memory_reserve(d, bytes));
            assert_eq!(ptr, no_handle());
        }
        // No memory is lost: allocation still works.
        works!(crk_alloc(d, 1000, &mut ptr));
        assert_eq!(ptr as usize % 256, 0);
        let inside = ptr.cast::<u8>().wrapping_add(16).cast();
        refuses!(CRK_INVALID_ARGUMENT, "ptr", crk_free(d, inside));
        refuses!(CRK_INVALID_ARGUMENT, "ptr", crk_free(d, no_handle()));
        works!(crk_free(d, ptr));
        refuses!(CRK_INVALID_ARGUMENT, "ptr", crk_free(d, ptr));
        works!(crk_free(d, null_mut()));
        works!(crk_host_free(d, null_mut()));
        works!(crk_alloc(d, 0, &mut ptr));
        assert!(ptr.is_null());
        // Memory of another handle.
        let other = bench.device.new_stream().expect("a second handle");
        refuses!(CRK_INVALID_ARGUMENT, "ptr", crk_free(other.raw(), bench.a.as_ptr()));
        let (mut total, mut free) = (0, 0);
        works!(crk_device_memory(d, &mut free, &mut total));
        assert!(free <= total && total > 0);
    });
}

#[test]
fn copies() {
    on_each_target(|bench| {
        let d = bench.raw();
        let [a, b, _] = bench.views();
        let mut host = [0u8; 512];
        let from = host.as_ptr().cast::<c_void>();
        let to = host.as_mut_ptr().cast::<c_void>();
        let nowhere = view(null_mut(), 64);
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy_to_device(d, a, from, 257));
        refuses!(CRK_INVALID_ARGUMENT, "src is NULL", crk_copy_to_device(d, a, null(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_copy_to_device(d, nowhere, from, 8));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy_to_device_async(d, a, from, 257));
        refuses!(CRK_INVALID_ARGUMENT, "src is NULL", crk_copy_to_device_async(d, a, null(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_copy_to_device_async(d, nowhere, from, 8));
        refuses!(CRK_OUT_OF_BOUNDS, "src", crk_copy_to_host(d, to, a.into(), 257));
        refuses!(CRK_INVALID_ARGUMENT, "dst is NULL", crk_copy_to_host(d, null_mut(), a.into(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "src.ptr is NULL", crk_copy_to_host(d, to, nowhere.into(), 8));
        refuses!(CRK_OUT_OF_BOUNDS, "src", crk_copy_to_host_async(d, to, a.into(), 257));
        refuses!(CRK_INVALID_ARGUMENT, "dst is NULL", crk_copy_to_host_async(d, null_mut(), a.into(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "src.ptr is NULL", crk_copy_to_host_async(d, to, nowhere.into(), 8));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy(d, view(a.ptr, 7), b.into(), 8));
        refuses!(CRK_OUT_OF_BOUNDS, "src", crk_copy(d, a, view(b.ptr, 7).into(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_copy(d, nowhere, b.into(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "src.ptr is NULL", crk_copy(d, a, nowhere.into(), 8));
        let shifted = view(a.ptr.cast::<u8>().wrapping_add(8).cast(), 100);
        refuses!(CRK_INVALID_ARGUMENT, "overlap", crk_copy(d, shifted, a.into(), 9));
        refuses!(CRK_INVALID_ARGUMENT, "overlap", crk_copy(d, a, shifted.into(), 9));
        works!(crk_copy(d, shifted, a.into(), 8));
        works!(crk_copy(d, a, a.into(), 256));
        let other = bench.device.new_stream().expect("a second handle");
        refuses!(CRK_INVALID_ARGUMENT, "overlap", crk_copy_between(other.raw(), shifted, d, a.into(), 9));
        refuses!(CRK_INVALID_ARGUMENT, "overlap", crk_copy_between(d, a, other.raw(), shifted.into(), 9));
        works!(crk_copy_between(other.raw(), shifted, d, a.into(), 8));
        works!(crk_copy_between(other.raw(), a, d, a.into(), 256));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy_between(d, a, d, b.into(), 257));
        refuses!(CRK_OUT_OF_BOUNDS, "src", crk_copy_between(d, a, d, view(b.ptr, 7).into(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_copy_between(d, nowhere, d, b.into(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "src.ptr is NULL", crk_copy_between(d, a, d, nowhere.into(), 8));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_memset(d, a, 1, 257));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_memset(d, nowhere, 1, 8));
        // Copies of nothing succeed.
        let empty = view(null_mut(), 0);
        works!(crk_copy_to_device(d, empty, null(), 0));
        works!(crk_copy_to_host(d, null_mut(), empty.into(), 0));
        works!(crk_copy(d, empty, empty.into(), 0));
        works!(crk_memset(d, empty, 1, 0));
    });
}

#[test]
fn modules_and_functions() {
    on_each_target(|bench| {
        let d = bench.raw();
        let mut function = null_mut();
        let (unary, uneg) = (c"unary".as_ptr(), c"uneg_f32".as_ptr());
        refuses!(CRK_INVALID_ARGUMENT, "module is NULL", crk_function_get(d, null(), uneg, &mut function));
        refuses!(CRK_INVALID_ARGUMENT, "kernel is NULL", crk_function_get(d, unary, null(), &mut function));
        refuses!(CRK_INVALID_ARGUMENT, "function is NULL", crk_function_get(d, unary, uneg, null_mut()));
        refuses!(CRK_NOT_FOUND, "'nary'", crk_function_get(d, c"nary".as_ptr(), uneg, &mut function));
        refuses!(CRK_NOT_FOUND, "'uneg_f31'", crk_function_get(d, unary, c"uneg_f31".as_ptr(), &mut function));
        refuses!(CRK_NOT_FOUND, "'badd_f32'", crk_function_get(d, unary, c"badd_f32".as_ptr(), &mut function));
        refuses!(CRK_NOT_FOUND, "''", crk_function_get(d, unary, c"".as_ptr(), &mut function));
        let long = std::ffi::CString::new("u".repeat(4000)).expect("a name");
        // SAFETY: the name is that of no kernel; any length is allowed.
        let status = unsafe { sys::crk_function_get(d, unary, long.as_ptr(), &mut function) };
        assert!(matches!(status, Status::NotFound | Status::InvalidArgument));
        assert!(function.is_null());
        works!(crk_function_get(d, unary, uneg, &mut function));
        let mut again = null_mut();
        works!(crk_function_get(d, unary, uneg, &mut again));
        assert_eq!(function, again, "a function is found again");

        let mut count = 0;
        let mut params = [sys::crk_param_t::default(); 8];
        refuses!(CRK_INVALID_ARGUMENT, "count is NULL", crk_function_params(function, null_mut(), null_mut(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "params is NULL", crk_function_params(function, &mut count, null_mut(), 1));
        // SAFETY: live arguments.
        let status = unsafe { sys::crk_function_params(function, &mut count, params.as_mut_ptr(), 8) };
        if status == Status::Ok {
            assert_eq!(count, 5);
            assert!(params[..5].iter().all(|param| param.bytes == 8));
        } else {
            assert_eq!(status, Status::Unsupported);
        }

        let mut image = sys::crk_image_t { data: null(), bytes: 0 };
        let hip = sys::crk_backend::CRK_BACKEND_HIP;
        refuses!(CRK_INVALID_ARGUMENT, "module is NULL", crk_module_image(null(), hip, &mut image));
        refuses!(CRK_INVALID_ARGUMENT, "image is NULL", crk_module_image(unary, hip, null_mut()));
        refuses!(CRK_NOT_FOUND, "'nary'", crk_module_image(c"nary".as_ptr(), hip, &mut image));
        refuses!(CRK_INVALID_ARGUMENT, "backend", crk_module_image(unary, sys::crk_backend(77), &mut image));
        // SAFETY: an index out of range is answered with NULL.
        assert!(unsafe { sys::crk_module_name(sys::crk_module_count()) }.is_null());
        // SAFETY: as above.
        assert!(unsafe { sys::crk_module_name(usize::MAX) }.is_null());
    });
}

#[test]
fn code_objects() {
    on_each_target(|bench| {
        let d = bench.raw();
        let (mine, garbage) =
            (c"mine".as_ptr(), b"this is no code object, however long one reads on in it. ".repeat(100));
        let data = garbage.as_ptr().cast::<c_void>();
        refuses!(CRK_INVALID_ARGUMENT, "module is NULL", crk_module_load(d, null(), data, 8));
        refuses!(CRK_INVALID_ARGUMENT, "data is NULL", crk_module_load(d, mine, null(), 8));
        refuses!(CRK_INVALID_ARGUMENT, "'unary'", crk_module_load(d, c"unary".as_ptr(), data, 8));
        refuses!(CRK_INVALID_ARGUMENT, "module", crk_module_load(d, c"".as_ptr(), data, 8));
        refuses!(CRK_INVALID_IMAGE, "0 bytes", crk_module_load(d, mine, data, 0));
        let (source, option) = (c"source".as_ptr(), [c"-O3".as_ptr(), null()]);
        let long = std::ffi::CString::new("a".repeat(128)).expect("no NUL");
        refuses!(CRK_INVALID_ARGUMENT, "module is NULL", crk_module_compile(d, null(), source, null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "0 bytes", crk_module_compile(d, c"".as_ptr(), source, null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "128 bytes", crk_module_compile(d, long.as_ptr(), source, null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "'unary'", crk_module_compile(d, c"unary".as_ptr(), source, null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "source is NULL", crk_module_compile(d, mine, null(), null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "source is empty", crk_module_compile(d, mine, c"".as_ptr(), null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "options is NULL", crk_module_compile(d, mine, source, null(), 1));
        refuses!(CRK_INVALID_ARGUMENT, "options[1]", crk_module_compile(d, mine, source, option.as_ptr(), 2));
        refuses!(CRK_INVALID_ARGUMENT, "module is NULL", crk_module_compile_cuda(d, null(), source, null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "source is NULL", crk_module_compile_cuda(d, mine, null(), null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "options[1]", crk_module_compile_cuda(d, mine, source, option.as_ptr(), 2));
        if bench.name.starts_with("cpu") {
            refuses!(CRK_UNSUPPORTED, "crk_module_load", crk_module_compile(d, mine, source, null(), 0));
        }
        let program = std::fs::read(std::env::current_exe().expect("this program")).expect("this program");
        let bad: [(&str, &[u8]); 6] = [
            ("one byte", &garbage[..1]),
            ("garbage", &garbage),
            ("a cut ELF header", &program[..40]),
            ("an ELF header alone", &program[..64]),
            ("a cut ELF file", &program[..4096]),
            ("a cut bundle", b"__CLANG_OFFLOAD_BUNDLE__\x02\0\0\0\0\0\0\0"),
        ];
        for (what, bytes) in bad {
            // SAFETY: the bytes are live; the library checks them before it uses them.
            let status = unsafe { sys::crk_module_load(d, mine, bytes.as_ptr().cast(), bytes.len()) };
            let sentence = last_error();
            let refused = matches!(status, Status::InvalidImage | Status::WrongArchitecture);
            assert!(refused, "{what}: {} {sentence}", status.name());
            assert!(sentence.contains("mine"), "{what}: {sentence:?}");
            // The name is still free, and no kernel is found under it.
            refuses!(CRK_NOT_FOUND, "'mine'", crk_function_get(d, mine, c"uneg_f32".as_ptr(), &mut null_mut()));
        }
    });
}

#[test]
fn launches() {
    on_each_target(|bench| {
        let d = bench.raw();
        let [a, b, _] = bench.views();
        let function = bench.device.function_named("unary", "uneg_f32").expect("a kernel");
        let f = function.raw();
        let dim = |x, y, z| sys::crk_dim3_t { x, y, z };
        let arg = |value: u64, bytes, is_pointer| sys::crk_arg_t { data: null(), value, bytes, is_pointer };
        let number = |value| arg(value, 8, false);
        let pointer = |view: sys::crk_view_t| arg(view.ptr as u64, 8, true);
        let good = [number(0), number(0), arg(0, 8, true), pointer(a), pointer(b)];
        let (one, block) = (dim(1, 1, 1), dim(64, 1, 1));
        let info = bench.device.info().expect("figures");
        refuses!(CRK_INVALID_ARGUMENT, "args is NULL", crk_launch(d, f, one, block, 0, null(), 5));
        refuses!(CRK_INVALID_ARGUMENT, "block (0, 1, 1)", crk_launch(d, f, one, dim(0, 1, 1), 0, good.as_ptr(), 5));
        refuses!(CRK_INVALID_ARGUMENT, "block (1, 0, 1)", crk_launch(d, f, one, dim(1, 0, 1), 0, good.as_ptr(), 5));
        refuses!(
            CRK_INVALID_ARGUMENT,
            "threads",
            crk_launch(d, f, one, dim(info.max_block_threads + 1, 1, 1), 0, good.as_ptr(), 5)
        );
        refuses!(CRK_INVALID_ARGUMENT, "threads", crk_launch(d, f, one, dim(1 << 16, 1 << 16, 1), 0, good.as_ptr(), 5));
        refuses!(
            CRK_INVALID_ARGUMENT,
            "'uneg_f32'",
            crk_launch(d, f, one, dim(u32::MAX, u32::MAX, 1), 0, good.as_ptr(), 5)
        );
        if info.backend == sys::crk_backend::CRK_BACKEND_HIP {
            refuses!(CRK_INVALID_ARGUMENT, "grid", crk_launch(d, f, dim(u32::MAX, 1, 1), block, 0, good.as_ptr(), 5));
        }
        refuses!(CRK_INVALID_ARGUMENT, "shared_bytes", crk_launch(d, f, one, block, u32::MAX, good.as_ptr(), 5));
        let mut params = [sys::crk_param_t::default(); 8];
        let mut count = 0;
        // SAFETY: live arguments.
        if unsafe { sys::crk_function_params(f, &mut count, params.as_mut_ptr(), 8) } == Status::Ok {
            refuses!(CRK_INVALID_ARGUMENT, "arg_count is 4", crk_launch(d, f, one, block, 0, good.as_ptr(), 4));
            refuses!(CRK_INVALID_ARGUMENT, "arg_count is 0", crk_launch(d, f, one, block, 0, null(), 0));
            let mut bad = good;
            bad[1] = arg(0, 4, false);
            refuses!(CRK_INVALID_ARGUMENT, "args[1]", crk_launch(d, f, one, block, 0, bad.as_ptr(), 5));
            bad = good;
            bad[4] = arg(0, 8, false);
            if params[4].is_pointer {
                refuses!(CRK_INVALID_ARGUMENT, "args[4]", crk_launch(d, f, one, block, 0, bad.as_ptr(), 5));
            }
        }
        let mut bad = good;
        bad[2].bytes = 0;
        refuses!(CRK_INVALID_ARGUMENT, "args[2]", crk_launch(d, f, one, block, 0, bad.as_ptr(), 5));
        bad[2].bytes = 9;
        refuses!(CRK_INVALID_ARGUMENT, "args[2]", crk_launch(d, f, one, block, 0, bad.as_ptr(), 5));
        works!(crk_launch(d, f, dim(0, 1, 1), block, 0, good.as_ptr(), 5));
        works!(crk_launch(d, f, one, block, 0, good.as_ptr(), 5));
        // A function of another device.
        for other in targets().iter().filter(|other| other.name != bench.name) {
            refuses!(
                CRK_INVALID_ARGUMENT,
                "another device",
                crk_launch(other.device.raw(), f, one, block, 0, good.as_ptr(), 5)
            );
        }
    });
}

#[test]
fn foreign_events() {
    on_each_target(|bench| {
        let d = bench.raw();
        let (mut event, mut other_event) = (null_mut(), null_mut());
        works!(crk_event_create(d, &mut event));
        let mut milliseconds = -1.0;
        refuses!(CRK_INVALID_ARGUMENT, "never recorded", crk_event_elapsed(event, event, &mut milliseconds));
        works!(crk_event_query(event));
        works!(crk_event_synchronize(event));
        works!(crk_device_wait(d, event));
        refuses!(CRK_INVALID_ARGUMENT, "device is NULL", crk_event_record(event, null_mut()));
        for other in targets().iter().filter(|other| other.name != bench.name) {
            let o = other.device.raw();
            refuses!(CRK_INVALID_ARGUMENT, "another device", crk_event_record(event, o));
            works!(crk_device_wait(o, event));
            works!(crk_event_create(o, &mut other_event));
            refuses!(
                CRK_INVALID_ARGUMENT,
                "different devices",
                crk_event_elapsed(event, other_event, &mut milliseconds)
            );
            // SAFETY: created above; the last call on it.
            unsafe { sys::crk_event_destroy(other_event) };
        }
        assert_eq!(milliseconds, -1.0);
        // SAFETY: created above; the last call on it.
        unsafe { sys::crk_event_destroy(event) };
    });
}

fn layout_of(rank: u32, dims: &[usize], strides: &[usize], offset: usize) -> Layout {
    let mut layout = Layout { rank, offset, ..Layout::default() };
    layout.dims[..dims.len()].copy_from_slice(dims);
    layout.strides[..strides.len()].copy_from_slice(strides);
    layout
}

#[test]
fn layouts() {
    let mut layout = Layout::default();
    refuses!(CRK_INVALID_ARGUMENT, "dims is NULL", crk_layout_contiguous(null(), 2, &mut layout));
    refuses!(CRK_INVALID_ARGUMENT, "layout is NULL", crk_layout_contiguous([2, 3].as_ptr(), 2, null_mut()));
    refuses!(CRK_INVALID_ARGUMENT, "rank is 9", crk_layout_contiguous([1; 9].as_ptr(), 9, &mut layout));
    refuses!(CRK_INVALID_ARGUMENT, "dims", crk_layout_contiguous([usize::MAX, 2].as_ptr(), 2, &mut layout));
    refuses!(CRK_INVALID_ARGUMENT, "dims", crk_layout_contiguous([1 << 32, 1 << 32].as_ptr(), 2, &mut layout));
    works!(crk_layout_contiguous(null(), 0, &mut layout));
    let (mut numel, mut contiguous) = (0, false);
    works!(crk_layout_numel(&layout, &mut numel));
    assert_eq!(numel, 1, "rank 0 is a single element");
    refuses!(CRK_INVALID_ARGUMENT, "layout is NULL", crk_layout_numel(null(), &mut numel));
    refuses!(CRK_INVALID_ARGUMENT, "numel is NULL", crk_layout_numel(&layout, null_mut()));
    refuses!(CRK_INVALID_ARGUMENT, "layout is NULL", crk_layout_is_contiguous(null(), &mut contiguous));
    refuses!(CRK_INVALID_ARGUMENT, "contiguous is NULL", crk_layout_is_contiguous(&layout, null_mut()));
    let high = layout_of(9, &[], &[], 0);
    refuses!(CRK_INVALID_ARGUMENT, "layout.rank is 9", crk_layout_numel(&high, &mut numel));
    refuses!(CRK_INVALID_ARGUMENT, "layout.rank is 9", crk_layout_is_contiguous(&high, &mut contiguous));
    let huge = layout_of(2, &[1 << 33, 1 << 33], &[1, 1], 0);
    refuses!(CRK_INVALID_ARGUMENT, "layout", crk_layout_numel(&huge, &mut numel));
    // A dim of 0 makes a layout empty, whatever the other dims are.
    works!(crk_layout_numel(&layout_of(3, &[1 << 33, 0, 1 << 33], &[1, 1, 1], 0), &mut numel));
    assert_eq!(numel, 0);

    on_each_target(|bench| {
        let d = bench.raw();
        let mut params = sys::crk_params_t::default();
        refuses!(CRK_INVALID_ARGUMENT, "numbers is NULL", crk_params_acquire(d, null(), 1, &mut params));
        refuses!(CRK_INVALID_ARGUMENT, "count is 33", crk_params_acquire(d, [0; 33].as_ptr(), 33, &mut params));
        refuses!(CRK_INVALID_ARGUMENT, "layout is NULL", crk_params_from_layout(d, null(), &mut params));
        refuses!(CRK_INVALID_ARGUMENT, "layout.rank is 9", crk_params_from_layout(d, &high, &mut params));
        assert!(params.ptr.is_null());
    });
}

/// A place for a result that begins with `struct_bytes`: the words of the caller's struct, and guards behind it.
type Words = [u64; 1024];
const GUARD: u64 = 0x5a5a_5a5a_5a5a_5a5a;

fn words(struct_bytes: usize) -> Words {
    let mut words = [GUARD; 1024];
    words[0] = struct_bytes as u64;
    words
}

fn bytes_of(words: &Words) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A result is cut to the caller's struct, and is followed by zeros where that struct is longer than the library's.
#[test]
fn results_that_begin_with_struct_bytes() {
    on_each_target(|bench| {
        macro_rules! check {
            ($kind:ident, $function:ident, $argument:literal, $first_version:literal) => {
                let call = |struct_bytes| {
                    let mut given = words(struct_bytes);
                    // SAFETY: the place is longer than any accepted struct_bytes.
                    let status = unsafe { sys::$function(bench.raw(), given.as_mut_ptr().cast()) };
                    (status, given)
                };
                for refused in [0, 8, $first_version - 1, 4097, usize::MAX] {
                    let (status, given) = call(refused);
                    let (sentence, value) = (last_error(), format!("{}.struct_bytes is {refused};", $argument));
                    assert_eq!(status, Status::InvalidArgument, "{refused}: {sentence}");
                    assert!(sentence.starts_with(stringify!($function)) && sentence.contains(&value), "{sentence}");
                    assert_eq!(given, words(refused), "{}, {refused}: a refused call wrote", $argument);
                }
                let size = size_of::<sys::$kind>();
                for accepted in [$first_version, size, size + 1, size + 24, 4096] {
                    let (status, given) = call(accepted);
                    assert_eq!(status, Status::Ok, "{accepted}: {}", last_error());
                    let (known, name) = (accepted.min(size), format!("{}, struct_bytes {accepted}", $argument));
                    assert_eq!(given[0], accepted as u64, "{name}");
                    assert!(given[1..known / 8].iter().all(|word| *word != GUARD), "{name}: a field was not written");
                    let (bytes, guards) = (bytes_of(&given), bytes_of(&words(accepted)));
                    assert!(bytes[known..accepted].iter().all(|byte| *byte == 0), "{name}: no zeros at the end");
                    assert_eq!(bytes[accepted..], guards[accepted..], "{name}: bytes behind the struct changed");
                }
            };
        }
        check!(crk_device_info_t, crk_device_info, "info", 560);
        check!(crk_memory_stats_t, crk_memory_stats, "stats", 72);
    });
}

/// The same for a struct that has grown by more since its first version than `crk_device_info_t` has.
#[test]
fn results_of_older_versions() {
    unsafe extern "C" {
        fn crk_priv_sized_give(
            place: *const c_char,
            name: *const c_char,
            first_bytes: usize,
            known: *const c_void,
            known_bytes: usize,
            given: *mut c_void,
        ) -> Status;
    }
    let known: [u64; 4] = [0, 1, 2, 3];
    let give = |struct_bytes| {
        let mut given = words(struct_bytes);
        let (place, name) = (c"crk_test".as_ptr(), c"given".as_ptr());
        // SAFETY: `known` has 32 bytes, and `given` has more than are written.
        let status =
            unsafe { crk_priv_sized_give(place, name, 16, known.as_ptr().cast(), 32, given.as_mut_ptr().cast()) };
        (status, given)
    };
    for (struct_bytes, fields) in
        [(16, &[1][..]), (24, &[1, 2]), (32, &[1, 2, 3]), (40, &[1, 2, 3, 0]), (56, &[1, 2, 3, 0, 0, 0])]
    {
        let mut expected = words(struct_bytes);
        expected[1..=fields.len()].copy_from_slice(fields);
        assert_eq!(give(struct_bytes), (Status::Ok, expected), "{struct_bytes}: {}", last_error());
    }
    for struct_bytes in [0, 15, 4097] {
        assert_eq!(give(struct_bytes), (Status::InvalidArgument, words(struct_bytes)));
        assert!(last_error().contains(&format!("given.struct_bytes is {struct_bytes};")), "{}", last_error());
    }
}

#[test]
fn arguments_of_other_versions() {
    unsafe extern "C" {
        fn crk_priv_sized_take(
            place: *const c_char,
            name: *const c_char,
            first_bytes: usize,
            given: *const c_void,
            known: *mut c_void,
            known_bytes: usize,
        ) -> Status;
    }
    let take = |given: [u64; 6]| {
        let mut known = [GUARD; 5];
        let (place, name) = (c"crk_test".as_ptr(), c"given".as_ptr());
        // SAFETY: `given` is as long as it says, or refused; `known` has 32 bytes and a guard.
        let status =
            unsafe { crk_priv_sized_take(place, name, 16, given.as_ptr().cast(), known.as_mut_ptr().cast(), 32) };
        assert_eq!(known[4], GUARD);
        (status, known[..4].to_vec())
    };
    assert_eq!(take([16, 1, 2, 3, 4, 5]), (Status::Ok, vec![32, 1, 0, 0]));
    assert_eq!(take([24, 1, 2, 3, 4, 5]), (Status::Ok, vec![32, 1, 2, 0]));
    assert_eq!(take([32, 1, 2, 3, 4, 5]), (Status::Ok, vec![32, 1, 2, 3]));
    assert_eq!(take([48, 1, 2, 3, 0, 0]), (Status::Ok, vec![32, 1, 2, 3]));
    assert_eq!(take([48, 1, 2, 3, 0, 1 << 56]), (Status::Unsupported, vec![GUARD; 4]));
    assert!(last_error().starts_with("crk_test: byte 47 of given is not 0"), "{}", last_error());
    for struct_bytes in [0, 15, 4097] {
        assert_eq!(take([struct_bytes, 1, 2, 3, 4, 5]), (Status::InvalidArgument, vec![GUARD; 4]));
        assert!(last_error().contains(&format!("given.struct_bytes is {struct_bytes};")), "{}", last_error());
    }
}

/// The arguments of a launcher: layouts, views and dtypes. Each test spoils one of them.
#[derive(Clone, Copy)]
struct Call {
    /// The layouts of the sources, in order.
    layouts: [Layout; 3],
    /// The index of a layout to replace with NULL.
    null_layout: Option<usize>,
    sources: [sys::crk_const_view_t; 3],
    dst: sys::crk_view_t,
    dtype: sys::crk_dtype,
    other_dtype: sys::crk_dtype,
    op: u32,
}

/// A launcher: its name, the names of its layouts and sources, and how to call it.
struct Launcher {
    name: &'static str,
    layouts: &'static [&'static str],
    sources: &'static [&'static str],
    ops: bool,
    other_dtype: Option<&'static str>,
    call: fn(sys::crk_device_t, &Call) -> Status,
}

impl Call {
    fn layout(&self, index: usize) -> *const Layout {
        if self.null_layout == Some(index) { null() } else { &self.layouts[index] }
    }
}

// SAFETY, for all of these calls: the launchers check their arguments; the views are of live memory.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "crk_unary",
        layouts: &["layout"],
        sources: &["src"],
        ops: true,
        other_dtype: None,
        call: |d, c| unsafe { sys::crk_unary(d, sys::crk_unary_op(c.op), c.dtype, c.layout(0), c.sources[0], c.dst) },
    },
    Launcher {
        name: "crk_unary_param",
        layouts: &["layout"],
        sources: &["src"],
        ops: true,
        other_dtype: None,
        call: |d, c| unsafe {
            let op = if c.op == 1 { sys::crk_unary_op::CRK_UNARY_ELU } else { sys::crk_unary_op(c.op) };
            sys::crk_unary_param(d, op, c.dtype, c.layout(0), c.sources[0], c.dst, 1.0)
        },
    },
    Launcher {
        name: "crk_affine",
        layouts: &["layout"],
        sources: &["src"],
        ops: false,
        other_dtype: None,
        call: |d, c| unsafe { sys::crk_affine(d, c.dtype, c.layout(0), c.sources[0], c.dst, 1.0, 0.0) },
    },
    Launcher {
        name: "crk_binary",
        layouts: &["lhs_layout", "rhs_layout"],
        sources: &["lhs", "rhs"],
        ops: true,
        other_dtype: None,
        call: |d, c| unsafe {
            sys::crk_binary(
                d,
                sys::crk_binary_op(c.op),
                c.dtype,
                c.layout(0),
                c.sources[0],
                c.layout(1),
                c.sources[1],
                c.dst,
            )
        },
    },
    Launcher {
        name: "crk_cmp",
        layouts: &["lhs_layout", "rhs_layout"],
        sources: &["lhs", "rhs"],
        ops: true,
        other_dtype: None,
        call: |d, c| unsafe {
            sys::crk_cmp(d, sys::crk_cmp_op(c.op), c.dtype, c.layout(0), c.sources[0], c.layout(1), c.sources[1], c.dst)
        },
    },
    Launcher {
        name: "crk_cast",
        layouts: &["layout"],
        sources: &["src"],
        ops: false,
        other_dtype: Some("dst_dtype"),
        call: |d, c| unsafe { sys::crk_cast(d, c.dtype, c.other_dtype, c.layout(0), c.sources[0], c.dst) },
    },
    Launcher {
        name: "crk_where",
        layouts: &["true_layout", "false_layout", "ids_layout"],
        sources: &["on_true", "on_false", "ids"],
        ops: false,
        other_dtype: Some("ids_dtype"),
        call: |d, c| unsafe {
            // The ids come last here, so that the first source has `dtype`.
            sys::crk_where(
                d,
                c.other_dtype,
                c.dtype,
                c.layout(2),
                c.sources[2],
                c.layout(0),
                c.sources[0],
                c.layout(1),
                c.sources[1],
                c.dst,
            )
        },
    },
    Launcher {
        name: "crk_copy_strided",
        layouts: &["layout"],
        sources: &["src"],
        ops: false,
        other_dtype: None,
        call: |d, c| unsafe { sys::crk_copy_strided(d, c.dtype, c.layout(0), c.sources[0], c.dst, 0) },
    },
];

#[test]
fn launchers() {
    on_each_target(|bench| {
        let [a, b, dst] = bench.views();
        let good = Call {
            layouts: [bench.layout; 3],
            null_layout: None,
            sources: [a.into(), b.into(), view(a.ptr.cast::<u8>().wrapping_add(128).cast(), 128).into()],
            dst,
            dtype: D::F32,
            other_dtype: D::U32,
            op: 1,
        };
        for launcher in LAUNCHERS {
            let refused = |call: &Call, status: Status, word: &str| {
                let got = (launcher.call)(bench.raw(), call);
                let sentence = last_error();
                assert_eq!(got, status, "{}, {word}: {} {sentence}", launcher.name, got.name());
                assert!(
                    sentence.starts_with(launcher.name) && sentence.contains(word),
                    "{}, {word}: {sentence:?}",
                    launcher.name
                );
            };
            let (invalid, outside) = (Status::InvalidArgument, Status::OutOfBounds);
            refused(&Call { dtype: sys::crk_dtype(77), ..good }, invalid, "dtype");
            refused(&Call { dtype: sys::crk_dtype(u32::MAX), ..good }, invalid, "dtype");
            if launcher.ops {
                refused(&Call { op: 77, ..good }, invalid, "op");
                refused(&Call { op: u32::MAX, ..good }, invalid, "op");
            }
            if let Some(name) = launcher.other_dtype {
                refused(&Call { other_dtype: sys::crk_dtype(77), ..good }, invalid, name);
            }
            // The last row of each layout is at 1 * stride + 2. The views hold 64 elements of f32; the third holds 32.
            for (k, (name, source)) in launcher.layouts.iter().zip(launcher.sources).enumerate() {
                refused(&Call { null_layout: Some(k), ..good }, invalid, &format!("{name} is NULL"));
                let with = |layout| {
                    let mut call = good;
                    call.layouts[k] = layout;
                    call
                };
                refused(&with(layout_of(9, &[1; 8], &[1; 8], 0)), invalid, &format!("{name}.rank is 9"));
                refused(&with(layout_of(2, &[1 << 33, 1 << 33], &[1, 1], 0)), invalid, name);
                refused(&with(layout_of(2, &[2, 3], &[usize::MAX, 1], 0)), invalid, name);
                refused(&with(layout_of(2, &[2, 3], &[3, 1], usize::MAX - 2)), invalid, name);
                refused(&with(layout_of(2, &[2, 3], &[62, 1], 0)), outside, source);
                refused(&with(layout_of(2, &[2, 3], &[3, 32], 0)), outside, source);
                refused(&with(layout_of(2, &[2, 3], &[3, 1], 59)), outside, source);
                refused(&with(layout_of(2, &[2, 3], &[0, 0], 64)), outside, source);
                if launcher.layouts.len() > 1 {
                    refused(&with(layout_of(2, &[3, 2], &[2, 1], 0)), invalid, "dims");
                    refused(&with(layout_of(1, &[6], &[1], 0)), invalid, "rank");
                }
                let seen = |view: sys::crk_view_t| {
                    let mut call = good;
                    call.sources[k] = view.into();
                    call
                };
                refused(&seen(view(null_mut(), 256)), invalid, &format!("{source}.ptr is NULL"));
                refused(&seen(view(null_mut(), 0)), outside, source);
                refused(&seen(view(a.ptr, 23)), outside, source);
                let odd = a.ptr.cast::<u8>().wrapping_add(1).cast();
                refused(&seen(view(odd, 255)), invalid, &format!("{source}.ptr"));
            }
            refused(&Call { dst: view(null_mut(), 256), ..good }, invalid, "dst.ptr is NULL");
            let short = if launcher.name == "crk_cmp" { 5 } else { 23 };
            refused(&Call { dst: view(dst.ptr, short), ..good }, outside, "dst");
            if launcher.name != "crk_cmp" {
                let odd = dst.ptr.cast::<u8>().wrapping_add(2).cast();
                refused(&Call { dst: view(odd, 254), ..good }, invalid, "dst.ptr");
            }
            // The destination overlaps its source, but not element by element.
            let shifted = view(a.ptr.cast::<u8>().wrapping_add(8).cast(), 248);
            refused(&Call { dst: shifted, ..good }, invalid, "overlap");
            // An empty layout: nothing is read, so the views are not checked.
            let nothing = layout_of(2, &[0, 3], &[3, 1], 0);
            let empty = Call {
                layouts: [nothing; 3],
                sources: [view(null_mut(), 0).into(); 3],
                dst: view(null_mut(), 0),
                ..good
            };
            let status = (launcher.call)(bench.raw(), &empty);
            assert_eq!(status, Status::Ok, "{}, empty: {}", launcher.name, last_error());
            // The unchanged call succeeds. It writes zeros, or the memory is cleared again.
            assert_eq!((launcher.call)(bench.raw(), &good), Status::Ok, "{}: {}", launcher.name, last_error());
            works!(crk_memset(bench.raw(), dst, 0, 256));
        }
        // Arguments that only one launcher has.
        let (d, l) = (bench.raw(), &bench.layout);
        let f32 = D::F32;
        let elu = sys::crk_unary_op::CRK_UNARY_ELU;
        refuses!(CRK_INVALID_ARGUMENT, "crk_unary_param", crk_unary(d, elu, f32, l, a.into(), dst));
        refuses!(CRK_INVALID_ARGUMENT, "op", crk_unary_param(d, sys::crk_unary_op(1), f32, l, a.into(), dst, 1.0));
        refuses!(CRK_UNSUPPORTED, "uexp", crk_unary(d, sys::crk_unary_op::CRK_UNARY_EXP, D::I64, l, a.into(), dst));
        refuses!(CRK_UNSUPPORTED, "uelu", crk_unary_param(d, elu, D::U8, l, a.into(), dst, 1.0));
        // SAFETY: live arguments.
        let status = unsafe { sys::crk_where(d, f32, f32, l, a.into(), l, b.into(), l, b.into(), dst) };
        assert!(matches!(status, Status::Unsupported | Status::InvalidArgument), "{}", status.name());
        assert!(last_error().contains("ids_dtype"), "{}", last_error());
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy_strided(d, f32, l, a.into(), dst, 59));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy_strided(d, f32, l, a.into(), dst, usize::MAX));
    });
}

#[test]
fn fills_and_rows() {
    on_each_target(|bench| {
        let d = bench.raw();
        let [a, b, _] = bench.views();
        let (f32, bad) = (D::F32, sys::crk_dtype(77));
        let zero = [0u8; 8];
        let value = zero.as_ptr().cast::<c_void>();
        let nowhere = view(null_mut(), 256);
        let odd = view(a.ptr.cast::<u8>().wrapping_add(2).cast(), 250);
        refuses!(CRK_INVALID_ARGUMENT, "dtype 77", crk_fill(d, bad, a, 4, value));
        refuses!(CRK_INVALID_ARGUMENT, "value is NULL", crk_fill(d, f32, a, 4, null()));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_fill(d, f32, nowhere, 4, value));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr", crk_fill(d, f32, odd, 4, value));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_fill(d, f32, a, 65, value));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_fill(d, f32, a, usize::MAX, value));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_fill(d, f32, a, (1 << 62) + 1, value));
        works!(crk_fill(d, f32, view(null_mut(), 0), 0, value));

        let l = &bench.layout;
        refuses!(CRK_INVALID_ARGUMENT, "dtype 77", crk_const_set(d, bad, l, a, value));
        refuses!(CRK_INVALID_ARGUMENT, "value is NULL", crk_const_set(d, f32, l, a, null()));
        refuses!(CRK_INVALID_ARGUMENT, "layout is NULL", crk_const_set(d, f32, null(), a, value));
        refuses!(CRK_INVALID_ARGUMENT, "layout.rank is 9", crk_const_set(d, f32, &layout_of(9, &[], &[], 0), a, value));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_const_set(d, f32, l, nowhere, value));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr", crk_const_set(d, f32, l, odd, value));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_const_set(d, f32, &layout_of(2, &[2, 3], &[62, 1], 0), a, value));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_const_set(d, f32, l, view(a.ptr, 23), value));

        refuses!(CRK_INVALID_ARGUMENT, "dtype 77", crk_copy2d(d, bad, 2, 2, a.into(), 2, 0, b, 2, 0));
        refuses!(CRK_INVALID_ARGUMENT, "src.ptr is NULL", crk_copy2d(d, f32, 2, 2, nowhere.into(), 2, 0, b, 2, 0));
        refuses!(CRK_INVALID_ARGUMENT, "dst.ptr is NULL", crk_copy2d(d, f32, 2, 2, a.into(), 2, 0, nowhere, 2, 0));
        refuses!(CRK_INVALID_ARGUMENT, "dst_stride", crk_copy2d(d, f32, 2, 3, a.into(), 3, 0, b, 2, 0));
        refuses!(CRK_OUT_OF_BOUNDS, "src", crk_copy2d(d, f32, 2, 2, a.into(), 63, 0, b, 2, 0));
        refuses!(CRK_OUT_OF_BOUNDS, "src", crk_copy2d(d, f32, 2, 2, a.into(), 2, 61, b, 2, 0));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy2d(d, f32, 2, 2, a.into(), 2, 0, b, 63, 0));
        refuses!(CRK_OUT_OF_BOUNDS, "dst", crk_copy2d(d, f32, 2, 2, a.into(), 2, 0, b, 2, 61));
        refuses!(
            CRK_INVALID_ARGUMENT,
            "src",
            crk_copy2d(d, f32, 1 << 33, 1 << 33, a.into(), 1 << 33, 0, b, 1 << 33, 0)
        );
        refuses!(CRK_INVALID_ARGUMENT, "src", crk_copy2d(d, f32, 3, 2, a.into(), usize::MAX, 0, b, 2, 0));
        refuses!(CRK_INVALID_ARGUMENT, "overlap", crk_copy2d(d, f32, 2, 2, a.into(), 2, 0, a, 2, 1));
        works!(crk_copy2d(d, f32, 0, 2, nowhere.into(), 2, 0, nowhere, 2, 0));
        works!(crk_copy2d(d, f32, 2, 0, nowhere.into(), 2, 0, nowhere, 2, 0));
    });
}

/// Calls that a capture refuses. The capture continues unharmed.
#[test]
fn during_a_capture() {
    on_each_target(|bench| {
        let d = bench.raw();
        let [a, b, _] = bench.views();
        let mut host = [0u8; 64];
        let (from, to) = (host.as_ptr().cast::<c_void>(), host.as_mut_ptr().cast::<c_void>());
        let (mut ptr, mut graph, mut event) = (null_mut(), null_mut(), null_mut());
        refuses!(CRK_INVALID_ARGUMENT, "graph is NULL", crk_graph_end(d, null_mut()));
        refuses!(CRK_CAPTURE, "", crk_graph_end(d, &mut graph));
        assert!(graph.is_null());
        works!(crk_event_create(d, &mut event));
        works!(crk_graph_begin(d));
        refuses!(CRK_CAPTURE, "", crk_graph_begin(d));
        refuses!(CRK_CAPTURE, "", crk_device_synchronize(d));
        refuses!(CRK_CAPTURE, "", crk_copy_to_device(d, a, from, 8));
        refuses!(CRK_CAPTURE, "", crk_copy_to_host(d, to, a.into(), 8));
        refuses!(CRK_CAPTURE, "", crk_copy_between(d, a, d, b.into(), 8));
        refuses!(CRK_CAPTURE, "", crk_memory_trim(d));
        refuses!(CRK_CAPTURE, "", crk_memory_reserve(d, 64));
        refuses!(CRK_CAPTURE, "crk_memory_reserve", crk_alloc(d, 1 << 40, &mut ptr));
        refuses!(CRK_CAPTURE, "", crk_module_load(d, c"mine".as_ptr(), from, 64));
        refuses!(CRK_CAPTURE, "", crk_module_compile(d, c"mine".as_ptr(), c"source".as_ptr(), null(), 0));
        refuses!(CRK_CAPTURE, "", crk_module_compile_cuda(d, c"mine".as_ptr(), c"source".as_ptr(), null(), 0));
        refuses!(CRK_INVALID_ARGUMENT, "graph is NULL", crk_graph_end(d, null_mut()));
        works!(crk_unary(d, sys::crk_unary_op(0), D::F32, &bench.layout, a.into(), b));
        works!(crk_graph_end(d, &mut graph));
        works!(crk_graph_launch(graph));
        works!(crk_graph_begin(d));
        refuses!(CRK_CAPTURE, "", crk_graph_launch(graph));
        let mut second = null_mut();
        works!(crk_graph_end(d, &mut second));
        // SAFETY: created above; the last calls on them.
        unsafe {
            sys::crk_graph_destroy(second);
            sys::crk_graph_destroy(graph);
            sys::crk_event_destroy(event);
        }
    });
}

/// A handle that is closed while it has memory, events and a capture releases all of them.
#[test]
fn closing_releases() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let mut raw = null_mut();
        works!(crk_device_clone(device.raw(), &mut raw));
        let mut ptr = null_mut();
        for _ in 0..10 {
            works!(crk_alloc(raw, 10_000, &mut ptr));
        }
        works!(crk_memset(raw, view(ptr, 10_000), 7, 10_000));
        works!(crk_graph_begin(raw));
        works!(crk_memset(raw, view(ptr, 10_000), 8, 10_000));
        // SAFETY: the last call on it.
        unsafe { sys::crk_device_close(raw) };
        device.synchronize().expect("the other handle works on");
    }
}

/// Each thread has its own last error, and a success does not change it.
#[test]
fn the_sentence_belongs_to_the_thread() {
    let mut n = 0;
    refuses!(CRK_INVALID_ARGUMENT, "layout is NULL", crk_layout_numel(null(), &mut n));
    let mine = last_error();
    let theirs = std::thread::spawn(|| {
        let before = last_error();
        refuses!(CRK_INVALID_ARGUMENT, "name is NULL", crk_dtype_from_name(null(), &mut D::U8.clone()));
        before
    });
    assert_eq!(theirs.join().expect("the thread"), "", "a new thread has nothing to say");
    assert_eq!(last_error(), mine);
    // SAFETY: static.
    let version = unsafe { CStr::from_ptr(sys::crk_version()) }.to_str().expect("text");
    assert_eq!(version, VERSION);
}
