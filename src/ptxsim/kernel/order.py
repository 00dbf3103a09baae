"""The order of basic blocks in which a warp's lanes meet again.

Lanes that wait stand at a higher block number than those that run (min-PC scheduling). So that they meet as early as
possible, blocks are numbered topologically, and every loop is contiguous: nested strongly connected components, which
works for reducible and irreducible loops alike.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_WORK = 2_000_000
"""Most steps; reached only by about a thousand loops inside each other."""


class TooTangled(Exception):
    """The graph's loops are nested so deep that ordering them would take too long."""


def min_pc_order(successors: Sequence[Sequence[int]], entry: int = 0) -> list[int]:
    """Nodes reachable from `entry` in min-PC order; ties keep the smaller node first. Raises TooTangled."""
    region = [0] * len(successors)
    is_header = [False] * len(successors)
    order: list[int] = []
    # A pending item is one node to put out, or a region (its number and header) still to be taken apart.
    pending: list[tuple[int, int]] = [(0, entry)]
    regions, work = 1, 0
    while pending:
        number, head = pending.pop()
        if number < 0:
            order.append(head)
            continue
        is_header[head] = True  # edges back to the header no longer count inside its loop
        components = _components(successors, head, region, number, is_header)
        for component in components:
            work += len(component)
            if len(component) == 1:
                pending.append((-1, component[0]))
            else:
                for node in component:
                    region[node] = regions
                pending.append((regions, component[-1]))
                regions += 1
        if work > MAX_WORK:
            raise TooTangled
    return order


def _components(
    successors: Sequence[Sequence[int]], entry: int, region: list[int], number: int, is_header: list[bool]
) -> list[list[int]]:
    """Strongly connected components of one region, last in topological order first; each ends with its first node.

    Tarjan's algorithm without recursion (SIAM J. Comput. 1, 1972).
    """
    index: dict[int, int] = {entry: 0}
    low: dict[int, int] = {entry: 0}
    on_stack = {entry}
    stack = [entry]
    path = [(entry, iter(sorted(successors[entry], reverse=True)))]
    found: list[list[int]] = []
    while path:
        node, rest = path[-1]
        for target in rest:
            if region[target] != number or is_header[target]:
                continue
            if target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                path.append((target, iter(sorted(successors[target], reverse=True))))
                break
            if target in on_stack and index[target] < low[node]:
                low[node] = index[target]
        else:
            path.pop()
            if path and low[node] < low[path[-1][0]]:
                low[path[-1][0]] = low[node]
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                found.append(component)
    return found
