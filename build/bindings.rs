//! The feature `bindgen`: OUT_DIR/bindings.rs in place of the committed src/bindings.rs.

use crate::config::{Config, Result};

#[cfg(not(feature = "bindgen"))]
pub fn build(_config: &Config) -> Result<()> {
    Ok(())
}

#[cfg(feature = "bindgen")]
pub fn build(config: &Config) -> Result<()> {
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    let header = config.root.join("include/candle_rocm.h");
    let text = crate::config::read(&header)?;
    let mut hash = crate::jobs::Fnv::new();
    hash.bytes(text.as_bytes());

    let mut version = config.rust_version.split('.').skip(1).map(|n| n.parse().unwrap_or(0));
    let (minor, patch) = (version.next().unwrap_or(0), version.next().unwrap_or(0));
    let target = bindgen::RustTarget::stable(minor, patch).map_err(|e| e.to_string())?;

    let bindings = bindgen::Builder::default()
        .header(header.to_string_lossy())
        .clang_arg("-std=c11")
        // The header's comments are no Doxygen comments.
        .clang_arg("-fparse-all-comments")
        .parse_callbacks(Box::new(Comments))
        .disable_header_comment()
        .raw_line(format!("// include/candle_rocm.h fnv1a64 {:016x}", hash.0))
        .raw_line("// Made by tools/bindings; build/bindings.rs has the options.")
        .raw_line("")
        .raw_line(["UNARY", "BINARY", "CMP", "REDUCE"].map(|ops| roots(&text, ops)).join("\n"))
        .rust_target(target)
        .rust_edition(bindgen::RustEdition::Edition2021)
        .use_core()
        .allowlist_function("crk_.*")
        .allowlist_type("crk_.*")
        .allowlist_var("CRK_.*")
        .default_enum_style(bindgen::EnumVariation::NewType { is_bitfield: false, is_global: false })
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_debug(true)
        .layout_tests(true)
        .size_t_is_usize(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .map_err(|e| format!("bindgen: {e}"))?;
    crate::config::write(&config.out_dir.join("bindings.rs"), bindings.to_string())
}

/// The roots in one of the header's lists of `XX(name, value, root)`, whose values are 0, 1, ...: bindgen sees no macros with arguments.
#[cfg(feature = "bindgen")]
fn roots(header: &str, ops: &str) -> String {
    let list = header.split(&format!("#define CRK_{ops}_MAP(XX)")).nth(1).unwrap_or_default();
    let lines = list.lines().skip(1).take_while(|line| line.trim_start().starts_with("XX("));
    let roots: Vec<_> = lines.filter_map(|line| line.split('"').nth(1)).collect();
    format!("/// The roots of CRK_{ops}_MAP.\npub const CRK_{ops}_ROOTS: [&str; {}] = {roots:?};", roots.len())
}

/// Makes rustdoc read the header's comments as they are meant: prose with C in it, not Markdown links and HTML.
#[cfg(feature = "bindgen")]
#[derive(Debug)]
struct Comments;

#[cfg(feature = "bindgen")]
impl bindgen::callbacks::ParseCallbacks for Comments {
    fn process_comment(&self, comment: &str) -> Option<String> {
        let mut text = String::new();
        let mut code = false;
        for character in comment.chars() {
            match character {
                '`' => code = !code,
                '[' | ']' | '<' | '>' | '*' if !code => text.push('\\'),
                _ => {}
            }
            text.push(character);
        }
        Some(text)
    }
}
