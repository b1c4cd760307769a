//! A map's name in a BPF file system, by which other programs find it.

use aya::maps::Map;
use std::io;
use std::path::{Path, PathBuf};

/// linux/magic.h.
const BPF_FS_MAGIC: u64 = 0xCAFE_4A11;

/// A map is pinned as long as this lives.
pub(crate) struct Pin(PathBuf);

impl Pin {
    /// Pin a map; directories are made in the file system if need be.
    ///
    /// # Errors
    /// If `path` is not in a BPF file system, or is taken.
    pub(crate) fn new(map: &Map, path: &Path) -> io::Result<Pin> {
        if !on_bpf(path) {
            let text = "not in a BPF file system: mount -t bpf bpf /sys/fs/bpf";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        if path.symlink_metadata().is_ok() {
            let text = "there is something already; take another name, or remove it";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above)?;
        }
        map.pin(path).map_err(io::Error::other)?;
        Ok(Pin(path.to_owned()))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Remove a pinned map, and nothing that is not in a BPF file system.
pub(super) fn remove(path: &Path) {
    if on_bpf(path) {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether the nearest directory above that exists is in a BPF file system.
fn on_bpf(path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let known = above.filter_map(|dir| rustix::fs::statfs(dir).ok()).next();
    known.is_some_and(|s| s.f_type as u64 == BPF_FS_MAGIC)
}
