import { Argument, type Command, Option } from 'commander';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import { COMPLETED_NAMES, type CompletedNames, completionOf, SHELLS, type Shell } from '../completion.ts';
import type { CommandContext } from '../context/command-context.ts';

export function registerCompletion(program: Command, context: CommandContext): void {
  program
    .command('completion')
    .description('print the completion of commands, flags and releases for a shell')
    .addArgument(new Argument('[shell]', 'the shell').choices([...SHELLS]))
    .addOption(
      new Option('--names <which>', 'print names on this node instead, one a line, as the completion does').choices([
        ...COMPLETED_NAMES,
      ]),
    )
    .action(async (shell: Shell | undefined, { names }: { readonly names?: CompletedNames }, command: Command) => {
      if ((shell === undefined) === (names === undefined)) {
        const fault = shell === undefined ? `give a shell (${SHELLS.join(', ')})` : 'give a shell or --names, not both';
        command.error(`error: ${fault}`, { exitCode: 2 });
      }
      context.stdout(shell === undefined ? await namesOf(names, context) : completionOf(shell, program));
    });
}

const MAX_NAMES = 200;
const MAX_LENGTH = 200;

/** It excludes names with characters that are special in a shell. */
const PLAIN = /^[A-Za-z0-9][A-Za-z0-9@._+-]*$/;

/** The names are from the files of the daemon: a call to it would be slow for a person at a key. */
async function namesOf(which: CompletedNames | undefined, { adapters, signal }: CommandContext): Promise<string> {
  const { storedState } = await adapters();
  const stored = await storedState.report(signal);
  const names = stored === undefined ? [] : which === 'streams' ? streamsIn(stored.report) : releasesIn(stored.report);
  const plain = [...new Set(names)].filter((name) => name.length <= MAX_LENGTH && PLAIN.test(name));
  return plain
    .slice(0, MAX_NAMES)
    .map((name) => `${name}\n`)
    .join('');
}

function releasesIn({ bundles, notices, rejectedNames }: StatusReport): readonly string[] {
  return [...bundles, ...notices, ...rejectedNames].map(({ name, version }) =>
    name === '' ? '' : `${name}@${version}`,
  );
}

function streamsIn({ bundles, notices }: StatusReport): readonly string[] {
  return [...bundles, ...notices].map(({ name }) => name);
}
