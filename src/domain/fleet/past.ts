import { compareVersions, fitsScheme, schemeOf, type VersionScheme } from '../model/version.ts';
import type { NodeStatus } from './node-status.ts';

/** A release of a stream, by its version. */
export interface StreamVersion {
  readonly name: string;
  readonly version: string;
  /** Of the stream; default: what the versions that are compared say. */
  readonly scheme?: VersionScheme | undefined;
}

/** Whether a node has gone on to a later release of the stream. */
export function isPast(status: NodeStatus | undefined, { name, version, scheme }: StreamVersion): boolean {
  const current = status?.releases.find((one) => one.name === name && one.current === true);
  return current !== undefined && isLater(current.version, version, scheme);
}

/**
 * Whether a version is later than another one. False when that can't be told.
 *
 * @param scheme of the stream; undefined: what the two versions say
 */
export function isLater(version: string, than: string, scheme: VersionScheme | undefined): boolean {
  const way = scheme ?? schemeOf([{ version }, { version: than }]) ?? 'semver';
  return fitsScheme(version, way) && fitsScheme(than, way) && compareVersions(version, than, way) > 0;
}
