import { basename } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files by how long they take, longest first. A file that is not named here begins before all. */
const order = [
  'lifecycle.test.ts',
  'crio-node.test.ts',
  'machine.test.ts',
  'update-rules.test.ts',
  'power-cut.test.ts',
  'crio-link.test.ts',
  'damaged-sticks.test.ts',
  'containerd-node.test.ts',
];

/**
 * Begins with the longest files, so that machines that run side by side end at about the same time.
 * A fresh clone knows no durations, and vitest goes by sizes then.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => order.indexOf(basename(moduleId));
    return files.toSorted((one, other) => rank(one) - rank(other));
  }
}
