//! Runs the suites of kernels on the devices under test: `cargo test --test suites -- FILTER`.
//!
//! `CANDLE_ROCM_SUITES=reduce,norm` selects suites, `CANDLE_ROCM_SAMPLE=N` about one trial in N, `CANDLE_ROCM_DEVICE` a
//! device. `--double` prints the environment in which programs of other builds find the doubles of AMD's libraries.
use candle_rocm_sys_tests::suites::SUITES;
use candle_rocm_sys_tests::support;
use libtest_mimic::Arguments;

/// The names of the selected suites; all without a selection.
fn selected() -> Vec<String> {
    let names = std::env::var("CANDLE_ROCM_SUITES").unwrap_or_default();
    let names: Vec<String> = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    for name in &names {
        let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert!(known.contains(&&**name), "CANDLE_ROCM_SUITES names {name}; the suites are {}", known.join(", "));
    }
    names
}

fn main() {
    #[cfg(all(target_os = "linux", feature = "cpu"))]
    if std::env::args().nth(1).as_deref() == Some("--double") {
        return support::hip_double::print_environment();
    }
    let arguments = Arguments::from_args();
    let selected = selected();
    let suites = SUITES.iter().filter(|suite| selected.is_empty() || selected.iter().any(|name| name == suite.name));
    let targets = support::targets();
    support::conclude(&arguments, suites.flat_map(|suite| suite.trials(targets)).collect());
}
