// The lists of the page: their columns, and how each is updated from a section of an answer.

import { button, confirmed } from './actions.js';
import { duration, NONE, number, pause, rate } from './format.js';
import { Sparkline } from './plot.js';
import { setText, Table } from './table.js';

export function address(queue) {
  return `#${new URLSearchParams({ queue })}`;
}

function numeric(label, value, sort) {
  return { label, kind: 'number', sort, text: (row) => number(value(row)) };
}

const queueColumn = {
  label: 'Queue',
  kind: 'name',
  make: (cell) => cell.append(document.createElement('a')),
  update(cell, { queue }) {
    setText(cell.firstChild, queue);
    cell.firstChild.href = address(queue);
  },
};

const processColumn = { label: 'Process', kind: 'number', text: ({ pid }) => pid?.toString() ?? 'not connected' };

const clientColumn = {
  label: 'Client',
  kind: 'client',
  text: ({ application, client }) => [application || NONE, client].filter(Boolean).join(' · '),
};

/** The list of queues. `history` has their samples. */
export function queueTable(table, history, onSort) {
  const sparklines = new WeakMap();
  const columns = [
    {
      label: 'Queue',
      kind: 'name',
      sort: 'queue',
      make(cell) {
        const link = document.createElement('a');
        const badge = document.createElement('span');
        const error = document.createElement('span');
        badge.className = 'badge paused';
        error.className = 'error';
        cell.append(link, badge, error);
      },
      update(cell, row) {
        const [link, badge, error] = cell.children;
        setText(link, row.name);
        link.href = address(row.name);
        setText(badge, pause(row.paused_until));
        setText(error, row.error ? `Error: ${row.error}` : '');
      },
    },
    {
      label: 'Ready lately',
      kind: 'plot',
      make(cell) {
        const sparkline = new Sparkline();
        sparklines.set(cell, sparkline);
        cell.append(sparkline.svg);
      },
      update: (cell, row) => sparklines.get(cell).update(history().samples(row.name), 'ready'),
    },
    numeric('Ready', (row) => row.ready, 'ready'),
    numeric('Taken', (row) => row.taken, 'taken'),
    numeric('Waiting', (row) => row.waiting, 'waiting'),
    { ...numeric('Buried', (row) => row.buried, 'buried'), kind: 'number buried' },
    { label: 'Oldest ready', kind: 'number', sort: 'oldest', text: (row) => duration(row.oldest) },
    { label: 'In/min', kind: 'number', sort: 'in', text: (row) => rate(row.in_1m) },
    { label: 'Out/min', kind: 'number', sort: 'out', text: (row) => rate(row.out_1m) },
    numeric('Consumers', (row) => row.consumers, 'consumers'),
  ];
  return new Table(table, 'Queues', columns, (row) => row.name, onSort);
}

/** A list with its heading: rows, or why there are none. */
class List {
  constructor(section, title, columns, keyOf, empty) {
    this.section = document.getElementById(section);
    this.table = new Table(this.section.querySelector('table'), title, columns, keyOf);
    this.empty = empty;
  }

  /** `total`: how many there are, where that is known. */
  update(rows, total) {
    const error = rows?.error;
    const list = Array.isArray(rows) ? rows : [];
    this.table.update(list);
    this.section.querySelector('table').hidden = list.length === 0;
    const empty = this.section.querySelector('.empty');
    empty.hidden = list.length > 0;
    setText(empty, error ? `Not shown: ${error.message}` : this.empty);
    const all = total ?? list.length;
    const isPart = all > list.length && list.length > 0;
    const amount = list.length ? number(all) : '';
    setText(this.section.querySelector('.note'), isPart ? `${number(list.length)} of ${amount}` : amount);
  }
}

const since = (now) => ({ label: 'Waits for', kind: 'number', text: (row) => duration(now() - row.since) });

/** The lists of both pages. `now()` is the server's clock in seconds. */
export function makeLists(now) {
  const place = (row) => `${row.queue} ${row.pid}`;
  return {
    in_flight: new List(
      'in_flight',
      'Tasks in flight, those that were taken first at the top',
      [
        queueColumn,
        { label: 'Task', kind: 'key', text: (row) => row.key },
        { label: 'Taken for', kind: 'number', text: (row) => duration(row.taken_for) },
        { label: 'Time left', kind: 'number', text: (row) => duration(row.time_left) },
        { label: 'Attempt', kind: 'number', text: (row) => number(row.attempts) },
        processColumn,
        clientColumn,
      ],
      (row) => `${row.queue} ${row.id}`,
      'No task is taken.',
    ),
    consumers: new List(
      'consumers',
      'Consumers that wait for a task, first come first served',
      [queueColumn, since(now), processColumn, clientColumn],
      place,
      'No consumer waits.',
    ),
    producers: new List(
      'producers',
      'Producers that wait for room',
      [queueColumn, numeric('Tasks', (row) => row.tasks), since(now), processColumn, clientColumn],
      place,
      'No producer waits.',
    ),
  };
}

/** The list of buried tasks. `act(name, row)`: what its buttons do; none without. */
export function buriedList(act) {
  const columns = [
    { label: 'Task', kind: 'key', text: (row) => row.key },
    { label: 'Attempts', kind: 'number', text: (row) => row.attempts ?? NONE },
    { label: 'Reason', kind: 'long', text: (row) => row.reason ?? NONE },
    {
      label: 'Content',
      kind: 'long content',
      make(cell) {
        // Long ones are cut, and shown in full while they have the focus.
        const content = document.createElement('div');
        content.className = 'cut';
        content.tabIndex = 0;
        cell.append(content);
      },
      update: (cell, row) => setText(cell.firstChild, row.task),
    },
  ];
  if (act) {
    columns.push({
      label: 'Actions',
      kind: 'buttons',
      make(cell) {
        const retry = button('Retry', () => act('retry', cell.row));
        const remove = confirmed('Delete', 'Delete for good?', () => act('delete', cell.row));
        cell.append(retry, remove);
      },
      update(cell, row) {
        cell.row = row;
        cell.firstChild.setAttribute('aria-label', `Retry task ${row.key}`);
      },
    });
  }
  const title = 'Buried tasks, in the order in which they are dug out';
  return new List('buried', title, columns, (row) => row.id, 'No task is buried.');
}
