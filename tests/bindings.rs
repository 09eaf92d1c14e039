//! src/bindings.rs against the headers and the C compiler, and the module table against the C core's.
use candle_rocm_sys_tests::support::compiler;
use candle_rocm_sys_tests::support::headers;
use candle_rocm_sys_tests::support::paths::PROJECT;

use candle_rocm_sys::{ALL_IDS, MODULES, sys};
use compiler::{compile, scratch};
use std::ffi::CString;
use std::fmt::Write as _;
use std::path::Path;

/// The bindings begin with a hash of the headers that they were made from. Run `tools/bindings` where this fails.
#[test]
fn were_made_from_these_headers() {
    let hash = headers::text().bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13b)
    });
    let bindings = std::fs::read_to_string(Path::new(PROJECT).join("src/bindings.rs")).expect("the bindings");
    let first = bindings.lines().next().unwrap_or("");
    assert_eq!(first, format!("// include/ fnv1a {hash:032x}"), "src/bindings.rs is stale: run tools/bindings");
}

/// Each short name is its value, for every enum and every value.
#[test]
fn short_names_are_the_values() {
    use candle_rocm_sys::{
        Backend, BinaryOp, CmpOp, CommOp, DType, MmqLayout, PoolOp, Quant, ReduceOp, RopeKind, Status, UnaryOp,
    };
    assert_eq!(UnaryOp::Sqr, sys::crk_unary_op::CRK_UNARY_SQR);
    assert_eq!(UnaryOp::GeluErf, sys::crk_unary_op::CRK_UNARY_GELU_ERF);
    assert_eq!(BinaryOp::Maximum, sys::crk_binary_op::CRK_BINARY_MAXIMUM);
    assert_eq!(CmpOp::Le, sys::crk_cmp_op::CRK_CMP_LE);
    assert_eq!(ReduceOp::Argmax, sys::crk_reduce_op::CRK_REDUCE_ARGMAX);
    assert_eq!(RopeKind::RopeThd, sys::crk_rope_kind::CRK_ROPE_KIND_ROPE_THD);
    assert_eq!(PoolOp::Avg, sys::crk_pool_op::CRK_POOL_AVG);
    assert_eq!(Quant::Q4_K, sys::crk_quant::CRK_QUANT_Q4_K);
    assert_eq!(MmqLayout::D2S6, sys::crk_mmq::CRK_MMQ_D2S6);
    assert_eq!(DType::F8E4M3, sys::crk_dtype::CRK_DTYPE_F8E4M3);
    assert_eq!(Backend::Hip, sys::crk_backend::CRK_BACKEND_HIP);
    assert_eq!(Status::OutOfRange, sys::crk_status::CRK_OUT_OF_RANGE);
    assert_eq!(CommOp::Avg, sys::crk_comm_op::CRK_COMM_OP_AVG);
    let bindings = std::fs::read_to_string(Path::new(PROJECT).join("src/bindings.rs")).expect("the bindings");
    let entries = headers::text().lines().filter(|line| line.starts_with("  XX(")).count();
    let static_entries = 10 + 6; // CRK_STATIC_QUANT_MAP and CRK_STATIC_EXPERT_QUANT_MAP are of no enum
    assert_eq!(bindings.matches(": Self = Self::CRK_").count(), entries - static_entries);
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
            let (name, size) = (stringify!($name), size_of::<sys::$name>());
            writeln!(source, "_Static_assert(sizeof({name}) == {size}, \"{name}\");").unwrap();
            $(
                let (field, offset) = (stringify!($field), std::mem::offset_of!(sys::$name, $field));
                writeln!(source, "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");").unwrap();
            )*
        )*};
    }
    layout! {
        crk_device_info_t {
            struct_bytes, backend, ordinal, name, architecture, wave_size, compute_units, max_block_threads,
            runtime_version, max_grid_threads, memory_bytes, shared_bytes, target, max_block, max_grid, pci_domain,
            pci_bus, pci_device, simd_units, unit_threads, unit_shared_bytes, l2_caches
        }
        crk_view_t { ptr, bytes }
        crk_comm_id_t { bytes }
        crk_const_view_t { ptr, bytes }
        crk_mmq_rows_t { k, row_stride, channel_stride, sample_stride, padded_k, columns, channels, samples }
        crk_memory_stats_t {
            struct_bytes, live_bytes, cached_bytes, live_allocations, driver_allocations, peak_live_bytes,
            retired_bytes, driver_bytes, peak_driver_bytes
        }
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
