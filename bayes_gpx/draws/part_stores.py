"""A zarr store with rows written in chunks, in any order and by several processes."""

# It grows in the folder `name.unfinished`, like other stores. Chunks of rows are whole zarr chunks,
# so no two writers touch the same file. Each written chunk leaves a mark with a digest of its rows;
# a repeated call computes only chunks without this mark.

from __future__ import annotations

import json
import shutil
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.draws.stores import (
    WRITTEN,
    Claim,
    appear,
    append,
    made_beside,
    put_in_place,
    refuse_foreign,
)
from bayes_gpx.system.files import replaced


class PartStore:
    """A store in progress, which can be pickled for writers of chunks."""

    # An unfinished store with the same digest `asked`, of everything but the seed, is resumed with
    # its own `entropy` (for seeds) and `rows` of a chunk.

    def __init__(self, path: str | PathLike, asked: str, entropy: Any, rows: int) -> None:
        self.path = Path(path).resolve()
        refuse_foreign(self.path)
        self.folder = self.path.with_name(f"{self.path.name}.unfinished")
        self.store = self.folder / "store"
        record = {"asked": asked, "entropy": entropy, "rows": rows}
        if not self.folder.exists():
            made = made_beside(self.folder)
            (made / "parts.json").write_text(json.dumps(record))
            appear(made, self.folder, self.path)
        known = self.folder / "parts.json"
        record = json.loads(known.read_text()) if known.is_file() else {"asked": None}
        if record["asked"] != asked:
            raise ValueError(
                f"path: {self.folder} is in the way, which is no unfinished store of the same "
                "model, draws, rows and options. Ask for the same to resume it; or remove it, or "
                "pass another path."
            )
        self.entropy, self.rows = record["entropy"], record["rows"]
        self._claim = Claim(self.folder, self.path)

    def _mark(self, number: int) -> Path:
        return self.folder / f"part_{number}"

    def holds(self, number: int, rows: str) -> bool:
        """Whether a part was written, of rows with this digest."""
        mark = self._mark(number)
        return mark.exists() and mark.read_text() == rows

    def begin(self, part: xr.Dataset, rows: int) -> None:
        """Create the arrays of all rows like the arrays of a chunk, unless they exist."""
        with self._claim.held():
            if not (self.folder / "begun").exists():
                self._begin(part, rows)

    def _begin(self, part: xr.Dataset, rows: int) -> None:
        import zarr

        shutil.rmtree(self.store, ignore_errors=True)
        by_row = [str(name) for name, v in part.variables.items() if "obs" in v.dims]
        part = part.drop_vars("obs")  # labels of all rows are written last
        by_row.remove("obs")
        beside = [name for name in by_row if name in part.coords]
        written = [*part.variables, "obs"]
        common = part.drop_vars(by_row).assign_attrs({WRITTEN: written})
        common.to_zarr(self.store, mode="w", consolidated=False)
        group = zarr.open_group(self.store, mode="r+")
        for name in by_row:
            v = part[name]
            sizes = {**v.sizes, "obs": rows}
            chunks = {**v.sizes, "obs": min(self.rows, rows)}
            chunks |= {"draw": min(16, v.sizes["draw"])} if "draw" in v.dims else {}
            group.create_array(
                name,
                shape=tuple(sizes[d] for d in v.dims),
                chunks=tuple(chunks[d] for d in v.dims),
                dtype=v.dtype,
                fill_value=np.nan if v.dtype.kind == "f" else None,
                dimension_names=[str(d) for d in v.dims],
                attributes=dict(v.attrs),
            )
        if beside:
            told = group.attrs.get("coordinates", "")
            group.attrs["coordinates"] = " ".join([*str(told).split(), *beside])
        (self.folder / "begun").touch()

    def write(self, number: int, part: xr.Dataset, rows: str) -> None:
        """Write the results of a chunk, and mark it as written, with the digest of its rows."""
        with self._claim.held():
            self._write(number, part, rows)

    def _write(self, number: int, part: xr.Dataset, rows: str) -> None:
        import zarr

        self._mark(number).unlink(missing_ok=True)
        group = zarr.open_group(self.store, mode="r+")
        own = slice(number * self.rows, number * self.rows + part.sizes["obs"])
        for name, v in part.variables.items():
            if "obs" in v.dims and name != "obs":
                where = tuple(own if d == "obs" else slice(None) for d in v.dims)
                cast(zarr.Array, group[str(name)])[where] = v.values
        with replaced(self._mark(number)) as mark:
            mark.write(rows.encode())

    def finished(self, labels: np.ndarray) -> xr.Dataset:
        """Write the labels of all rows, move the store to its place, and return its content."""
        import zarr

        with self._claim.held():
            attrs = dict(zarr.open_group(self.store, mode="r").attrs)
            append(self.store, xr.Dataset(coords={"obs": labels}, attrs=attrs))
        put_in_place(self._claim, self.path)
        return xr.open_zarr(self.path, chunks=None, consolidated=False)
