import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { completionFiles } from '../../../src/cli/completion.ts';
import { definedProgram } from '../../../src/cli/manual.ts';
import { flagsOf, leafCommands } from '../../support/docs/command-lines.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

const folder = folderForAll();
const run = (program: string, args: readonly string[], input = '') =>
  execFileSync(program, args, {
    input,
    cwd: join(folder, 'empty'),
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` },
  });

/** In place of the program, which prints what `status.json` has. */
const NAMES_ONLY = `#!/bin/sh
case "$*" in
  'completion --names releases') printf '%s\\n' ocp@4.13.6 shop@1.0.0-rev2 ;;
  'completion --names streams') printf '%s\\n' ocp shop ;;
  *) echo "got <$*>" ;;
esac
`;

/** What each shell must offer for the last word of a command line. */
const CASES = [
  ['stickpin stat', ['status']],
  ['stickpin tru', ['trust']],
  ['stickpin bundle cre', ['create']],
  ['stickpin bundle write x --filesystem v', ['vfat']],
  ['stickpin bundle verify --th', ['--threshold']],
  ['stickpin completion z', ['zsh']],
  ['stickpin activate oc', ['ocp@4.13.6']],
  ['stickpin fleet wait sh', ['shop@1.0.0-rev2']],
  ['stickpin trust reset sh', ['shop']],
  ['stickpin explain K-01', ['K-01']],
  ['stickpin wait oc', ['ocp@4.13.6']],
] as const;

beforeAll(() => {
  mkdirSync(join(folder, 'empty'));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/stickpin'), NAMES_ONLY);
  chmodSync(join(folder, 'bin/stickpin'), 0o755);
  for (const [name, text] of Object.entries(completionFiles(definedProgram()))) writeFileSync(join(folder, name), text);
});

describe('completion in bash', () => {
  /** As readline calls it for the last word of `line`. */
  function offered(line: string): string[] {
    const script = `set -u; source "$1"; COMP_WORDS=($2); [[ $2 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMP_LINE=$2; COMP_POINT=\${#2}; COMPREPLY=()
      _stickpin stickpin; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const out = run('bash', ['--noprofile', '--norc', '-c', script, 'bash', join(folder, 'stickpin.bash'), line]);
    return out.split('\n').filter((word) => word !== '');
  }

  it.each(CASES)('offers for %j', (line, words) => {
    expect(offered(line)).toEqual(words);
  });

  it.each(leafCommands(definedProgram()).map(({ path, command }) => [path, command] as const))(
    'offers each flag of stickpin %s, and nothing else',
    (path, command) => {
      expect(offered(`stickpin ${path} -`).sort()).toEqual([...flagsOf(command)].sort());
    },
  );

  it('offers the commands of a group, and leaves files to the shell', () => {
    expect(offered('stickpin config ')).toEqual(['check', 'show']);
    expect(offered('stickpin bundle create --key ')).toEqual([]);
    expect(offered('stickpin bundle verify ')).toEqual([]);
  });

  it.each(['ocp@4.', 'oc', 'ocp@', '"ocp@4'])('completes the name %s at a real prompt', (name) => {
    const typed = [`source ${join(folder, 'stickpin.bash')}`, `stickpin activate ${name}\t`, 'exit', ''].join('\n');
    const shell = 'bash --norc --noprofile -i';
    expect(run('script', ['-qec', shell, '/dev/null'], typed)).toContain('got <activate ocp@4.13.6>');
  });
});

describe.runIf(have('fish'))('completion in fish', () => {
  const offered = (line: string) =>
    run('fish', [
      '--no-config',
      '-c',
      'source $argv[1]; complete --do-complete $argv[2]',
      join(folder, 'stickpin.fish'),
      line,
    ])
      .split('\n')
      .filter((shown) => shown !== '')
      .map((shown) => shown.split('\t')[0]);

  it.each(CASES)('offers for %j', (line, words) => {
    expect(offered(line)).toEqual(words);
  });
});

describe.runIf(have('zsh'))('completion in zsh', () => {
  /** Types `line` and a tab into a real zsh, and resolves to the line when it is complete. */
  const typed = (line: string, completed: string) =>
    run('zsh', [
      '-f',
      '-c',
      `zmodload zsh/zpty
      zpty z zsh -f -i
      zpty -w z "PS1=; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -D; zle -V ''; print REA''DY"
      zpty -r z out '*READY*'
      zpty -w -n z "$2"$'\\t'
      zpty -r z out "*$3*"
      print -r -- "$out"
      zpty -d z`,
      'zsh',
      folder,
      line,
      completed,
    ]);

  it.each(CASES)('completes %j', (line, [word]) => {
    const completed = line.replace(/\S+$/, word);
    expect(typed(line, completed)).toContain(completed);
  });
});
