import { cpSync, mkdirSync, renameSync, rmSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const MIB = 1024 * 1024;
const STATES = ['good', 'damaged', 'truncated', 'absent'] as const;
type State = (typeof STATES)[number];
const shared = sampleLayer({ seed: 'shared', sizeBytes: 2 * MIB });

function put(file: string, state: State): void {
  if (state === 'absent') rmSync(file);
  if (state === 'truncated') truncateSync(file, 1000);
  if (state === 'damaged') flipByte(file);
}

/*
 * Nothing waits without a reason that is shown: two bundles have a layer, or an image, in
 * common, of which each copy may be good, bad or absent.
 */
describe.each([
  ['share a layer', 'on one stick', ['left', 'left']],
  ['share a layer', 'on two sticks', ['left', 'right']],
  ['share an image', 'on one stick', ['left', 'left']],
  ['share an image', 'on two sticks', ['left', 'right']],
] as const)('two bundles that %s, %s', (what, _where, ports) => {
  let harness: DaemonHarness;
  const factory = folderForEach();
  beforeEach(async () => {
    const directories = ['left', 'right'].map((name) => join(factory, name));
    harness = await createDaemonHarness({ settings: { media: { directories } } });
  });

  const make = (name: string): Promise<SampleBundle> => {
    const isShared = what === 'share an image';
    const repository = isShared ? 'common' : name;
    const own = isShared ? [] : [sampleLayer({ seed: name, sizeBytes: MIB })];
    return harness.make({
      name,
      images: [
        {
          reference: `quay.example.com/${repository}/app:1`,
          image: sampleImage({ seed: repository, layers: [...own, shared] }),
        },
      ],
    });
  };

  it.each(STATES.flatMap((first) => STATES.map((second) => [first, second] as const)))(
    '%s in one and %s in the other: each is loaded, or says what it waits for',
    async (...states) => {
      const bundles = [await make('one'), await make('two')] as const;
      bundles.forEach((bundle, at) => {
        const copy = join(factory, `${ports[at]}-prepared/stickpin`, basename(bundle.path));
        mkdirSync(join(copy, '..'), { recursive: true });
        cpSync(bundle.path, copy, { recursive: true });
        put(join(copy, 'blobs/sha256', hexOf(shared.digest as Digest)), states[at] ?? 'good');
      });
      for (const port of new Set(ports)) renameSync(join(factory, `${port}-prepared`), join(factory, port));
      await harness.start();
      const isGood = states.includes('good');
      const isEnded = ({ bundles: shown }: StatusReport) =>
        shown.length === 2 &&
        shown.every(({ phase, hold, reason }) =>
          isGood ? phase === 'activated' : phase === 'held' && hold === 'media' && reason !== undefined,
        );
      const report = await harness.until(isEnded, 60_000);
      const named = report.bundles.filter(({ reason }) => reason?.message.includes(shared.digest.slice(0, 19)));
      expect(named).toHaveLength(isGood ? 0 : 2);
      const wrong = [...ports].filter((_, at) => states[at] === 'damaged');
      const told = harness.log.lines.filter(({ fields }) => fields.messageId === messageIds.blobDamaged);
      if (!isGood && wrong.length > 0)
        expect(wrong.map((port) => join(factory, port))).toContain(told[0]?.fields.medium);
    },
  );
});
