//! A node's handlers, asked one after the other.

use crate::handler::{Asked, Handler, HopCx, Lines, Sending, Site, TIMERS, TxStatus, What};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use crate::select::Select;
use std::collections::BTreeMap;
use wifu_wire::{Rng, Time};

/// What to do with a packet that a handler wants to hold although it holds as many as it may.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Full {
    /// Let it go on.
    #[default]
    Open,
    /// Drop it.
    Closed,
}

/// One handler's account.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Packets that it was asked about.
    pub packets: u64,
    /// Of these, those that it changed.
    pub changed: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Held.
    pub held: u64,
    /// Copies kept.
    pub kept: u64,
    /// Packets and copies sent.
    pub sent: u64,
    /// Wanted to hold, but held as many as it may.
    pub overflows: u64,
    /// What else it counts, by name.
    pub counts: Vec<(&'static str, u64)>,
}

/// Where a handler stands in a chain.
pub struct Seat {
    /// Its name in accounts.
    pub name: String,
    /// The hooks at which it is asked.
    pub hooks: Hooks,
    /// Packets about which it is asked.
    pub select: Select,
    /// Packets and copies that it may hold.
    pub most: u32,
    /// What to do with a packet beyond that.
    pub full: Full,
    /// Its stream.
    pub rng: Rng,
    /// Names of its counts.
    pub counts: &'static [&'static str],
}

impl Seat {
    /// At these hooks, for all packets; it holds none.
    pub fn new(name: &str, hooks: Hooks, rng: Rng) -> Seat {
        Seat {
            name: name.to_owned(),
            hooks,
            select: Select::ALL,
            most: 0,
            full: Full::Open,
            rng,
            counts: &[],
        }
    }
}

struct Link {
    seat: Seat,
    handler: Box<dyn Handler>,
    holding: u32,
    timers: [Time; TIMERS],
    counts: Vec<u64>,
    counters: Counters,
}

/// A packet that is held: by whom, at which hook, and who sent it if a handler did.
#[derive(Clone, Copy)]
struct Holding {
    at: usize,
    hook: Hook,
    not: Option<usize>,
}

/// A held packet that a handler let go. The substrate calls [`Chain::resume`] if it was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Released {
    /// The packet.
    pub ticket: u64,
    /// `Accept` or `Drop`.
    pub verdict: Verdict,
}

/// Handlers in the order in which they are asked; the first that does not accept ends it.
#[derive(Default)]
pub struct Chain {
    links: Vec<Link>,
    held: BTreeMap<u64, Holding>,
    /// Whose copy it is.
    kept: BTreeMap<u64, usize>,
    asked: Asked,
    due: Time,
}

/// Call a handler, by its place, with what it may use.
fn ask<R>(
    asked: &mut Asked,
    (at, link): (usize, &mut Link),
    now: Time,
    site: &dyn Site,
    call: impl FnOnce(&mut dyn Handler, &mut HopCx<'_>) -> R,
) -> R {
    let mut cx = HopCx {
        now,
        site,
        rng: &mut link.seat.rng,
        at,
        timers: &mut link.timers,
        asked,
        counts: &mut link.counts,
    };
    call(&mut *link.handler, &mut cx)
}

impl Link {
    /// It holds a packet less.
    fn let_go(&mut self) {
        self.holding = self.holding.saturating_sub(1);
    }

    /// The earliest of its timers and `other`.
    fn due(&self, other: Time) -> Time {
        self.timers.iter().copied().fold(other, Time::min)
    }
}

impl Chain {
    /// Without handlers: accepts everything.
    pub fn new() -> Chain {
        Chain {
            due: Time::NEVER,
            ..Chain::default()
        }
    }

    /// Append a handler.
    pub fn push(&mut self, seat: Seat, handler: Box<dyn Handler>) {
        self.links.push(Link {
            handler,
            holding: 0,
            timers: [Time::NEVER; TIMERS],
            counts: vec![0; seat.counts.len()],
            counters: Counters::default(),
            seat,
        });
    }

    /// The hooks at which any handler is asked.
    pub fn hooks(&self) -> Hooks {
        self.links
            .iter()
            .fold(Hooks::NONE, |all, l| all.or(l.seat.hooks))
    }

    /// Whether there are no handlers.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Whether any handler is to be asked about a packet at a hook.
    pub fn wants(&self, hook: Hook, packet: &[u8]) -> bool {
        let mut seats = self.links.iter().map(|l| &l.seat);
        seats.any(|s| s.hooks.has(hook) && s.select.fits(packet))
    }

    /// Ask about a packet. After `Hold` the substrate keeps it until [`Chain::poll_released`]
    /// names its ticket.
    pub fn on_packet(
        &mut self,
        hook: Hook,
        packet: &mut Packet<'_>,
        now: Time,
        site: &dyn Site,
    ) -> Verdict {
        // A ticket that is given anew: the packet that had it is lost.
        if self.held.contains_key(&packet.ticket) {
            self.forget(packet.ticket);
        }
        self.ask_from((0, None), hook, packet, now, site)
    }

    /// Ask about a packet that a handler sent (`by`, of [`Sending`]): it does not meet it again.
    pub fn on_sent(
        &mut self,
        by: usize,
        hook: Hook,
        packet: &mut Packet<'_>,
        now: Time,
        site: &dyn Site,
    ) -> Verdict {
        self.ask_from((0, Some(by)), hook, packet, now, site)
    }

    /// Ask those after the one who held the packet and accepted it.
    pub fn resume(
        &mut self,
        released: Released,
        packet: &mut Packet<'_>,
        now: Time,
        site: &dyn Site,
    ) -> Verdict {
        match (released.verdict, self.held.remove(&released.ticket)) {
            (Verdict::Accept, Some(h)) => {
                self.links[h.at].let_go();
                self.ask_from((h.at + 1, h.not), h.hook, packet, now, site)
            }
            (verdict, _) => verdict,
        }
    }

    fn ask_from(
        &mut self,
        (first, not): (usize, Option<usize>),
        hook: Hook,
        packet: &mut Packet<'_>,
        now: Time,
        site: &dyn Site,
    ) -> Verdict {
        for at in first..self.links.len() {
            let link = &mut self.links[at];
            let asked = link.seat.hooks.has(hook) && not != Some(at);
            if !asked || !link.seat.select.fits(packet.octets()) {
                continue;
            }
            link.counters.packets += 1;
            let before = packet.changes();
            (packet.may_copy, packet.copied) = (link.holding < link.seat.most, None);
            let verdict = ask(&mut self.asked, (at, link), now, site, |handler, cx| {
                handler.on_packet(hook, packet, cx)
            });
            link.counters.changed += u64::from(packet.changes() > before);
            if let Some(copy) = packet.copied.take() {
                link.holding += 1;
                link.counters.kept += 1;
                self.kept.insert(copy, at);
            }
            self.due = link.due(self.due);
            match verdict {
                Verdict::Accept => {}
                Verdict::Drop(reason) => {
                    *link.counters.dropped.entry(reason).or_default() += 1;
                    return verdict;
                }
                Verdict::Hold if link.holding < link.seat.most => {
                    link.holding += 1;
                    link.counters.held += 1;
                    self.held.insert(packet.ticket, Holding { at, hook, not });
                    return verdict;
                }
                Verdict::Hold => {
                    link.counters.overflows += 1;
                    link.handler.on_lost(packet.ticket);
                    if link.seat.full == Full::Closed {
                        return Verdict::Drop("handler full");
                    }
                }
            }
        }
        Verdict::Accept
    }

    /// A packet that a handler sends; the substrate lets it enter.
    pub fn poll_sending(&mut self) -> Option<Sending> {
        while let Some(sending) = self.asked.sending.pop_front() {
            if let What::Kept { ticket, stays } = sending.what {
                // Who does not keep it cannot send it.
                if self.kept.get(&ticket) != Some(&sending.by) {
                    continue;
                }
                if !stays {
                    self.kept.remove(&ticket);
                    self.links[sending.by].let_go();
                }
            }
            self.links[sending.by].counters.sent += 1;
            return Some(sending);
        }
        None
    }

    /// What a handler sent did not leave, for this reason: it is counted as dropped.
    pub fn unsent(&mut self, by: usize, why: &'static str) {
        let dropped = &mut self.links[by].counters.dropped;
        *dropped.entry(why).or_default() += 1;
    }

    /// A copy that a handler let go: the substrate may forget it.
    pub fn poll_dropped(&mut self) -> Option<u64> {
        while let Some((by, ticket)) = self.asked.dropped.pop_front() {
            if self.kept.get(&ticket) == Some(&by) {
                self.kept.remove(&ticket);
                self.links[by].let_go();
                return Some(ticket);
            }
        }
        None
    }

    /// The octets of a [`Sending`] are not needed any more: their memory is used again.
    pub fn recycle(&mut self, octets: Vec<u8>) {
        self.asked.spare.push(octets);
    }

    /// A held packet that was let go since.
    pub fn poll_released(&mut self) -> Option<Released> {
        while let Some((by, ticket, verdict)) = self.asked.released.pop_front() {
            // The substrate may have lost it meanwhile; and who does not hold it has no say.
            let Some(at) = self.held.get(&ticket).map(|h| h.at).filter(|at| *at == by) else {
                continue;
            };
            let link = &mut self.links[at];
            match verdict {
                Verdict::Hold => continue,
                Verdict::Accept => {}
                Verdict::Drop(reason) => {
                    *link.counters.dropped.entry(reason).or_default() += 1;
                    link.let_go();
                    self.held.remove(&ticket);
                }
            }
            return Some(Released { ticket, verdict });
        }
        None
    }

    /// The substrate lost a held packet.
    pub fn forget(&mut self, ticket: u64) {
        if let Some(h) = self.held.remove(&ticket) {
            let link = &mut self.links[h.at];
            link.let_go();
            link.handler.on_lost(ticket);
        }
    }

    /// Whether handlers asked for nothing that has not been polled yet.
    #[inline]
    pub fn is_settled(&self) -> bool {
        let asked = &self.asked;
        asked.released.is_empty() && asked.sending.is_empty() && asked.dropped.is_empty()
    }

    /// Packets held now.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// When a handler wants to be called.
    pub fn poll_timeout(&self) -> Time {
        self.due
    }

    /// Call the handlers whose time has come.
    pub fn handle_timeout(&mut self, now: Time, site: &dyn Site) {
        for (at, link) in self.links.iter_mut().enumerate() {
            for timer in 0..TIMERS {
                if link.timers[timer] > now {
                    continue;
                }
                link.timers[timer] = Time::NEVER;
                ask(&mut self.asked, (at, link), now, site, |handler, cx| {
                    handler.on_timer(timer as u8, cx)
                });
            }
        }
        let all = self.links.iter().flat_map(|l| l.timers);
        self.due = all.fold(Time::NEVER, Time::min);
    }

    /// The driver reported a transmission.
    pub fn on_tx_status(&mut self, status: &TxStatus, now: Time, site: &dyn Site) {
        for (at, link) in self.links.iter_mut().enumerate() {
            ask(&mut self.asked, (at, link), now, site, |handler, cx| {
                handler.on_tx_status(status, cx)
            });
            self.due = link.due(self.due);
        }
    }

    /// What handlers wrote since the last call.
    #[inline]
    pub fn take_lines(&mut self) -> Lines {
        core::mem::take(&mut self.asked.lines)
    }

    /// Name and account of each handler, in order.
    pub fn counters(&self) -> impl Iterator<Item = (&str, Counters)> {
        self.links.iter().map(|l| {
            let counts = l.seat.counts.iter().copied().zip(l.counts.iter().copied());
            let counters = Counters {
                counts: counts.collect(),
                ..l.counters.clone()
            };
            (l.seat.name.as_str(), counters)
        })
    }
}
