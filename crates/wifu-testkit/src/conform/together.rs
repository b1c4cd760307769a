//! Every registered part in a whole composition: two connections of it, a wire that loses, doubles
//! and reorders, random writing and reading.

use super::LIMIT;
use crate::pair::pattern;
use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;
use std::sync::Arc;
use wifu_engine::board::SiteFacts;
use wifu_engine::store::StoreKind;
use wifu_engine::{Blueprint, Conn, Library, Registry, Signal, Transmit, Tuple};
use wifu_wire::{FrameFacts, Head, Rng, Seq, Span, Time};

/// Run every protocol of `library`, and for each part that none of them uses the first that takes
/// it in, `seeds` times. Octets arrive exactly, both ends come to rest, nobody wakes for ever, a
/// poll that gives nothing changes nothing, only declared signals are said, only declared hooks
/// are needed, probes have their declared names.
pub fn together(library: &Library, registry: &Registry, seeds: u64) -> Vec<String> {
    let (blueprints, mut faults) = compositions(library, registry);
    for blueprint in &blueprints {
        for seed in 0..seeds {
            let mut wire = Trial::new(blueprint, seed);
            wire.run();
            let place = format!("{} (seed {seed})", blueprint.name);
            faults.extend(wire.faults.into_iter().map(|f| format!("{place}: {f}")));
        }
    }
    faults
}

/// The blueprints that cover the registry, and the parts that fit into none.
fn compositions(library: &Library, registry: &Registry) -> (Vec<Arc<Blueprint>>, Vec<String>) {
    let (mut found, mut faults) = (Vec::<Arc<Blueprint>>::new(), Vec::new());
    for name in library.protocols() {
        match library.resolve(name, registry) {
            Ok(b) => found.push(b),
            Err(e) => faults.push(format!("{name}: {e}")),
        }
    }
    for d in registry.parts().iter() {
        let lane = |b: &Blueprint| b.lane.as_ref().is_some_and(|l| takes(l, d.name));
        if found.iter().any(|b| takes(b, d.name) || lane(b)) {
            continue;
        }
        let add = if d.role.exclusive() { "" } else { ".add" };
        let change = format!("{}{add}={}", d.role.key(), d.name);
        let specs = library.protocols().iter().map(|p| format!("{p},{change}"));
        let fits = specs
            .map(|s| library.resolve(&s, registry))
            .find_map(Result::ok);
        match fits {
            Some(b) => found.push(b),
            None => faults.push(format!("{}: no protocol takes this part in", d.name)),
        }
    }
    found.retain(|b| b.store_kind() != StoreKind::Packets);
    (found, faults)
}

/// Whether a part of this name is in it.
fn takes(blueprint: &Blueprint, name: &str) -> bool {
    blueprint.parts.iter().any(|p| p.desc.name == name)
}

struct End {
    conn: Conn,
    to_write: Vec<u8>,
    written: usize,
    read: Vec<u8>,
    closed: bool,
    ended: bool,
}

struct Trial {
    ends: [End; 2],
    now: Time,
    rng: Rng,
    loss: u64,
    flying: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    sequence: u64,
    faults: Vec<String>,
}

impl Trial {
    fn new(blueprint: &Arc<Blueprint>, seed: u64) -> Trial {
        let rng = Rng::new(seed).split(&blueprint.name);
        let address =
            |i: u8| SocketAddr::new(Ipv4Addr::new(10, 0, 0, i).into(), 1000 + u16::from(i));
        let end = |me: u8, peer: u8, octets: usize| {
            let tuple = Tuple {
                proto: blueprint.number,
                local: address(me),
                remote: address(peer),
            };
            // Numbers that wrap around during the run.
            let site = SiteFacts {
                me: u32::from(me),
                mtu: 1500,
                isn: Seq(u32::MAX - 20_000 * u32::from(me)),
                ..SiteFacts::default()
            };
            let conn = blueprint.open(tuple, site, rng.split_n(u64::from(me)));
            End {
                conn: conn.expect("the blueprint built its parts before"),
                to_write: pattern(octets, seed + u64::from(me)),
                written: 0,
                read: Vec::new(),
                closed: false,
                ended: false,
            }
        };
        Trial {
            ends: [end(1, 2, 150_000), end(2, 1, 30_000)],
            now: Time(1_000_000),
            loss: [0, 2, 5][seed as usize % 3],
            rng,
            flying: BTreeMap::new(),
            sequence: 0,
            faults: Vec::new(),
        }
    }

    fn run(&mut self) {
        self.ends[1].conn.listen(self.now);
        self.ends[0].conn.connect(self.now);
        let (mut instant, mut here) = (self.now, 0);
        while self.faults.is_empty() {
            self.pump(0);
            self.pump(1);
            let wire = self.flying.first_key_value();
            let wire = wire.map_or(Time::NEVER, |(k, _)| k.0);
            let timers = self.ends.iter().map(|e| e.conn.poll_timeout());
            let next = timers.fold(wire, Time::min);
            if next == Time::NEVER {
                break;
            }
            if next > LIMIT {
                self.faults.push(String::from("no rest within an hour"));
            }
            self.now = self.now.max(next);
            here = if self.now == instant { here + 1 } else { 0 };
            instant = self.now;
            if here > 1000 {
                let what = format!("wakes for ever at {} s", self.now.as_secs_f64());
                self.faults.push(what);
            }
            self.arrive();
            for end in &mut self.ends {
                end.conn.handle_timeout(self.now);
            }
        }
        for (me, peer) in [(0, 1), (1, 0)] {
            let (me, peer) = (&self.ends[me], &self.ends[peer]);
            if self.faults.is_empty() && me.read != peer.to_write {
                let (have, want) = (me.read.len(), peer.to_write.len());
                let what = format!("{have} of {want} bytes arrived, or not the same");
                self.faults.push(what);
            } else if self.faults.is_empty() && !me.ended {
                let what = format!("an end stays in {}", me.conn.state().name());
                self.faults.push(what);
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, bytes) = entry.remove();
            let conn = &mut self.ends[to].conn;
            let mut head = Head::default();
            let n = conn.wire().parse(&bytes, &mut head);
            let n = n.expect("what a connection sends can be parsed");
            head.ttl = 65;
            let frame = FrameFacts::default();
            conn.handle_segment(self.now, &mut head, &bytes[n..], &frame);
            self.pump(to);
        }
    }

    /// One end does what it can.
    fn pump(&mut self, side: usize) {
        self.application(side);
        let (mut head, mut out) = (Head::default(), [0u8; 1600]);
        while let Some(sent) = self.ends[side]
            .conn
            .poll_transmit(self.now, &mut head, &mut out)
        {
            let Transmit::Bytes(n) = sent else {
                self.faults.push(String::from("a packet of no store"));
                return;
            };
            self.launch(side, &out[..n]);
            self.application(side);
        }
        self.inspect(side);
        // Asked again with nothing to send, nothing has changed.
        let conn = &mut self.ends[side].conn;
        let before = (format!("{:?}", conn.board()), probes(conn));
        let again = conn.poll_transmit(self.now, &mut head, &mut out);
        if again.is_some() || before != (format!("{:?}", conn.board()), probes(conn)) {
            self.faults
                .push(String::from("a poll that gave nothing changed something"));
        }
    }

    fn application(&mut self, side: usize) {
        let end = &mut self.ends[side];
        if self.rng.below(4) > 0 {
            let mut buffer = vec![0u8; 1 + self.rng.below(40_000) as usize];
            let n = end.conn.read(self.now, &mut buffer);
            end.read.extend_from_slice(&buffer[..n]);
        }
        let left = end.to_write.len() - end.written;
        if left > 0 && end.conn.opened_at().is_some() {
            let most = left.min(1 + self.rng.below(20_000) as usize);
            let bytes = &end.to_write[end.written..end.written + most];
            end.written += end.conn.write(self.now, bytes);
        } else if left == 0 && !end.closed {
            end.closed = true;
            end.conn.shutdown_write(self.now);
        }
        match end.conn.take_news().ended {
            None => {}
            Some(None) => end.ended = true,
            Some(Some(fault)) => self.faults.push(format!("ended by {fault:?}")),
        }
        if end.ended {
            let [a, b] = end.conn.readable();
            let (a, b) = (a.to_vec(), b.to_vec());
            end.read.extend([a.as_slice(), &b].concat());
            end.conn.consumed(self.now, a.len() + b.len());
        }
    }

    fn launch(&mut self, side: usize, bytes: &[u8]) {
        let copies = match self.rng.below(100) {
            n if n < self.loss => 0,
            n if n < self.loss + 1 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let late = if self.rng.below(100) < 3 { 15 } else { 0 };
            let at = self.now + Span::MILLI * (10 + late);
            self.sequence += 1;
            let key = (at, self.sequence);
            self.flying.insert(key, (1 - side, bytes.to_vec()));
        }
    }

    /// What was said is declared, and probes have their names.
    fn inspect(&mut self, side: usize) {
        let conn = &mut self.ends[side].conn;
        let said = conn.take_emitted();
        let blueprint = Arc::clone(conn.blueprint());
        if conn.board().defaulted.take() {
            let what = String::from("a hook that some part declares is not overridden");
            self.faults.push(what);
        }
        for (part, said) in blueprint.parts.iter().zip(said) {
            let declared = part.desc.hears.iter().flat_map(|(_, e)| e.iter().copied());
            let declared: Vec<&str> = declared.collect();
            for i in (0..32).filter(|i| said & 1 << i != 0) {
                let ext = blueprint
                    .exts
                    .iter()
                    .find(|e| Signal::PLAIN + usize::from(e.1.0) == i);
                let name = Signal::NAMES.get(i).copied().or(ext.map(|e| e.0));
                if !name.is_some_and(|n| declared.contains(&n)) {
                    let what = format!("{} says {name:?}, undeclared", part.desc.name);
                    self.faults.push(what);
                }
            }
        }
        for (part, probe, _) in probes(conn) {
            let known = blueprint.parts.iter().find(|p| p.desc.name == part);
            if !known.is_some_and(|p| p.desc.probes.contains(&probe)) {
                self.faults
                    .push(format!("{part} reports {probe}, undeclared"));
            }
        }
    }
}

fn probes(conn: &Conn) -> Vec<(&'static str, &'static str, f64)> {
    let mut all = Vec::new();
    conn.observe(&mut |part, probe, value| all.push((part, probe, value)));
    all
}
