//! Routes of kernels that change while an emulation runs. A thread of its own lays them: the radio
//! must not wait for kernels.

use super::clock::Clock;
use super::net::{DEVICE, Network, address};
use super::routes::{NextHops, Routing};
use super::script::Reroute;
use super::shared::Shared;
use crate::netlink::{NLM_F_ACK, Netlink, attribute};
use crate::netns::Namespace;
use crate::poller::Poller;
use crate::sys;
use core::sync::atomic::Ordering;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// linux/netlink.h, linux/rtnetlink.h; the names are the kernel's.
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const AF_INET: u8 = 2;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_NOWHERE: u8 = 255;
const RTN_UNICAST: u8 = 1;
const RTN_UNREACHABLE: u8 = 7;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;

/// A host's kernel.
struct Kernel {
    netlink: Netlink,
    interface: i32,
}

/// How a host reaches another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// As its neighbour: the network's own route.
    Direct,
    Via(u16),
    Nowhere,
}

impl Kernel {
    fn open(namespace: &Namespace) -> io::Result<Kernel> {
        let inside = || -> io::Result<Kernel> {
            let netlink = Netlink::route()?;
            let interface = netlink.index(DEVICE)?;
            Ok(Kernel { netlink, interface })
        };
        namespace.run(inside).flatten()
    }

    /// Packets to node `to` go this way from now on.
    fn set(&mut self, to: u16, way: Way) -> io::Result<()> {
        let (kind, flags, protocol, scope, class) = match way {
            Way::Direct => (RTM_DELROUTE, 0, 0, RT_SCOPE_NOWHERE, 0),
            Way::Via(_) => (
                RTM_NEWROUTE,
                NLM_F_REPLACE | NLM_F_CREATE,
                RTPROT_BOOT,
                RT_SCOPE_UNIVERSE,
                RTN_UNICAST,
            ),
            Way::Nowhere => (
                RTM_NEWROUTE,
                NLM_F_REPLACE | NLM_F_CREATE,
                RTPROT_BOOT,
                RT_SCOPE_UNIVERSE,
                RTN_UNREACHABLE,
            ),
        };
        // struct rtmsg: family, lengths of prefixes, TOS, table, protocol, scope, type, flags.
        let mut body = vec![AF_INET, 32, 0, 0, RT_TABLE_MAIN, protocol, scope, class];
        body.extend([0; 4]);
        attribute(&mut body, RTA_DST, &address(to).octets());
        if let Way::Via(next) = way {
            attribute(&mut body, RTA_GATEWAY, &address(next).octets());
            attribute(&mut body, RTA_OIF, &self.interface.to_ne_bytes());
        }
        self.netlink
            .ask(kind, flags | NLM_F_ACK, &body, &mut [0; 512])?;
        Ok(())
    }
}

/// The way that a table has.
fn way(next: &NextHops, from: usize, to: usize) -> Way {
    match next[from][to] {
        Some(via) if usize::from(via) == to => Way::Direct,
        Some(via) => Way::Via(via),
        None => Way::Nowhere,
    }
}

/// What differs, as (from, to, way).
fn differences(old: &NextHops, new: &NextHops) -> Vec<(usize, u16, Way)> {
    let pairs = (0..new.len()).flat_map(|from| (0..new.len()).map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| (from, to, way(old, from, to), way(new, from, to)))
        .filter(|(.., old, new)| old != new)
        .map(|(from, to, _, new)| (from, to as u16, new))
        .collect()
}

/// The thread that tells kernels their routes.
pub(crate) struct Rerouter {
    kernels: Vec<Kernel>,
    inbox: Receiver<Reroute>,
    network: Arc<Network>,
    shared: Arc<Shared>,
}

impl Rerouter {
    /// For these hosts, with the routes of `network`.
    pub fn open<'a>(
        hosts: impl Iterator<Item = &'a Namespace>,
        inbox: Receiver<Reroute>,
        network: Arc<Network>,
        shared: Arc<Shared>,
    ) -> io::Result<Rerouter> {
        Ok(Rerouter {
            kernels: hosts.map(Kernel::open).collect::<io::Result<_>>()?,
            inbox,
            network,
            shared,
        })
    }

    /// Until the radio ends, whose clock says how late routes are.
    pub fn run(mut self, clock: Clock) {
        if let Err(e) = sys::set_urgent() {
            tracing::debug!("routes are not urgent: {e}");
        }
        while let Ok(told) = self.inbox.recv() {
            self.lay(&told.routes);
            let late = clock.model(Poller::now()) - told.at;
            self.shared.reroutes.fetch_add(1, Ordering::Relaxed);
            let late = late.0.div_ceil(1000);
            self.shared.reroute_late.fetch_max(late, Ordering::Relaxed);
        }
    }

    fn lay(&mut self, new: &NextHops) {
        // Held until all have them: a host that restarts meanwhile gets the old or the new ones.
        let mut known = self.network.routing();
        let Routing::Via(old) = &*known else {
            return;
        };
        for (from, to, way) in differences(old, new) {
            // It fails while the host restarts, which then lays what is noted here.
            if let Err(e) = self.kernels[from].set(to, way) {
                tracing::debug!("route of node {from} to {to}: {way:?}: {e}");
            }
        }
        *known = Routing::Via(new.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let old = vec![
            vec![None, Some(1), Some(1)],
            vec![Some(0), None, Some(2)],
            vec![Some(1), Some(1), None],
        ];
        assert_eq!(differences(&old, &old), []);
        let mut new = old.clone();
        new[0][2] = Some(2);
        new[2][0] = None;
        new[1][2] = Some(0);
        assert_eq!(
            differences(&old, &new),
            [
                (0, 2, Way::Direct),
                (1, 2, Way::Via(0)),
                (2, 0, Way::Nowhere)
            ]
        );
    }
}
