import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * A sequencer that begins with the longest files, so that what runs side by side ends at about the
 * same time. A fresh clone knows no durations, and vitest goes by sizes then.
 *
 * @param paths from the repository's root, longest first. Files that are not named begin after
 * these, in vitest's own order.
 */
export function longestFirst(paths: readonly string[]): typeof BaseSequencer {
  return class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      const rank = ({ moduleId }: TestSpecification) => {
        const place = paths.indexOf(relative(this.ctx.config.root, moduleId));
        return place === -1 ? paths.length : place;
      };
      return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
    }
  };
}
