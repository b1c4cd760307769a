//! WiFu Transport's engine: connections composed of parts, sans-IO.
