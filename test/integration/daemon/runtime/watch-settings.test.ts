import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { watchSettings } from '../../../../src/app/daemon/changes.ts';
import { loadSettings } from '../../../../src/config/load-settings.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog, type RecordingLog } from '../../../support/recording-log.ts';

describe('settings that change while the daemon runs', () => {
  const folder = folderForEach();
  let log: RecordingLog;
  let told: string[];
  let unwatch: () => void;

  const file = () => join(folder, 'stickpin.toml');
  const count = (what: string) => told.filter((entry) => entry === what).length;

  beforeEach(async () => {
    writeFileSync(file(), '[preload]\nparallel = 2\n');
    log = createRecordingLog();
    told = [];
    const tell = (what: string) => () => void told.push(what);
    const sources = { fragments: [{ file: file() }] };
    unwatch = watchSettings({
      settings: await loadSettings(sources, new AbortController().signal),
      sources,
      log,
      notifier: {
        ready: tell('READY'),
        reloading: tell('RELOADING'),
        status: () => undefined,
        stopping: () => undefined,
      },
      onReload: tell('reload'),
      onChanged: tell('changed'),
      onRefused: (why) => void told.push(why === undefined ? 'valid' : `refused: ${why}`),
    });
    await expect.poll(() => count('reload'), { timeout: 60_000 }).toBe(1); // the look when the watch stands
  });
  afterEach(() => {
    unwatch();
  });

  it('stops when settings change, so that systemd starts the daemon with the new ones', async () => {
    writeFileSync(file(), '[preload]\nparallel = 3\n');
    await expect.poll(() => count('changed'), { timeout: 60_000 }).toBe(1);
    expect(log.kinds()).toEqual(['configurationChanged']);
  });

  it('does not take a file for empty that is being written', async () => {
    const text = readFileSync(file());
    writeFileSync(file(), '');
    setTimeout(() => writeFileSync(file(), text), 60);
    await expect.poll(() => count('reload'), { timeout: 60_000 }).toBeGreaterThan(1);
    expect(count('changed')).toBe(0);
  });

  it('keeps the current settings when the new ones are wrong, and names the wrong key', async () => {
    writeFileSync(file(), '[preload]\nparalel = 3\n');
    await expect
      .poll(() => log.lines.find(({ level }) => level === 'warn')?.message, { timeout: 60_000 })
      .toMatch(/stickpin\.toml.*preload\.paralel.*Those from before stay in force/);
    expect(log.kinds()).toContain('configurationRejected');
    expect(told.at(-1)).toMatch(/^refused: .*preload\.paralel/);
    expect(count('changed')).toBe(0);
    writeFileSync(file(), '[preload]\nparallel = 2\n');
    await expect.poll(() => told.filter((one) => one === 'valid').length, { timeout: 60_000 }).toBeGreaterThan(1);
  });

  it('checks everything again at SIGHUP and notifies systemd: RELOADING before READY', async () => {
    process.emit('SIGHUP');
    await expect.poll(() => count('READY'), { timeout: 60_000 }).toBe(1);
    expect(told.filter((one) => one !== 'valid')).toEqual(['reload', 'RELOADING', 'reload', 'READY']);
  });

  it('continues when files are written again with the same settings', async () => {
    writeFileSync(file(), '# a comment\n[preload]\nparallel = 2\n');
    await expect.poll(() => count('reload'), { timeout: 60_000 }).toBe(2);
    expect(count('changed')).toBe(0);
  });
});
