import type { Command } from 'commander';
import type { CodeText } from './markdown.ts';

/** A command line of stickpin that the documentation shows. */
export interface ShownCommand {
  /** 1-based. */
  readonly line: number;
  /** Words behind `stickpin`, up to a pipe, a comment or the end of the command. */
  readonly words: readonly string[];
}

const groups = ['bundle', 'trust', 'config'];

/**
 * Every command line of stickpin in `code`, as `stickpin bundle create …` or as the span `bundle
 * create`.
 */
export function shownCommands(code: readonly CodeText[]): ShownCommand[] {
  return code.flatMap(({ line, text, isBlock }) => {
    const start = isBlock ? /(?:^|[\s'(])(?:sudo )?stickpin (?=[a-z]|--)/g : /(?:^|\s)(?:sudo )?stickpin (?=[a-z]|--)/g;
    const found = [...text.matchAll(start)].map((match) => text.slice(match.index + match[0].length));
    const isGroup = !isBlock && groups.some((group) => text.startsWith(`${group} `));
    return [...found, ...(isGroup ? [text] : [])].map((rest) => ({ line, words: wordsOf(rest) }));
  });
}

function wordsOf(text: string): string[] {
  const [command = ''] = text.split(/ #|[|;&>')"]| {2,}/, 1);
  return command.split(/\s+/).filter((word) => word !== '');
}

/**
 * What is wrong with a shown command, or undefined: a command or a flag that `program` does not
 * have.
 */
export function faultOf({ words }: ShownCommand, program: Command): string | undefined {
  let command = program;
  let at = 0;
  for (; at < words.length; at += 1) {
    const next = command.commands.find((candidate) => candidate.name() === words[at]);
    if (next === undefined) break;
    command = next;
  }
  const word = words[at];
  if (command.commands.length > 0 && word !== undefined && /^[a-z]/.test(word)) return `no command '${word}'`;
  const known = flagsOf(command);
  const unknown = words.slice(at).flatMap((shown) => {
    const [, flag] = /^\[?(--?[a-z][a-z-]*)/.exec(shown) ?? [];
    return flag === undefined || known.has(flag) ? [] : [flag];
  });
  return unknown.length === 0 ? undefined : `no flag ${unknown.join(', ')} of '${command.name()}'`;
}

/** The flags of one command, those of its help included. */
export function flagsOf(command: Command): ReadonlySet<string> {
  const own = command.options.flatMap(({ long, short }) => [long, short]).filter((flag) => flag != null);
  return new Set(['--help', '-h', ...own]);
}

/** Every command that does something, by its words, as `bundle create`. */
export function leafCommands(
  program: Command,
  path = '',
): readonly { readonly path: string; readonly command: Command }[] {
  return program.commands.flatMap((command) => {
    const name = `${path}${command.name()}`;
    return command.commands.length > 0 ? leafCommands(command, `${name} `) : [{ path: name, command }];
  });
}
