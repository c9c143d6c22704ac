import { describe, expect, it } from 'vitest';
import {
  mediaTypes,
  parseConfig,
  parseImageDocument,
  parseIndex,
  parseLayoutIndex,
  parseManifest,
} from '../../../../src/bundle/format/oci-schema.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';

const { ociManifest, ociIndex, ociConfig, dockerManifest, dockerList } = mediaTypes;
const config = { mediaType: ociConfig, digest: digestOf('config'), size: 2 };
const child = { mediaType: ociManifest, digest: digestOf('manifest'), size: 3 };
const manifest = { schemaVersion: 2, config, layers: [] };
const index = { schemaVersion: 2, manifests: [child] };
const parse = (value: unknown, mediaType?: string) =>
  parseImageDocument(Buffer.from(JSON.stringify(value)), 'document x', 'bundle/inconsistent', mediaType);

describe('parseImageDocument', () => {
  it.each([
    ['a bare manifest', manifest, undefined, 'manifest', ociManifest],
    ['a bare index', index, undefined, 'index', ociIndex],
    ['a manifest that names itself', { ...manifest, mediaType: dockerManifest }, undefined, 'manifest', dockerManifest],
    ['an index that names itself', { ...index, mediaType: dockerList }, undefined, 'index', dockerList],
    ['an artifact', { ...manifest, mediaType: 'application/x-other' }, undefined, 'manifest', 'application/x-other'],
    ['a manifest that was sent as one', manifest, ociManifest, 'manifest', ociManifest],
    ['an index that was sent as one', index, dockerList, 'index', dockerList],
    ['a manifest that was sent without a known type', manifest, '', 'manifest', ''],
  ])('tells what %s is', (_what, value, mediaType, kind, type) => {
    const document = parse(value, mediaType);
    expect(document).toMatchObject({ kind, mediaType: type });
    expect(document).toMatchObject(kind === 'index' ? { manifests: [child] } : { config, layers: [] });
  });

  it.each([
    ['no object', 7, /document x/],
    ['null', null, /document x/],
    ['a manifest of another version', { ...manifest, schemaVersion: 1 }, /document x: schemaVersion/],
    ['a manifest without a config', { schemaVersion: 2, layers: [] }, /document x: config/],
    ['a digest that is none', { ...manifest, layers: [{ ...config, digest: 'sha256:../..' }] }, /layers\.0\.digest/],
    ['a size below zero', { ...manifest, layers: [{ ...config, size: -1 }] }, /layers\.0\.size/],
    ['a size that is not an integer', { ...index, manifests: [{ ...child, size: 1.5 }] }, /manifests\.0\.size/],
    ['an index that says it is a manifest', { ...index, mediaType: ociManifest }, /document x: config/],
  ])('refuses %s', (_what, value, message) => {
    expect(() => parse(value)).toThrow(message);
  });

  it.each([
    ['a manifest with manifests', { ...manifest, ...index }, ociManifest, /manifests: must not be in a manifest/],
    ['an index with layers', { ...index, layers: [] }, ociIndex, /layers: must not be in an index/],
    ['an index with a config', { ...index, config }, dockerList, /config: must not be in an index/],
    ['a manifest that says it is an index', { ...manifest, mediaType: ociIndex }, ociManifest, /mediaType: must be/],
    ['an index that says it is a manifest', { ...index, mediaType: ociManifest }, ociIndex, /mediaType: must be/],
  ])('refuses %s, also where only one of the two may be', (_what, value, mediaType, message) => {
    const bytes = Buffer.from(JSON.stringify(value));
    const isIndex = mediaType !== ociManifest;
    const parsers = [parseImageDocument, isIndex ? parseIndex : parseManifest, isIndex ? parseLayoutIndex : undefined];
    for (const parser of parsers) {
      const parsed = () => parser?.(bytes, 'document x', 'bundle/inconsistent', mediaType);
      if (parser !== undefined) expect(parsed).toThrow(message);
    }
  });

  it('refuses more structure than a document may have before it parses it', () => {
    const bytes = Buffer.from(`{"schemaVersion":2,"manifests":${'['.repeat(100)}${']'.repeat(100)}}`);
    expect(() => parseImageDocument(bytes, 'document x', 'bundle/inconsistent')).toThrow(/more than 64 levels/);
  });
});

describe('parseConfig', () => {
  const rootfs = { diff_ids: [] };
  const parse = (inherited: unknown) =>
    parseConfig(Buffer.from(JSON.stringify({ config: inherited, rootfs })), 'config x', 'bundle/source');

  it.each([
    undefined,
    null,
    {},
    { User: null, Labels: null, Volumes: null },
    { User: '1000:1000', Labels: { ['n'.repeat(1_024)]: 'v'.repeat(100_000) }, Volumes: { '/data': {}, '/a/..b': {} } },
  ])('takes a usual one: %#', (inherited) => {
    expect(parse(inherited).rootfs).toEqual(rootfs);
  });

  it.each(['/', '//', '/.', '/a/..', '', '.', '..'])('refuses a volume at %j', (path) => {
    expect(() => parse({ Volumes: { '/data': {}, [path]: {} } })).toThrow(
      /^config x: config\.Volumes: must not name the root folder as a volume/,
    );
  });
});
