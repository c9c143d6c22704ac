import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../../../src/domain/model/reason.ts';
import { CODES, knownShortCode, REASONS, shortCode } from '../../../../src/domain/report/codes.ts';
import { EXPLANATIONS, explanationOf } from '../../../../src/domain/report/explain.ts';
import { holdMessage } from '../../../../src/domain/report/hold-text.ts';
import { withShortDigests } from '../../../../src/domain/report/names.ts';
import { HOLDS } from '../../../../src/domain/report/reasons/holds.ts';
import { reasonText } from '../../../../src/domain/report/reasons/reason-text.ts';
import { sentence } from '../../../../src/platform/plain-text.ts';
import { USUAL_HOLDS } from '../../../support/report/every-hold.ts';
import { REASON_SAMPLES } from '../../../support/report/reason-samples.ts';

/** Rooms that answer a command, or that run in the factory. */
const OUTSIDE = /^(cli|factory|doctor|app\/(command-line|doctor|rehearsal))\//;

/** What answers a command alone, runs in the factory alone, or is no code. */
const WITHOUT_CODE = new Set(
  `api/denied api/failed api/starting api/stopping api/unreachable api/unreadable engine/activation-held engine/ambiguous
  engine/no-bundle engine/no-fallback engine/no-fleet engine/no-pause engine/no-release engine/no-unclaimed engine/not-checked engine/not-provable engine/not-ready
  engine/nothing-to-cancel engine/protected engine/reason engine/running engine/withdrawn trust/no-stream
  bundle/passphrase bundle/signer bundle/skopeo bundle/target bundle/tool bundle/warnings`.split(/\s+/),
);

const CODE =
  /'((?:bundle|config|domain|engine|fleet|host|kubernetes|media|offers|platform|registry|runtime|store|trust|api)\/[a-z]+(?:-[a-z]+)*)'/g;

function codesInSource(): readonly string[] {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !OUTSIDE.test(path) && path !== 'domain/report/reasons/faults.ts',
  );
  const found = files.flatMap((path) =>
    [...readFileSync(join('src', path), 'utf8').matchAll(CODE)].map(([, code = '']) => code),
  );
  return [...new Set(found)];
}

describe('short codes', () => {
  it('are sorted and unique, and so are the codes behind them', () => {
    const order = 'MBKRDSCAFH';
    const weight = ({ short }: { readonly short: string }) =>
      order.indexOf(short.charAt(0)) * 100 + Number(short.slice(2));
    expect(CODES.map(weight)).toEqual([...new Set(CODES.map(weight))].sort((a, b) => a - b));
    expect(new Set(CODES.map(({ code }) => code)).size).toBe(CODES.length);
    expect(CODES.filter(({ short }) => !/^[MBKRDSCAFH]-\d\d$/.test(short))).toEqual([]);
  });

  it('exist for every reason and every hold', () => {
    const all = [...Object.keys(REASONS), ...Object.keys(HOLDS)];
    expect(all.filter((code) => knownShortCode(code) === undefined)).toEqual([]);
  });

  it('exist for every error that the daemon can show, so that nothing is S-00', () => {
    const codes = codesInSource();
    expect(codes.length).toBeGreaterThan(120);
    expect(codes.filter((code) => knownShortCode(code) === undefined && !WITHOUT_CODE.has(code))).toEqual([]);
    expect(shortCode('no/such')).toBe('S-00');
  });
});

describe('the explanation of a code', () => {
  it('is found by its short code in any spelling, and by the reason', () => {
    for (const name of ['M-12', 'm12', 'M12', 'm-12', 'engine/needs-copy'])
      expect(explanationOf(name)).toMatchObject({ code: 'M-12', reason: 'engine/needs-copy', action: 'plug-in' });
    for (const name of ['', 'M', 'M-99', 'engine', '12']) expect(explanationOf(name)).toBeUndefined();
  });

  it('has the examples of src/domain/report/examples.ts, which `npm run golden` writes', async () => {
    const holds = USUAL_HOLDS.map(({ code, hold }) => [code, `It is not activated: ${holdMessage(hold)}`] as const);
    const reasons = Object.entries(REASON_SAMPLES).map(
      ([code, [data]]) => [code, reasonText({ code, data } as Reason)] as const,
    );
    const texts = new Map([...holds.toReversed(), ...reasons]);
    const rows = CODES.flatMap(({ short, code }) => {
      const text = texts.get(code);
      return text === undefined ? [] : [`  '${short}': ${JSON.stringify(sentence(withShortDigests(text)))},\n`];
    });
    const head =
      '/** A message of each reason and hold, made from the samples of the tests. */\n// biome-ignore format: one code a line\n';
    const source = `${head}export const EXAMPLES: Readonly<Record<string, string>> = {\n${rows.join('')}};\n`;
    await expect(source).toMatchFileSnapshot('../../../../src/domain/report/examples.ts');
  });

  it('says what it means and what to do, in one short sentence each', () => {
    for (const { code, means, next, words } of EXPLANATIONS) {
      expect(means, code).toMatch(/^\S.{10,100}[^.]$/);
      expect(next, code).toMatch(/^\S.{6,}[^.]$/);
      expect(words, code).toMatch(/^[A-Z ]+$/);
    }
  });
});
