// Curves over time, rounds or bytes: mean and deviation of each group, or every run.
function showCurves(data, chosen) {
  const setting = document.getElementById("curve-setting").value;
  const metric = document.getElementById("curve-metric").value;
  const over = document.getElementById("curve-axis").value;
  const each = document.getElementById("curve-runs").checked;
  const means = [], edges = [], lines = [];
  data.groups.forEach((group, g) => {
    if (group.setting !== setting) return;
    const runs = chosen.filter((run) => run.group === g && run.evals && metric in run.evals.y);
    if (each) means.push(...runs.map((run, k) => runTrace(run, metric, over, group, k === 0)));
    const mean = band(runs.filter((run) => run.counted).map((run) => curveOf(run, metric, over)));
    if (!mean) return;
    lines.push([group.label, mean]);
    if (each) return;
    means.push(meanTrace(mean, group));
    edges.push(...edgeTraces(mean, group));
  });
  const here = chosen.filter((run) => run.group >= 0 && data.groups[run.group].setting === setting);
  const title = { time: `simulated time (${here[0]?.unit ?? "units"})`, rounds: "rounds", bytes: "sent (MB)" }[over];
  const goal = here.find((run) => run.metric === metric && run.target !== null);
  const traces = [...edges, ...(each ? means : separate(means))];
  const more = {
    xaxis: axis(title, isLog(data, setting, over) ? { type: "log" } : { rangemode: "tozero" }),
    yaxis: axis(metric, { type: document.getElementById("curve-log").checked ? "log" : "linear" }),
    hovermode: "closest",
    ...withLegend(document.getElementById("curves"), traces, window.innerWidth < 720 ? 270 : 330),
    shapes: goal ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: goal.target, y1: goal.target, line: { color: colour("--soft"), width: 1, dash: "dot" } }] : [],
    annotations: goal ? [{ xref: "paper", x: 0, xanchor: "left", y: log(goal.target), yanchor: "bottom", showarrow: false, text: plain(goal.goal), bgcolor: `${colour("--card")}cc`, font: { color: colour("--soft"), size: 12 } }] : [],
  };
  const words = lines.map(([name, mean]) => `${name} ends at ${shown(mean.points[mean.points.length - 1])}`);
  draw("curves", traces, more, `${metric} over ${title}: ${words.join("; ") || "nothing to show"}`);
  showCurvesTable(lines, title);
}

// As chosen, or where all is decided in the first tenth of the axis; the start, at 0, is not on it.
function isLog(data, setting, over) {
  const scale = document.getElementById("curve-scale").value;
  const early = scale === "auto" && !!data.early[setting]?.[over];
  document.getElementById("curve-hint").textContent = early ? "The axis is logarithmic, since all is decided in its first tenth." : "";
  return early || scale === "log";
}

function log(value) {
  return document.getElementById("curve-log").checked ? Math.log10(value) : value;
}

function curveOf(run, metric, over) {
  const xs = run.evals.x[over];
  return [over === "bytes" ? xs.map((x) => x / 1e6) : xs, run.evals.y[metric]];
}

function runTrace(run, metric, over, group, first) {
  const [x, y] = curveOf(run, metric, over);
  const state = run.counted ? "" : ` (${run.status}, not counted)`;
  return {
    x, y, mode: "lines", line: { ...lineOf(group.look), shape: "hv", width: 1.2 }, opacity: run.counted ? 0.85 : 0.5,
    name: group.label, legendgroup: plain(group.label), showlegend: first,
    hovertemplate: `${plain(group.label)}, seed ${plain(run.seed)}${plain(state)}<br>%{x}: %{y:.5g}<extra></extra>`,
  };
}

function meanTrace(mean, group) {
  const y = mean.points.map((p) => p && p.mean);
  const line = { ...lineOf(group.look), shape: "hv", width: 2 };
  return { x: mean.x, y, line, ...marksOf(group.look), name: group.label, legendgroup: group.label, customdata: mean.points.map((p) => shown(p)), hovertemplate: `${plain(group.label)}<br>%{x}: %{customdata}<extra></extra>` };
}

function edgeTraces(mean, group) {
  if (!mean.several) return [];
  const edge = { x: mean.x, mode: "lines", line: { width: 0, shape: "hv" }, legendgroup: group.label, showlegend: false, hoverinfo: "skip" };
  const low = { ...edge, y: mean.points.map((p) => p && p.mean - p.std) };
  const high = { ...edge, y: mean.points.map((p) => p && p.mean + p.std), fill: "tonexty", fillcolor: `${colour(`--c${group.look[0]}`)}2e` };
  return [low, high];
}

// At most 12 points of the axis, so that it can be read.
function showCurvesTable(lines, title) {
  const grid = [...new Set(lines.flatMap(([, mean]) => mean.x))].sort((a, b) => a - b);
  const step = Math.max(1, Math.ceil(grid.length / 12));
  const points = grid.filter((_, k) => k % step === 0 || k === grid.length - 1);
  const rows = points.map((x) => [
    String(+x.toPrecision(6)),
    ...lines.map(([, mean]) => shown(held(mean.x, mean.points, x))),
  ]);
  document.getElementById("curves-table").replaceChildren(plainTable([title, ...lines.map(([name]) => name)], rows, 0));
}
