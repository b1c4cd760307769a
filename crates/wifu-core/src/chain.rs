//! A node's handlers, asked one after the other.

use crate::handler::{Handler, HopCx, Lines, Site, TIMERS, TxStatus};
use crate::hook::{Hook, Hooks, Packet, Verdict};
use crate::ip;
use crate::shim;
use std::collections::{BTreeMap, VecDeque};
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
    /// Wanted to hold, but held as many as it may.
    pub overflows: u64,
}

struct Link {
    name: String,
    handler: Box<dyn Handler>,
    hooks: Hooks,
    protocol: Option<u8>,
    most: u32,
    full: Full,
    holding: u32,
    timers: [Time; TIMERS],
    rng: Rng,
    counters: Counters,
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
    /// Who holds a packet, and at which hook.
    held: BTreeMap<u64, (usize, Hook)>,
    said: Said,
    due: Time,
}

/// What handlers said besides their verdicts.
#[derive(Default)]
struct Said {
    released: VecDeque<(usize, u64, Verdict)>,
    lines: Lines,
}

impl Said {
    /// Call a handler, by its place, with what it may use.
    fn ask<R>(
        &mut self,
        (at, link): (usize, &mut Link),
        now: Time,
        site: &dyn Site,
        call: impl FnOnce(&mut dyn Handler, &mut HopCx<'_>) -> R,
    ) -> R {
        let mut cx = HopCx {
            now,
            site,
            rng: &mut link.rng,
            at,
            timers: &mut link.timers,
            released: &mut self.released,
            lines: &mut self.lines,
        };
        call(&mut *link.handler, &mut cx)
    }
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

    /// Append a handler: its name, hooks, protocol (`None`: all; a packet with a shim is judged by
    /// what is inside), how many packets it may hold and what to do beyond that, its stream.
    #[allow(clippy::too_many_arguments)]
    pub fn push(
        &mut self,
        name: &str,
        handler: Box<dyn Handler>,
        hooks: Hooks,
        protocol: Option<u8>,
        most: u32,
        full: Full,
        rng: Rng,
    ) {
        self.links.push(Link {
            name: name.to_owned(),
            handler,
            hooks,
            protocol,
            most,
            full,
            holding: 0,
            timers: [Time::NEVER; TIMERS],
            rng,
            counters: Counters::default(),
        });
    }

    /// The hooks at which any handler is asked.
    pub fn hooks(&self) -> Hooks {
        self.links
            .iter()
            .fold(Hooks::NONE, |all, l| all.or(l.hooks))
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
        self.ask_from(0, hook, packet, now, site)
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
            (Verdict::Accept, Some((at, hook))) => {
                self.links[at].let_go();
                self.ask_from(at + 1, hook, packet, now, site)
            }
            (verdict, _) => verdict,
        }
    }

    fn ask_from(
        &mut self,
        first: usize,
        hook: Hook,
        packet: &mut Packet<'_>,
        now: Time,
        site: &dyn Site,
    ) -> Verdict {
        for at in first..self.links.len() {
            let link = &mut self.links[at];
            if !link.hooks.has(hook) || !meant(link.protocol, packet.octets()) {
                continue;
            }
            link.counters.packets += 1;
            let before = packet.changes();
            let verdict = self.said.ask((at, link), now, site, |handler, cx| {
                handler.on_packet(hook, packet, cx)
            });
            link.counters.changed += u64::from(packet.changes() > before);
            self.due = link.due(self.due);
            match verdict {
                Verdict::Accept => {}
                Verdict::Drop(reason) => {
                    *link.counters.dropped.entry(reason).or_default() += 1;
                    return verdict;
                }
                Verdict::Hold if link.holding < link.most => {
                    link.holding += 1;
                    link.counters.held += 1;
                    self.held.insert(packet.ticket, (at, hook));
                    return verdict;
                }
                Verdict::Hold => {
                    link.counters.overflows += 1;
                    link.handler.on_lost(packet.ticket);
                    if link.full == Full::Closed {
                        return Verdict::Drop("handler full");
                    }
                }
            }
        }
        Verdict::Accept
    }

    /// A held packet that was let go since.
    pub fn poll_released(&mut self) -> Option<Released> {
        while let Some((by, ticket, verdict)) = self.said.released.pop_front() {
            // The substrate may have lost it meanwhile; and who does not hold it has no say.
            let Some(at) = self.held.get(&ticket).map(|h| h.0).filter(|at| *at == by) else {
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
        if let Some((at, _)) = self.held.remove(&ticket) {
            let link = &mut self.links[at];
            link.let_go();
            link.handler.on_lost(ticket);
        }
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
                self.said.ask((at, link), now, site, |handler, cx| {
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
            self.said.ask((at, link), now, site, |handler, cx| {
                handler.on_tx_status(status, cx)
            });
            self.due = link.due(self.due);
        }
    }

    /// What handlers wrote since the last call.
    pub fn take_lines(&mut self) -> Lines {
        core::mem::take(&mut self.said.lines)
    }

    /// Name and account of each handler, in order.
    pub fn counters(&self) -> impl Iterator<Item = (&str, &Counters)> {
        self.links.iter().map(|l| (l.name.as_str(), &l.counters))
    }
}

/// Whether a packet is of this protocol, by itself or inside a shim.
fn meant(protocol: Option<u8>, packet: &[u8]) -> bool {
    let Some(wanted) = protocol else { return true };
    match shim::parse(packet) {
        Some((head, _)) => head.inner == wanted || wanted == shim::PROTOCOL,
        None => ip::protocol(packet) == Some(wanted),
    }
}
