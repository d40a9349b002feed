"""What is said before something long, and that nothing is said else."""

import re
import threading

import pytest

from bayes_gpx.numerics import progress
from bayes_gpx.numerics.progress import announce, announced, beside, foretell, of_several, speaks


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by what is evaluated alone."""
    now = [0.0]
    monkeypatch.setattr(progress, "perf_counter", lambda: now[0])
    return now


def test_a_long_task_is_told_by_its_second_call(clock, capsys):
    took = iter((100.0, 0.5))  # the first compiles

    def evaluate():
        clock[0] += next(took)

    foretell("Sampling", evaluate, 2400, 2, True)
    said = capsys.readouterr().err
    told = r"Sampling: 10 minutes or so \(2,400 evaluations of 0.5 s, 2 at a time; memory so far "
    assert re.fullmatch(told + r"[0-9.]+ GiB\)\.\n", said)


def test_what_is_cheaper_is_named(clock, capsys):
    def evaluate():
        clock[0] += 3.0

    with beside(("bx.HSGP(20)", 0.01)):
        foretell("Sampling", evaluate, 1200, 1, True)
    assert capsys.readouterr().err.endswith(" With approximation=bx.HSGP(20): 36 seconds or so.\n")
    for share in (("bx.Inducing(100)", 0.9), None):
        with beside(share):
            foretell("Sampling", evaluate, 1200, 1, True)
        assert "approximation" not in capsys.readouterr().err


@pytest.mark.parametrize(("seconds", "lines"), [(4.9, 0), (5.1, 1)])
def test_five_seconds_are_the_border(clock, capsys, seconds, lines):
    def evaluate():
        clock[0] += seconds / 100

    foretell("Maximising", evaluate, 100, 1, True)
    assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize("bunch", [1, 20])
def test_rates_are_those_of_whole_bunches(clock, capsys, bunch):
    """Results that threads found come together; what is compiled first does not count."""

    def results():
        clock[0] += 30.0
        for k in range(400):
            if k and k % bunch == 0:
                clock[0] += 0.03 * bunch
            yield k

    assert [*announced(results(), 400, "Leaving out")] == [*range(400)]
    (said,) = capsys.readouterr().err.splitlines()
    assert said in ("Leaving out: 11 seconds or so.", "Leaving out: 12 seconds or so.")


def test_the_first_of_several_calls_speaks_for_all(capsys):
    with of_several(4):
        announce("Following", 1.0)
        announce("Following", 3.0)
        announce("Following", 9.0)
    announce("Following", 6.0)
    said = capsys.readouterr().err.splitlines()
    assert said == ["Following: 12 seconds or so.", "Following: 6 seconds or so."]


def test_nothing_is_called_where_nothing_may_be_said(capsys):
    foretell("Maximising", pytest.fail, 10**9, 1, False)
    thread = threading.Thread(target=lambda: foretell("Maximising", pytest.fail, 10**9, 1, True))
    thread.start()
    thread.join()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(75, "75 seconds"), (150, "2.5 minutes"), (7200, "2 hours"), (5400, "90 minutes"),
     (9e3, "2.5 hours"), (4e5, "4.6 days")],
)  # fmt: skip
def test_durations_in_words(seconds, said):
    assert progress.spoken(seconds) == said


def test_a_loop_that_an_error_leaves_open_starts_no_thread():
    """Python would wait for it at its end, forever."""
    before = threading.active_count()
    loop = progress.progress_bar(False).track(range(3), description="Waiting")
    assert next(loop) == 0
    assert threading.active_count() == before
    assert [*loop] == [1, 2]


def test_the_command_is_told_under_its_own_name(capsys):
    assert not speaks(False)
    with of_several(2, "Explaining"):
        assert speaks(False)
        announce("Computing f", 4.0)
    assert capsys.readouterr().err == "Explaining: 8 seconds or so.\n"
