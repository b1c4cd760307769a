//! The thread that runs the handlers: packets in, verdicts out.

mod sending;

use super::config::Settings;
use super::copies::Copies;
use super::ear::Ear;
use super::facts::Driver;
use super::gate::{Gate, Inbox, Look, Outbox};
use super::held::{Held, Passing};
use super::message::Queued;
use super::monitor::{Monitor, Sight};
use super::pending::Gone;
use super::queue::Ticket;
use super::repair::Borrowed;
use super::report::{HookCounters, Snapshot, handlers_of};
use super::sender::{Sender, sent_by};
use super::watch::{Shared, State};
use crate::poller::{Event, Interest, Poller};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use wifu_core::{Chain, Full, Hook, Hooks, Packet, Released, TxStatus, Verdict};
use wifu_wire::{Neighbour, Rate, Span, Time};

/// Batches taken before timers and others have their turn.
const ROUNDS: usize = 4;
/// Tickets of overheard frames, which nobody can hold.
const OVERHEARD: u64 = u64::MAX;
/// When ending, packets that wait are still judged for this long.
pub(crate) const LAST: Span = Span(200_000_000);

/// Who overheard a frame, and how.
struct Heard<'a> {
    from: Option<Neighbour>,
    rssi_dbm: Option<i8>,
    rate: Option<Rate>,
    packet: &'a [u8],
}

/// The handlers were replaced meanwhile: nothing here counts any more.
struct Replaced;

pub(crate) struct Worker {
    chain: Chain,
    shared: Arc<Shared>,
    inbox: Option<Inbox>,
    outbox: Outbox,
    gate: Gate,
    /// Whose packets come.
    wired: Hooks,
    ears: Vec<Ear>,
    monitor: Option<Monitor>,
    here: Driver,
    held: BTreeMap<u64, Held>,
    held_most: usize,
    copies: Copies,
    sender: Option<Sender>,
    /// Packets that handlers sent and that later ones were asked about.
    asked_about: u32,
    room: Vec<u8>,
    closed: bool,
    hooks: [HookCounters; 6],
    account: Snapshot,
}

impl Worker {
    pub(crate) fn new(
        chain: Chain,
        (settings, wired): (&Settings, Hooks),
        (gate, sender): (Gate, Option<Sender>),
        (ears, monitor): (Vec<Ear>, Option<Monitor>),
        shared: Arc<Shared>,
    ) -> Worker {
        let here = Driver::new(
            settings.node,
            settings.delay_dir.clone(),
            Some(settings.first_delay),
        );
        Worker {
            chain,
            inbox: Some(Inbox::of_handlers(&gate, shared.clone())),
            outbox: Outbox::of_handlers(&gate, shared.clone()),
            shared,
            gate,
            wired,
            ears,
            monitor,
            here,
            held: BTreeMap::new(),
            held_most: settings.held_octets,
            copies: Copies::default(),
            sender,
            asked_about: 0,
            room: Vec::new(),
            closed: settings.when_full == Full::Closed,
            hooks: Default::default(),
            account: Snapshot::default(),
        }
    }

    /// Work until asked to end, or replaced.
    pub(crate) fn run(mut self, mut poller: Poller) {
        super::watch::survive_panics(&self.shared);
        let shared = self.shared.clone();
        match self.work(&mut poller) {
            Ok(()) => {
                self.publish();
                shared.leave(State::Ended);
            }
            Err(e) => {
                tracing::error!("where packets come from: {e}");
                shared.leave(State::Broken);
            }
        }
    }

    fn work(&mut self, poller: &mut Poller) -> io::Result<()> {
        self.gate.watch(poller, 0)?;
        for ear in &self.ears {
            poller.add(ear, 1, Interest::READ)?;
        }
        if let Some(monitor) = &self.monitor {
            poller.add(monitor, 1, Interest::READ)?;
        }
        let mut events: Vec<Event> = Vec::new();
        let mut handled = 0;
        loop {
            let until = self.outbox.wake_by(self.chain.poll_timeout());
            poller.wait(until, handled, &mut events)?;
            handled = match self.round() {
                Ok(n) => n?,
                Err(Replaced) => return Ok(()),
            };
            if self.shared.wanted() {
                self.publish();
            }
            if self.shared.shall_end() {
                return self.finish(poller);
            }
        }
    }

    /// One turn for everybody; gives how many packets came.
    fn round(&mut self) -> Result<io::Result<usize>, Replaced> {
        self.check()?;
        self.here.refresh(Poller::now());
        let mut handled = 0;
        if self.outbox.is_stuck() {
            self.outbox.hand_over();
        }
        for _ in 0..ROUNDS {
            // No more packets than the kernel has memory to hear about: its queue has a bound.
            if self.outbox.is_stuck() {
                self.outbox.wait_for_memory();
                handled += 1;
                break;
            }
            match self.take()? {
                Ok(0) => break,
                Ok(n) => handled += n,
                Err(e) => return Ok(Err(e)),
            }
            // A batch takes a slow handler long enough.
            if self.shared.is_awaited() {
                break;
            }
        }
        handled += self.overhear()?;
        handled += self.watch_air()?;
        let now = Poller::now();
        if self.chain.poll_timeout() <= now {
            self.shared.step();
            self.chain.handle_timeout(now, &self.here);
            self.shared.step();
            self.check()?;
        }
        self.settle(now)?;
        self.outbox.hand_over();
        self.say();
        Ok(Ok(handled))
    }

    fn check(&self) -> Result<(), Replaced> {
        match self.shared.state() {
            State::Working => Ok(()),
            _ => Err(Replaced),
        }
    }

    /// Take one batch of packets and judge them; gives how many there were.
    fn take(&mut self) -> Result<io::Result<usize>, Replaced> {
        // Out of `self` while its buffers are read.
        let Some(mut inbox) = self.inbox.take() else {
            return Ok(Ok(0));
        };
        let result = self.take_from(&mut inbox);
        self.inbox = Some(inbox);
        result
    }

    fn take_from(&mut self, inbox: &mut Inbox) -> Result<io::Result<usize>, Replaced> {
        let n = match inbox.look() {
            Ok(Look::Some(n)) => n,
            Ok(Look::Empty) => return Ok(Ok(0)),
            Ok(Look::Overflow) => {
                self.account.overflows += 1;
                return Ok(Ok(1));
            }
            Err(e) => return Ok(Err(e)),
        };
        let now = Poller::now();
        for i in 0..n {
            let mut result = Ok(());
            let failed = inbox.each(i, |queued| {
                if result.is_ok() {
                    result = self.judge(&queued, now);
                }
            });
            self.account.late_verdicts += failed;
            result?;
        }
        self.outbox.hand_over();
        Ok(Ok(n))
    }

    /// Ask the handlers about a packet, and say what becomes of it.
    fn judge(&mut self, queued: &Queued<'_>, now: Time) -> Result<(), Replaced> {
        let ticket = Ticket {
            queue: queued.queue,
            id: queued.id,
        };
        let Some(hook) = Hook::ALL.get(usize::from(queued.queue)).copied() else {
            self.outbox.verdict(ticket, !self.closed, None);
            return Ok(());
        };
        self.shared.note_taken(ticket);
        let counters = &mut self.hooks[usize::from(queued.queue)];
        counters.packets += 1;
        counters.octets += queued.payload.len() as u64;
        counters.shape.note(queued.payload);
        let mut room = core::mem::take(&mut self.room);
        let mut copies = self.lend_copies();
        let whole = !queued.cut && !queued.super_packet;
        let octets = Borrowed::new(queued.payload, &mut room).partial(queued.partial);
        let mut octets = octets.kept_in(&mut copies, whole);
        let mut packet = Packet::new(&mut octets, ticket.number());
        packet.transmitter = queued.source;
        self.shared.step();
        let (chain, here) = (&mut self.chain, &self.here);
        let verdict = match sent_by(queued.mark) {
            None => chain.on_packet(hook, &mut packet, now, here),
            Some(by) if hook == Hook::Postrouting => {
                chain.on_sent(by, hook, &mut packet, now, here)
            }
            // What handlers send enters before postrouting.
            Some(_) => Verdict::Accept,
        };
        self.shared.step();
        self.check()?;
        let changed = octets.repaired();
        self.copies = copies;
        match verdict {
            Verdict::Drop(_) => {
                self.hooks[usize::from(queued.queue)].dropped += 1;
                self.outbox.verdict(ticket, false, None);
            }
            Verdict::Accept => {
                let passing = Passing {
                    hook,
                    ticket,
                    original: queued.payload,
                    changed,
                    whole,
                    device: queued.device,
                    sent: None,
                };
                self.accept(&passing, now);
            }
            Verdict::Hold => {
                let held = Held {
                    octets: changed.unwrap_or(queued.payload).to_vec(),
                    changed: changed.is_some(),
                    whole,
                    partial: queued.partial && changed.is_none(),
                    hook,
                    source: queued.source,
                    device: queued.device,
                    sent: None,
                };
                self.hold(ticket, held, now);
            }
        }
        self.room = room;
        Ok(())
    }

    /// Let a packet go on, as it was changed if it was.
    fn accept(&mut self, p: &Passing<'_>, now: Time) {
        if let Some((by, to)) = p.sent {
            return self.leave(by, p.changed.unwrap_or(p.original), to);
        }
        let counters = &mut self.hooks[usize::from(p.hook.number())];
        if p.changed.is_some() && !p.whole {
            counters.unchangeable += 1;
            self.outbox.verdict(p.ticket, !self.closed, None);
            return;
        }
        counters.accepted += 1;
        counters.changed += u64::from(p.changed.is_some());
        if let (Some(monitor), true) = (&mut self.monitor, p.whole) {
            let gone = Gone {
                hook: p.hook,
                ticket: p.ticket.number(),
                device: p.device,
                at: now,
            };
            let account = &mut monitor.account;
            account.let_go(p.changed.unwrap_or(p.original), gone);
            self.here.set_queued(account.queued());
        }
        self.outbox.verdict(p.ticket, true, p.changed);
    }

    /// Keep a packet, if there is memory for it.
    fn hold(&mut self, ticket: Ticket, held: Held, now: Time) {
        if self.account.held_octets + self.copies.octets() + held.octets.len() > self.held_most {
            self.account.no_memory += 1;
            self.forget(ticket.number());
            if self.closed {
                self.drop(ticket, &held);
            } else {
                self.accept(&held.passing(ticket, None), now);
            }
            return;
        }
        self.hooks[usize::from(held.hook.number())].held += u64::from(held.sent.is_none());
        self.account.held_octets += held.octets.len();
        self.held.insert(ticket.number(), held);
    }

    fn drop(&mut self, ticket: Ticket, held: &Held) {
        if held.sent.is_none() {
            self.hooks[usize::from(held.hook.number())].dropped += 1;
            self.outbox.verdict(ticket, false, None);
        }
    }

    /// Tell the handler that wants to hold a packet that it cannot.
    fn forget(&mut self, number: u64) {
        self.shared.step();
        self.chain.forget(number);
        self.shared.step();
    }

    /// The copies, with room for what is not taken by packets that are held.
    fn lend_copies(&mut self) -> Copies {
        let mut copies = core::mem::take(&mut self.copies);
        copies.set_room(self.held_most.saturating_sub(self.account.held_octets));
        copies
    }

    /// Do what handlers asked for: what they let go goes on to the handlers after them, what they
    /// send leaves.
    fn settle(&mut self, now: Time) -> Result<(), Replaced> {
        while !self.chain.is_settled() {
            while let Some(released) = self.chain.poll_released() {
                let Some(held) = self.held.remove(&released.ticket) else {
                    continue;
                };
                self.account.held_octets -= held.octets.len();
                self.resume(released, held, now)?;
            }
            while let Some(sending) = self.chain.poll_sending() {
                self.send(sending, now)?;
            }
            while let Some(copy) = self.chain.poll_dropped() {
                self.copies.forget(copy);
            }
        }
        Ok(())
    }

    fn resume(&mut self, released: Released, held: Held, now: Time) -> Result<(), Replaced> {
        let ticket = Ticket::of(released.ticket);
        let mut room = core::mem::take(&mut self.room);
        let mut copies = self.lend_copies();
        let octets = Borrowed::new(&held.octets, &mut room).partial(held.partial);
        let mut octets = octets.kept_in(&mut copies, held.whole);
        let mut packet = Packet::new(&mut octets, released.ticket);
        packet.transmitter = held.source;
        self.shared.step();
        let verdict = self.chain.resume(released, &mut packet, now, &self.here);
        self.shared.step();
        self.check()?;
        let changed = octets.repaired();
        self.copies = copies;
        match verdict {
            Verdict::Drop(_) => self.drop(ticket, &held),
            Verdict::Accept => {
                self.accept(&held.passing(ticket, changed), now);
            }
            Verdict::Hold => {
                let again = Held {
                    octets: changed.unwrap_or(&held.octets).to_vec(),
                    changed: held.changed || changed.is_some(),
                    partial: held.partial && changed.is_none(),
                    ..held
                };
                self.hold(ticket, again, now);
            }
        }
        self.room = room;
        Ok(())
    }

    /// Ask about frames to others. Nothing can become of them.
    fn overhear(&mut self) -> Result<usize, Replaced> {
        let mut ears = core::mem::take(&mut self.ears);
        let mut heard = 0;
        let mut result = Ok(());
        for ear in &mut ears {
            heard += ear.listen(|from, packet| {
                if result.is_ok() {
                    let heard = Heard {
                        from,
                        rssi_dbm: None,
                        rate: None,
                        packet,
                    };
                    result = self.judge_overheard(&heard);
                }
            });
        }
        self.ears = ears;
        result.map(|()| heard)
    }

    /// What the monitor interface shows: frames to others, and the driver's reports of ours.
    fn watch_air(&mut self) -> Result<usize, Replaced> {
        let Some(mut monitor) = self.monitor.take() else {
            return Ok(0);
        };
        let overhears = self.chain.hooks().has(Hook::Overheard);
        let mut result = Ok(());
        let now = Poller::now();
        let seen = monitor.listen(now, |sight, queued| {
            if result.is_err() {
                return;
            }
            match sight {
                Sight::Overheard { facts, packet } if overhears => {
                    let heard = Heard {
                        from: facts.transmitter,
                        rssi_dbm: facts.rssi_dbm,
                        rate: facts.rate,
                        packet,
                    };
                    result = self.judge_overheard(&heard);
                }
                Sight::Overheard { .. } | Sight::ForUs { .. } => {}
                Sight::Reported {
                    packet,
                    delivered,
                    tries,
                    rate,
                } => {
                    self.here.set_queued(queued);
                    self.here.reported(now, packet.map(|p| p.1), rate);
                    if let Some((ticket, sample)) = packet {
                        let status = TxStatus {
                            ticket,
                            delivered,
                            attempts: tries,
                            airtime: None,
                            delay: sample,
                        };
                        result = self.tell_status(&status, now);
                    }
                }
            }
        });
        self.here.set_queued(monitor.account.queued());
        monitor.account.take_lost().for_each(drop);
        self.monitor = Some(monitor);
        result.map(|()| seen)
    }

    fn tell_status(&mut self, status: &TxStatus, now: Time) -> Result<(), Replaced> {
        self.shared.step();
        self.chain.on_tx_status(status, now, &self.here);
        self.shared.step();
        self.check()
    }

    fn judge_overheard(&mut self, heard: &Heard<'_>) -> Result<(), Replaced> {
        let counters = &mut self.hooks[usize::from(Hook::Overheard.number())];
        counters.packets += 1;
        counters.octets += heard.packet.len() as u64;
        self.account.overheard += 1;
        let mut room = core::mem::take(&mut self.room);
        let mut copies = self.lend_copies();
        let mut octets = Borrowed::new(heard.packet, &mut room).kept_in(&mut copies, true);
        let mut packet = Packet::new(&mut octets, OVERHEARD);
        packet.transmitter = heard.from;
        packet.rssi_dbm = heard.rssi_dbm;
        packet.rate = heard.rate;
        let now = Poller::now();
        self.shared.step();
        let verdict = self
            .chain
            .on_packet(Hook::Overheard, &mut packet, now, &self.here);
        self.shared.step();
        self.copies = copies;
        if verdict == Verdict::Hold {
            self.forget(OVERHEARD);
        }
        self.room = room;
        self.check()
    }

    /// Pass the handlers' lines on.
    fn say(&mut self) {
        let lines = self.chain.take_lines();
        if lines.is_empty() {
            return;
        }
        for line in lines {
            self.account.lost_lines += u64::from(!self.shared.say(line));
        }
        self.shared.wake_watcher();
    }

    fn publish(&mut self) {
        let request = self.shared.requested();
        for counters in &mut self.hooks {
            counters.shape.held_now = 0;
        }
        for held in self.held.values().filter(|h| h.sent.is_none()) {
            self.hooks[usize::from(held.hook.number())].shape.held_now += 1;
        }
        let ears = self.ears.iter().map(Ear::silence);
        let silences = ears.chain(self.monitor.iter().map(|m| &m.silence));
        let silent = silences.filter(|s| s.lasts).map(|s| s.device.clone());
        self.account.silent = silent.collect();
        let names = Hook::ALL.map(Hook::name);
        let used = names.into_iter().zip(self.hooks);
        self.account.hooks = used.filter(|(_, c)| c.packets > 0).collect();
        self.account.handlers = handlers_of(&self.chain);
        self.account.held_now = self.held.len();
        self.account.copies_now = self.copies.len();
        self.account.copies_octets = self.copies.octets();
        self.account.no_memory += self.copies.take_refused();
        let monitor = self.monitor.as_mut().map(Monitor::counters);
        self.account.monitor = monitor.map(Box::new);
        self.account.refused_verdicts = self.outbox.refused();
        self.shared.give(self.account.clone(), request);
    }

    /// No rules send packets any more: judge what waits, and wait for what is held. What remains
    /// after that is let pass, or dropped, and counted by whoever asked us to end.
    fn finish(&mut self, poller: &mut Poller) -> io::Result<()> {
        let until = Poller::now() + LAST;
        let mut events = Vec::new();
        while Poller::now() < until {
            match self.round() {
                Ok(Ok(0)) if self.held.is_empty() => break,
                Ok(Ok(0)) => {
                    let next = self.outbox.wake_by(self.chain.poll_timeout());
                    poller.wait(next.min(until), 0, &mut events)?;
                }
                Ok(Ok(_)) => {}
                Ok(Err(e)) => return Err(e),
                Err(Replaced) => return Ok(()),
            }
        }
        self.outbox.hand_over_until(until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::{self, tests::sample};
    use crate::core::queue::tests::{full_socket, handed_over};
    use crate::poller::Coalesce;
    use std::time::Duration;

    #[test]
    fn a_refused_verdict_is_handed_over_although_nothing_else_happens() {
        let (socket, kernel) = full_socket();
        let (sender, _lines) = std::sync::mpsc::sync_channel(1);
        let watcher = Poller::new(Coalesce::OFF).unwrap();
        let shared = Shared::new(sender, watcher.waker());
        let settings = Settings::default();
        let listeners = (Vec::new(), None);
        let sockets = (Gate::Queues(socket), None);
        let worker = Worker::new(
            Chain::new(),
            (&settings, Hooks::WIRED),
            sockets,
            listeners,
            shared.clone(),
        );
        let (give, take) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let poller = Poller::new(Coalesce::OFF).unwrap();
            give.send(poller.waker()).unwrap();
            worker.run(poller);
        });
        let waker = take.recv().unwrap();
        kernel.send(&sample()).unwrap();
        while shared.snapshot().refused_verdicts == 0 {
            shared.want_snapshot();
            waker.wake();
            std::thread::sleep(Duration::from_millis(5));
        }
        // Its last round is over, and it sleeps.
        std::thread::sleep(Duration::from_millis(50));
        let mut wanted = Vec::new();
        message::verdict(&mut wanted, 3, 7, true, None);
        let seen = handed_over(&kernel, Duration::from_secs(2));
        shared.ask_to_end();
        waker.wake();
        thread.join().unwrap();
        assert_eq!(seen, wanted);
        assert_eq!(shared.state(), State::Ended);
    }
}
