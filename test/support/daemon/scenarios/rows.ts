import { type Letter, pass, plug, type Row, run, unplug } from './table.ts';

/**
 * What a stick with a release that nobody knows yet leads to, before anything is pulled; `pins`: as
 * in {@link Row}.
 */
export function adoption(release: Letter, pins: string): readonly string[] {
  return ['mount-medium', 'read-medium', `keep-documents ${release}`, `adopt-bundle ${release}`, `apply-pins ${pins}`];
}

/** The pulls of what only this release has; the first release of a node brings `base` as well. */
function pulls(release: Letter, isFirst: boolean): readonly string[] {
  const own = ['apply-mirrors api base etcd', `start pull etcd ${release}`, `start pull api ${release}`];
  return isFirst ? [...own, 'start pull base'] : own;
}

/**
 * A release with `schedule: manual` comes on a stick that stays, and waits. `kept`: the releases
 * that are pinned besides.
 */
export function comesAndWaits(release: Letter, kept: string, phases: string): Row {
  const ready = ['apply-mirrors nothing', `record-ready ${release}`];
  const pins = kept === '' ? release : `${kept}+${release}`;
  const effects = [...adoption(release, pins), ...pulls(release, kept === ''), ...ready];
  return { event: plug(release), effects, phases, pins, images: pins };
}

/** A release comes on a stick that stays, and activates itself. */
export function comes(release: Letter, kept: string, phases: string): Row {
  const row = comesAndWaits(release, kept, phases);
  const activated = [
    `start activate ${release}`,
    `record-ready ${release}`,
    'apply-mirrors nothing',
    `record-soak ${release}`,
  ];
  return { ...row, effects: [...row.effects.slice(0, -2), ...activated], tags: release };
}

/** What it takes to move tags to a release that is there. */
export function activation(release: Letter): readonly string[] {
  return [
    'apply-mirrors api base etcd',
    `start activate ${release}`,
    'apply-mirrors nothing',
    `record-soak ${release}`,
  ];
}

/** Containers of a release run for the first time. */
export function starts(release: Letter, phases: string): Row {
  return { event: run(release), effects: [`record-soak ${release}`, `record-active ${release}`], phases };
}

/** The stick is out. */
export const OUT: Row = { event: unplug, effects: [] };

/** The first release of a node proves itself. */
export const A_PROVEN: readonly Row[] = [
  comes('A', '', 'A activated'),
  OUT,
  starts('A', 'A active'),
  { event: pass(12), effects: ['record-proven A'], phases: 'A proven' },
];

/** The second one comes, and waits for its containers. */
export const B_ACTIVATED: readonly Row[] = [...A_PROVEN, comes('B', 'A', 'A proven, B activated'), OUT];

/** The second one comes and proves itself, and the first one is the fallback. */
export const B_COMES: readonly Row[] = [
  ...B_ACTIVATED.slice(A_PROVEN.length),
  starts('B', 'A proven, B active'),
  { event: pass(12), effects: ['record-proven B'], phases: 'A superseded, B proven' },
];

export const B_PROVEN: readonly Row[] = [...A_PROVEN, ...B_COMES];

/** The third one comes, and its containers run. */
export const C_COMES: readonly Row[] = [
  comes('C', 'A+B', 'A superseded, B proven, C activated'),
  OUT,
  starts('C', 'A superseded, B proven, C active'),
];

export const C_ACTIVE: readonly Row[] = [...B_PROVEN, ...C_COMES];
