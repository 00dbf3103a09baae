"""Writes docs/reference/clock.md from what benchmarks/clock recorded and compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from warpschool.clock.machine import NOT_VALIDATED, Machine, find_machine, machines
from warpschool.recorded import recorded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "clock.md"
WORST = 10
NEAR, MOST_S = 0.05, 2.0
TEXT = """\
# The clock

`warpschool predict FILE` and `ws.predict_time` say how long a kernel would take on a GPU, and what its warps would wait
for, without a GPU. [How it works](../design/clock.md). No point of any grade depends on it.

This page is written by `scripts/clock_page.py` from `benchmarks/results/clock_validation_h200.json`. That is
made by `python benchmarks/clock/validate.py` from times and counters that `benchmarks/clock/record.py` took on an
{device}, for the very cubins that the clock reads. Constants come from microbenchmarks (`benchmarks/clock/driver.py`,
`benchmarks/results/clock_h200.json`) and the data sheet; none is fitted to these kernels.

## What it had seen

The kernels in other styles (`benchmarks/clock/kernels`) were written when the model's structure stood. Their first
comparison changed nothing in it but for one instruction that it did not know, `FRND`; that comparison alone was blind.
Since then the model was extended and mended with the times, cycles and warp states of references and of these kernels
known. Where predictions were off told where to look; what was put there comes from microbenchmarks, from what an
instruction means, or from Nsight Compute's definitions:

- asynchronous engines, caches of code, fences, and which cycles of a launch's start count as its own;
- banks and tags of L1, lines that are on their way, sectors that lie anywhere, stores that drain, how deep queues are;
- blocks that differ and the multiprocessor that ends last, exits that a guard and a condition decide together, halves
  that decide on ways, divisions of unknown numbers, arrays that an earlier launch would have written;
- atomics of all multiprocessors at one line, which showed with lab 15;
- loads from shared memory, which pass those from global memory that wait for L1, and what one sub-core gets of L1 by
  itself: looked for where the commonest state was wrong, measured by `behind/*`. States became right more often by it;
  times came no closer, the references' median error grew from 7.2 to 7.4 %;
- how a launch's blocks add up: sets of as many as are resident, of which whole ones may be left out, and who gets the
  blocks that make no full set (`sets/*`); and how many ways the caches of code have (`fetch/2048_*`, `fetch/8192_*`).
  Both were looked for where tiles were chosen wrongly: a product of 3584 x 3584 x 3584 was told to be faster than the
  multiply-adds' peak. So the table of tiles below is no longer blind; no constant is fitted to it. The references'
  median error went from 7.4 to 7.2 %, that of kernels in other styles from 7.4 to 7.8 %;
- which warp a scheduler takes: the one that issued last, as long as it can and the compiler does not tell it to give
  way, else the youngest (`scheduler/*`; Huerta and others found the same for Ampere, 2025). The model had taken the one
  that had waited longest;
- whom register banks hold up: a warp whose registers cannot be read keeps its sub-core's others from issuing, three
  registers of one bank take three cycles, and integer instructions read registers, too (`banks/*`, `mix/*`). These rows
  had been measured wrongly for several warps, from when the first of them began rather than the last. Measured anew and
  run through the model (`benchmarks/clock/through_model.py`), rows of chosen registers agree to a hundredth; so do
  loops, whose branch takes ten cycles and not fourteen. All this was looked for in products with many warps, and no
  constant is fitted to them. The references' median error went from 7.2 to 7.1 %, their 90th percentile from 20.6 to
  19.3 %, the median of kernels in other styles from 7.8 to 7.1 %.

The names of two waits were settled by what Nsight Compute says of references: reading the registers of an access to
shared memory is a short scoreboard; a warp that is kept from its group's next product waits at a barrier.

## How far it is off

{figures}

Times are event to event, with L2 flushed before a file's first launch. A launch's error is how far predicted over
measured is from one. Four fifths of the references' times lie between {low:.2f} and {high:.2f} of the prediction; that
is the range that each prediction carries.{coverage}

Nsight Compute flushes all caches before each launch that it counts, so cycles and states are compared with predictions
for flushed caches; times of a file's later launches with those for what the first ones left in L2.

## Which warp state is confused with which

{confused}

"near" says of how many of these launches, on both GPUs, the predicted state is within 5 % of all warps' time behind the
commonest one in the record itself.
Of all launches {near}.

What limits it, by cause:

- Many waits are as long as another: of those that are confused, the column "near" has the ones that the record itself
  puts within 5 %.
- A first touch of constants costs 60 cycles for each 64 bytes of parameters, and 780 for each 256 bytes of others that
  DRAM has (`first_parameters/*`, `first_constants/*`, line by line in `benchmarks/results/clock_h100.json`). Nsight
  counts these as "IMC miss", in small launches up to a third of all warps' time; here they are part of the launch's
  start.
- By the clock, 17 to 19 loads of a sub-core find room before L1 (`stage/*`); here it is 16. In kernels whose loads
  follow each other closely (`01_wmma_naive`, `01_naive`), Nsight counts most of what these wait as "long scoreboard",
  not as "LG throttle"; why is not known.
- Where products of warpgroups and other work alternate, the GPU says "wait", "membar" or "short scoreboard" of what is
  held up here by the tensor cores.
- Partial sectors that one warp stores one after the other are gathered before L2 (`own/segmented_scan`).
- Products with three warps of a sub-core and more are told too fast, mostly by a tenth to a seventh
  (`benchmarks/results/clock_choices_h200.json`). It is no matter of pipe and banks: those serve four warps as fast as
  one (`banks/*_N_per_sub_core`).
- Of stores and accesses to shared memory together the model knows too little (`together/*_and_stg128`: up to half the
  time is missing).

## By lab

{labs}

## By size

{sizes}

## By kind of limit

The unit that is nearest to its best, as predicted; "issue slots" too where no unit is near it.

{limits}

## The {worst} that are furthest off

Each with what the record says of it: instructions that differ by more than 2 %, bytes of DRAM that differ by a quarter,
cycles of the launch by itself with flushed caches, and the warp state whose share differs most, counted against
predicted.

{furthest}

## What has no prediction

{missing}

## Another GPU: the H100

{of_another}

The H100's file was written before its times were looked at: its own microbenchmarks
(`benchmarks/results/clock_h100.json`) agree with the H200's but for memory, fences and launching.{without}

{instructions}

## Tiles chosen without a GPU

{choices}

## What a prediction costs

{cost}

## Machines

{machines}

Unless both are named, what stands above the H100's table is said of the H200. The others are **not validated here**:
no prediction for them was compared with a time, and each one says so, as text, as JSON and on the command line. Their
constants are from data sheets, white papers and NVIDIA's guides ("maker"), from what others measured ("published":
Jia et al. 2019 for Turing; Abdelkhalik et al. 2022 for Ampere; reports of the topology tool MT4G; configurations of
Accel-Sim; public notes on the RTX 4090), or "assumed": what nobody was found to say is taken from the H200, or worked
out as its entry tells.
Each constant's source stands in `src/warpschool/clock/machines/KEY.toml`.

`python benchmarks/clock/machines_check.py` follows every reference on every machine: none is faster than the roofline
bound of its counters; whatever the architecture's machine code, the first blocks of each launch touch the same
sectors of global memory and issue about as many instructions. What a machine cannot run has no prediction but the
reason: clusters and `wgmma` below `sm_90`, `cp.async` and products of 16 x 8 x 16 in PTX on Turing, more shared
memory than a block may have.

What is known to be missing there: clocks are the maker's boost clocks, which a T4 or a laptop does not hold under
load; the GTX 1650 has no tensor cores, and how it runs their instructions is an assumption; FP64 units that four
schedulers share are a quarter for each; L2 and DRAM are the H200's model with other numbers.

### Their constants

Of the H100: {of_h100}; all others are the H200's.

{others}

Assumed are, of these, by machine:

{assumed}

## Constants of the H200

{constants}
"""


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    return "\n".join(lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _figures(sets: dict[str, dict[str, Any]]) -> str:
    names = {"references": "references of the course, three sizes each", "outside": "kernels in other styles"}
    rows = [
        (label, *(f(one) for one in sets.values()))
        for label, f in (
            ("launches", lambda one: one["launches"]), ("median error of the time", lambda one:
            _percent(one["median"])),
            ("90th percentile", lambda one: _percent(one["p90"])),
            ("Spearman's rank correlation", lambda one: f"{one['rank_correlation']:.4f}"),
            ("median error of `sm__cycles_elapsed.max`", lambda one: _percent(one["cycles_median"])),
            ("`smsp__inst_executed.sum` within 2 %", lambda one: _percent(one["instructions_within_2_percent"])),
            ("commonest warp state right", lambda one: _percent(one["state_right"])),
            ("median difference of a state's share", lambda one: _percent(one["state_difference_median"])),
            ("processor time in all", lambda one: f"{one['cpu_s']:.0f} s"),
            ("of the dearest prediction, compiling included", lambda one: f"{one['cpu_most_s']:.1f} s"),
        )
    ]  # fmt: skip
    return _table(("", *(names[name] for name in sets)), rows)


def _confused(sets: dict[str, dict[str, Any]]) -> str:
    """How often one state was commonest and another was predicted, by GPU."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for gpu, found in sets.items():
        for row in _counted(found):
            if row["state"].lower() != row["measured_state"]:
                pair = row["measured_state"], row["state"].lower()
                counts[pair][gpu] += 1
                counts[pair]["near"] += row["ahead"] < NEAR
    rows = [
        (measured, predicted, counts[measured, predicted]["near"], *(counts[measured, predicted][gpu] for gpu in sets))
        for measured, predicted in sorted(counts, key=lambda pair: (-sum(counts[pair].values()), pair))
    ]
    return _table(("commonest on the GPU", "predicted", "near", *sets), rows)


def _counted(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in found["rows"] if row["predicted_us"] is not None and row.get("measured_instructions")]


def _near(sets: dict[str, dict[str, Any]]) -> str:
    """How many of all launches have the right state, or one that is as common within five points."""
    told = []
    for gpu, found in sets.items():
        rows = _counted(found)
        told.append(f"{_percent(sum(row['ahead'] < NEAR for row in rows) / len(rows))} on the {gpu}")
    return " and ".join(told) + " have the right state or one so near to it"


def _instructions(ours: dict[str, Any], other: dict[str, Any]) -> str:
    """Why the share of launches with the right number of instructions differs between GPUs with the same code."""
    keyed = [{}, {}]  # type: list[dict[tuple[str, int], dict[str, Any]]]
    for found, into in zip((ours, other), keyed, strict=True):
        seen: Counter[str] = Counter()
        for row in _counted(found):
            into[row["case"], seen[row["case"]]] = row
            seen[row["case"]] += 1
    both = keyed[0].keys() & keyed[1].keys()
    same = sum(keyed[0][k]["measured_instructions"] == keyed[1][k]["measured_instructions"] for k in both)
    shares = [_percent(sum(_is_close(rows[key]) for key in both) / len(both)) for rows in keyed]
    wrong = [sorted({row["case"].partition("@")[0] for row in rows.values() if not _is_close(row)}) for rows in keyed]
    return (
        f"Both run the same cubins. Of the {len(both)} launches that were counted on both, {same} issued exactly as "
        f"many instructions, and within 2 % of the prediction are {shares[0]} on the H200 and {shares[1]} on the H100. "
        f"Further off are, on the H200, {', '.join(wrong[0])}; on the H100 {', '.join(wrong[1])}. Kernels of "
        "warpgroups ask an mbarrier again while they wait, and a look back asks a neighbour's flag: how often depends "
        "on the time it takes. `quantize` and `softmax` divide what an earlier launch found, which does not run here."
    )


def _is_close(row: dict[str, Any]) -> bool:
    return abs(row["instructions"] / row["measured_instructions"] - 1) <= 0.02


def _choices() -> str:
    """How good the sets of tiles are that predictions put first."""
    found = recorded("clock_choices_h200.json")
    rows = sorted(found["choices"], key=lambda row: -row["of_best"])
    ratios = np.array([row["of_best"] for row in rows])
    table = _table(
        ("sizes or layer", "sets", "chosen", "the best", "chosen / best", "its place", "usual tiles / best"),
        [(row["choice"], row["sets"], f"{row['chosen_us']:,.1f} us", f"{row['best_us']:,.1f} us",
          f"{row['of_best']:.2f}", row["place"], f"{row['first_of_best']:.2f}") for row in rows],
    )  # fmt: skip
    return (
        f"For {len(rows)} sizes of lab 05's last product and layers of lab 12, every set of tiles was timed on an "
        f"{found['device']} (`benchmarks/clock/record.py`) and predicted (`python benchmarks/tune.py --validate`). The "
        f"set with the shortest prediction is the fastest of all in {int((ratios == 1).sum())} of them, within 5 % of "
        f"it in {found['close'] * 100:.0f} %, and takes {float(np.exp(np.log(ratios).mean())):.3f} of its time in the "
        "geometric mean. "
        "*Usual tiles* are those of the reference as it stands.\n\n" + table
    )


def _cost() -> str:
    """Processor time of all references at the usual sizes, and of the dearest."""
    found = recorded("clock_cost.json")
    rows = sorted(found["rows"], key=lambda row: -row["predict_s"])
    times = np.array([row["predict_s"] for row in rows])
    below = int((times <= MOST_S).sum())
    table = _table(
        ("reference", "sizes", "compiling", "predicting"),
        [(f"`{row['step']}`", row["case"], f"{row['compile_s']:.1f} s", f"{row['predict_s']:.1f} s")
         for row in rows[:WORST]],
    )  # fmt: skip
    return (
        f"Processor time beside compiling, which is done once and kept, of {len(rows)} references at the sizes that "
        f"`warpschool predict` takes by itself, on {found['processor']} (`benchmarks/clock/cost.py`): "
        f"{np.median(times):.2f} s in the middle, {below} take at most {MOST_S} s. The dearest:\n\n{table}"
    )


def _grouped(rows: list[dict[str, Any]], key: Any) -> list[tuple[Any, ...]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row["predicted_us"] / row["measured_us"])
    return [
        (name, len(ratios), _percent(float(np.median(np.abs(np.array(ratios) - 1)))), f"{np.median(ratios):.2f}")
        for name, ratios in groups.items()
    ]


_KNOWN = {
    "own/segmented_scan": "partial sectors that a warp stores one after the other are gathered before L2",
}
"""Causes that were found by looking closer, by the file's name."""


def _reason(row: dict[str, Any], *, is_later: bool) -> str:
    """What the record says of a launch whose time is far off."""
    told = []
    known = _KNOWN.get(row["case"].partition("@")[0])
    if known:
        told.append(known)
    if row.get("measured_instructions") and not _is_close(row):
        told.append(f"{row['measured_instructions'] / row['instructions']:.2f} times as many instructions")
    if row.get("dram_bytes"):
        predicted, counted = row["dram_bytes"]
        if not 0.8 <= (counted + 1) / (predicted + 1) <= 1.25:
            told.append(f"DRAM moves {counted / 1e6:,.1f} MB, not {predicted / 1e6:,.1f}")
    if is_later and row.get("measured_cycles"):
        told.append(f"alone, with flushed caches, {row['cycles'] / row['measured_cycles']:.2f} of the cycles")
    if row.get("measured_states"):
        gaps = {state: share - row["states"].get(state, 0.0) for state, share in row["measured_states"].items()}
        most = max(gaps, key=lambda state: gaps[state])
        if gaps[most] > NEAR:
            told.append(f"'{most}' {row['measured_states'][most]:.0%}, not {row['states'].get(most, 0.0):.0%}")
    return "; ".join(told) or "all that was counted agrees"


def _furthest(rows: list[dict[str, Any]]) -> str:
    """The launches whose times are furthest off, with what is known of why."""
    later: dict[int, bool] = {}
    seen: set[str] = set()
    for row in rows:
        later[id(row)] = row["case"] in seen
        seen.add(row["case"])
    told = [row for row in rows if row["predicted_us"] is not None]
    worst = sorted(told, key=lambda row: -abs(np.log(row["predicted_us"] / row["measured_us"])))[:WORST]
    return _table(
        ("case", "kernel", "predicted", "measured", "ratio", "why, as far as it was counted"),
        [
            (row["case"], f"`{row['kernel']}`", f"{row['predicted_us']:.1f} us", f"{row['measured_us']:.1f} us",
             f"{row['predicted_us'] / row['measured_us']:.2f}", _reason(row, is_later=later[id(row)])) for row in worst
        ],
    )  # fmt: skip


def _covered(found: dict[str, Any], another: dict[str, Any]) -> str:
    """How often the range held where it was not taken from."""
    low, high = found["interval"]
    ratios = [row["measured_us"] / row["predicted_us"] for row in another["rows"] if row["predicted_us"] is not None]
    share = float(np.mean([low <= ratio <= high for ratio in ratios]))
    outside = found["coverage_outside"]
    text = "" if outside is None else f" Of the kernels in other styles {_percent(outside)} lie in it,"
    return f"{text} and of all times of the H100 {_percent(share)} in the range around its own predictions."


def page() -> str:
    """The page's text."""
    found = recorded("clock_validation_h200.json")
    told = [row for row in found["rows"] if row["predicted_us"] is not None]
    missing = sorted(
        {(row["case"].split("@")[0], row["reason"]) for row in found["rows"] if row["predicted_us"] is None}
    )
    heads = ("", "launches", "median error", "median of predicted / measured")
    another = recorded("clock_validation_h100.json")
    left = [name.partition("@")[2] for name in another["without"]]
    without = "" if not left else f" {len(left)} cases, {left.count('large')} of them large, were not predicted for it."
    gpus = {"H200": found, "H100": another}
    return TEXT.format(
        confused=_confused(gpus), near=_near(gpus), instructions=_instructions(found, another), cost=_cost(),
        choices=_choices(), of_another=_figures(another["figures"]), without=without, device=found["device"],
        figures=_figures(found["figures"]), low=found["interval"][0], high=found["interval"][1],
        coverage=_covered(found, another),
        labs=_table(heads, _grouped(told, lambda row: row["case"].split("/")[0])),
        sizes=_table(heads, _grouped(told, lambda row: row["case"].split("@")[1])), worst=WORST,
        furthest=_furthest(found["rows"]), limits=_table(heads, sorted(_grouped(told, lambda row: row["limit"]))),
        missing="\n".join(f"- {case}: {reason}." for case, reason in missing) or "Nothing.",
        constants=_constants(), machines=_machines(), of_h100=_of_h100(), others=_others(), assumed=_assumed(),
    )  # fmt: skip


def _all_constants(machine: Machine) -> dict[str, tuple[Any, str]]:
    """Section and name of each constant -> its value and its source."""
    return {
        f"{section}.{name}": (value, machine["sources"].get(f"{section}.{name}", machine["sources"].get(section, "")))
        for section, values in machine.tables.items()
        if section != "sources"
        for name, value in values.items()
    }


def _constants() -> str:
    rows = [(name, *told) for name, told in _all_constants(find_machine("h200")).items()]
    return _table(("constant", "value", "source"), rows)


def _machines() -> str:
    rows = []
    for key in sorted(machines(), key=lambda key: not find_machine(key).is_validated):
        machine = find_machine(key)
        state = "yes" if machine.is_validated else NOT_VALIDATED
        clock, memory = machine["clock"], machine["memory"]
        numbers = memory["sms"], clock["mhz"], memory["dram_gb_per_s"]
        rows.append((f"`{key}`", machine.name, machine.arch, *numbers, state))
    return _table(("`--gpu`", "GPU", "code", "multiprocessors", "MHz", "DRAM, GB/s", "compared with times"), rows)


def _described() -> list[str]:
    """Machines that have constants of their own."""
    return [key for key in machines() if key not in ("h100", "h200")]


def _of_h100() -> str:
    own, base = (_all_constants(find_machine(key)) for key in ("h100", "h200"))
    return ", ".join(f"`{name}` {value}" for name, (value, _) in own.items() if value != base[name][0])


def _others() -> str:
    tables = [_all_constants(find_machine(key)) for key in _described()]
    names = list(dict.fromkeys(name for table in tables for name in table))
    names.sort(key=lambda name: list(find_machine("h200").tables).index(name.partition(".")[0]))
    rows = [(name, *(table.get(name, ("-",))[0] for table in tables)) for name in names]
    return _table(("constant", *_described()), rows)


def _assumed() -> str:
    rows = []
    for key in _described():
        told = _all_constants(find_machine(key)).items()
        rows.append(f"- {key}: {', '.join(name for name, (_, source) in told if source.startswith('assumed'))}.")
    return "\n".join(rows)


def files() -> dict[Path, str]:
    """The page."""
    return {PAGE: page()}
