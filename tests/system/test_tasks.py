"""Tasks of one kind by an executor: what they share is pickled once."""

import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial

from bayes_gpx.system.tasks import in_turn

MADE, PICKLED = [], []


class Large:
    """Notes when it is pickled, and when it is made anew."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        PICKLED.append(self.number)
        return _made, (self.number,)


def _made(number):
    MADE.append(number)
    return Large(number)


def scaled(large, k):
    return large.number * k


class Sent(Executor):
    """Runs what it is given in place, after it was pickled as if for another process."""

    def submit(self, fn, /, *args, **kwargs):
        task, done = pickle.loads(pickle.dumps(partial(fn, *args, **kwargs))), Future()
        done.set_result(task())
        return done


def test_what_tasks_share_is_pickled_once_and_made_once_where_they_run():
    MADE.clear(), PICKLED.clear()
    each = [(k,) for k in range(40)]
    for number in (2, 3, 2):
        assert [*in_turn(scaled, Large(number), each, Sent())] == [number * k for k in range(40)]
    assert MADE == PICKLED == [2, 3, 2]


def test_threads_share_it_as_it_is():
    MADE.clear(), PICKLED.clear()
    with ThreadPoolExecutor(2) as executor:
        assert [*in_turn(scaled, Large(2), [(3,), (4,)], executor)] == [6, 8]
    assert not MADE and not PICKLED
