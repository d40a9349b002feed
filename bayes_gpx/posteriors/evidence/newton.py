"""Damped Newton steps to the maximum of a log density of several classes, or of a bound."""

SLACK = 1e-12
"""How far a step may go down, as a share of the height: as far as round-off does."""


def ascend(state, direction, step, given, steps, halvings, tolerance):
    """Climb from a state by steps that are halved until they do not go down.

    Parameters
    ----------
    state : tuple
        Begins with its height and its distance from the state before, as a share of its size.
    direction : callable
        From a state and `given` to whether there is a direction, and that, as `step` takes it.
    step : callable
        From a state, a direction, a share of it and `given` to whether there is a state, and that.
    given : tuple
        What both callables take besides.
    steps, halvings : int
        Most steps, and most halvings of one step.
    tolerance : float
        Two states at most this far apart end the climb.

    Returns
    -------
    bool
        Whether there was a direction at every state.
    tuple
        The last state, which is the highest.
    """
    for _ in range(steps):
        there, way = direction(state, given)
        if not there:
            return False, state
        share, higher, tried = 1.0, False, state
        for _ in range(halvings):
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
