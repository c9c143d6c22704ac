import { marked } from 'marked';

/**
 * A manual page (man(7)) made of a Markdown page.
 *
 * @param page `name` and `section` of the manual page; `summary` for its line in `NAME`; `date` as
 *   `YYYY-MM-DD`
 */
export function manualPage(markdown, page) {
  return pageOf([...pageHead(page), '.SH DESCRIPTION', ...bodyOf(markdown).flatMap(block)]);
}

export function bodyOf(markdown) {
  const tokens = marked.lexer(markdown);
  return tokens[0]?.type === 'heading' && tokens[0].depth === 1 ? tokens.slice(1) : tokens;
}

export function pageHead({ name, section, summary, date, source }) {
  return [
    `.TH ${quoted(name.toUpperCase())} ${quoted(section)} ${quoted(date)} ${quoted(source)}`,
    '.SH NAME',
    `${escaped(name)} \\- ${escaped(summary)}`,
  ];
}

export function pageOf(lines) {
  return `${tidied(lines).join('\n')}\n`;
}

/** Longest line of input that `mandoc -T lint` takes without a remark, in bytes. */
const MAX_INPUT_LENGTH = 80;

/** What `mandoc -T lint` asks for: short lines, and no empty paragraph. */
function tidied(lines) {
  let isLiteral = false;
  return lines.flatMap((text, at) => {
    if (/^\.(nf|fi)$/.test(text)) isLiteral = text === '.nf';
    const isEmpty = /^\.S[HS] /.test(lines[at - 1] ?? '') || /^\.(S[HS]|PP|TP|IP)\b/.test(lines[at + 1] ?? '');
    if (text === '.PP' && isEmpty) return [];
    const isText = !isLiteral && !text.startsWith('.') && lines[at - 1] !== '.TP';
    return isText ? wrapped(text) : [text.trimEnd()];
  });
}

/** Words of filled text in lines; none begins like a request. */
function wrapped(text) {
  const lines = [''];
  for (const word of text.split(/\s+/).filter((one) => one !== '')) {
    const longer = lines.at(-1) === '' ? word : `${lines.at(-1)} ${word}`;
    if (longer.length <= MAX_INPUT_LENGTH || lines.at(-1) === '') lines[lines.length - 1] = longer;
    else lines.push(/^[.']/.test(word) ? `\\&${word}` : word);
  }
  return lines;
}

export function block(token) {
  switch (token.type) {
    case 'heading':
      return [`${token.depth <= 2 ? '.SH' : '.SS'} ${quoted(plain(token.tokens))}`];
    case 'paragraph':
      return ['.PP', line(token.tokens)];
    case 'code':
      return ['.PP', '.RS 4', '.nf', ...token.text.split('\n').map(literal), '.fi', '.RE'];
    case 'list':
      return token.items.flatMap((item, at) =>
        listItem(item, token.ordered ? `${Number(token.start) + at}.` : '\\(bu'),
      );
    case 'table':
      return token.rows.flatMap((row) => tableRow(token.header, row));
    case 'blockquote':
      return ['.RS 4', ...token.tokens.flatMap(block), '.RE'];
    // Comments, and lines between blocks.
    case 'html':
    case 'space':
    case 'hr':
      return [];
    default:
      throw new Error(`a manual page can't show Markdown of the kind ${token.type}: ${token.raw}`);
  }
}

function listItem({ tokens }, mark) {
  const [first, ...rest] = tokens.filter(({ type }) => type !== 'space');
  const text = first?.type === 'text' || first?.type === 'paragraph' ? [line(first.tokens)] : block(first);
  return [`.IP ${quoted(mark)} 4`, ...text, ...(rest.length > 0 ? ['.RS 4', ...rest.flatMap(block), '.RE'] : [])];
}

/** The first cell is the term; the others follow with their headings, as a terminal is narrow. */
function tableRow(header, [term, ...cells]) {
  const texts = cells.map(({ tokens }, at) => {
    const title = plain(header[at + 1].tokens);
    return cells.length > 1 && title !== '' ? `${escaped(title)}: ${line(tokens)}` : line(tokens);
  });
  const head = line(term.tokens) || '\\&';
  const below = texts.flatMap((text, at) => (at === 0 ? [text] : ['.br', text]));
  // The term of .TP is one line of input, however long it is.
  return head.length > MAX_INPUT_LENGTH ? ['.PP', head, '.RS 4', ...below, '.RE'] : ['.TP', head, ...below];
}

/** Text in one line of input, so that only what is a request begins with a dot. */
export function line(tokens) {
  const text = inline(tokens)
    .replace(/\s*\n\s*/g, ' ')
    .trim();
  return /^[.']/.test(text) ? `\\&${text}` : text;
}

function inline(tokens = []) {
  return tokens
    .map((token) => {
      switch (token.type) {
        case 'codespan':
          return `\\fB${escaped(token.text)}\\fR`;
        case 'strong':
          return `\\fB${inline(token.tokens)}\\fR`;
        case 'em':
          return `\\fI${inline(token.tokens)}\\fR`;
        case 'br':
          return ' ';
        case 'html':
          return '';
        default:
          return token.tokens === undefined ? escaped(unescapedEntities(token.text)) : inline(token.tokens);
      }
    })
    .join('');
}

function plain(tokens) {
  return inline(tokens).replace(/\\f[BIR]/g, '');
}

export function literal(text) {
  const safe = escaped(text);
  return /^[.']/.test(safe) ? `\\&${safe}` : safe;
}

export function escaped(text) {
  return (
    text
      .replace(/\\/g, '\\e')
      .replace(/-/g, '\\-')
      // A terminal without UTF-8 has no character for it.
      .replace(/…/g, '...')
      .replace(
        /[^\x20-\x7e\n]/gu,
        (character) => `\\[u${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`,
      )
  );
}

function unescapedEntities(text) {
  const characters = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&amp;': '&' };
  return text.replace(/&(?:lt|gt|quot|#39|amp);/g, (entity) => characters[entity]);
}

export function quoted(text) {
  return `"${String(text).replace(/"/g, '\\(dq')}"`;
}
