//! The daemon: one event loop that joins carriers, the endpoint and applications.
//!
//! A round drains all packets that came, lets due timers fire, lets applications read and write,
//! and only then sends: never inside a packet. So a batch of segments costs one ACK where the ACK
//! policy allows it, and applications are woken once per batch.

use crate::front::{Context, Front, is_front_token};
use crate::hop::{Hop, Sources, is_hop_token, served};
use crate::names::Names;
use crate::net::{IN, Net, OUT};
use crate::poller::{Event, Poller};
use crate::ports::Ports;
pub use crate::settings::{
    CarrierConfig, DaemonConfig, DaemonError, DelayDir, FactsConfig, HostWork, Kind,
};
use crate::sys::give_memory_back;
use crate::udp::UdpConfig;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wifu_node::Protocol;
use wifu_wire::Time;
use wifu_wire::numbers::UDP;

/// Batches sent before anything else gets its turn: where the kernel takes long over each packet,
/// as behind a shaper, acknowledgements and the application's next octets would wait for all.
const SENDS: usize = 1;

/// So many connections are worth the time that giving back their memory takes.
const MANY: usize = 256;

/// Carriers, endpoint and application side in one event loop, on one thread.
pub struct Daemon {
    poller: Poller,
    hop: Hop,
    net: Net,
    front: Front,
    events: Vec<Event>,
    names: Names,
    /// Most connections since memory was given back.
    most: usize,
    /// Of which protocol numbers it was said that a node on the way does not serve them.
    warned: BTreeSet<u8>,
    /// Says that raw packets of this network namespace are ours, for as long as we live.
    _claim: Option<OwnedFd>,
}

/// The front, and what it works with; a macro because the parts borrow apart.
macro_rules! front {
    ($daemon:expr, $now:expr, $front:ident, $cx:ident => $body:expr) => {{
        let Daemon {
            poller,
            hop,
            front: $front,
            names,
            ..
        } = $daemon;
        let (endpoint, lanes) = hop.end_and_lanes();
        #[allow(unused_mut)]
        let mut $cx = Context {
            endpoint,
            lanes,
            poller,
            host: names,
            now: $now,
        };
        $body
    }};
}

impl Daemon {
    /// Open carriers and the applications' socket.
    ///
    /// # Errors
    /// See [`DaemonError`]; what was opened is closed again.
    pub fn open(config: DaemonConfig) -> Result<Daemon, DaemonError> {
        let mut poller = Poller::new(config.coalesce)?;
        poller.catch_signals(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
        let sources = Sources::open(&config, &poller)?;
        let mut served = served(&config.registry, &config.serve, &sources)?;
        let services = services(&config);
        for protocol in &mut served {
            *protocol = Arc::new(protocol.at_ports(&services));
        }
        if !served.is_empty() {
            sources.log();
        }
        sources.warn(&config.registry, &served);
        let relayed = numbers_of(&served, |_| true);
        // What lanes have acknowledged nobody else would forward.
        let guarded = numbers_of(&served, |p| p.ends.lane.is_some());
        if config.lanes.is_some() && guarded.is_empty() {
            let words = "no composition that is served has lanes, whose order --lanes sets";
            return Err(DaemonError::Serve(String::from(words)));
        }
        let raw = |c: &CarrierConfig| matches!(c, CarrierConfig::Raw { .. });
        let claim = config.carriers.iter().any(raw).then(claim).transpose()?;
        let ports = served.iter().flat_map(|p| p.ports.clone());
        let ports: BTreeSet<u16> = ports.collect();
        let ports: Vec<u16> = ports.into_iter().collect();
        let mut net = Net::open(&config, (&relayed, &guarded), &ports, &poller)?;
        let mut hop = Hop::open(
            config.endpoint,
            &config.registry,
            &served,
            sources,
            (net.mtu(), config.host, config.lanes.unwrap_or_default()),
        )?;
        tracing::info!("carriers: {}", net.described());
        hop.attach(&poller)?;
        if hop.serves() {
            net.link(&hop.interfaces(), &poller)?;
        }
        let names = Names {
            registry: config.registry,
            tun: net.stack(),
            v4_alone: net.v4_alone(),
            works: config.host.is_some(),
            carriers: config.carriers.iter().map(CarrierConfig::kind).collect(),
            doubles: net.doubles().cloned(),
            hops: served.to_vec(),
            ports: claims(&config.carriers, &services),
        };
        for blueprint in names.served()? {
            // So that stray segments are answered before anything listens.
            hop.end_mut().serve(&blueprint);
        }
        let mut daemon = Daemon {
            front: Front::new(config.front, &poller)?,
            poller,
            hop,
            net,
            events: Vec::with_capacity(256),
            names,
            most: 0,
            warned: BTreeSet::new(),
            _claim: claim,
        };
        let restored = front!(&mut daemon, Poller::now(), front, cx => front.restore(&mut cx))?;
        if restored > 0 {
            tracing::info!("{restored} listening sockets taken over");
        }
        daemon.adopt()?;
        Ok(daemon)
    }

    /// Run until a signal asks to end; every connection is then reset and everything that was
    /// made on the host removed. Returns the signal's number.
    ///
    /// # Errors
    /// The event loop failed.
    pub fn run(mut self) -> Result<i32, DaemonError> {
        let mut handled = 0;
        loop {
            let deadline = self.hop.poll_timeout(Poller::now(), &mut self.net);
            let deadline = deadline.min(self.front.poll_timeout());
            let deadline = deadline.min(self.net.faults_timeout());
            let ports = self.names.ports.as_ref();
            let deadline = deadline.min(ports.map_or(Time::NEVER, Ports::look_at));
            if handled == 0 {
                self.net.rests();
                self.shrink();
            }
            self.poller.wait(deadline, handled, &mut self.events)?;
            if let Some(signal) = self.poller.take_signal() {
                self.end()?;
                tracing::info!("counted: {}", self.counted());
                self.front.close();
                return Ok(signal);
            }
            handled = self.round()?;
            if self.hop.end().unserved().len() > self.warned.len() {
                self.warn();
            }
        }
    }

    /// Say of which compositions packets pass nodes that do not serve them, once of each.
    fn warn(&mut self) {
        let numbers: Vec<u8> = self.hop.end().unserved().keys().copied().collect();
        for number in numbers {
            if self.warned.insert(number) {
                let name = self.name(number);
                tracing::warn!(
                    "packets of {name} pass a node that does not serve it: start `wifu daemon --serve \
                     {name}` there"
                );
            }
        }
    }

    /// The composition of a protocol number, of those served.
    fn name(&self, number: u8) -> String {
        let of = |p: &&Arc<Protocol>| {
            p.ends.number == number || number == UDP && p.ends.wire.format().is_udp()
        };
        let served = self.names.hops.iter().find(of);
        served.map_or_else(|| number.to_string(), |p| p.ends.name.clone())
    }

    /// Segments that came over nodes that do not serve their composition, or tell of such nodes on
    /// the way back, by its name.
    fn unserved(&self) -> BTreeMap<String, u64> {
        let counted = self.hop.end().unserved().iter();
        counted.map(|(n, count)| (self.name(*n), *count)).collect()
    }

    /// Gives back the memory of connections that are over, once they were many.
    fn shrink(&mut self) {
        let open = self.hop.end().len();
        self.most = self.most.max(open);
        if self.most >= MANY && open <= self.most / 4 {
            self.most = open;
            give_memory_back();
        }
    }

    /// One round; returns how many packets came.
    fn round(&mut self) -> Result<usize, DaemonError> {
        let now = Poller::now();
        let mut events = core::mem::take(&mut self.events);
        for event in &events {
            if is_front_token(event.token) {
                front!(&mut *self, now, front, cx => front.on_event(event, &mut cx));
            } else if is_hop_token(event.token) {
                self.hop.on_event(event);
            } else {
                self.net.on_event(event);
            }
        }
        events.clear();
        self.events = events;
        self.hop.look(now, &mut self.net);
        let handled = self.receive(now);
        self.hear(now);
        self.hop.handle_timeout(now, &mut self.net);
        front!(&mut *self, now, front, cx => front.handle_timeout(&mut cx));
        self.serve(now);
        self.send(now)?;
        self.release(now);
        Ok(handled)
    }

    /// Tell applications what happened; they read and write.
    fn serve(&mut self, now: Time) {
        front!(&mut *self, now, front, cx => front.look_at_listeners(&mut cx));
        while let Some((id, event)) = self.hop.end_mut().poll_event() {
            front!(&mut *self, now, front, cx => front.on_endpoint_event(id, event, &mut cx));
        }
    }

    /// Let the carrier have the sockets of UDP ports that were claimed.
    fn adopt(&mut self) -> Result<(), DaemonError> {
        match &mut self.names.ports {
            Some(ports) => Ok(self.net.adopt(ports.take_fresh(), &self.poller)?),
            None => Ok(()),
        }
    }

    /// Give up those of ports that nobody needs any more.
    fn release(&mut self, now: Time) {
        let end = self.hop.end();
        if let Some(ports) = &mut self.names.ports {
            self.net
                .release(ports.release(now, || end.local_ports(UDP)));
        }
    }

    /// Take what came.
    fn receive(&mut self, now: Time) -> usize {
        let Self { hop, net, .. } = self;
        if hop.is_passed() {
            let endpoint = hop.end_mut();
            return net.receive(now, |a| endpoint.handle_packet(now, &a.ip, a.payload));
        }
        let count = net.receive(now, |a| hop.take(now, &a));
        hop.arrive(now, net);
        count
    }

    /// Tell applications of packets that, as networks say, do not arrive.
    fn hear(&mut self, now: Time) {
        let heard: Vec<_> = self.net.take_heard().collect();
        for told in heard {
            let about = &told.about;
            if let Some(id) = self.hop.end_mut().sender_of(about, &told.segment) {
                let (errno, text) = (told.why.errno(), told.why.text(about));
                front!(&mut *self, now, front, cx => {
                    front.on_unreachable(id, errno, text, &mut cx)
                });
            }
        }
    }

    /// Send what may leave, as long as the carriers take it.
    fn send(&mut self, now: Time) -> Result<(), DaemonError> {
        self.adopt()?;
        if self.hop.is_passed() {
            for _ in 0..SENDS {
                let room = self.net.send_late(now);
                self.hop.end_mut().set_room(room);
                for _ in 0..room {
                    if !self.net.send_one(now, self.hop.end_mut()) {
                        break;
                    }
                }
                self.net.flush();
                // A blocked carrier has none: then the loop sleeps until the poller tells of room.
                let endpoint = self.hop.end_mut();
                endpoint.set_room(self.net.room());
                if endpoint.poll_timeout() > now || room == 0 {
                    break;
                }
            }
        } else {
            while self.hop.transmit(now, &mut self.net) && self.net.has_room() {
                self.serve(now);
                self.adopt()?;
            }
        }
        Ok(self.net.rearm(&self.poller)?)
    }

    /// All counters, for the log.
    fn counted(&mut self) -> serde_json::Value {
        serde_json::json!({
            "carriers": self.net.carriers(),
            "applications": self.front.counters(),
            "dropped": self.hop.end().drops(),
            "packets": self.hop.counters(),
            "lanes": self.hop.lanes(),
            "unserved": self.unserved(),
            "monitor": self.hop.monitor(),
            "wifi": self.hop.wifi(),
            "handlers": self.hop.handlers(),
            "host": self.hop.host(),
            "poller": self.poller.counters(),
            "faults": self.net.faulted(OUT),
            "faults_in": self.net.faulted(IN),
        })
    }

    /// Reset every connection, so that no peer waits for one that is gone.
    fn end(&mut self) -> Result<(), DaemonError> {
        let now = Poller::now();
        let endpoint = self.hop.end_mut();
        let all: Vec<_> = endpoint.conns().collect();
        for id in all {
            endpoint.abort(now, id);
        }
        for _ in 0..64 {
            self.send(now)?;
            if self.hop.end_mut().poll_timeout() > now {
                break;
            }
        }
        Ok(())
    }
}

/// Protocol numbers of packets of those of which this holds, each once.
fn numbers_of(served: &[Arc<Protocol>], holds: impl Fn(&Protocol) -> bool) -> Vec<u8> {
    let chosen = served.iter().filter(|p| holds(p));
    let mut numbers: Vec<u8> = chosen.flat_map(|p| p.numbers()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The UDP ports by which nodes tell packets that are datagrams by their own format.
fn services(config: &DaemonConfig) -> Vec<u16> {
    if !config.service_ports.is_empty() {
        return config.service_ports.clone();
    }
    let wires = config.registry.parts().wires().iter();
    let formats = wires.map(|w| w.format).filter(|f| f.is_udp());
    formats.filter_map(|f| f.port).collect()
}

/// The local ports of such packets, if a carrier has them.
fn claims(carriers: &[CarrierConfig], services: &[u16]) -> Option<Ports> {
    carriers.iter().find_map(|c| match c {
        CarrierConfig::Udp { port, .. } => {
            let buffer = UdpConfig::new(Vec::new()).receive_buffer;
            Some(Ports::new(*port, buffer, services))
        }
        CarrierConfig::Raw { .. } | CarrierConfig::Tun(_) => None,
    })
}

/// Two daemons with raw sockets would both get every packet, and each would reset the connections
/// of the other. So each binds a name that a network namespace has once, and that the kernel
/// forgets with the process.
fn claim() -> io::Result<OwnedFd> {
    let name = SocketAddrUnix::new_abstract_name(b"wifu/daemon/raw")?;
    let fd = socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    match bind(&fd, &name) {
        Ok(()) => Ok(fd),
        Err(Errno::ADDRINUSE) => {
            let text =
                "another daemon carries raw packets in this network namespace: one is enough";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_node::Registry;

    #[test]
    fn what_a_shim_hides_is_relayed_by_the_shims_number() {
        let registry = Registry::new(wifu_parts::registry(), wifu_parts::library());
        let served = ["tp-alpha", "atp"].map(|name| registry.resolve(name).unwrap());
        assert_eq!(numbers_of(&served, |_| true), [208, 219, 253]);
        assert_eq!(numbers_of(&served, |p| p.ends.lane.is_some()), [0; 0]);
    }
}
