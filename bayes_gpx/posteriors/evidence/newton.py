"""Damped Newton steps to the maximum of a log density of several classes, or of a bound."""

from collections.abc import Callable
from typing import Any

TRIED, HALVINGS = 400, 30
"""At most so many states are tried, and each step is halved at most so many times. Searches that
arrive try 5 to 200 states. At absurd hyperparameters, which an optimizer visits, they would not
end."""

SLACK = 1e-12
"""How far a step may go down, as a share of the height: as far as round-off does."""


def ascend[State: tuple](
    state: State,
    direction: Callable[[State, Any], tuple[bool, Any]],
    step: Callable[[State, Any, float, Any], tuple[bool, Any]],
    given: Any,
    tolerance: float,
) -> tuple[bool, State]:
    """Ascend from a state by steps that are halved until they do not go down.

    A state begins with its height and its relative distance from the previous state. `direction`
    maps a state and `given` to whether there is a direction, and the direction. `step` maps a
    state, a direction, a fraction and `given` to whether there is a state, and the state. Returns
    whether there was a direction at every state, and the last state, which is the highest.
    """
    left = TRIED
    while left > 0:
        there, way = direction(state, given)
        if not there:
            return False, state
        share, higher, tried = 1.0, False, state
        for _ in range(HALVINGS):
            left -= 1
            there, tried = step(state, way, share, given)
            higher = there and tried[0] >= state[0] - SLACK * (1.0 + abs(state[0]))
            if higher:
                break
            share *= 0.5
        if not higher:
            break
        state = tried
        if state[1] <= tolerance:
            break
    return True, state
