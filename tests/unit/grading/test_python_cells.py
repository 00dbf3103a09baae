"""Check cells in Python: students' numbers are data, their code runs in bubblewrap, and neither reaches the check."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from warpschool.course import Course
from warpschool.grading import limits, python_cells
from warpschool.grading.calls import decoded, encoded
from warpschool.grading.jobs import PythonJob, from_wire, to_wire
from warpschool.grading.python_cells import AS_DATA, SANDBOX, check
from warpschool.grading.sandbox import Finished, bubblewrap_problem
from warpschool.grading.verdicts import Verdict

needs_bubblewrap = pytest.mark.skipif(bool(bubblewrap_problem()), reason=bubblewrap_problem() or "bubblewrap is here")
SETUP = "%matplotlib inline\nimport numpy as np\nimport warpschool as ws\nLIMIT = 3"
CHECK = "# The answer.\npoints = ws.check_prediction(answer, LIMIT * 14, what='answer', points=2)\npoints"
FORGERY = "answer = 1\nimport warpschool as ws\nws.check_prediction = lambda *a, **k: 2.0\nLIMIT = 0\nx = [1]"


def notebook(*own: str, check_source: str = CHECK, starter: str = "") -> dict:
    def cell(source, **marks):
        return {"cell_type": "code", "source": source, "metadata": {"nbgrader": marks} if marks else {}}

    return {"cells": [
        cell(SETUP, grade_id="setup", locked=True, grade=False, solution=False),
        *(cell(source, grade_id=f"own-{n}", locked=False, grade=False, solution=True) for n, source in enumerate(own)),
        cell("raise SystemExit('only draws')", grade_id="draw", locked=True, grade=False, solution=False),
        cell(check_source, grade_id="check", locked=True, grade=True, solution=False, points=2),
    ]}  # fmt: skip


def checked(*own: str, policy: str = "sandbox", **options):
    return check(notebook(*own, **options), "check", points=2.0, policy=policy)


@pytest.mark.parametrize(("own", "verdict", "value"), [
    ("answer = 42", "AC", 2.0), ("answer = 6 * 7.0", "AC", 2.0), ("half = 21\nanswer = half * 2", "AC", 2.0),
    ("answer = None", "WA", 0.0), ("answer = 'forty-two'", "WA", 0.0), ("# nothing", "WA", 0.0),
    ("answer = (", "WA", 0.0),
])  # fmt: skip
@pytest.mark.thinned(3)
def test_numbers_are_read_as_data(own, verdict, value):
    found = checked(own, policy="manual")  # no Python of the student is run, so this policy allows it
    assert (found.verdict.value, 2 * found.fraction, found.isolation) == (verdict, value, AS_DATA)


@pytest.mark.parametrize("own", ["answer = 10 ** 10 ** 10", "answer = 9 ** 64 ** 2", "answer = open(0).read()",
                                 "answer = [0] * 10 ** 9", "answer = 42 if True else 0"])  # fmt: skip
def test_what_would_have_to_be_run_goes_to_a_person_without_a_sandbox(own, monkeypatch):
    assert checked(own, policy="manual").verdict is Verdict.SKIP
    monkeypatch.setattr(python_cells, "bubblewrap_problem", lambda: "bubblewrap is not installed")
    found = checked(own)
    assert (found.verdict, found.fraction) == (Verdict.SKIP, 0.0) and "A person grades this cell" in found.text


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@needs_bubblewrap
@pytest.mark.parametrize(("own", "verdict", "value"), [
    ("answer = np.arange(43)[-1]", "AC", 2.0), (FORGERY, "WA", 0.0), slow("answer = sum(range(7)) * 2", "AC", 2.0),
    slow("class Any:\n    __eq__ = lambda *_: True\nanswer = Any()", "WA", 0.0), slow("answer = 1 / 0", "WA", 0.0),
    slow("answer = open('/etc/passwd').read()", "WA", 0.0),
    slow("import os\nos.kill(os.getppid(), 9)\nos.kill(os.getpid(), 9)\nanswer = 42", "RTE", 0.0),
    slow("get_ipython().input_transformers_cleanup.append(lambda lines: ['2.0'])\nanswer = [1]", "WA", 0.0),
    slow("import sys, os\nos.write(3, b'{}')\nsys.stdout.write('2.0')\nanswer = sum([42])", "AC RTE WA", None),
])  # fmt: skip
def test_other_code_runs_in_bubblewrap_and_cannot_reach_the_check(own, verdict, value):
    found = checked(own)
    assert found.verdict.value in verdict.split(), found
    assert value is None or 2 * found.fraction == value
    assert found.isolation == SANDBOX


@needs_bubblewrap
def test_the_sandbox_has_no_network_no_secrets_and_an_empty_home(tmp_path, monkeypatch):
    """The student's code reports what it finds; nothing of it may be there."""
    secret = tmp_path / "gradebook.db"
    secret.write_text("canary")
    monkeypatch.setenv("WARPSCHOOL_CANARY", "canary")
    probe = f"""
import os, socket, glob
def tries(action):
    try:
        return repr(action())
    except BaseException as error:
        return type(error).__name__
answer = str(dict(
    secret=tries(lambda: open({str(secret)!r}).read()),
    environment=[name for name in os.environ if 'CANARY' in name],
    home=[name for name in os.listdir(os.path.expanduser('~')) if not name.startswith('.')],
    network=tries(lambda: socket.create_connection(('127.0.0.1', 22), 1)),
    interfaces=tries(lambda: socket.if_nameindex()),
    processes=len([n for n in os.listdir('/proc') if n.isdigit()]) < 5,
    references=glob.glob(os.path.join(os.path.dirname(ws.__file__), '..', '..', 'solutions', '*')),
    writes=tries(lambda: open(os.path.join(os.path.dirname(ws.__file__), 'x'), 'w')),
))
"""
    found = checked(probe, check_source="print(answer)\n2.0 if answer else 0.0")
    said = found.text
    assert "'home': []" in said and "'environment': []" in said and "'interfaces': 'PermissionError'" in said, said
    assert "'processes': True" in said and "'references': []" in said
    assert "canary" not in said and "'secret': 'FileNotFoundError'" in said
    assert "'writes': 'OSError'" in said or "'writes': 'PermissionError'" in said


@needs_bubblewrap
@pytest.mark.slow
def test_a_submission_leaves_nothing_running(tmp_path):
    marker = f"warpschool-daemon-{os.getpid()}"
    child = f"    os.setsid()\n    os.execvp('sleep', ['{marker}', '300'])"
    daemon = f"import os, time\nif os.fork() == 0:\n{child}\nanswer = sum([42])"
    assert checked(daemon).verdict is Verdict.WA, "it started a process"
    running = [p for p in Path("/proc").glob("[0-9]*/cmdline") if marker.encode() in p.read_bytes()]
    assert not running


SEARCH = """def search(names, measure, known):
    for name in names:
        if name not in known:
            known[name] = measure(name)
    return min(known, key=known.get)"""
RESUMED = """from warpcourse.lab12_split_channels import lab
ws.check_prediction(lab.resumed(search), ('g', 8, 8), points=2)"""
FORGED = "import warpschool as ws\nws.check_prediction = lambda *a, **k: 2.0\n"


@needs_bubblewrap
@pytest.mark.parametrize(("own", "verdict"), [
    (SEARCH, "AC"), (FORGED + SEARCH.replace("min(", "max("), "WA"),
    slow(SEARCH.replace("    for", "    import warpschool as ws; ws.check_prediction = len\n    for"), "AC"),
    slow("def search(names, measure, known):\n    import os\n    os._exit(0)", "RTE"),
    slow("def search(names, measure, known):\n    raise SystemExit", "WA"),
    slow("class search:\n    __new__ = lambda *_: search\n    __eq__ = lambda *_: True", "WA"),
    slow("def search(*_):\n    import inspect\n    return [f.f_locals for f in inspect.stack()]", "WA"),
])  # fmt: skip
def test_a_function_stays_in_the_sandbox_and_the_check_calls_it_from_outside(own, verdict):
    """With callbacks, an interruption that passes through the student's code, and a dict that it fills."""
    found = checked(own, check_source=RESUMED)
    assert (found.verdict.value, found.isolation) == (verdict, SANDBOX), found
    assert 2 * found.fraction == (2.0 if verdict == "AC" else 0.0)


@needs_bubblewrap
def test_a_builtin_that_the_student_binds_is_not_what_the_check_calls():
    assert checked(f"{FORGED}float = lambda *_: 2.0\nanswer = 1", check_source="float(answer == 42) * 2").fraction == 0


ENDLESS = {
    "while": "while True: pass", "for": "import itertools\nfor _ in itertools.count(): pass",
    "comprehension": "import itertools\nanswer = [k for k in itertools.count() if k < 0]",
    "generator": "import itertools\nanswer = sum(k for k in itertools.repeat(1))",
    "recursion": "f = lambda n: f(n - 1) + f(n - 2) if n > 1 else 1\nanswer = f(900)",
    "function": "def f(n):\n    'Text.'\n    return n and max(f(n - 1), f(n - 1))\nf(900)",
    "swallowed": "while True:\n    try:\n        1 / 0\n    except BaseException:\n        pass",
    "thread": "import threading as t\ndef f():\n    while True: pass\nt.Thread(target=f).start()\nt.Event().wait()",
    "sleep": "import time\nwhile True:\n    time.sleep(1)", "one sleep": "from time import sleep\nsleep(10**6)",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_python_that_never_ends_is_told_by_its_steps(name):
    """With little of each budget: the count is what ends it, on a machine of any speed."""
    code = """
import ast, sys, warnings
from warpschool.grading.limits import limit_steps
counted = limit_steps(steps=100_000, sleep_s=0.5)
exec(compile(ast.fix_missing_locations(counted.visit(ast.parse(sys.argv[1]))), "cell", "exec"))
print("it ended")
"""
    done = subprocess.run([sys.executable, "-c", code, ENDLESS[name]], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (limits.EXIT_CODE, "")
    assert ("waits for too long" if "sleep" in name else "does not come to an end") in done.stderr


def test_counting_changes_nothing_else():
    source = """
import time
def f(n: int) -> int:
    "What it does."
    total = 0
    for k in range(n):
        if k % 2: continue
        total += k
    else:
        total += 1
    return total
g = lambda a, *b, c=3: [a, *b, c] and [x * y for x in b if x for y in range(3)]
async def h(): return {k: v async for k, v in h()}
class A:
    "A class."
    squares = tuple(k * k for k in range(5))
    @property
    def whole(self): return {k for k in self.squares}
time.sleep(0)
found = f(11), f.__doc__, A.__doc__, g(1, 0, 2), A().whole, A.squares, list(map(lambda k: k or 7, [0, 1]))
"""
    code = """
import ast, sys
from warpschool.grading.limits import limit_steps
tree = ast.parse(sys.argv[1])
if sys.argv[2:]:
    tree = ast.fix_missing_locations(limit_steps().visit(tree))
exec(compile(tree, "cell", "exec"))
print(found)
"""
    both = [
        subprocess.run([sys.executable, "-c", code, source, *how], capture_output=True, text=True, check=True).stdout
        for how in ([], ["counted"])
    ]
    assert both[0] == both[1] and both[0].startswith("(31, 'What it does.', 'A class.'")


@needs_bubblewrap
@pytest.mark.parametrize("own", [slow("while True: pass\nanswer = 42"), "import time\ntime.sleep(10**6)\nanswer = 42"])
def test_what_uses_up_its_steps_or_sleeps_for_ever_is_stopped(own):
    found = checked(own)
    assert (found.verdict, found.fraction) == (Verdict.TLE, 0.0) and "steps or sleeps" in found.text


@pytest.mark.parametrize("isolation", [AS_DATA, SANDBOX])
def test_elapsed_time_is_no_students_verdict(isolation):
    finished = Finished(b"", -9, "", timed_out=True)
    assert python_cells._ended(finished, isolation).verdict is Verdict.SE


PLOT = "fig, ax = plt.subplots(figsize=(1, 1))\nax.plot(numbers);"


def plots(source: str, *, policy: str = "sandbox"):
    first, second = "import matplotlib.pyplot as plt\nnumbers = []", "numbers.append(3)\nnumbers.extend([1, 2])"
    cells = notebook(first, second, source)
    for number, cell in enumerate(cells["cells"]):
        cell["id"] = f"c{number}"
    return python_cells.draw(cells, "c3", policy=policy)


@needs_bubblewrap
def test_a_plot_is_drawn_again_in_the_sandbox():
    found = plots(PLOT)
    (png,) = found.images
    image = np.array(Image.open(io.BytesIO(base64.b64decode(png))).convert("L"))
    assert found.isolation.startswith("bubblewrap") and image.shape == (100, 100) and image.min() < 160
    assert plots(PLOT).images == found.images, "equal cells give equal bytes"


@pytest.mark.parametrize("source", ["1 / 0", slow("import os\nos._exit(0)"), slow("print('no picture')")])
def test_what_draws_nothing_says_so(source):
    found = plots(source, policy="sandbox" if not bubblewrap_problem() else "manual")
    assert found.images == () and found.text


def test_nothing_is_drawn_where_students_python_may_not_run(monkeypatch):
    assert (plots(PLOT, policy="manual").images, plots(PLOT, policy="manual").isolation) == ((), "not run")
    monkeypatch.setattr(python_cells, "bubblewrap_problem", lambda: "bubblewrap is not installed")
    assert plots(PLOT).text == "bubblewrap is not installed"


def test_a_check_that_gives_no_number_of_points_is_the_graders_fault():
    for source in ("'2.0'", "float('nan')"):
        assert checked("answer = 42", check_source=f"answer\n{source}").verdict is Verdict.SE
    assert checked("answer = 42", check_source="assert answer == 42").fraction == 1
    failed = checked("answer = 41", check_source="assert answer == 42, 'not yet'")
    assert (failed.verdict, failed.fraction) == (Verdict.WA, 0.0) and "not yet" in failed.text


def test_values_keep_their_types():
    for value in (None, True, 3, 2.5, "x", [1, (2, 3)], {"a": {1, 2}}, np.float32(1.5), np.arange(6.0).reshape(2, 3)):
        again = decoded(json.loads(json.dumps(encoded(value))))
        assert type(again) is type(value) and np.all(again == value)
    with pytest.raises(TypeError):
        encoded(print)
    for nonsense in (["plain", [1]], ["code", "x"], 5, ["array", "O", [], ""]):
        with pytest.raises((ValueError, TypeError)):
            decoded(nonsense)


def test_a_job_of_cells_is_stored_like_any_other():
    job = PythonJob(json.dumps(notebook("answer = 42")), {"check": 2.0}, policy="manual")
    outcome = job.run()
    assert outcome.verdict is Verdict.AC and outcome.cells["check"].fraction == 1.0
    assert outcome.to_json() == job.run().to_json()
    again = from_wire(json.loads(json.dumps(to_wire(job))))
    assert again.key == job.key and again.decode(outcome.to_json()) == outcome
    assert shutil.which("bwrap") is None or outcome.provenance["isolation"] == "manual"


STEP = "lab00_first_kernels/01_saxpy"
BY_HEART = " || ".join(f"n == {n}" for n in (1, 31, 255, 256, 257, 1000, 1024, 4096, 11264, 40000))


@pytest.mark.parametrize(("secret", "least", "most"), [("a secret of a class", 0.0, 1.9), slow("", 2.0, 2.0)])
def test_a_cell_that_checks_kernels_too_checks_them_with_the_secret(secret, least, most):
    source = Course.find().step(STEP).solution.read_text().replace("if (i < n)", f"if (({BY_HEART}) && i < n)")
    cells = notebook("answer = 42", check_source=f"points = ws.check_cell('{STEP}', points=2)\npoints + 0 * answer")
    kernel = {"cell_type": "code", "source": f"%%kernel {STEP}\n{source}", "metadata": {}}
    found = check({"cells": [kernel, *cells["cells"]]}, "check", points=2.0, policy="manual", secret=secret)
    assert least <= 2 * found.fraction <= most and f"{STEP}: " in found.text
