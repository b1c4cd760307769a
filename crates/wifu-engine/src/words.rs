//! Header words in a composition: those that its parts declare, beside what the format has.

use crate::composition::{Composition, ConfigError, Problem};
use crate::descriptor::{Descriptor, FieldUse, Value};
use crate::face::Face;
use wifu_wire::format::Field;
use wifu_wire::names;
use wifu_wire::shim::ShimWord;
use wifu_wire::{HeadField, Place, Wire};

/// The words of these parts, each once.
pub(crate) fn shim_words(
    parts: impl Iterator<Item = &'static Descriptor>,
) -> Result<Vec<ShimWord>, String> {
    let mut words: Vec<(&str, ShimWord)> = Vec::new();
    for (part, new) in parts.flat_map(|d| d.words.iter().map(|w| (d.name, w.layout))) {
        match words.iter().find(|(_, have)| have.name == new.name) {
            None => words.push((part, new)),
            Some((_, have)) if *have == new => {}
            Some((first, have)) => {
                return Err(format!(
                    "{first} and {part} declare the header word \"{}\" differently: {} and {}; \
                     what is one word for both must be declared alike",
                    new.name,
                    have.describe(),
                    new.describe()
                ));
            }
        }
    }
    Ok(words.into_iter().map(|(_, w)| w).collect())
}

/// The word by which the end notices a node that does not serve the lane, unless a part declares
/// one: each node that does adds one to it.
const HOPS: ShimWord = ShimWord {
    counts_hops: true,
    ..ShimWord::new("hops", 8).by_hops()
};

/// These words, with [`HOPS`] if there is a lane and none of them counts the nodes.
pub(crate) fn with_count(mut words: Vec<ShimWord>, lane: bool) -> Result<Vec<ShimWord>, String> {
    if !lane || words.iter().any(|w| w.counts_hops) {
        return Ok(words);
    }
    if let Some(other) = words.iter().find(|w| w.name == HOPS.name) {
        return Err(format!(
            "a composition with a lane has the header word \"{}\", in which each node counts \
             itself; declare it so (`counting_hops`), or call the one of {} otherwise",
            HOPS.name,
            other.describe()
        ));
    }
    words.push(HOPS);
    Ok(words)
}

/// The word in which the runner of a lane of this composition counts each node; `None` if a part of
/// the lane or a handler does.
pub(crate) fn counted(
    name: &str,
    wire: &dyn Wire,
    lane: impl Iterator<Item = Face>,
    handlers: &[Face],
) -> Result<Option<Place>, ConfigError> {
    let format = wire.format();
    let Some(word) = format.own().find(|w| w.counts_nodes()) else {
        let what = format!(
            "wire = \"{}\" has no word that counts the nodes (`Field::HopCount`), so nobody would \
             notice a node that does not serve [lane.{}]; give the format one, or write wire = \
             \"shim\", which has one where there is a lane",
            format.name, name
        );
        return Err(ConfigError::one(format!("{name}.wire"), what));
    };
    let mut uses = lane.chain(handlers.iter().cloned()).flat_map(|f| f.words);
    let others = uses.any(|w| w.name == word.name && w.access.writes());
    Ok(wire.hop_count().filter(|_| !others))
}

pub(crate) fn no_word(c: &Composition, desc: &Descriptor, word: &str, wire: &dyn Wire) -> Problem {
    let near = names::ending(word, wire.format().own().map(|w| w.name));
    let what = format!(
        "{} uses the header word \"{word}\", which wire = \"{}\" does not have{near} Any word is \
         laid out by wire = \"shim\"",
        desc.name,
        wire.name()
    );
    Problem {
        key: format!("{}.wire", c.name),
        what,
    }
}

/// Whether its parameters leave a part the use of a field.
fn in_use(field: &FieldUse, values: &[(&'static str, Value)]) -> bool {
    let is = |(param, value): (&str, &str)| {
        let mut values = values.iter();
        values.any(|(n, v)| *n == param && v.to_string() == value)
    };
    !field.unless.is_some_and(is)
}

/// Whether a part with these parameters fills in a field or relies on it.
pub(crate) fn uses(desc: &Descriptor, values: &[(&'static str, Value)], field: HeadField) -> bool {
    let mut fields = desc.fields.iter();
    fields.any(|f| f.field == field && in_use(f, values))
}

/// What a part fills in or relies on and the format does not carry.
pub(crate) fn not_carried(
    c: &Composition,
    desc: &Descriptor,
    values: &[(&'static str, Value)],
    wire: &dyn Wire,
) -> Option<Problem> {
    let used = |f: &&FieldUse| !f.optional && in_use(f, values);
    let lacking = desc.fields.iter().filter(used);
    let lacking: Vec<_> = lacking.filter(|f| !f.field.carried_by(wire)).collect();
    let names: Vec<_> = lacking.iter().map(|f| f.field.name()).collect();
    let mut without: Vec<_> = lacking.iter().filter_map(|f| f.unless).collect();
    without.dedup();
    let without: Vec<_> = without.iter().map(|(p, v)| format!("{p} = {v}")).collect();
    let all = lacking.iter().all(|f| f.unless.is_some());
    let hint = if all && !without.is_empty() {
        format!("{} does without; ", without.join(", "))
    } else {
        String::new()
    };
    (!names.is_empty()).then(|| Problem {
        key: format!("{}.wire", c.name),
        what: format!(
            "{} needs what wire = \"{}\" does not carry: {}; {hint}wire = \"shim\" carries all",
            desc.name,
            wire.name(),
            names.join(", "),
        ),
    })
}

/// A word that a part declares otherwise than the format does.
pub(crate) fn unlike(
    c: &Composition,
    desc: &Descriptor,
    own: &ShimWord,
    wire: &dyn Wire,
) -> Option<Problem> {
    let format = wire.format();
    let word = format.own().find(|w| w.name == own.name)?;
    let told = |class| {
        let mut types = format.types.iter();
        types.any(|t| t.class == class && t.when == Some((own.name, 1)))
    };
    let what = if own.bits != word.bits {
        format!("has {} bits to it and {}", own.bits, word.bits)
    } else if own.names_transmitter && word.field != Field::Transmitter {
        String::from(
            "names the transmitter to it, and is none that lanes write (`Field::Transmitter`)",
        )
    } else if own.counts_hops && !word.counts_nodes() {
        String::from("counts the nodes to it, and does not (`Field::HopCount`)")
    } else if let Some(class) = own.marks.filter(|class| !told(*class)) {
        format!(
            "marks packets of class {} to it, and tells no such type",
            class.name()
        )
    } else {
        return None;
    };
    Some(Problem {
        key: format!("{}.wire", c.name),
        what: format!(
            "{} declares the header word \"{}\" differently: it {what} in wire = \"{}\"",
            desc.name,
            own.name,
            wire.name()
        ),
    })
}

/// A manager that tells connections apart by an identifier, over a format that carries none.
pub(crate) fn no_identifier(
    c: &Composition,
    descs: &[&Descriptor],
    wire: &dyn Wire,
) -> Option<Problem> {
    let draws = |d: &&&Descriptor| d.admission.is_some_and(|a| a.draws_identifier());
    let manager = descs.iter().find(draws)?;
    let carried = wire.format().words.iter().any(|w| w.field == Field::ConnId);
    let what = format!(
        "{} tells connections apart by an identifier, which wire = \"{}\" does not carry",
        manager.name,
        wire.name()
    );
    (!carried).then(|| Problem {
        key: format!("{}.wire", c.name),
        what,
    })
}

/// Whether the format has the word and lets no node on the way write it.
pub(crate) fn ends_only(wire: &dyn Wire, word: &str) -> bool {
    let decl = wire.format().own().find(|d| d.name == word);
    decl.is_some_and(|d| !d.hop_writable())
}

pub(crate) fn no_hops(c: &Composition, desc: &Descriptor, word: &str, wire: &dyn Wire) -> Problem {
    let what = format!(
        "{} has nodes write the header word \"{word}\", which wire = \"{}\" lets ends alone write",
        desc.name,
        wire.name()
    );
    Problem {
        key: format!("{}.wire", c.name),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::WordSpec;

    const fn part(name: &'static str, words: &'static [WordSpec]) -> Descriptor {
        Descriptor {
            name,
            words,
            ..Descriptor::EMPTY
        }
    }

    #[test]
    fn parts_that_declare_one_word_differently_are_named_with_what_they_say() {
        const DELAY: WordSpec = WordSpec::new("delay", 32).by_hops();
        static WRITER: Descriptor = part("writer", &[DELAY]);
        static READER: Descriptor = part("reader", &[WordSpec::new("epoch", 8), DELAY.read()]);
        static NARROW: Descriptor = part("narrow", &[WordSpec::new("delay", 16).by_hops()]);
        static ENDS: Descriptor = part("ends", &[WordSpec::new("delay", 32)]);
        let words = |parts: &[&'static Descriptor]| shim_words(parts.iter().copied());
        let names: Vec<&str> = words(&[&WRITER, &READER])
            .unwrap()
            .iter()
            .map(|w| w.name)
            .collect();
        assert_eq!(names, ["delay", "epoch"]);
        let said = words(&[&WRITER, &NARROW]).unwrap_err();
        assert!(
            said.starts_with(
                "writer and narrow declare the header word \"delay\" differently: 32 bits by hops \
                 and 16 bits by hops;"
            ),
            "{said}"
        );
        assert!(
            words(&[&ENDS, &READER])
                .unwrap_err()
                .contains("ends and reader")
        );
    }
}
