//! By which link a packet leaves a node: the table, what the topology or the user lays down beside
//! it, and by which links each node's own connections leave.

use crate::routing::{Link, Via};
use crate::tables::{Fixed, Tables};

/// All routes of the network.
pub(crate) struct Routes {
    tables: Tables,
    /// Per node, whom its connections are with.
    peers: Vec<Vec<u16>>,
    /// Per node, the links by which its connections' packets leave, each once.
    ways: Vec<Vec<Via>>,
}

impl Routes {
    /// Nothing is reachable yet. Packets go between the `ends` of flows; those of connections, of
    /// which the link at either end has a say in when they are sent, are marked.
    pub(crate) fn new(nodes: usize, ends: &[(u16, u16, bool)], fixed: Fixed) -> Routes {
        let to: Vec<u16> = ends.iter().flat_map(|(a, b, _)| [*a, *b]).collect();
        let mut peers = vec![Vec::new(); nodes];
        for &(a, b, _) in ends.iter().filter(|e| e.2) {
            peers[usize::from(a)].push(b);
            peers[usize::from(b)].push(a);
        }
        Routes {
            tables: Tables::new(nodes, &to, fixed),
            peers,
            ways: vec![Vec::new(); nodes],
        }
    }

    /// Connections between these two ends leave a node between them in their name.
    pub(crate) fn between(&mut self, node: u16, ends: [u16; 2]) {
        let peers = &mut self.peers[usize::from(node)];
        for end in ends.into_iter().filter(|end| *end != node) {
            if !peers.contains(&end) {
                peers.push(end);
            }
        }
    }

    /// Routes over these links, which are all there are.
    pub(crate) fn lay(&mut self, links: &[Link]) {
        self.tables.lay(links);
        for (node, (ways, peers)) in self.ways.iter_mut().zip(&self.peers).enumerate() {
            ways.clear();
            ways.extend(
                peers
                    .iter()
                    .map(|to| match self.tables.via(node as u16, *to) {
                        // One radio, whoever the neighbour.
                        Via::Radio(_) => Via::Radio(0),
                        via => via,
                    }),
            );
            ways.sort_unstable();
            ways.dedup();
        }
    }

    /// Whom a node's connections are with.
    pub(crate) fn peers(&self, node: u16) -> &[u16] {
        &self.peers[usize::from(node)]
    }

    /// By which link a packet to `to` leaves `from`.
    pub(crate) fn via(&self, from: u16, to: u16) -> Via {
        self.tables.via(from, to)
    }

    /// The links by which the packets of the node's connections leave.
    pub(crate) fn ways(&self, node: u16) -> &[Via] {
        &self.ways[usize::from(node)]
    }

    /// The nodes from `from` to `to`, both included; empty if there is no route. `leads` says where
    /// a direction of a wire leads.
    pub(crate) fn path(&self, from: u16, to: u16, leads: impl Fn(u32) -> u16) -> Vec<u16> {
        let hops = self.tables.walk(from, to, leads);
        let path: Option<Vec<u16>> = core::iter::once(Some(from)).chain(hops).collect();
        path.unwrap_or_default()
    }

    /// Hops from `from` to `to`; `None` if there is no route.
    pub(crate) fn hops(&self, from: u16, to: u16, leads: impl Fn(u32) -> u16) -> Option<usize> {
        let mut hops = self.tables.walk(from, to, leads);
        hops.try_fold(0, |n, hop| hop.map(|_| n + 1))
    }
}
