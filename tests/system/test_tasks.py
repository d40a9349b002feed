"""Tasks of one kind by an executor: what they share is pickled once."""

from concurrent.futures import ThreadPoolExecutor

from bayes_gpx.system.tasks import in_turn
from executors import Sent

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
