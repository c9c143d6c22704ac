import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { BundleReader } from '../../../../src/bundle/read/bundle-reader.ts';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { MEDIUM_CALLS } from '../../../../src/media/loaded-media.ts';
import type { BundleAccess } from '../../../../src/media/media-provider.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { ocpImages } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

/*
 * A stick whose calls do not return. Each keeps a thread of Node.js, as a call to a device does: it
 * opens a pipe for reading, which waits for a writer.
 */
describe('a stick that hangs', () => {
  let harness: DaemonHarness;
  const factory = folderForEach();
  let bundle: SampleBundle;
  let layers: ReadonlySet<Digest>;
  let pipe: string;
  /** The writer of the pipe, which ends what hangs. */
  let writer: number | undefined;
  let hung: number;
  let most: number;
  /** How many pulls were begun. */
  let pulls: number;
  /** How often each blob was looked for since the first pull began. */
  let lookups: Map<Digest, number>;
  /** Calls that hang once a pull has begun. */
  let hanging: 'reads' | 'lookups';

  const hang = async (): Promise<void> => {
    hung += 1;
    most = Math.max(most, hung);
    const reader = await open(pipe);
    hung -= 1;
    await reader.close();
  };
  const answer = (): void => {
    writer ??= openSync(pipe, constants.O_RDWR);
  };

  const hangIn = async (call: typeof hanging, digest: Digest): Promise<void> => {
    if (call === hanging && pulls > 0 && layers.has(digest)) await hang();
  };

  const slowed = ({ reader }: BundleAccess): BundleAccess => {
    const slow: BundleReader = {
      ...reader,
      sizeOf: async (digest, signal) => {
        // The first one belongs to the manifest, the second one to the blob itself.
        if (pulls > 0) lookups.set(digest, (lookups.get(digest) ?? 0) + 1);
        if ((lookups.get(digest) ?? 0) > 1) await hangIn('lookups', digest);
        return reader.sizeOf(digest, signal);
      },
      async *read(digest, startByte, signal, allocate) {
        await hangIn('reads', digest);
        yield* reader.read(digest, startByte, signal, allocate);
      },
    };
    return { reader: slow, blobs: slow };
  };

  const counting = (runtime: RuntimeAdapter): RuntimeAdapter => ({
    ...runtime,
    pull: (reference, signal) => {
      pulls += 1;
      return runtime.pull(reference, signal);
    },
  });

  beforeEach(async () => {
    pipe = join(factory, 'pipe');
    execFileSync('mkfifo', [pipe]);
    [hung, most, pulls, writer] = [0, 0, 0, undefined];
    lookups = new Map();
    harness = await createDaemonHarness({
      settings: { preload: { parallel: 6, stall: 1_000 } },
      watchBundle: slowed,
      watchRuntime: counting,
    });
    bundle = await harness.make({
      images: ocpImages([...'abcdef'], { sizeBytes: 64 * 1024 }),
    });
    layers = new Set(bundle.contents.layers.map(({ digest }) => digest));
  });
  afterEach(async () => {
    answer();
    await harness.dispose();
    if (writer !== undefined) closeSync(writer);
  });

  it.each(['reads', 'lookups'] as const)(
    'in its %s is named in STATUS, leaves other files readable however often it is tried, and goes on when it answers',
    async (calls) => {
      hanging = calls;
      await harness.start(bundle.path);
      const { status } = await harness.until((report) => report.status.includes('makes no progress'));
      expect(status).toMatch(/ 0\/6 images\b.*\. Problem: The stick delivers nothing, or a pull makes no progress\./);
      // Each image three times.
      await expect.poll(() => pulls, { timeout: 60_000 }).toBeGreaterThan(12);
      expect([hung, most]).toEqual([MEDIUM_CALLS.ofOne, MEDIUM_CALLS.ofOne]);
      expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toBe('');
      answer();
      await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    },
  );
});
