import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { unitNameOfPath } from '../../../src/media/device/device.ts';
import { have, program } from '../../support/requirements.ts';

describe.runIf(have(program('systemd-escape', 'apt-get install systemd')))('unit names', () => {
  const part = fc.string({ minLength: 1, maxLength: 12, unit: 'binary' }).filter((text) => isPathPart(text));
  const path = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join('/')}`);

  it('are those of systemd-escape', () => {
    fc.assert(
      fc.property(fc.array(path, { minLength: 20, maxLength: 20 }), (paths) => {
        const output = execFileSync('systemd-escape', ['--path', '--suffix=mount', '--', ...paths], {
          encoding: 'utf8',
        });
        expect(paths.map((each) => unitNameOfPath(each, 'mount'))).toEqual(output.trim().split(' '));
      }),
      { numRuns: 30 },
    );
  });
});

/**
 * What may stand between two slashes, and what systemd-escape takes for a path: no `..`, nothing
 * that UTF-8 can't write.
 */
function isPathPart(text: string): boolean {
  return !/[/\0]/.test(text) && text !== '.' && text !== '..' && Buffer.from(text).toString() === text;
}
