"""Writes docs/reference/fidelity.md from what benchmarks/fidelity.py recorded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from warpschool.course import Course
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "fidelity.md"
GROUPS = {
    "global": "global access patterns", "shared": "shared access patterns", "references": "references of the course",
    "math": "math functions", "atomics": "atomics", "divergence": "divergence", "warp": "shuffles and votes",
    "packed": "packed arithmetic", "memory": "memory spaces",
}  # fmt: skip
EXACT = ("global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors")
SHARED = (
    "shared_load_requests", "shared_load_wavefronts", "shared_load_bank_conflicts",
    "shared_store_requests", "shared_store_wavefronts", "shared_store_bank_conflicts",
)  # fmt: skip
OTHERS = (
    "global_atomic_requests", "global_reduction_requests", "local_load_requests", "local_store_requests",
    "fma_instructions", "divergent_branches", "blocks_per_sm",
)  # fmt: skip
ACTIVE = {
    "shared_load_requests": ("active_shared_loads", "active_matrix_loads"),
    "shared_store_requests": ("active_shared_stores",),
}
"""What the GPU counts of these requests for warps with an active lane."""
WHY = {
    "matrix": "ldmatrix, and wmma.load from shared memory, are LDSM in machine code: wavefronts and conflicts count "
    "them, this metric does not; the simulator counts every load from shared memory. Here the GPU's LDSM and its other "
    "loads (of warps with an active lane) are as many as the simulator's together.",
    "copies": "ptxas puts three loads that no lane executes (@!PT LDS) in front of copies by cp.async: requests "
    "without a wavefront. The GPU's requests of warps with an active lane are as many as the simulator's.",
    "stmatrix": "stmatrix is STSM in machine code: wavefronts count it, this metric does not; the simulator counts "
    "every store to shared memory.",
    "asynchronous": "Stores of stmatrix beside wgmma and the TMA, which use shared memory at the same time: the GPU "
    "counts more wavefronts than the addresses need, in these kernels and not in others like them; why is not known.",
    "merged": "The PTX stores two neighbouring values, ptxas stores both at once. Loads that ptxas merges so are "
    "counted as it does; stores are not.",
    "spilled": "ptxas keeps some values in local memory, so that the kernel gets by on fewer registers and more blocks "
    "fit on an SM (80 registers, 128). PTX has as many registers as it likes.",
    "miscounted": "Kernels with such loads, too. Here the GPU's counter of requests of warps with an active lane says "
    "a few more than the simulator, but they have no wavefront, as every load of an active lane has: wavefronts "
    "without conflicts are equal. So some of the loads that no lane executes are counted as active; why is not known.",
    "inactive": "ptxas turns a short branch into predicated instructions: warps without an active lane issue them "
    "too. PTX branches around them. Such a request has no wavefront; the GPU's requests of warps with an active lane "
    "are as many as the simulator's.",
    "predicated": "ptxas turns a short branch into predicated instructions, or a choice between two values, where PTX "
    "branches.",
    "red": "An atomic whose result nobody uses: the PTX says atom, the machine code RED. Their sum is the same.",
    "retry": "A CAS loop repeats where another thread was faster: the number of rounds is the hardware's timing.",
    "repeated": "The source reads an element several times; ptxas keeps the first value.",
    "sunk": "ptxas moves a load to where its value is used: warps that do not go there do not load.",
    "registers": "ptxas finds that the small array fits in registers; the PTX has it in local memory.",
    "sequence": "One PTX instruction (a square root, a quotient, a reciprocal) is a sequence of machine instructions, "
    "with fused multiply-adds among them and a branch for subnormal numbers; and ptxas contracts or splits products.",
    "noise": "Arbitration in the load-store unit: conflicts that addresses have no part in, other ones in each run (of "
    "two the fewer are shown). Nsight Compute counts these apart (l1tex__data_bank_conflicts_type_arbitration): "
    "no difference here is larger than that.",
}


FEWER_LOADS = {"votes": "repeated", "bytes": "repeated", "lab16/03_norm_backward": "sunk"}
"""Kernels of which ptxas leaves loads out, and which ones: their PTX was read."""


def reason(row: dict[str, Any], counter: str, ours: float, theirs: float) -> str:
    """Key of WHY for a difference; "" for one that nothing explains."""
    case, space = row["case"], counter.split("_")[0]
    if case == "add_by_cas":
        return "retry"
    if counter in ("global_atomic_requests", "global_reduction_requests"):
        pair = [row["counters"].get(c, [0, 0]) for c in ("global_atomic_requests", "global_reduction_requests")]
        return "red" if sum(p[0] for p in pair) == sum(p[1] for p in pair) else ""
    if space == "local":
        return "registers" if theirs < ours else "spilled"
    if space == "global":
        return FEWER_LOADS.get(case, "") if theirs < ours else ""
    if counter == "fma_instructions":
        return "sequence"
    if counter == "blocks_per_sm":
        return ""
    if counter == "divergent_branches":
        return "predicated" if theirs < ours else "sequence"
    if counter in ("shared_store_requests", "shared_store_wavefronts") and _merged_stores(row["counters"]):
        return "merged"
    if counter.endswith(("bank_conflicts", "wavefronts")):
        if 0 < theirs - ours <= row["counters"]["arbitration_conflicts"][1]:
            return "noise"
        beside = counter == "shared_store_wavefronts" and theirs > ours and _by_stmatrix(row["counters"])
        return "asynchronous" if beside else ""
    return _inactive(row, counter, ours)


def _inactive(row: dict[str, Any], counter: str, ours: float) -> str:
    """Why requests to shared memory differ, if those of warps with an active lane do not."""
    counters = row["counters"]
    active = [counters[name][1] for name in ACTIVE[counter]]
    copies = counter == "shared_load_requests" and counters["async_copy_requests"][1]
    if counter == "shared_store_requests" and _by_stmatrix(counters):
        return "stmatrix"
    if sum(active) != ours:
        return "miscounted" if copies and sum(active) > ours and _same_loads(counters) else ""
    if sum(active[1:]):
        return "matrix"
    return "copies" if copies else "inactive"


def _by_stmatrix(counters: dict[str, list[float]]) -> bool:
    """Whether all that the GPU stores to shared memory are wavefronts without a request."""
    return counters["shared_store_requests"][1] == 0 < counters["shared_store_wavefronts"][1]


def _merged_stores(counters: dict[str, list[float]]) -> bool:
    """Whether the GPU's fewer stores to shared memory, all of active lanes, save a wavefront each."""
    requests, wavefronts = counters["shared_store_requests"], counters["shared_store_wavefronts"]
    fewer = requests[0] - requests[1]
    active = requests[1] == counters["active_shared_stores"][1] > 0
    return active and fewer > 0 and wavefronts[0] - wavefronts[1] == fewer


def _same_loads(counters: dict[str, list[float]]) -> bool:
    """Whether loads from shared memory have as many wavefronts on both, those of conflicts aside."""
    wavefronts, conflicts = counters["shared_load_wavefronts"], counters["shared_load_bank_conflicts"]
    return wavefronts[0] - conflicts[0] == wavefronts[1] - conflicts[1]


def _elsewhere(rows: list[dict[str, Any]]) -> str:
    """Which launches were counted on another chip than the record's, whose multiprocessors are the same."""
    chips = sorted({row["device"] for row in rows if "device" in row})
    return "".join(f" {sum(row.get('device') == chip for row in rows)} were counted on an {chip}." for chip in chips)


def page(found: dict[str, Any], hopper: dict[str, Any], fuzzed: dict[str, Any]) -> str:
    rows = found["launches"]
    small = sum(family["launches"] for family in hopper["families"].values())
    counted = [row for row in rows if "counters" in row]
    lines = [
        "# The simulator against silicon", "",
        f"{len(rows) + small} launches, the same PTX and inputs on both: the simulator, and an {found['device']} "
        f"under Nsight Compute. `python benchmarks/fidelity.py` repeats it on any machine with a GPU; "
        "`fidelity.py again` compares today's simulator with the record, without one; "
        "`scripts/fidelity_page.py` writes this page from its record. Shared loads are counted as ptxas merges them "
        "(`src/ptxsim/analysis/merging.py`). Tensor cores add as a Hopper GPU does (`tensor_sums=\"hopper\"`). "
        f"{small} launches are small kernels of what came with Hopper, in a section of their own: they have "
        f"every shape and swizzle of wgmma, of which the course's references have few.{_elsewhere(rows)}", "",
        "| kernels | launches | values compared | values that differ | global requests and sectors equal "
        "| shared requests of active lanes equal | bank conflicts equal |", "|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for group, title in GROUPS.items():
        own = [row for row in rows if row["group"] == group]
        if own:
            lines.append(_group_row(title, own))
    lines += ["", *_outputs(rows), "", "## Counters that differ", ""]
    differences = _differences(counted)
    total = sum(len(row["counters"]) for row in counted)
    lines += [
        f"{total:,} counters were compared, {len(differences)} differ. Each for one of these reasons:", "",
    ]  # fmt: skip
    by_reason: dict[str, list[tuple[str, str, float, float]]] = {}
    for row, counter, ours, theirs in differences:
        by_reason.setdefault(reason(row, counter, ours, theirs), []).append((row["case"], counter, ours, theirs))
    for key, text in (*WHY.items(), ("", "Not explained.")):
        if key in by_reason:
            lines += [f"**{_times(len(by_reason[key]))}.** {text}", "", *_table(by_reason[key]), ""]
    lines += [*_hopper(hopper), *_fuzzed(fuzzed["runs"]), *_machine(counted)]
    return "\n".join(lines).rstrip() + "\n"


def _times(count: int) -> str:
    return "Once" if count == 1 else f"{count} times"


def _group_row(title: str, rows: list[dict[str, Any]]) -> str:
    values, differ = (sum(row["outputs"][key] for row in rows) for key in ("values", "differ"))

    counted = [row["counters"] for row in rows if "counters" in row]

    def equal(names: tuple[str, ...]) -> str:
        return f"{sum(all(c[n][0] == c[n][1] for n in names if n in c) for c in counted)} of {len(counted)}"

    active = sum(all(c[n][0] == sum(c[a][1] for a in names) for n, names in ACTIVE.items()) for c in counted)
    conflicts = ("shared_load_bank_conflicts", "shared_store_bank_conflicts")
    requests = f"{active} of {len(counted)}"
    cells = (title, len(rows), f"{values:,}", f"{differ:,}", equal(EXACT), requests, equal(conflicts))
    return f"| {' | '.join(map(str, cells))} |"


def _outputs(rows: list[dict[str, Any]]) -> list[str]:
    wrong = [row for row in rows if row["outputs"]["differ"]]
    if not wrong:
        return ["All outputs are equal, bit for bit."]
    lines = ["Outputs that are not equal bit for bit, by their distance in units in the last place:", ""]
    lines += ["| kernel | values | equal | 1 | 2 | 3-4 | 5-16 | more |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for row in wrong:
        out = row["outputs"]
        note = " (additions in the hardware's order)" if out["unordered"] else ""
        cells = " | ".join(f"{out['ulps'].get(name, 0):,}" for name in ("1", "2", "3-4", "5-16", "more"))
        lines.append(f"| `{row['case']}`{note} | {out['values']:,} | {out['values'] - out['differ']:,} | {cells} |")
    lines += [
        "",
        "PTX states bounds, not bits, for `.approx` instructions (absolute ones for sine, cosine and logarithm); "
        "the simulator keeps to them. `expf` is made of one, and so are softmax and its gradient. Tensor cores: "
        "see [the simulator](../design/simulator.md).",
    ]
    return lines


def _differences(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str, float, float]]:
    names = (*EXACT, *SHARED, *OTHERS)
    return [
        (row, name, *row["counters"][name])
        for row in rows
        for name in names
        if name in row["counters"] and row["counters"][name][0] != row["counters"][name][1]
    ]


def _table(found: list[tuple[str, str, float, float]], most: int = 60) -> list[str]:
    """One line per counter and pair of values: the cases that share them together."""
    together: dict[tuple[str, float, float], list[str]] = {}
    for case, counter, ours, theirs in found:
        together.setdefault((counter, ours, theirs), []).append(case)
    lines = ["| counter | simulator | GPU | kernels |", "|---|---:|---:|---|"]
    for (counter, ours, theirs), cases in list(together.items())[:most]:
        named = ", ".join(f"`{case}`" for case in dict.fromkeys(cases[:4]))
        more = f" and {len(cases) - 4} more" if len(cases) > 4 else ""
        lines.append(f"| {counter} | {ours:,.0f} | {theirs:,.0f} | {named}{more} |")
    return lines


def _hopper(found: dict[str, Any]) -> list[str]:
    """What came with Hopper: small kernels, each with its arrays and counters."""
    lines = [
        "## Hopper", "",
        "Small kernels of bulk copies, tensor maps, clusters, barrier objects and wgmma (`tests/sim/hopper_cases.py`), "
        "recorded by `python benchmarks/hopper.py record` and `count`; `hopper.py compare` holds today's simulator "
        "against the record.", "",
        "| kernels | launches | values compared | launches that differ | counters compared |",
        "|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for name, family in found["families"].items():
        cells = (f"{family.get(key, 0):,}" for key in ("launches", "values", "differ", "counters"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    others = [f"`{case}` ({counter}: {ours}, GPU {theirs})" for case, counter, ours, theirs in found["others"]]
    said = f"differ {_times(len(others))}: {', '.join(others)}" if others else "are all equal"
    lines += [
        "", f"Counters (sectors, wavefronts, tensor-core instructions) {said}.", "",
        f"Of {found['stops']} kernels at which the GPU stops with an illegal instruction the simulator has a finding "
        f"for {found['told']}.", "",
    ]  # fmt: skip
    return lines


FUZZED = {
    "read": "hostile PTX, parsed", "launch": "hostile PTX, launched",
    "cuda": "random programs, on engine and oracle", "silicon": "random programs, on engine and GPU",
}  # fmt: skip


def _fuzzed(runs: list[dict[str, Any]]) -> list[str]:
    """What `python -m tests.fuzz --record` has run, by mode and version of LLVM."""
    lines = [
        "## Random programs", "",
        "`make fuzz` makes programs of a seed and a number: PTX that looks right and is not, and CUDA C++ in which "
        "nothing is undefined and no two threads race. A crash, a hang, a difference or a hazard in one of the latter "
        "is a finding. `--record` adds a run to this table; `make fuzz-llvm` runs the same cases with two versions of "
        "LLVM and compares what each left. Where a GPU is not as the simulator says, the program is judged again "
        "without ptxas's optimiser, which folds some rare instructions otherwise than PTX defines them. Findings stay "
        "in the table when they are mended: the case then is among the later runs.", "",
        "| what | llvmlite | cases | findings | same but for ptxas's optimiser | processor time a case | slowest "
        "| memory |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        together.setdefault((run["mode"], run["llvmlite"]), []).append(run)
    for (mode, version), rows in sorted(together.items()):
        cases = sum(row["cases"] for row in rows)
        found, optimised = (
            sum(sum(r["findings"].values()) for r in rows), sum(len(r.get("optimised", ())) for r in rows)
        )  # fmt: skip
        cost = sum(row["processor_s"] for row in rows) / max(1, cases)
        took = f"{1000 * cost:.1f} ms | {max(row['slowest_s'] for row in rows):.1f} s"
        most = f"{max(row['resident_mb'] for row in rows)} MB"
        lines.append(f"| {FUZZED[mode]} | {version} | {cases:,} | {found} | {optimised} | {took} | {most} |")
    return [*lines, ""]


def _machine(rows: list[dict[str, Any]]) -> list[str]:
    """Instructions: PTX against machine code, which no counter promises to equal."""
    ratios = sorted(row["counters"]["warp_instructions"][1] / max(1, row["counters"]["warp_instructions"][0])
                    for row in rows if row["counters"].get("warp_instructions", [0, 0])[0])  # fmt: skip
    if not ratios:
        return []
    registers = Counter(int(row["counters"]["registers"][1]) for row in rows if "registers" in row["counters"])
    return [
        "## Machine code", "",
        "Instruction totals are PTX's. The machine code of these kernels executes "
        f"{ratios[len(ratios) // 10]:.2f} to {ratios[-1 - len(ratios) // 10]:.2f} times as many instructions (the "
        f"middle 80 % of them; the median is {ratios[len(ratios) // 2]:.2f}). They use {min(registers)} to "
        f"{max(registers)} registers a thread.",
    ]  # fmt: skip


def files() -> dict[Path, str]:
    """The page."""
    course = Course(ROOT)
    names = ("fidelity_h200.json", "hopper_h200.json", "fuzz.json")
    return {PAGE: page(*(recorded(name, course=course) for name in names))}
