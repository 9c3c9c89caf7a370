// SPDX-License-Identifier: Apache-2.0
// Run inside the page by report.sh: looks at it and uses it as a person does. A line `pass|fail WHAT` for each.
(() => {
  const lines = [];
  const expect = (what, ok) => lines.push((ok ? "pass " : "fail ") + what);
  const report = JSON.parse(document.getElementById("report").textContent);
  const text = document.body.innerText;

  expect("the page says that it is ready", document.documentElement.dataset.ready === "yes");
  const charts = [...document.querySelectorAll(".chart")];
  const measured = new Set(report.runs.filter(r => r.rows.length).map(r => r.collective || "collective not told"));
  expect("two charts for each collective", charts.length === 2 * measured.size && charts.length > 0);
  expect("each chart has drawn", charts.every(c => c.querySelector("canvas") && c.querySelector("canvas").width > 100));

  // The figures of the JSON, on the chart and in the tables.
  for (const run of report.runs) {
    if (!run.rows.length) continue;
    const row = run.rows[run.rows.length - 1], half = row.out_of_place || row.in_place;
    const table = [...document.querySelectorAll(".wide table")].find(t => t.caption && t.caption.textContent.startsWith(run.letter + ":"));
    expect("the table of " + run.letter + " has all rows", table && table.tBodies[0].rows.length === run.rows.length);
    expect("the table of " + run.letter + " shows " + half.busbw.toFixed(2), table && table.textContent.includes(half.busbw.toFixed(2)));
  }
  const first = charts[0];
  const data = first.plot.data, index = data[1].findLastIndex(v => v != null);
  const largest = report.runs[0].rows.filter(r => r.bytes === data[0][index]).pop();
  expect("the chart holds the JSON's busbw", data[1][index] === (largest.out_of_place || largest.in_place).busbw);
  expect("a run with percentiles has its band", first.plot.bands.length >= 1);

  // Hover: the legend tells the size and the figure below the pointer.
  const over = first.querySelector(".u-over"), box = over.getBoundingClientRect();
  const x = first.plot.valToPos(data[0][index], "x");
  over.dispatchEvent(new MouseEvent("mouseenter", {bubbles: true, clientX: box.left + x - 1, clientY: box.top + 20}));
  over.dispatchEvent(new MouseEvent("mousemove", {bubbles: true, clientX: box.left + x - 1, clientY: box.top + 20}));
  setTimeout(() => {
    expect("hover shows the figure", first.querySelector(".u-legend").textContent.includes(data[1][index].toFixed(2)));

    // Keyboard: the chart takes the focus, arrows move, the figures are read out.
    first.focus();
    expect("a chart takes the focus", document.activeElement === first);
    first.dispatchEvent(new KeyboardEvent("keydown", {key: "End", bubbles: true}));
    const last = data.slice(1).map(column => column[data[0].length - 1]).find(v => v != null);
    expect("arrows read the figures out", first.querySelector("[aria-live]").textContent.includes(last.toFixed(2)));

    // The pair matrix: a table with a figure in each cell that was run, reached with the keyboard.
    const heat = document.querySelector("table.heat");
    const nodes = report.pairs.start.nodes.map(n => n.node);
    expect("the matrix has all nodes both ways", heat && heat.tBodies[0].rows.length === nodes.length && heat.tHead.rows[0].cells.length === nodes.length + 1);
    const cell = (a, b) => heat.tBodies[0].rows[nodes.indexOf(a)].cells[nodes.indexOf(b) + 1];
    const slow = report.pairs.figures.filter(f => f.kind === "pair" && f.verdict === "slow").pop();
    expect("a slow pair is told by figure and colour, in both places", [cell(slow.node, slow.peer.node), cell(slow.peer.node, slow.node)].every(c => /h[12]/.test(c.className) && Number(c.textContent) < 90 && c.title.includes("GB/s")));
    expect("cells that were not run are empty", [...heat.querySelectorAll("td.h")].some(c => c.textContent === ""));
    const ground = c => getComputedStyle(c).backgroundColor;
    const fine = heat.querySelector("td.h4");
    expect("good and slow differ in colour", fine && ground(fine) !== ground(cell(slow.node, slow.peer.node)));
    expect("a table that may be wider than the page takes the focus", heat.parentElement.tabIndex === 0 && heat.caption.textContent.length > 10);
    expect("each finding names node, reason and command", report.pairs.findings.every(f => text.includes(f.node) && text.includes(f.why) && (!f.drain || text.includes(f.drain))));

    for (const section of ["runs", "measured", "skew", "pairs", "findings", "topology", "plan", "figures", "files"])
      expect("there is a section " + section, document.getElementById(section) && document.querySelector('nav a[href="#' + section + '"]'));
    expect("a failure is told", text.includes("remote process exited"));
    expect("every finding that is a fault is listed", report.findings.findings.filter(f => f.status === "warn" || f.status === "fail").every(f => text.includes(f.id) && text.includes(f.remedy)));
    expect("every chosen HCA is drawn as chosen", report.topology.hcas.filter(h => h.use === "compute").every(h => [...document.querySelectorAll(".part.used")].some(p => p.textContent.startsWith(h.name))));
    expect("every planned variable has its reason", report.plan.env.every(e => text.includes(e.name) && text.includes(e.why)));
    expect("nothing is loaded", performance.getEntriesByType("resource").length === 0);
    expect("every input has a name", [...document.querySelectorAll("button")].every(b => b.textContent.trim()));

    const before = getComputedStyle(document.body).backgroundColor;
    document.getElementById("theme").click();
    expect("the theme changes", getComputedStyle(document.body).backgroundColor !== before);
    document.body.style.width = "390px";
    expect("at a phone's width nothing hangs over", [...document.querySelectorAll("main > section > :not(.wide)")].every(e => e.scrollWidth <= 391));
    const results = document.createElement("pre");
    results.id = "results";
    results.textContent = "\n" + lines.join("\n") + "\n";
    document.body.append(results);
  }, 200);
})();
