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
    /// Packets that it kept back since the start, those let go since included.
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
        self.forget(packet.ticket);
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
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Octets;
    use wifu_wire::{LinkFacts, LinkTo, Span};

    struct Here;

    impl Site for Here {
        fn node(&self) -> u16 {
            1
        }
        fn link(&self) -> LinkFacts {
            LinkFacts::default()
        }
    }

    /// Holds what begins with `h`, copies what begins with `k` and lets the rest go; its timer does
    /// what it was told, on packets of these tickets.
    struct Told {
        releases: Vec<(u64, Verdict)>,
        sends: Vec<(u64, bool)>,
        drops: Vec<u64>,
    }

    impl Handler for Told {
        fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
            cx.arm(0, Time(10));
            match packet.octets()[0] {
                b'h' => Verdict::Hold,
                b'k' => {
                    packet.copy();
                    Verdict::Accept
                }
                _ => Verdict::Accept,
            }
        }

        fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
            for (ticket, verdict) in self.releases.drain(..) {
                cx.release(ticket, verdict);
            }
            for (ticket, stays) in self.sends.drain(..) {
                cx.send_kept(ticket, stays, LinkTo::Route);
            }
            for ticket in self.drops.drain(..) {
                cx.drop_kept(ticket);
            }
        }
    }

    /// A packet whose copies have the ticket 100 more than its first digit says.
    struct Bytes(Vec<u8>);

    impl Octets for Bytes {
        fn get(&self) -> &[u8] {
            &self.0
        }
        fn get_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
        fn replace(&mut self, octets: &[u8]) {
            self.0 = octets.to_vec();
        }
        fn copy(&mut self) -> Option<u64> {
            Some(100 + u64::from(self.0[1] - b'0'))
        }
    }

    fn told(releases: &[(u64, Verdict)], sends: &[(u64, bool)], drops: &[u64]) -> Told {
        Told {
            releases: releases.to_vec(),
            sends: sends.to_vec(),
            drops: drops.to_vec(),
        }
    }

    fn chain(most: u32, handlers: Vec<Told>) -> Chain {
        let mut chain = Chain::new();
        for handler in handlers {
            let rng = Rng::new(1);
            let mut seat = Seat::new("told", Hooks::of(&[Hook::Forward]), rng);
            seat.most = most;
            chain.push(seat, Box::new(handler));
        }
        chain
    }

    fn ask(chain: &mut Chain, octets: &str, ticket: u64) -> Verdict {
        let mut bytes = Bytes(octets.into());
        let mut packet = Packet::new(&mut bytes, ticket);
        chain.on_packet(Hook::Forward, &mut packet, Time(1), &Here)
    }

    fn first(chain: &Chain) -> Counters {
        chain.counters().next().expect("there is one").1
    }

    #[test]
    fn what_is_let_go_to_be_dropped_is_counted_by_reason_and_makes_room() {
        let releases = [
            (1, Verdict::Drop("old")),
            (2, Verdict::Hold),
            (3, Verdict::Drop("stray")),
            (2, Verdict::Drop("old")),
        ];
        let mut c = chain(2, vec![told(&releases, &[], &[])]);
        for ticket in [1, 2] {
            assert_eq!(ask(&mut c, "h", ticket), Verdict::Hold);
        }
        assert_eq!(ask(&mut c, "h", 3), Verdict::Accept, "it holds two");
        c.handle_timeout(Time(10), &Here);
        let gone: Vec<u64> = core::iter::from_fn(|| c.poll_released())
            .map(|r| r.ticket)
            .collect();
        // Of the third it has no say; to let go and to hold is nothing.
        assert_eq!((gone, c.held()), (vec![1, 2], 0));
        let counters = first(&c);
        assert_eq!(counters.dropped, BTreeMap::from([("old", 2)]));
        assert_eq!(
            (counters.packets, counters.held, counters.overflows),
            (3, 2, 1)
        );
        // There is room for two again, not for three.
        let again = [4, 5, 6].map(|ticket| ask(&mut c, "h", ticket));
        assert_eq!(again, [Verdict::Hold, Verdict::Hold, Verdict::Accept]);
        assert_eq!((first(&c).held, first(&c).overflows), (4, 2));
    }

    /// Changes what begins with `c`, drops what begins with `d`. Counts the reports of the driver,
    /// and how often the timer woke it that it sets when one comes: then it sends.
    struct Reports;

    impl Handler for Reports {
        fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
            match packet.octets()[0] {
                b'c' => {
                    packet.octets_mut()[1] = b'!';
                    Verdict::Accept
                }
                b'd' => Verdict::Drop("unwanted"),
                _ => Verdict::Accept,
            }
        }

        fn on_tx_status(&mut self, status: &TxStatus, cx: &mut HopCx<'_>) {
            cx.count(0);
            cx.arm(1, cx.now + status.delay);
        }

        fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
            cx.count(1);
            cx.send(b"own", LinkTo::Route);
        }
    }

    fn reports() -> Chain {
        let mut seat = Seat::new("reports", Hooks::of(&[Hook::Forward]), Rng::new(1));
        seat.counts = &["reports", "woken"];
        let mut chain = Chain::new();
        chain.push(seat, Box::new(Reports));
        chain
    }

    fn status(delay: Span) -> TxStatus {
        TxStatus {
            ticket: 1,
            delivered: true,
            attempts: 1,
            airtime: None,
            delay,
        }
    }

    #[test]
    fn what_a_handler_lets_pass_changes_and_drops_is_told_apart() {
        let mut c = reports();
        for (ticket, octets) in ["xx", "cx", "dx", "xx", "dx"].into_iter().enumerate() {
            let verdict = ask(&mut c, octets, ticket as u64);
            let dropped = octets.starts_with('d');
            assert_eq!(verdict != Verdict::Accept, dropped, "{octets}");
        }
        let counters = first(&c);
        assert_eq!((counters.packets, counters.changed), (5, 1));
        assert_eq!(counters.dropped, BTreeMap::from([("unwanted", 2)]));
    }

    #[test]
    fn a_report_reaches_handlers_and_what_they_count_is_in_their_account() {
        let mut c = reports();
        assert_eq!(c.poll_timeout(), Time::NEVER);
        c.on_tx_status(&status(Span(30)), Time(10), &Here);
        c.on_tx_status(&status(Span(20)), Time(10), &Here);
        assert_eq!(c.poll_timeout(), Time(30), "the timer that it set then");
        // Before its time nobody is woken, after it once.
        for (now, woken) in [(29, 0), (31, 1), (32, 1)] {
            c.handle_timeout(Time(now), &Here);
            let counts = vec![("reports", 2), ("woken", woken)];
            assert_eq!(first(&c).counts, counts, "at {now}");
        }
        assert_eq!(c.poll_timeout(), Time::NEVER);
    }

    #[test]
    fn a_chain_is_settled_once_all_is_polled_that_handlers_asked_for() {
        let release = [(1, Verdict::Accept)];
        for (releases, sends, drops) in [
            (&release[..], &[][..], &[][..]),
            (&[], &[(102, true)], &[]),
            (&[], &[], &[102]),
        ] {
            let mut c = chain(2, vec![told(releases, sends, drops)]);
            assert_eq!(ask(&mut c, "h1", 1), Verdict::Hold);
            assert_eq!(ask(&mut c, "k2", 2), Verdict::Accept);
            assert!(c.is_settled());
            c.handle_timeout(Time(10), &Here);
            assert!(!c.is_settled(), "{releases:?} {sends:?} {drops:?}");
            let polled = (
                c.poll_released().map(|r| r.ticket),
                c.poll_sending().is_some(),
                c.poll_dropped(),
            );
            let expected = (
                releases.first().map(|r| r.0),
                !sends.is_empty(),
                drops.first().copied(),
            );
            assert_eq!(polled, expected);
            assert!(c.is_settled());
        }
    }

    #[test]
    fn the_octets_of_what_was_sent_are_used_again() {
        let mut c = reports();
        let mut sent = |now| {
            c.on_tx_status(&status(Span::ZERO), Time(now), &Here);
            c.handle_timeout(Time(now), &Here);
            let What::Octets(mut octets) = c.poll_sending().expect("it sends").what else {
                panic!("octets of its own");
            };
            assert_eq!(octets, b"own");
            let had = octets.capacity();
            octets.reserve(1500);
            c.recycle(octets);
            had
        };
        assert!(sent(1) < 1500);
        assert!(sent(2) >= 1500, "the memory of the first");
    }

    #[test]
    fn a_chain_is_asked_where_one_of_its_handlers_is_and_about_what_that_one_is() {
        let mut c = Chain::new();
        assert!(c.is_empty());
        let of_protocol = |hook, number| {
            let mut seat = Seat::new("told", Hooks::of(&[hook]), Rng::new(1));
            seat.select = Select::protocol(Some(number));
            seat
        };
        c.push(of_protocol(Hook::Input, 200), Box::new(Reports));
        c.push(of_protocol(Hook::Forward, 201), Box::new(Reports));
        assert!(!c.is_empty());
        assert_eq!(c.hooks(), Hooks::of(&[Hook::Input, Hook::Forward]));
        // An IP header and nothing else, of this protocol.
        let packet = |number: u8| {
            let mut packet = [0; 20];
            (packet[0], packet[3], packet[9]) = (0x45, 20, number);
            packet
        };
        for (hook, number, wanted) in [
            (Hook::Input, 200, true),
            (Hook::Input, 201, false),
            (Hook::Forward, 200, false),
            (Hook::Forward, 201, true),
            (Hook::Output, 200, false),
        ] {
            assert_eq!(c.wants(hook, &packet(number)), wanted, "{hook:?} {number}");
        }
    }

    #[test]
    fn who_does_not_hold_a_packet_has_no_say_in_it() {
        let other = told(&[(1, Verdict::Drop("mine"))], &[], &[]);
        let mut c = chain(1, vec![told(&[], &[], &[]), other]);
        assert_eq!(ask(&mut c, "h", 1), Verdict::Hold);
        // The second is asked about this one, and with it woken.
        assert_eq!(ask(&mut c, "x", 2), Verdict::Accept);
        c.handle_timeout(Time(10), &Here);
        assert_eq!((c.poll_released(), c.held()), (None, 1));
        assert!(c.counters().all(|(_, c)| c.dropped.is_empty()));
    }

    #[test]
    fn copies_take_places_until_they_are_sent_away_or_dropped() {
        let mut c = chain(
            2,
            vec![told(
                &[],
                &[(101, true), (102, false), (102, false), (9, false)],
                &[101, 101, 9],
            )],
        );
        for (octets, ticket) in [("k1", 1), ("k2", 2), ("k3", 3)] {
            assert_eq!(ask(&mut c, octets, ticket), Verdict::Accept);
        }
        assert_eq!((first(&c).kept, first(&c).sent), (2, 0), "it may keep two");
        c.handle_timeout(Time(10), &Here);
        let sent: Vec<bool> = core::iter::from_fn(|| c.poll_sending())
            .map(|s| matches!(s.what, What::Kept { stays: true, .. }))
            .collect();
        // What was sent away is not there to be sent again.
        assert_eq!((sent, first(&c).sent), (vec![true, false], 2));
        // One place is free, of what was sent and did not stay; then the other one.
        assert_eq!(ask(&mut c, "k4", 4), Verdict::Accept);
        assert_eq!(ask(&mut c, "k5", 5), Verdict::Accept);
        assert_eq!(first(&c).kept, 3);
        assert_eq!((c.poll_dropped(), c.poll_dropped()), (Some(101), None));
        assert_eq!(ask(&mut c, "k5", 5), Verdict::Accept);
        assert_eq!(ask(&mut c, "k6", 6), Verdict::Accept);
        assert_eq!(first(&c).kept, 4);
        c.unsent(0, "no way");
        c.unsent(0, "no way");
        assert_eq!(first(&c).dropped, BTreeMap::from([("no way", 2)]));
    }
}
