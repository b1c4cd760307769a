//! What leads packets to the handlers, until it is dropped.

use super::routes::Routes;
use super::rules::Rules;
use super::unseen::Counts;

/// Rules that send packets to queues, or routes that lead to TUN devices.
pub enum Lead {
    /// For NFQUEUE.
    Rules(Rules),
    /// For TUN devices.
    Routes(Routes),
}

impl Lead {
    /// What was sent to the handlers so far, by hook; `None` if that can't be told.
    pub(super) fn counts(&mut self) -> Option<Counts> {
        match self {
            Lead::Rules(rules) => rules.counts(),
            Lead::Routes(_) => None,
        }
    }
}

impl From<Rules> for Lead {
    fn from(rules: Rules) -> Lead {
        Lead::Rules(rules)
    }
}

impl From<Routes> for Lead {
    fn from(routes: Routes) -> Lead {
        Lead::Routes(routes)
    }
}
