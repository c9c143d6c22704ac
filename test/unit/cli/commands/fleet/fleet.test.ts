import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { commandAdapters } from '../../../../../src/app/command-line/command-adapters.ts';
import { NODE_DOCUMENTS } from '../../../../../src/cli/schema/documents.ts';
import { loadSettings } from '../../../../../src/config/load-settings.ts';
import type { FleetNode, FleetView, Peer, ReleaseStatus } from '../../../../../src/domain/fleet/node-status.ts';
import { newPause } from '../../../../../src/domain/fleet/pause.ts';
import { digestFromHex } from '../../../../../src/domain/model/digest.ts';
import { JSON_SCHEMA_VERSION } from '../../../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../../../src/platform/app-error.ts';
import { folderForEach } from '../../../../support/files/temporary-folder.ts';
import { runCommand } from '../../../../support/run-command.ts';

const NOW = Date.parse('2026-03-04T05:06:07.890Z');
const RELEASE: ReleaseStatus = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' };
const OFFER = {
  bundleId: digestFromHex('a'.repeat(64)),
  name: 'ocp',
  version: '4.13.7',
  sequence: 7,
  isWhole: true,
  revision: '1',
};

function node(name: string, release?: Partial<ReleaseStatus>, over: Partial<FleetNode> = {}): FleetNode {
  const releases = release === undefined ? [] : [{ ...RELEASE, ...release }];
  return { name, isAbsent: false, seenAt: NOW, status: { version: 1, releases }, ...over };
}

function viewOf(...nodes: readonly FleetNode[]): FleetView {
  const peers = [{ name: 'worker-2', address: '10.0.0.5:9777', bundles: [OFFER] }];
  return { self: 'worker-1', nodes, peers };
}

/**
 * Runs a command against a fleet process that tells these views, and then nothing more. After an
 * error it goes on when it is asked again.
 */
function run(args: readonly string[], ...views: readonly (FleetView | AppError)[]) {
  const left = [...views];
  async function* watchFleet(signal: AbortSignal): AsyncGenerator<FleetView> {
    for (let view = left.shift(); view !== undefined; view = left.shift()) {
      if (view instanceof AppError) throw view;
      yield view;
    }
    await new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  }
  return runCommand(['fleet', ...args], { adapters: { ...commandAdapters, watchFleet } });
}

describe('stickpin fleet status', () => {
  it('shows the releases of each node, who gives them, and what is wrong', async () => {
    const view = {
      ...viewOf(
        node('worker-1', { phase: 'preloading', percent: 41.7 }),
        node('worker-2', {}, { seenAt: NOW - 130_000 }),
        node('worker-3', { phase: 'held', reason: 'engine/space' }),
        { name: 'worker-4', isAbsent: true },
      ),
      apiTrouble: 'it does not answer',
    };
    const { exitCode, stdout } = await run(['status'], view);
    expect(exitCode).toBe(0);
    expect(stdout).toBe(
      [
        'NODE             RELEASE     PHASE                SHARED  SEEN',
        'worker-1 (this)  ocp 4.13.7  preloading 41 %              now',
        'worker-2         ocp 4.13.7  ready                yes     2 min 10 s ago',
        'worker-3         ocp 4.13.7  held (engine/space)          now',
        'worker-4         -           not known                    never',
        '',
        'The Kubernetes API: it does not answer',
        '',
      ].join('\n'),
    );
  });

  it('speaks of the list of keys, and of no Kubernetes, where keys prove who the nodes are', async () => {
    const pause = newPause({ name: 'ocp', node: 'host-1', by: 'uid 0', why: 'x', atMs: Date.now(), forMs: 60_000 });
    const view = {
      ...viewOf(node('host-1', { version: '4.13.7+1' }), node('host-2', {})),
      ...{ apiTrouble: 'It is not used.', pauses: [pause], keys: { isRead: true } },
    };
    const { stdout } = await run(['status'], view);
    expect(stdout).toContain(`on host-1 ends the pause\n`);
    expect(stdout).not.toMatch(/API|kube|label|control plane/i);
    const done = await run(['wait', 'ocp@4.13.7', '--timeout', '0'], viewOf(node('host-1', {}), node('host-2', {})));
    const goal = { ...view, ...viewOf(node('host-1', {}), node('host-2', {})) };
    expect((await run(['wait', 'ocp@4.13.7', '--timeout', '0'], goal)).stderr).toBe(done.stderr);
    const trouble = 'line 2 of fleet.keys is wrong; the keys from before stay in use';
    const wrong = { ...goal, keys: { isRead: true, trouble } };
    expect((await run(['status'], wrong)).stdout).toContain(`\nThe keys of the nodes: ${trouble}\n`);
    expect((await run(['wait', 'ocp@4.13.7', '--timeout', '0'], wrong)).stderr).toContain(trouble);
  });

  it('is alone where the list of keys names no other node, and not where it can not be read', async () => {
    const alone = { ...viewOf(node('host-1', {})), self: 'host-1', apiTrouble: 'It is not used.' };
    const lists = [{ isRead: true }, { isRead: true, trouble: 'both are host-1' }, { isRead: false }];
    const codes = lists.map(async (keys) => {
      return (await run(['wait', 'ocp@4.13.7', '--timeout', '0'], { ...alone, keys })).exitCode;
    });
    expect(await Promise.all(codes)).toEqual([0, 6, 6]);
  });

  it('shows the place of each node in a roll-out, what it waits for, and the whole in a line', async () => {
    const until = '2026-03-04T05:10:00.000Z';
    const line = `1 of 4 nodes are done; canary worker-2 has to run it well until ${until}; worker-4 failed; worker-3 is next`;
    const places = [
      { place: 1, node: 'worker-1', state: 'done' as const },
      { place: 2, node: 'worker-2', state: 'settles' as const, isCanary: true as const, until },
      { place: 3, node: 'worker-3', state: 'waits' as const },
      { place: 4, node: 'worker-4', state: 'failed' as const },
    ];
    const view = {
      ...viewOf(node('worker-1', {})),
      rollOuts: [{ name: 'ocp', version: '4.13.7', progress: { total: 4, done: 1, places } }],
    };
    const { stdout } = await run(['status'], view);
    expect(stdout).toContain(
      [
        `Roll-out of ocp 4.13.7: ${line}.`,
        'PLACE  NODE               STATE',
        '1      worker-1           is done',
        `2      worker-2 (canary)  has to run it well until ${until}`,
        '3      worker-3           waits for worker-2',
        '4      worker-4           failed',
      ].join('\n'),
    );
    expect(JSON.parse((await run(['status', '--json'], view)).stdout)).toMatchObject({ rollOuts: view.rollOuts });
  });

  it('says that this node has the lock for reboots', async () => {
    const view = viewOf(node('worker-1', {}), node('worker-2', {}));
    const shown = async (isHeld: boolean) => (await run(['status'], { ...view, lock: { isHeld } })).stdout;
    expect(await shown(true)).toContain('\nThis node has the lock of the FleetLock server.\n');
    expect(await shown(false)).not.toContain('lock');
  });

  it('names labels of Nodes that are not the name and version of a release', async () => {
    const view = viewOf(node('worker-1', { version: '4.13.7+1' }), node('worker-2', { version: '4.13.7+1' }));
    const { stdout } = await run(['status'], view);
    const lines = stdout.split('\n').filter((line) => line.includes('label'));
    expect(lines).toEqual([`ocp 4.13.7+1 has the label stickpin.io/ready-ocp=v-${'a'.repeat(16)}`]);
  });

  it('prints the whole view as JSON, as its schema says, with times in RFC 3339', async () => {
    const full = { current: true, runs: true, percent: 41.7, reason: 'engine/space' };
    const status = { version: 1, releases: [], wants: [{ name: 'ocp', version: '4.13.8' }], more: 3 } as const;
    const facts = { labels: { zone: 'north' }, isReady: true, isCordoned: false };
    const silent: FleetNode = { name: 'worker-3', isAbsent: true, isSilent: true, facts };
    const peer: Peer = {
      ...{ name: 'worker-3', address: '10.0.0.3:9777', trouble: 'mute', leftOut: 'x', certificate: 'sha256:ab' },
      ...{ since: NOW, unreached: [digestFromHex('a'.repeat(64))], bundles: [] },
    };
    const view: FleetView = {
      ...viewOf(node('worker-1', full), node('worker-2', undefined, { status }), silent),
      ...{ peers: [peer], apiTrouble: 'it does not answer', isOld: true, isRemoved: true, search: 'long' },
      ...{
        keys: { isRead: true, trouble: 'x' },
        readLabels: ['zone'],
        lock: { isHeld: false, why: 'it is taken' },
        removed: ['worker-9'],
      },
    };
    const { stdout } = await run(['status', '--json'], view);
    const printed = JSON.parse(stdout);
    const seenAt = '2026-03-04T05:06:07.890Z';
    expect(printed).toEqual({
      schemaVersion: JSON_SCHEMA_VERSION,
      ...view,
      nodes: [{ ...view.nodes[0], seenAt }, { ...view.nodes[1], seenAt }, silent],
      peers: [{ ...peer, since: new Date(NOW).toISOString() }],
    });
    expect(v.safeParse(NODE_DOCUMENTS['fleet-status'], printed).issues).toBeUndefined();
  });

  it('ends with 1 when the fleet process does not answer: 3 would be the daemon', async () => {
    const message = 'stickpin-fleet.service does not answer';
    const { exitCode, stderr } = await run(
      ['status'],
      new AppError({ code: 'fleet/unreachable', message, disposition: 'retry' }),
    );
    expect([exitCode, stderr]).toEqual([1, `stickpin: ${message}\n`]);
  });
});

describe('stickpin fleet wait', () => {
  it('waits until all nodes are ready, and tells who lacks what', async () => {
    const { exitCode, stdout, stderr } = await run(
      ['wait', 'ocp@4.13.7'],
      viewOf(node('worker-1', {}), node('worker-2'), node('worker-3', { phase: 'preloading', percent: 5 })),
      viewOf(node('worker-1', {}), node('worker-2', {}), node('worker-3', { phase: 'proven' })),
    );
    expect(exitCode).toBe(0);
    expect(stderr).toBe(
      '1 of 3 nodes done; waiting for worker-2 (does not have it), worker-3 (preloading 5 %)\n3 nodes done\n',
    );
    expect(stdout).toBe('ocp@4.13.7 is ready on all nodes\n');
  });

  it('waits for other phases, and counts silent nodes', async () => {
    const view = viewOf(node('worker-1', { phase: 'activated' }), node('worker-2', undefined, { isAbsent: true }));
    const { exitCode, stderr } = await run(['wait', 'ocp@4.13.7', '--for', 'proven', '--timeout', '0'], view);
    expect(exitCode).toBe(6);
    expect(stderr).toContain('0 of 2 nodes done; waiting for worker-1 (activated), worker-2 (silent)');
    expect(stderr).toContain('stickpin: ocp@4.13.7 is not there in time');
  });

  it.each(['activated', 'active', 'proven'] as const)(
    'does not count a node that went back: --for %s',
    async (goal) => {
      const old = { ...RELEASE, version: '4.13.6', bundle: 'b'.repeat(16), current: true, phase: 'activated' as const };
      const back = { ...RELEASE, phase: 'proven' as const, reason: 'engine/rolled-back', rolledBack: true as const };
      const viewWith = (later: Partial<ReleaseStatus>) =>
        viewOf(
          node('worker-1', { phase: 'proven', current: true }),
          node('worker-2', {}, { status: { version: 1, releases: [{ ...old, ...later }, back] } }),
        );
      const args = ['wait', 'ocp@4.13.7', '--for', goal, '--timeout', '0'];
      expect((await run(args, viewWith({}))).stderr).toContain('waiting for worker-2 (proven (engine/rolled-back))');
      expect((await run(args, viewWith({ version: '4.13.8' }))).exitCode).toBe(0);
    },
  );

  it('waits as the labels do for a node that lost images, and for one that could not tell all', async () => {
    const cut = node('worker-2', undefined, { status: { version: 1, releases: [], more: 4 } });
    const view = viewOf(node('worker-1', { phase: 'proven', incomplete: true }), cut);
    const { stderr } = await run(['wait', 'ocp@4.13.7', '--timeout', '0'], view);
    expect(stderr).toContain('waiting for worker-1 (proven (incomplete)), worker-2 (not known)');
  });

  it('does not take itself for the whole cluster before the API says so', async () => {
    const alone = viewOf(node('worker-1', {}));
    const waiting = await run(['wait', 'ocp@4.13.7', '--timeout', '0'], { ...alone, apiTrouble: 'not asked yet' });
    expect(waiting.exitCode).toBe(6);
    expect(waiting.stderr).toContain(
      '1 node done; waiting to hear of other nodes. The Kubernetes API: not asked yet\n',
    );
    expect((await run(['wait', 'ocp@4.13.7', '--timeout', '0'], viewOf())).exitCode).toBe(6);
    expect((await run(['wait', 'ocp@4.13.7', '--timeout', '0'], alone)).exitCode).toBe(0);
  });

  it('says that there may be more nodes than those that it knows', async () => {
    const view = { ...viewOf(node('worker-1', {}), node('worker-2', {})), apiTrouble: 'it does not answer' };
    const { exitCode, stderr } = await run(['wait', 'ocp@4.13.7', '--timeout', '0'], view);
    expect([exitCode, stderr]).toEqual([
      0,
      '2 nodes done. There may be more nodes than are known here. The Kubernetes API: it does not answer\n',
    ]);
  });

  const away = (disposition: 'retry' | 'reject') =>
    new AppError({ code: 'fleet/unreachable', message: 'connect ECONNREFUSED', disposition });

  it('goes on when the fleet process starts anew, unless it is to ask once or is switched off', async () => {
    const views = [viewOf(node('worker-1')), away('retry'), viewOf(node('worker-1', {}), node('worker-2', {}))];
    const { exitCode, stderr } = await run(['wait', 'ocp@4.13.7'], ...views);
    expect(stderr).toContain('connect ECONNREFUSED. It is asked again.\n2 nodes done\n');
    expect(exitCode).toBe(0);
    expect((await run(['wait', 'ocp@4.13.7', '--timeout', '0'], away('retry'))).exitCode).toBe(1);
    expect((await run(['wait', 'ocp@4.13.7'], away('reject'))).exitCode).toBe(1);
  });

  it('gives up after the time', async () => {
    const { exitCode, stderr } = await run(['wait', 'ocp@4.13.7', '--timeout', '20 ms'], viewOf(node('worker-1')));
    expect(exitCode).toBe(6);
    expect(stderr).toContain('is not there in time: 0 of 1 node done; waiting for worker-1 (does not have it)');
  });

  it.each([
    ['a name alone', ['wait', 'ocp']],
    ['a bad time', ['wait', 'ocp@1', '--timeout', 'soon']],
    ['a time that no timer can have', ['wait', 'ocp@1', '--timeout', '25 d']],
    ['a phase that does not exist', ['wait', 'ocp@1', '--for', 'happy']],
  ])('refuses %s as wrong usage', async (_what, args) => {
    expect((await run(args, viewOf())).exitCode).toBe(2);
  });
});

describe('stickpin fleet remove', () => {
  const folder = folderForEach();
  const settings = () => ({ fragments: [{ folder }] });
  const view: FleetView = {
    self: 'worker-1',
    nodes: [node('worker-1', {}), node('worker-2', {}), node('worker-3', {})],
    peers: [{ name: 'worker-2', address: '10.0.0.5:9777', certificate: `sha256:${'c'.repeat(64)}`, bundles: [] }],
  };
  const remove = async (name: string, removed?: readonly string[]) => {
    async function* watchFleet(): AsyncGenerator<FleetView> {
      yield removed === undefined ? view : { ...view, removed };
    }
    const adapters = { ...commandAdapters, watchFleet };
    return runCommand(['fleet', 'remove', name], { adapters, settings: settings() });
  };

  it('adds a node that is known, or its certificate, to the settings', async () => {
    const path = join(folder, 'zz-fleet-exclude.toml');
    const done = await remove('worker-3');
    expect([done.exitCode, done.stderr]).toEqual([0, '']);
    expect(done.stdout.replace(/\s+/g, ' ')).toContain('worker-3 is removed on this node');
    await remove(`sha256:${'c'.repeat(64)}`);
    const { fleet } = await loadSettings(settings(), new AbortController().signal);
    expect(fleet.exclude).toEqual([`sha256:${'c'.repeat(64)}`, 'worker-3']);
    expect(readFileSync(path, 'utf8')).toContain('[fleet]\nexclude = ["sha256:');
  });

  it.each([
    ['nosuch', undefined, 'knows no node nosuch; it knows worker-2, worker-3'],
    ['worker-1', undefined, 'worker-1 is this node'],
    ['worker-3', ['worker-3'], 'worker-3 was removed before'],
    [`sha256:${'d'.repeat(64)}`, undefined, 'knows no node sha256:ddd'],
  ])('fails for %s, removed: %j', async (name, removed, text) => {
    const failed = await remove(name, removed);
    expect(failed.exitCode).toBe(1);
    expect(failed.stderr.replace(/\s+/g, ' ')).toContain(text);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('fails where another file hides what it wrote', async () => {
    writeFileSync(join(folder, 'zzz.toml'), '[fleet]\nexclude = []\n');
    const failed = await remove('worker-3');
    expect([failed.exitCode, failed.stderr.replace(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringContaining('has no effect'),
    ]);
  });

  it('shows removed nodes, and pauses with who says them, at most eight of a node', async () => {
    const at = new Date(NOW).toISOString();
    const until = new Date(NOW + 3_600_000).toISOString();
    const pauses = Array.from({ length: 10 }, (_, number) => ({
      ...{
        id: 'a'.repeat(12),
        name: 'ocp',
        node: 'worker-2',
        by: 'uid 0',
        why: `${number}`,
        at,
        until,
        from: 'worker-3',
      },
    }));
    const { stdout } = await run(['status'], { ...view, removed: ['worker-9'], pauses });
    expect(stdout).toMatch(/^worker-9 +- +removed \(fleet\.exclude\)/m);
    expect(stdout.match(/by uid 0 on worker-2, as worker-3 says/g)).toHaveLength(8);
    expect(stdout).toContain('2 more pauses of worker-2');
  });
});
