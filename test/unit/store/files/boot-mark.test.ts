import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openBootMark } from '../../../../src/store/files/boot-mark.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const signal = new AbortController().signal;

describe('the mark of a run', () => {
  let folder: string;
  let path: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'boot-mark-'));
    path = join(folder, 'running.json');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const log = createRecordingLog();
  const open = (bootId: string) => openBootMark({ path, bootId, now: 0, log }, signal);

  it('asks for no check at the first start', async () => {
    expect((await open('boot-1')).isCheckDue()).toBe(false);
  });

  it('asks for none after a stop in order and a boot', async () => {
    await (await open('boot-1')).stopped();
    expect((await open('boot-2')).isCheckDue()).toBe(false);
  });

  it('asks for none after a crash of the daemon alone', async () => {
    await open('boot-1');
    expect((await open('boot-1')).isCheckDue()).toBe(false);
  });

  it('asks for one after a boot without a stop, until it is done, over restarts and boots', async () => {
    await open('boot-1');
    const second = await open('boot-2');
    expect(second.isCheckDue()).toBe(true);
    await second.stopped();
    expect((await open('boot-2')).isCheckDue()).toBe(true);
    const third = await open('boot-3');
    expect(third.isCheckDue()).toBe(true);
    await third.setCheckDue(false, signal);
    expect((await open('boot-3')).isCheckDue()).toBe(false);
  });

  it('asks for one when damage was found, also after a stop in order', async () => {
    const mark = await open('boot-1');
    await mark.setCheckDue(true, signal);
    await mark.stopped();
    expect((await open('boot-2')).isCheckDue()).toBe(true);
  });

  it('asks for one after a stop that left images in memory only, and a boot', async () => {
    const mark = await open('boot-1');
    mark.keep();
    await mark.stopped();
    expect((await open('boot-1')).isCheckDue()).toBe(false);
    expect((await open('boot-2')).isCheckDue()).toBe(true);
  });

  it('takes a damaged mark for a boot without a stop', async () => {
    await open('boot-1');
    writeFileSync(path, readFileSync(path, 'utf8').slice(0, 20));
    expect((await open('boot-1')).isCheckDue()).toBe(true);
    expect(readdirSync(folder).filter((name) => name.includes('.damaged-'))).toHaveLength(1);
  });

  it('does not keep the daemon from starting when it can not be written', async () => {
    rmSync(folder, { recursive: true });
    writeFileSync(folder, 'a file where the folder was');
    path = join(folder, 'running.json');
    const opening = openBootMark({ path: join(folder, 'x', 'running.json'), bootId: 'boot-1', now: 0, log }, signal);
    await expect(opening.then((mark) => mark.isCheckDue())).resolves.toBe(false);
    expect(log.lines.at(-1)?.message).toContain("It can't be noted that the daemon runs");
  });
});
