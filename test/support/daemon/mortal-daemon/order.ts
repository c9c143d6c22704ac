import type { Digest } from '../../../../src/domain/model/digest.ts';
import type { Settings } from '../../../../src/domain/settings/settings.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import type { RunningTask } from '../../../../src/domain/state/memory.ts';

/** Every kind of effect; the long ones by what they start. */
export type EffectPoint = Exclude<Effect['kind'], 'start'> | `start-${RunningTask['kind']}`;

/** Where a mortal daemon may die: right after an effect, or in the midst of a long one. */
export type Point =
  | EffectPoint
  /** A file of a bundle is being read while the medium is judged. */
  | 'bundle-being-read'
  /** The first bytes of a layer have been read for the runtime. */
  | 'layer-begun'
  /** The runtime has said that an image, or a tag, is pulled; nobody has taken note of it. */
  | 'image-pulled'
  | 'tag-pulled';

/** What a mortal daemon is started with, as JSON. */
export interface MortalOrder {
  readonly settings: Settings;
  /** CRI-O's process, which is told to reload with SIGHUP. */
  readonly crioPid: number;
  /** It kills itself with SIGKILL when it gets there. */
  readonly dieAt?: Point;
  /** What counts as a layer. */
  readonly layers?: readonly Digest[];
  /** Layers of which no more than the first bytes are given, for as long as it lives. */
  readonly held?: readonly Digest[];
}

/** What it can be told while it runs. */
export type MortalCommand =
  | { readonly kind: 'cancel' }
  | { readonly kind: 'rescan' }
  | { readonly kind: 'activate'; readonly bundle: string };
