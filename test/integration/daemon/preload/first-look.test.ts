import { beforeEach, describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { type MediaProvider, type MediaSink, openFolderMedium } from '../../../../src/media/media-provider.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';

/* systemd takes a while to tell of the sticks that are plugged in when the daemon starts. */
describe('a daemon that is restarted with the stick plugged in', () => {
  let harness: DaemonHarness;
  let bundle: SampleBundle;
  let gate: StickGate;
  /** Tells of the stick, if it is in, and that the first look is over. */
  let finishLook: () => void;
  let isStickIn: boolean;

  const slowProvider = (): MediaProvider => {
    let isDone = false;
    let sink: MediaSink | undefined;
    finishLook = () => {
      isDone = true;
      const medium = {
        mediumId: '7-sdb1',
        label: 'sdb1',
        isDropFolder: false,
        open: async () => openFolderMedium(bundle.path, 'bundle'),
        isThere: async () => true,
        release: async () => undefined,
      } as const;
      if (isStickIn) sink?.arrived(medium);
      sink?.listed?.();
    };
    return {
      start: async (to) => {
        sink = to;
      },
      isListed: () => isDone,
      rescan: async () => undefined,
      dispose: async () => undefined,
    };
  };

  beforeEach(async () => {
    gate = createStickGate();
    harness = await createDaemonHarness({ providers: () => [slowProvider()], watchBundle: gate.watchBundle });
    bundle = await harness.make();
    isStickIn = true;
    gate.hold(bundle.contents.layers.at(-1)?.digest as Digest, 0);
    await harness.start();
    await started();
    finishLook();
    await gate.reached();
    await harness.stop();
    gate.release();
    await harness.start();
    await started();
  });
  const now = () => harness.engine.report();
  const started = () => expect.poll(now, { timeout: 60_000 }).toBeDefined();

  it('does not report a removal before the media were read, and continues when the stick is found', async () => {
    const from = harness.statuses.length - 1;
    expect(now()?.status).toMatch(/: stickpin has just started and checks whether ocp 4\.13\.7 is plugged in\./);
    expect(now()?.bundles[0]).toMatchObject({ phase: 'held', hold: 'media', reason: { code: 'media/looking' } });
    finishLook();
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    expect(harness.statuses.slice(from).join('\n')).not.toContain('removed while');
    expect(harness.log.lines.map(({ message }) => message).join('\n')).not.toContain('removed while');
  });

  it('reports it once all media were read and the stick is missing', async () => {
    isStickIn = false;
    finishLook();
    const report = await harness.until(({ status }) => status.includes(': Stick removed while preloading ocp 4.13.7'));
    expect(report.bundles[0]?.reason?.code).toBe('engine/no-source');
  });
});
