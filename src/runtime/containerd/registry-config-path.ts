/** The `config_path` of containerd's CRI plugin: a directory, not set, or not readable. */
export type RegistryConfigPath =
  | { readonly kind: 'set'; readonly directory: string }
  | { readonly kind: 'unset' }
  | { readonly kind: 'unknown' };

/**
 * Reads `config_path` from the verbose answer of CRI `Status`, whose `config` is the plugin's
 * configuration as JSON. containerd 2 has it in another plugin and doesn't show it: `unknown`. With
 * several directories the first is used.
 */
export function registryConfigPath(info: Readonly<Record<string, string>>): RegistryConfigPath {
  try {
    const { registry } = JSON.parse(info.config ?? '') as { registry?: { configPath?: unknown } };
    if (typeof registry?.configPath !== 'string') return { kind: 'unknown' };
    const [directory = ''] = registry.configPath.split(':');
    return directory === '' ? { kind: 'unset' } : { kind: 'set', directory };
  } catch {
    return { kind: 'unknown' };
  }
}
