//! The object file that embeds code objects in a build for Windows (build/coff.rs): read back, and linked into a
//! program.
//!
//! The second trial needs mingw-w64, and Wine where the tests do not run on Windows. Without them it is listed as
//! ignored, with the reason in its name. `.ci/run` has both.
#![allow(dead_code)]

#[path = "../build/cache.rs"]
mod cache;
#[path = "../build/coff.rs"]
mod coff;
#[path = "../build/config.rs"]
mod config;
#[path = "../build/jobs.rs"]
mod jobs;
#[path = "../build/parts.rs"]
mod parts;
#[path = "../build/progress.rs"]
mod progress;

use candle_rocm_sys_tests::support::compiler::{run, scratch};
use libtest_mimic::{Arguments, Trial};
use object::read::File;
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolScope, SymbolSection};
use std::fs;
use std::process::Command;

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const WINE: &str = "wine";

fn main() {
    let unmet = [COMPILER, WINE].into_iter().find(|program| Command::new(program).arg("--version").output().is_err());
    let reason = unmet.map_or_else(String::new, |program| format!(" (left out: no {program})"));
    let trials = vec![
        Trial::test("coff/read_back", || {
            read_back();
            Ok(())
        }),
        Trial::test("coff/machines", || {
            machines();
            Ok(())
        }),
        Trial::test(format!("coff/linked{reason}"), || {
            linked();
            Ok(())
        })
        .with_ignored_flag(unmet.is_some()),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}

/// Items of sizes around the alignment, with long and short names.
fn items() -> Vec<(String, Vec<u8>)> {
    let sizes = [(1, "crk_priv_image_hip_unary"), (16, "image"), (17, "crk_priv_image_hip_binary"), (100_000, "last")];
    sizes.map(|(size, name)| (name.to_owned(), (0..size).map(|i| (i * 7 + size) as u8).collect())).to_vec()
}

fn read_back() {
    let bytes = coff::object("x86_64", &items()).expect("an object");
    let file = File::parse(&*bytes).expect("the crate object reads it");
    assert_eq!(file.architecture(), Architecture::X86_64);
    let sections: Vec<_> = file.sections().collect();
    assert_eq!(sections.len(), 1);
    assert_eq!((sections[0].name(), sections[0].kind()), (Ok(".rdata"), SectionKind::ReadOnlyData));
    assert_eq!((sections[0].align(), sections[0].relocations().count()), (16, 0));
    let data = sections[0].data().expect("the section's bytes");
    let symbols: Vec<_> = file.symbols().collect();
    assert_eq!(symbols.len(), items().len());
    for (symbol, (name, expected)) in symbols.iter().zip(items()) {
        assert_eq!(symbol.name(), Ok(&*name));
        assert_eq!(symbol.section(), SymbolSection::Section(sections[0].index()), "{name}");
        assert_eq!((symbol.scope(), symbol.is_undefined()), (SymbolScope::Linkage, false), "{name}");
        let at = symbol.address() as usize;
        assert_eq!(at % 16, 0, "{name}");
        assert_eq!(data[at..at + expected.len()], expected, "{name}");
    }
    // Without items there is an empty section, which is an object too.
    let none = coff::object("x86_64", &[]).expect("an object");
    assert_eq!(File::parse(&*none).expect("the crate object reads it").symbols().count(), 0);
}

fn machines() {
    let bytes = coff::object("aarch64", &items()).expect("an object");
    assert_eq!(File::parse(&*bytes).expect("an object").architecture(), Architecture::Aarch64);
    let error = coff::object("x86", &items()).expect_err("no 32-bit Windows");
    assert!(error.contains("architecture is x86;") && error.contains("x86_64 and aarch64"), "{error}");
}

/// A C program that adds the items' bytes, each weighted by its place.
fn linked() {
    let folder = scratch("coff");
    let (object, source, program) = (folder.join("images.o"), folder.join("sum.c"), folder.join("sum.exe"));
    fs::write(&object, coff::object("x86_64", &items()).expect("an object")).expect("a file");
    let mut text = String::from("#include <stdint.h>\n#include <stdio.h>\n");
    let mut body = String::new();
    let mut expected = String::new();
    for (name, bytes) in items() {
        text.push_str(&format!("extern const unsigned char {name}[];\n"));
        body.push_str(&format!("  add({name}, {});\n", bytes.len()));
        let sum = bytes.iter().zip(1u64..).map(|(byte, place)| u64::from(*byte) * place).sum::<u64>();
        expected.push_str(&format!("{sum} 0\n"));
    }
    text.push_str(
        "static void add(const unsigned char *bytes, unsigned count) {\n  unsigned long long sum = 0;\n  \
         for (unsigned i = 0; i < count; i++) sum += (unsigned long long)bytes[i] * (i + 1);\n  \
         printf(\"%llu %u\\n\", sum, (unsigned)((uintptr_t)bytes % 16));\n}\n",
    );
    fs::write(&source, format!("{text}int main(void) {{\n{body}  return 0;\n}}\n")).expect("a file");
    run(Command::new(COMPILER).arg("-O1").arg(&source).arg(&object).arg("-o").arg(&program));
    let output = run(Command::new(WINE).arg(&program).env("WINEDEBUG", "-all"));
    assert_eq!(output.replace('\r', ""), expected);
}
