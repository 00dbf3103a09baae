"""Secret cases: an instructor's secret seed adds sizes to a grader's public ones and draws all data anew.

    RAGGED = practice([(1, 1, 1), (31, 33, 17), (127, 5, 31)])       # in a grader file

Without a secret seed a loop over RAGGED sees these three; with one, some more of the same kind. Public cases are a
practice then: a kernel that knows them by heart fails.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpschool.errors import ArgumentError, WarpschoolError

SECRET_CASES = 2
MOST_SCALED = 3
LEAST_SECRET_BYTES = 16
_MOST_SECRET_BYTES = 4096
_TRIES = 64


@dataclass
class _State:
    secret: str = ""
    in_secret_case: bool = False


_state = _State()


def use_secret(secret: str) -> None:
    """Let `practice` draw with this secret from now on, in this process; "" means public cases only."""
    _state.secret, _state.in_secret_case = secret, False


def in_secret_case() -> bool:
    """Whether the case that was drawn last from `practice` is a secret one."""
    return _state.in_secret_case


def secret_words(secret: str) -> list[int]:
    """Return numbers that seed a generator; none for no secret."""
    return list(struct.unpack("<8I", hashlib.sha256(secret.encode()).digest())) if secret else []


def fingerprint(secret: str) -> str:
    """Return what results say of a secret: enough to tell two apart, too little to find one."""
    return hashlib.sha256(b"fingerprint\0" + secret.encode()).hexdigest()[:16] if secret else ""


def secret_of(secret: str, step: str) -> str:
    """Return what the process that checks one step's submission gets of the class's secret; "" for none.

    Who reads that process's memory learns this step's cases, not the secret and not those of any other step.
    """
    return hmac.digest(secret.encode(), step.encode(), "sha256").hex() if secret else ""


def read_secret(path: Path) -> str:
    """Return the secret of a file. Raises ArgumentError for one that is missing, or so short that it can be guessed."""
    advice = f"Make one: python3 -c 'import secrets; print(secrets.token_hex(32))' > {path}"
    try:
        text = path.read_bytes()[: _MOST_SECRET_BYTES + 1].strip()
    except OSError as error:
        raise ArgumentError(f"cannot read the secret seed {path}: {error.strerror}", next_step=advice) from None
    if not LEAST_SECRET_BYTES <= len(text) <= _MOST_SECRET_BYTES:
        raise ArgumentError(
            f"the secret seed {path} has {len(text)} bytes; it needs {LEAST_SECRET_BYTES} at least and "
            f"{_MOST_SECRET_BYTES:,} at most",
            next_step=advice,
        )
    return hashlib.sha256(text).hexdigest()


@dataclass(frozen=True)
class Cases(Sequence[Any]):
    """Public cases, and behind them those that the secret seed draws; see `practice`."""

    public: tuple[Any, ...]
    more: int
    needs: Callable[..., bool] | None
    scaled: str = ""

    def __iter__(self) -> Iterator[Any]:
        for is_secret, found in ((False, self.public), (True, self.drawn())):
            for case in found:
                _state.in_secret_case = is_secret
                yield case
        _state.in_secret_case = False

    def __len__(self) -> int:
        return len(self.public) + len(self.drawn())

    def __getitem__(self, index: Any) -> Any:
        return (*self.public, *self.drawn())[index]

    def drawn(self) -> tuple[Any, ...]:
        """Secret cases: in each place between the smallest and largest public value, and a multiple of their gcd."""
        if not _state.secret:
            return ()
        rng = np.random.default_rng([zlib.crc32(repr(self.public).encode()), *secret_words(_state.secret)])
        found: list[Any] = []
        for _ in range(_TRIES):
            try:
                case = self._draw(rng)
            except WarpschoolError:  # sizes that do not go together
                continue
            is_possible = self.needs is None or self.needs(*(case if isinstance(case, tuple) else (case,)))
            if is_possible and case not in self.public and case not in found:
                found.append(case)
            if len(found) == self.more:
                break
        return tuple(found)

    def _draw(self, rng: np.random.Generator) -> Any:
        first = self.public[0]
        if self.scaled:
            more = getattr(first, self.scaled) * int(rng.integers(2, 2 + MOST_SCALED))
            return dataclasses.replace(first, **{self.scaled: more})
        if dataclasses.is_dataclass(first) and not isinstance(first, type):
            names = [field.name for field in dataclasses.fields(first)]
            values = {name: [getattr(case, name) for case in self.public] for name in names}
            return dataclasses.replace(first, **{name: _between(rng, values[name]) for name in names})
        if not isinstance(first, tuple):
            return _between(rng, self.public)
        return tuple(_between(rng, values) for values in zip(*self.public, strict=True))


def practice(
    public: Sequence[Any], *, count: int = SECRET_CASES, needs: Callable[..., bool] | None = None, scaled: str = ""
) -> Cases:
    """Return sizes, or tuples or dataclasses of sizes, to which a secret seed adds `count` more of the same kind.

    `needs` says which drawn ones are possible; it gets the sizes of a tuple one by one. `scaled` names the one field of
    the first dataclass that is another in drawn ones, two to four times as large: for budgets that hold per image.
    """
    return Cases(tuple(public), count, needs, scaled)


def _between(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    low, high = min(values), max(values)
    if any(isinstance(value, float) for value in values):
        return round(float(rng.uniform(low, high)), 3)
    step = math.gcd(*values) or 1
    return int(rng.integers(low // step, high // step + 1)) * step
