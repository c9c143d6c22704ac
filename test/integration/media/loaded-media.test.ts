import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LoadedMedia } from '../../../src/media/loaded-media.ts';
import { isDevicePath, type MediaProvider, type PluggedMedium } from '../../../src/media/media-provider.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';

const never = new AbortController().signal;

describe('loaded media', () => {
  let base: string;
  let provider: MediaProvider;
  let story: string[];
  let arrived: PluggedMedium[];
  let log: RecordingLog;

  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'stickpin-load-'));
    story = [];
    arrived = [];
    log = createRecordingLog();
    provider = new LoadedMedia({ log, presenceMs: 20 });
    await provider.start(
      {
        arrived: (medium) => {
          story.push(`+${medium.label}`);
          arrived.push(medium);
        },
        changed: () => void story.push('~'),
        left: () => void story.push('-'),
      },
      never,
    );
  });
  afterEach(async () => {
    await provider.dispose();
    await rm(base, { recursive: true, force: true });
  });

  const at = (name: string) => join(base, name);
  const load = (path: string) => provider.load?.(path, never);

  it('loads a directory with stickpin/ in it, a bundle directory and a tar file', async () => {
    await mkdir(at('share/stickpin/ocp'), { recursive: true });
    await writeFile(at('share/stickpin/ocp/bundle.dsse.json'), '{}');
    await mkdir(at('bundle'));
    await writeFile(at('bundle/bundle.dsse.json'), '{}');
    await writeFile(at('ocp.stickpin.tar'), '');
    expect(await load(`${at('share')}/`)).toBe(at('share'));
    expect(await load(at('bundle'))).toBe(at('bundle'));
    expect(await load(at('ocp.stickpin.tar'))).toBe(at('ocp.stickpin.tar'));
    expect(story).toEqual([`+${at('share')}`, `+${at('bundle')}`, `+${at('ocp.stickpin.tar')}`]);
    const bundlesOf = async (medium: PluggedMedium) => (await medium.open(never)).findBundles(never);
    expect(await Promise.all(arrived.map(bundlesOf))).toMatchObject([
      [{ kind: 'bundle', path: 'stickpin/ocp', reader: { path: at('share/stickpin/ocp') } }],
      [{ kind: 'bundle', path: '', reader: { path: at('bundle') } }],
      [{ kind: 'bundle', path: '', reader: { path: at('ocp.stickpin.tar') } }],
    ]);
  });

  it('reads again what is loaded again, and forgets what vanishes or is replaced', async () => {
    await mkdir(at('share/stickpin'), { recursive: true });
    await load(at('share'));
    await load(at('share'));
    expect(story).toEqual([`+${at('share')}`, '~']);
    await mkdir(at('other/stickpin'), { recursive: true });
    await rename(at('share'), at('gone'));
    await rename(at('other'), at('share'));
    await eventually(() => expect(story.at(-1)).toBe('-'));
    expect(log.lines.at(-1)?.message).toContain('is gone and no medium any more; load it again');
    await load(at('share'));
    expect(story).toEqual([`+${at('share')}`, '~', '-', `+${at('share')}`]);
  });

  it.each([
    ['relative', () => 'share', /not a plain absolute path/],
    ['with dots', () => `${base}/share/../share`, /not a plain absolute path/],
    ['missing', () => at('nothing'), /can't be opened: there is no such file or folder.*\/tmp/],
    ['a link', () => at('link'), /leads over a link to .*links are not followed/],
    ['below a link', () => at('link/stickpin'), /leads over a link to/],
    ['without a bundle', () => at('empty'), /holds neither .*stickpin\/ nor bundle\.dsse\.json/],
    ['another file', () => at('file'), /no bundle in tar form/],
  ])('refuses a path that is %s, and says why', async (_what, path, why) => {
    await mkdir(at('share/stickpin'), { recursive: true });
    await mkdir(at('empty'));
    await symlink(at('share'), at('link'));
    await writeFile(at('file'), '');
    await expect(load(path())).rejects.toMatchObject({
      code: 'media/load',
      disposition: 'reject',
      message: expect.stringMatching(why),
    });
    expect(story).toEqual([]);
  });

  it('takes nothing after an abort', async () => {
    await mkdir(at('share/stickpin'), { recursive: true });
    const stopped = AbortSignal.abort(new Error('stop'));
    await expect(provider.load?.(at('share'), stopped)).rejects.toThrow('stop');
    await expect(provider.rescan(stopped)).rejects.toThrow('stop');
    expect(story).toEqual([]);
  });

  it('leaves devices to the provider of devices', async () => {
    expect(await load('/dev/sdb1')).toBeUndefined();
  });

  it('takes a folder below /dev, which the provider of devices leaves to it', async () => {
    const folder = await mkdtemp('/dev/shm/stickpin-load-');
    try {
      await mkdir(join(folder, 'stickpin'));
      expect(await isDevicePath(folder)).toBe(false);
      expect(await load(folder)).toBe(folder);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
