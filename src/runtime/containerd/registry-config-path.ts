import { readConfiguredRegistry } from './containerd-config.ts';

/** The `config_path` of containerd's CRI plugin: directories in order, not set, or not readable. */
export type RegistryConfigPath =
  | { readonly kind: 'set'; readonly directories: readonly [string, ...string[]] }
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
  const reported = reportedConfigPath(info);
  if (reported.kind !== 'unknown' || configFile === undefined) return reported;
  const hasDefault = isAtLeast(name, 2, 2);
  const configured = await readConfiguredRegistry(configFile, signal);
  switch (configured.kind) {
    case 'unknown':
      return configured;
    case 'absent':
      return hasDefault ? fromText(DEFAULT_OF_2_2) : { kind: 'unknown' };
    case 'read':
      if (configured.configPath === '' && hasDefault && !configured.hasMirrors) return fromText(DEFAULT_OF_2_2);
      return fromText(configured.configPath);
  }
}

/**
 * Whether this containerd pulls by its transfer service, which finds no `hosts.toml` when
 * `config_path` names several directories (docs/runtime-facts.md, fact 36). Some settings make it
 * pull as older versions do, so this is no more than likely.
 */
export function isLikelyBypassed(name: string, configPath: RegistryConfigPath): boolean {
  return configPath.kind === 'set' && configPath.directories.length > 1 && isAtLeast(name, 2, 1);
}

/**
 * Reads `config_path` from the verbose answer of CRI `Status`, whose `config` is the plugin's
 * configuration as JSON.
 */
function reportedConfigPath(info: Readonly<Record<string, string>>): RegistryConfigPath {
  try {
    const { registry } = JSON.parse(info.config ?? '') as { registry?: { configPath?: unknown } };
    return typeof registry?.configPath === 'string' ? fromText(registry.configPath) : { kind: 'unknown' };
  } catch {
    return { kind: 'unknown' };
  }
}

function fromText(configPath: string): RegistryConfigPath {
  const [first, ...others] = configPath.split(':').filter((directory) => directory !== '');
  return first === undefined ? { kind: 'unset' } : { kind: 'set', directories: [first, ...others] };
}

function isAtLeast(name: string, major: number, minor: number): boolean {
  const [, foundMajor, foundMinor] = /\bv?(\d{1,6})\.(\d{1,6})/.exec(name) ?? [];
  if (foundMajor === undefined || foundMinor === undefined) return false;
  return Number(foundMajor) > major || (Number(foundMajor) === major && Number(foundMinor) >= minor);
}
