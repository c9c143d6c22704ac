import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMetricsFile, type MetricsFile } from '../../../../src/app/daemon/metrics.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { idleReport } from '../../../support/bus/fake-backend.ts';

const NOW = Date.parse('2026-03-01T00:00:00Z');
let folder: string;
let metrics: MetricsFile;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-metrics-'));
  const clock = { now: () => NOW, monotonic: () => 0 };
  metrics = createMetricsFile({ path: join(folder, 'stickpin.prom'), clock, log: silentLog });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function samplesAfter(...reports: readonly (readonly [StatusReport, number])[]): Promise<string[]> {
  for (const [report, sentBytes] of reports) metrics.publish(report, sentBytes);
  await metrics.settled();
  return readFileSync(join(folder, 'stickpin.prom'), 'utf8').split('\n');
}

describe('the file of metrics', () => {
  it('counts all bytes of a preload, also of one that no report saw', async () => {
    const preloading = idleReport({ operation: 'preloading', progress: { doneBytes: 30, totalBytes: 100 } });
    expect(await samplesAfter([idleReport(), 0], [preloading, 40], [idleReport(), 100])).toContain(
      'stickpin_preload_bytes_total 100',
    );
    expect(await samplesAfter([idleReport(), 150])).toContain('stickpin_preload_bytes_total 150');
  });

  it('has counters from the start, and no time of a success that was not', async () => {
    const samples = await samplesAfter([idleReport(), 0]);
    expect(samples).toContain('stickpin_verification_failures_total{code="bundle/bad-signature"} 0');
    expect(samples).toContain('stickpin_media_events_total{event="failed"} 0');
    expect(samples.filter((line) => line.startsWith('stickpin_last_success'))).toEqual([]);
  });

  it('has each release with its phase, and the sequence of the current ones', async () => {
    const release = (version: string, over: object) =>
      ({ name: 'ocp', version, sequence: 7, phase: 'ready', images: {}, ...over }) as StatusReport['bundles'][number];
    const bundles = [
      release('4.13.5', { phase: 'retired' }),
      release('4.13.6', { phase: 'proven', current: true, sequence: 36 }),
      release('4.13.7"}\n1', {}),
      release('', { name: '', phase: 'held' }),
    ];
    const samples = await samplesAfter([idleReport({ bundles }), 0]);
    expect(samples.filter((line) => line.startsWith('stickpin_release'))).toEqual([
      'stickpin_release_info{name="ocp",version="4.13.6",phase="proven",current="true"} 1',
      'stickpin_release_info{name="ocp",version="4.13.7\\"}\\n1",phase="ready",current="false"} 1',
      'stickpin_release_sequence{name="ocp",version="4.13.6"} 36',
    ]);
    const gone = await samplesAfter([idleReport(), 0]);
    expect(gone.filter((line) => line.startsWith('stickpin_release'))).toEqual([]);
  });

  it('has at most 100 releases, the current and the newest ones', async () => {
    const bundles = Array.from({ length: 150 }, (_none, at) => ({
      ...({ name: 'ocp', sequence: at, phase: 'ready', images: {} } as StatusReport['bundles'][number]),
      version: `1.0.${at}`,
      current: at === 0,
    }));
    const samples = (await samplesAfter([idleReport({ bundles }), 0])).filter((line) =>
      line.startsWith('stickpin_release_info'),
    );
    expect(samples).toHaveLength(100);
    expect(samples[0]).toContain('version="1.0.0",phase="ready",current="true"');
    expect(samples[1]).toContain('version="1.0.149"');
  });

  it('has how much of a preload is done while it runs, media, and what needs a person', async () => {
    const needsPerson = [
      { code: 'M-12', message: 'plug in the stick again', bundle: 'ocp@4.13.7' },
      { code: 'M-12', message: 'plug in the stick again', bundle: 'ocp@4.13.8' },
    ];
    const media = [
      { medium: 'sdb1', kind: 'stick', state: 'read', bundles: 1 },
      { medium: 'incoming', kind: 'folder', state: 'read', bundles: 0 },
    ] as const;
    const progress = { doneBytes: 30, totalBytes: 120 };
    const loading = idleReport({ operation: 'preloading', progress, media, needsPerson });
    const ofThese = (samples: readonly string[]) =>
      samples.filter((line) => /^stickpin_(?:preload_progress|media_plugged|needs_person)/.test(line));
    expect(ofThese(await samplesAfter([loading, 0]))).toEqual([
      'stickpin_needs_person{code="M-12"} 1',
      'stickpin_media_plugged 1',
      'stickpin_preload_progress_ratio 0.25',
    ]);
    expect(ofThese(await samplesAfter([idleReport({ progress }), 0]))).toEqual(['stickpin_media_plugged 0']);
  });

  it('has the time of the last success, and how long a release must still run', async () => {
    const bundle = {
      name: 'ocp',
      version: '4.13.7',
      phase: 'activated',
      images: { total: 1, present: 1, pinned: 1 },
      readyAt: '2026-02-28T00:00:00Z',
      soakEndsAt: '2026-03-01T00:10:00Z',
    } as unknown as StatusReport['bundles'][number];
    const samples = await samplesAfter([idleReport({ bundles: [bundle] }), 0]);
    expect(samples).toContain('stickpin_soak_remaining_seconds{name="ocp",version="4.13.7"} 600');
    expect(samples).toContain(`stickpin_last_success_timestamp_seconds ${Date.parse('2026-02-28T00:00:00Z') / 1000}`);
  });
});
