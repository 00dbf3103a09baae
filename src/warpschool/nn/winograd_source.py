"""The three transforms of any F(m x m, r x r) as CUDA source: `kernels/` with the exact matrices put in.

    exact = matrices(4, 5)
    filters, images, results = (parse_contract(text, name=name) for name, text in sources(exact).items())

What a student writes by hand for F(4,3): each row of a matrix becomes a chain of multiply-adds, and pairs of rows that
differ in signs only, as those of a point and its negative do, share what they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from importlib import resources

from warpschool.errors import ArgumentError
from warpschool.nn.winograd import Matrices, Row, Rows

Line = str
_POOL = 2


def sources(exact: Matrices) -> dict[str, str]:
    """Return {file name: kernel file} of the three transforms: filters, images, results, in this order."""
    transforms = {
        "filter_transform.cu": (exact.G, exact.r),
        "input_transform.cu": (exact.Bt, exact.side),
        "output_transform.cu": (exact.At, exact.side),
    }
    return {name: _filled(name, exact, rows, length) for name, (rows, length) in transforms.items()}


def pooled_results(exact: Matrices) -> str:
    """Return the kernel file of the results' transform with bias, ReLU and the mean of each 2 x 2.

    Raises ArgumentError where a tile does not hold whole windows.
    """
    if exact.m % _POOL:
        raise ArgumentError(f"{exact}: a tile of {exact.m} x {exact.m} does not hold whole windows of 2 x 2")
    return _filled("pooled_results.cu", exact, exact.At, exact.side)


def transform_lines(rows: Rows, *, to: str = "to", of: str = "of") -> list[Line]:
    """Return statements that set to[i] to row i times the vector `of`."""
    lines: list[Line] = []
    done: set[int] = set()
    for i, row in enumerate(rows):
        if i in done:
            continue
        twin = next((k for k in range(i + 1, len(rows)) if k not in done and _is_twin(row, rows[k])), None)
        if twin is None:
            lines.append(f"{to}[{i}] = {_chain(row, of)};")
            continue
        same, other = _split(row, rows[twin])
        lines += [
            f"const float same{i} = {_chain(same, of)};",
            f"const float other{i} = {_chain(other, of)};",
            f"{to}[{i}] = same{i} + other{i};",
            f"{to}[{twin}] = same{i} - other{i};",
        ]
        done.add(twin)
    return lines


def paired_lines(rows: Rows, *, to: str = "to", of: str = "of") -> list[Line]:
    """The same for a matrix whose columns come in pairs: sums and differences of two numbers serve all rows."""
    columns = list(zip(*rows, strict=True))
    terms: list[tuple[str, Row]] = []
    lines: list[Line] = []
    done: set[int] = set()
    for j, column in enumerate(columns):
        if j in done:
            continue
        twin = next((k for k in range(j + 1, len(columns)) if k not in done and _is_twin(column, columns[k])), None)
        if twin is None:
            terms.append((f"{of}[{j}]", column))
            continue
        same, other = _split(column, columns[twin])
        lines += [f"const float sum{j} = {of}[{j}] + {of}[{twin}];", f"const float less{j} = {of}[{j}] - {of}[{twin}];"]
        terms += [(f"sum{j}", same), (f"less{j}", other)]
        done.add(twin)
    for i in range(len(rows)):
        lines.append(f"{to}[{i}] = {_sum((column[i], name) for name, column in terms)};")
    return lines


def _is_twin(row: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    """Equal magnitudes, and both equal and opposite signs."""
    pairs = [(a, b) for a, b in zip(row, other, strict=True) if a or b]
    return all(abs(a) == abs(b) for a, b in pairs) and len({a == b for a, b in pairs}) == 2


def _split(row: Sequence[Fraction], other: Sequence[Fraction]) -> tuple[Row, Row]:
    """What two rows have in common, and what has opposite signs in them."""
    zero = Fraction(0)
    same = tuple(a if a == b else zero for a, b in zip(row, other, strict=True))
    return same, tuple(a if a != b else zero for a, b in zip(row, other, strict=True))


def _chain(row: Sequence[Fraction], of: str) -> str:
    return _sum((factor, f"{of}[{k}]") for k, factor in enumerate(row))


def _sum(terms: Iterable[tuple[Fraction, str]]) -> str:
    """A sum of products, the last term innermost; factors of 1 and -1 cost no multiplication."""
    text = ""
    for factor, name in sorted((t for t in terms if t[0]), key=lambda term: abs(term[0]) != 1):
        if not text:
            text = name if factor == 1 else f"-{name}" if factor == -1 else f"{_number(factor)} * {name}"
        elif factor == 1:
            text = f"{text} + {name}"
        elif factor == -1:
            text = f"{text} - {name}"
        else:
            text = f"fmaf({_number(factor)}, {name}, {text})"
    return text or "0.0f"


def _number(value: Fraction) -> str:
    """A float literal: exact, as a quotient where no decimal is."""
    if value.denominator & (value.denominator - 1):
        return f"({value.numerator}.0f / {value.denominator}.0f)"
    return f"{float(value)!r}f"


def _filled(name: str, exact: Matrices, rows: Rows, length: int) -> str:
    """The kernel file `kernels/name` with what the matrices say put in."""
    folder = resources.files("warpschool.nn") / "kernels"
    common = (folder / "common.cuh").read_text("utf-8").rstrip("\n")
    write = paired_lines if rows is exact.At else transform_lines
    values = {
        "COMMON": common, "NAME": f"F({exact.m}x{exact.m},{exact.r}x{exact.r})", "TILE": str(exact.m),
        "FILTER": str(exact.r), "LENGTH": str(length), "COUNT": str(len(rows)), "BODY": "\n    ".join(write(rows)),
    }  # fmt: skip
    text = (folder / name).read_text("utf-8")
    for word, value in values.items():
        text = text.replace(f"@{word}@", value)
    return text
