//! Applications of one machine, joined by an endpoint that talks to itself: the front without
//! carriers, privileges or network.
//!
//! ```text
//! front_loop /tmp/d.sock /tmp/listeners.json [MODE] &
//! WIFU_PROTOCOL=tcp-newreno WIFU_SOCKET=/tmp/d.sock LD_PRELOAD=libwifu_preload.so CMD
//! ```
//!
//! Segments to 127.9.9.9 are lost.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wifu_engine::{Blueprint, Endpoint, EndpointConfig};
use wifu_linux::front::{Context, Front, FrontConfig, Host, is_front_token};
use wifu_linux::poller::{Coalesce, Poller};
use wifu_wire::{AnyIpInfo, Time};

const BLACK_HOLE: Ipv4Addr = Ipv4Addr::new(127, 9, 9, 9);

struct Names;

impl Host for Names {
    fn blueprint(&mut self, spec: &str) -> Result<Arc<Blueprint>, String> {
        wifu_parts::blueprint(spec).map_err(|e| e.to_string())
    }
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, socket, state, rest @ ..] = &args[..] else {
        eprintln!("usage: front_loop SOCKET STATE [MODE]");
        std::process::exit(2);
    };
    let mode = rest
        .first()
        .map_or(0o660, |m| u32::from_str_radix(m, 8).expect("octal mode"));
    let mut poller = Poller::new(Coalesce::OFF)?;
    poller.catch_signals(&[libc::SIGTERM, libc::SIGINT])?;
    let config = FrontConfig {
        socket: socket.into(),
        mode,
        group: None,
        state: state.into(),
    };
    let mut front = Front::new(config, &poller)?;
    let mut endpoint = Endpoint::new(EndpointConfig {
        mtu: 65_000,
        ..EndpointConfig::default()
    });
    let restored = front.restore(&mut Context {
        endpoint: &mut endpoint,
        poller: &poller,
        host: &mut Names,
        lanes: None,
        now: Poller::now(),
    })?;
    println!("ready, {restored} restored");
    let mut events = Vec::new();
    loop {
        let deadline = endpoint.poll_timeout().min(front.poll_timeout());
        poller.wait(deadline, 0, &mut events)?;
        if poller.take_signal().is_some() {
            eprintln!("{}", serde_json::to_string(&front.counters())?);
            front.close();
            return Ok(());
        }
        let now = Poller::now();
        let (endpoint, poller) = (&mut endpoint, &poller);
        let mut cx = Context {
            endpoint,
            poller,
            host: &mut Names,
            lanes: None,
            now,
        };
        for e in events.iter().filter(|e| is_front_token(e.token)) {
            front.on_event(e, &mut cx);
        }
        front.handle_timeout(&mut cx);
        cx.endpoint.handle_timeout(now);
        exchange(&mut front, &mut cx, now);
    }
}

/// Lets segments go round until there are none.
fn exchange(front: &mut Front, cx: &mut Context<'_>, now: Time) {
    let mut wire: VecDeque<(AnyIpInfo, Vec<u8>)> = VecDeque::new();
    let mut out = vec![0; 65_536];
    loop {
        front.look_at_listeners(cx);
        while let Some((id, event)) = cx.endpoint.poll_event() {
            front.on_endpoint_event(id, event, cx);
        }
        // As a link does: not more than it holds.
        while wire.len() < 64
            && let Some(d) = cx.endpoint.poll_transmit(now, &mut out)
        {
            if d.ip.dst != BLACK_HOLE {
                wire.push_back((d.ip, out[..d.len].to_vec()));
            }
        }
        if wire.is_empty() {
            return;
        }
        for (ip, segment) in wire.drain(..) {
            cx.endpoint.handle_packet(now, &ip, &segment);
        }
    }
}
