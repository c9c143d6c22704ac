import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { NODE_SOURCES, readSettings } from '../../../config/load-settings.ts';
import { printSettings, writtenSettings } from '../../../config/print-settings.ts';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { VERSION } from '../../../platform/version.ts';
import type { SupportFact } from '../../context/command-adapters.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { jsonText } from '../../output/json.ts';
import { redactedFile } from '../../output/redact/redact-file.ts';
import { wrapLines } from '../../output/wrap-words.ts';

interface ReportOptions {
  readonly out?: string;
  readonly json?: true;
}

/** Runs a command line, as `runProgram` of the program. */
type Run = (args: readonly string[], context: CommandContext) => Promise<number>;

/** Adds `report` to the program. `run`: runs other commands, whose output is part of the report. */
export function registerReport(program: Command, context: CommandContext, run: Run): void {
  program
    .command('report')
    .description('collect what support needs in one file, without secrets; nothing leaves the node by itself')
    .option('--out <file>', 'the file to make; default: stickpin-report-HOST-TIME.tar.gz in this folder')
    .option('--json', 'print the list as JSON')
    .action((options: ReportOptions) => report(options, context, run));
}

/** Files that are made of other commands, which also run while the daemon does not. */
const SCREENS: readonly { readonly file: string; readonly about: string; readonly args: readonly string[] }[] = [
  { file: 'doctor.txt', about: 'what stickpin doctor finds', args: ['doctor'] },
  { file: 'status.json', about: 'the whole state: releases, media, trust, conditions', args: ['status', '--json'] },
  { file: 'list.txt', about: 'the bundles as stickpin list shows them', args: ['list'] },
  { file: 'history.json', about: 'the newest 1,000 events', args: ['history', '--json'] },
];

async function report(options: ReportOptions, context: CommandContext, run: Run): Promise<void> {
  const { now, signal, stdout } = context;
  const time = new Date(now()).toISOString();
  const out = resolve(options.out ?? `stickpin-report-${hostname()}-${time.replaceAll(/[:.]/g, '')}.tar.gz`);
  const { supportFacts, supportSecrets, packReport } = await context.adapters();
  const secrets = await supportSecrets(signal);
  const facts = [...(await screens(context, run)), await settingsFact(signal), ...(await supportFacts(signal))];
  const files = facts.map((fact) => ({ ...fact, text: redactedFile(fact.text, secrets) }));
  const contents = contentsOf(files, time);
  const packed = [{ file: 'CONTENTS', about: 'this list', text: contents }, ...files];
  await packReport(out, packed, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw notWritten(out, error);
  });
  const listed = files.map(({ file, about, text }) => ({ file, about, sizeBytes: Buffer.byteLength(text) }));
  stdout(
    options.json
      ? jsonText({ path: out, files: listed })
      : wrapLines(`${contents}\nMade ${out}. Look into it before you send it.\n`, context.columns, TITLE_WIDTH),
  );
}

/** Where what a file is begins in the list. */
const TITLE_WIDTH = 15;

function contentsOf(files: readonly SupportFact[], time: string): string {
  const width = Math.max(...files.map(({ file }) => file.length));
  const lines = files.map(({ file, about }) => `  ${file.padEnd(width)}  ${about}\n`);
  return `Report of stickpin ${VERSION}, ${time}. It has:\n${lines.join('')}`;
}

/** Runs the commands of {@link SCREENS}; what one says on stderr and its exit code are part of it. */
async function screens(context: CommandContext, run: Run): Promise<readonly SupportFact[]> {
  const facts: SupportFact[] = [];
  for (const { file, about, args } of SCREENS) {
    let [text, told] = ['', ''];
    const exitCode = await run(args, {
      ...withoutTerminal(context),
      stdout: (more) => {
        text += more;
      },
      stderr: (more) => {
        told += more;
      },
    });
    context.signal.throwIfAborted();
    // What is JSON stays JSON.
    const isWhole = file.endsWith('.json') && text !== '';
    facts.push({ file, about, text: isWhole ? text : `${text}${told}exit code ${exitCode}\n` });
  }
  return facts;
}

function withoutTerminal({ columns: _columns, hasColour: _colour, stderrColumns: _width, ...context }: CommandContext) {
  return { ...context, isTerminal: false };
}

/** Settings have no secrets. Those that are wrong are left out, with the reason. */
async function settingsFact(signal: AbortSignal): Promise<SupportFact> {
  const about = 'the settings in use';
  try {
    const { file } = await readSettings(NODE_SOURCES, signal);
    return { file: 'settings.toml', about, text: printSettings(writtenSettings(file)) };
  } catch (error) {
    signal.throwIfAborted();
    return { file: 'settings.toml', about, text: `# ${reasonOf(error)}\n` };
  }
}

function notWritten(path: string, cause: unknown): AppError {
  const isThere = systemCodeOf(cause) === 'EEXIST';
  const why = isThere
    ? 'it is there already: give another name with --out'
    : `${reasonOf(cause)}; name another place with --out`;
  return new AppError({ code: 'cli/report', message: `${path} can't be made: ${why}`, disposition: 'reject', cause });
}
