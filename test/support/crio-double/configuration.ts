import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'toml';
import { formatGoDuration, parseGoDuration } from './cri/go-duration.ts';
import type { DoubleOptions } from './options.ts';

/**
 * The part of CRI-O's configuration that the double knows, as it results from defaults, `crio.conf`
 * and the drop-ins.
 */
export interface CrioConfiguration {
  readonly logLevel: string;
  readonly pauseImage: string;
  readonly pinnedImages: readonly string[];
  readonly signaturePolicy: string;
  readonly bigFilesDirectory: string;
  /** 0 means never (docs/runtime-facts.md, fact 20). */
  readonly pullProgressTimeoutMs: number;
}

const logLevels = ['fatal', 'panic', 'error', 'warn', 'warning', 'info', 'debug', 'trace'];

/**
 * Reads `crio.conf`, then every file below the drop-in directory (docs/runtime-facts.md, facts 1 to
 * 4): recursively, in lexical order, whatever its suffix, hidden files too. A later file's value
 * replaces an earlier one's; lists are not merged. Unknown keys are ignored, so `pinned_images`
 * outside `[crio.image]` has no effect. A missing `crio.conf` or directory is not an error.
 *
 * @param directory the drop-in directory; undefined and one that is not there are passed over.
 * @throws Error in CRI-O's words when a file can't be read (a dangling link, a link to a directory)
 *   or decoded.
 */
export function loadConfiguration(options: DoubleOptions, directory: string | undefined): CrioConfiguration {
  let configuration: CrioConfiguration = {
    logLevel: 'info',
    pauseImage: 'registry.k8s.io/pause:3.10.1',
    pinnedImages: [],
    signaturePolicy: options.signaturePolicy,
    bigFilesDirectory: options.bigFilesDirectory,
    pullProgressTimeoutMs: 0,
  };
  if (isThere(options.configFile)) {
    configuration = prefixed('update config from single file: update config from drop-in file', () =>
      applyFile(configuration, options.configFile),
    );
  }
  if (directory !== undefined && isThere(directory)) {
    configuration = prefixed('update config from path: walk path', () =>
      filesBelow(directory).reduce(applyFile, configuration),
    );
  }
  if (logLevels.includes(configuration.logLevel)) return configuration;
  throw new Error(`not a valid logrus Level: "${configuration.logLevel}"`);
}

/**
 * The configuration as `GET /config` shows it (docs/runtime-facts.md, fact 6): TOML with CRI-O's
 * section names.
 */
export function renderConfiguration(configuration: CrioConfiguration, options: DoubleOptions): string {
  const text = JSON.stringify;
  return `[crio]
  root = ${text(options.root)}
  runroot = ${text(options.runRoot)}
  storage_driver = ${text(options.storageDriver)}
  version_file = ${text(options.versionFile)}
  clean_shutdown_file = ${text(options.cleanShutdownFile ?? '')}
  [crio.api]
    listen = ${text(options.listen)}
  [crio.runtime]
    log_level = ${text(configuration.logLevel)}
  [crio.image]
    pause_image = ${text(configuration.pauseImage)}
    pinned_images = [${configuration.pinnedImages.map((pin) => text(pin)).join(', ')}]
    signature_policy = ${text(configuration.signaturePolicy)}
    big_files_temporary_dir = ${text(configuration.bigFilesDirectory)}
    pull_progress_timeout = ${text(formatGoDuration(configuration.pullProgressTimeoutMs))}
`;
}

/**
 * Files below a directory in the order of Go's `filepath.Walk`: names sorted in each directory,
 * links not followed.
 */
function filesBelow(directory: string): string[] {
  if (!lstatSync(directory).isDirectory()) return [directory];
  return readdirSync(directory)
    .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    .flatMap((name) => filesBelow(join(directory, name)));
}

function applyFile(before: CrioConfiguration, path: string): CrioConfiguration {
  const text = readText(path);
  return prefixed(`unable to decode configuration ${path}`, () => {
    const crio = table(parse(text), 'crio');
    const image = table(crio, 'image');
    const timeout = stringOf(image, 'pull_progress_timeout');
    return {
      logLevel: stringOf(table(crio, 'runtime'), 'log_level') ?? before.logLevel,
      pauseImage: stringOf(image, 'pause_image') ?? before.pauseImage,
      pinnedImages: stringsOf(image, 'pinned_images') ?? before.pinnedImages,
      signaturePolicy: stringOf(image, 'signature_policy') ?? before.signaturePolicy,
      bigFilesDirectory: stringOf(image, 'big_files_temporary_dir') || before.bigFilesDirectory,
      pullProgressTimeoutMs: timeout === undefined ? before.pullProgressTimeoutMs : parseGoDuration(timeout),
    };
  });
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new Error(`open ${path}: no such file or directory`);
    if (code === 'EISDIR') throw new Error(`read ${path}: is a directory`);
    if (code === 'EACCES') throw new Error(`open ${path}: permission denied`);
    throw error;
  }
}

type Table = Readonly<Record<string, unknown>>;

function table(parent: unknown, key: string): Table {
  const value = (parent as Table)[key];
  if (value === undefined) return {};
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error(`${key} is not a table`);
  return value as Table;
}

function stringOf(parent: Table, key: string): string | undefined {
  const value = parent[key];
  if (value === undefined || typeof value === 'string') return value;
  throw new Error(`incompatible types: ${key} takes a string`);
}

function stringsOf(parent: Table, key: string): readonly string[] | undefined {
  const value = parent[key];
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw new Error(`incompatible types: ${key} takes a list of strings`);
}

/** Whether something is at the path, links followed. */
export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function prefixed<T>(prefix: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new Error(`${prefix}: ${(error as Error).message}`);
  }
}
