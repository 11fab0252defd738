"use strict";

// ------------------------------------------------------------------ tables: sorting by column

function sortTable(button) {
  const head = button.closest("th");
  const table = head.closest("table");
  const column = head.cellIndex;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  rows.forEach((row, place) => { row.dataset.place ??= String(place); });

  // Text begins with A, numbers with the largest; the third time brings the first order back.
  const isText = head.classList.contains("text");
  const steps = isText ? ["ascending", "descending", null] : ["descending", "ascending", null];
  const next = steps[(steps.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  if (next) head.setAttribute("aria-sort", next);

  const turn = next === "descending" ? -1 : 1;
  const compare = (one, two) => {
    const [a, b] = [one.cells[column], two.cells[column]];
    if (isText) return turn * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
    const [x, y] = [a.dataset.key, b.dataset.key];
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
    return turn * (Number(x) - Number(y));
  };
  const first = (one, two) => Number(one.dataset.place) - Number(two.dataset.place);
  rows.sort((one, two) => (next && compare(one, two)) || first(one, two));
  body.append(...rows);
}

for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => sortTable(button));
}

// ------------------------------------------------- label graphs: what goes with the label here

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function share(value) {
  if (value === null) return "–";
  const text = value.toFixed(2);
  return text.startsWith("0") ? text.slice(1) : text;
}

// Neighbours of a label with their probabilities when it is on and off, strongest first.
function neighbours(graph, label) {
  const found = [];
  for (const [from, to, on, off, backOn, backOff] of graph.edges) {
    if (from === label) found.push({ other: to, on, off });
    else if (to === label) found.push({ other: from, on: backOn, off: backOff });
  }
  return found.sort((a, b) => Math.abs(b.on - b.off) - Math.abs(a.on - a.off));
}

function describe(panel, graph, label) {
  const name = graph.labels[label];
  const found = neighbours(graph, label);
  const list = element("ul");
  for (const { other, on, off } of found.slice(0, 8)) {
    const item = element("li", undefined, on < off ? "less" : "more");
    item.append(
      element("b", graph.labels[other]),
      element("span", `${share(on)} when ${name} is on, ${share(off)} when off`),
    );
    list.append(item);
  }
  const rest = found.length > 8 ? ` ${found.length - 8} more are in the table.` : "";
  const said = found.length
    ? `On with probability ${share(graph.probability[label])}. Its strongest neighbours are on:`
    : `On with probability ${share(graph.probability[label])}. It has no neighbours.`;
  panel.replaceChildren(element("p", name, "name"), element("p", said), list);
  if (rest) panel.append(element("p", rest.trim(), "q"));
}

function prepareGraph(figure) {
  const graph = JSON.parse(figure.querySelector("script").textContent);
  const panel = figure.querySelector(".panel");
  const hint = [...panel.childNodes];
  // one drawing for wide windows, one for phones: never both are to be seen
  for (const drawing of figure.querySelectorAll("svg")) prepareDrawing(drawing, graph, panel, hint);
}

function prepareDrawing(drawing, graph, panel, hint) {
  const nodes = [...drawing.querySelectorAll(".node")];
  const edges = [...drawing.querySelectorAll(".edge")];
  let kept = null; // the label that has the focus; pointing at others is for the moment

  function show(label) {
    drawing.classList.toggle("asked", label !== null);
    const near = new Set([label]);
    for (const edge of edges) {
      const ends = [Number(edge.dataset.from), Number(edge.dataset.to)];
      const mine = ends.includes(label);
      edge.classList.toggle("mine", mine);
      if (mine) ends.forEach((end) => near.add(end));
    }
    for (const node of nodes) {
      const own = Number(node.dataset.label);
      node.classList.toggle("near", near.has(own));
      node.classList.toggle("chosen", own === label);
      node.setAttribute("aria-selected", String(own === label));
    }
    if (label === null) panel.replaceChildren(...hint);
    else describe(panel, graph, label);
  }

  function move(node) {
    nodes.forEach((other) => other.setAttribute("tabindex", other === node ? "0" : "-1"));
    node.focus();
  }

  nodes.forEach((node, place) => {
    const label = Number(node.dataset.label);
    node.addEventListener("mouseenter", () => show(label));
    node.addEventListener("mouseleave", () => show(kept));
    node.addEventListener("click", () => move(node));
    node.addEventListener("focus", () => { kept = label; show(label); });
    node.addEventListener("blur", () => { kept = null; });
    node.addEventListener("keydown", (event) => {
      const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
      const ends = { Home: 0, End: nodes.length - 1 };
      let next = null;
      if (event.key in steps) next = (place + steps[event.key] + nodes.length) % nodes.length;
      else if (event.key in ends) next = ends[event.key];
      else if (event.key === "Escape") { kept = null; show(null); node.blur(); }
      if (next !== null) { event.preventDefault(); move(nodes[next]); }
    });
  });
}

document.querySelectorAll("figure.label-graph").forEach(prepareGraph);

// ------------------------------------------------------------------- print what opens on demand

const closed = new Set();
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) {
    closed.add(part);
    part.open = true;
  }
});
window.addEventListener("afterprint", () => {
  closed.forEach((part) => { part.open = false; });
  closed.clear();
});
