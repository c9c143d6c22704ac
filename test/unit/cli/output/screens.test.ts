import { describe, expect, it } from 'vitest';
import type { ApiClient } from '../../../../src/api/client.ts';
import type { CommandAdapters } from '../../../../src/cli/context/command-adapters.ts';
import type { FleetView } from '../../../../src/domain/fleet/node-status.ts';
import type { CheckedImage } from '../../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { VERSION } from '../../../../src/platform/version.ts';
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

/** What the fleet process tells of a node that has the release and is alone, once. */
async function* watchOne(): AsyncGenerator<FleetView> {
  const release = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' } as const;
  yield {
    self: 'worker-1',
    peers: [],
    nodes: [{ name: 'worker-1', isAbsent: false, status: { version: 1, releases: [release] } }],
  };
}

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
  approve: async () => 'ocp@4.13.7 (sha256:aaaa…) is approved.',
  activate: async () => undefined,
  rollback: async () => 'ocp@4.13.6',
  cancel: async () => undefined,
  prove: async () => 'ocp@4.13.7 is proven.',
  rescan: async () => undefined,
  load: async () => '/mnt/nas/bundles',
  unpin: async () => 'ocp@4.13.6 is no longer pinned',
  unpinUnclaimed: async () => '2 unclaimed pins are given up; their images stay',
  revokeKey: async () => 'Key abababababab is revoked.',
  restoreKey: async () => 'Key abababababab is trusted again.',
  resetStream: async () => 'Stream ocp is reset: older bundles may be adopted again.',
  watch: async () => undefined,
  getImageStates: async () => [
    {
      component: 'etcd',
      name: 'quay.example.com/ocp/etcd:3.5.9',
      digest: `sha256:${'5f0c'.repeat(16)}`,
      sizeBytes: 61_341_696,
      present: true,
      pinned: true,
    },
    {
      name: 'quay.example.com/ocp/machine-config-operator',
      digest: `sha256:${'77aa'.repeat(16)}`,
      sizeBytes: 205_520_896,
      present: false,
      pinned: false,
    },
  ],
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
  supportSources: [
    {
      file: 'journal-stickpin-clear-mirrors.txt',
      about: 'the journal of stickpin-clear-mirrors.service',
      collect: async () => 'a line',
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

const held = new AppError({
  code: 'engine/activation-held',
  message:
    'the activation of ocp 4.13.7 is held: its rule "from" allows it only from >=4.13.0, and the current release is 4.12.9; it is activated after a confirmation only',
  disposition: 'reject',
});
const gone = new AppError({
  code: 'api/unreachable',
  message: "The D-Bus system bus can't be reached, so that the stickpin daemon can't be asked",
  disposition: 'wait',
});
const noBundle = new AppError({
  code: 'engine/no-bundle',
  message: 'no bundle ocp@9 is known here or plugged in; list shows those that are, with reasons',
  disposition: 'reject',
});
const denied = new AppError({ code: 'api/denied', message: 'Only root may do this', disposition: 'reject' });
const refuse = (error: AppError) => ({ client: { ...client, activate: () => Promise.reject(error) } });
const away = { client: { ...client, report: () => Promise.reject(gone) } };
const stopped = {
  ...away,
  adapters: {
    ...adapters,
    storedState: {
      report: async () => ({ report, writtenAt: '2026-03-04T04:00:00.000Z', bootId: 'a', isFromBefore: true }),
    },
  } as unknown as CommandAdapters,
};
const faulty = {
  client: {
    ...client,
    report: async () => ({
      ...sampleReport(),
      status: 'The container runtime does not answer: no socket. Start it; stickpin continues automatically.',
      runtime: { reachable: false, reason: 'no socket' },
    }),
  },
};
const alone = { adapters: { ...adapters, watchFleet: watchOne } as unknown as CommandAdapters };

/** Settings as an administrator wrote them, below the folder of the project. */
const settingsOf = (name: string) => ({ settings: { fragments: [{ file: `test/unit/cli/output/settings/${name}` }] } });

/**
 * Screens of the same commands in other states: the name of the file, the command, and the state.
 */
const STATES: readonly (readonly [string, readonly string[], Parameters<typeof runCommand>[1]])[] = [
  ['status-with-fault', ['status'], faulty],
  ['status-stopped', ['status'], stopped],
  ['list-stopped', ['list'], stopped],
  ['activate-yes', ['activate', 'ocp@4.13.7'], { ...refuse(held), confirm: async () => false }],
  ['activate-alone', ['activate', 'ocp@4.13.7'], refuse(held)],
  ['activate-unknown', ['activate', 'ocp@9'], refuse(noBundle)],
  ['activate-denied', ['activate', 'ocp@4.13.7'], refuse(denied)],
  ['cancel-unreachable', ['cancel'], { client: { cancel: () => Promise.reject(gone) } }],
  ['trust-revoke-alone', ['trust', 'revoke', 'ab'.repeat(8)], {}],
  ['fleet-wait-done', ['fleet', 'wait', 'ocp@4.13.7', '--timeout', '0'], alone],
  ['config-show-own', ['config', 'show'], settingsOf('own.toml')],
  ['config-check-wrong-value', ['config', 'check'], settingsOf('wrong-value.toml')],
  ['config-check-unknown-key', ['config', 'check'], settingsOf('unknown-key.toml')],
  ['config-check-no-toml', ['config', 'check'], settingsOf('no-toml.toml')],
  ['bundle-verify-nothing', ['bundle', 'verify', '/nonexistent/stick', '--keys', '/nonexistent/keys'], {}],
  ['bundle-inspect-nothing', ['bundle', 'inspect', '/nonexistent/stick'], {}],
];

const SCREENS = [
  ['status'],
  ['list'],
  ['explain', 'm12'],
  ['explain', 'M-99'],
  ['show', 'ocp@4.13.7'],
  ['show', 'ocp'],
  ['show', 'ocp@4.13.7', '--images'],
  ['history'],
  ['trust', 'list'],
  ['doctor'],
  ['verify-images'],
  ['fleet', 'status'],
  ['report', '--out', '/nonexistent/report.tar.gz'],
  ['reject', 'ocp@4.13.9'],
  ['approve', 'ocp@4.13.7'],
  ['activate', 'ocp@4.13.7'],
  ['rollback'],
  ['cancel'],
  ['prove', 'ocp@4.13.7'],
  ['rescan'],
  ['load', '/mnt/nas/bundles'],
  ['unpin', 'ocp@4.13.6'],
  ['unpin'],
  ['unpin', '--unclaimed', '--force'],
  ['trust', 'revoke', 'abababababab', '--force'],
  ['trust', 'restore', 'abababababab', '--force'],
  ['trust', 'reset', 'ocp', '--force'],
  ['config', 'show'],
  ['config', 'check'],
  ['fleet', 'wait', 'ocp@4.13.7', '--timeout', '0'],
  ['version'],
  ['nonsense'],
  ['--help'],
  ['bundle', '--help'],
  ['bundle', 'create', '--help'],
  ['bundle', 'verify', '--help'],
  ['bundle', 'write', '--help'],
  ['trust', '--help'],
  ['activate', '--help'],
  ['show', '--help'],
] as const;

type State = Parameters<typeof runCommand>[1];

/** What both streams show, stdout first. */
const screen = async (args: readonly string[], hasColour: boolean, state: State = {}) => {
  const terminal = { columns: 80, hasColour, stderrColumns: 80, stderrHasColour: hasColour };
  const { stdout, stderr } = await runCommand(args, { terminal, client, adapters, ...state });
  // Its screens stay the same in the next version.
  return `${stdout}${stderr}`.replace(new RegExp(`^(Report of stickpin )?${VERSION}\\b`), '$1VERSION');
};

const fileOf = (args: readonly string[]) =>
  args
    .join(' ')
    .replaceAll(/[ @./-]+/g, '-')
    .replace(/^-/, '');
const CASES: readonly (readonly [string, readonly string[], State])[] = [
  ...SCREENS.map((args) => [fileOf(args), args, {}] as const),
  ...STATES,
];

describe.each(CASES)('the screen %s (stickpin %j)', (name, args, state) => {
  it('fits 80 columns, and a word that does not has a line of its own', async () => {
    for (const line of (await screen(args, false, state)).split('\n')) {
      if (line.length > 80) expect(line.trim().split(/\s+/)).toHaveLength(1);
    }
  });

  it('looks as it did, without colours and with them', async () => {
    const file = `screens/${name}`;
    await expect(await screen(args, false, state)).toMatchFileSnapshot(`${file}.txt`);
    // The escape character is shown as ^, so that a person can read the file.
    const coloured = (await screen(args, true, state)).replaceAll('\u001b', '^');
    await expect(coloured).toMatchFileSnapshot(`${file}.colour.txt`);
  });

  it('has the same words with colours', async () => {
    const coloured = await screen(args, true, state);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what colours are made of
    expect(coloured.replaceAll(/\u001b\[[\d;]*m/g, '')).toBe(await screen(args, false, state));
  });
});

/** Documents that programs read, each with the state of the screen of that name. */
const DOCUMENTS: readonly (readonly [string, readonly string[], State])[] = [
  ...(
    [
      ['status'],
      ['list'],
      ['show', 'ocp@4.13.7'],
      ['show', 'ocp'],
      ['show', 'ocp@4.13.7', '--images'],
      ['show', 'ocp@2026.3.1'],
      ['show', 'stickpin/a'],
      ['show', 'ocp@4.13.9'],
      ['history'],
      ['trust', 'list'],
      ['doctor'],
      ['verify-images'],
      ['fleet', 'status'],
      ['config', 'show'],
    ] as const
  ).map((args) => [fileOf(args), args, {}] as const),
  ...STATES.filter(([name]) => ['status-stopped', 'list-stopped', 'status-with-fault'].includes(name)),
];

it.each(DOCUMENTS)('the document %s (stickpin %j --json) is one line, as it was', async (name, args, state) => {
  const { stdout } = await runCommand([...args, '--json'], { client, adapters, ...state });
  const document: unknown = JSON.parse(stdout);
  expect(stdout).toBe(`${JSON.stringify(document)}\n`);
  await expect(`${JSON.stringify(document, null, 2)}\n`).toMatchFileSnapshot(`screens/${name}.json`);
});

it('asks on one line, with what holds it', async () => {
  let asked = '';
  const confirm = async (question: string) => {
    asked = question;
    return true;
  };
  const activate: ApiClient['activate'] = async ({ options }) => {
    if (options.override !== true) throw held;
  };
  await runCommand(['activate', 'ocp@4.13.7'], { client: { activate }, confirm, adapters });
  expect(asked).toMatch(/^If you activate ocp@4\.13\.7, /);
  expect(asked.endsWith(` But ${held.message}. Activate it anyway?`)).toBe(true);
});
