import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../../src/platform/digest.ts';
import { type IndexEntry, NAME, NameIndex } from '../../../../src/runtime/embedded/image-store.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
const entry = (name: string): IndexEntry => ({
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  digest: digestOf(name),
  size: 7,
  annotations: { [NAME]: name },
});

const directory = folderForEach();

const namesOnDisk = () => {
  const { manifests } = JSON.parse(readFileSync(join(directory, 'index.json'), 'utf8')) as { manifests: IndexEntry[] };
  return manifests.map(({ annotations }) => annotations[NAME]);
};

describe('NameIndex', () => {
  it('writes all changes during a write together, in their order', async () => {
    const index = new NameIndex(directory);
    const inodes = new Set<number>();
    const names = Array.from({ length: 50 }, (_, count) => `quay.io/app:${count}`);
    await Promise.all(
      names.map(async (name) => {
        await index.change((entries) => void entries.set(name, entry(name)), signal);
        expect(namesOnDisk()).toContain(name);
        inodes.add(statSync(join(directory, 'index.json')).ino);
      }),
    );
    expect(namesOnDisk()).toEqual(names);
    expect(inodes.size).toBeLessThanOrEqual(2);
  });

  it('reads changes of other processes again', async () => {
    const index = new NameIndex(directory);
    await index.change((entries) => void entries.set('quay.io/app:1', entry('quay.io/app:1')), signal);
    writeFileSync(join(directory, 'index.json'), JSON.stringify({ manifests: [entry('quay.io/app:2')] }));
    expect([...(await index.entries()).keys()]).toEqual(['quay.io/app:2']);
  });

  it('skips a change that was aborted before its turn, and makes the others of the same write', async () => {
    const index = new NameIndex(directory);
    const stop = new AbortController();
    const aborted = index.change((entries) => void entries.set('quay.io/app:1', entry('quay.io/app:1')), stop.signal);
    const other = index.change((entries) => void entries.set('quay.io/app:2', entry('quay.io/app:2')), signal);
    stop.abort(new Error('stop'));
    await expect(aborted).rejects.toThrow('stop');
    await other;
    expect(namesOnDisk()).toEqual(['quay.io/app:2']);
  });

  it('continues after a change that could not be written', async () => {
    const index = new NameIndex(join(directory, 'index.json'));
    writeFileSync(join(directory, 'index.json'), 'a file where the directory belongs');
    const change = () => index.change((entries) => void entries.set('quay.io/app:1', entry('quay.io/app:1')), signal);
    await expect(change()).rejects.toThrow();
    rmSync(join(directory, 'index.json'));
    await change();
    expect([...(await index.entries()).keys()]).toEqual(['quay.io/app:1']);
  });
});
