import { describe, expect, it } from 'vitest';
import { catalogOf } from '../../../../src/domain/decide/catalog.ts';
import type { AttachedTag } from '../../../../src/domain/model/bundle.ts';
import { foreignTag } from '../../../../src/domain/release/tags.ts';
import { heldReason } from '../../../../src/domain/report/hold-text.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  POLICY,
  reachable,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const TAG = 'quay.example.com/ocp/etcd:4.13.7';
const platform = stored(verified(), { readyAt: NOON, activatedAt: NOON });
const customer = (digest = digestOf('evil'), tag = TAG) =>
  stored(
    verified({
      name: 'customer-app',
      images: { etcd: ['evil'] },
      imageOver: { etcd: { digest, reference: `quay.example.com/ocp/etcd@${digest}`, tags: [tag] } },
    }),
    { readyAt: NOON },
  );

const SIGNATURE = `sha256-${'ab'.repeat(32)}.sig`;
const attached = (text: string): AttachedTag => ({
  tag: SIGNATURE,
  digest: digestOf(text),
  size: 1,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  blobs: [],
});

describe('a tag that a release of another stream holds', () => {
  it("can't be used for another image, but can for the same one", () => {
    expect(foreignTag(customer(), [platform])).toMatchObject({ tag: TAG, holder: { payload: { name: 'ocp' } } });
    expect(foreignTag(customer(digestOf('image etcd')), [platform])).toBeUndefined();
    expect(foreignTag(customer(undefined, 'quay.example.com/ocp/etcd:evil'), [platform])).toBeUndefined();
  });

  const adopted = stored(verified(), { readyAt: NOON });
  it.each([
    ['superseded', { ...platform, provenAt: NOON }, true],
    ['rolled back', { ...platform, rolledBackAt: NOON + 1 }, true],
    ['never activated', adopted, false],
    ['half activated', { ...adopted, activationBegunAt: NOON + 1 }, true],
    ['half activated and retired', { ...adopted, activationBegunAt: NOON + 1, retiredAt: NOON + 2 }, false],
    ['retired', { ...platform, retiredAt: NOON + 1 }, false],
  ])('is held or not held by a release that is %s', (_name, holder, isHeld) => {
    expect(foreignTag(customer(), [holder]) !== undefined).toBe(isHeld);
  });

  it('is held by the activation that began first, when two have begun', () => {
    const [one, other] = [
      { ...adopted, activationBegunAt: NOON + 1 },
      { ...customer(), activationBegunAt: NOON + 2 },
    ];
    expect(foreignTag(one, [one, other])).toBeUndefined();
    expect(foreignTag(other, [one, other])?.holder).toBe(one);
    const same = { ...other, activationBegunAt: NOON + 1 };
    const held = [foreignTag(one, [one, same]), foreignTag(same, [one, same])].filter((each) => each !== undefined);
    expect(held).toHaveLength(1);
  });

  it('is held too when it is attached to an image, on either side', () => {
    const withSignature = (name: string, text: string) =>
      stored(verified({ name, imageOver: { etcd: { attached: [attached(text)] } } }), { readyAt: NOON });
    const holder = { ...withSignature('ocp', 'true'), activatedAt: NOON };
    const tag = `quay.example.com/ocp/etcd:${SIGNATURE}`;
    expect(foreignTag(withSignature('customer-app', 'evil'), [holder])).toMatchObject({ tag });
    expect(foreignTag(withSignature('customer-app', 'true'), [holder])).toBeUndefined();
    expect(foreignTag(customer(digestOf('evil'), tag), [holder])).toMatchObject({ tag });
  });

  it('belongs to the stream that has it: another release of that stream may move it', () => {
    const next = stored(verified({ version: '4.13.8', sequence: 8, images: { etcd: ['new'] } }), { readyAt: NOON });
    expect(foreignTag(next, [platform])).toBeUndefined();
  });

  it("holds the activation of the other release, which names both streams and can't be confirmed", () => {
    const asked = { ...customer(), activationRequestedAt: NOON + 1, activationOverrides: ['rule/from'] as const };
    const runtime = reachable({ images: [...allListed(platform), ...allListed(asked)] });
    const { assessment, decision } = judge(observation({ runtime, now: NOON + 2 }), [platform, asked]);
    const entry = assessment.bundles.find(({ bundle }) => bundle.payload.name === 'customer-app');
    expect(entry?.activationDue).toBe(false);
    expect(entry && heldReason(entry)?.message).toBe(
      `It is not activated: tag ${TAG} belongs to ocp@4.13.7. Stream ocp holds it for another image, so stream customer-app may not take it. Give that release up first ('stickpin unpin ocp@4.13.7'), or use other tags`,
    );
    expect(decision.effects.some((effect) => effect.kind === 'start')).toBe(false);
  });

  it('attached to an image is offered by the stream that was adopted first', () => {
    const one = stored(verified({ imageOver: { etcd: { attached: [attached('true')] } } }));
    const other = stored(
      verified({
        name: 'customer-app',
        images: { etcd: ['x'] },
        imageOver: { etcd: { attached: [attached('evil')] } },
      }),
    );
    const observed = observation({});
    const { assessment } = judge(observed, [one, other]);
    const tags = catalogOf(observed, assessment, POLICY).get('quay.example.com/ocp/etcd')?.tags;
    expect(tags?.get(SIGNATURE)).toBe(digestOf('true'));
  });
});
