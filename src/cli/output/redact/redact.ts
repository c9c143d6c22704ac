import { withoutPrivateKeys } from './private-keys.ts';
import { REMOVED, withoutTokens } from './tokens.ts';

/** Words that end the name of a secret: `registry_token`, `aws_secret_access_key`, `DB_PASS`. */
const SECRET_WORD = [
  'passw(?:or)?d',
  'passphrase',
  'passcode',
  '[-_]pass',
  'secret',
  'token',
  'credential',
  'creds',
  'auth',
  'authorization',
  'cookie',
  '(?:api|access|account|encryption|master|private|secret|shared|signing)[-_]?key',
  'client[-_]?key[-_]?data',
  'dockerconfigjson',
].join('|');

/** How the name of a secret ends. What stands before is left as it is. */
const SECRET_END = `(?:${SECRET_WORD})s?(?:[-_]?(?:data|value|base64))?`;
/** The whole name. Its length is bounded, so that a long word does not cost much time. */
const SECRET_NAME = String.raw`[\w.-]{0,64}${SECRET_END}`;

/**
 * Values in quotes, also in quotes that a program has escaped. An open quote ends with its line.
 */
const QUOTED = [
  String.raw`(?<escaped>\\+["'])[^\n]*?(?:(?<!\\)\k<escaped>|$)`,
  String.raw`"(?:\\.|[^"\\\n])*(?:"|$)`,
  String.raw`'(?:''|[^'\n])*(?:'|$)`,
].join('|');

/** Where a value without quotes ends before its line: at the next option or the next `name=`. */
const NEXT = String.raw`[ \t]+(?:--?[A-Za-z](?:[\s=]|$)|--[A-Za-z]|[\w.-]+=)`;
const BARE = String.raw`(?!${NEXT})[^\s"'](?:(?!${NEXT})[^\n])*`;

const SEPARATOR = String.raw`[ \t]*(?::=|=>|[:=])[ \t]*`;

/** `password=…`, `TOKEN: …`, `--token …`, `["--token", "…"]`. */
const NAMED = new RegExp(
  String.raw`(?<start>${SECRET_END}${SEPARATOR}|(?<!\S)--?${SECRET_NAME}[ \t]+)(?<value>${QUOTED}|${BARE})`,
  'gim',
);

/** `"password": …`, also with escaped quotes. A value without quotes is a number or a word. */
const NAMED_IN_QUOTES = new RegExp(
  String.raw`(?<start>${SECRET_END}\\*["']${SEPARATOR}|(?<=["'])--?${SECRET_NAME}\\*["'][ \t]*,?[ \t]*(?=\\*["']))(?<value>${QUOTED}|[^\s,\]}"'\\{[]+)`,
  'gim',
);

/** `"name": "DB_PASSWORD", "value": "…"`, as Kubernetes and the CRI write environments. */
const VARIABLE = new RegExp(
  String.raw`(?<start>\b(?:name|key)\\*["']?:[ \t]*\\*["']?${SECRET_NAME}\\*["']?,?[ \t]*\\*["']?value\\*["']?:[ \t]*)(?<value>${QUOTED}|${BARE})`,
  'gim',
);

/** Headers are secret up to the end of their line: they have spaces and `name=` in them. */
const HEADER = new RegExp(String.raw`(?<start>authorization:[ \t]*|cookie:[ \t]*)(?<value>${QUOTED}|[^\n]+)`, 'gim');

/**
 * `password: |` and the lines of that block, which are indented further (YAML 1.2, section 8.1).
 * INVARIANT: each line of the block is matched in one way only, so that time grows with its length.
 */
const BLOCK = new RegExp(
  String.raw`(?<start>^(?<indent>[ \t]*)(?:- )*["']?${SECRET_NAME}["']?:[ \t]*(?:[!&]\S*[ \t]+)*[|>][-+\d]*[ \t]*(?:#[^\n]*)?\n)(?<value>(?:(?:[ \t]*\n)*\k<indent>[ \t]+\S[^\n]*(?:\n|(?![^])))+)`,
  'gim',
);

const NAME_OF_SECRET = new RegExp(`^-{0,2}${SECRET_NAME}$`, 'i');

/** Whether something of this name, or the argument after this option, is a secret. */
export function namesSecret(name: string): boolean {
  return NAME_OF_SECRET.test(name);
}

/**
 * Text for people who may not know secrets of the node: without the given secrets, without names
 * and passwords in addresses, without private keys and tokens, and without the values of words
 * that name a secret. A value without quotes ends at the next option, at the next `name=`, or at
 * the end of its line. So rather too much is removed than too little.
 *
 * @param secrets those that are known; shorter ones than 8 characters are not looked for
 */
export function redacted(text: string, secrets: readonly string[] = []): string {
  const known = secrets
    .filter((secret) => secret.length >= 8)
    .reduce((left, one) => left.replaceAll(one, REMOVED), text);
  const plain = withoutBlocks(withoutTokens(withoutPrivateKeys(known)));
  return [HEADER, VARIABLE, NAMED_IN_QUOTES, NAMED].reduce(withoutValues, plain);
}

/**
 * Values that are no secrets: of switches, of the setting `fleet.auth`, and what begins a list or a
 * block.
 */
const NO_SECRET = /^(?:true|false|null|"?(?:none|kubelet)"?|[{[]|[|>][-+\d]*|<removed>)$/i;

function withoutBlocks(text: string): string {
  return text.replaceAll(BLOCK, (...match: unknown[]) => {
    const { start, indent, value } = match.at(-1) as { start: string; indent: string; value: string };
    return `${start}${indent}  ${REMOVED}${value.endsWith('\n') ? '\n' : ''}`;
  });
}

function withoutValues(text: string, pattern: RegExp): string {
  return text.replaceAll(pattern, (whole: string, ...rest: unknown[]) => {
    const { start, value } = rest.at(-1) as { start: string; value: string };
    return NO_SECRET.test(value.trim()) ? whole : `${start}${removedLike(value)}`;
  });
}

/** The placeholder in the quotes of the value. */
function removedLike(value: string): string {
  const quote = /^\\*["']/.exec(value)?.[0] ?? '';
  return `${quote}${REMOVED}${quote}`;
}
