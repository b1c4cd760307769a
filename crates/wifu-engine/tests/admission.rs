//! The endpoint knows no protocol's opening or closing: who opens a connection is asked of its
//! manager.

use std::fs::{read_dir, read_to_string};
use std::path::Path;

#[test]
fn the_endpoint_names_neither_flags_nor_a_state_of_any_protocol() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/endpoint");
    let mut files = 0;
    for entry in read_dir(folder).expect("the endpoint").flatten() {
        let text = read_to_string(entry.path()).expect("a source file");
        files += 1;
        for word in ["Flags", "State::", "head.ack", "head.seq"] {
            let line = text.lines().position(|l| l.contains(word));
            assert_eq!(line, None, "{word} in {}", entry.path().display());
        }
    }
    assert!(files > 5);
}
