import type { Machine } from '../machine.ts';
import { guestNodePath } from './guest-node.ts';

/** Where the lamp writes the colours that it shows, as `red` or `off`. */
const COLOUR = '/run/lamp';
const PROGRAM = '/usr/local/lib/lamp.cjs';

/**
 * The USB lamp of Riso Kagaku, whose driver every Debian has, made by `/dev/uhid` (linux/uhid.h).
 */
const program = `const { openSync, readSync, writeFileSync, writeSync } = require('node:fs');
const [CREATE2, OUTPUT, USB] = [11, 6, 3];
const descriptor = Buffer.from('0600ff0901a101090115002600ff00750895059102c0', 'hex');
const create = Buffer.alloc(280 + 4096);
create.writeUInt32LE(CREATE2, 0);
create.write('lamp', 4);
create.writeUInt16LE(descriptor.length, 260);
create.writeUInt16LE(USB, 262);
create.writeUInt32LE(0x1294, 264);
create.writeUInt32LE(0x1320, 268);
descriptor.copy(create, 280);
const device = openSync('/dev/uhid', 'r+');
writeSync(device, create);
const colours = ['off', 'green', 'red', 'blue', 'cyan', 'yellow', 'magenta', 'white'];
for (const event = Buffer.alloc(4376); ; ) {
  readSync(device, event);
  if (event.readUInt32LE(0) === OUTPUT) writeFileSync('${COLOUR}', colours[event[5]] + '\\n');
}
`;

/** Plugs it in. It shows its lights as `riso_kagaku*:red`, `:green` and `:blue`. */
export async function plugLamp(machine: Machine): Promise<void> {
  await machine.putFile(PROGRAM, program);
  await machine.output(`modprobe --all uhid hid-led && systemd-run --unit=lamp ${guestNodePath} ${PROGRAM}`);
  await machine.untilOutput('the lamp', 'ls /sys/class/leds/riso_kagaku*:red');
}

/** Waits until the lamp shows a colour. */
export async function lampShows(machine: Machine, colour: string): Promise<void> {
  await machine.untilOutput(`the lamp to be ${colour}`, `grep --line-regexp ${colour} ${COLOUR}`);
}
