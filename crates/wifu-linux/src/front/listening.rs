//! Listening sockets: from a registration to their end.

use super::listeners::Listener;
use super::memory::Why;
use super::{Context, Front, PROBE_EVERY, Timer};
use wifu_engine::endpoint::ListenId;

impl Front {
    /// Opens a listener in the endpoint and keeps it.
    pub(super) fn register(&mut self, l: Listener, cx: &mut Context<'_>) -> Result<(), Why> {
        while let Some((id, other)) = self.listeners.conflict(l.local) {
            if other.cookie != l.cookie && self.listeners.lives(other) {
                return Err(Why::errno(libc::EADDRINUSE));
            }
            // The same socket again, or one that is gone.
            self.listeners.remove(id);
            cx.endpoint.unlisten(id);
        }
        let blueprint = cx.host.blueprint(&l.spec).map_err(|text| Why {
            errno: libc::EPROTONOSUPPORT,
            text: Some(text),
        })?;
        // The backlog bounds embryonic connections here and complete ones in the kernel's queue;
        // small ones would make bursts of connections lose their SYNs.
        let backlog = (l.backlog as usize).clamp(128, 4096);
        let id = cx
            .endpoint
            .listen(&blueprint, l.local, backlog)
            .map_err(|_| Why::errno(libc::EADDRINUSE))?;
        if self.listeners.is_empty() {
            self.timers.insert((cx.now + PROBE_EVERY, Timer::Probe));
        }
        self.listeners.insert(id, l);
        Ok(())
    }

    pub(super) fn save(&self) {
        if let Err(e) = self.listeners.save(&self.state) {
            let path = self.state.display();
            tracing::warn!("{path}: {e}; a restarted daemon will not know listening sockets");
        }
    }

    /// Drops listeners whose application is gone.
    pub(super) fn probe(&mut self, cx: &mut Context<'_>) {
        let dead: Vec<ListenId> = self
            .listeners
            .iter()
            .filter(|(_, l)| !self.listeners.lives(l))
            .map(|(id, _)| id)
            .collect();
        for id in &dead {
            self.drop_listener(*id, cx);
        }
        if !dead.is_empty() {
            self.save();
        }
        if !self.listeners.is_empty() {
            self.timers.insert((cx.now + PROBE_EVERY, Timer::Probe));
        }
    }

    pub(super) fn probe_one(&mut self, id: ListenId, cx: &mut Context<'_>) {
        if self
            .listeners
            .get(id)
            .is_some_and(|l| !self.listeners.lives(l))
        {
            self.drop_listener(id, cx);
            self.save();
        }
    }

    pub(super) fn drop_listener(&mut self, id: ListenId, cx: &mut Context<'_>) {
        if let Some(l) = self.listeners.remove(id) {
            tracing::debug!("nobody listens at {} any more", l.local);
            self.counters.listeners_gone += 1;
        }
        cx.endpoint.unlisten(id);
    }
}
