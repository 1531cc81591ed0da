// Makes the timeline that this script stands beside a live one: as wide as the page, with a note on what the pointer or
// the keyboard is at, zoom and pan. The picture works without it; everything it needs stands in the picture's attributes.
(function () {
  const script = document.currentScript;
  const root = script && script.closest(".cudalab-figure");
  const svg = root && root.querySelector("svg");
  if (!svg || root.dataset.live) return;
  root.dataset.live = "yes";

  const NS = "http://www.w3.org/2000/svg";
  const drawn = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
  const left = +svg.dataset.left, right = +svg.dataset.right, scale = +svg.dataset.scale;
  const panels = [...svg.querySelectorAll(".tl-time")];
  const bars = panels.flatMap(panel => [...panel.querySelectorAll(".tl-bar")]);
  // Text keeps its size, a little larger than drawn, on pages from the narrowest to the widest; time gets what is left.
  const larger = 1.2, narrowest = 500, widest = 1600;
  let wider = 0, zoom = 1, from = 0, chosen = -1;  // `from`: the part of the whole that lies left of the view
  const width = () => right + wider - left;
  const place = x => left + ((x - left) / (right - left) - from) * zoom * width();

  // What each part of the picture was drawn at.
  const parts = panels.flatMap(panel => [...panel.querySelectorAll("rect, line, circle, text, path")])
    .filter(part => !part.closest(".tl-axis") && !part.closest(".tl-label"))
    .map(part => ({ part, at: Object.fromEntries(["x", "x1", "x2", "cx", "width", "d"]
      .filter(name => part.hasAttribute(name)).map(name => [name, part.getAttribute(name)])) }));
  const beside = [...svg.querySelectorAll(".tl-right")].map(part => ({ part, x: +part.getAttribute("x") }));
  const entries = [...svg.querySelectorAll(".tl-entry")];
  const line = entry => entry.transform.baseVal[0].matrix.f;  // the height at which a piece of the legend stands
  const legend = entries.length ? [line(entries[0]), line(entries.at(-1))] : [0, 0];
  const notes = bars.map(bar => {
    const title = bar.querySelector("title");
    const text = title ? title.textContent : "";
    if (title) title.remove();  // the note takes its place
    return text;
  });

  function make(name, attributes, parent) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.appendChild(made);
    return made;
  }
  const clip = "tl-clip-" + Math.random().toString(36).slice(2);
  const window_ = make("rect", { x: left - 2, y: 0, width: 0, height }, make("clipPath", { id: clip }, svg));
  for (const panel of panels) panel.setAttribute("clip-path", `url(#${clip})`);

  const ruler = document.createElement("canvas").getContext("2d");
  function label(bar) {
    const text = bar.querySelector(".tl-label"), box = bar.querySelector("rect");
    if (!bar.dataset.labels) return;
    const begin = Math.max(left, +box.getAttribute("x"));
    const end = Math.min(left + width(), +box.getAttribute("x") + +box.getAttribute("width"));
    const size = +bar.dataset.size;
    ruler.font = `${size}px DejaVu Sans, Verdana, Geneva, sans-serif`;
    const fits = bar.dataset.labels.split("\n").find(each => ruler.measureText(each).width + 6 <= end - begin) || "";
    text.textContent = fits;
    text.setAttribute("x", (begin + end) / 2);
  }

  function axis(panel) {
    const group = panel.querySelector(".tl-axis"), top = +group.dataset.top, bottom = +group.dataset.bottom;
    const unit = +group.dataset.unit, begin = +panel.dataset.begin, end = +panel.dataset.end;
    group.replaceChildren();
    const first = Math.max(begin, begin + from * scale), last = Math.min(end, begin + (from + 1 / zoom) * scale);
    const raw = (last - first) / unit / (width() / 90), power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 2.5, 5, 10].map(factor => factor * power).find(value => value >= raw * (1 - 1e-9));
    const digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(step))));
    for (let n = Math.ceil(first / unit / step - 1e-9); n * step <= last / unit + 1e-9; n++) {
      const x = left + ((n * step * unit - begin) / scale - from) * zoom * width();
      make("line", { x1: x, y1: top, x2: x, y2: bottom, stroke: "#EEF0F2" }, group);
      const text = make("text", { x, y: bottom + 12.4, "font-size": 9.5, "text-anchor": "middle", fill: "#5F6670" }, group);
      text.textContent = (+(n * step).toFixed(digits)).toLocaleString("en-US", { maximumFractionDigits: 6 });
    }
  }

  function flow() {
    let x = 12, y = legend[0];
    const carried = new Set(bars.map(bar => bar.querySelector(".tl-label")?.textContent));
    for (const entry of entries) {
      const shown = !entry.dataset.letter || carried.has(entry.dataset.letter);
      entry.setAttribute("display", shown ? "inline" : "none");
      if (!shown) continue;
      const needs = +entry.dataset.width;
      if (x > 12 && x + needs > drawn + wider) [x, y] = [12, y + 18];
      entry.setAttribute("transform", `translate(${x} ${y})`);
      x += needs;
    }
    return y - legend[1];
  }

  function draw() {
    window_.setAttribute("width", width() + 4);
    for (const { part, at } of parts) {
      for (const name of ["x", "x1", "x2", "cx"]) if (name in at) part.setAttribute(name, place(+at[name]));
      if ("width" in at) {
        const begin = place(+at.x), end = place(+at.x + +at.width);
        part.setAttribute("width", Math.max(0.6, end - begin));
      }
      if ("d" in at) part.setAttribute("d", at.d.replace(/(-?[\d.]+) (-?[\d.]+)/g, (_, x, y) => `${place(+x)} ${y}`));
    }
    for (const { part, x } of beside) {
      const end = Math.min(x, right);  // of a timeline, which may be shorter than the one above it
      part.setAttribute("x", left + (end - left) / (right - left) * width() + x - end);
    }
    bars.forEach(label);
    panels.forEach(axis);
    svg.setAttribute("viewBox", `0 0 ${drawn + wider} ${height + flow()}`);
    svg.setAttribute("width", drawn + wider);  // the height follows from the two
  }

  function look(newZoom, newFrom) {
    zoom = Math.min(2000, Math.max(1, newZoom));
    from = Math.min(1 - 1 / zoom, Math.max(0, newFrom));
    draw();
    note(chosen);
  }
  const zoomBy = (factor, at = 0.5) => {
    const next = Math.min(2000, Math.max(1, zoom * factor));
    look(next, from + at / zoom - at / next);
  };

  const said = document.createElement("div");
  said.className = "tl-note";
  said.setAttribute("role", "status");
  root.appendChild(said);
  function note(which) {
    bars.forEach((bar, n) => bar.classList.toggle("tl-chosen", n === which));
    said.textContent = which < 0 ? "" : notes[which];
    if (which < 0) return;
    const box = bars[which].querySelector("rect").getBoundingClientRect(), frame = root.getBoundingClientRect();
    const x = Math.min(Math.max(box.left, frame.left), frame.right) - frame.left;
    said.style.left = Math.max(0, Math.min(x, frame.width - said.offsetWidth - 8)) + "px";
    const below = box.bottom - frame.top + 6, above = box.top - frame.top - 6 - said.offsetHeight;
    const room = frame.height - said.offsetHeight;  // the output hides what stands outside of the figure
    said.style.top = Math.max(0, below <= room ? below : above >= 0 ? above : room) + "px";
  }
  function choose(step) {
    if (!bars.length) return;
    chosen = chosen < 0 ? (step > 0 ? 0 : bars.length - 1) : (chosen + step + bars.length) % bars.length;
    const box = bars[chosen].querySelector("rect"), x = +box.getAttribute("x");
    if (x < left || x > left + width()) look(zoom, from + (x - left) / width() / zoom - 0.25 / zoom);
    note(chosen);
  }
  bars.forEach((bar, n) => {
    bar.addEventListener("pointerenter", () => note((chosen = n)));
    bar.addEventListener("pointerleave", () => note((chosen = -1)));
  });

  const keys = {
    ArrowRight: event => event.shiftKey ? look(zoom, from + 0.2 / zoom) : choose(1),
    ArrowLeft: event => event.shiftKey ? look(zoom, from - 0.2 / zoom) : choose(-1),
    "+": () => zoomBy(1.6), "=": () => zoomBy(1.6), "-": () => zoomBy(1 / 1.6),
    "0": () => look(1, 0), Home: () => look(1, 0), Escape: () => note((chosen = -1)),
  };
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Timeline: arrow keys go through the work, plus and minus zoom, shift and arrows pan, 0 shows all");
  root.dataset.lmSuppressShortcuts = "true";  // the keys are not for the notebook
  root.addEventListener("keydown", event => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    keys[event.key](event);
    event.preventDefault();
    event.stopPropagation();
  });
  const share = event => {
    const box = svg.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width * (drawn + wider) - left) / width();
  };
  svg.addEventListener("wheel", event => {
    if (event.ctrlKey || event.metaKey) zoomBy(Math.exp(-event.deltaY / 200), share(event));
    else if (zoom > 1 && Math.abs(event.deltaX) > Math.abs(event.deltaY)) look(zoom, from + event.deltaX / width() / zoom);
    else return;  // the page scrolls
    event.preventDefault();
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", event => {
    if (zoom === 1 || event.button) return;
    held = { at: share(event), from };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", event => { if (held) look(zoom, held.from - (share(event) - held.at) / zoom); });
  svg.addEventListener("pointerup", () => { held = null; });
  svg.addEventListener("dblclick", () => look(1, 0));

  const tools = document.createElement("div");
  tools.className = "tl-tools";
  for (const [sign, words, act] of [["−", "Zoom out", keys["-"]], ["+", "Zoom in", keys["+"]], ["all", "Show all", keys["0"]]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = sign;
    button.title = `${words} (Ctrl and the mouse wheel, or ${sign === "all" ? "0" : sign})`;
    button.setAttribute("aria-label", words);
    button.addEventListener("click", act);
    tools.appendChild(button);
  }
  root.insertBefore(tools, svg);

  svg.style.maxWidth = "none";
  new ResizeObserver(() => {
    const next = Math.min(widest, Math.max(narrowest, Math.round(root.clientWidth / larger))) - drawn;
    if (root.clientWidth && next !== wider) { wider = next; look(zoom, from); }
  }).observe(root);
  draw();
})();
