#!/usr/bin/env bash
# Counts the processor's instructions per data segment in the engine, its acknowledgement and both
# endpoints included, and per packet that a simulated relay forwards, and compares them with
# crates/wifu-testkit/instructions.txt. Instructions under valgrind are the same on a busy machine
# as on an idle one; wall time is not. Segments of 200 octets show the engine's own cost; full ones
# add copies and checksums.
#
#   scripts/count.sh            fails if anything takes 4 % more than is written there
#   scripts/count.sh --update   writes what it counts
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"
book=crates/wifu-testkit/instructions.txt
few=2000 many=12000
specs="tcp-tahoe,mss=200 tcp-reno,mss=200 tcp-newreno,mss=200 tcp-sack,mss=200 tcp-cubic,mss=200
    tcp-newreno tcp-newreno,mss=200,profile=rfc-modern"
# No handler anywhere; one at a hook that is not in the packet's way; one that sees it.
hooks="bare overheard forward"
# valgrind counts each octet of a `rep movsb`, with which the C library copies long blocks.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824

cargo build --quiet --release --locked -p wifu-testkit -p wifu-sim \
    --example engine_cost --example forward_cost
programs=${CARGO_TARGET_DIR:-target}/release/examples

# total PROGRAM ARGUMENT...: instructions of a whole run.
total() {
    timeout --foreground 120 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$programs/$@" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

counted=$(
    for spec in $specs; do
        run="engine_cost $spec"
        # It ends with a window, not with a number: as many segments as it says.
        segments=$(($("$programs"/$run $many) - $("$programs"/$run $few)))
        echo "$spec $((($(total $run $many) - $(total $run $few)) / segments))"
    done
    for hook in $hooks; do
        run="forward_cost $hook"
        packets=$(($("$programs"/$run 3) - $("$programs"/$run 1)))
        echo "forward,$hook $((($(total $run 3) - $(total $run 1)) / packets))"
    done
)
if [ "${1:-}" = --update ]; then
    printf '%s\n' "# Instructions per data segment, and per packet that a relay forwards; written" \
        "# by scripts/count.sh --update. Before nodes ran hop protocols (922d775): 865 to forward, 4109 for" \
        "# tcp-newreno,mss=200 and 4500 for tcp-cubic,mss=200, without optimization across crates." "$counted" > "$book"
fi
join <(grep -v '^#' "$book" | sort) <(sort <<< "$counted") | awk -v count="$(wc -w <<< "$specs $hooks")" '
    {
        change = 100 * ($3 / $2 - 1)
        per = $1 ~ /^forward,/ ? "packet" : "segment"
        printf "%-38s %6d instructions per %s (%+.1f %%)\n", $1, $3, per, change
        counted[$1] = $3
        if (change > 4) worse = worse " " $1
        if (change < -4) better = better " " $1
    }
    END {
        if (NR != count) { print "a count is missing from the book"; exit 1 }
        # Whether there is a handler at another hook is all that a packet may cost.
        if (counted["forward,overheard"] > counted["forward,bare"] + 5) {
            print "a handler at a hook that a packet does not pass costs it instructions"
            exit 1
        }
        if (better) print "better:" better "; scripts/count.sh --update keeps it so"
        if (worse) {
            print "more than 4 % worse:" worse
            print "Find out why (valgrind --tool=callgrind), or accept it by --update and say why."
            exit 1
        }
    }'
