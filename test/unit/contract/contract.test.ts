import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { contractFacts } from '../../support/contract.ts';

const FOLDER = 'test/contract/1.0';
/** `npm run contract` adds what is new. It changes and removes nothing. */
const isGrowing = process.env.npm_lifecycle_event === 'contract';

const facts = contractFacts();
const fileOf = (name: string) => `${FOLDER}/${name}.txt`;
const linesIn = (name: string) => readFileSync(fileOf(name), 'utf8').trimEnd().split('\n');

describe('what others build on (docs/compatibility.md)', () => {
  it('has a file for each contract', () => {
    if (isGrowing) for (const name of Object.keys(facts)) writeFileSync(fileOf(name), '', { flag: 'a' });
    expect(readdirSync(FOLDER).sort()).toEqual(
      Object.keys(facts)
        .map((name) => `${name}.txt`)
        .sort(),
    );
  });

  it.each(Object.entries(facts))('%s: all that was promised is there, unchanged', (name, now) => {
    expect(now.length).toBeGreaterThan(1);
    expect(linesIn(name).filter((line) => line !== '' && !now.includes(line))).toEqual([]);
  });

  it.each(Object.entries(facts))('%s: what is new is in its file, by `npm run contract`', (name, now) => {
    const promised = linesIn(name);
    const added = now.filter((line) => !promised.includes(line));
    if (isGrowing && added.length > 0) {
      writeFileSync(fileOf(name), `${[...promised, ...added].filter((line) => line !== '').join('\n')}\n`);
    } else expect(added).toEqual([]);
  });
});
