//! The numbers of a connection.

macro_rules! info {
    ($($(#[$m:meta])* $f:ident,)+) => {
        /// The numbers of a connection, which the library arranges as `struct tcp_info`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct Info { $($(#[$m])* pub $f: u64,)+ }
        impl Info {
            /// Length of all fields, bytes.
            pub const LEN: usize = 8 * [$(stringify!($f)),+].len();
            pub(super) fn fields(&self) -> [u64; Info::LEN / 8] {
                [$(self.$f),+]
            }
            pub(super) fn from_fields(v: [u64; Info::LEN / 8]) -> Info {
                let [$($f),+] = v;
                Info { $($f),+ }
            }
        }
    };
}

info! {
    /// State, numbered as Linux numbers TCP's: 1 established, 2 SYN sent, ... 10 listening.
    state,
    /// 0 open, 1 disorder, 3 recovery, 4 loss (Linux's `tcp_ca_state`).
    ca_state,
    /// Consecutive timeouts without progress.
    backoff,
    /// Bits: 1 timestamps, 2 SACK, 4 window scaling.
    options,
    /// Window scale shift that the remote announced.
    snd_wscale,
    /// Window scale shift that we announced.
    rcv_wscale,
    /// Retransmission timeout, us.
    rto_us,
    /// Delayed acknowledgement timeout, us.
    ato_us,
    /// Payload of a full segment sent, bytes.
    snd_mss,
    /// Payload of a full segment received, bytes.
    rcv_mss,
    /// Segments sent and not acknowledged.
    unacked,
    /// Segments known to have arrived out of order at the remote.
    sacked,
    /// Segments thought lost.
    lost,
    /// Segments retransmitted and not acknowledged.
    retrans,
    /// Since the last data sent, ms.
    last_data_sent_ms,
    /// Since the last data received, ms.
    last_data_recv_ms,
    /// Since the last acknowledgement received, ms.
    last_ack_recv_ms,
    /// Path MTU, bytes.
    pmtu,
    /// Smoothed round-trip time, us.
    rtt_us,
    /// Its variation, us.
    rttvar_us,
    /// Slow start threshold, segments.
    snd_ssthresh,
    /// Congestion window, segments.
    snd_cwnd,
    /// Segment size that we announced, bytes.
    advmss,
    /// Receive buffer, bytes.
    rcv_space,
    /// All retransmitted segments.
    total_retrans,
    /// All retransmission timeouts.
    total_rto,
    /// Rate of the pacer, bytes/s; all ones if there is none.
    pacing_rate,
    /// Bytes acknowledged by the remote.
    bytes_acked,
    /// Bytes received in order.
    bytes_received,
    /// Segments sent.
    segs_out,
    /// Segments received.
    segs_in,
    /// Bytes written by the application and never sent.
    notsent_bytes,
    /// Smallest round-trip time, us.
    min_rtt_us,
    /// Segments with data received.
    data_segs_in,
    /// Segments with data sent.
    data_segs_out,
    /// Estimated delivery rate, bytes/s.
    delivery_rate,
    /// Time with data outstanding, us.
    busy_time_us,
    /// Time limited by the remote's window, us.
    rwnd_limited_us,
    /// Time limited by our send buffer, us.
    sndbuf_limited_us,
    /// Segments delivered.
    delivered,
    /// Bytes sent, retransmissions included.
    bytes_sent,
    /// Bytes retransmitted.
    bytes_retrans,
    /// Duplicate segments reported by the remote.
    dsack_dups,
    /// Reordering events seen.
    reord_seen,
    /// Segments received out of order.
    rcv_ooopack,
    /// The remote's window, bytes.
    snd_wnd,
}
