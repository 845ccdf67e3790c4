// The jobs of an opened queue that are not in its list: those that workers have, that come later, or are dead, and the
// schedules; with buttons for what can be done about each. They are asked for one kind after the other, and only where
// QUEUE INFO counts some. Buttons run the commands of the same names as the user of this page.
"use strict";

const LEASED_STEP = 20, LEASED_MAX = 200;
/** For how long a lease goes on. */
const EXTEND_MS = 60_000;

const until = (ms) => (ms > state.time ? `in ${duration(ms - state.time)}` : ago(ms, state.time));
const attempts = (job) => (job.attempt ? `attempt ${count(job.attempt)}` : "");
/** A job or a schedule as an argument: `change` sends its bytes and shows its text. */
const named = (job) => ({ key: job.key, name: job.id });
const called = (job) => visible(job.id, 60);

const EXTEND = {
  label: "Extend",
  run: (queue, job) => change({
    title: "Extend the lease?", yes: "Extend",
    text: `The job ${called(job)} stays with ${visible(job.worker, 60)} for a minute more before it comes back.`,
  }, queue.db, ["JOB.KEEP", queue, Math.max(0, job.time_ms - state.time) + EXTEND_MS, "ID", named(job)],
  (kept) => (kept ? `The lease of ${called(job)} ends a minute later.` : `No worker has ${called(job)} any more.`)),
};
const retry = (label, text) => ({
  label,
  run: (queue, job) => change({ title: `${label}?`, yes: label, text: text(job) }, queue.db, ["JOB.RETRY", queue, named(job)],
    (retried) => (retried ? `${called(job)} waits in ${plain(queue)}.` : `${called(job)} was no longer there.`)),
});
const DROP = {
  label: "Drop", destroys: true,
  run: (queue, job) => change({
    title: "Drop this job?", yes: "Drop", destroys: true, text: `The job ${called(job)} is dropped from ${plain(queue)} and will not run. This cannot be undone.`,
  }, queue.db, ["JOB.DROP", queue, named(job)], (dropped) => (dropped ? `${called(job)} is dropped.` : `${called(job)} was no longer there.`)),
};
const RUN = {
  label: "Run now",
  run: (queue, line) => change({
    title: "Run now?", yes: "Run now", text: `What ${called(line)} pushes is pushed onto ${plain(queue)} now, beside its schedule.`,
  }, queue.db, ["CRON", "RUN", queue, named(line)], (ran) => (ran ? `${called(line)} has pushed a job.` : `There is no schedule ${called(line)} any more.`)),
};

/** Each kind: what QUEUE INFO calls their number, what is said of one, and its buttons. */
const KINDS = [
  { state: "active", title: "Active jobs", more: (job) => [job.worker, attempts(job)], time: (job) => `lease ends ${until(job.time_ms)}`, buttons: [EXTEND] },
  {
    state: "delayed", title: "Delayed jobs", more: (job) => [job.why, attempts(job)], time: (job) => `due ${until(job.time_ms)}`,
    buttons: [retry("Run now", (job) => `${called(job)} waits no longer: workers can take it now, and it has all its attempts before it.`)],
  },
  {
    state: "dead", title: "Dead jobs", more: (job) => [job.why, job.attempt ? `after ${several(job.attempt, "attempt")}` : ""], time: (job) => `died ${until(job.time_ms)}`,
    buttons: [retry("Retry", (job) => `Workers can take ${called(job)} now, and it has all its attempts before it.`), DROP],
  },
  { state: "schedules", title: "Schedules", more: (line) => [line.schedule, line.tz], time: (line) => `next ${until(line.time_ms)}`, buttons: [RUN] },
];

/** The sets in which the server keeps leased jobs: their own commands change them. */
const isKept = (queue) => queue.system === "jobs" && ORDER.includes(queue.state);

/** A section for each kind, hidden while there are none. */
function leasedSections(keep) {
  return KINDS.map((kind) => keep(kind.state, h("section", { hidden: true, class: "of-kind", "data-kind": kind.state },
    h("div", { class: "head" }, h("h3", {}, kind.title), h("span", { class: "muted" })),
    h("p", { class: "problem", hidden: true }),
    h("ul", { class: "leased" }),
    h("button", { type: "button", class: "small", hidden: true, onclick: () => { opened.shown[kind.state] += LEASED_STEP; showLeased(); } }, "Show more"))));
}

/** What QUEUE INFO counts, as facts. */
function leasedFacts({ jobs }) {
  if (!jobs) return [];
  const limits = [
    is(jobs.limit_rate) && `${count(jobs.limit_rate)} per ${span(jobs.limit_per_ms)}`,
    is(jobs.limit_active) && `${count(jobs.limit_active)} active`,
    is(jobs.limit_per_group) && `${count(jobs.limit_per_group)} per group`,
  ].filter(Boolean);
  return [
    { name: "Active", text: count(jobs.active), title: is(jobs.next_lease_ms) ? `the next lease ends ${exact(jobs.next_lease_ms)}` : "" },
    jobs.delayed > 0 && { name: "Delayed", text: count(jobs.delayed), title: is(jobs.next_due_ms) ? `the next is due ${exact(jobs.next_due_ms)}` : "" },
    jobs.dead > 0 && { name: "Dead", text: count(jobs.dead) },
    jobs.groups > 0 && { name: "In groups", text: `${count(jobs.grouped)} of ${several(jobs.groups, "group")}` },
    limits.length > 0 && { name: "Limit", text: limits.join(", "), level: "long" },
  ];
}

/** Shows the kinds of which there are some, one after the other. */
async function showLeased() {
  const mine = opened, { queue } = mine;
  mine.shown ??= Object.fromEntries(KINDS.map((kind) => [kind.state, LEASED_STEP]));
  const total = (kind) => (queue.jobs?.[kind.state] ?? 0);
  for (const kind of KINDS) show(mine.parts[kind.state], total(kind) > 0);
  if (mine.asks) return;
  mine.asks = true;
  try {
    for (const kind of KINDS.filter((each) => total(each) > 0)) await showKind(mine, kind, total(kind));
  } finally {
    mine.asks = false;
  }
}

/** Shows some jobs of one kind, of which there are `total`. */
async function showKind(mine, kind, total) {
  const wanted = Math.min(mine.shown[kind.state], LEASED_MAX);
  const [answer, error] = await request(`jobs?${keyed(mine.queue)}&state=${kind.state}&count=${wanted}`).then((answer) => [answer, null], (error) => [null, error]);
  if (mine !== opened) return;
  const [head, problem, items, more] = mine.parts[kind.state].children;
  show(problem, Boolean(error));
  if (error) put(problem, error.status ? error.message : "The server did not answer.");
  if (error) return;
  const jobs = arrayOf(answer.jobs);
  put(head.lastChild, jobs.length < total ? `the first ${count(jobs.length)} of ${count(total)}` : count(jobs.length));
  show(more, wanted < Math.min(total, LEASED_MAX));
  list(items, jobs, (job) => job.key ?? job.id, (job) => leasedElement(kind, job), (item, job) => updateLeased(kind, item, job));
}

function leasedElement(kind, job) {
  const item = h("li", {}, h("details", { ontoggle: (event) => {
    const pre = event.target.querySelector("pre");
    if (event.target.open && !pre.firstChild) pre.append(...inFull(jobOf(item.job.payload)), item.job.payload_bytes > item.job.payload.length ? ` (${bytes(item.job.payload_bytes)} in all)` : "");
  } },
  h("summary", {}, h("b"), h("span", { class: "mono muted" }), h("span", { class: "mono args" }), h("time", { class: "muted" })),
  h("pre", {})));
  if (!job.key) return item;
  const button = ({ label, destroys, run }) =>
    h("button", { type: "button", class: `small write${destroys ? " danger" : ""}`, "aria-label": `${label} ${called(job)}`, onclick: () => run(opened.queue, item.job) }, label);
  item.append(h("span", { class: "actions" }, ...kind.buttons.map(button)));
  return item;
}

function updateLeased(kind, item, job) {
  item.job = job;
  const [name, id, more, time] = item.querySelector("summary").children;
  put(name, visible(jobOf(job.payload).name ?? "", 80));
  put(id, visible(job.id, 40), titleOf(job.id));
  put(more, kind.more(job).filter(Boolean).map((text) => visible(text, 120)).join(" · "));
  put(time, kind.time(job), exact(job.time_ms));
}
