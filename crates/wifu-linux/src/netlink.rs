//! Requests to the kernel by netlink, and its answers.

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;

/// linux/netlink.h; the names are the kernel's.
const NETLINK_GENERIC: u32 = 16;
const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// What says that an attribute holds others, or is in network order.
const NLA_TYPE_MASK: u16 = 0x3FFF;
/// Octets of a message's header.
const HEADER: usize = 16;

/// A socket by which the kernel is asked.
pub(crate) struct Netlink {
    fd: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// For routes, links and neighbours of this thread's network namespace.
    ///
    /// # Errors
    /// What `socket` says.
    pub(crate) fn route() -> io::Result<Netlink> {
        let fd = crate::ring::open_netlink()?;
        Ok(Netlink { fd, sequence: 0 })
    }

    /// For families that have names, of this thread's network namespace.
    ///
    /// # Errors
    /// What `socket` says.
    pub(crate) fn generic() -> io::Result<Netlink> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            core::num::NonZeroU32::new(NETLINK_GENERIC).map(Protocol::from_raw),
        )?;
        Ok(Netlink { fd, sequence: 0 })
    }

    /// Ask for all objects of a kind; `each` gets the body of every answer.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn dump(
        &mut self,
        kind: u16,
        wanted: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let (n, _) = rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty())?;
            for message in Messages(&buffer[..n]) {
                let message = message?;
                match message.kind() {
                    _ if !self.is_answer(message.0) => {}
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return Err(error_of(message.body())),
                    kind if kind == wanted => each(message.body()),
                    _ => {}
                }
            }
        }
    }

    /// One request; gives the length of the message that answers it.
    ///
    /// # Errors
    /// What the kernel or the system calls say.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        reply: &mut [u8],
    ) -> io::Result<usize> {
        self.send(kind, NLM_F_REQUEST | flags, body)?;
        let n = self.answer(reply)?;
        let answer = &reply[..n];
        match answer.get(4..6) == Some(&NLMSG_ERROR.to_ne_bytes()) {
            true if answer[HEADER..].first_chunk() != Some(&[0; 4]) => {
                Err(error_of(&answer[HEADER..]))
            }
            _ => Ok(n),
        }
    }

    /// The number of a device where the socket is.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn index(&self, device: &str) -> io::Result<i32> {
        Ok(rustix::net::netdevice::name_to_index(&self.fd, device)? as i32)
    }

    /// Receive the answer to what was sent; gives its length. The kernel answers such requests
    /// before `send` returns. If it was short of memory then, it is the next request that finds
    /// answers to this one in front of its own.
    fn answer(&self, reply: &mut [u8]) -> io::Result<usize> {
        loop {
            let (n, _) = rustix::net::recv(&self.fd, &mut *reply, RecvFlags::DONTWAIT)?;
            let n = n.min(reply.len());
            if n >= HEADER && self.is_answer(&reply[..n]) {
                return Ok(n);
            }
        }
    }

    /// One request and its answer's body; `None` if the kernel answers with an error.
    ///
    /// # Errors
    /// What the system calls say.
    pub(crate) fn request<'a>(
        &mut self,
        kind: u16,
        wanted: u16,
        body: &[u8],
        reply: &'a mut [u8],
    ) -> io::Result<Option<&'a [u8]>> {
        self.send(kind, NLM_F_REQUEST, body)?;
        let n = self.answer(reply)?;
        let reply = &reply[..n];
        if u16::from_ne_bytes([reply[4], reply[5]]) != wanted {
            return Ok(None);
        }
        let length = u32::from_ne_bytes([reply[0], reply[1], reply[2], reply[3]]) as usize;
        Ok(reply.get(HEADER..length.min(n)))
    }

    /// Whether a message answers the last question, and not an earlier one that was given up.
    fn is_answer(&self, message: &[u8]) -> bool {
        let number = message.get(8..12).and_then(|octets| octets.try_into().ok());
        number.map(u32::from_ne_bytes) == Some(self.sequence)
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        rustix::net::send(&self.fd, &message, SendFlags::empty())?;
        Ok(())
    }
}

/// A message, with its header.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    fn kind(self) -> u16 {
        u16::from_ne_bytes([self.0[4], self.0[5]])
    }

    pub(crate) fn body(self) -> &'a [u8] {
        &self.0[HEADER..]
    }
}

/// The messages of a datagram; an error, and nothing after it, if one is longer than what is there.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = io::Result<Message<'a>>;

    fn next(&mut self) -> Option<io::Result<Message<'a>>> {
        let rest = core::mem::take(&mut self.0);
        if rest.len() < HEADER {
            return None;
        }
        let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        if !(HEADER..=rest.len()).contains(&length) {
            return Some(Err(io::ErrorKind::InvalidData.into()));
        }
        self.0 = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Ok(Message(&rest[..length])))
    }
}

/// What an answer of the type NLMSG_ERROR says.
fn error_of(body: &[u8]) -> io::Error {
    match body.first_chunk() {
        Some(code) => io::Error::from_raw_os_error(-i32::from_ne_bytes(*code)),
        None => io::ErrorKind::InvalidData.into(),
    }
}

/// Append an attribute to a netlink message.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The attributes of a netlink message, as (kind, value).
pub(crate) struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let head = self.0.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & NLA_TYPE_MASK;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_earlier_requests_are_passed_over() {
        let mut netlink = Netlink::route().expect("netlink");
        // An answer that nobody fetched: to a request for a kind of message that there is none of.
        netlink.send(999, NLM_F_REQUEST, &[]).expect("a request");
        // RTM_GETLINK of interface 1: the loopback, which is there in any namespace.
        let mut body = vec![0; 4];
        body.extend(1i32.to_ne_bytes());
        body.extend([0; 8]);
        let mut reply = [0; 8192];
        let n = netlink.ask(18, 0, &body, &mut reply).expect("an answer");
        assert!(n > 24 && netlink.is_answer(&reply[..n]));
        assert_eq!(reply[20..24], 1i32.to_ne_bytes());
        // What the kernel has against a request is an error, and not for the next one.
        let refused = netlink
            .ask(999, 0, &[], &mut reply)
            .expect_err("no such kind");
        assert!(refused.raw_os_error().is_some(), "{refused}");
        assert!(netlink.ask(18, NLM_F_ACK, &body, &mut reply).is_ok());
    }
}
