import { expect, it } from 'vitest';
import { pathOf } from '../../../../src/domain/activation/read-paths.ts';
import { assess } from '../../../../src/domain/assess/assess.ts';
import { type PastSpeaker, withSpeaker } from '../../../../src/domain/state/past.ts';
import type { Stored } from '../../../../src/domain/state/state.ts';
import type { Role } from '../../../../src/domain/trust/role.ts';
import type { EffectContext } from '../../../../src/engine/effects/effect-context.ts';
import { forgetRelease } from '../../../../src/engine/effects/release-effects.ts';
import {
  keyIdOf,
  NOON,
  observation,
  POLICY,
  type Scene,
  stored,
  storedState,
  verified,
} from '../../../support/daemon/scenario.ts';

const role: Role = {
  name: 'site',
  threshold: 1,
  streams: ['ocp'],
  repositories: ['quay.example.com/ocp'],
  mayRotate: false,
  mayKeepForLife: false,
};
const inRole = {
  signedBy: ['site/key'],
  signerKeyIds: [keyIdOf('site')],
  signerRoles: [{ keyId: keyIdOf('site'), role: 'site' }],
};
const advisories = [{ version: '4.13.9', deadend: true, reason: 'it eats disks' }];
const update = { barrier: { reason: 'it migrates etcd' } };
const next = stored(verified({ version: '4.13.20', sequence: 20 }), { readyAt: NOON });

/** What is left of a release when the daemon forgets it. */
async function leftOf(
  release: ReturnType<typeof stored>,
  state: Stored,
  policy = POLICY,
): Promise<PastSpeaker | undefined> {
  let left: PastSpeaker | undefined;
  const ports = {
    alive: () => undefined,
    policy,
    store: {
      load: () => state,
      forget: (_: string, speaker: PastSpeaker | undefined) => {
        left = speaker;
      },
    },
    signedBundles: { remove: async () => undefined },
    documents: { list: async () => new Set(), sizeOf: async () => undefined },
  };
  const context = { ports } as unknown as EffectContext;
  const scene = observation({ roles: [role] });
  await forgetRelease(context, release.bundleId, assess(scene, scene, state, policy), new AbortController().signal);
  return left;
}

const retired = (over: Parameters<typeof verified>[0], marks = {}) =>
  stored(
    { ...verified({ version: '4.13.5', sequence: 5, advisories, update, ...over }), ...marks },
    { readyAt: NOON, retiredAt: NOON },
  );
const milestones = (scene: Scene, state: Stored, policy = POLICY) =>
  [...pathOf(assess(scene, scene, state, policy).paths, 'ocp').milestones.keys()].sort();

const both = ['4.13.5', '4.13.9'];

it.each<
  [
    what: string,
    marks: object,
    over: Partial<Scene>,
    state: Partial<Stored>,
    threshold: number,
    says: readonly string[],
  ]
>([
  ['its key is trusted', {}, {}, {}, 1, both],
  [
    'its key is revoked',
    {},
    { revocations: { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false } },
    {},
    1,
    [],
  ],
  ['more signers are wanted', {}, {}, {}, 2, []],
  [
    'a person rejects it: its own barrier stays',
    {},
    {},
    { rejectedNames: [{ name: 'ocp', version: '4.13.5', at: 1 }] },
    1,
    ['4.13.5'],
  ],
  ['its role is in force', inRole, { roles: [role] }, {}, 1, both],
  ['its role is gone', inRole, { roles: [] }, {}, 1, []],
  [
    'its role covers its repositories no more',
    inRole,
    { roles: [{ ...role, repositories: ['quay.example.com/tools'] }] },
    {},
    1,
    [],
  ],
  [
    'its key is revoked in its role',
    inRole,
    {
      roles: [role],
      revocations: { keyIds: [], inRoles: new Map([['site', [keyIdOf('site')]]]), revocationsUnreadable: false },
    },
    {},
    1,
    [],
  ],
])(
  'a forgotten release speaks as it did while it was known, when %s',
  async (_what, marks, over, changed, threshold, says) => {
    const release = retired({}, marks);
    const speaker = await leftOf(release, storedState([release, next]));
    const policy = { ...POLICY, trust: { ...POLICY.trust, threshold } };
    const scene = observation(over);
    const known = milestones(scene, storedState([release, next], changed), policy);
    expect(known).toEqual(says);
    const speakers = speaker === undefined ? [] : [speaker];
    expect(milestones(scene, storedState([next], { ...changed, speakers }), policy)).toEqual(known);
  },
);

it('a forgotten release that only a person let in speaks until the person rejects it', async () => {
  const release = retired({ signedBy: [] });
  const { bundleId } = release;
  const policy = { ...POLICY, trust: { ...POLICY.trust, require: 'approval' as const } };
  const approved = [{ bundleId, verdict: 'approved', at: 1 }] as const;
  const speaker = await leftOf(release, storedState([release, next], { verdicts: approved }), policy);
  const state = storedState([next], { speakers: speaker === undefined ? [] : [speaker] });
  expect(milestones(observation(), state, policy)).toEqual(both);
  const verdicts = [{ bundleId, verdict: 'rejected', at: 2 }] as const;
  expect(milestones(observation(), { ...state, verdicts }, policy)).toEqual(['4.13.5']);
});

it('an older statement stays beside a newer one of another signer, which may lose its trust', async () => {
  const [older, newer] = await Promise.all([
    leftOf(retired({}), storedState([retired({}), next])),
    leftOf(
      retired({ version: '4.13.6', sequence: 6 }, inRole),
      storedState([retired({ version: '4.13.6', sequence: 6 }, inRole), next]),
    ),
  ]);
  const speakers = [older, newer].reduce<readonly PastSpeaker[]>(
    (all, one) => (one === undefined ? all : withSpeaker(all, one)),
    [],
  );
  expect(milestones(observation({ roles: [] }), storedState([next], { speakers }))).toEqual(both);
});
