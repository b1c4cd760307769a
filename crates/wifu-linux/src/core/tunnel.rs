//! TUN devices in the place of NFQUEUE: one for each hook, to which routes lead packets. Here we do
//! what the kernel does for its queues: a packet that was read waits, as it came, for its verdict.
//!
//! A packet that may go on is written to its device: to the kernel it comes from there, and is
//! forwarded along the routes that it would have taken without us. That costs it a hop to live,
//! which is given back before.

use super::by::TunSettings;
use super::error::{CoreError, hint};
use super::message::Queued;
use super::queue::{Look, Ticket};
use super::report::{KernelQueue, Queues, TunCounters};
use super::watch::{Shared, State};
use crate::poller::{Interest, Poller};
use crate::sys::{self, RecvBatch};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wifu_core::{Hook, Hooks, ip};

/// Packets taken by one look.
const BATCH: usize = 32;
/// The longest packet.
const LONGEST: usize = (64 << 10) - 1;
/// Buffers kept for packets that come.
const SPARE: usize = 256;

/// What waits for a verdict, and what was counted.
#[derive(Default)]
struct Waiting {
    packets: BTreeMap<(u16, u32), Vec<u8>>,
    /// By queue, packets that came.
    came: [u64; 5],
    counters: TunCounters,
    spare: Vec<Vec<u8>>,
    /// Of the devices, in their order; none once they are given up.
    descriptors: Vec<OwnedFd>,
}

struct Tunnel {
    hook: Hook,
    name: String,
    /// What the device had dropped before us.
    dropped: u64,
}

/// The devices of the hooks.
pub(crate) struct Tunnels {
    devices: Vec<Tunnel>,
    waiting: Mutex<Waiting>,
}

impl Tunnels {
    /// Make the devices, or take those that are there; by that alone nothing comes.
    pub(crate) fn open(hooks: Hooks, tun: &TunSettings) -> Result<Arc<Tunnels>, CoreError> {
        let mut waiting = Waiting::default();
        let mut devices = Vec::new();
        for hook in hooks.iter() {
            let name = tun.device(hook);
            let fail = |error| CoreError::Tun {
                device: name.to_owned(),
                hint: hint(&error, tun.devices.contains_key(&hook)),
                error,
            };
            let (fd, _) = sys::open_tun(name).map_err(fail)?;
            waiting.descriptors.push(fd);
            devices.push(Tunnel {
                hook,
                name: name.to_owned(),
                dropped: dropped(name),
            });
        }
        Ok(Arc::new(Tunnels {
            devices,
            waiting: Mutex::new(waiting),
        }))
    }

    /// Let `poller` tell of packets.
    pub(crate) fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        let waiting = self.waiting();
        let mut all = waiting.descriptors.iter();
        all.try_for_each(|fd| poller.add(fd, token, Interest::READ))
    }

    /// Give the devices up: those that were made go.
    pub(crate) fn give_up(&self) {
        self.waiting().descriptors.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As the kernel tells of its queues; of a device's own queue only what it dropped is known.
    pub(crate) fn queues(&self) -> Queues {
        let waiting = self.waiting();
        let queue = |d: &Tunnel| {
            let number = d.hook.number();
            let of = (number, 0)..=(number, u32::MAX);
            let found = KernelQueue {
                waiting: waiting.packets.range(of).count() as u64,
                dropped_full: dropped(&d.name).saturating_sub(d.dropped),
                dropped_buffer: 0,
                packets: waiting.came[usize::from(number)],
            };
            (d.hook.name(), found)
        };
        self.devices.iter().map(queue).collect()
    }

    pub(crate) fn counters(&self) -> TunCounters {
        self.waiting().counters
    }

    /// Let the kernel send a packet of ours along its routes.
    ///
    /// # Errors
    /// Why it does not leave.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let waiting = self.waiting();
        let device = waiting.descriptors.first();
        let device = device.ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        let mut packet = packet.to_vec();
        ip::raise_ttl(&mut packet);
        rustix::io::write(device, &packet)?;
        Ok(())
    }

    /// Let a packet go on, as these octets.
    fn pass(&self, waiting: &mut Waiting, queue: u16, packet: &mut [u8]) {
        if !ip::raise_ttl(packet) {
            waiting.counters.ttl_lowered += 1;
        }
        let mut devices = self.devices.iter();
        let at = devices.position(|d| d.hook.number() == queue);
        let device = at.and_then(|at| waiting.descriptors.get(at));
        let written = device.map(|fd| rustix::io::write(fd, packet));
        if let Some(Err(e)) = written {
            waiting.counters.unwritten += 1;
            tracing::debug!("the kernel did not take a packet back: {e}");
        }
    }
}

impl Waiting {
    fn recycle(&mut self, octets: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(octets);
        }
    }
}

/// Packets for us that a device had no room for.
fn dropped(device: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    dropped_in(&text, device).unwrap_or(0)
}

/// ... by what /proc/net/dev says: eight numbers of what comes, then octets, packets, errors and
/// drops of what leaves by it.
fn dropped_in(text: &str, device: &str) -> Option<u64> {
    let of = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let number = numbers.split_whitespace().nth(11);
        (name.trim() == device).then_some(number?.parse().ok()?)
    };
    text.lines().find_map(of)
}

/// Takes packets.
pub(crate) struct Inbox {
    tunnels: Arc<Tunnels>,
    batch: RecvBatch,
    /// Of each packet in the batch, its hook's queue and its number there.
    tickets: Vec<Ticket>,
    /// Whose inbox it is, if handlers'.
    handlers: Option<Arc<Shared>>,
    /// Who is asked first.
    first: usize,
}

impl Inbox {
    pub(crate) fn new(tunnels: Arc<Tunnels>, handlers: Option<Arc<Shared>>) -> Inbox {
        Inbox {
            tunnels,
            batch: RecvBatch::new(BATCH, LONGEST),
            tickets: Vec::with_capacity(BATCH),
            handlers,
            first: 0,
        }
    }

    /// Take what waits, up to a batch; never blocks. A device gives one packet at a time.
    pub(crate) fn look(&mut self) -> io::Result<Look> {
        self.tickets.clear();
        let tunnels = self.tunnels.clone();
        let mut waiting = tunnels.waiting();
        let replaced = |s: &Arc<Shared>| s.state() != State::Working;
        if self.handlers.as_ref().is_some_and(replaced) {
            return Ok(Look::Empty);
        }
        let count = waiting.descriptors.len();
        for i in 0..count {
            let at = (self.first + i) % count;
            // What is not IPv4 counts: who waits for the lock is to have his turn.
            for _ in 0..BATCH {
                if self.tickets.len() == BATCH || !self.take(at, &mut waiting)? {
                    break;
                }
            }
        }
        self.first = (self.first + 1) % count.max(1);
        match self.tickets.len() {
            0 => Ok(Look::Empty),
            n => Ok(Look::Some(n)),
        }
    }

    /// Take one packet of a device; gives whether there was one.
    fn take(&mut self, device: usize, waiting: &mut Waiting) -> io::Result<bool> {
        let at = self.tickets.len();
        match self.batch.read_into(&waiting.descriptors[device], at) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(e) => return Err(e),
        }
        let packet = self.batch.message(at).0;
        if ip::header(packet).is_none() {
            waiting.counters.not_ipv4 += 1;
            return Ok(true);
        }
        let queue = self.tunnels.devices[device].hook.number();
        let came = &mut waiting.came[usize::from(queue)];
        *came += 1;
        let id = *came as u32;
        let mut kept = waiting.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(packet);
        waiting.packets.insert((queue, id), kept);
        self.tickets.push(Ticket { queue, id });
        Ok(true)
    }

    /// Packet `i` of the batch.
    pub(crate) fn packet(&self, i: usize) -> Queued<'_> {
        let Ticket { queue, id } = self.tickets[i];
        Queued {
            queue,
            id,
            payload: self.batch.message(i).0,
            cut: false,
            // The kernel cuts segments and fills in checksums for a device that can't.
            partial: false,
            super_packet: false,
            source: None,
            device: 0,
            mark: 0,
        }
    }
}

/// Lets packets go on, or forgets them.
pub(crate) struct Outbox {
    tunnels: Arc<Tunnels>,
    /// Whose verdicts they are, if handlers'.
    handlers: Option<Arc<Shared>>,
}

impl Outbox {
    pub(crate) fn new(tunnels: Arc<Tunnels>, handlers: Option<Arc<Shared>>) -> Outbox {
        Outbox { tunnels, handlers }
    }

    pub(crate) fn verdict(&mut self, ticket: Ticket, accept: bool, payload: Option<&[u8]>) {
        let turn = self.handlers.as_ref().map(|shared| shared.turn());
        if turn.as_ref().is_some_and(Option::is_none) {
            return;
        }
        let mut waiting = self.tunnels.waiting();
        let Some(mut octets) = waiting.packets.remove(&(ticket.queue, ticket.id)) else {
            return;
        };
        if accept {
            if let Some(payload) = payload {
                octets.clear();
                octets.extend_from_slice(payload);
            }
            self.tunnels.pass(&mut waiting, ticket.queue, &mut octets);
        }
        waiting.recycle(octets);
    }

    pub(crate) fn verdict_up_to(&mut self, last: Ticket, accept: bool) {
        let mut waiting = self.tunnels.waiting();
        let all = (last.queue, 0)..=(last.queue, u32::MAX);
        // Numbers may wrap.
        let is_before = |id: u32| last.id.wrapping_sub(id) as i32 >= 0;
        let ids = waiting.packets.range(all).map(|((_, id), _)| *id);
        let ids: Vec<u32> = ids.filter(|id| is_before(*id)).collect();
        for id in ids {
            let Some(mut octets) = waiting.packets.remove(&(last.queue, id)) else {
                continue;
            };
            if accept {
                self.tunnels.pass(&mut waiting, last.queue, &mut octets);
            }
            waiting.recycle(octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_what_is_not_ipv4_leaves_others_their_turn() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // As a TUN device it gives a packet at a time.
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.expect("a pair");
        let tunnels = Arc::new(Tunnels {
            devices: vec![Tunnel {
                hook: Hook::Output,
                name: String::from("wifu-output"),
                dropped: 0,
            }],
            waiting: Mutex::new(Waiting {
                descriptors: vec![ours],
                ..Waiting::default()
            }),
        });
        let mut inbox = Inbox::new(tunnels.clone(), None);
        for _ in 0..3 * BATCH {
            rustix::io::write(&theirs, &[0x60; 40]).expect("room");
        }
        let mut ipv4 = [0; 20];
        (ipv4[0], ipv4[3]) = (0x45, 20);
        rustix::io::write(&theirs, &ipv4).expect("room");
        let found = [(); 4].map(|()| {
            let look = inbox.look().expect("it reads");
            (matches!(look, Look::Some(1)), tunnels.counters().not_ipv4)
        });
        let batch = BATCH as u64;
        let at_last = (true, 3 * batch);
        assert_eq!(
            found,
            [
                (false, batch),
                (false, 2 * batch),
                (false, 3 * batch),
                at_last
            ]
        );
    }

    #[test]
    fn what_a_device_dropped_is_found_by_its_name() {
        let text = "Inter-|   Receive                           |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs drop\n\
             wifu-output2: 1 2 3 4 5 6 7 8 9 10 11 99 13 14 15 16\n\
             wifu-output: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(dropped_in(text, "wifu-output"), Some(12));
        assert_eq!(dropped_in(text, "wifu-forward"), None);
        assert_eq!(dropped_in("x: 1 2", "x"), None);
    }
}
