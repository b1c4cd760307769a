//! What every part of the front works with.

use crate::carrier::Stack;
use crate::poller::Poller;
use core::net::IpAddr;
use std::io;
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_engine::endpoint::Endpoint;
use wifu_node::Lanes;
use wifu_wire::Time;

/// Marks tokens of the front: the upper half of a token, whose lower half is an index.
pub(super) const TOKEN: u64 = 0x4657 << 48;

/// Whether an event of the poller is the front's.
pub fn is_front_token(token: u64) -> bool {
    token >> 48 == TOKEN >> 48
}

/// What the front needs from the daemon beside the endpoint.
pub trait Host {
    /// The blueprint of a composition text, ready for traffic: carriers understand its protocol.
    ///
    /// # Errors
    /// What is wrong with the text, for the user to read.
    fn blueprint(&mut self, spec: &str) -> Result<Arc<Blueprint>, String>;

    /// The address that connections of a blueprint to `remote` come from.
    ///
    /// # Errors
    /// What the system says if there is no route.
    fn source_for(&mut self, blueprint: &Blueprint, remote: IpAddr) -> io::Result<IpAddr> {
        let _ = blueprint;
        Ok(crate::carrier::route_to(remote)?.source)
    }

    /// Have a local port at the kernel, for connections to a remote one or for a listener, where
    /// the packets of a blueprint are datagrams of UDP; 0: any. Gives the port.
    ///
    /// # Errors
    /// Why it cannot be had, as an errno and for the user to read.
    fn claim(
        &mut self,
        blueprint: &Blueprint,
        local: u16,
        remote: Option<u16>,
    ) -> Result<u16, (i32, String)> {
        let _ = (blueprint, remote);
        Ok(local)
    }

    /// What the number in the endpoint is on the wire, and the carrier, if there is a choice.
    fn carried(&self, number: u8) -> (u8, Option<&'static str>) {
        (number, None)
    }

    /// Whether connections of a blueprint may be over IPv6.
    ///
    /// # Errors
    /// Why not, for the user to read.
    fn carries_v6(&self, blueprint: &Blueprint) -> Result<(), String> {
        let _ = blueprint;
        Ok(())
    }

    /// Addresses that connections may have though the kernel does not know them as this host's.
    fn own_addresses(&self) -> Option<Stack> {
        None
    }
}

/// What every call works with.
pub struct Context<'a> {
    /// The endpoint with all connections.
    pub endpoint: &'a mut Endpoint,
    /// The lanes beside it, if the node has any.
    pub lanes: Option<&'a Lanes>,
    /// Where descriptors are watched.
    pub poller: &'a Poller,
    /// What the daemon knows beside: protocols and routes.
    pub host: &'a mut dyn Host,
    /// The time of this round.
    pub now: Time,
}
