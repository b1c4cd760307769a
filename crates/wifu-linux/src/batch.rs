//! Messages in batches, to and from the kernel: `recvmmsg` and `sendmmsg` over buffers that are
//! allocated once.

use core::mem::{size_of, zeroed};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;
use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A fixed-length heap array that is reached through one raw pointer, so that addresses stored in
/// kernel structures stay valid while the owner moves or lends out parts of it.
struct Fixed<T>(NonNull<[T]>);

// SAFETY: a `Fixed` owns its elements like a `Box<[T]>`; the pointer is never shared.
unsafe impl<T: Send> Send for Fixed<T> {}

impl<T> Fixed<T> {
    fn new(items: impl Iterator<Item = T>) -> Fixed<T> {
        let boxed: Box<[T]> = items.collect();
        let raw = Box::into_raw(boxed);
        // SAFETY: `Box::into_raw` never gives a null pointer.
        Fixed(unsafe { NonNull::new_unchecked(raw) })
    }

    fn base(&self) -> *mut T {
        self.0.as_ptr().cast()
    }

    fn slice(&self) -> &[T] {
        // SAFETY: the pointer comes from a live Box; `&self` forbids writes through `slice_mut`.
        unsafe { self.0.as_ref() }
    }

    fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: the pointer comes from a live Box, and `&mut self` makes the access unique.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Fixed<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new` and freed only here.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Buffers and headers for up to `count` messages of `size` octets each, allocated once.
struct Messages {
    bytes: Fixed<u8>,
    vectors: Fixed<libc::iovec>,
    names: Fixed<libc::sockaddr_storage>,
    headers: Fixed<libc::mmsghdr>,
    size: usize,
}

// SAFETY: the raw pointers inside `vectors` and `headers` point only into the sibling arrays, which
// move along with them and are owned by the same value.
unsafe impl Send for Messages {}

impl Messages {
    fn new(count: usize, size: usize, named: bool) -> Messages {
        let bytes = Fixed::new(std::iter::repeat_n(0u8, count * size));
        let vectors = Fixed::new((0..count).map(|i| libc::iovec {
            iov_base: bytes.base().wrapping_add(i * size).cast(),
            iov_len: size,
        }));
        // SAFETY: all-zero is a valid sockaddr_storage.
        let empty = || unsafe { zeroed::<libc::sockaddr_storage>() };
        let names = Fixed::new((0..count).map(|_| empty()));
        let headers = Fixed::new((0..count).map(|i| {
            // SAFETY: all-zero is a valid mmsghdr: null pointers with zero lengths.
            let mut h: libc::mmsghdr = unsafe { zeroed() };
            h.msg_hdr.msg_iov = vectors.base().wrapping_add(i);
            h.msg_hdr.msg_iovlen = 1;
            if named {
                h.msg_hdr.msg_name = names.base().wrapping_add(i).cast();
            }
            h
        }));
        Messages {
            bytes,
            vectors,
            names,
            headers,
            size,
        }
    }

    fn count(&self) -> usize {
        self.headers.slice().len()
    }
}

/// Receive buffers for `recvmmsg`.
pub struct RecvBatch(Messages);

impl RecvBatch {
    /// Room for `count` messages of at most `size` octets.
    pub fn new(count: usize, size: usize) -> RecvBatch {
        RecvBatch(Messages::new(count, size, false))
    }

    /// How many messages one call takes at most.
    pub fn capacity(&self) -> usize {
        self.0.count()
    }

    /// Take what waits, without blocking; gives the number of messages now in the buffers.
    ///
    /// # Errors
    /// What `recvmmsg` says; `WouldBlock` if nothing waits.
    pub fn receive(&mut self, fd: impl AsFd) -> io::Result<usize> {
        let m = &mut self.0;
        let n = m.count() as libc::c_uint;
        // SAFETY: every header points at one iovec, which points at `size` owned octets of
        // `bytes`; the arrays live as long as `self`, and `&mut self` keeps others away from them.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_fd().as_raw_fd(),
                m.headers.base(),
                n,
                libc::MSG_DONTWAIT,
                core::ptr::null_mut(),
            )
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// The message in buffer `i` and whether it was cut because it was longer than the buffer.
    ///
    /// # Panics
    /// If `i` is not below the capacity.
    pub fn message(&self, i: usize) -> (&[u8], bool) {
        let h = &self.0.headers.slice()[i];
        let len = (h.msg_len as usize).min(self.0.size);
        let cut = h.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        (&self.0.bytes.slice()[i * self.0.size..][..len], cut)
    }

    /// Read one packet into buffer `i` by `read`, for descriptors that are no sockets.
    ///
    /// # Errors
    /// What `read` says.
    ///
    /// # Panics
    /// If `i` is not below the capacity.
    pub fn read_into(&mut self, fd: impl AsFd, i: usize) -> io::Result<()> {
        self.fill(i, |buffer| Ok((rustix::io::read(fd, buffer)?, false)))?;
        Ok(())
    }

    /// Let `read` fill buffer `i`; it gives how many octets there are, and whether there were
    /// more. Gives the first of these.
    ///
    /// # Errors
    /// What `read` says.
    ///
    /// # Panics
    /// If `i` is not below the capacity.
    pub fn fill(
        &mut self,
        i: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<(usize, bool)>,
    ) -> io::Result<usize> {
        let size = self.0.size;
        let (n, cut) = read(&mut self.0.bytes.slice_mut()[i * size..][..size])?;
        let h = &mut self.0.headers.slice_mut()[i];
        h.msg_len = n as libc::c_uint;
        h.msg_hdr.msg_flags = if cut { libc::MSG_TRUNC } else { 0 };
        Ok(n)
    }
}

/// Send buffers for `sendmmsg`, and which octets of each are its message.
pub struct SendBatch(Messages, Fixed<Range<usize>>);

impl SendBatch {
    /// Room for `count` messages of at most `size` octets.
    pub fn new(count: usize, size: usize) -> SendBatch {
        let octets = Fixed::new(std::iter::repeat_n(0..0, count));
        SendBatch(Messages::new(count, size, true), octets)
    }

    /// How many messages fit.
    pub fn capacity(&self) -> usize {
        self.0.count()
    }

    /// The whole buffer of message `i`.
    ///
    /// # Panics
    /// If `i` is not below the capacity.
    pub fn buffer(&mut self, i: usize) -> &mut [u8] {
        let size = self.0.size;
        &mut self.0.bytes.slice_mut()[i * size..][..size]
    }

    /// Message `i` shall be these octets of its buffer, sent to `to`.
    ///
    /// # Panics
    /// If `i` is not below the capacity or the octets are not within the buffer.
    pub fn set(&mut self, i: usize, octets: Range<usize>, to: Target) {
        let size = self.0.size;
        assert!(
            octets.start <= octets.end && octets.end <= size,
            "beyond the buffer"
        );
        let from = self.0.bytes.base().wrapping_add(i * size + octets.start);
        self.0.vectors.slice_mut()[i] = libc::iovec {
            iov_base: from.cast(),
            iov_len: octets.len(),
        };
        self.1.slice_mut()[i] = octets;
        let name = &raw mut self.0.names.slice_mut()[i];
        let length = match to {
            Target::Ip(to) => {
                // SAFETY: a sockaddr_storage is large and aligned enough for every address, and
                // `name` points to one that `&mut self` makes ours alone.
                unsafe { name.cast::<libc::sockaddr_in>().write(address(to)) };
                size_of::<libc::sockaddr_in>()
            }
            Target::Six(to) => {
                // SAFETY: as above.
                unsafe { name.cast::<libc::sockaddr_in6>().write(address6(to)) };
                size_of::<libc::sockaddr_in6>()
            }
            Target::Link(to) => {
                // SAFETY: as above.
                unsafe { name.cast::<libc::sockaddr_ll>().write(link_address(to)) };
                size_of::<libc::sockaddr_ll>()
            }
        };
        self.0.headers.slice_mut()[i].msg_hdr.msg_namelen = length as libc::socklen_t;
    }

    /// The octets of message `i`.
    ///
    /// # Panics
    /// If `i` is not below the capacity.
    pub fn message(&self, i: usize) -> &[u8] {
        let octets = self.1.slice()[i].clone();
        &self.0.bytes.slice()[i * self.0.size..][octets]
    }

    /// Send messages `from..to` without blocking; gives how many the kernel took.
    ///
    /// # Errors
    /// The error of the first message, if not even that was taken.
    ///
    /// # Panics
    /// If the range is empty or ends beyond the capacity.
    pub fn send(&mut self, fd: impl AsFd, from: usize, to: usize) -> io::Result<usize> {
        let m = &mut self.0;
        assert!(from < to && to <= m.count(), "no such messages");
        // SAFETY: `from..to` lies inside `headers`; each header points at one iovec and one
        // address, and those into `bytes`, with lengths that `set` checked. All live in `self`.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_fd().as_raw_fd(),
                m.headers.base().add(from),
                (to - from) as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// A station on a link: an interface and a hardware address there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// Index of the interface.
    pub interface: i32,
    /// The station's Ethernet address.
    pub mac: [u8; 6],
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Through an IPv4 socket, by the kernel's routes.
    Ip(Ipv4Addr),
    /// Through an IPv6 socket, by the kernel's routes.
    Six(Ipv6Addr),
    /// Through a packet socket, to this station.
    Link(LinkAddress),
}

/// EtherType of IPv4 in network order, as packet sockets want it.
pub(crate) const ETHERTYPE: u16 = (libc::ETH_P_IP as u16).to_be();

fn address(to: Ipv4Addr) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(to).to_be(),
        },
        sin_zero: [0; 8],
    }
}

/// To an address that needs no scope. The port of a raw socket's packets is none.
fn address6(to: Ipv6Addr) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr {
            s6_addr: to.octets(),
        },
        sin6_scope_id: 0,
    }
}

fn link_address(to: LinkAddress) -> libc::sockaddr_ll {
    let mut octets = [0; 8];
    octets[..6].copy_from_slice(&to.mac);
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::sa_family_t,
        sll_protocol: ETHERTYPE,
        sll_ifindex: to.interface,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: octets,
    }
}
