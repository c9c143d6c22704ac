import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { BrowserSession, browserNeed } from '../support/cockpit/browser-session.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { makePackage } from '../support/packages/make-packages.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { stickpinOn } from './machine/product/node.ts';
import { packagesOn } from './machine/product/packages.ts';
import { makeStick } from './machine/qemu/stick.ts';

const USER = 'maria';
const PASSWORD = 'correct horse battery';
/** An emulated machine needs longer for a login than Cockpit waits. */
const COCKPIT = '[basic]\ntimeout = 240\n';

/**
 * The packages of docs/install.md beside Debian's Cockpit, and a browser over TLS: a user who may
 * use sudo logs in. Tests lean on the ones before.
 */
describeMachine(
  'the page in Cockpit on a node',
  { boot: 'cockpit' },
  (machine) => {
    const node = stickpinOn(machine);
    const { bring, run } = packagesOn(machine, 'containerd.service');
    const directory = folderForAll();
    let session: BrowserSession;

    beforeAll(async () => {
      const key = sampleKey();
      await makeSampleBundle({ dir: join(directory, 'medium/stickpin'), keys: [key], schedule: 'manual' });
      await machine().putFile('/etc/stickpin/keys.d/factory-2026.pub', key.publicPem);
    });
    afterAll(() => session?.[Symbol.asyncDispose]());

    const phase = async () => (await node.report()).bundles[0]?.phase;

    async function activate(): Promise<void> {
      await session.click('Activate ocp 4.13.7');
      await session.inDialog('Activate');
    }

    test('is installed by apt, and shows itself after a login', async () => {
      await machine().output('systemctl enable --now containerd.service');
      await bring(inject('deb'));
      await bring(await makePackage('deb', directory, undefined, 'stickpin-cockpit'));
      await run('deb-install');
      await run('cockpit-install');
      await machine().putFile('/etc/cockpit/cockpit.conf', COCKPIT);
      await machine().output(`rm --force /run/nologin; useradd --create-home --groups sudo --shell /bin/bash ${USER}`);
      await machine().output('chpasswd', { input: `${USER}:${PASSWORD}\n` });
      await machine().output('systemctl start cockpit.socket');
      session = await BrowserSession.logIn(`https://127.0.0.1:${await machine().forward(9090)}`, USER, PASSWORD);
      await session.shows(/No bundle yet\. Waiting for a stick/);
      await session.picture('login-idle');
    });

    test('shows the stick, and the release that is ready', async () => {
      const stick = await makeStick({ image: join(directory, 'stick.img'), folder: join(directory, 'medium') });
      await machine().plug(stick);
      await node.untilPinned('ready', 2);
      await session.shows(/ocp 4\.13\.7 is loaded/);
    });

    test('refuses an activation without administrative access', async () => {
      await session.go('releases');
      await activate();
      await session.shows(/You may not do this\s+User 1000 may not/);
      await session.picture('login-refused');
      await session.inDialog('Cancel');
      expect(await phase()).toBe('ready');
    });

    test('activates with it', async () => {
      await session.administer(PASSWORD);
      // It is refused while containerd does not answer.
      await node.untilPinned('ready', 2);
      await activate();
      await session.shows(/Activation of ocp 4\.13\.7 has begun/);
      await node.until('the activation', ({ bundles: [entry] }) => entry?.phase === 'activated');
      await session.go('history');
      await session.shows(/uid 0: activate/);
    });

    test('has nothing that axe objects to inside of Cockpit, in light and dark, on a narrow screen', async () => {
      await session.go('');
      await session.shows(/Releases in use/);
      for (const style of ['light', 'dark'] as const) {
        for (const width of [1_280, 360]) {
          await session.resize(width, 900);
          await session.style(style);
          await session.picture(`login-${style}-${width}`);
          expect(await session.overflow(), `${style} ${width}`).toEqual([]);
        }
        expect(await session.findings(), style).toEqual([]);
      }
    });
  },
  [browserNeed],
);
