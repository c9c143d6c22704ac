import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeEach, expect, it } from 'vitest';
import { parseImageRequest } from '../../../../src/bundle/image-request.ts';
import { renderList } from '../../../../src/cli/output/render/render-status.ts';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import { createBundle } from '../../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../../src/factory/create-options.ts';
import { sampleCreateOptions } from '../../../support/bundles/create-options.ts';
import { hostArch } from '../../../support/bundles/sample-bundle.ts';
import {
  digestOf,
  sampleArtifact,
  sampleImage,
  seededBytes,
  writeOciLayout,
} from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { freePort } from '../../../support/free-port.ts';
import { have } from '../../../support/requirements.ts';

const unstopped = new AbortController().signal;
const MIB = 1024 * 1024;
const REPOSITORY = 'models.example.com/small';
const weights = seededBytes('weights', 4 * MIB);
const notes = Buffer.from('what it was made of');
const model = sampleArtifact({ files: { 'weights.bin': weights, 'README.md': notes } });
const dir = folderForEach();
let node: DaemonHarness;
let gate: StickGate;
let port: number;

beforeEach(async () => {
  gate = createStickGate();
  port = await freePort();
  const settings = { registry: { listen: `127.0.0.1:${port}` }, lifecycle: { soak: 0 } };
  node = await createDaemonHarness({ watchBundle: gate.watchBundle, settings });
  await node.start();
});

/** A release of one image with the model. */
function make(out: string, more: Partial<CreateOptions> = {}) {
  const layout = join(dir, `layout-${out}`);
  mkdirSync(layout, { recursive: true });
  writeOciLayout(layout, [
    { image: sampleImage({ seed: out, architecture: hostArch }), names: ['image'] },
    { image: model, names: ['model'] },
  ]);
  const options = sampleCreateOptions(join(dir, out), [`quay.example.com/a:1=oci:${layout}:image`], {
    arch: hostArch,
    artifacts: [parseImageRequest(`${REPOSITORY}:v1=oci:${layout}:model`)],
    keys: [node.key.privateKey],
    ...more,
  });
  return createBundle(options, new AbortController().signal);
}

const kept = (bytes: Buffer) => join(node.base, 'state/blobs/layers', hexOf(digestOf(bytes) as Digest));
const isKept = (bytes: Buffer) => readdirSync(join(kept(bytes), '..')).includes(hexOf(digestOf(bytes) as Digest));

/** From the registry on loopback, as a client that is no runtime. */
async function answer(path: string): Promise<Response> {
  const token = readFileSync(join(node.base, 'state/registry-token'), 'utf8').trim();
  return fetch(`http://127.0.0.1:${port}/v2/${token}/${REPOSITORY}/${path}`);
}

it('is kept with its release, counted apart, and served by digest and tag without the stick', async () => {
  const { path } = await make('one');
  await node.load(path);
  expect(node.report().bundles[0]).toMatchObject({
    phase: 'activated',
    images: { total: 1, present: 1 },
    artifacts: { total: 1, present: 1 },
  });
  expect(renderList(node.report())).toContain('ocp@4.13.7: 1 of 1 artifact kept on this node');
  expect((await node.images()).flatMap(({ repoDigests }) => repoDigests).join()).not.toContain(REPOSITORY);
  await node.takeOut();
  const manifest = await answer('manifests/v1');
  expect(manifest.headers.get('content-type')).toBe(model.top.mediaType);
  expect(Buffer.from(await manifest.arrayBuffer())).toEqual(model.top.bytes);
  expect((await answer(`manifests/${model.top.digest}`)).status).toBe(200);
  for (const bytes of [weights, notes, model.config.bytes]) {
    expect(Buffer.from(await (await answer(`blobs/${digestOf(bytes)}`)).arrayBuffer()).equals(bytes)).toBe(true);
  }
});

it.runIf(have('skopeo'))('is taken by skopeo from the registry on loopback, by its tag', async () => {
  const { path } = await make('one');
  await node.load(path);
  await node.takeOut();
  const token = readFileSync(join(node.base, 'state/registry-token'), 'utf8').trim();
  const from = `docker://127.0.0.1:${port}/${token}/${REPOSITORY}:v1`;
  const to = join(dir, 'taken');
  await promisify(execFile)('skopeo', [
    ...['--insecure-policy', 'copy', '--quiet', '--src-tls-verify=false', from, `oci:${to}:v1`],
  ]);
  expect(readFileSync(join(to, 'blobs/sha256', hexOf(digestOf(weights) as Digest))).equals(weights)).toBe(true);
});

it('holds its release until it is whole, and continues from the same byte when the stick comes back', async () => {
  const { path } = await make('one');
  const digest = digestOf(weights) as Digest;
  gate.hold(digest, 2 * MIB);
  node.plug(path);
  await gate.reached();
  const copying = await node.until(({ status }) => status.includes(': Copying artifacts of ocp 4.13.7'));
  expect(copying.status).toMatch(/^LEAVE THE STICK IN: /);
  expect(copying.bundles[0]).toMatchObject({
    phase: 'preloading',
    images: { present: 1 },
    artifacts: { total: 1, present: 0 },
  });
  await node.takeOut();
  const held = await node.until(({ bundles }) => bundles[0]?.hold === 'media');
  expect(held.bundles[0]?.reason?.message).toContain('1/1 images, 0/1 artifacts');
  expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
    "can't be activated yet: ocp 4.13.7 was taken out",
  );
  gate.release();
  node.plugAgain();
  await node.activated();
  expect(gate.starts(digest).at(-1)).toBeGreaterThan(0);
});

const document = (digest: string) => join(node.base, 'state/blobs/sha256', hexOf(digest as Digest));
it.each([
  ['a file', () => kept(weights)],
  ['its manifest', () => document(model.top.digest)],
  ['its config', () => document(model.config.digest)],
])('is copied again when it was lost, and names its stick meanwhile: %s', async (_what, lost) => {
  const { path } = await make('one');
  await node.load(path);
  await node.takeOut();
  await node.stop();
  const before = readFileSync(lost());
  rmSync(lost());
  await node.start();
  const report = await node.until(({ bundles }) => bundles[0]?.artifacts?.present === 0);
  expect(report.bundles[0]?.phase).toBe('activated');
  await node.until(({ status }) => /1 of 2 images and artifacts of ocp 4\.13\.7 is missing.*Plug in/.test(status));
  node.plugAgain();
  await node.until(({ bundles }) => bundles[0]?.artifacts?.present === 1);
  expect(readFileSync(lost()).equals(before)).toBe(true);
});

it.each<[string, () => void]>([
  ['is damaged', () => writeFileSync(kept(weights), Buffer.alloc(weights.length, 'x'))],
  ['is cut off', () => truncateSync(kept(weights), MIB)],
  ['is removed', () => rmSync(kept(weights))],
])('says so when a file of it %s in the store meanwhile, and takes a whole one from the stick', async (_how, lose) => {
  const { path } = await make('one');
  await node.load(path);
  await node.takeOut();
  lose();
  // No client gets it whole.
  const body = answer(`blobs/${digestOf(weights)}`).then((response) => response.arrayBuffer());
  expect(await body.then((bytes) => Buffer.from(bytes).equals(weights)).catch(() => false)).toBe(false);
  node.engine.kick();
  const lost = await node.until(({ bundles }) => bundles[0]?.artifacts?.present === 0);
  expect(lost.bundles[0]?.degraded?.message).toContain('Plug in the stick of ocp 4.13.7');
  node.plugAgain();
  await node.until(({ bundles }) => bundles[0]?.artifacts?.present === 1 && bundles[0].degraded === undefined);
  expect(readFileSync(kept(weights)).equals(weights)).toBe(true);
});

it('is verified with the images, which finds a damaged file before anybody asks for it', async () => {
  const { path } = await make('one');
  await node.load(path);
  await node.takeOut();
  const found = async () => {
    const all = await node.engine.verifyImages('', unstopped);
    return all.find(({ image }) => image.startsWith(`${REPOSITORY}@`));
  };
  expect(await found()).toMatchObject({ result: 'whole', releases: ['ocp@4.13.7'], next: '' });
  writeFileSync(kept(weights), Buffer.alloc(weights.length, 'x'));
  expect(await found()).toMatchObject({
    result: 'damaged',
    found: expect.stringMatching(/^sha256:[0-9a-f]+… is altered$/),
    next: 'It is copied from a medium with ocp 4.13.7.',
  });
  await node.until(({ bundles }) => bundles[0]?.artifacts?.present === 0);
  node.plugAgain();
  await node.until(({ bundles }) => bundles[0]?.artifacts?.present === 1);
  expect(await found()).toMatchObject({ result: 'whole' });
});

it('goes with its release, but not while another release has it', async () => {
  const first = await make('one');
  const second = await make('two', { version: '4.13.8', sequence: 2, artifacts: [] });
  const third = await make('three', { version: '4.13.9', sequence: 3 });
  await node.load(first.path);
  await node.takeOut();
  await node.engine.commands.unpin({ bundle: 'ocp@4.13.7', removeImages: false, force: true }, unstopped);
  await eventually(() => expect(isKept(weights)).toBe(false));
  await node.stop();
  await node.start();
  const gone = 'it is retired and 1 of its images and artifacts are gone; plug in its stick';
  await eventually(() => expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(gone));
  for (const { path, payload } of [second, third]) {
    node.plug(path);
    await node.until(({ bundles }) =>
      bundles.some(({ version, phase }) => version === payload.version && phase === 'activated'),
    );
    await node.takeOut();
  }
  expect(isKept(weights)).toBe(true);
});

it('is left as it is when its release is cancelled, and copied when its stick is plugged in again', async () => {
  const { path } = await make('one');
  gate.hold(digestOf(weights) as Digest, 2 * MIB);
  node.plug(path);
  await gate.reached();
  node.engine.commands.cancel();
  const held = await node.until(({ bundles }) => bundles[0]?.hold === 'cancelled');
  expect(held.bundles[0]?.artifacts?.present).toBe(0);
  gate.release();
  await node.takeOut();
  node.plugAgain();
  await node.activated();
});

it('is damaged on the stick: says so, and continues with a whole one', async () => {
  const { path } = await make('one');
  const blob = join(path, 'blobs/sha256', hexOf(digestOf(weights) as Digest));
  writeFileSync(blob, Buffer.alloc(weights.length, 'x'));
  node.plug(path);
  const damaged = await node.until(({ bundles }) => /damaged/.test(bundles[0]?.reason?.message ?? ''));
  expect(damaged.bundles[0]).toMatchObject({ phase: 'preloading', artifacts: { present: 0 } });
  await node.takeOut();
  writeFileSync(blob, weights);
  rmSync(node.at('pocket'), { recursive: true });
  await node.load(path);
});
