//! Which compositions the daemon carries, by what specification and number.

use crate::carrier::Stack;
use crate::doubles::Doubles;
use crate::front::Host;
use crate::kind::Kind;
use crate::ports::Ports;
use crate::raw::check_number;
use crate::udp::MORE;
use core::net::IpAddr;
use std::io;
use std::sync::Arc;
use wifu_engine::{Blueprint, ConfigError, Library};
use wifu_node::{Protocol, Registry, Substrate, tell_apart};

use wifu_wire::numbers::UDP;

pub(crate) use wifu_wire::numbers::TCP;

/// What the front asks the daemon for.
pub(crate) struct Names {
    pub(crate) registry: Registry,
    /// The addresses of our connections on the TUN device, if there is one.
    pub(crate) tun: Option<Stack>,
    /// The carriers that carry no IPv6, and why.
    pub(crate) v4_alone: Vec<(Kind, &'static str)>,
    /// Packets cost this host work (`--host-profile`), which those of IPv6 would not.
    pub(crate) works: bool,
    /// The carriers, in the order in which they were asked for.
    pub(crate) carriers: Vec<Kind>,
    /// The numbers of protocols on the carrier `udp`, where there is `raw` as well.
    pub(crate) doubles: Option<Doubles>,
    /// Compositions whose hop halves run here.
    pub(crate) hops: Vec<Arc<Protocol>>,
    /// The UDP ports of packets that are datagrams by their own format, if there is a carrier for
    /// those.
    pub(crate) ports: Option<Ports>,
}

impl Names {
    /// The carrier of a composition that names none: the first one, but a TUN device only if there
    /// is nothing else, for by that all of them are TCP.
    fn usual(&self) -> Kind {
        let mut others = self.carriers.iter().filter(|k| **k != Kind::Tun);
        others.next().copied().unwrap_or(Kind::Tun)
    }

    /// The carrier of packets that have this number in the daemon.
    fn kind(&self, number: u8) -> Kind {
        match self.doubles.as_ref().and_then(|d| d.proper(number)) {
            Some(_) => Kind::Udp,
            None if number == TCP && self.tun.is_some() => Kind::Tun,
            None if number == UDP => Kind::Udp,
            None if self.carriers.contains(&Kind::Raw) => Kind::Raw,
            None => Kind::Udp,
        }
    }

    /// A specification without the carrier that it names, and that.
    fn carrier(&self, spec: &str) -> Result<(String, Kind), ConfigError> {
        let wrong = |what: String| Err(ConfigError::one("carrier", what));
        let (mut rest, mut asked) = (Vec::new(), None);
        for (i, word) in spec.split(',').enumerate() {
            // The first word is the protocol's name.
            let named = word.trim().strip_prefix("carrier=").filter(|_| i > 0);
            let Some(name) = named else {
                rest.push(word);
                continue;
            };
            let Some(kind) = Kind::ALL.into_iter().find(|k| k.name() == name) else {
                return wrong(format!("there is none called \"{name}\": raw, udp or tun"));
            };
            if asked.replace(kind).is_some() {
                return wrong(String::from("a connection has one: name it once"));
            }
        }
        let kind = asked.unwrap_or_else(|| self.usual());
        if !self.carriers.contains(&kind) {
            let what = match kind {
                Kind::Tun => "TUN device",
                Kind::Raw => "raw sockets",
                Kind::Udp => "carrier over UDP",
            };
            let name = kind.name();
            return wrong(format!(
                "this daemon has no {what}; start it with --carrier {name}"
            ));
        }
        Ok((rest.join(","), kind))
    }

    /// Live, a composition is known by its IP protocol number. On a TUN device every composition
    /// speaks TCP proper, number 6, with timestamps in milliseconds, because the peer may be a
    /// kernel (Behaviour 4.1). `carrier=tun` and its like in a specification choose.
    fn resolve(&self, spec: &str) -> Result<Arc<Protocol>, ConfigError> {
        let (spec, kind) = self.carrier(spec)?;
        let mut composition = self.registry.library().expand(&spec)?;
        if kind == Kind::Tun {
            composition.number = TCP;
            composition
                .profile_params
                .push((String::from("ts_unit"), String::from("1 ms")));
        }
        let protocol = self.registry.complete(&composition)?;
        self.acting(&protocol, kind)?;
        match kind {
            Kind::Udp if is_udp(&protocol) => Ok(with(&protocol, |ends| ends.number = UDP)),
            Kind::Udp => self.wrapped(&protocol),
            Kind::Raw | Kind::Tun => Ok(protocol),
        }
    }

    /// Whether all of it acts here: its hop half has to be served.
    fn acting(&self, protocol: &Arc<Protocol>, kind: Kind) -> Result<(), ConfigError> {
        protocol.acts_on(Substrate::Live)?;
        let name = &protocol.ends.name;
        // By a TUN device all of them are TCP.
        if kind != Kind::Tun {
            let key = format!("protocol.{name}.number");
            check_number(protocol.ends.number).map_err(|what| ConfigError::one(&key, what))?;
        }
        if self.doubles.is_some() && kind == Kind::Udp && protocol.has_hops() && !is_udp(protocol) {
            let what = format!(
                "{name} has something to do on every node, and nodes on the way see packets of \
                 raw alone: take carrier=raw"
            );
            return Err(ConfigError::one("carrier", what));
        }
        if self.hops.iter().any(|served| served.ends.name == *name) {
            return Ok(());
        }
        if !protocol.has_hops() {
            if kind == Kind::Raw {
                self.apart(protocol)?;
            }
            // Nobody looks at ways and frames for those that are not served.
            return protocol.informed(&format!("`wifu daemon` without `--serve {name}`"), &[]);
        }
        let what = format!(
            "{name} has something to do on every node: start the daemon of each host on the way \
             with --serve {name}"
        );
        Err(ConfigError::one(name, what))
    }

    /// A protocol as the carrier `udp` wraps it, where it may have another number beside `raw`.
    fn wrapped(&self, protocol: &Protocol) -> Result<Arc<Protocol>, ConfigError> {
        let Some(doubles) = &self.doubles else {
            return Ok(with(protocol, |ends| ends.below += MORE as u32));
        };
        let Some(second) = doubles.blueprint(&protocol.ends, MORE as u32) else {
            let key = format!("protocol.{}.number", protocol.ends.name);
            return Err(ConfigError::one(&key, "not carried over UDP beside raw"));
        };
        Ok(with(protocol, |ends| *ends = second))
    }

    /// Nodes on the way tell its packets from those of every composition that is served.
    fn apart(&self, protocol: &Arc<Protocol>) -> Result<(), ConfigError> {
        let mut all = self.hops.clone();
        all.push(Arc::clone(protocol));
        let key = format!("protocol.{}.number", protocol.ends.name);
        tell_apart(&all).map_err(|what| ConfigError::one(key, what))?;
        Ok(())
    }

    /// The handlers that its parameters bring are those that are served here: nodes go by the
    /// packets, and do the same for all.
    fn alike(&self, protocol: &Protocol, spec: &str) -> Result<(), String> {
        let names = |p: &Protocol| -> String {
            let all = p.handlers.handlers.iter().map(|h| h.name.as_str());
            all.collect::<Vec<_>>().join(", ")
        };
        let (name, number) = (&protocol.ends.name, protocol.ends.number);
        // In UDP all have its number.
        let of_it =
            |p: &&Arc<Protocol>| p.ends.name == *name && [p.ends.number, UDP].contains(&number);
        match self.hops.iter().find(of_it) {
            Some(served) if served.handlers != protocol.handlers => Err(format!(
                "{spec} has the handlers {}, and this host serves {name} with {}: start the daemon of \
                 each host on the way with --serve {spec}, or leave the parameter out that decides",
                names(protocol),
                names(served)
            )),
            _ => Ok(()),
        }
    }

    /// All that it carries. A file may name what does not act here: that is refused when somebody
    /// asks for it.
    ///
    /// # Errors
    /// A composition that is wrong.
    pub(crate) fn served(&self) -> Result<Vec<Arc<Blueprint>>, ConfigError> {
        let mut served = Vec::new();
        for name in self.registry.library().protocols() {
            // What is wrong on no carrier alone is wrong.
            self.registry.resolve(name)?;
            for kind in &self.carriers {
                let spec = format!("{name},carrier={}", kind.name());
                if let Ok(protocol) = self.resolve(&spec) {
                    served.push(Arc::clone(&protocol.ends));
                }
            }
        }
        Ok(served)
    }
}

/// Whether its packets are datagrams of UDP by their own format.
fn is_udp(protocol: &Protocol) -> bool {
    protocol.ends.wire.format().is_udp()
}

/// A protocol with its ends changed.
fn with(protocol: &Protocol, change: impl FnOnce(&mut Blueprint)) -> Arc<Protocol> {
    let mut ends = (*protocol.ends).clone();
    change(&mut ends);
    Arc::new(Protocol {
        ends: Arc::new(ends),
        ..protocol.clone()
    })
}

impl Host for Names {
    fn blueprint(&mut self, spec: &str) -> Result<Arc<Blueprint>, String> {
        let protocol = self.resolve(spec).map_err(|e| e.to_string())?;
        self.alike(&protocol, spec)?;
        Ok(Arc::clone(&protocol.ends))
    }

    fn own_addresses(&self) -> Option<Stack> {
        self.tun
    }

    fn carries_v6(&self, ends: &Blueprint) -> Result<(), String> {
        let name = &ends.name;
        let no = |why: &str| Err(format!("{name} is not carried over IPv6: {why}"));
        if ends.wire.transmitter().is_some() {
            return no("its header names nodes by their IPv4 addresses");
        }
        let hops = self.hops.iter().find(|p| p.ends.name == *name);
        if hops.is_some_and(|p| p.has_hops()) || ends.lane.is_some() {
            return no("it has something to do on every node, and nodes forward IPv4 alone");
        }
        if self.works {
            return no("with --host-profile the daemon carries IPv4 alone");
        }
        let kind = self.kind(ends.number);
        match self.v4_alone.iter().find(|(k, _)| *k == kind) {
            Some((_, why)) => no(why),
            None => Ok(()),
        }
    }

    fn carried(&self, number: u8) -> (u8, Option<&'static str>) {
        let proper = self.doubles.as_ref().and_then(|d| d.proper(number));
        (proper.unwrap_or(number), Some(self.kind(number).name()))
    }

    fn claim(
        &mut self,
        ends: &Blueprint,
        local: u16,
        remote: Option<u16>,
    ) -> Result<u16, (i32, String)> {
        match &mut self.ports {
            Some(ports) if ends.number == UDP => ports.claim(local, remote),
            _ => Ok(local),
        }
    }

    fn source_for(&mut self, blueprint: &Blueprint, remote: IpAddr) -> io::Result<IpAddr> {
        match self.tun {
            Some(stack) if blueprint.number == TCP => stack
                .of(remote)
                .ok_or(io::ErrorKind::NetworkUnreachable.into()),
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

    const STACK: Stack = Stack {
        v4: core::net::Ipv4Addr::LOCALHOST,
        v6: None,
    };

    fn names(text: &str) -> Names {
        let library = wifu_parts::library().merge(Library::parse(text).unwrap());
        Names {
            registry: Registry::new(wifu_parts::registry(), library),
            tun: None,
            v4_alone: Vec::new(),
            works: false,
            carriers: vec![Kind::Raw],
            doubles: None,
            ports: None,
            hops: Vec::new(),
        }
    }

    /// The relays of `mine` would take its packets for theirs.
    #[test]
    fn what_has_the_number_of_a_served_composition_is_refused_by_raw() {
        let text = format!("{FILE}[protocol.other]\nextends = \"tcp-sack\"\nnumber = 208\n");
        let mut names = names(&text);
        assert!(names.blueprint("other").is_ok(), "nobody serves anything");
        names.hops = vec![names.registry.resolve("mine").unwrap()];
        let said = names.blueprint("other").unwrap_err();
        assert!(
            said.contains("protocol.other.number: mine and other have packets of one kind"),
            "{said}"
        );
        assert!(names.blueprint("mine,iw=4").is_ok() && names.blueprint("plain").is_ok());
        let served = names.served().unwrap();
        assert!(served.iter().all(|b| b.name != "other"));
    }

    /// Its packets look alike, and nodes would do for them what others asked for, or not.
    #[test]
    fn a_parameter_that_brings_a_handler_is_one_of_the_daemon() {
        let mut names = names(FILE);
        for (serve, other) in [("atp", "atp,elfn=on"), ("atp,elfn=on", "atp,kappa=0.5")] {
            names.hops = vec![names.registry.resolve(serve).unwrap()];
            assert!(names.blueprint(serve).is_ok());
            assert!(names.blueprint(&format!("{serve},phi=1.2")).is_ok());
            let said = names.blueprint(other).unwrap_err();
            assert!(said.contains(&format!("--serve {other}")), "{said}");
            assert!(said.contains("delay-collector, link-notice"), "{said}");
            // Those whose packets it answers are the same.
            let served = names.served().unwrap();
            assert!(served.iter().any(|b| b.name == "atp"));
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
        (tun.tun, tun.carriers) = (Some(STACK), vec![Kind::Tun]);
        assert!(tun.blueprint("mine").is_ok());
    }

    /// A daemon with these carriers, in this order.
    fn with(carriers: &[Kind], text: &str) -> Names {
        let mut names = names(text);
        names.tun = carriers.contains(&Kind::Tun).then_some(STACK);
        names.carriers = carriers.to_vec();
        if carriers.contains(&Kind::Raw) && carriers.contains(&Kind::Udp) {
            names.doubles = Doubles::new(&numbers(names.registry.library()), |n| n > 142);
        }
        names
    }

    #[test]
    fn a_composition_chooses_its_carrier_or_has_the_first_that_is_no_tun_device() {
        use Kind::{Raw, Tun, Udp};
        for (carriers, spec, expected) in [
            (&[Raw][..], "plain", "raw"),
            (&[Udp], "plain", "udp"),
            (&[Udp], "plain,carrier=udp", "udp"),
            (&[Tun, Raw, Udp], "plain", "raw"),
            (&[Tun, Udp, Raw], "plain", "udp"),
            (&[Udp, Raw], "carrier=raw,plain", ""),
            (&[Udp, Raw], "plain,carrier=raw,iw=4", "raw"),
            (&[Raw, Udp, Tun], "plain,iw=4,carrier=udp", "udp"),
            (&[Raw, Udp, Tun], "plain,carrier=tun", "tun"),
            (&[Tun, Udp], "plain", "udp"),
        ] {
            let mut names = with(carriers, FILE);
            let blueprint = names.blueprint(spec);
            let carried = blueprint.map(|b| names.carried(b.number));
            let number = if expected == "tun" { 6 } else { 240 };
            match expected {
                "" => assert!(carried.is_err(), "{spec}"),
                name => assert_eq!(carried, Ok((number, Some(name))), "{carriers:?} {spec}"),
            }
        }
        let served = with(&[Raw, Udp, Tun], FILE).served().unwrap();
        let mut plain: Vec<u8> = served
            .iter()
            .filter(|b| b.name == "plain")
            .map(|b| b.number)
            .collect();
        plain.sort_unstable();
        plain.dedup();
        assert_eq!(plain.len(), 3, "TCP, its own and a double: {plain:?}");
    }

    #[test]
    fn what_knows_ipv4_alone_is_not_carried_over_ipv6_and_says_why() {
        let mut names = names(FILE);
        let plain = names.blueprint("plain").unwrap();
        assert_eq!(names.carries_v6(&plain), Ok(()));
        let refused = |names: &Names, ends: &Blueprint, why: &str| {
            let said = names.carries_v6(ends).unwrap_err();
            let begins = format!("{} is not carried over IPv6: ", ends.name);
            assert!(said.starts_with(&begins) && said.contains(why), "{said}");
        };
        let word = wifu_wire::shim::ShimWord {
            names_transmitter: true,
            ..wifu_wire::shim::ShimWord::new("from", 32).by_hops()
        };
        let mut naming = (*plain).clone();
        naming.wire = Arc::new(wifu_wire::shim::codec(1, &[word]).unwrap());
        refused(
            &names,
            &naming,
            "its header names nodes by their IPv4 addresses",
        );
        names.hops = vec![names.registry.resolve("mine").unwrap()];
        let mine = names.blueprint("mine").unwrap();
        refused(&names, &mine, "something to do on every node");
        assert_eq!(names.carries_v6(&plain), Ok(()));
        names.v4_alone = vec![(Kind::Raw, "no IPv6 here"), (Kind::Udp, "IPv4 alone")];
        refused(&names, &plain, "no IPv6 here");
        names.v4_alone.remove(0);
        assert_eq!(names.carries_v6(&plain), Ok(()), "by raw it is");
        names.works = true;
        refused(&names, &plain, "--host-profile");
    }

    #[test]
    fn a_carrier_that_cannot_be_had_is_refused_with_what_to_do() {
        use Kind::{Raw, Tun, Udp};
        for (carriers, spec, said) in [
            (
                &[Raw][..],
                "plain,carrier=udp",
                "start it with --carrier udp",
            ),
            (
                &[Raw, Udp],
                "plain,carrier=tun",
                "start it with --carrier tun",
            ),
            (
                &[Tun, Udp],
                "plain,carrier=raw",
                "start it with --carrier raw",
            ),
            (&[Raw, Udp], "plain,carrier=usb", "\"usb\": raw, udp or tun"),
            (&[Raw, Udp], "plain,carrier=raw,carrier=udp", "name it once"),
            (&[Raw, Udp], "mine,carrier=udp", "take carrier=raw"),
        ] {
            let error = with(carriers, FILE).blueprint(spec).unwrap_err();
            assert!(error.contains(said), "{spec}: {error}");
        }
    }

    #[test]
    fn what_is_a_datagram_by_its_own_form_has_udps_number_and_its_ports() {
        use Kind::{Raw, Udp};
        let mut names = with(&[Raw, Udp], FILE);
        let said = names.blueprint("atp,carrier=udp").unwrap_err();
        assert!(said.contains("--serve atp"), "{said}");
        names.hops = vec![names.registry.resolve("atp").unwrap()];
        names.ports = Some(Ports::new(9438, 1 << 16, &[9438]));
        let by_raw = names.blueprint("atp").unwrap();
        let by_udp = names.blueprint("atp,carrier=udp").unwrap();
        assert_eq!((by_raw.number, by_udp.number), (219, UDP));
        assert_eq!(by_raw.below, by_udp.below, "as long in both");
        assert_eq!(names.carried(UDP), (UDP, Some("udp")));
        assert!(
            names
                .blueprint("atp,carrier=udp,elfn=on")
                .unwrap_err()
                .contains("elfn=on")
        );
        assert_eq!(
            names.claim(&by_raw, 7000, None),
            Ok(7000),
            "by raw it is nobody's"
        );
        assert!(names.claim(&by_udp, 7000, None).is_err());
        assert_eq!(names.claim(&by_udp, 9438, None), Ok(9438));
        // Others are wrapped, and so much shorter, be it alone or beside raw.
        for carriers in [&[Raw, Udp][..], &[Udp]] {
            let mut names = with(carriers, FILE);
            let wrapped = names.blueprint("plain,carrier=udp").unwrap();
            assert_eq!(wrapped.below, MORE as u32, "{carriers:?}");
        }
    }

    #[test]
    fn a_wrong_composition_stops_the_daemon_before_anything_runs() {
        let names = names("[protocol.bad]\nextends = \"tcp-sack\"\njudge = \"cubic\"\n");
        assert!(names.served().unwrap_err().to_string().contains("cubic"));
    }
}
