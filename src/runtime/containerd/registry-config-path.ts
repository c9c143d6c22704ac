import { isAbsolute, normalize } from 'node:path';
import { readConfiguredRegistry } from './containerd-config.ts';

/** The `config_path` of containerd's CRI plugin: directories in order, not set, or not readable. */
export type RegistryConfigPath =
  | {
      readonly kind: 'set';
      readonly directories: readonly [string, ...string[]];
      /**
       * The one directory that containerd may take a list of several for, as
       * `/etc/containerd/certs.d:/etc/docker/certs.d` (docs/runtime-facts.md, fact 36). Absent
       * where it reads the list.
       */
      readonly literalDirectory?: string;
    }
  | { readonly kind: 'unset' }
  | { readonly kind: 'unknown' };

/** What is known of a containerd. */
export interface AskedContainerd {
  /** The verbose answer of CRI `Status`. */
  readonly info: Readonly<Record<string, string>>;
  /** As it names itself: `containerd v2.2.1`. */
  readonly name: string;
  /** Its main configuration file. Undefined when that is not known. */
  readonly configFile: string | undefined;
}

/** The value that containerd 2.2 and newer use when the configuration has none. */
const DEFAULT_OF_2_2 = '/etc/containerd/certs.d:/etc/docker/certs.d';

/**
 * Finds `config_path`. containerd 1.7 reports it. containerd 2 has it in another plugin that
 * reports nothing (docs/runtime-facts.md, fact 37), so its configuration files are read. If these
 * can't be read, it is `unknown`.
 */
export async function findRegistryConfigPath(
  { info, name, configFile }: AskedContainerd,
  signal: AbortSignal,
): Promise<RegistryConfigPath> {
  const hasTransferService = isAtLeast(name, 2, 1);
  const reported = reportedConfigPath(info);
  if (reported !== undefined) return fromText(reported, hasTransferService);
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

/**
 * `config_path` in the verbose answer of CRI `Status`, whose `config` is the plugin's configuration
 * as JSON. Undefined when it has none.
 */
function reportedConfigPath(info: Readonly<Record<string, string>>): string | undefined {
  try {
    const { registry } = JSON.parse(info.config ?? '') as { registry?: { configPath?: unknown } };
    return typeof registry?.configPath === 'string' ? registry.configPath : undefined;
  } catch {
    return undefined;
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
