//! How a recovery is spread over its acknowledgements, where those come one by one: over a
//! bottleneck.

use wifu_sim::record::Event;
use wifu_sim::{Flow, LinkSpec, Mock, MockBuilder, Span};

fn run(spec: &str, drops: &[u64]) -> Mock {
    let blueprint = wifu_parts::blueprint(spec).expect("a protocol of the library");
    let link = |rate: &str, delay: &str| {
        LinkSpec::new(
            rate.parse().expect("a rate"),
            delay.parse().expect("a delay"),
        )
    };
    let mut mock = MockBuilder::new()
        .access(link("8Mb/s", "0ms"))
        .bottleneck(link("0.8Mb/s", "100ms").queue(100))
        .record(true)
        .flow(Flow::bulk(&blueprint, 300_000).drop_data(drops))
        .build();
    mock.run(Span::SECOND * 100);
    mock.verify(0).expect("byte-exact and closed");
    mock
}

/// The recovery lasts a round trip of at least so many milliseconds.
const EPISODE: f64 = 350.0;

/// When data left in the first [`EPISODE`] after the first segment that went again, milliseconds
/// after it.
fn departures(mock: &Mock) -> Vec<f64> {
    let sends = mock.rows().iter().filter(|r| r.event == Event::Send);
    let data: Vec<_> = sends.filter(|r| r.index.is_some()).collect();
    let first = data.iter().find(|r| r.again).expect("one goes again").at;
    let within = data.iter().filter(|r| r.at >= first);
    let after = within.map(|r| (r.at - first).as_secs_f64() * 1e3);
    after.filter(|ms| *ms < EPISODE).collect()
}

fn longest_pause(times: &[f64]) -> f64 {
    let gaps = times.windows(2).map(|w| w[1] - w[0]);
    gaps.fold(0.0, f64::max)
}

/// How many leave at one moment, at the most.
fn largest_burst(times: &[f64]) -> usize {
    let at = |t: &f64| times.iter().filter(|u| (**u - t).abs() < 0.5).count();
    times.iter().map(at).max().unwrap_or(0)
}

//= rfc9937#section-6.2
#[test]
fn proportional_reduction_leaves_no_pause_and_no_burst() {
    for (base, share) in [("tcp-sack", 0.5), ("tcp-cubic", 0.7)] {
        let spec = |prr: &str| {
            format!(
                "{base},profile=wifu-tahoe,iw=1,rcv_wnd=200000,mss=1000,timestamps=off,prr={prr}"
            )
        };
        // In slow start, with some forty segments in flight: an acknowledgement each 10.4 ms.
        let off = departures(&run(&spec("off"), &[100]));
        let on = departures(&run(&spec("on"), &[100]));
        let even = 10.4 / share;
        assert!(longest_pause(&off) > 4.0 * even, "{base}: {off:?}");
        assert!(longest_pause(&on) < 2.2 * even, "{base}: {on:?}");
        let expected = EPISODE / even;
        assert!(
            (on.len() as f64 - expected).abs() < 0.2 * expected,
            "{base}: {on:?}"
        );
        // Most of the flight is lost: it is smaller than what is left of the window.
        let many: Vec<u64> = (100..140).collect();
        let off = largest_burst(&departures(&run(&spec("off"), &many)));
        let on = largest_burst(&departures(&run(&spec("on"), &many)));
        assert!(off >= 4, "{base}: {off}");
        assert!(on <= 2, "{base}: {on}");
    }
}
