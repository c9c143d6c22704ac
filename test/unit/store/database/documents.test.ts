import { expect, it } from 'vitest';
import { parseHooks } from '../../../../src/store/database/documents.ts';

const ready = { hook: 'ready', unit: 'ready.service', done: [['sha256:1', 1]] };

it('keeps what it knows of the hooks of a later version', () => {
  const later = { hook: 'rebooted', unit: 'later.service', done: [] };
  expect(parseHooks([later, ready])).toEqual(
    new Map([['ready', { unit: 'ready.service', done: new Map([['sha256:1', 1]]) }]]),
  );
});

it.each([[undefined], [{}], [[3]], [[{ hook: 'ready' }]]])('takes %j for damaged', (value) => {
  expect(parseHooks(value)).toBeUndefined();
});
