// What all figures share: colours of the page's scheme, labels as plain text, keys.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Plotly reads some tags in its texts; names are to be shown as they are.
function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
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
    font: { family: "system-ui, Segoe UI, Roboto, Helvetica, Arial, sans-serif", size: narrow ? 11 : 13, color: colour("--ink") },
    margin: { l: narrow ? 44 : 60, r: 12, t: 30, b: 44 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
    legend: { orientation: "h", y: -0.22, x: 0, yanchor: "top" },
    ...more,
  };
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
