//! What radios hear although it is for other stations, where there is no monitor interface: in
//! promiscuous mode, without signal and rate.

use super::air::{Told, is_whole};
use super::{Came, Store};
use crate::core::ear::Ear;
use crate::poller::{Interest, Poller};
use std::io;
use wifu_wire::FrameFacts;

/// The interfaces that are listened on.
pub(crate) struct Ears {
    all: Vec<Ear>,
    /// IPv4 protocol numbers that are served.
    numbers: Vec<u8>,
}

impl Ears {
    /// Listen on these interfaces, by name, to packets of these protocols.
    ///
    /// # Errors
    /// Which failed: `PermissionDenied` without CAP_NET_RAW; an unknown interface.
    pub(crate) fn open(devices: &[String], numbers: Vec<u8>) -> Result<Ears, (String, io::Error)> {
        let open = |device: &String| Ear::open(device).map_err(|e| (device.clone(), e));
        let all = devices.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Ears { all, numbers })
    }

    /// Let `poller` watch them; number `i` has the token `base + i`.
    ///
    /// # Errors
    /// What the poller says.
    pub(crate) fn attach(&self, poller: &Poller, base: u64) -> io::Result<()> {
        for (i, ear) in self.all.iter().enumerate() {
            poller.add(ear, base + i as u64, Interest::READ)?;
        }
        Ok(())
    }

    /// Take what they hear.
    pub(crate) fn listen(&mut self, store: &mut Store, told: &mut Vec<Told>) {
        for ear in &mut self.all {
            ear.listen(|transmitter, packet| {
                let heard = is_whole(packet, &self.numbers).then_some(packet);
                let ticket = heard.and_then(|packet| store.copy_of(packet, Came::All));
                let facts = FrameFacts {
                    transmitter,
                    ..FrameFacts::NONE
                };
                told.extend(ticket.map(|ticket| Told::Overheard(ticket, facts)));
            });
        }
    }
}
