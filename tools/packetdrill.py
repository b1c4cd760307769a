#!/usr/bin/env python3
"""Plays packetdrill scripts of others against WiFu's TCP, in virtual time.

Takes scripts, or folders of them, as Google's repository has them in gtests/net/tcp. Their commands
configure a kernel and are left out. Their code in %{ }% looks at `struct tcp_info` and is left out,
too, unless --code is given: what is compared are packets, their times, and what calls return.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# What the scripts' `defaults.sh` makes of a kernel, as a composition; SYNs in Linux's order.
LIKE_LINUX = (
    "tcp-cubic,iw=10,rto_min=200ms,ack_every=1,idle_restart=off,rcv_wnd=15728640,nagle=on"
    ";options=linux"
)
# The same for FreeBSD's, whose scripts also say how large its buffers are.
LIKE_FREEBSD = "tcp-sack,iw=10,rcv_wnd=2097152,rto_min=230ms,ack_every=2"
COMMAND = re.compile(r"^( *\+? *[0-9.]+)?\s*`[^`]*`\s*$", re.MULTILINE)
CODE = re.compile(r"^\s*\+? *[0-9.]+\s*%\{.*?\}%", re.MULTILINE | re.DOTALL)


def stripped(script: str, code: bool) -> str:
    """Return a script without commands, and with its code or not, on the same lines."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    script = COMMAND.sub(blank, script)
    return script if code else CODE.sub(blank, script)


def freebsd(script: str) -> str:
    """Return a script of FreeBSD's as one for any TCP: of its variants the standard one, without
    sizes of buffers, windows, and options on SYNs.

    Raises `ValueError` where its directives do not match: none of it would be left to fail.
    """
    kept, keeps = [], [True]
    for line in script.splitlines():
        # With a blank behind the sign it may be a sentence.
        if found := re.match(r"\s*#(ifdef|ifndef|else|endif|if)\b\s*(\w*)", line):
            if len(keeps) == 1 and found[1] in ("else", "endif"):
                raise ValueError(f"#{found[1]} without #ifdef")
            if found[1] in ("ifdef", "ifndef", "if"):
                keeps.append((found[2] == "STANDARD") != (found[1] == "ifndef"))
            elif found[1] == "else":
                keeps[-1] = not keeps[-1]
            else:
                keeps.pop()
            line = ""
        elif re.search(r"SO_(RCV|SND)BUF", line) or not all(keeps):
            line = ""
        elif re.match(r"\s*[+*]?[0-9.~]*\s*>\s", line):
            line = re.sub(r"\s+win\s+[0-9]+", "", line)
            if re.match(r"\s*[+*]?[0-9.~]*\s*>\s+S", line):
                line = re.sub(r"<[^<]*>\s*$", "<...>", line)
        kept.append(line)
    if len(keeps) > 1:
        raise ValueError("#ifdef without #endif")
    return "\n".join(kept) + "\n"


def play(args: argparse.Namespace, script: Path, folder: Path) -> str:
    """Return the first line of what is wrong, or nothing."""
    copy = folder / script.name
    text = script.read_text()
    try:
        text = freebsd(text) if args.freebsd else text
    except ValueError as e:
        return str(e)
    copy.write_text(stripped(text, args.code))
    flags = [f"--so_flags={args.flags}", f"--so_filename={args.object}"]
    command = [args.program, *flags, str(copy)]
    # Preloaded, the object answers for its sockets where the program asks the C library.
    preload = {"LD_PRELOAD": str(Path(args.object).resolve())} if args.code else {}
    environment = {**os.environ, **preload}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=args.timeout, env=environment
        )
    except subprocess.TimeoutExpired:
        return f"not done after {args.timeout} s"
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("libwifu_packetdrill")]
    what = " | ".join(told[:3]) or f"exit code {done.returncode}"
    return what.replace(f"{copy}:", "line ")


def main() -> int:
    """Play all scripts; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="+", type=Path, help="scripts, or folders of them")
    parser.add_argument("--program", default="packetdrill", help="the program packetdrill")
    parser.add_argument("--object", default="target/debug/libwifu_packetdrill.so", help="WiFu's")
    parser.add_argument("--flags", help=f"composition (default: {LIKE_LINUX})")
    parser.add_argument(
        "--freebsd",
        action="store_true",
        help="scripts of FreeBSD's (github freebsd-net/tcp-testsuite)",
    )
    parser.add_argument("--code", action="store_true", help="keep code in %%{ }%%")
    parser.add_argument("--timeout", type=float, default=30, help="seconds per script (30)")
    args = parser.parse_args()
    args.flags = args.flags or (LIKE_FREEBSD if args.freebsd else LIKE_LINUX)
    if not Path(args.object).is_file():
        parser.error(f"{args.object} is not there: `make packetdrill` builds it")
    scripts = [s for p in args.scripts for s in (sorted(p.rglob("*.pkt")) if p.is_dir() else [p])]
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        for script in scripts:
            try:
                wrong = play(args, script, Path(folder))
            except FileNotFoundError as e:
                parser.error(f"{e.filename} is not there; --program says where packetdrill is")
            passed += not wrong
            name = f"{script.parent.name}/{script.stem}"
            print(f"{name}: {wrong}" if wrong else f"{name}: passed", flush=True)
    print(f"{passed} of {len(scripts)} passed")
    return 0 if passed == len(scripts) else 1


if __name__ == "__main__":
    sys.exit(main())
