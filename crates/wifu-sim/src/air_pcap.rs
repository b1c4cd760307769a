//! Captures of a simulated mesh as pcapng: what each node's network stack saw (IP packets), and
//! what a monitor at each node would have heard of the frames that it sends or gets (802.11 frames
//! behind radiotap headers).
//!
//! The radio view is built from the frame trace, so it costs the simulator nothing when it is off
//! and cannot say anything else than the trace does. Frames that a node lost after it had locked on
//! them are there too, marked as having a bad FCS, with the reason as comment.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::mesh::{Seen, Tap};
use wifu_radio::OnAir;
use wifu_radio::phy::{self, Mode, Phy};
use wifu_radio::plan::{NodePlan, Plan};
use wifu_radio::trace::{FrameKind, NOBODY, Record, What, Why};
use wifu_wire::Time;
use wifu_wire::dot11::{self, DataHeader};
use wifu_wire::pcapng::{Captured, Direction, InterfaceId, LinkType, Writer};
use wifu_wire::radiotap::{self, Radiotap};

const APPLICATION: &str = "wifu sim";

/// Captures of a running simulation: its tap fills them.
#[derive(Clone)]
pub struct Captures(Rc<RefCell<Both>>);

struct Both {
    ip: Option<IpCapture>,
    /// Interfaces that are radios, by node; none for a node that has wires only.
    radios: Vec<Option<usize>>,
    /// Interfaces that are wires, by node and peer.
    wired: BTreeMap<(u16, u16), usize>,
    air: Option<AirCapture>,
}

impl Captures {
    /// Of a plan's nodes: IP packets, 802.11 frames, or both.
    pub fn new(plan: &Plan, ip: bool, radio: bool) -> Captures {
        let mut names: Vec<String> = Vec::new();
        let radios = plan.nodes.iter().map(|node| {
            let own = wlan(node);
            let number = own.is_some().then_some(names.len());
            names.extend(own);
            number
        });
        let radios = radios.collect();
        let mut wired = BTreeMap::new();
        let mut ends = vec![0; plan.nodes.len()];
        for (node, peer) in plan.wires.iter().flat_map(|w| [(w.a, w.b), (w.b, w.a)]) {
            let at = usize::from(node);
            wired.insert((node, peer), names.len());
            names.push(format!("{}-eth{}", plan.nodes[at].name, ends[at]));
            ends[at] += 1;
        }
        Captures(Rc::new(RefCell::new(Both {
            ip: ip.then(|| IpCapture::new(names)),
            radios,
            wired,
            air: radio.then(|| AirCapture::new(plan)),
        })))
    }

    /// What the simulation shows its packets to.
    pub fn tap(&self) -> Box<dyn Tap> {
        Box::new(self.clone())
    }

    /// What the radios traced since the last call; all of it if there is a radio view.
    pub fn records(&self, records: &[Record]) {
        if let Some(air) = &mut self.0.borrow_mut().air {
            air.records(records);
        }
    }

    /// The IP packets as pcapng, from where the last call ended; empty if they are not captured.
    pub fn take_ip(&self) -> Vec<u8> {
        let mut both = self.0.borrow_mut();
        both.ip.as_mut().map(IpCapture::take).unwrap_or_default()
    }

    /// The 802.11 frames as pcapng, likewise.
    pub fn take_radio(&self) -> Vec<u8> {
        let mut both = self.0.borrow_mut();
        both.air.as_mut().map(AirCapture::take).unwrap_or_default()
    }
}

impl Tap for Captures {
    fn packet(&mut self, seen: &Seen<'_>) {
        let both = &mut *self.0.borrow_mut();
        if let Some(ip) = &mut both.ip {
            let wire = both.wired.get(&(seen.node, seen.peer)).copied();
            let radio = both.radios.get(usize::from(seen.node));
            if let Some(interface) = wire.or(radio.copied().flatten()) {
                ip.packet(seen.at, interface, seen.direction, seen.bytes);
            }
        }
    }

    fn aired(&mut self, frame: &OnAir, packet: Option<&[u8]>) {
        if let Some(air) = &mut self.0.borrow_mut().air {
            air.aired(frame, packet);
        }
    }

    fn wants_air(&self) -> bool {
        self.0.borrow().air.is_some()
    }
}

/// The capture of all nodes' network interfaces: packets that begin with their IP header.
pub struct IpCapture {
    out: Vec<u8>,
    writer: Writer,
    interfaces: Vec<InterfaceId>,
}

impl IpCapture {
    /// With these interfaces, e.g. `n2-wlan0`; their place in the list is their number.
    pub fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> IpCapture {
        let mut out = Vec::new();
        let mut writer = Writer::begin(&mut out, APPLICATION, 0);
        let names = names.into_iter();
        let interfaces = names
            .map(|name| writer.interface(&mut out, name.as_ref(), LinkType::RAW))
            .collect();
        IpCapture {
            out,
            writer,
            interfaces,
        }
    }

    /// A packet went in or out at an interface; an unknown interface has none.
    pub fn packet(&mut self, at: Time, interface: usize, direction: Direction, octets: &[u8]) {
        let Some(&interface) = self.interfaces.get(interface) else {
            return;
        };
        let packet = Captured {
            interface,
            wall_ns: at.0,
            octets,
            direction: Some(direction),
            comment: "",
        };
        self.writer.packet(&mut self.out, &packet);
    }

    /// The file, from where the last call ended.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }
}

/// The capture of all nodes' radios: 802.11 frames behind radiotap headers. Each node has what it
/// sent, what it received, and what it lost after it had begun to listen to it.
///
/// [`AirCapture::aired`] is told every transmission, then [`AirCapture::records`] the trace, in
/// order and whole.
pub struct AirCapture {
    out: Vec<u8>,
    writer: Writer,
    nodes: Vec<Station>,
    /// Frames whose record has not come yet, with FCS.
    aired: VecDeque<Vec<u8>>,
    phy: Phy,
    scratch: Vec<u8>,
}

/// The name of a node's radio interface, if it has a radio.
fn wlan(node: &NodePlan) -> Option<String> {
    (!node.wired_only).then(|| format!("{}-wlan0", node.name))
}

struct Station {
    name: String,
    interface: Option<InterfaceId>,
    noise_dbm: i8,
    /// What it transmits, or transmitted last.
    current: Vec<u8>,
    /// Attempts at the present data frame.
    attempts: u8,
}

impl AirCapture {
    /// With one interface for each node of a plan that has a radio.
    pub fn new(plan: &Plan) -> AirCapture {
        let mut out = Vec::new();
        let mut writer = Writer::begin(&mut out, APPLICATION, 0);
        let nodes = plan.nodes.iter().map(|node| Station {
            name: node.name.clone(),
            interface: wlan(node).map(|name| writer.interface(&mut out, &name, LinkType::RADIOTAP)),
            noise_dbm: whole_dbm(node.radio.noise_dbm),
            current: Vec::new(),
            attempts: 0,
        });
        let nodes = nodes.collect();
        AirCapture {
            out,
            writer,
            nodes,
            aired: VecDeque::new(),
            phy: plan.phy.clone(),
            scratch: Vec::new(),
        }
    }

    /// A transmission began; with the IP packet in it, for data.
    pub fn aired(&mut self, frame: &OnAir, packet: Option<&[u8]>) {
        self.aired
            .push_back(octets(frame, packet.unwrap_or_default()));
    }

    /// What the radios traced since the last call.
    pub fn records(&mut self, records: &[Record]) {
        for record in records {
            self.record(record);
        }
    }

    /// The file, from where the last call ended.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    fn record(&mut self, r: &Record) {
        match r.what {
            What::Sent => {
                let Some(station) = self.nodes.get_mut(usize::from(r.node)) else {
                    return;
                };
                station.current = self.aired.pop_front().unwrap_or_default();
                if r.kind == FrameKind::Data {
                    let again = r.flags & 1 != 0;
                    station.attempts = if again { station.attempts + 1 } else { 1 };
                }
                self.write(r, r.node, Sight::Sent);
            }
            // A duplicate has such a record besides its own.
            What::Received => self.write(r, r.peer, Sight::Heard),
            // Of control frames a capture has those that were decoded.
            What::Lost
                if r.kind == FrameKind::Data
                    && matches!(r.why, Why::Collision | Why::Noise | Why::Interference) =>
            {
                self.write(r, r.peer, Sight::Garbled);
            }
            _ => {}
        }
    }

    fn write(&mut self, r: &Record, transmitter: u16, sight: Sight) {
        let (Some(station), Some(from)) = (
            self.nodes.get(usize::from(r.node)),
            self.nodes.get(usize::from(transmitter)),
        ) else {
            return;
        };
        let Some(interface) = station.interface.filter(|_| !from.current.is_empty()) else {
            return;
        };
        let octets = &mut self.scratch;
        octets.clear();
        describe(octets, r, sight, &self.phy, station);
        octets.extend_from_slice(&from.current);
        if sight == Sight::Garbled
            && let Some(last) = octets.last_mut()
        {
            *last = !*last;
        }
        let other = self.nodes.get(usize::from(r.other));
        let comment = comment(r, sight, station, other.map(|o| o.name.as_str()));
        let captured = Captured {
            interface,
            wall_ns: r.time.0,
            octets: &self.scratch,
            direction: Some(match sight {
                Sight::Sent => Direction::Out,
                Sight::Heard | Sight::Garbled => Direction::In,
            }),
            comment: &comment,
        };
        self.writer.packet(&mut self.out, &captured);
    }
}

/// How a node knows of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    Sent,
    Heard,
    Garbled,
}

fn comment(r: &Record, sight: Sight, station: &Station, other: Option<&str>) -> String {
    match (sight, r.why, other) {
        (Sight::Garbled, Why::Collision, Some(other)) => format!("lost: collision with {other}"),
        (Sight::Garbled, Why::Collision, None) => String::from("lost: collision"),
        (Sight::Garbled, Why::Interference, _) => String::from("lost: interference"),
        (Sight::Garbled, _, _) => String::from("lost: noise"),
        (Sight::Sent, _, _) if r.kind == FrameKind::Data && station.attempts > 1 => {
            format!("attempt {}", station.attempts)
        }
        _ => String::new(),
    }
}

fn whole_dbm(dbm: f64) -> i8 {
    dbm.round().clamp(-127.0, 0.0) as i8
}

/// A locally administered address: the node's number, counted from 1.
pub(crate) fn address(node: u16) -> [u8; 6] {
    if node == NOBODY {
        return [0xFF; 6];
    }
    let [high, low] = (node + 1).to_be_bytes();
    [0x02, 0, 0, 0, high, low]
}

/// What a radio says of a frame, in front of it.
fn describe(out: &mut Vec<u8>, r: &Record, sight: Sight, phy: &Phy, station: &Station) {
    let mode = Mode(r.mode.min(11));
    let mut flags = radiotap::HAS_FCS | phy.preamble_flags(mode);
    if sight == Sight::Garbled {
        flags |= radiotap::BAD_FCS;
    }
    let retries = match r.kind {
        FrameKind::Data => station.attempts.saturating_sub(1),
        FrameKind::Ack | FrameKind::Rts | FrameKind::Cts => 0,
    };
    // Of a lost frame the trace does not say how strong it was.
    let signal = whole_dbm(f64::from(r.signal) / 100.0);
    let header = Radiotap {
        time_us: Some(r.time.0 / 1_000),
        flags: Some(flags),
        rate: Some(mode.rate()),
        channel: Some(phy.channel()),
        signal_dbm: (sight == Sight::Heard).then_some(signal),
        noise_dbm: (sight != Sight::Sent).then_some(station.noise_dbm),
        data_retries: (sight == Sight::Sent).then_some(retries),
        ..Radiotap::default()
    };
    header.emit(out);
}

/// The 802.11 frame with its FCS.
fn octets(frame: &OnAir, packet: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frame.bytes as usize);
    let micros = frame.duration.0.div_ceil(1_000).min(32_767) as u16;
    let to = address(frame.to.unwrap_or(NOBODY));
    // Type and subtype.
    let kind = match frame.kind {
        FrameKind::Data => {
            let header = DataHeader {
                retry: frame.retry,
                duration_us: micros,
                receiver: to,
                transmitter: address(frame.from),
                third: dot11::NETWORK,
                sequence: frame.seq,
            };
            header.emit(&mut out);
            dot11::emit_snap(dot11::IPV4, &mut out);
            let length = (frame.bytes as usize).saturating_sub(phy::OVERHEAD as usize);
            let kept = packet.len().min(length);
            out.extend_from_slice(&packet[..kept]);
            out.resize(out.len() + length - kept, 0);
            out.extend(dot11::fcs(&out).to_le_bytes());
            return out;
        }
        FrameKind::Ack => 0xD4,
        FrameKind::Rts => 0xB4,
        FrameKind::Cts => 0xC4,
    };
    out.extend([kind, 0]);
    out.extend(micros.to_le_bytes());
    out.extend(to);
    if frame.kind == FrameKind::Rts {
        out.extend(address(frame.from));
    }
    out.extend(dot11::fcs(&out).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_radio::phy::Standard;
    use wifu_radio::plan::RadioConfig;
    use wifu_wire::Span;

    fn plan() -> Plan {
        let (nan, db) = (f64::NAN, 17.0);
        let snr = [vec![nan, db, nan], vec![db, nan, db], vec![nan, db, nan]];
        let phy = Phy::new(Standard::A, false);
        Plan::from_snr(phy, &RadioConfig::default(), &snr)
    }

    fn record(what: What, kind: FrameKind, node: u16, peer: u16) -> Record {
        Record {
            time: Time(1_000_000),
            frame: 5,
            node,
            peer,
            what,
            mode: 8,
            tries: 0,
            why: Why::None,
            bytes: if kind == FrameKind::Data { 136 } else { 14 },
            signal: -7_712,
            other: NOBODY,
            kind,
            flags: 0,
            value: 0,
        }
    }

    fn on_air(kind: FrameKind, from: u16, to: u16, retry: bool) -> OnAir {
        OnAir {
            start: Time(1_000_000),
            end: Time(1_500_000),
            from,
            to: Some(to),
            kind,
            mode: Mode(8),
            retry,
            seq: 77,
            bytes: if kind == FrameKind::Data { 136 } else { 14 },
            duration: Span(if kind == FrameKind::Data { 44_000 } else { 0 }),
            cookie: 0,
        }
    }

    /// Link-layer packets of the file: (interface, octets).
    fn packets(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut found) = (0, Vec::new());
        while at < file.len() {
            if word(at) == 6 {
                let length = word(at + 20) as usize;
                found.push((word(at + 8), file[at + 28..at + 28 + length].to_vec()));
            }
            at += word(at + 4) as usize;
        }
        found
    }

    #[test]
    fn a_data_frame_is_seen_by_its_sender_and_its_receiver() {
        let mut air = AirCapture::new(&plan());
        let packet = [0x45; 100];
        air.aired(&on_air(FrameKind::Data, 0, 1, false), Some(&packet));
        air.aired(&on_air(FrameKind::Data, 0, 1, true), Some(&packet));
        air.aired(&on_air(FrameKind::Ack, 1, 0, false), None);
        let mut again = record(What::Sent, FrameKind::Data, 0, 1);
        again.flags = 1;
        air.records(&[
            record(What::Sent, FrameKind::Data, 0, 1),
            again,
            record(What::Received, FrameKind::Data, 1, 0),
            record(What::Duplicate, FrameKind::Data, 1, 0),
            record(What::Sent, FrameKind::Ack, 1, 0),
            record(What::Received, FrameKind::Ack, 0, 1),
        ]);
        let file = air.take();
        let seen = packets(&file);
        let at: Vec<u32> = seen.iter().map(|p| p.0).collect();
        assert_eq!(at, [0, 0, 1, 1, 0]);
        let body = |p: &[u8]| p[usize::from(p[2])..].to_vec();
        let (first, second, heard) = (body(&seen[0].1), body(&seen[1].1), body(&seen[2].1));
        assert_eq!(first.len(), 136);
        assert_eq!(first[4..10], [2, 0, 0, 0, 0, 2], "for the second node");
        assert_eq!(first[10..16], [2, 0, 0, 0, 0, 1], "from the first");
        assert_eq!((first[1], second[1]), (0, 8), "the retry bit");
        assert_eq!(second, heard);
        assert_eq!(first[2..4], [44, 0], "the duration");
        assert_eq!(first[22..24], (77u16 << 4).to_le_bytes());
        let fcs = dot11::fcs(&first[..132]).to_le_bytes();
        assert_eq!(first[132..], fcs);
        let ack = body(&seen[4].1);
        assert_eq!((ack.len(), &ack[4..10]), (14, &[2, 0, 0, 0, 0, 1][..]));
        // Retries of the sender; signal and noise of the receiver; 24 Mb/s in units of 500 kb/s.
        assert_eq!(seen[1].1[22], 1);
        assert_eq!(seen[2].1[22..24], [-77i8 as u8, -94i8 as u8]);
        assert_eq!(seen[2].1[17], 48);
    }

    #[test]
    fn a_lost_frame_has_a_bad_check_sequence() {
        let mut air = AirCapture::new(&plan());
        air.aired(&on_air(FrameKind::Data, 0, 1, false), Some(&[0x45; 100]));
        let mut lost = record(What::Lost, FrameKind::Data, 1, 0);
        (lost.why, lost.other) = (Why::Collision, 2);
        let mut deaf = lost;
        deaf.why = Why::Transmitting;
        air.records(&[record(What::Sent, FrameKind::Data, 0, 1), lost, deaf]);
        let file = air.take();
        let seen = packets(&file);
        assert_eq!(seen.len(), 2, "who does not listen captures nothing");
        let octets = &seen[1].1;
        assert_eq!(octets[16] & radiotap::BAD_FCS, radiotap::BAD_FCS);
        let (body, fcs) = octets[usize::from(octets[2])..].split_at(132);
        assert_ne!(dot11::fcs(body).to_le_bytes(), fcs);
        let text = String::from_utf8_lossy(&file).into_owned();
        assert!(text.contains("lost: collision with n3"));
    }

    #[test]
    fn packets_of_the_stack_name_their_interface() {
        let mut ip = IpCapture::new(["n1-wlan0", "n2-wlan0"]);
        ip.packet(Time(5), 1, Direction::In, &[0x45; 40]);
        ip.packet(Time(6), 7, Direction::In, &[0x45; 40]);
        assert_eq!(packets(&ip.take()), [(1, vec![0x45; 40])]);
    }
}
