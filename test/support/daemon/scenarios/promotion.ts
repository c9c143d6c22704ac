import { A_PROVEN, activation, B_ACTIVATED, B_PROVEN, C_COMES, comes, comesAndWaits, OUT, starts } from './rows.ts';
import { activate, debug, exit, job, pass, plug, restart, run, type Scenario, setClock } from './table.ts';

const DAYS = 24 * 60;

/** From ready to proven. */
export const PROMOTION: readonly Scenario[] = [
  {
    name: 'A proven; B activated, soaking, proven, and A its fallback; C proven: A is retired, and what only A has is removed',
    rows: [
      ...A_PROVEN,
      comes('B', 'A', 'A proven, B activated'),
      OUT,
      starts('B', 'A proven, B active'),
      { event: pass(8), effects: [], phases: 'A proven, B active' },
      {
        event: pass(4),
        effects: ['record-proven B'],
        phases: 'A superseded, B proven',
        pins: 'A+B',
        tags: 'B',
        images: 'A+B',
      },
      ...C_COMES,
      {
        event: pass(12),
        effects: ['record-proven C', 'retire A', 'apply-pins B+C', 'remove-images A'],
        phases: 'A retired, B superseded, C proven',
        pins: 'B+C',
        tags: 'C',
        images: 'B+C',
      },
      { event: pass(60), effects: [], phases: 'A retired, B superseded, C proven', images: 'B+C' },
    ],
  },
  {
    name: 'a release with schedule manual is ready until a person activates it',
    traits: { B: { schedule: 'manual' } },
    rows: [
      ...A_PROVEN,
      comesAndWaits('B', 'A', 'A proven, B ready'),
      { event: pass(60), effects: [], phases: 'A proven, B ready', tags: 'A' },
      { event: activate('B'), effects: activation('B'), phases: 'A proven, B activated', tags: 'B' },
    ],
  },
  {
    name: 'a release that is ready and runs all the same is activated by that evidence, and proves itself as any other',
    traits: { B: { schedule: 'manual' } },
    rows: [
      ...A_PROVEN,
      comesAndWaits('B', 'A', 'A proven, B ready'),
      OUT,
      { event: run('B'), effects: ['record-soak B'], phases: 'A proven, B ready', tags: 'A' },
      {
        event: pass(2),
        effects: ['request-activation B', ...activation('B'), 'record-active B'],
        phases: 'A proven, B active',
        tags: 'B',
      },
      { event: pass(12), effects: ['record-proven B'], phases: 'A superseded, B proven', pins: 'A+B' },
    ],
  },
  {
    name: 'no evidence never promotes: neither time, nor a job that ended well, nor an image that the release before has too',
    rows: [
      ...B_ACTIVATED,
      { event: job('B', 'api'), effects: ['record-soak B'], phases: 'A proven, B activated' },
      { event: debug('B', 'base'), effects: [] },
      { event: pass(1 * DAYS), effects: [], phases: 'A proven, B activated', pins: 'A+B' },
    ],
  },
  {
    name: 'a restart starts the soak of its component anew',
    rows: [
      comes('A', '', 'A activated'),
      OUT,
      starts('A', 'A active'),
      { event: pass(8), effects: [] },
      { event: restart('api'), effects: ['record-soak A'], phases: 'A active' },
      { event: pass(5), effects: [], phases: 'A active' },
      { event: pass(7), effects: ['record-proven A'], phases: 'A proven' },
    ],
  },
  {
    name: 'a component that failed and does not come back holds the release',
    rows: [
      comes('A', '', 'A activated'),
      OUT,
      starts('A', 'A active'),
      { event: exit('api', 1), effects: ['record-soak A'], phases: 'A active' },
      { event: pass(60), effects: [], phases: 'A active' },
      { event: run('A', 'api'), effects: ['record-soak A'] },
      { event: pass(12), effects: ['record-proven A'], phases: 'A proven' },
    ],
  },
  {
    name: 'lifecycle.require waits for its components, lifecycle.ignore does not look at its own',
    lifecycle: { require: ['base'], ignore: ['api'] },
    rows: [
      comes('A', '', 'A activated'),
      OUT,
      { event: run('A', 'etcd'), effects: ['record-soak A', 'record-active A'], phases: 'A active' },
      { event: run('A', 'api'), effects: [] },
      { event: exit('api', 1), effects: [] },
      { event: pass(60), effects: [], phases: 'A active' },
      { event: run('A', 'base'), effects: ['record-soak A'] },
      { event: pass(12), effects: ['record-proven A'], phases: 'A proven' },
    ],
  },
  {
    name: 'a wall clock that jumps neither shortens nor lengthens the soak',
    rows: [
      comes('A', '', 'A activated'),
      OUT,
      starts('A', 'A active'),
      { event: setClock(365 * DAYS), effects: [] },
      { event: pass(8), effects: [], phases: 'A active' },
      { event: setClock(-730 * DAYS), effects: [], phases: 'A active' },
      { event: pass(4), effects: ['record-proven A'], phases: 'A proven' },
    ],
  },
  {
    name: 'the same images with new metadata take the place of the other: nothing is pulled, nothing proves itself anew',
    traits: { C: { imagesOf: 'B' } },
    rows: [
      ...B_PROVEN,
      {
        event: plug('C'),
        effects: [
          'mount-medium',
          'read-medium',
          'keep-documents C',
          'adopt-bundle C',
          'apply-mirrors api base etcd',
          'record-ready C',
          'start activate C',
          'apply-mirrors nothing',
          'take-over C from B',
        ],
        phases: 'A superseded, B retired, C proven',
        pins: 'A+B',
        tags: 'B',
        images: 'A+B',
      },
      OUT,
      comes('D', 'A+B', 'A superseded, B retired, C proven, D activated'),
      OUT,
      starts('D', 'A superseded, B retired, C proven, D active'),
      {
        event: pass(12),
        effects: ['record-proven D', 'retire A', 'apply-pins B+D', 'remove-images A'],
        phases: 'A retired, B retired, C superseded, D proven',
        pins: 'B+D',
        images: 'B+D',
      },
    ],
  },
];
