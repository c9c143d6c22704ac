import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { consoleText } from '../../src/domain/report/console-text.ts';
import { makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { flipByte } from '../support/files/flip-byte.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { lampShows, plugLamp } from './machine/product/usb-lamp.ts';
import { makeStick, type Stick } from './machine/qemu/stick.ts';

const MIB = 1024 * 1024;
const LIGHTS = 'stickpin-lights.service';
const HOOKS = ['plugged', 'preloading', 'removable', 'held', 'rejected', 'failed', 'removed'];
const configuration = ['[console]', 'vt = 8', '[hooks]', ...HOOKS.map((hook) => `${hook} = "${LIGHTS}"`)].join('\n');
/** A light of the keyboard, which every machine has, and two of a lamp. */
const LIGHT_NAMES = 'Environment=WORK=input*::scrolllock DONE=riso_kagaku*:green FAULT=riso_kagaku*:red';

/** Leaves 16 MiB free. */
const FILL_DISK = 'fallocate --length $(($(stat --file-system --format="%a * %S" /) - 16 * 1024 * 1024)) /var/full';

/** The rows of large letters. */
function drawn(words: string): string[] {
  const advice = { action: 'none' as const, words, text: '' };
  return consoleText({ advice, operation: 'idle', progress: { doneBytes: 0, totalBytes: 0 } }).split('\n');
}

/**
 * What somebody sees who stands before the machine and has no login. Tests lean on the ones
 * before.
 */
describeMachine('the screen and the lights of a node', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  const screens = process.env.STICKPIN_TEST_SCREENS ?? directory;
  let stick: Stick;

  /** A stick with a release of two images. */
  async function stickOf(version: string, { keys = [key], isDamaged = false } = {}): Promise<Stick> {
    const folder = join(directory, version);
    const images = ['etcd', 'api'].map((name) => ({
      reference: `quay.example.com/ocp/${name}:${version}`,
      image: sampleImage({ seed: name, layers: [sampleLayer({ seed: `${name}-${version}`, sizeBytes: 16 * MIB })] }),
    }));
    const sequence = Number(version.split('.')[2]);
    const { path } = await makeSampleBundle({ dir: join(folder, 'stickpin'), version, sequence, keys, images });
    const blobs = isDamaged ? images.flatMap(({ image }) => image.layers) : [];
    for (const { digest } of blobs) flipByte(join(path, 'blobs/sha256', digest.replace('sha256:', '')));
    return makeStick({ image: join(directory, `${version}.img`), folder });
  }

  beforeAll(async () => {
    stick = await stickOf('4.13.7');
  });

  /** Until a terminal shows these words in large letters and, at the same time, these texts. */
  const shows = (number: number, words: string, ...texts: readonly string[]) =>
    machine().until(`${words} on terminal ${number}`, async () => {
      const screen = await machine().terminal(number);
      const read = screen.replace(/\s+/g, ' ');
      const isShown = drawn(words).every((row) => screen.includes(row)) && texts.every((text) => read.includes(text));
      if (!isShown) throw new Error(`it shows\n${screen}`);
      return true;
    });
  const isOnScreen = (name: string) =>
    machine().untilOutput(`${name} on the screen`, `grep --quiet --line-regexp ${name} /sys/class/tty/tty0/active`);

  async function picture(name: string): Promise<void> {
    const path = join(screens, `${name}.png`);
    await machine().screenshot(path);
    expect(readFileSync(path).subarray(1, 4).toString()).toBe('PNG');
  }

  test('has a login prompt with what stickpin says above it', async () => {
    await machine().putFile('/usr/local/bin/stickpin-lights', readFileSync('docs/examples/stickpin-lights'), 0o755);
    const unit = readFileSync(`docs/examples/${LIGHTS}`, 'utf8').replace(/^Environment=.*$/m, LIGHT_NAMES);
    await machine().putFile(`/etc/systemd/system/${LIGHTS}`, unit);
    await plugLamp(machine());
    await machine().output('systemctl unmask getty@tty1.service && systemctl start getty@tty1.service');
    await machine().output('systemctl enable --now crio.service');
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem }, configuration });
    await machine().output('systemctl daemon-reload && systemctl enable --now stickpin-console.service');
    await shows(1, 'IDLE', 'No bundle yet.', 'node1 login:');
    await shows(8, 'IDLE');
    await isOnScreen('tty1');
    await picture('1-idle');
  });

  test('says to leave the stick in, with a bar, on both terminals, and comes to the screen', async () => {
    const plugged = await machine().plug(stick, { bytesPerSecond: MIB / 4 });
    await shows(1, 'LEAVE THE STICK IN', 'ocp 4.13.7');
    await shows(8, 'LEAVE THE STICK IN', '%');
    await isOnScreen('tty8');
    await machine().untilOutput(
      'the light of the keyboard',
      'test 0 != "$(cat /sys/class/leds/input*::scrolllock/brightness)"',
    );
    await picture('2-leave-in');
    await plugged.unplug();
  });

  test('says to plug it in again when it was pulled too early, and gives the screen back', async () => {
    await shows(1, 'PLUG IN THE STICK AGAIN');
    await isOnScreen('tty1');
    await picture('3-pulled');
  });

  test('says that it is done', async () => {
    const again = await machine().plug(stick);
    await node.until('activation', (report) => report.bundles[0]?.phase === 'activated');
    await shows(1, 'DONE');
    await shows(8, 'DONE', 'ocp 4.13.7');
    await lampShows(machine(), 'green');
    await picture('4-done');
    await again.unplug();
    await isOnScreen('tty1');
    await lampShows(machine(), 'off');
  });

  test.each([
    // Before others wait for a stick: what they need comes first.
    ['signed by a stranger', '4.13.9', { keys: [sampleKey('stranger')] }, 'CALL SUPPORT', 'K-03', 'does not know'],
    ['damaged', '4.13.8', { isDamaged: true }, 'PLUG IN ANOTHER STICK', 'M-12', '4.13.8 needs an undamaged copy'],
    ['larger than the free space', '4.13.10', {}, 'CALL SUPPORT', 'D-01', 'space for ocp 4.13.10'],
  ])('says what to do with a release that is %s, and its code', async (_what, version, how, words, code, text) => {
    if (code === 'D-01') await machine().output(FILL_DISK);
    const plugged = await machine().plug(await stickOf(version, how));
    await shows(8, words, text, `Code for the support: ${code}`);
    await shows(1, words);
    await lampShows(machine(), 'red');
    await picture(`5-${code}`);
    await plugged.unplug();
    await isOnScreen('tty1');
  });

  test('leaves the screen to whoever changed it', async () => {
    const plugged = await machine().plug(stick);
    await isOnScreen('tty8');
    await machine().output('systemctl start getty@tty2.service && chvt 2 2>/dev/null || busybox chvt 2');
    await plugged.unplug();
    await node.until('the stick to be gone', ({ media }) => media.every(({ kind }) => kind !== 'stick'));
    await isOnScreen('tty2');
  });

  test('takes no terminal from anybody', async () => {
    await machine().output('systemctl start getty@tty9.service');
    const file = '/etc/stickpin/stickpin.toml.d/60-vt.toml';
    await machine().putFile(file, '[console]\nvt = 9\n');
    await machine().untilOutput(
      'the refusal',
      "systemctl status stickpin-console.service | grep --fixed-strings '/dev/tty9 is in use'",
    );
    await machine().output('systemctl is-active getty@tty9.service');
  });
});
