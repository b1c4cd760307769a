//! What users may do, and how much of the daemon one of them can take.

use super::context::Context;
use super::memory::Why;
use super::unix::Peer;
use core::net::SocketAddr;
use std::collections::BTreeMap;

/// How many connections of one user may be without a frame, or wait for their answer to leave.
const EACH: usize = 256;
/// How many of all users but root, for one person may act as many users.
const ALL: usize = 1024;
/// linux/capability.h
const CAP_NET_BIND_SERVICE: u64 = 1 << 10;

/// Connections to the daemon that are not yet, or never become, a data path: how many by user.
#[derive(Debug, Default)]
pub(super) struct Pending(BTreeMap<u32, usize>);

impl Pending {
    /// One more; false if that is too many.
    pub(super) fn begin(&mut self, uid: u32) -> bool {
        let others: usize = self
            .0
            .iter()
            .filter(|(u, _)| **u != 0)
            .map(|(_, n)| n)
            .sum();
        let n = self.0.get(&uid).copied().unwrap_or(0);
        let fits = n < EACH && (uid == 0 || others < ALL);
        if fits {
            self.0.insert(uid, n + 1);
        }
        fits
    }

    /// One of this user's applications has gone.
    pub(super) fn end(&mut self, uid: u32) {
        if let Some(n) = self.0.get_mut(&uid) {
            *n -= 1;
            if *n == 0 {
                self.0.remove(&uid);
            }
        }
    }
}

/// Whether a user may use a port of this number, as `bind` decides for the kernel's TCP.
///
/// # Errors
/// `EACCES`.
pub(super) fn check_port(peer: Peer, port: u16) -> Result<(), Why> {
    if port == 0 || peer.uid == 0 {
        return Ok(());
    }
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first = first.ok().and_then(|t| t.trim().parse().ok());
    if port >= first.unwrap_or(1024) || may_bind(peer) {
        return Ok(());
    }
    Err(Why::errno(libc::EACCES))
}

/// Whether the process has CAP_NET_BIND_SERVICE, and still is the user's: another one may have its
/// number by now, or it may have started a program of somebody else.
fn may_bind(peer: Peer) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", peer.pid));
    let status = status.unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name));
    let users = field("Uid:").unwrap_or_default();
    let mut users = users.split_ascii_whitespace();
    let caps = field("CapEff:").and_then(|c| u64::from_str_radix(c.trim(), 16).ok());
    users.nth(1) == Some(&peer.uid.to_string())
        && users.all(|u| u == peer.uid.to_string())
        && caps.is_some_and(|c| c & CAP_NET_BIND_SERVICE != 0)
}

/// Whether a user may connect from this address: one of this host's, at a port that is allowed.
///
/// # Errors
/// `EACCES`, or `EADDRNOTAVAIL`.
pub(super) fn check_local(peer: Peer, local: SocketAddr, cx: &Context<'_>) -> Result<(), Why> {
    check_port(peer, local.port())?;
    let ip = local.ip();
    let own = ip.is_unspecified()
        || cx.host.own_addresses().is_some_and(|own| own.has(ip))
        || crate::carrier::is_local_address(ip);
    own.then_some(()).ok_or(Why::errno(libc::EADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_others() {
        let mut p = Pending::default();
        let granted = |p: &mut Pending, uid| (0..2 * EACH).filter(|_| p.begin(uid)).count();
        assert_eq!(granted(&mut p, 1000), EACH);
        assert_eq!(granted(&mut p, 1001), EACH);
        p.end(1000);
        assert_eq!(granted(&mut p, 1000), 1);
        let rest: usize = (1002..1100).map(|uid| granted(&mut p, uid)).sum();
        assert_eq!(rest, ALL - 2 * EACH);
        assert_eq!(granted(&mut p, 0), EACH);
        (0..EACH).for_each(|_| p.end(0));
        assert!(!p.0.contains_key(&0));
    }
}
