import numpy as np


def expquad(X, Xs, lengthscale):
    s2 = (((X[:, None] - Xs[None]) / lengthscale) ** 2).sum(-1)
    return np.exp(-0.5 * s2)


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
