"""Tools for whoever writes course content: starters from solutions, kernel cells and solved copies of notebooks."""
