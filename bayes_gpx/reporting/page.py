"""Parts of a report's page (prose, tables, figures), and sections that fail."""

import base64
import io
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from bayes_gpx.inference.diagnostics import BORDERLINE, CONVERGED, NOT_CONVERGED
from bayes_gpx.system.warning import ExtrapolationWarning

TONES = {CONVERGED: "good", BORDERLINE: "note", NOT_CONVERGED: "bad"}
"""Style of the paragraph with the convergence summary."""

DPI = 100
"""Resolution of figures, in dots per inch."""


class Prose(NamedTuple):
    """A paragraph; of tone "good", "bad", "note" or none."""

    text: str
    tone: str = ""
    kind: str = "prose"


class Points(NamedTuple):
    """A list of sentences, under a heading; `option` is the row that it is about, if any."""

    # All rows of a section are shown until a reader picks one.

    heading: str
    sentences: list
    option: str = ""
    kind: str = "points"


class Pairs(NamedTuple):
    """Names and their meanings."""

    rows: list
    kind: str = "pairs"


class Table(NamedTuple):
    """Rows of texts and numbers below column names."""

    caption: str
    columns: list
    rows: list
    kind: str = "table"


class Figure(NamedTuple):
    """A PNG in base64, its width in pixels, and a description in words; `option` as in `Points`."""

    png: str
    width: int
    caption: str
    option: str = ""
    kind: str = "figure"


type Part = Prose | Points | Pairs | Table | Figure
"""What a section consists of."""


@dataclass(frozen=True)
class Section:
    """A section of a report; makers yield parts, and one that fails takes no other with it."""

    key: str  # anchor in the page
    title: str
    makers: tuple[Callable[[Any], Iterable[Part]], ...]


@dataclass
class Page:
    """A section as it came out: its parts, and whether any failed."""

    key: str
    title: str
    parts: list[Part] = field(default_factory=list)
    failed: bool = False


def compose(section: Section, findings: Any, page: Page) -> None:
    """Add the parts of a section to its page; say which failed, and what warned."""
    for maker in section.makers:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ExtrapolationWarning)  # the cautions tell it, once
            try:
                for part in maker(findings):
                    page.parts.append(part)
            except Exception as failure:  # noqa: BLE001
                page.failed = True
                said = f"{type(failure).__name__}: {failure}"
                page.parts.append(Prose(f"This part could not be made. {said}", "bad"))
            finally:
                plt.close("all")
        for text in dict.fromkeys(str(w.message) for w in caught if _for_users(w)):
            page.parts.append(Prose(f"Warning: {text}", "note"))


def _for_users(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, UserWarning | RuntimeWarning)


def picture(collection: Any, caption: str, option: str = "") -> Figure:
    """Embed the figure of an arviz_plots.PlotCollection of matplotlib."""
    figure, file = collection.viz["figure"].item(), io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    png = file.getvalue()
    width = int.from_bytes(png[16:20], "big")
    return Figure(base64.b64encode(png).decode(), width, caption, option)


def number(value: Any, digits: int = 3) -> str:
    """A number in words: three significant digits, all digits of large whole parts."""
    value = float(value)
    if not np.isfinite(value):
        return "not finite"
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    places = max(0, digits - 1 - int(np.floor(np.log10(abs(value))))) if value else 0
    text = f"{value:.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def interval(low: Any, high: Any) -> str:
    """An interval in words."""
    return f"[{number(low)}, {number(high)}]"


def change(mean: Any, low: Any, high: Any) -> str:
    """A change with its sign and interval, in words."""
    return f"{'+' if mean > 0 else ''}{number(mean)} {interval(low, high)}"
