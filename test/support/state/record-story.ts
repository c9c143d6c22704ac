/**
 * A process that records the story of `node-files.ts` in the folder at its first argument, and
 * writes each step as a line of JSON when it begins, fails and is done. A step that fails is tried
 * again, as a daemon does in its rounds. Exit code 2: only a restart helps. The second argument
 * says how many steps an earlier process has done.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { AppError, reasonOf } from '../../../src/platform/app-error.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { NodeFiles, STORY } from './node-files.ts';

const [folder = '', doneBefore = '0'] = process.argv.slice(2);
const TRY_MS = 20_000;
const tell = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`);
const told = (_fields: object, message: string) => tell({ log: message });
const node = await NodeFiles.open(folder, { ...silentLog, warn: told, error: told }).catch((error: unknown) => {
  tell({ failed: 'start', code: error instanceof AppError ? error.code : 'none', message: reasonOf(error) });
  process.exit(2);
});
tell({ token: node.token });
for (const step of STORY.slice(Number(doneBefore))) {
  tell({ begun: step.name });
  for (const ends = performance.now() + TRY_MS; ; await delay(50)) {
    try {
      await step.do(node);
      await node.state.store.settled(new AbortController().signal);
      break;
    } catch (error) {
      const { code, disposition } = error instanceof AppError ? error : { code: 'none', disposition: 'fatal' };
      tell({ failed: step.name, code, message: reasonOf(error) });
      if (disposition === 'fatal' || performance.now() > ends) process.exit(2);
    }
  }
  tell({ done: step.name });
}
// As a kill: nothing is closed.
process.exit();
