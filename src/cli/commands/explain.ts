import type { Command } from 'commander';
import { EXPLANATIONS, type Explanation, explanationOf } from '../../domain/report/explain.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import { cliError } from '../context/cli-error.ts';
import type { CommandContext } from '../context/command-context.ts';
import { formatTable } from '../output/table.ts';
import { jsonText, wrapLines } from '../output/text.ts';

export function registerExplain(program: Command, context: CommandContext): void {
  program
    .command('explain')
    .description('say what a code such as M-12 means and what to do')
    .argument('[code...]', 'short codes or codes of reasons; without one, all are listed')
    .option('--json', 'print as JSON')
    .action((names: readonly string[], { json }: { readonly json?: true }) => {
      const found = names.length === 0 ? EXPLANATIONS : names.map(explain);
      if (json) context.stdout(jsonText({ codes: found }));
      else
        context.stdout(names.length === 0 ? listed(found, context) : found.map((one) => text(one, context)).join('\n'));
    });
}

/** @throws AppError `cli/no-code` (`reject`) */
function explain(name: string): Explanation {
  const found = explanationOf(name);
  if (found !== undefined) return found;
  const shown = clip(oneLine(name), 40);
  throw cliError('cli/no-code', `there is no code '${shown}'; 'stickpin explain' lists all`);
}

function listed(all: readonly Explanation[], context: CommandContext): string {
  return formatTable(
    ['CODE', 'REASON', 'MEANS'],
    all.map(({ code, reason, means }) => [code, reason, means]),
    context,
  );
}

function text({ code, reason, means, words, asks, next, example }: Explanation, { columns }: CommandContext): string {
  const lines = [
    `${code}  ${means}.`,
    `With a stick:  ${words}: ${asks}`,
    `Administrator: ${next}`,
    ...(example === undefined ? [] : [`For example:   ${example}`]),
    `In the journal and in --json: ${reason}`,
  ];
  return lines.map((line) => `${wrapLines(line, columns, 15)}\n`).join('');
}
