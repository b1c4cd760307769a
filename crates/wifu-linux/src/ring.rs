//! Packet sockets: a ring of received packets shared with the kernel (TPACKET_V2), and a socket
//! that sends straight to a neighbour on a link.
//!
//! The ring hands packets over one by one, without a copy or a system call in user space. It sees
//! them before the kernel's IP layer does.

use crate::ingress::{PACKET_BROADCAST, Selection};
use crate::sys::{self, LinkAddress};
use core::num::NonZeroU32;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// linux/if_packet.h; the names are the kernel's.
const SOL_PACKET: libc::c_int = 263;
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TPACKET_V2: libc::c_int = 1;
const TP_STATUS_USER: u32 = 1;
/// Offsets in `struct tpacket2_hdr`.
const TP_LEN: usize = 4;
const TP_SNAPLEN: usize = 8;
const TP_NET: usize = 14;
const TP_SEC: usize = 16;
const TP_NSEC: usize = 20;
/// In the `struct sockaddr_ll` that follows it: interface, kind of frame, length of the address,
/// address.
const LL_INTERFACE: usize = 32 + 4;
const LL_KIND: usize = 32 + 10;
const LL_LENGTH: usize = 32 + 11;
const LL_ADDRESS: usize = 32 + 12;
/// What the kernel puts before the network header of a frame: `TPACKET2_HDRLEN`, aligned, and 16.
const FRAME_HEAD: usize = 80;
/// Octets per block of the ring, contiguous in physical memory.
const BLOCK: usize = 128 << 10;

#[repr(C)]
#[derive(Clone, Copy)]
struct TpacketReq {
    block_size: u32,
    block_nr: u32,
    frame_size: u32,
    frame_nr: u32,
}

/// A socket whose received packets lie in memory shared with the kernel.
pub struct PacketRing {
    fd: OwnedFd,
    memory: NonNull<u8>,
    length: usize,
    frame_size: usize,
    frames: usize,
    /// First frame that was handed out and not given back.
    held: usize,
    holding: usize,
    lost: Cell<u64>,
}

// SAFETY: the mapping is private to this value; it may move to another thread as a whole.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Receive what `selection` says, in packets of at most `mtu` octets, through a ring of about
    /// `octets`.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; what the system calls say.
    pub fn open(selection: &Selection, mtu: usize, octets: usize) -> io::Result<PacketRing> {
        // Protocol 0: nothing arrives before the filter and the ring are in place.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?;
        sys::set_filter(&fd, &selection.filter())?;
        sys::set_option(&fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1 as libc::c_int)?;
        sys::set_option(&fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2)?;
        let frame_size = (mtu + FRAME_HEAD).next_power_of_two().max(2048);
        let blocks = octets.div_ceil(BLOCK).max(1);
        let length = blocks * BLOCK;
        let request = TpacketReq {
            block_size: BLOCK as u32,
            block_nr: blocks as u32,
            frame_size: frame_size as u32,
            frame_nr: (length / frame_size) as u32,
        };
        sys::set_option(&fd, SOL_PACKET, PACKET_RX_RING, request)?;
        let memory = map(&fd, length)?;
        let ring = PacketRing {
            fd,
            memory,
            length,
            frame_size,
            frames: length / frame_size,
            held: 0,
            holding: 0,
            lost: Cell::new(0),
        };
        // Of every interface; only a socket for all packets sees them before the interfaces'
        // ingress programs do. Those that the filter chooses arrive from now on.
        sys::bind_packets(&ring.fd, 0)?;
        Ok(ring)
    }

    /// Give back the packets handed out before and find up to `most` new ones; gives how many.
    pub fn take(&mut self, most: usize) -> usize {
        for i in 0..self.holding {
            let frame = (self.held + i) % self.frames;
            // Release: our reads of the frame come before the kernel may write it again.
            self.status(frame).store(0, Ordering::Release);
        }
        self.held = (self.held + self.holding) % self.frames;
        self.holding = 0;
        while self.holding < most.min(self.frames) {
            let frame = (self.held + self.holding) % self.frames;
            // Acquire: our reads of the frame come after the kernel's writes.
            if self.status(frame).load(Ordering::Acquire) & TP_STATUS_USER == 0 {
                break;
            }
            self.holding += 1;
        }
        self.holding
    }

    /// Packet `i` of those just taken, and whether it was longer than a frame.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn packet(&self, i: usize) -> (&[u8], bool) {
        assert!(i < self.holding, "no such packet");
        let start = (self.held + i) % self.frames * self.frame_size;
        let head = self.octets(start, FRAME_HEAD);
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (whole, kept) = (word(TP_LEN) as usize, word(TP_SNAPLEN) as usize);
        let net = usize::from(u16::from_ne_bytes([head[TP_NET], head[TP_NET + 1]]));
        let kept = kept.min(self.frame_size.saturating_sub(net));
        (self.octets(start + net, kept), kept < whole)
    }

    /// When the kernel received packet `i`: nanoseconds since 1970, by the wall clock.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn stamp(&self, i: usize) -> u64 {
        assert!(i < self.holding, "no such packet");
        let start = (self.held + i) % self.frames * self.frame_size;
        let head = self.octets(start, FRAME_HEAD);
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        u64::from(word(TP_SEC)) * 1_000_000_000 + u64::from(word(TP_NSEC))
    }

    /// Who transmitted packet `i`, and on which interface it came; `None` if the link has no
    /// Ethernet addresses.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn transmitter(&self, i: usize) -> Option<LinkAddress> {
        assert!(i < self.holding, "no such packet");
        let start = (self.held + i) % self.frames * self.frame_size;
        let head = self.octets(start, FRAME_HEAD);
        let octets = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let mut mac = [0; 6];
        mac.copy_from_slice(&head[LL_ADDRESS..LL_ADDRESS + 6]);
        (head[LL_LENGTH] == 6).then_some(LinkAddress {
            interface: i32::from_ne_bytes(octets(LL_INTERFACE)),
            mac,
        })
    }

    /// Whether packet `i` came in a frame to all stations of its link.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn is_to_all(&self, i: usize) -> bool {
        assert!(i < self.holding, "no such packet");
        let start = (self.held + i) % self.frames * self.frame_size;
        u32::from(self.octets(start, FRAME_HEAD)[LL_KIND]) == PACKET_BROADCAST
    }

    /// Packets lost because the ring was full, since it was opened.
    pub fn lost(&self) -> u64 {
        let mut counts = [0u32; 2];
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: pointer and length describe the local array; the kernel writes at most that.
        let r = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                SOL_PACKET,
                PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if r == 0 {
            // Reading resets the kernel's count.
            self.lost.set(self.lost.get() + u64::from(counts[1]));
        }
        self.lost.get()
    }

    fn status(&self, frame: usize) -> &AtomicU32 {
        debug_assert!(frame < self.frames);
        // SAFETY: every frame begins with its status word, aligned to at least 16 octets, inside
        // the mapping, which lives as long as `self`; the kernel changes it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(frame * self.frame_size).cast()) }
    }

    /// Octets of a frame that is ours at present: its status said so, and `take` has not been
    /// called since.
    fn octets(&self, start: usize, length: usize) -> &[u8] {
        assert!(start + length <= self.length, "beyond the ring");
        // SAFETY: inside the mapping, checked above. The kernel does not write a frame between
        // setting TP_STATUS_USER, seen with Acquire, and our reset, which needs `&mut self`.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr().add(start), length) }
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: mapped with this length by `map` and unmapped only here; no slice outlives us.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

fn map(fd: &OwnedFd, length: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh shared mapping of the ring at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A socket that sends IPv4 packets to stations on links and receives nothing.
///
/// # Errors
/// `PermissionDenied` without CAP_NET_RAW.
pub fn open_link_sender() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::PACKET,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

/// A route socket to ask the kernel about routes and neighbours.
///
/// # Errors
/// What `socket` says.
pub fn open_netlink() -> io::Result<OwnedFd> {
    // NETLINK_ROUTE is protocol 0: the default.
    let none: Option<Protocol> = NonZeroU32::new(0).map(Protocol::from_raw);
    Ok(socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        none,
    )?)
}
