import { A_PROVEN, B_ACTIVATED, B_PROVEN, comes, OUT, starts } from './rows.ts';
import { drain, loseImages, loseTags, pass, plug, powerCut, type Scenario } from './table.ts';

/** What is lost, and given back. */
export const MENDING: readonly Scenario[] = [
  {
    name: 'an image that is removed by hand is pulled again while its stick is in, with its tag',
    rows: [
      comes('A', '', 'A activated'),
      {
        event: loseImages('A', 'etcd'),
        effects: [
          'apply-mirrors api base etcd',
          'start pull etcd A',
          'apply-mirrors etcd',
          'start restore-tags A',
          'apply-mirrors nothing',
        ],
        phases: 'A activated',
        pins: 'A',
        tags: 'A',
        images: 'A',
      },
    ],
  },
  {
    name: 'without a source it is told, and mended when the stick is plugged in',
    rows: [
      ...A_PROVEN,
      // An image that a container uses can't be removed.
      { event: drain, effects: [], phases: 'A proven' },
      {
        event: loseImages('A', 'etcd'),
        effects: [],
        phases: 'A proven (degraded)',
        pins: 'api A, base',
        tags: 'nothing',
        images: 'api A, base',
      },
      // Other images have its only layer, and its manifest is kept: it needs no stick.
      {
        event: loseImages('A', 'base'),
        effects: [
          'apply-mirrors api base etcd',
          'start pull base',
          'apply-mirrors base',
          'start restore-tags A',
          'apply-mirrors nothing',
        ],
        phases: 'A proven (degraded)',
        images: 'api A, base',
      },
      { event: pass(60), effects: [], phases: 'A proven (degraded)' },
      {
        event: plug('A'),
        effects: [
          'mount-medium',
          'read-medium',
          'apply-mirrors api base etcd',
          'start pull etcd A',
          'apply-mirrors etcd',
          'start restore-tags A',
          'apply-mirrors nothing',
        ],
        phases: 'A proven',
        pins: 'A',
        tags: 'A',
        images: 'A',
      },
    ],
  },
  {
    name: 'tags that are taken away are given back without a stick, those of the release that was activated last',
    rows: [
      ...B_PROVEN,
      {
        event: loseTags('B'),
        effects: ['apply-mirrors api base etcd', 'start restore-tags B', 'apply-mirrors nothing'],
        phases: 'A superseded, B proven',
        tags: 'B',
      },
    ],
  },
  {
    name: 'after a power cut and a wipe the sticks bring everything back, and nothing has to prove itself again',
    rows: [
      ...B_ACTIVATED.slice(0, -1),
      starts('B', 'A proven, B active'),
      { event: pass(12), effects: ['record-proven B'], phases: 'A superseded, B proven' },
      {
        event: powerCut,
        effects: [
          'mount-medium',
          'apply-pins A+B',
          'read-medium',
          'apply-mirrors api base etcd',
          'start pull etcd B',
          'start pull api B',
          'start pull base',
          'start restore-tags B',
          'apply-mirrors api base',
          'start restore-tags B',
          'apply-mirrors nothing',
        ],
        phases: 'A superseded (degraded), B proven',
        pins: 'B',
        tags: 'B',
        images: 'B',
      },
      OUT,
      {
        event: plug('A'),
        effects: [
          'mount-medium',
          'read-medium',
          'apply-mirrors api base etcd',
          'start pull etcd A',
          'start pull api A',
          'apply-mirrors nothing',
        ],
        phases: 'A superseded, B proven',
        pins: 'A+B',
        images: 'A+B',
      },
    ],
  },
];
