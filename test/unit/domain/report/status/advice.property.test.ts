import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FleetNode, FleetView } from '../../../../../src/domain/fleet/node-status.ts';
import { hexOf } from '../../../../../src/domain/model/digest.ts';
import type { Medium } from '../../../../../src/domain/model/medium.ts';
import { consoleText } from '../../../../../src/domain/report/console-text.ts';
import { reportOf } from '../../../../../src/domain/report/report.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import {
  allListed,
  digestOf,
  found,
  judge,
  medium,
  NOON,
  observation,
  POLICY,
  pullOf,
  reachable,
  refused,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';
import { suggestionFaults } from '../../../../support/report/suggested-commands.ts';

const LONG_PATH = `/var/lib/containers/storage/overlay-images/${'deep/'.repeat(20)}images.lock`;
const HEX = 'f0'.repeat(32);
const MESSAGES = ['connection refused', `open ${LONG_PATH}: no such file`, `blob sha256:${HEX} is damaged`];

const release = fc.record({
  isManual: fc.boolean(),
  marks: fc.constantFrom('unknown', 'adopted', 'ready', 'activated', 'proven', 'retired'),
  present: fc.constantFrom('none', 'some', 'all', 'all', 'all'),
  stick: fc.constantFrom('none', 'whole', 'damaged'),
  isBad: fc.boolean(),
  isKept: fc.boolean(),
  isForeign: fc.boolean(),
});

const node = fc.record({
  releases: fc.array(release, { minLength: 1, maxLength: 2 }),
  state: fc.constantFrom('read', 'read', 'read', 'mounted', 'unmounted'),
  other: fc.constantFrom('none', 'none', 'empty', 'refused', 'failed'),
  runtime: fc.constantFrom('up', 'up', 'up', 'up', 'up', 'away', 'stopping'),
  work: fc.constantFrom('none', 'none', 'none', 'none', 'pull', 'copy', 'stalled'),
  alarm: fc.boolean(),
  message: fc.constantFrom(...MESSAGES),
  fleet: fc.constantFrom('off', 'on', 'on', 'on', 'away', 'silent'),
  others: fc.constantFrom('ready', 'loading', 'lacking', 'absent'),
  giver: fc.constantFrom('none', 'worker-1', 'worker-9'),
});

type Node = Parameters<Parameters<typeof fc.property<[ReturnType<typeof node.generate>['value']]>>[1]>[0];
type Release = Node['releases'][number];

const MARKS = {
  unknown: {},
  adopted: {},
  ready: { readyAt: NOON - 3 },
  activated: { readyAt: NOON - 3, activatedAt: NOON - 2 },
  proven: { readyAt: NOON - 3, activatedAt: NOON - 2, provenAt: NOON - 1 },
  retired: { readyAt: NOON - 3, retiredAt: NOON - 1 },
} as const;

function bundleOf(spec: Release, at: number): StoredBundle {
  const bundle = verified({
    version: `4.13.${at}`,
    sequence: at + 1,
    arch: spec.isForeign ? 'arm64' : 'amd64',
    ...(spec.isManual && { schedule: 'manual' as const }),
    images: { [`etcd${at}`]: [`etcd${at}`], [`api${at}`]: [`api${at}`] },
  });
  const bad = { digest: digestOf(`layer api${at}`), why: 'damaged', medium: 'sdz1' } as const;
  return stored(bundle, { ...MARKS[spec.marks], ...(spec.isBad && { badBlobs: [bad] }) });
}

const isAdopted = ({ marks, isForeign }: Release) => marks !== 'unknown' && !isForeign;

function mediaOf(it: Node, bundles: readonly StoredBundle[]): readonly Medium[] {
  const carried = bundles.flatMap((bundle, at) => {
    const { stick = 'none' } = it.releases[at] ?? {};
    const missing = stick === 'damaged' ? [{ digest: digestOf(`layer api${at}`), why: 'damaged' as const }] : [];
    return stick === 'none' ? [] : [found(bundle, missing)];
  });
  const states = { mounted: { kind: 'mounted' }, unmounted: { kind: 'unmounted' } } as const;
  const first = carried.length === 0 ? [] : [medium('sdb1', it.state === 'read' ? carried : states[it.state])];
  const reason = { code: 'media/mount', message: it.message };
  const others = {
    none: [],
    empty: [medium('sdc1', [])],
    refused: [medium('sdc1', [refused(it.message, 'bundle/unknown-key')])],
    failed: [medium('sdc1', { kind: 'failed', reason })],
  };
  return [...first, ...others[it.other]];
}

function fleetOf(it: Node, bundles: readonly StoredBundle[]): FleetView | undefined {
  if (it.fleet !== 'on') return undefined;
  const releases = bundles.map(({ bundleId, payload }) => ({
    name: payload.name,
    version: payload.version,
    bundle: hexOf(bundleId).slice(0, 16),
    phase: it.others === 'ready' ? ('ready' as const) : ('preloading' as const),
  }));
  const others = ['arm64', 'amd64'].map((arch): FleetNode => {
    const known = it.others === 'lacking' ? [] : releases;
    return { name: `other-${arch}`, isAbsent: it.others === 'absent', status: { version: 1, arch, releases: known } };
  });
  const loaded = releases.map((one) => ({ ...one, phase: 'ready' as const }));
  const full = { version: 1, arch: 'amd64', releases: loaded } as const;
  const offered = bundles.map(({ bundleId, payload: { name, version, sequence } }) => ({
    ...{ bundleId, name, version, sequence },
    isWhole: true,
    revision: 'r',
  }));
  const givers = it.giver === 'none' ? [] : [it.giver];
  return {
    self: 'worker-2',
    nodes: [...others, ...givers.map((name): FleetNode => ({ name, isAbsent: false, status: full }))],
    peers: givers.map((name) => ({ name, address: '10.0.0.1:9777', bundles: offered })),
    search: 'short',
  };
}

function sceneOf(it: Node) {
  const bundles = it.releases.map(bundleOf);
  const adopted = bundles.filter((_, at) => isAdopted(it.releases[at] as Release));
  const media = mediaOf(it, bundles);
  const images = bundles.flatMap((bundle, at) => {
    const all = allListed(bundle);
    return { none: [], some: all.slice(0, 1), all }[it.releases[at]?.present ?? 'none'];
  });
  const away = { kind: 'unreachable', reason: it.message } as const;
  const runtimes = { up: reachable({ images }), away, stopping: { ...away, stoppingUnit: 'crio.service' } };
  const blobs = bundles
    .filter((_, at) => it.releases[at]?.isKept)
    .flatMap(({ contents }) => [...contents.images, ...contents.layers]);
  const [first] = adopted;
  const isPulling = (it.work === 'pull' || it.work === 'stalled') && first !== undefined;
  const { trust } = observation();
  const seen = observation({
    media,
    runtime: runtimes[it.runtime],
    running: isPulling ? [pullOf(first, `etcd${bundles.indexOf(first)}`)] : [],
    copyingBytes: it.work === 'copy' ? 5 : undefined,
    localBlobs: new Set(blobs.map(({ digest }) => digest)),
    fleet: fleetOf(it, bundles),
    isFleetSilent: it.fleet === 'silent',
    trust: it.alarm ? { ...trust, alarm: { code: 'trust/no-key', message: it.message } } : trust,
  });
  const policy = { ...POLICY, fleet: { ...POLICY.fleet, enabled: it.fleet !== 'off' } };
  const { assessment } = judge(seen, adopted, policy);
  const progress = { doneBytes: 1, totalBytes: 2, waitingTransfers: it.work === 'stalled' ? 1 : 0 };
  return { seen, bundles, assessment, report: reportOf({ observed: seen, memory: seen, assessment }, progress) };
}

/** Whether another node loads what the stick has, by the scene alone. */
function isNeeded(it: Node, bundles: readonly StoredBundle[]): boolean {
  if (it.fleet === 'off' || it.state !== 'read') return false;
  return bundles.some((_, at) => {
    const one = it.releases[at];
    if (one === undefined || one.stick === 'none') return false;
    // A stick with a damaged copy has something to give, and so has one beside kept blobs.
    if (isAdopted(one) && one.isKept) return false;
    if (it.fleet !== 'on') return true;
    return it.giver !== 'worker-1' && (it.others === 'loading' || it.others === 'lacking');
  });
}

/** Whether this node reads a stick, or would, by the scene alone. */
function isRead(it: Node): boolean {
  const worked = it.releases.find(isAdopted);
  // A pull whose stick is gone reads nothing from another one.
  if (worked !== undefined && (it.work === 'copy' || (it.work !== 'none' && worked.stick !== 'none'))) return true;
  if (it.state === 'mounted' && it.releases.some(({ stick }) => stick !== 'none')) return true;
  if (it.state !== 'read') return false;
  return it.releases.some(
    (one) =>
      one.stick !== 'none' && isAdopted(one) && one.marks !== 'retired' && one.present !== 'all' && it.runtime === 'up',
  );
}

const all = (check: (it: Node, scene: ReturnType<typeof sceneOf>) => void) =>
  fc.assert(
    fc.property(node, (it) => check(it, sceneOf(it))),
    { numRuns: 800 },
  );

describe('what a person is asked for, over any state of a node', () => {
  it('is to remove the stick only when nothing reads it and no other node needs it', () => {
    all((it, { bundles, report: { advice } }) => {
      if (advice.action === 'remove' || advice.words === 'DONE') {
        expect([isRead(it), isNeeded(it, bundles)]).toEqual([false, false]);
      }
    });
  });

  it('is to leave the stick in only while one is plugged in', () => {
    all((_, { seen, report: { advice } }) => {
      const isPlugged = seen.media.some(({ state }) => state.kind !== 'unmounted' && state.kind !== 'failed');
      if (advice.action === 'leave-in') expect(isPlugged).toBe(true);
    });
  });

  it('is in needsPerson, and is patience only where nobody has to act or work goes on', () => {
    all((it, { assessment, report: { advice, needsPerson, operation } }) => {
      const codes = needsPerson.map(({ code }) => code);
      if (advice.action === 'plug-in' || advice.action === 'call-support') expect(codes).toContain(advice.code);
      const isWorking = it.work !== 'none' || assessment.adoptions.length > 0 || operation === 'preloading';
      if (!isWorking && (advice.action === 'wait' || advice.action === 'none')) expect(codes).toEqual([]);
    });
  });

  it('is in words without long digests and cut paths, and STATUS has at most 200 characters', () => {
    all((_, { report: { status, advice, needsPerson } }) => {
      for (const text of [status, advice.text, ...needsPerson.map(({ message }) => message)]) {
        expect(text).not.toMatch(/[0-9a-f]{64}/);
        expect(text).not.toMatch(/sha256:[0-9a-f]{13}|\/deep…|\/dee?p?\b(?!\/)/);
      }
      expect(status.length).toBeLessThanOrEqual(200);
    });
  });

  it('is without any command on a screen, and never nothing', () => {
    all((_, { report }) => {
      const screen = consoleText(report);
      expect(screen).not.toMatch(/'stickpin|systemctl|journalctl/);
      expect(screen).toMatch(/\n\n\S/);
    });
  });

  it('is with commands that can be run as they are written', async () => {
    const texts = new Set<string>();
    all((_, { report: { status, advice, needsPerson } }) => {
      for (const text of [status, advice.text, ...needsPerson.map(({ message }) => message)]) texts.add(text);
    });
    expect(await suggestionFaults([...texts].join('\n'))).toEqual([]);
  });
});
