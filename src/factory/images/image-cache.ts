import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { copyFile, link, lstat, mkdir, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Descriptor, parseManifest } from '../../bundle/format/oci-schema.ts';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { layoutBlobPath } from './layout-source.ts';

export interface CacheChoice {
  readonly directory: string;
  readonly maxBytes: number;
}

/** By the Cache Directory Tagging Specification. Nothing is removed from a folder without it. */
const TAG = 'CACHEDIR.TAG';
const TAG_TEXT = 'Signature: 8a477f597d28d172789f06886806bc55\n# Images that stickpin keeps for the next bundle.\n';
/** A file of the cache, also one that a killed process left. */
const CACHED = /^[0-9a-f]{64}(?:\.[0-9a-f-]{36})?$/;

/** Only a transfer by skopeo checks such rules of containers-policy.json(5). */
const DEMANDS_SIGNATURES = /"(?:signedBy|sigstoreSigned)"/;

/**
 * Keeps whole images of registries for the next try. It is an OCI layout without an index, and
 * `images/` has the manifests by the place that they came from. Any file may be missing or damaged,
 * and several processes may use it. A fault of the cache is reported once and fails nothing.
 */
export class ImageCache {
  private hasFailed = false;

  private constructor(
    private readonly choice: CacheChoice,
    /** What skopeo lets through depends on it, so that an image is cached for one policy. */
    private readonly policy: string,
    private readonly onFault: (message: string) => void,
  ) {}

  /** Returns undefined where skopeo demands signatures, which nobody checks of a cached image. */
  static async open(choice: CacheChoice, onFault: (message: string) => void): Promise<ImageCache | undefined> {
    const policy = await readPolicy();
    if (DEMANDS_SIGNATURES.test(policy)) return undefined;
    const cache = new ImageCache(choice, policy, onFault);
    const fault = await cache.fault().catch(reasonOf);
    if (fault === undefined) return cache;
    onFault(`the cache ${choice.directory} is not used: ${fault}; see --cache and --no-cache`);
    return undefined;
  }

  /** Another user could have links there, by which files elsewhere were removed. */
  private async fault(): Promise<string | undefined> {
    const { directory } = this.choice;
    const names = await readdir(directory).catch((error: unknown) => {
      if (systemCodeOf(error) === 'ENOENT') return undefined;
      throw error;
    });
    if (names === undefined) return undefined;
    const tag = await readFile(join(directory, TAG), 'utf8').catch(() => undefined);
    if (names.length > 0 && tag !== TAG_TEXT) return `it has files and is no cache of stickpin (no ${TAG})`;
    for (const path of [`${directory}/.`, join(directory, 'blobs'), ...this.folders()]) {
      const found = await lstat(path).catch(() => undefined);
      if (found === undefined) continue;
      if (!found.isDirectory()) return `${path} is not a folder`;
      if (found.uid !== process.geteuid?.() || (found.mode & 0o022) !== 0) return `other users may write to ${path}`;
    }
    return undefined;
  }

  /** The image if it is whole, by the sizes of its blobs. */
  async find(location: string, digest: Digest) {
    const manifest = await readFile(this.manifestPath(location, digest)).catch(() => undefined);
    // A manifest with this digest could be read when it came.
    if (manifest === undefined || digestOf(manifest) !== digest) return undefined;
    const blobs = blobsOf(manifest);
    for (const blob of blobs) if ((await sizeOf(this.blobPath(blob.digest))) !== blob.size) return undefined;
    return { manifest, blobs };
  }

  /**
   * Adds the blobs of an image to the layout at `folder`, each after a check of its digest.
   * @returns the manifest; undefined if something is missing, or was damaged and is now removed
   */
  async take(location: string, digest: Digest, folder: string, signal: AbortSignal): Promise<Buffer | undefined> {
    const taken = await this.attempt(async () => {
      const found = await this.find(location, digest);
      for (const blob of found?.blobs ?? []) {
        const [cached, target] = [this.blobPath(blob.digest), layoutBlobPath(folder, blob.digest)];
        await utimes(cached, new Date(), new Date());
        if ((await sizeOf(target)) === blob.size) continue;
        await linkOrCopy(cached, target);
        // The copy is checked: another user may change a file in the cache.
        if ((await digestOfFile(target, signal)) === blob.digest) continue;
        for (const path of [cached, target]) await rm(path, { force: true });
        return undefined;
      }
      if (found !== undefined) await utimes(this.manifestPath(location, digest), new Date(), new Date());
      return found?.manifest;
    });
    signal.throwIfAborted();
    return taken;
  }

  /** Keeps an image whose blobs are in the layout at `folder`. */
  async put(location: string, manifest: Buffer, folder: string): Promise<void> {
    await this.attempt(async () => {
      await mkdir(this.choice.directory, { recursive: true, mode: 0o700 });
      // The tag comes first: another process may open the cache in between.
      await writeFile(join(this.choice.directory, TAG), TAG_TEXT);
      for (const one of this.folders()) await mkdir(one, { recursive: true, mode: 0o700 });
      for (const { digest, size } of blobsOf(manifest)) {
        const cached = this.blobPath(digest);
        if ((await sizeOf(cached)) !== size) await rm(cached, { force: true });
        await linkOrCopy(layoutBlobPath(folder, digest), cached);
      }
      const path = this.manifestPath(location, digestOf(manifest));
      await replaceWhole(path, (temporary) => writeFile(temporary, manifest));
    });
  }

  /** Removes the files that were not used for the longest time, until the others fit. */
  async prune(): Promise<void> {
    const found: { readonly path: string; readonly size: number; readonly mtimeMs: number }[] = [];
    for (const folder of this.folders()) {
      for (const name of await readdir(folder).catch(() => [])) {
        const path = join(folder, name);
        const file = await lstat(path).catch(() => undefined);
        if (file?.isFile() && CACHED.test(name)) found.push({ path, size: file.size, mtimeMs: file.mtimeMs });
      }
    }
    let keptBytes = 0;
    for (const { path, size } of found.sort((a, b) => b.mtimeMs - a.mtimeMs)) {
      if (keptBytes + size <= this.choice.maxBytes) keptBytes += size;
      else await this.attempt(() => rm(path, { force: true }));
    }
  }

  private manifestPath(location: string, digest: Digest): string {
    return join(this.choice.directory, 'images', hexOf(digestOf([this.policy, location, digest].join('\n'))));
  }

  private blobPath(digest: Digest): string {
    return layoutBlobPath(this.choice.directory, digest);
  }

  private folders(): readonly [string, string] {
    return [join(this.choice.directory, 'images'), join(this.choice.directory, 'blobs', 'sha256')];
  }

  private async attempt<T>(act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await act();
    } catch (error) {
      if (systemCodeOf(error) === undefined) throw error;
      if (!this.hasFailed && systemCodeOf(error) !== 'ABORT_ERR') {
        this.onFault(
          `the cache ${this.choice.directory} can't be used: ${reasonOf(error)}; see --cache and --no-cache`,
        );
        this.hasFailed = true;
      }
      return undefined;
    }
  }
}

function blobsOf(manifest: Buffer): readonly Descriptor[] {
  const { config, layers } = parseManifest(manifest, 'manifest in the cache', 'bundle/source');
  return [config, ...layers];
}

/** The policy that skopeo finds; empty without one. */
async function readPolicy(): Promise<string> {
  for (const path of [join(homedir(), '.config/containers/policy.json'), '/etc/containers/policy.json']) {
    const policy = await readFile(path, 'utf8').catch(() => undefined);
    if (policy !== undefined) return policy;
  }
  return '';
}

/** A link takes no space. The system lets nobody link a file of another user. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: unknown) => {
    if (systemCodeOf(error) !== 'EEXIST') await replaceWhole(to, (temporary) => copyFile(from, temporary));
  });
}

async function replaceWhole(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await write(temporary);
  await rename(temporary, path);
}

/** Undefined for what is no file: a link could lead anywhere. */
async function sizeOf(path: string): Promise<number | undefined> {
  const found = await lstat(path).catch(() => undefined);
  return found?.isFile() ? found.size : undefined;
}

async function digestOfFile(path: string, signal: AbortSignal): Promise<Digest> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash, { signal });
  return digestFromHex(hash.digest('hex'));
}
