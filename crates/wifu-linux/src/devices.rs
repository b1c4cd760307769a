//! TUN and TAP devices, and what kind of interface one is: the ioctls behind [`crate::sys`].

use core::mem::zeroed;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A TUN device without packet information; `name` may hold `%d`. Gives the descriptor
/// (non-blocking, close-on-exec) and the name that the kernel chose. The device lives as long as
/// the descriptor.
///
/// # Errors
/// What `open` and `TUNSETIFF` say; `InvalidInput` if the name has more than 15 octets.
pub fn open_tun(name: &str) -> io::Result<(OwnedFd, String)> {
    open_device(name, libc::IFF_TUN)
}

/// As [`open_tun`], but a TAP device: what is read and written are Ethernet frames. It is made in
/// the calling thread's network namespace.
///
/// # Errors
/// As [`open_tun`].
pub fn open_tap(name: &str) -> io::Result<(OwnedFd, String)> {
    open_device(name, libc::IFF_TAP)
}

fn open_device(name: &str, kind: libc::c_int) -> io::Result<(OwnedFd, String)> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    set_name(&mut request, name)?;
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which is local and initialised.
    let r = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if r != 0 {
        return Err(io::Error::last_os_error());
    }
    let octets = request.ifr_name.iter().take_while(|c| **c != 0);
    let name = octets.map(|c| char::from(*c as u8)).collect();
    Ok((fd, name))
}

/// Link type of interfaces whose frames begin with a radiotap header (linux/if_arp.h).
pub const RADIOTAP: u16 = 803;

/// Give a TAP device, which is down, another link type than Ethernet.
///
/// # Errors
/// What `TUNSETLINK` says; `EBUSY` if the device is up.
pub fn set_tap_link(fd: impl AsFd, kind: u16) -> io::Result<()> {
    let kind = libc::c_ulong::from(kind);
    // SAFETY: TUNSETLINK takes a number in place of a pointer.
    let r = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TUNSETLINK as _, kind) };
    if r == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Link type and link address of an interface, by name, in the namespace of a socket.
///
/// # Errors
/// `ENODEV` if there is none; `InvalidInput` if the name has more than 15 octets.
pub fn link_of(socket: impl AsFd, name: &str) -> io::Result<(u16, [u8; 6])> {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    set_name(&mut request, name)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: SIOCGIFHWADDR reads and writes one ifreq, which is local and initialised.
    let r = unsafe { libc::ioctl(fd, libc::SIOCGIFHWADDR as _, &raw mut request) };
    if r != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled this member in; any octets are a valid sockaddr.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let octets = core::array::from_fn(|i| address.sa_data[i] as u8);
    Ok((address.sa_family, octets))
}

fn set_name(request: &mut libc::ifreq, name: &str) -> io::Result<()> {
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(())
}
