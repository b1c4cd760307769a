//! Listening sockets of applications: what they were registered with, whether they still exist, and
//! the file from which a restarted daemon takes them up again.

use super::context::Context;
use super::memory::Why;
use super::options::{LINGER0, NODELAY, PROTOCOL, is_same, is_tuned, merge, normal};
use super::private;
use super::unix::{Diagnosis, Peer};
use super::users;
use core::net::{Ipv6Addr, SocketAddr};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use wifu_engine::endpoint::ListenId;
use wifu_wire::front::{Name, Options};
use wifu_wire::{Span, Time};

/// How often existing listeners are looked at.
const PROBE_EVERY: Span = Span(250_000_000);

/// A socket on which an application listens; kept in a file for the next daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listener {
    /// `SO_COOKIE` of the application's socket.
    pub(super) cookie: u64,
    /// Inode of the application's socket, by which the kernel says whose it is.
    pub(super) inode: u64,
    pub(super) local: SocketAddr,
    /// Composition, with all options merged in that were set before it listened.
    pub(super) spec: String,
    /// Socket options set since, as parameters.
    #[serde(default)]
    pub(super) tuned: Vec<(String, String)>,
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

    /// The name of its socket.
    pub(super) fn name(&self) -> Name {
        Name::service_nth(self.local, Options(self.options).nth())
    }

    /// The composition with all options.
    pub(super) fn whole(&self) -> String {
        let tuned = self.tuned.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        merge(&self.spec, tuned)
    }

    /// Sets a parameter.
    fn tune(&mut self, name: &str, value: &str) {
        let value = normal(name, value);
        if !is_tuned(name) {
            self.spec = merge(&self.spec, [(name, value.as_str())]);
            if name == PROTOCOL {
                self.tuned.clear();
            }
            return;
        }
        match self.tuned.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => self.tuned.push((name.to_owned(), value)),
        }
    }

    /// Whether both want to share their port (`SO_REUSEPORT`), and may: no user takes what is
    /// another's.
    fn shares(&self, options: Options, uid: u32) -> bool {
        self.has(Options::SHARED) && options.has(Options::SHARED) && self.uid == uid
    }

    /// Whether two can't listen at once.
    fn conflicts(&self, local: SocketAddr, options: Options) -> bool {
        let ours = addresses(self.local, Options(self.options));
        let theirs = || addresses(local, options);
        let meet = |a: SocketAddr, b: SocketAddr| {
            a.is_ipv4() == b.is_ipv4()
                && a.port() == b.port()
                && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
        };
        let mut ours = ours.into_iter().flatten();
        ours.any(|a| theirs().into_iter().flatten().any(|b| meet(a, b)))
    }

    /// Its address, and whether it has both families.
    fn place(&self) -> (SocketAddr, bool) {
        (self.local, self.has(Options::DUAL))
    }

    /// Whom it takes, for people: as `ss` has it.
    pub(super) fn anybody(&self) -> &'static str {
        match (self.has(Options::DUAL), self.local.is_ipv4()) {
            (true, _) => "*:*",
            (false, true) => "0.0.0.0:*",
            (false, false) => "[::]:*",
        }
    }

    /// Its address, for people: as `ss` has it.
    pub(super) fn described(&self) -> String {
        match self.has(Options::DUAL) {
            true => format!("*:{}", self.local.port()),
            false => self.local.to_string(),
        }
    }
}

/// The addresses of a listening socket.
fn addresses(local: SocketAddr, options: Options) -> [Option<SocketAddr>; 2] {
    let dual = options.has(Options::DUAL) && local.is_ipv4() && local.ip().is_unspecified();
    let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), local.port());
    [Some(local), dual.then_some(v6)]
}

/// The sockets that listen at an address: one, unless they share it. Then they take turns.
struct Group {
    members: Vec<Listener>,
    turn: usize,
    /// With what composition the endpoint listens.
    heard: String,
}

impl Group {
    /// Bounds embryonic connections here and complete ones in the kernel's queue; small ones would
    /// make bursts of connections lose their SYNs.
    fn backlog(&self) -> usize {
        let most = self.members.iter().map(|l| l.backlog as usize).max();
        most.unwrap_or(0).clamp(128, 4096)
    }

    /// The composition for the endpoint: with the options that all of them have, or with none.
    fn wanted(&self) -> String {
        let first = &self.members[0];
        let whole = first.whole();
        match self.members.iter().all(|l| is_same(&l.whole(), &whole)) {
            true => whole,
            false => first.spec.clone(),
        }
    }
}

/// All listening sockets, the file that keeps them, and how the kernel is asked whether they still
/// exist.
pub(super) struct Listeners {
    by_id: BTreeMap<ListenId, Group>,
    diagnosis: Option<Diagnosis>,
    state: PathBuf,
    /// When they are looked at next.
    probe: Time,
    /// How many were found dead.
    gone: u64,
}

impl Listeners {
    /// None yet; `state` is the file for the next daemon.
    pub(super) fn new(state: PathBuf) -> Listeners {
        Listeners {
            by_id: BTreeMap::new(),
            // Where the kernel lacks it, /proc says the same more slowly.
            diagnosis: Diagnosis::new().ok(),
            state,
            probe: Time::NEVER,
            gone: 0,
        }
    }

    /// How many were found dead.
    pub(super) fn gone(&self) -> u64 {
        self.gone
    }

    /// Whose turn it is to take a connection, and the composition that the connection has.
    pub(super) fn turn(&mut self, id: ListenId) -> Option<(Listener, String)> {
        let group = self.by_id.get_mut(&id)?;
        group.turn = (group.turn + 1) % group.members.len();
        Some((group.members[group.turn].clone(), group.heard.clone()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ListenId, &Listener)> {
        self.by_id
            .iter()
            .flat_map(|(id, group)| group.members.iter().map(|l| (*id, l)))
    }

    /// The one with this cookie, for this user: root sees all.
    pub(super) fn by_cookie(&self, cookie: u64, uid: u32) -> Option<(ListenId, &Listener)> {
        self.iter()
            .find(|(_, l)| l.cookie == cookie && (uid == 0 || uid == l.uid))
    }

    /// Takes up those of a daemon before this one, as far as they still exist. Gives how many. A
    /// list that is damaged is set aside: it is no reason to carry nothing.
    ///
    /// # Errors
    /// If the file can't be read.
    pub(super) fn restore(&mut self, cx: &mut Context<'_>) -> io::Result<usize> {
        let mut n = 0;
        let listed = match load(&self.state) {
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                self.set_aside(&e);
                Vec::new()
            }
            Err(e) => {
                let text = format!("{}: {e}", self.state.display());
                return Err(io::Error::new(e.kind(), text));
            }
            Ok(listed) => listed,
        };
        for l in listed {
            if !self.lives(&l) {
                continue;
            }
            match self.register(l, cx) {
                Ok(()) => n += 1,
                Err(why) => tracing::warn!("a listening socket is lost: {why:?}"),
            }
        }
        self.save();
        Ok(n)
    }

    /// Keeps a damaged list for people to look at, and says what it means that it is.
    fn set_aside(&self, why: &io::Error) {
        let mut aside = self.state.clone().into_os_string();
        aside.push(".damaged");
        let kept = match std::fs::rename(&self.state, &aside) {
            Ok(()) => format!("kept as {}", aside.display()),
            Err(e) => format!("not kept: {e}"),
        };
        tracing::warn!(
            "{}: no list of listening sockets: {why} ({kept}); programs that listened before this \
             daemon have to be started again",
            self.state.display()
        );
    }

    /// An application's request to listen; gives what its user has to know.
    ///
    /// # Errors
    /// Why it may not or can't.
    pub(super) fn listen(
        &mut self,
        l: Listener,
        peer: Peer,
        cx: &mut Context<'_>,
    ) -> Result<Option<String>, Why> {
        let foreign = |(_, other): (_, &Listener)| other.cookie == l.cookie && other.uid != l.uid;
        if l.uid != 0 && self.by_cookie(l.cookie, 0).is_some_and(foreign) {
            return Err(Why::errno(libc::EPERM));
        }
        users::check_port(peer, l.local.port())?;
        if !self.lives(&l) {
            let text = format!("no socket {} listens at {}", l.inode, l.local);
            return Err(Why::text(libc::EINVAL, text));
        }
        let note = silent(&l, cx);
        self.register(l, cx)?;
        self.save();
        Ok(note)
    }

    /// Sets an option of `l`, one of these: connections accepted from now on get it.
    ///
    /// # Errors
    /// What is wrong with the option, or why nobody can listen so.
    pub(super) fn set(
        &mut self,
        mut l: Listener,
        (name, value): (&str, &str),
        cx: &mut Context<'_>,
    ) -> Result<(), Why> {
        let bit = match name {
            NODELAY => Some(Options::NODELAY),
            LINGER0 => Some(Options::LINGER0),
            _ => None,
        };
        match bit {
            Some(bit) if value == "on" => l.options |= bit.0,
            Some(bit) => l.options &= !bit.0,
            None => l.tune(name, value),
        }
        if let Err(text) = cx.host.blueprint(&l.whole()) {
            return Err(Why::text(libc::EINVAL, text));
        }
        self.register(l, cx)?;
        self.save();
        Ok(())
    }

    /// Whether another socket may be bound to an address that one has already.
    ///
    /// # Errors
    /// `EADDRINUSE`.
    pub(super) fn share(&self, local: SocketAddr, options: Options, uid: u32) -> Result<(), Why> {
        let keeps =
            |l: &Listener| l.conflicts(local, options) && !l.shares(options, uid) && self.lives(l);
        match self.iter().any(|(_, l)| keeps(l)) {
            true => Err(Why::errno(libc::EADDRINUSE)),
            false => Ok(()),
        }
    }

    /// What must go for `l` to listen: the same socket, and those that are gone.
    ///
    /// # Errors
    /// `EADDRINUSE` if one that lives is in its way.
    fn in_the_way(&self, l: &Listener) -> Result<Vec<(ListenId, u64)>, Why> {
        let mut gone = Vec::new();
        for (id, other) in self.iter() {
            let shares = other.shares(Options(l.options), l.uid);
            let differs = other.local == l.local && !is_same(&other.spec, &l.spec);
            if other.cookie != l.cookie {
                if !other.conflicts(l.local, Options(l.options)) || shares && !differs {
                    continue;
                }
                if self.lives(other) {
                    let text = format!("sockets that share {} need one composition", l.local);
                    let text = shares.then_some(text);
                    let errno = libc::EADDRINUSE;
                    return Err(Why { errno, text });
                }
            }
            gone.push((id, other.cookie));
        }
        Ok(gone)
    }

    /// Opens a listener in the endpoint and keeps it, or lets it join those that share its address,
    /// or take its own place there.
    fn register(&mut self, l: Listener, cx: &mut Context<'_>) -> Result<(), Why> {
        let (own, place) = (l.cookie, l.place());
        let here = |g: &Group| g.members[0].place() == place;
        for (id, cookie) in self.in_the_way(&l)? {
            let stays = cookie == own && self.by_id.get(&id).is_some_and(here);
            if !stays && self.take_out(id, cookie) {
                cx.endpoint.unlisten(id);
            } else if !stays {
                self.keep_up(id, cx);
            }
        }
        if let Some((id, group)) = self.by_id.iter_mut().find(|(_, g)| here(g)) {
            let (id, before) = (*id, group.members.clone());
            group.members.retain(|m| m.cookie != own);
            group.members.push(l);
            let done = self.follow(id, cx);
            if done.is_err()
                && let Some(group) = self.by_id.get_mut(&id)
            {
                group.members = before;
            }
            return done;
        }
        let group = Group {
            heard: l.whole(),
            members: vec![l],
            turn: 0,
        };
        self.open(group, cx)
    }

    /// Lets the endpoint listen for a group.
    fn open(&mut self, group: Group, cx: &mut Context<'_>) -> Result<(), Why> {
        let blueprint = cx.host.blueprint(&group.heard);
        let blueprint = blueprint.map_err(|text| Why::text(libc::EPROTONOSUPPORT, text))?;
        let l = &group.members[0];
        let v6 = cx.host.carries_v6(&blueprint);
        if let Err(text) = &v6
            && l.local.is_ipv6()
            && !l.local.ip().is_unspecified()
        {
            return Err(Why::text(libc::EADDRNOTAVAIL, text));
        }
        let claimed = cx.host.claim(&blueprint, l.local.port(), None);
        claimed.map_err(|(errno, text)| Why::text(errno, text))?;
        let in_use = |_| Why::errno(libc::EADDRINUSE);
        let [local, also] = addresses(l.local, Options(l.options));
        let local = local.unwrap_or(l.local);
        let id = cx
            .endpoint
            .listen(&blueprint, local, group.backlog())
            .map_err(in_use)?;
        if let Some(also) = also.filter(|_| v6.is_ok())
            && let Err(e) = cx.endpoint.listen_also(id, also)
        {
            cx.endpoint.unlisten(id);
            return Err(in_use(e));
        }
        self.by_id.insert(id, group);
        self.probe = self.probe.min(cx.now + PROBE_EVERY);
        Ok(())
    }

    /// Lets the endpoint listen as a group wants it by now. Connections that are being opened, or
    /// wait to be accepted, stay what they are, unless the protocol is another one.
    fn follow(&mut self, id: ListenId, cx: &mut Context<'_>) -> Result<(), Why> {
        let Some(group) = self.by_id.get_mut(&id) else {
            return Ok(());
        };
        let wanted = group.wanted();
        let blueprint = cx.host.blueprint(&wanted);
        let blueprint = blueprint.map_err(|text| Why::text(libc::EPROTONOSUPPORT, text))?;
        group.heard = wanted;
        if cx.endpoint.retune(id, &blueprint, group.backlog()) {
            return Ok(());
        }
        let Some(group) = self.by_id.remove(&id) else {
            return Ok(());
        };
        cx.endpoint.unlisten(id);
        self.open(group, cx)
    }

    /// The same when one of a group has gone. The others' composition is a good one.
    fn keep_up(&mut self, id: ListenId, cx: &mut Context<'_>) {
        if let Err(why) = self.follow(id, cx) {
            tracing::warn!("a listening socket is lost: {why:?}");
        }
    }

    /// Takes one out of its group; true if that is empty now, and gone.
    fn take_out(&mut self, id: ListenId, cookie: u64) -> bool {
        let Some(group) = self.by_id.get_mut(&id) else {
            return false;
        };
        group.members.retain(|l| l.cookie != cookie);
        let empty = group.members.is_empty();
        if empty {
            self.by_id.remove(&id);
        }
        empty
    }

    /// Whether the application's socket still listens under its name. If nobody can tell, it does.
    pub(super) fn lives(&self, l: &Listener) -> bool {
        let name = l.name();
        let told = match &self.diagnosis {
            Some(d) => d.listens(l.inode, l.cookie, &name),
            None => in_proc(l.inode, &name),
        };
        told.unwrap_or(true)
    }

    /// When [`Listeners::handle_timeout`] wants to be called.
    pub(super) fn poll_timeout(&self) -> Time {
        self.probe
    }

    /// When it is time: drops those whose application is gone.
    pub(super) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        if self.probe > cx.now {
            return;
        }
        self.bury(self.dead(|_| true), cx);
        self.probe = if self.by_id.is_empty() {
            Time::NEVER
        } else {
            cx.now + PROBE_EVERY
        };
    }

    /// Drops those at an address whose applications are gone.
    pub(super) fn probe_one(&mut self, id: ListenId, cx: &mut Context<'_>) {
        self.bury(self.dead(|i| i == id), cx);
    }

    /// Drops one that is not what was registered.
    pub(super) fn drop_one(&mut self, id: ListenId, l: &Listener, cx: &mut Context<'_>) {
        self.bury(vec![(id, l.cookie)], cx);
    }

    /// The orderly end: the file stays if there are any, for the next daemon.
    pub(super) fn close(mut self) {
        for (id, cookie) in self.dead(|_| true) {
            self.take_out(id, cookie);
        }
        self.save();
    }

    fn dead(&self, among: impl Fn(ListenId) -> bool) -> Vec<(ListenId, u64)> {
        let dead = self.iter().filter(|(id, l)| among(*id) && !self.lives(l));
        dead.map(|(id, l)| (id, l.cookie)).collect()
    }

    fn bury(&mut self, dead: Vec<(ListenId, u64)>, cx: &mut Context<'_>) {
        for (id, cookie) in &dead {
            tracing::debug!("a listening socket is gone: {cookie}");
            self.gone += 1;
            if self.take_out(*id, *cookie) {
                cx.endpoint.dismiss(cx.now, *id);
            } else {
                self.keep_up(*id, cx);
            }
        }
        if !dead.is_empty() {
            self.save();
        }
    }

    fn save(&self) {
        if let Err(e) = self.write() {
            let path = self.state.display();
            tracing::warn!("{path}: {e}; a restarted daemon will not know listening sockets");
        }
    }

    /// Writes all to the file, which is never seen half written; there is none for no listeners.
    fn write(&self) -> io::Result<()> {
        if self.by_id.is_empty() {
            return match std::fs::remove_file(&self.state) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        let all: Vec<&Listener> = self.iter().map(|(_, l)| l).collect();
        private::write(&self.state, &serde_json::to_vec_pretty(&all)?)
    }
}

/// What is to be said of a socket for IPv6 only whose composition has none: it can listen, so that
/// servers that open one socket per family work, and never gets a connection.
fn silent(l: &Listener, cx: &mut Context<'_>) -> Option<String> {
    if l.local.is_ipv4() {
        return None;
    }
    let blueprint = cx.host.blueprint(&l.whole()).ok()?;
    let why = cx.host.carries_v6(&blueprint).err()?;
    let port = l.local.port();
    Some(format!(
        "the IPv6-only socket on port {port} stays silent: {why}"
    ))
}

/// What [`Listeners::write`] wrote; nothing if there is no such file.
fn load(path: &Path) -> io::Result<Vec<Listener>> {
    match private::read(path) {
        Ok(b) => {
            serde_json::from_slice(&b).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
        }
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
            tuned: vec![("keepalive".to_owned(), "on".to_owned())],
            backlog: 511,
            options: 1,
            uid: 33,
        };
        let mut endpoint = wifu_engine::endpoint::Endpoint::new(Default::default());
        let id = endpoint_id(&mut endpoint);
        let mut all = Listeners::new(path.clone());
        let members = vec![l.clone()];
        let heard = l.whole();
        let group = Group {
            members,
            turn: 0,
            heard,
        };
        all.by_id.insert(id, group);
        all.write().unwrap();
        assert_eq!(load(&path).unwrap(), [l]);
        std::fs::write(&path, "{").unwrap();
        assert!(load(&path).is_err());
        std::fs::remove_file(path).unwrap();
    }

    fn endpoint_id(endpoint: &mut wifu_engine::endpoint::Endpoint) -> ListenId {
        let blueprint = super::super::tests::blueprint();
        endpoint.listen(&blueprint, ([0; 4], 80), 1).unwrap()
    }

    #[test]
    fn one_port_one_listener() {
        let l = |a: &str| Listener {
            cookie: 1,
            inode: 1,
            local: a.parse().unwrap(),
            spec: String::new(),
            tuned: Vec::new(),
            backlog: 1,
            options: 0,
            uid: 0,
        };
        let meet = |a: Listener, b: &str| a.conflicts(b.parse().unwrap(), Options(0));
        assert!(meet(l("0.0.0.0:80"), "10.0.0.1:80"));
        assert!(meet(l("10.0.0.1:80"), "0.0.0.0:80"));
        assert!(meet(l("10.0.0.1:80"), "10.0.0.1:80"));
        assert!(!meet(l("10.0.0.1:80"), "10.0.0.2:80"));
        assert!(!meet(l("0.0.0.0:80"), "0.0.0.0:81"));
        assert!(meet(l("[::]:80"), "[fd00::1]:80"));
        assert!(!meet(l("[::1]:80"), "[fd00::1]:80"));
        assert!(!meet(l("[::]:80"), "0.0.0.0:80"), "for IPv6 only");
        let dual = || Listener {
            options: Options::DUAL.0,
            ..l("0.0.0.0:80")
        };
        for other in ["0.0.0.0:80", "10.0.0.1:80", "[::]:80", "[fd00::1]:80"] {
            assert!(meet(dual(), other), "{other}");
            assert!(l(other).conflicts(dual().local, Options::DUAL), "{other}");
        }
        assert!(!meet(dual(), "[::]:81"));
    }
}
