//! What `iperf` measures: one flow after the other, or behind the prompt (`&`).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Value as Json, json};
use wifu_engine::Preference;
use wifu_linux::emu::Host;
use wifu_node::facts::told;
use wifu_node::{Protocol, Substrate};

use super::Session;
use crate::emu::programs::{self, Meter, Throughput, Way};
use crate::emu::words;
use crate::perf;

/// iperf3's, and that of `wifu perf`. Those behind take the next ones.
const PORT: u16 = 5201;
/// What a flow behind the prompt is told to end by.
const SIGTERM: i32 = 15;

/// A flow to be measured.
struct Flow {
    from: Host,
    to: Host,
    port: u16,
    meter: Meter,
    known: Vec<(&'static str, OsString)>,
    /// As it was typed, without the `&`.
    line: String,
    /// No other one was under way while it was.
    alone: bool,
}

/// One that is measured while the prompt takes other commands.
pub(super) struct Behind {
    flow: Arc<Flow>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Result<Throughput, i32>>>,
}

impl Behind {
    fn start(flow: Flow) -> Behind {
        let (flow, over) = (Arc::new(flow), Arc::new(AtomicBool::new(false)));
        let (its, told) = (flow.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            let place = (&its.from, &its.to, its.port);
            let told = || told.load(Ordering::Relaxed).then_some(SIGTERM);
            its.meter.run(place, &its.known, (true, &told))
        });
        Behind { flow, over, thread }
    }

    fn end(self) -> anyhow::Result<Result<Throughput, i32>> {
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the thread that measures has panicked"))?
    }
}

/// Words without an `&` at the end, and whether there was one.
pub(super) fn behind<'a>(words: &[&'a str]) -> (Vec<&'a str>, bool) {
    let mut words = words.to_vec();
    let last = words.last().copied().unwrap_or_default();
    let Some(word) = last.strip_suffix('&') else {
        return (words, false);
    };
    words.pop();
    words.extend(Some(word).filter(|word| !word.is_empty()));
    (words, true)
}

/// What the first host asked with, where what is said is of the answers (`--app request`).
fn asked(from: &str, all: &Json) -> String {
    let app = &all["wifu"]["application"];
    let Some(bytes) = app["asked_bytes"].as_u64() else {
        return String::new();
    };
    let again = match app["retransmits"].as_u64() {
        Some(1) => String::from(" and 1 retransmission"),
        Some(n) => format!(" and {n} retransmissions"),
        None => String::new(),
    };
    format!(
        "; that is of the answers, and {from} asked with {:.3} MB{again}",
        bytes as f64 / 1e6
    )
}

/// The two hosts that words begin with, and the others.
fn ends<'a, 'b>(words: &'b [&'a str]) -> anyhow::Result<((&'a str, &'a str), &'b [&'a str])> {
    match words {
        [from, to, rest @ ..] if ![from, to].iter().any(|w| w.starts_with('-')) => {
            Ok(((from, to), rest))
        }
        _ => bail!("write iperf FROM TO [iperf3's words], such as iperf n1 n3 -t 5 -C tcp-newreno"),
    }
}

/// What a protocol goes without here: for what daemons on the hosts would tell it they are to be
/// started, where they are not; the rest no emulated host knows, and a parameter says it.
fn untold(protocol: &Protocol, served: bool) -> Vec<String> {
    let name = &protocol.ends.name;
    let known = told(Substrate::Emu.tellers());
    let parts = protocol.ends.parts.iter();
    let each = parts.flat_map(|p| p.desc.prefers.iter().filter(|f| f.counts(&p.values)));
    let (served_by, never): (Vec<_>, Vec<_>) = each.partition(|f| known.contains(&f.fact));
    let clauses = |of: &[&Preference]| {
        let all: BTreeSet<&str> = of.iter().map(|f| f.then).collect();
        all.into_iter().collect::<Vec<_>>().join("; ")
    };
    let mut said = Vec::new();
    if !served_by.is_empty() && !served {
        said.push(format!(
            "{name} knows nothing of the radio here: {}. `--serve {name}` tells it what it can",
            clauses(&served_by)
        ));
    }
    if !never.is_empty() {
        let params: BTreeSet<&str> = never.iter().filter_map(|f| f.param).collect();
        let says = match params.len() {
            0 => String::new(),
            _ => {
                let params: Vec<String> = params.iter().map(|p| format!("`{p}=`")).collect();
                format!(": {} behind its name says it", params.join(" or "))
            }
        };
        said.push(format!(
            "{name}: {}, as no emulated host tells it otherwise{says}",
            clauses(&never)
        ));
    }
    said
}

impl Session {
    pub(super) fn iperf(&mut self, words: &[&str]) -> anyhow::Result<()> {
        let (words, is_behind) = behind(words);
        let ((from, to), rest) = ends(&words)?;
        let (a, b) = (self.host(from)?.clone(), self.host(to)?.clone());
        ensure!(a.name != b.name, "two different hosts, please");
        let meter = Meter::new(rest)?;
        words::check(rest, |word| perf::names_one(word, &self.known))?;
        if let Some(spec) = &meter.wifu {
            perf::check_name(spec, &self.known)?;
            let protocol = self.known.resolve_on(spec, Substrate::Emu)?;
            ensure!(
                !protocol.has_hops() || self.daemons.serve_any(),
                "{0} brings something for nodes on the way, which no host here runs: leave \
                 (`exit`), and start the hosts anew with `wifu emu --serve {0}`",
                protocol.ends.name
            );
            for told in untold(&protocol, self.daemons.serve_any()) {
                self.say(&told);
            }
            self.daemons.ensure(&a)?;
            self.daemons.ensure(&b)?;
        }
        let taken = |port: &u16| self.behind.iter().any(|one| one.flow.port == *port);
        let flow = Flow {
            from: a,
            to: b,
            port: (PORT..=u16::MAX)
                .find(|port| !taken(port))
                .context("no port is free")?,
            meter,
            known: self.told.clone(),
            line: format!("iperf {}", words.join(" ")),
            alone: !is_behind && self.behind.is_empty(),
        };
        if is_behind {
            self.say(&format!(
                "{}: in the background; `wait` waits for its outcome",
                flow.line
            ));
            self.behind.push(Behind::start(flow));
            return Ok(());
        }
        let (place, pressed) = ((&flow.from, &flow.to, flow.port), Cell::new(false));
        let told = || programs::for_us(&self.signals, &pressed);
        let ended = flow.meter.run(place, &flow.known, (false, &told));
        // The key reaches both programs: which of them tells of the other's end, and in what words,
        // is chance. One may have ended before the signal was looked at.
        let interrupted = pressed.get() || ended.is_err() && self.interrupted();
        match ended {
            Ok(Ok(found)) => self.measured_at(&flow, found)?,
            Ok(Err(number)) => self.ended = Some(number),
            Err(_) if interrupted => bail!("{}: interrupted before it was over", flow.line),
            Err(error) => return Err(self.lacking(&flow, error)),
        }
        Ok(())
    }

    /// An error of a flow's; where the kernel lacks its congestion control, with what there is.
    /// Kernels load some on demand, so that iperf3 has to try.
    fn lacking(&self, flow: &Flow, error: anyhow::Error) -> anyhow::Error {
        match flow.meter.kernel() {
            Some(name) if error.to_string().contains("TCP_CONGESTION") => {
                anyhow!("{error:#}{}", perf::kernel_has(name, &self.known))
            }
            _ => error,
        }
    }

    /// Whether one behind has ended, and it has not been told yet.
    pub(super) fn is_over_behind(&self) -> bool {
        self.behind.iter().any(|one| one.thread.is_finished())
    }

    /// Tell the outcome of flows behind that have ended.
    pub(super) fn gather(&mut self) {
        let over = |one: &Behind| one.thread.is_finished();
        while let Some(at) = self.behind.iter().position(over) {
            let flow = self.behind[at].flow.clone();
            if let Err(error) = self.outcome_of(at, &flow) {
                eprintln!("{}: {error:#}", flow.line);
                self.failed += 1;
            }
        }
    }

    fn outcome_of(&mut self, at: usize, flow: &Flow) -> anyhow::Result<()> {
        let ended = self.behind.remove(at).end();
        match ended.map_err(|error| self.lacking(flow, error))? {
            Ok(found) => self.measured_at(flow, found),
            Err(_) => bail!("it was ended before it was over"),
        }
    }

    /// Until all flows behind have ended, or a signal came, which ends them once the session ends.
    pub(super) fn wait_for_all(&mut self) {
        while !self.behind.is_empty() && self.ended.is_none() {
            self.gather();
            if self.interrupted() {
                return;
            }
            std::thread::sleep(programs::LOOK);
        }
    }

    /// The session is over: flows behind are waited for, unless a signal comes.
    pub(super) fn end_all(&mut self) {
        self.gather();
        for one in self.behind.iter().filter(|_| self.ended.is_none()) {
            eprintln!("waiting for {}; Ctrl-C ends it", one.flow.line);
        }
        self.wait_for_all();
        for one in &self.behind {
            one.over.store(true, Ordering::Relaxed);
        }
        while !self.behind.is_empty() {
            self.gather();
            std::thread::sleep(programs::LOOK);
        }
    }

    /// Say and keep what was measured.
    fn measured_at(&mut self, flow: &Flow, found: Throughput) -> anyhow::Result<()> {
        for way in &found.ways {
            self.measured_way(flow, &found, way)?;
        }
        Ok(())
    }

    /// One direction: data went from the first of the two names that are said to the second.
    fn measured_way(&mut self, flow: &Flow, found: &Throughput, way: &Way) -> anyhow::Result<()> {
        let (from, to) = match way.back {
            false => (&flow.from.name, &flow.to.name),
            true => (&flow.to.name, &flow.from.name),
        };
        let received = way.received.context("nobody says what arrived")?;
        let rate = received * self.dilation;
        let mut text = format!(
            "{from} to {to} by {}: {:.3} Mb/s received",
            flow.meter.protocol(&found.all),
            rate / 1e6
        );
        if self.dilation != 1.0 {
            text += " per second of model time";
        }
        if let Some(lost) = way.lost {
            text += &format!(", {lost:.2} % of datagrams lost");
        }
        if let Some(held) = way.held {
            let (sent, wanted) = (held.0 * self.dilation, held.1 * self.dilation);
            text += &format!(
                "; {from} was held back, and sent {:.3} of {:.3} Mb/s",
                sent / 1e6,
                wanted / 1e6
            );
        }
        if let Some(tail) = way.tail {
            // What waits in queues is neither lost nor in a rate of the time of sending.
            text += &format!(
                "; counting went on for {:.2} s after it had stopped",
                tail / self.dilation
            );
        }
        if let Some(n) = way.retransmits {
            let s = if n == 1 { "" } else { "s" };
            let until = way.late.map_or("", |_| " while it wrote");
            text += &format!(", {n} retransmission{s}{until}");
        }
        if let Some(late) = way.late {
            text += &outlasting(late, rate, self.dilation);
            let more = found.again.filter(|_| flow.alone).zip(way.retransmits);
            if let Some((again, _)) = more.filter(|(again, n)| again > n) {
                text += &format!(", by when {from} had retransmitted {again} segments");
            }
        }
        text += &asked(&flow.from.name, &found.all);
        self.say(&text);
        let program = match flow.meter.wifu {
            Some(_) => "perf",
            None => "iperf3",
        };
        let one = json!({"from": from, "to": to, "bits_per_second": rate, program: found.all});
        match self.tests["iperf"].as_array_mut() {
            Some(all) => all.push(one),
            None => self.tests["iperf"] = json!([one]),
        }
        Ok(())
    }
}

/// What is told of bytes that did not arrive in time; `rate` is of the model.
fn outlasting(bytes: f64, rate: f64, dilation: f64) -> String {
    format!(
        "; {:.2} MB more were in the send buffer or on their way when counting ended, \
         {:.1} s{} at this rate",
        bytes / 1e6,
        bytes * 8.0 / rate.max(1.0),
        if dilation == 1.0 {
            ""
        } else {
            " of model time"
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_outlasts_a_test_takes_the_time_that_its_rate_is_of() {
        let said = outlasting(4.22e6, 6.985e6, 3.0);
        assert!(
            said.ends_with(", 4.8 s of model time at this rate"),
            "{said}"
        );
        let said = outlasting(4.22e6, 6.985e6, 1.0);
        assert!(
            said.ends_with(" when counting ended, 4.8 s at this rate"),
            "{said}"
        );
    }

    #[test]
    fn what_no_emulated_host_tells_is_said_with_the_parameter_that_does() {
        let said = |words: &str, served: bool| {
            let known = crate::standard();
            let protocol = known.resolve_on(words, Substrate::Emu).expect("is known");
            untold(&protocol, served).join("\n")
        };
        for served in [false, true] {
            let told = said("tcp-ap05", served);
            assert!(
                told.contains("`bandwidth=` behind its name says it"),
                "{told}"
            );
            assert!(!told.contains("--serve tcp-ap05"), "{told}");
        }
        assert_eq!(said("tcp-ap05,bandwidth=24Mb/s", false), "");
        assert_eq!(said("tcp-newreno", false), "");
    }

    #[test]
    fn options_stand_behind_the_two_hosts() {
        let of = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let found = ends(&words).map_err(|why| why.to_string());
            found.map(|((a, b), rest)| format!("{a} {b}: {}", rest.join(" ")))
        };
        assert_eq!(of("n1 n3 -t 5"), Ok("n1 n3: -t 5".into()));
        for line in ["n1", "n1 -n 1M", "-C tcp-sack n1 n4"] {
            let why = of(line).expect_err(line);
            assert!(why.starts_with("write iperf FROM TO "), "{line}: {why}");
        }
    }

    #[test]
    fn what_was_asked_is_told_of_answers() {
        let all = |app: Json| json!({"wifu": {"application": app}});
        let told = asked(
            "n1",
            &all(json!({"asked_bytes": 1_590_000, "retransmits": 38})),
        );
        let words = "; that is of the answers, and n1 asked with 1.590 MB and 38 retransmissions";
        assert_eq!(told, words);
        assert_eq!(
            asked("n1", &all(json!({"retransmits": 38}))),
            "",
            "of http nobody asks"
        );
    }

    #[test]
    fn an_ampersand_ends_a_line_alone_or_at_a_word() {
        for (line, words, is_behind) in [
            ("n1 n3 -t 10 &", "n1 n3 -t 10", true),
            ("n1 n3&", "n1 n3", true),
            ("n1 n3", "n1 n3", false),
            ("n1 & n3", "n1 & n3", false),
        ] {
            let given: Vec<&str> = line.split(' ').collect();
            let (left, is) = behind(&given);
            assert_eq!((left.join(" ").as_str(), is), (words, is_behind), "{line}");
        }
    }
}
