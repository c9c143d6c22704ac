import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { watchConfig } from '../../../src/runtime/config/config-watch.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

describe('the watch of configuration', () => {
  const folder = folderForEach();
  let stop: (() => void) | undefined;
  let changes = 0;

  /** Returns when the watch is ready, which counts as no change. */
  const watching = async (path: string, compareMs?: number): Promise<void> => {
    const options = {
      ownPaths: [join(folder, 'own')],
      log: createRecordingLog(),
      ...(compareMs !== undefined && { compareMs }),
    };
    stop = watchConfig([path], options, () => {
      changes += 1;
    });
    await eventually(() => expect(changes).toBe(1));
    changes = 0;
  };
  const changed = () => eventually(() => expect(changes).toBeGreaterThan(0));

  beforeEach(() => {
    changes = 0;
  });
  afterEach(() => {
    stop?.();
  });

  it('tells that a file is made, replaced or removed', async () => {
    const file = join(folder, 'stickpin.toml');
    await watching(file);
    writeFileSync(file, 'a = 1');
    await changed();
    changes = 0;
    writeFileSync(`${file}.new`, 'a = 2');
    renameSync(`${file}.new`, file);
    await changed();
    changes = 0;
    rmSync(file);
    await changed();
  });

  it.runIf(have('root'))('finds by itself what the kernel does not tell: a folder that is mounted over', async () => {
    const watched = join(folder, 'stickpin.toml.d');
    mkdirSync(watched);
    await watching(watched, 200);
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', watched]);
    try {
      writeFileSync(join(watched, '10-new.toml'), 'a = 1');
      await changed();
    } finally {
      execFileSync('umount', [watched]);
    }
  });
});
