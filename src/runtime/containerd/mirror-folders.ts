import { realpath, rmdir } from 'node:fs/promises';
import { dirname, isAbsolute, normalize, resolve } from 'node:path';
import { systemCodeOf } from '../../platform/app-error.ts';
import { isTable, type PathRecord } from '../config/config-file.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import type { CriClient } from '../cri/cri-client.ts';
import { configError } from '../cri/runtime-error.ts';
import { readConfiguredRegistry, reportedConfig } from './containerd-config.ts';
import { forEachAllowed, HostsDirectory } from './hosts-directory.ts';

/** The folder for mirrors, then those with further configuration (see {@link HostsDirectory}). */
type MirrorPlace = readonly [string, ...string[]];

/** `systemd/clear-mirrors` reads these without a record. */
export const FOLDERS_CLEARED_ANYWAY: readonly string[] = [
  '/etc/containerd/certs.d',
  '/etc/containerd/certs.d:/etc/docker/certs.d',
  '/var/lib/rancher/k3s/agent/etc/containerd/certs.d',
  '/var/lib/rancher/rke2/agent/etc/containerd/certs.d',
  '/var/snap/microk8s/current/args/certs.d',
];

const STALE = 'stale ';

/**
 * Mirrors in all folders that containerd may read, and none in former ones. INVARIANT: a folder is
 * recorded while a file of ours is in it, also after a crash.
 */
export class MirrorFolders {
  /** Former folders that could not be cleared, until the next start. */
  private readonly abandoned = new Set<string>();

  constructor(
    private readonly record: PathRecord,
    private readonly address: MirrorAddress,
  ) {}

  /** Former folders get their previous files back. @throws AppError `runtime/…` */
  async apply(places: readonly MirrorPlace[], repositories: readonly string[], signal: AbortSignal): Promise<void> {
    const { record } = this;
    const inUse = places.map(([folder]) => folder);
    const former = await this.formerFolders(places);
    if (repositories.length > 0) await record.write([...former, ...inUse]);
    await forEachAllowed(places, (place) => this.directory(place).apply(repositories, signal));
    if (repositories.length === 0) for (const folder of inUse) await removeLiteralDirectory(folder);
    const kept: string[] = [];
    for (const folder of former) if (!(await this.isCleared(folder, signal))) kept.push(folder);
    await record.write([...kept, ...(repositories.length > 0 ? inUse : [])]);
  }

  /**
   * What all `places` have, sorted. `stale …`: missing or outdated in one, or in a former folder.
   */
  async rendered(places: readonly MirrorPlace[], signal: AbortSignal): Promise<string[]> {
    const recorded = new Set(await this.record.read());
    const lists: (readonly string[])[] = [];
    for (const place of places) {
      const names = await this.directory(place).rendered(signal);
      lists.push(recorded.has(place[0]) ? names : names.map(stale));
    }
    const leftOver: string[] = [];
    for (const folder of await this.formerFolders(places))
      if (!this.abandoned.has(folder)) leftOver.push(...(await this.leftIn(folder, signal)));
    const found = lists.flat().map((name) => (lists.every((names) => names.includes(name)) ? name : stale(name)));
    return [...new Set([...found, ...leftOver])].sort();
  }

  private directory(place: MirrorPlace): HostsDirectory {
    return new HostsDirectory(place, this.address);
  }

  private async formerFolders(places: readonly MirrorPlace[]): Promise<readonly string[]> {
    const inUse = new Set(await Promise.all(places.map(([folder]) => realPathOf(folder))));
    const former: string[] = [];
    for (const folder of await this.record.read()) if (!inUse.has(await realPathOf(folder))) former.push(folder);
    return former;
  }

  private async isCleared(folder: string, signal: AbortSignal): Promise<boolean> {
    try {
      await this.directory([folder]).apply([], signal);
      await removeLiteralDirectory(folder);
      return true;
    } catch {
      signal.throwIfAborted();
      this.abandoned.add(folder);
      return false;
    }
  }

  private async leftIn(folder: string, signal: AbortSignal): Promise<readonly string[]> {
    try {
      return (await this.directory([folder]).rendered(signal)).map(stale);
    } catch {
      // An unreadable folder is no longer in use.
      signal.throwIfAborted();
      return [];
    }
  }
}

/** One folder may have several paths, with a slash at its end or by a link. */
async function realPathOf(folder: string): Promise<string> {
  return realpath(folder).catch(() => resolve(folder));
}

function stale(name: string): string {
  return name.startsWith(STALE) ? name : `${STALE}${name}`;
}

/** It exists only for our files, and is removed when it is empty. */
async function removeLiteralDirectory(folder: string): Promise<void> {
  for (let path = folder; path.includes(':'); path = dirname(path)) {
    try {
      await rmdir(path);
    } catch (error) {
      if (systemCodeOf(error) !== 'ENOENT') return;
    }
  }
}

/** The default configuration file of containerd. */
export const CONTAINERD_CONFIG_FILE = '/etc/containerd/config.toml';
const DEFAULT_CERTS_DIRECTORY = '/etc/containerd/certs.d';

interface KnownConfiguration {
  readonly certsDirectory: string | undefined;
  /** Default {@link CONTAINERD_CONFIG_FILE}, and none where `certsDirectory` is known. */
  readonly configFile: string | undefined;
}

/** The places in `config_path`, and the folder that containerd may take a list for. */
export async function findMirrorPlaces(
  cri: CriClient,
  { certsDirectory, configFile }: KnownConfiguration,
  signal: AbortSignal,
): Promise<readonly MirrorPlace[]> {
  const [info, name] = await Promise.all([cri.statusInfo(signal), cri.version(signal)]);
  // A distribution with a certs directory has another configuration file, too.
  const ownFile = certsDirectory === undefined ? CONTAINERD_CONFIG_FILE : undefined;
  const configured = await findRegistryConfigPath({ info, name, configFile: configFile ?? ownFile }, signal);
  if (configured.kind === 'unset') return [];
  if (certsDirectory !== undefined) return [[certsDirectory]];
  if (configured.kind === 'unknown') return [[DEFAULT_CERTS_DIRECTORY]];
  const { directories, literalDirectory } = configured;
  return literalDirectory === undefined ? [directories] : [directories, [literalDirectory, ...directories]];
}

const CONFIG_PATH_REMEDY =
  `Set config_path = "${DEFAULT_CERTS_DIRECTORY}" in /etc/containerd/config.toml, in the table ` +
  '[plugins."io.containerd.cri.v1.images".registry] of a file with version = 3, or ' +
  '[plugins."io.containerd.grpc.v1.cri".registry] of an older one, and restart containerd';

export function configPathMissing() {
  return configError(`containerd reads no mirrors: its configuration sets no config_path. ${CONFIG_PATH_REMEDY}`);
}

/** Directories in order, not set, or not readable. */
type RegistryConfigPath =
  | {
      readonly kind: 'set';
      readonly directories: readonly [string, ...string[]];
      /**
       * `/etc/containerd/certs.d:/etc/docker/certs.d`, taken for one (docs/runtime-facts.md, fact
       * 36).
       */
      readonly literalDirectory?: string;
    }
  | { readonly kind: 'unset' }
  | { readonly kind: 'unknown' };

interface RunningContainerd {
  /** The verbose answer of CRI `Status`. */
  readonly info: Readonly<Record<string, string>>;
  /** The name that it reports: `containerd v2.2.1`. */
  readonly name: string;
  readonly configFile: string | undefined;
}

/** containerd 2.2 and newer have this default. */
const DEFAULT_OF_2_2 = '/etc/containerd/certs.d:/etc/docker/certs.d';

/** containerd 2 does not report it (docs/runtime-facts.md, fact 37), so its files are read. */
export async function findRegistryConfigPath(
  { info, name, configFile }: RunningContainerd,
  signal: AbortSignal,
): Promise<RegistryConfigPath> {
  const hasTransferService = isAtLeast(name, 2, 1);
  const { registry } = reportedConfig(info);
  const reported = isTable(registry) ? registry.configPath : undefined;
  if (typeof reported === 'string') return fromText(reported, hasTransferService);
  if (configFile === undefined) return { kind: 'unknown' };
  const hasDefault = isAtLeast(name, 2, 2);
  const configured = await readConfiguredRegistry(configFile, signal);
  switch (configured.kind) {
    case 'unknown':
      return configured;
    case 'absent':
      return hasDefault ? fromText(DEFAULT_OF_2_2, hasTransferService) : { kind: 'unknown' };
    case 'read': {
      const isDefault = configured.configPath === '' && hasDefault && !configured.hasMirrors;
      const text = isDefault ? DEFAULT_OF_2_2 : configured.configPath;
      return fromText(text, hasTransferService && !configured.pullsLocally);
    }
  }
}

function fromText(configPath: string, isTakenLiterally: boolean): RegistryConfigPath {
  const [first, ...others] = configPath.split(':').filter((directory) => directory !== '');
  if (first === undefined) return { kind: 'unset' };
  const directories = [first, ...others] as const;
  const isList = configPath.includes(':') && isAbsolute(configPath);
  if (!isTakenLiterally || !isList) return { kind: 'set', directories };
  return { kind: 'set', directories, literalDirectory: normalize(configPath).replace(/\/$/, '') };
}

function isAtLeast(name: string, major: number, minor: number): boolean {
  const [, foundMajor, foundMinor] = /\bv?(\d{1,6})\.(\d{1,6})/.exec(name) ?? [];
  if (foundMajor === undefined || foundMinor === undefined) return false;
  return Number(foundMajor) > major || (Number(foundMajor) === major && Number(foundMinor) >= minor);
}
