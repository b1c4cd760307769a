//! The daemon: one event loop that joins carriers, the endpoint and applications.
//!
//! A round drains all packets that came, lets due timers fire, lets applications read and write,
//! and only then sends: never inside a packet. So a batch of segments costs one ACK where the ACK
//! policy allows it, and applications are woken once per batch.

use crate::capture::Capture;
use crate::carrier::Carrier;
use crate::faults::{FaultConfig, Faults};
use crate::front::{Context, Front, FrontConfig, is_front_token};
use crate::names::{Names, TCP, numbers};
use crate::poller::{Coalesce, Event, Poller};
use crate::raw::RawConfig;
use crate::steps::StepError;
use crate::tun::TunConfig;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use wifu_engine::{ConfigError, Endpoint, EndpointConfig};
use wifu_node::Registry;
use wifu_wire::Time;
use wifu_wire::pcapng::Direction;

/// One way to other hosts, and how it is opened.
#[derive(Clone, Debug)]
pub enum CarrierConfig {
    /// Raw sockets, one per protocol number of the library.
    Raw {
        /// Longest IP packet, octets.
        mtu: usize,
        /// Past the kernel's IP layer: neighbours by link address, a receive ring.
        direct: bool,
    },
    /// A TUN device: TCP proper, which any kernel understands.
    Tun(TunConfig),
}

/// How a daemon runs.
#[derive(Clone)]
pub struct DaemonConfig {
    /// Carriers, at least one.
    pub carriers: Vec<CarrierConfig>,
    /// Socket, permissions and memory of the application side.
    pub front: FrontConfig,
    /// Where every segment is written as pcapng, sent and received; none: no capture.
    pub pcap: Option<PathBuf>,
    /// Pause to let packets gather when busy.
    pub coalesce: Coalesce,
    /// What shall go wrong with packets that leave: test equipment.
    pub faults: Option<FaultConfig>,
    /// What shall go wrong with packets that come.
    pub faults_in: Option<FaultConfig>,
    /// Limits of the endpoint; `mtu` is that of the carriers.
    pub endpoint: EndpointConfig,
    /// What can be named.
    pub registry: Registry,
}

/// Why a daemon did not start or ended. What the system said is the source, and not repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A carrier could not be opened.
    #[error("carrier {carrier}")]
    Carrier {
        /// Kind of the carrier, as `--carrier` names it.
        carrier: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A TUN device could not be set up.
    #[error("carrier tun")]
    Tun(#[from] StepError),
    /// The capture file could not be created.
    #[error("capture {path}")]
    Capture {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A composition of the library is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The event loop or the application side failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Tokens of carriers: carrier number in the low bits, above this.
const CARRIERS: u64 = 1 << 62;

/// How many descriptors a carrier may have: distance between the tokens of two carriers.
const DESCRIPTORS: u64 = 1 << 16;

/// Segments received before anything else gets its turn.
const BURST: usize = 512;

/// Batches sent before anything else gets its turn: where the kernel takes long over each packet,
/// as behind a shaper, acknowledgements and the application's next octets would wait for all.
const SENDS: usize = 1;

/// Of the faults: those of packets that leave, and of those that come.
const OUT: usize = 0;
const IN: usize = 1;

/// Carriers, endpoint and application side in one event loop, on one thread.
pub struct Daemon {
    poller: Poller,
    endpoint: Endpoint,
    carriers: Vec<Carrier>,
    front: Front,
    capture: Option<Capture>,
    events: Vec<Event>,
    /// Where segments are written before it is known which of several carriers is theirs.
    spare: Vec<u8>,
    /// What goes wrong on the way out, and in.
    faults: [Option<Faults>; 2],
    names: Names,
    /// Says that raw packets of this network namespace are ours, for as long as we live.
    _claim: Option<OwnedFd>,
}

/// The front, and what it works with; a macro because the parts borrow apart.
macro_rules! front {
    ($daemon:expr, $now:expr, $front:ident, $cx:ident => $body:expr) => {{
        let Daemon {
            poller,
            endpoint,
            front: $front,
            names,
            ..
        } = $daemon;
        #[allow(unused_mut)]
        let mut $cx = Context {
            endpoint,
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
        let numbers = numbers(config.registry.library());
        let raw = |c: &CarrierConfig| matches!(c, CarrierConfig::Raw { .. });
        let claim = config.carriers.iter().any(raw).then(claim).transpose()?;
        let mut carriers = Vec::new();
        for (i, c) in config.carriers.iter().enumerate() {
            let mut carrier = open_carrier(c, &numbers)?;
            carrier.attach(&poller, CARRIERS + i as u64 * DESCRIPTORS)?;
            carriers.push(carrier);
        }
        let mtu = carriers.iter().map(Carrier::mtu).min().unwrap_or(1500);
        let mut endpoint = Endpoint::new(EndpointConfig {
            mtu: mtu as u32,
            ..config.endpoint
        });
        let tun = carriers.iter().find_map(Carrier::stack_address);
        let raw = carriers.iter().any(|c| !c.is_tun());
        let names = Names {
            registry: config.registry,
            tun,
            raw,
        };
        for blueprint in names.served()? {
            // So that stray segments are answered before anything listens.
            endpoint.serve(&blueprint);
        }
        let front = Front::new(config.front, &poller)?;
        let capture = match &config.pcap {
            None => None,
            Some(path) => {
                let names: Vec<&str> = carriers.iter().map(Carrier::name).collect();
                let made = Capture::create(path, &names, Poller::wall_offset());
                Some(made.map_err(|source| DaemonError::Capture {
                    path: path.clone(),
                    source,
                })?)
            }
        };
        let (events, spare) = (Vec::with_capacity(256), vec![0; mtu]);
        let faults = [
            config.faults.map(|f| (f, "out")),
            config.faults_in.map(|f| (f, "in")),
        ]
        .map(|f| f.map(|(config, way)| Faults::new(config, way)));
        let mut daemon = Daemon {
            poller,
            endpoint,
            carriers,
            front,
            capture,
            events,
            spare,
            faults,
            names,
            _claim: claim,
        };
        let restored = front!(&mut daemon, Poller::now(), front, cx => front.restore(&mut cx))?;
        if restored > 0 {
            tracing::info!("{restored} listening sockets taken over");
        }
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
            let deadline = self.endpoint.poll_timeout().min(self.front.poll_timeout());
            let deadline = deadline.min(self.faults_timeout());
            if let (Some(capture), 0) = (&mut self.capture, handled) {
                capture.hand_over();
            }
            self.poller.wait(deadline, handled, &mut self.events)?;
            if let Some(signal) = self.poller.take_signal() {
                self.end()?;
                tracing::info!("counted: {}", self.counted());
                self.front.close();
                return Ok(signal);
            }
            handled = self.round()?;
        }
    }

    /// One round; returns how many packets came.
    fn round(&mut self) -> Result<usize, DaemonError> {
        let now = Poller::now();
        let mut events = core::mem::take(&mut self.events);
        for event in &events {
            if is_front_token(event.token) {
                front!(&mut *self, now, front, cx => front.on_event(event, &mut cx));
            } else {
                let token = event.token - CARRIERS;
                let carrier = &mut self.carriers[(token / DESCRIPTORS) as usize];
                if event.readable() {
                    carrier.mark_ready((token % DESCRIPTORS) as usize);
                }
                if event.writable() {
                    carrier.flush();
                }
            }
        }
        events.clear();
        self.events = events;
        let handled = self.receive(now);
        self.endpoint.handle_timeout(now);
        front!(&mut *self, now, front, cx => front.handle_timeout(&mut cx));
        self.serve(now);
        self.send(now)?;
        Ok(handled)
    }

    /// Take what the carriers have, up to a burst each.
    fn receive(&mut self, now: Time) -> usize {
        let mut total = 0;
        for (i, carrier) in self.carriers.iter_mut().enumerate() {
            let mut count = 0;
            while count < BURST {
                let Some(packets) = carrier.receive() else {
                    break;
                };
                for packet in packets {
                    count += 1;
                    if let Some(capture) = &mut self.capture {
                        capture.packet(i, now, packet.frame, Direction::In);
                    }
                    match &mut self.faults[IN] {
                        Some(f) => f.put(now, i, &packet.ip, packet.payload),
                        None => self.endpoint.handle_packet(now, &packet.ip, packet.payload),
                    }
                }
            }
            total += count;
        }
        if let Some(faults) = &mut self.faults[IN] {
            while let Some(packet) = faults.take(now) {
                self.endpoint
                    .handle_packet(now, &packet.ip, &packet.segment);
                faults.done(packet);
            }
        }
        total
    }

    /// Tell applications what happened; they read and write.
    fn serve(&mut self, now: Time) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            front!(&mut *self, now, front, cx => front.on_endpoint_event(id, event, &mut cx));
        }
    }

    /// Send what may leave, as long as the carriers take it.
    fn send(&mut self, now: Time) -> Result<(), DaemonError> {
        for _ in 0..SENDS {
            self.send_late(now);
            let room = self.room();
            self.endpoint.set_room(room);
            for _ in 0..room {
                if !self.send_one(now) {
                    break;
                }
            }
            self.carriers.iter_mut().for_each(Carrier::flush);
            // A blocked carrier has none: then the loop sleeps until the poller tells of room.
            self.endpoint.set_room(self.room());
            if self.endpoint.poll_timeout() > now || room == 0 {
                break;
            }
        }
        for (i, carrier) in self.carriers.iter_mut().enumerate() {
            carrier.rearm(&self.poller, CARRIERS + i as u64 * DESCRIPTORS)?;
        }
        Ok(())
    }

    fn room(&self) -> u32 {
        self.carriers.iter().map(Carrier::room).min().unwrap_or(0)
    }

    fn send_one(&mut self, now: Time) -> bool {
        let Self {
            carriers,
            endpoint,
            capture,
            spare,
            faults,
            ..
        } = self;
        let (at, packet) = match (&mut carriers[..], &faults[OUT]) {
            ([only], None) => {
                let Some(slot) = only.slot() else {
                    return false;
                };
                let Some(d) = endpoint.poll_transmit(now, slot) else {
                    return false;
                };
                (0, only.commit(&d.ip, d.len))
            }
            _ => {
                let Some(d) = endpoint.poll_transmit(now, spare) else {
                    return false;
                };
                let wanted = |c: &Carrier| c.is_tun() == (d.ip.proto == TCP);
                let at = carriers.iter().position(wanted).unwrap_or(0);
                if let Some(faults) = &mut faults[OUT] {
                    faults.put(now, at, &d.ip, &spare[..d.len]);
                    self.send_late(now);
                    return true;
                }
                let Some(slot) = carriers[at].slot() else {
                    return false;
                };
                slot[..d.len].copy_from_slice(&spare[..d.len]);
                (at, carriers[at].commit(&d.ip, d.len))
            }
        };
        if let Some(capture) = capture {
            capture.packet(at, now, packet, Direction::Out);
        }
        true
    }

    /// Send what faults have let through. A capture shows what went out, not what should have.
    fn send_late(&mut self, now: Time) {
        let Self {
            carriers,
            capture,
            faults,
            ..
        } = self;
        let Some(faults) = &mut faults[OUT] else {
            return;
        };
        while carriers.iter().all(|c| c.room() > 0) {
            let Some(packet) = faults.take(now) else {
                return;
            };
            let carrier = &mut carriers[packet.carrier];
            if let Some(slot) = carrier.slot() {
                let len = packet.segment.len();
                slot[..len].copy_from_slice(&packet.segment);
                let frame = carrier.commit(&packet.ip, len);
                if let Some(capture) = capture {
                    capture.packet(packet.carrier, now, frame, Direction::Out);
                }
            }
            faults.done(packet);
        }
    }

    /// When a packet that faults hold is due. While a carrier is full, its room wakes the loop.
    fn faults_timeout(&self) -> Time {
        let due = |f: &Option<Faults>| f.as_ref().map_or(Time::NEVER, Faults::poll_timeout);
        let out = if self.room() > 0 {
            due(&self.faults[OUT])
        } else {
            Time::NEVER
        };
        out.min(due(&self.faults[IN]))
    }

    /// All counters, for the log.
    fn counted(&self) -> serde_json::Value {
        let faults = |i: usize| self.faults[i].as_ref().map(Faults::counters);
        let carriers: Vec<_> = self
            .carriers
            .iter()
            .map(|c| (c.name(), c.counters()))
            .collect();
        serde_json::json!({
            "carriers": carriers,
            "applications": self.front.counters(),
            "dropped": self.endpoint.drops(),
            "poller": self.poller.counters(),
            "faults": faults(OUT),
            "faults_in": faults(IN),
        })
    }

    /// Reset every connection, so that no peer waits for one that is gone.
    fn end(&mut self) -> Result<(), DaemonError> {
        let now = Poller::now();
        let all: Vec<_> = self.endpoint.conns().collect();
        for id in all {
            self.endpoint.abort(now, id);
        }
        for _ in 0..64 {
            self.send(now)?;
            if self.endpoint.poll_timeout() > now {
                break;
            }
        }
        Ok(())
    }
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

fn open_carrier(config: &CarrierConfig, numbers: &[u8]) -> Result<Carrier, DaemonError> {
    match config {
        CarrierConfig::Raw { mtu, direct } => {
            let raw = RawConfig {
                mtu: *mtu,
                direct: *direct,
                ..RawConfig::new(numbers.to_vec())
            };
            Carrier::raw(&raw).map_err(|source| DaemonError::Carrier {
                carrier: "raw",
                source,
            })
        }
        CarrierConfig::Tun(tun) => Ok(Carrier::tun(tun)?),
    }
}
