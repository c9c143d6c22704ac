import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ResultOf } from '../../../src/api/backend.ts';
import { reportOf } from '../../../src/domain/report/report.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { idleReport } from '../../support/bus/fake-backend.ts';
import { judge, keyIdOf, NOON, observation, stored, TRUST, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode } from '../../support/fake-ports.ts';
import { have } from '../../support/requirements.ts';

const bundle = verified();
const notice = stored(verified({ version: '2026.3.1', sequence: 5, images: {} }));

describe.runIf(have('dbus-daemon'))('show and history over the bus', () => {
  let api: ApiOnBus;
  let document: StatusReport | undefined;
  let events: ResultOf<'getHistory'>;
  let images: ResultOf<'getImageStates'>;

  beforeAll(async () => {
    events = [];
    const none = new AppError({ code: 'engine/no-bundle', message: 'no bundle x@1 is known', disposition: 'reject' });
    api = await startApiOnBus(
      {
        getHistory: async ({ bundle: name }) => {
          if (name === 'x@1') throw none;
          return events;
        },
        getImageStates: async () => images,
      },
      () => document,
    );
  });
  afterAll(async () => {
    await api[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    events = [];
    const node = createFakeNode([notice]);
    await node.start();
    node.plug('sdb1', bundle);
    await node.clock.advance(0);
    document = node.engine.report();
    images = node.engine.imageStates('ocp@4.13.7');
    await node.stop();
  });

  const run = (...args: readonly string[]) => api.run(...args);

  it('show prints members, conditions, and the trust in force', async () => {
    const { exitCode, stdout } = await run('show', 'ocp@4.13.7');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^phase: +activated$/m);
    expect(stdout).toMatch(new RegExp(`^digest: +${bundle.bundleId}$`, 'm'));
    const since = new Date(NOON).toISOString();
    expect(stdout).toMatch(new RegExp(`^Preloaded +True +${since} +AllImagesPresent +2 of 2 images present$`, 'm'));
    expect(stdout).toMatch(/^Verified +True .*SignedByTrustedKeys/m);
    expect(stdout).toContain('Trust in force: trust.require = "signature", trust.threshold = 1\n');
    expect(stdout).toMatch(new RegExp(`^factory-2026 +${keyIdOf('factory-2026')} +trusted +signed this$`, 'm'));
    expect(stdout).not.toMatch(/^conditions:/m);
  });

  it('show prints the next windows where activations wait for them', async () => {
    expect((await run('show', 'ocp@4.13.7')).stdout).not.toContain('windows');
    const text = 'Tue 2026-03-17 12:00 to Tue 2026-03-17 13:00 (UTC)';
    document = document && { ...document, windows: [{ text: 'open now with no end within weeks (UTC)' }, { text }] };
    const { stdout } = await run('show', 'ocp@4.13.7');
    expect(stdout).toContain(`Next windows:\n    open now with no end within weeks (UTC)\n    ${text}\n`);
    expect((await run('show', 'ocp')).stdout).toContain('Next windows:');
    expect(JSON.parse((await run('show', 'ocp@4.13.7', '--json')).stdout).windows).toEqual(document?.windows);
  });

  it('show lists revoked and rotated keys, and files that can not be used', async () => {
    const trust = {
      ...TRUST,
      keys: [{ name: 'abababababab', keyId: 'ab'.repeat(32), broughtBy: notice.bundleId }],
      revoked: [{ keyId: keyIdOf('factory-2026'), revokedBy: notice.bundleId }, { keyId: 'cd'.repeat(32) }],
      problems: ['/etc/stickpin/keys.d/notes.txt is ignored'],
    };
    const observed = observation({
      trust,
      revocations: { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false },
    });
    const { assessment } = judge(observed, [stored(bundle), notice]);
    const progress = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
    document = reportOf({ observed, memory: observed, assessment }, progress);
    const { stdout } = await run('show', bundle.bundleId);
    expect(stdout).toMatch(/^abababababab +(ab){32} +trusted, added by bundle ocp@2026\.3\.1$/m);
    expect(stdout).toMatch(
      new RegExp(`^- +${keyIdOf('factory-2026')} +revoked by ocp@2026\\.3\\.1 +signed this$`, 'm'),
    );
    expect(stdout).toMatch(/^- +(cd){32} +revoked$/m);
    expect(stdout).toContain('/etc/stickpin/keys.d/notes.txt is ignored\n');
  });

  it('show --json has the same for programs', async () => {
    const shown = JSON.parse((await run('show', bundle.bundleId, '--json')).stdout);
    expect(shown).toMatchObject({ name: 'ocp', version: '4.13.7', phase: 'activated', trust: TRUST });
    expect(shown.conditions).toHaveLength(7);
  });

  it('show --images prints each image with its state', async () => {
    const { stdout, exitCode } = await run('show', 'ocp@4.13.7', '--images');
    expect(exitCode).toBe(0);
    const [head, ...rows] = stdout.split('\n').slice(0, -1);
    expect(head).toMatch(/^COMPONENT +NAME +DIGEST +SIZE +PRESENT +PINNED$/);
    const { contents } = bundle;
    expect(rows).toHaveLength(contents.images.length);
    for (const [at, { component = '-', digest, tags }] of contents.images.entries()) {
      expect(rows[at]).toMatch(new RegExp(`^${component} +${tags[0] ?? ''}.* ${digest} .* yes +yes$`));
    }
    const { schemaVersion: _version, ...shown } = JSON.parse(
      (await run('show', 'ocp@4.13.7', '--images', '--json')).stdout,
    );
    expect(shown).toEqual({ name: 'ocp', version: '4.13.7', bundleId: bundle.bundleId, images });
    expect(images[0]?.sizeBytes).toBe(20 * 2 ** 20);
    expect((await run('show', 'ocp@9', '--images')).exitCode).toBe(1);
  });

  it('show finds a rejected bundle by what list calls it, with the reason', async () => {
    const reason = { code: 'bundle/signature', message: 'signature by unknown key 5f0c' };
    const rejected = [{ medium: 'sdb1', path: 'stickpin/ocp-4.13.9-amd64', reason }];
    document = idleReport({ ...document, rejected });
    const listed = await run('list');
    expect(listed.stdout).toMatch(/^ocp-4\.13\.9-amd64 +rejected/m);
    const { exitCode, stdout } = await run('show', 'ocp-4.13.9-amd64');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^phase: +rejected$/m);
    expect(stdout).toMatch(/^medium: +sdb1$/m);
    expect(stdout).toContain('signature by unknown key 5f0c');
    const shown = JSON.parse((await run('show', 'stickpin/ocp-4.13.9-amd64', '--json')).stdout);
    expect(shown).toMatchObject({ phase: 'rejected', medium: 'sdb1', reason });
  });

  it('show takes a notice as well', async () => {
    const { stdout } = await run('show', 'ocp@2026.3.1');
    expect(stdout).toMatch(/^name: +ocp\nversion: +2026\.3\.1$/m);
    expect(stdout).not.toContain('CONDITION');
  });

  it('show fails with the name of an unknown bundle', async () => {
    expect(await run('show', 'ocp@9')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: "stickpin: no bundle ocp@9 is known here or plugged in; 'stickpin list' shows those that are\n",
    });
    expect((await run('show')).exitCode).toBe(2);
  });

  it('history prints a line for each event, without what would upset a terminal', async () => {
    events = [
      { at: NOON, kind: 'mediumFound', message: 'sdb1 found', by: 'daemon' },
      { at: NOON + 1, kind: 'pullFailed', message: 'two\nlines \u001b[2J' },
    ];
    const { stdout, exitCode } = await run('history');
    expect(exitCode).toBe(0);
    expect(stdout.split('\n')).toHaveLength(3);
    expect(stdout).toContain('2026-03-10T12:00:00.000Z  sdb1 found\n');
    expect(stdout).not.toContain('\u001b');
    expect(stdout).not.toContain('(by');
    const json: unknown = JSON.parse((await run('history', 'ocp@4.13.7', '--json')).stdout);
    expect(json).toEqual({
      schemaVersion: 1,
      events: [
        { ...events[0], at: '2026-03-10T12:00:00.000Z' },
        { at: '2026-03-10T12:00:00.001Z', kind: 'pullFailed', message: 'two lines  [2J' },
      ],
    });
  });

  it('history says who did what the daemon did not do by itself', async () => {
    events = [{ at: NOON, kind: 'bundleActivated', message: 'ocp 4.13.7 is activated', by: 'window' }];
    expect((await run('history')).stdout).toBe('2026-03-10T12:00:00.000Z  ocp 4.13.7 is activated (by window)\n');
  });

  it('history without events says so, and is an empty list for programs', async () => {
    expect((await run('history')).stdout).toBe('Nothing has happened yet.\n');
    expect((await run('history', '--json')).stdout).toBe('{"schemaVersion":1,"events":[]}\n');
  });

  it('history of an unknown bundle fails with the reason', async () => {
    expect(await run('history', 'x@1')).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'stickpin: no bundle x@1 is known\n',
    });
  });
});
