import { clip } from '../../src/platform/plain-text.ts';
import { type Child, el, foreign, svg } from './dom.ts';
import type { Tone } from './view.ts';

export function button(text: Child, onclick: () => void, look = 'pf-m-secondary', name?: string): HTMLButtonElement {
  return el(
    'button',
    { type: 'button', class: `pf-v6-c-button ${look}`, onclick, 'aria-label': name },
    el('span', { class: 'pf-v6-c-button__text' }, text),
  );
}

export function card(title: string, actions: readonly Child[], ...body: readonly Child[]): HTMLElement {
  const id = `card-${clip(title, 60)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')}`;
  return el(
    'section',
    { class: 'pf-v6-c-card', 'aria-labelledby': id },
    el(
      'div',
      { class: 'pf-v6-c-card__header sp-header' },
      el('div', { class: 'pf-v6-c-card__title' }, el('h2', { class: 'pf-v6-c-card__title-text', id }, foreign(title))),
      el('div', { class: 'sp-buttons' }, ...actions),
    ),
    el('div', { class: 'pf-v6-c-card__body' }, ...body),
  );
}

const LABEL_COLOURS: Readonly<Record<Tone, string>> = {
  good: 'pf-m-green',
  info: 'pf-m-blue',
  warning: 'pf-m-orange',
  danger: 'pf-m-red',
  none: '',
};

export function label(text: Child, tone: Tone): HTMLElement {
  return el(
    'span',
    { class: `pf-v6-c-label ${LABEL_COLOURS[tone]}` },
    el('span', { class: 'pf-v6-c-label__content' }, el('span', { class: 'pf-v6-c-label__text' }, text)),
  );
}

const ALERTS: Readonly<Record<Tone, readonly [look: string, spoken: string]>> = {
  good: ['pf-m-success', 'Success: '],
  info: ['pf-m-info', 'Info: '],
  warning: ['pf-m-warning', 'Warning: '],
  danger: ['pf-m-danger', 'Danger: '],
  none: ['', ''],
};

export function alert(tone: Tone, title: Child, ...body: readonly Child[]): HTMLElement {
  const [look, spoken] = ALERTS[tone];
  return el(
    'div',
    { class: `pf-v6-c-alert pf-m-inline sp-alert ${look}` },
    el('div', { class: 'pf-v6-c-alert__icon' }, icon(tone)),
    el('p', { class: 'pf-v6-c-alert__title' }, el('span', { class: 'pf-v6-screen-reader' }, spoken), title),
    body.length === 0 ? undefined : el('div', { class: 'pf-v6-c-alert__description' }, ...body),
  );
}

const ICONS: Readonly<Record<Tone, string>> = {
  good: 'M8 0a8 8 0 1 1 0 16A8 8 0 0 1 8 0Zm3.9 4.6L6.8 9.7 4.1 7.1 3 8.3l3.8 3.7L13 5.8Z',
  info: 'M8 0a8 8 0 1 1 0 16A8 8 0 0 1 8 0ZM7.1 3.4v1.8h1.8V3.4Zm0 3.2v6h1.8v-6Z',
  warning: 'M8 1 15.8 15H.2ZM7.2 5.8v5h1.6v-5Zm0 6v1.6h1.6v-1.6Z',
  danger: 'M8 0a8 8 0 1 1 0 16A8 8 0 0 1 8 0ZM7.1 3.4v6h1.8v-6Zm0 7.4v1.8h1.8v-1.8Z',
  none: '',
};

function icon(tone: Tone): SVGElement {
  const path = svg('path', { d: ICONS[tone], 'fill-rule': 'evenodd' });
  return svg('svg', { class: 'sp-icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, path);
}

/** Terms with their descriptions. Those without are left out. */
export function terms(...pairs: readonly (readonly [term: string, description: Child])[]): HTMLElement {
  return el(
    'dl',
    { class: 'pf-v6-c-description-list pf-m-horizontal-on-sm' },
    ...pairs
      .filter(([, description]) => description !== undefined)
      .map(([term, description]) =>
        el(
          'div',
          { class: 'pf-v6-c-description-list__group' },
          el(
            'dt',
            { class: 'pf-v6-c-description-list__term' },
            el('span', { class: 'pf-v6-c-description-list__text' }, term),
          ),
          el(
            'dd',
            { class: 'pf-v6-c-description-list__description' },
            el('div', { class: 'pf-v6-c-description-list__text' }, description),
          ),
        ),
      ),
  );
}

/** A table that becomes a list of cards on a narrow screen. */
export function table(name: string, columns: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  return el(
    'table',
    { class: 'pf-v6-c-table pf-m-compact pf-m-grid-md', role: 'table', 'aria-label': name },
    el(
      'thead',
      { class: 'pf-v6-c-table__thead', role: 'rowgroup' },
      el(
        'tr',
        { class: 'pf-v6-c-table__tr', role: 'row' },
        ...columns.map((column) =>
          el('th', { class: 'pf-v6-c-table__th', role: 'columnheader', scope: 'col' }, column),
        ),
      ),
    ),
    el(
      'tbody',
      { class: 'pf-v6-c-table__tbody', role: 'rowgroup' },
      ...rows.map((cells) =>
        el(
          'tr',
          { class: 'pf-v6-c-table__tr', role: 'row' },
          ...cells.map((cell, at) =>
            el(
              'td',
              { class: 'pf-v6-c-table__td', role: 'cell', 'data-label': columns[at] ?? '' },
              el('div', {}, cell),
            ),
          ),
        ),
      ),
    ),
  );
}

export function empty(title: string, ...body: readonly Child[]): HTMLElement {
  return el(
    'div',
    { class: 'pf-v6-c-empty-state pf-m-sm' },
    el(
      'div',
      { class: 'pf-v6-c-empty-state__content' },
      el('h2', { class: 'pf-v6-c-empty-state__title-text' }, title),
      el('div', { class: 'pf-v6-c-empty-state__body' }, ...body),
    ),
  );
}

export function spinner(text: string): HTMLElement {
  return el(
    'p',
    { class: 'sp-busy', role: 'status' },
    el('span', { class: 'sp-spinner', 'aria-hidden': 'true' }),
    text,
  );
}
