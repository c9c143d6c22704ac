import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { commandAdapters } from '../../../../src/app/command-line/command-adapters.ts';
import { diskUse } from '../../../../src/domain/preload/space.ts';
import { installKeys, makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import {
  digestOf,
  sampleArtifact,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../../support/bundles/sample-image.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { ended } from '../../../support/matching.ts';
import { runCommand } from '../../../support/run-command.ts';

const base = sampleLayer({ seed: 'base', sizeBytes: 400_000 });
const own = sampleLayer({ seed: 'own', sizeBytes: 200_000 });
const images = [
  {
    reference: 'quay.example.com/coreos/etcd:3.5.9',
    component: 'etcd',
    image: sampleImage({ seed: 'etcd', architecture: 'arm64', layers: [base] }),
  },
  {
    reference: 'quay.example.com/edge/proxy:1',
    component: 'proxy',
    image: sampleImage({ seed: 'proxy', architecture: 'arm64', withIndex: true, layers: [base, own] }),
  },
];
const key = sampleKey();

const root = folderForAll();
let bundle: SampleBundle;
let keys: string;
let temporary: string;

beforeAll(async () => {
  keys = join(root, 'keys.d');
  installKeys(keys, [key]);
  // As a umask of 002 makes it: who may write it counts on a node only.
  chmodSync(keys, 0o775);
  // Another architecture than this machine's: a factory makes bundles for all of them.
  bundle = await makeSampleBundle({ dir: root, arch: 'arm64', images, keys: [key] });
});
beforeEach(() => {
  temporary = mkdtempSync(join(root, 'tmp-'));
});

const rehearse = (path: string, ...options: string[]) =>
  runCommand(['bundle', 'rehearse', path, ...options], { env: { TMPDIR: temporary } });
const blobFile = (of: string, digest: string) => join(of, 'blobs', 'sha256', digest.slice(7));

function copyOf(path: string): string {
  const copy = join(mkdtempSync(join(root, 'copy-')), 'bundle');
  cpSync(path, copy, { recursive: true });
  return copy;
}

describe('bundle rehearse', () => {
  it('loads every image, prints how long each took and how much space a node needs, and leaves nothing behind', async () => {
    const run = await rehearse(bundle.path, '--keys', keys);
    const withFile = await rehearse(
      bundle.path,
      '--keys',
      join(keys, `${readdirSync(keys).find((name) => name.endsWith('.pub'))}`),
    );
    expect(withFile).toMatchObject({ exitCode: 0, stderr: '' });
    expect(run).toMatchObject({ exitCode: 0, stderr: '' });
    expect(run.stdout).toMatch(/^ocp 4\.13\.7 for arm64: signature by factory-2026 ok\nRehearsing 2 images of /);
    expect(run.stdout).toMatch(/\n {2}etcd: \d+\.\d s, all its layers were there already\n/);
    expect(run.stdout).toMatch(/\n {2}proxy: \d+ KiB in \d+\.\d s, /);
    expect(run.stdout).toMatch(/\nLoaded 2 of 2 images, /);
    const { inodes } = diskUse(bundle.contents.layers, 2, 'unpacked');
    expect(run.stdout).toMatch(new RegExp(`for CRI-O .* and ${inodes} inodes`));
    expect(run.stdout).toMatch(/\nVerdict: ocp 4\.13\.7 loads, and all its images are pinned\.\n$/);
    expect(readdirSync(temporary)).toEqual([]);
  });

  it('shows a bar on a terminal from the start on, whose text is never cut', async () => {
    const { stdout, stderr } = await runCommand(['bundle', 'rehearse', bundle.path], {
      env: { TMPDIR: temporary },
      terminal: { columns: 60, stderrColumns: 60 },
    });
    const painted = stderr.split('\r\u001b[K').slice(1);
    expect(painted[0]).toMatch(/^\[\.+\] 0 % {2}0 of \d+ KiB, 0 of 2 images$/);
    expect(painted).toContainEqual(expect.stringMatching(/, 2 of 2 images$/));
    for (const line of painted) expect(line.length).toBeLessThan(60);
    expect(painted.at(-1)).toBe('');
    expect(stdout).toMatch(/^ {2}etcd: /m);
  });

  it('prints it as JSON, counts a shared layer once, and judges no signature without keys', async () => {
    const run = await rehearse(bundle.path, '--json');
    expect(run).toMatchObject({ exitCode: 0, stderr: '' });
    const report = JSON.parse(run.stdout);
    expect(report).toMatchObject({
      loads: true,
      verified: false,
      bundleId: bundle.bundleId,
      name: 'ocp',
      arch: 'arm64',
    });
    expect(report.images.map(({ reference }: { reference: string }) => reference).sort()).toEqual(
      bundle.contents.images.map(({ reference }) => reference).sort(),
    );
    const newBytes = report.images.reduce((sum: number, image: { newBytes: number }) => sum + image.newBytes, 0);
    expect(newBytes).toBe(base.sizeBytes + own.sizeBytes);
    const { diskBytes, inodes, sizeBytes } = bundle.payload.totals;
    const stored = {
      'cri-o': diskUse(bundle.contents.layers, 2, 'unpacked'),
      containerd: diskUse(bundle.contents.layers, 2, 'both'),
    };
    const staged = base.sizeBytes + own.sizeBytes;
    expect(report.need).toEqual({
      diskBytes,
      inodes,
      sizeBytes,
      stored,
      stagingBytes: staged,
      // One filesystem holds what is stored and what CRI-O stages meanwhile.
      filesystemBytes: {
        'cri-o': Math.ceil((stored['cri-o'].bytes + staged) / 0.85),
        containerd: Math.ceil(stored.containerd.bytes / 0.85),
      },
    });
  });

  it('says without keys that the signature was not judged, of an unsigned bundle too', async () => {
    const unsigned = await makeSampleBundle({ dir: join(root, 'unsigned'), arch: 'arm64', images, keys: [] });
    const run = await rehearse(unsigned.path);
    expect(run).toMatchObject({ exitCode: 0, stderr: '' });
    expect(run.stdout).toContain('signature not judged');
    expect(await rehearse(unsigned.path, '--keys', keys)).toMatchObject({
      exitCode: 4,
      stdout: '',
      stderr: expect.stringContaining('no signature'),
    });
  });

  it('ends when a bundle is ready that waits for a person', async () => {
    const manual = await makeSampleBundle({
      dir: join(root, 'manual'),
      arch: 'arm64',
      images,
      keys: [key],
      schedule: 'manual',
    });
    expect(await rehearse(manual.path, '--keys', keys)).toMatchObject({ exitCode: 0, stderr: '' });
  });

  it('loads from a tar file, and from volumes', async () => {
    const volumes = join(root, 'volumes');
    for (const volume of ['1', '2']) cpSync(bundle.path, join(volumes, volume), { recursive: true });
    rmSync(blobFile(join(volumes, '1'), base.digest));
    rmSync(blobFile(join(volumes, '2'), own.digest));
    const tar = join(root, 'it.stickpin.tar');
    const made = await runCommand(['bundle', 'inspect', volumes]);
    expect(made.stdout).not.toContain('missing');
    execFileSync('tar', ['-cf', tar, '-C', bundle.path, 'bundle.dsse.json', 'oci-layout', 'index.json', 'blobs']);
    for (const path of [tar, volumes]) {
      expect(await rehearse(path, '--keys', keys), path).toMatchObject({ exitCode: 0, stderr: '' });
    }
  });

  it.each([
    ['a layer', own.digest, 'damaged', true],
    ['a layer of all', base.digest, 'damaged', true],
    ['a config', images[0]?.image.config.digest ?? '', 'damaged', false],
  ])('names %s that is damaged, and the image', async (_what, digest, why, hasImage) => {
    const copy = copyOf(bundle.path);
    flipByte(blobFile(copy, digest), 20);
    const run = await rehearse(copy, '--keys', keys);
    expect(run.exitCode).toBe(4);
    expect(run.stderr).toMatch(new RegExp(`^stickpin: ocp 4\\.13\\.7 does not load: blob ${digest}.* is ${why}.*\\n$`));
    if (hasImage) expect(run.stderr).toMatch(/of quay\.example\.com\/(coreos\/etcd|edge\/proxy) is/);
    expect(run.stdout).toContain('Verdict: ocp 4.13.7 does not load.');
    expect(readdirSync(temporary)).toEqual([]);
  });

  it('names a layer that is not there', async () => {
    const copy = copyOf(bundle.path);
    rmSync(blobFile(copy, own.digest));
    const run = await rehearse(copy, '--json');
    expect(run).toMatchObject(ended(4, `blob ${own.digest} of quay.example.com/edge/proxy is absent`));
    expect(JSON.parse(run.stdout)).toMatchObject({ loads: false, blobs: [{ digest: own.digest, why: 'absent' }] });
  });

  it('copies artifacts, counts them, and ends with the damage of one', async () => {
    const weights = Buffer.alloc(3_000_000, 'w');
    const artifacts = [
      { reference: 'models.example.com/small:1', image: sampleArtifact({ files: { 'weights.bin': weights } }) },
    ];
    const { path } = await makeSampleBundle({
      dir: join(root, 'artifacts'),
      arch: 'arm64',
      images,
      keys: [key],
      artifacts,
    });
    const whole = await rehearse(path);
    expect(whole).toMatchObject({ exitCode: 0 });
    const [, bytes] = /for CRI-O +([\d.]+ MiB) and \d+ inodes for images and artifacts/.exec(whole.stdout) ?? [];
    // CRI-O has copies of its own.
    expect(Number.parseFloat(bytes ?? '')).toBeGreaterThan((2 * weights.length) / 1024 ** 2);
    const copy = copyOf(path);
    flipByte(blobFile(copy, digestOf(weights)), 2_000_000);
    const bad = await rehearse(copy);
    expect(bad.exitCode).toBe(4);
    expect(bad.stderr).toContain(`blob ${digestOf(weights)} of models.example.com/small is damaged`);
  });

  it('refuses what a node would refuse: one that has expired', async () => {
    const old = await makeSampleBundle({
      dir: join(root, 'old'),
      arch: 'arm64',
      images,
      keys: [key],
      expires: '2026-01-02T00:00:00Z',
    });
    const run = await rehearse(old.path, '--keys', keys);
    expect(run.exitCode).toBe(4);
    expect(run.stderr).toMatch(/does not load: .*expired/);
  });

  it('adopts a bundle without images', async () => {
    const advisory = join(root, 'advisory.json');
    writeFileSync(advisory, JSON.stringify({ version: '4.13.5', deadend: true, reason: 'may lose writes' }));
    const named = ['--name', 'ocp', '--version', '4.13.8', '--arch', 'arm64', '--sequence', '38'];
    const path = join(root, 'notice');
    const made = await runCommand(['bundle', 'create', ...named, '--advisory', advisory, '--out', path]);
    expect(made.exitCode, made.stderr).toBe(0);
    const run = await rehearse(path);
    expect(run).toMatchObject({ exitCode: 0, stderr: '' });
    expect(run.stdout).toMatch(/\nVerdict: ocp 4\.13\.8 is adopted; it carries no image\.\n$/);
    expect(JSON.parse((await rehearse(path, '--json')).stdout)).toMatchObject({ loads: true, images: [] });
  });

  describe('of a delta', () => {
    let delta: string;
    let second: string;
    /** Makes `DIR` for a new image and the one of the base, without the layers that `base` has. */
    async function makeDelta(dir: string, patch: number, base: string): Promise<string> {
      const layout = join(root, `layout-${patch}`);
      const fresh = sampleLayer({ seed: `fresh ${patch}` });
      const layers = patch === 9 ? [own, fresh] : [own];
      const image = sampleImage({ seed: `web ${patch}`, architecture: 'arm64', layers });
      const etcd = images[0]?.image ?? expect.unreachable();
      writeOciLayout(layout, [
        { image, names: ['web'] },
        { image: etcd, names: ['etcd'] },
      ]);
      const named = ['--name', 'ocp', '--version', `4.13.${patch}`, '--arch', 'arm64', '--sequence', `${30 + patch}`];
      const path = join(root, dir);
      const from = [
        `quay.example.com/edge/web:${patch}=oci:${layout}:web`,
        `quay.example.com/coreos/etcd:${patch}=oci:${layout}:etcd`,
      ];
      const made = await runCommand([
        ...['bundle', 'create', ...named, '--base', base, '--out', path],
        ...from.flatMap((one) => ['--image', one]),
      ]);
      expect(made.exitCode, made.stderr).toBe(0);
      return path;
    }
    beforeAll(async () => {
      delta = await makeDelta('delta', 8, bundle.path);
      second = await makeDelta('delta-of-delta', 9, delta);
    });

    it('names the base that is missing', async () => {
      const message =
        /^stickpin: ocp 4\.13\.8 is a delta, and a node holds it until it has ocp@4\.13\.7 \(sha256:[0-9a-f]{12}…\): give that bundle with --base$/m;
      expect(await rehearse(delta)).toMatchObject(ended(1, message));
      const { stdout } = await rehearse(delta, '--base', delta, '--json');
      expect(JSON.parse(stdout)).toMatchObject({ error: { code: 'cli/rehearsal', exitCode: 1 } });
      expect((await rehearse(second, '--base', delta)).stderr).toContain('4.13.8 is a delta');
    });

    it('loads after its base, also after a delta', async () => {
      const run = await rehearse(delta, '--base', bundle.path, '--json');
      expect(run.exitCode, run.stderr).toBe(0);
      const { images: loaded, ...others } = JSON.parse(run.stdout);
      expect(others).toMatchObject({ loads: true, version: '4.13.8' });
      expect(loaded).toContainEqual(
        expect.objectContaining({ reference: expect.stringContaining('/web@'), newBytes: 0 }),
      );
      const both = await rehearse(second, '--base', delta, '--base', bundle.path);
      expect(both.stdout, both.stderr).toContain('Loaded 2 of 2 images');
      expect(both.stdout).not.toContain('proxy');
      expect(both.stdout).toContain('Verdict: ocp 4.13.9 loads, and all its images are pinned.');
      expect(readdirSync(temporary)).toEqual([]);
    });

    it('does not load when a layer of its base is damaged', async () => {
      const damaged = copyOf(bundle.path);
      flipByte(blobFile(damaged, own.digest));
      const { exitCode, stderr } = await rehearse(delta, '--base', damaged);
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining('ocp 4.13.8 does not load: ')]);
    });
  });

  it('reports missing space before it starts', async () => {
    // A filesystem without any room on every Linux machine.
    const run = await runCommand(['bundle', 'rehearse', bundle.path], { env: { TMPDIR: '/proc' } });
    expect(run).toMatchObject({
      exitCode: 1,
      stdout: '',
      stderr: expect.stringMatching(/needs .* in \/proc, and 0 B are free; .*TMPDIR\n$/),
    });
    const nowhere = await runCommand(['bundle', 'rehearse', bundle.path], { env: { TMPDIR: join(root, 'nowhere') } });
    expect(nowhere).toMatchObject(ended(1, "nowhere can't be used"));
  });

  it('leaves nothing behind when it is interrupted', async () => {
    const interrupt = new AbortController();
    const run = await runCommand(['bundle', 'rehearse', bundle.path], {
      env: { TMPDIR: temporary },
      signal: interrupt.signal,
      onOutput: (stdout) => stdout.includes('proxy: ') && interrupt.abort(),
    });
    expect(run).toMatchObject({ exitCode: 1, stderr: 'stickpin: interrupted\n' });
    expect(run.stdout).not.toContain('Verdict');
    expect(readdirSync(temporary)).toEqual([]);
    mkdirSync(join(temporary, 'second'));
    await expect(
      commandAdapters.rehearseBundle(
        {
          volumes: [bundle.path],
          bases: [],
          bundle: { ...bundle, signedBy: [], signerKeyIds: [] },
          keys: undefined,
          temporary: join(temporary, 'second'),
          onImage: () => undefined,
          onBytes: () => undefined,
        },
        interrupt.signal,
      ),
    ).rejects.toThrow();
    expect(readdirSync(join(temporary, 'second'))).toEqual([]);
  });
});
