//! Facts that parts and handlers may require, and who tells them.

use serde_json::{Value as Json, json};
use wifu_engine::Fact;
use wifu_node::{Protocol, Teller};

fn tellers(fact: Fact) -> impl Iterator<Item = &'static str> {
    let all = Teller::ALL.into_iter();
    all.filter(move |t| t.tells().contains(&fact) && (t.tells_parts() || fact.for_handlers()))
        .map(Teller::place)
}

/// Who can read it.
fn readers(fact: Fact) -> &'static [&'static str] {
    match (fact.for_parts(), fact.for_handlers()) {
        (true, false) => &["parts"],
        (false, _) => &["handlers"],
        (true, true) => &["parts", "handlers"],
    }
}

/// For machines.
pub fn json(fact: Fact) -> Json {
    json!({"name": fact.name(), "doc": fact.doc(), "readers": readers(fact),
        "told": tellers(fact).map(bare).collect::<Vec<_>>()})
}

/// Code is marked for people only.
fn bare(place: &str) -> String {
    place.replace('`', "")
}

/// A line for people.
pub fn line(fact: Fact) -> String {
    let told: Vec<String> = tellers(fact).map(bare).collect();
    let told = match told.as_slice() {
        [] => String::from("nowhere so far"),
        told => told.join(", "),
    };
    format!("  {:<18} {}: {told}", fact.name(), fact.doc())
}

/// The facts that a protocol requires, each with its parts and handlers.
fn required(p: &Protocol) -> Vec<(Fact, Vec<&str>)> {
    let lane = p.ends.lane.iter().flat_map(|l| l.required());
    let parts = p.ends.required().chain(lane);
    let parts = parts.map(|(d, fact, _)| (fact, d.name));
    let handlers = p.requires.iter().map(|(who, f)| (*f, who.as_str()));
    let all: Vec<(Fact, &str)> = parts.chain(handlers).collect();
    let of = |fact| {
        let who = all.iter().filter(|(f, _)| *f == fact);
        (fact, who.map(|(_, who)| *who).collect::<Vec<_>>())
    };
    let each = Fact::ALL.into_iter().map(of);
    each.filter(|(_, who)| !who.is_empty()).collect()
}

/// What a protocol requires, for machines: by fact the parts and handlers.
pub fn required_json(p: &Protocol) -> Json {
    let all = required(p).into_iter();
    all.map(|(fact, who)| (fact.name().to_string(), json!(who)))
        .collect::<serde_json::Map<String, Json>>()
        .into()
}

/// The same for people; empty if it requires nothing.
pub fn required_text(p: &Protocol) -> String {
    let all = required(p).into_iter();
    let line = |(fact, who): (Fact, Vec<&str>)| format!("  Requires {fact}: {}.\n", who.join(", "));
    all.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// The table of the book.
    fn table() -> String {
        let mut t = String::from("| fact | what | read by |");
        for teller in Teller::ALL {
            let _ = write!(t, " {} |", teller.place());
        }
        let _ = write!(t, "\n|---|---|---|{}\n", "---|".repeat(Teller::ALL.len()));
        for fact in Fact::ALL {
            let by = readers(fact).join(", ");
            let _ = write!(t, "| `{}` | {} | {by} |", fact.name(), fact.doc());
            for teller in Teller::ALL {
                let told = teller.tells().contains(&fact);
                t += if told { " yes |" } else { " |" };
            }
            t.push('\n');
        }
        t
    }

    #[test]
    fn the_book_has_the_table_that_set_up_goes_by() {
        let book = include_str!("../../../../docs/src/adding-a-part.md");
        let table = table();
        assert!(book.contains(&table), "docs/src/adding-a-part.md:\n{table}");
    }

    #[test]
    fn a_fact_is_listed_with_who_tells_it() {
        let said = "  frame.rssi_dbm     received signal strength: wifu sim with radios, wifu daemon \
                    --monitor, wifu daemon --serve on Wi-Fi, wifu core --monitor";
        assert_eq!(line(Fact::Rssi), said);
        let power = "transmit power: wifu daemon --serve on Wi-Fi";
        assert!(line(Fact::TxPower).ends_with(power));
        assert_eq!(json(Fact::Sense)["told"], json!(["wifu sim with radios"]));
    }
}
