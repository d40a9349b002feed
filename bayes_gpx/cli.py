"""The command `bayes-gpx`: fit, explain and report without writing Python."""

import os
import re
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import click

from bayes_gpx.inference.methods import METHODS, method_named
from bayes_gpx.system.warning import ExtrapolationWarning, warn

FIT, INTERRUPTED_FIT, REPORT = "fit.nc", "interrupted.nc", "report.html"
INTERRUPTED = 130

SAID = {
    "mode": "One draw: the uncertainty of the hyperparameters is not included.",
    "weighted": "Draws around the mode, weighted by the posterior density.",
}
"""What is printed of a fit, by what its method gives; chains have a verdict of their own."""

EXAMPLE = """\b
bayes-gpx datasets diabetes --out diabetes.csv
bayes-gpx fit diabetes.csv --target progression --out run/
bayes-gpx explain run/ diabetes.csv --out explained.csv
bayes-gpx report run/
"""


class Lists(click.Command):
    """A command whose options that repeat may be given once, with several values."""

    def parse_args(self, ctx, args):
        """Turn ``--features a b`` into ``--features a --features b``."""
        many = {name for p in self.params if getattr(p, "multiple", False) for name in p.opts}
        repeated, open_option = [], None
        for word in args:
            if word.startswith("-"):
                name, equals, _ = word.partition("=")
                open_option = name if name in many else None
                repeated += [word] if equals or not open_option else []
            else:
                repeated += [open_option, word] if open_option else [word]
        greedy = sorted(many.intersection(repeated))
        try:
            return super().parse_args(ctx, repeated)
        except click.MissingParameter as missing:
            if isinstance(missing.param, click.Argument) and greedy:
                raise click.UsageError(
                    f"Missing argument {missing.param.make_metavar(ctx)!r}. Put it first: "
                    f"{' and '.join(greedy)} takes all words up to the next option.",
                    ctx,
                ) from None
            raise


class Place(click.ParamType):
    """A file or folder; another is refused in words of what is wanted there."""

    name = "path"

    def __init__(self, wanted, *, folder=False, exists=True):
        self.wanted, self.folder, self.exists = wanted, folder, exists

    def convert(self, value, param, ctx):
        """Check a path."""
        path = Path(value)
        if path.exists() and path.is_dir() != self.folder:
            kind = "file" if self.folder else "folder"
            self.fail(f"{value} is a {kind}; expected {self.wanted}.", param, ctx)
        if self.exists and not path.exists():
            self.fail(f"{value} does not exist; expected {self.wanted}.", param, ctx)
        return path


class Named(click.Choice):
    """One of some names, in any case; others are refused with what was meant."""

    def __init__(self, what, choices):
        super().__init__(choices, case_sensitive=False)
        self.what = what

    def convert(self, value, param, ctx):
        """Check a name."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as unknown:
            from bayes_gpx.validation import meant

            hint = meant(self.what, value, self.choices)
            self.fail(in_flags(f"{unknown.message}{hint}"), param, ctx)


def main(arguments=None):
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


FLAGS = {
    r"\b(likelihood|kernel|method|baseline)='([^']+)'": r"--\1 \2",
    r"^(likelihood|kernel|method|baseline)\b": r"--\1",
    r"\bapproximation=bx\.Inducing\(m\)": "--inducing M",
}
"""From arguments in Python, as messages name them, to options of the command line."""


def in_flags(message: str) -> str:
    """Say a message of the package in the words of the command line.

    Examples
    --------
    >>> in_flags("Use likelihood='categorical'.")
    'Use --likelihood categorical.'
    """
    for python, flag in FLAGS.items():
        message = re.sub(python, flag, message)
    return message


def _warn(message, category, *_, **__):
    if issubclass(category, UserWarning):
        click.echo(f"Warning: {in_flags(str(message))}", err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXAMPLE)
def commands():
    """Gaussian processes that explain themselves, with uncertainty.

    Fit a model to a table, explain its predictions row by row, and write a report. Four lines,
    from data to report, are below.

    Exit codes: 0 done, 1 data or model refused, 2 command not understood, 130 interrupted.
    """


quiet = click.option("--quiet", is_flag=True, help="Print only warnings and errors.")
seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed."
)
drop_missing = click.option(
    "--drop-missing", is_flag=True, help="Leave out rows with missing values, and say how many."
)
run_folder = click.argument(
    "run", type=Place("the folder of a fit, and after it any file of rows", folder=True)
)
ROWS = Place("a CSV or Parquet file of rows")
baseline_option = click.option(
    "--baseline", default="mean", show_default=True, metavar="NAME|FILE",
    help="What rows are compared with: mean, median, zero, or a table of up to 20 rows.",
)  # fmt: skip


@commands.command()
@click.option("--out", default="bayes-gpx-demo", show_default=True, help="Folder.")
@seed
def demo(out, seed):
    """Fit and explain the diabetes data; figures and the fit go into a folder."""
    click.echo("Loading PyMC and ArviZ ...")
    from bayes_gpx.demo import run

    run(out, seed=seed, say=lambda line: print(line, flush=True))


@commands.command(cls=Lists)
@click.argument("data", type=ROWS)
@click.option("--target", required=True, help="Column to predict.")
@click.option(
    "--features", multiple=True, metavar="A B ...",
    help="Columns to predict from; all others by default. Put the DATA file before this.",
)  # fmt: skip
@click.option(
    "--categorical", multiple=True, metavar="A B ...",
    help="Columns whose entries are categories, not quantities.",
)  # fmt: skip
@click.option(
    "--model", type=Named("model", ["gp", "gpx"]), default="gpx", show_default=True,
    help="gp: any smooth function. gpx: a linear regression for each row, with weights that vary.",
)  # fmt: skip
@click.option(
    "--method", type=Named("method", list(METHODS)), default="nuts", show_default=True,
    help="nuts samples the hyperparameters and takes minutes; map takes seconds, and hides how "
    "uncertain they are. svgp needs --inducing.",
)  # fmt: skip
@click.option(
    "--likelihood", default="normal", show_default=True,
    help="Such as student_t, bernoulli (two labels), categorical, poisson, negative_binomial.",
)  # fmt: skip
@click.option("--kernel", default="expquad", show_default=True, help="Such as matern52 + linear.")
@click.option(
    "--inducing", type=click.IntRange(1), metavar="M",
    help="Approximate by M points: for thousands of rows.",
)  # fmt: skip
@click.option("--draws", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--tune", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--chains", type=click.IntRange(1), default=4, show_default=True)
@click.option("--out", required=True, type=Place("a folder for the fit", folder=True, exists=False),
              help="Folder for the fit; made if absent.")  # fmt: skip
@drop_missing
@click.option(
    "--force", is_flag=True, help="Replace the folder's fit, once the new one is complete."
)
@seed
@quiet
def fit(
    data,
    target,
    features,
    categorical,
    model,
    method,
    likelihood,
    kernel,
    inducing,
    out,
    drop_missing,
    force,
    quiet,
    **how,
):
    """Fit a model to the rows of DATA, a CSV or Parquet file.

    The fit goes into a folder, from which explain and report read it. Interrupted by Ctrl-C, what
    is done stays: draws so far, or at least the point of highest density; in interrupted.nc, if the
    folder holds an earlier fit.

    \b
    bayes-gpx fit houses.csv --target price --features rooms age lat lon --out run/
    """
    from bayes_gpx.data.sheets import Wanted, columns_of, read_sheet
    from bayes_gpx.likelihoods import named
    from bayes_gpx.model.gp import GP, GPX
    from bayes_gpx.processes.approximations import Inducing
    from bayes_gpx.system.files import writable

    say = _sayer(quiet)
    if (out / FIT).exists() and not force:
        raise click.UsageError(
            f"{out / FIT} exists. Pass another --out, or --force to replace it once the new fit is "
            "complete."
        )
    if method_named(method).inducing and inducing is None:
        raise click.UsageError(f"--method {method} needs --inducing M, a number of points.")
    observation, sheet = named(likelihood), read_sheet(data)
    others = [column for column in sheet.columns if column != target] if target in sheet else []
    names = list(features or others)
    if target in names:
        raise click.UsageError(f"{target} is both the target and a feature.")
    if outside := [name for name in categorical if name in sheet and name not in names]:
        raise click.UsageError(f"{', '.join(outside)} is categorical but no feature.")
    unknown = [name for name in categorical if name not in names]
    wanted = [Wanted(target, _kind(observation), target=True, fitted=observation.scaled)]
    for name in (*names, *unknown):
        kind = "category" if name in categorical else "numbers"
        wanted.append(Wanted(name, kind, fitted=True))
    table, dropped = columns_of(sheet, wanted, str(data), drop_missing=drop_missing)
    if dropped is not None:
        say(dropped)
    X, y = table[names], table[target]
    approximation = None if inducing is None else Inducing(inducing)
    build = {"gp": GP, "gpx": GPX}[model]
    fitted = build(X, y, kernel=kernel, likelihood=likelihood, approximation=approximation)
    with _folder(out):
        writable(out / FIT)
        say(f"{len(X)} rows, {len(names)} features: {', '.join(names)}.")
        idata, kept, complete = _fit(fitted, method, out / FIT, say, progressbar=not quiet, **how)
    verdict = idata.attrs.get("verdict", SAID.get(method_named(method).gives))
    if verdict is not None:
        say(verdict)
    say(f"wrote {kept}")
    if not complete:
        raise KeyboardInterrupt(f"{kept} holds the draws so far")


@contextmanager
def _folder(path):
    """Make a folder, and take it away where nothing came to be in it."""
    made = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if made and not any(path.iterdir()):
            path.rmdir()


def _kind(observation):
    """What a column holds that a likelihood predicts."""
    if observation.labelled:
        return "two labels" if observation.classes is None else "labels"
    return "counts" if observation.exposed else "numbers"


def _fit(model, method, path, say, *, draws, tune, chains, seed, progressbar):
    """Fit and save; before sampling save a fit by MAP, so that an interruption leaves something.

    Only a complete fit replaces an earlier one, and the fit by MAP never replaces anything.
    """
    from bayes_gpx.model.storage import save

    meanwhile = path.with_name(INTERRUPTED_FIT) if path.exists() else path
    options = {"seed": seed, "progressbar": progressbar}
    sampled = method_named(method).gives == "chains"
    point_first = sampled and not meanwhile.exists()
    if point_first:
        say("Maximising the posterior density ...")
        save(model, model.fit("map", **options), meanwhile)
    if sampled:
        say(f"Sampling, {chains} chains of {tune} + {draws} draws ...")
    try:
        idata = model.fit(method, draws=draws, tune=tune, chains=chains, **options)
    except KeyboardInterrupt:
        if point_first:
            raise KeyboardInterrupt(f"{meanwhile} holds the fit by MAP, which was done") from None
        raise
    complete = not sampled or idata["posterior"].sizes["draw"] == draws
    kept = path if complete else meanwhile
    save(model, idata, kept)
    if point_first and kept != meanwhile:
        meanwhile.unlink()
    return idata, kept, complete


@commands.command()
@run_folder
@click.argument("new", type=ROWS)
@baseline_option
@click.option("--out", required=True, type=Place("a name for a CSV file", exists=False),
              help="CSV file.")  # fmt: skip
@drop_missing
@seed
@quiet
def explain(run, new, baseline, out, drop_missing, seed, quiet):
    """Explain the predictions of the rows of NEW by the fit in RUN.

    Writes a line for each row and feature: the feature's value; in a GPX its weight and
    contribution; its attribution, the share in the difference from the baseline; and the
    prediction. Each with mean, sd and interval. The value of a category is its name, and its weight
    the weight of that name. Text that a spreadsheet would take for a formula,
    such as a feature named =a, gets an apostrophe before it. Interrupted by Ctrl-C, the rows so far
    stay.

    \b
    bayes-gpx explain run/ new.csv --baseline mean --out explained.csv
    """
    from arviz_base import rcParams

    from bayes_gpx.export.tables import CHUNK, as_csv, explained
    from bayes_gpx.system.files import replaced, writable

    say = _sayer(quiet)
    writable(out)
    model, idata = _load(run)
    X = _rows(model, new, drop_missing, say)
    start = _baseline(model, baseline, drop_missing, say)
    _warn_outside(model, X)
    blocks = explained(model, idata, X, baseline=start, seed=seed)
    done = 0
    options = {"label": "Explaining", "file": sys.stderr, "hidden": quiet}
    with replaced(out) as file, click.progressbar(length=len(X), **options) as bar:
        try:
            for block in blocks:
                file.write(as_csv(block, header=not done))
                rows = min(CHUNK, len(X) - done)
                done += rows
                bar.update(rows)
        except KeyboardInterrupt:
            if not done:
                raise
    if done < len(X):
        raise KeyboardInterrupt(f"{out} holds the first {done} of {len(X)} rows")
    say(f"wrote {out}: {done} rows by {X.shape[1]} features; lower and upper bound "
        f"{rcParams['stats.ci_prob']:.0%} intervals.")  # fmt: skip


def _load(run):
    from bayes_gpx.model.storage import load

    path = run / FIT
    if not path.is_file():
        stopped = run / INTERRUPTED_FIT
        more = f" {stopped} is of a fit that was interrupted." if stopped.is_file() else ""
        raise click.UsageError(f"{run} holds no {FIT}; expected a folder that fit wrote.{more}")
    model, idata = load(path)
    if model.training.Z is not None and not model.training.tied:
        raise ValueError(f"The model in {path} has a Z of its own; explain it in Python.")
    return model, idata


def _rows(model, path, drop_missing, say, *, target=False):
    """Rows of a sheet that the model can explain; with `target` also its column, if it is there."""
    from bayes_gpx.data.sheets import Wanted, columns_of, read_sheet

    known = model.training.X
    wanted = [
        Wanted(
            name, "category" if name in known.levels else "numbers", levels=known.levels.get(name)
        )
        for name in known.sources
    ]
    sheet, name = read_sheet(path), str(model.training.y_name)
    if target and name in sheet and (drop_missing or sheet[name].notna().all()):
        wanted.append(Wanted(name, _kind(model.specification.observation), target=True))
    rows, dropped = columns_of(sheet, wanted, str(path), drop_missing=drop_missing)
    if dropped is not None:
        say(dropped)
    return rows


def _warn_outside(model, rows):
    """Warn of rows that leave the training data, if any do, instead of each verb by itself."""
    from bayes_gpx.draws.points import points, rows_outside

    told = rows_outside(model, points(model, rows))
    if told is not None:
        warn(told, ExtrapolationWarning)
    warnings.simplefilter("ignore", ExtrapolationWarning)


def _baseline(model, given, drop_missing, say):
    from bayes_gpx.draws.points import BASELINES
    from bayes_gpx.explain.attributions import MOST_BASELINES

    if given in BASELINES:
        return given
    if not Path(given).is_file():
        raise click.UsageError(
            f"--baseline {given}: no file of that name; expected {', '.join(BASELINES)}, or a CSV "
            "or Parquet file."
        )
    rows = _rows(model, given, drop_missing, say)
    if len(rows) > MOST_BASELINES:
        raise ValueError(
            f"{given} has {len(rows)} rows; expected at most {MOST_BASELINES} to average over."
        )
    return rows


@commands.command()
@run_folder
@click.argument("new", required=False, type=ROWS)
@baseline_option
@click.option("--out", type=Place("a name for an HTML file", exists=False),
              help=f"HTML file; {REPORT} in RUN by default.")  # fmt: skip
@drop_missing
@seed
@quiet
def report(run, new, baseline, out, drop_missing, seed, quiet):
    """Write one HTML file about the fit in RUN: can it be trusted, and what does it explain.

    Explains the rows of NEW, or else those that were learned from; where NEW has the target,
    predictions are scored there. The file opens from disk and needs no network. Interrupted by
    Ctrl-C, the sections so far stay.

    \b
    bayes-gpx report run/
    """
    from bayes_gpx.reporting.report import report as write
    from bayes_gpx.system.files import writable

    say = _sayer(quiet)
    writable(out or run / REPORT)
    model, idata = _load(run)
    X = None if new is None else _rows(model, new, drop_missing, say, target=True)
    y = None if X is None else X.get(model.training.y_name)
    if y is not None:
        X = X.drop(columns=model.training.y_name)
        say(f"{new} has {model.training.y_name}: predictions are scored there.")
    start = _baseline(model, baseline, drop_missing, say)
    if X is not None:
        _warn_outside(model, X)
    say("Writing the report: some seconds to a minute ...")
    path = write(model, idata, X, y_new=y, path=out or run / REPORT, baseline=start, seed=seed)
    say(f"wrote {path}")


@commands.command()
@click.argument("name", required=False)
@click.option("--out", type=Place("a name for a CSV file", exists=False),
              help="CSV file to write the data set to.")  # fmt: skip
@click.option("--path", help="Folder of data files; else the one BAYES_GPX_DATA names.")
def datasets(name, out, path):
    """List the data sets, or describe NAME, or write it as CSV.

    \b
    bayes-gpx datasets diabetes --out diabetes.csv
    """
    from bayes_gpx.data.datasets import IN_FOLDER, NAMES, WITH_PACKAGE, load
    from bayes_gpx.system.files import replaced, writable

    if name is None:
        if out is not None:
            raise click.UsageError("--out needs the NAME of a data set.")
        for known in NAMES:
            where = "in a folder, or fetched" if known in IN_FOLDER else "with scikit-learn"
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


def _sayer(quiet):
    return (lambda line: None) if quiet else click.echo
