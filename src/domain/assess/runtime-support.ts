import type { RuntimeObservation } from '../model/image/runtime-image.ts';
import type { RuntimeReason } from '../model/reason.ts';

/** The runtime is too old. */
export type VersionReason = Extract<RuntimeReason, { readonly code: 'runtime/version' }>;

/** Whether the version of a runtime is supported. */
export type RuntimeSupport =
  | { readonly kind: 'supported' }
  /** A runtime with which stickpin was not tested: it continues, and `doctor` warns. */
  | { readonly kind: 'untried'; readonly runtime: string }
  /** Its version can't be read: stickpin continues, and `doctor` warns. `needed`: `CRI-O 1.28`. */
  | { readonly kind: 'unreadable'; readonly runtime: string; readonly needed: string }
  | { readonly kind: 'unsupported'; readonly reason: VersionReason };

interface Least {
  readonly title: string;
  readonly major: number;
  readonly minor: number;
}

/**
 * The oldest versions that report pins over CRI, by the name that `Version` gives. Older ones load
 * a release and never call it pinned.
 */
const LEAST: ReadonlyMap<string, Least> = new Map([
  ['cri-o', { title: 'CRI-O', major: 1, minor: 28 }],
  ['containerd', { title: 'containerd', major: 1, minor: 7 }],
]);

/**
 * Judges a runtime by the name that an observation has: runtime_name and runtime_version of CRI's
 * `Version` with a blank between, such as `containerd 1.6.20~ds1` or `containerd v1.7.11-k3s2`.
 * Only the first two numbers count.
 */
export function runtimeSupport(name: string): RuntimeSupport {
  const [runtime = '', version = ''] = name.trim().split(/\s+/);
  const least = LEAST.get(runtime.toLowerCase());
  if (least === undefined) return { kind: 'untried', runtime: name };
  const [, major, minor] = /^v?(\d{1,6})\.(\d{1,6})(?!\d)/.exec(version) ?? [];
  const needed = `${least.title} ${least.major}.${least.minor}`;
  if (major === undefined || minor === undefined) return { kind: 'unreadable', runtime: name, needed };
  const isOld = Number(major) < least.major || (Number(major) === least.major && Number(minor) < least.minor);
  if (!isOld) return { kind: 'supported' };
  return { kind: 'unsupported', reason: { code: 'runtime/version', data: { runtime: name, needed } } };
}

/** Why nothing may be loaded into the runtime: it is too old. */
export function unsupportedReason(runtime: RuntimeObservation): VersionReason | undefined {
  if (runtime.kind !== 'reachable') return undefined;
  const support = runtimeSupport(runtime.name);
  return support.kind === 'unsupported' ? support.reason : undefined;
}
