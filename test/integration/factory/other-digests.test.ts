import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { runCommand } from '../../support/run-command.ts';

const fixed = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'];
const SHA512 = `sha512:${'5f'.repeat(64)}`;
const NAME = 'org.opencontainers.image.ref.name';
const image = sampleImage({ seed: 'it', architecture: 'amd64' });

const work = folderForEach();
let layout: string;
beforeEach(() => {
  layout = join(work, 'layout');
  writeOciLayout(layout, [{ image, names: ['it'] }]);
  addEntry({ digest: SHA512, annotations: { [NAME]: 'other' } });
});

/** Puts an entry before the others. */
function addEntry(more: object): void {
  const index = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8'));
  index.manifests.unshift({ mediaType: image.top.mediaType, size: image.top.sizeBytes, ...more });
  writeFileSync(join(layout, 'index.json'), JSON.stringify(index));
}

const create = (source: string, ...more: string[]) =>
  runCommand([
    ...['bundle', 'create', ...fixed, '--image', `quay.example.com/x/it:1=${source}`, ...more],
    ...['--json', '--out', join(work, 'out')],
  ]);

describe('a layout with a digest of another algorithm than SHA-256', () => {
  const warning = `oci:LAYOUT: other (sha512:${'5f'.repeat(16)}5…) is left out: its digest is not a SHA-256`;

  it.each([
    ['by its name', ':it'],
    ['by its digest', `@${image.top.digest}`],
    ['by its position', ':@1'],
    ['as the only one that can be taken', ''],
  ])('gives its other images, %s, and warns once', async (_name, selector) => {
    const { exitCode, stdout, stderr } = await create(`oci:${layout}${selector}`);
    expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
    const { warnings } = JSON.parse(stdout).payload;
    expect(warnings).toEqual([expect.stringContaining(warning.replace('LAYOUT', layout))]);
    expect(stderr.split('is left out').length).toBe(2);
  });

  it('is refused with --strict', async () => {
    const { exitCode, stderr } = await create(`oci:${layout}:it`, '--strict');
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('is left out')]);
  });

  it.each([
    ['by its name', ':other'],
    ['by its position', ':@0'],
  ])('says so when that image is asked for %s', async (_name, selector) => {
    const { exitCode, stderr } = await create(`oci:${layout}${selector}`);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /other \(sha512:[0-9a-f]+…\) can't be taken: its digest is not a SHA-256, .*; copy the image/,
    );
  });

  it('says so when it is asked for by that digest', async () => {
    const { exitCode, stderr } = await create(`oci:${layout}@${SHA512}`);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('no other digests than sha256:')]);
  });

  it('says so when it has no other image', async () => {
    writeFileSync(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [] }));
    addEntry({ digest: SHA512 });
    const { exitCode, stderr } = await create(`oci:${layout}`);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("can't be taken: its digest is not a SHA-256")]);
  });

  it.each(['sha256:00', 'nonsense', 'SHA512:00', ''])('does not take %j for another algorithm', async (digest) => {
    addEntry({ digest });
    const { exitCode, stderr } = await create(`oci:${layout}:it`);
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/index\.json: manifests\.0: digest: must be sha256/)]);
  });
});
