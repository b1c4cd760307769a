//! `mon0` of every node: what a driver's monitor interface shows. Frames that the node received or
//! overheard, and its own when the driver is done with them, each behind a radiotap header.

use super::net::mac;
use std::os::fd::OwnedFd;
use wifu_radio::Event;
use wifu_radio::phy::{Mode, Phy};
use wifu_radio::plan::Plan;
use wifu_wire::Time;
use wifu_wire::dot11::{self, DataHeader};
use wifu_wire::radiotap::{self, Radiotap};

/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Less than this in an Ethernet header is a length: LLC follows.
const LEAST_KIND: u16 = 0x0600;

/// The monitors of all nodes.
pub(crate) struct Monitors {
    taps: Vec<OwnedFd>,
    noise_dbm: Vec<i8>,
    phy: Phy,
    frame: Vec<u8>,
}

/// Whose monitor sees an event, and which frame.
pub(crate) fn concerns(event: &Event) -> Option<(u16, u32)> {
    match *event {
        Event::Received { node, cookie, .. } | Event::Overheard { node, cookie, .. } => {
            Some((node, cookie))
        }
        // What was forgotten before it was tried is reported by no driver.
        Event::Done { tries: 0, .. } | Event::Marked { .. } | Event::Room { .. } => None,
        Event::Done { node, cookie, .. } => Some((node, cookie)),
    }
}

impl Monitors {
    /// The nodes' TAP devices of the radios of a plan.
    pub fn new(plan: &Plan, taps: Vec<OwnedFd>) -> Monitors {
        let noise = |dbm: f64| dbm.round().clamp(-127.0, 0.0) as i8;
        Monitors {
            taps,
            noise_dbm: plan
                .nodes
                .iter()
                .map(|n| noise(n.radio.noise_dbm))
                .collect(),
            phy: plan.phy.clone(),
            frame: Vec::new(),
        }
    }

    /// Show an event's frame, which a kernel sent as this Ethernet frame.
    pub fn show(&mut self, event: &Event, now: Time, ethernet: &[u8]) {
        let Some((header, packet)) = ethernet.split_at_checked(ETHERNET) else {
            return;
        };
        let (node, from, mode, retry, sequence) = match *event {
            Event::Received {
                node,
                from,
                mode,
                retry,
                seq,
                ..
            }
            | Event::Overheard {
                node,
                from,
                mode,
                retry,
                seq,
                ..
            } => (node, from, mode, retry, seq),
            Event::Done {
                node,
                mode,
                tries,
                seq,
                ..
            } => (node, node, mode, tries > 1, seq),
            Event::Marked { .. } | Event::Room { .. } => return,
        };
        self.frame.clear();
        self.describe(event, usize::from(node), mode, now)
            .emit(&mut self.frame);
        let data = DataHeader {
            retry,
            duration_us: 0,
            receiver: core::array::from_fn(|i| header[i]),
            transmitter: mac(from),
            third: dot11::NETWORK,
            sequence,
        };
        data.emit(&mut self.frame);
        let kind = u16::from_be_bytes([header[12], header[13]]);
        if kind >= LEAST_KIND {
            dot11::emit_snap(kind, &mut self.frame);
        }
        self.frame.extend_from_slice(packet);
        // It fails if the interface is down, and then nobody can listen.
        let _ = rustix::io::write(&self.taps[usize::from(node)], &self.frame);
    }

    fn describe(&self, event: &Event, node: usize, mode: Mode, now: Time) -> Radiotap {
        let base = Radiotap {
            time_us: Some(now.0 / 1000),
            flags: Some(self.phy.preamble_flags(mode)),
            rate: Some(mode.rate()),
            channel: Some(self.phy.channel()),
            ..Radiotap::default()
        };
        match *event {
            Event::Done {
                to,
                delivered,
                tries,
                ..
            } => Radiotap {
                tx_flags: Some(match (to, delivered) {
                    (None, _) => radiotap::TX_NO_ACK,
                    (Some(_), true) => 0,
                    (Some(_), false) => radiotap::TX_FAILED,
                }),
                data_retries: Some(tries.saturating_sub(1)),
                ..base
            },
            Event::Received { rssi_dbm, .. } | Event::Overheard { rssi_dbm, .. } => Radiotap {
                signal_dbm: Some(rssi_dbm),
                noise_dbm: self.noise_dbm.get(node).copied(),
                ..base
            },
            Event::Marked { .. } | Event::Room { .. } => base,
        }
    }
}
