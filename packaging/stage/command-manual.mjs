import { block, bodyOf, escaped, line, literal, pageHead, pageOf, quoted } from './manual.mjs';

/** Headings of docs/cli.md whose text belongs to every page of a command, or to none. */
const EXIT_CODES = 'Exit codes';
const FILES = 'Files and variables';
/** `Flags: `--keys`, `--json`.` A page has its own list of them. */
const FLAGS = /\s+Flags:\s+(?:`--[\w-]+`(?:\s+\([^)]*\))?,\s+)*`--[\w-]+`\.(?=\s)/g;
const LISTS = ['Commands on the node', 'Commands in the factory'];

/**
 * The manual pages of the command line: that of the program, and one for each command. Synopsis,
 * options and examples are from the definitions of the commands, the prose from a Markdown page.
 * That has a heading of the third level for each command. Its tables of flags are left out.
 *
 * @param page `name`, `section`, `summary`, `date` and `source` of the program's own page
 * @param commands as of `manualCommands`, the program itself first
 * @returns the text of each page by its name: `stickpin-bundle-create`
 * @throws Error when a command has no heading
 */
export function commandManuals(markdown, page, [program, ...commands]) {
  const prose = markdown.replace(FLAGS, '');
  const parts = partsOf(bodyOf(prose).filter((token) => !isMadeOfDefinitions(token)));
  const missing = commands.filter(({ path }) => !parts.some((part) => part.depth === 3 && part.title === path));
  if (missing.length > 0) throw new Error(`no heading for the commands ${missing.map(({ path }) => path).join(', ')}`);
  const shared = { page, parts, commands };
  return Object.fromEntries([
    [page.name, programPage(program, shared)],
    ...commands.map((command) => [pageName(page, command), commandPage(command, shared)]),
  ]);
}

/** `stickpin-bundle-create`. */
function pageName({ name }, { path }) {
  return `${name}-${path.replaceAll(' ', '-')}`;
}

/** Headings of the first three levels, each with what follows up to the next one. */
function partsOf(tokens) {
  const parts = [{ depth: 1, title: '', tokens: [] }];
  for (const token of tokens) {
    if (token.type === 'heading' && token.depth <= 3) {
      parts.push({ depth: token.depth, title: token.text, heading: token, tokens: [] });
    } else parts.at(-1).tokens.push(token);
  }
  return parts;
}

function isMadeOfDefinitions({ type, header }) {
  return type === 'table' && ['flag', 'you want to'].includes(header[0]?.text);
}

function programPage(program, { page, parts, commands }) {
  const paths = new Set(commands.map(({ path }) => path));
  const groups = [...new Set(commands.map(({ group }) => group))];
  const others = parts.filter(
    ({ depth, title }) =>
      depth > 1 && !paths.has(title) && title !== EXIT_CODES && title !== FILES && !LISTS.includes(title),
  );
  return pageOf([
    ...pageHead(page),
    '.SH SYNOPSIS',
    ...synopsis(program),
    '.SH DESCRIPTION',
    ...parts[0].tokens.flatMap(block),
    '.SH OPTIONS',
    ...program.options.flatMap(definition),
    '.SH COMMANDS',
    ...groups.flatMap((group) => [
      `.SS ${quoted(escaped(group))}`,
      ...commands
        .filter((command) => command.group === group)
        .flatMap((command) => definition({ ...command, term: `${pageName(page, command)}(1)` })),
    ]),
    ...others.flatMap(({ heading, tokens }) => [...block(heading), ...tokens.flatMap(block)]),
    ...ending(parts, undefined),
    ...seeAlso(OTHER_PAGES),
  ]);
}

const OTHER_PAGES = ['stickpin.toml(5)', 'stickpin-bundle(5)', 'stickpin.service(8)'];

function commandPage(command, { page, parts, commands }) {
  const { path, description, usage, operands, options, example } = command;
  const own = parts.find((part) => part.depth === 3 && part.title === path);
  const name = pageName(page, command);
  const inProse = own.tokens.some(({ raw }) => example !== undefined && raw.includes(example));
  return pageOf([
    ...pageHead({ ...page, name, summary: description }),
    '.SH SYNOPSIS',
    ...synopsis({ usage }),
    '.SH DESCRIPTION',
    ...own.tokens.flatMap((token) =>
      token.type === 'heading' ? [`.SS ${quoted(escaped(token.text))}`] : block(token),
    ),
    ...section('ARGUMENTS', operands),
    ...section('OPTIONS', [...options, HELP]),
    ...(example === undefined || inProse ? [] : ['.SH EXAMPLES', ...block({ type: 'code', text: example })]),
    ...ending(parts, command),
    ...seeAlso(relatedTo(command, own, { page, commands })),
  ]);
}

const HELP = { term: '-h, --help', description: 'display help for command' };

function section(title, terms) {
  return terms.length === 0 ? [] : [`.SH ${title}`, ...terms.flatMap(definition)];
}

/** The exit codes, and the files and variables of `command`, or of all commands. */
function ending(parts, command) {
  const tokensOf = (title) => {
    const part = parts.find((one) => one.title === title);
    if (part === undefined) throw new Error(`no heading ${title}`);
    return part.tokens;
  };
  const [files, variables] = tokensOf(FILES)
    .filter(({ type }) => type === 'table')
    .map((table) => usedRows(table, command));
  return [
    '.SH EXIT STATUS',
    ...tokensOf(EXIT_CODES).flatMap(block),
    ...(files.length === 0 ? [] : ['.SH FILES', ...files]),
    ...(variables.length === 0 ? [] : ['.SH ENVIRONMENT', ...variables]),
  ];
}

/** Rows of a table whose second column says which commands use it. */
function usedRows({ rows }, command) {
  return rows
    .filter(([, users]) => command === undefined || isUsed(users.text, command))
    .flatMap(([term, , what]) => ['.TP', line(term.tokens), line(what.tokens)]);
}

function isUsed(users, { path, group }) {
  if (users.includes('all commands') || users.includes(`\`${path}\``)) return true;
  return users.includes('commands on the node') && !/factory|Others/.test(group);
}

/** The program, its group, and commands that the text names. */
function relatedTo({ path, group }, own, { page, commands }) {
  const text = own.tokens.map(({ raw }) => raw).join('');
  const [first, second] = path.split(' ');
  const others = commands.filter((other) => {
    if (other.path === path) return false;
    const isSibling = second !== undefined && other.path.startsWith(`${first} `);
    return isSibling || text.includes(`\`${other.path}\``) || text.includes(`stickpin ${other.path}`);
  });
  const isFactory = /factory/.test(group);
  const pages = isFactory ? ['stickpin-bundle(5)'] : ['stickpin.toml(5)', 'stickpin.service(8)'];
  return [`${page.name}(1)`, ...others.map((other) => `${pageName(page, other)}(1)`), ...pages];
}

function seeAlso(pages) {
  const names = pages.map((one, at) => {
    const [, name, number] = /^(.+)(\(\d\))$/.exec(one);
    return `.BR ${escaped(name)} ${number}${at === pages.length - 1 ? '' : ' ,'}`;
  });
  return ['.SH SEE ALSO', ...names];
}

function synopsis({ usage }) {
  return ['.nf', literal(usage), '.fi'];
}

function definition({ term, description }) {
  return ['.TP', `\\fB${escaped(term)}\\fR`, sentenceOf(description)];
}

function sentenceOf(text) {
  const sentence = literal(`${text.charAt(0).toUpperCase()}${text.slice(1)}`);
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}
