// The posterior of each draw: moments of linear functions of f.
//
// f is known by its exact posterior at chosen rows R, and between these by the prior, given its
// values there. With K = L L' the prior covariance at R, a linear function with covariances c with
// f(R) is v = L^-1 c. The posterior mean of f(R) is stored as `beta` = L^-1 mean, and its covariance
// S as the root F of L^-1 S L^-T. Then a function has the mean v' beta, and two have the covariance
// prior - v_1' v_2 + (F' v_1)' (F' v_2).

const PANEL = 4; // lengthscales that a path's nodes cover: longer paths have more panels


function posteriorOf(state, draw) {
  const { form, columns, rows } = state, m = rows.length;
  const posterior = { form, rows, m, ...draw };
  const jet = jetOf(form, draw.numbers, []), out = new Float64Array(1);
  const L = new Float64Array((m * (m + 1)) / 2); // row by row, without what is above the diagonal
  for (let i = 0, at = 0; i < m; i++) {
    for (let j = 0; j <= i; j++, at++) {
      jet(rows[i], rows[j], out);
      L[at] = out[0];
    }
  }
  let mean = 0;
  for (let i = 0; i < m; i++) mean += L[(i * (i + 1)) / 2 + i] / m;
  for (let i = 0; i < m; i++) L[(i * (i + 1)) / 2 + i] += state.jitter * mean;
  posterior.L = cholesky(L, m);
  return posterior;
}

// The triangular root of a packed symmetric matrix, in place.
function cholesky(A, m) {
  for (let i = 0, row = 0; i < m; row += ++i) {
    for (let j = 0, other = 0; j <= i; other += ++j) {
      let sum = A[row + j];
      for (let k = 0; k < j; k++) sum -= A[row + k] * A[other + k];
      A[row + j] = i === j ? Math.sqrt(Math.max(sum, 0)) : sum / A[other + j];
    }
  }
  return A;
}

// L^-1 c, in place.
function whitened(L, c) {
  for (let i = 0, row = 0; i < c.length; row += ++i) {
    let sum = c[i];
    for (let k = 0; k < i; k++) sum -= L[row + k] * c[k];
    c[i] = sum / L[row + i];
  }
  return c;
}

// F' v, for a packed triangular F.
function rooted(F, v) {
  const found = new Float64Array(v.length);
  for (let i = 0, row = 0; i < v.length; row += ++i) {
    const own = v[i];
    for (let k = 0; k <= i; k++) found[k] += F[row + k] * own;
  }
  return found;
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

// A linear function of f, by its covariances c with f at the rows and its prior variance.
function linear(posterior, c, prior) {
  const v = whitened(posterior.L, c), Fv = rooted(posterior.factor, v);
  return { v, Fv, prior, mean: dot(v, posterior.beta), variance: Math.max(0, prior - dot(v, v) + dot(Fv, Fv)) };
}

// The posterior covariance of two of them, given their prior covariance.
function covariance(one, other, prior) {
  return prior - dot(one.v, other.v) + dot(one.Fv, other.Fv);
}

// f at each of several points.
function valuesAt(posterior, points) {
  const jet = jetOf(posterior.form, posterior.numbers, []), out = new Float64Array(1);
  return points.map((x) => {
    const c = new Float64Array(posterior.m);
    for (let r = 0; r < c.length; r++) {
      jet(x, posterior.rows[r], out);
      c[r] = out[0];
    }
    jet(x, x, out);
    return linear(posterior, c, out[0]);
  });
}

// Prior covariances of f at pairs of points.
function priorOfValues(posterior, points) {
  const jet = jetOf(posterior.form, posterior.numbers, []), out = new Float64Array(1);
  return points.map((x) =>
    points.map((y) => {
      jet(x, y, out);
      return out[0];
    }),
  );
}

// Derivatives at a point along directions, and f there, which comes first.
function slopesAt(posterior, x, directions) {
  const J = directions.length, m = posterior.m;
  const jet = jetOf(posterior.form, posterior.numbers, directions), out = new Float64Array(1 + 3 * J);
  const each = Array.from({ length: 1 + J }, () => new Float64Array(m));
  for (let r = 0; r < m; r++) {
    jet(x, posterior.rows[r], out);
    for (let j = 0; j <= J; j++) each[j][r] = out[j];
  }
  jet(x, x, out);
  return each.map((c, j) => {
    const found = linear(posterior, c, j === 0 ? out[0] : out[2 * J + j]);
    found.priorWithValue = j === 0 ? out[0] : out[j];
    return found;
  });
}

// Integrals along the straight path from `start` to `end` of the derivatives along directions, each
// of which has the rates of its columns on the path.
function integralsAlong(posterior, start, end, directions) {
  const J = directions.length, m = posterior.m;
  const { times, points, weights } = path(posterior, start, end);
  const jet = jetOf(posterior.form, posterior.numbers, directions), out = new Float64Array(1 + 3 * J);
  const each = Array.from({ length: J }, () => new Float64Array(m)), prior = new Float64Array(J);
  for (let t = 0; t < points.length; t++) {
    for (let r = 0; r < m; r++) {
      jet(points[t], posterior.rows[r], out);
      for (let j = 0; j < J; j++) each[j][r] += weights[t] * out[1 + j];
    }
    // Twice the integral over pairs with u < t, where rough kernels have no kink: u = t nodes.
    for (let v = 0; v < points.length; v++) {
      const u = times[t] * times[v];
      jet(points[t], between(start, end, u), out);
      const weight = 2 * weights[t] * weights[v] * times[t];
      for (let j = 0; j < J; j++) prior[j] += weight * out[1 + 2 * J + j];
    }
  }
  return each.map((c, j) => linear(posterior, c, prior[j]));
}

// Gauss-Legendre nodes of a path: more on long paths.
function path(posterior, start, end) {
  const panels = Math.min(16, 1 + Math.floor(lengthOf(posterior, start, end) / PANEL));
  const times = [], weights = [];
  for (let p = 0; p < panels; p++) {
    NODES.forEach((node, i) => {
      times.push((p + 0.5 + 0.5 * node) / panels);
      weights.push((0.5 * WEIGHTS[i]) / panels);
    });
  }
  return { times, weights, points: times.map((t) => between(start, end, t)) };
}

function between(start, end, t) {
  return start.map((value, c) => value + t * (end[c] - value));
}

// The largest number of lengthscales between two points, over the stationary kernels.
function lengthOf(posterior, start, end, form = posterior.form) {
  if (form.parts) return Math.max(...form.parts.map((part) => lengthOf(posterior, start, end, part)));
  if (form.lengthscale === undefined) return 0;
  const scales = spread(posterior.numbers[form.lengthscale], form.columns);
  const periods = form.period === null ? scales.map(() => Infinity) : spread(posterior.numbers[form.period], form.columns);
  return Math.hypot(...form.columns.map((c, i) => (end[c] - start[c]) / Math.min(scales[i], periods[i] / 6)));
}

// Nodes and weights of Gauss and Legendre on [-1, 1], by Newton's method on the polynomial.
function gaussLegendre(n) {
  const nodes = [], weights = [];
  for (let i = 0; i < n; i++) {
    let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5)), slope = 1;
    for (let step = 0; step < 20; step++) {
      let before = 1, value = x;
      for (let k = 2; k <= n; k++) [before, value] = [value, ((2 * k - 1) * x * value - (k - 1) * before) / k];
      slope = (n * (x * value - before)) / (x * x - 1);
      x -= value / slope;
    }
    nodes.push(x);
    weights.push(2 / ((1 - x * x) * slope * slope));
  }
  return { nodes, weights };
}

const { nodes: NODES, weights: WEIGHTS } = gaussLegendre(10);
