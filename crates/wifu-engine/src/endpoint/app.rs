//! Application calls.

use super::*;

impl Endpoint {
    /// Start a connection. Port 0 of `local` asks for an ephemeral port (RFC 6056: random start).
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Time,
        blueprint: &Arc<Blueprint>,
        local: SocketAddrV4,
        remote: SocketAddrV4,
    ) -> Result<ConnId, ConnectError> {
        let proto = blueprint.number;
        let tuple = |port| Tuple {
            proto,
            local: SocketAddrV4::new(*local.ip(), port),
            remote,
        };
        let answers = admission(blueprint);
        let id = self.identifier(answers, &tuple(local.port()));
        let port = if local.port() != 0 {
            if let Some(i) = self.holder(answers, &tuple(local.port()), id) {
                if !self.slots[i as usize].rests {
                    return Err(ConnectError::InUse(local));
                }
                self.give_way(now, i);
            }
            local.port()
        } else {
            const FIRST: u64 = 32_768;
            const COUNT: u64 = 28_232;
            let start = self.rng.next_u64();
            let ports = (0..COUNT).map(|k| (FIRST + (start.wrapping_add(k)) % COUNT) as u16);
            let mut free = ports.filter(|p| {
                self.holder(answers, &tuple(*p), id).is_none()
                    && self.listeners.find(proto, tuple(*p).local).is_none()
            });
            free.next().ok_or(ConnectError::NoPorts)?
        };
        let i = self.open(now, blueprint, tuple(port), id)?;
        if let Some(conn) = self.slots[i as usize].conn.as_mut() {
            conn.connect(now);
        }
        self.touch(i);
        Ok(self.id(i))
    }

    /// The identifier of the next connection that we open; not one that the peer's address has.
    fn identifier(&self, answers: &dyn Admission, ends: &Tuple) -> u32 {
        if !answers.draws_identifier() {
            return 0;
        }
        let mut drawn = self.rng.split("conn-id").split_n(self.opened);
        loop {
            let id = drawn.next_u32();
            if id != 0 && !self.demux.contains_key(&answers.key(ends, id)) {
                return id;
            }
        }
    }

    /// Who occupies the place of a connection between these ends.
    pub(super) fn holder(&self, answers: &dyn Admission, ends: &Tuple, id: u32) -> Option<u32> {
        let (key, place) = (answers.key(ends, id), answers.place(ends, id));
        let found = self.demux.get(&key);
        let found = found.or_else(|| self.places.get(&place).filter(|_| place != key));
        found.copied()
    }

    /// Append octets; returns how many fitted.
    pub fn write(&mut self, now: Time, id: ConnId, bytes: &[u8]) -> usize {
        self.with(id, |c| c.write(now, bytes)).unwrap_or(0)
    }

    /// See [`Conn::write_space`].
    pub fn write_space(&mut self, id: ConnId) -> [&mut [u8]; 2] {
        match self.slot(id).and_then(|s| s.conn.as_mut()) {
            Some(conn) => conn.write_space(),
            None => [&mut [], &mut []],
        }
    }

    /// `n` octets of the space were filled.
    pub fn wrote(&mut self, now: Time, id: ConnId, n: usize) {
        self.with(id, |c| c.wrote(now, n));
    }

    /// Take octets; returns how many there were.
    pub fn read(&mut self, now: Time, id: ConnId, out: &mut [u8]) -> usize {
        self.with(id, |c| c.read(now, out)).unwrap_or(0)
    }

    /// What can be read, in two pieces.
    pub fn readable(&self, id: ConnId) -> [&[u8]; 2] {
        self.conn(id).map_or([&[], &[]], Conn::readable)
    }

    /// `n` octets of [`Endpoint::readable`] were taken.
    pub fn consumed(&mut self, now: Time, id: ConnId, n: usize) {
        self.with(id, |c| c.consumed(now, n));
    }

    /// The application writes no more.
    pub fn shutdown_write(&mut self, now: Time, id: ConnId) {
        self.with(id, |c| c.shutdown_write(now));
    }

    /// The application is gone: the connection ends in order, nobody hears of it any more.
    pub fn close(&mut self, now: Time, id: ConnId) {
        let Some(slot) = self.slot(id) else { return };
        slot.orphan = true;
        if slot.ended {
            return self.remove(id.index);
        }
        self.with(id, |c| c.close(now));
    }

    /// Destroy the connection: the peer gets a RST.
    pub fn abort(&mut self, now: Time, id: ConnId) {
        let Some(slot) = self.slot(id) else { return };
        slot.orphan = true;
        if slot.ended {
            return self.remove(id.index);
        }
        self.with(id, |c| c.abort(now));
    }

    /// Change a parameter of a connection at run time.
    ///
    /// # Errors
    /// See [`Conn::set_param`].
    pub fn set_param(&mut self, id: ConnId, name: &str, text: &str) -> Result<Value, ConfigError> {
        let gone = || Err(ConfigError::one(name, "the connection is gone"));
        self.with(id, |c| c.set_param(name, text))
            .unwrap_or_else(gone)
    }

    pub(super) fn with<R>(&mut self, id: ConnId, call: impl FnOnce(&mut Conn) -> R) -> Option<R> {
        let conn = self.slot(id)?.conn.as_mut()?;
        let result = call(conn);
        self.touch(id.index);
        Some(result)
    }
}
