"""`python -m warpschool` is the command `warpschool`, which runs in a warm process where one waits."""

import sys

from warpschool.warm import client


def main() -> None:
    """Run a command; the console script's entry point."""
    words = sys.argv[1:]
    try:
        code = client.run(client.COMMAND, words, takes_signals=True) if words[:1] in client.COMMANDS else None
    except KeyboardInterrupt:
        code = 130
    if code is not None:
        client.leave(code)
    from warpschool.cli import main as run

    run()


def nvcc() -> None:
    """The console script warpschool-nvcc: `warpschool nvcc` in one word, for CMake."""
    sys.argv.insert(1, "nvcc")
    main()


if __name__ == "__main__":
    main()
