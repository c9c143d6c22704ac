import { createStoredState } from '../../../src/app/command-line/stored-state.ts';
import { defaultSettings } from '../../../src/domain/settings/settings.ts';

/** A program that prints why the database in the folder of its argument can't be read. */
const [, , stateDirectory = ''] = process.argv;
const stored = createStoredState(async () => ({ ...defaultSettings.paths, state_dir: stateDirectory }));
stored.records(new AbortController().signal).then(
  () => process.stdout.write('it can be read\n'),
  (error: Error) => process.stdout.write(`${error.message}\n`),
);
