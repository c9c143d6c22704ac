import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';
import type { KubeletFacts } from '../domain/model/kubelet-facts.ts';

/** Where the files of a kubelet are. */
export interface KubeletPlaces {
  /** KubeletConfiguration (v1beta1), YAML or JSON; the first one that exists counts. */
  readonly configs: readonly string[];
  /** `image_manager` of the kubelet's root folder (KEP-2535). */
  readonly imageManager: string;
}

/** The places of kubeadm and OpenShift, EKS, and the default root folder. */
const KUBELET_PLACES: KubeletPlaces = {
  configs: [
    '/var/lib/kubelet/config.yaml',
    '/etc/kubernetes/kubelet.conf',
    '/etc/kubernetes/kubelet/kubelet-config.json',
  ],
  imageManager: '/var/lib/kubelet/image_manager',
};

const DEFAULT_HIGH_PERCENT = 85;
/** More records than a node has images. */
const MAX_RECORDS = 4_096;

const configuration = v.object({
  kind: v.literal('KubeletConfiguration'),
  imagePullCredentialsVerificationPolicy: v.optional(v.string()),
  preloadedImagesVerificationAllowlist: v.optional(v.array(v.string())),
  imageGCHighThresholdPercent: v.optional(v.number()),
});
const intent = v.object({ image: v.string() });
const pulled = v.object({
  credentialMapping: v.record(v.string(), v.object({ nodePodsAccessible: v.optional(v.boolean()) })),
});

/** Reads what can be read; other files count as missing. Throws only on abort. */
export async function readKubelet(signal: AbortSignal, places: KubeletPlaces = KUBELET_PLACES): Promise<KubeletFacts> {
  const [config, intents, records] = await Promise.all([
    readConfig(places.configs, signal),
    documentsIn(join(places.imageManager, 'pulling'), intent, signal),
    documentsIn(join(places.imageManager, 'pulled'), pulled, signal),
  ]);
  const mappings = records.flatMap(({ credentialMapping }) => Object.entries(credentialMapping));
  return {
    configFile: config?.path,
    verificationPolicy: config?.document.imagePullCredentialsVerificationPolicy,
    allowlist: config?.document.preloadedImagesVerificationAllowlist ?? [],
    collectsAtPercent: config?.document.imageGCHighThresholdPercent ?? DEFAULT_HIGH_PERCENT,
    pullIntents: intents.map(({ image }) => image),
    secretRepositories: mappings.flatMap(([repository, { nodePodsAccessible }]) =>
      nodePodsAccessible === true ? [] : [repository],
    ),
  };
}

async function readConfig(paths: readonly string[], signal: AbortSignal) {
  for (const path of paths) {
    const document = await readDocument(path, configuration, signal);
    if (document !== undefined) return { path, document };
  }
  return undefined;
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

/** JSON is YAML too. */
async function readDocument<T>(
  path: string,
  schema: v.GenericSchema<unknown, T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  try {
    const text = await readFile(path, { encoding: 'utf8', signal });
    const parsed = v.safeParse(schema, parse(text, { logLevel: 'error' }));
    return parsed.success ? parsed.output : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
