"""Builds the documentation: pages of docs/, the labs with their outputs, the command line and the Python interface.

    python scripts/site.py [--no-run] [--out FOLDER]        (make docs)

The labs are rendered as a student finds them: starters, not solutions, executed on the simulator. An executed notebook
is kept in build/notebooks until it or the library changes. `--no-run` renders them without outputs, in seconds.
Each build works in a folder of its own beside the site and is put in place at its end, all at once: two builds do not
meet, and one that is stopped leaves the site as it was.
Needs the docs extra: pip install 'warpschool[docs]'.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import warpschool as ws
from ptxsim.counters import COUNTERS
from warpschool.atomic import write_file
from warpschool.counters import DERIVED
from warpschool.course import Course, Lab
from warpschool.questions import questions
from warpschool.show.page import notebook_box
from warpschool.show.pictures import names, picture
from warpschool.show.questions import check_yourself

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
KEPT = ROOT / "build" / "notebooks"
MAKING = ".making-site-"
LEFT_OVER_SECONDS = 24 * 3600
SECTIONS = (("Learn", "learn"), ("Teach", "teach"), ("Reference", "reference"), ("Design", "design"))
FIRST_PAGES = ("learn/start.md", "learn/route.md", "learn/gpu.md", "learn/measuring.md")
CELL_SECONDS = 600
WIDGET = "application/vnd.jupyter.widget-view+json"
IN_ITS_PLACE = "Here the notebook has something to press. Questions stand in the lab's chapter, too, with answers.\n"

HOME = """# warpschool

A lab course on GPU kernels that runs its students' real CUDA C++ on any laptop, with no GPU: NVIDIA's own compiler
makes PTX of a kernel, a simulator runs it at native speed, counts what Nsight Compute counts, and names every race,
out-of-bounds access and missing barrier by line and thread. Where there is a GPU, the same file runs there.

![A tour's page: a kernel of every lab with its counts, and a race drawn on its line](images/tour.png#only-light)
![A tour's page: a kernel of every lab with its counts, and a race drawn on its line](images/tour-dark.png#only-dark)

```
make tour                       # in a checkout: run the course's kernels here
make lab                        # JupyterLab on your own copy of the course
```

- **Learn**: [start](learn/start.md), [the route](learn/route.md), [what a GPU is](learn/gpu.md),
  [measuring](learn/measuring.md), [the labs](learn/labs/index.md), [the ladder](learn/ladder.md): one idea a step;
  [a warp's debugger](learn/debugger.md); [your own programs](learn/programs.md);
  [the same kernels in Triton](learn/triton.md).
- **Teach**: [release](teach/release.md), [grade](teach/grade.md), [find cheats](teach/cheats.md),
  [use a cluster](teach/cluster.md), [fork a lab](teach/fork.md), [write a new lab in one hour](teach/new-lab.md),
  [what changed since last term](teach/changes.md).
- **Reference**: [the commands](reference/commands.md), [the Python interface](reference/python.md),
  [verdicts](reference/verdicts.md), [counters](reference/counters.md), [supported PTX](reference/supported-ptx.md),
  [the calls of whole programs](reference/cuda-calls.md),
  [fidelity](reference/fidelity.md), [what an estimate is worth](reference/estimate.md).
- **Design**: [how the simulator works](design/simulator.md), [how whole programs run](design/programs.md),
  [how prose is written](STYLE.md).
"""
CHANGES = """From the changelog ({name}). A class is never graded with two versions: decide before a term begins, then
run `warpschool check` on the hand-ins of last term that you kept. What can change a verdict or points is marked
**grades** and stands first."""
PYTHON = "# The Python interface\n\nAll of it is reached through `import warpschool as ws`.\n"

COUNTED = """# Counters

What `launch.counters`, `run.counters` and, per source line, `launch.lines` hold: `counters.global_load_sectors`, or
`counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]` by Nsight Compute's name where it has one. How closely they
agree with silicon is told in [the fidelity report](fidelity.md).
"""


def prepare(source: Path, *, run: bool) -> None:
    """Fill the folder that mkdocs reads."""
    shutil.copytree(ROOT / "docs", source)
    for page in source.rglob("*.md"):
        page.write_text(_for_the_site(page.read_text(encoding="utf-8")), encoding="utf-8")
    (source / "index.md").write_text(HOME, encoding="utf-8")
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (source / "teach" / "changes.md").write_text(changes(log), encoding="utf-8")
    (source / "reference" / "commands.md").write_text(_commands(), encoding="utf-8")
    (source / "reference" / "python.md").write_text(_python(), encoding="utf-8")
    (source / "reference" / "counters.md").write_text(_counters(), encoding="utf-8")
    folder = source / "learn" / "labs"
    folder.mkdir()
    labs = [lab for lab in Course(ROOT).labs() if lab.notebook is not None]
    for number, lab in enumerate(labs, start=1):
        print(f"[{number}/{len(labs)}] {lab.name}", flush=True)
        (folder / f"{lab.name}.ipynb").write_text(_coloured(_notebook(lab, run=run)), encoding="utf-8")
    (folder / "index.md").write_text(_index(labs), encoding="utf-8")
    for lab in Course(ROOT).labs():
        _add_questions(lab, source / "learn" / f"{lab.name[:5]}.md")


_SOURCES = "## Sources\n"
_PICTURE = re.compile(r"<!-- picture: ([\w-]+) -->(?:\n\*In motion: [^\n]*\*)?")
"""Where a picture stands, and the line that says where else it is: for whoever reads the chapter as a file."""


def _add_questions(lab: Lab, chapter: Path) -> None:
    """The lab's concept checks in its chapter, before the sources; on a page of their own where it has no chapter."""
    asked = questions(lab, Course(ROOT))
    if not asked:
        return
    told = f"Think first, then unfold. `warpschool quiz {lab.name[:5]}` asks them in a terminal."
    pictures, text = _pictures(lab, chapter)
    section = f"{pictures}## Check yourself\n\n{told}\n\n{check_yourself(asked)}\n\n"
    if not chapter.is_file():
        page = chapter.with_name(f"{lab.name[:5]}-check.md")
        page.write_text(f"# {lab.name}\n\n{section}", encoding="utf-8")
        return
    text, sign, sources = text.partition(_SOURCES)
    chapter.write_text(f"{text.rstrip()}\n\n{section}{sign}{sources}", encoding="utf-8")


def _pictures(lab: Lab, chapter: Path) -> tuple[str, str]:
    """(a section with those of the lab's pictures that the chapter does not place, the chapter with the others)."""
    text = chapter.read_text(encoding="utf-8") if chapter.is_file() else ""
    begin = f"{lab.name[:5]}/"
    drawn = {name.removeprefix(begin): _drawn(name) for name in names(Course(ROOT)) if name.startswith(begin)}
    if unknown := set(_PICTURE.findall(text)) - set(drawn):
        raise SystemExit(f"{chapter.name} asks for pictures that nobody draws: {', '.join(sorted(unknown))}")
    left = "\n\n".join(html for name, html in drawn.items() if name not in _PICTURE.findall(text))
    told = "From records of the simulator; arrow keys step through them."
    section = f"## In motion\n\n{told}\n\n{left}\n\n" if left else ""
    return section, _PICTURE.sub(lambda match: drawn[match[1]], text)


def _drawn(name: str) -> str:
    """A picture as one block of HTML, which Markdown leaves alone: without empty lines."""
    lines = notebook_box(picture(name, Course(ROOT)).html()).splitlines()
    return "\n".join(line for line in lines if line.strip())


_NOTEBOOK_LINK = re.compile(r"\]\(\.\./\.\./labs/(lab\d\d_\w+)/\1\.ipynb\)")
_CHAPTER_LINK = re.compile(r"\]\(\.\./\.\./docs/learn/(\w+)\.md")
"""In a notebook, whose links mkdocs neither translates nor checks."""


def _for_the_site(page: str) -> str:
    """A page of docs/learn whose links to notebooks lead to where the site has them."""
    return _NOTEBOOK_LINK.sub(r"](labs/\1.ipynb)", page)


_VERSION = re.compile(r"^## (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"^- .*?(?=^- |^#|\Z)", re.MULTILINE | re.DOTALL)
_LAB = re.compile(r"\b[Ll]abs? ?\d\d")
_GRADES = "**grades**"


def changes(log: str) -> str:
    """What a teacher must know of the newest version in the changelog: first what can change a grade, then the labs."""
    versions = _VERSION.split(log)
    if len(versions) < 3:
        raise SystemExit("CHANGELOG.md has no version")
    name, text = versions[1:3]
    entries = [entry.rstrip().replace("](docs/", "](../") for entry in _ENTRY.findall(text)]
    graded = [entry for entry in entries if _GRADES in entry]
    labs = [entry for entry in entries if _GRADES not in entry and _LAB.search(entry)]
    others = [entry for entry in entries if entry not in graded and entry not in labs]
    parts = [f"# What changed since the last version\n\n{CHANGES.format(name=name)}"]
    for title, some in (("Can change a grade", graded), ("In the labs", labs), ("Everything else", others)):
        parts.append(f"## {title}\n\n" + ("\n".join(some) or "Nothing."))
    return "\n\n".join(parts) + "\n"


def _commands() -> str:
    """The command line's own help."""
    command = [sys.executable, "-m", "typer", "warpschool.cli.app", "utils", "docs", "--name", "warpschool"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return text.replace("# `warpschool`", "# The command line", 1)


def _python() -> str:
    """One entry a public name; mkdocstrings reads the docstrings."""
    names = [name for name in ws.__all__ if not name.startswith("_")]
    return PYTHON + "".join(f"\n::: {_defined(name)}\n" for name in names)


def _defined(name: str) -> str:
    """Where a public name is defined, and as what: some have another name at home."""
    found = getattr(ws, name)
    module = getattr(found, "__module__", "warpschool")
    at_home = getattr(found, "__qualname__", name)
    return f"{module}.{at_home if hasattr(sys.modules[module], at_home) else name}"


def _counters() -> str:
    """The table that the simulator counts by, and what is derived from it."""
    lines = [COUNTED, "| attribute | Nsight Compute's name | unit | meaning |", "|---|---|---|---|"]
    for counter in COUNTERS:
        metric = f"`{counter.metric}`" if counter.metric else "none"
        lines.append(f"| `{counter.name}` | {metric} | {counter.unit} | {counter.meaning} |")
    lines += ["", "## Derived", "", "| attribute | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in DERIVED.items()]
    return "\n".join(lines) + "\n"


def _index(labs: Iterable[Lab]) -> str:
    lines = ["# The labs", "", "| lab | steps |", "|---|---|"]
    for lab in labs:
        steps = "<br>".join(f"{step.idea}: {step.title}" for step in lab.steps)
        lines.append(f"| [{lab.name}]({lab.name}.ipynb) | {steps} |")
    return "\n".join(lines) + "\n"


def _notebook(lab: Lab, *, run: bool) -> str:
    """The lab's notebook as text, executed once for each version of it and of the library."""
    assert lab.notebook is not None
    text = lab.notebook.read_text(encoding="utf-8")
    if not run:
        return text
    kept = KEPT / f"{lab.name}-{_fingerprint(lab)}.ipynb"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    executed = _executed(text)
    KEPT.mkdir(parents=True, exist_ok=True)
    for old in KEPT.glob(f"{lab.name}-*"):
        old.unlink(missing_ok=True)
    write_file(kept, executed)
    return executed


def _coloured(text: str) -> str:
    """The notebook with its `%%kernel` cells marked as CUDA C++, its links to chapters as the site has them, and a word
    in place of widgets."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _CHAPTER_LINK.sub(r"](../../\1/", "".join(cell["source"]))
    notebook["metadata"].setdefault("kernelspec", {})["language"] = "ipython3"  # marks count in IPython's cells only
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and "".join(cell["source"]).startswith("%%kernel"):
            cell["metadata"]["magics_language"] = "cuda"
    _leave_out_widgets(notebook)
    return json.dumps(notebook)


def _leave_out_widgets(notebook: dict[str, Any]) -> None:
    """Say where a widget was: without a kernel it answers nobody, and its player would be fetched from another host."""
    notebook["metadata"].pop("widgets", None)
    said = {"output_type": "stream", "name": "stdout", "text": IN_ITS_PLACE}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [said if WIDGET in one.get("data", ()) else one for one in cell["outputs"]]


def _fingerprint(lab: Lab) -> str:
    found = hashlib.sha256()
    folders = ("src", f"labs/{lab.name}", f"grader/{lab.name}")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    for path in sorted(path for path in files if path.suffix in (".py", ".css", ".js", ".ipynb", ".json", ".toml")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _executed(text: str) -> str:
    import nbformat
    from nbclient import NotebookClient

    notebook: Any = nbformat.reads(text, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}},
            extra_arguments=["--IPKernelApp.log_level=ERROR"],  # each kernel warns that loopback is not encrypted
        ).execute()  # fmt: skip
    return nbformat.writes(notebook)


def navigation(source: Path) -> list[dict[str, Any]]:
    """Sections in the order of SECTIONS; in each, where to start, then the labs, then pages by name."""
    found: list[dict[str, Any]] = [{"Home": "index.md"}]
    for title, folder in SECTIONS:
        pages = sorted(path.relative_to(source).as_posix() for path in (source / folder).glob("*.md"))
        labs = sorted(path.relative_to(source).as_posix() for path in (source / folder / "labs").glob("*.ipynb"))
        inside: list[Any] = [page for page in FIRST_PAGES if page in pages]
        inside += [{"Labs": [f"{folder}/labs/index.md", *labs]}] if labs else []
        inside += [page for page in pages if page not in FIRST_PAGES]
        if inside:
            found.append({title: inside})
    return found


def render(source: Path, made: Path) -> None:
    """Run mkdocs; any warning, a dead link among them, is told and is an error."""
    from mkdocs.commands.build import build as run_mkdocs
    from mkdocs.config import load_config

    logging.getLogger("mkdocs").addHandler(logging.StreamHandler())  # called as a library, it tells nobody by itself
    places = {"docs_dir": str(source), "site_dir": str(made)}
    run_mkdocs(load_config(str(ROOT / "mkdocs.yml"), strict=True, nav=navigation(source), **places))


@contextlib.contextmanager
def workplace(site: Path) -> Iterator[Path]:
    """A folder beside the site, on the same disk, for one build; what builds killed a day ago left there is removed."""
    site.parent.mkdir(parents=True, exist_ok=True)
    for old in site.parent.glob(f"{MAKING}*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > LEFT_OVER_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=MAKING, dir=site.parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def put_in_place(made: Path, site: Path) -> None:
    """Make `made` the site in one step; the site of before, if any, is then where `made` was, for removal."""
    made.chmod(0o755)
    if not site.exists():
        with contextlib.suppress(OSError):  # another build was quicker: exchanged below
            return os.rename(made, site)
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    if exchange is None or exchange(_HERE, os.fsencode(made), _HERE, os.fsencode(site), _EXCHANGE) != 0:
        os.rename(site, made.with_name("before"))  # a system that cannot exchange: two steps
        os.rename(made, site)


_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE: renameat2(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-run", action="store_true", help="render the labs without running them")
    parser.add_argument("--out", type=Path, default=SITE, help="where the site goes (default: build/site)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a build that is told to end tidies up
    start = time.monotonic()
    site = options.out.resolve()
    with workplace(site) as folder:
        prepare(folder / "source", run=not options.no_run)
        render(folder / "source", folder / "site")
        put_in_place(folder / "site", site)
    print(f"the site is in {site} ({time.monotonic() - start:.0f} s)")


if __name__ == "__main__":
    main()
