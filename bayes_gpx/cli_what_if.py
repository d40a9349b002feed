"""The command `bayes-gpx what-if`, which writes a page with sliders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayes_gpx.cli_arguments import (
    ROWS,
    Place,
    ci_prob,
    cores_option,
    drop_missing,
    quiet,
    run_folder,
    seed,
)
from bayes_gpx.cli_rows import Roles, rows_of
from bayes_gpx.cli_runs import FIT, load_from, refuse_inputs, sayer

PAGE = "what_if.html"


@click.command("what-if")
@run_folder
@click.argument("new", type=ROWS, required=False)
@click.option("--draws", type=click.IntRange(1), default=20, show_default=True,
              help="Hyperparameter draws on the page.")  # fmt: skip
@click.option("--out", type=Place("a name for an HTML file", exists=False),
              help="HTML file; what_if.html in RUN by default.")  # fmt: skip
@drop_missing
@ci_prob
@cores_option
@seed
@quiet
def what_if_command(
    run: Path,
    new: Path | None,
    draws: int,
    out: Path | None,
    drop_missing: bool,
    ci_prob: float | None,
    seed: int | None,
    quiet: bool,
) -> None:
    """Write a page with a slider for each feature, by the fit in RUN.

    The page recomputes predictions and explanations in the browser, with their intervals. It starts
    from a row of NEW, or by default of the training data. The file opens from disk and needs no
    network.

    \b
    bayes-gpx what-if run/
    """
    from bayes_gpx.reporting.what_if import what_if
    from bayes_gpx.system.files import writable

    say = sayer(quiet)
    refuse_inputs({"--out": out}, [new, run / FIT])
    target = writable(out or run / PAGE)
    model, idata = load_from(run)
    X, groups = None, None
    if new is not None:
        rows = rows_of(model, Roles.of(idata), new, drop_missing, say).named()
        X, groups = rows.X, rows.groups
    options: dict[str, Any] = {"draws": draws, "ci_prob": ci_prob, "seed": seed}
    say(f"wrote {what_if(model, idata, X, groups=groups, path=target, **options)}")
