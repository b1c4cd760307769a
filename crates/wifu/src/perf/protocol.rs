//! Which protocol a test runs over: the kernel's TCP under one of its congestion controls, or
//! one of WiFu's.

use std::fmt;
use std::fs;

use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};
use wifu_engine::Library;
use wifu_node::{Registry, Substrate};
use wifu_wire::names::ending;

/// The protocol under test, as `-C` names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Kernel TCP with the system's default congestion control.
    KernelDefault,
    /// Kernel TCP with a named congestion control.
    Kernel(String),
    /// A WiFu protocol by specification.
    Wifu(String),
}

/// Congestion controls that Linux has had: a bare name of these means the kernel's, even when
/// this kernel lacks it, rather than a WiFu protocol.
const KERNEL_NAMES: [&str; 17] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

impl Protocol {
    /// Parses the argument of `-C`. Without one the protocol is WiFu's if this process runs
    /// under `wifu exec`, otherwise kernel TCP as the system has it.
    pub fn choose(argument: Option<&str>) -> anyhow::Result<Self> {
        match argument {
            Some(text) => Self::parse(text),
            None => Ok(ambient().map_or(Self::KernelDefault, Self::Wifu)),
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        if text == "kernel" {
            return Ok(Self::KernelDefault);
        }
        if let Some(name) = text.strip_prefix("kernel:") {
            ensure!(
                !name.is_empty(),
                "kernel: needs a name after it, as in kernel:reno"
            );
            without_words(name)?;
            return Ok(Self::Kernel(name.to_owned()));
        }
        if let Some(spec) = text.strip_prefix("wifu:") {
            ensure!(
                !spec.is_empty(),
                "wifu: needs a name after it, as in wifu:tcp-reno"
            );
            return Ok(Self::Wifu(spec.to_owned()));
        }
        if KERNEL_NAMES.contains(&text) || kernel_available().iter().any(|name| name == text) {
            return Ok(Self::Kernel(text.to_owned()));
        }
        ensure!(
            !text.is_empty(),
            "-C needs a name; `wifu perf -C list` shows all"
        );
        Ok(Self::Wifu(text.to_owned()))
    }

    /// Fails, with what would work, if this machine's kernel cannot do it or a protocol that
    /// is known here is given impossible parameters. Other names are left to the daemon, which
    /// may know them from a file.
    pub fn check(&self, registry: &Registry) -> anyhow::Result<()> {
        let name = match self {
            Self::KernelDefault => return Ok(()),
            Self::Kernel(name) => name,
            Self::Wifu(spec) => {
                let name = spec.split(',').next().unwrap_or_default();
                if registry
                    .library()
                    .protocols()
                    .iter()
                    .any(|known| known == name)
                {
                    registry.resolve_on(spec, Substrate::Live)?;
                }
                return Ok(());
            }
        };
        let available = kernel_available();
        if !available.is_empty() && !available.contains(name) {
            bail!(
                "this kernel has no congestion control {name} loaded; it has {} \
                 (`modprobe tcp_{name}` may add it)",
                available.join(", ")
            );
        }
        Ok(())
    }

    /// The specification for WiFu's library, if the protocol is WiFu's.
    pub fn wifu(&self) -> Option<&str> {
        match self {
            Self::Wifu(spec) => Some(spec),
            Self::KernelDefault | Self::Kernel(_) => None,
        }
    }

    /// What iperf3's key `protocol` says: TCP, or a WiFu protocol's name in capitals.
    pub fn label(&self) -> String {
        match self {
            Self::KernelDefault | Self::Kernel(_) => "TCP".to_owned(),
            Self::Wifu(spec) => spec
                .split(',')
                .next()
                .unwrap_or_default()
                .to_ascii_uppercase(),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KernelDefault => f.write_str("kernel"),
            Self::Kernel(name) => write!(f, "kernel:{name}"),
            Self::Wifu(spec) => f.write_str(spec),
        }
    }
}

/// The protocol `wifu exec` has put this process on, if any.
pub fn ambient() -> Option<String> {
    std::env::var("WIFU_PROTOCOL")
        .ok()
        .filter(|spec| !spec.is_empty())
}

/// The lines of `-C list`.
pub fn list(library: &Library) -> Vec<String> {
    let mut lines = vec!["WiFu protocols (`wifu list` tells more):".to_owned()];
    for name in library.protocols() {
        // One of a file may not expand: `wifu check` says why.
        let doc = library
            .expand(name)
            .map(|composition| composition.doc)
            .unwrap_or_default();
        lines.push(format!("  {name:<20} {doc}").trim_end().to_owned());
    }
    lines.push("Kernel TCP (kernel:NAME, or NAME alone):".to_owned());
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let default = default.unwrap_or_default();
    for name in kernel_available() {
        let mark = if name == default.trim() {
            "this system's default"
        } else {
            ""
        };
        lines.push(format!("  kernel:{name:<13} {mark}").trim_end().to_owned());
    }
    lines
}

/// Whether a specification's name is that of a protocol that is known here.
///
/// # Errors
/// It is not; with the nearest of them and of the kernel's congestion controls, and all.
pub fn check_name(spec: &str, registry: &Registry) -> anyhow::Result<()> {
    let name = spec.split(',').next().unwrap_or_default();
    let ours = registry.library().protocols();
    if ours.iter().any(|known| known == name) {
        return Ok(());
    }
    let mut kernels = kernel_available();
    if KERNEL_NAMES.contains(&name) || kernels.iter().any(|known| known == name) {
        return without_words(spec);
    }
    kernels.sort_unstable();
    let all = kernels.iter().map(String::as_str);
    let question = ending(name, all.clone().chain(ours.iter().map(|known| &**known)));
    bail!(
        "no protocol is called `{name}`{question} The kernel has {}; WiFu has {}",
        all.collect::<Vec<_>>().join(", "),
        ours.join(", ")
    )
}

/// Congestion controls of kernels that WiFu has protocols of, called `tcp-` and this name.
const OF_BOTH: [&str; 5] = ["bbr", "cubic", "dctcp", "reno", "vegas"];

/// An error where words stand behind a kernel's congestion control, with what has such.
fn without_words(spec: &str) -> anyhow::Result<()> {
    let Some((name, words)) = spec.split_once(',') else {
        return Ok(());
    };
    let ours = match OF_BOTH.contains(&name) {
        true => format!("; WiFu's tcp-{name} does: -C tcp-{name},{words}"),
        false => String::new(),
    };
    bail!("{name} is the kernel's, which takes no parameters (`{words}`) here{ours}")
}

/// Whether a word begins with the name of a protocol of ours or of the kernel's, or as one of ours
/// would.
pub fn names_one(word: &str, registry: &Registry) -> bool {
    let name = word.split(',').next().unwrap_or_default();
    let prefixed = ["tcp-", "kernel:", "wifu:"];
    prefixed.iter().any(|prefix| name.starts_with(prefix))
        || KERNEL_NAMES.contains(&name)
        || registry.library().protocols().iter().any(|p| p == name)
        || kernel_available().iter().any(|known| known == name)
}

/// What can be measured where the kernel lacks the congestion control of this name.
pub fn kernel_has(name: &str, registry: &Registry) -> String {
    let mut said = match kernel_available()[..] {
        [] => String::new(),
        ref all => format!("; the kernel here has {}", all.join(", ")),
    };
    let own = format!("tcp-{name}");
    if registry.library().protocols().contains(&own) {
        said += &format!("; WiFu's is -C {own}");
    }
    said
}

fn kernel_available() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_kernel_names_mean_the_kernel_and_all_others_wifu() {
        let parse = |text| Protocol::parse(text).unwrap();
        assert_eq!(parse("cubic"), Protocol::Kernel("cubic".into()));
        assert_eq!(parse("kernel:reno"), Protocol::Kernel("reno".into()));
        assert_eq!(parse("kernel"), Protocol::KernelDefault);
        assert_eq!(
            parse("tcp-newreno,iw=4"),
            Protocol::Wifu("tcp-newreno,iw=4".into())
        );
        assert_eq!(parse("wifu:cubic"), Protocol::Wifu("cubic".into()));
        assert_eq!(parse("tcp-newreno,iw=4").label(), "TCP-NEWRENO");
        assert_eq!(parse("reno").label(), "TCP");
        assert!(Protocol::parse("kernel:").is_err());
    }

    #[test]
    fn a_built_in_protocols_parameters_are_checked_and_other_names_left_to_the_daemon() {
        Protocol::Wifu("tcp-newreno,iw=4".into())
            .check(&crate::standard())
            .unwrap();
        Protocol::Wifu("somebodys-own,x=1".into())
            .check(&crate::standard())
            .unwrap();
        let error = Protocol::Wifu("tcp-newreno,nosuch=4".into()).check(&crate::standard());
        assert!(error.unwrap_err().to_string().contains("nosuch"));
    }

    #[test]
    fn a_name_that_nobody_has_is_told_with_the_kernels_and_ours() {
        let registry = crate::standard();
        check_name("tcp-newreno,iw=4", &registry).unwrap();
        let why = check_name("renoo", &registry).unwrap_err().to_string();
        for words in [
            "`renoo`; did you mean `reno`?",
            "The kernel has ",
            "tcp-newreno",
        ] {
            assert!(why.contains(words), "{words}: {why}");
        }
        let why = check_name("reno,iw=4", &registry).unwrap_err().to_string();
        let words =
            "reno is the kernel's, which takes no parameters (`iw=4`) here; WiFu's tcp-reno";
        assert!(why.starts_with(words), "{why}");
        for name in OF_BOTH {
            check_name(&format!("tcp-{name}"), &registry).unwrap();
        }
        let why = Protocol::parse("kernel:bbr,x=1").unwrap_err().to_string();
        assert!(why.ends_with("-C tcp-bbr,x=1"), "{why}");
        let why = check_name("tcp-cubicc", &registry).unwrap_err().to_string();
        assert!(why.contains("did you mean `tcp-cubic`?"), "{why}");
    }

    #[test]
    fn a_protocol_is_known_by_its_word() {
        let registry = crate::standard();
        for word in ["tcp-sack", "tcp-nosuch", "atp,x=1", "vegas", "kernel:bbr"] {
            assert!(names_one(word, &registry), "{word}");
        }
        for word in ["n3", "10", "title", "sack"] {
            assert!(!names_one(word, &registry), "{word}");
        }
    }

    #[test]
    fn who_lacks_a_congestion_control_is_told_what_there_is() {
        let registry = crate::standard();
        let said = kernel_has("vegas", &registry);
        assert!(said.starts_with("; the kernel here has "), "{said}");
        assert!(said.ends_with("; WiFu's is -C tcp-vegas"), "{said}");
        assert!(!kernel_has("foo", &registry).contains("WiFu"));
    }

    #[test]
    fn a_congestion_control_the_kernel_lacks_is_refused_with_those_it_has() {
        let error = Protocol::Kernel("nosuch".into())
            .check(&crate::standard())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("nosuch") && error.contains("reno"),
            "{error}"
        );
    }
}
