#!/bin/sh
# Compiles the BPF programs in this folder with Debian's clang (apt-get install clang-14 llvm-14).
# The objects are kept in the repository: users need no compiler.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
for program in *.bpf.c; do
    object="$out/${program%.c}.o"
    clang-14 -g -O2 -Wall -Werror -target bpf "-ffile-prefix-map=$PWD=." -c "$program" -o "$object"
    # Line numbers stay, the debugger's own sections go.
    llvm-strip-14 -g "$object"
done
