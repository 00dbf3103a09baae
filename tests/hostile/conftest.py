"""What hostile submissions try to reach: canaries that no result may show, and files that must not change."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from warpschool.course import Course

SECRET_TEXT = "canary-in-a-file-7f3a"
ENVIRONMENT_TEXT = "canary-in-the-environment-91bc"
GRADEBOOK_TEXT = "canary-in-the-gradebook-c05d"


@dataclass(frozen=True)
class Canaries:
    """A secret file and a gradebook, and the texts that stand in them."""

    secret: Path
    gradebook: Path
    digest: str

    def found_in(self, text: str, *, step: str = "") -> list[str]:
        """The canaries that a text holds; with a step, lines of its reference and grader too."""
        planted = [SECRET_TEXT, ENVIRONMENT_TEXT, GRADEBOOK_TEXT]
        if step:
            found = Course.find().step(step)
            lines = [*found.solution.read_text().splitlines(), *found.grader.read_text().splitlines()]
            given = found.starter.read_text()
            own = (line.strip() for line in lines if "//" in line and line not in given)
            planted += [line for line in own if len(line) > 60]
        return [canary for canary in planted if canary in text]

    def are_intact(self) -> bool:
        """Whether the gradebook is, byte for byte, what it was."""
        return hashlib.sha256(self.gradebook.read_bytes()).hexdigest() == self.digest


@pytest.fixture(scope="module")
def canaries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    secret, gradebook = folder / "secret.txt", folder / "gradebook.db"
    secret.write_text(f"{SECRET_TEXT} stands in the first line\n")
    with sqlite3.connect(gradebook) as database:
        database.execute("create table score (student text, points real)")
        database.execute("insert into score values (?, 1.0)", [GRADEBOOK_TEXT])
    database.close()
    planted = Canaries(secret, gradebook, hashlib.sha256(gradebook.read_bytes()).hexdigest())
    yield planted
    assert planted.are_intact(), "the gradebook was changed"
    assert secret.read_text().startswith(SECRET_TEXT)


@pytest.fixture(autouse=True)
def planted_environment(monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_CANARY", ENVIRONMENT_TEXT)
