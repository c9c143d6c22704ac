import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { asApiError } from '../../../src/api/client.ts';
import { findingsOfReport } from '../../../src/cli/commands/node/doctor.ts';
import type { CommandAdapters } from '../../../src/cli/context/command-adapters.ts';
import type { Finding } from '../../../src/domain/model/reason.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { BusErrorReply } from '../../../src/host/bus/message-bus.ts';
import { idleReport } from '../../support/bus/fake-backend.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';
import { runCommand } from '../../support/run-command.ts';

const REPORT = idleReport({
  runtime: { reachable: true, name: 'cri-o 1.36.3' },
  protected: [{ name: 'ocp', version: '4.13.0', ownBytes: 3 * 1024 ** 3 }],
});

/** The command on a node where nothing answers on the bus. */
function run(findings: readonly Finding[], args: readonly string[] = []) {
  const adapters = { examineNode: async () => findings } as unknown as CommandAdapters;
  return runCommand(['doctor', ...args], { adapters, env: { DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/nonexistent/bus' } });
}

describe('stickpin doctor', () => {
  it('prints what it found and what to do, and fails when something does not work', async () => {
    const { exitCode, stdout, stderr } = await run([
      { subject: 'keys', verdict: 'fault', message: 'no key is trusted', remedy: 'copy one' },
      { subject: 'clock', verdict: 'ok', message: 'fine' },
    ]);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^FAULT +keys +no key is trusted\. What to do: copy one\.$/m);
    expect(stdout).toMatch(/^ok +clock +fine$/m);
    expect(stdout).toMatch(
      /^FAULT +daemon +The D-Bus system bus can't be reached, so that the stickpin daemon can't be asked/m,
    );
    expect(stderr).toBe('stickpin: 2 faults found; each says what to do\n');
  });

  it.each(['doctor', 'status'])(
    '%s says that the daemon does not run with settings that it refuses',
    async (command) => {
      const folder = temporaryFolder();
      const file = join(folder, 'stickpin.toml');
      writeFileSync(file, '[preload]\nparalel = 3\n');
      const nobody = asApiError(new BusErrorReply('org.freedesktop.DBus.Error.ServiceUnknown', 'no owner'));
      const adapters = { examineNode: async () => [], storedState: { report: async () => undefined } };
      const { exitCode, stdout, stderr } = await runCommand([command], {
        adapters: adapters as unknown as CommandAdapters,
        settings: { fragments: [{ file }] },
        client: { report: () => Promise.reject(nobody) },
      });
      expect(exitCode).not.toBe(0);
      if (command === 'status')
        expect(stderr).toContain(`not running, and its settings are refused: ${file}: line 2: `);
      expect(stdout + stderr).toContain(
        "orrect that, check it with 'stickpin config check', then run 'systemctl restart stickpin'",
      );
      expect(stdout + stderr).not.toContain("systemctl start stickpin'");
    },
  );

  it('puts one full stop between the finding and the advice, however a message ends', async () => {
    const told = async (message: string, remedy: string) =>
      (await run([{ subject: 'x', verdict: 'warning', message, remedy }])).stdout.split('\n')[1];
    expect(await told('Plug in the stick of ocp 4.2.0.', 'do it')).toMatch(/ocp 4\.2\.0\. What to do: do it\.$/);
    expect(await told('no key', 'copy one.')).toMatch(/no key\. What to do: copy one\.$/);
    expect(await told('cut …', "run 'x'")).toMatch(/cut … What to do: run 'x'\.$/);
  });

  it('names a stick that can not be read, until it is unplugged', () => {
    const reason = { code: 'media/filesystem', message: 'sdb has no filesystem. Write it again' };
    const media = [
      { medium: 'sda', kind: 'stick' as const, state: 'read', bundles: 1 },
      { medium: 'sdb', kind: 'stick' as const, state: 'failed', bundles: 0, reason },
    ];
    const about = findingsOfReport({ ...REPORT, media, protected: [] }).filter(({ subject }) => subject === 'media');
    expect(about).toMatchObject([
      {
        verdict: 'warning',
        message: `sdb can't be read: ${reason.message}`,
        remedy: expect.stringContaining('unplug it'),
      },
    ]);
  });

  it('names a bundle that has no name by its digest', () => {
    const reason = { code: 'trust/approval', message: 'waits for approval' };
    const bundles = [{ name: '', version: '', bundleId: 'sha256:ab', reason }] as unknown as StatusReport['bundles'];
    expect(findingsOfReport({ ...REPORT, bundles, protected: [] })[2]).toMatchObject({
      message: 'sha256:ab: waits for approval',
      remedy: expect.stringContaining("run 'stickpin approve'"),
    });
  });

  it.each([
    ['bundle/digest', /^copy the bundle to the medium again/],
    ['bundle/sequence', /^bring a bundle with a higher sequence/],
    ['bundle/no-key', /^see 'stickpin show stickpin\/a'/],
  ])('says what to do about a bundle that is rejected with %s', (code, remedy) => {
    const reason = { code, message: 'no' };
    const rejected = [{ medium: 'sdb1', path: 'stickpin/a', reason }] as unknown as StatusReport['rejected'];
    expect(findingsOfReport({ ...REPORT, rejected, protected: [] })[2]).toMatchObject({
      message: 'stickpin/a on sdb1 is rejected: no',
      remedy: expect.stringMatching(remedy),
    });
  });

  it('prints findings for programs', async () => {
    const findings = [{ subject: 'clock', verdict: 'ok', message: 'fine' }] as const;
    expect(JSON.parse((await run(findings, ['--json'])).stdout).findings[0]).toEqual(findings[0]);
  });

  it('shows the space that protected releases use, and the faults of the other releases', () => {
    expect(findingsOfReport(REPORT)).toEqual([
      { subject: 'daemon', verdict: 'ok', message: 'the daemon answers' },
      {
        subject: 'trust',
        verdict: 'ok',
        message: 'the daemon judges by no key (trust.require = "signature", trust.threshold = 1)',
      },
      {
        subject: 'protect',
        verdict: 'ok',
        message: 'ocp@4.13.0 is kept for good and takes 3.0 GiB that nothing else needs',
      },
    ]);
    const degraded = { code: 'x', message: 'its key is revoked' };
    const bundles = [{ name: 'ocp', version: '4.13.7', degraded }] as unknown as StatusReport['bundles'];
    expect(findingsOfReport({ ...REPORT, bundles, protected: [] })[2]).toMatchObject({
      verdict: 'warning',
      message: 'ocp@4.13.7: its key is revoked',
    });
  });

  it('shows whether pulls are answered, which images come from elsewhere, and what to do', () => {
    const condition = (type: 'PullsAnswered' | 'PullsFromElsewhere', status: 'True' | 'False' | 'Unknown') => ({
      type,
      status,
      reason: 'Word',
      message: 'what is so',
      lastTransitionTime: '2026-03-10T12:00:00.000Z',
    });
    const told = (...args: Parameters<typeof condition>) =>
      findingsOfReport({ ...REPORT, conditions: [condition(...args)], protected: [] })[2];
    expect(told('PullsAnswered', 'True')).toEqual({
      subject: 'pulls',
      verdict: 'ok',
      message:
        "what is so; while a release holds a tag, this node sees the release's image under it, whatever the registry has",
    });
    const remedy = expect.stringContaining('journal of the runtime');
    expect(told('PullsAnswered', 'False')).toMatchObject({ verdict: 'fault', message: 'what is so', remedy });
    expect(told('PullsAnswered', 'Unknown')).toMatchObject({ verdict: 'warning', remedy });
    const without = { ...condition('PullsAnswered', 'Unknown'), reason: 'NoMirrors' };
    const found = findingsOfReport({ ...REPORT, conditions: [without], protected: [] })[2];
    expect(found).toMatchObject({ verdict: 'ok', message: 'what is so' });
    expect(told('PullsFromElsewhere', 'False')).toMatchObject({ verdict: 'ok' });
    expect(told('PullsFromElsewhere', 'True')).toMatchObject({
      verdict: 'warning',
      remedy: expect.stringContaining('add the others to a bundle'),
    });
    expect(told('PullsFromElsewhere', 'Unknown')).toMatchObject({
      verdict: 'warning',
      remedy: expect.stringContaining('correct the file that the message names'),
    });
    const nothing = { ...condition('PullsAnswered', 'Unknown'), reason: 'NothingActivated' };
    expect(findingsOfReport({ ...REPORT, conditions: [nothing], protected: [] })).toHaveLength(2);
  });

  it('reports a daemon that does not reach the runtime, and does not repeat its STATUS line', () => {
    const runtime = { reachable: false, reason: 'no answer on /run/crio/crio.sock' };
    const [answers, fault] = findingsOfReport({ ...REPORT, runtime });
    expect(answers).toEqual({ subject: 'daemon', verdict: 'ok', message: 'the daemon answers' });
    expect(fault).toMatchObject({
      verdict: 'fault',
      message: 'it does not reach the runtime: no answer on /run/crio/crio.sock',
      remedy: expect.stringContaining('restart stickpin'),
    });
  });

  it('lists the keys that the daemon trusts, those that bundles brought, and the revoked ones', () => {
    const trust = {
      ...REPORT.trust,
      keys: [
        { name: 'abababababab', keyId: 'ab'.repeat(32), broughtBy: 'ocp@5' },
        { name: 'factory-2026', keyId: 'cd'.repeat(32) },
      ],
      revoked: [{ keyId: 'ef'.repeat(32) }],
    };
    expect(findingsOfReport({ ...REPORT, trust })[1]).toMatchObject({
      verdict: 'ok',
      message:
        'the daemon judges by abababababab (added by bundle ocp@5), factory-2026, and never by efefefefefef… (trust.require = "signature", trust.threshold = 1)',
    });
    expect(findingsOfReport({ ...REPORT, trust: { ...trust, revocationsUnreadable: true } })[1]?.verdict).toBe('fault');
  });
});
