//! The feature `buildtime_bindgen`: generates OUT_DIR/bindings.rs, which replaces the committed src/bindings.rs.

use crate::config::{Config, Result};

#[cfg(not(feature = "buildtime_bindgen"))]
pub fn build(_config: &Config) -> Result<()> {
    Ok(())
}

#[cfg(feature = "buildtime_bindgen")]
pub fn build(config: &Config) -> Result<()> {
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    load_libclang()?;
    let folder = config.root.join("include");
    let mut text = String::new();
    for header in crate::config::files(&folder, &["h"], true)? {
        text.push_str(&crate::config::read(&header)?);
    }
    let mut hash = crate::jobs::Fnv::new();
    hash.bytes(text.as_bytes());

    let mut version = config.rust_version.split('.').skip(1).map(|n| n.parse().unwrap_or(0));
    let (minor, patch) = (version.next().unwrap_or(0), version.next().unwrap_or(0));
    let target = bindgen::RustTarget::stable(minor, patch).map_err(|e| e.to_string())?;

    let bindings = bindgen::Builder::default()
        .header(folder.join("candle_rocm.h").to_string_lossy())
        .clang_arg(format!("-I{}", folder.display()))
        .clang_arg("-std=c11")
        // Takes plain comments, too: the headers have no Doxygen comments.
        .clang_arg("-fparse-all-comments")
        .parse_callbacks(Box::new(Comments))
        .disable_header_comment()
        .raw_line(format!("// include/ fnv1a {:032x}", hash.0))
        .raw_line("// Made by tools/bindings; build/bindings.rs has the options.")
        .raw_line("")
        .raw_line(["UNARY", "BINARY", "CMP", "REDUCE"].map(|ops| roots(&text, ops)).join("\n"))
        .raw_line(short_names(&text))
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

/// Loads libclang. bindgen panics where there is none.
#[cfg(feature = "buildtime_bindgen")]
fn load_libclang() -> Result<()> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let loaded = std::panic::catch_unwind(bindgen::clang_version);
    std::panic::set_hook(hook);
    loaded.map(|_| ()).map_err(|panic| {
        let reason = panic.downcast_ref::<String>().map_or("no reason given", String::as_str);
        let reason = reason.split(", set the `LIBCLANG_PATH`").next().unwrap_or(reason);
        format!(
            "the feature `buildtime_bindgen` needs libclang, which cannot be loaded; install it (Debian, Ubuntu: the \
             package libclang-dev; Fedora: clang-devel; Arch: clang), name its folder in LIBCLANG_PATH, or build \
             without the feature: {}",
            reason.replace(['\n', '"'], " ")
        )
    })
}

/// The entries of the headers' list `map`: the rest of each line after `XX(`. bindgen does not see macros with
/// arguments.
#[cfg(feature = "buildtime_bindgen")]
fn entries<'a>(headers: &'a str, map: &str) -> Vec<&'a str> {
    let list = headers.split(&format!("#define {map}(XX)")).nth(1).unwrap_or_default();
    list.lines().skip(1).map_while(|line| line.trim_start().strip_prefix("XX(")).collect()
}

/// The roots in a list of `XX(name, value, root)` with the values 0, 1, ...
#[cfg(feature = "buildtime_bindgen")]
fn roots(headers: &str, ops: &str) -> String {
    let entries = entries(headers, &format!("CRK_{ops}_MAP"));
    let roots: Vec<_> = entries.iter().filter_map(|entry| entry.split('"').nth(1)).collect();
    format!("/// The roots of CRK_{ops}_MAP.\npub const CRK_{ops}_ROOTS: [&str; {}] = {roots:?};", roots.len())
}

/// Second names of the enums' values, for Rust: `crk_unary_op::GeluErf` is `crk_unary_op::CRK_UNARY_GELU_ERF`.
///
/// Each enum is written `typedef enum NAME {`, `#define XX(name, ...) PREFIX##name = value,`, `MAP(XX)`.
#[cfg(feature = "buildtime_bindgen")]
fn short_names(headers: &str) -> String {
    let mut text = String::new();
    for definition in headers.split("typedef enum ").skip(1) {
        let mut lines = definition.lines();
        let name = lines.next().and_then(|line| line.split_whitespace().next()).unwrap_or_default();
        let prefix = lines.next().and_then(|line| line.split_once(") ")?.1.split("##").next()).unwrap_or_default();
        let map = lines.next().unwrap_or_default().trim().trim_end_matches("(XX)");
        text.push_str(&format!("#[allow(non_upper_case_globals)]\nimpl {name} {{\n"));
        for value in entries(headers, map).iter().filter_map(|entry| entry.split(',').next()) {
            let short = short_name(value);
            text.push_str(&format!(
                "    /// `{prefix}{value}`.\n    pub const {short}: Self = Self::{prefix}{value};\n"
            ));
        }
        text.push_str("}\n");
    }
    text
}

/// `GELU_ERF` becomes `GeluErf`. A name with a digit in it is that of a format and stays: `F8E4M3`, `Q4_K`.
#[cfg(feature = "buildtime_bindgen")]
fn short_name(name: &str) -> String {
    if name.contains(|c: char| c.is_ascii_digit()) {
        return name.to_owned();
    }
    let words = name.split('_').map(|word| [&word[..1], &word[1..].to_ascii_lowercase()].concat());
    words.collect()
}

/// Escapes the headers' comments for rustdoc: they are prose with C in it, without Markdown links and HTML.
#[cfg(feature = "buildtime_bindgen")]
#[derive(Debug)]
struct Comments;

#[cfg(feature = "buildtime_bindgen")]
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
