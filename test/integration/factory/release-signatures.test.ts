import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { commandAdapters } from '../../../src/app/command-line/command-adapters.ts';
import { createStoredState } from '../../../src/app/command-line/stored-state.ts';
import { writeRegistryStorage } from '../../support/bundles/registry-storage.ts';
import { hostArch } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { sampleRelease } from '../../support/bundles/sample-release.ts';
import { createDaemonHarness } from '../../support/daemon/daemon-harness.ts';
import { folderForAll, folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { OpenPgpKey, signedText } from '../../support/openpgp.ts';
import { makeTls } from '../../support/registry/tls.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const OCP = 'quay.io/openshift-release-dev/ocp-release';
const etcd = sampleImage({ seed: 'etcd', architecture: hostArch });
const release = sampleRelease([{ name: 'etcd', reference: `quay.io/ocp/art@${etcd.top.digest}` }], {
  architecture: hostArch,
});
const { digest } = release.top;
const hex = digest.slice('sha256:'.length);
const other = `sha256:${'1'.repeat(64)}`;

/** A ConfigMap as `oc adm release mirror` and oc-mirror write it. */
const configMap = (signatures: Readonly<Record<string, Buffer>>) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'openshift-config-managed', name: 'mirrored-release-signatures' },
  binaryData: Object.fromEntries(
    Object.entries(signatures).map(([name, message]) => [name, message.toString('base64')]),
  ),
});

describe.runIf(have('gpg', 'gpgv'))('signatures of a release image', () => {
  const root = folderForEach();
  const at = (name: string) => join(root, name);
  const keys = folderForAll();
  let redHat: OpenPgpKey;
  let stranger: OpenPgpKey;
  let good: Buffer;
  beforeAll(() => {
    redHat = new OpenPgpKey(join(keys, 'a'));
    stranger = new OpenPgpKey(join(keys, 'b'));
    good = redHat.sign(signedText(digest));
  });
  afterAll(() => {
    redHat[Symbol.dispose]();
    stranger[Symbol.dispose]();
  });
  beforeEach(() => {
    writeOciLayout(at('layout'), [{ image: release, names: ['4.13.7'] }, { image: etcd }]);
    write('keys.asc', Buffer.concat([stranger.export('--armor'), redHat.export('--armor')]));
    write('strange.gpg', stranger.export());
  });

  function write(name: string, bytes: Buffer | string): string {
    mkdirSync(dirname(at(name)), { recursive: true });
    writeFileSync(at(name), bytes);
    return at(name);
  }
  const create = (...more: string[]) =>
    runCommand([
      ...['bundle', 'create', '--name', 'ocp', '--version', '4.13.7', '--arch', hostArch, '--sequence', '1'],
      ...['--out', at('bundle'), '--release', `${OCP}:4.13.7=oci:${at('layout')}:4.13.7`, ...more],
    ]);
  const payload = async () =>
    JSON.parse((await runCommand(['bundle', 'inspect', at('bundle'), '--json'])).stdout).payload;
  async function carried(): Promise<Buffer[]> {
    const [file] = (await payload()).attachments;
    expect(file).toMatchObject({ name: 'release-signatures.json' });
    const text = readFileSync(join(at('bundle'), 'blobs/sha256', file.digest.slice(7)), 'utf8');
    const { binaryData, ...head } = JSON.parse(text);
    expect(head).toEqual({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        namespace: 'openshift-config-managed',
        name: `sha256-${hex}`,
        labels: { 'release.openshift.io/verification-signatures': '' },
      },
    });
    expect(Object.keys(binaryData)).toEqual(Object.keys(binaryData).map((_, n) => `sha256-${hex}-${n + 1}`));
    return Object.values(binaryData).map((data) => Buffer.from(String(data), 'base64'));
  }

  it.each([
    ['as published', () => [write(`sigs/sha256=${hex}/signature-1`, good), write('sigs/README', 'x')]],
    ['as oc-mirror keeps it', () => [write(`sigs/4.13.7-x86_64-sha256-${hex}`, good)]],
    ['as a ConfigMap in JSON', () => [write('sigs/a.json', JSON.stringify(configMap({ [`sha256-${hex}-1`]: good })))]],
    ['as a ConfigMap in YAML', () => [write('sigs/a.yaml', stringify(configMap({ [`sha256-${hex}`]: good })))]],
    [
      'as a list of ConfigMaps',
      () => [write('sigs/a.yaml', stringify({ kind: 'List', items: [configMap({ [`sha256-${hex}-1`]: good })] }))],
    ],
  ])('is carried %s, from a folder or as a file, and checked', async (_name, make) => {
    const [file = ''] = make();
    write(`sigs/sha256=${'1'.repeat(64)}/signature-1`, redHat.sign(signedText(other)));
    for (const path of [file, at('sigs')]) {
      const made = await create('--release-signatures', path, '--release-key', at('keys.asc'), '--strict');
      expect(made).toMatchObject({ exitCode: 0 });
      expect((await payload()).warnings).toBeUndefined();
      expect(await carried()).toEqual([good]);
      rmSync(at('bundle'), { recursive: true });
    }
  });

  it('is carried with a warning where no key is given', async () => {
    const made = await create('--release-signatures', write('one', stranger.sign(signedText(digest))));
    expect(made).toMatchObject({ exitCode: 0 });
    expect(await carried()).toHaveLength(1);
    expect((await payload()).warnings).toEqual([expect.stringMatching(/not checked: give --release-key/)]);
  });

  it('is left out with a warning when another one is good, and each is carried once', async () => {
    const bad = stranger.sign(signedText(digest));
    const file = write('a.json', JSON.stringify(configMap({ [`sha256-${hex}-1`]: bad, [`sha256-${hex}-2`]: good })));
    const twice = write(`sha256=${hex}/signature-1`, good);
    write('key.gpg', redHat.export());
    const flags = ['--release-signatures', file, '--release-signatures', twice, '--release-key', at('key.gpg')];
    expect(await create(...flags)).toMatchObject({ exitCode: 0 });
    expect(await carried()).toEqual([good]);
    expect((await payload()).warnings).toEqual([expect.stringMatching(/a\.json, sha256-[0-9a-f]{64}-1 is left out: /)]);
  });

  it.each([
    ['of another key', () => good, 'strange.gpg', 'No public key'],
    ['for another image', () => redHat.sign(signedText(other)), 'keys.asc', 'it is for "sha256:111'],
    ['of something else', () => redHat.sign(signedText(digest, 'x')), 'keys.asc', 'atomic container signature'],
    ['that has expired', () => old('never', '--default-sig-expire', '1d'), 'keys.asc', 'Signature expired'],
    ['whose key has expired', () => old('2d'), 'keys.asc', 'its key has expired'],
    ['that was changed', () => Buffer.concat([good.subarray(0, -9), Buffer.alloc(9)]), 'keys.asc', 'no good signature'],
  ])('%s makes no bundle', async (_name, make, key, why) => {
    const flags = ['--release-signatures', write('one', make()), '--release-key', at(key)];
    const made = await create(...flags);
    expect(made).toMatchObject(ended(1, why));
    expect(made.stderr).toContain(at('one'));
    expect(made.stderr).not.toContain('.fetched');
  });

  function old(expires: string, ...options: string[]): Buffer {
    using key = new OpenPgpKey(at('old'), ['--faked-system-time', '20200101T000000!', ...options], expires);
    write('keys.asc', key.export('--armor'));
    return key.sign(signedText(digest));
  }

  it('on an OpenShift medium is checked where only a key is given', async () => {
    writeRegistryStorage(at('medium'), [
      { repository: 'openshift/release-images', image: release, tags: ['4.13.7'] },
      { repository: 'openshift/release', image: etcd, tags: [] },
    ]);
    const medium = ['--from-openshift-iso', at('medium'), '--version', '4.13.7', '--sequence', '1'];
    const check = (key: string) =>
      runCommand(['bundle', 'create', ...medium, '--out', at('bundle'), '--strict', '--release-key', at(key)]);
    expect(await check('keys.asc')).toMatchObject(ended(1, 'no signature was found'));
    write(`medium/signatures/sha256=${hex}/signature-1`, good);
    expect(await check('strange.gpg')).toMatchObject(ended(1, 'No public key'));
    expect(await check('keys.asc')).toMatchObject({ exitCode: 0 });
    expect(await carried()).toEqual([good]);
  });

  describe.runIf(have('skopeo', 'openssl'))('that the release says where to find', () => {
    const known = getCACertificates('default');
    let registry: SourceRegistry;
    let server: Server;
    let published: Map<string, Buffer>;
    let asked: string[];
    beforeAll(async () => {
      const tls = makeTls(keys).pem;
      setDefaultCACertificates([...known, tls.cert]);
      registry = await startSourceRegistry();
      server = createServer(tls, ({ url = '' }, response) => {
        asked.push(url);
        const found = published.get(url);
        response.writeHead(url.startsWith('/ill/') ? 302 : found === undefined ? 404 : 200, { location: '/away' });
        response.end(found);
      });
      await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    });
    afterAll(async () => {
      setDefaultCACertificates(known);
      await registry.close();
      server.close();
    });
    beforeEach(() => {
      published = new Map();
      asked = [];
    });

    /** `stores`: as paths of the server, or whole. @returns the digest */
    function publish(...stores: readonly string[]): string {
      const { port } = server.address() as AddressInfo;
      const urls = stores.map((store) => (store.startsWith('/') ? `https://127.0.0.1:${port}${store}` : store));
      const image = sampleRelease([{ name: 'etcd', reference: `${registry.host}/ocp/art@${etcd.top.digest}` }], {
        architecture: hostArch,
        stores: urls,
      });
      registry.add('ocp/release', image, ['4.13.7']);
      registry.add('ocp/art', etcd);
      return image.top.digest;
    }
    const fetch = (...more: string[]) =>
      create('--release', `${registry.host}/ocp/release:4.13.7`, '--tls-verify=false', ...more);
    const at1 = (store: string, of: string, number = 1) => `${store}/sha256=${of.slice(7)}/signature-${number}`;

    it('is fetched from the first place that has any, and checked', async () => {
      const of = publish('http://127.0.0.1:1/x', '/ill/', '/none', '/store', '/store2');
      const made = redHat.sign(signedText(of));
      published.set(at1('/store', of), stranger.sign(signedText(of))).set(at1('/store', of, 2), made);
      published.set(at1('/store2', of), made);
      expect(await fetch('--release-key', at('keys.asc'))).toMatchObject({ exitCode: 0 });
      const [file] = (await payload()).attachments;
      const text = readFileSync(join(at('bundle'), 'blobs/sha256', file.digest.slice(7)), 'utf8');
      expect(Object.values(JSON.parse(text).binaryData)).toHaveLength(2);
      expect(asked).toEqual([
        at1('/ill', of),
        at1('/none', of),
        ...[1, 2, 3].map((number) => at1('/store', of, number)),
      ]);
    });

    it.each([
      ['none is published', '/none', undefined, 'none has none'],
      ['its place sends elsewhere', '/ill', undefined, 'it answers 302'],
      ['its answer has no end', '/store', Buffer.alloc(100_000), 'more than 65536 bytes'],
      ['its place is not there', 'https://127.0.0.1:1', undefined, 'ECONNREFUSED'],
    ])('is missing with a warning, and an error with a key, where %s', async (_name, store, bytes, why) => {
      const of = publish(store);
      if (bytes !== undefined) published.set(at1(store, of), bytes);
      expect(await fetch()).toMatchObject({ exitCode: 0 });
      const { attachments, warnings } = await payload();
      expect(attachments).toBeUndefined();
      expect(warnings).toEqual([expect.stringContaining(why)]);
      expect(warnings[0]).toMatch(/--force only, unless you give --release-signatures$/);
      rmSync(at('bundle'), { recursive: true });
      expect(await fetch('--release-key', at('keys.asc'))).toMatchObject(ended(1, why));
    });

    it('is not asked for where signatures are given, or shall not travel', async () => {
      const of = publish('/store');
      published.set(at1('/store', of), redHat.sign(signedText(of)));
      expect(await fetch('--without-signatures', '--strict')).toMatchObject({ exitCode: 0 });
      rmSync(at('bundle'), { recursive: true });
      const given = ['--release-signatures', write('one', redHat.sign(signedText(of)))];
      expect(await fetch(...given, '--release-key', at('keys.asc'))).toMatchObject({ exitCode: 0 });
      expect(asked).toEqual([]);
    });
  });

  it('that is absent, or has no release, is an error before anything is read', async () => {
    const none = await create('--release-signatures', write(`sha256-${'2'.repeat(64)}`, good));
    expect(none).toMatchObject(ended(1, /no signature of the release image .* is for another image/));
    const gone = await create('--release-signatures', at('gone'), '--release-key', at('layout/index.json'));
    expect(gone).toMatchObject(ended(1, "gone can't be read"));
    expect(gone.stderr).toContain('has no OpenPGP public key');
    const alone = ['--name', 'a', '--version', '1.0.0', '--arch', hostArch, '--sequence', '1', '--out', at('bundle')];
    const image = `quay.io/a/b=oci:${at('layout')}:4.13.7`;
    expect(
      await runCommand(['bundle', 'create', ...alone, '--image', image, '--release-signatures', at('keys.asc')]),
    ).toMatchObject(ended(2, 'is for the release image'));
    const named = await create(
      '--release-signatures',
      write('one', good),
      '--attach',
      write('release-signatures.json', '{}'),
    );
    expect(named).toMatchObject(ended(2, 'rename one'));
  });

  it('is on the node for hooks, and printed by show', async () => {
    const harness = await createDaemonHarness();
    write('factory.key', harness.key.privatePem);
    const flags = ['--release-signatures', write('one', good), '--release-key', at('keys.asc')];
    expect(await create(...flags, '--key', at('factory.key'))).toMatchObject({ exitCode: 0 });
    await harness.start();
    harness.plug(at('bundle'));
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated', 30_000);
    const storedState = createStoredState(async () => harness.settings.paths);
    const shown = await runCommand(['show', 'ocp@4.13.7', '--release-signatures'], {
      adapters: { ...commandAdapters, storedState },
    });
    expect(shown).toMatchObject({ exitCode: 0, stderr: '' });
    expect(JSON.parse(shown.stdout).binaryData).toEqual({ [`sha256-${hex}-1`]: good.toString('base64') });
    const folder = join(harness.settings.paths.state_dir, 'releases/ocp/4.13.7');
    expect(readFileSync(join(folder, 'release-signatures.json'), 'utf8')).toBe(shown.stdout);
  });
});
