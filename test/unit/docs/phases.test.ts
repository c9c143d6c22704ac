import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { PHASES } from '../../../src/domain/model/condition.ts';
import { PHASE_MEANINGS } from '../../../src/domain/report/texts/release-text.ts';

/** The section of the documentation that is made from the table of phases. */
function renderPhases(): string {
  const rows = PHASES.map(({ phase }) => `| \`${phase}\` | ${PHASE_MEANINGS[phase]} |`);
  const arrows = PHASES.flatMap(({ phase, next }) => next.map((follower) => `    ${phase} --> ${follower}`));
  return [
    '| phase | meaning |',
    '| --- | --- |',
    ...rows,
    '',
    '```mermaid',
    'stateDiagram-v2',
    '    [*] --> detected',
    ...arrows,
    '```',
  ].join('\n');
}

it('docs/architecture.md shows the phases and their diagram as the table has them', () => {
  const text = readFileSync('docs/architecture.md', 'utf8');
  const [, between] = /<!-- phases:[^>]*-->\n([\s\S]*?)\n<!-- \/phases -->/.exec(text) ?? [];
  expect(between).toBe(renderPhases());
});
