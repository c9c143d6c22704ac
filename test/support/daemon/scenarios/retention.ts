import { A_PROVEN, adoption, B_PROVEN, C_ACTIVE, C_COMES, comes, comesAndWaits, OUT, starts } from './rows.ts';
import { debug, drain, exit, loseImages, loseState, pass, plug, run, type Scenario, unpin } from './table.ts';

/** What is kept, and what may be removed. */
export const RETENTION: readonly Scenario[] = [
  {
    name: 'lifecycle.protect keeps a release pinned for good, beside those that the rule keeps',
    lifecycle: { protect: ['ocp@4.13.1'], keep: 1 },
    rows: [
      ...C_ACTIVE,
      {
        event: pass(12),
        effects: ['record-proven C', 'retire B', 'apply-pins A+C', 'remove-images B'],
        phases: 'A superseded, B retired, C proven',
        pins: 'A+C',
        images: 'A+C',
      },
      { event: unpin('A'), effects: [], refused: 'engine/protected', pins: 'A+C' },
    ],
  },
  {
    name: 'keep = "life" of a bundle keeps its release pinned for good too, until it is unpinned by force',
    lifecycle: { keep: 1 },
    traits: { A: { keep: 'life' } },
    rows: [
      ...C_ACTIVE,
      {
        event: pass(12),
        effects: ['record-proven C', 'retire B', 'apply-pins A+C', 'remove-images B'],
        phases: 'A superseded, B retired, C proven',
        pins: 'A+C',
        images: 'A+C',
      },
      { event: unpin('A'), effects: [], refused: 'engine/running', pins: 'A+C' },
      { event: unpin('A', { force: true }), effects: ['apply-pins C', 'remove-images A'], pins: 'C', images: 'C' },
    ],
  },
  {
    name: 'what was passed over is retired, and where lifecycle.remove_images is false its images stay',
    lifecycle: { remove_images: false },
    traits: { B: { schedule: 'manual' } },
    rows: [
      ...A_PROVEN,
      comesAndWaits('B', 'A', 'A proven, B ready'),
      OUT,
      comes('C', 'A+B', 'A proven, B ready, C activated'),
      OUT,
      starts('C', 'A proven, B ready, C active'),
      {
        event: pass(12),
        effects: ['record-proven C', 'retire B, images stay', 'apply-pins A+C'],
        phases: 'A superseded, B retired, C proven',
      },
      { event: pass(60), effects: [], pins: 'A+C', images: 'A+B+C' },
    ],
  },
  {
    name: 'images that stickpin did not bring are never removed, here since it has forgotten that it did',
    rows: [
      comes('A', '', 'A activated'),
      OUT,
      { event: loseState, effects: ['apply-pins A'], phases: '', pins: 'A', images: 'A' },
      {
        event: plug('A'),
        effects: [
          ...adoption('A', 'A').slice(0, -1),
          'apply-mirrors api base etcd',
          'record-ready A',
          'start activate A',
          'apply-mirrors nothing',
          'record-soak A',
        ],
        phases: 'A activated',
        pins: 'A',
      },
      ...B_PROVEN.slice(1),
      ...C_COMES,
      {
        event: pass(12),
        effects: ['record-proven C', 'retire A', 'apply-pins B+C'],
        phases: 'A retired, B superseded, C proven',
      },
      { event: pass(60), effects: [], pins: 'B+C', images: 'A+B+C' },
    ],
  },
  {
    name: 'a release of which a container still runs is not retired; its exited containers go before its images',
    rows: [
      ...B_PROVEN,
      { event: debug('A', 'api'), effects: [] },
      ...C_COMES,
      { event: pass(12), effects: ['record-proven C'], phases: 'A superseded, B superseded, C proven', pins: 'A+B+C' },
      {
        event: exit('debug', 0),
        effects: ['retire A', 'apply-pins B+C', 'remove-images A'],
        phases: 'A retired, B superseded, C proven',
        pins: 'B+C',
        images: 'B+C',
      },
    ],
  },
  {
    name: 'a release that lost an image is not proven, and no other is retired before it is whole again',
    rows: [
      ...B_PROVEN,
      ...C_COMES.slice(0, 2),
      { event: loseImages('C', 'api'), effects: [], phases: 'A superseded, B proven, C activated (degraded)' },
      {
        event: run('C', 'etcd'),
        effects: ['record-soak C', 'record-active C'],
        phases: 'A superseded, B proven, C active (degraded)',
      },
      { event: pass(60), effects: [], phases: 'A superseded, B proven, C active (degraded)', pins: 'A+B, etcd C' },
      {
        event: plug('C'),
        effects: [
          'mount-medium',
          'read-medium',
          'apply-mirrors api base etcd',
          'start pull api C',
          'apply-mirrors api',
          'record-proven C',
          'start restore-tags C',
          'retire A',
          'apply-pins B+C',
          'apply-mirrors nothing',
          'remove-images A',
        ],
        phases: 'A retired, B superseded, C proven',
        pins: 'B+C',
        images: 'B+C',
      },
    ],
  },
  {
    name: 'the release before one that lost an image is unpinned by force only',
    rows: [
      ...B_PROVEN,
      { event: drain, effects: [] },
      { event: loseImages('B', 'api'), effects: [], phases: 'A superseded, B proven (degraded)' },
      { event: unpin('A'), effects: [], refused: 'engine/running', pins: 'A, etcd B' },
      {
        event: unpin('A', { force: true }),
        effects: ['apply-pins B', 'remove-images A'],
        images: 'base, etcd B',
      },
    ],
  },
  {
    name: 'where space is short the fallback is retired early, to make room for the next release',
    room: ['A', 'B'],
    rows: [
      ...B_PROVEN,
      {
        event: plug('C'),
        effects: [
          ...adoption('C', 'A+B+C'),
          'retire A for C',
          'apply-pins B+C',
          'remove-images A',
          'apply-mirrors api base etcd',
          'start pull etcd C',
          'start pull api C',
          'start activate C',
          'record-ready C',
          'apply-mirrors nothing',
          'record-soak C',
        ],
        phases: 'A retired, B proven, C activated',
        pins: 'B+C',
        tags: 'C',
        images: 'B+C',
      },
    ],
  },
  {
    name: 'never the present release, however short space is',
    room: ['A'],
    rows: [
      ...A_PROVEN,
      { event: plug('B'), effects: adoption('B', 'A+B'), phases: 'A proven, B held (space)' },
      { event: pass(60), effects: [], phases: 'A proven, B held (space)', pins: 'A', tags: 'A', images: 'A' },
    ],
  },
  {
    name: 'nor the fallback where lifecycle.make_room is false',
    room: ['A', 'B'],
    lifecycle: { make_room: false },
    rows: [
      ...B_PROVEN,
      { event: plug('C'), effects: adoption('C', 'A+B+C'), phases: 'A superseded, B proven, C held (space)' },
      { event: pass(60), effects: [], pins: 'A+B', images: 'A+B' },
    ],
  },
];
