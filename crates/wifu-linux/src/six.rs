//! Packets of IPv6 out of raw sockets. Those give what follows the headers, and tell what was in
//! them beside (RFC 3542): a header is made of that, so that everybody sees whole packets. What the
//! kernel has put together or walked over is not in it.

use crate::datagram::Heads;
use crate::sys;
use core::mem::{size_of, zeroed};
use core::net::Ipv6Addr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use wifu_wire::ipv6::{self, HEADER};
use wifu_wire::{Ecn, IpInfo};

/// linux/in6.h
const IPV6_HDRINCL: libc::c_int = 36;

/// Room for what the kernel says beside a packet: its destination, hop limit and traffic class.
type Beside = [u64; 13];

/// Make a raw socket of IPv6 one whose packets are sent with their headers, and told beside when
/// they come.
///
/// # Errors
/// What `setsockopt` says.
pub(crate) fn prepare(fd: impl AsFd) -> io::Result<()> {
    for option in [
        IPV6_HDRINCL,
        libc::IPV6_RECVPKTINFO,
        libc::IPV6_RECVHOPLIMIT,
        libc::IPV6_RECVTCLASS,
    ] {
        sys::set_option(fd.as_fd(), libc::IPPROTO_IPV6, option, 1 as libc::c_int)?;
    }
    Ok(())
}

/// Receive buffers for such sockets.
pub(crate) struct SixBatch {
    heads: Heads<libc::sockaddr_in6, Beside>,
    octets: Box<[u8]>,
    /// Room of each packet, its header included.
    size: usize,
}

impl SixBatch {
    /// Room for `count` packets, each of which has at most `size` octets behind its headers.
    pub(crate) fn new(count: usize, size: usize) -> SixBatch {
        // SAFETY: all-zero is valid for this structure of integers.
        let name = unsafe { zeroed() };
        SixBatch {
            heads: Heads::new(count, count, name, [0; 13]),
            octets: vec![0; count * (HEADER + size)].into(),
            size: HEADER + size,
        }
    }

    /// How many packets one call takes at most.
    pub(crate) fn capacity(&self) -> usize {
        self.heads.heads.len()
    }

    /// Take what waits at a socket of this protocol number, without blocking; gives the number of
    /// packets now in the buffers.
    ///
    /// # Errors
    /// What `recvmmsg` says; `WouldBlock` if nothing waits.
    pub(crate) fn receive(&mut self, fd: impl AsFd, number: u8) -> io::Result<usize> {
        let count = self.capacity();
        for (i, room) in self.octets.chunks_exact_mut(self.size).enumerate() {
            let room = &mut room[HEADER..];
            self.heads.vectors[i] = libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            };
            self.heads.point(i, i..i + 1, size_of::<Beside>());
        }
        // SAFETY: each head points at a name, a vector and room beside, all its own, and the vector
        // at octets of its own; all live in `self`, which `&mut self` makes ours alone.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_fd().as_raw_fd(),
                self.heads.heads.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
                core::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        for i in 0..got {
            let info = self.account(i, number);
            let len = self.length(i) - HEADER;
            ipv6::emit(&info, len, &mut self.octets[i * self.size..]);
        }
        Ok(got)
    }

    fn length(&self, i: usize) -> usize {
        HEADER + (self.heads.heads[i].msg_len as usize).min(self.size - HEADER)
    }

    /// What the kernel says of packet `i`, which has just come.
    fn account(&self, i: usize, number: u8) -> IpInfo<Ipv6Addr> {
        let head = &self.heads.heads[i].msg_hdr;
        let mut info = IpInfo {
            src: Ipv6Addr::from(self.heads.names[i].sin6_addr.s6_addr),
            dst: Ipv6Addr::UNSPECIFIED,
            proto: number,
            ttl: 0,
            ecn: Ecn::NotEct,
        };
        // SAFETY: the kernel has set the length of what it wrote beside the message, which is
        // aligned for these headers and lives still; the macros stay within that length.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(head) };
        while !at.is_null() {
            // SAFETY: as above; the kernel writes whole messages, and data are read unaligned.
            unsafe {
                let data = libc::CMSG_DATA(at);
                let number = || data.cast::<libc::c_int>().read_unaligned();
                match ((*at).cmsg_level, (*at).cmsg_type) {
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let told = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        info.dst = Ipv6Addr::from(told.ipi6_addr.s6_addr);
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                        info.ttl = u8::try_from(number()).unwrap_or(0);
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        info.ecn = Ecn::of(number() as u8);
                    }
                    _ => {}
                }
                at = libc::CMSG_NXTHDR(head, at);
            }
        }
        info
    }

    /// Packet `i`, and whether it was cut because it was longer than the buffer.
    ///
    /// # Panics
    /// If `i` is not below the capacity.
    pub(crate) fn packet(&self, i: usize) -> (&[u8], bool) {
        let cut = self.heads.heads[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        (&self.octets[i * self.size..][..self.length(i)], cut)
    }
}
