import { expect, it } from 'vitest';
import type { MirrorReading } from '../../../src/doctor/check.ts';
import { checkRuntime } from '../../../src/doctor/check-runtime.ts';

async function messagesOf(mirrors: MirrorReading): Promise<readonly string[]> {
  const [check] = checkRuntime({
    settings: { preload: { min_free_percent: 10 } },
    findRuntime: async () => ({
      title: 'containerd',
      socketPath: '/run/containerd/containerd.sock',
      status: async () => undefined,
      version: async () => 'containerd v2.2.1',
      mirrors: async () => mirrors,
      imageFilesystem: async () => ({ path: '/var/lib/containerd', freeBytes: 90, totalBytes: 100 }),
      close: () => undefined,
    }),
  });
  const findings = (await check?.look(new AbortController().signal)) ?? [];
  return findings.map((finding) => `${finding.verdict} ${finding.message}`).filter((text) => text.includes('mirrors'));
}

it.each([
  [{ kind: 'read' } as const, []],
  [{ kind: 'unset' } as const, [expect.stringMatching(/^fault containerd reads no mirrors.*sets no config_path$/)]],
])('states what a config_path of %j means for mirrors', async (mirrors, expected) => {
  expect(await messagesOf(mirrors)).toEqual(expected);
});

it('says nothing of the kubelet when the disk is full', async () => {
  const [check] = checkRuntime({
    settings: { preload: { min_free_percent: 10 } },
    findRuntime: async () => ({
      title: 'containerd',
      socketPath: '/run/containerd/containerd.sock',
      status: async () => undefined,
      version: async () => 'containerd v2.2.1',
      mirrors: async () => ({ kind: 'read' }),
      imageFilesystem: async () => ({ path: '/var/lib/containerd', freeBytes: 5, totalBytes: 100 }),
      close: () => undefined,
    }),
  });
  const findings = JSON.stringify(await check?.look(new AbortController().signal));
  expect(findings).toContain('no release can be pulled');
  expect(findings).not.toContain('kubelet');
});
