import { readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { type ApiOnBus, startApiOnBus } from '../../support/bus/api-on-bus.ts';
import { sampleReport } from '../../support/bus/fake-backend.ts';
import { POLKIT_BUS_POLICY, startPolkit } from '../../support/bus/polkit.ts';
import { BrowserSession, cockpitNeeds } from '../../support/cockpit/browser-session.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';

const BUS_POLICY = 'systemd/io.stickpin1.conf';
const DIGEST = `sha256:${'e'.repeat(64)}`;

/** Lets the user `games` reject and nothing else. */
const RULES = `polkit.addRule(function (action, subject) {
  if (action.id == 'io.stickpin1.reject' && subject.user == 'games') return polkit.Result.YES;
});`;
const GAMES = 5;

/** A release that is ready, a preload that runs, and a bundle that waits for approval. */
function report(): StatusReport {
  const sample = sampleReport();
  const [adopted] = sample.bundles;
  if (adopted === undefined) throw new Error('the sample has no bundle');
  const { hold: _, activationHolds: __, cancelled: ___, ...ready } = adopted;
  return {
    ...sample,
    operation: 'preloading',
    progress: { doneBytes: 3e9, totalBytes: 8e9, bytesPerSecond: 84e6, images: ['etcd', 'kube-apiserver'] },
    bundles: [
      { ...ready, phase: 'ready', current: false },
      { ...ready, bundleId: DIGEST, name: '', version: '', phase: 'held', hold: 'approval', current: false },
      { ...ready, bundleId: `sha256:${'f'.repeat(64)}`, version: '4.13.6', phase: 'active', current: true },
      { ...ready, bundleId: `sha256:${'0'.repeat(64)}`, version: '4.13.5', phase: 'superseded', current: false },
    ],
  };
}

interface Caller {
  readonly uid: number | undefined;
}

describe.runIf(have('root', 'dbus-daemon', 'polkit', 'busctl', ...cockpitNeeds))(
  'the buttons of the page in Cockpit',
  () => {
    let api: ApiOnBus;
    let polkit: AsyncDisposable;
    let calls: string[] = [];

    const note =
      (method: string, answer = '') =>
      async (args: object, { uid }: Caller) => {
        const { options, ...texts } = args as { readonly options?: object };
        calls.push([method, ...Object.values({ ...texts, ...options }), `by ${uid}`].join(' '));
        return answer;
      };

    beforeAll(async () => {
      const methods = {
        ...Object.fromEntries(['cancel', 'rescan'].map((name) => [name, note(name)])),
        approve: note('approve', 'It is approved.'),
        reject: note('reject', 'It is rejected.'),
        rollback: note('rollback', 'ocp@4.13.5'),
        activate: async (args: { readonly options?: { readonly override?: boolean } }, call: Caller) => {
          if (args.options?.override) return void (await note('activate')(args, call));
          throw new AppError({
            code: 'engine/activation-held',
            message: 'a barrier <b>comes</b> first',
            disposition: 'reject',
          });
        },
      };
      api = await startApiOnBus(methods, report, [BUS_POLICY, POLKIT_BUS_POLICY]);
      polkit = await startPolkit(api.address, readFileSync('systemd/io.stickpin1.policy', 'utf8'), RULES);
    });
    afterAll(async () => {
      await polkit?.[Symbol.asyncDispose]();
      await api?.[Symbol.asyncDispose]();
    });
    beforeEach(() => {
      calls = [];
    });

    describe('for root', () => {
      const folder = folderForAll();
      let session: BrowserSession;

      beforeAll(async () => {
        session = await BrowserSession.open({ address: api.address, programs: await programs(folder) });
      });
      afterAll(() => session?.[Symbol.asyncDispose]());

      it.each([
        ['', 'Cancel the preload', 'Cancel the preload', 'cancel by 0', 'Every preload is stopped.'],
        ['', 'Rescan', 'Rescan', 'rescan by 0', 'All media and the runtime are read again.'],
        ['', 'Roll back ocp', 'Roll back', 'rollback ocp by 0', 'Activation of ocp@4.13.5 has begun.'],
        ['releases', 'Approve Bundle sha256:eeeeeeeeeeee…', 'Approve', `approve ${DIGEST} by 0`, 'It is approved.'],
        ['releases', 'Reject Bundle sha256:eeeeeeeeeeee…', 'Reject', `reject ${DIGEST} by 0`, 'It is rejected.'],
      ])('%s: %s calls the daemon after a yes, and only then', async (tab, button, yes, call, answer) => {
        await session.go(tab);
        await session.click(button);
        await session.inDialog('Cancel');
        expect(calls).toEqual([]);
        await session.click(button);
        await session.inDialog(yes);
        await eventually(() => expect(calls).toEqual([call]));
        await session.shows(new RegExp(answer.replaceAll('.', '\\.')));
      });

      it('rejects with a reason of at most 200 characters', async () => {
        await session.go('releases');
        await session.click('Reject Bundle sha256:eeeeeeeeeeee…');
        await session.page.keyboard.type(`too old${' x'.repeat(120)}`);
        await session.picture('reject');
        expect(await session.findings()).toEqual([]);
        await session.inDialog('Reject');
        await eventually(() => expect(calls).toHaveLength(1));
        expect(calls[0]).toMatch(new RegExp(`^reject ${DIGEST} too old( x)+ by 0$`));
        expect(calls[0]?.length).toBeLessThan(300);
      });

      it('activates what rules hold only after a second question, which names them', async () => {
        await session.go('releases');
        await session.click('Activate ocp 4.13.7');
        await session.inDialog('Activate');
        await session.shows(/Activate it anyway\?\s+a barrier <b>comes<\/b> first/);
        await session.picture('held');
        expect(calls).toEqual([]);
        await session.inDialog('Activate anyway');
        await eventually(() => expect(calls).toEqual([expect.stringMatching(/^activate sha256:.* true by 0$/)]));
      });

      it('shows what doctor finds, and saves the report', async () => {
        await session.go('doctor');
        await session.click('Check the node');
        await session.shows(/fault\s+crio\s+CRI-O <i>is<\/i> old\s+update it/);
        await session.picture('doctor');
        const saved = await session.saveTo(join(folder, 'saved'));
        await session.click('Make a report');
        await session.shows(/Made stickpin-report-.*\.tar\.gz\. Your browser saves it\./);
        const file = await eventually(async () => {
          const [name] = (await readdir(saved)).filter((one) => one.endsWith('.tar.gz'));
          if (name === undefined) throw new Error('nothing is saved yet');
          return join(saved, name);
        });
        expect(await readFile(file, 'utf8')).toBe('the report\n');
        expect(await session.findings()).toEqual([]);
      });

      it('shows the nodes of the fleet', async () => {
        await session.go('fleet');
        await session.shows(/node-1 \(this node\) ocp 4\.13\.7 preloading 40 %/);
        await session.shows(/<script>x<\/script>\s+not known\s+not yet absent/);
        await session.picture('fleet');
        expect(await session.findings()).toEqual([]);
        expect(session.faults).toEqual([]);
      });
    });

    it('are refused to a user whom polkit does not allow it, in words', async () => {
      await using session = await BrowserSession.open({ address: api.address, uid: GAMES });
      await session.click('Rescan');
      await session.inDialog('Rescan');
      await session.shows(/You may not do this\s+User 5 may not load a medium.*polkit does not allow it/);
      await session.picture('refused');
      expect(await session.findings()).toEqual([]);
      await session.inDialog('Cancel');
      await session.go('releases');
      await session.click('Activate ocp 4.13.7');
      await session.inDialog('Activate');
      await session.shows(/You may not do this/);
      await session.inDialog('Cancel');
      expect(calls).toEqual([]);
      await session.click('Reject Bundle sha256:eeeeeeeeeeee…');
      await session.inDialog('Reject');
      await eventually(() => expect(calls).toEqual([`reject ${DIGEST} by ${GAMES}`]));
      await session.go('doctor');
      await session.click('Check the node');
      await session.shows(/This was not done/);
    });
  },
);

/** A program `stickpin` that prints what the page asks for. */
async function programs(folder: string): Promise<string> {
  const doctor = {
    findings: [
      { subject: 'daemon', message: 'the daemon answers', verdict: 'ok' },
      { subject: 'crio', message: 'CRI-O <i>is</i> old', verdict: 'fault', remedy: 'update it' },
    ],
  };
  const fleet = {
    self: 'node-1',
    nodes: [
      {
        name: 'node-1',
        isAbsent: false,
        status: { releases: [{ name: 'ocp', version: '4.13.7', phase: 'preloading', percent: 40.7 }] },
      },
      { name: '<script>x</script>', isAbsent: true },
    ],
    peers: [{ name: 'node-2', trouble: 'it does not answer' }],
  };
  const script = `case "$*" in
  'doctor --json') printf '%s' '${JSON.stringify(doctor)}'; exit 1 ;;
  'fleet status --json') printf '%s' '${JSON.stringify(fleet)}' ;;
  'report --out '*) echo 'the report' > "$3" ;;
esac`;
  const target = join(folder, 'programs');
  await mkdir(target);
  await writeFile(join(target, 'stickpin'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return target;
}
