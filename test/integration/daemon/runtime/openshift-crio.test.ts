import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { type SampleImage, sampleImage } from '../../../support/bundles/sample-image.ts';
import { connectCri, type TestCriClient } from '../../../support/crio-double/cri/cri-client.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

/** All components of OpenShift are in one repository. This one stands for that of quay.io. */
const REPOSITORY = 'quay.example.com/openshift-release-dev/ocp-v4.0-art-dev';
/** The file of the machine config daemon; it has no suffix. */
const PINS = '50-pinned-images';
const TIMEOUT_MS = 60_000;
/** Components that only the internal registry has. */
const [first, second] = [sampleImage({ seed: 'first' }), sampleImage({ seed: 'second' })];

/** As the daemon's TOML library writes a list of pins (`pkg/daemon/pinned_image_set.go`). */
const pinsText = (images: readonly string[]) =>
  `[crio]\n  [crio.image]\n    pinned_images = [${images.map((image) => `"${image}"`).join(', ')}]\n`;

interface MirrorLine {
  readonly location: string;
  readonly pullFrom: 'digest-only' | 'tag-only';
}

/**
 * `registries.conf` with one source, as the Machine Config Operator writes it of an
 * ImageDigestMirrorSet and an ImageTagMirrorSet, whose mirrors are among `insecureRegistries`.
 * `isBlocked`: the source is never contacted.
 */
const registriesText = (source: string, mirrors: readonly MirrorLine[], isBlocked = false) =>
  [
    'unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]',
    'short-name-mode = ""',
    'additional-layer-store-auth-helper = ""',
    '',
    '[[registry]]',
    '  prefix = ""',
    `  location = "${source}"`,
    ...(isBlocked ? ['  blocked = true'] : []),
    ...mirrors.flatMap(({ location, pullFrom }) => [
      '',
      '  [[registry.mirror]]',
      `    location = "${location}"`,
      '    insecure = true',
      `    pull-from-mirror = "${pullFrom}"`,
    ]),
    '',
  ].join('\n');

describe.runIf(have('root', 'mmdebstrap'))("a node with OpenShift's own pins and mirrors", { timeout: 90_000 }, () => {
  let node: CrioNode;
  let harness: DaemonHarness;
  let client: TestCriClient;
  let bundle: SampleBundle;
  /** Stands for `iri-registry.service`, whose mirrors an ImageDigestMirrorSet names. */
  let internal: SourceRegistry;

  beforeEach(async () => {
    internal = await startSourceRegistry();
    for (const image of [first, second]) internal.add('openshift/release', image);
    node = await createCrioNode(
      {},
      { files: { 'etc/containers/registries.conf': registriesText(REPOSITORY, mirrors()) } },
    );
    ({ harness } = node);
    client = connectCri(node.double().socketPath);
    bundle = await harness.make({
      images: ['etcd', 'api'].map((tag) => ({ reference: `${REPOSITORY}:${tag}`, image: sampleImage({ seed: tag }) })),
    });
  });
  afterEach(async () => {
    client.close();
    await internal.close();
  });

  const mirrors = (path = 'openshift/release'): MirrorLine[] => [
    { location: `${internal.host}/${path}`, pullFrom: 'digest-only' },
  ];
  const nameOf = ({ top }: SampleImage) => `${REPOSITORY}@${top.digest}`;
  const ours = () => bundle.contents.images.map(({ reference }) => reference);
  const dropIn = (folder: 'crioDropIns' | 'registriesDropIns') =>
    readFileSync(join(node.double().dirs[folder], '99-stickpin.conf'), 'utf8');

  /** What the machine config daemon does with the images of its sets. */
  const pinAsDaemon = async (images: readonly string[]) => {
    // It requests nothing that is there.
    for (const image of images) if ((await client.imageStatus(image)) === undefined) await client.pullImage(image);
    const { crioDropIns } = node.double().dirs;
    const path = join(crioDropIns, PINS);
    if (images.length === 0) rmSync(path);
    else {
      const staged = join(crioDropIns, `.${PINS}1234567890`);
      writeFileSync(staged, pinsText(images));
      renameSync(staged, path);
    }
    await node.double().reloadAndWait();
  };
  const writeRegistries = async (text: string) => {
    writeFileSync(node.double().dirs.registriesFile, text);
    await node.double().reloadAndWait();
  };
  const pinned = async () =>
    (await client.listImages())
      .filter((image) => image.pinned)
      .flatMap((image) => image.repo_digests)
      .sort();
  const arePinned = (...names: readonly string[]) =>
    expect.poll(pinned, { timeout: TIMEOUT_MS }).toEqual([...names].sort());
  const told = () => harness.history('pinsNotTaken').map(({ message }) => message);

  it('pins what both list, whoever comes first, and keeps its own pins when the PinnedImageSet changes or goes', async () => {
    await pinAsDaemon([nameOf(first)]);
    await harness.start();
    await harness.load(bundle.path);
    await arePinned(...ours(), nameOf(first));
    const [etcd = ''] = ours();
    await pinAsDaemon([etcd, nameOf(second)]);
    await arePinned(...ours(), nameOf(second));
    expect(internal.requests.map(({ digest }) => digest)).not.toContain(etcd.split('@')[1]);
    expect(dropIn('crioDropIns')).toContain(`# set in "${join(node.double().dirs.crioDropIns, PINS)}"`);
    await pinAsDaemon([]);
    await arePinned(...ours());
    await pinAsDaemon([nameOf(second)]);
    await arePinned(...ours(), nameOf(second));
    expect(readFileSync(join(node.double().dirs.crioDropIns, PINS), 'utf8')).toBe(pinsText([nameOf(second)]));
    expect(told()).toEqual([]);
  });

  it('pins what the machine config daemon changed while stickpin was stopped, as soon as it runs again', async () => {
    await pinAsDaemon([nameOf(first)]);
    await harness.start();
    await harness.load(bundle.path);
    await arePinned(...ours(), nameOf(first));
    await harness.stop();
    await pinAsDaemon([nameOf(second)]);
    expect(await pinned()).toEqual([...ours(), nameOf(first)].sort());
    await harness.start();
    await arePinned(...ours(), nameOf(second));
  });

  it('keeps the images of a release that is given up as long as a PinnedImageSet lists them', async () => {
    await harness.start();
    await harness.load(bundle.path);
    await pinAsDaemon(ours());
    harness.unplug();
    await harness.engine.commands.unpin(
      { bundle: bundle.bundleId, removeImages: true, force: true },
      AbortSignal.timeout(10_000),
    );
    await expect.poll(() => dropIn('crioDropIns'), { timeout: TIMEOUT_MS }).not.toContain('pinned_images = [');
    await harness.rounds();
    expect(await pinned()).toEqual([...ours()].sort());
    await pinAsDaemon([]);
    await expect.poll(() => client.listImages(), { timeout: TIMEOUT_MS }).toEqual([]);
  });

  it('asks stickpin first, then the mirrors of registries.conf, also after these change, and leaves the file alone', async () => {
    const counts = (...images: readonly SampleImage[]) => images.map(({ top }) => internal.getCount(top.digest) > 0);
    const ofBundle = bundle.images.map(({ image }) => image);
    for (const image of ofBundle) internal.add('openshift/release', image);
    await harness.start();
    await harness.load(bundle.path);
    harness.unplug();
    await client.pullImage(nameOf(first));
    for (const name of ours()) await client.pullImage(name);
    expect(counts(first, ...ofBundle)).toEqual([true, false, false]);

    const [other] = mirrors('mirror');
    const changed = [...mirrors('mirror'), { location: 'tags.example.com/mirror', pullFrom: 'tag-only' }] as const;
    const [namespace = ''] = REPOSITORY.split('/ocp-v4');
    internal.add('mirror/ocp-v4.0-art-dev', second);
    const text = registriesText(namespace, changed, true);
    await writeRegistries(text);
    const place = (location = '') => `location = "${location}/ocp-v4.0-art-dev"\n`;
    await expect.poll(() => dropIn('registriesDropIns'), { timeout: TIMEOUT_MS }).toContain(place(other?.location));
    const rendered = dropIn('registriesDropIns');
    expect(rendered).toMatch(/\nblocked = true\n[\s\S]*127\.0\.0\.1[\s\S]*"digest-only"\n[\s\S]*"tag-only"\n/);
    await expect.poll(() => client.pullImage(nameOf(second)), { timeout: TIMEOUT_MS }).toBeTruthy();
    await internal.close();
    for (const name of [...ours(), ...bundle.contents.images.flatMap(({ tags }) => tags)]) await client.pullImage(name);
    expect(counts(second, ...ofBundle)).toEqual([true, false, false]);
    expect(readFileSync(node.double().dirs.registriesFile, 'utf8')).toBe(text);

    await writeRegistries(registriesText('quay.example.com/other', []));
    await expect.poll(() => dropIn('registriesDropIns'), { timeout: TIMEOUT_MS }).not.toContain(internal.host);
    for (const name of ours()) await client.pullImage(name);
  });
});
