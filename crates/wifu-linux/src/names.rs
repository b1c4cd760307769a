//! Which compositions the daemon carries, by what specification and number.

use crate::front::Host;
use crate::raw::check_number;
use core::net::Ipv4Addr;
use std::io;
use std::sync::Arc;
use wifu_engine::{Blueprint, ConfigError, Library};
use wifu_node::{Protocol, Registry, Substrate};

/// IP protocol of kernels' TCP.
pub(crate) const TCP: u8 = 6;

/// What the front asks the daemon for.
pub(crate) struct Names {
    pub(crate) registry: Registry,
    /// The address of our connections on the TUN device, if there is one.
    pub(crate) tun: Option<Ipv4Addr>,
    /// There are raw sockets, too.
    pub(crate) raw: bool,
    /// Names of compositions whose hop halves run here.
    pub(crate) hops: Vec<String>,
}

impl Names {
    /// Live, a composition is known by its IP protocol number. On a TUN device every composition
    /// speaks TCP proper, number 6, with timestamps in milliseconds, because the peer may be a
    /// kernel (Behaviour 4.1). With both kinds of carrier, `carrier=tun` in a specification
    /// chooses.
    fn resolve(&self, spec: &str) -> Result<Arc<Protocol>, ConfigError> {
        let (asked, spec) = match spec.split_once(",carrier=tun") {
            Some((head, tail)) => (true, format!("{head}{tail}")),
            None => (!self.raw, spec.to_string()),
        };
        let mut composition = self.registry.library().expand(&spec)?;
        if asked && self.tun.is_none() {
            let what = "this daemon has no TUN device; start it with --carrier tun";
            return Err(ConfigError::one("carrier", what));
        }
        if asked {
            composition.number = TCP;
            composition
                .profile_params
                .push((String::from("ts_unit"), String::from("1 ms")));
        }
        self.registry.complete(&composition)
    }

    /// Whether all of it acts here: its hop half has to be served.
    fn acting(&self, protocol: &Protocol) -> Result<(), ConfigError> {
        protocol.acts_on(Substrate::Live)?;
        let name = &protocol.ends.name;
        // By a TUN device all of them are TCP.
        if self.raw && !(self.tun.is_some() && protocol.ends.number == TCP) {
            let key = format!("protocol.{name}.number");
            check_number(protocol.ends.number).map_err(|what| ConfigError::one(&key, what))?;
        }
        if self.hops.contains(name) {
            return Ok(());
        }
        if !protocol.has_hops() {
            // Nobody looks at ways and frames for those that are not served.
            return protocol.informed(&format!("`wifu daemon` without `--serve {name}`"), &[]);
        }
        let what = format!(
            "{name} has something to do on every node: start the daemon of each host on the way \
             with --serve {name}"
        );
        Err(ConfigError::one(name, what))
    }

    /// All that it carries. A file may name what does not act here: that is refused when somebody
    /// asks for it.
    ///
    /// # Errors
    /// A composition that is wrong.
    pub(crate) fn served(&self) -> Result<Vec<Arc<Blueprint>>, ConfigError> {
        let mut served = Vec::new();
        for name in self.registry.library().protocols() {
            let protocol = self.resolve(name)?;
            if self.acting(&protocol).is_ok() {
                served.push(Arc::clone(&protocol.ends));
            }
        }
        Ok(served)
    }
}

impl Host for Names {
    fn blueprint(&mut self, spec: &str) -> Result<Arc<Blueprint>, String> {
        let protocol = self.resolve(spec).map_err(|e| e.to_string())?;
        self.acting(&protocol).map_err(|e| e.to_string())?;
        Ok(Arc::clone(&protocol.ends))
    }

    fn own_address(&self) -> Option<Ipv4Addr> {
        self.tun
    }

    fn source_for(&mut self, blueprint: &Blueprint, remote: Ipv4Addr) -> io::Result<Ipv4Addr> {
        match self.tun {
            Some(stack) if blueprint.number == TCP => Ok(stack),
            _ => Ok(crate::carrier::route_to(remote)?.source),
        }
    }
}

/// The protocol numbers of a library's compositions, without doubles.
pub(crate) fn numbers(library: &Library) -> Vec<u8> {
    let all = library
        .protocols()
        .iter()
        .filter_map(|p| library.expand(p).ok());
    // Who asks for one of the kernel's is told so then.
    let mut numbers: Vec<u8> = all
        .filter(|c| c.handlers.is_empty() && c.lane.is_none())
        .map(|c| c.number)
        .filter(|n| check_number(*n).is_ok())
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A composition whose ends read what only its handler writes, and a plain one.
    const FILE: &str = "[protocol.mine]\nextends = \"tcp-newreno\"\nnumber = 208\n\
        [handlers.mine]\nchain = [\"tpa-shim\"]\n\
        [protocol.plain]\nextends = \"tcp-sack\"\nnumber = 240\n";

    fn names(text: &str) -> Names {
        let library = wifu_parts::library().merge(Library::parse(text).unwrap());
        Names {
            registry: Registry::new(wifu_parts::registry(), library),
            tun: None,
            raw: true,
            hops: Vec::new(),
        }
    }

    #[test]
    fn what_brings_handlers_is_refused_when_it_is_asked_for_and_only_then() {
        let mut names = names(FILE);
        let served = names.served().unwrap();
        assert!(served.iter().any(|b| b.name == "plain"));
        assert!(served.iter().all(|b| b.name != "mine"));
        let numbers = numbers(names.registry.library());
        assert!(numbers.contains(&240) && !numbers.contains(&208));
        assert!(names.blueprint("plain").is_ok());
        assert_eq!(
            names.blueprint("mine,iw=4").unwrap_err(),
            "mine: mine has something to do on every node: start the daemon of each host on the way \
             with --serve mine"
        );
        assert!(names.blueprint("mine,iv=4").unwrap_err().contains("iv"));
    }

    #[test]
    fn a_number_of_the_kernels_is_refused_unless_a_tun_device_makes_it_tcp() {
        let number = |n: u8| format!("[protocol.mine]\nextends = \"tcp-sack\"\nnumber = {n}\n");
        for taken in [0, 1, 6, 17] {
            let mut names = names(&number(taken));
            assert!(names.served().is_ok());
            assert!(!numbers(names.registry.library()).contains(&taken));
            let said = names.blueprint("mine").unwrap_err();
            let what = format!("number {taken} belongs to the kernel; 143 to 252 are unassigned");
            assert!(
                said.contains("protocol.mine.number: ") && said.contains(&what),
                "{said}"
            );
        }
        let mut tun = names(&number(6));
        (tun.tun, tun.raw) = (Some(Ipv4Addr::LOCALHOST), false);
        assert!(tun.blueprint("mine").is_ok());
    }

    #[test]
    fn a_wrong_composition_stops_the_daemon_before_anything_runs() {
        let names = names("[protocol.bad]\nextends = \"tcp-sack\"\njudge = \"cubic\"\n");
        assert!(names.served().unwrap_err().to_string().contains("cubic"));
    }
}
