//! The lane runner over a pool of packets that the test keeps: custody, turns, room by way, what
//! comes back, and what is closed.

mod laned;
mod world;

use core::net::{Ipv4Addr, SocketAddrV4};
use core::num::NonZeroU16;
use laned::{A, B, C, MARK, ME, SAYS};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use wifu_engine::component::Cx;
use wifu_engine::descriptor::NoteSpec;
use wifu_engine::{
    Access, Admit, Board, Component, Descriptor, Kind, Library, Out, Payload, Role, Segment,
    Signal, Status, Ticket, Want, WordSpec,
};
use wifu_node::{Lanes, LanesConfig, Origin, Registry, Scheduler, Seen, Took, Toward, Ways};
use wifu_wire::{
    Class, FrameFacts, Head, LinkTo, Neighbour, Note, Notes, Rng, Seq, Span, Time, Word, ipv4,
};
use world::World;

thread_local! {
    /// Classes and numbers of packets that drivers reported, in this thread's test.
    static REPORTED: RefCell<Vec<(Class, Seq)>> = const { RefCell::new(Vec::new()) };
    /// Numbers that came back, and new routes that were told, in this thread's test.
    static TOLD: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Hands down what came first, marked; keeps what has an even number if `keep` is on.
static QUEUE: Descriptor = Descriptor {
    doc: "Hands down what came first.",
    build: |p| {
        Ok(Box::new(Queue {
            mark: p.word("mark"),
            kept: None,
        }))
    },
    ..laned::QUEUE
};

struct Queue {
    mark: Word,
    kept: Option<Ticket>,
}

impl Component for Queue {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        if !seg.frame.along
            && let Some(ticket) = self.kept.take()
        {
            cx.out.release(ticket);
        }
        match seg.head.seq {
            Seq(666) => Admit::Drop("a number that nobody likes"),
            _ => Admit::Pass,
        }
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        let (returned, routes) = TOLD.get();
        match signal {
            Signal::Status(s) => REPORTED.with_borrow_mut(|r| r.push((s.class, s.number))),
            Signal::Returned(_) => TOLD.set((returned + 1, routes)),
            Signal::Route => TOLD.set((returned, routes + 1)),
            _ => laned::open(cx),
        }
    }

    fn offer(&self, kind: Kind, board: &Board, _: Time) -> Option<Want> {
        let (bytes, least) = (1, 1);
        let any = board.app.queued > 0 && self.kept.is_none();
        any.then_some(Want { kind, bytes, least })
    }

    fn fill(&mut self, _: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let Some((ticket, number)) = cx.store.pop() else {
            return;
        };
        let keep = number.0 >= 1000;
        self.kept = keep.then_some(ticket);
        out.head.seq = number;
        out.head.set(self.mark, 9);
        out.payload = Payload::Packet { ticket, keep };
    }
}

struct Rig {
    lanes: Lanes,
    pool: World,
    wire: Arc<dyn wifu_wire::Wire>,
}

impl Rig {
    fn new(config: LanesConfig) -> Rig {
        Rig::of(&QUEUE, config)
    }

    fn of(part: &'static Descriptor, config: LanesConfig) -> Rig {
        let protocol = laned::protocol(part, &[]);
        let wire = Arc::clone(&protocol.ends.wire);
        Rig {
            lanes: Lanes::new(config, &[protocol], Rng::new(1)).expect("it has a lane"),
            pool: World::new(ME),
            wire,
        }
    }

    /// A packet of a flow, which its source port names.
    fn packet(&self, flow: u16, to: Ipv4Addr, number: u32, payload: usize) -> Vec<u8> {
        let from = SocketAddrV4::new(A, flow);
        self.between(from, SocketAddrV4::new(to, 7), number, payload)
    }

    fn between(&self, a: SocketAddrV4, b: SocketAddrV4, number: u32, payload: usize) -> Vec<u8> {
        laned::packet(&*self.wire, (a, b), number, payload)
    }

    fn offer(&mut self, flow: u16, to: Ipv4Addr, number: u32, payload: usize) -> (Seen, Took) {
        let packet = self.packet(flow, to, number, payload);
        let (mut facts, ticket) = (FrameFacts::default(), self.pool.insert(packet, true));
        let seen = self
            .lanes
            .see(ticket, &mut facts, Origin::Link, &mut self.pool);
        if seen != Seen::On {
            return (seen, Took::Not);
        }
        (seen, self.lanes.take(ticket, &Notes::EMPTY, &self.pool))
    }

    /// Flows and numbers of all that is handed down.
    fn down(&mut self) -> Vec<(u16, u32)> {
        let mut out = Vec::new();
        while let Some(down) = self.lanes.poll(&mut self.pool) {
            out.push(self.read(down.ticket));
        }
        out
    }

    fn read(&self, ticket: Ticket) -> (u16, u32) {
        let mut head = Head::default();
        let bytes = self.pool.octets(ticket);
        self.wire.parse(&bytes[ipv4::HEADER..], &mut head).unwrap();
        let mark = self.wire.place("mark").expect("it was declared");
        assert_eq!(
            mark.read(&bytes[ipv4::HEADER..]),
            9,
            "the lane wrote its word"
        );
        (head.sport, head.seq.0)
    }

    fn freed(&mut self) -> usize {
        std::iter::from_fn(|| self.lanes.poll_freed()).count()
    }
}

#[test]
fn a_lane_takes_what_fits_and_hands_down_in_order() {
    let mut rig = Rig::new(LanesConfig::default());
    for n in 0..4 {
        assert_eq!(rig.offer(1, B, n, 100), (Seen::On, Took::Taken));
    }
    assert_eq!(rig.offer(1, B, 4, 100).1, Took::Dropped);
    // Without payload it is no data, and goes by itself.
    assert_eq!(rig.offer(1, B, 5, 0).1, Took::Not);
    assert_eq!(rig.down(), [(1, 0), (1, 1), (1, 2), (1, 3)]);
    let counters = rig.lanes.counters();
    assert_eq!(
        (counters.taken, counters.sent, counters.full, counters.most),
        (4, 4, 1, 4)
    );
}

#[test]
fn a_part_may_refuse_custody() {
    let mut rig = Rig::new(LanesConfig::default());
    let (seen, _) = rig.offer(1, B, 666, 100);
    assert_eq!(seen, Seen::Dropped("a number that nobody likes"));
    assert_eq!(rig.lanes.counters().refused, 1);
}

#[test]
fn a_way_without_room_does_not_stop_another_one() {
    for scheduler in [
        Scheduler::DeficitRoundRobin,
        Scheduler::Fifo,
        Scheduler::Strict,
    ] {
        let mut rig = Rig::new(LanesConfig {
            scheduler,
            ..LanesConfig::default()
        });
        rig.pool.confine(B, 0);
        assert_eq!(rig.offer(1, B, 1, 100).1, Took::Taken);
        assert_eq!(rig.offer(2, C, 2, 100).1, Took::Taken);
        assert_eq!(rig.down(), [(2, 2)], "{scheduler:?}");
        let stuck: Vec<Toward> = rig.lanes.stuck().collect();
        let ahead = Toward::Destination(B);
        assert_eq!(stuck, [ahead], "the way back has room");
        rig.pool.confine(B, 1);
        assert_eq!(rig.down(), [(1, 1)]);
    }
}

#[test]
fn what_no_link_took_is_first_again_and_its_lane_is_told() {
    let mut rig = Rig::new(LanesConfig::default());
    for n in 0..2 {
        let _ = rig.offer(1, B, n, 100);
    }
    let down = rig.lanes.poll(&mut rig.pool).expect("the first");
    rig.lanes.put_back(rig.pool.now, down);
    assert_eq!(TOLD.get(), (1, 0));
    assert_eq!(rig.down(), [], "not at once: it had room, and refused");
    rig.pool.now += Span(10_000_000);
    assert_eq!(rig.down(), [(1, 0), (1, 1)]);
    assert_eq!((rig.lanes.counters().returned, rig.freed()), (1, 0));
    rig.pool.confine(B, 3);
    rig.lanes.reroute(&rig.pool);
    rig.lanes.reroute(&rig.pool);
    assert_eq!(
        TOLD.get(),
        (1, 1),
        "told once: the second time nothing had changed"
    );
}

#[test]
fn what_comes_back_to_a_lane_that_is_closed_is_dropped_with_it_and_counted() {
    let mut rig = Rig::new(LanesConfig {
        most: 1,
        ..LanesConfig::default()
    });
    let _ = rig.offer(1, B, 1, 100);
    let down = rig.lanes.poll(&mut rig.pool).expect("the only one");
    // Its lane is empty, and makes room for another flow's.
    assert_eq!(rig.offer(2, B, 2, 100).1, Took::Taken);
    rig.lanes.put_back(rig.pool.now, down);
    let counters = rig.lanes.counters();
    assert_eq!((counters.returned, counters.idled, rig.freed()), (1, 1, 1));
    assert_eq!(rig.down(), [(2, 2)]);
}

#[test]
fn what_is_kept_goes_as_a_copy_until_it_is_let_go() {
    let mut rig = Rig::new(LanesConfig::default());
    let _ = rig.offer(1, B, 1000, 100);
    assert_eq!(rig.down(), [(1, 1000)]);
    assert_eq!((rig.lanes.counters().kept, rig.freed()), (1, 0));
    assert_eq!(rig.pool.packets(), 2);
    // An answer passes the other way.
    let answer = rig.between(SocketAddrV4::new(B, 7), SocketAddrV4::new(A, 1), 1, 0);
    let mut facts = FrameFacts::default();
    let answer = rig.pool.insert(answer, true);
    let seen = rig
        .lanes
        .see(answer, &mut facts, Origin::Link, &mut rig.pool);
    assert_eq!((seen, rig.freed()), (Seen::On, 1));
}

#[test]
fn equal_shares_are_of_bytes_not_of_packets() {
    let mut rig = Rig::new(LanesConfig::default());
    let mut bytes = [0usize; 2];
    for _ in 0..400 {
        while rig.offer(1, B, 1, 1_300).1 == Took::Taken {}
        while rig.offer(2, B, 1, 300).1 == Took::Taken {}
        let down = rig.lanes.poll(&mut rig.pool).expect("both wait");
        bytes[usize::from(rig.read(down.ticket).0) - 1] += rig.pool.octets(down.ticket).len();
    }
    let ratio = bytes[0] as f64 / bytes[1] as f64;
    assert!((0.9..1.1).contains(&ratio), "{bytes:?}");
}

#[test]
fn what_no_link_took_is_not_charged() {
    let mut rig = Rig::new(LanesConfig::default());
    let (mut packets, mut refuses) = ([0u32; 2], true);
    for _ in 0..400 {
        for flow in [1, 2] {
            while rig.offer(flow, B, 1, 1_000).1 == Took::Taken {}
        }
        let down = rig.lanes.poll(&mut rig.pool).expect("both wait");
        let flow = rig.read(down.ticket).0;
        // The first flow's packets are taken at the second attempt only.
        refuses ^= flow == 1;
        if flow == 1 && !refuses {
            rig.lanes.put_back(rig.pool.now, down);
            rig.pool.now += Span(10_000_000);
        } else {
            packets[usize::from(flow) - 1] += 1;
        }
    }
    let ratio = f64::from(packets[0]) / f64::from(packets[1]);
    assert!((0.9..1.1).contains(&ratio), "{packets:?}");
}

#[test]
fn silent_lanes_close_and_make_room_and_nothing_leaks() {
    let mut rig = Rig::new(LanesConfig {
        most: 2,
        idle: Span::SECOND,
        ..LanesConfig::default()
    });
    let _ = rig.offer(1, B, 1, 100);
    let _ = rig.offer(2, B, 1, 100);
    assert_eq!(rig.offer(3, B, 1, 100).1, Took::Dropped, "all hold packets");
    assert_eq!(rig.lanes.counters().unlaned, 1);
    assert_eq!(rig.down().len(), 2);
    assert_eq!(
        rig.offer(3, B, 1, 100).1,
        Took::Taken,
        "an empty one made room"
    );
    assert_eq!(rig.lanes.all().count(), 2);
    // It holds a packet, and sees nothing for a second.
    assert_eq!(rig.lanes.poll_timeout(), rig.pool.now + Span::SECOND);
    rig.pool.now += Span::SECOND;
    rig.lanes.handle_timeout(rig.pool.now);
    assert_eq!(
        (rig.lanes.all().count(), rig.lanes.counters().idled),
        (0, 1)
    );
    assert_eq!((rig.freed(), rig.lanes.poll_timeout()), (1, Time::NEVER));
}

#[test]
fn octets_of_any_kind_are_no_trouble() {
    let mut rig = Rig::new(LanesConfig::default());
    let whole = rig.packet(1, B, 1, 100);
    let mut facts = FrameFacts::default();
    for length in 0..whole.len() {
        let mut cut = whole[..length].to_vec();
        for origin in [Origin::Link, Origin::ForHere, Origin::Own] {
            let ticket = rig.pool.insert(cut.clone(), true);
            let _ = rig.lanes.see(ticket, &mut facts, origin, &mut rig.pool);
            rig.lanes.overheard(ticket, &facts, &rig.pool);
        }
        for at in 0..length.min(40) {
            cut[at] ^= 0xFF;
            let ticket = rig.pool.insert(cut.clone(), true);
            let _ = rig.lanes.take(ticket, &Notes::EMPTY, &rig.pool);
        }
    }
}

/// Says once, to who transmitted the last packet, that it saw it, with a note for handlers.
static ASKER: Descriptor = Descriptor {
    name: "asker",
    doc: "Says who transmitted the last packet that it saw it.",
    words: &[MARK, SAYS, WordSpec::transmitter("transmitter")],
    offers: &[Kind::New, Kind::Control],
    notes: &[URGENCY],
    hooks: &["segment", "overheard"],
    build: |p| {
        Ok(Box::new(Asker {
            queue: Queue {
                mark: p.word("mark"),
                kept: None,
            },
            says: p.word("says"),
            urgency: p.note("urgency"),
            from: None,
        }))
    },
    ..QUEUE
};

const URGENCY: NoteSpec = NoteSpec {
    name: "urgency",
    access: Access::Write,
    unit: "",
    doc: "How soon a packet is to leave.",
};

struct Asker {
    queue: Queue,
    says: Word,
    urgency: Note,
    from: Option<Neighbour>,
}

impl Component for Asker {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        self.from = seg.frame.transmitter;
        cx.out.note(self.urgency, 8);
        self.queue.on_segment(seg, cx)
    }

    fn on_overheard(&mut self, _: &Segment<'_>, _: &mut Cx<'_>) {
        let (returned, told) = TOLD.get();
        TOLD.set((returned, told + 100));
    }

    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        self.queue.on_signal(signal, cx);
    }

    fn offer(&self, kind: Kind, board: &Board, now: Time) -> Option<Want> {
        let probe = Want {
            kind,
            bytes: 0,
            least: 0,
        };
        match kind {
            Kind::Control => self.from.map(|_| probe),
            _ => self.queue.offer(kind, board, now),
        }
    }

    fn fill(&mut self, want: &Want, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if want.kind != Kind::Control {
            return self.queue.fill(want, out, cx);
        }
        out.head.set(self.says, 1);
        out.aside.to = self.from.take().map_or(LinkTo::Route, LinkTo::Neighbour);
        out.aside.notes.set(self.urgency, 3);
    }
}

/// An end that reads what is noted on the way to it.
static READER: Descriptor = Descriptor {
    name: "reader",
    notes: &[NoteSpec {
        access: Access::Read,
        ..URGENCY
    }],
    build: |_| Ok(Box::new(laned::End)),
    role: Role::Reliable,
    offers: &[Kind::New],
    ..Descriptor::EMPTY
};

#[test]
fn what_an_end_reads_a_part_of_its_lane_may_write() {
    let with = |lane: &'static Descriptor| {
        let text = format!(
            "[protocol.laned]\nnumber = 250\nwire = \"shim\"\nstore = \"octets\"\n\
             reliable = \"reader\"\n[lane.laned]\nreliable = \"{}\"\n",
            lane.name
        );
        let parts = wifu_engine::Registry::new(&[lane, &READER]);
        let library = Library::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let resolved = Registry::new(parts, library).resolve("laned");
        resolved.map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(with(&ASKER), Ok(()));
    let said = with(&QUEUE).unwrap_err();
    assert!(said.contains("reads the annotation \"urgency\""), "{said}");
}

fn asking() -> Rig {
    Rig::of(&ASKER, LanesConfig::default())
}

const UPSTREAM: Option<Neighbour> = Some(Neighbour {
    device: NonZeroU16::MIN,
    address: [2, 0, 0, 0, 0, 4],
});

#[test]
fn a_part_of_a_lane_sends_packets_of_its_own_to_whom_it_says() {
    let mut rig = asking();
    let packet = rig.packet(1, B, 1, 100);
    let mut facts = FrameFacts {
        transmitter: UPSTREAM,
        ..FrameFacts::NONE
    };
    let ticket = rig.pool.insert(packet, true);
    let seen = rig
        .lanes
        .see(ticket, &mut facts, Origin::Link, &mut rig.pool);
    // What it noted is for who sees the packet next.
    assert_eq!((seen, facts.notes.get(Note(0))), (Seen::On, Some(8)));
    let mut notes = Notes::EMPTY;
    notes.set(Note(5), 50);
    assert_eq!(rig.lanes.take(ticket, &notes, &rig.pool), Took::Taken);
    let made = rig.lanes.poll(&mut rig.pool).expect("its own goes first");
    let neighbour = UPSTREAM.map(LinkTo::Neighbour);
    assert_eq!(
        (Some(made.to), made.notes.get(Note(0))),
        (neighbour, Some(3))
    );
    // It is a whole packet of the flow, which ends at the next node's lane.
    let octets = rig.pool.octets(made.ticket).to_vec();
    let (ip, segment) = ipv4::parse(&octets).expect("its checksum is right");
    assert_eq!((ip.src, ip.dst, ip.proto), (A, B, 250));
    assert_eq!(rig.wire.class(segment), Class::Hop);
    let pseudo = ip.pseudo();
    assert!(rig.wire.verify(&pseudo, segment));
    let mut head = Head::default();
    rig.wire.parse(segment, &mut head).expect("it can be read");
    let transmitter = rig.wire.transmitter().expect("it was declared").word;
    assert_eq!((head.sport, head.get(transmitter)), (1, ME.to_bits()));
    let there = rig.pool.insert(octets, true);
    let mut none = FrameFacts::NONE;
    let seen = rig.lanes.see(there, &mut none, Origin::Link, &mut rig.pool);
    assert_eq!(seen, Seen::Here);
    // Then the packet of the flow, with what was noted on it before.
    let down = rig.lanes.poll(&mut rig.pool).expect("then the packet");
    assert_eq!((down.ticket, down.notes), (ticket, notes));
    // Their numbers may be the same: what the driver says of one is not taken for the other's.
    let status = Status {
        number: Seq(0),
        class: Class::Data,
        delivered: false,
        attempts: 7,
        airtime_ns: None,
        delay: None,
    };
    for sent in [made.ticket, down.ticket] {
        rig.lanes.status(sent, &status, &rig.pool);
    }
    let reported = REPORTED.take();
    let classes: Vec<Class> = reported.iter().map(|r| r.0).collect();
    assert_eq!(classes, [Class::Hop, Class::Data]);
    assert_eq!(reported[1].1, Seq(1));
    let counters = rig.lanes.counters();
    assert_eq!((counters.made, counters.sent), (1, 1));
}

#[test]
fn an_overheard_packet_that_names_another_transmitter_is_not_believed() {
    let mut rig = asking();
    let _ = rig.offer(1, B, 1, 100);
    let down = rig.lanes.poll(&mut rig.pool).expect("the packet");
    let heard = |node: u8| FrameFacts {
        transmitter: Neighbour::new(1, [2, 0, 0, 0, 0, node]),
        ..FrameFacts::NONE
    };
    TOLD.set((0, 0));
    let mut overhear = |facts: &FrameFacts| {
        rig.lanes.overheard(down.ticket, facts, &rig.pool);
        (TOLD.get().1, rig.lanes.counters().strangers)
    };
    // Its header names this node, 10.0.0.5.
    assert_eq!(overhear(&heard(5)), (100, 0));
    assert_eq!(overhear(&heard(6)), (100, 1));
    assert_eq!(overhear(&FrameFacts::NONE), (200, 1), "nobody knows better");
}

#[test]
fn what_was_damaged_on_the_way_is_dropped_and_not_believed_where_it_is_overheard() {
    let mut rig = asking();
    let _ = rig.offer(1, B, 1, 100);
    let down = rig.lanes.poll(&mut rig.pool).expect("the packet");
    let mut octets = rig.pool.octets(down.ticket).to_vec();
    *octets.last_mut().expect("it is long") ^= 1;
    let damaged = rig.pool.insert(octets, true);
    let facts = FrameFacts {
        transmitter: Neighbour::new(1, [2, 0, 0, 0, 0, 5]),
        ..FrameFacts::NONE
    };
    TOLD.set((0, 0));
    rig.lanes.overheard(damaged, &facts, &rig.pool);
    assert_eq!((TOLD.get().1, rig.lanes.counters().damaged), (0, 1));
    for (from, seen) in [
        (Origin::Link, Seen::Dropped("checksum")),
        (Origin::ForHere, Seen::On),
    ] {
        let found = rig
            .lanes
            .see(damaged, &mut facts.clone(), from, &mut rig.pool);
        assert_eq!(found, seen);
    }
    assert_eq!(rig.lanes.counters().damaged, 3);
}
