import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';

/** A release of the tables: A is `ocp 4.13.1` of sequence 1, B the next. */
export type Letter = 'A' | 'B' | 'C' | 'D';

/**
 * Components of every release: it has an etcd and an api of its own, and the same `base` as all
 * others, of which nothing runs by itself.
 */
export type Component = 'etcd' | 'api' | 'base';

/** What happens to a node from outside. */
export type ScenarioEvent =
  /**
   * A stick with a release is plugged in and stays; what can be pulled is pulled. There is one
   * slot.
   */
  | { readonly kind: 'plug'; readonly release: Letter }
  | { readonly kind: 'unplug' }
  /**
   * The control plane starts these components of a release, each in place of the container that its
   * pod had.
   */
  | { readonly kind: 'run'; readonly release: Letter; readonly components: readonly Component[] }
  /** A container of this image runs in a pod `debug`, beside the control plane. */
  | { readonly kind: 'debug'; readonly release: Letter; readonly component: Component }
  /** Between two looks a job ran from this image, and ended well. */
  | { readonly kind: 'job'; readonly release: Letter; readonly component: Component }
  /** The container of a pod ends. */
  | { readonly kind: 'exit'; readonly pod: Component | 'debug'; readonly exitCode: number }
  /** The container of a pod is started anew from its image. */
  | { readonly kind: 'restart'; readonly pod: Component }
  /** The node is drained: no containers are left. */
  | { readonly kind: 'drain' }
  | { readonly kind: 'pass'; readonly minutes: number }
  /** The wall clock jumps; the machine's own time does not. */
  | { readonly kind: 'set-clock'; readonly minutes: number }
  | { readonly kind: 'restart-daemon'; readonly downMinutes: number }
  | { readonly kind: 'reboot' }
  /** The power fails, and CRI-O wipes its storage at the boot (docs/runtime-facts.md, fact 11). */
  | { readonly kind: 'power-cut' }
  /** What stickpin has stored is lost, while it is not running. */
  | { readonly kind: 'lose-state' }
  /** Somebody removes images by hand, pinned or not (docs/runtime-facts.md, fact 10). */
  | { readonly kind: 'lose-images'; readonly release: Letter; readonly components: readonly Component[] }
  /** Somebody takes the tags of a release off its images. */
  | { readonly kind: 'lose-tags'; readonly release: Letter }
  | { readonly kind: 'activate'; readonly release: Letter }
  | { readonly kind: 'rollback' }
  | {
      readonly kind: 'unpin';
      readonly release: Letter;
      readonly removeImages: boolean;
      readonly force: boolean;
    };

/**
 * One thing that happens, and what comes of it once the node is at rest again. Of several releases
 * or images the text lists all and nothing else, as `A+B` or `B, api A`; `nothing` is an empty one.
 * What a row leaves out is not looked at, except for the effects.
 */
export interface Row {
  readonly event: ScenarioEvent;
  /** All effects of `decide()`, in order, as {@link Speaker.effect} words them. */
  readonly effects: readonly string[];
  /** Code of the refusal when a command is not obeyed. */
  readonly refused?: string;
  /** Phase of every release that was adopted, with what explains it: `A proven, B held (space)`. */
  readonly phases?: string;
  /** Of what the runtime reports every image as pinned. */
  readonly pins?: string;
  /** The release to which the tags lead, those that move included. */
  readonly tags?: string;
  /** Of what every image is there. */
  readonly images?: string;
}

/** What is special about a release; the rest has defaults. */
export interface Traits {
  readonly schedule?: 'manual';
  readonly keep?: 'life';
  /** It has the very same images as another release. */
  readonly imagesOf?: Letter;
}

/**
 * A story, as data: played over `decide()`, and over the daemon with a runtime that speaks gRPC.
 */
export interface Scenario {
  readonly name: string;
  readonly lifecycle?: Partial<Policy['lifecycle']>;
  readonly traits?: Partial<Record<Letter, Traits>>;
  /**
   * The disk has room for the images of these releases together, and half a release more. Default:
   * plenty.
   */
  readonly room?: readonly Letter[];
  readonly rows: readonly Row[];
}

/** What of a bundle the tables speak of. */
export type SpokenBundle = Pick<VerifiedBundle, 'bundleId' | 'contents'>;

export const plug = (release: Letter): ScenarioEvent => ({ kind: 'plug', release });
export const unplug: ScenarioEvent = { kind: 'unplug' };
export const run = (release: Letter, ...components: Component[]): ScenarioEvent => ({
  kind: 'run',
  release,
  components: components.length === 0 ? ['etcd', 'api'] : components,
});
export const debug = (release: Letter, component: Component): ScenarioEvent => ({ kind: 'debug', release, component });
export const job = (release: Letter, component: Component): ScenarioEvent => ({ kind: 'job', release, component });
export const exit = (pod: Component | 'debug', exitCode: number): ScenarioEvent => ({ kind: 'exit', pod, exitCode });
export const restart = (pod: Component): ScenarioEvent => ({ kind: 'restart', pod });
export const drain: ScenarioEvent = { kind: 'drain' };
export const pass = (minutes: number): ScenarioEvent => ({ kind: 'pass', minutes });
export const setClock = (minutes: number): ScenarioEvent => ({ kind: 'set-clock', minutes });
export const restartDaemon = (downMinutes = 0): ScenarioEvent => ({ kind: 'restart-daemon', downMinutes });
export const reboot: ScenarioEvent = { kind: 'reboot' };
export const powerCut: ScenarioEvent = { kind: 'power-cut' };
export const loseState: ScenarioEvent = { kind: 'lose-state' };
export const loseImages = (release: Letter, ...components: Component[]): ScenarioEvent => ({
  kind: 'lose-images',
  release,
  components,
});
export const loseTags = (release: Letter): ScenarioEvent => ({ kind: 'lose-tags', release });
export const activate = (release: Letter): ScenarioEvent => ({ kind: 'activate', release });
export const rollback: ScenarioEvent = { kind: 'rollback' };
export const unpin = (release: Letter, { force = false } = {}): ScenarioEvent => ({
  kind: 'unpin',
  release,
  removeImages: true,
  force,
});
