import { describe, expect, it } from 'vitest';
import type { ExaminedKubelet } from '../../../src/doctor/check.ts';
import { checkKubelet } from '../../../src/doctor/check-kubelet.ts';
import { findingsOf } from '../../support/examined-node.ts';

const DEFAULT: ExaminedKubelet = {
  configFile: '/var/lib/kubelet/config.yaml',
  verificationPolicy: undefined,
  allowlist: [],
  isRunning: false,
  collectsAtPercent: 85,
  evictsBelow: '15%',
  records: '/var/lib/kubelet/image_manager',
  pullIntents: [],
  secretRepositories: [],
  repositories: ['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd'],
};

async function wrong(over: Partial<ExaminedKubelet>, min_free_percent = 15) {
  const kubelet = async () => ({ ...DEFAULT, ...over });
  const found = await findingsOf(checkKubelet, { kubelet, settings: { preload: { min_free_percent } } });
  return found.filter(({ verdict }) => verdict !== 'ok').map(({ message }) => message);
}

describe('the check of the kubelet', () => {
  it('finds nothing wrong with the defaults, and nothing at all without a kubelet', async () => {
    expect(await wrong({})).toEqual([]);
    expect(await wrong({ verificationPolicy: 'NeverVerify' })).toEqual([]);
    const kubelet = async () => ({ ...DEFAULT, configFile: undefined });
    expect(await findingsOf(checkKubelet, { kubelet, settings: { preload: { min_free_percent: 0 } } })).toEqual([]);
  });

  it('warns of a policy that asks registries, and names what an allow-list lacks', async () => {
    expect(await wrong({ verificationPolicy: 'AlwaysVerify' })).toEqual([expect.stringContaining('is AlwaysVerify')]);
    const list = (...allowlist: readonly string[]) =>
      wrong({ verificationPolicy: 'NeverVerifyAllowlistedImages', allowlist });
    expect(await list('quay.example.com/ocp/*')).toEqual([]);
    expect(await list('quay.example.com/ocp/api', 'quay.example.com/ocp/etcd')).toEqual([]);
    expect(await list('quay.example.com/ocp/ap*')).toEqual([expect.stringContaining('ocp/api and 1 other:')]);
    expect(await list('quay.example.com/ocp/api')).toEqual([
      expect.stringContaining('lacks quay.example.com/ocp/etcd:'),
    ]);
  });

  it('warns of records about images of releases, and of no others', async () => {
    const pullIntents = ['quay.example.com/ocp/etcd:3.5.9', 'docker.io/library/nginx:1'];
    expect(await wrong({ pullIntents })).toEqual([
      expect.stringMatching(/^an unfinished pull of quay\.example\.com\/ocp\/etcd:3\.5\.9 is recorded/),
    ]);
    const digest = `quay.example.com/ocp/api@sha256:${'0'.repeat(64)}`;
    expect(await wrong({ pullIntents: [digest] })).toHaveLength(1);
    expect(await wrong({ secretRepositories: ['quay.example.com/ocp/api', 'docker.io/library/nginx'] })).toEqual([
      expect.stringMatching(/^it pulled quay\.example\.com\/ocp\/api with the secret of a pod/),
    ]);
    expect(await wrong({ pullIntents: ['docker.io/library/nginx:1'], secretRepositories: ['docker.io/x'] })).toEqual(
      [],
    );
  });

  it('warns when the kubelet collects images before stickpin stops pulling', async () => {
    expect(await wrong({ evictsBelow: '5%' }, 14)).toEqual([expect.stringContaining('fills the disk up to 86 %')]);
    expect(await wrong({ collectsAtPercent: 80 })).toEqual([expect.stringContaining('from 80 % on')]);
    expect(await wrong({ collectsAtPercent: 90 })).toEqual([]);
  });

  it('warns when the kubelet ends pods before stickpin stops pulling', async () => {
    const collectsAtPercent = 100;
    expect(await wrong({ collectsAtPercent }, 15)).toEqual([]);
    expect(await wrong({ collectsAtPercent }, 14)).toEqual([expect.stringContaining('ends pods when less than 15 %')]);
    expect(await wrong({ collectsAtPercent, evictsBelow: '10Gi' }, 14)).toEqual([]);
  });

  it('looks at a kubelet that runs and has no file', async () => {
    expect(await wrong({ configFile: undefined, isRunning: true, collectsAtPercent: 70 })).toHaveLength(1);
  });
});
