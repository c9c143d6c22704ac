import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { makeSampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { commandsOf } from '../../../support/docs/marked-blocks.ts';
import { have } from '../../../support/requirements.ts';

const PAGE = 'docs/metrics.md';
let harness: DaemonHarness;
let base: string;
afterEach(async () => {
  await harness.dispose();
  rmSync(base, { recursive: true, force: true });
});

async function nodeWithMetrics() {
  base = mkdtempSync(join(tmpdir(), 'stickpin-metrics-'));
  const folder = join(base, 'textfiles');
  mkdirSync(folder);
  const path = join(folder, 'stickpin.prom');
  harness = await createDaemonHarness({ settings: { metrics: { textfile: path } } });
  return { path, folder, text: () => readFileSync(path, 'utf8') };
}

function numberOf(shown: string, sample: string): number {
  const line = shown.split('\n').find((one) => one.startsWith(`${sample} `));
  return Number(line?.slice(sample.length));
}

describe('metrics', () => {
  it('say how a release went, and are what promtool accepts', async () => {
    const { text, folder } = await nodeWithMetrics();
    const good = await makeSampleBundle({ dir: join(harness.base, 'factory'), keys: [harness.key] });
    const bad = await makeSampleBundle({
      dir: join(harness.base, 'other'),
      keys: [sampleKey('stranger')],
      version: '9.0.0',
    });
    await harness.start();
    await harness.until(({ operation }) => operation === 'idle');
    await expect.poll(text).toContain('stickpin_runtime_reachable 1');
    expect(text()).toContain('stickpin_verification_failures_total{code="bundle/unknown-key"} 0\n');
    expect(text()).toContain('stickpin_media_events_total{event="removed"} 0\n');
    expect(text()).not.toMatch(/^stickpin_last_success_timestamp_seconds /m);
    harness.plug(good.path, bad.path);
    const done = await harness.until(
      ({ bundles, rejected }) => bundles[0]?.phase === 'activated' && rejected.length === 1,
      30_000,
    );
    const total = done.bundles[0]?.images.total;
    await harness.stop();
    const shown = text();
    expect(shown).toMatch(/^stickpin_bundles\{phase="activated"\} 1$/m);
    expect(shown).toMatch(/^stickpin_bundles\{phase="held"\} 0$/m);
    for (const state of ['wanted', 'present', 'pinned'])
      expect(shown).toContain(`stickpin_images{state="${state}"} ${total}\n`);
    expect(shown).toContain('stickpin_rejected_bundles 1\n');
    expect(shown).toContain('stickpin_verification_failures_total{code="bundle/unknown-key"} 1\n');
    const layerBytes = good.contents.layers.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    expect(numberOf(shown, 'stickpin_preload_bytes_total')).toBeGreaterThanOrEqual(layerBytes);
    expect(numberOf(shown, 'stickpin_preload_seconds_total')).toBeGreaterThan(0);
    expect(shown).toMatch(/^stickpin_media_events_total\{event="plugged"\} [12]$/m);
    const ready = Number(/^stickpin_last_success_timestamp_seconds (\S+)$/m.exec(shown)?.[1]);
    expect(Math.abs(Date.now() / 1000 - ready)).toBeLessThan(120);
    expect(readdirSync(folder)).toEqual(['stickpin.prom']);
    if (have('promtool')) execFileSync('promtool', ['check', 'metrics'], { input: shown });
  });

  it('are all described in the documentation, and no others', async () => {
    const { text } = await nodeWithMetrics();
    await harness.start();
    await harness.until(({ operation }) => operation === 'idle');
    await harness.stop();
    const written = [...text().matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => `${name} ${type}`);
    const rows = readFileSync(PAGE, 'utf8').matchAll(/^\| `(stickpin_\w+)` \| (\w+) \|/gm);
    expect(written.sort()).toEqual([...rows].map(([, name, type]) => `${name} ${type}`).sort());
  });

  it.each([0o777, 0o1777])('follow no link in a folder that others may write (%o), and say so', async (mode) => {
    const { path, folder, text } = await nodeWithMetrics();
    const victim = join(folder, '../victim');
    writeFileSync(victim, 'untouched');
    chmodSync(folder, mode);
    for (const name of ['stickpin.prom', '.stickpin.prom.stickpin-new']) symlinkSync(victim, join(folder, name));
    await harness.start();
    await harness.until(({ operation }) => operation === 'idle');
    await harness.stop();
    expect(readFileSync(victim, 'utf8')).toBe('untouched');
    expect(lstatSync(path).isFile()).toBe(true);
    expect(text()).toContain('stickpin_runtime_reachable 1');
    const told = harness.log.lines.filter(({ message }) => message.includes('can be written by'));
    expect(told.map(({ message }) => message)).toEqual([
      `${folder} can be written by everybody, so users other than root could change the metrics (metrics.textfile)`,
    ]);
  });

  it('that can not be written are logged once, and the daemon goes on', async () => {
    const { folder } = await nodeWithMetrics();
    rmSync(folder, { recursive: true });
    writeFileSync(folder, 'a file');
    await harness.start();
    await harness.until(({ operation }) => operation === 'idle');
    await harness.stop();
    const told = harness.log.lines.filter(({ message }) => message.startsWith("Metrics can't be written"));
    expect(told).toHaveLength(1);
  });
});

describe.runIf(have('promtool'))('the alerts of the documentation', () => {
  it('are what promtool accepts, and fire when they should', () => {
    execFileSync('bash', ['-euc', commandsOf(PAGE, 'alerts')], { stdio: 'pipe' });
  });
});
