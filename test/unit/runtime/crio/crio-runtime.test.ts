import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCrioRuntime } from '../../../../src/runtime/crio/crio-runtime.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

let base: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'stickpin-crio-'));
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

describe('the CRI-O adapter, without a CRI-O', () => {
  it('does not wait for ever for a reload whose job systemd never ends, and asks for it again', async () => {
    let asked = 0;
    const runtime = createCrioRuntime({
      socketPath: join(base, 'crio.sock'),
      units: {
        reloadUnit: () => {
          asked += 1;
          return new Promise(() => undefined); // as while crio.service is still starting
        },
        onUnitChange: () => () => undefined,
      },
      mirror: { authority: '127.0.0.1:5317', token: '0'.repeat(32) },
      log: createRecordingLog(),
      reloadTimeoutMs: 20,
      paths: {
        configPath: join(base, 'crio.conf'),
        configDirectory: join(base, 'crio.conf.d'),
        pinsLink: join(base, 'crio.conf.d/99-stickpin.conf'),
        pinsFile: join(base, 'run/crio.conf.d/99-stickpin.conf'),
        persistentPinsFile: join(base, 'var/99-stickpin.conf'),
      },
    });
    const pins = [`quay.example.com/ocp/etcd@sha256:${'0'.repeat(64)}`];
    const signal = new AbortController().signal;
    const late = { code: 'platform/deadline', message: expect.stringMatching(/reload of crio\.service/) };
    await expect(runtime.applyPins(pins, { force: false }, signal)).rejects.toMatchObject(late);
    await expect(runtime.applyPins(pins, { force: false }, signal)).rejects.toMatchObject(late);
    expect(asked).toBe(2);
    runtime.close();
  });
});
