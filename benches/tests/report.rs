//! Runs `candle-rocm report` as a user does, on the CPU device and on the double of libamdhip64.
#![cfg(all(target_os = "linux", feature = "cpu"))]
use candle_rocm_sys_tests::support::hip_double;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program, in an environment without this machine's settings. Its user is alice.
fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candle-rocm"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CANDLE_ROCM_", "HIP_", "HSA_", "ROCR_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.args(words).env("HOME", home()).env("USER", "alice");
    command
}

/// The home folder is where cargo builds, so its path stands in the diagnosis of a double.
fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").to_owned()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// The report on a device: page, chart and figures.
fn report(device: &str, environment: &[(&str, String)], strict: bool) -> (String, String, Value) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(device.replace(':', "_"));
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = program(&["report", "--quick", "--device", device, "--output"]);
    command.arg(&folder).args(strict.then_some("--strict")).envs(environment.iter().cloned());
    let output = command.output().expect("the program");
    assert!(output.status.success(), "{}\n{}", output.status, text(&output));
    assert!(output.stderr.is_empty(), "no terminal, no progress bars: {}", text(&output));
    let names: Vec<String> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("UTF-8"))
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let file = |ending: &str| {
        let name = names.iter().find(|name| name.starts_with("report-") && name.ends_with(ending));
        let name = name.unwrap_or_else(|| panic!("no {ending} among {names:?}"));
        let contents = std::fs::read_to_string(folder.join(name)).expect("text");
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        for private in [home().to_str().expect("UTF-8"), "alice", host.trim()] {
            assert!(private.len() < 4 || !contents.contains(private), "{name} contains {private}");
        }
        contents
    };
    let json = serde_json::from_str(&file(".json")).expect("JSON");
    (file(".md"), file(".svg"), json)
}

/// Every section is there, and nothing failed.
fn is_whole((page, chart, json): &(String, String, Value)) {
    assert_eq!(json["schema"], 1);
    for section in ["checks", "copies", "launches", "replays", "ops", "llama"] {
        assert!(!json[section]["done"].is_null(), "{section}: {}", json[section]);
    }
    let suites = json["checks"]["done"].as_array().expect("a list");
    let sum = |key: &str| suites.iter().map(|suite| suite[key].as_u64().expect("a number")).sum::<u64>();
    assert!(sum("trials") > 1000 && sum("run") >= 20, "{} of {} trials", sum("run"), sum("trials"));
    for suite in suites {
        assert_eq!(suite["failed"].as_array().map(Vec::len), Some(0), "{suite}");
    }
    for name in ["golden", "properties", "ffi", "matmul"] {
        assert!(suites.iter().any(|suite| suite["name"] == name), "no suite {name}");
    }
    let ops = &json["ops"]["done"];
    assert_eq!(ops["failures"].as_array().map(Vec::len), Some(0), "{}", ops["failures"]);
    let rows = ops["rows"].as_array().expect("a list");
    for family in ["elementwise", "rows", "indexing", "windows", "images", "quantized", "attention"] {
        assert!(rows.iter().any(|row| row["family"] == family), "no row of {family}");
    }
    let above_zero = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
    assert!(above_zero(&json["copies"]["done"]["device_to_device_gb_per_s"]), "{}", json["copies"]);
    assert!(above_zero(&json["launches"]["done"]["host_us"]), "{}", json["launches"]);
    let llama = &json["llama"]["done"];
    assert!(
        above_zero(&llama["speed"]["decode_tokens_per_s"]) && llama["speed"]["decode_in_a_graph"] == true,
        "{llama}"
    );
    for part in ["Diagnosis", "Checks", "Copies and launches", "Ops", "A small Llama", "What to do with this report"] {
        assert!(page.contains(&format!("\n## {part}\n")), "no {part} in\n{page}");
    }
    assert!(!page.to_lowercase().contains("failed"), "{page}");
    let chart = roxmltree::Document::parse(chart).expect("a well-formed chart");
    assert_eq!(chart.root_element().tag_name().name(), "svg");
    assert!(chart.descendants().any(|node| node.text().is_some_and(|text| text.contains("own copy speed"))));
}

#[test]
fn reports_on_the_cpu() {
    let all = report("cpu:32", &[], true);
    is_whole(&all);
    assert_eq!(all.2["card"]["backend"], "cpu");
}

#[test]
fn reports_on_an_amd_gpu() {
    let all = report("hip:0", &hip_double::environment("gfx1100", 6), false);
    is_whole(&all);
    let card = &all.2["card"];
    assert_eq!((&card["backend"], &card["architecture"]), (&"hip".into(), &"gfx1100".into()));
    assert!(all.0.contains("gfx1100: not run on hardware yet, please send a report"), "{}", all.0);
    assert!(all.0.contains("~/"), "the path of the double, without the home folder: {}", all.0);
}

/// The double is no card that the program knows, and launches fail.
#[test]
fn strict_fails_where_something_is_wrong() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join("strict");
    let run = |strict: bool| {
        let mut command = program(&["report", "--quick", "--device", "hip:0", "--output"]);
        command.arg(&folder).args(strict.then_some("--strict")).envs(hip_double::environment("gfx1100", 6));
        command.env("HIP_DOUBLE_FAIL", "hipModuleLaunchKernel:0=1").output().expect("the program")
    };
    let output = run(true);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("is unknown: add a line"), "{}", text(&output));
    assert!(text(&output).contains("llama: "), "{}", text(&output));
    assert!(text(&output).contains("check golden/hip:0/"), "{}", text(&output));
    let output = run(false);
    assert!(output.status.success(), "without --strict: {}", text(&output));
}

/// A build for GPUs on a machine without one does not report on the CPU.
#[test]
fn a_gpu_that_is_missing_is_an_error() {
    let output = program(&["report", "--quick"])
        .env("CANDLE_ROCM_HIP_LIBRARY", "/none/libamdhip64.so")
        .env("CANDLE_ROCM_CUDA_LIBRARY", "/none/libcuda.so")
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("the program");
    if cfg!(feature = "rocm") {
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("problem  hip_runtime"), "{}", text(&output));
    } else {
        assert!(output.status.success(), "{}", text(&output));
    }
}

#[test]
fn devices_are_listed_with_the_diagnosis() {
    let output = program(&["devices"]).envs(hip_double::environment("gfx1100", 6)).output().expect("the program");
    let text = text(&output);
    assert!(output.status.success() && text.starts_with("hip:0 "), "{text}");
    assert!(text.contains("\ncpu:64 ") && text.contains("ok       hip_devices"), "{text}");
}

#[test]
fn unknown_words_end_with_the_help() {
    for words in [&["reports"][..], &["report", "--fast"], &[], &["devices", "--quick"]] {
        let output = program(words).output().expect("the program");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(text(&output).contains("usage: candle-rocm report"), "{words:?}: {}", text(&output));
    }
    assert!(program(&["--help"]).output().expect("the program").status.success());
}
