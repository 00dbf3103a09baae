"""A new class's folder."""

from __future__ import annotations

import secrets
from pathlib import Path

from warpschool.atomic import write_file
from warpschool.classroom.config import TEMPLATE
from warpschool.classroom.folder import CONFIG
from warpschool.classroom.policy import FILE
from warpschool.classroom.policy import TEMPLATE as POLICY
from warpschool.course import Course
from warpschool.errors import CourseError

SECRET_BYTES = 32
SECRET = "secret_seed.txt"
IGNORED = """\
# marks, hand-ins and the secret seed are nobody else's business
/secret_seed.txt
/gradebook.db*
/submitted/
/autograded/
/feedback/
/grading/
/quarantine/
"""


def make_class(folder: Path, course: Course, *, name: str = "") -> tuple[list[str], list[str]]:
    """Make a class's folder, or add what is missing in one; return what was added and what was left as it is."""
    plan: dict[Path, bytes] = {
        Path(CONFIG): TEMPLATE.format(source="source", course=name or folder.resolve().name).encode(),
        Path(FILE): POLICY.format(secret_file=SECRET).encode(),
        Path(SECRET): f"{secrets.token_hex(SECRET_BYTES)}\n".encode(),
        Path(".gitignore"): IGNORED.encode(),
    }
    for lab in course.labs():
        if lab.notebook is not None:
            plan[Path("source") / lab.name / lab.notebook.name] = lab.notebook.read_bytes()
    if not any(path.suffix == ".ipynb" for path in plan):
        raise CourseError("the course has no notebooks", next_step="Reinstall warpschool.")
    added, kept = [], []
    for target, content in plan.items():
        path = folder / target
        if path.exists():
            kept.append(str(target))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
        added.append(str(target))
    if SECRET in added:
        (folder / SECRET).chmod(0o600)
    return added, kept
