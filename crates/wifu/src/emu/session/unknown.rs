//! What is said of words at the prompt that nobody is called by.

/// That no host has this name, and which there are.
pub(super) fn no_host<'a>(name: &str, mut all: impl Iterator<Item = &'a str>) -> String {
    let first = all.next().unwrap_or_default();
    match all.last() {
        Some(last) => format!("there is no host {name}; hosts are {first} to {last}"),
        None => format!("there is no host {name}; the only one is {first}"),
    }
}

/// What is said of a first word that is a key of the radio, or called as hosts are.
pub(super) fn elsewhere<'a>(word: &str, hosts: impl Iterator<Item = &'a str>) -> Option<String> {
    if word
        .split('=')
        .next()
        .is_some_and(|key| key != word && key.contains('.'))
    {
        return Some(format!(
            "such keys are given when the emulation is started: `wifu emu ... {word}`"
        ));
    }
    let letters = |name: &str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (stem.len() < name.len()).then(|| stem.to_owned())
    };
    let all: Vec<&str> = hosts.collect();
    let stem = letters(word).filter(|stem| !stem.is_empty())?;
    let like = all.iter().any(|host| letters(host).as_ref() == Some(&stem));
    like.then(|| no_host(word, all.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_no_command_was_meant_by_is_told_what_it_is() {
        let said = |word| elsewhere(word, ["n1", "n2", "ap"].into_iter());
        let host = Some("there is no host n5; hosts are n1 to ap".into());
        assert_eq!(said("n5"), host);
        let key = said("radio.attempts=5").expect("a key");
        assert!(key.ends_with("`wifu emu ... radio.attempts=5`"), "{key}");
        for word in ["nte", "m5", "5", "x=1.5", "ap1"] {
            assert_eq!(said(word), None, "{word}");
        }
    }
}
