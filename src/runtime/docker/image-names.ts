import { type Digest, parseDigest } from '../../domain/model/digest.ts';
import type { RuntimeImage } from '../../domain/model/image.ts';
import { formatReference, mirrorPathOf, parseReference, withRegistry } from '../../domain/model/reference.ts';
import type { MirrorAddress } from '../config/toml-text.ts';
import type { EngineImage } from './engine-answers.ts';

/**
 * No call gives a name by digest (docs/runtime-facts.md, fact 53), so an image that we pull gets
 * this tag with its digest.
 */
const DIGEST_TAG = /^sha256-([0-9a-f]{64})$/;

/** `sha256-…` */
export function digestTagOf(digest: Digest): string {
  return digest.replace(':', '-');
}

/** `quay.io/coreos/etcd:sha256-…`: the tag for the digest of `reference`. */
export function digestName(reference: string): string {
  const { repository, digest } = parseReference(reference);
  return digest === undefined ? reference : formatReference({ repository, tag: digestTagOf(digest) });
}

/** The path that is pulled for `reference`: `quay.io/coreos/etcd@sha256:…`. */
export function loopbackPath(reference: string): string {
  const { repository, tag = 'latest', digest } = parseReference(reference);
  return `${mirrorPathOf(repository)}${digest === undefined ? `:${tag}` : `@${digest}`}`;
}

/** A name at our registry, of this daemon or an earlier one. */
interface LoopbackName {
  readonly name: string;
  /** The form of {@link loopbackPath}. */
  readonly path: string;
}

/** Includes names that a pull left behind when the daemon or the engine was killed. */
export function loopbackNames({ RepoTags, RepoDigests }: EngineImage, { authority }: MirrorAddress): LoopbackName[] {
  const names = new Set([...RepoTags, ...RepoDigests].filter((name) => name.startsWith(`${authority}/`)));
  return [...names].flatMap((name) => {
    const [, path] = /^[0-9a-f]{32}\/(.+)$/.exec(name.slice(authority.length + 1)) ?? [];
    return path === undefined ? [] : [{ name, path }];
  });
}

/** `docker.io/library/etcd:3` for `etcd:3`. Returns undefined for an invalid name. */
export function fullName(name: string): string | undefined {
  try {
    return formatReference(parseReference(withRegistry(name, 'docker.io')));
  } catch {
    return undefined; // as `<none>:<none>`
  }
}

/** A container of ours that holds an image. */
export interface Pin {
  readonly containerId: string;
  /** The reference by digest. */
  readonly reference: string;
  readonly imageId: string;
}

/** Leaves out names at our registry. Names by digest are from our tags, our pins and the engine. */
export function toRuntimeImage(image: EngineImage, pins: readonly Pin[], mirror: MirrorAddress): RuntimeImage {
  const loopback = new Set(loopbackNames(image, mirror).map(({ name }) => name));
  const names = [...image.RepoTags, ...image.RepoDigests].flatMap((name) =>
    loopback.has(name) ? [] : (fullName(name) ?? []),
  );
  const pinsOfImage = pins.filter(({ imageId }) => imageId === image.Id);
  const repoTags = new Set<string>();
  const repoDigests = new Set(pinsOfImage.map(({ reference }) => reference));
  for (const name of names) {
    const { repository, tag = '', digest } = parseReference(name);
    const tagged = digest ?? parseDigest(`sha256:${DIGEST_TAG.exec(tag)?.[1]}`);
    if (tagged === undefined) repoTags.add(name);
    else repoDigests.add(`${repository}@${tagged}`);
  }
  return {
    imageId: image.Id,
    repoTags: [...repoTags].sort(),
    repoDigests: [...repoDigests].sort(),
    pinned: pinsOfImage.length > 0,
  };
}
