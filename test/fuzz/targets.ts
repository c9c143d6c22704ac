import type { Target } from './target.ts';
import { bundleTargets } from './targets/bundle.ts';
import { layerTargets } from './targets/layers.ts';
import { networkTargets } from './targets/network.ts';
import { nodeTargets } from './targets/node.ts';

/** All targets by name. The corpus has a folder for each. */
export const targets: ReadonlyMap<string, Target> = new Map(
  Object.entries({ ...bundleTargets, ...layerTargets, ...networkTargets, ...nodeTargets }),
);
