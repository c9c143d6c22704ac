import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { ForgetfulDisk, REMAINS } from '../../support/faults/lost-power.ts';
import { injectionOf, type Point, pointsOf } from '../../support/faults/points.ts';
import { git, slice } from '../../support/faults/slice.ts';
import { runTraced, type SystemCall, strace, toldBy } from '../../support/faults/system-calls.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { faultsOf, STORY, type Told, toldIn } from '../../support/state/node-files.ts';

/** All that stickpin records of two releases, of which the first one goes: see `node-files.ts`. */
describe.runIf(have(strace, git))('a story of two releases', { timeout: 3_600_000 }, () => {
  const folder = folderForEach();
  const [state, cut] = [join(folder, 'state'), join(folder, 'cut')];
  let recorder: string;
  beforeAll(async () => {
    recorder = await bundleIntoCache('test/support/state/record-story.ts', 'record-story');
  });

  const renew = () => {
    for (const path of [state, cut, `${state}-standby`]) rmSync(path, { recursive: true, force: true });
    mkdirSync(state);
  };
  const traced = (point?: Point, paths: readonly string[] = []) => {
    renew();
    return runTraced(folder, [recorder, state], point === undefined ? {} : injectionOf(point, paths));
  };
  /** What is wrong after a power cut that leaves this. */
  const afterCut = async (calls: readonly SystemCall[], remains: (typeof REMAINS)[number], told: Told) => {
    rmSync(state, { recursive: true });
    mkdirSync(state);
    const disk = new ForgetfulDisk(state);
    for (const call of calls) disk.follow(call);
    disk.write(cut, remains, seededRandom(calls.length));
    const faults = await faultsOf(cut, told);
    rmSync(cut, { recursive: true });
    return faults.map((fault) => `after a power cut: ${fault}`);
  };
  /** What is wrong at the end of the story, to which another process comes if this one ended. */
  const atEnd = async (told: Told) => {
    if (told.done.length === STORY.length) return faultsOf(state, told);
    const next = spawnSync(process.execPath, [recorder, state, `${told.done.length}`], { encoding: 'utf8' });
    const { begun, done, log, codes } = toldIn(next.stdout);
    const all = { ...told, begun: [...told.begun, ...begun], done: [...told.done, ...done] };
    if (all.done.length < STORY.length) return [`it stays at ${all.done.at(-1)}: ${next.stdout}${next.stderr}`];
    return [...log, ...codes, ...(await faultsOf(state, all))];
  };
  /** Only a start may fail for good: systemd makes another one. */
  const endedAt = (stdout: string) => /\{"failed":"(?!start").*\}\n$/.exec(stdout)?.[0];

  it('goes on where any of its calls has failed once, or ended the process', async () => {
    const { calls } = traced();
    const { points, paths } = pointsOf(calls, state);
    const found: string[] = [];
    let told = 0;
    for (const point of slice('calls that fail', points, 40)) {
      const first = traced(point, paths);
      const said = toldIn(first.stdout);
      const wrong = [endedAt(first.stdout) ?? []].flat();
      if (said.codes.length + said.log.length > 0) told += 1;
      wrong.push(...(await atEnd(said)));
      if (!isUnseen(first.calls, state)) wrong.push(...(await afterCut(first.calls, 'nothing', said)));
      found.push(...wrong.map((one) => `${point.call} ${point.at} ${point.fault}: ${one}`));
    }
    process.stderr.write(`${told} of them were told\n`);
    expect(found).toEqual([]);
  });

  it('goes on where a write was cut short, and the next ones failed for a while', async () => {
    const sizes = traced().calls.flatMap(({ name, args, result, paths: [path = ''] }) => {
      if (!path.startsWith(state) || !/^p?write/.test(name)) return [];
      return (name === 'pwrite64' ? Number(args.at(-1)) : 0) + Math.ceil(result / 2);
    });
    const found: string[] = [];
    for (const bytes of slice('short writes', [...new Set(sizes)], 5)) {
      renew();
      const child = spawn('prlimit', [`--fsize=${bytes}:unlimited`, process.execPath, recorder, state]);
      let output = '';
      child.stdout.on('data', (chunk) => {
        output += String(chunk);
        if (!/"(?:failed|log)"/.test(output)) return;
        spawnSync('prlimit', ['--pid', `${child.pid}`, '--fsize=unlimited:unlimited']);
      });
      await once(child, 'close');
      const wrong = [endedAt(output) ?? [], ...(await atEnd(toldIn(output)))].flat();
      found.push(...wrong.map((one) => `${bytes} bytes: ${one}`));
    }
    expect(found).toEqual([]);
  });

  it('loses nothing that was recorded with a power cut at any of its syncs', async () => {
    const { status, calls } = traced();
    expect(status).toBe(0);
    const syncs = calls.flatMap(({ name }, at) => (/sync/.test(name) ? [at] : []));
    const points = [...syncs, calls.length].flatMap((at) => REMAINS.map((remains) => ({ at, remains })));
    const found: string[] = [];
    for (const { at, remains } of slice('power cuts', points, 40)) {
      const before = calls.slice(0, at);
      const wrong = await afterCut(before, remains, toldIn(toldBy(before)));
      found.push(...wrong.map((one) => `call ${at}, ${remains}: ${one}`));
    }
    expect(found).toEqual([]);
  });
});

/** SQLite ignores a failed sync of a folder. */
function isUnseen(calls: readonly SystemCall[], state: string): boolean {
  const [{ thread } = { thread: '' }] = calls;
  const isRecorded = calls.some(({ paths: [path = ''] }) => path.startsWith('pipe:'));
  return !isRecorded || calls.some((call) => call.isInjected && call.thread === thread && call.paths[0] === state);
}
