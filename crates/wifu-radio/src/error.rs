//! Error models (spec 11.3).
