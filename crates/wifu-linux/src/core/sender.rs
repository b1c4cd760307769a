//! What handlers send, by a raw socket: the kernel routes it and finds the neighbour.
//!
//! Such a packet passes the kernel's hooks `output` and `postrouting`, and if rules send it to our
//! queues there, it comes back. Its mark says that it is ours and which handler sent it: nobody is
//! asked about it at `output`, and whoever sent it not at `postrouting`.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sendto, socket_with,
};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use wifu_core::{NO_PACKET, ip};
use wifu_wire::LinkTo;

/// The upper half of our marks ("WF"); the lower is the place of the handler in its chain.
const MARK: u32 = 0x5746_0000;
const PLACE: u32 = 0xFFFF;

/// A socket that sends whole IP packets.
pub(crate) struct Sender {
    socket: OwnedFd,
    /// Whose packets it marks.
    by: Option<usize>,
}

impl Sender {
    /// Needs CAP_NET_RAW; the mark of each packet needs that or CAP_NET_ADMIN, later.
    pub(crate) fn open() -> io::Result<Sender> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // With this protocol, a header comes with each packet, and nothing is received.
        let raw = u32::try_from(libc::IPPROTO_RAW).ok();
        let raw = raw.and_then(core::num::NonZeroU32::new);
        let raw = raw.map(Protocol::from_raw);
        let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, raw)?;
        Ok(Sender { socket, by: None })
    }

    /// Send a packet of the handler at this place.
    ///
    /// # Errors
    /// Why it does not leave.
    pub(crate) fn send(
        &mut self,
        by: usize,
        packet: &[u8],
        to: LinkTo,
    ) -> Result<(), &'static str> {
        if to != LinkTo::Route {
            return Err("sent, but here only along routes");
        }
        if ip::payload(packet).is_none() {
            return Err(NO_PACKET);
        }
        if self.by != Some(by) {
            let mark = MARK | (by as u32 & PLACE);
            let set = crate::sys::set_option(&self.socket, libc::SOL_SOCKET, libc::SO_MARK, mark);
            set.map_err(|_| "sent, but it cannot be marked")?;
            self.by = Some(by);
        }
        let (_, dst) = ip::addresses(packet);
        let sent = sendto(
            &self.socket,
            packet,
            SendFlags::empty(),
            &SocketAddrV4::new(dst, 0),
        );
        sent.map(drop).map_err(reason)
    }
}

/// Which handler of the chain sent the packet with this mark.
pub(crate) fn sent_by(mark: u32) -> Option<usize> {
    (mark & !PLACE == MARK).then_some((mark & PLACE) as usize)
}

fn reason(error: Errno) -> &'static str {
    match error {
        Errno::MSGSIZE | Errno::INVAL => NO_PACKET,
        Errno::NETUNREACH | Errno::HOSTUNREACH => "sent, but no route",
        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => "sent, but the kernel has no room",
        _ => "sent, but the kernel refuses it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_who_sent_a_packet_and_others_marks_say_nothing() {
        assert_eq!(sent_by(MARK | 3), Some(3));
        for others in [0, 3, 0x5747_0003, u32::MAX] {
            assert_eq!(sent_by(others), None);
        }
    }
}
