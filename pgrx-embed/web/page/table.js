// Tables whose rows stay the same elements while their values change: focus, selection and clicks survive an update.

/** Sets the text of an element only where it changes. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export class Table {
  /**
   * `columns`: [{ label, kind, text(row) } or { label, kind, make(cell), update(cell, row) }]; kind is a class of the cells.
   * `keyOf(row)` tells rows apart. A column with `sort` gets a button that calls `onSort(sort)`.
   */
  constructor(table, caption, columns, keyOf, onSort) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.rows = new Map();
    const title = table.createCaption();
    title.className = 'unseen';
    title.textContent = caption;
    const head = table.createTHead().insertRow();
    this.heads = columns.map((column) => {
      const cell = document.createElement('th');
      cell.scope = 'col';
      cell.className = column.kind ?? '';
      if (column.sort) {
        const button = document.createElement('button');
        button.type = 'button';
        button.textContent = column.label;
        button.addEventListener('click', () => onSort(column.sort));
        cell.append(button);
      } else {
        cell.textContent = column.label;
      }
      head.append(cell);
      return cell;
    });
    this.body = table.createTBody();
  }

  /** Marks the column that the rows are sorted by: `ready`, or `-ready` with the greatest first. */
  showSort(sort) {
    this.columns.forEach((column, i) => {
      const order = { [column.sort]: 'ascending', [`-${column.sort}`]: 'descending' }[sort];
      if (column.sort && order) this.heads[i].setAttribute('aria-sort', order);
      else this.heads[i].removeAttribute('aria-sort');
    });
  }

  update(rows) {
    const keys = new Set(rows.map(this.keyOf));
    for (const [key, shown] of this.rows) {
      if (!keys.has(key)) {
        shown.remove();
        this.rows.delete(key);
      }
    }
    let place = this.body.firstElementChild;
    for (const row of rows) {
      const key = this.keyOf(row);
      const shown = this.rows.get(key) ?? this.make(key);
      this.columns.forEach((column, i) => {
        const cell = shown.cells[i];
        if (column.update) column.update(cell, row);
        else this.setValue(cell, column.text(row));
      });
      if (shown === place) place = place.nextElementSibling;
      else this.body.insertBefore(shown, place);
    }
  }

  setValue(cell, text) {
    setText(cell, text);
    cell.classList.toggle('zero', text === '0' || text === '–');
  }

  make(key) {
    const shown = document.createElement('tr');
    for (const column of this.columns) {
      const cell = shown.insertCell();
      cell.className = column.kind ?? '';
      cell.dataset.label = column.label;
      column.make?.(cell);
    }
    this.rows.set(key, shown);
    return shown;
  }
}
