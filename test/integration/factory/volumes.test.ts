import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { judgeBundle } from '../../../src/bundle/verify/judge-bundle.ts';
import { installKeys, sampleKey, trustIn } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { runCommand } from '../../support/run-command.ts';

const key = sampleKey();
const root = folderForEach();
let out: string;
beforeEach(() => {
  out = join(root, 'out', 'sticks');
  const layers = [60_000, 50_000, 20_000, 30_000].map((sizeBytes) => sampleLayer({ seed: `${sizeBytes}`, sizeBytes }));
  writeOciLayout(join(root, 'layout'), [{ image: sampleImage({ seed: 'a', architecture: 'amd64', layers }) }]);
  installKeys(join(root, 'keys.d'), [key]);
  writeFileSync(join(root, 'factory.key'), key.privatePem);
  writeFileSync(join(root, 'notes'), 'notes');
});

function create(size: string, to = out) {
  const what = ['--name', 'ocp', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--key'];
  const from = ['--image', `quay.example.com/a:1=oci:${join(root, 'layout')}`, '--attach', join(root, 'notes')];
  const rest = [join(root, 'factory.key'), ...from, '--out', to, '--volume-size', size];
  return runCommand(['bundle', 'create', ...what, ...rest]);
}

function judge(volume: string, trust: Awaited<ReturnType<typeof trustIn>>) {
  return judgeBundle(openBundle(join(out, volume)), trust, new AbortController().signal);
}

describe('--volume-size', () => {
  it('spreads layers over directories that are each verified, and together complete', async () => {
    const made = await create('115000');
    expect(made.exitCode, made.stderr).toBe(0);
    expect(made.stdout).toContain(`is in ${out}/1 to ${out}/2: 1 image,`);
    const trust = await trustIn([key], root);
    expect(readdirSync(out)).toEqual(['1', '2']);
    const volumes = await Promise.all(['1', '2'].map((name) => judge(name, trust)));
    const [one, two] = volumes.map(({ missing }) => new Set(missing.map(({ digest }) => digest)));
    const layers = volumes[0]?.bundle.contents.layers.map(({ digest }) => digest) ?? [];
    // The first volume has room for the third layer behind the first one.
    expect(layers.map((digest) => [one?.has(digest), two?.has(digest)])).toEqual([
      [false, true],
      [true, false],
      [false, true],
      [true, false],
    ]);
    expect([...(one ?? [])].filter((digest) => two?.has(digest))).toEqual([]);
    expect(volumes[0]?.bundle.bundleId).toBe(volumes[1]?.bundle.bundleId);
    for (const name of ['1', '2']) {
      const files = readdirSync(join(out, name), { recursive: true, encoding: 'utf8' });
      const sizes = files.map((file) => statSync(join(out, name, file))).filter((found) => found.isFile());
      expect(sizes.reduce((sum, { size }) => sum + Math.ceil(size / 4096) * 4096, 0)).toBeLessThanOrEqual(115_000);
    }
    expect(readFileSync(join(out, '1', 'bundle.dsse.json'))).toEqual(readFileSync(join(out, '2', 'bundle.dsse.json')));
  });

  it('makes one directory where all fits', async () => {
    const made = await create('1 TiB');
    expect(made.exitCode).toBe(0);
    expect(made.stdout).toContain(`is in ${out}/1: 1 image,`);
    expect(readdirSync(out)).toEqual(['1']);
    expect((await judge('1', await trustIn([key], root))).missing).toEqual([]);
  });

  it.each([
    ['50000', 'never split'],
    ['62000', 'never split'],
    ['15 sticks', 'must be a size'],
  ])('refuses %s and leaves nothing', async (size, why) => {
    expect(await create(size)).toMatchObject(ended(2, why));
    expect(readdirSync(root)).not.toContain('sticks');
    expect(readdirSync(root)).not.toContain('out');
  });

  it('serve as a base together, as does each of them alone', async () => {
    expect((await create('115000')).exitCode).toBe(0);
    const args = ['--name', 'ocp', '--version', '4.13.8', '--arch', 'amd64', '--sequence', '8'];
    const image = ['--image', `quay.example.com/a:1=oci:${join(root, 'layout')}`];
    for (const base of [out, join(out, '2')]) {
      const delta = join(root, `delta-${base === out}`);
      const made = await runCommand(['bundle', 'create', ...args, ...image, '--base', base, '--out', delta]);
      expect(made.exitCode, made.stderr).toBe(0);
      const { stdout } = await runCommand(['bundle', 'inspect', delta]);
      expect(stdout).toMatch(/\n {2}base {8}ocp@1\.0\.0, /);
    }
  });

  it('are all signed at once', async () => {
    expect((await create('115000')).exitCode).toBe(0);
    const audit = sampleKey('audit');
    writeFileSync(join(root, 'audit.key'), audit.privatePem);
    const signed = await runCommand(['bundle', 'sign', out, '--key', join(root, 'audit.key')]);
    expect(signed).toMatchObject({ exitCode: 0, stderr: '' });
    expect(signed.stdout).toBe(
      `${out}/1 to ${out}/2 are signed by key ${audit.privateKey.keyId.slice(0, 12)}…; they have 2 signatures now\n`,
    );
    const trust = await trustIn([key, audit], root, 2);
    for (const name of ['1', '2'])
      expect((await judge(name, trust)).bundle.signedBy).toEqual(['audit', 'factory-2026']);
  });

  it('are not signed when they are not of one bundle', async () => {
    expect((await create('115000')).exitCode).toBe(0);
    writeFileSync(join(root, 'notes'), 'other notes');
    expect((await create('1 GiB', join(root, 'other'))).exitCode).toBe(0);
    cpSync(join(root, 'other', '1'), join(out, '3'), { recursive: true });
    const before = readFileSync(join(out, '1', 'bundle.dsse.json'));
    const refused = await runCommand(['bundle', 'sign', out, '--key', join(root, 'factory.key')]);
    expect(refused).toMatchObject(ended(1, 'are not volumes of one bundle'));
    expect(readFileSync(join(out, '1', 'bundle.dsse.json'))).toEqual(before);
  });

  it('is not for a tar file', async () => {
    const made = await create('1GB', join(root, 'x.stickpin.tar'));
    expect(made).toMatchObject(ended(2, '--volume-size makes directories'));
  });
});
