import { describe, expect, it } from 'vitest';
import { eventsBetween } from '../../../../src/domain/report/events/events.ts';
import { statusLine } from '../../../../src/domain/report/status/status-line.ts';
import type { Stored, StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  found,
  judge,
  keyIdOf,
  medium,
  observation,
  POLICY,
  refused,
  type Scene,
  stored,
  TRUST,
  verified,
} from '../../../support/daemon/scenario.ts';
import { createFakeNode } from '../../../support/fake-ports.ts';

const advisories = [
  { version: '4.13.5', deadend: true, reason: 'loses data' },
  { version: '4.13.6', barrier: true, reason: 'etcd' },
];
const trust = { keys: ['pem 2027'], revoked: [keyIdOf('factory-2025')] };
const notice = verified({ version: '5', sequence: 5, images: {}, advisories });
const rotating = verified({ version: '6', sequence: 6, images: {}, trust });
const revoked: Partial<Scene> = {
  trust: { ...TRUST, keys: [] },
  revocations: { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false },
};
const on = (...bundles: readonly ReturnType<typeof verified>[]) => ({
  media: [
    medium(
      'sdb1',
      bundles.map((one) => found(one)),
    ),
  ],
});
function told(over: Partial<Scene>, bundles: readonly StoredBundle[], state: Partial<Stored> = {}): string {
  const observed = observation(over);
  const progress = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
  return statusLine(
    { observed, memory: observed, assessment: judge(observed, bundles, POLICY, state).assessment },
    progress,
  );
}

describe('STATUS of a stick that carries only a notice', () => {
  it('states what is adopted from it, before and after the adoption', () => {
    expect(told(on(notice), [])).toBe(
      'LEAVE THE STICK IN: ocp notice 5 on the stick: signature by factory-2026 ok. Its advisories and keys are taken next.',
    );
    expect(told(on(notice), [stored(notice)])).toBe(
      'DONE: ocp notice 5 on the stick: 2 advisories taken; it holds no images. Remove the stick.',
    );
    expect(told({}, [stored(notice)])).toBe('IDLE: No bundle yet. Waiting for a stick.');
  });

  it('counts keys only when they came into force', () => {
    const { bundleId } = rotating;
    const rotation = {
      keys: [{ keyId: keyIdOf('factory-2027'), pem: 'pem 2027', bundleId }],
      revoked: [{ keyId: keyIdOf('factory-2025'), bundleId }],
    };
    expect(told(on(rotating), [stored(rotating)], { rotation })).toContain(
      'ocp notice 6 on the stick: 1 key trusted, 1 key revoked; it holds no images.',
    );
    expect(told(on(rotating), [stored(rotating)])).toContain(
      'ocp notice 6 on the stick: its keys not taken, since too few trusted keys signed it; it holds no images.',
    );
  });

  it('is not shown while there is a release to report, or something was rejected', () => {
    const release = verified();
    expect(told(on(release, notice), [stored(release), stored(notice)])).not.toContain('notice');
    const media = [medium('sdb1', [refused('bad signature'), found(notice)])];
    expect(told({ media }, [stored(notice)])).toMatch(/: Rejected bundle on the stick: bad signature/);
  });

  it('gives the reason when its key was revoked', () => {
    expect(told({ ...on(notice), ...revoked }, [stored(notice)])).toMatch(/: ocp 5 is not trusted any more: /);
  });
});

describe('a notice whose key was revoked', () => {
  const again = { ...notice, signedBy: ['factory-2027'], signerKeyIds: [keyIdOf('factory-2027')] };
  const both = [keyIdOf('factory-2026'), keyIdOf('factory-2027')].sort();

  it('has the signers added that a medium shows, as a release has', () => {
    const { decision } = judge(observation({ ...on(again), ...revoked }), [stored(notice)]);
    expect(decision.effects).toContainEqual({
      kind: 'record-signers',
      bundleId: notice.bundleId,
      signedBy: ['factory-2026', 'factory-2027'],
      signerKeyIds: both,
    });
    const mended = judge(observation({ ...on(again), ...revoked }), [stored({ ...notice, signerKeyIds: both })]);
    expect(mended.assessment.notices).toMatchObject([{ withdrawn: undefined, newSigners: undefined }]);
  });

  it('is reported once, and again when it is trusted again', () => {
    const snapshot = (over: Partial<Scene>, signerKeyIds = notice.signerKeyIds ?? []) => {
      const observed = observation(over);
      return {
        observed,
        memory: observed,
        assessment: judge(observed, [stored({ ...notice, signerKeyIds })]).assessment,
      };
    };
    const [before, during, after] = [snapshot({}), snapshot(revoked), snapshot(revoked, both)];
    expect(eventsBetween(before, during).map(({ kind }) => kind)).toEqual(['trustWithdrawn']);
    expect(eventsBetween(during, during)).toEqual([]);
    expect(eventsBetween(during, after).map(({ kind }) => kind)).toEqual(['trustRestored']);
  });
});

it('the journal reports the effect of a notice', async () => {
  const node = createFakeNode();
  await node.start();
  node.plug('sdb1', notice);
  await node.clock.advance(0);
  const line = node.store.rows.find(({ kind }) => kind === 'bundleVerified')?.message;
  expect(line).toContain(
    'ocp notice 5 on sdb1 verified: signature by factory-2026 ok, 2 advisories taken; it holds no images, bundle ',
  );
  expect(node.statuses.at(-1)).toMatch(/: ocp notice 5 on the stick: 2 advisories taken/);
  await node.stop();
});
