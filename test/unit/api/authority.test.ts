import { describe, expect, it } from 'vitest';
import { authorize } from '../../../src/api/authority.ts';
import { type BusCall, BusErrorReply } from '../../../src/dbus/message-bus.ts';

const never = new AbortController().signal;
const ALLOW_INTERACTION = 4;

/** A bus on which the caller has the user id, and polkit answers as told. */
function busOf(uid: number | BusErrorReply, polkit: readonly [boolean, boolean] | BusErrorReply = [false, false]) {
  const calls: BusCall[] = [];
  const answered = <T>(value: T | BusErrorReply): T => {
    if (value instanceof BusErrorReply) throw value;
    return value;
  };
  const call = async (asked: BusCall): Promise<readonly unknown[]> => {
    calls.push(asked);
    return asked.member === 'GetConnectionUnixUser' ? [answered(uid)] : [[...answered(polkit), {}]];
  };
  return { authority: { bus: { call }, ownUid: 700 }, calls };
}

const error = (name: string) => new BusErrorReply(`org.freedesktop.DBus.Error.${name}`, 'text');
const ask = ({ authority }: ReturnType<typeof busOf>, flags = 0) =>
  authorize('activate', { sender: ':1.7', flags }, authority, never);
const refusalOf = (bus: ReturnType<typeof busOf>, flags = 0) =>
  ask(bus, flags).then(
    () => 'allowed',
    (thrown: BusErrorReply) => `${thrown.errorName.split('.').at(-1)}: ${thrown.message}`,
  );

describe('permission for an action', () => {
  it.each([0, 700])('is given to user %i without asking polkit: root and our own user', async (uid) => {
    const bus = busOf(uid);
    expect(await ask(bus)).toBe(uid);
    expect(bus.calls.map(({ member }) => member)).toEqual(['GetConnectionUnixUser']);
  });

  it('is asked of polkit for the unique name of the caller', async () => {
    const bus = busOf(1000, [true, false]);
    expect(await ask(bus)).toBe(1000);
    expect(bus.calls[1]).toMatchObject({
      destination: 'org.freedesktop.PolicyKit1',
      member: 'CheckAuthorization',
      body: [['system-bus-name', { name: { value: ':1.7' } }], 'io.stickpin1.activate', {}, 0, ''],
    });
  });

  it('may need a password where the caller allows interaction', async () => {
    const bus = busOf(1000, [true, false]);
    await ask(bus, ALLOW_INTERACTION);
    expect(bus.calls[1]?.body?.[3]).toBe(1);
  });

  const what = 'User 1000 may not activate a release, or go back to another one (io.stickpin1.activate)';
  const remedy = 'Do it as root, or allow it in a polkit rule';
  it.each([
    ['polkit does not allow it', [false, false] as const, 0, 'AccessDenied', 'polkit does not allow it'],
    [
      'a password is missing',
      [false, true] as const,
      0,
      'InteractiveAuthorizationRequired',
      'polkit asks for a password, which this call can not give',
    ],
    ['the password was wrong', [false, true] as const, ALLOW_INTERACTION, 'AccessDenied', 'polkit does not allow it'],
    ['polkit is not there', error('ServiceUnknown'), 0, 'AccessDenied', 'polkit is not there'],
    ['polkit does not know the action', error('Failed'), 0, 'AccessDenied', 'polkit failed: text'],
  ])('is refused when %s', async (_when, polkit, flags, name, why) => {
    expect(await refusalOf(busOf(1000, polkit), flags)).toBe(`${name}: ${what}: ${why}. ${remedy}`);
  });

  it('is refused when the caller is not known', async () => {
    const unknown = busOf(error('NameHasNoOwner'));
    expect(await refusalOf(unknown)).toBe('AccessDenied: The bus does not say who called (text), so nothing was done');
    expect(unknown.calls).toHaveLength(1);
  });
});
