import { headlineOf, pageStatusOf } from '../../../packaging/cockpit/view.ts';
import { renderList, renderStatus } from '../../../src/cli/output/render/render-status.ts';
import type { ActivationHold } from '../../../src/domain/activation/gates.ts';
import type { Reason } from '../../../src/domain/model/reason.ts';
import { shortCode } from '../../../src/domain/report/codes.ts';
import { nodeEvents } from '../../../src/domain/report/node-events.ts';
import { reportOf } from '../../../src/domain/report/report.ts';
import type { Snapshot } from '../../../src/domain/report/snapshot.ts';
import { EXIT_CODES } from '../../../src/domain/report/verdict.ts';
import { advanceOf } from '../../../src/domain/report/wait-goal.ts';
import {
  allListed,
  found,
  judge,
  medium,
  NOON,
  observation,
  reachable,
  refused,
  type Scene,
  stored,
  verified,
} from '../daemon/scenario.ts';

const STILL = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
const RELEASE = verified();
const STICK = medium('sdb1', [found(RELEASE)]);

/** Where a code comes up: each node has one stick, and one release at most. */
export type Subject =
  | { readonly kind: 'hold'; readonly hold: ActivationHold }
  /** Of a release that is adopted. */
  | { readonly kind: 'reason'; readonly reason: Reason }
  /** Of a bundle that is refused. */
  | { readonly kind: 'refusal'; readonly reason: Reason }
  | { readonly kind: 'approval'; readonly reason: Reason }
  | { readonly kind: 'medium'; readonly reason: { readonly code: string; readonly message: string } }
  | { readonly kind: 'obstacle'; readonly reason: { readonly code: string; readonly message: string } };

function judged(scene: Scene, marks: { readonly readyAt?: number } = {}): Snapshot {
  const { assessment } = judge(scene, [stored(RELEASE, marks)]);
  return { observed: scene, memory: scene, assessment };
}

function snapshotOf(subject: Subject): Snapshot {
  switch (subject.kind) {
    case 'hold': {
      const runtime = reachable({ images: allListed(RELEASE) });
      const snapshot = judged(observation({ media: [STICK], runtime }), { readyAt: NOON });
      const isDue = subject.hold.code === 'hook' || subject.hold.code === 'fleet/lock';
      return withEntry(snapshot, { phase: 'ready', activationDue: isDue, holds: [subject.hold] });
    }
    case 'reason': {
      const { reason } = subject;
      const phase = reason.code === 'engine/rolled-back' ? 'activated' : 'held';
      return withEntry(judged(observation({ media: [] })), { phase, hold: 'media', reason, media: [] });
    }
    case 'refusal': {
      const media = [medium('sdb1', [refused()])];
      const [where] = media.map(({ mediumId, label }) => ({ mediumId, label, path: 'stickpin/ocp-4.13.7-amd64' }));
      if (where === undefined) throw new TypeError('no medium');
      const scene = observation({ media });
      const { assessment } = judge(scene, []);
      const rejection = { ...where, name: 'ocp@4.13.7', bundleId: undefined, reason: subject.reason };
      return { observed: scene, memory: scene, assessment: { ...assessment, rejections: [rejection] } };
    }
    case 'approval': {
      const { bundleId } = RELEASE;
      const scene = observation({ media: [medium('sdb1', [{ kind: 'unapproved', path: 'stickpin/ocp', bundleId }])] });
      const { assessment } = judge(scene, []);
      const at = { mediumId: '7-sdb1', label: 'sdb1', bundleId, path: 'stickpin/ocp', bundle: undefined };
      const awaiting = [{ ...at, reason: subject.reason }] as unknown as typeof assessment.awaiting;
      return { observed: scene, memory: scene, assessment: { ...assessment, awaiting } };
    }
    case 'medium': {
      const scene = observation({ media: [medium('sdb1', { kind: 'failed', reason: subject.reason })] });
      return { observed: scene, memory: scene, assessment: judge(scene, []).assessment };
    }
    case 'obstacle': {
      const scene = observation({ obstacle: subject.reason });
      return { observed: scene, memory: scene, assessment: judge(scene, []).assessment };
    }
  }
}

function withEntry(snapshot: Snapshot, over: object): Snapshot {
  const { assessment } = snapshot;
  const bundles = assessment.bundles.map(({ reason: _, ...entry }) => ({ ...entry, ...over }));
  return { ...snapshot, assessment: { ...assessment, bundles } };
}

export type Screen = 'STATUS' | 'login' | 'status' | 'list' | 'Cockpit' | 'metric' | 'wait' | 'exit code' | 'hooks';

/** What each reader sees. An absent screen shows nothing of it. */
export function screensOf(subject: Subject): Readonly<Record<Screen, string>> {
  const snapshot = snapshotOf(subject);
  const report = reportOf(snapshot, STILL);
  const { advice, needsPerson, waitsForAdmin = [], verdict, bundles } = report;
  const [head = '', ...below] = renderStatus(report).split('\n');
  const list = renderList(report).split('\n');
  const page = pageStatusOf(report);
  const advance = advanceOf(bundles[0], 'activated');
  const events = [...nodeEvents(snapshot, report)].flatMap(([hook, all]) =>
    hook === 'plugged' || hook === 'removed'
      ? []
      : all.map(({ code }) => (code === undefined ? hook : `${hook} ${code}`)),
  );
  const gauges = [
    ...needsPerson.map(({ code }) => `needs_person ${code}`),
    ...waitsForAdmin.map(({ code }) => `waits_for_admin ${code}`),
  ];
  return {
    STATUS: report.status,
    login: `${advice.words}: ${advice.atNode ?? advice.text}`,
    status: [head, ...below.filter((line) => line.startsWith('Needed:'))].join(' | '),
    list: list
      .slice(2)
      .filter((line) => /^[MBKRDSCAFH]-\d\d |^Can't read/.test(line))
      .join(' | '),
    Cockpit: `${page === null ? 'no icon' : `${page.type} "${page.title}"`}, ${headlineOf(report).tone}`,
    metric: [...new Set(gauges)].join(', '),
    wait:
      advance.kind === 'reached'
        ? 'reached'
        : advance.kind === 'ended'
          ? `ends: ${advance.reason.message}`
          : `goes on: ${advance.state}`,
    'exit code': `${EXIT_CODES[verdict ?? 'good']} (${verdict})`,
    hooks: events.join(', '),
  };
}

/** Of a fault: only its code is ours. */
export function subjectOfFault(code: string, message: string): Subject {
  const letter = shortCode(code).charAt(0);
  const reason = { code, message };
  if (code.startsWith('media/') && code !== 'media/no-bundle') return { kind: 'medium', reason };
  return { kind: letter === 'B' || letter === 'K' ? 'refusal' : 'obstacle', reason };
}
