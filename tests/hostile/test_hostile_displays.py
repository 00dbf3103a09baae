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
            for name in ("href", "src"):
                scheme = re.sub(r"[\x00-\x20]", "", attributes.get(name, "")).partition(":")[0].lower()
                is_png = attributes.get(name, "").startswith("data:image/png;base64,")
                found += [f"{tag.name} {scheme}:"] if scheme in ("javascript", "vbscript", "data") and not is_png else []
    return found


@pytest.mark.parametrize("name", corpus.TEXTS)
def test_no_markdown_is_more_than_shown(exporter, tmp_path, name):
    page, scripts = shown(exporter, tmp_path, new_markdown_cell(corpus.TEXTS[name]))
    assert not harm_in(page)
    assert set(formgrader.script_sources(page)) == set(scripts), "a script that the empty page has not"


@pytest.mark.parametrize("kind", ["text/html", "text/markdown", "image/svg+xml", "text/latex", "text/plain", "text/vnd.mermaid"])
@pytest.mark.parametrize("name", ["script", "svg", "image", "iframe with a document", "form", "style", "closes the page"])
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


def test_what_is_legitimate_stays(exporter, tmp_path):
    text = corpus.LEGITIMATE.replace("PICTURE", PNG)
    page, _ = shown(exporter, tmp_path, marked(new_markdown_cell(text), "m-explain", solution=True, grade=True, points=3))
    seen = BeautifulSoup(page, "html.parser").select_one(".rendered_html")
    assert "$a < b$" in seen.get_text() and r"\frac{2 n}{B}" in seen.get_text(), "mathematics reach MathJax as they were"
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
    said = formgrader.policy(["'sha256-x'"], host="h:1", base_url="/user/i", submission="s1", mathjax="/user/i/static/m/M.js?c=1")
    rules = {name: value.split() for name, _, value in (rule.partition(" ") for rule in said.split("; "))}
    own = "h:1/user/i/formgrader/"
    assert rules["script-src"] == [f"{own}static/", f"{own}submissions/components/", "h:1/user/i/static/m/", "'sha256-x'"]
    assert f"{own}submissions/s1/" in rules["img-src"]
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]


def test_pages_of_formgrader_escape_names():
    jinja2 = pytest.importorskip("jinja2")
    environment = jinja2.Environment(loader=jinja2.DictLoader({"page": "<p>{{ student_id }}</p>"}))
    handler = SimpleNamespace(settings={"nbgrader_jinja2_env": environment})
    assert formgrader._render(handler, "page", student_id="<script>") == "<p>&lt;script&gt;</p>"
