"use strict";
const element = id => document.getElementById(id);
function number(value) {
  if (!isFinite(value)) return "–";
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e4]])
    if (value >= size) return (value / (unit === "k" ? 1e3 : size)).toFixed(value >= 100 * size ? 0 : 1) + " " + unit;
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}
function bytes(value) {
  if (!isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1000 && index < units.length - 1) { value /= 1024; index += 1; }
  return value.toFixed(index && value < 100 ? 1 : 0) + " " + units[index];
}
function time(seconds) {
  if (!isFinite(seconds)) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return (seconds * 1e6).toFixed(seconds < 1e-5 ? 1 : 0) + " µs";
  return seconds < 1 ? (seconds * 1e3).toFixed(seconds < 1e-2 ? 1 : 0) + " ms" : seconds.toFixed(1) + " s";
}
function duration(seconds) {
  const [d, h, m] = [seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60].map(Math.floor);
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}
const percent = share => (100 * share).toFixed(1) + " %";

function node(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}
function table(id, titles, rows, nothing) {
  const row = (tag, cells) => { const tr = node("tr"); tr.append(...cells.map(cell => node(tag, cell))); return tr; };
  const body = rows.length ? [row("th", titles), ...rows.map(cells => row("td", cells))] : [row("td", [nothing])];
  element(id).replaceChildren(...body);
}
function tiles(all) {
  element("tiles").replaceChildren(...all.map(([title, value, note, isBad]) => {
    const card = node("div", undefined, "card");
    card.append(node("h2", title), node("div", value, "value" + (isBad ? " bad" : "")), node("div", note, "note"));
    return card;
  }));
}
