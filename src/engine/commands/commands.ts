import { type ActivationContext, activationCommands } from './activation-commands.ts';
import { type PreloadContext, preloadCommands } from './preload-commands.ts';
import { type UnpinContext, unpinCommands } from './unpin-commands.ts';
import { type VerdictContext, verdictCommands } from './verdict-commands.ts';

/**
 * All that a person may ask of the engine, by the names of the D-Bus methods. A family is one file.
 * A new command stands in its family's file, and nothing else in the engine changes.
 */
const COMMANDS = { ...activationCommands, ...unpinCommands, ...preloadCommands, ...verdictCommands };

/** What the commands act on. Each takes its part. */
export type CommandContext = ActivationContext & UnpinContext & PreloadContext & VerdictContext;

/**
 * The commands of the engine, each with its arguments by their names, and with an AbortSignal where
 * it does I/O. They only record; the next round does what follows. Each refusal is an AppError
 * `engine/…` (`reject`), and each success has a line in the history.
 */
export type Commands = {
  readonly [Name in CommandName]: (typeof COMMANDS)[Name] extends (context: never, ...rest: infer Rest) => infer Result
    ? (...rest: Rest) => Result
    : never;
};

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** The names of all commands. */
export const COMMAND_NAMES = Object.keys(COMMANDS) as readonly CommandName[];

/**
 * The commands over a context. @param onDone called after each command, whether it worked or not
 */
export function bindCommands(context: CommandContext, onDone: () => void): Commands {
  const bound = COMMAND_NAMES.map((name) => {
    const command = COMMANDS[name] as (context: CommandContext, ...rest: readonly unknown[]) => unknown;
    return [name, (...rest: readonly unknown[]) => followed(() => command(context, ...rest), onDone)];
  });
  return Object.fromEntries(bound) as Commands;
}

/** Calls `onDone` when `work` is over; at once where it is synchronous. */
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
