"""Notebooks that cheat or are broken, each with the verdict of its kernel: `ATTACKS` is the table.

An attack takes the lab's notebook as plain data, with a right or a wrong kernel in it, and returns the file's bytes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LAB, STEP, CELL = "lab00_first_kernels", "lab00_first_kernels/01_saxpy", "lab00-01-kernel"
Notebook = dict[str, Any]


@dataclass(frozen=True)
class Attack:
    """`kernel`: what stands in the kernel cell, "right" or "wrong"; `verdict`: what it must get."""

    name: str
    kernel: str
    verdict: str
    build: Callable[[Notebook], bytes]


ATTACKS: list[Attack] = []


def attack(name: str, kernel: str, verdict: str) -> Callable[[Callable[[Notebook], Any]], None]:
    """Put what the function makes of a notebook into the table; it may change it in place, or return the bytes."""

    def register(change: Callable[[Notebook], Any]) -> None:
        def build(notebook: Notebook) -> bytes:
            own = copy.deepcopy(notebook)
            made = change(own)
            return made if isinstance(made, bytes) else json.dumps(own).encode()

        ATTACKS.append(Attack(name, kernel, verdict, build))

    return register


def kernel_cell(notebook: Notebook) -> dict[str, Any]:
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == CELL)


def checks(notebook: Notebook) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade")]


def code(source: str, **metadata: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def added(name: str, source: str, *, first: bool = True) -> None:
    """A wrong kernel, and a cell of Python that would change that if it ever ran."""

    @attack(name, "wrong", "WA")
    def _(notebook: Notebook) -> None:
        notebook["cells"].insert(0 if first else len(notebook["cells"]), code(source))


# ---------------------------------------------------------------- nothing wrong with these
attack("as it is", "right", "AC")(lambda notebook: None)
attack("byte order mark", "right", "AC")(lambda notebook: b"\xef\xbb\xbf" + json.dumps(notebook).encode())
attack("Windows line ends", "right", "AC")(lambda notebook: json.dumps(notebook, indent=1).replace("\n", "\r\n").encode())
attack("UTF-16", "right", "AC")(lambda notebook: json.dumps(notebook).encode("utf-16"))
attack("cells in reverse", "right", "AC")(lambda notebook: notebook["cells"].reverse())

# ---------------------------------------------------------------- Python that never runs for a kernel's points
added("input transformers", "get_ipython().input_transformers_cleanup.append(lambda lines: ['100.0'])")
added("replaced check_cell", "import warpschool as ws\nws.check_cell = lambda *a, **k: 100.0")
added("replaced numpy", "%%writefile numpy.py\nraise SystemExit('hijacked')")
added("SQL on the gradebook", "import sqlite3\nfor row in sqlite3.connect('{GRADEBOOK}').execute('delete from score'): pass")
added("kills its parent", "import os\nos.kill(os.getppid(), 9)")
added("daemon fork", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(9999)")
added("ends the process", "import os\nos._exit(0)")
added("shell", "!rm -rf {GRADEBOOK} ~", first=False)
added("another kernel magic", f"%%kernel {STEP} --check --device gpu; rm x\nnothing")

# ---------------------------------------------------------------- forgeries


@attack("forged points", "wrong", "WA")
def _(notebook):
    for cell in checks(notebook):
        cell["metadata"]["nbgrader"]["points"] = 1000


@attack("forged outputs", "wrong", "WA")
def _(notebook):
    for cell in checks(notebook):
        cell["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "100.0"}, "metadata": {}}]


@attack("check cells rewritten", "wrong", "WA")
def _(notebook):
    for cell in checks(notebook):
        cell["source"] = "100.0"


@attack("skip-execution tags", "wrong", "WA")
def _(notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution", "raises-exception"]


@attack("everything a solution cell", "wrong", "WA")
def _(notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["nbgrader"] = {"grade_id": cell["metadata"].get("nbgrader", {}).get("grade_id", "x"),
                                        "solution": True, "grade": True, "locked": False, "points": 50}  # fmt: skip


@attack("marks of the wrong types", "right", "AC")
def _(notebook):
    for cell in checks(notebook):
        cell["metadata"] = {"nbgrader": {"grade_id": ["x"], "points": {"a": 1}}, "tags": 7}
    notebook["metadata"] = None


@attack("grade ids exchanged", "wrong", "WA")
def _(notebook):
    for cell in checks(notebook):
        cell["metadata"]["nbgrader"]["grade_id"] = CELL.replace("kernel", "nothing")


@attack("another kernelspec and widgets", "wrong", "WA")
def _(notebook):
    spec = {"name": "../../evil", "display_name": "x", "language": "bash", "argv": ["sh", "-c", "rm {GRADEBOOK}"]}
    notebook["metadata"] = {"kernelspec": spec, "widgets": {"state": {}}, "celltoolbar": "Create Assignment"}


@attack("keys that are there twice", "wrong", "WA")
def _(notebook):
    text = json.dumps(notebook)
    name = json.dumps(CELL)
    return text.replace(f'"grade_id": {name}', f'"grade_id": "x", "\\u0067rade_id": {name}').encode()


@attack("grade id of a check on a cell of one's own", "wrong", "WA")
def _(notebook):
    for cell in checks(notebook):
        notebook["cells"].append(code("100.0", nbgrader=dict(cell["metadata"]["nbgrader"])))


@attack("an endless list of outputs", "right", "AC")
def _(notebook):
    png = {"output_type": "display_data", "data": {"image/png": "A" * 1000}, "metadata": {}}
    notebook["cells"].append(code("plot()") | {"outputs": [png] * 5000})


@attack("a kernel with another's in its first line", "wrong", "WA")
def _(notebook):
    cell = kernel_cell(notebook)
    cell["source"] = "".join(cell["source"]).replace(STEP, f"{STEP} {STEP} --points=100", 1)


# ---------------------------------------------------------------- cells moved about
attack("kernel cell deleted", "right", "BAD")(lambda notebook: notebook["cells"].remove(kernel_cell(notebook)))
attack("kernel cell emptied", "right", "BAD")(lambda notebook: kernel_cell(notebook).update(source=""))


@attack("check cells deleted", "right", "AC")
def _(notebook):
    for cell in checks(notebook):
        notebook["cells"].remove(cell)


@attack("kernel cell twice, the last one right", "wrong", "AC")
def _(notebook):
    again = copy.deepcopy(kernel_cell(notebook))
    again["source"] = "{RIGHT}"
    notebook["cells"].append(again)


@attack("kernel cell twice, the last one wrong", "right", "WA")
def _(notebook):
    again = copy.deepcopy(kernel_cell(notebook))
    again["source"] = "{WRONG}"
    notebook["cells"].append(again)


@attack("kernel cell retyped to text", "right", "AC")
def _(notebook):
    kernel_cell(notebook).update(cell_type="markdown")


@attack("kernel cell without its marks", "right", "AC")
def _(notebook):
    kernel_cell(notebook)["metadata"] = {}
    kernel_cell_without = next(c for c in notebook["cells"] if "".join(c["source"]).startswith("%%kernel " + STEP))
    kernel_cell_without.pop("id", None)


@attack("magic line deleted", "right", "AC")
def _(notebook):
    cell = kernel_cell(notebook)
    cell["source"] = "".join(cell["source"]).split("\n", 1)[1]


@attack("magic line names another step", "right", "AC")
def _(notebook):
    cell = kernel_cell(notebook)
    cell["source"] = "".join(cell["source"]).replace(STEP, "lab02_tiling/01_tiled", 1)


@attack("source as a list of nonsense", "right", "BAD")
def _(notebook):
    kernel_cell(notebook)["source"] = [1, None, {"a": []}]


@attack("half a surrogate", "wrong", "WA")
def _(notebook):
    notebook["cells"].append(code("\ud800 \udfff"))


# ---------------------------------------------------------------- metadata, attachments, outputs


@attack("attachments of a kernel cell", "wrong", "WA")
def _(notebook):
    right = {"text/plain": "{RIGHT}", "application/x-ipynb+json": {"source": "100.0"}}
    kernel_cell(notebook)["attachments"] = {"../../gradebook.db": right, f"{CELL}.cu": right}


@attack("attachments that are no attachments", "right", "AC")
def _(notebook):
    for cell in notebook["cells"]:
        cell["attachments"] = [None, 7, {"a": []}]


@attack("a source in the metadata", "wrong", "WA")
def _(notebook):
    kernel_cell(notebook)["metadata"] |= {"source": "{RIGHT}", "jupyter": {"source_hidden": True, "source": "{RIGHT}"}}


@attack("a source in the outputs", "wrong", "WA")
def _(notebook):
    text = {"output_type": "stream", "name": "stdout", "text": "{RIGHT}"}
    kernel_cell(notebook)["outputs"] = [text, {"output_type": "display_data", "data": {"text/x-cuda": "{RIGHT}"}}]


@attack("answers already marked as checked", "wrong", "WA")
def _(notebook):
    for cell in notebook["cells"]:
        marks = cell["metadata"].setdefault("nbgrader", {})
        marks |= {"checksum": "0" * 32, "cell_type": "code", "score": 100, "graded": True, "manual_score": 100}


@attack("a prediction that was locked long ago", "wrong", "WA")
def _(notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["warpschool"] = {"locked": True, "verdict": "AC", "score": 6, "prediction": [16, 16]}
    notebook["metadata"]["warpschool"] = {"solved": [STEP], "seed": 7, "secret": "", "device": "gpu"}


@attack("another seed and device in the metadata", "wrong", "WA")
def _(notebook):
    notebook["metadata"] = {"nbgrader": {"seed": 3}, "execute": {"device": "gpu"}, "papermill": {"parameters": {"seed": 1}}}


@attack("an id for every cell, the same", "right", "AC")
def _(notebook):
    for cell in notebook["cells"]:
        cell["id"] = "x"


@attack("ids without end", "right", "AC")
def _(notebook):
    for cell in notebook["cells"]:
        cell["id"] = "../" * 30_000


@attack("a format of the future", "right", "AC")
def _(notebook):
    notebook |= {"nbformat": 4, "nbformat_minor": 99}


@attack("counts that are texts", "right", "AC")
def _(notebook):
    for cell in notebook["cells"]:
        cell["execution_count"] = "<b>9</b>"


@attack("a grade id with markup", "right", "AC")
def _(notebook):
    notebook["cells"].append(code("1", nbgrader={"grade_id": "<script>alert(1)</script>", "grade": True, "points": 50}))


@attack("a kernel cell whose lines end as they like", "right", "AC")
def _(notebook):
    cell = kernel_cell(notebook)
    cell["source"] = "".join(cell["source"]).replace("\n", "\r\n").splitlines(keepends=True)


@attack("a kernel behind a shell command", "wrong", "CE")
def _(notebook):
    cell = kernel_cell(notebook)
    head, rest = "".join(cell["source"]).split("\n", 1)
    cell["source"] = f"{head}\n!rm -rf {{GRADEBOOK}}\n{rest}"


@attack("two kernels in one cell", "wrong", "CE")
def _(notebook):
    cell = kernel_cell(notebook)
    cell["source"] = "".join(cell["source"]) + "\n{RIGHT}"


# ---------------------------------------------------------------- no notebook at all
attack("empty file", "right", "BAD")(lambda notebook: b"")
attack("no JSON", "right", "BAD")(lambda notebook: b"I had no time, sorry")
attack("half the JSON", "right", "BAD")(lambda notebook: json.dumps(notebook).encode()[:2000])
attack("Latin-1", "right", "BAD")(lambda notebook: json.dumps(notebook | {"x": "ü"}, ensure_ascii=False).encode("latin-1"))
attack("a gzip file", "right", "BAD")(lambda notebook: bytes([31, 139, 8, 0]) + bytes(range(256)))
attack("200 MB", "right", "BAD")(lambda notebook: json.dumps(notebook).encode() + b" " * (200 << 20))
attack("nested without end", "right", "BAD")(lambda notebook: b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")
attack("a list", "right", "BAD")(lambda notebook: b"[]")
attack("cells that are numbers", "right", "BAD")(lambda notebook: b'{"cells": [1, 2, 3], "nbformat": 4}')
attack("cells that are no list", "right", "BAD")(lambda notebook: b'{"cells": {"a": 1}, "nbformat": 4}')
attack("format 3", "right", "BAD")(lambda notebook: json.dumps({"worksheets": [notebook], "nbformat": 3}).encode())
attack("a hundred thousand cells", "right", "BAD")(lambda notebook: json.dumps({"cells": [{}] * 100_000}).encode())
attack("a number of a million digits", "right", "BAD")(lambda notebook: b'{"cells": ' + b"9" * 1_000_000 + b"}")
