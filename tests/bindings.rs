//! src/bindings.rs against the header and against the C compiler, and the module table against the C core's.
#[path = "support/compiler.rs"]
mod compiler;

use candle_rocm_sys::{ALL_IDS, MODULES, sys};
use compiler::{ROOT, compile, scratch};
use std::ffi::CString;
use std::fmt::Write as _;
use std::path::Path;

/// The bindings contain the hash of the header that they were made from. If this test fails, run `tools/bindings`.
#[test]
fn were_made_from_this_header() {
    let read = |name: &str| std::fs::read(Path::new(ROOT).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let hash = read("include/candle_rocm.h")
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let bindings = String::from_utf8(read("src/bindings.rs")).expect("text");
    let first = bindings.lines().next().unwrap_or("");
    assert_eq!(
        first,
        format!("// include/candle_rocm.h fnv1a64 {hash:016x}"),
        "src/bindings.rs is stale: run tools/bindings"
    );
}

/// Rust and C find the same ops by their kernel roots.
#[test]
fn roots_are_of_the_same_ops() {
    macro_rules! agree {
        ($op:ident $roots:ident $lookup:ident) => {
            for root in sys::$roots {
                let (name, mut op) = (CString::new(root).expect("no NUL"), sys::$op(u32::MAX));
                // SAFETY: a string and a place for the answer.
                let status = unsafe { sys::$lookup(name.as_ptr(), &mut op) };
                assert_eq!((status, sys::$op::from_root(root)), (sys::crk_status_t::CRK_OK, Some(op)), "{root}");
            }
            for root in ["", "u", "neg", "fast_summ"] {
                assert_eq!(sys::$op::from_root(root), None, "{root}");
            }
        };
    }
    agree!(crk_unary_op CRK_UNARY_ROOTS crk_unary_op_from_root);
    agree!(crk_binary_op CRK_BINARY_ROOTS crk_binary_op_from_root);
    agree!(crk_cmp_op CRK_CMP_ROOTS crk_cmp_op_from_root);
    agree!(crk_reduce_op CRK_REDUCE_ROOTS crk_reduce_op_from_root);
}

/// The C compiler agrees with the sizes and offsets in Rust.
#[test]
fn structs_are_as_the_c_compiler_lays_them_out() {
    let mut source = String::from("#include \"candle_rocm.h\"\n");
    macro_rules! layout {
        ($($name:ident { $($field:ident),* })*) => {$(
            writeln!(source, "_Static_assert(sizeof({0}) == {1}, \"{0}\");", stringify!($name), size_of::<sys::$name>()).unwrap();
            $(
                let offset = std::mem::offset_of!(sys::$name, $field);
                writeln!(source, "_Static_assert(offsetof({0}, {1}) == {offset}, \"{0}.{1}\");", stringify!($name), stringify!($field)).unwrap();
            )*
        )*};
    }
    layout! {
        crk_device_info_t { backend, ordinal, name, architecture, wave_size, compute_units, max_block_threads, runtime_version, max_grid_threads, memory_bytes, shared_bytes, simd_units, unit_threads, unit_shared_bytes }
        crk_view_t { ptr, bytes }
        crk_memory_stats_t { live_bytes, cached_bytes, live_allocations, driver_allocations, peak_live_bytes, retired_bytes, driver_bytes, peak_driver_bytes }
        crk_image_t { data, bytes }
        crk_param_t { bytes, is_pointer }
        crk_arg_t { data, value, bytes, is_pointer }
        crk_dim3_t { x, y, z }
        crk_layout_t { rank, dims, strides, offset }
        crk_params_t { ptr, entry }
    }
    for (name, size) in
        [("crk_status_t", size_of::<sys::crk_status_t>()), ("crk_dtype_t", size_of::<sys::crk_dtype_t>())]
    {
        writeln!(source, "_Static_assert(sizeof({name}) == {size}, \"{name}\");").unwrap();
    }
    source.push_str("int unused;\n");
    let file = scratch("bindings").join("layout.c");
    std::fs::write(&file, source).expect("a source");
    compile(&file, "c11");
}

/// Rust's modules are the C core's, in the same order, under the same names.
#[test]
fn the_module_table_is_the_core_s() {
    // SAFETY: reads a table.
    assert_eq!(MODULES.len(), unsafe { sys::crk_module_count() });
    for (index, module) in MODULES.iter().enumerate() {
        // SAFETY: in range, so a static string.
        let name = unsafe { std::ffi::CStr::from_ptr(sys::crk_module_name(index)) };
        assert_eq!((module.index(), module.name()), (index, name.to_str().expect("text")));
        // Rust and C have the same image.
        let c_name = std::ffi::CString::new(module.name()).expect("a name");
        let mut image = sys::crk_image_t { data: std::ptr::null(), bytes: 0 };
        // SAFETY: live arguments.
        let status = unsafe { sys::crk_module_image(c_name.as_ptr(), sys::crk_backend::CRK_BACKEND_HIP, &mut image) };
        assert_eq!(status == sys::crk_status::CRK_OK, !module.hsaco().is_empty());
        if status == sys::crk_status::CRK_OK {
            assert_eq!((image.data.cast(), image.bytes), (module.hsaco().as_ptr(), module.hsaco().len()));
        }
    }
    // Candle's come first.
    for (module, id) in MODULES.iter().zip(ALL_IDS) {
        assert_eq!(module.index(), id.module().index());
    }
}
