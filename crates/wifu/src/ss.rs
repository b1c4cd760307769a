//! `wifu ss`: the daemon's connections, in the layout of `ss -ti`.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args as ClapArgs;
use serde_json::{Value, json};
use wifu_engine::quantity;
use wifu_node::Registry;
use wifu_wire::front::Request;

use crate::front;
use crate::known::Libraries;

/// `wifu ss`.
#[derive(ClapArgs)]
#[command(
    after_help = "Each connection's second line has the words of `ss -ti`: cwnd and \
    ssthresh in segments, rtt:smoothed/variation in ms (- before one was timed), rto in ms, retrans:total,\n\
    delivery_rate: what the peer acknowledged in the latest round trip, or second if that takes \
    longer;\nit falls in a stall, and with nothing in flight, so in TIME-WAIT, it stays; and ours:\n\
    limited:REASON, what holds the sender up now, and the share of its time that each reason took,\n\
    until all that it ever sends, the FIN included, was acknowledged\n(window: congestion window; \
    peer: the receiver's window; source: nothing to send; drain: all sent;\nbuffer: all that the \
    send buffer holds is sent). Where it says rtt_with_repairs, round-trip times\nare from when a \
    packet left first, with what it waited to be repaired."
)]
pub struct Args {
    /// The daemon's socket [default: /run/wifu/NAMESPACE/daemon.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// For machines: bytes and nanoseconds
    #[arg(long)]
    json: bool,
    /// Numbers of each connection, and of each lane on a host that serves one, again and again,
    /// until Ctrl-C; all, or those named: cwnd,srtt
    #[arg(long, value_name = "NAMES", num_args = 0..=1, default_missing_value = "")]
    watch: Option<String>,
    /// With --watch: so long from one look to the next, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    #[command(flatten)]
    libraries: Libraries,
    /// Only listening sockets
    #[arg(short, long)]
    listening: bool,
    /// Listening sockets as well
    #[arg(short, long)]
    all: bool,
    /// Hands know these from `ss`: here they are always on
    #[arg(short, long = "tcp", hide = true)]
    tcp: bool,
    #[arg(short, long = "info", hide = true)]
    info: bool,
    #[arg(short, long = "numeric", hide = true)]
    numeric: bool,
}

/// Print the connections.
///
/// # Errors
/// There is no daemon, or it does not answer.
pub fn run(args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => crate::live::default_socket()?,
    };
    if let Some(names) = &args.watch {
        let registry = args.libraries.with(registry)?;
        return watch(&path, names, args, &registry);
    }
    let text = ask(&path, &Request::Stats)?;
    if args.json {
        println!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let all: Value = serde_json::from_str(&text).context("the daemon's answer is no JSON")?;
    print!("{}", table(&all, args.listening, args.all));
    Ok(ExitCode::SUCCESS)
}

/// The numbers of the connections, a line each, until nobody reads any more.
fn watch(path: &Path, names: &str, args: &Args, registry: &Registry) -> anyhow::Result<ExitCode> {
    ensure!(
        args.interval >= 0.001 && args.interval <= 1e6,
        "--interval {}: write a number of seconds, 0.001 or more",
        args.interval
    );
    for name in names.split(',').filter(|_| !names.is_empty()) {
        let known = quantity::check(name.trim(), registry.parts().parts());
        known.map_err(|what| anyhow!("--watch: {what}"))?;
    }
    let interval = Duration::from_secs_f64(args.interval);
    let mut out = std::io::stdout().lock();
    loop {
        let begun = Instant::now();
        let text = ask(path, &Request::Values { names })?;
        let all: Value = serde_json::from_str(&text).context("the daemon's answer is no JSON")?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let mut lines = String::new();
        for c in all.as_array().into_iter().flatten() {
            lines += &if args.json {
                line_json(c, at)
            } else {
                line(c, at)
            };
            lines.push('\n');
        }
        let written = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
        match written {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            other => other?,
        }
        std::thread::sleep(interval.saturating_sub(begun.elapsed()));
    }
}

/// With the time, as one line of JSON.
fn line_json(c: &Value, at: f64) -> String {
    let mut c = c.clone();
    c["time"] = json!(at);
    c.to_string()
}

/// For people: `-` where nothing is known.
fn line(c: &Value, at: f64) -> String {
    let text = |key: &str| c[key].as_str().unwrap_or("?");
    let (local, remote, protocol) = (text("local"), text("remote"), text("protocol"));
    let lane = if c["lane"] == true { " lane" } else { "" };
    let mut line = format!("{at:.3} {local} > {remote} {protocol}{lane}");
    for (name, value) in c["values"].as_object().into_iter().flatten() {
        let _ = match value.as_f64() {
            Some(value) => write!(line, " {name}:{value}"),
            None => write!(line, " {name}:-"),
        };
    }
    line
}

/// The daemon's answer to a question about connections: JSON text.
fn ask(path: &Path, request: &Request<'_>) -> anyhow::Result<String> {
    let said = front::ask(path, request)?;
    if said.errno != 0 {
        let why = std::io::Error::from_raw_os_error(said.errno as i32);
        bail!("the daemon refuses: {why}");
    }
    Ok(said.text.unwrap_or_else(|| String::from("[]")))
}

fn number(v: &Value, key: &str) -> f64 {
    v[key].as_f64().unwrap_or(0.0)
}

/// Listening sockets alone, or as well, or neither, as `ss` has them.
fn table(told: &Value, listening: bool, all: bool) -> String {
    let connections = told.as_array().or_else(|| told["connections"].as_array());
    let mut t = format!(
        "{:<11} {:>7} {:>7} {:>24} {:>24}  {}\n",
        "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Protocol"
    );
    for c in connections.into_iter().flatten() {
        let state = c["state"].as_str().unwrap_or("?");
        let listens = state == "LISTEN";
        if listening != listens && !all {
            continue;
        }
        let _ = writeln!(
            t,
            "{state:<11} {:>7} {:>7} {:>24} {:>24}  {}",
            number(c, "recv_q"),
            number(c, "send_q"),
            c["local"].as_str().unwrap_or("?"),
            c["remote"].as_str().unwrap_or("*"),
            c["protocol"].as_str().or(c["spec"].as_str()).unwrap_or("?"),
        );
        if !listens {
            let _ = writeln!(t, "\t {}", details(c));
        }
    }
    t
}

/// The words of `ss -ti`.
fn details(c: &Value) -> String {
    let mss = number(c, "mss").max(1.0);
    let ms = |key: &str| number(c, key) / 1e6;
    let mut words = vec![c["protocol"].as_str().unwrap_or("?").to_string()];
    words.extend(
        c["options"]
            .as_str()
            .filter(|o| !o.is_empty())
            .map(String::from),
    );
    let known = |key: &str| c[key].is_number();
    if known("rto_ns") {
        words.push(format!("rto:{:.0}", ms("rto_ns")));
    }
    words.push(match number(c, "rtt_ns") > 0.0 {
        true => format!("rtt:{:.3}/{:.3}", ms("rtt_ns"), ms("rttvar_ns")),
        false => String::from("rtt:-"),
    });
    if c["rtt_with_repairs"] == true {
        words.push("rtt_with_repairs".to_owned());
    }
    words.push(format!("mss:{mss:.0}"));
    if known("cwnd") {
        words.push(format!("cwnd:{:.0}", (number(c, "cwnd") / mss).floor()));
    }
    let ssthresh = number(c, "ssthresh") / mss;
    if known("ssthresh") && ssthresh < 1e6 {
        words.push(format!("ssthresh:{:.0}", ssthresh.floor()));
    }
    words.push(format!("bytes_sent:{:.0}", number(c, "octets_out")));
    if number(c, "octets_again") > 0.0 {
        words.push(format!("bytes_retrans:{:.0}", number(c, "octets_again")));
    }
    words.push(format!("bytes_acked:{:.0}", number(c, "octets_acked")));
    words.push(format!("bytes_received:{:.0}", number(c, "octets_in")));
    words.push(format!("segs_out:{:.0}", number(c, "segments_out")));
    words.push(format!("segs_in:{:.0}", number(c, "segments_in")));
    words.push(format!("data_segs_out:{:.0}", number(c, "data_out")));
    if known("cwnd") {
        let rate = send_rate(c).map_or(String::from("-"), |rate| format!("{rate:.0}bps"));
        words.push(format!("send {rate}"));
    }
    words.push(format!(
        "delivery_rate {:.0}bps",
        number(c, "rate_bytes_per_s") * 8.0
    ));
    words.push(format!("unacked:{:.0}", (number(c, "flight") / mss).ceil()));
    if number(c, "retransmits") > 0.0 {
        words.push(format!("retrans:0/{:.0}", number(c, "retransmits")));
    }
    if number(c, "sacked") > 0.0 {
        words.push(format!("sacked:{:.0}", (number(c, "sacked") / mss).ceil()));
    }
    if number(c, "backoff") > 0.0 {
        words.push(format!("backoff:{:.0}", number(c, "backoff")));
    }
    if known("peer_window") {
        words.push(format!("snd_wnd:{:.0}", number(c, "peer_window")));
    }
    words.push(format!("rcv_wnd:{:.0}", number(c, "window")));
    if c["min_rtt_ns"].is_number() {
        words.push(format!("minrtt:{:.3}", ms("min_rtt_ns")));
    }
    if number(c, "unserved") > 0.0 {
        words.push(format!("unserved:{}", number(c, "unserved")));
    }
    words.push(format!("limited:{}", c["limited"].as_str().unwrap_or("?")));
    words.extend(shares(c));
    words.join(" ")
}

/// One window per round trip, bit/s, as `ss` computes it; none before one was timed.
fn send_rate(c: &Value) -> Option<f64> {
    let rtt_ns = number(c, "rtt_ns");
    (rtt_ns > 0.0).then(|| number(c, "cwnd") * 8e9 / rtt_ns)
}

/// What held the sender up, in per cent of its time until all was acknowledged, or so far.
fn shares(c: &Value) -> Option<String> {
    let limits = c["limits_ns"].as_object()?;
    let total: f64 = limits.values().filter_map(Value::as_f64).sum();
    if total <= 0.0 {
        return None;
    }
    let share = |(name, ns): (&String, &Value)| {
        let percent = ns.as_f64().unwrap_or(0.0) * 100.0 / total;
        (percent >= 0.5).then(|| format!("{name}:{percent:.0}%"))
    };
    let shares: Vec<String> = limits.iter().filter_map(share).collect();
    Some(format!("({})", shares.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_shown_as_ss_shows_them() {
        let told = json!([{"state": "LISTEN", "local": "*:80"}, {"state": "TIME-WAIT"}]);
        for (listening, all, shown) in [
            (false, false, &["TIME-WAIT"][..]),
            (true, false, &["LISTEN"]),
            (false, true, &["LISTEN", "TIME-WAIT"]),
            (true, true, &["LISTEN", "TIME-WAIT"]),
        ] {
            let table = table(&told, listening, all);
            let states = table.lines().skip(1).filter(|line| !line.starts_with('\t'));
            let states: Vec<_> = states.filter_map(|l| l.split_whitespace().next()).collect();
            assert_eq!(states, shown, "{table}");
        }
    }

    #[test]
    fn what_relays_left_undone_is_told() {
        let conn = |n: u64| json!({"unserved": n});
        assert!(details(&conn(12)).contains(" unserved:12 limited:"));
        assert!(!details(&conn(0)).contains("unserved"));
    }

    #[test]
    fn what_a_protocol_does_not_have_is_no_word() {
        let mut c = json!({"mss": 1000, "rtt_ns": 8_000_000, "rto_ns": 200_000_000,
            "cwnd": 10_000, "ssthresh": 20_000});
        let whole = details(&c);
        for word in [
            " rto:200 ",
            " cwnd:10 ",
            " ssthresh:20 ",
            " send 10000000bps ",
        ] {
            assert!(whole.contains(word), "{whole}");
        }
        for key in ["rto_ns", "cwnd", "ssthresh"] {
            c[key] = Value::Null;
        }
        let less = details(&c);
        let gone = ["rto:", "cwnd:", "ssthresh:", "send "];
        assert!(gone.iter().all(|word| !less.contains(word)), "{less}");
        assert!(
            less.contains(" rtt:8.000/0.000 mss:1000 bytes_sent:0 "),
            "{less}"
        );
    }

    #[test]
    fn who_timed_no_round_trip_has_none() {
        let none = details(&json!({"mss": 1000, "rtt_ns": 0, "rttvar_ns": 0, "cwnd": 10_000}));
        assert!(none.contains(" rtt:- mss:1000 "), "{none}");
        assert!(none.contains(" send - "), "{none}");
        let timed = details(&json!({"mss": 1000, "rtt_ns": 500, "rttvar_ns": 0}));
        assert!(timed.contains(" rtt:0.001/0.000 "), "{timed}");
    }

    #[test]
    fn a_line_tells_what_is_not_known() {
        let c = json!({"protocol": "tcp-cubic", "local": "10.0.0.1:9", "remote": "10.0.0.2:80",
            "values": {"cwnd": 14480.0, "srtt": null}});
        let expected = "3.500 10.0.0.1:9 > 10.0.0.2:80 tcp-cubic cwnd:14480 srtt:-";
        assert_eq!(line(&c, 3.5), expected);
        let mut lane = c.clone();
        lane["lane"] = json!(true);
        assert!(line(&lane, 3.5).contains(" tcp-cubic lane cwnd:14480"));
        let read: Value = serde_json::from_str(&line_json(&c, 3.5)).unwrap();
        assert_eq!(read["time"], 3.5);
        assert_eq!(read["values"], json!({"cwnd": 14480.0, "srtt": null}));
    }

    static GAUGE: wifu_engine::Descriptor = wifu_engine::Descriptor {
        name: "gauge",
        probes: &["level"],
        ..wifu_engine::Descriptor::EMPTY
    };

    #[test]
    fn an_unknown_name_is_refused_before_the_daemon_is_asked() {
        let args = |names: &str| Args {
            libraries: Libraries::default(),
            socket: Some("/nowhere/daemon.sock".into()),
            json: false,
            watch: Some(names.into()),
            interval: 1.0,
            listening: false,
            tcp: false,
            info: false,
            numeric: false,
            all: false,
        };
        let registry = &crate::standard().with_parts(&[&GAUGE]);
        let said = |names: &str| run(&args(names), registry).unwrap_err().to_string();
        assert!(said("cwnd,cubic.wmax").contains("did you mean `cubic.w_max`"));
        assert!(said("cwnd,cubic.w_max").contains("no daemon"));
        assert!(
            said("gauge.level").contains("no daemon"),
            "a part of one's own"
        );
        assert!(said("").contains("no daemon"));
    }
}
