"""WiFu's lab: run transport protocols over simulated 802.11 meshes, and see what came out.

import wifu
run = wifu.run({"topology": {"words": "linear,4"}, "flow": [...]})
run.to_pandas()

results = wifu.load("out/lab/chains-tb-a")   # what `wifu-lab run` wrote
results.summary("goodput")
"""

from wifu.api import Results, Run, campaign, load, run
from wifu.errors import LabError, PlanError, ReplicateError
from wifu.frames import read_frames
from wifu.plan import Plan
from wifu.plan import load as load_plan
from wifu.plan import parse as parse_plan

__all__ = [
    "LabError",
    "Plan",
    "PlanError",
    "ReplicateError",
    "Results",
    "Run",
    "campaign",
    "load",
    "load_plan",
    "parse_plan",
    "read_frames",
    "run",
]
