//! Applications at the ends of a mock network: what they write and read, when, and in which order
//! they close. Every octet is checked against a pattern.

use wifu_engine::{ConnId, Endpoint, Fault};
use wifu_wire::{Span, Time};

/// When an application closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Its sending side as soon as everything is written; the rest at the peer's end.
    Written,
    /// Only after the peer's end and once everything is written.
    AfterPeer,
    /// Its side stays open to the end of the run.
    Never,
    /// It destroys the connection (RST) once everything is written.
    Abort,
    /// Wholly (nobody reads any more) as soon as everything is written.
    Gone,
}

/// What an application does with its connection.
#[derive(Clone, Debug)]
pub struct App {
    send: u64,
    chunk: Option<(u64, Span)>,
    idle: Vec<(u64, Span)>,
    stall: Vec<(u64, Span)>,
    close: Close,
}

impl App {
    /// Writes `octets` as fast as the connection takes them, reads everything, closes when
    /// everything is written.
    pub fn send(octets: u64) -> App {
        App {
            send: octets,
            chunk: None,
            idle: Vec::new(),
            stall: Vec::new(),
            close: Close::Written,
        }
    }

    /// Reads everything and closes after the peer.
    pub fn receive() -> App {
        App::send(0).close(Close::AfterPeer)
    }

    /// Close so.
    pub fn close(self, close: Close) -> App {
        App { close, ..self }
    }

    /// Write `octets` at a time, `every` so long.
    pub fn paced(self, octets: u64, every: Span) -> App {
        App {
            chunk: Some((octets.max(1), every)),
            ..self
        }
    }

    /// Write nothing for `span` once `octets` are written. Several may follow each other.
    pub fn idle(mut self, octets: u64, span: Span) -> App {
        self.idle.push((octets, span));
        self.idle.sort();
        self
    }

    /// Read nothing for `span` once `octets` are read. Several may follow each other.
    pub fn stall(mut self, octets: u64, span: Span) -> App {
        self.stall.push((octets, span));
        self.stall.sort();
        self
    }
}

/// What became of one end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Octets written into the connection.
    pub written: u64,
    /// Octets read from it.
    pub read: u64,
    /// Offset of the first octet that was not what the peer wrote.
    pub broken_at: Option<u64>,
    /// When the connection opened.
    pub opened_at: Option<Time>,
    /// When the first octet was read.
    pub first_read_at: Option<Time>,
    /// When the last octet so far was read.
    pub last_read_at: Option<Time>,
    /// The peer's end was seen, after all its data.
    pub eof: bool,
    /// This application closed its sending side.
    pub shut: bool,
    /// This application let go of the connection after an end in order.
    pub closed: bool,
    /// The connection ended by itself, with its fault if it ended badly.
    pub ended: Option<Option<Fault>>,
}

impl Outcome {
    /// The fault that ended the connection.
    pub fn fault(&self) -> Option<Fault> {
        self.ended.flatten()
    }
}

/// The octet at `offset` of what side `side` (0, 1) of flow `flow` writes: words of 64 bits, each
/// the one before plus an odd number, so that none comes twice in a stream.
pub fn pattern(flow: usize, side: usize, offset: u64) -> u8 {
    let word = pattern_start(flow, side).wrapping_add((offset >> 3).wrapping_mul(PATTERN_STEP));
    (word >> ((offset & 7) * 8)) as u8
}

/// What a word of [`pattern`] differs by from the one before: 2^64 over the golden ratio.
pub(crate) const PATTERN_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The first word of a stream.
pub(crate) fn pattern_start(flow: usize, side: usize) -> u64 {
    let stream = (flow as u64) << 1 | side as u64;
    let mixed = (stream + 1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 29
}

/// An application at work.
pub(crate) struct Running {
    app: App,
    flow: usize,
    side: usize,
    pub(crate) id: Option<ConnId>,
    pub(crate) outcome: Outcome,
    peer_closed: bool,
    write_at: Time,
    read_at: Time,
    chunk_end: u64,
    idles: usize,
    stalls: usize,
}

impl Running {
    /// Octets that it is to write in all.
    pub(crate) fn asked(&self) -> u64 {
        self.app.send
    }
}

impl Running {
    pub(crate) fn new(app: App, flow: usize, side: usize) -> Running {
        let chunk_end = app.chunk.map_or(u64::MAX, |(octets, _)| octets);
        Running {
            app,
            flow,
            side,
            id: None,
            outcome: Outcome::default(),
            peer_closed: false,
            write_at: Time::ZERO,
            read_at: Time::ZERO,
            chunk_end,
            idles: 0,
            stalls: 0,
        }
    }

    pub(crate) fn peer_closed(&mut self) {
        self.peer_closed = true;
    }

    /// Do what can be done now. Returns when to call again without an event.
    pub(crate) fn work(&mut self, endpoint: &mut Endpoint, now: Time) -> Option<Time> {
        let id = self.id?;
        if self.outcome.closed {
            return None;
        }
        if self.outcome.opened_at.is_some() && self.outcome.ended.is_none() {
            self.write(endpoint, id, now);
        }
        self.read(endpoint, id, now);
        self.finish(endpoint, id, now);
        if self.outcome.closed {
            return None;
        }
        let next = |at: Time| if at > now { at } else { Time::NEVER };
        let write_at = if self.outcome.written < self.app.send {
            next(self.write_at)
        } else {
            Time::NEVER
        };
        let at = write_at.min(next(self.read_at));
        (at != Time::NEVER).then_some(at)
    }

    fn write(&mut self, endpoint: &mut Endpoint, id: ConnId, now: Time) {
        while self.outcome.written < self.app.send && now >= self.write_at {
            let written = self.outcome.written;
            let idle = self.app.idle.get(self.idles);
            let mark = idle.map_or(u64::MAX, |(octets, _)| *octets);
            if let (true, Some((_, span))) = (written >= mark, idle) {
                self.write_at = now + *span;
                self.idles += 1;
                continue;
            }
            if let (true, Some((octets, every))) = (written >= self.chunk_end, self.app.chunk) {
                self.write_at = now + every;
                self.chunk_end = written + octets;
                continue;
            }
            let limit = self.app.send.min(mark).min(self.chunk_end) - written;
            let n = self.fill(endpoint, id, limit);
            if n == 0 {
                return;
            }
            endpoint.wrote(now, id, n);
            self.outcome.written += n as u64;
        }
    }

    /// Fill the free space with whole segments, so that their numbers stay multiples of the
    /// segment size however large the buffer is.
    fn fill(&self, endpoint: &mut Endpoint, id: ConnId, limit: u64) -> usize {
        let mss = endpoint.conn(id).map_or(1, |c| c.board().conn.mss.max(1)) as usize;
        let space = endpoint.write_space(id);
        let room = space[0].len() + space[1].len();
        let mut n = usize::try_from(limit).unwrap_or(usize::MAX).min(room);
        if (n as u64) < limit && room > mss {
            n -= n % mss;
        }
        let mut offset = self.outcome.written;
        let mut left = n;
        for piece in space {
            let take = left.min(piece.len());
            for octet in &mut piece[..take] {
                *octet = pattern(self.flow, self.side, offset);
                offset += 1;
            }
            left -= take;
        }
        n
    }

    fn read(&mut self, endpoint: &mut Endpoint, id: ConnId, now: Time) {
        while now >= self.read_at {
            let stall = self.app.stall.get(self.stalls);
            let mark = stall.map_or(u64::MAX, |(octets, _)| *octets);
            if let (true, Some((_, span))) = (self.outcome.read >= mark, stall) {
                self.read_at = now + *span;
                self.stalls += 1;
                continue;
            }
            let limit = usize::try_from(mark - self.outcome.read).unwrap_or(usize::MAX);
            let mut n = 0;
            for piece in endpoint.readable(id) {
                let take = piece.len().min(limit - n);
                self.check(&piece[..take], self.outcome.read + n as u64);
                n += take;
            }
            if n == 0 {
                return;
            }
            self.outcome.read += n as u64;
            self.outcome.first_read_at.get_or_insert(now);
            self.outcome.last_read_at = Some(now);
            endpoint.consumed(now, id, n);
        }
    }

    fn check(&mut self, octets: &[u8], at: u64) {
        let wrong = (at..)
            .zip(octets)
            .find(|(offset, octet)| **octet != pattern(self.flow, 1 - self.side, *offset));
        if let (Some((offset, _)), None) = (wrong, self.outcome.broken_at) {
            self.outcome.broken_at = Some(offset);
        }
    }

    fn finish(&mut self, endpoint: &mut Endpoint, id: ConnId, now: Time) {
        let unread = endpoint.readable(id).iter().any(|piece| !piece.is_empty());
        let outcome = &mut self.outcome;
        outcome.eof |= self.peer_closed && !unread;
        if outcome.ended.is_some() {
            if !unread {
                endpoint.close(now, id);
                outcome.closed = true;
            }
            return;
        }
        if outcome.written < self.app.send || outcome.opened_at.is_none() {
            return;
        }
        match self.app.close {
            Close::Never => return,
            Close::Abort => {
                endpoint.abort(now, id);
                outcome.closed = true;
                return;
            }
            Close::Gone => {
                endpoint.close(now, id);
                (outcome.shut, outcome.closed) = (true, true);
                return;
            }
            Close::AfterPeer if !outcome.eof => return,
            Close::AfterPeer | Close::Written if !outcome.shut => {
                endpoint.shutdown_write(now, id);
                outcome.shut = true;
            }
            Close::AfterPeer | Close::Written => {}
        }
        if outcome.eof {
            endpoint.close(now, id);
            outcome.closed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_tells_flows_sides_and_offsets_apart() {
        let of = |flow, side, from: u64| -> Vec<u8> {
            (from..from + 4000)
                .map(|o| pattern(flow, side, o))
                .collect()
        };
        assert_eq!(of(1, 0, 0), of(1, 0, 0));
        for other in [of(2, 0, 0), of(1, 1, 0), of(1, 0, 8), of(1, 0, 1448)] {
            assert_ne!(of(1, 0, 0), other);
        }
    }
}
