//! A folder of the user's that keeps compiled kernels, so that every build on the machine shares them.
//!
//! An entry is named by a hash of all that its content depends on: the source and the headers that it includes, those
//! of the system too, the flags, the compiler, its version and its libraries. Paths of this build are not part of it.
//! Programs may use the folder at the same time: an entry is written under another name and then renamed. An entry that
//! is damaged counts as missing. The cache never fails a build: where the folder cannot be read or written, kernels are
//! compiled as without it.

use crate::config::Result;
use crate::parts::{self, Magic};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// Entries that no build used for so long are deleted.
const LONGEST_UNUSED: Duration = Duration::from_secs(60 * 24 * 3600);
/// Beyond this size of the folder the entries that were not used for longest are deleted.
const LARGEST_FOLDER: u64 = 2 << 30;
/// The kind of an entry's file (parts.rs).
const MAGIC: &Magic = b"crkcache";
/// Numbers the entries that this process writes, so that each has a temporary name of its own.
static TURN: AtomicUsize = AtomicUsize::new(0);

pub struct Cache {
    folder: PathBuf,
}

/// What an entry holds: the compiler's messages, and the contents of the job's files in the order of the job.
pub struct Entry {
    pub messages: Vec<u8>,
    pub files: Vec<Vec<u8>>,
}

impl Cache {
    /// The cache in a folder, which is made when the first entry is written.
    pub fn new(folder: PathBuf) -> Cache {
        Cache { folder }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(&key[..2]).join(key)
    }

    /// The entry of a key. Marks it as used now.
    pub fn get(&self, key: &str) -> Option<Entry> {
        let path = self.path(key);
        let entry = decode(&fs::read(&path).ok()?)?;
        if let Ok(file) = fs::File::options().append(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(entry)
    }

    /// Keeps an entry. A failure is not reported: the next build compiles again. The temporary file is a new one, so
    /// that no link of another user's leads elsewhere.
    pub fn put(&self, key: &str, entry: &Entry) {
        let path = self.path(key);
        let Some(folder) = path.parent() else { return };
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("{key}.{}-{turn}", std::process::id()));
        let written = create_folders(folder)
            .and_then(|()| fs::File::create_new(&temporary))
            .and_then(|mut file| file.write_all(&encode(entry)))
            .and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }

    /// Deletes what was not used for long, and the oldest entries where the folder has become too large. Other files of
    /// the folder stay: the user may have named one that has more than this cache in it.
    pub fn prune(&self) {
        let mut entries = Vec::new();
        for folder in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let Some(data) = file.metadata().ok().filter(fs::Metadata::is_file) else { continue };
                if let Some(used) = data.modified().ok().filter(|_| is_entry(&folder.file_name(), &file.file_name())) {
                    entries.push((used, data.len(), file.path()));
                }
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        let now = SystemTime::now();
        for (used, bytes, path) in entries {
            let unused = now.duration_since(used).unwrap_or_default();
            if total <= LARGEST_FOLDER && unused <= LONGEST_UNUSED {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// Whether a file in a subfolder has the name of an entry, or of one that is being written (see `Cache::put`).
fn is_entry(folder: &OsStr, file: &OsStr) -> bool {
    let (Some(folder), Some(file)) = (folder.to_str(), file.to_str()) else { return false };
    let key = file.split('.').next().unwrap_or_default();
    folder.len() == 2 && key.starts_with(folder) && key.len() == 32 && key.bytes().all(|c| c.is_ascii_hexdigit())
}

/// An entry's parts are the messages and then the files.
fn encode(entry: &Entry) -> Vec<u8> {
    parts::encode(MAGIC, std::iter::once(&entry.messages).chain(&entry.files).map(Vec::as_slice))
}

/// The entry in these bytes; `None` where they are not whole.
fn decode(bytes: &[u8]) -> Option<Entry> {
    let mut parts = parts::decode(MAGIC, bytes).ok()?;
    let messages = (!parts.is_empty()).then(|| parts.remove(0))?;
    Some(Entry { messages, files: parts })
}

/// Creates a folder and those above it, for this user alone.
fn create_folders(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// The reason not to read a folder, because another user could have put code into it; `None` where it is safe, or is
/// not there yet.
pub fn distrust(folder: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        extern "C" {
            fn geteuid() -> u32;
        }
        let data = fs::metadata(folder).ok()?;
        // SAFETY: geteuid has no conditions and does not fail.
        let user = unsafe { geteuid() };
        let why = if data.uid() != 0 && data.uid() != user {
            format!("belongs to the user {}, not to {user}", data.uid())
        } else if data.mode() & 0o022 != 0 {
            format!("can be written by other users (its mode is {:03o})", data.mode() & 0o777)
        } else {
            return None;
        };
        Some(format!(
            "the cache of compiled kernels is not used: the folder {} {why}; run chmod go-w on it, or name another one \
             in CANDLE_ROCM_CACHE",
            folder.display()
        ))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// The folder of the cache for a user with these variables: CANDLE_ROCM_CACHE, which "0" turns off; else a folder where
/// the system keeps caches of the user's; `None` where there is no such folder. A relative path would name another
/// folder in each package that cargo builds, so it is an error.
pub fn folder(named: Option<&Path>, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Option<PathBuf>> {
    Ok(match named {
        Some(off) if off == Path::new("0") => None,
        Some(folder) if !folder.is_absolute() => {
            return Err(format!(
                "CANDLE_ROCM_CACHE={}: the path must be absolute; set it to a whole path, to 0 for no cache, or unset \
                 it",
                folder.display()
            ));
        }
        Some(folder) => Some(folder.to_owned()),
        None => {
            let caches = if cfg!(windows) {
                variable("LOCALAPPDATA")
            } else if cfg!(target_os = "macos") {
                variable("HOME").map(|home| home.join("Library/Caches"))
            } else {
                variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))
            };
            caches.filter(|folder| folder.is_absolute()).map(|folder| folder.join("candle-rocm-sys"))
        }
    })
}
