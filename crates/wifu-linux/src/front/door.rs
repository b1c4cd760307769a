//! The daemon's socket, to which applications connect.

use super::context::{Context, TOKEN};
use super::unix::{self, Peer};
use crate::poller::{Interest, Poller};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use wifu_wire::{Span, Time};

/// The token of the daemon's socket, with an index that no application has.
pub(super) const DOOR: u64 = TOKEN | 0xffff_ffff;
/// How long no connection is accepted after the process ran out of descriptors.
const OUT_OF_DESCRIPTORS: Span = Span(100_000_000);

/// The daemon's listening socket, and its name in the file system.
pub(super) struct Door {
    socket: OwnedFd,
    path: PathBuf,
    /// What file that is, lest another one be removed.
    file: (u64, u64),
    /// When it opens again, after descriptors ran out.
    opens: Time,
}

impl Door {
    /// Listens at `path`, with these permissions and this group.
    ///
    /// # Errors
    /// `AddrInUse` if another daemon is there, `AlreadyExists` if something else than a socket has
    /// the name; else what the system says.
    pub(super) fn open(
        path: PathBuf,
        mode: u32,
        group: Option<u32>,
        poller: &Poller,
    ) -> io::Result<Door> {
        let socket = unix::listen_at(&path, mode, group)?;
        let file = unix::identity(&path)?;
        poller.add(&socket, DOOR, Interest::READ)?;
        Ok(Door {
            socket,
            path,
            file,
            opens: Time::NEVER,
        })
    }

    /// The next application. Without descriptors for it, all wait for a while.
    ///
    /// # Errors
    /// `AGAIN` if no more come now; any other concerns one that is gone already.
    pub(super) fn accept(&mut self, cx: &Context<'_>) -> Result<(OwnedFd, Peer), Errno> {
        let came = unix::accept(&self.socket);
        if let Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) = came {
            tracing::warn!("out of descriptors or memory: new applications wait");
            let _ = cx.poller.modify(&self.socket, DOOR, Interest::NONE);
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
            let _ = cx.poller.modify(&self.socket, DOOR, Interest::READ);
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
