"""`python -m warpschool` is the command `warpschool`."""

from warpschool.cli import main

if __name__ == "__main__":
    main()
