//! A handler that does at random what handlers may do: holds packets, keeps copies, sends them,
//! makes packets of its own, changes and drops.

use wifu_core::{Handler, Hook, HopCx, LinkTo, Packet, Verdict};
use wifu_wire::{Rng, Span};

/// How often [`Wild`] does what: one packet in so many; zero is never.
#[derive(Clone, Copy, Debug)]
pub struct Odds {
    /// Keep a copy.
    pub copies: u64,
    /// Let a copy go, or send it.
    pub uses: u64,
    /// Hold the packet.
    pub holds: u64,
    /// Let a held packet go, one in four of them as a drop.
    pub releases: u64,
    /// Send the packet's octets anew, sometimes cut so short that they are none.
    pub sends: u64,
    /// Change an octet that no checksum but the IP header's covers.
    pub changes: u64,
    /// Make the packet longer than devices take: it is lost.
    pub grows: u64,
    /// Drop the packet.
    pub drops: u64,
    /// Packets that it holds at most, and copies.
    pub most: usize,
    /// A held packet is let go within so long.
    pub patience: Span,
    /// A copy is let go within so long.
    pub memory: Span,
}

impl Odds {
    /// Nothing of all that.
    pub const NEVER: Odds = Odds {
        copies: 0,
        uses: 0,
        holds: 0,
        releases: 0,
        sends: 0,
        changes: 0,
        grows: 0,
        drops: 0,
        most: 0,
        patience: Span::ZERO,
        memory: Span::ZERO,
    };
}

/// The handler. Nothing that it holds or keeps stays for good; it does not listen when it is told
/// that it lost something, and lets that go all the same.
pub struct Wild {
    odds: Odds,
    held: Vec<u64>,
    copies: Vec<u64>,
}

/// Its timers: for what it holds, and for what it keeps.
const HELD: u8 = 0;
const KEPT: u8 = 1;

impl Wild {
    /// One that has met nothing yet.
    pub fn new(odds: Odds) -> Wild {
        Wild {
            odds,
            held: Vec::new(),
            copies: Vec::new(),
        }
    }

    fn copies(&mut self, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) {
        let odds = self.odds;
        if self.copies.len() < odds.most
            && once_in(odds.copies, cx.rng)
            && let Some(copy) = packet.copy()
        {
            self.copies.push(copy);
            let at = cx.now + Span(cx.rng.below(odds.memory.0.max(1)));
            cx.arm(KEPT, at);
        }
        if self.copies.is_empty() || !once_in(odds.uses, cx.rng) {
            return;
        }
        let copy = self.copies.swap_remove(0);
        match cx.rng.below(3) {
            0 => cx.drop_kept(copy),
            1 => {
                cx.send_kept(copy, true, LinkTo::All);
                self.copies.push(copy);
            }
            _ => cx.send_kept(copy, false, LinkTo::Route),
        }
    }

    fn sends(&mut self, packet: &Packet<'_>, cx: &mut HopCx<'_>) {
        if !once_in(self.odds.sends, cx.rng) {
            return;
        }
        let whole = packet.octets();
        let cut = once_in(8, cx.rng).then(|| cx.rng.below(20) as usize);
        let octets = &whole[..cut.unwrap_or(whole.len()).min(whole.len())];
        let to = packet.transmitter.filter(|_| once_in(4, cx.rng));
        cx.send(octets, to.map_or(LinkTo::Route, LinkTo::Neighbour));
    }
}

impl Handler for Wild {
    fn on_packet(&mut self, hook: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let odds = self.odds;
        self.copies(packet, cx);
        if !self.held.is_empty() && once_in(odds.releases, cx.rng) {
            let held = self.held.swap_remove(0);
            let verdict = match cx.rng.below(4) {
                0 => Verdict::Drop("wild"),
                _ => Verdict::Accept,
            };
            cx.release(held, verdict);
        }
        self.sends(packet, cx);
        if once_in(odds.changes, cx.rng) {
            // Type of service: nobody looks at it.
            packet.octets_mut()[1] ^= 4;
        }
        if once_in(odds.grows, cx.rng) {
            packet.replace(&[0x45; 1_600]);
            return Verdict::Accept;
        }
        // What is overheard is nobody's to hold.
        if hook != Hook::Overheard && self.held.len() < odds.most && once_in(odds.holds, cx.rng) {
            self.held.push(packet.ticket);
            let at = cx.now + Span(cx.rng.below(odds.patience.0.max(1)));
            cx.arm(HELD, at);
            return Verdict::Hold;
        }
        match (once_in(odds.drops, cx.rng), hook) {
            (true, Hook::Overheard) => Verdict::Drop("nobody's"),
            (true, _) => Verdict::Drop("wild"),
            (false, _) => Verdict::Accept,
        }
    }

    fn on_timer(&mut self, timer: u8, cx: &mut HopCx<'_>) {
        match timer {
            HELD => self
                .held
                .drain(..)
                .for_each(|held| cx.release(held, Verdict::Accept)),
            _ => self.copies.drain(..).for_each(|copy| cx.drop_kept(copy)),
        }
    }
}

fn once_in(odds: u64, rng: &mut Rng) -> bool {
    odds > 0 && rng.below(odds) == 0
}
