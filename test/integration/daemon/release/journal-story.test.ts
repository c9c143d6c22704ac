import { expect, it } from 'vitest';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';

let harness: DaemonHarness;

/** As many as a release of OpenShift 4.13 has. */
const IMAGES = Array.from({ length: 112 }, (_, index) => ({
  reference: `quay.example.com/ocp/image-${index}:4.13.7`,
  image: sampleImage({ seed: `image-${index}` }),
}));

it('a good release of 112 images tells its story in under 20 lines of the journal', async () => {
  harness = await createDaemonHarness();
  const bundle = await makeSampleBundle({ dir: `${harness.base}/factory`, keys: [harness.key], images: IMAGES });
  await harness.start();
  await harness.until(({ operation }) => operation === 'idle');
  const from = harness.log.lines.length;
  harness.plug(bundle.path);
  const done = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated', 30_000);
  harness.unplug();
  await harness.until(({ media }) => media.every(({ bundles }) => bundles === 0));
  await harness.rounds();
  const all = harness.log.lines.slice(from);
  const told = all.filter(({ level }) => level !== 'debug');
  const story = told.map(({ message }) => message);
  expect(story.length, story.join('\n')).toBeLessThan(20);
  // Each image is told of by whoever asks for it: log.level = "debug", or the history.
  expect(done.bundles[0]?.images.total).toBe(IMAGES.length);
  expect(all.filter(({ fields }) => fields.messageId === messageIds.imagePulled)).toHaveLength(IMAGES.length);
  const history = harness.history();
  expect(history.filter(({ kind }) => kind === 'imagePulled')).toHaveLength(IMAGES.length);
  // Each line says what kind it is, so that journalctl -x explains it.
  expect(told.filter(({ fields }) => fields.messageId === undefined).map(({ message }) => message)).toEqual([]);
  expect(told.filter(({ level }) => level !== 'info').map(({ message }) => message)).toEqual([]);
});
