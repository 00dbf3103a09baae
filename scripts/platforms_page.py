"""Writes docs/reference/platforms.md from benchmarks/results/platforms.json and release.json."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "platforms.md"
RESULTS = ROOT / "benchmarks" / "results" / "platforms.json"
RELEASE = ROOT / "benchmarks" / "results" / "release.json"
FIRST = "linux x86_64 nvrtc"
HERE = "Linux, x86-64"
SYSTEMS = {
    "linux x86_64": HERE, "linux aarch64": "Linux, 64-bit ARM", "darwin arm64": "macOS, Apple silicon",
    "darwin x86_64": "macOS, Intel", "windows amd64": "Windows, x86-64", "windows arm64": "Windows, ARM",
}  # fmt: skip
"""By how names of rows begin: systems, as release.json names them."""
MEMORY = ("sector", "byte", "request", "wavefront", "conflict")

HEAD = """# Platforms and compilers

*Written by `scripts/platforms_page.py` from `benchmarks/results/platforms.json`; `python benchmarks/platforms.py` adds
a row for the machine that it runs on.*

Two compilers make PTX of a kernel. **NVRTC**, NVIDIA's, comes with the package on Linux and Windows, for x86-64 and for
64-bit ARM. **clang** comes with the pip package `ziglang` (97 MB to load, 410 MB there) on Linux, macOS and Windows:
`pip install 'warpschool[clang]'`. It compiles against headers of our own. NVRTC is taken where there is one;
`--compiler clang`, `RawModule(..., compiler="clang")` or `WARPSCHOOL_COMPILER=clang` choose. Every result names its
compiler, and no cache takes one's code for the other's.

Results, races, out-of-bounds accesses and hints are judged with both. Registers, spills, occupancy and the clock need
NVIDIA's assembler: with clang they are not known, a criterion that asks for them says "judged with NVRTC only" and
shows no points. The debugger shows lines and variables with both. Textures can be fetched; surfaces,
`<curand_kernel.h>`, CUB and the rarer functions of packed bytes (`__vavgs4`) need NVRTC. Whole programs (lab 14) need
Linux, and nvcc as NVIDIA's packages have it. Classes are graded on Linux, with either.

`tour`, `check`, `lab`, `profile` and `debug` go through one room for what differs between systems, `ptxsim.system`:
address space, limits, child processes, pipes, locks. On Windows that is VirtualAlloc and job objects. Two things are
less there: a check is not closed off from files, as it is nowhere but on Linux, and the files that it writes have no
limit of size.
"""

TAIL = """
## What was run where

| platform | what was done |
|---|---|
| Linux, x86-64 | the whole suite with NVRTC; with clang all references, the tour, wrong and right kernels |
| Linux, 64-bit ARM | emulated, by `make test-arm`: references, and tests of every room, `tests/trimmed.txt` |
| macOS | nothing on a Mac; on Linux with macOS played: imports, checks, the tour; Intel Macs' LLVM; object files |
| Windows | nothing on Windows; on Linux with Windows' functions played: all imports, checks; object files |
| Containers | no image was built; the wheel is built of what the `Dockerfile` copies, and its commands run |
| Colab, Kaggle, Binder, Codespaces | nothing there; on Linux the first cell, without an index too, and `.binder/` |
| JupyterHub | a hub on Linux with the pages' configuration: a server of a user's starts with a copy of the course |

On ARM neither a real machine nor the rest of the suite was tried. Under emulation one thing fails that a real machine
does: the emulator hands on no request to give pages of a file back. Limits of processor time trip no emulation: where
a processor is more than four times slower than usual they are longer by as much, and NVRTC has minutes for a kernel
with `<cuda/semaphore>`. NVRTC for Windows was looked into, where its package puts it, and not called.

What is played is in `tests/unit/system`. For Windows, modules and functions that it lacks are taken away, and
kernel32's are there with what it demands of their arguments. For macOS, what only Linux has is taken away or refused:
/proc, prctl, forks, limits of address space, numbers that mean something else there; pages have 16 KB. What the systems
themselves do then is not tested by that.

Machine code of every reference is made for Linux and macOS on ARM and for Windows on x86-64 by
`tests/sim/test_other_targets.py`, with the functions that kernels call; of one reference in six in each test run,
instruction by instruction. Where an ARM processor computes with no halves (before ARMv8.2), they are multiplied and
added through f32.

`.github/workflows/platforms.yml` runs the first kernel, all references, the tour and a part of the tests on Linux, ARM,
macOS (Apple silicon and Intel) and Windows (x86-64 and ARM), for whoever has such machines. Its artifacts are rows of
the table above.

Intel Macs have no llvmlite after 0.45.1, the oldest that `pyproject.toml` allows; `constraints.txt` pins it there.
`make drift ARGS="--edge intel-mac"` runs tests with it. It has no wheel for Python 3.14, and llvmlite none for 3.11 on
Windows for ARM: another Python is the way there.
"""


def page() -> str:
    """The page's text."""
    found = json.loads(RESULTS.read_text("utf-8"))
    release = json.loads(RELEASE.read_text("utf-8"))
    lines = [HEAD, "| platform, compiler | installs with Python | tour | references accepted | criteria not judged "
             "| outputs bit-equal | counters equal | memory counters equal | wrong and right kernels of labs 00-05 "
             "| right kernels of later labs | part of the tests |",
             "|---|---|---|---:|---:|---:|---:|---:|---|---|---|"]  # fmt: skip
    for name in sorted(found, key=lambda name: (name != FIRST, name)):
        lines.append(_row(name, found[name], found[FIRST], release))
    for begins, system in SYSTEMS.items():
        if not any(name.startswith(begins) for name in found):
            lines.append(f"| {system} | {_installs(system, release)} {'| - ' * 9}|")
    lines += [
        "",
        "Installs: a release tried it there, or, as asked of pip's index, each package that `constraints.txt` pins",
        f"has a wheel there. Bit-equal and equal: compared with {FIRST}, over the references that random numbers",
        "are an input for. A dash: not run. Wrong and right kernels are counted that got their verdict; where clang",
        "blames another line, or does not judge what alone is wrong, `tests/specimens/test_specimens.py` says so.",
        "",
        *_differences(found),
        *_pass(found),
    ]
    return "\n".join(lines).rstrip() + "\n" + TAIL + "\n" + _pythons(release)


def _installs(system: str, release: dict[str, Any]) -> str:
    """With which Pythons the package was installed on a system, and for which others all wheels are there."""
    tried = sorted(release["pythons"]) if system == HERE else []
    lacks = release.get("systems", {}).get(system, {})
    wheels = [python for python in sorted(lacks) if not lacks[python] and python not in tried]
    without = [f"{python}: no wheel of {lacks[python]}" for python in sorted(lacks) if lacks[python]]
    told = [f"tried: {_range(tried)}"] * bool(tried) + [f"wheels: {_range(wheels)}"] * bool(wheels) + without
    return "; ".join(told) or "-"


def _range(pythons: list[str]) -> str:
    """3.11 to 3.13, or each by name where one between them lacks."""
    minors = [int(python.split(".")[1]) for python in pythons]
    whole = len(minors) > 2 and minors == list(range(minors[0], minors[-1] + 1))
    return f"{pythons[0]} to {pythons[-1]}" if whole else ", ".join(pythons)


def _pass(found: dict[str, Any]) -> list[str]:
    """What each run of the tests does with clang, and what it took."""
    lines = []
    for name, row in found.items():
        made = row.get("pass")
        if made:
            lines += [
                "Each run of the tests, and so of continuous integration, makes a pass with clang: the compiler's own",
                "tests, references of some labs, our headers against NVIDIA's, a check where macOS is played. With an",
                f"empty cache {made['passed']} tests took {made['processor_s']:.0f} s of processor time on an "
                f"{made['processor']} ({name}).",
                "",
            ]
    return lines


WAY = ("warpschool start", "warpschool check: the starter", "warpschool check: accepted")


def _pythons(release: dict[str, Any]) -> str:
    """The wheel, and a student's first way with each Python that a release was tried with."""
    lines = [
        "## Pythons and the wheel",
        "",
        f"The wheel has {release['wheel_bytes'] / 1e6:.1f} MB and carries the whole course. `make release` tries it in",
        f"an empty environment of each Python that it finds. Seconds of processor time, {release['machine']}; by the",
        "clock a slow line or disk decides. A dash: not run. 3.14 was tried in a Debian that has it, in a chroot; the",
        "part of the tests is `tests/trimmed.txt`, on the wheel; the whole suite runs with 3.11.",
        "",
        "| Python | pip install | a copy, a starter checked, a solution accepted | part of the tests |",
        "|---|---:|---:|---|",
    ]
    for minor in range(11, 15):
        found = release["pythons"].get(f"3.{minor}", {})
        install = f"{found['pip install']['processor_s']:.0f}" if found else "-"
        way = f"{sum(found[step]['processor_s'] for step in WAY):.0f}" if found else "-"
        passed = found.get("tests/trimmed.txt", {}).get("passed")
        lines.append(f"| 3.{minor} | {install} | {way} | {f'{passed} passed' if passed else '-'} |")
    return "\n".join(lines) + "\n"


def _row(name: str, row: dict[str, Any], first: dict[str, Any], release: dict[str, Any]) -> str:
    steps = row["steps"]
    there = first["steps"]
    compared = [(one, there[step]) for step, one in steps.items() if one.get("outputs") and step in there]
    same = sum(mine["outputs"] == other["outputs"] for mine, other in compared)
    counted = sum(mine["counters"] == other["counters"] for mine, other in compared)
    memory = sum(_of_memory(mine) == _of_memory(other) for mine, other in compared)
    accepted = sum(one["verdict"] == "AC" for one in steps.values())
    not_judged = sum(len(one["not judged"]) for one in steps.values())
    tour = {True: "yes", False: "no", None: "-"}[row.get("tour")]
    where = f"{name}: {row['compiler']}" + (f", {row['where']}" if row["where"] else "")
    system = next((told for begins, told in SYSTEMS.items() if name.startswith(begins)), "")
    of = len(compared)
    cells = [
        where, _installs(system, release), tour, f"{accepted} of {len(steps)}", not_judged, f"{same} of {of}",
        f"{counted} of {of}", f"{memory} of {of}",
        _told(row.get("specimens")), _of_all_labs(row.get("fair", {})), _told(row.get("suite")),
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _told(tests: dict[str, int] | None) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(tests.items())) if tests else "-"


def _of_all_labs(tests: dict[str, dict[str, int]]) -> str:
    """How many of all labs together, and which labs those are."""
    told = _told(dict(sum(map(Counter, tests.values()), Counter[str]())))
    return f"{told}, of {min(tests)} to {max(tests)}" if tests else told


def _of_memory(step: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in step["counters"].items() if any(word in name for word in MEMORY)}


def _differences(found: dict[str, Any]) -> list[str]:
    """Which references have other bits than the first platform's, and which criteria nobody judges there."""
    lines = []
    for name, row in found.items():
        other = [
            step for step, one in row["steps"].items()
            if one.get("outputs") and one["outputs"] != found[FIRST]["steps"].get(step, one)["outputs"]
        ]  # fmt: skip
        if other:
            told = ", ".join(_apart(step, row["steps"][step]) for step in other)
            lines += [f"Other bits with {name}, all accepted against float64; in brackets how far apart numbers are at",
                      f"most, in parts of the output's largest: {told}.", ""]  # fmt: skip
        titles = Counter(title for one in row["steps"].values() for title in one["not judged"])
        if titles:
            told = ", ".join(f"{title} ({count})" for title, count in titles.most_common())
            lines += [f"Not judged with {name}: {told}.", ""]
    return lines


def _apart(step: str, found: dict[str, Any]) -> str:
    return f"{step} ({max(found['apart'].values()):.0e})" if found.get("apart") else step


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
