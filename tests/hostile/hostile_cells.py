"""Students' Python below a question, hostile: `CELLS` has what it tries, and the verdicts of which one is due.

Each hands in a cell whose `answer` should be 42; what holds gives points for 42 as plain data, and nothing else.
"""

from __future__ import annotations

from typing import Any

from warpschool.grading import python_cells
from warpschool.grading.result import CellOutcome

FAR = "/etc/passwd"
CELLS: dict[str, tuple[str, str]] = {
    "a plain number": ("answer = 42", "AC"),
    "a wrong number": ("answer = 41", "WA"),
    "a number that is computed": ("answer = sum(range(10)) - 3", "AC"),
    "equals everything": (
        "class Any(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "    def __sub__(self, other): return 0\nanswer = Any(7)", "WA",
    ),
    "an object without a value": ("class Nothing:\n    __array_priority__ = 9\nanswer = Nothing()", "WA"),
    "not a number": ("answer = float('nan')", "WA"),
    "infinity": ("answer = float('inf')", "WA"),
    "true": ("answer = True", "WA"),
    "a text of the number": ("answer = '42'", "WA"),
    "a complex number": ("answer = 42 + 0j", "WA"),
    "a list that holds itself": ("answer = []\nanswer.append(answer)", "WA"),
    "a number of a million digits": ("answer = 10 ** 1_000_000", "RTE"),
    "a text that is no text": ("answer = '\\ud800'", "WA"),
    "all the memory": ("kept = []\nfor k in range(10 ** 6):\n    kept.append(bytearray(10 ** 7))\nanswer = 42", "MLE"),
    "one large array": ("import numpy as np\nanswer = int(np.ones(10 ** 10).sum())", "WA"),
    "recursion": ("def f(k): return f(k + 1)\nanswer = f(0)", "WA"),
    "a deep structure": ("answer = 42\nfor k in range(100000): answer = [answer]", "WA"),
    "leaves": ("import os\nanswer = 42\nos._exit(0)", "RTE"),
    "asks to leave": ("answer = 42\nraise SystemExit(0)", "AC"),
    "kills itself": ("import os, signal\nanswer = 42\nos.kill(os.getpid(), signal.SIGKILL)", "RTE"),
    "a forged answer on every file": (
        "import os, json\nfor number in range(3, 64):\n    try:\n        os.write(number, json.dumps({'values': {}, "
        "'unfit': [], 'functions': [], 'check': {'value': 2.0}}).encode() + b'\\n')\n    except OSError:\n        pass\n"
        "answer = 0", "WA RTE",
    ),
    "another check": ("import warpschool as ws\nws.check_prediction = lambda *a, **k: 2.0\nanswer = 0", "WA"),
    "other modules": ("import sys\nsys.modules['warpschool'] = None\nanswer = 42", "AC"),
    "other builtins": ("import builtins\nbuiltins.float = lambda *a: 42.0\nanswer = 0", "WA"),
    "reads the accounts": (f"answer = 42 if open({FAR!r}).read() else 0", "WA"),
    "reads the environment": ("import os\nanswer = 42 if 'canary' in str(os.environ) else 0", "WA"),
    "reads its parents": (
        "import glob\nanswer = 42 if any('canary' in open(path).read() for path in glob.glob('/proc/*/environ')) else 0",
        "WA",
    ),
    "looks for graders": (
        "import pathlib, warpschool\nfrom warpschool.course import Course\nroot = Course.find().root\n"
        "answer = 42 if list(root.glob('grader/*/*.py')) or list(root.glob('solutions/*/*.cu')) else 0", "WA",
    ),
    "asks the network": (
        "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 22), timeout=1)\n    answer = 42\n"
        "except OSError:\n    answer = 0", "WA",
    ),
    "listens": ("import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\nanswer = 42", "WA"),
    "a segmentation fault": ("import ctypes\nctypes.string_at(0)\nanswer = 42", "RTE"),
    "threads that stay": (
        "import threading, time\nfor _ in range(8):\n    threading.Thread(target=time.sleep, args=(50,)).start()\n"
        "answer = 42", "TLE",
    ),
    "sleeps": ("import time\ntime.sleep(10 ** 6)\nanswer = 42", "TLE"),
    "a generator without end": ("answer = sum(1 for _ in iter(int, 1))", "TLE"),
    "writes a disk full": ("open('x', 'wb').write(b'0' * (1 << 30))\nanswer = 42", "MLE"),
    "writes into its packages": ("import numpy\nopen(numpy.__file__, 'a').write('#')\nanswer = 42", "WA"),
    "a magic of the shell's": ("%timeit -n 1 -r 1 0\nanswer = 42", "AC"),
    "a command": ("!echo 42\nanswer = 42", "WA"),
    "markup": ("answer = '<script>alert(1)</script>'", "WA"),
    "frames above": ("import sys\nf = sys._getframe()\nwhile f:\n    f.f_globals['points'] = 2\n    f = f.f_back\nanswer = 0", "WA"),
    "all objects": (
        "import gc\nfor one in gc.get_objects():\n    if isinstance(one, dict) and 'check' in one:\n"
        "        one['check'] = None\nanswer = 0", "WA",
    ),
}  # fmt: skip
QUICK = ("equals everything", "a forged answer on every file", "reads the accounts", "all the memory")
"""the ones that ordinary runs try; full runs try all"""


def checked(own: str) -> CellOutcome:
    """What a check of `answer` gives where the student's cell is `own`."""

    def cell(source: str, **marks: Any) -> dict[str, Any]:
        return {"cell_type": "code", "source": source, "metadata": {"nbgrader": marks} if marks else {}}

    check = "import warpschool as ws\nws.check_prediction(answer, 42, what='answer', points=2)"
    notebook = {"cells": [
        cell(own, grade_id="own", locked=False, grade=False, solution=True),
        cell(check, grade_id="check", locked=True, grade=True, solution=False, points=2),
    ]}  # fmt: skip
    return python_cells.check(notebook, "check", points=2.0, policy="sandbox")
