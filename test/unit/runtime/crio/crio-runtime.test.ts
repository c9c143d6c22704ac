import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { createCrioRuntime } from '../../../../src/runtime/crio/crio-runtime.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const base = folderForEach();
const pins = [`quay.example.com/ocp/etcd@sha256:${'0'.repeat(64)}`];
const MIRROR = { authority: '127.0.0.1:5317', token: '0'.repeat(32) };
const PATHS = {
  configPath: join(base, 'crio.conf'),
  configDirectory: join(base, 'crio.conf.d'),
  pinsLink: join(base, 'crio.conf.d/99-stickpin.conf'),
  pinsFile: join(base, 'run/crio.conf.d/99-stickpin.conf'),
  persistentPinsFile: join(base, 'var/99-stickpin.conf'),
  registriesPath: join(base, 'registries.conf'),
  registriesDirectory: join(base, 'registries.conf.d'),
  mirrorsLink: join(base, 'registries.conf.d/99-stickpin.conf'),
  mirrorsFile: join(base, 'run/registries.conf'),
  persistentMirrorsFile: join(base, 'state/registries.conf'),
  reloadMarker: join(base, 'crio-reload-owed'),
  policyPath: join(base, 'policy.json'),
  policiesDirectory: join(base, 'policies'),
  signatureLookupFile: join(base, 'registries.d/99-stickpin.yaml'),
};

describe('the CRI-O adapter, without a CRI-O', () => {
  it('does not wait forever for a reload job that never ends, and requests it again', async () => {
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
      mirror: MIRROR,
      log: createRecordingLog(),
      reloadTimeoutMs: 20,
      paths: PATHS,
    });
    const signal = new AbortController().signal;
    const late = { code: 'platform/deadline', message: expect.stringMatching(/reload of crio\.service/) };
    await expect(runtime.applyPins(pins, { force: false }, signal)).rejects.toMatchObject(late);
    await expect(runtime.applyPins(pins, { force: false }, signal)).rejects.toMatchObject(late);
    expect(asked).toBe(2);
    runtime.close();
  });

  describe('pins that are written right before mirrors', () => {
    const mirrors = [{ repository: 'quay.example.com/ocp/etcd' }];
    const { signal } = new AbortController();
    let reloads: number;
    const create = (over: { mirrorsFile?: string } = {}) =>
      createCrioRuntime({
        socketPath: join(base, 'crio.sock'),
        units: {
          reloadUnit: async () => {
            reloads += 1;
          },
          onUnitChange: () => () => undefined,
        },
        mirror: MIRROR,
        log: createRecordingLog(),
        paths: { ...PATHS, ...over },
      });
    beforeEach(() => {
      reloads = 0;
    });

    it('are reloaded once, together with the mirrors', async () => {
      const runtime = create();
      await runtime.applyPins(pins, { force: false, mirrorsFollow: true }, signal);
      expect(reloads).toBe(0);
      await runtime.applyMirrors(mirrors, signal);
      expect(reloads).toBe(1);
      await runtime.applyMirrors(mirrors, signal);
      expect(reloads).toBe(1);
      runtime.close();
    });

    it('are reloaded with the mirrors even if the mirror file does not change', async () => {
      const runtime = create();
      await runtime.applyMirrors(mirrors, signal);
      await runtime.applyPins(pins, { force: false, mirrorsFollow: true }, signal);
      await runtime.applyMirrors(mirrors, signal);
      expect(reloads).toBe(2);
      runtime.close();
    });

    it('are reloaded even if the mirrors can not be written', async () => {
      writeFileSync(join(base, 'file'), '');
      const runtime = create({ mirrorsFile: join(base, 'file/registries.conf') });
      await runtime.applyPins(pins, { force: false, mirrorsFollow: true }, signal);
      await expect(runtime.applyMirrors(mirrors, signal)).rejects.toMatchObject({ code: 'runtime/write' });
      expect(reloads).toBe(1);
      runtime.close();
    });
  });
});
