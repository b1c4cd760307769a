//! Handlers that name the composition whose packets they are asked about.

use crate::registry::Protocol;
use std::borrow::Cow;
use std::sync::Arc;
use wifu_core::{HandlerConfig, Header, Kinds, Whose};
use wifu_wire::numbers::TCP;

impl Protocol {
    /// What tells its packets.
    pub fn header(&self) -> Header {
        Header {
            wire: Arc::clone(&self.ends.wire),
            number: self.ends.number,
        }
    }
}

/// What there is to make these handlers from, with the compositions that they name. `find` gives
/// one as its packets are where the handlers run.
///
/// # Errors
/// The place of a handler, and what is wrong with its name: what `find` says, or that another one
/// names a composition whose packets nobody could tell from its own's.
pub fn name_handlers<'k, 'h>(
    kinds: &'k Kinds,
    handlers: impl IntoIterator<Item = &'h HandlerConfig>,
    mut find: impl FnMut(&str) -> Result<Arc<Protocol>, String>,
) -> Result<Cow<'k, Kinds>, (usize, String)> {
    let mut kinds = Cow::Borrowed(kinds);
    let mut named: Vec<Arc<Protocol>> = Vec::new();
    for (i, handler) in handlers.into_iter().enumerate() {
        let Some(Whose::Composition(text)) = &handler.protocol else {
            continue;
        };
        let found = find(text).map_err(|e| (i, e))?;
        if let Some(what) = named.iter().find_map(|other| mistaken(&found, other)) {
            return Err((i, what));
        }
        kinds.to_mut().headers.add(text, found.header());
        named.push(found);
    }
    Ok(kinds)
}

/// Why a handler cannot be asked about one composition's packets and not another's, if no node
/// could tell them apart. Variants of one composition are of one name.
pub fn mistaken(meant: &Protocol, other: &Protocol) -> Option<String> {
    let (a, b) = (&meant.ends, &other.ends);
    if a.name == b.name || !meant.select().meets(&other.select()) {
        return None;
    }
    let apart = match a.number {
        TCP => "",
        _ => ", or give one of them another number",
    };
    Some(format!(
        "{} and {} have packets of one kind (IP protocol {}), so no node could tell which to ask the \
         handler about; write protocol = {} to mean both{apart}",
        a.name, b.name, a.number, a.number
    ))
}
