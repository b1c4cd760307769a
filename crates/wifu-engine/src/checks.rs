//! The checks that make a blueprint: roles, facts, needs, signals.

use crate::board::Facts;
use crate::composition::{Composition, Problem};
use crate::descriptor::{Descriptor, NoteSpec, Registry, Role, SOURCES, WordSpec};
use crate::face::Face;
use crate::params::Value;
use crate::signal::{ExtId, Ring, Signal};
use crate::store::StoreKind;

type Parts<'a> = &'a [&'static Descriptor];

/// Exclusive roles are filled at most once, and somebody offers something.
pub(crate) fn roles(c: &Composition, parts: Parts<'_>, problems: &mut Vec<Problem>) {
    for role in Role::ALL.into_iter().filter(|r| r.exclusive()) {
        let names: Vec<&str> = parts
            .iter()
            .filter(|d| d.role == role)
            .map(|d| d.name)
            .collect();
        if names.len() > 1 {
            let what = format!("only one part may fill it, here: {}", names.join(", "));
            problems.push(Problem {
                key: format!("{}.{}", c.name, role.key()),
                what,
            });
        }
    }
    if parts.iter().all(|d| d.offers.is_empty()) {
        let what = String::from("no part offers anything to send");
        problems.push(Problem {
            key: c.name.clone(),
            what,
        });
    }
}

/// Every section read has exactly one writer.
pub(crate) fn facts(
    c: &Composition,
    parts: Parts<'_>,
    registry: &Registry,
    problems: &mut Vec<Problem>,
) {
    for (section, name) in Facts::ALL {
        let writers: Vec<&str> = parts
            .iter()
            .filter(|d| d.writes.has(section))
            .map(|d| d.name)
            .collect();
        if writers.len() > 1 {
            let what = format!("{name} would have several writers: {}", writers.join(", "));
            problems.push(Problem {
                key: c.name.clone(),
                what,
            });
        }
        if !writers.is_empty() {
            continue;
        }
        for d in parts.iter().filter(|d| d.reads.has(section)) {
            let could: Vec<&str> = registry
                .parts()
                .iter()
                .filter(|d| d.writes.has(section))
                .map(|d| d.name)
                .collect();
            let what = format!(
                "{} reads {name}, which nothing in this composition writes. Writers: {}",
                d.name,
                listed(&could)
            );
            problems.push(Problem {
                key: format!("{}.{}", c.name, d.role.key()),
                what,
            });
        }
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        String::from("none in the registry")
    } else {
        names.join(", ")
    }
}

/// What belongs together is together. `values`: the parameters of each part.
pub(crate) fn needs(
    c: &Composition,
    parts: Parts<'_>,
    values: &[Vec<(&'static str, Value)>],
    store: StoreKind,
    problems: &mut Vec<Problem>,
) {
    let is_role = |slot: &str| Role::ALL.iter().any(|role| role.key() == slot);
    let have = |slot: &str| -> Vec<String> {
        match slot {
            "unit" => vec![store.unit().to_owned()],
            "store" => vec![store.name().to_owned()],
            "wire" => vec![c.wire.clone()],
            role if is_role(role) => {
                let held = parts.iter().filter(|p| p.role.key() == role);
                held.map(|p| p.name.to_owned()).collect()
            }
            param => {
                let held = values.iter().flatten().filter(|(name, _)| *name == param);
                held.map(|(_, value)| value.to_string()).collect()
            }
        }
    };
    let known = |slot: &str| is_role(slot) || matches!(slot, "unit" | "store" | "wire");
    for (d, own) in parts.iter().zip(values) {
        let always = d.needs.iter().map(|(slot, allowed)| ("", *slot, *allowed));
        let with = d
            .needs_with
            .iter()
            .filter_map(|(param, value, slot, allowed)| {
                let is = |(n, v): &(&str, Value)| n == param && *v == Value::Text(value);
                own.iter().any(is).then_some((*value, *slot, *allowed))
            });
        for (value, slot, allowed) in always.chain(with) {
            let have = have(slot);
            // A parameter that no part has forbids nothing.
            let free = have.is_empty() && !known(slot);
            if free || have.iter().any(|h| allowed.contains(&h.as_str())) {
                continue;
            }
            let what = format!(
                "{}{}{value} needs {slot} = {}, but here it is {}",
                d.name,
                if value.is_empty() { "" } else { " with " },
                allowed.join(" or "),
                if have.is_empty() {
                    String::from("missing")
                } else {
                    have.join(", ")
                }
            );
            problems.push(Problem {
                key: format!("{}.{}", c.name, d.role.key()),
                what,
            });
        }
    }
}

/// What parts require of a substrate is what parts can read.
pub(crate) fn readable(c: &Composition, parts: Parts<'_>, problems: &mut Vec<Problem>) {
    for d in parts {
        let either = d.requires_either.iter().map(|(fact, _)| fact);
        for fact in d.requires.iter().chain(either).filter(|f| !f.for_parts()) {
            problems.push(Problem {
                key: format!("{}.{}", c.name, d.role.key()),
                what: format!(
                    "{} requires {fact}, which handlers are told and parts are not",
                    d.name
                ),
            });
        }
    }
}

/// Names in edges that are no plain signals.
fn named_signals(parts: Parts<'_>) -> impl Iterator<Item = &'static str> {
    let edges = parts.iter().flat_map(|d| d.hears);
    edges
        .flat_map(|(h, e)| std::iter::once(h.trim_start_matches('?')).chain(e.iter().copied()))
        .filter(|n| !SOURCES.contains(n) && !Signal::NAMES.contains(n))
}

/// Number the named signals, in order of appearance.
pub(crate) fn intern(parts: Parts<'_>) -> Vec<(&'static str, ExtId)> {
    let mut exts: Vec<(&'static str, ExtId)> = Vec::new();
    for name in named_signals(parts) {
        if exts.iter().all(|(n, _)| *n != name) {
            exts.push((name, ExtId(exts.len() as u8)));
        }
    }
    exts
}

/// What each event makes of signals: (name, those that follow it).
fn edges(parts: Parts<'_>) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut names: Vec<&'static str> = SOURCES.into_iter().chain(Signal::NAMES).collect();
    for n in named_signals(parts) {
        if !names.contains(&n) {
            names.push(n);
        }
    }
    let follow = |name: &'static str| {
        let hears = parts.iter().flat_map(|d| d.hears);
        hears
            .filter(|(h, _)| h.trim_start_matches('?') == name)
            .flat_map(|(_, e)| e.iter().copied())
            .collect::<Vec<_>>()
    };
    names.into_iter().map(|n| (n, follow(n))).collect()
}

/// Every signal heard has an emitter, the graph is acyclic, and the largest cascade fits the ring.
/// Returns the largest cascade.
pub(crate) fn signals(
    c: &Composition,
    parts: Parts<'_>,
    registry: &Registry,
    problems: &mut Vec<Problem>,
) -> usize {
    let emitted: Vec<&str> = parts
        .iter()
        .flat_map(|d| d.hears)
        .flat_map(|(_, e)| *e)
        .copied()
        .collect();
    for d in parts {
        for (name, required) in d.heard() {
            let known = emitted.contains(&name) || Signal::FROM_ENGINE.contains(&name);
            if known || !required {
                continue;
            }
            let could = |p: &&&'static Descriptor| p.hears.iter().any(|(_, e)| e.contains(&name));
            let could: Vec<&str> = registry
                .parts()
                .iter()
                .filter(could)
                .map(|p| p.name)
                .collect();
            let strange = could.is_empty() && !Signal::NAMES.contains(&name);
            let hint = match strange {
                true => wifu_wire::names::ending(name, Signal::NAMES),
                false => String::from("."),
            };
            let what = format!(
                "{} hears \"{name}\", which nothing in this composition emits{hint} Emitters: {}",
                d.name,
                listed(&could)
            );
            problems.push(Problem {
                key: format!("{}.{}", c.name, d.role.key()),
                what,
            });
        }
    }
    let edges = edges(parts);
    let mut largest = 0;
    for source in SOURCES.into_iter().chain(Signal::FROM_ENGINE) {
        match cascade(&edges, source, &mut Vec::new()) {
            Ok(n) => largest = largest.max(n),
            Err(circle) => {
                let what = format!("signals go in a circle: {}", circle.join(" -> "));
                problems.push(Problem {
                    key: c.name.clone(),
                    what,
                });
                return largest;
            }
        }
    }
    if largest > Ring::PLACES {
        let what = format!(
            "one event can cause {largest} signals; at most {}",
            Ring::PLACES
        );
        problems.push(Problem {
            key: c.name.clone(),
            what,
        });
    }
    largest
}

/// Signals that follow `name`, itself included; or the circle.
fn cascade(
    edges: &[(&'static str, Vec<&'static str>)],
    name: &'static str,
    path: &mut Vec<&'static str>,
) -> Result<usize, Vec<&'static str>> {
    if let Some(at) = path.iter().position(|p| *p == name) {
        return Err(path[at..].iter().copied().chain([name]).collect());
    }
    path.push(name);
    let follow = edges
        .iter()
        .find(|(n, _)| *n == name)
        .map_or(&[][..], |(_, f)| f);
    let mut total = 1;
    for next in follow {
        total += cascade(edges, next, path)?;
    }
    path.pop();
    Ok(total)
}

/// What the runner of lanes writes, whoever declares it: who transmits, and how many nodes there
/// were.
fn by_runner(w: &WordSpec) -> bool {
    w.layout.names_transmitter || w.layout.counts_hops
}

/// A word that nodes on the way write, or an annotation, which an end reads: the composition must
/// bring who writes it, else the protocol would run and mean nothing.
pub(crate) fn hops(
    name: &str,
    ends: Parts<'_>,
    lane: Parts<'_>,
    handlers: &[Face],
) -> Vec<Problem> {
    let words = handlers.iter().flat_map(|f| &f.words);
    let words = words.filter(|w| w.access.writes()).map(|w| w.name);
    let mut have: Vec<&str> = words
        .chain(noted(handlers.iter().map(|f| f.notes)))
        .collect();
    have.extend(noted(lane.iter().map(|d| d.notes)));
    have.extend(lane.iter().flat_map(|d| d.words).filter_map(|w| {
        let both = w.layout.hop_writable && w.access.writes() || by_runner(w);
        both.then_some(w.name())
    }));
    // Annotations that an end's parts write go down to handlers and lanes, and come up to no part.
    let named = ends.iter().flat_map(|d| d.words);
    let named = named.filter(|w| by_runner(w) && !lane.is_empty());
    have.extend(named.map(|w| w.name()));
    let mut problems = Vec::new();
    for d in ends {
        let words = d
            .words
            .iter()
            .filter(|w| w.layout.hop_writable && w.access.reads());
        let words = words.map(|w| ("header word", w.name()));
        let notes = d.notes.iter().filter(|n| n.access.reads());
        let notes = notes.map(|n| ("annotation", n.name));
        for (kind, what) in words.chain(notes).filter(|(_, what)| !have.contains(what)) {
            let what = format!(
                "{} reads the {kind} \"{what}\", which nodes write, and nothing in this composition \
                 does: bring a handler or a lane that does, [handlers.{name}] chain = [..] or \
                 [lane.{name}]",
                d.name
            );
            problems.push(Problem {
                key: format!("{name}.{}", d.role.key()),
                what,
            });
        }
    }
    problems
}

/// Names of the annotations that are written, of these.
fn noted<'a>(notes: impl Iterator<Item = &'a [NoteSpec]>) -> impl Iterator<Item = &'static str> {
    let notes = notes.flatten().filter(|n| n.access.writes());
    notes.map(|n| n.name)
}

/// A part or a handler writes each annotation that handlers read.
pub(crate) fn notes<'a>(
    name: &str,
    parts: impl Iterator<Item = &'a &'static Descriptor>,
    handlers: &[Face],
) -> Vec<Problem> {
    let all = parts
        .map(|d| d.notes)
        .chain(handlers.iter().map(|f| f.notes));
    let have: Vec<&str> = noted(all).collect();
    let read = handlers
        .iter()
        .flat_map(|f| f.notes.iter().map(|n| (f.name, n)));
    let lost = read.filter(|(_, n)| n.access.reads() && !have.contains(&n.name));
    let problem = |(handler, note): (&str, &NoteSpec)| Problem {
        key: format!("handlers.{name}"),
        what: format!(
            "{handler} reads the annotation \"{}\", and no part or handler of this composition \
             writes it",
            note.name
        ),
    };
    lost.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::{Access, WordUse};
    use crate::fact::Fact;
    use crate::permit::Kind;

    const fn part(
        name: &'static str,
        hears: &'static [(&'static str, &'static [&'static str])],
    ) -> Descriptor {
        Descriptor {
            name,
            hears,
            ..Descriptor::EMPTY
        }
    }

    /// The largest cascade of these parts, and what is wrong with them.
    fn checked(parts: Parts<'_>) -> (usize, Vec<String>) {
        let c = Composition {
            name: String::from("mine"),
            ..Composition::default()
        };
        let mut problems = Vec::new();
        let largest = signals(&c, parts, &Registry::new(&[&SPEAKER]), &mut problems);
        (largest, problems.into_iter().map(|p| p.what).collect())
    }

    static SPEAKER: Descriptor = part("speaker", &[("segment", &["acked", "whistle"])]);
    static HEARER: Descriptor = part("hearer", &[("whistle", &["lost"]), ("?hum", &[])]);

    #[test]
    fn an_event_is_followed_by_all_that_all_parts_make_of_it() {
        static ECHO: Descriptor = part("echo", &[("?whistle", &["congested"]), ("acked", &[])]);
        let parts: Parts<'_> = &[&SPEAKER, &HEARER, &ECHO];
        let edges = edges(parts);
        let follow = |name: &str| {
            let found = edges.iter().filter(|(n, _)| *n == name);
            found.map(|(_, f)| f.clone()).collect::<Vec<_>>()
        };
        assert_eq!(follow("segment"), [["acked", "whistle"]]);
        // Whoever hears it adds his, whether he needs it or would only like to hear it.
        assert_eq!(follow("whistle"), [["lost", "congested"]]);
        assert_eq!(follow("acked"), [[""; 0]]);
        // Each name once: sources, signals of the engine, and those of the parts.
        assert_eq!(follow("hum").len(), 1);
        assert_eq!(edges.len(), SOURCES.len() + Signal::NAMES.len() + 2);
        // segment, acked, whistle, lost, congested.
        assert_eq!(checked(parts), (5, vec![]));
    }

    #[test]
    fn a_cascade_counts_each_way_by_which_a_signal_comes() {
        static TWICE: Descriptor = part(
            "twice",
            &[("timer", &["lost", "lost"]), ("lost", &["congested"])],
        );
        assert_eq!(checked(&[&TWICE]), (5, vec![]));
        static MANY: Descriptor = part("many", &[("overheard", &["lost"; 32])]);
        let (largest, problems) = checked(&[&MANY]);
        assert_eq!(largest, 33);
        assert_eq!(problems, ["one event can cause 33 signals; at most 32"]);
        static MOST: Descriptor = part("most", &[("fill", &["lost"; 31])]);
        assert_eq!(checked(&[&MOST]), (32, vec![]));
    }

    #[test]
    fn signals_that_cause_themselves_are_refused_with_the_way() {
        static BACK: Descriptor = part("back", &[("lost", &["whistle"])]);
        let (_, problems) = checked(&[&SPEAKER, &HEARER, &BACK]);
        assert_eq!(
            problems,
            ["signals go in a circle: whistle -> lost -> whistle"]
        );
        // Nothing begins it: it never happens.
        assert_eq!(checked(&[&HEARER, &BACK]), (1, vec![]));
        static SELF: Descriptor = part("self", &[("wrote", &["wrote"])]);
        let (_, problems) = checked(&[&SELF]);
        assert_eq!(problems, ["signals go in a circle: wrote -> wrote"]);
    }

    #[test]
    fn of_a_slip_in_what_is_heard_the_nearest_signal_is_named() {
        static SLIP: Descriptor = part("slip", &[("arived", &[])]);
        let (_, problems) = checked(&[&SLIP]);
        assert!(
            problems[0].contains("did you mean `arrived`"),
            "{problems:?}"
        );
    }

    #[test]
    fn what_nobody_says_is_not_heard() {
        let (_, problems) = checked(&[&HEARER]);
        assert_eq!(
            problems,
            [
                "hearer hears \"whistle\", which nothing in this composition emits. Emitters: speaker"
            ]
        );
        static DEAF: Descriptor = part("deaf", &[("drum", &[]), ("wrote", &[]), ("fill", &[])]);
        let (_, problems) = checked(&[&DEAF]);
        assert_eq!(
            problems,
            [
                "deaf hears \"drum\", which nothing in this composition emits. Emitters: none in the registry"
            ]
        );
    }

    /// A composition over `wire`.
    fn mine(wire: &str) -> Composition {
        Composition {
            name: String::from("mine"),
            wire: String::from(wire),
            ..Composition::default()
        }
    }

    fn told(problems: Vec<Problem>) -> Vec<String> {
        let line = |p: Problem| format!("{}: {}", p.key, p.what);
        problems.into_iter().map(line).collect()
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn named_signals_are_numbered_once_in_the_order_in_which_they_appear() {
        static ECHO: Descriptor = part("echo", &[("?hum", &["whistle", "rattle"])]);
        let names = [
            ("whistle", ExtId(0)),
            ("hum", ExtId(1)),
            ("rattle", ExtId(2)),
        ];
        assert_eq!(intern(&[&SPEAKER, &HEARER, &ECHO]), names);
    }

    #[test]
    fn a_role_of_one_is_filled_by_one_and_something_is_offered() {
        const fn of(name: &'static str, role: Role) -> Descriptor {
            Descriptor {
                name,
                role,
                ..Descriptor::EMPTY
            }
        }
        static OFFERS: Descriptor = Descriptor {
            offers: &[Kind::New],
            ..of("offers", Role::Judge)
        };
        static SILENT: Descriptor = of("silent", Role::Judge);
        static GATES: [Descriptor; 2] = [of("low", Role::Gate), of("high", Role::Gate)];
        let wrong = |parts: Parts<'_>| {
            let mut problems = Vec::new();
            roles(&mine("tcp"), parts, &mut problems);
            told(problems)
        };
        assert_eq!(
            wrong(&[&OFFERS, &SILENT]),
            ["mine.judge: only one part may fill it, here: offers, silent"]
        );
        // Of gates there may be more.
        assert_eq!(wrong(&[&OFFERS, &GATES[0], &GATES[1]]), NOTHING);
        let silent = ["mine: no part offers anything to send"];
        assert_eq!(wrong(&[&SILENT, &GATES[0]]), silent);
    }

    #[test]
    fn a_section_that_is_read_has_one_writer() {
        static WRITER: Descriptor = Descriptor {
            name: "writer",
            writes: Facts::WIN,
            ..Descriptor::EMPTY
        };
        static OTHER: Descriptor = Descriptor {
            name: "other",
            writes: Facts::WIN.with(Facts::RTT),
            ..Descriptor::EMPTY
        };
        static READER: Descriptor = Descriptor {
            name: "reader",
            role: Role::Congestion,
            reads: Facts::WIN.with(Facts::PATH),
            ..Descriptor::EMPTY
        };
        static MAPPER: Descriptor = Descriptor {
            name: "mapper",
            writes: Facts::PATH,
            ..Descriptor::EMPTY
        };
        let wrong = |parts: Parts<'_>| {
            let mut problems = Vec::new();
            let registry = Registry::new(&[&WRITER, &OTHER]);
            facts(&mine("tcp"), parts, &registry, &mut problems);
            told(problems)
        };
        assert_eq!(wrong(&[&READER, &WRITER, &MAPPER]), NOTHING);
        assert_eq!(
            wrong(&[&READER]),
            [
                "mine.congestion: reader reads win, which nothing in this composition writes. \
                 Writers: writer, other",
                "mine.congestion: reader reads path, which nothing in this composition writes. \
                 Writers: none in the registry"
            ]
        );
        assert_eq!(
            wrong(&[&WRITER, &OTHER]),
            ["mine: win would have several writers: writer, other"]
        );
    }

    #[test]
    fn what_belongs_together_is_named_with_what_is_there_instead() {
        static PICKY: Descriptor = Descriptor {
            name: "picky",
            role: Role::Reliable,
            needs: &[("judge", &["strict", "mild"])],
            needs_with: &[("mode", "fast", "wire", &["atp"])],
            ..Descriptor::EMPTY
        };
        static COUNTS: Descriptor = Descriptor {
            name: "counts",
            needs: &[("unit", &["packets"]), ("store", &["records"])],
            ..Descriptor::EMPTY
        };
        static JUDGES: [Descriptor; 2] = [
            Descriptor {
                name: "mild",
                role: Role::Judge,
                ..Descriptor::EMPTY
            },
            Descriptor {
                name: "lax",
                role: Role::Judge,
                ..Descriptor::EMPTY
            },
        ];
        let wrong = |parts: Parts<'_>, values: &[(&'static str, &'static str)], store| {
            let own: Vec<_> = values.iter().map(|(n, v)| (*n, Value::Text(v))).collect();
            let values = vec![own; parts.len()];
            let mut problems = Vec::new();
            needs(&mine("tcp"), parts, &values, store, &mut problems);
            told(problems)
        };
        let octets = StoreKind::Octets;
        assert_eq!(wrong(&[&PICKY, &JUDGES[0]], &[], octets), NOTHING);
        assert_eq!(
            wrong(&[&PICKY], &[], octets),
            ["mine.reliable: picky needs judge = strict or mild, but here it is missing"]
        );
        assert_eq!(
            wrong(&[&PICKY, &JUDGES[1]], &[], octets),
            ["mine.reliable: picky needs judge = strict or mild, but here it is lax"]
        );
        // With one value of one parameter it needs more; not with that of another, or another.
        let values = [("mode", "slow"), ("other", "fast")];
        assert_eq!(wrong(&[&PICKY, &JUDGES[0]], &values, octets), NOTHING);
        assert_eq!(
            wrong(&[&PICKY, &JUDGES[0]], &[("mode", "fast")], octets),
            ["mine.reliable: picky with fast needs wire = atp, but here it is tcp"]
        );
        assert_eq!(wrong(&[&COUNTS], &[], StoreKind::Records), NOTHING);
        assert_eq!(
            wrong(&[&COUNTS], &[], octets),
            [
                "mine.watch: counts needs unit = packets, but here it is octets",
                "mine.watch: counts needs store = records, but here it is octets"
            ]
        );
    }

    #[test]
    fn a_part_requires_what_parts_are_told() {
        static PART: Descriptor = Descriptor {
            name: "curious",
            requires: &[Fact::Rssi, Fact::LinkBusy],
            ..Descriptor::EMPTY
        };
        let mut problems = Vec::new();
        readable(&mine("tcp"), &[&PART], &mut problems);
        assert_eq!(
            told(problems),
            [
                "mine.watch: curious requires link.busy (how busy the medium is), which handlers \
                 are told and parts are not"
            ]
        );
    }

    const fn note(name: &'static str, access: Access) -> NoteSpec {
        NoteSpec {
            name,
            access,
            unit: "",
            doc: "",
        }
    }

    static WRITES_MARK: [NoteSpec; 1] = [note("mark", Access::Write)];
    static READS_MARK: [NoteSpec; 1] = [note("mark", Access::Read)];

    /// Of an end: reads a word and an annotation that nodes write, and has two more words that are
    /// no matter of theirs.
    static END: Descriptor = Descriptor {
        name: "end",
        words: &[
            WordSpec::new("load", 8).by_hops().read(),
            WordSpec::new("asks", 8).by_hops().written(),
            WordSpec::new("own", 8),
        ],
        notes: &READS_MARK,
        ..Descriptor::EMPTY
    };

    const UNREAD: &str = "which nodes write, and nothing in this composition does: bring a handler \
                          or a lane that does, [handlers.mine] chain = [..] or [lane.mine]";

    #[test]
    fn what_an_end_reads_of_nodes_is_written_by_a_handler_or_in_the_lane() {
        let lacks = |lane: Parts<'_>, handlers: &[Face]| {
            let told = told(hops("mine", &[&END], lane, handlers));
            let what = told.iter().map(|line| {
                let start = line.strip_prefix("mine.watch: end reads the ");
                let what = start.and_then(|l| l.strip_suffix(UNREAD));
                what.expect("it is of this form")
                    .trim_end_matches(", ")
                    .to_owned()
            });
            what.collect::<Vec<_>>()
        };
        let (word, mark) = ("header word \"load\"", "annotation \"mark\"");
        assert_eq!(lacks(&[], &[]), [word, mark]);
        let face = |words, notes: &'static [NoteSpec]| Face {
            words,
            notes,
            ..Face::default()
        };
        let writes = face(vec![WordUse::written("load")], &WRITES_MARK);
        let reads = face(vec![WordUse::read("load")], &READS_MARK);
        assert_eq!(lacks(&[], &[reads, writes.clone()]), NOTHING);
        assert_eq!(lacks(&[], &[face(vec![], &WRITES_MARK)]), [word]);
        // In the lane, who writes the word must be one that may.
        static WRITES: Descriptor = Descriptor {
            words: &[WordSpec::new("load", 8).by_hops().written()],
            notes: &WRITES_MARK,
            ..Descriptor::EMPTY
        };
        static READS: Descriptor = Descriptor {
            words: END.words,
            notes: &READS_MARK,
            ..Descriptor::EMPTY
        };
        static OF_ENDS: Descriptor = Descriptor {
            words: &[WordSpec::new("load", 8)],
            ..Descriptor::EMPTY
        };
        assert_eq!(lacks(&[&WRITES], &[]), NOTHING);
        assert_eq!(lacks(&[&READS, &OF_ENDS], &[]), [word, mark]);
        assert_eq!(lacks(&[&READS], &[writes]), NOTHING);
    }

    #[test]
    fn the_runner_of_a_lane_writes_who_transmits_and_how_many_nodes_there_were() {
        static TWO: [Descriptor; 2] = [
            Descriptor {
                words: &[WordSpec::transmitter("from")],
                ..Descriptor::EMPTY
            },
            Descriptor {
                words: &[WordSpec::new("hops", 8).counting_hops().read()],
                ..Descriptor::EMPTY
            },
        ];
        static PLAIN: [Descriptor; 2] = [
            Descriptor {
                words: &[WordSpec::new("from", 32).by_hops().read()],
                ..Descriptor::EMPTY
            },
            Descriptor {
                words: &[WordSpec::new("hops", 8).by_hops().read()],
                ..Descriptor::EMPTY
            },
        ];
        static LANE: Descriptor = Descriptor::EMPTY;
        for (declared, plain) in TWO.iter().zip(&PLAIN) {
            let lacks = |end, lane: Parts<'_>| hops("mine", &[end], lane, &[]).len();
            // Whether an end declares it so, or a part of the lane; without a lane nobody does it.
            assert_eq!((lacks(declared, &[]), lacks(declared, &[&LANE])), (1, 0));
            assert_eq!((lacks(plain, &[&LANE]), lacks(plain, &[declared])), (1, 0));
        }
    }

    #[test]
    fn what_a_handler_reads_in_annotations_is_written_by_a_part_or_a_handler() {
        static PART: Descriptor = Descriptor {
            notes: &WRITES_MARK,
            ..Descriptor::EMPTY
        };
        let face = |name, notes: &'static [NoteSpec]| Face {
            name,
            notes,
            ..Face::default()
        };
        let reads = face("reads", &READS_MARK);
        let lacks =
            |parts: Parts<'_>, handlers: &[Face]| told(notes("mine", parts.iter(), handlers));
        assert_eq!(
            lacks(&[&END], std::slice::from_ref(&reads)),
            [
                "handlers.mine: reads reads the annotation \"mark\", and no part or handler of \
                 this composition writes it"
            ]
        );
        assert_eq!(lacks(&[&PART], std::slice::from_ref(&reads)), NOTHING);
        assert_eq!(lacks(&[], &[reads, face("writes", &WRITES_MARK)]), NOTHING);
        assert_eq!(lacks(&[], &[face("writes", &WRITES_MARK)]), NOTHING);
    }
}
