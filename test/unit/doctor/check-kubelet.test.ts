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
  collectsAfter: '2m',
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

  describe('with cri-dockerd', () => {
    const pins = (...images: readonly string[]) => ({ criDockerd: { images, labels: [] } });

    it('warns of releases that cri-dockerd does not pin, and says what to set', async () => {
      const kubelet = async () => ({ ...DEFAULT, ...pins(), collectsOlderThan: '720h' });
      const found = await findingsOf(checkKubelet, { kubelet, settings: { preload: { min_free_percent: 15 } } });
      expect(found.find(({ verdict }) => verdict === 'warning')).toMatchObject({
        message:
          'cri-dockerd does not pin quay.example.com/ocp/api and 1 other: above 85 % disk use, and at the age of 720h (imageMaximumGCAge) the kubelet removes the names of each image that no pod uses, 2m after it came (imageMinimumGCAge). stickpin gives the names again, and a unit that needs one before then fails',
        remedy:
          "add --pinned-images=quay.example.com/ocp/api,quay.example.com/ocp/etcd to the options of cri-dockerd if 'cri-dockerd --help' lists it (after 0.4.4); otherwise set imageGCHighThresholdPercent: 100 and no imageMaximumGCAge in /var/lib/kubelet/config.yaml, and restart the kubelet",
      });
      expect(await wrong({ ...pins(), repositories: [] })).toEqual([
        expect.stringContaining('does not pin those of releases:'),
      ]);
      expect(await wrong({ ...pins(), collectsAtPercent: 100, collectsOlderThan: '720h' })).toEqual([
        expect.stringContaining('and 1 other: at the age of 720h (imageMaximumGCAge) the kubelet removes'),
      ]);
    });

    it('compares as cri-dockerd does: with repositories and prefixes, by the names of Docker', async () => {
      for (const entries of [
        ['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd'],
        ['quay.example.com/ocp/*'],
        ['quay.example.com/ocp/api:*', 'quay.example.com/ocp/e*'],
        ['*'],
      ])
        expect(await wrong(pins(...entries)), entries.join()).toEqual([]);
      for (const entry of ['quay.example.com/ocp', 'quay.example.com/ocp/etcd:3', 'quay.example.com/ocp/etcd:3*'])
        expect(await wrong(pins('quay.example.com/ocp/api', entry)), entry).toEqual([
          expect.stringContaining('does not pin quay.example.com/ocp/etcd:'),
        ]);
      const repositories = ['docker.io/library/etcd', 'docker.io/sonic/swss'];
      expect(await wrong({ ...pins('etcd', 'sonic/swss'), repositories })).toEqual([]);
      expect(await wrong({ ...pins('docker.io/library/etcd', 'sonic/swss'), repositories })).toEqual([
        expect.stringContaining('does not pin etcd:'),
      ]);
    });

    it('warns of nothing where labels may pin them, or where the kubelet collects no images', async () => {
      expect(await wrong({ criDockerd: { images: [], labels: ['io.example.keep'] } })).toEqual([]);
      expect(await wrong({ ...pins(), collectsAtPercent: 100 })).toEqual([]);
      expect(await wrong({ ...pins(), collectsAtPercent: 100, collectsOlderThan: '24h' })).toHaveLength(1);
    });
  });
});
