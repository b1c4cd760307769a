//! Limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open files to `needed`, or as far as it may be without a number; it is
/// never lowered. Where it stays below, opening what is beyond it fails with the reason.
pub fn allow_descriptors(needed: Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    let Some(raised) = raised(limit.current, limit.maximum, needed) else {
        return;
    };
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: raised,
            ..limit
        },
    );
}

/// The limit to set, if it is not high enough; in limits `None` is infinity.
fn raised(current: Option<u64>, most: Option<u64>, needed: Option<u64>) -> Option<Option<u64>> {
    let current = current?;
    let wanted = match (needed, most) {
        (None, most) => most,
        (Some(needed), None) => Some(needed),
        (Some(needed), Some(most)) => Some(needed.min(most)),
    };
    wanted
        .is_none_or(|wanted| wanted > current)
        .then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_as_far_as_needed_and_allowed_and_never_lowered() {
        assert_eq!(raised(Some(1024), Some(4096), None), Some(Some(4096)));
        assert_eq!(raised(Some(1024), None, None), Some(None));
        assert_eq!(raised(Some(1024), Some(4096), Some(2000)), Some(Some(2000)));
        assert_eq!(raised(Some(1024), Some(4096), Some(5000)), Some(Some(4096)));
        assert_eq!(raised(Some(1024), None, Some(5000)), Some(Some(5000)));
        for (most, needed) in [
            (Some(4096), Some(500)),
            (Some(1024), None),
            (Some(1024), Some(9)),
        ] {
            assert_eq!(raised(Some(1024), most, needed), None);
        }
        assert_eq!(raised(None, None, Some(5000)), None);
    }
}
