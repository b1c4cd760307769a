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
cargo run --quiet --locked -p wifu-testkit --example fuzz_dict -- "$dictionaries"
for target in $(cargo +nightly fuzz list); do
    echo "fuzz: $target, $seconds s"
    options=(-max_total_time="$seconds" -print_final_stats=0 -verbosity=0 -rss_limit_mb=2048)
    if [ -f "$dictionaries/$target.dict" ]; then
        options+=(-dict="$PWD/$dictionaries/$target.dict")
    fi
    cargo +nightly fuzz run "$target" -- "${options[@]}"
done
