"""The trace of frames: what became of each, by `record.frames` or `wifu sim --frames FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wifu.errors import LabError

DTYPE = np.dtype(
    [
        ("time_ns", "<u8"), ("frame", "<u4"), ("node", "<u2"), ("peer", "<u2"), ("what", "u1"),
        ("mode", "u1"), ("tries", "u1"), ("why", "u1"), ("bytes", "<u2"), ("signal", "<i2"),
        ("other", "<u2"), ("kind", "u1"), ("flags", "u1"), ("value", "<u4"),
    ]
)  # fmt: skip
"""One record (crates/wifu-radio/src/trace.rs)."""

WHAT = (
    "queued", "refused", "deferred", "sent", "received", "lost", "captured", "acknowledged",
    "failed", "dropped", "reported", "duplicate",
)  # fmt: skip
"""What happened: the codes of `what`, from 0 on."""

WHY = (
    "", "transmitting", "locked", "weak", "collision", "noise", "captured", "interference", "cut",
)  # fmt: skip
"""Why a frame was lost: the codes of `why`; the first is that it was not."""

KIND = ("data", "ack", "rts", "cts")
"""Kinds of transmissions: the codes of `kind`."""

RATES_MBPS = (1.0, 2.0, 5.5, 11.0, 6.0, 9.0, 12.0, 18.0, 24.0, 36.0, 48.0, 54.0)
"""Rates: the codes of `mode`, those of 802.11b first."""

NOBODY = 0xFFFF
"""Stands for no node in `node`, `peer` and `other`."""

_WITHOUT_RATE = ("queued", "refused", "deferred", "reported", "duplicate")


def read_frames(path: str | Path, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The file that `wifu sim --frames FILE` wrote, one row per event in order of time.

    `time_s`; `frame`: number of the frame in the run; `node`: where; `peer`: the other side;
    `other`: a third station, such as the interferer; `what`, `why`, `kind`: words (`WHAT`, `WHY`,
    `KIND`); `rate_mbps`, nan before the hardware has the frame; `tries`: attempts so far; `retry`:
    whether it was sent before; `unsensed`: whether the sender of a lost frame did not sense `other`
    then (a hidden station); `unheard`: whether it senses `other` on the mean, and yet neither that
    one nor whom it answered began in the same slot; `bytes` of the MPDU; `signal_dbm`: received
    power, nan unless it was received; `value` depends on `what`: how many wait with it (queued),
    slots of back-off (deferred), airtime in ns (sent), ns since it was queued (acknowledged), the
    driver's delay sample in ns (reported).

    Nodes are `n1`, `n2`, ... in the order of the topology, unless `names` says what they are called
    (the file does not); nobody is missing. An error if the file is no such trace.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as e:
        raise LabError(f"{path}: cannot read: {e.strerror}") from None
    try:
        return decode(raw, names)
    except LabError as e:
        raise LabError(f"{path}: {e}") from None


def decode(octets: bytes, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The same of bytes: `read_frames` says what the columns are."""
    if len(octets) % DTYPE.itemsize:
        raise LabError(
            f"{len(octets)} bytes are no multiple of {DTYPE.itemsize}, so this is no trace of "
            "frames, or it was cut"
        )
    raw = np.frombuffer(octets, dtype=DTYPE)
    frame = pd.DataFrame({"time_s": raw["time_ns"] / 1e9, "frame": raw["frame"]})
    nodes = {column: _indices(raw, column) for column in ("node", "peer", "other")}
    highest = max(int(index.max(initial=-1)) for index in nodes.values())
    names = [f"n{i + 1}" for i in range(highest + 1)] if names is None else list(names)
    if highest >= len(names):
        raise LabError(f"there is a node {highest}, counted from 0, and {len(names)} names")
    for column, index in nodes.items():
        # Categories are the same in all three, else they could not be compared.
        frame[column] = pd.Categorical.from_codes(index, names)
    for column, words in (("what", WHAT), ("why", WHY), ("kind", KIND)):
        frame[column] = pd.Categorical.from_codes(_codes(raw, column, len(words)), list(words))
    known = ~frame["what"].isin(_WITHOUT_RATE)
    rates = np.array(RATES_MBPS)[_codes(raw, "mode", len(RATES_MBPS))]
    frame["rate_mbps"] = np.where(known, rates, np.nan)
    frame["tries"] = raw["tries"]
    frame["retry"] = (raw["flags"] & 1).astype(bool)
    frame["unsensed"] = (raw["flags"] & 2).astype(bool)
    frame["unheard"] = (raw["flags"] & 4).astype(bool)
    frame["bytes"] = raw["bytes"]
    frame["signal_dbm"] = np.where(frame["what"] == "received", raw["signal"] / 100.0, np.nan)
    frame["value"] = raw["value"]
    return frame


def _codes(raw: NDArray[Any], column: str, count: int) -> NDArray[Any]:
    codes = raw[column].astype(int)
    if codes.size and codes.max() >= count:
        at = int(np.argmax(codes >= count))
        raise LabError(f"record {at} has a {column} that does not exist; is it a trace of frames?")
    return codes


def _indices(raw: NDArray[Any], column: str) -> NDArray[Any]:
    """-1 is nobody."""
    return np.where(raw[column] == NOBODY, -1, raw[column].astype(int))
