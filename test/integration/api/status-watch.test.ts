import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ApiService } from '../../../src/api/service.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { fakeBackend, idleReport } from '../../support/bus/fake-backend.ts';
import { startPrivateBus } from '../../support/bus/private-bus.ts';
import { stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { eventually } from '../../support/eventually.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have, program } from '../../support/requirements.ts';

const PRELOADING = 'Preloading ocp 4.13.7 from sdb1: 37/112 images, 5.1 of 16.0 GiB, 84 MiB/s';

/** What a terminal is told to do before each screen: to the upper left corner. */
const HOME = '\u001b[H';
/** And after it: to clear what is below. */
const BELOW = '\u001b[J';

it.runIf(have('dbus-daemon', program('script', 'apt-get install bsdutils')))(
  'status --watch repaints one screen of a real terminal for each change, and ends with Ctrl-C',
  async () => {
    const folder = temporaryFolder();
    await using daemon = await startPrivateBus();
    const log = createRecordingLog();
    let report = idleReport({ status: 'Idle. Waiting for media.' });
    const backend = fakeBackend({}, () => report);
    const bus = new SystemBus({ clock: systemClock, log, address: daemon.address });
    const service = new ApiService(bus, bus, backend, systemClock, log);
    try {
      await bus.start(new AbortController().signal);
      const programs = await stickpinOnPath(join(folder, 'bin'));
      const command = `stty cols 60 rows 24; exec ${join(programs, 'stickpin')} status --watch`;
      const terminal = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
        env: { ...process.env, TERM: 'xterm', NO_COLOR: '1', DBUS_SYSTEM_BUS_ADDRESS: daemon.address },
      });
      let text = '';
      terminal.stdout.on('data', (data) => (text += String(data)));
      await eventually(() => expect(text).toContain('Waiting for media.'), 60_000);
      report = { ...report, status: PRELOADING, operation: 'preloading', progress: { doneBytes: 5, totalBytes: 16 } };
      backend.publish(report);
      await eventually(() => expect(text).toContain('Preloading ocp 4.13.7'), 60_000);
      const screens = text.split(HOME).slice(1);
      expect(screens.length).toBeGreaterThanOrEqual(2);
      for (const screen of screens) {
        // Each line is cleared to its end, and what is left below too; no line is wider than the
        // terminal.
        expect(screen).toContain(BELOW);
        const lines = screen.replaceAll('\r', '').split('\u001b[K\n');
        for (const line of lines) expect(line.split(BELOW)[0]?.length).toBeLessThanOrEqual(60);
      }
      const before = text.length;
      await service.dispose();
      bus.close();
      await eventually(() => expect(text.slice(before)).toContain('This screen waits for it.'), 60_000);
      const ended = once(terminal, 'exit');
      terminal.stdin.write('\u0003');
      const [code] = await ended;
      expect([0, 130]).toContain(code);
    } finally {
      await service.dispose();
      bus.close();
      rmSync(folder, { recursive: true });
    }
  },
);
