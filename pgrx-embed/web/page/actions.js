// What the buttons do: the board calls a function of the queue, and the outcome is told.

import { count } from './format.js';

const { token } = document.documentElement.dataset;

const SAID = {
  retry: (done, key) => (done ? `Task ${key} goes back to work.` : `Task ${key} is not buried any more.`),
  delete: (done, key) => (done ? `Task ${key} is deleted.` : `Task ${key} is not buried any more.`),
  'retry-all': (done) => `${count(done, 'task')} back to work.`,
  pause: () => 'The queue is paused.',
  resume: () => 'The queue goes on.',
};

/** Does `name` to a queue, or to the task whose id is among the parameters; `key` is what the task is called. */
export async function act(name, queue, parameters, key) {
  const wanted = new URLSearchParams({ queue, ...parameters });
  try {
    const headers = { 'X-Board-Token': token };
    const response = await fetch(`api/${name}?${wanted}`, { method: 'POST', headers });
    const { done, error } = await response.json();
    if (error) notify([error.message, error.hint].filter(Boolean).join('. '), true);
    else notify(SAID[name](done, key), false);
  } catch {
    notify('The board does not answer.', true);
  }
}

let timer = null;

function notify(text, isError) {
  const notice = document.getElementById('notice');
  notice.className = isError ? 'shown alarm' : 'shown';
  notice.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => (notice.className = ''), isError ? 10_000 : 5_000);
}

export function button(label, onClick) {
  const made = document.createElement('button');
  made.type = 'button';
  made.textContent = label;
  made.addEventListener('click', onClick);
  return made;
}

/** A button that acts at the second click, and forgets the first after a while. */
export function confirmed(label, question, onClick) {
  let armed = null;
  const disarm = () => {
    clearTimeout(armed);
    armed = null;
    made.textContent = label;
    made.classList.remove('armed');
  };
  const made = button(label, () => {
    if (armed) {
      disarm();
      onClick();
      return;
    }
    made.textContent = question;
    made.classList.add('armed');
    armed = setTimeout(disarm, 4000);
  });
  made.addEventListener('blur', disarm);
  return made;
}
