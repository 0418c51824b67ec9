// Plots, drawn as SVG.

import { compact, duration, time } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';
const HEIGHT = 170;
const EDGE = { top: 8, right: 8, bottom: 22, left: 46 };

function element(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** For how long a plot looks back, in milliseconds: a minute at first, and further as there is more to show. */
export function period(samples, now) {
  const minutes = samples.length ? (now - samples[0].at) / 60_000 : 0;
  return ([1, 2, 5].find((least) => minutes <= least) ?? 10) * 60_000;
}

/** The least of 1, 2, 5 times a power of ten that is not below `value`, and at least `least`. */
export function ceiling(value, least = 1) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, least)));
  return [1, 2, 5, 10].map((step) => step * power).find((bound) => bound >= Math.max(value, least));
}

/** The path of a line through the samples, broken where a value is missing. */
function path(samples, name, x, y) {
  let text = '';
  let isOpen = false;
  for (const { at, values } of samples) {
    const value = values?.[name];
    if (value === null || value === undefined) {
      isOpen = false;
      continue;
    }
    text += `${isOpen ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    isOpen = true;
  }
  return text;
}

/** A plot of several series over the last minutes, with a legend that tells the values now, or under the pointer. */
export class Plot {
  /** `series`: the names of the values, which are also the classes of their lines. */
  constructor(figure, title, series, format) {
    this.series = series;
    this.format = format;
    this.samples = [];
    this.pointer = null;
    this.now = 0;
    const caption = document.createElement('figcaption');
    this.title = document.createElement('span');
    this.title.className = 'plot-title';
    this.title.textContent = title;
    this.when = document.createElement('span');
    this.when.className = 'plot-when';
    caption.append(this.title, this.when);
    this.svg = element('svg', { role: 'img', height: HEIGHT });
    this.grid = element('g', { class: 'grid' });
    this.lines = element('g');
    this.cross = element('line', { class: 'cross', y1: EDGE.top, y2: HEIGHT - EDGE.bottom });
    this.paths = series.map((name) => element('path', { class: `line ${name}` }));
    this.lines.append(...this.paths);
    this.svg.append(this.grid, this.lines, this.cross);
    const legend = document.createElement('ul');
    legend.className = 'legend';
    this.values = series.map((name) => {
      const item = document.createElement('li');
      const swatch = element('svg', { class: 'swatch', width: 22, height: 8, 'aria-hidden': 'true' });
      swatch.append(element('path', { class: `line ${name}`, d: 'M0 4H22' }));
      const value = document.createElement('b');
      item.append(swatch, `${name} `, value);
      legend.append(item);
      return value;
    });
    figure.replaceChildren(caption, this.svg, legend);
    this.svg.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.svg.addEventListener('pointerleave', () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  point(x) {
    this.pointer = x;
    this.draw();
  }

  update(samples) {
    this.samples = samples;
    this.now = Date.now();
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!width) return;
    const { now } = this;
    const reach = period(this.samples, now);
    const greatest = Math.max(0, ...this.samples.flatMap(({ values }) => this.series.map((name) => values?.[name] ?? 0)));
    const top = ceiling(greatest, 4);
    const x = (at) => EDGE.left + (width - EDGE.left - EDGE.right) * (1 - (now - at) / reach);
    const y = (value) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - value / top);
    this.drawGrid(width, top, x, y);
    this.drawTimes(x, now, reach / 60_000);
    const shown = this.samples.filter(({ at }) => at > now - reach);
    this.paths.forEach((line, i) => line.setAttribute('d', path(shown, this.series[i], x, y)));
    this.tell(shown, x, reach);
  }

  drawGrid(width, top, x, y) {
    const parts = [];
    for (const value of [0, top / 2, top]) {
      parts.push(element('line', { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }));
      const label = element('text', { x: EDGE.left - 6, y: y(value) + 4, 'text-anchor': 'end' });
      label.textContent = compact(value);
      parts.push(label);
    }
    this.grid.replaceChildren(...parts);
  }

  drawTimes(x, now, minutes) {
    for (const [ago, anchor] of [[minutes, 'start'], [minutes / 2, 'middle'], [0, 'end']]) {
      const label = element('text', { x: x(now - ago * 60_000), y: HEIGHT - 6, 'text-anchor': anchor });
      label.textContent = ago ? `${duration(ago * 60)} ago` : 'now';
      this.grid.append(label);
    }
  }

  /** The legend's values: those of the sample nearest to the pointer, else the last ones. */
  tell(shown, x, reach) {
    let sample = shown.at(-1);
    if (this.pointer !== null && shown.length) {
      const distance = ({ at }) => Math.abs(x(at) - this.pointer);
      sample = shown.reduce((best, other) => (distance(other) < distance(best) ? other : best));
    }
    const isPast = this.pointer !== null && sample;
    this.when.textContent = isPast ? time(sample.at) : '';
    this.cross.classList.toggle('shown', Boolean(isPast));
    if (isPast) {
      this.cross.setAttribute('x1', x(sample.at));
      this.cross.setAttribute('x2', x(sample.at));
    }
    const texts = this.series.map((name) => this.format(sample?.values?.[name]));
    this.values.forEach((value, i) => (value.textContent = texts[i]));
    const told = this.series.map((name, i) => `${name} ${texts[i]}`).join(', ');
    this.svg.setAttribute('aria-label', `${this.title.textContent}, the last ${duration(reach / 1000)}. ${told}`);
  }
}

/** The line of one value in a table. */
export class Sparkline {
  constructor(width = 120, height = 26) {
    Object.assign(this, { width, height });
    this.svg = element('svg', { class: 'spark', width, height, 'aria-hidden': 'true' });
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.setAttribute('preserveAspectRatio', 'none');
    this.area = element('path', { class: 'area' });
    this.line = element('path', { class: 'line ready' });
    this.svg.append(this.area, this.line);
  }

  update(samples, name) {
    const now = Date.now();
    const reach = period(samples, now);
    const shown = samples.filter(({ at }) => at > now - reach);
    const top = 1.2 * Math.max(1, ...shown.map(({ values }) => values?.[name] ?? 0));
    const x = (at) => this.width * (1 - (now - at) / reach);
    const y = (value) => this.height - 2 - (this.height - 4) * (value / top);
    const line = path(shown, name, x, y);
    this.line.setAttribute('d', line);
    // Each stretch without a gap is closed along the bottom.
    const stretches = line.split('M').filter(Boolean).map((stretch) => {
      const points = stretch.split('L').map((point) => point.split(' ')[0]);
      return `M${points[0]} ${this.height}L${stretch}L${points.at(-1)} ${this.height}Z`;
    });
    this.area.setAttribute('d', stretches.join(''));
  }
}
