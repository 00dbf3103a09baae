"""`python -m warpschool` is the command `warpschool`."""

from __future__ import annotations

from warpschool.cli import main

if __name__ == "__main__":
    main()
