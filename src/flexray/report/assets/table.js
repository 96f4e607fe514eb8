// The table of results for the runs that the filters leave.
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") made.textContent = value;
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function plainTable(header, rows, numericFrom = 1) {
  const kind = (k) => (k >= numericFrom ? { class: "number" } : {});
  const head = header.map((text, k) => element("th", { scope: "col", text, ...kind(k) }));
  const body = rows.map((row) => element("tr", {}, ...row.map((text, k) => element("td", { text, ...kind(k) }))));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}

// A short line as a group's lines look.
function swatch([hue, dash, mark]) {
  const make = (tag, options) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(options)) made.setAttribute(key, value);
    return made;
  };
  const box = make("svg", { class: "swatch", viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" });
  box.style.color = `var(--c${hue})`;
  box.append(make("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: "currentColor", "stroke-width": 3, "stroke-dasharray": STROKES[dash] }));
  if (mark) box.append(make("circle", { cx: 13, cy: 5, r: 4, fill: "currentColor" }));
  return box;
}

function bestOf(outcomes, lower) {
  const lowest = (found) => Math.min(...outcomes.map(found).filter(Boolean).map((s) => s.mean));
  const wins = (o, found) => !!found(o) && found(o).mean <= lowest(found);
  const finals = outcomes.filter((o) => o.final).map((o) => (lower ? 1 : -1) * o.final.mean);
  return (o) => [
    ...MEASURES.map((_, k) => outcomes.length > 1 && wins(o, (other) => other.spreads[k])),
    finals.length > 1 && !!o.final && (lower ? 1 : -1) * o.final.mean <= Math.min(...finals),
    ...o.costs.map((_, k) => outcomes.length > 1 && wins(o, (other) => other.costs[k])),
  ];
}

function showResults(data, chosen) {
  const table = document.getElementById("results");
  const titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const lines = data.groups.map((group, g) => ({ group, place: g, ...outcome(chosen.filter((r) => r.group === g && r.counted), data.costs ?? []) }));
  const visible = lines.filter((line) => chosen.some((run) => run.group === line.place));
  const rows = [];
  let before = null;
  for (const line of visible) {
    const rivals = visible.filter((other) => settingKey(data, other.place) === settingKey(data, line.place));
    const longest = Math.max(...rivals.filter((r) => r.spreads[0]).map((r) => r.spreads[0].mean));
    const row = resultRow(data, line, bestOf(rivals, line.runs[0]?.lower)(line), longest, titles);
    if (before !== null && before !== settingKey(data, line.place)) row.className = "start";
    before = settingKey(data, line.place);
    rows.push(row);
  }
  table.tBodies[0].replaceChildren(...rows);
}

function settingKey(data, place) {
  return data.settings[place];
}

function resultRow(data, line, best, longest, titles) {
  const cells = line.group.values.map((text) => element("td", {}, element("span", { text })));
  const named = cells[cells.length - 1].firstChild;
  cells[cells.length - 1].className = "name";
  named.prepend(swatch(line.group.look));
  if (line.group.notes.length) {
    const text = String(data.notes.indexOf(line.place) + 1);
    named.append(element("a", { class: "note", href: "#notes", "aria-label": `note ${text}: ${line.group.notes.join("; ")}`, title: line.group.notes.join("; "), text }));
  }
  const megabytes = line.spreads[2] && { mean: line.spreads[2].mean / 1e6, std: line.spreads[2].std === null ? null : line.spreads[2].std / 1e6 };
  const final = figure(shown(line.final, 4), best[3]);
  const time = figure(shown(line.spreads[0]), best[0]);
  if (line.spreads[0]) time.append(element("span", { class: "bar", "aria-hidden": "true", style: { width: `${(100 * line.spreads[0].mean) / longest}%` } }));
  if (data.targets) cells.push(time, figure(`${line.reached.length}/${line.runs.length}`), figure(shown(line.spreads[1]), best[1]), figure(shown(megabytes), best[2]));
  else cells.push(figure(String(line.runs.length)));
  cells.push(...line.costs.map((found, k) => figure(shown(found), best[4 + k])), final);
  if (titles.length > cells.length) {
    cells.push(figure(line.group.paper));
    cells[cells.length - 1].classList.add("paper");
  }
  cells.forEach((cell, k) => cell.setAttribute("data-label", titles[k]));
  return element("tr", {}, ...cells);
}

function figure(text, best = false) {
  const cell = element("td", { class: best ? "number best" : "number" });
  cell.append(best ? element("strong", { text }) : text);
  return cell;
}

function showDifferences(data) {
  const box = document.getElementById("differences");
  if (!data.differences.length) {
    box.replaceChildren(element("p", { class: "hint", text: "Nothing but the seeds." }));
    return;
  }
  const header = ["key", ...data.groups.map((group) => (data.several ? `${group.setting}: ${group.label}` : group.label))];
  box.replaceChildren(plainTable(header, data.differences, header.length));
}
