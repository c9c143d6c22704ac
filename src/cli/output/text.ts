import { type BundleId, type Digest, shortDigest } from '../../domain/model/digest.ts';
import { type BundleReport, JSON_SCHEMA_VERSION } from '../../domain/report/status-schema.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { paintLines, type Tone } from './colour.ts';

/** The output of a command with `--json`: one document in one line, with its `schemaVersion`. */
export function jsonText(document: object): string {
  return `${JSON.stringify({ schemaVersion: JSON_SCHEMA_VERSION, ...document })}\n`;
}

/** The flag `--json` of a command. */
export interface JsonFlag {
  readonly json?: true | undefined;
}

/** A sentence, or with `--json` the document `message`. */
export function printMessage(message: string, { json }: JsonFlag, { stdout, columns }: CommandOutput): void {
  stdout(json ? jsonText({ message }) : wrapLines(`${message}\n`, columns));
}

/** Prints the result of a command: a sentence, or the document with `--json`. */
export function printResult(document: object, text: string, { json }: JsonFlag, output: CommandOutput): void {
  output.stdout(json ? jsonText(document) : wrapLines(`${text}\n`, output.columns, 4));
}

/** Wrapped, since a terminal would break the line inside a word. */
export function printStderrLine(
  line: string,
  tone: Tone | undefined,
  { stderr, stderrColumns, stderrHasColour }: CommandOutput,
): void {
  const isColoured = stderrColumns !== undefined && stderrHasColour;
  stderr(paintLines(wrapLines(`${oneLine(line)}\n`, stderrColumns, 4), tone, isColoured));
}

export function printWarning(text: string, context: CommandOutput): void {
  printStderrLine(`warning: ${text}`, 'warning', context);
}

/**
 * Shortens digests on a terminal (`sha256:5f0c8a12e9b4…`). Elsewhere, as for `grep`, they stay
 * whole.
 */
export function shortDigests(text: string, { columns }: Layout): string {
  if (columns === undefined) return text;
  return text.replace(/sha256:[0-9a-f]{64}/g, (digest) => shortDigest(digest as Digest));
}

/**
 * The argument for `activate` and `approve`: `ocp@4.13.7`, or the digest of a bundle without a
 * verified name.
 */
export function shownName({ name, version, bundleId }: Pick<BundleReport, 'name' | 'version' | 'bundleId'>): string {
  return name === '' ? bundleId : `${name}@${version}`;
}

type Named = Pick<BundleReport, 'name' | 'version' | 'bundleId' | 'phase'>;

/** Its name, with the digest in short where another bundle of the report has that name. */
export function titleIn(bundle: Named, bundles: readonly Named[]): string {
  const name = shownName(bundle);
  return commandNameIn(bundle, bundles) === name ? name : `${name} (${shortDigest(bundle.bundleId as BundleId)})`;
}

/** Its name or its digest: commands accept it for this bundle and no other of the report. */
export function commandNameIn(bundle: Omit<Named, 'phase'>, bundles: readonly Named[]): string {
  const isMeantToo = (other: Named) =>
    other.bundleId !== bundle.bundleId && other.phase !== 'retired' && shownName(other) === shownName(bundle);
  return bundles.some(isMeantToo) ? bundle.bundleId : shownName(bundle);
}

/**
 * Breaks `text` at blanks into lines of at most `width` characters. A wider word gets a separate
 * line. Without `width` there is one line.
 */
export function wrapWords(text: string, width = Number.POSITIVE_INFINITY): string[] {
  const lines: string[] = [];
  let line = '';
  // Each word comes with the blanks before it, which stay unless the line is broken there.
  for (const [, blanks = '', word = ''] of text.trim().matchAll(/(\s*)(\S+)/g)) {
    if (line !== '' && line.length + blanks.length + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = `${line}${blanks}${word}`;
    }
  }
  return [...lines, line];
}

/** Continued lines are indented by `indent` blanks. */
export function wrapLines(text: string, width: number | undefined, indent = 0): string {
  if (width === undefined) return text;
  return text
    .split('\n')
    .map((line) => (line.length <= width ? line : hanging(line, width, indent)))
    .join('\n');
}

function hanging(line: string, width: number, indent: number): string {
  const [, lead = ''] = /^(\s*)/.exec(line) ?? [];
  const [first = ''] = wrapWords(line, width - lead.length);
  const tail = line.slice(lead.length + first.length).trim();
  if (tail === '') return line;
  const blanks = ' '.repeat(lead.length + indent);
  const others = wrapWords(tail, width - blanks.length);
  return [`${lead}${first}`, ...others.map((text) => `${blanks}${text}`)].join('\n');
}

export interface CommandOutput {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly isTerminal: boolean;
  /** It is absent when stdout is not a terminal: lines are not wrapped. */
  readonly columns?: number;
  /** Default false. */
  readonly hasColour?: boolean;
  /** It is absent when stderr is not a terminal. */
  readonly stderrColumns?: number;
  /** Default false. */
  readonly stderrHasColour?: boolean;
}

/** Default: no limit, no colours. */
export type Layout = Pick<CommandOutput, 'columns' | 'hasColour'>;
