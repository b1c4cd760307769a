//! Plays a script against a stack: does what it does, and compares what it expects.

use super::calls::{Answer, Begun, CallId};
use super::packet::{ACK, LAST, Opt, Packet, SYN};
use super::script::{Event, Problem, Script, What, When};
use super::stack::{Left, Setup, Stack};
use super::syscall::{self, Check, Live};
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::BTreeMap;
use wifu_wire::{Span, Time};

/// Where `bind` binds and `connect` goes, as packetdrill's default has it.
const PORT: u16 = 8080;

/// The peer, at whose side the script is.
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The first port from which the peer connects.
const PEER_PORT: u16 = 40_000;

/// How long after its time a packet is waited for, to be shown.
const PATIENCE: Span = Span(120_000_000_000);

/// How long a packet is waited for that may leave whenever it likes.
const WHENEVER: Span = Span(3_600_000_000_000);

/// Plays a script against a stack as the script asks for, else as `setup` says.
///
/// # Errors
/// The first line at which the stack did something else, with what was expected and what came; or
/// what is wrong with the script.
pub fn play(script: &Script, setup: &Setup) -> Result<(), Problem> {
    let setup = match &script.setup {
        Some(text) => Setup::parse(text).map_err(|what| Problem::new(1, what))?,
        None => setup.clone(),
    };
    let mut player = Player::new(script, setup)?;
    for event in &script.events {
        player.event(event)?;
    }
    match player.blocked {
        Some(call) => Err(Problem::new(call.line, "the call still waits at the end")),
        None => Ok(()),
    }
}

/// What packets of the script belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    /// Nothing listens and nothing connects.
    Nothing,
    /// A socket that does neither yet.
    Fresh,
    /// A listening socket: the next packet that arrives begins a connection.
    Listening,
    /// A connecting socket: its SYN begins a connection.
    Connecting,
    /// The connection.
    Flow,
}

/// The connection that packets of the script belong to.
struct Flow {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    /// Where our numbers begin: in the script, and in fact, once our SYN has left.
    ours: Option<(u32, u32)>,
    /// Where the peer's begin, which is the same in both.
    theirs: u32,
    /// Our timestamps by the script's.
    stamps: BTreeMap<u32, u32>,
    /// How much they are above the script's, from the first one on.
    clock: Option<u32>,
}

impl Flow {
    fn new(local: SocketAddrV4, remote: SocketAddrV4) -> Flow {
        Flow {
            local,
            remote,
            ours: None,
            theirs: 0,
            stamps: BTreeMap::new(),
            clock: None,
        }
    }

    /// How much the numbers of both sides, ours first, are above the script's: behind the SYN it
    /// counts from where each side began.
    fn offsets(&self, syn: bool) -> (u32, u32) {
        let (script, live) = self.ours.unwrap_or_default();
        match syn {
            true => (live.wrapping_sub(script), 0),
            false => (live, self.theirs),
        }
    }
}

/// A call that waits.
struct Blocked {
    id: CallId,
    line: usize,
    /// When it is to return, from the beginning.
    until: Span,
    check: Check,
    result: (i64, Option<i64>),
}

struct Player<'a> {
    script: &'a Script,
    stack: Stack,
    start: Time,
    local: Ipv4Addr,
    fds: BTreeMap<i64, i32>,
    under: Under,
    flow: Option<Flow>,
    ports: u16,
    blocked: Option<Blocked>,
}

impl<'a> Player<'a> {
    fn new(script: &'a Script, setup: Setup) -> Result<Player<'a>, Problem> {
        let local = setup.local;
        let stack = Stack::new(setup).map_err(|e| Problem::new(1, e.to_string()))?;
        Ok(Player {
            script,
            start: stack.now(),
            stack,
            local,
            fds: BTreeMap::new(),
            under: Under::Nothing,
            flow: None,
            ports: PEER_PORT,
            blocked: None,
        })
    }

    /// The time of the script.
    fn elapsed(&self) -> Span {
        self.stack.now() - self.start
    }

    fn event(&mut self, event: &Event) -> Result<(), Problem> {
        let done = match &event.what {
            What::Out(packet) => self.expect(event, packet),
            What::In(packet) => self
                .wait(event.when)
                .and_then(|()| self.inject(packet.clone())),
            What::Call { .. } => self.call(event),
        };
        done.map_err(|what| Problem::new(event.line, what))?;
        self.collect()
    }

    /// The span in which something is to happen, from the beginning.
    fn span(&self, when: When) -> (Span, Span) {
        let now = self.elapsed();
        match when {
            When::At(t) => (t, t),
            When::After(t) => (now + t, now + t),
            When::Between(a, b) => (a, b),
            When::AfterBetween(a, b) => (now + a, now + b),
            When::Any => (Span::ZERO, now + WHENEVER),
        }
    }

    /// Lets time pass until it is time for what the script does.
    fn wait(&mut self, when: When) -> Result<(), String> {
        let (at, _) = self.span(when);
        self.stack.advance(self.start + at);
        let now = self.elapsed();
        match now > at + self.script.tolerance {
            true => Err(format!(
                "this is to happen at {}, but it is {} already",
                seconds(at),
                seconds(now)
            )),
            false => Ok(()),
        }
    }

    /// Lets a packet of the script arrive.
    fn inject(&mut self, mut packet: Packet) -> Result<(), String> {
        if matches!(self.under, Under::Nothing | Under::Listening) {
            let remote = SocketAddrV4::new(PEER, self.ports);
            self.ports += 1;
            let mut flow = Flow::new(SocketAddrV4::new(self.local, PORT), remote);
            flow.theirs = packet.seq;
            self.flow = Some(flow);
            self.under = Under::Flow;
        }
        let Some(flow) = self.flow.as_mut().filter(|_| self.under == Under::Flow) else {
            return Err("there is no connection that this packet belongs to".into());
        };
        let syn = packet.has(SYN);
        if syn && flow.remote == peer() {
            flow.theirs = packet.seq;
        }
        let (ours, theirs) = flow.offsets(syn);
        packet.seq = packet.seq.wrapping_add(theirs);
        packet.move_acks(ours);
        let acks = packet.has(ACK);
        if let Some((_, echo)) = packet.ts().filter(|_| acks) {
            let Some(live) = flow.stamps.get(echo) else {
                return Err(format!("no packet that left had `TS val {echo}`"));
            };
            *echo = *live;
        }
        let bytes = packet.emit(flow.remote, flow.local);
        let delivered = self.stack.deliver(&bytes);
        delivered.map_err(|e| format!("the packet is none: {e:?}"))
    }

    /// The next packet of the connection that is looked at; others pass by.
    fn next(&mut self, limit: Time) -> Option<(Time, Packet, bool)> {
        loop {
            let Left { at, bytes } = self.stack.packet(limit)?;
            let Some((src, dst, packet, payload)) = Packet::parse(&bytes) else {
                continue;
            };
            let zeros = payload.iter().all(|b| *b == 0);
            if self.under == Under::Connecting && packet.flags & (SYN | ACK) == SYN && dst == peer()
            {
                self.flow = Some(Flow::new(src, dst));
                self.under = Under::Flow;
            }
            let ours = |f: &Flow| (f.local, f.remote) == (src, dst);
            if self.flow.as_ref().is_some_and(ours) {
                return Some((at, packet, zeros));
            }
        }
    }

    /// Waits for a packet that the script expects, and compares it.
    fn expect(&mut self, event: &Event, expected: &Packet) -> Result<(), String> {
        let (from, to) = self.span(event.when);
        let limit = self.start + to + PATIENCE;
        let missing = |p: &Self, sofar: &str| {
            let now = seconds(p.elapsed());
            format!("no packet left until {now}\n  expected: {expected}{sofar}")
        };
        let Some((mut at, mut actual, mut zeros)) = self.next(limit) else {
            return Err(missing(self, ""));
        };
        self.number(expected, &actual);
        self.translate(expected, &mut actual);
        // Several may stand for the one of the script: kernels hand large packets down.
        while actual.len < expected.len {
            let sofar = format!("\n  so far:   {actual}");
            let Some((next_at, mut next, all)) = self.next(limit) else {
                return Err(missing(self, &sofar));
            };
            self.translate(expected, &mut next);
            let follows = next.seq == actual.seq.wrapping_add(actual.len);
            let alike = (actual.flags ^ next.flags) & !LAST == 0 && next.ack == actual.ack;
            if !follows || !alike || next.len == 0 {
                return Err(format!(
                    "the packets do not make one\n  expected: {expected}{sofar}\n  \
                     next:     {next}"
                ));
            }
            (at, zeros) = (next_at, zeros && all);
            (next.seq, next.len) = (actual.seq, actual.len + next.len);
            actual = next;
        }
        let time = at - self.start;
        let difference = self.difference(expected, &actual).or_else(|| {
            (!zeros).then(|| String::from("the payload is not what the application wrote"))
        });
        let tolerance = self.script.tolerance;
        let early = time + tolerance < from;
        let late = event.when != When::Any && time > to + tolerance;
        let difference = difference.or_else(|| {
            (early || late).then(|| {
                let time = seconds(time);
                match from == to {
                    true => format!("the packet left at {time}, expected at {}", seconds(from)),
                    false => format!(
                        "the packet left at {time}, expected between {} and {}",
                        seconds(from),
                        seconds(to)
                    ),
                }
            })
        });
        match difference {
            None => Ok(()),
            Some(what) => Err(format!(
                "{what}\n  expected: {} {expected}\n  actual:   {} {actual}",
                seconds(from),
                seconds(time)
            )),
        }
    }

    /// Our SYN tells where our numbers begin.
    fn number(&mut self, expected: &Packet, actual: &Packet) {
        if let Some(flow) = self.flow.as_mut()
            && expected.has(SYN)
            && actual.has(SYN)
        {
            flow.ours = flow.ours.or(Some((expected.seq, actual.seq)));
        }
    }

    /// A packet that left, in the numbers of the script.
    fn translate(&mut self, expected: &Packet, actual: &mut Packet) {
        let Some(flow) = self.flow.as_mut() else {
            return;
        };
        let (ours, theirs) = flow.offsets(actual.has(SYN));
        actual.seq = actual.seq.wrapping_sub(ours);
        actual.move_acks(theirs.wrapping_neg());
        let mut expected = expected.clone();
        if let (Some((value, _)), Some((script, _))) = (actual.ts(), expected.ts()) {
            flow.stamps.insert(*script, *value);
            let clock = flow.clock.get_or_insert(value.wrapping_sub(*script));
            *value = value.wrapping_sub(*clock);
        }
        if expected.window.is_none() {
            actual.window = None;
        }
        if expected.ecn.is_none() {
            actual.ecn = None;
        }
    }

    /// How a packet differs from the one expected.
    fn difference(&self, expected: &Packet, actual: &Packet) -> Option<String> {
        let differ = |what: &str| Some(format!("the packet's {what} differ"));
        let differs = |what: &str| Some(format!("the packet's {what} differs"));
        if expected.ecn != actual.ecn {
            return differs("ECN field");
        }
        if expected.flags != actual.flags {
            return differ("flags");
        }
        if expected.len != actual.len {
            return differs("length");
        }
        if expected.seq != actual.seq {
            return differs("sequence number");
        }
        if expected.has(ACK) && expected.ack != actual.ack {
            return differs("acknowledgement");
        }
        if expected.window.is_some() && expected.window != actual.window {
            return differs("window");
        }
        let (Some(wanted), Some(got)) = (&expected.options, &actual.options) else {
            return None;
        };
        let same = wanted.len() == got.len();
        let same = same && wanted.iter().zip(got).all(|(w, g)| self.same_option(w, g));
        if same { None } else { differ("options") }
    }

    fn same_option(&self, wanted: &Opt, got: &Opt) -> bool {
        match (wanted, got) {
            (Opt::Ts(value, echo), Opt::Ts(got, got_echo)) => {
                let off = got.wrapping_sub(*value) as i32;
                let near = |tick: Span| tick * u64::from(off.unsigned_abs());
                let tick = self.script.tick;
                let value = tick.is_none_or(|t| near(t) <= self.script.tolerance);
                value && echo == got_echo
            }
            _ => wanted == got,
        }
    }

    /// Makes a call.
    fn call(&mut self, event: &Event) -> Result<(), String> {
        let What::Call {
            name,
            args,
            result,
            errno,
            until,
        } = &event.what
        else {
            return Ok(());
        };
        // Counted as the beginning is.
        let end = match event.when {
            When::After(_) => until.map(|u| self.elapsed() + u),
            _ => *until,
        };
        self.wait(event.when)?;
        self.collect().map_err(|p| p.to_string())?;
        if self.blocked.is_some() && until.is_some() {
            return Err("another call still waits".into());
        }
        let live = Live {
            fds: &self.fds,
            local: SocketAddrV4::new(self.local, PORT),
            remote: peer(),
        };
        let (call, check) = syscall::translate(name, args, &live)?;
        let result = (*result, *errno);
        let begun = self.stack.begin(call);
        match name.as_str() {
            "socket" => (self.under, self.flow) = (Under::Fresh, None),
            "listen" => self.under = Under::Listening,
            "connect" if self.under == Under::Fresh => self.under = Under::Connecting,
            _ => {}
        }
        match (begun, end) {
            (Begun::Done(answer), _) => {
                let now = self.elapsed();
                self.compare(&answer, &check, result, (now, end.unwrap_or(now)))
            }
            (Begun::Waits(_), None) => {
                Err("the call waits; write until when, as in +0...0.1".into())
            }
            (Begun::Waits(id), Some(until)) => {
                self.blocked = Some(Blocked {
                    id,
                    line: event.line,
                    until,
                    check,
                    result,
                });
                Ok(())
            }
        }
    }

    /// Takes the result of the call that waited, if it is there.
    fn collect(&mut self) -> Result<(), Problem> {
        let Some(blocked) = self.blocked.take() else {
            return Ok(());
        };
        let Some((at, answer)) = self.stack.finished(blocked.id) else {
            self.blocked = Some(blocked);
            return Ok(());
        };
        let times = (at - self.start, blocked.until);
        let compared = self.compare(&answer, &blocked.check, blocked.result, times);
        compared.map_err(|what| Problem::new(blocked.line, what))
    }

    fn compare(
        &mut self,
        answer: &Answer,
        check: &Check,
        result: (i64, Option<i64>),
        (at, until): (Span, Span),
    ) -> Result<(), String> {
        if let Some(fd) = syscall::compare(answer, check, result)? {
            self.fds.insert(result.0, fd);
        }
        match at.abs_diff(until) > self.script.tolerance {
            true => Err(format!(
                "the call returned at {}, expected at {}",
                seconds(at),
                seconds(until)
            )),
            false => Ok(()),
        }
    }
}

/// Where `connect` goes.
fn peer() -> SocketAddrV4 {
    SocketAddrV4::new(PEER, PORT)
}

/// A time with six places, as packetdrill writes it.
fn seconds(t: Span) -> String {
    format!("{}.{:06}", t.0 / 1_000_000_000, t.0 / 1_000 % 1_000_000)
}
