import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { writePlainBundle } from '../../../support/bundles/plain-bundle.ts';
import { installKeys, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { runCommand } from '../../../support/run-command.ts';

describe('a bundle of 1,000 images and 20,000 blobs', () => {
  const base = folderForAll();
  let bundle: string;
  let keys: string;
  const absent = '0'.repeat(64);

  beforeAll(() => {
    bundle = join(base, 'plain-1.0.0');
    keys = join(base, 'keys');
    const key = sampleKey('factory');
    installKeys(keys, [key]);
    // The hole has another digest than its name says, which only --full can see.
    expect(writePlainBundle({ path: bundle, key, images: 1000, layersPerImage: 18, holeBytes: 3 })).toBe(20_000);
  });

  it('is verified', async () => {
    expect(await runCommand(['bundle', 'verify', bundle, '--keys', keys])).toMatchObject({
      exitCode: 0,
      stdout: 'plain 1.0.0: signature by factory ok, 20000 of 20000 blobs found\n',
    });
  });

  it('is read to the last blob with --full', async () => {
    const { exitCode, stdout } = await runCommand(['bundle', 'verify', bundle, '--keys', keys, '--full', '--json']);
    expect(exitCode).toBe(4);
    expect(JSON.parse(stdout)).toMatchObject({
      blobs: 20_000,
      missing: [{ digest: `sha256:${absent}`, why: 'damaged', file: join(bundle, 'blobs', 'sha256', absent) }],
    });
  });

  it('is shown', async () => {
    const { exitCode, stdout } = await runCommand(['bundle', 'inspect', bundle]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain('1000, with 20000 blobs');
    expect(stdout.match(/registry\.example\.com\/plain\/image\d+@/g)).toHaveLength(1000);
  });

  it('of which a few blobs are absent names them in the order of the images', async () => {
    const { contents } = JSON.parse((await runCommand(['bundle', 'inspect', bundle, '--json'])).stdout);
    const taken = [17_999, 40, 9_000].map((at) => contents.layers[at].digest as string);
    for (const digest of taken) rmSync(join(bundle, 'blobs', 'sha256', digest.slice('sha256:'.length)));
    const { exitCode, stdout } = await runCommand(['bundle', 'verify', bundle, '--keys', keys, '--json']);
    expect(exitCode).toBe(4);
    const [last, first, middle] = taken;
    expect(JSON.parse(stdout).missing).toEqual([first, middle, last].map((digest) => ({ digest, why: 'absent' })));
  });
});

describe('a signed bundle whose image would take the runtime away from other releases', () => {
  const base = folderForAll();

  it.each([
    ['a volume at the root folder', { Volumes: { '/': {} } }, 'config.Volumes: must not name the root folder'],
    ['a long name of a label', { Labels: { ['n'.repeat(1_025)]: '' } }, 'names of at most 1024 characters'],
    ['a long user', { User: 'u'.repeat(256) }, 'config.User: must have at most 255 characters'],
    ['a large config', { Labels: { a: 'v'.repeat(1024 * 1024) } }, 'and 1048576 are allowed'],
  ])('is refused for %s', async (what, config, message) => {
    const path = join(base, what.replaceAll(' ', '-'));
    const key = sampleKey('factory');
    installKeys(join(path, 'keys'), [key]);
    writePlainBundle({ path: join(path, 'plain-1.0.0'), key, images: 1, layersPerImage: 1, config });
    const done = await runCommand(['bundle', 'verify', join(path, 'plain-1.0.0'), '--keys', join(path, 'keys')]);
    expect(done.exitCode).not.toBe(0);
    expect(done.stderr).toMatch(/config sha256:[0-9a-f]{64} of registry\.example\.com\/plain\/image0/);
    expect(done.stderr).toContain(message);
  });
});
