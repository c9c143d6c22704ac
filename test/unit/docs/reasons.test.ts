import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { WHOLE } from '../../../src/domain/report/fitted.ts';
import { briefHold } from '../../../src/domain/report/hold-text.ts';
import { REASONS, remedyFor } from '../../../src/domain/report/reasons/reason-text.ts';
import { USUAL_HOLDS } from '../../support/report/every-hold.ts';
import { REASON_SAMPLES } from '../../support/report/reason-samples.ts';

const PAGE = `${process.cwd()}/docs/operate.md`;

function tableOf(examples: readonly (readonly [string, string])[]): string {
  const rows = [...new Set(examples.map(([code]) => code))].map((code) => {
    const whats = examples.filter(([other]) => other === code).map(([, what]) => what);
    const different = whats.filter((what, at) => at === whats.findIndex((one) => wordsOf(one) === wordsOf(what)));
    const remedy = remedyFor(code, 'NAME@VERSION') ?? 'nothing: it ends automatically';
    const shown = remedy.replace(/(?<=^|[\s(])'([^']+)'/g, '`$1`');
    return `| ${different.map((what) => `*${what}*`).join('<br>')} | \`${code}\` | ${shown} |`;
  });
  return ['| STATUS, for example | code | what to do |', '| --- | --- | --- |', ...rows].join('\n');
}

/** Without what differs from node to node. */
function wordsOf(what: string): string {
  return what.replace(/\S*\d\S*| (is|are)(?= |$)/g, '');
}

function withTable(page: string, name: string, table: string): string {
  return page.replace(new RegExp(`(<!-- ${name}:[^>]*-->\n)[\\s\\S]*?(<!-- /${name} -->)`), (_, head, end) =>
    [head, table, '\n', end].join(''),
  );
}

it('docs/operate.md shows every reason and every hold with what to do', async () => {
  const reasons = Object.entries(REASON_SAMPLES).flatMap(([code, samples]) => {
    const { says } = REASONS[code as keyof typeof REASONS];
    return samples.map((data) => [code, says(data as never, WHOLE).what] as const);
  });
  const usual = USUAL_HOLDS.filter(({ hold }) => !/x{20}|e\+300/.test(JSON.stringify(hold.data)));
  const holds = usual.map(({ code, hold }) => [code, briefHold(hold)] as const);
  const page = withTable(readFileSync(PAGE, 'utf8'), 'reasons', tableOf(reasons));
  await expect(withTable(page, 'holds', tableOf(holds))).toMatchFileSnapshot(PAGE);
});
