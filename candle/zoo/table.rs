//! The results as a table: docs/models.md.
use crate::setting::{FLOATS, FORMATS, Kind};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// The result of a trial.
#[derive(Clone)]
pub enum Cell {
    /// The difference from the reference.
    Differs(f64),
    /// Why Candle's CPU device and the ROCm device refuse the model.
    Refused(String),
}

impl Cell {
    fn of(text: &str) -> Cell {
        text.parse().map_or_else(|_| Cell::Refused(text.to_string()), Cell::Differs)
    }

    fn text(&self) -> String {
        match self {
            Cell::Differs(difference) => format!("{difference:.0e}"),
            Cell::Refused(reason) => reason.replace('|', "/"),
        }
    }
}

/// One architecture in one dtype or format: its difference on the ROCm device and on Candle's CPU device.
#[derive(Clone)]
pub struct Result {
    pub rocm: Cell,
    pub cpu: Option<f64>,
}

/// Results by architecture and dtype or format.
#[derive(Clone, Default)]
pub struct Table {
    rows: BTreeMap<String, BTreeMap<String, Result>>,
}

/// Whether the results go into docs/models.md. `CANDLE_ROCM_MODELS=write` replaces what is there, and `=add` keeps the
/// greater differences.
#[derive(PartialEq)]
pub enum Mode {
    Check,
    Write,
    Add,
}

impl Mode {
    pub fn from_environment() -> std::result::Result<Mode, String> {
        match std::env::var("CANDLE_ROCM_MODELS").as_deref() {
            Err(_) => Ok(Mode::Check),
            Ok("write") => Ok(Mode::Write),
            Ok("add") => Ok(Mode::Add),
            Ok(other) => Err(format!("CANDLE_ROCM_MODELS is {other:?}: expected write or add")),
        }
    }
}

pub fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md"))
}

impl Table {
    /// What docs/models.md says.
    pub fn read() -> std::io::Result<Table> {
        let mut table = Table::default();
        let mut kinds = Vec::new();
        for line in std::fs::read_to_string(path())?.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match cells.as_slice() {
                ["", "architecture", names @ .., ""] => kinds = names.iter().map(|name| name.to_string()).collect(),
                ["", "---", ..] => {}
                ["", name, results @ .., ""] if results.len() == kinds.len() => {
                    for (kind, result) in kinds.iter().zip(results) {
                        let (rocm, cpu) = result.split_once(" (").unwrap_or((result, ""));
                        let cpu = cpu.trim_end_matches(')').parse().ok();
                        table.insert(name, kind, Result { rocm: Cell::of(rocm), cpu });
                    }
                }
                _ => kinds.clear(),
            }
        }
        Ok(table)
    }

    pub fn insert(&mut self, name: &str, kind: &str, result: Result) {
        self.rows.entry(name.to_string()).or_default().insert(kind.to_string(), result);
    }

    pub fn get(&self, name: &str, kind: &str) -> Option<&Result> {
        self.rows.get(name)?.get(kind)
    }

    /// Every pair of an architecture and a dtype or format.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.iter().flat_map(|(name, row)| row.keys().map(|kind| (name.as_str(), kind.as_str())))
    }

    /// Keeps the greater difference of each pair that both have, and takes the pairs that it lacks.
    pub fn add(&mut self, other: &Table) {
        for (name, kind) in other.pairs() {
            if let (None, Some(result)) = (self.get(name, kind), other.get(name, kind)) {
                self.insert(name, kind, result.clone());
            }
        }
        for (name, row) in &mut self.rows {
            for (kind, result) in row {
                if let (Cell::Differs(one), Some(Cell::Differs(two))) =
                    (&mut result.rocm, other.get(name, kind).map(|result| &result.rocm))
                {
                    *one = one.max(*two);
                }
            }
        }
    }

    /// The greatest differences, for the end of a run.
    pub fn greatest(&self) -> String {
        let mut text = String::new();
        for kind in FLOATS.iter().chain(&FORMATS).map(|kind| kind.name()) {
            let of = |row: &BTreeMap<String, Result>| match row.get(&kind)?.rocm {
                Cell::Differs(difference) => Some(difference),
                Cell::Refused(_) => None,
            };
            let each = self.rows.iter().filter_map(|(name, row)| Some((of(row)?, name)));
            if let Some((difference, name)) = each.max_by(|a, b| a.0.total_cmp(&b.0)) {
                let _ = writeln!(text, "{kind}: a difference of {difference:.0e} at most, of {name}");
            }
        }
        text
    }

    fn rows(&self, text: &mut String, kinds: &[Kind]) {
        let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
        let _ = writeln!(text, "| architecture | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
        for (name, row) in self.rows.iter().filter(|(_, row)| row.contains_key(&names[0])) {
            let _ = write!(text, "| {name} |");
            for result in names.iter().filter_map(|name| row.get(name)) {
                let cpu = result.cpu.filter(|cpu| *cpu > 0.0).map(|cpu| format!(" ({cpu:.0e})"));
                let _ = write!(text, " {}{} |", result.rocm.text(), cpu.unwrap_or_default());
            }
            text.push('\n');
        }
    }

    /// The page. `left_out` are architectures without trials, with the reason.
    pub fn page(&self, left_out: &[(&str, &str)]) -> String {
        let mut text = String::from(HEAD);
        self.rows(&mut text, &FLOATS);
        text.push_str(QUANTIZED);
        self.rows(&mut text, &FORMATS);
        text.push_str(LEFT_OUT);
        for (name, reason) in left_out {
            let _ = writeln!(text, "| {name} | {reason} |");
        }
        text
    }
}

const HEAD: &str = "\
# Models

Find a model by the module of candle-transformers 0.11.1 that has it. All models in these tables ran on this backend's
CPU device, at both wave widths, small and with random weights. They do so in every run of `candle/test`, but for the
five large ones named below. [A chat](../candle/README.md#a-chat) says how to run a model of yours.

| a cell has | meaning |
|---|---|
| a number | the model runs in this dtype. The number is its largest difference from Candle's CPU device in f32 with \
the same weights, as a share of the largest output |
| a number in parentheses | the same difference of Candle's CPU device in this dtype |
| a sentence | the error that the model gives in this dtype. Candle's CPU device refuses it too. `rope` is a check \
that Candle's CUDA backend makes |
| `not finite` | some results are infinite or NaN, on Candle's CPU device too. Where that device lacks ops of bf16, \
its results in f16 count |

The trials of an architecture \"with flash attention\" call candle-flash-attn on this backend, and compute without it on
Candle's CPU device. [Fused ops](../candle/README.md#fused-ops) names the models whose attention is one launch.

Five architectures are large in every configuration: convmixer, hiera, resnet with bottlenecks, the CLIP of Stable
Diffusion, and vgg. They run only with `--include-ignored`.

The rule that a difference must meet stands in [candle/zoo/main.rs](../candle/zoo/main.rs). The program that tests it
writes this page:

```sh
export CANDLE_ROCM_DEVICE=cpu:32 CANDLE_ROCM_MODELS=write
cargo test --manifest-path candle/Cargo.toml -p candle-rocm-zoo -- --include-ignored
export CANDLE_ROCM_DEVICE=cpu:64 CANDLE_ROCM_MODELS=add
cargo test --manifest-path candle/Cargo.toml -p candle-rocm-zoo -- --include-ignored
```

## Weights and activations of one dtype
";

const QUANTIZED: &str = "
## Quantized weights
Activations are f32. The reference has the same weights as f32. Rows that are no whole blocks stay f32.

";

const LEFT_OUT: &str = "
## Left out
| module | why |
|---|---|
";
