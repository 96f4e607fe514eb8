// The same figures as in the tables that Python writes: means only where every run has the value.
function spread(values) {
  if (!values.length) return null;
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const squares = values.reduce((a, b) => a + (b - mean) ** 2, 0);
  return { mean, std: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : null };
}

function fixed(value, decimals) {
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

function shown(found, decimals) {
  if (!found) return "--";
  const size = Math.abs(found.mean);
  const usual = size >= 1000 || size === 0 ? 0 : Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(size))));
  const digits = decimals ?? usual;
  return fixed(found.mean, digits) + (found.std === null ? "" : ` ± ${fixed(found.std, digits)}`);
}

// The value that holds at x: of the last evaluation until then; null before the first and after the last.
function held(xs, ys, x) {
  if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
  let low = 0, high = xs.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  return ys[low];
}

// Mean and deviation of curves [xs, ys] on the union of their grids, where all of them have a value.
function band(curves) {
  const usable = curves.filter(([xs]) => xs.length);
  if (!usable.length || usable.length < curves.length) return null;
  const start = Math.max(...usable.map(([xs]) => xs[0]));
  const end = Math.min(...usable.map(([xs]) => xs[xs.length - 1]));
  const grid = [...new Set(usable.flatMap(([xs]) => xs))].filter((x) => x >= start && x <= end).sort((a, b) => a - b);
  const points = grid.map((x) => {
    const values = usable.map(([xs, ys]) => held(xs, ys, x));
    return values.includes(null) ? null : spread(values);
  });
  return { x: grid, points, several: usable.length > 1 };
}

const MEASURES = ["time", "rounds", "bytes"];

// What came out of a group's runs: see Result in Python.
function outcome(runs, costs) {
  const reached = runs.filter((run) => run.reached);
  const all = runs.length > 0 && reached.length === runs.length;
  const spreads = MEASURES.map((_, k) => (all ? spread(reached.map((run) => run.reached[k])) : null));
  const finals = runs.map((run) => run.final).filter((value) => value !== null);
  const spent = costs.map((name) => runs.map((run) => run.costs?.[name] ?? null));
  const whole = spent.map((values) => (values.length && !values.includes(null) ? spread(values) : null));
  return { runs, reached, spreads, costs: whole, final: finals.length === runs.length ? spread(finals) : null };
}
