// What pages do beyond HTML: live cells, times that go on, keys. All of it works without this file.
"use strict";

const body = document.body;
const state = document.getElementById("live-state");

// --- times: the relative part of each, once a second, by the server's clock
let ahead = 0;

function ago(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const units = [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]];
  for (const [unit, size, lower, lowerSize] of units) {
    if (s >= size) {
      const rest = Math.floor((s % size) / lowerSize);
      return Math.floor(s / size) + unit + (rest ? " " + rest + lower : "");
    }
  }
  return s + "s";
}

function tickTimes() {
  const now = Date.now() + ahead;
  for (const time of document.querySelectorAll("time[datetime]")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    const shown = time.querySelector(".rel");
    if (!shown || Number.isNaN(seconds)) continue;
    let text = ago(Math.abs(seconds));
    if (!time.hasAttribute("data-bare")) text = seconds < 0 ? "in " + text : text + " ago";
    if (shown.textContent !== text) shown.textContent = text;
  }
}

// --- live cells
function put(cell, html) {
  const old = cell.innerHTML;
  const kept = new Map();
  for (const part of cell.querySelectorAll("[data-keep]")) kept.set(part.dataset.keep, part);
  const focused = cell.contains(document.activeElement) ? document.activeElement : null;
  const address = focused && focused.getAttribute("href");
  cell.innerHTML = html;
  for (const [name, part] of kept) {
    const place = cell.querySelector('[data-keep="' + CSS.escape(name) + '"]');
    if (place) place.replaceWith(part);
    else if (part.localName === "td") cell.append(part);
  }
  if (address) {
    const again = [...cell.querySelectorAll("a")].find((a) => a.getAttribute("href") === address);
    if (again) again.focus();
  }
  if (old !== cell.innerHTML) {
    cell.classList.remove("changed");
    void cell.offsetWidth; // so that the animation begins anew
    cell.classList.add("changed");
  }
}

// the new content in place of the old one: what was told and what is being typed stays
function swap(old, fresh) {
  const said = old.querySelector(".said");
  if (said && !fresh.querySelector(".said")) fresh.prepend(said);
  const focused = old.contains(document.activeElement) ? document.activeElement.name : "";
  for (const field of old.querySelectorAll("input[name]:not([type=hidden])")) {
    const isBox = field.type === "checkbox";
    if (isBox ? field.checked === field.defaultChecked : field.value === field.defaultValue) continue;
    const same = '[name="' + CSS.escape(field.name) + '"]' +
      (isBox ? '[value="' + CSS.escape(field.value) + '"]' : "");
    const again = fresh.querySelector(same);
    if (!again) continue;
    if (isBox) again.checked = field.checked;
    else again.value = field.value;
  }
  old.replaceWith(fresh);
  const again = focused && fresh.querySelector('[name="' + CSS.escape(focused) + '"]');
  if (again) again.focus();
}

async function renew() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) {
    location.reload();
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  swap(document.getElementById("main"), page.getElementById("main"));
  for (const name of ["data-watch", "data-version"]) {
    const value = page.body.getAttribute(name);
    if (value === null) body.removeAttribute(name);
    else body.setAttribute(name, value);
  }
  document.title = page.title;
  tickTimes();
  watch();
}

let source = null;
let renewAgainAt = 0;

function tell(cells) {
  if (cells.version !== undefined && cells.version !== body.dataset.version) {
    // what stands beside the cells is no longer true
    renew();
    return;
  }
  for (const rows of document.querySelectorAll("[data-live-rows]")) {
    const kind = rows.dataset.liveRows;
    const isNew = (name) => name.startsWith(kind) &&
      !document.querySelector('[data-live="' + CSS.escape(name) + '"]');
    if (Date.now() > renewAgainAt && Object.keys(cells).some(isNew)) {
      renewAgainAt = Date.now() + 5000;
      renew();
      return;
    }
  }
  for (const [name, html] of Object.entries(cells)) {
    const cell = document.querySelector('[data-live="' + CSS.escape(name) + '"]');
    if (!cell) continue;
    if (html === "" && cell.localName === "tr") cell.remove();
    else put(cell, html);
  }
  tickTimes();
}

function show(isLive, text) {
  state.className = isLive ? "on" : "off";
  if (state.textContent !== text) state.textContent = text;
}

function watch() {
  const address = body.dataset.watch;
  if (source && source.url === new URL(address || "", location).href && address) return;
  if (source) source.close();
  source = null;
  if (!address || !state) {
    if (state) state.textContent = state.className = "";
    return;
  }
  source = new EventSource(address);
  source.onopen = () => show(true, "live");
  source.onmessage = (event) => tell(JSON.parse(event.data));
  source.onerror = () => {
    const isOver = source.readyState === EventSource.CLOSED;
    show(false, isOver ? "not live: load the page anew" : "connecting");
  };
}

// --- keys
function rows() {
  return [...document.querySelectorAll("table[data-rows] tbody tr")];
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("here"));
  const next = all[Math.min(Math.max(at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by, 0), all.length - 1)];
  for (const row of all) row.classList.toggle("here", row === next);
  next.scrollIntoView({ block: "nearest" });
  const link = next.querySelector("th a, td a");
  if (link) link.focus({ preventScroll: true });
}

let isGoing = false;
const keys = document.getElementById("keys");

document.addEventListener("keydown", (event) => {
  const target = event.target;
  const isTyping = target.matches("input:not([type=checkbox]), select, textarea");
  if (event.key === "Escape" && isTyping) target.blur();
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (isGoing) {
    isGoing = false;
    const link = document.querySelector('nav a[data-key="' + CSS.escape(event.key) + '"]');
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  const first = (query) => document.querySelector(query);
  const does = {
    g: () => { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); },
    "/": () => { const field = first("form[role=search] input, form[role=search] select"); if (field) field.focus(); },
    j: () => step(1),
    k: () => step(-1),
    n: () => { const link = first('a[rel="next"]'); if (link) link.click(); },
    r: () => location.reload(),
    "?": () => keys.showModal(),
  }[event.key];
  if (does) {
    event.preventDefault();
    does();
  }
});

const button = document.getElementById("keys-button");
button.hidden = false;
button.addEventListener("click", () => keys.showModal());

// --- small things
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-all]")) return;
  for (const box of document.querySelectorAll('td.pick input[name="id"]')) box.checked = event.target.checked;
});

// a form that is sent twice would do its work twice
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// work that takes several answers goes on by itself
const going = document.querySelector("form[data-go-on]");
if (going) going.requestSubmit();

const now = document.querySelector('meta[name="now"]');
if (now) ahead = Date.parse(now.content) - Date.now();
tickTimes();
setInterval(tickTimes, 1000);
watch();
