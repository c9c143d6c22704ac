import {
  type ConfigFault,
  type ConfigFile,
  isTable,
  parseToml,
  readConfigFile,
  type TomlTable,
  walkFiles,
} from '../config/config-file.ts';
import type { ForeignPin } from './pins-drop-in.ts';

/** The paths of CRI-O's configuration, and our file in it. */
export interface CrioConfigPaths {
  /** `/etc/crio/crio.conf` */
  readonly configPath: string;
  /** `/etc/crio/crio.conf.d` */
  readonly configDirectory: string;
  /** Our link in that directory. */
  readonly linkPath: string;
}

/** The pins of CRI-O's configuration without our own file. */
export interface CrioPins {
  /** The pins in effect without our file. */
  readonly pins: readonly ForeignPin[];
  /**
   * Files after ours that set `pinned_images`. The last of them replaces all our pins
   * (docs/runtime-facts.md, fact 4).
   */
  readonly shadowing: readonly string[];
  /**
   * Files that CRI-O can't parse, so that every reload fails as a whole (docs/runtime-facts.md,
   * facts 2, 5).
   */
  readonly faults: readonly ConfigFault[];
}

/**
 * Reads all files in CRI-O's order (docs/runtime-facts.md, fact 1): crio.conf, then everything
 * below the directory, including hidden files. Our own link and a missing crio.conf are left out. A
 * dangling link or a link to a directory is `unreadable`.
 */
export async function readCrioConfig(paths: CrioConfigPaths, signal: AbortSignal): Promise<ConfigFile[]> {
  const main = await readConfigFile(paths.configPath, signal);
  const files = main?.kind === 'unreadable' && main.isDangling ? [] : [main];
  for (const path of await walkFiles(paths.configDirectory, { recursive: true })) {
    if (path !== paths.linkPath) files.push(await readConfigFile(path, signal));
  }
  return files.filter((file) => file !== undefined);
}

/**
 * The effective pins: the list of the last file that sets `[crio.image] pinned_images`
 * (docs/runtime-facts.md, facts 3, 4). Pure.
 */
export function effectivePins(files: readonly ConfigFile[], { configDirectory, linkPath }: CrioConfigPaths): CrioPins {
  const faults: ConfigFault[] = [];
  const shadowing: string[] = [];
  let pins: readonly ForeignPin[] = [];
  for (const file of files) {
    const found = pinsOf(file);
    if (found === undefined) continue;
    if (found.kind === 'fault') {
      faults.push({ file: file.path, reason: found.reason });
      continue;
    }
    pins = found.pins.map((pin) => ({ pin, file: file.path }));
    if (file.path.startsWith(`${configDirectory}/`) && comesBehind(file.path, linkPath)) shadowing.push(file.path);
  }
  return { pins, shadowing, faults };
}

type FoundPins =
  | { readonly kind: 'pins'; readonly pins: readonly string[] }
  | { readonly kind: 'fault'; readonly reason: string };

function pinsOf(file: ConfigFile): FoundPins | undefined {
  if (file.kind === 'unreadable') return { kind: 'fault', reason: file.reason };
  const parsed = parseToml(file.text);
  if (parsed.kind === 'fault') return parsed;
  const list = imageTable(parsed.table)?.pinned_images;
  if (list === undefined) return undefined;
  if (Array.isArray(list) && list.every((pin) => typeof pin === 'string')) return { kind: 'pins', pins: list };
  return { kind: 'fault', reason: 'pinned_images must be a list of strings' };
}

function imageTable(table: TomlTable): TomlTable | undefined {
  const { crio } = table;
  return isTable(crio) && isTable(crio.image) ? crio.image : undefined;
}

/**
 * Whether a path comes later in the order of the walk: part by part in byte order, because the
 * files of a directory are at its position.
 */
function comesBehind(path: string, other: string): boolean {
  const [a, b] = [path.split('/'), other.split('/')];
  const at = a.findIndex((part, index) => part !== b[index]);
  return at >= 0 && Buffer.compare(Buffer.from(a[at] ?? ''), Buffer.from(b[at] ?? '')) > 0;
}
