// Charts of the last two minutes: one line for each of up to three values, with a scale at the left, time
// below, what lies under the pointer (or the arrow keys) in words, and a table of values.
const SPAN_S = 120;
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["one", "two", "three"];

// A round step so that about three fit below `top`; of bytes, a round number of KiB, MiB, ...
function niceStep(top, isBytes) {
  let unit = 1;
  while (isBytes && top / unit >= 1000) unit *= 1024;
  const raw = top / unit / 3;
  const power = 10 ** Math.floor(Math.log10(raw));
  return unit * power * [1, 2, 5, 10].find(it => it * power >= raw * 0.999);
}
const scales = {
  // From 0 to a round number; `least` keeps noise around nothing flat.
  linear: (values, { isBytes, least }) => {
    const step = niceStep(Math.max(...values, least), isBytes);
    const top = step * Math.ceil(Math.max(...values, least) / step - 1e-9);
    const ticks = [];
    for (let at = 0; at <= top * 1.001; at += step) ticks.push(at);
    return { place: value => value / top, ticks };
  },
  // All of it is all that there can be.
  share: () => ({ place: value => Math.min(1, value), ticks: [0, 0.25, 0.5, 0.75, 1] }),
  // Whole powers of ten.
  logarithmic: values => {
    const positive = values.filter(value => value > 0);
    const low = positive.length ? Math.floor(Math.log10(Math.min(...positive))) : -6;
    const high = positive.length ? Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive)))) : -3;
    const ticks = [];
    for (let power = low; power <= high; power++) ticks.push(10 ** power);
    return { place: value => (Math.log10(value) - low) / (high - low), ticks };
  },
};

class Chart {
  // `names` are those of the values; `show` says one in words, and `tick` one at the scale.
  constructor(id, { names, show, tick = value => show(value).replace(".0 ", " "), scale = "linear", isBytes = false, least = 1 }) {
    Object.assign(this, { names, show, tick, scale, options: { isBytes, least }, points: [], pointed: null });
    const legend = node("div", undefined, "legend");
    names.forEach((name, line) => {
      const entry = node("span", name);
      entry.prepend(node("i", undefined, "key " + COLOURS[line]));
      legend.append(entry);
    });
    this.scaleLabels = node("div", undefined, "scale");
    this.plot = node("div", undefined, "plot");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "img");
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("viewBox", "0 0 1000 100");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("aria-hidden", "true");
    this.mark = node("div", undefined, "mark");
    this.mark.hidden = true;
    this.plot.append(this.svg, this.mark);
    const times = node("div", undefined, "times");
    times.append(node("span", "2 min ago"), node("span", "1 min ago"), node("span", "now"));
    this.words = node("p", "no data yet", "note words");
    this.values = node("details");
    this.table = node("table");
    this.table.id = id + "-values";
    this.values.append(node("summary", "Table of values"), this.table);
    const frame = node("div", undefined, "chart");
    frame.append(this.scaleLabels, this.plot, times);
    element(id).replaceChildren(legend, frame, this.words, this.values);
    this.label = element(id).previousElementSibling.textContent;
    this.plot.addEventListener("pointermove", event => {
      const { left, width } = this.plot.getBoundingClientRect();
      this.point(SPAN_S * (1 - (event.clientX - left) / width));
    });
    this.plot.addEventListener("pointerleave", () => this.point(null));
    this.plot.addEventListener("blur", () => this.point(null));
    this.plot.addEventListener("keydown", event => {
      const move = { ArrowLeft: 1, ArrowRight: -1 }[event.key];
      if (!move) return;
      event.preventDefault();
      this.point(Math.min(SPAN_S, Math.max(0, (this.pointed ?? 0) + move)));
    });
    this.values.addEventListener("toggle", () => this.draw());
  }

  // `values` at `at` milliseconds; what is not finite leaves a gap.
  add(at, values) {
    this.points = this.points.filter(it => it.at > at - SPAN_S * 1000);
    this.points.push({ at, values });
    this.draw();
  }

  age(point) { return (this.points.at(-1).at - point.at) / 1000; }

  point(age) {
    this.pointed = age;
    this.describe();
  }

  draw() {
    const all = this.points.flatMap(it => it.values).filter(isFinite);
    const { place, ticks } = scales[this.scale](all, this.options);
    const height = value => 100 * (1 - Math.min(1, Math.max(0, place(value))));
    const shapes = ticks.map(tick => {
      const line = document.createElementNS(SVG, "line");
      for (const [name, value] of Object.entries({ x1: 0, x2: 1000, y1: height(tick), y2: height(tick) }))
        line.setAttribute(name, value);
      return line;
    });
    this.names.forEach((_, line) => {
      const drawn = document.createElementNS(SVG, "path");
      let [text, before] = ["", null];
      for (const point of this.points) {
        const value = point.values[line];
        // A look that failed, or a value that was none, leaves a gap.
        const goes = before && before.at > point.at - 5000 && isFinite(value);
        if (isFinite(value)) text += `${goes ? "L" : "M"}${(1000 * (1 - this.age(point) / SPAN_S)).toFixed(1)} ${height(value).toFixed(1)}`;
        before = isFinite(value) ? point : null;
      }
      drawn.setAttribute("d", text);
      drawn.setAttribute("class", COLOURS[line]);
      shapes.push(drawn);
    });
    this.svg.replaceChildren(...shapes);
    const every = Math.ceil(ticks.length / 5);
    this.scaleLabels.replaceChildren(...ticks.filter((_, at) => at % every === 0).map(tick => {
      const label = node("span", this.tick(tick));
      label.style.top = height(tick) + "%";
      return label;
    }));
    this.describe();
    if (this.values.open) this.list();
  }

  // All values of one moment, in words.
  said(values) {
    return values.map((value, line) => (this.names.length > 1 ? this.names[line] + " " : "") + this.show(value)).join(", ");
  }

  describe() {
    const last = this.points.at(-1);
    if (!last) return;
    const nearest = this.pointed === null ? null
      : this.points.reduce((best, it) => Math.abs(this.age(it) - this.pointed) < Math.abs(this.age(best) - this.pointed) ? it : best);
    const most = this.names.map((_, line) => Math.max(...this.points.map(it => it.values[line]).filter(isFinite)));
    const now = "Now " + this.said(last.values);
    setText(this.words, nearest ? `${Math.round(this.age(nearest))} s ago: ${this.said(nearest.values)}` : now + ". Most: " + this.said(most));
    this.mark.hidden = !nearest;
    if (nearest) this.mark.style.left = 100 * (1 - this.age(nearest) / SPAN_S) + "%";
    this.plot.setAttribute("aria-label", `${this.label}, the last two minutes. ${now}. Most: ${this.said(most)}. Arrow keys read values.`);
  }

  list() {
    const rows = [];
    let next = 0;
    for (const point of [...this.points].reverse())
      if (this.age(point) >= next) {
        rows.push([Math.round(this.age(point)) + " s", ...point.values.map(this.show)]);
        next += 10;
      }
    table(this.table.id, ["ago", ...this.names], rows, "no data yet");
  }
}
