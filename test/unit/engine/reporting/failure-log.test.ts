import { expect, it } from 'vitest';
import { createFailureLog } from '../../../../src/engine/reporting/event-recorder.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

function logged(play: (failures: ReturnType<typeof createFailureLog>) => void): readonly string[] {
  const log = createRecordingLog();
  play(createFailureLog(log));
  return log.lines.map(({ level, message }) => `${level}: ${message}`);
}

const full = new Error('the disk is full');

it('logs a failure that repeats only once', () => {
  expect(
    logged(({ failed }) => {
      failed(full);
      failed(full);
    }),
  ).toEqual(['warn: the disk is full. It is retried automatically']);
});

it('logs a failure with another reason', () => {
  expect(
    logged(({ failed }) => {
      failed(full);
      failed(new Error('the disk is read-only'));
      failed(full);
    }),
  ).toHaveLength(3);
});

it('logs the same failure again after a success', () => {
  expect(
    logged(({ failed, succeeded }) => {
      failed(full);
      succeeded();
      failed(full);
    }),
  ).toHaveLength(2);
});
