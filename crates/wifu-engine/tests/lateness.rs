//! Data that waited for its time learns by how much it overslept, whatever leaves before it.

use core::net::{Ipv4Addr, SocketAddr};
use wifu_engine::board::ConnFacts;
use wifu_engine::component::Cx;
use wifu_engine::{
    Board, Component, Descriptor, Facts, Kind, Library, Limit, Out, Permit, Registry, Role, Signal,
    Tuple, Want,
};
use wifu_wire::{Head, Rng, Span, Time};

/// Offers new data always, and an ACK once after it was told to listen.
struct Talker {
    ack: bool,
}

static TALKER: Descriptor = Descriptor {
    name: "talker",
    role: Role::Manager,
    writes: Facts::CONN,
    hears: &[("connect", &[]), ("listen", &[]), ("sent", &[])],
    offers: &[Kind::Urgent, Kind::New],
    build: |_| Ok(Box::new(Talker { ack: false })),
    ..Descriptor::EMPTY
};

impl Component for Talker {
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Sent(s) => self.ack &= s.kind != Kind::Urgent,
            Signal::Listen => self.ack = true,
            _ => cx.write(|c: &mut ConnFacts| c.running = true),
        }
    }

    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        (kind == Kind::New || self.ack).then_some(Want::bare(kind))
    }

    fn fill(&mut self, _want: &Want, _out: &mut Out<'_>, _cx: &mut Cx<'_>) {}
}

/// Opens for data at 1 ms.
struct Gate;

static GATE: Descriptor = Descriptor {
    name: "gate",
    role: Role::Gate,
    hooks: &["permit"],
    build: |_| Ok(Box::new(Gate)),
    ..Descriptor::EMPTY
};

impl Component for Gate {
    fn permit(&self, want: &Want, _board: &Board, _now: Time) -> Permit {
        if want.kind.is_data() {
            Permit::at(Time(1_000_000), Limit::Pace)
        } else {
            Permit::OPEN
        }
    }
}

#[test]
fn an_ack_that_leaves_first_does_not_take_the_lateness_of_data() {
    let text = "[protocol.p]\nwire = \"shim\"\nmanager = \"talker\"\ngates = [\"gate\"]\n";
    let registry = Registry::new(&[&TALKER, &GATE]);
    let blueprint = Library::parse(text)
        .unwrap()
        .resolve("p", &registry)
        .unwrap();
    let end = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1);
    let tuple = Tuple {
        proto: 253,
        local: end,
        remote: end,
    };
    let mut conn = blueprint
        .open(tuple, Default::default(), Rng::new(1))
        .unwrap();
    conn.connect(Time(1));
    let (mut head, mut out) = (Head::default(), [0; 1500]);
    assert_eq!(conn.poll_transmit(Time(1), &mut head, &mut out), None);
    assert_eq!(conn.poll_timeout(), Time(1_000_000));
    let late = Time(1_000_300);
    conn.listen(late);
    let mut next = || {
        conn.poll_transmit(late, &mut head, &mut out)
            .and_then(|_| conn.last_sent())
            .map(|s| (s.kind, s.late))
    };
    assert_eq!(next(), Some((Kind::Urgent, Span(0))));
    assert_eq!(next(), Some((Kind::New, Span(300))));
    assert_eq!(next(), Some((Kind::New, Span(0))));
}
