//! The numbers of connections, for `TCP_INFO`, for what it has no room for, and for `wifu ss`.

use super::apps::Apps;
use super::context::Context;
use super::listeners::Listeners;
use serde_json::{Value, json};
use wifu_engine::endpoint::ConnInfo;
use wifu_engine::permit::Limit;
use wifu_engine::{Conn, ConnId, Endpoint};
use wifu_node::Lanes;
use wifu_wire::front::Info;
use wifu_wire::{Span, Time};

fn us(s: Span) -> u64 {
    s.0 / 1_000
}

fn segments(octets: u32, mss: u32) -> u64 {
    u64::from(octets.div_ceil(mss.max(1)))
}

fn limited(i: &ConnInfo, l: Limit) -> Span {
    i.limits[l.index()]
}

/// Smallest round-trip time, which is [`Span`]'s largest before the first sample.
fn min_rtt_us(i: &ConnInfo) -> u64 {
    if i.min_rtt.0 == u64::MAX {
        u64::from(u32::MAX)
    } else {
        us(i.min_rtt)
    }
}

/// The numbers behind `TCP_INFO`, where what a protocol does not have is 0.
pub(super) fn info(i: &ConnInfo) -> Info {
    let c = &i.counters;
    let option = |name: &str, bit: u64| if i.options.contains(name) { bit } else { 0 };
    let scale = i
        .options
        .split("wscale:")
        .nth(1)
        .and_then(|n| n.split(' ').next()?.parse().ok());
    Info {
        state: u64::from(i.state.number()),
        // linux/tcp.h: TCP_CA_Loss, TCP_CA_Recovery, TCP_CA_Open
        ca_state: if i.backoff > Some(0) {
            4
        } else {
            3 * u64::from(i.recovering)
        },
        backoff: i.backoff.unwrap_or(0).into(),
        options: option("ts", 1) | option("sack", 2) | option("wscale", 4),
        snd_wscale: scale.unwrap_or(0),
        rto_us: i.rto.map_or(0, us),
        snd_mss: i.mss.into(),
        rcv_mss: i.mss.into(),
        unacked: segments(i.flight, i.mss),
        sacked: segments(i.sacked, i.mss),
        rtt_us: us(i.srtt),
        rttvar_us: us(i.rttvar),
        snd_ssthresh: segments(i.ssthresh.unwrap_or(0), i.mss).min(0x7fff_ffff),
        snd_cwnd: segments(i.cwnd.unwrap_or(0), i.mss),
        advmss: i.mss.into(),
        rcv_space: i.window.into(),
        total_retrans: i.retransmits.into(),
        total_rto: i.timeouts.unwrap_or(0).into(),
        pacing_rate: u64::MAX,
        bytes_acked: c.octets_acked,
        bytes_received: c.octets_in,
        segs_out: c.segments_out,
        segs_in: c.segments_in,
        notsent_bytes: i.unsent.into(),
        min_rtt_us: min_rtt_us(i),
        data_segs_out: c.data_out,
        delivery_rate: i.delivery_rate,
        rwnd_limited_us: us(limited(i, Limit::Peer)),
        sndbuf_limited_us: us(limited(i, Limit::Buffer)),
        bytes_sent: c.octets_out,
        bytes_retrans: c.octets_again,
        snd_wnd: i.peer_window.unwrap_or(0).into(),
        ..Info::default()
    }
}

/// All connections and listening sockets; by cookie only those of the user who asks.
pub(super) fn all(listeners: &Listeners, apps: &Apps, uid: u32, cx: &Context<'_>) -> Value {
    let own = |other: u32| uid == 0 || uid == other;
    let mut all: Vec<Value> = Vec::new();
    for (_, l) in listeners.iter() {
        all.push(json!({
            "protocol": l.spec.split(',').next(),
            "spec": l.whole(),
            "state": "LISTEN",
            "local": l.described(),
            "remote": l.anybody(),
            "backlog": l.backlog,
            "uid": l.uid,
            "cookie": own(l.uid).then_some(l.cookie),
        }));
    }
    for id in cx.endpoint.conns() {
        let Some(info) = cx.endpoint.info_until(id, cx.now) else {
            continue;
        };
        let mut v = json(&info, cx.now);
        let (number, carrier) = cx.host.carried(info.tuple.proto);
        (v["number"], v["carrier"]) = (json!(number), json!(carrier));
        if let Some((peer, s)) = apps.user_of(id) {
            v["spec"] = json!(s.spec);
            v["cookie"] = json!(s.cookie.filter(|_| own(peer.uid)));
            v["uid"] = json!(peer.uid);
            v["pid"] = json!((peer.pid != 0).then_some(peer.pid));
        }
        all.push(v);
    }
    Value::Array(all)
}

/// One connection for `wifu ss`: octets, nanoseconds where the name says so. What its protocol does
/// not have is null.
fn json(i: &ConnInfo, now: Time) -> Value {
    let c = &i.counters;
    let names = Limit::NAMES.iter().zip(i.limits);
    let limits: serde_json::Map<String, Value> =
        names.map(|(n, s)| ((*n).to_owned(), json!(s.0))).collect();
    json!({
        "protocol": i.protocol,
        "number": i.tuple.proto,
        "state": i.state.name(),
        "local": i.tuple.local.to_string(),
        "remote": i.tuple.remote.to_string(),
        "recv_q": i.unread,
        "send_q": i.unacked,
        "cwnd": i.cwnd,
        "ssthresh": i.ssthresh,
        "mss": i.mss,
        "rtt_ns": i.srtt.0,
        "rtt_with_repairs": i.rtt_with_repairs,
        "rttvar_ns": i.rttvar.0,
        "min_rtt_ns": (i.min_rtt.0 != u64::MAX).then_some(i.min_rtt.0),
        "rto_ns": i.rto.map(|s| s.0),
        "backoff": i.backoff,
        "flight": i.flight,
        "sacked": i.sacked,
        "peer_window": i.peer_window,
        "window": i.window,
        "unsent": i.unsent,
        "retransmits": i.retransmits,
        "timeouts": i.timeouts,
        "recovering": i.recovering,
        "limited": i.limited.name(),
        "limits_ns": limits,
        "options": i.options,
        "rate_bytes_per_s": i.delivery_rate,
        "age_ns": i.opened_at.map(|at| (now - at).0),
        "segments_out": c.segments_out,
        "segments_in": c.segments_in,
        "data_out": c.data_out,
        "octets_out": c.octets_out,
        "octets_again": c.octets_again,
        "octets_acked": c.octets_acked,
        "octets_in": c.octets_in,
        "fast_retransmits": i.fast_retransmits,
        "timeout_wait_ns": i.timeout_wait.map(|s| s.0),
        "dropped": c.dropped,
        "unserved": c.unserved,
    })
}

/// Bytes of the text of round-trip times: what [`counted`] tells stays below what an option may
/// have.
const ROUND_TRIPS: usize = 1_200;

/// What a connection has counted that `TCP_INFO` has no room for, by the simulator's names; null
/// what its protocol does not have. `lacks` names what is 0 in `TCP_INFO` for that reason.
pub(super) fn counted(id: ConnId, endpoint: &Endpoint, now: Time) -> Option<String> {
    let (i, conn) = (endpoint.info_until(id, now)?, endpoint.conn(id)?);
    let limits = Limit::NAMES.iter().zip(i.limits);
    let limited: serde_json::Map<String, Value> = limits
        .filter(|(_, s)| *s > Span::ZERO)
        .map(|(n, s)| ((*n).to_owned(), json!(s.as_secs_f64())))
        .collect();
    let lacks = [("snd_cwnd", i.cwnd), ("snd_wnd", i.peer_window)];
    let lacks: Vec<&str> = lacks
        .iter()
        .filter_map(|(name, window)| window.is_none().then_some(*name))
        .collect();
    let told = json!({
        "lacks": lacks,
        "rtt_with_repairs": i.rtt_with_repairs,
        "fast_retransmits": i.fast_retransmits,
        "timeout_s": i.timeout_wait.map(Span::as_secs_f64),
        "limited_s": limited,
        "rtt": conn.round_trips().to_text(ROUND_TRIPS),
    });
    Some(told.to_string())
}

/// Numbers of all connections, then of all lanes that know any of them.
pub(super) fn watched(names: &str, cx: &Context<'_>) -> Value {
    let conns = cx.endpoint.conns().filter_map(|id| cx.endpoint.conn(id));
    let mut all: Vec<Value> = conns.map(|c| values(c, names)).collect();
    for (key, conn) in cx.lanes.into_iter().flat_map(Lanes::all) {
        let mut lane = values(conn, names);
        lane["local"] = json!(key.source.to_string());
        lane["remote"] = json!(key.target.to_string());
        lane["lane"] = json!(true);
        let known = lane["values"].as_object().is_some_and(|v| !v.is_empty());
        if known || names.is_empty() {
            all.push(lane);
        }
    }
    Value::Array(all)
}

/// Numbers of one connection, in the units that `wifu describe` tells: those of `names`, which have
/// commas between, or all if there is none. What its protocol does not have is left out; what is
/// not known yet is null.
fn values(conn: &Conn, names: &str) -> Value {
    let blueprint = conn.blueprint();
    let names: Vec<String> = if names.is_empty() {
        blueprint.recordable().into_iter().map(|r| r.name).collect()
    } else {
        names.split(',').map(|n| n.trim().to_owned()).collect()
    };
    let mut values = serde_json::Map::new();
    for name in names {
        if let Ok(of) = blueprint.watched(&name) {
            values.insert(name, json!(conn.value(of)));
        }
    }
    let tuple = conn.tuple();
    json!({
        "protocol": blueprint.name,
        "state": conn.state().name(),
        "local": tuple.local.to_string(),
        "remote": tuple.remote.to_string(),
        "values": values,
    })
}
