/**
 * A process that records changes in the database at its first argument, as a daemon does in rounds,
 * and writes each step as a line of JSON, and what is logged. A step that fails is
 * tried again, at most for 5 s.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { openState } from '../../../src/store/database/open-state.ts';

const [path = ''] = process.argv.slice(2);
const { signal } = new AbortController();
const tell = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`);
const log = { ...silentLog, error: (_fields: object, message: string) => tell({ step: 'log', message }) };
const state = openState({ path, standbyDirectory: `${path}-standby`, revive: reviveBundle, log, now: 0 });

async function step(kind: string): Promise<void> {
  const ends = Date.now() + 5_000;
  for (let isRecorded = false; ; ) {
    try {
      if (!isRecorded) state.store.append({ at: 0, kind, message: kind });
      isRecorded = true;
      // The sync of that change begins.
      await delay(0);
      // A change that is followed by a checkpoint.
      state.store.setDocument('floors', kind);
      await state.store.settled(signal);
      return tell({ step: kind });
    } catch (error) {
      const { code, message } = error instanceof AppError ? error : { code: 'none', message: String(error) };
      tell({ step: kind, error: { code, message }, trouble: state.store.trouble() });
      if (Date.now() > ends) return;
    }
    await delay(200);
  }
}

for (const kind of ['first', 'second', 'third', 'last']) await step(kind);
// As a kill: nobody could be told of errors at the end.
process.exit();
