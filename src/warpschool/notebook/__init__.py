"""What notebooks use: the `%%kernel` magic, running one's own kernel, predictions, and the labs' experiments."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext warpschool`: registers the magics and the rich displays."""
    from warpschool.notebook.extension import KernelMagics, register_displays

    shell.register_magics(KernelMagics)
    register_displays(shell)
