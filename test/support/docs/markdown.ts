/** One line of a Markdown file that is prose: no table, no code block, no comment. */
export interface ProseLine {
  /** 1-based. */
  readonly line: number;
  readonly text: string;
}

/** A code span, or one line of a code block with its continuation lines. */
export interface CodeText {
  /** 1-based. */
  readonly line: number;
  readonly text: string;
  readonly isBlock: boolean;
}

/** A link `[text](target)`. */
export interface Link {
  /** 1-based. */
  readonly line: number;
  readonly target: string;
}

/** What the checks of the documentation look at in one Markdown file. */
export interface Markdown {
  readonly prose: readonly ProseLine[];
  readonly code: readonly CodeText[];
  readonly links: readonly Link[];
  /** Anchors of the headings, as GitHub makes them. */
  readonly anchors: ReadonlySet<string>;
}

/** Parses what the checks need of `text`; it is not a complete Markdown parser. */
export function parseMarkdown(text: string): Markdown {
  const { prose, tables, blocks } = splitLines(text);
  const spans = [...spansOf(paragraphsOf(prose)), ...spansOf(tables)];
  const links = [...prose, ...tables].flatMap(({ line, text }) =>
    [...text.replaceAll(/`[^`]*`/g, '').matchAll(/\]\(([^()\s]+)\)/g)].map(([, target = '']) => ({ line, target })),
  );
  const anchors = new Set(prose.flatMap(({ text }) => anchorOf(text)));
  return { prose, code: [...spans, ...blocks], links, anchors };
}

interface Split {
  readonly prose: ProseLine[];
  readonly tables: ProseLine[];
  readonly blocks: CodeText[];
}

function splitLines(text: string): Split {
  const split: Split = { prose: [], tables: [], blocks: [] };
  let isCode = false;
  let isContinued = false;
  for (const [at, content] of text.split('\n').entries()) {
    const line = at + 1;
    if (/^\s*```/.test(content)) isCode = !isCode;
    else if (isCode) {
      const before = isContinued ? split.blocks.pop() : undefined;
      split.blocks.push({
        line: before?.line ?? line,
        text: `${before?.text.replace(/\\$/, '') ?? ''}${content}`,
        isBlock: true,
      });
      isContinued = content.endsWith('\\');
    } else if (/^\s*\|/.test(content)) split.tables.push({ line, text: content });
    else if (!content.startsWith('<!--')) split.prose.push({ line, text: content });
  }
  return split;
}

/** Joins the lines of each paragraph, since a code span may be broken over two of them. */
function paragraphsOf(lines: readonly ProseLine[]): ProseLine[] {
  const paragraphs: ProseLine[] = [];
  let end = -1;
  for (const { line, text } of lines) {
    const last = paragraphs.at(-1);
    const goesOn = last !== undefined && line === end + 1 && text.trim() !== '' && !/^\s*([-*]|\d+\.|#+)\s/.test(text);
    if (goesOn) paragraphs[paragraphs.length - 1] = { line: last.line, text: `${last.text} ${text.trim()}` };
    else paragraphs.push({ line, text });
    end = text.trim() === '' ? -1 : line;
  }
  return paragraphs;
}

function spansOf(lines: readonly ProseLine[]): CodeText[] {
  return lines.flatMap(({ line, text }) =>
    [...text.matchAll(/`([^`]+)`/g)].map(([, span = '']) => ({ line, text: span, isBlock: false })),
  );
}

/** The anchor of a heading: lower case, without punctuation, hyphens in place of blanks. */
function anchorOf(text: string): string[] {
  const [, title] = /^#{1,6} (.+)$/.exec(text) ?? [];
  if (title === undefined) return [];
  const plain = title.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '');
  return [plain.trim().replaceAll(/\s/g, '-')];
}
