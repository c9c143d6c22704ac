import { describe, expect, it } from 'vitest';
import type { Phase } from '../../../../src/domain/model/condition.ts';
import {
  labelsOf,
  nodeStatusOf,
  publishedStatus,
  STATUS_ANNOTATION,
} from '../../../../src/fleet/publish/node-status.ts';
import type { OwnBundle } from '../../../../src/fleet/publish/own-report.ts';
import { AdmissionPolicy, readManifests } from '../../../support/kubernetes/admission-policy.ts';
import { ownBundle, ownReport } from '../../../support/kubernetes/own-report.ts';

const FILE = 'packaging/node/upgrade-gate.yaml';
const clusterVersions = AdmissionPolicy.read(FILE, 'stickpin-cluster-version');
const deployments = AdmissionPolicy.read(FILE, 'stickpin-deployment');

/** As stickpin publishes it. */
function node(name: string, bundles: readonly OwnBundle[]) {
  const report = ownReport(bundles);
  const status = JSON.stringify(publishedStatus(nodeStatusOf(report)));
  return { metadata: { name, labels: labelsOf(report), annotations: { [STATUS_ANNOTATION]: status } } };
}

const ready = (over: Partial<OwnBundle> = {}) => ownBundle({ phase: 'ready', ...over });
const readyNodes = ['worker-1', 'worker-2'].map((name) => node(name, [ready()]));
const bareNode = { metadata: { name: 'worker-3' } };

function clusterVersion(desiredUpdate?: object, more: object = {}) {
  const spec = { clusterID: '5f0c8a12-e9b4-4d3a-90ab-12cd34ef5678', channel: 'stable-4.13', ...more };
  return { metadata: { name: 'version' }, spec: desiredUpdate === undefined ? spec : { ...spec, desiredUpdate } };
}

const IMAGE = 'quay.io/openshift-release-dev/ocp-release@sha256:90ab';
const upgrade = { object: clusterVersion({ version: '4.13.7', image: IMAGE }), oldObject: clusterVersion() };

describe('the policy for ClusterVersion', () => {
  it('lets an upgrade begin when every Node has all images', () => {
    expect(clusterVersions.refusal(upgrade, readyNodes)).toBeUndefined();
  });

  it('compares the version and no digest of the image, which no Node publishes', () => {
    const other = { ...upgrade, object: clusterVersion({ version: '4.13.7', image: IMAGE.replace('90ab', 'ffff') }) };
    expect(clusterVersions.refusal(other, readyNodes)).toBeUndefined();
    expect(JSON.stringify(readyNodes)).not.toContain('@sha256');
  });

  it('names the Node that lacks images, and what to do', () => {
    const loading = node('worker-2', [ownBundle(), ready({ version: '4.13.6', phase: 'proven', current: true })]);
    expect(clusterVersions.refusal(upgrade, [...readyNodes.slice(0, 1), loading])).toBe(
      'Node worker-2 does not have all images of ocp 4.13.7 (stickpin.io/ready-ocp: 4.13.6). Plug the stick into any node, and wait: kubectl get nodes -L stickpin.io/ready-ocp',
    );
  });

  it.each([
    ['a Node without stickpin', bareNode],
    [
      'a Node with labels of others only',
      { metadata: { name: 'worker-3', labels: { a: 'b' }, annotations: { c: 'd' } } },
    ],
  ])('refuses it because of %s', (_, other) => {
    expect(clusterVersions.refusal(upgrade, [...readyNodes, other])).toMatch(/^Node worker-3 .*ready-ocp: none/);
  });

  it('takes no Node without the label for one that is ready, whatever the version is called', () => {
    const none = { object: clusterVersion({ version: 'none', image: IMAGE }), oldObject: clusterVersion() };
    expect(clusterVersions.refusal(none, [bareNode])).toMatch(/^Node worker-3 does not have all images of ocp none/);
  });

  it('refuses each change while there is no Node', () => {
    const other = { object: clusterVersion(undefined, { channel: 'fast' }), oldObject: clusterVersion() };
    for (const request of [upgrade, other]) expect(clusterVersions.refusal(request, [])).toContain('no params found');
  });

  it.each<[Phase, boolean]>([
    ['detected', false],
    ['held', false],
    ['preloading', false],
    ['ready', true],
    ['activated', true],
    ['active', true],
    ['proven', true],
    ['superseded', true],
    ['retired', false],
  ])('takes a release that is %s for loaded: %s', (phase, isLoaded) => {
    // A later release has the label.
    const later = ready({ version: '4.13.8', sequence: 8 });
    const refusal = clusterVersions.refusal(upgrade, [node('worker-1', [ready({ phase }), later])]);
    expect(refusal === undefined).toBe(isLoaded);
  });

  it('refuses a release whose images are lacking again', () => {
    const conditions = [{ type: 'Preloaded', status: 'False', reason: 'ImagesAbsent', message: '1 of 10' }];
    const lacking = node('worker-1', [
      ready({ phase: 'proven', conditions }),
      ready({ version: '4.13.6', sequence: 6 }),
    ]);
    expect(clusterVersions.refusal(upgrade, [lacking])).toContain('ready-ocp: 4.13.6');
  });

  it('refuses a release that was rolled back', () => {
    const rolledBack = ready({ phase: 'activated', rolledBack: true });
    const back = node('worker-1', [rolledBack, ready({ version: '4.13.6', sequence: 6 })]);
    expect(clusterVersions.refusal(upgrade, [back])).toContain('ready-ocp: 4.13.6');
  });

  it('is not deceived by a similar version or another stream', () => {
    const similar = [ready({ version: '4.13.70' }), ready({ version: '14.13.7' }), ready({ name: 'app' })];
    expect(clusterVersions.refusal(upgrade, [node('worker-1', similar)])).toContain('worker-1');
  });

  it('does not read a status that is longer than stickpin writes', () => {
    const later = ready({ version: '4.13.8', sequence: 8 });
    const one = node('worker-1', [ready(), later]);
    const status = one.metadata.annotations[STATUS_ANNOTATION] ?? '';
    const withStatus = (text: string) => ({
      metadata: { ...one.metadata, annotations: { [STATUS_ANNOTATION]: text } },
    });
    expect(clusterVersions.refusal(upgrade, [withStatus(status.padEnd(2_048))])).toBeUndefined();
    expect(clusterVersions.refusal(upgrade, [withStatus(status.padEnd(2_049))])).toContain('Node worker-1 ');
  });

  it('needs a version beside an image', () => {
    const object = clusterVersion({ image: IMAGE });
    expect(clusterVersions.refusal({ ...upgrade, object }, readyNodes)).toMatch(
      /^desiredUpdate has an image and no version/,
    );
  });

  it.each([
    ['an update is taken back', clusterVersion(), upgrade.object],
    [
      'the channel changes during an upgrade',
      clusterVersion({ version: '4.13.7', image: IMAGE }, { channel: 'fast' }),
      upgrade.object,
    ],
    ['there is no update', clusterVersion(undefined, { channel: 'fast' }), clusterVersion()],
  ])('passes when %s', (_, object, oldObject) => {
    expect(clusterVersions.refusal({ object, oldObject }, [bareNode])).toBeUndefined();
  });

  it('sees an object that is created with an update', () => {
    expect(clusterVersions.refusal({ ...upgrade, oldObject: null }, [bareNode])).toContain('worker-3');
  });
});

interface Over {
  readonly image?: string;
  readonly init?: string;
  readonly version?: string;
  readonly replicas?: number;
  readonly labels?: Record<string, string>;
  readonly bundle?: string;
}

function deployment(over: Over) {
  const { image = 'app:1', init, version, replicas = 1, labels = { 'stickpin.io/stream': 'app' }, bundle } = over;
  const digest = bundle === undefined ? {} : { 'stickpin.io/bundle': bundle };
  const annotations = version === undefined ? {} : { annotations: { 'stickpin.io/version': version, ...digest } };
  const initContainers = init === undefined ? {} : { initContainers: [{ name: 'init', image: init }] };
  const spec = { ...initContainers, containers: [{ name: 'app', image }] };
  return { metadata: { name: 'app', labels, ...annotations }, spec: { replicas, template: { spec } } };
}

describe('the policy for Deployments', () => {
  const before = deployment({ version: '1.0.0' });
  const appNodes = [node('worker-1', [ready({ name: 'app', version: '2.0.0+7' })])];
  const namespaceOf = (streams?: string) => ({
    metadata: { name: 'shop', ...(streams !== undefined && { annotations: { 'stickpin.io/streams': streams } }) },
  });
  const refusal = (
    over: Over,
    nodes: readonly object[] = appNodes,
    oldObject: object | null = before,
    streams = 'app',
  ) => deployments.refusal({ object: deployment(over), oldObject, namespaceObject: namespaceOf(streams) }, nodes);

  it('lets the images change when every Node has the release', () => {
    expect(refusal({ image: 'app:2', version: '2.0.0+7' })).toBeUndefined();
    expect(refusal({ image: 'app:2', version: '2.0.0+7' }, [...appNodes, bareNode])).toMatch(
      /^Node worker-3 does not have all images of app 2\.0\.0\+7 \(stickpin\.io\/ready-app: none\)/,
    );
  });

  it('is not passed by naming another stream that is ready: the namespace says which ones it may name', () => {
    const other = { image: 'app:2', version: '2.0.0+7', labels: { 'stickpin.io/stream': 'web' } };
    const nodes = [node('worker-1', [ready({ name: 'web', version: '2.0.0+7' })])];
    expect(refusal(other, nodes)).toBe(
      'namespace shop does not allow stream web. Somebody who may change it can allow it: kubectl annotate --overwrite namespace shop stickpin.io/streams=web',
    );
    expect(refusal(other, nodes, before, 'app,web')).toBeUndefined();
    expect(refusal(other, nodes, before, 'app,webb')).toContain('does not allow stream web');
    const bare = { object: deployment(other), oldObject: null, namespaceObject: namespaceOf() };
    expect(deployments.refusal(bare, nodes)).toContain('does not allow stream web');
  });

  it('compares the digest of the bundle where the Deployment names one', () => {
    const bundle = ready({ name: 'app', version: '2.0.0' });
    const nodes = [node('worker-1', [bundle])];
    const [own = ''] = /[0-9a-f]{16}/.exec(bundle.bundleId) ?? [];
    expect(refusal({ image: 'app:2', version: '2.0.0' }, nodes)).toBeUndefined();
    expect(refusal({ image: 'app:2', version: '2.0.0', bundle: own }, nodes)).toBeUndefined();
    expect(refusal({ image: 'app:2', version: '2.0.0', bundle: '0123456789abcdef' }, nodes)).toMatch(
      /^Node worker-1 does not have all images of app 2\.0\.0, bundle 0123456789abcdef \(/,
    );
    expect(refusal({ image: 'app:2', version: '2.0.0', bundle: own.slice(0, 8) }, nodes)).toContain('worker-1');
  });

  it('takes the version of the label, too', () => {
    const [one] = appNodes;
    const label = one?.metadata.labels['stickpin.io/ready-app'] ?? '';
    expect(label).toMatch(/^v-[0-9a-f]{16}$/);
    expect(refusal({ image: 'app:2', version: label })).toBeUndefined();
  });

  it.each([
    ['its number of replicas changes', { version: '1.0.0', replicas: 5 }],
    ['its version changes and no image', { version: '2.0.0' }],
    ['it leaves the gate', { version: '1.0.0', labels: {} }],
  ])('passes when %s', (_, over) => {
    expect(refusal(over, [bareNode])).toBeUndefined();
  });

  it.each([
    ['that is not named anew', { image: 'app:2', version: '1.0.0' }],
    ['of an init container that is not named anew', { init: 'migrate:2', version: '1.0.0' }],
    ['without a version', { image: 'app:2' }],
  ])('refuses images of a release %s', (_, over) => {
    expect(refusal(over)).toMatch(/^the images change, and the annotation stickpin.io\/version does not/);
  });

  it('judges a new Deployment, and one that leaves the gate with other images', () => {
    expect(refusal({ version: '2.0.0+7' }, appNodes, null)).toBeUndefined();
    expect(refusal({ version: '2.0.0+7' }, [bareNode], null)).toContain('worker-3');
    expect(refusal({ image: 'app:2', version: '2.0.0', labels: {} }, [bareNode])).toContain('images of app 2.0.0');
  });
});

it('both policies judge by all Nodes, and refuse what they can not judge', () => {
  const specs = readManifests(FILE).map(({ kind, metadata, spec }) => [kind, metadata.name, spec]);
  for (const name of ['stickpin-cluster-version', 'stickpin-deployment']) {
    expect(specs).toContainEqual([
      'ValidatingAdmissionPolicy',
      name,
      expect.objectContaining({ failurePolicy: 'Fail', paramKind: { apiVersion: 'v1', kind: 'Node' } }),
    ]);
    const paramRef = { selector: {}, parameterNotFoundAction: 'Deny' };
    const binding = { policyName: name, validationActions: ['Deny'], paramRef };
    expect(specs).toContainEqual(['ValidatingAdmissionPolicyBinding', name, binding]);
  }
});
