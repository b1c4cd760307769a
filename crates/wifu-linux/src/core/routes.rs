//! What leads packets to our TUN devices: rules and tables of policy routing. Rules carry a
//! protocol number that says whose they are; what leads to a device goes with it.
//!
//! A packet that comes from one of our devices meets none of the rules, so it goes on as if they
//! were not there.

use super::by::{Selector, TunSettings};
use super::config::Settings;
use crate::netns::Owner;
use crate::steps::{StepError, Steps, output_of};
use crate::sys;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use wifu_core::{Full, Hook};

/// Whose rules they are, as `protocol` of `ip rule`.
const OURS: u8 = 87;
/// Numbers of our tables: this and the hook's number.
const TABLES: u16 = 8700;
/// Our rules: what comes back from a device; what the host sends; no more of that; what it
/// forwards; the end.
const BACK: u16 = 8700;
const SENT: u16 = 8710;
const PAST: u16 = 8720;
const FORWARDED: u16 = 8730;
const END: u16 = 8799;
/// An address that no host has (RFC 7600): a device without any refuses what has a wrong source,
/// and sources are what it knows nothing of.
const DUMMY: &str = "192.0.0.8/32";
/// Addresses to which nothing is forwarded.
const NOT_FORWARDED: [&str; 2] = ["224.0.0.0/4", "255.255.255.255/32"];
/// MTU where no route names a device, octets.
const MTU: u32 = 1500;

/// Waits for the end of its input, then does what its arguments say.
const GUARDIAN: &str = r#"
trap '' HUP INT TERM PIPE
cat > /dev/null
printf '%s\n' "$@" | ip -force -batch -
"#;

/// Rules and routes of ours, until this is dropped. A small process with the right to remove them
/// waits for that, and does so as well when the owner is killed.
pub struct Routes {
    guardian: Option<Child>,
}

/// Steps that lead packets to devices, and those that undo them.
#[derive(Default)]
struct Plan {
    /// Lines of `ip`, without that word.
    before: Vec<String>,
    /// Paths below /proc/sys, and what to write there.
    settings: Vec<(String, &'static str)>,
    rules: Vec<String>,
    removal: Vec<String>,
}

impl Routes {
    /// Lead what `selectors` say to the devices, which are there. In a dry run, that is only
    /// written down. To devices that the user named, somebody else leads packets.
    ///
    /// # Errors
    /// If a step is refused; what was done before is undone.
    pub fn install(
        selectors: &[Selector],
        settings: &Settings,
        tun: &TunSettings,
        steps: &mut Steps,
    ) -> Result<Routes, StepError> {
        if !tun.devices.is_empty() && !steps.is_dry() {
            return Ok(Routes { guardian: None });
        }
        let plan = Plan::new(selectors, settings, tun)?;
        let guardian = if steps.is_dry() {
            None
        } else {
            remove_stale()?;
            Some(guard(&plan.removal)?)
        };
        let made = Routes { guardian };
        steps.run_batch("ip", &plan.before)?;
        for (path, value) in &plan.settings {
            write(path, value, steps)?;
        }
        steps.run_batch("ip", &plan.rules)?;
        Ok(made)
    }

    /// The steps by which it will be undone.
    ///
    /// # Errors
    /// If the host's routes cannot be read.
    pub fn removal(
        selectors: &[Selector],
        settings: &Settings,
        tun: &TunSettings,
    ) -> Result<Vec<String>, StepError> {
        let plan = Plan::new(selectors, settings, tun)?;
        let line = |l: &String| format!("ip {l}");
        Ok(plan.removal.iter().map(line).collect())
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        if let Some(mut guardian) = self.guardian.take() {
            drop(guardian.stdin.take());
            let _ = guardian.wait();
        }
    }
}

fn guard(removal: &[String]) -> Result<Child, StepError> {
    let mut command = Command::new("sh");
    command
        .args(["-c", GUARDIAN, "wifu-guardian"])
        .args(removal);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    sys::spawn_detached(&mut command);
    command.spawn().map_err(|error| StepError::Start {
        line: "sh -c <guardian>".into(),
        error,
    })
}

/// Write a setting of the kernel, of this thread's network namespace.
fn write(path: &str, value: &str, steps: &mut Steps) -> Result<(), StepError> {
    if !steps.note(format!("sysctl -w {}={value}", path.replace('/', "."))) {
        return Ok(());
    }
    let path = format!("/proc/sys/{path}");
    std::fs::write(&path, value).map_err(|error| StepError::File { path, error })
}

impl Plan {
    fn new(
        selectors: &[Selector],
        settings: &Settings,
        tun: &TunSettings,
    ) -> Result<Plan, StepError> {
        let ways = Ways::of_host()?;
        let mut plan = Plan::default();
        for s in selectors {
            plan.device(s.hook, settings, tun, &ways);
        }
        let own = tun.devices.is_empty();
        let tag = if own {
            format!(" protocol {OURS}")
        } else {
            String::new()
        };
        let mut rule = |words: String| plan.rules.push(format!("rule add {words}{tag}"));
        rule(format!("pref {END} nop"));
        for s in selectors {
            rule(format!("pref {BACK} iif {} goto {END}", tun.device(s.hook)));
        }
        let forwards = selectors.iter().any(|s| s.hook == Hook::Forward);
        if forwards {
            rule(format!("pref {PAST} iif lo goto {END}"));
        }
        for s in selectors {
            let table = TABLES + s.hook.number();
            let begin = match s.hook {
                Hook::Output => format!("pref {SENT} iif lo"),
                _ => format!("pref {FORWARDED}"),
            };
            for words in matches(s, &tun.to) {
                rule(format!("{begin}{words} lookup {table}"));
            }
        }
        // Who leads packets to us goes before who keeps those away that come back.
        let removal = plan.rules.iter().rev();
        let mut removal: Vec<_> = removal.map(|l| l.replacen(" add ", " del ", 1)).collect();
        for s in selectors {
            // What names the device goes with it, and the rest not.
            removal.push(format!("route flush table {}", TABLES + s.hook.number()));
            if !own {
                removal.push(format!("link del dev {}", tun.device(s.hook)));
            }
        }
        plan.removal = removal;
        Ok(plan)
    }

    /// The device of a hook and the table that leads to it.
    fn device(&mut self, hook: Hook, settings: &Settings, tun: &TunSettings, ways: &Ways) {
        let (name, table) = (tun.device(hook), TABLES + hook.number());
        let own = tun.devices.is_empty();
        let mut line = |words: String| self.before.push(words);
        let alias = if own {
            format!("alias {} ", Owner::this().tag())
        } else {
            let user = rustix::process::getuid().as_raw();
            line(format!("tuntap add dev {name} mode tun user {user}"));
            String::new()
        };
        let (mtu, length) = (ways.mtu, settings.queue_length);
        line(format!(
            "link set dev {name} {alias}addrgenmode none mtu {mtu} txqueuelen {length}"
        ));
        line(format!("addr add {DUMMY} dev {name} scope host"));
        line(format!("link set dev {name} up"));
        if hook == Hook::Output {
            for network in NOT_FORWARDED {
                line(format!("route replace throw {network} table {table}"));
            }
            for (to, way) in &ways.sources {
                let limit = way.mtu.filter(|m| *m < mtu);
                let limit = limit.map_or(String::new(), |m| format!(" mtu {m}"));
                let source = way.source.as_ref();
                let source = source.map_or(String::new(), |s| format!(" src {s}"));
                line(format!(
                    "route replace {to} dev {name}{source}{limit} table {table}"
                ));
            }
        }
        if hook != Hook::Output || !ways.sources.contains_key("default") {
            line(format!("route replace default dev {name} table {table}"));
        }
        if own && settings.when_full == Full::Closed {
            // Once the device is gone.
            line(format!(
                "route replace blackhole default metric {} table {table}",
                u32::MAX
            ));
        }
        let mut set = |key: &str, value| {
            let path = format!("net/ipv4/conf/{name}/{key}");
            self.settings.push((path, value));
        };
        // Of this device alone: the host need not be a router for the others.
        set("forwarding", "1");
        set("accept_local", "1");
        set("rp_filter", "2");
        if !own && settings.when_full == Full::Open {
            set("ignore_routes_with_linkdown", "1");
        }
    }
}

/// What a rule says of the packets that a handler wants: destination and protocol.
fn matches(selector: &Selector, to: &[String]) -> Vec<String> {
    let all = [String::new()];
    let networks: Vec<String> = to.iter().map(|n| format!(" to {n}")).collect();
    let networks = if to.is_empty() { &all[..] } else { &networks };
    let protocols = selector.protocols.iter().flatten();
    let protocols: Vec<String> = protocols.map(|p| format!(" ipproto {p}")).collect();
    let protocols = match &selector.protocols {
        None => &all[..],
        Some(_) => &protocols,
    };
    let each = |n: &String| {
        protocols
            .iter()
            .map(move |p| format!("{n}{p}"))
            .collect::<Vec<_>>()
    };
    networks.iter().flat_map(each).collect()
}

/// How the host's packets would leave without us.
struct Ways {
    /// By destination as `ip route` writes it.
    sources: BTreeMap<String, Way>,
    /// The largest of all devices that routes name, octets.
    mtu: u32,
}

struct Way {
    source: Option<String>,
    mtu: Option<u32>,
}

/// As much as we need of `ip -json route show`.
#[derive(Deserialize)]
struct Route {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    dst: String,
    gateway: Option<String>,
    dev: Option<String>,
    prefsrc: Option<String>,
    #[serde(default)]
    nexthops: Vec<Hop>,
}

#[derive(Deserialize)]
struct Hop {
    gateway: Option<String>,
    dev: Option<String>,
}

/// ... and of `ip -json link show`.
#[derive(Deserialize)]
struct Device {
    ifname: String,
    mtu: u32,
    #[serde(default)]
    ifalias: String,
}

fn json<T: for<'a> Deserialize<'a>>(line: &str) -> Result<T, StepError> {
    let text = output_of(line)?;
    // Where there is nothing, some versions say nothing.
    let text = if text.trim().is_empty() { "[]" } else { &text };
    serde_json::from_str(text).map_err(|e| StepError::Failed {
        line: line.into(),
        message: format!("unexpected answer: {e}"),
    })
}

impl Ways {
    fn of_host() -> Result<Ways, StepError> {
        let devices: Vec<Device> = json("ip -json link show")?;
        let mtus = devices.into_iter().map(|d| (d.ifname, d.mtu));
        let mtus: BTreeMap<String, u32> = mtus.collect();
        let routes: Vec<Route> = json("ip -json -4 route show table main")?;
        let mut ways = Ways {
            sources: BTreeMap::new(),
            mtu: 0,
        };
        for route in routes {
            let is_unicast = route.kind.as_deref().is_none_or(|k| k == "unicast");
            // The first of several is the one that counts.
            if !is_unicast || ways.sources.contains_key(&route.dst) {
                continue;
            }
            let hop = route.nexthops.first();
            let device = route.dev.as_ref().or(hop.and_then(|h| h.dev.as_ref()));
            let mtu = device.and_then(|d| mtus.get(d)).copied();
            let gateway = route.gateway.as_ref();
            let gateway = gateway.or(hop.and_then(|h| h.gateway.as_ref()));
            let source = match (&route.prefsrc, gateway) {
                (Some(source), _) => Some(source.clone()),
                (None, Some(gateway)) => source_to(gateway),
                (None, None) => inside(&route.dst).and_then(|a| source_to(&a)),
            };
            ways.mtu = ways.mtu.max(mtu.unwrap_or(0));
            ways.sources.insert(route.dst, Way { source, mtu });
        }
        if ways.mtu == 0 {
            ways.mtu = MTU;
        }
        Ok(ways)
    }
}

/// The source address that the kernel takes for packets to an address.
fn source_to(address: &str) -> Option<String> {
    let routes: Vec<Route> = json(&format!("ip -json -4 route get {address}")).ok()?;
    routes.into_iter().next()?.prefsrc
}

/// An address in a network.
fn inside(network: &str) -> Option<String> {
    // Of those that only the default route leads to.
    let first = network.split('/').next()?;
    let first = if first == "default" {
        "192.0.2.0"
    } else {
        first
    };
    let first: core::net::Ipv4Addr = first.parse().ok()?;
    let is_host = !network.contains('/') && network != "default";
    let next = u32::from(first) + u32::from(!is_host);
    Some(core::net::Ipv4Addr::from(next).to_string())
}

/// As much as we need of `ip -json rule show`.
#[derive(Deserialize)]
struct Rule {
    priority: u32,
    #[serde(default)]
    protocol: serde_json::Value,
    table: Option<String>,
}

/// What is there of ours in this network namespace.
pub(crate) struct Found {
    /// Whose it is, if a device is there that says so: else they were killed.
    pub(crate) owner: Option<Owner>,
    /// Lines that remove it, in order.
    pub(crate) removal: Vec<String>,
}

/// Rules of ours, by whatever process; `None` if there are none, or it can't be told.
pub(crate) fn installed() -> Option<Found> {
    let rules: Vec<Rule> = json("ip -json -4 rule show").ok()?;
    let is_ours = |r: &&Rule| {
        let protocol = match &r.protocol {
            serde_json::Value::String(s) => s.parse().ok(),
            other => other.as_u64(),
        };
        let range = u32::from(BACK)..=u32::from(END);
        protocol == Some(OURS.into()) && range.contains(&r.priority)
    };
    let ours: Vec<&Rule> = rules.iter().filter(is_ours).collect();
    if ours.is_empty() {
        return None;
    }
    let (leading, rest): (Vec<&Rule>, Vec<_>) = ours.into_iter().partition(|r| r.table.is_some());
    let tables: BTreeSet<&String> = leading.iter().filter_map(|r| r.table.as_ref()).collect();
    let each = leading.iter().chain(&rest);
    let remove = |r: &&Rule| format!("ip rule del pref {} protocol {OURS}", r.priority);
    let mut removal: Vec<String> = each.map(remove).collect();
    let has_routes = |t: &&&String| {
        let listed = output_of(&format!("ip -4 route show table {t}"));
        listed.is_ok_and(|l| !l.trim().is_empty())
    };
    let flush = |t: &&String| format!("ip route flush table {t}");
    removal.extend(tables.iter().filter(has_routes).map(flush));
    let devices: Vec<Device> = json("ip -json link show").unwrap_or_default();
    let ours = |d: &Device| {
        let named = TunSettings::NAMES.iter().any(|(_, n)| *n == d.ifname);
        named.then(|| Owner::from_tag(&d.ifalias)).flatten()
    };
    let owner = devices.iter().find_map(ours);
    Some(Found { owner, removal })
}

/// Remove what stayed of one that was killed: the devices, made anew, are ours.
fn remove_stale() -> Result<(), StepError> {
    let Some(found) = installed() else {
        return Ok(());
    };
    // Our own devices have no alias yet.
    if let Some(owner) = found.owner.filter(Owner::is_alive) {
        return Err(StepError::Invalid(format!(
            "process {} runs `wifu core --by tun` in this network namespace: one is enough",
            owner.pid
        )));
    }
    for line in found.removal {
        match output_of(&line) {
            Ok(_) => tracing::warn!("a `wifu core` was killed, and left this: {line}"),
            Err(e) => tracing::warn!("{e}"),
        }
    }
    Ok(())
}
