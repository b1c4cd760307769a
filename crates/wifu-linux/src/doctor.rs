//! What this host offers of what we need: one probe each, with what it is for and the remedy.

use crate::carrier::{Carrier, open_raw_socket};
use crate::neighbours::Neighbours;
use crate::raw::RawConfig;
use crate::steps::output_of;
use crate::sys;
use crate::udp::{self, Offload};
use crate::wifi::Wifi;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use serde::Serialize;
use std::fmt::Write as _;
use std::io;

/// The answer to one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is there, with all that is wanted of it.
    Found,
    /// It is there, with less than we would like.
    Limited,
    /// It is not there.
    Missing,
}

/// What one probe found on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Short name, stable.
    pub name: &'static str,
    /// Whether what was looked for is there.
    pub status: Status,
    /// What was seen, such as a version or an error of the system.
    pub detail: String,
    /// Commands and features that do not work without it.
    pub needed_for: &'static str,
    /// What to do if it is missing; empty if it was found.
    pub fix: String,
}

/// What all probes found on this host: what `wifu doctor` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
}

type Answer = (Status, String);

struct Probe {
    name: &'static str,
    needed_for: &'static str,
    fix: &'static str,
    run: fn() -> Answer,
}

/// Ask this host. What is made for a probe lives in a namespace of a thread's own and goes with it.
pub fn diagnose() -> Diagnosis {
    let checks = PROBES.iter().map(|p| {
        let (status, detail) = (p.run)();
        let fix = if status == Status::Found { "" } else { p.fix };
        Check {
            name: p.name,
            status,
            detail,
            needed_for: p.needed_for,
            fix: fix.into(),
        }
    });
    Diagnosis {
        checks: checks.collect(),
    }
}

impl Diagnosis {
    /// Whether everything that was looked for is there, if only with limits.
    pub fn is_complete(&self) -> bool {
        self.checks.iter().all(|c| c.status != Status::Missing)
    }

    /// For people: a table, and a remedy under every line that needs one.
    pub fn table(&self) -> String {
        let width = self.checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for c in &self.checks {
            let status = match c.status {
                Status::Found => "found",
                Status::Limited => "limited",
                Status::Missing => "MISSING",
            };
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{:width$}  {status:7}  {}", c.name, c.detail);
            if c.status != Status::Found {
                let _ = writeln!(text, "{:width$}           needed for {}", "", c.needed_for);
                let _ = writeln!(text, "{:width$}           {}", "", c.fix);
            }
        }
        text
    }

    /// For programs: `{"checks": [{"name", "status", "detail", "needed_for", "fix"}]}`.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data")
    }
}

const PROBES: [Probe; 21] = [
    Probe {
        name: "kernel",
        needed_for: "precise timers (epoll_pwait2, Linux 5.11)",
        fix: "use Linux 5.11 or later",
        run: kernel,
    },
    Probe {
        name: "cap-net-raw",
        needed_for: "the raw carrier",
        fix: "run as root or: setcap cap_net_raw,cap_net_admin+ep $(which wifu)",
        run: || capability(CAP_NET_RAW),
    },
    Probe {
        name: "cap-net-admin",
        needed_for: "the tun carrier, large receive buffers, shaping",
        fix: "run as root or: setcap cap_net_raw,cap_net_admin+ep $(which wifu)",
        run: || capability(CAP_NET_ADMIN),
    },
    Probe {
        name: "udp-offload",
        needed_for: "fewer passes through the kernel for the udp carrier (Linux 5.0)",
        fix: "use Linux 5.0 or later; without it datagrams go and come one by one",
        run: udp_offload,
    },
    Probe {
        name: "cap-sys-admin",
        needed_for: "testbeds of namespaces (demo, bench, tests)",
        fix: "run as root",
        run: || capability(CAP_SYS_ADMIN),
    },
    Probe {
        name: "raw-socket",
        needed_for: "the raw carrier",
        fix: "grant CAP_NET_RAW; a container may need --cap-add NET_RAW",
        run: raw_socket,
    },
    Probe {
        name: "direct",
        needed_for: "the raw carrier's direct way, for gigabits per second",
        fix: "run as root on Linux 6.6 or later; without it the raw carrier uses sockets alone",
        run: direct,
    },
    Probe {
        name: "tun",
        needed_for: "the tun carrier, handlers on packets without NFQUEUE (wifu core --by tun)",
        fix: "modprobe tun, or in a container --device /dev/net/tun --cap-add NET_ADMIN",
        run: tun,
    },
    Probe {
        name: "netns",
        needed_for: "testbeds of namespaces (demo, bench, tests)",
        fix: "run as root on a kernel with CONFIG_NET_NS",
        run: namespaces,
    },
    Probe {
        name: "veth",
        needed_for: "testbeds of namespaces (demo, bench, tests)",
        fix: "install iproute2; use a kernel with CONFIG_VETH",
        run: || inside("ip link add name wifuprobe0 type veth peer name wifuprobe1"),
    },
    Probe {
        name: "tbf",
        needed_for: "shaped links in testbeds",
        fix: "install iproute2; use a kernel with CONFIG_NET_SCH_TBF",
        run: || inside("tc qdisc add dev lo root tbf rate 1mbit burst 10kb limit 30kb"),
    },
    Probe {
        name: "nfqueue",
        needed_for: "handlers on packets (wifu core)",
        fix: "apt-get install iptables; use a kernel with CONFIG_NETFILTER_XT_TARGET_NFQUEUE; or, at \
              the hooks output and forward, do without: wifu core --by tun",
        run: || inside("iptables -w -t mangle -A OUTPUT -j NFQUEUE --queue-num 1"),
    },
    Probe {
        name: "policy-routing",
        needed_for: "handlers on packets without NFQUEUE (wifu core --by tun)",
        fix: "install iproute2; use Linux 4.17 or later with CONFIG_IP_MULTIPLE_TABLES",
        run: || inside("ip rule add pref 8710 iif lo ipproto 17 lookup 8701 protocol 87"),
    },
    Probe {
        name: "bpf-tracepoints",
        needed_for: "measuring a device's delay (wifu delay)",
        fix: "run as root on a kernel with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF",
        run: || match crate::delay::probe() {
            Ok(()) => found("packets can be timed on any device"),
            Err(e) => missing(e),
        },
    },
    Probe {
        name: "wifi",
        needed_for: "rate, signal, power and busy time of a radio, told by its driver (wifu daemon \
                     --serve)",
        fix: "nothing, on a host without Wi-Fi; else load the driver of its radio",
        run: wifi,
    },
    Probe {
        name: "abstract-sockets",
        needed_for: "applications' sockets",
        fix: "use a kernel with CONFIG_UNIX",
        run: abstract_socket,
    },
    Probe {
        name: "socket-tag",
        needed_for: "telling applications' sockets of ours from others (SO_MAX_PACING_RATE)",
        fix: "use Linux 4.20 or later (64-bit SO_MAX_PACING_RATE)",
        run: socket_tag,
    },
    Probe {
        name: "receive-buffer",
        needed_for: "bursts at gigabits per second without CAP_NET_ADMIN",
        fix: "sysctl -w net.core.rmem_max=16777216",
        run: receive_buffer,
    },
    Probe {
        name: "congestion-controls",
        needed_for: "comparisons with the kernel's Reno and CUBIC",
        fix: "modprobe tcp_cubic; use a kernel with CONFIG_TCP_CONG_CUBIC",
        run: congestion_controls,
    },
    Probe {
        name: "iproute2",
        needed_for: "setting up the tun carrier and testbeds",
        fix: "apt-get install iproute2",
        run: || program("ip -V"),
    },
    Probe {
        name: "state-directory",
        needed_for: "the daemon's socket and state files in /run/wifu",
        fix: "run as root, or give the daemon another directory",
        run: state_directory,
    },
];

/// Numbers of capabilities in linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;

fn found(detail: impl Into<String>) -> Answer {
    (Status::Found, detail.into())
}

fn missing(detail: impl ToString) -> Answer {
    (Status::Missing, detail.to_string())
}

fn kernel() -> Answer {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    let version = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    };
    if version >= (5, 11) {
        found(release)
    } else {
        missing(release)
    }
}

/// What the drivers of Wi-Fi here tell. A host need not have any.
fn wifi() -> Answer {
    let radios = || {
        let mut neighbours = Neighbours::open()?;
        let names = neighbours.ethernets()?;
        let interfaces: Vec<i32> = names.keys().copied().collect();
        let name = |i: i32| names.get(&i).map_or(String::new(), |e| e.name.clone());
        Ok(Wifi::open(&interfaces, || {})?.map(|wifi| wifi.describe(name)))
    };
    match radios() {
        Ok(Some(told)) => found(told),
        Ok(None) => (Status::Limited, String::from("no interface here is Wi-Fi")),
        Err(e) => {
            let e: io::Error = e;
            (Status::Limited, e.to_string())
        }
    }
}

fn capability(number: u32) -> Answer {
    let status = match std::fs::read_to_string("/proc/thread-self/status") {
        Ok(text) => text,
        Err(e) => return missing(format!("/proc/thread-self/status: {e}")),
    };
    let mask = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    match mask {
        Some(mask) if mask >> number & 1 == 1 => found("effective"),
        Some(_) => missing("not effective"),
        None => missing("/proc/thread-self/status does not tell"),
    }
}

fn raw_socket() -> Answer {
    // 253 and 254 are for experiments (RFC 3692).
    match open_raw_socket(AddressFamily::INET, 253).and_then(sys::set_header_included) {
        Ok(()) => found("protocol 253 with IP_HDRINCL"),
        Err(e) => missing(e),
    }
}

fn udp_offload() -> Answer {
    let all = Offload {
        cuts: true,
        joins: true,
    };
    match std::net::UdpSocket::bind(("127.0.0.1", 0)).map(udp::offload) {
        Ok(offload) if offload == all => found(offload.to_string()),
        Ok(offload) => (Status::Limited, offload.to_string()),
        Err(e) => missing(e),
    }
}

/// Run a probe on a thread that has a network namespace of its own.
fn secluded(probe: impl FnOnce() -> Answer + Send) -> Answer {
    let work = || match sys::unshare_network() {
        Ok(()) => probe(),
        Err(e) => missing(format!("no namespace to try in: {e}")),
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| missing("the probe failed"))
}

fn namespaces() -> Answer {
    secluded(|| found("can be made"))
}

fn inside(line: &'static str) -> Answer {
    secluded(move || match output_of(line) {
        Ok(_) => found("works"),
        Err(e) => missing(e),
    })
}

fn direct() -> Answer {
    secluded(|| {
        let mut config = RawConfig::new(vec![253]);
        config.direct = true;
        config.receive_buffer = 1 << 17;
        // The new namespace has no Ethernet interface of its own to try on.
        let made = output_of("ip link add name wifuprobe0 type veth peer name wifuprobe1")
            .and_then(|_| output_of("ip addr add 192.0.2.1/24 dev wifuprobe0"));
        match made.map(|_| Carrier::raw(&config)) {
            Ok(Ok(_)) => found("packet ring and ingress program"),
            Ok(Err(e)) => (Status::Limited, e.to_string()),
            Err(e) => (Status::Limited, e.to_string()),
        }
    })
}

fn tun() -> Answer {
    match sys::open_tun("wifuprobe%d") {
        Ok((_, name)) => found(format!("/dev/net/tun makes {name}")),
        Err(e) => missing(format!("/dev/net/tun: {e}")),
    }
}

fn abstract_socket() -> Answer {
    let name = format!("wifu/doctor/{}", std::process::id());
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None);
    let bound = socket.and_then(|s| {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        rustix::net::bind(&s, &address)
    });
    match bound {
        Ok(()) => found("can be bound"),
        Err(e) => missing(e),
    }
}

fn socket_tag() -> Answer {
    const TAG: u64 = 0x5769_4675_0000_0001;
    let socket = match rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None) {
        Ok(socket) => socket,
        Err(e) => return missing(e),
    };
    let kept = sys::set_max_pacing_rate(&socket, TAG).and_then(|()| sys::max_pacing_rate(&socket));
    match kept {
        Ok(TAG) => found("kept by AF_UNIX sockets"),
        Ok(other) => missing(format!("AF_UNIX gives back {other:#x}")),
        Err(e) => missing(e),
    }
}

fn receive_buffer() -> Answer {
    let path = "/proc/sys/net/core/rmem_max";
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let forced = capability(CAP_NET_ADMIN).0 == Status::Found;
    match text.trim().parse::<u64>() {
        Ok(octets) if octets >= 16 << 20 => found(format!("{octets} bytes")),
        Ok(octets) if forced => found(format!("{octets} bytes, which CAP_NET_ADMIN overrides")),
        Ok(octets) => (Status::Limited, format!("{octets} bytes")),
        Err(_) => (Status::Limited, format!("{path} cannot be read")),
    }
}

fn congestion_controls() -> Answer {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    if ["reno", "cubic"].iter().all(|w| words.contains(w)) {
        found(words.join(" "))
    } else {
        (Status::Limited, words.join(" "))
    }
}

fn program(line: &str) -> Answer {
    match output_of(line) {
        Ok(text) => found(text.trim().to_string()),
        Err(e) => missing(e),
    }
}

fn state_directory() -> Answer {
    let path = crate::netns::RUN;
    let probe = format!("{path}/.doctor-{}", std::process::id());
    let existed = std::path::Path::new(path).exists();
    let tried = std::fs::create_dir_all(path).and_then(|()| std::fs::write(&probe, ""));
    let _ = std::fs::remove_file(&probe);
    if !existed {
        // Only if nobody has put something there meanwhile.
        let _ = std::fs::remove_dir(path);
    }
    match tried {
        Ok(()) => found(path),
        Err(e) => missing(format!("{path}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_thing_has_a_remedy_and_names_are_unique() {
        let diagnosis = diagnose();
        let mut names: Vec<&str> = diagnosis.checks.iter().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROBES.len());
        for check in &diagnosis.checks {
            assert_eq!(
                check.fix.is_empty(),
                check.status == Status::Found,
                "{}",
                check.name
            );
        }
        let json: serde_json::Value = serde_json::from_str(&diagnosis.json()).expect("JSON");
        assert_eq!(json["checks"].as_array().map(Vec::len), Some(PROBES.len()));
        assert_eq!(json["checks"][0]["name"], "kernel");
    }

    #[test]
    fn a_capability_that_does_not_exist_is_missing() {
        assert_eq!(capability(63).0, Status::Missing);
    }
}
