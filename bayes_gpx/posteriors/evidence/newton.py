"""Damped Newton steps to the maximum of a log density of several classes, or of a bound."""

SLACK = 1e-12
"""By how much a step may go down, as a share of the height: as much as round-off does."""


def ascend(state, direction, step, given, steps, halvings, tolerance):
    """Climb from a state by steps that are halved until they do not go down.

    Parameters
    ----------
    state : tuple
        First its height, then how far it is from the one before it, as a share of its size.
    direction : callable
        From a state and `given`: whether there is a direction, and what `step` takes for it.
    step : callable
        From a state, a direction, the share of it and `given`: whether there is a state, and that.
    given : tuple
    steps, halvings : int
        At most so many.
    tolerance : float
        Of the distance between two states; the second is then the last.

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
