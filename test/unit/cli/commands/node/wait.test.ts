import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import type { ApiClient } from '../../../../../src/api/client.ts';
import { NODE_DOCUMENTS } from '../../../../../src/cli/schema/documents.ts';
import type { StatusReport } from '../../../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../../../src/platform/app-error.ts';
import { idleReport, sampleReport } from '../../../../support/bus/fake-backend.ts';
import { runCommand } from '../../../../support/run-command.ts';

type Bundle = StatusReport['bundles'][number];

const [ADOPTED] = sampleReport().bundles;
const RELEASE = { ...(ADOPTED as Bundle), activationHolds: [] };
delete (RELEASE as { reason?: unknown }).reason;

const withBundle = (over: Partial<Bundle>, report: Partial<StatusReport> = {}) =>
  idleReport({ bundles: [{ ...RELEASE, ...over }], ...report });
const AWAY = new AppError({ code: 'api/unreachable', message: 'The daemon is not running', disposition: 'wait' });

/** Runs `wait` against a daemon that changes from one of these states to the next. */
function run(
  args: readonly string[],
  states: readonly (StatusReport | AppError)[],
  terminal?: { stderrColumns: number },
) {
  const left = [...states];
  let last = left[0];
  let changed: () => void = () => undefined;
  const client: Partial<ApiClient> = {
    watch: async (listener) => {
      changed = listener;
    },
    report: async () => {
      last = left.shift() ?? last;
      if (left.length > 0) setImmediate(() => changed());
      if (last === undefined || last instanceof AppError) throw last;
      return last;
    },
  };
  return runCommand(['wait', ...args], { client, ...(terminal && { terminal }) });
}

describe('stickpin wait', () => {
  it('waits for a stick that has not come, past a restart of the daemon, and says each step once', async () => {
    const { exitCode, stdout, stderr } = await run(
      ['ocp@4.13.7'],
      [
        AWAY,
        idleReport(),
        withBundle({ phase: 'preloading' }),
        withBundle({ phase: 'preloading', images: { total: 2, present: 1, pinned: 0 } }),
        AWAY,
        withBundle({ phase: 'ready' }),
      ],
    );
    expect([exitCode, stdout]).toEqual([0, 'ocp@4.13.7 is ready\n']);
    expect(stderr.split('\n')).toEqual([
      'The daemon is not running. It is waited for.',
      'ocp@4.13.7 is not on this node yet: plug in its stick',
      'ocp@4.13.7 is preloading',
      'The daemon is not running. It is waited for.',
      '',
    ]);
  });

  it('shows how far the preload is in one line of a terminal, which it clears', async () => {
    const progress = { doneBytes: 5 * 2 ** 30, totalBytes: 2 ** 34 };
    const states = [withBundle({ phase: 'preloading' }, { progress }), withBundle({ phase: 'ready' })];
    const { stderr } = await run(['ocp@4.13.7'], states, { stderrColumns: 80 });
    expect(stderr).toBe('\r\u001b[Kocp@4.13.7 is preloading: 5.0 of 16.0 GiB\r\u001b[K');
    const narrow = await run(['ocp@4.13.7'], states, { stderrColumns: 20 });
    expect(narrow.stderr).toBe('\r\u001b[Kocp@4.13.7 is prel…\r\u001b[K');
  });

  it('ends at once with 1 and the reason when the release does not get there', async () => {
    const { exitCode, stdout, stderr } = await run(
      ['ocp@4.13.7', '--for', 'proven'],
      [withBundle({ phase: 'retired' })],
    );
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toContain('ocp@4.13.7 does not become proven: it is retired');
  });

  it('ends with the reason of a bundle that is refused, but not of one for other nodes', async () => {
    const refused = (code: string) => ({
      medium: 'sdb1',
      path: 'stickpin/ocp',
      name: 'ocp@4.13.7',
      reason: { code, message: 'its signature is bad' },
    });
    const bad = await run(['ocp@4.13.7'], [idleReport({ rejected: [refused('bundle/bad-signature')] })]);
    expect([bad.exitCode, bad.stderr]).toEqual([
      1,
      'stickpin: ocp@4.13.7 does not become ready: its signature is bad\n',
    ]);
    const other = idleReport({ rejected: [refused('bundle/arch')] });
    expect((await run(['ocp@4.13.7'], [other, withBundle({ phase: 'ready' })])).exitCode).toBe(0);
  });

  it('ends with 6 after the time, with what the release waits for', async () => {
    const held = withBundle({ phase: 'held', hold: 'space', reason: { code: 'engine/space', message: 'too little' } });
    for (const time of ['0', '20 ms']) {
      const { exitCode, stderr } = await run(['ocp@4.13.7', '--timeout', time], [held]);
      expect(exitCode).toBe(6);
      expect(stderr).toContain('stickpin: ocp@4.13.7 is not ready in time: it is held (space): too little');
    }
  });

  it('asks once with --timeout 0, and ends with 3 when nobody answers', async () => {
    expect((await run(['ocp@4.13.7', '--timeout', '0'], [AWAY])).exitCode).toBe(3);
  });

  it('says once what a person must do for the release or the node, and goes on waiting', async () => {
    const needsPerson = [
      { code: 'M-12', message: 'plug in the stick again', bundle: 'ocp@4.13.7' },
      { code: 'R-01', message: 'the runtime does not run' },
      { code: 'K-03', message: 'its key is unknown', bundle: 'edge@1.0.0' },
    ];
    const held = withBundle({ phase: 'held', hold: 'media' }, { needsPerson });
    for (const name of ['ocp@4.13.7', RELEASE.bundleId]) {
      const { exitCode, stderr } = await run([name], [held, held, withBundle({ phase: 'ready' })]);
      expect(exitCode).toBe(0);
      expect(stderr.split('\n')).toEqual([
        'A person is needed (M-12): plug in the stick again',
        'A person is needed (R-01): the runtime does not run',
        `${name} is held (media)`,
        '',
      ]);
    }
    const { stdout } = await run(['ocp@4.13.7', '--timeout', '0', '--json'], [held]);
    expect(JSON.parse(stdout).needsPerson).toEqual(needsPerson.slice(0, 2));
  });

  it('takes the digest of a bundle', async () => {
    expect((await run([RELEASE.bundleId], [withBundle({ phase: 'ready' })])).exitCode).toBe(0);
  });

  it.each([
    [0, 'reached', withBundle({ phase: 'ready' })],
    [1, 'ended', withBundle({ phase: 'retired' })],
    [6, 'late', idleReport()],
  ] as const)('prints one document, as its schema says, also with exit code %d (%s)', async (code, result, state) => {
    const { exitCode, stdout } = await run(['ocp@4.13.7', '--timeout', '0', '--json'], [state]);
    const document = JSON.parse(stdout);
    expect([exitCode, document.release, document.goal, document.result]).toEqual([code, 'ocp@4.13.7', 'ready', result]);
    expect(v.safeParse(NODE_DOCUMENTS.wait, document).issues).toBeUndefined();
  });

  it.each([
    ['a name alone', ['ocp']],
    ['a bad time', ['ocp@1', '--timeout', 'soon']],
    ['a phase that does not exist', ['ocp@1', '--for', 'happy']],
  ])('refuses %s as wrong usage', async (_what, args) => {
    expect((await run(args, [idleReport()])).exitCode).toBe(2);
  });
});
