/**
 * The label that marks a pinned image for containerd's CRI plugin (docs/runtime-facts.md, fact 22).
 */
export const PINNED_LABEL = 'io.cri-containerd.pinned';
/** Value of {@link PINNED_LABEL} that means pinned. */
const PINNED_VALUE = 'pinned';
/**
 * Our own label: `true` when stickpin pinned the image, `kept` when it was pinned before and stays
 * pinned afterwards.
 */
export const MARK_LABEL = 'io.stickpin.pinned';

/** A record of an image name in containerd. */
export interface ImageRecord {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The target of the name. Every update must contain it. */
  readonly target: ImageTarget;
}

/** A descriptor as containerd's API has it; `size` in bytes. */
interface ImageTarget {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** Labels of one record to set (a value) or to remove (undefined). */
export interface LabelChange {
  readonly name: string;
  readonly target: ImageTarget;
  readonly labels: Readonly<Record<string, string | undefined>>;
}

/**
 * The changes after which exactly the records in `references` have our pin. Pins that others set
 * stay. Pure.
 */
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

/** The names with our mark, sorted, including those whose pin somebody has removed. */
export function markedPins(records: readonly ImageRecord[]): string[] {
  return records
    .filter(({ labels }) => labels[MARK_LABEL] !== undefined)
    .map(({ name }) => name)
    .sort();
}

/** The names that are pinned and have our mark, sorted. */
export function labelledPins(records: readonly ImageRecord[]): string[] {
  return records
    .filter(({ labels }) => labels[PINNED_LABEL] === PINNED_VALUE && labels[MARK_LABEL] !== undefined)
    .map(({ name }) => name)
    .sort();
}
