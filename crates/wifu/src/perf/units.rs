//! Amounts as iperf3 reads and writes them: K, M, G and T are powers of 1024 for bytes and of
//! 1000 for bits.

use wifu_sim::scenario::{AppKind, FlowSpec};

/// Parses an application with its keys, such as `http,pause=1s`.
pub fn parse_application(text: &str) -> Result<FlowSpec, String> {
    let spec = FlowSpec::application(text).map_err(|error| error.to_string())?;
    match spec.app {
        AppKind::Bulk | AppKind::File | AppKind::Stream => {
            Err("a steady stream needs no --app: -n BYTES or -t SECONDS".to_owned())
        }
        _ if spec.time.is_some() => Err("time: say it with -t SECONDS".to_owned()),
        _ => Ok(spec),
    }
}

/// Parses the state of a random stream.
pub fn parse_stream(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| "expected up to 16 hexadecimal digits".to_owned())
}

/// Parses seconds between two points of a series.
pub fn parse_resolution(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0001..=60.0).contains(&value) => Ok(value),
        _ => Err("expected seconds between 0.0001 and 60".to_owned()),
    }
}

/// Parses a number of bytes such as `131072`, `128K` or `1.5M` (powers of 1024).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse(text, 1024.0)
}

/// Parses a rate in bits per second such as `10M` (powers of 1000).
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse(text, 1000.0)
}

/// Parses iperf3's `RATE[/BURST]`: bits per second, and blocks sent at once.
pub fn parse_rate_burst(text: &str) -> Result<(u64, u32), String> {
    match text.split_once('/') {
        None => Ok((parse_rate(text)?, 1)),
        Some((rate, burst)) => match burst.parse() {
            Ok(burst @ 1..=1000) => Ok((parse_rate(rate)?, burst)),
            _ => Err(format!("a burst is 1 to 1000 blocks, not {burst:?}")),
        },
    }
}

/// Parses seconds, with fractions, that are not negative.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=86_400.0).contains(&value) => Ok(value),
        _ => Err("expected seconds between 0 and 86400".to_owned()),
    }
}

/// Amounts are below: in no time that a run takes are more bytes sent.
const MOST: f64 = 9e18;

/// What is wrong with an amount from there on.
const TOO_MUCH: &str = "9e18 or more, which no run gets through: write less";

fn parse(text: &str, base: f64) -> Result<u64, String> {
    let (digits, power) = match text.char_indices().last() {
        Some((at, unit)) => match unit.to_ascii_lowercase() {
            'k' => (&text[..at], 1),
            'm' => (&text[..at], 2),
            'g' => (&text[..at], 3),
            't' => (&text[..at], 4),
            _ => (text, 0),
        },
        None => (text, 0),
    };
    match digits.parse::<f64>().map(|value| value * base.powi(power)) {
        Ok(value) if (0.0..MOST).contains(&value) => Ok(value.round() as u64),
        Ok(value) if value >= MOST => Err(format!("{text:?} is {TOO_MUCH}")),
        _ => Err("expected a number, with K, M, G or T after it if you like".to_owned()),
    }
}

/// How `-f` wants rates shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Format {
    /// `None` picks the prefix by size.
    prefix: Option<usize>,
    bytes: bool,
}

impl Format {
    /// Parses one of `k m g t` (bits) and `K M G T` (bytes).
    pub fn parse(text: &str) -> Result<Self, String> {
        let index = |set: &str| set.find(text).filter(|_| text.len() == 1);
        match (index("kmgt"), index("KMGT")) {
            (Some(at), _) => Ok(Self {
                prefix: Some(at + 1),
                bytes: false,
            }),
            (_, Some(at)) => Ok(Self {
                prefix: Some(at + 1),
                bytes: true,
            }),
            _ => Err("expected one of k m g t (bits) or K M G T (bytes)".to_owned()),
        }
    }

    /// A rate given in bits per second, as in `9.41 Mbits/sec`.
    pub fn rate(self, bits_per_second: f64) -> String {
        if self.bytes {
            return format!(
                "{}/sec",
                scaled(bits_per_second / 8.0, 1024.0, "Bytes", self.prefix)
            );
        }
        format!(
            "{}/sec",
            scaled(bits_per_second, 1000.0, "bits", self.prefix)
        )
    }
}

/// A number of bytes, as in `1.25 MBytes`.
pub fn bytes(count: f64) -> String {
    scaled(count, 1024.0, "Bytes", None)
}

fn scaled(value: f64, base: f64, unit: &str, prefix: Option<usize>) -> String {
    const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut value = value.max(0.0);
    let mut at = 0;
    while prefix.map_or(value >= base && at + 1 < PREFIXES.len(), |wanted| {
        at < wanted
    }) {
        value /= base;
        at += 1;
    }
    let number = match value {
        v if v < 9.995 => format!("{v:4.2}"),
        v if v < 99.95 => format!("{v:4.1}"),
        v => format!("{v:4.0}"),
    };
    format!("{number} {}{unit}", PREFIXES[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_iperf3s() {
        assert_eq!(parse_bytes("128K"), Ok(131_072));
        assert_eq!(parse_bytes("1.5m"), Ok(1_572_864));
        assert_eq!(parse_bytes("100000"), Ok(100_000));
        assert_eq!(parse_rate("10M"), Ok(10_000_000));
        assert_eq!(parse_rate_burst("1g/8"), Ok((1_000_000_000, 8)));
        for wrong in ["", "K", "-1", "1X", "1e30", "nan"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        for much in ["1e30", "16777216T", "inf"] {
            let said = parse_bytes(much).unwrap_err();
            assert_eq!(said, format!("{much:?} is {TOO_MUCH}"));
        }
        assert!(parse_rate_burst("1M/0").is_err());
        assert!(parse_seconds("-1").is_err());
    }

    #[test]
    fn numbers_read_as_iperf3_writes_them() {
        assert_eq!(bytes(1_310_720.0), "1.25 MBytes");
        assert_eq!(bytes(0.0), "0.00 Bytes");
        assert_eq!(Format::default().rate(10_484_753.0), "10.5 Mbits/sec");
        assert_eq!(Format::default().rate(953e6), " 953 Mbits/sec");
        assert_eq!(Format::parse("k").unwrap().rate(1e6), "1000 Kbits/sec");
        assert_eq!(
            Format::parse("M").unwrap().rate(16.0 * 1_048_576.0),
            "2.00 MBytes/sec"
        );
        assert!(Format::parse("x").is_err());
    }
}
