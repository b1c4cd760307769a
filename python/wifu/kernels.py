"""What a flow over the kernel's TCP needs of a host's kernel."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from wifu.errors import RunError
from wifu.flows import Flow
from wifu.places import Place

ROUTES = "119"
"""The number under which routes that we make stand in the kernel's tables (`proto`)."""


def check_kernel(flows: Sequence[Flow], place: Place) -> None:
    """An error if the kernel of a host lacks a congestion control."""
    for name in sorted({f.congestion for f in flows if f.kernel}):
        path = "/proc/sys/net/ipv4/tcp_available_congestion_control"
        have = place.run("cat", path).split()
        if name not in have:
            place.undo("sh", "-c", f"modprobe -r tcp_{name} || :")
            with contextlib.suppress(RunError):
                place.run("modprobe", f"tcp_{name}")
            have = place.run("cat", path).split()
        if name not in have:
            raise RunError(
                f"{place.name}: this kernel has no congestion control {name}; "
                f"it has {', '.join(have)}"
            )


def acknowledge_all(place: Place, sender: str) -> None:
    """Have a host's kernel acknowledge every segment of a sender: a property of a route.

    Ours goes before those that are there, which stay as they are. It is told from them by who made
    it, so that giving back takes no other, and minds neither that there is none nor one left over.
    """
    remove = ("ip", "route", "flush", "exact", f"{sender}/32", "proto", ROUTES)
    place.undo(*remove)
    place.run(*remove)
    known = json.loads(place.run("ip", "-j", "route", "get", sender))[0]
    words = ["via", known["gateway"]] if "gateway" in known else []
    words += ["dev", known["dev"], "src", known["prefsrc"], "quickack", "1"]
    place.run("ip", "route", "prepend", f"{sender}/32", *words, "proto", ROUTES)
