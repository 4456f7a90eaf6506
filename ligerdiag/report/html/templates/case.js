
"use strict";
// Conveniences on a page that can be read without them: steps with keys, and the whole module on demand.
for (const element of document.querySelectorAll(".needs-script")) element.hidden = false;

// j and k, or the arrow keys on a mark, step through the accesses to the memory.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, .window")) return;
  const current = document.activeElement.closest("[data-access]");
  const step = { j: 1, k: -1, ArrowRight: current ? 1 : 0, ArrowLeft: current ? -1 : 0 }[event.key];
  if (!step) return;
  const marks = [...document.querySelectorAll("[data-access]")].filter((mark) => mark.getClientRects().length);
  if (!marks.length) return;
  const at = marks.indexOf(current);
  marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length].focus();
  event.preventDefault();
});

// A link into a folded place opens it, and lands below the sticky heading.
function unfold() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (target) target.scrollIntoView({ block: "start" });
}
addEventListener("hashchange", unfold);
unfold();
// A second click on the same link changes no hash.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && link.getAttribute("href") === location.hash) unfold();
});

// The changed call, for the clipboard; a page that may not write there selects the lines instead.
for (const button of document.querySelectorAll("[data-copy]")) {
  const box = button.closest(".remedy");
  button.addEventListener("click", async () => {
    const lines = [...box.querySelectorAll(button.dataset.copy)];
    const said = box.querySelector("output");
    try {
      await navigator.clipboard.writeText(lines.map((line) => `${line.textContent}\n`).join(""));
      said.textContent = "copied";
    } catch {
      getSelection().setBaseAndExtent(lines[0], 0, lines.at(-1), lines.at(-1).childNodes.length);
      said.textContent = "selected: copy it with the keys of your system";
    }
  });
}

// On paper nothing is folded.
const opened = [];
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not([open])")) {
    fold.open = true;
    opened.push(fold);
  }
});
addEventListener("afterprint", () => {
  for (const fold of opened.splice(0)) fold.open = false;
});

// The module: a window of lines on a spacer of the whole height, so that the page holds a screenful of them.
const LINE = 18;
const AROUND = 20;
const NAME = /%[\w.\-]+/g;
const opening = document.getElementById("open-module");
if (opening) {
  const viewer = document.getElementById("viewer");
  const frame = document.getElementById("window");
  const spacer = document.getElementById("spacer");
  const shown = document.getElementById("lines");
  const find = document.getElementById("find");
  const found = document.getElementById("found");
  const anchors = new Map(JSON.parse(document.getElementById("module-anchors").textContent));
  let lines = [];
  let folded = [];
  let definitions = null;
  let hits = [];
  let hit = -1;
  const rows = new Map();
  let loading = null;

  async function load() {
    const packed = atob(document.getElementById("module-text").textContent);
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    lines = (await new Response(stream).text()).split("\n");
    spacer.style.height = `${lines.length * LINE}px`;
    viewer.hidden = false;
    opening.hidden = true;
    draw();
  }

  function open() {
    loading ??= load();
    return loading;
  }

  function define() {
    if (definitions) return;
    definitions = new Map();
    lines.forEach((line, number) => {
      const match = /^\s*(?:ROOT )?(%[\w.\-]+) [={(]/.exec(line);
      if (match) definitions.set(match[1], number);
    });
  }

  function makeLine(number) {
    const row = document.createElement("span");
    row.className = "line";
    const label = document.createElement(anchors.has(number) ? "a" : "span");
    label.className = "line-number";
    label.textContent = number + 1;
    if (anchors.has(number)) {
      row.classList.add("known");
      label.href = `#i${anchors.get(number)}`;
    }
    row.append(label);
    const text = lines[number];
    let at = 0;
    for (const match of text.matchAll(NAME)) {
      row.append(text.slice(at, match.index));
      const name = document.createElement("span");
      name.dataset.name = match[0];
      name.textContent = match[0];
      row.append(name);
      at = match.index + match[0].length;
    }
    row.append(text.slice(at));
    return row;
  }

  // A line that stays in the window keeps its element: one that is replaced while a mouse button is down loses the click.
  function draw() {
    const from = Math.max(0, Math.floor(frame.scrollTop / LINE) - AROUND);
    const to = Math.min(lines.length, from + Math.ceil(frame.clientHeight / LINE) + 2 * AROUND);
    for (const [number, row] of rows) {
      if (number >= from && number < to) continue;
      row.remove();
      rows.delete(number);
    }
    for (let number = from, next = shown.firstChild; number < to; number++) {
      const row = rows.get(number);
      if (row) next = row.nextSibling;
      else {
        rows.set(number, makeLine(number));
        shown.insertBefore(rows.get(number), next);
      }
      rows.get(number).classList.toggle("hit-line", number === hits[hit]);
    }
    shown.style.top = `${from * LINE}px`;
  }

  function show(number) {
    frame.scrollTop = Math.max(0, number * LINE - frame.clientHeight / 3);
    draw();
  }

  function search() {
    const wanted = find.value.toLowerCase();
    if (folded.length !== lines.length) folded = lines.map((line) => line.toLowerCase());
    hits = [];
    hit = -1;
    if (wanted) folded.forEach((line, number) => line.includes(wanted) && hits.push(number));
    if (hits.length) step(1);
    else {
      found.textContent = wanted ? "not found" : "";
      draw();
    }
  }

  function step(direction) {
    if (!hits.length) return;
    hit = hit < 0 ? 0 : (hit + direction + hits.length) % hits.length;
    found.textContent = `line ${hits[hit] + 1}, ${hit + 1} of ${hits.length}`;
    show(hits[hit]);
  }

  let waiting = 0;
  opening.addEventListener("click", () => open().then(() => find.focus()));
  frame.addEventListener("scroll", () => requestAnimationFrame(() => draw()), { passive: true });
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  });
  document.getElementById("find-next").addEventListener("click", () => step(1));
  document.getElementById("find-previous").addEventListener("click", () => step(-1));
  shown.addEventListener("click", (event) => {
    const name = event.target.dataset && event.target.dataset.name;
    if (!name) return;
    define();
    if (definitions.has(name)) {
      hits = [definitions.get(name)];
      hit = -1;
      step(1);
    }
  });
  for (const button of document.querySelectorAll("[data-line]")) {
    button.addEventListener("click", () =>
      open().then(() => {
        hits = [Number(button.dataset.line)];
        hit = -1;
        step(1);
        frame.scrollIntoView({ block: "nearest" });
        frame.focus();
      }),
    );
  }
}
