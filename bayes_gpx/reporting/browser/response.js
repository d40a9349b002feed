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

const NODES_OF_CLASSES = 1024; // of all draws, each with others; and as many mirror images

function probabilityOf({ functions, draws, of, each }, s) {
  const size = functions.length, nodes = Math.max(64, Math.ceil(NODES_OF_CLASSES / draws.length));
  const all = (f) => {
    const largest = Math.max(...f), odds = Array.from(f, (value) => Math.exp(value - largest));
    const total = odds.reduce((sum, own) => sum + own, 0);
    return odds.map((own) => own / total);
  };
  const ours = (k) => Number(k === of);
  // Latent values less the one of this class, of which the response depends: one dimension less.
  const at = (means, C, count) => {
    const apart = C.map((row, k) => row.map((value, l) => value - C[k][of] - C[of][l] + C[of][of]));
    const root = rootOf(apart), found = [], z = spreadNormals(size - 1, count, s * count);
    for (const sign of [1, -1]) {
      for (let n = 0; n < count; n++) {
        found.push(means.map((mean, k) => {
          let sum = mean - means[of];
          for (let l = 0; l <= k; l++) if (l !== of) sum += sign * root[k][l] * z[n * (size - 1) + l - (l > of)];
          return sum;
        }));
      }
    }
    return found;
  };
  const slopes = (p) => p.map((own, k) => p[of] * (ours(k) - own));
  return {
    value: (f) => all(f)[of],
    slopes: (f) => slopes(all(f)),
    moments: (means, C) => {
      const points = at(means, C, nodes), found = { value: 0, square: 0, slopes: new Float64Array(size), bends: means.map(() => new Float64Array(size)) };
      for (const f of points) {
        const p = all(f), own = p[of];
        found.value += own / points.length;
        found.square += (own * own) / points.length;
        slopes(p).forEach((slope, k) => (found.slopes[k] += slope / points.length));
        for (let k = 0; k < size; k++) {
          for (let l = 0; l < size; l++) {
            found.bends[k][l] += (own * ((ours(k) - p[k]) * (ours(l) - p[l]) - p[k] * (Number(k === l) - p[l]))) / points.length;
          }
        }
      }
      return found;
    },
    values: (means, C) => at(means, C, Math.ceil(each / 2)).map((f) => all(f)[of]),
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
