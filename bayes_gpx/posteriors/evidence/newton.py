"""Damped Newton steps to the maximum of a log density of several classes, or of a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

TRIED, HALVINGS = 400, 30
"""At most so many states are tried, and each step is halved at most so many times. Searches that
arrive try 5 to 200 states. At absurd hyperparameters, which an optimizer visits, they would not
end."""

SLACK = 1e-12
"""How far a step may go down, as a share of the height: as far as round-off does."""

MIXED, NEAR = 6, 0.3
"""So many changes of the last steps lead to the next one, once a step is smaller than this share of
the latent values' size: Anderson's mixing. Coefficients and precisions may swing around their best
values in turns."""

STORED = 2**22
"""Most numbers in the steps that are mixed, 32 MB."""

CERTAIN = 1e8
"""Precision of coefficients, or of sites, that are hardly uncertain."""

type Past = tuple[tuple[np.ndarray, np.ndarray], ...]
"""Points of the last states, and plain steps from there, flat."""


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


def mixed_direction(state: Any, given: Any) -> tuple[bool, Past]:
    """The plain step, after those from the last states if it is mixed with them; see `ascend`.

    A state has its `point`, coefficients and precisions, how far it is `apart` from the one before,
    and `past`. ``given.step(state)`` is a plain step of both, or raises LinAlgError; ``given.at``
    makes a state of coefficients, precisions and the state before, or returns None.
    """
    try:
        step = np.append(*given.step(state))
    except np.linalg.LinAlgError:
        return False, ()
    mixes = state.apart < NEAR and MIXED * step.size <= STORED and np.isfinite(step).all()
    past = state.past[-MIXED:] if mixes else ()
    return True, (*past, (np.append(*state.point), step))


def mixed_step(state: Any, past: Past, share: float, given: Any) -> tuple[bool, Any]:
    """The state a share of a direction further; the mixed step is tried before any plain one."""
    (coefficients, precisions), step = state.point, past[-1][1]
    if len(past) > 1 and share == 1.0:
        step = _mixed(past, coefficients.size)
    elif len(past) > 1:
        share, past = 2.0 * share, past[-1:]
    own, others = np.split(share * step, [coefficients.size])
    own, others = own.reshape(coefficients.shape), others.reshape(precisions.shape)
    tried = given.at(coefficients + own, precisions + others, state)
    return tried is not None, tried and tried._replace(past=past)


def at_mode(
    center: np.ndarray, precisions: np.ndarray, given: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The mode of the coefficients, as for latent values that are hardly uncertain, and precisions.

    Under the prior an expectation such as that of a Weibull hazard may be so large that steps end
    nowhere.
    """
    state = given.at(center, CERTAIN * precisions)
    if state is None:
        return center, precisions
    _, state = ascend(state, _in_coefficients, mixed_step, given, NEAR)
    return state.point[0], state.aim


def _in_coefficients(state: Any, given: Any) -> tuple[bool, Past]:
    """A plain step that leaves the precisions as they are; see `ascend`."""
    try:
        step, _ = given.step(state)
    except np.linalg.LinAlgError:
        return False, ()
    held = np.zeros(state.point[1].size)
    return True, ((held, np.append(step, held)),)


def _mixed(past: Past, k: int) -> np.ndarray:
    """Anderson's step from the last state, of k coefficients: where all steps would be smallest.

    See Walker and Ni, "Anderson acceleration for fixed-point iterations" (2011).
    """
    points, steps = map(np.stack, zip(*past, strict=True))
    units = np.ones(points.shape[1])
    units[k:] = np.abs(points[-1, k:]).max()  # precisions' own
    changes = np.diff(steps, axis=0) / units
    size = np.maximum(np.linalg.norm(changes, axis=1), 1e-300)
    gram, target = changes @ changes.T / np.outer(size, size), changes @ (steps[-1] / units) / size
    shares = np.linalg.lstsq(gram, target, rcond=1e-10)[0] / size
    return cast(np.ndarray, steps[-1] - shares @ np.diff(points + steps, axis=0))
