import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mutants from './mutants.json' with { type: 'json' };

/** A fault that somebody could make in the product, and the tests that must notice it. */
interface Mutant {
  readonly room: string;
  /** What goes wrong, as a user would see it. */
  readonly behaviour: string;
  /** Occurs once in all of `src`, so that the fault follows its code when that moves. */
  readonly find: string;
  readonly replace: string;
  /** What the paths of the tests begin with. One of the tests must fail. */
  readonly tests: readonly string[];
}

/**
 * `npm run mutants [-- WORD...]`: makes one fault at a time, in memory, and runs its tests. With
 * words, only the faults whose room or behaviour has one of them. Fails when a fault is noticed by
 * no test.
 */
const words = process.argv.slice(2);
const chosen = mutants.filter(
  ({ room, behaviour }) => words.length === 0 || words.some((word) => room === word || behaviour.includes(word)),
);
const folder = mkdtempSync(join(tmpdir(), 'stickpin-mutants-'));
const survivors = chosen.filter((mutant) => {
  const { verdict, isNoticed } = judge(mutant);
  process.stdout.write(`${verdict}  ${mutant.room}: ${mutant.behaviour}\n`);
  return !isNoticed;
});
rmSync(folder, { recursive: true });
process.stdout.write(`${chosen.length - survivors.length} of ${chosen.length} faults noticed\n`);
process.exitCode = survivors.length === 0 && chosen.length > 0 ? 0 : 1;

/** A run counts by its results alone: one that could not begin has noticed nothing. */
function judge({ find, replace, tests }: Mutant): { readonly verdict: string; readonly isNoticed: boolean } {
  const results = join(folder, 'results.json');
  rmSync(results, { force: true });
  const args = ['run', '--config', 'test/mutants/vitest.config.ts', '--bail=1', '--reporter=json'];
  spawnSync('vitest', [...args, `--outputFile=${results}`, ...tests], {
    env: { ...process.env, STICKPIN_MUTANT: JSON.stringify({ find, replace }) },
    stdio: 'ignore',
    timeout: 15 * 60_000,
  });
  const failed = failedTests(results);
  return { verdict: failed === undefined ? 'NO RUN' : failed > 0 ? 'noticed' : 'MISSED', isNoticed: (failed ?? 0) > 0 };
}

function failedTests(results: string): number | undefined {
  try {
    const report = JSON.parse(readFileSync(results, 'utf8')) as { numFailedTests: number; numPassedTests: number };
    return report.numFailedTests + report.numPassedTests === 0 ? undefined : report.numFailedTests;
  } catch {
    return undefined;
  }
}
