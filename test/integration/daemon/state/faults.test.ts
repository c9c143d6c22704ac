import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { startMortalDaemon } from '../../../support/daemon/mortal-daemon/start-mortal-daemon.ts';
import { ForgetfulDisk, REMAINS } from '../../../support/faults/lost-power.ts';
import { injectionOf, pointsOf } from '../../../support/faults/points.ts';
import { git, slice } from '../../../support/faults/slice.ts';
import { callsIn, type Injection, strace, toldBy, traced } from '../../../support/faults/system-calls.ts';
import { have } from '../../../support/requirements.ts';
import { seededRandom } from '../../../support/seeded-random.ts';
import { openSampleState } from '../../../support/state/open-sample-state.ts';

/** From an empty state directory, with a stick plugged in, to its release activated. */
class DaemonStory {
  private constructor(
    readonly harness: DaemonHarness,
    readonly bundle: SampleBundle,
    readonly state: string,
  ) {}

  static async make(): Promise<DaemonStory> {
    const harness = await createDaemonHarness();
    const bundle = await harness.make();
    harness.plug(bundle.path);
    return new DaemonStory(harness, bundle, harness.settings.paths.state_dir);
  }

  /** Of a node that never ran stickpin. */
  renew(): void {
    for (const path of [this.state, this.harness.settings.paths.run_dir])
      rmSync(path, { recursive: true, force: true });
    mkdirSync(this.state);
  }

  isDone({ operation, bundles: [bundle] }: StatusReport): boolean {
    const { total, present, pinned } = bundle?.images ?? { total: 0, present: 0, pinned: 0 };
    return operation === 'idle' && bundle?.phase === 'activated' && total > 0 && present === total && pinned === total;
  }

  start(around: readonly string[] = []) {
    return startMortalDaemon({ settings: this.harness.settings, crioPid: process.pid }, around);
  }

  /** Until it is done, with another start where the daemon ends. */
  async run(injection?: Injection) {
    const trace = this.harness.at('trace');
    const daemon = await this.start(traced(trace, injection));
    let hasEnded = false;
    try {
      await daemon.until((one) => this.isDone(one));
    } catch (error) {
      hasEnded = daemon.hasEnded();
      if (!hasEnded) throw error;
    } finally {
      await daemon.stop();
    }
    if (hasEnded) await this.live();
    return { log: daemon.log(), calls: callsIn(trace), hasEnded };
  }

  /** A start without faults. */
  async live(): Promise<void> {
    const daemon = await this.start();
    try {
      await daemon.until((one) => this.isDone(one));
    } finally {
      await daemon.stop();
    }
  }

  /** What is recorded, and what is not as it was reported. */
  wrongWith(report: StatusReport | undefined): readonly string[] {
    const { store, loss, mirror, close } = openSampleState(join(this.state, 'state.db'));
    try {
      const [told, found] = [report?.bundles[0], store.load().bundles[0]];
      const wrong = [...(loss === undefined ? [] : [loss.message]), ...mirror.unreadable()];
      // A person acts on that.
      if (report?.advice.action === 'remove') {
        if (found?.readyAt === undefined) wrong.push('it is not ready');
        if (told?.phase === 'activated' && found?.activatedAt === undefined) wrong.push('it is not activated');
      }
      if (told?.phase === 'activated') {
        const floors = store.document('floors') ?? '';
        if (!floors.includes(`["ocp",${told.sequence}]`)) wrong.push(`the floors are ${floors}`);
      }
      const names = readdirSync(this.state, { recursive: true, encoding: 'utf8' });
      return [...wrong, ...names.filter((name) => name.includes('.damaged-'))];
    } finally {
      close();
    }
  }
}

/** The last one that was sent as a whole. */
function reportIn(output: string): StatusReport | undefined {
  const whole = output.slice(0, output.lastIndexOf('\n') + 1);
  const lines = whole.split('\n').filter((line) => line.startsWith('{') && line.includes('"bundles":'));
  return lines.length === 0 ? undefined : JSON.parse(lines.at(-1) ?? '');
}

/** `{}`: nothing is injected. */
const NONE: Injection = {};

describe.runIf(have(strace, git))('the daemon, from a stick to an activation', { timeout: 5_400_000 }, () => {
  it('comes there by itself, whatever call of it fails once', async () => {
    const story = await DaemonStory.make();
    story.renew();
    const { points, paths } = pointsOf((await story.run(NONE)).calls, story.state);
    const found: string[] = [];
    let told = 0;
    for (const point of slice('calls of the daemon that fail', points, 10)) {
      story.renew();
      const { log, calls, hasEnded } = await story.run(injectionOf(point, paths)).catch((cause: unknown) => {
        throw new Error(JSON.stringify(point), { cause });
      });
      if (/"level":"(?:warn|error)"/.test(log)) told += 1;
      const report = reportIn(toldBy(calls));
      const wrong = [...story.wrongWith(report)];
      // systemd makes another start, and a start alone may fail.
      if (hasEnded && report !== undefined && point.fault !== 'KILL') wrong.push(`it ended: ${log.slice(-1_000)}`);
      found.push(...wrong.map((fault) => `${JSON.stringify(point)}: ${fault}`));
    }
    process.stderr.write(`${told} of them were told\n`);
    expect(found).toEqual([]);
  });

  it('comes there again after a power cut at each sync, and knows what it has reported', async () => {
    const story = await DaemonStory.make();
    story.renew();
    const { calls } = await story.run(NONE);
    const syncs = calls.flatMap(({ name }, at) => (/sync/.test(name) ? [at] : []));
    const points = [...syncs, calls.length].flatMap((at) => REMAINS.map((remains) => ({ at, remains })));
    for (const { at, remains } of slice('power cuts of the daemon', points, 10)) {
      story.renew();
      const disk = new ForgetfulDisk(story.state);
      for (const call of calls.slice(0, at)) disk.follow(call);
      disk.write(story.state, remains, seededRandom(at));
      // The images are the runtime's.
      rmSync(join(story.state, 'images'), { recursive: true, force: true });
      const what = `call ${at}, ${remains}`;
      expect(story.wrongWith(reportIn(toldBy(calls.slice(0, at)))), what).toEqual([]);
      await story.live().catch((cause: unknown) => {
        throw new Error(what, { cause });
      });
    }
  });
});
