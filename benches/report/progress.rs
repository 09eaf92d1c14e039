//! Progress bars on standard error; none where it is no terminal.
use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `length` steps with a name.
pub fn bar(name: &str, length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    if let Ok(style) = ProgressStyle::with_template("{prefix:<12} [{bar:40}] {pos}/{len} {elapsed} {wide_msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(name.to_owned());
    bar
}
