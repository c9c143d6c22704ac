import { join } from 'node:path';
import type { ExpectedImage, ImageContent, RuntimeImage } from '../../domain/model/image.ts';
import { parseReference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import { linkSignals, NEVER_ABORTED } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import { Backoff } from '../../platform/backoff.ts';
import { type Clock, systemClock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { together, type Unsubscribe } from '../../platform/subscription.ts';
import type { UnitControl } from '../../ports/node.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import { CriObserver, type Rendered } from '../cri/observe.ts';
import { callAgain, pullError } from '../cri/runtime-error.ts';
import { UnitStop } from '../cri/unit-stop.ts';
import type { RuntimeAdapter } from '../runtime-adapter.ts';
import { imagesInUse, listContainers } from './containers.ts';
import { type EngineImage, type EngineInfo, UNREAD } from './engine-answers.ts';
import { EngineClient } from './engine-client.ts';
import {
  digestName,
  digestTagOf,
  fullName,
  loopbackNames,
  loopbackPath,
  type Pin,
  toRuntimeImage,
} from './image-names.ts';
import { addPin, listPins, pinOf, removePin } from './pins.ts';

export interface DockerRuntimeOptions {
  /** For display: `Docker` or `Podman`. */
  readonly title: string;
  readonly socketPath: string;
  readonly unitNames: readonly string[];
  readonly units: UnitControl;
  readonly mirror: MirrorAddress;
  readonly log: Pick<Log, 'warn'>;
  /** Default 15 s. */
  readonly observeTimeoutMs?: number;
  readonly clock?: Clock;
}

/** The limit for the pin after a pull, since the signal of the pull may have aborted. */
const PIN_MS = 5_000;
const PAUSES = { firstMs: 1_000, longestMs: 60_000 };

/**
 * Docker or Podman by Docker's API. Images are pulled by their names at our registry, and get their
 * other names by tags. A pin is a container that is never started (docs/decisions/runtimes.md).
 */
export function createDockerRuntime(options: DockerRuntimeOptions): RuntimeAdapter {
  const { title, socketPath, unitNames, units, mirror, log, observeTimeoutMs, clock = systemClock } = options;
  const leftOut = new Set<string>();
  const client = new EngineClient(socketPath, undefined, (names) => {
    const fresh = names.filter((name) => !leftOut.has(name)).slice(0, MAX_LEFT_OUT - leftOut.size);
    for (const name of fresh) {
      leftOut.add(name);
      log.warn({}, leftOutMessage(title, name));
    }
  });
  const stop = new UnitStop(unitNames, units, clock);
  const images = new EngineImages(client, mirror);
  let mirrored: ReadonlySet<string> = new Set();
  const observer = new CriObserver({
    cri: {
      socketPath,
      status: (signal) => client.status(signal),
      version: (signal) => client.version(signal),
      listImages: (signal) => images.list(signal),
      imageFilesystemPath: (signal) => client.imageFilesystemPath(signal),
    },
    stop,
    // Podman stages blobs in /var/tmp. Docker does so below its own folder.
    traits: { title, layerStorage: 'unpacked', mirrorsTakeEffect: 'own-pulls', ...(title === 'Podman' && STAGING) },
    timeoutMs: observeTimeoutMs,
    clock,
    rendered: async (signal): Promise<Rendered> => {
      const [{ pins, lasting }, info] = await Promise.all([images.pins(signal), client.info(signal)]);
      const found = { renderedPins: referencesOf(lasting), foundPins: referencesOf(pins) };
      return { ...found, renderedMirrors: [...mirrored].sort(), layerStorage: storageOf(info) };
    },
  });
  return {
    storagePaths: async (signal) => storagePathsOf(await client.info(signal), title),
    close: () => client.close(),
    onChange: (listener) => together([stop.watch(listener), watchChanges(client, clock, listener)]),
    observe: (signal) => observer.observe(signal),
    applyPins: (references, _options, signal) => images.applyPins(references, signal),
    // A pull by another one does not reach our registry (docs/decisions/runtimes.md).
    applyMirrors: async (mirrors) => {
      mirrored = new Set(mirrors.map(({ repository }) => repository));
    },
    pull: (reference, signal) => stop.guard((inner) => images.pull(reference, inner), signal),
    image: (name, signal) => images.find(name, signal),
    addTag: (tag, reference, signal) => images.addTag(tag, reference, signal),
    removeTag: (tag, signal) => images.removeTag(tag, signal),
    containers: (signal) => listContainers(client, signal),
    containerImages: (signal) => imagesInUse(client, signal),
    removeContainer: (containerId, signal) => client.removeContainer(containerId, signal),
    removeImage: (imageId, signal) => images.remove(imageId, signal),
    openContentCheck: () => ({
      check: (image, _onBytes, signal) => callAgain((inner) => images.check(image, inner), clock, signal),
    }),
    forgetContent: async () => undefined, // the API has no call for blobs
  };
}

function referencesOf(pins: readonly Pin[]): readonly string[] {
  return [...new Set(pins.map(({ reference }) => reference))].sort();
}

/** At most this many are logged until the daemon restarts. */
const MAX_LEFT_OUT = 100;

function leftOutMessage(title: string, name: string): string {
  return `The answer of ${title} about ${name} can't be read, mostly since its labels are too large. It is left out, and all others are used; while a container can't be read, no image and no tag is removed, since it may use any. Remove it, or make it again with fewer labels`;
}

const STAGING = { stagingPath: '/var/tmp' };

/** The containerd image store keeps blobs and their unpacked files. */
function storageOf({ DriverStatus }: EngineInfo) {
  const isContainerd = DriverStatus.some(([name, value]) => name === 'driver-type' && value?.includes('containerd'));
  return isContainerd ? 'both' : 'unpacked';
}

/**
 * The folder of the storage driver may be a link. Returns no paths if not all are known: Docker's
 * containerd image store may be that of another containerd, and Podman does not report where an
 * `imagestore` is.
 */
function storagePathsOf(info: EngineInfo, title: string): readonly string[] {
  return title === 'Podman' || storageOf(info) === 'both'
    ? []
    : [info.DockerRootDir, join(info.DockerRootDir, info.Driver)];
}

/** Events of a removal by others. Removals by stickpin match too, and cost a round. */
const LOSSES = new Set(['destroy', 'remove', 'untag', 'delete']);

function watchChanges(client: EngineClient, clock: Clock, notify: () => void): Unsubscribe {
  const end = new AbortController();
  const { signal, release } = linkSignals([end.signal, client.closed]);
  const watch = async (): Promise<void> => {
    const backoff = new Backoff(PAUSES);
    let wasAway = false;
    const onOpen = () => {
      backoff.succeeded();
      if (wasAway) notify();
    };
    while (!signal.aborted) {
      try {
        for await (const { Action } of client.changes(onOpen, signal)) if (LOSSES.has(Action)) notify();
      } catch {
        // The rounds see whether the engine is there.
      }
      wasAway = true;
      await clock.sleep(backoff.failed(), signal).catch(() => undefined);
    }
  };
  void watch().finally(release);
  return () => end.abort();
}

/** The images of the engine by their real names. */
class EngineImages {
  private pinned: ReadonlySet<string> = new Set();
  /** The ids of the images that had pins: an id says the same as a digest. */
  private readonly pinnedIds = new Map<string, string>();
  private runningPulls = 0;
  /** Serializes changes of pins: a pull and a round may want the same one. */
  private readonly inTurn = oneAtATime();

  constructor(
    private readonly client: EngineClient,
    private readonly mirror: MirrorAddress,
  ) {}

  async list(signal: AbortSignal): Promise<RuntimeImage[]> {
    const { client, mirror } = this;
    const [listed, pins] = await Promise.all([client.listImages(signal), listPins(client, signal)]);
    for (const { reference, imageId } of pins) this.pinnedIds.set(reference, imageId);
    // Nobody can remove an image of a store that is only read, and a pull of it copies nothing.
    const found = listed.filter(({ Id, ReadOnly }) => ReadOnly !== true || pins.some(({ imageId }) => imageId === Id));
    const ids = new Set(found.map(({ Id }) => Id));
    // Docker's containerd image store does not list an image that is unpacked and has lost blobs,
    // and pulls these not again (docs/runtime-facts.md, fact 55).
    const unlisted = new Set(pins.flatMap(({ imageId }) => (ids.has(imageId) ? [] : imageId)));
    const held: EngineImage[] = [];
    for (const imageId of unlisted) {
      const read = (inner: AbortSignal) => client.imageDetails(imageId, inner);
      const details = await client.readable(`image ${imageId}`, signal, read, undefined);
      if (details !== undefined) held.push(details);
    }
    return [...found, ...held].map((image) => toRuntimeImage(image, pins, mirror));
  }

  async find(name: string, signal: AbortSignal): Promise<RuntimeImage | undefined> {
    return named(await this.list(signal), name);
  }

  async pull(reference: string, signal: AbortSignal): Promise<void> {
    const { client, mirror } = this;
    const source = `${mirror.authority}/${mirror.token}/${loopbackPath(reference)}`;
    const what = `Pull of ${reference}`;
    this.runningPulls += 1;
    try {
      await client.pull(source, what, signal);
      const pulled = await client.imageDetails(source, signal);
      if (pulled === undefined) throw pullError('runtime/pull-failed', `${what}: the engine does not list it`);
      await this.name(pulled.Id, reference, signal);
      // Podman lists each digest of an index as a name, but has only the first of these.
      const names = new Set([source, ...loopbackNames(pulled, mirror).map(({ name }) => name)]);
      for (const name of names) await client.removeName(name, signal);
      if (this.pinned.has(reference)) await this.inTurn(NEVER_ABORTED, () => this.pin(reference, pulled.Id));
    } finally {
      this.runningPulls -= 1;
    }
  }

  /**
   * Makes, keeps and removes pins. Images that are absent get theirs after their pull.
   *
   * @throws the first failure, after the others were tried
   */
  applyPins(references: readonly string[], signal: AbortSignal): Promise<void> {
    this.pinned = new Set(references);
    return this.inTurn(signal, () => this.changePins(references, signal));
  }

  private async changePins(references: readonly string[], signal: AbortSignal): Promise<void> {
    const { client } = this;
    if (this.runningPulls === 0) await this.finishPulls(references, signal);
    const present = await this.presentIds(signal);
    const right = new Set<string>();
    const { pins, lasting } = await this.pins(signal);
    const lastingReferences = new Set(referencesOf(lasting));
    // The image of a pin may be listed no longer only because it can't be read now.
    const isRight = ({ reference, imageId }: Pin) =>
      this.pinned.has(reference) && (present.get(reference) ?? imageId) === imageId && !right.has(reference);
    const failures: unknown[] = [];
    const attempt = async (change: Promise<unknown>) => {
      await change.catch((error: unknown) => {
        if (signal.aborted || (error instanceof AppError && error.code === 'runtime/unreachable')) throw error;
        failures.push(error);
      });
    };
    for (const pin of pins) {
      if (isRight(pin)) right.add(pin.reference);
      else await attempt(removePin(client, pin, signal));
    }
    for (const reference of references) {
      const imageId = present.get(reference);
      if (imageId === undefined) continue;
      if (!right.has(reference)) await attempt(addPin(client, { reference, imageId }, signal));
      else if (!lastingReferences.has(reference)) await attempt(this.name(imageId, reference, signal));
    }
    if (failures.length > 0) throw failures[0];
  }

  /**
   * All pins. One is lasting if its image has the tag for its digest. Without it nothing says which
   * image it is after others removed the pin while the daemon was down, and the containerd image
   * store removes an image whose container uses a tag that is gone.
   */
  async pins(signal: AbortSignal): Promise<{ readonly pins: readonly Pin[]; readonly lasting: readonly Pin[] }> {
    const { client } = this;
    const [listed, pins] = await Promise.all([client.listImages(signal), listPins(client, signal)]);
    // Podman lists an image once for each store, one of which has our tags (docs/runtime-facts.md,
    // fact 54).
    const byId = Map.groupBy(listed, ({ Id }) => Id);
    const isTagged = (name: string) => (image: EngineImage) => image.RepoTags.map(fullName).includes(name);
    // The tags of an image that is not listed are unknown.
    const isLasting = ({ reference, imageId }: Pin) => byId.get(imageId)?.some(isTagged(digestName(reference))) ?? true;
    return { pins, lasting: pins.filter(isLasting) };
  }

  /** Finds images by name, also those that lost all names by digest with their pins. */
  private async presentIds(signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const listed = await this.list(signal);
    const ids = new Set(listed.map(({ imageId }) => imageId));
    for (const [reference, imageId] of this.pinnedIds)
      if (!ids.has(imageId) || !this.pinned.has(reference)) this.pinnedIds.delete(reference);
    const named = listed.flatMap(({ repoDigests, imageId }) => repoDigests.map((name) => [name, imageId] as const));
    return new Map([...this.pinnedIds, ...named]);
  }

  /** Returns false if the image is absent. */
  async addTag(tag: string, reference: string, signal: AbortSignal): Promise<boolean> {
    const image = await this.find(reference, signal);
    return image !== undefined && this.name(image.imageId, tag, signal);
  }

  /** An image that we have pulled keeps its name by digest. */
  async removeTag(tag: string, signal: AbortSignal): Promise<void> {
    const image = await this.find(tag, signal);
    if (image === undefined) return;
    const pins = await listPins(this.client, signal);
    for (const pin of pins.filter(({ imageId }) => imageId === image.imageId))
      await this.name(image.imageId, pin.reference, signal);
    await this.client.removeName(tag, signal);
  }

  /**
   * Removes all its names and our pins.
   * @throws AppError `runtime/pull-failed` when a container uses it
   */
  async remove(imageId: string, signal: AbortSignal): Promise<void> {
    const { client } = this;
    const using = (await client.containers(signal)).filter(({ ImageID }) =>
      [imageId, UNREAD.ImageID].includes(ImageID),
    );
    const user = using.find((each) => pinOf(each) === undefined);
    if (user !== undefined) {
      const [name = user.Id || 'that can not be read'] = user.Names;
      throw pullError('runtime/pull-failed', `${imageId} can't be removed: container ${name.replace('/', '')} uses it`);
    }
    for (const pin of using.flatMap((each) => pinOf(each) ?? [])) await removePin(client, pin, signal);
    const details = await client.imageDetails(imageId, signal);
    // The engine removes an image without a name by its id, and one with several only name by name.
    const names = [...(details?.RepoTags ?? []), ...(details?.RepoDigests ?? [])];
    for (const name of names) if (fullName(name) !== undefined) await client.removeName(name, signal);
    await client.removeName(imageId, signal);
  }

  /** The engine has neither manifests nor blobs in its API, and checks its own records. */
  async check({ reference, documents, layers }: ExpectedImage, signal: AbortSignal): Promise<ImageContent> {
    const image = await this.find(reference, signal);
    const details = image && (await this.client.imageDetails(image.imageId, signal));
    if (details === undefined) return { kind: 'absent', faults: [] };
    const isOther = !documents.some((digest) => digest === details.Id);
    const diffIds = details.RootFS?.Layers ?? [];
    const lacking = layers.filter(({ diffId }) => !diffIds.includes(diffId));
    if (!isOther && lacking.length === 0) return { kind: 'whole', by: 'records' };
    const message = isOther
      ? `${reference} names the image ${details.Id}, which is none of the release`
      : `${reference} has other layers than the release`;
    return { kind: 'unknown', reason: { code: 'runtime/config', message } };
  }

  /** Names it by tag, by digest, or both. Returns false if the image is absent. */
  private async name(imageId: string, reference: string, signal: AbortSignal): Promise<boolean> {
    const { repository, tag, digest } = parseReference(reference);
    const tags = [tag ?? [], digest === undefined ? [] : digestTagOf(digest)].flat();
    for (const each of tags) if (!(await this.client.tag(imageId, repository, each, signal))) return false;
    return true;
  }

  private async pin(reference: string, imageId: string): Promise<void> {
    const signal = AbortSignal.timeout(PIN_MS);
    const pins = await listPins(this.client, signal);
    if (pins.some((pin) => pin.reference === reference && pin.imageId === imageId)) return;
    for (const pin of pins) if (pin.reference === reference) await removePin(this.client, pin, signal);
    await addPin(this.client, { reference, imageId }, signal);
  }

  /** Finishes pulls of a daemon that was killed before it had given an image its names. */
  private async finishPulls(references: readonly string[], signal: AbortSignal): Promise<void> {
    const { client, mirror } = this;
    const byPath = new Map(references.map((reference) => [loopbackPath(reference), reference]));
    for (const image of await client.listImages(signal)) {
      for (const { name, path } of loopbackNames(image, mirror)) {
        const reference = byPath.get(path);
        if (reference !== undefined) await this.name(image.Id, reference, signal);
        await client.removeName(name, signal);
      }
    }
  }
}

function named(images: readonly RuntimeImage[], name: string): RuntimeImage | undefined {
  return images.find(({ imageId, repoTags, repoDigests }) => [imageId, ...repoTags, ...repoDigests].includes(name));
}
