"""Files that commands write appear whole, and earlier ones stay until then."""

import os
import subprocess

import pytest

import bayes_gpx as bx
from bayes_gpx import cli
from bayes_gpx.export import tables
from bayes_gpx.reporting import report
from bayes_gpx.system.files import replaced, writable


def test_where_nothing_can_be_written_nothing_is_computed(folder, tmp_path, monkeypatch, refused):
    monkeypatch.setattr("bayes_gpx.model.storage.load", lambda *_: pytest.fail("the fit was read"))
    monkeypatch.setattr(
        "bayes_gpx.data.datasets.load", lambda *_, **__: pytest.fail("data were read")
    )
    out = ["--out", tmp_path / "nowhere" / "file"]
    for words in (
        ["explain", folder / "run", folder / "new.csv"],
        ["report", folder / "run"],
        ["datasets", "diabetes"],
    ):
        code, said = refused(*words, *out)
        assert code == 1 and "cannot be written" in said


def test_what_fails_on_the_way_leaves_the_earlier_file(folder, tmp_path, monkeypatch, refused):
    out, whole_blocks = tmp_path / "out", tables.explained
    out.write_text("earlier")

    def stopped(*args, **kwargs):
        yield next(iter(whole_blocks(*args, **kwargs)))
        raise ValueError("stopped")

    monkeypatch.setattr(tables, "explained", stopped)
    words = ["explain", folder / "run", folder / "new.csv", "--out", out]
    assert refused(*words, "--quiet") == (1, "Error: stopped\n")
    monkeypatch.setattr(report, "SECTIONS", [])
    monkeypatch.setattr(report, "_html", lambda *_: [][0])
    with pytest.raises(IndexError):
        bx.report(*bx.load(folder / "run" / "fit.nc"), path=out)
    assert out.read_text() == "earlier" and [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_a_pipe_and_permissions_stay_what_they_are(folder, tmp_path):
    real, link, pipe = tmp_path / "real.csv", tmp_path / "link.csv", tmp_path / "pipe"
    real.touch(mode=0o600)
    link.symlink_to(real)
    cli.main(["datasets", "iris", "--out", str(link)])
    assert link.is_symlink() and len(real.read_text().splitlines()) == 151
    assert real.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    with replaced(writable(pipe)) as file:
        file.write(b"told")
    assert reader.communicate()[0] == "told" and pipe.is_fifo()
