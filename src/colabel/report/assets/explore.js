"use strict";

// A page to ask the joint. A row has listed label sets with probabilities; given what is set as
// known, the sets that agree are shared out anew:
//   P(label = v | known) = mass of agreeing sets with v / mass of agreeing sets.
// With u the probability that is not listed, the number lies between
//   a / (m + u) and (a + u) / (m + u), a and m being the two masses.

(() => {
  const data = JSON.parse(document.getElementById("explore-data").textContent);
  const { labels, values, indicator, rows, rules } = data;
  const FIRST = 40; // labels shown at first
  const SETS = 12;
  const BAND = 0.002; // bounds closer than this are not drawn
  const state = { row: 0, other: -1, known: new Map(), all: false, order: [], open: true };
  // many cells would push the labels off a narrow screen
  state.open = matchMedia("(min-width: 64rem)").matches || rows[0].cells.length <= 8;

  for (const row of rows) {
    row.codes = row.sets.map((set) => {
      if (!indicator) return set;
      const codes = new Uint8Array(labels.length);
      for (const label of set) codes[label] = 1;
      return codes;
    });
    row.unlisted = Math.max(0, 1 - row.p.reduce((sum, p) => sum + p, 0));
    const best = row.codes.length ? setName(row.codes[0]) : "";
    row.title = `${row.name} · ${best}`;
    row.searched = [row.title, ...row.cells.flat()].join("\n").toLowerCase();
  }

  function setName(codes) {
    const said = [];
    labels.forEach((name, i) => {
      if (!indicator) said.push(`${name} = ${values[i][codes[i]]}`);
      else if (codes[i]) said.push(name);
    });
    return said.join(", ") || "no label";
  }

  function percent(p) {
    if (p > 0.9995 && p < 1) return ">99.9 %";
    if (p > 0 && p < 0.0005) return "<0.1 %";
    return `${(100 * p).toFixed(p < 0.1 ? 1 : p > 0.9 && p < 1 ? 1 : 0)} %`;
  }

  // Listed sets of a row that agree with what is known, and the masses of all values of labels.
  function asked(row) {
    const known = [...state.known];
    const sets = [];
    let mass = 0;
    row.codes.forEach((codes, k) => {
      if (known.every(([label, code]) => codes[label] === code)) {
        sets.push({ codes, p: row.p[k] });
        mass += row.p[k];
      }
    });
    const unlisted = row.unlisted;
    return {
      sets, mass, unlisted,
      prob(label, code) {
        if (state.known.has(label)) {
          const p = state.known.get(label) === code ? 1 : 0;
          return { p, low: p, high: p };
        }
        if (!known.length) {
          const table = row.marginals[label];
          const p = indicator ? (code ? table[0] : 1 - table[0]) : table[code];
          return { p, low: p, high: p };
        }
        if (!mass) return { p: NaN, low: 0, high: 1 };
        let a = 0;
        for (const set of sets) if (set.codes[label] === code) a += set.p;
        const whole = mass + unlisted;
        return { p: a / mass, low: a / whole, high: Math.min(1, (a + unlisted) / whole) };
      },
    };
  }

  // Whether values of the labels that are not known can make a rule hold.
  function mayHold(rule, known) {
    if (rule.every) return rule.every.every((part) => mayHold(part, known));
    if (rule.some) return rule.some.some((part) => mayHold(part, known));
    if (rule.vectors) {
      return rule.vectors.some((vector) =>
        rule.labels.every((label, k) => !known.has(label) || known.get(label) === vector[k]));
    }
    let least = 0;
    let most = 0;
    for (const [label, worth] of rule.worth) {
      const open = known.has(label) ? [worth[known.get(label)]] : worth;
      least += Math.min(...open);
      most += Math.max(...open);
    }
    return most >= rule.low && least <= rule.high;
  }

  function scope(rule) {
    if (rule.worth) return rule.worth.map(([label]) => label);
    return rule.labels || (rule.every || rule.some).flatMap(scope);
  }

  const touching = labels.map(() => []);
  for (const rule of rules) {
    rule.scope = [...new Set(scope(rule))];
    for (const label of rule.scope) touching[label].push(rule);
  }

  // What follows from known values, or null if they contradict the rules: a value that makes a rule
  // impossible is dropped, and a label with one value left is known too.
  function following(known, left, waiting) {
    for (const rule of waiting) {
      waiting.delete(rule); // it may be added again
      if (!mayHold(rule, known)) return null;
      for (const label of rule.scope) {
        if (known.has(label)) continue;
        const before = left.get(label) ?? values[label].map((_, code) => code);
        const kept = before.filter((code) => mayHold(rule, known.set(label, code)));
        known.delete(label);
        if (!kept.length) return null;
        left.set(label, kept);
        if (kept.length > 1) continue;
        known.set(label, kept[0]);
        for (const other of touching[label]) waiting.add(other);
      }
    }
    return { known, left };
  }

  // A function that says whether the rules forbid a value beside what is set.
  function forbidding() {
    const start = following(new Map(state.known), new Map(), new Set(rules));
    return (label, code) => {
      if (!start || state.known.has(label)) return false;
      if (start.known.has(label)) return start.known.get(label) !== code;
      if (start.left.has(label) && !start.left.get(label).includes(code)) return true;
      const known = new Map(start.known).set(label, code);
      return !following(known, new Map(start.left), new Set(touching[label]));
    };
  }

  // A name breaks between its parts where it must.
  function nameParts(name) {
    const pieces = name.split(/(?<=[_\-./:])(?=\w)|(?<=[a-z0-9])(?=[A-Z])/);
    return pieces.flatMap((piece, k) => (k ? [document.createElement("wbr"), piece] : [piece]));
  }

  function make(name, options = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (key === "text") made.textContent = value;
      else if (key in made && key !== "list") made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  // ------------------------------------------------------------------------------------ rows

  const place = document.getElementById("explore-rows");
  const search = make("input", { type: "search", id: "explore-search", autocomplete: "off",
    placeholder: "a word of the row or a label" });
  const picked = make("select", { id: "explore-row" });
  const other = make("select", { id: "explore-other" });
  const previous = make("button", { type: "button", id: "explore-previous", text: "‹ previous" });
  const next = make("button", { type: "button", id: "explore-next", text: "next ›" });
  const found = make("span", { className: "q", id: "explore-found", "aria-live": "polite" });
  const cells = make("div", { id: "explore-cells" });
  place.append(
    make("div", { className: "controls" },
      make("label", {}, make("span", { text: "Find" }), search),
      make("label", {}, make("span", { text: "Row" }), picked),
      make("label", {}, make("span", { text: "Compare with" }), other),
      make("div", { className: "steps" }, previous, next, found)),
    cells);

  function fill(select, chosen, list, none) {
    const options = list.map((k) => {
      const title = rows[k].title;
      return make("option", { value: String(k), text: title.length > 90 ? `${title.slice(0, 89)}…` : title });
    });
    if (none) options.unshift(make("option", { value: "-1", text: "no other row" }));
    select.replaceChildren(...options);
    select.value = String(chosen);
  }

  function matching() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.map((_, k) => k).filter((k) => words.every((w) => rows[k].searched.includes(w)));
  }

  // What is known of one row says nothing of the next.
  function choose(row) {
    if (row !== state.row) state.known.clear();
    state.row = row;
    picked.value = String(row);
    show(true);
  }

  function filter() {
    const list = matching();
    found.textContent = search.value.trim() ? `${list.length} of ${rows.length} rows` : "";
    const row = list.length && !list.includes(state.row) ? list[0] : state.row;
    fill(picked, row, list.length ? list : [row], false);
    fill(other, state.other, rows.map((_, k) => k), true);
    choose(row);
  }

  function step(by) {
    const list = matching();
    if (!list.length) return;
    const at = list.indexOf(state.row);
    choose(list[(at + by + list.length) % list.length]);
  }

  search.addEventListener("input", filter);
  picked.addEventListener("change", () => choose(Number(picked.value)));
  other.addEventListener("change", () => { state.other = Number(other.value); show(false); });
  previous.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));

  function shown() {
    return state.other >= 0 && state.other !== state.row ? [state.row, state.other] : [state.row];
  }

  function showCells() {
    state.open = cells.querySelector("details")?.open ?? state.open;
    const tables = shown().map((k) => {
      const row = rows[k];
      const body = row.cells.map(([name, value]) =>
        make("tr", {}, make("th", { scope: "row" }, ...nameParts(name)), make("td", { className: "text", text: value })));
      return make("details", { open: state.open },
        make("summary", { text: `Cells of ${row.name}` }),
        make("div", { className: "scroll", tabIndex: 0 },
          make("table", { className: "cells" }, make("tbody", {}, ...body))));
    });
    cells.replaceChildren(...(tables.length && rows[state.row].cells.length ? tables : []));
  }

  // ---------------------------------------------------------------------------------- labels

  const list = document.getElementById("explore-labels");

  function orderLabels() {
    const row = rows[state.row];
    state.order = labels.map((_, i) => i);
    // most probable first; the order stays while labels are set, or they would jump
    if (indicator) state.order.sort((a, b) => row.marginals[b][0] - row.marginals[a][0] || a - b);
  }

  function chooser(label, forbids) {
    const forbidden = (code) => code !== null && forbids(label, code);
    if (!indicator && values[label].length > 2) {
      const select = make("select", { "aria-label": `${labels[label]} is` });
      select.append(make("option", { value: "", text: "unknown" }));
      values[label].forEach((value, code) =>
        select.append(make("option", { value: String(code), text: value, disabled: forbidden(code) })));
      select.value = state.known.has(label) ? String(state.known.get(label)) : "";
      select.dataset.label = String(label);
      select.addEventListener("change", () => set(label, select.value === "" ? null : Number(select.value)));
      return select;
    }
    const group = make("div", { className: "three", role: "radiogroup" });
    group.setAttribute("aria-label", `${labels[label]} is`);
    const words = indicator ? ["no", "yes"] : values[label];
    for (const [code, word] of [[null, "?"], [1, words[1]], [0, words[0]]]) {
      if (word === undefined) continue;
      const on = state.known.has(label) ? state.known.get(label) === code : code === null;
      const input = make("input", { type: "radio", name: `label-${label}`, checked: on,
        value: code === null ? "" : String(code), disabled: forbidden(code) });
      input.addEventListener("change", () => set(label, code));
      const said = code === null ? "unknown" : forbidden(code) ? `${word}: the rules forbid it` : word;
      const text = make("span", { text: word, title: said });
      if (code === null) input.setAttribute("aria-label", "unknown");
      group.append(make("label", {}, input, text));
    }
    return group;
  }

  function bar(answer, label, code, second) {
    const { p, low, high } = answer.prob(label, code);
    const track = make("div", { className: second ? "track second" : "track" });
    if (high - low > BAND) {
      const band = make("div", { className: "band" });
      band.style.left = `${100 * low}%`;
      band.style.width = `${100 * (high - low)}%`;
      track.append(band);
    }
    if (!Number.isNaN(p)) {
      const length = make("div", { className: "amount" });
      length.style.width = `${100 * p}%`;
      track.append(length);
    }
    const number = make("span", { className: "number", text: Number.isNaN(p) ? "?" : percent(p) });
    if (high - low > BAND) number.title = `between ${percent(low)} and ${percent(high)}`;
    return [track, number];
  }

  // The value of a label whose probability is drawn: 1 of 0/1 labels, else the likeliest one.
  function drawnValue(answers, label) {
    if (indicator) return 1;
    let best = 0;
    values[label].forEach((_, code) => {
      if (answers[0].prob(label, code).p > answers[0].prob(label, best).p) best = code;
    });
    return best;
  }

  function showLabels(answers) {
    const kept = state.all ? state.order : state.order.filter((i, k) => k < FIRST || state.known.has(i));
    const focus = document.activeElement;
    const again = list.contains(focus) ? [focus.name, focus.value, focus.dataset.label] : null;
    const forbids = forbidding();
    const lines = kept.map((label) => {
      const code = drawnValue(answers, label);
      const name = make("div", { className: "name" }, ...nameParts(labels[label]));
      if (!indicator) name.append(make("span", { className: "q", text: ` = ${values[label][code]}` }));
      const bars = answers.map((answer, k) => make("div", { className: "pair" }, ...bar(answer, label, code, k > 0)));
      const line = make("div", { className: state.known.has(label) ? "line known" : "line" },
        name, chooser(label, forbids), make("div", { className: "bars" }, ...bars));
      line.dataset.label = String(label);
      return line;
    });
    const reset = make("button", { type: "button", id: "explore-reset", text: "Forget what is set",
      disabled: !state.known.size });
    reset.addEventListener("click", () => { state.known.clear(); show(false); });
    const head = make("div", { className: "steps" }, reset,
      make("span", { className: "q", id: "explore-known", text: knownText() }));
    const more = [];
    if (kept.length < labels.length) {
      const button = make("button", { type: "button", id: "explore-all", text: `Show all ${labels.length} labels` });
      button.addEventListener("click", () => { state.all = true; show(false); });
      more.push(button);
    }
    const legend = answers.length > 1
      ? [make("p", { className: "legend", text: `Upper bar: ${rows[state.row].name}; lower, striped bar: ${rows[state.other].name}.` })]
      : [];
    list.replaceChildren(head, ...legend, make("div", { className: "asking" }, ...lines), ...more);
    if (again) {
      const same = [...list.querySelectorAll("input, select")].find((one) =>
        again[2] !== undefined ? one.dataset.label === again[2] : one.name === again[0] && one.value === again[1]);
      if (same) same.focus({ preventScroll: true });
    }
  }

  function knownText() {
    if (!state.known.size) return "Set a label as known, and the others follow.";
    const said = [...state.known].map(([i, c]) =>
      indicator ? `${c ? "" : "not "}${labels[i]}` : `${labels[i]} = ${values[i][c]}`);
    return `Known: ${said.join(", ")}`;
  }

  function set(label, code) {
    if (code === null) state.known.delete(label);
    else state.known.set(label, code);
    show(false);
  }

  // ------------------------------------------------------------------------------ label sets

  const sets = document.getElementById("explore-sets");

  function covered(row, answer) {
    const listed = 1 - answer.unlisted;
    const rest = answer.unlisted > 0.00005 ? `${percent(answer.unlisted)} is not listed` : "hardly anything is missing";
    const first = `${row.sets.length} label sets are listed, with ${percent(listed)} of the probability; ${rest}.`;
    if (!state.known.size) return first;
    if (!answer.sets.length) {
      return `${first} None of them agrees with what is set: the page cannot answer this, the model can.`;
    }
    const doubt = answer.unlisted / (answer.mass + answer.unlisted);
    return `${first} What is set has probability ${percent(answer.mass)}, in ${answer.sets.length} of them; `
      + `numbers may be off by at most ${percent(doubt)}.`;
  }

  function showSets(answers) {
    const parts = shown().map((k, place) => {
      const answer = answers[place];
      const total = answer.mass || 1;
      const items = answer.sets.slice(0, SETS).map(({ codes, p }) => {
        const share = state.known.size ? p / total : p;
        const track = make("div", { className: "track" });
        const length = make("div", { className: "amount" });
        length.style.width = `${100 * share}%`;
        track.append(length);
        return make("li", {}, make("span", { className: "set" }, ...nameParts(setName(codes))),
          make("div", { className: "pair" }, track, make("span", { className: "number", text: percent(share) })));
      });
      const more = answer.sets.length - items.length;
      return make("div", { className: "row-sets" },
        make("h4", { text: rows[k].name }),
        make("ol", {}, ...items),
        make("p", { className: "legend", text: `${more > 0 ? `and ${more} more. ` : ""}${covered(rows[k], answer)}` }));
    });
    sets.replaceChildren(...parts);
  }

  // -------------------------------------------------------------------------------- evidence

  const evidence = document.getElementById("explore-evidence");

  function side(name, terms) {
    const said = terms.map(([text, added, kind]) => {
      const number = `${added < 0 ? "−" : "+"}${Math.abs(added).toFixed(2)}`;
      return make("li", { className: added < 0 ? "less" : "more" },
        make("b", { text: number }), " ", ...nameParts(kind === "label" ? `label ${text}` : text));
    });
    return make("div", { className: "side" }, make("span", { className: "q", text: name }), make("ul", {}, ...said));
  }

  function showEvidence() {
    if (!evidence) return;
    const blocks = shown().filter((k) => rows[k].evidence).map((k) => make("div", {},
      make("h4", { text: rows[k].name }),
      ...rows[k].evidence.map(([what, more, less]) => make("div", { className: "speaks" },
        make("div", { className: "name" }, ...nameParts(what)),
        side("for", more), side("against", less)))));
    evidence.replaceChildren(...blocks);
  }

  function show(newRow) {
    if (newRow) orderLabels();
    const answers = shown().map((k) => asked(rows[k]));
    showCells();
    showLabels(answers);
    showSets(answers);
    showEvidence();
  }

  filter();
})();
