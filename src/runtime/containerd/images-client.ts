import type { Digest } from '../../domain/model/digest.ts';
import { parseReference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { CriClient } from '../cri/cri-client.ts';
import { type ContainerdAddress, ContainerdService } from './content-client.ts';

/** Every call has a deadline and throws AppError with a `PullErrorCode`. */
export class ImagesClient {
  private readonly images: ContainerdService;

  constructor(address: ContainerdAddress) {
    this.images = new ContainerdService(address, 'Images', 'Images.');
  }

  /** All, or those with a label. */
  async list(signal: AbortSignal, label?: string): Promise<readonly ImageRecord[]> {
    return this.find(label === undefined ? [] : [`labels.${JSON.stringify(label)}`], signal);
  }

  async withDigest(digest: Digest, signal: AbortSignal): Promise<ImageRecord | undefined> {
    return (await this.find([`target.digest==${JSON.stringify(digest)}`], signal))[0];
  }

  async get(name: string, signal: AbortSignal): Promise<ImageRecord | undefined> {
    return (await this.find([`name==${JSON.stringify(name)}`], signal))[0];
  }

  /** A record of that name points to the target afterwards. */
  async point({ name, target, labels }: ImageRecord, signal: AbortSignal): Promise<void> {
    const image = { name, target, labels };
    if ((await this.images.call('Create', { image }, signal)) !== undefined) return;
    await this.images.call('Update', { image, updateMask: { paths: ['target'] } }, signal);
  }

  /** Other labels stay. A missing record is not an error. */
  async changeLabels({ name, target, labels }: LabelChange, signal: AbortSignal): Promise<void> {
    // A label in the mask but not in the record is removed.
    const set = Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== undefined));
    const updateMask = { paths: Object.keys(labels).map((key) => `labels.${key}`) };
    // containerd 1.7.24 crashes on an update without a target, even if it is not in the mask.
    await this.images.call('Update', { image: { name, target, labels: set }, updateMask }, signal);
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    await this.images.call('Delete', { name, sync: false }, signal);
  }

  close(): void {
    this.images.close();
  }

  private async find(filters: readonly string[], signal: AbortSignal): Promise<readonly ImageRecord[]> {
    return (await this.images.call<{ images: ImageRecord[] }>('List', { filters }, signal))?.images ?? [];
  }
}

interface AddTagDependencies {
  readonly cri: Pick<CriClient, 'imageStatus'>;
  readonly images: Pick<ImagesClient, 'get' | 'withDigest' | 'point'>;
  readonly clock: Pick<Clock, 'sleep'>;
}

/** The CRI plugin marks its images with this label (containerd, internal/cri/labels). */
const MANAGED = { 'io.cri-containerd.image': 'managed' };
/** The CRI plugin gets the event mostly after a few milliseconds. */
const PAUSES_MS = [2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

/**
 * Returns false if no record exists. @throws AppError `runtime/pull-failed` if CRI never lists it
 */
export async function addTag(
  { cri, images, clock }: AddTagDependencies,
  tag: string,
  reference: string,
  signal: AbortSignal,
): Promise<boolean> {
  const { digest } = parseReference(reference);
  const record = await (digest === undefined ? images.get(reference, signal) : images.withDigest(digest, signal));
  if (record === undefined) return false;
  await images.point({ name: tag, target: record.target, labels: MANAGED }, signal);
  for (const pauseMs of PAUSES_MS) {
    const named = await cri.imageStatus(tag, signal);
    const names = [...(named?.repoTags ?? []), ...(named?.repoDigests ?? [])];
    if (names.includes(tag) && names.includes(reference)) return true;
    await clock.sleep(pauseMs, signal);
  }
  const message = `${tag} names ${reference} in containerd, but CRI does not list it; see the journal of containerd`;
  throw new AppError({ code: 'runtime/pull-failed', message, disposition: 'retry' });
}

/** containerd's CRI plugin reads it (docs/runtime-facts.md, fact 22). */
export const PINNED_LABEL = 'io.cri-containerd.pinned';
const PINNED_VALUE = 'pinned';
/** `true` when stickpin pinned the image, `kept` when it was pinned before and stays pinned. */
export const MARK_LABEL = 'io.stickpin.pinned';

export interface ImageRecord {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Every update must contain it. */
  readonly target: ImageTarget;
}

/** `size` in bytes. */
interface ImageTarget {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** An undefined value removes a label. */
interface LabelChange {
  readonly name: string;
  readonly target: ImageTarget;
  readonly labels: Readonly<Record<string, string | undefined>>;
}

/** After these changes, exactly `references` have our pin. Pins of others stay. */
export function labelChanges(records: readonly ImageRecord[], references: readonly string[]): LabelChange[] {
  const wanted = new Set(references);
  return records.flatMap(({ name, labels, target }): LabelChange[] => {
    const isPinned = labels[PINNED_LABEL] === PINNED_VALUE;
    const mark = labels[MARK_LABEL];
    if (wanted.has(name)) {
      if (isPinned) return mark === undefined ? [{ name, target, labels: { [MARK_LABEL]: 'kept' } }] : [];
      return [{ name, target, labels: { [PINNED_LABEL]: PINNED_VALUE, [MARK_LABEL]: mark ?? 'true' } }];
    }
    if (mark === undefined) return [];
    if (mark === 'kept') return [{ name, target, labels: { [MARK_LABEL]: undefined } }];
    return [{ name, target, labels: { [PINNED_LABEL]: undefined, [MARK_LABEL]: undefined } }];
  });
}

/** Names with our mark, sorted, including those whose pin somebody has removed. */
export function markedPins(records: readonly ImageRecord[]): string[] {
  const marked = records.filter(({ labels }) => labels[MARK_LABEL] !== undefined);
  return marked.map(({ name }) => name).sort();
}

/** Pinned and with our mark, sorted. */
export function labelledPins(records: readonly ImageRecord[]): string[] {
  return markedPins(records.filter(({ labels }) => labels[PINNED_LABEL] === PINNED_VALUE));
}
