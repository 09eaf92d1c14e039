//! Bad values in every field of the call: the status, and the name and the value in the sentence.
use crate::support::Target;
use crate::support::last_error;
use crate::support::number::{BF16, F8, F16, F32, F64, I32, I64, U8, U32};
use crate::support::property::Outcome;
use candle_rocm_sys::{Layout, Status, sys};
use std::cell::RefCell;
use std::collections::LinkedList;
use std::mem::offset_of;
use std::ptr::{null, null_mut};

type Call = sys::crk_attention;
/// A good call's layouts.
#[derive(Clone, Copy)]
struct Layouts {
    q: Layout,
    k: Layout,
    v: Layout,
    dst: Layout,
    slopes: Layout,
    mask: Layout,
    block_table: Layout,
    prefixes: Layout,
}

const NONE: sys::crk_view_t = sys::crk_view_t { ptr: null_mut(), bytes: 0 };

fn of(dims: &[usize]) -> Layout {
    Layout::contiguous(dims).expect("a layout")
}

/// The layout with another number in one of its dims, or in one of its strides.
fn dim(mut layout: Layout, at: usize, size: usize) -> Layout {
    layout.dims[at] = size;
    layout
}

fn stride(mut layout: Layout, at: usize, stride: usize) -> Layout {
    layout.strides[at] = stride;
    layout
}

fn rank(mut layout: Layout, rank: u32) -> Layout {
    layout.rank = rank;
    layout
}

fn at(view: sys::crk_view_t, offset: usize, bytes: usize) -> sys::crk_view_t {
    sys::crk_view_t { ptr: view.ptr.cast::<u8>().wrapping_add(offset).cast(), bytes }
}

struct Refused {
    device: sys::crk_device_t,
    call: Call,
    /// Layouts that calls point to. A list does not move its elements.
    layouts: RefCell<LinkedList<Layout>>,
}

impl Refused {
    fn new(device: sys::crk_device_t, call: Call) -> Refused {
        Refused { device, call, layouts: RefCell::default() }
    }

    /// Keeps a layout until this value is dropped.
    fn keep(&self, layout: Layout) -> *const Layout {
        let mut layouts = self.layouts.borrow_mut();
        layouts.push_back(layout);
        layouts.back().map_or(null(), std::ptr::from_ref)
    }

    fn status(&self, call: &Call) -> Status {
        // SAFETY: the launcher refuses the bad argument before it uses it; the others are live.
        unsafe { sys::crk_attention(self.device, call) }
    }

    /// Spoils a good call, and expects a status and a word of the sentence.
    fn expect(&self, status: Status, word: &str, spoil: impl FnOnce(&mut Call)) -> Outcome {
        let mut call = self.call;
        spoil(&mut call);
        let (got, sentence) = (self.status(&call), last_error());
        if got != status || !sentence.starts_with("crk_attention: ") || !sentence.contains(word) {
            return Err(format!("{word}: {} {sentence:?}, expected {}", got.name(), status.name()));
        }
        Ok(())
    }

    fn invalid(&self, word: &str, spoil: impl FnOnce(&mut Call)) -> Outcome {
        self.expect(Status::InvalidArgument, word, spoil)
    }

    fn works(&self, what: &str, change: impl FnOnce(&mut Call)) -> Outcome {
        let mut call = self.call;
        change(&mut call);
        let got = self.status(&call);
        if got == Status::Ok { Ok(()) } else { Err(format!("{what}: {} {}", got.name(), last_error())) }
    }
}

/// Two sequences, 4 heads, 2 kv heads, 3 queries, 5 keys, 16 and 24 columns of f32; every optional tensor but those of
/// sequences of different lengths.
fn of_a_batch(on: &Refused, l: &Layouts, buffers: [sys::crk_view_t; 5]) -> Outcome {
    let [q, k, _, dst, other] = buffers;
    let (unsupported, bounds) = (Status::Unsupported, Status::OutOfBounds);
    on.works("a good call", |_| ())?;
    // SAFETY: refused before it is used.
    let status = unsafe { sys::crk_attention(on.device, null()) };
    if status != Status::InvalidArgument || last_error() != "crk_attention: call is NULL" {
        return Err(last_error());
    }
    // The first version of the struct ended before `columns`.
    for bytes in [0, 8, offset_of!(Call, columns) - 1, 4097] {
        on.invalid(&format!("call.struct_bytes is {bytes};"), |c| c.struct_bytes = bytes)?;
    }
    on.invalid("dtype 77", |c| c.dtype = sys::crk_dtype(77))?;
    for t in [U8, U32, I64, F64, F8] {
        on.expect(unsupported, t.name, |c| c.dtype = t.dtype)?;
    }
    type Set = fn(&mut Call, *const Layout);
    let tensors: [(&str, Set, Layout); 4] = [
        ("q", |c, l| c.q_layout = l, l.q),
        ("k", |c, l| c.k_layout = l, l.k),
        ("v", |c, l| c.v_layout = l, l.v),
        ("dst", |c, l| c.dst_layout = l, l.dst),
    ];
    for (name, set, layout) in tensors {
        on.invalid(&format!("{name}_layout is NULL"), |c| set(c, null()))?;
        let bad = |layout: Layout, status, word: &str| on.expect(status, word, |c| set(c, &layout));
        bad(rank(layout, 9), Status::InvalidArgument, &format!("{name}_layout.rank is 9"))?;
        bad(rank(layout, 3), Status::InvalidArgument, &format!("{name}_layout.rank is 3"))?;
        for columns in [0, 1, 12, 520] {
            bad(dim(layout, 3, columns), unsupported, &format!("{name}_layout.dims[3] is {columns}"))?;
        }
        for apart in [0, 2] {
            bad(stride(layout, 3, apart), Status::InvalidArgument, &format!("{name}_layout.strides[3] is {apart}"))?;
        }
        bad(stride(layout, 0, usize::MAX), Status::InvalidArgument, &format!("{name}_layout"))?;
        bad(stride(layout, 0, 1 << 40), bounds, name)?;
        let far = Layout { offset: 1 << 40, ..layout };
        bad(far, bounds, name)?;
    }
    on.invalid("k_layout.dims[3] is 24", |c| c.k_layout = &l.v)?;
    on.invalid("k_layout.dims[0] is 1", |c| {
        (c.k_layout, c.v_layout) = (on.keep(dim(l.k, 0, 1)), on.keep(dim(l.v, 0, 1)))
    })?;
    for (at, size) in [(0, 1), (1, 1), (2, 4)] {
        on.invalid(&format!("v_layout.dims[{at}] is {size}"), |c| c.v_layout = on.keep(dim(l.v, at, size)))?;
        on.invalid(&format!("dst_layout.dims[{at}] is {size}"), |c| c.dst_layout = on.keep(dim(l.dst, at, size)))?;
    }
    on.invalid("dst_layout.dims[3] is 16", |c| c.dst_layout = &l.q)?;
    on.invalid("q_layout.dims[1] is 4 heads", |c| {
        (c.k_layout, c.v_layout) = (on.keep(dim(l.k, 1, 3)), on.keep(dim(l.v, 1, 3)))
    })?;
    on.invalid("k_layout.dims[1], 0", |c| {
        (c.k_layout, c.v_layout) = (on.keep(dim(l.k, 1, 0)), on.keep(dim(l.v, 1, 0)))
    })?;
    let many = (1usize << 31, stride(dim(l.k, 2, 1 << 31), 2, 0), stride(dim(l.v, 2, 1 << 31), 2, 0));
    on.invalid("k_layout.dims[2] is 2147483648", |c| (c.k_layout, c.v_layout) = (&many.1, &many.2))?;
    for dim_of in [0, 1, 2] {
        let (q, dst) = (stride(dim(l.q, dim_of, many.0), dim_of, 0), dim(l.dst, dim_of, many.0));
        let word = format!("q_layout.dims[{dim_of}] is 2147483648");
        on.invalid(&word, |c| (c.q_layout, c.dst_layout) = (&q, &dst))?;
    }
    for (at, apart) in [(0, 0), (1, 24), (2, 23), (2, 0)] {
        let word = format!("dst_layout.strides[{at}] is {apart}; elements of dst would share memory");
        on.invalid(&word, |c| c.dst_layout = on.keep(stride(l.dst, at, apart)))?;
    }
    for scale in [f32::NAN, f32::INFINITY] {
        on.invalid("scale is", |c| c.scale = scale)?;
    }
    for softcap in [f32::NAN, f32::INFINITY, -1.0] {
        on.invalid("softcap is", |c| c.softcap = softcap)?;
    }
    // Optional tensors.
    on.invalid("slopes_layout.rank is 1", |c| c.slopes_layout = on.keep(rank(l.slopes, 1)))?;
    on.invalid("slopes_layout.dims[0] is 3", |c| c.slopes_layout = on.keep(dim(l.slopes, 0, 3)))?;
    on.invalid("slopes_layout.dims[1] is 2", |c| c.slopes_layout = on.keep(dim(l.slopes, 1, 2)))?;
    on.expect(bounds, "slopes", |c| c.slopes = at(other, 0, 31).into())?;
    on.invalid("mask_layout.rank is 3", |c| c.mask_layout = on.keep(rank(l.mask, 3)))?;
    for (at, size) in [(0, 1), (1, 2), (2, 4), (3, 4)] {
        on.invalid(&format!("mask_layout.dims[{at}] is {size}"), |c| c.mask_layout = on.keep(dim(l.mask, at, size)))?;
    }
    on.invalid("mask_dtype 77", |c| c.mask_dtype = sys::crk_dtype(77))?;
    for t in [U32, F64, I32, F16, BF16] {
        on.expect(unsupported, &format!("mask_dtype is {}", t.name), |c| c.mask_dtype = t.dtype)?;
    }
    on.expect(bounds, "mask", |c| c.mask = at(other, 0, 4 * 120 - 1).into())?;
    on.expect(bounds, "mask", |c| (c.mask, c.mask_dtype) = (at(other, 0, 119).into(), U8.dtype))?;
    on.invalid("mask.ptr", |c| c.mask = at(other, 2, 4 * 120).into())?;
    on.works("a mask of bytes", |c| (c.mask, c.mask_dtype) = (at(other, 1, 120).into(), U8.dtype))?;
    on.invalid("prefixes_layout.rank is 2", |c| c.prefixes_layout = on.keep(rank(l.prefixes, 2)))?;
    on.invalid("prefixes_layout.dims[0] is 1", |c| c.prefixes_layout = on.keep(dim(l.prefixes, 0, 1)))?;
    on.invalid("prefixes_layout.dims[2] is 3", |c| c.prefixes_layout = on.keep(dim(l.prefixes, 2, 3)))?;
    on.invalid("prefixes_layout is not contiguous", |c| c.prefixes_layout = on.keep(stride(l.prefixes, 0, 7)))?;
    on.expect(bounds, "prefixes", |c| c.prefixes = at(other, 0, 47).into())?;
    on.works("no prefixes", |c| c.prefixes_layout = on.keep(dim(l.prefixes, 1, 0)))?;
    // Numbers that only sequences of different lengths have.
    on.invalid("sequences is 2", |c| c.sequences = 2)?;
    on.invalid("max_queries is 3", |c| c.max_queries = 3)?;
    on.invalid("max_keys is 5", |c| c.max_keys = 5)?;
    on.invalid("block_table_layout needs", |c| c.block_table_layout = &l.block_table)?;
    // Memory.
    type Look = fn(&mut Call, sys::crk_view_t);
    let views: [(&str, Look, usize); 7] = [
        ("q", |c, view| c.q = view.into(), 4 * 384),
        ("k", |c, view| c.k = view.into(), 4 * 320),
        ("v", |c, view| c.v = view.into(), 4 * 480),
        ("dst", |c, view| c.dst = view, 4 * 576),
        ("slopes", |c, view| c.slopes = view.into(), 4 * 8),
        ("prefixes", |c, view| c.prefixes = view.into(), 4 * 12),
        ("lse", |c, view| c.lse = view, 4 * 24),
    ];
    for (name, set, bytes) in views {
        let memory = if name == "dst" || name == "lse" { dst } else { other };
        on.expect(bounds, name, |c| set(c, at(memory, 0, bytes - 1)))?;
        on.invalid(&format!("{name}.ptr is NULL"), |c| set(c, sys::crk_view_t { ptr: null_mut(), bytes }))?;
        on.invalid(&format!("{name}.ptr"), |c| set(c, at(memory, 2, bytes + 2)))?;
        if name != "dst" {
            let written = if name == "lse" { "dst overlaps lse" } else { "dst overlaps" };
            on.invalid(written, |c| set(c, at(dst, 4 * 575, bytes)))?;
        }
        if !["dst", "lse"].contains(&name) {
            on.invalid(&format!("lse overlaps {name}"), |c| set(c, at(c.lse, 92, bytes)))?;
        }
    }
    on.invalid("dst overlaps q", |c| c.dst = at(q, 0, 4 * 576))?;
    on.invalid("dst overlaps k", |c| c.dst = at(k, 0, 4 * 576))?;
    // A newer program.
    #[repr(C)]
    struct Newer {
        call: Call,
        more: u64,
    }
    let mut newer = Newer { call: on.call, more: 0 };
    newer.call.struct_bytes = size_of::<Newer>();
    // SAFETY: live arguments.
    let status = unsafe { sys::crk_attention(on.device, &newer.call) };
    if status != Status::Ok {
        return Err(format!("a newer program: {}", last_error()));
    }
    newer.more = 1 << 8;
    // SAFETY: as above.
    let status = unsafe { sys::crk_attention(on.device, &newer.call) };
    let word = format!("byte {} of call is not 0", size_of::<Call>() + 1);
    if status != unsupported || !last_error().contains(&word) {
        return Err(format!("a newer program's field: {} {}", status.name(), last_error()));
    }
    Ok(())
}

/// 3 sequences, of up to 2 queries and 4 keys, in blocks of 2.
fn of_sequences(on: &Refused, l: &Layouts, other: sys::crk_view_t) -> Outcome {
    let bounds = Status::OutOfBounds;
    on.works("a good call with starts", |_| ())?;
    // By max_queries alone, these would be more blocks than a launch has.
    on.works("more queries than there are", |c| {
        (c.max_queries, c.sequences) = (i32::MAX as usize, 1000);
        c.block_table_layout = on.keep(stride(dim(l.block_table, 0, 1000), 0, 0));
    })?;
    on.invalid("q_layout.dims[0] is 2", |c| {
        (c.q_layout, c.dst_layout) = (on.keep(dim(l.q, 0, 2)), on.keep(dim(l.dst, 0, 2)))
    })?;
    on.invalid("k_layout.dims[0] is 3", |c| c.block_table_layout = null())?;
    for name in ["sequences", "max_queries", "max_keys"] {
        on.invalid(&format!("{name} is 2147483648"), |c| match name {
            "sequences" => c.sequences = 1 << 31,
            "max_queries" => c.max_queries = 1 << 31,
            _ => c.max_keys = 1 << 31,
        })?;
    }
    // Nothing would write dst.
    on.invalid("sequences is 0, but q has 6 tokens", |c| c.sequences = 0)?;
    on.invalid("max_queries is 0, but q has 6 tokens", |c| c.max_queries = 0)?;
    on.works("no queries", |c| {
        (c.q_layout, c.dst_layout) = (on.keep(dim(l.q, 2, 0)), on.keep(dim(l.dst, 2, 0)));
        (c.sequences, c.max_queries, c.block_table_layout) = (0, 0, on.keep(dim(l.block_table, 0, 0)));
    })?;
    for (name, set) in [
        ("q_starts", (|c, view| c.q_starts = view) as fn(&mut Call, sys::crk_const_view_t)),
        ("k_starts", |c, view| c.k_starts = view),
    ] {
        on.expect(bounds, name, |c| set(c, at(other, 0, 15).into()))?;
        on.expect(bounds, name, |c| set(c, NONE.into()))?;
        on.invalid(&format!("{name}.ptr is NULL"), |c| set(c, sys::crk_view_t { ptr: null_mut(), bytes: 16 }.into()))?;
        on.invalid(&format!("{name}.ptr"), |c| set(c, at(other, 2, 16).into()))?;
    }
    on.invalid("block_table_layout.rank is 1", |c| c.block_table_layout = on.keep(rank(l.block_table, 1)))?;
    on.invalid("block_table_layout.dims[0] is 2", |c| c.block_table_layout = on.keep(dim(l.block_table, 0, 2)))?;
    on.invalid("block_table_layout.dims[1] is 1", |c| c.block_table_layout = on.keep(dim(l.block_table, 1, 1)))?;
    on.invalid("max_keys, 5", |c| c.max_keys = 5)?;
    on.invalid("block_table_layout.strides[1] is 2", |c| c.block_table_layout = on.keep(stride(l.block_table, 1, 2)))?;
    on.invalid("k_layout.dims[2]", |c| (c.k_layout, c.v_layout) = (on.keep(dim(l.k, 2, 0)), on.keep(dim(l.v, 2, 0))))?;
    on.expect(bounds, "block_table", |c| c.block_table = at(other, 0, 23).into())?;
    on.invalid("block_table.ptr", |c| c.block_table = at(other, 2, 24).into())?;
    on.invalid("mask_layout.dims[2] is 3", |c| {
        (c.mask_layout, c.mask) = (on.keep(of(&[3, 4, 3, 4])), at(other, 0, 576).into())
    })?;
    on.invalid("mask_layout.dims[3] is 3", |c| {
        (c.mask_layout, c.mask) = (on.keep(of(&[3, 4, 2, 3])), at(other, 0, 288).into())
    })
}

pub fn refused(target: &Target) -> Outcome {
    let error = |error: candle_rocm_sys::Error| error.to_string();
    let buffer = || target.device.upload(&[0u8; 4096]).map_err(error);
    let buffers = [buffer()?, buffer()?, buffer()?, buffer()?, buffer()?, buffer()?];
    let [q, k, v, dst, other, lse] = buffers.each_ref().map(|buffer| buffer.raw_view());
    let batch = Layouts {
        q: of(&[2, 4, 3, 16]),
        k: of(&[2, 2, 5, 16]),
        v: of(&[2, 2, 5, 24]),
        dst: of(&[2, 4, 3, 24]),
        slopes: of(&[2, 4]),
        mask: of(&[2, 4, 3, 5]),
        block_table: of(&[3, 2]),
        prefixes: of(&[2, 3, 2]),
    };
    let call = Call {
        struct_bytes: size_of::<Call>(),
        dtype: F32.dtype,
        q_layout: &batch.q,
        q: q.into(),
        k_layout: &batch.k,
        k: k.into(),
        v_layout: &batch.v,
        v: v.into(),
        dst_layout: &batch.dst,
        dst,
        scale: 1.0,
        left: usize::MAX,
        right: usize::MAX,
        slopes_layout: &batch.slopes,
        slopes: other.into(),
        mask_layout: &batch.mask,
        mask_dtype: F32.dtype,
        mask: other.into(),
        prefixes_layout: &batch.prefixes,
        prefixes: other.into(),
        lse,
        ..Call::default()
    };
    let device = target.device.raw();
    of_a_batch(&Refused::new(device, call), &batch, [q, k, v, dst, other])?;
    // Dst and lse are 0 again, so that a refused call that writes is seen.
    for view in [dst, lse] {
        // SAFETY: live memory.
        crate::support::succeeded(unsafe { sys::crk_memset(device, view, 0, 4096) })?;
    }
    let sequences = Layouts {
        q: of(&[1, 4, 6, 16]),
        k: of(&[3, 2, 2, 16]),
        v: of(&[3, 2, 2, 24]),
        dst: of(&[1, 4, 6, 24]),
        ..batch
    };
    let call = Call {
        q_layout: &sequences.q,
        k_layout: &sequences.k,
        v_layout: &sequences.v,
        dst_layout: &sequences.dst,
        slopes_layout: null(),
        mask_layout: null(),
        prefixes_layout: null(),
        sequences: 3,
        q_starts: other.into(),
        k_starts: other.into(),
        max_queries: 2,
        max_keys: 4,
        block_table_layout: &sequences.block_table,
        block_table: other.into(),
        ..call
    };
    of_sequences(&Refused::new(device, call), &sequences, other)?;
    for buffer in &buffers {
        if buffer.download::<u8>().map_err(error)?.iter().any(|byte| *byte != 0) {
            return Err("a refused call wrote".into());
        }
    }
    Ok(())
}
