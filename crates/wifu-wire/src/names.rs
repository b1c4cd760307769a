//! Things that are asked for by name, each name once; and which name was meant by one that is
//! unknown.

use core::ops::Deref;

/// What is asked for by its name.
pub trait Named {
    /// What messages call one of its kind.
    const KIND: &'static str;
    /// What configurations call it, unique among its kind.
    fn name(&self) -> &'static str;
}

impl<T: Named> Named for &T {
    const KIND: &'static str = T::KIND;
    fn name(&self) -> &'static str {
        (*self).name()
    }
}

/// Things of one kind, each with a name of its own, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Shelf<T> {
    all: Vec<T>,
    reserved: &'static [&'static str],
}

impl<T: Named + Copy> Shelf<T> {
    /// An empty one. Of the `reserved` names messages say that they are there, and nothing that is
    /// added may have one.
    pub const fn new(reserved: &'static [&'static str]) -> Shelf<T> {
        Shelf {
            all: Vec::new(),
            reserved,
        }
    }

    /// Add more.
    ///
    /// # Panics
    /// If one has a name that is taken: of two, only the first would ever be found.
    pub fn add(&mut self, more: &[T]) {
        if let Some(name) = taken(self.names(), more) {
            let kind = T::KIND;
            panic!("two {kind}s are called {name}: give yours a name of its own");
        }
        self.all.extend_from_slice(more);
    }

    /// The one of that name.
    pub fn find(&self, name: &str) -> Option<T> {
        self.all.iter().copied().find(|one| one.name() == name)
    }

    /// The same, where the name was written by somebody.
    ///
    /// # Errors
    /// There is none; the nearest name, and all.
    pub fn get(&self, name: &str) -> Result<T, String> {
        let found = self.find(name);
        found.ok_or_else(|| unknown(T::KIND, name, self.names()))
    }

    /// All names, then the reserved ones.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let own = self.all.iter().map(T::name);
        own.chain(self.reserved.iter().copied())
    }
}

impl<T> Deref for Shelf<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.all
    }
}

/// The first name of `more` that is known already, or comes twice.
pub fn taken<'a, T: Named>(
    known: impl IntoIterator<Item = &'a str>,
    more: &[T],
) -> Option<&'static str> {
    let mut known: Vec<&str> = known.into_iter().collect();
    more.iter().map(T::name).find(|name| {
        let taken = known.contains(name);
        known.push(name);
        taken
    })
}

/// So few letters before a number say nothing: `n9` is not `n1`.
const SHORT: usize = 2;

/// Names of so few letters are other names if the first letter differs, and another.
const FEW: usize = 4;

/// Letters at the beginning that tell for a name. Few who mistype a word begin it wrongly.
const BEGINNING: usize = 3;

/// The name nearest to `name` by edit distance (a swap of neighbours counts once, upper and lower
/// case are the same), if it is near enough to be what was meant and has a letter in common. What
/// both begin with up to a hyphen or dot says nothing about the rest, and who leaves words before
/// it out is so many steps away: `reno` is `tcp-reno`. Two letters of a common beginning make up
/// for one that differs: who writes `varies` means `vary` and not `series`. Short names that
/// differ in digits alone are those of different things, unless one number goes on where the other
/// ends. Of names of few letters, two that differ are too many if the first is one of them: `ftp`
/// is not `http`. The first of several.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let near = candidates.into_iter().filter_map(|c| {
        let other = c.to_lowercase();
        let both = lower.chars().zip(other.chars());
        let begins = both.take(BEGINNING).take_while(|(a, b)| a == b).count();
        let d = distance(&lower, &other)?;
        Some((2 * d + BEGINNING - begins, d, c))
    });
    near.min_by_key(|(score, d, _)| (*score, *d))
        .map(|(_, _, best)| best)
}

/// How far two names are from each other; `None` if it is too far for one to be meant by the other.
fn distance(name: &str, other: &str) -> Option<usize> {
    let head = other.strip_suffix(name).filter(|_| !name.is_empty());
    if let Some(head) = head.filter(|head| head.ends_with('-')) {
        return Some(head.matches('-').count());
    }
    let letters = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let digits = |text: &str| text.replace(|c: char| !c.is_ascii_digit(), "");
    let (ours, theirs) = (digits(name), digits(other));
    let longer = ours.starts_with(&theirs) || theirs.starts_with(&ours);
    if letters(name) == letters(other) && letters(name).len() <= SHORT && !longer {
        return None;
    }
    let both = name.bytes().zip(other.bytes());
    let same = both.take_while(|(a, b)| a == b).count();
    let family = name.as_bytes()[..same]
        .iter()
        .rposition(|c| matches!(c, b'-' | b'.'));
    let from = family.map_or(0, |at| at + 1);
    let d = strsim::damerau_levenshtein(&name[from..], &other[from..]);
    let longest = name.len().max(other.len());
    let most = match longest - from {
        ..=FEW if !name[from..].starts_with(|c| other[from..].starts_with(c)) => 1,
        letters => 1 + letters / 3,
    };
    (d <= most && d < longest).then_some(d)
}

/// The question whether the nearest name was meant: "did you mean `x`?". `None` if no name is
/// near enough.
pub fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(asked)
}

/// That question about a name which was found otherwise.
pub fn asked(near: &str) -> String {
    format!("did you mean `{near}`?")
}

/// What goes behind the words on an unknown name where a message ends: "; did you mean `x`?", or
/// nothing.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    meant(name, known).map_or(String::new(), |question| format!("; {question}"))
}

/// The same where another sentence follows: "; did you mean `x`?", or a full stop.
pub fn ending<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    meant(name, known).map_or(String::from("."), |question| format!("; {question}"))
}

/// That no `what` has this name, with the nearest of `known` and all of them.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    unknown_here(what, name, known, ("", []))
}

/// The same where those `below` are known by their names behind a prefix (`lane.`), which who means
/// one left out.
pub fn unknown_here<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    (prefix, below): (&str, impl IntoIterator<Item = &'a str>),
) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let below: Vec<&str> = below.into_iter().filter(|b| !known.contains(b)).collect();
    let whole = |near: &str| match known.contains(&near) {
        true => near.to_string(),
        false => format!("{prefix}{near}"),
    };
    let both: Vec<&str> = known.iter().chain(&below).copied().collect();
    let all: Vec<String> = both.iter().map(|one| whole(one)).collect();
    let all = match all.as_slice() {
        [] => String::from("none"),
        some => some.join(", "),
    };
    match nearest(name, both).map(|near| asked(&whole(near))) {
        Some(question) => format!("no {what} is called `{name}`; {question} There are {all}"),
        None => format!("no {what} is called `{name}`; there are {all}"),
    }
}

/// The path of a key as messages and overrides have it, where items of lists count from 1:
/// `flow.1.app` for the `flow[0].app` of programs that read files.
pub fn counted(path: &str) -> String {
    let mut parts = path.split('[');
    let mut out = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let index = part.split_once(']');
        match index.and_then(|(n, rest)| Some((n.parse::<usize>().ok()?.checked_add(1)?, rest))) {
            Some((n, rest)) => out += &format!(".{n}{rest}"),
            None => {
                out.push('[');
                out += part;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_lists_count_from_one() {
        assert_eq!(counted("flow[0].app"), "flow.1.app");
        assert_eq!(counted("mobility[1].rows[9]"), "mobility.2.rows.10");
        assert_eq!(counted("radio.rate"), "radio.rate");
        assert_eq!(counted("flow.1.app"), "flow.1.app", "once is enough");
        for other in ["a[b].c", "a[", "a[18446744073709551615]"] {
            assert_eq!(counted(other), other);
        }
    }

    #[test]
    fn the_nearest_name_is_what_was_meant() {
        let windows = ["reno", "newreno", "cubic"];
        assert_eq!(nearest("newrno", windows), Some("newreno"));
        assert_eq!(nearest("ucbic", windows), Some("cubic"));
        assert_eq!(nearest("NewReno", windows), Some("newreno"));
        assert_eq!(nearest("ftp", ["bulk", "file", "http"]), None);
        assert_eq!(nearest("htpt", ["bulk", "file", "http"]), Some("http"));
        assert_eq!(nearest("itme", ["size", "time"]), Some("time"));
        assert_eq!(nearest("bbr", ["handshake", "selective"]), None);
        assert_eq!(nearest("bbr", []), None);
        assert_eq!(nearest("4", ["1", "2"]), None);
    }

    #[test]
    fn how_a_name_begins_tells_more_than_how_it_ends() {
        let tables = ["seed", "series", "skip", "vary", "zip"];
        assert_eq!(nearest("varies", tables), Some("vary"));
        assert_eq!(nearest("serie", tables), Some("series"));
        let protocols = ["tcp-bbr", "tcp-newreno", "tcp-reno", "tcp-vegas"];
        assert_eq!(nearest("tcp reno", protocols), Some("tcp-reno"));
        assert_eq!(nearest("tcp_new_reno", protocols), Some("tcp-newreno"));
        assert_eq!(nearest("fq-codel", ["codel", "fq_codel"]), Some("fq_codel"));
    }

    #[test]
    fn what_a_family_has_in_common_makes_no_two_of_it_near() {
        let protocols = ["tcp-newreno", "tcp-reno", "tcp-tahoe", "tcp-cubic"];
        assert_eq!(nearest("tcp-nope", protocols), None);
        assert_eq!(nearest("tcp-cubicc", protocols), Some("tcp-cubic"));
        assert_eq!(nearest("reno", protocols), Some("tcp-reno"));
        let longer = ["tcp-linux-reno", "tcp-reno"];
        assert_eq!(nearest("reno", longer), Some("tcp-reno"));
        assert_eq!(nearest("Tahoe", protocols), Some("tcp-tahoe"));
        assert_eq!(nearest("TB-Z", ["PLAIN", "TB-A"]), Some("TB-A"));
        assert_eq!(
            nearest("radio.rat", ["radio.rate", "radio.cw"]),
            Some("radio.rate")
        );
    }

    #[test]
    fn another_number_is_another_thing() {
        let hosts = ["n1", "n2", "n10"];
        assert_eq!(nearest("n9", hosts), None);
        assert_eq!(nearest("m1", hosts), Some("n1"));
        assert_eq!(nearest("N1", hosts), Some("n1"));
        assert_eq!(nearest("AP-T33", ["AP-T3", "AP-T4"]), Some("AP-T3"));
        assert_eq!(
            nearest("tcp-ap12", ["tcp-ap05", "tcp-ap11"]),
            Some("tcp-ap11")
        );
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_and_all() {
        assert_eq!(
            unknown("handler", "dorp", ["drop", "delay"]),
            "no handler is called `dorp`; did you mean `drop`? There are drop, delay"
        );
        assert_eq!(
            unknown("key", "x", []),
            "no key is called `x`; there are none"
        );
        let said = |name| unknown_here("key", name, ["mss", "watch"], ("lane.", ["cache", "mss"]));
        let there = "mss, watch, lane.cache";
        for (name, question) in [
            ("cache", "did you mean `lane.cache`? There"),
            ("cach", "did you mean `lane.cache`? There"),
            ("mess", "did you mean `mss`? There"),
            ("x", "there"),
        ] {
            let wanted = format!("no key is called `{name}`; {question} are {there}");
            assert_eq!(said(name), wanted);
        }
    }

    #[test]
    fn the_hint_fits_where_it_goes() {
        let known = ["drop", "delay"];
        let question = "did you mean `drop`?";
        assert_eq!(meant("dorp", known).as_deref(), Some(question));
        assert_eq!(hint("dorp", known), format!("; {question}"));
        assert_eq!(ending("dorp", known), format!("; {question}"));
        assert_eq!(meant("tpa-shim", known), None);
        assert_eq!(hint("tpa-shim", known), "");
        assert_eq!(ending("tpa-shim", known), ".");
    }
}
