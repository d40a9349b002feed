"""Folders of fits and files of tables: written so that an interruption leaves something."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayes_gpx.inference.methods import method_named
from bayes_gpx.system.warning import FitWarning

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayes_gpx.model.model import Model

FIT, INTERRUPTED_FIT = "fit.nc", "interrupted.nc"


@contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Make a folder, and remove it again if nothing was written to it."""
    made = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if made and not any(path.iterdir()):
            path.rmdir()


def fit_into(
    model: Model,
    method: str,
    path: Path,
    say: Callable[[str], object],
    *,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    progressbar: bool,
    attrs: Mapping[str, str],
) -> tuple[xr.DataTree, Path, bool]:
    """Fit and save; return the fit, the file that holds it, and whether it is complete."""
    # Before sampling a fit by MAP is saved, so that an interruption leaves something. Only a
    # complete fit replaces an earlier one, and the fit by MAP never replaces anything.
    from bayes_gpx.model.storage import save

    meanwhile = path.with_name(INTERRUPTED_FIT) if path.exists() else path
    options: dict[str, Any] = {"seed": seed, "progressbar": progressbar}
    sampled = method_named(method).gives == "chains"
    point_first = sampled and not meanwhile.exists()
    if point_first:
        say("Maximising the posterior density ...")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # the draws will be examined
            point = model.fit("map", **options)
        point.attrs.update(attrs)
        save(model, point, meanwhile)
    if sampled:
        say(f"Sampling, {chains} chains of {tune} + {draws} draws ...")
    try:
        idata = model.fit(method, draws=draws, tune=tune, chains=chains, **options)
    except KeyboardInterrupt:
        if point_first:
            raise KeyboardInterrupt(f"{meanwhile} holds the fit by MAP, which was done") from None
        raise
    idata.attrs.update(attrs)
    complete = not sampled or idata["posterior"].sizes["draw"] == draws
    kept = path if complete else meanwhile
    save(model, idata, kept)
    if point_first and kept != meanwhile:
        meanwhile.unlink()
    return idata, kept, complete


def load_from(run: Path) -> tuple[Model, xr.DataTree]:
    """Load the fit in a folder: the model and its DataTree."""
    from bayes_gpx.model.storage import load

    path = run / FIT
    if not path.is_file():
        stopped = run / INTERRUPTED_FIT
        more = f" {stopped} is from a fit that was interrupted." if stopped.is_file() else ""
        raise click.UsageError(f"{run} holds no {FIT}. Pass a folder that fit wrote.{more}")
    model, idata = load(path)
    if model.training.Z is not None and not model.training.tied:
        raise ValueError(f"The model in {path} has its own Z. Explain it in Python.")
    return model, idata


def refuse_inputs(places: Mapping[str, Path | None], read: Sequence[Path | None]) -> None:
    """Raise for a file that would be written over one that the command reads."""
    known = {path.resolve() for path in read if path is not None}
    for option, place in places.items():
        if place is not None and place.resolve() in known:
            raise click.UsageError(
                f"{option} is {place}, which the command reads. Name another file."
            )


def write_blocks(
    blocks: Iterable[Sequence[pd.DataFrame]],
    places: Sequence[Path],
    rows: int,
    quiet: bool,
    label: str,
    functions: int = 1,
) -> None:
    """Write blocks of tables, one for each file, in full or as far as they were interrupted.

    Each block calls so many explanation functions.
    """
    from bayes_gpx.export.tables import CHUNK, as_csv
    from bayes_gpx.numerics.progress import of_several
    from bayes_gpx.system.files import replaced

    done = 0
    options: dict[str, Any] = {"label": label, "file": sys.stderr, "hidden": quiet}
    with ExitStack() as opened, click.progressbar(length=rows, **options) as bar:
        files = [opened.enter_context(replaced(place)) for place in places]
        opened.enter_context(of_several(functions * -(-rows // CHUNK), "" if quiet else label))
        try:
            for tables in blocks:
                for file, table in zip(files, tables, strict=False):
                    file.write(as_csv(table, header=not done))
                done += min(CHUNK, rows - done)
                bar.update(min(CHUNK, rows))
        except KeyboardInterrupt:
            if not done:
                raise
    if done < rows:
        raise KeyboardInterrupt(
            f"{' and '.join(map(str, places))} {'hold' if len(places) > 1 else 'holds'} the first "
            f"{done} of {rows} rows"
        )


def bounds_of(ci_prob: float | None) -> str:
    """What columns of intervals are, in words."""
    from bayes_gpx.draws.intervals import interval_probability

    return f"lower and upper bound {interval_probability(ci_prob):.0%} intervals"


def sayer(quiet: bool, err: bool = False) -> Callable[[str], object]:
    """Function that prints a line, to standard error on request; nothing if it is quiet."""
    return (lambda line: None) if quiet else partial(click.echo, err=err)
