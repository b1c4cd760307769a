//! What a monitor interface tells a daemon's node: packets for other stations, signal and rate of
//! those for this one, and what became of those that left.

use super::{Came, Store};
use crate::core::facts::Driver;
use crate::core::monitor::{Monitor, Sight};
use crate::core::pending::{Gone, hash_of};
use crate::core::report::MonitorCounters;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wifu_core::{Hook, Site, TxStatus};
use wifu_engine::Ticket;
use wifu_wire::{FrameFacts, LinkFacts, Span, Time};

/// As many packets for this host are remembered that the ring has not brought.
const HEARD: usize = 256;
/// "More fragments", and where in its packet a fragment begins.
const FRAGMENT: u16 = 0x3FFF;
/// D0 until the driver has reported (Behaviour 7.4): a cycle at 24 Mb/s, as `first_delay` of
/// `wifu core`.
pub(super) const FIRST: Span = Span(681_500);

/// What the monitor told.
pub(crate) enum Told {
    /// A packet for another station; the ticket is released when the node has seen it.
    Overheard(Ticket, FrameFacts),
    /// A packet that left, kept since; the same.
    Reported(Ticket, TxStatus),
}

/// The radio of a host, as its monitor shows it.
pub(crate) struct Air {
    monitor: Monitor,
    driver: Driver,
    /// IPv4 protocol numbers that are served.
    numbers: Vec<u8>,
    /// Packets for this host, oldest first: a number of theirs, and how they came.
    heard: VecDeque<(u64, FrameFacts)>,
}

impl Air {
    /// Listen on an interface, by name, to packets of these protocols.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; an unknown interface, or one without radiotap.
    pub(crate) fn open(device: &str, numbers: Vec<u8>) -> io::Result<Air> {
        Ok(Air {
            monitor: Monitor::open(device)?,
            driver: Driver::new(0, None, Some(FIRST)),
            numbers,
            heard: VecDeque::with_capacity(HEARD),
        })
    }

    /// Take what it shows.
    pub(crate) fn listen(&mut self, now: Time, store: &mut Store, told: &mut Vec<Told>) {
        let Air {
            monitor,
            driver,
            numbers,
            heard,
        } = self;
        monitor.listen(now, |sight, queued| match sight {
            Sight::Overheard { packet, facts } if is_whole(packet, numbers) => {
                if let Some(ticket) = store.copy_of(packet, Came::All) {
                    told.push(Told::Overheard(ticket, facts));
                }
            }
            Sight::ForUs { packet, facts } if is_whole(packet, numbers) => {
                if heard.len() == HEARD {
                    heard.pop_front();
                }
                heard.extend(hash_of(packet).map(|hash| (hash, facts)));
            }
            Sight::Overheard { .. } | Sight::ForUs { .. } => {}
            Sight::Reported {
                packet,
                delivered,
                tries,
                rate,
            } => {
                driver.set_queued(queued);
                driver.reported(now, packet.map(|p| p.1), rate);
                told.extend(packet.map(|(ticket, delay)| {
                    let status = TxStatus {
                        ticket,
                        delivered,
                        attempts: tries,
                        airtime: None,
                        delay,
                    };
                    Told::Reported(Ticket(ticket as u32), status)
                }));
            }
        });
        driver.set_queued(monitor.account.queued());
        for lost in monitor.account.take_lost() {
            store.release(Ticket(lost as u32));
        }
    }

    /// A packet left for an interface; whether it is kept until the driver reports it.
    pub(crate) fn left(&mut self, now: Time, packet: Ticket, octets: &[u8], device: u32) -> bool {
        let gone = Gone {
            hook: Hook::Postrouting,
            ticket: u64::from(packet.0),
            device,
            at: now,
        };
        self.monitor.account.let_go(octets, gone)
    }

    /// How a packet for this host came, if it was shown.
    pub(crate) fn signal(&mut self, octets: &[u8]) -> Option<FrameFacts> {
        let hash = hash_of(octets)?;
        let at = self.heard.iter().position(|(h, _)| *h == hash)?;
        self.heard.remove(at).map(|(_, facts)| facts)
    }

    /// What the driver's reports say of the link by an interface: nothing if that is not the
    /// radio's.
    pub(crate) fn link(&self, interface: i32) -> Option<LinkFacts> {
        let shown = |device| self.monitor.account.shows(device);
        u32::try_from(interface)
            .is_ok_and(shown)
            .then(|| self.driver.link())
    }

    pub(crate) fn counters(&mut self) -> MonitorCounters {
        self.monitor.counters()
    }
}

impl AsFd for Air {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}

/// Whether this is a whole packet of one of these protocols.
pub(super) fn is_whole(packet: &[u8], numbers: &[u8]) -> bool {
    let fragment = |p: &[u8]| u16::from_be_bytes([p[6], p[7]]) & FRAGMENT != 0;
    wifu_core::ip::header(packet).is_some() && numbers.contains(&packet[9]) && !fragment(packet)
}
