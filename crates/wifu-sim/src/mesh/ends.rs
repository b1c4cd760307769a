//! The ends of a flow: its application writes into connections of the endpoints at both nodes,
//! reads from them and looks at what has arrived.

use super::address::address;
use super::clock::Clock;
use super::flow::{End, Flow, PORT};
use super::flows::Flows;
use super::nodes::Nodes;
use crate::outcome::{FailedRequest, RequestOutcome};
use crate::traffic::App;
use core::net::SocketAddrV4;
use wifu_engine::{Conn, ConnId, Event};
use wifu_wire::Time;

impl Flows {
    /// A connection at a node has something to say.
    #[inline]
    pub(crate) fn news(
        &mut self,
        clock: &mut Clock,
        nodes: &mut Nodes,
        node: u16,
        id: ConnId,
        event: Event,
    ) {
        let Some(conn) = nodes.endpoint(node).conn(id) else {
            return;
        };
        let (number, end) = flow_of(conn);
        let mss = u64::from(conn.board().conn.mss.max(1));
        let Some(flow) = self.all.get_mut(number as usize) else {
            return;
        };
        clock.mix(u64::from(number) << 16 | 5);
        match event {
            Event::Accepted(_) => {
                flow.harvest(clock.now, nodes, 1);
                flow.ends[1] = End {
                    conn: Some(id),
                    open: true,
                    ..End::default()
                };
            }
            Event::Connected => {
                flow.mss = mss;
                flow.ends[0].open = true;
                flow.account.connected.get_or_insert(clock.now);
                flow.write(clock.now, nodes, 0);
            }
            Event::Readable => self.read(clock, nodes, (number, end), id),
            Event::Writable => flow.write(clock.now, nodes, end),
            Event::PeerClosed => flow.over(clock.now, nodes, end, id),
            Event::Closed(fault) => {
                let present = flow.ends[end].conn == Some(id);
                flow.over(clock.now, nodes, end, id);
                if let (true, Some(fault)) = (present, fault) {
                    self.failed(clock, nodes, number, format!("{fault:?}"));
                }
            }
        }
    }

    /// Open the flow's connection. True if its sender's endpoint has something to send now.
    pub(crate) fn connect(&mut self, clock: &mut Clock, nodes: &mut Nodes, number: u32) -> bool {
        match self[number].connect(clock.now, nodes, number) {
            Ok(opened) => opened,
            Err(why) => {
                self.failed(clock, nodes, number, why);
                false
            }
        }
    }

    /// The flow's connection ended badly, or could not be opened.
    fn failed(&mut self, clock: &mut Clock, nodes: &mut Nodes, number: u32, why: String) {
        let flow = &mut self[number];
        flow.account.fault = Some(why);
        flow.account.failed = Some(clock.now);
        match flow.app {
            App::Http(_) => self.file_failed(clock, nodes, number),
            _ => self.flow_done(number),
        }
    }

    fn read(
        &mut self,
        clock: &mut Clock,
        nodes: &mut Nodes,
        (number, end): (u32, usize),
        id: ConnId,
    ) {
        let flow = &mut self[number];
        let total = flow.read(clock.now, nodes, end, id);
        if total == 0 {
            return;
        }
        if end != flow.counted_end() {
            flow.account.deliver(clock.now, total);
            flow.part += total;
            let segments = flow.part / flow.mss;
            flow.part %= flow.mss;
            let bytes = flow.account.bytes;
            self.rec.delivered(number as usize, clock.now, bytes);
            if segments > 0 {
                self.count_packets(clock.now, segments);
            }
        }
        self.progressed(clock, nodes, number, end);
    }

    /// The application looks at what has arrived.
    pub(crate) fn progressed(
        &mut self,
        clock: &mut Clock,
        nodes: &mut Nodes,
        number: u32,
        end: usize,
    ) {
        let flow = &mut self[number];
        let [sender, receiver] = flow.ends;
        let wanted = flow.request.map(|(_, octets)| octets);
        match &flow.app {
            App::Request(_) if end == 1 => {
                let goal = flow.app.owed(receiver.read).unwrap_or(0);
                if goal > receiver.goal {
                    flow.ends[1].goal = goal;
                    flow.write(clock.now, nodes, 1);
                }
            }
            App::Request(_) if wanted.is_some_and(|n| sender.read >= flow.answered + n) => {
                self.answer_complete(clock, nodes, number);
            }
            App::Http(_) if wanted.map(|n| flow.answered + n) == Some(receiver.read) => {
                self.file_complete(clock, nodes, number);
            }
            App::Request(_) | App::Http(_) => {}
            _ if sender.last && receiver.read == sender.goal && !flow.account.finished => {
                flow.account.finished = true;
                self.look(clock.now, nodes, number);
            }
            _ => {}
        }
    }

    fn file_complete(&mut self, clock: &mut Clock, nodes: &mut Nodes, number: u32) {
        self.note_request(clock.now, number);
        let flow = &mut self[number];
        match flow.app.completed(clock.now, flow.stopped) {
            Some(at) => self.step_at(clock, number, at),
            None => self.no_more_files(clock.now, nodes, number),
        }
    }

    /// The connection of a file failed: the next one follows after a pause.
    fn file_failed(&mut self, clock: &mut Clock, nodes: &mut Nodes, number: u32) {
        let counts = self.counts(&self[number]);
        let flow = &mut self[number];
        if let Some((since, bytes)) = flow.request.take().filter(|_| counts) {
            flow.account.requests_failed.push(FailedRequest {
                start_s: since.as_secs_f64(),
                bytes,
                failed_s: (clock.now - since).as_secs_f64(),
            });
        }
        match flow.app.failed(clock.now, flow.stopped) {
            Some(at) => self.step_at(clock, number, at),
            None => self.no_more_files(clock.now, nodes, number),
        }
    }

    /// There will be no further file; a connection that waits for one closes.
    pub(crate) fn no_more_files(&mut self, now: Time, nodes: &mut Nodes, number: u32) {
        let flow = &mut self[number];
        flow.account.finished = true;
        flow.ends[0].last = true;
        flow.write(now, nodes, 0);
        self.look(now, nodes, number);
    }

    /// The request under way is complete. Those beyond what ends the run are not written down: with
    /// as many of each flow all count alike.
    fn note_request(&mut self, now: Time, number: u32) {
        let wanted = self.counts(&self[number]);
        let flow = &mut self[number];
        let before = flow.account.requests.len();
        flow.note_request(now, wanted);
        let count = flow.account.requests.len();
        if count > before && !flow.done {
            self.stop.answered(count);
        }
    }

    /// Whether the next request that a flow completes is written down.
    fn counts(&self, flow: &Flow) -> bool {
        let most = self.stop.requests.map_or(usize::MAX, |n| n as usize);
        flow.account.requests.len() < most
    }

    /// Since when a request of a flow is under way that is written down once it is complete.
    pub(crate) fn under_way(&self, flow: &Flow) -> Option<Time> {
        let since = flow.request.map(|(since, _)| since);
        since.filter(|_| self.counts(flow))
    }

    fn answer_complete(&mut self, clock: &mut Clock, nodes: &mut Nodes, number: u32) {
        self.note_request(clock.now, number);
        let flow = &mut self[number];
        if let Some(at) = flow.app.completed(clock.now, flow.stopped) {
            return self.step_at(clock, number, at);
        }
        flow.ends[0].last = true;
        flow.account.finished = true;
        flow.account.known = Some(clock.now);
        flow.write(clock.now, nodes, 0);
        self.flow_done(number);
    }
}

impl Flow {
    /// Nobody sends to this end any more: it closes.
    fn over(&mut self, now: Time, nodes: &mut Nodes, end: usize, id: ConnId) {
        if self.ends[end].conn == Some(id) {
            self.harvest(now, nodes, end);
        }
        nodes.endpoint(self.node(end)).close(now, id);
    }

    /// Add the numbers of an end's present connection to the flow's account, and forget it.
    fn harvest(&mut self, now: Time, nodes: &Nodes, end: usize) {
        let Some(id) = self.ends[end].conn.take() else {
            return;
        };
        let endpoint = nodes.endpoint_of(self.node(end));
        let Some(info) = endpoint.info_until(id, now) else {
            return;
        };
        let counted = end == self.counted_end();
        let totals = &mut self.account.totals;
        totals.add(end, counted, &info, endpoint.conn(id));
    }

    /// Open its connection; `number` is its own. False if it has none.
    fn connect(&mut self, now: Time, nodes: &mut Nodes, number: u32) -> Result<bool, String> {
        self.harvest(now, nodes, 0);
        let Some(blueprint) = &self.blueprint else {
            return Ok(false);
        };
        let local = SocketAddrV4::new(address(self.src), 0);
        let remote = SocketAddrV4::new(address(self.dst), Flow::port(number));
        let endpoint = nodes.endpoint(self.src);
        let opened = endpoint.connect(now, blueprint, local, remote);
        let id = opened.map_err(|why| why.to_string())?;
        let conn = endpoint.conn(id);
        self.account.port = conn.map(|c| c.tuple().local.port());
        let before = self.ends[0];
        self.ends[0] = End {
            conn: Some(id),
            goal: before.goal,
            last: before.last,
            ..End::default()
        };
        self.account.connections += 1;
        Ok(true)
    }

    /// Write as much as the application wants and the connection takes; close at the end.
    pub(crate) fn write(&mut self, now: Time, nodes: &mut Nodes, end: usize) {
        let node = self.node(end);
        let e = &mut self.ends[end];
        let (Some(id), true, false) = (e.conn, e.open, e.shut) else {
            return;
        };
        let endpoint = nodes.endpoint(node);
        while e.written < e.goal {
            let limit = e.goal - e.written;
            let mss = endpoint.conn(id).map_or(1, |c| c.board().conn.mss.max(1)) as usize;
            let [first, second] = endpoint.write_space(id);
            let room = first.len() + second.len();
            let mut n = usize::try_from(limit).unwrap_or(usize::MAX).min(room);
            // Whole segments, so that their numbers stay multiples of the segment size however
            // large the buffer is.
            if (n as u64) < limit && room > mss {
                n -= n % mss;
            }
            if n == 0 {
                break;
            }
            let cut = n.min(first.len());
            self.patterns[end].fill(&mut first[..cut], e.written);
            self.patterns[end].fill(&mut second[..n - cut], e.written + cut as u64);
            endpoint.wrote(now, id, n);
            e.written += n as u64;
        }
        if e.last && e.written == e.goal {
            endpoint.shutdown_write(now, id);
            e.shut = true;
        }
    }

    /// Read all that a connection has; says how many octets of the present one.
    fn read(&mut self, now: Time, nodes: &mut Nodes, end: usize, id: ConnId) -> u64 {
        let endpoint = nodes.endpoint(self.node(end));
        let present = self.ends[end].conn == Some(id);
        let mut total = 0;
        loop {
            let pieces = endpoint.readable(id);
            let n = pieces[0].len() + pieces[1].len();
            if n == 0 {
                return total;
            }
            if present {
                let at = self.ends[end].read;
                self.check(end, pieces[0], at);
                self.check(end, pieces[1], at + pieces[0].len() as u64);
                self.ends[end].read += n as u64;
                total += n as u64;
            }
            endpoint.consumed(now, id, n);
        }
    }

    fn note_request(&mut self, now: Time, written_down: bool) {
        let Some((since, bytes)) = self.request.take() else {
            return;
        };
        self.answered += bytes;
        if written_down {
            self.account.requests.push(RequestOutcome {
                start_s: since.as_secs_f64(),
                bytes,
                delay_s: (now - since).as_secs_f64(),
            });
        }
    }
}

/// The flow of a connection and its end: the receiver's port tells.
pub(crate) fn flow_of(conn: &Conn) -> (u32, usize) {
    let tuple = conn.tuple();
    let (local, remote) = (tuple.local.port(), tuple.remote.port());
    match local.wrapping_sub(PORT) {
        // Ephemeral ports begin at 32768.
        listening if local < 32_768 => (u32::from(listening), 1),
        _ => (u32::from(remote.wrapping_sub(PORT)), 0),
    }
}
