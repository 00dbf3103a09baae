"""A picture with a text that says what it shows: for those who do not see it, and for terminals."""

from __future__ import annotations

import base64
import io

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from warpschool.show.page import escape, notebook_box


class Picture:
    """A figure and its alternative text; a notebook shows the one with the other, a terminal the text."""

    def __init__(self, figure: Figure, alt: str) -> None:
        self.figure = figure
        self.alt = alt
        plt.close(figure)  # or the notebook would show it a second time, without its text

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        data = io.BytesIO()
        self.figure.savefig(data, format="png", dpi=96)
        encoded = base64.b64encode(data.getvalue()).decode()
        image = f'<img alt="{escape(self.alt)}" src="data:image/png;base64,{encoded}">'
        return notebook_box(f'<figure class="frame plot">{image}</figure>')
