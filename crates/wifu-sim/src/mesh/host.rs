//! The end of a flow: endpoint and applications of a node, driven with one outstanding wake-up.

use super::app::App;
use super::events::{Class, What};
use super::flow::{End, Flow, PORT, once};
use super::hop::Came;
use super::pool::{NO_FLOW, Packet};
use super::{NONE, Simulation};
use crate::outcome::RequestOutcome;
use crate::routing::Via;
use core::net::{Ipv4Addr, SocketAddrV4};
use wifu_engine::{Conn, ConnId, Endpoint, Event, Reason};
use wifu_wire::ipv4::{self, HEADER};
use wifu_wire::{IpInfo, Time};

/// A node where flows end.
pub(crate) struct Host {
    pub(crate) node: u16,
    pub(crate) endpoint: Endpoint,
    /// When its outstanding wake-up is due; others in the queue are outdated.
    pub(crate) armed: Time,
    /// The links by which its own packets leave, each once.
    pub(crate) ways: Vec<Via>,
}

/// The address of a node: 10.0.0.1 is number 0.
pub(crate) fn address(node: u16) -> Ipv4Addr {
    let [high, low] = (node.wrapping_add(1)).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The node of an address.
pub(crate) fn node_of(address: Ipv4Addr) -> u16 {
    let [_, _, high, low] = address.octets();
    u16::from_be_bytes([high, low]).wrapping_sub(1)
}

impl Simulation {
    /// A packet is where it was to go.
    pub(crate) fn deliver(&mut self, id: u32, came: Came) {
        let packet = self.pool[id];
        if packet.flow != NO_FLOW {
            let flow = &mut self.flows[packet.flow as usize];
            flow.account.packets.delivered += 1;
            if flow.udp.is_some() {
                return self.sink(id);
            }
        }
        let host = self.nodes[usize::from(packet.at)].host;
        if host == NONE {
            return self.pool.release(id);
        }
        let ip = IpInfo {
            src: address(packet.src),
            dst: address(packet.dst),
            proto: packet.proto,
            ttl: packet.ttl,
        };
        let segment = &self.pool.octets(id)[HEADER..];
        let endpoint = &mut self.hosts[host as usize].endpoint;
        endpoint.handle_frame(self.now, &ip, segment, &came.facts());
        self.pool.release(id);
        if packet.flow != NO_FLOW && packet.reverse {
            self.look(packet.flow);
        }
        self.pump(host);
    }

    /// The host's wake-up, if it is not outdated.
    pub(crate) fn wake(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        if h.armed != self.now {
            return;
        }
        h.armed = Time::NEVER;
        // Deadlines move later far more often than earlier: the wake-up stays where it was, and
        // here it turns out that nothing is due yet.
        if h.endpoint.poll_timeout() <= self.now {
            h.endpoint.handle_timeout(self.now);
        }
        self.pump(host);
    }

    /// Applications act and the endpoint sends until neither has anything left to do; then the
    /// wake-up is set.
    pub(crate) fn pump(&mut self, host: u32) {
        let h = host as usize;
        loop {
            let mut busy = false;
            while let Some((id, event)) = self.hosts[h].endpoint.poll_event() {
                busy = true;
                self.news(host, id, event);
            }
            let room = self.room(host);
            self.hosts[h].endpoint.set_room(room);
            while self.transmit(host) {
                busy = true;
            }
            if !busy {
                break;
            }
        }
        let mut at = self.hosts[h].endpoint.poll_timeout();
        if self.room(host) == 0 {
            at = at.min(self.room_at(host));
        }
        let at = at.max(self.now);
        let h = &mut self.hosts[h];
        if at < h.armed {
            h.armed = at;
            self.events.push(at, Class::Wake, What::Wake(host));
        }
    }

    /// Send one segment if there is one.
    fn transmit(&mut self, host: u32) -> bool {
        let buffer = self.pool.buffer();
        let h = &mut self.hosts[host as usize];
        let out = self.pool.octets_mut(buffer);
        let Some(datagram) = h.endpoint.poll_transmit(self.now, &mut out[HEADER..]) else {
            self.pool.drop_buffer(buffer);
            return false;
        };
        ipv4::emit(&datagram.ip, datagram.len, out);
        let mut numbers = [0; 8];
        numbers.copy_from_slice(&out[HEADER..HEADER + 8]);
        self.hash.mix(self.now, u64::from_le_bytes(numbers) ^ 3);
        let (len, node) = ((HEADER + datagram.len) as u16, h.node);
        let dst = node_of(datagram.ip.dst);
        let mut packet = Packet::new(buffer, len, node, dst, datagram.ip.proto);
        if let Some(conn) = datagram.conn.and_then(|id| h.endpoint.conn(id)) {
            let (flow, end) = flow_of(conn);
            (packet.flow, packet.reverse) = (flow, end == 1);
            self.sent(host, flow, end, datagram.conn);
        }
        let id = self.pool.insert(packet);
        self.originate(id);
        true
    }

    /// A flow's end sent a segment: episodes of recovery, and the time-sequence graph.
    fn sent(&mut self, host: u32, flow: u32, end: usize, id: Option<ConnId>) {
        let endpoint = &self.hosts[host as usize].endpoint;
        let of = &self.flows[flow as usize];
        if self.rec.all && end == of.counted_end() {
            // A connection that closes still sends, when its numbers are in the totals already.
            let open = of.ends[end].conn.and_then(|id| endpoint.info(id));
            let octets = of.account.totals.octets[end] + open.map_or(0, |info| once(&info));
            self.rec.offered(flow as usize, self.now, octets);
        }
        let (Some(conn), 0) = (id.and_then(|id| endpoint.conn(id)), end) else {
            return;
        };
        if self.rec.all {
            self.rec.sent(flow as usize, self.now, conn);
        }
        let (flow, tx) = (&mut self.flows[flow as usize], &conn.board().tx);
        let (before, timeouts) = flow.last_out;
        flow.last_out = (self.now, tx.timeouts);
        if tx.timeouts > timeouts {
            flow.account.waited = flow.account.waited + (self.now - before);
        }
        let Some(sent) = conn.last_sent() else { return };
        let repeats = matches!(sent.reason, Reason::DupAck | Reason::Partial | Reason::Sack);
        if repeats && flow.recovery.is_none_or(|until| tx.una.from(until)) {
            flow.recovery = Some(tx.max);
            flow.account.fast += 1;
        }
    }

    /// A flow's sender learned something: its window, and whether all has arrived.
    pub(crate) fn look(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let waits = flow.account.finished && flow.account.known.is_none();
        if !waits && !self.rec.windows {
            return;
        }
        let host = self.nodes[usize::from(flow.src)].host;
        let endpoint = &self.hosts[host as usize].endpoint;
        let conn = flow.ends[0].conn.and_then(|id| endpoint.conn(id));
        if let (true, Some(conn)) = (self.rec.windows, conn) {
            self.rec.window(number as usize, self.now, conn);
        }
        let all = |c: &Conn| c.board().tx.una.from(c.board().app.end);
        if waits && conn.is_none_or(all) {
            flow.account.known = Some(self.now);
            self.flow_done(number);
        }
    }

    fn news(&mut self, host: u32, id: ConnId, event: Event) {
        let Some(conn) = self.hosts[host as usize].endpoint.conn(id) else {
            return;
        };
        let (number, end) = flow_of(conn);
        let mss = u64::from(conn.board().conn.mss.max(1));
        let Some(flow) = self.flows.get_mut(number as usize) else {
            return;
        };
        self.hash.mix(self.now, u64::from(number) << 16 | 5);
        match event {
            Event::Accepted(_) => {
                self.harvest(number, 1);
                self.flows[number as usize].ends[1] = End {
                    conn: Some(id),
                    open: true,
                    ..End::default()
                };
            }
            Event::Connected => {
                flow.mss = mss;
                flow.ends[0].open = true;
                flow.account.connected.get_or_insert(self.now);
                self.write(number, 0);
            }
            Event::Readable => self.read(number, end, id),
            Event::Writable => self.write(number, end),
            Event::PeerClosed => self.over(number, end, id),
            Event::Closed(fault) => {
                let present = flow.ends[end].conn == Some(id);
                self.over(number, end, id);
                if let (true, Some(fault)) = (present, fault) {
                    self.failed(number, format!("{fault:?}"));
                }
            }
        }
    }

    /// Nobody sends to this end any more: it closes.
    fn over(&mut self, number: u32, end: usize, id: ConnId) {
        let flow = &self.flows[number as usize];
        let host = self.host_of(flow, end);
        if flow.ends[end].conn == Some(id) {
            self.harvest(number, end);
        }
        self.hosts[host].endpoint.close(self.now, id);
    }

    /// Add the numbers of an end's present connection to the flow's account, and forget it.
    pub(crate) fn harvest(&mut self, number: u32, end: usize) {
        let flow = &self.flows[number as usize];
        let host = self.host_of(flow, end);
        let flow = &mut self.flows[number as usize];
        let Some(id) = flow.ends[end].conn.take() else {
            return;
        };
        let Some(info) = self.hosts[host].endpoint.info(id) else {
            return;
        };
        match end {
            0 => flow.account.totals.sender(&info),
            _ => flow.account.totals.receiver(&info),
        }
    }

    pub(crate) fn host_of(&self, flow: &Flow, end: usize) -> usize {
        let node = if end == 0 { flow.src } else { flow.dst };
        self.nodes[usize::from(node)].host as usize
    }

    /// Open the flow's connection.
    pub(crate) fn connect(&mut self, number: u32) {
        self.harvest(number, 0);
        let flow = &mut self.flows[number as usize];
        let Some(blueprint) = &flow.blueprint else {
            return;
        };
        let host = self.nodes[usize::from(flow.src)].host;
        let local = SocketAddrV4::new(address(flow.src), 0);
        let remote = SocketAddrV4::new(address(flow.dst), Flow::port(number));
        let endpoint = &mut self.hosts[host as usize].endpoint;
        match endpoint.connect(self.now, blueprint, local, remote) {
            Ok(id) => {
                let opened = endpoint.conn(id);
                flow.account.port = opened.map(|c| c.tuple().local.port());
                let before = flow.ends[0];
                flow.ends[0] = End {
                    conn: Some(id),
                    goal: before.goal,
                    last: before.last,
                    ..End::default()
                };
                flow.recovery = None;
                flow.last_out = (self.now, 0);
                flow.account.connections += 1;
                self.pump(host);
            }
            Err(why) => self.failed(number, why.to_string()),
        }
    }

    /// The flow's connection ended badly, or could not be opened.
    fn failed(&mut self, number: u32, why: String) {
        let flow = &mut self.flows[number as usize];
        flow.account.fault = Some(why);
        match flow.app {
            App::Http(_) => self.file_over(number),
            _ => self.flow_done(number),
        }
    }

    /// Write as much as the application wants and the connection takes; close at the end.
    pub(crate) fn write(&mut self, number: u32, end: usize) {
        let flow = &mut self.flows[number as usize];
        let node = if end == 0 { flow.src } else { flow.dst };
        let host = self.nodes[usize::from(node)].host as usize;
        let e = &mut flow.ends[end];
        let (Some(id), true, false) = (e.conn, e.open, e.shut) else {
            return;
        };
        let endpoint = &mut self.hosts[host].endpoint;
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
            flow.patterns[end].fill(&mut first[..cut], e.written);
            flow.patterns[end].fill(&mut second[..n - cut], e.written + cut as u64);
            endpoint.wrote(self.now, id, n);
            e.written += n as u64;
        }
        if e.last && e.written == e.goal {
            endpoint.shutdown_write(self.now, id);
            e.shut = true;
        }
    }

    fn read(&mut self, number: u32, end: usize, id: ConnId) {
        let flow = &mut self.flows[number as usize];
        let node = if end == 0 { flow.src } else { flow.dst };
        let host = self.nodes[usize::from(node)].host as usize;
        let endpoint = &mut self.hosts[host].endpoint;
        let present = flow.ends[end].conn == Some(id);
        let mut total = 0;
        loop {
            let pieces = endpoint.readable(id);
            let n = pieces[0].len() + pieces[1].len();
            if n == 0 {
                break;
            }
            if present {
                let at = flow.ends[end].read;
                flow.check(end, pieces[0], at);
                flow.check(end, pieces[1], at + pieces[0].len() as u64);
                flow.ends[end].read += n as u64;
                total += n as u64;
            }
            endpoint.consumed(self.now, id, n);
        }
        if total > 0 {
            self.delivered(number, end, total);
        }
    }

    /// Octets arrived at an application.
    fn delivered(&mut self, number: u32, end: usize, octets: u64) {
        let flow = &mut self.flows[number as usize];
        let counts = end != flow.counted_end();
        if counts {
            let account = &mut flow.account;
            account.bytes += octets;
            account.first.get_or_insert(self.now);
            account.last = Some(self.now);
            flow.part += octets;
            let segments = flow.part / flow.mss;
            flow.part %= flow.mss;
            let bytes = account.bytes;
            self.rec.delivered(number as usize, self.now, bytes);
            if segments > 0 {
                self.count_packets(segments);
            }
        }
        self.progressed(number, end);
    }

    /// The application looks at what has arrived.
    pub(crate) fn progressed(&mut self, number: u32, end: usize) {
        let flow = &mut self.flows[number as usize];
        let [sender, receiver] = flow.ends;
        let wanted = flow.request.map(|(_, octets)| octets);
        match &flow.app {
            App::Request(dialogue) if end == 1 => {
                let asked = receiver.read / dialogue.request;
                let goal = asked * dialogue.response;
                if goal > receiver.goal {
                    flow.ends[1].goal = goal;
                    self.write(number, 1);
                }
            }
            App::Request(_) if wanted.is_some_and(|n| sender.read >= flow.answered + n) => {
                self.answer_complete(number);
            }
            App::Http(_) if wanted == Some(receiver.read) => self.file_complete(number),
            App::Request(_) | App::Http(_) => {}
            _ if sender.last && receiver.read == sender.goal && !flow.account.finished => {
                flow.account.finished = true;
                self.look(number);
            }
            _ => {}
        }
    }

    fn note_request(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        if let Some((since, bytes)) = flow.request.take() {
            flow.answered += bytes;
            flow.account.requests.push(RequestOutcome {
                start_s: since.as_secs_f64(),
                bytes,
                delay_s: (self.now - since).as_secs_f64(),
            });
        }
    }

    fn file_complete(&mut self, number: u32) {
        self.note_request(number);
        let flow = &mut self.flows[number as usize];
        let App::Http(files) = &mut flow.app else {
            return;
        };
        files.left = files.left.map(|n| n.saturating_sub(1));
        if files.left == Some(0) || flow.stopped {
            flow.account.finished = true;
            return self.look(number);
        }
        self.file_over(number);
    }

    /// A file arrived, or its connection failed: the next one follows after a pause.
    fn file_over(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.request = None;
        let App::Http(files) = &mut flow.app else {
            return;
        };
        if flow.stopped {
            flow.account.finished = true;
            return self.look(number);
        }
        let at = self.now + files.pause();
        self.step_at(number, at);
    }

    fn answer_complete(&mut self, number: u32) {
        self.note_request(number);
        let flow = &mut self.flows[number as usize];
        let App::Request(dialogue) = &mut flow.app else {
            return;
        };
        dialogue.left = dialogue.left.map(|n| n.saturating_sub(1));
        if dialogue.left == Some(0) || flow.stopped {
            flow.ends[0].last = true;
            flow.account.finished = true;
            flow.account.known = Some(self.now);
            self.write(number, 0);
            return self.flow_done(number);
        }
        let at = self.now + dialogue.pause();
        self.step_at(number, at);
    }

    /// The flow's application acts at `at`.
    pub(crate) fn step_at(&mut self, number: u32, at: Time) {
        self.flows[number as usize].step = at;
        if at < Time::NEVER {
            self.events.push(at, Class::Application, What::App(number));
        }
    }
}

/// The flow of a connection and its end: the receiver's port tells.
fn flow_of(conn: &Conn) -> (u32, usize) {
    let tuple = conn.tuple();
    let (local, remote) = (tuple.local.port(), tuple.remote.port());
    match local.wrapping_sub(PORT) {
        // Ephemeral ports begin at 32768.
        listening if local < 32_768 => (u32::from(listening), 1),
        _ => (u32::from(remote.wrapping_sub(PORT)), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers() {
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(255), Ipv4Addr::new(10, 0, 1, 0));
        for node in [0, 1, 254, 255, 256, 9999] {
            assert_eq!(node_of(address(node)), node);
        }
    }
}
