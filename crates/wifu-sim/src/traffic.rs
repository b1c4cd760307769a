//! What applications write and when, step by step, and what they draw for it. They are told the
//! time and act on nothing: the mesh puts them on simulated connections, `wifu perf --app` on real
//! ones, and from the same stream both get the same lengths, pauses and talk.

use crate::scenario::{AppKind, FlowSpec, Octets, Scenario, ScenarioError, Secs};
use std::collections::BTreeMap;
use wifu_wire::{Rng, Span, Time};

/// What an application wants done now. Until it is told otherwise it acts again at `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Open a connection; what is written goes into it and begins with its first octet.
    pub connect: bool,
    /// So many more octets; `u64::MAX` is without end.
    pub write: u64,
    /// That was all of this connection: close when it is written.
    pub last: bool,
    /// A request is under way from now on. It is complete when so many octets have arrived: at the
    /// receiver for a file, at the sender for an answer.
    pub expects: Option<u64>,
    /// When it acts next by itself; [`Time::NEVER`] if something has to happen first.
    pub next: Time,
}

impl Step {
    /// Do nothing until then.
    fn wait(next: Time) -> Step {
        Step {
            connect: false,
            write: 0,
            last: false,
            expects: None,
            next,
        }
    }
}

/// An application at work.
#[derive(Clone, Debug)]
pub enum App {
    /// Without end.
    Bulk,
    /// So many octets.
    File(u64),
    /// As much as goes, until then.
    Stream,
    /// One file after the other, each over its own connection, or all over one.
    Http(Files),
    /// Talk and silence.
    OnOff(Talk),
    /// Requests and answers over one connection.
    Request(Dialogue),
    /// Octets by a table.
    Trace(Table),
}

/// Files as the web has them (Behaviour 14, X-T7).
#[derive(Clone, Debug)]
pub struct Files {
    pause: Span,
    left: Option<u64>,
    shape: f64,
    scale: f64,
    cap: f64,
    /// All go over one connection.
    persistent: bool,
    /// There is that connection.
    connected: bool,
    rng: Rng,
}

/// Talk at a constant rate, and silence; both exponential.
#[derive(Clone, Debug)]
pub struct Talk {
    on: Span,
    off: Span,
    /// Between two chunks.
    gap: Span,
    /// Octets at a time.
    chunk: u64,
    silence: Time,
    rng: Rng,
}

/// Requests and answers.
#[derive(Clone, Debug)]
pub struct Dialogue {
    request: u64,
    response: u64,
    pause: Option<Span>,
    left: Option<u64>,
    rng: Rng,
}

/// Rows of (since the start, octets), in order of time.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<(Span, u64)>,
    at: usize,
    start: Time,
}

/// Octets that a talking application writes at once.
const CHUNK: u64 = 1_000;

impl App {
    /// The application of a flow; `rng` is its own stream.
    pub fn new(spec: &FlowSpec, rng: &Rng) -> App {
        let span = |s: Option<Secs>| s.map_or(Span::ZERO, |s| s.0);
        let octets = |o: Option<Octets>, default| o.map_or(default, |o| o.0);
        match spec.app {
            AppKind::Bulk => App::Bulk,
            AppKind::File => App::File(octets(spec.bytes, 0)),
            AppKind::Stream => App::Stream,
            AppKind::Http => App::Http(Files {
                pause: span(spec.pause),
                left: spec.count,
                shape: spec.shape.unwrap_or(1.5),
                scale: octets(spec.scale, 10_000) as f64,
                cap: octets(spec.cap, 10_000_000) as f64,
                persistent: spec.persistent.unwrap_or(false),
                connected: false,
                rng: rng.split("files"),
            }),
            AppKind::OnOff => App::OnOff(Talk::new(spec, CHUNK, rng)),
            AppKind::Request => App::Request(Dialogue {
                request: octets(spec.request, 200),
                response: octets(spec.response, 30_000),
                pause: spec.pause.map(|p| p.0),
                left: spec.count,
                rng: rng.split("pauses"),
            }),
            AppKind::Trace => {
                let rows = spec.rows.iter().flatten();
                App::Trace(Table {
                    rows: rows.map(|(t, n)| (Span::from_secs_f64(*t), *n)).collect(),
                    at: 0,
                    start: Time::ZERO,
                })
            }
        }
    }

    /// It begins at `now`.
    pub fn begin(&mut self, now: Time) -> Step {
        let (write, last, next) = match self {
            App::File(octets) => (*octets, true, Time::NEVER),
            App::Bulk | App::Stream => (u64::MAX, false, Time::NEVER),
            App::Trace(table) => (0, false, table.begin(now)),
            App::Http(_) => return Step::wait(now),
            App::Request(_) | App::OnOff(_) => (0, false, now),
        };
        Step {
            connect: true,
            write,
            last,
            ..Step::wait(next)
        }
    }

    /// Its time has come, at `now`.
    pub fn step(&mut self, now: Time) -> Step {
        match self {
            App::Bulk | App::File(_) | App::Stream => Step::wait(Time::NEVER),
            App::Http(files) => files.step(),
            App::Request(dialogue) => Step {
                write: dialogue.request,
                expects: Some(dialogue.response),
                ..Step::wait(Time::NEVER)
            },
            App::OnOff(talk) => Step {
                write: talk.chunk,
                ..Step::wait(talk.next(now))
            },
            App::Trace(table) => table.step(now),
        }
    }

    /// What was under way has arrived at `now`: when it acts next; nothing if that was the last, as
    /// it is for one that was `stopped`.
    pub fn completed(&mut self, now: Time, stopped: bool) -> Option<Time> {
        let left = match self {
            App::Http(files) => &mut files.left,
            App::Request(dialogue) => &mut dialogue.left,
            App::Bulk | App::File(_) | App::Stream | App::OnOff(_) | App::Trace(_) => return None,
        };
        *left = left.map(|n| n.saturating_sub(1));
        match left {
            Some(0) => None,
            _ => self.after(now, stopped),
        }
    }

    /// What was under way failed at `now`: when it tries the next; nothing if it does not.
    pub fn failed(&mut self, now: Time, stopped: bool) -> Option<Time> {
        match self {
            App::Http(files) => {
                files.connected = false;
                self.after(now, stopped)
            }
            _ => None,
        }
    }

    fn after(&mut self, now: Time, stopped: bool) -> Option<Time> {
        let pause = match self {
            _ if stopped => return None,
            App::Http(files) => files.pause(),
            App::Request(dialogue) => dialogue.pause(),
            App::Bulk | App::File(_) | App::Stream | App::OnOff(_) | App::Trace(_) => return None,
        };
        Some(now + pause)
    }

    /// Octets that its receiver has to have sent back when it has got so many; nothing if it sends
    /// none.
    pub fn owed(&self, got: u64) -> Option<u64> {
        match self {
            App::Request(dialogue) => {
                Some((got / dialogue.request).saturating_mul(dialogue.response))
            }
            _ => None,
        }
    }

    /// Whether the connection of a file is that of the next one.
    pub fn persistent(&self) -> bool {
        matches!(self, App::Http(files) if files.persistent)
    }
}

impl Table {
    fn begin(&mut self, now: Time) -> Time {
        self.start = now;
        now + self.rows.first().map_or(Span::ZERO, |r| r.0)
    }

    fn step(&mut self, now: Time) -> Step {
        let mut write = 0u64;
        let due = |row: &&(Span, u64)| self.start + row.0 <= now;
        while let Some((_, octets)) = self.rows.get(self.at).filter(due) {
            write = write.saturating_add(*octets);
            self.at += 1;
        }
        let next = self.rows.get(self.at).map(|row| self.start + row.0);
        Step {
            write,
            last: next.is_none(),
            ..Step::wait(next.unwrap_or(Time::NEVER))
        }
    }
}

impl Files {
    /// The next file.
    fn step(&mut self) -> Step {
        let size = self.size();
        let connect = !self.connected;
        self.connected = self.persistent;
        Step {
            connect,
            write: size,
            last: !self.persistent || self.left == Some(1),
            expects: Some(size),
            next: Time::NEVER,
        }
    }

    /// The length of the next file.
    fn size(&mut self) -> u64 {
        let u = 1.0 - self.rng.unit();
        let size = self.scale * libm::pow(u, -1.0 / self.shape);
        size.min(self.cap).round().max(1.0) as u64
    }

    /// The next pause.
    fn pause(&mut self) -> Span {
        exponential(&mut self.rng, self.pause)
    }
}

impl Talk {
    /// Talk in chunks of so many octets.
    pub(crate) fn new(spec: &FlowSpec, chunk: u64, rng: &Rng) -> Talk {
        let span = |s: Option<Secs>| s.map_or(Span::ZERO, |s| s.0);
        let rate = spec.rate.map_or(1, |r| r.0.0.max(1));
        Talk {
            on: span(spec.on),
            off: span(spec.off),
            gap: Span((chunk * 8_000_000_000).div_ceil(rate).max(1)),
            chunk,
            silence: Time::ZERO,
            rng: rng.split("talk"),
        }
    }

    /// A chunk was written at `now`, or talk begins: when the next one is due.
    pub(crate) fn next(&mut self, now: Time) -> Time {
        if self.silence == Time::ZERO {
            self.silence = now + exponential(&mut self.rng, self.on);
        }
        let mut next = now + self.gap;
        // A talk may be shorter than the gap between two chunks.
        while next > self.silence {
            let resumes = self.silence + exponential(&mut self.rng, self.off);
            self.silence = resumes + exponential(&mut self.rng, self.on);
            next = next.max(resumes);
        }
        next
    }

    /// The same for all chunks that follow each other without silence, from the one at `now` on:
    /// how many they are, and when the next one is due after them.
    fn spurt(&mut self, now: Time) -> (u64, Time) {
        let mut last = now;
        let mut next = self.next(last);
        let mut count = 1;
        if next == last + self.gap {
            let more = (self.silence - next).0 / self.gap.0;
            last = next + self.gap * more;
            count += 1 + more;
            next = self.next(last);
        }
        (count, next)
    }
}

/// When a source of datagrams sends that talks and is silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spurts {
    /// Between two datagrams of a spurt.
    pub gap: Span,
    /// When each spurt begins, since the source did, and how many datagrams it has.
    pub spurts: Vec<(Span, u64)>,
}

/// What `onoff` over `udp` sends before `until`, as in the mesh: datagrams of `payload` octets.
pub fn spurts(spec: &FlowSpec, payload: u64, stream: &Rng, until: Span) -> Spurts {
    let mut talk = Talk::new(spec, payload.max(1), stream);
    let (mut now, end) = (Time::ZERO, Time::ZERO + until);
    let mut spurts = Vec::new();
    while now < end {
        let (count, next) = talk.spurt(now);
        let fit = (end - now).0.div_ceil(talk.gap.0);
        spurts.push((now - Time::ZERO, count.min(fit)));
        now = next;
    }
    Spurts {
        gap: talk.gap,
        spurts,
    }
}

impl Dialogue {
    /// The next pause.
    fn pause(&mut self) -> Span {
        let mean = self.pause.unwrap_or_default();
        exponential(&mut self.rng, mean)
    }
}

/// Exponential with this mean.
pub(crate) fn exponential(rng: &mut Rng, mean: Span) -> Span {
    let u = 1.0 - rng.unit();
    Span((-libm::log(u) * mean.0 as f64).round() as u64)
}

/// Random streams of flows: by ends and kind of traffic, and among equals in order, so that a flow
/// keeps its stream whatever else there is in front of it. The protocol is not asked: protocols
/// that are compared meet the same traffic.
pub(crate) struct Streams {
    root: Rng,
    /// The last of the nodes to which the first one transfers anything.
    last: Option<u16>,
    equals: BTreeMap<(u16, u16, &'static str), u64>,
}

impl Streams {
    /// The streams of a scenario's flows between the nodes of these numbers; its own is `root`.
    pub(crate) fn new<'a>(
        root: &Rng,
        flows: impl Iterator<Item = (u16, u16, &'a FlowSpec)>,
    ) -> Streams {
        let far = flows.filter(|(src, _, spec)| *src == 0 && kind(spec) == TRANSFER);
        Streams {
            root: root.split("traffic"),
            last: far.map(|(_, dst, _)| dst).max(),
            equals: BTreeMap::new(),
        }
    }

    /// The stream of the next flow of the scenario, between the nodes of these numbers.
    pub(crate) fn next(&mut self, src: u16, dst: u16, spec: &FlowSpec) -> Rng {
        let kind = kind(spec);
        let equals = self.equals.entry((src, dst, kind)).or_default();
        let number = *equals;
        *equals += 1;
        // The longest transfers from the first node, which most experiments are about, have the
        // numbers to themselves. Nodes without a part in them do not matter.
        if (src, Some(dst), kind) == (0, self.last, TRANSFER) {
            return self.root.split_n(number);
        }
        let ends = self.root.split("flow").split_n(src.into());
        ends.split_n(dst.into()).split(kind).split_n(number)
    }
}

/// The kind of traffic that steady transfers over a protocol are.
const TRANSFER: &str = "transfer";

/// Flows of a kind draw the same numbers in the same order.
fn kind(spec: &FlowSpec) -> &'static str {
    match spec.app {
        AppKind::Bulk | AppKind::File | AppKind::Stream if spec.is_udp() => "udp",
        AppKind::Bulk | AppKind::File | AppKind::Stream => TRANSFER,
        app => app.name(),
    }
}

/// What is added to a flow's start, by its stream.
pub(crate) fn jitter(spec: &FlowSpec, own: &Rng) -> Span {
    Span(own.split("start").below(spec.jitter.0.0 + 1))
}

/// What is random of a flow: its start, and the stream that its application draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// When it starts, its jitter included.
    pub start: Time,
    /// What [`App::new`] is given.
    pub stream: Rng,
}

/// What is random of a scenario's flows, in their order, as the mesh has it. `names` are its nodes,
/// in order.
///
/// # Errors
/// A flow names a node that there is not.
pub fn draws(scenario: &Scenario, names: &[&str]) -> Result<Vec<Drawn>, ScenarioError> {
    let mut ends = Vec::with_capacity(scenario.flow.len());
    for (i, spec) in scenario.flow.iter().enumerate() {
        let node = |name: &str, key: &str| {
            let found = names.iter().position(|n| *n == name);
            found.map(|at| at as u16).ok_or_else(|| {
                ScenarioError::key(format!("flow[{i}].{key}"), format!("no node `{name}`"))
            })
        };
        ends.push((node(&spec.from, "from")?, node(&spec.to, "to")?, spec));
    }
    let mut streams = Streams::new(&scenario.rng(), ends.iter().copied());
    let drawn = ends.into_iter().map(|(src, dst, spec)| {
        let stream = streams.next(src, dst, spec);
        Drawn {
            start: Time::ZERO + spec.start.0 + jitter(spec, &stream),
            stream,
        }
    });
    Ok(drawn.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Bps;
    use wifu_wire::Rate;

    #[test]
    fn files_have_the_mean_that_was_asked_for() {
        let spec = FlowSpec {
            app: AppKind::Http,
            cap: Some(Octets(u64::MAX)),
            shape: Some(2.5),
            scale: Some(Octets(18_000)),
            ..FlowSpec::default()
        };
        let App::Http(mut files) = App::new(&spec, &Rng::new(1)) else {
            panic!("an http application");
        };
        let sizes: Vec<u64> = (0..200_000).map(|_| files.size()).collect();
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((mean / 30_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!(sizes.iter().all(|s| *s >= 18_000));
    }

    #[test]
    fn talk_fills_its_share_of_the_time() {
        let spec = FlowSpec {
            app: AppKind::OnOff,
            rate: Some(Bps(Rate(800_000))),
            on: Some(Secs(Span::SECOND)),
            off: Some(Secs(Span::SECOND * 3)),
            ..FlowSpec::default()
        };
        let mut talk = Talk::new(&spec, 1000, &Rng::new(2));
        let (mut now, mut chunks) = (Time::ZERO, 0u64);
        while now < Time(4_000_000_000_000) {
            now = talk.next(now);
            chunks += 1;
        }
        // 100 chunks of 1000 octets per second, a quarter of 4000 seconds.
        assert!((90_000..110_000).contains(&chunks), "{chunks}");
    }

    #[test]
    fn spurts_are_the_talk_chunk_by_chunk() {
        let spec = |rate: u64| FlowSpec {
            app: AppKind::OnOff,
            rate: Some(Bps(Rate(rate))),
            on: Some(Secs(Span::MILLI * 30)),
            off: Some(Secs(Span::MILLI * 20)),
            ..FlowSpec::default()
        };
        let until = Span::SECOND * 5;
        // Gaps of 1, 30 and 90 ms: many chunks in a spurt, about one, hardly ever one.
        for rate in [8_000_000, 266_000, 89_000] {
            let (spec, stream) = (spec(rate), Rng::new(7));
            let mut talk = Talk::new(&spec, 1_000, &stream);
            let (mut now, mut each) = (Time::ZERO, Vec::new());
            while now < Time::ZERO + until {
                each.push(now);
                now = talk.next(now);
            }
            let found = spurts(&spec, 1_000, &stream, until);
            let all = found.spurts.iter().flat_map(|(begin, count)| {
                let gap = found.gap;
                (0..*count).map(move |k| Time::ZERO + *begin + gap * k)
            });
            assert_eq!(all.collect::<Vec<_>>(), each, "{rate} bit/s");
            assert!(each.len() > 20, "{}", each.len());
        }
        assert_eq!(
            spurts(&spec(1_000), 1_000, &Rng::new(7), Span::ZERO).spurts,
            []
        );
    }

    /// What flows draw in a network of so many nodes, by their ends.
    fn drawn(nodes: usize, flows: &[(usize, usize)]) -> Vec<Drawn> {
        let flow = |(from, to): &(usize, usize)| {
            format!(
                "[[flow]]\nfrom = \"n{from}\"\nto = \"n{to}\"\nprotocol = \"tcp-reno\"\n\
                 app = \"file\"\nbytes = 1\njitter = \"5ms\"\n"
            )
        };
        let text: String = flows.iter().map(flow).collect();
        let scenario = Scenario::from_toml(&text).expect("a scenario");
        let names: Vec<String> = (1..=nodes).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        draws(&scenario, &names).expect("they are there")
    }

    #[test]
    fn nodes_without_a_part_change_no_draw() {
        let flows = [(1, 4), (2, 3), (1, 4), (4, 1), (1, 2)];
        let four = drawn(4, &flows);
        for nodes in [5, 6, 40] {
            assert_eq!(drawn(nodes, &flows), four, "{nodes} nodes");
        }
        let mut streams: Vec<u64> = four.iter().map(|d| d.stream.state()).collect();
        streams.sort_unstable();
        streams.dedup();
        assert_eq!(streams.len(), flows.len(), "each has its own");
    }

    #[test]
    fn flows_in_front_change_no_draw_of_those_between_the_ends() {
        let alone = drawn(4, &[(1, 4), (1, 4)]);
        let behind = drawn(4, &[(1, 3), (4, 1), (1, 4), (2, 4), (1, 4)]);
        assert_eq!([behind[2], behind[4]], alone[..]);
        // Nor of others.
        assert_eq!(drawn(4, &[(2, 4), (1, 4)])[0], behind[3]);
    }

    #[test]
    fn exponential_spans_have_their_mean() {
        let mut rng = Rng::new(3);
        let n = 100_000;
        let sum: u64 = (0..n).map(|_| exponential(&mut rng, Span::SECOND).0).sum();
        assert!((sum as f64 / n as f64 / 1e9 - 1.0).abs() < 0.02);
    }
}
