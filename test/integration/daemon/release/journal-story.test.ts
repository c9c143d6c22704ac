import { afterEach, expect, it } from 'vitest';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';

let harness: DaemonHarness;
afterEach(() => harness.dispose());

it('a good release tells its story in under 20 lines of the journal, beside one for each image', async () => {
  harness = await createDaemonHarness();
  const bundle = await makeSampleBundle({ dir: `${harness.base}/factory`, keys: [harness.key] });
  await harness.start();
  await harness.until(({ operation }) => operation === 'idle');
  const from = harness.log.lines.length;
  harness.plug(bundle.path);
  const done = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated', 30_000);
  harness.unplug();
  await harness.until(({ media }) => media.every(({ bundles }) => bundles === 0));
  await harness.rounds();
  const told = harness.log.lines.slice(from).filter(({ level }) => level !== 'debug');
  const ofImages = told.filter(({ message }) => message.startsWith('Pulled '));
  expect(ofImages).toHaveLength(done.bundles[0]?.images.total ?? -1);
  const story = told.filter((line) => !ofImages.includes(line)).map(({ message }) => message);
  expect(story.length, story.join('\n')).toBeLessThan(20);
  // Each line says what kind it is, so that journalctl -x explains it.
  expect(told.filter(({ fields }) => fields.messageId === undefined).map(({ message }) => message)).toEqual([]);
  expect(told.filter(({ level }) => level !== 'info').map(({ message }) => message)).toEqual([]);
});
