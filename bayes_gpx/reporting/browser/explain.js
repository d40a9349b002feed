// What the page shows, computed from the posterior of each draw. Points are on the model's scale:
// the columns of X and, of a GPX, those of Z. Results are in user units.

const FUNCTIONS = 1000; // functions of f, over all draws, for intervals on the response scale

function bytes(text) {
  const binary = atob(text), found = new Uint8Array(binary.length);
  for (let i = 0; i < found.length; i++) found[i] = binary.charCodeAt(i);
  return found.buffer;
}

function modelOf(data) {
  const flat = new Float64Array(bytes(data.state.rows)), width = data.state.columns;
  const rows = Array.from({ length: flat.length / width }, (_, i) => Array.from(flat.subarray(i * width, (i + 1) * width)));
  const state = { form: data.state.form, rows, jitter: data.state.jitter };
  const draws = data.draws.map((draw) =>
    posteriorOf(state, {
      ...draw,
      beta: new Float64Array(bytes(draw.beta)),
      factor: Float64Array.from(new Int16Array(bytes(draw.factor)), (steps) => draw.step * steps),
    }),
  );
  const response = data.response && {
    ...data.response,
    tables: data.response.tables.map(({ values, slopes, ...rest }) => ({
      ...rest,
      values: new Float64Array(bytes(values)),
      slopes: new Float64Array(bytes(slopes)),
    })),
  };
  const each = Math.max(1, Math.floor(FUNCTIONS / draws.length));
  return { ...data, draws, response, each };
}

const tableOf = (model, s) => model.response.tables[model.response.tables.length === 1 ? 0 : s];
const onResponse = (model, scale) => scale === "response" && model.response !== null;

// Summary of a linear function of f, by its moments at each draw, in user units.
function latent(model, each, unit = 1, offset = 0) {
  const factor = unit * model.scale.factor;
  return summary(
    each.map((own) => offset + factor * own.mean),
    each.map((own) => factor * factor * own.variance),
    model.prob,
  );
}

// Variance of the own deviations of a row's weights.
function deviation(model, draw, x) {
  return draw.deviation.reduce((total, sd, l) => total + (sd * x[model.width + l]) ** 2, 0);
}

// The prediction without a row's own deviations: what explanations add up to.
function smooth(model, x, scale) {
  return curve(model, [x], scale)[0];
}

// The prediction: f, the mean response, and the interval of a new response if noise is normal.
function predict(model, x, scale) {
  const each = model.draws.map((draw) => {
    const [own] = valuesAt(draw, [x]);
    return { mean: own.mean, variance: own.variance + deviation(model, draw, x), prior: own.prior };
  });
  const known = 1 - average(each.map((own) => own.variance / (own.prior || 1)));
  if (onResponse(model, scale)) return { ...ofResponse(model, each), known };
  const found = { ...latent(model, each, 1, model.scale.center), known };
  if (model.draws[0].noise === null) return found;
  const noisy = each.map((own, s) => ({ ...own, variance: own.variance + model.draws[s].noise ** 2 }));
  return { ...found, y: latent(model, noisy, 1, model.scale.center) };
}

// The mean response of normal f at each draw.
function ofResponse(model, each) {
  const { center, factor } = model.response, count = 2 * Math.ceil(model.each / 2) + 1;
  let mean = 0, square = 0;
  const values = [];
  each.forEach((own, s) => {
    const table = tableOf(model, s), [first, second] = expected(table, own.mean + center, own.variance);
    mean += first / each.length;
    square += second / each.length;
    for (let i = 0; i < count; i++) {
      const z = quantileNodes(count)[i];
      values.push(factor * respond(table, own.mean + center + Math.sqrt(own.variance) * z)[0]);
    }
  });
  const found = summaryOf(values, model.prob, factor * mean);
  return { ...found, sd: factor * Math.sqrt(Math.max(0, square - mean * mean)) };
}

const nodesKept = new Map();

// Normal quantiles at the middles of equal shares of probability.
function quantileNodes(count) {
  if (!nodesKept.has(count)) {
    nodesKept.set(count, Array.from({ length: count }, (_, i) => normalQuantile((i + 0.5) / count)));
  }
  return nodesKept.get(count);
}

// The features that paths move: columns of X, with those of Z where these are X.
function movingFeatures(model) {
  return model.features.filter(({ columns }) => columns[0] < model.width);
}

// How each of their columns moves from `start` to `x`, as a direction.
function moves(model, start, x) {
  return movingFeatures(model).map(({ columns }) => ({ columns, rates: columns.map((c) => x[c] - start[c]) }));
}

// Integrated gradients of each feature, and the difference that they add up to.
function attributions(model, x, start, scale) {
  const directions = moves(model, start, x);
  if (onResponse(model, scale)) return alongPath(model, x, start, directions);
  const each = model.draws.map((draw) => integralsAlong(draw, start, x, directions));
  return directions.map((_, j) => latent(model, each.map((own) => own[j])));
}

// On the response scale: integrals of S'(f) f_j. Means are exact for normal f, by Stein's identity
// E S'(f) g = E S'(f) E g + Cov(f, g) E S''(f); intervals are those of random functions.
function alongPath(model, x, start, directions) {
  const { center, factor } = model.response;
  const values = directions.map(() => []), means = directions.map(() => 0);
  model.draws.forEach((draw, s) => {
    const table = tableOf(model, s), { points, weights } = path(draw, start, x), T = points.length;
    const at = points.map((point) => slopesAt(draw, point, directions));
    const jet = jetOf(draw.form, draw.numbers, directions), out = new Float64Array(1 + 3 * directions.length);
    const pairs = points.map((p, t) =>
      points.slice(0, t + 1).map((q) => {
        jet(p, q, out);
        return Float64Array.from(out);
      }),
    );
    const J = directions.length, random = normals(model.each * 2 * T);
    directions.forEach((_, j) => {
      // The joint distribution of f, which comes first, and of its derivative at all nodes.
      const prior = (a, b) => {
        const [t, u] = [a % T, b % T], pair = pairs[Math.max(t, u)][Math.min(t, u)];
        const [first, second] = [a >= T, b >= T];
        if (!first && !second) return pair[0];
        if (first && second) return pair[1 + 2 * J + j];
        return pair[(first ? t >= u : u > t) ? 1 + j : 1 + J + j];
      };
      const all = [...at.map((own) => own[0]), ...at.map((own) => own[1 + j])];
      const functions = jointDraws(all, prior, random, model.each);
      for (const f of functions) {
        let total = 0;
        for (let t = 0; t < T; t++) total += weights[t] * respond(table, f[t] + center)[1] * f[T + t];
        values[j].push(factor * total);
      }
      for (let t = 0; t < T; t++) {
        const [f, g] = [all[t], all[T + t]], [, , slope, bend] = expected(table, f.mean + center, f.variance);
        means[j] += (factor * weights[t] * (slope * g.mean + bend * covariance(f, g, prior(t, T + t)))) / model.draws.length;
      }
    });
  });
  return values.map((own, j) => summaryOf(own, model.prob, means[j]));
}

// Joint draws of linear functions of f, from their posterior moments.
function jointDraws(functions, prior, random, count) {
  const k = functions.length, C = new Float64Array((k * (k + 1)) / 2);
  let largest = 0;
  for (let a = 0, at = 0; a < k; a++) {
    for (let b = 0; b <= a; b++, at++) C[at] = covariance(functions[a], functions[b], prior(a, b));
    largest = Math.max(largest, C[at - 1]);
  }
  for (let a = 0; a < k; a++) C[(a * (a + 3)) / 2] += 1e-9 * largest;
  semidefiniteRoot(C, k);
  return Array.from({ length: count }, (_, n) =>
    functions.map((own, a) => {
      let sum = own.mean;
      for (let b = 0, row = (a * (a + 1)) / 2; b <= a; b++) sum += C[row + b] * random[n * k + b];
      return sum;
    }),
  );
}

// As `cholesky`, where pivots of round-off are 0, and so are their columns.
function semidefiniteRoot(A, m) {
  for (let i = 0, row = 0; i < m; row += ++i) {
    for (let j = 0, other = 0; j <= i; other += ++j) {
      let sum = A[row + j];
      for (let k = 0; k < j; k++) sum -= A[row + k] * A[other + k];
      if (i === j) A[row + j] = sum > 0 ? Math.sqrt(sum) : 0;
      else A[row + j] = A[other + j] > 0 ? sum / A[other + j] : 0;
    }
  }
  return A;
}

const MOST_PLAYERS = 8;

// Shapley values of each feature: the average change over all orders in which features can change.
function shapleyValues(model, x, start, scale) {
  const features = movingFeatures(model), J = features.length, size = 1 << J;
  const points = Array.from({ length: size }, (_, mask) => {
    const point = start.slice();
    features.forEach(({ columns }, j) => {
      if (mask & (1 << j)) for (const c of columns) point[c] = x[c];
    });
    return point;
  });
  const shares = sharesOf(J);
  if (onResponse(model, scale)) return shapleyOfResponse(model, points, shares);
  const each = model.draws.map((draw) => {
    const jet = jetOf(draw.form, draw.numbers, []), out = new Float64Array(1);
    const found = shares.map(() => ({ c: new Float64Array(draw.m), prior: 0 }));
    points.forEach((p, mask) => {
      for (let r = 0; r < draw.m; r++) {
        jet(p, draw.rows[r], out);
        for (let j = 0; j < J; j++) found[j].c[r] += shares[j][mask] * out[0];
      }
      for (let other = 0; other <= mask; other++) {
        jet(p, points[other], out);
        const twice = other === mask ? 1 : 2;
        for (let j = 0; j < J; j++) found[j].prior += twice * shares[j][mask] * shares[j][other] * out[0];
      }
    });
    return found.map(({ c, prior }) => linear(draw, c, prior));
  });
  return shares.map((_, j) => latent(model, each.map((own) => own[j])));
}

// The weight of each coalition's value in each feature's Shapley value.
function sharesOf(J) {
  const factorial = [1];
  for (let k = 1; k <= J; k++) factorial.push(k * factorial[k - 1]);
  return Array.from({ length: J }, (_, j) =>
    Float64Array.from({ length: 1 << J }, (_, mask) => {
      let size = 0;
      for (let k = 0; k < J; k++) size += (mask >> k) & 1;
      if (mask & (1 << j)) return (factorial[size - 1] * factorial[J - size]) / factorial[J];
      return (-factorial[size] * factorial[J - size - 1]) / factorial[J];
    }),
  );
}

function shapleyOfResponse(model, points, shares) {
  const { center, factor } = model.response, values = shares.map(() => []), means = shares.map(() => 0);
  const random = normals(model.each * points.length);
  model.draws.forEach((draw, s) => {
    const table = tableOf(model, s), at = valuesAt(draw, points), prior = priorOfValues(draw, points);
    const expectations = at.map((own) => expected(table, own.mean + center, own.variance)[0]);
    for (const f of jointDraws(at, (a, b) => prior[a][b], random, model.each)) {
      const responses = f.map((value) => respond(table, value + center)[0]);
      shares.forEach((own, j) => values[j].push(factor * dot(own, responses)));
    }
    shares.forEach((own, j) => (means[j] += (factor * dot(own, expectations)) / model.draws.length));
  });
  return values.map((own, j) => summaryOf(own, model.prob, means[j]));
}

// Slopes of the numeric features at x, each per unit; null for categories.
function slopes(model, x, scale) {
  const features = movingFeatures(model), numeric = features.filter((feature) => feature.kind !== "category");
  const directions = numeric.map(({ columns, scale: unit }) => ({ columns, rates: columns.map(() => 1 / unit) }));
  const each = model.draws.map((draw) => slopesAt(draw, x, directions));
  const found = numeric.map((feature, j) => {
    const pairs = each.map((own) => [own[0], own[1 + j]]);
    const of = onResponse(model, scale) ? slopeOfResponse(model, pairs) : latent(model, pairs.map(([, g]) => g));
    return [feature.name, of];
  });
  const known = new Map(found);
  return features.map((feature) => known.get(feature.name) ?? null);
}

function slopeOfResponse(model, pairs) {
  const { center, factor } = model.response, values = [], random = normals(2 * model.each);
  let mean = 0;
  pairs.forEach(([f, g], s) => {
    const table = tableOf(model, s), [, , slope, bend] = expected(table, f.mean + center, f.variance);
    mean += (factor * (slope * g.mean + bend * covariance(f, g, g.priorWithValue))) / pairs.length;
    const prior = (a, b) => (a + b === 0 ? f.prior : a + b === 2 ? g.prior : g.priorWithValue);
    for (const [value, rate] of jointDraws([f, g], prior, random, model.each)) {
      values.push(factor * respond(table, value + center)[1] * rate);
    }
  });
  return summaryOf(values, model.prob, mean);
}

// Weights and contributions of a GPX at x: f is linear in z, so they are its derivatives in z.
// Of a category the weight is that of its level, and the contribution that of all its indicators.
function weights(model, x) {
  const shown = model.weights.filter(({ column, columns }) => columns.length === 1 || x[column] > 0);
  const alongs = shown.flatMap(({ column, columns }) => [
    { columns: [column], rates: [1] },
    { columns, rates: columns.map((c) => x[c]) },
  ]);
  const each = model.draws.map((draw) =>
    slopesAt(draw, x, alongs)
      .slice(1)
      .map((own, k) => ({ mean: own.mean, variance: own.variance + deviationAlong(model, draw, alongs[k]) })),
  );
  return shown.map(({ name, scale: unit }, l) => ({
    name,
    weight: latent(model, each.map((draw) => draw[2 * l]), 1 / unit),
    contribution: latent(model, each.map((draw) => draw[2 * l + 1])),
  }));
}

function deviationAlong(model, draw, { columns, rates }) {
  return columns.reduce((total, c, i) => total + (draw.deviation[c - model.width] * rates[i]) ** 2, 0);
}

// The prediction at x minus that at another point.
function comparison(model, x, other, scale) {
  const values = [];
  let mean = 0;
  const random = normals(2 * model.each), response = onResponse(model, scale);
  const each = model.draws.map((draw, s) => {
    const at = valuesAt(draw, [x, other]), prior = priorOfValues(draw, [x, other]);
    if (response) {
      const { center, factor } = model.response, table = tableOf(model, s);
      const [first, second] = at.map((own) => expected(table, own.mean + center, own.variance)[0]);
      mean += (factor * (first - second)) / model.draws.length;
      for (const f of jointDraws(at, (a, b) => prior[a][b], random, model.each)) {
        values.push(factor * (respond(table, f[0] + center)[0] - respond(table, f[1] + center)[0]));
      }
    }
    const shared = covariance(at[0], at[1], prior[0][1]);
    return { mean: at[0].mean - at[1].mean, variance: at[0].variance + at[1].variance - 2 * shared };
  });
  return response ? summaryOf(values, model.prob, mean) : latent(model, each);
}

// Predictions of the smooth function at several points.
function curve(model, points, scale) {
  const each = model.draws.map((draw) => valuesAt(draw, points));
  return points.map((_, i) => {
    const own = each.map((draw) => draw[i]);
    return onResponse(model, scale) ? ofResponse(model, own) : latent(model, own, 1, model.scale.center);
  });
}
