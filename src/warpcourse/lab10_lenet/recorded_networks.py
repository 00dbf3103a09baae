"""What benchmarks/networks.py recorded on a GPU of the digits' network: layers, forms, layouts, streams, and when.

Nothing is filled in: where nothing was recorded, tables are empty and say so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from warpschool.course import Course
from warpschool.nn.network import FORMS
from warpschool.nn.streams import Span, Timeline, Work
from warpschool.show.table import Table, small_table

NOTHING = "Nothing recorded."


def _recorded(course: Course | None) -> dict[str, Any]:
    root = (course or Course.find()).root
    for path in sorted((root / "benchmarks" / "results").glob("networks_*.json")):
        found = json.loads(path.read_text("utf-8"))
        if "digits" in found:
            return found
    return {}


def _rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return found["digits"]["rows"] if found else []


def layer_times(form: str, *, course: Course | None = None) -> tuple[str, dict[str, float]]:
    """Return the GPU's name and what each layer of a float32 form took there, in ms for 10,000 images; "" and nothing
    where that was not recorded."""
    found = _recorded(course)
    for row in _rows(found):
        if (row["form"], row["precision"]) == (form, "float32"):
            return found["device"], row["layers_ms"]
    return "", {}


def forms(*, course: Course | None = None) -> Table:
    """What fusing layers, another method and half precision bring: the whole network, form by form."""
    found = _recorded(course)
    told: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _rows(found):
        told.setdefault((row["precision"], row["form"]), row)[row["reference"]] = row["ratio"]
    order = sorted(told, key=lambda key: (key[0] != "float32", FORMS.index(key[1])))
    rows = [
        [form, precision, f"{row['time_ms']:.2f}", f"{row['arena_mb']:,.0f}", f"{row['separate_mb']:,.0f}",
         *(f"{row[name]:.2f}" if name in row else "" for name in ("PyTorch eager", "torch.compile")),
         f"{row['accuracy']:.1%}"]
        for (precision, form), row in ((key, told[key]) for key in order)
    ]  # fmt: skip
    head = ["form", "numbers", "ms for 10,000", "MB, one arena", "MB, all apart", "of PyTorch eager",
            "of torch.compile", "right"]  # fmt: skip
    return small_table(head, rows, f"Fusion, recorded on {found['device']}." if found else NOTHING)


def layouts(*, course: Course | None = None) -> Table:
    """The first stage's pooling with windows of 2 x 2, through shared memory, and of 4 x 1."""
    found = _recorded(course)
    times = found["digits"]["layout_ms"] if found else {}
    rows = [[name, f"{ms:.3f}"] for name, ms in times.items()]
    note = f"Layout: the first pooling of 10,000 images, recorded on {found['device']}." if found else NOTHING
    return small_table(["windows lie as", "ms"], rows, note)


def streams(*, course: Course | None = None) -> Table:
    """Copies in, kernels and copies out of 10,000 images: from which memory, in how many parts and streams."""
    found = _recorded(course)
    rows = [
        ["pinned" if one["pinned"] else "pageable", one["parts"], one["streams"], f"{one['total_ms']:.2f}",
         f"{one['overlapped_ms']:.2f}"]
        for one in (found["digits"]["streams"] if found else [])
    ]  # fmt: skip
    note = f"Streams: copies and kernels by events, recorded on {found['device']}." if found else NOTHING
    return small_table(["host memory", "parts", "streams", "ms", "ms of it overlapped"], rows, note)


def tables(*, course: Course | None = None) -> list[Table]:
    """The three optimisations, each measured by itself."""
    return [forms(course=course), layouts(course=course), streams(course=course)]


def timelines(*, course: Course | None = None) -> dict[str, Timeline]:
    """What ran when, by the events of each recorded run from pinned memory: by title."""
    found = _recorded(course)
    return {
        f"{found['device']}: {_counted(one['parts'], 'part')}, {_counted(one['streams'], 'stream')}": Timeline(
            tuple(Span(Work(engine, part, stream), start, end) for engine, part, stream, start, end in one["spans"]),
            recorded=True,
        )
        for one in (found["digits"]["streams"] if found else [])
        if one["pinned"]
    }


def fastest(count: int = 2, *, course: Course | None = None) -> dict[str, Timeline]:
    """The run in one part, and the `count` fastest of those in several parts."""
    found = timelines(course=course)
    parts = {title: len(line.spans) // 3 for title, line in found.items()}
    several = sorted((title for title in found if parts[title] > 1), key=lambda title: found[title].total_ms)
    return {title: found[title] for title in found if parts[title] == 1 or title in several[:count]}


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("s" if count != 1 else "")
