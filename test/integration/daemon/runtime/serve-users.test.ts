import { execFile } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SettingsOverrides } from '../../../support/daemon/daemon-harness.ts';
import { askedFor } from '../../../support/daemon/origin.ts';
import { createServedNode, type ServedNode } from '../../../support/daemon/runtimes/served-node.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const run = promisify(execFile);
const ROOT = 0;
/** A user whom `registry.allow_uids` names, and one whom it does not. */
const [ALLOWED, STRANGER] = [64_001, 64_002];

/** Where a user finds the configuration, and puts images. */
const place = folderForEach();
let served: ServedNode;

/**
 * Copies by skopeo as rootless podman does: with the registries configuration of the node, as this
 * user.
 */
async function copyAs(uid: number, name: string): Promise<readonly string[]> {
  const target = mkdtempSync(join(place, 'copied-'));
  chownSync(target, uid, uid);
  const home = served.home();
  // Of the folders of this test; the modes of the files are those of the node.
  for (const folder of [served.node.harness.base, home, join(home, '.config'), join(home, '.config/containers')])
    chmodSync(folder, 0o755);
  chmodSync(join(home, '.config/containers/registries.conf.d'), 0o755);
  const user = ['--reuid', `${uid}`, '--regid', `${uid}`, '--clear-groups'];
  const skopeo = ['skopeo', '--insecure-policy', 'copy', `docker://${name}`, `dir:${target}/image`];
  await run('setpriv', [...user, '--', ...skopeo], { env: { PATH: process.env.PATH, HOME: home, TMPDIR: target } });
  return readdirSync(join(target, 'image')).sort();
}
/** Files of the copy of an image: its manifest, configuration and layers. */
const filesOf = (index: number) => {
  const { image } = served.bundle.images[index] ?? { image: undefined };
  return [...(image?.layers ?? []), ...(image === undefined ? [] : [image.config])].map(({ digest }) =>
    digest.slice(7),
  );
};

beforeEach(() => {
  chmodSync(place, 0o755);
});

describe.runIf(have('root', 'mmdebstrap', 'skopeo')).each<{
  readonly when: string;
  readonly settings: SettingsOverrides;
  /** Users to whom our registry gives the image, so that the origin is not asked. */
  readonly answered: readonly number[];
}>([
  { when: 'the layers are not on the node', settings: {}, answered: [] },
  { when: 'all layers are kept', settings: { retention: { blobs: 'kept' } }, answered: [ROOT, ALLOWED] },
])('other programs than the runtime, where $when', { timeout: 120_000 }, ({ settings, answered }) => {
  beforeAll(async () => {
    served = await createServedNode({ ...settings, registry: { allow_uids: [ROOT, ALLOWED] } });
  }, 180_000);
  afterAll(() => served.dispose());
  beforeEach(() => served.origin.forget());

  it.each([
    { who: 'root', uid: ROOT },
    { who: 'a user who may ask', uid: ALLOWED },
    { who: 'a user who may not ask', uid: STRANGER },
  ])('$who gets the whole image by digest', async ({ uid }) => {
    const files = await copyAs(uid, served.referenceOf(0));
    expect(files).toEqual(expect.arrayContaining(filesOf(0)));
    expect(askedFor(served.origin) > 0).toBe(!answered.includes(uid));
  });

  it.each([
    { who: 'root', uid: ROOT },
    { who: 'a user who may ask', uid: ALLOWED },
    { who: 'a user who may not ask', uid: STRANGER },
  ])('$who gets by a tag that moved what the tag names for him', async ({ uid }) => {
    const files = await copyAs(uid, served.tagOf(0));
    const own = answered.includes(uid) ? filesOf(0) : [served.moved.config.digest.slice(7)];
    expect(files).toEqual(expect.arrayContaining(own));
  });

  it('an image that the origin does not have comes from us alone, and who gets none is told so', async () => {
    for (const { image } of served.bundle.images) served.origin.drop(image.top.digest);
    for (const uid of [ROOT, ALLOWED, STRANGER]) {
      const copied = copyAs(uid, served.referenceOf(1));
      if (answered.includes(uid)) expect(await copied).toEqual(expect.arrayContaining(filesOf(1)));
      else await expect(copied).rejects.toThrow(/manifest unknown/);
    }
  });
});
