import { Command, CommanderError } from 'commander';
import { reasonOf } from '../platform/app-error.ts';
import { VERSION } from '../platform/version.ts';
import type { CommandContext } from './command-context.ts';
import { registerActivate } from './commands/activate.ts';
import { registerBundleCreate } from './commands/bundle-create.ts';
import { registerBundleInspect } from './commands/bundle-inspect.ts';
import { registerBundleSign } from './commands/bundle-sign.ts';
import { registerBundleVerify } from './commands/bundle-verify.ts';
import { registerConfig } from './commands/config.ts';
import { registerKeygen } from './commands/keygen.ts';
import { registerList } from './commands/list.ts';
import { registerRescan } from './commands/rescan.ts';
import { registerStatus } from './commands/status.ts';
import { exitCodeOf, exitCodes } from './exit-code.ts';

/** Runs one command line, without the program's own name, and returns its exit code. Never throws. */
export async function runProgram(args: readonly string[], context: CommandContext): Promise<number> {
  const program = buildProgram(context);
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCodes.done;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
    if (context.signal.aborted) return exitCodes.failed;
    context.stderr(`stickpin: ${reasonOf(error)}\n`);
    return exitCodeOf(error);
  }
}

function buildProgram(context: CommandContext): Command {
  const program = new Command('stickpin');
  program
    .description('Upgrades Kubernetes nodes from a USB stick, without a registry.')
    .version(VERSION, '-V, --version')
    .configureOutput({ writeOut: context.stdout, writeErr: context.stderr })
    .enablePositionalOptions()
    .exitOverride();
  program
    .command('version')
    .description('print the version')
    .action(() => context.stdout(`${VERSION}\n`));
  registerStatus(program, context);
  registerList(program, context);
  registerActivate(program, context);
  registerRescan(program, context);
  registerConfig(program, context);
  registerKeygen(program, context);
  const bundle = program.command('bundle').description('make, sign and check bundles');
  registerBundleCreate(bundle, context);
  registerBundleSign(bundle, context);
  registerBundleInspect(bundle, context);
  registerBundleVerify(bundle, context);
  return program;
}
