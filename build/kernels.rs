//! Code objects for GPUs.

use crate::config::{Config, Result};
use std::path::PathBuf;

/// A file a module, in the order of the modules; none where this build has none.
pub struct Images {
    pub hip: Vec<Option<PathBuf>>,
    pub cuda: Vec<Option<PathBuf>>,
}

pub fn build(_config: &Config, modules: &[String]) -> Result<Images> {
    Ok(Images { hip: vec![None; modules.len()], cuda: vec![None; modules.len()] })
}
