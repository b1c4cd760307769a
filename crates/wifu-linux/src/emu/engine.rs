//! The radio's thread: frames from TAP devices into the model, and out of it again.
//!
//! Everything that happens on the radio happens at the model time that the model says, however late
//! this thread gets to it. The clock decides two things only: at which model time a frame that was
//! read from a TAP enters the model, and when a frame that the model delivered is written to a TAP.
//! What a kernel sends while it is handed a frame (a packet that it forwards, an acknowledgement)
//! enters at the time of that delivery, whatever the clock says; and so does what a program on its
//! host sends a moment after it, if the model is to wait for that.

use super::air::Air;
use super::clock::Clock;
use super::control::Asked;
use super::late::Lateness;
use super::monitor::{self, Monitors};
use super::net::{Host, node_of};
use super::script::{Change, Play};
use super::shared::Shared;
use super::slab::{BUFFER, Slab};
use super::valve::Credits;
use crate::poller::{self, Interest, Poller};
use core::sync::atomic::Ordering;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use wifu_radio::{Event, Frame, Radio};
use wifu_wire::{Span, Time};

mod orders;

/// Octets of an Ethernet header.
const HEADER: usize = 14;
/// Frames read from one TAP before others get their turn.
const BATCH: usize = 16;
/// Frames thrown away before others get their turn: several rings full.
const MOST_DISCARDED: usize = 10_000;
/// Events of the radio handled before orders are looked at, however late they are.
const MOST_EVENTS: usize = 10_000;
/// How often it is told how busy the medium is, in model time: ten times in the time that the share
/// is of.
const SURVEY: Span = Span(10_000_000);

/// A node's TAP device.
struct Tap {
    fd: OwnedFd,
    /// It is read when it has something; not while the model has no room.
    armed: bool,
    /// Its device is gone: somebody removed the namespace.
    gone: bool,
    /// The host restarts: what its kernel sends is lost.
    off: bool,
}

/// What was counted, beside the model's own counters.
#[derive(Clone, Copy, Default)]
struct Counts {
    sent: u64,
    at_once: u64,
    unknown: u64,
    refused: u64,
}

pub(crate) struct Engine {
    radio: Radio,
    clock: Clock,
    dilation: f64,
    spin: bool,
    patience: Span,
    poller: Poller,
    taps: Vec<Tap>,
    hosts: Arc<Vec<Host>>,
    slab: Slab,
    monitors: Monitors,
    air: Air,
    play: Play,
    orders: Receiver<Asked>,
    shared: Arc<Shared>,
    credits: Credits,
    deliveries: Lateness,
    events: Lateness,
    counts: Counts,
    /// Nodes whose kernels were handed something at this model time, and may have answered.
    handed: Vec<u16>,
    /// Nodes of which programs may still answer what was delivered at this model time.
    awaited: Vec<u16>,
    /// The model stands still until then, by the clock on the wall, or until all have answered.
    held: Time,
    /// Model time of the last event or frame.
    now: Time,
    /// When it is told next how busy the medium is; never while it is quiet, and told so.
    survey_at: Time,
}

/// Whether a descriptor can be read.
fn has_more(fd: &OwnedFd) -> bool {
    let mut all = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut all, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}

/// What an [`Engine`] is made of.
pub(crate) struct Parts {
    pub radio: Radio,
    pub air: Air,
    pub play: Play,
    pub clock: Clock,
    pub dilation: f64,
    pub spin: bool,
    pub patience: Span,
    pub poller: Poller,
    pub taps: Vec<OwnedFd>,
    pub monitors: Monitors,
    pub hosts: Arc<Vec<Host>>,
    pub orders: Receiver<Asked>,
    pub shared: Arc<Shared>,
    pub credits: Credits,
}

impl Engine {
    /// Nothing has happened yet.
    pub fn new(parts: Parts) -> io::Result<Engine> {
        let tap = |fd| Tap {
            fd,
            armed: true,
            gone: false,
            off: false,
        };
        let taps: Vec<Tap> = parts.taps.into_iter().map(tap).collect();
        for (i, tap) in taps.iter().enumerate() {
            parts.poller.add(&tap.fd, i as u64, Interest::READ)?;
        }
        Ok(Engine {
            radio: parts.radio,
            clock: parts.clock,
            dilation: parts.dilation,
            spin: parts.spin,
            patience: parts.patience,
            poller: parts.poller,
            taps,
            hosts: parts.hosts,
            slab: Slab::default(),
            monitors: parts.monitors,
            air: parts.air,
            play: parts.play,
            orders: parts.orders,
            shared: parts.shared,
            credits: parts.credits,
            deliveries: Lateness::default(),
            events: Lateness::default(),
            counts: Counts::default(),
            handed: Vec::new(),
            awaited: Vec::new(),
            held: Time::ZERO,
            now: Time::ZERO,
            survey_at: Time::NEVER,
        })
    }

    /// Until it is told to stop.
    pub fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::with_capacity(self.taps.len());
        self.grant_all();
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.catch_up();
            self.survey();
            while let Ok((order, reply)) = self.orders.try_recv() {
                let answer = self.obey(order);
                // Whoever asked may have lost patience.
                let _ = reply.send(answer);
            }
            if self.credits.forget_stuck() {
                self.grant_all();
            }
            let deadline = match self.spin {
                true => Time::ZERO,
                false => {
                    let due = self.next().min(self.survey_at);
                    self.clock.wall(due).max(self.held)
                }
            };
            self.poller.wait(deadline, 0, &mut ready)?;
            for event in &ready {
                self.read(event);
            }
        }
        Ok(())
    }

    /// The model time of what comes next.
    fn next(&self) -> Time {
        self.radio.poll_timeout().min(self.play.next())
    }

    /// The model time by now: it stands still while a program's answer is waited for.
    fn present(&mut self) -> Time {
        let wall = Poller::now();
        if wall < self.held {
            return self.now;
        }
        self.held = Time::ZERO;
        self.clock.model(wall)
    }

    /// Everything that is due on the radio by now, each at its own time. Gives the model time at
    /// which something new may happen.
    fn catch_up(&mut self) -> Time {
        for _ in 0..MOST_EVENTS {
            let now = self.present();
            let due = self.next();
            if due > now {
                self.now = self.now.max(now);
                self.radio.pass_to(self.now);
                return self.now;
            }
            self.events.add(now - due);
            self.now = self.now.max(due);
            // As in the simulator, the radio is first.
            if self.radio.poll_timeout() <= due {
                self.radio.handle_timeout(self.now);
            } else {
                self.radio.pass_to(self.now);
                self.change(due);
            }
            self.tell();
            self.take_answers();
            if self.survey_at == Time::NEVER {
                self.survey_at = self.now + SURVEY;
            }
        }
        // Hopelessly late: what is new enters the past that the model has reached.
        self.now
    }

    /// Tell how busy each node finds the medium, if it is time to.
    fn survey(&mut self) {
        if self.now < self.survey_at {
            return;
        }
        let mut quiet = true;
        for (node, told) in self.shared.nodes.iter().enumerate() {
            told.set_busy(self.radio.link(node as u16).busy.unwrap_or(0.0));
            quiet &= told.busy() == 0;
        }
        self.survey_at = match quiet {
            true => Time::NEVER,
            false => self.now + SURVEY,
        };
    }

    /// What the scenario has happen at this time.
    fn change(&mut self, at: Time) {
        let (air, radio) = (&mut self.air, &mut self.radio);
        self.play.step(at, |change| match change {
            Change::Place(node, place) => air.set_place(node, place),
            Change::Gain(from, to, dbm) => air.set_gain(radio, from, to, dbm),
            Change::Cut(a, b) => {
                air.set_cut(radio, a, b, true);
            }
            Change::Restored(a, b) => {
                air.set_cut(radio, a, b, false);
            }
            // On its way to the kernels.
            Change::Routes(_) => {}
        });
    }

    /// What the model says happened.
    fn tell(&mut self) {
        while let Some(event) = self.radio.poll_event() {
            self.show(&event);
            match event {
                Event::Received { node, cookie, .. } => {
                    self.deliver(node, cookie);
                    self.handed.push(node);
                    let late = self.clock.model(Poller::now()) - self.now;
                    self.deliveries.add(late);
                }
                Event::Overheard { node, cookie, .. } => {
                    let told = &self.shared.nodes[usize::from(node)];
                    if told.listens.load(Ordering::Relaxed) {
                        self.deliver(node, cookie);
                    }
                }
                Event::Done {
                    node,
                    cookie,
                    sample,
                    ..
                } => {
                    self.slab.give_back(cookie);
                    let link = self.radio.link(node);
                    let us = |ns: u64| (ns + 500) / 1000;
                    let delay = link.delay.or(link.first).unwrap_or(Span::ZERO);
                    self.shared.nodes[usize::from(node)].set_delay(us(delay.0), us(sample.0));
                    self.grant(node);
                }
                // No scenario of emulated radios has a discipline.
                Event::Marked { .. } => {}
                Event::Room { node } => {
                    self.arm(usize::from(node), true);
                    self.grant(node);
                }
            }
        }
    }

    /// Whoever listens on a node's monitor sees it, too.
    fn show(&mut self, event: &Event) {
        if let Some((node, cookie)) = monitor::concerns(event)
            && self.shared.nodes[usize::from(node)].monitors()
        {
            self.monitors.show(event, self.now, self.slab.get(cookie));
        }
    }

    fn deliver(&mut self, node: u16, cookie: u32) {
        let tap = &self.taps[usize::from(node)];
        // It fails if the interface is down.
        if rustix::io::write(&tap.fd, self.slab.get(cookie)).is_err() {
            self.counts.refused += 1;
        }
    }

    /// Read a TAP from now on, or leave what it has in its ring.
    fn arm(&mut self, node: usize, armed: bool) {
        let tap = &mut self.taps[node];
        if tap.armed == armed || tap.gone {
            return;
        }
        let interest = if armed {
            Interest::READ
        } else {
            Interest::NONE
        };
        // It cannot fail for a descriptor that was added.
        if self.poller.modify(&tap.fd, node as u64, interest).is_ok() {
            tap.armed = armed;
        }
    }

    /// Let a kernel hand down more, if its driver has room.
    fn grant(&mut self, node: u16) {
        let tap = &self.taps[usize::from(node)];
        if !tap.off && !tap.gone && self.radio.room(node) > 0 {
            let waiting = self.radio.waiting(node);
            self.credits.renew(node, waiting, || !has_more(&tap.fd));
        }
    }

    fn grant_all(&mut self) {
        (0..self.taps.len() as u16).for_each(|node| self.grant(node));
    }

    /// Frames that a kernel sends.
    fn read(&mut self, event: &poller::Event) {
        let node = event.token as usize;
        if event.failed() || event.hung_up() {
            let tap = &mut self.taps[node];
            tap.gone = true;
            let _ = self.poller.delete(&tap.fd);
            return;
        }
        if self.taps[node].off {
            self.discard(node);
            return;
        }
        for _ in 0..BATCH {
            // First, for it takes answers from the TAP, too: what is read enters in order.
            let now = self.catch_up();
            if self.radio.room(node as u16) == 0 {
                self.arm(node, false);
                return;
            }
            let Some(cookie) = self.next_of(node) else {
                break;
            };
            self.submit(now, node as u16, cookie);
            if self.held > Time::ZERO {
                self.answered(node as u16);
            }
        }
        self.grant(node as u16);
    }

    /// The next frame that a kernel sent.
    fn next_of(&mut self, node: usize) -> Option<u32> {
        let (cookie, frame) = self.slab.take();
        let buffer = rustix::buffer::spare_capacity(frame);
        if rustix::io::read(&self.taps[node].fd, buffer).is_err() {
            self.slab.give_back(cookie);
            return None;
        }
        self.credits.spend(node);
        Some(cookie)
    }

    /// Frames that kernels sent while they were handed others. On the radio nothing has happened
    /// since, so that they can enter the model where it stands: their hosts took no time, as those
    /// of the simulator.
    fn take_answers(&mut self) {
        self.awaited.clear();
        for i in 0..self.handed.len() {
            let node = self.handed[i];
            let at = usize::from(node);
            if !self.taps[at].armed || self.taps[at].off {
                continue;
            }
            let before = self.counts.at_once;
            // As many as there is room for: what goes nowhere takes none, and could come for ever.
            for _ in 0..self.radio.room(node) {
                let Some(cookie) = self.next_of(at) else {
                    break;
                };
                self.counts.at_once += 1;
                self.submit(self.now, node, cookie);
            }
            self.grant(node);
            if self.counts.at_once == before {
                self.awaited.push(node);
            }
        }
        self.handed.clear();
        self.wait_for_programs();
    }

    /// Programs have not answered yet. The model waits for them, unless it is late as it is.
    fn wait_for_programs(&mut self) {
        let wall = Poller::now();
        if !self.awaited.is_empty() && wall < self.clock.wall(self.now) + self.patience {
            self.held = wall + self.patience;
        }
    }

    /// A frame of this node came while it was waited for.
    fn answered(&mut self, node: u16) {
        self.counts.at_once += 1;
        self.awaited.retain(|n| *n != node);
        if self.awaited.is_empty() {
            self.held = Time::ZERO;
        }
    }

    /// Empty a TAP's ring, or nearly so if its kernel fills it as fast.
    fn discard(&self, node: usize) {
        let mut frame = [0; BUFFER];
        for _ in 0..MOST_DISCARDED {
            if rustix::io::read(&self.taps[node].fd, &mut frame).is_err() {
                return;
            }
        }
    }

    /// A host's radio goes off, or on again. It remembers nothing of what was before.
    fn switch(&mut self, node: u16, on: bool) {
        let at = usize::from(node);
        // What its kernel sent before it went down, or while it came up, is lost as well.
        self.discard(at);
        self.taps[at].off = !on;
        self.air.set_off(&mut self.radio, node, !on);
        self.radio.restart(self.now, node);
        self.tell();
        self.shared.nodes[at].forget_delay();
        self.arm(at, true);
        self.credits.forget(at);
        self.grant(node);
    }

    /// Put a frame into the model, unless it goes nowhere.
    fn submit(&mut self, now: Time, node: u16, cookie: u32) {
        if !self.enters(now, node, cookie) {
            self.slab.give_back(cookie);
        }
    }

    /// The same; false if it went nowhere.
    fn enters(&mut self, now: Time, node: u16, cookie: u32) -> bool {
        self.counts.sent += 1;
        let frame = self.slab.get(cookie);
        let count = self.taps.len() as u16;
        let (true, Some(first)) = (frame.len() > HEADER && frame.len() < BUFFER, frame.first())
        else {
            self.counts.unknown += 1;
            return false;
        };
        let to = match first & 1 {
            1 => None,
            _ => match node_of(&frame[..6], count).filter(|to| *to != node) {
                Some(to) => Some(to),
                None => {
                    self.counts.unknown += 1;
                    return false;
                }
            },
        };
        let bytes = (frame.len() - HEADER) as u16;
        let taken = self.radio.send(now, node, Frame { to, bytes, cookie });
        self.tell();
        taken
    }
}
