import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { withDaemon } from '../../context/daemon-client.ts';

/** Adds `load` to the program. */
export function registerLoad(program: Command, context: CommandContext): void {
  program
    .command('load')
    .description('take a medium that is not detected by itself, until it is gone or the daemon is started anew')
    .argument(
      '<path>',
      'a directory with stickpin/ in it, a bundle directory, a .stickpin.tar file, or a device as /dev/sdb1',
    )
    .action((path: string) =>
      withDaemon(context, async (client) => {
        const label = await client.load({ path: resolve(path) }, context.signal);
        context.stdout(
          `${label} is being read; 'stickpin status' shows how it goes. It is forgotten when it is gone, and when the daemon is started anew.\n`,
        );
      }),
    );
}
