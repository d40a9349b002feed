"""The commands `bayes-gpx predict` and `bayes-gpx explain`, which write tables or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayes_gpx.cli_arguments import (
    ROWS,
    Place,
    attribution_option,
    baseline_option,
    ci_prob,
    cores_option,
    drop_missing,
    quiet,
    run_folder,
    seed,
)
from bayes_gpx.cli_json import Results, as_list, json_option, require_output, written
from bayes_gpx.cli_rows import Roles, baseline_of, rows_of, warn_outside
from bayes_gpx.cli_runs import FIT, bounds_of, load_from, refuse_inputs, sayer, write_blocks

EXPLAINED, PREDICTIONS = "explained.csv", "predictions.csv"


@click.command("predict")
@run_folder
@click.argument("new", type=ROWS)
@click.option("--out", type=Place("a name for a CSV file", exists=False),
              help="CSV file.")  # fmt: skip
@json_option
@drop_missing
@ci_prob
@cores_option
@seed
@quiet
def predict_command(
    run: Path,
    new: Path,
    out: Path | None,
    as_json: bool,
    drop_missing: bool,
    ci_prob: float | None,
    seed: int | None,
    quiet: bool,
) -> None:
    """Predict the rows of NEW by the fit in RUN.

    Writes one line for each row, with its number and, if the fit and NEW have them, its id, its
    group and the observed target. Each of these has a mean, sd and interval:

    \b
    f            the function, without noise; for labels and counts on the scale of the link
    y            a new observation of the target, with noise
    probability  for labels, the probability of each; "predicted" is the most probable one
    rate         for counts, their expected value
    mean         for amounts, proportions and ratings; median for "loglogistic"

    Exposures, trials and known noise come from the columns that the fit was given. If NEW lacks the
    column, predictions are for an exposure of 1 or a single trial, and without noise y is left out.

    If you interrupt the command by Ctrl-C, the rows so far are kept. With --json the command prints
    the same numbers as one JSON object, for programs and auditors, and needs no --out.

    \b
    bayes-gpx predict run/ new.csv --out predictions.csv
    bayes-gpx predict run/ new.csv --json > predictions.json
    """
    from bayes_gpx.export.tables import predicted
    from bayes_gpx.system.files import writable

    say = sayer(quiet, err=as_json)
    require_output(out, as_json)
    refuse_inputs({"--out": out}, [new, run / FIT])
    if out is not None:
        writable(out)
    model, idata = load_from(run)
    options: dict[str, Any] = {"target": "carried", "measured": True}
    rows = rows_of(model, Roles.of(idata), new, drop_missing, say, **options)
    outside = warn_outside(model, rows)
    results = Results()
    options = {"ci_prob": ci_prob, "seed": seed, "known": rows.known}
    options["seen"] = results.add if as_json else None
    blocks = predicted(model, idata, rows.X, rows.beside(), **options)
    places = [] if out is None else [out]
    write_blocks(((block,) for block in blocks), places, len(rows.X), quiet, "Predicting")
    if out is not None:
        say(f"wrote {out}: {len(rows.X)} rows; {bounds_of(ci_prob)}.")
    if as_json:
        (found,) = results.joined(rows.beside(), seed, outside)
        click.echo(written(found, model, idata))


@click.command("explain")
@run_folder
@click.argument("new", type=ROWS)
@baseline_option
@attribution_option
@click.option("--out", type=Place("a name for a CSV file", exists=False),
              help="CSV file of explanations.")  # fmt: skip
@click.option("--predictions", type=Place("a name for a CSV file", exists=False),
              help=f"CSV file of predictions, a line for each row. By default {PREDICTIONS} beside "
              f"{EXPLAINED}, and NAME_{PREDICTIONS} beside NAME.csv.")  # fmt: skip
@json_option
@drop_missing
@ci_prob
@cores_option
@seed
@quiet
def explain_command(
    run: Path,
    new: Path,
    baseline: str,
    attribution: str,
    out: Path | None,
    predictions: Path | None,
    as_json: bool,
    drop_missing: bool,
    ci_prob: float | None,
    seed: int | None,
    quiet: bool,
) -> None:
    """Explain the predictions of the rows of NEW by the fit in RUN.

    Writes one line for each row and feature, with the number of the row and, if the fit and NEW
    have them, its id, its group and the observed target. The other columns are:

    \b
    value            the value of the feature; the name of a category
    weight           the weight function there; of a category that of this category (gpx only)
    weight_deviation_sd  by which the weight of a row deviates from it (gpx only)
    contribution     weight times the distance of the feature from its mean (gpx only)
    offset           contributions and offset add up to f_mean in the file of predictions
    attribution      the share of the feature in the difference from the baseline
    prediction_mean  for labels, of the probability; for counts, of the rate
    baseline_mean    attributions and baseline_mean add up to prediction_mean

    Weights, contributions and attributions have a mean, an sd and an interval, which do not include
    the noise of a new observation. Predictions go to a second file, as predict writes it, which has
    the sd and the interval of f and of a new observation y apart. For labels and counts, weights,
    contributions and offset are on the latent scale (log odds, log rate), while attributions are in
    probability or rate. Both use at most 250 draws of the hyperparameters, evenly spaced.

    Text that a spreadsheet would take for a formula, such as a feature named =a, is written with an
    apostrophe in front. If you interrupt the command by Ctrl-C, the rows so far are kept.

    With --json the command prints a list of JSON objects and needs no --out: predictions,
    attributions and, for a gpx, weights and contributions.

    \b
    bayes-gpx explain run/ new.csv --baseline mean --out explained.csv
    bayes-gpx explain run/ new.csv --json > explained.json
    """
    from bayes_gpx.export.tables import explained
    from bayes_gpx.system.files import writable

    say = sayer(quiet, err=as_json)
    require_output(out, as_json)
    if predictions is None and out is not None and (out.is_file() or not out.exists()):  # no pipe
        named = out.resolve() if out.is_symlink() else out
        own = "" if named.name == EXPLAINED else f"{named.stem}_"
        predictions = named.with_name(own + PREDICTIONS)
        if predictions.exists():
            say(f"{predictions} will be replaced; --predictions names another file.")
    if out is None and predictions is not None:
        raise click.UsageError("--predictions is a file beside --out. Pass both, or neither.")
    refuse_inputs({"--out": out, "--predictions": predictions}, [new, run / FIT])
    places = [place for place in (out, predictions) if place is not None]
    if len({place.resolve() for place in places}) < len(places):
        raise click.UsageError(f"--out and --predictions are both {out}. Pass two files.")
    for place in places:
        writable(place)
    model, idata = load_from(run)
    roles = Roles.of(idata)
    rows = rows_of(model, roles, new, drop_missing, say, target="carried")
    start = baseline_of(model, roles, baseline, drop_missing, say)
    outside = warn_outside(model, rows)
    how: dict[str, Any] = {
        "baseline": start,
        "attribution": attribution,
        "ci_prob": ci_prob,
        "seed": seed,
    }
    results = Results()
    how["seen"] = results.add if as_json else None
    blocks = explained(model, idata, rows.X, rows.beside(), **how)
    functions = 2 if model.training.Z is None else 4
    write_blocks(blocks, places, len(rows.X), quiet, "Explaining", functions)
    if out is not None:
        features = len(model.training.X.sources)
        say(f"wrote {out}: {len(rows.X)} rows by {features} features; {bounds_of(ci_prob)}.")
    if predictions is not None:
        say(f"wrote {predictions}: predictions of these rows, with and without noise.")
    if as_json:
        each = results.joined(rows.beside(), seed, outside)
        click.echo(as_list([written(found, model, idata) for found in each]))
