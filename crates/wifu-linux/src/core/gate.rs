//! By what the handlers' packets come and go: the kernel's queues (NFQUEUE), or TUN devices.

use super::by::By;
use super::config::{Needs, Settings};
use super::error::{CoreError, queue_error};
use super::message::{self, Queued};
use super::queue::{self, Socket, Ticket};
use super::report::{Queues, TunCounters, kernel_queues};
use super::tunnel::{self, Tunnels};
use super::watch::Shared;
use crate::poller::{Interest, Poller};
use std::io;
use std::sync::Arc;
use wifu_core::{Full, Hooks};
use wifu_wire::Time;

pub(crate) use super::queue::Look;

/// Where packets come from and verdicts go to; two threads may use it.
#[derive(Clone)]
pub(crate) enum Gate {
    Queues(Socket),
    Tunnels(Arc<Tunnels>),
}

impl Gate {
    /// Open it for these hooks. Packets come once rules or routes send them.
    pub(crate) fn open(hooks: Hooks, settings: &Settings, needs: Needs) -> Result<Gate, CoreError> {
        if let By::Tun(tun) = &settings.by {
            return Ok(Gate::Tunnels(Tunnels::open(hooks, tun)?));
        }
        let socket = Socket::open(settings.receive_buffer)?;
        let mut flags = if needs.super_packets { message::GSO } else { 0 };
        if settings.when_full == Full::Open {
            flags |= message::FAIL_OPEN;
        }
        for hook in hooks.iter() {
            let length = settings.queue_length.saturating_add(needs.most_held);
            let bound = socket.bind(hook, length, flags);
            bound.map_err(|error| queue_error(hook.number(), hook.name(), error))?;
        }
        Ok(Gate::Queues(socket))
    }

    /// Let `poller` tell of packets.
    pub(crate) fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        match self {
            Gate::Queues(socket) => poller.add(socket, token, Interest::READ),
            Gate::Tunnels(tunnels) => tunnels.watch(poller, token),
        }
    }

    /// What is counted where packets wait, by hook.
    pub(crate) fn queues(&self) -> Queues {
        match self {
            Gate::Queues(_) => kernel_queues(),
            Gate::Tunnels(tunnels) => tunnels.queues(),
        }
    }

    /// What is known of TUN devices alone.
    pub(crate) fn tun(&self) -> Option<TunCounters> {
        match self {
            Gate::Queues(_) => None,
            Gate::Tunnels(tunnels) => Some(tunnels.counters()),
        }
    }

    /// Give it up, whoever else still has it. What waits is lost.
    pub(crate) fn give_up(&self, hooks: Hooks) {
        let socket = match self {
            Gate::Queues(socket) => socket,
            Gate::Tunnels(tunnels) => return tunnels.give_up(),
        };
        for hook in hooks.iter() {
            if let Err(e) = socket.unbind(hook) {
                tracing::debug!("giving up the queue of {}: {e}", hook.name());
            }
        }
    }

    /// Whether packets can pass that handlers should see. A full TUN device drops.
    pub(crate) fn lets_pass_when_full(&self) -> bool {
        matches!(self, Gate::Queues(_))
    }
}

/// Takes packets in batches.
pub(crate) enum Inbox {
    Queues(queue::Inbox),
    Tunnels(tunnel::Inbox),
}

impl Inbox {
    /// For whoever takes the handlers' place.
    pub(crate) fn new(gate: &Gate) -> Inbox {
        match gate {
            Gate::Queues(socket) => Inbox::Queues(queue::Inbox::new(socket.clone())),
            Gate::Tunnels(tunnels) => Inbox::Tunnels(tunnel::Inbox::new(tunnels.clone(), None)),
        }
    }

    /// For handlers: once they are replaced, nothing comes.
    pub(crate) fn of_handlers(gate: &Gate, shared: Arc<Shared>) -> Inbox {
        match gate {
            Gate::Queues(_) => Inbox::new(gate),
            Gate::Tunnels(tunnels) => {
                Inbox::Tunnels(tunnel::Inbox::new(tunnels.clone(), Some(shared)))
            }
        }
    }

    /// Take what waits, up to a batch; never blocks.
    pub(crate) fn look(&mut self) -> io::Result<Look> {
        match self {
            Inbox::Queues(inbox) => inbox.look(),
            Inbox::Tunnels(inbox) => inbox.look(),
        }
    }

    /// The packets of message `i`, and how many requests of ours failed.
    pub(crate) fn each<'a>(&'a self, i: usize, mut packet: impl FnMut(Queued<'a>)) -> u64 {
        match self {
            Inbox::Queues(inbox) => inbox.each(i, packet),
            Inbox::Tunnels(inbox) => {
                packet(inbox.packet(i));
                0
            }
        }
    }
}

/// Says what becomes of packets.
pub(crate) enum Outbox {
    Queues(queue::Outbox),
    Tunnels(tunnel::Outbox),
}

impl Outbox {
    /// For whoever takes the handlers' place.
    pub(crate) fn new(gate: &Gate) -> Outbox {
        match gate {
            Gate::Queues(socket) => Outbox::Queues(queue::Outbox::new(socket.clone())),
            Gate::Tunnels(tunnels) => Outbox::Tunnels(tunnel::Outbox::new(tunnels.clone(), None)),
        }
    }

    /// For verdicts of handlers: once they are replaced, no more are handed over.
    pub(crate) fn of_handlers(gate: &Gate, shared: Arc<Shared>) -> Outbox {
        match gate {
            Gate::Queues(socket) => {
                Outbox::Queues(queue::Outbox::of_handlers(socket.clone(), shared))
            }
            Gate::Tunnels(tunnels) => {
                Outbox::Tunnels(tunnel::Outbox::new(tunnels.clone(), Some(shared)))
            }
        }
    }

    /// What becomes of a packet, and what takes its place.
    pub(crate) fn verdict(&mut self, ticket: Ticket, accept: bool, payload: Option<&[u8]>) {
        match self {
            Outbox::Queues(outbox) => outbox.verdict(ticket, accept, payload),
            Outbox::Tunnels(outbox) => outbox.verdict(ticket, accept, payload),
        }
    }

    /// What becomes of all packets of a queue up to this one.
    pub(crate) fn verdict_up_to(&mut self, ticket: Ticket, accept: bool) {
        match self {
            Outbox::Queues(outbox) => outbox.verdict_up_to(ticket, accept),
            Outbox::Tunnels(outbox) => outbox.verdict_up_to(ticket, accept),
        }
    }

    /// Hand over what was gathered.
    pub(crate) fn hand_over(&mut self) {
        // What goes into a TUN device goes at once.
        if let Outbox::Queues(outbox) = self {
            outbox.hand_over();
        }
    }

    /// Hand over what was gathered, again and again if need be, but not after `until`.
    pub(crate) fn hand_over_until(&mut self, until: Time) {
        if let Outbox::Queues(outbox) = self {
            outbox.hand_over_until(until);
        }
    }

    /// Whether verdicts wait for memory.
    pub(crate) fn is_stuck(&self) -> bool {
        matches!(self, Outbox::Queues(outbox) if outbox.is_stuck())
    }

    /// How long one may sleep who would until `deadline`.
    pub(crate) fn wake_by(&self, deadline: Time) -> Time {
        match self {
            Outbox::Queues(outbox) => outbox.wake_by(deadline),
            Outbox::Tunnels(_) => deadline,
        }
    }

    /// Give the kernel time to find memory.
    pub(crate) fn wait_for_memory(&self) {
        if let Outbox::Queues(outbox) = self {
            outbox.wait_for_memory();
        }
    }

    /// Times that the kernel had no memory for a verdict.
    pub(crate) fn refused(&self) -> u64 {
        match self {
            Outbox::Queues(outbox) => outbox.refused(),
            Outbox::Tunnels(_) => 0,
        }
    }
}
