import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import type { KubeletFacts } from '../domain/model/node-facts.ts';
import { type KubeletConfig, type KubeletOptions, readConfig, readDocument, runningKubelet } from './kubelet-config.ts';

/** Where the files of a kubelet are. */
export interface KubeletPlaces {
  /** KubeletConfiguration (v1beta1), YAML or JSON; the first one that exists counts. */
  readonly configs: readonly string[];
  /** Folders of drop-ins (`--config-dir`), where no running kubelet names its own. */
  readonly dropIns: readonly string[];
  /** The kubelet's root folder, where no running kubelet names its own. */
  readonly root: string;
  /** `/proc`. */
  readonly processes: string;
}

/**
 * The places of kubeadm and OpenShift, EKS and k0s; the drop-ins of OpenShift, k3s and RKE2; and
 * the default root folder.
 */
const KUBELET_PLACES: KubeletPlaces = {
  configs: [
    '/var/lib/kubelet/config.yaml',
    '/etc/kubernetes/kubelet.conf',
    '/etc/kubernetes/kubelet/kubelet-config.json',
    '/var/lib/k0s/kubelet-config.yaml',
  ],
  dropIns: [
    '/etc/openshift/kubelet.conf.d',
    '/var/lib/rancher/k3s/agent/etc/kubelet.conf.d',
    '/var/lib/rancher/rke2/agent/etc/kubelet.conf.d',
  ],
  root: '/var/lib/kubelet',
  processes: '/proc',
};

const DEFAULT_HIGH_PERCENT = 85;
/** `imagefs.available` of the kubelet's default `evictionHard`, which holds where none is set. */
const DEFAULT_EVICTION = '15%';
/** More records than a node has images. */
const MAX_RECORDS = 4_096;

const intent = v.object({ image: v.string() });
const pulled = v.object({
  credentialMapping: v.record(v.string(), v.object({ nodePodsAccessible: v.optional(v.boolean()) })),
});

/**
 * Reads what can be read; other files count as missing. A kubelet that runs names its files, and
 * its options come before what is in them. Throws only on abort.
 */
export async function readKubelet(signal: AbortSignal, places: KubeletPlaces = KUBELET_PLACES): Promise<KubeletFacts> {
  const running = await runningKubelet(places.processes, signal);
  const records = join(running?.rootDir ?? places.root, 'image_manager');
  const [found, intents, mappings] = await Promise.all([
    readConfig(...filesOf(running, places), signal),
    documentsIn(join(records, 'pulling'), intent, signal),
    documentsIn(join(records, 'pulled'), pulled, signal),
  ]);
  return {
    configFile: found?.path,
    isRunning: running !== undefined,
    verificationPolicy: found?.config.imagePullCredentialsVerificationPolicy,
    allowlist: found?.config.preloadedImagesVerificationAllowlist ?? [],
    ...marksOf(running, found?.config),
    records,
    pullIntents: intents.map(({ image }) => image),
    secretRepositories: mappings
      .flatMap(({ credentialMapping }) => Object.entries(credentialMapping))
      .flatMap(([repository, { nodePodsAccessible }]) => (nodePodsAccessible === true ? [] : [repository])),
  };
}

/** A running kubelet that names a file or a folder reads no other ones. */
function filesOf(running: KubeletOptions | undefined, { configs, dropIns }: KubeletPlaces) {
  const { config, configDir } = running ?? {};
  const isNamed = config !== undefined || configDir !== undefined;
  const paths = isNamed ? [config ?? []].flat() : configs;
  return [paths, isNamed ? [configDir ?? []].flat() : dropIns] as const;
}

function marksOf(
  running: KubeletOptions | undefined,
  config: KubeletConfig | undefined,
): Pick<KubeletFacts, 'collectsAtPercent' | 'evictsBelow'> {
  const marks = running?.evictionHard ?? config?.evictionHard;
  const evictsBelow = marks === undefined ? DEFAULT_EVICTION : marks['imagefs.available'];
  return {
    collectsAtPercent: running?.collectsAtPercent ?? config?.imageGCHighThresholdPercent ?? DEFAULT_HIGH_PERCENT,
    ...(evictsBelow !== undefined && { evictsBelow }),
  };
}

async function documentsIn<T>(
  folder: string,
  schema: v.GenericSchema<unknown, T>,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const names = await readdir(folder).catch((): string[] => []);
  const documents: T[] = [];
  for (const name of names.slice(0, MAX_RECORDS)) {
    const document = await readDocument(join(folder, name), schema, signal);
    if (document !== undefined) documents.push(document);
  }
  return documents;
}
