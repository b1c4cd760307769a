//! Timing of 802.11a, b and g (spec 11.1).
