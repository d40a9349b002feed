// The mean response S of the latent values of a point: of one value by a table of S and S', or the
// probability of a class by the softmax of the values of all classes.

// S(f) from a table of values and slopes at equal steps of f: cubic between them.
// Returns S, S' and S''. Beyond the table the response is that at its end.
function respond(table, f) {
  const { low, step, values, slopes } = table, last = values.length - 1;
  const place = Math.min(Math.max((f - low) / step, 0), last);
  const k = Math.min(Math.floor(place), last - 1), t = place - k;
  const a = values[k], b = values[k + 1], p = step * slopes[k], q = step * slopes[k + 1];
  const c = 3 * (b - a) - 2 * p - q, d = p + q - 2 * (b - a);
  const inside = place > 0 && place < last;
  return [
    a + t * (p + t * (c + t * d)),
    inside ? (p + t * (2 * c + 3 * t * d)) / step : 0,
    inside ? (2 * c + 6 * t * d) / (step * step) : 0,
  ];
}

const GRID = { reach: 6.5, count: 105 }; // of expectations over normal f: the trapezoid rule

// E S, E S^2, E S' and E S'' of f ~ N(mean, variance).
function expected(table, mean, variance) {
  const sd = Math.sqrt(Math.max(variance, 0)), found = [0, 0, 0, 0];
  let total = 0;
  for (let i = 0; i < GRID.count; i++) {
    const z = GRID.reach * ((2 * i) / (GRID.count - 1) - 1), weight = Math.exp(-0.5 * z * z);
    const [value, slope, bend] = respond(table, mean + sd * z);
    total += weight;
    found[0] += weight * value;
    found[1] += weight * value * value;
    found[2] += weight * slope;
    found[3] += weight * bend;
  }
  return found.map((sum) => sum / total);
}

// A response of draw s in user units. Its functions take the latent values f of a point, or their
// means and covariances: `moments` are E S, E S^2, and of the derivatives of S the expectations of
// the first and the second; `values` are S at points that stand for the normal distribution.
function responseOf(model, s) {
  const { center, factor, tables, softmax } = model.response;
  if (softmax) return probabilityOf(model, s);
  const table = tables[tables.length === 1 ? 0 : s];
  return {
    value: ([f]) => factor * respond(table, f + center)[0],
    slopes: ([f]) => [factor * respond(table, f + center)[1]],
    moments: ([mean], [[variance]]) => {
      const [value, square, slope, bend] = expected(table, mean + center, variance);
      return { value: factor * value, square: factor * factor * square, slopes: [factor * slope], bends: [[factor * bend]] };
    },
    values: ([mean], [[variance]]) => {
      const sd = Math.sqrt(Math.max(0, variance));
      return quantileNodes(2 * Math.ceil(model.each / 2) + 1).map((z) => factor * respond(table, mean + center + sd * z)[0]);
    },
  };
}

const NODES_OF_CLASSES = 2048; // of all draws, each with others; and as many mirror images

function probabilityOf({ functions, draws, of, each }, s) {
  const size = functions.length, nodes = Math.max(64, Math.ceil(NODES_OF_CLASSES / draws.length));
  const softmax = (f, p) => {
    let largest = f[0], total = 0;
    for (let k = 1; k < size; k++) largest = Math.max(largest, f[k]);
    for (let k = 0; k < size; k++) total += p[k] = Math.exp(f[k] - largest);
    for (let k = 0; k < size; k++) p[k] /= total;
    return p;
  };
  // The probabilities at points of the normal distribution. They depend on differences alone: here
  // of all classes from the first, so that the expected probabilities of all add up to 1.
  const over = (means, C, count, found) => {
    const apart = C.map((row, k) => row.map((value, l) => value - C[k][0] - C[0][l] + C[0][0]));
    const root = rootOf(apart), z = spreadNormals(size - 1, count, s * count);
    const f = new Float64Array(size), p = new Float64Array(size);
    for (const sign of [1, -1]) {
      for (let n = 0, at = -1; n < count; n++, at += size - 1) {
        for (let k = 1; k < size; k++) {
          let sum = means[k] - means[0];
          for (let l = 1; l <= k; l++) sum += sign * root[k][l] * z[at + l];
          f[k] = sum;
        }
        found(softmax(f, p));
      }
    }
  };
  const ours = (k) => Number(k === of);
  return {
    value: (f) => softmax(f, new Float64Array(size))[of],
    slopes: (f) => {
      const p = softmax(f, new Float64Array(size));
      return p.map((own, k) => p[of] * (ours(k) - own));
    },
    moments: (means, C) => {
      // E p, E p p_k and E p p_k p_l, with the weight of each point.
      const weight = 0.5 / nodes, one = new Float64Array(size), two = means.map(() => new Float64Array(size));
      let value = 0;
      over(means, C, nodes, (p) => {
        const own = weight * p[of];
        value += own;
        for (let k = 0; k < size; k++) {
          one[k] += own * p[k];
          for (let l = 0; l <= k; l++) two[k][l] += own * p[k] * p[l];
        }
      });
      return {
        value,
        square: one[of],
        slopes: one.map((crossed, k) => ours(k) * value - crossed),
        bends: means.map((_, k) =>
          means.map((_, l) => ours(k) * ours(l) * value - ours(k) * one[l] - ours(l) * one[k] - Number(k === l) * one[k] + 2 * two[Math.max(k, l)][Math.min(k, l)]),
        ),
      };
    },
    values: (means, C) => {
      const found = [];
      over(means, C, Math.ceil(each / 2), (p) => found.push(p[of]));
      return found;
    },
  };
}

// The triangular root of a full matrix, as rows.
function rootOf(C) {
  const m = C.length, packed = new Float64Array((m * (m + 1)) / 2);
  C.forEach((row, i) => row.slice(0, i + 1).forEach((value, j) => (packed[(i * (i + 1)) / 2 + j] = value)));
  semidefiniteRoot(packed, m);
  return C.map((_, i) => packed.subarray((i * (i + 1)) / 2, ((i + 1) * (i + 2)) / 2));
}

const spreadKept = new Map();

// Normals that fill the space of `size` dimensions evenly: steps by powers of the root of
// x^(size + 1) = x + 1, modulo 1.
function spreadNormals(size, count, first) {
  const key = `${size} ${count} ${first}`;
  if (!spreadKept.has(key)) {
    const base = root((x) => x ** (size + 1) - x - 1, 1, 2);
    spreadKept.set(key, Float64Array.from({ length: size * count }, (_, at) => {
      const n = first + Math.floor(at / size), place = (0.5 + (n + 1) / base ** ((at % size) + 1)) % 1;
      return normalQuantile(Math.min(Math.max(place, 1e-9), 1 - 1e-9));
    }));
  }
  return spreadKept.get(key);
}
