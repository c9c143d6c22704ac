import { beforeEach, describe, expect, it } from 'vitest';
import type { UpdateRules } from '../../../../src/domain/model/bundle.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type SettingsOverrides,
} from '../../../support/daemon/daemon-harness.ts';
import { createShiftedClock, type ShiftedClock } from '../../../support/daemon/shifted-clock.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STREAMS = ['edge', 'ocp', 'tools'] as const;
/** Tuesday 14:00 to 14:10. */
const WINDOW = { days: [1], startMinute: 14 * 60, lengthMinutes: 10 };
const IN_WINDOWS: SettingsOverrides = { update: { strategy: 'window', windows: [WINDOW], time_zone: 'UTC' } };
const key = sampleKey();

/** Tuesday 14:00 in UTC, of the week after this one. */
function opening(): number {
  const midnight = Math.floor(Date.now() / DAY) * DAY;
  const daysToTuesday = (2 - new Date(midnight).getUTCDay() + 7) % 7;
  return midnight + (daysToTuesday + 7) * DAY + 14 * HOUR;
}

/** Which tags were being moved at the same time, and in which order. */
function watchTags() {
  const moved: string[] = [];
  const together = new Set<string>();
  const open: string[] = [];
  const watch = (runtime: RuntimeAdapter): RuntimeAdapter => ({
    ...runtime,
    addTag: async (tag, reference, signal) => {
      const stream = tag.split('/')[1] ?? '';
      for (const other of open) if (other !== stream) together.add([other, stream].sort().join(' with '));
      open.push(stream);
      if (moved.at(-1) !== stream) moved.push(stream);
      try {
        return await runtime.addTag(tag, reference, signal);
      } finally {
        open.splice(open.indexOf(stream), 1);
      }
    },
  });
  return { watch, moved, together };
}

const factory = folderForEach();
let node: DaemonHarness;
let clock: ShiftedClock;
let tags: ReturnType<typeof watchTags>;

beforeEach(() => {
  clock = createShiftedClock();
  tags = watchTags();
});

const setClock = (time: number) => clock.jump(time - clock.now());
const start = async (settings: SettingsOverrides) => {
  node = await createDaemonHarness({ settings, clock, keys: [key], watchRuntime: tags.watch });
  await node.start();
};
/** A release with four images of its own. */
const release = (name: string, update?: UpdateRules): Promise<SampleBundle> =>
  makeSampleBundle({
    dir: factory,
    name,
    keys: [key],
    images: ['a', 'b', 'c', 'd'].map((image) => ({
      reference: `quay.example.com/${name}/${image}:1`,
      image: sampleImage({ seed: `${name}-${image}` }),
    })),
    ...(update !== undefined && { update }),
  });
const plugAll = async (update?: UpdateRules) => {
  const made = await Promise.all(STREAMS.map((name) => release(name, update)));
  node.plug(...made.map(({ path }) => path));
};
const phases = ({ bundles }: StatusReport) => bundles.map(({ name, phase }) => `${name} ${phase}`).sort();
const all = (phase: string) => STREAMS.map((name) => `${name} ${phase}`);
const untilAll = (phase: string) => node.until((report) => phases(report).join() === all(phase).join(), 40_000);
const codes = ({ bundles }: StatusReport) =>
  bundles.map(({ activationHolds = [] }) => activationHolds.map(({ code }) => code).join());
/**
 * Sets the clock to a moment before this time. Then nobody tells the daemon: it wakes by itself.
 */
const setShortlyBefore = (time: number) => {
  setClock(time - 2 * SECOND);
  node.engine.kick();
};

describe('releases of several streams with update.strategy = "window"', () => {
  it('are ready and held before the window, and activated one after the other when it opens', async () => {
    const opensAt = opening();
    setClock(opensAt - HOUR);
    await start(IN_WINDOWS);
    await plugAll();
    const held = await untilAll('ready');
    expect(codes(held)).toEqual(['window', 'window', 'window']);
    expect(held.status).toMatch(/is loaded, not activated: it waits for the next window, Tue \S+ 14:00 \(UTC\)/);
    expect(held.bundles.map(({ images }) => images)).toEqual(STREAMS.map(() => ({ total: 4, present: 4, pinned: 4 })));
    expect(tags.moved).toEqual([]);
    setShortlyBefore(opensAt);
    await untilAll('activated');
    expect(tags.moved).toHaveLength(STREAMS.length);
    expect([...tags.moved].sort()).toEqual([...STREAMS]);
    expect([...tags.together]).toEqual([]);
    expect(clock.now()).toBeGreaterThanOrEqual(opensAt);
  });

  it('wait for the next window when they arrive after it, and a person may activate one of them before', async () => {
    const opensAt = opening();
    setClock(opensAt + 11 * MINUTE);
    await start(IN_WINDOWS);
    await plugAll();
    const held = await untilAll('ready');
    const next = new Date(opensAt + 7 * DAY).toISOString();
    expect(held.bundles.map(({ activationHolds = [] }) => activationHolds[0]?.until)).toEqual([next, next, next]);
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(/waits for the next window/);
    node.engine.commands.activate({ bundle: 'ocp@4.13.7', override: true });
    await node.until((report) => phases(report).join() === 'edge ready,ocp activated,tools ready');
    setClock(opensAt + 7 * DAY);
    node.engine.kick();
    await untilAll('activated');
    expect(tags.moved[0]).toBe('ocp');
    expect([...tags.together]).toEqual([]);
  });

  it('are held by a clock that can not be right, and continue once it is', async () => {
    const opensAt = opening();
    setClock(Date.parse('2001-01-02T14:05:00Z'));
    await start(IN_WINDOWS);
    await plugAll();
    const held = await untilAll('ready');
    expect(codes(held)).toEqual(['clock', 'clock', 'clock']);
    expect(held.status).toContain('the clock of this node is wrong: it shows');
    setClock(opensAt + SECOND);
    node.engine.kick();
    await untilAll('activated');
  });
});

describe('turns of a node in rollouts', () => {
  it('come for each stream at its own time, in windows only', async () => {
    const opensAt = opening();
    setClock(opensAt - HOUR);
    await start({ update: { ...IN_WINDOWS.update, rollout_wariness: 0.5 } });
    /** A rollout in which half of the nodes have had their turn at this time. */
    const halfAt = (time: number): UpdateRules => ({
      rollout: { start: new Date(time - MINUTE / 2).toISOString(), durationMinutes: 1 },
    });
    const early = await release('edge', halfAt(opensAt - 2 * HOUR));
    const late = await release('ocp', halfAt(opensAt + 5 * MINUTE));
    const never = await release('tools', halfAt(opensAt + HOUR));
    node.plug(early.path, late.path, never.path);
    const held = await untilAll('ready');
    const holdsOf = (report: StatusReport, name: string) =>
      report.bundles.find((one) => one.name === name)?.activationHolds?.map(({ code }) => code);
    expect(holdsOf(held, 'edge')).toEqual(['window']);
    expect(holdsOf(held, 'ocp')).toEqual(['rule/rollout', 'window']);
    setShortlyBefore(opensAt);
    const first = await node.until((report) => phases(report)[0] === 'edge activated', 40_000);
    expect(phases(first)).toContain('ocp ready');
    expect(holdsOf(first, 'ocp')).toEqual(['rule/rollout']);
    setShortlyBefore(opensAt + 5 * MINUTE);
    await node.until((report) => phases(report).join() === 'edge activated,ocp activated,tools ready', 40_000);
    expect(clock.now()).toBeGreaterThanOrEqual(opensAt + 5 * MINUTE);
    expect(holdsOf(node.report(), 'tools')).toEqual(['rule/rollout']);
    expect(tags.moved).toEqual(['edge', 'ocp']);
  });
});
