//! Which name was meant: for messages about names that are unknown.

/// The name nearest to `name` by edit distance (a swap of neighbours counts once, upper and lower
/// case are the same), if it is near enough to be what was meant; the first of several.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let scored = candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&lower, &c.to_lowercase()), c));
    let (d, best) = scored.min_by_key(|(d, _)| *d)?;
    (d <= 1 + name.len().max(best.len()) / 3).then_some(best)
}

/// That no `what` has this name, with the nearest of `known` and all of them.
pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = known.into_iter().collect();
    let near = nearest(name, all.iter().copied());
    let all = if all.is_empty() {
        String::from("none")
    } else {
        all.join(", ")
    };
    match near {
        Some(near) => {
            format!("no {what} is called `{name}`, did you mean `{near}`; there are {all}")
        }
        None => format!("no {what} is called `{name}`; there are {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_what_was_meant() {
        let windows = ["reno", "newreno", "cubic"];
        assert_eq!(nearest("newrno", windows), Some("newreno"));
        assert_eq!(nearest("ucbic", windows), Some("cubic"));
        assert_eq!(nearest("NewReno", windows), Some("newreno"));
        assert_eq!(nearest("bbr", ["handshake", "selective"]), None);
        assert_eq!(nearest("bbr", []), None);
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_and_all() {
        assert_eq!(
            unknown("handler", "dorp", ["drop", "delay"]),
            "no handler is called `dorp`, did you mean `drop`; there are drop, delay"
        );
        assert_eq!(
            unknown("key", "x", []),
            "no key is called `x`; there are none"
        );
    }
}
