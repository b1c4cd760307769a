//! A data stream: its socket, and the thread that writes to it or reads from it.
//!
//! One thread per stream and direction, no allocation and no lock per block (unless arrivals are to
//! be recorded); the thread that reports reads the counters.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use wifu_linux::bsd::{self, TcpInfo};
use wifu_node::Registry;

use super::control::plain;
use super::measured::{Counted, Recorder, Stack};
use super::parameters::Test;
use super::protocol::Protocol;

/// How long a thread may take to notice that the test is over, when its stream stands still.
const NAP: Duration = Duration::from_millis(100);

/// Receive buffer, bytes, when blocks are smaller.
const MIN_READ: usize = 128 * 1024;

/// A connected data stream.
#[derive(Debug)]
pub struct Stream {
    /// The connection, shared with the stream's thread.
    pub socket: Arc<TcpStream>,
    /// This process sends on it.
    pub sends: bool,
    /// Address of the end that is in this process.
    pub local: SocketAddr,
    /// Address of the end that is not.
    pub remote: SocketAddr,
    /// From the call of connect until it was established, on the side that connected.
    pub connect_time: Option<Duration>,
    /// What has been transferred.
    pub counters: Arc<Counters>,
}

/// What a stream's thread tells the reporting thread. Times are nanoseconds since the test's
/// start plus one; 0 is "never".
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes accepted by or received from the socket.
    pub bytes: AtomicU64,
    /// Completion of the first write or read, since the start or the last reset.
    pub first: AtomicU64,
    /// Completion of the latest.
    pub last: AtomicU64,
    /// What arrived when, on a stream that receives, if the test wants to know.
    pub arrivals: Option<Mutex<Recorder>>,
    /// Bytes that arrived and are not what was sent, where arrivals are recorded.
    pub corrupt: AtomicU64,
}

impl Counters {
    fn count(&self, bytes: usize, epoch: Instant) {
        let now = u64::try_from(epoch.elapsed().as_nanos())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        if self.first.load(Relaxed) == 0 {
            self.first.store(now, Relaxed);
        }
        self.last.store(now, Relaxed);
        let before = self.bytes.fetch_add(bytes as u64, Relaxed);
        if let Some(arrivals) = &self.arrivals {
            let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            arrivals.add(Duration::from_nanos(now - 1), before + bytes as u64);
        }
    }

    /// What arrived when, if that was recorded.
    pub fn points(&self) -> Option<Vec<(f64, u64)>> {
        let arrivals = self.arrivals.as_ref()?;
        let arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        Some(arrivals.points())
    }

    /// Bytes that arrived wrong, if any were looked at.
    pub fn corrupt(&self) -> Option<u64> {
        let looked = self.arrivals.is_some() && self.bytes.load(Relaxed) > 0;
        looked.then(|| self.corrupt.load(Relaxed))
    }
}

/// What the threads of a test share.
#[derive(Debug)]
pub struct Shared {
    /// When the test began: times of streams are seconds since then.
    pub epoch: Instant,
    /// The test is over.
    pub stop: AtomicBool,
    /// When it is over even if nobody says so: thousands of busy threads may keep the one that
    /// would from running.
    pub deadline: Option<Instant>,
    /// Bytes this side has yet to hand to its sockets; `u64::MAX` is without end.
    pub budget: AtomicU64,
    /// How many threads have returned.
    pub finished: AtomicU32,
    /// One of them with an error.
    pub failed: AtomicBool,
    /// Written to by each thread that returns.
    pub wake: OwnedFd,
}

impl Shared {
    /// Takes up to `wanted` bytes off the budget.
    fn take(&self, wanted: u64) -> u64 {
        let took = self
            .budget
            .fetch_update(Relaxed, Relaxed, |left| match left {
                u64::MAX => None,
                left => Some(left.saturating_sub(wanted)),
            });
        took.map_or(wanted, |before| before.min(wanted))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.deadline.is_some_and(|at| Instant::now() >= at)
    }
}

/// A stream that did not connect.
#[derive(Debug)]
pub struct Unconnected {
    what: String,
    /// Why.
    pub kind: io::ErrorKind,
}

impl std::fmt::Display for Unconnected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl Stream {
    /// Connects a stream under `test`'s protocol to `remote`.
    pub fn connect(
        test: &Test,
        index: u32,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        timeout: Duration,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let socket = prepared_socket(test, remote)?;
        if let Some(local) = local {
            bsd::bind(&socket, local).with_context(|| format!("binding to {local}"))?;
        }
        let begun = Instant::now();
        let socket = bsd::connect(socket, remote, timeout).map_err(|error| {
            let hint = advice(&error, &test.protocol, registry);
            let kind = error.kind();
            let what = format!("connecting a {} stream to {remote}{hint}", test.protocol);
            anyhow::Error::new(error).context(Unconnected { what, kind })
        })?;
        let connect_time = begun.elapsed();
        let mut stream = Self::new(test, socket, remote, test.client_sends(index))?;
        stream.connect_time = Some(connect_time);
        Ok(stream)
    }

    /// Takes over a connected socket.
    pub fn new(
        test: &Test,
        socket: TcpStream,
        remote: SocketAddr,
        sends: bool,
    ) -> anyhow::Result<Self> {
        let local = socket
            .local_addr()
            .context("asking a stream for its address")?;
        let recorder = test.arrivals.filter(|_| !sends).map(Recorder::new);
        let counters = Arc::new(Counters {
            arrivals: recorder.map(Mutex::new),
            ..Counters::default()
        });
        let (local, remote) = (plain(local), plain(remote));
        Ok(Self {
            socket: Arc::new(socket),
            sends,
            local,
            remote,
            connect_time: None,
            counters,
        })
    }

    /// The number that the output calls the stream by.
    pub fn id(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Where data comes from and where it goes.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        if self.sends {
            (self.local, self.remote)
        } else {
            (self.remote, self.local)
        }
    }

    /// The connection's state, if the stack tells.
    pub fn info(&self) -> Option<TcpInfo> {
        bsd::tcp_info(&*self.socket).ok()
    }

    /// What its stack has counted; `info` is the connection's state.
    pub fn stack(&self, info: &TcpInfo) -> Stack {
        let counted = bsd::counted(&*self.socket).ok();
        Stack::new(info, counted.and_then(|text| Counted::of(&text)))
    }

    /// Starts the thread that moves data until the test is over.
    pub fn start(
        &self,
        test: &Test,
        shared: &Arc<Shared>,
    ) -> anyhow::Result<JoinHandle<io::Result<()>>> {
        let worker = Worker {
            socket: self.socket.clone(),
            counters: self.counters.clone(),
            shared: shared.clone(),
            block: usize::try_from(test.block)?,
            rate: test.rate,
            burst: test.burst,
            patience: Duration::from_millis(test.rcv_timeout_ms),
        };
        let sends = self.sends;
        let thread = thread::Builder::new().name(format!("stream {}", self.id()));
        let handle = thread.spawn(move || {
            let result = if sends {
                worker.send()
            } else {
                worker.receive()
            };
            worker.shared.failed.fetch_or(result.is_err(), Relaxed);
            worker.shared.finished.fetch_add(1, Relaxed);
            // A full counter is the only way for this to fail, and then it wakes as well.
            let _ = rustix::io::write(&worker.shared.wake, &1u64.to_ne_bytes());
            result
        });
        handle.context("starting a stream's thread")
    }
}

/// What to add to an error that a WiFu socket gives where it first needs the daemon.
pub fn advice(error: &io::Error, protocol: &Protocol, registry: &Registry) -> String {
    if error.raw_os_error() == Some(rustix::io::Errno::NETDOWN.raw_os_error()) {
        let known = "no WiFu daemon runs in this network namespace; start one with `wifu daemon`";
        return format!(" ({known})");
    }
    match protocol.wifu().map(|spec| registry.resolve(spec)) {
        Some(Err(unknown)) => format!(" (unless the daemon's --file has it: {unknown})"),
        _ => String::new(),
    }
}

/// A socket on `protocol`.
///
/// The raw system call shows what the descriptor really is, and WiFu's are AF_UNIX sockets. One
/// of the wrong kind is an error, because figures under the wrong name are worse than none.
pub fn carried_socket(protocol: &Protocol, addr: SocketAddr) -> anyhow::Result<OwnedFd> {
    let socket = bsd::stream_socket(addr).context("making a socket")?;
    let carried = socket_domain(&socket)? == AddressFamily::UNIX;
    match protocol {
        Protocol::Wifu(spec) => ensure!(
            carried,
            "this process's sockets are the kernel's, not WiFu's: the preload library is not \
             at work, so nothing here could be said of {spec}"
        ),
        Protocol::KernelDefault | Protocol::Kernel(_) => ensure!(
            !carried,
            "this process's sockets are WiFu's, so nothing here could be said of kernel TCP"
        ),
    }
    Ok(socket)
}

/// A socket on `test`'s protocol with its options, neither bound nor connected.
pub fn prepared_socket(test: &Test, addr: SocketAddr) -> anyhow::Result<OwnedFd> {
    let socket = carried_socket(&test.protocol, addr)?;
    if let Protocol::Kernel(name) = &test.protocol {
        bsd::set_congestion(&socket, name)
            .with_context(|| format!("setting congestion control {name}"))?;
    }
    if let Some(bytes) = test.window {
        bsd::set_buffers(&socket, usize::try_from(bytes)?)
            .with_context(|| format!("setting socket buffers of {bytes} bytes"))?;
    }
    if let Some(bytes) = test.mss {
        bsd::set_max_segment(&socket, bytes)
            .with_context(|| format!("setting a segment size of {bytes} bytes"))?;
    }
    if test.no_delay {
        bsd::set_no_delay(&socket).context("setting TCP_NODELAY")?;
    }
    Ok(socket)
}

struct Worker {
    socket: Arc<TcpStream>,
    counters: Arc<Counters>,
    shared: Arc<Shared>,
    block: usize,
    rate: u64,
    burst: u32,
    patience: Duration,
}

impl Worker {
    fn send(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        let block = payload(self.block);
        let mut blocks_sent = 0u64;
        let begun = Instant::now();
        while !self.shared.stopped() {
            if self.rate > 0 && blocks_sent.is_multiple_of(u64::from(self.burst)) {
                self.await_turn(begun, blocks_sent);
            }
            let wanted = self.shared.take(block.len() as u64);
            if wanted == 0 {
                return self.socket.shutdown(Shutdown::Write);
            }
            let mut rest = &block[..wanted as usize];
            while !rest.is_empty() && !self.shared.stopped() {
                match (&*self.socket).write(rest) {
                    Ok(count) => {
                        self.counters.count(count, self.shared.epoch);
                        rest = &rest[count..];
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_room()?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return self.excused(error),
                }
            }
            blocks_sent += 1;
        }
        Ok(())
    }

    /// Sleeps until the average rate since `begun` is no more than the wanted one.
    fn await_turn(&self, begun: Instant, blocks_sent: u64) {
        let bits = blocks_sent as f64 * self.block as f64 * 8.0;
        let due = begun + Duration::from_secs_f64(bits / self.rate as f64);
        while !self.shared.stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }

    /// Returns when the socket is writable, or the test over. A stack says "writable" once a part
    /// of the send buffer is free (Linux: a third), and takes less at any time: who offers data
    /// because some time has passed has them cut into other segments than a program that waits.
    fn await_room(&self) -> io::Result<()> {
        let nap = Timespec {
            tv_sec: 0,
            tv_nsec: NAP.subsec_nanos().into(),
        };
        while !self.shared.stopped() {
            match poll(
                &mut [PollFd::new(&*self.socket, PollFlags::OUT)],
                Some(&nap),
            ) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&self) -> io::Result<()> {
        self.socket.set_read_timeout(Some(NAP))?;
        let mut buffer = vec![0u8; self.block.max(MIN_READ)];
        // Only a `wifu perf` asks for arrivals, and that sends such blocks.
        let checked = self.counters.arrivals.is_some();
        let mut expected = checked.then(|| Expected::new(self.block));
        let mut heard = Instant::now();
        while !self.shared.stopped() {
            match (&*self.socket).read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    if let Some(expected) = &mut expected {
                        let wrong = expected.wrong(&buffer[..count]);
                        self.counters.corrupt.fetch_add(wrong, Relaxed);
                    }
                    self.counters.count(count, self.shared.epoch);
                    heard = Instant::now();
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        if heard.elapsed() > self.patience {
                            let message = format!("no data for {:?}", self.patience);
                            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                        }
                    }
                    io::ErrorKind::Interrupted => {}
                    _ => return self.excused(error),
                },
            }
        }
        Ok(())
    }

    /// An error after the end is the other side's closing first.
    fn excused(&self, error: io::Error) -> io::Result<()> {
        if self.shared.stopped() {
            Ok(())
        } else {
            Err(error)
        }
    }
}

/// Bytes that do not compress (xorshift64, Marsaglia 2003), so that links which compress are
/// not flattered.
pub fn payload(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = vec![0u8; len];
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_ne_bytes()[..chunk.len()]);
    }
    bytes
}

/// What a stream of blocks looks like from where it was read last.
struct Expected {
    block: Vec<u8>,
    at: usize,
}

impl Expected {
    fn new(len: usize) -> Expected {
        Expected {
            block: payload(len.max(1)),
            at: 0,
        }
    }

    /// How many of the next octets are not what was sent.
    fn wrong(&mut self, mut octets: &[u8]) -> u64 {
        let mut wrong = 0;
        while !octets.is_empty() {
            let rest = &self.block[self.at..];
            let (now, later) = octets.split_at(octets.len().min(rest.len()));
            if *now != rest[..now.len()] {
                wrong += now.iter().zip(rest).filter(|(a, b)| a != b).count() as u64;
            }
            self.at = (self.at + now.len()) % self.block.len();
            octets = later;
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_that_are_not_those_of_the_blocks_are_counted() {
        let sent: Vec<u8> = [payload(10), payload(10), payload(4)].concat();
        for step in [1, 3, 10, 24] {
            let mut expected = Expected::new(10);
            let wrong: u64 = sent.chunks(step).map(|part| expected.wrong(part)).sum();
            assert_eq!(wrong, 0, "read {step} at a time");
            let mut spoilt = sent.clone();
            spoilt[2] ^= 1;
            spoilt[19] ^= 0x80;
            let mut expected = Expected::new(10);
            let wrong: u64 = spoilt.chunks(step).map(|part| expected.wrong(part)).sum();
            assert_eq!(wrong, 2, "read {step} at a time");
        }
    }
}
