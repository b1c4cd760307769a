// The parts: one line each, in the order of the documentation. A line names a file of the role's
// folder and the descriptor in it; what `parts!` makes of that is in lib.rs.
parts! {
    /// Managers: open, close and validate.
    manager {
        handshake::HANDSHAKE,
        quick_start::QUICK_START,
        hxh_manager::HXH_MANAGER,
    }
    /// Round-trip times and the retransmission timeout.
    rtt {
        rfc6298::RFC6298,
        hold_echo::HOLD_ECHO,
    }
    /// Reliability: what was lost, what goes again.
    reliable {
        cumulative::CUMULATIVE,
        selective::SELECTIVE,
        holes::HOLES,
        hxh_source::HXH_SOURCE,
        hop_queue::HOP_QUEUE,
        hop_source::HOP_SOURCE,
        hop_block::HOP_BLOCK,
    }
    /// Receivers.
    receive {
        reassemble::REASSEMBLE,
        hxh_sink::HXH_SINK,
        hop_sink::HOP_SINK,
    }
    /// What turns loss into congestion, or does not.
    judge {
        loss_is_congestion::LOSS_IS_CONGESTION,
        backlog::BACKLOG,
    }
    /// The congestion windows.
    congestion {
        tahoe::TAHOE,
        reno::RENO,
        newreno::NEWRENO,
        cubic::CUBIC,
        westwood::WESTWOOD,
        few::FEW,
        vegas::VEGAS,
        dctcp::DCTCP,
        bbr::BBR,
    }
    /// What restricts sending.
    gate {
        peer_window::PEER_WINDOW,
        nagle::NAGLE,
        hop_window::HOP_WINDOW,
        ap05::AP05,
        ap11::AP11,
        learned::LEARNED,
        atp_rate::ATP_RATE,
        tpa_rate::TPA_RATE,
        hop_credit::HOP_CREDIT,
    }
    /// When to acknowledge.
    ack {
        every::EVERY,
        dynamic::DYNAMIC,
        epochs::EPOCHS,
    }
    /// What watches the path.
    watch {
        ttl_hops::TTL_HOPS,
        clamp::CLAMP,
        delay_echo::DELAY_ECHO,
    }
}
