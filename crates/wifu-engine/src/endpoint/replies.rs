//! Answers for no connection: to segments that nobody takes, and of embryos that made room.

use super::link::Links;
use std::collections::VecDeque;
use wifu_wire::AnyIpInfo;

/// An answer that waits for room.
pub(super) struct Reply {
    pub(super) ip: AnyIpInfo,
    bytes: [u8; REPLY],
    len: usize,
}

impl Reply {
    pub(super) fn segment(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Room for one: the longest TCP header, and for a protocol that has more to say.
pub(super) const REPLY: usize = 160;

/// Answers that may wait; more are dropped and counted. As many as a driver may hand over before
/// it polls.
const REPLIES: usize = 1_024;

#[derive(Default)]
pub(super) struct Replies {
    waiting: VecDeque<Reply>,
}

impl Replies {
    /// Send this as soon as there is room.
    ///
    /// # Errors
    /// The reason for which it is dropped.
    pub(super) fn push(&mut self, ip: AnyIpInfo, segment: &[u8]) -> Result<(), &'static str> {
        if self.waiting.len() >= REPLIES {
            return Err("answer queue full");
        }
        if segment.len() > REPLY {
            return Err("answer too long to wait");
        }
        let mut bytes = [0; REPLY];
        bytes[..segment.len()].copy_from_slice(segment);
        let len = segment.len();
        self.waiting.push_back(Reply { ip, bytes, len });
        Ok(())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether any of them has room on its way.
    pub(super) fn any_leaves(&self, links: &Links) -> bool {
        self.waiting.iter().any(|r| links.room_to(&r.ip.dst) > 0)
    }

    /// The next one whose way has room, which it takes.
    pub(super) fn next(&mut self, links: &mut Links) -> Option<Reply> {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|r| links.room_to(&r.ip.dst) > 0)?;
        let reply = self.waiting.remove(at)?;
        links.used_to(&reply.ip.dst);
        Some(reply)
    }
}
