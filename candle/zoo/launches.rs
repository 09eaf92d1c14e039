//! The launches of a token that models decode, counted over the double of libamdhip64. The table in candle/README.md
//! has them; the trial fails where they differ.
use crate::Run;
use crate::setting::{Flash, Kind, Setting, Steps, VOCABULARY};
use candle_core::{DType, Result, Tensor, quantized::GgmlDType};
use libtest_mimic::{Failed, Trial};
use std::process::Command;

/// If this variable is set, the program counts and prints, in place of its trials. The double's counters belong to the
/// whole process. If it is "names", it prints the kernels too.
const COUNTS: &str = "CANDLE_ROCM_ZOO_COUNTS";

const BF16: Kind = Kind::Float(DType::BF16);
const Q4K: Kind = Kind::Quantized(GgmlDType::Q4K);

/// The models of the table.
const MODELS: &[(&str, Kind)] = &[
    ("llama", BF16),
    ("mistral", BF16),
    ("qwen2", BF16),
    ("qwen3", BF16),
    ("qwen3_moe", BF16),
    ("phi3", BF16),
    ("gemma3", BF16),
    ("quantized_llama", Q4K),
    ("quantized_qwen2", Q4K),
    ("quantized_qwen3", Q4K),
    ("quantized_gemma3", Q4K),
    ("quantized_phi3", Q4K),
];

const LAUNCH: &str = "hipModuleLaunchKernel";

/// Prints the calls of a token behind nine others, in which all memory and all kernels are there.
pub fn of_a_token(setting: &Setting, forward: &mut dyn FnMut(&Tensor, usize) -> Result<Tensor>) -> Result<()> {
    let tokens = setting.ids((1, 10), VOCABULARY)?;
    let part = |at: usize, count: usize| tokens.narrow(1, at, count)?.contiguous();
    forward(&part(0, 7)?, 0)?;
    for at in 7..9 {
        forward(&part(at, 1)?, at)?;
    }
    let last = part(9, 1)?;
    #[cfg(target_os = "linux")]
    {
        candle_rocm_tests::double::launches();
        candle_rocm_tests::double::calls();
        forward(&last, 9)?;
        let calls = candle_rocm_tests::double::calls();
        let of =
            |launch: bool| calls.iter().filter(|(name, _)| (name == LAUNCH) == launch).map(|(_, count)| count).sum();
        let (launches, others): (usize, usize) = (of(true), of(false));
        print!("{launches} | {others} |");
        if std::env::var_os(COUNTS).is_some_and(|value| value == "names") {
            print!("\n{}", candle_rocm_tests::double::launches());
        }
    }
    let _ = last;
    Ok(())
}

/// Counts and prints, if this is the process that does.
pub fn count_if_asked(models: &[(String, Run)]) -> bool {
    if std::env::var_os(COUNTS).is_none() {
        return false;
    }
    let device = candle_rocm_tests::device();
    for (name, kind) in MODELS {
        let run = models.iter().find(|(other, _)| other == name).unwrap_or_else(|| panic!("the zoo has no {name}")).1;
        print!("| {name} | {} | ", kind.name());
        let setting = Setting::new(*kind, &device, Flash::Never, Steps::Counted);
        run(&setting).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!();
    }
    true
}

/// The trial, if the device is the double.
pub fn trial() -> Option<Trial> {
    std::env::var_os("HIP_DOUBLE_ARCH")?;
    Some(Trial::test("launches_of_a_token", || {
        let program = std::env::current_exe().map_err(Failed::from)?;
        let output = Command::new(program).env(COUNTS, "1").output().map_err(Failed::from)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(Failed::from(format!("{text}{}", String::from_utf8_lossy(&output.stderr))));
        }
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
        let readme = std::fs::read_to_string(readme).map_err(Failed::from)?;
        let table: Vec<_> = readme
            .lines()
            .skip_while(|line| *line != "| model | weights | launches | other calls |")
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        if table == text.lines().collect::<Vec<_>>() {
            return Ok(());
        }
        Err(Failed::from(format!("the table of launches in candle/README.md must have these lines:\n{text}")))
    }))
}
