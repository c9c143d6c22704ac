import { lstat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { readSettings, type SettingsSources } from '../../../config/load-settings.ts';
import { printSettings, writtenSettings } from '../../../config/print-settings.ts';
import { type AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { withEither } from '../../../platform/async/abort.ts';
import { VERSION } from '../../../platform/version.ts';
import { cliError } from '../../context/cli-error.ts';
import type { SupportFact, SupportSource } from '../../context/command-adapters.ts';
import type { CommandContext } from '../../context/command-context.ts';
import { redactedFile } from '../../output/redact.ts';
import { type JsonFlag, jsonText, wrapLines } from '../../output/text.ts';

/** The form of `runProgram`. */
type Run = (args: readonly string[], context: CommandContext) => Promise<number>;

/** `run`: runs other commands, whose output is part of the report. */
export function registerReport(program: Command, context: CommandContext, run: Run): void {
  program
    .command('report')
    .description('collect what support needs in one file, without secrets; nothing leaves the node by itself')
    .option('--out <file>', 'the file to make; default: stickpin-report-HOST-TIME.tar.gz in this folder')
    .option('--json', 'print the list as JSON')
    .action((options: JsonFlag & { readonly out?: string }) => report(options, context, run));
}

/** Commands whose output becomes a file. They also run while the daemon does not. */
const SCREENS: readonly { readonly file: string; readonly about: string; readonly args: readonly string[] }[] = [
  { file: 'doctor.txt', about: 'what stickpin doctor finds', args: ['doctor'] },
  { file: 'status.json', about: 'the whole state: releases, media, trust, conditions', args: ['status', '--json'] },
  { file: 'list.txt', about: 'the bundles as stickpin list --all shows them', args: ['list', '--all'] },
  { file: 'history.json', about: 'the newest 1,000 events', args: ['history', '--json'] },
  { file: 'fleet.json', about: 'the releases of all nodes of the cluster', args: ['fleet', 'status', '--json'] },
];

/** Ends a command that waits for a process that does not answer. */
const SCREEN_MS = 60_000;

async function report(options: JsonFlag & { readonly out?: string }, context: CommandContext, run: Run): Promise<void> {
  const { now, signal, stdout } = context;
  const time = new Date(now()).toISOString();
  const out = resolve(options.out ?? `stickpin-report-${hostname()}-${time.replaceAll(/[:.]/g, '')}.tar.gz`);
  const { supportSources, supportSecrets, packReport } = await context.adapters();
  await refuseExisting(out);
  const screens = SCREENS.map((screen) => screenSource(screen, context, run));
  const sources = [...screens, settingsSource(context.settingsSources), ...supportSources];
  const contents = contentsOf(sources, time);
  // The list is printed first, since collecting may take half a minute.
  if (!options.json) stdout(wrapLines(`${contents}\n`, context.columns, titleWidth(sources)));
  const secrets = await supportSecrets(signal);
  const files = (await collected(sources, signal)).map((fact) => ({ ...fact, text: redactedFile(fact.text, secrets) }));
  const packed = [{ file: 'CONTENTS', about: 'this list', text: contents }, ...files];
  await packReport(out, packed, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw notWritten(out, error);
  });
  const listed = files.map(({ file, about, text }) => ({ file, about, sizeBytes: Buffer.byteLength(text) }));
  const made = wrapLines(`Made ${out}. Look into it before you send it.\n`, context.columns);
  stdout(options.json ? jsonText({ path: out, files: listed }) : made);
}

/** Sources that call the daemon run one after the other, all others at once. */
async function collected(sources: readonly Source[], signal: AbortSignal): Promise<readonly SupportFact[]> {
  let ready: Promise<unknown> = Promise.resolve();
  return Promise.all(
    sources.map(async ({ file, about, isInTurn = false, collect }) => {
      const text = isInTurn ? ready.then(() => collect(signal)) : collect(signal);
      if (isInTurn) ready = text;
      return { file, about, text: await text };
    }),
  );
}

interface Source extends SupportSource {
  /** It runs after the one before it. Default false. */
  readonly isInTurn?: boolean;
}

/** The column in which the descriptions begin in the list. */
function titleWidth(sources: readonly Source[]): number {
  return Math.max(...sources.map(({ file }) => file.length)) + 4;
}

function contentsOf(sources: readonly Source[], time: string): string {
  const width = titleWidth(sources) - 4;
  const lines = sources.map(({ file, about }) => `  ${file.padEnd(width)}  ${about}\n`);
  return `Report of stickpin ${VERSION}, ${time}. It has:\n${lines.join('')}`;
}

/** The output of the command, with stderr and the exit code. */
function screenSource({ file, about, args }: (typeof SCREENS)[number], context: CommandContext, run: Run): Source {
  const collect = async (signal: AbortSignal) => {
    let [text, errors] = ['', ''];
    const screen: CommandContext = {
      ...withoutTerminal(context),
      stdout: (more) => {
        text += more;
      },
      stderr: (more) => {
        errors += more;
      },
    };
    const exitCode = await withEither([signal, AbortSignal.timeout(SCREEN_MS)], (both) =>
      run(args, { ...screen, signal: both }),
    );
    signal.throwIfAborted();
    // A cut JSON document would not be JSON.
    const isWhole = file.endsWith('.json') && text !== '';
    return isWhole ? text : `${text}${errors}exit code ${exitCode}\n`;
  };
  return { file, about, isInTurn: true, collect };
}

function withoutTerminal({ columns: _columns, hasColour: _colour, stderrColumns: _width, ...context }: CommandContext) {
  return { ...context, isTerminal: false };
}

/** Settings have no secrets. Wrong settings are left out, with the reason. */
function settingsSource(places: SettingsSources): Source {
  const collect = async (signal: AbortSignal) => {
    try {
      const { file } = await readSettings(places, signal);
      return printSettings(writtenSettings(file));
    } catch (error) {
      signal.throwIfAborted();
      return `# ${reasonOf(error)}\n`;
    }
  };
  return { file: 'settings.toml', about: 'the settings in use', collect };
}

/** Fails before anything is collected. Creating the file fails if one appears meanwhile. */
async function refuseExisting(path: string): Promise<void> {
  if ((await lstat(path).catch(() => undefined)) !== undefined) throw notWritten(path, undefined);
}

/** `cause`: undefined where the file is there already. */
function notWritten(path: string, cause: unknown): AppError {
  const isThere = cause === undefined || systemCodeOf(cause) === 'EEXIST';
  const free = `${reasonOf(cause)}; name another place with --out`;
  const why = isThere ? 'it is there already: give another name with --out' : free;
  return cliError('cli/report', `${path} can't be made: ${why}`, cause);
}
