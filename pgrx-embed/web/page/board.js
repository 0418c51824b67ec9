// The page: asks the board once a second while it is visible, and shows the answer.

import { act, button, confirmed } from './actions.js';
import { count, duration, NONE, number, pause, rate, time } from './format.js';
import { History } from './history.js';
import { buriedList, makeLists, queueTable } from './lists.js';
import { Plot } from './plot.js';
import { setText } from './table.js';

const PERIOD = 1000;
const PATIENCE = 15_000;
const ALL = '';

const mayWrite = document.documentElement.dataset.write === 'yes';
const byId = (id) => document.getElementById(id);

let history = new History(null);
let serverNow = 0;
let shown = null;
let lastAnswer = null;
let wake = () => {};
let isUrgent = false;
let request = null;

const queues = queueTable(byId('table-queues'), () => history, sortBy);
const lists = makeLists(() => serverNow + (Date.now() - (lastAnswer ?? Date.now())) / 1000);
const buried = buriedList(mayWrite ? (name, row) => change(name, { id: row.id }, row.key) : null);
const tasks = new Plot(byId('plot-tasks'), 'Tasks', ['ready', 'taken', 'waiting', 'buried'], number);
const flow = new Plot(byId('plot-rates'), 'Tasks in and out per second', ['in', 'out'], rate);

// What is shown is in the address: a queue, or a part of the list of queues.

function route() {
  const given = new URLSearchParams(location.hash.slice(1));
  return {
    queue: given.get('queue') ?? ALL,
    filter: given.get('filter') ?? '',
    sort: given.get('sort') ?? 'queue',
    page: Math.max(0, Number.parseInt(given.get('page') ?? '0', 10) || 0),
  };
}

function go(change) {
  const { filter, sort, page } = { ...route(), page: 0, ...change };
  const wanted = new URLSearchParams();
  if (filter) wanted.set('filter', filter);
  if (sort !== 'queue') wanted.set('sort', sort);
  if (page) wanted.set('page', page);
  window.history.replaceState(null, '', `#${wanted}`);
  askNow();
}

/** The first click on a column of numbers shows the greatest first, the second the least. */
function sortBy(column) {
  const { sort } = route();
  const first = column === 'queue' ? column : `-${column}`;
  const second = column === 'queue' ? '-queue' : column;
  go({ sort: sort === first ? second : first });
}

// Asking.

function askNow() {
  isUrgent = true;
  request?.abort();
  wake();
}

/** Waits for the next turn: a second, or while the page is hidden until it is seen. */
async function rest() {
  if (!isUrgent) {
    await new Promise((resolve) => {
      wake = resolve;
      if (!document.hidden) setTimeout(resolve, PERIOD);
    });
  }
  isUrgent = false;
}

async function ask() {
  const { queue, filter, sort, page } = route();
  const wanted = new URLSearchParams(queue ? { queue } : { filter, sort, page });
  request = new AbortController();
  const patience = setTimeout(() => request.abort(new Error('the board does not answer')), PATIENCE);
  try {
    const response = await fetch(`api/board?${wanted}`, { signal: request.signal });
    const answer = await response.json();
    if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
    return { answer, of: queue };
  } finally {
    clearTimeout(patience);
  }
}

async function run() {
  for (;;) {
    try {
      const { answer, of } = await ask();
      if (of === route().queue) show(answer, of);
      fail(null);
    } catch (error) {
      if (error.name !== 'AbortError') fail(error);
    }
    await rest();
  }
}

function fail(error) {
  document.body.classList.toggle('stale', Boolean(error));
  byId('alert').hidden = !error;
  if (!error) {
    setText(byId('live-text'), 'live');
    return;
  }
  const isBoard = error instanceof TypeError;
  setText(byId('live-text'), lastAnswer ? `as of ${time(lastAnswer)}` : 'no data');
  const [what, hint] = byId('alert').children;
  const said = isBoard ? 'the board does not answer: it was ended, or cannot be reached' : error.message;
  setText(what, `${said[0].toUpperCase()}${said.slice(1)}.`);
  setText(hint, `${error.hint ?? ''} Tried again every second.`.trim());
}

// Showing.

function show(answer, queue) {
  const { server } = answer;
  const identity = `${server.database} ${server.role}`;
  if (history.database !== identity) history = new History(identity);
  lastAnswer = Date.now();
  serverNow = server.now;
  showServer(server);
  if (shown !== queue) showPage(queue);
  if (queue === ALL) showQueues(answer.queues);
  else showQueue(queue, answer);
  const taken = queue === ALL ? answer.queues?.total?.taken : answer.queue?.stats?.tasks?.taken;
  for (const [name, list] of Object.entries(lists)) {
    list.update(answer[name], name === 'in_flight' ? taken : undefined);
  }
}

function showServer(server) {
  const version = `PostgreSQL ${server.version.split(' ')[0]}`;
  const parts = [server.database, `as ${server.role}`, version, ...(server.standby ? ['standby'] : [])];
  setText(byId('server'), parts.join(' · '));
  byId('mode').hidden = mayWrite;
  setText(byId('mode'), 'read-only');
  const isWell = ['RUNNING', 'RESTING', 'STARTUP', 'INIT'].includes(server.worker) || server.standby;
  const problem = server.error ?? (isWell ? null : `the worker is ${server.worker}`);
  byId('problem').hidden = !problem;
  setText(byId('problem'), problem ? `Worker: ${problem}` : '');
}

/** Prepares the page of a queue, or that of all. */
function showPage(queue) {
  shown = queue;
  const isAll = queue === ALL;
  document.body.classList.toggle('of-queue', !isAll);
  byId('path').hidden = isAll;
  byId('title').hidden = isAll;
  byId('queues').hidden = !isAll;
  byId('buried').hidden = isAll;
  setText(byId('title').querySelector('h2'), queue);
  document.title = isAll ? 'xqueue board' : `${queue} – xqueue board`;
  byId('tiles').replaceChildren();
  byId('badges').replaceChildren();
  byId('pause').replaceChildren();
}

function showQueues(section) {
  const isShown = !section.error;
  for (const id of ['tiles', 'plots', 'table-queues', 'pages']) byId(id).hidden = !isShown;
  if (!isShown) {
    byId('queues').querySelector('.empty').hidden = true;
    setText(byId('matching'), `Not shown: ${section.error.message}`);
    return;
  }
  const { total, transitions, matching, rows, per_page: perPage } = section;
  for (const row of rows) history.push(row.name, lastAnswer, { ready: row.ready });
  history.pushTotals(ALL, lastAnswer, totals(transitions), states(total));
  plot(ALL);
  showTiles([
    ['Queues', number(total.queues)],
    ['Ready', number(total.ready), 'ready'],
    ['Taken', number(total.taken), 'taken'],
    ['Waiting', number(total.waiting), 'waiting'],
    ['Buried', number(total.buried), 'buried'],
    ['In/min', rate(total.in_1m)],
    ['Out/min', rate(total.out_1m)],
    ['Consumers waiting', number(total.consumers)],
    ['Paused', number(total.paused)],
    ['With errors', number(total.errors), total.errors ? 'alarm' : ''],
  ]);
  const { sort, page, filter } = route();
  queues.update(rows);
  queues.showSort(sort);
  if (document.activeElement !== byId('filter')) byId('filter').value = filter;
  const first = page * perPage + 1;
  const isPaged = matching > perPage;
  const range = `${number(first)}–${number(first + rows.length - 1)} of ${number(matching)}`;
  setText(byId('matching'), isPaged ? range : filter ? count(matching, 'queue') : '');
  byId('pages').hidden = !isPaged && page === 0;
  byId('previous').disabled = page === 0;
  byId('next').disabled = first + perPage > matching;
  const empty = byId('queues').querySelector('.empty');
  empty.hidden = rows.length > 0;
  byId('table-queues').hidden = rows.length === 0;
  setText(
    empty,
    total.queues
      ? 'No queue has such a name.'
      : 'There is no queue here that this role may look at. It needs SELECT on the table, and row security must not apply to it.',
  );
}

function showQueue(queue, answer) {
  const { queue: known, latency } = answer;
  const isGone = Boolean(!known || known.error);
  for (const id of ['tiles', 'plots', 'badges', 'pause']) byId(id).hidden = isGone;
  buried.update(answer.buried, known?.stats?.tasks?.buried);
  if (isGone) {
    showRetryAll(0);
    byId('problem').hidden = false;
    setText(byId('problem'), known?.error?.message ?? 'There is no such queue, or this role may not look at it.');
    return;
  }
  const { stats, features } = known;
  const now = stats.tasks;
  history.pushTotals(`queue ${queue}`, lastAnswer, totals(stats.transitions), states(now));
  history.push(queue, lastAnswer, { ready: now.ready });
  plot(`queue ${queue}`);
  const tiles = [
    ['Ready', number(now.ready), 'ready'],
    ['Taken', number(now.taken), 'taken'],
    ['Waiting', number(now.waiting), 'waiting'],
    ['Buried', number(now.buried), 'buried'],
    ...(features.keep ? [['Done', number(now.done)]] : []),
    ...(features.zombie ? [['Zombies', number(now.zombie)]] : []),
    ['Oldest ready', duration(known.oldest)],
    ['Consumers waiting', number(stats.consumers)],
    ...(stats.capacity ? [['Capacity', number(stats.capacity)]] : []),
    ['Wait p50 · p95 · p99', quantiles(latency?.wait, latency?.taken)],
    ['Work p50 · p95 · p99', quantiles(latency?.work, latency?.acked)],
  ];
  showTiles(tiles);
  if (stats.error) {
    byId('problem').hidden = false;
    setText(byId('problem'), `Error: ${stats.error}`);
  }
  showFeatures(features);
  showPause(stats.paused_until);
  showRetryAll(now.buried);
}

/** Tasks that came and that went, whatever the state: from the transitions since the server started. */
function totals(transitions) {
  const sum = { in: 0, out: 0 };
  for (const [name, tasks] of Object.entries(transitions)) {
    const [from, to] = name.split('-');
    if (from === 'X') sum.in += tasks;
    else if ('XDZ'.includes(to) && !'DZ'.includes(from)) sum.out += tasks;
  }
  return sum;
}

function states({ ready, taken, waiting, buried: aside }) {
  return { ready, taken, waiting, buried: aside };
}

function quantiles(bounds, tasks) {
  if (!tasks) return NONE;
  return bounds.map((bound) => (bound === null ? '>8 h' : `≤${duration(bound)}`)).join(' · ');
}

function plot(key) {
  tasks.update(history.samples(key));
  flow.update(history.samples(key));
}

function showTiles(tiles) {
  const target = byId('tiles');
  while (target.children.length > tiles.length) target.lastChild.remove();
  tiles.forEach(([label, value, kind = ''], i) => {
    const tile = target.children[i] ?? target.appendChild(document.createElement('div'));
    if (!tile.firstChild) tile.append(document.createElement('dt'), document.createElement('dd'));
    tile.className = kind;
    setText(tile.firstChild, label);
    setText(tile.lastChild, value);
  });
}

function showFeatures(features) {
  const target = byId('badges');
  const state = JSON.stringify(features);
  if (target.dataset.state === state && target.firstChild) return;
  target.dataset.state = state;
  const names = Object.keys(features).filter((name) => features[name] !== false);
  target.replaceChildren(
    ...names.map((name) => {
      const badge = document.createElement('span');
      badge.className = 'badge';
      badge.textContent = name;
      badge.title = JSON.stringify(features[name]);
      return badge;
    }),
  );
}

const PAUSES = [['until resumed', ''], ['for 1 minute', '1 min'], ['for 10 minutes', '10 min'], ['for 1 hour', '1 h']];

function showPause(until) {
  const target = byId('pause');
  const state = pause(until);
  if (target.dataset.state === state && target.firstChild) return;
  target.dataset.state = state;
  target.replaceChildren();
  const badge = document.createElement('span');
  badge.className = state ? 'badge paused' : 'badge well';
  badge.textContent = state || 'running';
  target.append(badge);
  if (!mayWrite) return;
  if (state) {
    target.append(button('Resume', () => change('resume', {})));
    return;
  }
  const choice = document.createElement('select');
  choice.setAttribute('aria-label', 'For how long');
  for (const [label, value] of PAUSES) choice.add(new Option(label, value));
  target.append(choice, button('Pause', () => change('pause', { duration: choice.value })));
}

function showRetryAll(waiting) {
  if (!mayWrite) return;
  const tools = byId('buried').querySelector('.tools');
  if (!tools.firstChild) tools.append(confirmed('Retry all', 'Retry all of them?', () => change('retry-all', {})));
  tools.hidden = !waiting;
}

async function change(name, parameters, key) {
  await act(name, shown, parameters, key);
  askNow();
}

// The key has become a cookie: it need not stay in the address, where it could be copied from.
if (new URLSearchParams(location.search).has('key')) {
  window.history.replaceState(null, '', `${location.pathname}${location.hash}`);
}
window.addEventListener('hashchange', askNow);
document.addEventListener('visibilitychange', () => document.hidden || askNow());
window.addEventListener('pagehide', () => history.store());
byId('filter').addEventListener('input', (event) => go({ filter: event.target.value }));
byId('previous').addEventListener('click', () => go({ page: route().page - 1 }));
byId('next').addEventListener('click', () => go({ page: route().page + 1 }));
byId('filter').value = route().filter;
run();
