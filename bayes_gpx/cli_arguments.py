"""Additions to click: types of arguments, shared options, and messages about options."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bayes_gpx.system.tasks import using_cores


class Lists(click.Command):
    """A command whose repeatable options can be given once with several values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
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


SEVERAL = "*?["
"""Signs of a pattern of file names."""


class Place(click.ParamType):
    """A file or a folder; errors say what was expected in its place."""

    name = "path"

    def __init__(self, wanted: str, *, folder: bool = False, exists: bool = True) -> None:
        self.wanted, self.folder, self.exists = wanted, folder, exists

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Check a path."""
        path = Path(value)
        if path.exists() and path.is_dir() != self.folder:
            kind = "file" if self.folder else "folder"
            self.fail(f"{value} is a {kind}. Pass {self.wanted}.", param, ctx)
        if self.exists and not path.exists():
            why = "does not exist"
            if any(sign in str(value) for sign in SEVERAL):
                why = "names several files, which only fit reads, in parts"
            self.fail(f"{value} {why}. Pass {self.wanted}.", param, ctx)
        return path


class Rows(Place):
    """A file of rows, or several: a folder or a glob of files that are read in parts."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | str:
        """Check a path; a folder or a glob stays the text that it is."""
        if isinstance(value, str) and (
            any(sign in value for sign in SEVERAL) or Path(value).is_dir()
        ):
            return value
        return super().convert(value, param, ctx)


class Approximation(click.ParamType):
    """How a Gaussian process is made cheap: ``hsgp:20x20``, ``inducing:100``, ``features:400``."""

    name = "KIND:SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the kind and its sizes."""
        from bayes_gpx.processes.approximations import APPROXIMATIONS

        kinds: dict[str, Any] = APPROXIMATIONS
        kind, _, sizes = str(value).partition(":")
        numbers = [int(size) for size in sizes.split("x") if size.isdigit()]
        known = kind in kinds and numbers and "x".join(map(str, numbers)) == sizes
        if not known or (len(numbers) > 1 and kind != "hsgp"):
            self.fail(
                f"{value!r} is no approximation. Pass hsgp:M sines along each column, or "
                "hsgp:20x30 for each of two, inducing:M points, or features:M random waves.",
                param,
                ctx,
            )
        try:
            return kinds[kind](tuple(numbers) if len(numbers) > 1 else numbers[0])
        except ValueError as refused:
            self.fail(str(refused), param, ctx)


class Named(click.Choice):
    """One of several names, in upper or lower case; errors suggest the name that was meant."""

    def __init__(self, what: str, choices: Sequence[str]) -> None:
        super().__init__(choices, case_sensitive=False)
        self.what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check a name."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as unknown:
            from bayes_gpx.validation import meant

            hint = meant(self.what, value, self.choices)
            self.fail(in_flags(f"{unknown.message}{hint}"), param, ctx)


FLAGS = {
    r"\b(likelihood|kernel|method|baseline)='([^']+)'": r"--\1 \2",
    r"^(likelihood|kernel|method|baseline)\b": r"--\1",
    r"\bapproximation=bx\.Inducing\(m\)": "--approximation inducing:M",
    r"\bapproximation=bx\.HSGP\(m\)": "--approximation hsgp:M",
    r"\bbx\.HSGP for\b": "--approximation hsgp:M for",
    r"\bPass trials=": "Pass --trials COLUMN",
    r"\bbx\.GP(?=, or --likelihood|$)": "--model gp",
    r", or one lengthscale for all by ard=False": "",
    r"Pass rows as X_new\. .*": "Give a file of rows as NEW.",
    r"Pass rows to be explained as X_new, or .*": "Give a file of rows as NEW, or fit again.",
    r"^X is a str, ": "",
    r", which names no files": " names no files",
    r"Pass a table, or the path of": "Pass the path of",
    r"CSV files are read by dask\.dataframe\.read_csv\.": "Join CSV files into one.",
}
"""Arguments in Python, as messages name them, and the command line's options for them."""


def in_flags(message: str) -> str:
    """Translate a message of the package into the words of the command line.

    Examples
    --------
    >>> in_flags("Use likelihood='categorical'.")
    'Use --likelihood categorical.'
    """
    for python, flag in FLAGS.items():
        message = re.sub(python, flag, message)
    return message


quiet = click.option("--quiet", is_flag=True, help="Print only warnings and errors.")
seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed."
)


def _take_cores(ctx: click.Context, _: click.Parameter, value: int | None) -> None:
    ctx.with_resource(using_cores(value))


cores_option = click.option(
    "--cores", type=click.IntRange(1), expose_value=False, callback=_take_cores,
    help="Number of processor cores; all by default.",
)  # fmt: skip
ci_prob = click.option(
    "--ci-prob", type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Probability of the intervals; 0.9 by default.",
)  # fmt: skip
drop_missing = click.option(
    "--drop-missing", is_flag=True, help="Drop rows with missing values, and report how many."
)
run_folder = click.argument(
    "run", type=Place("the folder of a fit, followed by a file of rows", folder=True)
)
ROWS = Place("a CSV or Parquet file of rows")
baseline_option = click.option(
    "--baseline", default="mean", show_default=True, metavar="NAME|FILE",
    help="What rows are compared with: mean, median, zero, or a table of up to 50 rows.",
)  # fmt: skip
attribution_option = click.option(
    "--attribution", type=click.Choice(["integrated_gradients", "shapley"]),
    default="integrated_gradients", show_default=True,
    help="How the difference from the baseline is divided among features.",
)  # fmt: skip
