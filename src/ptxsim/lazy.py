"""Public names of a package that are loaded when they are first used.

The package lists them once, as imports that type checkers and editors follow, and that never run:

    from ptxsim.lazy import public_names

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from package.module import thing as thing
    __getattr__, __dir__ = public_names(__name__)

`thing as thing` says that the name is the package's own too, not only imported. `TYPE_CHECKING` is not taken from
`typing`, which takes longer to import than all the rest.
"""

from __future__ import annotations

import functools
import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; `__all__` is found by the first, too."""
    own = sys.modules[package].__dict__

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted({*_listed(package), *({"__version__"} & own.keys())})
        if name.startswith("__") or name not in _listed(package):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = _listed(package)[name]
        if home == package:  # one of its modules
            return importlib.import_module(f"{package}.{name}")
        own[name] = getattr(importlib.import_module(home), name)
        return own[name]

    return get, lambda: sorted({*own, *_listed(package)})


@functools.cache
def _listed(package: str) -> dict[str, str]:
    """Public name -> the module that defines it, read from the imports below `if TYPE_CHECKING`."""
    import ast
    import pkgutil

    tree = ast.parse(pkgutil.get_data(package, "__init__.py") or "")
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
