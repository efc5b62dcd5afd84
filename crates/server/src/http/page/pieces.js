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
  return seconds < 1 ? (seconds * 1e3).toFixed(seconds < 1e-2 ? 1 : 0) + " ms" : seconds < 60 ? seconds.toFixed(1) + " s" : duration(seconds);
}
function duration(seconds) {
  const [d, h, m] = [seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60].map(Math.floor);
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}
// Of a whole; never more than all of it.
const percent = share => isFinite(share) ? (100 * Math.min(1, share)).toFixed(share > 0 && share < 0.1 ? 1 : 0) + " %" : "–";

function node(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}
// What is as it was stays as it is: selections hold, and readers of the screen hear what is new.
function setText(target, text) { if (target.textContent !== text) target.textContent = text; }
function setClass(target, name) { if (target.className !== name) target.className = name; }

// A table of `rows`, or the sentence `nothing`. A title is text, or [text, "words"] where cells are words that
// break into lines. A cell is text, or [text, class].
function table(id, titles, rows, nothing) {
  const target = element(id);
  const columns = titles.map(title => Array.isArray(title) ? { title: title[0], name: title[1] } : { title, name: "" });
  const shape = JSON.stringify([rows.length, columns]);
  if (target.shape !== shape) {
    target.shape = shape;
    target.className = rows.length ? "rows" : "none";
    target.setAttribute("role", "table");
    const made = (tag, role, text, name) => { const cell = node(tag, text, name); cell.setAttribute("role", role); return cell; };
    const head = made("tr", "row");
    head.append(...columns.map(({ title, name }) => { const cell = made("th", "columnheader", title, name); cell.scope = "col"; return cell; }));
    const body = rows.map(() => {
      const line = made("tr", "row");
      line.append(...columns.map(({ title, name }) => { const cell = made("td", "cell", "", name); cell.dataset.title = title; return cell; }));
      return line;
    });
    const [thead, tbody] = [made("thead", "rowgroup"), made("tbody", "rowgroup")];
    thead.append(head);
    tbody.append(...body);
    const none = made("tr", "row");
    none.append(made("td", "cell", nothing));
    if (!rows.length) tbody.append(none);
    target.replaceChildren(...(rows.length ? [thead, tbody] : [tbody]));
  }
  rows.forEach((cells, row) => cells.forEach((cell, column) => {
    const [text, name] = Array.isArray(cell) ? cell : [cell, ""];
    const place = target.tBodies[0].rows[row].cells[column];
    setText(place, text);
    setClass(place, [columns[column].name, name].filter(Boolean).join(" "));
  }));
}
// Tiles of [title, value, note, whether it is bad].
function tiles(all) {
  const target = element("tiles");
  while (target.children.length < all.length) {
    const card = node("div", undefined, "card");
    card.append(node("h2"), node("div", undefined, "value"), node("div", undefined, "note"));
    target.append(card);
  }
  all.forEach(([title, value, note, isBad], index) => {
    const [h2, shown, below] = target.children[index].children;
    setText(h2, title);
    setText(shown, value);
    setClass(shown, "value" + (isBad ? " bad" : ""));
    setText(below, note);
  });
}
// Sentences of [text, "bad" or "warn"] above all else.
function notices(all) {
  const target = element("notices");
  while (target.children.length > all.length) target.lastChild.remove();
  while (target.children.length < all.length) target.append(node("p"));
  all.forEach(([text, name], index) => {
    setText(target.children[index], text);
    setClass(target.children[index], "notice " + name);
  });
}
function state(text, isGood) {
  setText(element("state"), text);
  setClass(element("state"), isGood ? "good" : "bad");
}

// Asks `look` once a second. While it fails the page says since when, and keeps what it knew.
function watch(look) {
  let [heard, isFirst] = [Date.now(), true];
  const round = async () => {
    try {
      await look(path => fetch(path, { signal: AbortSignal.timeout(5000) }));
      [heard, isFirst] = [Date.now(), false];
      document.body.classList.remove("stale");
    } catch (error) {
      const since = new Date(heard).toLocaleTimeString();
      const ago = duration((Date.now() - heard) / 1000);
      state("not reached", false);
      notices([[isFirst ? `Nothing was heard since ${since} (${ago}): is the process running, and may this machine reach it?`
        : `Nothing was heard since ${since} (${ago} ago). What is below is from then.`, "bad"]]);
      document.body.classList.add("stale");
      console.error(error);
    }
    setTimeout(round, 1000);
  };
  round();
}
