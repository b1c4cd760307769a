//! What a scenario sends, as far as it is known before the first packet, and the handlers that none
//! of it can be for. Which way packets go is not asked here: routes may change.

use super::flow::Flow;
use crate::scenario::{HandlerSpec, ScenarioError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wifu_core::{ConfigError, HandlerConfig, Kinds, Select, Verbs, Whose};
use wifu_engine::Fact;
use wifu_node::Protocol;
use wifu_wire::numbers::UDP;

/// All packets that handlers may be asked about.
pub(super) struct Sent<'a> {
    flows: Vec<Select>,
    /// Which protocols have these numbers, for people.
    names: BTreeMap<u8, BTreeSet<&'a str>>,
    /// The handlers of compositions.
    brought: Vec<&'a HandlerConfig>,
    /// There are routing messages, which meet no handler.
    olsr: bool,
}

impl<'a> Sent<'a> {
    /// By these flows, whose protocols bring handlers along.
    pub(super) fn new(flows: &'a [Flow], served: &'a [Arc<Protocol>], olsr: bool) -> Sent<'a> {
        let mut names: BTreeMap<u8, BTreeSet<&str>> = BTreeMap::new();
        let mut selects = Vec::with_capacity(flows.len());
        for (i, flow) in flows.iter().enumerate() {
            // No composition's packets are inside UDP here.
            let (number, port, identity) = match &flow.blueprint {
                Some(b) => (b.number, None, b.wire.identity()),
                None => (UDP, Some(Flow::port(i as u32)), &[][..]),
            };
            selects.push(Select {
                ports: port.into_iter().collect(),
                identity: identity.to_vec(),
                ..Select::protocol(Some(number))
            });
            let name = flow.spec.protocol.split(',').next().unwrap_or_default();
            names.entry(number).or_default().insert(name);
        }
        Sent {
            flows: selects,
            names,
            brought: served.iter().flat_map(|p| &p.handlers.handlers).collect(),
            olsr,
        }
    }

    /// Whether each of these handlers may be asked about something. Without flows nothing is asked.
    ///
    /// # Errors
    /// The first that surely is not.
    pub(super) fn reach_all(
        &self,
        specs: &[HandlerSpec],
        kinds: &Kinds,
    ) -> Result<(), ScenarioError> {
        if self.flows.is_empty() {
            return Ok(());
        }
        let told = |i: usize, e: ConfigError| {
            let what = format!("{}: {e}", specs[i].config.name);
            ScenarioError::key(format!("handler[{i}]"), what)
        };
        // What nobody asks sends nothing and inserts nothing: each that is reached may reach more.
        let mut reached = vec![false; specs.len()];
        loop {
            let before = reached.clone();
            for (i, spec) in specs.iter().enumerate().filter(|(i, _)| !before[*i]) {
                let asked = specs.iter().zip(&before).filter(|(_, asked)| **asked);
                let asked = asked.map(|(s, _)| &s.config);
                let found = self.reaches(&spec.config, asked, kinds);
                reached[i] = found.map_err(|e| told(i, e))?;
            }
            if reached == before {
                break;
            }
        }
        let Some(i) = reached.iter().position(|reached| !reached) else {
            return Ok(());
        };
        let vain = self.vain(&specs[i].config, kinds);
        Err(told(i, vain.unwrap_or_else(|e| e)))
    }

    /// By what flows send, or what these others and those of compositions make of it.
    fn reaches<'b>(
        &self,
        handler: &HandlerConfig,
        others: impl Iterator<Item = &'b HandlerConfig>,
        kinds: &Kinds,
    ) -> Result<bool, ConfigError>
    where
        'a: 'b,
    {
        let select = handler.selects(kinds)?;
        if select.protocol.is_none() {
            return Ok(true);
        }
        let mut reached = self.flows.iter().any(|sent| sent.meets(&select));
        for other in others.chain(self.brought.iter().copied()) {
            let descriptor = kinds.find(&other.name)?;
            let shim = descriptor.inserts.and_then(|f| f.number);
            reached |= shim.is_some_and(|n| select.meets(&Select::protocol(Some(n))));
            // Of what protocol its packets are nobody knows.
            reached |= descriptor.needs.has(Verbs::SEND);
        }
        // It acts on what it is told of others' packets.
        reached |= handler.requires(kinds)?.contains(&Fact::Status);
        Ok(reached)
    }

    /// That no packet is for it, and what to do. One for the packets of a format has no other
    /// protocol to be for.
    ///
    /// # Errors
    /// There is no such handler.
    fn vain(&self, handler: &HandlerConfig, kinds: &Kinds) -> Result<ConfigError, ConfigError> {
        let select = handler.selects(kinds)?;
        let number = select.protocol.unwrap_or_default();
        let of_format = kinds.find(&handler.name)?.format.is_some();
        let name = handler.protocol.as_ref().and_then(Whose::name);
        let name = name.map(|name| format!("{name}, "));
        let port = select.ports.first();
        let port = port.map(|port| format!(" or UDP port {port}"));
        let only = select.only.map(|n| format!(", of these {n} alone"));
        let there: Vec<String> = self
            .names
            .iter()
            .map(|(n, names)| {
                let names: Vec<&str> = names.iter().copied().collect();
                format!("{n} ({})", names.join(", "))
            })
            .collect();
        let olsr = match self.olsr {
            true => "; routing messages meet no handler",
            false => "",
        };
        let change = match of_format && select.only.is_none() {
            true => "",
            false => " change its `protocol`,",
        };
        Ok(ConfigError(format!(
            "no packet is for it: it is asked about {}IP protocol {number}{}{}, and flows here \
             send {}{olsr}. Give it a flow,{change} or leave it out",
            name.unwrap_or_default(),
            port.unwrap_or_default(),
            only.unwrap_or_default(),
            there.join(", ")
        )))
    }
}
