import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FleetLock, giveLockBack, lockClientId } from '../../../src/fleet/fleet-lock.ts';
import type { OwnReport } from '../../../src/fleet/publish/own-report.ts';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { respondJson } from '../../../src/platform/http.ts';
import { type FleetLockServer, type LockFault, startFleetLockServer } from '../../support/fleet/fleet-lock-server.ts';
import { ownBundle, ownReport } from '../../support/kubernetes/own-report.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

const GROUP = 'workers';
const OTHER = 'another node';

/** The reports of a node during an upgrade. */
const before = ownBundle({ version: '4.13.6', sequence: 6, phase: 'proven', current: true });
const old = { ...before, phase: 'superseded' as const, current: false };
const idle = ownReport([before]);
const begun = ownReport([before, ownBundle({ phase: 'ready', rollOut: { begun: true } })]);
const activated = ownReport([old, ownBundle({ phase: 'activated', current: true })]);
const active = ownReport([old, ownBundle({ phase: 'active', current: true })]);
const proven = ownReport([old, ownBundle({ phase: 'proven', current: true })]);
const rolledBack = ownReport([before, ownBundle({ phase: 'activated' })]);

let server: FleetLockServer;
beforeEach(async () => {
  server = await startFleetLockServer();
});
afterEach(() => server.stop());

const KEPT = expect.stringMatching(/^This node may keep the lock of the FleetLock server from others: for 24 h /);
const NOT_KEPT = 'The lock of the FleetLock server is not kept any more';

const MINUTE = 60_000;
const holder = () => server.holders.get(GROUP);

/** A fleet process that has just started, and whose daemon reports this. */
function start(report: OwnReport | undefined) {
  const state = { report, nowMs: 0 };
  const clock = { now: () => state.nowMs, monotonic: () => state.nowMs, sleep: async () => undefined };
  const log = createRecordingLog();
  const settings = { fleet_lock: server.url, fleet_lock_group: GROUP };
  const lock = new FleetLock({ settings, id: 'this node', report: () => state.report, clock, random: () => 0.5, log });
  /** Lets this much time pass, second by second. @returns the requests of that time */
  const pass = async (ms: number) => {
    const { length } = server.requests;
    for (const end = state.nowMs + ms; state.nowMs < end; state.nowMs += 1_000) await lock.step(NEVER_ABORTED);
    return server.requests.slice(length);
  };
  return {
    view: () => lock.view(),
    warnings: () => log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message),
    lines: () => log.lines.map(({ message }) => message),
    pass,
    /** The daemon reports this for a minute. @returns the requests of that time */
    report: (next: OwnReport | undefined) => {
      state.report = next;
      return pass(MINUTE);
    },
  };
}

/** Its release was activated for this time. */
async function unproven(before: OwnReport, ms: number) {
  const node = start(before);
  await node.pass(MINUTE);
  await node.report(activated);
  await node.pass(ms);
  return node;
}

describe('the client of FleetLock', () => {
  it('has the lock from before the activation until the release is proven', async () => {
    const node = start(idle);
    expect(await node.pass(30_000)).toEqual([]);
    expect(await node.pass(5 * MINUTE)).toEqual(['steady-state']);
    expect(await node.report(begun)).toEqual(['pre-reboot']);
    expect(node.view()).toEqual({ isHeld: true });
    expect(await node.report(activated)).toEqual([]);
    expect(await node.report(active)).toEqual([]);
    expect(holder()).toBe('this node');
    expect(await node.report(proven)).toEqual(['steady-state']);
    expect(node.view()).toEqual({ isHeld: false });
    expect(holder()).toBeUndefined();
    expect(node.warnings()).toEqual([]);
  });

  it.each([
    ['a rollback', rolledBack],
    ['its activation is not due any more', ownReport([before, ownBundle({ phase: 'ready' })])],
    ['the release is gone', idle],
  ])('gives it back when %s', async (_, end) => {
    const node = start(begun);
    await node.pass(MINUTE);
    expect(holder()).toBe('this node');
    expect(await node.report(end)).toEqual(['steady-state']);
    expect(holder()).toBeUndefined();
  });

  it('waits without a warning while another node has the lock', async () => {
    server.holders.set(GROUP, OTHER);
    const node = start(begun);
    expect((await node.pass(10 * MINUTE)).length).toBeGreaterThan(5);
    expect(node.view()).toEqual({
      isHeld: false,
      why: 'semaphore currently full, all slots are locked already (failed_lock_semaphore_full)',
    });
    server.holders.delete(GROUP);
    await node.pass(6 * MINUTE);
    expect(node.view()).toEqual({ isHeld: true });
    expect(node.warnings()).toEqual([]);
  });

  it.each<[string, LockFault, RegExp]>([
    ['closes the connection', (response) => response.destroy(), /hang up|closed/],
    [
      'fails',
      (response) => response.writeHead(503).end('{"kind":"down","value":"no database"}'),
      /^no database \(down\)$/,
    ],
    ['answers nonsense', (response) => response.writeHead(500).end('<html>'), /^it answers with status 500$/],
    [
      'sends much',
      (response) => response.writeHead(503).end(`{"kind":"a","value":"${'x'.repeat(10_000_000)}"}`),
      /^it answers with status 503$/,
    ],
    [
      'redirects',
      (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
      /^it answers with status 302$/,
    ],
    ['only accepts it', (response) => response.writeHead(202).end(), /^it answers with status 202$/],
    [
      'switches protocols',
      (response) => response.writeHead(101, { connection: 'upgrade', upgrade: 'x' }).end(),
      /protocol/,
    ],
  ])('says so once and tries again when the server %s', async (_, fault, why) => {
    server.fault = fault;
    const node = start(begun);
    expect((await node.pass(MINUTE)).length).toBe(4);
    expect(node.view()).toEqual({ isHeld: false, why: expect.stringMatching(why) });
    expect(node.warnings()).toHaveLength(1);
    server.fault = undefined;
    await node.pass(MINUTE);
    expect(node.view()).toEqual({ isHeld: true });
  });

  it('shows a refusal as a line of plain text', async () => {
    const value = `\u001b[31m\nred ${'x'.repeat(1_000)}`;
    server.fault = (response) => respondJson(response, 409, { kind: 'a', value });
    const node = start(begun);
    await node.pass(1_000);
    expect(node.view().why).toMatch(/^[^\p{Cc}]{0,20}red x{50,195}…?$/u);
  });

  it('tries again when no server runs', async () => {
    const { url } = server;
    await server.stop();
    const settings = { fleet_lock: url, fleet_lock_group: GROUP };
    await expect(giveLockBack(settings, 'this node', NEVER_ABORTED)).rejects.toThrow('ECONNREFUSED');
    const node = start(begun);
    await node.pass(MINUTE);
    expect(node.view().why).toContain('ECONNREFUSED');
    server = await startFleetLockServer();
  });

  it('pauses for longer after each failure, at most five minutes, and not when something else is due', async () => {
    server.fault = (response) => response.writeHead(500).end();
    const node = start(begun);
    // After 0, 5, 15, 35, 75, 155 and 315 s, then every 300 s.
    expect(await node.pass(316_000)).toHaveLength(7);
    expect(await node.pass(60 * MINUTE)).toHaveLength(12);
    server.fault = undefined;
    expect(await node.report(idle)).toEqual(['steady-state']);
  });

  it('does nothing while it does not know what the daemon does', async () => {
    const node = start(begun);
    await node.pass(MINUTE);
    expect(await node.report(undefined)).toEqual([]);
    expect(node.view()).toEqual({ isHeld: true });
  });

  it('leaves the lock over a restart between the activation and the proof', async () => {
    await start(begun).pass(MINUTE);
    const second = start(activated);
    expect(await second.pass(5 * MINUTE)).toEqual([]);
    expect(holder()).toBe('this node');
    expect(await second.report(proven)).toEqual(['steady-state']);
    expect(holder()).toBeUndefined();
  });

  it('says once that it keeps the lock for a release that is never proven', async () => {
    const node = await unproven(begun, 23 * 60 * MINUTE);
    expect(node.warnings()).toEqual([]);
    await node.pass(3 * 60 * MINUTE);
    expect(node.warnings()).toEqual([KEPT]);
    expect(holder()).toBe('this node');
    await node.report(proven);
    expect(holder()).toBeUndefined();
    expect(node.lines()).toContain(NOT_KEPT);
  });

  it('says so of an activation that never comes, as with a hook that fails', async () => {
    const node = start(begun);
    await node.pass(23 * 60 * MINUTE);
    expect(node.warnings()).toEqual([]);
    await node.pass(2 * 60 * MINUTE);
    expect(node.warnings()).toEqual([KEPT]);
  });

  it('says that it is not kept any more only when the server has it back', async () => {
    const node = await unproven(begun, 25 * 60 * MINUTE);
    await node.report(begun);
    expect(node.view()).toEqual({ isHeld: true });
    server.fault = (response) => response.writeHead(500).end();
    await node.report(proven);
    expect(node.lines()).not.toContain(NOT_KEPT);
    server.fault = undefined;
    await node.pass(2 * MINUTE);
    expect(holder()).toBeUndefined();
    expect(node.lines()).toContain(NOT_KEPT);
    expect(node.warnings().filter((line) => KEPT.asymmetricMatch(line))).toHaveLength(1);
  });

  it('says nothing of an activation that a person began without the lock', async () => {
    const node = await unproven(idle, 25 * 60 * MINUTE);
    expect(node.warnings()).toEqual([]);
  });

  it('does not lose it in a power cut before the activation, and gives back one that nobody needs', async () => {
    await start(begun).pass(MINUTE);
    const second = start(begun);
    expect(await second.pass(MINUTE)).toEqual(['pre-reboot']);
    expect(second.view()).toEqual({ isHeld: true });
    await start(idle).pass(MINUTE);
    expect(holder()).toBeUndefined();
  });

  it('never gives back the lock of another node', async () => {
    server.holders.set(GROUP, OTHER);
    expect(await start(idle).pass(MINUTE)).toEqual(['steady-state']);
    await giveLockBack({ fleet_lock: server.url, fleet_lock_group: GROUP }, 'this node', NEVER_ABORTED);
    expect(holder()).toBe(OTHER);
  });

  it('gives up after 30 s without an answer', async () => {
    server.fault = () => undefined;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const settings = { fleet_lock: server.url, fleet_lock_group: GROUP };
      const given = giveLockBack(settings, 'this node', NEVER_ABORTED);
      const failed = expect(given).rejects.toThrow('The FleetLock server did not answer within 30000 ms');
      while (server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
      vi.advanceTimersByTime(30_000);
      await failed;
    } finally {
      vi.useRealTimers();
    }
  });
});

it('names the node by a hash of its machine id, as sd_id128_get_machine_app_specific(3)', () => {
  const application = Buffer.from('033b1b9b264441fcaa173e9e5bf35c5a', 'hex');
  const machineId = '2e074e9b299c41a59923c51ae16f279b';
  expect(lockClientId(machineId, '', application)).toBe('4d4a86c9c6644a479560ded5d19a30c5');
  const cloned = ['worker-1', 'worker-2'].map((name) => lockClientId(machineId, name));
  expect(new Set(cloned).size).toBe(2);
});
