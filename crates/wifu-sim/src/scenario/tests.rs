use super::*;
use wifu_wire::Rate;

const FULL: &str = r#"
seed = 7
run = 3
[topology]
words = "linear,7"
set = "TB-A"
propagation = { exponent = 3.0 }
[radio]
rate = "24Mb/s"
attempts = 2
[routing]
kind = "shortest"
[routing.olsr]
withdraw = true
[host]
fwd_cost = "30us"
[[flow]]
from = "n1"
to = "n7"
protocol = "tcp-newreno,iw=4"
app = "file"
bytes = "2M"
start = "1.5s"
jitter = "5ms"
[[flow]]
from = "n7"
to = "n1"
protocol = "udp"
rate = "2Mb/s"
size = 1500
[[mobility]]
kind = "waypoint"
area = [0, 0, 100, 50.5]
speed = [1, 2]
[stop]
time = "600s"
packets = 55000
batch = 5000
[record]
series = true
interval = "10ms"
"#;

fn error(text: &str) -> String {
    Scenario::from_toml(text).unwrap_err().to_string()
}

fn flow(keys: &str) -> String {
    format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"tcp-reno\"\n{keys}")
}

#[test]
fn a_full_scenario_is_read_and_survives_json() {
    let s = Scenario::from_toml(FULL).unwrap();
    assert_eq!((s.seed, s.run), (7, 3));
    assert_eq!(s.topology.words.as_deref(), Some("linear,7"));
    assert_eq!(s.topology.set.as_deref(), Some("TB-A"));
    assert!(s.topology.inline.contains_key("propagation") && s.topology.inline.len() == 1);
    assert_eq!(s.radio["attempts"], 2);
    assert_eq!(s.flow[0].bytes, Some(Octets(2_000_000)));
    assert_eq!(s.flow[0].start, Secs(Span::MILLI * 1500));
    assert_eq!(s.flow[1].rate, Some(Bps(Rate(2_000_000))));
    assert!(s.flow[0].is_finite() && !s.flow[1].is_finite());
    assert_eq!(s.routing.olsr.as_ref().map(|o| o.hello), Some(hello()));
    assert_eq!(s.host.fwd_cost, Secs(Span::MICRO * 30));
    let again = Scenario::from_json(&s.to_json().to_string()).unwrap();
    assert_eq!(again, s);
}

#[test]
fn bare_numbers_are_in_basic_units() {
    let text = r#"{"flow":[{"from":"a","to":"b","protocol":"udp","rate":1e6,"start":0.25,
        "bytes":3000}]}"#;
    let s = Scenario::from_json(text).unwrap();
    assert_eq!(s.flow[0].rate, Some(Bps(Rate(1_000_000))));
    assert_eq!(s.flow[0].start, Secs(Span::MILLI * 250));
    assert_eq!(s.flow[0].bytes, Some(Octets(3000)));
}

#[test]
fn unknown_keys_are_named_with_path_and_nearest() {
    assert_eq!(error("sed = 1"), "sed: unknown key; did you mean `seed`?");
    assert_eq!(
        error("[routing.olsr]\nhallo = 1"),
        "routing.olsr.hallo: unknown key; did you mean `hello`?"
    );
    assert_eq!(
        error(&flow("app = \"flie\"")),
        "flow.1.app: unknown name `flie`; did you mean `file`?"
    );
    assert_eq!(
        error(&flow("app = \"ftp\"")),
        "flow.1.app: unknown name `ftp`; there are bulk, file (needs bytes), stream (needs time), \
         http (needs pause), onoff (needs rate, on, off), request, trace (needs rows)"
    );
    assert_eq!(
        error("rate = \"6M\""),
        "rate: unknown key; did you mean `radio.rate`?"
    );
    assert_eq!(
        error(&flow("app = \"file\"\nbytes = 5\nrate = \"6M\"")),
        "flow.1.rate: `file` does not use it; its keys: bytes; that of the radios is radio.rate"
    );
    assert_eq!(
        error(&flow("protcol = 1")),
        "flow.1.protcol: unknown key; did you mean `protocol`?"
    );
    let json = r#"{"stop":{"tiem":1}}"#;
    assert_eq!(
        Scenario::from_json(json).unwrap_err().to_string(),
        "stop.tiem: unknown key; did you mean `time`?"
    );
}

#[test]
fn wrong_values_are_named_with_path() {
    let at = |text: &str| match Scenario::from_toml(text).unwrap_err() {
        ScenarioError::Key { path, .. } => path,
        other => panic!("{other}"),
    };
    assert_eq!(at("[stop]\ntime = \"5 parsecs\""), "stop.time");
    assert_eq!(at("[stop]\ntime = -1"), "stop.time");
    assert_eq!(at(&flow("start = \"5\"")), "flow.1.start");
    assert_eq!(at("[stop]\nbatch = 5"), "stop.batch");
    assert_eq!(
        at(&flow("app = \"trace\"\nrows = [[1.0, 5], [0.5, 5]]")),
        "flow.1.rows"
    );
    assert_eq!(
        at(&flow("app = \"trace\"\nrows = [[-1.0, 5]]")),
        "flow.1.rows"
    );
    assert_eq!(at(&flow("app = \"stream\"\ntime = 0")), "flow.1.time");
    assert!(matches!(
        Scenario::from_toml("seed = ").unwrap_err(),
        ScenarioError::Syntax(_)
    ));
}

#[test]
fn an_application_takes_its_own_parameters_only() {
    assert_eq!(
        error(&flow("app = \"file\"")),
        "flow.1: `file` needs `bytes`"
    );
    assert_eq!(
        error(&flow("bytes = 5")),
        "flow.1.bytes: `bulk`, as a flow without `app` is, has no parameters; `bytes` goes with \
         app = \"file\""
    );
    let timed = error(&flow("time = 5"));
    assert!(timed.ends_with("`time` goes with app = \"stream\" or \"onoff\""));
    let text = error(&flow("size = \"1M\""));
    assert!(text.ends_with("how much a flow sends is `bytes`"), "{text}");
    assert_eq!(
        error(&flow("app = \"file\"\nbytes = 5\npause = 1")),
        "flow.1.pause: `file` does not use it; its keys: bytes"
    );
    assert_eq!(
        error("[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\napp = \"http\"\npause = 1"),
        "flow.1.app: `http` needs a protocol with connections, and this flow is udp"
    );
}

#[test]
fn one_table_for_a_list_of_them_is_told_what_to_write() {
    assert_eq!(
        error("[flow]\nfrom = \"n1\""),
        "flow: is a list: write [[flow]]"
    );
    let wrong = ScenarioError::key("topology.link", "invalid type: map, expected a sequence");
    assert_eq!(
        wrong.to_string(),
        "topology.link: is a list: write its name in two brackets, [[...link]]"
    );
    let numbers = ScenarioError::key("topology.area", "invalid type: map, expected a sequence");
    assert!(
        numbers.to_string().ends_with("expected a list"),
        "{numbers}"
    );
}

#[test]
fn a_value_where_keys_belong_is_told_what_to_write() {
    let says = |text: &str, told: &str| assert_eq!(error(text), told);
    let stop = "stop: has keys of its own: write stop.time = \"10s\"";
    says("stop = \"10s\"", stop);
    says(
        "topology = \"linear,4\"",
        "topology: has keys of its own: write topology.words = \"linear,4\"",
    );
    let json = r#"{"flow":["tcp"]}"#;
    assert_eq!(
        Scenario::from_json(json).unwrap_err().to_string(),
        "flow.1: has keys of its own: write flow.1.protocol = \"tcp-newreno\""
    );
    says("flow = \"n1\"", "flow: is a list: write [[flow]]");
    // What is below a table is looked for there.
    says(
        "fading = { sigma_db = 3 }",
        "fading: unknown key; did you mean `topology.fading`?",
    );
    says(
        "bytes = \"2M\"",
        "bytes: unknown key; did you mean `flow.1.bytes`?",
    );
}

#[test]
fn impossible_numbers_are_refused_in_words() {
    let of = |keys: &str| error(&format!("{keys}\n{}", flow("")));
    assert_eq!(of("[stop]\ntime = 0"), "stop.time: must be greater than 0");
    let wrong = of("[stop]\npackets = \"many\"");
    assert_eq!(
        wrong,
        "stop.packets: invalid type: string \"many\", expected a whole number"
    );
    // The keys of the radio are read with those of the topology.
    let wrong = ScenarioError::key("radio.queue", "string \"10kB\", expected a whole number");
    assert_eq!(
        wrong.to_string(),
        "radio.queue: string \"10kB\", expected a whole number of packets"
    );
    let udp = |rate: &str| {
        error(&format!(
            "[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nrate = {rate}"
        ))
    };
    assert!(udp("1e12").starts_with("flow.1.rate: at most 100 Gb/s"));
    assert_eq!(udp("\"-5M\""), "flow.1.rate: \"-5M\" must not be negative");
    assert!(udp("-5").contains("-5 is not a rate"));
    let talk = udp("1\napp = \"onoff\"\non = \"1ns\"\noff = \"1s\"");
    assert_eq!(talk, "flow.1.on: at least 1 ms on average");
    assert_eq!(
        of("[routing.olsr]\nflood = \"mrp\""),
        "routing.olsr.flood: unknown name `mrp`; did you mean `mpr`?"
    );
}

#[test]
fn a_flow_without_a_protocol_is_told_what_to_write() {
    let said = "flow.2: has no protocol: write protocol = \"tcp-newreno\"; `wifu list` has them";
    let bare = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
    assert_eq!(error(&format!("{}{bare}", flow(""))), said);
    let json =
        "{\"flow\": [{\"from\": \"a\", \"to\": \"b\", \"protocol\": \"udp\"}, {\"from\": \"a\"}]}";
    let wrong = Scenario::from_json(json).unwrap_err().to_string();
    assert!(wrong.starts_with("flow.2: "), "{wrong}");
}

#[test]
fn a_discipline_by_its_name_alone_is_told_what_to_write() {
    let of = |text: &str| error(&format!("host.queue = \"{text}\"\n{}", flow("")));
    let write = "host.queue: must be a table: write { kind = ";
    assert_eq!(of("fq_codel"), format!("{write}\"fq_codel\" }}"));
    assert_eq!(of("fq-codel"), format!("{write}\"fq_codel\" }}"));
    assert_eq!(of("step"), format!("{write}\"step\", above = 20 }}"));
    let all = "kinds are \"step\", \"red\", \"codel\", \"fq_codel\"";
    assert!(of("droptail").ends_with(all), "{}", of("droptail"));
    let json = "{\"host\": {\"queue\": \"codel\"}, \"flow\": []}";
    let said = Scenario::from_json(json).unwrap_err().to_string();
    assert_eq!(said, format!("{write}\"codel\" }}"));
}

#[test]
fn packets_and_ways_have_possible_sizes() {
    let of = |keys: &str| error(&format!("{keys}\n{}", flow("")));
    assert!(of("[host]\nmtu = 67").starts_with("host.mtu: at least 68"));
    let long = error("[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nsize = 1501");
    assert!(long.starts_with("flow.1.size: 1501 bytes"), "{long}");
    let walk = |area: &str, speed: &str| {
        of(&format!(
            "[[mobility]]\nkind = \"waypoint\"\narea = {area}\nspeed = {speed}"
        ))
    };
    for area in ["[0, 0, 0, 0]", "[9, 0, 0, 9]", "[0, 0, 1e300, 1]"] {
        assert!(
            walk(area, "[1, 2]").starts_with("mobility.1.area: "),
            "{area}"
        );
    }
    let trace = |rows: &str| of(&format!("[[mobility]]\nkind = \"trace\"\nrows = {rows}"));
    assert_eq!(
        trace("[[-1.0, \"a\", 0.0, 0.0]]"),
        "mobility.1.rows.1: -1 s: times are from 0 on, in seconds"
    );
    let back = trace("[[2.0, \"a\", 0.0, 0.0], [1.0, \"a\", 0.0, 0.0]]");
    assert_eq!(back, "mobility.1.rows.2: times must not decrease");
    for speed in ["[0, 1]", "[2, 1]", "[1, 1e308]"] {
        assert!(
            walk("[0, 0, 9, 9]", speed).starts_with("mobility.1.speed: "),
            "{speed}"
        );
    }
}
