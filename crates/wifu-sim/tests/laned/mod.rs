//! Simulations over a composition with a lane, and what parts of such lanes have in common.
#![allow(dead_code)]

use wifu_engine::board::ConnFacts;
use wifu_engine::component::Cx;
use wifu_engine::{
    Board, Descriptor, Facts, Kind, Library, Out, Params, Payload, Role, Signal, Want, WordSpec,
};
use wifu_node::Registry;
use wifu_sim::mesh::Simulation;
use wifu_sim::scenario::Scenario;
use wifu_wire::{Class, LinkTo, Word};

const MARK: WordSpec = WordSpec::new("mark", 8).by_hops();
const SAYS: WordSpec = WordSpec::new("says", 1).marking(Class::Hop);

/// Parts that hand packets on, and say something of their own when they owe it.
pub const QUEUE: Descriptor = Descriptor {
    role: Role::Reliable,
    words: &[MARK, SAYS, WordSpec::transmitter("transmitter")],
    writes: Facts::TX.with(Facts::CONN),
    hears: &[("segment", &[]), ("wrote", &["opened"])],
    offers: &[Kind::Urgent, Kind::New],
    needs: &[("store", &["packets"])],
    hooks: &["segment"],
    ..Descriptor::EMPTY
};

/// The words of such a part.
#[derive(Clone, Copy)]
pub struct Words {
    pub mark: Word,
    pub says: Word,
}

impl Words {
    pub fn of(p: &Params<'_>) -> Words {
        Words {
            mark: p.word("mark"),
            says: p.word("says"),
        }
    }

    /// What waits first leaves, marked, to whom `to` says.
    pub fn hand_down(self, to: LinkTo, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        if let Some((ticket, number)) = cx.store.pop() {
            out.head.seq = number;
            out.head.set(self.mark, 9);
            out.aside.to = to;
            out.payload = Payload::Packet {
                ticket,
                keep: false,
            };
        }
    }
}

/// A lane's part has nothing to wait for: it is open from the first signal on.
pub fn open(cx: &mut Cx<'_>) {
    if !cx.board.conn.running {
        cx.write(|c: &mut ConnFacts| c.running = true);
        cx.out.emit(Signal::Opened);
    }
}

/// What it wants: to say what it owes, and to hand packets on.
pub fn offer(owes: bool, kind: Kind, board: &Board) -> Option<Want> {
    let (bytes, least) = (1, 1);
    let any = match kind {
        Kind::Urgent => owes,
        _ => board.app.queued > 0,
    };
    any.then_some(Want { kind, bytes, least })
}

/// `tcp-newreno` over a lane of so many packets; `lane` has the rest of its table.
pub fn registry(packets: u64, lane: &str, parts: &[&'static Descriptor]) -> Registry {
    let own = format!(
        "[protocol.laned]\nextends = \"tcp-newreno\"\nprofile = \"wifu-tahoe\"\nnumber = 249\nwire = \"shim\"\n\
         [lane.laned]\nset = {{ packets = {packets} }}\n{lane}\n"
    );
    let own = Library::parse(&own).unwrap_or_else(|e| panic!("{e}"));
    let parts = wifu_parts::registry().with(parts);
    Registry::new(parts, wifu_parts::library().merge(own))
}

/// The scenario of this text.
pub fn simulation(text: &str, registry: &Registry) -> Simulation {
    let scenario = Scenario::from_toml(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Simulation::new(&scenario, registry).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A file of 100 kB over the four nodes of a topology.
pub fn file(words: &str, registry: &Registry) -> Simulation {
    let radios = match words.contains("wire") {
        true => "",
        false => "set = \"TB-W9\"\n[radio]\nattempts = 7\n",
    };
    let text = format!(
        "[topology]\nwords = \"{words}\"\n{radios}[stop]\ntime = \"60s\"\n[[flow]]\n\
         from = \"n1\"\nto = \"n4\"\nprotocol = \"laned\"\napp = \"file\"\nbytes = \"100k\"\n"
    );
    simulation(&text, registry)
}
