//! `wifu daemon`, `wifu doctor` and `wifu clean`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use core::net::Ipv4Addr;
use wifu_engine::EndpointConfig;
use wifu_linux::clean::{Options as CleanOptions, clean as remove};
use wifu_linux::daemon::{CarrierConfig, Daemon, DaemonConfig};
use wifu_linux::faults::FaultConfig;
use wifu_linux::front::FrontConfig;
use wifu_linux::poller::Coalesce;
use wifu_linux::tun::TunConfig;
use wifu_wire::Span;

/// What carries packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum CarrierName {
    /// IPv4 raw sockets on the protocols' own numbers: between WiFu hosts
    Raw,
    /// A TUN device and TCP proper: with any kernel's TCP
    Tun,
}

/// The daemon pauses awake for so long from the start of a burst: what 100 kB take at 1 Gb/s.
const AWAKE: Span = Span(1_000_000);

/// `wifu daemon`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    wifu daemon                          raw sockets, socket in /run/wifu/<namespace>/\n  \
    wifu daemon --pcap out.pcapng        and a capture for Wireshark\n  \
    wifu daemon --carrier tun --address 10.9.0.2 --kernel-address 10.9.0.1\n\n\
    Needs CAP_NET_RAW (raw) or CAP_NET_ADMIN (tun). One daemon per network namespace.\n\
    `wifu doctor` says what a host lacks.")]
pub struct DaemonArgs {
    /// What carries packets; may be given twice
    #[arg(long, value_enum, default_values_t = [CarrierName::Raw])]
    carrier: Vec<CarrierName>,
    /// tun: address of WiFu's connections, used by nobody else
    #[arg(long, value_name = "IP")]
    address: Option<Ipv4Addr>,
    /// tun: address of this host's kernel on the device
    #[arg(long, value_name = "IP")]
    kernel_address: Option<Ipv4Addr>,
    /// Longest IP packet, octets
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
    /// Also know the protocols and profiles of this TOML file
    #[arg(long, value_name = "TOML")]
    file: Option<PathBuf>,
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
    /// Most connections at once
    #[arg(long, default_value_t = 65_536)]
    max_connections: usize,
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
pub fn daemon(args: &DaemonArgs) -> anyhow::Result<ExitCode> {
    if std::env::var_os("LD_PRELOAD").is_some_and(|v| v.to_string_lossy().contains("wifu")) {
        bail!("the daemon can't run under `wifu exec`: its own sockets would be carried by itself");
    }
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("WIFU_LOG").unwrap_or("info".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let carriers = args
        .carrier
        .iter()
        .map(|c| carrier(*c, args))
        .collect::<Result<_, _>>()?;
    let group = args.group.as_deref().map(group).transpose()?;
    let socket = match &args.socket {
        Some(path) => path.clone(),
        None => default_socket()?,
    };
    let state = socket.with_file_name("listeners.json");
    if let Some(directory) = socket.parent() {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("creating {}", directory.display()))?;
    }
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
        library: crate::catalog::library(args.file.as_deref())?,
        registry: wifu_parts::registry(),
    };
    allow_many_descriptors();
    wifu_linux::sys::large_buffers_from_kernel();
    let daemon = Daemon::open(config)?;
    give_up_privileges(&socket)?;
    tracing::info!("ready: applications reach it at {}", socket.display());
    let signal = daemon.run()?;
    tracing::info!("ended by signal {signal}");
    Ok(ExitCode::SUCCESS)
}

/// Raises the limit on open files as far as it may be: there is one for each connection, and the
/// usual 1024 are soon gone.
fn allow_many_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Where it stays, connections beyond it fail with the reason.
    let _ = setrlimit(Resource::Nofile, raised);
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
        });
    }
    let (Some(stack), Some(kernel)) = (args.address, args.kernel_address) else {
        bail!("--carrier tun needs --address (WiFu's) and --kernel-address (this host's)");
    };
    Ok(CarrierConfig::Tun(TunConfig {
        mtu,
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

/// `wifu clean`.
#[derive(Args)]
pub struct CleanArgs {
    /// Only print the steps
    #[arg(long)]
    dry_run: bool,
    /// Also what living processes of ours own
    #[arg(long)]
    all: bool,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// `wifu clean` without options.
///
/// # Errors
/// The host can't be asked what there is.
pub fn clean_stale() -> anyhow::Result<ExitCode> {
    clean(&CleanArgs {
        dry_run: false,
        all: false,
        json: false,
    })
}

/// Remove what dead WiFu processes left on this host, and nothing else.
///
/// # Errors
/// The host can't be asked what there is.
pub fn clean(args: &CleanArgs) -> anyhow::Result<ExitCode> {
    let report = remove(CleanOptions {
        dry_run: args.dry_run,
        all: args.all,
    })?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        for step in &report.steps {
            println!("{step}");
        }
        for kept in &report.kept {
            println!("kept: {kept}");
        }
        for failed in &report.failed {
            eprintln!("failed: {failed}");
        }
        if report.steps.is_empty() {
            println!("nothing of ours to remove");
        }
    }
    Ok(if report.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
