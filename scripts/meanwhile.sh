#!/usr/bin/env bash
# Makes two lists of targets at once: scripts/meanwhile.sh 'TARGET...' 'TARGET...'. Tests by the real
# clock leave the processors idle most of the time. The second list takes that time, in a scheduling
# class that yields to all else at once; what it says comes when it has ended. Whichever fails first
# ends the other one.
set -euo pipefail
cd "$(dirname "$0")/.."
make=${MAKE:-make}
said=$(mktemp)
# Each is a group of its own, to be ended with all that it started, and does not ignore Ctrl-C, by
# which tests stop programs. Not a session: between those the scheduler shares whatever their classes.
set -m
# shellcheck disable=SC2086
"$make" $1 < /dev/null &
first=$!
# shellcheck disable=SC2086
chrt --idle 0 "$make" $2 < /dev/null > "$said" 2>&1 &
second=$!
end() {
    for how in INT TERM KILL; do
        kill -"$how" -- "-$first" "-$second" 2> /dev/null || break
        for _ in {1..50}; do
            kill -0 -- "-$first" "-$second" 2> /dev/null || break
            sleep 0.1
        done
    done
    wait || true
    rm -f "$said"
}
trap end EXIT
status=0
wait -n -p ended "$first" "$second" || status=$?
if [ "$status" = 0 ] && [ "$ended" = "$first" ]; then
    echo "make $1: passed; waiting for make $2, which says what it does in $said"
    wait "$second" || status=$?
    cat "$said"
elif [ "$status" = 0 ]; then
    wait "$first" || status=$?
    [ "$status" != 0 ] || cat "$said"
elif [ "$ended" = "$second" ]; then
    cat "$said"
fi
exit "$status"
