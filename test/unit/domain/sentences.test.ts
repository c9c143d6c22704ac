import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const DOMAIN = 'src/domain';

/** Sentences belong there: report/ makes them, settings/ describes each setting. */
const WITH_SENTENCES = /^(report|settings)\//;

/** Three words in a row; what a template fills in counts as a word. */
const THREE_WORDS = /[\p{L}\p{N}'"’]+[,:;.)]* ['"(]?\p{L}[\p{L}\p{N}'’]*[,:;.)]* ['"(]?\p{L}/u;

/**
 * The texts of a source file that read as a sentence, with their lines. Not those of errors: they
 * are thrown with a message for whoever catches them (`throw …`, `new AppError(…)`), and not the
 * descriptions of members of a schema (`is(…)`, `maybe(…)`).
 */
function sentencesIn(file: string, source: string): string[] {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isThrowStatement(node) || ts.isNewExpression(node) || ts.isImportDeclaration(node)) return;
    if (ts.isCallExpression(node) && ['is', 'maybe'].includes(node.expression.getText())) return;
    const text = textOf(node);
    if (text !== undefined && THREE_WORDS.test(text)) {
      found.push(`${file}:${tree.getLineAndCharacterOfPosition(node.getStart()).line + 1}: ${text}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}

function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  return node.head.text + node.templateSpans.map(({ literal }) => `value${literal.text}`).join('');
}

it('are made in report/ only: other folders of the domain have no text with three words in a row', () => {
  const files = readdirSync(DOMAIN, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !WITH_SENTENCES.test(path))
    .map((path) => join(DOMAIN, path));
  expect(files.length).toBeGreaterThan(50);
  expect(files.flatMap((file) => sentencesIn(file, readFileSync(file, 'utf8')))).toEqual([]);
});

it.each([
  ["const reason = { message: 'its images are missing' };", true],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: source that holds a template
  ['const message = `${count} of ${total} images`;', true],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: source that holds a template
  ["const title = `${name} ${version}`; const code = 'engine/no-space';", false],
  ["throw new RangeError('not a digest at all');", false],
  ["const percent = maybe(v.number(), 'Share of its images that is loaded');", false],
])('are found in %s: %s', (source, isFound) => {
  expect(sentencesIn('x.ts', source).length > 0).toBe(isFound);
});
