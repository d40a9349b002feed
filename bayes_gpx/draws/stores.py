"""Zarr stores of draws or of chunks of rows, which appear whole and can be resumed."""

# A store grows in the folder `name.unfinished`, with its request. Draws need the sums over draws so
# far, and the moments of single draws for intervals. Missing values are NaN: incomplete chunks stay
# in memory until the sums are written. The finished store is renamed to its place, and only then is
# an earlier one removed.

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.draws.claims import Claim, ClaimedArray, locked, reading
from bayes_gpx.system.digests import digest
from bayes_gpx.system.files import exchanged, replaced

DIMS = ("chain", "draw", "obs")
"""The first dims of stored draws, before the dims of the quantity."""

WRITTEN = "bayes_gpx_arrays"
"""Attribute of a store: all that the package wrote into it, and so may remove."""

PAUSE = 10.0
"""Seconds between two times that the sums are kept: at most so much is computed again."""

CHUNK = 2**17
"""Numbers of a chunk of draws, about: 1 MiB, below which zarr's work for each chunk prevails."""

ASKED = "asked.json"
"""File of an unfinished store: its request."""

HELD = 2**23
"""Numbers of a store's chunks that are in memory at most, but for a chunk of each array: 64 MiB."""


def checked() -> dict[str, Any]:
    """Options of arrays whose chunks hold a checksum: damage is an error and no other number."""
    from zarr.codecs import ZstdCodec

    return {"compressors": (ZstdCodec(level=0, checksum=True),)}


class Store:
    """A zarr store on its way to a path, where it appears whole; it can be pickled for writers."""

    # `asked` is a digest of everything that determines the numbers: an unfinished store with this
    # digest is resumed, with its own `record`. None starts again. `make` writes the new store, if
    # its arrays, `names`, are known. Anything at the path that the package did not write is
    # refused, and a result without any of these arrays.

    def __init__(
        self,
        path: str | PathLike,
        asked: str | None,
        record: dict[str, Any],
        make: Callable[[Path], None] | None = None,
        names: Collection[str] = (),
    ) -> None:
        self.path = Path(path).resolve()
        refuse_foreign(self.path, names)
        self.folder = self.path.with_name(f"{self.path.name}.unfinished")
        self.store = self.folder / "store"
        known = self._resumable(asked)
        self.resumed, self.record = known is not None, record if known is None else known
        if known is None:
            made = made_beside(self.folder)
            if make is not None:
                make(made / "store")
            whole = {"asked": asked, **record}
            (made / ASKED).write_text(json.dumps({**whole, "checksum": digest(whole)}))
            appear(made, self.folder, self.path)
        self._claim = Claim(self.folder, self.path)

    @property
    def entropy(self) -> Any:
        """The number that seeds are made from."""
        return self.record["entropy"]

    def _resumable(self, asked: str | None) -> dict[str, Any] | None:
        """What an unfinished store of the same says of itself; None where there is none."""
        if not self.folder.exists():
            return None
        if not (self.folder / ASKED).is_file():
            raise ValueError(
                f"path: {self.folder} is in the way, which is no unfinished store of this "
                "package. Remove it, or pass another path."
            )
        with reading(self.folder):
            try:
                record = json.loads((self.folder / ASKED).read_text())
            except FileNotFoundError:  # another call has finished meanwhile
                return None
            if record.pop("checksum", None) != digest(record):
                raise ValueError(f"the checksum of {ASKED} differs")
        if record["asked"] is None:
            return None
        if record["asked"] != asked:
            raise ValueError(
                f"path: {self.folder} holds an unfinished store of other arguments. Pass the "
                "same model, draws, samples, rows, seed and options to resume it; or remove it, or "
                "pass another path."
            )
        return record

    def finished(self, variables: xr.Dataset) -> xr.Dataset:
        """Write the last variables, move the store to its place, and return its content."""
        with self._claim.held(alone=True):
            append(self.store, variables)
            if self.resumed:
                read_all(self.store)
            away = self._claim.moved_away()
        put_in_place(away, self.path)
        with self._claim.lost_if_taken():
            return xr.open_zarr(self.path, chunks=None, consolidated=False)


class DrawStore(Store):
    """Arrays (chain, draw, obs[, along[, along_bis]]) that are written draw by draw."""

    # `done` counts finished hyperparameter draws, and rows of the next. The sums of a resumed store
    # are copied to `sums`.

    def __init__(
        self,
        path: str | PathLike,
        shapes: Mapping[str, tuple[int, ...]],
        seed: int | None,
        asked: str | None = None,
        sums: Sequence[np.ndarray] = (),
        along: str = "feature",
        together: int = 1,
    ) -> None:
        make = partial(_make_arrays, shapes, (*DIMS, along, f"{along}_bis"), together)
        record = {"entropy": np.random.SeedSequence(seed).entropy}
        super().__init__(path, asked, record, make, names=shapes)
        self._sums, self._kept, self.done = self.folder / "sums.npz", time.monotonic(), (0, 0)
        with self._claim.held():
            self._open(shapes, sums if self.resumed else ())

    def _open(self, shapes: Mapping[str, tuple[int, ...]], sums: Sequence[np.ndarray]) -> None:
        import zarr

        if self._sums.is_file():
            with np.load(self._sums) as kept:
                draws, rows = map(int, kept["done"])
                self.done = draws, rows
                for k, own in enumerate(sums):
                    own[...] = kept[f"arr_{k}"]
        group, room = zarr.open_group(self.store, mode="r+"), HELD // len(shapes)
        claimed = {name: ClaimedArray(group[name], self._claim) for name in shapes}
        self.arrays = {name: ChunkedArray(array, room) for name, array in claimed.items()}

    def beside(self, name: str, shape: tuple[int, ...]) -> ClaimedArray:
        """Make an array in a folder that goes with the unfinished store; a resumed one has it."""
        import zarr
        from zarr.codecs import Crc32cCodec

        with self._claim.held():
            group = zarr.open_group(self.folder / "beside", mode="a")
            if any(self.done):
                return ClaimedArray(group[name], self._claim)
            array = group.create_array(
                name,
                shape=shape,
                chunks=(2, 1, min(4096, shape[2]), *shape[3:]),
                dtype="float64",
                compressors=(Crc32cCodec(),),
                overwrite=True,
            )
        return ClaimedArray(array, self._claim)

    def keep(self, done: tuple[int, int], sums: Sequence[np.ndarray]) -> None:
        """Keep all that is done, and the sums over it, if the last time is long enough ago."""
        if time.monotonic() - self._kept < PAUSE:
            return
        self._write()
        with self._claim.held(), replaced(self._sums) as file:
            np.savez(file, *sums, done=done)
        self._kept = time.monotonic()

    def finished(self, variables: xr.Dataset) -> xr.Dataset:
        """Write the rest, move the store to its place, and return its content."""
        self._write()
        names = [*self.arrays, *variables.variables]
        return super().finished(variables.assign_attrs({WRITTEN: names}))

    def _write(self) -> None:
        for array in self.arrays.values():
            array.write()


def _make_arrays(
    shapes: Mapping[str, tuple[int, ...]], dims: tuple[str, ...], together: int, store: Path
) -> None:
    """Make arrays of draws, without values."""
    import zarr

    group, room = zarr.open_group(store, mode="w"), HELD // len(shapes)
    for name, shape in shapes.items():
        numbers = int(np.prod(shape[3:]))
        # So few draws that their chunks of all rows are held until all of them have come; or all
        # that come together, of a few rows.
        draws = int(np.clip(room // (shape[2] * numbers), 1, min(16, shape[1])))
        if together > 1:
            draws = min(together, max(1, CHUNK // numbers))
        rows = min(max(1, CHUNK // (draws * numbers)), shape[2])
        group.create_array(
            name,
            shape=shape,
            chunks=(1, draws, rows, *shape[3:]),
            dtype="float64",
            fill_value=np.nan,
            dimension_names=dims[: len(shape)],
            **checked(),
        )


class RowStore(Store):
    """Results that are written by chunks of rows, in any order and by several processes."""

    # Chunks of rows are whole zarr chunks, so no two writers touch the same file. Each written
    # chunk leaves a mark with a digest of its rows; a repeated call computes only chunks without
    # this mark, with the `rows` of a chunk that the store began with.

    def __init__(self, path: str | PathLike, asked: str, entropy: Any, rows: int) -> None:
        super().__init__(path, asked, {"entropy": entropy, "rows": rows})
        self.rows = self.record["rows"]

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
                # Not before: the first chunk tells what it explains; values of features are in all.
                explained = [name for name in map(str, part) if name.endswith("_mean")]
                try:
                    refuse_foreign(self.path, explained)
                except ValueError:
                    shutil.rmtree(self.folder)
                    raise
                self._begin(part, rows)

    def _begin(self, part: xr.Dataset, rows: int) -> None:
        import zarr

        shutil.rmtree(self.store, ignore_errors=True)
        written = {WRITTEN: [*part.variables]}
        part = part.drop_vars("obs")  # labels of all rows are written last
        encoding = {}
        for name, v in part.variables.items():
            sizes = {
                **v.sizes,
                "obs": min(self.rows, rows),
                "draw": min(16, v.sizes.get("draw", 1)),
            }
            encoding[name] = {"chunks": tuple(sizes[d] for d in v.dims), **checked()}
        part.assign_attrs(written).to_zarr(
            self.store, mode="w", encoding=encoding, consolidated=False
        )
        group = zarr.open_group(self.store, mode="r+")
        for name, v in part.variables.items():
            shape = tuple(rows if d == "obs" else v.sizes[d] for d in v.dims)
            cast(zarr.Array, group[str(name)]).resize(shape)
        (self.folder / "begun").touch()

    def write(self, number: int, part: xr.Dataset, rows: str) -> None:
        """Write the results of a chunk, and mark it as written, with the digest of its rows."""
        first = number * self.rows
        beside = ["obs", *(name for name, v in part.variables.items() if "obs" not in v.dims)]
        with self._claim.held():
            self._mark(number).unlink(missing_ok=True)
            region = {"obs": slice(first, first + part.sizes["obs"])}
            part.drop_vars(beside).to_zarr(self.store, region=region, consolidated=False)
            with replaced(self._mark(number)) as mark:
                mark.write(rows.encode())

    def finished(self, variables: xr.Dataset) -> xr.Dataset:
        """Move the store to its place, with the labels of all rows."""
        import zarr

        with self._claim.held():
            attrs = dict(zarr.open_group(self.store, mode="r").attrs)
        return super().finished(variables.assign_attrs(attrs))


def appear(made: Path, folder: Path, path: Path) -> None:
    """Rename a complete folder, and remove an earlier one; refused if another call was faster."""
    try:
        with locked(folder):
            if folder.exists():
                folder.rename(made / "before")
            made.rename(folder)
    except OSError as taken:
        shutil.rmtree(made, ignore_errors=True)
        raise ValueError(
            f"path: another call began to write to {path} at the same time. Use the result of that "
            "call, or pass another path."
        ) from taken
    shutil.rmtree(folder / "before", ignore_errors=True)


def put_in_place(away: Path, path: Path) -> None:
    """Move the finished store from its folder to its path, and remove the rest."""
    if not exchanged(away / "store", path):
        if path.exists():
            path.rename(away / "earlier")
        (away / "store").rename(path)
    shutil.rmtree(away)


class ChunkedArray:
    """An array of a store with chunks that are written when memory is full."""

    # If draws come one by one, and a chunk has several, each draw would read and compress its chunk
    # again. Chunks are written in the order in which they were begun. At most `room` numbers are in
    # memory, and one more chunk.

    def __init__(self, array: Any, room: int) -> None:
        self._array = array
        self._held: dict[tuple, np.ndarray] = {}
        self._most = room // int(np.prod(array.chunks)) + 1

    def __setitem__(self, place: tuple, values: np.ndarray) -> None:
        """Set values at a chain, a draw or a slice of them, and a slice or an array of rows."""
        chain, draws, rows = place
        if not isinstance(draws, slice):
            draws, values = slice(draws, draws + 1), values[None]
        sizes = zip((draws, rows), self._array.shape[1:], self._array.chunks[1:], strict=False)
        for some in product(*(_at_chunks(*span) for span in sizes)):
            spans, own, given = zip(*some, strict=True)
            chunk = chain, *spans
            if chunk not in self._held:
                if len(self._held) == self._most:
                    self._write_one(next(iter(self._held)))
                self._held[chunk] = self._array[chunk]
            self._held[chunk][np.ix_(*own)] = values[np.ix_(*given)]

    def write(self) -> None:
        """Write all that is held."""
        for chunk in [*self._held]:
            self._write_one(chunk)

    def _write_one(self, chunk: tuple) -> None:
        self._array[chunk] = self._held.pop(chunk)


def _at_chunks(span: Any, length: int, size: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield slices of the chunks that a span of an axis touches, where in them, and of the span."""
    places = np.arange(length)[span]
    for chunk in np.unique(places // size):
        given = np.flatnonzero(places // size == chunk)
        yield slice(chunk * size, (chunk + 1) * size), places[given] - chunk * size, given


def read_all(store: Path) -> None:
    """Read each chunk of a store once, so that damage is found before it replaces anything."""
    import zarr

    for _, array in zarr.open_group(store, mode="r").arrays():
        for place in np.ndindex(array.cdata_shape):
            array.blocks[place]


def append(store: str | PathLike, variables: xr.Dataset) -> None:
    """Write variables into a store."""
    import zarr

    new = set(map(str, variables.variables)) - set(zarr.open_group(store, mode="r").array_keys())
    encoding = {name: checked() for name in sorted(new)}
    variables.to_zarr(store, mode="a", encoding=encoding, consolidated=False)
    _gather(store)


def describe(store: str | PathLike, attrs: Mapping[str, Any]) -> None:
    """Add attrs to those of a finished store."""
    import zarr

    zarr.open_group(store, mode="r+").attrs.update(attrs)
    _gather(store)


def _gather(store: str | PathLike) -> None:
    """Gather a store's metadata in the file that xarray opens first."""
    import zarr
    from zarr.errors import ZarrUserWarning

    with warnings.catch_warnings():
        # It says that the format does not describe that file; xarray writes it all the same.
        warnings.simplefilter("ignore", ZarrUserWarning)
        zarr.consolidate_metadata(str(store))


def with_more(path: str | PathLike, variables: xr.Dataset) -> xr.Dataset:
    """Write further variables, a Dataset, into a finished store, and return its content."""
    import zarr

    written = cast(list[str], zarr.open_group(path, mode="r").attrs[WRITTEN])
    told = {WRITTEN: [*written, *(name for name in variables.variables if name not in written)]}
    append(path, variables.assign_attrs(told))
    return xr.open_zarr(path, chunks=None, consolidated=False)


def made_beside(folder: Path) -> Path:
    """Make a folder next to another one, to be renamed to it once it is complete."""
    made = folder.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        made.mkdir(parents=True)
    except OSError as wrong:
        raise ValueError(
            f"path: nothing can be written in {folder.parent} ({wrong.strerror}). Pass a path in a "
            "folder that may be written to."
        ) from wrong
    return made


def refuse_foreign(path: str | PathLike, names: Collection[str] = ()) -> None:
    """Raise unless a path is free, an empty folder, or a store that the package wrote alone.

    Also for a store without any of the arrays `names`, which is the result of another function.
    """
    path = Path(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    written = ()
    if (path / "zarr.json").is_file():
        written = (
            json.loads((path / "zarr.json").read_text()).get("attributes", {}).get(WRITTEN, ())
        )
    others = None
    if written:  # and what a killed process left of writing zarr.json
        found = {entry.name for entry in path.iterdir()} - {"zarr.json", *written}
        others = {name for name in found if not re.fullmatch(r"zarr\.[0-9a-f]{32}\.partial", name)}
    if others != set():
        what = f"holds {', '.join(sorted(others))} next to a store" if others else "is no store"
        raise ValueError(
            f"path: {path} {what} that this package wrote, and is left as it is. Pass a new path, "
            "or remove it yourself."
        )
    if names and not {*names} & {*written}:
        raise ValueError(
            f"path: {path} holds the result of another function, with {', '.join(written[:3])}, "
            "and is left as it is. Pass a new path, or remove it yourself."
        )


def refuse_summaries(path: str | PathLike | None, keep: str) -> None:
    """Raise for a path of summaries, to which nothing would be written."""
    if path is not None and keep == "summary":
        raise ValueError(
            "path was given with keep='summary', but summaries of rows in memory are small. Leave "
            "path out, and write the returned Dataset by .to_zarr(path)."
        )
