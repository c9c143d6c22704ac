import { describe, expect, it } from 'vitest';
import { definedProgram, manualCommands } from '../../../../src/cli/manual.ts';
import { leafCommands } from '../../../support/docs/command-lines.ts';

const [program, ...commands] = manualCommands(definedProgram());

describe('what the manual page shows of the commands', () => {
  it('begins with the program and its own flags', () => {
    expect(program).toEqual({
      path: '',
      group: '',
      usage: 'stickpin [options] [command]',
      description: 'Upgrades Kubernetes nodes from a USB stick, without a registry.',
      operands: [],
      options: [
        { term: '-V, --version', description: 'output the version number' },
        { term: '-h, --help', description: 'display help for command' },
      ],
    });
  });

  it('has every command that can be run, with all its flags and an example', () => {
    const defined = leafCommands(definedProgram());
    expect(commands.map(({ path }) => path)).toEqual(defined.map(({ path }) => path));
    for (const [at, { command }] of defined.entries()) {
      expect(commands[at]?.options.map(({ term }) => term)).toEqual(command.options.map(({ flags }) => flags));
      expect(commands[at]?.example).toMatch(/^(sudo )?stickpin /);
    }
  });

  it('has usage, arguments and defaults of a command', () => {
    expect(commands.find(({ path }) => path === 'show')).toMatchObject({
      group: 'See what happens',
      usage: 'stickpin show [options] <bundle>',
      operands: [{ term: 'bundle', description: expect.stringContaining('the digest of the bundle') }],
      options: expect.arrayContaining([
        { term: '--pool <name>', description: 'machine config pool of --pinned-image-set (default: "worker")' },
      ]),
    });
  });
});
