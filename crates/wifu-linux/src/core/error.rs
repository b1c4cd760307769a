//! Why packets can't be had, for people.

use super::report::kernel_queues;
use std::io;

/// Why queues, devices and sockets can't be opened; for the user to read.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The kernel refused a queue.
    #[error("queue {number} ({hook}): {error}{hint}")]
    Queue {
        /// The number of the queue, as NFQUEUE rules name it.
        number: u16,
        /// The hook whose packets it was to get.
        hook: &'static str,
        /// What the system said.
        error: io::Error,
        /// What the user can do about it, to be put behind the error; empty if nothing is known.
        hint: &'static str,
    },
    /// A TUN device can't be had.
    #[error("TUN device {device}: {error}{hint}")]
    Tun {
        /// The interface, as `ip link` names it.
        device: String,
        /// What the system said.
        error: io::Error,
        /// What the user can do about it, to be put behind the error; empty if nothing is known.
        hint: &'static str,
    },
    /// An interface whose frames for others were wanted cannot be listened on.
    #[error("overhearing on {device}: {error}")]
    Overhear {
        /// The interface, as `ip link` names it.
        device: String,
        /// What the system said.
        error: io::Error,
    },
    /// The socket that handlers send by cannot be opened.
    #[error("sending, which handlers must do here: {0}{hint}", hint = needs_raw(.0))]
    Send(io::Error),
    /// The monitor interface cannot be read.
    #[error("monitor {device}: {error}")]
    Monitor {
        /// The interface, as `ip link` names it.
        device: String,
        /// What the system said.
        error: io::Error,
    },
    /// Another call of the system failed: the event loop, a signal, /proc.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn needs_raw(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => ": CAP_NET_RAW is needed (root)",
        _ => "",
    }
}

pub(super) fn queue_error(number: u16, hook: &'static str, error: io::Error) -> CoreError {
    let taken = kernel_queues().contains_key(hook);
    let hint = match error.raw_os_error() {
        // What the kernel says to everybody else, with whatever rights.
        Some(libc::EPERM | libc::EBUSY) if taken => {
            ": another program has it; one `wifu core` per network namespace"
        }
        Some(libc::EPERM) => ": CAP_NET_ADMIN is needed (root)",
        Some(libc::EINVAL | libc::EPROTONOSUPPORT) => ": the kernel has no NFQUEUE",
        _ => "",
    };
    CoreError::Queue {
        number,
        hook,
        error,
        hint,
    }
}

/// What the user can do about a device that cannot be opened.
pub(super) fn hint(error: &io::Error, own: bool) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY) => ": another program has it; one `wifu core` per network namespace",
        Some(libc::EACCES) if own => {
            ": /dev/net/tun is not open to you (`chmod 666 /dev/net/tun`, as root)"
        }
        Some(libc::EPERM) if own => {
            ": it is not there, or not yours (`ip tuntap add dev DEVICE mode tun user YOU`, as root)"
        }
        Some(libc::EPERM | libc::EACCES) => {
            ": CAP_NET_ADMIN is needed (root), or devices that belong to you (--tun)"
        }
        Some(libc::EINVAL) => ": it is there, and no TUN device without packet information",
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            ": the kernel has no TUN devices here (`modprobe tun`; in a container --device /dev/net/tun)"
        }
        _ => "",
    }
}
