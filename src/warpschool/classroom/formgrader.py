"""What formgrader shows of hand-ins: sanitised, and with a policy by which the browser runs no script of theirs.

Two guards, each of which holds alone. Markdown passes nbconvert's sanitiser once it is HTML, so that mathematics, code
and images stay; outputs pass it as well where they are not the grader's own. And the page's Content-Security-Policy
names, by their hashes, the scripts that formgrader's template has around an empty notebook: no other one runs.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html.parser import HTMLParser
from typing import Any

from bleach import clean
from jinja2 import DictLoader, pass_context
from jupyter_server.utils import url_path_join
from nbconvert.exporters import HTMLExporter
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.server_extensions.formgrader import handlers
from nbgrader.server_extensions.formgrader.base import BaseHandler

from warpschool.grading.assignment import marks
from warpschool.show.page import escape

TAGS = frozenset([
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "details", "div", "dl", "dt", "em",
    "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "ol", "p", "pre", "q", "s",
    "samp", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th",
    "thead", "tr", "tt", "u", "ul",
])  # fmt: skip
_ATTRIBUTES = {
    "*": {"title", "align"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
    "ol": {"start"},
}
_CODE_CLASS = re.compile(r"highlight(?: hl-[\w-]+)?|[a-z]{1,2}\d?")
"""Pygments' classes; any other might be one that formgrader's own scripts look for. So might an id be: none stays."""
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
_BESIDE = re.compile(r"[^/\\:\s][^\\:]*")
"""A picture beside the notebook. One on another server would tell when it is looked at, one of this server may act."""
_SCHEMES = frozenset({"http", "https", "mailto", "data"})
_FILES_POLICY = "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'"
_SHOWN_OF_STUDENTS = ("student", "first_name", "last_name", "notebook_path")
"""What a template writes into the page as it is."""


def sanitised(html: str) -> str:
    """HTML without anything that runs, loads, sends, restyles the page or takes the place of a part of it."""
    return clean(html, tags=TAGS, attributes=_is_harmless, protocols=_SCHEMES, strip=True, strip_comments=True)


def _is_harmless(tag: str, name: str, value: str) -> bool:
    if name == "class":
        return all(_CODE_CLASS.fullmatch(part) for part in value.split())
    if (tag, name) == ("img", "src"):
        return _PICTURE.fullmatch(value.strip()) is not None or _BESIDE.fullmatch(value.strip()) is not None
    if value.strip().lower().startswith("data:"):
        return False
    return name in _ATTRIBUTES["*"] or name in _ATTRIBUTES.get(tag, ())


class SanitizeHandIn(SanitizeHTML):
    """nbconvert's sanitiser for outputs: those of check cells are the grader's; markdown is sanitised as HTML, later.

    Before it is HTML, mathematics and code would lose their `<`.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> tuple[NotebookNode, Any]:
        """Sanitise the outputs of one cell."""
        own = marks(cell)
        if cell.cell_type == "code" and not (own.get("grade") and own.get("locked") and not own.get("solution")):
            for output in cell.outputs:  # metadata can ask for a frame of its own
                if "metadata" in output:
                    output["metadata"] = NotebookNode()
            shown = self.sanitize_code_outputs(cell.outputs)
            cell.outputs = [output for output in shown if output.get("data", True)]
        return cell, resources

    def sanitize_html_tags(self, html_str: str) -> str:
        """Sanitise by this module's list of what is harmless."""
        return sanitised(html_str)


_MATHJAX = r"""{%- macro mathjax() -%}
<script>
window.MathJax = {
  messageStyle: "none",
  TeX: {equationNumbers: {autoNumber: "AMS", useLabelIds: true}},
  tex2jax: {
    inlineMath: [["$", "$"], ["\\(", "\\)"]], displayMath: [["$$", "$$"], ["\\[", "\\]"]],
    processEscapes: true, processEnvironments: true,
  },
  "HTML-CSS": {availableFonts: [], imageFont: null, preferredFont: null, webFont: "STIX-Web"},
  Safe: {allow: {URLs: "none", classes: "none", cssIDs: "none", styles: "none", fontsize: "none", require: "none"}},
};
</script>
<script src="MATHJAX_SCRIPT"></script>
{%- endmacro -%}
"""
"""In place of nbconvert's: there MathJax is another server's, and evaluates a text, which the policy forbids."""


class HandInPage(HTMLExporter):
    """formgrader's exporter with the sanitiser in it; the template stays nbgrader's."""

    def __init__(self, *, mathjax: str = "", **options: Any) -> None:
        """`mathjax`: where MathJax's script is, "" for nbconvert's own choice of a server."""
        super().__init__(**options)
        if mathjax:
            self.mathjax_url = mathjax
        macro = _MATHJAX.replace("MATHJAX_SCRIPT", escape(self.mathjax_url))
        self.extra_loaders = [DictLoader({"mathjax.html.j2": macro})]
        self.register_preprocessor(SanitizeHandIn(), enabled=True)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Return a cell's markdown as HTML, sanitised."""
        return sanitised(super().markdown2html(context, source))

    def page(self, filename: str, resources: Mapping[str, Any]) -> tuple[str, Any, list[str]]:
        """Return the page of a notebook, its resources, and what a policy says of the scripts that belong to it."""
        shown = dict(resources) | {
            name: escape(resources[name]) for name in _SHOWN_OF_STUDENTS if resources.get(name) is not None
        }
        empty, _ = self.from_notebook_node(new_notebook(), resources=dict(shown))
        html, found = super().from_filename(filename, resources=shown)
        return html, found, script_sources(empty)


# ---------------------------------------------------------------- the policy


class _Scripts(HTMLParser):
    """Inline scripts and event handlers of a page, as texts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name.startswith("on") and value]
        self._is_inside = tag == "script" and all(name != "src" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.found.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._is_inside = False


def script_sources(page: str) -> list[str]:
    """What a Content-Security-Policy has to say so that the scripts in a page run, and no others."""
    parser = _Scripts()
    parser.feed(page)
    parser.close()
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in parser.found)
    return ["'unsafe-hashes'", *dict.fromkeys(f"'sha256-{digest}'" for digest in digests)]


def policy(scripts: Iterable[str], *, host: str, base_url: str, submission: str, mathjax: str) -> str:
    """Return the policy of a hand-in's page.

    Scripts come from formgrader's own folder and MathJax's: other folders of the same server hold what students wrote.
    """
    own = host + url_path_join(base_url or "/", "formgrader/")
    math = host + mathjax if mathjax.startswith("/") else mathjax
    math = f"{math.partition('?')[0].rpartition('/')[0]}/"
    rules = {
        "default-src": "'none'",
        "script-src": f"{own}static/ {own}submissions/components/ {math} {' '.join(scripts)}",
        "style-src": f"{own} {math} 'unsafe-inline'",
        "img-src": f"{own}static/ {own}submissions/{submission}/ {math} data:",
        "font-src": f"{own} {math} data:",
        "connect-src": f"{own}",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


# ---------------------------------------------------------------- in formgrader


class _Shown:
    """What `SubmissionHandler` calls its exporter: renders one hand-in, and sets the header of the answer."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def from_filename(self, filename: str, resources: Mapping[str, Any]) -> tuple[str, Any]:
        handler = self._handler
        own = handler.mathjax_url  # a server with jupyter-server-mathjax needs no other one for its mathematics
        exporter = HandInPage(
            config=handler.settings["nbgrader_exporter"].config,
            mathjax=f"{own}?config={handler.settings.get('mathjax_config', '')}" if own else "",
        )
        html, found, scripts = exporter.page(filename, resources)
        rules = policy(
            scripts, host=handler.request.host, base_url=handler.base_url,
            submission=str(resources["submission_id"]), mathjax=exporter.mathjax_url,
        )  # fmt: skip
        handler.set_header("Content-Security-Policy", f"{handler.content_security_policy}, {rules}")
        return html, found


def _files_policy(before: Callable[[Any], str], handler: Any) -> str:
    return f"{before(handler)}; {_FILES_POLICY}"


def _render(handler: Any, name: str, **values: Any) -> str:
    """In place of `BaseHandler.render`: names of students and assignments are text, not markup."""
    return handler.settings["nbgrader_jinja2_env"].overlay(autoescape=True).get_template(name).render(**values)


def protect() -> None:
    """Make formgrader of this process show hand-ins so.

    nbgrader has no setting for any of it; the classes are changed, since its server may have begun before it reads the
    class's configuration.
    """
    BaseHandler.render = _render
    handlers.SubmissionHandler.exporter = property(_Shown)
    before = BaseHandler.content_security_policy.fget
    handlers.SubmissionFilesHandler.content_security_policy = property(partial(_files_policy, before))
