//! Where the programs are that these tests run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Where cargo puts what it builds, `wifu` of WiFu's own workspace beside it.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap().to_path_buf();
    let wifu = built.join("wifu");
    let hint = "`cargo build -p wifu -p wifu-preload` in WiFu's own workspace builds it";
    assert!(wifu.exists(), "{} is not there: {hint}", wifu.display());
    built
}

/// The library, built as a user builds it.
pub fn library() -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let built = built();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked"]);
        cargo.env("CARGO_TARGET_DIR", built.parent().unwrap());
        let cargo = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(cargo.unwrap().success());
    });
    built.join("libhopwise.so")
}
