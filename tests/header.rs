//! The public headers: each compiles alone as C11 and as C++17, with every warning an error. Their functions are in the
//! archive and in the bindings.
use candle_rocm_sys_tests::support::compiler;
use candle_rocm_sys_tests::support::headers;
use candle_rocm_sys_tests::support::paths::{LIBRARY, PROJECT, VERSION};

use candle_rocm_sys::sys;
use compiler::{compile, scratch};
use object::{Object, ObjectSymbol, SymbolScope};
use std::collections::BTreeSet;
use std::path::Path;

/// The functions that a header declares without a macro.
fn written(header: &Path) -> BTreeSet<String> {
    let (mut text, mut rest) = (String::new(), headers::read(header));
    while let Some(start) = rest.find("/*") {
        text.push_str(&rest[..start]);
        let end = rest[start..].find("*/").expect("a comment ends") + start + 2;
        rest = rest[end..].to_owned();
    }
    text.push_str(&rest);
    let (mut lines, mut continued) = (Vec::new(), false);
    for line in text.lines() {
        let directive = continued || line.trim_start().starts_with('#');
        continued = directive && line.trim_end().ends_with('\\');
        // A use of a list, which declares by macro, is skipped.
        if !directive && !line.ends_with("_MAP(XX)") {
            lines.push(line);
        }
    }
    headers::declared(&lines.join("\n"))
}

/// Each header twice, which tests its guard.
#[test]
fn each_compiles_alone_as_c11_and_as_cpp17() {
    let folder = scratch("headers");
    let all = headers::all();
    assert!(all.len() > 10, "only {} headers were found: {all:?}", all.len());
    for header in &all {
        let name = header.strip_prefix(headers::folder()).expect("in the folder").to_string_lossy().replace('\\', "/");
        for (standard, extension) in [("c11", "c"), ("c++17", "cpp")] {
            let source = folder.join(format!("{}.{extension}", name.replace(['/', '.'], "_")));
            let text = format!(
                "#include \"{name}\"\n#include \"{name}\"\nint alone(void);\nint alone(void) {{ return 0; }}\n"
            );
            std::fs::write(&source, text).expect("a source");
            compile(&source, standard);
        }
    }
}

#[test]
fn candle_rocm_h_includes_every_header() {
    let umbrella = headers::read(&headers::folder().join("candle_rocm.h"));
    for header in headers::all() {
        let name = header.strip_prefix(headers::folder()).expect("in the folder").to_string_lossy().replace('\\', "/");
        assert!(
            name == "candle_rocm.h" || umbrella.contains(&format!("#include \"{name}\"\n")),
            "candle_rocm.h does not include {name}"
        );
    }
}

/// candle_rocm.h tells of each struct whether it may grow. Those that may begin with their size.
#[test]
fn candle_rocm_h_lists_every_struct() {
    let umbrella = headers::read(&headers::folder().join("candle_rocm.h")).replace(['\n', '*'], " ");
    let (_, list) = umbrella.split_once("These structs do not change").expect("the list");
    let (stable, rest) = list.split_once("The others").expect("the structs that may grow");
    let (growing, _) = rest.split_once("may grow").expect("an end");
    for text in headers::all().iter().map(|header| headers::read(header)) {
        for definition in text.split("typedef struct ").skip(1) {
            // The others are handles: typedef struct crk_device *crk_device_t.
            let Some((name, fields)) = definition.split_once(" {\n").filter(|(name, _)| !name.contains(' ')) else {
                continue;
            };
            let name = format!("{name}_t");
            let grows = fields.trim_start().starts_with("size_t struct_bytes;");
            assert_eq!((stable.contains(&name), growing.contains(&name)), (!grows, grows), "{name}");
        }
    }
}

/// Headers are installed without the files that their comments name.
#[test]
fn comments_name_files_in_the_sources() {
    for header in headers::all() {
        let text = headers::read(&header).replace("\n *", "");
        for folder in [" docs/", " kernels/", " csrc/", "(docs/", "(kernels/", "(csrc/"] {
            for (at, _) in text.match_indices(folder) {
                let rest: Vec<_> = text[at + 1..].splitn(5, ' ').collect();
                assert!(rest[1..].join(" ").starts_with("in the sources"), "{}: {}", header.display(), rest[0]);
            }
        }
    }
}

#[test]
fn the_version_is_the_package_s() {
    let version = [sys::CRK_VERSION_MAJOR, sys::CRK_VERSION_MINOR, sys::CRK_VERSION_PATCH].map(|n| n.to_string());
    assert_eq!(version.join("."), VERSION, "include/candle_rocm/status.h against Cargo.toml");
    // SAFETY: a static text.
    let library = unsafe { std::ffi::CStr::from_ptr(sys::crk_version()) };
    assert_eq!(library.to_str(), Ok(VERSION));
}

#[test]
fn inline_functions_compile_as_c11_and_as_cpp17() {
    let folder = scratch("header");
    for (standard, extension) in [("c11", "c"), ("c++17", "cpp")] {
        let source = folder.join(format!("alone.{extension}"));
        let text = "#include \"candle_rocm.h\"\n\
                    int alone(void);\n\
                    int alone(void) {\n\
                      crk_arg_t args[4] = {crk_arg_ptr(NULL), crk_arg_u64(1), crk_arg_u32(2),\n\
                                           crk_arg_struct(NULL, 8)};\n\
                      crk_view_t view = {args, sizeof args};\n\
                      const crk_arg_t *first = (const crk_arg_t *)crk_const(view).ptr;\n\
                      return (int)first[3].bytes + CRK_OK + CRK_DTYPE_F8E4M3 + CRK_UNARY_POWF;\n\
                    }\n";
        std::fs::write(&source, text).expect("a source");
        compile(&source, standard);
    }
}

#[test]
fn every_function_is_in_the_archive() {
    let functions = headers::functions();
    assert!(functions.len() > 60, "only {} functions were found: {functions:?}", functions.len());
    for header in headers::all() {
        let written = written(&header);
        let foreign: Vec<_> = written.difference(&functions).collect();
        assert!(foreign.is_empty(), "{}: without the prefix crk_: {foreign:?}", header.display());
        // Every function is exported from a shared library.
        let text = headers::read(&header);
        for name in written {
            let line =
                text.lines().find(|line| line.contains(&format!("{name}(")) && !line.starts_with([' ', '/', '#']));
            assert!(line.is_some_and(|line| line.starts_with("CRK_API ")), "{name} has no CRK_API: {line:?}");
        }
    }
    let name = if cfg!(target_env = "msvc") { "candle_rocm.lib" } else { "libcandle_rocm.a" };
    let archive = std::fs::read(Path::new(LIBRARY).join(name)).expect("the archive");
    let members = object::read::archive::ArchiveFile::parse(&*archive).expect("an archive");
    let (mut defined, mut foreign) = (BTreeSet::new(), BTreeSet::new());
    for member in members.members() {
        let member = member.expect("a member");
        let data = member.data(&*archive).expect("its bytes");
        let Ok(file) = object::File::parse(data) else { continue };
        for symbol in file.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition()) {
            let name = symbol.name().unwrap_or("?");
            let name = if cfg!(target_os = "macos") { name.trim_start_matches('_') } else { name };
            // Functions of the kernels' headers, of which the linker keeps one each. COFF has no hidden symbols.
            let shared = symbol.is_weak() && symbol.scope() == SymbolScope::Linkage;
            if shared || (cfg!(windows) && name.starts_with("_Z")) {
                continue;
            }
            defined.insert(name.to_owned());
            if !name.starts_with("crk_") && !symbol.is_weak() {
                foreign.insert(name.to_owned());
            }
        }
    }
    let missing: Vec<_> = functions.difference(&defined).collect();
    assert!(missing.is_empty(), "declared in the header and not in {name}: {missing:?}");
    // The archive is linked into other people's programs, so its symbols keep to the prefix.
    assert!(foreign.is_empty(), "global symbols without the prefix crk_: {foreign:?}");
    let public: Vec<_> = defined
        .iter()
        .filter(|name| {
            !name.starts_with("crk_priv_") && !name.starts_with("crk_host_module_") && !functions.contains(*name)
        })
        .collect();
    assert!(public.is_empty(), "in the archive under a public name and not in the header: {public:?}");
}

#[test]
fn every_function_is_in_the_bindings() {
    let bindings = std::fs::read_to_string(Path::new(PROJECT).join("src/bindings.rs")).expect("the bindings");
    let missing: Vec<_> =
        headers::functions().into_iter().filter(|name| !bindings.contains(&format!("pub fn {name}("))).collect();
    assert!(missing.is_empty(), "not in src/bindings.rs: {missing:?}");
}

/// A comment before each declaration is its contract.
#[test]
fn every_declaration_has_a_contract() {
    for header in headers::all() {
        let text = headers::read(&header);
        let lines: Vec<&str> = text.lines().collect();
        for name in written(&header) {
            let at = lines
                .iter()
                .position(|line| !line.starts_with([' ', '*', '/', '#']) && line.contains(&format!("{name}(")))
                .unwrap_or_else(|| panic!("{name} is not declared on a line of its own"));
            // The first line of its paragraph: declarations that share a contract follow each other.
            let start = (0..at).rev().find(|&i| lines[i].trim().is_empty()).map_or(0, |i| i + 1);
            assert!(lines[start].starts_with("/*"), "{name} has no comment: {:?}", lines[start]);
        }
    }
}
