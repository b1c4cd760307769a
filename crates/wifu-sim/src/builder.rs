//! How a mock network is described.

use crate::app::App;
use crate::fault::{Impair, Tamper};
use crate::link::LinkSpec;
use crate::mock::Mock;
use crate::packet::{Packet, Side};
use crate::rules::{Fate, Rules};
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_wire::{Rate, Span, Time};

/// Who opens a flow's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// A connects, B listens.
    A,
    /// B connects, A listens.
    B,
    /// Both connect at once.
    Both,
}

/// One connection between the two hosts and the applications at its ends.
#[derive(Clone)]
pub struct Flow {
    pub(crate) blueprints: [Arc<Blueprint>; 2],
    pub(crate) apps: [App; 2],
    pub(crate) open: Open,
    pub(crate) start: Span,
    pub(crate) ports: Option<[u16; 2]>,
    pub(crate) drops: Vec<(Side, u64)>,
}

impl Flow {
    /// A connects to B at once; neither sends anything, both close.
    pub fn new(blueprint: &Arc<Blueprint>) -> Flow {
        Flow {
            blueprints: [Arc::clone(blueprint), Arc::clone(blueprint)],
            apps: [App::send(0), App::receive()],
            open: Open::A,
            start: Span::ZERO,
            ports: None,
            drops: Vec::new(),
        }
    }

    /// `octets` from A to B: the sender closes when all is written, the receiver after it.
    pub fn bulk(blueprint: &Arc<Blueprint>, octets: u64) -> Flow {
        Flow::new(blueprint).a(App::send(octets))
    }

    /// What A's application does.
    pub fn a(mut self, app: App) -> Flow {
        self.apps[0] = app;
        self
    }

    /// What B's application does.
    pub fn b(mut self, app: App) -> Flow {
        self.apps[1] = app;
        self
    }

    /// B's end is made from another blueprint (of the same protocol number).
    pub fn peer(mut self, blueprint: &Arc<Blueprint>) -> Flow {
        self.blueprints[1] = Arc::clone(blueprint);
        self
    }

    /// Who opens; A if not said.
    pub fn open(self, open: Open) -> Flow {
        Flow { open, ..self }
    }

    /// Opens so long after it was added; at the start of the run for those of the builder.
    pub fn after(self, start: Span) -> Flow {
        Flow { start, ..self }
    }

    /// Ports of A and B; by default 10000 + number of the flow at both.
    pub fn ports(self, a: u16, b: u16) -> Flow {
        Flow {
            ports: Some([a, b]),
            ..self
        }
    }

    /// Lose the first transmission of these data segments of A, counted from 0.
    pub fn drop_data(self, indices: &[u64]) -> Flow {
        self.drop_data_of(Side::A, indices)
    }

    /// Lose the first transmission of these data segments of `side`, counted from 0.
    pub fn drop_data_of(mut self, side: Side, indices: &[u64]) -> Flow {
        self.drops.extend(indices.iter().map(|i| (side, *i)));
        self
    }
}

/// Describes a [`Mock`]: by default 100 Mb/s and 0.1 ms on the access link, 10 Mb/s, 10 ms and a
/// queue of 100 packets on the bottleneck.
pub struct MockBuilder {
    pub(crate) seed: u64,
    pub(crate) mtu: u32,
    pub(crate) start: Time,
    pub(crate) path: Vec<LinkSpec>,
    pub(crate) impair: [Impair; 2],
    pub(crate) rules: Rules,
    pub(crate) tamper: Option<Tamper>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) record: bool,
    pub(crate) capture: Vec<Side>,
}

impl Default for MockBuilder {
    fn default() -> MockBuilder {
        let access = LinkSpec::new(Rate(100_000_000), Span::MICRO * 100);
        let bottleneck = LinkSpec::new(Rate(10_000_000), Span::MILLI * 10).queue(100);
        MockBuilder {
            seed: 1,
            mtu: 1500,
            start: Time::ZERO,
            path: vec![access, bottleneck],
            impair: [Impair::default(); 2],
            rules: Rules::default(),
            tamper: None,
            flows: Vec::new(),
            record: false,
            capture: Vec::new(),
        }
    }
}

impl MockBuilder {
    /// The default network.
    pub fn new() -> MockBuilder {
        MockBuilder::default()
    }

    /// Decides everything random: losses, initial sequence numbers, ties.
    pub fn seed(self, seed: u64) -> MockBuilder {
        MockBuilder { seed, ..self }
    }

    /// The link between A and the router. Its queue is the router's, towards A; A's own packets
    /// wait in A.
    pub fn access(mut self, link: LinkSpec) -> MockBuilder {
        self.path[0] = link;
        self
    }

    /// The link between the router and B. Its queue is the router's, towards B; B's own packets
    /// wait in B. This is where faults happen.
    pub fn bottleneck(mut self, link: LinkSpec) -> MockBuilder {
        if let Some(last) = self.path.last_mut() {
            *last = link;
        }
        self
    }

    /// All links from A to B, with a router between each two; the last one is the bottleneck.
    ///
    /// # Panics
    /// If there are none.
    pub fn path(self, path: &[LinkSpec]) -> MockBuilder {
        assert!(!path.is_empty(), "a path has at least one link");
        MockBuilder {
            path: path.to_vec(),
            ..self
        }
    }

    /// Largest IP packet, octets.
    pub fn mtu(self, mtu: u32) -> MockBuilder {
        MockBuilder { mtu, ..self }
    }

    /// Begin at this time: near 2^32 us, timestamps soon wrap around.
    pub fn start(self, start: Time) -> MockBuilder {
        MockBuilder { start, ..self }
    }

    /// Random faults of the packets that `from` sends.
    pub fn impair(mut self, from: Side, impair: Impair) -> MockBuilder {
        self.impair[from.index()] = impair;
        self
    }

    /// Rules of a rule file.
    pub fn rules(self, rules: Rules) -> MockBuilder {
        MockBuilder { rules, ..self }
    }

    /// Ask this about every packet.
    pub fn tamper(self, tamper: impl FnMut(Time, &mut Packet) -> Fate + 'static) -> MockBuilder {
        MockBuilder {
            tamper: Some(Box::new(tamper)),
            ..self
        }
    }

    /// Add a flow. They are numbered from 0.
    pub fn flow(mut self, flow: Flow) -> MockBuilder {
        self.flows.push(flow);
        self
    }

    /// Keep rows for [`crate::record::csv`].
    pub fn record(self, record: bool) -> MockBuilder {
        MockBuilder { record, ..self }
    }

    /// Keep a capture of the packets that pass the interfaces of these ends.
    pub fn capture(self, ends: &[Side]) -> MockBuilder {
        MockBuilder {
            capture: ends.to_vec(),
            ..self
        }
    }

    /// The network, at its start.
    pub fn build(self) -> Mock {
        Mock::new(self)
    }
}
