//! What another TCP sent, beside what ours sends where it is told the same: a sender's capture, as
//! a script of packets alone. What arrived there arrives here, at the same times; what left there
//! is not waited for, but compared. Where the two part, what follows was said to another sender,
//! and means nothing.

use super::calls::{Begun, Call};
use super::packet::Packet;
use super::script::{Problem, Script, What, When};
use super::stack::{Left, Setup, Stack};
use core::net::SocketAddrV4;
use wifu_wire::{Span, Time};

/// So long an application takes to fill the first window.
const BURST: Span = Span::MILLI;

/// Who acknowledges.
const PEER: SocketAddrV4 = SocketAddrV4::new(core::net::Ipv4Addr::new(192, 0, 2, 1), 8080);

/// A segment with data that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Since the SYN left.
    pub at: Span,
    /// Its first octet, from 1.
    pub seq: u32,
    /// Its octets.
    pub len: u32,
}

/// From one packet that arrived to the next.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Round {
    /// When it arrived, since the SYN left.
    pub at: Span,
    /// Its acknowledgement.
    pub ack: u32,
    /// What the capture's sender sent.
    pub theirs: Vec<Sent>,
    /// What ours did.
    pub ours: Vec<Sent>,
}

impl Round {
    /// Both sent the same, at times that differ by no more than `tolerance`.
    pub fn agrees(&self, tolerance: Span) -> bool {
        let near = |(a, b): (&Sent, &Sent)| {
            (a.seq, a.len) == (b.seq, b.len) && a.at.0.abs_diff(b.at.0) <= tolerance.0
        };
        self.theirs.len() == self.ours.len() && self.theirs.iter().zip(&self.ours).all(near)
    }
}

/// Segments that both sent alike before they part.
pub fn agreement(rounds: &[Round], tolerance: Span) -> usize {
    let alike = rounds.iter().take_while(|r| r.agrees(tolerance));
    alike.map(|r| r.theirs.len()).sum()
}

/// Lets what arrived in `capture` arrive at a sender of `setup`'s composition, whose clock is
/// `phase` later than a tick when its SYN leaves.
///
/// The application writes what left within a millisecond of the first data segment by segment, when
/// it left, and with the last of that all else; so it has always something to send.
///
/// # Errors
/// What is wrong with the composition, and lines that are not of a capture: its first packet is the
/// SYN that leaves, and it has packets alone, with times from the beginning.
pub fn replay(capture: &Script, setup: &Setup, phase: Span) -> Result<Vec<Round>, Problem> {
    let mut sender = Sender::new(capture, setup, phase)?;
    for event in &capture.events {
        let When::At(at) = event.when else {
            return Err(Problem::new(event.line, "no time since the beginning"));
        };
        match &event.what {
            What::Out(packet) => sender.other(at, packet),
            What::In(packet) => sender.hear(at, packet.clone())?,
            What::Call { .. } => return Err(Problem::new(event.line, "a capture calls nothing")),
        }
    }
    Ok(sender.rounds)
}

/// When the last segment of the first window left that was written by itself.
fn filled(capture: &Script) -> Span {
    let mut data = capture
        .events
        .iter()
        .filter_map(|e| match (&e.what, e.when) {
            (What::Out(p), When::At(at)) if p.len > 0 => Some(at),
            _ => None,
        });
    let first = data.next().unwrap_or_default();
    data.take_while(|at| *at <= first + BURST)
        .last()
        .unwrap_or(first)
}

struct Sender {
    stack: Stack,
    fd: i32,
    start: Time,
    local: SocketAddrV4,
    /// Where our numbers begin: in fact, and in the capture.
    numbers: (u32, u32),
    /// How much our timestamps are above the capture's.
    clock: u32,
    /// All that the capture's sender sent, twice.
    most: u32,
    /// When all has been written.
    filled: Span,
    rounds: Vec<Round>,
}

impl Sender {
    fn new(capture: &Script, setup: &Setup, phase: Span) -> Result<Sender, Problem> {
        let mut stack = Stack::new(setup.clone()).map_err(|e| Problem::new(1, e.to_string()))?;
        let start = stack.now() + phase;
        stack.advance(start);
        let Some((What::Out(syn), line)) = capture.events.first().map(|e| (&e.what, e.line)) else {
            return Err(Problem::new(
                1,
                "the capture does not begin with a SYN that leaves",
            ));
        };
        let Begun::Done(Ok(socket)) = stack.begin(Call::Socket(2, 1, 0)) else {
            return Err(Problem::new(line, "there is no socket"));
        };
        let fd = socket.number as i32;
        stack.begin(Call::Connect(fd, PEER));
        let ours = stack.packet(start).and_then(|left| {
            let (local, _, packet, _) = Packet::parse(&left.bytes)?;
            Some((local, packet))
        });
        let Some((local, mut ours)) = ours else {
            return Err(Problem::new(line, "our SYN does not leave"));
        };
        let mut theirs = syn.clone();
        let stamp = |packet: &mut Packet| packet.ts().map_or(0, |(value, _)| *value);
        let ends = capture.events.iter().filter_map(|e| match &e.what {
            What::Out(p) => Some(p.seq.wrapping_sub(syn.seq).wrapping_add(p.len)),
            _ => None,
        });
        Ok(Sender {
            fd,
            start,
            local,
            numbers: (ours.seq, syn.seq),
            clock: stamp(&mut ours).wrapping_sub(stamp(&mut theirs)),
            most: ends.max().unwrap_or(0).saturating_mul(2),
            filled: filled(capture),
            rounds: vec![Round::default()],
            stack,
        })
    }

    fn write(&mut self, octets: u32) {
        let data = vec![0; octets as usize];
        self.stack.begin(Call::Send(self.fd, data, 0));
    }

    /// Takes what leaves until `at`.
    fn collect(&mut self, at: Span) {
        while let Some(Left { at: when, bytes }) = self.stack.packet(self.start + at) {
            let Some((_, _, packet, _)) = Packet::parse(&bytes) else {
                continue;
            };
            if packet.len > 0
                && let Some(round) = self.rounds.last_mut()
            {
                round.ours.push(Sent {
                    at: when - self.start,
                    seq: packet.seq.wrapping_sub(self.numbers.0),
                    len: packet.len,
                });
            }
        }
        self.stack.advance(self.start + at);
    }

    /// The capture's sender sent this.
    fn other(&mut self, at: Span, packet: &Packet) {
        if packet.len == 0 {
            return;
        }
        if at <= self.filled {
            self.collect(at);
            let all = if at == self.filled { self.most } else { 0 };
            self.write(packet.len + all);
            self.collect(at);
        }
        if let Some(round) = self.rounds.last_mut() {
            round.theirs.push(Sent {
                at,
                seq: packet.seq.wrapping_sub(self.numbers.1),
                len: packet.len,
            });
        }
    }

    /// This arrives.
    fn hear(&mut self, at: Span, mut packet: Packet) -> Result<(), Problem> {
        self.collect(at);
        self.rounds.push(Round {
            at,
            ack: packet.ack.wrapping_sub(self.numbers.1),
            ..Round::default()
        });
        packet.move_acks(self.numbers.0.wrapping_sub(self.numbers.1));
        if let Some((_, echo)) = packet.ts() {
            *echo = echo.wrapping_add(self.clock);
        }
        let delivered = self.stack.deliver(&packet.emit(PEER, self.local));
        delivered.map_err(|e| Problem::new(0, format!("the packet is none: {e:?}")))?;
        self.collect(at);
        Ok(())
    }
}
