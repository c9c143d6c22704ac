import { CommanderError } from 'commander';
import { definedProgram } from '../../../src/cli/manual.ts';
import { leafCommands } from '../docs/command-lines.ts';

/** What is wrong with the commands of stickpin that a text suggests, as a shell would pass them. */
export async function suggestionFaults(text: string): Promise<readonly string[]> {
  const commands = new Set([...text.matchAll(/'(?:sudo )?stickpin ([^']+)'/g)].map(([, command = '']) => command));
  const faults = await Promise.all([...commands].map(async (command) => [command, await faultOf(command)] as const));
  return faults.flatMap(([command, fault]) => (fault === undefined ? [] : [`stickpin ${command}: ${fault}`]));
}

/** As the program reads it. Without operands, as in "run 'stickpin unpin' for it", it is a name. */
async function faultOf(command: string): Promise<string | undefined> {
  if (command.includes('…')) return 'a word of it is cut';
  const program = definedProgram();
  const leaves = leafCommands(program);
  const isName = leaves.some(({ path }) => path === command.replace(/( --[a-z-]+)+$/, ''));
  for (const leaf of leaves) leaf.command.exitOverride().action(() => undefined);
  try {
    await program.parseAsync(command.split(/\s+/), { from: 'user' });
    return undefined;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return isName && error.code !== 'commander.unknownOption' ? undefined : error.message;
  }
}
