"""Short, whole transactions on nbgrader's gradebook, beside formgrader and other writers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from nbgrader.api import Gradebook
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from warpschool.errors import OutputError

TRIES = 5


@contextmanager
def transaction(gradebook: Gradebook) -> Iterator[None]:
    """Hold the write lock from the first read to the commit, so that what people enter meanwhile is never overwritten.

    Raises OutputError when others keep the database locked for minutes.
    """
    database = gradebook.db
    database.rollback()
    for attempt in range(TRIES):
        try:
            if database.get_bind().dialect.name == "sqlite":
                database.execute(text("BEGIN IMMEDIATE"))
            break
        except OperationalError as error:
            database.rollback()
            if attempt == TRIES - 1:
                advice = "Close what else writes to it, and run this again."
                raise OutputError(f"the gradebook is locked: {error.orig}", next_step=advice) from None
            time.sleep(1 << attempt)
    database.expire_all()
    try:
        yield
        database.commit()
    except BaseException:
        database.rollback()
        raise
