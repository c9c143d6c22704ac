import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { digestOf, sampleArtifact, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { mirrorToml, type SourceAndDouble, startSourceAndDouble } from '../../support/crio-double/source-and-double.ts';
import type { StartOptions } from '../../support/crio-double/start-crio-double.ts';
import { eventually } from '../../support/eventually.ts';
import { have } from '../../support/requirements.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';

const repository = 'quay.example.com/app/web';
const mirrorFile = 'etc/containers/registries.conf.d/50-mirror.conf';

describe.runIf(have('root', 'mmdebstrap'))('pulls of the CRI-O double', () => {
  let it_: SourceAndDouble;

  const restart = async (options: StartOptions) => {
    await it_.stop();
    it_ = await startSourceAndDouble({ skopeo: skopeoArgv(), ...options });
  };
  const writeRegistries = (name: string, text: string) =>
    writeFileSync(join(it_.double.dirs.registriesDropIns, name), text);

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(async () => {
    it_ = await startSourceAndDouble({ skopeo: skopeoArgv() });
  });
  afterEach(() => it_.stop());

  it('docs/runtime-facts.md, fact 12: a mirror with a token in its path serves by digest and by tag; the stored name is the original one', async () => {
    const image = sampleImage({ seed: 'one' });
    it_.source.add('0123abcd/app/web', image, ['v1']);
    writeRegistries('50-mirror.conf', mirrorToml('quay.example.com', `${it_.source.host}/0123abcd`));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    await it_.client.pullImage(`${repository}@${image.top.digest}`);
    await it_.client.pullImage(`${repository}:v1`);
    expect(await it_.client.listImages()).toMatchObject([
      { repo_tags: [`${repository}:v1`], repo_digests: [`${repository}@${image.top.digest}`] },
    ]);
  });

  it('docs/runtime-facts.md, fact 51: an artifact is pulled by mirrors, listed and pinned as an image, and removed', async () => {
    const model = sampleArtifact({ files: { 'weights.bin': Buffer.alloc(9_000, 'w') } });
    it_.source.add('0123abcd/app/model', model, ['v1']);
    writeRegistries('50-mirror.conf', mirrorToml('quay.example.com', `${it_.source.host}/0123abcd`));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    const name = `quay.example.com/app/model@${model.top.digest}`;
    await it_.client.pullImage(name);
    const listed = { id: model.top.digest.slice(7), repo_digests: [name], repo_tags: [] };
    expect(await it_.client.listImages()).toMatchObject([{ ...listed, pinned: false }]);
    const pins = `[crio.image]\npinned_images = ["${name}"]\n`;
    writeFileSync(join(it_.double.dirs.crioDropIns, '50-pins.conf'), pins);
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    expect(await it_.client.listImages()).toMatchObject([{ ...listed, pinned: true }]);
    await it_.client.removeImage(model.top.digest.slice(7));
    expect(await it_.client.listImages()).toHaveLength(1);
    await it_.client.removeImage(name);
    expect(await it_.client.listImages()).toEqual([]);
  });

  it('docs/runtime-facts.md, facts 5 and 12: pulls go by the registries configuration of the last reload, not by the files of the moment', async () => {
    it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1', 'v2']);
    writeRegistries('50-mirror.conf', '');
    await it_.client.pullImage(`${repository}:v1`);
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    await expect(it_.client.pullImage(`${repository}:v2`)).rejects.toThrow(/quay\.example\.com/);
  });

  it('docs/runtime-facts.md, fact 12: a later [[registry]] with the same prefix replaces the earlier one whole', async () => {
    it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    writeRegistries('60-later.conf', '[[registry]]\nprefix = "quay.example.com"\nlocation = "quay.example.com"\n');
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toThrow();
    expect(it_.source.requests).toEqual([]);
  });

  it('docs/runtime-facts.md, fact 12: the most specific prefix wins', async () => {
    it_.source.add('special/web', sampleImage({ seed: 'one' }), ['v1']);
    it_.source.add('app/web', sampleImage({ seed: 'two' }), ['v1']);
    writeRegistries('10-special.conf', mirrorToml('quay.example.com/app', `${it_.source.host}/special`));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    expect(await it_.client.pullImage(`${repository}:v1`)).toBe(idOf('one'));
  });

  it('docs/runtime-facts.md, fact 12: blocked = true does not stop a mirror; the original location is tried last', async () => {
    it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    writeRegistries('50-mirror.conf', mirrorToml('quay.example.com', it_.source.host, 'blocked = true'));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    expect(await it_.client.pullImage(`${repository}:v1`)).toBe(idOf('one'));
    const original = mirrorToml('original.example.com', '127.0.0.1:1').replace(
      'location = "original.example.com"',
      `location = "${it_.source.host}"\ninsecure = true`,
    );
    writeRegistries('60-original.conf', original);
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    expect(await it_.client.pullImage('original.example.com/app/web:v1')).toBe(idOf('one'));
  });

  it('docs/runtime-facts.md, fact 12: the source is chosen at the manifest: a missing blob does not fall through to the next mirror', async () => {
    const image = sampleImage({ seed: 'one' });
    it_.source.add('first/app/web', image, ['v1']);
    const other = await startSourceAndDouble({ skopeo: skopeoArgv() });
    other.source.add('app/web', image, ['v1']);
    it_.source.drop(image.layers[0]?.digest ?? '');
    const second = `[[registry.mirror]]\nlocation = "${other.source.host}"\ninsecure = true\n`;
    writeRegistries('50-mirror.conf', mirrorToml('quay.example.com', `${it_.source.host}/first`) + second);
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toThrow(/404|blob/i);
    expect(other.source.requests).toEqual([]);
    it_.source.drop(image.top.digest);
    expect(await it_.client.pullImage(`${repository}:v1`)).toBe(idOf('one'));
    await other.stop();
  });

  it('docs/runtime-facts.md, fact 12: registries.conf.d reads *.conf only; a dangling link there does no harm', async () => {
    it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    writeRegistries('90-broken.txt', 'not toml');
    mkdirSync(join(it_.double.dirs.registriesDropIns, 'deeper.d'));
    writeRegistries('deeper.d/90-broken.conf', 'not toml');
    symlinkSync('/nonexistent', join(it_.double.dirs.registriesDropIns, '95-dangling.conf'));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    expect(await it_.client.pullImage(`${repository}:v1`)).toBe(idOf('one'));
  });

  it('docs/runtime-facts.md, fact 13: a pull asks for /v2/, manifest, config and each layer once, with no HEAD and nothing that is stored', async () => {
    const shared = sampleLayer({ seed: 'shared' });
    const [first, second] = [
      sampleImage({ seed: 'first', layers: [shared] }),
      sampleImage({ seed: 'second', layers: [shared, sampleLayer({ seed: 'own' })] }),
    ];
    it_.source.add('app/web', first, ['v1']);
    it_.source.add('app/web', second, ['v2']);
    await it_.client.pullImage(`${repository}:v1`);
    expect(it_.source.requests.map(({ method, kind, digest }) => [method, kind, digest])).toEqual([
      ['GET', 'ping', undefined],
      ['GET', 'manifest', first.top.digest],
      ['GET', 'blob', first.config.digest],
      ['GET', 'blob', shared.digest],
    ]);
    it_.source.forget();
    await it_.client.pullImage(`${repository}:v2`);
    expect(it_.source.requests.filter(({ kind }) => kind === 'blob').map(({ digest }) => digest)).toEqual([
      second.config.digest,
      second.layers[1]?.digest,
    ]);
  });

  it('docs/runtime-facts.md, fact 28: requests name CRI-O in the User-Agent header', async () => {
    it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    await it_.client.pullImage(`${repository}:v1`);
    expect(new Set(it_.source.requests.map(({ userAgent }) => userAgent))).toEqual(new Set(['cri-o/1.36.3']));
  });

  it('docs/runtime-facts.md, fact 14: three pulls at once that share a layer fetch it three times', async () => {
    const shared = sampleLayer({ seed: 'shared' });
    const tags = ['v1', 'v2', 'v3'];
    for (const tag of tags) it_.source.add('app/web', sampleImage({ seed: tag, layers: [shared] }), [tag]);
    it_.source.breakDown(shared.digest, { kind: 'stall', atByte: 100 });
    const pulls = tags.map((tag) => it_.client.pullImage(`${repository}:${tag}`));
    await eventually(() => expect(it_.source.getCount(shared.digest)).toBe(3));
    it_.source.mend(shared.digest);
    expect(await Promise.all(pulls)).toHaveLength(3);
  });

  it('the same image pulled twice at once is one pull', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    const image = sampleImage({ seed: 'one', layers: [layer] });
    it_.source.add('app/web', image, ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    const first = it_.client.pullImage(`${repository}:v1`);
    await eventually(() => expect(it_.source.getCount(layer.digest)).toBe(1));
    const second = it_.client.pullImage(`${repository}:v1`);
    await it_.double.waitForLog(/(?:[\s\S]*Pulling image){2}/);
    it_.source.mend(layer.digest);
    expect(await first).toBe(await second);
    expect(it_.source.getCount(layer.digest)).toBe(1);
    expect(it_.source.getCount(image.top.digest)).toBe(1);
  });

  it('docs/runtime-facts.md, fact 15: a connection that breaks in mid-layer is continued with Range from the exact byte', async () => {
    const layer = sampleLayer({ seed: 'big', sizeBytes: 3_000_000 });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'break', atByte: 1_500_000 });
    await it_.client.pullImage(`${repository}:v1`);
    const asked = it_.source.requests.filter(({ digest }) => digest === layer.digest);
    expect(asked.map(({ range, status }) => [range, status])).toEqual([
      [undefined, 200],
      ['bytes=1500000-', 206],
    ]);
    expect(it_.source.bytesSent(layer.digest)).toBe(layer.sizeBytes);
  });

  it('docs/runtime-facts.md, fact 15: it is continued once without progress, then again only after another MiB', async () => {
    const layer = sampleLayer({ seed: 'big', sizeBytes: 3_000_000 });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'break', atByte: 1000, times: 1 });
    await it_.client.pullImage(`${repository}:v1`);
    expect(it_.source.getCount(layer.digest)).toBe(2);
    await it_.client.removeImage(`${repository}:v1`);
    it_.source.forget();
    it_.source.breakDown(layer.digest, { kind: 'break', atByte: 1000, times: 1 });
    const pull = it_.client.pullImage(`${repository}:v1`);
    await eventually(() => expect(it_.source.getCount(layer.digest)).toBe(1), 60_000, 1);
    it_.source.breakDown(layer.digest, { kind: 'break', atByte: 2000, times: 1 });
    await expect(pull).rejects.toThrow(/unable to pull image or OCI artifact: .*unexpected EOF/);
  });

  it('docs/runtime-facts.md, fact 15: a stalled transfer is waited for', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'stall', atByte: 5000 });
    const pull = it_.client.pullImage(`${repository}:v1`);
    await eventually(() => expect(it_.source.bytesSent(layer.digest)).toBe(5000));
    expect(await it_.client.listImages()).toEqual([]);
    it_.source.mend(layer.digest);
    await pull;
    expect(it_.source.getCount(layer.digest)).toBe(1);
  });

  it('docs/runtime-facts.md, fact 16: a wrong byte fails the pull and leaves no image', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'corrupt', atByte: 5000 });
    const broken = Buffer.from(layer.bytes);
    broken[5000] = (broken[5000] ?? 0) ^ 0xff;
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toMatchObject({
      code: 2,
      details: expect.stringContaining(`Digest did not match, expected ${layer.digest}, got ${digestOf(broken)}`),
    });
    expect(await it_.client.listImages()).toEqual([]);
  });

  it('docs/runtime-facts.md, fact 17: pulling an image that is present fails when the registry is gone', async () => {
    it_.source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    await it_.client.pullImage(`${repository}:v1`);
    writeRegistries('50-mirror.conf', mirrorToml('quay.example.com', '127.0.0.1:1', 'blocked = true'));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toThrow(/connection refused/);
    expect(await it_.client.listImages()).toHaveLength(1);
  });

  it('docs/runtime-facts.md, fact 18: layers are staged outside the storage before they are stored, and nothing of it stays', async () => {
    const layer = sampleLayer({ seed: 'big', sizeBytes: 2_000_000 });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'stall', atByte: 1_900_000 });
    const pull = it_.client.pullImage(`${repository}:v1`);
    const { staging, graphRoot } = it_.double.dirs;
    await eventually(() => expect(sizeBelow(staging)).toBeGreaterThan(1_000_000));
    expect(sizeBelow(graphRoot)).toBeLessThan(500_000);
    it_.source.mend(layer.digest);
    await pull;
    expect(readdirSync(staging)).toEqual([]);
  });

  it('docs/runtime-facts.md, fact 19: the digest of an index of which only this platform is there pulls; both digests are listed and the pin counts', async () => {
    const image = sampleImage({ seed: 'one', withIndex: true });
    it_.source.add('app/web', image);
    const byIndex = `${repository}@${image.top.digest}`;
    await it_.pin(byIndex);
    await it_.client.pullImage(byIndex);
    expect(await it_.client.listImages()).toMatchObject([
      { repo_digests: [byIndex, `${repository}@${image.manifest.digest}`].sort(), pinned: true },
    ]);
    expect(await it_.client.imageStatus(`${repository}@${image.manifest.digest}`)).toBeDefined();
  });

  it('docs/runtime-facts.md, fact 20: a pull without progress is cancelled after pull_progress_timeout', async () => {
    await restart({
      files: { 'etc/crio/crio.conf.d/10-timeout.conf': '[crio.image]\npull_progress_timeout = "500ms"\n' },
    });
    const layer = sampleLayer({ seed: 'layer' });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toMatchObject({
      code: 1,
      details: expect.stringContaining('context canceled'),
    });
  });

  it('ends the process when the call is cancelled, and the next pull works', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    const controller = new AbortController();
    const pull = it_.client.pullImage(`${repository}:v1`, controller.signal);
    await eventually(() => expect(it_.source.getCount(layer.digest)).toBe(1));
    expect(childrenOf(it_.double.process.pid)).toHaveLength(1);
    controller.abort();
    await expect(pull).rejects.toMatchObject({ code: 1 });
    await eventually(() => expect(childrenOf(it_.double.process.pid)).toEqual([]));
    await eventually(() => expect(readdirSync(it_.double.dirs.staging)).toEqual([]));
    it_.source.mend(layer.digest);
    expect(await it_.client.pullImage(`${repository}:v1`)).toBe(idOf('one', [layer]));
  });

  it('reports failures in the words of CRI-O: no connection, no manifest, rejected by policy, no valid name', async () => {
    const image = sampleImage({ seed: 'one' });
    it_.source.add('app/web', image, ['v1']);
    await expect(it_.client.pullImage(`${repository}:v9`)).rejects.toMatchObject({
      code: 2,
      details: expect.stringMatching(/^unable to pull image/),
    });
    writeFileSync(it_.double.dirs.policyFile, JSON.stringify({ default: [{ type: 'reject' }] }));
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toMatchObject({
      details: expect.stringMatching(/^SignatureValidationFailed: .*rejected by policy/),
    });
    writeFileSync(it_.double.dirs.policyFile, JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] }));
    await expect(it_.client.pullImage('web')).rejects.toMatchObject({ details: expect.stringContaining('short-name') });
    await expect(it_.client.pullImage('quay.example.com/UPPER')).rejects.toMatchObject({
      details: 'cannot parse input: "quay.example.com/UPPER": repository name must be lowercase',
    });
    await expect(it_.client.pullImage('127.0.0.1:1/app/web:v1')).rejects.toMatchObject({
      details: expect.stringMatching(/^RegistryUnavailable: .*connection refused/),
    });
    // A mirror's refusal does not name the failure; that of the last place does.
    writeRegistries('60-away.conf', mirrorToml('away.example.com', '127.0.0.1:1'));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    await expect(it_.client.pullImage('away.example.com/app/web:v1')).rejects.toMatchObject({
      details: expect.stringMatching(/^unable to pull image: .*Mirrors also failed: .*connection refused/),
    });
    writeFileSync(it_.double.dirs.policyFile, 'garbage');
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toMatchObject({
      details: expect.stringMatching(/^invalid policy in ".*policy\.json"/),
    });
  });

  it('after a failure other than of the network it asks for the manifest once more, as CRI-O does for artifacts', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'status', status: 404 });
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toMatchObject({
      details: expect.stringMatching(
        /^unable to pull image or OCI artifact: .*blob unknown; artifact err: .*is a container image/,
      ),
    });
    expect(it_.source.requests.map(({ kind }) => kind)).toEqual([
      'ping',
      'manifest',
      'blob',
      'blob',
      'ping',
      'manifest',
    ]);
  });

  it('waits at SIGTERM for the pulls that run', async () => {
    const layer = sampleLayer({ seed: 'layer' });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    it_.source.breakDown(layer.digest, { kind: 'stall', atByte: 100 });
    const pull = it_.client.pullImage(`${repository}:v1`);
    await eventually(() => expect(it_.source.getCount(layer.digest)).toBe(1));
    const stopped = it_.double.stop();
    await it_.double.waitForLog(/Received SIGTERM/);
    it_.source.mend(layer.digest);
    expect(await pull).toBe(idOf('one', [layer]));
    await stopped;
  });

  it('reports size, user and file system use', async () => {
    const layer = sampleLayer({ seed: 'big', sizeBytes: 2_000_000 });
    it_.source.add('app/web', sampleImage({ seed: 'one', layers: [layer] }), ['v1']);
    await it_.client.pullImage(`${repository}:v1`);
    const image = await it_.client.imageStatus(`${repository}:v1`);
    expect(Number(image?.size)).toBeGreaterThan(layer.uncompressedBytes);
    expect(Number(image?.size)).toBeLessThan(layer.uncompressedBytes + 10_000);
    expect(image).toMatchObject({ uid: null, username: '' });
    const usage = (await it_.client.call('ImageService', 'ImageFsInfo', {})) as {
      image_filesystems: { fs_id: { mountpoint: string }; used_bytes: { value: string } }[];
    };
    expect(usage.image_filesystems[0]?.fs_id.mountpoint).toBe(join(it_.double.dirs.graphRoot, 'vfs-images'));
  });

  it('an empty mirror file has the same effect as a missing one', async () => {
    rmSync(join(it_.double.dirs.base, mirrorFile));
    expect(await it_.double.reloadAndWait()).toBeUndefined();
    await expect(it_.client.pullImage(`${repository}:v1`)).rejects.toThrow(/quay\.example\.com/);
    expect(it_.source.requests).toEqual([]);
  });
});

function idOf(seed: string, layers?: Parameters<typeof sampleImage>[0]['layers']): string {
  return sampleImage({ seed, ...(layers && { layers }) }).config.digest.slice('sha256:'.length);
}

function sizeBelow(directory: string): number {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + readFileSync(join(parentPath, name)).length, 0);
}

function childrenOf(pid: number | undefined): string[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return children === '' ? [] : children.split(' ');
}
