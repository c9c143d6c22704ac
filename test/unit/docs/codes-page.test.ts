import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ACTIONS } from '../../../src/domain/report/actions.ts';
import { EXPLANATIONS, type Explanation } from '../../../src/domain/report/explain.ts';

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

/** Whether somebody does something about it. */
const isForPerson = ({ action, next }: Explanation) =>
  action === 'plug-in' || action === 'call-support' || !/^(?:nothing|it is retried|see )/.test(next);

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

function actionTable(): string {
  const all = Object.values(ACTIONS);
  const rows = all
    .filter(({ words }, at) => all.findIndex((one) => one.words === words) === at)
    .map(({ words, asks }) => `| ${words} | ${asks} |`);
  const lights = '| no screen | Look at the lights. *work*: wait. *done*: remove the stick. *fault*: call support. |';
  return ['| first words | what you do |', '| --- | --- |', ...rows, lights].join('\n');
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

  it('docs/technician.md has all first words, and what a technician does', async () => {
    const page = readFileSync(TECHNICIAN, 'utf8');
    await expect(withBlock(page, 'actions', actionTable())).toMatchFileSnapshot(TECHNICIAN);
  });

  it('docs/technician.md has at most 150 words, and one picture', () => {
    const page = readFileSync(TECHNICIAN, 'utf8');
    const [, picture = ''] = /!\[[^\]]*\]\(([^)]*)\)/.exec(page) ?? [];
    expect(readFileSync(`docs/${picture}`, 'utf8')).toMatch(/^<svg /);
    const words = page
      .replace(/<!--[\s\S]*?-->/g, '')
      .replace(/\]\([^)]*\)/g, ' ')
      .match(/[\p{L}\p{N}@'./-]*[\p{L}\p{N}][\p{L}\p{N}@'./-]*/gu);
    expect(words?.length).toBeGreaterThan(60);
    expect(words?.length).toBeLessThanOrEqual(150);
  });
});
