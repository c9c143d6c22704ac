import { Command, CommanderError } from 'commander';
import { knownShortCode } from '../domain/report/codes.ts';
import { AppError, faultsText, reasonOf } from '../platform/app-error.ts';
import { defined } from '../platform/defined.ts';
import { oneLine, terminalText } from '../platform/plain-text.ts';
import { VERSION } from '../platform/version.ts';
import { registerBundleCreate } from './commands/bundle/create.ts';
import { registerBundleInspect } from './commands/bundle/inspect.ts';
import { registerBundlePull, registerBundlePush } from './commands/bundle/link.ts';
import { registerBundleRehearse } from './commands/bundle/rehearse.ts';
import { registerBundleServe } from './commands/bundle/serve.ts';
import { registerBundleEnvelope, registerBundleSign, registerKeygen } from './commands/bundle/sign.ts';
import { registerBundleVerify } from './commands/bundle/verify.ts';
import { registerBundleWrite } from './commands/bundle/write.ts';
import { registerCompletion } from './commands/completion.ts';
import { registerExplain } from './commands/explain.ts';
import {
  FLEET_REQUESTS,
  registerFleetKey,
  registerFleetRemove,
  registerFleetStatus,
  registerFleetWait,
} from './commands/fleet.ts';
import { registerConfig, registerDoctor } from './commands/node/doctor.ts';
import { registerHistory } from './commands/node/history.ts';
import { registerReport } from './commands/node/report.ts';
import { NODE_REQUESTS, registerRequests } from './commands/node/requests.ts';
import { registerShow } from './commands/node/show.ts';
import { registerList, registerStatus } from './commands/node/status.ts';
import { registerTrust } from './commands/node/trust.ts';
import { registerVerifyImages } from './commands/node/verify-images.ts';
import { registerWait } from './commands/node/wait.ts';
import { EndedWith, exitCodeOf, exitCodes } from './context/cli-error.ts';
import { type CommandContext, UsageFaults } from './context/command-context.ts';
import { addExamples, optionDescription, subcommandDescription, subcommandTerm } from './examples.ts';
import { jsonText, printStderrLine, wrapLines } from './output/text.ts';

/** Returns the exit code. Never throws. `args`: without the name of the program. */
export async function runProgram(args: readonly string[], surroundings: CommandContext): Promise<number> {
  let hasPrinted = false;
  const context = guarded({
    ...surroundings,
    stdout: (text) => {
      hasPrinted = true;
      surroundings.stdout(text);
    },
  });
  let wrongUsage = 'wrong usage';
  const program = buildProgram(context, args, (fault) => {
    wrongUsage = fault;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCodes.done;
  } catch (error) {
    if (error instanceof EndedWith) return error.exitCode;
    const failure = failureOf(error, wrongUsage, args, context);
    if (failure === undefined) return exitCodes.done;
    // Commander has already printed wrong usage. The answer no is no fault.
    const tone = failure.code === 'cli/declined' || failure.code === INTERRUPTED ? undefined : 'bad';
    if (failure.code !== USAGE) printStderrLine(`stickpin: ${failure.message}`, tone, context);
    if (wantsJson(args) && !hasPrinted) context.stdout(jsonText({ error: failure }));
    return failure.exitCode;
  }
}

const USAGE = 'cli/usage';
const INTERRUPTED = 'cli/interrupted';

/** The member `error` of the document of a command that failed. */
interface Failure {
  readonly code: string;
  readonly message: string;
  readonly exitCode: number;
  readonly shortCode?: string;
}

/** Returns undefined after `--help` and `--version`. */
function failureOf(
  error: unknown,
  wrongUsage: string,
  args: readonly string[],
  context: CommandContext,
): Failure | undefined {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return undefined;
    return { code: USAGE, message: wrongUsage, exitCode: exitCodeFor(exitCodes.usage, args) };
  }
  if (context.signal.aborted) {
    return { code: INTERRUPTED, message: 'interrupted', exitCode: exitCodeFor(exitCodes.failed, args) };
  }
  const code = error instanceof AppError ? error.code : 'cli/unexpected';
  const message = oneLine(messageOf(error, args, context));
  return {
    code,
    message,
    exitCode: exitCodeFor(exitCodeOf(error), args),
    ...defined({ shortCode: knownShortCode(code) }),
  };
}

/** It works without parsed flags, so that wrong flags are also reported as a document. */
function wantsJson(args: readonly string[]): boolean {
  return flagsOf(args).includes('--json');
}

/** `status --exit-code` found out nothing about the node: its 0 to 3 are states of the node. */
const STATUS_NOT_KNOWN = 4;

/** A daemon that does not run is 3 with and without `--exit-code`. */
function exitCodeFor(exitCode: number, args: readonly string[]): number {
  const isOfNode = args[0] === 'status' && flagsOf(args).includes('--exit-code');
  return isOfNode && exitCode !== exitCodes.unreachable ? STATUS_NOT_KNOWN : exitCode;
}

function flagsOf(args: readonly string[]): readonly string[] {
  const end = args.indexOf('--');
  return end < 0 ? args : args.slice(0, end);
}

export function messageOf(
  error: unknown,
  args: readonly string[],
  { isRoot = false }: Pick<CommandContext, 'isRoot'>,
): string {
  if (!(error instanceof AppError) || error.code !== 'api/denied') return reasonOf(error);
  return isRoot
    ? "The D-Bus system bus lets nobody call the stickpin daemon, not even root: its rules (io.stickpin1.conf) are not installed. Install its package again, or run the archive's install.sh again"
    : `${error.message}. Run: sudo stickpin ${args.map(shellWord).join(' ')}`;
}

const HELP_WIDTH = 80;

function shellWord(arg: string): string {
  return /^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}

/** A context whose output has no characters that could mislead a reader or a terminal. */
function guarded(context: CommandContext): CommandContext {
  const { stdout, stderr, confirm, readSecret, stderrColumns } = context;
  const columns = stderrColumns === undefined ? undefined : stderrColumns - ' [y/N] yes'.length;
  return {
    ...context,
    stdout: (text) => stdout(terminalText(text)),
    stderr: (text) => stderr(terminalText(text)),
    ...(confirm !== undefined && {
      confirm: (question, signal) => confirm(wrapLines(oneLine(question), columns), signal),
    }),
    ...(readSecret !== undefined && { readSecret: (question, signal) => readSecret(oneLine(question), signal) }),
  };
}

/** `args`: for messages about wrong usage, which `onFault` gets too. */
export function buildProgram(
  context: CommandContext,
  args: readonly string[] = [],
  onFault: (message: string) => void = () => undefined,
): Command {
  const program = new Command('stickpin');
  const usage = new UsageFaults();
  program
    .description('Upgrades Kubernetes nodes from a USB stick, without a registry.')
    .version(VERSION, '-V, --version')
    .configureOutput({
      writeOut: context.stdout,
      writeErr: context.stderr,
      getOutHelpWidth: () => context.columns ?? HELP_WIDTH,
      getErrHelpWidth: () => context.stderrColumns ?? HELP_WIDTH,
      outputError: (text) => {
        const [command, path] = commandOf(program, args);
        const what = faultsText([...namedBy(text, command), ...usage.of(command)]);
        const message = `${what}; see '${path} --help'`;
        onFault(message);
        printStderrLine(`stickpin: ${message}`, 'bad', context);
      },
    })
    .configureHelp({ optionDescription, subcommandTerm, subcommandDescription })
    .enablePositionalOptions()
    .exitOverride();
  program.commandsGroup('See what happens:');
  registerStatus(program, context);
  registerList(program, context);
  registerShow(program, context);
  registerHistory(program, context);
  registerWait(program, context);
  registerExplain(program, context);
  registerDoctor(program, context);
  registerVerifyImages(program, context);
  registerReport(program, context, runProgram);
  const fleet = program.command('fleet').description('the nodes of the cluster');
  registerFleetStatus(fleet, context);
  registerFleetWait(fleet, context);
  registerFleetKey(fleet, context);
  registerRequests(FLEET_REQUESTS, fleet, context);
  registerFleetRemove(fleet, context);
  program.commandsGroup('Change the node:');
  registerRequests(NODE_REQUESTS, program, context);
  program.commandsGroup('Trust and settings:');
  registerTrust(program, context);
  registerConfig(program, context);
  program.commandsGroup('Make bundles, in the factory:');
  registerKeygen(program, context);
  registerBundle(program, usage, context);
  program.commandsGroup('Others:');
  program
    .command('version')
    .description('print the version')
    .action(() => context.stdout(`${VERSION}\n`));
  registerCompletion(program, context);
  program.helpCommand('help [command]', 'print the help of a command');
  addExamples(program);
  usage.collect(program);
  return program;
}

function registerBundle(program: Command, usage: UsageFaults, context: CommandContext): void {
  const bundle = program.command('bundle').description('make, sign, check and try bundles').helpCommand(false);
  bundle.commandsGroup('Make and sign:');
  registerBundleCreate(bundle, usage, context);
  registerBundleSign(bundle, context);
  registerBundleEnvelope(bundle, context);
  bundle.commandsGroup('Bring to a node:');
  registerBundleWrite(bundle, context);
  registerBundlePush(bundle, context);
  registerBundlePull(bundle, context);
  registerBundleServe(bundle, context);
  bundle.commandsGroup('Check and try:');
  registerBundleInspect(bundle, context);
  registerBundleVerify(bundle, context);
  registerBundleRehearse(bundle, context);
}

/** Commander names the first unknown flag only. */
function namedBy(text: string, { args }: Command): readonly string[] {
  const what = oneLine(text.replace(/^error: /, '')).replace(/\.$/, '');
  if (what.startsWith('unknown option ')) {
    return [...new Set(args.filter((arg) => arg.startsWith('-')))].map(
      (arg) => `unknown option '${arg.split('=')[0]}'`,
    );
  }
  return what === '' ? [] : [what];
}

/** The command at the start of `args`, and its words, for example `stickpin bundle verify`. */
function commandOf(program: Command, args: readonly string[]): readonly [Command, string] {
  let command = program;
  const names = [program.name()];
  for (const arg of args) {
    const next = command.commands.find((candidate) => candidate.name() === arg);
    if (next === undefined) break;
    command = next;
    names.push(arg);
  }
  return [command, names.join(' ')];
}
