import { chmodSync, chownSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ExaminedCrio } from '../../../src/doctor/check.ts';
import { checkFolders } from '../../../src/doctor/check-folders.ts';
import { findingsOf } from '../../support/examined-node.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

let base: string;
let closed: number;

/** A node whose folders are all below `base`. */
function found(runtime: 'answers' | 'silent' | 'none' = 'answers') {
  const certs = join(base, 'certs.d');
  const paths = {
    pinsLink: join(base, 'crio.conf.d/99-stickpin.conf'),
    pinsFile: join(base, 'run/99-stickpin.conf'),
    persistentPinsFile: '',
    mirrorsLink: join(base, 'registries.conf.d/99-stickpin.conf'),
    mirrorsFile: '',
  };
  const mirrors = async () => {
    if (runtime === 'silent') throw new Error('no answer');
    return { kind: 'read', folders: [certs] };
  };
  const close = () => {
    closed += 1;
  };
  return findingsOf(checkFolders, {
    settings: { metrics: { textfile: join(base, 'metrics/stickpin.prom') }, runtime: { kind: 'auto' } },
    crio: { paths } as ExaminedCrio,
    findRuntime: async () => (runtime === 'none' ? undefined : ({ mirrors, close } as never)),
  });
}

describe('folders of other programs', () => {
  beforeEach(() => {
    base = temporaryFolder();
    closed = 0;
    for (const name of ['crio.conf.d', 'run', 'registries.conf.d', 'certs.d/docker.io', 'metrics'])
      mkdirSync(join(base, name), { recursive: true, mode: 0o755 });
  });

  it('are no finding while root alone may write them, or they are not there', async () => {
    expect(await found()).toEqual([]);
    expect(closed).toBe(1);
    rmSync(join(base, 'crio.conf.d'), { recursive: true });
    expect(await found('none')).toEqual([]);
  });

  it.each([
    ['crio.conf.d', 0o775, /can be written by its group, so users other than root could change what CRI-O pulls/],
    ['run', 0o777, /can be written by everybody/],
    ['registries.conf.d', 0o1777, /can be written by everybody/],
    ['certs.d', 0o757, /so users other than root could change from where containerd pulls$/],
    ['certs.d/docker.io', 0o775, /so users other than root could change from where containerd pulls$/],
    ['metrics', 0o777, /so users other than root could change the metrics \(metrics\.textfile\)$/],
  ])('%s with mode %o is a warning with what to do', async (name, mode, words) => {
    chmodSync(join(base, name), mode);
    const folder = join(base, name);
    expect(await found()).toEqual([
      {
        subject: 'folders',
        verdict: 'warning',
        message: expect.stringMatching(words),
        remedy: `run chmod go-w ${folder}`,
      },
    ]);
  });

  it('says the rest while the runtime does not answer', async () => {
    chmodSync(join(base, 'metrics'), 0o777);
    expect(await found('silent')).toHaveLength(1);
    expect(closed).toBe(1);
  });

  it.runIf(have('root'))('of another user is a warning', async () => {
    chownSync(join(base, 'metrics'), 12_345, 0);
    expect(await found()).toMatchObject([{ message: expect.stringContaining('belongs to user 12345, so users') }]);
  });
});
