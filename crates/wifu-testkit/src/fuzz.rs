//! What the fuzz targets run: bytes become input of a parser, or a sequence of operations and
//! hostile segments for an endpoint ([`stage`](crate::stage)). Each function panics if something is
//! wrong.

use crate::dictionary;
pub use crate::stage::{Counts, engine, observed};
use core::net::Ipv4Addr;
use std::sync::OnceLock;
use wifu_engine::Library;
use wifu_wire::checksum::Pseudo;
use wifu_wire::dot11;
use wifu_wire::front::{self, Answer, Header, Request};
use wifu_wire::over_udp;
use wifu_wire::radiotap::{self, Radiotap};
use wifu_wire::shim::{self, ShimWord};
use wifu_wire::tcp::Tcp;
use wifu_wire::{Head, Span, Wire};

pub(crate) const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const THEM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn pseudo() -> Pseudo {
    Pseudo::new(THEM, US, 6)
}

/// What a codec understands of any octets is written and understood again, the same.
///
/// # Panics
/// If it is not.
pub fn wire(wire: &dyn Wire, bytes: &[u8]) {
    wire.verify(&pseudo(), bytes);
    let mut head = Head::default();
    let Ok(n) = wire.parse(bytes, &mut head) else {
        return;
    };
    assert!(n <= bytes.len(), "a header longer than the packet");
    let mut out = vec![0; 2_048];
    let written = wire.emit(&head, &mut out);
    assert!(written <= out.len());
    wire.seal(&pseudo(), &mut out[..written]);
    assert!(wire.verify(&pseudo(), &out[..written]), "sealed, not valid");
    let mut again = Head::default();
    let read = wire.parse(&out[..written], &mut again);
    assert_eq!(read, Ok(written), "what was written is not understood");
    assert_eq!((again.seq, again.ack), (head.seq, head.ack));
    assert_eq!((again.ts, again.window), (head.ts, head.window));
    assert_eq!((again.sport, again.dport), (head.sport, head.dport));
    assert_eq!(again.unserved, head.unserved);
    let kept = again.ranges().len();
    assert!(kept <= head.ranges().len());
    assert_eq!(again.ranges(), &head.ranges()[..kept]);
    let mut answer = Head::default();
    if wire.refuse(&head, (bytes.len() - n) as u32, &mut answer) {
        wire.emit(&answer, &mut out);
    }
    let mut held = bytes.to_vec();
    wire.patch(&head, &mut held);
    assert_eq!(held.len(), bytes.len());
}

/// The TCP header and its options.
pub fn tcp(bytes: &[u8]) {
    wire(&Tcp, bytes);
}

/// ATP's header and its holes, as it came and as if it were of our version.
pub fn atp(bytes: &[u8]) {
    let codec = (wifu_wire::atp::WIRE.make)();
    wire(&*codec, bytes);
    let mut ours = bytes.to_vec();
    if let Some(version) = ours.get_mut(8..10) {
        version.copy_from_slice(&[1, 1]);
        wire(&*codec, &ours);
    }
}

/// HxH's header and its runs, as it came and as if it were of our version.
pub fn hxh(bytes: &[u8]) {
    versioned(&*(wifu_wire::hxh::WIRE.make)(), bytes);
}

/// The same of Hop's.
pub fn hop(bytes: &[u8]) {
    versioned(&*(wifu_wire::hop::WIRE.make)(), bytes);
}

fn versioned(codec: &dyn Wire, bytes: &[u8]) {
    wire(codec, bytes);
    let mut ours = bytes.to_vec();
    if let Some(first) = ours.first_mut() {
        *first = 0x10 | *first & 0x0F;
        wire(codec, &ours);
    }
}

/// Identity and words of the composed header that is fuzzed.
const SHIM_ID: u32 = 7;
const SHIM_WORDS: [ShimWord; 4] = [
    ShimWord::new("rate", 32).by_hops(),
    ShimWord::new("hops", 5).by_hops(),
    ShimWord::new("mark", 1),
    ShimWord::new("epoch", 16),
];

/// By fuzz target, the dictionaries of those that take a declared header.
pub fn dictionaries() -> Vec<(&'static str, String)> {
    let mut all: Vec<_> = wifu_wire::WIRES
        .iter()
        .map(|w| (w.format.name, dictionary::of(w.format)))
        .collect();
    let shim = shim::format(SHIM_ID, &SHIM_WORDS);
    all.push((shim.name, dictionary::of(&shim)));
    all.push(("over_udp", dictionary::of(&over_udp::FORMAT)));
    all
}

/// A datagram of the carrier `udp`, and the segment in it as one of TCP.
///
/// # Panics
/// If what was understood is written otherwise.
pub fn over_udp(bytes: &[u8]) {
    let Some((proto, segment)) = over_udp::parse(bytes) else {
        return;
    };
    assert!(over_udp::is_ours(bytes));
    let again = [&over_udp::header(proto)[..], segment].concat();
    assert_eq!(again, bytes, "what was understood");
    tcp(segment);
}

/// The composed header.
pub fn shim(bytes: &[u8]) {
    let shim = shim::codec(SHIM_ID, &SHIM_WORDS).expect("a good layout");
    wire(&shim, bytes);
    // The same bytes as if they were for this layout, so that more than the identity is looked at.
    let mut ours = vec![0; 128];
    let n = shim.emit(&Head::default(), &mut ours).min(bytes.len());
    let mut bytes = bytes.to_vec();
    if n >= 12 {
        bytes[..2].copy_from_slice(&ours[..2]);
        bytes[8..12].copy_from_slice(&ours[8..12]);
    }
    wire(&shim, &bytes);
}

/// The IPv4 header.
pub fn ipv4(bytes: &[u8]) {
    if let Ok((info, payload)) = wifu_wire::ipv4::parse(bytes) {
        assert!(payload.len() + wifu_wire::ipv4::HEADER <= bytes.len());
        let mut out = vec![0; wifu_wire::ipv4::HEADER + payload.len()];
        wifu_wire::ipv4::emit(&info, payload.len(), &mut out);
        let (again, rest) = wifu_wire::ipv4::parse(&out).expect("what was written is understood");
        assert_eq!(
            (again.src, again.dst, again.proto),
            (info.src, info.dst, info.proto)
        );
        assert_eq!(rest.len(), payload.len());
    }
}

/// The IPv6 header and what may follow it, and the choice between it and IPv4.
pub fn ipv6(bytes: &[u8]) {
    use wifu_wire::{ip, ipv6};
    let whole = ipv6::parse(bytes);
    // A quotation may be cut, and is then understood as far as it goes.
    assert!(whole.is_err() || ipv6::upper(bytes).is_ok());
    if let Ok((info, payload)) = whole {
        assert_eq!(ip::parse(bytes), Ok((info.any(), payload)));
        assert!(ip::trimmed(bytes).ends_with(payload));
        let mut out = vec![0; ipv6::HEADER + payload.len()];
        ipv6::emit(&info, payload.len(), &mut out);
        let again = ipv6::parse(&out).expect("what was written is understood");
        assert_eq!((again.0, again.1.len()), (info, payload.len()));
    } else if ip::is_v6(bytes) {
        assert!(ip::parse(bytes).is_err());
    }
}

/// Radiotap and the 802.11 data frame behind it: what was understood is written and understood
/// again, the same.
pub fn radiotap(bytes: &[u8]) {
    let Ok((header, frame)) = Radiotap::parse(bytes) else {
        return;
    };
    assert!(frame.len() + 8 <= bytes.len());
    let mut out = Vec::new();
    header.emit(&mut out);
    let again = Radiotap::parse(&out);
    assert_eq!(again, Ok((header, &[][..])), "what was written");
    let frame = header.without_fcs(frame);
    let Ok(data) = dot11::parse(frame, header.has(radiotap::PADDED)) else {
        return;
    };
    out.clear();
    data.header.emit(&mut out);
    dot11::emit_snap(data.kind, &mut out);
    out.extend_from_slice(data.packet);
    assert_eq!(dot11::parse(&out, false), Ok(data), "what was written");
    assert!(out.len() <= frame.len());
}

/// The protocol between applications and the daemon.
pub fn front(bytes: &[u8]) {
    if let Ok(Some(header)) = Header::decode(bytes) {
        assert!(header.total() >= front::HEADER_LEN);
        let again = Header::decode(&header.encode()).expect("what was written is understood");
        assert!(again.is_some());
        if let Some(body) = bytes.get(front::HEADER_LEN..) {
            let body = &body[..body.len().min(header.body as usize)];
            request(header.kind, body);
        }
    }
    if let Ok(answer) = Answer::decode(bytes) {
        let mut out = vec![0; answer.room()];
        let n = answer.encode(&mut out).expect("the room it asked for");
        assert!(n <= out.len());
    }
    front::parse_peer(bytes);
    front::parse_service(bytes);
    if let Some(Ok(marker)) = bytes.get(..front::MARKER_LEN).map(TryInto::try_into)
        && let Some((cookie, hold)) = front::parse_marker(marker)
    {
        assert_eq!(&front::marker(cookie, hold), marker);
    }
}

fn request(kind: front::Kind, body: &[u8]) {
    let Ok(request) = Request::decode(kind, body) else {
        return;
    };
    assert_eq!(request.kind(), kind);
    let mut out = vec![0; front::HEADER_LEN + front::MAX_REQUEST + 1_024];
    if let Ok(n) = request.encode(&mut out, 0) {
        let header = Header::decode(&out[..n])
            .expect("well-formed")
            .expect("whole");
        let body = &out[front::HEADER_LEN..][..header.body as usize];
        let again = Request::decode(kind, body).expect("what was written is understood");
        assert_eq!(format!("{again:?}"), format!("{request:?}"));
    }
}

/// The built-in compositions, read once: most of a target's time would go there.
pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(wifu_parts::library)
}

/// Specifications (`tcp-newreno,iw=4`) and quantities with units.
pub fn spec(text: &str) {
    let registry = wifu_parts::registry();
    let _ = library().resolve(text, &registry);
    let _ = library().resolve(&format!("tcp-sack,{text}"), &registry);
    let _ = text.parse::<Span>();
    let _ = text.parse::<wifu_wire::Rate>();
    let _ = wifu_wire::units::parse_octets(text);
}

/// Composition files.
pub fn composition(text: &str) {
    let Ok(theirs) = Library::parse(text) else {
        return;
    };
    let whole = library().clone().merge(theirs.clone());
    for name in theirs.protocols() {
        let _ = whole.resolve(name, &wifu_parts::registry());
    }
}

/// Rule files of the mock network.
pub fn rules(text: &str) {
    if let Ok(mut rules) = text.parse::<wifu_sim::Rules>() {
        let left = rules.left();
        rules.judge(&wifu_sim::rules::Numbers::default());
        assert!(rules.left() <= left);
    }
}
