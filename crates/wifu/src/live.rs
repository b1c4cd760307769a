//! `wifu daemon`, `wifu doctor` and `wifu clean`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::known::Known;
use crate::limits::allow_descriptors;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use wifu_engine::EndpointConfig;
use wifu_linux::daemon::{CarrierConfig, Daemon, DaemonConfig, DelayDir, FactsConfig, HostWork};
use wifu_linux::faults::FaultConfig;
use wifu_linux::front::FrontConfig;
use wifu_linux::ingress::SERVICES;
use wifu_linux::poller::Coalesce;
use wifu_linux::raw::KeepOff;
use wifu_linux::tun::TunConfig;
use wifu_linux::udp;
use wifu_node::{HostCost, Registry, Scheduler};
use wifu_wire::Span;

/// What carries packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum CarrierName {
    /// IPv4 raw sockets on the protocols' own numbers: between WiFu hosts
    Raw,
    /// A TUN device and TCP proper: with any kernel's TCP
    Tun,
    /// Datagrams of UDP: between WiFu hosts, through networks that drop unknown protocol numbers,
    /// and without root
    Udp,
}

/// What packets of connections cost a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ProfileName {
    /// Nothing beside what they take anyhow
    Off,
    /// 1.2 ms to send one, 0.6 ms to receive one
    Py,
}

/// How the kernel is kept from forwarding what is served.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// A BPF program on the interfaces' ingress
    Tcx,
    /// DROP rules of iptables, which a process with the right to remove them watches
    Rule,
}

/// The daemon pauses awake for so long from the start of a burst: what 100 kB take at 1 Gb/s.
const AWAKE: Span = Span(1_000_000);

/// `wifu daemon`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wifu daemon                          raw sockets, socket in /run/wifu/<namespace>/\n  \
    wifu daemon --pcap out.pcapng        and a capture for Wireshark\n  \
    wifu daemon --carrier tun --address 10.9.0.2 --kernel-address 10.9.0.1\n  \
    wifu daemon --carrier udp --socket ~/wifu.sock    without root\n  \
    wifu daemon --carrier raw --carrier udp    both; tcp-sack,carrier=udp takes the second\n  \
    wifu daemon --carrier raw --carrier udp --serve atp    atp,carrier=udp is in UDP\n\n\
    Needs CAP_NET_RAW (raw), CAP_NET_ADMIN (tun) or nothing (udp); --serve needs CAP_NET_ADMIN and CAP_BPF\n\
    as well, and CAP_SYS_ADMIN for lanes. One daemon per network namespace.\n\
    `wifu doctor` says what a host lacks.")]
pub struct DaemonArgs {
    /// What carries packets; repeat for more. A composition chooses by carrier=udp and its like;
    /// one that does not has the first, or of tun and others the first other
    #[arg(long, value_enum, default_values_t = [CarrierName::Raw])]
    carrier: Vec<CarrierName>,
    /// tun: address of WiFu's connections, used by nobody else; once more for one of IPv6
    #[arg(long, value_name = "IP")]
    address: Vec<IpAddr>,
    /// tun: address of this host's kernel on the device; once more for one of IPv6
    #[arg(long, value_name = "IP")]
    kernel_address: Vec<IpAddr>,
    /// udp: the port, the same on all hosts [default: 9438]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// udp: the kernel neither cuts nor joins datagrams: captures on the interface, netem and
    /// BPF programs see them one by one (slower)
    #[arg(long)]
    no_offload: bool,
    /// udp: a composition with TCP's header whose datagrams say 0 for its protocol number, as ATP's
    /// thesis ran Tahoe beside ATP; the same on all hosts
    #[arg(long, value_name = "PROTOCOL")]
    udp_tcp: Option<String>,
    /// Longest IP packet, bytes
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// raw: go past the kernel's IP layer (faster; its filters see nothing)
    #[arg(long)]
    direct: bool,
    /// The applications' socket [default: /run/wifu/NAMESPACE/daemon.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Who may use it: octal mode of the socket
    #[arg(long, default_value = "0660", value_parser = octal)]
    mode: u32,
    /// ... and its group
    #[arg(long, value_name = "NAME|GID")]
    group: Option<String>,
    /// Capture all packets into this pcapng file
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// raw: run what this composition brings for nodes on the way, here, for its connections of
    /// this host and those that the host relays; repeat for more
    #[arg(long, value_name = "PROTOCOL")]
    serve: Vec<String>,
    /// UDP port by which nodes tell packets that are UDP datagrams by their own header (ATP);
    /// either end of a connection has one of them; repeat for more, the same on all hosts
    /// [default: the format's: 9438]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    service_port: Vec<u16>,
    /// --serve: an interface from which packets of what is served are taken, on which those for all
    /// who hear leave, and whose driver tells facts; repeat for more. What comes by others is the
    /// kernel's; packets go on by the kernel's routes [default: each Ethernet interface that has an
    /// address]
    #[arg(long, value_name = "NAME", requires = "serve")]
    device: Vec<String>,
    /// --serve: a monitor interface beside the radio, such as mon0: shows what is overheard, signal
    /// and rate of frames, and what became of those that left
    #[arg(long, value_name = "DEVICE", requires = "serve")]
    monitor: Option<String>,
    /// --serve: an interface that hears frames for other stations without a monitor beside it, and
    /// without signal and rate; repeat for more
    #[arg(
        long,
        value_name = "DEVICE",
        requires = "serve",
        conflicts_with = "monitor"
    )]
    overhear: Vec<String>,
    /// --serve: where the driver of a device tells its delay, as `wifu delay` says; without DEVICE
    /// of all; repeat for more [default: /run/wifu/delay/DEVICE, of each device by which others are
    /// reached]
    #[arg(long, value_name = "[DEVICE=]DIR", requires = "serve")]
    delay_dir: Vec<DelayDir>,
    /// --serve: how the kernel is kept from forwarding the same packets [default: tcx, or rule
    /// before Linux 6.6]
    #[arg(long, value_name = "HOW", value_enum, requires = "serve")]
    keep_off: Option<By>,
    /// --serve: how lanes share the links of this host: drr, the same number of bytes for each;
    /// fifo, the packet that came first; strict, the lane that was opened first [default: drr]
    #[arg(long, value_name = "ORDER", requires = "serve")]
    lanes: Option<Scheduler>,
    #[command(flatten)]
    known: Known,
    /// When busy, let packets gather, for this long at most ("0 s" switches off)
    #[arg(long, value_name = "TIME", default_value = "150 us")]
    coalesce: Span,
    /// Test equipment: faults of packets that leave, such as
    /// loss=2%,reorder=5%,duplicate=1%,corrupt=0.1%,delay=5ms,seed=1
    #[arg(long, value_name = "FAULTS")]
    faults: Option<FaultConfig>,
    /// ... and of packets that come
    #[arg(long, value_name = "FAULTS")]
    faults_in: Option<FaultConfig>,
    /// Let packets of this host's connections cost it what they cost a protocol stack in Python:
    /// 1.2 ms to send one, 0.6 ms to receive one, one at a time, as host.profile of a scenario;
    /// meanwhile 212,992 bytes may wait, and what comes beyond is dropped and counted
    #[arg(long, value_name = "PROFILE", value_enum)]
    host_profile: Option<ProfileName>,
    /// --host-profile: with times so many times as long, as under `wifu emu --dilation`
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = above_zero)]
    host_slower: f64,
    /// End when the process that started it does
    #[arg(long, hide = true)]
    ends_with_parent: bool,
    /// Most connections at once
    #[arg(long, default_value_t = 65_536, value_parser = at_least_one)]
    max_connections: usize,
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok(times),
        _ => Err(String::from("give a number above 0, such as 2")),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err(String::from(
            "a daemon without connections serves nobody: give 1 or more",
        )),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}: give a number such as 65536")),
    }
}

/// What the arguments say together.
fn check(args: &DaemonArgs) -> anyhow::Result<()> {
    let count = |c| args.carrier.iter().filter(|x| **x == c).count();
    let (raw, tun) = (count(CarrierName::Raw), count(CarrierName::Tun));
    let udp = count(CarrierName::Udp);
    for (name, n) in [("raw", raw), ("tun", tun), ("udp", udp)] {
        if n > 1 {
            bail!(
                "--carrier {name} is given {n} times: every packet would be handled so often. Once is enough"
            );
        }
    }
    for (option, given) in [
        ("--port", args.port.is_some()),
        ("--no-offload", args.no_offload),
        ("--udp-tcp", args.udp_tcp.is_some()),
    ] {
        if udp == 0 && given {
            bail!("{option} is for --carrier udp: add it, or leave {option} out");
        }
    }
    check_services(args, udp)?;
    if tun == 0 && !(args.address.is_empty() && args.kernel_address.is_empty()) {
        bail!("--address and --kernel-address are for --carrier tun: add it, or leave them out");
    }
    if raw == 0 && !args.serve.is_empty() {
        bail!("--serve is for --carrier raw: add it, or leave --serve out");
    }
    if args.direct && matches!(args.keep_off, Some(By::Rule)) {
        bail!(
            "--keep-off rule keeps back what is served alone, and --direct takes more: leave one out"
        );
    }
    if args.host_slower != 1.0 && args.host_profile != Some(ProfileName::Py) {
        bail!("--host-slower is for --host-profile py: add it, or leave --host-slower out");
    }
    check_devices(&args.device, &args.overhear)?;
    if raw == 0 && args.direct {
        bail!("--direct is for --carrier raw: add it, or leave --direct out");
    }
    for (option, ips) in [
        ("--address", &args.address),
        ("--kernel-address", &args.kernel_address),
    ] {
        if let Some(ip) = ips.iter().find(|ip| !is_for_hosts(**ip)) {
            bail!(
                "{option} {ip}: no address for a host. Take a private one, such as 10.9.0.2 or \
                 fd09::2"
            );
        }
        for family in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
            if ips.iter().filter(|ip| family(ip)).count() > 1 {
                bail!("{option} is given twice for one version of IP: once each is enough");
            }
        }
    }
    if args
        .address
        .iter()
        .any(|ip| args.kernel_address.contains(ip))
    {
        bail!(
            "--address and --kernel-address are the same: WiFu needs one of its own, such as the \
             next one"
        );
    }
    Ok(())
}

/// Ports by which nodes tell what is in UDP.
fn check_services(args: &DaemonArgs, udp: usize) -> anyhow::Result<()> {
    if args.service_port.is_empty() {
        return Ok(());
    }
    if udp == 0 && args.serve.is_empty() {
        bail!("--service-port is for --carrier udp and --serve: add one of them, or leave it out");
    }
    if args.service_port.len() > SERVICES {
        bail!("--service-port is given more than {SERVICES} times: relays look for no more");
    }
    Ok(())
}

/// Interfaces that are served, and of those the ones that are listened on.
fn check_devices(served: &[String], overheard: &[String]) -> anyhow::Result<()> {
    for (i, device) in served.iter().enumerate() {
        if served[..i].contains(device) {
            bail!("--device {device} is given twice: once is enough");
        }
    }
    let beside = overheard.iter().find(|ear| !served.contains(ear));
    if let Some(ear) = beside.filter(|_| !served.is_empty()) {
        bail!("--overhear {ear}: of the interfaces of --device none is that: add --device {ear}");
    }
    Ok(())
}

fn is_for_hosts(ip: IpAddr) -> bool {
    match ip {
        // 0/8 and from 224 on: RFC 1122 3.2.1.3, RFC 1112.
        IpAddr::V4(ip) => !ip.is_loopback() && (1..224).contains(&ip.octets()[0]),
        IpAddr::V6(ip) => {
            let group = ip.is_multicast() || ip.is_unspecified();
            !(group || ip.is_loopback() || ip.is_unicast_link_local())
        }
    }
}

/// Of addresses that were checked, the one of each family.
fn families(ips: &[IpAddr]) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let v4 = ips.iter().find_map(|ip| match ip {
        IpAddr::V4(ip) => Some(*ip),
        IpAddr::V6(_) => None,
    });
    let v6 = ips.iter().find_map(|ip| match ip {
        IpAddr::V6(ip) => Some(*ip),
        IpAddr::V4(_) => None,
    });
    (v4, v6)
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(String::from("write three octal digits, e.g. 0660")),
    }
}

/// Run the daemon.
///
/// # Errors
/// It could not start; what it had made is removed.
pub fn daemon(args: &DaemonArgs, registry: &Registry) -> anyhow::Result<ExitCode> {
    check(args)?;
    let registry = args.known.with(registry)?;
    if std::env::var_os("LD_PRELOAD").is_some_and(|v| v.to_string_lossy().contains("wifu")) {
        bail!("the daemon can't run under `wifu exec`: its own sockets would be carried by itself");
    }
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("WIFU_LOG").unwrap_or("info".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let (socket, state) = places(args)?;
    let result = serve(args, &registry, socket.clone(), state);
    if args.socket.is_none()
        && let Some(directory) = socket.parent()
    {
        // It stays with whatever is in it, such as the list of listening sockets.
        let _ = std::fs::remove_dir(directory);
    }
    result
}

fn serve(
    args: &DaemonArgs,
    registry: &Registry,
    socket: PathBuf,
    state: PathBuf,
) -> anyhow::Result<ExitCode> {
    let parent = getppid();
    let carriers = args
        .carrier
        .iter()
        .map(|c| carrier(*c, args))
        .collect::<Result<_, _>>()?;
    let group = args.group.as_deref().map(group).transpose()?;
    let front = FrontConfig {
        socket: socket.clone(),
        mode: args.mode,
        group,
        state,
    };
    let config = DaemonConfig {
        carriers,
        front,
        pcap: args.pcap.clone(),
        coalesce: Coalesce {
            pause: args.coalesce,
            awake: AWAKE,
            ..Coalesce::default()
        },
        faults: args.faults,
        faults_in: args.faults_in,
        endpoint: EndpointConfig {
            seed: entropy()?,
            max_conns: args.max_connections,
            ..EndpointConfig::default()
        },
        registry: registry.clone(),
        serve: args.serve.clone(),
        service_ports: args.service_port.clone(),
        lanes: args.lanes,
        devices: args.device.clone(),
        facts: FactsConfig {
            monitor: args.monitor.clone(),
            overhear: args.overhear.clone(),
            delays: args.delay_dir.clone(),
        },
        host: match args.host_profile {
            None | Some(ProfileName::Off) => None,
            Some(ProfileName::Py) => Some(HostWork {
                cost: HostCost::PY,
                slower: args.host_slower,
            }),
        },
    };
    // There is one for each connection, and the usual 1024 are soon gone.
    allow_descriptors(None);
    wifu_linux::sys::large_buffers_from_kernel();
    let daemon = Daemon::open(config)?;
    give_up_privileges(&socket)?;
    if args.ends_with_parent {
        // Other identities than those that it began with would forget it.
        set_parent_process_death_signal(Some(Signal::TERM)).context("following the parent")?;
        if getppid() != parent {
            bail!("the process that started this daemon has ended");
        }
    }
    tracing::info!("ready: applications reach it at {}", socket.display());
    let signal = daemon.run()?;
    tracing::info!("ended by signal {signal}");
    Ok(ExitCode::SUCCESS)
}

/// The applications' socket and the list of listening sockets. The daemon makes its own folder, and
/// no others.
fn places(args: &DaemonArgs) -> anyhow::Result<(PathBuf, PathBuf)> {
    let Some(socket) = &args.socket else {
        let socket = default_socket()?;
        if let Some(directory) = socket.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("creating {}", directory.display()))?;
        }
        let state = socket.with_file_name("listeners.json");
        return Ok((socket, state));
    };
    let directory = match socket.parent() {
        Some(d) if !d.as_os_str().is_empty() => d,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        let directory = directory.display();
        bail!(
            "--socket: there is no folder {directory}: make it first, so that its rights are yours"
        );
    }
    // Several daemons, each in a namespace of its own, may have their sockets in one folder.
    let mut state = socket.clone().into_os_string();
    state.push(".listeners.json");
    Ok((socket.clone(), state.into()))
}

/// Everything is open: what comes from the network or from programs meets a daemon that can do
/// little beside its work.
fn give_up_privileges(socket: &Path) -> anyhow::Result<()> {
    let directory = match socket.parent() {
        Some(d) if !d.as_os_str().is_empty() => d,
        _ => Path::new("."),
    };
    let kept = wifu_linux::privileges::give_up(directory).context("giving up privileges")?;
    if kept {
        let directory = directory.display();
        tracing::warn!("{directory} is not this user's: CAP_DAC_OVERRIDE is kept to write there");
    }
    Ok(())
}

/// Where the daemon of this network namespace listens.
///
/// # Errors
/// The namespace's number can't be read.
pub fn default_socket() -> anyhow::Result<PathBuf> {
    let inode = wifu_linux::netns::own_inode().context("/proc/self/ns/net")?;
    Ok(PathBuf::from(format!(
        "{}/{inode}/daemon.sock",
        wifu_linux::netns::RUN
    )))
}

fn carrier(name: CarrierName, args: &DaemonArgs) -> anyhow::Result<CarrierConfig> {
    let mtu = usize::from(args.mtu);
    if name == CarrierName::Raw {
        return Ok(CarrierConfig::Raw {
            mtu,
            direct: args.direct,
            keep_off: match args.keep_off {
                None => KeepOff::Best,
                Some(By::Tcx) => KeepOff::Program,
                Some(By::Rule) => KeepOff::Rule,
            },
        });
    }
    if name == CarrierName::Udp {
        return Ok(CarrierConfig::Udp {
            mtu,
            port: args.port.unwrap_or(udp::PORT),
            offload: !args.no_offload,
            tcp: args.udp_tcp.clone(),
        });
    }
    let (stack, stack6) = families(&args.address);
    let (kernel, kernel6) = families(&args.kernel_address);
    let (Some(stack), Some(kernel)) = (stack, kernel) else {
        bail!("--carrier tun needs --address (WiFu's) and --kernel-address (this host's), of IPv4");
    };
    if stack6.is_some() != kernel6.is_some() {
        bail!("for IPv6 as well, --address and --kernel-address need one of it each");
    }
    Ok(CarrierConfig::Tun(TunConfig {
        mtu,
        v6: kernel6.zip(stack6),
        ..TunConfig::new(kernel, stack)
    }))
}

fn group(text: &str) -> anyhow::Result<u32> {
    if let Ok(gid) = text.parse() {
        return Ok(gid);
    }
    let groups = std::fs::read_to_string("/etc/group").context("reading /etc/group")?;
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text))
            .then(|| fields.nth(1)?.parse().ok())
            .flatten()
    });
    found.with_context(|| format!("no group \"{text}\" in /etc/group"))
}

fn entropy() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    let mut source = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    source.read_exact(&mut bytes).context("/dev/urandom")?;
    Ok(u64::from_ne_bytes(bytes))
}

/// `wifu doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// For machines
    #[arg(long)]
    json: bool,
}

/// Say what this host offers and lacks. The exit status is 1 if something is missing.
///
/// # Errors
/// None.
pub fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let diagnosis = wifu_linux::doctor::diagnose();
    if args.json {
        println!("{}", diagnosis.json());
    } else {
        print!("{}", diagnosis.table());
    }
    Ok(if diagnosis.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        daemon: DaemonArgs,
    }

    /// What is wrong with the arguments.
    fn complaint(args: &str) -> String {
        let words = std::iter::once("wifu").chain(args.split_whitespace());
        match Command::try_parse_from(words) {
            Ok(c) => check(&c.daemon).map_or_else(|e| e.to_string(), |()| String::new()),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn daemons_with_sockets_in_one_folder_have_lists_of_their_own() {
        let folder = std::env::temp_dir();
        let state = |name: &str| {
            let socket = folder.join(name).display().to_string();
            let args = ["wifu", "--socket", &socket];
            let (given, state) =
                places(&Command::try_parse_from(args).expect("arguments").daemon).expect("places");
            assert_eq!(given, folder.join(name));
            state
        };
        for name in ["wifu.n1", "wifu.n2", "wifu"] {
            assert_eq!(state(name), folder.join(format!("{name}.listeners.json")));
        }
    }

    #[test]
    fn arguments_that_mean_nothing_are_refused_with_what_to_do() {
        const TUN: &str = "--carrier tun --address 10.9.0.2 --kernel-address 10.9.0.1";
        assert_eq!(complaint(""), "");
        assert_eq!(complaint(TUN), "");
        let both = format!("{TUN} --address fd09::2 --kernel-address fd09::1");
        assert_eq!(complaint(&both), "");
        let heard = "--serve hop --device eth0 --device eth1 --overhear eth1";
        assert_eq!(complaint(heard), "");
        assert_eq!(complaint(&format!("{TUN} --carrier raw --direct")), "");
        assert_eq!(complaint(&format!("{TUN} --carrier raw --carrier udp")), "");
        let tun = |own: &str, kernel: &str| {
            complaint(&format!(
                "--carrier tun --address {own} --kernel-address {kernel}"
            ))
        };
        for (said, wanted) in [
            (
                complaint("--carrier raw --carrier raw"),
                "--carrier raw is given 2 times",
            ),
            (
                complaint(&format!("{TUN} --carrier tun")),
                "--carrier tun is given 2 times",
            ),
            (complaint("--carrier udp --carrier udp"), "is given 2 times"),
            (complaint("--port 9000"), "for --carrier udp"),
            (complaint("--device eth0"), "--serve"),
            (
                complaint("--serve hop --device eth0 --device eth1 --device eth0"),
                "--device eth0 is given twice",
            ),
            (
                complaint("--serve hop --device eth0 --overhear eth1"),
                "add --device eth1",
            ),
            (complaint("--no-offload"), "for --carrier udp"),
            (complaint("--address 10.9.0.2"), "for --carrier tun"),
            (complaint("--kernel-address 10.9.0.2"), "for --carrier tun"),
            (complaint(&format!("{TUN} --direct")), "for --carrier raw"),
            (complaint("--max-connections 0"), "give 1 or more"),
            (complaint("--max-connections many"), "a number such as"),
            (tun("10.9.0.1", "10.9.0.1"), "are the same"),
            (
                tun("127.0.0.1", "10.9.0.1"),
                "--address 127.0.0.1: no address for a host",
            ),
            (
                tun("10.9.0.2", "127.0.0.1"),
                "--kernel-address 127.0.0.1: no address",
            ),
            (tun("224.0.0.1", "10.9.0.1"), "no address for a host"),
            (tun("fe80::1", "10.9.0.1"), "no address for a host"),
            (tun("::1", "10.9.0.1"), "no address for a host"),
            (
                complaint(&format!("{TUN} --address 10.9.0.3")),
                "--address is given twice",
            ),
            (tun("0.0.0.0", "10.9.0.1"), "no address for a host"),
            (tun("255.255.255.255", "10.9.0.1"), "no address for a host"),
        ] {
            assert!(said.contains(wanted), "\"{said}\" instead of \"{wanted}\"");
        }
    }
}
