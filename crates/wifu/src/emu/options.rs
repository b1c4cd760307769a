//! From the words of the command line to what is emulated.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use toml::{Table, Value};
use wifu_linux::emu::{Config, Routing, Script, routes};
use wifu_radio::plan::Plan;
use wifu_radio::topology::{Topology, resolve};
use wifu_sim::scenario::{HostSpec, RoutingKind};
use wifu_sim::stage::Stage;
use wifu_wire::Rng;

use super::scenario::{self, HostKeys, Scene};
use super::{Args, DEFAULT_TOPO, Routes, Switch};

/// What is to be emulated.
pub struct Meant {
    pub config: Config,
    /// What moves and is cut by itself.
    pub script: Option<Box<dyn Script>>,
    /// Seed and run.
    pub replicate: (u64, u64),
    /// What daemons make of the hosts.
    pub host: HostKeys,
}

/// What the options mean.
///
/// # Errors
/// The option, word or key that means nothing.
pub fn config(args: &Args) -> anyhow::Result<Meant> {
    let serves = !args.serve.is_empty();
    let Some(path) = &args.scenario else {
        if args.hold {
            bail!("--hold: nothing moves or is cut by itself: that takes --scenario");
        }
        let topology = topology(args)?;
        // As the simulator splits them, so that both meet the same placement and fading.
        let rng = Rng::new(args.seed).split_n(args.run);
        let plan = resolve(&topology, &rng)?;
        let kind = args.routing.unwrap_or(Routes::Auto);
        let routing = routes(&topology, &plan, kind.into());
        let movable = movable(&topology, &plan);
        let plan_host = plan.host;
        return Ok(Meant {
            config: described(args, plan, (routing, movable), rng),
            script: None,
            host: scenario::host(plan_host, &HostSpec::default(), serves)?,
            replicate: (args.seed, args.run),
        });
    };
    let kind = args.routing.and_then(|kind| match kind {
        Routes::Auto => Some(RoutingKind::Auto),
        Routes::Etx => Some(RoutingKind::Etx),
        Routes::Shortest => Some(RoutingKind::Shortest),
        Routes::None => None,
    });
    let scenario = scenario::read(path, radio(args)?, kind)?;
    let stage = Stage::new(&scenario)?;
    let plan = stage.plan().clone();
    let plan_host = plan.host;
    let unrouted = matches!(args.routing, Some(Routes::None));
    let routing = match unrouted {
        true => Routing::None,
        false => Routing::Via(stage.next_hops()),
    };
    let movable = movable(&wifu_sim::mesh::topology(&scenario)?, &plan);
    Ok(Meant {
        config: described(args, plan, (routing, movable), scenario.rng()),
        script: Some(Box::new(Scene::new(stage, unrouted))),
        host: scenario::host(plan_host, &scenario.host, serves)?,
        replicate: (scenario.seed, scenario.run),
    })
}

/// Whether links follow from positions.
fn movable(topology: &Topology, plan: &Plan) -> bool {
    let table = topology.chain.is_some() || topology.matrix.is_some();
    !table && plan.nodes.iter().all(|n| n.position.is_some())
}

/// An emulation of this plan.
fn described(args: &Args, plan: Plan, (routing, movable): (Routing, bool), rng: Rng) -> Config {
    Config {
        label: args.name.clone(),
        routing,
        movable,
        plan,
        rng,
        dilation: args.dilation,
        spin: args.spin,
        patience: args.patience,
        overhear: args.overhear.into(),
        push_back: args.push_back == Switch::On,
        export: args.export.clone(),
    }
}

/// Keys of the radio that options set.
///
/// # Errors
/// A word that is none.
pub fn radio(args: &Args) -> anyhow::Result<Table> {
    let mut radio = Table::new();
    for word in args.link.iter().flat_map(|w| w.split_whitespace()) {
        let Some((key, text)) = word.split_once('=') else {
            bail!(
                "--link \"{word}\": the links are radios here; write keys of theirs, such as \
                 \"rate=6M attempts=2\""
            );
        };
        radio.insert(key.into(), value(text));
    }
    let topo = Some(&*args.topo).filter(|topo| *topo != DEFAULT_TOPO);
    for word in &args.overrides {
        crate::topo::misplaced(word, topo, &args.overrides)?;
        ensure!(
            !word.ends_with(".toml") || word.contains('='),
            "a scenario is read by --scenario {word}, a topology by --topo {word}"
        );
        let Some((key, text)) = word.split_once('=') else {
            bail!("\"{word}\": write KEY=VALUE, such as radio.rate=6M");
        };
        let Some(key) = key.strip_prefix("radio.") else {
            bail!("{key}: only keys of the radio can be set here, such as radio.rate=6M");
        };
        radio.insert(key.into(), value(text));
    }
    Ok(radio)
}

fn topology(args: &Args) -> anyhow::Result<Topology> {
    let radio = radio(args)?;
    let set = args.set.as_deref();
    let topology = if let Some(custom) = &args.custom {
        let inline = self::custom(custom, &args.topo)?;
        Topology::build(None, set, &inline, &radio)
    } else if let Some(text) = crate::topo::file(&args.topo)? {
        let inline: Table =
            toml::from_str(&text).with_context(|| format!("--topo {}", args.topo))?;
        Topology::build(None, set, &inline, &radio)
    } else {
        Topology::build(Some(&args.topo), set, &Table::new(), &radio)
    };
    Ok(topology?)
}

/// Reads Mininet's files: what they import of it is in there.
const SHIM: &str = include_str!("../../../../python/wifu/mininet.py");

/// What a Python file is to have, behind what it lacks, which stands on standard error already.
const NO_TOPOLOGY: &str = "\
the file makes no topology, for the reason above. As for Mininet it has a class of `Topo`, whose
`build` calls addHost and addLink (hosts are linked to each other, without switches), and names it:
    topos = {\"mytopo\": MyTopo}
--topo mytopo takes it, --topo mytopo,3 with an argument for `build`";

/// The topology of a file: TOML, or a Python file for Mininet that has `topo` among others.
fn custom(path: &Path, topo: &str) -> anyhow::Result<Table> {
    let at = || format!("--custom {}", path.display());
    if path.extension().is_none_or(|e| e != "py") {
        if topo != DEFAULT_TOPO {
            bail!("{}: this file is the topology; leave out --topo", at());
        }
        let text = std::fs::read_to_string(path).with_context(at)?;
        return toml::from_str(&text).with_context(at);
    }
    if !path.is_file() {
        bail!("{}: there is no such file", at());
    }
    let mut python = Command::new("python3")
        .arg("-")
        .arg(path)
        .args([topo, DEFAULT_TOPO])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python3 (Debian: python3), which reads --custom FILE.py")?;
    if let Some(mut pipe) = python.stdin.take() {
        // If it ended early, it says why on standard error.
        let _ = pipe.write_all(SHIM.as_bytes());
    }
    let output = python.wait_with_output().context("python3")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.rsplit_once('\0') {
        Some((said, text)) if output.status.success() => {
            // What the file itself printed.
            eprint!("{said}");
            toml::from_str(text).with_context(at)
        }
        _ => bail!("{}: {NO_TOPOLOGY}", at()),
    }
}

/// A TOML value where it is one, else text: `6M`, `2`, `true`, `[1, 2]`.
fn value(text: &str) -> Value {
    let parsed: Result<Table, _> = toml::from_str(&format!("v = {text}"));
    match parsed.ok().and_then(|mut t| t.remove("v")) {
        Some(value) => value,
        None => Value::String(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_mininet_that_has_no_topology_is_told_what_it_is_to_have() {
        let path = std::env::temp_dir().join(format!("wifu-custom-{}.py", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            custom(&path, "mytopo").map_err(|error| error.to_string())
        };
        let class = "from mininet.topo import Topo\nclass MyTopo(Topo):\n    def build(self):\n";
        let topos = "topos = {'mytopo': MyTopo}\n";
        let hosts = "        self.addLink(self.addHost('a'), self.addHost('b'))\n";
        let whole = read(&format!("{class}{hosts}{topos}")).expect("a topology");
        assert_eq!(whole["node"].as_array().map(Vec::len), Some(2));
        let switch = "        self.addSwitch('s1')\n";
        for wrong in [
            format!("{class}{hosts}"),
            format!("{class}{switch}{topos}"),
            String::from("import nothing_of_this_name"),
        ] {
            let said = read(&wrong).expect_err(&wrong);
            assert!(said.starts_with(&format!("--custom {}", path.display())));
            assert!(said.contains("without switches"), "{said}");
            assert!(said.contains("topos = {\"mytopo\": MyTopo}"), "{said}");
        }
        std::fs::remove_file(&path).expect("it is there");
    }
}
