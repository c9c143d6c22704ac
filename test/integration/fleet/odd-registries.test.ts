import { readFileSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { BUNDLE_TYPE, ENVELOPE_TYPE, emptyConfig } from '../../../src/distribution/linked-bundle.ts';
import { hexOf } from '../../../src/domain/model/digest.ts';
import { Pace } from '../../../src/fleet/serve/served-nodes.ts';
import { Source, type SourceSettings } from '../../../src/fleet/sources/source.ts';
import { busyOf } from '../../../src/fleet/wire/documents.ts';
import { type Clock, systemClock } from '../../../src/platform/clock.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { makeSampleBundle } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import { atEnd, folderForAll } from '../../support/files/temporary-folder.ts';
import { type Front, startFront } from '../../support/registry/front.ts';
import { makeTls, type OwnTls } from '../../support/registry/tls.ts';
import { have } from '../../support/requirements.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const MiB = 1024 * 1024;
const work = folderForAll();
const large = Buffer.alloc(MiB, 'large');
const manifestType = 'application/vnd.oci.image.manifest.v1+json';
const descriptorOf = (bytes: Buffer, mediaType = 'application/octet-stream') => ({
  mediaType,
  digest: digestOf(bytes),
  size: bytes.length,
});
const json = (value: unknown) => Buffer.from(JSON.stringify(value));

describe.runIf(have('openssl'))('a source whose registry is odd', () => {
  let tls: OwnTls;
  let front: Front;
  let envelope: Buffer;
  let contents: Buffer;
  let index: Buffer;
  let content: Map<string, Buffer>;
  /** Answers first. */
  let before: (path: string, response: ServerResponse) => 'answered' | undefined;

  beforeAll(async () => {
    tls = makeTls(work);
    front = await startFront('127.0.0.1:1', tls.pem);
    const { path, payload } = await makeSampleBundle({ dir: work });
    envelope = readFileSync(join(path, 'bundle.dsse.json'));
    contents = readFileSync(join(path, 'blobs/sha256', hexOf(payload.contents.digest)));
    index = readFileSync(join(path, 'index.json'));
  });
  afterAll(() => front?.close());
  beforeEach(() => {
    front.requests.splice(0);
    before = () => undefined;
    front.meddle = ({ method, path, range }, response) => {
      if (before(path, response) === 'answered') return 'answered';
      const body = content.get(path.split('/').at(-1) ?? '');
      const from = Number(/\d+/.exec(range ?? '')?.[0] ?? 0);
      if (body === undefined) response.writeHead(404).end();
      else if (from > 0) response.writeHead(206, { 'content-range': `bytes ${from}-` }).end(body.subarray(from));
      else response.end(method === 'HEAD' ? undefined : body);
      return 'answered';
    };
    offer([]);
  });

  function offer(manifests: readonly Buffer[]): void {
    const blobs = [large, contents, index];
    const layers = [descriptorOf(envelope, ENVELOPE_TYPE), ...blobs.map((bytes) => descriptorOf(bytes))];
    const top = json({ schemaVersion: 2, mediaType: manifestType, config: descriptorOf(emptyConfig.bytes), layers });
    const entries = manifests.map((bytes) => descriptorOf(bytes, manifestType));
    const all = [{ ...descriptorOf(top, manifestType), artifactType: BUNDLE_TYPE }, ...entries];
    const tagged = json({ schemaVersion: 2, manifests: all });
    content = new Map([tagged, top, envelope, ...blobs, ...manifests].map((bytes) => [digestOf(bytes), bytes]));
    content.set('1', tagged);
  }

  /** Visits once. `pauses` are those of its sleeps. */
  async function visit(settings: Partial<SourceSettings> = {}, own: Partial<Clock> = {}) {
    const pauses: number[] = [];
    const stop = new AbortController();
    const sleep: Clock['sleep'] = (ms, signal) => {
      pauses.push(ms);
      return new Promise((_, reject) => signal.addEventListener('abort', reject));
    };
    const clock = { ...systemClock, ...own, sleep };
    const reference = `${front.host}/bundles/odd:1`;
    const defaults = {
      every: DAY_MS,
      authfile: undefined,
      ca: tls.certificate,
      rate: 'unlimited',
      windows: [],
    } as const;
    const options = { reference, settings: { ...defaults, reference, ...settings }, zone: 'UTC', random: () => 0.5 };
    const source = new Source({ ...options, pace: new Pace('unlimited', clock), clock });
    const running = source.run(stop.signal);
    atEnd(async () => {
      stop.abort();
      await running;
    });
    await eventually(() => expect(pauses).toHaveLength(1));
    return { source, pauses };
  }

  it('is read also where the registry leads on from its tag', async () => {
    before = (path, response) => {
      if (!path.endsWith('/odd/manifests/1')) return undefined;
      response.writeHead(307, { location: '/v2/elsewhere/manifests/1' }).end();
      return 'answered';
    };
    const { source } = await visit();
    expect(source.trouble()).toBeUndefined();
    expect(source.bundles()).toMatchObject([{ name: 'ocp', version: '4.13.7' }]);
  });

  it('remembers no more blobs than a bundle may have', async () => {
    const layer = descriptorOf(large);
    const layers = Array.from({ length: 12_000 }, () => layer);
    const manifests = Array.from({ length: 20 }, (_, at) =>
      json({ schemaVersion: 2, config: descriptorOf(Buffer.from(`${at}`)), layers }),
    );
    offer(manifests);
    const { source } = await visit();
    expect(source.trouble()).toContain('its manifests name more than 130000 blobs');
    expect(front.requests.length).toBeLessThan(18);
  });

  it('is offered when its lists are there, which go on after a break', async () => {
    let breaks = 1;
    before = (path, response) => {
      if (!path.endsWith(digestOf(contents)) || breaks-- <= 0) return undefined;
      response.writeHead(200, { 'content-length': contents.length });
      response.write(contents.subarray(0, 100), () => response.destroy());
      return 'answered';
    };
    const { source } = await visit();
    expect(source.bundles()).toEqual([]);
    await source.look(new AbortController().signal);
    const [bundle] = source.bundles();
    expect(bundle).toMatchObject({ version: '4.13.7' });
    expect(front.requests.map(({ range }) => range)).toContain('bytes=100-');
    // The daemon waits for nothing of them.
    front.requests.splice(0);
    if (bundle !== undefined) expect(await source.file(bundle.bundleId, 'index.json')).toEqual(index);
    expect(front.requests).toEqual([]);
  });

  it('reads no manifest again after a break', async () => {
    const layers = [descriptorOf(large)];
    const manifests = ['a', 'b'].map((seed) =>
      json({ schemaVersion: 2, config: descriptorOf(Buffer.from(seed)), layers }),
    );
    offer(manifests);
    const [first = '', second = ''] = manifests.map(digestOf);
    let breaks = 1;
    before = (path, response) => {
      if (!path.endsWith(second) || breaks-- <= 0) return undefined;
      response.destroy();
      return 'answered';
    };
    const { source } = await visit();
    await source.look(new AbortController().signal);
    expect(source.bundles()).toHaveLength(1);
    expect(front.requests.filter(({ path }) => path.endsWith(first))).toHaveLength(1);
  });

  it('is visited again when its registry wants it, and not later than at its own time', async () => {
    let wish = '1800';
    before = (_, response) => {
      response.writeHead(429, { 'retry-after': wish }).end();
      return 'answered';
    };
    expect((await visit()).pauses).toEqual([30 * MINUTE_MS]);
    wish = '999999999';
    expect((await visit()).pauses).toEqual([DAY_MS]);
  });

  it('gives nothing large when its window closes in the middle of a blob', async () => {
    let now = Date.UTC(2026, 0, 5, 22, 59);
    const windows = [{ days: [0], startMinute: 22 * 60, lengthMinutes: 60 }];
    const { source } = await visit({ windows }, { now: () => now });
    const signal = new AbortController().signal;
    let given = 0;
    const read = async () => {
      for await (const chunk of source.read(digestOf(large), given, signal)) {
        given += chunk.length;
        if (given > MiB / 2) now = Date.UTC(2026, 0, 5, 23, 0);
      }
    };
    const error = await read().catch((thrown: unknown) => thrown);
    expect(busyOf(error)).toMatchObject({
      queue: { place: 0, waitMs: 7 * DAY_MS - 60 * MINUTE_MS },
      retryMs: 10 * MINUTE_MS,
    });
    expect(given).toBeLessThan(MiB);
    now += 7 * DAY_MS - 30 * MINUTE_MS;
    await read();
    expect(given).toBe(MiB);
  });

  it('says which file it needs and cannot read, and nothing of what is in it', async () => {
    before = (_, response) => {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
      return 'answered';
    };
    const authfile = join(work, 'auth.json');
    const absent = join(work, 'absent');
    const name = `${front.host}/bundles/odd:1`;
    expect((await visit({ authfile: absent })).source.trouble()).toMatch(`${name}: ${absent} can't be read: `);
    expect((await visit({ ca: absent })).source.trouble()).toMatch(`${name}: ${absent} can't be read: `);
    for (const wrong of ['{"auths":{"x":{"auth": hush}}}', '{"auths":{"x":{"auth": 47114711}}}']) {
      writeFileSync(authfile, wrong);
      const trouble = (await visit({ authfile })).source.trouble();
      expect(trouble).toContain(`${name}: ${authfile} is not JSON of the form that it must have`);
      expect(trouble).not.toMatch(/hush|4711/);
    }
  });
});
