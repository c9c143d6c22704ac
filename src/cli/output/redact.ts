import { withoutLogins } from '../../platform/plain-text.ts';

const NAME = '[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?';
const WHOLE = new RegExp(`-----BEGIN ${NAME}-----.*?-----END ${NAME}-----`, 'g');
const BEGIN = new RegExp(`-----BEGIN ${NAME}-----.*$`);
const END = new RegExp(`^.*-----END ${NAME}-----`);
/** A line of a key ends with this; a journal writes the time and the program in front. */
const LAST_WORD = /(?:^|[\s:"'])([A-Za-z0-9+/]+={0,2})["',]*$/;
const KEY_HEADER = /\b(?:Proc-Type|DEK-Info|Version|Comment): .*$|^[^a-z]*$/;
/** All lines of a key but the last have this length or more. */
const FULL_LINE = 64;

/**
 * Removes private keys in PEM. If the first or last line of a key is missing, for example at the
 * ends of a journal, this removes all lines that may belong to it.
 */
function withoutPrivateKeys(text: string): string {
  if (!text.includes('PRIVATE KEY')) return text;
  const kept: string[] = [];
  let place: Place = 'outside';
  for (const line of text.replaceAll(WHOLE, REMOVED).split('\n')) {
    if (END.test(line)) {
      if (place === 'outside') removeBack(kept);
      const end = line.replace(END, place === 'outside' ? REMOVED : '');
      if (end !== '') kept.push(end);
      place = 'outside';
    } else if (place === 'inside' && isOfKey(line)) {
      // A key whose last line is missing ends with its first short line.
      if (isLast(line)) place = 'after';
    } else {
      place = BEGIN.test(line) ? 'inside' : 'outside';
      kept.push(line.replace(BEGIN, REMOVED));
    }
  }
  return kept.join('\n');
}

/** `after`: after a line that may be the last one of a key. */
type Place = 'outside' | 'inside' | 'after';

function isOfKey(line: string): boolean {
  return LAST_WORD.test(line) || KEY_HEADER.test(line);
}

function isLast(line: string): boolean {
  return (LAST_WORD.exec(line)?.[1]?.length ?? FULL_LINE) < FULL_LINE;
}

/** Removes the last lines that may belong to a key whose first line is missing. */
function removeBack(lines: string[]): void {
  if (isLast(lines.at(-1) ?? '')) lines.pop();
  while (lines.length > 0 && isOfKey(lines.at(-1) ?? '') && !isLast(lines.at(-1) ?? '')) lines.pop();
}

/**
 * Redacts a file of a report. A JSON document stays valid: each string is checked alone, together
 * with its name.
 */
export function redactedFile(text: string, secrets: readonly string[] = []): string {
  const document = parsed(text);
  if (document === undefined) return redacted(text, secrets);
  return `${JSON.stringify(withoutSecrets(document, secrets))}\n`;
}

function parsed(text: string): object | undefined {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}

/** What is nested deeper is removed. */
const MAX_DEPTH = 64;

function withoutSecrets(value: unknown, secrets: readonly string[], levels = MAX_DEPTH): unknown {
  if (typeof value === 'string') return redacted(value, secrets);
  if (levels === 0) return REMOVED;
  if (Array.isArray(value)) {
    return value.map((one: unknown, index) => {
      const option: unknown = value[index - 1];
      const isArgument = typeof one === 'string' && typeof option === 'string' && isSecretOption(option);
      return isArgument ? REMOVED : withoutSecrets(one, secrets, levels - 1);
    });
  }
  if (typeof value !== 'object' || value === null) return value;
  const { name, key } = value as { name?: unknown; key?: unknown };
  const variable = [name, key].some((one) => typeof one === 'string' && namesSecret(one));
  return Object.fromEntries(
    Object.entries(value).map(([member, one]) => [
      member,
      isSecretScalar(one) && (namesSecret(member) || (variable && member === 'value'))
        ? REMOVED
        : withoutSecrets(one, secrets, levels - 1),
    ]),
  );
}

function isSecretOption(option: string): boolean {
  return option.startsWith('-') && namesSecret(option);
}

function isSecretScalar(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number';
}

/** Words that end the name of a secret: `registry_token`, `aws_secret_access_key`, `DB_PASS`. */
const SECRET_WORD = [
  'passw(?:or)?d',
  'passphrase',
  'passcode',
  '(?<![A-Za-z])pass',
  'pwd(?!=\\/)',
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

/** The end of the name of a secret. */
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

/** A value without quotes ends before the next option or the next `name=` in its line. */
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

/** Commands in which no name and separator precede a secret. A value is a word, or in quotes. */
const COMMANDS = [
  // `docker login -p hush`, `mysql -phush`
  String.raw`(?<start>\b(?:login|mysql\w*|sshpass)\b[^\n|]{0,256}?[ \t]-p(?:[ \t=]+|(?=\S)))(?<value>${QUOTED}|\S+)`,
  // `echo hush | docker login --password-stdin`, and with `<<<`
  String.raw`(?<start>\b(?:echo|printf)[ \t]+)(?<value>[^\n|]{1,512})(?=\|[^\n]{0,256}--password-stdin)`,
  String.raw`(?<start>--password-stdin[^\n]{0,256}<<<[ \t]*)(?<value>${QUOTED}|\S+)`,
  // netrc(5): all fields in one line, or each in its line
  String.raw`(?<start>(?:^[ \t]*|\blogin[ \t]+\S+[ \t]+)(?:password|passwd)[ \t]+)(?<value>${QUOTED}|\S+)`,
  String.raw`(?<start><[\w:.-]{0,64}${SECRET_END}(?:[ \t][^<>]*)?>\s*)(?<value>[^<]+)`,
  // The value is on the next line, unless that line has a name.
  String.raw`(?<start>^[^\n]{0,200}?${SECRET_END}["']?[ \t]*[:=][ \t]*\r?\n[ \t]*)(?<value>(?![-\w."']+[ \t]*(?::(?:[ \t]|$)|=[ \t]*[^\s=]))[^\s|>][^\n]*)`,
].map((pattern) => new RegExp(pattern, 'gim'));

const NAME_OF_SECRET = new RegExp(`^-{0,2}${SECRET_NAME}$`, 'i');

function namesSecret(name: string): boolean {
  return NAME_OF_SECRET.test(name);
}

/**
 * Removes the given secrets, names and passwords in addresses, private keys, tokens, and the values
 * of words that name a secret. A value without quotes ends at the next option, at the next `name=`,
 * or at the end of its line: rather too much is removed than too little.
 *
 * @param secrets known ones; those below 8 characters are ignored
 */
export function redacted(text: string, secrets: readonly string[] = []): string {
  const known = secrets
    .filter((secret) => secret.length >= 8)
    .reduce((redacted, one) => redacted.replaceAll(one, REMOVED), text);
  const plain = withoutBlocks(withoutTokens(withoutLogins(withoutPrivateKeys(known))));
  return [HEADER, VARIABLE, NAMED_IN_QUOTES, NAMED, ...COMMANDS].reduce(withoutValues, plain);
}

/**
 * Values that are no secrets: of switches, of the setting `fleet.auth`, and what begins a list or a
 * block.
 */
const NO_SECRET = /^(?:true|false|null|"?(?:none|kubelet|keys)"?|[{[]|[|>][-+\d]*|<removed>)$/i;

function withoutBlocks(text: string): string {
  return text.replaceAll(BLOCK, (...match: unknown[]) => {
    const { start, indent, value } = match.at(-1) as { start: string; indent: string; value: string };
    return `${start}${indent}  ${REMOVED}${value.endsWith('\n') ? '\n' : ''}`;
  });
}

function withoutValues(text: string, pattern: RegExp): string {
  return text.replaceAll(pattern, (whole: string, ...groups: unknown[]) => {
    const { start, value } = groups.at(-1) as { start: string; value: string };
    return NO_SECRET.test(value.trim()) ? whole : `${start}${removedLike(value)}`;
  });
}

function removedLike(value: string): string {
  const quote = /^\\*["']/.exec(value)?.[0] ?? '';
  return `${quote}${REMOVED}${quote}`;
}

const REMOVED = '<removed>';

/** `-----BEGIN …` in base64. */
const ENCODED_PEM = /\bLS0tLS1CRUdJTi[A-Za-z0-9+/]+={0,2}/g;

/** `bob:hush@proxy:3128`, also without `http://`. It matches no image name. */
const LOGIN_AND_HOST = /(^|[\s="'(,])[^\s:@/"'=(,]{1,128}:(?!\/\/)[^\s"'@]{1,512}@(?!sha\d+:)(?=\w)/gm;
const SIGNED_ADDRESS = /([?&](?:sig|signature|x-amz-[\w-]+|x-goog-[\w-]+)=)[^\s&"']+/gi;

const BEARER = /\b(bearer[ \t]+)(?!realm=|<removed>|(?:tokens?|auth\w*)\b)[^\s"'\\,]+/gi;
const BASIC = /\b(basic[ \t]+)([A-Za-z0-9+/_-]{4,}={0,2})/gi;
const NAME_AND_PASSWORD = /(^|\s)(-u|--user|--proxy-user)([ \t=]+)(?!\d+:\d+(?:\s|$))["']?[^\s:/"']+:[^\s"']+["']?/g;
const WEB_TOKEN = /\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*/g;
/** The token of k3s and RKE2: `K10` and the digest of a certificate, then a name and a password. */
const JOIN_TOKEN = /\bK10[0-9a-f]+::\S+/g;

/**
 * Removes secrets that are known by their form: tokens, private keys in base64, and names and
 * passwords in addresses and headers.
 */
function withoutTokens(text: string): string {
  return text
    .replaceAll(ENCODED_PEM, (pem) => (decoded(pem).includes('PRIVATE KEY') ? REMOVED : pem))
    .replaceAll(LOGIN_AND_HOST, `$1${REMOVED}@`)
    .replaceAll(SIGNED_ADDRESS, `$1${REMOVED}`)
    .replaceAll(JOIN_TOKEN, REMOVED)
    .replaceAll(WEB_TOKEN, REMOVED)
    .replaceAll(BEARER, `$1${REMOVED}`)
    .replaceAll(BASIC, (whole, start: string, value: string) =>
      decoded(value).includes(':') ? `${start}${REMOVED}` : whole,
    )
    .replaceAll(NAME_AND_PASSWORD, `$1$2$3${REMOVED}`);
}

function decoded(base64: string): string {
  return Buffer.from(base64, 'base64').toString('latin1');
}
