//! The connection's numbers as `struct tcp_info` of linux/tcp.h (Linux 6.18).

use core::mem::{offset_of, size_of};
use wifu_wire::front::Info;

/// `struct tcp_info`, whose tail the libc crate lacks. Programs ask for as much as they know.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    /// Send scale in the low nibble, receive scale in the high one (bit fields, little-endian).
    wscale: u8,
    app_limited: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

/// Length of the structure, bytes.
pub const LEN: usize = size_of::<Raw>();

/// The structure as bytes.
pub fn arrange(i: &Info) -> [u8; LEN] {
    let small = |v: u64| u8::try_from(v).unwrap_or(u8::MAX);
    let n = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    let raw = Raw {
        state: small(i.state),
        ca_state: small(i.ca_state),
        retransmits: small(i.backoff),
        backoff: small(i.backoff),
        options: small(i.options),
        wscale: small(i.snd_wscale) & 15 | small(i.rcv_wscale) << 4,
        rto: n(i.rto_us),
        ato: n(i.ato_us),
        snd_mss: n(i.snd_mss),
        rcv_mss: n(i.rcv_mss),
        unacked: n(i.unacked),
        sacked: n(i.sacked),
        lost: n(i.lost),
        retrans: n(i.retrans),
        last_data_sent: n(i.last_data_sent_ms),
        last_data_recv: n(i.last_data_recv_ms),
        last_ack_recv: n(i.last_ack_recv_ms),
        pmtu: n(i.pmtu),
        rtt: n(i.rtt_us),
        rttvar: n(i.rttvar_us),
        snd_ssthresh: n(i.snd_ssthresh),
        snd_cwnd: n(i.snd_cwnd),
        advmss: n(i.advmss),
        // Linux's default; nothing here adapts it.
        reordering: 3,
        rcv_space: n(i.rcv_space),
        total_retrans: n(i.total_retrans),
        pacing_rate: i.pacing_rate,
        max_pacing_rate: u64::MAX,
        bytes_acked: i.bytes_acked,
        bytes_received: i.bytes_received,
        segs_out: n(i.segs_out),
        segs_in: n(i.segs_in),
        notsent_bytes: n(i.notsent_bytes),
        min_rtt: n(i.min_rtt_us),
        data_segs_in: n(i.data_segs_in),
        data_segs_out: n(i.data_segs_out),
        delivery_rate: i.delivery_rate,
        busy_time: i.busy_time_us,
        rwnd_limited: i.rwnd_limited_us,
        sndbuf_limited: i.sndbuf_limited_us,
        delivered: n(i.delivered),
        bytes_sent: i.bytes_sent,
        bytes_retrans: i.bytes_retrans,
        dsack_dups: n(i.dsack_dups),
        reord_seen: n(i.reord_seen),
        rcv_ooopack: n(i.rcv_ooopack),
        snd_wnd: n(i.snd_wnd),
        rcv_wnd: n(i.rcv_space),
        total_rto: u16::try_from(i.total_rto).unwrap_or(u16::MAX),
        ..Raw::default()
    };
    // SAFETY: Raw is integers laid out without padding (checked below), and LEN is its size.
    unsafe { core::mem::transmute(raw) }
}

// The offsets of linux/tcp.h; the sum of all fields being the size means that nothing is padding.
const _: () = assert!(offset_of!(Raw, rto) == 8);
const _: () = assert!(offset_of!(Raw, rtt) == 68);
const _: () = assert!(offset_of!(Raw, total_retrans) == 100);
const _: () = assert!(offset_of!(Raw, pacing_rate) == 104);
const _: () = assert!(offset_of!(Raw, delivery_rate) == 160);
const _: () = assert!(offset_of!(Raw, bytes_sent) == 200);
const _: () = assert!(offset_of!(Raw, snd_wnd) == 228);
const _: () = assert!(offset_of!(Raw, total_rto) == 240);
const _: () = assert!(LEN == 248);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_land_where_linux_has_them() {
        let info = Info {
            state: 1,
            snd_wscale: 7,
            rcv_wscale: 14,
            rtt_us: 12_345,
            snd_cwnd: 10,
            total_retrans: 3,
            total_rto: 2,
            snd_wnd: u64::MAX,
            ..Info::default()
        };
        let b = arrange(&info);
        let at = |n: usize| u32::from_ne_bytes([b[n], b[n + 1], b[n + 2], b[n + 3]]);
        assert_eq!((b[0], b[6]), (1, 0xe7));
        assert_eq!(
            (at(68), at(80), at(100), at(228)),
            (12_345, 10, 3, u32::MAX)
        );
        assert_eq!((b[240], b[241]), (2, 0));
    }
}
