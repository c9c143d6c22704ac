import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { have, program, programPath } from '../../support/requirements.ts';

const unicorn = { name: 'unicorn', isMet: () => false, remedy: 'apt-get install unicorn' };
const ghost = program('no-such-program-9', 'apt-get install ghost');

describe('requirements of integration tests', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  it('are met by what is there', () => {
    vi.stubEnv('CI', 'true');
    expect(have(program('sh', 'apt-get install dash'))).toBe(true);
    expect(programPath('sh')).toMatch(/\/sh$/);
  });

  it('are named in one line with what to do, and skip the tests', () => {
    vi.stubEnv('CI', '');
    const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    expect(have(unicorn, program('sh', 'apt-get install dash'), ghost)).toBe(false);
    expect(written.mock.calls).toEqual([
      [
        'The tests need what this machine lacks: unicorn (apt-get install unicorn), no-such-program-9 (apt-get install ghost); skipped\n',
      ],
    ]);
  });

  it('are an error under CI=true', () => {
    vi.stubEnv('CI', 'true');
    expect(() => have(unicorn)).toThrow('lacks: unicorn (apt-get install unicorn)');
  });

  it('bring the programs that a test can run; it finds no other one than those of every Debian', () => {
    vi.stubEnv('CI', '');
    vi.stubEnv('PATH', process.env.PATH);
    const runs = (name: string) => spawnSync(name, ['--version']).error === undefined;
    expect(['sh', 'tar', 'mount', 'node'].map(runs)).toEqual([true, true, true, true]);
    for (const name of ['openssl', 'ip', 'iptables', 'skopeo', 'git']) {
      expect(runs(name), `${name} without have()`).toBe(process.env.STICKPIN_TEST_PROGRAMS === undefined);
      expect(have(program(name, '')), name).toBe(runs(name));
    }
  });

  it('are not passed by with a path', () => {
    const files = execFileSync('find', ['test/integration', 'test/support', '-name', '*.ts'], { encoding: 'utf8' });
    const paths = files
      .trim()
      .split('\n')
      .flatMap((file) => {
        const calls = readFileSync(file, 'utf8').matchAll(/(?:exec|spawn|execute)\w*\(\s*\[?'(\/[^']*)'/g);
        return [...calls].map(([, path]) => `${file}: ${path}`);
      });
    expect(paths.filter((line) => !/: \/bin\/(?:sh|bash)$/.test(line))).toEqual([]);
  });
});
