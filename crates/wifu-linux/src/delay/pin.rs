//! A map's name in a BPF file system, by which other programs find it.

use aya::maps::{Map, MapInfo};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// linux/magic.h.
const BPF_FS_MAGIC: u64 = 0xCAFE_4A11;

/// Where a map is pinned, or is about to be: all that has to be known to undo it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pin {
    pub(crate) path: PathBuf,
    /// The map's number, which the kernel gives to no other until the host starts anew: notes are
    /// gone by then. Whatever else is at the path stays.
    pub(super) map: u32,
    /// Directories that go with it if nothing else is in them, the uppermost first.
    made: Vec<PathBuf>,
}

impl Pin {
    /// What is to be done to pin a map. Nothing is done yet. `others` are pinned already: a
    /// directory made for one of them goes with the last.
    ///
    /// # Errors
    /// If `path` is not in a BPF file system, or is taken.
    pub(super) fn plan(map: &Map, path: &Path, others: &[Pin]) -> io::Result<Pin> {
        let path = std::path::absolute(path)?;
        if !on_bpf(&path) {
            let text = "not in a BPF file system: mount -t bpf bpf /sys/fs/bpf";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        if exists(&path) {
            let text = "there is something already; take another name, or remove it";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let made = above(&path, |d| {
            !exists(d) || others.iter().any(|o| o.made.iter().any(|m| m == d))
        });
        let Map::Array(data) = map else {
            return Err(io::Error::other("delay.bpf.o has another kind of map"));
        };
        let map = data.info().map_err(io::Error::other)?.id();
        Ok(Pin { path, map, made })
    }

    /// Do it.
    ///
    /// # Errors
    /// What `mkdir` or `bpf` says; what was made is still there.
    pub(super) fn make(&self, map: &Map) -> io::Result<()> {
        for dir in &self.made {
            match std::fs::create_dir(dir) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        map.pin(&self.path).map_err(io::Error::other)
    }

    /// Undo it: remove the name if it is still this map's, and the directories unless somebody has
    /// put something there.
    pub(crate) fn remove(&self) {
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
        for dir in self.made.iter().rev().filter(|d| on_bpf(d)) {
            let _ = std::fs::remove_dir(dir);
        }
    }

    /// What [`Pin::remove`] would do.
    pub(crate) fn removal(&self) -> Vec<String> {
        let name = self.is_there().then(|| rm(&self.path));
        let dirs = self.made.iter().rev();
        let dirs = dirs.filter(|d| on_bpf(d) && d.is_dir()).map(|d| rmdir(d));
        name.into_iter().chain(dirs).collect()
    }

    /// Whether its place can be seen here at all, and not only in another mount namespace.
    pub(crate) fn is_visible(&self) -> bool {
        on_bpf(&self.path)
    }

    /// Whether the name is this map's.
    pub(super) fn is_there(&self) -> bool {
        let there = || MapInfo::from_pin(&self.path).map(|info| info.id());
        // Nothing but a BPF file system's names is asked for: to open a pipe would wait.
        self.is_visible() && there().is_ok_and(|id| id == self.map)
    }

    /// For a file: NULs are in no path.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.map.to_string().into_bytes();
        for path in core::iter::once(&self.path).chain(&self.made) {
            bytes.push(0);
            bytes.extend(path.as_os_str().as_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Pin> {
        let mut fields = bytes.split(|b| *b == 0);
        let map = core::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let mut paths = fields.map(|f| PathBuf::from(OsString::from_vec(f.to_vec())));
        Some(Pin {
            path: paths.next()?,
            map,
            made: paths.collect(),
        })
    }
}

/// What is done to pin a map there, and to undo it; for the user to read.
pub(super) fn dry_run(path: &Path) -> (Vec<String>, Vec<String>) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let made = above(&path, |d| !exists(d));
    let mut up: Vec<String> = made
        .iter()
        .map(|d| format!("mkdir {}", d.display()))
        .collect();
    up.push(format!(
        "bpf: pin the map of the reading at {}",
        path.display()
    ));
    let dirs = made.iter().rev().map(|d| rmdir(d));
    (up, core::iter::once(rm(&path)).chain(dirs).collect())
}

fn rm(path: &Path) -> String {
    format!("rm -f {}", path.display())
}

fn rmdir(dir: &Path) -> String {
    format!("rmdir --ignore-fail-on-non-empty {}", dir.display())
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Those directories above of which this holds, the uppermost first.
fn above(path: &Path, holds: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1).filter(|d| holds(d));
    let mut found: Vec<_> = above.map(Path::to_owned).collect();
    found.reverse();
    found
}

/// Whether the nearest directory above that exists is in a BPF file system.
fn on_bpf(path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let mut known = above.filter(|dir| exists(dir));
    known.next().is_some_and(is_bpf)
}

/// Whether a directory is in a BPF file system.
pub(crate) fn is_bpf(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|s| s.f_type as u64 == BPF_FS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_pin_is_read_as_it_was_written() {
        let mut pin = Pin {
            path: PathBuf::from("/sys/fs/bpf/a b/c\nd/x"),
            map: 7,
            made: vec![],
        };
        assert_eq!(Pin::from_bytes(&pin.to_bytes()), Some(pin.clone()));
        pin.made = vec!["/sys/fs/bpf/a b".into(), "/sys/fs/bpf/a b/c\nd".into()];
        assert_eq!(Pin::from_bytes(&pin.to_bytes()), Some(pin));
        for wrong in [&b""[..], b"7", b"x\0/sys/fs/bpf/x"] {
            assert_eq!(Pin::from_bytes(wrong), None);
        }
    }
}
