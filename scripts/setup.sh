#!/usr/bin/env bash
# Installs what a target of the Makefile needs, and nothing that is there already.
#
#   scripts/setup.sh build lint test apps demo emu bench docs fuzz audit python lab suites
#
# Written for Debian 12. Everything that it installs has a name in this file: packages of Debian, the
# Rust toolchain of rust-toolchain.toml, two cargo tools, and the Python packages of tools/*.lock and
# python/*.lock in .venv. Without root it uses sudo, and says what is missing where that does not
# exist either.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"

MDBOOK=0.5.4
CARGO_FUZZ=0.13.2

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif have sudo; then sudo "$@"
    else die "this needs root, and there is no sudo: $*"
    fi
}

# packages COMMAND PACKAGE [COMMAND PACKAGE]...: install the packages whose command is missing.
packages() {
    local missing=()
    while [ $# -gt 0 ]; do
        have "$1" || missing+=("$2")
        shift 2
    done
    [ ${#missing[@]} = 0 ] && return
    have apt-get || die "not a Debian system; please install: ${missing[*]}"
    say "installing ${missing[*]}"
    as_root apt-get -qq update
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# without_service COMMAND PACKAGE SERVICE [COMMAND PACKAGE SERVICE]...: Debian's packages start their
# daemons (nginx on port 80) at once and at every boot. We want the programs only.
without_service() {
    local missing=() services=()
    while [ $# -gt 0 ]; do
        have "$1" || { missing+=("$1" "$2"); services+=("$3"); }
        shift 3
    done
    [ ${#missing[@]} = 0 ] && return
    local policy=/usr/sbin/policy-rc.d ours=0
    if [ ! -e $policy ]; then
        ours=1
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
    fi
    local failed=0
    packages "${missing[@]}" || failed=1
    [ $ours = 1 ] && as_root rm -f $policy
    [ $failed = 0 ] || die "could not install what ${missing[*]} stand for"
    have systemctl || return 0
    local service
    for service in "${services[@]}"; do
        as_root systemctl disable --quiet "$service" 2>/dev/null || true
    done
}

# From the host that the toolchains come from as well, so that one that can be reached is enough, and
# checked against the sum that lies beside it. A bare Debian has neither curl nor certificates.
rustup_itself() {
    packages curl curl update-ca-certificates ca-certificates
    local host from dir
    host=$(uname -m)-unknown-linux-gnu
    from=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}/dist/$host
    dir=$(mktemp -d)
    say "installing rustup ($from)"
    (
        trap 'rm -rf "$dir"' EXIT
        cd "$dir"
        for file in rustup-init rustup-init.sha256; do
            curl --proto '=https' --tlsv1.2 -sSf --retry 3 -o $file "$from/$file" ||
                die "cannot fetch $from/$file; install rustup by hand (https://rustup.rs), then again"
        done
        echo "$(cut -d ' ' -f 1 rustup-init.sha256)  rustup-init" | sha256sum --check --quiet ||
            die "rustup-init does not have the checksum that $from/rustup-init.sha256 states"
        chmod +x rustup-init
        ./rustup-init -y --quiet --no-modify-path --profile minimal --default-toolchain none
    )
}

toolchain() {
    packages cc build-essential
    local want
    want=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if have cargo && cargo --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return
    fi
    have rustup || rustup_itself
    say "installing Rust $want"
    rustup toolchain install "$want" --profile minimal --component clippy --component rustfmt
}

nightly_toolchain() {
    toolchain
    rustup toolchain list | grep -q '^nightly' ||
        rustup toolchain install nightly --profile minimal
}

# cargo_tool COMMAND CRATE VERSION
cargo_tool() {
    have "$1" && return
    toolchain
    say "building $2 $3 (once, a few minutes)"
    cargo install --quiet --locked "$2" --version "$3"
}

# venv LOCKFILE: the packages of a lock file, in .venv. The stamp is a copy of what was installed.
venv() {
    local lock=$1 stamp
    stamp=.venv/$(echo "$lock" | tr / -).installed
    cmp -s "$lock" "$stamp" && return
    packages python3 python3
    if [ ! -x .venv/bin/pip ]; then
        python3 -c 'import ensurepip' 2>/dev/null || packages no-such-command python3-venv
        python3 -m venv .venv
    fi
    say "installing the Python packages of $lock"
    .venv/bin/pip install --quiet --disable-pip-version-check --requirement "$lock"
    cp "$lock" "$stamp"
}

purpose() {
    case $1 in
        build | lint) toolchain ;;
        python) venv tools/requirements.lock ;;
        lab) toolchain; venv tools/requirements.lock; venv python/requirements.lock ;;
        audit) packages git git xz xz-utils; venv tools/audit.lock ;;
        fuzz) nightly_toolchain; cargo_tool cargo-fuzz cargo-fuzz "$CARGO_FUZZ" ;;
        docs) toolchain; cargo_tool mdbook mdbook "$MDBOOK" ;;
        demo)
            toolchain; without_service nginx nginx-light nginx
            packages ip iproute2 curl curl
            venv tools/requirements.lock
            ;;
        # What the book types on emulated hosts, and what handlers there need.
        emu)
            packages ip iproute2 iptables iptables ping iputils-ping tcpdump tcpdump iperf3 iperf3
            ;;
        bench)
            toolchain
            packages ip iproute2 iptables iptables iperf3 iperf3 ethtool ethtool ns ns2
            venv tools/requirements.lock
            ;;
        test)
            toolchain
            without_service nginx nginx-light nginx babeld babeld babeld sshd openssh-server ssh
            packages ip iproute2 iptables iptables curl curl wget wget iperf3 iperf3 socat socat \
                ethtool ethtool tshark tshark valgrind valgrind python3 python3 sysctl procps \
                ping iputils-ping tcpdump tcpdump nft nftables ssh openssh-client
            ;;
        apps)
            # It is not in PATH.
            local initdb=(/usr/lib/postgresql/*/bin/initdb)
            without_service "${initdb[0]}" postgresql-15 postgresql \
                redis-server redis-server redis-server haproxy haproxy haproxy \
                vsftpd vsftpd vsftpd
            packages redis-cli redis-tools psql postgresql-client-15 wrk wrk \
                apache2 apache2-bin ab apache2-utils node nodejs javac openjdk-17-jdk-headless \
                mariadbd mariadb-server-core mariadb mariadb-client-core
            ;;
        suites)
            toolchain
            packages ip iproute2 cmake cmake pkill procps setpriv util-linux python3 python3
            [ -e /usr/lib/python3.11/test/test_socket.py ] ||
                packages no-such-command libpython3.11-testsuite
            venv tools/requirements.lock
            ;;
        *) die "unknown purpose '$1'; see the head of scripts/setup.sh" ;;
    esac
}

[ $# -gt 0 ] || die "say for what: build lint test apps demo emu bench docs fuzz audit python lab suites"
for p in "$@"; do purpose "$p"; done
