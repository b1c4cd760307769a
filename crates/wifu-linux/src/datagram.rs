//! Datagrams with the addresses of both their ends, many per system call.
//!
//! A call takes or gives many messages (`recvmmsg`, `sendmmsg`), and where the kernel can cut
//! (`UDP_SEGMENT`, Linux 4.18) and join (`UDP_GRO`, Linux 5.0) datagrams, a message is a *group* of
//! them: alike in ends and length, only the last one may be shorter. On the wire they are as they
//! would be without that.

use core::mem::{size_of, size_of_val, zeroed};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::Range;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use wifu_wire::{Ecn, over_udp};

/// Datagrams of a group at most (`UDP_MAX_SEGMENTS` of older kernels), and their octets.
const GROUP: usize = 64;
const GROUP_OCTETS: usize = 65_000;

/// What the kernel is told of messages and tells of them. The pointers in it are written before
/// each call and not followed after it.
pub(crate) struct Heads<N, B> {
    pub(crate) heads: Box<[libc::mmsghdr]>,
    pub(crate) vectors: Box<[libc::iovec]>,
    pub(crate) names: Box<[N]>,
    beside: Box<[B]>,
}

// SAFETY: nobody follows the pointers inside between calls, and each call has `&mut self`.
unsafe impl<N: Send, B: Send> Send for Heads<N, B> {}

impl<N: Copy, B: Copy> Heads<N, B> {
    /// For so many messages with so many vectors together.
    pub(crate) fn new(count: usize, vectors: usize, name: N, beside: B) -> Self {
        let vector = libc::iovec {
            iov_base: core::ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: all-zero is valid for this structure of integers and null pointers.
        let head = unsafe { zeroed() };
        Heads {
            heads: vec![head; count].into(),
            vectors: vec![vector; vectors].into(),
            names: vec![name; count].into(),
            beside: vec![beside; count].into(),
        }
    }

    /// Let head `i` point at its name, at these vectors, and at so much of what is beside.
    pub(crate) fn point(&mut self, i: usize, vectors: Range<usize>, beside: usize) {
        let head = &mut self.heads[i].msg_hdr;
        head.msg_name = (&raw mut self.names[i]).cast();
        head.msg_namelen = size_of::<N>() as libc::socklen_t;
        head.msg_iovlen = vectors.len() as _;
        head.msg_iov = self.vectors[vectors].as_mut_ptr();
        head.msg_control = (&raw mut self.beside[i]).cast();
        head.msg_controllen = beside as _;
        head.msg_flags = 0;
    }
}

/// A message that came: datagrams of `each` octets, of which the last one may have fewer.
#[derive(Clone, Copy)]
struct Came {
    len: usize,
    each: usize,
    /// There were more octets.
    cut: bool,
    from: SocketAddrV4,
    /// The address of this host that it was sent to.
    to: Ipv4Addr,
    ttl: u8,
    ecn: Ecn,
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) octets: &'a [u8],
    /// There were more.
    pub(crate) cut: bool,
    pub(crate) from: SocketAddrV4,
    /// The address of this host that it was sent to.
    pub(crate) to: Ipv4Addr,
    pub(crate) ttl: u8,
    pub(crate) ecn: Ecn,
}

/// Room for what the kernel says beside a message: its address, its TTL, its ECN field, how it was
/// joined: of datagrams whose ECN field is the same.
type Beside = [u64; 13];

/// Takes datagrams from a socket with `IP_PKTINFO`, `IP_RECVTTL` and `IP_RECVTOS`.
pub(crate) struct Receiver {
    heads: Heads<libc::sockaddr_in, Beside>,
    octets: Box<[u8]>,
    /// Room of each message.
    size: usize,
    came: Vec<Came>,
    /// The message and the octet in it at which the next datagram begins.
    at: (usize, usize),
}

impl Receiver {
    /// For so many messages of `size` octets per call.
    pub(crate) fn new(count: usize, size: usize) -> Receiver {
        // SAFETY: all-zero is valid for this structure of integers.
        let name = unsafe { zeroed() };
        Receiver {
            heads: Heads::new(count, count, name, [0; 13]),
            octets: vec![0; count * size].into(),
            size,
            came: Vec::with_capacity(count),
            at: (0, 0),
        }
    }

    /// Take what waits, without blocking, in place of what was there. True if there may be more.
    ///
    /// # Errors
    /// What `recvmmsg` says; `WouldBlock` if nothing waits.
    pub(crate) fn receive(&mut self, fd: impl AsFd) -> io::Result<bool> {
        self.came.clear();
        self.at = (0, 0);
        let count = self.heads.heads.len();
        for (i, room) in self.octets.chunks_exact_mut(self.size).enumerate() {
            self.heads.vectors[i] = libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            };
            self.heads.point(i, i..i + 1, size_of::<Beside>());
        }
        // SAFETY: each head points at a name, a vector and room beside, all its own, and the vector
        // at `size` octets of `octets`; all live in `self`, which `&mut self` makes ours alone.
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
            let came = self.account(i);
            self.came.push(came);
        }
        Ok(got == count)
    }

    /// What the kernel says of message `i`, which has just come.
    fn account(&self, i: usize) -> Came {
        let head = &self.heads.heads[i];
        let len = (head.msg_len as usize).min(self.size);
        let mut came = Came {
            len,
            each: len,
            cut: head.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            from: sender(&self.heads.names[i]),
            to: Ipv4Addr::UNSPECIFIED,
            ttl: 0,
            ecn: Ecn::NotEct,
        };
        // SAFETY: the kernel has set the length of what it wrote beside the message, which is
        // aligned for these headers and lives still; the macros stay within that length.
        let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const head.msg_hdr) };
        while !at.is_null() {
            // SAFETY: as above; the kernel writes whole messages, and data are read unaligned.
            unsafe {
                let data = libc::CMSG_DATA(at);
                match ((*at).cmsg_level, (*at).cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let info = data.cast::<libc::in_pktinfo>();
                        came.to = from_kernel(info.read_unaligned().ipi_addr);
                    }
                    (libc::IPPROTO_IP, libc::IP_TTL) => {
                        let ttl = data.cast::<libc::c_int>().read_unaligned();
                        came.ttl = u8::try_from(ttl).unwrap_or(0);
                    }
                    (libc::IPPROTO_IP, libc::IP_TOS) => came.ecn = Ecn::of(data.read()),
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let each = data.cast::<libc::c_int>().read_unaligned();
                        came.each = usize::try_from(each).unwrap_or(0);
                    }
                    _ => {}
                }
                at = libc::CMSG_NXTHDR(&raw const head.msg_hdr, at);
            }
        }
        came
    }

    /// Whether there is another datagram of those that were taken.
    pub(crate) fn holds(&self) -> bool {
        self.at.0 < self.came.len()
    }

    /// The next datagram of those that were taken.
    pub(crate) fn next(&mut self) -> Option<Datagram<'_>> {
        let (i, from) = self.at;
        let came = *self.came.get(i)?;
        // None is empty but one that is alone.
        let to = came.len.min(from + came.each.max(1));
        self.at = if to < came.len { (i, to) } else { (i + 1, 0) };
        Some(Datagram {
            octets: &self.octets[i * self.size..][from..to],
            cut: came.cut && to == came.len,
            from: came.from,
            to: came.to,
            ttl: came.ttl,
            ecn: came.ecn,
        })
    }
}

/// A control message that names the own address, as `CMSG_DATA` and its like lay it out.
#[derive(Clone, Copy)]
#[repr(C)]
struct Source {
    head: libc::cmsghdr,
    info: libc::in_pktinfo,
}

/// One that says what the IP header's second octet is.
#[derive(Clone, Copy)]
#[repr(C)]
struct Service {
    head: libc::cmsghdr,
    octet: libc::c_int,
}

/// One that says how long the datagrams of a group are.
#[derive(Clone, Copy)]
#[repr(C)]
struct Segment {
    head: libc::cmsghdr,
    octets: u16,
}

/// All; a message of one datagram has the first two alone.
#[derive(Clone, Copy)]
#[repr(C)]
struct All {
    source: Source,
    service: Service,
    segment: Segment,
}

/// A datagram to be sent: octets of a header, if it has one of ours, and what follows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) shim: Option<[u8; SHIM]>,
    pub(crate) rest: &'a [u8],
    /// An address of this host.
    pub(crate) from: Ipv4Addr,
    pub(crate) to: SocketAddrV4,
    pub(crate) ecn: Ecn,
}

/// Octets of such a header.
const SHIM: usize = over_udp::HEADER;

impl Outgoing<'_> {
    fn len(&self) -> usize {
        self.shim.map_or(0, |shim| shim.len()) + self.rest.len()
    }
}

/// Sends datagrams from addresses of this host.
pub(crate) struct Sender {
    heads: Heads<libc::sockaddr_in, All>,
    shims: Box<[[u8; SHIM]]>,
    /// Datagrams of each message.
    counts: Vec<usize>,
}

/// The message that datagrams join.
struct Open {
    from: Ipv4Addr,
    to: SocketAddrV4,
    ecn: Ecn,
    /// Octets of each but the last one, and of all.
    each: usize,
    octets: usize,
    closed: bool,
}

impl Open {
    fn joins(&self, d: &Outgoing<'_>, count: usize) -> bool {
        let len = d.len();
        let ends = (self.from, self.to, self.ecn) == (d.from, d.to, d.ecn);
        let alike = ends && len <= self.each;
        alike && !self.closed && count < GROUP && self.octets + len <= GROUP_OCTETS
    }
}

impl Sender {
    /// For so many datagrams per call.
    pub(crate) fn new(count: usize) -> Sender {
        // SAFETY: all-zero is valid for these structures of integers.
        let (name, all) = unsafe { (zeroed(), zeroed()) };
        Sender {
            heads: Heads::new(count, 2 * count, name, all),
            shims: vec![[0; SHIM]; count].into(),
            counts: Vec::with_capacity(count),
        }
    }

    /// Datagrams of the first message of the last call.
    pub(crate) fn first(&self) -> usize {
        self.counts.first().copied().unwrap_or(0)
    }

    /// Send these, without blocking, `grouped` or each by itself; gives how many were taken.
    ///
    /// # Errors
    /// What the kernel says of the first message; `WouldBlock` if there is no room.
    ///
    /// # Panics
    /// If there are none, or more than there is room for.
    pub(crate) fn send<'a>(
        &mut self,
        fd: impl AsFd,
        datagrams: impl Iterator<Item = Outgoing<'a>>,
        grouped: bool,
    ) -> io::Result<usize> {
        self.counts.clear();
        let mut open: Option<Open> = None;
        for (n, d) in datagrams.enumerate() {
            let at = self.counts.len();
            let count = self.counts.last().copied().unwrap_or(0);
            let len = d.len();
            match &mut open {
                Some(open) if grouped && open.joins(&d, count) => {
                    open.octets += len;
                    open.closed = len < open.each;
                    self.counts[at - 1] = count + 1;
                }
                _ => {
                    open = Some(Open {
                        from: d.from,
                        to: d.to,
                        ecn: d.ecn,
                        each: len,
                        octets: len,
                        closed: false,
                    });
                    self.begin(&d);
                }
            }
            self.shims[n] = d.shim.unwrap_or_default();
            self.heads.vectors[2 * n] = libc::iovec {
                iov_base: self.shims[n].as_mut_ptr().cast(),
                iov_len: len - d.rest.len(),
            };
            self.heads.vectors[2 * n + 1] = libc::iovec {
                iov_base: d.rest.as_ptr().cast_mut().cast(),
                iov_len: d.rest.len(),
            };
        }
        let mut next = 0;
        for (i, count) in self.counts.iter().enumerate() {
            let beside = match count {
                1 => core::mem::offset_of!(All, segment),
                _ => size_of::<All>(),
            };
            let vectors = next..next + 2 * count;
            next = vectors.end;
            self.heads.point(i, vectors, beside);
        }
        assert!(!self.counts.is_empty(), "nothing to send");
        // SAFETY: each head points at its name, its vectors and what is beside it, of which the
        // lengths were set; the vectors point at shims of `self` and at octets that live for `'a`,
        // beyond the call, in which the kernel only reads.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_fd().as_raw_fd(),
                self.heads.heads.as_mut_ptr(),
                self.counts.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        Ok(self.counts[..sent].iter().sum())
    }

    /// Another message, for now of one datagram.
    fn begin(&mut self, d: &Outgoing<'_>) {
        let at = self.counts.len();
        self.counts.push(1);
        self.heads.names[at] = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: d.to.port().to_be(),
            sin_addr: to_kernel(*d.to.ip()),
            sin_zero: [0; 8],
        };
        let All {
            source,
            service,
            segment,
        } = &mut self.heads.beside[at];
        source.head.cmsg_level = libc::IPPROTO_IP;
        source.head.cmsg_type = libc::IP_PKTINFO;
        source.head.cmsg_len = length_of(&source.info);
        source.info.ipi_spec_dst = to_kernel(d.from);
        service.head.cmsg_level = libc::IPPROTO_IP;
        service.head.cmsg_type = libc::IP_TOS;
        service.head.cmsg_len = length_of(&service.octet);
        service.octet = libc::c_int::from(d.ecn as u8);
        segment.head.cmsg_level = libc::SOL_UDP;
        segment.head.cmsg_type = libc::UDP_SEGMENT;
        segment.head.cmsg_len = length_of(&segment.octets);
        // No IP packet is longer.
        segment.octets = d.len() as u16;
    }
}

/// The length of a control message with this in it.
fn length_of<T>(data: &T) -> usize {
    // SAFETY: it only computes a length.
    unsafe { libc::CMSG_LEN(size_of_val(data) as libc::c_uint) as usize }
}

fn sender(name: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(from_kernel(name.sin_addr), u16::from_be(name.sin_port))
}

fn from_kernel(address: libc::in_addr) -> Ipv4Addr {
    Ipv4Addr::from(u32::from_be(address.s_addr))
}

fn to_kernel(address: Ipv4Addr) -> libc::in_addr {
    libc::in_addr {
        s_addr: u32::from(address).to_be(),
    }
}
