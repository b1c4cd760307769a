//! Frames that a radio hears although they are for other stations.

use crate::sys::{self, BPF_RETURN, RecvBatch, instruction};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_wire::Neighbour;

/// linux/if_packet.h; the names are the kernel's.
const SOL_PACKET: libc::c_int = 263;
const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_MR_PROMISC: u16 = 1;
const PACKET_OTHERHOST: u32 = 3;
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Frames taken by one call.
const FRAMES: usize = 32;

#[repr(C)]
#[derive(Clone, Copy)]
struct PacketMreq {
    interface: i32,
    kind: u16,
    address_length: u16,
    address: [u8; 8],
}

/// Notices when an interface goes down or away: its socket says so once, and nothing after that.
pub(crate) struct Silence {
    pub(crate) device: String,
    /// It is so, and no frame came since.
    pub(crate) lasts: bool,
    told: bool,
}

impl Silence {
    pub(crate) fn new(device: &str) -> Silence {
        Silence {
            device: device.to_owned(),
            lasts: false,
            told: false,
        }
    }

    /// How many frames came, of what a socket gave.
    pub(crate) fn note(&mut self, came: io::Result<usize>) -> usize {
        match came {
            Ok(n) => {
                self.lasts &= n == 0;
                return n;
            }
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                _ => {
                    self.lasts = true;
                    if !std::mem::replace(&mut self.told, true) {
                        tracing::warn!("{} is silent from now on: {e}", self.device);
                    }
                }
            },
        }
        0
    }
}

/// Listens on one interface. It leaves promiscuous mode when this is dropped.
pub(crate) struct Ear {
    fd: OwnedFd,
    batch: RecvBatch,
    silence: Silence,
    /// Number of the interface.
    device: u16,
}

impl Ear {
    /// Listen on an interface, by name.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; an unknown interface.
    pub(crate) fn open(device: &str) -> io::Result<Ear> {
        // Protocol 0: nothing arrives before the filter is in place.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let interface = netdevice::name_to_index(&fd, device)? as i32;
        sys::set_filter(&fd, &filter())?;
        sys::bind_packets(&fd, interface)?;
        let request = PacketMreq {
            interface,
            kind: PACKET_MR_PROMISC,
            address_length: 0,
            address: [0; 8],
        };
        sys::set_option(&fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)?;
        let batch = RecvBatch::new(FRAMES, 1 << 16);
        Ok(Ear {
            fd,
            batch,
            silence: Silence::new(device),
            device: u16::try_from(interface).unwrap_or(0),
        })
    }

    /// Whether the interface is there.
    pub(crate) fn silence(&self) -> &Silence {
        &self.silence
    }

    /// Take what waits, and call `each` with the transmitter and the packet from
    /// its IP header on. Gives how many.
    pub(crate) fn listen(&mut self, mut each: impl FnMut(Option<Neighbour>, &[u8])) -> usize {
        // A receive buffer that was full costs frames, which an overhearer must be able to miss.
        let n = self.silence.note(self.batch.receive(&self.fd));
        for i in 0..n {
            let (frame, cut) = self.batch.message(i);
            if cut || frame.len() <= ETHERNET {
                continue;
            }
            let mut mac = [0; 6];
            mac.copy_from_slice(&frame[6..12]);
            each(Neighbour::new(self.device, mac), &frame[ETHERNET..]);
        }
        n
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// IPv4 packets to other stations.
fn filter() -> [libc::sock_filter; 6] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    // linux/filter.h: SKF_AD_OFF and below it PROTOCOL, PKTTYPE.
    let ancillary = |field: i32| (-0x1000 + field) as u32;
    [
        instruction(LOAD_WORD, 0, 0, ancillary(4)),
        instruction(JUMP_EQUAL, 0, 3, PACKET_OTHERHOST),
        instruction(LOAD_WORD, 0, 0, ancillary(0)),
        instruction(JUMP_EQUAL, 0, 1, libc::ETH_P_IP as u32),
        instruction(BPF_RETURN, 0, 0, u32::from(u16::MAX)),
        instruction(BPF_RETURN, 0, 0, 0),
    ]
}
