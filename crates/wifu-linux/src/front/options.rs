//! Options of sockets: their names, and what they make of a composition's text.

use wifu_wire::front::SMALL_BUFFER;

/// The option that holds the composition itself.
pub(super) const PROTOCOL: &str = "protocol";
/// Options of the socket, beside the composition's parameters.
pub(super) const NODELAY: &str = "nodelay";
pub(super) const LINGER0: &str = "linger0";
/// Parameters that `SO_SNDBUF` and `SO_RCVBUF` stand for, in octets as the engine allows them.
const BUFFERS: [&str; 2] = ["snd_buf", "rcv_wnd"];
const BUFFER_RANGE: (u64, u64) = (1_000, 1 << 30);

/// Whether an option sets a send buffer so small that the application's socket has the same, and
/// room for no held byte.
pub(super) fn is_small_buffer(name: &str, value: &str) -> bool {
    name == BUFFERS[0] && value.parse().is_ok_and(|n: i32| n < SMALL_BUFFER)
}

/// Whether an option is the size of a buffer.
pub(super) fn is_buffer(name: &str) -> bool {
    BUFFERS.contains(&name)
}

/// Parameters that socket options stand for, in which sockets that share a port may differ.
const TUNED: [&str; 8] = [
    BUFFERS[0],
    BUFFERS[1],
    "keepalive",
    "keep_idle",
    "keep_interval",
    "keep_count",
    "user_timeout",
    "max_seg",
];

/// Whether an option tunes one socket, and is no matter of its composition.
pub(super) fn is_tuned(name: &str) -> bool {
    TUNED.contains(&name)
}

/// Whether two texts are of one composition, in whatever order its parameters are.
pub(super) fn is_same(a: &str, b: &str) -> bool {
    let sorted = |text: &str| {
        let (name, params) = text.split_once(',').unwrap_or((text, ""));
        let mut params: Vec<String> = params.split(',').map(|p| p.trim().to_owned()).collect();
        params.sort();
        (name.trim().to_owned(), params)
    };
    sorted(a) == sorted(b)
}

/// Sizes of buffers are brought into the range of the engine, as the kernel does with its own.
pub(super) fn normal(name: &str, value: &str) -> String {
    match value.parse::<u64>() {
        Ok(n) if is_buffer(name) => n.clamp(BUFFER_RANGE.0, BUFFER_RANGE.1).to_string(),
        _ => value.to_owned(),
    }
}

/// A composition text with options merged in: a later value replaces an earlier one, and the option
/// [`PROTOCOL`] replaces all before it.
pub(super) fn merge<'a>(
    spec: &'a str,
    options: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
) -> String {
    let protocol = options.clone().into_iter().find(|(n, _)| *n == PROTOCOL);
    let base = protocol.map_or(spec, |(_, v)| v);
    let mut words = base.split(',').map(str::trim);
    let name = words.next().unwrap_or_default();
    let mut params: Vec<(&str, &str)> = Vec::new();
    let given = words
        .filter(|w| !w.is_empty())
        .map(|w| w.split_once('=').unwrap_or((w, "")));
    for (key, value) in given.chain(options.into_iter().filter(|(n, _)| *n != PROTOCOL)) {
        let (key, value) = (key.trim(), value.trim());
        match params.iter_mut().find(|(k, _)| *k == key) {
            Some(p) => p.1 = value,
            None => params.push((key, value)),
        }
    }
    let mut text = name.to_owned();
    for (key, value) in params {
        text.push(',');
        text.push_str(key);
        // A word without "=" stays one, so that the composition's own error names it.
        if !value.is_empty() {
            text.push('=');
            text.push_str(value);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_values_win_and_a_protocol_replaces_all() {
        assert_eq!(
            merge("tcp-reno, iw=4", [("iw", "7"), ("mss", "1000")]),
            "tcp-reno,iw=7,mss=1000"
        );
        assert_eq!(
            merge("tcp-reno,iw=4", [("mss", "9"), (PROTOCOL, "x,a=1")]),
            "x,a=1,mss=9"
        );
        assert_eq!(merge("tcp-reno", []), "tcp-reno");
        assert_eq!(merge("tcp-reno,junk", []), "tcp-reno,junk");
        assert_eq!(merge("", []), "");
    }

    #[test]
    fn the_order_of_parameters_makes_no_other_composition() {
        assert!(is_same("tcp-reno,iw=4,mss=9", "tcp-reno, mss=9,iw=4"));
        assert!(is_same("tcp-reno", "tcp-reno"));
        for other in [
            "tcp-reno",
            "tcp-reno,iw=5",
            "tcp-newreno,iw=4",
            "iw=4,tcp-reno",
        ] {
            assert!(!is_same("tcp-reno,iw=4", other), "{other}");
        }
    }
}
