import { expect, it } from 'vitest';
import { ApiService } from '../../../src/api/service.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { fakeBackend, idleReport, sampleReport } from '../../support/bus/fake-backend.ts';
import { startPrivateBus } from '../../support/bus/private-bus.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const [RELEASE] = sampleReport().bundles;

function reportOf(phase: 'preloading' | 'ready'): StatusReport {
  return idleReport({ bundles: RELEASE === undefined ? [] : [{ ...RELEASE, phase }] });
}

async function startDaemon(address: string, first: StatusReport) {
  let report = first;
  const log = createRecordingLog();
  const backend = fakeBackend({}, () => report);
  const bus = new SystemBus({ clock: systemClock, log, address });
  const service = new ApiService(bus, backend, systemClock, log);
  await bus.start(new AbortController().signal);
  return {
    publish: (next: StatusReport) => {
      report = next;
      backend.publish(next);
    },
    stop: async () => {
      await service.dispose();
      bus.close();
    },
  };
}

it.runIf(have('dbus-daemon'))(
  'wait follows the signals of a daemon that comes, ends and comes again, and a bus that starts anew',
  async () => {
    await using bus = await startPrivateBus();
    let said = '';
    const running = runCommand(['wait', 'ocp@4.13.7', '--timeout', '2 min'], {
      env: { DBUS_SYSTEM_BUS_ADDRESS: bus.address },
      onOutput: (_stdout, stderr) => {
        said = stderr;
      },
    });
    const hasSaid = (text: string, after = 0) => eventually(() => expect(said.slice(after)).toContain(text), 60_000);
    await hasSaid('The stickpin daemon is not running.');
    const first = await startDaemon(bus.address, idleReport());
    await hasSaid('ocp@4.13.7 is not on this node yet');
    first.publish(reportOf('preloading'));
    await hasSaid('ocp@4.13.7 is preloading');
    let before = said.length;
    await first.stop();
    await hasSaid('The stickpin daemon is not running.', before);
    before = said.length;
    await bus.restart();
    const second = await startDaemon(bus.address, reportOf('preloading'));
    await hasSaid('ocp@4.13.7 is preloading', before);
    second.publish(reportOf('ready'));
    const { exitCode, stdout } = await running;
    expect([exitCode, stdout]).toEqual([0, 'ocp@4.13.7 is ready\n']);
    await second.stop();
  },
);
