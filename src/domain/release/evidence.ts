import { onceFor } from '../../platform/once-for.ts';
import type { Image } from '../model/bundle.ts';
import type { BootTime, RuntimeContainer, RuntimeImage } from '../model/image.ts';
import { repositoryOf } from '../model/reference.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { ComponentSoak, Soak, SoakRun } from '../state/release-record.ts';
import { type Observed, ofStream, type Stored, type StoredBundle } from '../state/state.ts';
import { isTwin, keptBundles } from './recorded-phase.ts';
import type { Whole } from './whole.ts';

/** A tag counts for the image that it names now. */
export interface ImageIds {
  of(name: string): string | undefined;
}

/** Runtimes report ids with or without a leading `sha256:`. */
export function imageIds(images: readonly RuntimeImage[]): ImageIds {
  const byName = new Map<string, string>();
  for (const { imageId, repoTags, repoDigests } of images) {
    for (const name of [bare(imageId), ...repoTags, ...repoDigests]) byName.set(name, imageId);
  }
  return { of: (name) => byName.get(bare(name)) };
}

function bare(name: string): string {
  return name.startsWith('sha256:') ? name.slice('sha256:'.length) : name;
}

export function imageIdOf(container: RuntimeContainer, ids: ImageIds): string | undefined {
  for (const name of container.imageNames) {
    const id = ids.of(name);
    if (id !== undefined) return id;
  }
  return undefined;
}

/** Returns the image's component, else its repository if that is unique, else its reference. */
function componentOf(image: Image, images: readonly Image[]): string {
  if (image.component !== undefined) return image.component;
  const repository = repositoryOf(image.reference);
  const isAlone = images.every((other) => other === image || repositoryOf(other.reference) !== repository);
  return isAlone ? repository : image.reference;
}

export function componentNames({ contents }: StoredBundle): ReadonlySet<string> {
  return new Set(contents.images.map((image) => componentOf(image, contents.images)));
}

export function componentsById({ contents }: StoredBundle, ids: ImageIds): ReadonlyMap<string, string> {
  return new Map(
    contents.images.flatMap((image) => {
      const id = ids.of(image.reference);
      return id === undefined ? [] : [[id, componentOf(image, contents.images)] as const];
    }),
  );
}

const idsIn = onceFor((bundles: readonly StoredBundle[]) => onceFor((ids: ImageIds) => holdersIn(bundles, ids)));

/** Returns the activated releases that have each image, by its reference and by its id. */
function holdersIn(bundles: readonly StoredBundle[], ids: ImageIds): ReadonlyMap<string, readonly StoredBundle[]> {
  const holders = new Map<string, StoredBundle[]>();
  for (const bundle of keptBundles(bundles).filter(({ activatedAt }) => activatedAt !== undefined)) {
    for (const { reference } of bundle.contents.images) {
      for (const name of [reference, ids.of(reference) ?? '']) {
        const known = holders.get(name);
        if (known === undefined) holders.set(name, [bundle]);
        else known.push(bundle);
      }
    }
  }
  return holders;
}

/** Bundles with exactly the same images don't count as others. */
export function distinguishingIds(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
  ids: ImageIds,
): ReadonlySet<string> {
  const holders = idsIn(bundles)(ids);
  const isShared = (name: string) =>
    (holders.get(name) ?? []).some((other) => other.bundleId !== bundle.bundleId && !isTwin(bundle, other));
  const candidates = bundle.contents.images.flatMap(({ reference }) => {
    const id = ids.of(reference);
    return id === undefined || isShared(reference) || isShared(id) ? [] : [id];
  });
  return new Set(candidates);
}

/** Returns the containers of the distinguishing images, and those of required components. */
export function witnessesOf(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
  { containers, ids }: { readonly containers: readonly RuntimeContainer[]; readonly ids: ImageIds },
  { require, ignore }: Policy['lifecycle'],
): readonly Witness[] {
  const components = componentsById(bundle, ids);
  const distinguishing = distinguishingIds(bundle, bundles, ids);
  return containers.flatMap((container) => {
    const id = imageIdOf(container, ids);
    const component = id === undefined ? undefined : components.get(id);
    if (id === undefined || component === undefined || ignore.includes(component)) return [];
    const counts = distinguishing.has(id);
    return counts || require.includes(component) ? [{ component, counts, container }] : [];
  });
}

export interface ContainerView {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly stored: Stored;
  readonly policy: Policy;
  readonly containers: readonly RuntimeContainer[];
  readonly ids: ImageIds;
  /** These pinned references belong to no known release. */
  readonly unclaimed: readonly string[];
  readonly whole: Whole;
  readonly provable: Whole;
}

/** A container that counts for a component. */
export interface Witness {
  readonly component: string;
  readonly counts: boolean;
  readonly container: RuntimeContainer;
}

export type SoakVerdict =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'soaking';
      /** Milliseconds until all running components have soaked. Undefined if time is not enough. */
      readonly remainingMs: number | undefined;
      readonly lacking: readonly string[];
      readonly failing: readonly string[];
    }
  | { readonly kind: 'done' };

/**
 * Returns the soak clock after one more observation. A restart (another container of the same name
 * in the same pod, another attempt or start time) and an exit with an error start the clock of the
 * component again. A successful exit does not count.
 */
export function soakAfter(
  before: Soak | undefined,
  witnesses: readonly Witness[],
  at: BootTime,
  activatedAt: number,
): Soak {
  const base = before?.activatedAt === activatedAt ? before : undefined;
  const isSameBoot = base?.bootId === at.bootId;
  const names = new Set([
    ...(base?.components ?? []).map((entry) => entry.component),
    ...witnesses.map((witness) => witness.component),
  ]);
  const components = [...names].map((component) => {
    const known = base?.components.find((entry) => entry.component === component);
    const ofComponent = witnesses.filter((witness) => witness.component === component);
    return componentAfter(component, known, ofComponent, { uptimeMs: at.uptimeMs, isSameBoot });
  });
  const back = isSameBoot && base?.backSinceMs !== undefined ? { backSinceMs: base.backSinceMs } : {};
  return { activatedAt, bootId: at.bootId, components, ...back };
}

/**
 * The clock that proved the release stays unchanged. A reboot restarts everything. Only changes of
 * the report to other nodes are recorded: jobs come and go, and each record writes to the disk.
 */
export function soakAfterProof(soak: Soak, witnesses: readonly Witness[], at: BootTime): Soak {
  const before = soak.afterProof ?? soak;
  const { bootId, components } = soakAfter({ ...soak, ...before }, witnesses, at, soak.activatedAt);
  if (bootId === before.bootId) {
    const isSame = JSON.stringify(wordOf(components)) === JSON.stringify(wordOf(before.components));
    return isSame ? soak : { ...soak, afterProof: { bootId, components } };
  }
  const disturbed = components.map((one) => ({ ...one, disturbedMs: at.uptimeMs }));
  return { ...soak, afterProof: { bootId, components: disturbed } };
}

/** Returns the report to other nodes about the containers of a release. */
export function wordOf(components: readonly ComponentSoak[]): {
  readonly disturbedMs?: number;
  readonly fails: boolean;
  readonly runs: boolean;
} {
  const times = components.flatMap(({ disturbedMs }) => disturbedMs ?? []);
  return {
    ...(times.length > 0 && { disturbedMs: Math.max(...times) }),
    fails: components.some(({ counts, runs, failed }) => counts && runs.length === 0 && failed.length > 0),
    runs: components.some(({ counts, runs }) => counts && runs.length > 0),
  };
}

/**
 * Whether containers must show that the release runs: those of an earlier release of its stream
 * did, or its own did, in a component that has another image now.
 */
export function needsEvidence(bundle: StoredBundle, bundles: readonly StoredBundle[]): boolean {
  const stream = keptBundles(ofStream(bundles, bundle.payload.name));
  const others = stream.filter((one) => one.bundleId !== bundle.bundleId && one.activatedAt !== undefined);
  const shown = [bundle, ...others].flatMap(({ soak }) => soak?.components ?? []);
  const seen = new Set(shown.flatMap(({ component, counts, startedAt }) => (counts && startedAt > 0 ? component : [])));
  const shared = new Set(others.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)));
  const { images } = bundle.contents;
  return images.some((image) => !shared.has(image.reference) && seen.has(componentOf(image, images)));
}

function componentAfter(
  component: string,
  before: ComponentSoak | undefined,
  witnesses: readonly Witness[],
  { uptimeMs, isSameBoot }: { readonly uptimeMs: number; readonly isSameBoot: boolean },
): ComponentSoak {
  const known = isSameBoot ? before : undefined;
  const running = witnesses.map(({ container }) => container).filter(({ state }) => state === 'running');
  const attested = known?.runs.filter(isAttested) ?? [];
  const runs = [...attested, ...running.map((container) => runAfter(known, container, uptimeMs))];
  const keys = new Set(running.map((container) => container.key));
  const failed = witnesses
    .filter(({ container }) => container.state === 'exited' && container.exitCode !== 0 && !keys.has(container.key))
    .map(({ container }) => container.containerId)
    .sort();
  const isDisturbed =
    failed.some((id) => known?.failed.includes(id) !== true) ||
    running.some((container) => isRestart(known, container));
  const disturbedMs = isDisturbed ? uptimeMs : known?.disturbedMs;
  return {
    component,
    counts: witnesses.some((witness) => witness.counts) || (before?.counts ?? false),
    runs,
    failed,
    ...(disturbedMs !== undefined && { disturbedMs }),
    startedAt: Math.max(before?.startedAt ?? 0, ...running.map((container) => container.startedAt)),
  };
}

/** Somebody attested the run without a container. */
export function isAttested({ containerId }: SoakRun): boolean {
  return containerId === '';
}

/**
 * Starts the clock of an attested component that no container runs. It holds until the next boot or
 * activation.
 *
 * @returns `before` itself where the clock has already begun
 */
export function soakWithAttested(before: Soak | undefined, component: string, at: BootTime, activatedAt: number): Soak {
  const isNow = before?.activatedAt === activatedAt && before.bootId === at.bootId;
  const soak = isNow ? before : soakAfter(before, [], at, activatedAt);
  const known = soak.components.find((entry) => entry.component === component);
  if (known?.runs.some(isAttested)) return soak;
  const run = { key: '', containerId: '', startedAt: 0, sinceMs: at.uptimeMs };
  const entry = { component, failed: [], startedAt: 0, ...known, counts: true, runs: [run, ...(known?.runs ?? [])] };
  return { ...soak, components: [...soak.components.filter((other) => other !== known), entry] };
}

function isSameRun(run: SoakRun, { containerId, startedAt }: RuntimeContainer): boolean {
  return run.containerId === containerId && run.startedAt === startedAt;
}

function runAfter(known: ComponentSoak | undefined, container: RuntimeContainer, uptimeMs: number): SoakRun {
  const { key, containerId, startedAt } = container;
  return known?.runs.find((run) => isSameRun(run, container)) ?? { key, containerId, startedAt, sinceMs: uptimeMs };
}

function isRestart(known: ComponentSoak | undefined, container: RuntimeContainer): boolean {
  if (known?.runs.some((run) => isSameRun(run, container))) return false;
  return container.attempt > 0 || (known?.runs.some((run) => run.key === container.key) ?? false);
}

/** Whether every seen component, and those of `require`, has run without restart for `soak`. */
export function judgeSoak(
  soak: Soak | undefined,
  { bootId, uptimeMs }: BootTime,
  { soak: soakMs, require }: Policy['lifecycle'],
): SoakVerdict {
  const all = soak?.bootId === bootId ? soak.components : [];
  const live = all.filter((entry) => entry.runs.length + entry.failed.length > 0);
  if (!live.some((entry) => entry.counts && entry.runs.length > 0)) return { kind: 'none' };
  const running = live.filter((entry) => entry.runs.length > 0).map((entry) => entry.component);
  const lacking = require.filter((name) => !running.includes(name));
  const failing = live.filter((entry) => entry.runs.length === 0).map((entry) => entry.component);
  const remainingMs = Math.max(
    ...live.map(({ runs, disturbedMs = 0 }) => {
      const since = Math.max(disturbedMs, Math.min(...runs.map((run) => run.sinceMs)));
      return runs.length === 0 ? 0 : since + soakMs - uptimeMs;
    }),
  );
  if (lacking.length + failing.length > 0) return { kind: 'soaking', remainingMs: undefined, lacking, failing };
  return remainingMs <= 0 ? { kind: 'done' } : { kind: 'soaking', remainingMs, lacking, failing };
}
