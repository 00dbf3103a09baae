"""What formgrader shows of hostile hand-ins, without a browser; `test_hostile_browser.py` asks a real one."""

from __future__ import annotations

import re
from types import SimpleNamespace

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from . import hostile_texts as corpus

pytest.importorskip("nbgrader", reason="formgrader needs the extra 'teach'")

from warpschool.classroom import formgrader

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ABOUT = {
    "assignment_id": "mini", "notebook_id": "mini", "submission_id": "0" * 32, "index": 0, "total": 1, "base_url": "",
    "student": "eve", "last_name": None, "first_name": None, "notebook_path": "autograded/eve/mini/mini.ipynb",
}  # fmt: skip


def marked(cell, name, **marks):
    """The cell with nbgrader's metadata."""
    kinds = {"grade": False, "solution": False, "task": False, "locked": False, "schema_version": 3}
    cell.metadata["nbgrader"] = {**kinds, "grade_id": name, **marks}
    return cell


@pytest.fixture(scope="module")
def exporter():
    from nbgrader.server_extensions.formgrader import handlers
    from traitlets.config import Config

    config = Config()
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    return formgrader.HandInPage(config=config)


def shown(exporter, tmp_path, *cells, **about):
    """The page of a notebook of these cells, and what its policy says of scripts."""
    path = tmp_path / "mini.ipynb"
    nbformat.write(new_notebook(cells=list(cells)), path)
    html, _, scripts = exporter.page(str(path), ABOUT | about)
    return html, scripts


def harm_in(page: str) -> list[str]:
    """What a browser would make of a page's hand-in that is not only shown."""
    found = []
    for place in BeautifulSoup(page, "html.parser").select(".rendered_html, .output_area"):
        for tag in place.find_all(True):
            attributes = {name.lower(): str(value) for name, value in tag.attrs.items()}
            found += [f"<{tag.name}>"] if tag.name in corpus.HARMFUL_TAGS else []
            found += [f"{tag.name} {a}" for a in attributes if a.startswith("on") or a in corpus.HARMFUL_ATTRIBUTES]
            if tag.name == "img" and re.match(r"\s*(\w+:)?/", attributes.get("src", "")):
                found.append(f"img {attributes['src']}")
            for name in ("href", "src"):
                scheme = re.sub(r"[\x00-\x20]", "", attributes.get(name, "")).partition(":")[0].lower()
                is_png = attributes.get(name, "").startswith("data:image/png;base64,")
                if scheme in ("javascript", "vbscript", "data") and not is_png:
                    found.append(f"{tag.name} {scheme}:")
    return found


@pytest.mark.parametrize("name", corpus.TEXTS)
@pytest.mark.thinned(4)
def test_no_markdown_is_more_than_shown(exporter, tmp_path, name):
    page, scripts = shown(exporter, tmp_path, new_markdown_cell(corpus.TEXTS[name]))
    assert not harm_in(page)
    assert set(formgrader.script_sources(page)) == set(scripts), "a script that the empty page has not"


KINDS = ("text/html", "text/markdown", "image/svg+xml", "text/latex", "text/plain", "text/vnd.mermaid")
SHOWN = ("script", "svg", "image", "iframe with a document", "form", "style", "closes the page")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHOWN)
def test_no_output_of_a_student_is_more_than_shown(exporter, tmp_path, kind, name):
    output = new_output("display_data", {kind: corpus.TEXTS[name]}, metadata={"text/html": {"isolated": True}})
    page, scripts = shown(exporter, tmp_path, new_code_cell("x", outputs=[output]))
    assert not harm_in(page)
    assert set(formgrader.script_sources(page)) == set(scripts)


def test_no_output_that_runs_is_shown(exporter, tmp_path):
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "</script><script>ran(1)</script>"}}
    outputs = [new_output("display_data", {"application/javascript": "ran(1)"}), new_output("display_data", widget)]
    outputs += [new_output("stream", text=text) for text in corpus.MARKUP.values()]
    outputs += [new_output("error", ename=text, evalue=text, traceback=[text]) for text in corpus.MARKUP.values()]
    sources = [new_code_cell(text) for text in corpus.MARKUP.values()]
    raw = [new_raw_cell(text, metadata={"raw_mimetype": "text/html"}) for text in corpus.MARKUP.values()]
    page, scripts = shown(exporter, tmp_path, new_code_cell("x", outputs=outputs), *sources, *raw)
    assert not harm_in(page)
    assert set(formgrader.script_sources(page)) == set(scripts)


@pytest.mark.parametrize("name", corpus.NAMES)
def test_names_are_text(exporter, tmp_path, name):
    text = corpus.NAMES[name]
    page, scripts = shown(exporter, tmp_path, student=text, last_name=text, first_name=text, notebook_path=text)
    assert set(formgrader.script_sources(page)) == set(scripts)
    here = BeautifulSoup(page, "html.parser").select_one("a.name-shown")
    assert here["data-link"] == text and here.get_text().strip() == f"{text}, {text}".strip()
    assert set(here.attrs) == {"class", "data-toggle", "data-placement", "title", "data-link"}


def test_without_the_guards_most_of_it_would_be_more_than_shown(exporter, tmp_path):
    """What the tests above look for is there in nbgrader's own page."""
    from nbconvert.exporters import HTMLExporter

    path = tmp_path / "mini.ipynb"
    plain = HTMLExporter(config=exporter.config)
    found = []
    for name, text in corpus.MARKUP.items():
        nbformat.write(new_notebook(cells=[new_markdown_cell(text)]), path)
        page, _ = plain.from_filename(str(path), resources=dict(ABOUT))
        found += [name] if harm_in(page) or set(formgrader.script_sources(page)) - {"'unsafe-hashes'"} else []
    assert len(found) > 50


def test_what_is_legitimate_stays(exporter, tmp_path):
    text = corpus.LEGITIMATE.replace("PICTURE", PNG)
    page, _ = shown(
        exporter, tmp_path, marked(new_markdown_cell(text), "m-explain", solution=True, grade=True, points=3)
    )
    seen = BeautifulSoup(page, "html.parser").select_one(".rendered_html")
    assert "$a < b$" in seen.get_text() and r"\frac{2 n}{B}" in seen.get_text(), (
        "mathematics reach MathJax as they were"
    )
    assert seen.code.get_text() == "a[i] < b && c > d"
    assert [img["src"] for img in seen.find_all("img")] == [f"data:image/png;base64,{PNG}", "plot.png"]
    for tag in ("table", "strong", "em", "h2", "ol", "sub", "kbd", "details", "summary", "pre"):
        assert seen.find(tag) is not None, tag
    assert seen.a is not None and seen.select_one("pre .k").get_text() == "if", "code keeps its colours"


def test_results_of_the_grader_keep_their_looks(exporter, tmp_path):
    output = new_output("display_data", {"text/html": '<div class="warpschool" style="color: red">met</div>'})
    check = marked(new_code_cell("check()", outputs=[output]), "m-correct", grade=True, locked=True, points=4)
    assert 'style="color: red"' in shown(exporter, tmp_path, check)[0]
    own = marked(new_code_cell("x", outputs=[output]), "m-own", grade=True, solution=True, points=4)
    assert 'style="color: red"' not in shown(exporter, tmp_path, own)[0]


def test_the_policy_names_folders_that_students_cannot_write_to():
    said = formgrader.policy(
        ["'sha256-x'"], host="h:1", base_url="/user/i", submission="s1", mathjax="/user/i/static/m/M.js?c=1"
    )
    rules = {name: value.split() for name, _, value in (rule.partition(" ") for rule in said.split("; "))}
    own = "h:1/user/i/formgrader/"
    assert rules["script-src"] == [
        f"{own}static/",
        f"{own}submissions/components/",
        "h:1/user/i/static/m/",
        "'sha256-x'",
    ]
    assert f"{own}submissions/s1/" in rules["img-src"]
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]


def test_pages_of_formgrader_escape_names():
    jinja2 = pytest.importorskip("jinja2")
    environment = jinja2.Environment(loader=jinja2.DictLoader({"page": "<p>{{ student_id }}</p>"}))
    handler = SimpleNamespace(settings={"nbgrader_jinja2_env": environment})
    assert formgrader._render(handler, "page", student_id="<script>") == "<p>&lt;script&gt;</p>"


# ---------------------------------------------------------------- pages that the project writes itself


def more_than_text(page: str, *, own: str) -> list[str]:
    """What a page has that the same page of harmless texts has not: elements, attributes, schemes."""

    def parts(text: str) -> set[str]:
        found = set()
        for tag in BeautifulSoup(text, "html.parser").find_all(True):
            found |= {f"<{tag.name}>", *(f"{tag.name} {name}" for name in tag.attrs)}
            found |= {f"{tag.name} {tag[a].partition(':')[0]}:" for a in ("href", "src") if ":" in str(tag.get(a, ""))}
        return found

    return sorted(parts(page) - parts(own))


def result_of(said: str):
    from warpschool.course import Course
    from warpschool.grading.runner import no_result
    from warpschool.grading.verdicts import Verdict
    from warpschool.harness.source import Source

    step = Course.find().step("lab00_first_kernels/01_saxpy")
    return no_result(step, Source(b"", "x.cu", "submission"), Verdict.CE, said, seed=0, provenance={})


@pytest.mark.parametrize("name", [*corpus.TEXTS])
def test_results_show_texts_as_text(name):
    from warpschool.show.results import compiled_html, result_html

    text = corpus.TEXTS[name]
    assert not more_than_text(result_html(result_of(text), source=text), own=result_html(result_of("a"), source="a"))
    page = compiled_html("lab00/01", text, [text], text)
    assert not more_than_text(page, own=compiled_html("lab00/01", "a", ["a"], "a"))


@pytest.mark.parametrize("name", [*corpus.TEXTS])
def test_the_page_of_alike_kernels_shows_texts_as_text(name):
    from warpschool.grading.plagiarism import KNOWN, AlikeGroup, AlikePair, Likeness
    from warpschool.show.plagiarism import report

    def page(text):
        pairs = tuple(
            AlikePair(text, other, 0.9, 12, ((1,), (1,))) for other in (f"{text}2", f"{KNOWN}{text}")
        )  # fmt: skip
        group = AlikeGroup((text, f"{text}2"), (f"{KNOWN}{text}",), 0.9, 12, "text", pairs)
        sources = {text: {text: f"{text}\nint a;", f"{text}2": text}}
        return report({text: Likeness(2, (group,), (text,), (text,), (text,))}, sources, {text: {text: text}})

    assert not more_than_text(page(corpus.TEXTS[name]), own=page("a"))


@pytest.mark.parametrize("name", corpus.NAMES)
def test_a_terminal_gets_no_commands_of_names(name, capsys):
    from warpschool.cli.output import Output
    from warpschool.show.table import Table

    output = Output(plain=True)
    output.show("graded: ", (corpus.NAMES[name], "bold"))
    output.table(Table("", ("student",), [[corpus.NAMES[name]]]))
    output.console.print(Table("", ("student",), [[corpus.NAMES[name]]]).rich())
    said = capsys.readouterr().out
    assert not {c for c in said if c < " " and c != "\n"} | ({"\u202e"} & set(said))


def test_feedback_shows_texts_as_text(hostile_class):
    assert [path.name for path in hostile_class.feedback.parent.iterdir()] == ["mini.html"], "files of the hand-in"
    page = BeautifulSoup(hostile_class.feedback.read_text("utf-8"), "html.parser")
    assert not {tag.name for tag in page.body.find_all(True)} & (corpus.HARMFUL_TAGS - {"svg"})
    assert not [name for tag in page.find_all(True) for name in tag.attrs if name.startswith("on")]
    assert page.select_one(".said").get_text() == "well <b>said</b>"
    shown = page.get_text()
    assert corpus.MARKUP["svg"] in shown and corpus.MATHS["href in mathematics"] in shown
