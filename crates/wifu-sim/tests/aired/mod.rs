//! When data were on the air, of tests of pacing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_radio::OnAir;
use wifu_sim::mesh::{Seen, Tap};

/// A registered composition.
pub fn open(spec: &str) -> Result<Arc<Blueprint>, String> {
    wifu_parts::blueprint(spec).map_err(|e| e.to_string())
}

/// When data left the first node for the first time each, s.
pub struct Air(pub Rc<RefCell<Vec<f64>>>);

impl Tap for Air {
    fn packet(&mut self, _: &Seen<'_>) {}

    fn aired(&mut self, frame: &OnAir, packet: Option<&[u8]>) {
        let data = packet.is_some_and(|p| p.len() > 200);
        if data && frame.from == 0 && !frame.retry {
            self.0.borrow_mut().push(frame.start.as_secs_f64());
        }
    }

    fn wants_air(&self) -> bool {
        true
    }
}
