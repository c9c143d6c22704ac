import type { Unsubscribe } from '../platform/subscription.ts';

/** What the daemon does now, in one word. */
type Operation = 'idle' | 'verifying' | 'preloading' | 'activating';

/** How far it has come: percentage, message and depth, as RAUC's `Progress (isi)` has them. */
interface Progress {
  /** 0 to 100. */
  readonly percentage: number;
  readonly message: string;
  /** Nesting of the step; 0 while there are no steps within steps. */
  readonly depth: number;
}

/** The properties of the D-Bus object. */
export interface ApiProperties {
  /** The STATUS line. */
  readonly status: string;
  readonly operation: Operation;
  readonly progress: Progress;
  /** The last error that still matters, or empty. */
  readonly lastError: string;
  readonly version: string;
}

/** What the D-Bus service needs of the engine. */
export interface ApiBackend {
  /** As they are now. No I/O. */
  properties(): ApiProperties;
  /** The document of `stickpin status --json`; becomes JSON. */
  status(signal: AbortSignal): Promise<unknown>;
  /** The document of `stickpin list --json`; becomes JSON. */
  list(signal: AbortSignal): Promise<unknown>;
  /**
   * Activates a bundle, named `name@version` or by digest; `override`: even if rules of the release hold its activation.
   *
   * @throws AppError with what holds it, `engine/activation-held` where `override` would help
   */
  activate(bundle: string, signal: AbortSignal, options?: { readonly override: boolean }): Promise<void>;
  /** Activates the fallback of a stream; empty: of the only one. Returns its `name@version`. @throws AppError with what holds it */
  rollback(stream: string, signal: AbortSignal): Promise<string>;
  /** Takes the pins off a bundle. @throws AppError `engine/running` when it may be what runs and `force` is false */
  unpin(
    bundle: string,
    options: { readonly removeImages: boolean; readonly force: boolean },
    signal: AbortSignal,
  ): Promise<void>;
  /** Gives up all pins that belong to no known release. Returns a sentence. @throws AppError `engine/running` when `force` is false, `engine/no-unclaimed` */
  unpinUnclaimed(force: boolean, signal: AbortSignal): Promise<string>;
  /** The newest lines of the history, oldest first; of all bundles when `bundle` is empty. Becomes JSON. */
  history(bundle: string, signal: AbortSignal): Promise<unknown>;
  /** Approves a bundle by its digest, or one that is known by `name@version`. Gives a sentence about what that does. */
  approve(bundle: string, signal: AbortSignal): Promise<string>;
  /** Rejects a bundle; see {@link ApiBackend.approve}. */
  reject(bundle: string, signal: AbortSignal): Promise<string>;
  /**
   * Lifts the stored revocation of a key, named by its id. `uid`: who asks, for the history. Gives a sentence about what that does.
   *
   * @throws AppError with why not
   */
  restoreKey(keyId: string, uid: number | undefined, signal: AbortSignal): Promise<string>;
  /** Breaks off every preload. @throws AppError when there is none */
  cancel(signal: AbortSignal): Promise<void>;
  /** Looks at all media and the runtime again, and goes on with what was cancelled. */
  rescan(signal: AbortSignal): Promise<void>;
  /** Takes the medium at an absolute path, which is not detected by itself, and returns what it is called. @throws AppError with why not */
  load(path: string, signal: AbortSignal): Promise<string>;
  /** Calls `listener` when a property may have changed. */
  onChange(listener: () => void): Unsubscribe;
}
