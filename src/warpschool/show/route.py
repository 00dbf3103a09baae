"""The labs on one screen: what each stands on, its hours, how much of it is done, and where one is."""

from __future__ import annotations

from collections.abc import Mapping

from warpschool.route import Route, Waypoint
from warpschool.show.table import Cell, Table

HOURS = "Hours are an estimate from counts of words, steps and lines; nobody was timed."


def short(lab: str) -> str:
    """The number of a lab, as one types it."""
    return lab.partition("_")[0]


def hours(value: float) -> str:
    """An estimate to half an hour, above ten hours to one: it knows no more."""
    return f"{round(value * 2) / 2:g} h" if value < 10 else f"{value:.0f} h"


def route_table(route: Route, done: Mapping[str, tuple[int, int, int]], here: Waypoint | None) -> Table:
    """All labs. `done`: lab -> (steps accepted, steps begun or accepted, steps)."""
    rows = []
    for point in route.waypoints:
        accepted, _, steps = done[point.lab.name]
        is_here = here is not None and point.lab.name == here.lab.name
        kind = "good" if accepted == steps else "" if is_here else "soft"
        rows.append((
            Cell("you are here" if is_here else "", "warn"), Cell(short(point.lab.name), kind), point.about,
            " ".join(map(short, point.needs)), hours(point.hours), Cell(f"{accepted} of {steps}", kind),
        ))  # fmt: skip
    return Table("", ("", "lab", "about", "after", "hours", "done"), tuple(rows), frozenset(["hours", "done"]))


def track_lines(route: Route) -> list[str]:
    """One line for each path."""
    return [f"{track.name}, {hours(track.hours)}: {' '.join(map(short, track.labs))}" for track in route.tracks]
