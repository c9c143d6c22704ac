import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { NODE_HOOKS } from '../../../src/domain/settings/hook-units.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

const SCRIPT = 'docs/examples/stickpin-lights';
/** struct input_event: 16 bytes of time, EV_SND, SND_TONE, and the frequency. */
const EVENT_BYTES = 24;

function madeBox() {
  const folder = temporaryFolder();
  const leds = join(folder, 'leds');
  const fileOf = (light: string, name: string) => join(leds, `box:${light}:user`, name);
  for (const light of ['amber', 'green', 'red', 'blue']) {
    mkdirSync(join(leds, `box:${light}:user`), { recursive: true });
    writeFileSync(fileOf(light, 'max_brightness'), '255\n');
    writeFileSync(fileOf(light, 'brightness'), '0\n');
    writeFileSync(fileOf(light, 'trigger'), 'none\n');
  }
  const speaker = join(folder, 'speaker');
  writeFileSync(speaker, '');
  return {
    run: (hook: string) => {
      writeFileSync(speaker, '');
      const lights = { WORK: '*:amber:*', DONE: '*:green:*', FAULT: '*:red:*' };
      const env = { PATH: process.env.PATH, STICKPIN_HOOK: hook, LEDS: leds, SPEAKER: speaker, ...lights };
      execFileSync('/bin/sh', [SCRIPT], { env });
    },
    stateOf: (light: string) => {
      const [trigger, brightness] = ['trigger', 'brightness'].map((name) => readFileSync(fileOf(light, name), 'utf8'));
      if (trigger === 'timer\n') return 'blinks';
      return brightness === '255\n' ? 'on' : 'off';
    },
    tones: () => {
      const bytes = readFileSync(speaker);
      const count = bytes.length / EVENT_BYTES;
      return Array.from({ length: count }, (_, at) => {
        const event = bytes.subarray(at * EVENT_BYTES, (at + 1) * EVENT_BYTES);
        expect([event.readUInt16LE(16), event.readUInt16LE(18)]).toEqual([0x12, 2]);
        return event.readInt32LE(20);
      });
    },
  };
}

describe('the example for lights and the speaker', () => {
  it('shows each event of a stick, and leaves other lights alone', () => {
    const box = madeBox();
    const seen = ['plugged', 'preloading', 'removable', 'removed'].map((hook) => {
      box.run(hook);
      return [hook, ...['amber', 'green', 'red', 'blue'].map(box.stateOf), box.tones().length];
    });
    expect(seen).toEqual([
      ['plugged', 'blinks', 'off', 'off', 'off', 2],
      ['preloading', 'blinks', 'off', 'off', 'off', 0],
      ['removable', 'off', 'on', 'off', 'off', 4],
      ['removed', 'off', 'off', 'off', 'off', 0],
    ]);
  });

  it('keeps a fault until the next stick, and plays a tone and its end', () => {
    const box = madeBox();
    box.run('rejected');
    expect(box.tones()).toEqual([1000, 0, 1000, 0, 1000, 0]);
    box.run('removed');
    expect(box.stateOf('red')).toBe('on');
    box.run('plugged');
    expect(box.stateOf('red')).toBe('off');
    box.run('held');
    expect(box.stateOf('red')).toBe('blinks');
  });

  it('knows all hooks of the node, and needs no light', () => {
    const script = readFileSync(SCRIPT, 'utf8');
    const unit = readFileSync(`${SCRIPT}.service`, 'utf8');
    for (const hook of NODE_HOOKS) {
      expect(script).toMatch(new RegExp(`^ .*\\b${hook}\\b.*\\)`, 'm'));
      expect(unit.split('\n')[0]).toContain(hook);
      const env = { PATH: process.env.PATH, STICKPIN_HOOK: hook, LEDS: '/nowhere', SPEAKER: '/nowhere/speaker' };
      execFileSync('/bin/sh', [SCRIPT], { env: { ...env, WORK: 'a', DONE: 'b', FAULT: 'c' } });
    }
  });
});
