import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';

const systemd = new URL('../../../systemd/', import.meta.url);
const script = new URL('openshift-upgrade', systemd).pathname;
const REPOSITORY = 'quay.io/openshift-release-dev/ocp-release';
const NEW = `${REPOSITORY}@sha256:${'2'.repeat(64)}`;
const OLD = `${REPOSITORY}@sha256:${'1'.repeat(64)}`;

type Condition = readonly [type: string, status: string, message: string];

/** A cluster as its ClusterVersion (config.openshift.io/v1) shows it, one entry for each read. */
interface Read {
  readonly conditions?: readonly Condition[];
  /** The newest update of the history. */
  readonly update?: { readonly image: string; readonly version: string; readonly state: 'Completed' | 'Partial' };
  readonly desired?: string;
  readonly isAway?: boolean;
}

const NAME = `sha256-${'2'.repeat(64)}`;
const ran = { image: OLD, version: '4.18.2', state: 'Completed' } as const;
const runs = { image: NEW, version: '4.18.3', state: 'Partial' } as const;
const WORKING = ['Progressing', 'True', 'Working towards 4.18.3: 106 of 901 done (11% complete)'] as const;
const REFUSED = [
  'ReleaseAccepted',
  'False',
  'Retrieving payload failed version="" failure=The update cannot be verified',
] as const;

function clusterVersion({ conditions = [], update = ran, desired }: Read): object {
  const history = update.state === 'Completed' ? [update] : [update, ran];
  return {
    apiVersion: 'config.openshift.io/v1',
    kind: 'ClusterVersion',
    metadata: { name: 'version', generation: 3 },
    spec: {
      channel: 'stable-4.18',
      clusterID: '00000000-0000-0000-0000-000000000001',
      ...(desired !== undefined && { desiredUpdate: { architecture: '', force: false, image: desired, version: '' } }),
    },
    status: {
      availableUpdates: null,
      conditions: conditions.map(([type, status, message]) => ({
        type,
        status,
        message,
        lastTransitionTime: '2026-11-01T00:00:00Z',
      })),
      desired: { image: update.image, version: update.version },
      history: history.map((one) => ({
        ...one,
        startedTime: '2026-11-01T00:00:00Z',
        completionTime: null,
        verified: true,
      })),
      observedGeneration: 3,
    },
  };
}

describe.runIf(have(program('jq', 'apt-get install jq')))('the upgrade of an OpenShift cluster', () => {
  const root = folderForEach();
  const calls = () => readFileSync(join(root, 'calls'), 'utf8').trim().split('\n').filter(Boolean);
  const install = (name: string, body: string) =>
    writeFileSync(join(root, 'bin', name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });

  beforeEach(() => {
    for (const name of ['bin', 'reads', 'files']) mkdirSync(join(root, name));
    writeFileSync(join(root, 'calls'), '');
    install('stickpin', `echo "stickpin $*" >>${root}/calls`);
    nodes(3);
    reads({});
  });

  const nodes = (count: number) =>
    writeFileSync(
      join(root, 'nodes.json'),
      JSON.stringify({ kind: 'List', items: Array(count).fill({ kind: 'Node' }) }),
    );

  /** What each read of the ClusterVersion finds; the last one lasts. */
  function reads(...all: readonly Read[]): void {
    all.forEach((one, at) => {
      writeFileSync(join(root, 'reads', `${at}`), one.isAway ? '' : JSON.stringify(clusterVersion(one)));
    });
    install(
      'oc',
      `case "$*" in
'get clusterversion version --output json')
  at=$(cat ${root}/at 2>/dev/null || echo 0)
  [ "$at" -ge ${all.length - 1} ] || echo $((at + 1)) >${root}/at
  [ -s ${root}/reads/$at ] || { echo 'The connection to the server was refused' >&2; exit 1; }
  cat ${root}/reads/$at ;;
'get nodes --output json') cat ${root}/nodes.json ;;
*) echo "oc $*" >>${root}/calls; [ "$1" != apply ] || cat >${root}/applied; [ ! -e ${root}/refuse ] ;;
esac`,
    );
  }

  const environment = (more: Readonly<Record<string, string>> = {}) => ({
    PATH: `${join(root, 'bin')}:${process.env.PATH}`,
    POLL_SECONDS: '0.01',
    STICKPIN_BUNDLE: 'ocp@4.18.3',
    STICKPIN_DIGEST: BUNDLE_ID,
    STICKPIN_NAME: 'ocp',
    STICKPIN_VERSION: '4.18.3',
    STICKPIN_ATTACHMENTS: join(root, 'files'),
    STICKPIN_IMAGE_OCP_RELEASE: NEW,
    ...more,
  });
  const run = (more?: Readonly<Record<string, string>>) =>
    spawnSync('/bin/sh', [script], { encoding: 'utf8', env: environment(more) });

  const REQUEST = `oc adm upgrade --allow-explicit-upgrade --to-image ${NEW}`;
  const WAIT = 'stickpin fleet wait --timeout 12 h ocp@4.18.3';
  const BUNDLE_ID = `sha256:${'b'.repeat(64)}`;
  const PROVE = `stickpin prove ${BUNDLE_ID}`;

  it('is requested once every node has the release, with its signatures, and proves it at the end', () => {
    const signatures = join(root, 'files/release-signatures.json');
    const map = {
      ...{ apiVersion: 'v1', kind: 'ConfigMap', binaryData: { [`${NAME}-1`]: 'eA==', other: 'eA==' } },
      metadata: { name: NAME, namespace: 'openshift-config-managed', labels: { mine: 'x' }, ownerReferences: [] },
    };
    writeFileSync(signatures, JSON.stringify(map));
    const working = { conditions: [WORKING], update: runs, desired: NEW };
    reads({}, working, working, { isAway: true }, { isAway: true }, working, {
      update: { ...runs, state: 'Completed' },
      desired: NEW,
    });
    const { status, stdout, stderr } = run();
    expect([status, calls()]).toEqual([0, [WAIT, 'oc apply --filename -', REQUEST, PROVE]]);
    expect(JSON.parse(readFileSync(join(root, 'applied'), 'utf8'))).toEqual({
      ...{ apiVersion: 'v1', kind: 'ConfigMap', binaryData: { [`${NAME}-1`]: 'eA==' } },
      metadata: {
        ...{ name: NAME, namespace: 'openshift-config-managed' },
        labels: { 'release.openshift.io/verification-signatures': '' },
      },
    });
    expect(stdout).toBe(`Progressing: ${WORKING[2]}\nThe API server does not answer, it is asked again\n`);
    expect(stderr).toContain('connection to the server was refused');
  });

  it('is requested by one control plane node only', () => {
    reads({ update: runs, desired: NEW }, { update: { ...runs, state: 'Completed' }, desired: NEW });
    expect([run().status, calls()]).toEqual([0, [PROVE]]);
  });

  it('is over on a cluster that runs the release, also after the node was booted for it', () => {
    reads({ update: { ...runs, state: 'Completed' }, desired: NEW });
    expect([run().status, calls()]).toEqual([0, [PROVE]]);
  });

  it('asks no other node where there is none', () => {
    nodes(1);
    reads({}, { update: { ...runs, state: 'Completed' }, desired: NEW });
    expect([run().status, calls()]).toEqual([0, [REQUEST, PROVE]]);
  });

  it('waits for no other node while the API server does not say how many there are', () => {
    writeFileSync(join(root, 'nodes.json'), '');
    const { status, stderr } = run();
    expect([status, calls(), stderr]).toEqual([1, [], 'The upgrade could not be requested; the reason stands above\n']);
  });

  it('passes on more flags of the unit, and finds the release image by its component', () => {
    nodes(1);
    reads({}, { update: { ...runs, state: 'Completed' }, desired: NEW });
    const more = { UPGRADE_FLAGS: '--force', STICKPIN_IMAGE_OCP_RELEASE: '', STICKPIN_IMAGE_MY_RELEASE: NEW };
    expect(run({ ...more, RELEASE_COMPONENT: 'MY_RELEASE' }).status).toBe(0);
    expect(calls()[0]).toBe(`oc adm upgrade --allow-explicit-upgrade --force --to-image ${NEW}`);
  });

  it.each([
    ['4.18.2', '4.18.3'],
    ['4.18.3-rc.1', '4.18.3'],
    ['4.9.9', '4.18.2'],
  ])('is not requested for %s on a cluster that runs %s', (wanted, present) => {
    reads({ update: { ...ran, version: present } });
    const { status, stderr } = run({ STICKPIN_VERSION: wanted });
    expect([status, calls()]).toEqual([1, []]);
    expect(stderr).toBe(
      `The cluster runs ${present}, and OpenShift does not go back to ${wanted}: nothing was requested\n`,
    );
  });

  it('is not requested while a node lacks the release', () => {
    install('stickpin', `echo "stickpin $*" >>${root}/calls\nexit 6`);
    const { status, stderr } = run();
    expect([status, calls()]).toEqual([1, [WAIT]]);
    expect(stderr).toContain('Not every node has ocp@4.18.3: nothing was requested');
  });

  it('fails with the reason of the cluster when that does not take the release', () => {
    nodes(1);
    reads({}, { conditions: [WORKING, REFUSED], desired: NEW });
    const { status, stderr, stdout } = run();
    expect([status, calls()]).toEqual([1, [REQUEST]]);
    expect(stdout).toContain('The bundle has no signatures of the release image');
    expect(stderr).toBe(`The cluster does not take the release. ${REFUSED[0]}: ${REFUSED[2]}\n`);
  });

  it('fails when somebody has the cluster upgraded to another release', () => {
    reads({ update: runs, desired: NEW }, { update: runs, desired: `${REPOSITORY}@sha256:${'3'.repeat(64)}` });
    const { status, stderr } = run();
    expect([status, calls()]).toEqual([1, []]);
    expect(stderr).toContain('sha256:3333');
  });

  it('says what the cluster said last when its time is over', async () => {
    reads({
      conditions: [['Failing', 'True', 'Cluster operator etcd is degraded'], WORKING],
      update: runs,
      desired: NEW,
    });
    const child = spawn('/bin/sh', [script], { env: environment() });
    let stderr = '';
    child.stderr.on('data', (data) => {
      stderr += data;
    });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    child.kill();
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect([code, stderr]).toEqual([
      1,
      'The upgrade was stopped, or did not end in time. Failing: Cluster operator etcd is degraded\n',
    ]);
  });

  it('leaves a release that is proven already as it is', () => {
    reads({ update: { ...runs, state: 'Completed' }, desired: NEW });
    install('stickpin', `echo "stickpin $*" >>${root}/calls\n[ "$1" = wait ]`);
    expect([run().status, calls()]).toEqual([0, [PROVE, `stickpin wait --for proven --timeout 0 ${BUNDLE_ID}`]]);
  });

  it.each([
    ['another kind', { kind: 'ClusterRoleBinding' }],
    ['a list', { kind: 'List', items: [] }],
    ['another namespace', { metadata: { name: NAME, namespace: 'kube-system' } }],
    ['another image', { metadata: { name: `sha256-${'9'.repeat(64)}`, namespace: 'openshift-config-managed' } }],
  ])('applies nothing but signatures of its release image: %s', (_what, members) => {
    const map = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: NAME, namespace: 'openshift-config-managed' },
    };
    writeFileSync(join(root, 'files/release-signatures.json'), JSON.stringify({ ...map, binaryData: {}, ...members }));
    const { status, stderr } = run();
    expect([status, calls()]).toEqual([1, [WAIT]]);
    expect(stderr).toContain(`is no ConfigMap with signatures of ${NEW}: nothing was requested`);
  });

  it('takes a request by another name of the same image for its own', () => {
    const mirror = `mirror.example.com/ocp@sha256:${'2'.repeat(64)}`;
    reads(
      { update: runs, desired: mirror },
      { update: { ...runs, image: mirror, state: 'Completed' }, desired: mirror },
    );
    expect([run().status, calls()]).toEqual([0, [PROVE]]);
  });

  it('requests it again when the cluster refuses for a while, and then fails', () => {
    nodes(1);
    writeFileSync(join(root, 'refuse'), '');
    const { status, stderr } = run();
    expect([status, calls().length, stderr]).toEqual([
      1,
      40,
      'The upgrade could not be requested; the reason stands above\n',
    ]);
  });

  it('proves it again after a boot, when the images are checked', () => {
    reads({ update: { ...runs, state: 'Completed' }, desired: NEW });
    install('stickpin', `echo "stickpin $*" >>${root}/calls\n[ $(wc -l <${root}/calls) -ge 5 ]`);
    expect([run().status, calls().length]).toEqual([0, 5]);
  });

  it('takes no file of the root of the node for signatures', () => {
    nodes(1);
    reads({}, { update: { ...runs, state: 'Completed' }, desired: NEW });
    expect(run({ STICKPIN_ATTACHMENTS: '' }).stdout).toContain('The bundle has no signatures of the release image');
  });

  it('names what the bundle lacks', () => {
    const { status, stderr } = run({ STICKPIN_IMAGE_OCP_RELEASE: '' });
    expect([status, calls()]).toEqual([1, []]);
    expect(stderr).toContain('has no image with the component of a release image (STICKPIN_IMAGE_OCP_RELEASE)');
  });
});
