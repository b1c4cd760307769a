"""Runs network tests that others wrote over WiFu and over the kernel, and lists where they differ.

CPython's test_socket, test_asyncio, test_ssl, test_httpservers and their kin come from Debian's
package libpython3.11-testsuite, libuv's tests from Debian's source package libuv1. Both run in two
network namespaces with nothing but a loopback interface that counts: in one by the kernel's TCP, in
the other under `wifu exec` with a daemon beside. Every test class of CPython, and every test of
libuv, has a process of its own, so that one that hangs costs its own results only.

The comparison goes to the screen and to OUT/suites.md, every result to OUT/suites.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from netlab import Host, Lab, LabError, daemon_answers, main_guard, need, run, wait_for

ROOT = Path(__file__).resolve().parent.parent
MODULES = [
    "test_socket",
    "test_ssl",
    "test_httpservers",
    "test_httplib",
    "test_socketserver",
    "test_selectors",
    "test_ftplib",
    "test_smtplib",
    "test_poplib",
    "test_imaplib",
    "test_urllib2_localnet",
    "test_xmlrpc",
    *(
        f"test_asyncio.{name}"
        for name in (
            "test_events",
            "test_base_events",
            "test_buffered_proto",
            "test_selector_events",
            "test_sendfile",
            "test_server",
            "test_sock_lowlevel",
            "test_ssl",
            "test_sslproto",
            "test_streams",
        )
    ),
]
# libuv's tests refuse to run as root.
ID = 65534
NOBODY = ["setpriv", f"--reuid={ID}", f"--regid={ID}", "--clear-groups"]
# Runs in the namespace, by Python itself: lists classes, or runs one and tells each result.
INSIDE = """\
import json, sys, unittest
what, *words = sys.argv[1:]
def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t
if what == "list":
    for name in words:
        tests = flat(unittest.defaultTestLoader.loadTestsFromName("test." + name))
        seen = dict.fromkeys((type(t).__module__, type(t).__qualname__) for t in tests)
        for module, kind in seen:
            print(module, kind)
    sys.exit()
class Told(unittest.TestResult):
    def tell(self, test, how, why=""):
        why = str(why).strip().splitlines()
        print("TOLD", json.dumps([test.id(), how, why[-1][:200] if why else ""]), flush=True)
    def addSuccess(self, test):
        self.tell(test, "passed")
    def addError(self, test, e):
        self.tell(test, "failed", self._exc_info_to_string(e, test))
    addFailure = addError
    def addSkip(self, test, why):
        self.tell(test, "skipped", why)
    def addExpectedFailure(self, test, e):
        self.tell(test, "passed")
    def addUnexpectedSuccess(self, test):
        self.tell(test, "failed", "unexpected success")
    def addSubTest(self, test, sub, e):
        if e is not None:
            self.tell(test, "failed", self._exc_info_to_string(e, test))
    def startTest(self, test):
        print("BEGUN", test.id(), flush=True)
module, kind = words
__import__(module)
found = sys.modules[module]
for part in kind.split("."):
    found = getattr(found, part)
unittest.defaultTestLoader.loadTestsFromTestCase(found).run(Told())
"""


@dataclass
class Result:
    """How one test ended: passed, failed, skipped or hung; and the last words on why."""

    how: str
    why: str = ""


@dataclass
class Side:
    """One way to run the suites: what goes before each command, and what came of it."""

    name: str
    host: Host
    before: list[str | Path] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)

    def run(self, args: Sequence[str | Path], folder: Path, patience: float) -> tuple[str, bool]:
        """What a command printed, and whether it was given up."""
        command = self.host.wrap([*self.before, *args])
        with subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as child:
            try:
                said, _ = child.communicate(timeout=patience)
                return said.decode(errors="replace"), False
            except subprocess.TimeoutExpired:
                run("pkill", "-KILL", "-s", str(child.pid), check=False)
                try:
                    said, _ = child.communicate(timeout=5)
                except subprocess.TimeoutExpired as e:
                    # Somebody in a session of its own still holds the pipe.
                    said = e.output or b""
                return said.decode(errors="replace"), True
            except BaseException:
                run("pkill", "-KILL", "-s", str(child.pid), check=False)
                raise


def progress(side: Side, done: int, all_: int, name: str) -> None:
    """One line that is written over, where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\033[K{side.name}: {done} of {all_}, {name}", end="", file=sys.stderr)


def python_classes(scratch: Path, modules: Sequence[str]) -> list[tuple[str, str]]:
    """The test classes of CPython's modules."""
    inside = scratch / "inside.py"
    inside.write_text(INSIDE)
    listed = run("/usr/bin/python3", inside, "list", *modules, timeout=120)
    return [(line.split()[0], line.split()[1]) for line in listed.splitlines()]


def run_python(side: Side, scratch: Path, kind: tuple[str, str], patience: float) -> None:
    """Run one test class of CPython's."""
    args: list[str | Path] = ["/usr/bin/python3", scratch / "inside.py", "run", *kind]
    said, gave_up = side.run(args, scratch, patience)
    begun = [line.removeprefix("BEGUN ") for line in said.splitlines() if line[:6] == "BEGUN "]
    for line in said.splitlines():
        if line.startswith("TOLD "):
            test, how, why = json.loads(line.removeprefix("TOLD "))
            known = side.results.get(test)
            # The first failure of several subtests counts, and a success behind it does not.
            if known is None or known.how == "passed":
                side.results[test] = Result(how, why)
    for test in begun[-1:]:
        if test not in side.results:
            last = (said.strip().splitlines() or [""])[-1][:200]
            side.results[test] = Result("hung" if gave_up else "failed", f"process ended: {last}")


def run_uv(side: Side, program: Path, test: str, patience: float) -> None:
    """Run one test of libuv's."""
    said, gave_up = side.run([program, test], program.parent, patience)
    lines = said.strip().splitlines()
    found = [line for line in lines if re.match(r"(not )?ok 1 - ", line)]
    why = next((line for line in lines if "Assertion" in line or "timeout" in line), "")
    name = f"libuv.{test}"
    if gave_up:
        side.results[name] = Result("hung")
    elif not found:
        side.results[name] = Result("failed", (lines or [""])[-1][:200])
    elif "# SKIP" in found[0]:
        side.results[name] = Result("skipped", found[0].partition("# SKIP")[2].strip())
    else:
        side.results[name] = Result("failed" if found[0][:3] == "not" else "passed", why[:200])


def build_uv(out: Path) -> Path:
    """Fetch and build libuv's tests; gives the program."""
    folder = out / "libuv"
    program = folder / "build" / "uv_run_tests"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    parts, lists = folder / "sources", folder / "lists"
    for path in (parts, lists / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    ours = Path("/etc/apt/sources.list.d/debian.sources")
    old = Path("/etc/apt/sources.list")
    if ours.exists():
        text = re.sub(r"^Types: .*$", "Types: deb-src", ours.read_text(), flags=re.MULTILINE)
        (parts / "debian.sources").write_text(text)
    else:
        text = re.sub(r"^deb ", "deb-src ", old.read_text(), flags=re.MULTILINE)
        (parts / "debian.list").write_text(text)
    # Lists of their own: those of the system stay as they are.
    apt = [
        *("-o", "Dir::Etc::SourceList=-", "-o", f"Dir::Etc::SourceParts={parts}"),
        *("-o", f"Dir::State::Lists={lists}", "-o", "APT::Sandbox::User=root", "-qq"),
    ]
    print("suites: fetching and building libuv (once)", file=sys.stderr)
    run("apt-get", *apt, "update", timeout=300)
    fetch: list[str | Path] = [
        "env",
        "-C",
        folder,
        "apt-get",
        *apt,
        "--download-only",
        "source",
        "libuv1",
    ]
    run(*fetch, timeout=300)
    archive = next(folder.glob("libuv1_*.orig.tar.*"), None)
    if archive is None:
        raise LabError("apt-get source libuv1 left no archive")
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    run("tar", "-xf", archive, "-C", source, "--strip-components=1", timeout=60)
    build = folder / "build"
    options = ["-DBUILD_TESTING=ON", "-DCMAKE_BUILD_TYPE=Release"]
    run("cmake", "-S", source, "-B", build, *options, timeout=300)
    jobs = str(os.cpu_count() or 1)
    run("cmake", "--build", build, "--target", "uv_run_tests", "-j", jobs, timeout=1800)
    return program


# Those that have nothing to do with TCP take as long and tell nothing.
OTHER = re.compile(
    r"^(fs_|spawn|thread|threadpool|mutex|rwlock|sem|cond|barrier|loop_|timer|tty|platform|process|"
    r"utf8|idna|strtok|strscpy|random|metrics|get_|hrtime|cwd|env|dlerror|error|handle|idle|"
    r"once|prepare|queue|signal|udp|version|uname|test_macros|utimes|work_)"
)


def nobody(program: Path) -> list[str | Path]:
    """What goes before a command that runs without rights."""
    return [*NOBODY, "env", f"LD_LIBRARY_PATH={program.parent}"]


def uv_tests(program: Path) -> list[str]:
    """The tests of libuv that may use a connection."""
    listed = run(*nobody(program), program, "--list").split()
    return [name for name in listed if not OTHER.match(name)]


def moved(scratch: Path, program: Path, wifu: Path) -> tuple[Path, Path]:
    """libuv's tests and WiFu's programs where a user without rights can run them."""
    folder = scratch / "uv"
    folder.mkdir()
    (folder / "test").symlink_to(program.parent.parent / "source" / "test")
    libraries = [*program.parent.glob("libuv.so*"), wifu.parent / "libwifu_preload.so"]
    for file in (program, wifu, *libraries):
        shutil.copy(file, folder / file.name, follow_symlinks=True)
    for path in (folder, *folder.iterdir()):
        if not path.is_symlink():
            os.chown(path, ID, ID)
    scratch.chmod(0o711)
    return folder / program.name, folder / wifu.name


@dataclass
class Difference:
    """A test that ends otherwise over WiFu."""

    test: str
    kernel: Result
    wifu: Result


def differences(kernel: Side, wifu: Side) -> Iterator[Difference]:
    """Tests whose results differ, by name."""
    none = Result("absent")
    for test in sorted({*kernel.results, *wifu.results}):
        one, other = kernel.results.get(test, none), wifu.results.get(test, none)
        if one.how != other.how:
            yield Difference(test, one, other)


def table(kernel: Side, wifu: Side) -> str:
    """The comparison as Markdown."""
    lines = ["| suite | | " + " | ".join(HOWS) + " |", "|---|---|" + "---:|" * len(HOWS)]
    suites = sorted({suite_of(t) for t in kernel.results})
    for suite in suites:
        for side in (kernel, wifu):
            counts = Counter(r.how for t, r in side.results.items() if suite_of(t) == suite)
            numbers = " | ".join(str(counts[how]) for how in HOWS)
            lines.append(f"| {suite} | {side.name} | {numbers} |")
    lines += ["", "| tests | | kernel | WiFu | why |", "|---|---:|---|---|---|"]
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for d in differences(kernel, wifu):
        why = (d.wifu.why or d.kernel.why).replace("|", "\\|")
        alike.setdefault((suite_of(d.test), d.kernel.how, d.wifu.how, why), []).append(d.test)
    for (_, one, other, why), tests in alike.items():
        more = ", ..." if len(tests) > 1 else ""
        name = tests[0].removeprefix("test.")
        lines.append(f"| `{name}`{more} | {len(tests)} | {one} | {other} | {why} |")
    return "\n".join(lines) + "\n"


HOWS = ("passed", "failed", "skipped", "hung")


def suite_of(test: str) -> str:
    """The suite that a test is of, by its name."""
    words = test.removeprefix("test.").split(".")
    return ".".join(words[:2]) if words[0] == "test_asyncio" else words[0]


def parse_args() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--bin", type=Path, default=ROOT / "target/release", metavar="DIR")
    parser.add_argument("--out", type=Path, default=ROOT / "out/suites", metavar="DIR")
    parser.add_argument("--protocol", default="tcp-newreno", metavar="P", help="of WiFu")
    parser.add_argument(
        "--only", metavar="RE", help="test classes of CPython (MODULE.CLASS) and tests of libuv"
    )
    parser.add_argument("--suite", choices=("cpython", "libuv"), help="one alone")
    parser.add_argument(
        "--patience",
        type=float,
        default=120,
        metavar="S",
        help="for a class or a test (%(default)s)",
    )
    return parser.parse_args()


def main() -> int:
    """Run both, and say where they differ."""
    args = parse_args()
    need("ip", "pkill")
    wifu = args.bin.resolve() / "wifu"
    if not wifu.exists():
        raise LabError(f"no {wifu}: make build, or say where by --bin")
    args.out.mkdir(parents=True, exist_ok=True)
    out = args.out.resolve()
    wanted = re.compile(args.only or "")
    program = build_uv(out) if args.suite != "cpython" else None
    with Lab("suites", None) as lab:
        door = lab.door(lab.a)
        door.parent.chmod(0o711)
        daemon = lab.start(lab.a, wifu, "daemon", "--socket", door, "--mode", "666")
        wait_for("wifu daemon", lambda: daemon_answers(lab.a, wifu, door), daemon)
        exec_ = [wifu, "exec", "-p", args.protocol, "--socket", door, "--"]
        sides = [Side("kernel", lab.b), Side("WiFu", lab.a, exec_)]
        scratch = lab.scratch
        if args.suite != "libuv":
            kinds = python_classes(scratch, MODULES)
            kinds = [k for k in kinds if wanted.search(".".join(k))]
            for side in sides:
                for i, kind in enumerate(kinds):
                    progress(side, i, len(kinds), kind[1])
                    run_python(side, scratch, kind, args.patience)
        if program is not None:
            program, moved_wifu = moved(scratch, program, wifu)
            tests = [t for t in uv_tests(program) if wanted.search(t)]
            for side in sides:
                through = [moved_wifu, *side.before[1:]] if side.before else []
                side.before = [*nobody(program), *through]
                for i, test in enumerate(tests):
                    progress(side, i, len(tests), test)
                    run_uv(side, program, test, args.patience)
        counted = json.loads(lab.a.run(wifu, "ss", "--json", "--socket", door) or "[]")
        if not daemon.alive():
            raise LabError(f"the daemon ended:\n{daemon.said()}")
        left = len(counted)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    kernel, ours = sides
    text = table(kernel, ours)
    print(text)
    print(f"connections and listeners left at the daemon: {left}")
    (out / "suites.md").write_text(text)
    everything = {s.name: {t: asdict(r) for t, r in sorted(s.results.items())} for s in sides}
    (out / "suites.json").write_text(json.dumps(everything, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    main_guard(main)
