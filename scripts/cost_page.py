"""Writes docs/reference/simulator-cost.md from simulator.json, steady.json, first_launch.json, simulator_networks.json
and checks.json in benchmarks/results."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from warpschool.course import Course
from warpschool.recorded import recorded, results

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "simulator-cost.md"

HEAD = """# What the simulator costs

*Written by `scripts/cost_page.py` from `benchmarks/results/simulator.json`; `make bench` measures anew.*

Counters and checks are on by default. `count=False` and `check=False` of a launch leave them out: the generated code
then holds nothing of them. Counting is cheap because most counts follow from how often a basic block ran; only varying
global addresses are looked at one by one. Bounds, races and uninitialised reads share one look at each access, so they
are switched together: two comparisons against the array that the access hit last, and the shadow words of the granules
that it touches. A launch that meets a race runs a second time with the exact shadow, which is much slower and is not in
these figures.
"""


def page() -> str:
    found = recorded("simulator.json", course=Course(ROOT))
    cpu, size, numpy_ms = found["cpu"], found["size"], found["numpy_ms"]
    lines = [
        HEAD,
        f"Products of {size}³ on one thread of an {cpu}. NumPy's product in f32 takes {numpy_ms:.2f} ms "
        f"there{_gain(found)}.",
        "",
        "| kernel | bare | NumPy's time / bare | with counters | with counters and checks | two threads, bare |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in found["kernels"].items():
        lines.append(
            f"| {name} | {row['plain_ms']:.1f} ms | {row['ratio_to_numpy']:.2f} | {row['counted_over_plain']:.1f} x "
            f"| {row['checked_over_plain']:.1f} x | {row['two_threads_speedup']:.1f} x as fast |"
        )
    lines += [*_steady(), "", *_first_launches(found), *_first_launches_of_all(), *_networks(), *_checks()]
    lines += _others(found)
    return "\n".join(lines) + "\n"


def _gain(found: dict) -> str:
    """What a second thread brings to NumPy: what one can hope for on this host."""
    gain = found.get("numpy_two_threads_speedup")
    return f", with a second thread {gain:.1f} x as fast" if gain else ""


_WAYS = {"by hand": "by hand", "bare": "bare", "counted": "with counters", "checked": "with counters and checks"}


def _steady() -> list[str]:
    """Where the time of compiled code goes, where `benchmarks/steady.py` has measured that."""
    recordings = results("steady.json", course=Course(ROOT))
    if not recordings:
        return []
    (found,) = recordings
    numpy_ms, size = found["numpy_ms"], found["size"]
    lines = [
        "",
        f"Where the time goes on an {found['cpu']}, by `benchmarks/steady.py`: processor time of the same products of "
        f"{size}³, the least of {found['repeat']} launches, taken in turn with all others (NumPy: {numpy_ms:.2f} ms). "
        "*Products* is what grows with the steps of k in a tile, *blocks* a launch with K = 0 (the host's part of it, "
        "block starts and the stores of C), and *tiles* the rest: what moves through shared memory, with its bounds "
        "and barriers. With counters and checks this difference tells nothing: a short tile is examined in another "
        "way. The machine's load before was "
        f"{found['load_before']:.1f} on {found['cores']} cores, so that a figure may be some 10 % too high, and a part "
        "that is the difference of two by more. *By hand*: the same work, warp by warp, with nothing of the "
        "simulator in it (`benchmarks/by_hand.py`). Where half the steps of k become other code, there are no parts.",
        "",
        "| kernel | | in all | NumPy's time / it | products | tiles | blocks |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, ways in found["kernels"].items():
        for way, told in _WAYS.items():
            if way not in ways:
                continue
            row = ways[way]
            shown = ("products_ms", "tiles_ms", "blocks_ms") if way == "bare" else ("", "", "blocks_ms")
            split = [f"{row[key]:.1f} ms" if key in row else "" for key in shown]
            lines.append(f"| {name} | {told} | {row['ms']:.1f} ms | {numpy_ms / row['ms']:.2f} | {' | '.join(split)} |")
    four = found["kernels"]["wgmma"]["bare"]
    lines += [
        "",
        f"Of the {four['ms']:.1f} ms of *wgmma*, bare, {four['steps_ms']:.1f} grow with K: tiles that the TMA brings, "
        "operands that are made ready, and products. The rest is the launch, the start and end of its 128 blocks, and "
        "the stores of C.",
        "", "| what is compared | | one | the other | ratio |", "|---|---|---:|---:|---:|",
    ]  # fmt: skip
    for name, ways in found["compared"].items():
        for way, told in _WAYS.items():
            if way not in ways:
                continue
            (first, one), (second, other) = ways[way].items()
            lines.append(f"| {name} | {told} | {first} {one:.1f} ms | {second} {other:.1f} ms | {other / one:.1f} |")
    alone = ", ".join(f"{_WAYS[way]} {ms:.2f} ms" for way, ms in found["alone_ms"].items())
    return [*lines, "", f"What every launch takes, by one of a block that has next to nothing to do: {alone}."]


def _first_launches(found: dict) -> list[str]:
    """From source text to the end of the first launch, with no cache."""
    rows = {
        name: (row["first_launch_plain_s"], row["first_launch_checked_s"]) for name, row in found["kernels"].items()
    }
    line = found.get("straight_line")
    if line:
        name = f"{line['multiply_adds']:,} multiply-adds in a row"
        rows[name] = (line["first_launch_plain_s"], line["first_launch_checked_s"])
    return [
        "The first launch compiles: NVRTC, then machine code for this block shape. Later ones, of any process, take it",
        "from the disk cache.",
        "",
        "| kernel | first launch, bare | with counters and checks |",
        "|---|---:|---:|",
        *(f"| {name} | {bare:.2f} s | {checked:.2f} s |" for name, (bare, checked) in rows.items()),
    ]


def _first_launches_of_all() -> list[str]:
    """Processor time of first launches, where `benchmarks/first_launch.py` has measured them."""
    recordings = results("first_launch.json", course=Course(ROOT))
    if not recordings:
        return []
    (found,) = recordings
    references, long_kernels = (found["kernels"][kind] for kind in ("references", "long kernels"))
    rows = [*references.values(), *long_kernels.values()]
    labs: dict[str, dict[str, dict[str, float]]] = {}
    for step, row in references.items():
        labs.setdefault(step.partition("/")[0], {})[step.partition("/")[2]] = row
    lines = [
        "",
        "First launches with nothing cached, by `benchmarks/first_launch.py`, in processor time, and by the clock, "
        "where two cores share some of the work: the reference of every step at the case that its grader counts, with "
        "counters and checks, and long kernels. The compiler counts, and a kernel's "
        "[first tier](../design/simulator.md#code-at-once-and-code-that-is-fast) with all its stencils. "
        f"Once for a machine {median(row['shared_s'] for row in rows):.1f} s come first, for what kernels share. "
        f"The machine's load before was {found['load_before']:.1f} on {found['cores']} cores ({found['cpu']}); of "
        f"{found['repeat']} runs the one with the least counts.",
        "",
        "| lab | references | median | most | of it NVRTC | by the clock | of |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for lab, steps in labs.items():
        longest = max(steps, key=lambda step: steps[step]["first_s"])
        cells = (
            str(len(steps)), f"{median(row['first_s'] for row in steps.values()):.2f} s",
            *(f"{steps[longest][key]:.2f} s" for key in ("first_s", "compiler_s", "clock_s")), longest,
        )  # fmt: skip
        lines.append(f"| {lab} | {' | '.join(cells)} |")
    head = "| long kernel | statements of PTX | first launch | of it NVRTC | by the clock |"
    lines += ["", head, "|---|---:|---:|---:|---:|"]
    for name, row in long_kernels.items():
        times = " | ".join(f"{row[key]:.2f} s" for key in ("first_s", "compiler_s", "clock_s"))
        lines.append(f"| {name} | {row['ptx_statements']:,} | {times} |")
    return lines


def _networks() -> list[str]:
    """Whole networks, where `benchmarks/simulator_networks.py` has measured them."""
    recordings = results("simulator_networks.json", course=Course(ROOT))
    if not recordings:
        return []
    (found,) = recordings
    return [
        "",
        f"Networks that read {found['images']:,} digits on {found['cores']} cores ({found['cpu']}), from the start "
        f"of the process to the last label; the machine's load before that was {found['load_before']:.1f}. Kernels are "
        "compiled on all cores while the first images are read. The first 100 images are checked and counted.",
        "",
        "| network | first run | processor time | later runs | processor time |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {row['first_s']:.1f} s | {row['first_processor_s']:.1f} s | {row['later_s']:.1f} s "
            f"| {row['later_processor_s']:.1f} s |"
            for name, row in found["networks"].items()
        ),
    ]


def _checks() -> list[str]:
    """Processor time of whole checks by lab, where `benchmarks/checks.py` has measured them."""
    recordings = results("checks.json", course=Course(ROOT))
    if not recordings:
        return []
    (found,) = recordings
    keys = ("alone_first_s", "alone_again_s", "warm_first_s", "warm_again_s")
    labs: dict[str, list[dict[str, float]]] = {}
    for step, row in found["steps"].items():
        labs.setdefault(step.partition("/")[0], []).append(row)
    cells = {
        lab: [f"{median(row[key] for row in rows):.2f} s (to {max(row[key] for row in rows):.2f})" for key in keys]
        for lab, rows in labs.items()
    }
    return [
        "",
        "Processor time of `warpschool check` on the references: the command, the grading child and the compiler "
        "together, the median of a lab's steps and the most. *Alone* every process loads what it needs; *warm* they "
        f"are forks of a [process that waits](../design/warm.md), which takes {found['warm_bytes'] >> 20} MB. The "
        "first check of a kernel compiles and translates it, later ones find that in the cache. The machine's load "
        f"before was {found['load_before']:.1f} on {found['cores']} cores ({found['cpu']}); of {found['repeat']} runs "
        "the one with the least counts.",
        "",
        "| lab | steps | alone, first | alone, again | warm, first | warm, again |",
        "|---|---:|---:|---:|---:|---:|",
        *(f"| {lab} | {len(labs[lab])} | {' | '.join(row)} |" for lab, row in cells.items()),
    ]


def _others(found: dict) -> list[str]:
    lines: list[str] = []
    loop = found.get("divergent_loop")
    if loop:
        lines += [
            "",
            f"A loop that every lane leaves at another time (Collatz, {loop['threads']:,} threads): "
            f"{loop['ms']:.0f} ms, "
            f"{loop['times_the_oracle']:,.0f} times as fast as the NumPy oracle.",
        ]
    four = found.get("wgmma")
    if four:
        lines += [
            "",
            "The product of `lab07/06_wgmma` (bulk copies, clusters, warpgroups; what each engine does is followed in "
            f"Python): {four['plain_ms']:.1f} ms, {four['ratio_to_numpy']:.2f} of NumPy's speed; with counters "
            f"{four['counted_over_plain']:.1f} x that, with all checks {four['checked_over_plain']:.1f} x.",
        ]
    narrow = {name: row["avx2_of_avx512"] for name, row in found["kernels"].items() if "avx2_of_avx512" in row}
    if narrow:
        told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in narrow.items())
        lines += ["", f"Without AVX-512 (`WARPSCHOOL_SIMD=avx2`), of the speed with it: {told}."]
    if found.get("numba"):
        ratio = found["numba"]["ratio"]
        lines += ["", f"The naive kernel runs {ratio:,.0f} times as fast as on Numba's CUDA simulator."]
    return lines


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
