import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import * as v from 'valibot';
import { parse } from 'yaml';

/** What is read of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1). */
export type KubeletConfig = v.InferOutput<typeof configuration>;

const configuration = v.object({
  kind: v.literal('KubeletConfiguration'),
  imagePullCredentialsVerificationPolicy: v.optional(v.string()),
  preloadedImagesVerificationAllowlist: v.optional(v.array(v.string())),
  imageGCHighThresholdPercent: v.optional(v.number()),
  evictionHard: v.optional(v.record(v.string(), v.string())),
});

/** A configuration, and the file that gave the most of it: the last one. */
export interface ReadConfig {
  readonly path: string;
  readonly config: KubeletConfig;
}

/** Options of a running kubelet that say where its files are, and those that come before them. */
export interface KubeletOptions {
  readonly config?: string;
  readonly configDir?: string;
  readonly rootDir?: string;
  readonly collectsAtPercent?: number;
  readonly evictionHard?: Readonly<Record<string, string>>;
}

/** More processes than a node has. */
const MAX_PROCESSES = 100_000;

/**
 * The options of the kubelet that runs here, from its command line; undefined where no process of
 * this name runs. k3s runs it within its own process, whose command line does not have them.
 *
 * @param processes `/proc`
 */
export async function runningKubelet(processes: string, signal: AbortSignal): Promise<KubeletOptions | undefined> {
  const names = await readdir(processes).catch((): string[] => []);
  for (const name of names.filter((one) => /^\d+$/.test(one)).slice(0, MAX_PROCESSES)) {
    signal.throwIfAborted();
    const line = await readFile(join(processes, name, 'cmdline'), { encoding: 'utf8', signal }).catch(() => '');
    const [program = '', ...args] = line.split('\0');
    if (basename(program) === 'kubelet') return optionsOf(args);
  }
  signal.throwIfAborted();
  return undefined;
}

function optionsOf(args: readonly string[]): KubeletOptions {
  const option = (name: string): string | undefined => {
    const at = args.findLastIndex((arg) => arg === `--${name}` || arg.startsWith(`--${name}=`));
    const given = args[at];
    return given === undefined ? undefined : given.includes('=') ? given.slice(given.indexOf('=') + 1) : args[at + 1];
  };
  const [config, configDir, rootDir] = ['config', 'config-dir', 'root-dir'].map(option);
  const percent = Number(option('image-gc-high-threshold') ?? Number.NaN);
  const eviction = option('eviction-hard');
  return {
    ...(config !== undefined && config !== '' && { config }),
    ...(configDir !== undefined && configDir !== '' && { configDir }),
    ...(rootDir !== undefined && rootDir !== '' && { rootDir }),
    ...(Number.isFinite(percent) && { collectsAtPercent: percent }),
    ...(eviction !== undefined && { evictionHard: thresholdsOf(eviction) }),
  };
}

/** `imagefs.available<5%,nodefs.available<10%`. */
function thresholdsOf(text: string): Record<string, string> {
  const pairs = text.split(',').map((pair) => pair.split('<'));
  return Object.fromEntries(
    pairs.flatMap(([name = '', mark]) => (mark === undefined ? [] : [[name.trim(), mark.trim()]])),
  );
}

/**
 * The first file of `paths` that is a configuration, with the drop-ins of `folders` over it: files
 * `*.conf`, by name. Undefined where there is neither.
 */
export async function readConfig(
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

/**
 * As the kubelet merges a drop-in: a member takes the place of the one before, and maps are joined.
 */
function merged(before: KubeletConfig, over: KubeletConfig): KubeletConfig {
  const evictionHard = { ...before.evictionHard, ...over.evictionHard };
  const hasMarks = before.evictionHard !== undefined || over.evictionHard !== undefined;
  return { ...before, ...over, ...(hasMarks && { evictionHard }) };
}

/**
 * A file that is YAML of this form; JSON is YAML too. Undefined for any other. Throws only on
 * abort.
 */
export async function readDocument<T>(
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
