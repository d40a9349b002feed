// Covariances of two points, with their derivatives along directions.
//
// A jet of k(x, y) for J directions is an array of 1 + 3 J numbers: k, its J derivatives in x, its
// J derivatives in y, and for each direction the derivative in both. A direction is a list of
// columns and the rate at which each of them moves, the same for x and y. Sums, products and the
// additive kernel are arithmetic of jets, so each kernel below needs only its own formula.

const PROFILES = {
  // F_0, F_1 and F_2 of the squared distance: F_{k+1} is minus the derivative of F_k in s2 / 2.
  ExpQuad: (s2, out) => out.fill(Math.exp(-0.5 * s2)),
  Matern52: (s2, out) => {
    const z = Math.sqrt(5 * s2), decay = Math.exp(-z);
    out[0] = (1 + z + (z * z) / 3) * decay;
    out[1] = (5 / 3) * (1 + z) * decay;
    out[2] = (25 / 3) * decay;
  },
  Matern32: (s2, out) => {
    const z = Math.sqrt(3 * s2), decay = Math.exp(-z);
    out[0] = (1 + z) * decay;
    out[1] = 3 * decay;
    out[2] = z > 0 ? (9 / z) * decay : 0; // what it multiplies is 0 there
  },
  Matern12: (s2, out) => out.fill(Math.exp(-Math.sqrt(s2))),
  Exponential: (s2, out) => out.fill(Math.exp(-0.5 * Math.sqrt(s2))),
  RatQuad: (s2, out, alpha) => {
    const log = Math.log1p((0.5 * s2) / alpha);
    out[0] = Math.exp(-alpha * log);
    out[1] = Math.exp(-(alpha + 1) * log);
    out[2] = (1 + 1 / alpha) * Math.exp(-(alpha + 2) * log);
  },
};

// The function (x, y, out) of a kernel's form, with its numbers from one draw.
function jetOf(form, numbers, directions) {
  if (form.kind === "constant") {
    const variance = numbers[form.variance][0];
    return (x, y, out) => {
      out.fill(0);
      out[0] = variance;
    };
  }
  if (form.kind === "same" || form.kind === "table") return codesJet(form, numbers);
  if (form.kind === "linear") return linearJet(form, numbers, directions);
  if (form.kind === "sum") return sumJet(form, numbers, directions);
  if (form.kind === "product") return productJet(form, numbers, directions);
  if (form.kind === "additive") return additiveJet(form, numbers, directions);
  return stationaryJet(form, numbers, directions);
}

// Covariances of codes, which stay as they are while other columns move: 1 for equal codes, or a
// table with a row for each.
function codesJet({ kind, column, values }, numbers) {
  const table = kind === "table" ? numbers[values] : null, size = table && Math.round(Math.sqrt(table.length));
  return (x, y, out) => {
    out.fill(0);
    out[0] = table ? table[x[column] * size + y[column]] : Number(x[column] === y[column]);
  };
}

function sumJet({ parts }, numbers, directions) {
  const [first, ...others] = parts.map((part) => jetOf(part, numbers, directions));
  const own = new Float64Array(1 + 3 * directions.length);
  return (x, y, out) => {
    first(x, y, out);
    for (const part of others) {
      part(x, y, own);
      for (let i = 0; i < own.length; i++) out[i] += own[i];
    }
  };
}

// Constants only scale the product of the other parts.
function productJet({ parts }, numbers, directions) {
  const varying = parts.filter((part) => part.kind !== "constant");
  const constants = parts.filter((part) => part.kind === "constant");
  const scale = constants.reduce((product, part) => product * numbers[part.variance][0], 1);
  const [first, ...others] = varying.map((part) => jetOf(part, numbers, directions));
  const own = new Float64Array(1 + 3 * directions.length);
  return (x, y, out) => {
    if (first) first(x, y, out);
    else out.fill(0), (out[0] = 1);
    for (const part of others) {
      part(x, y, own);
      multiply(out, own);
    }
    for (let i = 0; i < out.length; i++) out[i] *= scale;
  };
}

// One jet times another, in place, by the product rule.
function multiply(left, right) {
  const J = (left.length - 1) / 3, k = left[0], l = right[0];
  for (let j = 1; j <= J; j++) {
    const a = left[j], b = left[j + J], c = right[j], d = right[j + J];
    left[j + 2 * J] = left[j + 2 * J] * l + a * d + b * c + k * right[j + 2 * J];
    left[j] = a * l + k * c;
    left[j + J] = b * l + k * d;
  }
  left[0] = k * l;
}

// Each direction's rates among a kernel's columns.
function ratesAmong(columns, directions) {
  return directions.map(({ columns: moved, rates }) =>
    columns.map((column) => {
      const at = moved.indexOf(column);
      return at < 0 ? 0 : rates[at];
    }),
  );
}

function linearJet({ columns, center, weights }, numbers, directions) {
  const rates = ratesAmong(columns, directions), J = directions.length;
  const c = spread(numbers[center], columns), w = spread(numbers[weights], columns);
  return (x, y, out) => {
    out.fill(0);
    for (let i = 0; i < columns.length; i++) {
      const u = x[columns[i]] - c[i], v = y[columns[i]] - c[i];
      out[0] += w[i] * u * v;
      for (let j = 0; j < J; j++) {
        const rate = rates[j][i];
        if (rate === 0) continue;
        out[1 + j] += w[i] * rate * v;
        out[1 + J + j] += w[i] * rate * u;
        out[1 + 2 * J + j] += w[i] * rate * rate;
      }
    }
  };
}

function stationaryJet({ kind, columns, lengthscale, period, alpha }, numbers, directions) {
  const profile = PROFILES[kind], rates = ratesAmong(columns, directions), J = directions.length;
  const metric = spread(numbers[lengthscale], columns).map((l) => 1 / (l * l));
  const waves = period === null ? null : spread(numbers[period], columns).map((p) => Math.PI / p);
  const shape = alpha === null ? 0 : numbers[alpha][0];
  const F = new Float64Array(3), size = columns.length;
  const slope = new Float64Array(size), bend = new Float64Array(size);
  const touched = rates.map((own) => own.flatMap((rate, i) => (rate === 0 ? [] : [i])));
  return (x, y, out) => {
    let s2 = 0;
    for (let i = 0; i < size; i++) {
      const delta = x[columns[i]] - y[columns[i]];
      if (waves === null) {
        s2 += delta * delta * metric[i];
        slope[i] = delta * metric[i]; // derivatives of s2 / 2
        bend[i] = metric[i];
      } else {
        const sine = Math.sin(waves[i] * delta);
        s2 += sine * sine * metric[i];
        slope[i] = 0.5 * waves[i] * Math.sin(2 * waves[i] * delta) * metric[i];
        bend[i] = waves[i] * waves[i] * Math.cos(2 * waves[i] * delta) * metric[i];
      }
    }
    profile(s2, F, shape);
    out[0] = F[0];
    for (let j = 0; j < J; j++) {
      let first = 0, second = 0;
      for (const i of touched[j]) {
        first += rates[j][i] * slope[i];
        second += rates[j][i] * rates[j][i] * bend[i];
      }
      out[1 + j] = -F[1] * first;
      out[1 + J + j] = F[1] * first;
      out[1 + 2 * J + j] = F[1] * second - F[2] * first * first;
    }
  };
}

// Sum over orders r of a variance times the elementary symmetric polynomial e_r of the parts.
function additiveJet({ parts, variances, order }, numbers, directions) {
  const size = 1 + 3 * directions.length, own = new Float64Array(size), step = new Float64Array(size);
  const each = parts.map((part) => jetOf(part, numbers, directions));
  const e = Array.from({ length: order + 1 }, () => new Float64Array(size));
  return (x, y, out) => {
    for (const polynomial of e) polynomial.fill(0);
    e[0][0] = 1;
    for (const part of each) {
      part(x, y, own);
      for (let r = order; r > 0; r--) {
        step.set(e[r - 1]);
        multiply(step, own);
        for (let i = 0; i < size; i++) e[r][i] += step[i];
      }
    }
    out.fill(0);
    for (let r = 1; r <= order; r++) {
      const variance = numbers[variances][r - 1];
      for (let i = 0; i < size; i++) out[i] += variance * e[r][i];
    }
  };
}

// One number for each column.
function spread(values, columns) {
  return columns.map((_, i) => values[values.length === 1 ? 0 : i]);
}
