"""A sender's capture as a script for the example `replay` of wifu-testkit.

  tcpdump -p -s 120 -w sender.pcap tcp      at the sender, from before its connection
  python3 tools/capture_script.py sender.pcap --so-flags tcp-linux,profile=linux > sender.pkt

Written are the packets of that connection in which most was sent, without their data; numbers are
relative, times count from its SYN. A packet that the sender's own interface shows again, because it
overheard how it was forwarded, is left out. Needs tshark.
"""

from __future__ import annotations

import argparse
import collections
import subprocess
import sys

FIELDS = {
    "time": "frame.time_epoch",
    "stream": "tcp.stream",
    "src": "ip.src",
    "id": "ip.id",
    "syn": "tcp.flags.syn",
    "ack_set": "tcp.flags.ack",
    "fin": "tcp.flags.fin",
    "rst": "tcp.flags.reset",
    "psh": "tcp.flags.push",
    "seq": "tcp.seq",
    "ack": "tcp.ack",
    "len": "tcp.len",
    "window": "tcp.window_size_value",
    "mss": "tcp.options.mss_val",
    "wscale": "tcp.options.wscale.shift",
    "sack_perm": "tcp.options.sack_perm",
    "ts": "tcp.options.timestamp.tsval",
    "echo": "tcp.options.timestamp.tsecr",
    "left": "tcp.options.sack_le",
    "right": "tcp.options.sack_re",
}


def packets(path: str) -> list[dict[str, str]]:
    """What tshark reads in the file."""
    command = ["tshark", "-r", path, "-Y", "tcp && ip", "-T", "fields", "-E", "separator=;"]
    for field in FIELDS.values():
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr.strip() or 'tshark cannot read it'}")
    lines = done.stdout.splitlines()
    return [dict(zip(FIELDS, line.split(";"), strict=True)) for line in lines]


def is_set(flag: str) -> bool:
    """A flag as any version of tshark writes it."""
    return flag in ("1", "True")


def written(packet: dict[str, str], begun: float, stamps: tuple[int, int], out: bool) -> str:
    """The packet's line."""
    flags = "".join(
        letter
        for name, letter in (("fin", "F"), ("syn", "S"), ("rst", "R"), ("psh", "P"))
        if is_set(packet[name])
    )
    flags += "." if is_set(packet["ack_set"]) else ""
    seq, size = int(packet["seq"]), int(packet["len"])
    options = []
    if packet["mss"]:
        options.append(f"mss {packet['mss']}")
    if packet["sack_perm"]:
        options.append("sackOK")
    if packet["ts"]:
        own, other = stamps if out else stamps[::-1]
        echo = int(packet["echo"])
        value = (int(packet["ts"]) - own) % 2**32
        options.append(f"TS val {value} ecr {(echo - other) % 2**32 if echo else 0}")
    if packet["wscale"]:
        options.append(f"nop,wscale {packet['wscale']}")
    if packet["left"]:
        ends = zip(packet["left"].split(","), packet["right"].split(","), strict=True)
        options.append("sack " + " ".join(f"{a}:{b}" for a, b in ends))
    ack = f" ack {packet['ack']}" if is_set(packet["ack_set"]) else ""
    return (
        f"{float(packet['time']) - begun:.6f} {'>' if out else '<'} {flags} "
        f"{seq}:{seq + size}({size}){ack} win {packet['window']} <{','.join(options)}>"
    )


def main() -> None:
    """The script, to the standard output."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", help="pcap or pcapng file of the sender")
    parser.add_argument("--so-flags", metavar="SPEC", help="the composition to play it against")
    parser.add_argument("--seconds", type=float, default=1e9, help="no more than the first N s")
    args = parser.parse_args()
    every = packets(args.capture)
    sizes: collections.Counter[str] = collections.Counter()
    for packet in every:
        sizes[packet["stream"]] += int(packet["len"])
    if not sizes:
        sys.exit(f"{args.capture}: no TCP over IPv4 in it")
    stream = sizes.most_common(1)[0][0]
    flow = [p for p in every if p["stream"] == stream]
    syn = flow[0]
    if not is_set(syn["syn"]) or is_set(syn["ack_set"]):
        sys.exit(f"{args.capture}: its largest connection began before the capture")
    answers = (p for p in flow if p["src"] != syn["src"] and p["ts"])
    other = next(answers, None)
    # Small numbers; 0 would mean that nothing is echoed.
    stamps = tuple(int(p["ts"] or 0) - 1 if p else 0 for p in (syn, other))
    begun = float(syn["time"])
    if args.so_flags:
        print(f'--so_flags="{args.so_flags}"')
    seen = set()
    for packet in flow:
        if packet["src"] == syn["src"]:
            same = (packet["id"], packet["seq"], packet["ack"], packet["ts"])
            if same in seen:
                continue
            seen.add(same)
        if float(packet["time"]) - begun > args.seconds:
            break
        print(written(packet, begun, (stamps[0], stamps[1]), packet["src"] == syn["src"]))


if __name__ == "__main__":
    main()
