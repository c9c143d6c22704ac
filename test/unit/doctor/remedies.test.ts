import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { createExaminedRuntime, examineNode } from '../../../src/app/doctor/examine-node.ts';
import { parseRevocationRecord } from '../../../src/bundle/keys/revocation-record.ts';
import { findingsOfReport } from '../../../src/cli/commands/node/doctor.ts';
import type { SystemServices } from '../../../src/doctor/check.ts';
import { checkCrio } from '../../../src/doctor/check-crio.ts';
import { checkKeys } from '../../../src/doctor/check-keys.ts';
import { checkRuntime } from '../../../src/doctor/check-runtime.ts';
import { checkRegistrySocket, checkUnits } from '../../../src/doctor/check-units.ts';
import type { Finding } from '../../../src/domain/model/reason.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import type { CrioPaths } from '../../../src/runtime/crio/crio-config.ts';
import { crioOn, findingsOf } from '../../support/examined-node.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

const never = new AbortController().signal;

/**
 * Every check of `doctor` on nodes where something is wrong: each fault and warning has to say what
 * to do.
 */
describe('what doctor finds wrong', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder();
  });

  const at = (name: string) => join(folder, name);
  const wrongIn = async (...given: Parameters<typeof findingsOf>) =>
    (await findingsOf(...given)).filter(({ verdict }) => verdict !== 'ok');
  const expectRemedies = (findings: readonly Finding[]) => {
    expect(findings).not.toEqual([]);
    for (const finding of findings) {
      expect(finding, finding.message).toMatchObject({ remedy: expect.stringMatching(/\S{3}/) });
    }
  };
  const crioPaths = () =>
    new Proxy({} as CrioPaths, { get: (_paths, name) => at(String(name)) }) satisfies CrioPaths as CrioPaths;
  const wrongOfCrio = () =>
    wrongIn(checkCrio, { crio: crioOn(crioPaths(), { tmpfiles: [at('tmpfiles')], guard: at('guard') }) });
  const wrongKeys = () => {
    const trust = { keys_dir: at('keys.d'), threshold: 1, require: 'signature' } as const;
    return wrongIn(checkKeys, {
      settings: { trust },
      revocations: async () => parseRevocationRecord('{', 'state.db'),
    });
  };

  it.each([
    ['gives no answer', ['units', 'registry'], async () => Promise.reject(new Error('no answer'))],
    ['knows no unit', ['units', 'registry'], async () => undefined],
    [
      'has masked units',
      ['units'],
      async (_unit: string, _iface: string, name: string) => (name === 'LoadState' ? 'masked' : ''),
    ],
    [
      'runs none of them, and the registry elsewhere',
      ['units', 'registry'],
      async (_unit: string, _iface: string, name: string) =>
        ({ LoadState: 'loaded', ActiveState: 'failed', UnitFileState: 'enabled', NeedDaemonReload: true })[name] ?? [
          ['Stream', '127.0.0.1:1'],
        ],
    ],
  ])('has a remedy where systemd %s', async (_what, subjects, unitProperty) => {
    const services: SystemServices = { unitProperty, isClockSynchronized: async () => undefined };
    const wrong = await wrongIn((node) => [...checkUnits(node), ...checkRegistrySocket(node)], { services });
    expect(new Set(wrong.map(({ subject }) => subject))).toEqual(new Set(subjects));
    expectRemedies(wrong);
  });

  it('has a remedy for each file of CRI-O that is missing, wrong or no file', async () => {
    expectRemedies(await wrongOfCrio());
    for (const name of ['tmpfiles', 'guard', 'pinsLink']) writeFileSync(at(name), 'rubbish');
    expectRemedies(await wrongOfCrio());
    for (const name of ['tmpfiles', 'guard', 'pinsLink']) rmSync(at(name));
    for (const name of ['tmpfiles', 'guard', 'pinsFile']) mkdirSync(at(name));
    expectRemedies(await wrongOfCrio());
  });

  it('has a remedy for keys that are missing or can not be used', async () => {
    expectRemedies(await wrongKeys());
    mkdirSync(at('keys.d'));
    for (const name of ['a.pub', 'b.revoked', 'c.txt']) writeFileSync(at(`keys.d/${name}`), 'rubbish');
    expectRemedies(await wrongKeys());
  });

  it('has a remedy for a runtime that is not found, does not answer or can not be looked for', async () => {
    const candidate = { kind: 'cri-o', title: 'CRI-O', socketPath: at('crio.sock') } as const;
    for (const findRuntime of [
      async () => undefined,
      async () => createExaminedRuntime(candidate),
      async () => Promise.reject(new Error('permission denied')),
    ]) {
      expectRemedies(await wrongIn(checkRuntime, { findRuntime }));
    }
  });

  it('has a remedy for all that is wrong on this machine, where no bus answers', async () => {
    const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${at('no-bus')}` };
    expectRemedies((await examineNode(env, undefined, never)).filter(({ verdict }) => verdict !== 'ok'));
  });

  it('has a remedy for each finding of the daemon', () => {
    const reason = { code: 'x', message: 'it is wrong' };
    const report = {
      runtime: { reachable: true },
      media: [{ medium: 'sdc1', state: 'failed', bundles: 0, reason }],
      bundles: [{ bundleId: 'sha256:a', name: 'ocp', version: '1', reason }],
      rejected: [{ medium: 'sdb1', path: 'stickpin/x', reason }],
      protected: [],
      stateProblems: [reason],
      conditions: [
        { type: 'PullsAnswered', status: 'False', reason },
        { type: 'PullsFromElsewhere', status: 'True', reason },
        { type: 'PullsFromElsewhere', status: 'Unknown', reason },
      ],
      unclaimed: [{ references: ['quay.example.com/ocp/etcd@sha256:0'] }],
      trust: { require: 'signature', threshold: 1, keys: [], revoked: [], problems: [], revocationsUnreadable: true },
    } as unknown as StatusReport;
    const wrong = findingsOfReport(report).filter(({ verdict }) => verdict !== 'ok');
    expect(wrong).toHaveLength(9);
    expectRemedies(wrong);
  });
});
