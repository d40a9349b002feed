// Summaries of mixtures of normal distributions, one for each draw, and of functions of f.

// The normal distribution function: a series near 0, a continued fraction in the tails.
function normalCdf(z) {
  if (z > 0) return 1 - normalCdf(-z);
  if (z < -38) return 0;
  const density = Math.exp(-0.5 * z * z) / Math.sqrt(2 * Math.PI);
  if (z > -3) {
    let term = z, sum = z;
    for (let k = 1; Math.abs(term) > 1e-17; k++) sum += term *= (z * z) / (2 * k + 1);
    return 0.5 + density * sum;
  }
  let tail = -z;
  for (let k = 60; k > 0; k--) tail = -z + k / tail;
  return density / tail;
}

function normalQuantile(p) {
  return root((z) => normalCdf(z) - p, -9, 9);
}

// Where an increasing function crosses 0, by bisection.
function root(rise, low, high) {
  for (let step = 0; step < 48; step++) {
    const middle = 0.5 * (low + high);
    if (rise(middle) < 0) low = middle;
    else high = middle;
  }
  return 0.5 * (low + high);
}

// Mean, sd and equal-tailed interval of an equal mixture of normals.
function summary(means, variances, prob) {
  const n = means.length, sds = variances.map((v) => Math.sqrt(Math.max(0, v)));
  const mean = average(means);
  const variance = average(means.map((m, s) => variances[s] + (m - mean) ** 2));
  const low = Math.min(...means.map((m, s) => m - 9 * sds[s]));
  const high = Math.max(...means.map((m, s) => m + 9 * sds[s]));
  const quantile = (p) => {
    if (!(high > low)) return mean;
    const below = (value) => {
      let total = 0;
      for (let s = 0; s < n; s++) {
        const z = (value - means[s]) / sds[s];
        total += sds[s] > 0 ? normalCdf(z) : value >= means[s] ? 1 : 0;
      }
      return total / n - p;
    };
    return root(below, low, high);
  };
  return { mean, sd: Math.sqrt(variance), low: quantile((1 - prob) / 2), high: quantile((1 + prob) / 2) };
}

// Mean, sd, interval of numbers; the mean is replaced where it is known exactly.
function summaryOf(values, prob, exact = average(values)) {
  const sorted = Float64Array.from(values).sort(), mean = average(values);
  const variance = average(Array.from(values, (v) => (v - mean) ** 2));
  const at = (p) => {
    const place = Math.min(Math.max(p * sorted.length - 0.5, 0), sorted.length - 1);
    const below = Math.floor(place), above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
  };
  return { mean: exact, sd: Math.sqrt(variance), low: at((1 - prob) / 2), high: at((1 + prob) / 2) };
}

function average(values) {
  let total = 0;
  for (const value of values) total += value;
  return total / values.length;
}

// Independent normals of a draw that are the same at every call, so that nothing jumps under a slider.
function normals(count, draw) {
  let state = (20261126 + Math.imul(draw, 0x9e3779b1)) | 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return Float64Array.from({ length: count }, () =>
    Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()),
  );
}
