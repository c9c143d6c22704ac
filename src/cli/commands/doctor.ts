import type { Command } from 'commander';
import { type Finding, findingsOn } from '../../domain/finding.ts';
import { oneLine } from '../../domain/one-line.ts';
import type { StatusReport } from '../../domain/report.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { formatBytes, formatCount } from '../../platform/sizes.ts';
import type { CommandContext } from '../command-context.ts';
import { readReport, withDaemon } from '../daemon-client.ts';
import { formatTable } from '../output.ts';

/** Adds `doctor` to the program. */
export function registerDoctor(program: Command, context: CommandContext): void {
  program
    .command('doctor')
    .description('look at everything that stickpin needs on this node, and say what to do; changes nothing')
    .option('--json', 'print the findings as JSON')
    .action((options: { readonly json?: true }) => doctor(options, context));
}

async function doctor(options: { readonly json?: true }, context: CommandContext): Promise<void> {
  const { examineNode } = await context.adapters();
  const findings = [...(await examineNode(context.env, context.signal)), ...(await askDaemon(context))];
  context.stdout(options.json ? `${JSON.stringify({ findings })}\n` : asText(findings));
  const faults = findings.filter(({ verdict }) => verdict === 'fault').length;
  if (faults === 0) return;
  throw new AppError({
    code: 'cli/faults',
    message: `${formatCount(faults, 'fault')} found; each says what to do`,
    disposition: 'reject',
  });
}

async function askDaemon(context: CommandContext): Promise<readonly Finding[]> {
  try {
    return await withDaemon(context, async (client) => findingsOfReport(await readReport(client, context.signal)));
  } catch (error) {
    context.signal.throwIfAborted();
    return [findingsOn('daemon').fault(reasonOf(error), 'journalctl -u stickpin tells why it does not run')];
  }
}

/** What the daemon's own report says of the node. */
export function findingsOfReport({ status, bundles, rejected, protected: kept }: StatusReport): readonly Finding[] {
  const daemon = findingsOn('daemon');
  const releases = findingsOn('releases');
  const troubles = bundles.flatMap(({ name, version, degraded, reason }) => {
    const trouble = degraded ?? reason;
    if (trouble === undefined) return [];
    return [releases.warning(`${name}@${version}: ${trouble.message}`, `stickpin status tells how it goes on`)];
  });
  const refused = rejected.map(({ medium, path, reason }) =>
    releases.warning(`${path} on ${medium} is rejected: ${reason.message}`, 'take the stick out, or bring a good one'),
  );
  const costs = kept.map(({ name, version, ownBytes }) =>
    findingsOn('protect').ok(
      `${name}@${version} is kept for good and takes ${formatBytes(ownBytes)} that nothing else needs`,
    ),
  );
  return [daemon.ok(`the daemon answers: ${status}`), ...troubles, ...refused, ...costs];
}

const WORDS = { ok: 'ok', warning: 'WARNING', fault: 'FAULT' } as const;

function asText(findings: readonly Finding[]): string {
  const rows = findings.map(({ verdict, subject, message, remedy }) => [
    WORDS[verdict],
    subject,
    oneLine(remedy === undefined ? message : `${message}. What to do: ${remedy}.`),
  ]);
  return formatTable(['', 'WHAT', 'FOUND'], rows);
}
