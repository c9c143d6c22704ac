import type { ImageUse } from '../../model/image.ts';
import { formatReference, parseReference, type Reference } from '../../model/reference.ts';
import type { ProvidedNames } from './provided-names.ts';

/** An image that no activated release provides, and who asks for it. */
export interface ElsewhereUse {
  /** As it is written: `quay.io/coreos/etcd:v3.5`. */
  readonly image: string;
  /** The first one that asks for it. */
  readonly usedBy: string;
  /** How many others do. */
  readonly more: number;
  /** The release that provides it once it is activated, as `ocp@4.13.7`. */
  readonly release?: string;
}

/** Which of the provided names our registry answers, so that a forced pull of them succeeds. */
export interface AnsweredNames {
  /** Whether images are answered by tag. */
  readonly tags: boolean;
  /** Whether images are answered by digest. */
  readonly digests: boolean;
  /** Repositories for which it answers neither. */
  readonly except: readonly string[];
}

/**
 * The images whose pull would be answered by another registry, or by none: by a tag that no
 * activated release holds, or pulled each time (`imagePullPolicy: Always`) while our registry does
 * not answer. One entry for each image, in the order in which they are found. An image that is
 * never pulled (`Never`) and one by digest that is pulled only when it is absent are not among
 * them.
 */
export function pullsFromElsewhere(
  uses: readonly ImageUse[],
  names: ProvidedNames,
  answered: AnsweredNames,
): readonly ElsewhereUse[] {
  const found = new Map<string, ElsewhereUse>();
  for (const use of uses) {
    if (!isFromElsewhere(use, names, answered)) continue;
    const { usedBy, more } = found.get(use.image) ?? { usedBy: use.usedBy, more: -1 };
    const release = releaseOf(use.image, names);
    found.set(use.image, { image: use.image, usedBy, more: more + 1, ...(release !== undefined && { release }) });
  }
  return [...found.values()];
}

function releaseOf(image: string, { later }: ProvidedNames): string | undefined {
  const reference = parsed(image);
  if (reference === undefined || reference.digest !== undefined) return undefined;
  return later.get(formatReference({ repository: reference.repository, tag: reference.tag ?? 'latest' }));
}

function isFromElsewhere({ image, pullPolicy }: ImageUse, names: ProvidedNames, answered: AnsweredNames): boolean {
  if (pullPolicy === 'Never' || isImageId(image)) return false;
  const reference = parsed(image);
  if (reference === undefined) return true;
  const { repository, tag = 'latest', digest } = reference;
  const isForced = isAlways(reference, pullPolicy);
  if (digest !== undefined) {
    if (!isForced) return false;
    return !names.digests.has(`${repository}@${digest}`) || !isAnswered(repository, answered.digests, answered);
  }
  if (!names.tags.has(formatReference({ repository, tag }))) return true;
  return isForced && !isAnswered(repository, answered.tags, answered);
}

/** Kubernetes: without a policy it is `Always` for the tag `latest` and without tag and digest. */
function isAlways({ tag, digest }: Reference, pullPolicy: string | undefined): boolean {
  if (pullPolicy !== undefined) return pullPolicy === 'Always';
  return digest === undefined && (tag === undefined || tag === 'latest');
}

function isAnswered(repository: string, kind: boolean, { except }: AnsweredNames): boolean {
  return kind && !except.includes(repository);
}

/** A container that was made by the id of its image says nothing about names. */
function isImageId(image: string): boolean {
  return /^(sha256:)?[0-9a-f]{64}$/.test(image);
}

/** A short name (`nginx:1`) is one of `docker.io`, as containerd takes it. */
function parsed(image: string): Reference | undefined {
  for (const text of [image, `docker.io/${image}`]) {
    try {
      return parseReference(text);
    } catch {
      // The next form, or none.
    }
  }
  return undefined;
}
