//! The `tun` carrier: protocol 6 through a TUN device, with an address of the stack's own.
//!
//! The kernel routes that address to the device and never sees it as its own, so it sends no RST
//! for our connections, and any TCP of this host, or routed through it, can talk to us. There are
//! no vnet headers: the kernel then segments and checksums what it sends us, one packet per read,
//! which is what a protocol under study should see.

use crate::carrier::{Accept, Counters, Medium, Route, Source, Stack, Via, check_mtu};
use crate::netns::Owner;
use crate::steps::{StepError, Steps};
use crate::sys::{self, RecvBatch, SendBatch};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Packets from the kernel that wait for us at most.
const QUEUE: u32 = 10_000;

/// How a TUN [`Carrier`](crate::carrier::Carrier) is opened.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// The device's name; `%d` becomes the first free number.
    pub name: String,
    /// The kernel's address on the device.
    pub kernel: Ipv4Addr,
    /// The address of our connections, given to nobody else.
    pub stack: Ipv4Addr,
    /// The same two of IPv6, if that is carried as well.
    pub v6: Option<(Ipv6Addr, Ipv6Addr)>,
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
            v6: None,
            mtu: 1500,
            protocol: wifu_wire::numbers::TCP,
        }
    }
}

/// A TUN device, ready to carry. It goes when this value goes, however the process ends.
pub(crate) struct TunDevice {
    fd: OwnedFd,
    name: String,
    /// Every destination is reached from the stack's address by the kernel, which routes from there
    /// on.
    stack: Stack,
    mtu: usize,
    protocol: u8,
    ready: bool,
}

impl TunDevice {
    /// Make and set up the device in this thread's network namespace.
    ///
    /// # Errors
    /// If the device cannot be made (CAP_NET_ADMIN, /dev/net/tun) or `ip` fails.
    pub(crate) fn open(config: &TunConfig) -> Result<TunDevice, StepError> {
        check_mtu(config.mtu).map_err(StepError::Invalid)?;
        let (fd, name) = sys::open_tun(&config.name).map_err(|error| StepError::File {
            path: "/dev/net/tun".into(),
            error,
        })?;
        let mut steps = Steps::real();
        for line in TunDevice::steps(config, &name) {
            steps.run(&line)?;
        }
        Ok(TunDevice {
            fd,
            name,
            stack: Stack {
                v4: config.stack,
                v6: config.v6.map(|(_, stack)| stack),
            },
            mtu: config.mtu,
            protocol: config.protocol,
            ready: false,
        })
    }

    /// The command lines that set the device up, once it exists as `name`.
    fn steps(config: &TunConfig, name: &str) -> Vec<String> {
        let (kernel, stack, mtu) = (config.kernel, config.stack, config.mtu);
        let tag = Owner::this().tag();
        let mut lines = vec![
            // No router solicitations: there is no router. The queue holds some windows: the
            // kernel's TCP does not wait for room in it, and the default of 500 packets loses some
            // of every burst.
            format!(
                "ip link set dev {name} alias {tag} addrgenmode none mtu {mtu} txqueuelen {QUEUE}"
            ),
            format!("ip addr add {kernel} peer {stack} dev {name}"),
            format!("ip link set dev {name} up"),
        ];
        if let Some((kernel, stack)) = config.v6 {
            // Nobody is asked whether he has it: there is only us.
            lines.push(format!(
                "ip -6 addr add {kernel} peer {stack} dev {name} nodad"
            ));
        }
        lines
    }

    /// Name of the TUN device, as the kernel gave it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The addresses of our connections.
    pub(crate) fn stack(&self) -> Stack {
        self.stack
    }
}

impl Medium for TunDevice {
    fn descriptors(&self) -> usize {
        1
    }

    fn descriptor(&self, _i: usize) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn receives(&self, _i: usize) -> bool {
        true
    }

    fn sender(&self, _via: Via) -> usize {
        0
    }

    fn mark_ready(&mut self, _i: usize) {
        self.ready = true;
    }

    /// A TUN device gives one packet per call, so this reads until it would block or the batch is
    /// full.
    fn receive<'a>(
        &'a mut self,
        inbox: &'a mut RecvBatch,
        counters: &mut Counters,
    ) -> Option<(Source<'a>, usize)> {
        if !self.ready {
            return None;
        }
        let mut n = 0;
        while n < inbox.capacity() {
            let gave = inbox.read_into(&self.fd, n);
            if counters.count_call(gave).is_none() {
                break;
            }
            n += 1;
        }
        self.ready = n == inbox.capacity();
        (n > 0).then_some((Source::Batch(inbox), n))
    }

    /// The kernel gives whatever is routed to the device.
    fn accept(&self) -> Accept {
        Accept::Only(self.protocol, self.stack)
    }

    fn send(&mut self, batch: &mut SendBatch, range: Range<usize>, _via: Via) -> io::Result<usize> {
        rustix::io::write(&self.fd, batch.message(range.start))?;
        Ok(1)
    }

    fn route_to(&self, dst: IpAddr) -> io::Result<Route> {
        let source = self.stack.of(dst);
        let source = source.ok_or(io::ErrorKind::NetworkUnreachable)?;
        let mtu = self.mtu;
        Ok(Route { source, mtu })
    }

    fn is_local(&self, address: IpAddr) -> bool {
        self.stack.has(address)
    }
}
