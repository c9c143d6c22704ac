import { constants } from 'node:fs';
import { type FileHandle, open, opendir } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { parse } from 'yaml';
import { parseManifests } from '../bundle/documents/kubernetes-manifest.ts';
import type { ImageUse, ImageUses } from '../domain/model/image.ts';
import type { Fault } from '../domain/model/reason.ts';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import type { StaticPodsPort } from '../ports/node.ts';

/** Static pods are in a default folder when the kubelet's configuration names none. */
export interface StaticPodPlaces {
  /** KubeletConfiguration (v1beta1), YAML or JSON. */
  readonly kubeletConfigs: readonly string[];
  readonly folders: readonly string[];
}

/** The places of kubeadm and OpenShift, EKS, k3s and RKE2. */
const STATIC_POD_PLACES: StaticPodPlaces = {
  kubeletConfigs: [
    '/var/lib/kubelet/config.yaml',
    '/etc/kubernetes/kubelet.conf',
    '/etc/kubernetes/kubelet/kubelet-config.json',
  ],
  folders: [
    '/etc/kubernetes/manifests',
    '/var/lib/rancher/k3s/agent/pod-manifests',
    '/var/lib/rancher/rke2/agent/pod-manifests',
  ],
};

/** A control plane's manifest has about 10 KiB. A larger file would block the daemon. */
const MAX_FILE_BYTES = 256 * 1024;
const MAX_FILES = 128;
const MAX_IMAGES_PER_FILE = 64;
const MAX_NAME = 512;

/** Valid as long as the file stays the same. */
interface Read {
  readonly version: string;
  readonly uses: readonly ImageUse[];
  readonly fault?: Fault;
}

/**
 * Reads static pods as the kubelet does: each file of a folder, with any ending but no leading dot,
 * and no sub-folders. Only a changed file is parsed again. At most 128 files of 256 KiB in each
 * folder.
 */
export class StaticPods implements StaticPodsPort {
  private known = new Map<string, Read>();

  /** @param folders setting `runtime.static_pods`; undefined: the usual places */
  constructor(
    private readonly folders: readonly string[] | undefined,
    private readonly places: StaticPodPlaces = STATIC_POD_PLACES,
  ) {}

  async images(signal: AbortSignal): Promise<ImageUses> {
    const read = new Map<string, Read>();
    const faults: Fault[] = [];
    for (const folder of this.folders ?? (await usualFolders(this.places, signal))) {
      const found = await namesIn(folder, signal);
      faults.push(...found.faults);
      for (const path of found.names.map((name) => join(folder, name))) {
        const manifest = await readManifest(path, this.known.get(path), signal);
        if (manifest !== undefined) read.set(path, manifest);
      }
    }
    this.known = read;
    const all = [...read.values()];
    return {
      uses: all.flatMap(({ uses }) => uses),
      faults: [...faults, ...all.flatMap(({ fault }) => fault ?? [])],
      isComplete: faults.length === 0,
    };
  }
}

async function usualFolders(places: StaticPodPlaces, signal: AbortSignal): Promise<readonly string[]> {
  const named = await Promise.all(places.kubeletConfigs.map((path) => staticPodPath(path, signal)));
  return [...new Set([...named.flatMap((path) => path ?? []), ...places.folders])];
}

/** Returns undefined when it has none or is of another kind. */
async function staticPodPath(path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    const content = await withFile(path, signal, (file) => textOf(file, path));
    const document: unknown = parse(content ?? '', { logLevel: 'error' });
    if (typeof document !== 'object' || document === null) return undefined;
    const found: unknown = Reflect.get(document, 'staticPodPath');
    return typeof found === 'string' && isAbsolute(found) ? found : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

async function namesIn(
  folder: string,
  signal: AbortSignal,
): Promise<{ readonly names: readonly string[]; readonly faults: readonly Fault[] }> {
  const names: string[] = [];
  try {
    for await (const { name } of await opendir(folder)) {
      signal.throwIfAborted();
      if (name.startsWith('.')) continue;
      if (names.length === MAX_FILES) return { names: names.sort(), faults: [tooMany(folder)] };
      names.push(name);
    }
    return { names: names.sort(), faults: [] };
  } catch (error) {
    signal.throwIfAborted();
    const code = systemCodeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return { names: [], faults: [] };
    const message = `the static pods in ${folder} can't be listed: ${reasonOf(error)}`;
    return { names: [], faults: [{ code: 'host/static-pods', message }] };
  }
}

function tooMany(folder: string): Fault {
  const message = `${folder} has more than ${MAX_FILES} files, and only some of these static pods were looked at`;
  return { code: 'host/static-pods', message };
}

/** Returns undefined when it is no file, or gone. Throws only on abort. */
async function readManifest(path: string, known: Read | undefined, signal: AbortSignal): Promise<Read | undefined> {
  let version = '';
  try {
    return await withFile(path, signal, async (file) => {
      const found = await file.stat();
      if (!found.isFile()) return undefined;
      version = `${found.dev} ${found.ino} ${found.size} ${found.mtimeMs} ${found.ctimeMs}`;
      if (known?.version === version) return known;
      return { version, uses: usesIn(await textOf(file, path), path) };
    });
  } catch (error) {
    signal.throwIfAborted();
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    const message = `static pod ${path} can't be read: ${reasonOf(error).slice(0, MAX_NAME)}`;
    return { version, uses: [], fault: { code: 'host/static-pods', message } };
  }
}

function usesIn(text: string, path: string): readonly ImageUse[] {
  const images = parseManifests(text, path).slice(0, MAX_IMAGES_PER_FILE);
  return images
    .filter(({ image }) => image !== '')
    .map(({ usedBy, image, pullPolicy }) => ({
      usedBy: usedBy.slice(0, MAX_NAME),
      image: image.slice(0, MAX_NAME),
      ...(pullPolicy !== undefined && { pullPolicy: pullPolicy.slice(0, MAX_NAME) }),
    }));
}

/** Does not wait for a pipe. */
async function withFile<T>(path: string, signal: AbortSignal, use: (file: FileHandle) => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/** @throws AppError `host/static-pods` (`reject`) when it is too large */
async function textOf(file: FileHandle, path: string): Promise<string> {
  const buffer = Buffer.alloc(MAX_FILE_BYTES + 1);
  let length = 0;
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  if (length <= MAX_FILE_BYTES) return buffer.toString('utf8', 0, length);
  const message = `${path} is larger than ${MAX_FILE_BYTES} bytes, which is no manifest of a static pod`;
  throw new AppError({ code: 'host/static-pods', message, disposition: 'reject' });
}
