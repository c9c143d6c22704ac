import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { sampleReport } from '../../../support/bus/fake-backend.ts';
import { runCommand } from '../../../support/run-command.ts';

const IMAGES = [`quay.io/ocp/etcd@sha256:${'5'.repeat(64)}`, `quay.io/ocp/api@sha256:${'7'.repeat(64)}`];
const run = (...args: readonly string[]) => runWith(IMAGES, ...args);
const runWith = (images: readonly string[], ...args: readonly string[]) =>
  runCommand(['show', ...args, '--pinned-image-set'], {
    client: {
      report: async () => sampleReport(),
      getImages: async ({ bundle }) => (bundle === `sha256:${'a'.repeat(64)}` ? images : []),
    },
  });

describe('show --pinned-image-set', () => {
  it.each([
    ['--images', '--pinned-image-set'],
    ['--json', '--pinned-image-set'],
    ['--json', '--release-signatures'],
  ])('prints one thing: %s is refused beside %s', async (one, other) => {
    const { exitCode, stdout, stderr } = await runCommand(['show', 'ocp@4.13.7', one, other], { client: {} });
    expect(exitCode).toBe(2);
    expect(stdout + stderr).toContain(`option '${other}' cannot be used with option '${one}'`);
  });

  it('prints an object that OpenShift takes, with the digests of the release', async () => {
    const { exitCode, stdout } = await run('ocp@4.13.7');
    expect(exitCode).toBe(0);
    expect(parse(stdout)).toEqual({
      apiVersion: 'machineconfiguration.openshift.io/v1',
      kind: 'PinnedImageSet',
      metadata: { name: 'ocp-4.13.7', labels: { 'machineconfiguration.openshift.io/role': 'worker' } },
      spec: { pinnedImages: IMAGES.map((name) => ({ name })) },
    });
    expect(stdout).toMatch(/^ {4}- name: quay\.io\/ocp\/etcd@sha256:5{64}$/m);
  });

  it.each([
    [500, [['ocp-4.13.7', 500]]],
    [
      1001,
      [
        ['ocp-4.13.7-1', 500],
        ['ocp-4.13.7-2', 500],
        ['ocp-4.13.7-3', 1],
      ],
    ],
  ] as const)('prints %s images in objects of at most 500', async (count, sets) => {
    const images = Array.from({ length: count }, (_, at) => `quay.io/ocp/i${at}@sha256:${'5'.repeat(64)}`);
    const { stdout } = await runWith(images, 'ocp@4.13.7');
    const printed = parseAllDocuments(stdout).map((document) => document.toJS());
    expect(printed.map(({ metadata, spec }) => [metadata.name, spec.pinnedImages.length])).toEqual(sets);
    expect(printed.flatMap(({ spec }) => spec.pinnedImages.map(({ name }: { name: string }) => name))).toEqual(images);
    expect(stdout).toContain('fleet wait');
  });

  it('leaves out names that the API server refuses, with a warning, since one of them refuses the whole object', async () => {
    const digest = `@sha256:${'5'.repeat(64)}`;
    const taken = [
      'registry.example.com/custom-os-image',
      'registry.example.com:5000/custom-os-image',
      'registry.example.com/my-namespace/custom-os-image',
    ].map((name) => name + digest);
    const refused = [
      'registry.example.com/team/group/app',
      'registry.example.com/my.namespace/app',
      `registry.example.com/${'n'.repeat(62)}/app`,
      `registry.example.com/${'n'.repeat(400)}`,
      'localhost:5000/app',
    ].map((name) => name + digest);
    const { exitCode, stdout, stderr } = await runWith([...refused, ...taken], 'ocp@4.13.7');
    expect(exitCode).toBe(0);
    expect(parse(stdout).spec.pinnedImages).toEqual(taken.map((name) => ({ name })));
    expect(stderr).toContain(`warning: these images are left out, stickpin alone pins them: ${refused.join(', ')}. `);
    const none = await runWith(refused, 'ocp@4.13.7');
    expect(none).toMatchObject({ exitCode: 1, stdout: '' });
    expect(none.stderr).toContain('registry.example.com/team/group/app');
    expect(await runWith([], 'ocp@4.13.7')).toMatchObject({ exitCode: 1, stdout: '' });
  });

  it('is for another pool when asked for, and fails for what is not known', async () => {
    const { stdout } = await run('ocp@4.13.7', '--pool', 'master');
    expect(stdout).toContain('machineconfiguration.openshift.io/role: master\n');
    expect(await run('ocp@9')).toMatchObject({ exitCode: 1, stdout: '' });
  });
});
