import { describe, expect, it } from 'vitest';
import { definedProgram } from '../../../src/cli/manual.ts';
import { faultOf, leafCommands } from '../../support/docs/command-lines.ts';
import { runCommand } from '../../support/run-command.ts';

const commands = leafCommands(definedProgram());

describe.each(commands.map(({ path }) => path))('stickpin %s --help', (path) => {
  it('has an example that the program takes, and no default that says nothing', async () => {
    const { exitCode, stdout } = await runCommand([...path.split(' '), '--help']);
    expect(exitCode).toBe(0);
    expect(stdout).not.toContain('(default: [])');
    const [, example = ''] = /\nExample:\n([\s\S]+)$/.exec(stdout) ?? [];
    const words = example
      .replaceAll('\\\n', ' ')
      .trim()
      .replace(/^sudo /, '')
      .split(/\s+/);
    expect(words.slice(0, path.split(' ').length + 1)).toEqual(['stickpin', ...path.split(' ')]);
    expect(faultOf({ line: 0, words: words.slice(1) }, definedProgram())).toBeUndefined();
    for (const line of example.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });
});

describe('stickpin --help', () => {
  it('has every command in a group, one a line, on one screen', async () => {
    const { stdout } = await runCommand(['--help']);
    const names = definedProgram().commands.map((command) => command.name());
    expect(stdout).not.toContain('\nCommands:');
    for (const name of names) expect(stdout).toMatch(new RegExp(`^  ${name} {2,}\\S`, 'm'));
    const lines = stdout.trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(48);
    expect(lines.filter((line) => line.startsWith('   '))).toEqual([]);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  });
});
