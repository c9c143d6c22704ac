import { dirname, isAbsolute, join } from 'node:path';
import type { Command, Option } from 'commander';
import * as v from 'valibot';
import { parse } from 'yaml';
import { bundleError } from '../../../bundle/bundle-error.ts';
import { memberFault } from '../../../bundle/format/json.ts';
import { FaultList, reasonOf } from '../../../platform/app-error.ts';
import { decodeText } from '../../../platform/plain-text.ts';
import type { UsageFaults } from '../../context/command-context.ts';
import { inputOf } from '../../context/option-values.ts';

const MAX_BYTES = 256 * 1024;
const MAX_TEXT = 4096;
const MAX_VALUES = 10_000;
/** They are about one call. `referrers: none` is what `--without-signatures` says. */
const CALL_ONLY = new Set(['config', 'dryRun', 'json', 'withoutSignatures']);
/** The placeholder of a value that is a path. */
const TAKES_PATH = /<(?:file|dir|path|bundle|policy)\b/;
/** The place of an image source that is a relative path. */
const SOURCE_PATH = /((?:^|=)(?:oci|oci-archive|docker-archive|dir):)(?!\/)/;

const text = v.pipe(v.string(), v.minLength(1), v.maxLength(MAX_TEXT));

/** The members of the file: each option of `command` that is not about one call, by its name. */
export function configSchema(command: Command) {
  const members = fileOptions(command).map((option) => [
    option.attributeName(),
    v.exactOptional(v.pipe(memberOf(option), v.description(option.description))),
  ]);
  return v.strictObject({ $schema: v.exactOptional(text), ...(Object.fromEntries(members) as v.ObjectEntries) });
}

function fileOptions(command: Command): Option[] {
  return command.options.filter((option) => !option.negate && !CALL_ONLY.has(option.attributeName()));
}

function memberOf(option: Option): v.GenericSchema {
  if (isRepeated(option)) return v.pipe(v.array(text), v.maxLength(MAX_VALUES));
  const input = inputOf(option.parseArg);
  if (!option.required) return v.boolean();
  if (input?.kind === 'number') {
    const { least, most } = input;
    return v.pipe(v.number(), v.minValue(least), v.maxValue(most));
  }
  if (input?.kind === 'list') return v.union([text, v.pipe(v.array(text), v.minLength(1), v.maxLength(MAX_VALUES))]);
  return option.argChoices === undefined ? text : v.picklist(option.argChoices);
}

function isRepeated({ defaultValue }: Option): boolean {
  return Array.isArray(defaultValue);
}

/**
 * Gives `command` the options in a file (YAML or JSON). A value on the command line counts instead
 * of that of the file; of an option that may be repeated the values of the file come first. Paths
 * count from the folder of the file. Values that an option refuses are added to `usage`.
 *
 * @throws AppError `bundle/option` with all wrong members; `bundle/source` when it can't be read
 */
export async function takeConfig(
  path: string,
  command: Command,
  usage: UsageFaults,
  signal: AbortSignal,
): Promise<void> {
  const values = await readConfig(path, command, signal);
  const parsed = (option: Option, value: unknown, earlier: unknown, member: string): unknown => {
    // A flag without a value has no parser.
    if (value === true && !option.optional) return true;
    const { parseArg } = option;
    const written = fromFolder(`${value}`, option, dirname(path));
    return parseArg === undefined ? written : usage.within(`${path}: ${member}`, () => parseArg(written, earlier));
  };
  for (const option of fileOptions(command)) {
    const name = option.attributeName();
    const value = values[name];
    const isGiven = command.getOptionValueSource(name) === 'cli';
    // Only --tls-verify has false as a value. A flag that is false is not given.
    if (value === undefined || (value === false && !option.optional)) continue;
    if (isRepeated(option)) {
      let all: unknown = [];
      for (const [at, one] of (value as string[]).entries()) all = parsed(option, one, all, `${name}.${at}`);
      const given: unknown[] = isGiven ? command.getOptionValue(name) : [];
      command.setOptionValueWithSource(name, [...(all as unknown[]), ...given], 'config');
    } else if (!isGiven) {
      const one = Array.isArray(value) ? value.join(',') : value;
      command.setOptionValueWithSource(name, parsed(option, one, undefined, name), 'config');
    }
  }
}

async function readConfig(path: string, command: Command, signal: AbortSignal): Promise<Record<string, unknown>> {
  const { readLimited } = await import('../../../factory/images/layout-source.ts');
  const bytes = await readLimited(path, MAX_BYTES, signal);
  let value: unknown;
  try {
    value = parse(decodeText(bytes, true), { logLevel: 'error' });
  } catch (cause) {
    // The parser shows the line below its message.
    const [message = ''] = reasonOf(cause).split('\n');
    throw bundleError('bundle/option', `${path} is not YAML: ${message.replace(/:$/, '')}`, { cause });
  }
  if (Array.isArray(value))
    throw bundleError('bundle/option', `${path} is a list, and must have members as name: shop`);
  const found = v.safeParse(configSchema(command), value);
  if (found.success) return found.output;
  const faults = new FaultList();
  for (const issue of found.issues) {
    const isUnquoted = issue.expected === 'string' && typeof issue.input !== 'object';
    const hint = isUnquoted ? ': write it in quotes' : '';
    faults.add(bundleError('bundle/option', `${path}: ${memberFault(issue)}${hint}`));
  }
  faults.throwAny();
  throw new TypeError('a file with faults has none');
}

/** A relative path counts from `folder`, also that of the source of an image. */
function fromFolder(value: string, { flags }: Option, folder: string): string {
  if (flags.includes('source]')) return value.replace(SOURCE_PATH, (_, source) => `${source}${folder}/`);
  if (!TAKES_PATH.test(flags) || value === '-' || isAbsolute(value)) return value;
  return join(folder, value);
}
