// SPDX-License-Identifier: Apache-2.0
// The charts of the page. Their figures come from the page's own JSON; the tables below hold the same for those who do not
// see the charts. Ends with document.documentElement.dataset.ready, or with the error in the page and on the console.
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const root = document.documentElement;
  const units = ["", "K", "M", "G", "T"];
  const colour = name => getComputedStyle(root).getPropertyValue(name).trim();
  const size = bytes => {
    let unit = 0, value = bytes;
    for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
    return (Number.isInteger(value) ? value : value.toFixed(1)) + units[unit];
  };
  const micro = us => us == null ? "–" : us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : us >= 1e3 ? (us / 1e3).toFixed(2) + " ms" : us.toFixed(1) + " µs";
  const half = row => row.out_of_place || row.in_place;
  const short = text => text.length > 26 ? text.slice(0, 12) + "…" + text.slice(-12) : text;
  const label = run => run.letter + " " + short(run.label || run.file.replace(/^.*\//, ""));

  // Runs of one collective share a chart: their sizes together, one column a run.
  const groups = new Map();
  for (const run of report.runs) {
    if (!run.rows.some(row => row.bytes > 0)) continue;
    const name = run.collective || "collective not told";
    groups.set(name, (groups.get(name) || []).concat(run));
  }

  const table = (runs, value) => {
    const sizes = [...new Set(runs.flatMap(r => r.rows.concat(r.expected).map(row => row.bytes)))].filter(b => b > 0).sort((a, b) => a - b);
    return [sizes, ...value.map(({run, of, from}) => {
      const at = new Map();
      for (const row of run[from || "rows"]) {
        const v = of(row);
        if (v != null && v > 0) at.set(row.bytes, v);
      }
      return sizes.map(b => at.has(b) ? at.get(b) : null);
    })];
  };

  const axis = extra => Object.assign({stroke: colour("--soft"), grid: {stroke: colour("--line"), width: 1}, ticks: {stroke: colour("--line"), width: 1}}, extra);

  function draw(box, runs, latency) {
    const columns = [], series = [{label: "size", value: (u, v) => v == null ? "–" : size(v)}], bands = [];
    const unit = v => v == null ? "–" : latency ? micro(v) : v.toFixed(2) + " GB/s";
    // The time t of a single iteration as a bandwidth: busbw is inverse to time at one size.
    const bound = key => row => {
      const h = half(row);
      return !h || h[key] == null ? null : latency ? h[key] : h.busbw * h.time_us / h[key];
    };
    runs.forEach(run => {
      const i = report.runs.indexOf(run);  // the colour of its card
      const stroke = colour("--run" + i % 6);
      columns.push({run, of: row => half(row) && half(row)[latency ? "time_us" : "busbw"]});
      series.push({label: label(run), stroke, width: 2, dash: i > 5 ? [6, 3] : [], points: {size: 6}, spanGaps: true, value: (u, v) => unit(v)});
      if (!run.rows.some(row => half(row) && half(row).p95_us != null)) return;
      columns.push({run, of: bound("min_us")}, {run, of: bound("p95_us")});
      for (const [name, order] of [["min", 0], ["p95", 1]])
        series.push({label: run.letter + " " + name, stroke: stroke + "66", width: 1, points: {show: false}, spanGaps: true, value: (u, v) => unit(v)});
      bands.push({series: latency ? [series.length - 1, series.length - 2] : [series.length - 2, series.length - 1], fill: stroke + "33"});
    });
    if (!latency)
      for (const run of runs.filter(r => r.expected.length)) {
        columns.push({run, from: "expected", of: row => row.busbw});
        series.push({label: "expected for " + run.letter, stroke: colour("--expected"), width: 2, dash: [4, 4], points: {size: 7}, spanGaps: true, value: (u, v) => unit(v)});
      }
    const data = table(runs, columns);
    const width = box.clientWidth - 20;
    const chart = new uPlot({
      width, height: Math.max(240, Math.min(360, width * .6)), series, bands,
      scales: {x: {time: false, distr: 3, log: 2}, y: latency ? {distr: 3, log: 10} : {range: (u, min, max) => [0, (max || 1) * 1.08]}},
      axes: [axis({values: (u, splits) => splits.map(v => v == null ? "" : size(v)),
                   filter: (u, splits) => splits.map((v, i) => (splits.length - 1 - i) % Math.ceil(splits.length * 46 / width) ? null : v)}),
             axis({size: 64, values: (u, splits) => splits.map(v => v == null ? "" : latency ? micro(v).replace(/\.0+ /, " ") : v)})],
      cursor: {drag: {x: true, y: false}, focus: {prox: 24}},
      legend: {live: true},
    }, data, box.querySelector(".plot"));
    box.plot = chart;
    speak(box, chart, data, series);
  }

  // Arrow keys move the cursor over the sizes; what it stands on is read out.
  function speak(box, chart, data, series) {
    let index = -1;
    const live = box.querySelector("[aria-live]");
    box.onkeydown = event => {
      const step = {ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9}[event.key];
      if (!step) return;
      event.preventDefault();
      index = Math.max(0, Math.min(data[0].length - 1, index + step));
      chart.setCursor({left: chart.valToPos(data[0][index], "x"), top: 20});
      live.textContent = series.map((s, i) => data[i][index] == null ? "" : s.label + " " + s.value(chart, data[i][index])).filter(Boolean).join(", ");
    };
  }

  const boxes = [];
  function drawAll() {
    for (const {box, runs, latency} of boxes) {
      if (box.plot) box.plot.destroy();
      draw(box, runs, latency);
    }
  }

  try {
    const place = document.getElementById("charts");
    for (const [name, runs] of groups)
      for (const latency of [false, true]) {
        const box = document.createElement("section");
        box.className = "chart";
        box.tabIndex = 0;
        const title = name + (latency ? ": time of an operation" : ": bus bandwidth");
        box.setAttribute("aria-label", title + " against message size; the same figures are in the tables below");
        box.innerHTML = '<h3></h3><div class="plot"></div><p class="soft hint">Hover, or focus and use the arrow keys. Drag to zoom, double click to go back.</p><p class="skip" aria-live="polite"></p>';
        box.querySelector("h3").textContent = title;
        place.append(box);
        boxes.push({box, runs, latency});
      }
    drawAll();
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    const button = document.getElementById("theme");
    button.hidden = false;
    button.onclick = () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      drawAll();
    };
    // Paper is light, whatever the screen is.
    let theme;
    addEventListener("beforeprint", () => {
      theme = root.dataset.theme;
      root.dataset.theme = "light";
      document.querySelectorAll("details").forEach(d => { d.open = true; });
      drawAll();
    });
    addEventListener("afterprint", () => {
      if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
      drawAll();
    });
    root.dataset.ready = "yes";
  } catch (error) {
    document.getElementById("charts").textContent = "The charts could not be drawn: " + error.message + ". The tables hold the figures.";
    throw error;
  }
})();
