import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiMethods } from '../../../src/api/backend.ts';
import {
  BUNDLE,
  busNameOf,
  MANAGER,
  METHODS,
  type MethodContract,
  OBJECT_PATH,
  SERVICE,
} from '../../../src/api/contract.ts';
import { bundleTable, managerTable, type PropertyTable } from '../../../src/api/properties/properties.ts';
import { ApiService } from '../../../src/api/service.ts';
import { fieldsOf } from '../../../src/api/wire-types.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { SystemBus } from '../../../src/host/bus/system-bus.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { VERSION } from '../../../src/platform/version.ts';
import { fakeBackend, sampleReport } from '../../support/bus/fake-backend.ts';
import { type PrivateBus, startPrivateBus } from '../../support/bus/private-bus.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const PAGE = 'docs/busctl.md';
const NAME = 'ocp@4.13.7';
const KEY = '5f0c8a9b1d2e';
const IMAGE = `quay.example.com/ocp/etcd@sha256:${'5f'.repeat(32)}`;

/** What is written behind each method, as busctl takes it. */
const ARGUMENTS: Readonly<Record<keyof ApiMethods, readonly string[]>> = {
  getHistory: [NAME],
  getImages: [NAME],
  getImageStates: [NAME],
  activate: [NAME, '1', 'override', 'b', 'true'],
  rollback: ['ocp'],
  unpin: [NAME, '2', 'removeImages', 'b', 'true', 'force', 'b', 'true'],
  unpinUnclaimed: ['0'],
  cancel: [],
  approve: [NAME],
  reject: [NAME, '1', 'reason', 's', 'too old'],
  prove: [NAME, '1', 'component', 's', 'os'],
  pauseRollOut: [NAME, 'storage is being repaired', '1', 'seconds', 'i', '7200'],
  resumeRollOut: [KEY],
  restoreKey: [KEY],
  revokeKey: [KEY],
  resetStream: ['ocp'],
  checkPulls: [],
  verifyImages: [NAME],
  rescan: [],
  load: ['/mnt/usb'],
};

const ANSWERS: Partial<ApiMethods> = {
  getHistory: async ({ bundle }) => [
    { at: Date.UTC(2026, 2, 10, 12), kind: 'bundleReady', message: `${bundle} is ready: 2 images present and pinned` },
  ],
  getImages: async () => [IMAGE],
  getImageStates: async () => [
    {
      component: 'etcd',
      name: 'quay.example.com/ocp/etcd:3.5.9',
      digest: `sha256:${'5f'.repeat(32)}`,
      sizeBytes: 61_341_696,
      present: true,
      pinned: true,
    },
  ],
  rollback: async () => 'ocp@4.13.6',
  unpinUnclaimed: async () => '2 unclaimed pins were given up by hand',
  approve: async ({ bundle }) => `${bundle} is approved.`,
  reject: async ({ bundle, options: { reason } }) => `${bundle} is rejected (${reason}).`,
  prove: async ({ bundle, options: { component } }) => `${component} of ${bundle} runs.`,
  pauseRollOut: async ({ release }) => `The roll-out of ${release} is paused.`,
  resumeRollOut: async ({ id }) => `Pause ${id} is lifted.`,
  restoreKey: async ({ keyId }) => `The revocation of key ${keyId} is lifted.`,
  revokeKey: async ({ keyId }) => `Key ${keyId} is revoked.`,
  resetStream: async ({ stream }) => `${stream} is reset.`,
  verifyImages: async () => [
    { image: IMAGE, releases: [NAME], result: 'whole', found: 'all blobs are right', next: '' },
  ],
  load: async () => 'usb',
};

/**
 * docs/busctl.md: what busctl prints for each method, property and signal of the service on a
 * private bus. A node with the sample report is behind it. `npx vitest run --config
 * test/vitest.config.ts test/integration/api/busctl-page.test.ts --update` writes the page.
 */
describe.runIf(have('dbus-daemon', 'busctl'))('docs/busctl.md', () => {
  let daemon: PrivateBus;
  let bus: SystemBus;
  let service: ApiService;
  let report: StatusReport = sampleReport();
  const log = createRecordingLog();
  const backend = fakeBackend(ANSWERS, () => report);

  beforeAll(async () => {
    daemon = await startPrivateBus();
    bus = new SystemBus({ clock: systemClock, log, address: daemon.address });
    service = new ApiService(bus, bus, backend, systemClock, log);
    await bus.start(new AbortController().signal);
    await eventually(() => busctl('status', SERVICE));
  });
  afterAll(async () => {
    await service.dispose();
    bus.close();
    await daemon[Symbol.asyncDispose]();
  });

  const busctl = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)('busctl', [`--address=${daemon.address}`, ...args]);
    return stdout.trimEnd();
  };
  /** A command as a person types it, and what it prints. */
  const transcript = async (...args: readonly string[]): Promise<string> => {
    const typed = args.map((word) => (/^[\w./:@-]+$/.test(word) ? word : `'${word}'`)).join(' ');
    return [`$ busctl ${typed}`, ...(await busctl(...args)).split('\n').filter(Boolean)].join('\n');
  };
  const block = (...texts: readonly string[]) => ['```', texts.join('\n').replaceAll(VERSION, '1.0.0'), '```', ''];

  const methodBlock = async (): Promise<readonly string[]> => {
    const shown: string[] = [];
    for (const [key, { args }] of Object.entries<MethodContract>(METHODS)) {
      const signature = fieldsOf(args)
        .map(([, type]) => type.signature)
        .join('');
      const words = ARGUMENTS[key as keyof ApiMethods];
      const behind = signature === '' ? [] : [signature, ...words];
      const name = busNameOf(key);
      shown.push(await transcript('call', SERVICE, OBJECT_PATH, MANAGER, name, ...behind));
    }
    return block(...shown);
  };

  /** Each property once, of the first object that has a value for it. */
  const propertyBlocks = async (
    paths: readonly string[],
    { interface: name, fields }: PropertyTable,
  ): Promise<readonly string[]> => {
    const shown: string[] = [];
    for (const [key] of fields) {
      const tries = paths.map((path) => () => transcript('get-property', SERVICE, path, name, busNameOf(key)));
      const [first, ...others] = tries;
      const text = others.reduce((before, next) => before?.catch(next), first?.());
      shown.push((await text) ?? '');
    }
    return block(...shown);
  };

  /** The signals that busctl shows while an operation ends, without what differs each time. */
  const signals = async (): Promise<readonly string[]> => {
    const match = `type='signal',path='${OBJECT_PATH}'`;
    const monitor = spawn('busctl', [`--address=${daemon.address}`, 'monitor', `--match=${match}`]);
    let text = '';
    let ready = '';
    monitor.stdout.on('data', (data) => (text += String(data)));
    monitor.stderr.on('data', (data) => (ready += String(data)));
    await eventually(() => expect(ready).toContain('Monitoring'));
    report = { ...report, operation: 'preloading' };
    backend.publish(report);
    await eventually(() => expect(text).toContain('"preloading"'));
    report = { ...report, operation: 'idle' };
    backend.publish(report);
    await eventually(() => expect(text).toMatch(/Member=Completed[\s\S]*INT32[\s\S]*\n\n?/));
    monitor.kill();
    const messages = text.split(/^(?=‣)/m).map((one) => one.trim());
    const shown = ['PropertiesChanged', 'Completed'].map((member) =>
      messages.find((one) => one.includes(`Member=${member}`)),
    );
    const stable = shown.map((one = '') =>
      one
        .replace(/ +Cookie=.*$/m, '')
        .replace(/Sender=\S+ {2}/, '')
        .replace(/^ *UniqueName=.*\n/gm, ''),
    );
    return block(`$ busctl monitor --match="${match}"`, ...stable);
  };

  it('shows what busctl prints for each method, property and signal', async () => {
    const bundles = report.bundles.map(({ bundleId }) => `${OBJECT_PATH}/bundle/${bundleId.slice(7)}`);
    const page = [
      '# The D-Bus API with busctl',
      '',
      '`test/integration/api/busctl-page.test.ts` runs these commands against the service on a bus of its',
      'own, with the report of a sample node, and fails when this page differs. [dbus.md](dbus.md) says',
      'what each of them does, and who may call it. Nothing but `busctl` is needed.',
      '',
      '## Methods',
      '',
      ...(await methodBlock()),
      '## Properties of the manager',
      '',
      ...(await propertyBlocks([OBJECT_PATH], managerTable)),
      '## Properties of a bundle',
      '',
      ...(await propertyBlocks(bundles, bundleTable)),
      '## Objects',
      '',
      ...block(await transcript('tree', '--list', SERVICE)),
      '## Signals',
      '',
      ...(await signals()),
    ];
    const text = `${page.join('\n').trimEnd()}\n`;
    for (const name of [MANAGER, BUNDLE]) expect(text).toContain(name);
    await expect(text).toMatchFileSnapshot(`${process.cwd()}/${PAGE}`);
  });
});
