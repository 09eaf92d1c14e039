//! Errors that come after their call: which operation they name, who gets them, and CANDLE_ROCM_SYNC.
use candle_rocm_sys::{Buffer, DType, Device, Error, GateOp, Layout, Quant, Result, Status, sys};
use candle_rocm_sys_tests::support;
use support::{alone_on_targets, open, targets};

/// A table of four rows, ids of which the second may be out of range, and the selected rows.
struct Lookup {
    table: Buffer,
    ids: Buffer,
    rows: Buffer,
    layouts: [Layout; 2],
}

impl Lookup {
    fn new(device: &Device, id: u32) -> Result<Lookup> {
        Ok(Lookup {
            table: device.upload(&[1f32; 12])?,
            ids: device.upload(&[0, id])?,
            rows: device.alloc(6 * 4)?,
            layouts: [Layout::contiguous(&[4, 3])?, Layout::contiguous(&[2])?],
        })
    }

    /// On the same handle as the lookup's buffers.
    fn run(&self, device: &Device) -> Result<()> {
        let [table, ids] = &self.layouts;
        device.index_select(DType::F32, (table, &self.table), (DType::U32, ids, &self.ids), 0, &self.rows)
    }
}

fn selects(device: &Device, id: u32) -> Result<()> {
    Lookup::new(device, id)?.run(device)
}

#[track_caller]
fn says(result: Result<()>, status: Status, parts: &[&str]) {
    let error: Error = result.expect_err("must fail");
    assert_eq!(error.status(), status, "{error}");
    for part in parts {
        assert!(error.message().contains(part), "{part:?} is not in: {error}");
    }
}

/// The functions of mixtures of experts share kernels, and each has its own name in a report.
#[test]
fn reports_of_mixtures_name_their_function() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let zeros = |bytes: usize| device.upload(&vec![0u8; bytes]).expect("memory");
        let (weights, x, dst) = (zeros(2 * 32 * 18), zeros(2 * 36), zeros(2 * 32 * 4));
        let (floats, tokens) = (zeros(2 * 32 * 4), device.upload(&[0u32, 1]).expect("memory"));
        for (name, experts, tokens_of) in
            [("expert_ids has 7", [7u32, 0], [0u32, 1]), ("sorted_token_ids has 9", [0, 1], [9, 1])]
        {
            tokens.write(&tokens_of).expect("ids");
            let experts = device.upload(&experts).expect("memory");
            let (w, from, to) = (weights.raw_view().into(), x.raw_view().into(), dst.raw_view());
            let (t, e) = (tokens.raw_view().into(), experts.raw_view().into());
            let floats = floats.raw_view().into();
            let (handle, q, f32_, none) = (device.raw(), Quant::Q4_0, DType::F32, sys::crk_view_t::default());
            // SAFETY: live arguments.
            let calls: [(&str, &dyn Fn() -> Status); 5] = unsafe {
                [
                    ("crk_moe_gguf: ", &|| {
                        sys::crk_moe_gguf(handle, q, f32_, 2, 32, 32, 2, 1, w, floats, t, e, none.into(), to)
                    }),
                    // A gate without a kernel of its own: two products, and the gate of them.
                    ("crk_moe_gguf_gate: ", &|| {
                        sys::crk_moe_gguf_gate(handle, GateOp::Relu, q, 2, 32, 32, 2, 1, w, w, from, t, e, to, none)
                    }),
                    ("crk_moe_gguf_columns: ", &|| {
                        sys::crk_moe_gguf_columns(handle, q, 2, 32, 32, 2, 1, w, from, t, e, none.into(), to)
                    }),
                    ("crk_moe_gguf_sum: ", &|| {
                        sys::crk_moe_gguf_sum(handle, q, 2, 32, 32, 2, w, from, t, e, none.into(), to)
                    }),
                    ("crk_moe_gguf_gate: ", &|| {
                        sys::crk_moe_gguf_gate(handle, GateOp::Silu, q, 2, 32, 32, 2, 1, w, w, from, t, e, to, none)
                    }),
                ]
            };
            for (function, call) in calls {
                assert_eq!(call(), Status::Ok, "{function}");
                says(device.synchronize(), Status::OutOfRange, &[function, name]);
            }
        }
    }
}

#[test]
fn a_report_names_the_operation() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let lookup = Lookup::new(&device, 7).expect("memory");
        let before = device.operations().expect("a number");
        lookup.run(&device).expect("the launch itself is fine");
        lookup.rows.fill_bytes(0).expect("a second operation");
        device.copy(&lookup.ids, lookup.table.range(0..8).expect("a range")).expect("a third");
        assert_eq!(device.operations().expect("a number"), before + 3);
        let number = format!("an earlier operation: number {} of the handle; 2 followed it", before + 1);
        let parts = ["crk_index_select: ids has 7, which is out of range", &number, "CANDLE_ROCM_SYNC=1"];
        says(device.synchronize(), Status::OutOfRange, &parts);
        device.synchronize().expect("it is reported once");
    }
}

#[test]
fn reports_are_kept_apart() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let (one, other) = (device.with_own_reports().expect("reports"), device.with_own_reports().expect("reports"));
        assert!(one.same_handle(&other) && one.raw() == device.raw());
        let wrong = Lookup::new(&one, 9).expect("memory");
        wrong.run(&one).expect("a launch");
        selects(&other, 1).expect("a right id");
        other.synchronize().expect("its ids were in range");
        device.synchronize().expect("the handle's own were, too");
        let mine = other.upload(&[1f32; 6]).expect("memory");
        other.copy(&mine, &wrong.rows).expect("the memory is that of the handle");
        assert_eq!(mine.download::<f32>().expect("no report of its own"), [1., 1., 1., 0., 0., 0.]);
        selects(&device, 11).expect("a launch");
        says(wrong.rows.download::<f32>().map(drop), Status::OutOfRange, &["ids has 9,"]);
        one.clone().synchronize().expect("it is reported once");
        says(device.synchronize(), Status::OutOfRange, &["ids has 11,"]);
    }
}

#[test]
fn reports_go_to_whoever_launches_in_a_thread() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let own = device.with_own_reports().expect("reports");
                scope.spawn(move || {
                    for round in 0..20 {
                        let wrong = round % 3 == thread % 3;
                        selects(&own, if wrong { 100 + thread } else { 3 }).expect("a launch");
                        match wrong {
                            true => says(own.synchronize(), Status::OutOfRange, &[&format!("has {},", 100 + thread)]),
                            false => own.synchronize().expect("no report of its own"),
                        }
                    }
                });
            }
        });
        device.synchronize().expect("nothing was reported to the handle's own");
    }
}

#[test]
fn reports_end_with_their_owner() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        for _ in 0..3 {
            let own = device.with_own_reports().expect("reports");
            selects(&own, 5).expect("a launch");
            drop(own);
            // The number is given again.
            device.with_own_reports().expect("reports").synchronize().expect("nobody's report is not this one's");
        }
        // Once all are in use, the handle's own take their place.
        let all: Vec<Device> = (0..70).map(|_| device.with_own_reports().expect("reports")).collect();
        selects(&all[69], 6).expect("a launch");
        all[0].synchronize().expect("not this one's");
        says(device.synchronize(), Status::OutOfRange, &["ids has 6,"]);
        selects(&all[62], 4).expect("a launch");
        device.synchronize().expect("the last that has its own");
        drop(device);
        says(all[62].synchronize(), Status::OutOfRange, &["ids has 4,"]);
    }
}

#[test]
fn numbers_of_no_reports_are_the_handles_own() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        // 9 is a number that another handle may have given, and this one has not.
        for none in [1000, 9] {
            // SAFETY: any number is allowed; the handle is live.
            unsafe {
                assert_eq!(sys::crk_reports_use(none), 0);
                selects(&device, 5).expect("a launch");
                sys::crk_reports_use(0);
                for number in [0, 64, u32::MAX] {
                    sys::crk_reports_destroy(device.raw(), number);
                }
            }
            says(device.synchronize(), Status::OutOfRange, &["ids has 5,"]);
        }
    }
}

#[test]
fn a_replay_reports_the_number_of_its_recording() {
    for target in targets() {
        let device = open(&target.name).expect("a device");
        let own = device.with_own_reports().expect("reports");
        let lookup = Lookup::new(&own, 1).expect("memory");
        lookup.run(&own).expect("a launch");
        let before = device.operations().expect("a number");
        let (graph, ()) = own.capture(|| lookup.run(&own)).expect("a capture");
        lookup.ids.write(&[8u32, 0]).expect("a copy");
        // SAFETY: the lookup lives.
        unsafe { graph.launch() }.expect("a replay");
        device.synchronize().expect("not this one's");
        let number = format!("number {} of the handle; 2 followed", before + 1);
        says(own.synchronize(), Status::OutOfRange, &["ids has 8,", &number]);
    }
}

#[test]
fn with_sync_the_call_itself_fails() {
    let test = "with_sync_the_call_itself_fails";
    alone_on_targets(test, &[("CANDLE_ROCM_SYNC", "1")], || {
        for target in targets() {
            let device = open(&target.name).expect("a device");
            let own = device.with_own_reports().expect("reports");
            for device in [device, own] {
                let lookup = Lookup::new(&device, 7).expect("memory");
                let number = device.operations().expect("a number") + 1;
                let sentence =
                    format!("crk_index_select: ids has 7, which is out of range, in operation {number} of the handle");
                says(lookup.run(&device), Status::OutOfRange, &[&sentence]);
                device.synchronize().expect("it is reported once");
                // A capture does not wait. The launch of the graph does.
                let (graph, ()) = device.capture(|| lookup.run(&device)).expect("a capture");
                // SAFETY: the lookup lives.
                says(unsafe { graph.launch() }, Status::OutOfRange, &["ids has 7,", "an earlier operation"]);
            }
        }
    });
}

#[test]
fn without_sync_the_next_synchronisation_fails() {
    let test = "without_sync_the_next_synchronisation_fails";
    alone_on_targets(test, &[("CANDLE_ROCM_SYNC", "0")], || {
        let device = open(&targets()[0].name).expect("a device");
        selects(&device, 7).expect("a launch");
        says(device.synchronize(), Status::OutOfRange, &["an earlier operation"]);
    });
}

/// Failures of the driver, as a kernel that touches memory out of bounds causes them.
#[cfg(all(target_os = "linux", feature = "cpu"))]
mod failures {
    use super::*;
    use candle_rocm_sys::UnaryOp;
    use candle_rocm_sys_tests::support::hip_double::{Controls, alone};

    fn negates(device: &Device) -> Result<()> {
        let (src, dst) = (device.upload(&[1f32; 8])?, device.alloc(32)?);
        device.unary(UnaryOp::Neg, DType::F32, &Layout::contiguous(&[8])?, &src, &dst)
    }

    fn device() -> Device {
        Device::open(candle_rocm_sys::Backend::Hip, 0).expect("the double opens")
    }

    #[test]
    fn are_those_of_an_earlier_operation() {
        alone("failures::are_those_of_an_earlier_operation", "gfx1100", 6, &[], || {
            let device = device();
            negates(&device).expect("a launch");
            Controls::get().fail("hipStreamSynchronize", 1, 700);
            let parts = ["hipStreamSynchronize", "700", "an earlier operation", "CANDLE_ROCM_SYNC=1 finds it"];
            says(device.synchronize(), Status::Device, &parts);
            // Large copies from the host wait too, and all copies to it.
            let buffer = device.alloc(65_540).expect("memory");
            buffer.write(&[1f32; 8]).expect("a small copy does not wait");
            Controls::get().fail("hipStreamSynchronize", 1, 700);
            says(buffer.write(&[1f32; 16_385]), Status::Device, &parts);
            Controls::get().fail("hipStreamSynchronize", 1, 700);
            says(buffer.download::<f32>().map(drop), Status::Device, &parts);
        });
    }

    /// A call without ids leaves alone what kernels reported to the handle, which is another user's.
    #[test]
    fn leave_the_reports_to_their_user() {
        alone("failures::leave_the_reports_to_their_user", "gfx1100", 6, &[("CANDLE_ROCM_SYNC", "1")], || {
            let device = device();
            let own = device.with_own_reports().expect("reports");
            let lookup = Lookup::new(&device, 7).expect("memory");
            Controls::get().fail("hipStreamSynchronize", 1, 700);
            says(lookup.run(&device), Status::Device, &["700"]);
            negates(&own).expect("no ids");
            says(device.synchronize(), Status::OutOfRange, &["ids has 7,"]);
        });
    }

    #[test]
    fn name_the_kernel_with_sync() {
        alone("failures::name_the_kernel_with_sync", "gfx1100", 6, &[("CANDLE_ROCM_SYNC", "1")], || {
            let device = device();
            let (src, dst) = (device.upload(&[1f32; 8]).expect("memory"), device.alloc(32).expect("memory"));
            let layout = Layout::contiguous(&[8]).expect("a layout");
            let fails = |parts: &[&str], call: &dyn Fn() -> Result<()>| {
                let number = device.operations().expect("a number") + 1;
                Controls::get().fail("hipStreamSynchronize", 1, 700);
                let error = call().expect_err("must fail");
                assert_eq!((error.status(), error.device_code()), (Status::Device, 700), "{error}");
                let number = format!("operation {number} of the handle");
                for part in parts.iter().chain([&number.as_str(), &"700"]) {
                    assert!(error.message().contains(part), "{part:?} is not in: {error}");
                }
            };
            fails(&["uneg"], &|| device.unary(UnaryOp::Neg, DType::F32, &layout, &src, &dst));
            fails(&["crk_memset"], &|| dst.fill_bytes(1));
            fails(&["crk_copy"], &|| device.copy(&dst, &src));
            fails(&["crk_copy_to_host"], &|| dst.download::<f32>().map(drop));
            let (graph, ()) = device.capture(|| dst.fill_bytes(1)).expect("a capture");
            // SAFETY: the memory lives.
            fails(&["crk_graph_launch"], &|| unsafe { graph.launch() });
            device.synchronize().expect("the double has recovered");
        });
    }
}
