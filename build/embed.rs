//! Embeds packed code objects in the binary: each becomes a symbol in the archive.

use crate::coff;
use crate::config::{self, Config, Result};
use crate::kernels::Images;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The files to compile into the archive.
pub struct Embedded {
    /// images.c: the tables of csrc/image/images.h.
    pub tables: PathBuf,
    /// images.S, which includes the code objects, and these files; none for Windows or without code objects.
    pub assembly: Option<(PathBuf, Vec<PathBuf>)>,
    /// images.obj, which has the code objects in it; for Windows only.
    pub object: Option<PathBuf>,
}

/// Writes images.c, and images.S or images.obj, into OUT_DIR.
pub fn write(config: &Config, modules: &[String], images: &Images) -> Result<Embedded> {
    let mut tables = String::from("#include \"image/images.h\"\n\n");
    let mut inputs = Vec::new();
    let all = [("hip", &images.hip), ("cuda", &images.cuda)];
    for (kind, files) in all {
        let mut entries = String::new();
        for (module, file) in modules.iter().zip(files) {
            let Some(file) = file else {
                entries.push_str("  {NULL, 0},\n");
                continue;
            };
            let symbol = symbol(kind, module);
            let bytes = config::size(file)?;
            writeln!(tables, "extern const unsigned char {symbol}[];").unwrap();
            inputs.push((symbol.clone(), file.clone()));
            writeln!(entries, "  {{{symbol}, {bytes}}},").unwrap();
        }
        write!(tables, "const crk_image_t crk_priv_images_{kind}[CRK_MODULE_COUNT] = {{\n{entries}}};\n\n").unwrap();
    }

    let tables_path = config.out_dir.join("images.c");
    write_file(&tables_path, &tables)?;
    let mut embedded = Embedded { tables: tables_path, assembly: None, object: None };
    if inputs.is_empty() {
        return Ok(embedded);
    }
    if config.target_os == "windows" {
        let items = inputs.into_iter().map(|(symbol, file)| Ok((symbol, config::read_bytes(&file)?)));
        let path = config.out_dir.join("images.obj");
        config::write(&path, coff::object(&config.target_arch, &items.collect::<Result<Vec<_>>>()?)?)?;
        embedded.object = Some(path);
        return Ok(embedded);
    }
    let mut assembly: String = inputs.iter().map(|(symbol, file)| incbin(config, symbol, file)).collect();
    if config.target_os == "linux" {
        // Without this section GNU ld gives the whole program an executable stack.
        assembly.push_str(".section .note.GNU-stack,\"\",%progbits\n");
    }
    let assembly_path = config.out_dir.join("images.S");
    write_file(&assembly_path, &assembly)?;
    embedded.assembly = Some((assembly_path, inputs.into_iter().map(|(_, file)| file).collect()));
    Ok(embedded)
}

/// Assembly that defines a symbol with the contents of a file.
fn incbin(config: &Config, symbol: &str, file: &Path) -> String {
    let (section, symbol) = match config.target_os.as_str() {
        "macos" | "ios" => (".section __TEXT,__const".to_owned(), format!("_{symbol}")),
        _ => (format!(".section .rodata.{symbol},\"a\",%progbits"), symbol.to_owned()),
    };
    let file = file.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!("{section}\n.globl {symbol}\n{symbol}:\n.incbin \"{file}\"\n\n")
}

fn symbol(kind: &str, module: &str) -> String {
    format!("crk_priv_image_{kind}_{module}")
}

/// Writes a file, unless it has this text already.
fn write_file(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    config::write(path, text)
}
