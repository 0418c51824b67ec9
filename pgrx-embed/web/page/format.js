// Numbers, durations and times as text.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const small = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const day = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'short', hour12: false });

export const NONE = '–';

/** 1234567 → "1,234,567"; what is not known is a dash. */
export function number(value) {
  return value === null || value === undefined ? NONE : whole.format(value);
}

/** A rate: below ten with one digit behind the point. */
export function rate(value) {
  return value === null || value === undefined ? NONE : (value < 10 ? small : whole).format(value);
}

/** For the axis of a plot: 1500000 → "1.5M". */
export function compact(value) {
  return short.format(value);
}

/** Seconds as "120 ms", "4.2 s", "3 min 20 s", "5 h 12 min" or "3 d 4 h". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0) seconds = 0;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? small.format(seconds) : Math.floor(seconds)} s`;
  const parts = (large, largeName, rest, restName) => (rest ? `${large} ${largeName} ${rest} ${restName}` : `${large} ${largeName}`);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return parts(minutes, 'min', Math.floor(seconds % 60), 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return parts(hours, 'h', minutes % 60, 'min');
  return parts(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** Milliseconds since 1970 as the time of day. */
export function time(milliseconds) {
  return clock.format(milliseconds);
}

/** The last time that JavaScript knows, in milliseconds since 1970; the server knows later ones. */
const LAST = 8.64e15;

/** The end of a pause, as the server says it: seconds since 1970, or "infinity". */
export function pause(until) {
  if (until === null || until === undefined) return '';
  if (until === 'infinity' || Number(until) * 1000 > LAST) return 'paused';
  return `paused until ${day.format(Number(until) * 1000)}`;
}

/** "1 task", "2 tasks". */
export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}
