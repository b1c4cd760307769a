//! What changes in the kernel's tables: links, addresses, routes and neighbours, as it says so by
//! itself.

use crate::ring::open_netlink;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, bind};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// linux/rtnetlink.h: RTMGRP_LINK, NEIGH, IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE.
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x80;

/// A socket that hears of changes.
pub(crate) struct Changes {
    fd: OwnedFd,
}

impl Changes {
    /// Of this thread's network namespace, from now on.
    ///
    /// # Errors
    /// What the system calls say.
    pub(crate) fn open() -> io::Result<Changes> {
        let fd = open_netlink()?;
        bind(&fd, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Changes { fd })
    }

    /// Whether anything changed since the last call. What did is not read: who asks again learns
    /// it, and nothing is missed when the kernel had more to say than its buffer holds.
    pub(crate) fn any(&mut self) -> bool {
        let mut any = false;
        let mut octets = [0; 256];
        loop {
            match rustix::net::recv(&self.fd, &mut octets[..], RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::NOBUFS) => any = true,
                Err(Errno::INTR) => {}
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Lab;

    #[test]
    fn what_changes_in_a_namespace_is_told_and_only_then() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let mut lab = Lab::create(&format!("t-changes-{}", std::process::id())).unwrap();
        let ns = lab.node("a").unwrap();
        let mut changes = ns.run(Changes::open).flatten().unwrap();
        assert!(!changes.any());
        for line in [
            "addr add 10.79.0.1/24 dev lo",
            "route add 10.80.0.0/16 dev lo",
        ] {
            lab.ip("a", &[line.to_owned()]).unwrap();
            assert!(changes.any(), "{line}");
            assert!(!changes.any(), "{line}, once");
        }
        // More than the socket's buffer holds.
        let routes = (0..4000).map(|i| format!("route add 10.81.{}.{} dev lo", i / 250, i % 250));
        lab.ip("a", &routes.collect::<Vec<_>>()).unwrap();
        assert!(changes.any());
        assert!(!changes.any());
    }
}
