# Waits until a word stands in one of some files: await.sh WORD FILE... For 20 s at most: a server
# that could not start never says it.
word=$1
shift
for _ in $(seq 400); do
    grep -qs "$word" "$@" && exit 0
    sleep 0.05
done
echo "no '$word' in $* after 20 s:" >&2
cat "$@" >&2
exit 1
