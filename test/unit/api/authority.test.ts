import { describe, expect, it } from 'vitest';
import { authorize, CallerBudget } from '../../../src/api/authority.ts';
import { type BusCall, BusErrorReply } from '../../../src/host/bus/message-bus.ts';

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

describe('the budget of callers without rights', () => {
  const UIDS: Readonly<Record<string, number>> = { ':1.1': 1000, ':1.2': 1000, ':1.3': 1001, ':1.4': 0, ':1.5': 700 };
  /** A clock that stands but for work and waits: who waits longest is woken last. */
  function createClock() {
    let now = 0;
    const waiting: { readonly at: number; readonly wake: () => void }[] = [];
    return {
      monotonic: () => now,
      sleep: (ms: number) => new Promise<void>((wake) => void waiting.push({ at: now + ms, wake })),
      work: (ms: number) => {
        now += ms;
      },
      /** Lets time pass until `end`. */
      async until(end: number): Promise<void> {
        for (;;) {
          await new Promise((resolve) => setImmediate(resolve));
          waiting.sort((one, other) => one.at - other.at);
          if ((waiting[0]?.at ?? Number.POSITIVE_INFINITY) > end) break;
          const next = waiting.shift();
          now = Math.max(now, next?.at ?? 0);
          next?.wake();
        }
        now = Math.max(now, end);
      },
    };
  }

  /** Each sender reads pages of 20 ms each in a loop, for 100 s. Returns the work of each. */
  async function loop(senders: readonly string[]) {
    const clock = createClock();
    const call = async ({ body }: BusCall) => [UIDS[String(body?.[0])]];
    const budget = new CallerBudget({ bus: { call }, ownUid: 700 }, clock);
    const spentMs = Object.fromEntries(senders.map((sender) => [sender, 0]));
    let isOver = false;
    const ask = async (sender: string) => {
      for (let time = 0; !isOver && time < 1_000; time += 1) {
        await budget.run(
          sender,
          async () => {
            clock.work(20);
            spentMs[sender] = (spentMs[sender] ?? 0) + 20;
          },
          never,
        );
      }
    };
    for (const sender of senders) void ask(sender);
    await clock.until(100_000);
    isOver = true;
    return senders.map((sender) => spentMs[sender] ?? 0);
  }
  const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);

  it('gives a user 1 s of work at once and a tenth of a processor, however many connections it has', async () => {
    for (const senders of [[':1.1'], [':1.1', ':1.2']]) {
      const spent = sum(await loop(senders));
      expect(spent).toBeGreaterThan(9_000);
      expect(spent).toBeLessThanOrEqual(11_040);
    }
  });

  it('is of each user alone: another one gets as much', async () => {
    const [first = 0, other = 0] = await loop([':1.1', ':1.3']);
    expect(other).toBeGreaterThan(9_000);
    expect(first).toBeGreaterThan(9_000);
  });

  it.each([':1.4', ':1.5'])('does not hold for root and our own user (%s)', async (sender) => {
    expect(await loop([sender])).toEqual([20_000]);
  });

  it('refuses calls of a user of which too many wait', async () => {
    const clock = createClock();
    const budget = new CallerBudget({ bus: { call: async () => [1000] }, ownUid: 700 }, clock);
    const calls = Array.from({ length: 100 }, () => budget.run(':1.1', async () => clock.work(2_000), never));
    const ends = Promise.allSettled(calls);
    await clock.until(10_000_000);
    const refused = (await ends).filter(({ status }) => status === 'rejected');
    expect(refused).toHaveLength(36);
    expect(String((refused[0] as PromiseRejectedResult).reason)).toContain('64 calls of user 1000 have no answer yet');
  });
});
