//! What `wifu core` is told: handlers, rules and settings, as TOML or in the lines of the WiFu
//! paper.

use super::by::{By, Selector, by};
use crate::poller::Coalesce;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wifu_core::{Chain, Config, ConfigError, Full, Ground, Hook, Hooks, Kinds, Verbs, Whose};
use wifu_engine::Fact;
use wifu_node::{Catalog, Registry, Teller, facts, mistaken, name_handlers};
use wifu_wire::{Rng, Span};

/// Everything that is configured.
#[derive(Clone, Debug, Default)]
pub struct CoreConfig {
    /// The handlers, in order.
    pub handlers: Config,
    /// What follows `iptables -t mangle -A`, one rule each.
    pub rules: Vec<String>,
    /// Rules given by a hook and what a packet must match, in iptables' words.
    pub matches: Vec<(Hook, String)>,
    /// What becomes of packets when the handlers cannot keep up, and which node this is.
    pub settings: Settings,
}

/// How handlers are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By what packets come.
    pub by: By,
    /// What becomes of packets while the kernel's queue is full, and after a handler failed.
    pub when_full: Full,
    /// A handler that takes longer for one packet has failed.
    pub stall: Span,
    /// Packets that wait in a queue at most, besides those that handlers hold.
    pub queue_length: u32,
    /// Packets that handlers hold at most, together, in octets.
    pub held_octets: usize,
    /// Let packets come whole that are to be cut into segments later. `None`: if every handler
    /// can do with them.
    pub super_packets: Option<bool>,
    /// Receive buffer of the queues' socket, in octets.
    pub receive_buffer: usize,
    /// When the loop sleeps instead of waiting for the next packet.
    pub coalesce: Coalesce,
    /// This node's number, for handlers.
    pub node: u16,
    /// Where the driver's delay is read (`Da` and `sample`).
    pub delay_dir: Option<PathBuf>,
    /// What the delay is taken for before the first sample.
    pub first_delay: Span,
    /// Interfaces whose frames to others are overheard.
    pub overhear: Vec<String>,
    /// A monitor interface of the radio: its frames have radiotap headers.
    pub monitor: Option<String>,
    /// Where the handlers' random numbers begin.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            by: By::Nfqueue,
            when_full: Full::Open,
            stall: Span(1_000_000_000),
            queue_length: 4096,
            held_octets: 64 << 20,
            super_packets: None,
            receive_buffer: 8 << 20,
            coalesce: Coalesce::default(),
            node: 0,
            delay_dir: None,
            // D0 of 802.11a at 24 Mb/s (Behaviour 7.4).
            first_delay: Span(681_500),
            overhear: Vec::new(),
            monitor: None,
            seed: 1,
        }
    }
}

/// What handlers need of the place where they run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Needs {
    /// Packets and copies that all of them together may hold.
    pub most_held: u32,
    /// Packets may come whole that are to be cut into segments later.
    pub super_packets: bool,
    /// They send packets.
    pub sends: bool,
}

impl Settings {
    /// Whether handlers can work so.
    ///
    /// # Errors
    /// What is out of range, or needs NFQUEUE.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let By::Tun(_) = self.by {
            if self.super_packets == Some(true) {
                return wrong(
                    "super_packets: the kernel cuts them before a TUN device; leave it out",
                );
            }
            if self.monitor.is_some() {
                return wrong(
                    "monitor: by which radio a packet leaves is not known behind a TUN device; \
                     that needs NFQUEUE",
                );
            }
        }
        if self.stall == Span(0) {
            return wrong("stall: every handler would have failed at once; give it more than 0 s");
        }
        if self.queue_length == 0 {
            return wrong("queue_length: no packet would ever reach a handler; 1 is the least");
        }
        Ok(())
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Table {
    by: Option<String>,
    #[serde(default)]
    to: Vec<String>,
    #[serde(default)]
    tun: BTreeMap<String, String>,
    when_full: Option<String>,
    stall: Option<String>,
    queue_length: Option<u32>,
    super_packets: Option<bool>,
    node: Option<u16>,
    delay_dir: Option<PathBuf>,
    first_delay: Option<String>,
    #[serde(default)]
    overhear: Vec<String>,
    monitor: Option<String>,
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    hook: String,
    #[serde(default, rename = "match")]
    words: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    core: Table,
    #[serde(default)]
    rule: Vec<Rule>,
    /// Here only to be a known key: [`Config::from_toml`] reads it.
    #[serde(default, rename = "handler")]
    _handler: Vec<toml::Value>,
}

pub(super) fn wrong<T>(text: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(text.into()))
}

/// `open` or `closed`.
///
/// # Errors
/// Other words.
pub fn full(word: &str) -> Result<Full, ConfigError> {
    match word {
        "open" => Ok(Full::Open),
        "closed" => Ok(Full::Closed),
        other => wrong(format!("\"{other}\": write open or closed")),
    }
}

fn span(what: &str, text: &str) -> Result<Span, ConfigError> {
    text.parse()
        .map_err(|e| ConfigError(format!("{what}: {e}")))
}

/// The name of netfilter's chain for a hook.
fn chain_of(hook: Hook) -> String {
    hook.name().to_uppercase()
}

impl CoreConfig {
    /// From a file's text: TOML, or the paper's lines.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(text: &str, is_toml: bool) -> Result<CoreConfig, ConfigError> {
        if is_toml {
            CoreConfig::from_toml(text)
        } else {
            CoreConfig::from_lines(text)
        }
    }

    fn from_toml(text: &str) -> Result<CoreConfig, ConfigError> {
        let file: File =
            toml::from_str(text).map_err(|e| ConfigError(e.to_string().trim_end().to_owned()))?;
        let mut settings = Settings::default();
        let t = file.core;
        if let Some(word) = &t.by {
            settings.by = by(word)?;
        }
        settings.lead(&t.to, &t.tun)?;
        if let Some(word) = &t.when_full {
            settings.when_full = full(word)?;
        }
        if let Some(text) = &t.stall {
            settings.stall = span("stall", text)?;
        }
        if let Some(text) = &t.first_delay {
            settings.first_delay = span("first_delay", text)?;
        }
        settings.queue_length = t.queue_length.unwrap_or(settings.queue_length);
        settings.super_packets = t.super_packets;
        settings.node = t.node.unwrap_or(0);
        settings.delay_dir = t.delay_dir;
        settings.overhear = t.overhear;
        settings.monitor = t.monitor;
        settings.seed = t.seed.unwrap_or(settings.seed);
        let mut matches = Vec::new();
        for rule in file.rule {
            let hook: Hook = rule.hook.parse().map_err(ConfigError)?;
            if !Hooks::WIRED.has(hook) {
                return wrong(
                    "overheard frames need no rule: name interfaces in `overhear` or `monitor`",
                );
            }
            matches.push((hook, rule.words));
        }
        Ok(CoreConfig {
            handlers: Config::from_toml(text)?,
            matches,
            settings,
            ..CoreConfig::default()
        })
    }

    fn from_lines(text: &str) -> Result<CoreConfig, ConfigError> {
        let mut config = CoreConfig::default();
        for (i, line) in text.lines().enumerate() {
            let at = |e: ConfigError| ConfigError(format!("line {}: {e}", i + 1));
            let bare = line.split('#').next().unwrap_or("").trim();
            if let Some(handler) = Config::line(line).map_err(at)? {
                config.handlers.handlers.push(handler);
            } else if !bare.is_empty() {
                config.rules.push(bare.to_owned());
            }
        }
        Ok(config)
    }

    /// What there is to make the handlers from, with the compositions that they name.
    ///
    /// # Errors
    /// There is no such composition; two are named whose packets nobody could tell apart.
    pub fn kinds<'k>(&self, known: &'k dyn Catalog) -> Result<Cow<'k, Kinds>, ConfigError> {
        let handlers = &self.handlers.handlers;
        let named = name_handlers(known.kinds(), handlers, |text| known.protocol(text));
        named.map_err(|(i, what)| {
            let name = &handlers[i].name;
            ConfigError(format!("handler.{}.protocol ({name}): {what}", i + 1))
        })
    }

    /// Handlers that name a composition, beside whose packets there may be others of one kind, in
    /// words for people: which compositions the hosts around run is not known here.
    ///
    /// # Errors
    /// As [`CoreConfig::kinds`].
    pub fn mistakes(&self, known: &Registry) -> Result<Vec<String>, ConfigError> {
        let mut said = Vec::new();
        for (i, handler) in self.handlers.handlers.iter().enumerate() {
            let Some(Whose::Composition(text)) = &handler.protocol else {
                continue;
            };
            let meant = known.protocol(text).map_err(ConfigError)?;
            let others = known.library().protocols().iter();
            // One that is wrong in itself is run by nobody.
            let others = others.filter_map(|name| known.protocol(name).ok());
            let alike = others.filter(|other| mistaken(&meant, other).is_some());
            let alike: Vec<String> = alike.map(|p| p.ends.name.clone()).collect();
            if !alike.is_empty() {
                said.push(format!(
                    "handler.{} ({}): packets of {} are of one kind with those of {} (IP protocol \
                     {}): it is asked about both where both are run",
                    i + 1,
                    handler.name,
                    alike.join(", "),
                    meant.ends.name,
                    meant.ends.number
                ));
            }
        }
        Ok(said)
    }

    /// Make the handlers.
    ///
    /// # Errors
    /// Unknown names and parameters, and what is out of range.
    pub fn chain(&self, kinds: &Kinds) -> Result<Chain, ConfigError> {
        let ground = Ground {
            kinds,
            can: Verbs::ALL,
            told: &self.told(),
        };
        self.handlers.chain(&Rng::new(self.settings.seed), ground)
    }

    /// What handlers act upon and nobody tells them with these settings, in words for people.
    pub fn short_of(&self, kinds: &Kinds) -> Vec<String> {
        let short = self.handlers.short_of(kinds, &self.told());
        let said = |(name, fact)| facts::without(name, fact, "`wifu core` with what it was given");
        short.into_iter().map(said).collect()
    }

    /// What handlers are told with these settings.
    fn told(&self) -> Vec<Fact> {
        let settings = &self.settings;
        let mut told = match settings.by {
            By::Nfqueue => facts::told(&[Teller::Core]),
            // Whoever sent it, it comes from a TUN device.
            By::Tun(_) => Vec::new(),
        };
        if settings.monitor.is_some() {
            told.extend(facts::told(&[Teller::Monitor]));
        }
        if let Some(dir) = &settings.delay_dir {
            told.extend(facts::told(&[Teller::DriverFiles]));
            if dir.join("busy").exists() {
                told.extend(facts::told(&[Teller::EmulatedFiles]));
            }
        }
        if !settings.overhear.is_empty() {
            told.extend([Fact::Overheard, Fact::Transmitter]);
        }
        told
    }

    /// The rules: those of the configuration, or one per hook and protocol of the handlers. Made
    /// by us, they leave the loopback alone, which is no hop.
    ///
    /// # Errors
    /// Unknown handlers.
    pub fn all_rules(&self, kinds: &Kinds) -> Result<Vec<String>, ConfigError> {
        let full = self.settings.when_full;
        if !self.rules.is_empty() || !self.matches.is_empty() {
            let matching = self.matches.iter();
            let made = matching.map(|(hook, words)| queue_rule(*hook, words, full));
            return Ok(self.rules.iter().cloned().chain(made).collect());
        }
        let mut rules = Vec::new();
        for Selector { hook, protocols } in self.wanted(kinds)? {
            let device = match hook {
                Hook::Output | Hook::Postrouting => "! -o lo",
                _ => "! -i lo",
            };
            match protocols {
                None => rules.push(queue_rule(hook, device, full)),
                Some(protocols) => {
                    let each = protocols.iter().map(|p| format!("{device} -p {p}"));
                    rules.extend(each.map(|words| queue_rule(hook, &words, full)));
                }
            }
        }
        Ok(rules)
    }

    /// What the handlers want, by hook.
    pub(super) fn wanted(&self, kinds: &Kinds) -> Result<Vec<Selector>, ConfigError> {
        let mut wanted: [Option<BTreeSet<u8>>; 5] = Default::default();
        let mut every = Hooks::NONE;
        for handler in &self.handlers.handlers {
            let (hooks, protocols) = handler.place(kinds)?;
            for hook in hooks.and(Hooks::WIRED).iter() {
                let set = wanted[usize::from(hook.number())].get_or_insert_default();
                match &protocols {
                    // A shim may hide it.
                    Some(some) => {
                        set.extend(some.iter().copied().chain([wifu_core::shim::PROTOCOL]))
                    }
                    None => every = every.or(Hooks::of(&[hook])),
                }
            }
        }
        let selector = |(hook, protocols): (Hook, Option<BTreeSet<u8>>)| {
            let protocols = protocols?;
            let protocols = (!every.has(hook)).then_some(protocols);
            Some(Selector { hook, protocols })
        };
        let all = Hook::ALL.into_iter().zip(wanted);
        Ok(all.filter_map(selector).collect())
    }

    /// What its handlers need.
    ///
    /// # Errors
    /// If super-packets were asked for and a handler cannot do with them; unknown handlers.
    pub fn needs(&self, kinds: &Kinds) -> Result<Needs, ConfigError> {
        let mut needs = Needs {
            super_packets: self.super_packets(kinds)?,
            ..Needs::default()
        };
        for handler in &self.handlers.handlers {
            let descriptor = kinds.find(&handler.name)?;
            let own = handler.most_held.unwrap_or(descriptor.holds);
            needs.most_held = needs.most_held.saturating_add(own);
            needs.sends |= descriptor.needs.has(Verbs::SEND);
        }
        Ok(needs)
    }

    /// Whether packets may come whole that are to be cut into segments later.
    ///
    /// # Errors
    /// If that was asked for and a handler cannot do with them; unknown handlers.
    fn super_packets(&self, kinds: &Kinds) -> Result<bool, ConfigError> {
        for handler in &self.handlers.handlers {
            let descriptor = kinds.find(&handler.name)?;
            if descriptor.super_packets {
                continue;
            }
            if self.settings.super_packets == Some(true) {
                return wrong(format!(
                    "super_packets: {} changes or counts packets, so it must see each by itself",
                    descriptor.name
                ));
            }
            return Ok(false);
        }
        Ok(self.settings.super_packets.unwrap_or(true))
    }
}

fn queue_rule(hook: Hook, words: &str, full: Full) -> String {
    let words = words.trim();
    let space = if words.is_empty() { "" } else { " " };
    let bypass = match full {
        Full::Open => " --queue-bypass",
        Full::Closed => "",
    };
    let (chain, number) = (chain_of(hook), hook.number());
    format!("{chain}{space}{words} -j NFQUEUE --queue-num {number}{bypass}")
}

/// The number of the queue that a rule sends packets to; none if it sends them to no queue.
fn queue_of(rule: &str, words: &[&str]) -> Result<Option<u16>, ConfigError> {
    let balance = |w: &&str| w.starts_with("--queue-balance");
    if words.iter().any(balance) {
        return wrong(format!(
            "\"{rule}\": each hook has one queue, so --queue-num instead of --queue-balance"
        ));
    }
    let named = words.iter().enumerate().find_map(|(at, word)| {
        let rest = word.strip_prefix("--queue-num")?;
        Some(match rest.strip_prefix('=') {
            Some(number) => number,
            None => words.get(at + 1).copied().unwrap_or(""),
        })
    });
    match named {
        Some(number) => match number.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => wrong(format!("\"{rule}\": queues are 0 to 4")),
        },
        // What iptables takes it for.
        None => Ok(words.contains(&"NFQUEUE").then_some(0)),
    }
}

/// The queues that rules send packets to.
///
/// # Errors
/// If one of them sends packets to no queue of ours, or is none of mangle's.
pub fn hooks_of(rules: &[String]) -> Result<Hooks, ConfigError> {
    let mut hooks = Hooks::NONE;
    for rule in rules {
        let words: Vec<&str> = rule.split_whitespace().collect();
        let chain = words.first().copied().unwrap_or("");
        if !Hooks::WIRED.iter().any(|h| chain_of(h) == chain) {
            return wrong(format!(
                "\"{rule}\": a rule begins with INPUT, OUTPUT, FORWARD, PREROUTING or POSTROUTING"
            ));
        }
        let Some(number) = queue_of(rule, &words)? else {
            continue; // a rule that spares some packets, such as `-j ACCEPT`
        };
        let hook = Hooks::WIRED.iter().find(|h| h.number() == number);
        let Some(hook) = hook else {
            return wrong(format!("\"{rule}\": queues are 0 to 4"));
        };
        if chain_of(hook) != chain {
            let right = Hooks::WIRED.iter().find(|h| chain_of(*h) == chain);
            let right = right.map_or(number, Hook::number);
            return wrong(format!(
                "\"{rule}\": queue {number} is that of {}; write --queue-num {right}",
                chain_of(hook)
            ));
        }
        hooks = hooks.or(Hooks::of(&[hook]));
    }
    Ok(hooks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Kinds {
        Kinds::new(wifu_engine::Registry::new(&[]))
    }

    #[test]
    fn rules_follow_from_the_handlers() {
        let text = "[core]\nwhen_full = \"closed\"\n[[handler]]\nuse = \"drop\"\nprotocol = 17\n\
                    hooks = [\"forward\"]\n[[handler]]\nuse = \"logger\"\nhooks = [\"input\"]\n";
        let config = CoreConfig::read(text, true).unwrap();
        let rules = config.all_rules(&kinds()).unwrap();
        assert_eq!(
            rules,
            [
                "INPUT ! -i lo -j NFQUEUE --queue-num 0",
                "FORWARD ! -i lo -p 17 -j NFQUEUE --queue-num 2",
                "FORWARD ! -i lo -p 253 -j NFQUEUE --queue-num 2",
            ]
        );
        assert_eq!(
            hooks_of(&rules),
            Ok(Hooks::of(&[Hook::Input, Hook::Forward]))
        );
        assert_eq!(config.super_packets(&kinds()), Ok(false));
    }

    #[test]
    fn a_composition_by_name_is_led_by_its_number() {
        let mine = "[protocol.mine]\nextends = \"tcp-newreno\"\n\
                    [protocol.apart]\nextends = \"tcp-newreno\"\nnumber = 240\n";
        let own = wifu_engine::Library::parse(mine).unwrap();
        let known = Registry::new(wifu_parts::registry(), wifu_parts::library().merge(own));
        let read = |text: &str, is_toml| CoreConfig::read(text, is_toml).unwrap();
        let number = |name: &str| known.resolve(name).unwrap().ends.number;
        let named = "[[handler]]\nuse = \"drop\"\nprotocol = \"apart\"\nhooks = [\"forward\"]\n";
        let line = "handler drop apart\n";
        for config in [read(named, true), read(line, false)] {
            let kinds = config.kinds(&known).unwrap();
            assert!(config.chain(&kinds).is_ok());
            let rules = config.all_rules(&kinds).unwrap();
            let wanted = "FORWARD ! -i lo -p 240 -j NFQUEUE --queue-num 2 --queue-bypass";
            assert!(rules.iter().any(|r| r == wanted), "{rules:?}");
            assert!(
                rules
                    .iter()
                    .all(|r| r.contains("-p 240 ") || r.contains("-p 253 "))
            );
            assert_eq!(config.mistakes(&known), Ok(Vec::new()));
        }
        // One whose header and number another has, too.
        let alike = read("handler null mine\n", false);
        assert!(alike.kinds(&known).is_ok());
        let said = alike.mistakes(&known).unwrap().join("\n");
        let n = number("tcp-newreno");
        let wanted = format!("of tcp-newreno are of one kind with those of mine (IP protocol {n})");
        assert!(
            said.starts_with("handler.1 (null): ") && said.contains(&wanted),
            "{said}"
        );
        let both = read("handler null mine\nhandler drop tcp-newreno\n", false);
        let said = both.kinds(&known).err().unwrap().to_string();
        assert!(said.contains("so no node could tell which"), "{said}");
        let wrong = read("handler null tcp-newremo\n", false);
        let said = wrong.kinds(&known).err().unwrap().to_string();
        assert!(said.starts_with("handler.1.protocol (null): "), "{said}");
        assert!(said.contains("did you mean `tcp-newreno`"), "{said}");
    }

    #[test]
    fn the_papers_lines_are_taken_as_they_are() {
        let text = "# WiFu\nOUTPUT -p udp -j NFQUEUE --queue-num 1 # out\n\nhandler null *\n";
        let config = CoreConfig::read(text, false).unwrap();
        let rules = config.all_rules(&kinds()).unwrap();
        assert_eq!(rules, ["OUTPUT -p udp -j NFQUEUE --queue-num 1"]);
        assert_eq!(hooks_of(&rules), Ok(Hooks::of(&[Hook::Output])));
        assert_eq!(config.super_packets(&kinds()), Ok(true));
        assert!(config.chain(&kinds()).is_ok());
    }

    #[test]
    fn handlers_are_told_what_the_settings_make_known() {
        static WEAK: wifu_core::Descriptor = wifu_core::Descriptor {
            name: "weak",
            hooks: Hooks::ALL,
            requires: &[Fact::Transmitter, Fact::LinkDelay],
            build: |_| Err(String::from("it would be built")),
            ..wifu_core::Descriptor::EMPTY
        };
        static IDLE: wifu_core::Descriptor = wifu_core::Descriptor {
            name: "idle",
            hooks: Hooks::ALL,
            requires: &[Fact::LinkBusy],
            build: WEAK.build,
            ..wifu_core::Descriptor::EMPTY
        };
        let said = |text: &str| {
            let config = CoreConfig::read(text, true).unwrap();
            let made = config.chain(&kinds().with(&[&WEAK, &IDLE]));
            made.err().map(|e| e.to_string()).unwrap_or_default()
        };
        let status = "[[handler]]\nuse = \"logger\"\nstatus = true\n";
        assert!(said(status).contains("it requires status (what became of transmissions), which"));
        assert_eq!(said(&format!("[core]\nmonitor = \"mon0\"\n{status}")), "");
        let weak = "[[handler]]\nuse = \"weak\"\n";
        assert!(said(weak).contains("it requires link.delay (delay of the link layer), which is"));
        for more in ["monitor = \"mon0\"", "delay_dir = \"/proc/driver\""] {
            let said = said(&format!("[core]\n{more}\n{weak}"));
            assert!(said.contains("it would be built"), "{said}");
        }
        // An emulated radio has a third file.
        let dir = std::env::temp_dir().join(format!("wifu-busy-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let idle = format!("[core]\ndelay_dir = {dir:?}\n[[handler]]\nuse = \"idle\"\n");
        assert!(
            said(&idle).contains("it requires link.busy"),
            "{}",
            said(&idle)
        );
        std::fs::write(dir.join("busy"), "0\n").unwrap();
        assert!(said(&idle).contains("it would be built"), "{}", said(&idle));
        std::fs::remove_dir_all(dir).unwrap();
        let by_tun = "by = \"tun\"\ndelay_dir = \"/proc/driver\"";
        let unknown = said(&format!("[core]\n{by_tun}\n{weak}"));
        let wanted = "it requires frame.transmitter";
        assert!(unknown.contains(wanted), "{unknown}");
        let overheard = said(&format!("[core]\noverhear = [\"eth0\"]\n{by_tun}\n{weak}"));
        assert!(overheard.contains("it would be built"), "{overheard}");
    }

    #[test]
    fn no_rule_sends_packets_to_a_queue_without_handlers() {
        for (rule, wanted) in [
            ("INPUT -p udp -j NFQUEUE", Hooks::of(&[Hook::Input])),
            ("INPUT -j NFQUEUE --queue-bypass", Hooks::of(&[Hook::Input])),
            (
                "OUTPUT -j NFQUEUE --queue-num=1",
                Hooks::of(&[Hook::Output]),
            ),
            ("OUTPUT -p udp -j ACCEPT", Hooks::NONE),
        ] {
            assert_eq!(hooks_of(&[rule.to_owned()]), Ok(wanted), "{rule}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("[core]\nwhen_full = \"shut\"\n", "write open or closed"),
            ("[core]\nqueue = 4\n", "unknown field"),
            ("[[rule]]\nhook = \"overheard\"\n", "need no rule"),
            ("[[handlers]]\nuse = \"null\"\n", "unknown field"),
        ];
        for (text, wanted) in cases {
            let found = CoreConfig::read(text, true).unwrap_err().to_string();
            assert!(found.contains(wanted), "{found}");
        }
        for rule in [
            "OUT -j NFQUEUE --queue-num 1",
            "OUTPUT -j NFQUEUE --queue-num 5",
            "OUTPUT -j NFQUEUE --queue-num",
            "OUTPUT -j NFQUEUE --queue-balance 0:3",
        ] {
            assert!(hooks_of(&[rule.to_owned()]).is_err(), "{rule}");
        }
        for (rule, wanted) in [
            ("FORWARD -j NFQUEUE --queue-num 1", "write --queue-num 2"),
            ("OUTPUT -p udp -j NFQUEUE", "write --queue-num 1"),
        ] {
            let found = hooks_of(&[rule.to_owned()]).unwrap_err().to_string();
            assert!(found.contains(wanted), "{found}");
        }
        for text in ["stall = \"0 s\"", "queue_length = 0"] {
            let config = CoreConfig::read(&format!("[core]\n{text}\n"), true).unwrap();
            let found = config.settings.check().unwrap_err().to_string();
            assert!(found.starts_with(&text[..5]), "{found}");
        }
        assert_eq!(Settings::default().check(), Ok(()));
        let text = "[core]\nsuper_packets = true\n[[handler]]\nuse = \"drop\"\n";
        let config = CoreConfig::read(text, true).unwrap();
        assert!(
            config
                .super_packets(&kinds())
                .unwrap_err()
                .to_string()
                .contains("drop")
        );
    }
}
