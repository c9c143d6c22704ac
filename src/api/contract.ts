import { checkedImage, historyEvent, imageState } from '../domain/report/status-schema.ts';
import type { BusCall, CallCheck, CallHandler, OutgoingSignal } from '../host/bus/message-bus.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import { type Fields, flag, integer, lines, list, options, text, type WireType, wireTypeOf } from './wire-types.ts';

/**
 * The D-Bus API of the daemon as data. The client, the service, what introspection shows, the type
 * of the back end, and the tables of docs/dbus.md follow from it, from the schema of the status
 * document and from `properties/`.
 *
 * Keys are camelCase; on the bus each begins with a capital letter (`GetHistory` for `getHistory`).
 */

/** The name of the daemon on the system bus. */
export const SERVICE = 'io.stickpin1';

/** The object with the interface {@link MANAGER}; those of bundles are below it. */
export const OBJECT_PATH = '/io/stickpin1';

/** The interface of the daemon as a whole. */
export const MANAGER = 'io.stickpin1.Manager';

/** The interface of each bundle. */
export const BUNDLE = 'io.stickpin1.Bundle';

/** The parent of the objects of bundles, each named by the 64 hex digits of the bundle's digest. */
export const BUNDLES_PATH = `${OBJECT_PATH}/bundle`;

/**
 * Who may call a method: anybody, or root and users to whom polkit allows the action. The service
 * enforces it.
 */
export type Access = 'anybody' | Action;

/** One method. */
export interface MethodContract {
  /** What it does, in one sentence. */
  readonly about: string;
  /** The arguments in the order of the signature. */
  readonly args: Fields;
  /** It has at most one member, whose key is the name of the result. */
  readonly result: Readonly<Record<string, WireType<unknown>>>;
  readonly access: Access;
  /**
   * The answer comes when the work is done, without a time limit. Other methods answer within
   * seconds.
   */
  readonly isLong?: boolean;
}

/** The methods of {@link MANAGER}. */
export const METHODS = {
  getHistory: {
    about: 'Returns the newest 1,000 events, oldest first; of all bundles when `bundle` is empty.',
    args: { bundle: text },
    result: {
      events: list(wireTypeOf(historyEvent)),
    },
    access: 'anybody',
  },
  getImages: {
    about: 'Returns the references of all images of an adopted bundle, by digest, in the order in which they load.',
    args: { bundle: text },
    result: { images: list(text) },
    access: 'anybody',
  },
  getImageStates: {
    about:
      'Returns all images of an adopted bundle, in the order in which they load: `component`, `name`, `digest`, `sizeBytes`, `present`, `pinned`.',
    args: { bundle: text },
    result: { images: list(wireTypeOf(imageState)) },
    access: 'anybody',
  },
  activate: {
    about:
      'Activates a bundle. While rules of the release hold that, it fails with `Engine.ActivationHeld` unless `override` is true.',
    args: { bundle: text, options: options({ override: flag }) },
    result: {},
    access: 'activate',
    isLong: true,
  },
  rollback: {
    about: 'Activates the fallback of a stream, or of the only one when `stream` is empty.',
    args: { stream: text },
    result: { bundle: text },
    access: 'activate',
    isLong: true,
  },
  unpin: {
    about: 'Gives up a release. Without `force` it fails with `Engine.Running` while the release may be in use.',
    args: { bundle: text, options: options({ removeImages: flag, force: flag }) },
    result: { consequence: lines },
    access: 'unpin',
    isLong: true,
  },
  unpinUnclaimed: {
    about: 'Gives up all pins that belong to no known release. Without `force` it fails with `Engine.Running`.',
    args: { options: options({ force: flag }) },
    result: { consequence: lines },
    access: 'unpin',
    isLong: true,
  },
  cancel: {
    about: 'Stops every preload until its medium is plugged in again, or until `Rescan`.',
    args: {},
    result: {},
    access: 'load',
  },
  approve: {
    about: 'Approves a bundle, by its digest or by the name and version of one that is known.',
    args: { bundle: text },
    result: { consequence: lines },
    access: 'approve',
  },
  reject: {
    about:
      'Rejects a bundle, by its digest or by its name and version. A name counts for all bundles of this name, also for those that come later. `reason` has at most 200 characters and is shown from then on.',
    args: { bundle: text, options: options({ reason: text }) },
    result: { consequence: lines },
    access: 'reject',
  },
  prove: {
    about:
      'Makes the current release of a stream a proven one, by the word of the caller. Fails with `Engine.NotProvable` for any other. With `component` it counts a component that no container runs, as the operating system, as running until the next boot.',
    args: { bundle: text, options: options({ component: text }) },
    result: { consequence: lines },
    access: 'activate',
  },
  pauseRollOut: {
    about:
      'Pauses the roll-out of `ocp` or `ocp@4.13.7` on all nodes of the cluster, for 4 hours, or for `seconds`, a week at most. What has begun ends. `why` has at most 100 characters. Fails with `Engine.NoRelease` where no node has such a release.',
    args: { release: text, why: text, options: options({ seconds: integer }) },
    result: { consequence: lines },
    access: 'activate',
  },
  resumeRollOut: {
    about:
      'Lifts a pause on all nodes, by its id, or each one with `all`. Fails with `Engine.NoPause` where this node does not know it, or is neither the one on which it was said nor one of the control plane.',
    args: { id: text },
    result: { consequence: lines },
    access: 'activate',
  },
  restoreKey: {
    about: 'Lifts the stored revocation of a key.',
    args: { keyId: text },
    result: { consequence: lines },
    access: 'trust',
  },
  revokeKey: {
    about: 'Revokes a key everywhere, until `RestoreKey`.',
    args: { keyId: text },
    result: { consequence: lines },
    access: 'trust',
  },
  resetStream: {
    about: 'Resets the sequence floor and the clock floor of a stream, and forgets the keys that its bundles added.',
    args: { stream: text },
    result: { consequence: lines },
    access: 'trust',
  },
  checkPulls: {
    about:
      'Lets the runtime pull one image that is present, by its digest. It changes nothing; the condition `PullsAnswered` then says what was seen.',
    args: {},
    result: {},
    access: 'load',
    isLong: true,
  },
  verifyImages: {
    about:
      'Checks what the runtime keeps of the images of a release, or of all releases that are not retired when `bundle` is empty. It reads all their blobs. Damaged images whose blobs are at hand are then removed and pulled again. The property `Status` says how far it is.',
    args: { bundle: text },
    result: {
      images: list(wireTypeOf(checkedImage)),
    },
    access: 'load',
    isLong: true,
  },
  rescan: {
    about: 'Looks at all media and the runtime again, resumes cancelled preloads, and runs failed hooks again.',
    args: {},
    result: {},
    access: 'load',
  },
  load: {
    about: 'Takes the medium at an absolute path, which is not detected automatically.',
    args: { path: text },
    result: { medium: text },
    access: 'load',
    isLong: true,
  },
} as const satisfies Readonly<Record<string, MethodContract>>;

/** The signals of {@link MANAGER}. */
export const SIGNALS = {
  completed: {
    about: 'An operation ended. `result` is 0 when `LastError` is empty then, and 1 otherwise, as in RAUC.',
    args: { result: integer },
  },
  historyChanged: {
    about: 'The history has new events, which `GetHistory` returns. At most four times a second.',
    args: {},
  },
} as const;

/**
 * Actions that need permission, by the last part of the polkit action id.
 * `systemd/io.stickpin1.policy` declares the same actions.
 */
export const ACTIONS = {
  approve: 'approve a bundle',
  reject: 'reject a bundle',
  activate: 'activate a release, or go back to another one',
  unpin: 'give up a release or unclaimed pins',
  load: 'load a medium, or stop and resume preloads',
  trust: 'change which keys are trusted',
} as const;

/** An action that needs permission. */
export type Action = keyof typeof ACTIONS;

/** The part of `SystemBus` that the service needs. */
export interface ApiBus {
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  serve(handler: CallHandler, check: CallCheck): void;
  emit(signal: OutgoingSignal): void;
  /** Calls `listener` after each connection, because a name is lost with its connection. */
  onConnected(listener: () => void): Unsubscribe;
}

/** Interfaces of the D-Bus specification ("Standard Interfaces"). */
export const PROPERTIES = 'org.freedesktop.DBus.Properties';
export const OBJECT_MANAGER = 'org.freedesktop.DBus.ObjectManager';
export const INTROSPECTABLE = 'org.freedesktop.DBus.Introspectable';
export const PEER = 'org.freedesktop.DBus.Peer';

/**
 * The D-Bus name of a method, property or signal of the contract: `GetHistory` for `getHistory`.
 */
export function busNameOf(key: string): string {
  return `${key.charAt(0).toUpperCase()}${key.slice(1)}`;
}

/**
 * Prefix of our error names. After it comes the code of the AppError: `Engine.NoSuchBundle` for
 * `engine/no-such-bundle`.
 */
const ERROR_PREFIX = `${SERVICE}.Error.`;

/** The D-Bus error name of an AppError's code. */
export function errorNameOf(code: string): string {
  const words = (part: string): string =>
    part
      .split(/[^A-Za-z0-9]+/)
      .filter((word) => word !== '')
      .map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
      .join('');
  const elements = code
    .split('/')
    .map(words)
    .filter((element) => /^[A-Z]/.test(element));
  return `${ERROR_PREFIX}${elements.length === 0 ? 'Failed' : elements.join('.')}`;
}

/**
 * The code of the AppError behind a D-Bus error name of ours: the inverse of {@link errorNameOf}.
 * Returns undefined for other errors.
 */
export function codeOfErrorName(errorName: string): string | undefined {
  if (!errorName.startsWith(ERROR_PREFIX)) return undefined;
  return errorName
    .slice(ERROR_PREFIX.length)
    .split('.')
    .map((element) => element.replace(/([a-z0-9])([A-Z])/g, '$1-$2').toLowerCase())
    .join('/');
}
