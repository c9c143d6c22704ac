import { describe, expect, it } from 'vitest';
import { completionOf } from '../../../../../src/cli/completion.ts';
import type { CommandAdapters } from '../../../../../src/cli/context/command-adapters.ts';
import { definedProgram } from '../../../../../src/cli/manual.ts';
import { sampleReport } from '../../../../support/bus/fake-backend.ts';
import { ended } from '../../../../support/matching.ts';
import { runCommand } from '../../../../support/run-command.ts';

const report = sampleReport();
const [bundle] = report.bundles;
const namesOf = async (which: string, bundles: unknown) => {
  const stored = { report: { ...report, bundles, notices: [], rejectedNames: [] } };
  const adapters = { storedState: { report: async () => stored } } as unknown as CommandAdapters;
  return (await runCommand(['completion', '--names', which], { adapters })).stdout;
};

describe('stickpin completion', () => {
  it.each(['bash', 'zsh', 'fish'] as const)('prints what the packages install for %s', async (shell) => {
    const { exitCode, stdout } = await runCommand(['completion', shell]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: completionOf(shell, definedProgram()) });
  });

  it('prints releases and streams once each, and only names that no shell reads as anything else', async () => {
    const bundles = [
      { ...bundle, name: 'ocp', version: '4.13.6' },
      { ...bundle, name: 'ocp', version: '4.13.6' },
      { ...bundle, name: '', version: '' },
      { ...bundle, name: '$(reboot)', version: '1' },
      { ...bundle, name: 'a b', version: '1\u001b[31m' },
      { ...bundle, name: 'x'.repeat(300), version: '1' },
    ];
    expect(await namesOf('releases', bundles)).toBe('ocp@4.13.6\n');
    expect(await namesOf('streams', bundles)).toBe('ocp\n');
    const many = Array.from({ length: 500 }, (_, at) => ({ ...bundle, name: 'ocp', version: `1.${at}.0` }));
    expect((await namesOf('releases', many)).split('\n')).toHaveLength(201);
  });

  it('prints nothing where the daemon has written nothing', async () => {
    const adapters = { storedState: { report: async () => undefined } } as unknown as CommandAdapters;
    expect(await runCommand(['completion', '--names', 'releases'], { adapters })).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: '',
    });
  });

  it('refuses no shell, a shell with --names, and another shell', async () => {
    expect(await runCommand(['completion'])).toMatchObject(ended(2, 'give a shell (bash, zsh, fish)'));
    const both = await runCommand(['completion', 'bash', '--names', 'streams']);
    expect(both).toMatchObject(ended(2, 'give a shell or --names, not both'));
    expect(await runCommand(['completion', 'tcsh'])).toMatchObject(ended(2, 'Allowed choices are bash, zsh, fish'));
  });
});
