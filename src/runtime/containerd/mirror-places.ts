import type { CriClient } from '../cri/cri-client.ts';
import { configError } from '../cri/runtime-error.ts';
import type { MirrorPlace } from './mirror-folders.ts';
import { findRegistryConfigPath } from './registry-config-path.ts';

/** Where containerd reads its configuration by default. */
export const CONTAINERD_CONFIG_FILE = '/etc/containerd/config.toml';
const DEFAULT_CERTS_DIRECTORY = '/etc/containerd/certs.d';

/** What the settings, or a distribution, say of containerd's configuration. */
export interface KnownConfiguration {
  readonly certsDirectory: string | undefined;
  /** Default {@link CONTAINERD_CONFIG_FILE}, and none where `certsDirectory` is known. */
  readonly configFile: string | undefined;
}

/**
 * The folders in which containerd looks for mirrors: the first one of `config_path`, and where it
 * may take a list for one folder, that folder too. Empty when it reads none, because its
 * configuration sets no `config_path`.
 */
export async function findMirrorPlaces(
  cri: Pick<CriClient, 'statusInfo' | 'version'>,
  { certsDirectory, configFile }: KnownConfiguration,
  signal: AbortSignal,
): Promise<readonly MirrorPlace[]> {
  const [info, name] = await Promise.all([cri.statusInfo(signal), cri.version(signal)]);
  // A distribution with its own folder has its own configuration, too.
  const ownFile = certsDirectory === undefined ? CONTAINERD_CONFIG_FILE : undefined;
  const configured = await findRegistryConfigPath({ info, name, configFile: configFile ?? ownFile }, signal);
  if (configured.kind === 'unset') return [];
  if (certsDirectory !== undefined) return [[certsDirectory]];
  if (configured.kind === 'unknown') return [[DEFAULT_CERTS_DIRECTORY]];
  const { directories, literalDirectory } = configured;
  return literalDirectory === undefined ? [directories] : [directories, [literalDirectory, ...directories]];
}

/** What to do when containerd reads no mirrors. */
const CONFIG_PATH_REMEDY =
  `Set config_path = "${DEFAULT_CERTS_DIRECTORY}" in /etc/containerd/config.toml, in the table ` +
  '[plugins."io.containerd.cri.v1.images".registry] of a file with version = 3, or ' +
  '[plugins."io.containerd.grpc.v1.cri".registry] of an older one, and restart containerd';

/** There is no folder to write mirrors to. */
export function configPathMissing() {
  return configError(`containerd reads no mirrors: its configuration sets no config_path. ${CONFIG_PATH_REMEDY}`);
}
