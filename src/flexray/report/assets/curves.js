// Curves over time, rounds or bytes: mean and deviation of each group, or every run.
const DASHES = ["solid", "dash", "dot", "dashdot"];

function showCurves(data, chosen) {
  const setting = document.getElementById("curve-setting").value;
  const metric = document.getElementById("curve-metric").value;
  const over = document.getElementById("curve-axis").value;
  const each = document.getElementById("curve-runs").checked;
  const traces = [], lines = [];
  data.groups.forEach((group, g) => {
    if (group.setting !== setting) return;
    const runs = chosen.filter((run) => run.group === g && run.evals && metric in run.evals.y);
    const look = { color: colour(`--c${data.looks[g] % 8}`), dash: DASHES[Math.floor(data.looks[g] / 8) % 4] };
    if (each) traces.push(...runs.map((run, k) => runTrace(run, metric, over, look, group, k === 0)));
    const mean = band(runs.filter((run) => run.counted).map((run) => curveOf(run, metric, over)));
    if (!mean) return;
    lines.push([group.label, mean]);
    if (!each) traces.push(...bandTraces(mean, look, group));
  });
  const unit = chosen.find((run) => run.group >= 0 && data.groups[run.group].setting === setting)?.unit ?? "units";
  const title = { time: `simulated time (${unit})`, rounds: "rounds", bytes: "sent (MB)" }[over];
  const goal = chosen.find((run) => run.metric === metric && run.target !== null && run.group >= 0 && data.groups[run.group].setting === setting);
  const more = {
    xaxis: axis(title, { rangemode: "tozero" }),
    yaxis: axis(metric, { type: document.getElementById("curve-log").checked ? "log" : "linear" }),
    hovermode: "closest",
    height: window.innerWidth < 720 ? 400 : 460,
    shapes: goal ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: goal.target, y1: goal.target, line: { color: colour("--soft"), width: 1, dash: "dot" } }] : [],
    annotations: goal ? [{ xref: "paper", x: 1, xanchor: "right", y: log(goal.target), yanchor: "top", showarrow: false, text: plain(goal.goal), font: { color: colour("--soft"), size: 12 } }] : [],
  };
  const words = lines.map(([name, mean]) => `${name} ends at ${shown(mean.points[mean.points.length - 1])}`);
  draw("curves", traces, more, `${metric} over ${title}: ${words.join("; ") || "nothing to show"}`);
  showCurvesTable(lines, title);
}

function log(value) {
  return document.getElementById("curve-log").checked ? Math.log10(value) : value;
}

function curveOf(run, metric, over) {
  const xs = run.evals.x[over];
  return [over === "bytes" ? xs.map((x) => x / 1e6) : xs, run.evals.y[metric]];
}

function runTrace(run, metric, over, look, group, first) {
  const [x, y] = curveOf(run, metric, over);
  const state = run.counted ? "" : ` (${run.status}, not counted)`;
  return {
    x, y, mode: "lines", line: { ...look, shape: "hv", width: 1.2, dash: run.counted ? look.dash : "dot" }, opacity: 0.85,
    name: plain(group.label), legendgroup: plain(group.label), showlegend: first,
    hovertemplate: `${plain(group.label)}, seed ${plain(run.seed)}${plain(state)}<br>%{x}: %{y:.5g}<extra></extra>`,
  };
}

function bandTraces(mean, look, group) {
  const name = plain(group.label);
  const y = mean.points.map((p) => p && p.mean);
  const line = { x: mean.x, y, mode: "lines", name, legendgroup: name, line: { ...look, shape: "hv", width: 2 }, customdata: mean.points.map((p) => shown(p)), hovertemplate: `${name}<br>%{x}: %{customdata}<extra></extra>` };
  if (!mean.several) return [line];
  const edge = { x: mean.x, mode: "lines", line: { width: 0, shape: "hv" }, legendgroup: name, showlegend: false, hoverinfo: "skip" };
  const low = { ...edge, y: mean.points.map((p) => p && p.mean - p.std) };
  const high = { ...edge, y: mean.points.map((p) => p && p.mean + p.std), fill: "tonexty", fillcolor: `${look.color}2e` };
  return [low, high, line];
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
