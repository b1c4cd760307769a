#!/usr/bin/env bash
# Runs every fuzz target for some seconds: scripts/fuzz.sh SECONDS. Needs a nightly compiler and
# cargo-fuzz (scripts/setup.sh fuzz). A crash leaves its input in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"
seconds=${1:?say for how many seconds}
# cargo-fuzz has no --locked.
cargo +nightly metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null || {
    echo "fuzz: fuzz/Cargo.lock is behind; 'cargo metadata --manifest-path fuzz/Cargo.toml' renews it" >&2
    exit 1
}
# What the declared headers look for, which chance would hardly find.
dictionaries=fuzz/target/dictionaries
cargo build --quiet --locked --workspace --lib --bins --examples
"${CARGO_TARGET_DIR:-target}/debug/examples/fuzz_dict" "$dictionaries"
# As many at once as there are processors; what one says is printed if it finds something.
cargo +nightly fuzz build
said=fuzz/target/said
mkdir -p "$said"
one() {
    local options=(-max_total_time="$seconds" -print_final_stats=0 -verbosity=0 -rss_limit_mb=2048)
    if [ -f "$dictionaries/$1.dict" ]; then
        options+=(-dict="$PWD/$dictionaries/$1.dict")
    fi
    echo "fuzz: $1, $seconds s"
    if ! cargo +nightly fuzz run "$1" -- "${options[@]}" > "$said/$1" 2>&1; then
        cat "$said/$1" >&2
        echo "fuzz: $1 found something" >&2
        return 1
    fi
}
export -f one
export seconds dictionaries said
cargo +nightly fuzz list | xargs -P "$(nproc)" -I '{}' bash -c 'one {}'
