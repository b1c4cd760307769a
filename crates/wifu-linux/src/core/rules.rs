//! The rules that send packets to our queues: tagged, so that they go with us and nothing else
//! goes with them.

use super::unseen::{Count, Counts};
use crate::netns::Owner;
use crate::steps::{StepError, Steps, output_of};
use crate::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use wifu_core::{Hook, Hooks};
use wifu_wire::over_udp::KIND;

/// How a rule is appended or removed; the paper's form follows.
const IPTABLES: &str = "iptables -w -t mangle";

/// Rules of ours, until this is dropped. A small process with the right to remove them waits for
/// that, so that the owner needs none, and does so as well when the owner is killed.
pub struct Rules {
    guardian: Option<Child>,
}

/// Waits for the end of its input, then removes the rules with the tag in $1; those that stay only
/// if the last line of its input said so. For each line of its input it lists all rules with their
/// counters, and then an empty line.
const GUARDIAN: &str = r#"
trap '' HUP INT TERM PIPE
stays='--comment "\{0,1\}stays'
while read -r word; do
    [ "$word" = all ] && stays='^$' && continue
    iptables -w -t mangle -v -S
    echo
done
iptables -w -t mangle -S | sed -n "/--comment \"\{0,1\}$1\"\{0,1\}\( \|$\)/s/^-A /-D /p" |
    grep -v -e "$stays" | xargs -r -L1 iptables -w -t mangle
"#;

impl Rules {
    /// Append `rules`, tagged as this process's. In a dry run, they are only written down.
    ///
    /// # Errors
    /// If one is refused; those before it are gone again.
    pub fn install(rules: &[String], steps: &mut Steps) -> Result<Rules, StepError> {
        let tag = Owner::this().tag();
        let guardian = if steps.is_dry() {
            None
        } else {
            Some(guard(&tag)?)
        };
        let made = Rules { guardian };
        for rule in rules {
            append(
                &format!("{IPTABLES} -A {rule} -m comment --comment {tag}"),
                steps,
            )?;
        }
        Ok(made)
    }

    /// What those that send packets to queues counted so far, by hook. The guardian is asked: we
    /// may have given up the right to. `None` if it cannot tell, or not soon.
    pub fn counts(&mut self) -> Option<Counts> {
        let guardian = self.guardian.as_mut()?;
        let mut ask = guardian.stdin.as_ref()?;
        let answer = ask.write_all(b"\n").ok().and_then(|()| listing(guardian));
        if answer.is_none() {
            // What comes late would be taken for the next answer.
            drop(guardian.stdout.take());
        }
        Some(counts_in(&answer?, &Owner::this()))
    }

    /// No rules, and another guardian.
    #[cfg(test)]
    pub(crate) fn guarded(guardian: &mut Command) -> Rules {
        let guardian = guardian.stdin(Stdio::piped()).stdout(Stdio::piped());
        let guardian = Some(guardian.spawn().expect("guardian"));
        Rules { guardian }
    }

    /// The steps by which they will be removed.
    pub fn removal(rules: &[String]) -> Vec<String> {
        let tag = Owner::this().tag();
        let line = |rule| format!("{IPTABLES} -D {rule} -m comment --comment {tag}");
        rules.iter().map(line).collect()
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        if let Some(mut guardian) = self.guardian.take() {
            let pipe = guardian.stdin.as_ref();
            let _ = pipe.map(|mut pipe| pipe.write_all(b"all\n"));
            drop(guardian.stdin.take());
            let _ = guardian.wait();
        }
    }
}

fn guard(tag: &str) -> Result<Child, StepError> {
    let mut command = Command::new("sh");
    command.args(["-c", GUARDIAN, "wifu-guardian", tag]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    sys::spawn_detached(&mut command);
    command.spawn().map_err(|error| StepError::Start {
        line: "sh -c <guardian>".into(),
        error,
    })
}

/// A rule that keeps the kernel from what comes by an interface with this protocol number. One that
/// stays does so if this process is killed.
pub(crate) fn dropping(device: &str, number: u8, stays: bool) -> String {
    let stays = if stays { STAYS } else { "" };
    format!("PREROUTING -i {device} -p {number}{stays} -j DROP")
}

/// A rule that keeps the kernel from what comes by an interface in UDP, to or from these ports, and
/// is for others. What the carrier `udp` wraps (its first octet is 2) stays the kernel's.
pub(crate) fn dropping_udp(device: &str, ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    format!(
        "PREROUTING -i {device} -p udp -m multiport --ports {} -m addrtype --dst-type UNICAST \
         -m u32 ! --u32 0>>22&0x3C@8>>24={KIND} -j DROP",
        ports.join(",")
    )
}

/// Marks rules that stay if their owner is killed.
const STAYS: &str = " -m comment --comment stays";

/// What the guardian says, up to the empty line.
fn listing(guardian: &Child) -> Option<String> {
    let pipe = guardian.stdout.as_ref()?;
    // Longer than it takes on a busy machine; whoever waits also watches over the handlers.
    let patience = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let mut said = Vec::new();
    let mut room = [0; 4096];
    while said != b"\n" && !said.ends_with(b"\n\n") {
        let mut waiting = [PollFd::new(pipe, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut waiting, Some(&patience))).ok()? == 0 {
            return None;
        }
        match rustix::io::read(pipe, &mut room[..]).ok()? {
            0 => return None,
            n => said.extend_from_slice(&room[..n]),
        }
    }
    // No rules and no chains: it could not be read.
    String::from_utf8(said).ok().filter(|s| s.len() > 1)
}

/// Of a listing with counters, what `owner`'s rules with a queue counted, by hook.
fn counts_in(listing: &str, owner: &Owner) -> Counts {
    let mut counts: BTreeMap<_, Count> = BTreeMap::new();
    for line in listing.lines() {
        let Some(rule) = line.strip_prefix("-A ").filter(|r| r.contains("NFQUEUE")) else {
            continue;
        };
        let list = words(rule);
        let hook = |h: &Hook| list.first().is_some_and(|c| c.to_lowercase() == h.name());
        let ours = owner_in(&list) == Some(*owner);
        let Some(hook) = Hooks::WIRED.iter().find(hook).filter(|_| ours) else {
            continue;
        };
        let numbers = |three: &[String]| {
            let is = three[0] == "-c";
            is.then_some((three[1].parse::<u64>().ok()?, three[2].parse::<u64>().ok()?))
        };
        if let Some((packets, octets)) = list.windows(3).find_map(numbers) {
            let count = counts.entry(hook.name()).or_default();
            count.packets += packets;
            count.octets += octets;
        }
    }
    counts
}

fn owner_in(words: &[String]) -> Option<Owner> {
    let tag = |pair: &[String]| {
        (pair[0] == "--comment")
            .then(|| Owner::from_tag(&pair[1]))
            .flatten()
    };
    words.windows(2).find_map(tag)
}

/// Run a line whose words may be quoted, as iptables prints and people write them.
fn append(line: &str, steps: &mut Steps) -> Result<(), StepError> {
    if !steps.note(line.to_owned()) {
        return Ok(());
    }
    run_words(line)
}

fn run_words(line: &str) -> Result<(), StepError> {
    let list = words(line);
    let (program, args) = list.split_first().expect("we begin the line");
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| StepError::Start {
            line: line.to_owned(),
            error,
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(StepError::Failed {
        line: line.to_owned(),
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Split at blanks that are not inside quotes; a backslash takes the next character as it is.
fn words(line: &str) -> Vec<String> {
    let mut list = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(chars.next()),
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => list.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    list.extend(word);
    list
}

/// A rule of ours that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// The process that added it, by the comment of the rule.
    pub(crate) owner: Owner,
    /// The line that removes it.
    pub(crate) removal: String,
}

/// Our rules in this network namespace, by whatever process; none where there is no iptables.
pub(crate) fn installed() -> Vec<Found> {
    let listing = output_of(&format!("{IPTABLES} -S")).unwrap_or_default();
    found_in(&listing)
}

fn found_in(listing: &str) -> Vec<Found> {
    let ours = |line: &str| {
        let rule = line.strip_prefix("-A ")?;
        Some(Found {
            owner: owner_in(&words(rule))?,
            removal: format!("{IPTABLES} -D {rule}"),
        })
    };
    listing.lines().filter_map(ours).collect()
}

/// Remove the rules that stayed when their daemons were killed.
pub(crate) fn remove_stale() {
    let stale = |f: &Found| f.removal.contains(STAYS) && !f.owner.is_alive();
    for found in installed().into_iter().filter(stale) {
        match remove(&found) {
            Ok(()) => tracing::warn!("a daemon was killed, and left this: {}", found.removal),
            Err(e) => tracing::warn!("{e}"),
        }
    }
}

/// Remove a rule that was found.
pub(crate) fn remove(found: &Found) -> Result<(), StepError> {
    run_words(&found.removal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Lab;

    #[test]
    fn only_rules_with_our_tag_are_ours() {
        let listing = "-P OUTPUT ACCEPT\n\
            -A OUTPUT -p udp -m comment --comment \"wifu:12:345\" -j NFQUEUE --queue-num 1\n\
            -A OUTPUT -m comment --comment \"of wifu:12:345\" -j ACCEPT\n\
            -A OUTPUT -p udp -j NFQUEUE --queue-num 1\n\
            -A INPUT -m comment --comment wifu:12:x -j ACCEPT\n";
        let found = found_in(listing);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].owner,
            Owner {
                pid: 12,
                start: 345
            }
        );
        assert!(
            found[0]
                .removal
                .starts_with("iptables -w -t mangle -D OUTPUT -p udp")
        );
    }

    #[test]
    fn of_one_that_was_killed_rules_stay_that_shall() {
        if !rustix::process::geteuid().is_root() {
            let skip = std::env::var_os("WIFU_SKIP_PRIVILEGED").is_some_and(|v| v == "1");
            assert!(skip, "needs root; WIFU_SKIP_PRIVILEGED=1 leaves it out");
            return;
        }
        let mut lab = Lab::create(&format!("t-rules-{}", std::process::id())).expect("lab");
        let ns = lab.node("a").expect("node");
        let numbers = || {
            let found = installed().into_iter();
            let words = found.map(|f| words(&f.removal));
            words
                .map(|w| w[w.iter().position(|w| w == "-p").unwrap() + 1].clone())
                .collect::<Vec<_>>()
        };
        let made = || {
            let rules = [dropping("lo", 246, true), dropping("lo", 247, false)];
            Rules::install(&rules, &mut Steps::real()).expect("rules")
        };
        let within = || {
            drop(made());
            assert_eq!(numbers(), [""; 0], "it ended as it should");
            let mut killed = made();
            assert_eq!(numbers(), ["246", "247"]);
            let mut guardian = killed.guardian.take().expect("a guardian");
            drop(guardian.stdin.take());
            guardian.wait().expect("its end");
            assert_eq!(numbers(), ["246"]);
            remove_stale();
            assert_eq!(numbers(), ["246"], "its owner lives");
            // No process has this number.
            for (number, word) in [(248, STAYS), (249, "")] {
                let rule = format!("PREROUTING -i lo -p {number}{word} -j DROP");
                let whose = "-m comment --comment wifu:4194304:1";
                run_words(&format!("{IPTABLES} -A {rule} {whose}")).expect("rule");
            }
            remove_stale();
            assert_eq!(numbers(), ["246", "249"], "of the dead, what stays");
            remove(&installed()[1]).expect("removal");
            remove(&installed()[0]).expect("removal");
            assert_eq!(numbers(), [""; 0]);
        };
        ns.run(within).expect("namespace");
    }

    #[test]
    fn counters_of_our_rules_with_queues_are_added_up_by_hook() {
        let listing = "-P FORWARD ACCEPT -c 77 777\n\
            -A FORWARD -p 17 -m comment --comment \"wifu:12:345\" -c 3 300 -j NFQUEUE --queue-num 2\n\
            -A FORWARD -p tcp -m comment --comment wifu:12:345 -c 4 5000 -j NFQUEUE --queue-num 2\n\
            -A FORWARD -m comment --comment wifu:12:345 -c 8 800 -j ACCEPT\n\
            -A FORWARD -m comment --comment wifu:12:346 -c 8 800 -j NFQUEUE --queue-num 2\n\
            -A INPUT -m comment --comment wifu:12:345 -c 0 0 -j NFQUEUE --queue-num 0\n";
        let owner = Owner {
            pid: 12,
            start: 345,
        };
        let count = |packets, octets| Count { packets, octets };
        let wanted = BTreeMap::from([("forward", count(7, 5300)), ("input", count(0, 0))]);
        assert_eq!(counts_in(listing, &owner), wanted);
    }

    #[test]
    fn quotes_hold_words_together() {
        let line = r#"A -m comment --comment "two words" 'x "y"' \"z "" "#;
        let wanted = [
            "A",
            "-m",
            "comment",
            "--comment",
            "two words",
            "x \"y\"",
            "\"z",
            "",
        ];
        assert_eq!(words(line), wanted);
    }
}
