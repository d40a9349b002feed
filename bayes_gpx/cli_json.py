"""The option `--json` of commands: results on standard output, and messages elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayes_gpx.system.warning import ExtrapolationWarning

if TYPE_CHECKING:
    import xarray as xr

    from bayes_gpx.export.tables import Beside
    from bayes_gpx.model.model import Model

json_option = click.option(
    "--json", "as_json", is_flag=True,
    help="Print the results as JSON, as bayes_gpx.to_json writes them. Messages go to standard "
    "error.",
)  # fmt: skip


class Results:
    """Results of blocks of rows, without draws, by name."""

    def __init__(self) -> None:
        self._each: dict[str, list[xr.Dataset]] = {}

    def add(self, found: Mapping[str, xr.Dataset]) -> None:
        """Add the results of a block."""
        from bayes_gpx.draws.intervals import interval_probability
        from bayes_gpx.reporting.estimands import summarized

        for name, result in found.items():
            kept = summarized(result, interval_probability(None, result))
            self._each.setdefault(name, []).append(kept)

    def joined(self, beside: Beside, seed: int | None, outside: str | None) -> list[xr.Dataset]:
        """Each result for all rows, with the columns beside them as coordinates."""
        # The seed of a block comes from `seed`. A block tells which of its own rows are outside of
        # the training data, and `outside` which of all rows.
        import numpy as np
        import xarray as xr

        told = [] if outside is None else [f"{ExtrapolationWarning.__name__}: {outside}"]
        how: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal"}
        how |= {"compat": "override", "join": "override", "combine_attrs": "override"}
        found = []
        for blocks in self._each.values():
            texts = [text for b in blocks for text in np.atleast_1d(b.attrs.pop("warnings", []))]
            own = [text for text in texts if not text.startswith(ExtrapolationWarning.__name__)]
            whole = xr.concat(blocks, "obs", **how).assign_coords(beside.coords("obs"))
            known = {"seed": seed, "warnings": list(dict.fromkeys(told + own))}
            found.append(
                whole.assign_attrs({k: v for k, v in known.items() if v not in (None, [])})
            )
        return found


def written(result: xr.Dataset, model: Model, idata: Any) -> str:
    """A result as JSON, with all that is known of the fit."""
    from bayes_gpx.reporting.json_form import to_json

    return to_json(result, model=model, idata=idata)


def require_output(out: Path | None, as_json: bool) -> None:
    """Raise if a command would write nothing."""
    if out is None and not as_json:
        raise click.UsageError("Missing option '--out'. Pass a CSV file, --json, or both.")


def as_list(texts: Sequence[str]) -> str:
    """Several JSON texts as one list."""
    return "[" + ",\n".join(texts) + "]"
