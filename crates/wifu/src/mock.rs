//! `wifu mock`: a protocol over a network in virtual time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::{Value as Json, json};
use wifu_engine::{Blueprint, Value};
use wifu_node::{Registry, Substrate};
use wifu_sim::{Flow, Impair, LinkSpec, Mock, MockBuilder, Rules, Side, Span, Stop, csv};
use wifu_wire::units::parse_octets;

use crate::known::Known;
use crate::sim::{flows, number_of};

/// A run without an end in sight stops here.
const PATIENCE: Span = Span(86_400_000_000_000);

/// Smaller segments are not sent (`LEAST_MSS` of the part `handshake`).
const LEAST_MSS: u32 = 48;

/// Flows that the summary for people shows one by one.
const SHOWN: usize = 10;

const HELP: &str = "\
The network:

    sender --access-- router --bottleneck-- receiver

Nothing leaves the process and no clock is read: the same arguments give the same bytes in every
file. A rate counts IP packets. The router keeps at most --queue packets waiting behind the one it
is sending; one more is lost. Faults happen where packets enter the bottleneck.

Examples:

  What does NewReno send after losing three segments of one window (Fall and Floyd)?
    wifu mock --protocol tcp-newreno --access 8Mb/s,0.1ms --bottleneck 0.8Mb/s,100ms --queue 8 \\
      --drop 14,26,28 --bytes 1M --mss 1000 --set iw=2 --set rcv_wnd=28000 --trace out.csv

  One percent of loss each way, seen in Wireshark:
    wifu mock --protocol tcp-sack --loss 1% --ack-loss 1% --pcap out.pcapng

  Ten flows for a minute, summary for a program:
    wifu mock --protocol tcp-reno --flows 10 --time 60s --json

A rule file has one rule a line; # begins a comment; each rule catches one packet, in order:

  2 2 -1                 seq ack delay_us: delays this packet; -1 drops it. Numbers count as if
                         each side began with 1: SYN 1, first data byte 2; -1 is any number
  -1 -1 0.5              drops every packet with 0.5 percent
  data_index 14 drop     the 15th data segment, first transmission; also: delay 35000,
                         duplicate, corrupt

Columns of the trace: time_s, event (send, arrival, ack, drop, timeout), seq_index (data segment
from 0; for an ack the one it asks for), len, cwnd, ssthresh (bytes, at the sender, after the
event), retransmission (0, 1), reason (of sending again: timeout, dupack, partial, sack, probe; of
a drop: queue, index, random, rule, corrupt). With --flows above 1 a last column, flow.";

/// `wifu mock`.
#[derive(clap::Args)]
#[command(after_long_help = HELP, after_help = "Examples and file formats: wifu mock --help")]
pub struct Args {
    /// The protocol, parameters included if you like: tcp-newreno or tcp-newreno,iw=4
    ///
    /// `wifu list protocols` names them.
    /// Every TCP has the constants of `profile=rfc-modern` unless it names another profile.
    #[arg(long, short, value_name = "NAME")]
    protocol: String,
    #[command(flatten)]
    known: Known,
    /// Set a parameter, as often as wanted: --set iw=2 --set rcv_wnd=28000
    ///
    /// `wifu describe NAME` lists them.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<String>,
    /// Payload bytes of a segment; without it what the MTU allows
    #[arg(long, value_name = "OCTETS")]
    mss: Option<u32>,
    /// Rate and delay of the link from the sender to the router
    #[arg(long, value_name = "RATE,DELAY", default_value = "100Mb/s,0.1ms", value_parser = link)]
    access: LinkSpec,
    /// Rate and delay of the link from the router to the receiver
    #[arg(long, value_name = "RATE,DELAY", default_value = "10Mb/s,10ms", value_parser = link)]
    bottleneck: LinkSpec,
    /// Packets that may wait in the router behind the one being sent
    #[arg(long, value_name = "PACKETS", default_value_t = 100)]
    queue: usize,
    /// Largest IP packet
    #[arg(long, value_name = "OCTETS", default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(100..=65_535))]
    mtu: u32,
    /// What each flow sends: 200000, 1M, 64KiB [default: 1M, with --time no end]
    #[arg(long, value_name = "OCTETS", value_parser = octets)]
    bytes: Option<u64>,
    /// Stop after this much virtual time: 6s, 500ms
    #[arg(long, value_name = "TIME", value_parser = span)]
    time: Option<Span>,
    /// How many connections at once
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    flows: u32,
    /// Lose the first transmission of these data segments of the first flow, counted from 0
    #[arg(long, value_name = "INDEX,...", value_delimiter = ',',
          value_parser = index)]
    drop: Vec<u64>,
    /// Lose this share of the packets towards the receiver; per cent as `tc` has it, 0.5 is 0.5 %
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percent)]
    loss: Percent,
    /// Lose this share of the packets towards the sender; per cent as well
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percent)]
    ack_loss: Percent,
    /// Let this share of the packets towards the receiver be overtaken by up to N others
    #[arg(long, value_name = "PERCENT,N", value_parser = reorder)]
    reorder: Option<(Percent, u32)>,
    /// Deliver this share of the packets towards the receiver twice
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percent)]
    duplicate: Percent,
    /// Flip a bit in this share of the packets towards the receiver
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percent)]
    corrupt: Percent,
    /// Rules for single packets
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Decides everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write every event to this CSV file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the sender's packets to this capture file (pcapng)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Where to capture; both puts each packet into the file twice, one interface per end
    #[arg(long, value_name = "END", default_value = "sender", requires = "pcap")]
    pcap_at: End,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum End {
    Sender,
    Receiver,
    Both,
}

fn link(text: &str) -> Result<LinkSpec, String> {
    let (given, delay) = text
        .split_once(',')
        .ok_or("write rate and delay, such as 0.8Mb/s,100ms")?;
    let rate = given.parse::<wifu_sim::Rate>().map_err(|e| e.to_string())?;
    if rate == wifu_sim::Rate(0) {
        return Err("a rate of 0 sends nothing".into());
    }
    if wifu_wire::units::lacks_unit(given) {
        return Err(format!(
            "`{given}` would be {given} bit/s: write {given}Mb/s, or {given}bit"
        ));
    }
    let delay = delay.parse().map_err(|e| format!("{e}"))?;
    Ok(LinkSpec::new(rate, delay))
}

/// Per cent, and what was written if it may be meant for a share.
#[derive(Clone, Default)]
struct Percent(f64, Option<String>);

/// What is below it and has no sign is a share to most tools, and per cent to `tc`.
const EITHER: f64 = 1.0;

fn percent(text: &str) -> Result<Percent, String> {
    let bare = text.trim().trim_end_matches('%').trim();
    match bare.parse() {
        Ok(p) if (0.0..=100.0).contains(&p) => {
            let share = p > 0.0 && p < EITHER && bare == text;
            Ok(Percent(p, share.then(|| text.to_string())))
        }
        _ => Err("write a percentage from 0% to 100%, such as 1% or 0.1%".into()),
    }
}

fn reorder(text: &str) -> Result<(Percent, u32), String> {
    let wrong = "write a percentage and how many packets may overtake, such as 5%,3";
    let (share, by) = text.split_once(',').ok_or(wrong)?;
    match by.trim().parse() {
        Ok(by) if (1..=1000).contains(&by) => Ok((percent(share)?, by)),
        _ => Err(format!("{wrong} (1 to 1000 packets)")),
    }
}

/// What is to be said of percentages that look like shares.
fn shares(args: &Args) -> Vec<String> {
    let reordered = args.reorder.iter().map(|(p, _)| ("--reorder", p));
    let all = [
        ("--loss", &args.loss),
        ("--ack-loss", &args.ack_loss),
        ("--duplicate", &args.duplicate),
        ("--corrupt", &args.corrupt),
    ];
    let of = |(option, Percent(p, text)): (&str, &Percent)| {
        let text = text.as_deref()?;
        // Without the digits that a product of floats has too many.
        let meant = (p * 1e8).round() / 1e6;
        Some(format!(
            "{option} {text} is {text} %: write {text}% for that, or {meant}% for a share of {text}"
        ))
    };
    all.into_iter().chain(reordered).filter_map(of).collect()
}

fn index(text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .map_err(|_| "write indices of data segments, counted from 0, such as 14,26,28".into())
}

fn octets(text: &str) -> Result<u64, String> {
    parse_octets(text).map_err(|e| e.to_string())
}

fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|e| format!("{e}"))
}

fn assignment(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() && !text.contains(',') => {
            Ok(text.to_string())
        }
        _ => Err("write one KEY=VALUE, such as iw=2; repeat --set for more".into()),
    }
}

/// Run it.
///
/// # Errors
/// An argument that fits nothing, with its flag; a file that can't be read or written.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    let blueprint = blueprint(args, &args.known.with(registry)?)?;
    for note in shares(args) {
        eprintln!("Note: {note}");
    }
    let mut mock = network(args, &blueprint)?;
    let stop = mock.run(args.time.unwrap_or(PATIENCE));
    if let Some(path) = &args.trace {
        write(path, csv(mock.rows()).as_bytes(), "--trace")?;
    }
    if let Some(path) = &args.pcap {
        write(path, mock.capture(), "--pcap")?;
    }
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&summary(args, &blueprint, &mock))?
        );
    } else {
        report(args, &blueprint, &mock);
    }
    let problem = |flow| match (stop, args.time) {
        (Stop::Time, Some(_)) => broken(&mock, flow),
        _ => mock.verify(flow).err(),
    };
    let problems: Vec<String> = (0..mock.flows()).filter_map(problem).collect();
    for problem in problems.iter().take(SHOWN) {
        eprintln!("wifu: {problem}");
    }
    if problems.len() > SHOWN {
        eprintln!("wifu: {} more flows like these", problems.len() - SHOWN);
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What is wrong with a flow that may be unfinished.
fn broken(mock: &Mock, flow: usize) -> Option<String> {
    let got = mock.outcome(flow, Side::B);
    match (got.broken_at, got.fault()) {
        (Some(at), _) => Some(format!("flow {}: byte {at} is wrong", flow + 1)),
        (_, Some(fault)) => Some(format!("flow {}: ended with {fault:?}", flow + 1)),
        _ => None,
    }
}

/// The blueprint, each assignment checked by itself so that an error names its flag.
fn blueprint(args: &Args, registry: &Registry) -> anyhow::Result<Arc<Blueprint>> {
    let resolve = |spec: &str| {
        let protocol = registry.resolve_on(spec, Substrate::Mock)?;
        anyhow::Ok(Arc::clone(&protocol.ends))
    };
    let mut spec = args.protocol.clone();
    ensure!(
        spec.split(',').next() != Some("udp") || registry.resolve(&spec).is_ok(),
        "--protocol {spec}: this network carries connections alone; datagrams are flows of `wifu \
         sim`, over wires as well: wifu sim --topo linear,2,wire=10M,delay=10ms --flow \
         n1:n2:udp,rate=1M --stop 10s"
    );
    let mut blueprint = resolve(&spec).with_context(|| format!("--protocol {spec}"))?;
    let mss = args
        .mss
        .map(|mss| (format!("--mss {mss}"), format!("mss={mss}")));
    let sets = args.set.iter().map(|s| (format!("--set {s}"), s.clone()));
    for (flag, assignment) in mss.into_iter().chain(sets) {
        spec = format!("{spec},{assignment}");
        blueprint = resolve(&spec).context(flag.clone())?;
        fitting(&blueprint, args.mtu).context(flag)?;
    }
    crate::catalog::note_unused([&spec[..]], registry);
    if blueprint.wire.name() == "tcp" {
        // In a capture it is then what it is without further ado.
        let mut tcp = (*blueprint).clone();
        tcp.number = 6;
        blueprint = Arc::new(tcp);
    }
    Ok(blueprint)
}

/// Fails if segments of the size that was asked for can't be: the engine would take the nearest.
fn fitting(blueprint: &Blueprint, mtu: u32) -> anyhow::Result<()> {
    let Some(Value::Int(mss @ 1..)) = blueprint.value("mss") else {
        return Ok(());
    };
    let overhead = blueprint.overhead();
    let most = mtu.saturating_sub(overhead).max(LEAST_MSS);
    ensure!(
        (u64::from(LEAST_MSS)..=u64::from(most)).contains(&mss),
        "a segment carries {LEAST_MSS} to {most} bytes here: packets of {mtu} (--mtu) have \
         {overhead} bytes of headers, and no peer may ask for less than {LEAST_MSS}"
    );
    Ok(())
}

fn network(args: &Args, blueprint: &Arc<Blueprint>) -> anyhow::Result<Mock> {
    let rules = match &args.rules {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("--rules {}", path.display()))?;
            text.parse::<Rules>()
                .with_context(|| format!("--rules {}", path.display()))?
        }
        None => Rules::default(),
    };
    let (reorder, reorder_by) = args.reorder.clone().unwrap_or_default();
    let forth = Impair {
        loss: args.loss.0,
        duplicate: args.duplicate.0,
        corrupt: args.corrupt.0,
        reorder: reorder.0,
        reorder_by,
    };
    let back = Impair {
        loss: args.ack_loss.0,
        ..Impair::default()
    };
    let bytes = match (args.bytes, args.time) {
        (Some(bytes), _) => bytes,
        (None, None) => 1_000_000,
        (None, Some(_)) => u64::MAX,
    };
    let ends: &[Side] = match (&args.pcap, args.pcap_at) {
        (None, _) => &[],
        (_, End::Sender) => &[Side::A],
        (_, End::Receiver) => &[Side::B],
        (_, End::Both) => &Side::BOTH,
    };
    let mut builder = MockBuilder::new()
        .seed(args.seed)
        .mtu(args.mtu)
        .access(args.access)
        .bottleneck(args.bottleneck.queue(args.queue))
        .impair(Side::A, forth)
        .impair(Side::B, back)
        .rules(rules)
        .record(args.trace.is_some())
        .capture(ends);
    for n in 0..args.flows {
        let flow = Flow::bulk(blueprint, bytes);
        builder = builder.flow(if n == 0 {
            flow.drop_data(&args.drop)
        } else {
            flow
        });
    }
    Ok(builder.build())
}

fn write(path: &Path, octets: &[u8], flag: &str) -> anyhow::Result<()> {
    std::fs::write(path, octets).with_context(|| format!("{flag} {}", path.display()))
}

/// Seconds from the call to connect to the last byte read.
fn last_byte(mock: &Mock, flow: usize) -> Option<f64> {
    let last = mock.outcome(flow, Side::B).last_read_at?;
    Some((last - mock.asked_at(flow)).as_secs_f64())
}

fn summary(args: &Args, blueprint: &Blueprint, mock: &Mock) -> Json {
    let flow = |n: usize| {
        let (tally, got) = (mock.tally(n, Side::A), mock.outcome(n, Side::B));
        let mut told = json!({
            "flow": n + 1,
            "bytes_written": mock.outcome(n, Side::A).written,
            "bytes_delivered": got.read,
            "intact": got.broken_at.is_none(),
            "complete": mock.verify(n).is_ok(),
            "duration_s": mock.lasted(n, Side::B).as_secs_f64(),
            "last_byte_s": last_byte(mock, n),
            "goodput_bps": mock.goodput(n, Side::B),
            "data_segments": tally.segments,
            "retransmissions": tally.retransmissions,
        });
        // What no part of the composition counts is absent.
        for (key, value) in [
            ("timeouts", tally.timeouts),
            ("cwnd", tally.cwnd),
            ("ssthresh", tally.ssthresh),
        ] {
            if let Some(value) = value {
                told[key] = json!(value);
            }
        }
        told
    };
    let flows: Vec<Json> = (0..mock.flows()).map(flow).collect();
    let lost: serde_json::Map<String, Json> = mock
        .lost()
        .iter()
        .map(|(why, n)| (why.name().to_string(), json!(n)))
        .collect();
    json!({
        "protocol": blueprint.name,
        "composition": format!("{:08x}", blueprint.id),
        "seed": args.seed,
        "virtual_time_s": mock.elapsed().as_secs_f64(),
        "lost": lost,
        "rules_left": mock.rules_left(),
        "drops_left": mock.drops_left().iter().map(|d| d.2).collect::<Vec<_>>(),
        "flows": flows,
    })
}

fn report(args: &Args, blueprint: &Blueprint, mock: &Mock) {
    for n in 0..mock.flows().min(SHOWN) {
        eprintln!("{} {}", blueprint.name, one(mock, n));
    }
    if mock.flows() > 1 {
        eprintln!("{}", together(mock));
    }
    let lost: Vec<String> = mock
        .lost()
        .iter()
        .map(|(why, n)| format!("{n} {}", why.name()))
        .collect();
    if !lost.is_empty() {
        eprintln!("lost packets: {}", lost.join(", "));
    }
    for line in unmet(mock) {
        eprintln!("{line}");
    }
    for (path, what) in [(&args.trace, "trace"), (&args.pcap, "capture")] {
        if let Some(path) = path {
            eprintln!("{what}: {}", path.display());
        }
    }
}

/// One flow in one line.
fn one(mock: &Mock, n: usize) -> String {
    let (tally, got) = (mock.tally(n, Side::A), mock.outcome(n, Side::B));
    let asked = match mock.asked(n, Side::A) {
        u64::MAX => String::new(),
        _ if mock.complete(n, Side::B) => String::new(),
        asked => format!(" of {asked}, unfinished,"),
    };
    format!(
        "flow {}: {} bytes{asked} in {:.6} s, {:.3} Mb/s; {} data segments, {} retransmitted{}",
        n + 1,
        got.read,
        mock.lasted(n, Side::B).as_secs_f64(),
        mock.goodput(n, Side::B).unwrap_or_default() / 1e6,
        tally.segments,
        tally.retransmissions,
        timeouts(tally.timeouts)
    )
}

/// How many timeouts there were, if there can be any.
fn timeouts(count: Option<u32>) -> String {
    count.map_or_else(String::new, |n| {
        format!(", {}", number_of(n.into(), "timeout"))
    })
}

/// What was ordered and did not happen.
fn unmet(mock: &Mock) -> Vec<String> {
    let mut lines = Vec::new();
    match mock.rules_left() {
        0 => {}
        1 => lines.push("--rules: 1 rule met no packet".into()),
        n => lines.push(format!("--rules: {n} rules met no packet")),
    }
    let indices: Vec<String> = mock.drops_left().iter().map(|d| d.2.to_string()).collect();
    if !indices.is_empty() {
        let (which, what) = (
            indices.join(", "),
            if indices.len() == 1 { "" } else { "s" },
        );
        lines.push(format!(
            "--drop: no data segment{what} {which} to lose; they count from 0"
        ));
    }
    lines
}

/// What is to be said of the index of flows that were on at different times.
fn apart(mock: &Mock) -> String {
    let spans = (0..mock.flows()).map(|n| {
        let start = mock.asked_at(n);
        (start, start + mock.lasted(n, Side::B))
    });
    let (starts, ends): (Vec<_>, Vec<_>) = spans.unzip();
    let (Some(first), Some(latest)) = (starts.iter().min(), starts.iter().max()) else {
        return String::new();
    };
    let (Some(soonest), Some(last)) = (ends.iter().min(), ends.iter().max()) else {
        return String::new();
    };
    if soonest <= latest {
        return format!(" ({})", flows::on_together(false, 0.0));
    }
    let share = (*soonest - *latest).as_secs_f64() / (*last - *first).as_secs_f64();
    match flows::on_together(true, share) {
        said if said.is_empty() => said,
        said => format!(" ({said}, from the first start to the last end)"),
    }
}

/// All flows in one line, with Jain's index of their goodputs.
fn together(mock: &Mock) -> String {
    let flows = mock.flows();
    let goodput = |n| mock.goodput(n, Side::B).unwrap_or_default();
    let sum: f64 = (0..flows).map(goodput).sum();
    let squares: f64 = (0..flows).map(|n| goodput(n) * goodput(n)).sum();
    let jain = if squares > 0.0 {
        let jain = sum * sum / (flows as f64 * squares);
        format!("Jain {jain:.4}{}", apart(mock))
    } else {
        String::from("nobody got anything")
    };
    let octets: u64 = (0..flows).map(|n| mock.outcome(n, Side::B).read).sum();
    let tallies = || (0..flows).map(|n| mock.tally(n, Side::A));
    format!(
        "{flows} flows: {octets} bytes, {jain}; {} retransmitted{}",
        tallies().map(|t| t.retransmissions).sum::<u64>(),
        timeouts(tallies().map(|t| t.timeouts).sum())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn one_timeout_is_one() {
        let told = [None, Some(0), Some(1), Some(2)].map(timeouts);
        assert_eq!(told, ["", ", 0 timeouts", ", 1 timeout", ", 2 timeouts"]);
    }

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &str) -> Result<Args, String> {
        let words = std::iter::once("mock").chain(words.split_whitespace());
        let parsed = Only::try_parse_from(words);
        parsed.map(|o| o.args).map_err(|e| e.to_string())
    }

    const EXAMPLE: &str = "--protocol tcp-newreno --access 8Mb/s,0.1ms \
        --bottleneck 0.8Mb/s,100ms --queue 8 --drop 14,26,28 --bytes 1M --mss 1000 \
        --set iw=2 --set rcv_wnd=28000 --trace /dev/null --pcap /dev/null";

    #[test]
    fn the_example_of_the_help_loses_and_mends_three_segments() {
        let args = parse(EXAMPLE).unwrap();
        let blueprint = blueprint(&args, &crate::standard()).unwrap();
        let files = || {
            let mut mock = network(&args, &blueprint).unwrap();
            assert_eq!(mock.run(PATIENCE), Stop::Idle);
            assert_eq!(mock.verify(0), Ok(()));
            assert_eq!((mock.rules_left(), mock.drops_left().len()), (0, 0));
            assert_eq!(mock.tally(0, Side::A).retransmissions, 3);
            assert_eq!(mock.tally(0, Side::A).timeouts, Some(0));
            (csv(mock.rows()), mock.capture().to_vec())
        };
        let (trace, capture) = files();
        assert_eq!(trace.matches(",drop,").count(), 3);
        assert_eq!((trace, capture), files(), "same arguments, same bytes");
    }

    #[test]
    fn a_flow_that_is_not_finished_lasted_to_the_end_of_the_run() {
        let slow = "--protocol tcp-bbr --loss 50% --bottleneck 8Mb/s,20ms";
        let run = |words: &str| {
            let args = parse(&format!("{slow} --time 60s {words}")).unwrap();
            let blueprint = blueprint(&args, &crate::standard()).unwrap();
            let mut mock = network(&args, &blueprint).unwrap();
            mock.run(Span::SECOND * 60);
            let told = summary(&args, &blueprint, &mock)["flows"][0].clone();
            (one(&mock, 0), told)
        };
        let (said, told) = run("--bytes 5M");
        let bytes = told["bytes_delivered"].as_u64().unwrap();
        assert!(
            bytes > 0 && told["last_byte_s"].as_f64().unwrap() < 59.0,
            "{told}"
        );
        assert_eq!(told["duration_s"], 60.0);
        assert_eq!(told["goodput_bps"], bytes as f64 * 8.0 / 60.0);
        let line = format!("flow 1: {bytes} bytes of 5000000, unfinished, in 60.000000 s, 0.0");
        assert!(said.starts_with(&line), "{said}");
        // There is no end to reach.
        let (said, told) = run("");
        assert_eq!(told["duration_s"], 60.0);
        let line = format!("flow 1: {bytes} bytes in 60.000000 s, 0.0");
        assert!(said.starts_with(&line), "{said}");
        // What is finished lasted to its last byte.
        let (said, told) = run("--bytes 3000");
        assert_eq!(told["duration_s"], told["last_byte_s"]);
        assert!(said.starts_with("flow 1: 3000 bytes in "), "{said}");
    }

    #[test]
    fn what_was_ordered_and_met_nothing_is_named() {
        let args = parse("--protocol tcp-reno --bytes 10000 --drop 2,700,900").unwrap();
        let blueprint = blueprint(&args, &crate::standard()).unwrap();
        let mut mock = network(&args, &blueprint).unwrap();
        mock.run(PATIENCE);
        let expected = "--drop: no data segments 700, 900 to lose; they count from 0";
        assert_eq!(unmet(&mock), [expected]);
        assert_eq!(
            summary(&args, &blueprint, &mock)["drops_left"],
            json!([700, 900])
        );
    }

    #[test]
    fn percentages_that_look_like_shares_are_noted() {
        let notes = |words: &str| shares(&parse(&format!("--protocol tcp-reno {words}")).unwrap());
        for (text, meant) in [("0.005", "0.5"), ("0.05", "5"), ("0.5", "50")] {
            let said =
                format!("is {text} %: write {text}% for that, or {meant}% for a share of {text}");
            let noted = notes(&format!("--loss {text}"));
            assert_eq!(noted, [format!("--loss {text} {said}")]);
        }
        let both = notes("--ack-loss 0.005 --reorder 0.005,3");
        assert_eq!(both.len(), 2, "{both:?}");
        let clear = "--loss 0.5% --ack-loss 0.005% --duplicate 1 --corrupt 0";
        assert_eq!(notes(clear), [""; 0]);
    }

    #[test]
    fn datagrams_are_sent_elsewhere() {
        for words in ["--protocol udp", "--protocol udp,rate=1M"] {
            let args = parse(words).unwrap();
            let message = format!("{:#}", blueprint(&args, &crate::standard()).unwrap_err());
            assert!(message.starts_with(words), "{message}");
            assert!(message.contains("--flow n1:n2:udp,rate=1M"), "{message}");
        }
    }

    #[test]
    fn errors_name_the_flag_and_what_would_be_right() {
        let wrong = |words: &str| match parse(&format!("--protocol tcp-newreno {words}")) {
            Err(message) => message,
            Ok(args) => match blueprint(&args, &crate::standard()).and_then(|b| network(&args, &b))
            {
                Err(error) => format!("{error:#}"),
                Ok(_) => panic!("{words} was taken"),
            },
        };
        let cases = [
            ("--access 8Mb/s", "--access", "such as 0.8Mb/s,100ms"),
            ("--bottleneck 5Mb/s,3ms,1", "--bottleneck", "unit of time"),
            (
                "--bottleneck 10,20ms",
                "--bottleneck",
                "10 bit/s: write 10Mb/s",
            ),
            ("--bottleneck 5x,3ms", "--bottleneck", "24 Mb/s"),
            ("--loss 101%", "--loss", "0% to 100%"),
            ("--reorder 5%", "--reorder", "such as 5%,3"),
            ("--time 6", "--time", "unit of time"),
            ("--set iw", "--set", "such as iw=2"),
            ("--set iww=2", "--set iww=2", "did you mean `iw`"),
            ("--bytes lots", "--bytes", "number"),
            ("--drop a", "--drop", "such as 14,26,28"),
            ("--mss 10", "--mss 10", "48 to 1448 bytes"),
            ("--mss 3000", "--mss 3000", "48 to 1448 bytes"),
            ("--set mss=47", "--set mss=47", "48 to 1448 bytes"),
            ("--mtu 576 --mss 525", "--mss 525", "48 to 524 bytes"),
            (
                "--rules /nonexistent/rules",
                "--rules",
                "/nonexistent/rules",
            ),
        ];
        for (words, flag, hint) in cases {
            let message = wrong(words);
            assert!(message.contains(flag), "{words}: {message}");
            assert!(message.contains(hint), "{words}: {message}");
        }
        let args = parse("--protocol tcp-newren").unwrap();
        let message = format!("{:#}", blueprint(&args, &crate::standard()).unwrap_err());
        assert!(message.contains("--protocol tcp-newren"), "{message}");
        assert!(message.contains("did you mean `tcp-newreno`"), "{message}");
    }
}
