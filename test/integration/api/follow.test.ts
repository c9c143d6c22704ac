import { expect, it } from 'vitest';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { startDaemonOnBus } from '../../support/bus/daemon-on-bus.ts';
import { fakeBackend, idleReport, sampleReport } from '../../support/bus/fake-backend.ts';
import { startPrivateBus } from '../../support/bus/private-bus.ts';
import { eventually } from '../../support/eventually.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const [RELEASE] = sampleReport().bundles;

function reportOf(phase: 'preloading' | 'ready'): StatusReport {
  return idleReport({ bundles: RELEASE === undefined ? [] : [{ ...RELEASE, phase }] });
}

/** Runs a command on a bus; `hasSaid` waits until it printed a text, after `from` characters. */
function follow(address: string, args: readonly string[], signal: AbortSignal) {
  let said = '';
  const ended = runCommand(args, {
    env: { DBUS_SYSTEM_BUS_ADDRESS: address },
    signal,
    onOutput: (stdout, stderr) => {
      said = stdout + stderr;
    },
  });
  const hasSaid = (text: string, from = 0) => eventually(() => expect(said.slice(from)).toContain(text), 60_000);
  return { ended, hasSaid, length: () => said.length };
}

it.runIf(have('dbus-daemon'))(
  'wait follows the signals of a daemon that comes, ends and comes again, and a bus that starts anew',
  async () => {
    await using bus = await startPrivateBus();
    let report = idleReport();
    const backend = fakeBackend({}, () => report);
    const publish = (next: StatusReport) => {
      report = next;
      backend.publish(next);
    };
    const { signal } = new AbortController();
    const { ended, hasSaid, length } = follow(bus.address, ['wait', 'ocp@4.13.7', '--timeout', '2 min'], signal);
    await hasSaid('The stickpin daemon is not running.');
    const stop = await startDaemonOnBus(bus.address, backend);
    await hasSaid('ocp@4.13.7 is not on this node yet');
    publish(reportOf('preloading'));
    await hasSaid('ocp@4.13.7 is preloading');
    let before = length();
    await stop();
    await hasSaid('The stickpin daemon is not running.', before);
    before = length();
    await bus.restart();
    const stopAgain = await startDaemonOnBus(bus.address, backend);
    await hasSaid('ocp@4.13.7 is preloading', before);
    publish(reportOf('ready'));
    const { exitCode, stdout } = await ended;
    expect([exitCode, stdout]).toEqual([0, 'ocp@4.13.7 is ready\n']);
    await stopAgain();
  },
);

it.runIf(have('dbus-daemon'))('history --follow hears of an event that changes nothing else', async () => {
  await using bus = await startPrivateBus();
  const report = idleReport();
  const events = [{ at: 1, kind: 'mediumFound', message: 'sdb1 found' }];
  const backend = fakeBackend({ getHistory: async () => [...events] }, () => report);
  const stop = await startDaemonOnBus(bus.address, backend);
  const interrupt = new AbortController();
  const { ended, hasSaid } = follow(bus.address, ['history', '--follow'], interrupt.signal);
  await hasSaid('sdb1 found');
  events.push({ at: 2, kind: 'mediumGone', message: 'sdb1 was removed' });
  backend.publish(report, 2);
  await hasSaid('sdb1 was removed');
  interrupt.abort();
  const { exitCode, stdout } = await ended;
  expect([exitCode, stdout.split('\n')]).toEqual([
    0,
    ['1970-01-01T00:00:00.001Z  sdb1 found', '1970-01-01T00:00:00.002Z  sdb1 was removed', ''],
  ]);
  await stop();
});
