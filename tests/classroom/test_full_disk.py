"""Full disks and read-only folders: one sentence, no half file, and what was there is still there."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpschool import atomic
from warpschool.atomic import write_files
from warpschool.cli import app
from warpschool.cli.output import LACKING, OK
from warpschool.errors import OutputError

from .small import PARTLY, RIGHT

SCRIPT = Path(__file__).with_name("full_disk.py")


@pytest.fixture
def graded(small_class, monkeypatch):
    """A class with pages, grades and an export of before, and a hand-in that nobody has graded."""
    monkeypatch.chdir(small_class.root)
    small_class.hand_in("ada")
    small_class.hand_in("bob", kernel=PARTLY)
    for words in (["grade", "mini"], ["feedback", "mini"], ["export", "mini", "--incomplete"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == OK, done.output
    for name, text in {"results.json": "old results", "alike.html": "old page"}.items():
        (small_class.root / name).write_text(text)
    (small_class.root / "kernels").mkdir()
    (small_class.root / "kernels" / "ada.cu").write_text(RIGHT)
    small_class.hand_in("ada", kernel=PARTLY)
    return small_class


def packed(small_class, target):
    """A zip in which ada hands in again and cyd for the first time."""
    with zipfile.ZipFile(target, "w") as archive:
        for number, student in enumerate(("ada", "cyd")):
            text = (small_class.root / "release" / "mini" / "mini.ipynb").read_text()
            archive.writestr(f"{student}_{number}_assignsubmission_file/mini.ipynb", text)
    return target


def files_of(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_commands_of_a_class_on_a_tiny_disk(graded, tmp_path):
    """Each command on a disk without room, with too little, and read-only; then with room again."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no mount namespace: no tiny disk can be made")
    (tmp_path / "disk").mkdir()
    archive = packed(graded, tmp_path / "all.zip")
    command = ["unshare", "-rm", sys.executable, str(SCRIPT), str(graded.root), str(archive), str(tmp_path / "disk")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    for state in ("full", "read-only"):
        for name, one in found[state].items():
            assert one["code"] == LACKING, (state, name, one)
            files = [path for path in one["changed"] if not path.endswith("/")]  # an empty folder may be made
            assert files == [], (state, name)
    for state in ("full", "nearly full", "read-only"):
        for name, one in found[state].items():
            if one["code"] == OK:
                continue
            said = [line for line in one["err"].splitlines() if line.startswith(("error: ", "next: "))]
            assert [line.split(":")[0] for line in said] == ["error", "next"], (state, name, one["err"])
            assert "Traceback" not in one["err"] and "cannot " in said[0], (state, name, one["err"])
    assert found["nearly full"]["feedback"]["code"] == LACKING
    assert found["nearly full"]["feedback"]["changed"] == [], "pages of before are still there"
    assert {name: one["code"] for name, one in found["mended"].items()} == dict.fromkeys(found["mended"], OK)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])
@pytest.mark.thinned(2)
def test_a_page_that_cannot_be_written_leaves_the_old_ones(graded, monkeypatch, number):
    """The disk fills up between one student's page and the next, when nbgrader has removed the old one."""
    from nbconvert.writers import FilesWriter

    before = files_of(graded.root / "feedback")
    write, pages = FilesWriter.write, []

    def filling(self, *arguments, **options):
        pages.append(1)
        if len(pages) > 1:
            raise OSError(number, "refused")
        return write(self, *arguments, **options)

    monkeypatch.setattr(FilesWriter, "write", filling)
    done = CliRunner().invoke(app, ["feedback", "mini"])
    assert done.exit_code == LACKING and "refused" in done.stderr and "Traceback" not in done.stderr
    assert "feedback/bob/mini" in done.stderr or "the class's folder" in done.stderr
    after = files_of(graded.root / "feedback")
    assert after.keys() == before.keys() and after["bob/mini/mini.html"] == before["bob/mini/mini.html"]
    assert len(pages) == 2, "nobody else's page is touched"


def test_a_full_disk_ends_a_round_at_once_and_the_same_command_does_the_rest(graded, monkeypatch):
    """The old notebook and the old grade stay where the gradebook takes nothing."""
    from warpschool.grading import records

    scores, before = graded.grades("ada"), files_of(graded.root / "autograded")
    with monkeypatch.context() as patch:
        patch.setattr(records, "write_file", lambda path, content: (_ for _ in ()).throw(
            atomic.output_error(f"cannot write {path}", OSError(errno.ENOSPC, "No space left on device"))))  # fmt: skip
        done = CliRunner().invoke(app, ["grade", "mini"])
    assert done.exit_code == LACKING and "No space left" in done.stderr and "next: The disk is full" in done.stderr
    assert files_of(graded.root / "autograded") == before
    assert {n: g.score for n, g in graded.grades("ada").items()} == {n: g.score for n, g in scores.items()}
    assert CliRunner().invoke(app, ["grade", "mini"]).exit_code == OK
    assert graded.grades("ada")["m-correct"].score < scores["m-correct"].score


def test_an_import_writes_both_files_of_a_student_or_none(graded, monkeypatch, tmp_path):
    archive = packed(graded, tmp_path / "all.zip")
    before = files_of(graded.root / "submitted")
    make = atomic._temporary

    def refusing(path, *arguments, **options):
        if path.name == "timestamp.txt":
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        return make(path, *arguments, **options)

    monkeypatch.setattr(atomic, "_temporary", refusing)
    done = CliRunner().invoke(app, ["import", str(archive), "mini"])
    assert done.exit_code == LACKING and "Your quota is used up" in done.stderr and "timestamp.txt" in done.stderr
    assert files_of(graded.root / "submitted") == before
    assert not (graded.root / "submitted" / "cyd").exists()


def test_files_that_belong_together_are_replaced_together(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(OutputError, match="cannot write"):
        write_files({tmp_path / "a": "new", tmp_path / "nowhere" / "b": "new"})
    assert {path.name for path in tmp_path.iterdir()} == {"a"} and (tmp_path / "a").read_text() == "old"
    write_files({tmp_path / "a": "new", tmp_path / "b": b"new"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "new", "b": "new"}
