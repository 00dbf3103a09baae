"""The compile cache survives everything that disks and other processes do."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile

import pytest

from ptxsim import cache
from warpschool.compile import compile_cuda

TINY = 'extern "C" __global__ void tiny(int* x) { x[threadIdx.x] = 7; }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return folder


def entry_file(folder):
    (path,) = (folder / "compile").glob("*.json")
    return path


def test_an_entry_comes_back_whole(own_cache):
    first, second = compile_cuda(TINY), compile_cuda(TINY)
    assert not first.cached and second.cached and first == second
    assert [path.name for path in (own_cache / "compile").iterdir()] == [f"{first.key}.json"]


@pytest.mark.parametrize("harm", ["truncate", "empty", "flip", "garbage", "other json", "list", "unreadable", "folder"])
def test_a_harmed_entry_is_a_miss_and_is_written_anew(own_cache, harm):
    good = compile_cuda(TINY)
    path = entry_file(own_cache)
    data = path.read_bytes()
    if harm == "folder":
        path.unlink()
        path.mkdir()
    elif harm == "unreadable":
        path.unlink()
        path.symlink_to("/nonexistent/file")
    else:
        body = json.dumps(["x"] if harm == "list" else {"ptx": "evil"}).encode()
        other = cache.hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        path.write_bytes({"truncate": data[:-20], "empty": b"", "flip": data.replace(b"tiny", b"tinz", 1),
                          "garbage": b"\xff\x00\n" * 99, "other json": other, "list": other}[harm])  # fmt: skip
    again = compile_cuda(TINY)
    assert not again.cached and again.ptx == good.ptx
    if harm != "folder":
        assert compile_cuda(TINY).cached


def test_a_place_that_cannot_be_written_falls_back_to_a_private_temporary_folder(own_cache, tmp_path):
    own_cache.write_text("a file where the folder should be")
    assert not compile_cuda(TINY).cached
    private = tmp_path / "tmp" / f"warpschool-{os.getuid()}"
    assert private.stat().st_mode & 0o077 == 0
    assert len(list((private / "compile").iterdir())) == 1
    assert compile_cuda(TINY).cached


def test_no_place_at_all_means_no_cache(own_cache, tmp_path, monkeypatch):
    own_cache.write_text("a file")
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    monkeypatch.setattr(tempfile, "tempdir", str(blocked))
    for _ in range(2):
        assert not compile_cuda(TINY).cached


def test_a_temporary_folder_that_others_can_write_is_not_trusted(own_cache, tmp_path):
    own_cache.write_text("a file")
    planted = tmp_path / "tmp" / f"warpschool-{os.getuid()}"
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    assert not compile_cuda(TINY).cached and not compile_cuda(TINY).cached
    assert list(planted.iterdir()) == []


def test_a_full_disk_is_no_error_and_leaves_nothing(tmp_path):
    program = f"""\
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from warpschool.compile import compile_cuda
print([compile_cuda({TINY!r}).cached for _ in range(2)])
"""
    environment = {**os.environ, "WARPSCHOOL_CACHE": str(tmp_path / "full"), "TMPDIR": str(tmp_path / "tmp")}
    run = subprocess.run([sys.executable, "-B", "-c", program], env=environment, capture_output=True, text=True)
    assert run.stdout == "[False, False]\n", run.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def _compile_some(count: int) -> list[str]:
    return [compile_cuda(TINY.replace("7", str(index % 3))).ptx for index in range(count)]


def test_processes_share_a_cache(own_cache):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = pool.map(_compile_some, [9, 9, 9])
    assert results[0] == results[1] == results[2]
    assert len(list((own_cache / "compile").glob("*.json"))) == 3
    assert list((own_cache / "compile").glob(".part-*")) == []


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache.cache_root() == tmp_path / "cache"
    monkeypatch.delenv("WARPSCHOOL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(cache.cache_root()) == "/x/warpschool"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(cache.cache_root()) == "/home/me/.cache/warpschool"


def test_keys_keep_texts_apart():
    assert cache.content_key("ab", "c") != cache.content_key("a", "bc") != cache.content_key("abc")
    assert cache.content_key("a\ud800") != cache.content_key("a")


def test_leftovers_and_too_many_entries_go(own_cache, monkeypatch):
    folder = own_cache / "kind"
    folder.mkdir(parents=True)
    monkeypatch.setattr(cache, "_MOST_ENTRIES", 10)
    for index in range(12):
        (folder / f"{index}.json").write_text("x")
        os.utime(folder / f"{index}.json", (1000 + index, 1000 + index))
    (folder / ".part-old").write_text("x")
    os.utime(folder / ".part-old", (1000, 1000))
    (folder / ".part-new").write_text("x")
    assert cache.store("kind", "new", {"a": 1})
    left = {path.name for path in folder.iterdir()}
    assert ".part-old" not in left and {".part-new", "new.json", "11.json"} <= left
    assert "0.json" not in left and len(left) == 8
    assert cache.load("kind", "new") == {"a": 1}
    assert (folder / "new.json").stat().st_mtime >= (folder / ".part-new").stat().st_mtime
