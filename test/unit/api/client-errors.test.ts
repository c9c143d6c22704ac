import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { asApiError, busUnreachable, daemonTimeout, startAdvice } from '../../../src/api/client.ts';
import { BusErrorReply } from '../../../src/host/bus/message-bus.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

const reply = (name: string) =>
  asApiError(
    new BusErrorReply(
      `org.freedesktop.DBus.Error.${name}`,
      'Rejected send message, 2 matched rules; type="method_call", sender=":1.7" (uid=1000 pid=1 comm="node")',
    ),
  );

describe('what a command says of a call that failed', () => {
  it.each([
    ['AccessDenied', 'api/denied', 'Only root may do this'],
    ['InteractiveAuthorizationRequired', 'api/denied', 'Only root may do this'],
    ['ServiceUnknown', 'api/unreachable', "daemon is not running. Start it with 'systemctl start stickpin'"],
    ['NameHasNoOwner', 'api/unreachable', 'daemon is not running'],
    ['NoReply', 'api/unreachable', 'daemon ended before it answered. Try again'],
    ['Disconnected', 'api/unreachable', 'daemon ended before it answered'],
    ['Timeout', 'api/unreachable', 'daemon does not answer. Try again'],
    [
      'UnknownMethod',
      'api/failed',
      "of another version than this command. Restart it with 'systemctl restart stickpin'",
    ],
  ])('%s: in plain words and without what the bus says', (name, code, words) => {
    const error = reply(name);
    expect(error).toMatchObject({ code, message: expect.stringContaining(words) });
    expect(error.message).not.toMatch(/Rejected send|method_call|org\.freedesktop/);
  });

  it('passes on what the daemon itself says', () => {
    const error = asApiError(new BusErrorReply('io.stickpin1.Error.Engine.NoBundle', 'no bundle x@1 is known'));
    expect(error).toMatchObject({ code: 'engine/no-bundle', message: 'no bundle x@1 is known' });
  });

  it('distinguishes a missing bus from a slow daemon', () => {
    const gone = new AppError({ code: 'platform/bus-unreachable', message: 'connect ENOENT', disposition: 'retry' });
    for (const error of [asApiError(gone), busUnreachable(gone)]) {
      expect(error).toMatchObject({ code: 'api/unreachable', disposition: 'wait' });
      expect(error.message).toMatch(/^The D-Bus system bus can't be reached, .* start it with 'systemctl start dbus'$/);
    }
    const late = new AppError({ code: 'platform/deadline', message: 'late', disposition: 'retry' });
    expect(busUnreachable(late).message).toMatch(/^The D-Bus system bus does not answer/);
    expect(daemonTimeout(late).message).toMatch(/^The stickpin daemon does not answer\. Try again/);
  });
});

describe('the advice to start the daemon', () => {
  it('unmasks a unit that is masked', () => {
    const root = temporaryFolder();
    const [etc, run] = ['etc', 'run'].map((name) => join(root, name)) as [string, string];
    for (const folder of [etc, run]) mkdirSync(folder);
    expect(startAdvice(etc, run)).toBe("Start it with 'systemctl start stickpin'");
    writeFileSync(join(etc, 'stickpin.service'), '[Service]\n');
    expect(startAdvice(etc, run)).not.toContain('unmask');
    symlinkSync('/dev/null', join(run, 'stickpin.service'));
    expect(startAdvice(etc, run)).toContain("run 'systemctl unmask stickpin', then 'systemctl start stickpin'");
    rmSync(join(run, 'stickpin.service'));
    writeFileSync(join(etc, 'stickpin.service'), '');
    expect(startAdvice(etc, run)).toContain('systemctl unmask stickpin');
  });
});
