"""PDF reports beside a notebook: how many pages, told by pypdf in a child process, for a PDF may be hostile too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ptxsim import system

MAX_BYTES = 20 << 20
CPU_S, WALL_S = 60, 1800
"""Of processor time for reading what is no bomb, and of waiting for a process that hangs."""
MEMORY_BYTES = 1 << 30


def look_at_report(folder: Path, *, most_pages: int) -> str:
    """Return what is to be said about the PDF in a hand-in's folder; "" where there is none."""
    found = sorted(path for path in folder.glob("*.pdf") if path.is_file() and not path.is_symlink())
    if not found:
        return ""
    named = [path for path in found if path.name == "report.pdf"] or found
    if len(found) > 1 and named == found:
        return f"{len(found)} PDFs, and none is called report.pdf: none is read"
    path = named[0]
    if path.stat().st_size > MAX_BYTES:
        return f"{path.name}: too large, {path.stat().st_size:,} bytes"
    try:
        pages = _pages(path)
    except subprocess.TimeoutExpired:
        return f"{path.name}: nobody counted its pages: this machine is overloaded"
    if pages is None:
        return f"{path.name}: it cannot be read as a PDF"
    if pages > most_pages:
        return f"{path.name}: {pages} pages; at most {most_pages} are read"
    return f"{path.name}: {pages} page{'s' if pages > 1 else ''}"


def _pages(path: Path) -> int | None:
    """The number of pages, None for what is no readable PDF. Raises TimeoutExpired for what hangs."""
    command = [sys.executable, "-P", "-m", "warpschool.classroom.reports"]
    with path.open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, timeout=WALL_S, cwd="/", check=False)
    text = done.stdout.decode("ascii", "replace").strip()
    return int(text) if done.returncode == 0 and text.isdigit() else None


def main() -> int:
    """Count the pages of the PDF on stdin; the exit code is 1 for what is none."""
    system.limit(memory_bytes=MEMORY_BYTES, cpu_s=CPU_S, file_bytes=0)
    import io

    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        count = len(PdfReader(io.BytesIO(sys.stdin.buffer.read(MAX_BYTES + 1))).pages)
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        return 1
    print(count)
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
