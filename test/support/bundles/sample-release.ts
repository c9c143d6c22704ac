import { stringify } from 'yaml';
import { layerOfTar, type SampleImage, type SampleLayer, sampleImage, sampleLayer } from './sample-image.ts';
import { tarArchive } from './tar-archive.ts';

/** An image of a release: its name in the payload and its reference there. */
export interface SampleTag {
  readonly name: string;
  readonly reference: string;
}

/** `release-manifests/image-references` as `oc adm release new` writes it. */
export function imageReferences(tags: readonly SampleTag[], version = '4.13.7'): Buffer {
  const stream = {
    kind: 'ImageStream',
    apiVersion: 'image.openshift.io/v1',
    metadata: {
      name: version,
      creationTimestamp: '2026-01-01T00:00:00Z',
      annotations: { 'release.openshift.io/from-release': 'x' },
    },
    spec: {
      lookupPolicy: { local: false },
      tags: tags.map(({ name, reference }) => ({
        name,
        annotations: { 'io.openshift.build.commit.id': 'abc' },
        from: { kind: 'DockerImage', name: reference },
        generation: null,
        importPolicy: {},
        referencePolicy: { type: '' },
      })),
    },
    status: { dockerImageRepository: '' },
  };
  return Buffer.from(JSON.stringify(stream, undefined, 2));
}

export interface ReleaseFiles {
  /** Where its signatures are published. */
  readonly stores?: readonly string[];
  /** Members of `release-metadata`, as `version`, `previous`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** More files, by their names. */
  readonly manifests?: Readonly<Record<string, string>>;
}

/** The layer of a release image that holds its manifests. */
export function manifestsLayer(
  references: Buffer,
  compress?: (tar: Buffer) => Buffer,
  { stores = [], metadata, manifests = {} }: ReleaseFiles = {},
): SampleLayer {
  const members = [
    { path: 'release-manifests/' },
    { path: 'release-manifests/0000_00_namespace.yaml', bytes: Buffer.from('kind: Namespace\n') },
    ...Object.entries(manifests).map(([name, text]) => ({
      path: `release-manifests/${name}`,
      bytes: Buffer.from(text),
    })),
    ...(stores.length === 0 ? [] : [{ path: STORES_FILE, bytes: Buffer.from(keysOfMaker(stores)) }]),
    { path: 'release-manifests/image-references', bytes: references },
    {
      path: 'release-manifests/release-metadata',
      bytes: Buffer.from(JSON.stringify({ kind: 'cincinnati-metadata-v0', ...metadata })),
    },
  ];
  return layerOfTar(tarArchive(members), compress);
}

const STORES_FILE = 'release-manifests/0000_90_cluster-update-keys_configmap.yaml';

/** As `cluster-update-keys` makes it for a release. */
function keysOfMaker(stores: readonly string[]): string {
  const data = Object.fromEntries(stores.map((url, at) => [`store-openshift-release-${at}`, url]));
  const metadata = {
    name: 'release-verification',
    namespace: 'openshift-config-managed',
    annotations: { 'release.openshift.io/verification-config-map': '' },
  };
  const document = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { ...data, 'verifier-public-key-x': 'x' } };
  return `# Release verification\n${stringify(document)}`;
}

/**
 * An OpenShift release image (default amd64) whose payload are these tags: the version operator's
 * layer, and that of its manifests.
 */
export function sampleRelease(
  tags: readonly SampleTag[],
  {
    stores,
    metadata,
    manifests,
    ...options
  }: ReleaseFiles & {
    architecture?: string;
    withIndex?: boolean;
    labels?: Readonly<Record<string, string>>;
  } = {},
): SampleImage {
  const files = { ...(stores && { stores }), ...(metadata && { metadata }), ...(manifests && { manifests }) };
  const layers = [sampleLayer({ seed: 'version-operator' }), manifestsLayer(imageReferences(tags), undefined, files)];
  return sampleImage({ seed: 'release', architecture: 'amd64', layers, ...options });
}
