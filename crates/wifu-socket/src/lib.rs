//! BSD socket calls over WiFu.
//!
//! This crate is the code of the C library (`wifu-c` makes its files; calls named `wifu_socket`,
//! `wifu_connect`, ...) and of the preloaded library of `wifu-preload`, which gives unmodified
//! programs the same calls under their usual names.
//!
//! An application's descriptor is a real AF_UNIX stream socket from `socket` on and for life. So
//! `read`, `write`, `poll`, `select`, `epoll`, `dup`, `fork`, `exec`, `sendfile`, `fcntl` and the
//! rest are the kernel's own, and nothing is replaced on the data path. All state is in the
//! kernel's object or in the daemon; this library keeps no table of descriptors:
//!
//! * A tag in the socket (an option that AF_UNIX stores and ignores) marks it as ours.
//! * Its abstract name, `\0wifu/s/<ip>/<port>`, is its local address, and is taken (EADDRINUSE)
//!   exactly as long as the socket lives. Abstract names exist per network namespace.
//! * The daemon connects to the name of a listening socket from a name that holds both addresses.
//! * A pending `connect` is a send buffer filled beyond the mark at which AF_UNIX reports POLLOUT.
//!   The daemon drains it when the connection is there, and closes with data unread if it fails,
//!   which the kernel reports as POLLERR.
//! * The daemon always leaves one byte unread, so that its death is a reset and never a false end.
//!
//! Beyond reach are static programs, Go, raw system calls (io_uring's socket operations among
//! them), set-user-id programs, UDP, and IPv6 addresses of one link (fe80::/10). Differences from
//! TCP sockets that remain: writing after a reset gives EPIPE where TCP gives ECONNRESET first; a
//! failed non-blocking connect tells its reason by `SO_ERROR` or a second `connect`, and ECONNRESET
//! to `read`; an address given to `sendto` is an error (EISCONN); `recvfrom` may return the
//! daemon's AF_UNIX address; `connect`, `accept` and
//! `close` are no cancellation points.

pub mod addr;
pub mod bind;
pub mod call;
pub mod capi;
pub mod config;
pub mod daemon;
pub mod inert;
pub mod ioctl;
pub mod linger;
pub mod note;
pub mod opt;
pub mod root;
pub mod shim;
pub mod sys;
pub mod tag;
mod tcp_info;
mod watch;
