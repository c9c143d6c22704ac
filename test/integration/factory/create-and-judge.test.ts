import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { FoundBundle, MissingBlob } from '../../../src/domain/model/medium.ts';
import { readBundles } from '../../support/bundles/read-bundles.ts';
import { makeSampleBundle, sampleKey, trustIn } from '../../support/bundles/sample-bundle.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
type FoundVerified = Extract<FoundBundle, { kind: 'verified' }>;

const root = folderForEach();

describe('a bundle that was made', () => {
  it('is found on a medium and verified with all its content', async () => {
    const made = await makeSampleBundle({ dir: join(root, 'stickpin') });
    const found = await readBundles(root, { trust: await trustIn(made.keys, root), layout: 'medium' }, signal);

    expect(found).toHaveLength(1);
    const [only] = found;
    if (only?.kind !== 'verified') throw new Error(JSON.stringify(only));
    expect(only.path).toMatch(/^stickpin\/ocp-4\.13\.7-/);
    expect(only.missing).toEqual([]);
    expect(only.bundle.bundleId).toBe(made.bundleId);
    expect(only.bundle.signedBy).toEqual(['factory-2026']);
    expect(only.bundle.contents).toEqual(made.contents);
    const documents = made.images
      .flatMap(({ image }) => [image.index, image.manifest, image.config])
      .filter((part) => part !== undefined);
    expect([...only.documents].sort()).toEqual(documents.map((part) => part.digest as string).sort());
    expect(only.bundle.contents.layers).toEqual(
      made.images.flatMap(({ image }) =>
        image.layers.map(({ digest, sizeBytes, diffId, uncompressedBytes, diskBytes, inodes }) => ({
          digest,
          sizeBytes,
          diffId,
          uncompressedBytes,
          diskBytes,
          inodes,
        })),
      ),
    );
  });

  it('that was verified a moment ago is only looked through for its blobs, unless a document lacked', async () => {
    const made = await makeSampleBundle({ dir: join(root, 'stickpin') });
    const trust = await trustIn(made.keys, root);
    const blob = (digest: string) => join(made.path, 'blobs', digest.replace(':', '/'));
    const [layer] = made.contents.layers;
    const again = (known: readonly FoundBundle[]) =>
      readBundles(root, { trust, layout: 'medium', known }, signal) as Promise<FoundVerified[]>;
    const whole = await again([]);
    rmSync(blob(layer?.digest ?? ''));
    writeFileSync(join(made.path, 'bundle.dsse.json'), '{}');
    const lacking = await again(whole);
    expect(lacking).toEqual([{ ...whole[0], missing: [{ digest: layer?.digest, why: 'absent' }] }]);
    expect(await again([])).toMatchObject([{ kind: 'rejected' }]);
    const noDocument = { digest: whole[0]?.documents[0], why: 'absent' } as MissingBlob;
    expect(await again([{ ...(whole[0] as FoundVerified), missing: [noDocument] }])).toMatchObject([
      { kind: 'rejected' },
    ]);
    expect(await again([{ ...(whole[0] as FoundVerified), path: 'elsewhere' }])).toMatchObject([{ kind: 'rejected' }]);
  });

  it('is rejected on a node that does not trust its key', async () => {
    await makeSampleBundle({ dir: join(root, 'stickpin') });
    const [found] = await readBundles(root, { trust: await trustIn([sampleKey()], root), layout: 'medium' }, signal);
    expect(found).toMatchObject({ kind: 'rejected', reason: { code: 'bundle/unknown-key' } });
  });
});
