//! The format of this crate: what its header looks like on the mesh, that its codec conforms, that
//! damaged packets are counted and nothing worse, that handlers know its words.

use std::cell::RefCell;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use custom::short_wire::{FORMAT, WIRE};
use wifu_core::{Handler, Hook, Hooks, HopCx, HopWord, HopWordSpec, Packet, Verdict};
use wifu_engine::{Endpoint, EndpointConfig, Library};
use wifu_node::Registry;
use wifu_sim::mesh::{Seen, Simulation, Tap};
use wifu_sim::outcome::Outcome;
use wifu_sim::scenario::Scenario;
use wifu_testkit::wire::conform;
use wifu_wire::format::{BY_END, Field, WordDecl};
use wifu_wire::pcapng::Direction;
use wifu_wire::{Codec, Format, Time, WireSpec, atp, hxh, ipv4};

/// A word of the octets behind the IP header.
fn word(segment: &[u8], name: &str) -> u32 {
    FORMAT.place(name).expect("it is declared").read(segment)
}

/// Whether it is a packet of this type.
fn is(packet: &[u8], kind: u32) -> bool {
    word(&packet[20..], "type") == kind
}

/// Packets that left a node, or came to one: node, direction, octets.
type Packets = Rc<RefCell<Vec<(u16, Direction, Vec<u8>)>>>;

struct Keeps(Packets);

impl Tap for Keeps {
    fn packet(&mut self, seen: &Seen<'_>) {
        let packet = (seen.node, seen.direction, seen.bytes.to_vec());
        self.0.borrow_mut().push(packet);
    }
}

/// 20 kB over three hops, with this in the scenario; all packets at all nodes.
fn run(registry: &Registry, more: &str) -> (Outcome, Vec<(u16, Direction, Vec<u8>)>) {
    let text = format!(
        "[topology]\nwords = \"linear,4,snr=20\"\nset = \"TB-W9\"\n[radio]\nattempts = 7\n\
         [stop]\ntime = \"60s\"\n{more}[[flow]]\nfrom = \"n1\"\nto = \"n4\"\nprotocol = \"hxh-short\"\n\
         app = \"file\"\nbytes = \"20k\"\n"
    );
    let scenario = Scenario::from_toml(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut simulation = Simulation::new(&scenario, registry).unwrap_or_else(|e| panic!("{e}"));
    let packets = Packets::default();
    simulation.set_tap(Box::new(Keeps(Rc::clone(&packets))));
    simulation.run();
    (simulation.outcome(), packets.take())
}

fn registry() -> Registry {
    custom::register(wifu::standard())
}

/// What left a node for the next one.
fn sent(packets: &[(u16, Direction, Vec<u8>)], node: u16) -> Vec<&[u8]> {
    let out = packets
        .iter()
        .filter(|(n, way, _)| *n == node && *way == Direction::Out);
    out.map(|(_, _, octets)| &octets[..]).collect()
}

#[test]
fn packets_on_the_mesh_have_the_header_as_it_is_declared() {
    let (outcome, packets) = run(&registry(), "");
    let flow = &outcome.flows[0];
    assert!(flow.finished && (flow.bytes, flow.corrupt) == (20_000, 0));
    let sent = |node| sent(&packets, node);
    let ports = |p: &[u8]| [p[24], p[25], p[26], p[27]];
    // The first of all: version 1, SYN, one node; number 0, and no acknowledgement.
    let syn = sent(0)[0];
    println!("{syn:02x?}");
    assert_eq!((syn.len(), syn[9]), (20 + 32, 246));
    assert_eq!(syn[20..22], [0x15, 0x01]);
    assert_eq!((&syn[28..36], &syn[42..44]), (&[0; 8][..], &[0; 2][..]));
    // What it takes of data, in the place of credits: 1500 less both headers.
    assert_eq!(syn[40..42], 1448u16.to_be_bytes());
    let connection = &syn[44..48];
    assert_ne!(connection, [0; 4]);
    // Its answer echoes the timestamp where the SYN has it.
    let answer = sent(3)[0];
    assert_eq!(answer[20..22], [0x16, 0x01]);
    assert_eq!(answer[36..40], syn[36..40]);
    let turned = [&syn[26..28], &syn[24..26]].concat();
    assert_eq!(ports(answer)[..], turned[..]);
    // A full packet as the second node sends it on: 32 octets of header in 1500.
    let relayed: Vec<&[u8]> = sent(1).into_iter().filter(|p| is(p, hxh::DATA)).collect();
    let record = relayed.iter().find(|p| p.len() == 1500).expect("data");
    assert_eq!(
        record[20..22],
        [0x11, 0x82],
        "to be confirmed; two nodes had it"
    );
    assert_eq!(record[28..32], [0, 0, 0, 1], "its number");
    assert_eq!(record[32..36], [0; 4], "none has reached the destination");
    assert_eq!(record[42..44], [0, 0], "no ranges");
    assert_eq!(&record[44..48], connection);
    // It names who sends it on; its source stays who sent it first.
    assert_eq!(
        (&record[12..16], &record[48..52]),
        (&[10, 0, 0, 1][..], &[10, 0, 0, 2][..])
    );
    // A lane of eight holds at least this one.
    let credits = word(&record[20..], "credits");
    assert_eq!(record[40..42], (credits as u16).to_be_bytes());
    assert!(credits <= 4);
    let all = relayed.iter().map(|p| word(&p[20..], "credits"));
    assert!(all.clone().min() < all.max(), "lanes write it");
    // The destination tells its neighbour of each packet, and nobody passes that on. In the end it
    // says how far all came, where data have `pack`.
    let of = |node, kind| sent(node).into_iter().filter(move |p| is(p, kind));
    assert!(of(3, hxh::LHACK).count() >= 14 && of(2, hxh::LHACK).count() == 0);
    let acks = of(3, hxh::ACK).map(|p| p[32..36].to_vec());
    assert_eq!(
        acks.max(),
        Some(vec![0, 0, 0, 15]),
        "14 of data and the end"
    );
    // The last packet of the source says so and carries nothing.
    let last = of(0, hxh::DATA).rfind(|p| p[21] & 0x20 != 0);
    assert_eq!(last.expect("the end").len(), 20 + 32);
}

#[test]
fn the_codec_conforms_to_the_declaration() {
    conform(&*(WIRE.make)());
}

#[test]
fn damaged_packets_are_counted_and_dropped() {
    let registry = registry();
    let (_, packets) = run(&registry, "");
    let ends = &registry
        .resolve("hxh-short")
        .unwrap_or_else(|e| panic!("{e}"))
        .ends;
    let arrived = |p: &&(u16, Direction, Vec<u8>)| p.0 == 3 && p.1 == Direction::In;
    let mut arrived = packets.iter().filter(arrived).map(|p| &p.2[..]);
    let (ip, syn) = ipv4::parse(arrived.next().unwrap()).unwrap();
    let (_, record) = ipv4::parse(arrived.next().unwrap()).unwrap();
    let port = u16::from_be_bytes([syn[6], syn[7]]);
    let mut end = Endpoint::new(EndpointConfig::default());
    let at = SocketAddrV4::new(ip.dst, port);
    end.listen(ends, at, 4).expect("the port is free");
    end.handle_packet(Time(1), &ip, syn);
    assert_eq!((end.len(), end.drops().len()), (1, 0));
    let drops = |end: &Endpoint| end.drops().values().sum::<u64>();
    let mut damaged = 0;
    let mut give = |bytes: &[u8]| {
        end.handle_packet(Time(2), &ip, bytes);
        damaged += 1;
        assert_eq!(drops(&end), damaged, "{bytes:02x?}");
    };
    for bit in 0..record.len() * 8 {
        // What nodes on the way write, the sum leaves out; each link has its own check.
        if ![12..16, 96..128, 160..176, 224..256]
            .iter()
            .any(|w| w.contains(&bit))
        {
            let mut bytes = record.to_vec();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            give(&bytes);
        }
    }
    (0..record.len()).for_each(|n| give(&record[..n]));
    println!("{:?}", end.drops());
    assert_eq!(end.drops()["checksum"], damaged);
    let before = end.drops();
    end.handle_packet(Time(3), &ip, record);
    assert_eq!(end.drops(), before, "it is taken as it came");
}

/// Flips one bit of every fifth packet, each time another.
static FLIPS: wifu_core::Descriptor = wifu_core::Descriptor {
    name: "flips",
    doc: "Flips a bit behind the IP header of every fifth packet.",
    hooks: Hooks::of(&[Hook::Forward, Hook::Input]),
    build: |_| Ok(Box::new(Flips(0))),
    ..wifu_core::Descriptor::EMPTY
};

struct Flips(usize);

impl Handler for Flips {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        self.0 += 1;
        if self.0.is_multiple_of(5) {
            let bits = (packet.octets().len() - ipv4::HEADER) * 8;
            let bit = self.0 / 5 * 37 % bits.min(32 * 8);
            packet.octets_mut()[ipv4::HEADER + bit / 8] ^= 0x80 >> (bit % 8);
        }
        Verdict::Accept
    }
}

#[test]
fn nodes_ends_and_lanes_survive_packets_that_are_damaged_on_the_way() {
    let registry = registry().with_handlers(&[&FLIPS]);
    let (outcome, _) = run(&registry, "[[handler]]\nuse = \"flips\"\nprotocol = 246\n");
    let handlers = outcome.nodes.iter().flat_map(|n| &n.handlers);
    let changed: u64 = handlers.map(|h| h.changed).sum();
    println!("{changed} damaged: {:?}", outcome.flows[0].packets);
    assert!(changed > 10);
    assert_eq!(outcome.flows[0].corrupt, 0, "no byte arrives as another");
}

/// Writes one of the format's words by its name.
static ONE_CREDIT: wifu_core::Descriptor = wifu_core::Descriptor {
    name: "one-credit",
    doc: "Lets no node promise more than one packet's room.",
    hooks: Hooks::of(&[Hook::Postrouting]),
    format: Some(&FORMAT),
    words: &[HopWordSpec::read("type"), HopWordSpec::written("credits")],
    build: |s| Ok(Box::new(OneCredit(["type", "credits"].map(|w| s.word(w))))),
    ..wifu_core::Descriptor::EMPTY
};

struct OneCredit([HopWord; 2]);

impl Handler for OneCredit {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, _: &mut HopCx<'_>) -> Verdict {
        // What the destination answers has such a word, too, which is its own.
        let [kind, credits] = self.0;
        if packet.get(kind) == hxh::DATA && packet.get(credits) > 1 {
            packet.set(credits, 1);
        }
        Verdict::Accept
    }
}

#[test]
fn a_handler_reads_and_writes_a_word_by_its_name() {
    let registry = registry().with_handlers(&[&ONE_CREDIT]);
    let (outcome, packets) = run(
        &registry,
        "[[handler]]\nuse = \"one-credit\"\nprotocol = 246\n",
    );
    assert!(
        outcome.flows[0].finished,
        "its checksum leaves the word out"
    );
    let most = |node| {
        let data = sent(&packets, node).into_iter();
        let credits = data.filter(|p| is(p, hxh::DATA));
        credits.map(|p| word(&p[20..], "credits")).max()
    };
    assert_eq!([0, 1, 2].map(most), [Some(1); 3]);
}

/// The format as if nobody on the way wrote anything but who they are.
static ENDS: LazyLock<Format> = LazyLock::new(|| {
    let by_ends = |w: &WordDecl| match w.field {
        Field::Transmitter | Field::HopCount => *w,
        _ => w.by(BY_END),
    };
    Format {
        name: "ends",
        words: FORMAT.words.iter().map(by_ends).collect(),
        ..FORMAT.clone()
    }
});

#[test]
fn nodes_write_only_what_the_format_lets_them() {
    let mine: &'static WireSpec = Box::leak(Box::new(WireSpec {
        format: &ENDS,
        make: || Arc::new(Codec::new(ENDS.clone(), 8).unwrap()),
    }));
    let text = custom::SHORT.replace("\"short\"", "\"ends\"");
    let other = Library::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let registry = registry().with_wires(&[mine]).with_library(other);
    let error = registry.resolve("hxh-short").expect_err("it is refused");
    let said = "has nodes write the header word \"pack\", which wire = \"ends\" lets ends alone";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
#[should_panic(expected = "two wire formats are called atp: give yours a name of its own")]
fn a_format_that_has_the_name_of_one_of_wifus_is_refused() {
    static MINE: WireSpec = WireSpec {
        format: &atp::FORMAT,
        make: WIRE.make,
    };
    let _ = registry().with_wires(&[&MINE]);
}
