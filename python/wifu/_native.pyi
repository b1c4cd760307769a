"""The simulator, compiled (crates/wifu-py)."""

__version__: str

class RunResult:
    """What one run gave."""

    def json(self) -> str:
        """The outcome as JSON; the same for the same scenario, octet for octet. If the scenario
        records frames, `why` says why attempts failed.
        """
    def series_names(self) -> list[str]:
        """Names of the recorded series, sorted."""
    def series(self, name: str) -> bytes:
        """Pairs of little-endian doubles (time in s, value); KeyError if there is none."""
    def frames(self) -> bytes:
        """The frame trace, 32 bytes a record; empty unless the scenario records it."""
    def pcap(self) -> bytes:
        """The capture of all nodes' IP packets as pcapng; empty unless the scenario records it."""

def run(scenario_json: str, compositions: list[str] = ...) -> RunResult:
    """Run a scenario; other threads run meanwhile. ValueError if it means nothing."""

def check_scenario(scenario_json: str, compositions: list[str] = ..., others: bool = ...) -> str:
    """The scenario with everything that it leaves out filled in; ValueError if it means nothing."""

def advice(scenario_json: str) -> list[str]:
    """What a scenario has that is easily taken for something else, as sentences."""

def host_profile(scenario_json: str) -> str:
    """What packets cost the hosts where they begin and end: `off` or `py`."""

def draws(scenario_json: str, names: list[str] = ...) -> str:
    """What is random of each flow: a list of `start_s` and `stream`, as JSON."""

def testbed(scenario_json: str) -> str:
    """The `world` of the set and the flows' `protocols` as they are in it, as JSON."""

def network(scenario_json: str) -> str:
    """The nodes with their radios and the wires of a scenario, defaults and what the testbed says
    in place, and what of them is drawn once for a run, as JSON.
    """

def routes(scenario_json: str, ends: list[tuple[str, str]]) -> str:
    """The routes between pairs of nodes when a scenario begins, as JSON: a list of names each."""

def spurts(words: str, stream: str, payload: int, seconds: float) -> str:
    """When a flow of `onoff` over `udp` sends: `spurts` of (begin, count) and `gap`, as JSON."""

def version() -> str:
    """The version of the simulator."""

def protocols() -> list[str]:
    """Names of the built-in protocols."""

def sets() -> list[str]:
    """Names of the built-in testbed sets."""

def meant(name: str, known: list[str]) -> str | None:
    """The question whether the nearest of `known` was meant, if one is near enough."""

def describe(name: str, compositions: list[str] = ...) -> str:
    """Everything about a protocol, as JSON; ValueError if there is none."""
