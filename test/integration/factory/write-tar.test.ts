import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseImageRequest } from '../../../src/bundle/image-request.ts';
import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { judgeBundle } from '../../../src/bundle/verify/judge-bundle.ts';
import { verifyBlobs } from '../../../src/bundle/verify/verify-blobs.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../src/factory/create-options.ts';
import { signBundle } from '../../../src/factory/payload/sign-envelope.ts';
import type { CreateProgress } from '../../../src/factory/progress.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import { sampleKey, trustIn } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, type Requirement } from '../../support/requirements.ts';

const { signal } = new AbortController();
const factory = sampleKey('factory');
const audit = sampleKey('audit');
const root = folderForEach();
let out: string;
beforeEach(() => {
  out = join(root, 'out');
  const layers = [sampleLayer({ seed: 'a', sizeBytes: 60_000 }), sampleLayer({ seed: 'b', sizeBytes: 40_000 })];
  writeOciLayout(join(root, 'layout'), [{ image: sampleImage({ seed: 'a', architecture: 'amd64', layers }) }]);
});

function make(name: string, more: Partial<CreateOptions> = {}, abort = signal) {
  const images = [`quay.example.com/a:1=oci:${join(root, 'layout')}`];
  return createBundle(sampleCreateOptions(join(out, name), images, { keys: [factory.privateKey], ...more }), abort);
}

describe('a bundle that is made as a tar file', () => {
  it('holds the same tree as the directory, with the envelope first', async () => {
    const directory = await make('directory');
    const { path, bundleId } = await make('ocp.stickpin.tar');
    expect(bundleId).toBe(directory.bundleId);
    const names = execFileSync('tar', ['-tf', path], { encoding: 'utf8' }).trim().split('\n');
    expect(names.slice(0, 5)).toEqual(['bundle.dsse.json', 'oci-layout', 'index.json', 'blobs/', 'blobs/sha256/']);
    expect(names.slice(5)).toEqual(names.slice(5).sort());
    const unpacked = join(root, 'unpacked');
    mkdirSync(unpacked);
    execFileSync('tar', ['-xf', path, '-C', unpacked]);
    expect(filesOf(unpacked)).toEqual(filesOf(directory.path));
    expect(statSync(join(unpacked, 'index.json')).mtime).toEqual(new Date('2026-01-01T00:00:00Z'));
    expect(statSync(path).mode & 0o777).toBe(0o644);
    expect(readdirSync(out).sort()).toEqual(['directory', 'ocp.stickpin.tar']);
  });

  it('has the same bytes each time, and is verified in place', async () => {
    const [one, two] = [await make('one.stickpin.tar'), await make('two.stickpin.tar')];
    expect(readFileSync(one.path).equals(readFileSync(two.path))).toBe(true);
    const reader = openBundle(one.path);
    const judged = await judgeBundle(reader, await trustIn([factory], root), signal);
    expect(judged).toMatchObject({ bundle: { bundleId: one.bundleId }, missing: [] });
    expect(await verifyBlobs(reader, judged.blobs, signal)).toEqual([]);
  });

  it('replaces nothing that is there', async () => {
    mkdirSync(out);
    writeFileSync(join(out, 'ocp.stickpin.tar'), 'mine');
    await expect(make('ocp.stickpin.tar')).rejects.toMatchObject({ code: 'bundle/target' });
    expect(readFileSync(join(out, 'ocp.stickpin.tar'), 'utf8')).toBe('mine');
    mkdirSync(join(out, 'empty.stickpin.tar'));
    await expect(make('empty.stickpin.tar')).rejects.toMatchObject({ code: 'bundle/target' });
    expect(readdirSync(out).sort()).toEqual(['empty.stickpin.tar', 'ocp.stickpin.tar']);
  });

  it('leaves nothing behind when it is interrupted', async () => {
    const abort = new AbortController();
    const onProgress = ({ kind }: CreateProgress) => {
      if (kind === 'pack') abort.abort(new Error('interrupted'));
    };
    mkdirSync(out);
    await expect(make('ocp.stickpin.tar', { onProgress }, abort.signal)).rejects.toThrow('interrupted');
    expect(readdirSync(out)).toEqual([]);
  });
});

describe('signing a tar file', () => {
  it('adds a signature and leaves every other byte', async () => {
    const { path, bundleId } = await make('ocp.stickpin.tar');
    const rest = readFileSync(path).subarray(restAt(path));
    const { signatures } = await signBundle(path, audit.privateKey, signal);
    expect(signatures.map(({ keyId }) => keyId)).toEqual([factory.privateKey.keyId, audit.privateKey.keyId]);
    expect(readFileSync(path).subarray(restAt(path)).equals(rest)).toBe(true);
    const judged = await judgeBundle(openBundle(path), await trustIn([factory, audit], root, 2), signal);
    expect(judged.bundle).toMatchObject({ bundleId, signedBy: ['audit', 'factory'] });
    expect(readdirSync(out)).toEqual(['ocp.stickpin.tar']);
  });

  it.each(['gnu', 'posix'])('takes one that GNU tar made as %s', async (format) => {
    const { path } = await make('directory');
    const file = join(out, 'gnu.stickpin.tar');
    const members = ['bundle.dsse.json', 'oci-layout', 'index.json', 'blobs'];
    execFileSync('tar', [`--format=${format}`, '-cf', file, '-C', path, ...members]);
    await signBundle(file, audit.privateKey, signal);
    const judged = await judgeBundle(openBundle(file), await trustIn([audit], root), signal);
    expect(judged).toMatchObject({ bundle: { signedBy: ['audit'] }, missing: [] });
    expect(execFileSync('tar', ['-tf', file], { encoding: 'utf8' })).toMatch(/^bundle\.dsse\.json\noci-layout\n/);
  });

  it('leaves it as it was when it is interrupted', async () => {
    const { path } = await make('ocp.stickpin.tar');
    const before = readFileSync(path);
    const abort = new AbortController();
    const signing = signBundle(path, audit.privateKey, abort.signal);
    abort.abort(new Error('interrupted'));
    await expect(signing).rejects.toThrow('interrupted');
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(out)).toEqual(['ocp.stickpin.tar']);
  });

  it('refuses one that is not a bundle', async () => {
    const path = join(root, 'no.stickpin.tar');
    writeFileSync(path, Buffer.alloc(1024));
    await expect(signBundle(path, audit.privateKey, signal)).rejects.toMatchObject({ code: 'bundle/tar' });
    expect(readFileSync(path)).toEqual(Buffer.alloc(1024));
  });
});

/** Every file below a directory with its bytes. */
function filesOf(directory: string): [string, Buffer][] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(directory, name)).isFile())
    .sort()
    .map((name) => [name, readFileSync(join(directory, name))]);
}

/** Where the second header begins. */
function restAt(path: string): number {
  const bytes = readFileSync(path);
  return bytes.indexOf('oci-layout\0');
}

const mounting: Requirement = {
  name: 'mounting',
  isMet: () => spawnSync('unshare', ['--mount', 'true']).status === 0,
  remedy: 'run as root with CAP_SYS_ADMIN',
};

describe.runIf(have('root', mounting))('a filesystem that is too small for a tar file', () => {
  beforeEach(() => {
    mkdirSync(out);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=288k', 'tmpfs', out]);
  });
  afterEach(() => {
    execFileSync('umount', [out]);
  });

  it('is left as it was by create, whether missing space is noticed early or late', async () => {
    const big = writeLarge();
    await expect(make('ocp.stickpin.tar', { images: [big] })).rejects.toMatchObject({ code: 'bundle/no-space' });
    expect(readdirSync(out)).toEqual([]);
    const onProgress = () => writeFileSync(join(out, 'other'), Buffer.alloc(140_000));
    await expect(make('ocp.stickpin.tar', { onProgress })).rejects.toMatchObject({ code: 'bundle/no-space' });
    expect(readdirSync(out)).toEqual(['other']);
  });

  it('is left as it was by sign', async () => {
    const { path } = await make('ocp.stickpin.tar');
    const before = readFileSync(path);
    writeFileSync(join(out, 'other'), Buffer.alloc(120_000));
    await expect(signBundle(path, audit.privateKey, signal)).rejects.toMatchObject({ code: 'bundle/no-space' });
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(out).sort()).toEqual(['ocp.stickpin.tar', 'other']);
  });

  /** One layer that fits once, and not twice. */
  function writeLarge() {
    const layout = join(root, 'large');
    const layers = [sampleLayer({ seed: 'large', sizeBytes: 160_000 })];
    writeOciLayout(layout, [{ image: sampleImage({ seed: 'large', architecture: 'amd64', layers }) }]);
    return parseImageRequest(`quay.example.com/large:1=oci:${layout}`);
  }
});
