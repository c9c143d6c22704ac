import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import {
  hostileContents,
  largeContents,
  largestCounts,
  writeContentsBundle,
} from '../../../support/bundles/large-contents.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { buildDocumentWorker } from '../../../support/document-worker.ts';
import { folderForAll } from '../../../support/files/temporary-folder.ts';
import { watchLoop } from '../../../support/loop-watch.ts';

const MIB = 1024 * 1024;

/* Signed, so that all of it is read: a factory's mistake, or a key in the wrong hands. */
describe('a bundle with a huge contents.json does not block the daemon', () => {
  const factory = folderForAll();
  let documentWorker: URL;
  let harness: DaemonHarness | undefined;

  beforeAll(async () => {
    documentWorker = await buildDocumentWorker(factory);
  });
  afterEach(async () => {
    await harness?.dispose();
    harness = undefined;
  });

  const start = async (): Promise<DaemonHarness> => {
    harness = await createDaemonHarness({ documentWorker });
    await harness.start();
    return harness;
  };

  /**
   * How long this machine takes now only to parse such a text, with nothing else done meanwhile.
   */
  const parseMs = (text: string): number => {
    const began = performance.now();
    JSON.parse(text);
    return performance.now() - began;
  };

  it('60 MiB: rejected by its size, and the next stick is loaded', async () => {
    const node = await start();
    const text = hostileContents['empty objects']?.(60 * MIB) ?? '';
    const path = join(factory, 'huge');
    writeContentsBundle({ path, key: node.key, bytes: Buffer.from(text) });
    node.plug(path);
    const { status } = await node.until(({ rejected }) => rejected.length > 0);
    expect(status).toMatch(/: Rejected bundle .*contents\.json is too large to be read: it has 60 MiB/);
    node.unplug();
    await node.until(({ rejected }) => rejected.length === 0);
    await node.load((await node.make({ dir: join(factory, 'good') })).path);
  });

  it.each(['empty objects', 'arrays within each other'])(
    '15 MiB of %s: the event loop is not blocked',
    async (shape) => {
      const node = await start();
      const text = hostileContents[shape]?.(15 * MIB) ?? '';
      const path = join(factory, shape);
      writeContentsBundle({ path, key: node.key, bytes: Buffer.from(text) });
      node.plug(path);
      const { longestMs, result } = await watchLoop(() => node.until(({ rejected }) => rejected.length > 0));
      expect(result.status).toMatch(/: Rejected bundle .*contents\.json is too large to be read: it has more than /);
      expect(longestMs).toBeLessThan(parseMs(text) / 2);
    },
  );

  it('the largest accepted size: adopted, and known after the next start', async () => {
    const node = await start();
    const contents = largeContents(largestCounts);
    const path = join(factory, 'largest');
    writeContentsBundle({ path, key: node.key, bytes: Buffer.from(JSON.stringify(contents)), contents });
    node.plug(path);
    const isHeld = ({ bundles }: StatusReport) => bundles[0]?.hold === 'media' && bundles[0].images.total === 2000;
    await node.until(isHeld);
    await node.restart();
    await node.until(isHeld);
  });
});
