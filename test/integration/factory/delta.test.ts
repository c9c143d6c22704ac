import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  digestOf,
  type SampleBlob,
  type SampleImage,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { startServing } from '../../support/bundles/served-bundle.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { runCommand } from '../../support/run-command.ts';

const KIB = 1024;
const root = folderForEach();
let keys: string;
const run = (...args: string[]) => runCommand(args);
const at = (name: string) => join(root, name);
const below = sampleLayer({ seed: 'os', sizeBytes: 200 * KIB });
const tops = [1, 2].map((version) => sampleLayer({ seed: `etcd-${version}` }));
const images = tops.map((top, index) =>
  sampleImage({ seed: `etcd-${index}`, architecture: 'amd64', layers: [below, top] }),
);
const blob = (bundle: string, digest: string) => join(at(bundle), 'blobs', 'sha256', digest.slice(7));

function create(out: string, image: string, sequence: number, ...more: string[]) {
  const named = ['--name', 'ocp', '--version', `4.13.${sequence}`, '--arch', 'amd64', '--sequence', String(sequence)];
  const reference = `quay.example.com/etcd:${image}=oci:${at('layout')}:${image}`;
  const files = ['--out', at(out), '--image', reference, '--key', join(keys, 'factory.key')];
  return run('bundle', 'create', ...named, ...files, ...more);
}

const verify = (bundle: string, ...more: string[]) => run('bundle', 'verify', at(bundle), '--keys', keys, ...more);

beforeEach(async () => {
  keys = at('keys.d');
  mkdirSync(keys);
  const names = ['first', 'second'];
  writeOciLayout(
    at('layout'),
    images.map((image, index) => ({ image, names: [names[index] ?? ''] })),
  );
  await run('keygen', '--out', join(keys, 'factory'));
  expect(await create('base', 'first', 6)).toMatchObject({ exitCode: 0 });
});

describe('bundle serve', () => {
  it('counts the blobs separately that a delta leaves to its base', async () => {
    expect(await create('delta', 'second', 7, '--base', at('base'))).toMatchObject({ exitCode: 0 });
    const served = await startServing(at('delta'));
    await served.stop();
    expect(served.stderr()).toBe('stickpin: 1 blob is left to the base ocp@4.13.6, and not served here\n');
    rmSync(blob('delta', tops[1]?.digest ?? ''));
    const lacking = await startServing(at('delta'));
    await lacking.stop();
    expect(lacking.stderr()).toContain("stickpin: 1 blob of the bundle can't be served; see stickpin bundle verify\n");
  });
});

describe('bundle create --base', () => {
  it('leaves out the layers of the base, but describes them', async () => {
    expect(await create('delta', 'second', 7, '--base', at('base'))).toMatchObject({ exitCode: 0 });
    expect(existsSync(blob('delta', below.digest))).toBe(false);
    expect(existsSync(blob('delta', tops[1]?.digest ?? ''))).toBe(true);
    const base = JSON.parse((await run('bundle', 'inspect', at('base'), '--json')).stdout);
    const { payload, contents, missing, leftToBase } = JSON.parse(
      (await run('bundle', 'inspect', at('delta'), '--json')).stdout,
    );
    expect(payload.update).toEqual({ base: base.bundleId });
    expect(payload.annotations).toEqual({ 'io.stickpin.base': 'ocp@4.13.6' });
    const known = base.contents.layers.find(({ digest }: { digest: string }) => digest === below.digest);
    expect(contents.layers[0]).toEqual({ ...known, inBase: true });
    expect(contents.layers[1]).not.toHaveProperty('inBase');
    expect(payload.totals).toMatchObject({ blobs: 4 });
    expect({ missing, leftToBase }).toEqual({ missing: [], leftToBase: [below.digest] });
    const text = (await run('bundle', 'inspect', at('delta'))).stdout;
    expect(text).toMatch(/base +ocp@4\.13\.6, sha256:[0-9a-f]{64}; 1 blob of 201 KiB left to it/);
    expect(text).not.toContain('missing');
  });

  it('makes a tar file and volumes that hold only the new blobs', async () => {
    expect(await create('d.stickpin.tar', 'second', 7, '--base', at('base'))).toMatchObject({ exitCode: 0 });
    expect(await verify('d.stickpin.tar')).toMatchObject({ exitCode: 0 });
    const volumes = ['--base', at('base'), '--volume-size', '0.1 MiB'];
    expect(await create('volumes', 'second', 7, ...volumes)).toMatchObject({ exitCode: 0 });
    expect(readdirSync(at('volumes'))).toEqual(['1']);
  });

  it('builds on a bundle in tar form, on a volume, and on a delta', async () => {
    expect(await create('b.stickpin.tar', 'first', 6)).toMatchObject({ exitCode: 0 });
    await create('volumes', 'first', 6, '--volume-size', '0.25 MiB');
    await create('delta', 'second', 7, '--base', at('base'));
    for (const [index, base] of ['b.stickpin.tar', 'volumes/1', 'delta'].entries()) {
      expect(await create(`on-${index}`, 'second', 8, '--base', at(base))).toMatchObject({ exitCode: 0 });
      expect(existsSync(blob(`on-${index}`, below.digest))).toBe(false);
    }
    const again = await verify('on-2', '--base', at('delta'));
    expect(again).toMatchObject({ exitCode: 0 });
    expect(again.stdout).toMatch(/2 blobs left to base ocp@4\.13\.7 \(.*\), which leaves 1 of them to its own base\n/);
  });

  it('makes a complete bundle, with a warning, when the base has none of its layers', async () => {
    writeOciLayout(at('layout'), [{ image: sampleImage({ seed: 'new', architecture: 'amd64' }), names: ['new'] }]);
    const made = await create('alone', 'new', 7, '--base', at('base'));
    expect(made).toMatchObject({ exitCode: 0 });
    expect(made.stderr).toContain('no layer can be left to the base ocp@4.13.6');
    const { payload } = JSON.parse((await run('bundle', 'inspect', at('alone'), '--json')).stdout);
    expect(payload).not.toHaveProperty('update');
    expect(payload).not.toHaveProperty('annotations');
  });

  it('refuses a base of another stream', async () => {
    const refused = await create('delta', 'second', 7, '--base', at('base'), '--name', 'tools');
    expect(refused).toMatchObject({ exitCode: 2 });
    expect(refused.stderr).toMatch(/^stickpin: base: .* is of stream ocp, and the new bundle of tools\n$/);
  });

  it('refuses what is not a base in one line, and leaves nothing behind', async () => {
    mkdirSync(at('empty'));
    const before = readdirSync(root);
    for (const base of ['none', 'empty', 'keys.d/factory.pub']) {
      const refused = await create('delta', 'second', 7, '--base', at(base));
      expect(refused).toMatchObject({ exitCode: 2 });
      expect(refused.stderr).toMatch(new RegExp(`^stickpin: base: [^\\n]*${base}[^\\n]*\\n$`));
    }
    expect(readdirSync(root)).toEqual(before);
  });
});

describe('bundle verify of a delta', () => {
  beforeEach(async () => {
    await create('delta', 'second', 7, '--base', at('base'));
  });

  it('reports nothing as missing that is left to the base, with and without --full', async () => {
    for (const more of [[], ['--full']]) {
      const { exitCode, stdout } = await verify('delta', ...more);
      expect(exitCode).toBe(0);
      expect(stdout).toMatch(/ok, 3 of 4 blobs .*\n {2}1 blob left to base ocp@4\.13\.6 \(.*\); .*--base BUNDLE\n$/);
    }
    expect(JSON.parse((await verify('delta', '--json')).stdout)).toMatchObject({
      verified: true,
      blobs: 4,
      base: { blobs: 1, unchecked: 1 },
      missing: [],
    });
  });

  it('checks the given base', async () => {
    const whole = await verify('delta', '--base', at('base'), '--full');
    expect(whole).toMatchObject({ exitCode: 0 });
    expect(whole.stdout).toMatch(/ok, 4 of 4 blobs read and right\n {2}1 blob left to base ocp@4\.13\.6 \(.*\)\n$/);
    truncateSync(blob('base', below.digest), 9);
    const short = await verify('delta', '--base', at('base'));
    expect(short).toMatchObject({ exitCode: 4 });
    expect(short.stdout).toContain(`${below.digest} is truncated`);
  });

  it('refuses another bundle as the base', async () => {
    const other = await verify('delta', '--base', at('delta'));
    expect(other).toMatchObject({ exitCode: 4 });
    expect(other.stderr).toMatch(/delta is ocp@4\.13\.7, .*: the bundle builds on sha256:[0-9a-f]{64}\n$/);
  });

  it('reports a blob as missing that the delta itself has lost', async () => {
    rmSync(blob('delta', tops[1]?.digest ?? ''));
    const lost = await verify('delta');
    expect(lost).toMatchObject({ exitCode: 4 });
    expect(lost.stderr).toContain('1 of 4 blobs are absent or damaged');
  });
});

describe('the same bundle again', () => {
  it.each([
    ['delta', []],
    ['delta.stickpin.tar', []],
    ['volumes', ['--volume-size', '0.1 MiB']],
  ])('is the same in every byte, as %s', async (name, more) => {
    const advisory = at('advisory.json');
    writeFileSync(advisory, JSON.stringify({ version: '4.13.5', deadend: true, reason: 'x' }));
    const rollout = ['--rollout-start', '2026-05-01T22:00:00Z', '--rollout-minutes', '9', '--advisory', advisory];
    const options = ['--base', at('base'), '--attach', advisory, '--trust-key', join(keys, 'factory.pub'), ...rollout];
    const trees = [];
    for (const folder of ['first', 'second']) {
      mkdirSync(at(folder));
      expect(await create(join(folder, name), 'second', 7, ...options, ...more)).toMatchObject({ exitCode: 0 });
      trees.push(treeOf(at(folder)));
    }
    expect(trees[1]).toEqual(trees[0]);
  });
});

/** Bytes of every file below a folder, by path. */
function treeOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const plain = files.filter((file) => statSync(join(folder, file)).isFile());
  return Object.fromEntries(plain.map((file) => [file, digestOf(readFileSync(join(folder, file)))]));
}

describe('bundle verify', () => {
  it.each([
    ['absent', undefined, 'oci-layout is not there'],
    ['no JSON', 'x', 'oci-layout is not JSON'],
    ['of a version that is not known', '{"imageLayoutVersion":"2.0.0"}', 'imageLayoutVersion "2.0.0" is not known'],
  ])('requires the file oci-layout: %s', async (_, text, message) => {
    if (text === undefined) rmSync(join(at('base'), 'oci-layout'));
    else writeFileSync(join(at('base'), 'oci-layout'), text);
    expect(await verify('base')).toMatchObject(ended(4, message));
  });
});

it('bundle create refuses a layer that is too large for FAT, and accepts it with --allow-large-blobs', async () => {
  const { digest, config, manifest } = {
    digest: tops[0]?.digest ?? '',
    config: images[0]?.config,
    manifest: images[0],
  };
  const parsed = JSON.parse(manifest?.manifest.bytes.toString() ?? '{}');
  parsed.layers[1].size = 4 * 1024 ** 3;
  const bytes = Buffer.from(JSON.stringify(parsed));
  const claimed = { ...manifest?.manifest, digest: digestOf(bytes), sizeBytes: bytes.length, bytes } as SampleBlob;
  const image = { manifest: claimed, config, layers: [], top: claimed, blobs: [claimed] } as unknown as SampleImage;
  writeOciLayout(at('layout'), [{ image, names: ['large'] }]);
  const refused = await create('large', 'large', 7);
  expect(refused).toMatchObject({ exitCode: 1 });
  expect(refused.stderr).toMatch(/layer sha256:\w+ has 4\.0 GiB, .* exFAT or ext4, .*--allow-large-blobs/);
  expect(refused.stderr).toContain(digest);
  const taken = await create('large', 'large', 7, '--allow-large-blobs');
  // The source holds less than its manifest says, or this machine has not that much space.
  expect(taken.stderr).toMatch(/is damaged: its digest is|not enough space/);
});
