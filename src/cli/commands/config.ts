import type { Command } from 'commander';
import { loadSettings, NODE_SOURCES } from '../../config/load-settings.ts';
import type { CommandContext } from '../command-context.ts';

/** Adds `config check` and `config show` to the program. Neither needs the daemon. */
export function registerConfig(program: Command, context: CommandContext): void {
  const config = program.command('config').description('the settings of this node');
  config
    .command('check')
    .description('say whether the settings are valid; if not, which file and key')
    .action(async () => {
      await loadSettings(NODE_SOURCES, context.signal);
      context.stdout('The settings are valid.\n');
    });
  config
    .command('show')
    .description('print all settings in force as JSON, defaults included; durations in milliseconds')
    .action(async () => {
      context.stdout(`${JSON.stringify(await loadSettings(NODE_SOURCES, context.signal), undefined, 2)}\n`);
    });
}
