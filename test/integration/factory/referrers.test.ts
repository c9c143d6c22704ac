import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commandAdapters } from '../../../src/app/command-line/command-adapters.ts';
import { openBundleDirectory } from '../../../src/bundle/read/bundle-directory.ts';
import { listRepositories } from '../../../src/bundle/verify/list-repositories.ts';
import type { ServedBundle } from '../../../src/cli/context/command-adapters.ts';
import type { Digest } from '../../../src/domain/model/digest.ts';
import { digestOf, sampleImage } from '../../support/bundles/sample-image.ts';
import { ask } from '../../support/bundles/served-bundle.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const ETCD = 'quay.example.com/coreos/etcd';
const etcd = sampleImage({ seed: 'etcd' });
const proxy = sampleImage({ seed: 'proxy' });

/** A document with its descriptor as an index lists it. */
function document(value: object, mediaType = MANIFEST) {
  const bytes = Buffer.from(JSON.stringify(value));
  return { bytes, descriptor: { mediaType, digest: digestOf(bytes) as Digest, size: bytes.length } };
}
const of = ({ mediaType, digest, sizeBytes }: typeof etcd.manifest) => ({
  mediaType,
  digest: digest as Digest,
  size: sizeBytes,
});
const config = document({}, 'application/vnd.example.config');
const artifact = (more: object) =>
  document({ schemaVersion: 2, mediaType: MANIFEST, config: config.descriptor, layers: [], ...more });

const sbom = artifact({
  subject: of(etcd.manifest),
  artifactType: 'application/spdx+json',
  annotations: { made: 'today' },
});
const signature = artifact({ subject: of(etcd.manifest) });
const stranger = artifact({ subject: { ...of(etcd.manifest), digest: digestOf(Buffer.from('nobody')) } });
const listed = artifact({ artifactType: 'application/listed' });
const schemeIndex = document({ schemaVersion: 2, mediaType: INDEX, manifests: [listed.descriptor] }, INDEX);
const schemeTag = proxy.manifest.digest.replace(':', '-');

const root = folderForAll();
let served: ServedBundle;

beforeAll(async () => {
  const folder = join(root, 'blobs', 'sha256');
  mkdirSync(folder, { recursive: true });
  const blobs = [...etcd.blobs, ...proxy.blobs];
  for (const { digest, bytes } of blobs) writeFileSync(join(folder, digest.slice(7)), bytes);
  for (const { bytes } of [config, sbom, signature, stranger, listed, schemeIndex]) {
    writeFileSync(join(folder, digestOf(bytes).slice(7)), bytes);
  }
  const image = ({ manifest }: typeof etcd, repository: string) => ({
    reference: `${repository}@${manifest.digest}`,
    digest: manifest.digest as Digest,
    mediaType: manifest.mediaType,
    tags: [`${repository}:1`],
    pin: true,
    layers: [],
  });
  const repositories = await listRepositories(
    openBundleDirectory(root),
    {
      contents: { layers: [], images: [image(etcd, ETCD), image(proxy, 'quay.example.com/edge/proxy')] },
      index: {
        schemaVersion: 2,
        manifests: [
          of(etcd.manifest),
          of(proxy.manifest),
          sbom.descriptor,
          signature.descriptor,
          stranger.descriptor,
          {
            ...schemeIndex.descriptor,
            annotations: { 'org.opencontainers.image.ref.name': `quay.example.com/edge/proxy:${schemeTag}` },
          },
        ],
      },
    },
    new AbortController().signal,
  );
  const reader = openBundleDirectory(root);
  served = await commandAdapters.serveBundle({
    reader,
    repositories,
    host: '127.0.0.1',
    port: 0,
    warn: () => undefined,
  });
});
afterAll(async () => {
  await served.close();
});

const get = (path: string) => ask(served.authority, `/v2/${path}`);
const referrers = async (path: string) => JSON.parse((await get(path)).body.toString()).manifests;

describe('bundle serve: referrers', () => {
  const subject = etcd.manifest.digest;
  const ofSbom = { ...sbom.descriptor, artifactType: 'application/spdx+json', annotations: { made: 'today' } };
  const ofSignature = { ...signature.descriptor, artifactType: 'application/vnd.example.config' };

  it('are listed by their subject, in an index', async () => {
    const { status, headers, body } = await get(`${ETCD}/referrers/${subject}`);
    expect([status, headers['content-type'], headers['oci-filters-applied']]).toEqual([200, INDEX, undefined]);
    expect(JSON.parse(body.toString())).toEqual({
      schemaVersion: 2,
      mediaType: INDEX,
      manifests: [ofSbom, ofSignature],
    });
  });

  it('are filtered by their artifact type, and the answer says so', async () => {
    const { headers, body } = await get(`${ETCD}/referrers/${subject}?artifactType=application%2Fspdx%2Bjson`);
    expect(headers['oci-filters-applied']).toBe('artifactType');
    expect(JSON.parse(body.toString()).manifests).toEqual([ofSbom]);
  });

  it('are an empty list for a digest without referrers, and an error for a value that is not a digest', async () => {
    expect(await referrers(`${ETCD}/referrers/${sbom.descriptor.digest}`)).toEqual([]);
    expect(await referrers(`quay.example.com/edge/proxy/referrers/${subject}`)).toEqual([]);
    expect((await get(`${ETCD}/referrers/latest`)).status).toBe(400);
  });

  it('can be pulled with all their blobs', async () => {
    expect((await get(`${ETCD}/manifests/${sbom.descriptor.digest}`)).body).toEqual(sbom.bytes);
    expect((await get(`${ETCD}/blobs/${config.descriptor.digest}`)).body).toEqual(config.bytes);
    expect((await get(`${ETCD}/manifests/${stranger.descriptor.digest}`)).status).toBe(404);
  });

  it('are found under the fallback tag by older clients, and that tag is not listed', async () => {
    const index = await get(`${ETCD}/manifests/${subject.replace(':', '-')}`);
    expect([index.status, index.headers['content-type']]).toEqual([200, INDEX]);
    expect(JSON.parse(index.body.toString()).manifests).toEqual([ofSbom, ofSignature]);
    expect(index.headers['docker-content-digest']).toBe(digestOf(index.body));
    expect((await get(`${ETCD}/manifests/${digestOf(index.body)}`)).body).toEqual(index.body);
    expect(JSON.parse((await get(`${ETCD}/tags/list`)).body.toString()).tags).toEqual(['1']);
  });

  it('are taken from an index that the bundle has under such a tag', async () => {
    const path = 'quay.example.com/edge/proxy';
    expect((await get(`${path}/manifests/${schemeTag}`)).body).toEqual(schemeIndex.bytes);
    expect(await referrers(`${path}/referrers/${proxy.manifest.digest}`)).toEqual([
      { ...listed.descriptor, artifactType: 'application/listed' },
    ]);
    expect((await get(`${path}/manifests/${listed.descriptor.digest}`)).body).toEqual(listed.bytes);
  });
});
