//! The flags of `wifu perf`: iperf3's letters, and a few long names of ours.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use wifu_sim::scenario::FlowSpec;

use crate::known::Known;

use super::units::{Format, parse_application, parse_bytes, parse_rate_burst, parse_seconds};
use super::units::{parse_resolution, parse_stream};

/// The options of `wifu perf`.
#[derive(clap::Args, Debug, Clone)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
pub struct Args {
    /// Run as server
    #[arg(short, long, conflicts_with = "client")]
    pub server: bool,
    /// Run as client of the server on HOST
    #[arg(short, long, value_name = "HOST")]
    pub client: Option<String>,
    /// Port of the control connection
    #[arg(short, long, default_value_t = 5201)]
    pub port: u16,
    /// Protocol: a WiFu protocol, a kernel congestion control (kernel:NAME), or `list`
    ///
    /// Every TCP has the constants of `profile=rfc-modern` unless it names another profile.
    #[arg(
        short = 'C',
        long = "congestion",
        visible_alias = "protocol",
        value_name = "PROTOCOL"
    )]
    pub congestion: Option<String>,
    /// Bind to this address
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// IPv4 only
    #[arg(short = '4', long = "version4", conflicts_with = "version6")]
    pub version4: bool,
    /// IPv6 only
    #[arg(short = '6', long = "version6")]
    pub version6: bool,

    /// Seconds to transmit [default: 10]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds,
          conflicts_with_all = ["bytes", "blockcount"])]
    pub time: Option<f64>,
    /// Bytes to transmit in each direction (exactly), instead of a time; K, M, G, T are 1024^n
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes,
          conflicts_with = "blockcount")]
    pub bytes: Option<u64>,
    /// Blocks to transmit in each direction, instead of a time
    #[arg(short = 'k', long, value_name = "BLOCKS", value_parser = parse_bytes)]
    pub blockcount: Option<u64>,
    /// Seconds at the start that do not count
    #[arg(short = 'O', long, value_name = "SECONDS", default_value = "0",
          value_parser = parse_seconds)]
    pub omit: f64,
    /// Parallel streams, 1 to 1000
    #[arg(short = 'P', long, value_name = "STREAMS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub parallel: u32,
    /// The server sends, the client receives
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both send
    #[arg(long)]
    pub bidir: bool,
    /// Rate of each stream in bit/s (0: unlimited), and blocks sent at once; K, M, G are 1000^n
    #[arg(short = 'b', long, value_name = "RATE[/BURST]", default_value = "0",
          value_parser = parse_rate_burst)]
    pub bitrate: (u64, u32),
    /// Bytes in one write (a block) [default: 128K; with -b what takes 20 ms, if that is less]
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes)]
    pub length: Option<u64>,
    /// Socket buffers, bytes
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes)]
    pub window: Option<u64>,
    /// Maximum segment size, bytes
    #[arg(short = 'M', long, value_name = "BYTES")]
    pub set_mss: Option<u32>,
    /// Set TCP_NODELAY
    #[arg(short = 'N', long)]
    pub no_delay: bool,

    /// Traffic of an application: http, request, onoff or trace, with keys as in
    /// http,pause=500ms,count=20
    #[arg(long, value_name = "APP[,KEY=VALUE...]", value_parser = parse_application,
          conflicts_with_all = ["bytes", "blockcount", "omit", "parallel", "reverse", "bidir",
                                "bitrate"])]
    pub app: Option<FlowSpec>,
    /// What the application draws (lengths, pauses, talk) comes from this seed [default: 1]
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "app",
        conflicts_with = "stream"
    )]
    pub seed: Option<u64>,
    /// ... or from this random stream, that of a flow in the simulator: 16 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "app", value_parser = parse_stream)]
    pub stream: Option<u64>,
    /// Record in the JSON (`wifu.arrivals` of a stream) how many bytes had arrived when, at most
    /// once in so many seconds, and compare them with what was sent (`wifu.corrupt`)
    #[arg(long, value_name = "SECONDS", value_parser = parse_resolution,
          conflicts_with = "omit")]
    pub arrivals: Option<f64>,

    /// Seconds between reports; 0: only the summary
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    pub interval: f64,
    /// Write JSON at the end
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Write one JSON object per line while running
    #[arg(long)]
    pub json_stream: bool,
    /// With --json-stream: the whole JSON at the end as well
    #[arg(long)]
    pub json_stream_full_output: bool,
    /// Show the server's output too
    #[arg(long)]
    pub get_server_output: bool,
    /// Append output to FILE
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// Put TITLE before every line, and into the JSON
    #[arg(short = 'T', long)]
    pub title: Option<String>,
    /// Put this string into the JSON
    #[arg(long, value_name = "STRING")]
    pub extra_data: Option<String>,
    /// Unit of rates: k m g t (bits), K M G T (bytes)
    #[arg(short, long, value_parser = Format::parse)]
    pub format: Option<Format>,
    /// Tell more
    #[arg(short = 'V', long)]
    pub verbose: bool,
    /// Accepted for iperf3's sake: every line is flushed at once anyway
    #[arg(long)]
    pub forceflush: bool,

    /// Milliseconds a connection may take to come about
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub connect_timeout: u64,
    /// Milliseconds a receiving stream may be silent
    #[arg(long, value_name = "MS", default_value_t = 120_000)]
    pub rcv_timeout: u64,
    /// Milliseconds to wait for an answer on the control connection
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    pub control_timeout: u64,
    /// Send the control connection to this host, over another path than the test's
    #[arg(long, value_name = "HOST")]
    pub control_host: Option<String>,
    /// Server: port of the data streams [default: any free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub data_port: u16,
    /// The WiFu daemon's socket [default: /run/wifu/NAMESPACE/daemon.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    #[command(flatten)]
    pub known: Known,

    /// Server: exit after one test
    #[arg(short = '1', long)]
    pub one_off: bool,
    /// Server: run in the background
    #[arg(short = 'D', long)]
    pub daemon: bool,
    /// Server: write the process number to FILE
    #[arg(short = 'I', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,

    /// Refused with a reason: there is nothing to measure over UDP
    #[arg(short, long, hide = true)]
    pub udp: bool,
    /// This process is the background half of `-D`
    #[arg(long, hide = true)]
    pub daemonized: bool,
    /// This process serves one test whose control connection is its standard input
    #[arg(long, hide = true, value_name = "NUMBER")]
    pub worker: Option<u64>,
    /// The client's greeting, when an earlier incarnation of the worker has read it
    #[arg(long, hide = true, value_name = "JSON")]
    pub greeting: Option<String>,
}

const AFTER_HELP: &str = "\
The letters are iperf3's. What differs: the protocols that -C takes; -n sends exactly so many
bytes and waits until they have arrived; every row names both ends; interrupting writes the
results so far; our additions to the JSON are below keys named `wifu`. CPU is of the processes of
`wifu perf` alone: over a WiFu protocol the daemon does most of the work, for whomever it serves,
and has a line of its own (`daemon_cpu_percent`); what the kernel does for its TCP is partly in the
system time of the processes.

The applications of --app are the simulator's, with its keys, units and draws (the book's page
on scenarios): they end after `count`, at a trace's end, or when -t has passed, which then is the
time after which nothing new is begun.
  wifu perf -c HOST --app http,pause=500ms,count=20     files, each over its own connection
  wifu perf -c HOST --app request,response=30k -t 60    questions and answers over one
  wifu perf -c HOST --app onoff,rate=1Mb/s,on=1s,off=2s talk and silence
  wifu perf -c HOST --app trace,rows=0:1000+2.5:200     bytes at seconds since the start";

/// Bytes of a block, as iperf3 has it.
const BLOCK: u64 = 128 << 10;
/// Bytes of a segment: shorter blocks make no smoother pace.
const SEGMENT: u64 = 1448;

impl Args {
    /// Checks what clap cannot.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(
            !self.udp,
            "wifu perf measures byte streams: there is no -u; a paced stream is -b RATE"
        );
        ensure!(
            self.server || self.client.is_some(),
            "be a server (-s) or the client of one (-c HOST); -C list shows the protocols"
        );
        ensure!(
            self.interval == 0.0 || self.interval >= 0.01,
            "-i is 0 (no interval reports) or at least 0.01 s"
        );
        ensure!((1..=1 << 26).contains(&self.block()), "-l is 1 byte to 64M");
        ensure!(
            self.bytes != Some(0) && self.blockcount != Some(0),
            "nothing to send"
        );
        ensure!(self.time != Some(0.0), "-t needs a time to transmit");
        ensure!(self.window.is_none_or(|w| w <= 1 << 30), "-w is at most 1G");
        ensure!(
            !(self.daemon && self.client.is_some()),
            "-D is for servers (-s)"
        );
        Ok(())
    }

    /// Time between reports, if there are to be any.
    pub fn report_interval(&self) -> Option<Duration> {
        (self.interval > 0.0).then(|| Duration::from_secs_f64(self.interval))
    }

    /// Bytes in one write. A pace is kept block by block: with one of 128 KiB a test of two seconds
    /// at 1 Mb/s would send half as much again as it was asked to. Who counts blocks means those
    /// of iperf3.
    pub fn block(&self) -> u64 {
        let own = match self.bitrate.0 {
            // Who says how many blocks a burst has means those of iperf3, too.
            rate if rate > 0 && self.blockcount.is_none() && self.bitrate.1 == 1 => {
                (rate / 8 / 50).clamp(SEGMENT, BLOCK)
            }
            _ => BLOCK,
        };
        self.length.unwrap_or(own)
    }

    /// Patience for an answer on the control connection.
    pub fn control_patience(&self) -> Duration {
        Duration::from_millis(self.control_timeout)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: super::Args,
    }

    #[test]
    fn a_paced_block_is_short_unless_it_is_said() {
        let block = |words: &str| {
            let words = ["wifu", "-c", "n1"]
                .into_iter()
                .chain(words.split_whitespace());
            Words::try_parse_from(words).map(|w| w.args.block()).ok()
        };
        assert_eq!(block(""), Some(131_072));
        assert_eq!(block("-b 1M"), Some(2_500));
        assert_eq!(block("-b 10k"), Some(1_448));
        assert_eq!(block("-b 1M/10"), Some(131_072));
        assert_eq!(block("-b 1G"), Some(131_072));
        assert_eq!(block("-b 1M -l 8K"), Some(8_192));
        assert_eq!(block("-b 1M -k 3"), Some(131_072));
    }
}
