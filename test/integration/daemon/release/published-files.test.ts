import { mkdirSync, readFileSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { PublishedFiles } from '../../../../src/app/daemon/published-files.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { judge, NOON, observation, stored, verified } from '../../../support/daemon/scenario.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog, type RecordingLog } from '../../../support/recording-log.ts';

const observed = observation({});
const { assessment } = judge(observed, [stored(verified())]);
const report = (doneBytes: number, over: Partial<StatusReport> = {}): StatusReport => ({
  ...reportOf(
    { observed, memory: observed, assessment },
    { doneBytes, totalBytes: 9, bytesPerSecond: 1, waitingTransfers: 0 },
  ),
  ...over,
});

const PIN = `quay.example.com/ocp/etcd@sha256:${'a'.repeat(64)}`;

describe('files for other programs', () => {
  const base = folderForEach();
  let now: number;
  let log: RecordingLog;
  let files: PublishedFiles;
  beforeEach(() => {
    now = NOON;
    log = createRecordingLog();
    const [stateDirectory, runDirectory, imagesEnvBefore] = [
      at('state'),
      at('run'),
      `STICKPIN_ETCD=${PIN}\nSTICKPIN_OLD=x\n`,
    ];
    files = new PublishedFiles({
      stateDirectory,
      runDirectory,
      bootId: 'boot-1',
      arch: 'amd64',
      clock: { now: () => now, monotonic: () => now },
      log,
      imagesEnvBefore,
    });
  });
  const at = (name: string) => join(base, name);
  const publish = async (given: StatusReport) => {
    now += 1_000;
    files.publish({ imagesEnv: '# none\n', report: given });
    await files.settled();
  };
  const read = (folder: string) => JSON.parse(readFileSync(at(`${folder}/status.json`), 'utf8'));

  it('writes the status to both places, with the time and the boot id', async () => {
    await publish(report(1));
    const written = {
      schemaVersion: 1,
      ...JSON.parse(JSON.stringify(report(1))),
      writtenAt: '2026-03-10T12:00:01.000Z',
      bootId: 'boot-1',
      arch: 'amd64',
    };
    expect([read('run'), read('state')]).toEqual([written, written]);
    expect(readFileSync(at('state/images.env'), 'utf8')).toBe('# none\n');
  });

  it('says once which variables are not set', async () => {
    const imagesEnv = '# x@1.0.0\n# STICKPIN_ETCD is left out: roles a, b claim it; etcd is x\nSTICKPIN_API=y\n';
    for (let rounds = 0; rounds < 2; rounds += 1) files.publish({ imagesEnv, report: report(rounds) });
    await files.settled();
    expect(log.lines.map(({ message }) => message)).toEqual([
      'images.env: STICKPIN_ETCD is left out: roles a, b claim it; etcd is x',
    ]);
  });

  it('keeps the known good image of a release whose records are lost, while its pin is unclaimed', async () => {
    await publish(report(1, { unclaimed: [{ references: [PIN] }] }));
    const kept = readFileSync(at('state/images.env'), 'utf8');
    expect(kept).toContain(`\nSTICKPIN_ETCD=${PIN}\n`);
    expect(kept).not.toContain('STICKPIN_OLD');
    expect(readFileSync(at('run/images.env'), 'utf8')).toBe(kept);
    await publish(report(1, { unclaimed: [], runtime: { ...report(1).runtime, reachable: false } }));
    expect(readFileSync(at('state/images.env'), 'utf8')).toBe(kept);
    await publish(report(1));
    expect(readFileSync(at('state/images.env'), 'utf8')).toBe('# none\n');
  });

  it('writes to the disk only what is still valid after a boot', async () => {
    await publish(report(1));
    const { ino } = statSync(at('state/status.json'));
    await publish(report(2));
    await publish(report(2));
    expect(statSync(at('state/status.json')).ino).toBe(ino);
    expect(read('run')).toMatchObject({ progress: { doneBytes: 2 }, writtenAt: '2026-03-10T12:00:02.000Z' });
    await publish(report(3, { operation: 'activating' }));
    expect(read('state')).toMatchObject({ operation: 'activating', progress: { doneBytes: 3 } });
  });

  it('writes a failed file again with the next report, and logs the failure once', async () => {
    mkdirSync(at('state/status.json'), { recursive: true });
    await publish(report(1));
    await publish(report(2));
    expect(log.lines).toHaveLength(1);
    rmdirSync(at('state/status.json'));
    await publish(report(3));
    expect(read('state')).toMatchObject({ progress: { doneBytes: 3 } });
  });

  it('writes images.env again after a failure, although nothing changes any more', async () => {
    mkdirSync(at('state/images.env'), { recursive: true });
    await publish(report(1));
    rmdirSync(at('state/images.env'));
    for (let rounds = 0; rounds < 12; rounds += 1) await publish(report(1));
    expect(readFileSync(at('state/images.env'), 'utf8')).toBe('# none\n');
    expect(log.lines).toHaveLength(1);
  });
});
