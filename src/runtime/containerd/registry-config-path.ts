/**
 * What containerd's CRI plugin says of its `config_path`: a directory, none set, or nothing that
 * can be read.
 */
export type RegistryConfigPath =
  | { readonly kind: 'set'; readonly directory: string }
  | { readonly kind: 'unset' }
  | { readonly kind: 'unknown' };

/**
 * Reads `config_path` out of the verbose answer to CRI `Status`, whose `config` is the plugin's
 * configuration as JSON. containerd 2 has it in another plugin and doesn't show it: `unknown`. Of
 * several directories the first counts.
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
