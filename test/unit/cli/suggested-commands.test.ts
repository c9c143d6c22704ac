import { readFileSync } from 'node:fs';
import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../../src/domain/model/reason.ts';
import { EXPLANATIONS } from '../../../src/domain/report/explain.ts';
import { statusText } from '../../../src/domain/report/line.ts';
import { withShortDigests } from '../../../src/domain/report/names.ts';
import { reasonLine, reasonText } from '../../../src/domain/report/reasons/reason-text.ts';
import { EVERY_REASON } from '../../support/report/every-reason.ts';
import { suggestionFaults } from '../../support/report/suggested-commands.ts';

const GOLDEN = ['every-code', 'status-lines'].map((name) => `test/unit/domain/report/golden/${name}.txt`);

describe('each command of stickpin that a text suggests is one that the program takes, in', () => {
  it.each(['systemd/stickpin.catalog', ...GOLDEN])('%s', async (path) => {
    expect(await suggestionFaults(readFileSync(path, 'utf8').replaceAll(/(?<!\n)\n(?!\n)/g, ' '))).toEqual([]);
  });

  it('the explanation of each code', async () => {
    const texts = EXPLANATIONS.flatMap(({ means, next, example = '' }) => [means, next, example]);
    expect(await suggestionFaults(texts.join('\n'))).toEqual([]);
  });

  it('the message of each reason, and what people see of it', async () => {
    const texts = Object.entries(EVERY_REASON).flatMap(([code, { data }]: [string, { data: Arbitrary<unknown> }]) =>
      fc.sample(data, { numRuns: 20, seed: 1 }).flatMap((one) => {
        const reason = { code, data: one } as Reason;
        return [reasonText(reason), withShortDigests(reasonText(reason)), statusText(reasonLine(reason))];
      }),
    );
    expect(await suggestionFaults(texts.join('\n'))).toEqual([]);
  });
});

it('a text with a command that the program does not take has a fault', async () => {
  const wrong = [
    'stickpin eject x',
    'stickpin activate a@1 b@1',
    'stickpin show ocp --al',
    'stickpin unpin sha256:12…',
  ];
  const text = wrong.map((command) => `Run '${command}'.`).join(' ');
  expect((await suggestionFaults(text)).map((fault) => fault.split(':')[0])).toEqual(
    wrong.map((one) => one.split(':')[0]),
  );
});
