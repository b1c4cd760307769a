//! The system calls that `rustix` lacks, each behind a safe function: batched sends and receives
//! with preallocated buffers (`crate::batch`), TUN and TAP devices, `signalfd`, `unshare` and a
//! few socket options.
//!
//! Nothing outside this module needs `unsafe` to move a packet.

pub(crate) use crate::batch::ETHERTYPE;
pub use crate::batch::{LinkAddress, RecvBatch, SendBatch, Target};
pub use crate::devices::{RADIOTAP, link_of, open_tap, open_tun, set_tap_link};
pub use crate::schedule::{set_slice, set_urgent};
use core::mem::{size_of, zeroed};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Classic BPF (linux/filter.h).
pub(crate) const BPF_RETURN: u16 = 0x06;

pub(crate) fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Attach a classic BPF program that chooses and cuts the socket's packets.
pub(crate) fn set_filter(fd: impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        // The kernel copies the program and writes nothing.
        filter: program.as_ptr().cast_mut(),
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// Set an integer-like socket option of any plain type.
pub(crate) fn set_option<T: Copy>(
    fd: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe the local `value`, which the kernel only reads.
    let r = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if r == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An integer socket option.
///
/// # Errors
/// What `getsockopt` says.
pub fn get_int(fd: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe the local `value`; the kernel writes at most `len`.
    let r = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    match r {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The socket's packets carry their own IPv4 header.
///
/// # Errors
/// What `setsockopt` says.
pub fn set_header_included(fd: impl AsFd) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_HDRINCL, 1 as libc::c_int)
}

/// Set `SO_MAX_PACING_RATE`, which on AF_UNIX is inert: applications' sockets carry our tag there.
///
/// # Errors
/// What `setsockopt` says.
pub fn set_max_pacing_rate(fd: impl AsFd, value: u64) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, value)
}

/// Read back `SO_MAX_PACING_RATE`.
///
/// # Errors
/// What `getsockopt` says, or `Unsupported` if the kernel gives fewer than 64 bits.
pub fn max_pacing_rate(fd: impl AsFd) -> io::Result<u64> {
    let mut value = 0u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: pointer and length describe the local `value`; the kernel writes at most `len`.
    let r = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    match r {
        0 if len as usize == size_of::<u64>() => Ok(value),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Packets that the socket's full receive buffer has cost so far (`SO_MEMINFO`): the same number
/// as `SO_RXQ_OVFL` carries, without a control message per packet. Wraps at 2^32.
///
/// # Errors
/// What `getsockopt` says.
pub fn receive_drops(fd: impl AsFd) -> io::Result<u32> {
    /// `SK_MEMINFO_DROPS` of linux/sock_diag.h.
    const DROPS: usize = 8;
    Ok(memory(fd)?[DROPS])
}

/// Octets that a socket's packets take of its send buffer, and its size (`SO_MEMINFO`): what
/// `SIOCOUTQ` of a packet socket and `SO_SNDBUF` say, by one call. Each counts with what the kernel
/// keeps beside it (`truesize`).
///
/// # Errors
/// What `getsockopt` says.
pub(crate) fn send_buffer(fd: impl AsFd) -> io::Result<[u32; 2]> {
    /// `SK_MEMINFO_WMEM_ALLOC` and `SK_MEMINFO_SNDBUF` of linux/sock_diag.h.
    const TAKEN: usize = 2;
    const SIZE: usize = 3;
    let memory = memory(fd)?;
    Ok([memory[TAKEN], memory[SIZE]])
}

/// What the kernel counts of a socket's memory, in the order of linux/sock_diag.h.
fn memory(fd: impl AsFd) -> io::Result<[u32; 9]> {
    /// `SO_MEMINFO` of asm-generic/socket.h, Linux 4.12.
    const SO_MEMINFO: libc::c_int = 55;
    let mut info = [0u32; 9];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: pointer and length describe the local array; the kernel writes at most `len`.
    let r = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if r == 0 {
        Ok(info)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bind a packet socket to all packets of the interface with this index, or of every one (0).
///
/// # Errors
/// What `bind` says.
pub fn bind_packets(fd: impl AsFd, interface: i32) -> io::Result<()> {
    bind_link(fd, libc::ETH_P_ALL as u16, interface)
}

/// Bind a packet socket to an interface and a protocol; with protocol 0 it only sends.
///
/// # Errors
/// What `bind` says.
pub fn bind_link(fd: impl AsFd, protocol: u16, interface: i32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::sa_family_t,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: pointer and length describe the local address, which the kernel only reads.
    let r = unsafe {
        libc::bind(
            fd.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if r == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Let a closed pipe at the output end this process quietly, as it does other programs; by default
/// Rust's programs get an error, which printing turns into a panic. Not for programs with sockets.
pub fn end_with_closed_pipe() {
    // SAFETY: it replaces no handler, for Rust only ignores the signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Block `signals` in this thread (and the threads it starts later) and give a descriptor, non-
/// blocking and close-on-exec, from which they can be read.
///
/// # Errors
/// What `pthread_sigmask` and `signalfd` say.
pub fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: `sigemptyset` initialises the set before anybody reads it; `sigaddset`,
    // `pthread_sigmask` and `signalfd` only use the local set.
    let fd = unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        for s in signals {
            if libc::sigaddset(&raw mut set, *s) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let r = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut());
        if r != 0 {
            return Err(io::Error::from_raw_os_error(r));
        }
        libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `signalfd` has just given this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The number of the next signal that waits at a [`signal_fd`].
///
/// # Errors
/// `WouldBlock` if none waits.
pub fn read_signal(fd: impl AsFd) -> io::Result<i32> {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    let n = rustix::io::read(fd, &mut info)?;
    if n < info.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // ssi_signo is the structure's first field.
    Ok(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
}

/// Move this thread alone into a fresh network namespace that goes when its last user goes.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: only the network namespace of this thread changes; no memory or descriptor table is
    // unshared, so no invariant of other threads is touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Move this thread alone into the network namespace behind `fd`.
///
/// # Errors
/// What `setns` says.
pub fn enter_network(fd: impl AsFd) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    move_into_link_name_space(fd.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// Let `command` run in the network namespace behind `fd`, in place of this process's, and hear all
/// signals: a child inherits those that its parent blocks to read them from a descriptor, and most
/// programs never unblock them, so that no Ctrl-C would end it.
pub fn spawn_inside(command: &mut std::process::Command, fd: OwnedFd) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure runs between fork and exec and makes system calls on a descriptor it owns
    // and on a local set: it neither allocates nor takes a lock, so it is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            let mut none = core::mem::MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            let r = libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), core::ptr::null_mut());
            if r != 0 {
                return Err(io::Error::from_raw_os_error(r));
            }
            enter_network(&fd)
        });
    }
}

/// Let `command` start a session of its own, so that the terminal's Ctrl-C does not reach it.
pub fn spawn_detached(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: `setsid` is async-signal-safe; the closure captures nothing and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

/// Let the kernel tell `command`'s process to end (SIGTERM) when the thread that starts it ends, by
/// whatever it does, and also after the process has begun another program.
pub fn spawn_leashed(command: &mut std::process::Command) {
    use rustix::process::{Signal, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt;
    // SAFETY: `prctl` is async-signal-safe; the closure captures nothing and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            Ok(())
        });
    }
}

/// Large buffers come from the kernel as untouched pages and go back to it when they are freed, for
/// good. By itself the C library begins to keep them after the first was freed, and clears each
/// anew when it is asked for zeroes: 8 MiB for a connection whose buffers hold 4 MiB each. Large
/// are the usual 64 KiB, too: an idle connection then costs half and less.
pub fn large_buffers_from_kernel() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator; any value is allowed at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 10);
    }
}

/// Give the kernel back what was freed. Takes some milliseconds where that is much.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers; whatever is in use stays.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Let this thread alone see the mounts of another namespace.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN and CAP_SYS_CHROOT.
pub(crate) fn enter_mounts(namespace: &File) -> io::Result<()> {
    // SAFETY: the thread gets a root and a working directory of its own, which others that have
    // neither read nor set can't tell.
    unsafe { unshare_unsafe(UnshareFlags::FS)? };
    let kind = Some(LinkNameSpaceType::Mount);
    Ok(move_into_link_name_space(namespace.as_fd(), kind)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    fn a_large_buffer_costs_what_is_touched_even_after_others_were_freed() {
        large_buffers_from_kernel();
        for _ in 0..4 {
            drop(std::hint::black_box(vec![1u8; 16 << 20]));
        }
        let before = resident();
        let buffers: Vec<Vec<u8>> = (0..4).map(|_| vec![0; 16 << 20]).collect();
        let grown = resident().saturating_sub(before);
        drop(std::hint::black_box(buffers));
        assert!(grown < 16 << 20, "{grown} bytes for untouched buffers");
    }
}
