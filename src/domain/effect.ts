import type { BundleId } from './digest.ts';
import type { MediumId } from './medium.ts';
import type { RunningTask } from './state.ts';

/** Something to do, as plain data. Each is idempotent: done twice, the result is the same. */
export type Effect =
  | { readonly kind: 'mount-medium'; readonly mediumId: MediumId }
  /** Find and judge the bundles of a mounted medium, or judge them again because the trusted keys changed. */
  | { readonly kind: 'read-medium'; readonly mediumId: MediumId }
  /** Keep the documents of a verified bundle in the local blob store and the bundle in the database. */
  | { readonly kind: 'adopt-bundle'; readonly bundleId: BundleId; readonly mediumId: MediumId }
  /** Make exactly these references our pins. `force` reloads the runtime even if no byte changed. */
  | {
      readonly kind: 'apply-pins';
      readonly references: readonly string[];
      readonly unpinned: string;
      readonly force: boolean;
    }
  /** Make our registry the first source of exactly these repositories. */
  | { readonly kind: 'apply-mirrors'; readonly repositories: readonly string[] }
  | { readonly kind: 'record-ready'; readonly bundleId: BundleId }
  /** Breaks off a long effect that runs. What it has done so far stays. */
  | { readonly kind: 'cancel'; readonly task: RunningTask }
  /** Starts a long effect. */
  | { readonly kind: 'start'; readonly task: RunningTask };

/** What {@link decide} returns. */
export interface Decision {
  readonly effects: readonly Effect[];
  /** When the next round is due at the latest by what was decided, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
}
