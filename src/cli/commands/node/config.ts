import type { Command } from 'commander';
import { loadSettings, readSettings } from '../../../config/load-settings.ts';
import { printSettings, writtenSettings } from '../../../config/print-settings.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { jsonText } from '../../output/json.ts';
import { printMessage } from '../../output/message.ts';

/** Adds `config check` and `config show` to the program. Neither needs the daemon. */
export function registerConfig(program: Command, context: CommandContext): void {
  const config = program.command('config').description('check or show the settings of this node');
  config
    .command('check')
    .description('check whether the settings are valid; if not, name the file and the key')
    .option('--json', 'print as JSON')
    .action(async (options: { readonly json?: true }) => {
      await loadSettings(context.settingsSources, context.signal);
      printMessage('The settings are valid.', options, context);
    });
  config
    .command('show')
    .description('print all settings in use, including defaults, as a stickpin.toml that gives the same settings')
    .option('--json', 'print as JSON')
    .action(async (options: { readonly json?: true }) => {
      const written = writtenSettings((await readSettings(context.settingsSources, context.signal)).file);
      context.stdout(options.json ? jsonText(written) : printSettings(written));
    });
}
