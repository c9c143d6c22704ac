import { dirname, join } from 'node:path';
import type { Fault } from '../../domain/model/reason.ts';
import { defaultSettings, type Settings } from '../../domain/settings/settings.ts';
import { AppError } from '../../platform/app-error.ts';
import { HttpClient, wholeBody } from '../../platform/http-client.ts';
import {
  type ConfigFault,
  type ConfigFile,
  isTable,
  parseToml,
  readConfigFile,
  type TomlTable,
  walkFiles,
} from '../config/config-file.ts';
import { configError } from '../cri/runtime-error.ts';
import type { ForeignPin } from './pins-drop-in.ts';
import type { SignatureLookupPaths } from './signature-lookup.ts';

/** @throws AppError `runtime/config` that names the first broken file */
export function refuseFaults(faults: readonly ConfigFault[], consequence: string): void {
  const message = describeFaults(faults, consequence);
  if (message !== undefined) throw configError(message);
}

/** @throws AppError `runtime/config` that names the later files that do `what` */
export function refuseShadowing(files: readonly string[], what: string): void {
  const message = describeShadowing(files, what);
  if (message !== undefined) throw configError(message);
}

/** A fault in foreign files, now or after CRI-O's next reload. */
export function pinFault(
  faults: readonly ConfigFault[],
  shadowing: readonly string[],
  registryFaults: readonly ConfigFault[],
): Fault | undefined {
  const message =
    describeFaults(faults, 'CRI-O can neither reload nor start') ??
    describeShadowing(shadowing, SHADOWED_PINS) ??
    describeFaults(registryFaults, HALF_RELOAD);
  return message === undefined ? undefined : { code: 'runtime/config', message };
}

/** A {@link pinFault} for our mirrors. */
export function mirrorFault(faults: readonly ConfigFault[], shadowing: readonly string[]): Fault | undefined {
  const message =
    describeFaults(faults, 'CRI-O can pull no image') ??
    describeShadowing(shadowing, 'configures the same repositories and so takes our mirrors away');
  return message === undefined ? undefined : { code: 'runtime/mirrors-hidden', message };
}

export const SHADOWED_PINS = 'sets pinned_images and so takes the pins of bundles away';
/** A broken registries configuration also affects pins (docs/runtime-facts.md, fact 5). */
export const HALF_RELOAD = 'Every reload of CRI-O stops half-way there, so that pins do not hold';

function describeFaults(faults: readonly ConfigFault[], consequence: string): string | undefined {
  const [first] = faults;
  if (first === undefined) return undefined;
  const more = faults.length === 1 ? '' : ` (and ${faults.length - 1} more files)`;
  return `${first.file} is broken: ${first.reason}${more}. ${consequence} until it is mended`;
}

function describeShadowing(files: readonly string[], what: string): string | undefined {
  if (files.length === 0) return undefined;
  return `Behind 99-stickpin.conf comes ${[...new Set(files)].join(', ')}, which ${what}: rename it so that it sorts before`;
}

interface CrioConfigPaths {
  /** `/etc/crio/crio.conf` */
  readonly configPath: string;
  /** `/etc/crio/crio.conf.d` */
  readonly configDirectory: string;
  /** The link in that directory. */
  readonly linkPath: string;
}

/** CRI-O's configuration without our file. */
interface CrioPins {
  /** The pins in effect without our file. */
  readonly pins: readonly ForeignPin[];
  /** The last of these replaces our pins (docs/runtime-facts.md, fact 4). */
  readonly shadowing: readonly string[];
  /** If CRI-O can't parse one file, every reload fails (docs/runtime-facts.md, facts 2, 5). */
  readonly faults: readonly ConfigFault[];
}

/**
 * Reads in CRI-O's order (docs/runtime-facts.md, fact 1): crio.conf, then everything below the
 * directory, also hidden files, without our link. A dangling link or a link to a directory is
 * `unreadable`.
 */
export async function readCrioConfig(paths: CrioConfigPaths, signal: AbortSignal): Promise<ConfigFile[]> {
  const main = await readConfigFile(paths.configPath, signal);
  const files = main?.kind === 'unreadable' && main.isDangling ? [] : [main];
  for (const path of await walkFiles(paths.configDirectory, { recursive: true })) {
    if (path !== paths.linkPath) files.push(await readConfigFile(path, signal));
  }
  return files.filter((file) => file !== undefined);
}

/** The last file with `[crio.image] pinned_images` counts (docs/runtime-facts.md, facts 3, 4). */
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

/** Compares in the order of the walk: part by part in byte order. */
function comesBehind(path: string, other: string): boolean {
  const [a, b] = [path.split('/'), other.split('/')];
  const at = a.findIndex((part, index) => part !== b[index]);
  return at >= 0 && Buffer.compare(Buffer.from(a[at] ?? ''), Buffer.from(b[at] ?? '')) > 0;
}

/** It has a few KiB. */
const MAX_BYTES = 1024 * 1024;

/**
 * `pause_image` of the running configuration, also the default one, as TOML on the CRI socket
 * (docs/runtime-facts.md, fact 6).
 * @throws AppError `runtime/unreachable`; system errors of the socket
 */
export async function runningPauseImage(socketPath: string, signal: AbortSignal): Promise<string | undefined> {
  const { image } = await runningConfig(socketPath, signal);
  return isTable(image) && typeof image.pause_image === 'string' ? image.pause_image : undefined;
}

/**
 * `root` and `imagestore` of the running configuration, where images and artifacts are, and the
 * folder of the storage driver in them, which may be a link.
 * @throws as {@link runningPauseImage}
 */
export async function runningRoots(socketPath: string, signal: AbortSignal): Promise<readonly string[]> {
  const { root, imagestore, storage_driver: driver } = await runningConfig(socketPath, signal);
  const roots = [root, imagestore].filter((path): path is string => typeof path === 'string' && path !== '');
  return typeof driver === 'string' && driver !== '' ? roots.flatMap((path) => [path, join(path, driver)]) : roots;
}

async function runningConfig(socketPath: string, signal: AbortSignal): Promise<TomlTable> {
  const parsed = parseToml(await readConfig(socketPath, signal));
  const crio = parsed.kind === 'table' ? parsed.table.crio : undefined;
  return isTable(crio) ? crio : {};
}

async function readConfig(socketPath: string, signal: AbortSignal): Promise<string> {
  const response = await new HttpClient({ socketPath }).open({ url: 'http://localhost/config' }, signal);
  const body = await wholeBody(response, MAX_BYTES, () => {
    const message = `the configuration that CRI-O answers with has more than ${MAX_BYTES} bytes`;
    return new AppError({ code: 'runtime/unreachable', message, disposition: 'retry' });
  });
  return body.toString('utf8');
}

export interface CrioPaths extends SignatureLookupPaths {
  readonly configPath: string;
  readonly configDirectory: string;
  /** A link in CRI-O's drop-in directory. tmpfiles.d creates it. */
  readonly pinsLink: string;
  /** The target of the link: the pins that CRI-O reads. */
  readonly pinsFile: string;
  /** Survives a reboot. The guard of crio.service copies it to `pinsFile`. */
  readonly persistentPinsFile: string;
  readonly registriesPath: string;
  readonly registriesDirectory: string;
  /** A link in the registries drop-in directory. tmpfiles.d creates it. */
  readonly mirrorsLink: string;
  readonly mirrorsFile: string;
  /** Survives a reboot. It is copied to `mirrorsFile` before CRI-O starts. */
  readonly persistentMirrorsFile: string;
  /** It exists while CRI-O owes a reload. It must not survive a reboot. */
  readonly reloadMarker: string;
}

export function crioPathsOf({ crio, paths }: Pick<Settings, 'crio' | 'paths'>): CrioPaths {
  return {
    configPath: crio.config_file,
    configDirectory: crio.config_dir,
    pinsLink: join(crio.config_dir, '99-stickpin.conf'),
    pinsFile: crio.pins_file,
    persistentPinsFile: join(paths.state_dir, 'crio/99-stickpin.conf'),
    registriesPath: crio.registries_conf,
    registriesDirectory: crio.registries_dir,
    mirrorsLink: join(crio.registries_dir, '99-stickpin.conf'),
    mirrorsFile: join(paths.run_dir, 'registries.conf'),
    persistentMirrorsFile: join(paths.state_dir, 'crio/registries.conf'),
    reloadMarker: join(paths.run_dir, 'crio-reload-owed'),
    policyPath: crio.signature_policy,
    policiesDirectory: join(dirname(crio.config_file), 'policies'),
    signatureLookupFile: join(crio.registries_d, '99-stickpin.yaml'),
  };
}

export const CRIO_PATHS: CrioPaths = crioPathsOf(defaultSettings);
