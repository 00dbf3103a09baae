"""Kernels that are alike: groups in classes made by a script, what is nobody's copy, and what the command writes."""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpschool.authoring import specimens
from warpschool.cli import app
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.grading.folders import known_solutions
from warpschool.grading.normal_form import code_form, text_form, tokens
from warpschool.grading.plagiarism import KNOWN, LEAST_OWN, _compiler, likeness
from warpschool.show.plagiarism import report, usual_words

sys.path.insert(0, str(Path(__file__).parent))  # the class is no package of tests
import alike_class as school

ROOT = Path(__file__).parents[3]
STEP = Course.find().step("lab02_tiling/01_tiled")
STARTER, REFERENCE = STEP.starter.read_text(), STEP.solution.read_text()
COMPILER = _compiler(STEP)


def alike(sources, **options):
    """What a class's hand-ins for tiled products have in common."""
    return likeness(sources, starters=[STARTER], references=[REFERENCE], **options)


def pairs_in(found):
    return {pair for group in found.groups for pair in itertools.combinations(group.members, 2)}


def rights_of(step):
    """The right kernels of a step's specimens: name -> source."""
    found = {}
    for path in sorted((ROOT / "tests" / "specimens" / step).glob("right_*")):
        found[path.stem] = specimens.read(path).source(ROOT / "solutions")
    return found


# ---------------------------------------------------------------- precision and recall


@pytest.mark.slow
def test_disguised_copies_are_found_among_people_who_worked_alone():
    """In each class every second one's kernel is handed in once more, disguised."""
    right = wrong = missed = 0
    for seed in range(11, 17):
        styles = school.styles(14, seed=seed, least=4)
        sources = {f"alone {n:02}": school.kernel(style) for n, style in enumerate(styles)}
        sources |= {f"copy {n:02}": school.disguised(styles[n], seed=100 * seed + n) for n in range(0, 14, 2)}
        copied = {(f"alone {n:02}", f"copy {n:02}") for n in range(0, 14, 2)}
        found = pairs_in(alike(sources, compiler=COMPILER))
        right, wrong, missed = right + len(found & copied), wrong + len(found - copied), missed + len(copied - found)
    precision, recall = right / (right + wrong), right / (right + missed)
    print(f"precision {precision:.2f}, recall {recall:.2f} of {right + missed} copies")
    assert precision >= 0.95, (right, wrong)
    assert recall >= 0.93, (right, missed)


@pytest.mark.parametrize("disguise", school.DISGUISES)
def test_each_disguise_alone_is_seen_through(disguise):
    styles = school.styles(8, seed=5, least=4)
    sources = {f"s{n}": school.kernel(style) for n, style in enumerate(styles)}
    for n in range(4):
        found = pairs_in(alike({**sources, "thief": disguise(sources[f"s{n}"])}))
        assert found == {(f"s{n}", "thief")}, n


def test_helpers_that_are_split_or_inlined_are_seen_through_once_compiled():
    styles = school.styles(10, seed=3, least=4)
    sources = {f"s{n}": school.kernel(style) for n, style in enumerate(styles)}
    for n, style in enumerate(styles[:5]):
        copy = school.renamed(school.respelt(school.kernel(style, split=True)))
        assert pairs_in(alike({**sources, "thief": copy}, compiler=COMPILER)) == {(f"s{n}", "thief")}, n


def test_right_kernels_of_other_styles_are_not_alike():
    """Every step's right specimens, written apart, most with a line or two of their own: no pair in 15 classes."""
    compared = 0
    for lab in sorted((ROOT / "tests" / "specimens").glob("lab*")):
        for folder in sorted(lab.iterdir()):
            sources = rights_of(f"{lab.name}/{folder.name}")
            step = Course.find().step(f"{lab.name}/{folder.name}")
            if len(sources) >= 8:
                starter, reference = step.starter.read_text(), step.solution.read_text()
                found = likeness(sources, starters=[starter], references=[reference])
                assert not found.groups, (step.name, found.groups)
                compared += len(sources) - len(found.as_reference) - len(found.unwritten)
    assert compared > 30


def test_what_fills_a_gap_as_the_reference_does_is_not_alike():
    """Two people write the same nine lines: names and order differ, and nothing more can."""
    one = school.renamed(REFERENCE.replace("sum += tileA", "sum = sum + tileA"))
    sources = {"ada": one, "bob": REFERENCE.replace("++k", "k++").replace("0.0f", "0.f"), "eve": STARTER}
    found = alike(sources, compiler=COMPILER)
    assert not found.groups
    assert (found.as_reference, found.unwritten) == (("ada", "bob"), ("eve",))


# ---------------------------------------------------------------- groups


def test_ten_who_share_one_solution_are_one_group():
    styles = school.styles(15, seed=1, least=4)
    sources = {f"alone {n:02}": school.kernel(style) for n, style in enumerate(styles[1:13])}
    sources |= {f"ring {n}": school.disguised(styles[0], seed=n) for n in range(10)}
    found = alike(sources, compiler=COMPILER)
    rings = [group for group in found.groups if any(who.startswith("ring") for who in group.members)]
    assert len(rings) == 1 and rings[0].members == tuple(f"ring {n}" for n in range(10))
    assert len(rings[0].pairs) == 9, "each beside another, not 45 pairs"


def test_what_most_of_the_class_wrote_is_said_and_is_no_group():
    styles = school.styles(6, seed=2, least=4)
    sources = {f"same {n:02}": school.renamed(school.kernel(styles[0])) for n in range(12)}
    sources |= {f"alone {n}": school.kernel(style) for n, style in enumerate(styles[1:5])}
    found = alike(sources)
    assert found.groups == () and found.usual == tuple(f"same {n:02}" for n in range(12))
    assert "12 of 16 share what most of the class wrote" in " ".join(usual_words(found))
    assert alike({}).groups == () and alike({"ada": ""}).unwritten == ("ada",)


def test_known_solutions_are_found_however_many_took_them():
    styles = school.styles(12, seed=4, least=4)
    known = {"web/1.cu": school.kernel(styles[0]), "web/2.cu": school.kernel(styles[9]), "web/own.cu": REFERENCE}
    sources = {f"alone {n}": school.kernel(style) for n, style in enumerate(styles[1:6])}
    sources["thief"] = school.disguised(styles[0], seed=1)
    found = alike(sources, known=known, compiler=COMPILER)
    assert [(group.members, group.known) for group in found.groups] == [(("thief",), (f"{KNOWN}web/1.cu",))]
    most = sources | {f"thief {n}": school.disguised(styles[0], seed=1) for n in range(9)}
    found = alike(most, known=known)
    assert len(found.usual) == 10, "most of the class"
    assert [(len(group.members), group.known) for group in found.groups] == [(10, (f"{KNOWN}web/1.cu",))]


@pytest.mark.slow
def test_a_class_of_three_hundred_takes_seconds():
    """Texts alone; 88 steps in well under half an hour on a slow machine."""
    styles = school.styles(300, seed=1, least=1)
    sources = {f"s{n}": school.kernel(style) for n, style in enumerate(styles)}
    assert len(sources) == 300
    begin = time.process_time()
    alike(sources)
    assert time.process_time() - begin < 20


# ---------------------------------------------------------------- normal forms


def test_tokens_know_their_lines_and_forget_their_names():
    found = tokens("// a comment\nfloat total = 5; /* more */\nfloat other_name = 1.5f;\n")
    assert [(token.kind, token.line) for token in found][:5] == [("float", 2), ("n", 2), ("=", 2), ("0", 2), (";", 2)]
    assert [token.kind for token in found][5:] == ["float", "n", "=", "0", ";"]
    assert found[-1].line == 3
    assert text_form("int a = 1;").kept == {} and code_form("").kept == {}


@pytest.mark.parametrize(("one", "other"), [
    ("for (int k = 0; k < N; ++k) { s += a[k]; }", "for (unsigned i = 0x0; N > i; i += 1) s = s + b[i];"),
    ("x = static_cast<float>(y);", "x = (float)y;"),
    ("const int a = 1, b = 2;", "int a = 1'0;\nauto b = 2u;"),
    ("#pragma unroll\ny = 1.5e-3f;", "y = (.0015f);"),
])  # fmt: skip
def test_two_spellings_have_one_form(one, other):
    assert [token.kind for token in tokens(one)] == [token.kind for token in tokens(other)]


def test_code_forgets_names_and_knows_the_sources_lines():
    style = school.styles(1, seed=9)[0]
    forms = [code_form(COMPILER(text)) for text in (school.kernel(style), school.kernel(style, split=True))]
    assert forms[0].all == forms[1].all and len(forms[0].kept) >= 20
    lines = school.kernel(style).split("\n")
    assert all(0 < line <= len(lines) for line in forms[0].kept.values())


@pytest.mark.slow
def test_the_made_class_is_right():
    for n, style in enumerate(school.styles(14, seed=1, least=4)):
        for source in (school.kernel(style), school.kernel(style, split=True), school.disguised(style, seed=n)):
            assert ws.check(STEP.name, source, device="sim").verdict == "AC", source


# ---------------------------------------------------------------- the command


def write_class(folder, sources):
    for student, source in sources.items():
        (folder / student / STEP.lab).mkdir(parents=True)
        (folder / student / STEP.lab / STEP.file_name).write_text(source)
    return folder


@pytest.fixture
def handed_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    styles = school.styles(6, seed=6, least=4)
    sources = {f"s{n}": school.kernel(style) for n, style in enumerate(styles[:4])}
    sources["thief"] = "// <script>alert(1)</script>\n" + school.disguised(styles[0], seed=1)
    sources["eve"] = school.disguised(styles[5], seed=2)
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "blog post.cu").write_text(f"// {STEP.file_name}: found\n" + school.kernel(styles[5]))
    (tmp_path / "web" / "notes.cu").write_text("// nothing\n")
    return write_class(tmp_path / "class", sources)


def test_alike_lists_and_writes_the_groups(handed_in):
    result = CliRunner().invoke(app, ["alike", str(handed_in), "--known", "web", "--out", "alike.html"])
    assert result.exit_code == 0, result.output
    assert "s0, thief" in result.output and "not a finding" in result.output
    assert "eve, known: web/blog post.cu" in result.output and "web/notes.cu" in result.output
    page = Path("alike.html").read_text()
    assert "thief" in page and "<script>" not in page and "&lt;script&gt;" in page and "<mark>" in page
    asked = CliRunner().invoke(app, ["alike", str(handed_in), "--known", "web", "--json"])
    groups = json.loads(asked.stdout)["steps"][STEP.name]["groups"]
    assert {(*group["members"], *group["known"]) for group in groups} == {
        ("s0", "thief"), ("eve", "known: web/blog post.cu"),
    }  # fmt: skip
    nothing = CliRunner().invoke(app, ["alike", str(handed_in), "--least", "1.0", "--no-compile"])
    assert nothing.exit_code == 0
    bad = CliRunner().invoke(app, ["alike", str(handed_in), "--known", "nowhere"])
    assert bad.exit_code == 2 and "nowhere is no folder" in bad.output


def test_known_solutions_go_by_folder_by_header_or_by_the_step_named(tmp_path):
    (tmp_path / "lab02_tiling").mkdir()
    (tmp_path / "lab02_tiling" / "01_tiled.cu").write_text("one")
    (tmp_path / "found.cu").write_text(REFERENCE)
    found, foreign = known_solutions(tmp_path, Course.find())
    assert found[STEP.name]["lab02_tiling/01_tiled.cu"] == "one" and "found.cu" in found[STEP.name] and not foreign
    (tmp_path / "bare.cu").write_text("__global__ void f() {}")
    assert known_solutions(tmp_path, Course.find())[1] == ["bare.cu"]
    assert "bare.cu" in known_solutions(tmp_path, Course.find(), "lab02/01")[0][STEP.name]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArgumentError, match="holds no solution"):
        known_solutions(tmp_path / "empty", Course.find())


def test_a_page_without_groups_says_so():
    assert "No two kernels are alike" in report({STEP.name: alike({})}, {STEP.name: {}})
    assert LEAST_OWN > 6, "two who both write fmaf have eight runs in common"
