import { A_PROVEN, activation, B_ACTIVATED, B_COMES, B_PROVEN, starts } from './rows.ts';
import { activate, drain, exit, pass, plug, restartDaemon, rollback, run, type Scenario, unpin } from './table.ts';

/** The way back: by evidence, and by hand. */
export const WAY_BACK: readonly Scenario[] = [
  {
    name: 'B was active and A runs again: B is rolled back and A has its tags again; B is not activated again by itself, but by hand',
    rows: [
      ...B_ACTIVATED,
      starts('B', 'A proven, B active'),
      { event: pass(1), effects: [] },
      { event: run('A'), effects: ['record-soak B'], phases: 'A proven, B activated' },
      {
        event: pass(2),
        effects: ['record-rolled-back B to A', ...activation('A'), 'record-active A'],
        phases: 'A active, B activated (rolled back)',
        pins: 'A+B',
        tags: 'A',
      },
      { event: pass(12), effects: ['record-proven A'], phases: 'A proven, B activated (rolled back)' },
      { event: plug('B'), effects: ['mount-medium', 'read-medium'], phases: 'A proven, B activated (rolled back)' },
      { event: restartDaemon(), effects: ['mount-medium', 'apply-pins A+B', 'read-medium'] },
      { event: pass(60), effects: [], phases: 'A proven, B activated (rolled back)', tags: 'A' },
      { event: activate('B'), effects: activation('B'), phases: 'A proven, B activated', tags: 'B' },
      starts('B', 'A proven, B active'),
      { event: pass(12), effects: ['record-proven B'], phases: 'A superseded, B proven' },
    ],
  },
  {
    name: 'neither a crash loop nor a drained node is a way back',
    rows: [
      ...B_ACTIVATED,
      { event: run('B', 'etcd'), effects: ['record-soak B', 'record-active B'], phases: 'A proven, B active' },
      { event: exit('etcd', 1), effects: ['record-soak B'], phases: 'A proven, B activated' },
      { event: pass(1), effects: [] },
      { event: run('A', 'api'), effects: [] },
      { event: pass(5), effects: [], phases: 'A proven, B activated' },
      { event: drain, effects: ['record-soak B'] },
      { event: pass(60), effects: [], phases: 'A proven, B activated', tags: 'B' },
    ],
  },
  {
    name: 'rollback by hand activates the fallback with its tags, and it proves itself anew; without a fallback it is refused',
    rows: [
      ...A_PROVEN,
      { event: rollback, effects: [], refused: 'engine/no-fallback', phases: 'A proven' },
      ...B_COMES,
      { event: rollback, effects: activation('A'), phases: 'A activated, B proven (rolled back)', tags: 'A' },
      starts('A', 'A active, B proven (rolled back)'),
      {
        event: pass(12),
        effects: ['record-proven A'],
        phases: 'A proven, B superseded (rolled back)',
        pins: 'A+B',
        tags: 'A',
      },
    ],
  },
  {
    name: 'rollback by hand from a release that is not proven, which is given up by hand then',
    rows: [
      ...B_ACTIVATED,
      starts('B', 'A proven, B active'),
      { event: rollback, effects: activation('A'), phases: 'A activated, B activated (rolled back)', tags: 'A' },
      starts('A', 'A active, B activated (rolled back)'),
      { event: pass(12), effects: ['record-proven A'], phases: 'A proven, B activated (rolled back)' },
      {
        event: unpin('B'),
        effects: ['apply-pins A', 'remove-images B'],
        phases: 'A proven, B retired',
        pins: 'A',
        images: 'A',
      },
    ],
  },
  {
    name: 'a fallback that was activated again and went back once more says so; it stays the fallback',
    rows: [
      ...B_PROVEN,
      { event: activate('A'), effects: activation('A'), phases: 'A activated, B proven', tags: 'A' },
      starts('A', 'A active, B proven'),
      { event: pass(1), effects: [] },
      { event: run('B'), effects: ['record-soak A'], phases: 'A activated, B proven' },
      {
        event: pass(2),
        effects: ['record-rolled-back A to B', ...activation('B'), 'record-active B'],
        phases: 'A superseded (rolled back), B active',
        tags: 'B',
      },
      {
        event: pass(12),
        effects: ['record-proven B'],
        phases: 'A superseded (rolled back), B proven',
        pins: 'A+B',
        tags: 'B',
      },
    ],
  },
  {
    name: 'unpin refuses what may run without force, and does what it says; what it retired comes back from its stick',
    rows: [
      ...B_PROVEN,
      { event: unpin('B'), effects: [], refused: 'engine/running', pins: 'A+B' },
      {
        event: unpin('A'),
        effects: ['apply-pins B', 'remove-images A'],
        phases: 'A retired, B proven',
        pins: 'B',
        images: 'B',
      },
      { event: activate('A'), effects: [], refused: 'engine/not-ready', phases: 'A retired, B proven' },
      { event: plug('A'), effects: ['mount-medium', 'read-medium'], phases: 'A retired, B proven', images: 'B' },
      {
        event: activate('A'),
        effects: [
          'apply-pins A+B',
          'apply-mirrors api base etcd',
          'start pull etcd A',
          'start pull api A',
          'start activate A',
          'apply-mirrors nothing',
          'record-soak A',
        ],
        phases: 'A activated, B proven',
        pins: 'A+B',
        tags: 'A',
      },
      { event: unpin('B'), effects: [], refused: 'engine/running', pins: 'A+B' },
      // Its containers run, so its images stay.
      {
        event: unpin('B', { force: true }),
        effects: ['apply-pins A'],
        phases: 'A activated, B retired',
        pins: 'A',
        images: 'A+B',
      },
      { event: drain, effects: ['remove-images B'], images: 'A' },
    ],
  },
];
