"""Labels of points in a plot: beside their points, none over another, over a point or over the plot's other words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes a while to load
    from matplotlib.axes import Axes
    from matplotlib.text import Text

_WIDER = 1.12
"""A page's font may be wider than the one that is measured here."""
_GAP, _AWAY = 2.0, 11.0
"""In points: between two boxes, and from a point's middle to its label."""
_RINGS = 14
_SLICES = 16


@dataclass(frozen=True)
class Box:
    """A rectangle in points, 1/72 inch, from the figure's lower left corner."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)

    def outside(self, other: Box) -> float:
        """The area that the other one does not cover."""
        return (self.right - self.left) * (self.top - self.bottom) - self.overlap(other)

    def wider(self, by: float) -> Box:
        """The same with a margin."""
        return Box(self.left - by, self.bottom - by, self.right + by, self.top + by)


@dataclass(frozen=True)
class Place:
    """Where a label stands: points from its point, and which end of it is there ("left", "right" or "center")."""

    x: float
    y: float
    align: str

    @property
    def moved(self) -> bool:
        """Whether it is so far away that a line should lead to it."""
        return math.hypot(max(0.0, abs(self.x) - _AWAY), self.y) > _AWAY


def place_labels(
    axes: Axes, points: Sequence[tuple[float, float]], names: Sequence[str], *, fontsize: float,
    markers: Iterable[tuple[float, float]], radius: float = 6.0, texts: Iterable[Text] = (),
) -> list[Place]:  # fmt: skip
    """Where the labels of points (in data) stand, from the highest point down.

    Each stands as near to its point as it can without lying on another label, on one of `markers`, or on `texts`, and
    within the axes; the labels of many points in one place go where they cover least.
    """
    frame = _points(axes.bbox.extents, axes)
    middles = [_middle(axes, point) for point in points]
    taken = [Box(x, y, x, y).wider(radius) for x, y in (_middle(axes, marker) for marker in markers)]
    taken += [box for text in texts for box in boxes_of(text)]
    sizes = [_size(axes, name, fontsize) for name in names]
    found: dict[int, Place] = {}
    for index in sorted(range(len(points)), key=lambda i: (-middles[i][1], middles[i][0])):
        width, height = sizes[index]
        choices = [(place, _box(middles[index], place, width, height)) for place in _candidates(width, height)]
        covered = [(sum(box.wider(_GAP).overlap(other) for other in taken) + box.outside(frame)) for _, box in choices]
        best = min(range(len(choices)), key=lambda i: (covered[i], i))  # the nearest of those that cover least
        found[index] = choices[best][0]
        taken.append(choices[best][1])
    return [found[index] for index in range(len(points))]


def boxes_of(text: Text) -> list[Box]:
    """What a text covers; one that is turned is cut into slices, since its upright box covers far more."""
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation, Text

    axes = text.axes
    assert isinstance(axes, Axes)
    renderer = _renderer(axes)
    if isinstance(text, Annotation):
        text.update_positions(renderer)
    whole = _points(Text.get_window_extent(text, renderer).extents, axes)  # an annotation's own adds its arrow
    turn = math.radians(text.get_rotation())
    if abs(math.sin(turn)) < 1e-3:
        return [whole]
    width, height = _size(axes, text.get_text(), float(text.get_fontsize()))
    up, along = math.sin(turn), math.cos(turn)
    boxes = []
    for k in range(_SLICES):
        ends = [width * (k + part) / _SLICES for part in (0, 1)]
        xs = [whole.left + along * end - side * up for end in ends for side in (0, height)]
        ys = [whole.bottom + up * end + side * along for end in ends for side in (0, height)]
        boxes.append(Box(min(xs), min(ys), max(xs), max(ys)))
    return boxes


def _candidates(width: float, height: float) -> Iterator[Place]:
    """Places from the nearest to the farthest: right, left, above, below, and then ring by ring."""
    yield from (Place(_AWAY, 0, "left"), Place(-_AWAY, 0, "right"))
    for ring in range(1, _RINGS + 1):
        up = 0.6 * height * ring + 2
        for y in (up, -up):
            yield from (Place(_AWAY, y, "left"), Place(-_AWAY, y, "right"))
            if up > _AWAY:
                yield Place(0, y, "center")


def _box(middle: tuple[float, float], place: Place, width: float, height: float) -> Box:
    x, y = middle[0] + place.x, middle[1] + place.y
    left = {"left": x, "right": x - width, "center": x - width / 2}[place.align]
    return Box(left, y - height / 2, left + width, y + height / 2)


def _middle(axes: Axes, point: tuple[float, float]) -> tuple[float, float]:
    scale = 72 / axes.figure.dpi
    x, y = axes.transData.transform(point)
    return float(x) * scale, float(y) * scale


def _points(extents: Sequence[float], axes: Axes) -> Box:
    return Box(*(float(value) * 72 / axes.figure.dpi for value in extents))


def _size(axes: Axes, name: str, fontsize: float) -> tuple[float, float]:
    """Width and height of a line of text."""
    from matplotlib.font_manager import FontProperties

    width, height, _ = _renderer(axes).get_text_width_height_descent(name, FontProperties(size=fontsize), ismath=False)
    scale = 72 / axes.figure.dpi
    return float(width) * scale * _WIDER, max(float(height) * scale, fontsize) * _WIDER


def _renderer(axes: Axes) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = axes.get_figure(root=True)
    assert figure is not None
    canvas = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    return canvas.get_renderer()
