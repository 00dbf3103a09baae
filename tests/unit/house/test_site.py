"""How the site is put in place: whole, in one step, by several builds at once, not at all by one that fails; and what
it leaves out of notebooks."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "site.py"


@pytest.fixture
def site(monkeypatch) -> ModuleType:
    """scripts/site.py, whose pages are one file each with a number."""
    spec = importlib.util.spec_from_file_location("site_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "prepare", lambda source, *, run: source.mkdir())
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    return module


def build(site: ModuleType, monkeypatch, out: Path, render) -> None:
    monkeypatch.setattr(site, "render", render)
    monkeypatch.setattr(sys, "argv", ["site.py", "--no-run", "--out", str(out)])
    site.main()


def writer(*names: str):
    def render(_source: Path, made: Path) -> None:
        made.mkdir()
        for name in names:
            (made / name).write_text(name)

    return render


def inside(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_build_replaces_the_site_of_before_as_a_whole(site, monkeypatch, tmp_path, capsys):
    out = tmp_path / "new" / "site"
    build(site, monkeypatch, out, writer("index.html", "old.html"))
    assert inside(out) == {"index.html", "old.html"} and os.access(out, os.R_OK)
    build(site, monkeypatch, out, writer("index.html", "new.html"))
    assert inside(out) == {"index.html", "new.html"}
    assert inside(out.parent) == {"site"}, "nothing of the builds is left"
    assert f"the site is in {out}" in capsys.readouterr().out


@pytest.mark.parametrize("end", [RuntimeError("a dead link"), KeyboardInterrupt(), SystemExit(143)])
def test_a_build_that_ends_early_leaves_the_site_as_it_was(site, monkeypatch, tmp_path, end):
    out = tmp_path / "site"
    build(site, monkeypatch, out, writer("index.html"))

    def stopped(_source: Path, made: Path) -> None:
        made.mkdir()
        (made / "half.html").write_text("")
        raise end

    with pytest.raises(type(end)):
        build(site, monkeypatch, out, stopped)
    assert inside(out) == {"index.html"} and inside(tmp_path) == {"site"}


def test_builds_at_once_do_not_meet(site, tmp_path):
    out, ready = tmp_path / "site", threading.Barrier(4)
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            with site.workplace(out) as folder:
                writer(f"{number}.html")(folder, folder / "site")
                ready.wait(240)
                site.put_in_place(folder / "site", out)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert not failures
    assert len(inside(out)) == 1 and inside(tmp_path) == {"site"}, "one of them won, whole"


def test_the_site_is_never_missing_while_it_is_replaced(site, tmp_path):
    out = tmp_path / "site"
    writer("index.html")(tmp_path, out)
    missing, over = [], threading.Event()

    def watch() -> None:
        while not over.is_set():
            if not (out / "index.html").is_file():
                missing.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(50):
        made = tmp_path / f"made{number}"
        writer("index.html")(tmp_path, made)
        site.put_in_place(made, out)
    over.set()
    watcher.join(240)
    assert not missing


def test_a_system_that_cannot_exchange_folders(site, monkeypatch, tmp_path):
    monkeypatch.setattr(site.ctypes, "CDLL", lambda _: object())
    out = tmp_path / "site"
    build(site, monkeypatch, out, writer("old.html"))
    build(site, monkeypatch, out, writer("new.html"))
    assert inside(out) == {"new.html"} and inside(tmp_path) == {"site"}


def test_what_a_killed_build_left_is_removed_a_day_later(site, tmp_path):
    old, young = tmp_path / f"{site.MAKING}old", tmp_path / f"{site.MAKING}young"
    for folder in (old, young):
        (folder / "source").mkdir(parents=True)
    before = time.time() - site.LEFT_OVER_SECONDS - 60
    os.utime(old, (before, before))
    with site.workplace(tmp_path / "site"):
        assert not old.exists() and young.exists()


def test_an_executed_lab_asks_no_other_host_for_a_player_of_widgets(site):
    widget = {"output_type": "display_data", "data": {site.WIDGET: {"model_id": "1"}, "text/plain": "VBox()"}}
    kept = {"output_type": "stream", "name": "stdout", "text": "right\n"}
    notebook = {
        "metadata": {"widgets": {}},
        "cells": [{"cell_type": "code", "source": "", "metadata": {}, "outputs": [widget, kept]}],
    }
    made = json.loads(site._coloured(json.dumps(notebook)))
    assert "widget" not in json.dumps(made)
    said, other = made["cells"][0]["outputs"]
    assert said["text"] == site.IN_ITS_PLACE and other == kept
