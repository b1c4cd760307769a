//! Programs on hosts: the user's, ping and iperf3.

use std::io::{self, IsTerminal as _, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value as Json;
use wifu_linux::bsd::Signals;
use wifu_linux::emu::Host;

/// How often a running program is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Number of SIGINT on all architectures of Linux.
pub const SIGINT: i32 = 2;

/// How a program ended.
pub enum Ended {
    /// It ended by itself, with this status.
    Status(ExitStatus),
    /// We were told to end, by this signal.
    Signal(i32),
}

/// The names of hosts among the words become their addresses.
pub fn with_addresses(line: &str, hosts: &[Host]) -> String {
    let word = |w: &str| match hosts.iter().find(|h| h.name == w) {
        Some(host) => host.address.to_string(),
        None => w.to_string(),
    };
    // Blanks may be quoted: they stay as they are.
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A shell's command line, on a host or (`None`) on this machine.
pub fn shell(host: Option<&Host>, line: &str) -> io::Result<Command> {
    let mut command = match host {
        Some(host) => host.namespace.command("sh")?,
        None => Command::new("sh"),
    };
    command.arg("-c").arg(line);
    // A script's remaining lines are for us.
    if !io::stdin().is_terminal() {
        command.stdin(Stdio::null());
    }
    Ok(command)
}

/// Wait for a program. The terminal's Ctrl-C is for the program; other signals end it and us.
///
/// # Errors
/// If it cannot be waited for.
pub fn wait(child: &mut Child, signals: &Signals) -> io::Result<Ended> {
    let terminal = io::stdin().is_terminal();
    loop {
        let ended = child.try_wait()?;
        // Also when it has ended: of a Ctrl-C, as a rule.
        let for_us = signals.take().filter(|n| !(terminal && *n == SIGINT));
        if let Some(number) = for_us {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Signal(number));
        }
        if let Some(status) = ended {
            return Ok(Ended::Status(status));
        }
        std::thread::sleep(LOOK);
    }
}

/// The round-trip time of one ping, ms; none if no answer came.
///
/// # Errors
/// If ping cannot be started.
pub fn ping(from: &Host, to: &Host, patience: Duration) -> anyhow::Result<Option<f64>> {
    let output = from
        .namespace
        .command("ping")?
        .args(["-n", "-c1", "-W"])
        .arg(format!("{:.1}", patience.as_secs_f64()))
        .arg(to.address.to_string())
        .stdin(Stdio::null())
        .output()
        .context("ping (Debian: iputils-ping)")?;
    Ok(round_trip(&String::from_utf8_lossy(&output.stdout)))
}

fn round_trip(text: &str) -> Option<f64> {
    let value = text.split("time=").nth(1)?.split(' ').next()?;
    value.trim().parse().ok()
}

/// What a run of iperf3 between two hosts found.
pub struct Throughput {
    /// What arrived, bit/s of real time; none if iperf3 does not say.
    pub received: Option<f64>,
    /// Of datagrams, share lost, per cent.
    pub lost: Option<f64>,
    /// Segments that the sender retransmitted; none for datagrams.
    pub retransmits: Option<u64>,
    /// The whole JSON of iperf3.
    pub all: Json,
}

/// Measure from one host to another; `words` are further options of iperf3. None if a signal ended
/// it, which is told.
///
/// # Errors
/// If iperf3 is missing or fails, with what it said.
pub fn iperf(
    from: &Host,
    to: &Host,
    words: &[&str],
    signals: &Signals,
) -> anyhow::Result<Result<Throughput, i32>> {
    const MISSING: &str = "iperf3 (Debian: iperf3)";
    let server = to
        .namespace
        .command("iperf3")?
        .args(["-s", "-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context(MISSING)?;
    let mut server = Reaped(server);
    let deadline = Instant::now() + Duration::from_secs(5);
    while !listens(to)? {
        ensure!(Instant::now() < deadline, "iperf3's server does not listen");
        ensure!(
            server.0.try_wait()?.is_none(),
            "iperf3's server ended at once"
        );
        std::thread::sleep(LOOK);
    }
    // A server of datagrams must tell itself what it received.
    let tell: &[&str] = match words.contains(&"-u") {
        true => &["--get-server-output"],
        false => &[],
    };
    let mut client = from.namespace.command("iperf3")?;
    let address = to.address.to_string();
    client.args(["-J", "-c", &address]).args(tell).args(words);
    let (stdout, stderr) = match output(&mut client, signals).context(MISSING)? {
        Ok(both) => both,
        Err(number) => return Ok(Err(number)),
    };
    let all: Json = serde_json::from_slice(&stdout)
        .with_context(|| String::from_utf8_lossy(&stderr).trim().to_string())?;
    if let Some(error) = all["error"].as_str() {
        bail!("iperf3: {error}");
    }
    let end = &all["end"];
    Ok(Ok(Throughput {
        received: datagrams(&all).or(end["sum_received"]["bits_per_second"].as_f64()),
        lost: end["sum"]["lost_percent"].as_f64(),
        retransmits: end["sum_sent"]["retransmits"].as_u64(),
        all,
    }))
}

/// What a program says on both outputs.
type Both = (Vec<u8>, Vec<u8>);

/// What a program says, or the signal that ended it and us.
fn output(command: &mut Command, signals: &Signals) -> io::Result<Result<Both, i32>> {
    fn all(pipe: Option<impl Read>) -> Vec<u8> {
        let mut octets = Vec::new();
        // What was read so far will do.
        let _ = pipe.map(|mut p| p.read_to_end(&mut octets));
        octets
    }
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn()?;
    let (said, wrong) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let said = scope.spawn(|| all(said));
        let wrong = scope.spawn(|| all(wrong));
        if let Ended::Signal(number) = wait(&mut child, signals)? {
            return Ok(Err(number));
        }
        let ended = |_| io::Error::other("a thread that reads has panicked");
        Ok(Ok((
            said.join().map_err(ended)?,
            wrong.join().map_err(ended)?,
        )))
    })
}

/// What the server of a test with datagrams received, bit/s. Its sender's duration says nothing:
/// queues empty long after it ended. Neither do the intervals at both ends.
fn datagrams(all: &Json) -> Option<f64> {
    let intervals = all["server_output_json"]["intervals"].as_array()?;
    let whole = intervals.get(1..intervals.len().checked_sub(1)?)?;
    let whole = if whole.is_empty() { intervals } else { whole };
    let sum = |key: &str| -> f64 { whole.iter().flat_map(|i| i["sum"][key].as_f64()).sum() };
    let seconds = sum("seconds");
    (seconds > 0.0).then(|| sum("bytes") * 8.0 / seconds)
}

/// Whether somebody listens at iperf3's port.
fn listens(host: &Host) -> anyhow::Result<bool> {
    let read = || {
        let both = ["tcp", "tcp6"].map(|n| format!("/proc/thread-self/net/{n}"));
        both.map(|p| std::fs::read_to_string(p).unwrap_or_default())
    };
    // Port 5201, state LISTEN.
    let open = |text: &String| {
        let lines = text.lines();
        lines.map(str::to_string).any(|l| {
            let words: Vec<&str> = l.split_whitespace().collect();
            words.get(1).is_some_and(|w| w.ends_with(":1451")) && words.get(3) == Some(&"0A")
        })
    };
    Ok(host.namespace.run(read)?.iter().any(open))
}

/// A program that does not outlive this value.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_count_between_the_first_and_the_last_interval() {
        let of = |n: u64| serde_json::json!({"sum": {"bytes": n, "seconds": 1.0}});
        let all = |list: Vec<Json>| serde_json::json!({"server_output_json": {"intervals": list}});
        assert_eq!(
            datagrams(&all(vec![of(10), of(500), of(700), of(20)])),
            Some(4800.0)
        );
        assert_eq!(datagrams(&all(vec![of(10)])), None);
        assert_eq!(datagrams(&Json::Null), None);
    }

    #[test]
    fn the_time_of_an_answer_is_found() {
        let text = "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=3.21 ms\n";
        assert_eq!(round_trip(text), Some(3.21));
        assert_eq!(round_trip("1 packets transmitted, 0 received"), None);
    }
}
