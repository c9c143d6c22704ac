import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../../src/domain/model/reason.ts';
import { ACTIONS } from '../../../src/domain/report/actions.ts';
import { EXPLANATIONS, type Explanation } from '../../../src/domain/report/explain.ts';
import { doesAboutHold } from '../../../src/domain/report/hold-text.ts';
import { doesFor } from '../../../src/domain/report/reasons/reason-text.ts';
import { EVERY_HOLD } from '../../support/report/every-hold.ts';
import { REASON_SAMPLES } from '../../support/report/reason-samples.ts';

const OPERATE = `${process.cwd()}/docs/operate.md`;
const TECHNICIAN = `${process.cwd()}/docs/technician.md`;

const SUBJECTS = {
  M: 'The stick',
  B: 'The bundle',
  K: 'Keys and trust',
  R: 'The container runtime',
  D: 'Disk space',
  S: 'State of the daemon',
  C: 'Settings',
  A: 'Activation',
  F: 'Other nodes',
  H: 'Hooks and units',
};

const isForPerson = ({ action }: Explanation) => action === 'plug-in' || action === 'call-support';

/** Commands and paths as code. */
const shown = (text: string) =>
  text.replace(/(?<=^|[\s(])'([^']+)'/g, '`$1`').replace(/(?<=^|\s)(\/[a-z][\w./-]+|docs\/\w+\.md)/g, '`$1`');

function codeTables(): string {
  return Object.entries(SUBJECTS)
    .map(([letter, title]) => {
      const rows = EXPLANATIONS.filter((one) => one.code.startsWith(letter) && isForPerson(one)).map(
        ({ code, means, next }) => `| \`${code}\` | ${shown(means)} | ${shown(next)} |`,
      );
      return [`${title}:`, '', '| code | what it means | what to do |', '| --- | --- | --- |', ...rows].join('\n');
    })
    .join('\n\n');
}

/** What each code says with some of its data. */
const SAID = new Set([
  ...Object.entries(REASON_SAMPLES).flatMap(([code, samples]) =>
    samples.map((data) => `${code} ${ACTIONS[doesFor({ code, data } as Reason)].words}`),
  ),
  ...EVERY_HOLD.map(({ code, hold }) => `${code} ${ACTIONS[doesAboutHold(hold)].words}`),
]);

function actionTable(): string {
  const codesOf = (words: string) =>
    EXPLANATIONS.filter(
      (one) => words.startsWith('PLUG IN') && (one.words === words || SAID.has(`${one.reason} ${words}`)),
    )
      .map(({ code }) => code)
      .join(' ');
  const all = Object.values(ACTIONS);
  const rows = all
    .filter(({ words }, at) => all.findIndex((one) => one.words === words) === at)
    .map(({ words, asks }) => `| ${words} | ${asks} | ${codesOf(words)} |`);
  return ['| first words | what you do | codes |', '| --- | --- | --- |', ...rows].join('\n');
}

function withBlock(page: string, name: string, block: string): string {
  return page.replace(new RegExp(`(<!-- ${name}:[^>]*-->\n)[\\s\\S]*?(<!-- /${name} -->)`), (_, head, end) =>
    [head, block, '\n', end].join(''),
  );
}

describe('the codes in the documentation', () => {
  it('docs/operate.md has every code that needs a person, sorted', async () => {
    const page = readFileSync(OPERATE, 'utf8');
    await expect(withBlock(page, 'codes', codeTables())).toMatchFileSnapshot(OPERATE);
  });

  it('docs/technician.md has all first words, with the codes for which a technician acts', async () => {
    const page = readFileSync(TECHNICIAN, 'utf8');
    await expect(withBlock(page, 'actions', actionTable())).toMatchFileSnapshot(TECHNICIAN);
  });

  it('docs/technician.md has at most 150 words beside the codes, and one picture', () => {
    const page = readFileSync(TECHNICIAN, 'utf8');
    const [, picture = ''] = /!\[[^\]]*\]\(([^)]*)\)/.exec(page) ?? [];
    expect(readFileSync(`docs/${picture}`, 'utf8')).toMatch(/^<svg /);
    const words = page
      .replace(/<!--[\s\S]*?-->/g, '')
      .replace(/\]\([^)]*\)|\b[A-Z]-\d\d\b/g, ' ')
      .match(/[\p{L}\p{N}@'./-]*[\p{L}\p{N}][\p{L}\p{N}@'./-]*/gu);
    expect(words?.length).toBeGreaterThan(60);
    expect(words?.length).toBeLessThanOrEqual(150);
  });
});
