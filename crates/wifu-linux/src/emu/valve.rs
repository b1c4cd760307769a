//! Push-back: a kernel hands down no more than its driver's ring takes, and what does not fit
//! waits in its queueing discipline, where sockets notice.
//!
//! A TAP takes every packet, and drops what its ring cannot hold. So in front of it sits `tbf`
//! with next to no rate: what passes is its bucket, which the kernel fills whenever the discipline
//! is changed, to a depth that each change names. Every frame weighs [`WEIGHT`] octets there, so
//! that a change grants frames. Behind it `htb`, without classes, is the queue of the model.
//!
//! A change does not make the kernel look into the queue; sending does. So a frame follows that
//! the queue takes and destroys: it is no drop, and no packet socket sees it.

use super::credit::Credit;
use super::net::DEVICE;
use crate::netlink::{Attributes, NLM_F_ACK, Netlink, attribute};
use crate::netns::Namespace;
use crate::poller::Waker;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Numbers of our disciplines: "WF", and the one below it.
const MAJOR: u16 = 0x5746;
const BELOW: u16 = 0x5747;
/// What each frame weighs, octets: more than any has.
const WEIGHT: u32 = 2048;
/// Octets per second: a frame in 20 s, so that nothing stands still for ever.
const RATE: u32 = 100;
/// Frames that a TAP holds for each one that its driver's ring does. Far more than are granted, for
/// a super-packet weighs less than its segments.
const SPARE: u32 = 32;
/// Between two looks at the queues.
const ROUND: Duration = Duration::from_millis(200);

/// Of the frame that makes the kernel look: to a node that is none, by a protocol for experiments.
const UNUSED_ADDRESS: [u8; 6] = [0x02, 0x57, 0x69, 0x46, 0, 0];
const ETHERTYPE: u16 = 0x88B5;
/// Classic BPF for `cls_bpf`: frames to [`UNUSED_ADDRESS`] are stolen (`TC_ACT_STOLEN`, 4), others
/// are none of its business (-1).
const STEAL: &str = "6,32 0 0 0,21 0 3 39283014,40 0 0 4,21 0 1 0,6 0 0 4,6 0 0 4294967295";

/// linux/rtnetlink.h, linux/pkt_sched.h and their like; the names are the kernel's.
const NLM_F_ECHO: u16 = 8;
const RTM_SETLINK: u16 = 19;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const IFLA_TXQLEN: u16 = 13;
/// Octets of a netlink message before its attributes, with a `tcmsg`.
const HEAD: usize = 16 + 20;

/// What `tc` has to do in the namespace of a node whose queue takes so many packets.
pub(crate) fn steps(queue: u32) -> [String; 3] {
    let bits = RATE * 8;
    [
        format!(
            "qdisc add dev {DEVICE} root handle {MAJOR:x}: tbf rate {bits}bit burst {WEIGHT} \
             limit {WEIGHT} mpu {WEIGHT}"
        ),
        format!(
            "qdisc add dev {DEVICE} parent {MAJOR:x}:1 handle {BELOW:x}: htb default 0 \
             direct_qlen {queue}"
        ),
        format!(
            "filter add dev {DEVICE} parent {BELOW:x}: protocol {ETHERTYPE:#x} pref 1 bpf da \
             bytecode '{STEAL}'"
        ),
    ]
}

/// What undoes them, or as many as were done.
pub(crate) fn undo() -> String {
    format!("qdisc del dev {DEVICE} root")
}

/// How many frames the TAP of a driver with such a ring holds, so that it never drops any.
pub(crate) fn tap_length(ring: u32) -> u32 {
    ring.saturating_mul(SPARE).clamp(1000, 50_000)
}

/// What is known of all nodes' valves, by whichever thread.
#[derive(Debug)]
pub(crate) struct PushBackState {
    nodes: Vec<Node>,
    /// Some node's queue stands still.
    stuck: AtomicBool,
    /// Why there are none.
    pub none: Option<String>,
}

#[derive(Debug)]
struct Node {
    /// Grants have an effect on this queue.
    works: AtomicBool,
    /// Packets wait in spite of what was granted.
    stuck: AtomicBool,
    /// Packets that found its queue full.
    dropped: AtomicU64,
}

impl PushBackState {
    /// Of so many nodes; `none` says why these have no valves.
    pub fn new(nodes: usize, none: Option<String>) -> PushBackState {
        let node = |_| Node {
            works: AtomicBool::new(none.is_none()),
            stuck: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        };
        PushBackState {
            nodes: (0..nodes).map(node).collect(),
            stuck: AtomicBool::new(false),
            none,
        }
    }

    /// Nodes that push back.
    pub fn working(&self) -> usize {
        let works = |n: &&Node| n.works.load(Ordering::Relaxed);
        self.nodes.iter().filter(works).count()
    }

    /// Packets that found the queue of a node full.
    pub fn dropped(&self, node: usize) -> u64 {
        self.nodes[node].dropped.load(Ordering::Relaxed)
    }

    /// The same of all nodes.
    pub fn all_dropped(&self) -> u64 {
        (0..self.nodes.len()).map(|n| self.dropped(n)).sum()
    }
}

/// So many frames for a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    node: u16,
    frames: u32,
}

/// The radio's side: what each kernel may hand down.
pub(crate) struct Credits {
    /// Empty if there are no valves.
    nodes: Vec<Credit>,
    grants: Sender<Grant>,
    pub told: Arc<PushBackState>,
}

impl Credits {
    /// For drivers with rings of these sizes.
    pub fn new(rings: &[u32], grants: Sender<Grant>, told: Arc<PushBackState>) -> Credits {
        let rings = if told.none.is_some() { &[] } else { rings };
        Credits {
            nodes: rings.iter().map(|r| Credit::new(*r)).collect(),
            grants,
            told,
        }
    }

    /// A kernel handed a frame down.
    pub fn spend(&mut self, node: usize) {
        if let Some(credit) = self.nodes.get_mut(node) {
            credit.spend();
        }
    }

    /// With so many frames in its driver's ring, grant a kernel more if it is time, and if `empty`
    /// says that what it handed down before was read.
    pub fn renew(&mut self, node: u16, waiting: u32, empty: impl FnOnce() -> bool) {
        let credit = self.nodes.get_mut(usize::from(node));
        if let Some(frames) = credit.and_then(|c| c.due(waiting, empty)) {
            // Nobody is there to hear it when all ends.
            let _ = self.grants.send(Grant { node, frames });
        }
    }

    /// What a kernel was granted may be gone.
    pub fn forget(&mut self, node: usize) {
        if let Some(credit) = self.nodes.get_mut(node) {
            credit.forget();
        }
    }

    /// Forget what was granted to kernels whose queues stand still; says whether there are any.
    pub fn forget_stuck(&mut self) -> bool {
        if !self.told.stuck.swap(false, Ordering::Relaxed) {
            return false;
        }
        for (credit, node) in self.nodes.iter_mut().zip(&self.told.nodes) {
            if node.stuck.swap(false, Ordering::Relaxed) {
                credit.forget();
            }
        }
        true
    }
}

/// What a queue says of itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Queue {
    /// Packets that left it.
    passed: u32,
    waiting: u32,
    dropped: u32,
}

/// A node's valve, from inside its namespace.
struct Valve {
    netlink: Netlink,
    probe: OwnedFd,
    interface: i32,
    /// The length of the node's queue.
    queue: u32,
    lost: bool,
    seen: Queue,
    granted: bool,
}

impl Valve {
    fn open(namespace: &Namespace, queue: u32) -> io::Result<Valve> {
        let inside = || -> io::Result<Valve> {
            let netlink = Netlink::route()?;
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let probe = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            let interface = netlink.index(DEVICE)?;
            sys::bind_link(&probe, 0, interface)?;
            Ok(Valve {
                netlink,
                probe,
                interface,
                queue,
                lost: false,
                seen: Queue::default(),
                granted: false,
            })
        };
        namespace.run(inside).flatten()
    }

    /// Let so many frames pass from now on, in place of what was left.
    fn grant(&mut self, frames: u32) -> io::Result<()> {
        let mut body = tcmsg(self.interface);
        attribute(&mut body, TCA_KIND, b"tbf\0");
        let burst = frames.saturating_mul(WEIGHT);
        // struct tc_tbf_qopt: rate, peak rate, then limit, depth and mtu, which others tell.
        let mut parms = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0];
        parms.extend((WEIGHT as u16).to_ne_bytes());
        parms.extend(RATE.to_ne_bytes());
        parms.resize(36, 0);
        let mut options = Vec::with_capacity(64);
        attribute(&mut options, TCA_TBF_PARMS, &parms);
        attribute(&mut options, TCA_TBF_BURST, &burst.to_ne_bytes());
        attribute(&mut body, TCA_OPTIONS, &options);
        self.netlink
            .ask(RTM_NEWQDISC, NLM_F_ACK, &body, &mut [0; 256])?;
        self.granted = true;
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&UNUSED_ADDRESS);
        frame[6..12].copy_from_slice(&UNUSED_ADDRESS);
        frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
        let probe = || rustix::net::send(&self.probe, &frame, SendFlags::empty());
        // Once an interface was down, the next to send is told so; it stays silent while it is.
        if probe().is_err() {
            let _ = probe();
        }
        Ok(())
    }

    fn look(&mut self) -> io::Result<Queue> {
        let mut reply = [0; 2048];
        let body = tcmsg(self.interface);
        // Without the flag only those who watch all changes are answered.
        let n = self
            .netlink
            .ask(RTM_GETQDISC, NLM_F_ECHO, &body, &mut reply)?;
        queue(reply.get(HEAD..n).unwrap_or_default()).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// The device becomes what it is without a valve: its own ring is the queue.
    fn leave(&mut self) -> io::Result<()> {
        // struct ifinfomsg: family, type, index, flags, change.
        let mut body = vec![0; 4];
        body.extend(self.interface.to_ne_bytes());
        body.extend([0; 8]);
        attribute(&mut body, IFLA_TXQLEN, &self.queue.to_ne_bytes());
        self.netlink
            .ask(RTM_SETLINK, NLM_F_ACK, &body, &mut [0; 256])?;
        Ok(())
    }
}

/// `struct tcmsg` of our discipline: family, padding, index, handle, parent, info.
fn tcmsg(interface: i32) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    body.extend([0; 4]);
    body.extend(interface.to_ne_bytes());
    body.extend((u32::from(MAJOR) << 16).to_ne_bytes());
    body.extend(TC_H_ROOT.to_ne_bytes());
    body.extend([0; 4]);
    body
}

/// From the attributes of a discipline.
fn queue(attributes: &[u8]) -> Option<Queue> {
    let find = |within, wanted| Attributes(within).find(|(kind, _)| *kind == wanted);
    let word =
        |of: &[u8], at: usize| Some(u32::from_ne_bytes(of.get(at..at + 4)?.try_into().ok()?));
    let (_, stats) = find(attributes, TCA_STATS2)?;
    // struct gnet_stats_basic: octets, packets; struct gnet_stats_queue: packets, octets, drops.
    let (_, basic) = find(stats, TCA_STATS_BASIC)?;
    let (_, queue) = find(stats, TCA_STATS_QUEUE)?;
    Some(Queue {
        passed: word(basic, 8)?,
        waiting: word(queue, 0)?,
        dropped: word(queue, 8)?,
    })
}

/// The valves' own thread: the kernel's lock for such changes is held for long at times, and the
/// radio's thread must not wait for it.
pub(crate) struct Valves {
    list: Vec<Valve>,
    grants: Receiver<Grant>,
    told: Arc<PushBackState>,
}

impl Valves {
    /// Those of hosts with queues of these lengths.
    pub fn open<'a>(
        hosts: impl Iterator<Item = (&'a Namespace, u32)>,
        grants: Receiver<Grant>,
        told: Arc<PushBackState>,
    ) -> io::Result<Valves> {
        let list = match told.none {
            Some(_) => Vec::new(),
            None => hosts
                .map(|(n, queue)| Valve::open(n, queue))
                .collect::<io::Result<_>>()?,
        };
        Ok(Valves { list, grants, told })
    }

    /// Until the radio ends; `waker` wakes it.
    pub fn run(mut self, waker: &Waker) {
        if let Err(e) = sys::set_urgent() {
            tracing::debug!("valves are not urgent: {e}");
        }
        let mut next = Instant::now() + ROUND;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            match self.grants.recv_timeout(left) {
                Ok(grant) => self.grant(grant),
                Err(RecvTimeoutError::Timeout) => {
                    self.look(waker);
                    next = Instant::now() + ROUND;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn grant(&mut self, grant: Grant) {
        let node = usize::from(grant.node);
        let Some(valve) = self.list.get_mut(node).filter(|v| !v.lost) else {
            return;
        };
        if let Err(e) = valve.grant(grant.frames) {
            self.failed(node, &e);
        }
    }

    /// How full queues are, what they dropped, and whether one stands still.
    fn look(&mut self, waker: &Waker) {
        let mut stuck = false;
        for node in 0..self.list.len() {
            while let Ok(grant) = self.grants.try_recv() {
                self.grant(grant);
            }
            let (valve, told) = (&mut self.list[node], &self.told.nodes[node]);
            if valve.lost {
                continue;
            }
            match valve.look() {
                Ok(now) => {
                    let then = core::mem::replace(&mut valve.seen, now);
                    let granted = core::mem::take(&mut valve.granted);
                    let more = now.dropped.wrapping_sub(then.dropped);
                    told.dropped.fetch_add(u64::from(more), Ordering::Relaxed);
                    if now.waiting > 0 && now.passed == then.passed && !granted {
                        told.stuck.store(true, Ordering::Relaxed);
                        stuck = true;
                    }
                }
                Err(e) => self.failed(node, &e),
            }
        }
        if stuck {
            self.told.stuck.store(true, Ordering::Relaxed);
            waker.wake();
        }
    }

    /// The kernel did not do what it was asked: somebody else's discipline is there now, unless
    /// it is short of something.
    fn failed(&mut self, node: usize, error: &io::Error) {
        let transient = [libc::ENOMEM, libc::ENOBUFS, libc::EINTR, libc::EAGAIN];
        if error.raw_os_error().is_some_and(|e| transient.contains(&e)) {
            return;
        }
        tracing::debug!(node, "without push-back from now on: {error}");
        let valve = &mut self.list[node];
        valve.lost = true;
        self.told.nodes[node].works.store(false, Ordering::Relaxed);
        // It fails if the device is gone, too.
        let _ = valve.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disciplines_counts_are_found() {
        let (mut basic, mut counts) = (vec![0; 8], Vec::new());
        basic.extend(7u32.to_ne_bytes());
        basic.extend([0; 4]);
        for n in [3u32, 4500, 11, 0, 0] {
            counts.extend(n.to_ne_bytes());
        }
        let (mut stats, mut all) = (Vec::new(), Vec::new());
        attribute(&mut stats, TCA_STATS_BASIC, &basic);
        attribute(&mut stats, TCA_STATS_QUEUE, &counts);
        attribute(&mut all, TCA_KIND, b"tbf\0");
        attribute(&mut all, TCA_STATS2, &stats);
        let expected = Queue {
            passed: 7,
            waiting: 3,
            dropped: 11,
        };
        assert_eq!(queue(&all), Some(expected));
        assert_eq!(queue(&all[..8]), None);
        assert_eq!(tcmsg(1).len() + 16, HEAD);
    }

    #[test]
    fn the_probe_is_the_frame_that_is_stolen() {
        let start = u32::from_be_bytes([
            UNUSED_ADDRESS[0],
            UNUSED_ADDRESS[1],
            UNUSED_ADDRESS[2],
            UNUSED_ADDRESS[3],
        ]);
        assert!(STEAL.contains(&format!("21 0 3 {start},")), "{start}");
        assert_eq!(super::super::net::node_of(&UNUSED_ADDRESS, 1000), None);
    }
}
