import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CheckedImage } from '../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { have } from '../../support/requirements.ts';

const whole: CheckedImage = {
  image: 'quay.io/a@sha256:1',
  releases: ['ocp@4', 'ocp@5'],
  result: 'whole',
  found: 'every blob has its digest',
  next: '',
};
const damaged: CheckedImage = { ...whole, result: 'damaged', found: 'sha256:2 is truncated', next: 'It stays.' };
const unknown: CheckedImage = { ...whole, result: 'unknown', found: 'not readable', next: 'Run it again.' };

describe.runIf(have('dbus-daemon'))('stickpin verify-images', () => {
  let api: ApiOnBus;
  let answer: readonly CheckedImage[];

  beforeAll(async () => {
    api = await startApiOnBus({
      verifyImages: async ({ bundle }) => {
        if (bundle === 'x@1') {
          throw new AppError({ code: 'engine/no-bundle', message: 'no bundle x@1', disposition: 'reject' });
        }
        return bundle === 'ocp@5' ? [whole] : answer;
      },
    });
  });
  afterAll(() => api[Symbol.asyncDispose]());

  it('prints a table of all images, and exits with 0 when they are whole', async () => {
    answer = [whole];
    expect(await api.run('verify-images')).toEqual({
      exitCode: 0,
      stdout: `${[
        'RESULT  RELEASE      IMAGE               FOUND                      NEXT',
        'whole   ocp@4 ocp@5  quay.io/a@sha256:1  every blob has its digest',
      ].join('\n')}\n`,
      stderr: '',
    });
  });

  it('exits with 4 when an image is damaged, and with 1 when one could not be looked at', async () => {
    answer = [whole, damaged, unknown];
    expect(await api.run('verify-images')).toMatchObject({
      exitCode: 4,
      stdout: expect.stringMatching(/^damaged .*sha256:2 is truncated +It stays\.$/m),
      stderr: 'stickpin: 1 image is damaged; NEXT says what becomes of it\n',
    });
    answer = [whole, unknown];
    expect(await api.run('verify-images')).toMatchObject({
      exitCode: 1,
      stderr: 'stickpin: 1 image could not be checked; FOUND says why\n',
    });
  });

  it('prints JSON for programs, and asks for one release', async () => {
    answer = [damaged];
    const { stdout, exitCode } = await api.run('verify-images', '--json');
    expect({ exitCode, ...JSON.parse(stdout) }).toEqual({ exitCode: 4, schemaVersion: 1, images: [damaged] });
    expect(JSON.parse((await api.run('verify-images', 'ocp@5', '--json')).stdout)).toEqual({
      schemaVersion: 1,
      images: [whole],
    });
  });

  it('says that no release is known, and why the daemon refuses', async () => {
    answer = [];
    expect((await api.run('verify-images')).stdout).toMatch(/^No release is known here/);
    expect(await api.run('verify-images', 'x@1')).toMatchObject({ exitCode: 1, stderr: 'stickpin: no bundle x@1\n' });
  });
});
