import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { have, program } from '../../support/requirements.ts';

/** One row of `systemd-analyze security --json`. */
interface Directive {
  readonly name: string;
  readonly set: boolean | null;
  /** Null where it is set, or has no effect on a service of root. */
  readonly exposure: string | null;
}

function analyse(unit: string, ...options: string[]) {
  const path = resolve('systemd', unit);
  return spawnSync('systemd-analyze', ['security', '--offline=true', '--no-pager', ...options, path], {
    encoding: 'utf8',
  });
}

/** What systemd counts as open in a unit of ours. */
function openDirectives(unit: string): string[] {
  const { stdout, stderr, status } = analyse(unit, '--json=short');
  expect(status, stderr).toBe(0);
  const rows: readonly Directive[] = JSON.parse(stdout);
  expect(rows.length).toBeGreaterThan(50);
  return rows.filter(({ set, exposure }) => set === false && exposure !== null).map(({ name }) => name);
}

/** First cells of the table below a heading in docs/security.md. */
function refusedInDocs(heading: string): string[] {
  const sections = readFileSync('docs/security.md', 'utf8').split(/^## /m);
  const section = sections.find((text) => text.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^\| `([^`]+)` \| \S/gm)].map(([, name = '']) => name.replaceAll('\\|', '|'));
}

describe.runIf(have(program('systemd-analyze', 'apt-get install systemd')))('the sandbox', () => {
  it.each([
    ['stickpin.service', 'What is left open'],
    ['stickpin-fleet.service', 'The fleet process'],
    ['stickpin-sources.service', 'The process of the sources'],
    ['stickpin-console.service', 'The process of the console'],
  ])('of %s leaves open what docs/security.md gives a reason for, and nothing else', (unit, heading) => {
    expect(openDirectives(unit).sort()).toEqual(refusedInDocs(heading).sort());
  });

  it.each([
    ['stickpin.service', 15],
    ['stickpin-clear-mirrors.service', 15],
    ['stickpin-fleet.service', 17],
    ['stickpin-sources.service', 14],
    ['stickpin-console.service', 10],
  ])('of %s is rated at most %i tenths', (unit, tenths) => {
    const { status, stdout, stderr } = analyse(unit, `--threshold=${tenths}`);
    expect(status, stdout + stderr).toBe(0);
    // The check can fail: with a limit of zero it does.
    expect(analyse(unit, '--threshold=0').status).not.toBe(0);
  });
});
