//! The table of AMD architectures, kernels/platform/architectures.h: its lines are consistent, the preprocessor reads
//! the same facts, and no other file of the kernels has a list of its own.
use candle_rocm_sys_tests::support::paths::PROJECT;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

#[path = "../build/architectures.rs"]
mod architectures;
use candle_rocm_sys_tests::support::compiler;

use architectures::Architecture;

fn root() -> &'static Path {
    Path::new(PROJECT)
}

#[test]
fn each_line_is_whole() {
    let all = architectures::all();
    let lines = include_str!("../kernels/platform/architectures.h").matches("  XX(").count();
    assert_eq!(all.len(), lines, "a line was not read");
    let (mut names, mut machines) = (HashSet::new(), HashSet::new());
    for architecture in &all {
        let Architecture { name, machine, generic, .. } = architecture;
        assert!(names.insert(*name) && machines.insert(*machine), "{name} is there twice, or its machine");
        assert!(["NONE", "SIGNED", "MIXED"].contains(&architecture.dot4), "{architecture:?}");
        assert!(["NONE", "F16", "BOTH"].contains(&architecture.dot2), "{architecture:?}");
        let matrix = ["NONE", "MFMA1", "MFMA2", "MFMA3", "MFMA4", "WMMA3", "WMMA4"];
        assert!(matrix.contains(&architecture.matrix), "{architecture:?}");
        assert!(["GENERIC", "COMMON", "BOTH", "RARE", "NAMED"].contains(&architecture.built), "{architecture:?}");
        // The words `common` and `all` stand for single architectures.
        assert_eq!(name.ends_with("-generic"), architecture.built == "GENERIC", "{architecture:?}");
        if generic.is_empty() {
            continue;
        }
        // Code for the generic target runs on all its members, so it may use only what each of them has.
        let target = architectures::find(generic).unwrap_or_else(|| panic!("{name}: there is no {generic}"));
        let dot2 = |of: &Architecture| ["NONE", "F16", "BOTH"].iter().position(|item| *item == of.dot2);
        assert!(target.dot4 == "NONE" || target.dot4 == architecture.dot4, "{generic}, {name}: dot4");
        assert!(dot2(&target) <= dot2(architecture), "{generic}, {name}: dot2");
        // CDNA 4 has the products of CDNA 3.
        let matrix = if architecture.matrix == "MFMA4" { "MFMA3" } else { architecture.matrix };
        assert!(["NONE", matrix, architecture.matrix].contains(&target.matrix), "{generic}, {name}: matrix cores");
        assert!(target.simd.registers <= architecture.simd.registers, "{generic}, {name}: registers");
        assert_eq!(target.simd.lanes, architecture.simd.lanes, "{generic}, {name}: lanes");
    }
}

/// The answers of the #if conditions in device code, for each architecture's compiler macro.
#[test]
fn the_preprocessor_reads_the_same() {
    let mut source = String::from("#include \"platform/architectures.h\"\n");
    for architecture in architectures::all() {
        let Architecture { name, simd, dot4, dot2, matrix, .. } = architecture;
        let id = name.replace('-', "_");
        let (lanes, registers) = (simd.lanes, simd.registers);
        writeln!(
            source,
            "#define __{id}__ 1\n\
             #if CRK_ARCH_LANES != {lanes} || CRK_ARCH_REGISTERS != {registers} || CRK_ARCH_DOT4 != CRK_DOT4_{dot4} || \
             CRK_ARCH_DOT2 != CRK_DOT2_{dot2} || CRK_ARCH_MATRIX != CRK_MATRIX_{matrix}\n\
             #error \"{name}\"\n\
             #endif\n\
             #undef __{id}__"
        )
        .unwrap();
    }
    source
        .push_str("#if CRK_ARCH_LANES || CRK_ARCH_DOT4 || CRK_ARCH_DOT2 || CRK_ARCH_MATRIX\n#error \"none\"\n#endif\n");
    let file = compiler::scratch("architectures").join("architectures.c");
    std::fs::write(&file, source).expect("a source");
    let mut command = compiler::compiler(false).to_command();
    compiler::run(command.arg("-I").arg(root().join("kernels")).arg("-E").arg(&file));
}

/// A kernel asks for a capability of an architecture, not for its name. Lists of names would have to be kept in step.
#[test]
fn no_kernel_names_an_architecture() {
    let mut read = 0;
    let mut folders = vec![root().join("kernels")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().expect("a folder") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("architectures.h") {
                continue;
            }
            read += 1;
            let text = std::fs::read_to_string(&path).expect("text");
            let named = text.lines().find(|line| line.contains("__gfx") || line.contains("\"gfx"));
            assert_eq!(named, None, "{} has a list of its own; ask for CRK_ARCH_...", path.display());
        }
    }
    assert!(read > 50, "{read} files");
}

/// docs/building.md lists the architectures for which the words `generic` and `common` stand.
#[test]
fn the_documentation_lists_those_of_each_word() {
    let text = std::fs::read_to_string(root().join("docs/building.md")).expect("the page");
    for (word, mark) in [("generic", "GENERIC"), ("common", "COMMON")] {
        let of_word = architectures::all().into_iter().filter(|arch| [mark, "BOTH"].contains(&arch.built));
        let names: Vec<_> = of_word.map(|architecture| architecture.name).collect();
        assert!(text.contains(&format!("`{word}`: {}.", names.join(", "))), "docs/building.md: {names:?}");
    }
}

/// The default runs on each GPU that the table names, by code for its architecture or for its generic target.
#[test]
fn the_default_covers_each_card() {
    let all = architectures::all();
    let built = |name: &str| all.iter().any(|arch| arch.name == name && ["GENERIC", "BOTH"].contains(&arch.built));
    for architecture in all.iter().filter(|architecture| !architecture.card.is_empty()) {
        assert!(built(architecture.name) || built(architecture.generic), "{architecture:?}");
    }
}
