//! A build that takes code objects from a file (build/prebuilt.rs), and what it refuses. The code is made up.
#![allow(dead_code)]
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../build/architectures.rs"]
mod architectures;
#[path = "../build/bundle.rs"]
mod bundle;
#[path = "../build/cache.rs"]
mod cache;
#[path = "../build/config.rs"]
mod config;
#[path = "../build/includes.rs"]
mod includes;
#[path = "../build/jobs.rs"]
mod jobs;
#[path = "../build/kernels.rs"]
mod kernels;
#[path = "../build/pack.rs"]
mod pack;
#[path = "../build/parts.rs"]
mod parts;
#[path = "../build/prebuilt.rs"]
mod prebuilt;
#[path = "../build/program.rs"]
mod program;
#[path = "../build/progress.rs"]
mod progress;
use candle_rocm_sys_tests::support::compiler;
#[path = "../build/toolchain.rs"]
mod toolchain;

use config::Config;
use prebuilt::Object;

const VERSION: &str = "clang driver\nclang version 21.0.0 (made up)\n";

fn modules() -> Vec<String> {
    ["a", "b"].map(str::to_owned).to_vec()
}

/// A checkout with two modules, and a file with their code for these architectures.
fn checkout(test: &str, archs: &[&str]) -> Config {
    let root = compiler::scratch(&format!("prebuilt-{test}"));
    fs::create_dir_all(root.join("kernels")).expect("a folder");
    for (name, text) in [("a.hip", "#include \"c.h\"\n"), ("b.hip", ""), ("c.h", "int c;\n"), ("other.h", "")] {
        fs::write(root.join("kernels").join(name), text).expect("a file");
    }
    let config = Config {
        out_dir: root.join("out"),
        code_objects: Some(root.join("packed")),
        version: "0.1.0".into(),
        rocm: true,
        root,
        ..Config::default()
    };
    fs::create_dir_all(&config.out_dir).expect("a folder");
    let file = prebuilt::encode(&config, &modules(), VERSION, &objects(archs)).expect("a file");
    fs::write(packed(&config), file).expect("a file");
    config
}

fn packed(config: &Config) -> &PathBuf {
    config.code_objects.as_ref().expect("a file")
}

/// The made-up ELF of a module for an architecture.
fn elf(module: &str, arch: &str) -> Vec<u8> {
    format!("\x7fELF of {module} for {arch}").into()
}

fn objects(archs: &[&str]) -> Vec<Object> {
    let mut objects = Vec::new();
    for arch in archs {
        for module in modules() {
            let mut content = elf(&module, arch);
            let bytes = content.len();
            content.resize(bundle::ALIGNMENT, 0);
            let frame = pack::frame(&content).expect("a frame");
            objects.push(Object { module, arch: arch.to_string(), bytes, frame });
        }
    }
    objects
}

/// What a build embeds for a module: all its frames, decompressed.
fn image(config: &Config, module: usize) -> Vec<u8> {
    let images = kernels::build(config, &modules()).unwrap_or_else(|message| panic!("{message}")).hip;
    let path = images[module].as_ref().expect("an image");
    assert!(path.starts_with(&config.out_dir));
    let mut image = Vec::new();
    let mut context = zstd_safe::DCtx::create();
    let packed = fs::read(path).expect("an image");
    let mut rest = &packed[..];
    while !rest.is_empty() {
        let (frame, after) = rest.split_at(zstd_safe::find_frame_compressed_size(rest).expect("a frame"));
        let mut content = vec![0; 1 << 16];
        let bytes = context.decompress(&mut content[..], frame).expect("a whole frame");
        image.extend(&content[..bytes]);
        rest = after;
    }
    image
}

/// The architectures of the made-up ELFs in a module's image.
fn embedded(config: &Config, module: usize, of: &[&str]) -> Vec<String> {
    let image = image(config, module);
    let text = String::from_utf8_lossy(&image);
    of.iter().filter(|arch| text.contains(&format!("for {arch}\0"))).map(|arch| arch.to_string()).collect()
}

/// The error of a build, which is one sentence that has these words.
#[track_caller]
fn refused(config: &Config, words: &[&str]) {
    let message = kernels::build(config, &modules()).err().expect("the file is refused");
    assert!(message.starts_with("CANDLE_ROCM_CODE_OBJECTS=/"), "{message}");
    assert!(!message.contains('\n'), "{message}");
    let file = packed(config).display().to_string();
    for word in words.iter().chain(&[file.as_str(), "expected ", "found ", "; ", "unset "]) {
        assert!(message.contains(word), "'{word}' is not in: {message}");
    }
}

#[test]
fn a_build_takes_the_file_in_place_of_a_compiler() {
    let config = checkout("taken", &["gfx1100", "gfx90a"]);
    for (index, module) in ["a", "b"].into_iter().enumerate() {
        let image = image(&config, index);
        let elves = ["gfx1100", "gfx90a"].map(|arch| elf(module, arch));
        let sizes = [("gfx1100", elves[0].len()), ("gfx90a", elves[1].len())];
        let mut expected = bundle::table(&sizes);
        for elf in elves {
            expected.extend(&elf);
            expected.resize(expected.len().next_multiple_of(bundle::ALIGNMENT), 0);
        }
        assert_eq!(image, expected);
    }
    // The file is the same wherever it is made, and a header that no module includes does not count.
    let other = checkout("taken-elsewhere", &["gfx1100", "gfx90a"]);
    assert_eq!(fs::read(packed(&config)).unwrap(), fs::read(packed(&other)).unwrap());
    fs::write(other.root.join("kernels/other.h"), "int changed;\n").expect("a file");
    image(&other, 0);
    let read = prebuilt::read(&other, &modules(), packed(&other)).expect("the file");
    assert_eq!(read.objects, objects(&["gfx1100", "gfx90a"]));
    assert_eq!(read.compiler, "clang version 21.0.0 (made up)");
}

#[test]
fn a_build_takes_the_architectures_that_are_asked_for() {
    let archs = ["gfx1100", "gfx10-3-generic", "gfx90a"];
    let config = checkout("architectures", &archs);
    let with = |list: &str| Config { rocm_archs: Some(list.into()), ..checkout("architectures", &archs) };
    assert_eq!(embedded(&config, 0, &archs), archs);
    assert_eq!(embedded(&with("gfx90a,gfx1100"), 1, &archs), ["gfx1100", "gfx90a"]);
    assert_eq!(embedded(&with("all"), 0, &archs), archs);
    assert_eq!(embedded(&with("gfx1031,gfx1030"), 0, &archs), ["gfx10-3-generic"]);
    refused(&with("gfx1100,gfx1201"), &["gfx1201", "gfx1100, gfx10-3-generic, gfx90a"]);
    refused(&with("gfx1101"), &["expected code for gfx1101"]);
    let old = checkout("architectures-none", &["gfx803"]);
    refused(&Config { rocm_archs: Some("all".into()), ..old }, &["CANDLE_ROCM_ARCHS=all", "gfx803"]);
}

#[test]
fn a_file_for_another_build_is_refused() {
    let config = || checkout("other", &["gfx1100"]);
    let version = Config { version: "0.2.0".into(), ..config() };
    refused(&version, &["expected version \"0.2.0\", but found \"0.1.0\""]);
    let flags = Config { hipcc_flags: vec!["-DX=1".into()], ..config() };
    refused(&flags, &["expected further_flags \"-DX=1\", but found \"\""]);

    for (name, text) in [("c.h", "int d;\n"), ("b.hip", "int b;\n"), ("a.hip", "")] {
        let config = config();
        fs::write(config.root.join("kernels").join(name), text).expect("a file");
        refused(&config, &["expected sources \"", "tools/pack-code-objects"]);
    }

    let config = config();
    let other_flags = fs::read(packed(&config)).unwrap();
    let mut parts = parts::decode(b"crkhsaco", &other_flags).expect("the file");
    parts[0] = String::from_utf8_lossy(&parts[0]).replace("-O3", "-O1").into();
    fs::write(packed(&config), parts::encode(b"crkhsaco", parts.iter().map(Vec::as_slice))).unwrap();
    refused(&config, &["expected flags \"-std=c++17 -O3", "found \"-std=c++17 -O1"]);

    let missing = prebuilt::encode(&config, &modules(), VERSION, &objects(&["gfx1100"])[..1]).unwrap();
    fs::write(packed(&config), missing).unwrap();
    refused(&config, &["found no b"]);
    fs::write(packed(&config), prebuilt::encode(&config, &modules(), VERSION, &[]).unwrap()).unwrap();
    refused(&config, &["expected code objects, but found none"]);
}

#[test]
fn a_file_that_was_packed_with_flags_serves_builds_without() {
    let mut config = checkout("flags", &["gfx1100"]);
    config.hipcc_flags = vec!["-DX=1".into()];
    let file = prebuilt::encode(&config, &modules(), VERSION, &objects(&["gfx1100"])).expect("a file");
    fs::write(packed(&config), file).expect("a file");
    image(&config, 0);
    config.hipcc_flags.clear();
    image(&config, 0);
}

#[test]
fn a_truncated_a_damaged_or_a_foreign_file_is_refused() {
    let config = checkout("damaged", &["gfx1100"]);
    let whole = fs::read(packed(&config)).expect("the file");
    for bytes in 0..whole.len() {
        let error = parts::decode(b"crkhsaco", &whole[..bytes]).expect_err("a truncated file");
        assert_eq!(error == parts::Damage::Foreign, bytes < 8, "{bytes} bytes");
    }
    for place in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        assert!(parts::decode(b"crkhsaco", &bytes).is_err(), "byte {place}");
    }
    let longer = [&whole[..], b"more"].concat();
    for (content, words) in [
        (&whole[..whole.len() - 1], &["expected a whole file", "cut off"][..]),
        (&whole[..20], &["found 20 bytes"]),
        (&longer, &["cut off or damaged"]),
        (b"", &["found \"\""]),
        (b"\x7fELF\x02\x01\x01\x00 and more", &["found \"\\x7fELF\\x02\\x01\\x01\\x00\""]),
        (b"crkcache", &["found \"crkcache\""]),
    ] {
        fs::write(packed(&config), content).expect("a file");
        refused(&config, words);
    }
    let missing = Config { code_objects: Some(config.root.join("no-file")), ..checkout("damaged", &["gfx1100"]) };
    let message = kernels::build(&missing, &modules()).err().expect("there is no file");
    assert!(message.contains("no-file: ") && message.contains("os error"), "{message}");
}

#[test]
fn this_packages_sources_have_a_hash() {
    let root = Path::new(candle_rocm_sys_tests::support::paths::PROJECT).to_owned();
    let config = Config { root: root.clone(), ..Config::default() };
    let modules = config::modules(&config).expect("modules");
    let file = prebuilt::encode(&config, &modules, VERSION, &[]).expect("every module has its source");
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains("\nsources ") && !text.contains(&*root.to_string_lossy()));
}
