"""What belongs to one lab: its pictures, its cases, its recorded figures. `warpschool` never imports it.

A course's own labs have their modules in the folder `warpcourse/` beside `labs/` and `grader/`; they are imported as if
they stood here. Nothing is searched but this package and that one folder, and what stands here comes first: a student's
folder cannot bring a module, and no module can take the place of one of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpschool.course import Course


class _Folders(list[str]):
    """Where modules are searched: in this package, and in the course that is in use when one is imported."""

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        yield str(Course.find().modules)


__path__ = _Folders(__path__)
