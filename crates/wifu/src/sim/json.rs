//! The outcome in the shape of iperf3's JSON, with everything that the simulator knows below a key
//! named `wifu`. Nothing of this machine is in it: the same scenario gives the same octets.

use serde_json::{Value as Json, json};
use wifu_sim::outcome::{FlowOutcome, Outcome, Series};
use wifu_sim::scenario::Scenario;

/// iperf3's keys. `interval` in seconds.
pub fn iperf(scenario: &Scenario, outcome: &Outcome, interval: f64) -> Json {
    let connected: Vec<Json> = outcome.flows.iter().map(connected).collect();
    let protocol = outcome.flows.first().map_or("", |f| f.protocol.as_str());
    let bytes: u64 = scenario
        .flow
        .iter()
        .filter_map(|f| f.bytes)
        .map(|b| b.0)
        .sum();
    let mut wifu = outcome.to_json();
    wifu["substrate"] = json!("sim");
    wifu["jain"] = json!(outcome.jain());
    wifu["scenario"] = scenario.to_json();
    json!({
        "start": {
            "connected": connected,
            "version": concat!("wifu ", env!("CARGO_PKG_VERSION")),
            "system_info": "simulated",
            "timestamp": {"time": "Thu, 01 Jan 1970 00:00:00 GMT", "timesecs": 0,
                "timemillisecs": 0},
            "test_start": {
                "protocol": protocol, "num_streams": outcome.flows.len(), "blksize": 0, "omit": 0,
                "duration": outcome.sim_seconds, "bytes": bytes, "blocks": 0, "reverse": 0,
                "tos": 0, "target_bitrate": 0, "bidir": 0, "fqrate": 0, "interval": interval,
            },
        },
        "intervals": intervals(outcome, interval),
        "end": end(outcome),
        "wifu": wifu,
    })
}

fn connected(f: &FlowOutcome) -> Json {
    json!({"socket": f.id, "local_host": f.from, "local_port": 0, "remote_host": f.to,
        "remote_port": 0})
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
        let bytes: u64 = rows.iter().filter_map(|r| r["bytes"].as_u64()).sum();
        let again: u64 = rows.iter().filter_map(|r| r["retransmits"].as_u64()).sum();
        all.push(json!({
            "streams": rows,
            "sum": {"start": start, "end": end, "seconds": end - start, "bytes": bytes,
                "bits_per_second": rate(bytes, end - start), "retransmits": again,
                "omitted": false, "sender": false},
        }));
        n += 1;
    }
}

/// Octets are those that the receiver's application got; windows and times are the sender's.
fn row(outcome: &Outcome, f: &FlowOutcome, start: f64, end: f64) -> Json {
    let series = |what: &str| outcome.series.get(&format!("flow.{}.{what}", f.id));
    let delivered = |at| value_at(series("delivered"), at).unwrap_or(0.0);
    let bytes = (delivered(end) - delivered(start)).max(0.0) as u64;
    let mut row = json!({
        "socket": f.id, "start": start, "end": end, "seconds": end - start, "bytes": bytes,
        "bits_per_second": rate(bytes, end - start), "omitted": false, "sender": false,
        "wifu": {"from": f.from, "to": f.to, "hops": f.hops},
    });
    if f.protocol != "udp" {
        let sent = series("sent").map_or(&[][..], Vec::as_slice);
        let again = sent
            .iter()
            .filter(|(t, v)| (start..end).contains(t) && *v < 0.0);
        row["retransmits"] = json!(again.count());
        let srtt = value_at(series("srtt"), end).unwrap_or(0.0);
        row["rtt"] = json!((srtt * 1e6) as u64);
        row["snd_cwnd"] = json!(value_at(series("cwnd"), end).unwrap_or(0.0) as u64);
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
    let streams: Vec<Json> = outcome
        .flows
        .iter()
        .map(|f| json!({"sender": side(outcome, f, true), "receiver": side(outcome, f, false)}))
        .collect();
    let bytes: u64 = outcome.flows.iter().map(|f| f.bytes).sum();
    let bps: f64 = outcome.flows.iter().map(|f| f.goodput_bps).sum();
    let again: u64 = outcome.flows.iter().map(|f| f.retransmissions).sum();
    let sum = |sender: bool| {
        let mut sum = json!({"start": 0, "end": outcome.sim_seconds,
            "seconds": outcome.sim_seconds, "bytes": bytes, "bits_per_second": bps,
            "sender": sender});
        if sender {
            sum["retransmits"] = json!(again);
        }
        sum
    };
    json!({
        "streams": streams,
        "sum_sent": sum(true),
        "sum_received": sum(false),
        "cpu_utilization_percent": {"host_total": 0, "host_user": 0, "host_system": 0,
            "remote_total": 0, "remote_user": 0, "remote_system": 0},
    })
}

fn side(outcome: &Outcome, f: &FlowOutcome, sender: bool) -> Json {
    let until = if f.finished { f.last_byte_s } else { None };
    let end = until.unwrap_or(outcome.sim_seconds);
    let mut side = json!({"socket": f.id, "start": f.start_s, "end": end,
        "seconds": end - f.start_s, "bytes": f.bytes, "bits_per_second": f.goodput_bps,
        "sender": sender});
    if sender && f.protocol != "udp" {
        let series = |what: &str| {
            let found = outcome.series.get(&format!("flow.{}.{what}", f.id));
            found.map_or(&[][..], Vec::as_slice).iter().map(|p| p.1)
        };
        let micros = |s: f64| (s * 1e6) as u64;
        let most = series("srtt").fold(0.0, f64::max);
        let count = series("srtt").count().max(1);
        let mean = series("srtt").sum::<f64>() / count as f64;
        side["retransmits"] = json!(f.retransmissions);
        side["max_snd_cwnd"] = json!(series("cwnd").fold(f.cwnd as f64, f64::max) as u64);
        side["max_rtt"] = json!(micros(most));
        side["min_rtt"] = json!(micros(f.min_rtt_s.unwrap_or(0.0)));
        side["mean_rtt"] = json!(micros(mean));
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
            finished: true,
            last_byte_s: Some(2.5),
            goodput_bps: 9600.0,
            retransmissions: 1,
            ..FlowOutcome::default()
        };
        let series = [
            (
                "delivered",
                vec![(0.5, 1000.0), (1.5, 2500.0), (2.5, 3000.0)],
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
        assert_eq!(column("bytes"), [1000.0, 1500.0, 500.0]);
        assert_eq!(column("retransmits"), [0.0, 1.0, 0.0]);
        assert_eq!(column("rtt"), [20_000.0, 20_000.0, 40_000.0]);
        assert_eq!(column("snd_cwnd"), [4000.0, 2000.0, 2000.0]);
        assert_eq!(column("end"), [1.0, 2.0, 2.5]);
        assert_eq!(rows[2]["bits_per_second"], 8000.0);
        assert_eq!(all["end"]["sum_received"]["bits_per_second"], 9600.0);
        let sender = &all["end"]["streams"][0]["sender"];
        assert_eq!(sender["max_snd_cwnd"], 4000);
        assert_eq!(
            (&sender["max_rtt"], &sender["mean_rtt"]),
            (&json!(40_000), &json!(30_000))
        );
        assert_eq!(all["wifu"]["substrate"], "sim");
        assert_eq!(all["wifu"]["flows"][0]["to"], "n3");
        assert_eq!(all["wifu"]["scenario"]["seed"], 1);
    }
}
