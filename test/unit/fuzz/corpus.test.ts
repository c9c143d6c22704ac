import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { targets } from '../../fuzz/targets.ts';

const CORPUS = 'test/fuzz/corpus';
const MOST_BYTES = 300 * 1024;

const inputsOf = (target: string) =>
  readdirSync(join(CORPUS, target)).map((name) => ({ name, bytes: readFileSync(join(CORPUS, target, name)) }));

it('the corpus has a folder for each target, and is small', () => {
  expect(readdirSync(CORPUS).sort()).toEqual([...targets.keys()].sort());
  const sizes = [...targets.keys()].flatMap((target) => inputsOf(target).map(({ bytes }) => bytes.length));
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(MOST_BYTES);
});

describe('each input of the corpus is read or refused by', () => {
  it.each([...targets])('%s', async (target, run) => {
    const inputs = inputsOf(target);
    expect(inputs).not.toEqual([]);
    for (const { name, bytes } of inputs) {
      await expect((async () => run(bytes))(), `test/fuzz/corpus/${target}/${name}`).resolves.toBeUndefined();
    }
  });
});
