"""The command `bayes-gpx next`, which chooses the rows to measure next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayes_gpx.cli_arguments import (
    ROWS,
    Place,
    baseline_option,
    cores_option,
    drop_missing,
    quiet,
    run_folder,
    seed,
)
from bayes_gpx.cli_json import json_option, written
from bayes_gpx.cli_rows import Roles, baseline_of, rows_of, warn_outside
from bayes_gpx.cli_runs import FIT, load_from, refuse_inputs, sayer

ABOUT = ("predictions", "slopes", "attributions", "shapley_values", "weights", "contributions")
BEST = ("maximum", "minimum")


@click.command("next")
@run_folder
@click.argument("candidates", type=ROWS)
@click.option("--question", type=click.Choice([*ABOUT, *BEST]), default="predictions",
              show_default=True, help="The answer to make certain, or what to seek.")  # fmt: skip
@click.option("--rows", type=ROWS, help="Rows that the question is about; the training rows by "
              "default.")  # fmt: skip
@click.option("--size", type=click.IntRange(1), default=1, show_default=True,
              help="How many rows to choose.")  # fmt: skip
@baseline_option
@click.option("--out", type=Place("a name for a CSV file", exists=False),
              help="CSV file of all candidates with their scores.")  # fmt: skip
@json_option
@drop_missing
@cores_option
@seed
@quiet
def next_command(
    run: Path,
    candidates: Path,
    question: str,
    rows: Path | None,
    size: int,
    baseline: str,
    out: Path | None,
    as_json: bool,
    drop_missing: bool,
    seed: int,
    quiet: bool,
) -> None:
    """Choose the rows of CANDIDATES to measure next, by the fit in RUN.

    These rows are expected to make the answer to a question most certain. For "maximum" and
    "minimum" they are expected to improve most on the best row so far. The command prints them in
    order: each is chosen given the rows before. The file has one line for each candidate, with its
    number and, if the fit and CANDIDATES have them, its id and group:

    \b
    score  the value of the row if it is measured first
    step   the place among the chosen rows, or nothing

    With --json the command prints one JSON object in place of the lines.

    \b
    bayes-gpx next run/ candidates.csv --question attributions --size 5
    """
    from bayes_gpx.explain.next_rows import next_rows
    from bayes_gpx.system.files import writable

    say = sayer(quiet, err=as_json)
    if question in BEST and rows is not None:
        raise click.UsageError(f"--rows is not for --question {question}. Leave it out.")
    refuse_inputs({"--out": out}, [candidates, rows, run / FIT])
    if out is not None:
        writable(out)
    model, idata = load_from(run)
    roles = Roles.of(idata)
    read = rows_of(model, roles, candidates, drop_missing, say)
    warn_outside(model, read)
    start = baseline_of(model, roles, baseline, drop_missing, say)
    options: dict[str, Any] = {"baseline": start}
    if rows is not None:
        asked = rows_of(model, roles, rows, drop_missing, say)
        options |= {"X_new": asked.X, "groups_new": asked.groups}
    found = next_rows(
        model,
        idata,
        read.X,
        question=question,
        groups_candidates=read.groups,
        size=size,
        seed=seed,
        progressbar=not quiet,
        **options,
    )
    if as_json:
        named = found.assign_coords(read.beside().coords("candidate"))
        click.echo(written(named, model, idata))
    else:
        _tell(found, read)
    if out is not None:
        _write(found, read, out)
        say(f"wrote {out}: {len(read.X)} candidates.")


def _tell(found: Any, read: Any) -> None:
    """Print the chosen rows, and how much more certain the answer becomes."""
    scores = found["selected_score"].values
    for step, (row, score) in enumerate(zip(found["selected"].values, scores, strict=True), 1):
        named = "" if read.ids is None else f" ({read.ids.loc[row]})"
        click.echo(f"{step}. row {row}{named}: score {score:.3g}")
    if "sd_before" in found:
        before, after = (float(found[name].mean()) for name in ("sd_before", "sd_after"))
        units = found.attrs["units"]
        click.echo(f"Mean sd of the answer ({units}): {before:.3g} today, {after:.3g} after them.")


def _write(found: Any, read: Any, out: Path) -> None:
    import pandas as pd

    from bayes_gpx.export.tables import as_csv
    from bayes_gpx.system.files import replaced

    steps = pd.Series(found["step"].values, found["selected"].values)
    table = pd.DataFrame({"row": read.X.index, "score": found["score"].values})
    table["step"] = steps.reindex(read.X.index).astype("Int64").to_numpy()
    with replaced(out) as file:
        file.write(as_csv(read.beside().joined(table)))
