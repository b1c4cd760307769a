#!/usr/bin/env bash
# Makes two lists of targets at once: scripts/meanwhile.sh 'TARGET...' 'TARGET...'. Tests by the real
# clock leave the processors idle most of the time. The second list takes that time, in a scheduling
# class that yields to all else at once; what it says comes when it has ended. Whichever fails first
# ends the other one.
set -euo pipefail
cd "$(dirname "$0")/.."
make=${MAKE:-make}
said=$(mktemp)
# Each is a session of its own, to be ended with all that it started. Shells let what they start in
# the background ignore Ctrl-C, by which tests stop programs.
apart=(env --default-signal=INT,QUIT setsid)
# shellcheck disable=SC2086
"${apart[@]}" "$make" $1 &
first=$!
# shellcheck disable=SC2086
"${apart[@]}" chrt --idle 0 "$make" $2 > "$said" 2>&1 &
second=$!
end() {
    for one in "$first" "$second"; do
        kill -INT -- "-$one" 2> /dev/null || true
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
