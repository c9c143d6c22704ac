import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { commandsOf, markedBlocks } from '../../support/docs/marked-blocks.ts';
import { runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';

const PAGE = 'docs/operate.md';
const MADE = ['key', 'stick'];
/** Run in a machine by test/e2e/bookworm.test.ts. */
const ON_A_NODE = ['node', 'look'];
/** Run by test/integration/daemon/state/drive-replaced.test.ts. */
const AFTERWARDS = ['activate what runs', 'is it back', 'is it ready'];
const directory = folderForAll();

describe('docs/operate.md', () => {
  it('makes a key and a stick with the commands that it shows', async () => {
    const layout = join(directory, 'layout');
    writeOciLayout(layout, [{ image: sampleImage({ seed: 'etcd', architecture: 'amd64' }), names: ['etcd'] }]);
    writeFileSync(join(directory, 'images.txt'), `etcd=quay.example.com/coreos/etcd:3.5.9=oci:${layout}:etcd\n`);
    const programs = await stickpinOnPath(join(directory, 'bin'));
    const said = await runBlocks([commandsOf(PAGE, 'key'), commandsOf(PAGE, 'stick')], { directory, programs });
    expect(said).toMatch(/^\S.*ocp 4\.13\.7.*: signature by factory-2026 ok, \d+ of \d+ blobs read and right$/m);
    const run = markedBlocks(PAGE).filter(({ kind }) => kind === 'run');
    expect(run.map(({ name }) => name)).toEqual([...MADE, ...ON_A_NODE, ...AFTERWARDS]);
  });
});
