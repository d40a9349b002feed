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
  const functions = data.functions.map(({ response, ...own }) => ({
    ...own,
    response: response && {
      ...response,
      tables: response.tables.map(({ values, slopes, ...rest }) => ({
        ...rest,
        values: new Float64Array(bytes(values)),
        slopes: new Float64Array(bytes(slopes)),
      })),
    },
  }));
  const each = Math.max(1, Math.floor(FUNCTIONS / draws.length));
  return showing({ ...data, draws, functions, each, coded: functions.length > 1 || data.kind === "output" }, 0);
}

// The model for explanations of one of its outputs or classes.
const showing = (model, of) => ({ ...model, ...model.functions[of], of });

// A point as it stands in the posterior: with the code of the output or class that is shown, or
// with those of all classes where these make the response.
const coded = (model, x, of = model.of) => (model.coded ? [...x, model.functions[of].code] : x);
const latents = (model, x) => (model.response.softmax ? model.functions.map((_, k) => coded(model, x, k)) : [coded(model, x)]);
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
  return deviations(model, draw).reduce((total, sd, l) => total + (sd * x[model.width + l]) ** 2, 0);
}

// Of each weight: one row for all outputs, or one for each.
const deviations = (model, draw) => draw.deviation[draw.deviation.length === 1 ? 0 : model.functions[model.of].code];

// The prediction without a row's own deviations: what explanations add up to.
function smooth(model, x, scale) {
  return curve(model, [x], scale)[0];
}

// The prediction: f, the mean response, and the interval of a new response if noise is normal.
function predict(model, x, scale) {
  const each = model.draws.map((draw) => {
    const [own] = valuesAt(draw, [coded(model, x)]);
    return { mean: own.mean, variance: own.variance + deviation(model, draw, x) };
  });
  const known = 1 - average(model.draws.map((draw, s) => each[s].variance / (varying(draw, coded(model, x)) || 1)));
  if (onResponse(model, scale)) {
    const moments = model.draws.map((draw) => jointly(draw, latents(model, x), deviation(model, draw, x)));
    return { ...ofResponse(model, moments), known };
  }
  const found = { ...latent(model, each, 1, model.scale.center), known };
  if (model.noise === null) return found;
  const noisy = each.map((own, s) => ({ ...own, variance: own.variance + model.noise[s] ** 2 }));
  return { ...found, y: latent(model, noisy, 1, model.scale.center) };
}

// The prior variance of f at x, without constants: far from the data it comes back.
function varying(draw, x, form = draw.form) {
  if (form.kind === "sum") return form.parts.reduce((total, part) => total + varying(draw, x, part), 0);
  if (form.kind === "product" && form.parts.some(({ kind }) => kind === "sum")) {
    return form.parts.reduce((product, part) => product * (part.kind === "sum" ? varying(draw, x, part) : priorAt(draw, x, part)), 1);
  }
  const still = ({ kind, parts }) => (parts ? parts.every(still) : kind === "constant" || kind === "table" || kind === "same");
  return still(form) ? 0 : priorAt(draw, x, form);
}

function priorAt(draw, x, form) {
  const out = new Float64Array(1);
  jetOf(form, draw.numbers, [])(x, x, out);
  return out[0];
}

// Means and covariances of f at points; each varies by an `own` variance more.
function jointly(draw, points, own = 0) {
  const at = valuesAt(draw, points), prior = priorOfValues(draw, points);
  const C = at.map((a, i) => at.map((b, j) => covariance(a, b, prior[i][j]) + (i === j ? own : 0)));
  return { means: at.map(({ mean }) => mean), C };
}

// The mean response of normal f, from its moments at each draw.
function ofResponse(model, each) {
  let mean = 0, square = 0;
  const values = each.flatMap(({ means, C }, s) => {
    const response = responseOf(model, s), own = response.moments(means, C);
    mean += own.value / each.length;
    square += own.square / each.length;
    return response.values(means, C);
  });
  return { ...summaryOf(values, model.prob, mean), sd: Math.sqrt(Math.max(0, square - mean * mean)) };
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
  const ends = [start, x].map((point) => coded(model, point));
  const each = model.draws.map((draw) => integralsAlong(draw, ...ends, directions));
  return directions.map((_, j) => latent(model, each.map((own) => own[j])));
}

// On the response scale: integrals of the derivatives of S(f).
function alongPath(model, x, start, directions) {
  const values = directions.map(() => []), means = directions.map(() => 0);
  model.draws.forEach((draw, s) => {
    const { points, weights } = path(draw, coded(model, start), coded(model, x));
    const nodes = points.map((point) => latents(model, point.slice(0, x.length)));
    ratesOfResponse(model, draw, s, nodes, directions).forEach(({ drawn, expected }, j) => {
      for (const rates of drawn) values[j].push(dot(weights, rates));
      means[j] += dot(weights, expected) / model.draws.length;
    });
  });
  return values.map((own, j) => summaryOf(own, model.prob, means[j]));
}

// Derivatives of S(f) along directions at nodes, each with its latent values, in one draw: at random
// functions, and expected. These are exact for normal f, by Stein's identity
// E dS/df_k g_k = E dS/df_k E g_k + sum_l Cov(f_l, g_k) E d2S/df_k df_l.
function ratesOfResponse(model, draw, s, nodes, directions) {
  const points = nodes.flat(), P = points.length, C = nodes[0].length, J = directions.length;
  const at = points.map((point) => slopesAt(draw, point, directions)), response = responseOf(model, s);
  const jet = jetOf(draw.form, draw.numbers, directions), out = new Float64Array(1 + 3 * J);
  const pairs = points.map((p, a) =>
    points.slice(0, a + 1).map((q) => {
      jet(p, q, out);
      return Float64Array.from(out);
    }),
  );
  const random = normals(model.each * 2 * P, s), of = (list, t) => list.slice(t * C, (t + 1) * C);
  const moments = nodes.map((_, t) => {
    const own = at.slice(t * C, (t + 1) * C).map(([f]) => f);
    const cov = own.map((a, k) => own.map((b, l) => covariance(a, b, pairs[t * C + Math.max(k, l)][t * C + Math.min(k, l)][0])));
    return response.moments(own.map(({ mean }) => mean), cov);
  });
  return directions.map((_, j) => {
    // The joint distribution of f, which comes first, and of its derivative at all points.
    const prior = (a, b) => {
      const [t, u] = [a % P, b % P], pair = pairs[Math.max(t, u)][Math.min(t, u)];
      const [first, second] = [a >= P, b >= P];
      if (!first && !second) return pair[0];
      if (first && second) return pair[1 + 2 * J + j];
      return pair[(first ? t >= u : u > t) ? 1 + j : 1 + J + j];
    };
    const all = [...at.map((own) => own[0]), ...at.map((own) => own[1 + j])];
    const drawn = jointDraws(all, prior, random, model.each).map((f) =>
      nodes.map((_, t) => dot(response.slopes(of(f, t)), of(f.slice(P), t))),
    );
    const expected = nodes.map((_, t) => {
      let total = 0;
      for (let k = 0; k < C; k++) {
        const g = t * C + k;
        total += moments[t].slopes[k] * all[P + g].mean;
        for (let l = 0; l < C; l++) total += moments[t].bends[k][l] * covariance(all[t * C + l], all[P + g], prior(t * C + l, P + g));
      }
      return total;
    });
    return { drawn, expected };
  });
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

const MOST_PLAYED = 256; // values of f: those of all classes, where some of the features change

const playable = (model) => (1 << movingFeatures(model).length) * (model.response?.softmax ? model.functions.length : 1) <= MOST_PLAYED;

// Shapley values of each feature: the average change over all orders in which features can change.
function shapleyValues(model, x, start, scale) {
  const features = movingFeatures(model), J = features.length, size = 1 << J;
  const moved = features.map(({ columns }) => columns.some((c) => x[c] !== start[c]));
  const points = Array.from({ length: size }, (_, mask) => {
    const point = start.slice();
    features.forEach(({ columns }, j) => {
      if (mask & (1 << j)) for (const c of columns) point[c] = x[c];
    });
    return point;
  });
  const shares = sharesOf(J);
  const unmoved = { mean: 0, sd: 0, low: 0, high: 0 }, clean = (all) => all.map((own, j) => (moved[j] ? own : unmoved));
  if (onResponse(model, scale)) return clean(shapleyOfResponse(model, points, shares));
  const known = points.map((point) => coded(model, point));
  const each = model.draws.map((draw) => {
    const jet = jetOf(draw.form, draw.numbers, []), out = new Float64Array(1);
    const found = shares.map(() => ({ c: new Float64Array(draw.m), prior: 0 }));
    known.forEach((p, mask) => {
      for (let r = 0; r < draw.m; r++) {
        jet(p, draw.rows[r], out);
        for (let j = 0; j < J; j++) found[j].c[r] += shares[j][mask] * out[0];
      }
      for (let other = 0; other <= mask; other++) {
        jet(p, known[other], out);
        const twice = other === mask ? 1 : 2;
        for (let j = 0; j < J; j++) found[j].prior += twice * shares[j][mask] * shares[j][other] * out[0];
      }
    });
    return found.map(({ c, prior }) => linear(draw, c, prior));
  });
  return clean(shares.map((_, j) => latent(model, each.map((own) => own[j]))));
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
  const values = shares.map(() => []), means = shares.map(() => 0);
  model.draws.forEach((draw, s) => {
    const { drawn, expected } = responsesAt(model, draw, s, points);
    for (const responses of drawn) shares.forEach((own, j) => values[j].push(dot(own, responses)));
    shares.forEach((own, j) => (means[j] += dot(own, expected) / model.draws.length));
  });
  return values.map((own, j) => summaryOf(own, model.prob, means[j]));
}

// S(f) at several points in one draw: at random functions, and expected.
function responsesAt(model, draw, s, points) {
  const known = points.flatMap((point) => latents(model, point)), C = known.length / points.length;
  const at = valuesAt(draw, known), prior = priorOfValues(draw, known), response = responseOf(model, s);
  const own = (t) => Array.from({ length: C }, (_, k) => t * C + k);
  const expected = points.map((_, t) => {
    const cov = own(t).map((a) => own(t).map((b) => covariance(at[a], at[b], prior[a][b])));
    return response.moments(own(t).map((a) => at[a].mean), cov).value;
  });
  const random = normals(model.each * known.length, s);
  const drawn = jointDraws(at, (a, b) => prior[a][b], random, model.each).map((f) => points.map((_, t) => response.value(own(t).map((a) => f[a]))));
  return { drawn, expected };
}

// Slopes of the numeric features at x, each per unit; null for categories.
function slopes(model, x, scale) {
  const features = movingFeatures(model), numeric = features.filter((feature) => feature.kind !== "category");
  const directions = numeric.map(({ columns, scale: unit }) => ({ columns, rates: columns.map(() => 1 / unit) }));
  let all;
  if (onResponse(model, scale)) {
    const each = model.draws.map((draw, s) => ratesOfResponse(model, draw, s, [latents(model, x)], directions));
    all = numeric.map((_, j) => {
      const values = each.flatMap((own) => own[j].drawn.map(([rate]) => rate));
      return summaryOf(values, model.prob, average(each.map((own) => own[j].expected[0])));
    });
  } else {
    const each = model.draws.map((draw) => slopesAt(draw, coded(model, x), directions));
    all = numeric.map((_, j) => latent(model, each.map((own) => own[1 + j])));
  }
  const known = new Map(numeric.map(({ name }, j) => [name, all[j]]));
  return features.map((feature) => known.get(feature.name) ?? null);
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
    slopesAt(draw, coded(model, x), alongs)
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
  return columns.reduce((total, c, i) => total + (deviations(model, draw)[c - model.width] * rates[i]) ** 2, 0);
}

// The prediction at x minus that at another point.
function comparison(model, x, other, scale) {
  if (onResponse(model, scale)) {
    const each = model.draws.map((draw, s) => responsesAt(model, draw, s, [x, other]));
    const values = each.flatMap(({ drawn }) => drawn.map(([one, two]) => one - two));
    return summaryOf(values, model.prob, average(each.map(({ expected: [one, two] }) => one - two)));
  }
  const each = model.draws.map((draw) => {
    const { means, C } = jointly(draw, [coded(model, x), coded(model, other)]);
    return { mean: means[0] - means[1], variance: C[0][0] + C[1][1] - 2 * C[0][1] };
  });
  return latent(model, each);
}

// Predictions of the smooth function at several points.
function curve(model, points, scale) {
  if (onResponse(model, scale)) {
    return points.map((x) => ofResponse(model, model.draws.map((draw) => jointly(draw, latents(model, x)))));
  }
  const each = model.draws.map((draw) => valuesAt(draw, points.map((x) => coded(model, x))));
  return points.map((_, i) => latent(model, each.map((draw) => draw[i]), 1, model.scale.center));
}
