import { expect, it } from 'vitest';
import { newPause, type Pause } from '../../../../../src/domain/fleet/pause.ts';
import { pauseEvents } from '../../../../../src/domain/report/events/pause-events.ts';
import { NOON } from '../../../../support/daemon/scenario.ts';

const said = (node: string, why: string): Pause =>
  newPause({ name: 'ocp', version: '4.13.7', node, by: 'uid 0', why, atMs: NOON, forMs: 3_600_000 });
const lifted = { node: 'cp-1', by: 'uid 1000' };

it('the history has each pause and each lift once, with who said it and which node brought it', () => {
  const [own, heard, passedOn] = [said('n1', 'own'), { ...said('n2', 'heard'), from: 'n2' }, said('n3', 'passed on')];
  const hearsay = { ...passedOn, from: 'n2' };
  const all = [own, heard, hearsay];
  const paused = pauseEvents([], all);
  expect(paused.map(({ kind }) => kind)).toEqual(Array(3).fill('rollOutPaused'));
  expect(paused.map(({ message }) => message)).toEqual([
    `The roll-out of ocp 4.13.7 is paused until 2026-03-10T13:00:00Z by uid 0 on n1: own (${own.id})`,
    `The roll-out of ocp 4.13.7 is paused until 2026-03-10T13:00:00Z by uid 0 on n2: heard (${heard.id})`,
    `The roll-out of ocp 4.13.7 is paused until 2026-03-10T13:00:00Z by uid 0 on n3, as n2 says: passed on (${hearsay.id})`,
  ]);
  const later = [
    { ...own, lifted, liftedFrom: 'cp-1' },
    { ...heard, lifted, liftedFrom: 'n2' },
    { ...hearsay, from: 'n3' },
  ];
  expect(pauseEvents(all, later)).toMatchObject([
    {
      kind: 'rollOutResumed',
      message: `The roll-out of ocp 4.13.7 goes on: pause ${own.id} (uid 0 on n1: own) is lifted by uid 1000 on cp-1`,
    },
    { message: expect.stringMatching(/\(uid 0 on n2: heard\) is lifted by uid 1000 on cp-1, as n2 says$/) },
  ]);
  expect(pauseEvents(later, later.slice(1))).toEqual([]);
  // Another pause of the same id and node is one of its own.
  expect(pauseEvents(all, [...all, { ...hearsay, by: 'uid 7' }])).toHaveLength(1);
});
