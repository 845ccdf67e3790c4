// The console: one page that reads /api and shows it.
//
// Each resource has a loop of its own (`poll`): ask, wait for the answer, show it, wait, ask again. So requests never pile
// up, and none is sent while the page is hidden. Showing changes text in place (`put`, `Table`, `list`): scroll position,
// focus and selection stay.
//
// Whatever comes from the server is set as text, never as markup; the content security policy allows no inline script and
// no inline style. Keys are raw bytes: `key` is their base64 and goes back unchanged in commands; `name` is for people.
"use strict";

// Before the body is there, so that the page does not flash in the wrong colours.
const THEMES = ["auto", "light", "dark"];
const saved = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
const save = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private mode: not kept */ } };
let theme = THEMES.includes(saved("theme")) ? saved("theme") : "auto";
document.documentElement.dataset.theme = theme;

/* ---- Elements ---- */

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("td", {class: "number"}, "text", child)`; `on…` are listeners, `true` is an attribute without value. */
function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line"].includes(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Makes the text of `element`, which has no other children, `text`; its text node stays, and a selection in it. */
function put(element, text, title) {
  const node = element.firstChild;
  if (!node) element.append(text);
  else if (node.data !== text) node.data = text;
  if (title !== undefined && element.title !== title) element.title = title;
}

const show = (element, is) => { if (element.hidden === is) element.hidden = !is; };

/** Makes the children of `parent` those that `make` gives for each of `items`, kept by `key`; `update` shows an item. */
function list(parent, items, key, make, update) {
  const old = parent.kept ?? new Map();
  parent.kept = new Map();
  items.forEach((item) => {
    const id = key(item);
    if (parent.kept.has(id)) return;
    const child = old.get(id) ?? make(item);
    old.delete(id);
    parent.kept.set(id, child);
    update(child, item);
  });
  old.forEach((child) => child.remove());
  inOrder(parent, [...parent.kept.values()]);
}

/** Puts children into this order, moving few; a focused one keeps its focus. */
function inOrder(parent, children) {
  const focused = document.activeElement;
  const follows = (child, next) => child.nextSibling === next;
  let next = null;
  for (const child of children.toReversed()) {
    if (child.parentNode !== parent || !follows(child, next)) parent.insertBefore(child, next);
    next = child;
  }
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/* ---- Numbers, times and names ---- */

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const NONE = "–";
const is = (value) => value !== null && value !== undefined;
const arrayOf = (value) => (Array.isArray(value) ? value : []);

function short(value, decimals = 1) {
  for (const [limit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"]]) {
    if (value >= limit) return `${(value / limit).toFixed(decimals)} ${letter}`;
  }
  return grouped.format(value);
}

const count = (value) => (!is(value) ? NONE : value < 1e7 ? grouped.format(value) : short(value, 2));
const several = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** The smallest rate that is shown as more than none. */
const RATE_MIN = 0.005;

function rate(value) {
  if (!is(value)) return NONE;
  if (value < RATE_MIN) return "0/s";
  return `${value < 0.1 ? value.toFixed(2) : value < 10 ? value.toFixed(1) : value >= 1e4 && value < 1e6 ? `${(value / 1e3).toFixed(value < 1e5 ? 1 : 0)} k` : short(value)}/s`;
}

function bytes(value) {
  if (!is(value)) return NONE;
  let unit = 0;
  for (; value >= 1024 && unit < 5; unit++) value /= 1024;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

function duration(ms) {
  if (!is(ms)) return NONE;
  if (ms < 0) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const two = (value) => String(value).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** A round duration without its zeros. */
const span = (ms) => duration(ms).replace(".0", "").replace(/ 00? (s|min|h)$/, "");
const micros = (us) => (!is(us) ? NONE : us < 1000 ? `${us < 10 && us % 1 ? us.toFixed(1) : Math.round(us)} µs` : us < 1e5 ? `${(us / 1000).toFixed(1)} ms` : duration(us / 1000));
const percent = (value) => (is(value) ? `${Math.round(value)} %` : NONE);

/** Text with a capital first and a full stop last. */
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** The exact time, in the reader's zone. */
function exact(ms) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "";
  const two = (value, size = 2) => String(value).padStart(size, "0");
  const zone = -date.getTimezoneOffset();
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
  return `${day} ${time} UTC${zone < 0 ? "−" : "+"}${two(Math.floor(Math.abs(zone) / 60))}:${two(Math.abs(zone) % 60)}`;
}

const clock = (ms, seconds = true) => exact(ms).slice(11, seconds ? 19 : 16);
const ago = (ms, now) => (!is(ms) || ms <= 0 ? "never" : now - ms < 1000 ? "just now" : `${duration(now - ms)} ago`);

const NAME_MAX = 160;
/** A name as it can be shown in one line: control characters and those that turn the direction of text are spelled out. */
function visible(text, max = NAME_MAX) {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text;
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (character) => {
    const code = character.codePointAt(0);
    return `‹${code.toString(16).padStart(code < 0x100 ? 2 : 4, "0")}›`;
  });
}

const titleOf = (text) => (text.length > NAME_MAX ? `${visible(text, 1000)} (${count(text.length)} characters)` : visible(text, 1000));

/** What stands before and after the name that people use. */
const AFFIXES = [
  [/^((?:.*:)?queue:)(.+)()$/s, ["sidekiq", "resque"]],
  [/^(bull:)(.+)(:[a-z-]+)$/s, ["bullmq"]],
  [/^(rq:(?:queue|wip|finished|failed|scheduled|deferred):)(.+)()$/s, ["rq"]],
  [/^(asynq:\{)(.+)(\}:[a-z]+)$/s, ["asynq"]],
  [/^(\{)([^}]+)(\}:jobs:[a-z]+)$/s, ["jobs"]],
];

function parts(queue) {
  for (const [pattern, systems] of AFFIXES) {
    const match = systems.includes(queue.system) && pattern.exec(queue.name);
    if (match) return match.slice(1);
  }
  return ["", queue.name, ""];
}

/** The name that people use, for a sentence. */
const nickname = (queue, max = 40) => (parts(queue)[1].trim() ? visible(parts(queue)[1], max) : `“${parts(queue)[1]}”`);

/** A name as elements: what is common to all names of its system is dimmed. */
function nameElement(queue) {
  const [before, , after] = parts(queue);
  return h("bdi", { class: "name", title: titleOf(queue.name) },
    before && h("span", { class: "affix" }, visible(before)), nickname(queue, NAME_MAX), after && h("span", { class: "affix" }, visible(after)));
}

/* ---- The server ---- */

const state = { overview: null, queues: [], other: 0, unlisted: null, time: Date.now(), version: null, away: null, refused: null };
const canWrite = () => Boolean(state.overview?.can_write);
const idOf = (queue) => `${queue.db}:${queue.key}`;
const keyed = (queue) => `db=${queue.db}&key=${encodeURIComponent(queue.key)}`;
const REQUEST_MS_MAX = 10_000;

/** The answer as JSON. Throws with `status` if the server refuses, without if it cannot be reached. */
async function request(path, options = {}) {
  const response = await fetch(`api/${path}`, { cache: "no-store", signal: AbortSignal.timeout(REQUEST_MS_MAX), ...options });
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw Object.assign(new Error(answer?.error ?? `The server answers ${response.status}`), { status: response.status });
  if (answer === null) throw new Error("not JSON");
  return answer;
}

/** Runs a command; text stands for itself, `{b64}` for bytes. */
async function command(db, ...args) {
  const { reply } = await request("command", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Darter-Token": state.overview?.token ?? "" },
    body: JSON.stringify({ db, args }),
  });
  return reply;
}

/**
 * Asks for `path()` again and again, each time `ms()` after the answer before, and gives the answer to `answered`.
 * `undefined` as path: not now. `refused` gets what the server refuses. Calling what comes back asks at once.
 */
function poll(path, ms, answered, refused = missed) {
  let timer, running = false, again = false;
  async function turn() {
    clearTimeout(timer);
    if (running) { again = true; return; }
    const asked = document.hidden ? undefined : path();
    if (asked === undefined) return;
    running = true;
    let wait = ms();
    const [answer, error] = await request(asked).then((answer) => [answer, null], (error) => [null, error]);
    running = false;
    try {
      if (!error) reached();
      if (error && !isRefusal(error)) wait = Math.max(wait, missed(error));
      else if (asked === path()) wait = (error ? refused(error) : answered(answer)) ?? wait;
    } catch (mistake) {
      reportError(mistake); // of this page: it goes on
    }
    if (again) { again = false; wait = 0; }
    if (!document.hidden) timer = setTimeout(turn, wait);
  }
  document.addEventListener("visibilitychange", turn);
  return turn;
}

const isRefusal = (error) => error.status >= 400 && error.status < 500;

function reached() {
  const was = state.away;
  state.away = state.refused = null;
  state.reached = Date.now();
  if (!was) return;
  document.body.classList.remove("away");
  say(`The server is back, after ${duration(Date.now() - was)}.`);
  refresh();
}

/** Notes that a request failed; how long to wait before the next. */
function missed(error) {
  if (isRefusal(error)) {
    state.refused = error.status === 401 ? "Sign in to see anything: load this page again." : `The server refuses: ${error.message}`;
    showSentence();
    return 5000;
  }
  state.away ??= state.reached ?? Date.now();
  document.body.classList.add("away");
  showSentence();
  return Math.min(5000, 1000 + (Date.now() - state.away) / 20);
}

/* ---- Messages and questions ---- */

let toastTimer;
function say(text, failed = false) {
  const toast = $("toast");
  put(toast, text);
  toast.className = failed ? "shown failed" : "shown";
  if (failed) put($("alert"), text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { toast.className = ""; put(toast, ""); put($("alert"), ""); }, failed ? 12_000 : 6000);
}

/**
 * Resolves the promise of the last question; undefined once it has its answer. A dialog's close event comes some time after the dialog
 * has closed, and a key may have asked the next question by then.
 */
let asked;
function answered() {
  asked?.($("confirm").returnValue === "yes");
  asked = undefined;
}

/** Asks before something is changed; true if it is to be done. */
function confirmed({ title, text, yes, words, destroys = false }) {
  const dialog = $("confirm");
  answered();
  put($("confirm-title"), title);
  put($("confirm-text"), text);
  put($("confirm-command"), words);
  put($("confirm-yes"), yes);
  $("confirm-yes").className = destroys ? "danger" : "primary";
  dialog.returnValue = "no";
  dialog.showModal();
  (destroys ? dialog.querySelector("[value=no]") : $("confirm-yes")).focus();
  return new Promise((resolve) => { asked = resolve; });
}

/** The command as redis-cli would have it. */
const inWords = (args) => args.map((arg) => (/^[^\s"'\\]+$/.test(arg) ? arg : JSON.stringify(arg))).join(" ");

/** Asks, runs, says what came of it. `args` may hold queues. The reply, or `undefined`. */
async function change(question, db, args, done) {
  const words = inWords(args.map((arg) => visible(arg.name ?? String(arg), 400)));
  if (!(await confirmed({ ...question, words }))) return undefined;
  try {
    const reply = await command(db, ...args.map((arg) => (arg.key ? { b64: arg.key } : String(arg))));
    say(done(reply));
    refresh();
    return reply;
  } catch (error) {
    say(error.status ? error.message : "The server did not answer. It may have run the command or not.", true);
    return undefined;
  }
}

const plain = (queue) => visible(queue.name, 80);

function togglePause(queue) {
  const jobs = `${several(queue.depth ?? 0, "job")} ${queue.depth === 1 ? "waits" : "wait"}`;
  if (queue.paused) {
    const question = { title: `Resume ${plain(queue)}?`, yes: "Resume", text: `Workers go on to take from it at once: ${jobs}.` };
    return change(question, queue.db, ["QUEUE", "RESUME", queue], () => `${plain(queue)} goes on.`);
  }
  const question = {
    title: `Pause ${plain(queue)}?`, yes: "Pause",
    text: `Workers find it empty until it is resumed, also after a restart. Jobs that are pushed are kept (${jobs} now); jobs that workers have already go on.`,
  };
  return change(question, queue.db, ["QUEUE", "PAUSE", queue], () => `${plain(queue)} is paused.`);
}

/* ---- The bar ---- */

/** How it is: a level and one sentence. */
function howItIs() {
  if (state.refused) return ["bad", state.refused];
  if (state.away) {
    const seconds = Math.ceil((Date.now() - state.away) / 1000);
    return ["bad", `The server has not answered since ${clock(state.away)}, for ${span(seconds * 1000)}. What you see is from then; the page tries again by itself.`];
  }
  const overview = state.overview;
  if (!overview) return ["", "Connecting …"];
  const waiting = state.queues.filter((queue) => WAITING.includes(queue.state));
  const jobs = waiting.reduce((sum, queue) => sum + queue.depth, 0);
  const oldest = waiting.filter((queue) => is(queue.oldest_ms) && queue.depth).sort((a, b) => b.oldest_ms - a.oldest_ms)[0];
  const paused = waiting.filter((queue) => queue.paused);
  const age = oldest ? `, the oldest for ${duration(oldest.oldest_ms)} in ${nickname(oldest)}` : "";
  const holding = waiting.filter((queue) => queue.depth).length;
  const most = state.other ? "at least " : "";
  const hold = state.unlisted ? "this user may not list queues"
    : !waiting.length ? "no queue yet"
    : jobs ? `${most}${several(jobs, "job")} ${jobs > 1 ? "wait" : "waits"} in ${several(holding, "queue")}${age}`
    : `no job waits in ${several(waiting.length + state.other, "queue")}`;
  const growing = waiting.filter((queue) => grows(queue) && !queue.paused).map((queue) => nickname(queue));
  const more = !growing.length ? "" : ` ${growing.length > 2 ? `${growing.length} queues` : growing.join(" and ")} ${growing.length > 1 ? "grow" : "grows"}.`;
  const capital = `${hold[0].toUpperCase()}${hold.slice(1)}.${more}`;
  if (overview.durability?.journal_stalled) return ["bad", `The journal is stalled: what is written now is not safe. ${capital}`];
  if (overview.warnings?.length) return ["warn", `${overview.warnings.length === 1 ? "One thing needs" : `${overview.warnings.length} things need`} attention. ${capital}`];
  if (overview.memory_bytes_max && overview.memory_counted_bytes > 0.9 * overview.memory_bytes_max) return ["warn", `Memory is nearly full. ${capital}`];
  if (paused.length) return ["warn", `${paused.length === 1 ? `${nickname(paused[0])} is` : `${several(paused.length, "queue")} are`} paused. ${capital}`];
  return ["good", `${jobs ? "The server is well." : "All is well."} ${capital}`];
}

function showSentence() {
  const [level, text] = howItIs();
  $("light").className = level;
  put($("how"), text);
  const title = state.away ? "away – Darter" : level === "warn" || level === "bad" ? "(!) Darter" : "Darter";
  if (document.title !== title) document.title = title;
}

/** Facts as name, text, title and class; `meter` is a share from 0 to 1. */
function facts(parent, items) {
  list(parent, items.filter(Boolean), (item) => item.name,
    (item) => h("div", {}, h("dt", {}, item.name), h("dd"), "meter" in item ? h("div", { class: "meter", "aria-hidden": "true" }, h("i")) : null),
    (child, item) => {
      put(child.children[1], item.text, item.title ?? "");
      child.className = item.level ?? "";
      if ("meter" in item) child.querySelector("i").style.width = `${Math.min(100, 100 * item.meter)}%`;
    });
}

function showOverview(overview) {
  if (state.version && state.version !== overview.version) say(`The server is ${overview.version} now. Load the page again to have its console.`);
  state.version = overview.version;
  state.overview = overview;
  const now = overview.time_ms ?? Date.now();
  put($("version"), overview.version ?? "", `Speaks as Redis ${overview.redis_version ?? "?"}`);
  put($("who"), overview.user ? visible(overview.user, 40) : "", "The user whose rights this page has");
  show($("read-only"), !overview.can_write);
  document.body.classList.toggle("read-only", !overview.can_write);
  const max = overview.memory_bytes_max;
  const used = max ? overview.memory_counted_bytes : overview.memory_bytes;
  facts($("facts"), [
    { name: "Up", text: duration(overview.uptime_s * 1000), title: `since ${exact(now - overview.uptime_s * 1000)}` },
    { name: "Role", text: overview.role ?? NONE },
    {
      name: "Memory", text: max ? `${bytes(used)} of ${bytes(max)}` : `${bytes(used)}, no limit`, title: `${count(used)} bytes`,
      level: max && used > 0.9 * max ? "warn" : "", ...(max ? { meter: used / max } : {}),
    },
    { name: "Operations", text: rate(overview.ops_per_s) },
    {
      name: "Clients", text: `${count(overview.connected_clients)}, ${count(overview.blocked_clients)} blocked`,
      title: "Blocked clients wait for something, most often for a job",
    },
    { name: "Threads", text: count(overview.threads) },
    { name: "A crash now loses", text: overview.lost_in_crash ?? NONE, level: "long" },
  ]);
  const warnings = overview.warnings ?? [];
  show($("warnings"), warnings.length > 0);
  list($("warnings"), warnings, (text) => text, () => h("li"), put);
  showDurability(overview, now);
  showSentence();
  if (opened) showPause();
}

/* ---- The tables of queues ---- */

const WAITING = ["waiting", "paused"];
const ORDER = ["active", "scheduled", "retry", "dead", "completed"];
/** Sets whose scores are in the past. */
const ENDED = ["dead", "completed"];
const chipOf = (text) => h("span", { class: `chip ${text === "paused" || ORDER.includes(text) ? text : ""}` }, visible(text ?? ""));
const SPARK_WIDTH = 60, SPARK_HEIGHT = 16;

/** Depth over the last minute. The bottom is zero, or 80 % of the deepest: so one sees small changes of a deep queue. */
function sparkPaths(values) {
  if (!values?.length) return ["", ""];
  const top = Math.max(...values), bottom = Math.min(Math.min(...values), top * 0.8) * (Math.min(...values) > 0 ? 1 : 0);
  const step = SPARK_WIDTH / Math.max(1, values.length - 1);
  const y = (value) => (top === 0 ? SPARK_HEIGHT - 1 : SPARK_HEIGHT - 1 - ((value - bottom) / (top - bottom || 1)) * (SPARK_HEIGHT - 2)).toFixed(1);
  const line = values.map((value, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${y(value)}`).join("");
  return [line, `${line}V${SPARK_HEIGHT}H0Z`];
}

const sparkline = () =>
  h("svg", { class: "spark", viewBox: `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    h("path", { class: "area" }), h("path", { class: "line" }));

function showSpark(svg, values) {
  const [line, area] = sparkPaths(values);
  if (svg.drawn === line) return;
  svg.drawn = line;
  svg.children[0].setAttribute("d", area);
  svg.children[1].setAttribute("d", line);
}

/** Whether more comes than goes, over a minute, and still does. */
const grows = (queue) => queue.depth > 0 && (queue.in_per_s ?? 0) >= RATE_MIN && (queue.in_per_s_1m ?? 0) > (queue.out_per_s_1m ?? 0) * 1.02 + 0.01;

function emptyIn(queue) {
  if (!queue.depth) return ["empty", -1];
  if (is(queue.seconds_to_empty)) return [duration(queue.seconds_to_empty * 1000), queue.seconds_to_empty];
  return [queue.paused ? "paused" : grows(queue) ? "grows" : (queue.out_per_s_1m ?? 0) >= RATE_MIN ? "steady" : "stands", Infinity];
}

const rates = (queue, way) => `over 10 s ${rate(queue[`${way}_per_s`])}, 1 min ${rate(queue[`${way}_per_s_1m`])}, 10 min ${rate(queue[`${way}_per_s_10m`])}`;
const number = (value) => (is(value) ? value : -1);

/** Columns: what to sort by, and what to show: text and title. `wide`: not on a phone. */
const NAME = { id: "name", label: "Queue", by: (q) => parts(q)[1].toLowerCase() };
const DEPTH = {
  id: "depth", label: "Depth", by: (q) => q.depth,
  cell: (q) => [q.depth < 1e6 ? count(q.depth) : short(q.depth, 2), `${several(q.depth, "job")}; pushed ${count(q.pushed)}, popped ${count(q.popped)} since the server knows it`],
};
const longest = (q) => (q.wait_ms ? `longest ${duration(q.wait_ms.max)}` : "none was taken in the last minute");
const IN = { id: "in", label: "In", by: (q) => number(q.in_per_s), cell: (q) => [rate(q.in_per_s), rates(q, "in")] };
const OUT = { id: "out", label: "Out", by: (q) => number(q.out_per_s), cell: (q) => [rate(q.out_per_s), rates(q, "out")] };
const BYTES = { id: "bytes", label: "Memory", by: (q) => number(q.bytes), cell: (q) => [bytes(q.bytes), `${count(q.bytes)} bytes`] };
const COLUMNS = [
  NAME, DEPTH,
  { id: "oldest", label: "Oldest", by: (q) => (q.depth ? number(q.oldest_ms) : -1), hint: "How long the oldest job has waited",
    cell: (q) => (q.depth && is(q.oldest_ms) ? [duration(q.oldest_ms), `pushed ${exact(state.time - q.oldest_ms)}`] : [NONE, ""]) },
  IN, OUT,
  { id: "empty", label: "Empty in", by: (q) => emptyIn(q)[1], hint: "At the pace of the last minute", cell: (q) => [emptyIn(q)[0], "at the pace of the last minute"] },
  { id: "waiters", label: "Workers waiting", by: (q) => number(q.waiters), hint: "Clients that are blocked until a job comes",
    cell: (q) => [count(q.waiters), `${several(q.waiters ?? 0, "client")} blocked on it`] },
  { id: "active", label: "Active", by: (q) => number(q.active), hint: "Jobs that workers have, where the system keeps them in the store",
    cell: (q) => [count(q.active), is(q.active) ? "" : "this system does not keep them in the store"] },
  { id: "p50", label: "Wait p50", by: (q) => number(q.wait_ms?.p50), hint: "Median time that jobs taken in the last minute had waited",
    cell: (q) => [duration(q.wait_ms?.p50), longest(q)] },
  { id: "p99", label: "Wait p99", by: (q) => number(q.wait_ms?.p99), hint: "99 of 100 jobs taken in the last minute had waited at most so long",
    cell: (q) => [duration(q.wait_ms?.p99), longest(q)] },
  BYTES,
  { id: "pause", label: "Pause", bare: true },
];
const SET_COLUMNS = [
  { ...NAME, label: "Set" }, { id: "state", label: "State", cell: (q) => [q.state, ""] }, { ...DEPTH, label: "Jobs" },
  { id: "due", label: "Due", by: (q) => number(q.oldest_ms), cell: due }, IN, OUT, BYTES,
];

function due(queue) {
  if (!queue.depth) return [NONE, ""];
  if (is(queue.due_in_ms) && !ENDED.includes(queue.state)) return [`next in ${duration(queue.due_in_ms)}`, exact(state.time + queue.due_in_ms)];
  if (!is(queue.oldest_ms)) return [NONE, ""];
  const at = exact(state.time - queue.oldest_ms);
  return ["scheduled", "retry"].includes(queue.state) ? [`late by ${duration(queue.oldest_ms)}`, `was due ${at}`] : [`oldest ${duration(queue.oldest_ms)}`, at];
}

/** Where text is selected, if it is: noted here since asking each time costs a layout of the page. */
let selectedAt = null;
function noteSelection() {
  const selection = getSelection();
  selectedAt = selection.rangeCount && !selection.getRangeAt(0).collapsed ? selection.anchorNode : null;
}

const ROWS_STEP = 300;

class Table {
  constructor(element, columns, sort) {
    this.element = element;
    this.columns = columns;
    this.sort = sort;
    this.rows = new Map();
    this.current = null;
    this.body = element.tBodies[0];
    element.tHead.rows[0].append(...columns.map((column) => this.heading(column)));
    element.addEventListener("keydown", (event) => this.key(event));
    this.watcher = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
      target.isFar = !isIntersecting;
      if (isIntersecting) this.update(target, target.queue);
    }), { rootMargin: "400px" });
    this.body.addEventListener("pointerover", (event) => { this.pointed = event.target.closest("button"); });
    this.body.addEventListener("pointerleave", () => { this.pointed = null; });
    this.body.addEventListener("focusin", (event) => this.select(event.target.closest("tr")));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("button") && !selectedAt) open(row.queue);
    });
  }

  heading(column) {
    const cell = h("th", { role: "columnheader", scope: "col", class: column.id });
    if (column.by && this.sort) cell.append(h("button", { type: "button", title: column.hint, onclick: () => this.sortBy(column.id) }, column.label));
    else cell.append(h("span", { class: column.bare ? "sr" : "" }, column.label));
    return cell;
  }

  /** Sorts by a column; once more turns it round. Text begins with A, numbers with the largest. */
  sortBy(id, descending = this.sort.id === id ? !this.sort.descending : id !== "name") {
    this.sort = { id, descending };
    save("sort", JSON.stringify(this.sort));
    showQueues();
  }

  make(queue) {
    const row = h("tr", { role: "row", tabindex: "-1" });
    row.byColumn = {};
    for (const column of this.columns) {
      const cell = h("td", { role: "gridcell", class: column.id, "data-label": column.label });
      row.byColumn[column.id] = cell;
      if (column.id === "name") cell.append(h("div", { class: "named" }, nameElement(queue), this.chips(queue)));
      else if (column.id === "depth") cell.append(sparkline(), h("span"));
      else if (column.id === "state") cell.append(chipOf(queue.state));
      else if (column.id === "pause") cell.append(h("button", { type: "button", tabindex: "-1", class: "small", onclick: () => togglePause(row.queue) }));
      else cell.append(h("span"));
      row.append(cell);
    }
    this.watcher.observe(row);
    return row;
  }

  chips(queue) {
    return h("span", { class: "chips" }, h("span", { class: "chip" }, visible(queue.system ?? "")),
      queue.db ? h("span", { class: "chip" }, `db ${queue.db}`) : null, h("span", { class: "chip paused", hidden: true }));
  }

  /** Rows far from what is on the screen are shown when they come near: so a thousand queues cost what forty do. */
  update(row, queue) {
    row.queue = queue;
    if (row.isFar) return;
    for (const column of this.columns) {
      const cell = row.byColumn[column.id];
      if (column.cell) put(cell.lastChild, ...column.cell(queue));
    }
    showSpark(row.byColumn.depth.firstChild, queue.spark);
    const { name, pause, depth, empty } = row.byColumn;
    const chip = name.querySelector(".chips").lastChild;
    show(chip, Boolean(queue.paused) || queue.state === "paused");
    put(chip, queue.paused ? "paused" : `paused by ${visible(queue.system)}`);
    row.classList.toggle("is-paused", !chip.hidden);
    row.classList.toggle("is-empty", !queue.depth);
    depth.classList.toggle("zero", !queue.depth);
    if (empty) empty.classList.toggle("warn", grows(queue) && !is(queue.seconds_to_empty));
    if (pause) {
      const button = pause.firstChild;
      put(button, queue.paused ? "Resume" : "Pause");
      const label = `${queue.paused ? "Resume" : "Pause"} ${plain(queue)}`;
      if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
    }
  }

  show(queues) {
    const held = this.isHeld();
    const shown = held ? this.inShownOrder(queues) : queues;
    list(this.body, shown, idOf, (queue) => this.make(queue), (row, queue) => this.update(row, queue));
    this.element.setAttribute("aria-rowcount", shown.length + 1);
    const rows = [...this.body.rows];
    if (!rows.includes(this.current)) this.select(rows[0]);
  }

  /** While text is selected or a button is pointed at, rows stay where they are. */
  isHeld() {
    return this.body.contains(selectedAt) || Boolean(this.pointed?.isConnected);
  }

  inShownOrder(queues) {
    const place = new Map([...this.body.rows].map((row, i) => [idOf(row.queue), i]));
    return queues.toSorted((a, b) => (place.get(idOf(a)) ?? Infinity) - (place.get(idOf(b)) ?? Infinity));
  }

  /** One row, and the button in it, can be reached with Tab; arrows go to the others. */
  select(row) {
    if (this.current === row) return;
    const reach = (of, index) => { if (of) { of.tabIndex = index; of.querySelectorAll("button").forEach((button) => { button.tabIndex = index; }); } };
    reach(this.current, -1);
    this.current = row;
    reach(row, 0);
  }

  focus() {
    this.current?.focus();
  }

  key(event) {
    const row = event.target.closest("tbody tr");
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const rows = [...this.body.rows], at = rows.indexOf(row);
    const to = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: rows.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
    if (to !== undefined) {
      rows[Math.max(0, Math.min(rows.length - 1, to))].focus();
    } else if (event.key === "Enter" && event.target === row) {
      open(row.queue);
    } else if (event.key === "p" && this.columns === COLUMNS) {
      if (canWrite()) togglePause(row.queue);
      else say("This user may only read.", true);
    } else return;
    event.preventDefault();
  }
}

let queuesTable, setsTable, rowsMax = ROWS_STEP;

/** What a list of active jobs belongs to: the queue by the name that people use. */
function family(queue) {
  const [before, name] = parts(queue);
  return before ? `${queue.db}|${queue.system}|${name.replace(/:intermediate$/, "")}` : null;
}

/** Gives each waiting queue its number of active jobs; what remains are the sets beside. */
function sortOut(queues) {
  const waiting = queues.filter((queue) => WAITING.includes(queue.state));
  for (const queue of waiting) if (queue.jobs) queue.active = queue.jobs.active;
  // Of several, such as BullMQ's wait and prioritized, the list, which has the time of its first job.
  const owners = new Map(waiting.filter((queue) => queue.state === "waiting" && family(queue))
    .toSorted((a, b) => b.name.endsWith(":prioritized") - a.name.endsWith(":prioritized")).map((queue) => [family(queue), queue]));
  const sets = queues.filter((queue) => {
    if (WAITING.includes(queue.state) || (isKept(queue) && queue.state === "active")) return false;
    const owner = queue.state === "active" && owners.get(family(queue));
    if (owner) owner.active = (owner.active ?? 0) + queue.depth;
    return !owner;
  });
  return [waiting, sets.sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || b.depth - a.depth || (a.name < b.name ? -1 : 1))];
}

function showQueues() {
  const filter = $("filter").value.trim().toLowerCase();
  const matches = (queue) => !filter || queue.name.toLowerCase().includes(filter) || (queue.system ?? "").toLowerCase().includes(filter);
  const [waiting, sets] = sortOut(state.queues.map((queue) => ({ ...queue, active: undefined })));
  const { sort } = queuesTable;
  const { by } = COLUMNS.find((column) => column.id === sort.id);
  const order = (a, b) => {
    const [x, y] = [by(a), by(b)];
    return (x === y ? 0 : (x < y ? -1 : 1) * (sort.descending ? -1 : 1)) || b.depth - a.depth || (a.name < b.name ? -1 : 1);
  };
  const matching = waiting.filter(matches).sort(order);
  const rows = matching.slice(0, rowsMax);
  queuesTable.show(rows);
  for (const cell of $("table").tHead.rows[0].cells) {
    const sorted = cell.classList.contains(sort.id);
    if (sorted) cell.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  if ($("sort").value !== sort.id) $("sort").value = sort.id;
  const all = waiting.length + state.other;
  put($("shown"), state.unlisted ? "" : rows.length === all ? several(all, "queue") : `shows ${count(rows.length)} of ${count(all)}`,
    state.other ? `${count(state.other)} are not listed by the server; QUEUE LIST has all` : "");
  show($("more"), matching.length > rows.length);
  put($("more"), `Show ${count(Math.min(ROWS_STEP, matching.length - rows.length))} more`);
  const nothing = !state.queues.length && !state.other && !state.unlisted;
  show($("none"), nothing);
  show($("table"), rows.length > 0);
  show($("no-match"), !nothing && !rows.length);
  put($("no-match"), state.unlisted ? state.unlisted : filter ? "No queue matches the filter." : "No list of waiting jobs; only the sets below.");
  document.body.classList.toggle("no-queues", nothing);
  const shownSets = sets.filter(matches);
  show($("sets"), shownSets.length > 0);
  setsTable.show(shownSets.slice(0, rowsMax));
  put($("sets-shown"), shownSets.length > rowsMax ? `shows ${count(rowsMax)} of ${count(shownSets.length)}` : "");
  showSentence();
}

/** The server does not list queues for this user: that is not as if there were none. */
function missedQueues(error) {
  if (error.status !== 403) return missed(error);
  state.unlisted = sentence(error.message);
  state.queues = [];
  state.other = 0;
  showQueues();
  return 5000;
}

function tookQueues(answer) {
  state.unlisted = null;
  state.queues = answer.queues ?? [];
  state.other = answer.other ?? 0;
  state.time = answer.time_ms ?? Date.now();
  showQueues();
}

/* ---- One queue, opened ---- */

let opened = null;
const SAMPLE = 100, PEEK_SHOWN = 10, FIND_MAX = 50;

function jobOf(payload) {
  let json = null;
  try { json = JSON.parse(payload); } catch { /* opaque */ }
  if (json === null || typeof json !== "object" || Array.isArray(json)) return { payload, name: null };
  const text = (...values) => values.find((value) => typeof value === "string" && value) ?? null;
  const name = text(json.wrapped, json.class, json.headers?.task, json.task, json.name, json.actor_name, json.func, json.function, json.job_class, json.type) ?? "without a class";
  const id = text(json.jid, json.id, json.headers?.id, json.properties?.correlation_id);
  let at = json.enqueued_at ?? json.created_at ?? json.timestamp ?? null;
  if (typeof at === "number" && at < 1e11) at *= 1000; // Sidekiq before 8 has seconds
  return { payload, json, name, id, at: typeof at === "number" ? at : null, args: json.args ?? json.data ?? json.kwargs ?? json.headers?.argsrepr };
}

function open(queue) {
  const hash = `#queue=${queue.db}:${encodeURIComponent(queue.key)}`;
  if (location.hash !== hash) history.pushState(null, "", hash);
  openPanel(queue);
}

/** Opens what the address says, or closes. */
function follow() {
  const match = /^#queue=(\d+):(.+)$/.exec(location.hash);
  if (!match) { shut(); return; }
  let key;
  try { key = decodeURIComponent(match[2]); } catch { return; }
  const id = `${match[1]}:${key}`;
  if (opened?.id === id) return;
  let name = "";
  try { name = new TextDecoder().decode(Uint8Array.from(atob(key), (character) => character.charCodeAt(0))); } catch { return; }
  openPanel(state.queues.find((queue) => idOf(queue) === id) ?? { db: Number(match[1]), key, name });
}

function close() {
  if (location.hash) history.pushState(null, "", location.pathname + location.search);
  shut();
}

function shut() {
  if (!opened) return;
  const { id } = opened;
  opened.search.stopped = true;
  opened = null;
  $("queue").hidden = true;
  $("queue").replaceChildren();
  document.body.classList.remove("has-open");
  $("main").inert = false;
  for (const table of [queuesTable, setsTable]) {
    const row = [...table.body.rows].find((each) => idOf(each.queue) === id);
    if (row) { row.classList.remove("is-open"); row.focus({ preventScroll: true }); }
  }
}

const narrow = matchMedia("(max-width: 760px)");

function openPanel(queue) {
  if (opened) opened.search.stopped = true;
  const at = {};
  const keep = (name, element) => (at[name] = element);
  opened = { id: idOf(queue), queue, parts: at, search: { stopped: true } };
  const panel = $("queue");
  panel.replaceChildren(
    h("div", { class: "top" },
      h("h2", { id: "queue-title", tabindex: "-1" }, nameElement(queue)),
      keep("pause", h("button", { type: "button", hidden: true, onclick: () => togglePause(opened.queue) })),
      h("button", { type: "button", "aria-label": "Close", title: "Close (Esc)", class: "quiet-button", onclick: close }, "✕")),
    keep("chips", h("p", { class: "chips" })),
    keep("problem", h("p", { class: "problem", hidden: true })),
    keep("facts", h("dl", { class: "facts" })),
    keep("spark", h("div", { class: "big-spark" }, sparkline(), h("span", { class: "muted" }, "depth, last 60 s"))),
    keep("waits-section", h("section", {}, h("h3", {}, "Waiting time of jobs that were taken"),
      keep("bars", h("div", { class: "bars", role: "list" })),
      keep("waits", h("div", { class: "waits" })),
      keep("no-waits", h("p", { class: "quiet" }, "Nothing has been taken yet.")))),
    ...leasedSections(keep),
    keep("beside-section", h("section", { hidden: true }, h("h3", {}, "Beside it"), keep("beside", h("div", { class: "links" })))),
    keep("waiting-section", h("section", { hidden: true }, h("h3", {}, "Who waits for jobs"), keep("waiting", h("div")))),
    h("section", {},
      h("div", { class: "head" }, h("h3", {}, "Jobs"), keep("sampled", h("span", { class: "muted" })),
        h("button", { type: "button", class: "small", onclick: peek }, "Look again")),
      keep("classes", h("div", { class: "bars classes", role: "list" })),
      keep("jobs", h("ul", { class: "jobs" })),
      keep("all", h("button", { type: "button", class: "small", hidden: true, onclick: () => showJobs(true) }))),
    h("section", {}, h("h3", {}, "Find"), findForm(keep),
      keep("found-text", h("p", { class: "muted", role: "status" })),
      keep("found", h("ul", { class: "jobs" })),
      keep("remove-all", h("button", { type: "button", class: "danger", hidden: true, onclick: removeAll }, "Remove all that contain it …"))),
    h("section", { class: "writes", hidden: isKept(queue) }, h("h3", {}, "Move jobs"), moveForm(keep)));
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("has-open");
  $("main").inert = narrow.matches;
  document.querySelectorAll("tr.is-open").forEach((row) => row.classList.remove("is-open"));
  for (const table of [queuesTable, setsTable]) {
    const row = [...table.body.rows].find((each) => idOf(each.queue) === opened.id);
    if (row) { row.classList.add("is-open"); table.select(row); }
  }
  showOpened({});
  $("queue-title").focus();
  pollQueue();
  peek();
}

function showPause() {
  const { parts: at, queue } = opened;
  show(at.pause, canWrite() && WAITING.includes(queue.state ?? "waiting"));
  put(at.pause, queue.paused ? "Resume" : "Pause");
}

function showOpened(info) {
  const { parts: at } = opened;
  const row = state.queues.find((queue) => idOf(queue) === opened.id) ?? {};
  const queue = { ...opened.queue, ...info, ...row, db: opened.queue.db, key: opened.queue.key, name: opened.queue.name, jobs: info.jobs ?? row.jobs };
  opened.queue = queue;
  const now = state.time;
  showPause();
  const chips = [queue.system, queue.state, queue.db && `db ${queue.db}`, queue.paused && "paused"].filter(Boolean);
  list(at.chips, chips, (text) => text, (text) => chipOf(text), () => {});
  const moment = (ms) => ({ text: ago(ms, now), title: ms ? exact(ms) : "" });
  facts(at.facts, [
    { name: "Depth", text: count(queue.depth) },
    ORDER.includes(queue.state) ? { name: "Due", text: due(queue)[0], title: due(queue)[1] }
      : { name: "Oldest", text: queue.depth ? duration(queue.oldest_ms) : NONE, title: is(queue.oldest_ms) ? exact(now - queue.oldest_ms) : "" },
    { name: "In", text: rate(queue.in_per_s), title: rates(queue, "in") },
    { name: "Out", text: rate(queue.out_per_s), title: rates(queue, "out") },
    !ORDER.includes(queue.state) && { name: "Empty in", text: emptyIn(queue)[0] },
    !ORDER.includes(queue.state) && { name: "Workers waiting", text: count(queue.waiters) },
    { name: "Memory", text: bytes(queue.bytes) },
    ...leasedFacts(queue),
    is(queue.pushed) && { name: "Pushed", text: count(queue.pushed) },
    is(queue.popped) && { name: "Popped", text: count(queue.popped) },
    "known_since_ms" in queue && { name: "Known for", text: duration(now - queue.known_since_ms), title: `since ${exact(queue.known_since_ms)}: rates, totals and waiting times begin then` },
    "last_push_ms" in queue && { name: "Last push", ...moment(queue.last_push_ms) },
    "last_pop_ms" in queue && { name: "Last pop", ...moment(queue.last_pop_ms) },
  ]);
  show(at.spark, Boolean(row.spark?.length));
  showSpark(at.spark.firstChild, row.spark);
  showWaits(queue, at);
  showLeased();
  const beside = arrayOf(queue.beside);
  show(at["beside-section"], beside.length > 0);
  list(at.beside, beside, (each) => `${each.state} ${each.name}`, (each) => {
    const known = state.queues.find((other) => other.name === each.name && other.db === queue.db);
    return h("button", { type: "button", class: "link", disabled: !known, onclick: () => open(known) }, chipOf(each.state), h("b"), h("span", { class: "muted" }));
  }, (child, each) => { put(child.children[1], count(each.depth)); put(child.children[2], visible(each.name ?? "", 60)); });
  const waiting = arrayOf(queue.waiting);
  show(at["waiting-section"], waiting.length > 0);
  table(at.waiting, ["Library", "Client", "Connections"], waiting, (each) => [visible(each.library || "unknown"), visible(each.name || NONE), count(each.clients)]);
}

function showWaits(queue, at) {
  show(at["waits-section"], !ORDER.includes(queue.state)); // how long a job lay in a set of what is due says nothing
  const waits = [["1m", "1 min"], ["10m", "10 min"], ["1h", "1 h"]].map(([last, name]) => [name, queue.waits?.[last]]).filter(([, each]) => each);
  show(at.waits, waits.length > 0);
  table(at.waits, ["Last", "p50", "p95", "p99", "Longest", "Jobs"], waits,
    ([name, each]) => [name, duration(each.p50), duration(each.p95), duration(each.p99), duration(each.max), count(each.count)]);
  const bars = arrayOf(queue.wait_histogram);
  const total = bars.reduce((sum, each) => sum + each.count, 0);
  show(at.bars, total > 0);
  show(at["no-waits"], total === 0 && !waits.length);
  showBars(at.bars, bars.map((each) => ({ label: `≤ ${span(each.le_ms)}`, count: each.count })), total);
}

function showBars(parent, items, total) {
  const top = Math.max(1, ...items.map((item) => item.count));
  list(parent, items, (item) => item.label,
    () => h("div", { role: "listitem" }, h("span", { class: "label" }), h("span", { class: "bar", "aria-hidden": "true" }, h("i")), h("span", { class: "value" })),
    (child, item) => {
      put(child.children[0], item.label, item.label);
      child.querySelector("i").style.width = `${(100 * item.count) / top}%`;
      show(child.querySelector("i"), item.count > 0);
      put(child.children[2], item.count ? `${count(item.count)} · ${(100 * item.count) / total < 1 ? "<1" : Math.round((100 * item.count) / total)} %` : "0");
    });
}

/** A small table, rebuilt only if something in it is new. Cells are text or `[text, title]`. */
function table(parent, headings, items, cells) {
  const rows = items.map((item) => cells(item).map((cell) => (Array.isArray(cell) ? cell : [cell, ""])));
  if (!parent.body) {
    parent.body = h("tbody");
    parent.append(h("table", { class: "small-table" }, h("thead", {}, h("tr", {}, ...headings.map((text) => h("th", { scope: "col" }, text)))), parent.body));
  }
  list(parent.body, rows.map((row, i) => [i, row]), ([i]) => i,
    ([, row]) => h("tr", {}, ...row.map(() => h("td", {}, h("span")))),
    (element, [, row]) => row.forEach(([text, title], i) => put(element.children[i].firstChild, text, title)));
}

const INDEX_MAX = 2 ** 32;
/**
 * Where a job is: in a list its place, 1 is taken next; in a set of what is due its time. `position` is an index, which is negative
 * if jobs are taken from the end, or a score. Scores are times in seconds or milliseconds, or priorities, which are not shown.
 */
function placeOf(position, queue, isScore) {
  if (isScore || ORDER.includes(queue.state)) {
    const at = position * (position < 1e11 ? queue.score_ms : Math.min(1, queue.score_ms ?? 0));
    return ORDER.includes(queue.state) && at > 1e12 ? { due: at } : {};
  }
  return Math.abs(position) < INDEX_MAX ? { place: position < 0 ? -position : position + 1 } : {};
}

async function peek() {
  const mine = opened;
  try {
    const { jobs } = await request(`peek?${keyed(mine.queue)}&count=${SAMPLE}`);
    if (mine !== opened) return;
    mine.jobs = jobs.map((job) => ({ ...jobOf(job.payload), ...placeOf(job.score ?? job.index, mine.queue, is(job.score)) }));
    showJobs(false);
  } catch (error) {
    if (mine === opened) put(mine.parts.sampled, error.status ? error.message : "The server did not answer.");
  }
}

function showJobs(all) {
  const { parts: at, jobs } = opened;
  put(at.sampled, jobs.length ? `the next ${several(jobs.length, "job")} to be taken, at ${clock(Date.now())}` : `none, at ${clock(Date.now())}`);
  const classes = new Map();
  jobs.filter((job) => job.name !== null).forEach((job) => classes.set(job.name, (classes.get(job.name) ?? 0) + 1));
  showBars(at.classes, [...classes].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([name, times]) => ({ label: visible(name, 80), count: times })), jobs.length);
  at.jobs.replaceChildren(...(all ? jobs : jobs.slice(0, PEEK_SHOWN)).map(jobElement));
  show(at.all, !all && jobs.length > PEEK_SHOWN);
  put(at.all, `Show all ${jobs.length} of the sample`);
}

const PAYLOAD_SHOWN = 20_000;
/** The payload, indented if it is JSON; not if it has integers that JavaScript would round. */
function inFull(job) {
  const text = job.json && !/\d{16}/.test(job.payload) ? JSON.stringify(job.json, null, 2) : job.payload;
  const rest = text.length - PAYLOAD_SHOWN;
  return [text.slice(0, PAYLOAD_SHOWN).split("\n").map((line) => visible(line, PAYLOAD_SHOWN)).join("\n"), rest > 0 ? `… and ${count(rest)} characters more` : ""];
}

function jobElement(job) {
  const remove = () => removeJob(job, item);
  const sure = !isKept(opened.queue) && (job.id || (job.payload.length <= 4096 && !job.payload.includes("\ufffd")));
  const gist = !job.json ? job.payload : job.args === undefined ? "" : typeof job.args === "string" ? job.args : JSON.stringify(job.args);
  const item = h("li", {}, h("details", { ontoggle: (event) => {
    const pre = event.target.querySelector("pre");
    if (event.target.open && !pre.firstChild) pre.append(...inFull(job));
  } },
  h("summary", {}, h("span", { class: "position", title: is(job.place) ? "its place in the queue: 1 is taken next" : null }, is(job.place) ? `#${count(job.place)}` : ""), job.name !== null ? h("b", {}, visible(job.name, 80)) : null,
    h("span", { class: "mono muted" }, job.id ? visible(job.id, 40) : ""), h("span", { class: "mono args" }, visible(gist, 120)),
    is(job.due) ? h("time", { class: "muted", title: exact(job.due) }, job.due > state.time ? `due in ${duration(job.due - state.time)}` : `${ENDED.includes(opened.queue.state) ? "" : "was due "}${ago(job.due, state.time)}`)
      : job.at ? h("time", { class: "muted", title: exact(job.at) }, ago(job.at, state.time)) : null),
  h("pre", {}),
  sure ? h("button", { type: "button", class: "small danger write", onclick: remove }, "Remove …") : null));
  return item;
}

async function removeJob(job, item) {
  const { queue } = opened;
  const what = job.id ? ["ID", job.id] : ["TEXT", job.payload, "COUNT", "1"];
  const named = job.id ? `with id ${visible(job.id, 60)}` : `with the payload ${visible(job.payload, 60)}`;
  const done = (removed) => (removed ? `Removed ${several(removed, "job")} from ${plain(queue)}.` : "It is no longer there: a worker has taken it.");
  const reply = await change({
    title: "Remove this job?", yes: "Remove", destroys: true,
    text: `${visible(job.name ?? "The job", 80)} ${named} is removed from ${plain(queue)} and will not run. This cannot be undone.`,
  }, queue.db, ["QUEUE", "REMOVE", queue, ...what], done);
  if (reply === undefined) return;
  item.classList.add("gone");
  item.querySelector("button")?.remove();
}

function findForm(keep) {
  return h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); find(); } },
    keep("find-by", h("select", { "aria-label": "Find by" }, h("option", { value: "TEXT" }, "text"), h("option", { value: "ID" }, "id"))),
    keep("find-what", h("input", { type: "search", "aria-label": "What to find", placeholder: "part of the payload, or an id", autocomplete: "off", spellcheck: "false" })),
    keep("find-go", h("button", { type: "submit", class: "primary" }, "Find")));
}

/** Searches slice by slice until there is enough, the end, or no more interest. */
async function find() {
  const mine = opened, { parts: at, queue } = mine;
  if (!mine.search.stopped) { mine.search.stopped = true; return; }
  const what = at["find-what"].value, by = at["find-by"].value;
  if (!what) { at["find-what"].focus(); return; }
  const search = (mine.search = { stopped: false, by, what });
  let found = 0, cursor = "0", ended = false;
  at.found.replaceChildren();
  show(at["remove-all"], false);
  put(at["find-go"], "Stop");
  try {
    do {
      put(at["found-text"], `Searching … ${count(found)} found`);
      const [next, jobs] = await command(queue.db, "QUEUE", "FIND", { b64: queue.key }, by, what, ...(cursor === "0" ? [] : ["CURSOR", cursor]), "COUNT", String(FIND_MAX));
      if (mine !== opened) return;
      jobs.forEach(([position, payload]) => at.found.append(jobElement({ ...jobOf(String(payload)), ...placeOf(position, queue) })));
      found += jobs.length;
      cursor = String(next);
      ended = cursor === "0";
    } while (!search.stopped && !ended && found < FIND_MAX);
    put(at["found-text"], ended ? (found ? `${several(found, "job")} found, that is all.` : "No job like that.") : `${several(found, "job")} found, and not searched to the end.`);
    show(at["remove-all"], found > 0 && by === "TEXT" && canWrite() && !isKept(queue));
    mine.search.found = found;
    mine.search.ended = ended;
  } catch (error) {
    put(at["found-text"], error.status ? error.message : "The server did not answer.");
  }
  search.stopped = true;
  put(at["find-go"], "Find");
}

async function removeAll() {
  const { queue, search, parts: at } = opened;
  const found = `${search.ended ? "" : "at least "}${several(search.found, "job")}`;
  const reply = await change({
    title: "Remove all of these jobs?", yes: "Remove all", destroys: true,
    text: `Every job of ${plain(queue)} whose payload contains “${visible(search.what, 80)}” is removed and will not run: ${found}, and any that came since the search. This cannot be undone.`,
  }, queue.db, ["QUEUE", "REMOVE", queue, "TEXT", search.what], (removed) => `Removed ${several(removed, "job")} from ${plain(queue)}.`);
  if (reply === undefined) return;
  show(at["remove-all"], false);
  at.found.replaceChildren();
  put(at["found-text"], `Removed ${several(reply, "job")}.`);
  peek();
}

function moveForm(keep) {
  const targets = state.queues.filter((queue) => queue.state === "waiting" && queue.name.length <= NAME_MAX);
  return h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); move(); } },
    h("label", {}, "to ", keep("move-to", h("input", { type: "text", list: "names", required: true, autocomplete: "off", spellcheck: "false", placeholder: "key of a queue" })),
      h("datalist", { id: "names" }, ...targets.slice(0, ROWS_STEP).map((queue) => h("option", { value: queue.name })))),
    h("label", {}, "at most ", keep("move-count", h("input", { type: "number", min: "1", placeholder: "all" }))),
    h("label", {}, "that contain ", keep("move-text", h("input", { type: "text", placeholder: "anything", autocomplete: "off", spellcheck: "false" }))),
    h("button", { type: "submit" }, "Move …"));
}

async function move() {
  const { queue, parts: at } = opened;
  const name = at["move-to"].value, limit = at["move-count"].value, text = at["move-text"].value;
  const known = state.queues.find((other) => other.name === name && other.db === queue.db);
  const jobs = limit ? `At most ${several(Number(limit), "job")}` : text ? "All jobs" : `All jobs (now ${count(queue.depth)})`;
  const what = `${jobs}${text ? ` that contain “${visible(text, 80)}”` : ""}`;
  const there = known ? `${visible(name, 80)} holds ${several(known.depth, "job")} now.`
    : `There is no queue ${visible(name, 80)} yet: it is created, and no worker may be looking at it.`;
  const args = ["QUEUE", "MOVE", queue, known ?? name, ...(limit ? ["COUNT", limit] : []), ...(text ? ["TEXT", text] : [])];
  const atOnce = !known || known.state === "waiting" ? ", where workers can take them at once" : "";
  const reply = await change({
    title: "Move jobs?", yes: "Move",
    text: `${what} move${limit === "1" ? "s" : ""} from ${plain(queue)} to ${visible(name, 80)}${atOnce}. ${there}`,
  }, queue.db, args, (moved) => `Moved ${several(moved, "job")} to ${visible(name, 80)}.`);
  if (reply !== undefined) peek();
}

/* ---- Charts ---- */

const RANGES = { "10m": { ms: 600_000, poll: 2000, name: "10 min" }, "24h": { ms: 86_400_000, poll: 30_000, name: "24 h" } };
/** The parts of a range that are shown while there is no more. */
const YOUNG = [0.1, 0.25, 0.5, 1];
const CHART_WIDTH = 600, CHART_HEIGHT = 120;
const PANELS = [
  { title: "Operations", format: rate, lines: [["reads_per_s", "reads", "a"], ["writes_per_s", "writes", "b"], ["other_per_s", "other", "c"]] },
  { title: "Latency", format: micros,
    lines: [["read_p50_us", "reads p50", "a faint"], ["read_p99_us", "reads p99", "a"], ["write_p50_us", "writes p50", "b faint"], ["write_p99_us", "writes p99", "b"]] },
  { title: "CPU of each thread", format: percent, threads: true, lines: [], least: 100 },
  { title: "Delegations", format: rate, lines: [["delegations_per_s", "commands run for another thread", "d"]] },
  { title: "Memory", format: bytes, binary: true, area: true, lines: [["memory_bytes", "used", "e"]] },
  { title: "Network", format: (value) => (is(value) ? `${bytes(value)}/s` : NONE), binary: true, lines: [["net_in_bytes_per_s", "in", "a"], ["net_out_bytes_per_s", "out", "b"]] },
];
let range = "10m", charts = null, reading = null;

/** The smallest round number that is not below `value`. */
function roundUp(value, binary) {
  if (!(value > 0)) return 1;
  const unit = binary ? 1024 ** Math.floor(Math.log(value) / Math.log(1024)) : 1;
  const scaled = value / unit, power = 10 ** Math.floor(Math.log10(scaled));
  return unit * power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= scaled * 0.9999);
}

function makePanels() {
  for (const panel of PANELS) {
    panel.svg = h("svg", { viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      ...[0, 0.5, 1].map((share) => h("line", { class: "grid", x1: 0, x2: CHART_WIDTH, y1: CHART_HEIGHT * share, y2: CHART_HEIGHT * share })));
    panel.marker = h("line", { class: "marker", y1: 0, y2: CHART_HEIGHT, visibility: "hidden" });
    panel.legend = h("p", { class: "legend" });
    panel.labels = [h("span", { class: "top" }), h("span", { class: "middle" })];
    panel.from = h("span");
    const plot = h("div", { class: "plot", tabindex: "0", role: "group", "aria-label": `${panel.title}: arrow keys read it at a moment`,
      onpointermove: (event) => { const box = plot.getBoundingClientRect(); read((event.clientX - box.left) / box.width); },
      onpointerleave: () => read(null), onblur: () => read(null),
      onkeydown: (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
        if (event.key === "Home") read(0);
        else if (event.key === "End") read(1);
        else if (step) read(Math.max(0, Math.min(1, (reading ?? 1) + step / 120)));
        else return;
        event.preventDefault();
      } }, panel.svg, ...panel.labels);
    const axis = h("p", { class: "axis", "aria-hidden": "true" }, panel.from, h("span", {}, "now"));
    $("panels").append(h("figure", { class: "panel" }, h("figcaption", {}, panel.title), panel.legend, plot, axis));
    panel.paths = [];
  }
}

/** The lines of a panel: values, label, class. */
function seriesOf(panel) {
  if (panel.threads) return arrayOf(charts.series.cpu_percent).map((values, i) => [values, `thread ${i}`, "t"]);
  return panel.lines.map(([name, label, look]) => [arrayOf(charts.series[name]), label, look]);
}

function pathOf(values, x, y, closed) {
  let d = "", pen = false, start = 0;
  values.forEach((value, i) => {
    if (!is(value)) { pen = false; return; }
    if (!pen) start = x(i);
    d += `${pen ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  });
  return closed && d ? `${d}V${CHART_HEIGHT}H${start.toFixed(1)}Z` : d;
}

function showCharts() {
  if (!charts) return;
  for (const panel of PANELS) {
    const lines = seriesOf(panel);
    const length = Math.max(0, ...lines.map(([values]) => values.length));
    const points = (RANGES[range].ms / charts.step_ms) * YOUNG.find((share) => share === 1 || length * charts.step_ms <= share * RANGES[range].ms);
    const x = (i) => CHART_WIDTH * (1 - (length - 1 - i) / (points - 1));
    const most = lines.reduce((top, [values]) => values.reduce((high, value) => (value > high ? value : high), top), panel.least ?? 0);
    const top = roundUp(most, panel.binary);
    const y = (value) => CHART_HEIGHT - 1 - (value / top) * (CHART_HEIGHT - 2);
    const paths = panel.area ? [...lines.map(([values]) => [values, "", "area"]), ...lines] : lines;
    while (panel.paths.length > paths.length) panel.paths.pop().remove();
    paths.forEach(([values, , look], i) => {
      const path = (panel.paths[i] ??= panel.svg.appendChild(h("path", { class: look })));
      path.setAttribute("d", pathOf(values, x, y, look === "area"));
    });
    panel.svg.append(panel.marker);
    put(panel.labels[0], panel.format(top));
    put(panel.labels[1], panel.format(top / 2));
    const shown_ms = points * charts.step_ms;
    put(panel.from, `${shown_ms === RANGES[range].ms ? RANGES[range].name : span(shown_ms)} ago`);
    panel.shown = { lines, length, points };
  }
  showReading();
}

function read(share) {
  reading = share;
  showReading();
}

/** What the legend says of the threads' CPU, of which there may be dozens. */
function ofThreads(values) {
  const mean = values.reduce((sum, each) => sum + each, 0) / values.length;
  return [
    { label: "busiest", look: "t", text: values.length ? percent(Math.max(...values)) : NONE },
    { label: "mean", look: "none", text: values.length ? percent(mean) : NONE },
    { label: "threads", look: "none", text: values.length ? count(values.length) : NONE },
  ];
}

/** The numbers beside the charts: of the moment that is pointed at, or the last. */
function showReading() {
  if (!charts) return;
  let at = null;
  for (const panel of PANELS) {
    const { lines, length, points } = panel.shown;
    const index = reading === null ? length - 1 : Math.round(length - 1 - (1 - reading) * (points - 1));
    const value = ([values]) => (index >= 0 ? values[index] : undefined);
    panel.marker.setAttribute("visibility", reading === null || index < 0 ? "hidden" : "visible");
    if (reading !== null) {
      panel.marker.setAttribute("x1", reading * CHART_WIDTH);
      panel.marker.setAttribute("x2", reading * CHART_WIDTH);
    }
    if (length) at ??= charts.from_ms + index * charts.step_ms;
    const entries = panel.threads ? ofThreads(lines.map(value).filter(is))
      : lines.map((line) => ({ label: line[1], look: line[2], text: panel.format(value(line)) }));
    list(panel.legend, entries, (entry) => entry.label,
      (entry) => h("span", {}, h("i", { class: entry.look, "aria-hidden": "true" }), h("span", {}, entry.label), h("b")),
      (child, entry) => put(child.children[2], entry.text));
    const label = `${panel.title}: ${entries.map((entry) => `${entry.label} ${entry.text}`).join(", ")}`;
    if (panel.svg.getAttribute("aria-label") !== label) panel.svg.setAttribute("aria-label", label);
  }
  put($("charts-at"), reading === null || at === null ? "" : `at ${clock(at, range === "10m")}, ${duration(Math.max(0, state.time - at))} ago`, at ? exact(at) : "");
}

/* ---- Now, durability ---- */

/** A small table, or a quiet sentence if there is nothing. */
function tableOr(parent, headings, items, cells, otherwise) {
  parent.empty ??= parent.appendChild(h("p", { class: "quiet" }));
  parent.holder ??= parent.appendChild(h("div"));
  put(parent.empty, otherwise);
  show(parent.empty, !items.length);
  show(parent.holder, items.length > 0);
  table(parent.holder, headings, items, cells);
}

const KEYS_SHOWN = 8;

function showNow(now) {
  put($("now-refused"), "");
  const why = now.why ? sentence(now.why) : "Not known.";
  const named = (text) => [visible(String(text ?? ""), 80), titleOf(String(text ?? ""))];
  tableOr($("slow"), ["When", "Took", "Command", "Client"], arrayOf(now.slow), (each) => {
    const words = visible((each.args ?? []).join(" "), 1000);
    return [[ago(each.time_ms, state.time), exact(each.time_ms)], micros(each.micros), [visible(words, 120), words], named(each.client || NONE)];
  }, "No command was slow (slowlog-log-slower-than).");
  tableOr($("largest"), ["Key", "Type", "Size"], arrayOf(now.largest_keys).slice(0, KEYS_SHOWN),
    (each) => [named(each.key), each.type ?? "", [bytes(each.bytes), `${count(each.bytes)} bytes`]], now.largest_keys ? "No key yet." : why);
  tableOr($("hot"), ["Key", "Type", "Frequency"], arrayOf(now.hot_keys).slice(0, KEYS_SHOWN),
    (each) => [named(each.key), each.type ?? "", [count(each.freq), "logarithmic, as OBJECT FREQ has it"]], now.hot_keys ? "No key yet." : why);
  tableOr($("blocked"), ["Queue", "Clients"], arrayOf(now.blocked), (each) => [named(each.queue), count(each.clients)], now.blocked ? "No client is blocked." : "This user may not list queues.");
  tableOr($("libraries"), ["Library", "Version", "Clients"], arrayOf(now.libraries),
    (each) => [named(each.name || "unknown"), named(each.version || NONE), count(each.clients)], now.libraries ? "No client." : "This user may not list clients.");
}

function showDurability(overview, now) {
  const it = overview.durability ?? {};
  const journal = it.journal === "on";
  const at = it.last_save_s ? it.last_save_s * 1000 : null;
  facts($("durable"), [
    { name: "Journal", text: !journal ? "off" : it.journal_stalled ? "stalled" : `on, fsync ${it.appendfsync ?? "?"}`, level: it.journal_stalled ? "bad" : "" },
    journal && { name: "Journal on disk", text: bytes(it.journal_bytes) },
    {
      name: "Last snapshot", text: it.last_save_ok === false ? `failed, last good ${ago(at, now)}` : ago(at, now),
      title: at ? exact(at) : "", level: it.last_save_ok === false ? "bad" : "",
    },
    { name: "Changes since", text: count(it.changes_since_save) },
    { name: "Offset", text: is(it.offset) ? grouped.format(it.offset) : NONE, title: "Bytes of changes that the server has made since it began" },
    { name: "A crash now loses", text: overview.lost_in_crash ?? NONE, level: "long" },
  ]);
  const heard = (lag_s) => (!is(lag_s) ? NONE : lag_s < 1 ? "now" : `${duration(lag_s * 1000)} ago`);
  tableOr($("replicas"), ["Replica", "State", "Offset", "Behind", "Last heard"], arrayOf(it.replicas),
    (each) => [visible(each.address ?? ""), each.state ?? "", is(each.offset) ? grouped.format(each.offset) : NONE, bytes(each.lag_bytes), heard(each.lag_s)],
    "No replica.");
}

/* ---- Keys, colours, loops ---- */

const typing = (target) => target.matches?.("input, select, textarea");

function pressed(event) {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (event.target === $("filter")) {
      $("filter").value = "";
      showQueues();
      queuesTable.focus();
    } else if (opened) close();
    else return;
  } else if (typing(event.target)) {
    if (event.target !== $("filter") || !["ArrowDown", "Enter"].includes(event.key)) return;
    queuesTable.focus();
  } else if (event.key === "/") {
    if (opened && narrow.matches) close();
    $("filter").focus();
    $("filter").select();
  } else if (event.key === "?") $("help").showModal();
  else if (event.key === "p" && opened && !event.target.closest("tbody") && !opened.parts.pause.hidden) togglePause(opened.queue);
  else if (["ArrowDown", "ArrowUp"].includes(event.key) && event.target === document.body) queuesTable.focus();
  else return;
  event.preventDefault();
}

function showTheme() {
  document.documentElement.dataset.theme = theme;
  const name = theme[0].toUpperCase() + theme.slice(1);
  put($("theme"), name, `Colours: ${theme === "auto" ? "as the system has them" : theme}`);
  $("theme").setAttribute("aria-label", `Colours: ${theme}`);
}

let pollOverview, pollQueues, pollQueue, pollCharts, pollNow;
function refresh() {
  pollOverview();
  pollQueues();
  pollQueue();
}

/** Charts and what is now are asked for only while they are on the screen. */
const seen = new Set();
function watch(id, poller) {
  new IntersectionObserver((entries) => {
    if (entries.at(-1).isIntersecting) { seen.add(id); poller(); } else seen.delete(id);
  }, { rootMargin: "200px" }).observe($(id));
}

function start() {
  let sort = { id: "oldest", descending: true };
  try { sort = COLUMNS.some((column) => column.by && column.id === JSON.parse(saved("sort"))?.id) ? JSON.parse(saved("sort")) : sort; } catch { /* as if none were kept */ }
  queuesTable = new Table($("table"), COLUMNS, sort);
  setsTable = new Table($("sets-table"), SET_COLUMNS, null);
  const words = (column) => `by ${column.label.toLowerCase().replace(/^wait (p\d+)/, "waiting time $1")}`;
  $("sort").append(...COLUMNS.filter((column) => column.by).map((column) => h("option", { value: column.id }, words(column))));
  $("sort").addEventListener("change", () => queuesTable.sortBy($("sort").value, $("sort").value !== "name"));
  $("filter").addEventListener("input", () => { rowsMax = ROWS_STEP; showQueues(); });
  $("more").addEventListener("click", () => { rowsMax += ROWS_STEP; showQueues(); });
  $("theme").addEventListener("click", () => { theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]; save("theme", theme); showTheme(); });
  $("help-open").addEventListener("click", () => $("help").showModal());
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  put($("none-command"), `redis-cli${local ? "" : ` -h ${location.hostname}`} LPUSH queue:default '{"class":"Hello","args":["you"],"jid":"1"}'`);
  document.querySelectorAll("[data-range]").forEach((button) => button.addEventListener("click", () => {
    range = button.dataset.range;
    document.querySelectorAll("[data-range]").forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
    pollCharts();
  }));
  document.addEventListener("keydown", pressed);
  $("confirm").addEventListener("close", () => { if (!$("confirm").open) answered(); });
  document.addEventListener("selectionchange", noteSelection);
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
  narrow.addEventListener("change", () => { $("main").inert = Boolean(opened) && narrow.matches; });
  makePanels();
  showTheme();

  pollOverview = poll(() => "overview", () => 1000, showOverview);
  pollQueues = poll(() => "queues", () => 1000, tookQueues, missedQueues);
  pollQueue = poll(() => (opened ? `queue?${keyed(opened.queue)}` : undefined), () => 2000, (info) => {
    show(opened.parts.problem, false);
    showOpened(info);
  }, (error) => {
    put(opened.parts.problem, error.message);
    show(opened.parts.problem, true);
  });
  pollCharts = poll(() => (seen.has("charts") ? `charts?range=${range}` : undefined), () => RANGES[range].poll,
    (answer) => { charts = answer; showCharts(); }, (error) => put($("charts-at"), error.message));
  pollNow = poll(() => (seen.has("now") ? "now" : undefined), () => 5000, showNow, (error) => put($("now-refused"), error.message));
  watch("charts", pollCharts);
  watch("now", pollNow);
  refresh();
  follow();
  setInterval(() => { if (state.away && !document.hidden) showSentence(); }, 1000);
}

document.addEventListener("DOMContentLoaded", start);
