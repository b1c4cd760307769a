//! By what packets come to the handlers, and which are led to TUN devices.

use super::config::{CoreConfig, Settings, wrong};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use wifu_core::{ConfigError, Hook, Hooks, Kinds};

/// By what packets come to the handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The kernel's queues, to which rules of iptables send packets: all hooks.
    #[default]
    Nfqueue,
    /// TUN devices, to which routes lead packets: output and forward.
    Tun(TunSettings),
}

/// Which packets are led to TUN devices, and to which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunSettings {
    /// Only packets to these networks, as `10.0.0.0/8`; none: to wherever.
    pub to: Vec<String>,
    /// Devices that are there already, by hook: all of them or none. None: devices are made.
    pub devices: BTreeMap<Hook, String>,
}

impl TunSettings {
    /// The hooks that TUN devices serve, and the devices that are made for them.
    pub const NAMES: [(Hook, &str); 2] = [
        (Hook::Output, "wifu-output"),
        (Hook::Forward, "wifu-forward"),
    ];

    /// The hooks that TUN devices serve.
    pub fn hooks() -> Hooks {
        Hooks::of(&TunSettings::NAMES.map(|(hook, _)| hook))
    }

    /// The device of a hook.
    pub fn device(&self, hook: Hook) -> &str {
        let made = TunSettings::NAMES.iter().find(|(h, _)| *h == hook);
        let made = made.map_or("", |(_, name)| *name);
        self.devices.get(&hook).map_or(made, String::as_str)
    }
}

/// Which packets the handlers of a hook want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Where they are met.
    pub hook: Hook,
    /// IP protocol numbers; none: every packet.
    pub protocols: Option<BTreeSet<u8>>,
}

/// `nfqueue` or `tun`.
///
/// # Errors
/// Other words.
pub fn by(word: &str) -> Result<By, ConfigError> {
    match word {
        "nfqueue" => Ok(By::Nfqueue),
        "tun" => Ok(By::Tun(TunSettings::default())),
        other => wrong(format!("\"{other}\": write nfqueue or tun")),
    }
}

/// A network, as `10.0.0.0/8`, or an address.
///
/// # Errors
/// If it is none, or has bits beyond its length.
pub fn network(text: &str) -> Result<String, ConfigError> {
    let (address, length) = text.split_once('/').unwrap_or((text, "32"));
    let parsed = (address.parse::<Ipv4Addr>(), length.parse::<u32>());
    let (Ok(address), Ok(length @ 0..=32)) = parsed else {
        return wrong(format!(
            "\"{text}\": write a network of IPv4, as 10.0.0.0/8"
        ));
    };
    let rest = u32::MAX.checked_shr(length).unwrap_or(0);
    if u32::from(address) & rest != 0 {
        let base = Ipv4Addr::from(u32::from(address) & !rest);
        return wrong(format!("\"{text}\": write {base}/{length}"));
    }
    Ok(format!("{address}/{length}"))
}

/// A device of one's own for a hook, as `output=tun0`.
///
/// # Errors
/// If it is none, or TUN devices do not serve the hook.
pub fn own_device(text: &str) -> Result<(Hook, String), ConfigError> {
    let Some((hook, device)) = text.split_once('=').filter(|(_, d)| !d.is_empty()) else {
        return wrong(format!("\"{text}\": write HOOK=DEVICE, as output=tun0"));
    };
    Ok((tun_hook(hook)?, device.to_owned()))
}

fn tun_hook(word: &str) -> Result<Hook, ConfigError> {
    let hook: Hook = word.parse().map_err(ConfigError)?;
    if !TunSettings::hooks().has(hook) {
        return wrong(format!(
            "{hook}: TUN devices serve output and forward",
            hook = hook.name()
        ));
    }
    Ok(hook)
}

impl Settings {
    /// Take over which packets are led to which devices.
    pub(super) fn lead(
        &mut self,
        to: &[String],
        devices: &BTreeMap<String, String>,
    ) -> Result<(), ConfigError> {
        let By::Tun(tun) = &mut self.by else {
            return match (to, devices.first_key_value()) {
                ([], None) => Ok(()),
                _ => wrong("to, tun: they say what is led to TUN devices; write by = \"tun\""),
            };
        };
        for text in to {
            tun.to.push(network(text)?);
        }
        for (word, device) in devices {
            tun.devices.insert(tun_hook(word)?, device.clone());
        }
        Ok(())
    }
}

impl CoreConfig {
    /// What is led to TUN devices: it follows from the handlers.
    ///
    /// # Errors
    /// Rules, which are iptables' words; hooks that need NFQUEUE; a hook without a device while
    /// others have one of the user's; unknown handlers.
    pub fn led(&self, tun: &TunSettings, kinds: &Kinds) -> Result<Vec<Selector>, ConfigError> {
        if !self.rules.is_empty() || !self.matches.is_empty() {
            return wrong(
                "rules are iptables' words, for NFQUEUE; what is led to TUN devices follows from \
                 hooks and protocols of the handlers, and from `to`",
            );
        }
        for (i, network) in tun.to.iter().enumerate() {
            if tun.to[..i].contains(network) {
                return wrong(format!(
                    "to: {network} is given twice, with --to or in the file: once is enough"
                ));
            }
        }
        let wanted = self.wanted(kinds)?;
        let served = TunSettings::hooks();
        let others = wanted.iter().filter(|s| !served.has(s.hook));
        let others: Vec<&str> = others.map(|s| s.hook.name()).collect();
        if !others.is_empty() {
            return wrong(format!(
                "{}: NFQUEUE is needed there; by TUN devices handlers work at output and forward \
                 (write hooks = [\"output\", \"forward\"], or one of them, for each handler)",
                others.join(", ")
            ));
        }
        let hooks = wanted.iter().map(|s| s.hook);
        for hook in hooks.filter(|_| !tun.devices.is_empty()) {
            if !tun.devices.contains_key(&hook) {
                let name = hook.name();
                return wrong(format!(
                    "{name}: no device of yours; write --tun {name}=DEVICE"
                ));
            }
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_no_bits_beyond_their_length() {
        for (text, wanted) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("10.1.2.3/32", "10.1.2.3/32"),
        ] {
            assert_eq!(network(text).as_deref(), Ok(wanted));
        }
        for (text, wanted) in [
            ("10.1.2.3/8", "write 10.0.0.0/8"),
            ("10.1.2.3/0", "write 0.0.0.0/0"),
            ("10.0.0.0/33", "write a network"),
            ("10.0.0/8", "write a network"),
            ("fe80::/10", "write a network"),
            ("", "write a network"),
        ] {
            let said = network(text).unwrap_err().to_string();
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn what_is_led_follows_from_the_handlers() {
        let kinds = Kinds::new(wifu_engine::Registry::new(&[]));
        let text = "[core]\nby = \"tun\"\nto = [\"10.0.0.0/8\"]\ntun = { forward = \"tun3\" }\n\
                    [[handler]]\nuse = \"drop\"\nprotocol = 17\nhooks = [\"forward\"]\n";
        let config = CoreConfig::read(text, true).unwrap();
        let By::Tun(tun) = &config.settings.by else {
            panic!("{:?}", config.settings)
        };
        assert_eq!(tun.to, ["10.0.0.0/8"]);
        assert_eq!(tun.device(Hook::Forward), "tun3");
        assert_eq!(TunSettings::default().device(Hook::Output), "wifu-output");
        let wanted = Selector {
            hook: Hook::Forward,
            protocols: Some([17, 253].into()),
        };
        assert_eq!(config.led(tun, &kinds), Ok(vec![wanted]));
        let twice = TunSettings {
            to: vec![String::from("10.0.0.0/8"), String::from("10.0.0.0/8")],
            ..tun.clone()
        };
        let said = config.led(&twice, &kinds).unwrap_err().to_string();
        assert!(said.starts_with("to: 10.0.0.0/8 is given twice"), "{said}");
        let other = TunSettings {
            devices: BTreeMap::from([(Hook::Output, String::from("tun4"))]),
            ..tun.clone()
        };
        let said = config.led(&other, &kinds).unwrap_err().to_string();
        assert!(said.contains("write --tun forward=DEVICE"), "{said}");
    }
}
