"""The numba form of `NormalEvidence`; importing it registers the form with PyTensor.

Numba takes over a second to import, and this package's own fits do without it. A model
that a user is about to sample with PyMC's default backend imports this file.
"""

import numpy as np
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from bayes_gpx import lapack
from bayes_gpx.evidence import NormalEvidence

_potrf, _potrs, _potri = lapack.potrf, lapack.potrs, lapack.potri


@register_funcify_and_cache_key(NormalEvidence)
def _normal_evidence(op, node, **kwargs):
    @numba_njit
    def normal_evidence(C, y):
        n = y.shape[0]
        factor, alpha = C.copy(), y.copy()
        uplo = np.array([ord("L")], np.uint8)
        order, one, info = np.array([n], np.int32), np.array([1], np.int32), np.zeros(1, np.int32)
        u, k, i = uplo.ctypes, order.ctypes, info.ctypes
        _potrf(u, k, factor.ctypes, k, i)
        if info[0] != 0 or not np.isfinite(factor[-1, -1]):
            return np.asarray(-np.inf), np.zeros((n, n)), np.zeros(n)
        half_logdet = 0.0
        for j in range(n):
            half_logdet += np.log(factor[j, j])
        _potrs(u, k, one.ctypes, factor.ctypes, k, alpha.ctypes, k, i)
        logp = -0.5 * np.sum(y * alpha) - half_logdet - 0.5 * n * np.log(2 * np.pi)
        _potri(u, k, factor.ctypes, k, i)
        for r in range(n):
            for c in range(r, n):
                slope = 0.5 * (alpha[r] * alpha[c] - factor[r, c])
                factor[r, c] = slope
                factor[c, r] = slope
        return np.asarray(logp), factor, alpha

    return normal_evidence, None
