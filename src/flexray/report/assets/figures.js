// What all figures share: colours of the page's scheme, labels as plain text, legends with room, keys.
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const STROKES = ["", "6 3", "2 2", "6 2 2 2", "10 3", "10 2 2 2"];
const MARKS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x"];
const STRETCH = 8;
const LINE = 20;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A group's look [hue, dash, mark] as Plotly's; the colour is a number of the page's scheme.
function lineOf([hue, dash]) {
  return { color: colour(`--c${hue}`), dash: DASHES[dash] };
}

function marksOf([hue, , mark]) {
  if (!mark) return { mode: "lines" };
  return { mode: "lines+markers", marker: { symbol: MARKS[(mark - 1) % MARKS.length], size: 7, color: colour(`--c${hue}`), maxdisplayed: 12 } };
}

// Plotly reads some tags in its texts; names are to be shown as they are.
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function fontSize() {
  return window.innerWidth < 720 ? 11 : 13;
}

function widthOf(text) {
  widthOf.context ??= document.createElement("canvas").getContext("2d");
  widthOf.context.font = `${fontSize()}px ${getComputedStyle(document.body).fontFamily}`;
  return widthOf.context.measureText(text).width;
}

// The text in as few lines as fit the room, at most five; of a longer one the middle is left out.
function wrapped(text, room) {
  const lines = [""];
  for (const word of String(text).slice(0, 2000).split(/(?<=[\s,/.])/)) {
    if (lines[lines.length - 1] && widthOf(lines[lines.length - 1] + word) > room) lines.push("");
    for (const letter of word) {
      if (lines[lines.length - 1] && widthOf(lines[lines.length - 1] + letter) > room) lines.push("");
      lines[lines.length - 1] += letter;
    }
  }
  return (lines.length > 5 ? [...lines.slice(0, 3), `…${lines[lines.length - 2].slice(1)}`, lines[lines.length - 1]] : lines).map((line) => line.trim());
}

// The text in one line, its middle left out if it is longer than the room.
function shortened(text, room) {
  let cut = String(text);
  for (let keep = Math.min(cut.length, 200); keep > 3 && widthOf(cut) > room; keep -= 1) {
    cut = `${text.slice(0, Math.ceil(keep / 2))}…${text.slice(text.length - Math.floor(keep / 2))}`;
  }
  return cut;
}

function axis(title, more = {}) {
  const line = { gridcolor: colour("--grid"), zerolinecolor: colour("--grid"), linecolor: colour("--line") };
  return { title: { text: plain(title), standoff: 8 }, automargin: true, ...line, ...more };
}

function layout(more) {
  const narrow = window.innerWidth < 720;
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, Segoe UI, Roboto, Helvetica, Arial, sans-serif", size: fontSize(), color: colour("--ink") },
    margin: { l: narrow ? 44 : 60, r: 12, t: 30, b: 44 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    ...more,
  };
}

// Room for a legend below a plot of this height: as many columns as fit, long names in several lines.
function withLegend(box, traces, plotHeight) {
  const shown = traces.filter((trace) => trace.showlegend !== false && trace.name);
  const room = Math.max(120, box.clientWidth - 80);
  const names = new Map(shown.map((trace) => [trace, wrapped(trace.name, room - 50)]));
  const widest = Math.max(1, ...[...names.values()].flat().map(widthOf)) + 50;
  const columns = Math.max(1, Math.floor(room / widest));
  const lines = [...names.values()].map((parts) => parts.length);
  let height = 0;
  for (let k = 0; k < lines.length; k += columns) height += LINE + 1.3 * fontSize() * (Math.max(...lines.slice(k, k + columns)) - 1);
  for (const [trace, parts] of names) trace.name = parts.map(plain).join("<br>");
  const below = 62, top = 30;
  return {
    height: top + plotHeight + below + height,
    margin: { l: window.innerWidth < 720 ? 44 : 60, r: 12, t: top, b: below + height },
    showlegend: true,
    legend: { orientation: "h", x: 0, y: -(below - 6) / plotHeight, yanchor: "top", tracegroupgap: 0, maxheight: height + 2 * LINE },
  };
}

// Of several equal lines each is seen for a stretch in turn, and the legend says what it is the same as.
function separate(traces) {
  const found = new Map();
  traces.forEach((trace, k) => Object.assign(trace, { legendrank: 1000 + k }));
  for (const trace of traces) {
    const content = JSON.stringify([trace.x, trace.y]);
    found.set(content, [...(found.get(content) ?? []), trace]);
  }
  const legends = [];
  for (const equal of found.values()) {
    if (equal.length < 2) continue;
    const first = equal[0].name, period = equal.length * STRETCH;
    equal.forEach((trace, k) => {
      const name = k ? `${trace.name} (same as ${first})` : first;
      legends.push({ ...trace, x: [null], y: [null], name, legendgroup: name, hoverinfo: "skip" });
      const dash = `0px,${k * STRETCH}px,${STRETCH}px,${period - (k + 1) * STRETCH}px`;
      Object.assign(trace, { name, legendgroup: name, showlegend: false, line: { ...trace.line, dash } });
    });
  }
  return [...traces, ...legends];
}

function draw(id, traces, more, words) {
  const box = document.getElementById(id);
  box.setAttribute("aria-label", words);
  box.querySelector(".waiting")?.remove();
  return Plotly.react(box, traces, layout(more), { displaylogo: false, displayModeBar: window.innerWidth >= 720, responsive: true, modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]] });
}

// Arrows move, + and - zoom, 0 shows all.
function addKeys(box) {
  box.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: -0.1, ArrowRight: 0.1 };
    const zooms = { "+": 0.7, "=": 0.7, "-": 1 / 0.7 };
    if (!box._fullLayout || !(event.key in moves || event.key in zooms || event.key === "0")) return;
    event.preventDefault();
    if (event.key === "0") {
      Plotly.relayout(box, { "xaxis.autorange": true, "yaxis.autorange": box.id === "schedule" ? "reversed" : true });
      return;
    }
    const [from, to] = box._fullLayout.xaxis.range.map(Number);
    const middle = (from + to) / 2, half = ((to - from) / 2) * (zooms[event.key] ?? 1);
    const shift = (moves[event.key] ?? 0) * (to - from);
    Plotly.relayout(box, { "xaxis.range": [middle - half + shift, middle + half + shift] });
  });
}
