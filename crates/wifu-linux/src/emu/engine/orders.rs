//! What somebody orders or asks of the radio, and the answers.

use super::Engine;
use crate::emu::control::{LinkRow, NodeRow, Order, Reply, Status};
use crate::emu::net::Host;
use crate::emu::verdict::{self, Measured, Verdict, judge};
use crate::poller::Poller;
use core::sync::atomic::Ordering;

impl Engine {
    pub(super) fn obey(&mut self, order: Order) -> Reply {
        self.catch_up();
        if let Order::Switch(node, on) = order {
            self.switch(node, on);
            return Reply::Done(Ok(String::new()));
        }
        let (air, radio) = (&mut self.air, &mut self.radio);
        let name = |n: u16| self.hosts[usize::from(n)].name.as_str();
        let text = match order {
            Order::Snr(a, b, db) => {
                air.set_snr(radio, a, b, db);
                format!("{} to {}: {db:.1} dB", name(a), name(b))
            }
            Order::Move(n, to) => match air.set_position(radio, n, to) {
                Ok(()) => format!(
                    "{} is at {:.1}, {:.1}, {:.1} m",
                    name(n),
                    to[0],
                    to[1],
                    to[2]
                ),
                Err(error) => return Reply::Done(Err(error.into())),
            },
            Order::Pause(n) => {
                air.set_paused(radio, n, true);
                format!("{} neither sends nor hears", name(n))
            }
            Order::Resume(n) => {
                air.set_paused(radio, n, false);
                format!("{} sends and hears", name(n))
            }
            Order::Cut(a, b) => {
                air.set_cut(radio, a, b, true);
                format!(
                    "nothing passes directly between {} and {}",
                    name(a),
                    name(b)
                )
            }
            Order::Restore(Some((a, b))) => {
                let are = match air.set_cut(radio, a, b, false) {
                    true => "are no longer cut off",
                    false => "were not cut off from each other",
                };
                format!("{} and {} {are}", name(a), name(b))
            }
            Order::Restore(None) => match air.restore_all(radio) {
                1 => String::from("1 cut undone"),
                n => format!("{n} cuts undone"),
            },
            Order::Play => match self.play.begin(self.now) {
                Ok(()) => String::from("what moves and is cut by itself begins"),
                Err(error) => return Reply::Done(Err(error.into())),
            },
            Order::Restart(..) | Order::Switch(..) => {
                return Reply::Done(Err("a restart is no work of the radio's".into()));
            }
            Order::Status => return Reply::Status(Box::new(self.status())),
            Order::Links => return Reply::Links(self.links()),
            Order::Nodes => return Reply::Nodes(self.nodes()),
        };
        Reply::Done(Ok(text))
    }

    fn status(&self) -> Status {
        let (deliveries, events) = (self.deliveries.quantiles(), self.events.quantiles());
        let steal = self.shared.steal();
        let late = if deliveries.count > 0 {
            deliveries
        } else {
            events
        };
        let (mut verdict, mut reasons) = judge(&Measured { late, steal });
        let gone = self.gone();
        if !gone.is_empty() {
            verdict = Verdict::Invalid;
            reasons.push(format!("device or namespace is gone: {}", gone.join(", ")));
        }
        Status {
            verdict,
            reasons,
            gone,
            seconds: self.clock.model(Poller::now()).0 as f64 / 1e9,
            dilation: self.dilation,
            nodes: self.taps.len(),
            deliveries,
            events,
            steal,
            pressure: self.shared.pressure(),
            sent: self.counts.sent,
            at_once: self.counts.at_once,
            unknown: self.counts.unknown,
            queue_drops: self.shared.dropped() + self.credits.told.all_dropped(),
            push_back: self.credits.told.working(),
            no_push_back: self.credits.told.none.clone(),
            refused: self.counts.refused,
            reroutes: self.shared.reroutes.load(Ordering::Relaxed),
            reroute_late_us: self.shared.reroute_late.load(Ordering::Relaxed),
            valid: verdict::VALID,
            suspect: verdict::SUSPECT,
        }
    }

    /// Hosts that somebody has taken the device or the namespace from.
    fn gone(&self) -> Vec<String> {
        let hosts = self.hosts.iter().zip(&self.taps);
        hosts
            .filter(|(host, tap)| tap.gone || !host.namespace.exists())
            .map(|(host, _)| host.name.clone())
            .collect()
    }

    fn links(&self) -> Vec<LinkRow> {
        let name = |n: u16| self.hosts[usize::from(n)].name.clone();
        let of = |from: u16| {
            self.radio.links(from).map(move |(to, _, c)| LinkRow {
                from: name(from),
                to: name(to),
                snr_db: self.air.snr_db(from, to),
                cut: self.air.is_cut(from, to),
                frames: c.frames,
                attempts: c.attempts,
                tries: c.tries,
                acked: c.acked,
                failed: c.failed,
                overheard: c.overheard,
            })
        };
        (0..self.taps.len() as u16).flat_map(of).collect()
    }

    fn nodes(&self) -> Vec<NodeRow> {
        let row = |(i, host): (usize, &Host)| {
            let node = i as u16;
            let (link, c) = (self.radio.link(node), self.radio.counters(node));
            NodeRow {
                name: host.name.clone(),
                namespace: host.namespace.name().into(),
                address: host.address.to_string(),
                position: self.air.position(node),
                paused: self.air.is_paused(node),
                queued: self.radio.waiting(node),
                delay_us: link.delay.map(|d| d.0 / 1000),
                busy: link.busy.map_or(0.0, f64::from),
                sent: c.queued,
                failed: c.failed,
                retries: c.retries,
                received: c.received,
                overheard: c.overheard,
                queue_drops: self.shared.nodes[i].dropped.load(Ordering::Relaxed)
                    + self.credits.told.dropped(i),
            }
        };
        self.hosts.iter().enumerate().map(row).collect()
    }
}
