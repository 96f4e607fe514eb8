// Filters and controls; everything is drawn again when one of them changes.
function distinct(values) {
  return [...new Set(values)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

function prepare(data) {
  const settings = [...new Set(data.groups.map((g) => g.setting))];
  data.settings = data.groups.map((g) => settings.indexOf(g.setting));
  data.notes = data.groups.map((_, k) => k).filter((k) => data.groups[k].notes.length);
  data.several = settings.length > 1;
  return data;
}

// What runs are filtered by: {id, title, of}, where of(run) is the run's value.
function filtersOf(data) {
  const known = ["algo", "dataset", "seed"];
  const swept = data.columns.map((title, k) => ({ id: `filter-column-${k}`, title, of: (run) => run.values[k] }));
  const own = swept.filter((filter) => !known.includes(filter.title) && new Set(data.runs.map(filter.of)).size > 1);
  for (const filter of own) {
    const box = element("fieldset", { id: filter.id }, element("legend", { text: filter.title }));
    document.getElementById("filter-seed").before(box);
  }
  return [...known.map((key) => ({ id: `filter-${key}`, title: key, of: (run) => run[key] })), ...own];
}

function addChips(data, filter, again) {
  const box = document.getElementById(filter.id);
  const isAlgo = filter.title === "algo";
  const values = isAlgo ? [...new Set(data.runs.map(filter.of))] : distinct(data.runs.map(filter.of));
  for (const value of values) {
    const input = element("input", { type: "checkbox", value });
    input.checked = true;
    const mark = element("span", { text: value });
    if (isAlgo) {
      const hues = new Set(data.runs.filter((run) => run.algo === value && run.group >= 0).map((run) => data.groups[run.group].look[0]));
      if (hues.size === 1) mark.prepend(element("i", { "aria-hidden": "true", style: { background: `var(--c${[...hues][0]})` } }));
    }
    box.append(element("label", { class: "chip" }, input, mark));
  }
  box.addEventListener("change", again);
}

function checked(filter) {
  return new Set([...document.querySelectorAll(`#${filter.id} input:checked`)].map((input) => input.value));
}

function options(id, entries, chosen) {
  const select = document.getElementById(id);
  const before = select.value;
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value, text })));
  const values = entries.map(([value]) => String(value));
  select.value = values.includes(before) ? before : values.includes(String(chosen)) ? String(chosen) : values[0] ?? "";
}

function addControls(data) {
  options("curve-setting", [...new Set(data.groups.map((g) => g.setting))].map((s) => [s, s]));
  document.getElementById("curve-setting").parentElement.hidden = !data.several;
  document.getElementById("curve-setting").parentElement.style.display = data.several ? "" : "none";
  const metrics = distinct(data.runs.flatMap((run) => Object.keys(run.evals?.y ?? {})));
  options("curve-metric", metrics.map((m) => [m, m]), data.runs.find((run) => run.counted)?.metric);
  for (const box of document.querySelectorAll(".figure")) addKeys(box);
  for (const id of ["filters", "curve-controls", "schedule-controls"]) document.getElementById(id).hidden = false;
}

function addPaging(again) {
  const page = (direction) => {
    const [from, to] = ["schedule-from", "schedule-to"].map((id) => document.getElementById(id));
    const size = +to.value - +from.value + 1;
    const start = Math.max(1, Math.min(+from.value + direction * size, +from.max - size + 1));
    from.value = start;
    to.value = start + size - 1;
    again();
  };
  document.getElementById("schedule-before").addEventListener("click", () => page(-1));
  document.getElementById("schedule-after").addEventListener("click", () => page(1));
}

function offerRuns(data, chosen) {
  const listed = chosen.filter((run) => run.status !== "damaged" && run.rounds);
  const text = (run) => `${run.group >= 0 ? `${data.several ? `${data.groups[run.group].setting}: ` : ""}${data.groups[run.group].label}` : run.algo}, seed ${run.seed} (${run.name})`;
  options("schedule-run", listed.map((run) => [data.runs.indexOf(run), text(run)]));
}

async function start() {
  const data = prepare(JSON.parse(await unpack("data")));
  let drawn = false;
  const filters = filtersOf(data);
  const chosen = () => {
    const wanted = filters.map(checked);
    return data.runs.filter((run) => filters.every((filter, k) => wanted[k].has(filter.of(run))));
  };
  const figures = () => {
    if (!drawn) return;
    showCurves(data, chosen());
    showSchedule(data, chosen());
  };
  const again = () => {
    const runs = chosen();
    document.getElementById("state").textContent = `${runs.length} of ${data.runs.length} runs`;
    document.getElementById("reset").disabled = runs.length === data.runs.length;
    showResults(data, runs);
    offerRuns(data, runs);
    figures();
  };
  for (const filter of filters) addChips(data, filter, again);
  addControls(data);
  addPaging(figures);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("curve-controls").addEventListener("change", figures);
  document.getElementById("schedule-controls").addEventListener("change", figures);
  document.getElementById("reset").addEventListener("click", () => {
    for (const input of document.querySelectorAll("#filters input")) input.checked = true;
    again();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", figures);
  showDifferences(data);
  again();
  runScript(await unpack("plotly"));
  drawn = true;
  figures();
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  const text = `This browser cannot draw the figures (${error.message}); the tables are complete.`;
  document.querySelector("main").prepend(element("p", { class: "warnings", text }));
  document.body.dataset.ready = "failed";
});
