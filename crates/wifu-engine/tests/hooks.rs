//! A hook that a part overrides and its descriptor does not declare would never run: no blueprint
//! is made of such a part.

use wifu_engine::component::Cx;
use wifu_engine::kit::{WindowControl, Windowed};
use wifu_engine::signal::{Acked, Congested, RttSample};
use wifu_engine::{
    Bench, Board, Component, Descriptor, Facts, Kind, Library, Limit, Out, Permit, Registry, Role,
    Segment, Want,
};
use wifu_wire::{FrameFacts, Head, Time};

/// What is wrong with a composition of a talker and `part`.
fn refusal(part: &'static Descriptor) -> String {
    let role = part.role.key();
    let text = format!(
        "[protocol.p]\nwire = \"shim\"\nmanager = \"talker\"\n{role} = [\"{}\"]\n",
        part.name
    );
    let library = Library::parse(&text).unwrap();
    let found = library.resolve("p", &Registry::new(&[&TALKER, part]));
    found.err().map(|e| e.to_string()).unwrap_or_default()
}

static TALKER: Descriptor = Descriptor {
    name: "talker",
    role: Role::Manager,
    offers: &[Kind::New],
    build: |_| Ok(Box::new(Talker)),
    ..Descriptor::EMPTY
};

struct Talker;

impl Component for Talker {
    fn offer(&self, kind: Kind, _board: &Board, _now: Time) -> Option<Want> {
        Some(Want::bare(kind))
    }

    fn fill(&mut self, _want: &Want, _out: &mut Out<'_>, _cx: &mut Cx<'_>) {}
}

/// A window that learns from round trips.
struct Vegas;

impl WindowControl for Vegas {
    fn window(&self) -> (u32, u32) {
        (1000, 1000)
    }
    fn on_opened(&mut self, _board: &Board, _now: Time) {}
    fn on_acked(&mut self, _acked: &Acked, _board: &Board, _now: Time) {}
    fn on_congested(&mut self, _what: &Congested, _board: &Board, _now: Time) {}
    fn on_rtt(&mut self, _sample: &RttSample, _board: &Board, _now: Time) {}
    fn on_dup_ack(&mut self, _board: &Board, _now: Time) {}
}

const WINDOW: Descriptor = Descriptor {
    name: "vegas",
    role: Role::Congestion,
    writes: Facts::WIN,
    hooks: &["permit"],
    build: |_| Ok(Box::new(Windowed(Vegas))),
    ..Descriptor::EMPTY
};

#[test]
fn a_method_of_a_window_whose_signal_is_not_heard_is_refused() {
    static DEAF: Descriptor = Descriptor {
        hears: &[("?opened", &[]), ("?acked", &[]), ("?congested", &[])],
        ..WINDOW
    };
    static HEARING: Descriptor = Descriptor {
        hears: &[
            ("?opened", &[]),
            ("?acked", &[]),
            ("?congested", &[]),
            ("?rtt", &[]),
            ("?dup-ack", &[]),
        ],
        ..WINDOW
    };
    assert_eq!(
        refusal(&DEAF),
        "p.congestion: vegas overrides on_rtt, but its descriptor does not hear \"rtt\": add \
         (\"rtt\", &[]) to hears\n\
         p.congestion: vegas overrides on_dup_ack, but its descriptor does not hear \"dup-ack\": \
         add (\"dup-ack\", &[]) to hears"
    );
    assert_eq!(refusal(&HEARING), "");
}

/// Listens to frames for others.
struct Spy;

impl Component for Spy {
    fn on_overheard(&mut self, _seg: &Segment<'_>, cx: &mut Cx<'_>) {
        cx.write(|path: &mut wifu_engine::board::PathFacts| path.hops = None);
    }
}

struct Shutter;

impl Component for Shutter {
    fn permit(&self, _want: &Want, _board: &Board, _now: Time) -> Permit {
        Permit::shut(Limit::Pace)
    }

    fn on_timer(&mut self, _timer: u8, _cx: &mut Cx<'_>) {}
}

#[test]
fn a_hook_of_a_component_that_is_not_declared_is_refused() {
    static SPY: Descriptor = Descriptor {
        name: "spy",
        role: Role::Watch,
        build: |_| Ok(Box::new(Spy)),
        ..Descriptor::EMPTY
    };
    static SHUTTER: Descriptor = Descriptor {
        name: "shutter",
        role: Role::Gate,
        build: |_| Ok(Box::new(Shutter)),
        ..Descriptor::EMPTY
    };
    assert_eq!(
        refusal(&SPY),
        "p.watch: spy overrides on_overheard, but its descriptor does not declare it: add \
         \"overheard\" to hooks"
    );
    assert_eq!(
        refusal(&SHUTTER),
        "p.gates: shutter overrides on_timer, but its descriptor does not hear \"timer\": add \
         (\"timer\", &[]) to hears\n\
         p.gates: shutter overrides permit, but its descriptor does not declare it: add \
         \"permit\" to hooks"
    );
}

#[test]
#[should_panic(
    expected = "spy wrote `path`, but its descriptor does not declare it: add it to writes"
)]
fn a_part_that_writes_what_it_does_not_declare_is_named() {
    static SPY: Descriptor = Descriptor {
        name: "spy",
        role: Role::Watch,
        hooks: &["overheard"],
        build: |_| Ok(Box::new(Spy)),
        ..Descriptor::EMPTY
    };
    let mut spy = Bench::new(&SPY, &[]).expect("a part");
    spy.overheard(&Head::default(), &FrameFacts::default());
}
