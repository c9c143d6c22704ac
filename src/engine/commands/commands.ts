import type { CommandContext } from './command-context.ts';
import { activationCommands, preloadCommands, proofCommands } from './release-commands.ts';
import { unpinCommands } from './unpin-commands.ts';
import { verdictCommands } from './verdict-commands.ts';

const COMMANDS = { ...activationCommands, ...unpinCommands, ...preloadCommands, ...verdictCommands, ...proofCommands };

/** Commands only record; the next round acts. A refusal is an AppError `engine/…` (`reject`). */
export type Commands = {
  readonly [Name in CommandName]: (typeof COMMANDS)[Name] extends (context: never, ...rest: infer Rest) => infer Result
    ? (...rest: Rest) => Result
    : never;
};

export type CommandName = keyof typeof COMMANDS;

export const COMMAND_NAMES = Object.keys(COMMANDS) as readonly CommandName[];

/** `onDone` is called after each command, also a failed one. `by`: the author, for the history. */
export function bindCommands(given: CommandContext, onDone: () => void, by?: string): Commands {
  const context = by === undefined ? given : { ...given, by, recorder: given.recorder.withAuthor(by) };
  const bound = COMMAND_NAMES.map((name) => {
    const command = COMMANDS[name] as (context: CommandContext, ...rest: readonly unknown[]) => unknown;
    return [name, (...rest: readonly unknown[]) => followed(() => command(context, ...rest), onDone)];
  });
  return Object.fromEntries(bound) as Commands;
}

/** Calls `onDone` at once when `work` is synchronous. */
function followed(work: () => unknown, onDone: () => void): unknown {
  let done: unknown;
  try {
    done = work();
  } catch (error) {
    onDone();
    throw error;
  }
  if (done instanceof Promise) return done.finally(onDone);
  onDone();
  return done;
}
