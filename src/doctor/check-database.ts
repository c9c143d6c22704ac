import { findingsOn } from '../domain/model/reason.ts';
import { formatBytes } from '../platform/sizes.ts';
import type { Check, ExaminedNode } from './check.ts';

const { ok, warning, fault } = findingsOn('database');

/** Whether the database of the state can be read, and is whole. */
export function checkDatabase({ database }: Pick<ExaminedNode, 'database'>): readonly Check[] {
  const remedy = "run 'sudo stickpin doctor'; if root can't read it either, check the disk";
  return [
    {
      subject: 'database',
      remedy,
      look: async (signal) => {
        const found = await database(signal);
        switch (found.kind) {
          case 'absent':
            return [warning(`${found.path} is not there: nothing was recorded yet`, 'start stickpin, which makes it')];
          case 'damaged':
            return [
              fault(
                `${found.path} is damaged: ${found.reason}`,
                'restart stickpin, which puts its newest good copy in its place, and check the disk',
              ),
            ];
          case 'whole':
            return [ok(`${found.path} is whole (${formatBytes(found.sizeBytes)})`)];
        }
      },
    },
  ];
}
