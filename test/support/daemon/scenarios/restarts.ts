import { activation, C_COMES, comes, comesAndWaits, OUT, starts } from './rows.ts';
import { activate, pass, reboot, restartDaemon, run, type Scenario } from './table.ts';

/**
 * What a new process, or a new boot, makes of each phase. Pins are asked for again, and a stick
 * that is in is read again; nothing else.
 */
export const RESTARTS: readonly Scenario[] = [
  {
    name: 'the daemon restarts in each phase: nothing is done twice, and the soak goes on meanwhile',
    traits: { A: { schedule: 'manual' } },
    rows: [
      comesAndWaits('A', '', 'A ready'),
      {
        event: restartDaemon(),
        effects: ['mount-medium', 'apply-pins A', 'read-medium'],
        phases: 'A ready',
        pins: 'A',
      },
      { event: activate('A'), effects: activation('A'), phases: 'A activated', tags: 'A' },
      { event: restartDaemon(), effects: ['mount-medium', 'apply-pins A', 'read-medium'], phases: 'A activated' },
      OUT,
      starts('A', 'A active'),
      { event: pass(8), effects: [] },
      { event: restartDaemon(), effects: ['apply-pins A'], phases: 'A active' },
      { event: restartDaemon(4), effects: ['apply-pins A', 'record-proven A'], phases: 'A proven' },
      { event: restartDaemon(), effects: ['apply-pins A'], phases: 'A proven' },
      comes('B', 'A', 'A proven, B activated'),
      OUT,
      { event: restartDaemon(), effects: ['apply-pins A+B'], phases: 'A proven, B activated', tags: 'B' },
      starts('B', 'A proven, B active'),
      { event: restartDaemon(), effects: ['apply-pins A+B'], phases: 'A proven, B active' },
      { event: pass(12), effects: ['record-proven B'], phases: 'A superseded, B proven' },
      { event: restartDaemon(), effects: ['apply-pins A+B'], phases: 'A superseded, B proven', pins: 'A+B', tags: 'B' },
    ],
  },
  {
    name: 'a reboot in each phase: the soak starts anew, and what is proven stays so',
    traits: { A: { schedule: 'manual' } },
    rows: [
      comesAndWaits('A', '', 'A ready'),
      { event: reboot, effects: ['mount-medium', 'apply-pins A', 'read-medium'], phases: 'A ready', pins: 'A' },
      { event: activate('A'), effects: activation('A'), phases: 'A activated', tags: 'A' },
      {
        event: reboot,
        effects: ['mount-medium', 'apply-pins A', 'record-soak A', 'read-medium'],
        phases: 'A activated',
        tags: 'A',
      },
      OUT,
      starts('A', 'A active'),
      { event: pass(8), effects: [] },
      { event: reboot, effects: ['apply-pins A', 'record-soak A'], phases: 'A activated' },
      { event: run('A'), effects: ['record-soak A'], phases: 'A active' },
      { event: pass(8), effects: [], phases: 'A active' },
      { event: pass(4), effects: ['record-proven A'], phases: 'A proven' },
      { event: reboot, effects: ['apply-pins A'], phases: 'A proven' },
      { event: run('A'), effects: [], phases: 'A proven' },
      comes('B', 'A', 'A proven, B activated'),
      OUT,
      { event: reboot, effects: ['apply-pins A+B', 'record-soak B'], phases: 'A proven, B activated', tags: 'B' },
      starts('B', 'A proven, B active'),
      { event: pass(12), effects: ['record-proven B'], phases: 'A superseded, B proven' },
      { event: reboot, effects: ['apply-pins A+B'], phases: 'A superseded, B proven' },
      { event: run('B'), effects: [] },
      ...C_COMES,
      {
        event: pass(12),
        effects: ['record-proven C', 'retire A', 'apply-pins B+C', 'remove-images A'],
        phases: 'A retired, B superseded, C proven',
      },
      {
        event: reboot,
        effects: ['apply-pins B+C'],
        phases: 'A retired, B superseded, C proven',
        pins: 'B+C',
        tags: 'C',
        images: 'B+C',
      },
    ],
  },
];
