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
        'Integration tests need what this machine lacks: unicorn (apt-get install unicorn), no-such-program-9 (apt-get install ghost); skipped\n',
      ],
    ]);
  });

  it('are an error under CI=true', () => {
    vi.stubEnv('CI', 'true');
    expect(() => have(unicorn)).toThrow('lacks: unicorn (apt-get install unicorn)');
  });
});
