//! rtc_headers.c: the headers that hipRTC is given with CUDA source, as text (csrc/rtc_headers.h).

use crate::config::{self, Config, Result};
use crate::includes::Includes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The folder with CUDA's names, below the folder of the kernels. A program includes its files, and those of `rtc/` in
/// it, without a folder.
const PORT: &str = "cuda_port";

/// Writes the file into OUT_DIR.
pub fn write(config: &Config) -> Result<PathBuf> {
    let kernels = config.root.join("kernels");
    let mut includes = Includes::default();
    let mut files = BTreeSet::new();
    for header in config::files(&kernels.join(PORT), &["h"], true)? {
        files.extend(includes.of(&header, std::slice::from_ref(&kernels))?);
    }
    // The headers of other compilers, which platform.h names too.
    files.retain(|file| !["host", "cuda"].iter().any(|other| file.starts_with(kernels.join("platform").join(other))));

    let mut names = BTreeMap::new();
    let mut text = String::from("#include \"rtc_headers.h\"\n\n");
    for (index, file) in files.iter().enumerate() {
        let below = |folder: &Path| {
            let name = file.strip_prefix(folder).ok()?;
            Some(name.to_string_lossy().replace('\\', "/"))
        };
        let folders = [kernels.clone(), kernels.join(PORT), kernels.join(PORT).join("rtc")];
        names.extend(folders.iter().filter_map(|folder| below(folder)).map(|name| (name, index)));
        // <cstdint> is <stdint.h>.
        let of_c = below(&folders[2]).and_then(|name| Some(format!("c{}", name.strip_suffix(".h")?)));
        names.extend(of_c.map(|name| (name, index)));
        write!(text, "static const char text_{index}[] =").unwrap();
        for line in config::read(file)?.lines() {
            write!(text, "\n    \"{}\\n\"", line.replace('\\', "\\\\").replace('"', "\\\"")).unwrap();
        }
        text.push_str(";\n");
    }
    let list = |item: &dyn Fn(&str, usize) -> String| -> String {
        names.iter().map(|(name, index)| format!("    {},\n", item(name, *index))).collect()
    };
    let by_name = list(&|name, _| format!("\"{name}\""));
    let by_text = list(&|_, index| format!("text_{index}"));
    write!(text, "\nconst char *const crk_priv_rtc_names[] = {{\n{by_name}}};\n").unwrap();
    write!(text, "const char *const crk_priv_rtc_texts[] = {{\n{by_text}}};\n").unwrap();
    writeln!(text, "const int crk_priv_rtc_header_count = {};", names.len()).unwrap();
    let path = config.out_dir.join("rtc_headers.c");
    config::write(&path, text)?;
    Ok(path)
}
