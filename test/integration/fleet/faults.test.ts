import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ownKeyLine } from '../../../src/fleet/identity/node-keys.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { endProcess } from '../../support/end-process.ts';
import { eventually } from '../../support/eventually.ts';
import { ForgetfulDisk, REMAINS } from '../../support/faults/lost-power.ts';
import { injectionOf, NAMED, pointsOf } from '../../support/faults/points.ts';
import { git, slice } from '../../support/faults/slice.ts';
import {
  callsIn,
  endTraced,
  type Injection,
  ONE_THREAD,
  strace,
  toldBy,
  traced,
} from '../../support/faults/system-calls.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { freePort } from '../../support/free-port.ts';
import { have } from '../../support/requirements.ts';
import { seededRandom } from '../../support/seeded-random.ts';

const folder = folderForEach();
const at = (name: string) => join(folder, name);
/** What the fleet process keeps. */
const state = at('state-fleet');
const OTHER = `sha256:${'0'.repeat(64)} host-2`;

interface Story {
  readonly program: string;
  /** Where calls fail. */
  readonly below: string;
  /** What is there before. */
  prepare?(): Promise<void>;
  /** Throws until it is there. */
  isThere(log: string): Promise<void>;
  /** Throws where it is not there, or is not as it was said first. */
  isKept(log: string): Promise<void>;
}

const keyLine = async () =>
  (await ownKeyLine({ keys_file: '/nonexistent', exclude: [] }, state)).split(' ', 1)[0] ?? '';
/** The key that it named first, if any. */
const keyIn = (log: string) => /sha256:[0-9a-f]{64}(?= \S+')/.exec(log)?.[0];

const STORIES: Readonly<Record<string, Story>> = {
  'the fleet process, which makes its key': {
    program: 'src/fleet.ts',
    below: state,
    isThere: async (log) => expect(log).toContain(await keyLine()),
    isKept: async (log) => expect(keyIn(log) ?? (await keyLine())).toBe(await keyLine()),
  },
  'the fleet process, which learns of another node': {
    program: 'src/fleet.ts',
    below: state,
    prepare: async () => writeFileSync(at('fleet.keys'), `${OTHER}\n${await keyLine()} host-1\n`),
    isThere: async (log) =>
      expect([existsSync(join(state, 'peers.json')), log.includes("peers.json can't be written")]).toContain(true),
    // Its end writes what could not be written.
    isKept: async () => {
      expect(readFileSync(join(state, 'peers.json'), 'utf8')).toContain('host-2');
      expect(readFileSync(join(state, 'name'), 'utf8')).toBe('host-1\n');
    },
  },
  'the process of the sources': {
    program: 'src/sources.ts',
    below: at('run-sources'),
    isThere: async () => expect(existsSync(at('run-sources/peers.sock'))).toBe(true),
    isKept: async () => undefined,
  },
};

async function run({ isThere }: Story, program: string, injection?: Injection) {
  const around = injection === undefined ? [process.execPath] : traced(at('trace'), injection);
  const [command = '', ...args] = [...around, program, '--config', at('stickpin.toml')];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...ONE_THREAD } });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (log += String(chunk)));
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  await eventually(() => (hasEnded() ? undefined : isThere(log))).catch((cause: unknown) => {
    throw new Error(log, { cause });
  });
  const isOver = hasEnded();
  await (injection === undefined ? endProcess : endTraced)(child, 'SIGTERM');
  return { log, isOver, calls: injection === undefined ? [] : callsIn(at('trace')) };
}

describe.runIf(have(strace, git)).each(Object.entries(STORIES))('%s', (what, story) => {
  let program: string;
  beforeAll(async () => {
    program = await bundleIntoCache(story.program, what.includes('fleet') ? 'fleet' : 'sources');
  });
  beforeEach(async () => {
    const port = await freePort();
    writeFileSync(
      at('stickpin.toml'),
      `[paths]\nrun_dir = "${at('run')}"\nstate_dir = "${at('state')}"\n[fleet]\nenabled = true\nauth = "keys"\nkeys_file = "${at('fleet.keys')}"\nlisten = "127.0.0.1:${port}"\npeers = ["127.0.0.1:1"]\n[sources.edge]\nreference = "127.0.0.1:1/edge:1"\n`,
    );
  });

  const renew = async () => {
    for (const path of [state, at('run-fleet'), at('run-sources'), at('fleet.keys')])
      rmSync(path, { recursive: true, force: true });
    for (const path of ['state', 'run', 'state-fleet', 'run-fleet', 'run-sources'])
      mkdirSync(at(path), { recursive: true });
    writeFileSync(at('fleet.keys'), `${OTHER}\n`);
    if (story.prepare === undefined) return;
    await run(Object.values(STORIES)[0] ?? story, program);
    await story.prepare();
  };
  const expectKept = (log: string, why: string) =>
    story.isKept(log).catch((cause: unknown) => {
      throw new Error(`${why}\n${log}`, { cause });
    });

  it('comes to the same end, whatever call fails once', { timeout: 3_600_000 }, async () => {
    await renew();
    const { points, paths } = pointsOf((await run(story, program, {})).calls, story.below, NAMED);
    for (const point of slice(`calls of ${what} that fail`, points, 10)) {
      await renew();
      const first = await run(story, program, injectionOf(point, paths, NAMED));
      const log = first.isOver ? `${first.log}${(await run(story, program)).log}` : first.log;
      await expectKept(log, JSON.stringify(point));
    }
  });

  if (story.below !== state) return;
  it('keeps what it has said after a power cut at each sync', { timeout: 3_600_000 }, async () => {
    await renew();
    const before = join(folder, 'before');
    cpSync(state, before, { recursive: true });
    const { calls } = await run(story, program, {});
    const syncs = calls.flatMap(({ name }, index) => (/sync/.test(name) ? [index] : []));
    for (const end of [...syncs, calls.length]) {
      for (const remains of REMAINS) {
        rmSync(state, { recursive: true });
        cpSync(before, state, { recursive: true });
        const disk = new ForgetfulDisk(state);
        for (const call of calls.slice(0, end)) disk.follow(call);
        rmSync(state, { recursive: true });
        disk.write(state, remains, seededRandom(end));
        const said = toldBy(calls.slice(0, end));
        const { log } = await run(story, program);
        await expectKept(`${said}${log}`, `call ${end}, ${remains}`);
      }
    }
  });
});
