import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';
import type { CriDockerdPins, KubeletFacts } from '../domain/model/machine.ts';
import { defined } from '../platform/defined.ts';

interface KubeletPlaces {
  /** KubeletConfiguration (v1beta1), YAML or JSON; the first one that exists counts. */
  readonly configs: readonly string[];
  /** The folders for a kubelet that names none. */
  readonly dropIns: readonly string[];
  /** The root for a kubelet that names none. */
  readonly root: string;
  /** `/proc`. */
  readonly processes: string;
}

/** kubeadm and OpenShift, EKS and k0s; drop-ins of OpenShift, k3s and RKE2. */
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
/** `imageMinimumGCAge`. */
const DEFAULT_MINIMUM_AGE = '2m';
/** `imagefs.available` of the kubelet's default `evictionHard`. */
const DEFAULT_EVICTION = '15%';
/** More records than a node has images. */
const MAX_RECORDS = 4_096;

const intent = v.object({ image: v.string() });
const pulled = v.object({
  credentialMapping: v.record(v.string(), v.object({ nodePodsAccessible: v.optional(v.boolean()) })),
});

/**
 * Unreadable files count as missing. A running kubelet names its files, and its options win over
 * them. Throws only on abort.
 */
export async function readKubelet(signal: AbortSignal, places: KubeletPlaces = KUBELET_PLACES): Promise<KubeletFacts> {
  const { kubelet: running, criDockerd } = await runningPrograms(places.processes, signal);
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
    ...defined({ criDockerd }),
    records,
    pullIntents: intents.map(({ image }) => image),
    secretRepositories: mappings
      .flatMap(({ credentialMapping }) => Object.entries(credentialMapping))
      .flatMap(([repository, { nodePodsAccessible }]) => (nodePodsAccessible === true ? [] : [repository])),
  };
}

/** A running kubelet that names a file or a folder reads no other. */
function filesOf(running: KubeletOptions | undefined, { configs, dropIns }: KubeletPlaces) {
  const { config, configDir } = running ?? {};
  const isNamed = config !== undefined || configDir !== undefined;
  const paths = isNamed ? [config ?? []].flat() : configs;
  return [paths, isNamed ? [configDir ?? []].flat() : dropIns] as const;
}

function marksOf(
  running: KubeletOptions | undefined,
  config: KubeletConfig | undefined,
): Pick<KubeletFacts, 'collectsAtPercent' | 'collectsAfter' | 'collectsOlderThan' | 'evictsBelow'> {
  const marks = running?.evictionHard ?? config?.evictionHard;
  const evictsBelow = marks === undefined ? DEFAULT_EVICTION : marks['imagefs.available'];
  const percent = running?.collectsAtPercent ?? config?.imageGCHighThresholdPercent ?? DEFAULT_HIGH_PERCENT;
  const collectsAfter = running?.collectsAfter ?? config?.imageMinimumGCAge ?? DEFAULT_MINIMUM_AGE;
  const oldest = config?.imageMaximumGCAge;
  // `0s` is the default and means none.
  const collectsOlderThan = oldest !== undefined && /[1-9]/.test(oldest) ? oldest : undefined;
  return defined({ collectsAtPercent: percent, collectsAfter, collectsOlderThan, evictsBelow });
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

/** kubelet.config.k8s.io/v1beta1. */
type KubeletConfig = v.InferOutput<typeof configuration>;

const configuration = v.object({
  kind: v.literal('KubeletConfiguration'),
  imagePullCredentialsVerificationPolicy: v.optional(v.string()),
  preloadedImagesVerificationAllowlist: v.optional(v.array(v.string())),
  imageGCHighThresholdPercent: v.optional(v.number()),
  imageMinimumGCAge: v.optional(v.string()),
  imageMaximumGCAge: v.optional(v.string()),
  evictionHard: v.optional(v.record(v.string(), v.string())),
});

/** The file is the last one, which wins. */
interface ReadConfig {
  readonly path: string;
  readonly config: KubeletConfig;
}

/** The files of a running kubelet, and options that win over them. */
interface KubeletOptions {
  readonly config?: string;
  readonly configDir?: string;
  readonly rootDir?: string;
  readonly collectsAtPercent?: number;
  readonly collectsAfter?: string;
  readonly evictionHard?: Readonly<Record<string, string>>;
}

/** More processes than a node has. */
const MAX_PROCESSES = 100_000;

interface RunningPrograms {
  readonly kubelet?: KubeletOptions;
  readonly criDockerd?: CriDockerdPins;
}

/**
 * Reads the command lines of both programs. k3s runs them within the k3s process, without these
 * options.
 * @param processes `/proc`
 */
async function runningPrograms(processes: string, signal: AbortSignal): Promise<RunningPrograms> {
  const names = await readdir(processes).catch((): string[] => []);
  const found = new Map<string, readonly string[]>();
  for (const name of names.filter((one) => /^\d+$/.test(one)).slice(0, MAX_PROCESSES)) {
    signal.throwIfAborted();
    const line = await readFile(join(processes, name, 'cmdline'), { encoding: 'utf8', signal }).catch(() => '');
    const [program = '', ...args] = line.split('\0');
    if (!found.has(basename(program))) found.set(basename(program), args);
  }
  signal.throwIfAborted();
  const [kubelet, criDockerd] = ['kubelet', 'cri-dockerd'].map((program) => found.get(program));
  return defined({
    kubelet: kubelet && optionsOf(kubelet),
    criDockerd: criDockerd && {
      images: listOf(criDockerd, 'pinned-images'),
      labels: listOf(criDockerd, 'pinned-image-labels'),
    },
  });
}

function optionsOf(args: readonly string[]): KubeletOptions {
  const option = (name: string): string | undefined => valuesOf(args, name).at(-1);
  const [config, configDir, rootDir] = ['config', 'config-dir', 'root-dir'].map(option);
  const percent = Number(option('image-gc-high-threshold') ?? Number.NaN);
  const eviction = option('eviction-hard');
  return defined({
    config: config || undefined,
    configDir: configDir || undefined,
    rootDir: rootDir || undefined,
    collectsAtPercent: Number.isFinite(percent) ? percent : undefined,
    collectsAfter: option('minimum-image-ttl-duration') || undefined,
    evictionHard: eviction === undefined ? undefined : thresholdsOf(eviction),
  });
}

/** The values of an option that is given as `--name=value` or `--name value`, in their order. */
function valuesOf(args: readonly string[], name: string): string[] {
  return args.flatMap((arg, at) =>
    arg === `--${name}` ? (args[at + 1] ?? []) : arg.startsWith(`--${name}=`) ? arg.slice(name.length + 3) : [],
  );
}

/** An option that may be repeated, and has a list with commas each time. */
function listOf(args: readonly string[], name: string): string[] {
  return valuesOf(args, name).flatMap((value) => value.split(',').flatMap((one) => one.trim() || []));
}

/** `imagefs.available<5%,nodefs.available<10%`. */
function thresholdsOf(text: string): Record<string, string> {
  const pairs = text.split(',').map((pair) => pair.split('<'));
  return Object.fromEntries(
    pairs.flatMap(([name = '', mark]) => (mark === undefined ? [] : [[name.trim(), mark.trim()]])),
  );
}

/**
 * The first configuration of `paths`, with the drop-ins of `folders` over it: `*.conf`, by name.
 */
async function readConfig(
  paths: readonly string[],
  folders: readonly string[],
  signal: AbortSignal,
): Promise<ReadConfig | undefined> {
  const found: ReadConfig[] = [];
  for (const path of paths) {
    const config = await readDocument(path, configuration, signal);
    if (config === undefined) continue;
    found.push({ path, config });
    break;
  }
  for (const folder of folders) {
    const names = (await readdir(folder).catch((): string[] => [])).filter((name) => name.endsWith('.conf')).sort();
    for (const path of names.map((name) => join(folder, name))) {
      const config = await readDocument(path, configuration, signal);
      if (config !== undefined) found.push({ path, config });
    }
  }
  const last = found.at(-1);
  return last && { path: last.path, config: found.map(({ config }) => config).reduce(merged) };
}

/** A member replaces the previous one, and maps are joined (kubelet, `--config-dir`). */
function merged(before: KubeletConfig, over: KubeletConfig): KubeletConfig {
  const evictionHard = { ...before.evictionHard, ...over.evictionHard };
  const hasMarks = before.evictionHard !== undefined || over.evictionHard !== undefined;
  return { ...before, ...over, ...(hasMarks && { evictionHard }) };
}

/** JSON is YAML too. Returns undefined for any other file. Throws only on abort. */
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
