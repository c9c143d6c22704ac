import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { indexOver, sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { runCommand } from '../../support/run-command.ts';

const root = folderForEach();
const images = {
  amd64: sampleImage({ seed: 'amd', architecture: 'amd64' }),
  arm64: sampleImage({ seed: 'arm', architecture: 'arm64' }),
};
beforeEach(() => {
  writeOciLayout(join(root, 'layout'), [
    { image: indexOver(images), names: ['both'] },
    { image: images.amd64, names: ['one'] },
  ]);
});

const create = (out: string, name: string, ...more: readonly string[]) =>
  runCommand([
    ...['bundle', 'create', '--name', 'shop', '--version', '1.0.0', '--sequence', '7', '--arch', 'amd64,arm64'],
    ...['--image', `quay.example.com/shop:1=oci:${join(root, 'layout')}:${name}`, '--out', join(root, out), ...more],
  ]);
const payloadOf = async (path: string) => {
  const { stdout } = await runCommand(['bundle', 'inspect', join(root, path), '--json']);
  const { payload, bundleId } = JSON.parse(stdout);
  return { arch: payload.arch, sequence: payload.sequence, bundleId };
};

describe('bundle create for several architectures', () => {
  it.each([
    ['shop', 'shop-amd64', 'shop-arm64'],
    ['shop/', 'shop-amd64', 'shop-arm64'],
    ['v1.0.0', 'v1.0.0-amd64', 'v1.0.0-arm64'],
    ['shop.stickpin.tar', 'shop-amd64.stickpin.tar', 'shop-arm64.stickpin.tar'],
  ])('of %s makes %s and %s, with the same sequence', async (out, amd, arm) => {
    const { exitCode, stdout, stderr } = await create(out, 'both');
    expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
    const [first, second] = [await payloadOf(amd), await payloadOf(arm)];
    expect([first, second]).toMatchObject([
      { arch: 'amd64', sequence: 7 },
      { arch: 'arm64', sequence: 7 },
    ]);
    expect(stdout).toContain(`shop 1.0.0 for amd64 is in ${join(root, amd)}`);
    expect(stdout).toContain(`shop 1.0.0 for arm64 is in ${join(root, arm)}`);
    expect(readdirSync(root).sort()).toEqual(['layout', amd, arm].sort());
  });

  it('takes the names that uname prints, and makes one bundle of two names for one', async () => {
    expect(await create('shop', 'both', '--arch', 'x86_64,aarch64,amd64')).toMatchObject({ exitCode: 0 });
    expect(readdirSync(root).sort()).toEqual(['layout', 'shop-amd64', 'shop-arm64']);
    expect(await create('one', 'one', '--arch', 'x86_64,amd64')).toMatchObject({ exitCode: 0 });
    expect((await payloadOf('one')).arch).toBe('amd64');
  });

  it('prints a JSON document for each, and gives each of several volumes', async () => {
    const { stdout } = await create('shop', 'both', '--json', '--volume-size', '1GB');
    const documents = stdout.split(/\n(?=\{)/).map((text) => JSON.parse(text));
    expect(documents.map(({ path, volumes }) => [path, volumes])).toEqual([
      [join(root, 'shop-amd64'), 1],
      [join(root, 'shop-arm64'), 1],
    ]);
    expect(existsSync(join(root, 'shop-arm64', '1', 'bundle.dsse.json'))).toBe(true);
  });

  it('makes all or none', async () => {
    const { exitCode, stdout, stderr } = await create('shop', 'one');
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toContain('is an image for amd64, and the bundle is for arm64');
    expect(readdirSync(root)).toEqual(['layout']);
  });

  it('refuses what counts for one architecture, an unknown one, and a target that is there', async () => {
    const refused = async (why: string, ...more: readonly string[]) => {
      const { exitCode, stderr } = await create('shop', 'both', ...more);
      expect([exitCode, stderr]).toEqual([expect.any(Number), expect.stringContaining(why)]);
      expect(exitCode).toBeGreaterThan(0);
    };
    await refused('--from-openshift-iso is for one architecture', '--from-openshift-iso', join(root, 'iso'));
    await refused("'arm' is no architecture that nodes have. Give amd64, arm64", '--arch', 'amd64,arm');
    mkdirSync(join(root, 'shop-arm64'));
    writeFileSync(join(root, 'shop-arm64', 'file'), '');
    await refused('shop-arm64');
    expect(readdirSync(root).sort()).toEqual(['layout', 'shop-arm64']);
  });
});
