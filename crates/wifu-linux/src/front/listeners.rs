//! Listening sockets of applications: what they were registered with, whether they still exist, and
//! the file from which a restarted daemon takes them up again.

use super::unix::Diagnosis;
use core::net::SocketAddrV4;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use wifu_engine::endpoint::ListenId;
use wifu_wire::front::{Name, Options};

/// A socket on which an application listens; kept in a file for the next daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listener {
    /// `SO_COOKIE` of the application's socket.
    pub(super) cookie: u64,
    /// Inode of the application's socket, by which the kernel says whose it is.
    pub(super) inode: u64,
    pub(super) local: SocketAddrV4,
    /// Composition, all options merged in.
    pub(super) spec: String,
    /// Length of the accept queue.
    pub(super) backlog: u32,
    /// Bits of [`Options`], as the file keeps them.
    pub(super) options: u32,
    /// User who registered it.
    pub(super) uid: u32,
}

impl Listener {
    pub(super) fn has(&self, o: Options) -> bool {
        Options(self.options).has(o)
    }

    /// Whether two can't listen at once.
    fn conflicts(&self, local: SocketAddrV4) -> bool {
        let (a, b) = (self.local, local);
        a.port() == b.port()
            && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
    }
}

/// All listening sockets, and how the kernel is asked whether they still exist.
#[derive(Default)]
pub(super) struct Listeners {
    by_id: BTreeMap<ListenId, Listener>,
    diagnosis: Option<Diagnosis>,
}

impl Listeners {
    pub(super) fn new() -> Listeners {
        // Where the kernel lacks it, /proc says the same more slowly.
        Listeners {
            by_id: BTreeMap::new(),
            diagnosis: Diagnosis::new().ok(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn get(&self, id: ListenId) -> Option<&Listener> {
        self.by_id.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ListenId, &Listener)> {
        self.by_id.iter().map(|(id, l)| (*id, l))
    }

    /// The one with this cookie, for this user: root sees all.
    pub(super) fn by_cookie(&self, cookie: u64, uid: u32) -> Option<(ListenId, &Listener)> {
        self.iter()
            .find(|(_, l)| l.cookie == cookie && (uid == 0 || uid == l.uid))
    }

    pub(super) fn conflict(&self, local: SocketAddrV4) -> Option<(ListenId, &Listener)> {
        self.iter().find(|(_, l)| l.conflicts(local))
    }

    pub(super) fn insert(&mut self, id: ListenId, l: Listener) {
        self.by_id.insert(id, l);
    }

    pub(super) fn remove(&mut self, id: ListenId) -> Option<Listener> {
        self.by_id.remove(&id)
    }

    /// Whether the application's socket still listens under its name. If nobody can tell, it does.
    pub(super) fn lives(&self, l: &Listener) -> bool {
        let name = Name::service(l.local);
        let told = match &self.diagnosis {
            Some(d) => d.listens(l.inode, l.cookie, &name),
            None => in_proc(l.inode, &name),
        };
        told.unwrap_or(true)
    }

    /// Writes all to the file, which is never seen half written; there is none for no listeners.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        if self.by_id.is_empty() {
            return match std::fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        let all: Vec<&Listener> = self.by_id.values().collect();
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec_pretty(&all)?)?;
        std::fs::rename(new, path)
    }
}

/// What [`Listeners::save`] wrote; nothing if there is no such file.
pub(super) fn load(path: &Path) -> io::Result<Vec<Listener>> {
    match std::fs::read(path) {
        Ok(b) => Ok(serde_json::from_slice(&b)?),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// The lines of /proc/net/unix: address, count, protocol, flags, type, state, inode, name.
fn in_proc(inode: u64, name: &Name) -> io::Result<bool> {
    let table = std::fs::read_to_string("/proc/net/unix")?;
    let inode = inode.to_string();
    let name = String::from_utf8_lossy(&name.as_bytes()[1..]);
    // linux/net.h: SO_ACCEPTCON
    let listens = |l: &str| {
        let mut words = l.split_ascii_whitespace();
        words.nth(3) == Some("00010000")
            && words.nth(2) == Some(&inode)
            && words.next().and_then(|n| n.strip_prefix('@')) == Some(&name)
    };
    Ok(table.lines().any(listens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket, sockopt};
    use std::os::fd::{AsFd, OwnedFd};

    fn listening(name: &[u8]) -> (OwnedFd, u64, u64) {
        let fd = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&fd, &SocketAddrUnix::new_abstract_name(name).unwrap()).unwrap();
        listen(&fd, 4).unwrap();
        let inode = rustix::fs::fstat(fd.as_fd()).unwrap().st_ino;
        let cookie = sockopt::socket_cookie(&fd).unwrap();
        (fd, inode, cookie)
    }

    #[test]
    fn the_kernel_tells_who_listens() {
        let name = Name::service("203.0.113.9:7999".parse().unwrap());
        let other = Name::service("203.0.113.9:799".parse().unwrap());
        let (fd, inode, cookie) = listening(&name.as_bytes()[1..]);
        let d = Diagnosis::new().unwrap();
        assert!(d.listens(inode, cookie, &name).unwrap());
        assert!(in_proc(inode, &name).unwrap());
        assert!(!d.listens(inode, cookie, &other).unwrap());
        assert!(!in_proc(inode, &other).unwrap());
        // Another socket with the same inode, after the number was used again.
        assert!(!d.listens(inode, cookie + 1, &name).unwrap());
        drop(fd);
        assert!(!d.listens(inode, cookie, &name).unwrap());
        assert!(!in_proc(inode, &name).unwrap());
    }

    #[test]
    fn the_file_keeps_everything() {
        let path = std::env::temp_dir().join(format!("wifu-listeners-{}", std::process::id()));
        assert_eq!(load(&path).unwrap(), []);
        let l = Listener {
            cookie: u64::MAX,
            inode: 7,
            local: "0.0.0.0:80".parse().unwrap(),
            spec: "tcp-reno,iw=4".to_owned(),
            backlog: 511,
            options: 1,
            uid: 33,
        };
        let mut endpoint = wifu_engine::endpoint::Endpoint::new(Default::default());
        let id = endpoint_id(&mut endpoint);
        let mut all = Listeners::default();
        all.insert(id, l.clone());
        all.save(&path).unwrap();
        assert_eq!(load(&path).unwrap(), [l]);
        std::fs::write(&path, "{").unwrap();
        assert!(load(&path).is_err());
        std::fs::remove_file(path).unwrap();
    }

    fn endpoint_id(endpoint: &mut wifu_engine::endpoint::Endpoint) -> ListenId {
        let blueprint = super::super::tests::blueprint();
        endpoint
            .listen(&blueprint, "0.0.0.0:80".parse().unwrap(), 1)
            .unwrap()
    }

    #[test]
    fn one_port_one_listener() {
        let l = |a: &str| Listener {
            cookie: 1,
            inode: 1,
            local: a.parse().unwrap(),
            spec: String::new(),
            backlog: 1,
            options: 0,
            uid: 0,
        };
        let at = |a: &str| a.parse().unwrap();
        assert!(l("0.0.0.0:80").conflicts(at("10.0.0.1:80")));
        assert!(l("10.0.0.1:80").conflicts(at("0.0.0.0:80")));
        assert!(l("10.0.0.1:80").conflicts(at("10.0.0.1:80")));
        assert!(!l("10.0.0.1:80").conflicts(at("10.0.0.2:80")));
        assert!(!l("0.0.0.0:80").conflicts(at("0.0.0.0:81")));
    }
}
