import { describe, expect, it } from 'vitest';
import type { CommandAdapters } from '../../../../src/cli/context/command-adapters.ts';
import type { FleetView } from '../../../../src/domain/fleet/fleet-view.ts';
import type { CheckedImage } from '../../../../src/domain/report/content-report.ts';
import { sampleReport } from '../../../support/bus/fake-backend.ts';
import { NOON } from '../../../support/daemon/scenario.ts';
import { runCommand } from '../../../support/run-command.ts';

const IMAGES: readonly CheckedImage[] = [
  {
    image: `quay.example.com/ocp/etcd@sha256:${'5f0c'.repeat(16)}`,
    releases: ['ocp@4.13.7'],
    result: 'damaged',
    found: `sha256:${'8a12'.repeat(16)} is truncated`,
    next: 'It stays until its blobs are at hand: plug in the stick of ocp 4.13.7.',
  },
  {
    image: `quay.example.com/ocp/api@sha256:${'77aa'.repeat(16)}`,
    releases: ['ocp@4.13.7'],
    result: 'whole',
    found: 'every blob has its digest',
    next: '',
  },
];

const report = {
  ...sampleReport(),
  status: 'Preloading ocp 4.13.7 from sdb1: 37/112 images, 5.1 of 16.0 GiB, 84 MiB/s, about 2 min 10 s left',
  operation: 'preloading' as const,
  progress: {
    doneBytes: 5.1 * 2 ** 30,
    totalBytes: 2 ** 34,
    bytesPerSecond: 84 * 2 ** 20,
    images: ['etcd', 'machine-config-operator'],
  },
};

/** What the fleet process tells, once. */
async function* watchFleet(): AsyncGenerator<FleetView> {
  const release = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16) };
  const seenAt = Date.parse('2026-03-04T05:06:07.890Z');
  yield {
    self: 'worker-1',
    apiTrouble: 'it does not answer',
    peers: [],
    nodes: [
      { name: 'worker-1', isAbsent: false, seenAt, status: { version: 1, releases: [{ ...release, phase: 'ready' }] } },
      {
        name: 'worker-2.production.frankfurt.example.com',
        isAbsent: false,
        seenAt: seenAt - 130_000,
        status: { version: 1, releases: [{ ...release, phase: 'held', reason: 'engine/space' }] },
      },
      { name: 'worker-3', isAbsent: true },
    ],
  };
}

const client = {
  report: async () => report,
  checkPulls: async () => undefined,
  reject: async () =>
    "ocp 4.13.9 is rejected: a bundle of this name is not adopted; 'stickpin approve ocp@4.13.9' takes that back.",
  verifyImages: async () => IMAGES,
  getHistory: async () => [
    { at: NOON, kind: 'ready', message: 'ocp 4.13.7 is ready: 112 images present and pinned' },
    {
      at: NOON + 1,
      kind: 'hookFailed',
      message: 'The hook ready (k3s-install.service) of ocp 4.13.7 failed: exit code 1. It is tried again in 30 s',
    },
  ],
};

const adapters = {
  watchFleet,
  supportFacts: async () => [
    {
      file: 'journal.txt',
      about: 'the last 5,000 lines of the journal of stickpin and of the container runtimes',
      text: 'a line',
    },
  ],
  supportSecrets: async () => [],
  packReport: async () => undefined,
  examineNode: async () => [
    { subject: 'settings', verdict: 'ok', message: 'the settings are valid' },
    {
      subject: 'units',
      verdict: 'warning',
      message: 'stickpin.service does not start at boot',
      remedy: 'run systemctl enable stickpin.service',
    },
    {
      subject: 'runtime',
      verdict: 'fault',
      message:
        'containerd reads no mirrors, so that nothing can be pulled from a stick: its configuration sets no config_path',
      remedy: 'set config_path = "/etc/containerd/certs.d" in /etc/containerd/config.toml and restart containerd',
    },
  ],
} as unknown as CommandAdapters;

const SCREENS = [
  ['status'],
  ['list'],
  ['show', 'ocp@4.13.7'],
  ['show', 'ocp'],
  ['history'],
  ['trust', 'list'],
  ['doctor'],
  ['verify-images'],
  ['fleet', 'status'],
  ['report', '--out', '/nonexistent/report.tar.gz'],
  ['reject', 'ocp@4.13.9'],
  ['--help'],
  ['show', '--help'],
] as const;

const screen = async (args: readonly string[], hasColour: boolean) =>
  (await runCommand(args, { terminal: { columns: 80, hasColour }, client, adapters })).stdout;

describe.each(SCREENS.map((args) => [args.join(' '), args] as const))('stickpin %s on a terminal', (name, args) => {
  it('fits 80 columns, and a word that does not has a line of its own', async () => {
    for (const line of (await screen(args, false)).split('\n')) {
      if (line.length > 80) expect(line.trim().split(/\s+/)).toHaveLength(1);
    }
  });

  it('looks as it did, without colours and with them', async () => {
    const file = `screens/${name.replaceAll(/[ @./-]+/g, '-').replace(/^-/, '')}`;
    await expect(await screen(args, false)).toMatchFileSnapshot(`${file}.txt`);
    // The escape character is shown as ^, so that a person can read the file.
    await expect((await screen(args, true)).replaceAll('\u001b', '^')).toMatchFileSnapshot(`${file}.colour.txt`);
  });

  it('has the same words with colours', async () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what colours are made of
    expect((await screen(args, true)).replaceAll(/\u001b\[[\d;]*m/g, '')).toBe(await screen(args, false));
  });
});
