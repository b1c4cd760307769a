//! The `tun` carrier: protocol 6 through a TUN device, with an address of the stack's own.
//!
//! The kernel routes that address to the device and never sees it as its own, so it sends no RST
//! for our connections, and any TCP of this host, or routed through it, can talk to us. There are
//! no vnet headers: the kernel then segments and checksums what it sends us, one packet per read,
//! which is what a protocol under study should see.

use crate::carrier::{Accept, BATCH, Counters, Outbox, Packets, Source};
use crate::netns::Owner;
use crate::steps::{StepError, Steps};
use crate::sys::{self, RecvBatch};
use core::net::Ipv4Addr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wifu_wire::ipv4::IpInfo;

/// Packets from the kernel that wait for us at most.
const QUEUE: u32 = 10_000;

/// How a [`TunCarrier`] is opened.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// The device's name; `%d` becomes the first free number.
    pub name: String,
    /// The kernel's address on the device.
    pub kernel: Ipv4Addr,
    /// The address of our connections, given to nobody else.
    pub stack: Ipv4Addr,
    /// The longest IP packet in either direction, in octets.
    pub mtu: usize,
    /// The protocol number carried, 6 for TCP.
    pub protocol: u8,
}

impl TunConfig {
    /// TCP at `stack`, seen from the kernel's `kernel`: device `wifu%d`, 1500 octets.
    pub fn new(kernel: Ipv4Addr, stack: Ipv4Addr) -> TunConfig {
        TunConfig {
            name: "wifu%d".into(),
            kernel,
            stack,
            mtu: 1500,
            protocol: 6,
        }
    }
}

/// A TUN device, ready to carry. It goes when this value goes, however the process ends.
pub struct TunCarrier {
    fd: OwnedFd,
    name: String,
    stack: Ipv4Addr,
    protocol: u8,
    mtu: usize,
    ready: bool,
    inbox: RecvBatch,
    outbox: Outbox,
    counters: Counters,
}

impl TunCarrier {
    /// Make and set up the device in this thread's network namespace.
    ///
    /// # Errors
    /// If the device cannot be made (CAP_NET_ADMIN, /dev/net/tun) or `ip` fails.
    pub fn open(config: &TunConfig) -> Result<TunCarrier, StepError> {
        if !(68..=65_535).contains(&config.mtu) {
            let text = format!("mtu {}: must be 68 to 65535", config.mtu);
            return Err(StepError::Invalid(text));
        }
        let (fd, name) = sys::open_tun(&config.name).map_err(|error| StepError::File {
            path: "/dev/net/tun".into(),
            error,
        })?;
        let mut steps = Steps::real();
        for line in TunCarrier::steps(config, &name) {
            steps.run(&line)?;
        }
        Ok(TunCarrier {
            fd,
            name,
            stack: config.stack,
            protocol: config.protocol,
            mtu: config.mtu,
            ready: false,
            inbox: RecvBatch::new(BATCH, config.mtu.max(2048)),
            outbox: Outbox::new(config.mtu),
            counters: Counters::default(),
        })
    }

    /// The command lines that set the device up, once it exists as `name`.
    pub fn steps(config: &TunConfig, name: &str) -> Vec<String> {
        let (kernel, stack, mtu) = (config.kernel, config.stack, config.mtu);
        let tag = Owner::this().tag();
        vec![
            // No router solicitations: nobody speaks IPv6 here. The queue holds some windows: the
            // kernel's TCP does not wait for room in it, and the default of 500 packets loses some
            // of every burst.
            format!(
                "ip link set dev {name} alias {tag} addrgenmode none mtu {mtu} txqueuelen {QUEUE}"
            ),
            format!("ip addr add {kernel} peer {stack} dev {name}"),
            format!("ip link set dev {name} up"),
        ]
    }

    /// Name of the TUN device, as the kernel gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of our connections.
    pub fn stack_address(&self) -> Ipv4Addr {
        self.stack
    }

    /// One: the device.
    pub fn descriptors(&self) -> usize {
        1
    }

    /// The device's descriptor, whatever `_i`.
    pub fn descriptor(&self, _i: usize) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The descriptor to watch for room, if the carrier is blocked.
    pub(crate) fn blocked_on(&self) -> Option<usize> {
        self.outbox.is_blocked().then_some(0)
    }

    pub(crate) fn armed(&mut self) -> &mut Option<usize> {
        &mut self.outbox.armed
    }

    /// The descriptor was seen readable.
    pub fn mark_ready(&mut self, _i: usize) {
        self.ready = true;
    }

    /// See [`Carrier::receive`](crate::carrier::Carrier::receive). A TUN device gives one packet
    /// per call, so this reads until it would block or the batch is full.
    pub fn receive(&mut self) -> Option<Packets<'_>> {
        if !self.ready {
            return None;
        }
        let mut n = 0;
        while n < self.inbox.capacity() {
            self.counters.receive_calls += 1;
            match self.inbox.read_into(&self.fd, n) {
                Ok(()) => n += 1,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.counters.receive_errors += 1;
                    break;
                }
            }
        }
        self.ready = n == self.inbox.capacity();
        if n == 0 {
            return None;
        }
        let accept = Accept::Only(self.protocol, self.stack);
        Some(Packets::new(
            Source::Batch(&self.inbox),
            n,
            accept,
            &mut self.counters,
        ))
    }

    /// See [`Carrier::room`](crate::carrier::Carrier::room).
    pub fn room(&self) -> u32 {
        self.outbox.room()
    }

    /// See [`Carrier::is_blocked`](crate::carrier::Carrier::is_blocked).
    pub fn is_blocked(&self) -> bool {
        self.outbox.is_blocked()
    }

    /// See [`Carrier::slot`](crate::carrier::Carrier::slot).
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        if self.outbox.room() == 0 && !self.outbox.is_blocked() {
            self.flush();
        }
        self.outbox.slot()
    }

    /// See [`Carrier::commit`](crate::carrier::Carrier::commit).
    ///
    /// # Panics
    /// If `len` exceeds the slot or there was no slot.
    pub fn commit(&mut self, ip: &IpInfo, len: usize) -> &[u8] {
        self.outbox.commit(ip, len, None)
    }

    /// See [`Carrier::flush`](crate::carrier::Carrier::flush).
    pub fn flush(&mut self) {
        let fd = &self.fd;
        self.outbox.flush(&mut self.counters, |batch, range, _| {
            rustix::io::write(fd, batch.message(range.start))?;
            Ok(1)
        });
    }

    /// The longest IP packet, in octets.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// The device's mtu, whatever the destination.
    ///
    /// # Errors
    /// Never; the other carriers may.
    pub fn path_mtu(&self, _dst: Ipv4Addr) -> io::Result<usize> {
        Ok(self.mtu)
    }

    /// The stack's address, whatever the destination: the kernel routes from there on.
    ///
    /// # Errors
    /// Never; the other carriers may.
    pub fn source_for(&self, _dst: Ipv4Addr) -> io::Result<Ipv4Addr> {
        Ok(self.stack)
    }

    /// Is `address` the stack's?
    pub fn is_local(&self, address: Ipv4Addr) -> bool {
        address == self.stack
    }

    /// What has been carried, and what was lost here and why.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
