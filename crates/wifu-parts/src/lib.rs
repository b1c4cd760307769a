//! The parts of WiFu Transport's protocols and the named compositions.
