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

/** The layer of a release image that holds its manifests. */
export function manifestsLayer(
  references: Buffer,
  compress?: (tar: Buffer) => Buffer,
  stores: readonly string[] = [],
): SampleLayer {
  const members = [
    { path: 'release-manifests/' },
    { path: 'release-manifests/0000_00_namespace.yaml', bytes: Buffer.from('kind: Namespace\n') },
    ...(stores.length === 0 ? [] : [{ path: STORES_FILE, bytes: Buffer.from(keysOfMaker(stores)) }]),
    { path: 'release-manifests/image-references', bytes: references },
    { path: 'release-manifests/release-metadata', bytes: Buffer.from('{"kind":"cincinnati-metadata-v0"}') },
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
    ...options
  }: {
    architecture?: string;
    withIndex?: boolean;
    labels?: Readonly<Record<string, string>>;
    /** Where its signatures are published. */
    stores?: readonly string[];
  } = {},
): SampleImage {
  const manifests = manifestsLayer(imageReferences(tags), undefined, stores);
  const layers = [sampleLayer({ seed: 'version-operator' }), manifests];
  return sampleImage({ seed: 'release', architecture: 'amd64', layers, ...options });
}
