// The schedule of one run, and its local iterations and rates over rounds.
const MAX_BARS = 6000;

// A lane's spans: {kind, round, start, length}, in units.
function unpackLane(lane, kinds) {
  let now = 0, round = 0;
  return [...lane.kinds].map((letter, k) => {
    round += lane.steps[k];
    const start = now + lane.gaps[k];
    now = start + lane.lengths[k];
    return { kind: kinds[letter.charCodeAt(0) - 97], round, start, length: lane.lengths[k] };
  });
}

function showSchedule(data, chosen) {
  const run = data.runs[+document.getElementById("schedule-run").value];
  const hint = document.getElementById("schedule-hint");
  if (!run) return;
  const [from, to] = chosenRounds(run);
  if (run.schedule) {
    const lanes = run.schedule.lanes.map((lane) => unpackLane(lane, run.schedule.kinds).filter((s) => s.round >= from && s.round <= to));
    drawSchedule(run, lanes);
    const cut = run.schedule.shown < run.rounds ? ` The page holds the first ${run.schedule.shown.toLocaleString("en-US")} of ${run.rounds.toLocaleString("en-US")} rounds; timeline.json of the run opens in Perfetto.` : "";
    const few = run.shown ? ` Shown: ${run.shown}.` : "";
    hint.textContent = `Run ${run.name}, ${run.turns ? "turns" : "rounds"} ${from} to ${to}.${few}${cut}`;
  } else {
    draw("schedule", [], {}, "No schedule");
    document.getElementById("shares").replaceChildren();
    hint.textContent = `Run ${run.name} has no timeline.json that can be read.`;
  }
  document.getElementById("speeds-box").hidden = !run.speeds;
  if (run.speeds) document.getElementById("speeds").replaceChildren(plainTable(run.speeds[0], run.speeds.slice(1)));
  showPace(run, "tau", "local iterations");
  showPace(run, "lr", "learning rate");
  showPaceTable(run, from, to);
}

// The wanted range, within what there is.
function chosenRounds(run) {
  const last = Math.max(1, run.schedule ? run.schedule.shown : run.rounds);
  const [from, to] = ["schedule-from", "schedule-to"].map((id) => document.getElementById(id));
  const low = Math.min(Math.max(1, Math.floor(+from.value) || 1), last);
  const high = Math.min(Math.max(low, Math.floor(+to.value) || low), last);
  from.value = low;
  to.value = high;
  from.max = to.max = last;
  document.getElementById("schedule-before").disabled = low <= 1;
  document.getElementById("schedule-after").disabled = high >= last;
  return [low, high];
}

function drawSchedule(run, lanes) {
  const looks = { compute: [colour("--compute"), ""], wait: [colour("--wait"), "/"], communicate: [colour("--communicate"), ""] };
  const most = Math.floor(MAX_BARS / Math.max(1, lanes.length));
  const traces = run.schedule.kinds.map((kind, k) => {
    const spans = lanes.flatMap((lane, p) => lane.slice(0, most).filter((s) => s.kind === kind).map((s) => ({ ...s, p })));
    const [fill, shape] = looks[kind] ?? [colour(`--c${k % 8}`), "x"];
    return {
      type: "bar", orientation: "h", name: plain(kind), base: spans.map((s) => s.start), x: spans.map((s) => s.length),
      y: spans.map((s) => plain(run.names[s.p])), customdata: spans.map((s) => [s.round, +(s.start + s.length).toPrecision(8)]),
      marker: { color: fill, line: { width: 0.5, color: colour("--card") }, pattern: { shape, size: 6, solidity: 0.3, fillmode: "overlay", fgcolor: colour("--card") } },
      hovertemplate: `%{y}: ${plain(kind)}<br>%{base} to %{customdata[1]}<br>round %{customdata[0]}<extra></extra>`,
    };
  }).filter((trace) => trace.x.length || trace.name in looks);
  const shares = sharesOf(run, lanes);
  const words = shares.map((row) => `${row[0]} ${run.schedule.kinds.map((kind, k) => `${kind} ${row[k + 1]}`).join(", ")}`).join("; ");
  const plotHeight = Math.max(150, 34 * run.names.length);
  const room = document.getElementById("schedule").clientWidth * 0.32;
  const more = {
    barmode: "overlay", bargap: 0.25, height: plotHeight + 96,
    xaxis: axis(`simulated time (${run.unit})`),
    yaxis: axis("", {
      autorange: "reversed", type: "category", categoryorder: "array", categoryarray: run.names.map(plain),
      tickvals: run.names.map(plain), ticktext: run.names.map((name) => plain(shortened(name, room))),
    }),
    legend: { orientation: "h", y: 1 + 8 / plotHeight, x: 0, yanchor: "bottom" }, margin: { l: 60, r: 12, t: 44, b: 52 },
  };
  draw("schedule", traces, more, `Schedule of ${run.name}: ${words}`);
  document.getElementById("shares").replaceChildren(plainTable(["participant", ...run.schedule.kinds, "units shown"], shares));
}

function sharesOf(run, lanes) {
  return lanes.map((lane, p) => {
    const total = lane.reduce((sum, s) => sum + s.length, 0);
    const share = (kind) => lane.filter((s) => s.kind === kind).reduce((sum, s) => sum + s.length, 0);
    const cells = run.schedule.kinds.map((kind) => (total ? `${((100 * share(kind)) / total).toFixed(1)} %` : "--"));
    return [run.names[p], ...cells, fixed(total, total >= 1000 ? 0 : 1)];
  });
}

function showPace(run, id, title) {
  const last = run.names.length - 1;
  const traces = separate((run[id] ?? []).map(([rounds, values], p) => ({
    x: [...rounds, run.rounds], y: [...values, values[values.length - 1]], mode: "lines", name: run.names[p],
    line: { shape: "hv", width: p === last ? 2.5 : 1.8, color: colour(`--c${p % 8}`), dash: DASHES[Math.floor(p / 8) % DASHES.length] },
    hovertemplate: `${plain(run.names[p])}<br>round %{x}: %{y:.5g}<extra></extra>`,
  })));
  const spans = (run[id] ?? []).map(([, values], p) => (values.length ? `${run.names[p]} ${Math.min(...values)} to ${Math.max(...values)}` : `${run.names[p]} none`));
  const more = { xaxis: axis(run.turns ? "turn" : "round"), yaxis: axis(title, { rangemode: "tozero" }), ...withLegend(document.getElementById(id), traces, 180) };
  draw(id, traces, more, `${title} of ${run.name} over rounds: ${spans.join("; ")}`);
}

function showPaceTable(run, from, to) {
  const at = (series, round) => held([...series[0], Infinity], [...series[1], null], round);
  const rounds = Array.from({ length: Math.min(to - from + 1, 40) }, (_, k) => from + k);
  const rows = rounds.map((round) => [round, ...["tau", "lr"].flatMap((id) => (run[id] ?? []).map((series) => at(series, round) ?? "--"))]);
  const header = ["round", ...["tau", "lr"].flatMap((id) => run.names.map((name) => `${id} ${name}`))];
  document.getElementById("pace-table").replaceChildren(plainTable(header, rows, 0));
}
