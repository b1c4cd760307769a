//! The hosts of an emulation: a namespace each, with a TAP device as its radio.

use super::routes::Routing;
use super::valve;
use crate::netns::{Lab, Namespace};
use crate::steps::StepError;
use core::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wifu_radio::plan::{NodePlan, Plan};

/// The name of every host's radio.
pub const DEVICE: &str = "wlan0";
/// The name of every host's monitor, on which frames have radiotap headers.
pub const MONITOR: &str = "mon0";

/// First octets of the radios' addresses: locally administered, "WiF".
const MAC: [u8; 4] = [0x02, 0x57, 0x69, 0x46];

/// A node as a host: a network namespace with the device of its radio.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name in the topology.
    pub name: String,
    /// The network namespace that is this host.
    pub namespace: Namespace,
    /// IPv4 address of its radio's device.
    pub address: Ipv4Addr,
}

/// The radio address of node number `node` (from 0).
pub fn mac(node: u16) -> [u8; 6] {
    let [hi, lo] = (node + 1).to_be_bytes();
    [MAC[0], MAC[1], MAC[2], MAC[3], hi, lo]
}

/// Which of `count` nodes has a radio address.
pub(crate) fn node_of(mac: &[u8], count: u16) -> Option<u16> {
    let number = u16::from_be_bytes([*mac.get(4)?, *mac.get(5)?]);
    (mac[..4] == MAC && (1..=count).contains(&number)).then(|| number - 1)
}

/// The address of node number `node` (from 0).
pub fn address(node: u16) -> Ipv4Addr {
    let [hi, lo] = (node + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, hi, lo)
}

fn prefix(count: usize) -> u8 {
    if count <= 254 { 24 } else { 16 }
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// The descriptors of all hosts' devices; there are none in a dry run.
#[derive(Debug, Default)]
pub struct Devices {
    /// One TAP device for each host, in order: what its kernel sends comes out here.
    pub radios: Vec<OwnedFd>,
    /// One TAP device for each host that shows frames as a monitor interface does.
    pub monitors: Vec<OwnedFd>,
}

/// What the kernels of all hosts are told, so that one of them can be told again.
#[derive(Debug)]
pub(crate) struct Network {
    /// The length of each node's queue and of its driver's ring, packets.
    queues: Vec<(u32, u32)>,
    /// Queues stop while rings are full.
    push_back: bool,
    /// As they are now.
    routing: Mutex<Routing>,
    /// Says whose links these are, for `wifu clean`.
    tag: String,
}

pub(crate) struct Built {
    pub hosts: Vec<Host>,
    pub devices: Devices,
    pub network: Network,
    /// Why queues do not push back.
    pub no_push_back: Option<String>,
}

/// Make all hosts in `lab`.
///
/// # Errors
/// The step that failed.
pub(crate) fn build(
    lab: &mut Lab,
    plan: &Plan,
    routing: &Routing,
    push_back: bool,
) -> Result<Built, StepError> {
    let mut network = Network::new(lab, plan, routing);
    network.push_back = push_back;
    let mut no_push_back = (!push_back).then(|| String::from("it is off"));
    let count = plan.nodes.len();
    let mut hosts = Vec::with_capacity(count);
    let mut devices = Devices::default();
    for (i, node) in plan.nodes.iter().enumerate() {
        let namespace = lab.node(&node.name)?;
        lab.settings(
            &node.name,
            &[
                ("net/ipv4/ip_forward", "1"),
                ("net/ipv4/conf/all/rp_filter", "0"),
                ("net/ipv4/conf/default/rp_filter", "0"),
                ("net/ipv4/conf/all/send_redirects", "0"),
                ("net/ipv4/conf/default/send_redirects", "0"),
                // The one that each kernel has, whatever the machine's is. A socket that is opened
                // with BBR is paced ever after, also where the program chooses another when it has
                // connected, as iperf3 does.
                ("net/ipv4/tcp_congestion_control", "reno"),
            ],
        )?;
        devices.radios.extend(lab.tap(&node.name, DEVICE)?);
        if network.push_back
            && let Err(error) = lab.tc(&node.name, &valve::steps(node.radio.queue))
        {
            if i > 0 {
                return Err(error);
            }
            // A part of it would hold packets back for ever; there may be nothing to undo.
            let _ = lab.tc(&node.name, &[valve::undo()]);
            tracing::warn!("queues will drop instead of pushing back: {error}");
            no_push_back = Some(error.to_string());
            network.push_back = false;
        }
        let monitor = lab.monitor(&node.name, MONITOR)?;
        devices.monitors.extend(monitor);
        lab.ip(&node.name, &network.up(i as u16, routing))?;
        hosts.push(Host {
            name: node.name.clone(),
            namespace,
            address: address(i as u16),
        });
    }
    Ok(Built {
        hosts,
        devices,
        network,
        no_push_back,
    })
}

impl Network {
    fn new(lab: &Lab, plan: &Plan, routing: &Routing) -> Network {
        let queue = |n: &NodePlan| (n.radio.queue, n.radio.ring);
        Network {
            queues: plan.nodes.iter().map(queue).collect(),
            push_back: false,
            routing: Mutex::new(routing.clone()),
            tag: lab.tag(),
        }
    }

    /// The routes now. Nobody changes them meanwhile.
    pub fn routing(&self) -> MutexGuard<'_, Routing> {
        self.routing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `ip` has to do in the namespace of a node, be it new or taken down, so that its kernel
    /// has these routes.
    pub fn up(&self, node: u16, routing: &Routing) -> Vec<String> {
        let count = self.queues.len();
        let (queue, ring) = self.queues[usize::from(node)];
        let length = match self.push_back {
            // Super-packets would be one in the queue and many in the ring.
            true => format!("{} gso_max_segs 1", valve::tap_length(ring)),
            // The TAP's own ring is the queue in front of the driver; it drops what does not fit.
            false => queue.to_string(),
        };
        // Routing daemons of meshes speak IPv6; without one, nobody here does, and router
        // solicitations would only take airtime.
        let v6 = match routing {
            Routing::None => "eui64",
            Routing::Via(_) => "none",
        };
        let mut lines = vec![
            // By itself: together with `up` it would come too late.
            format!("link set dev {DEVICE} addrgenmode {v6}"),
            format!(
                "link set dev {DEVICE} address {} alias {} txqueuelen {length} mtu 1500 up",
                text(mac(node)),
                self.tag
            ),
            format!(
                "addr replace {}/{} dev {DEVICE}",
                address(node),
                prefix(count)
            ),
        ];
        let others = || (0..count as u16).filter(move |o| *o != node);
        lines.extend(others().map(|other| {
            let (ip, mac) = (address(other), text(mac(other)));
            format!("neigh replace {ip} lladdr {mac} dev {DEVICE} nud permanent")
        }));
        lines.push(format!("link set dev {MONITOR} addrgenmode none"));
        lines.push(format!("link set dev {MONITOR} alias {} up", self.tag));
        if let Routing::Via(next) = routing {
            lines.extend(others().filter_map(|other| {
                let to = address(other);
                match next[usize::from(node)][usize::from(other)] {
                    Some(via) if via == other => None,
                    Some(via) => Some(format!(
                        "route replace {to}/32 via {} dev {DEVICE}",
                        address(via)
                    )),
                    None => Some(format!("route replace unreachable {to}/32")),
                }
            }));
        }
        lines
    }

    /// What takes a node down: addresses, neighbours and routes through its radio go.
    pub fn down() -> [String; 3] {
        [
            format!("link set dev {DEVICE} down"),
            format!("link set dev {MONITOR} down"),
            format!("addr flush dev {DEVICE}"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_their_nodes() {
        assert_eq!(text(mac(2)), "02:57:69:46:00:03");
        assert_eq!(node_of(&mac(2), 3), Some(2));
        assert_eq!(node_of(&mac(3), 3), None);
        assert_eq!(node_of(&[0xFF; 6], 3), None);
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(node_of(&mac(299), 400), Some(299));
        assert_eq!((address(299).octets(), prefix(300)), ([10, 0, 1, 44], 16));
    }
}
