import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { digestOf, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;
const REPOSITORY = 'quay.example.com/ocp/swss';
const LATEST = `${REPOSITORY}:latest`;
const OTHER = 'docker.io/library/docker-swss';
const referenceIn = (version: number) => `${REPOSITORY}@${digestOf(`swss ${version}`)}`;
/** One component with an image of its own, of which two names are versions. */
const release = (version: number) =>
  verified({
    name: 'sonic',
    sequence: version,
    version: `${version}.0.0`,
    images: { swss: [`layer-${version}`], [`base-${version}`]: ['os'] },
    imageOver: {
      swss: {
        reference: referenceIn(version),
        digest: digestOf(`swss ${version}`),
        tags: [`${REPOSITORY}:${version}`, `${OTHER}:${version}`],
      },
      [`base-${version}`]: { tags: [] },
    },
  });
const [A, B, C] = [release(1), release(2), release(3)];

let node: FakeNode;
beforeEach(async () => {
  node = createFakeNode([], { streams: { sonic: { tag_after_proof: ['latest'], replace_stopped: ['swss'] } } });
  await node.start();
});
afterEach(() => node.stop());

const events = (kind: string) => node.store.rows.filter((row) => row.kind === kind).map(({ message }) => message);
const latest = () => node.runtime.images.get(LATEST);

async function activate(bundle: typeof A) {
  node.plug('sdb1', bundle);
  await node.clock.advance(0);
  node.media.unplug('sdb1');
  await node.clock.advance(0);
}
async function prove(bundle: typeof A) {
  await activate(bundle);
  node.runtime.startContainer('pod/swss', referenceIn(bundle.payload.sequence));
  await node.clock.advance(12 * MINUTE);
}

describe('tags after the proof', () => {
  it('move with each proof, after which stopped containers of older releases go', async () => {
    await activate(A);
    expect(latest()).toBeUndefined();
    await prove(A);
    expect(latest()).toBe(referenceIn(1));
    node.runtime.startContainer('swss', referenceIn(1));
    await prove(B);
    expect(latest()).toBe(referenceIn(2));
    expect(node.runtime.images.get(`${OTHER}:latest`)).toBe(referenceIn(2));
    expect(events('tagsAfterProof').at(-1)).toMatch(
      /^sonic 2\.0\.0 is the release that was proven last, so 3 tags name their images now, first /,
    );
    await node.clock.advance(11 * MINUTE);
    expect(events('containerReplaced')).toEqual([]);
    node.runtime.endContainer('swss', 0);
    await node.clock.advance(11 * MINUTE);
    expect(events('containerReplaced')).toEqual([
      'The stopped container swss, which was made from another image, was removed: the next one is made from sonic 2.0.0',
    ]);
    expect([...node.runtime.running.values()].map(({ key }) => key)).toEqual(['pod/swss']);
  });

  it('is restored, and stays with the release before when the next one fails', async () => {
    await prove(A);
    await activate(B);
    node.runtime.images.delete(LATEST);
    await node.clock.advance(MINUTE);
    expect(latest()).toBe(referenceIn(1));
    node.runtime.startContainer('pod/swss', referenceIn(2));
    await node.clock.advance(MINUTE);
    node.runtime.startContainer('pod/swss', referenceIn(1));
    await node.clock.advance(3 * MINUTE);
    expect(events('bundleRolledBack')).toHaveLength(1);
    await node.clock.advance(12 * MINUTE);
    expect(latest()).toBe(referenceIn(1));
  });

  it('leaves two proven releases and no image of an older one, and none of others is touched', async () => {
    node.runtime.images.set(`${REPOSITORY}:mine`, 'mine');
    await prove(A);
    await prove(B);
    await prove(C);
    const left = [...node.runtime.images.values()].filter((id) => id.startsWith(REPOSITORY));
    expect(new Set(left)).toEqual(new Set([referenceIn(2), referenceIn(3)]));
    expect(latest()).toBe(referenceIn(3));
    expect(node.runtime.images.get(`${REPOSITORY}:mine`)).toBe('mine');
  });

  it('leaves a version to the image that the node came with, and gives it the other name', async () => {
    const given: string[] = [];
    node.runtime.addTag = async (tag, name) => {
      given.push(`${tag} ${name}`);
      node.runtime.images.set(tag, node.runtime.images.get(name) ?? name);
      return true;
    };
    for (const tag of [LATEST, `${REPOSITORY}:1`]) node.runtime.images.set(tag, 'local');
    await activate(A);
    expect(given).toEqual([`${OTHER}:1 ${REPOSITORY}:1`]);
    expect(events('bundleActivated')).toEqual([
      `sonic 1.0.0 is activated: 0 tags name its images now; ${REPOSITORY}:1 stays with the image that this node had under it`,
    ]);
    await node.clock.advance(20 * MINUTE);
    expect(latest()).toBe('local');
    await prove(B);
    expect(latest()).toBe(referenceIn(2));
    expect(node.runtime.images.get(`${OTHER}:1`)).toBe('local');
    expect(node.runtime.images.has(referenceIn(1))).toBe(false);
  });
});

describe('a repository with several images of a release', () => {
  it('gets no such tag, as the event of the proof says', async () => {
    const many = verified({
      name: 'sonic',
      images: { a: ['a'], b: ['b'] },
      imageOver: { a: { reference: referenceIn(1) }, b: { reference: referenceIn(2) } },
    });
    node.plug('sdb1', many);
    await node.clock.advance(0);
    node.runtime.startContainer('pod/a', referenceIn(1));
    await node.clock.advance(12 * MINUTE);
    expect(events('bundleProven')).toEqual([
      `sonic 4.13.7 is proven: it is the last known good release now. ${REPOSITORY} gets no tag of tag_after_proof, since it has several of its images`,
    ]);
  });
});
