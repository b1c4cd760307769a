//! Writes a dictionary for libFuzzer per wire format into a folder: `fuzz_dict FOLDER`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder: PathBuf = std::env::args_os()
        .nth(1)
        .expect("say into which folder")
        .into();
    std::fs::create_dir_all(&folder)?;
    for (target, text) in wifu_testkit::fuzz::dictionaries() {
        std::fs::write(folder.join(format!("{target}.dict")), text)?;
    }
    Ok(())
}
