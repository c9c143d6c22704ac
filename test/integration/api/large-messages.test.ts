import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { connectApi } from '../../../src/api/client.ts';
import { busCall, connectMessageBus } from '../../../src/host/bus/message-bus.ts';
import { bundleIntoCache } from '../../support/bundles/bundle-program.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import {
  arrayBody,
  callFields,
  connectRawClient,
  FIELD,
  type RawBusClient,
  stringBody,
} from '../../support/bus/raw-bus-client.ts';
import { eventually } from '../../support/eventually.ts';
import { have } from '../../support/requirements.ts';

const SERVICE = 'io.stickpin1';
const PATH = '/io/stickpin1';
const MANAGER = 'io.stickpin1.Manager';
const INTROSPECTABLE = 'org.freedesktop.DBus.Introspectable';
const OBJECT_MANAGER = 'org.freedesktop.DBus.ObjectManager';
const PROPERTIES = 'org.freedesktop.DBus.Properties';
const LARGE_BYTES = 31 * 1024 * 1024;
/** What the service may take more than before, whatever it is sent. One message alone is 31 MiB. */
const GROWTH_MIB = 24;
const TIMES = 4;

const never = new AbortController().signal;
const unit = readFileSync(new URL('../../../systemd/stickpin.service', import.meta.url), 'utf8');
/** The options that the unit gives to Node, the limit of the heap among them. */
const nodeOptions = /^ExecStart=\S+ (.*) \S+\.js$/m.exec(unit)?.[1]?.split(' ') ?? [];

/**
 * Strings of no characters: a length of four bytes, a zero, and three bytes of padding before the
 * next.
 */
const STRINGS = arrayBody(Buffer.alloc(8), LARGE_BYTES, 3);
/** Variants that hold the byte 7. */
const VARIANTS = arrayBody(Buffer.from([1, 0x79, 0, 7]), LARGE_BYTES);
const ZEROS = arrayBody(Buffer.alloc(4), LARGE_BYTES);

describe.runIf(have('dbus-daemon'))('D-Bus service: large messages of any user', { timeout: 120_000 }, () => {
  let program: string;
  let bus: PrivateBus;
  let service: ChildProcess;
  let errors: string[];
  let attacker: RawBusClient;
  let idleMiB: number;

  beforeAll(async () => {
    program = await bundleIntoCache('test/support/bus/bus-service/main.ts', 'bus-service');
  });
  beforeEach(async () => {
    bus = await startPrivateBus();
    errors = [];
    service = spawn(process.execPath, [...nodeOptions, program, bus.address], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    service.stderr?.on('data', (chunk) => errors.push(String(chunk)));
    await eventually(status, 30_000);
    attacker = await connectRawClient(bus.address);
    idleMiB = peakMiB();
  });
  afterEach(async () => {
    attacker.close();
    service.kill('SIGKILL');
    await bus[Symbol.asyncDispose]();
  });

  /** The status, asked for by another connection. */
  async function status(): Promise<unknown> {
    const client = await connectApi({ DBUS_SYSTEM_BUS_ADDRESS: bus.address }, never, 30_000);
    try {
      return await client.report(never);
    } finally {
      client.close();
    }
  }

  function peakMiB(): number {
    const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${service.pid}/status`, 'latin1')) ?? [];
    return Number(kib) / 1024;
  }

  async function expectUnharmed(): Promise<void> {
    // The bus itself refuses further messages while 127 MiB wait for the service.
    expect(await eventually(status, 30_000)).toMatchObject({ status: 'IDLE: No bundle yet.' });
    expect(errors.join('')).toBe('');
    expect(service.exitCode).toBeNull();
    expect(peakMiB() - idleMiB).toBeLessThan(GROWTH_MIB);
  }

  it.each([
    ['an array of strings for a method without arguments', INTROSPECTABLE, 'Introspect', 'as', STRINGS],
    ['an array of variants for a method of ours', MANAGER, 'GetHistory', 'av', VARIANTS],
    ['an array of variants for all objects', OBJECT_MANAGER, 'GetManagedObjects', 'av', VARIANTS],
    ['an array of bytes for a method that does not exist', MANAGER, 'Nothing', 'ay', ZEROS],
    ['an array of numbers for a property', PROPERTIES, 'Get', 'au', ZEROS],
  ])('is answered with an error: %s', async (_what, iface, member, signature, body) => {
    for (let serial = 2; serial < 2 + TIMES; serial += 1) {
      await attacker.send({ type: 1, serial, fields: callFields(PATH, iface, member, SERVICE, signature), body });
    }
    for (let serial = 2; serial < 2 + TIMES; serial += 1) {
      expect(await attacker.answerTo(serial)).toBe('org.freedesktop.DBus.Error.UnknownMethod');
    }
    await expectUnharmed();
  });

  it('answers LimitsExceeded when a body of the right signature is too long', async () => {
    const fields = callFields(PATH, MANAGER, 'GetHistory', SERVICE, 's');
    for (const [serial, length] of [8 * 1024 + 1, LARGE_BYTES].entries()) {
      await attacker.send({ type: 1, serial: 2 + serial, fields, body: stringBody('x'.repeat(length)) });
      expect(await attacker.answerTo(2 + serial)).toBe('org.freedesktop.DBus.Error.LimitsExceeded');
    }
    await attacker.send({ type: 1, serial: 9, fields, body: stringBody('x'.repeat(4096)) });
    expect(await attacker.answerTo(9)).toBe('return');
    await expectUnharmed();
  });

  it('does not read signals that it has not asked for', async () => {
    const client = await connectMessageBus(bus.address, never);
    const [owner] = await client.call(busCall('GetNameOwner', 's', [SERVICE]), never);
    client.close();
    for (let serial = 2; serial < 2 + TIMES; serial += 1) {
      await attacker.send({
        type: 4,
        serial,
        fields: callFields('/org/freedesktop/systemd1', PROPERTIES, 'PropertiesChanged', String(owner), 'av'),
        body: VARIANTS,
      });
    }
    await expectUnharmed();
  });

  it('skips a header that is far too long', async () => {
    const path = `/${'a'.repeat(LARGE_BYTES)}`;
    for (let serial = 2; serial < 2 + TIMES; serial += 1) {
      await attacker.send({ type: 1, serial, fields: callFields(path, INTROSPECTABLE, 'Introspect', SERVICE) });
    }
    await expectUnharmed();
  });

  it('sends no answer to who wants none, and reads the call behind a large one', async () => {
    const fields = callFields(PATH, INTROSPECTABLE, 'Introspect', SERVICE, 'as');
    await attacker.send({ type: 1, serial: 2, flags: 1, fields, body: STRINGS });
    const ping = callFields(PATH, 'org.freedesktop.DBus.Peer', 'Ping', SERVICE);
    await attacker.send({ type: 1, serial: 3, fields: ping });
    expect(await attacker.answerTo(3)).toBe('return');
    await expectUnharmed();
  });

  it('ignores a header field that it does not know', async () => {
    const ping = callFields(PATH, 'org.freedesktop.DBus.Peer', 'Ping', SERVICE);
    await attacker.send({ type: 1, serial: 2, fields: [...ping, [FIELD.sender + 70, 's', 'new']] });
    expect(await attacker.answerTo(2)).toBe('return');
  });
});
