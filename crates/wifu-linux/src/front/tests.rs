use std::sync::Arc;
use wifu_engine::Blueprint;

pub(super) fn blueprint() -> Arc<Blueprint> {
    wifu_parts::blueprint("tcp-newreno").unwrap()
}
