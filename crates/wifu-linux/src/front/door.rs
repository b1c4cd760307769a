//! The daemon's sockets, to which applications connect: one with a path, whose mode says who may,
//! and one with an abstract name for those that had the right and lost the path, because they
//! changed their root since. That one is for who shows the key, which the first one gives. It is
//! kept in a file for the next daemon, for such programs outlive this one.

use super::context::{Context, TOKEN};
use super::memory::Why;
use super::private;
use super::unix::{self, Peer};
use crate::poller::{Interest, Poller};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use wifu_wire::front::Key;
use wifu_wire::{Span, Time};

/// The token of the daemon's socket, with an index that no application has.
pub(super) const DOOR: u64 = TOKEN | 0xffff_ffff;
/// The same for the one with the abstract name.
pub(super) const SIDE_DOOR: u64 = TOKEN | 0xffff_fffe;
/// How long no connection is accepted after the process ran out of descriptors.
const OUT_OF_DESCRIPTORS: Span = Span(100_000_000);

/// The daemon's listening sockets, and the name of one in the file system.
pub(super) struct Door {
    socket: OwnedFd,
    side: Option<(OwnedFd, Key)>,
    key_file: PathBuf,
    path: PathBuf,
    /// What file that is, lest another one be removed.
    file: (u64, u64),
    /// When it opens again, after descriptors ran out.
    opens: Time,
}

impl Door {
    /// Listens at `path`, with these permissions and this group, and as the key says that a daemon
    /// before this one gave out, if one did.
    ///
    /// # Errors
    /// `AddrInUse` if another daemon is there, `AlreadyExists` if something else than a socket has
    /// the name; else what the system says.
    pub(super) fn open(
        path: PathBuf,
        (mode, group): (u32, Option<u32>),
        key_file: PathBuf,
        poller: &Poller,
    ) -> io::Result<Door> {
        let socket = unix::listen_at(&path, mode, group)?;
        let file = unix::identity(&path)?;
        poller.add(&socket, DOOR, Interest::READ)?;
        Ok(Door {
            socket,
            side: reopened(&key_file, poller),
            key_file,
            path,
            file,
            opens: Time::NEVER,
        })
    }

    /// The next application. Without descriptors for it, all wait for a while.
    ///
    /// # Errors
    /// `AGAIN` if no more come now; any other concerns one that is gone already.
    pub(super) fn accept(
        &mut self,
        token: u64,
        cx: &Context<'_>,
    ) -> Result<(OwnedFd, Peer), Errno> {
        let socket = match &self.side {
            Some((side, _)) if token == SIDE_DOOR => side,
            _ => &self.socket,
        };
        let came = unix::accept(socket);
        if let Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) = came {
            tracing::warn!("out of descriptors or memory: new applications wait");
            self.watch(Interest::NONE, cx);
            self.opens = cx.now + OUT_OF_DESCRIPTORS;
            return Err(Errno::AGAIN);
        }
        came
    }

    /// When [`Door::handle_timeout`] wants to be called.
    pub(super) fn poll_timeout(&self) -> Time {
        self.opens
    }

    /// Opens again when it is time.
    pub(super) fn handle_timeout(&mut self, cx: &Context<'_>) {
        if self.opens <= cx.now {
            self.opens = Time::NEVER;
            self.watch(Interest::READ, cx);
        }
    }

    fn watch(&self, interest: Interest, cx: &Context<'_>) {
        // Both are watched already, so nothing can be missing.
        let _ = cx.poller.modify(&self.socket, DOOR, interest);
        if let Some((side, _)) = &self.side {
            let _ = cx.poller.modify(side, SIDE_DOOR, interest);
        }
    }

    /// What opens the other door: there is one from the first time on that somebody asks.
    ///
    /// # Errors
    /// `EIO` if the key can't be kept for the next daemon, or what the system says.
    pub(super) fn key(&mut self, cx: &Context<'_>) -> Result<String, Why> {
        if let Some((_, key)) = &self.side {
            return Ok(key.text().to_owned());
        }
        let key = fresh_key().map_err(|e| self.keyless(&e))?;
        let socket = side_door(&key, cx.poller).map_err(|e| self.keyless(&e))?;
        private::write(&self.key_file, key.text().as_bytes()).map_err(|e| self.keyless(&e))?;
        self.side = Some((socket, key));
        Ok(key.text().to_owned())
    }

    fn keyless(&self, why: &io::Error) -> Why {
        let file = self.key_file.display();
        let text = format!("{file}: {why}; programs that change their root do not find the daemon");
        tracing::warn!("{text}");
        Why::text(why.raw_os_error().unwrap_or(libc::EIO), text)
    }

    /// Whether this is the secret that opens the other door.
    pub(super) fn opens_to(&self, secret: &str) -> bool {
        let Some((_, key)) = &self.side else {
            return false;
        };
        let (right, given) = (key.secret().as_bytes(), secret.as_bytes());
        // However much of it is right takes the same time.
        let differs = right.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        right.len() == given.len() && differs == 0
    }
}

fn fresh_key() -> io::Result<Key> {
    let mut random = [0; Key::LEN / 2];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(Key::new(&random))
}

fn side_door(key: &Key, poller: &Poller) -> io::Result<OwnedFd> {
    let socket = unix::listen_abstract(&key.name())?;
    poller.add(&socket, SIDE_DOOR, Interest::READ)?;
    Ok(socket)
}

/// The door for the key that an earlier daemon has given out. Without one, none is missed.
fn reopened(file: &Path, poller: &Poller) -> Option<(OwnedFd, Key)> {
    let lost = |why: &dyn core::fmt::Display| {
        tracing::warn!(
            "{}: {why}; programs that changed their root under the daemon before this one do not \
             find it",
            file.display()
        );
    };
    let key = match private::read(file) {
        Ok(text) => Key::parse(&text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        Err(e) => {
            lost(&e);
            return None;
        }
    };
    let Some(key) = key else {
        lost(&"no key");
        return None;
    };
    match side_door(&key, poller) {
        Ok(socket) => Some((socket, key)),
        Err(e) => {
            lost(&e);
            None
        }
    }
}

impl Drop for Door {
    /// Takes the socket's name away, so that programs learn at once that there is no daemon; also
    /// if the daemon did not come to its work.
    fn drop(&mut self) {
        // Somebody may have removed it already, and put something else there.
        if unix::identity(&self.path).is_ok_and(|there| there == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
