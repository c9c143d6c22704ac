/**
 * A process whose sync of the database at its first argument fails, and which changes the database
 * while that is copied into a new file, or closes it (second argument `close`). Writes each step as
 * a line of JSON.
 */
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { reasonOf } from '../../../src/platform/app-error.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { openState } from '../../../src/store/database/open-state.ts';

const [path = '', end] = process.argv.slice(2);
const { signal } = new AbortController();
const tell = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`);
const told = (_fields: object, message: string) => tell({ step: 'log', message });
const standbyDirectory = `${path}-standby`;
let isRenewing = false;
const log = {
  ...silentLog,
  info: told,
  error: (fields: object, message: string) => {
    told(fields, message);
    isRenewing = message.includes('is copied into a new file');
  },
};
const state = openState({ path, standbyDirectory, revive: reviveBundle, log, now: 0 });

const settle = async () => {
  const error = await state.store.settled(signal).then(() => undefined, reasonOf);
  isRenewing = false;
  return error;
};
const append = (kind: string) => {
  try {
    state.store.append({ at: 0, kind, message: kind });
  } catch (error) {
    tell({ step: kind, error: reasonOf(error) });
  }
};

const settling = settle();
while (!isRenewing) await turn();
if (end === 'close') state.close();
// Each change makes another mirror due, so they are few.
else for (let count = 1; isRenewing && count <= 4; count += 1, await turn()) append(`meanwhile-${count}`);
await settling;
if (end !== 'close') {
  // Longer than the pause before the next copy.
  for (const ends = Date.now() + 20_000; Date.now() < ends && (await settle()) !== undefined; ) await delay(200);
  append('last');
  tell({ step: 'settled', error: await settle(), trouble: state.store.trouble()?.message });
}
const descriptors = readdirSync('/proc/self/fd').flatMap((fd) => {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return [];
  }
});
const databases = descriptors.filter((file) => /state\.db$/.test(file));
tell({ step: 'end', databases, hasStandby: existsSync(standbyDirectory) });
// As a kill: nobody could be told of errors at the end.
process.exit();
