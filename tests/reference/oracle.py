"""Truth for the tests: plain NumPy and mpmath, sharing no code with the package.

A kernel is written once, for a pair of points, with the functions of a module `m` (numpy or
mpmath). As `expquad(X, Xs, lengthscale)` it gives the matrix of all pairs in double precision;
`derivative` differentiates it at the exact floating-point inputs with 60 digits.
"""

import functools

import mpmath
import numpy as np

# ---- covariance functions ----


def kernel(pair):
    """Let a function of a pair of points (features last) act on all rows of X and of Xs."""

    @functools.wraps(pair)
    def matrix(X, Xs, *parameters):
        X, Xs = np.asarray(X, float)[:, None, :], np.asarray(Xs, float)[None, :, :]
        return pair(X, Xs, *parameters, m=np) + np.zeros((X.shape[0], Xs.shape[1]))

    matrix.pair = pair
    return matrix


def squared_distance(x, xs, lengthscale):
    return (((x - xs) / lengthscale) ** 2).sum(-1)


@kernel
def expquad(x, xs, lengthscale, m=np):
    return m.exp(-squared_distance(x, xs, lengthscale) / 2)


@kernel
def matern52(x, xs, lengthscale, m=np):
    z = m.sqrt(5 * squared_distance(x, xs, lengthscale))
    return (1 + z + z**2 / 3) * m.exp(-z)


@kernel
def matern32(x, xs, lengthscale, m=np):
    z = m.sqrt(3 * squared_distance(x, xs, lengthscale))
    return (1 + z) * m.exp(-z)


@kernel
def matern12(x, xs, lengthscale, m=np):
    return m.exp(-m.sqrt(squared_distance(x, xs, lengthscale)))


@kernel
def exponential(x, xs, lengthscale, m=np):
    return m.exp(-m.sqrt(squared_distance(x, xs, lengthscale)) / 2)


@kernel
def cosine(x, xs, lengthscale, m=np):
    return m.cos(2 * m.pi * m.sqrt(squared_distance(x, xs, lengthscale)))


@kernel
def ratquad(x, xs, lengthscale, alpha, m=np):
    return m.exp(-alpha * m.log1p(squared_distance(x, xs, lengthscale) / (2 * alpha)))


@kernel
def periodic(x, xs, lengthscale, period, m=np):
    return m.exp(-_chord(x, xs, lengthscale, period, m) / 2)


@kernel
def periodic_matern52(x, xs, lengthscale, period, m=np):
    z = m.sqrt(5 * _chord(x, xs, lengthscale, period, m))
    return (1 + z + z**2 / 3) * m.exp(-z)


def _chord(x, xs, lengthscale, period, m):
    sine = np.sin if m is np else np.frompyfunc(m.sin, 1, 1)
    return ((sine(m.pi * (x - xs) / period) / lengthscale) ** 2).sum(-1)


@kernel
def linear(x, xs, center, m=np):
    return ((x - center) * (xs - center)).sum(-1)


@kernel
def polynomial(x, xs, center, offset, degree, m=np):
    return (((x - center) * (xs - center)).sum(-1) + offset) ** degree


@kernel
def constant(x, xs, variance, m=np):
    return variance


@kernel
def gibbs(x, xs, lengthscale, m=np):
    scale, scale_s = lengthscale(x), lengthscale(xs)
    total = scale**2 + scale_s**2
    return m.sqrt(2 * scale * scale_s / total) * m.exp(-((x - xs) ** 2).sum(-1) / total)


def expquad_slopes(X, Xs, lengthscale):
    """Covariances of gradients at X with values and with gradients at Xs, both obs-major."""
    K, d = expquad(X, Xs, lengthscale), X.shape[1]
    precision = np.broadcast_to(1 / np.square(lengthscale), (d,))
    way = (X[:, None, :] - Xs[None, :, :]) * precision
    with_values = -way * K[..., None]
    with_gradients = np.diag(precision) - way[..., :, None] * way[..., None, :]
    with_gradients = with_gradients * K[..., None, None]
    size = len(X) * d
    return (
        with_values.transpose(0, 2, 1).reshape((size, -1)),
        with_gradients.transpose(0, 2, 1, 3).reshape((size, -1)),
    )


def derivative(pair, x, xs, i, j, digits=50):
    """d^i/dx^i d^j/dx'^j of pair(x, xs, m), an array (d repeated i + j times)."""
    d = len(x)

    def function(*values):
        return pair(np.array(values[:d]), np.array(values[d:]), m=mpmath)

    @functools.cache
    def entry(*orders):
        return mpmath.diff(function, point, orders) if sum(orders) else function(*point)

    result = np.zeros((d,) * (i + j))
    with mpmath.workdps(digits):
        point = [mpmath.mpf(float(value)) for value in (*x, *xs)]
        for index in np.ndindex(result.shape):
            slots = [feature + d * (slot >= i) for slot, feature in enumerate(index)]
            result[index] = entry(*(slots.count(slot) for slot in range(2 * d)))
    return result


# ---- GPX: all outputs and the posterior, explicitly ----


class Joint:
    """All outputs of a GPX at training and new samples, as one explicit linear map.

    The independent latents are g_l at every point, eps_w of every sample and feature, and
    eps_y of every sample. Each output is a row of a matrix that acts on them; covariances
    follow from that matrix, and the posterior from Gaussian conditioning on y.

    K : (n + m, n + m) unit-amplitude kernel over training and new points
    Z : (n + m, p); amplitude, sigma_w : (p,) ; sigma : float
    """

    def __init__(self, K, Z, n, *, amplitude, sigma_w, sigma):
        total, p = Z.shape
        amplitude, sigma_w = (np.broadcast_to(v, (p,)) for v in (amplitude, sigma_w))
        g = np.eye(total * p).reshape((total, p, total * p))
        latents = total * p * 2 + total
        self.covariance = np.zeros((latents, latents))
        grid = np.arange(total * p).reshape((total, p))
        for j in range(p):
            self.covariance[np.ix_(grid[:, j], grid[:, j])] = amplitude[j] ** 2 * K
            eps = total * p + grid[:, j]
            self.covariance[eps, eps] = sigma_w[j] ** 2
        noise = 2 * total * p + np.arange(total)
        self.covariance[noise, noise] = sigma**2
        pad = np.zeros((total, p, total))
        self.rows = {
            "smooth_weight": np.concatenate([g, 0 * g, pad], axis=2),
            "weight": np.concatenate([g, g, pad], axis=2),
        }
        self.rows["contribution"] = Z[:, :, None] * self.rows["weight"]
        self.rows["f"] = self.rows["contribution"].sum(axis=1)
        self.rows["smooth_f"] = (Z[:, :, None] * self.rows["smooth_weight"]).sum(axis=1)
        self.rows["y"] = self.rows["f"].copy()
        self.rows["y"][np.arange(total), noise] += 1.0
        self.seen = self.rows["y"][:n]
        self.new, self.train = slice(n, total), slice(0, n)

    def cov(self, A, B):
        return A @ self.covariance @ B.T

    def posterior(self, name, which, y):
        """Mean and full covariance of an output's values, obs-major, given the first n of y."""
        rows = self.rows[name][which]
        rows = rows.reshape((-1, rows.shape[-1]))
        gain = np.linalg.solve(self.cov(self.seen, self.seen), self.cov(self.seen, rows)).T
        return gain @ y, self.cov(rows, rows) - gain @ self.cov(self.seen, rows)

    def log_evidence(self, y):
        return log_normal(y, self.cov(self.seen, self.seen))

    def leave_one_out(self, y):
        """log p(y_i | the others), by conditioning n times."""
        C = self.cov(self.seen, self.seen)
        terms = []
        for i in range(len(y)):
            others = np.delete(np.arange(len(y)), i)
            gain = np.linalg.solve(C[np.ix_(others, others)], C[others, i])
            variance = C[i, i] - gain @ C[others, i]
            terms.append(log_normal(y[[i]] - gain @ y[others], np.array([[variance]])))
        return np.array(terms)


def log_normal(y, C):
    sign, logdet = np.linalg.slogdet(C)
    assert sign > 0
    return -0.5 * (y @ np.linalg.solve(C, y) + logdet + len(y) * np.log(2 * np.pi))


# ---- labels ----


def softmax_laplace(K, y, classes):
    """Laplace's approximation of labels y (n,) by Newton steps with matrices (n C, n C).

    K is the prior covariance of the latent values, rows first. Returns the log evidence, the slope
    (n, C) of log p(y | f) at the mode, the information W there, and the posterior covariance.
    """
    own, n = np.eye(classes)[np.asarray(y).astype(int)], len(y)
    f, eye = np.zeros(n * classes), np.eye(n * classes)
    for _ in range(200):
        p = np.exp(f.reshape((n, classes)))
        p /= p.sum(axis=1, keepdims=True)
        W = np.zeros((n, classes, n, classes))
        for i in range(n):
            W[i, :, i] = np.diag(p[i]) - np.outer(p[i], p[i])
        W = W.reshape(K.shape)
        goal = np.linalg.solve(eye + K @ W, K @ (W @ f + (own - p).ravel()))
        step = goal - f
        f += min(1.0, 2.0 / max(np.abs(step).max(), 1e-300)) * step
        if np.abs(step).max() < 1e-14:
            break
    B = eye + K @ W
    logp = np.log(p[own > 0]).sum() - 0.5 * (own - p).ravel() @ f
    return logp - 0.5 * np.linalg.slogdet(B)[1], own - p, W, np.linalg.solve(B, K)
