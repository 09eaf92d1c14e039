//! The zoo: architectures of candle-transformers, small and with random weights, on a ROCm device beside Candle's CPU
//! device. Every pair of an architecture and a dtype, or a format of quantized weights, has a trial.
//!
//! The rule of a trial. The reference is Candle's CPU device in f32, with the same weights: those that f16 and bf16
//! represent, or the quantized ones as floats. A difference is the greatest of any element from the reference, as a
//! share of the greatest magnitude in its tensor. An architecture's sensitivity is the difference of Candle's CPU
//! device in f16 or bf16, in roundoffs of that dtype. In a dtype, the ROCm device's difference may be `SLACK` times the
//! sensitivity times the dtype's roundoff, for rounding in another order. For quantized weights, it may be `SLACK`
//! times the CPU device's own difference, whose activations are rounded too. It may be neither more than `MOST`, nor
//! more than `SLACK` times the number of docs/models.md, which is closer where a sensitivity is large. In f32 and q4_0,
//! decoders also read their prompt in two parts.
//!
//! Every architecture runs in f32 and with quantized weights. One that Candle's CPU device refuses in f16 or bf16 must
//! run on the ROCm device, or be refused for the same reason or by Candle's own checks. docs/models.md has the
//! differences and the reasons. The trial `models.md` fails if the page does not have the zoo's models.
use candle_core::{DType, Device, Result, Tensor, quantized::GgmlDType};
use candle_rocm_tests::device;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

mod audio;
mod diffusion;
mod encoders;
mod launches;
mod multimodal;
mod quantized;
mod sampling;
mod setting;
mod states;
mod table;
mod text;
mod vision;
mod weights;

use setting::{Flash, Kind, Setting, Steps};
use table::{Cell, Mode, Table};

/// How much less exact than Candle's CPU device the ROCm device may be.
const SLACK: f64 = 4.0;
/// The least sensitivity, in roundoffs, in f32 and in the 16-bit types: a model's may be small by chance, and some
/// models compute in f32 in every dtype.
const LEAST: [f64; 2] = [64.0, 8.0];
/// No difference of more is allowed: outputs of 0 alone would have a difference of 1.
const MOST: f64 = 0.5;

/// What a model gives.
type Outputs = std::result::Result<Vec<Vec<f64>>, String>;
type Run = fn(&Setting) -> Result<Vec<Tensor>>;

/// One architecture, and what Candle's CPU device gave so far.
struct Model {
    run: Run,
    flash: Flash,
    cpu: HashMap<Kind, OnceLock<Outputs>>,
}

impl Model {
    fn run(&self, kind: Kind, device: &Device) -> Outputs {
        self.run_in(kind, device, Steps::Whole).0
    }

    /// The outputs, and whether the model is a decoder.
    fn run_in(&self, kind: Kind, device: &Device, steps: Steps) -> (Outputs, bool) {
        let setting = Setting::new(kind, device, self.flash, steps);
        let outputs = (self.run)(&setting);
        let read = |x: &Tensor| x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
        let outputs = outputs.and_then(|outputs| outputs.iter().map(read).collect());
        // The rest of the lines is a backtrace.
        let first_line = |error: candle_core::Error| error.to_string().lines().next().unwrap_or_default().to_string();
        (outputs.map_err(first_line), setting.decodes.get())
    }

    /// An error if the model with flash attention does not call it. Candle's CPU device refuses the call.
    fn check_flash(&self, kind: Kind) -> std::result::Result<(), String> {
        if self.flash == Flash::Never {
            return Ok(());
        }
        match (self.run)(&Setting::new(kind, &Device::Cpu, Flash::Always, Steps::Whole)) {
            Err(error) if error.to_string().starts_with("no cpu support for flash-attn") => Ok(()),
            Err(error) => Err(format!("Candle's CPU device does not refuse flash attention: {error}")),
            Ok(_) => Err("the model does not call flash attention".to_string()),
        }
    }

    fn on_cpu(&self, kind: Kind) -> &Outputs {
        self.cpu[&kind].get_or_init(|| self.run(kind, &Device::Cpu))
    }

    /// The difference of these outputs from the reference.
    fn difference(&self, kind: Kind, outputs: &[Vec<f64>]) -> std::result::Result<f64, String> {
        let reference = self.on_cpu(kind.reference()).as_ref().map_err(|error| format!("no reference: {error}"))?;
        Self::difference_from(reference, outputs)
    }

    fn difference_from(reference: &[Vec<f64>], outputs: &[Vec<f64>]) -> std::result::Result<f64, String> {
        if reference.len() != outputs.len() {
            return Err(format!("{} outputs, and {} of the reference", outputs.len(), reference.len()));
        }
        let mut greatest = 0f64;
        for (of, (wanted, got)) in reference.iter().zip(outputs).enumerate() {
            if wanted.len() != got.len() {
                return Err(format!("output {of} has {} elements, and {} in the reference", got.len(), wanted.len()));
            }
            let magnitude = wanted.iter().fold(0f64, |most, x| most.max(x.abs()));
            if !(magnitude.is_finite() && magnitude > 0.0 && wanted.iter().all(|x| x.is_finite())) {
                return Err(format!("the reference's output {of} has a magnitude of {magnitude}"));
            }
            for (at, (wanted, got)) in wanted.iter().zip(got).enumerate() {
                let difference = (wanted - got).abs() / magnitude;
                if !difference.is_finite() {
                    return Err(format!("element {at} of output {of} is {got}, in the reference {wanted}"));
                }
                greatest = greatest.max(difference);
            }
        }
        Ok(greatest)
    }

    /// Compares a decoder with the reference where the prompt comes in two parts. Candle's CPU device refuses some
    /// models then, because their masks do not fit; this function skips them.
    fn in_parts(&self, kind: Kind, device: &Device) -> std::result::Result<(), String> {
        let (Ok(reference), true) = self.run_in(kind.reference(), &Device::Cpu, Steps::InParts) else { return Ok(()) };
        let outputs = self.run_in(kind, device, Steps::InParts).0?;
        let (difference, allowed) = (Self::difference_from(&reference, &outputs)?, self.allowed(kind)?);
        if difference <= allowed {
            return Ok(());
        }
        Err(format!("a prompt in two parts: a difference of {difference:.1e}, allowed {allowed:.1e}"))
    }

    /// The difference of Candle's CPU device from the reference.
    fn of_cpu(&self, kind: Kind) -> std::result::Result<f64, String> {
        self.difference(kind, self.on_cpu(kind).as_ref().map_err(Clone::clone)?)
    }

    /// Whether Candle's CPU device, too, gives infinities or NaN in this dtype, or in f16 if it lacks ops of this one.
    fn overflows_on_cpu(&self, kind: Kind) -> bool {
        let Ok(outputs) = self.on_cpu(kind) else { return kind != Kind::F16 && self.overflows_on_cpu(Kind::F16) };
        kind != kind.reference() && !is_finite(outputs)
    }

    /// The difference that a ROCm device may have.
    fn allowed(&self, kind: Kind) -> std::result::Result<f64, String> {
        let Some(roundoff) = kind.roundoff() else { return Ok(MOST.min(SLACK * self.of_cpu(kind)?)) };
        let mut sensitivity = LEAST[usize::from(kind != kind.reference())];
        for kind in self.cpu.keys() {
            if let (Some(roundoff), Ok(difference)) = (kind.roundoff(), self.of_cpu(*kind)) {
                sensitivity = sensitivity.max(difference / roundoff);
            }
        }
        Ok(MOST.min(SLACK * sensitivity * roundoff))
    }

    /// The difference of the device, or the reason for which Candle's CPU device and this one refuse the model.
    fn beside_cpu(&self, kind: Kind, device: &Device) -> std::result::Result<Cell, String> {
        self.on_cpu(kind.reference()).as_ref().map_err(|error| format!("no reference: {error}"))?;
        match (self.on_cpu(kind), self.run(kind, device)) {
            // The CPU device lacks some ops of a dtype, and then refuses earlier than the checks of the model.
            (Err(cpu), Err(rocm)) if *cpu == rocm || !is_of_backend(&rocm) => Ok(Cell::Refused(rocm)),
            (Err(cpu), Err(rocm)) => Err(format!("{rocm}; Candle's CPU device: {cpu}")),
            (Ok(_), Err(rocm)) => Err(rocm),
            (_, Ok(outputs)) if !is_finite(&outputs) && self.overflows_on_cpu(kind) => {
                Ok(Cell::Refused("not finite".to_string()))
            }
            (_, Ok(outputs)) => {
                let (difference, allowed) = (self.difference(kind, &outputs)?, self.allowed(kind)?);
                if difference <= allowed {
                    return Ok(Cell::Differs(difference));
                }
                let cpu = self.of_cpu(kind);
                Err(format!("a difference of {difference:.1e}, allowed {allowed:.1e}; Candle's CPU device: {cpu:?}"))
            }
        }
    }
}

fn is_finite(outputs: &[Vec<f64>]) -> bool {
    outputs.iter().flatten().all(|x| x.is_finite())
}

/// Whether a reason is this backend's, and not Candle's or the model's.
fn is_of_backend(reason: &str) -> bool {
    reason.contains("CRK_") || reason.contains("rocm")
}

thread_local! {
    /// The device of the trials that a thread runs, with a stream of its own.
    static DEVICE: Device = device();
}

/// The trials and their results.
struct Zoo {
    trials: Vec<Trial>,
    /// Every architecture without flash attention.
    models: Vec<(String, Run)>,
    results: Arc<Mutex<Table>>,
    /// What docs/models.md says, unless it is written.
    page: Option<Arc<Table>>,
}

impl Zoo {
    /// Adds an architecture in f32, f16 and bf16.
    fn add(&mut self, name: &'static str, run: Run) {
        self.with(name.into(), &setting::FLOATS, false, Flash::Never, run);
    }

    /// The same for an architecture that can use candle-flash-attn: with and without it.
    fn flash(&mut self, name: &'static str, run: Run) {
        self.add(name, run);
        self.with(format!("{name} with flash attention"), &setting::FLOATS, false, Flash::OnGpus, run);
    }

    /// The same for an architecture that is large in every configuration. On the CPU it takes minutes, so its trials
    /// run only with `--include-ignored`.
    fn slow(&mut self, name: &'static str, run: Run) {
        self.with(name.into(), &setting::FLOATS, true, Flash::Never, run);
    }

    /// Adds an architecture of quantized weights.
    fn quantized(&mut self, name: &'static str, run: Run) {
        self.with(name.into(), &setting::FORMATS, false, Flash::Never, run);
    }

    fn with(&mut self, name: String, kinds: &'static [Kind], is_ignored: bool, flash: Flash, run: Run) {
        if flash == Flash::Never {
            self.models.push((name.clone(), run));
        }
        let kinds_there = kinds.iter().flat_map(|kind| [*kind, kind.reference()]);
        let model = Arc::new(Model { run, flash, cpu: kinds_there.map(|kind| (kind, OnceLock::new())).collect() });
        for &kind in kinds {
            let (model, results) = (model.clone(), self.results.clone());
            let (page, kind_name) = (self.page.clone(), kind.name());
            let (name, trial_name) = (name.clone(), format!("{name}_{kind_name}"));
            let run = move || {
                model.check_flash(kind.reference()).map_err(Failed::from)?;
                let rocm = DEVICE.with(|device| model.beside_cpu(kind, device)).map_err(Failed::from)?;
                if matches!(kind, Kind::Float(DType::F32) | Kind::Quantized(GgmlDType::Q4_0)) {
                    DEVICE.with(|device| model.in_parts(kind, device)).map_err(Failed::from)?;
                }
                if let Some(there) = page.as_ref().and_then(|page| page.get(&name, &kind_name)) {
                    agree(&rocm, &there.rocm).map_err(Failed::from)?;
                }
                let result = table::Result { rocm, cpu: model.of_cpu(kind).ok() };
                results.lock().map_err(|_| "a trial panicked")?.insert(&name, &kind_name, result);
                Ok(())
            };
            self.trials.push(Trial::test(trial_name, run).with_ignored_flag(is_ignored));
        }
    }

    /// Adds the trial that docs/models.md has the zoo's models, and no others.
    fn add_page(&mut self) {
        let Some(page) = self.page.clone() else { return };
        let trials: BTreeSet<String> = self.trials.iter().map(|trial| trial.name().to_string()).collect();
        let run = move || {
            let there: BTreeSet<String> = page.pairs().map(|(name, kind)| format!("{name}_{kind}")).collect();
            let differ: Vec<_> = trials.symmetric_difference(&there).collect();
            if differ.is_empty() {
                return Ok(());
            }
            Err(Failed::from(format!("docs/models.md lacks some of the zoo, or has others: {differ:?}; write it anew")))
        };
        self.trials.push(Trial::test("models.md", run));
    }
}

/// An error if the difference is much greater than the page's, if one is a number and the other a reason, or if the
/// reasons differ.
fn agree(now: &Cell, there: &Cell) -> std::result::Result<(), String> {
    match (now, there) {
        (Cell::Differs(now), Cell::Differs(there)) if *now <= SLACK * there => Ok(()),
        (Cell::Differs(now), Cell::Differs(there)) => {
            Err(format!("a difference of {now:.1e}, {there:.0e} in docs/models.md"))
        }
        (Cell::Refused(now), Cell::Refused(there)) if now.replace('|', "/") == *there => Ok(()),
        (Cell::Refused(reason), _) => Err(format!("{reason}: docs/models.md does not say so")),
        (Cell::Differs(_), Cell::Refused(reason)) => Err(format!("this runs; docs/models.md says: {reason}")),
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let mode = Mode::from_environment().unwrap_or_else(|error| panic!("{error}"));
    let page = Table::read();
    let mut zoo = Zoo { trials: Vec::new(), models: Vec::new(), results: Arc::default(), page: None };
    if mode == Mode::Check {
        let page = page.as_ref().unwrap_or_else(|error| panic!("{}: {error}", table::path().display()));
        zoo.page = Some(Arc::new(page.clone()));
    }
    text::add(&mut zoo);
    encoders::add(&mut zoo);
    vision::add(&mut zoo);
    audio::add(&mut zoo);
    states::add(&mut zoo);
    diffusion::add(&mut zoo);
    multimodal::add(&mut zoo);
    quantized::add(&mut zoo);
    if launches::count_if_asked(&zoo.models) {
        return;
    }
    zoo.add_page();
    zoo.trials.extend(launches::trial());
    zoo.trials.push(sampling::trial());
    // All kinds of one model need the same reference. A thread that waited for it would do nothing.
    zoo.trials.sort_by_key(|trial| {
        setting::FLOATS
            .iter()
            .chain(&setting::FORMATS)
            .position(|kind| trial.name().ends_with(&format!("_{}", kind.name())))
    });
    let conclusion = libtest_mimic::run(&arguments, zoo.trials);
    let mut results = zoo.results.lock().expect("every trial has ended");
    print!("{}", results.greatest());
    if mode != Mode::Check {
        if let (Mode::Add, Ok(page)) = (&mode, &page) {
            results.add(page);
        }
        std::fs::write(table::path(), results.page(LEFT_OUT)).expect("docs/models.md can be written");
    }
    conclusion.exit();
}

/// Modules of candle-transformers' models without a trial.
const LEFT_OUT: &[(&str, &str)] = &[
    ("csm", "its configurations are of more than a billion weights together"),
    ("llama2_c_weights, with_tracing", "no models"),
    ("mpt, quantized_mpt, yi", "the configurations that a program can make are of 3 billion weights and more"),
    ("nvembed_v2", "always 7 billion weights"),
    ("quantized_qwen3_moe", "Candle's CPU device has no quantized experts; candle/tests/moe.rs tests them"),
    ("segment_anything::tiny_vit", "images of 1024 x 1024"),
    ("persimmon", "a configuration without a model"),
    ("wuerstchen::diffnext", "always some 700 million weights"),
];
