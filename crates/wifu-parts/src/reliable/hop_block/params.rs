//! What can be set of a lane of blocks.

use wifu_engine::ParamSpec;

pub(super) const PARAMS: &[ParamSpec] = &[
    ParamSpec::int(
        "outstanding",
        1,
        0,
        64,
        "Blocks that a node takes beyond the one that it passes on: H (Hop, \"Backpressure\").",
    ),
    ParamSpec::int(
        "burst",
        8,
        1,
        1_024,
        "Packets of a block that a node has when it begins to pass them on; of a smaller block \
         all (Hop, \"Reliable Per-Hop Block Transfer\", which says a txop's worth).",
    ),
    ParamSpec::int(
        "micro",
        4,
        0,
        64,
        "A block of so many packets goes before anybody was asked (Hop, \"Micro-block \
         Prioritization\").",
    ),
    ParamSpec::int(
        "cache",
        16,
        0,
        1_024,
        "Blocks whose packets a node keeps after they went on, until the destination has all \
         (Hop, \"Virtual Retransmission\").",
    ),
];
