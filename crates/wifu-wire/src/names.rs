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
}
