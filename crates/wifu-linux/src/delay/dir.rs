//! A directory in which we write, perhaps as root: nothing in it leads elsewhere.

use crate::netns::Owner;
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, fstat, open, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Who writes the files.
pub(super) const OWNER: &str = "owner";
/// The same, until it is written.
const NEW_OWNER: &str = ".owner";
/// Where the map is pinned.
pub(super) const PIN: &str = "pin";
/// All files that we make.
const NAMES: [&str; 8] = [
    "Da", "sample", ".Da", ".sample", "busy", PIN, OWNER, NEW_OWNER,
];

/// A directory that nobody but us and root may write. What was seen there is still the same when
/// something is done with it, whatever becomes of the path. It is no symbolic link itself; those
/// above it are followed, so whoever names it answers for the way there.
pub(crate) struct Dir {
    path: PathBuf,
    fd: OwnedFd,
}

impl Dir {
    /// Make a directory ours, so that we may write and remove the files of our names there.
    ///
    /// # Errors
    /// If it cannot be made, others may write there, another process does, or a file of somebody
    /// else's has the name of one of ours.
    pub(crate) fn claim(path: &Path) -> io::Result<Dir> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o755).create(plain(path))?;
        let dir = Dir::open(path)?;
        let there = |text| Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        // One at a time looks whose it is and says that it is his.
        if let Err(Errno::WOULDBLOCK) = flock(&dir.fd, FlockOperation::NonBlockingLockExclusive) {
            return there(String::from("another process is about to write there"));
        }
        match dir.owner() {
            Some(other) if other != Owner::this() && other.is_alive() => {
                return there(format!("process {} writes there", other.pid));
            }
            Some(_) => {}
            None => {
                let foreign = NAMES
                    .iter()
                    .find(|name| dir.has(name) && !dir.is_begun(name));
                if let Some(name) = foreign {
                    return there(format!("a file {name} is there that is not ours"));
                }
            }
        }
        // By this, `wifu clean` knows when they are nobody's: it is never half written.
        dir.write(NEW_OWNER, Owner::this().tag().as_bytes())?;
        dir.rename(NEW_OWNER, OWNER)?;
        flock(&dir.fd, FlockOperation::Unlock).ok();
        Ok(dir)
    }

    /// One that is there.
    ///
    /// # Errors
    /// If it is none, or others may write there.
    pub(super) fn open(path: &Path) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = plain(path);
        let fd = open(&path, flags, Mode::empty())?;
        let found = fstat(&fd)?;
        let ours = [0, rustix::process::geteuid().as_raw()].contains(&found.st_uid);
        let mode = Mode::from_raw_mode(found.st_mode);
        if !ours || mode.intersects(Mode::WGRP | Mode::WOTH) {
            let text = "other users may write there, and could lead us to any file: take a \
                        directory that only you may write, or one that does not exist yet";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Dir { path, fd })
    }

    /// Whose its files are, if they are ours.
    pub(super) fn owner(&self) -> Option<Owner> {
        Owner::from_tag(core::str::from_utf8(&self.read(OWNER)?).ok()?)
    }

    /// Whether this is what a process leaves that is killed while it says that files are its own.
    fn is_begun(&self, name: &str) -> bool {
        let ours = |octets: Vec<u8>| octets.is_empty() || octets.starts_with(b"wifu:");
        name == NEW_OWNER && self.read(name).is_some_and(ours)
    }

    fn has(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        // Not even a pipe makes us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.fd, name, flags, Mode::empty()).ok()?);
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).ok()?;
        Some(octets)
    }

    /// A new file. What had its name before, a link perhaps, is removed and not followed.
    pub(crate) fn fresh(&self, name: &str) -> io::Result<File> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&self.fd, name, flags, Mode::from_raw_mode(0o644))?.into())
    }

    pub(super) fn write(&self, name: &str, octets: &[u8]) -> io::Result<()> {
        self.fresh(name)?.write_all(octets)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Remove our files, and the directory unless somebody has put something there.
    pub(super) fn remove(&self) {
        for name in NAMES {
            let _ = unlinkat(&self.fd, name, AtFlags::empty());
        }
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Without what makes the kernel follow a link at the end: `link/`.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}
