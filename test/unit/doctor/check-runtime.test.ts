import { expect, it } from 'vitest';
import type { ExaminedRuntime, MirrorReading } from '../../../src/doctor/check.ts';
import { checkRuntime } from '../../../src/doctor/check-runtime.ts';
import { examinedRuntime, linesOf } from '../../support/examined-node.ts';

/** The findings about a node whose runtime answers; `over` tells what is special about it. */
function found(
  over: Partial<ExaminedRuntime>,
  kind: 'auto' | 'embedded' = 'auto',
  blobs: 'metadata' | 'kept' = 'metadata',
) {
  return linesOf(checkRuntime, {
    settings: { preload: { min_free_percent: 10 }, retention: { blobs }, runtime: { kind } },
    findRuntime: async () => examinedRuntime(over),
  });
}

it.each([
  [{ kind: 'read' } as const, []],
  [{ kind: 'unset' } as const, [expect.stringMatching(/^fault: containerd reads no mirrors.*sets no config_path$/)]],
])('states what a config_path of %j means for mirrors', async (mirrors: MirrorReading, expected) => {
  const findings = await found({ mirrors: async () => mirrors });
  expect(findings.filter((text) => text.includes('mirrors'))).toEqual(expected);
});

it.each([
  ['k3s', 'containerd v1.7.24', 'containerd v1.7.24 of k3s'],
  ['containerd', 'containerd v1.7.24', 'containerd v1.7.24'],
  ['CRI-O', 'cri-o 1.36.3', 'cri-o 1.36.3'],
])('names the runtime of %s, which says that it is %s, as %s', async (title, name, shown) => {
  const socketPath = '/run/x.sock';
  const [answers] = await found({ title, socketPath, version: async () => name });
  expect(answers).toBe(`ok: ${shown} answers on ${socketPath}`);
});

it('recommends to keep layers where a clean-up takes pins away', async () => {
  const warns = expect.stringMatching(/^warning: 'system prune' of the runtime removes pins/);
  expect(await found({ losesPins: true })).toContainEqual(warns);
  expect(await found({ losesPins: true }, 'auto', 'kept')).not.toContainEqual(warns);
  expect(await found({})).not.toContainEqual(warns);
});

it('finds no fault where the images are kept in a folder', async () => {
  const away = { status: async () => Promise.reject(new Error('not there')) };
  expect(await found(away, 'embedded')).toEqual([expect.stringMatching(/^ok: the images are kept in a folder/)]);
});

it('says nothing of the kubelet when the disk is full', async () => {
  const imageFilesystem = async () => ({ path: '/var/lib/containerd', freeBytes: 5, totalBytes: 100 });
  const findings = (await found({ imageFilesystem })).join('\n');
  expect(findings).toContain('no release can be pulled');
  expect(findings).not.toContain('kubelet');
});
