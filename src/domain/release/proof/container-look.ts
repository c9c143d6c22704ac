import type { RuntimeContainer } from '../../model/image.ts';
import type { Policy } from '../../settings/settings.ts';
import type { Memory } from '../../state/memory.ts';
import type { Observed, Stored } from '../../state/state.ts';
import type { ImageIds } from './evidence.ts';

export interface ContainerLook {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly stored: Stored;
  readonly policy: Policy;
  readonly containers: readonly RuntimeContainer[];
  readonly ids: ImageIds;
  /** References that are pinned and belong to no known release. */
  readonly unclaimed: readonly string[];
}
