import { headlineOf, pageStatusOf } from '../../../packaging/cockpit/view.ts';
import { REJECTION_CODES } from '../../../src/app/daemon/rejection-codes.ts';
import { findShown } from '../../../src/cli/context/find-shown.ts';
import { renderList, renderStatus } from '../../../src/cli/output/render/render-status.ts';
import type { ActivationHold } from '../../../src/domain/activation/gates.ts';
import type { Medium } from '../../../src/domain/model/medium.ts';
import type { Fault, Reason } from '../../../src/domain/model/reason.ts';
import { statusText } from '../../../src/domain/report/line.ts';
import { nodeEvents } from '../../../src/domain/report/node-events.ts';
import { startFaultLine } from '../../../src/domain/report/reasons/node-lines.ts';
import { reportOf } from '../../../src/domain/report/report.ts';
import type { Snapshot } from '../../../src/domain/report/snapshot.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { EXIT_CODES } from '../../../src/domain/report/verdict.ts';
import { type AwaitedRelease, advanceOf } from '../../../src/domain/report/wait-goal.ts';
import { NO_HOOKS } from '../../../src/domain/state/hook.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import {
  allListed,
  FACTS,
  found,
  judge,
  medium,
  NOON,
  observation,
  pathWith,
  pullOf,
  reachable,
  refused,
  type Scene,
  stored,
  TRUST,
  verified,
} from '../daemon/scenario.ts';

const MESSAGE = 'The adapter says what is wrong';
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
  /** Of an adapter: only its code is ours. */
  | { readonly kind: FaultPlace; readonly reason: Fault };

/**
 * Where a fault comes up. `pull`: while a release is loaded. `start`: the daemon does not start.
 * `elsewhere`: only a command or the journal has it.
 */
type FaultPlace =
  | 'medium'
  | 'empty-stick'
  | 'refusal'
  | 'pull'
  | 'activation'
  | 'runtime'
  | 'obstacle'
  | 'settings'
  | 'keys'
  | 'wrong-settings'
  | 'alarm'
  | 'state'
  | 'unclaimed'
  | 'retired'
  | 'current-unknown'
  | 'failing'
  | 'wanted'
  | 'left-out'
  | 'hook'
  | 'start'
  | 'elsewhere';

function judged(scene: Scene, marks: { readonly readyAt?: number; readonly activatedAt?: number } = {}): Snapshot {
  const { assessment } = judge(scene, [stored(RELEASE, marks)]);
  return { observed: scene, memory: scene, assessment };
}

/** On a node without a release. */
function bare(over: Partial<Scene>): Snapshot {
  const scene = observation(over);
  return { observed: scene, memory: scene, assessment: judge(scene, []).assessment };
}

const RUNTIMES_AWAY = {
  'runtime/absent': { kind: 'unreachable', reason: MESSAGE, isAbsent: true },
  'runtime/unreachable': { kind: 'unreachable', reason: MESSAGE },
  'runtime/stopping': { kind: 'unreachable', reason: MESSAGE, stoppingUnit: 'crio.service' },
  'runtime/unlisted': { kind: 'unlisted', name: 'CRI-O 1.37.0', reason: MESSAGE },
  'runtime/storage-damaged': { kind: 'unlisted', name: 'CRI-O 1.37.0', reason: MESSAGE, isStorageDamaged: true },
} as const;

/** A release that is activated, with its images. */
function activated(over: Partial<Scene> = {}): Snapshot {
  const scene = observation({ runtime: reachable({ images: allListed(RELEASE) }), ...over });
  return judged(scene, { readyAt: NOON, activatedAt: NOON });
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
    case 'medium':
      return bare({ media: [medium('sdb1', { kind: 'failed', reason: subject.reason })] });
    case 'empty-stick':
      return bare({ media: [medium('sdb1', [])] });
    case 'obstacle':
      return bare({ obstacle: subject.reason });
    case 'pull': {
      const failures = ['etcd', 'api'].map((name) => {
        const task = pullOf(RELEASE, name);
        return { task, attempts: 5, reason: subject.reason, isExhausted: true, retryAt: NOON + 60_000 };
      });
      return judged(observation({ media: [STICK], failures }));
    }
    case 'activation': {
      const task = { kind: 'activate', bundleId: RELEASE.bundleId } as const;
      const failure = { task, attempts: 5, reason: subject.reason, retryAt: NOON + 60_000 };
      const runtime = reachable({ images: allListed(RELEASE) });
      return judged(observation({ media: [STICK], runtime, failures: [failure] }), { readyAt: NOON });
    }
    case 'runtime':
      return judged(
        observation({ media: [STICK], runtime: RUNTIMES_AWAY[subject.reason.code as keyof typeof RUNTIMES_AWAY] }),
      );
    case 'settings':
      return activated({ facts: { ...FACTS, settingsFault: subject.reason.message } });
    case 'keys': {
      const keys = { isRead: true, trouble: subject.reason.message };
      return activated({ fleet: { self: 'host-1', nodes: [], peers: [], keys } });
    }
    case 'wrong-settings':
      return bare({ facts: { ...FACTS, settingsFault: subject.reason.message, keepsOnly: true } });
    case 'alarm':
      return bare({ trust: { ...TRUST, alarm: subject.reason } });
    case 'state':
      return bare({ stateProblems: [subject.reason] });
    case 'hook': {
      const failure = { why: { kind: 'ended', job: 'failed' }, at: NOON } as const;
      const ledger = new Map([['activated', { unit: 'site.service', done: new Map(), failure }]] as const);
      return activated({ hooks: { ...NO_HOOKS, ledger } });
    }
    case 'unclaimed': {
      const snapshot = bare({});
      const pins = { ...snapshot.assessment.pins, unclaimed: ['quay.io/x/etcd@sha256:1'] };
      return { ...snapshot, assessment: { ...snapshot.assessment, pins } };
    }
    case 'retired': {
      const snapshot = judged(observation({ media: [STICK] }));
      return withEntry(snapshot, { phase: 'retired', hold: undefined });
    }
    case 'current-unknown': {
      const snapshot = activated();
      const path = pathWith([stored(verified({ update: { from: '>=4.13.0 <4.14.0' } }))]);
      const paths = new Map([['ocp', { ...path, position: undefined }]]);
      return { ...snapshot, assessment: { ...snapshot.assessment, paths } };
    }
    case 'failing': {
      const snapshot = activated();
      const soak = { kind: 'soaking', lacking: [], failing: ['etcd'], remainingMs: 60_000 } as const;
      const life = { ...snapshot.assessment.life, soaks: new Map([[RELEASE.bundleId, soak]]) };
      return withEntry({ ...snapshot, assessment: { ...snapshot.assessment, life } }, { phase: 'active' });
    }
    case 'wanted': {
      const release = { name: 'ocp', version: '4.13.9', bundle: 'ab12', current: true, phase: 'active' } as const;
      const nodes = ['node-b', 'node-c'].map((name) => ({ name, status: { arch: 'amd64', releases: [release] } }));
      const fleet = { self: 'node-a', nodes: [{ name: 'node-a', status: { arch: 'amd64', releases: [] } }, ...nodes] };
      return bare({ fleet: { ...fleet, peers: [] } as unknown as NonNullable<Scene['fleet']> });
    }
    case 'left-out': {
      const peer = { ...medium('node-b', { kind: 'failed', reason: subject.reason }), peer: { isReady: true } };
      return activated({ media: [peer as Medium] });
    }
    case 'start':
    case 'elsewhere':
      throw new TypeError(`${subject.kind} has no snapshot`);
  }
}

function withEntry(snapshot: Snapshot, over: object): Snapshot {
  const { assessment } = snapshot;
  const bundles = assessment.bundles.map(({ reason: _, ...entry }) => ({ ...entry, ...over }));
  return { ...snapshot, assessment: { ...assessment, bundles } };
}

export type Screen =
  | 'STATUS'
  | 'login'
  | 'status'
  | 'list'
  | 'Cockpit'
  | 'metric'
  | 'wait'
  | 'exit code'
  | 'hooks'
  | 'elsewhere';

/** As `stickpin wait` finds it. */
function awaitedIn(report: StatusReport): AwaitedRelease | undefined {
  try {
    return findShown(report, 'ocp@4.13.7') as AwaitedRelease;
  } catch (error) {
    if (error instanceof AppError && error.code === 'engine/no-bundle') return undefined;
    throw error;
  }
}

/** What each reader sees. An absent screen shows nothing of it. */
export function screensOf(subject: Subject): Readonly<Partial<Record<Screen, string>>> {
  if (subject.kind === 'elsewhere') return { elsewhere: 'in the journal, or the error of a command' };
  if (subject.kind === 'start') {
    const { code, message } = subject.reason;
    return { STATUS: statusText(startFaultLine(code, message)), elsewhere: 'the daemon is started again' };
  }
  const snapshot = snapshotOf(subject);
  const report = reportOf(snapshot, STILL);
  const { advice, needsPerson, waitsForAdmin = [], verdict } = report;
  const [head = '', ...below] = renderStatus(report).split('\n');
  const list = renderList(report).split('\n');
  const page = pageStatusOf(report);
  const advance = advanceOf(awaitedIn(report), 'activated');
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

/** The codes of errors that reach a screen elsewhere than as an effect that fails. */
const PLACES: Readonly<Record<Exclude<FaultPlace, 'obstacle'>, readonly string[]>> = {
  medium: ['media/filesystem', 'media/mount', 'media/read', 'media/in-use', 'media/gone', 'media/udev', 'media/load'],
  'empty-stick': ['media/no-bundle'],
  'left-out': ['fleet/left-out'],
  refusal: REJECTION_CODES,
  pull: [
    'engine/stalled',
    'media/blob-damaged',
    'media/blob-unreadable',
    'bundle/not-in-bundle',
    'runtime/pull-failed',
    'engine/mirror-unused',
    'runtime/digest-mismatch',
    'runtime/not-found',
    'runtime/write',
    'runtime/cancelled',
    'engine/not-listed',
    'runtime/unfit-image',
    'runtime/no-space',
    'runtime/read-only',
    'platform/deadline',
  ],
  activation: ['engine/tags', 'engine/tag-mismatch', 'engine/activation'],
  runtime: Object.keys(RUNTIMES_AWAY),
  settings: ['config/refused'],
  keys: ['fleet/keys'],
  'wrong-settings': ['config/wrong'],
  alarm: ['trust/no-key', 'trust/private-key'],
  state: ['engine/lost-in-part', 'store/lost', 'store/floors-lost', 'store/row', 'store/aside'],
  unclaimed: ['engine/unclaimed'],
  retired: ['engine/retired'],
  'current-unknown': ['engine/current-unknown'],
  failing: ['engine/components-failing'],
  wanted: ['fleet/wanted'],
  hook: ['engine/hook-failed'],
  start: ['store/in-use', 'store/dying', 'store/open', 'registry/listen', 'platform/bus-unreachable'],
  elsewhere: [
    'bundle/key-file',
    'bundle/no-space',
    'bundle/option',
    'bundle/registry',
    'bundle/source',
    'bundle/stick',
    'config/file',
    'config/key',
    'config/syntax',
    'domain/reference',
    'engine/hook',
    'engine/task',
    'host/hook-file',
    'host/no-such-unit',
    'host/static-pods',
    'host/unit',
    'host/vt',
    'fleet/answer',
    'fleet/denied',
    'fleet/identity',
    'fleet/listen',
    'fleet/off',
    'fleet/refused',
    'fleet/unreachable',
    'offers/answer',
    'offers/busy',
    'offers/failed',
    'offers/listen',
    'offers/unreachable',
  ],
};

export function subjectOfFault(code: string): Subject {
  const [place = code.startsWith('kubernetes/') ? 'elsewhere' : 'obstacle'] = Object.entries(PLACES).flatMap(
    ([one, codes]) => (codes.includes(code) ? [one as FaultPlace] : []),
  );
  return { kind: place, reason: { code, message: MESSAGE } };
}
