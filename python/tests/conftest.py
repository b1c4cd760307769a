import signal
import sys
from pathlib import Path

import pytest

import wifu
from wifu import plan as plans

sys.path.insert(0, str(Path(__file__).parent))

# A shell that starts its jobs in the background lets them ignore Ctrl-C, and so all that they
# start; tests stop programs by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    """What came out of `fake.CHAIN`; nobody changes it."""
    from fake import CHAIN, fake

    return wifu.campaign(plans.parse(CHAIN), tmp_path_factory.mktemp("f") / "r", runner=fake)


@pytest.fixture(scope="session")
def probed(tmp_path_factory: pytest.TempPathFactory) -> wifu.Results:
    """Results in which datagrams meet a transfer."""
    from fake import PROBED

    return wifu.campaign(plans.parse(PROBED), tmp_path_factory.mktemp("p") / "r")
