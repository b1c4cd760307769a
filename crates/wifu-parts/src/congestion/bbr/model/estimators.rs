//! What BBR estimates beside the bandwidth: whether the path is full, how acknowledgements are
//! aggregated, and the smallest round-trip time.

use wifu_engine::kit::{Peak, Sample};
use wifu_wire::{Span, Time};

/// Whether the path is full: the rate does not grow although more is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullPipe {
    /// BBR.full_bw_reached: ever.
    pub reached: bool,
    /// BBR.full_bw_now: since it was looked for last.
    pub now: bool,
    /// BBR.full_bw, octets per second.
    bw: f64,
    /// BBR.full_bw_count.
    pub count: u32,
}

impl FullPipe {
    //= bbr-draft#exiting-acceleration-based-on-bandwidth-plateau
    /// ResetFullBW, with what the rate is compared with.
    pub fn reset(&mut self, bw: f64) {
        (self.now, self.bw, self.count) = (false, bw, 0);
    }

    /// CheckFullBWReached, at the end of a round trip: one that is not `growth` times as fast as
    /// the last that was, counts.
    pub fn check(&mut self, rs: &Sample, growth: f64, rounds: u32) {
        if self.now || rs.app_limited {
            return;
        }
        if rs.rate >= self.bw * growth {
            return self.reset(rs.rate);
        }
        self.count += 1;
        self.now = self.count >= rounds;
        self.reached |= self.now;
    }
}

/// How much more than the rate would have it is acknowledged at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregation {
    /// BBR.extra_acked_interval_start.
    pub start: Time,
    /// BBR.extra_acked_delivered.
    delivered: u64,
    /// BBR.extra_acked_filter.
    filter: Peak,
}

impl Aggregation {
    //= bbr-draft#bbrextraacked
    /// UpdateACKAggregation: `bw` octets per second, `window` round trips at round trip `round`.
    pub fn update(
        &mut self,
        newly: u32,
        (bw, cwnd): (f64, u32),
        (window, round): (u64, u64),
        now: Time,
    ) {
        let mut expected = (bw * (now - self.start).as_secs_f64()) as u64;
        if self.delivered <= expected {
            (self.delivered, self.start, expected) = (0, now, 0);
        }
        self.delivered += u64::from(newly);
        let extra = (self.delivered - expected).min(u64::from(cwnd)) as u32;
        self.filter.add(window, round, extra);
    }

    /// BBR.extra_acked, octets.
    pub fn extra(&self) -> u32 {
        self.filter.value()
    }
}

/// The smallest round-trip time, and when it is to be looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trip {
    /// BBR.min_rtt; `None`: infinity.
    pub min: Option<Span>,
    stamp: Time,
    /// BBR.probe_rtt_min_delay and its stamp.
    delay: Option<Span>,
    pub delay_stamp: Time,
    /// BBR.probe_rtt_expired.
    pub expired: bool,
}

impl Trip {
    pub fn init(&mut self, srtt: Span, now: Time) {
        self.min = Some(srtt).filter(|s| *s > Span::ZERO);
        self.delay = self.min;
        (self.stamp, self.delay_stamp) = (now, now);
    }

    //= bbr-draft#probertt-logic
    /// UpdateMinRTT.
    pub fn update(&mut self, rtt: Option<Span>, (interval, filter): (Span, Span), now: Time) {
        self.expired = now > self.delay_stamp + interval;
        if let Some(rtt) = rtt
            && (self.expired || self.delay.is_none_or(|d| rtt < d))
        {
            (self.delay, self.delay_stamp) = (Some(rtt), now);
        }
        let less = match (self.delay, self.min) {
            (Some(d), Some(m)) => d < m,
            (d, m) => d.is_some() && m.is_none(),
        };
        if less || now > self.stamp + filter {
            (self.min, self.stamp) = (self.delay, self.delay_stamp);
        }
    }
}
