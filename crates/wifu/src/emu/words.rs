//! Words behind `iperf FROM TO` that iperf3 would pass over, or that speak of what the two hosts
//! say already.

use anyhow::{bail, ensure};

/// Letters of iperf3 behind which no value stands.
const LETTERS: &str = "146dDhJmNRuvVZ";

/// The same of its long options.
const LONG: [&str; 27] = [
    "--bidir",
    "--daemon",
    "--debug",
    "--dont-fragment",
    "--forceflush",
    "--get-server-output",
    "--help",
    "--json",
    "--json-stream",
    "--json-stream-full-output",
    "--mptcp",
    "--no-delay",
    "--no-fq-socket-pacing",
    "--one-off",
    "--repeating-payload",
    "--reverse",
    "--sctp",
    "--skip-rx-copy",
    "--timestamps",
    "--udp",
    "--udp-counters-64bit",
    "--use-pkcs1-padding",
    "--verbose",
    "--version",
    "--version4",
    "--version6",
    "--zerocopy",
];

/// Refuse words that would be swallowed; `protocol`: whether a word names one.
///
/// # Errors
/// A word that is neither an option nor may be the value of one, or an option that makes a client
/// or a server.
pub fn check(words: &[&str], protocol: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let mut is_value = false;
    for (i, word) in words.iter().enumerate() {
        if !word.starts_with('-') || *word == "-" {
            ensure!(
                is_value || !protocol(word),
                "a protocol is given by -C {word}"
            );
            ensure!(
                is_value,
                "the word {word} is too many: it is no option of iperf3's, and the value of none"
            );
            is_value = false;
            continue;
        }
        if let Some(joined) = end(word) {
            let named = joined.or(words.get(i + 1).copied()).unwrap_or_default();
            ensure!(!protocol(named), "a protocol is given by -C {named}");
            bail!("leave out {word}: the first host is the client, the second the server");
        }
        is_value = takes(word);
    }
    let mut limits = words.iter().filter_map(|word| limit(word));
    if let Some(first) = limits.next()
        && let Some(other) = limits.find(|other| *other != first)
    {
        bail!("{first} and {other} both say when the test ends: leave out one");
    }
    Ok(())
}

/// The letter of an option that says when a test ends.
fn limit(word: &str) -> Option<&'static str> {
    let long = word.split('=').next().unwrap_or(word);
    [("-t", "--time"), ("-n", "--bytes"), ("-k", "--blockcount")]
        .into_iter()
        .find(|(letter, name)| {
            long == *name || (word.starts_with(letter) && !word.starts_with("--"))
        })
        .map(|(letter, _)| letter)
}

/// Whether an option says which end it is, and what stands in the same word.
fn end(word: &str) -> Option<Option<&str>> {
    match word.split_once('=') {
        Some(("--client" | "--server", joined)) => return Some(Some(joined)),
        None if matches!(word, "--client" | "--server") => return Some(None),
        _ => {}
    }
    let joined = word.strip_prefix("-c").or(word.strip_prefix("-s"))?;
    Some(Some(joined).filter(|joined| !joined.is_empty()))
}

/// Whether the next word may be the value of this option: of one that is unknown here, too.
fn takes(option: &str) -> bool {
    if option.starts_with("--") {
        return !option.contains('=') && !LONG.contains(&option);
    }
    // Several letters may share a hyphen; behind the first that has a value is that.
    let valued = option[1..].trim_start_matches(|c| LETTERS.contains(c));
    valued.chars().count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = check(&words, |w| w.starts_with("tcp-") || w == "cubic");
        wrong.err().map(|why| why.to_string())
    }

    #[test]
    fn a_word_that_iperf3_would_swallow_is_refused() {
        for line in [
            "tcp-sack",
            "-n 1M tcp-sack",
            "-n1M tcp-sack",
            "--bytes=1M tcp-sack",
            "-R tcp-sack",
            "--bidir tcp-sack -t 5",
            "-uR tcp-sack",
            "-c tcp-sack",
            "--client=tcp-sack",
        ] {
            let why = said(line).expect(line);
            assert_eq!(why, "a protocol is given by -C tcp-sack", "{line}");
        }
        let why = said("-V cubic").expect("a protocol");
        assert!(why.ends_with("-C cubic"), "{why}");
        let why = said("-t 5 10").expect("too many");
        assert!(why.starts_with("the word 10 is too many"), "{why}");
    }

    #[test]
    fn which_end_is_which_is_not_said_again() {
        for word in ["-c", "--client", "-s", "--server", "-c10.0.0.2"] {
            let why = said(&format!("{word} -t 5")).expect(word);
            assert!(why.starts_with(&format!("leave out {word}: ")), "{why}");
        }
    }

    #[test]
    fn two_ends_of_one_test_are_refused() {
        for line in ["-t 2 -n 1M", "-t2 --bytes=1M", "--time 2 -n1M"] {
            let why = said(line).expect(line);
            assert!(why.starts_with("-t and -n both say"), "{why}");
        }
        assert_eq!(said("-t 2 -t 3 -T title --tos 4 -N"), None);
    }

    #[test]
    fn what_may_be_a_value_is_left_to_iperf3() {
        for line in [
            "",
            "-C tcp-sack",
            "--congestion tcp-sack,iw=4 -n 1M",
            "-Rn 1M",
            "-u -b 6M/10 -t 1 -R",
            "--tos 4 --new-in-iperf3 tcp-sack",
            "-x cubic",
            "-t -3",
            "--connect-timeout 5 -J -T title",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
