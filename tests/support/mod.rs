//! Code that the tests share: the devices to test on, guarded device memory, trials.

pub mod alone;
pub mod bounds;
pub mod cases;
pub mod collectives;
pub mod compare;
pub mod compiler;
pub mod cpu_module;
pub mod divisor;
#[cfg(unix)]
pub mod double;
pub mod golden;
pub mod headers;
#[cfg(all(target_os = "linux", feature = "cpu"))]
pub mod hip_double;
pub mod number;
pub mod paths;
pub mod product;
pub mod property;
pub mod quantized;
pub mod quantized_static;
pub mod range;
pub mod reference;
pub mod rows;
#[cfg(unix)]
pub mod sparse;
pub mod sums;
pub mod windows;

use candle_rocm_sys::{Buffer, CmpOp, DType, Device, Layout, ReduceOp, Result, Status, sys};
use libtest_mimic::{Arguments, Trial};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::OnceLock;

/// A device under test.
pub struct Target {
    /// The name as `CANDLE_ROCM_DEVICE` spells it.
    pub name: String,
    pub device: Device,
}

/// Installs the double of libamdhip64 as the HIP runtime, if it can be built here. It runs the CPU's kernels.
fn double() -> Option<&'static str> {
    #[cfg(all(target_os = "linux", feature = "cpu"))]
    {
        hip_double::install("gfx1100");
        // Another number of L2 caches than the CPU has.
        std::env::set_var("HIP_DOUBLE_XCCS", "3");
        Some("hip:0")
    }
    #[cfg(not(all(target_os = "linux", feature = "cpu")))]
    None
}

/// The devices to test on: the one that `CANDLE_ROCM_DEVICE` names, or else the CPU at both wave widths and, through
/// the HIP driver, the double of libamdhip64. It panics if a device cannot be opened or if there is none.
///
/// The first call sets the environment, so every test calls this function before anything that reads the environment.
pub fn targets() -> &'static [Target] {
    static TARGETS: OnceLock<Vec<Target>> = OnceLock::new();
    TARGETS.get_or_init(|| {
        if let Some(name) = named() {
            let device = open(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            return vec![Target { name, device }];
        }
        let names = ["cpu:32", "cpu:64"].into_iter().chain(double());
        let mut targets = Vec::new();
        for name in names {
            match open(name) {
                Ok(device) => targets.push(Target { name: name.into(), device }),
                Err(error) if !cfg!(feature = "cpu") && error.status() == Status::NoRuntime => {}
                Err(error) => panic!("{name}: {error}"),
            }
        }
        assert!(!targets.is_empty(), "no device to test on: CANDLE_ROCM_DEVICE names one, the feature cpu has two");
        targets
    })
}

fn named() -> Option<String> {
    std::env::var("CANDLE_ROCM_DEVICE").ok().filter(|name| !name.is_empty())
}

/// Opens a device by name, with a new handle.
pub fn open(name: &str) -> Result<Device> {
    Device::open_named(name)
}

const GUARD: usize = 256;
/// The bytes around every buffer. No kernel would write these numbers.
const PATTERN: [u8; 5] = [0xa5, 0x3c, 0x96, 0x5a, 0xe7];

fn guard_byte(position: usize) -> u8 {
    PATTERN[position % PATTERN.len()]
}

/// Device memory with guard bytes on both sides.
pub struct Guarded {
    buffer: Buffer,
    front: usize,
    bytes: usize,
}

impl Guarded {
    /// Memory that holds `data`, beginning `misalignment` bytes after a 256-byte boundary.
    pub fn new(device: &Device, data: &[u8], misalignment: usize) -> Result<Guarded> {
        let front = GUARD + misalignment;
        let end = front + data.len();
        let mut image = Vec::with_capacity(end + GUARD);
        image.extend((0..front).map(guard_byte));
        image.extend_from_slice(data);
        image.extend((end..end + GUARD).map(guard_byte));
        Ok(Guarded { buffer: device.upload(&image)?, front, bytes: data.len() })
    }

    /// `bytes` bytes of memory. `fill` gives them their contents: it gets the buffer, and where they begin in it.
    pub fn filled(device: &Device, bytes: usize, fill: impl FnOnce(&Buffer, usize) -> Result<()>) -> Result<Guarded> {
        let memory = Guarded { buffer: device.alloc(GUARD + bytes + GUARD)?, front: GUARD, bytes };
        for guard in memory.guards() {
            memory.buffer.range(guard.clone())?.write(&guard.map(guard_byte).collect::<Vec<u8>>())?;
        }
        fill(&memory.buffer, GUARD)?;
        Ok(memory)
    }

    /// Where the guard bytes are.
    fn guards(&self) -> [Range<usize>; 2] {
        [0..self.front, self.front + self.bytes..self.buffer.bytes()]
    }

    /// Compares the contents with those of memory of the same size. The device does it, because large contents take
    /// long to download. Fails also if a guard byte has changed.
    pub fn equals(&self, expected: &Guarded) -> std::result::Result<(), String> {
        let text = |error: candle_rocm_sys::Error| error.to_string();
        let device = self.buffer.device();
        for guard in self.guards() {
            let mut got = vec![0u8; guard.len()];
            self.buffer.range(guard.clone()).and_then(|view| view.read(&mut got)).map_err(text)?;
            if !got.iter().copied().eq(guard.map(guard_byte)) {
                return Err(format!("a byte outside the buffer of {} bytes was written", self.bytes));
            }
        }
        let inside = |memory: &Guarded| Layout::strided(&[self.bytes], &[1], memory.front);
        let (mine, others) = (inside(self).map_err(text)?, inside(expected).map_err(text)?);
        let (differs, any) = (device.alloc(self.bytes).map_err(text)?, device.alloc(1).map_err(text)?);
        let all = Layout::contiguous(&[self.bytes]).map_err(text)?;
        device
            .cmp(CmpOp::Ne, DType::U8, (&mine, &self.buffer), (&others, &expected.buffer), &differs)
            .and_then(|()| device.reduce(ReduceOp::Max, DType::U8, &all, &differs, &[0], &any))
            .map_err(text)?;
        if any.download::<u8>().map_err(text)? == [0] { Ok(()) } else { Err("the contents differ".into()) }
    }

    pub fn ptr(&self) -> *mut c_void {
        self.buffer.as_ptr().cast::<u8>().wrapping_add(self.front).cast()
    }

    /// The guarded part.
    pub fn view(&self) -> sys::crk_view_t {
        sys::crk_view_t { ptr: self.ptr(), bytes: self.bytes }
    }

    /// Gives it other contents.
    pub fn write(&self, data: &[u8]) -> Result<()> {
        self.buffer.range(self.front..self.front + self.bytes)?.write(data)
    }

    /// Its contents, after all earlier work is done. Fails if a guard byte has changed.
    pub fn read(&self) -> std::result::Result<Vec<u8>, String> {
        let mut image = self.buffer.download::<u8>().map_err(|error| error.to_string())?;
        if let Some(at) = self.guards().into_iter().flatten().find(|&i| image[i] != guard_byte(i)) {
            let at = at as isize - self.front as isize;
            return Err(format!("byte {at} was written, outside the buffer of {} bytes", self.bytes));
        }
        image.truncate(self.front + self.bytes);
        image.drain(..self.front);
        Ok(image)
    }
}

/// Turns the status of a C call that should have succeeded into a result with the library's message.
pub fn succeeded(status: Status) -> std::result::Result<(), String> {
    if status == Status::Ok { Ok(()) } else { Err(format!("{}: {}", status.name(), last_error())) }
}

/// Checks that a C call failed with the status `expected`. The message begins with the function's name and has `word`.
pub fn refused_with(function: &str, word: &str, expected: Status, got: Status) -> std::result::Result<(), String> {
    let sentence = last_error();
    if got != expected || !sentence.starts_with(function) || !sentence.contains(word) {
        return Err(format!("{function}, {word}: {} {sentence:?}, expected {}", got.name(), expected.name()));
    }
    Ok(())
}

/// The message of this thread's last failed call.
pub fn last_error() -> String {
    // SAFETY: never NULL, valid until this thread's next failure.
    unsafe { std::ffi::CStr::from_ptr(sys::crk_last_error()) }.to_string_lossy().into_owned()
}

/// The command line that repeats a trial.
pub fn repeat_line(target: &str, trial: &str, environment: &str) -> String {
    let space = if environment.is_empty() { "" } else { " " };
    format!("repeat: CANDLE_ROCM_DEVICE={target} {environment}{space}cargo test --test suites -- --exact '{trial}'")
}

/// The body of a trial. It receives the device and its own name there.
pub type Body = Box<dyn Fn(&'static Target, &str) -> property::Outcome + Send>;

/// Adds the trial `program/device/name`.
pub fn add_trial(trials: &mut Vec<Trial>, program: &str, target: &'static Target, name: String, body: Body) {
    let trial = format!("{program}/{}/{name}", target.name);
    trials.push(Trial::test(trial, move || body(target, &name).map_err(libtest_mimic::Failed::from)));
}

/// Whether a sample of about one trial in so many has this one. The choice depends on the name alone.
pub fn is_sampled(trial: &Trial, one_in: usize) -> bool {
    cases::Rng(property::seed(trial.name(), 0)).one_in(one_in)
}

/// Runs the trials of a test program and ends the process. `CANDLE_ROCM_SAMPLE=N` runs about one in N of the selected
/// trials, for devices on which all would take hours. The choice depends on the names, so it is the same in every run.
/// The program prints how many trials it left out.
pub fn conclude(arguments: &Arguments, mut trials: Vec<Trial>) -> ! {
    if let Some(text) = std::env::var_os("CANDLE_ROCM_SAMPLE").filter(|_| !arguments.list && !arguments.exact) {
        let text = text.to_string_lossy();
        let one_in = text.parse().unwrap_or(0);
        assert!(one_in > 0, "CANDLE_ROCM_SAMPLE={text} is no number of trials");
        trials.retain(|trial| !arguments.is_filtered_out(trial));
        let all = trials.len();
        trials.retain(|trial| is_sampled(trial, one_in));
        eprintln!("CANDLE_ROCM_SAMPLE={one_in}: {} of {all} trials, {} left out", trials.len(), all - trials.len());
        assert!(!trials.is_empty() || all == 0, "CANDLE_ROCM_SAMPLE={one_in} leaves no trial");
    }
    libtest_mimic::run(arguments, trials).exit()
}

/// As `alone::alone`, with the device under test that `CANDLE_ROCM_DEVICE` names.
pub fn alone_on_targets(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    let device = std::env::var("CANDLE_ROCM_DEVICE").unwrap_or_default();
    alone::alone(test, &[environment, &[("CANDLE_ROCM_DEVICE", &device)]].concat(), body);
}
