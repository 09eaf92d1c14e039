//! examples/c: compiled against the header, linked with the static library, and run.
#[path = "support/compiler.rs"]
mod compiler;

use compiler::{LIBRARY_FOLDER, ROOT, check_first, compiler, run, scratch};
use std::path::Path;

#[test]
fn first() {
    let folder = scratch("c_example");
    let program = folder.join("first").with_extension(std::env::consts::EXE_EXTENSION);
    let tool = compiler(false);
    let mut command = tool.to_command();
    let source = Path::new(ROOT).join("examples/c/first.c");
    if tool.is_like_msvc() {
        command.args(["/std:c11", "/W4", "/WX"]).arg(source).arg(format!("/Fe{}", program.display()));
        command.arg(format!("/Fo{}\\", folder.display()));
        command.arg("/link").args(["candle_rocm.lib", "zstd.lib"].map(|name| Path::new(LIBRARY_FOLDER).join(name)));
    } else {
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]).arg(source).arg("-o").arg(&program);
        command.arg(format!("-L{LIBRARY_FOLDER}")).args(["-lcandle_rocm", "-lzstd", "-lpthread", "-lm"]);
        if cfg!(target_os = "linux") {
            command.arg("-ldl");
        }
    }
    // The library's additional compiler flags, above all a sanitizer's, are needed for the program too.
    command.args(std::env::var("CFLAGS").unwrap_or_default().split_whitespace());
    run(&mut command);
    check_first(std::process::Command::new(&program).current_dir(&folder));
}
