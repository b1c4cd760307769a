//! The front's system calls.

use rustix::fs::{Mode, chmod, chown};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recv,
    recvmsg, send, sendmsg, socket_with, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use wifu_wire::front::Name;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) uid: u32,
    pub(super) pid: i32,
}

const NON_BLOCKING: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Half of what the kernel grants by default: it doubles the number.
const SEND_BUFFER: usize = 212_992;

fn unix_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, NON_BLOCKING, None)
}

/// Fails if what has this name is anything but a socket, which a daemon that was killed may have
/// left.
fn check_is_socket(path: &Path) -> io::Result<()> {
    let kind = match path.symlink_metadata() {
        Ok(there) => there.file_type(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    let what = match kind {
        k if k.is_socket() => return Ok(()),
        k if k.is_symlink() => "a symbolic link",
        k if k.is_dir() => "a directory",
        k if k.is_file() => "a file",
        _ => "something else",
    };
    let text = format!(
        "{} is {what} and no socket of a daemon: it stays as it is; give another path, or remove \
         it first",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
}

/// What identifies a file: its device and inode.
pub(super) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let there = path.symlink_metadata()?;
    Ok((there.dev(), there.ino()))
}

/// The daemon's listening socket. A socket file that nobody listens on is replaced.
///
/// # Errors
/// `AddrInUse` if another daemon listens there, `AlreadyExists` if something else has the name.
pub(super) fn listen_at(path: &Path, mode: u32, group: Option<u32>) -> io::Result<OwnedFd> {
    let addr = SocketAddrUnix::new(path)?;
    check_is_socket(path)?;
    let probe = unix_socket()?;
    match connect(&probe, &addr) {
        Ok(()) | Err(Errno::AGAIN) => {
            let path = path.display();
            let text = format!("another daemon serves applications at {path}: one is enough");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let fd = unix_socket()?;
    bind(&fd, &addr)?;
    // Nobody can connect before `listen`, so the mode holds from the first connection on.
    if let Some(group) = group {
        chown(path, None, Some(rustix::fs::Gid::from_raw(group)))?;
    }
    chmod(path, Mode::from_raw_mode(mode))?;
    listen(&fd, 4096)?;
    Ok(fd)
}

/// A listening socket with an abstract name, which anybody may connect to.
pub(super) fn listen_abstract(name: &Name) -> Result<OwnedFd, Errno> {
    let fd = unix_socket()?;
    bind(
        &fd,
        &SocketAddrUnix::new_abstract_name(&name.as_bytes()[1..])?,
    )?;
    listen(&fd, 4096)?;
    Ok(fd)
}

pub(super) fn accept(listener: &OwnedFd) -> Result<(OwnedFd, Peer), Errno> {
    let fd = accept_with(listener, NON_BLOCKING)?;
    let cred = sockopt::socket_peercred(&fd)?;
    // A larger buffer means fewer wake-ups; without it things work as well.
    let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
    urgent_in_line(&fd)?;
    let peer = Peer {
        uid: cred.uid.as_raw(),
        pid: cred.pid.as_raw_nonzero().get(),
    };
    Ok((fd, peer))
}

/// What applications send with MSG_OOB is counted by [`queued`] and comes in its place. Otherwise
/// it would be counted and not read. A kernel without CONFIG_AF_UNIX_OOB has no such data.
fn urgent_in_line(fd: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_socket_oobinline(fd, true)
}

/// Connects to an application's listening socket from a name that tells it both addresses.
pub(super) fn dial(from: &Name, to: &Name) -> Result<OwnedFd, Errno> {
    let fd = unix_socket()?;
    let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
    urgent_in_line(&fd)?;
    // The marker then comes with its sender.
    sockopt::set_socket_passcred(&fd, true)?;
    bind(
        &fd,
        &SocketAddrUnix::new_abstract_name(&from.as_bytes()[1..])?,
    )?;
    connect(
        &fd,
        &SocketAddrUnix::new_abstract_name(&to.as_bytes()[1..])?,
    )?;
    Ok(fd)
}

/// The user that called `listen` on the socket which `fd` was connected to.
pub(super) fn listening_user(fd: &OwnedFd) -> Result<u32, Errno> {
    Ok(sockopt::socket_peercred(fd)?.uid.as_raw())
}

/// As [`peek`], and who sent it; from then on senders are not told any more.
pub(super) fn peek_sender(
    fd: BorrowedFd<'_>,
    b: &mut [u8],
) -> Result<(usize, Option<Peer>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let n = recvmsg(fd, &mut [IoSliceMut::new(b)], &mut control, flags)?.bytes;
    let sender = control.drain().find_map(|m| match m {
        RecvAncillaryMessage::ScmCredentials(c) => Some(Peer {
            uid: c.uid.as_raw(),
            pid: c.pid.as_raw_nonzero().get(),
        }),
        _ => None,
    });
    sockopt::set_socket_passcred(fd, false)?;
    Ok((n, sender))
}

/// Bytes in the queue.
pub(super) fn queued(fd: BorrowedFd<'_>) -> usize {
    rustix::io::ioctl_fionread(fd).unwrap_or(0) as usize
}

pub(super) fn peek(fd: BorrowedFd<'_>, b: &mut [u8]) -> Result<usize, Errno> {
    recv(fd, b, RecvFlags::PEEK | RecvFlags::DONTWAIT).map(|(n, _)| n)
}

pub(super) fn take(fd: BorrowedFd<'_>, b: &mut [u8]) -> Result<usize, Errno> {
    recv(fd, b, RecvFlags::DONTWAIT).map(|(n, _)| n)
}

pub(super) fn take_vectored(fd: BorrowedFd<'_>, b: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    rustix::io::readv(fd, b)
}

pub(super) fn give(fd: BorrowedFd<'_>, b: &[u8]) -> Result<usize, Errno> {
    send(fd, b, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

pub(super) fn give_vectored(fd: BorrowedFd<'_>, b: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let mut none = SendAncillaryBuffer::default();
    sendmsg(fd, b, &mut none, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

pub(super) fn end_writing(fd: impl AsFd) {
    // It fails only if the application is gone, which its own event tells.
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
}

/// Asks the kernel about UNIX sockets by inode, without touching them.
pub(super) struct Diagnosis(OwnedFd);

// linux/sock_diag.h, linux/unix_diag.h, linux/netlink.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_UNIX: u8 = 1;
const TCP_LISTEN: u8 = 10;
const UDIAG_SHOW_NAME: u32 = 1;
const UNIX_DIAG_NAME: u16 = 0;

impl Diagnosis {
    pub(super) fn new() -> io::Result<Diagnosis> {
        let protocol = Some(rustix::net::netlink::SOCK_DIAG);
        let kind = SocketType::RAW;
        let fd = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, protocol)?;
        // The kernel answers within the call; this only bounds surprises.
        sockopt::set_socket_timeout(
            &fd,
            sockopt::Timeout::Recv,
            Some(core::time::Duration::from_millis(200)),
        )?;
        Ok(Diagnosis(fd))
    }

    /// Whether the socket with this inode and cookie exists, has this name and listens.
    pub(super) fn listens(&self, inode: u64, cookie: u64, name: &Name) -> io::Result<bool> {
        let mut b = [0u8; 40];
        b[..4].copy_from_slice(&40u32.to_ne_bytes());
        b[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        b[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
        b[16] = AF_UNIX;
        b[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        b[24..28].copy_from_slice(&(inode as u32).to_ne_bytes());
        b[28..32].copy_from_slice(&UDIAG_SHOW_NAME.to_ne_bytes());
        b[32..36].copy_from_slice(&(cookie as u32).to_ne_bytes());
        b[36..40].copy_from_slice(&((cookie >> 32) as u32).to_ne_bytes());
        send(&self.0, &b, SendFlags::empty())?;
        let mut answer = [MaybeUninit::uninit(); 1024];
        let ((answer, _), _) = recv(&self.0, &mut answer, RecvFlags::empty())?;
        let kind = answer.get(4..6).map(|k| u16::from_ne_bytes([k[0], k[1]]));
        // The message after the header: family, type, state. Anything else is an error: gone.
        let listens = kind == Some(SOCK_DIAG_BY_FAMILY) && answer.get(18) == Some(&TCP_LISTEN);
        Ok(listens && name_in(answer.get(32..).unwrap_or_default()) == Some(name.as_bytes()))
    }
}

/// Of a list of netlink attributes (length, type, value, each padded to four), the name.
fn name_in(mut attributes: &[u8]) -> Option<&[u8]> {
    loop {
        let head: [u8; 4] = attributes.get(..4)?.try_into().ok()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        if u16::from_ne_bytes([head[2], head[3]]) == UNIX_DIAG_NAME {
            return attributes.get(4..len);
        }
        attributes = attributes.get(len.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_the_one_who_called_listen() {
        if !rustix::process::geteuid().is_root() {
            let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(skip, "needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out");
            return;
        }
        let name = Name::service("203.0.113.9:7998".parse().unwrap());
        let from = Name::peer(
            "203.0.113.9:1".parse().unwrap(),
            "203.0.113.9:7998".parse().unwrap(),
            1,
        );
        let addr = SocketAddrUnix::new_abstract_name(&name.as_bytes()[1..]).unwrap();
        let fd = unix_socket().unwrap();
        bind(&fd, &addr).unwrap();
        // A thread of its own, which changes nothing but itself.
        let listens = || {
            let user = rustix::thread::Uid::from_raw(65_534);
            rustix::thread::set_thread_uid(user).unwrap();
            listen(&fd, 1).unwrap();
        };
        std::thread::scope(|s| s.spawn(listens).join().unwrap());
        let dialled = dial(&from, &name).unwrap();
        assert_eq!(listening_user(&dialled), Ok(65_534));
        // Who accepts is told with the marker.
        let accepted = accept(&fd).unwrap().0;
        give(accepted.as_fd(), b"marker").unwrap();
        let mut b = [0; 6];
        let (n, sender) = peek_sender(dialled.as_fd(), &mut b).unwrap();
        let me = Peer {
            uid: 0,
            pid: std::process::id() as i32,
        };
        assert_eq!((n, &b, sender), (6, b"marker", Some(me)));
        assert_eq!(peek_sender(dialled.as_fd(), &mut b), Ok((6, None)));
    }
}
