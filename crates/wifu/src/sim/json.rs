//! The outcome in the shape of iperf3's JSON, with everything that the simulator knows below a key
//! named `wifu`. Nothing of this machine is in it: the same scenario gives the same octets.

use serde_json::{Value as Json, json};
use wifu_sim::outcome::{FlowOutcome, Outcome, Series};
use wifu_sim::scenario::Scenario;

/// iperf3's keys. `interval` in seconds. The clock is the simulation's: it begins at 0.
pub fn iperf(scenario: &Scenario, outcome: &Outcome, interval: f64) -> Json {
    let connected: Vec<Json> = outcome.flows.iter().map(connected).collect();
    let mut wifu = outcome.to_json();
    wifu["substrate"] = json!("sim");
    wifu["jain"] = json!(outcome.jain());
    wifu["scenario"] = scenario.to_json();
    let mut start = json!({
        "connected": connected,
        "version": concat!("wifu ", env!("CARGO_PKG_VERSION")),
        "system_info": "simulated",
        "timestamp": {"time": "Thu, 01 Jan 1970 00:00:00 GMT", "timesecs": 0,
            "timemillisecs": 0},
        // What tells one run from another.
        "cookie": outcome.trace_hash,
        "test_start": test_start(scenario, outcome, interval),
    });
    if let Some(f) = outcome.flows.first() {
        start["connecting_to"] = json!({"host": f.to, "port": f.port});
    }
    json!({
        "start": start,
        "intervals": intervals(outcome, interval),
        "end": end(outcome),
        "wifu": wifu,
    })
}

/// As in iperf3, 0 bytes are no limit and a target of 0 is none. What only one flow can have is
/// the first one's.
fn test_start(scenario: &Scenario, outcome: &Outcome, interval: f64) -> Json {
    let asked = scenario.flow.iter().filter_map(|f| f.bytes);
    let bytes: u64 = asked.map(|b| b.0).sum();
    let target = scenario.flow.first().and_then(|f| f.rate);
    let first = outcome.flows.first();
    let mut start = json!({
        "protocol": first.map_or("", |f| f.protocol.as_str()),
        "num_streams": outcome.flows.len(), "omit": 0, "duration": outcome.sim_seconds,
        "bytes": bytes, "blocks": 0, "reverse": 0, "tos": 0,
        "target_bitrate": target.map_or(0, |r| r.0.0), "bidir": 0, "fqrate": 0,
        "interval": interval,
    });
    // A stream is not written in blocks.
    if let Some(size) = first.and_then(|f| f.datagram) {
        start["blksize"] = json!(size);
    }
    start
}

fn connected(f: &FlowOutcome) -> Json {
    let mut all = json!({"socket": f.id, "local_host": f.from, "remote_host": f.to,
        "remote_port": f.port});
    if let Some(port) = f.sender_port {
        all["local_port"] = json!(port);
    }
    all
}

/// Last value at or before `at`.
fn value_at(series: Option<&Series>, at: f64) -> Option<f64> {
    let series = series?;
    let after = series.partition_point(|(t, _)| *t <= at);
    Some(series.get(after.checked_sub(1)?)?.1)
}

fn intervals(outcome: &Outcome, interval: f64) -> Vec<Json> {
    let mut all = Vec::new();
    let mut n = 0u32;
    loop {
        let start = f64::from(n) * interval;
        if start >= outcome.sim_seconds {
            return all;
        }
        let end = (start + interval).min(outcome.sim_seconds);
        let rows: Vec<Json> = outcome
            .flows
            .iter()
            .map(|f| row(outcome, f, start, end))
            .collect();
        let sum = |of: &dyn Fn(&Json) -> Option<u64>| -> Option<u64> {
            let values = rows.iter().filter_map(of);
            values.fold(None, |all, n| Some(all.unwrap_or(0) + n))
        };
        let bytes = sum(&|r| r["bytes"].as_u64()).unwrap_or(0);
        let arrived = sum(&|r| r["wifu"]["received"]["bytes"].as_u64()).unwrap_or(0);
        let mut all_rows = json!({"start": start, "end": end, "seconds": end - start,
            "bytes": bytes, "bits_per_second": rate(bytes, end - start), "omitted": false,
            "sender": true, "wifu": {"received": {"bytes": arrived,
                "bits_per_second": rate(arrived, end - start)}}});
        for key in ["retransmits", "packets"] {
            if let Some(n) = sum(&|r| r[key].as_u64()) {
                all_rows[key] = json!(n);
            }
        }
        if let Some(n) = sum(&|r| r["wifu"]["received"]["packets"].as_u64()) {
            all_rows["wifu"]["received"]["packets"] = json!(n);
        }
        all.push(json!({"streams": rows, "sum": all_rows}));
        n += 1;
    }
}

/// As from iperf3's client, which sends, bytes and packets are the sender's, and so are windows
/// and times, once it has any. What arrived is below `wifu`.
fn row(outcome: &Outcome, f: &FlowOutcome, start: f64, end: f64) -> Json {
    let series = |what: &str| outcome.series.get(&format!("flow.{}.{what}", f.id));
    // An interval begins behind its start, but for the first one.
    let count = |what: &str| {
        let at = |t| value_at(series(what), t).unwrap_or(0.0);
        let before = if start == 0.0 { 0.0 } else { at(start) };
        (at(end) - before).max(0.0) as u64
    };
    // What happens at the very end of the run belongs to the last interval.
    let last = end >= outcome.sim_seconds;
    let within = |t: f64| t > start && (t <= end || last) || t == 0.0 && start == 0.0;
    let points = |what: &str| {
        let all = series(what).map_or(&[][..], Vec::as_slice);
        all.iter().filter(|p| within(p.0))
    };
    let (bytes, arrived) = (count("offered"), count("delivered"));
    let seconds = end - start;
    let mut row = json!({
        "socket": f.id, "start": start, "end": end, "seconds": seconds, "bytes": bytes,
        "bits_per_second": rate(bytes, seconds), "omitted": false, "sender": true,
        "wifu": {"from": f.from, "to": f.to, "hops": f.hops,
            "received": {"bytes": arrived, "bits_per_second": rate(arrived, seconds)}},
    });
    if f.datagram.is_some() {
        // Each has its point.
        row["packets"] = json!(points("offered").count());
        row["wifu"]["received"]["packets"] = json!(points("delivered").count());
        return row;
    }
    row["retransmits"] = json!(points("sent").filter(|p| p.1 < 0.0).count());
    if let Some(srtt) = value_at(series("srtt"), end) {
        row["rtt"] = json!((srtt * 1e6) as u64);
    }
    if let Some(cwnd) = value_at(series("cwnd"), end) {
        row["snd_cwnd"] = json!(cwnd as u64);
    }
    row
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

fn end(outcome: &Outcome) -> Json {
    let streams = outcome.flows.iter().map(|f| {
        let mut both = json!({"sender": sender(outcome, f), "receiver": receiver(f)});
        if f.datagram.is_some() {
            // Where iperf3 has what it says of datagrams.
            both["udp"] = receiver(f);
        }
        both
    });
    let mut end = json!({
        "streams": streams.collect::<Vec<Json>>(),
        "sum_sent": sum(outcome, true),
        "sum_received": sum(outcome, false),
        // Parsers want it; simulated hosts need no time to compute.
        "cpu_utilization_percent": {"host_total": 0, "host_user": 0, "host_system": 0,
            "remote_total": 0, "remote_user": 0, "remote_system": 0},
    });
    // As iperf3 has it, of datagrams alone.
    let datagrams: Vec<&FlowOutcome> = outcome
        .flows
        .iter()
        .filter(|f| f.datagram.is_some())
        .collect();
    if !datagrams.is_empty() {
        end["sum"] = sum_of(outcome, &datagrams, false);
    }
    end
}

/// When the sender was done, or the run, seconds. Of datagrams that is when the one after the last
/// would have left.
fn sender_end(outcome: &Outcome, f: &FlowOutcome) -> f64 {
    let sent = outcome.series.get(&format!("flow.{}.offered", f.id));
    // Pauses have no such gap.
    let steady = f.datagram.is_some() && f.app != "onoff" && f.app != "trace";
    if let (Some([(first, _), .., (last, _)]), true) = (sent.map(Vec::as_slice), steady) {
        let gap = (last - first) / (sent.map_or(2, Vec::len) - 1) as f64;
        return (last + gap).min(outcome.sim_seconds);
    }
    let known = if f.finished { f.known_s } else { None };
    known.unwrap_or_else(|| f.until_s.max(f.start_s).min(outcome.sim_seconds))
}

/// All flows together, from the first one's start to the last one's end.
fn sum(outcome: &Outcome, sender: bool) -> Json {
    sum_of(outcome, &outcome.flows.iter().collect::<Vec<_>>(), sender)
}

/// Some flows together.
fn sum_of(outcome: &Outcome, flows: &[&FlowOutcome], sender: bool) -> Json {
    let until = |f: &FlowOutcome| match sender {
        true => sender_end(outcome, f),
        false => f.until_s,
    };
    let flows = || flows.iter().copied();
    let start = flows().map(|f| f.start_s).reduce(f64::min);
    let end = flows().map(until).reduce(f64::max);
    let (start, end) = (start.unwrap_or(0.0), end.unwrap_or(0.0));
    let bytes = |f: &FlowOutcome| if sender { f.sent_bytes } else { f.bytes };
    let mut all = span(start, end, flows().map(bytes).sum(), sender);
    let (udp, tcp): (Vec<&FlowOutcome>, Vec<&FlowOutcome>) =
        flows().partition(|f| f.datagram.is_some());
    if sender && !tcp.is_empty() {
        let again: u64 = tcp.iter().map(|f| f.retransmissions).sum();
        all["retransmits"] = json!(again);
        let copies: u64 = tcp.iter().map(|f| f.packets.copies).sum();
        if copies > 0 {
            all["copies_of_nodes"] = json!(copies);
        }
    }
    if !udp.is_empty() {
        let packets: u64 = udp.iter().map(|f| f.packets.sent).sum();
        all["packets"] = json!(packets);
    }
    if !sender && !udp.is_empty() {
        lost(&mut all, &udp);
    }
    all
}

fn span(start: f64, end: f64, bytes: u64, sender: bool) -> Json {
    let seconds = (end - start).max(0.0);
    json!({"start": start, "end": end, "seconds": seconds, "bytes": bytes,
        "bits_per_second": rate(bytes, seconds), "sender": sender})
}

/// What became of datagrams. Those on their way at the end are neither lost nor counted as sent.
fn lost(all: &mut Json, flows: &[&FlowOutcome]) {
    let lost: u64 = flows.iter().map(|f| f.packets.lost()).sum();
    let arrived: u64 = flows.iter().map(|f| f.packets.delivered).sum();
    let packets = lost + arrived;
    all["packets"] = json!(packets);
    all["lost_packets"] = json!(lost);
    all["lost_percent"] = json!(lost as f64 * 100.0 / packets.max(1) as f64);
    // As in iperf3, of several flows the mean.
    let jitters: Vec<f64> = flows.iter().filter_map(|f| f.jitter_s).collect();
    if !jitters.is_empty() {
        let mean = jitters.iter().sum::<f64>() / jitters.len() as f64;
        all["jitter_ms"] = json!(mean * 1e3);
    }
}

fn receiver(f: &FlowOutcome) -> Json {
    let mut side = span(f.start_s, f.until_s, f.bytes, false);
    side["socket"] = json!(f.id);
    if f.datagram.is_some() {
        lost(&mut side, &[f]);
    }
    side
}

fn sender(outcome: &Outcome, f: &FlowOutcome) -> Json {
    let mut side = span(f.start_s, sender_end(outcome, f), f.sent_bytes, true);
    side["socket"] = json!(f.id);
    if f.datagram.is_some() {
        side["packets"] = json!(f.packets.sent);
        return side;
    }
    let series = |what: &str| {
        let found = outcome.series.get(&format!("flow.{}.{what}", f.id));
        found.map_or(&[][..], Vec::as_slice).iter().map(|p| p.1)
    };
    let micros = |s: f64| (s * 1e6) as u64;
    side["retransmits"] = json!(f.retransmissions);
    if f.packets.copies > 0 {
        side["copies_of_nodes"] = json!(f.packets.copies);
    }
    if let Some(last) = f.cwnd {
        side["max_snd_cwnd"] = json!(series("cwnd").fold(last as f64, f64::max) as u64);
    }
    // The last round trips may be of the very event that ends the run, behind the last point.
    let trips = || series("srtt").chain(f.srtt_s);
    if let Some(most) = trips().reduce(f64::max) {
        let mean = trips().sum::<f64>() / trips().count() as f64;
        side["max_rtt"] = json!(micros(most));
        side["mean_rtt"] = json!(micros(mean));
    }
    if let Some(least) = f.min_rtt_s {
        side["min_rtt"] = json!(micros(least));
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let flow = FlowOutcome {
            id: 1,
            from: "n1".into(),
            to: "n3".into(),
            protocol: "tcp-reno".into(),
            bytes: 3000,
            sent_bytes: 4000,
            finished: true,
            last_byte_s: Some(2.4),
            until_s: 2.4,
            known_s: Some(2.5),
            port: 10_000,
            sender_port: Some(32_768),
            goodput_bps: 10_000.0,
            retransmissions: 1,
            cwnd: Some(2000),
            ..FlowOutcome::default()
        };
        let series = [
            (
                "delivered",
                vec![(0.5, 1000.0), (1.5, 2500.0), (2.5, 3000.0)],
            ),
            (
                "offered",
                vec![(0.1, 1460.0), (0.2, 2920.0), (1.0, 3500.0), (2.5, 4000.0)],
            ),
            ("cwnd", vec![(0.0, 4000.0), (2.0, 2000.0)]),
            ("srtt", vec![(0.5, 0.02), (2.2, 0.04)]),
            ("sent", vec![(0.1, 0.0), (0.2, 1460.0), (1.1, -1.0)]),
        ];
        Outcome {
            sim_seconds: 2.5,
            flows: vec![flow],
            series: series
                .into_iter()
                .map(|(name, s)| (format!("flow.1.{name}"), s))
                .collect(),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_rate_of_datagrams_is_over_the_time_in_which_they_left() {
        let mut outcome = outcome();
        outcome.flows[0].datagram = Some(1000);
        (outcome.flows[0].known_s, outcome.flows[0].until_s) = (None, 2.5);
        let sent = [(0.0, 1000.0), (0.5, 2000.0), (1.0, 3000.0), (1.5, 4000.0)];
        outcome.series.insert("flow.1.offered".into(), sent.into());
        let all = iperf(&Scenario::default(), &outcome, 1.0);
        for side in [&all["end"]["streams"][0]["sender"], &all["end"]["sum_sent"]] {
            assert_eq!(
                (&side["seconds"], &side["bits_per_second"]),
                (&json!(2.0), &json!(16_000.0))
            );
        }
    }

    #[test]
    fn who_has_no_window_tells_of_none() {
        let mut outcome = outcome();
        outcome.series.remove("flow.1.cwnd");
        outcome.flows[0].cwnd = None;
        outcome.flows[0].srtt_s = Some(0.5);
        let all = iperf(&Scenario::default(), &outcome, 1.0);
        let row = &all["intervals"][0]["streams"][0];
        let sender = &all["end"]["streams"][0]["sender"];
        assert!(row["rtt"].is_number() && row.get("snd_cwnd").is_none());
        assert!(sender.get("max_snd_cwnd").is_none());
        assert_eq!(sender["max_rtt"], 500_000, "that of the end, too");
    }

    #[test]
    fn the_shape_is_iperf3s() {
        let all = iperf(&Scenario::default(), &outcome(), 1.0);
        let rows: Vec<&Json> = all["intervals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| &i["streams"][0])
            .collect();
        let column = |key: &str| {
            rows.iter()
                .map(|r| r[key].as_f64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(column("bytes"), [3500.0, 0.0, 500.0], "the sender's");
        let arrived = |r: &&Json| r["wifu"]["received"]["bytes"].as_u64().unwrap();
        let arrived: Vec<u64> = rows.iter().map(arrived).collect();
        assert_eq!(arrived, [1000, 1500, 500]);
        let sums = &all["intervals"][0]["sum"];
        assert_eq!(
            (&sums["bytes"], &sums["wifu"]["received"]["bytes"]),
            (&json!(3500), &json!(1000))
        );
        assert_eq!(
            (&sums["sender"], &rows[0]["sender"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(column("retransmits"), [0.0, 1.0, 0.0]);
        assert_eq!(column("rtt"), [20_000.0, 20_000.0, 40_000.0]);
        assert_eq!(column("snd_cwnd"), [4000.0, 2000.0, 2000.0]);
        assert_eq!(column("end"), [1.0, 2.0, 2.5]);
        assert_eq!(rows[2]["bits_per_second"], 8000.0);
        assert_eq!(all["end"]["sum_received"]["bits_per_second"], 10_000.0);
        let sender = &all["end"]["streams"][0]["sender"];
        assert_eq!(sender.get("copies_of_nodes"), None);
        let mut laned = outcome();
        laned.flows[0].packets.copies = 7;
        let told = iperf(&Scenario::default(), &laned, 1.0);
        for side in [
            &told["end"]["sum_sent"],
            &told["end"]["streams"][0]["sender"],
        ] {
            assert_eq!(side["copies_of_nodes"], 7);
        }
        assert_eq!(sender["max_snd_cwnd"], 4000);
        assert_eq!(
            (&sender["max_rtt"], &sender["mean_rtt"]),
            (&json!(40_000), &json!(30_000))
        );
        assert_eq!(
            (&sender["bytes"], &sender["seconds"]),
            (&json!(4000), &json!(2.5))
        );
        assert_eq!(sender["bits_per_second"], 12_800.0);
        let sent = &all["end"]["sum_sent"];
        assert_eq!(
            (&sent["bytes"], &sent["retransmits"]),
            (&json!(4000), &json!(1))
        );
        assert_eq!(sent["bits_per_second"], 12_800.0);
        let receiver = &all["end"]["streams"][0]["receiver"];
        assert_eq!(receiver["bytes"], 3000);
        assert_eq!(receiver["bits_per_second"], 10_000.0);
        let start = &all["start"];
        assert_eq!(
            start["connecting_to"],
            json!({"host": "n3", "port": 10_000})
        );
        let ends = &start["connected"][0];
        assert_eq!(
            (&ends["local_port"], &ends["remote_port"]),
            (&json!(32_768), &json!(10_000))
        );
        assert_eq!(
            start["test_start"].get("blksize"),
            None,
            "a stream has no blocks"
        );
        assert_eq!(all["wifu"]["substrate"], "sim");
        assert_eq!(all["wifu"]["flows"][0]["to"], "n3");
        assert_eq!(all["wifu"]["scenario"]["seed"], 1);
    }

    #[test]
    fn datagrams_have_packets_losses_and_jitter_and_no_windows() {
        let mut outcome = outcome();
        let flow = &mut outcome.flows[0];
        (flow.protocol, flow.datagram) = ("udp".into(), Some(1000));
        (flow.jitter_s, flow.finished, flow.until_s) = (Some(0.0005), false, 2.5);
        flow.packets = wifu_sim::outcome::PacketOutcome {
            sent: 6,
            delivered: 3,
            queue: 1,
            wire: 1,
            inside: 1,
            ..Default::default()
        };
        let text = "[[flow]]\nfrom = \"n1\"\nto = \"n3\"\nprotocol = \"udp\"\nrate = 2000000";
        let scenario = Scenario::from_toml(text).unwrap();
        let all = iperf(&scenario, &outcome, 1.0);
        let start = &all["start"]["test_start"];
        assert_eq!(
            (&start["blksize"], &start["target_bitrate"]),
            (&json!(1000), &json!(2_000_000))
        );
        let stream = &all["end"]["streams"][0];
        for side in [&stream["udp"], &stream["receiver"], &all["end"]["sum"]] {
            assert_eq!(
                (&side["packets"], &side["lost_packets"]),
                (&json!(5), &json!(2))
            );
            assert_eq!(
                (&side["lost_percent"], &side["jitter_ms"]),
                (&json!(40.0), &json!(0.5))
            );
        }
        assert_eq!(
            (&stream["sender"]["packets"], &stream["sender"]["bytes"]),
            (&json!(6), &json!(4000))
        );
        assert_eq!(stream["sender"].get("retransmits"), None);
        assert_eq!(all["end"]["sum_sent"].get("retransmits"), None);
        let packets = |i: usize| {
            all["intervals"][i]["streams"][0]["packets"]
                .as_u64()
                .unwrap()
        };
        assert_eq!([packets(0), packets(1), packets(2)], [3, 0, 1]);
        let first = &all["intervals"][0]["sum"];
        assert_eq!(
            (&first["packets"], &first["wifu"]["received"]["packets"]),
            (&json!(3), &json!(1))
        );
    }
}
