//! The parts of WiFu Transport's protocols, one file each, and the named compositions.
//!
//! No file here imports another part: what several parts share is in `wifu_engine::kit`.
#![forbid(unsafe_code)]

use std::sync::{Arc, LazyLock};
use wifu_engine::{Blueprint, ConfigError, Descriptor, Library, Registry};

/// Declares the module of each part and lists its descriptor, so that adding a part is one line.
macro_rules! parts {
    ($($(#[$doc:meta])* $role:ident { $($file:ident::$descriptor:ident,)* })*) => {
        $($(#[$doc])* pub mod $role { $(pub mod $file;)* })*

        /// All parts of this crate.
        pub static PARTS: &[&Descriptor] = &[$($(&$role::$file::$descriptor,)*)*];
    };
}

include!("list.rs");

/// The registry of [`PARTS`]; other crates add theirs with [`Registry::with`].
pub fn registry() -> Registry {
    Registry::new(PARTS)
}

/// The compositions and profiles that come with WiFu, as text.
pub const PROTOCOLS: &str = concat!(
    include_str!("protocols/tcp.toml"),
    include_str!("protocols/atp.toml"),
    include_str!("protocols/tp-alpha.toml"),
    include_str!("protocols/hxh.toml"),
    include_str!("protocols/hop.toml")
);

/// The compositions and profiles that come with WiFu.
///
/// # Panics
/// Never in a build that passed its tests: the text is part of the program.
pub fn library() -> Library {
    Library::parse(PROTOCOLS).expect("the built-in compositions parse")
}

/// The checked blueprint of a specification such as `tcp-newreno,iw=4`.
///
/// # Errors
/// Unknown names and values out of range, with what would be right.
pub fn blueprint(spec: &str) -> Result<Arc<Blueprint>, ConfigError> {
    static LIBRARY: LazyLock<Library> = LazyLock::new(library);
    LIBRARY.resolve(spec, &registry())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let mine = Library::parse(text).unwrap();
        let found = library().merge(mine).resolve("mine", &registry());
        found.err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn going_back_needs_a_judge_that_never_excuses_a_loss() {
        let base = |name: &str, recovery: &str| {
            let judge = "judge = { use = \"backlog\" }";
            refusal(&format!(
                "[protocol.mine]\nextends = \"{name}\"\n{judge}\n{recovery}\n"
            ))
        };
        let needs = "cumulative with go-back-n needs judge = loss-is-congestion, but here it is \
                     backlog";
        let said = base("tcp-tahoe", "");
        assert!(said.contains(needs), "{said}");
        let said = base("tcp-newreno", "set = { recovery = \"go-back-n\" }");
        assert!(said.contains(needs), "{said}");
        assert_eq!(base("tcp-newreno", ""), "");
    }

    #[test]
    fn a_setting_that_nothing_takes_is_told_what_to_write() {
        let said = |setting: &str| {
            let spec = format!("tcp-sack,{setting}");
            blueprint(&spec).unwrap_err().to_string()
        };
        for (setting, needs) in [
            ("newreno.cwv=on", "set by its name alone: write `cwv=on`"),
            ("gates.iw=2", "set by its name alone: write `iw=2`"),
            (
                "newreno.cvw=on",
                "no parameter is called `cvw`; did you mean `cwv`?",
            ),
            (
                "profil=linux",
                "no parameter is called `profil`; did you mean `profile`?",
            ),
            ("nope=1", "watch, profile"),
            ("cwnd=4", "called `cwnd`; did you mean `iw`?"),
            ("congestion.cwnd=4", "called `cwnd`; did you mean `iw`?"),
            ("rcvbuf=9k", "called `rcvbuf`; did you mean `rcv_wnd`?"),
            ("send_buffer=9k", "did you mean `snd_buf`?"),
            ("min_rto=1s", "did you mean `rto_min`?"),
        ] {
            let said = said(setting);
            assert!(said.contains(needs), "{setting}: {said}");
        }
        // One that is not here is not named.
        let said = |name: &str| {
            let spec = format!("{name},delack=2");
            blueprint(&spec).unwrap_err().to_string()
        };
        assert!(said("tcp-sack").ends_with("did you mean `ack_every`?"));
        assert!(!said("tcp-delack").contains("`ack_every`"));
    }

    #[test]
    fn what_a_profile_sets_and_nothing_takes_is_named() {
        let unused = |spec: &str| blueprint(spec).unwrap().unused.clone();
        assert_eq!(unused("tcp-reno,profile=rfc-modern"), [""; 0]);
        assert_eq!(unused("tcp-tahoe,profile=rfc-modern"), ["hystart"]);
        let mine = |key: &str| {
            let (profile, base) = (format!("[profile.p]\n{key}\n"), "extends = \"tcp-newreno\"");
            let text = format!("{profile}[protocol.mine]\n{base}\nprofile = \"p\"\n");
            let library = library().merge(Library::parse(&text).unwrap());
            library.resolve("mine", &registry())
        };
        assert_eq!(
            mine("fast_convergence = true").unwrap().unused,
            ["fast_convergence"]
        );
        assert_eq!(
            mine("strech = 4").unwrap_err().to_string(),
            "profile.p.strech: neither a part nor the engine has this parameter; did you mean `stretch`?"
        );
        assert_eq!(
            mine("\"rtt.iw\" = 4").unwrap_err().to_string(),
            "profile.p.rtt.iw: neither a part nor the engine has this parameter; did you mean `iw`?"
        );
    }

    //= spec#16.2
    #[test]
    fn the_profile_of_tcp_aps_newreno_is_wifu_tahoes_but_for_what_it_names() {
        let values = |spec: &str| {
            let b = blueprint(spec).unwrap();
            let parts: Vec<_> = b.parts.iter().map(|p| p.values.clone()).collect();
            (parts, b.engine.clone())
        };
        assert_eq!(
            values("tcp-newreno,profile=tap-newreno"),
            values(
                "tcp-newreno,profile=wifu-tahoe,mss=1460,rcv_wnd=93440,iw=2,rto_min=1s,\
                 ack_every=2,ack_delay=100ms,rto_hold=on,ts_echo=rfc7323"
            )
        );
    }

    //= spec#D15
    #[test]
    fn the_profile_of_wifus_tcp_ap_is_wifu_tahoes_but_for_what_it_names() {
        let values = |spec: &str| {
            let b = blueprint(spec).unwrap();
            let parts: Vec<_> = b.parts.iter().map(|p| p.values.clone()).collect();
            (parts, b.engine.clone(), b.unused.clone())
        };
        assert_eq!(
            values("tcp-ap05,profile=ap05-wifu"),
            values("tcp-ap05,ap05_nosize=on,retransmissions=behind-window")
        );
        // Of the base it takes all but the gate and what counts hops.
        let taken = |spec: &str| {
            let b = blueprint(spec).unwrap();
            let known = b
                .parts
                .iter()
                .filter(|p| !["ap05", "ttl-hops"].contains(&p.desc.name));
            known.map(|p| p.values.clone()).collect::<Vec<_>>()
        };
        let tahoe = taken("tcp-tahoe,profile=wifu-tahoe");
        assert_eq!(taken("tcp-ap05,profile=ap05-wifu"), tahoe);
    }

    #[test]
    fn only_cumulative_lets_the_window_leave_before_what_goes_again() {
        let over = |name: &str| {
            refusal(&format!(
                "[protocol.mine]\nextends = \"{name}\"\nwatch.add = [\"ttl-hops\"]\n\
                 gates.add = [{{ use = \"ap11\", retransmissions = \"behind-window\" }}]\n"
            ))
        };
        assert_eq!(over("tcp-newreno"), "");
        let said = over("tcp-sack");
        let needs = "ap11 with behind-window needs reliable = cumulative";
        assert!(said.contains(needs), "{said}");
    }

    #[test]
    fn a_window_that_timestamps_limit_is_refused_without_them() {
        let clamp = |on: bool| {
            refusal(&format!(
                "[protocol.mine]\nextends = \"tcp-clamp\"\nset = {{ timestamps = {on} }}\n"
            ))
        };
        assert_eq!(clamp(true), "");
        let said = clamp(false);
        let needs = "mine.watch: clamp needs timestamps = on, but here it is off";
        assert!(said.contains(needs), "{said}");
    }

    #[test]
    fn a_key_that_does_nothing_is_refused() {
        let said = refusal("[protocol.mine]\nextends = \"tcp-reno\"\nprotocol-family = \"tcp\"\n");
        assert!(said.contains("mine.protocol-family: unknown key"), "{said}");
        for (keys, expected) in [
            (
                "gates = { add = [\"nagle\"], foo = 1 }",
                "mine.gates.foo: unknown key; write",
            ),
            (
                "iw = 4",
                "mine.iw: unknown key; a parameter is `set = { iw = .. }`",
            ),
            (
                "gates.remove = [\"nagle\"]",
                "mine.gates.remove: unknown key; write { add",
            ),
            (
                "gates = {}",
                "mine.gates: no part is named; write { add = [..] }",
            ),
        ] {
            let said = refusal(&format!(
                "[protocol.mine]\nextends = \"tcp-reno\"\n{keys}\n"
            ));
            assert!(said.contains(expected), "{said}");
        }
        let said = refusal("[protocol.mine]\nextends = 5\n");
        assert!(
            said.contains("mine.extends: expected a protocol's name"),
            "{said}"
        );
    }

    #[test]
    fn a_circle_is_shown_whole() {
        let text = "[protocol.tcp-newreno]\nextends = \"tcp-reno\"\n\
                    [protocol.mine]\nextends = \"tcp-reno\"\n";
        let said = refusal(text);
        let circle = "tcp-reno extends tcp-newreno extends tcp-reno. A protocol that takes over";
        assert!(said.contains(circle), "{said}");
    }
}
