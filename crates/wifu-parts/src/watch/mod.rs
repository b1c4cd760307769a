//! What watches the path.
