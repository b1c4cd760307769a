//! What keeps the kernel from forwarding the packets of lanes when the daemon that served them was
//! killed: a program on the interfaces that has a name in the BPF file system, and so stays. It is
//! behind the one by which the daemon takes packets, and sees them when that is gone.
//!
//! The names are in the mount namespace of the first process above us that lets us in, where they
//! last: `ip netns exec` gives its command a mount namespace of its own.

use crate::bpf;
use crate::delay::is_bpf;
use crate::ingress::Selection;
use crate::netns::{Owner, own_inode, parent_of};
use crate::steps::output_of;
use crate::sys;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where BPF file systems are, by custom.
const MOUNTED: &str = "/sys/fs/bpf";
/// Our directory in it.
const OURS: &str = "wifu";
/// The map that counts what was dropped.
const DROPPED: &str = "dropped";

/// The program on its interfaces, until dropped; if the process is killed it stays.
pub(crate) struct Guard {
    /// The BPF file system: in another mount namespace its names are reached from here.
    root: OwnedFd,
    note: Note,
    interfaces: Vec<i32>,
    _links: Vec<OwnedFd>,
}

impl Guard {
    /// Drop packets that `selection` relays when nobody takes them any more.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN, `InvalidInput` before
    /// Linux 6.6; what mounting a BPF file system says, if there is none.
    pub(crate) fn attach(selection: &Selection) -> io::Result<Guard> {
        let note = Note {
            namespace: own_inode()?,
            owner: Owner::this(),
        };
        let counter = bpf::counter()?;
        let program = bpf::load(&selection.guard(&counter))?;
        let links = selection.interfaces.iter();
        let links = links.map(|i| bpf::link(&program, *i));
        let links = links.collect::<io::Result<Vec<_>>>()?;
        let named = || {
            if !is_bpf(Path::new(MOUNTED)) {
                mount()?;
            }
            let root = open(MOUNTED, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            // What follows is removed by this again.
            let guard = Guard {
                root,
                note,
                interfaces: selection.interfaces.clone(),
                _links: links,
            };
            let directory = note.path();
            DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(&directory)?;
            bpf::pin(&counter, &directory.join(DROPPED))?;
            for (link, interface) in guard._links.iter().zip(&guard.interfaces) {
                bpf::pin(link, &directory.join(name(*interface)))?;
            }
            Ok(guard)
        };
        in_first_mounts(named)
    }
}

impl Drop for Guard {
    /// Needs no capability of whoever may write to the directories.
    fn drop(&mut self) {
        let Ok(ours) = openat(&self.root, OURS, OFlags::PATH, Mode::empty()) else {
            return;
        };
        let own = self.note.to_string();
        if let Ok(directory) = openat(&ours, &own, OFlags::PATH, Mode::empty()) {
            let names = self.interfaces.iter().map(|i| name(*i));
            for name in names.chain([DROPPED.to_owned()]) {
                let _ = unlinkat(&directory, name, AtFlags::empty());
            }
        }
        let _ = unlinkat(&ours, own, AtFlags::REMOVEDIR);
        // Unless another one is in it.
        let _ = unlinkat(&self.root, OURS, AtFlags::REMOVEDIR);
    }
}

fn name(interface: i32) -> String {
    format!("link-{interface}")
}

/// A guard that is there, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    /// Number of the network namespace.
    pub(crate) namespace: u64,
    /// Whose it is.
    pub(crate) owner: Owner,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Note { namespace, owner } = self;
        write!(f, "{namespace}-{}-{}", owner.pid, owner.start)
    }
}

impl Note {
    fn from_name(name: &str) -> Option<Note> {
        let mut numbers = name.split('-').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let note = Note {
            namespace: next()?,
            owner: Owner {
                pid: u32::try_from(next()?).ok()?,
                start: next()?,
            },
        };
        (note.to_string() == name).then_some(note)
    }

    /// Its directory in the first mount namespace.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new(MOUNTED).join(OURS).join(self.to_string())
    }

    /// Let the kernel forward again; gives how many packets were dropped while nobody took them, if
    /// that is known.
    ///
    /// # Errors
    /// What removing the names says.
    pub(crate) fn remove(&self) -> io::Result<Option<u64>> {
        in_first_mounts(|| {
            let directory = self.path();
            let counter = bpf::get(&directory.join(DROPPED));
            let dropped = counter.and_then(|c| bpf::read(&c)).ok();
            std::fs::remove_dir_all(&directory)?;
            let _ = std::fs::remove_dir(Path::new(MOUNTED).join(OURS));
            Ok(dropped)
        })
    }
}

/// The guards that are there, in order.
pub(crate) fn installed() -> Vec<Note> {
    let listed = in_first_mounts(|| {
        let names = std::fs::read_dir(Path::new(MOUNTED).join(OURS))?.flatten();
        let names = names.filter_map(|e| e.file_name().into_string().ok());
        let mut notes: Vec<_> = names.filter_map(|n| Note::from_name(&n)).collect();
        notes.sort_by_key(|n| (n.namespace, n.owner.pid, n.owner.start));
        Ok(notes)
    });
    listed.unwrap_or_default()
}

/// Remove those that daemons left which were killed in these network namespaces, by number.
pub fn remove_stale(namespaces: &[u64]) {
    let stale = |n: &Note| namespaces.contains(&n.namespace) && !n.owner.is_alive();
    for note in installed().into_iter().filter(stale) {
        let pid = note.owner.pid;
        match note.remove() {
            Ok(dropped) => tracing::warn!(
                "daemon {pid} was killed: {} packets of its lanes dropped since",
                dropped.unwrap_or(0)
            ),
            Err(e) => tracing::warn!("{}: {e}", note.path().display()),
        }
    }
}

fn mount() -> io::Result<()> {
    // As iproute2 and bpftool do it.
    let line = format!("mount -t bpf -o mode=0700 bpf {MOUNTED}");
    output_of(&line).map(drop).map_err(io::Error::other)
}

/// Do this where the first process above us sees it that lets us in.
fn in_first_mounts<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let there = || {
            let ours = std::process::id();
            let above = core::iter::successors(Some(ours), |pid| parent_of(*pid));
            let mounts = above.filter_map(|pid| File::open(format!("/proc/{pid}/ns/mnt")).ok());
            let mut mounts: Vec<_> = mounts.collect();
            while mounts.pop().is_some_and(|first| enter(&first).is_err()) {}
            work()
        };
        scope.spawn(there).join().expect("it does not panic")
    })
}

/// Enter a mount namespace, with this thread alone.
fn enter(mounts: &File) -> io::Result<()> {
    let own = std::fs::metadata("/proc/thread-self/ns/mnt")?;
    let there = mounts.metadata()?;
    if (own.dev(), own.ino()) == (there.dev(), there.ino()) {
        return Ok(());
    }
    sys::enter_mounts(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_give_are_ours() {
        let (pid, start) = (7, 123);
        let note = Note {
            namespace: 4_026_531_840,
            owner: Owner { pid, start },
        };
        assert_eq!(Note::from_name(&note.to_string()), Some(note));
        for wrong in [
            "",
            "1-2",
            "1-2-3-4",
            "01-2-3",
            "1-2-x",
            "1-4294967296-3",
            "+1-2-3",
        ] {
            assert_eq!(Note::from_name(wrong), None, "{wrong}");
        }
    }
}
