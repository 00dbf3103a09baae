"""Makes docs/images/tour.png and tour-dark.png, the README's picture: a part of a real tour's page.

    python scripts/tour_picture.py

Runs `warpschool tour` on the simulator and lets a headless Chromium draw the page; needs Chromium and Pillow.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1240, 2400
DENSE = """
body { padding: 1.4rem 2rem 1rem; } h1 { font-size: 1.6rem; } .lead { margin: 0; }
.facts, details, .title { display: none; }
h2 { margin: .9rem 0 0; padding: 0; border: 0; font-size: 1.15rem; }
p { margin: .3rem 0; max-width: none; }
.scroll { margin: .5rem 0; }
"""
COLOURS = 128


def shortened(html: str) -> str:
    """The page's table and its caught mistake: the plot and the steps' sources would make the picture too tall."""
    roofline, mistake, steps = (html.index(mark) for mark in ('<h2 id="roofline"', '<h2 id="mistake"', "<section"))
    return (html[:roofline] + html[mistake:steps] + "</main></body></html>").replace("</style>", f"{DENSE}</style>", 1)


def draw(page: Path, target: Path, *, dark: bool) -> None:
    """Draw a page, cut off empty space below, and save it with few colours."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium found; on Debian: apt-get install chromium")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--hide-scrollbars", "--force-color-profile=srgb", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={target}",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []), page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    image = Image.open(target).convert("RGB")
    image = image.crop((0, 0, WIDTH, _last_row(image) + 30))
    image.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(target, optimize=True)


def _last_row(image: Image.Image) -> int:
    """The lowest row that is not background."""
    background = image.getpixel((0, image.height - 1))
    for row in range(image.height - 1, 0, -1):
        colours = image.crop((0, row, image.width, row + 1)).getcolors()
        if not colours or len(colours) > 1 or colours[0][1] != background:
            return row
    return image.height - 1


def main() -> int:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "tour.html"
        command = [sys.executable, "-m", "warpschool", "tour", "--device", "sim", "--plain", "--html", str(page)]
        subprocess.run(command, check=True, cwd=folder)
        page.write_text(shortened(page.read_text(encoding="utf-8")), encoding="utf-8")
        for name, dark in {"tour.png": False, "tour-dark.png": True}.items():
            draw(page, IMAGES / name, dark=dark)
    return 0


if __name__ == "__main__":
    sys.exit(main())
