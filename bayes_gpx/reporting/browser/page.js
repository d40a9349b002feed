// The controls of the page, and what is redrawn when one of them moves.

const find = (id) => document.getElementById(id);
const DAY = 86_400_000;
const POINTS = 41; // of a curve
const MOST_BARS = 12;
const EDGE = 0.05; // how far sliders go beyond the training data, relative to the range
const FARTHEST = 5; // how far typed values may lie beyond them

let model = modelOf(JSON.parse(find("data").textContent));
const chosen = { x: model.points[0].slice(), kept: null };
const percent = `${Number((100 * model.prob).toPrecision(3))}%`;

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// --- features and points -------------------------------------------------------------------------

// What a feature's value is at a point: a number in user units, or the position of a level.
function valueAt(feature, x) {
  if (feature.kind !== "category") return feature.center + feature.scale * x[feature.columns[0]];
  const own = feature.columns.slice(0, feature.points.length).map((c) => x[c]);
  const apart = feature.points.map((point) => point.reduce((sum, value, i) => sum + (value - own[i]) ** 2, 0));
  return apart.indexOf(Math.min(...apart));
}

function withValue(feature, x, value) {
  const moved = x.slice();
  feature.columns.forEach((c, i) => {
    if (feature.kind !== "category") moved[c] = (value - feature.center) / feature.scale;
    else moved[c] = feature.points[value][i % feature.points.length];
  });
  return moved;
}

// To the second: a day is stored as a number with 12 decimals.
const dateOf = (feature, days) => new Date(Date.parse(`${feature.origin}Z`) + 1000 * Math.round((days * DAY) / 1000));

function textOf(feature, value, spread) {
  if (feature.kind === "category") return feature.levels[value];
  if (feature.kind === "date") return dateOf(feature, value).toISOString().slice(0, 10);
  if (feature.whole && Math.abs(value - Math.round(value)) < 1e-6) return plain(Math.round(value), 1e4);
  return plain(value, spread ?? (feature.high - feature.low) / 20);
}

// --- controls ------------------------------------------------------------------------------------

const controls = model.features.map((feature, j) => {
  const id = `feature-${j}`, place = make("div", { class: "feature" });
  const name = make("div", { class: "name" }, make("label", { for: id }, feature.name));
  place.append(name);
  const move = (value) => {
    chosen.x = withValue(feature, chosen.x, value);
    changed();
  };
  if (feature.kind === "category") {
    const menu = make("select", { id });
    feature.levels.forEach((level, i) => {
      const share = feature.shares[i] > 0 ? ` (${Math.round(100 * feature.shares[i])}% of observations)` : "";
      menu.append(make("option", { value: i }, level + share));
    });
    menu.addEventListener("change", () => move(Number(menu.value)));
    place.append(menu);
    return { place, show: (value) => (menu.value = value) };
  }
  const { low, high } = feature, beyond = EDGE * (high - low);
  const step = feature.whole ? 1 : 10 ** Math.floor(Math.log10((high - low) / 100 || 1));
  const ends = feature.whole ? [low, high] : [low - beyond, high + beyond];
  const dated = feature.kind === "date", decimals = Math.min(12, Math.max(0, 3 - Math.floor(Math.log10(high - low || 1))));
  const box = make("input", { id, type: dated ? "date" : "number", step: dated ? 1 : "any" });
  const slider = make("input", { type: "range", min: ends[0], max: ends[1], step: feature.whole ? 1 : "any", "aria-label": `${feature.name}, slider` });
  const picture = element("svg", { viewBox: "0 0 240 26", preserveAspectRatio: "none", "aria-hidden": "true" });
  const at = (value) => (240 * (value - ends[0])) / (ends[1] - ends[0] || 1);
  const wide = (at(high) - at(low)) / feature.bars.length;
  feature.bars.forEach((bar, i) => {
    picture.append(element("rect", { class: "bars", x: at(low) + i * wide, width: 0.92 * wide, y: 26 - 26 * bar, height: 26 * bar }));
  });
  const here = element("line", { class: "here", y1: 0, y2: 26 }), was = element("line", { class: "was", y1: 0, y2: 26 });
  picture.append(was, here);
  slider.addEventListener("input", () => move(Number(slider.value)));
  // A range of "any" step would move by a hundredth of the whole at each key; this is a round number.
  slider.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (way === undefined) return;
    event.preventDefault();
    const from = valueAt(feature, chosen.x), value = Math.round(from / step + way) * step;
    move(Math.min(Math.max(value, Math.min(from, ends[0])), Math.max(from, ends[1])));
  });
  box.addEventListener("change", () => {
    const typed = dated ? (Date.parse(box.value) - Date.parse(`${feature.origin.slice(0, 10)}`)) / DAY : Number(box.value);
    const value = feature.whole ? Math.round(typed) : typed, far = FARTHEST * (high - low || 1);
    const taken = box.value !== "" && value >= low - far && value <= high + far;
    box.setCustomValidity(taken ? "" : `Type a value from ${textOf(feature, low - far)} to ${textOf(feature, high + far)}.`);
    if (taken) move(value);
    else box.reportValidity();
  });
  name.append(box);
  place.append(picture, slider);
  return {
    place,
    show: (value, kept) => {
      slider.value = value;
      slider.setAttribute("aria-valuetext", textOf(feature, value));
      if (document.activeElement !== box || Number(box.value) !== value) {
        box.value = dated ? textOf(feature, value) : String(Number(value.toFixed(decimals)));
      }
      for (const [line, own] of [[here, value], [was, kept]]) {
        line.style.display = own === null ? "none" : "";
        if (own !== null) line.setAttribute("x1", at(own)), line.setAttribute("x2", at(own));
      }
    },
  };
});
find("features").append(...controls.map(({ place }) => place));

model.labels.forEach((label, i) => find("row").append(make("option", { value: i }, label)));
function start(at) {
  const menu = find("row");
  menu.value = Math.min(Math.max(at, 0), model.labels.length - 1);
  chosen.x = model.points[Number(menu.value)].slice();
  model.ends = null;
  changed();
}
find("row").addEventListener("change", () => start(Number(find("row").value)));
find("previous").addEventListener("click", () => start(Number(find("row").value) - 1));
find("next").addEventListener("click", () => start(Number(find("row").value) + 1));
find("keep").addEventListener("click", () => {
  chosen.kept = chosen.kept === null ? chosen.x.slice() : null;
  find("keep").textContent = chosen.kept === null ? "Keep this point, and change another" : "Forget the kept point";
  const kept = find("baseline").querySelector('[value="kept"]');
  if (chosen.kept !== null && !kept) find("baseline").append(make("option", { value: "kept" }, "the kept point"));
  if (chosen.kept === null && kept) kept.remove();
  changed();
});

const moving = movingFeatures(model);
model.functions.forEach(({ name }, k) => find("of").append(make("option", { value: k }, name)));
find("of-picker").hidden = model.functions.length === 1;
find("of-label").textContent = `${model.kind[0].toUpperCase()}${model.kind.slice(1)}`;
function offerScales() {
  const { response } = model, before = find("scale").value;
  find("scale-picker").hidden = !response;
  if (!response) return;
  find("scale").replaceChildren(make("option", { value: "response" }, response.units), make("option", { value: "latent" }, model.units));
  if (before) find("scale").value = before;
}
offerScales();
find("of").addEventListener("change", () => {
  model = { ...showing(model, Number(find("of").value)), ends: null };
  offerScales();
  changed();
});
if (model.attributions) find("method").append(make("option", { value: "integrated" }, "integrated gradients"));
if (playable(model)) find("method").append(make("option", { value: "shapley" }, "Shapley values"));
find("baseline").append(make("option", { value: "mean" }, "the mean of the training observations"), make("option", { value: "median" }, "the median of the training observations"));
model.features.forEach(({ name }, j) => find("along").append(make("option", { value: j }, name)));
for (const id of ["method", "baseline", "along"]) find(id).addEventListener("change", () => changed());
find("scale").addEventListener("change", () => {
  model.ends = null;
  changed();
});

const scale = () => (model.response ? find("scale").value : "latent");
const units = (own) => (scale() === "response" ? own.response.units : own.units);

// What is shown, in words: the units name the response, or stand after its name.
const title = (own) => (units(own).includes(own.name) ? units(own) : `${own.name} (${units(own)})`);

// Features that no path moves, such as the group, are those of the point.
function baseline() {
  const name = find("baseline").value, own = name === "kept" ? chosen.kept : model.baselines[name];
  return [...own.slice(0, model.baselines.mean.length), ...chosen.x.slice(model.baselines.mean.length)];
}

// --- what is shown -------------------------------------------------------------------------------

let waiting = 0, later = 0;

// The prediction and quick attributions follow at once; what takes longer, when the slider rests.
function changed() {
  clearTimeout(waiting);
  clearTimeout(later);
  waiting = setTimeout(() => {
    controls.forEach((control, j) => {
      const feature = model.features[j];
      control.show(valueAt(feature, chosen.x), chosen.kept && feature.kind !== "category" ? valueAt(feature, chosen.kept) : null);
    });
    showPrediction();
    const quick = scale() === "latent" && find("method").value === "integrated";
    if (quick) showWhy();
    later = setTimeout(() => {
      if (!quick) showWhy();
      showCurve();
      showNumbers();
      if (model.weights.length) showWeights();
    }, quick ? 30 : 120);
  }, 0);
}

function showPrediction() {
  const found = predict(model, chosen.x, scale());
  const other = chosen.kept && predict(model, chosen.kept, scale());
  const said = shown(found.mean, found.high - found.low);
  find("prediction").replaceChildren(
    make("strong", {}, `${title(model)}: ${said}`),
    make("br"),
    make("small", {}, `${percent} interval ${interval(found)}`, found.y ? `; of a new observation ${interval(found.y)}` : ""),
  );
  const thin = found.y ? "thin: of a new observation" : "", lower = other ? "below: the kept point" : "";
  find("legend").textContent = ["Dot: the mean", `thick line: its ${percent} interval`, thin, lower].filter(Boolean).join("; ") + ".";
  showOthers();
  if (found.y) model.ends = widened(model.ends, found.y);
  model.ends = widened(model.ends, found);
  if (other) model.ends = widened(model.ends, other.y ?? other);
  drawGauge(find("gauge"), { found, other, ends: model.ends, description: `Prediction ${said}, ${percent} interval ${interval(found)}` });
  showOutside(found.known);
  find("kept").hidden = !other;
  if (other) showComparison(other);
}

// The predictions of the other outputs or classes.
function showOthers() {
  const others = model.functions.flatMap((_, k) => (k === model.of ? [] : [showing(model, k)]));
  const said = others.slice(0, MOST_BARS).map((own) => {
    const found = predict(own, chosen.x, scale());
    return `${own.name} ${shown(found.mean, found.high - found.low)}`;
  });
  find("others").textContent = said.length ? `Others: ${said.join("; ")}` : "";
}

// The axis keeps the widest range so far, so that it stands still under a moving slider; but not one
// in which an interval can hardly be seen.
function widened(ends, { low, high }) {
  const pad = 0.05 * (high - low);
  return ends && ends[1] - ends[0] < 30 * (high - low) ? [Math.min(ends[0], low - pad), Math.max(ends[1], high + pad)] : [low - pad, high + pad];
}

// How far the point leaves the training data, by feature, and how much the data say about it.
function showOutside(known) {
  const far = model.features.flatMap((feature) => {
    if (feature.kind === "category") return [];
    const value = valueAt(feature, chosen.x), range = feature.high - feature.low || 1;
    const beyond = Math.max(feature.low - value, value - feature.high);
    if (beyond <= 1e-9 * range) return [];
    const end = value < feature.low ? "below the least" : "above the largest";
    return [`${feature.name} is ${textOf(feature, value)}, ${end} value ${textOf(feature, value < feature.low ? feature.low : feature.high)} by ${Math.max(1, Math.round((100 * beyond) / range))}% of the range`];
  });
  const said = [];
  if (far.length) said.push(`The point leaves the training data: ${far.join("; ")}.`);
  if (known < 0.5) said.push(`Few training observations are like this one: they remove only ${Math.max(0, Math.round(100 * known))}% of the uncertainty (variance) that there is without data.`);
  const place = find("outside"), text = said.join(" ");
  place.hidden = !text;
  if (place.textContent !== text) place.textContent = text;
}

function showComparison(other) {
  const found = comparison(model, chosen.x, chosen.kept, scale());
  find("comparison").replaceChildren(
    make("strong", {}, `Difference: ${signed(found.mean, found.high - found.low)}`),
    make("br"),
    make("small", {}, `${percent} interval ${interval(found, signed)}; the kept point has ${shown(other.mean, other.high - other.low)} (${interval(other)})`),
  );
  const rows = model.features.flatMap((feature) => {
    const [was, is] = [valueAt(feature, chosen.kept), valueAt(feature, chosen.x)];
    return Math.abs(was - is) < 1e-9 * (feature.high - feature.low || 1) ? [] : [[feature.name, textOf(feature, was), textOf(feature, is)]];
  });
  if (!rows.length) rows.push(["No feature differs", "", ""]);
  fill(find("changes"), ["Feature", "Kept point", "This point"], rows);
}

let why = new Map(); // the last attributions by feature, for the table

function showWhy() {
  const from = baseline(), how = find("method").value;
  if (!how) {
    find("why").textContent = "The kernel has no derivatives, and the model has too many features for Shapley values.";
    return;
  }
  const found = (how === "shapley" ? shapleyValues : attributions)(model, chosen.x, from, scale());
  why = new Map(moving.map((feature, j) => [feature.name, found[j]]));
  const [start, end] = [from, chosen.x].map((point) => smooth(model, point, scale()).mean);
  const labels = moving.map((feature) => `${feature.name} = ${textOf(feature, valueAt(feature, chosen.x))}`);
  const order = found.map((_, j) => j).sort((a, b) => Math.abs(found[b].mean) - Math.abs(found[a].mean));
  const sum = found.reduce((total, own) => total + own.mean, 0), difference = end - start;
  const apart = Math.abs(sum - difference) > 0.02 * Math.max(Math.abs(difference), ...found.map((own) => own.high - own.low));
  const adds = apart ? `The path is too long for exact attributions: they add up to ${signed(sum)}, and the difference is ${signed(difference)}.`
    : "All attributions add up to the difference between the two predictions.";
  const stay = model.features.filter((feature) => !moving.includes(feature)).map(({ name }) => name);
  const same = stay.length ? ` The baseline has this point's ${stay.slice(0, 3).join(", ")}${stay.length > 3 ? " and others" : ""}.` : "";
  const parts = order.slice(0, MOST_BARS).map((j) => ({ label: labels[j], ...found[j] }));
  const rest = order.slice(MOST_BARS);
  if (rest.length) parts.push({ label: `${rest.length} others`, mean: rest.reduce((sum, j) => sum + found[j].mean, 0) });
  const first = order.slice(0, 3).filter((j) => found[j].high > found[j].low).map((j) => `${labels[j]}: ${signed(found[j].mean, found[j].high - found[j].low)} (${interval(found[j], signed)})`);
  find("why").textContent = `${first.length ? `Largest: ${first.join("; ")}. ` : ""}${adds}${same}`;
  drawWaterfall(find("waterfall"), { start, end, parts, names: ["baseline", "this point"], description: `Attributions. ${first.join("; ")}` });
}

function showCurve() {
  const feature = model.features[Number(find("along").value)], here = valueAt(feature, chosen.x);
  const range = feature.high - feature.low;
  const values = feature.kind === "category" ? feature.levels.map((_, i) => i)
    : Array.from({ length: POINTS }, (_, i) => Math.min(feature.low, here) + ((Math.max(feature.high, here) - Math.min(feature.low, here)) * i) / (POINTS - 1));
  const found = curve(model, values.map((value) => withValue(feature, chosen.x, value)), scale());
  const kept = chosen.kept && valueAt(feature, chosen.kept);
  const ends = [found[0], found[found.length - 1]].map((own) => shown(own.mean, own.high - own.low));
  drawCurve(find("curve"), {
    feature, found, here, kept,
    values: feature.kind === "category" ? feature.levels : values,
    text: (value, spread) => textOf(feature, value, spread ?? range / 20),
    description: `${title(model)} along ${feature.name}, other features as chosen: from ${ends[0]} to ${ends[1]}`,
  });
}

function showNumbers() {
  const rates = slopes(model, chosen.x, scale());
  const rows = moving.map((feature, j) => {
    const part = why.get(feature.name), rate = rates[j];
    const cells = (own) => (own ? [signed(own.mean, own.high - own.low), interval(own, signed)] : ["", ""]);
    const value = textOf(feature, valueAt(feature, chosen.x));
    return [feature.name, value, ...cells(part), ...(model.attributions ? cells(rate) : [])];
  });
  const columns = ["Feature", "Value", "Attribution", `${percent} interval`];
  if (model.attributions) columns.push("Slope per unit", `${percent} interval`);
  fill(find("numbers"), columns, rows);
}

function showWeights() {
  find("weighed").hidden = false;
  const rows = weights(model, chosen.x).map(({ name, weight, contribution }) => {
    return [name, signed(weight.mean, weight.high - weight.low), interval(weight, signed), signed(contribution.mean, contribution.high - contribution.low), interval(contribution, signed)];
  });
  fill(find("weights"), ["Feature", "Weight per unit", `${percent} interval`, "Contribution", `${percent} interval`], rows);
}

function fill(table, columns, rows) {
  const kind = (k) => (k > 0 ? { class: "number" } : {});
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...columns.map((name, k) => make("th", { scope: "col", ...kind(k) }, name)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((text, k) => (k ? make("td", kind(k), text) : make("th", { scope: "row" }, text)))))),
  );
}

addEventListener("resize", () => changed());
addEventListener("beforeprint", () => (showPrediction(), showWhy(), showCurve()));
start(0);
