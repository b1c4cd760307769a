//! What is typed behind `wifu`, and what to write where it is wrong.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error, Parser};

/// What this process was started with; ends it where that is help, or wrong.
pub fn parse<C: Parser>() -> C {
    let words: Vec<OsString> = std::env::args_os().collect();
    read(&words).unwrap_or_else(|error: Error| error.exit())
}

fn read<C: Parser>(words: &[OsString]) -> Result<C, Error> {
    let parsed = C::try_parse_from(words);
    let mut whole = C::command();
    whole.build();
    let Some(command) = words
        .iter()
        .find_map(|w| whole.find_subcommand(w.to_str()?))
    else {
        return parsed;
    };
    if let Err(help) = &parsed
        && matches!(
            help.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        )
    {
        return parsed;
    }
    let words: Vec<&str> = words.iter().filter_map(|w| w.to_str()).collect();
    if let Some(error) = one_hyphen(command, &words) {
        return Err(error);
    }
    parsed.map_err(|error| told(command, &words, error))
}

/// An option of several letters behind one hyphen. It would be one of one letter, with a value:
/// `-topo` a time of `opo`.
fn one_hyphen(command: &Command, words: &[&str]) -> Option<Error> {
    // What stands behind the name of a program is that program's.
    let runs = |arg: &Arg| arg.is_trailing_var_arg_set() && arg.is_allow_hyphen_values_set();
    let runs = command.get_arguments().any(runs);
    let words = words.iter().skip_while(|w| **w != command.get_name());
    let mut after_option = false;
    for word in words.skip(1).take_while(|w| **w != "--") {
        let Some(name) = word.strip_prefix('-') else {
            if runs && !after_option {
                return None;
            }
            after_option = false;
            continue;
        };
        // A value may be in the same word: --protocol=X, -pX.
        after_option = !word.contains('=') && (word.starts_with("--") || name.len() == 1);
        let name = name.split('=').next().unwrap_or_default();
        let longs = command.get_arguments().filter_map(Arg::get_long);
        if name.len() > 1 && longs.into_iter().any(|long| long == name) {
            let error = Error::new(ErrorKind::UnknownArgument).with_cmd(command);
            return Some(tip(error, &format!("-{name}"), format!("write --{name}")));
        }
    }
    None
}

/// The same error, with what to write instead where that is known.
fn told(command: &Command, words: &[&str], error: Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    let wanted = match error.source() {
        Some(source) if source.is::<ParseIntError>() => {
            let value = text(ContextKind::InvalidValue);
            let digits = value.trim_start_matches(['-', '+']);
            match value.starts_with('-') {
                _ if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) => {
                    "a whole number"
                }
                true => "a whole positive number",
                false => "a smaller number",
            }
        }
        Some(source) if source.is::<ParseFloatError>() => "a number",
        _ if error.kind() == ErrorKind::UnknownArgument => {
            return match elsewhere(command.get_name(), &argument, words) {
                Some(what) => tip(error, &argument, what),
                None => error,
            };
        }
        _ => return error,
    };
    let value = text(ContextKind::InvalidValue);
    let of = [
        ("PACKETS", "packets"),
        ("OCTETS", "bytes"),
        ("SECONDS", "seconds"),
    ];
    let named = |name: &str| argument.ends_with(&format!("<{name}>"));
    let unit = match of.iter().find(|(name, _)| named(name)) {
        Some((_, unit)) => format!(" of {unit}"),
        None => String::new(),
    };
    let mut error = Error::new(ErrorKind::InvalidValue).with_cmd(command);
    error.insert(ContextKind::InvalidValue, ContextValue::String(value));
    tip(error, &argument, format!("write {wanted}{unit}"))
}

/// Where it is said what an option that a subcommand does not have would say.
fn elsewhere(command: &str, option: &str, words: &[&str]) -> Option<String> {
    let given = |option: &str, else_: &str| {
        let behind = words.iter().skip_while(|w| **w != option).nth(1);
        behind.copied().unwrap_or(else_).to_string()
    };
    match (command, option) {
        ("sim", "--from" | "--to") => Some(format!(
            "a flow is written --flow {}:{}:PROTOCOL",
            given("--from", "SOURCE"),
            given("--to", "DESTINATION")
        )),
        ("emu", "--protocol" | "-p") => Some(format!(
            "protocols are named at the prompt: iperf n1 n3 -C {}",
            given(option, "tcp-newreno")
        )),
        ("sim" | "emu", "--queue" | "--rate" | "--rts_threshold" | "--attempts") => Some(format!(
            "it is a key of the radio: radio.{}={}",
            &option[2..],
            given(option, "VALUE")
        )),
        ("sim", "-C" | "--congestion") => {
            let name = given(option, "tcp-cubic");
            let family = if name.contains('-') { "" } else { "tcp-" };
            Some(format!("a protocol is given by --protocol {family}{name}"))
        }
        ("sim", "-P" | "--parallel") => Some(String::from(
            "each flow is given by itself: --flow n1:n4:tcp-newreno --flow n1:n4:tcp-cubic",
        )),
        ("sim" | "emu", "--standard") => Some(format!(
            "it is a key of the channel: topology.channel.standard={}",
            given(option, "802.11b")
        )),
        ("emu", "--switch" | "--controller") => Some(String::from(
            "hosts have no switches: they hear each other by radio, or are joined by wires (--topo \
             linear,4,wire=10Mb/s)",
        )),
        ("sim", "-c" | "--client" | "-s" | "--server") => Some(String::from(
            "both ends stand in a flow: --flow n1:n4:tcp-newreno,bytes=2M",
        )),
        ("sim", "-u" | "--udp" | "-b" | "--bitrate" | "--bandwidth") => Some(String::from(
            "datagrams are a flow of their own: --flow n1:n4:udp,rate=1M",
        )),
        ("sim" | "emu", "--rts") => Some(String::from(
            "it is a key of the radio: radio.rts_threshold=0 for all, 1000 for frames above 1000 \
             bytes",
        )),
        ("sim", "--duration") => Some(format!(
            "how long a run is: --stop {}",
            given(option, "60s")
        )),
        ("sim" | "emu", "--runs") => Some(String::from(
            "--run N is the number of one replicate; many of them, with statistics, are \
             `wifu-lab run`",
        )),
        _ => None,
    }
}

/// The error about this argument, with this tip and no other.
fn tip(mut error: Error, argument: &str, tip: String) -> Error {
    error.remove(ContextKind::SuggestedArg);
    // It has what clap took the argument for.
    error.remove(ContextKind::Usage);
    let argument = ContextValue::String(argument.to_string());
    error.insert(ContextKind::InvalidArg, argument);
    let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
    error.insert(ContextKind::Suggested, tip);
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;

    fn said(words: &str) -> Option<String> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        read::<Cli>(&words).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_wrong_is_told_how_to_write() {
        for (words, needs) in [
            ("sim -topo linear,4 -p tcp-sack -n 1M", "write --topo"),
            ("sim -topo=linear,4", "write --topo"),
            ("sim --topo linear,4 -set TB-B", "write --set"),
            ("exec -protocol tcp-sack iperf3", "write --protocol"),
            ("sim --run 1..5", "write a whole number"),
            (
                "mock -p tcp-sack --queue 8kB",
                "write a whole number of packets",
            ),
            ("mock -p tcp-sack --flows two", "write a whole number"),
            (
                "mock -p tcp-sack --queue 99999999999999999999999",
                "write a smaller number of packets",
            ),
            ("sim --interval fast", "write a number of seconds"),
            ("sim --from n1 --to n9", "written --flow n1:n9:PROTOCOL"),
            (
                "emu --protocol tcp-sack",
                "at the prompt: iperf n1 n3 -C tcp-sack",
            ),
            (
                "sim --topo linear,4 --runs 10",
                "the number of one replicate; many of them",
            ),
            ("emu --runs=10", "`wifu-lab run`"),
            ("sim --topo linear,4 -C tcp-cubic", "--protocol tcp-cubic"),
            ("sim --topo linear,4 -u -b 1M", "--flow n1:n4:udp,rate=1M"),
            ("sim --topo linear,4 -c n4", "both ends stand in a flow"),
            ("sim --rts 100", "radio.rts_threshold=0"),
            ("sim --queue 50", "it is a key of the radio: radio.queue=50"),
            ("sim --duration 9s", "--stop 9s"),
            ("sim --tpo linear,4", "a similar argument exists: '--topo'"),
        ] {
            let said = said(&format!("wifu {words}")).unwrap_or_default();
            assert!(said.contains(needs), "{words}: {said}");
            let others = ["digit", "literal", "--frames", "exists: '--run'"];
            assert!(
                !others.iter().any(|other| said.contains(other)),
                "{words}: {said}"
            );
        }
    }

    #[test]
    fn what_is_right_is_left_alone() {
        for words in [
            "sim --topo linear,4 -p tcp-sack -t10",
            "sim --topo linear,4 -p tcp-sack -n 1M",
            "exec -p tcp-sack find . -file x -protocol",
            "exec --protocol=tcp-sack ./prog -file x",
            "emu ctl snr n1 n2 -12",
            "perf -c n1 -t 5 -J",
        ] {
            assert_eq!(said(&format!("wifu {words}")), None, "{words}");
        }
        let help = said("wifu sim -help").unwrap_or_default();
        assert!(help.contains("Usage:"), "{help}");
    }
}
