import { describe, expect, it } from 'vitest';
import type { ApiClient } from '../../../../../src/api/client.ts';
import type { StatusReport } from '../../../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../../../src/platform/app-error.ts';
import { idleReport } from '../../../../support/bus/fake-backend.ts';
import { NOON, stored, verified } from '../../../../support/daemon/scenario.ts';
import { createFakeNode } from '../../../../support/fake-ports.ts';
import { runCommand } from '../../../../support/run-command.ts';

const [factory = '', spare = '', custom = '', gone = ''] = ['5f', 'bb', 'cc', 'dd'].map((byte) => byte.repeat(32));
const keys = [
  { name: 'factory-2026', keyId: factory },
  { name: 'spare', keyId: spare },
];
const trust: StatusReport['trust'] = {
  require: 'signature',
  threshold: 1,
  keys,
  revoked: [{ keyId: gone, revokedBy: 'ocp@4.13.7' }],
  problems: [],
  revocationsUnreadable: false,
};
const role = {
  name: 'customer',
  threshold: 1,
  streams: ['customer-*'],
  repositories: [],
  mayRotate: false,
  mayKeepForLife: false,
  keys: [{ name: 'customer/acme', keyId: custom }],
};

/** Answers no to every question, and returns the questions and what was called nevertheless. */
async function asked(args: readonly string[], report: Partial<StatusReport>, columns?: number) {
  const questions: string[] = [];
  const called: string[] = [];
  const call = (name: string) => async () => {
    called.push(name);
    return 'done';
  };
  const refused = new AppError({
    code: 'engine/running',
    message: 'ocp@4.13.6 is the last known good release of ocp',
    disposition: 'reject',
  });
  const held = new AppError({ code: 'engine/activation-held', message: 'its window is closed', disposition: 'reject' });
  const client: Partial<ApiClient> = {
    report: async () => idleReport(report),
    revokeKey: call('revokeKey'),
    restoreKey: call('restoreKey'),
    resetStream: call('resetStream'),
    reject: call('reject'),
    unpin: () => Promise.reject(refused),
    unpinUnclaimed: () => Promise.reject(refused),
    activate: () => Promise.reject(held),
  };
  const confirm = async (question: string) => questions.push(question) === 0;
  const terminal = columns === undefined ? {} : { stderrColumns: columns };
  const run = await runCommand(args, { client, confirm, terminal });
  return { questions, called, run, client };
}

describe('a question', () => {
  it.each([
    [['trust', 'revoke', factory], 'If you revoke key factory-2026 (5f5f5f5f5f5f…), bundles that it signed'],
    [['trust', 'revoke', factory.slice(0, 12)], 'If you revoke key factory-2026 (5f5f5f5f5f5f…), '],
    [
      ['trust', 'restore', gone.slice(0, 12)],
      'If you restore key dddddddddddd…, which was revoked by bundle ocp@4.13.7, ',
    ],
    [['trust', 'reset', 'ocp'], 'If you reset stream ocp, '],
    [['unpin', 'ocp@4.13.6'], 'If you unpin ocp@4.13.6, its images can be collected. But ocp@4.13.6 is the last known'],
    [['unpin', '--unclaimed'], 'If you give up the unclaimed pins, '],
    [['activate', 'ocp@4.13.7'], 'If you activate ocp@4.13.7, '],
  ])('says first what is asked: %j', async (args, start) => {
    const { questions, called, run } = await asked(args, { trust });
    expect(questions).toEqual([expect.stringContaining(start)]);
    expect(questions[0]?.startsWith(start)).toBe(true);
    expect(called).toEqual([]);
    expect(run).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(/^stickpin: nothing was changed: /) });
  });

  it('is wrapped between words on a terminal, and leaves room for the answer', async () => {
    const { questions } = await asked(
      ['trust', 'revoke', factory],
      { trust: { ...trust, keys: keys.slice(0, 1) } },
      60,
    );
    const lines = questions[0]?.split('\n') ?? [];
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(52);
    expect(lines.join(' ')).toMatch(/^If you revoke key factory-2026 \(5f5f5f5f5f5f…\), .* Revoke the key\?$/);
  });
});

describe('the warning about the last key', () => {
  const question = async (report: StatusReport['trust'], ...args: readonly string[]) =>
    (await asked(['trust', ...args], { trust: report })).questions.join();

  it('stands where no key is left, or too few', async () => {
    expect(await question(trust, 'revoke', factory)).not.toContain('WARNING');
    expect(await question({ ...trust, keys: keys.slice(0, 1) }, 'revoke', factory)).toContain(
      'WARNING: this node has no trusted key then, so no signature is enough',
    );
    expect(await question({ ...trust, threshold: 2 }, 'revoke', factory)).toContain(
      'WARNING: this node has 1 of the 2 keys then',
    );
  });

  it('stands for a role by itself', async () => {
    const told = await question({ ...trust, roles: [role] }, 'revoke', custom);
    expect(told).toContain('If you revoke key customer/acme (cccccccccccc…), ');
    expect(told).toContain('WARNING: role customer has no trusted key then');
    expect(told).not.toContain('this node has');
  });

  it('stands for a reset that takes the last key away', async () => {
    const brought = { ...trust, keys: [{ name: 'new', keyId: factory, broughtBy: 'ocp@4.13.7' }] };
    expect(await question(brought, 'reset', 'ocp')).toContain('WARNING: this node has no trusted key then');
    expect(await question(brought, 'reset', 'oc')).not.toContain('WARNING');
  });
});

describe('stickpin reject', () => {
  const release = stored(verified(), { readyAt: NOON, activatedAt: NOON, provenAt: NOON });
  const report = async () => {
    const node = createFakeNode([release]);
    await node.start();
    await node.clock.advance(0);
    const told = node.engine.report() ?? expect.unreachable();
    await node.stop();
    return told;
  };

  it.each(['ocp@4.13.7', release.bundleId])('asks for an adopted release, and says what it does: %s', async (name) => {
    const { questions, called, run } = await asked(['reject', name], await report());
    expect(questions).toEqual([
      expect.stringMatching(
        /^If you reject ocp@4\.13\.7, which this node has adopted .*no longer loaded or activated.*Reject it\?$/,
      ),
    ]);
    expect(called).toEqual([]);
    expect(run.stderr).toBe('stickpin: nothing was changed: ocp@4.13.7 is not rejected\n');
  });

  it('changes nothing without a terminal, unless --force or --yes is given', async () => {
    const { client, called } = await asked(['version'], await report());
    const alone = await runCommand(['reject', 'ocp@4.13.7'], { client });
    expect(alone).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('Give --force to do it anyway') });
    expect(called).toEqual([]);
    for (const flag of ['--force', '--yes', '-y']) {
      expect(await runCommand(['reject', 'ocp@4.13.7', flag], { client })).toMatchObject({ exitCode: 0 });
    }
    expect(called).toEqual(['reject', 'reject', 'reject']);
  });

  it('asks nothing for a bundle that was not adopted', async () => {
    const { questions, called } = await asked(['reject', 'ocp@4.13.9'], await report());
    expect(questions).toEqual([]);
    expect(called).toEqual(['reject']);
  });
});

describe('a command or a flag that does not exist', () => {
  it.each([
    [['staus'], 'status'],
    [['provee'], 'prove'],
    [['trust', 'revok', 'x'], 'revoke'],
    [['bundle', 'creat'], 'create'],
    [['nonsense'], undefined],
    [['reject', 'ocp@1', '--forec'], undefined],
  ])('gets a similar command suggested, and runs none: %j', async (args, command) => {
    const { exitCode, stderr } = await runCommand(args);
    expect(exitCode).toBe(2);
    expect(/\(Did you mean ([a-z]+)\?\)/.exec(stderr)?.[1]).toBe(command);
    expect(stderr).toMatch(/; see 'stickpin[ a-z]* --help'\n$/);
  });
});
