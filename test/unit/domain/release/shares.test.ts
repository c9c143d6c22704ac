import { describe, expect, it } from 'vitest';
import { keepPlan, planPulls } from '../../../../src/domain/decide/pull-plan.ts';
import type { RuntimeContainer } from '../../../../src/domain/model/image.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import type { Verdict } from '../../../../src/domain/trust/approval.ts';
import type { Role } from '../../../../src/domain/trust/role.ts';
import {
  allListed,
  found,
  GIB,
  judge,
  keyIdOf,
  MIB,
  medium,
  NOON,
  observation,
  POLICY,
  reachable,
  referenceOf,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const CUSTOMER: Role = {
  name: 'customer',
  threshold: 1,
  streams: ['*'],
  repositories: ['quay.example.com'],
  mayRotate: false,
  mayKeepForLife: false,
};
const OTHER: Role = { ...CUSTOMER, name: 'other' };
const MARKS = { readyAt: NOON, activatedAt: NOON };

/** A release with one image of one layer of 1 GiB, which no other release has. */
function release(stream: string, sequence: number, marks: Partial<StoredBundle> = {}): StoredBundle {
  const layer = `${stream}-${sequence}`;
  const spec = { name: stream, sequence, version: `1.0.${sequence}`, images: { [layer]: [layer] } };
  const { keep, ...over } = marks as { readonly keep?: 'life' } & Partial<StoredBundle>;
  const bundle = verified({
    ...spec,
    layers: { [layer]: { diskBytes: GIB, sizeBytes: 500 * MIB, inodes: 0 } },
    ...(keep !== undefined && { keep }),
  });
  return { ...stored(bundle), ...over };
}

const signedBy = (role: string, bundle: StoredBundle): StoredBundle => ({
  ...bundle,
  signedBy: [`${role}/key`],
  signerKeyIds: [keyIdOf(role)],
  signerRoles: [{ keyId: keyIdOf(role), role }],
});
const ofCustomer = (sequence: number, marks: Partial<StoredBundle> & { readonly keep?: 'life' } = {}, stream = 'app') =>
  signedBy('customer', release(stream, sequence, marks));
const ofOther = (sequence: number, marks: Partial<StoredBundle> = {}) =>
  signedBy('other', release('tool', sequence, marks));
const activated = (at: number) => ({ readyAt: NOON + at, activatedAt: NOON + at });
const proven = (at: number) => ({ ...activated(at), activeAt: NOON + at, provenAt: NOON + at });
const platform = release('ocp', 1);

interface Situation {
  readonly roles?: readonly Role[];
  /** Free beyond what stays free; a release takes a little more than 1 GiB. */
  readonly free?: number;
  readonly containers?: readonly RuntimeContainer[];
  readonly lifecycle?: Partial<Policy['lifecycle']>;
  readonly scene?: Partial<Scene>;
  readonly verdicts?: readonly Verdict[];
}

/** What is decided when the releases that were ready are on the disk, and the others on a stick. */
function decided(bundles: readonly StoredBundle[], situation: Situation = {}) {
  const { roles = [CUSTOMER, OTHER], free = 100 * MIB, containers = [], lifecycle, scene, verdicts = [] } = situation;
  const present = bundles.filter(({ readyAt }) => readyAt !== undefined);
  const filesystem = { path: '/var', totalBytes: 100 * GIB, freeBytes: 15 * GIB + free };
  const observed = observation({
    roles,
    containers,
    media: [
      medium(
        'sdb1',
        bundles.filter((one) => !present.includes(one)).map((one) => found(one)),
      ),
    ],
    runtime: reachable({ images: present.flatMap(allListed), filesystem }),
    ...scene,
  });
  const pulledByUs = new Set(present.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)));
  const policy = { ...POLICY, lifecycle: { ...POLICY.lifecycle, ...lifecycle } };
  const { assessment } = judge(observed, bundles, policy, { pulledByUs, verdicts });
  const nameOf = (id: string) => bundles.find(({ bundleId }) => bundleId === id)?.payload;
  const given = assessment.life.findings.flatMap((finding) =>
    finding.kind === 'spare' ? [`${nameOf(finding.bundleId)?.name} ${nameOf(finding.bundleId)?.sequence}`] : [],
  );
  const held = assessment.bundles.flatMap(({ bundle: { payload }, hold, reason }) =>
    hold === 'space' ? [[`${payload.name} ${payload.sequence}`, reason?.code]] : [],
  );
  return { given, held, observed, assessment, bundles: assessment.bundles };
}

const nine = Array.from({ length: 9 }, (_, at) => ofCustomer(at + 1, activated(at)));

describe('releases of a role, while a release of plain keys lacks space', () => {
  it('give way, the oldest first, although none was ever proven', () => {
    expect(decided([...nine, platform]).given).toEqual(['app 1']);
    // The space that the last one freed is seen first.
    const retired = nine.map((one, at) => (at === 0 ? { ...one, retiredAt: NOON, removeImages: true } : one));
    expect(decided([...retired, platform]).given).toEqual([]);
  });

  it('stay when all that may give way together is not enough, or nothing is removed', () => {
    expect(decided([...nine.slice(-2), platform]).given).toEqual([]);
    expect(decided([...nine.slice(-3), platform]).given).toEqual(['app 7']);
    expect(decided([...nine.slice(-3), platform], { free: -2 * GIB }).given).toEqual([]);
    expect(decided([...nine, platform], { lifecycle: { remove_images: false } }).given).toEqual([]);
  });

  it('give way also where the fallback of the own stream may not be retired early', () => {
    expect(decided([...nine, platform], { lifecycle: { make_room: false } }).given).toEqual(['app 1']);
  });

  it.each([
    ['its current release and the release before, of which none was proven', nine.slice(-2)],
    ['the last known good release and the current one', [ofCustomer(1, proven(1)), ofCustomer(2, activated(2))]],
    ['the proven current release and its fallback', [ofCustomer(1, proven(1)), ofCustomer(2, proven(2))]],
    ['the only release of a stream that was never activated', [ofCustomer(1, { readyAt: NOON })]],
    ['what a person requested', [...nine.slice(-2), ofCustomer(1, { readyAt: NOON, activationRequestedAt: NOON })]],
    ['what is loaded for good with leave of the role', [...nine.slice(-2), ofCustomer(1, { ...MARKS, keep: 'life' })]],
    ['releases of a role that is not in force', nine.map((one) => signedBy('gone', one))],
    [
      'releases that plain keys signed too',
      nine.map((one) => ({ ...one, signerKeyIds: [keyIdOf('customer'), keyIdOf('k')] })),
    ],
  ])('never: %s', (_name, bundles) => {
    expect(decided([...bundles, platform]).held).toEqual([['ocp 1', 'engine/no-space']]);
    expect(decided([...bundles, platform]).given).toEqual([]);
  });

  it('never when they run, and then the next one does', () => {
    const [first] = nine;
    if (first === undefined) expect.unreachable();
    const container: RuntimeContainer = {
      containerId: 'c1',
      key: 'app',
      imageNames: first.contents.images.map(({ reference }) => reference),
      attempt: 0,
      state: 'running',
      startedAt: NOON,
      exitCode: 0,
    };
    expect(decided([...nine, platform], { containers: [container] }).given).toEqual(['app 2']);
  });

  it('never while one of their images is pulled', () => {
    const [first] = nine;
    const task = { kind: 'pull', bundleId: first?.bundleId ?? platform.bundleId, reference: 'x@sha256:0' } as const;
    expect(decided([...nine, platform], { scene: { running: [task] } }).given).toEqual(['app 2']);
  });

  it('in the order: over its share, past, rolled back; what comes next last', () => {
    const small = { ...OTHER, maxBytes: GIB };
    const over = [1, 2, 3].map((at) => ofOther(at, activated(10 + at)));
    expect(decided([...nine, ...over, platform], { roles: [CUSTOMER, small] }).given).toEqual(['tool 1']);
    const back = { ...ofCustomer(7, activated(6)), rolledBackAt: NOON + 7 };
    const rolledBack = nine.map((one, at) => (at === 6 ? back : one));
    expect(decided([...rolledBack, platform]).given).toEqual(['app 7']);
    const [pending, older] = [ofCustomer(12, { readyAt: NOON - 1 }), ofCustomer(7, activated(6))];
    expect(decided([pending, older, ...nine.slice(-2), platform]).given).toEqual(['app 7']);
    expect(decided([pending, ...nine.slice(-2), platform]).given).toEqual(['app 12']);
  });

  it('together with an incomplete delta that builds on one of them, the delta first', () => {
    const [first] = nine;
    const base = { update: { base: first?.bundleId ?? platform.bundleId } };
    const delta = ofCustomer(20);
    const payload = { ...delta.payload, ...base };
    expect(decided([...nine, { ...delta, payload }, platform]).given).toEqual(['app 20']);
  });

  it('also for images that its current release lost', () => {
    const lost = { ...platform, ...MARKS };
    const scene = { runtime: decidedRuntime(nine) };
    expect(decided([...nine, lost], { scene }).given).toEqual(['app 1']);
  });
});

/** Only these are on the disk, which has too little room for one more. */
function decidedRuntime(bundles: readonly StoredBundle[]) {
  const filesystem = { path: '/var', totalBytes: 100 * GIB, freeBytes: 15 * GIB };
  return reachable({ images: bundles.flatMap(allListed), filesystem });
}

describe('releases of a role, while another one of a role lacks space', () => {
  const next = ofCustomer(10);

  it('give way in the same role once its stream is beyond them', () => {
    expect(decided([...nine, next]).given).toEqual(['app 1']);
    const pending = ofCustomer(11, { readyAt: NOON });
    expect(decided([...nine.slice(-2), pending, next]).given).toEqual([]);
  });

  it('stay in another role, unless that is over its share', () => {
    const others = [1, 2, 3, 4].map((at) => ofOther(at, activated(at)));
    expect(decided([...others, next]).given).toEqual([]);
    expect(decided([...others, next], { roles: [CUSTOMER, { ...OTHER, maxBytes: GIB }] }).given).toEqual(['tool 1']);
  });
});

describe('max_bytes', () => {
  const limited = (gib: number) => ({ roles: [{ ...CUSTOMER, maxBytes: gib * GIB }], free: 50 * GIB });

  it('holds the release that would bring its role above it, and says how much it is', () => {
    const { held, given, bundles } = decided([...nine.slice(-2), ofCustomer(10), platform], limited(2.5));
    expect(held).toEqual([['app 10', 'engine/over-share']]);
    expect(given).toEqual([]);
    const share = bundles.find(({ bundle }) => bundle.payload.sequence === 10)?.share;
    expect(share).toMatchObject({ role: 'customer', max: 2.5 * GIB });
    expect(Math.round((share?.used ?? 0) / GIB)).toBe(2);
    expect(Math.round((share?.needed ?? 0) / GIB)).toBe(1);
  });

  it('is room for what fits, and for all without it', () => {
    expect(decided([...nine.slice(-2), ofCustomer(10)], limited(3.5)).held).toEqual([]);
    expect(decided([...nine.slice(-2), ofCustomer(10)], { free: 50 * GIB }).held).toEqual([]);
  });

  it('pulls and copies nothing of the held release, also when one of its images is being pulled', () => {
    const spec = { name: 'app', sequence: 10, images: { one: ['one'], two: ['two'] }, artifacts: { model: ['model'] } };
    const held = signedBy('customer', stored(verified({ ...spec, layers: { one: { diskBytes: 3 * GIB } } })));
    const role = { ...CUSTOMER, repositories: ['quay.example.com', 'models.example.com'] };
    const task = { kind: 'pull', bundleId: held.bundleId, reference: referenceOf('one') } as const;
    const planned = (maxBytes: number, running: Scene['running']) => {
      const roles = [{ ...role, maxBytes }];
      const { observed, assessment } = decided([held], { roles, free: 50 * GIB, scene: { running } });
      const { starts } = planPulls(observed, observed, assessment, POLICY);
      return [starts.length, keepPlan(observed, assessment, POLICY)?.copy.length];
    };
    expect(planned(4 * GIB, [])).toEqual([2, 1]);
    expect(planned(GIB, [])).toEqual([0, 0]);
    expect(planned(4 * GIB, [task])).toEqual([1, 1]);
    expect(planned(GIB, [task])).toEqual([0, 0]);
  });

  it('retires what the stream of the role is beyond, until the release fits, by the measure of the share', () => {
    expect(decided([...nine.slice(-3), ofCustomer(10)], limited(3.5)).given).toEqual(['app 7']);
    expect(decided([...nine.slice(-3), ofCustomer(10)], limited(2.5)).given).toEqual([]);
  });

  it('counts an image that a release of plain keys has too for nobody', () => {
    const shared = { ...platform, ...MARKS, contents: ofCustomer(10).contents };
    expect(decided([...nine.slice(-2), ofCustomer(10), shared], limited(2.5)).held).toEqual([]);
  });

  it('counts what is loaded first: the older one of a stream, and neither cancelled nor untrusted ones', () => {
    const both = [...nine.slice(-2), ofCustomer(11), ofCustomer(10)];
    expect(decided(both, limited(3.5)).held).toEqual([['app 11', 'engine/over-share']]);
    const cancelled = { ...ofCustomer(10), cancelled: { at: NOON, media: ['7-sdb1'] } };
    expect(decided([...nine.slice(-2), ofCustomer(11), cancelled], limited(3.5)).held).toEqual([]);
    const verdicts = [{ bundleId: ofCustomer(10).bundleId, verdict: 'rejected', at: NOON } as const];
    expect(decided(both, { ...limited(3.5), verdicts }).held).toEqual([]);
  });

  it('holds no release that was ready before', () => {
    const { held, bundles } = decided([...nine], limited(1));
    expect(held).toEqual([]);
    expect(bundles.every(({ share }) => share === undefined)).toBe(true);
  });

  it('counts attachments, and artifacts as copies', () => {
    const bundle = verified({
      name: 'app',
      sequence: 10,
      images: { small: ['small'] },
      artifacts: { model: ['model'] },
      layers: { model: { sizeBytes: 2 * GIB } },
      attachments: [{ name: 'disk.img', mediaType: 'x/y', digest: verified().bundleId, size: 3 * GIB }],
    });
    const role = { ...CUSTOMER, repositories: ['quay.example.com', 'models.example.com'], maxBytes: 1 };
    const share = (scene: Partial<Scene> = {}) =>
      decided([signedBy('customer', stored(bundle))], { roles: [role], free: 50 * GIB, scene }).bundles[0]?.share;
    expect(Math.round((share()?.needed ?? 0) / GIB)).toBe(7);
    const runtime = reachable({ name: 'containerd 1.7.24' });
    expect(Math.round((share({ runtime })?.needed ?? 0) / GIB)).toBe(5);
  });
});
