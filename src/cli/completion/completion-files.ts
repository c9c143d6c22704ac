import type { Command } from 'commander';
import { bashCompletion } from './bash-completion.ts';
import { completedCommands } from './command-words.ts';
import { fishCompletion } from './fish-completion.ts';
import { zshCompletion } from './zsh-completion.ts';

/** The completion of a program for each shell, by the name of its file in a package. */
export function completionFiles(
  program: Command,
): Readonly<Record<'stickpin.bash' | '_stickpin' | 'stickpin.fish', string>> {
  const commands = completedCommands(program);
  return {
    'stickpin.bash': bashCompletion(commands),
    _stickpin: zshCompletion(commands),
    'stickpin.fish': fishCompletion(commands),
  };
}
