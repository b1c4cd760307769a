//! From the words of the command line to a scenario.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value as Json, json};
use wifu_engine::Role;
use wifu_node::Registry;
use wifu_sim::scenario::{Scenario, SeriesSpec};
use wifu_wire::names::{asked, meant};

use super::{Args, link};

/// Words of `--flow` that say what the application does; the others are the protocol's parameters.
const FLOW_KEYS: [&str; 20] = [
    "app",
    "bytes",
    "time",
    "rate",
    "size",
    "pause",
    "count",
    "shape",
    "scale",
    "cap",
    "on",
    "off",
    "persistent",
    "request",
    "response",
    "start",
    "jitter",
    "stop_at",
    "from",
    "to",
];

/// What the options mean, all of them, `KEY=VALUE` last. Flows of the short form have no ends yet.
///
/// # Errors
/// The option that cannot be understood, or the key of the scenario that is wrong.
pub fn scenario(args: &Args, registry: &Registry) -> anyhow::Result<Json> {
    let mut all = match &args.scenario {
        Some(path) => read(path)?.to_json(),
        None => json!({}),
    };
    if let Some(topo) = &args.topo {
        all["topology"] = topology(topo)?;
    }
    if let Some(set) = &args.set {
        all["topology"]["set"] = json!(set);
    }
    if let Some(words) = &args.link {
        link::apply(words, &mut all).with_context(|| format!("--link \"{words}\""))?;
    }
    for text in &args.flow {
        let flow = flow(text, registry).with_context(|| format!("--flow {text}"))?;
        list(&mut all, "flow")?.push(flow);
    }
    if let Some(protocol) = &args.protocol {
        let flow = short_form(args, protocol, registry).context("--protocol")?;
        list(&mut all, "flow")?.push(flow);
    } else if let Some((option, key)) = unasked(args) {
        // A name that stands alone may be the protocol that the option is to belong to.
        for text in &args.overrides {
            misplaced(args, text, registry)?;
        }
        bail!(
            "{option} is of the flow of --protocol; what a --flow sends stands in its words: \
             --flow n1:n7:tcp-newreno,{key}"
        );
    }
    for text in &args.split {
        let split = split(text).with_context(|| format!("--split {text}"))?;
        list(&mut all, "split")?.push(split);
    }
    let single = [
        ("seed", None, args.seed.map(|n| json!(n))),
        ("run", None, args.run.map(|n| json!(n))),
        (
            "stop",
            Some("time"),
            args.stop.clone().map(|t| json!(seconds(&t))),
        ),
    ];
    for (key, below, value) in single {
        match (below, value) {
            (Some(below), Some(value)) => all[key][below] = value,
            (None, Some(value)) => all[key] = value,
            _ => {}
        }
    }
    record(args, &mut all);
    for text in &args.overrides {
        misplaced(args, text, registry)?;
        assign(&mut all, text).with_context(|| text.clone())?;
    }
    Ok(all)
}

/// What stands alone that belongs to an option, with what to write.
fn misplaced(args: &Args, text: &str, registry: &Registry) -> anyhow::Result<()> {
    crate::topo::misplaced(text, args.topo.as_deref(), &args.overrides)?;
    if let (Some(protocol), Some((name, value))) = (&args.protocol, text.split_once('=')) {
        let option = OPTIONS.iter().find(|(key, _)| *key == name);
        let bare = !protocol.split(',').any(|w| FLOW_KEYS.contains(&key_of(w)));
        if let Some((_, option)) = option.filter(|_| bare) {
            bail!("{name} of the flow of --protocol is an option: write {option} {value}");
        }
        ensure!(
            !is_parameter(name, protocol, registry),
            "{name} is a parameter of the protocol: write --protocol {},{text}",
            without(protocol, name)
        );
    }
    // With parameters, or bare.
    let named = key_of(text).contains(',') || !text.contains('=');
    ensure!(
        !named || registry.resolve(text).is_err(),
        "a protocol is given by --protocol {text}"
    );
    let flow =
        text.split(':').count() > 2 && !text.split(':').next().is_some_and(|w| w.contains('='));
    ensure!(!flow, "a flow is given by --flow {text}");
    let bare = !text.contains('=');
    ensure!(
        !bare || !(text.ends_with(".toml") || Path::new(text).is_file()),
        "a scenario is read by --scenario {text}, and a topology by --topo {text}"
    );
    let protocols = registry.library().protocols().iter();
    let near = meant(text, protocols.map(String::as_str));
    if let Some(question) = near.filter(|_| bare) {
        bail!("\"{text}\": a protocol is given by --protocol; {question}");
    }
    Ok(())
}

/// Keys of a flow that are options beside --protocol.
const OPTIONS: [(&str, &str); 2] = [("bytes", "-n"), ("time", "-t")];

/// What stands before the first `=`.
fn key_of(text: &str) -> &str {
    text.split('=').next().unwrap_or_default()
}

/// A protocol's words without those that set a parameter.
fn without(protocol: &str, name: &str) -> String {
    let sets = |word: &&str| word.split_once('=').is_some_and(|(key, _)| key == name);
    let words: Vec<&str> = protocol.split(',').filter(|w| !sets(w)).collect();
    words.join(",")
}

/// Whether a key is a parameter of a protocol, which stands behind its name and a comma.
fn is_parameter(name: &str, protocol: &str, registry: &Registry) -> bool {
    let known = registry.resolve(protocol);
    !name.contains('.') && known.is_ok_and(|protocol| protocol.ends.value(name).is_some())
}

/// The scenario that the words mean.
///
/// # Errors
/// What is wrong with them, with the key.
pub fn parsed(args: &Args, registry: &Registry) -> anyhow::Result<Scenario> {
    let all = scenario(args, registry)?;
    ensure!(
        all.get("topology").is_some(),
        "no topology: begin with --topo linear,7 or --scenario FILE; `wifu sim --help` has examples"
    );
    ensure!(
        !all["flow"].is_null() && all["flow"].as_array().is_none_or(|f| !f.is_empty()),
        "nobody sends anything: add --protocol tcp-newreno -n 2M, or --flow n1:n2:tcp-newreno"
    );
    Ok(Scenario::from_json(&all.to_string())?)
}

/// A scenario file, with the topology file that it names put in.
///
/// # Errors
/// What cannot be read, or the key that is wrong.
pub fn read(path: &Path) -> anyhow::Result<Scenario> {
    let at = || format!("--scenario {}", path.display());
    let text = std::fs::read_to_string(path).with_context(at)?;
    // Checked here, so that its errors have the file's name.
    let mut scenario = Scenario::from_toml(&text).with_context(at)?;
    if let Some(file) = &scenario.topology.file {
        let beside = path.parent().unwrap_or(Path::new("")).join(file);
        let inside = std::fs::read_to_string(&beside)
            .with_context(|| format!("topology file {}", beside.display()))
            .with_context(at)?;
        // Key by key: what the scenario says besides is more special than the file.
        scenario.topology.take_file(&inside).with_context(at)?;
    }
    Ok(scenario)
}

/// `linear,7`, or a file.
fn topology(topo: &str) -> anyhow::Result<Json> {
    match crate::topo::file(topo)? {
        Some(text) => toml::from_str(&text).with_context(|| format!("--topo {topo}")),
        None => Ok(json!({"words": topo})),
    }
}

/// `NODE[,NODE...][,KEY=VALUE...]`.
fn split(text: &str) -> anyhow::Result<Json> {
    let mut split = json!({"nodes": []});
    for word in text.split(',') {
        match word.split_once('=') {
            Some((key, value)) => split[key] = json!(value),
            None => list(&mut split, "nodes")?.push(json!(word)),
        }
    }
    Ok(split)
}

/// `SRC:DST:PROTO[,KEY=VALUE...]`.
fn flow(text: &str, registry: &Registry) -> anyhow::Result<Json> {
    let mut parts = text.splitn(3, ':');
    let (Some(from), Some(to), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        bail!(
            "write SOURCE:DESTINATION:PROTOCOL[,KEY=VALUE...], such as n1:n7:tcp-newreno,bytes=2M"
        );
    };
    in_order((from, to, rest), registry)?;
    let mut words = rest.split(',');
    let mut protocol = words.next().unwrap_or_default().to_string();
    let mut flow = json!({"from": from, "to": to});
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            bail!("\"{word}\": write KEY=VALUE, such as bytes=2M or iw=4");
        };
        if FLOW_KEYS.contains(&key) {
            if key == "rate" && wifu_wire::units::lacks_unit(value) {
                bail!("`rate={value}` would be {value} bit/s: write rate={value}M, or {value}bit");
            }
            flow[key] = value_of(value);
            continue;
        }
        if protocol == "udp" {
            bail!("udp has no key `{key}`; {}", of_datagrams(key));
        }
        let longer = format!("{protocol},{word}");
        // One that neither knows may be meant for either.
        let roles = Role::ALL.map(Role::key).into_iter();
        if let Some(question) = meant(key, roles.chain(FLOW_KEYS))
            && let Err(error) = registry.resolve(&longer)
        {
            // A parameter that it knows has a wrong value.
            let unknown = error.to_string();
            ensure!(
                unknown.contains(&format!("no parameter is called `{key}`"))
                    && !unknown.contains("`lane.")
                    // Nothing but the question: other tools call a parameter of its so.
                    && !unknown.ends_with('?'),
                "{unknown}"
            );
            bail!("\"{key}\" is no key of a flow and no parameter of {protocol}; {question}");
        }
        protocol = longer;
    }
    ensure!(
        protocol == "udp" || !protocol.eq_ignore_ascii_case("udp"),
        "no protocol is called `{protocol}`; {}",
        asked("udp")
    );
    flow["protocol"] = json!(protocol);
    if flow.get("app").is_none()
        && let Some(app) = implied(&flow)
    {
        flow["app"] = json!(app);
    }
    Ok(flow)
}

/// What a key is called here that a flow of datagrams has by that name elsewhere, or the keys.
fn of_datagrams(key: &str) -> String {
    let all = [
        "rate", "size", "bytes", "time", "start", "jitter", "stop_at", "app", "on", "off",
    ];
    let here = match key {
        "bw" | "bandwidth" | "bitrate" | "b" => Some("rate"),
        "len" | "length" | "l" | "mtu" | "packet_size" => Some("size"),
        _ => None,
    };
    here.map(asked)
        .or_else(|| meant(key, all))
        .unwrap_or_else(|| format!("there are {}", all.join(", ")))
}

/// Refuses a protocol that stands where a node should, and a colon where a comma should.
fn in_order((from, to, rest): (&str, &str, &str), registry: &Registry) -> anyhow::Result<()> {
    let is_protocol = |words: &str| {
        let name = words.split(',').next().unwrap_or_default();
        name == "udp" || registry.library().protocols().iter().any(|p| p == name)
    };
    let (last, keys) = match rest.split_once(',') {
        Some((last, keys)) => (last, format!(",{keys}")),
        None => (rest, String::new()),
    };
    let ordered = match [from, to, last].map(is_protocol) {
        [true, false, false] => Some([to, last, from]),
        [false, true, false] => Some([from, last, to]),
        _ => None,
    };
    if let Some(ordered) = ordered {
        let ordered = ordered.join(":");
        bail!("the order is SOURCE:DESTINATION:PROTOCOL: write --flow {ordered}{keys}");
    }
    // Of `kernel:reno` it is told elsewhere what is wrong.
    let apart = |word: &str| match word.split_once(':') {
        Some((before, key)) if key.contains('=') && !["kernel", "wifu"].contains(&before) => {
            word.replace(':', ",")
        }
        _ => word.to_string(),
    };
    let meant: Vec<String> = rest.split(',').map(apart).collect();
    let meant = meant.join(",");
    let head = match from.is_empty() {
        true => String::from("--protocol "),
        false => format!("--flow {from}:{to}:"),
    };
    ensure!(
        meant == rest,
        "a comma stands before each KEY=VALUE: write {head}{meant}"
    );
    Ok(())
}

/// The application that the keys of a flow speak of.
fn implied(flow: &Json) -> Option<&'static str> {
    let has = |key: &str| flow.get(key).is_some();
    match () {
        // A datagram flow has these keys without an application.
        () if flow["protocol"] == "udp" && !has("on") && !has("off") => None,
        () if has("on") || has("off") => Some("onoff"),
        () if has("request") || has("response") => Some("request"),
        () if has("shape") || has("scale") || has("cap") || has("pause") || has("persistent") => {
            Some("http")
        }
        () if has("bytes") => Some("file"),
        () if has("time") => Some("stream"),
        () => None,
    }
}

/// One flow from the first to the last node; the mesh knows their names. As in `--flow`, the words
/// after the protocol may be keys of the flow: `udp,rate=2M`.
fn short_form(args: &Args, protocol: &str, registry: &Registry) -> anyhow::Result<Json> {
    let mut flow = flow(&format!("::{protocol}"), registry)?;
    if let Some(bytes) = &args.bytes {
        flow["bytes"] = json!(bytes);
        flow["app"] = json!("file");
    } else if flow.get("app").is_none() && flow.get("bytes").is_none() {
        let time = args.time.clone().unwrap_or_else(|| String::from("10s"));
        flow["time"] = json!(seconds(&time));
        flow["app"] = json!("stream");
    } else if args.time.is_some() {
        bail!("its words say what it sends, so that --time has no meaning: write one of them");
    }
    Ok(flow)
}

/// An option that says what the flow of --protocol sends, without which it means nothing, and the
/// key of a flow that says so.
fn unasked(args: &Args) -> Option<(&'static str, &'static str)> {
    match (&args.bytes, &args.time) {
        (Some(_), _) => Some(("--bytes", "bytes=2M")),
        (_, Some(_)) => Some(("--time", "time=10s")),
        _ => None,
    }
}

/// iperf3's bare seconds get their unit.
fn seconds(text: &str) -> String {
    match text.parse::<f64>() {
        // Without the exponent that `1e3` may have.
        Ok(n) if n.is_finite() => format!("{n}s"),
        _ => text.to_string(),
    }
}

/// Files that need the simulator to write something down.
fn record(args: &Args, all: &mut Json) {
    let asked = all.pointer("/record/series").and_then(Json::as_array);
    let mut names = asked.cloned().unwrap_or_default();
    names.extend(args.series.iter().map(|name| json!(name)));
    if !names.is_empty() {
        // The intervals of the JSON come from the usual ones.
        names.extend(args.json.then(|| json!(SeriesSpec::ALL)));
        all["record"]["series"] = json!(names);
    } else if args.trace.is_some() || args.json {
        all["record"]["series"] = json!(true);
    }
    if args.frames.is_some() {
        all["record"]["frames"] = json!(true);
    }
    if let Some(path) = &args.pcap {
        all["record"]["pcap"] = json!(path);
    }
}

fn list<'a>(all: &'a mut Json, key: &str) -> anyhow::Result<&'a mut Vec<Json>> {
    if all.get(key).is_none() {
        all[key] = json!([]);
    }
    match all[key].as_array_mut() {
        Some(list) => Ok(list),
        None => bail!("`{key}` is a list"),
    }
}

/// `radio.rate=6M`, `flow.1.start=2s`, where items of lists count from 1, `topology.nodes=[...]`.
fn assign(all: &mut Json, text: &str) -> anyhow::Result<()> {
    let Some((path, value)) = text.split_once('=') else {
        bail!("\"{text}\": write KEY=VALUE, such as radio.rate=6M; `wifu sim --help` has examples");
    };
    ensure!(!path.trim().is_empty(), "there is no key before the =");
    let mut at = all;
    for part in path.trim().split('.') {
        at = match part.parse::<usize>() {
            Ok(index) => {
                let Some(list) = at.as_array_mut() else {
                    bail!("{path}: there is no list to take number {index} of");
                };
                let count = list.len();
                match index.checked_sub(1).and_then(|i| list.get_mut(i)) {
                    Some(item) => item,
                    None => bail!("{path}: there are {count}, counted from 1"),
                }
            }
            Err(_) if at.is_object() || at.is_null() => &mut at[part],
            Err(_) => bail!("{path}: nothing can be below `{part}`"),
        };
    }
    *at = value_of(value.trim());
    Ok(())
}

/// A TOML value where it is one, else text: `6M`, `2`, `true`, `[1, 2]`.
pub fn value_of(text: &str) -> Json {
    let parsed: Result<Map<String, Json>, _> = toml::from_str(&format!("v = {text}"));
    match parsed {
        Ok(mut map) => map.remove("v").unwrap_or(Json::Null),
        Err(_) => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(text: &str) -> anyhow::Result<Json> {
        super::flow(text, &crate::standard())
    }

    #[test]
    fn a_flow_separates_the_application_from_the_protocol() {
        let got = flow("n1:n7:tcp-newreno,iw=4,bytes=2M,start=1s").unwrap();
        let expected = json!({"from": "n1", "to": "n7", "protocol": "tcp-newreno,iw=4",
            "bytes": "2M", "start": "1s", "app": "file"});
        assert_eq!(got, expected);
        assert_eq!(flow("a:b:udp,rate=2M").unwrap().get("app"), None);
        assert_eq!(flow("a:b:tcp-reno,time=5s").unwrap()["app"], "stream");
        assert_eq!(flow("a:b:tcp-reno").unwrap().get("app"), None);
        assert_eq!(flow("a:b:tcp-reno,pause=1s").unwrap()["app"], "http");
        for wrong in ["n1:n7", "n1", "n1:n7:tcp-reno,iw"] {
            assert!(flow(wrong).is_err(), "{wrong}");
        }
        let near = flow("n1:n7:tcp-reno,byts=5").unwrap_err().to_string();
        assert!(near.contains("did you mean `bytes`?"), "{near}");
        let other = flow("n1:n7:tcp-sack,delack=2").unwrap_err().to_string();
        assert!(other.ends_with("did you mean `ack_every`?"), "{other}");
        let slow = flow("n1:n7:udp,rate=2").unwrap_err().to_string();
        assert!(slow.contains("2 bit/s: write rate=2M"), "{slow}");
        for (wrong, needs) in [
            ("udp,bw=1M", "udp has no key `bw`; did you mean `rate`?"),
            (
                "udp,rate=1M,len=200",
                "udp has no key `len`; did you mean `size`?",
            ),
            ("udp,rat=1M", "did you mean `rate`?"),
            ("udp,iw=4", "there are rate, size, bytes"),
            ("UDP,rate=1M", "did you mean `udp`?"),
        ] {
            let said = flow(&format!("n1:n7:{wrong}"))
                .expect_err(wrong)
                .to_string();
            assert!(said.contains(needs), "{wrong}: {said}");
        }
        assert!(flow("n1:n7:udp,rate=2000").is_ok() && flow("n1:n7:udp,rate=2bit").is_ok());
        // These are near to words of flows, and parameters.
        for wrong in ["tcp-sack,abc=7", "tcp-sack,cwv=perhaps"] {
            let said = flow(&format!("n1:n7:{wrong}")).unwrap_err().to_string();
            assert!(said.contains("write on or off"), "{said}");
        }
    }

    #[test]
    fn a_flow_in_another_order_or_without_commas_is_told_how_to_write_it() {
        for (text, needs) in [
            ("tcp-sack:n1:n4,bytes=1M", "--flow n1:n4:tcp-sack,bytes=1M"),
            ("tcp-sack,iw=4:n1:n4", "--flow n1:n4:tcp-sack,iw=4"),
            ("n1:udp:n4,rate=2M", "--flow n1:n4:udp,rate=2M"),
            ("n1:n4:tcp-sack:bytes=1M", "--flow n1:n4:tcp-sack,bytes=1M"),
            (
                "n1:n4:tcp-sack,iw=4:bytes=1M:start=1s",
                "--flow n1:n4:tcp-sack,iw=4,bytes=1M,start=1s",
            ),
            ("::tcp-sack:bytes=1M", "--protocol tcp-sack,bytes=1M"),
        ] {
            let said = flow(text).expect_err(text).to_string();
            assert!(said.ends_with(&format!("write {needs}")), "{text}: {said}");
        }
        for right in [
            "udp:n4:tcp-sack",
            "n1:n4:mine",
            "n1:n4:tcp-sack,rows=0:1000+2.5:200",
        ] {
            let said = in_order_of(right);
            assert_eq!(said, Ok(()), "{right}");
        }
    }

    fn in_order_of(text: &str) -> Result<(), String> {
        let parts: Vec<&str> = text.splitn(3, ':').collect();
        let [from, to, rest] = parts[..] else {
            panic!("{text}")
        };
        in_order((from, to, rest), &crate::standard()).map_err(|e| e.to_string())
    }

    #[test]
    fn an_override_reaches_any_key() {
        let mut all = json!({"flow": [{"start": "0s"}]});
        for text in [
            "radio.rate=6M",
            "radio.attempts=2",
            "flow.1.start=2s",
            "record.series=true",
            "topology.area=[1, 2.5]",
        ] {
            assign(&mut all, text).unwrap();
        }
        let expected = json!({"flow": [{"start": "2s"}], "radio": {"rate": "6M", "attempts": 2},
            "record": {"series": true}, "topology": {"area": [1, 2.5]}});
        assert_eq!(all, expected);
        let wrong = |text: &str| assign(&mut all.clone(), text).unwrap_err().to_string();
        assert!(wrong("radio").contains("KEY=VALUE"));
        for none in ["flow.0.start=1s", "flow.2.start=1s"] {
            assert!(
                wrong(none).contains("there are 1, counted from 1"),
                "{none}"
            );
        }
        assert!(wrong("radio.rate.x=1").contains("nothing can be below `x`"));
        assert!(wrong("=1").contains("no key"));
    }

    #[test]
    fn bare_seconds_are_iperf3s() {
        assert_eq!(seconds("30"), "30s");
        assert_eq!(seconds("1.5e3"), "1500s");
        assert_eq!(seconds("-5"), "-5s", "refused where times are read");
        assert_eq!(seconds("500ms"), "500ms");
    }
}
