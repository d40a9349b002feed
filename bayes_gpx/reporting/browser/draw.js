// Charts as SVG, and numbers as text.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A chart that screen readers read as its description; the numbers are in the tables.
function chart(place, height, description) {
  const width = Math.max(280, place.clientWidth || 600);
  const svg = element("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description });
  place.replaceChildren(svg);
  return { svg, width };
}

const MINUS = "\u2212";

// A number with as many decimals as a spread is known to.
function shown(value, spread = Math.abs(value)) {
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.max(spread, Math.abs(value) * 1e-4) || 1;
  const decimals = Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(size))));
  if (Math.abs(value) < 1e-5 * spread) value = 0; // round-off
  const large = Math.abs(value) >= 1e7 || (value !== 0 && Math.abs(value) < 1e-6);
  const text = large ? value.toPrecision(3) : value.toLocaleString("en", { maximumFractionDigits: decimals, minimumFractionDigits: Math.min(decimals, 2) });
  return (/[1-9]/.test(text) ? text : text.replace("-", "")).replaceAll("-", MINUS);
}

// The same with its sign.
const signed = (value, spread) => (value > 0 && /[1-9]/.test(shown(value, spread)) ? "+" : "") + shown(value, spread);

// Without the zeros that say how exactly an estimate is known: of given values, and of ticks.
const plain = (value, spread) => shown(value, spread).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

// An interval in words; its decimals follow its width.
function interval({ low, high }, say = shown) {
  const spread = high - low;
  return `${say(low, spread)} to ${say(high, spread)}`;
}

// Multiples of a round step within a range: the largest step that has at least `least` of them.
function ticks(low, high, least) {
  const power = 10 ** Math.ceil(Math.log10(high - low || 1));
  for (const part of [1, 0.5, 0.2, 0.1, 0.05, 0.02]) {
    const step = part * power, first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    if (last - first + 1 >= least) return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
  }
  return [low, high];
}

function horizontal(svg, ends, pixels, y, label = plain) {
  const at = (value) => pixels[0] + ((value - ends[0]) / (ends[1] - ends[0] || 1)) * (pixels[1] - pixels[0]);
  svg.append(element("line", { class: "axis", x1: pixels[0], x2: pixels[1], y1: y, y2: y }));
  const marks = ticks(ends[0], ends[1], 3);
  for (const value of marks) {
    svg.append(
      element("line", { class: "axis", x1: at(value), x2: at(value), y1: y, y2: y + 4 }),
      element("text", { class: "quiet", x: at(value), y: y + 17, "text-anchor": "middle" }, label(value, marks.length > 1 ? marks[1] - marks[0] : undefined)),
    );
  }
  return at;
}

// The prediction and its intervals, and the kept point's, on one axis.
function drawGauge(place, { found, other, ends, description }) {
  const { svg, width } = chart(place, other ? 86 : 62, description);
  const at = horizontal(svg, ends, [10, width - 10], other ? 62 : 38);
  const row = (own, y, mark) => {
    if (own.y) svg.append(element("line", { class: "wide", x1: at(own.y.low), x2: at(own.y.high), y1: y, y2: y }));
    svg.append(
      element("line", { class: "interval", x1: at(own.low), x2: at(own.high), y1: y, y2: y }),
      element("circle", { class: mark, cx: at(own.mean), cy: y, r: 6 }),
    );
  };
  row(found, 18, "mark");
  if (other) row(other, 42, "kept");
}

// Bars that lead from the baseline's prediction to the point's, the largest first.
function drawWaterfall(place, { start, end, parts, names, description }) {
  const height = 26 * (parts.length + 2) + 30;
  const { svg, width } = chart(place, height, description);
  const longest = Math.max(...parts.map((part) => part.label.length), ...names.map((name) => name.length));
  const left = Math.min(0.42 * width, 12 + 7.2 * longest), right = width - 84;
  let sum = start, low = Math.min(start, end), high = Math.max(start, end);
  for (const part of parts) {
    low = Math.min(low, sum + Math.min(0, part.low ?? 0, part.mean));
    high = Math.max(high, sum + Math.max(0, part.high ?? 0, part.mean));
    sum += part.mean;
  }
  const pad = 0.03 * (high - low || 1);
  const at = horizontal(svg, [low - pad, high + pad], [left, right], height - 26);
  const label = (text, y) => {
    const fits = Math.floor((left - 10) / 7), cut = text.length > fits ? `${text.slice(0, fits - 1)}\u2026` : text;
    svg.append(element("text", { x: left - 8, y: y + 5, "text-anchor": "end" }, cut, element("title", {}, text)));
  };
  const total = (value, name, y) => {
    label(name, y);
    svg.append(
      element("line", { class: "whisker", x1: at(value), x2: at(value), y1: y - 9, y2: y + 9 }),
      element("text", { x: right + 8, y: y + 5 }, shown(value, high - low)),
    );
  };
  total(start, names[0], 13);
  sum = start;
  parts.forEach((part, i) => {
    const y = 26 * (i + 1) + 13, next = sum + part.mean;
    label(part.label, y);
    svg.append(
      element("line", { class: "link", x1: at(sum), x2: at(sum), y1: y - 22, y2: y }),
      element("rect", {
        class: part.mean >= 0 ? "up" : "down",
        x: Math.min(at(sum), at(next)), y: y - 8, height: 16,
        width: Math.max(1, Math.abs(at(next) - at(sum))),
      }),
    );
    if (part.low !== undefined) {
      const [x1, x2] = [at(sum + part.low), at(sum + part.high)];
      svg.append(element("path", { class: "whisker", d: `M${x1} ${y - 4}v8M${x1} ${y}H${x2}M${x2} ${y - 4}v8` }));
    }
    svg.append(element("text", { x: right + 8, y: y + 5 }, signed(part.mean, high - low)));
    sum = next;
  });
  total(end, names[1], 26 * (parts.length + 1) + 13);
}

// The prediction along one feature, with its interval; or an interval for each level.
function drawCurve(place, { feature, values, found, here, kept, text, description }) {
  const named = feature.kind === "category", longest = named ? Math.max(...values.map((name) => name.length)) : 0;
  const turned = named && 7.5 * longest > (Math.max(280, place.clientWidth || 600) - 80) / values.length;
  const foot = turned ? Math.min(120, 24 + 5 * longest) : 30, height = 210 + foot;
  const { svg, width } = chart(place, height, description);
  let low = Math.min(...found.map((own) => own.low)), high = Math.max(...found.map((own) => own.high));
  const pad = 0.05 * (high - low || 1);
  [low, high] = [low - pad, high + pad];
  const up = (value) => height - foot - ((value - low) / (high - low)) * (height - foot - 12);
  for (const value of ticks(low, high, 3)) {
    svg.append(
      element("text", { class: "quiet", x: 56, y: up(value) + 4, "text-anchor": "end" }, plain(value, high - low)),
      element("line", { class: "axis", x1: 60, x2: 64, y1: up(value), y2: up(value) }),
    );
  }
  if (named) {
    const step = (width - 80) / values.length;
    found.forEach((own, i) => {
      const x = 70 + step * (i + 0.5), y = height - foot + 16;
      const name = values[i].length > 20 ? `${values[i].slice(0, 19)}\u2026` : values[i];
      const stands = turned ? { x, y, "text-anchor": "end", transform: `rotate(-40 ${x} ${y})` } : { x, y, "text-anchor": "middle" };
      svg.append(
        element("line", { class: "interval", x1: x, x2: x, y1: up(own.low), y2: up(own.high) }),
        element("circle", { class: i === kept ? "kept" : "mark", cx: x, cy: up(own.mean), r: i === here ? 7 : 4 }),
        element("text", stands, name, element("title", {}, values[i])),
      );
    });
    return;
  }
  const at = horizontal(svg, [values[0], values[values.length - 1]], [70, width - 12], height - 28, text);
  const along = (end) => found.map((own, i) => `${at(values[i])},${up(own[end])}`);
  svg.append(
    element("polygon", { class: "band", points: [...along("low"), ...along("high").reverse()].join(" ") }),
    element("polyline", { class: "line", points: along("mean").join(" ") }),
  );
  for (const [mark, value] of [["kept", kept], ["mark", here]]) {
    if (value === null || value < values[0] || value > values[values.length - 1]) continue;
    const place = ((value - values[0]) / (values[values.length - 1] - values[0])) * (values.length - 1);
    const below = Math.min(Math.floor(place), values.length - 2), t = place - below;
    const y = (1 - t) * found[below].mean + t * found[below + 1].mean;
    if (mark === "mark") svg.append(element("circle", { class: mark, cx: at(value), cy: up(y), r: 6 }));
    else svg.append(element("line", { class: "link", x1: at(value), x2: at(value), y1: 12, y2: height - 28 }));
  }
}
