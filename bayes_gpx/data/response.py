"""Read a response of real numbers, counts or class labels, and the step it is rounded to."""

from collections.abc import Sequence
from functools import reduce
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayes_gpx.data.categorical import is_missing
from bayes_gpx.data.features import Frame, read_positive, refuse_words
from bayes_gpx.validation import one_of


class Reader(Protocol):
    """Attributes of a likelihood that reading a response uses."""

    normal: bool
    labelled: bool
    scaled: bool
    exposed: bool
    exposure_name: str
    level: float | None
    classes: int | None

    def read(self, y: Any, labels: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Check and encode y; its labels, or None."""

    def refuse(self, y: np.ndarray, exposure: np.ndarray) -> None:
        """Raise where y and its exposure contradict each other."""

    def center(
        self, y: np.ndarray, exposure: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> float:
        """Prior mean of f that fits the size of y."""


KINDS = {
    "strings": str,
    "booleans": bool | np.bool_,
    "numbers": int | float | np.integer | np.floating,
}
"""What a label may be; booleans first, since they are numbers too."""


def read_reals(y: Any) -> np.ndarray:
    """Finite real numbers, (n,); ValueError for anything else."""
    values = _plain(y)
    entries = values.tolist() if values.dtype.kind not in "biuf" else ()
    refuse_words(entries, "y")
    for value in entries:
        if _kind(type(value)) not in ("booleans", "numbers"):
            raise ValueError(
                f"y holds {value!r} ({type(value).__name__}), instead of a number. For "
                "classes use likelihood='bernoulli' (two) or 'categorical'."
            )
    numbers = values.astype("float64")
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(
            f"y has {len(bad)} infinite values, the first at position {bad[0]}. Drop those rows."
        )
    return numbers


def read_counts(y: Any) -> np.ndarray:
    """Whole numbers of at least 0, as floats (n,); ValueError for anything else."""
    counts = read_reals(y)
    bad = np.flatnonzero((counts < 0) | (counts != np.floor(counts)))
    if len(bad):
        value = float(counts[bad[0]])
        kind = "negative" if value < 0 else "fractional"
        raise ValueError(
            f"y is {kind} at position {bad[0]}: {value!r}, but counts must be 0, 1, 2, ... "
            "For rates, pass counts as y and the time or area as exposure; for real numbers use "
            "likelihood='normal'."
        )
    return counts


MOST_CATEGORIES = 100
"""Most ordered categories: each pair of neighbours has a cutpoint between them."""


def read_categories(
    y: Any, first: int, count: int, names: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Whole numbers (n,), among `count` known ones if any; and the names of codes 0, 1, ..."""
    # An ordered categorical is coded by the known `names`, or by its own. One of whole numbers
    # without a gap needs no codes, and has no names.
    kind: Any = getattr(y, "dtype", None)
    given, cells = getattr(kind, "categories", ()), np.asarray(y).tolist()
    own = [*given] if hasattr(given, "__iter__") else []  # Polars' Categorical has no list of them
    coded = bool(own) or any(isinstance(v, str) for v in cells)
    if coded and not names and not getattr(kind, "ordered", own):
        raise ValueError(
            "y has categories without an order. Pass whole numbers, or order the "
            "categories, as with pd.Categorical(y, categories=[...], ordered=True)."
        )
    numbered = own and all(isinstance(v, Real) for v in own)
    if not names and own and not (numbered and own == [own[0] + k for k in range(len(own))]):
        if count:
            raise ValueError(
                "y has named categories, and the training data whole numbers. Pass the numbers."
            )
        names = tuple(map(str, own))
    if names and coded:
        for cell in dict.fromkeys(str(v) for v in cells if not is_missing(v)):
            one_of("y", cell, names)
        y = np.array([np.nan if is_missing(v) else names.index(str(v)) for v in cells])
    values = read_reals(y)
    bad = np.flatnonzero(values != np.floor(values))
    if len(bad):
        raise ValueError(
            f"y is {float(values[bad[0]])!r} at position {bad[0]}, but ordered categories are "
            "whole numbers, or an ordered pandas categorical. For real numbers use "
            "likelihood='normal'."
        )
    low, high = (values.min(), values.max()) if not count else (first, first + count - 1)
    bad = np.flatnonzero((values < low) | (values > high))
    if len(bad):
        raise ValueError(
            f"y is {values[bad[0]]:g} at position {bad[0]}, but the training data have the "
            f"categories {low:g} to {high:g}. Drop these rows, or fit a model to rows of all "
            "categories."
        )
    return values, tuple(names)


def refuse_categories(low: int, high: int) -> None:
    """Raise unless all rows together have between 2 and `MOST_CATEGORIES` ordered categories."""
    if low == high or high - low >= MOST_CATEGORIES:
        raise ValueError(
            f"y goes from {low} to {high}, but ordered categories are between 2 and "
            f"{MOST_CATEGORIES}. Merge some, or use likelihood='normal' or 'poisson'."
        )


def read_labels(y: Any, known: Any = None, *, two: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n,) of class labels, as floats, and the distinct labels (C,), in their order."""
    # An ordered categorical has its own order; other labels are sorted.
    # Labels are strings, booleans or whole numbers. With `known` labels of the training data no
    # other may appear, and not all need to. `two` requires exactly two. ValueError for missing,
    # fractional, mixed or unknown labels, and for a wrong number of distinct ones.
    if known is None:
        codes, found = labels_of_part(y)
        _check_number(found, two)
        if levels := ordered_levels(y):
            places = np.argsort([levels.index(label) for label in found])  # 1 is the level 1.0
            codes, found = np.argsort(places)[codes.astype(int)].astype("float64"), found[places]
        return codes, found
    values, known = _as_labels(_plain(y)), np.asarray(known)
    found = np.unique(values)
    new = found[~np.isin(found, known)] if _like(found, known) else found
    if len(new):
        raise ValueError(
            f"y has the labels {new.tolist()}, but the training data only have "
            f"{known.tolist()}. Drop these rows, or fit a model to rows of all these classes."
        )
    places = np.argsort(known)
    return places[np.searchsorted(known, values, sorter=places)].astype("float64"), known


def ordered_levels(y: Any) -> list[Any]:
    """Levels of an ordered categorical; none of other columns."""
    kind: Any = getattr(y, "dtype", None)
    given = getattr(kind, "categories", ())
    own = [*given] if hasattr(given, "__iter__") else []  # Polars' Categorical has no list of them
    return own if getattr(kind, "ordered", own) else []


def labels_of_part(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Codes and labels as from `read_labels`, for rows that need not have all labels."""
    values = _as_labels(_plain(y))
    found = np.unique(values)
    return np.searchsorted(found, values).astype("float64"), found


def labels_joined(one: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """Labels of two parts, sorted; None where they are of different kinds."""
    return np.union1d(one, other) if _like(one, other) else None


def _like(found: np.ndarray, known: np.ndarray) -> bool:
    return found.dtype.kind == known.dtype.kind or {found.dtype.kind, known.dtype.kind} <= set("iu")


def _check_number(found: np.ndarray, two: bool) -> None:
    shown = found[:6].tolist()
    if len(found) == 1:
        raise ValueError(
            f"y has one class only, {shown[0]!r}, but needs at least two. Nothing can be "
            "learnt from constant labels, so add rows of another class."
        )
    if two and len(found) > 2:
        more = ", ..." if len(found) > 6 else ""
        raise ValueError(
            f"y has {len(found)} different labels ({str(shown)[1:-1]}{more}); "
            "likelihood='bernoulli' expects two. Use likelihood='categorical', or for counts "
            "'poisson'."
        )


def texts(y: Any) -> list[str]:
    """Labels as text, the same for whole numbers of any type; a list (n,)."""
    return [str(label) for label in _as_labels(_plain(y))]


def _plain(y: Any) -> np.ndarray:
    """An array of one dimension with nothing missing; dtype object unless simple."""
    values = np.asarray(y)
    if np.ma.isMaskedArray(y):
        values = y.data.astype(object)
        values[np.ma.getmaskarray(y)] = None
    if values.ndim != 1:
        raise ValueError(
            f"y has shape {values.shape}, but must have one dimension, with one value for "
            "each row of X."
        )
    if values.dtype.kind in "biufUT":
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    else:
        values = values.astype(object)
        missing = np.array([is_missing(v) for v in values], dtype=bool)
    bad = np.flatnonzero(missing)
    if len(bad):
        raise ValueError(
            f"y has {len(bad)} missing values, the first at position {bad[0]}. Drop those rows."
        )
    return values


def _as_labels(values: np.ndarray) -> np.ndarray:
    """Strings, booleans or whole numbers in an array that sorts."""
    kinds = sorted({_kind(of_value) for of_value in set(map(type, values))})
    if len(kinds) > 1:
        raise ValueError(
            f"y mixes {' and '.join(kinds)}, but class labels must be of one kind. Convert "
            "them, for example with .astype(str)."
        )
    if kinds[0] not in KINDS:
        raise ValueError(
            f"y holds labels of type {kinds[0]}, but they must be strings, booleans or whole "
            "numbers. Convert them, for example with .astype(str)."
        )
    values = np.array(values.tolist())
    if values.dtype.kind == "f":
        bad = np.flatnonzero(values != np.floor(values))
        if len(bad) or not np.isfinite(values).all():
            value = float(values[bad[0]]) if len(bad) else np.inf
            raise ValueError(
                f"y holds {value!r}, but class labels must be strings, booleans or whole "
                "numbers. For real numbers use likelihood='normal'."
            )
        values = values.astype("int64")
    return values


def _kind(of_value: type) -> str:
    for kind, types in KINDS.items():
        if issubclass(of_value, types):
            return kind
    return of_value.__name__


MOST_STEPS = 200
"""Steps between the smallest and the largest value above which a grid is too fine to matter: its
rounding errors are then below a hundredth of the standard deviation."""

ALIKE = 1e-6
"""Proportion of a range below which differences are floating-point errors."""


def resolution_of(values: np.ndarray) -> float:
    """The largest step such that all values are whole numbers of steps apart; 0 for a fine grid."""
    distinct = np.unique(values)
    # Two values are codes of labels, not a rounded measurement.
    if not 2 < len(distinct) <= MOST_STEPS + 1:
        return 0.0
    span = distinct[-1] - distinct[0]
    step = reduce(_common, np.diff(distinct) / span)
    return float(step * span) if step * MOST_STEPS >= 1.0 - ALIKE else 0.0


def _common(one: float, other: float) -> float:
    """The largest number that divides both, by Euclid's algorithm with nearest quotients."""
    while other > ALIKE:
        one, other = other, abs(one - other * np.round(one / other))
    return one


def read_resolution(given: Any, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Resolution of each response (q,): as given, one or q numbers, or found from its values."""
    if given is None:
        return np.array([resolution_of(values) for values in columns])
    try:
        known = np.broadcast_to(np.asarray(given, "float64"), len(columns))
    except (TypeError, ValueError):
        known = np.array([np.nan])
    if not (np.isfinite(known).all() and (known >= 0.0).all()):
        each = "" if len(columns) == 1 else f", or {len(columns)} of them, one for each output"
        raise ValueError(
            f"resolution is {given!r}. Pass None, to find it from the response, or the step that "
            f"the response was recorded to: a number of at least 0{each}. 0 stands for none."
        )
    return np.array(known)


def read_exposure(exposure: Any, frame: Frame, observation: Reader) -> np.ndarray | None:
    """Exposure (n,), ones by default; None where noise is normal."""
    if exposure is None:
        return None if observation.normal else np.ones(len(frame))
    return read_positive(exposure, frame, observation.exposure_name)


class Support(NamedTuple):
    """Which numbers a likelihood takes."""

    says: str
    low: float = -np.inf  # y are above it
    high: float = np.inf  # y are below it
    whole: bool = False  # and not negative


SUPPORTS = {
    "real": Support("real numbers"),
    "positive": Support("numbers above 0", 0.0),
    "unit": Support("numbers between 0 and 1, without both", 0.0, 1.0),
    "counts": Support("whole numbers of at least 0", -0.5, whole=True),
}
"""The support of a likelihood by its name."""


def read_within(y: Any, support: str, likelihood: str) -> np.ndarray:
    """Numbers (n,) in a support of `SUPPORTS`; ValueError with the first that is not."""
    values, own = read_reals(y), SUPPORTS[support]
    bad = np.flatnonzero(~_inside(values, own))
    if len(bad):
        fits = next(
            likelihood
            for name, likelihood in FITTING.items()
            if _inside(values, SUPPORTS[name]).all()
        )
        limits = ""
        if support == "positive" and (values >= 0.0).all():
            limits = (
                " A 0 below some limit is the limit as y, with 'left' in censoring=; an interval "
                "from 0 is 'left' with its upper end."
            )
        if support == "unit" and ((values >= 0.0) & (values <= 1.0)).all():
            limits = (
                " A 0 or 1 beyond a limit, such as 0.01, is that limit as y, with 'left' or "
                "'right' in censoring=."
            )
        if likelihood == "Binomial" and ((values >= 0.0) & (values <= 1.0)).all():
            limits = " For proportions, pass the successes as y: proportions times trials."
        raise ValueError(
            f"y is {float(values[bad[0]])!r} at position {bad[0]}, but {likelihood} takes "
            f"{own.says}.{limits} Use likelihood={fits}; to drop such rows would bias the fit."
        )
    return values


FITTING = {
    "counts": "'poisson' or 'negative_binomial'",
    "unit": "'beta'",
    "positive": "'gamma' or 'lognormal'",
    "real": "'normal' or 'student_t'",
}
"""Likelihoods for each support, from the narrowest support to the widest."""


def _inside(values: np.ndarray, support: Support) -> np.ndarray:
    """Which values are in the support."""
    inside = (values > support.low) & (values < support.high)
    return inside & (values == np.floor(values)) if support.whole else inside
