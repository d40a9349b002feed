"""Selection from a Dataset: one quantity for some rows and features, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os.path import commonprefix
from typing import Any

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr

from bayes_gpx.aliases import Labels
from bayes_gpx.data.dates import date_after, origin_of
from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.draws.naming import event_of, of_processes, units_of_result
from bayes_gpx.draws.points import rows_labelled
from bayes_gpx.validation import count, names_among

MOST_PANELS = 24
"""That a person can read."""

QUANTITIES = ("attribution", "contribution", "weight", "derivative")
ONE_UNIT = ("attribution", "contribution")
"""Those that are comparable over features."""

SEVERAL, ONE_AXIS = ("class", "output", "baseline"), ("output",)
"""Dims of results that most plots show one of; and those with units of their own."""

MOST_ROWS = 1000
"""More observations are not drawn one by one, but a random choice of that many."""

LONGEST_NAME, BELOW_PANEL = 40, 24
"""Most letters of a name left of a panel, and of one with a value or below a small panel."""

IN_A_ROW = "in_a_row"
"""Attribute of panels' labels: how many belong together, of one class or baseline."""

MOST_PLACES = 3
"""Most places where a shortened name shows how it differs from others."""

ARROW = " → "
"""Between the ends of a change."""

LONGEST_UNIT = 8
"""Most letters of a unit after a value; longer ones are texts, such as "days since 2020-01-31"."""

NO_INTERVAL = "no interval: one draw of the hyperparameters"


def shown(
    dataset: xr.Dataset,
    quantities: Sequence[str] = QUANTITIES,
    *,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    max_features: int | None = None,
    most_rows: int | None = None,
    ci_prob: float | None = None,
    draws: bool = False,
    valued: bool = True,
    panels: bool = False,
    apart: str | None = None,
) -> xr.Dataset:
    """Select `mean`, `sd`, `value`, `interval` and `row` (obs, feature), with words as attrs."""
    # `quantities` are those that the plot can draw, and `panels` are one for each row. `apart` is
    # the dim with panels, if several classes or baselines have a panel each, as in `in_panels`.
    refuse_no_dataset(dataset, " or ".join(f"bx.{name}s" for name in quantities))
    name = _held(dataset, quantities, draws, valued, ONE_AXIS if apart else SEVERAL)
    prob = interval_probability(ci_prob, dataset)
    said = []
    columns, known = _columns(dataset, name, features, max_features), dataset.sizes["feature"]
    if len(columns) < known:
        largest = "largest of " if features is None and name in ONE_UNIT else "of "
        said.append(f"{len(columns)} {largest}{known} features")
    rows = panel_rows(dataset, obs) if panels else rows_labelled(dataset["obs"].values, obs)
    rows = _known(dataset[f"{name}_mean"], rows)
    if panels and obs is None and len(rows) < dataset.sizes["obs"]:
        said.append(f"the first {len(rows)} of {dataset.sizes['obs']:,} observations")
    if most_rows is not None and len(rows) > most_rows:
        said.append(f"{most_rows:,} of {len(rows):,} observations, at random")
        rows = np.sort(np.random.default_rng(0).choice(rows, most_rows, replace=False))
    chosen = dataset.isel(obs=rows, feature=columns).assign(row=("obs", rows))
    if apart:
        chosen = in_panels(chosen, apart)
    mean, sd = (chosen[f"{name}_{moment}"].transpose("obs", "feature") for moment in ("mean", "sd"))
    interval = interval_of(chosen, name, prob)
    arrays: dict[str, Any] = {"mean": mean, "sd": sd}
    if valued:
        arrays["value"] = chosen["value"].transpose("obs", "feature")
    arrays["interval"] = interval.transpose("obs", "feature", "ci_bound")
    arrays["row"] = chosen["row"]
    words = {
        "name": name,
        "label": f"{name} [{units_of_result(dataset)}]",
        "interval": f"{prob:.0%} interval" if interval.notnull().any() else NO_INTERVAL,
        "title": _title(name, dataset, said),
    }
    return xr.Dataset(arrays, attrs=words)


def _known(mean: xr.DataArray, rows: np.ndarray) -> np.ndarray:
    """The rows with a number, of a result that `where` may have emptied in part."""
    known = rows[mean.notnull().any({*mean.dims} - {"obs"}).values[rows]]
    if not len(known):
        raise ValueError(f"{mean.name} of the chosen rows is NaN everywhere. Choose other rows.")
    return known


def _title(name: str, dataset: xr.Dataset, said: Sequence[str]) -> str:
    """What is shown, against which baseline, and of how many features and rows."""
    parts = [called(name, dataset), against(dataset), f"({'; '.join(said)})" if said else ""]
    return " ".join(filter(None, parts))


def _held(
    dataset: xr.Dataset,
    quantities: Sequence[str],
    draws: bool,
    valued: bool,
    dims: Sequence[str],
) -> str:
    """The quantity of a Dataset that a plot can draw."""
    held = [name for name in quantities if (name if draws else f"{name}_mean") in dataset]
    if not held or (valued and "value" not in dataset):
        verbs = " or ".join(f"bx.{name}s" for name in quantities)
        lacking = "`value`" if held else " or ".join(f"`{name}`" for name in quantities)
        what, how = ("draws of ", " with keep='draws'") if draws else ("", "")
        raise ValueError(f"The dataset has no {what}{lacking}. Pass the result of {verbs}{how}.")
    refuse_several(dataset[f"{held[0]}_mean"], dims)
    return held[0]


def refuse_no_dataset(given: Any, verbs: str) -> None:
    """Raise where a plot is given something else than a Dataset of rows, such as a model."""
    if not isinstance(given, xr.Dataset):
        raise ValueError(
            f"The plot was given a {type(given).__name__}. Pass the Dataset that {verbs} returned."
        )
    if "by" in given.dims and "obs" in given.dims:  # averages stand beside results of rows
        groups = given["by"].values.tolist()
        raise ValueError(
            f"The dataset has averages of the groups {groups}. Choose one, such as "
            f"dataset.sel(by={groups[0]!r})."
        )
    if "by" in given.coords and not {"obs", "contrast"} & {*given.dims}:
        again = "" if "by" in given.dims else ".expand_dims('by')"
        raise ValueError(
            f"The dataset has averages over rows. Pass dataset{again}.rename(by='obs'), which is "
            "plotted like rows."
        )


def required(dataset: Any, verb: str, name: str, what: str, dims: Sequence[str] = SEVERAL) -> None:
    """Raise unless a Dataset has a variable, without these dims."""
    refuse_no_dataset(dataset, verb)
    if name not in dataset:
        raise ValueError(f"The dataset has no {what}. Pass the result of {verb}.")
    refuse_several(dataset[name], dims)


def refuse_several(array: xr.DataArray, dims: Sequence[str] = SEVERAL) -> None:
    """Raise for several classes, outputs or baselines in a plot that shows one."""
    for dim in dims:
        if dim in array.dims:
            why = ", which have units of their own, but a plot has one axis" * (dim == "output")
            raise ValueError(
                f"The dataset has the dim {dim!r} with {array[dim].values.tolist()}{why}. Choose "
                f"one of them: dataset.sel({{{dim!r}: ...}})."
            )


def in_panels(dataset: xr.Dataset, along: str, longest: int = BELOW_PANEL) -> xr.Dataset:
    """Several classes or baselines as more labels of a dim with panels: "age, red"."""
    for dim in (dim for dim in SEVERAL if dim not in ONE_AXIS and dim in dataset.dims):
        whole = [n for n in dataset if {dim, along} & {*dataset[n].dims} == {dim}]
        kept, names = dataset.drop_vars(whole), dataset[dim].values
        of = "for the " if of_processes(dataset) else "baseline " * (dim == "baseline")
        called = [f", {of}{name}" for name in names]
        room = max(longest - max(map(len, called)), longest // 2)
        each = shortened(kept[along].values, room)
        labels = [f"{label}{name}" for name in called for label in each]
        dataset = xr.concat(
            [kept.isel({dim: k}, drop=True) for k in range(len(names))],
            along,
            data_vars="minimal",
            coords="minimal",
            compat="override",
            join="override",
            combine_attrs="override",
        ).assign_coords({along: (along, labels, {IN_A_ROW: len(each)})})
        if dataset.sizes[along] > MOST_PANELS:
            raise ValueError(
                f"{dataset.sizes[along]} panels were asked for; choose at most {MOST_PANELS}, such "
                f"as dataset.sel({{{dim!r}: ...}})."
            )
    return dataset


def _columns(
    dataset: xr.Dataset, name: str, features: Sequence[str] | None, max_features: int | None
) -> list[int]:
    """Positions of the chosen features, or of the largest or first ones."""
    if dataset["feature"].ndim == 0:
        raise ValueError(
            "The dataset has a single feature and no dim feature. Select it by a list, as "
            f"dataset.sel(feature=[{dataset['feature'].item()!r}])."
        )
    known = dataset["feature"].values.tolist()
    if features is not None:
        return [*map(known.index, names_among("features", features, known))]
    if max_features is None:
        return list(range(len(known)))
    count("max_features", max_features)
    if name not in ONE_UNIT:
        return list(range(min(len(known), max_features)))
    mean = abs(dataset[f"{name}_mean"])
    size = mean.mean([dim for dim in mean.dims if dim != "feature"]).values
    return list(np.argsort(-size, kind="stable")[:max_features])


def panel_features(
    dataset: xr.Dataset,
    features: Sequence[str] | None,
    known: Sequence[str] | None,
    most: int = MOST_PANELS,
) -> tuple[list[str], str]:
    """Features with a panel each, by default the `most` first known ones, and a description."""
    every = dataset["feature"].values.tolist()
    if features is None:
        names = every if known is None else list(known)
        return names[:most], f" ({most} of {len(names)} features)" if len(names) > most else ""
    names_among("features", features, every)
    if len(features) > MOST_PANELS:
        raise ValueError(f"{len(features)} features were asked for; choose at most {MOST_PANELS}.")
    return list(features), ""


def panel_rows(dataset: xr.Dataset, obs: Labels | None) -> np.ndarray:
    """Positions of the observations that get a panel each; the first six by default."""
    rows = rows_labelled(dataset["obs"].values, obs)[: 6 if obs is None else None]
    if len(rows) > MOST_PANELS:
        raise ValueError(f"{len(rows)} observations were asked for; choose at most {MOST_PANELS}.")
    labels = dataset["obs"].values[rows].tolist()
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"obs: the labels {labels} repeat, but each panel needs a different label. Choose by "
            "obs=, or give the dataset other labels with dataset.assign_coords(obs=...)."
        )
    return rows


def covers_zero(interval: xr.DataArray) -> xr.DataArray:
    """Whether intervals include both signs."""
    return (interval.sel(ci_bound="lower") <= 0) & (interval.sel(ci_bound="upper") >= 0)


def called(name: str, dataset: xr.Dataset) -> str:
    """What a title calls the numbers of this name."""
    shapley = dataset.attrs.get("method") in ("shapley", "fanova")
    words = "Shapley values" if shapley else f"{name.capitalize()}s"
    return words + about(dataset)


def whole(name: str, dataset: xr.Dataset) -> str:
    """What the numbers of this name add up to."""
    if name != "attribution":
        return "f(x) - offset"
    if dataset.attrs.get("scale") == "response" and not about(dataset):
        return "difference from the baseline"
    of = "weight" if "weight" in dataset.attrs else "log variance" if about(dataset) else "f"
    return f"{of}(x) - {of}(baseline)"


def about(dataset: xr.Dataset) -> str:
    """Name what is explained in place of f or the response, after "of"; empty for these."""
    if "weight" in dataset.attrs:
        return f" of the weight of {dataset.attrs['weight']}"
    return " of the log variance" if dataset.attrs.get("of") == "log_variance" else ""


def against(dataset: xr.Dataset) -> str:
    """Which baseline attributions start from, in words; empty for anything else."""
    name = dataset.attrs.get("baseline")
    if name is None:
        return ""
    if name == "named":
        if dataset["baseline"].ndim:
            return "against each baseline"
        name = str(dataset["baseline"].item())
    return "against " + ("the given baseline" if name == "given" else f"the baseline {name!r}")


def at_baseline(dataset: xr.Dataset, predictions: xr.Dataset) -> xr.DataArray:
    """Predictions less the difference, on the scale of the attributions, (obs,)."""
    if explained := about(dataset):
        raise ValueError(
            f"predictions were given for attributions{explained}, which they do not contain. Leave "
            "predictions out: the base values are then 0."
        )
    name = "response_mean" if dataset.attrs.get("scale") == "response" else "f_mean"
    parts = of_processes(dataset) and name == "response_mean"
    if parts and "difference_mean" in dataset:
        refuse_several(dataset["difference_mean"])
        name = {"mean": name}.get(dataset["class"].item(), f"{dataset['class'].item()}_mean")
    if "difference_mean" not in dataset or name not in predictions:
        raise ValueError(
            "predictions are for attributions. Pass the results of bx.attributions and "
            "bx.predictions, both on the response scale or both on='latent'; contributions bring "
            "their own offset."
        )
    found = predictions[name]
    refuse_several(found)
    for dim in ("output",) if parts else ("class", "output"):
        own, other = (array.coords[dim].item() if dim in array.coords else None
                      for array in (dataset, found))  # fmt: skip
        if own != other:
            raise ValueError(
                f"The predictions are of {dim} {other!r} and the dataset is of {own!r}. Pass "
                f"predictions.sel({{{dim!r}: {own!r}}})."
            )
    events = [event_of(result) for result in (dataset, predictions)]
    if name == "response_mean" and events[0] != events[1]:
        own, other = (event or "the mean response" for event in events)
        raise ValueError(
            f"The predictions are of {other}, and the attributions of {own}. Pass predictions with "
            "the same of= and at=."
        )
    if not np.array_equal(predictions["obs"].values, dataset["obs"].values):
        raise ValueError(
            "The obs of predictions differ from the dataset. Pass predictions of the same "
            "observations."
        )
    for exposure in {"exposure", "trials"} & set(predictions.data_vars):
        if name != "response_mean":
            continue
        if {"survival_mean", "probability_mean"} & set(predictions.data_vars):  # of an event
            if (predictions[exposure] != 1.0).any():
                raise ValueError(
                    "predictions are at an exposure other than 1, but explanations of a "
                    "probability are at 1. Predict the same rows as X_new, without exposure."
                )
            continue
        found = found / predictions[exposure]
    return found - dataset["difference_mean"]


def digits(number: float) -> str:
    """A number with four significant digits, or all its digits before the point."""
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"


def value_text(number: float, level: str, unit: str) -> str:
    """Text of a value; of a category its level, and of a date the date."""
    if (since := origin_of(unit)) is not None:
        return str(date_after(since, number)).replace("T", " ").removesuffix(":00")
    return short(level, 20) if level else digits(number)


def values_of(value: xr.DataArray) -> xr.DataArray:
    """Texts of several values."""
    beside = (value.coords.get(name, "") for name in ("level", "unit"))
    return xr.apply_ufunc(value_text, value, *beside, vectorize=True, output_dtypes=[object])


def with_values(value: xr.DataArray) -> list[str]:
    """`feature = value` for each feature of one observation, with a short unit."""
    units = value["unit"].values if "unit" in value.coords else [""] * value.sizes["feature"]
    units = [f" {unit}" if 0 < len(unit) <= LONGEST_UNIT else "" for unit in units]
    names = shortened(value["feature"].values, BELOW_PANEL)
    texts = zip(names, values_of(value).values, units, strict=True)
    return [f"{name} = {text}{unit}" for name, text, unit in texts]


def with_units(values: xr.DataArray, *, dated: bool = False) -> Callable[[xr.DataArray], str]:
    """Text of the one feature that a panel is about, with its unit where that is known.

    An axis that is `dated` has dates in place of days since a date, and slopes are by the day.
    """
    features = values["feature"].values.ravel()
    names = dict(zip(features, shortened(features, BELOW_PANEL), strict=True))

    def text(da: xr.DataArray) -> str:
        unit = da.coords["unit"].item() if "unit" in da.coords else ""
        unit = "day" if dated and origin_of(unit) is not None else unit
        name = names[da["feature"].item()]
        return f"{name} [{unit}]" if unit else name

    return text


def short(label: Any, longest: int = LONGEST_NAME) -> str:
    """Text of a feature's or row's label, cut in its middle to the space next to a panel."""
    if isinstance(label, xr.DataArray):
        label = label.values[()]
    dated = isinstance(label, np.datetime64)
    name = np.datetime_as_string(label, unit="auto") if dated else str(label)
    end = longest // 2
    return name if len(name) <= longest else f"{name[: longest - end - 1]}…{name[-end:]}"


def shortened(labels: Iterable[Any], longest: int = LONGEST_NAME) -> list[str]:
    """Such texts of several labels, which show where labels differ."""
    labels = list(labels)
    found = {str(label): short(label, longest) for label in labels}
    places: dict[str, list[int]] = {label: [] for label in found}
    for _ in range(MOST_PLACES):
        alike: dict[str, list[str]] = {}
        for label, text in found.items():
            alike.setdefault(text, []).append(label)
        for same in alike.values():
            for label in same if len(same) > 1 else ():
                places[label].append(len(commonprefix(same)))
                found[label] = _around(label, places[label], longest)
    return [found[str(label)] for label in labels]


def _around(label: str, places: Sequence[int], longest: int) -> str:
    """The beginning of a label, its end, and the letters around places between them."""
    ends = longest // (4 * len(places))
    size = (longest - 2 * ends - len(places) - 1) // len(places)
    kept = {*range(ends), *range(len(label) - ends, len(label))}
    for place in places:
        kept |= {*range(place - size // 2, place - size // 2 + size)}
    parts = "".join(letter if k in kept else "\0" for k, letter in enumerate(label))
    return "…".join(part for part in parts.split("\0") if part)


def contrasts_shortened(contrasts: Sequence[str]) -> list[str]:
    """Texts of contrasts, with something of both ends of each change."""
    texts = dict(zip(contrasts, shortened(contrasts), strict=True))
    long = [text for text in texts if ARROW in text and len(text) > LONGEST_NAME]
    ends = [text.rsplit(ARROW, 1) for text in long]
    room = BELOW_PANEL, LONGEST_NAME - BELOW_PANEL - len(ARROW)
    cut = (shortened((end[k] for end in ends), most) for k, most in enumerate(room))
    texts |= dict(zip(long, map(ARROW.join, zip(*cut, strict=True)), strict=True))
    return [texts[contrast] for contrast in contrasts]
